//! The flow entries that the controller has at switches, and how they are written.
//!
//! Table 0 looks at packets: it copies what the controller must see, measures what is metered, caps
//! windows; then everything goes on to table 1, which forwards. An entry of table 0 that ends leaves
//! forwarding as it is: that is how limits end when their controller has died.

use alloc::vec::Vec;
use core::net::IpAddr;

use openflow::sdtcp::{CapWindow, PrepareWindow};
use openflow::{
    Action, Field, FlowCommand, FlowFlags, FlowMod, Instruction, Kind, List, Message, MeterId, Oxm,
};
use openflow::{PortNo, TableId, tcp_flags};
use protocol::Connection;
use units::Span;

use crate::fabric::frame::{ARP, ICMPV6, IPV4, IPV6, LLDP, TCP};

/// An entry of table 0 or 1: its place and what it matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) table: u8,
    pub(crate) priority: u16,
    pub(crate) fields: Vec<Field>,
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Goes on to table 1.
    Next,
    /// Hands the packet to the controller.
    Punt,
    /// Hands it a copy and goes on.
    Copy,
    /// Sends it out of a port.
    Out(u32),
    /// Measures it and goes on.
    Meter(u32),
    /// Counts it and goes on, as long as packets come; the switch tells when none came any more.
    Count,
    /// Caps the window of an acknowledgement and goes on.
    Cap(CapWindow),
    /// Caps it by how congested a port is, and goes on.
    Prepare(PrepareWindow),
}

impl Does {
    /// Ends by itself unless it is renewed.
    pub(crate) const fn is_leased(self) -> bool {
        matches!(self, Self::Meter(_) | Self::Cap(_) | Self::Prepare(_))
    }
}

/// The first 16 bits of every cookie of ours.
const MARK: u64 = 0x574d << 48;
/// The bits of a cookie that say that the entry is ours.
pub(crate) const MARK_MASK: u64 = 0xffff << 48;
/// This bit says that the entry ends by itself.
const LEASED: u64 = 1 << 40;

/// Seconds without a packet after which a connection isn't counted any more: SDTCP's table forgets
/// it then too.
const COUNT_S: u16 = 60;

/// The cookie of an entry: ours, its kind, the controller's epoch, how often the switch connected.
pub(crate) fn cookie(epoch: u64, generation: u16, does: Does) -> u64 {
    let kind = if does.is_leased() || does == Does::Count { LEASED } else { 0 };
    MARK | kind | (epoch & 0xff_ffff) << 16 | u64::from(generation)
}

/// Whether a cookie is ours, of an entry that stays until it is deleted.
pub(crate) const fn is_standing(cookie: u64) -> bool {
    cookie & MARK_MASK == MARK && cookie & LEASED == 0
}

/// A whole number of seconds, at least the lease.
fn seconds(lease: Span) -> u16 {
    let second = Span::from_secs(1).as_nanos();
    u16::try_from(lease.as_nanos().div_ceil(second)).unwrap_or(u16::MAX)
}

impl Key {
    fn new(table: u8, priority: u16, fields: &[(Kind, u128)]) -> Self {
        let fields = fields.iter().map(|(kind, value)| Field::exact(*kind, *value)).collect();
        Self { table, priority, fields }
    }

    /// Packets to an address.
    pub(crate) fn to(address: IpAddr) -> Self {
        let (kind, field, value) = split(address, Kind::Ipv4Dst, Kind::Ipv6Dst);
        Self::new(1, 200, &[(Kind::EthType, kind.into()), (field, value)])
    }

    /// Questions for the Ethernet address of an address: they need no flooding.
    pub(crate) fn asking_for(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => {
                let (_, field, value) = split(address, Kind::ArpTpa, Kind::ArpTpa);
                Self::new(1, 250, &[(Kind::EthType, ARP.into()), (field, value)])
            }
            IpAddr::V6(_) => {
                let (_, field, value) = split(address, Kind::Ipv6NdTarget, Kind::Ipv6NdTarget);
                // Neighbour solicitation (RFC 4861, 4.3).
                let fields = [
                    (Kind::EthType, IPV6.into()),
                    (Kind::IpProto, ICMPV6.into()),
                    (Kind::Icmpv6Type, 135),
                    (field, value),
                ];
                Self::new(1, 250, &fields)
            }
        }
    }

    /// Frames to an Ethernet address.
    pub(crate) fn to_ethernet(address: [u8; 6]) -> Self {
        let value = address.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
        Self::new(1, 100, &[(Kind::EthDst, value)])
    }

    /// Segments of a connection, where its ports are known.
    pub(crate) fn of(table: u8, priority: u16, connection: &Connection) -> Self {
        let Connection { source, destination } = connection;
        let (kind, from, source_value) = split(source.ip(), Kind::Ipv4Src, Kind::Ipv6Src);
        let (_, to, destination_value) = split(destination.ip(), Kind::Ipv4Dst, Kind::Ipv6Dst);
        let mut key = Self::new(
            table,
            priority,
            &[
                (Kind::EthType, kind.into()),
                (Kind::IpProto, TCP.into()),
                (from, source_value),
                (to, destination_value),
            ],
        );
        for (kind, port) in [(Kind::TcpSrc, source.port()), (Kind::TcpDst, destination.port())] {
            if port != 0 {
                key.fields.push(Field::exact(kind, port));
            }
        }
        key
    }

    /// Packets of a connection that are counted in table 0.
    pub(crate) fn of_count(connection: &Connection) -> Self {
        Self::of(0, 700, connection)
    }

    /// Packets of a connection that are measured in table 0.
    pub(crate) fn of_meter(connection: &Connection) -> Self {
        Self::of(0, 800, connection)
    }

    /// What comes back on a connection, whose windows are capped.
    pub(crate) fn of_acknowledgements(connection: &Connection) -> Self {
        let Connection { source, destination } = *connection;
        Self::of(0, 850, &Connection { source: destination, destination: source })
    }

    /// The connection that an entry made by [`Key::of`] matches.
    pub(crate) fn connection(fields: &List<'_, Oxm<'_>>) -> Option<Connection> {
        let value = |kind| Some(fields.field(kind)?.value);
        let address = |v4, v6| -> Option<IpAddr> {
            match value(v4) {
                Some(value) => Some(IpAddr::V4(u32::try_from(value).ok()?.into())),
                None => Some(IpAddr::V6(value(v6)?.into())),
            }
        };
        let port = |kind| u16::try_from(value(kind).unwrap_or(0)).unwrap_or(0);
        let source = address(Kind::Ipv4Src, Kind::Ipv6Src)?;
        let destination = address(Kind::Ipv4Dst, Kind::Ipv6Dst)?;
        Some(Connection {
            source: (source, port(Kind::TcpSrc)).into(),
            destination: (destination, port(Kind::TcpDst)).into(),
        })
    }
}

