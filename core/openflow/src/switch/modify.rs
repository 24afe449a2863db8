//! Changing flow entries, groups, meters and ports (6.4 to 6.6, 7.3.4).

use alloc::vec::Vec;

use units::Time;

use crate::action::Action;
use crate::error::ErrorCode;
use crate::flow::{FlowCommand, FlowFlags, FlowMod, RemovedReason, TableId};
use crate::group::{GroupCommand, GroupId, GroupKind, GroupMod};
use crate::meter::{BandKind, MeterCommand, MeterFlags, MeterId, MeterMod};
use crate::multipart::BucketStats;
use crate::packet::BufferId;
use crate::port::{PortMod, PortNo};

use super::meter::Meter;
use super::table::Entry;
use super::{Group, Output, Switch, check};

/// How many entries a table can hold, and how many groups and meters there can be.
pub(super) const MAX_ENTRIES: usize = 100_000;
/// The greatest number of a group or of a meter (`OFPG_MAX`, `OFPM_MAX`).
const MAX_GROUP: u32 = 0xffff_ff00;
const MAX_METER: u32 = 0xffff_0000;

impl Switch {
    pub(super) fn change_flows(
        &mut self,
        now: Time,
        change: &FlowMod<'_>,
        out: &mut Output,
    ) -> Result<(), ErrorCode> {
        let fields = check::fields(&change.fields)?;
        let adds = change.command == FlowCommand::ADD;
        let deletes = matches!(change.command, FlowCommand::DELETE | FlowCommand::DELETE_STRICT);
        let strict =
            matches!(change.command, FlowCommand::MODIFY_STRICT | FlowCommand::DELETE_STRICT);
        if change.command > FlowCommand::DELETE_STRICT {
            return Err(ErrorCode::FLOW_BAD_COMMAND);
        }
        let tables = if change.table == TableId::ALL && deletes {
            0..self.tables.len()
        } else {
            let table = usize::from(change.table.0);
            table..table + 1
        };
        if tables.end > self.tables.len() {
            return Err(ErrorCode::FLOW_BAD_TABLE);
        }
        if !deletes {
            self.known(|known| known.instructions(change.table.0, &change.instructions))?;
            if change.buffer != BufferId::NONE {
                return Err(ErrorCode::BUFFER_UNKNOWN);
            }
        }
        let mut instructions = Vec::new();
        change.instructions.encode(&mut instructions);
        if adds {
            let entry = Entry {
                cookie: change.cookie,
                priority: change.priority,
                flags: change.flags,
                idle_timeout_s: change.idle_timeout_s,
                hard_timeout_s: change.hard_timeout_s,
                fields,
                instructions,
                packets: 0,
                frame_bytes: 0,
                made: now,
                used: now,
            };
            let table = &mut self.tables[tables.start];
            if table.entries.len() >= MAX_ENTRIES {
                return Err(ErrorCode::TABLE_FULL);
            }
            return if table.add(entry) { Ok(()) } else { Err(ErrorCode::OVERLAP) };
        }
        let meant = |entry: &Entry| {
            let same = if strict {
                entry.priority == change.priority && entry.fields == fields
            } else {
                entry.within(&fields)
            };
            same && (entry.cookie ^ change.cookie) & change.cookie_mask == 0
        };
        if !deletes {
            for entry in &mut self.tables[tables.start].entries {
                if meant(entry) {
                    entry.instructions.clone_from(&instructions);
                    if change.flags.has(FlowFlags::RESET_COUNTS) {
                        (entry.packets, entry.frame_bytes) = (0, 0);
                    }
                }
            }
            return Ok(());
        }
        let wanted = |entry: &Entry| {
            let port = change.out_port == PortNo::ANY || entry.sends_to(change.out_port);
            let group = change.out_group == GroupId::ANY || entry.uses_group(change.out_group);
            meant(entry) && port && group
        };
        self.delete(now, tables, RemovedReason::DELETE, wanted, out);
        Ok(())
    }

    fn delete(
        &mut self,
        now: Time,
        tables: core::ops::Range<usize>,
        reason: RemovedReason,
        wanted: impl Fn(&Entry) -> bool,
        out: &mut Output,
    ) {
        for table in tables {
            for entry in self.tables[table].remove(|entry| wanted(entry)) {
                self.removed(now, table, &entry, reason, out);
            }
        }
    }

