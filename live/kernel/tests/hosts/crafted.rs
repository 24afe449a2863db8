//! Packets made by hand.

use std::net::Ipv4Addr;

use etherparse::{PacketBuilder, TcpHeader, TcpOptionElement};
use kernel::Connection;

pub const SENDER: [u8; 4] = [10, 0, 0, 1];
pub const RECEIVER: [u8; 4] = [10, 0, 0, 2];

/// The connection that they are of.
pub fn connection() -> Connection {
    Connection {
        source: (Ipv4Addr::from(SENDER), 5000).into(),
        destination: (Ipv4Addr::from(RECEIVER), 80).into(),
    }
}

/// A packet of it, from its sender or its receiver.
pub fn packet(from_sender: bool, v6: bool, change: impl FnOnce(&mut TcpHeader)) -> Vec<u8> {
    carrying(&[], from_sender, v6, change)
}

/// The same with a payload.
pub fn carrying(
    payload: &[u8],
    from_sender: bool,
    v6: bool,
    change: impl FnOnce(&mut TcpHeader),
) -> Vec<u8> {
    let (source, destination) = if from_sender { (5000, 80) } else { (80, 5000) };
    let mut header = TcpHeader::new(source, destination, 1, 1);
    change(&mut header);
    let ends = if from_sender { [SENDER, RECEIVER] } else { [RECEIVER, SENDER] };
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let ip = if v6 {
        let [from, to] = ends.map(|end| Ipv4Addr::from(end).to_ipv6_compatible().octets());
        ethernet.ipv6(from, to, 64)
    } else {
        ethernet.ipv4(ends[0], ends[1], 64)
    };
    let mut octets = Vec::new();
    ip.tcp_header(header).write(&mut octets, payload).unwrap();
    octets
}

/// Makes it a SYN.
pub fn syn(header: &mut TcpHeader, segment: u16, scale: Option<u8>) {
    header.syn = true;
    let mut options = vec![TcpOptionElement::MaximumSegmentSize(segment)];
    options.extend(scale.map(TcpOptionElement::WindowScale));
    header.set_options(&options).unwrap();
}
