//! `static`: rates and priorities that were given beforehand, to the flows in order of their requests.
//! Of rates it is what a search over all allocations tries ("On SDN-Enabled Online and Dynamic
//! Bandwidth Allocation for Stream Analytics", section II-D); priorities are ours.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use model::{Declared, Directive, Directives, FlowId, JobId, LEAST_RATE, Network, Observation};
use units::{Rate, Time};

use crate::{Descriptor, DirectiveKind, Kind, Parameter, Policy, PolicyError, pace};

/// Most flows that something is given to.
const MOST: usize = 100_000;

const RATES: Parameter = Parameter::optional(
    "rates",
    Kind::List(&Kind::Rate, MOST),
    "none",
    "the rates of the flows, frame bytes, in order of their requests; at least 12 kbit/s each",
)
.needed_without("levels");

const LEVELS: Parameter = Parameter::optional(
    "levels",
    Kind::List(&Kind::Integer(0, 255), MOST),
    "none",
    "the priorities of the flows in the same order, 0 first; they act at strict-priority ports",
);

/// What `static` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "static",
    summary: "rates and priorities given beforehand; flows beyond the lists are left alone",
    source: "On SDN-Enabled Online and Dynamic Bandwidth Allocation, section II-D",
    parameters: &[RATES, LEVELS],
    needs: &[],
    directives: &[DirectiveKind::Pace, DirectiveKind::Prioritize],
    is_max_min: false,
    build: |given| {
        let rates: Vec<Rate> = given.find(RATES.name).unwrap_or_default();
        if rates.iter().any(|rate| *rate < LEAST_RATE) {
            let range = "at least 12 kbit/s each";
            return Err(PolicyError::OutOfRange { parameter: RATES.name, range });
        }
        let priorities = given.find(LEVELS.name).unwrap_or_default();
        Ok(Box::new(Static { rates, priorities, ..Static::default() }))
    },
};

/// The n-th flow is held to the n-th rate and has the n-th priority.
#[derive(Clone, Debug, Default)]
struct Static {
    rates: Vec<Rate>,
    priorities: Vec<u8>,
    requests: usize,
    /// The place in the lists of each flow.
    places: BTreeMap<JobId, BTreeMap<FlowId, usize>>,
    /// Flows that ended since the last decision. One that enters again before the next is the same
    /// flow with another size.
    ended: BTreeSet<(JobId, FlowId)>,
    decided: Directives,
}

impl Policy for Static {
    fn observe(&mut self, _: Time, _: &Network, told: &Observation) {
        match *told {
            Observation::Declared(Declared::FlowRequest { job, flow, .. }) => {
                self.ended.remove(&(job, flow));
                let place = *self.places.entry(job).or_default().entry(flow).or_insert_with(|| {
                    self.requests = self.requests.saturating_add(1);
                    self.requests - 1
                });
                if let Some(rate) = self.rates.get(place) {
                    self.decided.push(pace(flow, Some(*rate)));
                }
                if let Some(&priority) = self.priorities.get(place) {
                    self.decided.push(Directive::Prioritize { flow, priority });
                }
            }
            Observation::Declared(Declared::FlowComplete { job, flow }) => {
                self.ended.insert((job, flow));
            }
            Observation::Declared(Declared::JobComplete { job }) => {
                self.places.remove(&job);
            }
            _ => {}
        }
    }

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.decided);
        while let Some((job, flow)) = self.ended.pop_first() {
            if let Some(flows) = self.places.get_mut(&job) {
                flows.remove(&flow);
            }
        }
    }
}
