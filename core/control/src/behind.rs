//! What stands though the agent that held it is gone: until its lease ends, or another says what stands.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use units::Time;

/// What agents that are gone have left behind, each thing until a time at most.
pub(crate) struct Behind<K, V = ()> {
    until: BTreeMap<K, (Time, V)>,
    by_time: BTreeSet<(Time, K)>,
}

impl<K, V> Default for Behind<K, V> {
    fn default() -> Self {
        Self { until: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, V> Behind<K, V> {
    pub(crate) fn insert(&mut self, thing: K, what: V, until: Time) {
        self.settle(&thing);
        self.by_time.insert((until, thing.clone()));
        self.until.insert(thing, (until, what));
    }

    /// Somebody says again what stands of a thing. What was left of it, and until when.
    pub(crate) fn settle(&mut self, thing: &K) -> Option<(Time, V)> {
        let left = self.until.remove(thing);
        if let Some((until, _)) = &left {
            self.by_time.remove(&(*until, thing.clone()));
        }
        left
    }

    /// Until when it stands at most.
    pub(crate) fn until(&self, thing: &K) -> Option<Time> {
        self.until.get(thing).map(|(until, _)| *until)
    }

    /// What may stand at `now`.
    pub(crate) fn get(&self, thing: &K, now: Time) -> Option<&V> {
        let (until, what) = self.until.get(thing)?;
        (*until > now).then_some(what)
    }

    pub(crate) fn len(&self) -> usize {
        self.until.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, Time)> {
        self.until.iter().map(|(thing, (until, _))| (thing, *until))
    }

    /// When the first of them is over.
    pub(crate) fn first(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out those whose lease is over by now.
    pub(crate) fn take(&mut self, now: Time) -> Vec<K> {
        let mut over = Vec::new();
        while let Some((at, _)) = self.by_time.first()
            && *at <= now
            && let Some((_, thing)) = self.by_time.pop_first()
        {
            self.until.remove(&thing);
            over.push(thing);
        }
        over
    }
}
