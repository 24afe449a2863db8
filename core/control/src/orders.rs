//! The orders of operators that stand.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::borrow::Borrow;

use protocol::operator::{Act, Order};
use units::{Rate, Time};

use crate::message::Refusal;

/// So many applications can be blocked, so many hosts drained, and so many limits set.
const MOST: usize = 1_000;

/// Orders that stand, each until another ends it, also where that is because its time is over.
#[derive(Default)]
pub(crate) struct Orders {
    /// When the last order came.
    since: Time,
    frozen: Option<Act>,
    blocked: BTreeMap<String, Act>,
    /// By the names of hosts: one that was learnt has another number after a restart, or none yet.
    drained: BTreeMap<String, Act>,
    /// By application, and by job where one is named.
    limited: BTreeMap<(String, Option<String>), Act>,
}

impl Orders {
    /// An order is carried out now.
    pub(crate) fn note(&mut self, now: Time) {
        self.since = now;
    }

    /// When the last order came.
    pub(crate) const fn since(&self) -> Time {
        self.since
    }

    /// Decisions are frozen.
    pub(crate) fn freeze(&mut self, act: &Act) {
        self.frozen = Some(act.clone());
    }

    pub(crate) fn thaw(&mut self) -> Result<(), Refusal> {
        let reason = String::from("nothing is frozen");
        self.frozen.take().map(drop).ok_or(Refusal { field: "type", reason, busy: false })
    }

    /// The order that freezes decisions.
    pub(crate) const fn frozen(&self) -> Option<&Act> {
        self.frozen.as_ref()
    }

    /// An application is blocked.
    pub(crate) fn block(&mut self, application: &str, act: &Act) {
        self.blocked.insert(application.into(), act.clone());
    }

    /// A host is drained.
    pub(crate) fn drain(&mut self, host: &str, act: &Act) {
        self.drained.insert(host.into(), act.clone());
    }

    /// The connections of an application, or of its job, are limited.
    pub(crate) fn limit(&mut self, application: &str, job: Option<&str>, act: &Act) {
        self.limited.insert(key(application, job), act.clone());
    }

    pub(crate) fn unlimit(&mut self, application: &str, job: Option<&str>) -> Result<(), Refusal> {
        let name = job.map_or_else(|| application.into(), |job| format!("{application}/{job}"));
        end(&mut self.limited, "application", &key(application, job), &name, "limited")
    }

    /// Whether any connection may be limited.
    pub(crate) fn limits(&self) -> bool {
        !self.limited.is_empty()
    }

    /// The least limit of a job's connections, and the order that sets it.
    pub(crate) fn limited(&self, application: &str, job: &str) -> Option<(Rate, &Act)> {
        if !self.limits() {
            return None;
        }
        let all = [None, Some(job)].map(|job| self.limited.get(&key(application, job)));
        let rates = all.into_iter().flatten().filter_map(|act| match act.order {
            Order::Limit { rate_bps, .. } => Some((rate_bps, act)),
            _ => None,
        });
        rates.min_by_key(|(rate, _)| *rate)
    }

    /// Whether there is a limit of this name.
    pub(crate) fn is_limited(&self, application: &str, job: Option<&str>) -> bool {
        self.limited.contains_key(&key(application, job))
    }

    /// Whether a limit can be set for one more.
    pub(crate) fn room_to_limit(
        &self,
        application: &str,
        job: Option<&str>,
    ) -> Result<(), Refusal> {
        let is_new = !self.is_limited(application, job);
        room("application", if is_new { self.limited.len() } else { 0 })
    }

    /// Whether one more application can be blocked.
    pub(crate) fn room_to_block(&self) -> Result<(), Refusal> {
        room("application", self.blocked.len())
    }

    /// Whether one more host can be drained.
    pub(crate) fn room_to_drain(&self) -> Result<(), Refusal> {
        room("host", self.drained.len())
    }

    pub(crate) fn unblock(&mut self, application: &str) -> Result<(), Refusal> {
        end(&mut self.blocked, "application", application, application, "blocked")
    }

    pub(crate) fn undrain(&mut self, host: &str) -> Result<(), Refusal> {
        end(&mut self.drained, "host", host, host, "drained")
    }

    /// The order that blocks an application.
    pub(crate) fn blocked(&self, application: &str) -> Option<&Act> {
        self.blocked.get(application)
    }

    /// The order that drains a host.
    pub(crate) fn drained(&self, host: &str) -> Option<&Act> {
        self.drained.get(host)
    }

    /// Whether something that is wanted may not be in force.
    pub(crate) fn withholds(&self) -> bool {
        self.frozen.is_some() || self.drains()
    }

    /// Whether any host is drained.
    pub(crate) fn drains(&self) -> bool {
        !self.drained.is_empty()
    }

    /// All of them.
    pub(crate) fn standing(&self) -> Vec<Act> {
        let all = self.frozen.iter().chain(self.blocked.values()).chain(self.drained.values());
        all.chain(self.limited.values()).cloned().collect()
    }
}

fn room(field: &'static str, stand: usize) -> Result<(), Refusal> {
    let reason = || format!("{MOST} such orders stand; end some first");
    let wrong = (stand >= MOST).then(|| Refusal { field, reason: reason(), busy: false });
    wrong.map_or(Ok(()), Err)
}

fn key(application: &str, job: Option<&str>) -> (String, Option<String>) {
    (application.into(), job.map(String::from))
}

fn end<K: Ord + Borrow<Q>, Q: Ord + ?Sized>(
    of: &mut BTreeMap<K, Act>,
    field: &'static str,
    ended: &Q,
    name: &str,
    is: &str,
) -> Result<(), Refusal> {
    let reason = || format!("{name:?} is not {is}; the status shows the orders that stand");
    let ended = of.remove(ended).map(drop);
    ended.ok_or_else(|| Refusal { field, reason: reason(), busy: false })
}

/// Who gave an order, and why, in words.
pub(crate) fn by(act: &Act) -> String {
    let why = act.order.reason().map(|why| format!(" ({why})"));
    format!("by {}{}", act.by, why.unwrap_or_default())
}

/// The texts of an order that begins something, by their fields. What ends something names what is there already.
pub(crate) fn texts(order: &Order) -> impl Iterator<Item = (&'static str, &str)> {
    let (first, job) = match order {
        Order::Block { application, .. } => (Some(("application", &**application)), None),
        Order::Limit { application, job, .. } => {
            (Some(("application", &**application)), job.as_deref())
        }
        Order::Drain { host, .. } => (Some(("host", &**host)), None),
        Order::Freeze { .. }
        | Order::Cancel { .. }
        | Order::Evict { .. }
        | Order::Unblock { .. }
        | Order::Thaw {}
        | Order::Undrain { .. }
        | Order::Unlimit { .. } => (None, None),
    };
    let job = job.map(|job| ("job", job));
    let reason = order.reason().map(|reason| ("reason", reason));
    [first, job, reason].into_iter().flatten()
}
