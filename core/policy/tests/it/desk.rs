//! What the policy tests share: messages in short, a network, and an ideal fluid world.
#![allow(dead_code)] // each test binary uses a part

use std::collections::BTreeMap;

use model::build::{Access, dumbbell, fat_tree, leaf_spine, racks, star};
use model::{
    Buffer, Declared, Directive, Directives, FlowId, JobId, LinkId, LinkSpec, Network, NodeId,
    Observation, TaskId, Terms,
};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_policy::{POLICIES, Parameters, Policy};

/// Policies that give every flow a rate, and promise that all together keep to the links.
pub fn allocators() -> Vec<&'static str> {
    let built = POLICIES.iter().filter_map(|policy| {
        // Those that need parameters give rates to flows of their choice.
        let built = policy.build(&Parameters::default()).ok()?;
        built.paces_all().then_some(policy.name)
    });
    built.collect()
}

pub fn spec(capacity: Rate) -> LinkSpec {
    LinkSpec { capacity, delay: Span::ZERO, buffer: Buffer::Unlimited, mark: None }
}

pub fn access(capacity: Rate) -> Access {
    Access { link: spec(capacity), nic: Buffer::Unlimited }
}

pub fn big_switch(hosts: u32, capacity: Rate) -> Network {
    Network::new(star(hosts, &access(capacity)).unwrap())
}

/// Phurti's figure 3.1: N1 to N3 on S1, N4 to N6 on S2, one cable between, all of one capacity.
pub fn two_racks(capacity: Rate) -> Network {
    Network::new(dumbbell(3, 3, &access(capacity), &spec(capacity)).unwrap())
}

/// A network of each kind, access and fabric of different capacity.
pub fn any_network() -> impl Strategy<Value = Network> {
    let parts = (0..5u32, 1..5u32, 1..4u32, 1..4u32, 10..2_000u64, 10..2_000u64);
    parts.prop_map(|(kind, a, b, c, edge, fabric)| {
        let (edge, fabric) = (access(Rate::from_mbps(edge)), spec(Rate::from_mbps(fabric)));
        let topology = match kind {
            0 => star(a + 1, &edge),
            1 => dumbbell(a, b, &edge, &fabric),
            2 => leaf_spine(b, c, a + 1, &edge, &fabric),
            3 => racks(a, b, c + 1, &edge, &fabric, &fabric),
            _ => fat_tree(4, &edge, &fabric),
        };
        Network::new(topology.unwrap())
    })
}

/// The host with that number.
pub fn host(network: &Network, number: u32) -> NodeId {
    network.topology().node_named(&format!("h{number}")).unwrap()
}

pub fn path(network: &Network, flow: u32, src: NodeId, dst: NodeId) -> Vec<LinkId> {
    let mut path = Vec::new();
    network.path(src, dst, u64::from(flow), &mut path);
    path
}

pub fn job_start(job: u32) -> Observation {
    Declared::JobStart { job: JobId(job), application: "".into() }.into()
}

pub fn job_of(application: &str, job: u32) -> Observation {
    Declared::JobStart { job: JobId(job), application: application.into() }.into()
}

/// What a job asks for: an objective, and milliseconds from its start to its end.
pub fn terms(job: u32, objective: Option<&str>, deadline_ms: Option<u64>) -> Observation {
    let terms = Terms {
        objective: objective.map(Into::into),
        deadline: deadline_ms.map(Span::from_millis),
        ..Terms::default()
    };
    Declared::JobTerms { job: JobId(job), terms }.into()
}

pub fn job_complete(job: u32) -> Observation {
    Declared::JobComplete { job: JobId(job) }.into()
}

pub fn task_host(job: u32, task: u32, host: NodeId) -> Observation {
    let (job, task) = (JobId(job), TaskId(task));
    Declared::TaskHost { job, task, host }.into()
}

