//! The arbiter: what each objective has, whatever others do.

use std::collections::{BTreeMap, BTreeSet};

use crate::desk::*;
use model::{
    Declared, Directive, Directives, FlowId, LEAST_RATE, LinkId, Measured, Network, NodeId,
    Observation, StreamSample,
};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_policy::{Aim, Objective, Parameters, Policy, PolicyError, Share, by_name, find};

pub const MBPS: u64 = 1_000_000;
/// What the defaults leave unused of a rate at most.
pub const SLACK: f64 = 0.9;

pub fn objective(name: &str, policy: &str, aim: Aim) -> Objective {
    Objective {
        name: name.into(),
        applications: vec![name.into()],
        policy: find(policy).unwrap(),
        parameters: Parameters::default(),
        aim,
    }
}

pub fn latency(target_ms: u64) -> Aim {
    Aim::Latency { target: Span::from_millis(target_ms), most: Share::literal(500_000) }
}

pub fn deadline(seconds: u64) -> Aim {
    Aim::Deadline { within: Span::from_secs(seconds), most: Share::literal(900_000) }
}

/// An arbiter at work, and what it has said.
pub struct Bench {
    pub network: Network,
    pub policy: Box<dyn Policy + Send>,
    pub limits: BTreeMap<FlowId, Rate>,
    pub classes: BTreeMap<FlowId, u8>,
    /// Every directive so far.
    pub said: Directives,
}

impl Bench {
    pub fn new(network: Network, objectives: Vec<Objective>) -> Self {
        Self::with(network, Parameters::default().under(objectives))
    }

    pub fn with(network: Network, parameters: Parameters) -> Self {
        let policy = by_name("arbiter", &parameters).unwrap();
        let (limits, classes) = (BTreeMap::new(), BTreeMap::new());
        Self { network, policy, limits, classes, said: Directives::new() }
    }

    /// Tells something and has the policy decide what is due at once.
    pub fn settle(&mut self, now: Time, observation: impl Into<Observation>) {
        let observation = observation.into();
        if let Observation::Declared(Declared::FlowComplete { flow, .. }) = observation {
            self.limits.remove(&flow);
        }
        let mut out = Directives::new();
        tell(&mut *self.policy, now, &self.network, &observation, &mut out);
        let mut ticks = 0;
        while self.policy.deadline().is_some_and(|deadline| deadline <= now) {
            tell(&mut *self.policy, now, &self.network, &Observation::Tick, &mut out);
            ticks += 1;
            assert!(ticks < 3, "it asks for tick after tick");
        }
        for directive in &out {
            match *directive {
                Directive::Pace { flow, limit: Some(limit) } => {
                    assert!(limit >= LEAST_RATE);
                    assert_ne!(self.limits.insert(flow, limit), Some(limit), "nothing changes");
                }
                Directive::Pace { flow, limit: None } => {
                    self.limits.remove(&flow);
                }
                Directive::Prioritize { flow, priority } => {
                    self.classes.insert(flow, priority);
                }
                _ => panic!("{directive:?}"),
            }
        }
        self.said.extend(out);
    }

    /// Time passes until then.
    pub fn pass(&mut self, until: Time) {
        while let Some(due) = self.policy.deadline().filter(|due| *due <= until) {
            self.settle(due, Observation::Tick);
        }
    }

    /// What these flows are held to in sum; all must be held.
    pub fn sum(&self, flows: impl IntoIterator<Item = u32>) -> u64 {
        flows.into_iter().map(|flow| self.limits[&FlowId(flow)].as_bps()).sum()
    }
}

pub fn at_ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Two racks with a cable of 10 Mbit/s between, and hosts of the left and of the right.
pub fn racks() -> (Network, [NodeId; 3], [NodeId; 3]) {
    let network = two_racks(Rate::from_mbps(10));
    let hosts = [0, 1, 2, 3, 4, 5].map(|number| host(&network, number));
    let [a, b, c, d, e, f] = hosts;
    (network, [a, b, c], [d, e, f])
}