    pub(super) fn change_group(
        &mut self,
        now: Time,
        change: &GroupMod<'_>,
        out: &mut Output,
    ) -> Result<(), ErrorCode> {
        let known = self.groups.contains_key(&change.group);
        match change.command {
            GroupCommand::ADD if known => return Err(ErrorCode::GROUP_EXISTS),
            GroupCommand::MODIFY if !known => return Err(ErrorCode::UNKNOWN_GROUP),
            GroupCommand::ADD | GroupCommand::MODIFY => {}
            GroupCommand::DELETE => {
                let all = change.group == GroupId::ALL;
                let groups: Vec<GroupId> = self.groups.keys().copied().collect();
                for group in groups.into_iter().filter(|group| all || *group == change.group) {
                    self.groups.remove(&group);
                    let uses = |entry: &Entry| entry.uses_group(group);
                    let tables = 0..self.tables.len();
                    self.delete(now, tables, RemovedReason::GROUP_DELETE, uses, out);
                }
                return Ok(());
            }
            _ => return Err(ErrorCode::GROUP_BAD_COMMAND),
        }
        if change.group.0 > MAX_GROUP {
            return Err(ErrorCode::INVALID_GROUP);
        }
        if change.kind > GroupKind::FAST_FAILOVER {
            return Err(ErrorCode::GROUP_BAD_TYPE);
        }
        if change.command == GroupCommand::ADD && self.groups.len() >= MAX_ENTRIES {
            return Err(ErrorCode::OUT_OF_GROUPS);
        }
        let count = change.buckets.iter().count();
        if change.kind == GroupKind::INDIRECT && count != 1 {
            return Err(ErrorCode::INVALID_GROUP);
        }
        for bucket in change.buckets {
            if bucket.actions.iter().any(|action| matches!(action, Action::Group(_))) {
                return Err(ErrorCode::CHAINING_UNSUPPORTED);
            }
            self.known(|known| known.actions(&bucket.actions, false))?;
        }
        let mut buckets = Vec::new();
        change.buckets.encode(&mut buckets);
        let counts = (0..count).map(|_| BucketStats { packets: 0, frame_bytes: 0 }).collect();
        let made = self.groups.get(&change.group).map_or(now, |group| group.made);
        let group = Group { kind: change.kind, buckets, counts, packets: 0, frame_bytes: 0, made };
        self.groups.insert(change.group, group);
        Ok(())
    }

    pub(super) fn change_meter(
        &mut self,
        now: Time,
        change: &MeterMod<'_>,
        out: &mut Output,
    ) -> Result<(), ErrorCode> {
        let known = self.meters.contains_key(&change.meter);
        match change.command {
            MeterCommand::ADD if known => return Err(ErrorCode::METER_EXISTS),
            MeterCommand::MODIFY if !known => return Err(ErrorCode::UNKNOWN_METER),
            MeterCommand::ADD | MeterCommand::MODIFY => {}
            MeterCommand::DELETE => {
                let all = change.meter == MeterId::ALL;
                let meters: Vec<MeterId> = self.meters.keys().copied().collect();
                for meter in meters.into_iter().filter(|meter| all || *meter == change.meter) {
                    self.meters.remove(&meter);
                    let uses = |entry: &Entry| entry.uses_meter(meter);
                    let tables = 0..self.tables.len();
                    self.delete(now, tables, RemovedReason::DELETE, uses, out);
                }
                return Ok(());
            }
            _ => return Err(ErrorCode::METER_BAD_COMMAND),
        }
        if !(1..=MAX_METER).contains(&change.meter.0) {
            return Err(ErrorCode::INVALID_METER);
        }
        let units = change.flags.0 & (MeterFlags::KBPS.0 | MeterFlags::PACKETS.0);
        if units != MeterFlags::KBPS.0 && units != MeterFlags::PACKETS.0 {
            return Err(ErrorCode::METER_BAD_FLAGS);
        }
        if change.command == MeterCommand::ADD && self.meters.len() >= MAX_ENTRIES {
            return Err(ErrorCode::OUT_OF_METERS);
        }
        if change.bands.iter().any(|band| matches!(band.kind, BandKind::Experimenter { .. })) {
            return Err(ErrorCode::METER_BAD_BAND);
        }
        self.meters.insert(change.meter, Meter::new(now, change.flags, &change.bands));
        Ok(())
    }

    pub(super) fn change_port(
        &mut self,
        change: &PortMod,
        out: &mut Output,
    ) -> Result<(), ErrorCode> {
        let state = self.ports.get_mut(&change.port).ok_or(ErrorCode::PORT_MOD_BAD_PORT)?;
        if state.port.hw_addr != change.hw_addr {
            return Err(ErrorCode::PORT_MOD_BAD_HW_ADDR);
        }
        let mut port = state.port;
        port.config = port.config & !change.mask | change.config & change.mask;
        if port != state.port {
            // The time of a port is that of its making, which this does not change.
            let made = state.made;
            self.set_port(made, port, out);
        }
        Ok(())
    }
}
