//! A flow, and what was declared of it and measured otherwise.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use model::{JobId, NodeId, StreamSample};
use units::{Bytes, Time};

use crate::applications::selector::Selector;
use crate::context::Context;
use crate::desired::LetGo;
use crate::gauge::Gauge;
use crate::message::ChannelId;
use crate::waste::Waste;

/// A flow: declared by an application, or seen in the network by a policy that watches it.
pub(crate) struct Flow {
    /// Its job and its name there; `None` when it was only seen.
    pub(crate) owner: Option<(JobId, Arc<str>)>,
    pub(crate) selector: Selector,
    pub(crate) ends: (NodeId, NodeId),
    pub(crate) since: Time,
    /// Its place in the order in which flows began: numbers are given again.
    pub(crate) begun: u64,
    /// What was declared; after a contradiction, what it counts as.
    pub(crate) size: Option<Bytes>,
    /// What is left of what was declared, whatever it counts as; `None` of a stream.
    pub(super) left: Option<Bytes>,
    /// What it had been let send when its connection was reported last.
    pub(super) let_go: LetGo,
    /// What was declared and measured otherwise.
    pub(crate) contradicted: Option<Lie>,
    /// Payload that reached the receiver since the flow began.
    pub(crate) delivered: Bytes,
    /// What its connection had delivered before the flow began, once that is known.
    pub(super) base: Option<Bytes>,
    /// Payload that waits in the kernel at the sender, sent or not.
    pub(crate) queued: Bytes,
    /// Payload rate.
    pub(crate) gauge: Gauge,
    /// When an agent reported it last.
    pub(crate) reported: Option<Time>,
    /// The same, as [`Context::awake`]. Where nobody declared it, when anybody told of it, or of what comes back.
    pub(crate) heard: Option<Time>,
    /// The last sample that the application declared, and when, as [`Context::awake`].
    pub(crate) declared: Option<(Time, StreamSample)>,
    /// The window scale of its receiver.
    pub(crate) scale: Option<u8>,
    /// Its SYN or FIN was told to the policy.
    pub(crate) open: bool,
    /// Nobody sees that it sends, or it gives way: the policy isn't told of it.
    pub(super) parked: bool,
    /// What it makes of being let send.
    pub(crate) waste: Waste,
    /// That nobody saw it stands against its application already.
    pub(super) noted: bool,
    /// When a report showed last that something is sent or waits, as [`Context::awake`].
    pub(crate) busy: Option<Time>,
    /// The agent that told of it last, where nobody declared it.
    pub(crate) told_by: Option<ChannelId>,
}

impl Flow {
    pub(super) fn new(
        owner: Option<(JobId, Arc<str>)>,
        selector: Selector,
        ends: (NodeId, NodeId),
        size: Option<Bytes>,
        now: Time,
    ) -> Self {
        Self {
            owner,
            selector,
            ends,
            since: now,
            begun: 0,
            size,
            left: size,
            let_go: LetGo::default(),
            contradicted: None,
            delivered: Bytes::ZERO,
            base: (!selector.is_exact()).then_some(Bytes::ZERO),
            queued: Bytes::ZERO,
            gauge: Gauge::default(),
            reported: None,
            heard: None,
            declared: None,
            scale: None,
            open: false,
            parked: false,
            waste: Waste::default(),
            noted: false,
            busy: None,
            told_by: None,
        }
    }

    /// One that nobody declared, of which the first packet is told now. Its connection had delivered `base`.
    pub(crate) fn seen(
        cx: &Context,
        selector: Selector,
        ends: (NodeId, NodeId),
        base: Option<Bytes>,
        told_by: Option<ChannelId>,
    ) -> Self {
        let mut flow = Self { base, ..Self::new(None, selector, ends, None, cx.now) };
        flow.told(cx, told_by);
        flow
    }

    /// Whose it is; `None` when it was only seen.
    pub(crate) fn job(&self) -> Option<JobId> {
        self.owner.as_ref().map(|(job, _)| *job)
    }

    /// Takes in what its connections have delivered and what waits at them, by the report of now.
    pub(super) fn note(&mut self, cx: &Context, sampled: Time, delivered: Bytes, queued: Bytes) {
        // A connection from before the flow has delivered something already, that isn't the flow's.
        let base = *self.base.get_or_insert(delivered);
        let delivered = (delivered - base).max(self.delivered);
        if delivered > self.delivered || queued > Bytes::ZERO {
            self.busy = Some(cx.awake);
        }
        self.delivered = delivered;
        self.gauge.note(sampled, self.delivered, cx.least());
        self.queued = queued;
        self.hear(cx);
    }

