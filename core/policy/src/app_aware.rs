//! `app-aware` and `app-aware-fast`: every so often a rate for every stream, from how much of it
//! waits at its sender and at its receiver.
//!
//! Source: "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", algorithm
//! one. [`app-aware`](new) is as published: it supposes that the next interval will be like the last.
//! [`app-aware-fast`](fast) decides many times a second on a forecast (`forecast`), and speaks
//! only when a rate changes by more than a little. Amounts are payload, rates count frames; both
//! problems weigh flows against each other, so that the headers, a like part of all, cancel out.
//!
//! A stream is a flow that was sampled; other flows are left alone. What an agent measured goes
//! before what the application declares. The text ends its loop when all queues are empty: then no
//! link is a bottleneck, and no stream is limited, until one is again.

use alloc::vec::Vec;
use core::marker::PhantomData;

use model::{
    Declared, Directives, FlowId, JobId, LinkId, Measured, Network, NodeId, Observation,
    StreamSample,
};
use units::{Rate, Span, Time};

pub use crate::allocation::Division;

use crate::allocation::{Allocation, Need, UNLIMITED};
use crate::forecast::{Forecast, Interval, Last, Trend};
use crate::roster::Roster;
use crate::{FLOOR, Policy, PolicyError, Share, pace};

/// What the published policy and its variant can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Δt: time between two decisions; published: 5 s.
    pub interval: Span,
    /// The time in which queues are to drain; published: Δt.
    pub horizon: Span,
    /// Which links count, and how they are divided. Published: all of every bottleneck.
    pub division: Division,
    /// Rates are renewed when one differs by more than this part of it; `None`: always.
    pub hysteresis: Option<Share>,
}

impl Parameters {
    /// Shortest interval: decisions cost time, and a world without end must not drown in them.
    pub const SHORTEST: Span = Span::from_millis(1);

    /// As published (section VI-A). The text is silent on what makes a bottleneck (90 % here: a link
    /// that TCP keeps busy carries some 97 % of payload) and on floors (5 % of an even share).
    pub const PUBLISHED: Self = Self {
        interval: Span::from_secs(5),
        horizon: Span::from_secs(5),
        division: Division {
            bottleneck: Share::literal(900_000),
            floor: Share::literal(50_000),
            usable: Share::ALL,
        },
        hysteresis: None,
    };

    /// Of the variant: five decisions a second, queues to drain within a second, and 3 % of each
    /// link left to acknowledgements, so that queues in the network drain too.
    pub const FAST: Self = Self {
        interval: Span::from_millis(200),
        horizon: Span::from_secs(1),
        division: Self::PUBLISHED.division,
        hysteresis: Some(Share::literal(10_000)),
    };

    fn validate(&self) -> Result<(), PolicyError> {
        let out = |parameter| PolicyError::OutOfRange { parameter, range: "at least 1 ms" };
        match () {
            () if self.interval < Self::SHORTEST => Err(out("interval (Δt)")),
            () if self.horizon < Self::SHORTEST => Err(out("horizon")),
            () => Ok(()),
        }
    }
}

/// `app-aware`, as published.
///
/// # Errors
/// [`PolicyError::OutOfRange`]: an interval or a horizon below [`Parameters::SHORTEST`].
pub fn new(parameters: Parameters) -> Result<impl Policy + Send, PolicyError> {
    AppAware::<Last>::new(parameters)
}

/// `app-aware-fast`, which forecasts.
///
/// # Errors
/// As [`new`].
pub fn fast(parameters: Parameters) -> Result<impl Policy + Send, PolicyError> {
    AppAware::<Trend>::new(parameters)
}

#[derive(Debug)]
struct AppAware<F> {
    parameters: Parameters,
    roster: Roster<()>,
    /// By number.
    flows: Vec<Stream<F>>,
    /// What each link carries besides.
    cross: Vec<Rate>,
    allocation: Allocation,
    /// Whether the allocation knows the flows and their paths.
    laid_out: bool,
    needs: Vec<Need>,
    next: Option<Time>,
    /// Flows that were limited when their job completed.
    released: Vec<FlowId>,
    ticked: bool,
    forecasts: PhantomData<F>,
}

#[derive(Debug)]
struct Stream<F> {
    id: FlowId,
    ends: (NodeId, NodeId),
    /// Empty when no path leads from end to end.
    path: Vec<LinkId>,
    /// The last sample and when it was heard, and the one that the last decision took in.
    latest: Option<(Time, StreamSample)>,
    taken: Option<(Time, StreamSample)>,
    /// When an instrument last spoke.
    measured: Option<Time>,
    forecast: F,
    need: Need,
    /// The limit in force.
    limit: Option<Rate>,
}

impl<F: Forecast> AppAware<F> {
    fn new(parameters: Parameters) -> Result<Self, PolicyError> {
        parameters.validate()?;
        Ok(Self {
            parameters,
            roster: Roster::default(),
            flows: Vec::new(),
            cross: Vec::new(),
            allocation: Allocation::default(),
            laid_out: false,
            needs: Vec::new(),
            next: None,
            released: Vec::new(),
            ticked: false,
            forecasts: PhantomData,
        })
    }

    fn position(&self, id: FlowId) -> Result<usize, usize> {
        self.flows.binary_search_by_key(&id, |flow| flow.id)
    }

