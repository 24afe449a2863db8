//! A flow table: entries by priority, their counters and their time (5.2 to 5.5, 6.4).

use alloc::vec::Vec;

use units::{Span, Time};

use crate::action::{Action, Instruction};
use crate::flow::{FlowFlags, RemovedReason};
use crate::group::GroupId;
use crate::meter::MeterId;
use crate::oxm::Field;
use crate::port::PortNo;
use crate::wire::{List, Part, Reader};

/// A flow entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub cookie: u64,
    pub priority: u16,
    pub flags: FlowFlags,
    pub idle_timeout_s: u16,
    pub hard_timeout_s: u16,
    /// In the order of their kinds.
    pub fields: Vec<Field>,
    /// As on the wire: checked when the entry was made.
    pub instructions: Vec<u8>,
    pub packets: u64,
    pub frame_bytes: u64,
    pub made: Time,
    pub used: Time,
}

impl Entry {
    pub fn instructions(&self) -> List<'_, Instruction<'_>> {
        read(&self.instructions)
    }

    /// True when a packet whose fields `get` gives belongs to the entry.
    pub fn takes(&self, get: impl Fn(&Field) -> Option<u128>) -> bool {
        let fits =
            |field: &Field| get(field).is_some_and(|value| value & field.wild() == field.value);
        self.fields.iter().all(fits)
    }

    /// True when every packet of this entry is one of `fields`.
    pub fn within(&self, fields: &[Field]) -> bool {
        fields.iter().all(|wide| {
            self.fields.iter().any(|own| {
                own.kind == wide.kind
                    && own.wild() & wide.wild() == wide.wild()
                    && own.value & wide.wild() == wide.value
            })
        })
    }

    /// True when a packet may be of this entry and of `fields`.
    fn overlaps(&self, fields: &[Field]) -> bool {
        let apart = |a: &Field, b: &Field| {
            a.kind == b.kind && (a.value ^ b.value) & a.wild() & b.wild() != 0
        };
        !self.fields.iter().any(|own| fields.iter().any(|other| apart(own, other)))
    }

    fn any_action(&self, test: impl Fn(&Action<'_>) -> bool) -> bool {
        self.instructions().iter().any(|instruction| match instruction {
            Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
                actions.iter().any(|action| test(&action))
            }
            _ => false,
        })
    }

    pub fn sends_to(&self, wanted: PortNo) -> bool {
        self.any_action(|action| matches!(action, Action::Output { port, .. } if *port == wanted))
    }

    pub fn uses_group(&self, wanted: GroupId) -> bool {
        self.any_action(|action| *action == Action::Group(wanted))
    }

    pub fn uses_meter(&self, wanted: MeterId) -> bool {
        self.instructions().iter().any(|instruction| instruction == Instruction::Meter(wanted))
    }

    /// When it goes by itself, and why.
    pub fn end(&self) -> Option<(Time, RemovedReason)> {
        let timeout = |from: Time, seconds: u16, reason| {
            (seconds > 0).then(|| (from + Span::from_secs(seconds.into()), reason))
        };
        let hard = timeout(self.made, self.hard_timeout_s, RemovedReason::HARD_TIMEOUT);
        let idle = timeout(self.used, self.idle_timeout_s, RemovedReason::IDLE_TIMEOUT);
        [hard, idle].into_iter().flatten().min_by_key(|(time, _)| *time)
    }
}

/// Bytes that were encoded from a list.
pub(super) fn read<'a, T: crate::wire::Item<'a>>(bytes: &'a [u8]) -> List<'a, T> {
    List::decode(&mut Reader::new(bytes, Part::Message)).unwrap_or(List::EMPTY)
}

/// The entries of a table in falling priority.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub entries: Vec<Entry>,
    pub lookups: u64,
    pub matched: u64,
}

impl Table {
    /// Adds an entry; one of equal match and priority makes way, but keeps its counters unless
    /// they are to be reset. False when it overlaps another and must not.
    pub fn add(&mut self, mut entry: Entry) -> bool {
        let overlaps = |old: &Entry| old.priority == entry.priority && old.overlaps(&entry.fields);
        if entry.flags.has(FlowFlags::CHECK_OVERLAP) && self.entries.iter().any(overlaps) {
            return false;
        }
        let equal = |old: &Entry| old.priority == entry.priority && old.fields == entry.fields;
        if let Some(at) = self.entries.iter().position(equal) {
            let old = self.entries.remove(at);
            if !entry.flags.has(FlowFlags::RESET_COUNTS) {
                (entry.packets, entry.frame_bytes) = (old.packets, old.frame_bytes);
            }
        }
        let at = self.entries.partition_point(|old| old.priority >= entry.priority);
        self.entries.insert(at, entry);
        true
    }

    /// The entry of highest priority for a packet whose fields `get` gives.
    pub fn find(&mut self, get: impl Fn(&Field) -> Option<u128>) -> Option<&mut Entry> {
        self.lookups += 1;
        let found = self.entries.iter_mut().find(|entry| entry.takes(&get))?;
        self.matched += 1;
        Some(found)
    }

    /// Takes out the entries that fulfil `test`.
    pub fn remove(&mut self, test: impl FnMut(&mut Entry) -> bool) -> Vec<Entry> {
        self.entries.extract_if(.., test).collect()
    }
}
