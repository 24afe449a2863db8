//! An application, and all that are known: by their names, and by numbers, by which their jobs and flows find them
//! at once.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use model::JobId;
use units::Time;

use crate::budget::Budget;

/// An application.
#[derive(Default)]
pub(crate) struct Application {
    pub(crate) jobs: BTreeMap<Arc<str>, JobId>,
    pub(crate) flows: usize,
    /// What its records take, by [`weigh`](crate::applications::weigh).
    pub(crate) memory: u64,
    pub(crate) budget: Budget,
    /// When what it declared ends; `None` while it is connected.
    pub(crate) ends: Option<Time>,
    pub(crate) refused: u64,
    /// When and why declarations were refused last, the newest at the end.
    pub(crate) refusals: VecDeque<(Time, String)>,
    pub(crate) contradicted: u64,
    /// The turn in which a job or a flow of it came or went, or something else was wanted of one, last.
    pub(super) changed: u64,
}

impl Application {
    /// A declaration is refused.
    pub(super) fn refuse(&mut self, now: Time, why: &str) {
        self.refused += 1;
        // It may repeat what the application said, and people read it on terminals.
        let why: String = why.chars().take(REASON).collect();
        let why = crate::config::harmless(&why);
        if self.refusals.back().is_some_and(|(_, last)| *last == why) {
            self.refusals.pop_back();
        } else if self.refusals.len() == REFUSALS {
            self.refusals.pop_front();
        }
        self.refusals.push_back((now, why));
    }
}

/// Reasons of refusals that are kept of an application, and most characters of one.
const REFUSALS: usize = 3;
const REASON: usize = 200;

/// The number of an application that is known: dense, and given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ApplicationId(u32);

impl ApplicationId {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// All applications that are known.
#[derive(Default)]
pub(crate) struct Applications {
    names: BTreeMap<Arc<str>, ApplicationId>,
    records: Vec<Option<Application>>,
    free: Vec<ApplicationId>,
}

impl Applications {
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The name as it is kept, and the number.
    pub(crate) fn find(&self, name: &str) -> Option<(&Arc<str>, ApplicationId)> {
        self.names.get_key_value(name).map(|(name, id)| (name, *id))
    }

    pub(crate) fn number(&self, name: &str) -> Option<ApplicationId> {
        self.names.get(name).copied()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Application> {
        self.of(self.number(name)?)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Application> {
        self.of_mut(self.number(name)?)
    }

    pub(crate) fn of(&self, id: ApplicationId) -> Option<&Application> {
        self.records.get(id.index())?.as_ref()
    }

    pub(super) fn of_mut(&mut self, id: ApplicationId) -> Option<&mut Application> {
        self.records.get_mut(id.index())?.as_mut()
    }

    /// Knows an application; `None` where as many are known as there are numbers.
    pub(super) fn add(&mut self, name: &str) -> Option<ApplicationId> {
        let entry = match self.names.entry(Arc::from(name)) {
            Entry::Occupied(known) => return Some(*known.get()),
            Entry::Vacant(free) => free,
        };
        let id = match self.free.pop() {
            Some(id) => id,
            None => ApplicationId(u32::try_from(self.records.len()).ok()?),
        };
        entry.insert(id);
        if self.records.len() <= id.index() {
            self.records.push(None);
        }
        self.records[id.index()] = Some(Application::default());
        Some(id)
    }

    /// Forgets an application. Its jobs must be gone.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some(id) = self.names.remove(name) {
            self.records[id.index()] = None;
            self.free.push(id);
        }
    }

    /// All, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Application)> {
        self.names.iter().filter_map(|(name, id)| Some((name, self.of(*id)?)))
    }

    /// The name that comes after another, or the first.
    pub(crate) fn after(&self, name: Option<&str>) -> Option<&Arc<str>> {
        after(&self.names, name).next().map(|(name, _)| name)
    }
}

/// What comes after a name, or all, in the order of names.
pub(crate) fn after<'a, V>(
    all: &'a BTreeMap<Arc<str>, V>,
    name: Option<&str>,
) -> impl Iterator<Item = (&'a Arc<str>, &'a V)> + use<'a, V> {
    let from = name.map_or(Bound::Unbounded, Bound::Excluded);
    all.range::<str, _>((from, Bound::Unbounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_again_and_names_are_in_order() {
        let mut table = Applications::default();
        let [b, a] = ["b", "a"].map(|name| table.add(name).expect("there is room"));
        assert_eq!((table.add("b"), table.number("a"), table.len()), (Some(b), Some(a), 2));
        table.of_mut(a).expect("it is known").flows = 1;
        assert_eq!(
            (table.get("a").map(|known| known.flows), table.get("c").is_none()),
            (Some(1), true)
        );
        let names: Vec<&str> = table.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["a", "b"]);
        let names = [None, Some("a"), Some("aa"), Some("b")];
        let after = names.map(|name| table.after(name).map(|next| &**next));
        assert_eq!(after, [Some("a"), Some("b"), Some("b"), None]);
        table.remove("a");
        assert!(table.of(a).is_none() && table.find("a").is_none());
        // Of what was forgotten nothing is left.
        assert_eq!(table.add("c"), Some(a));
        assert_eq!(table.get("c").map(|known| known.flows), Some(0));
    }
}
