//! `app-aware` and its variant over whole networks: by hand, and by what must hold whatever is told.

#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeMap;

use crate::desk::*;
use model::build::leaf_spine;
use model::{
    Declared, Directive, Directives, FlowId, JobId, LEAST_RATE, LinkId, Measured, Network,
    Observation, StreamSample,
};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_policy::{Parameters, Policy, Share, by_name};

fn sample(flow: u32, delivered: u64, sender: u64, receiver: u64) -> StreamSample {
    StreamSample {
        flow: FlowId(flow),
        delivered: Bytes::new(delivered),
        sender_queue: Bytes::new(sender),
        receiver_queue: Bytes::new(receiver),
    }
}

fn declared(samples: &[StreamSample]) -> Observation {
    Declared::Streams(samples.to_vec()).into()
}

fn seconds(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

/// A policy over a big switch of 10 Mbit/s with streams between the hosts given, sampled at zero.
struct Case {
    network: Network,
    policy: Box<dyn Policy + Send>,
    limits: BTreeMap<FlowId, Option<Rate>>,
}

impl Case {
    fn new(name: &str, streams: &[(u32, u32)]) -> Self {
        Self::with(name, &Parameters::default(), streams)
    }

    fn with(name: &str, parameters: &Parameters, streams: &[(u32, u32)]) -> Self {
        let network = big_switch(8, Rate::from_mbps(10));
        let mut case = Self::over(network, name, parameters, streams);
        let first: Vec<_> = (0..).zip(streams).map(|(flow, _)| sample(flow, 0, 0, 0)).collect();
        case.tell(0, &declared(&first));
        case
    }

    /// Over another network; nothing is sampled.
    fn over(network: Network, name: &str, parameters: &Parameters, streams: &[(u32, u32)]) -> Self {
        let policy = by_name(name, parameters).unwrap();
        let mut case = Self { network, policy, limits: BTreeMap::new() };
        case.tell(0, &job_start(0));
        for (flow, (src, dst)) in (0..).zip(streams) {
            let (src, dst) = (host(&case.network, *src), host(&case.network, *dst));
            case.tell(0, &request(0, flow, src, dst, u64::MAX));
        }
        case
    }

    fn tell(&mut self, at: u64, observation: &Observation) {
        let mut out = Directives::new();
        tell(&mut *self.policy, seconds(at), &self.network, observation, &mut out);
        self.obey(&out);
    }

    fn tick(&mut self) {
        let mut out = Directives::new();
        let due = self.policy.deadline().unwrap();
        tell(&mut *self.policy, due, &self.network, &Observation::Tick, &mut out);
        self.obey(&out);
    }

    fn obey(&mut self, directives: &Directives) {
        for directive in directives {
            if let Directive::Pace { flow, limit, .. } = directive {
                self.limits.insert(*flow, *limit);
            }
        }
    }

    fn mbps(&self, flow: u32) -> f64 {
        self.limits
            .get(&FlowId(flow))
            .copied()
            .flatten()
            .map_or(f64::NAN, |rate| rate.as_bps() as f64 / 1e6)
    }
}

fn near(ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() < 0.01 * theirs
}

/// Section IV-B, problem (3). TCP gave two streams from one host 3 MB each in 5 s; 3 MB more of the
/// first wait, which generates twice as much: D is 9 and 3 MB, rates 7.5 and 2.5 Mbit/s.
#[test]
fn a_fork_follows_demand() {
    let mut case = Case::new("app-aware", &[(0, 1), (0, 2)]);
    assert_eq!(case.policy.deadline(), Some(seconds(5)));
    case.tell(5, &declared(&[sample(0, 3_000_000, 3_000_000, 0), sample(1, 3_000_000, 0, 0)]));
    case.tick();
    assert!(near(case.mbps(0), 7.5) && near(case.mbps(1), 2.5), "{:?}", case.limits);
    assert_eq!(case.policy.deadline(), Some(seconds(10)), "every Δt");
}

/// The same, but queues are to drain within a second: 9.6 + 24 Mbit/s against 4.8.
#[test]
fn a_fork_heeds_the_horizon() {
    let parameters = Parameters::default().with("horizon", Span::from_secs(1));
    let mut case = Case::with("app-aware", &parameters, &[(0, 1), (0, 2)]);
    case.tell(5, &declared(&[sample(0, 3_000_000, 3_000_000, 0), sample(1, 3_000_000, 0, 0)]));
    case.tick();
    assert!(near(case.mbps(0), 8.75) && near(case.mbps(1), 1.25), "{:?}", case.limits);
}

/// Samples that were held up come together, and nothing after them: what they say of the moment between
/// them is no interval.
#[test]
fn a_moment_is_no_interval() {
    let mut case = Case::new("app-aware", &[(0, 1), (0, 2)]);
    let full = |of: u64| declared(&[sample(0, 3 * of, 3_000_000, 0), sample(1, 3 * of, 0, 0)]);
    case.tell(5, &full(1_000_000));
    case.tick();
    let limits = case.limits.clone();
    let mut out = Directives::new();
    let soon = seconds(5) + Span::from_millis(1);
    tell(&mut *case.policy, soon, &case.network, &full(1_000_000), &mut out);
    case.tick();
    assert_eq!(case.limits, limits);
    case.tell(15, &full(3_000_000));
    case.tick();
    assert!(near(case.mbps(0), 6.667) && near(case.mbps(1), 3.333), "{:?}", case.limits);
}

/// Problem (4). A join consumed 2 MB of one stream and 1 MB of another, and 2 MB of the other wait:
/// over 5 s the level is (2 + 6.25) / 3 of what it consumed, or 5.5 and 0.75 MB: 8.8 and 1.2 Mbit/s.
#[test]
fn a_join_follows_the_scarcer_side() {
    let mut case = Case::new("app-aware", &[(0, 2), (1, 2)]);
    let (mb, waiting) = (1_000_000, 4_000_000);
    case.tell(5, &declared(&[sample(0, 2 * mb, waiting, 0), sample(1, 3 * mb, waiting, 2 * mb)]));
    case.tick();
    assert!(near(case.mbps(0), 8.8) && near(case.mbps(1), 1.2), "{:?}", case.limits);
}

/// Algorithm 1, line 21, and section VI-C: a stream held to less by the far link leaves the rest of
/// the near one to the others. Streams 0 and 1 leave host 0, streams 1 and 2 reach host 2. The fork
/// gives 5 and 5, the join, which consumed 2 and 6 MB, 2.5 to stream 1 and 7.5 to stream 2;
/// backfilling hands the 2.5 that stream 1 leaves at the fork to stream 0.
#[test]
fn what_is_left_goes_to_the_others() {
    let mut case = Case::new("app-aware", &[(0, 1), (0, 2), (3, 2)]);
    let (mb, waiting) = (1_000_000, 10_000_000);
    case.tell(
        5,
        &declared(&[
            sample(0, 2 * mb, waiting, 0),
            sample(1, 2 * mb, waiting, 0),
            sample(2, 6 * mb, waiting, 0),
        ]),
    );
    case.tick();
    let ours = [0, 1, 2].map(|flow| case.mbps(flow));
    assert!(near(ours[0], 7.5) && near(ours[1], 2.5) && near(ours[2], 7.5), "{ours:?}");
}

/// Links that carry what they are asked to are left alone, and limits are lifted when they do.
#[test]
fn only_bottlenecks_are_divided() {
    let mut case = Case::new("app-aware", &[(0, 1), (0, 2)]);
    case.tell(5, &declared(&[sample(0, 2_000_000, 0, 0), sample(1, 1_000_000, 0, 0)]));
    case.tick();
    assert!(case.limits.is_empty(), "4.8 of 10 Mbit/s are asked for");
    case.tell(10, &declared(&[sample(0, 6_000_000, 1_000_000, 0), sample(1, 3_000_000, 0, 0)]));
    case.tick();
    assert_eq!(case.limits.values().flatten().count(), 2);
    case.tell(15, &declared(&[sample(0, 7_000_000, 0, 0), sample(1, 4_000_000, 0, 0)]));
    case.tick();
    assert!(case.limits.values().all(Option::is_none), "{:?}", case.limits);
}

/// A stream whose receiver is cut off takes nothing of the fork, and takes its part again afterwards.
#[test]
fn paths_follow_the_links() {
    let mut case = Case::new("app-aware", &[(0, 1), (0, 2)]);
    let downlink = path(&case.network, 1, host(&case.network, 0), host(&case.network, 2))[1];
    let sent = |n: u64| declared(&[sample(0, n * 9_000_000, 0, 0), sample(1, n * 3_000_000, 0, 0)]);
    for (n, up, rates) in
        [(1, true, (7.5, 2.5)), (2, false, (10.0, f64::NAN)), (3, true, (7.5, 2.5))]
    {
        case.network.set_up(downlink, up);
        case.tell(n * 5, &Measured::LinkState { link: downlink, up }.into());
        case.tell(n * 5, &sent(n));
        case.tick();
        let ours = (case.mbps(0), case.mbps(1));
        let is_free = rates.1.is_nan() && ours.1.is_nan();
        assert!(near(ours.0, rates.0) && (is_free || near(ours.1, rates.1)), "{n}: {ours:?}");
    }
}

/// Of 50 streams on a link one sends. A twentieth of an even share is 10 kbit/s, less than a flow can
/// be held to.
#[test]
fn no_stream_of_many_is_held_below_the_least_rate() {
    for name in ["app-aware", "app-aware-fast"] {
        let mut case = Case::new(name, &[(0, 1); 50]);
        let sent = |flow| sample(flow, if flow == 0 { 9_000_000 } else { 0 }, 0, 0);
        case.tell(5, &declared(&(0..50).map(sent).collect::<Vec<_>>()));
        case.tick();
        assert!(near(case.mbps(0), 9.412), "{name}: {:?}", case.limits);
        let idle: Vec<_> = case.limits.values().skip(1).collect();
        assert_eq!(idle, [&Some(LEAST_RATE); 49], "{name}");
        let sum: u64 = case.limits.values().flatten().map(|limit| limit.as_bps()).sum();
        assert!(sum <= 10_000_000, "{name}: {sum}");
    }
}

/// Of what two streams bring to a receiver one is a hundredth: it has that part, and no floor, as it
/// shows what it needs. The variant's floor is for all.
#[test]
fn the_floor_is_for_streams_that_show_no_need() {
    for (name, small) in [("app-aware", 0.1), ("app-aware-fast", 0.25)] {
        let mut case = Case::new(name, &[(0, 2), (1, 2)]);
        let samples = [sample(0, 9_900_000, 0, 0), sample(1, 100_000, 0, 0)];
        case.tell(5, &declared(&samples));
        case.tick();
        assert!(near(case.mbps(1), small), "{name}: {:?}", case.limits);
    }
}

/// Two streams from a host whose uplink carries other traffic too. Streams send what they are let; the link
/// carries no more than 10 Mbit/s, and others go first. Senders are sampled at full seconds, ports read by
/// the policy's own measure, each `late` behind.
struct Shared {
    case: Case,
    uplink: LinkId,
    back: LinkId,
    now: Time,
    /// Payload of the streams, and frames of the links there and back.
    delivered: [u64; 2],
    frames: [u64; 2],
}

impl Shared {
    const STEP: Span = Span::from_millis(50);

    fn new(name: &str) -> Self {
        let parameters = Parameters::default().with("cross", true);
        let case = Case::with(name, &parameters, &[(0, 1), (0, 2)]);
        let ends = (host(&case.network, 0), host(&case.network, 1));
        let uplink = path(&case.network, 0, ends.0, ends.1)[0];
        let back = path(&case.network, 0, ends.1, ends.0)[1];
        Self { case, uplink, back, now: Time::ZERO, delivered: [0; 2], frames: [0; 2] }
    }

    /// Has others send `others` until `end`, and a part of what is sent, in percent, sent again.
    fn run(&mut self, end: u64, others: u64, again: u64, late: Span) {
        let every = self.case.policy.ports().unwrap();
        while self.now < seconds(end) {
            self.now += Self::STEP;
            let room = Rate::from_mbps(10 - others).bytes_in(Self::STEP).get();
            let limit = |flow: u32| self.case.limits.get(&FlowId(flow)).copied().flatten();
            let want = [0, 1]
                .map(|flow| limit(flow).unwrap_or(Rate::from_mbps(8)).bytes_in(Self::STEP).get());
            let sum: u64 = want.iter().sum();
            let mut sent = 0;
            for (flow, want) in want.into_iter().enumerate() {
                let frames = if sum > room { want * room / sum } else { want };
                sent += frames;
                self.delivered[flow] += frames * 1460 / 1500 * (100 - again) / 100;
            }
            self.frames[0] += sent + Rate::from_mbps(others).bytes_in(Self::STEP).get();
            // An acknowledgement for two segments.
            self.frames[1] += sent / 3000 * 40;
            let now = self.now;
            let is = |every: Span, late: Span| {
                let passed = now.since(Time::ZERO + late).as_nanos();
                passed > 0 && passed.is_multiple_of(every.as_nanos())
            };
            if is(Span::from_secs(1), Span::ZERO) {
                let samples =
                    [0, 1].map(|flow| sample(flow, self.delivered[flow as usize], 1_000_000, 0));
                self.tell(&declared(&samples));
            }
            if is(every, late) {
                let counters = [(self.uplink, self.frames[0]), (self.back, self.frames[1])];
                let counters = counters.map(|(link, count)| (link, Bytes::new(count)));
                self.tell(&Measured::Ports(counters.to_vec()).into());
            }
            if self.case.policy.deadline().is_some_and(|due| due <= self.now) {
                self.tell(&Observation::Tick);
            }
        }
    }

    fn tell(&mut self, observation: &Observation) {
        let mut out = Directives::new();
        tell(&mut *self.case.policy, self.now, &self.case.network, observation, &mut out);
        self.case.obey(&out);
    }

    /// What the streams may have together.
    fn mbps(&self) -> f64 {
        self.case.mbps(0) + self.case.mbps(1)
    }
}

/// What others take of a link isn't given away, and is again when they take nothing.
#[test]
fn cross_traffic_is_left_room() {
    for name in ["app-aware", "app-aware-fast"] {
        let mut shared = Shared::new(name);
        shared.run(30, 3, 0, Span::ZERO);
        assert!(near(shared.mbps(), 7.0), "{name}: {:?}", shared.case.limits);
        shared.run(60, 0, 0, Span::ZERO);
        assert!(near(shared.mbps(), 10.0), "{name}: {:?}", shared.case.limits);
    }
}

/// It looks only where it is told to, and asks for no counters otherwise.
#[test]
fn without_cross_no_counters_are_asked_for_or_heeded() {
    let mut case = Case::new("app-aware", &[(0, 1)]);
    assert_eq!(case.policy.ports(), None);
    let uplink = path(&case.network, 0, host(&case.network, 0), host(&case.network, 1))[0];
    for at in 1..20 {
        case.tell(at, &Measured::Ports(vec![(uplink, Bytes::new(at * 1_000_000))]).into());
        case.tell(at, &declared(&[sample(0, at * 100, 99_000_000, 0)]));
    }
    case.tick();
    assert!(near(case.mbps(0), 10.0), "{:?}", case.limits);
}

/// Ports that say nothing any more, or count from zero again.
#[test]
fn counters_that_end_or_fall_mislead_for_a_while_at_most() {
    let mut shared = Shared::new("app-aware-fast");
    shared.run(20, 3, 0, Span::ZERO);
    shared.frames = [0; 2];
    for end in 21..30 {
        shared.run(end, 3, 0, Span::ZERO);
        assert!(near(shared.mbps(), 7.0), "{end} s: {:?}", shared.case.limits);
    }
    // Never read again, though others' are: what was found is forgotten.
    shared.uplink = LinkId(u32::MAX);
    shared.run(60, 3, 0, Span::ZERO);
    assert!(near(shared.mbps(), 10.0), "{:?}", shared.case.limits);
}

/// A counter that jumps by what no link carries, or is above its capacity for a reading that came late.
#[test]
fn counters_beyond_the_capacity_hold_no_stream_back() {
    // In octets, of a link that carries 2.5 MB in a window.
    for jump in [1_250_000, 2_400_000, 2_600_000, 1_000_000_000_000, u64::MAX / 2] {
        let mut shared = Shared::new("app-aware-fast");
        shared.run(20, 3, 0, Span::ZERO);
        shared.frames[0] += jump;
        for end in 21..30 {
            shared.run(end, 3, 0, Span::ZERO);
            assert!(near(shared.mbps(), 7.0), "{jump}, {end} s: {:?}", shared.case.limits);
        }
        shared.run(60, 0, 0, Span::ZERO);
        assert!(near(shared.mbps(), 10.0), "{jump}: {:?}", shared.case.limits);
    }
}

/// Streams and others that keep their rates whatever they are let, so that a wrong figure shows. Twice a second
/// senders are sampled, then all ports are read. The windows of 2 s, over each of which the policy learns what
/// others carry, begin half a second after an even second.
struct Steady {
    case: Case,
    streams: Vec<Stream>,
    /// Mbit/s of frames of others, by link.
    others: Vec<(LinkId, u64)>,
    now: Time,
    /// Octets of frames, by link.
    frames: Vec<u64>,
}

struct Stream {
    ends: (u32, u32),
    /// Of frames.
    mbps: u64,
    sampled: bool,
    /// Payload.
    delivered: u64,
}

impl Steady {
    const STEP: Span = Span::from_millis(500);

    fn new(network: Network, streams: &[(u32, u32, u64)]) -> Self {
        let ends: Vec<_> = streams.iter().map(|(src, dst, _)| (*src, *dst)).collect();
        let parameters = Parameters::default().with("cross", true);
        let frames = vec![0; network.topology().links().len()];
        let case = Case::over(network, "app-aware-fast", &parameters, &ends);
        let stream =
            |&(src, dst, mbps)| Stream { ends: (src, dst), mbps, sampled: true, delivered: 0 };
        let streams = streams.iter().map(stream).collect();
        Self { case, streams, others: Vec::new(), now: Time::ZERO, frames }
    }

    /// Where a stream goes at present.
    fn path(&self, flow: u32) -> Vec<LinkId> {
        let (src, dst) = self.streams[flow as usize].ends;
        let network = &self.case.network;
        path(network, flow, host(network, src), host(network, dst))
    }

    fn octets(mbps: u64) -> u64 {
        Rate::from_mbps(mbps).bytes_in(Self::STEP).get()
    }

    fn step(&mut self) {
        self.now += Self::STEP;
        for flow in (0u32..).take(self.streams.len()) {
            let octets = Self::octets(self.streams[flow as usize].mbps);
            for link in self.path(flow) {
                self.frames[link.index()] += octets;
            }
            self.streams[flow as usize].delivered += octets * 1460 / 1500;
        }
        for (link, mbps) in &self.others {
            self.frames[link.index()] += Self::octets(*mbps);
        }
        let sampled = (0..).zip(&self.streams).filter(|(_, stream)| stream.sampled);
        let samples: Vec<_> =
            sampled.map(|(flow, stream)| sample(flow, stream.delivered, 1_000_000, 0)).collect();
        self.tell(&declared(&samples));
        let counters =
            (0..).zip(&self.frames).map(|(link, sent)| (LinkId(link), Bytes::new(*sent)));
        self.tell(&Measured::Ports(counters.collect()).into());
        self.tell(&Observation::Tick);
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// With each of so many steps the streams may have `mbps` together.
    fn keeps(&mut self, steps: u32, mbps: f64) {
        for _ in 0..steps {
            self.step();
            let sum: u64 = self.case.limits.values().flatten().map(|rate| rate.as_bps()).sum();
            let (now, limits) = (self.now, &self.case.limits);
            assert!(near(sum as f64 / 1e6, mbps), "{now:?}: {limits:?}");
        }
    }

    fn tell(&mut self, observation: &Observation) {
        let mut out = Directives::new();
        tell(&mut *self.case.policy, self.now, &self.case.network, observation, &mut out);
        self.case.obey(&out);
    }

    fn set_up(&mut self, link: LinkId, up: bool) {
        self.case.network.set_up(link, up);
        self.tell(&Measured::LinkState { link, up }.into());
    }
}

/// Streams of 4 and 3 Mbit/s share an uplink with 3 Mbit/s of others: 7 are theirs.
fn steady() -> Steady {
    let network = big_switch(8, Rate::from_mbps(10));
    let mut steady = Steady::new(network, &[(0, 1, 4), (0, 2, 3)]);
    steady.others = vec![(steady.path(0)[0], 3)];
    steady.run(20);
    steady.keeps(4, 7.0);
    steady
}

/// Bounded by the capacity, it would be others' but for what the streams carry: nothing would be left to them.
#[test]
fn a_counter_that_jumps_holds_streams_that_carry_little_no_more_than_before() {
    let network = big_switch(8, Rate::from_mbps(10));
    let mut steady = Steady::new(network, &[(0, 1, 1), (0, 2, 0)]);
    let uplink = steady.path(0)[0];
    steady.others = vec![(uplink, 3)];
    steady.run(20);
    steady.keeps(4, 7.0);
    steady.frames[uplink.index()] += 1_000_000_000_000;
    steady.keeps(12, 7.0);
}

/// What the silent one carries is not others': nothing is known but the figure of before.
#[test]
fn a_stream_that_is_not_sampled_for_two_windows_leaves_the_figure_as_it_stood() {
    let mut steady = steady();
    steady.streams[1].sampled = false;
    steady.keeps(9, 7.0);
    steady.streams[1].sampled = true;
    steady.keeps(12, 7.0);
}

/// What it carried until then is not others', at whatever moment of a window.
#[test]
fn what_a_stream_carried_that_ends_is_not_taken_for_others() {
    for moment in 0..4 {
        let mut steady = steady();
        steady.keeps(moment, 7.0);
        steady.streams.truncate(1);
        steady.case.limits.remove(&FlowId(1));
        steady.tell(&flow_complete(0, 1));
        steady.keeps(12, 7.0);
    }
}

/// A stream of 4 Mbit/s goes over one of two spines; over the other go 3 Mbit/s of others. It goes over there for
/// three seconds and comes back: what it carried for a part of a window is neither others' nor kept from theirs.
#[test]
fn what_a_stream_carried_where_it_moves_is_not_taken_for_others() {
    for moment in 0..4 {
        let (edge, fabric) = (access(Rate::from_mbps(100)), spec(Rate::from_mbps(10)));
        let network = Network::new(leaf_spine(2, 2, 1, &edge, &fabric).unwrap());
        let mut steady = Steady::new(network, &[(0, 1, 4)]);
        let [_, up, down, _] = steady.path(0)[..] else { panic!("two leaves and a spine") };
        steady.case.network.set_up(up, false);
        steady.others = vec![(steady.path(0)[1], 3)];
        steady.case.network.set_up(up, true);
        steady.run(20 + moment);
        steady.keeps(4, 10.0);
        steady.set_up(down, false);
        assert_eq!(steady.path(0)[1], steady.others[0].0);
        steady.keeps(6, 7.0);
        steady.set_up(down, true);
        steady.keeps(12, 10.0);
    }
}

/// Streams of 3 and 2 Mbit/s share an uplink with 3 Mbit/s of a flow that nobody samples and 1 of others.
#[test]
fn a_flow_that_was_never_sampled_is_one_of_others() {
    let network = big_switch(8, Rate::from_mbps(10));
    let mut steady = Steady::new(network, &[(0, 1, 3), (0, 2, 2), (0, 3, 3)]);
    steady.streams[2].sampled = false;
    steady.others = vec![(steady.path(0)[0], 1)];
    steady.run(10);
    steady.keeps(20, 6.0);
    // And a change of theirs is seen.
    steady.others[0].1 = 2;
    steady.run(8);
    steady.keeps(20, 5.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Streams alone on their links keep them, whenever ports are read, though each yields to what it takes
    /// for others': what is sent again, and what it changed between two readings.
    #[test]
    fn streams_do_not_yield_to_themselves(
        late in 0..20u64,
        again in 0..3u64,
        is_fast: bool,
        burst in 0..8u64,
    ) {
        let mut shared = Shared::new(if is_fast { "app-aware-fast" } else { "app-aware" });
        let late = Shared::STEP * late;
        shared.run(20, burst, again, late);
        shared.run(90, 0, again, late);
        let least = 10.0 - again as f64 / 10.0 - 0.3;
        prop_assert!(shared.mbps() > least, "{:?}", shared.case.limits);
        shared.run(120, 3, again, late);
        prop_assert!((shared.mbps() - 7.0).abs() < 0.5, "{:?}", shared.case.limits);
    }
}

/// The application says that all waits in stream 0, the agents that all waits in stream 1. When those
/// have been silent for more than two intervals the application is believed, which says that within 11 s
/// 11 and 2.75 MB were generated.
#[test]
fn the_measured_wins() {
    let mut case = Case::new("app-aware", &[(0, 1), (0, 2)]);
    let measured = [sample(0, 3_000_000, 0, 0), sample(1, 3_000_000, 3_000_000, 0)];
    case.tell(5, &Measured::Streams(measured.to_vec()).into());
    case.tell(5, &declared(&[sample(0, 3_000_000, 9_000_000, 0), sample(1, 3_000_000, 0, 0)]));
    case.tick();
    assert!(near(case.mbps(0), 2.5) && near(case.mbps(1), 7.5), "{:?}", case.limits);
    case.tick();
    let later = declared(&[sample(0, 14_000_000, 0, 0), sample(1, 8_750_000, 0, 0)]);
    case.tell(15, &later);
    case.tick();
    assert!(near(case.mbps(0), 2.5) && near(case.mbps(1), 7.5), "{:?}", case.limits);
    case.tell(16, &later);
    case.tick();
    assert!(near(case.mbps(0), 8.0) && near(case.mbps(1), 2.0), "{:?}", case.limits);
}

/// Streams of two hosts meet at a third; each has 12 Mbit/s to send, the second 5 s later. Their
/// receiver takes what comes, so that nothing waits there. What each is held to after a minute.
fn meeting(policy: &str, every: Span) -> (f64, f64) {
    let mut case = Case::new(policy, &[(0, 2), (1, 2)]);
    let (mut delivered, mut waiting) = ([0u64; 2], [0u64; 2]);
    let mut out = Directives::new();
    let mut now = Time::ZERO;
    while now < seconds(60) {
        now += every;
        for (id, flow) in (0..).zip(0..2) {
            let limit = case.limits.get(&FlowId(id)).copied().flatten();
            let generated = if flow == 0 || now > seconds(5) { 12 } else { 0 };
            let offered = waiting[flow] + Rate::from_mbps(generated).bytes_in(every).get();
            let sent = offered.min(limit.unwrap_or(Rate::from_mbps(10)).bytes_in(every).get());
            (delivered[flow], waiting[flow]) = (delivered[flow] + sent, offered - sent);
        }
        let samples =
            [sample(0, delivered[0], waiting[0], 0), sample(1, delivered[1], waiting[1], 0)];
        tell(&mut *case.policy, now, &case.network, &declared(&samples), &mut out);
        tell(&mut *case.policy, now, &case.network, &Observation::Tick, &mut out);
        case.obey(&out);
    }
    (case.mbps(0), case.mbps(1))
}

/// Problem (4) weighs streams by what their receiver consumed. Where nothing waits there, that is what
/// they were let through: the published policy keeps whatever division it once had.
#[test]
fn a_join_at_which_nothing_waits_keeps_its_division() {
    let (first, second) = meeting("app-aware", Span::from_secs(5));
    assert!(first > 9.0 && second < 1.0, "{first} {second}");
}

/// The variant goes by what waits at the senders then.
#[test]
fn the_variant_divides_a_join_at_which_nothing_waits_by_demand() {
    let (first, second) = meeting("app-aware-fast", Span::from_millis(200));
    assert!((4.0..6.0).contains(&first) && (4.0..6.0).contains(&second), "{first} {second}");
}

/// Nobody decides about the flows of a job that is over.
#[test]
fn the_rates_of_a_job_that_is_over_are_lifted() {
    let mut case = Case::new("app-aware", &[(0, 1), (0, 2)]);
    case.tell(5, &declared(&[sample(0, 3_000_000, 3_000_000, 0), sample(1, 3_000_000, 0, 0)]));
    case.tick();
    assert!(case.limits.values().all(Option::is_some), "{:?}", case.limits);
    case.tell(6, &Observation::Declared(Declared::JobComplete { job: JobId(0) }));
    assert!(case.limits.values().all(Option::is_none), "{:?}", case.limits);
}

/// Between two intervals nothing is decided, whatever is told and however often it is asked.
#[test]
fn rates_change_once_an_interval() {
    let mut case = Case::new("app-aware", &[(0, 1), (0, 2)]);
    case.tell(5, &declared(&[sample(0, 3_000_000, 3_000_000, 0), sample(1, 3_000_000, 0, 0)]));
    case.tick();
    let before = case.limits.clone();
    case.tell(8, &declared(&[sample(0, 4_000_000, 0, 0), sample(1, 6_000_000, 6_000_000, 0)]));
    case.tell(8, &Observation::Tick);
    assert_eq!(case.limits, before);
    case.tick();
    assert_ne!(case.limits, before, "when it is over");
}

/// The variant speaks only when a rate changes by more than a hundredth.
#[test]
fn the_variant_is_silent_where_little_changes() {
    let mut case = Case::new("app-aware-fast", &[(0, 1), (0, 2)]);
    let full = |step: u64, more: u64| {
        declared(&[
            sample(0, step * 125_000, 2_000_000 + more, 0),
            sample(1, step * 125_000, 2_000_000, 0),
        ])
    };
    let mut out = Directives::new();
    let mut said = Vec::new();
    for step in 1..=20 {
        let now = Time::ZERO + Span::from_millis(200) * step;
        out.clear();
        // At the end a little more waits at one of the two, and then much more.
        let more = [0, 2_000, 1_000_000][usize::try_from(step / 9).unwrap()];
        tell(&mut *case.policy, now, &case.network, &full(step, more), &mut out);
        tell(&mut *case.policy, now, &case.network, &Observation::Tick, &mut out);
        said.push(out.len());
    }
    assert!(said[..7].iter().any(|count| *count > 0), "{said:?}");
    assert!(said[8..17].iter().all(|count| *count == 0), "{said:?}");
    assert!(said[17..].iter().any(|count| *count > 0), "{said:?}");
}

/// 9 and 3 MB, then 3.1 MB of the second: 2.56 instead of 2.5 Mbit/s, as the variant forecasts it
/// (3.03 MB) 2.52. Then 6 MB, which nobody keeps quiet about.
#[test]
fn the_hysteresis_is_a_parameter() {
    for (name, hysteresis, tells) in [
        ("app-aware", None, true),
        ("app-aware", Some(50_000), false),
        ("app-aware-fast", Some(1_000), true),
    ] {
        let mut parameters = Parameters::default().with("interval", Span::from_secs(5));
        if let Some(ppm) = hysteresis {
            parameters = parameters.with("hysteresis", Share::literal(ppm));
        }
        let mut case = Case::with(name, &parameters, &[(0, 1), (0, 2)]);
        let mut after = |at: u64, second: u64| {
            let first = at / 5 * 9_000_000;
            case.tell(at, &declared(&[sample(0, first, 0, 0), sample(1, second, 0, 0)]));
            case.tick();
            case.limits.clone()
        };
        let [old, small, large] = [(5, 3_000_000), (10, 6_100_000), (15, 12_100_000)]
            .map(|(at, second)| after(at, second));
        assert_eq!(old.values().flatten().count(), 2, "{name} {hysteresis:?}");
        assert_eq!(small != old, tells, "{name} {hysteresis:?}: {old:?} {small:?}");
        assert_ne!(large, small, "{name} {hysteresis:?}");
    }
}

/// A step in what is generated: the change is half done within a second, nearly done within two.
#[test]
fn the_variant_follows_a_step() {
    let mut case = Case::new("app-aware-fast", &[(0, 1), (0, 2)]);
    // Mbit/s generated; what doesn't fit waits.
    let (mut delivered, mut waiting) = ([0u64; 2], [0u64; 2]);
    let mut out = Directives::new();
    let mut history = Vec::new();
    for step in 1..=50u64 {
        let generated = if step <= 25 { [8u64, 4] } else { [4, 8] };
        for (id, flow) in (0..).zip(0..2) {
            let limit = case.limits.get(&FlowId(id)).copied().flatten();
            let room = limit.unwrap_or(Rate::from_mbps(5)).bytes_in(Span::from_millis(200)).get();
            let offered = waiting[flow] + generated[flow] * 25_000;
            let sent = offered.min(room);
            (delivered[flow], waiting[flow]) = (delivered[flow] + sent, offered - sent);
        }
        let now = Time::ZERO + Span::from_millis(200) * step;
        let samples =
            [sample(0, delivered[0], waiting[0], 0), sample(1, delivered[1], waiting[1], 0)];
        tell(&mut *case.policy, now, &case.network, &declared(&samples), &mut out);
        tell(&mut *case.policy, now, &case.network, &Observation::Tick, &mut out);
        case.obey(&out);
        history.push((case.mbps(0), case.mbps(1)));
    }
    assert!(near(history[24].0, 10.0 * 2.0 / 3.0), "{history:?}");
    let after = |steps: usize| history[24 + steps].1;
    assert!(after(5) > 5.0, "{history:?}");
    assert!(after(10) > 5.8, "{history:?}");
}

proptest! {
    /// Whatever the queues: limits are above zero and within every link together.
    #[test]
    fn no_link_is_exceeded(
        name in prop::sample::select(vec!["app-aware", "app-aware-fast"]),
        streams in prop::collection::vec((0..8u32, 0..8u32), 1..30),
        rounds in prop::collection::vec(prop::collection::vec((0..9_000_000u64, 0..9_000_000u64, 0..9_000_000u64), 30), 1..5),
    ) {
        let streams: Vec<_> = streams.into_iter().filter(|(src, dst)| src != dst).collect();
        prop_assume!(!streams.is_empty());
        let mut case = Case::new(name, &streams);
        let mut delivered = [0; 30];
        for (at, round) in (1..).zip(rounds) {
            let samples: Vec<_> = (0..).zip(&streams).zip(&round).map(|((flow, _), (v, s, r))| {
                delivered[flow as usize] += v;
                sample(flow, delivered[flow as usize], *s, *r)
            }).collect();
            case.tell(at * 5, &declared(&samples));
            case.tick();
            let mut loads = BTreeMap::new();
            for (flow, (src, dst)) in (0..).zip(&streams) {
                let Some(limit) = case.limits.get(&FlowId(flow)).copied().flatten() else { continue };
                prop_assert!(limit >= LEAST_RATE);
                let (src, dst) = (host(&case.network, *src), host(&case.network, *dst));
                for link in path(&case.network, flow, src, dst) {
                    *loads.entry(link).or_insert(0) += limit.as_bps();
                }
            }
            prop_assert!(loads.values().all(|load| *load <= 10_000_000), "{loads:?}");
        }
    }
}
