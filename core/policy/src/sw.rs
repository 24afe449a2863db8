//! `sw`: a sliding window of queries. The front end has so many unanswered at most; the window
//! grows until an answer is lost and then halves.
//!
//! Source: SICC, section 4, after Nishtala et al. (NSDI 2013, section 3.1.1), where a client's
//! window outlives its requests. Growth is TCP's, which both name: by one an answer up to half of
//! the window at which an answer was last lost, by one a window beyond it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use model::{
    Declared, Directive, Directives, JobId, Measured, Network, NodeId, Observation, Order,
};
use units::Time;

use crate::Policy;
use crate::one_all::ask_all;
use crate::roster::exists;

/// The policy.
#[derive(Clone, Debug, Default)]
pub struct SlidingWindow {
    fronts: BTreeMap<NodeId, Window>,
    /// Requests under way, with their front end.
    requests: BTreeMap<JobId, NodeId>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    queries: u32,
    threshold: u32,
    /// Answers since the window last changed.
    answers: u32,
    /// Answers until another loss halves again: those to the queries under way at the last one.
    spared: u32,
}

impl Window {
    const START: Self = Self { queries: 1, threshold: u32::MAX, answers: 0, spared: 0 };

    /// Takes in an answer; whether the window has changed.
    fn answered(&mut self, late: bool) -> bool {
        let before = self.queries;
        let halves = late && self.spared == 0;
        self.spared = self.spared.saturating_sub(1);
        self.answers += 1;
        if halves {
            self.spared = self.queries;
            self.threshold = (self.queries / 2).max(1);
            self.queries = self.threshold;
            self.answers = 0;
        } else if !late && (self.queries < self.threshold || self.answers >= self.queries) {
            self.queries = self.queries.saturating_add(1);
            self.answers = 0;
        }
        self.queries != before
    }
}

impl Policy for SlidingWindow {
    fn observe(
        &mut self,
        _: Time,
        network: &Network,
        observation: &Observation,
        out: &mut Directives,
    ) {
        let (request, queries) = match observation {
            Observation::Declared(Declared::Gather(request)) if exists(network, request.front) => {
                self.requests.insert(request.id, request.front);
                let window = self.fronts.entry(request.front).or_insert(Window::START);
                out.push(outstanding(request.id, window.queries));
                out.push(ask_all(request));
                return;
            }
            Observation::Declared(Declared::JobComplete { job }) => {
                self.requests.remove(job);
                return;
            }
            Observation::Measured(Measured::Answered { request, late, .. }) => {
                let front = self.requests.get(request);
                let Some(window) = front.and_then(|front| self.fronts.get_mut(front)) else {
                    return;
                };
                if !window.answered(*late) {
                    return;
                }
                (*request, window.queries)
            }
            _ => return,
        };
        out.push(outstanding(request, queries));
    }
}

/// The order to have so many queries unanswered at most.
pub(crate) fn outstanding(request: JobId, queries: u32) -> Directive {
    Directive::Gather { request, order: Arc::new(Order::Outstanding(queries)) }
}
