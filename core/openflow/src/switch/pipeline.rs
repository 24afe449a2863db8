//! A packet's way through the tables, groups and meters (5.1, 5.6 to 5.10).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use model::Severity;
use units::Time;

use crate::action::{Action, Instruction};
use crate::flow::TableId;
use crate::group::{Bucket, GroupId, GroupKind};
use crate::message::Message;
use crate::oxm::{Field, Kind, Oxm};
use crate::packet::{BufferId, PacketIn, PacketInReason};
use crate::port::PortNo;
use crate::wire::{Item, List};

use super::frame::Frame;
use super::meter::Verdict;
use super::table::read;
use super::{Group, Output, Switch};

/// A packet on its way, and what the tables have made of it so far.
struct Way {
    now: Time,
    frame: Frame,
    in_port: PortNo,
    metadata: u64,
    table: u8,
    cookie: u64,
    reason: PacketInReason,
}

impl Way {
    fn get(&self, field: &Field) -> Option<u128> {
        match field.kind {
            Kind::InPort => Some(self.in_port.0.into()),
            Kind::Metadata => Some(self.metadata.into()),
            kind => self.frame.get(kind),
        }
    }
}

/// Where an action stands in the action set (5.10): a set-field is one for each field.
fn place_in_set(action: &Action<'_>) -> (u8, Option<Kind>) {
    let field = match action {
        Action::SetField(Oxm::Field(field)) => Some(field.kind),
        _ => None,
    };
    let order = match action {
        Action::PopVlan => 0,
        Action::PushVlan(_) => 1,
        Action::DecNwTtl => 2,
        Action::SetField(_) => 3,
        Action::SetNwTtl(_) => 4,
        Action::CapWindow(_) | Action::PrepareWindow(_) => 5,
        Action::SetQueue(_) => 6,
        Action::Group(_) => 7,
        _ => 8,
    };
    (order, field)
}

impl Switch {
    /// A frame has come in by a port.
    pub fn receive(&mut self, now: Time, port: PortNo, frame: &[u8], out: &mut Output) {
        let Some(state) = self.ports.get_mut(&port) else { return };
        if !state.receives() {
            return;
        }
        state.stats.rx_packets += 1;
        state.stats.rx_frame_bytes += frame.len() as u64;
        self.pipeline(now, port, frame, out);
    }

    pub(super) fn pipeline(&mut self, now: Time, port: PortNo, frame: &[u8], out: &mut Output) {
        let Some(frame) = Frame::parse(frame) else { return };
        let reason = PacketInReason::NO_MATCH;
        let mut way =
            Way { now, frame, in_port: port, metadata: 0, table: 0, cookie: u64::MAX, reason };
        let mut set: BTreeMap<(u8, Option<Kind>), Vec<u8>> = BTreeMap::new();
        while let Some(table) = self.tables.get_mut(usize::from(way.table)) {
            let Some(entry) = table.find(|field| way.get(field)) else { return };
            entry.packets += 1;
            entry.frame_bytes += way.frame.bytes.len() as u64;
            entry.used = now;
            way.cookie = entry.cookie;
            let miss = entry.priority == 0 && entry.fields.is_empty();
            way.reason = if miss { PacketInReason::NO_MATCH } else { PacketInReason::ACTION };
            let bytes = entry.instructions.clone();
            let instructions: List<'_, Instruction<'_>> = read(&bytes);
            let mut next = None;
            // The order of 5.9, whatever that of the message was.
            for instruction in instructions.iter() {
                if let Instruction::Meter(meter) = instruction
                    && let Some(meter) = self.meters.get_mut(&meter)
                {
                    match meter.measure(now, way.frame.bytes.len() as u64) {
                        Verdict::Pass => {}
                        Verdict::Drop => return,
                        Verdict::Remark(levels) => remark(&mut way.frame, levels),
                    }
                }
            }
            for instruction in instructions.iter() {
                if let Instruction::ApplyActions(actions) = instruction
                    && !self.apply(&mut way, &actions, out)
                {
                    return;
                }
            }
            for instruction in instructions.iter() {
                match instruction {
                    Instruction::ClearActions => set.clear(),
                    Instruction::WriteMetadata { value, mask } => {
                        way.metadata = way.metadata & !mask | value & mask;
                    }
                    Instruction::GotoTable(table) => next = Some(table.0),
                    _ => {}
                }
            }
            for instruction in instructions.iter() {
                if let Instruction::WriteActions(actions) = instruction {
                    for action in actions {
                        let mut bytes = Vec::new();
                        action.encode(&mut bytes);
                        set.insert(place_in_set(&action), bytes);
                    }
                }
            }
            let Some(table) = next else { break };
            way.table = table;
        }
        // With a group, the output of the set doesn't count.
        if set.keys().any(|(order, _)| *order == 7) {
            set.retain(|(order, _), _| *order != 8);
        }
        way.reason = PacketInReason::ACTION;
        let bytes: Vec<u8> = set.into_values().flatten().collect();
        self.apply(&mut way, &read(&bytes), out);
    }

