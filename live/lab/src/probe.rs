//! Queues as the kernel counts them: one dump of a namespace's queueing disciplines tells of all its ports.

use std::collections::BTreeMap;
use std::io;

use kernel::rtnetlink::{self, Dump, Found, Rtnetlink};
use model::LinkId;
use units::Bytes;

use crate::namespace::Inside;
use crate::{Error, Lab, blueprint};

/// The header of an attribute, octets.
const ATTRIBUTE: usize = 4;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

/// Counters of a link's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Frame bytes that left, as a scenario counts them.
    pub bytes: Bytes,
    /// Packets that left.
    pub packets: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets that wait now.
    pub waiting: u32,
    /// Frame bytes that wait now.
    pub queued: Bytes,
}

/// A netlink socket in each namespace.
pub(crate) struct Probe {
    rooms: Vec<Room>,
}

struct Room {
    socket: Rtnetlink,
    /// The link behind each interface, by its number.
    links: BTreeMap<i32, LinkId>,
}

impl Probe {
    pub(crate) fn open(lab: &Lab) -> Result<Self, Error> {
        let fail = |error: io::Error| Error::Socket("rtnetlink".into(), error);
        let mut rooms = Vec::new();
        for (room, nodes) in lab.blueprint.rooms() {
            let _inside = Inside::enter(&lab.journal.namespace(&room))?;
            let socket = Rtnetlink::open().map_err(fail)?;
            let mut links = BTreeMap::new();
            for end in nodes.iter().flat_map(|node| lab.blueprint.ends(*node)) {
                let index = rustix::net::netdevice::name_to_index(&socket, &end.interface);
                let index = index.map_err(|error| fail(error.into()))?;
                links.insert(i32::try_from(index).unwrap_or(0), end.link);
            }
            rooms.push(Room { socket, links });
        }
        Ok(Self { rooms })
    }

    /// Counts of all links.
    pub(crate) fn read(&self) -> Result<BTreeMap<LinkId, Count>, Error> {
        let mut counts = BTreeMap::new();
        for room in &self.rooms {
            room.read(&mut counts)?;
        }
        Ok(counts)
    }

    /// The count of one link.
    pub(crate) fn read_one(&self, link: LinkId) -> Option<Count> {
        let room = self.rooms.iter().find(|room| room.links.values().any(|own| *own == link))?;
        let mut counts = BTreeMap::new();
        room.read(&mut counts).ok()?;
        counts.get(&link).copied()
    }
}

impl Room {
    fn read(&self, counts: &mut BTreeMap<LinkId, Count>) -> Result<(), Error> {
        let dumped = self.socket.dump(Dump::Disciplines, |found| tally(found, &self.links, counts));
        dumped.map_err(|error| Error::Socket("RTM_GETQDISC".into(), error))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

/// Counts a discipline, where it is the root of a known port.
fn tally(
    found: Found<'_>,
    links: &BTreeMap<i32, LinkId>,
    counts: &mut BTreeMap<LinkId, Count>,
) -> io::Result<()> {
    if let (Found::ROOT, Some(link)) = (found.parent, links.get(&found.interface)) {
        counts.insert(*link, count(found.attributes).ok_or_else(rtnetlink::cut)?);
    }
    Ok(())
}

/// The attribute `kind` among `attributes`.
fn attribute(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        if length < ATTRIBUTE {
            return None;
        }
        if u16_at(attributes, 2)? & 0x3fff == kind {
            return attributes.get(ATTRIBUTE..length);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// The statistics among the attributes of a queueing discipline.
fn count(attributes: &[u8]) -> Option<Count> {
    let statistics = attribute(attributes, TCA_STATS2)?;
    let basic = attribute(statistics, TCA_STATS_BASIC)?;
    let queue = attribute(statistics, TCA_STATS_QUEUE)?;
    let (bytes, packets) = (u64_at(basic, 0)?, u64::from(u32_at(basic, 8)?));
    let (waiting, queued) = (u32_at(queue, 0)?, u64::from(u32_at(queue, 4)?));
    let frames =
        |bytes: u64, packets: u64| Bytes::new(bytes.saturating_sub(packets * blueprint::ETHERNET));
    Some(Count {
        bytes: frames(bytes, packets),
        packets,
        dropped: u32_at(queue, 8)?.into(),
        waiting,
        queued: frames(queued, waiting.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(ATTRIBUTE + body.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(body);
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn only_the_root_of_a_known_port_counts() {
        let basic = attribute(TCA_STATS_BASIC, &words(&[3028, 0, 2, 0]));
        let queue = attribute(TCA_STATS_QUEUE, &words(&[3, 4542, 5, 0, 0]));
        let statistics = attribute(TCA_STATS2, &[basic, queue].concat());
        let links = BTreeMap::from([(7, LinkId(4))]);
        let mut counts = BTreeMap::new();
        for (interface, parent) in [(7, Found::ROOT), (7, 0x1_0001), (8, Found::ROOT)] {
            let found = Found { interface, handle: 0x1_0000, parent, attributes: &statistics };
            tally(found, &links, &mut counts).unwrap();
        }
        let expected = Count {
            bytes: Bytes::new(3000),
            packets: 2,
            dropped: 5,
            waiting: 3,
            queued: Bytes::new(4500),
        };
        assert_eq!(counts, BTreeMap::from([(LinkId(4), expected)]));
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        let basic = attribute(TCA_STATS_BASIC, &[0; 16]);
        let queue = attribute(TCA_STATS_QUEUE, &[0; 20]);
        let statistics = attribute(TCA_STATS2, &[basic, queue].concat());
        let links = BTreeMap::from([(7, LinkId(4))]);
        let of = |attributes: &[u8]| {
            let found = Found { interface: 7, handle: 0x1_0000, parent: Found::ROOT, attributes };
            tally(found, &links, &mut BTreeMap::new())
        };
        of(&statistics).unwrap();
        for length in 0..statistics.len() {
            assert!(of(&statistics[..length]).is_err(), "{length}");
        }
        // A length that would loop forever.
        let mut endless = statistics.clone();
        endless[0] = 0;
        assert!(of(&endless).is_err());
    }
}