pub fn size(job: u32, map: u32, reduces: &[(u32, u64)]) -> Observation {
    Declared::Size {
        job: JobId(job),
        map: TaskId(map),
        reduces: (reduces.iter())
            .map(|&(reduce, bytes)| (TaskId(reduce), Bytes::new(bytes)))
            .collect(),
    }
    .into()
}

pub fn request(job: u32, flow: u32, src: NodeId, dst: NodeId, bytes: u64) -> Observation {
    Declared::FlowRequest { job: JobId(job), flow: FlowId(flow), src, dst, size: Bytes::new(bytes) }
        .into()
}

pub fn flow_complete(job: u32, flow: u32) -> Observation {
    Declared::FlowComplete { job: JobId(job), flow: FlowId(flow) }.into()
}

/// Tells a policy one thing and has it decide.
pub fn tell(
    policy: &mut (impl Policy + ?Sized),
    now: Time,
    network: &Network,
    observation: &Observation,
    out: &mut Directives,
) {
    policy.observe(now, network, observation);
    policy.decide(now, network, out);
}

/// A policy with its network and the limits it has set so far.
pub struct Desk {
    pub network: Network,
    pub policy: Box<dyn Policy + Send>,
    /// Flows with a limit; the others transmit freely.
    pub limits: BTreeMap<FlowId, Rate>,
    /// Several things are told before the policy decides.
    pub together: bool,
}

impl Desk {
    pub fn new(network: Network, policy: Box<dyn Policy + Send>) -> Self {
        Self { network, policy, limits: BTreeMap::new(), together: false }
    }

    /// Tells the policy something and returns what it changed.
    pub fn tell(&mut self, now: Time, observation: impl Into<Observation>) -> Directives {
        self.policy.observe(now, &self.network, &observation.into());
        if self.together { Directives::new() } else { self.decide(now) }
    }

    pub fn decide(&mut self, now: Time) -> Directives {
        let mut out = Directives::new();
        self.policy.decide(now, &self.network, &mut out);
        self.obey(&out);
        out
    }

    /// Has the policy decide because its deadline has come.
    pub fn tick(&mut self, now: Time) -> Directives {
        self.policy.observe(now, &self.network, &Observation::Tick);
        self.decide(now)
    }

    /// Tells something, and has the policy decide what is due at once.
    pub fn settle(&mut self, now: Time, observation: impl Into<Observation>) {
        self.tell(now, observation);
        while self.policy.deadline().is_some_and(|deadline| deadline <= now) {
            self.tick(now);
        }
    }

    pub fn is_slow(&self, flow: u32) -> bool {
        self.limits.contains_key(&FlowId(flow))
    }

    /// Carries directives out; each must change something and not be zero.
    fn obey(&mut self, out: &Directives) {
        for directive in out {
            let &Directive::Pace { flow, limit } = directive else {
                panic!("no policy here asks for priorities");
            };
            assert_ne!(limit, Some(Rate::ZERO), "{flow:?} must not be stopped");
            assert_ne!(self.limits.get(&flow).copied(), limit, "{flow:?}: nothing changes");
            match limit {
                Some(rate) => self.limits.insert(flow, rate),
                None => self.limits.remove(&flow),
            };
        }
    }
}

/// A transfer of the fluid world.
#[derive(Clone, Copy)]
pub struct Transfer {
    pub job: u32,
    pub src: NodeId,
    pub dst: NodeId,
    pub bytes: u64,
    pub start: Time,
}