#[test]
fn who_floods_divides_its_own_part() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("one", "tcp", Aim::Weight(1)), objective("other", "tcp", Aim::Weight(1))];
    let mut bench = Bench::new(network, objectives);
    let now = Time::ZERO;
    bench.settle(now, job_of("one", 0));
    bench.settle(now, request(0, 0, left[0], right[0], u64::MAX));
    assert!(bench.limits.is_empty(), "nobody is to be protected");
    bench.settle(now, job_of("other", 1));
    for flow in 1..=100 {
        bench.settle(now, request(1, flow, left[1], right[1], u64::MAX));
    }
    let one = bench.sum([0]);
    assert!(one as f64 >= 5e6 * SLACK && one <= 5 * MBPS, "{one}");
    assert!(bench.sum(1..=100) <= 5 * MBPS);
    // It says little: the flow that was there first is told once.
    let told = |flow| {
        bench
            .said
            .iter()
            .filter(|d| matches!(d, Directive::Pace { flow: f, .. } if *f == FlowId(flow)))
            .count()
    };
    assert_eq!(told(0), 1);
    // Who floods goes; the other has the link for itself again, a moment later.
    bench.settle(now, job_complete(1));
    bench.pass(at_ms(500));
    assert!(bench.limits.is_empty(), "{:?}", bench.limits);
    assert_eq!(bench.policy.deadline(), None, "there is nothing left to divide");
}

#[test]
fn weights_count_and_applications_that_nobody_names_have_one() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("two", "fair", Aim::Weight(2)), objective("seven", "srb", Aim::Weight(7))];
    let mut bench = Bench::new(network, objectives);
    for (job, application) in (0..).zip(["two", "seven", "unknown"]) {
        bench.settle(Time::ZERO, job_of(application, job));
        bench.settle(Time::ZERO, request(job, job, left[0], right[job as usize], 1 << 40));
    }
    let shares = [0, 1, 2].map(|flow| bench.sum([flow]) as f64);
    for (share, whole) in shares.iter().zip([2e6, 7e6, 1e6]) {
        assert!(*share >= whole * 0.85 && *share <= whole * 1.02, "{shares:?}");
    }
}

/// What an objective can't use, for its flows are held elsewhere or carry little, others have.
#[test]
fn what_one_cannot_use_others_have() {
    let network = Network::new(
        model::build::dumbbell(3, 3, &access(Rate::from_mbps(2)), &spec(Rate::from_mbps(10)))
            .unwrap(),
    );
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let objectives =
        vec![objective("one", "tcp", Aim::Weight(1)), objective("other", "tcp", Aim::Weight(1))];
    let mut bench = Bench::new(network, objectives);
    // One flow through an access of 2 Mbit/s; the other's four have the rest, whatever their weight.
    bench.settle(Time::ZERO, job_of("one", 0));
    bench.settle(Time::ZERO, request(0, 0, hosts[0], hosts[3], 1 << 40));
    bench.settle(Time::ZERO, job_of("other", 1));
    for (flow, (src, dst)) in (1..).zip([(1, 4), (2, 5), (1, 5), (2, 4)]) {
        bench.settle(Time::ZERO, request(1, flow, hosts[src], hosts[dst], 1 << 40));
    }
    bench.pass(at_ms(300));
    assert!(bench.sum([0]) as f64 >= 2e6 * SLACK, "{:?}", bench.limits);
    assert!(bench.sum(1..5) as f64 >= 4e6 * SLACK, "{:?}", bench.limits);

    // A stream that carries 1 Mbit/s and has nothing waiting leaves the rest of its half.
    let (network, left, right) = racks();
    let objectives = vec![
        objective("one", "app-aware-fast", Aim::Weight(1)),
        objective("other", "tcp", Aim::Weight(1)),
    ];
    let mut bench = Bench::new(network, objectives);
    bench.settle(Time::ZERO, job_of("one", 0));
    bench.settle(Time::ZERO, request(0, 0, left[0], right[0], u64::MAX));
    bench.settle(Time::ZERO, job_of("other", 1));
    bench.settle(Time::ZERO, request(1, 1, left[1], right[1], 1 << 40));
    assert!(bench.sum([1]) <= 5 * MBPS);
    for second in 0..5 {
        let delivered = Bytes::new(125_000 * second);
        let sample = StreamSample { flow: FlowId(0), delivered, ..StreamSample::default() };
        bench.settle(at_ms(1000 * second), Declared::Streams(vec![sample]));
        bench.pass(at_ms(1000 * second + 900));
    }
    assert!(bench.sum([1]) >= 8 * MBPS, "{:?}", bench.limits);
    // The stream is free within what is left: it can grow.
    assert!(bench.sum([0]) >= MBPS, "{:?}", bench.limits);
    // Demands that differ little change nothing.
    let before = bench.said.len();
    for second in 5..9 {
        let delivered = Bytes::new(500_000 + 127_000 * (second - 4));
        let sample = StreamSample { flow: FlowId(0), delivered, ..StreamSample::default() };
        bench.settle(at_ms(1000 * second), Declared::Streams(vec![sample]));
        bench.pass(at_ms(1000 * second + 900));
    }
    assert_eq!(bench.said.len(), before);
}

