//! The fluid world against hand computation and against an independent, global filling.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // a test may panic

use engine::{Jobs, Outcome, Plan};
use model::{
    Buffer, Directive, Directives, Job, LinkId, LinkSpec, Network, NodeId, NodeKind, Observation,
    Topology,
};
use policy::Policy;
use proptest::prelude::*;
use testing::network::{hosts, job, link};
use units::{Bytes, Rate, Span, Time};
use watermaster_fluid::{Room, RunError, World, run};

fn spec(mbps: u64) -> LinkSpec {
    link(mbps, 0, Buffer::Unlimited)
}

fn star(count: u32, mbps: u64) -> Topology {
    hosts(count, spec(mbps))
}

fn plan<'a>(
    topology: Topology,
    jobs: Vec<Job>,
    policy: Option<Box<dyn Policy + 'a>>,
    until: Time,
) -> Plan<'a, World> {
    Plan {
        network: Network::new(topology),
        application: Box::new(Jobs::new(jobs.into_iter())),
        policy,
        control_delay: Span::ZERO,
        processing: Span::ZERO,
        until,
        monitors: Vec::new(),
        rates: None,
    }
}

fn seconds(time: Option<Time>) -> f64 {
    time.unwrap().as_secs_f64()
}

/// Phurti, figure 2.2: a unit is what a link carries in a second.
fn figure_2_2(policy: Box<dyn Policy>) -> Outcome {
    const UNIT: u64 = 12_500_000;
    let topology = star(6, 100);
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let flow = |link: usize, units: u64| (hosts[link], hosts[link + 3], units * UNIT);
    let jobs = vec![
        job(0, Time::ZERO, &[flow(0, 1), flow(1, 2), flow(2, 3)]),
        job(1, Time::ZERO, &[flow(0, 3), flow(1, 1), flow(2, 2)]),
        job(2, Time::ZERO, &[flow(0, 2)]),
    ];
    run(plan(topology, jobs, Some(policy), Time::NEVER), None, &mut |_| {}).unwrap()
}

#[test]
fn figure_2_2_is_exact() {
    // By hand: X ends at 3, 6, 5 for A, B, C; Y at 3, 2; Z at 5, 4. Means 4 and 16/3.
    let fair: Box<dyn Policy> = policy::by_name("fair", &policy::Parameters::default()).unwrap();
    let tcp: Box<dyn Policy> = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    for (policy, error) in [(tcp, 1e-8), (fair, 1e-6)] {
        let outcome = figure_2_2(policy);
        let ends: Vec<f64> = outcome.flows.iter().map(|flow| seconds(flow.end)).collect();
        for (end, expected) in ends.iter().zip([3.0, 3.0, 5.0, 6.0, 2.0, 4.0, 5.0]) {
            assert!((end - expected).abs() < error, "{ends:?}");
        }
        let jobs: Vec<f64> = outcome.jobs.iter().map(|job| seconds(job.end)).collect();
        assert!((jobs.iter().sum::<f64>() / 3.0 - 16.0 / 3.0).abs() < error, "{jobs:?}");
    }
}

/// Flows, and the limit in bit/s that each gets.
type Limits = Vec<(u32, Option<u64>)>;

/// Paces flows as a script says: at each time so many flows get a limit, all at once.
struct Script {
    steps: Vec<(Time, Limits)>,
}

impl Policy for Script {
    fn observe(&mut self, _: Time, _: &Network, _: &Observation) {}

    fn deadline(&self) -> Option<Time> {
        self.steps.last().map(|(time, _)| *time)
    }

    fn decide(&mut self, now: Time, _: &Network, out: &mut Directives) {
        let Some((_, limits)) = self.steps.pop_if(|(time, _)| *time <= now) else { return };
        out.extend(limits.into_iter().map(|(flow, bps)| Directive::Pace {
            flow: model::FlowId(flow),
            limit: bps.map(Rate::from_bps),
        }));
    }
}

#[test]
fn a_limit_acts_only_below_the_fair_share_and_leaves_the_rest_to_others() {
    // Two flows into one port of 100 Mbit/s. From 1 s on one has 20 Mbit/s and the other takes 80;
    // from 2 s on its limit is above its share: 50 each.
    let topology = star(3, 100);
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let both = [(hosts[0], hosts[2], 1 << 40), (hosts[1], hosts[2], 1 << 40)];
    let second = |s| Time::ZERO + Span::from_secs(s);
    let script = Script {
        steps: vec![
            (second(2), vec![(0, Some(70_000_000))]),
            (second(1), vec![(0, Some(20_000_000))]),
        ],
    };
    let plan = plan(topology, vec![job(0, Time::ZERO, &both)], Some(Box::new(script)), second(3));
    let outcome = run(plan, None, &mut |_| {}).unwrap();
    let mbit: Vec<f64> =
        outcome.flows.iter().map(|flow| flow.delivered.get() as f64 * 8e-6).collect();
    assert!((mbit[0] - 120.0).abs() < 1e-4, "{mbit:?}");
    assert!((mbit[1] - 180.0).abs() < 1e-4, "{mbit:?}");
}

