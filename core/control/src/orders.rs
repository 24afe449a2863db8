//! The orders of operators that stand.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use protocol::operator::{Act, Order};

use crate::message::Refusal;

/// So many applications can be blocked, and so many hosts drained.
const MOST: usize = 1_000;

/// Orders that stand, each until another ends it.
#[derive(Default)]
pub(crate) struct Orders {
    pub(crate) frozen: Option<Act>,
    blocked: BTreeMap<String, Act>,
    /// By the names of hosts: one that was learnt has another number after a restart, or none yet.
    drained: BTreeMap<String, Act>,
}

impl Orders {
    /// An application is blocked.
    pub(crate) fn block(&mut self, application: &str, act: &Act) {
        self.blocked.insert(application.into(), act.clone());
    }

    /// A host is drained.
    pub(crate) fn drain(&mut self, host: &str, act: &Act) {
        self.drained.insert(host.into(), act.clone());
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
        end(&mut self.blocked, "application", application, "blocked")
    }

    pub(crate) fn undrain(&mut self, host: &str) -> Result<(), Refusal> {
        end(&mut self.drained, "host", host, "drained")
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
        all.cloned().collect()
    }
}

fn room(field: &'static str, stand: usize) -> Result<(), Refusal> {
    let reason = || format!("{MOST} such orders stand; end some first");
    let wrong = (stand >= MOST).then(|| Refusal { field, reason: reason(), busy: false });
    wrong.map_or(Ok(()), Err)
}

fn end(
    of: &mut BTreeMap<String, Act>,
    field: &'static str,
    name: &str,
    is: &str,
) -> Result<(), Refusal> {
    let reason = || format!("\"{name}\" is not {is}; the status shows the orders that stand");
    let ended = of.remove(name).map(drop);
    ended.ok_or_else(|| Refusal { field, reason: reason(), busy: false })
}

/// Who gave an order, and why, in words.
pub(crate) fn by(act: &Act) -> String {
    let why = act.order.reason().map(|why| format!(" ({why})"));
    format!("by {}{}", act.by, why.unwrap_or_default())
}

/// The texts of an order, by their fields.
pub(crate) fn texts(order: &Order) -> impl Iterator<Item = (&'static str, &str)> {
    let (first, job) = match order {
        Order::Cancel { application, job } => (Some(("application", &**application)), Some(&**job)),
        Order::Evict { application }
        | Order::Block { application, .. }
        | Order::Unblock { application } => (Some(("application", &**application)), None),
        Order::Drain { host, .. } | Order::Undrain { host } => (Some(("host", &**host)), None),
        Order::Freeze { .. } | Order::Thaw {} => (None, None),
    };
    let job = job.map(|job| ("job", job));
    let reason = order.reason().map(|reason| ("reason", reason));
    [first, job, reason].into_iter().flatten()
}