/// Two leaves under two spines, by cables of 10 Mbit/s; the links from the first leaf to the spines, and for
/// each a flow from the first leaf to the second that goes there.
fn spines() -> (Network, [LinkId; 2], [(u32, NodeId, NodeId); 2]) {
    let (edge, fabric) = (access(Rate::from_mbps(100)), spec(Rate::from_mbps(10)));
    let network = Network::new(model::build::leaf_spine(2, 2, 2, &edge, &fabric).unwrap());
    let topology = network.topology();
    let [leaf, first, second] =
        ["leaf0", "spine0", "spine1"].map(|name| topology.node_named(name).unwrap());
    let up = [first, second].map(|spine| topology.link_between(leaf, spine).unwrap());
    let flows = [0, 1].map(|place| {
        let (src, dst) = (host(&network, place), host(&network, 2 + place));
        let is_over = |flow: &u32| path(&network, *flow, src, dst).contains(&up[place as usize]);
        ((0..).filter(|flow| flow % 2 == place).find(is_over).unwrap(), src, dst)
    });
    (network, up, flows)
}

/// Takes a link out of service or back, and says so.
fn switch_link(bench: &mut Bench, now: Time, link: LinkId, up: bool) {
    bench.network.set_up(link, up);
    bench.settle(now, Measured::LinkState { link, up });
}

/// Where a link fails its flows meet others; when they go back they leave nothing behind.
#[test]
fn a_flow_that_moves_takes_its_stake_along() {
    let (network, [first, _], flows) = spines();
    let objectives =
        vec![objective("one", "tcp", Aim::Weight(1)), objective("other", "tcp", Aim::Weight(1))];
    let mut bench = Bench::new(network, objectives);
    for (job, ((flow, src, dst), name)) in (0..).zip(flows.into_iter().zip(["one", "other"])) {
        bench.settle(Time::ZERO, job_of(name, job));
        bench.settle(Time::ZERO, request(job, flow, src, dst, 1 << 40));
    }
    assert!(bench.limits.is_empty(), "each has a spine for itself");
    switch_link(&mut bench, at_ms(10), first, false);
    for (flow, ..) in flows {
        let half = bench.sum([flow]);
        assert!(half as f64 >= 5e6 * SLACK && half <= 5 * MBPS, "{:?}", bench.limits);
    }
    switch_link(&mut bench, at_ms(20), first, true);
    bench.pass(at_ms(600));
    assert!(bench.limits.is_empty(), "{:?}", bench.limits);
    assert_eq!(bench.policy.deadline(), None, "there is nothing left to divide");
}

/// The network that an objective's policy sees loses the links that the real one loses.
#[test]
fn an_objectives_policy_goes_around_a_failed_link() {
    for name in ["fair", "sebf", "srb", "smsf"] {
        let (network, [first, _], flows) = spines();
        let mut bench = Bench::new(network.clone(), vec![objective("*", name, Aim::Weight(1))]);
        let mut alone = Desk::new(network, by_name(name, &Parameters::default()).unwrap());
        for (job, (flow, src, dst)) in (0..).zip(flows) {
            for said in [job_start(job), request(job, flow, src, dst, 10_000_000)] {
                alone.settle(Time::ZERO, said.clone());
                bench.settle(Time::ZERO, said);
            }
        }
        let mut seen = vec![bench.limits.clone()];
        for (ms, up) in [(10, false), (20, true)] {
            alone.network.set_up(first, up);
            alone.settle(at_ms(ms), Measured::LinkState { link: first, up });
            switch_link(&mut bench, at_ms(ms), first, up);
            assert_eq!(bench.limits, alone.limits, "{name}, up: {up}");
            seen.push(bench.limits.clone());
        }
        assert_ne!(seen[0], seen[1], "{name}: two on one cable");
        assert_eq!(seen[0], seen[2], "{name}: each has its own again");
    }
}