#[test]
fn simultaneous_changes_cost_one_recomputation() {
    // 200 equal flows arrive, and end, at one instant: a recomputation after the arrival, one
    // after the end, and an event for each end.
    let topology = star(41, 100);
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let flows: Vec<_> = (0..200).map(|flow| (hosts[flow % 40], hosts[40], 1_000_000)).collect();
    let plan = plan(topology, vec![job(0, Time::ZERO, &flows)], None, Time::NEVER);
    let outcome = run(plan, None, &mut |_| {}).unwrap();
    assert!(outcome.events <= 200 + 2, "{}", outcome.events);
    let end = outcome.end.as_secs_f64();
    assert!((end - 16.0).abs() < 1e-6, "{end}");
}

#[test]
fn a_run_that_grows_beyond_its_room_stops() {
    // Each flow begins at an instant of its own, so that there are recomputations enough for a look.
    let topology = star(2, 100);
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let jobs = |count: u32| -> Vec<Job> {
        let arrival = |number: u32| Time::ZERO + Span::from_micros(u64::from(number));
        (0..count).map(|n| job(n, arrival(n), &[(hosts[0], hosts[1], 1_000_000)])).collect()
    };
    let once = |used| {
        let room = Room { most: Bytes::new(1_000_000), used };
        let plan = plan(topology.clone(), jobs(3_000), None, Time::NEVER);
        run(plan, Some(room), &mut |_| {})
    };
    let grown = once(|| Some(Bytes::new(1_000_001))).unwrap_err();
    assert!(matches!(grown, RunError::Memory { flows: 1..3_000, .. }), "{grown}");
    for part in ["flows, at 0.00", "grown to 1000001 B, above 1 MB", "--memory"] {
        assert!(grown.to_string().contains(part), "{grown}");
    }
    assert!(once(|| Some(Bytes::new(1_000_000))).is_ok());
    assert!(once(|| None).is_ok());
}

/// The same system, step by step with floating-point rates of a global filling: no classes, no
/// events, no increments.
struct Reference {
    capacities: Vec<f64>,
    flows: Vec<ReferenceFlow>,
}

struct ReferenceFlow {
    path: Vec<usize>,
    start: f64,
    left: f64,
    limits: Vec<(f64, f64)>,
    end: Option<f64>,
}

impl Reference {
    fn rates(&self, now: f64) -> Vec<f64> {
        let mut left = self.capacities.clone();
        let mut rates = vec![0.0; self.flows.len()];
        let limit = |flow: &ReferenceFlow| {
            let set = flow.limits.iter().rev().find(|(at, _)| *at <= now);
            set.map_or(f64::INFINITY, |(_, limit)| *limit)
        };
        let mut growing: Vec<usize> = (0..self.flows.len())
            .filter(|f| self.flows[*f].start <= now && self.flows[*f].end.is_none())
            .collect();
        while !growing.is_empty() {
            // The largest equal growth that no link and no limit forbids.
            let mut step = f64::INFINITY;
            for (link, room) in left.iter().enumerate() {
                let users = growing.iter().filter(|f| self.flows[**f].path.contains(&link)).count();
                if users > 0 {
                    step = step.min(room / users as f64);
                }
            }
            for &flow in &growing {
                step = step.min(limit(&self.flows[flow]) - rates[flow]);
            }
            for &flow in &growing {
                rates[flow] += step;
                for &link in &self.flows[flow].path {
                    left[link] -= step;
                }
            }
            growing.retain(|&flow| {
                let full = self.flows[flow].path.iter().any(|link| left[*link] < 1.0);
                !full && rates[flow] < limit(&self.flows[flow]) - 0.5
            });
        }
        rates
    }

    fn run(&mut self) {
        let mut now = 0.0;
        loop {
            let rates = self.rates(now);
            let mut next = f64::INFINITY;
            for (flow, rate) in self.flows.iter().zip(&rates) {
                let times = flow.limits.iter().map(|(at, _)| *at).chain([flow.start]);
                next = times.filter(|at| *at > now).fold(next, f64::min);
                if *rate > 0.0 {
                    next = next.min(now + flow.left / rate);
                }
            }
            if next == f64::INFINITY {
                break;
            }
            for (flow, rate) in self.flows.iter_mut().zip(&rates) {
                flow.left -= rate * (next - now);
                if *rate > 0.0 && flow.left < 0.5 {
                    flow.end = Some(next);
                }
            }
            now = next;
        }
    }
}

