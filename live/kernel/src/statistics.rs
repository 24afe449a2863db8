//! How connections stand, as their sockets say.

use std::io::Read;

use libbpf_rs::{Iter, Object};
use protocol::Connection;
use units::{Bytes, Rate, Span};

use crate::layout::Fields;
use crate::objects::program_mut;
use crate::{Error, Namespace};

const RECORD: usize = 120;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Both ends may send.
    Established,
    /// One end has said that it is done.
    Closing,
}

/// How a connection stands at the end `connection.source`. Amounts are octets of payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The direction that this end sends in.
    pub connection: Connection,
    /// The inode of its network namespace, as `stat -L /run/netns/NAME` shows it.
    pub namespace: u32,
    /// Where it is in its life.
    pub state: State,
    /// The inode of its socket, as `/proc/PID/fd` shows it; `None`: no process has it any more.
    pub inode: Option<u64>,
    /// The inode of the control group that its process was in when it made it.
    pub cgroup: u64,
    /// What the other end has acknowledged since the beginning.
    pub delivered: Bytes,
    /// What this end has received since the beginning.
    pub received: Bytes,
    /// What the application has written and has not been sent.
    pub unsent: Bytes,
    /// What was sent and is not acknowledged.
    pub in_flight: Bytes,
    /// What was received and the application has not read.
    pub unread: Bytes,
    /// Smoothed round-trip time.
    pub round_trip: Span,
    /// Segments sent again.
    pub retransmissions: u32,
    /// Retransmission timers that ended.
    pub timeouts: u32,
    /// Congestion window, in segments.
    pub window: u32,
    /// The payload of a full segment.
    pub segment: Bytes,
    /// The scale of the windows that this end advertises.
    pub scale: u8,
    /// The rate that it is held to, counted in payload.
    pub pacing: Option<Rate>,
}

impl Statistics {
    fn read(record: &[u8]) -> Self {
        let mut fields = Fields(record);
        let connection = fields.connection();
        let namespace = fields.u32();
        let [delivered, received] = [fields.u64(), fields.u64()].map(Bytes::new);
        let [pacing, inode, cgroup] = [fields.u64(), fields.u64(), fields.u64()];
        let [unsent, in_flight, unread] =
            [fields.u32(), fields.u32(), fields.u32()].map(|octets| Bytes::new(octets.into()));
        Self {
            connection,
            namespace,
            inode: (inode > 0).then_some(inode),
            cgroup,
            delivered,
            received,
            unsent,
            in_flight,
            unread,
            round_trip: Span::from_micros(fields.u32().into()),
            retransmissions: fields.u32(),
            timeouts: fields.u32(),
            window: fields.u32(),
            segment: Bytes::new(fields.u32().into()),
            scale: u8::try_from(fields.u32()).unwrap_or(0),
            state: match fields.u32() {
                1 => State::Established,
                _ => State::Closing,
            },
            pacing: (pacing > 0).then(|| Rate::of(Bytes::new(pacing), Span::from_secs(1))),
        }
    }
}

/// The open connections of some namespaces that the programs of the object know.
pub(crate) fn all(object: &Object, namespaces: &[Namespace]) -> Result<Vec<Statistics>, Error> {
    let mut all = Vec::new();
    for namespace in namespaces {
        let records = iterate(object, "report", namespace)?;
        all.extend(records.chunks_exact(RECORD).map(Statistics::read));
    }
    Ok(all)
}

/// What a program writes that sees each TCP socket of a namespace.
pub(crate) fn iterate(
    object: &Object,
    name: &'static str,
    namespace: &Namespace,
) -> Result<Vec<u8>, Error> {
    namespace.visit(|| {
        let iterate = program_mut(object, name).attach();
        let link = iterate.map_err(Error::bpf("iterate over sockets"))?;
        let mut written = Vec::new();
        Iter::new(&link)
            .map_err(Error::bpf("read sockets"))?
            .read_to_end(&mut written)
            .map_err(Error::file("sockets"))?;
        Ok(written)
    })
}
