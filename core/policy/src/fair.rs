//! `fair`: ideal max-min fair rates over links for all active flows, solved anew at each arrival,
//! departure and change of topology.
//!
//! Source: the fair sharing that Phurti (section 2.1) and every coflow scheduler compare with, in
//! its exact form: progressive filling (`waterfill`). Rates count frame bytes in the direction of
//! the data; acknowledgements the other way are not accounted for.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use model::{Declared, Directives, FlowId, LinkId, Measured, Network, NodeId, Observation};
use units::{Rate, Time};

use crate::roster::Roster;
use crate::waterfill::max_min;
use crate::{FLOOR, Policy, pace};

/// The policy of exact fair sharing.
#[derive(Debug, Default)]
pub struct Fair {
    roster: Roster<()>,
    flows: BTreeMap<FlowId, Flow>,
}

#[derive(Debug)]
struct Flow {
    ends: (NodeId, NodeId),
    /// Empty when no path leads from end to end.
    path: Vec<LinkId>,
    /// The limit in force.
    limit: Option<Rate>,
}

impl Flow {
    fn route(&mut self, flow: FlowId, network: &Network) {
        self.path.clear();
        network.path(self.ends.0, self.ends.1, u64::from(flow.0), &mut self.path);
    }
}

impl Fair {
    fn solve(&mut self, network: &Network, out: &mut Directives) {
        let links = network.topology().links().iter();
        let capacities: Vec<Rate> = links.map(|link| link.spec.capacity).collect();
        let paths: Vec<&[LinkId]> = self.flows.values().map(|flow| &flow.path[..]).collect();
        let rates = max_min(&capacities, &paths);
        for ((&id, flow), rate) in self.flows.iter_mut().zip(rates) {
            let limit = (!flow.path.is_empty()).then_some(rate.max(FLOOR));
            if flow.limit != limit {
                flow.limit = limit;
                out.push(pace(id, limit));
            }
        }
    }

    fn declare(&mut self, network: &Network, declared: &Declared, out: &mut Directives) {
        match *declared {
            Declared::JobStart { job } => return self.roster.start(job, || ()),
            Declared::JobComplete { job } => {
                for id in self.roster.complete(job) {
                    let flow = self.flows.remove(&id);
                    if flow.is_some_and(|flow| flow.limit.is_some()) {
                        out.push(pace(id, None));
                    }
                }
            }
            Declared::FlowRequest { job, flow: id, src, dst, .. } => {
                if self.roster.enter(network, job, id, (src, dst)).is_none() {
                    return;
                }
                let mut flow = Flow { ends: (src, dst), path: Vec::new(), limit: None };
                flow.route(id, network);
                self.flows.insert(id, flow);
            }
            Declared::FlowComplete { job, flow } => {
                if !self.roster.leave(job, flow) {
                    return;
                }
                self.flows.remove(&flow);
            }
            _ => return,
        }
        self.solve(network, out);
    }
}

impl Policy for Fair {
    fn observe(
        &mut self,
        _: Time,
        network: &Network,
        observation: &Observation,
        out: &mut Directives,
    ) {
        match observation {
            Observation::Declared(declared) => self.declare(network, declared, out),
            Observation::Measured(Measured::LinkState { .. }) => {
                for (id, flow) in &mut self.flows {
                    flow.route(*id, network);
                }
                self.solve(network, out);
            }
            Observation::Measured(_) => {}
        }
    }
}
