//! The arbiter: what an objective has by what it aims at, and what a job that asks for another one.

use crate::arbiter::{Bench, MBPS, SLACK, at_ms, deadline, latency, objective, racks};
use crate::desk::*;
use model::{Declared, FlowId, LEAST_RATE, Measured, StreamSample};
use units::{Bytes, Span, Time};
use watermaster_policy::{Aim, Objective, Parameters, Share};

#[test]
fn latencies_go_first_and_the_background_last() {
    let (network, left, right) = racks();
    let objectives = vec![
        objective("backup", "tcp", Aim::Background),
        objective("web", "tcp", latency(100)),
        objective("sort", "srb", Aim::Weight(1)),
    ];
    let mut bench = Bench::new(network, objectives);
    bench.settle(Time::ZERO, job_of("backup", 0));
    bench.settle(Time::ZERO, request(0, 0, left[0], right[0], 1 << 40));
    assert!(bench.limits.is_empty(), "it has what nobody else wants");
    bench.settle(Time::ZERO, job_of("sort", 1));
    bench.settle(Time::ZERO, request(1, 1, left[1], right[1], 1 << 40));
    assert_eq!(bench.sum([0]), LEAST_RATE.as_bps());
    // A request of 25 kB within 100 ms takes 2 Mbit/s, and head-room.
    let mut now = Time::ZERO;
    for number in 0..10 {
        let flow = 2 + number;
        bench.settle(now, job_of("web", flow));
        bench.settle(now, request(flow, flow, left[2], right[2], 25_000));
        let web = bench.sum([flow]);
        assert!((2 * MBPS..=5 * MBPS).contains(&web), "{web}");
        assert!(bench.sum([1, flow]) <= 10 * MBPS);
        now += Span::from_millis(90);
        bench.pass(now);
        bench.settle(now, flow_complete(flow, flow));
        bench.settle(now, job_complete(flow));
        now += Span::from_millis(200);
        bench.pass(now);
    }
    assert!(bench.classes.is_empty(), "no port serves priorities");
    // What nobody asks for any more is given back.
    now += Span::from_secs(30);
    bench.pass(now);
    assert!(bench.sum([1]) as f64 >= 9.9e6 * SLACK, "{:?}", bench.limits);
    // However much it asks for, it goes first with half the link, and has its weight of the rest.
    bench.settle(now, job_of("web", 50));
    for flow in 50..150 {
        bench.settle(now, request(50, flow, left[2], right[2], 1 << 40));
    }
    bench.pass(now + Span::from_millis(400));
    assert!(bench.sum([1]) as f64 >= 2.4e6 * SLACK, "{:?}", bench.sum([1]));
}

/// Nothing shows what waits of it, so it is reckoned among those that always send.
#[test]
fn a_latency_without_end_that_nobody_measures_goes_first_too() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("web", "tcp", latency(50)), objective("sort", "tcp", Aim::Weight(3))];
    let mut bench = Bench::new(network, objectives);
    bench.settle(Time::ZERO, job_of("web", 0));
    bench.settle(Time::ZERO, request(0, 0, left[0], right[0], u64::MAX));
    bench.settle(Time::ZERO, job_of("sort", 1));
    bench.settle(Time::ZERO, request(1, 1, left[1], right[1], 1 << 40));
    bench.pass(at_ms(2000));
    assert!(bench.sum([0]) as f64 >= 5e6 * SLACK, "{:?}", bench.limits);
    assert!(bench.sum([1]) as f64 >= 3e6 * SLACK, "{:?}", bench.limits);
}

