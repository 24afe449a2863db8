//! Answers to multipart requests (7.3.5).

use alloc::vec::Vec;

use units::Time;

use crate::error::ErrorCode;
use crate::flow::TableId;
use crate::group::GroupId;
use crate::message::Message;
use crate::meter::MeterId;
use crate::multipart::{
    Aggregate, Description, FlowSelect, FlowStats, GroupDesc, GroupFeatures, GroupStats,
    MeterConfig, MeterFeatures, MeterStats, MultipartKind, PortStats, Reply, Request,
    TableFeatures, TableStats,
};
use crate::oxm::{Field, Oxm};
use crate::port::PortNo;
use crate::queue::QueueId;
use crate::wire::{Item, List, Part, Reader};

use super::modify::MAX_ENTRIES;
use super::table::{Entry, read};
use super::{Output, Switch, check};

/// Bytes of entries that go into one message.
const PART_BYTES: usize = 32_000;
/// As a limit that a switch tells.
#[allow(clippy::cast_possible_truncation)] // far below 2³²
const MAX: u32 = MAX_ENTRIES as u32;

/// Answers with entries, in as many messages as they take.
struct Parts<'o> {
    xid: u32,
    kind: MultipartKind,
    bytes: Vec<u8>,
    out: &'o mut Output,
}

impl Parts<'_> {
    fn push<'a>(&mut self, entry: &impl Item<'a>) {
        if self.bytes.len() >= PART_BYTES {
            self.flush(true);
        }
        entry.encode(&mut self.bytes);
    }

    fn flush(&mut self, more: bool) {
        let mut entries = Reader::new(&self.bytes, Part::Multipart);
        if let Ok(body) = Reply::decode(self.kind, &mut entries) {
            self.out.message(self.xid, &Message::MultipartReply { more, body });
        }
        self.bytes.clear();
    }
}

impl Switch {
    pub(super) fn statistics(
        &self,
        now: Time,
        xid: u32,
        request: &Request<'_>,
        out: &mut Output,
    ) -> Result<(), ErrorCode> {
        let mut parts = Parts { xid, kind: request.kind(), bytes: Vec::new(), out };
        let single = match request {
            Request::Desc => Reply::Desc(Description {
                manufacturer: b"Watermaster",
                hardware: b"none",
                software: b"switch model",
                serial: b"none",
                datapath: b"a switch in memory",
            }),
            Request::Flow(select) => {
                for (table, entry) in self.select(select)? {
                    let fields = oxms(&entry.fields);
                    parts.push(&FlowStats {
                        table: TableId(table),
                        duration: now.since(entry.made),
                        priority: entry.priority,
                        idle_timeout_s: entry.idle_timeout_s,
                        hard_timeout_s: entry.hard_timeout_s,
                        flags: entry.flags,
                        cookie: entry.cookie,
                        packets: entry.packets,
                        frame_bytes: entry.frame_bytes,
                        fields: List::of(&fields),
                        instructions: entry.instructions(),
                    });
                }
                parts.flush(false);
                return Ok(());
            }
            Request::Aggregate(select) => {
                let mut sums = Aggregate { packets: 0, frame_bytes: 0, flows: 0 };
                for (_, entry) in self.select(select)? {
                    sums.packets += entry.packets;
                    sums.frame_bytes += entry.frame_bytes;
                    sums.flows += 1;
                }
                Reply::Aggregate(sums)
            }
            Request::GroupFeatures => Reply::GroupFeatures(GroupFeatures {
                kinds: 0b1111,
                // Weights and liveness.
                capabilities: 0b11,
                max_groups: [MAX; 4],
                // Output, push and pop of VLAN, queue, time to live, set-field.
                actions: [1 | 3 << 17 | 1 << 21 | 7 << 23; 4],
            }),
            Request::MeterFeatures => Reply::MeterFeatures(MeterFeatures {
                max_meters: MAX,
                // Drop and remark.
                band_kinds: 0b110,
                // Both units, bursts, statistics.
                capabilities: 0b1111,
                max_bands: u8::MAX,
                max_colors: 0,
            }),
            Request::Experimenter(_) => return Err(ErrorCode::BAD_EXPERIMENTER),
            _ => {
                self.entries(now, request, &mut parts)?;
                parts.flush(false);
                return Ok(());
            }
        };
        parts.out.message(xid, &Message::MultipartReply { more: false, body: single });
        Ok(())
    }