    /// Does what a Packet-Out asks for.
    pub(super) fn packet_out(
        &mut self,
        now: Time,
        in_port: PortNo,
        frame: Frame,
        actions: &List<'_, Action<'_>>,
        out: &mut Output,
    ) {
        let reason = PacketInReason::ACTION;
        let mut way = Way { now, frame, in_port, metadata: 0, table: 0, cookie: u64::MAX, reason };
        self.apply(&mut way, actions, out);
    }

    /// Does actions in their order; false when the packet has met its end.
    fn apply(&mut self, way: &mut Way, actions: &List<'_, Action<'_>>, out: &mut Output) -> bool {
        for action in actions.iter() {
            match action {
                Action::Output { port, .. } => self.output(way, port, out),
                Action::Group(group) => self.group(way, group, out),
                Action::SetField(Oxm::Field(field)) => way.frame.set(field.kind, field.value),
                Action::PushVlan(kind) => way.frame.push_vlan(kind),
                Action::PopVlan => way.frame.pop_vlan(),
                Action::SetNwTtl(ttl) => way.frame.set_ttl(ttl),
                Action::DecNwTtl => match way.frame.ttl() {
                    Some(ttl @ 2..) => way.frame.set_ttl(ttl - 1),
                    Some(_) => {
                        way.reason = PacketInReason::INVALID_TTL;
                        self.packet_in(way, out);
                        return false;
                    }
                    None => {}
                },
                Action::CapWindow(cap) => way.frame.cap_window(&cap),
                Action::PrepareWindow(caps) => {
                    let severity = self.ports.get(&caps.port).map(|port| port.severity);
                    way.frame.cap_window(&caps.at(severity.unwrap_or(Severity::Recovered)));
                }
                // Queues don't exist here; the rest was refused when the entry was made.
                _ => {}
            }
        }
        true
    }

    fn output(&mut self, way: &Way, port: PortNo, out: &mut Output) {
        match port {
            PortNo::CONTROLLER => self.packet_in(way, out),
            PortNo::IN_PORT => self.transmit(way, way.in_port, out),
            PortNo::ALL | PortNo::FLOOD => {
                let ports: Vec<PortNo> =
                    self.ports.keys().copied().filter(|port| *port != way.in_port).collect();
                for port in ports {
                    self.transmit(way, port, out);
                }
            }
            PortNo::TABLE => self.pipeline(way.now, way.in_port, &way.frame.bytes, out),
            // Back where it came from only when that is said.
            port if port != way.in_port => self.transmit(way, port, out),
            _ => {}
        }
    }