    /// Its connection was reported now.
    pub(super) fn hear(&mut self, cx: &Context) {
        (self.reported, self.heard) = (Some(cx.now), Some(cx.awake));
    }

    /// Whether a report has shown that it sends, or of a stream that there is its connection.
    pub(crate) fn is_seen(&self) -> bool {
        self.busy.is_some() || self.size.is_none() && self.heard.is_some()
    }

    /// Whether the policy isn't told of it.
    pub(crate) const fn is_parked(&self) -> bool {
        self.parked
    }

    /// Whether the policy isn't told of it because nobody sees that it sends.
    pub(crate) const fn is_missing(&self) -> bool {
        self.parked && !self.waste.gives_way()
    }

    /// Whether the last report showed that it sends, or of a stream that there is its connection.
    pub(crate) fn is_busy(&self, cx: &Context) -> bool {
        self.size.is_none() || self.busy == Some(cx.awake)
    }

    /// Its first packet is told now.
    pub(super) fn told(&mut self, cx: &Context, by: Option<ChannelId>) {
        self.told_by = by;
        if self.owner.is_none() {
            self.heard = Some(cx.awake);
        }
    }

    /// It is declared again with a size; whether that is another. What was contradicted once can only grow.
    pub(super) fn resize(&mut self, size: Option<Bytes>) -> bool {
        let counts = |size: Option<Bytes>| size.unwrap_or(Bytes::MAX);
        let is_contradicted = !matches!(self.contradicted, None | Some(Lie::Backlog { .. }));
        if self.size == size || is_contradicted && counts(size) <= counts(self.size) {
            return false;
        }
        let carried = self.declared_size().zip(self.left).map(|(size, left)| size - left);
        self.left = size.map(|size| size - size.min(carried.unwrap_or_default()));
        self.size = size;
        true
    }

    /// It counts as so much, at least, for what its application has sent and not declared; whether that is more.
    pub(crate) fn raise(&mut self, (floor, undeclared): (Bytes, Bytes)) -> bool {
        self.count_as(floor, |declared| Lie::Before { declared, undeclared })
    }

    /// It counts as so much, at least, for what went beside flows that share their connections; whether that is more.
    pub(crate) fn raise_along(&mut self, (floor, along): (Bytes, Bytes)) -> bool {
        self.count_as(floor, |declared| Lie::Along { declared, along })
    }

    fn count_as(&mut self, floor: Bytes, why: impl FnOnce(Bytes) -> Lie) -> bool {
        let Some(declared) = self.size.filter(|size| *size < floor) else {
            return false;
        };
        self.size = Some(floor);
        self.contradicted.get_or_insert(why(declared));
        true
    }

    /// What was declared, whatever was measured; `None` of a stream.
    pub(crate) fn declared_size(&self) -> Option<Bytes> {
        match self.contradicted {
            Some(
                Lie::Size { declared } | Lie::Before { declared, .. } | Lie::Along { declared, .. },
            ) => Some(declared),
            _ => self.size,
        }
    }

    /// What was declared and measured otherwise, in words.
    pub(crate) fn lie(&self) -> Option<String> {
        Some(match self.contradicted? {
            Lie::Size { declared } => {
                format!("declared {declared} in all, but {} were delivered", self.delivered)
            }
            Lie::Before { declared, undeclared } => {
                format!(
                    "declared {declared}, but its application had sent {undeclared} that it did not declare"
                )
            }
            Lie::Along { declared, along } => {
                format!(
                    "declared {declared}, but shares its connection, and beside flows of such connections that were \
                     held back {along} went; declare a flow when the one before is complete, or another connection"
                )
            }
            Lie::Backlog { declared } => {
                format!("declared {declared} waiting, but its sender's kernel has nothing to send")
            }
        })
    }
}

/// What was declared and measured otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// More was delivered than was declared.
    Size { declared: Bytes },
    /// Its application has sent so much within [`WHILE`](crate::applications::ledger::WHILE) that it did not declare.
    Before { declared: Bytes, undeclared: Bytes },
    /// Its connection is that of other flows as well; beside flows of such connections that were held back so much went
    /// within [`WHILE`](crate::applications::ledger::WHILE).
    Along { declared: Bytes, along: Bytes },
    /// A backlog that the sender's kernel doesn't have.
    Backlog { declared: Bytes },
}