/// Each part is within the slack of what it was, and all together are more than there is.
#[test]
fn a_link_that_is_given_more_than_it_has_is_divided_again() {
    let (network, left, right) = racks();
    let middle = path(&network, 0, left[0], right[0])[1];
    let objectives =
        vec![objective("one", "tcp", Aim::Weight(1)), objective("other", "tcp", Aim::Weight(1))];
    let parameters = Parameters::default().with("cross", true).under(objectives);
    let mut bench = Bench::with(network, parameters);
    for (job, name) in (0..).zip(["one", "other"]) {
        let (src, dst) = (left[job as usize], right[job as usize]);
        bench.settle(Time::ZERO, job_of(name, job));
        bench.settle(Time::ZERO, request(job, job, src, dst, 1 << 40));
    }
    // What others' frames a port counts beside what the flows deliver, once a second.
    let cross = Rate::from_bps(800_000);
    assert_eq!(bench.policy.ports(), Some(Span::from_millis(500)));
    for s in 1..=4 {
        let delivered = (0..2).map(|flow| (FlowId(flow), Bytes::new(146_000 * s))).collect();
        bench.settle(at_ms(s * 1000), Measured::Delivered(delivered));
        let sent = 2 * 150_000 * s + 100_000 * s;
        bench.settle(at_ms(s * 1000), Measured::Ports(vec![(middle, Bytes::new(sent))]));
    }
    let left = Rate::from_mbps(10) - cross;
    assert!(bench.sum(0..2) <= left.as_bps(), "{:?}", bench.limits);
    let account = bench.policy.account(FlowId(0)).unwrap();
    let part = account.parts.iter().find(|part| part.link == middle).unwrap();
    let given = part.given.iter().fold(Rate::ZERO, |sum, holding| sum + holding.rate);
    assert_eq!(given, left);
}

/// One comes to a link, another goes from it, and nothing is decided in between.
#[test]
fn who_comes_is_held_at_once_though_another_goes() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("one", "tcp", Aim::Weight(1)), objective("other", "tcp", Aim::Weight(1))];
    let mut bench = Bench::new(network, objectives);
    bench.settle(Time::ZERO, job_of("one", 0));
    for flow in 0..2 {
        bench.settle(Time::ZERO, request(0, flow, left[0], right[0], 1 << 40));
    }
    bench.settle(Time::ZERO, job_of("other", 1));
    let comes = request(1, 2, left[1], right[1], 1 << 40);
    bench.policy.observe(at_ms(10), &bench.network, &comes);
    bench.settle(at_ms(10), flow_complete(0, 1));
    assert!(bench.sum([0]) <= 5 * MBPS && bench.sum([2]) <= 5 * MBPS, "{:?}", bench.limits);
}

/// What one leaves of a link another has, who takes more of its other link for that: as far as two links on.
#[test]
fn what_is_left_of_a_link_is_known_two_links_on() {
    let network = big_switch(5, Rate::from_mbps(10));
    let objectives =
        [("a", 9), ("b", 81), ("c", 9), ("d", 1)].map(|(n, w)| objective(n, "tcp", Aim::Weight(w)));
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let mut bench = Bench::new(network, objectives.to_vec());
    for (job, (name, src, dst)) in (0..).zip([("a", 0, 1), ("b", 0, 2), ("c", 3, 1), ("d", 3, 4)]) {
        bench.settle(Time::ZERO, job_of(name, job));
        bench.settle(Time::ZERO, request(job, job, hosts[src], hosts[dst], 1 << 40));
    }
    bench.pass(at_ms(300));
    // From the first host `a` has a tenth beside `b`; so `c` has more than half of what goes into the second,
    // though it weighs as much as `a`; and so `d` has from the fourth no more than its weight.
    for (flow, least, most) in [(0, 0.0, 1.0), (1, 9.0 * SLACK, 9.0), (2, 6.0, 9.0), (3, 0.0, 1.0)]
    {
        let held = bench.sum([flow]) as f64 / 1e6;
        assert!(held >= least && held <= most * 1.02, "{:?}", bench.limits);
    }
}

