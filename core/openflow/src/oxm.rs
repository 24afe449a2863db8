//! Match fields (7.2.3): typed where known, passed on unread where not.

use alloc::vec::Vec;

use crate::sdtcp::WATERMASTER;
use crate::wire::{Fault, Item, List, Malformed, Part, Reader, pad, put, sized};

/// The fields that a packet must have to be selected: all of them at once.
pub type Match<'a> = List<'a, Oxm<'a>>;

/// `OFPMT_OXM`, the only match type that is not deprecated (7.2.3.1).
const MATCH_OXM: u16 = 1;
/// `OFPXMC_OPENFLOW_BASIC` (7.2.3.3).
const BASIC: u16 = 0x8000;
/// The class of Nicira's extensions.
const NXM_1: u16 = 0x0001;
/// `OFPXMC_EXPERIMENTER`: the body opens with the number of the experimenter (7.2.3.8).
const EXPERIMENTER: u16 = 0xffff;
/// The number of the Open Networking Foundation.
const ONF: u32 = 0x4f4e_4600;

/// TCP header flags, as in [`Kind::TcpFlags`].
pub mod tcp_flags {
    /// The sender has no more data.
    pub const FIN: u16 = 0x001;
    /// The first segment of a connection.
    pub const SYN: u16 = 0x002;
    /// The connection is refused.
    pub const RST: u16 = 0x004;
    /// The acknowledgement number counts.
    pub const ACK: u16 = 0x010;
}

/// What a kind of field looks like on the wire.
struct Shape {
    class: u16,
    field: u8,
    experimenter: u32,
    bytes: usize,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $class:ident $field:literal, $bytes:literal $(, $experimenter:ident)?;)*) => {
        /// The match fields that this crate can read (7.2.3.7). A value is an unsigned integer,
        /// addresses too.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            const fn shape(self) -> Shape {
                #[allow(unused_assignments, unused_mut)]
                match self {
                    $(Self::$kind => {
                        let mut experimenter = 0;
                        $(experimenter = $experimenter;)?
                        Shape { class: $class, field: $field, experimenter, bytes: $bytes }
                    })*
                }
            }

            fn find(class: u16, field: u8, experimenter: u32) -> Option<Self> {
                match (class, field, experimenter) {
                    $(($class, $field, e) if e == Self::$kind.shape().experimenter => {
                        Some(Self::$kind)
                    })*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// The port that the packet came in by.
    InPort = BASIC 0, 4;
    /// The physical port below a logical one.
    InPhyPort = BASIC 1, 4;
    /// What earlier tables wrote down.
    Metadata = BASIC 2, 8;
    /// Ethernet destination.
    EthDst = BASIC 3, 6;
    /// Ethernet source.
    EthSrc = BASIC 4, 6;
    /// Ethernet type, after VLAN tags.
    EthType = BASIC 5, 2;
    /// VLAN number with bit 12 set when there is a tag.
    VlanVid = BASIC 6, 2;
    /// VLAN priority.
    VlanPcp = BASIC 7, 1;
    /// The upper six bits of the traffic class.
    IpDscp = BASIC 8, 1;
    /// The lower two bits of the traffic class.
    IpEcn = BASIC 9, 1;
    /// IP protocol.
    IpProto = BASIC 10, 1;
    /// IPv4 source.
    Ipv4Src = BASIC 11, 4;
    /// IPv4 destination.
    Ipv4Dst = BASIC 12, 4;
    /// TCP source port.
    TcpSrc = BASIC 13, 2;
    /// TCP destination port.
    TcpDst = BASIC 14, 2;
    /// UDP source port.
    UdpSrc = BASIC 15, 2;
    /// UDP destination port.
    UdpDst = BASIC 16, 2;
    /// SCTP source port.
    SctpSrc = BASIC 17, 2;
    /// SCTP destination port.
    SctpDst = BASIC 18, 2;
    /// ICMP type.
    Icmpv4Type = BASIC 19, 1;
    /// ICMP code.
    Icmpv4Code = BASIC 20, 1;
    /// ARP operation.
    ArpOp = BASIC 21, 2;
    /// ARP: IPv4 address of the sender.
    ArpSpa = BASIC 22, 4;
    /// ARP: IPv4 address of the target.
    ArpTpa = BASIC 23, 4;
    /// ARP: Ethernet address of the sender.
    ArpSha = BASIC 24, 6;
    /// ARP: Ethernet address of the target.
    ArpTha = BASIC 25, 6;
    /// IPv6 source.
    Ipv6Src = BASIC 26, 16;
    /// IPv6 destination.
    Ipv6Dst = BASIC 27, 16;
    /// IPv6 flow label.
    Ipv6Flabel = BASIC 28, 4;
    /// ICMPv6 type.
    Icmpv6Type = BASIC 29, 1;
    /// ICMPv6 code.
    Icmpv6Code = BASIC 30, 1;
    /// Neighbour discovery: target.
    Ipv6NdTarget = BASIC 31, 16;
    /// Neighbour discovery: Ethernet source.
    Ipv6NdSll = BASIC 32, 6;
    /// Neighbour discovery: Ethernet target.
    Ipv6NdTll = BASIC 33, 6;
    /// MPLS label.
    MplsLabel = BASIC 34, 4;
    /// MPLS traffic class.
    MplsTc = BASIC 35, 1;
    /// MPLS bottom of stack.
    MplsBos = BASIC 36, 1;
    /// Provider backbone bridge service.
    PbbIsid = BASIC 37, 3;
    /// Metadata of a logical port.
    TunnelId = BASIC 38, 8;
    /// IPv6 extension headers.
    Ipv6Exthdr = BASIC 39, 2;
    /// TCP header flags, see [`tcp_flags`]: ONF extension EXT-109 to OpenFlow 1.3.
    TcpFlags = EXPERIMENTER 42, 2, ONF;
    /// TCP header flags as Open vSwitch before 2.4 knew them.
    NxTcpFlags = NXM_1 34, 2;
    /// Bytes that wait in the queue of [`Kind::InPort`], in a notice of congestion:
    /// see [`sdtcp`](crate::sdtcp).
    QueueBytes = EXPERIMENTER 1, 4, WATERMASTER;
}

impl Kind {
    /// The length of a value, in bits of whole bytes.
    pub const fn bits(self) -> u32 {
        // At most 16 bytes.
        #[allow(clippy::cast_possible_truncation)]
        let bytes = self.shape().bytes as u32;
        bytes * 8
    }

    /// A value with every bit set: the mask of an exact match.
    pub const fn full(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }
}

/// A field of a known kind: the packets whose value, masked, is `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// Which field.
    pub kind: Kind,
    /// Its value.
    pub value: u128,
    /// The bits that count; `None` for all of them.
    pub mask: Option<u128>,
}

