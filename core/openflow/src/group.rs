//! Groups: several ways to send a packet on (7.3.4.2).

use alloc::vec::Vec;

use crate::action::Action;
use crate::port::PortNo;
use crate::wire::{Item, List, Malformed, Part, Plain, Reader, code, pad, put, sized};

code! {
    /// A group.
    GroupId(u32) {
        /// Every group, in a deletion or request.
        ALL = 0xffff_fffc;
        /// No particular group, in requests for flow entries.
        ANY = 0xffff_ffff;
    }
}

code! {
    /// What a group modification does.
    GroupCommand(u16) {
        /// Adds a group.
        ADD = 0;
        /// Changes one that is there.
        MODIFY = 1;
        /// Deletes a group and the flow entries that use it.
        DELETE = 2;
    }
}

code! {
    /// How a group chooses among its buckets.
    GroupKind(u8) {
        /// A copy to each.
        ALL = 0;
        /// One, by weight.
        SELECT = 1;
        /// The only one.
        INDIRECT = 2;
        /// The first that lives.
        FAST_FAILOVER = 3;
    }
}

/// One way of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket<'a> {
    /// Its share, in groups of kind [`GroupKind::SELECT`].
    pub weight: u16,
    /// It lives while this port does, unless [`PortNo::ANY`].
    pub watch_port: PortNo,
    /// It lives while this group does, unless [`GroupId::ANY`].
    pub watch_group: GroupId,
    /// What it does.
    pub actions: List<'a, Action<'a>>,
}

impl<'a> Item<'a> for Bucket<'a> {
    const PART: Part = Part::Bucket;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut from = from.part(Part::Bucket).sized(0, 16, 8)?;
        from.skip(2)?;
        let (weight, watch_port) = (from.u16()?, PortNo::get(&mut from)?);
        let watch_group = GroupId::get(&mut from)?;
        from.skip(4)?;
        Ok(Self { weight, watch_port, watch_group, actions: List::decode(&mut from)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        sized(out, 0, 8, true, |out| {
            put!(out, 0u16, self.weight, self.watch_port, self.watch_group);
            pad(out, 4);
            self.actions.encode(out);
        });
    }
}

/// Adds, changes or deletes a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMod<'a> {
    /// What to do.
    pub command: GroupCommand,
    /// How it chooses.
    pub kind: GroupKind,
    /// Which group.
    pub group: GroupId,
    /// Its buckets.
    pub buckets: List<'a, Bucket<'a>>,
}

impl<'a> GroupMod<'a> {
    pub(crate) fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (command, kind) = (GroupCommand::get(from)?, GroupKind::get(from)?);
        from.skip(1)?;
        Ok(Self { command, kind, group: GroupId::get(from)?, buckets: List::decode(from)? })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put!(out, self.command, self.kind, 0u8, self.group);
        self.buckets.encode(out);
    }
}
