//! A switch in memory: the test double of a real one.
//!
//! It does what a controller can see of a switch: tables of priorities and masks, timeouts,
//! meters, groups, counters, Packet-In, roles and errors. The same tests run against it and against
//! Open vSwitch (`tests/conformance`). It keeps no packets and has no queues: how congested a port is,
//! it is told ([`Switch::notify`]). It knows neither MPLS nor provider bridging nor groups that lead to
//! groups: it refuses those.

mod check;
mod frame;
mod meter;
mod modify;
mod pipeline;
mod statistics;
mod table;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use model::Severity;
use units::{Span, Time};

use crate::error::{ErrorCode, ErrorMessage};
use crate::flow::{FlowFlags, FlowRemoved, RemovedReason, TableId};
use crate::group::{GroupId, GroupKind};
use crate::message::{AsyncConfig, Features, Message, Role, RoleMessage, SwitchConfig};
use crate::meter::MeterId;
use crate::multipart::{BucketStats, PortStats};
use crate::oxm::Oxm;
use crate::packet::{BufferId, PacketOut};
use crate::port::{Port, PortNo, PortReason, PortStatus};
use crate::sdtcp::Notice;
use crate::wire::List;

use frame::Frame;
use meter::Meter;
use table::{Entry, Table};

/// Bits of a port's configuration and state (7.2.1).
const PORT_DOWN: u32 = 1;
const NO_RECV: u32 = 1 << 2;
const NO_FWD: u32 = 1 << 5;
const NO_PACKET_IN: u32 = 1 << 6;
const LINK_DOWN: u32 = 1;

/// What a switch does in answer to something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Whole messages to the controller.
    pub messages: Vec<Vec<u8>>,
    /// Frames, and the ports that they leave by.
    pub frames: Vec<(PortNo, Vec<u8>)>,
}

impl Output {
    /// Adds a message. One that is too long is left out: a switch sends none.
    fn message(&mut self, xid: u32, message: &Message<'_>) {
        let mut bytes = Vec::new();
        if message.encode(xid, &mut bytes).is_ok() {
            self.messages.push(bytes);
        }
    }
}

#[derive(Clone, Debug)]
struct PortState {
    port: Port,
    stats: PortStats,
    made: Time,
    /// How congested it is, by what [`Switch::notify`] was told last.
    severity: Severity,
}

impl PortState {
    const fn lives(&self) -> bool {
        self.port.config & PORT_DOWN == 0 && self.port.state & LINK_DOWN == 0
    }

    const fn receives(&self) -> bool {
        self.lives() && self.port.config & NO_RECV == 0
    }

    const fn forwards(&self) -> bool {
        self.lives() && self.port.config & NO_FWD == 0
    }

    const fn tells(&self) -> bool {
        self.port.config & NO_PACKET_IN == 0
    }
}

#[derive(Clone, Debug)]
struct Group {
    kind: GroupKind,
    /// As on the wire: checked when the group was made.
    buckets: Vec<u8>,
    counts: Vec<BucketStats>,
    packets: u64,
    frame_bytes: u64,
    made: Time,
}

/// A switch with one controller.
#[derive(Clone, Debug)]
pub struct Switch {
    datapath_id: u64,
    ports: BTreeMap<PortNo, PortState>,
    tables: Vec<Table>,
    groups: BTreeMap<GroupId, Group>,
    meters: BTreeMap<MeterId, Meter>,
    config: SwitchConfig,
    role: Role,
    generation: Option<u64>,
    unasked: AsyncConfig,
}

impl Switch {
    /// A switch without ports.
    pub fn new(datapath_id: u64, tables: u8) -> Self {
        Self {
            datapath_id,
            ports: BTreeMap::new(),
            tables: (0..tables).map(|_| Table::default()).collect(),
            groups: BTreeMap::new(),
            meters: BTreeMap::new(),
            config: SwitchConfig { flags: 0, miss_send_len: 128 },
            role: Role::EQUAL,
            generation: None,
            // All reasons to a master, ports alone to a slave (6.3.6). No Packet-In for a time to
            // live that is over: Open vSwitch sends none either until asked.
            unasked: AsyncConfig {
                packet_in: !(1 << 2),
                packet_in_slave: 0,
                port_status: 0b111,
                port_status_slave: 0b111,
                flow_removed: 0b1111,
                flow_removed_slave: 0,
            },
        }
    }