/// Links that nobody came to are divided once an interval, whatever happens at others.
#[test]
fn who_comes_moves_no_parts_of_other_links() {
    let network = big_switch(6, Rate::from_mbps(10));
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let objectives =
        vec![objective("one", "tcp", Aim::Weight(1)), objective("other", "tcp", Aim::Weight(1))];
    let mut bench = Bench::new(network, objectives);
    let begin = |bench: &mut Bench, now, job, flow, (src, dst): (usize, usize)| {
        bench.settle(now, request(job, flow, hosts[src], hosts[dst], u64::MAX));
    };
    for (job, name) in (0..).zip(["one", "other"]) {
        bench.settle(Time::ZERO, job_of(name, job));
        begin(&mut bench, Time::ZERO, job, job, (2 * job as usize, 1));
    }
    begin(&mut bench, Time::ZERO, 0, 2, (3, 4));
    bench.pass(at_ms(200));
    // The first carries next to nothing: that counts when the interval is over.
    for (ms, delivered) in [(210, 0), (310, 1_000)] {
        let delivered = Bytes::new(delivered);
        let sample = StreamSample { flow: FlowId(0), delivered, ..StreamSample::default() };
        bench.settle(at_ms(ms), Declared::Streams(vec![sample]));
    }
    begin(&mut bench, at_ms(320), 1, 3, (3, 5));
    assert!(bench.sum([3]) <= 5 * MBPS && bench.sum([2]) <= 5 * MBPS, "{:?}", bench.limits);
    assert!(bench.sum([1]) <= 5 * MBPS, "{:?}", bench.limits);
    bench.pass(at_ms(520));
    assert!(bench.sum([1]) >= 8 * MBPS, "{:?}", bench.limits);
}

/// The objective's part stays as it is, and its flows divide it by what each carries.
#[test]
fn what_a_flow_leaves_others_of_its_objective_have() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("one", "tcp", Aim::Weight(1)), objective("other", "tcp", Aim::Weight(1))];
    let mut bench = Bench::new(network, objectives);
    for (job, name) in (0..).zip(["one", "other"]) {
        bench.settle(Time::ZERO, job_of(name, job));
    }
    for (flow, job) in (0..).zip([0, 0, 1]) {
        let (src, dst) = (left[flow as usize], right[flow as usize]);
        bench.settle(Time::ZERO, request(job, flow, src, dst, u64::MAX));
    }
    for round in 1..5 {
        let delivered = Bytes::new(1_000 * round);
        let sample = StreamSample { flow: FlowId(0), delivered, ..StreamSample::default() };
        bench.settle(at_ms(200 * round), Declared::Streams(vec![sample]));
        bench.pass(at_ms(200 * round + 199));
    }
    assert!(bench.sum([1]) as f64 >= 4.9e6 * SLACK, "{:?}", bench.limits);
    assert!(bench.sum([2]) <= 5 * MBPS, "{:?}", bench.limits);
}

/// What a flow's own policy keeps from it is the others' of its objective.
#[test]
fn a_flow_that_its_policy_holds_leaves_the_rest_to_others() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("one", "fifo", Aim::Weight(1)), objective("other", "tcp", Aim::Weight(1))];
    let mut bench = Bench::new(network, objectives);
    for (job, name) in (0..).zip(["one", "one", "other"]) {
        let (src, dst) = (left[job as usize], right[job as usize]);
        bench.settle(Time::ZERO, job_of(name, job));
        bench.settle(Time::ZERO, request(job, job, src, dst, 1 << 40));
    }
    // The second job waits for the first.
    let [first, second] = [0, 1].map(|flow| bench.sum([flow]));
    assert!(second < MBPS / 2 && first as f64 >= 4.5e6 * SLACK, "{:?}", bench.limits);
    assert!(first + second <= 5 * MBPS, "{:?}", bench.limits);
}

