//! Frames to send and to expect, checksums and all, by a library that knows nothing of ours.

use etherparse::{PacketBuilder, PacketBuilderStep, VlanId};

pub const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
pub const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
pub const IP_A: [u8; 4] = [10, 0, 0, 1];
pub const IP_B: [u8; 4] = [10, 0, 0, 2];

/// A TCP segment from A to B.
#[derive(Clone, Copy)]
pub struct Segment {
    pub eth_dst: [u8; 6],
    pub ip_src: [u8; 4],
    pub ip_dst: [u8; 4],
    pub ttl: u8,
    pub dscp: u8,
    pub dst: u16,
    pub flags: u16,
    pub window: u16,
    pub vlan: Option<(u16, u8)>,
    pub length: usize,
}

impl Default for Segment {
    fn default() -> Self {
        Self {
            eth_dst: B,
            ip_src: IP_A,
            ip_dst: IP_B,
            ttl: 64,
            dscp: 0,
            dst: 80,
            flags: 0x10,
            window: 1000,
            vlan: None,
            length: 100,
        }
    }
}

impl Segment {
    pub fn bytes(&self) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2(A, self.eth_dst);
        let mut ip = etherparse::Ipv4Header::new(
            0,
            self.ttl,
            etherparse::IpNumber::TCP,
            self.ip_src,
            self.ip_dst,
        )
        .unwrap();
        ip.dscp = self.dscp.try_into().unwrap();
        let ip = etherparse::IpHeaders::Ipv4(ip, Default::default());
        let ip: PacketBuilderStep<_> = match self.vlan {
            None => ethernet.ip(ip),
            Some((id, priority)) => {
                let vlan = etherparse::SingleVlanHeader {
                    pcp: priority.try_into().unwrap(),
                    drop_eligible_indicator: false,
                    vlan_id: VlanId::try_new(id).unwrap(),
                    ether_type: etherparse::EtherType::IPV4,
                };
                ethernet.vlan(etherparse::VlanHeader::Single(vlan)).ip(ip)
            }
        };
        let mut tcp = ip.tcp(1234, self.dst, 7, self.window);
        if self.flags & 1 != 0 {
            tcp = tcp.fin();
        }
        if self.flags & 2 != 0 {
            tcp = tcp.syn();
        }
        if self.flags & 0x10 != 0 {
            tcp = tcp.ack(9);
        }
        let payload = vec![0x5a; self.length];
        let mut bytes = Vec::new();
        tcp.write(&mut bytes, &payload).unwrap();
        bytes
    }
}

pub fn segment() -> Vec<u8> {
    Segment::default().bytes()
}

pub fn datagram(dst: u16) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(A, B).ipv4(IP_A, IP_B, 64).udp(53, dst);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &[1; 40]).unwrap();
    bytes
}
