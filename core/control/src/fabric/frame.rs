//! What the controller reads from frames that switches send up, and the frames that it makes:
//! LLDP to find links (IEEE 802.1AB), ARP (RFC 826), and the headers of TCP.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use openflow::tcp_flags;
use protocol::Connection;

pub(crate) const ARP: u16 = 0x0806;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
pub(crate) const LLDP: u16 = 0x88cc;
pub(crate) const TCP: u8 = 6;
pub(crate) const ICMPV6: u8 = 58;

/// The address that bridges don't forward (802.1AB, table 7-1).
const NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e];
/// A locally administered address that no host has.
pub(crate) const OWN: [u8; 6] = [0x02, 0x57, 0x4d, 0x00, 0x00, 0x01];
/// Identifiers of our own making.
const LOCALLY_ASSIGNED: u8 = 7;

/// A frame, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) source: [u8; 6],
    pub(crate) destination: [u8; 6],
    pub(crate) content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A probe of a link: the switch and the port that it left by.
    Probe { datapath_id: u64, port: u32 },
    /// The sender of an ARP message says where it is.
    Arp { sender: Ipv4Addr },
    /// A packet.
    Ip { source: IpAddr, destination: IpAddr, tcp: Option<Segment> },
    /// Anything else.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) connection: Connection,
    pub(crate) flags: u16,
    /// The window scale that a SYN offers, where its options can be read.
    pub(crate) scale: Option<u8>,
}

/// The frame, or `None` when it ends too early.
pub(crate) fn parse(bytes: &[u8]) -> Option<Frame> {
    let (destination, rest) = bytes.split_first_chunk::<6>()?;
    let (source, rest) = rest.split_first_chunk::<6>()?;
    let (kind, rest) = rest.split_first_chunk::<2>()?;
    let content = match u16::from_be_bytes(*kind) {
        LLDP => probe(rest),
        ARP => arp(rest),
        IPV4 => ipv4(rest),
        IPV6 => ipv6(rest),
        _ => None,
    };
    let content = content.unwrap_or(Content::Other);
    Some(Frame { source: *source, destination: *destination, content })
}

/// Chassis and port, each a number of ours; the TLVs in their fixed order (802.1AB, 8.2).
fn probe(bytes: &[u8]) -> Option<Content> {
    let (chassis, rest) = tlv(bytes, 1)?;
    let (port, _) = tlv(rest, 2)?;
    let ([LOCALLY_ASSIGNED, datapath_id @ ..], [LOCALLY_ASSIGNED, port @ ..]) = (chassis, port)
    else {
        return None;
    };
    let datapath_id = u64::from_be_bytes(datapath_id.try_into().ok()?);
    let port = u32::from_be_bytes(port.try_into().ok()?);
    Some(Content::Probe { datapath_id, port })
}

/// The value of the first TLV, which must be of this kind, and what follows it.
fn tlv(bytes: &[u8], kind: u16) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<2>()?;
    let head = u16::from_be_bytes(*head);
    if head >> 9 != kind {
        return None;
    }
    rest.split_at_checked(usize::from(head & 0x1ff))
}

fn arp(bytes: &[u8]) -> Option<Content> {
    // Ethernet and IPv4, lengths 6 and 4; then operation, sender's addresses, target's addresses.
    let rest = bytes.strip_prefix(&[0, 1, 8, 0, 6, 4])?;
    let sender = *rest.get(8..)?.first_chunk::<4>()?;
    Some(Content::Arp { sender: sender.into() })
}

fn ipv4(bytes: &[u8]) -> Option<Content> {
    let header = bytes.first_chunk::<20>()?;
    let length = usize::from(header[0] & 0xf) * 4;
    let source = IpAddr::V4(Ipv4Addr::from(*header[12..].first_chunk()?));
    let destination = IpAddr::V4(Ipv4Addr::from(*header[16..].first_chunk()?));
    // Only a first fragment has ports.
    let is_first = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    let tcp = (header[9] == TCP && is_first && length >= 20)
        .then(|| segment(source, destination, bytes.get(length..)?))
        .flatten();
    Some(Content::Ip { source, destination, tcp })
}

fn ipv6(bytes: &[u8]) -> Option<Content> {
    let header = bytes.first_chunk::<40>()?;
    let source = IpAddr::V6(Ipv6Addr::from(*header[8..].first_chunk()?));
    let destination = IpAddr::V6(Ipv6Addr::from(*header[24..].first_chunk()?));
    let tcp = (header[6] == TCP).then(|| segment(source, destination, &bytes[40..])).flatten();
    Some(Content::Ip { source, destination, tcp })
}

