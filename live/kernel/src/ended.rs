//! Connections that have ended, as the programs tell them.

use std::sync::mpsc::{Receiver, channel};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, RingBuffer, RingBufferBuilder};
use protocol::Connection;
use units::Bytes;

use crate::layout::Fields;
use crate::objects::map;
use crate::{Error, Namespace};

const RECORD: usize = 56;
/// What the kernel puts before each record.
const HEAD: usize = 8;

/// A connection that has ended, at its end `connection.source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The direction that this end sent in.
    pub connection: Connection,
    /// The inode of its network namespace.
    pub namespace: u32,
    /// Octets of payload that left, whether or not they were acknowledged; what was sent again counts once. The SYN may
    /// count as one, and the FIN.
    pub sent: Bytes,
    /// The inode of the control group that its process was in when it made it.
    pub cgroup: u64,
}

impl Ended {
    fn read(record: &[u8]) -> Option<Self> {
        let mut fields = (record.len() == RECORD).then_some(Fields(record))?;
        let (connection, namespace) = (fields.connection(), fields.u32());
        let (sent, cgroup) = (Bytes::new(fields.u64()), fields.u64());
        Some(Self { connection, namespace, sent, cgroup })
    }
}

/// Those that wait to be asked for.
pub(crate) struct Endings {
    ring: RingBuffer<'static>,
    told: Receiver<Ended>,
    // What the ring reads from.
    counter: MapHandle,
    /// How many fit, at most.
    most: usize,
    /// How many had found no room when it was asked last.
    lost: u64,
}

impl Endings {
    /// The size of a ring, in octets, that holds so many: a power of two, and whole pages.
    pub(crate) fn size(most: u32) -> u32 {
        let octets = most.saturating_mul(u32::try_from(RECORD + HEAD).unwrap_or(u32::MAX));
        octets.clamp(4_096, 1 << 30).next_power_of_two()
    }

    /// Those of a loaded object.
    pub(crate) fn of(object: &Object) -> Result<Self, Error> {
        let making = "read a BPF ring buffer";
        let (tell, told) = channel();
        let ended = map(object, "ended");
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&ended, move |record| {
                if let Some(ended) = Ended::read(record) {
                    let _ = tell.send(ended); // the receiver lives as long as the ring
                }
                0
            })
            .map_err(Error::bpf(making))?;
        let ring = builder.build().map_err(Error::bpf(making))?;
        let most = ended.max_entries() as usize / (HEAD + RECORD);
        let counter = MapHandle::try_from(&map(object, "lost"));
        let counter = counter.map_err(Error::bpf("hold the counter of lost endings"))?;
        Ok(Self { ring, told, counter, most, lost: 0 })
    }

    /// Those of some namespaces that ended since this was asked last, and how many more of any there were.
    pub(crate) fn take(&mut self, namespaces: &[Namespace]) -> Result<(Vec<Ended>, u64), Error> {
        let inodes: Vec<u64> = namespaces.iter().map(Namespace::inode).collect::<Result<_, _>>()?;
        // No more than fit, however fast others end meanwhile: they are told the next time.
        let consumed = self.ring.consume_raw_n(self.most);
        if consumed < 0 {
            let source = std::io::Error::from_raw_os_error(-consumed);
            return Err(Error::bpf("read what has ended")(source.into()));
        }
        let value = self.counter.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(Error::bpf("read how many endings were lost"))?;
        let all = value.map_or(0, |value| Fields(&value).u64());
        let lost = all.saturating_sub(std::mem::replace(&mut self.lost, all));
        let ended = self.told.try_iter().filter(|ended| inodes.contains(&ended.namespace.into()));
        Ok((ended.collect(), lost))
    }
}