    fn declare(&mut self, now: Time, network: &Network, declared: &Declared) {
        match *declared {
            Declared::JobStart { job } => self.roster.start(job, || ()),
            Declared::JobComplete { job } => self.complete(job),
            Declared::FlowRequest { job, flow, src, dst, .. } => {
                if self.roster.enter(network, job, flow, (src, dst)).is_none() {
                    return;
                }
                let mut path = Vec::new();
                network.path(src, dst, u64::from(flow.0), &mut path);
                let stream = Stream {
                    id: flow,
                    ends: (src, dst),
                    path,
                    latest: None,
                    taken: None,
                    measured: None,
                    forecast: F::default(),
                    need: Need::default(),
                    limit: None,
                };
                if let Err(at) = self.position(flow) {
                    self.flows.insert(at, stream);
                }
                self.laid_out = false;
            }
            Declared::FlowComplete { job, flow } => {
                if self.roster.leave(job, flow)
                    && let Ok(at) = self.position(flow)
                {
                    self.flows.remove(at);
                    self.laid_out = false;
                }
            }
            Declared::Streams(ref samples) => self.sample(now, samples, false),
            _ => {}
        }
        if self.flows.is_empty() {
            self.next = None;
        }
    }

    /// Nobody will decide about the job's flows again, so none is left throttled.
    fn complete(&mut self, job: JobId) {
        for id in self.roster.complete(job).iter() {
            if let Ok(at) = self.position(id) {
                if self.flows.remove(at).limit.is_some() {
                    self.released.push(id);
                }
                self.laid_out = false;
            }
        }
    }

    fn sample(&mut self, now: Time, samples: &[StreamSample], measured: bool) {
        // Samples mostly come in the order of the flows.
        let mut at = 0;
        let patience = self.parameters.interval * 2;
        for sample in samples {
            if self.flows.get(at).is_none_or(|flow| flow.id != sample.flow) {
                match self.position(sample.flow) {
                    Ok(found) => at = found,
                    Err(_) => continue,
                }
            }
            let flow = &mut self.flows[at];
            at += 1;
            if measured {
                flow.measured = Some(now);
            } else if flow.measured.is_some_and(|last| now.since(last) <= patience) {
                continue;
            }
            flow.latest = Some((now, *sample));
            if flow.taken.is_none() {
                // The first interval begins here.
                flow.taken = flow.latest;
                self.laid_out = false;
            }
            if self.next.is_none() {
                self.next = Some(now + self.parameters.interval);
            }
        }
    }

    fn lay_out(&mut self, network: &Network) {
        let links = network.topology().links().len();
        let paths = self.flows.iter().map(|flow| match flow.taken {
            Some(_) => &flow.path[..],
            None => &[],
        });
        self.allocation.lay_out(links, paths);
        self.cross.resize(links, Rate::ZERO);
        self.laid_out = true;
    }

    fn divide(&mut self, network: &Network, out: &mut Directives) {
        if !self.laid_out {
            self.lay_out(network);
        }
        self.needs.clear();
        for flow in &mut self.flows {
            if let (Some(taken), Some(latest)) = (flow.taken, flow.latest)
                && let Some(interval) = Interval::between(taken, latest)
            {
                flow.need = flow.forecast.need(&interval, self.parameters.horizon);
                flow.taken = flow.latest;
            }
            self.needs.push(flow.need);
        }
        let links = network.topology().links().iter().zip(&self.cross);
        let capacities = links.map(|(link, cross)| link.spec.capacity - *cross);
        let rates = self.allocation.solve(&self.parameters.division, capacities, &self.needs);
        let limit = |rate: u64| (rate != UNLIMITED).then(|| Rate::from_bps(rate).max(FLOOR));
        // All rates or none: a part of them might exceed a link together with old ones.
        let hysteresis = self.parameters.hysteresis;
        let pairs = || self.flows.iter().zip(rates);
        if !pairs().any(|(flow, rate)| is_news(flow.limit, limit(*rate), hysteresis)) {
            return;
        }
        for (flow, rate) in self.flows.iter_mut().zip(rates) {
            let limit = limit(*rate);
            if flow.limit != limit {
                flow.limit = limit;
                out.push(pace(flow.id, limit));
            }
        }
    }
}

/// Whether a limit differs from the one in force by more than `hysteresis` of it.
fn is_news(old: Option<Rate>, new: Option<Rate>, hysteresis: Option<Share>) -> bool {
    match (old, new, hysteresis) {
        (Some(old), Some(new), Some(share)) => old.max(new) - old.min(new) > share.divided(old, 1),
        _ => old != new,
    }
}

impl<F: Forecast> Policy for AppAware<F> {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        match observation {
            Observation::Declared(declared) => self.declare(now, network, declared),
            Observation::Measured(Measured::Streams(samples)) => self.sample(now, samples, true),
            Observation::Measured(Measured::CrossTraffic(links)) => {
                self.cross.clear();
                self.cross.resize(network.topology().links().len(), Rate::ZERO);
                for (link, rate) in links {
                    if let Some(cross) = self.cross.get_mut(link.index()) {
                        *cross = *rate;
                    }
                }
            }
            Observation::Measured(Measured::LinkState { .. }) => {
                for flow in &mut self.flows {
                    flow.path.clear();
                    let (src, dst) = flow.ends;
                    network.path(src, dst, u64::from(flow.id.0), &mut flow.path);
                }
                self.laid_out = false;
            }
            Observation::Measured(_) => {}
            Observation::Tick => self.ticked = true,
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.next
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        out.extend(self.released.drain(..).map(|flow| pace(flow, None)));
        let ticked = core::mem::take(&mut self.ticked);
        if !ticked || self.next.is_none_or(|next| now < next) {
            return;
        }
        self.divide(network, out);
        let next = now + self.parameters.interval;
        self.next = (next > now).then_some(next);
    }
}
