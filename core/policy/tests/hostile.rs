//! Nothing that an application can say makes a policy panic, loop, or keep memory for a job that
//! has completed; and equal messages give equal directives.

#![allow(clippy::unwrap_used)] // a test may panic

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use model::{
    Declared, Directives, FlowId, JobId, LinkId, Measured, NodeId, Observation, StreamSample,
    TaskId,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use support::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_policy::syn::{self, Order};
use watermaster_policy::{NAMES, Parameters, Policy, by_name};

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

/// Any message at all, with few enough numbers that they collide; jobs and flows from `base` on.
fn message(base: u32) -> impl Strategy<Value = Observation> {
    let job = move || (base..=base + JOBS).prop_map(JobId);
    let flow = move || (base..base + 12).prop_map(FlowId);
    let task = || (0..5u32).prop_map(TaskId);
    let node = || prop_oneof![9 => 0..7u32, 1 => Just(u32::MAX)].prop_map(NodeId);
    let bytes = || prop_oneof![3 => 0..100u64, 1 => Just(u64::MAX)].prop_map(Bytes::new);
    prop_oneof![
        2 => job().prop_map(|job| Declared::JobStart { job }.into()),
        1 => job().prop_map(|job| Declared::JobComplete { job }.into()),
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
        1 => prop::collection::vec((0..20u32, any::<u64>()), 0..6).prop_map(|links| {
            let links = links.into_iter().map(|(link, rate)| (LinkId(link), Rate::from_bps(rate)));
            Measured::CrossTraffic(links.collect()).into()
        }),
        1 => (0..20u32, any::<bool>())
            .prop_map(|(link, up)| Measured::LinkState { link: LinkId(link), up }.into()),
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

/// Tells `policy` everything, ticking when it asks to; returns what it said.
fn play(policy: &mut dyn Policy, messages: &[Observation], start: Time) -> Directives {
    let mut network = big_switch(6, Rate::from_mbps(100));
    let mut out = Directives::new();
    let mut now = start;
    for message in messages {
        if let Observation::Measured(Measured::LinkState { link, up }) = message {
            network.set_up(*link, *up);
        }
        policy.observe(now, &network, message, &mut out);
        now += Span::from_secs(7);
        while let Some(deadline) = policy.deadline().filter(|deadline| *deadline <= now) {
            policy.tick(deadline, &network, &mut out);
            assert!(policy.deadline().is_none_or(|next| next > deadline), "no progress");
        }
    }
    out
}

proptest! {
    #[test]
    fn any_messages_in_any_order(
        name in prop::sample::select(NAMES.to_vec()),
        messages in prop::collection::vec(prop_oneof![2 => message(0), 1 => pairs()], 0..200),
    ) {
        let make = || by_name(name, &Parameters::default()).unwrap();
        let said = play(&mut *make(), &messages, Time::ZERO);
        prop_assert_eq!(said, play(&mut *make(), &messages, Time::ZERO));
    }
}

/// The same story round after round with new numbers. Only the first may leave something, which
/// doesn't depend on jobs: the table of links, and a node in each tree that was ever used.
#[test]
fn no_memory_is_kept_for_jobs_that_completed() {
    for name in NAMES {
        let mut policy = by_name(name, &Parameters::default()).unwrap();
        for round in 0..4 {
            let base = round * 100;
            let messages = prop::collection::vec(message(base), 1000);
            let mut runner = TestRunner::deterministic();
            let mut messages = messages.new_tree(&mut runner).unwrap().current();
            messages.extend((base..=base + JOBS).map(job_complete));
            let before = HELD.get();
            play(&mut *policy, &messages, Time::ZERO);
            let kept = HELD.get() - before;
            assert!(round == 0 || kept == 0, "{name} keeps {kept} B of round {round}");
        }
    }
}

/// Backlogs beyond all measure are counted as the largest that there is.
#[test]
fn endless_queues() {
    let network = big_switch(3, Rate::from_mbps(100));
    let (src, dst) = (host(&network, 0), host(&network, 1));
    let queued = Measured::Queued { src, dst, packets: u32::MAX, bytes: Bytes::new(u64::MAX) };
    for order in [Order::Ocf, Order::Srjf, Order::Mmf] {
        let syn = syn::Parameters { order, batch: 64, ..syn::Parameters::default() };
        let mut policy = by_name("syn", &Parameters { syn, ..Parameters::default() }).unwrap();
        let mut out = Directives::new();
        policy.observe(Time::ZERO, &network, &queued.clone().into(), &mut out);
        policy.tick(Time::ZERO, &network, &mut out);
        let before = HELD.get();
        for _ in 0..100_000 {
            policy.observe(Time::ZERO, &network, &queued.clone().into(), &mut out);
        }
        let kept = HELD.get() - before;
        assert!(kept < 1 << 18, "{order:?} keeps {kept} B");
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
    play(policy, &messages, Time::NEVER);
    assert_eq!(policy.deadline(), None, "there is no later check");
    play(policy, &messages, Time::ZERO);
}
