//! `srb`, ours, the successor of `smsf`: the job whose busiest link has least left to carry goes
//! first, unless another order is better for all together.
//!
//! Three things differ from `smsf`. The bottleneck is looked for among links, not among pairs of
//! hosts: many small flows into one host are a bottleneck, and so is a link between switches. It is
//! that of what remains. And jobs aren't admitted or held back: each has everything that those
//! before it leave, in proportion to what remains of its flows, so that those which share a
//! bottleneck end together and nothing is idle that anyone could use.
//!
//! The order is renewed at each arrival and end of a job. It begins with the smallest remaining
//! bottleneck and with [`bssf`]; each is [`improve`]d by the completion times that it would give if
//! nothing more came, and the better one is taken. Beyond [`MOST`] jobs the rest keep the first of
//! these orders. Jobs older than the guard's threshold always have a ration of their own.

use alloc::boxed::Box;
use alloc::vec::Vec;

use units::Span;

use crate::coflow::Rule;
use crate::coflow_rates::{CoflowRates, Ration};
use crate::order::{bssf, by_bottleneck, improve, total};
use crate::ordered::{Jobs, Order, Ordered, PAUSE};
use crate::parameter::LONGEST;
use crate::{Descriptor, DirectiveKind, Kind, Parameter, Share, Value};

/// Most jobs that the search for a better order looks at.
pub const MOST: usize = 48;

const THRESHOLD: Parameter = Parameter::new(
    "threshold",
    Kind::Span(Span::ZERO, LONGEST),
    Value::Span(Span::from_secs(100)),
    "jobs submitted longer ago always have a share for themselves; Phurti's value",
);

const SHARE: Parameter = Parameter::new(
    "share",
    Kind::Share,
    Value::Share(Share::literal(10_000)),
    "the share of every link that such jobs divide",
);

/// What `srb` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "srb",
    summary: "the job whose busiest link has least left goes first, unless another order is better",
    source: "ours, the successor of smsf",
    parameters: &[PAUSE, THRESHOLD, SHARE],
    needs: &[],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| {
        let guard = Ration { threshold: given.get(THRESHOLD.name), share: given.get(SHARE.name) };
        let ordered = Ordered::<SmallestRemaining>::new(given.get(PAUSE.name), Some(guard));
        Ok(Box::new(CoflowRates::new(ordered, given)))
    },
};

#[derive(Debug)]
pub(crate) struct SmallestRemaining;

impl Order for SmallestRemaining {
    const RULES: &'static [Rule] = &[Rule::ByRemaining];

    fn order(jobs: &mut Jobs<'_, '_>) -> Vec<usize> {
        let mut first = by_bottleneck(&jobs.bottlenecks());
        let rest = first.split_off(first.len().min(MOST));
        let looked_at = jobs.demands(first.iter().copied());
        let mut orders = [(0..first.len()).collect(), bssf(looked_at, &[])];
        for order in &mut orders {
            improve(looked_at, order);
        }
        let [one, other] = orders;
        let best = if total(looked_at, &other) < total(looked_at, &one) { other } else { one };
        best.into_iter().map(|position| first[position]).chain(rest).collect()
    }
}
