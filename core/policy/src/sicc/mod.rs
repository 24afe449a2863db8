//! `sicc`: the servers of a fan-out request form a swarm in each rack; a hub in each collects the
//! swarm's objects and passes them on, at a speed that the front end sets.
//!
//! Source: SICC (SPAA 2017), section 3. [`tree`] chooses hubs and their tree, [`speed`] divides the
//! front end's link, [`redirect`] moves queries to hubs that are ahead; here they are put together.
//!
//! `sicc-joint` is ours: [`joint`] chooses replicas so that hubs have equal work, and speeds follow
//! what each has left.

pub mod joint;
mod racks;
pub mod redirect;
pub mod speed;
mod state;
pub mod tree;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use model::{
    Declared, Directive, Directives, HubOrder, JobId, Measured, Network, Observation, Request,
};
use units::{Bytes, Time};

pub use racks::Racks;

use crate::{Descriptor, DirectiveKind, Given, Kind, Need, Parameter, Policy, Share, Value};
use joint::Limits;
use speed::Yielding;
use state::State;

const PROXIMITY: Parameter = Parameter::new(
    "proximity",
    Kind::Flag,
    Value::Flag(true),
    "swarms are of one rack; without (-NPS) of as many servers from anywhere",
);

const TREE: Parameter = Parameter::new(
    "tree",
    Kind::Flag,
    Value::Flag(true),
    "hubs form a tree where there are more than N; without (-NMT) all send to the front end",
);

const SPEED: Parameter = Parameter::new(
    "speed",
    Kind::Flag,
    Value::Flag(true),
    "hubs' speeds follow samples; without (-NSSC) they stay as first assigned",
);

const SHARES: Parameter = Parameter::new(
    "shares",
    Kind::Flag,
    Value::Flag(true),
    "hubs begin with shares of the front end's link (equation 2); else at their own links' rate",
);

const REDIRECT: Parameter = Parameter::new(
    "redirect",
    Kind::Flag,
    Value::Flag(true),
    "queries move to hubs that are ahead; without (-NQR) they stay",
);

const PACK: Parameter =
    Parameter::new("pack", Kind::Flag, Value::Flag(true), "hubs put several objects into a packet");

const HUBS: Parameter = Parameter::optional(
    "hubs",
    Kind::Integer(1, u32::MAX as u64),
    "by equation 1",
    "N, the most hubs that send to the front end or to another hub",
);

const PACKET: Parameter = Parameter::optional(
    "packet",
    Kind::Bytes(Bytes::new(1), Bytes::new(65_535)),
    "what hubs send: full packets where they pack, else the mean object with its header",
    "the mean size of a packet in equation 1, frame octets",
);

const ALPHA: Parameter = Parameter::new(
    "alpha",
    Kind::Share,
    Value::Share(Share::literal(200_000)),
    "most growth of the planned bandwidth in a period",
);

const BETA: Parameter = Parameter::new(
    "beta",
    Kind::Share,
    Value::Share(Share::literal(200_000)),
    "most cut of the planned bandwidth in a period",
);

const THRESHOLD: Parameter = Parameter::new(
    "threshold",
    Kind::Share,
    Value::Share(Share::literal(100_000)),
    "the part of the aggregation router's buffer from which it is cut (T)",
);

/// What `sicc` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sicc",
    summary: "a hub in each rack collects its swarm's objects; the front end sets hubs' speeds",
    source: "SICC, section 3",
    parameters: &[
        PROXIMITY.published("section 3.1"),
        TREE.published("section 3.1"),
        SPEED.published("section 3.2"),
        SHARES.published("section 3.2"),
        REDIRECT.published("section 3.3.2"),
        PACK.published("section 3.3.1"),
        HUBS,
        PACKET,
        ALPHA.published("section 4.4"),
        BETA.published("section 4.4"),
        THRESHOLD.published("section 4.4"),
    ],
    needs: &[Need::Requests, Need::Hubs],
    directives: &[DirectiveKind::Gather],
    is_max_min: false,
    build: |given| Ok(Box::new(Sicc::new(Settings::from_given(given), Choice::First))),
};

/// What `sicc-joint` is.
pub const JOINT: Descriptor = Descriptor {
    name: "sicc-joint",
    summary: "sicc with replicas chosen so that hubs have equal work, speeds by what is left",
    source: "ours, a variant of sicc",
    parameters: &[
        PROXIMITY, TREE, SPEED, SHARES, REDIRECT, PACK, HUBS, PACKET, ALPHA, BETA, THRESHOLD,
    ],
    build: |given| Ok(Box::new(Sicc::new(Settings::from_given(given), Choice::Joint))),
    ..DESCRIPTOR
};

/// Which parts are on, and their parameters.
#[derive(Clone, Copy, Debug)]
struct Settings {
    proximity: bool,
    tree: bool,
    speed: bool,
    shares: bool,
    redirect: bool,
    pack: bool,
    hubs: Option<u32>,
    packet: Option<Bytes>,
    yielding: Yielding,
}

impl Settings {
    fn from_given(given: &Given<'_>) -> Self {
        Self {
            proximity: given.get(PROXIMITY.name),
            tree: given.get(TREE.name),
            speed: given.get(SPEED.name),
            shares: given.get(SHARES.name),
            redirect: given.get(REDIRECT.name),
            pack: given.get(PACK.name),
            hubs: given.find(HUBS.name),
            packet: given.find(PACKET.name),
            yielding: Yielding {
                growth: given.get(ALPHA.name),
                cut: given.get(BETA.name),
                threshold: given.get(THRESHOLD.name),
            },
        }
    }
}

/// Which replica is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// The first of each object.
    First,
    /// The one that [`joint`] finds.
    Joint,
}

/// The policy.
#[derive(Debug)]
struct Sicc {
    settings: Settings,
    choice: Choice,
    /// Made when the network is first seen; its cables don't change.
    racks: Option<(Racks, Limits)>,
    requests: BTreeMap<JobId, State>,
    orders: Directives,
}

impl Sicc {
    const fn new(settings: Settings, choice: Choice) -> Self {
        Self { settings, choice, racks: None, requests: BTreeMap::new(), orders: Directives::new() }
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
            State::new(&self.settings, self.choice, racks, Arc::clone(request), &holders, &front);
        self.orders.push(order(request.id, HubOrder::Gather(gathering)));
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
                    let orders = state.advance(&self.settings, self.choice, racks, sample);
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

fn order(request: JobId, order: HubOrder) -> Directive {
    Directive::Gather { request, order: Arc::new(order) }
}
