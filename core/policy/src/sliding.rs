//! Windows of queries, one for each front end, that move as answers come: what `sw` and `sw-ictcp`
//! do alike. A window outlives its requests.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use model::{
    Declared, Directive, Directives, HubOrder, JobId, Measured, Network, NodeId, Observation,
    Request,
};
use units::{Span, Time};

use crate::Policy;
use crate::one_all::ask_all;
use crate::roster::exists;

/// How many queries a front end may have unanswered.
pub(crate) trait Window {
    /// That of a front end which has asked nothing yet.
    fn new(network: &Network, front: NodeId) -> Self;

    /// A request begins.
    fn begin(&mut self, now: Time, request: &Request);

    /// Takes in an answer that `took` so long, perhaps because something of it was lost.
    fn answered(&mut self, now: Time, took: Span, late: bool);

    fn queries(&self) -> u32;
}

/// The policy.
#[derive(Debug)]
pub(crate) struct Sliding<W> {
    fronts: BTreeMap<NodeId, W>,
    /// Requests under way, with their front end.
    requests: BTreeMap<JobId, NodeId>,
    orders: Directives,
}

impl<W> Sliding<W> {
    pub(crate) const fn new() -> Self {
        Self { fronts: BTreeMap::new(), requests: BTreeMap::new(), orders: Directives::new() }
    }
}

impl<W: Window> Policy for Sliding<W> {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        match observation {
            Observation::Declared(Declared::Gather(request)) if exists(network, request.front) => {
                self.requests.insert(request.id, request.front);
                let new = || W::new(network, request.front);
                let window = self.fronts.entry(request.front).or_insert_with(new);
                window.begin(now, request);
                self.orders.push(outstanding(request.id, window.queries()));
                self.orders.push(ask_all(request));
            }
            Observation::Declared(Declared::JobComplete { job }) => {
                self.requests.remove(job);
            }
            Observation::Measured(Measured::Answered { request, took, late, .. }) => {
                let front = self.requests.get(request);
                if let Some(window) = front.and_then(|front| self.fronts.get_mut(front)) {
                    let before = window.queries();
                    window.answered(now, *took, *late);
                    if window.queries() != before {
                        self.orders.push(outstanding(*request, window.queries()));
                    }
                }
            }
            _ => {}
        }
    }

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.orders);
    }
}

/// The order to have so many queries unanswered at most.
fn outstanding(request: JobId, queries: u32) -> Directive {
    Directive::Gather { request, order: Arc::new(HubOrder::Outstanding(queries)) }
}