/// Runs transfers as ideal fluid: within the limits set by the policy, flows share links max-min
/// fairly. A job starts with its first transfer. Returns the end of each transfer in seconds.
pub fn run_fluid(desk: &mut Desk, transfers: &[Transfer]) -> Vec<f64> {
    let ids = || (0u32..).zip(transfers);
    let mut remaining: Vec<f64> = transfers.iter().map(|t| t.bytes as f64 * 8.0).collect();
    let mut ends = vec![None; transfers.len()];
    let mut started = vec![false; transfers.len()];
    let mut now = 0.0;
    loop {
        let clock = Time::ZERO + Span::from_secs_f64(now);
        for (id, t) in ids().filter(|(_, t)| t.start.as_secs_f64() <= now + 1e-9) {
            if !std::mem::replace(&mut started[id as usize], true) {
                desk.tell(clock, job_start(t.job));
                desk.tell(clock, request(t.job, id, t.src, t.dst, t.bytes));
            }
        }
        let active: Vec<u32> = ids()
            .map(|(id, _)| id)
            .filter(|&id| started[id as usize] && ends[id as usize].is_none())
            .collect();
        let rates = share(desk, transfers, &active);
        let done =
            (active.iter().zip(&rates)).map(|(&id, rate)| now + remaining[id as usize] / rate);
        let begun = ids().filter(|(id, _)| !started[*id as usize]);
        let next = done.chain(begun.map(|(_, t)| t.start.as_secs_f64()));
        let next = next.chain(desk.policy.deadline().map(|d| d.as_secs_f64()));
        let next = next.fold(f64::INFINITY, f64::min);
        if active.is_empty() && next.is_infinite() {
            return ends.into_iter().map(Option::unwrap).collect();
        }
        for (&id, rate) in active.iter().zip(&rates) {
            remaining[id as usize] -= rate * (next - now);
        }
        now = next;
        let clock = Time::ZERO + Span::from_secs_f64(now);
        if desk.policy.deadline().is_some_and(|d| d <= clock) {
            desk.tick(clock);
        }
        for &id in &active {
            if remaining[id as usize] <= 1e-3 {
                ends[id as usize] = Some(now);
                let job = transfers[id as usize].job;
                desk.tell(clock, flow_complete(job, id));
                desk.limits.remove(&FlowId(id));
                let last = ids().all(|(i, t)| t.job != job || ends[i as usize].is_some());
                if last {
                    desk.tell(clock, job_complete(job));
                }
            }
        }
    }
}

/// Max-min fair rates under limits in bit/s: all grow at one pace until a link or a limit stops them.
fn share(desk: &Desk, transfers: &[Transfer], active: &[u32]) -> Vec<f64> {
    let links = desk.network.topology().links();
    let mut left: Vec<f64> = links.iter().map(|l| l.spec.capacity.as_bps() as f64).collect();
    let paths: Vec<_> = (active.iter())
        .map(|&id| {
            let t = transfers[id as usize];
            path(&desk.network, id, t.src, t.dst)
        })
        .collect();
    let caps: Vec<f64> = (active.iter())
        .map(|&id| desk.limits.get(&FlowId(id)))
        .map(|limit| limit.map_or(f64::INFINITY, |rate| rate.as_bps() as f64))
        .collect();
    let mut rates = vec![0.0; active.len()];
    let mut growing = vec![true; active.len()];
    while growing.contains(&true) {
        let growers = |link: usize| {
            let on = |f: &usize| growing[*f] && paths[*f].iter().any(|l| l.index() == link);
            (0..active.len()).filter(on).count() as f64
        };
        let counts: Vec<f64> = (0..links.len()).map(growers).collect();
        let by_link = (0..links.len()).filter(|l| counts[*l] > 0.0);
        let step = by_link.map(|l| left[l] / counts[l]);
        let by_limit = (0..active.len()).filter(|f| growing[*f]);
        let step = step.chain(by_limit.map(|f| caps[f] - rates[f]));
        let step = step.fold(f64::INFINITY, f64::min);
        for (l, count) in counts.iter().enumerate() {
            left[l] -= step * count;
        }
        for f in 0..active.len() {
            if growing[f] {
                rates[f] += step;
                let full = paths[f].iter().any(|l| left[l.index()] < 1e-3);
                growing[f] = !full && rates[f] < caps[f] - 1e-6;
            }
        }
    }
    rates
}