/// A sender that is held to the least rate wakes up to a second after its limit was raised: what it carries
/// until then doesn't show what it could use.
#[test]
fn who_was_held_to_the_least_rate_has_time_to_wake() {
    let (network, left, right) = racks();
    let objectives = vec![
        objective("sort", "tcp", Aim::Weight(3)),
        objective(
            "late",
            "tcp",
            Aim::Deadline { within: Span::from_secs(5), most: Share::literal(1_000_000) },
        ),
        objective("other", "tcp", Aim::Weight(1)),
    ];
    let mut bench = Bench::new(network, objectives);
    for (job, name) in (0..).zip(["sort", "late", "other"]) {
        bench.settle(Time::ZERO, job_of(name, job));
        let (src, dst) = (left[job as usize], right[job as usize]);
        bench.settle(Time::ZERO, request(job, job, src, dst, 1 << 40));
    }
    let packet = LEAST_RATE.as_bps() / 8;
    let mut delivered = [0; 3];
    let mut next = [Time::ZERO; 3];
    for step in 0..2000 {
        let now = at_ms(5 * step);
        for flow in 0..3 {
            let limit = bench.sum([flow]);
            // A packet is due when the one before was sent at the rate of that time.
            while next[flow as usize] <= now {
                delivered[flow as usize] += packet;
                next[flow as usize] += Span::from_nanos(packet * 8_000_000_000 / limit);
            }
        }
        if step == 900 {
            assert_eq!(bench.sum([0]), LEAST_RATE.as_bps(), "who is late takes all");
        }
        if step % 40 == 39 {
            let flows = (0..).map(FlowId).zip(delivered.map(Bytes::new));
            bench.settle(now, Measured::Delivered(flows.collect()));
        }
        bench.pass(now);
    }
    // It is too late for the deadline, which has its weight of what is left like others.
    assert!(bench.sum([0]) as f64 >= 6e6 * SLACK, "{:?}", bench.limits);
    assert!(delivered[0] > 1_000_000, "{delivered:?}");
}

/// Connections that answers come over, now and then: each may have the whole of what the latency may take
/// while the others are quiet, and an even part while another has that.
#[test]
fn a_stream_that_is_quiet_may_burst_where_ports_serve_priorities() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("web", "tcp", latency(100)), objective("sort", "tcp", Aim::Weight(1))];
    let parameters = Parameters::default().with("priorities", true).under(objectives);
    let mut bench = Bench::with(network, parameters);
    bench.settle(Time::ZERO, job_of("web", 0));
    for flow in 0..5 {
        bench.settle(Time::ZERO, request(0, flow, left[0], right[0], u64::MAX));
    }
    bench.settle(Time::ZERO, job_of("sort", 1));
    bench.settle(Time::ZERO, request(1, 5, left[1], right[1], 1 << 40));
    let mut delivered = [0; 5];
    let mut carry = |bench: &mut Bench, round: u64, octets: [u64; 5]| {
        let samples = (0..).zip(octets).map(|(flow, octets)| {
            delivered[flow as usize] += octets;
            let delivered = Bytes::new(delivered[flow as usize]);
            StreamSample { flow: FlowId(flow), delivered, ..StreamSample::default() }
        });
        bench.settle(at_ms(200 * round), Declared::Streams(samples.collect()));
        bench.pass(at_ms(200 * round + 199));
    };
    for round in 0..20 {
        carry(&mut bench, round, [1000; 5]);
    }
    for flow in 0..5 {
        let may = bench.sum([flow]);
        assert!(may as f64 >= 4.7e6 * SLACK && may <= 5 * MBPS, "{:?}", bench.limits);
    }
    for round in 20..25 {
        carry(&mut bench, round, [100_000, 1000, 1000, 1000, 1000]);
    }
    assert!(bench.sum([0]) as f64 >= 4.5e6 * SLACK, "{:?}", bench.limits);
    for flow in 1..5 {
        assert!(bench.sum([flow]) as f64 >= 1e6 * SLACK, "{:?}", bench.limits);
    }
    // Those that always send have no more together than they are given.
    for round in 25..35 {
        carry(&mut bench, round, [40_000; 5]);
    }
    assert!(bench.sum(0..6) <= 10 * MBPS, "{:?}", bench.limits);
}