    fn transmit(&mut self, way: &Way, port: PortNo, out: &mut Output) {
        if let Some(state) = self.ports.get_mut(&port)
            && state.forwards()
        {
            state.stats.tx_packets += 1;
            state.stats.tx_frame_bytes += way.frame.bytes.len() as u64;
            out.frames.push((port, way.frame.bytes.clone()));
        }
    }

    fn packet_in(&mut self, way: &Way, out: &mut Output) {
        let whole = &way.frame.bytes;
        let fields = [Field::exact(Kind::InPort, way.in_port.0).into()];
        let packet = PacketIn {
            buffer: BufferId::NONE,
            total_len: u16::try_from(whole.len()).unwrap_or(u16::MAX),
            reason: way.reason,
            table: TableId(way.table),
            cookie: way.cookie,
            fields: List::of(&fields),
            // All of it, whatever the length asked for: there is no buffer to fetch the rest from
            // (7.4.1).
            data: whole,
        };
        if self.ports.get(&way.in_port).is_none_or(|port| port.tells()) {
            self.unasked(&Message::PacketIn(packet), out);
        }
    }

    fn group(&mut self, way: &Way, id: GroupId, out: &mut Output) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        let length = way.frame.bytes.len() as u64;
        group.packets += 1;
        group.frame_bytes += length;
        let bytes = group.buckets.clone();
        let buckets: Vec<Bucket<'_>> = read(&bytes).iter().collect();
        let live = |bucket: &Bucket<'_>| {
            let port = bucket.watch_port;
            port == PortNo::ANY || self.ports.get(&port).is_some_and(|port| port.lives())
        };
        let chosen: Vec<usize> = match group.kind {
            GroupKind::SELECT => select(&way.frame, &buckets).into_iter().collect(),
            GroupKind::FAST_FAILOVER => buckets.iter().position(live).into_iter().collect(),
            _ => (0..buckets.len()).collect(),
        };
        for index in chosen {
            if let Some(Group { counts, .. }) = self.groups.get_mut(&id) {
                counts[index].packets += 1;
                counts[index].frame_bytes += length;
            }
            // Each bucket gets a copy of its own.
            let Some(frame) = Frame::parse(&way.frame.bytes) else { return };
            let mut copy = Way { frame, ..*way };
            self.apply(&mut copy, &buckets[index].actions, out);
        }
    }
}

/// The bucket of a frame: the same one for the same addresses and ports, by weight.
fn select(frame: &Frame, buckets: &[Bucket<'_>]) -> Option<usize> {
    let total: u64 = buckets.iter().map(|bucket| u64::from(bucket.weight)).sum();
    let kinds = [
        Kind::EthSrc,
        Kind::EthDst,
        Kind::Ipv4Src,
        Kind::Ipv4Dst,
        Kind::IpProto,
        Kind::TcpSrc,
        Kind::TcpDst,
        Kind::UdpSrc,
        Kind::UdpDst,
    ];
    // FNV-1a, whose upper bits depend on all of the input.
    let hash = kinds.into_iter().filter_map(|kind| frame.get(kind)).fold(
        0xcbf2_9ce4_8422_2325_u64,
        |hash, value| {
            let bytes = value.to_be_bytes();
            bytes
                .iter()
                .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
        },
    );
    let mut left = (hash >> 32).checked_rem(total)?;
    buckets.iter().position(|bucket| {
        let weight = u64::from(bucket.weight);
        let here = left < weight;
        left = left.saturating_sub(weight);
        here
    })
}

/// Raises the drop precedence of an assured-forwarding class (RFC 2597) by so many levels.
fn remark(frame: &mut Frame, levels: u8) {
    if let Some(dscp) = frame.get(Kind::IpDscp) {
        let (class, precedence) = (dscp >> 3, dscp >> 1 & 0b11);
        if (1..=4).contains(&class) && (1..=3).contains(&precedence) && dscp & 1 == 0 {
            let raised = (precedence + u128::from(levels)).min(3);
            frame.set(Kind::IpDscp, class << 3 | raised << 1);
        }
    }
}