/// It ends for the policy of the objective that it leaves, and begins for that of its new one.
#[test]
fn a_job_that_moves_is_of_one_policy_only() {
    let (network, left, right) = racks();
    let of_all = |name, policy| Objective {
        applications: vec!["*".into()],
        ..objective(name, policy, Aim::Weight(1))
    };
    let mut bench = Bench::new(network, vec![of_all("batch", "fair"), of_all("prompt", "fifo")]);
    for job in 0..3 {
        let (src, dst) = (left[job as usize], right[job as usize]);
        bench.settle(Time::ZERO, job_of("spark", job));
        bench.settle(Time::ZERO, request(job, job, src, dst, 1 << 40));
    }
    let moves = |bench: &mut Bench, ms, job| {
        bench.settle(at_ms(ms), terms(job, Some("prompt"), None));
        bench.pass(at_ms(ms + 300));
    };
    moves(&mut bench, 10, 2);
    assert!(
        bench.sum(0..2) as f64 >= 5e6 * SLACK && bench.sum([0]) < 3 * MBPS,
        "{:?}",
        bench.limits
    );
    moves(&mut bench, 400, 1);
    // All that `fair` divides is the one's that has stayed; `fifo` has the later one wait.
    assert!(bench.sum([0]) as f64 >= 5e6 * SLACK, "{:?}", bench.limits);
    assert!(bench.sum([1]) < MBPS && bench.sum([2]) as f64 >= 4e6 * SLACK, "{:?}", bench.limits);
}

/// An objective that has the network for itself decides as its policy does alone.
#[test]
fn alone_it_is_its_policy() {
    let (network, left, right) = racks();
    for name in ["fair", "fifo", "sff", "smsf", "sebf", "bssf", "srb", "dclas", "srpt"] {
        let rules = vec![objective("*", name, Aim::Weight(1))];
        let mut bench = Bench::new(network.clone(), rules);
        let mut alone = Desk::new(network.clone(), by_name(name, &Parameters::default()).unwrap());
        for step in 0..60u32 {
            let now = at_ms(u64::from(step) * 70);
            while let Some(due) = alone.policy.deadline().filter(|due| *due <= now) {
                alone.tick(due);
            }
            bench.pass(now);
            let flow = step * 7 % 15;
            let job = flow % 4;
            let what = match step % 7 {
                0 | 1 => job_start(job),
                2..=4 => {
                    let (src, dst) = (left[step as usize % 3], right[step as usize / 3 % 3]);
                    request(job, flow, src, dst, u64::from(step) * 100_000)
                }
                5 => flow_complete(job, flow),
                _ => job_complete(job),
            };
            if matches!(what, Observation::Declared(Declared::FlowComplete { .. })) {
                alone.limits.remove(&FlowId(flow));
            }
            alone.settle(now, what.clone());
            bench.settle(now, what);
            assert_eq!(bench.limits, alone.limits, "{name}, step {step}");
        }
    }
}

#[test]
fn what_an_objective_cannot_be_is_refused() {
    let refusal = |objective| {
        let parameters = Parameters::default().under(vec![objective]);
        by_name("arbiter", &parameters).err().unwrap().to_string()
    };
    let about_ports = refusal(objective("a", "sab", Aim::Weight(1)));
    assert!(about_ports.starts_with("policy must be one that says rates of flows only"));
    assert!(refusal(objective("a", "pias", Aim::Weight(1))).starts_with("policy must"));
    assert!(refusal(objective("a", "arbiter", Aim::Weight(1))).starts_with("policy must"));
    assert!(refusal(objective("a", "tcp", Aim::Weight(0))).starts_with("weight must be from 1"));
    assert_eq!(refusal(objective("a", "tcp", latency(0))), "latency must be above 0 s");
    assert_eq!(refusal(objective("a", "tcp", deadline(0))), "deadline must be above 0 s");
    let slack = Parameters::default().with("slack", Share::ALL);
    let refused = by_name("arbiter", &slack).err().unwrap();
    assert_eq!(refused, PolicyError::OutOfRange { parameter: "slack", range: "at most 0.5" });
}

#[test]
fn the_account_names_who_has_what() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("web", "tcp", latency(100)), objective("sort", "srb", Aim::Weight(1))];
    let mut bench = Bench::new(network.clone(), objectives);
    bench.settle(Time::ZERO, job_of("sort", 0));
    bench.settle(Time::ZERO, request(0, 0, left[0], right[0], 1 << 40));
    bench.settle(Time::ZERO, job_of("web", 1));
    bench.settle(Time::ZERO, request(1, 1, left[1], right[1], 25_000));
    let account = bench.policy.account(FlowId(0)).unwrap();
    assert_eq!((account.objective.as_str(), account.aim), ("sort", Aim::Weight(1)));
    let links: Vec<LinkId> = account.parts.iter().map(|part| part.link).collect();
    assert_eq!(links, path(&network, 0, left[0], right[0]));
    let [access, middle, _] = &account.parts[..] else { panic!("three links") };
    assert_eq!(access.given.len(), 1);
    let [web, sort] = &middle.given[..] else { panic!("two objectives") };
    assert_eq!((web.objective.as_str(), sort.objective.as_str()), ("web", "sort"));
    assert_eq!(web.rate + sort.rate, Rate::from_mbps(10));
    assert!(sort.rate < sort.wants && web.rate >= Rate::from_mbps(2), "the sort yields");
    assert_eq!(bench.policy.account(FlowId(7)), None);
    assert_eq!(by_name("srb", &Parameters::default()).unwrap().account(FlowId(0)), None);
}