/// Where ports serve priorities others yield packet by packet: a latency's part is what it carries, and
/// it may go beyond.
#[test]
fn where_ports_serve_priorities_each_aim_has_a_class() {
    let (network, left, right) = racks();
    let objectives = vec![
        objective("backup", "tcp", Aim::Background),
        objective("web", "tcp", latency(100)),
        objective("sort", "srb", Aim::Weight(1)),
    ];
    let parameters = Parameters::default().with("priorities", true).under(objectives);
    let mut bench = Bench::with(network, parameters);
    for (flow, (name, size)) in (0..).zip([("backup", 1 << 40), ("web", 50_000), ("sort", 1 << 40)])
    {
        bench.settle(Time::ZERO, job_of(name, flow));
        let (src, dst) = (left[flow as usize], right[flow as usize]);
        bench.settle(Time::ZERO, request(flow, flow, src, dst, size));
    }
    bench.pass(at_ms(300));
    let classes = [0, 1, 2].map(|flow| bench.classes.get(&FlowId(flow)).copied());
    assert_eq!(classes, [Some(2), None, Some(1)], "the first class is where all start");
    // It has carried next to nothing, and may have half the link for the while.
    let held = [0, 1, 2].map(|flow| bench.sum([flow]));
    assert_eq!(held[0], LEAST_RATE.as_bps());
    assert!(held[1] as f64 >= 5e6 * SLACK && held[2] as f64 >= 8e6 * SLACK, "{held:?}");
}

#[test]
fn a_deadline_takes_what_it_needs_and_no_more() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("sort", "tcp", Aim::Weight(9)), objective("report", "sebf", deadline(10))];
    let mut bench = Bench::new(network, objectives);
    bench.settle(Time::ZERO, job_of("sort", 0));
    bench.settle(Time::ZERO, request(0, 0, left[0], right[0], 1 << 40));
    bench.settle(Time::ZERO, job_of("report", 1));
    // 5 MB within 10 s: 4 Mbit/s of payload.
    bench.settle(Time::ZERO, request(1, 1, left[1], right[1], 5_000_000));
    let (sort, report) = (bench.sum([0]), bench.sum([1]));
    assert!((4 * MBPS..6 * MBPS).contains(&report), "{report}");
    assert!(sort as f64 >= 4e6 * SLACK, "{sort}");
    // Half the time is gone and little is done: it needs more.
    bench.settle(at_ms(5_000), Measured::Delivered(vec![(FlowId(1), Bytes::new(1_000_000))]));
    bench.pass(at_ms(5_300));
    assert!(bench.sum([1]) >= 6 * MBPS, "{:?}", bench.limits);
    // It is too late: a weight of 1 is left.
    bench.pass(at_ms(10_300));
    assert!(bench.sum([1]) <= 2 * MBPS, "{:?}", bench.limits);
}

/// A job's own deadline counts in the place of its objective's, whenever it is said.
#[test]
fn a_job_may_ask_for_a_deadline_of_its_own() {
    let (network, left, right) = racks();
    let objectives =
        vec![objective("sort", "tcp", Aim::Weight(9)), objective("report", "sebf", deadline(10))];
    let mut bench = Bench::new(network, objectives);
    bench.settle(Time::ZERO, job_of("sort", 0));
    bench.settle(Time::ZERO, request(0, 0, left[0], right[0], 1 << 40));
    bench.settle(Time::ZERO, job_of("report", 1));
    bench.settle(Time::ZERO, terms(1, None, Some(40_000)));
    bench.settle(Time::ZERO, request(1, 1, left[1], right[1], 5_000_000));
    // 5 MB within 40 s: 1 Mbit/s, and what a weight of 1 has at least.
    assert!(bench.sum([1]) <= 2 * MBPS, "{:?}", bench.limits);
    assert_eq!(bench.policy.account(FlowId(1)).unwrap().aim, {
        let most = Share::literal(900_000);
        Aim::Deadline { within: Span::from_secs(40), most }
    });
    // From the job's start, not from now; and again the objective's.
    for (at, asked, (least, most)) in
        [(2_000, Some(12_000), (4, 6)), (3_000, Some(40_000), (0, 2)), (4_000, None, (7, 10))]
    {
        bench.settle(at_ms(at), terms(1, None, asked));
        bench.settle(at_ms(at), Measured::Delivered(vec![(FlowId(1), Bytes::new(at))]));
        bench.pass(at_ms(at + 300));
        let held = bench.sum([1]);
        assert!((least * MBPS..=most * MBPS).contains(&held), "{asked:?}: {held}");
    }
    // What has no deadline has none by asking.
    bench.settle(at_ms(5_000), terms(0, None, Some(6_000)));
    assert_eq!(bench.policy.account(FlowId(0)).unwrap().aim, Aim::Weight(9));
}

