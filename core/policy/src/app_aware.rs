//! `app-aware` and `app-aware-fast`: every so often a rate for every stream, from how much of it
//! waits at its sender and at its receiver.
//!
//! Source: "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", algorithm
//! one. `app-aware` is as published: it supposes that the next interval will be like the last.
//! `app-aware-fast` decides many times a second on a forecast (`forecast`), and speaks
//! only when a rate changes by more than a little. Amounts are payload, rates count frames; both
//! problems weigh flows against each other, so that the headers, a like part of all, cancel out.
//!
//! With `cross` a link has its capacity less what it carries besides (sections IV-A.2 and V-B.2).
//!
//! A stream is a flow that was sampled; other flows are left alone. What an agent measured goes
//! before what the application declares. The text ends its loop when all queues are empty: then no
//! link is a bottleneck, and no stream is limited, until one is again.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;

use model::{
    Declared, Directives, FlowId, JobId, LEAST_RATE, LinkId, Measured, Network, NodeId,
    Observation, StreamSample,
};
use units::{Bytes, Rate, Span, Time};

use crate::cross::{CROSS, Counter, Cross};
use crate::forecast::{Forecast, Interval, Last, Trend};
use crate::parameter::LONGEST;
use crate::roster::Roster;
use crate::stream_rates::{DivisionRule, FlowNeed, StreamRates, UNLIMITED};
use crate::{Descriptor, DirectiveKind, Given, Kind, Need, Parameter, Policy, Share, Value, pace};

/// Decisions cost time, and a world without end must not drown in them.
const INTERVALS: Kind = Kind::Span(Span::from_millis(1), LONGEST);

const fn interval(default: Span) -> Parameter {
    Parameter::new("interval", INTERVALS, Value::Span(default), "time between two decisions (Δt)")
}

/// Samples that were held up are heard together: over less than such a part of the interval nothing is
/// learnt.
const SHORT: u64 = 4;

const HORIZON: &str = "the time in which queues are to drain";
const HYSTERESIS: &str = "rates are renewed when one changes by more than this part of it";

/// The text is silent. A link that TCP keeps busy carries some 97 % of payload.
const BOTTLENECK: Parameter = Parameter::new(
    "bottleneck",
    Kind::Share,
    Value::Share(Share::literal(900_000)),
    "a link is divided when the demand for it reaches this part of it",
);

/// The text is silent. Without it a flow that shows no need could never show any.
const fn floor(meaning: &'static str) -> Parameter {
    Parameter::new("floor", Kind::Share, Value::Share(Share::literal(50_000)), meaning)
}

/// The text has no such parameter: its flows divide all of a link's capacity (IV-B, problems 3 and 4).
const USABLE: Parameter = Parameter::new(
    "usable",
    Kind::Share,
    Value::Share(Share::ALL),
    "the part of a link that is given away",
);

/// What `app-aware` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "app-aware",
    summary: "a rate for every stream, from what waits at its ends; as published",
    source: "On SDN-Enabled Online and Dynamic Bandwidth Allocation, algorithm 1",
    parameters: &[
        interval(Span::from_secs(5)).published("section VI-A"),
        Parameter::optional("horizon", INTERVALS, "the interval, as published", HORIZON),
        BOTTLENECK,
        floor("the part of an even share that a flow gets if it shows no need"),
        USABLE,
        Parameter::optional(
            "hysteresis",
            Kind::Share,
            "every change counts, as published",
            HYSTERESIS,
        ),
        CROSS,
    ],
    needs: &[Need::StreamSamples],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| Ok(Box::new(AppAware::<Last>::new(Settings::from_given(given, false)))),
};

/// What `app-aware-fast` is: five decisions a second, queues to drain within a second.
pub const FAST: Descriptor = Descriptor {
    name: "app-aware-fast",
    summary: "app-aware several times a second, on a forecast, speaking only when rates change",
    source: "ours, a variant of app-aware",
    parameters: &[
        interval(Span::from_millis(200)),
        Parameter::new("horizon", INTERVALS, Value::Span(Span::from_secs(1)), HORIZON),
        BOTTLENECK,
        floor("the part of an even share that every flow gets"),
        USABLE,
        Parameter::new("hysteresis", Kind::Share, Value::Share(Share::literal(10_000)), HYSTERESIS),
        CROSS,
    ],
    needs: &[Need::StreamSamples],
    directives: &[DirectiveKind::Pace],
    is_max_min: false,
    build: |given| Ok(Box::new(AppAware::<Trend>::new(Settings::from_given(given, true)))),
};

#[derive(Clone, Copy, Debug)]
struct Settings {
    interval: Span,
    horizon: Span,
    rule: DivisionRule,
    hysteresis: Option<Share>,
    cross: bool,
    segment: Bytes,
}