    /// Adds a port, or replaces one, and tells the controller.
    pub fn set_port(&mut self, now: Time, port: Port, out: &mut Output) {
        let stats = PortStats {
            port: port.port,
            rx_packets: 0,
            tx_packets: 0,
            rx_frame_bytes: 0,
            tx_frame_bytes: 0,
            rx_dropped: 0,
            tx_dropped: 0,
            rx_errors: 0,
            tx_errors: 0,
            rx_frame_errors: 0,
            rx_over_errors: 0,
            rx_crc_errors: 0,
            collisions: 0,
            duration: Span::ZERO,
        };
        let known = self.ports.get_mut(&port.port);
        let reason = if known.is_some() { PortReason::MODIFY } else { PortReason::ADD };
        match known {
            Some(state) => state.port = port,
            None => {
                let severity = Severity::Recovered;
                self.ports.insert(port.port, PortState { port, stats, made: now, severity });
            }
        }
        self.unasked(&Message::PortStatus(PortStatus { reason, port }), out);
    }

    /// The queue of a port has passed a threshold, or recovered: what is prepared for it changes, and the
    /// controller is told.
    pub fn notify(&mut self, notice: &Notice, out: &mut Output) {
        if let Some(state) = self.ports.get_mut(&notice.port) {
            state.severity = notice.severity;
        }
        let fields = notice.fields();
        self.unasked(&Message::PacketIn(notice.packet_in(&fields)), out);
    }

    /// Does what a message asks for.
    pub fn handle(&mut self, now: Time, xid: u32, message: &Message<'_>, out: &mut Output) {
        if let Err(error) = self.try_handle(now, xid, message, out) {
            let mut bytes = Vec::new();
            // At least 64 bytes of the message that failed, or all of it (`ofp_error_msg`).
            let data = match message.encode(xid, &mut bytes) {
                Ok(()) => &bytes[..bytes.len().min(64)],
                Err(_) => &[],
            };
            out.message(xid, &Message::Error(ErrorMessage { error, data }));
        }
    }

    fn try_handle(
        &mut self,
        now: Time,
        xid: u32,
        message: &Message<'_>,
        out: &mut Output,
    ) -> Result<(), ErrorCode> {
        let changes = matches!(
            message,
            Message::PacketOut(_)
                | Message::FlowMod(_)
                | Message::GroupMod(_)
                | Message::PortMod(_)
                | Message::TableMod(_)
                | Message::MeterMod(_)
        );
        if changes && self.role == Role::SLAVE {
            return Err(ErrorCode::IS_SLAVE);
        }
        self.expire(now, out);
        match message {
            Message::EchoRequest(data) => out.message(xid, &Message::EchoReply(data)),
            Message::FeaturesRequest => out.message(xid, &Message::FeaturesReply(self.features())),
            Message::GetConfigRequest => out.message(xid, &Message::GetConfigReply(self.config)),
            Message::SetConfig(config) => self.config = *config,
            Message::BarrierRequest => out.message(xid, &Message::BarrierReply),
            Message::GetAsyncRequest => out.message(xid, &Message::GetAsyncReply(self.unasked)),
            Message::SetAsync(config) => self.unasked = *config,
            Message::RoleRequest(request) => self.take_role(xid, *request, out)?,
            Message::PacketOut(packet) => self.send_out(now, packet, out)?,
            Message::FlowMod(change) => self.change_flows(now, change, out)?,
            Message::GroupMod(change) => self.change_group(now, change, out)?,
            Message::MeterMod(change) => self.change_meter(now, change, out)?,
            Message::PortMod(change) => self.change_port(change, out)?,
            Message::TableMod(change) => {
                let known = usize::from(change.table.0) < self.tables.len();
                if !known && change.table != TableId::ALL {
                    return Err(ErrorCode { kind: 8, code: 0 });
                }
            }
            Message::QueueGetConfigRequest(port) => {
                if *port != PortNo::ANY && !self.ports.contains_key(port) {
                    return Err(ErrorCode::QUEUE_BAD_PORT);
                }
                let queues = List::EMPTY;
                out.message(xid, &Message::QueueGetConfigReply { port: *port, queues });
            }
            Message::MultipartRequest { body, .. } => self.statistics(now, xid, body, out)?,
            Message::Experimenter(_) => return Err(ErrorCode::BAD_EXPERIMENTER),
            Message::Hello(_) | Message::Error(_) | Message::EchoReply(_) => {}
            // What switches send.
            _ => return Err(ErrorCode::BAD_TYPE),
        }
        Ok(())
    }

    /// Removes the flow entries whose time is over.
    pub fn tick(&mut self, now: Time, out: &mut Output) {
        self.expire(now, out);
    }

    /// When the next flow entry's time is over.
    pub fn deadline(&self) -> Option<Time> {
        let entries = self.tables.iter().flat_map(|table| &table.entries);
        entries.filter_map(|entry| entry.end()).map(|(time, _)| time).min()
    }

