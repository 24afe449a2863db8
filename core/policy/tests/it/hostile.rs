//! Nothing that an application can say makes a policy panic, loop, or keep memory for a job that
//! has completed or a connection that closed; and equal messages give equal directives.

#![allow(clippy::unwrap_used)] // a test may panic

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::desk::*;
use model::{
    Cap, Declared, Directive, Directives, FlowId, JobId, LEAST_RATE, LinkId, Measured, Network,
    NodeId, Observation, Request, Sample, Severity, StreamSample, TaskId, Terms,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use units::{Bytes, Rate, Span, Time};
use watermaster_policy::{Aim, NAMES, Objective, Parameters, Policy, Share, by_name, find};

/// The system's allocator, counting what each thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get() + isize::try_from(layout.size()).unwrap_or(0));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - isize::try_from(layout.size()).unwrap_or(0));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const JOBS: u32 = 4;

/// The defaults; an arbiter has objectives of some of the applications.
fn parameters(policy: &str) -> Parameters {
    let parameters = Parameters::default();
    if policy != "arbiter" {
        return parameters;
    }
    let (most, span) = (Share::literal(500_000), Span::from_millis(50));
    let objective = |name: &str, policy, aim| {
        let (policy, parameters) = (find(policy).unwrap(), Parameters::default());
        let applications = vec![name.into(), "c".into()];
        Objective { name: name.into(), applications, policy, parameters, aim }
    };
    parameters.under(vec![
        objective("a", "app-aware-fast", Aim::Latency { target: span, most }),
        objective("b", "smsf", Aim::Deadline { within: span * 200, most }),
    ])
}

/// Any message at all, with few enough numbers that they collide; jobs and flows from `base` on.
fn message(base: u32) -> impl Strategy<Value = Observation> {
    let job = move || (base..=base + JOBS).prop_map(JobId);
    let flow = move || (base..base + 12).prop_map(FlowId);
    let task = || (0..5u32).prop_map(TaskId);
    let node = || prop_oneof![9 => 0..7u32, 1 => Just(u32::MAX)].prop_map(NodeId);
    let bytes = || prop_oneof![3 => 0..100u64, 1 => Just(u64::MAX)].prop_map(Bytes::new);
    prop_oneof![
        2 => (job(), prop::sample::select(vec!["a", "b", "c"])).prop_map(|(job, application)| {
            Declared::JobStart { job, application: application.into() }.into()
        }),
        1 => job().prop_map(|job| Declared::JobComplete { job }.into()),
        1 => (job(), prop::sample::select(vec![None, Some("a"), Some("b"), Some("c")]), any::<Option<u64>>(), 0..3u32)
            .prop_map(|(job, objective, deadline, weight)| {
                let (objective, deadline) = (objective.map(Into::into), deadline.map(Span::from_nanos));
                Declared::JobTerms { job, terms: Terms { objective, deadline, weight } }.into()
            }),
        2 => (job(), task(), node())
            .prop_map(|(job, task, host)| Declared::TaskHost { job, task, host }.into()),
        2 => (job(), task(), prop::collection::vec((task(), bytes()), 0..5))
            .prop_map(|(job, map, reduces)| Declared::Size { job, map, reduces }.into()),
        6 => (job(), flow(), node(), node(), bytes()).prop_map(|(job, flow, src, dst, size)| {
            Declared::FlowRequest { job, flow, src, dst, size }.into()
        }),
        4 => (job(), flow()).prop_map(|(job, flow)| Declared::FlowComplete { job, flow }.into()),
        4 => (any::<bool>(), prop::collection::vec((flow(), bytes(), bytes(), bytes()), 0..6))
            .prop_map(|(measured, samples)| {
                let sample = |(flow, delivered, sender_queue, receiver_queue)| {
                    StreamSample { flow, delivered, sender_queue, receiver_queue }
                };
                let samples = samples.into_iter().map(sample).collect();
                if measured {
                    Measured::Streams(samples).into()
                } else {
                    Declared::Streams(samples).into()
                }
            }),
        2 => prop::collection::vec((0..20u32, bytes()), 0..6).prop_map(|ports| {
            let ports = ports.into_iter().map(|(link, sent)| (LinkId(link), sent));
            Measured::Ports(ports.collect()).into()
        }),
        1 => prop::collection::vec((flow(), bytes()), 0..6)
            .prop_map(|flows| Measured::Delivered(flows).into()),
        1 => (0..20u32, any::<bool>())
            .prop_map(|(link, up)| Measured::LinkState { link: LinkId(link), up }.into()),
        1 => prop::collection::vec((0..20u32).prop_map(LinkId), 0..4)
            .prop_map(|links| Measured::Capacity(links).into()),
        6 => measured(base),
        4 => gathering(base),
    ]
}

/// What front ends can say.
fn gathering(base: u32) -> impl Strategy<Value = Observation> {
    let job = move || (base..=base + JOBS).prop_map(JobId);
    let node = || prop_oneof![9 => 0..7u32, 1 => Just(u32::MAX)].prop_map(NodeId);
    let bytes = || prop_oneof![3 => 0..100u64, 1 => Just(u64::MAX)].prop_map(Bytes::new);
    prop_oneof![
        2 => (job(), node(), prop::collection::vec(0..9u32, 0..6), prop::collection::vec(node(), 0..14))
            .prop_map(|(id, front, sizes, holders)| {
                let copies = holders.len() / sizes.len().max(1);
                let spare = holders.iter().map(|holder| (*holder, Rate::from_bps(9))).collect();
                let request = Request { id, front, sizes, holders, copies, spare };
                Declared::Gather(Arc::new(request)).into()
            }),
        2 => (job(), prop::collection::vec(0..7u32, 0..6), prop::collection::vec(bytes(), 0..6), bytes())
            .prop_map(|(request, arrived, received, queued)| {
                let (span, buffer) = (Span::from_millis(10), Bytes::new(50));
                let sample = Sample { span, arrived, received, queued, buffer };
                Measured::Gathering { request, sample: Arc::new(sample) }.into()
            }),
        2 => (job(), any::<bool>(), any::<u64>())
            .prop_map(|(request, late, took)| {
                Measured::Answered { request, late, took: Span::from_nanos(took) }.into()
            }),
        1 => (job(), 0..4u32).prop_map(|(request, hub)| Measured::HubLost { request, hub }.into()),
    ]
}

/// What hosts report of their pairs' queues, a few packets at most: each may take a timeslot.
fn pairs() -> impl Strategy<Value = Observation> {
    let node = || prop_oneof![9 => 0..7u32, 1 => Just(u32::MAX)].prop_map(NodeId);
    let number = || prop_oneof![3 => 0..100u64, 1 => Just(u64::MAX)];
    prop_oneof![
        (node(), node(), 0..30u32, number()).prop_map(|(src, dst, packets, bytes)| {
            Measured::Queued { src, dst, packets, bytes: Bytes::new(bytes) }.into()
        }),
        (node(), node()).prop_map(|(src, dst)| Measured::Drained { src, dst }.into()),
        (node(), node(), number()).prop_map(|(src, dst, rate)| {
            Measured::Offered { src, dst, rate: Rate::from_bps(rate) }.into()
        }),
    ]
}

/// Anything that switches can report.
fn measured(base: u32) -> impl Strategy<Value = Observation> {
    use Severity::{High, Low, Medium, Recovered};
    let flow = move || (base..base + 12).prop_map(FlowId);
    let node = || prop_oneof![9 => 0..7u32, 1 => Just(u32::MAX)].prop_map(NodeId);
    let link = || prop_oneof![9 => 0..20u32, 1 => Just(u32::MAX)].prop_map(LinkId);
    let bytes = || prop_oneof![3 => 0..9_000_000u64, 1 => Just(u64::MAX)].prop_map(Bytes::new);
    let level = || prop::sample::select(vec![Recovered, Low, Medium, High]);
    prop_oneof![
        4 => (flow(), node(), node())
            .prop_map(|(flow, src, dst)| Measured::Opened { flow, src, dst }),
        2 => flow().prop_map(|flow| Measured::Closed { flow }),
        2 => prop::collection::vec((flow(), bytes()), 0..9)
            .prop_map(|flows| Measured::Carried { flows }),
        1 => prop::collection::vec((flow(), bytes()), 0..9).prop_map(|flows| {
            let timed = flows.into_iter().map(|(flow, took)| (flow, Span::from_nanos(took.get())));
            Measured::RoundTrips(timed.collect())
        }),
        2 => (link(), level(), bytes())
            .prop_map(|(link, level, queue)| Measured::Congested { link, severity: level, queue }),
        2 => (link(), bytes(), bytes())
            .prop_map(|(link, queue, sent)| Measured::QueueLength { link, queue, sent }),
    ]
    .prop_map(Observation::Measured)
}

/// Tells `policy` everything, ticking when it asks to; returns what it said. Links that have another capacity have one
/// that follows from the place of the message.
fn play(
    policy: &mut dyn Policy,
    mut network: Network,
    messages: &[Observation],
    start: Time,
) -> Directives {
    let mut out = Directives::new();
    let mut now = start;
    for (place, message) in (0..).zip(messages) {
        match message {
            Observation::Measured(Measured::LinkState { link, up }) => network.set_up(*link, *up),
            Observation::Measured(Measured::Capacity(links)) => {
                let capacity = Rate::from_mbps(1 + place * 37 % 300);
                links.iter().for_each(|link| network.set_capacity(*link, capacity));
            }
            _ => {}
        }
        tell(policy, now, &network, message, &mut out);
        now += Span::from_secs(7);
        while let Some(deadline) = policy.deadline().filter(|deadline| *deadline <= now) {
            tell(policy, deadline, &network, &Observation::Tick, &mut out);
            assert!(policy.deadline().is_none_or(|next| next > deadline), "no progress");
        }
    }
    out
}

proptest! {
    #[test]
    fn any_messages_in_any_order(
        name in prop::sample::select(NAMES.to_vec()),
        network in any_network(),
        messages in prop::collection::vec(prop_oneof![2 => message(0), 1 => pairs()], 0..200),
    ) {
        let policy = find(name).unwrap();
        let make = || policy.build(&parameters(name)).unwrap();
        let said = play(&mut *make(), network.clone(), &messages, Time::ZERO);
        let none = |d: &Directive| matches!(d,
            Directive::Pace { limit: Some(Rate::ZERO), .. }
                | Directive::PacePair { rate: Rate::ZERO, .. }
                | Directive::Window { cap: Some(Cap { bytes: Bytes::ZERO, .. }), .. });
        prop_assert!(!said.iter().any(none), "{name} stops a flow");
        let untold = said.iter().find(|directive| !policy.says((*directive).into()));
        prop_assert!(untold.is_none(), "{name} doesn't say of itself that it gives {untold:?}");
        prop_assert_eq!(said, play(&mut *make(), network, &messages, Time::ZERO));
    }
}

const FLOWS: u32 = 16;

/// What is said of flows that always have the same job and ends, late, twice, or never.
fn orderly() -> impl Strategy<Value = (u64, u32, u32, u64)> {
    (0..3_000u64, 0..6u32, 0..FLOWS, prop_oneof![1..1_000_000_000u64, Just(0), Just(u64::MAX)])
}

proptest! {
    /// Whatever is said in whatever order: after each division all rates together exceed no link,
    /// and every flow that is in the network has at least the floor; one of a job older than the
    /// guard's threshold, at least its ration.
    #[test]
    fn rates_keep_to_the_links_and_nobody_starves(
        name in prop::sample::select(allocators()),
        network in any_network(),
        story in prop::collection::vec(orderly(), 0..120),
    ) {
        let topology = network.topology();
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let slowest = topology.links().iter().map(|link| link.spec.capacity).min().unwrap();
        let mut desk = Desk::new(network.clone(), by_name(name, &Parameters::default()).unwrap());
        let ends = |flow: u32| {
            let (count, flow) = (hosts.len(), flow as usize);
            let src = flow % count;
            (hosts[src], hosts[(src + 1 + flow / count % (count - 1).max(1)) % count])
        };
        let mut present: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut submitted: BTreeMap<u32, Time> = BTreeMap::new();
        let mut now = Time::ZERO;
        for (wait_ms, what, flow, bytes) in story {
            now += Span::from_millis(wait_ms);
            let job = flow % 3;
            let (src, dst) = ends(flow);
            match what {
                0 => {
                    desk.settle(now, job_start(job));
                    submitted.entry(job).or_insert(now);
                    present.entry(job).or_default();
                }
                1..=3 => {
                    desk.settle(now, request(job, flow, src, dst, bytes));
                    if let Some(flows) = present.get_mut(&job) {
                        flows.insert(flow);
                    }
                }
                4 => {
                    desk.settle(now, flow_complete(job, flow));
                    if present.get_mut(&job).is_some_and(|flows| flows.remove(&flow)) {
                        desk.limits.remove(&FlowId(flow));
                    }
                }
                _ if bytes % 2 == 0 => {
                    desk.settle(now, job_complete(job));
                    submitted.remove(&job);
                    for flow in present.remove(&job).unwrap_or_default() {
                        prop_assert!(!desk.is_slow(flow), "{flow} stays limited");
                    }
                }
                _ => desk.settle(now, Measured::Delivered(vec![(FlowId(flow), Bytes::new(bytes))])),
            }
            let mut loads: BTreeMap<LinkId, u64> = BTreeMap::new();
            let known: BTreeSet<u32> = present.values().flatten().copied().collect();
            for (flow, rate) in &desk.limits {
                prop_assert!(known.contains(&flow.0), "{name} paces {flow:?}, which is gone");
                for link in path(&network, flow.0, ends(flow.0).0, ends(flow.0).1) {
                    *loads.entry(link).or_default() += rate.as_bps();
                }
            }
            for (link, load) in loads {
                let capacity = topology.link(link).spec.capacity;
                prop_assert!(load <= capacity.as_bps(), "{name}: {load} on {link:?} of {capacity}");
            }
            for (job, flows) in &present {
                let is_old = name == "srb" && now.since(submitted[job]) > Span::from_secs(100);
                // 1 % of a link, by at most 16 flows.
                let least = if is_old { slowest.fraction(1, 1_600) } else { LEAST_RATE };
                for flow in flows {
                    let rate = desk.limits.get(&FlowId(*flow)).copied().unwrap_or_default();
                    prop_assert!(rate >= least, "{name}: {rate} for {flow}");
                }
            }
        }
    }
}

/// The same story round after round with new numbers. Only the first two may leave something,
/// which doesn't depend on jobs: the table of links, and a node in each tree that was ever used.
#[test]
fn no_memory_is_kept_for_jobs_that_completed() {
    for name in NAMES {
        let mut policy = by_name(name, &parameters(name)).unwrap();
        for round in 0..4 {
            let base = round * 100;
            let messages = prop::collection::vec(message(base), 300);
            let mut runner = TestRunner::deterministic();
            let mut messages = messages.new_tree(&mut runner).unwrap().current();
            messages.extend((base..=base + JOBS).map(job_complete));
            let closed = |flow| Measured::Closed { flow: FlowId(flow) }.into();
            messages.extend((base..base + 12).map(closed));
            let before = HELD.get();
            play(&mut *policy, big_switch(6, Rate::from_mbps(100)), &messages, Time::ZERO);
            let kept = HELD.get() - before;
            assert!(round < 2 || kept == 0, "{name} keeps {kept} B of round {round}");
        }
    }
}

/// Backlogs beyond all measure are counted as the largest that there is.
#[test]
fn endless_queues() {
    let network = big_switch(3, Rate::from_mbps(100));
    let (src, dst) = (host(&network, 0), host(&network, 1));
    let queued = Measured::Queued { src, dst, packets: u32::MAX, bytes: Bytes::new(u64::MAX) };
    for order in ["ocf", "srjf", "mmf"] {
        let parameters = Parameters::default().with("order", order).with("batch", 64u32);
        let mut policy = by_name("syn", &parameters).unwrap();
        let mut out = Directives::new();
        tell(&mut *policy, Time::ZERO, &network, &queued.clone().into(), &mut out);
        tell(&mut *policy, Time::ZERO, &network, &Observation::Tick, &mut out);
        let before = HELD.get();
        for _ in 0..100_000 {
            tell(&mut *policy, Time::ZERO, &network, &queued.clone().into(), &mut out);
        }
        let kept = HELD.get() - before;
        assert!(kept < 1 << 18, "{order} keeps {kept} B");
        assert_eq!(out.len(), 64);
    }
}

/// Time may stand at its end, or run backwards.
#[test]
fn the_end_of_time() {
    let policy = &mut *by_name("smsf", &Parameters::default()).unwrap();
    let network = big_switch(3, Rate::from_mbps(100));
    let (a, b) = (host(&network, 0), host(&network, 1));
    let messages = [job_start(0), job_start(1), request(0, 0, a, b, 1), request(1, 1, a, b, 1)];
    play(policy, network.clone(), &messages, Time::NEVER);
    assert_eq!(policy.deadline(), None, "there is no later check");
    play(policy, network, &messages, Time::ZERO);
}