    fn entries(
        &self,
        now: Time,
        request: &Request<'_>,
        parts: &mut Parts<'_>,
    ) -> Result<(), ErrorCode> {
        match *request {
            Request::Table => {
                for (table, id) in self.tables.iter().zip(0..) {
                    parts.push(&TableStats {
                        table: TableId(id),
                        active: u32::try_from(table.entries.len()).unwrap_or(u32::MAX),
                        lookups: table.lookups,
                        matched: table.matched,
                    });
                }
            }
            Request::TableFeatures(_) => {
                for id in (0..).take(self.tables.len()) {
                    parts.push(&TableFeatures {
                        table: TableId(id),
                        name: [0; 32],
                        metadata_match: u64::MAX,
                        metadata_write: u64::MAX,
                        config: 0,
                        max_entries: MAX,
                        properties: List::EMPTY,
                    });
                }
            }
            Request::PortStats(wanted) => {
                for (port, state) in &self.ports {
                    if wanted == PortNo::ANY || *port == wanted {
                        let duration = now.since(state.made);
                        parts.push(&PortStats { duration, ..state.stats });
                    }
                }
            }
            Request::PortDesc => self.ports.values().for_each(|state| parts.push(&state.port)),
            Request::Queue(wanted) => {
                if wanted.port != PortNo::ANY && !self.ports.contains_key(&wanted.port) {
                    return Err(ErrorCode::QUEUE_BAD_PORT);
                }
                if wanted.queue != QueueId::ALL {
                    return Err(ErrorCode::QUEUE_BAD_QUEUE);
                }
            }
            Request::Group(wanted) => {
                for (id, group) in &self.groups {
                    if wanted == GroupId::ALL || *id == wanted {
                        let entries = self.tables.iter().flat_map(|table| &table.entries);
                        let users = entries.filter(|entry| entry.uses_group(*id)).count();
                        parts.push(&GroupStats {
                            group: *id,
                            references: u32::try_from(users).unwrap_or(u32::MAX),
                            packets: group.packets,
                            frame_bytes: group.frame_bytes,
                            duration: now.since(group.made),
                            buckets: List::of(&group.counts),
                        });
                    }
                }
            }
            Request::GroupDesc => {
                for (id, group) in &self.groups {
                    let buckets = read(&group.buckets);
                    parts.push(&GroupDesc { kind: group.kind, group: *id, buckets });
                }
            }
            Request::Meter(wanted) | Request::MeterConfig(wanted) => {
                if wanted != MeterId::ALL && !self.meters.contains_key(&wanted) {
                    return Err(ErrorCode::UNKNOWN_METER);
                }
                let meters = self.meters.iter();
                for (id, meter) in meters.filter(|(id, _)| wanted == MeterId::ALL || **id == wanted)
                {
                    if matches!(request, Request::MeterConfig(_)) {
                        let (flags, bands) = (meter.flags, meter.bands());
                        parts.push(&MeterConfig { flags, meter: *id, bands });
                        continue;
                    }
                    let entries = self.tables.iter().flat_map(|table| &table.entries);
                    let users = entries.filter(|entry| entry.uses_meter(*id)).count();
                    parts.push(&MeterStats {
                        meter: *id,
                        flows: u32::try_from(users).unwrap_or(u32::MAX),
                        packets: meter.packets,
                        frame_bytes: meter.frame_bytes,
                        duration: now.since(meter.made),
                        bands: List::of(&meter.counts),
                    });
                }
            }
            // Answered in one piece.
            _ => {}
        }
        Ok(())
    }

    fn select(&self, select: &FlowSelect<'_>) -> Result<Vec<(u8, &Entry)>, ErrorCode> {
        let fields = check::fields(&select.fields)?;
        if select.table != TableId::ALL && usize::from(select.table.0) >= self.tables.len() {
            return Err(ErrorCode::BAD_TABLE);
        }
        let mut found = Vec::new();
        for (table, id) in self.tables.iter().zip(0..) {
            if select.table == TableId::ALL || select.table == TableId(id) {
                let meant = |entry: &&Entry| {
                    let any_port = select.out_port == PortNo::ANY;
                    let any_group = select.out_group == GroupId::ANY;
                    entry.within(&fields)
                        && (entry.cookie ^ select.cookie) & select.cookie_mask == 0
                        && (any_port || entry.sends_to(select.out_port))
                        && (any_group || entry.uses_group(select.out_group))
                };
                found.extend(table.entries.iter().filter(meant).map(|entry| (id, entry)));
            }
        }
        Ok(found)
    }
}

fn oxms(fields: &[Field]) -> Vec<Oxm<'static>> {
    fields.iter().map(|field| (*field).into()).collect()
}