/// A job is under the objective that it asks for if that names its application; its flows go with it.
#[test]
fn a_job_may_ask_for_another_objective() {
    let (network, left, right) = racks();
    let applications = |objective: Objective, names: &[&str]| {
        let applications = names.iter().map(|name| (*name).into()).collect();
        Objective { applications, ..objective }
    };
    let objectives = vec![
        applications(objective("batch", "srb", Aim::Weight(1)), &["spark", "hadoop"]),
        applications(objective("prompt", "fair", Aim::Weight(8)), &["spark"]),
    ];
    let parameters = Parameters::default().under(objectives);
    let mut bench = Bench::with(network, parameters);
    for (job, application) in [(0, "hadoop"), (1, "spark"), (2, "spark")] {
        bench.settle(Time::ZERO, job_of(application, job));
        let (src, dst) = (left[job as usize], right[job as usize]);
        bench.settle(Time::ZERO, request(job, job, src, dst, 1 << 40));
    }
    let under =
        |bench: &Bench| [0, 1, 2].map(|flow| bench.policy.account(FlowId(flow)).unwrap().objective);
    assert_eq!(under(&bench), ["batch", "batch", "batch"]);
    // One asks for what it may have, one for what it may not, and one for what there isn't.
    bench.settle(at_ms(10), terms(1, Some("prompt"), None));
    bench.settle(at_ms(10), terms(0, Some("prompt"), None));
    bench.settle(at_ms(10), terms(2, Some("nothing"), None));
    assert_eq!(under(&bench), ["batch", "prompt", "batch"]);
    bench.pass(at_ms(300));
    let (prompt, batch) = (bench.sum([1]), bench.sum([0, 2]));
    assert!(prompt >= 7 * MBPS && batch <= 2 * MBPS, "{:?}", bench.limits);
    // Flows that begin later are where the job is; its policy knows both and divides evenly.
    bench.settle(at_ms(400), request(1, 3, left[1], right[0], 1 << 40));
    bench.pass(at_ms(700));
    let halves = [bench.sum([1]), bench.sum([3])];
    assert!(halves[0].abs_diff(halves[1]) < MBPS && bench.sum([1, 3]) >= 7 * MBPS, "{halves:?}");
    // It goes back, and all that the objective had is others'.
    bench.settle(at_ms(800), terms(1, None, None));
    assert_eq!(under(&bench), ["batch", "batch", "batch"]);
    bench.settle(at_ms(800), job_complete(0));
    bench.settle(at_ms(800), job_complete(2));
    bench.pass(at_ms(1_500));
    assert!(bench.sum([1, 3]) >= 9 * MBPS, "{:?}", bench.limits);
    bench.settle(at_ms(1_600), job_complete(1));
    bench.pass(at_ms(2_500));
    assert!(bench.limits.is_empty() && bench.policy.deadline().is_none(), "{:?}", bench.limits);
}

/// Where ports serve priorities a job that moves has the class of its new objective.
#[test]
fn a_job_that_moves_has_another_class() {
    let (network, left, right) = racks();
    let of_all =
        |name, aim| Objective { applications: vec!["*".into()], ..objective(name, "tcp", aim) };
    let objectives = vec![of_all("backup", Aim::Background), of_all("web", latency(100))];
    let parameters = Parameters::default().with("priorities", true).under(objectives);
    let mut bench = Bench::with(network, parameters);
    bench.settle(Time::ZERO, job_of("any", 0));
    bench.settle(Time::ZERO, request(0, 0, left[0], right[0], 1 << 40));
    for (asked, class) in [(None, 2), (Some("web"), 0), (Some("backup"), 2)] {
        bench.settle(at_ms(1), terms(0, asked, None));
        assert_eq!(bench.classes[&FlowId(0)], class, "{asked:?}");
    }
}