/// A random network: up to 4 switches in a line with hosts at each, cables of unequal capacity.
fn topology(capacities: &[u64], switches: usize) -> Topology {
    let mut topology = Topology::new();
    let switch: Vec<NodeId> = (0..switches)
        .map(|s| topology.add_node(format!("s{s}"), NodeKind::Switch).unwrap())
        .collect();
    let mut mbps = capacities.iter().copied().cycle();
    let mut next = || spec(mbps.next().unwrap());
    for pair in switch.windows(2) {
        topology.connect(pair[0], pair[1], next(), next()).unwrap();
    }
    for host in 0..6 {
        let node = topology.add_node(format!("h{host}"), NodeKind::Host).unwrap();
        topology.connect(node, switch[host % switches], next(), next()).unwrap();
    }
    topology
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Incremental, in classes and in integers, equals the global filling of every flow, whatever
    /// arrives and whatever is limited; and equal runs are equal.
    #[test]
    fn runs_equal_a_global_filling(
        capacities in prop::collection::vec(1u64..40, 1..12),
        switches in 1usize..5,
        flows in prop::collection::vec((0usize..6, 1usize..6, 1u64..3_000_000, 0u64..4), 1..25),
        limits in prop::collection::vec((1u64..6, 0usize..25, 100_000u64..9_000_000), 0..20),
    ) {
        let built = topology(&capacities, switches);
        let network = Network::new(built.clone());
        let hosts: Vec<NodeId> = built.hosts().collect();
        let mut sorted = flows;
        sorted.sort_by_key(|flow| flow.3);
        let time = |half: u64| Time::ZERO + Span::from_millis(500 * half);
        let mut jobs = Vec::new();
        let mut reference = Reference {
            capacities: built.links().iter().map(|l| l.spec.capacity.as_bps() as f64).collect(),
            flows: Vec::new(),
        };
        for (number, &(src, step, size, at)) in (0u32..).zip(&sorted) {
            let (src, dst) = (hosts[src], hosts[(src + step) % 6]);
            jobs.push(job(number, time(at), &[(src, dst, size)]));
            let mut path: Vec<LinkId> = Vec::new();
            prop_assert!(network.path(src, dst, u64::from(number), &mut path));
            reference.flows.push(ReferenceFlow {
                path: path.iter().map(|link| link.index()).collect(),
                start: at as f64 / 2.0,
                left: size as f64 * 8.0,
                limits: Vec::new(),
                end: None,
            });
        }
        // Limits come between the arrivals, some to one flow again.
        let mut steps = Vec::new();
        let mut ordered = limits;
        ordered.sort();
        for &(at, flow, bps) in &ordered {
            let flow = flow % sorted.len();
            let at_ms = at * 500 + 250;
            steps.push((Time::ZERO + Span::from_millis(at_ms), vec![(flow as u32, Some(bps))]));
            if reference.flows[flow].start * 1000.0 <= at_ms as f64 {
                reference.flows[flow].limits.push((at_ms as f64 / 1000.0, bps as f64));
            }
        }
        steps.reverse();
        let once = || {
            let script = Script { steps: steps.clone() };
            run(plan(built.clone(), jobs.clone(), Some(Box::new(script)), Time::NEVER), None, &mut |_| {})
        };
        let outcome = once().unwrap();
        reference.run();
        for (ours, theirs) in outcome.flows.iter().zip(&reference.flows) {
            let (ours, theirs) = (seconds(ours.end), theirs.end.unwrap());
            prop_assert!((ours - theirs).abs() < 1e-5 * theirs.max(1.0), "{ours} {theirs}");
        }
        let again = once().unwrap();
        prop_assert_eq!(&outcome.flows, &again.flows);
        prop_assert_eq!(&outcome.links, &again.links);
        prop_assert_eq!(outcome.events, again.events);
    }
}

/// Policies that give rates to flows with sizes.
const DIVIDING: [&str; 10] =
    ["fair", "fifo", "sff", "smsf", "sebf", "bssf", "srb", "dclas", "fifo-lm", "srpt"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Policies divide links to the last bit, beside flows that have no limit: every run ends, audited.
    #[test]
    fn runs_end_under_every_policy(
        jobs in prop::collection::vec(
            prop::collection::vec((0u32..6, 1u32..6, 1u64..60), 1..8), 1..6
        ),
        arrivals in prop::collection::vec(0u64..8, 6),
    ) {
        let access = testing::network::access(spec(12));
        let topology = model::build::dumbbell(3, 3, &access, &spec(24)).unwrap();
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let mut arrivals = arrivals;
        arrivals.sort_unstable();
        let host = |number: u32| hosts[number as usize % 6];
        let jobs: Vec<Job> = (0u32..)
            .zip(jobs.iter().zip(&arrivals))
            .map(|(number, (flows, at))| {
                let flow = |&(src, step, size): &(u32, u32, u64)| {
                    (host(src), host(src + step), size * 100_000)
                };
                let flows: Vec<_> = flows.iter().map(flow).collect();
                job(number, Time::ZERO + Span::from_millis(250 * at), &flows)
            })
            .collect();
        for name in DIVIDING {
            let policy: Box<dyn Policy> =
                policy::by_name(name, &policy::Parameters::default()).unwrap();
            let mut plan = plan(topology.clone(), jobs.clone(), Some(policy), Time::NEVER);
            // Flows begin before they are told what to do.
            plan.control_delay = Span::from_millis(1);
            let outcome = run(plan, None, &mut |_| {});
            prop_assert!(outcome.is_ok(), "{}: {}", name, outcome.unwrap_err());
            let outcome = outcome.unwrap();
            prop_assert!(outcome.flows.iter().all(|flow| flow.end.is_some()), "{}", name);
        }
    }
}