impl Field {
    /// The packets whose field is `value`. Bits beyond the field's length are dropped.
    pub fn exact(kind: Kind, value: impl Into<u128>) -> Self {
        Self { kind, value: value.into() & kind.full(), mask: None }
    }

    /// The packets whose field agrees with `value` in the bits of `mask`.
    pub fn masked(kind: Kind, value: impl Into<u128>, mask: impl Into<u128>) -> Self {
        let mask = mask.into() & kind.full();
        Self { kind, value: value.into() & mask, mask: Some(mask) }
    }

    /// The mask, all ones when there is none.
    pub fn wild(&self) -> u128 {
        self.mask.unwrap_or(self.kind.full())
    }
}

/// A field that this crate has no name for. It can be passed on, not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opaque<'a> {
    class: u16,
    field_and_mask: u8,
    body: &'a [u8],
}

/// One field of a match or of a set-field action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oxm<'a> {
    /// A field with a name.
    Field(Field),
    /// A field without one.
    Other(Opaque<'a>),
}

impl From<Field> for Oxm<'_> {
    fn from(field: Field) -> Self {
        Self::Field(field)
    }
}

fn integer(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
}

impl<'a> Item<'a> for Oxm<'a> {
    const PART: Part = Part::Match;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        from.part(Part::Match);
        let (class, field_and_mask, length) = (from.u16()?, from.u8()?, from.u8()?);
        let body = from.take(usize::from(length))?;
        let (field, masked) = (field_and_mask >> 1, field_and_mask & 1 == 1);
        let mut content = Reader::new(body, Part::Match);
        let experimenter = if class == EXPERIMENTER { content.u32()? } else { 0 };
        let Some(kind) = Kind::find(class, field, experimenter) else {
            return Ok(Self::Other(Opaque { class, field_and_mask, body }));
        };
        let bytes = kind.shape().bytes;
        if content.len() != bytes * (1 + usize::from(masked)) {
            return Err(content.fault(Fault::Length));
        }
        let value = integer(content.take(bytes)?);
        let mask = if masked { Some(integer(content.take(bytes)?)) } else { None };
        Ok(Self::Field(Field { kind, value, mask }))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            // The body came with a length of eight bits.
            #[allow(clippy::cast_possible_truncation)]
            Self::Other(Opaque { class, field_and_mask, body }) => {
                put!(out, *class, *field_and_mask, body.len() as u8);
                out.extend_from_slice(body);
            }
            Self::Field(Field { kind, value, mask }) => {
                let Shape { class, field, experimenter, bytes } = kind.shape();
                let head = if class == EXPERIMENTER { 4 } else { 0 };
                let length = head + bytes * (1 + usize::from(mask.is_some()));
                // At most 4 + 2 · 16.
                #[allow(clippy::cast_possible_truncation)]
                let length = length as u8;
                put!(out, class, field << 1 | u8::from(mask.is_some()), length);
                if class == EXPERIMENTER {
                    put!(out, experimenter);
                }
                for number in [Some(value), mask.as_ref()].into_iter().flatten() {
                    out.extend_from_slice(&number.to_be_bytes()[16 - bytes..]);
                }
            }
        }
    }
}

impl<'a> Match<'a> {
    /// Reads a match with its header and padding.
    pub(crate) fn decode_match(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let whole = *from;
        let mut head = *from.part(Part::Match);
        if head.u16()? != MATCH_OXM {
            return Err(head.fault(Fault::Type));
        }
        let mut content = from.sized(2, 4, 1)?;
        let length = content.len();
        content.skip(4)?;
        from.skip(length.next_multiple_of(8) - length)?;
        from.part(whole.kind());
        List::decode(&mut content)
    }

    /// Writes a match with its header and padding.
    pub(crate) fn encode_match(&self, out: &mut Vec<u8>) {
        sized(out, 2, 8, false, |out| {
            put!(out, MATCH_OXM);
            pad(out, 2);
            self.encode(out);
        });
    }

    /// The field of this kind.
    pub fn field(&self, kind: Kind) -> Option<Field> {
        self.iter().find_map(|oxm| match oxm {
            Oxm::Field(field) if field.kind == kind => Some(field),
            _ => None,
        })
    }
}