fn split(address: IpAddr, v4: Kind, v6: Kind) -> (u16, Kind, u128) {
    match address {
        IpAddr::V4(address) => (IPV4, v4, u32::from(address).into()),
        IpAddr::V6(address) => (IPV6, v6, address.into()),
    }
}

/// What every switch has, whatever its place: `watching` adds copies of SYN, FIN and RST.
pub(crate) fn base(watching: bool) -> Vec<(Key, Does)> {
    let mut entries = alloc::vec![
        (Key::new(0, 0, &[]), Does::Next),
        (Key::new(1, 0, &[]), Does::Punt),
        (Key::new(0, 1000, &[(Kind::EthType, LLDP.into())]), Does::Punt),
        (Key::new(0, 900, &[(Kind::EthType, ARP.into())]), Does::Copy),
    ];
    // Neighbour solicitations and advertisements, so that hosts with IPv6 are found.
    for kind in [135, 136] {
        let fields = [
            (Kind::EthType, IPV6.into()),
            (Kind::IpProto, ICMPV6.into()),
            (Kind::Icmpv6Type, kind),
        ];
        entries.push((Key::new(0, 900, &fields), Does::Copy));
    }
    if watching {
        let flags = [tcp_flags::SYN, tcp_flags::FIN, tcp_flags::RST];
        for (ip, flag) in [IPV4, IPV6].into_iter().flat_map(|ip| flags.map(|flag| (ip, flag))) {
            let fields = [(Kind::EthType, ip.into()), (Kind::IpProto, TCP.into())];
            let mut key = Key::new(0, 900, &fields);
            key.fields.push(Field::masked(Kind::TcpFlags, flag, flag));
            entries.push((key, Does::Copy));
        }
    }
    entries
}

/// A flow modification that adds an entry, handed to `send`.
pub(crate) fn add<T>(
    key: &Key,
    does: Does,
    cookie: u64,
    lease: Span,
    send: impl FnOnce(&Message<'_>) -> T,
) -> T {
    let fields: Vec<Oxm<'_>> = key.fields.iter().map(|field| (*field).into()).collect();
    let next = Instruction::GotoTable(TableId(1));
    let to_controller = [Action::to_controller()];
    let out;
    let cap;
    let instructions = match does {
        Does::Next | Does::Count => alloc::vec![next],
        Does::Punt => alloc::vec![Instruction::ApplyActions(List::of(&to_controller))],
        Does::Copy => alloc::vec![Instruction::ApplyActions(List::of(&to_controller)), next],
        Does::Out(port) => {
            out = [Action::output(PortNo(port))];
            alloc::vec![Instruction::ApplyActions(List::of(&out))]
        }
        Does::Meter(meter) => alloc::vec![Instruction::Meter(MeterId(meter)), next],
        Does::Cap(window) => {
            cap = [Action::CapWindow(window)];
            alloc::vec![Instruction::ApplyActions(List::of(&cap)), next]
        }
        Does::Prepare(windows) => {
            cap = [Action::PrepareWindow(windows)];
            alloc::vec![Instruction::ApplyActions(List::of(&cap)), next]
        }
    };
    send(&Message::FlowMod(FlowMod {
        cookie,
        table: TableId(key.table),
        priority: key.priority,
        hard_timeout_s: if does.is_leased() { seconds(lease) } else { 0 },
        idle_timeout_s: if does == Does::Count { COUNT_S } else { 0 },
        flags: if does == Does::Count { FlowFlags::SEND_FLOW_REMOVED } else { FlowFlags(0) },
        fields: List::of(&fields),
        instructions: List::of(&instructions),
        ..FlowMod::ADD
    }))
}

/// A flow modification that removes exactly this entry.
pub(crate) fn remove<T>(key: &Key, send: impl FnOnce(&Message<'_>) -> T) -> T {
    let fields: Vec<Oxm<'_>> = key.fields.iter().map(|field| (*field).into()).collect();
    send(&Message::FlowMod(FlowMod {
        command: FlowCommand::DELETE_STRICT,
        table: TableId(key.table),
        priority: key.priority,
        fields: List::of(&fields),
        ..FlowMod::ADD
    }))
}