fn segment(source: IpAddr, destination: IpAddr, bytes: &[u8]) -> Option<Segment> {
    let header = bytes.first_chunk::<20>()?;
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let connection = Connection {
        source: SocketAddr::new(source, port(0)),
        destination: SocketAddr::new(destination, port(2)),
    };
    let flags = port(12) & 0x1ff;
    let options = bytes.get(20..usize::from(header[12] >> 4) * 4);
    let scale = options.filter(|_| flags & tcp_flags::SYN != 0).and_then(model::offered_scale);
    Some(Segment { connection, flags, scale })
}

/// A probe that leaves a switch by a port.
pub(crate) fn make_probe(datapath_id: u64, port: u32) -> Vec<u8> {
    let mut frame = Vec::with_capacity(60);
    frame.extend_from_slice(&NEAREST_BRIDGE);
    frame.extend_from_slice(&OWN);
    frame.extend_from_slice(&LLDP.to_be_bytes());
    let mut tlv = |kind: u16, length: u16, head: &[u8], value: &[u8]| {
        frame.extend_from_slice(&(kind << 9 | length).to_be_bytes());
        frame.extend_from_slice(head);
        frame.extend_from_slice(value);
    };
    tlv(1, 9, &[LOCALLY_ASSIGNED], &datapath_id.to_be_bytes());
    tlv(2, 5, &[LOCALLY_ASSIGNED], &port.to_be_bytes());
    tlv(3, 2, &[], &120_u16.to_be_bytes());
    tlv(0, 0, &[], &[]);
    // The shortest Ethernet frame without its checksum.
    frame.resize(frame.len().max(60), 0);
    frame
}

/// Asks who has an address, as one who has none: an ARP probe (RFC 5227, 2.1.1), or a neighbour solicitation (RFC
/// 4862, 5.4.2).
pub(crate) fn make_question(address: IpAddr) -> Vec<u8> {
    let mut frame = Vec::with_capacity(86);
    match address {
        IpAddr::V4(address) => {
            frame.extend_from_slice(&[0xff; 6]);
            frame.extend_from_slice(&OWN);
            frame.extend_from_slice(&ARP.to_be_bytes());
            frame.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
            frame.extend_from_slice(&OWN);
            frame.extend_from_slice(&[0; 4]);
            frame.extend_from_slice(&[0; 6]);
            frame.extend_from_slice(&address.octets());
            frame.resize(60, 0);
        }
        IpAddr::V6(address) => {
            let [.., a, b, c] = address.octets();
            let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
            frame.extend_from_slice(&[0x33, 0x33, 0xff, a, b, c]);
            frame.extend_from_slice(&OWN);
            frame.extend_from_slice(&IPV6.to_be_bytes());
            // Version 6, 24 octets of ICMPv6, hop limit 255; from nobody.
            frame.extend_from_slice(&[0x60, 0, 0, 0, 0, 24, ICMPV6, 255]);
            frame.extend_from_slice(&[0; 16]);
            frame.extend_from_slice(&group);
            let mut message = [0; 24];
            message[0] = 135;
            message[8..].copy_from_slice(&address.octets());
            // RFC 4443, 2.3: over the addresses, the length, the protocol and the message.
            let words = group.chunks(2).chain(message.chunks(2));
            let words = words.map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let sum = words.sum::<u32>() + 24 + u32::from(ICMPV6);
            let folded = (sum & 0xffff) + (sum >> 16);
            let sum = !((folded & 0xffff) + (folded >> 16));
            message[2..4].copy_from_slice(&sum.to_be_bytes()[2..]);
            frame.extend_from_slice(&message);
        }
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux sends it for fe80::1 (octets of a capture of `ip address add`, its own address replaced).
    #[test]
    fn a_question_is_one() {
        let v4 = make_question(Ipv4Addr::new(10, 0, 0, 7).into());
        assert_eq!((v4.len(), &v4[38..42]), (60, &[10, 0, 0, 7][..]));
        let v6 = make_question("fe80::1".parse::<Ipv6Addr>().expect("an address").into());
        assert_eq!(v6.len(), 14 + 40 + 24);
        // The sum over all that it is taken of, itself included, has all bits set.
        let pseudo = [&v6[22..54], &[0, 24, 0, ICMPV6], &v6[54..]].concat();
        let sum: u32 = pseudo.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn a_probe_is_read_as_it_was_made() {
        let frame = parse(&make_probe(0xabcd, 7)).expect("a frame");
        assert_eq!(frame.content, Content::Probe { datapath_id: 0xabcd, port: 7 });
        assert!(frame.destination[0] & 1 == 1 && frame.source == OWN);
    }

    #[test]
    fn what_is_cut_short_is_nothing() {
        let whole = make_probe(1, 2);
        for length in 0..whole.len() {
            let frame = parse(&whole[..length]);
            let is_probe = frame.is_some_and(|f| matches!(f.content, Content::Probe { .. }));
            assert_eq!(is_probe, length >= 14 + 11 + 7, "{length}");
        }
    }
}
