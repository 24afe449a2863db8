//! The headers of an Ethernet frame: where each match field is, reading and overwriting it.
//!
//! Ethernet, one VLAN tag, ARP, IPv4, IPv6 without extension headers, TCP, UDP, SCTP, ICMP.

use alloc::vec::Vec;

use crate::oxm::Kind;
use crate::sdtcp::CapWindow;

/// Bit 12 of a VLAN field: there is a tag (`OFPVID_PRESENT`).
pub(super) const VLAN_PRESENT: u16 = 0x1000;
const VLAN: [u16; 2] = [0x8100, 0x88a8];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const SCTP: u8 = 132;
const ICMPV6: u8 = 58;

/// A frame whose headers have been found.
pub(super) struct Frame {
    pub bytes: Vec<u8>,
    /// Where the Ethernet type after a VLAN tag is.
    kind_at: usize,
    kind: u16,
    /// Where the network header is.
    network: usize,
    /// The transport protocol, and where its header is.
    transport: Option<(u8, usize)>,
}

/// Where a field is: whole bytes, of which some bits count.
struct Place {
    at: usize,
    bytes: usize,
    shift: u32,
    bits: u32,
}

impl Place {
    const fn whole(at: usize, bytes: usize) -> Self {
        Self::part(at, bytes, 0, 0)
    }

    /// `bits` of zero stands for all.
    const fn part(at: usize, bytes: usize, shift: u32, bits: u32) -> Self {
        // At most 16 bytes.
        #[allow(clippy::cast_possible_truncation)]
        let bits = if bits == 0 { bytes as u32 * 8 } else { bits };
        Self { at, bytes, shift, bits }
    }

    const fn mask(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }
}