const APPLICATIONS: [&str; 4] = ["a", "b", "c", "d"];

fn any_objectives() -> impl Strategy<Value = Vec<Objective>> {
    let policy =
        prop::sample::select(vec!["tcp", "fair", "srb", "smsf", "app-aware-fast", "dclas"]);
    let aim = prop_oneof![
        3 => (1..5u32).prop_map(Aim::Weight),
        1 => (1..500u64).prop_map(latency),
        1 => (1..20u64).prop_map(deadline),
        1 => Just(Aim::Background),
    ];
    prop::collection::vec((policy, aim), 0..4).prop_map(|rules| {
        let named = rules.into_iter().zip(APPLICATIONS);
        named.map(|((policy, aim), name)| objective(name, policy, aim)).collect()
    })
}

const FLOWS: u32 = 16;

proptest! {
    /// Whatever is said in whatever order: where several objectives meet every flow is held, and all
    /// together keep to the link, but for the least rate of each.
    #[test]
    fn no_shared_link_is_given_twice(
        objectives in any_objectives(),
        network in any_network(),
        story in prop::collection::vec(
            (0..1_000u64, 0..7u32, 0..FLOWS, prop_oneof![1..1_000_000_000u64, Just(0), Just(u64::MAX)]),
            0..100,
        ),
    ) {
        let hosts: Vec<NodeId> = network.topology().hosts().collect();
        let ends = |flow: u32| {
            let (count, flow) = (hosts.len(), flow as usize);
            let src = flow % count;
            (hosts[src], hosts[(src + 1 + flow / count % (count - 1).max(1)) % count])
        };
        let mut bench = Bench::new(network.clone(), objectives.clone());
        let mut again = Bench::new(network.clone(), objectives);
        let mut present: BTreeSet<u32> = BTreeSet::new();
        let mut started: BTreeSet<u32> = BTreeSet::new();
        let mut now = Time::ZERO;
        for (wait, what, flow, bytes) in story {
            now += Span::from_millis(wait);
            bench.pass(now);
            again.pass(now);
            let job = flow % 4;
            let (src, dst) = ends(flow);
            let said: Observation = match what {
                0 => {
                    started.insert(job);
                    job_of(APPLICATIONS[job as usize], job)
                }
                1..=3 => {
                    if started.contains(&job) {
                        present.insert(flow);
                    }
                    request(job, flow, src, dst, bytes)
                }
                4 => {
                    present.remove(&flow);
                    flow_complete(job, flow)
                }
                5 => {
                    let delivered = Bytes::new(bytes);
                    let sample = StreamSample { flow: FlowId(flow), delivered, ..StreamSample::default() };
                    if bytes % 2 == 0 {
                        Declared::Streams(vec![sample]).into()
                    } else {
                        Measured::Delivered(vec![(FlowId(flow), delivered)]).into()
                    }
                }
                _ if bytes % 3 == 0 => {
                    started.remove(&job);
                    present.retain(|flow| flow % 4 != job);
                    job_complete(job)
                }
                _ => continue,
            };
            bench.settle(now, said.clone());
            again.settle(now, said);
            for flow in bench.limits.keys() {
                prop_assert!(present.contains(&flow.0), "{flow:?} is gone and held");
            }
            let mut over: BTreeMap<LinkId, Vec<u32>> = BTreeMap::new();
            for flow in &present {
                for link in path(&network, *flow, ends(*flow).0, ends(*flow).1) {
                    over.entry(link).or_default().push(*flow);
                }
            }
            for (link, flows) in over {
                // Jobs are of an application each; those that no objective names are one.
                let accounts = flows.iter().map(|flow| bench.policy.account(FlowId(*flow)));
                let accounts: Vec<_> = accounts.map(|account| account.expect("it is known")).collect();
                let names: BTreeSet<&str> = accounts.iter().map(|a| a.objective.as_str()).collect();
                if names.len() < 2 {
                    continue;
                }
                let capacity = network.topology().link(link).spec.capacity.as_bps();
                let floors = LEAST_RATE.as_bps() * flows.len() as u64;
                for flow in &flows {
                    prop_assert!(bench.limits.contains_key(&FlowId(*flow)), "{flow} is free");
                }
                prop_assert!(bench.sum(flows) <= capacity + floors, "{link:?}");
                let part = accounts[0].parts.iter().find(|part| part.link == link).unwrap();
                let given: u64 = part.given.iter().map(|holding| holding.rate.as_bps()).sum();
                prop_assert!(given <= capacity, "{link:?} is given twice: {given}");
            }
        }
        prop_assert_eq!(bench.said, again.said);
    }

    /// Flows and jobs that others add lower no objective's rate below its share by weight.
    #[test]
    fn no_flood_lowers_a_guarantee(
        weights in (1..6u32, 1..6u32),
        own in 1..6u32,
        flood in 1..120u32,
        policies in (0..3usize, 0..3usize),
        seed in any::<u32>(),
    ) {
        let (network, left, right) = racks();
        let policy = |choice: usize| ["tcp", "fair", "srb"][choice];
        let objectives = vec![
            objective("own", policy(policies.0), Aim::Weight(weights.0)),
            objective("flood", policy(policies.1), Aim::Weight(weights.1)),
        ];
        let mut bench = Bench::new(network, objectives);
        bench.settle(Time::ZERO, job_of("own", 0));
        for flow in 0..own {
            let (src, dst) = (left[(seed >> flow) as usize % 3], right[flow as usize % 3]);
            bench.settle(Time::ZERO, request(0, flow, src, dst, 1 << 40));
        }
        for flow in 0..flood {
            let (job, flow) = (1 + flow % 7, 100 + flow);
            bench.settle(Time::ZERO, job_of("flood", job));
            let (src, dst) = (left[flow as usize % 3], right[(seed >> (flow % 20)) as usize % 3]);
            bench.settle(Time::ZERO, request(job, flow, src, dst, 1 << 40));
            let part = 10e6 * f64::from(weights.0) / f64::from(weights.0 + weights.1);
            let sum = bench.sum(0..own) as f64;
            prop_assert!(sum >= part * SLACK - 200_000.0, "{sum} of {part}");
        }
    }

    /// Neither do they delay what a latency or a deadline needs, whatever weight they have.
    #[test]
    fn no_flood_delays_what_is_due(
        (aim, bytes, within) in prop_oneof![
            (5_000..40_000u64).prop_map(|bytes| (latency(100), bytes, Span::from_millis(100))),
            (100_000..4_000_000u64).prop_map(|bytes| (deadline(10), bytes, Span::from_secs(10))),
        ],
        weight in 1..=Aim::MOST,
        flood in 1..120u32,
        policies in (0..3usize, 0..3usize),
        comes_first in any::<bool>(),
    ) {
        let (network, left, right) = racks();
        let policy = |choice: usize| ["tcp", "fair", "srb"][choice];
        let objectives = vec![
            objective("own", policy(policies.0), aim),
            objective("flood", policy(policies.1), Aim::Weight(weight)),
        ];
        let mut bench = Bench::new(network, objectives);
        bench.settle(Time::ZERO, job_of("flood", 1));
        let floods = (1..=flood).map(|flow| {
            request(1, flow, left[flow as usize % 3], right[flow as usize / 3 % 3], 1 << 40)
        });
        let (before, after) = floods.partition::<Vec<_>, _>(|_| comes_first);
        for request in before {
            bench.settle(Time::ZERO, request);
        }
        bench.settle(Time::ZERO, job_of("own", 0));
        bench.settle(Time::ZERO, request(0, 0, left[0], right[0], bytes));
        for request in after {
            bench.settle(Time::ZERO, request);
        }
        let needed = Rate::of(Bytes::new(bytes), within).as_bps();
        let has = bench.sum([0]);
        prop_assert!(has >= needed, "{has} of {needed}");
    }
}
