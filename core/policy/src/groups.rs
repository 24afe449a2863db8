//! Groups of flows that go first or wait together: a rank for each, and who of them is on a link.
//!
//! A flow names its group and has no rank of its own, so that another rank of a group is told to the links
//! that its flows cross, however many these are.

use alloc::collections::BTreeSet;
use alloc::collections::btree_map::{BTreeMap, Entry};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use model::{FlowId, LinkId};
use units::Bytes;

use crate::lists::position;

/// The place of a group of flows in the order; the smaller goes first. A group is a job, or a flow
/// of its own, and its `arrival` is unique: flows of equal rank belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// The amount of data that the order goes by.
    pub(crate) amount: Bytes,
    /// Breaks ties.
    pub(crate) arrival: u64,
}

/// A group with flows in the network.
#[derive(Debug)]
struct Group {
    rank: Rank,
    flows: usize,
    /// The links that flows cross, in order, with how many do.
    links: Vec<(LinkId, u32)>,
}

impl Group {
    fn enter(&mut self, path: &[LinkId]) {
        for link in path {
            match self.links.binary_search_by_key(link, |(link, _)| *link) {
                Ok(place) => self.links[place].1 += 1,
                Err(place) => self.links.insert(place, (*link, 1)),
            }
        }
    }

    fn leave(&mut self, path: &[LinkId]) {
        for link in path {
            if let Ok(place) = self.links.binary_search_by_key(link, |(link, _)| *link) {
                self.links[place].1 -= 1;
                if self.links[place].1 == 0 {
                    self.links.remove(place);
                }
            }
        }
    }
}

/// Which group a flow is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupId(u32);

/// All groups.
#[derive(Debug)]
pub(crate) struct Groups {
    by_arrival: BTreeMap<u64, GroupId>,
    table: Vec<Group>,
    /// Groups without flows, whose places others can have.
    free: Vec<GroupId>,
}

impl Groups {
    /// No groups.
    pub(crate) const NONE: Self =
        Self { by_arrival: BTreeMap::new(), table: Vec::new(), free: Vec::new() };

    pub(crate) fn find(&self, arrival: u64) -> Option<GroupId> {
        self.by_arrival.get(&arrival).copied()
    }

    pub(crate) fn rank(&self, group: GroupId) -> Rank {
        self.table[group.0 as usize].rank
    }

    /// Gives a group another rank. Returns the one that it had.
    pub(crate) fn rerank(&mut self, group: GroupId, rank: Rank) -> Rank {
        core::mem::replace(&mut self.table[group.0 as usize].rank, rank)
    }

    /// The links that flows of a group cross, in order.
    pub(crate) fn links(&self, group: GroupId) -> impl Iterator<Item = LinkId> {
        self.table[group.0 as usize].links.iter().map(|(link, _)| *link)
    }

    /// A flow enters the network. A group that has flows already keeps its rank.
    pub(crate) fn enter(&mut self, rank: Rank, path: &[LinkId]) -> GroupId {
        let Self { by_arrival, table, free } = self;
        let id = *by_arrival.entry(rank.arrival).or_insert_with(|| {
            if let Some(id) = free.pop() {
                table[id.0 as usize].rank = rank;
                return id;
            }
            table.push(Group { rank, flows: 0, links: Vec::new() });
            GroupId(position(table.len() - 1))
        });
        let group = &mut table[id.0 as usize];
        group.flows += 1;
        group.enter(path);
        id
    }

    /// A flow of a group is gone, and with the last one the group.
    pub(crate) fn leave(&mut self, id: GroupId, path: &[LinkId]) {
        let group = &mut self.table[id.0 as usize];
        group.leave(path);
        group.flows -= 1;
        if group.flows == 0 {
            group.links = Vec::new();
            self.by_arrival.remove(&group.rank.arrival);
            self.free.push(id);
        }
        if self.by_arrival.is_empty() {
            *self = Self::NONE;
        }
    }

    /// A flow of a group takes another path.
    pub(crate) fn reroute(&mut self, id: GroupId, before: &[LinkId], path: &[LinkId]) {
        let group = &mut self.table[id.0 as usize];
        group.leave(before);
        group.enter(path);
    }
}

/// Flows on a link, group by group.
#[derive(Debug, Default)]
pub(crate) struct Ranked {
    groups: BTreeMap<Rank, BTreeSet<FlowId>>,
}

impl Ranked {
    pub(crate) fn insert(&mut self, rank: Rank, id: FlowId) {
        self.groups.entry(rank).or_default().insert(id);
    }

    pub(crate) fn remove(&mut self, rank: Rank, id: FlowId) {
        if let Entry::Occupied(mut group) = self.groups.entry(rank) {
            group.get_mut().remove(&id);
            if group.get().is_empty() {
                group.remove();
            }
        }
    }

    /// All of a group that are here go on with another rank.
    pub(crate) fn rerank(&mut self, before: Rank, rank: Rank) {
        if let Some(group) = self.groups.remove(&before) {
            self.groups.insert(rank, group);
        }
    }

    /// The best rank, with the first flow that has it.
    pub(crate) fn first(&self) -> Option<(Rank, FlowId)> {
        let (&rank, group) = self.groups.first_key_value()?;
        group.first().map(|&id| (rank, id))
    }

    /// All of worse rank.
    pub(crate) fn behind(&self, rank: Rank) -> impl Iterator<Item = (Rank, FlowId)> {
        let groups = self.groups.range((Excluded(rank), Unbounded));
        groups.flat_map(|(rank, group)| group.iter().map(move |id| (*rank, *id)))
    }
}