impl Frame {
    /// Finds the headers of a frame; `None` for one without an Ethernet header.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Self::parsed(bytes.to_vec())
    }

    fn parsed(bytes: Vec<u8>) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let tagged = VLAN.contains(&word(12)?) && word(16).is_some();
        let kind_at = if tagged { 16 } else { 12 };
        let (kind, network) = (word(kind_at)?, kind_at + 2);
        let transport = match kind {
            IPV4 if bytes.len() >= network + 20 => {
                let header = usize::from(bytes[network] & 0xf) * 4;
                let first = word(network + 6)? & 0x1fff == 0;
                let valid = header >= 20 && first && bytes.len() >= network + header;
                valid.then(|| (bytes[network + 9], network + header))
            }
            IPV6 if bytes.len() >= network + 40 => Some((bytes[network + 6], network + 40)),
            _ => None,
        };
        Some(Self { kind_at, kind, network, transport, bytes })
    }

    fn tagged(&self) -> bool {
        self.kind_at == 16
    }

    fn place(&self, kind: Kind) -> Option<Place> {
        let network = |protocol, offset, bytes| {
            (self.kind == protocol).then(|| Place::whole(self.network + offset, bytes))
        };
        let transport = |wanted, offset, bytes| match self.transport {
            Some((protocol, at)) if protocol == wanted => Some(Place::whole(at + offset, bytes)),
            _ => None,
        };
        let place = match kind {
            Kind::EthDst => Some(Place::whole(0, 6)),
            Kind::EthSrc => Some(Place::whole(6, 6)),
            Kind::EthType => Some(Place::whole(self.kind_at, 2)),
            Kind::VlanPcp if self.tagged() => Some(Place::part(14, 1, 5, 3)),
            Kind::IpDscp if self.kind == IPV4 => Some(Place::part(self.network + 1, 1, 2, 6)),
            Kind::IpDscp if self.kind == IPV6 => Some(Place::part(self.network, 2, 6, 6)),
            Kind::IpEcn if self.kind == IPV4 => Some(Place::part(self.network + 1, 1, 0, 2)),
            Kind::IpEcn if self.kind == IPV6 => Some(Place::part(self.network, 2, 4, 2)),
            Kind::IpProto if self.kind == IPV6 => network(IPV6, 6, 1),
            Kind::IpProto => network(IPV4, 9, 1),
            Kind::Ipv4Src => network(IPV4, 12, 4),
            Kind::Ipv4Dst => network(IPV4, 16, 4),
            Kind::Ipv6Src => network(IPV6, 8, 16),
            Kind::Ipv6Dst => network(IPV6, 24, 16),
            Kind::ArpOp => network(ARP, 6, 2),
            Kind::ArpSha => network(ARP, 8, 6),
            Kind::ArpSpa => network(ARP, 14, 4),
            Kind::ArpTha => network(ARP, 18, 6),
            Kind::ArpTpa => network(ARP, 24, 4),
            Kind::TcpSrc => transport(TCP, 0, 2),
            Kind::TcpDst => transport(TCP, 2, 2),
            Kind::UdpSrc => transport(UDP, 0, 2),
            Kind::UdpDst => transport(UDP, 2, 2),
            Kind::SctpSrc => transport(SCTP, 0, 2),
            Kind::SctpDst => transport(SCTP, 2, 2),
            Kind::Icmpv4Type => transport(ICMP, 0, 1),
            Kind::Icmpv4Code => transport(ICMP, 1, 1),
            Kind::Icmpv6Type => transport(ICMPV6, 0, 1),
            Kind::Icmpv6Code => transport(ICMPV6, 1, 1),
            Kind::TcpFlags | Kind::NxTcpFlags => {
                transport(TCP, 12, 2).map(|place| Place::part(place.at, 2, 0, 12))
            }
            _ => None,
        }?;
        (self.bytes.len() >= place.at + place.bytes).then_some(place)
    }

    fn number(&self, place: &Place) -> u128 {
        let bytes = &self.bytes[place.at..place.at + place.bytes];
        bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }

    /// The value of a field, if the frame has it.
    pub fn get(&self, kind: Kind) -> Option<u128> {
        if kind == Kind::VlanVid {
            let tag = u16::from_be_bytes([self.bytes[14], *self.bytes.get(15)?]);
            return Some(if self.tagged() { (tag & 0xfff | VLAN_PRESENT).into() } else { 0 });
        }
        let place = self.place(kind)?;
        Some(self.number(&place) >> place.shift & place.mask())
    }

    /// Overwrites a field, if the frame has it, and mends the checksums.
    pub fn set(&mut self, kind: Kind, value: u128) {
        if kind == Kind::VlanVid {
            if self.tagged() {
                let bytes = u16::try_from(value & 0xfff).unwrap_or(0).to_be_bytes();
                self.bytes[14] = self.bytes[14] & 0xf0 | bytes[0];
                self.bytes[15] = bytes[1];
            }
            return;
        }
        let Some(place) = self.place(kind) else { return };
        let kept = self.number(&place) & !(place.mask() << place.shift);
        let new = kept | (value & place.mask()) << place.shift;
        self.write(place.at, &new.to_be_bytes()[16 - place.bytes..]);
    }

    /// The time to live.
    pub fn ttl(&self) -> Option<u8> {
        Some(self.bytes[self.ttl_at()?])
    }

    /// Sets the time to live.
    pub fn set_ttl(&mut self, ttl: u8) {
        if let Some(at) = self.ttl_at() {
            self.write(at, &[ttl]);
        }
    }

    fn ttl_at(&self) -> Option<usize> {
        let at = match self.kind {
            IPV4 => self.network + 8,
            IPV6 => self.network + 7,
            _ => return None,
        };
        (at < self.bytes.len()).then_some(at)
    }

    /// Caps the window of a TCP acknowledgement. That of a SYN is left: it is not scaled.
    pub fn cap_window(&mut self, cap: &CapWindow) {
        let flags = self.get(Kind::TcpFlags).unwrap_or(0);
        let wanted = u128::from(crate::tcp_flags::ACK);
        let counted = u128::from(crate::tcp_flags::ACK | crate::tcp_flags::SYN);
        if let Some((TCP, at)) = self.transport
            && flags & counted == wanted
            && let Some(&[high, low]) = self.bytes.get(at + 14..at + 16)
        {
            let window = cap.cap(u16::from_be_bytes([high, low]));
            self.write(at + 14, &window.to_be_bytes());
        }
    }

    /// Adds a VLAN tag; the next set-field gives it a number.
    pub fn push_vlan(&mut self, kind: u16) {
        let [high, low] = kind.to_be_bytes();
        let old = if self.tagged() { [self.bytes[14], self.bytes[15]] } else { [0, 0] };
        self.bytes.splice(12..12, [high, low, old[0], old[1]]);
        self.again();
    }

    /// Takes the outermost VLAN tag off.
    pub fn pop_vlan(&mut self) {
        if self.tagged() {
            self.bytes.drain(12..16);
            self.again();
        }
    }

    fn again(&mut self) {
        let bytes = core::mem::take(&mut self.bytes);
        *self = Self::parsed(bytes).expect("a frame keeps its Ethernet header");
    }

    /// Writes bytes, and mends the checksums that cover them by what changed (RFC 1624).
    fn write(&mut self, at: usize, new: &[u8]) {
        let transport = self.transport.map_or(usize::MAX, |(_, at)| at);
        let addresses = match self.kind {
            IPV4 => self.network + 12..self.network + 20,
            IPV6 => self.network + 8..self.network + 40,
            _ => 0..0,
        };
        let in_network = at >= self.network && at < transport;
        // Checksums cover words, and every header begins at an even place.
        let from = at & !1;
        let to = (at + new.len()).next_multiple_of(2).min(self.bytes.len());
        let old: Vec<u8> = self.bytes[from..to].to_vec();
        self.bytes[at..at + new.len()].copy_from_slice(new);
        let changed: Vec<u8> = self.bytes[from..to].to_vec();
        if self.kind == IPV4 && in_network {
            self.mend(self.network + 10, &old, &changed, false);
        }
        if let Some((protocol, start)) = self.transport
            && (at >= start || addresses.contains(&at))
        {
            let place = match protocol {
                TCP => start + 16,
                UDP => start + 6,
                ICMPV6 => start + 2,
                ICMP if at >= start => start + 2,
                _ => return,
            };
            self.mend(place, &old, &changed, protocol == UDP);
        }
    }

    fn mend(&mut self, place: usize, old: &[u8], new: &[u8], optional: bool) {
        let Some(&[high, low]) = self.bytes.get(place..place + 2) else { return };
        let sum = u16::from_be_bytes([high, low]);
        if optional && sum == 0 {
            return;
        }
        let words = |bytes: &[u8], invert: u16| -> u32 {
            let pairs = bytes.chunks(2);
            pairs
                .map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
                .map(|word| u32::from(word ^ invert))
                .sum()
        };
        let mut total = u32::from(!sum) + words(old, 0xffff) + words(new, 0);
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        // Folded to 16 bits above.
        #[allow(clippy::cast_possible_truncation)]
        let sum = !(total as u16);
        self.bytes[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    }
}
