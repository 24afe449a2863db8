//! What hosts write into data packets under a policy that has [`Tags`], and how ports serve by it.

use policy::Tags;
use units::Bytes;

use crate::flow::Flow;
use crate::tcp::low;
use crate::{Discipline, Protocol, Transport};

/// The hosts' part.
#[derive(Clone, Debug)]
pub(crate) enum Tagger {
    /// Octets that are not acknowledged.
    Left,
    /// The number of these sizes that lie below a packet's place in its flow.
    Sent(Vec<u64>),
    /// The number of these sizes that lie below the flow's, up to so many octets; from there on what its
    /// last grant says. Before it, for hosts, what it has left.
    Granted(Vec<u64>, u64),
}

impl Tagger {
    pub(crate) fn new(tags: &Tags, mss: u16) -> Self {
        let octets = |sizes: &[Bytes]| sizes.iter().map(|size| size.get()).collect();
        match tags {
            Tags::Left(_) => Self::Left,
            Tags::Sent(thresholds) => Self::Sent(octets(thresholds)),
            Tags::Granted(own) => {
                Self::Granted(octets(&own.cutoffs), u64::from(own.ahead) * u64::from(mss))
            }
        }
    }

    /// The tag of a flow's data from `seq` on, in the place of a SACK block, which data has none of.
    pub(crate) fn tag(&self, flow: &Flow, seq: u64) -> (u32, u32) {
        let tag = match self {
            Self::Left => flow.size - flow.sender.acknowledged(),
            Self::Sent(thresholds) => thresholds.partition_point(|size| *size <= seq) as u64,
            Self::Granted(cutoffs, ahead) => {
                let left = u32::try_from(flow.size - flow.sender.acknowledged());
                let blind = low(cutoffs.partition_point(|size| *size < flow.size) as u64);
                let priority = if seq < *ahead { blind } else { flow.priority.into() };
                return (left.unwrap_or(u32::MAX), priority);
            }
        };
        (low(tag >> 32), low(tag))
    }

    /// How ports of hosts and of switches serve by it.
    pub(crate) const fn disciplines(&self) -> [Discipline; 2] {
        match self {
            Self::Left => [Discipline::LeastLeft; 2],
            Self::Sent(_) => [Discipline::ByTag; 2],
            Self::Granted(..) => [Discipline::LeastLeft, Discipline::ByTag],
        }
    }
}

/// What hosts speak under `tags` that would speak `base`: the same, or the policy's own with the packets of
/// `base` and its handshake.
///
/// # Errors
/// Packets that have no tags.
pub(crate) fn transport(tags: &Tags, base: Transport) -> Result<Transport, String> {
    if base.protocol == Protocol::Datagram {
        return Err("datagrams have no tags: give the policy's transport another protocol".into());
    }
    let Transport { mss, header, handshake, .. } = base;
    let own = match tags {
        Tags::Left(own) => own,
        Tags::Sent(_) => return Ok(base),
        Tags::Granted(own) => {
            return Ok(Transport {
                protocol: Protocol::Messages,
                mss,
                header,
                min_rto: own.timeout,
                receive_window: Bytes::new(u64::from(own.ahead) * u64::from(mss)),
                handshake,
                ..Transport::default()
            });
        }
    };
    let (packet, buffer) = (Bytes::new(u64::from(mss) + u64::from(header)), own.buffer);
    if buffer < packet {
        return Err(format!("buffer {buffer} has no room for a packet of {packet}: give it more"));
    }
    Ok(Transport {
        protocol: Protocol::LineRate { timeouts: own.timeouts },
        mss,
        header,
        initial_window: own.first_window,
        min_rto: own.timeout,
        receive_window: Bytes::new(u64::from(own.largest_window) * u64::from(mss)),
        limited_transmit: false,
        handshake,
        ..Transport::default()
    })
}