impl Settings {
    fn from_given(given: &Given<'_>, is_floor_for_all: bool) -> Self {
        let interval = given.get("interval");
        Self {
            interval,
            horizon: given.find("horizon").unwrap_or(interval),
            rule: DivisionRule {
                bottleneck: given.get(BOTTLENECK.name),
                floor: given.get("floor"),
                is_floor_for_all,
                usable: given.get(USABLE.name),
            },
            hysteresis: given.find("hysteresis"),
            cross: given.get(CROSS.name),
            segment: given.segment(),
        }
    }
}

#[derive(Debug)]
struct AppAware<F> {
    settings: Settings,
    roster: Roster<()>,
    /// By number.
    flows: Vec<Stream<F>>,
    /// What each link carries besides.
    cross: Cross,
    solver: StreamRates,
    /// Whether the solver knows the flows and their paths.
    laid_out: bool,
    needs: Vec<FlowNeed>,
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
    /// What it has delivered, as far as it is known.
    carried: Counter,
    forecast: F,
    need: FlowNeed,
    /// The limit in force.
    limit: Option<Rate>,
}

impl<F: Forecast> AppAware<F> {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            roster: Roster::default(),
            flows: Vec::new(),
            cross: Cross::new(settings.interval, settings.segment),
            solver: StreamRates::default(),
            laid_out: false,
            needs: Vec::new(),
            next: None,
            released: Vec::new(),
            ticked: false,
            forecasts: PhantomData,
        }
    }

    fn position(&self, id: FlowId) -> Result<usize, usize> {
        self.flows.binary_search_by_key(&id, |flow| flow.id)
    }

    fn declare(&mut self, now: Time, network: &Network, declared: &Declared) {
        match *declared {
            Declared::JobStart { job, .. } => self.roster.start(job, || ()),
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
                    carried: Counter::default(),
                    forecast: F::default(),
                    need: FlowNeed::default(),
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
                    self.remove(at);
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
            if let Ok(at) = self.position(id)
                && self.remove(at).limit.is_some()
            {
                self.released.push(id);
            }
        }
    }

    fn remove(&mut self, at: usize) -> Stream<F> {
        let flow = self.flows.remove(at);
        if flow.latest.is_some() {
            self.cross.begin_anew(&flow.path);
        }
        self.laid_out = false;
        flow
    }

    fn sample(&mut self, now: Time, samples: &[StreamSample], measured: bool) {
        // Samples mostly come in the order of the flows.
        let mut at = 0;
        let patience = self.settings.interval * 2;
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
            flow.carried.read(now, sample.delivered);
            if flow.taken.is_none() {
                // The first interval begins here.
                flow.taken = flow.latest;
                self.laid_out = false;
            }
            if self.next.is_none() {
                self.next = Some(now + self.settings.interval);
            }
        }
    }

    fn lay_out(&mut self, network: &Network) {
        let links = network.topology().links().len();
        let paths = self.flows.iter().map(|flow| match flow.taken {
            Some(_) => &flow.path[..],
            None => &[],
        });
        self.solver.lay_out(links, paths);
        self.laid_out = true;
    }

    fn divide(&mut self, network: &Network, out: &mut Directives) {
        if !self.laid_out {
            self.lay_out(network);
        }
        self.needs.clear();
        let least = self.settings.interval / SHORT;
        for flow in &mut self.flows {
            if let (Some(taken), Some(latest)) = (flow.taken, flow.latest)
                && let Some(interval) = Interval::between(taken, latest, least)
            {
                flow.need = flow.forecast.need(&interval, self.settings.horizon);
                flow.taken = flow.latest;
            }
            self.needs.push(flow.need);
        }
        let links = network.topology().links().iter().enumerate();
        let capacities = links.map(|(number, link)| link.spec.capacity - self.cross.rate(number));
        let rates = self.solver.solve(&self.settings.rule, capacities, &self.needs);
        let limit = |rate: u64| (rate != UNLIMITED).then(|| Rate::from_bps(rate).max(LEAST_RATE));
        // All rates or none: a part of them might exceed a link together with old ones.
        let hysteresis = self.settings.hysteresis;
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
            Observation::Measured(Measured::Ports(counters)) if self.settings.cross => {
                let links = network.topology().links();
                // Others are left alone, and so others' traffic.
                let streams = self.flows.iter_mut().filter(|flow| flow.latest.is_some());
                let carried = streams.map(|flow| (&flow.path[..], &mut flow.carried));
                self.cross.hear(now, links, counters, carried);
            }
            Observation::Measured(Measured::LinkState { .. }) => {
                for flow in &mut self.flows {
                    self.cross.begin_anew(&flow.path);
                    flow.path.clear();
                    let (src, dst) = flow.ends;
                    network.path(src, dst, u64::from(flow.id.0), &mut flow.path);
                    self.cross.begin_anew(&flow.path);
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

    fn ports(&self) -> Option<Span> {
        self.settings.cross.then(|| self.cross.every())
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        out.extend(self.released.drain(..).map(|flow| pace(flow, None)));
        let ticked = core::mem::take(&mut self.ticked);
        if !ticked || self.next.is_none_or(|next| now < next) {
            return;
        }
        self.divide(network, out);
        let next = now + self.settings.interval;
        self.next = (next > now).then_some(next);
    }
}
