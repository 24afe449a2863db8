//! `sicc`: the servers of a fan-out request form a swarm in each rack; a hub in each collects the
//! swarm's objects and passes them on, at a speed that the front end sets.
//!
//! Source: SICC (SPAA 2017), section 3. [`tree`] chooses hubs and their tree, [`speed`] divides the
//! front end's link, [`redirect`] moves queries to hubs that are ahead; here they are put together.
//! Where the text chooses hubs both by spare capacity and by objects, it is by objects, as in its
//! algorithm 1.
//!
//! `sicc-joint` is ours: [`joint`] chooses replicas so that hubs have equal work, and speeds follow
//! what each has left.

pub mod joint;
mod racks;
pub mod redirect;
pub mod speed;
mod state;
pub mod tree;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use model::{
    Declared, Directive, Directives, JobId, Measured, Network, Observation, Order, Request,
};
use units::Time;

pub use racks::Racks;

use crate::Policy;
use joint::Limits;
use speed::Yielding;
use state::State;

/// Which parts are on, and their parameters. [`Default`] is all of them as published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Swarms are of one rack; without (-NPS) of as many servers from anywhere.
    pub proximity: bool,
    /// More than N hubs form a tree; without (-NMT) all send to the front end.
    pub tree: bool,
    /// Speeds follow what hubs and the aggregation router show; without (-NSSC) they stay even.
    pub speed: bool,
    /// Queries move to hubs that are ahead; without (-NQR) they stay.
    pub redirect: bool,
    /// Hubs put several objects into a packet.
    pub pack: bool,
    /// N, where it isn't to be that of equation 1; at least 1.
    pub hubs: Option<u32>,
    /// How the front end gives way at the aggregation router.
    pub yielding: Yielding,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            proximity: true,
            tree: true,
            speed: true,
            redirect: true,
            pack: true,
            hubs: None,
            yielding: Yielding::default(),
        }
    }
}

/// Which replica is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first of each object.
    First,
    /// The one that [`joint`] finds.
    Joint,
}

/// The policy.
#[derive(Debug)]
pub struct Sicc {
    parameters: Parameters,
    choice: Choice,
    /// Made when the network is first seen; its cables don't change.
    racks: Option<(Racks, Limits)>,
    requests: BTreeMap<JobId, State>,
    orders: Directives,
}

impl Sicc {
    /// The policy before any request.
    pub const fn new(parameters: Parameters, choice: Choice) -> Self {
        Self {
            parameters,
            choice,
            racks: None,
            requests: BTreeMap::new(),
            orders: Directives::new(),
        }
    }

    fn begin(&mut self, network: &Network, request: &Arc<Request>) {
        let (racks, limits) = self.racks.get_or_insert_with(|| {
            let racks = Racks::new(network);
            let limits = Limits::new(network, &racks);
            (racks, limits)
        });
        let others = self.requests.values().filter(|state| state.front() == request.front);
        let received = others.clone().map(State::received).sum();
        let holders = match self.choice {
            Choice::First => joint::first(request),
            Choice::Joint => joint::assign(request, racks, limits),
        };
        let requests = others.count() + 1;
        let front = state::Front::new(network, request.front, received, requests);
        let (state, gathering) =
            State::new(&self.parameters, self.choice, racks, Arc::clone(request), &holders, &front);
        self.orders.push(order(request.id, Order::Gather(gathering)));
        if let Some(speeds) = state.speeds() {
            self.orders.push(order(request.id, speeds));
        }
        self.requests.insert(request.id, state);
    }
}

impl Policy for Sicc {
    fn observe(&mut self, _: Time, network: &Network, observation: &Observation) {
        match observation {
            Observation::Declared(Declared::Gather(request)) => self.begin(network, request),
            Observation::Declared(Declared::JobComplete { job }) => {
                self.requests.remove(job);
            }
            Observation::Measured(Measured::Gathering { request, sample }) => {
                if let (Some(state), Some((racks, _))) =
                    (self.requests.get_mut(request), &self.racks)
                {
                    let orders = state.advance(&self.parameters, self.choice, racks, sample);
                    self.orders.extend(orders.into_iter().map(|what| order(*request, what)));
                }
            }
            Observation::Measured(Measured::HubLost { request, hub }) => {
                if let (Some(state), Some((racks, _))) =
                    (self.requests.get_mut(request), &self.racks)
                {
                    let orders = state.replace(racks, *hub);
                    self.orders.extend(orders.into_iter().map(|what| order(*request, what)));
                }
            }
            _ => {}
        }
    }

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.orders);
    }
}

fn order(request: JobId, order: Order) -> Directive {
    Directive::Gather { request, order: Arc::new(order) }
}
