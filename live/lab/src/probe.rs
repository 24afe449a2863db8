//! Queues as the kernel counts them: one rtnetlink dump of a namespace's queueing disciplines
//! (`RTM_GETQDISC`, rtnetlink(7)) tells of all its ports.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use model::LinkId;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};
use units::Bytes;

use crate::namespace::Inside;
use crate::{Error, Lab, blueprint};

const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 1 | 0x300;
/// `nlmsghdr`, `tcmsg` and attribute headers, octets.
const HEADER: usize = 16;
const TCMSG: usize = 20;
const ATTRIBUTE: usize = 4;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
/// `TC_H_ROOT`.
const ROOT: u32 = u32::MAX;

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
    socket: OwnedFd,
    /// The link behind each interface, by its number.
    links: BTreeMap<i32, LinkId>,
}

impl Probe {
    pub(crate) fn open(lab: &Lab) -> Result<Self, Error> {
        let fail = |error: rustix::io::Errno| Error::Socket("rtnetlink".into(), error.into());
        let mut rooms = Vec::new();
        for (room, nodes) in lab.blueprint.rooms() {
            let _inside = Inside::enter(&lab.journal.namespace(&room))?;
            let flags = SocketFlags::CLOEXEC;
            // NETLINK_ROUTE is protocol 0.
            let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None);
            let socket = socket.map_err(fail)?;
            let mut links = BTreeMap::new();
            for end in nodes.iter().flat_map(|node| lab.blueprint.ends(*node)) {
                let index = rustix::net::netdevice::name_to_index(&socket, &end.interface);
                let index = index.map_err(fail)?;
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
        let fail = |error: io::Error| Error::Socket("RTM_GETQDISC".into(), error);
        let mut request = Vec::new();
        let length = u32::try_from(HEADER + TCMSG).unwrap_or(0);
        request.extend(length.to_ne_bytes());
        request.extend(RTM_GETQDISC.to_ne_bytes());
        request.extend(DUMP.to_ne_bytes());
        request.resize(HEADER + TCMSG, 0);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &request, SendFlags::empty(), &kernel).map_err(|e| fail(e.into()))?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let (length, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())
                .map_err(|error| fail(error.into()))?;
            if !parse(&buffer[..length], &self.links, counts).map_err(fail)? {
                return Ok(());
            }
        }
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

/// Reads one datagram of a dump; returns whether more follow.
fn parse(
    mut datagram: &[u8],
    links: &BTreeMap<i32, LinkId>,
    counts: &mut BTreeMap<LinkId, Count>,
) -> io::Result<bool> {
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "a message is cut short");
    while !datagram.is_empty() {
        let length = u32_at(datagram, 0).ok_or_else(cut)? as usize;
        let kind = u16_at(datagram, 4).ok_or_else(cut)?;
        if length < HEADER || length > datagram.len() {
            return Err(cut());
        }
        let (message, rest) = datagram.split_at(length);
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let code = u32_at(message, HEADER).ok_or_else(cut)?.cast_signed();
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            RTM_NEWQDISC => {
                let index = u32_at(message, HEADER + 4).ok_or_else(cut)?.cast_signed();
                let parent = u32_at(message, HEADER + 12).ok_or_else(cut)?;
                if let (ROOT, Some(link)) = (parent, links.get(&index)) {
                    let statistics = message.get(HEADER + TCMSG..).and_then(count);
                    counts.insert(*link, statistics.ok_or_else(cut)?);
                }
            }
            _ => {}
        }
        // The last message may end where the datagram does.
        datagram = rest.get(length.next_multiple_of(4) - length..).unwrap_or_default();
    }
    Ok(true)
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

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend(u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.resize(HEADER, 0);
        message.extend(body);
        message
    }

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
        let discipline = |index: u32, parent: u32| {
            let header = words(&[0, index, 0x1_0000, parent, 0]);
            message(RTM_NEWQDISC, &[header, statistics.clone()].concat())
        };
        let datagram = [discipline(7, ROOT), discipline(7, 0x1_0001), discipline(8, ROOT)].concat();
        let links = BTreeMap::from([(7, LinkId(4))]);
        let mut counts = BTreeMap::new();
        assert!(parse(&datagram, &links, &mut counts).unwrap());
        let expected = Count {
            bytes: Bytes::new(3000),
            packets: 2,
            dropped: 5,
            waiting: 3,
            queued: Bytes::new(4500),
        };
        assert_eq!(counts, BTreeMap::from([(LinkId(4), expected)]));
        assert!(!parse(&message(NLMSG_DONE, &[0; 4]), &links, &mut counts).unwrap());
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        let basic = attribute(TCA_STATS_BASIC, &[0; 16]);
        let queue = attribute(TCA_STATS_QUEUE, &[0; 20]);
        let statistics = attribute(TCA_STATS2, &[basic, queue].concat());
        let header = words(&[0, 7, 0x1_0000, ROOT, 0]);
        let whole = message(RTM_NEWQDISC, &[header, statistics].concat());
        let links = BTreeMap::from([(7, LinkId(4))]);
        let mut counts = BTreeMap::new();
        for length in 1..whole.len() {
            assert!(parse(&whole[..length], &links, &mut counts).is_err(), "{length}");
        }
        // Lengths that would loop forever.
        let mut endless = whole.clone();
        endless[..4].fill(0);
        assert!(parse(&endless, &links, &mut counts).is_err());
        let mut endless = whole;
        endless[HEADER + TCMSG] = 0;
        assert!(parse(&endless, &links, &mut counts).is_err());
        let denied = message(NLMSG_ERROR, &words(&[(-1_i32).cast_unsigned()]));
        let error = parse(&denied, &links, &mut counts).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
