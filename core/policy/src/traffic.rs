//! A job's traffic matrix as it becomes known (Phurti, sections 4.1 and 5.1, figure 5.1).

use alloc::collections::BTreeSet;
use alloc::collections::btree_map::{BTreeMap, Entry};

use model::{NodeId, TaskId};
use units::Bytes;

/// What a job has declared to send between each pair of hosts. Traffic within a host crosses no
/// network and doesn't count.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    hosts: BTreeMap<TaskId, NodeId>,
    /// Announced payload by (map, reduce).
    sizes: BTreeMap<(TaskId, TaskId), Bytes>,
    /// The same pairs as (reduce, map).
    sources: BTreeSet<(TaskId, TaskId)>,
    pairs: BTreeMap<(NodeId, NodeId), Pair>,
    /// How many pairs have each load, but for none at all.
    loads: BTreeMap<u128, usize>,
}

/// Traffic between two hosts. Sums are wide: 2⁶⁴ amounts don't overflow them.
#[derive(Debug, Default)]
struct Pair {
    /// `SIZE` entries with both hosts known.
    entries: u64,
    announced: u128,
    /// Sum of `FLOW_REQUEST`s.
    requested: u128,
}

impl Pair {
    /// Announced sizes where there are some: they say earlier and once what requests repeat.
    const fn load(&self) -> u128 {
        if self.entries > 0 { self.announced } else { self.requested }
    }
}

impl Traffic {
    /// max T_ij: the most that the job sends between two hosts.
    pub(crate) fn largest(&self) -> Bytes {
        let largest = self.loads.last_key_value().map_or(0, |(load, _)| *load);
        Bytes::new(u64::try_from(largest).unwrap_or(u64::MAX))
    }

    /// `TASK_HOST`. A task that is launched again moves, and its traffic with it.
    pub(crate) fn place(&mut self, task: TaskId, host: NodeId) {
        if self.hosts.get(&task) == Some(&host) {
            return;
        }
        let all = (task, TaskId(0))..=(task, TaskId(u32::MAX));
        let sent = self.sizes.range(all.clone()).map(|(pair, _)| *pair);
        let received = self.sources.range(all).map(|&(reduce, map)| (map, reduce));
        let affected: BTreeSet<_> = sent.chain(received).collect();
        for &entry in &affected {
            self.count(entry, |pair, size| {
                pair.entries -= 1;
                pair.announced -= size;
            });
        }
        self.hosts.insert(task, host);
        for &entry in &affected {
            self.count(entry, |pair, size| {
                pair.entries += 1;
                pair.announced += size;
            });
        }
    }

    /// `SIZE`: what one reduce fetches from one map. A later word replaces an earlier one.
    pub(crate) fn announce(&mut self, map: TaskId, reduce: TaskId, size: Bytes) {
        let entry = (map, reduce);
        if self.sizes.contains_key(&entry) {
            self.count(entry, |pair, size| {
                pair.entries -= 1;
                pair.announced -= size;
            });
        }
        self.sizes.insert(entry, size);
        self.sources.insert((reduce, map));
        self.count(entry, |pair, size| {
            pair.entries += 1;
            pair.announced += size;
        });
    }

    /// `FLOW_REQUEST`.
    pub(crate) fn request(&mut self, src: NodeId, dst: NodeId, size: Bytes) {
        self.change((src, dst), |pair| pair.requested += u128::from(size.get()));
    }

    /// Changes the pair of hosts of a `SIZE` entry, if both are known.
    fn count(&mut self, entry: (TaskId, TaskId), change: impl FnOnce(&mut Pair, u128)) {
        let size = self.sizes.get(&entry).copied().unwrap_or_default();
        if let (Some(&src), Some(&dst)) = (self.hosts.get(&entry.0), self.hosts.get(&entry.1)) {
            self.change((src, dst), |pair| change(pair, u128::from(size.get())));
        }
    }

    fn change(&mut self, (src, dst): (NodeId, NodeId), change: impl FnOnce(&mut Pair)) {
        if src == dst {
            return;
        }
        let pair = self.pairs.entry((src, dst)).or_default();
        let before = pair.load();
        change(pair);
        let after = pair.load();
        if before == after {
            return;
        }
        if after > 0 {
            *self.loads.entry(after).or_default() += 1;
        }
        if let Entry::Occupied(mut alike) = self.loads.entry(before) {
            *alike.get_mut() -= 1;
            if *alike.get() == 0 {
                alike.remove();
            }
        }
    }
}