    fn expire(&mut self, now: Time, out: &mut Output) {
        for table in 0..self.tables.len() {
            let over = |entry: &mut Entry| entry.end().is_some_and(|(time, _)| time <= now);
            for entry in self.tables[table].remove(over) {
                let reason = entry.end().map_or(RemovedReason::HARD_TIMEOUT, |(_, reason)| reason);
                self.removed(now, table, &entry, reason, out);
            }
        }
    }

    /// Tells the controller of an entry that has gone, if it wants to know.
    fn removed(
        &self,
        now: Time,
        table: usize,
        entry: &Entry,
        reason: RemovedReason,
        out: &mut Output,
    ) {
        if !entry.flags.has(FlowFlags::SEND_FLOW_REMOVED) {
            return;
        }
        let fields: Vec<Oxm<'_>> = entry.fields.iter().map(|field| (*field).into()).collect();
        let removed = FlowRemoved {
            cookie: entry.cookie,
            priority: entry.priority,
            reason,
            table: TableId(u8::try_from(table).unwrap_or(u8::MAX)),
            duration: now.since(entry.made),
            idle_timeout_s: entry.idle_timeout_s,
            hard_timeout_s: entry.hard_timeout_s,
            packets: entry.packets,
            frame_bytes: entry.frame_bytes,
            fields: List::of(&fields),
        };
        self.unasked(&Message::FlowRemoved(removed), out);
    }

    /// Sends a message that nobody asked for, if the controller wants such.
    fn unasked(&self, message: &Message<'_>, out: &mut Output) {
        let slave = self.role == Role::SLAVE;
        let pick = |main: u32, other: u32| if slave { other } else { main };
        let config = &self.unasked;
        let (mask, reason) = match message {
            Message::PacketIn(packet) => {
                (pick(config.packet_in, config.packet_in_slave), packet.reason.0)
            }
            Message::PortStatus(status) => {
                (pick(config.port_status, config.port_status_slave), status.reason.0)
            }
            Message::FlowRemoved(removed) => {
                (pick(config.flow_removed, config.flow_removed_slave), removed.reason.0)
            }
            _ => (u32::MAX, 0),
        };
        if mask.checked_shr(reason.into()).is_some_and(|mask| mask & 1 == 1) {
            out.message(0, message);
        }
    }

    fn features(&self) -> Features {
        Features {
            datapath_id: self.datapath_id,
            n_buffers: 0,
            n_tables: u8::try_from(self.tables.len()).unwrap_or(u8::MAX),
            auxiliary_id: 0,
            // Statistics of flows, tables, ports and groups.
            capabilities: 0b1111,
            reserved: 0,
        }
    }

    fn take_role(
        &mut self,
        xid: u32,
        wanted: RoleMessage,
        out: &mut Output,
    ) -> Result<(), ErrorCode> {
        match wanted.role {
            Role::NO_CHANGE => {}
            Role::EQUAL => self.role = Role::EQUAL,
            Role::MASTER | Role::SLAVE => {
                // The number goes round: "older" is a distance below zero (6.3.6).
                let age = self.generation.map(|last| wanted.generation_id.wrapping_sub(last));
                if age.is_some_and(|age| age >= 1 << 63) {
                    return Err(ErrorCode::STALE);
                }
                self.generation = Some(wanted.generation_id);
                self.role = wanted.role;
            }
            _ => return Err(ErrorCode::BAD_ROLE),
        }
        let generation_id = self.generation.unwrap_or(u64::MAX);
        out.message(xid, &Message::RoleReply(RoleMessage { role: self.role, generation_id }));
        Ok(())
    }

    fn send_out(
        &mut self,
        now: Time,
        packet: &PacketOut<'_>,
        out: &mut Output,
    ) -> Result<(), ErrorCode> {
        if packet.buffer != BufferId::NONE {
            return Err(ErrorCode::BUFFER_UNKNOWN);
        }
        self.known(|known| known.actions(&packet.actions, true))?;
        let frame = Frame::parse(packet.data).ok_or(ErrorCode::BAD_PACKET)?;
        self.packet_out(now, packet.in_port, frame, &packet.actions, out);
        Ok(())
    }

    fn known<T>(&self, check: impl FnOnce(&check::Known<'_>) -> T) -> T {
        check(&check::Known {
            has_group: &|group| self.groups.contains_key(&GroupId(group)),
            has_meter: &|meter| self.meters.contains_key(&MeterId(meter)),
            tables: u8::try_from(self.tables.len()).unwrap_or(u8::MAX),
        })
    }
}
