//! The worked examples of Phurti, held against hand computation.

#![allow(clippy::unwrap_used)] // a test may panic

use crate::desk::*;
use units::{Rate, Time};
use watermaster_policy::{Parameters, Share, find};

/// 1 GB a second: a unit of the figures is 1 GB, so that SLOW flows at the least rate don't count.
const LINK: Rate = Rate::from_mbps(8_000);
const UNIT: u64 = 1_000_000_000;

fn desk(policy: &str, network: model::Network) -> Desk {
    let least = Share::from_ppm(1).unwrap();
    let policy = find(policy).unwrap();
    let mut parameters = Parameters::default();
    if policy.parameters.iter().any(|parameter| parameter.name == "beta") {
        parameters = parameters.with("beta", least);
    }
    Desk::new(network, policy.build(&parameters).unwrap())
}

fn assert_close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-3, "{got} instead of {expected}");
}

/// Figure 2.2a: jobs A, B, C (0, 1, 2) on three links X, Y, Z that share nothing.
///
/// | job | X | Y | Z |
/// |-----|---|---|---|
/// | A   | 1 | 2 | 3 |
/// | B   | 3 | 1 | 2 |
/// | C   | 2 |   |   |
///
/// Returns mean FCT and mean JCT, in units of time.
fn figure_2_2(policy: &str) -> (f64, f64) {
    let network = big_switch(6, LINK);
    let flow = |job: u32, link: u32, units: u64| Transfer {
        job,
        src: host(&network, 2 * link),
        dst: host(&network, 2 * link + 1),
        bytes: units * UNIT,
        start: Time::ZERO,
    };
    let (x, y, z) = (0, 1, 2);
    let flows = [
        flow(0, x, 1),
        flow(0, y, 2),
        flow(0, z, 3),
        flow(1, x, 3),
        flow(1, y, 1),
        flow(1, z, 2),
        flow(2, x, 2),
    ];
    let ends = run_fluid(&mut desk(policy, network), &flows);
    let last = |job| {
        let of_job = flows.iter().zip(&ends).filter(|(flow, _)| flow.job == job);
        of_job.fold(0.0, |last: f64, (_, end)| last.max(*end))
    };
    let fct = ends.iter().sum::<f64>() / 7.0;
    (fct, (last(0) + last(1) + last(2)) / 3.0)
}

/// X: three share until A ends at 3, then C at 5, B at 6. Y: B at 2, A at 3. Z: B at 4, A at 5.
#[test]
fn figure_2_2b_fair_sharing() {
    for policy in ["fair", "tcp"] {
        let (fct, jct) = figure_2_2(policy);
        assert_close(fct, 28.0 / 7.0);
        assert_close(jct, (5.0 + 6.0 + 5.0) / 3.0);
    }
}

/// X: A 1, C 3, B 6. Y: B 1, A 3. Z: B 2, A 5.
#[test]
fn figure_2_2c_shortest_flow_first() {
    for policy in ["sff", "srpt"] {
        let (fct, jct) = figure_2_2(policy);
        assert_close(fct, 21.0 / 7.0);
        assert_close(jct, (5.0 + 6.0 + 3.0) / 3.0);
    }
}

/// Order C, A, B. X: C 2, A 3, B 6. Y: A 2, B 3. Z: A 3, B 5.
#[test]
fn figure_2_2d_application_aware() {
    for policy in ["smsf", "srb", "bssf"] {
        let (fct, jct) = figure_2_2(policy);
        assert_close(fct, 24.0 / 7.0);
        assert_close(jct, (3.0 + 6.0 + 2.0) / 3.0);
    }
}

/// Coflow order C, A, B as well; A and B end on each link no sooner than their bottleneck, unless
/// nobody else wants the link.
#[test]
fn figure_2_2_under_varys() {
    let (_, jct) = figure_2_2("sebf");
    assert_close(jct, (3.0 + 6.0 + 2.0) / 3.0);
}

/// Order A, B, C, by hand: X: A 1, B 4, C 6. Y: A 2, B 3. Z: A 3, B 5.
#[test]
fn figure_2_2_in_job_order() {
    let (fct, jct) = figure_2_2("fifo");
    assert_close(fct, 24.0 / 7.0);
    assert_close(jct, (3.0 + 5.0 + 6.0) / 3.0);
}

/// Two jobs of one flow of size 1 that share no host but the link S1→S2.
#[test]
fn figure_2_3_network_awareness() {
    let network = two_racks(LINK);
    let flow = |job: u32| Transfer {
        job,
        src: host(&network, job),
        dst: host(&network, 3 + job),
        bytes: UNIT,
        start: Time::ZERO,
    };
    let flows = [flow(0), flow(1)];
    for (policy, expected) in [
        ("tcp", [2.0, 2.0]),
        ("fair", [2.0, 2.0]),
        ("smsf", [1.0, 2.0]),
        ("fifo", [1.0, 2.0]),
        ("sff", [1.0, 2.0]),
        ("srpt", [1.0, 2.0]),
        ("srb", [1.0, 2.0]),
        ("sebf", [1.0, 2.0]),
        ("bssf", [1.0, 2.0]),
    ] {
        let ends = run_fluid(&mut desk(policy, network.clone()), &flows);
        assert_close(ends[0], expected[0]);
        assert_close(ends[1], expected[1]);
    }
}

/// J1: maps at nodes 1 and 3, reduces at nodes 3 and 4; M1 makes 1 GB for each reduce, M2 0.5 GB.
/// J2: a map at node 1, a reduce at node 4, 2 GB. The maximum sequential traffic is 1 GB and 2 GB,
/// though J1 sends 2.5 GB over the network and 2 GB from node 1 in all. M2 to R1 stays at node 3.
#[test]
fn figure_5_1_constructing_traffic_patterns() {
    let network = two_racks(LINK);
    let node = |number: u32| host(&network, number - 1);
    let (m1, m2, r1, r2) = (0, 1, 2, 3);
    let mut desk = desk("smsf", network.clone());
    let now = Time::ZERO;
    desk.tell(now, job_start(2));
    desk.tell(now, job_start(1));
    for (task, at) in [(m1, 1), (m2, 3), (r1, 3), (r2, 4)] {
        desk.tell(now, task_host(1, task, node(at)));
    }
    desk.tell(now, task_host(2, m1, node(1)));
    desk.tell(now, task_host(2, r1, node(4)));
    desk.tell(now, size(1, m1, &[(r1, UNIT), (r2, UNIT)]));
    desk.tell(now, size(1, m2, &[(r1, UNIT / 2), (r2, UNIT / 2)]));
    desk.tell(now, size(2, m1, &[(r1, 2 * UNIT)]));

    desk.tell(now, request(2, 20, node(1), node(4), 2 * UNIT));
    assert!(!desk.is_slow(20));
    desk.tell(now, request(1, 10, node(1), node(3), UNIT));
    assert!(desk.is_slow(20), "both leave node 1, and 1 GB goes before 2 GB");
    assert!(!desk.is_slow(10));

    // A second map of J1 at node 1 with 1.5 GB for R2 makes 2.5 GB between nodes 1 and 4.
    desk.tell(now, task_host(1, 4, node(1)));
    desk.tell(now, size(1, 4, &[(r2, UNIT + UNIT / 2)]));
    assert!(desk.is_slow(10), "2 GB goes before 2.5 GB");
    assert!(!desk.is_slow(20));
}

/// Flows 1 and 2 leave N1 and interfere on N1→S1; flow 3 comes the other way over the same cable.
#[test]
fn figure_5_2_interference() {
    let network = two_racks(LINK);
    let node = |number: u32| host(&network, number - 1);
    let mut desk = desk("smsf", network.clone());
    for job in 1..=3 {
        desk.tell(Time::ZERO, job_start(job));
    }
    desk.tell(Time::ZERO, request(1, 1, node(1), node(2), UNIT));
    desk.tell(Time::ZERO, request(2, 2, node(1), node(4), 2 * UNIT));
    desk.tell(Time::ZERO, request(3, 3, node(5), node(1), 3 * UNIT));
    assert!(!desk.is_slow(1));
    assert!(desk.is_slow(2));
    assert!(!desk.is_slow(3), "links are full duplex");
}

/// The story told with figure 6.2. The large job 1 transmits flow 5 from N5 to N6. The small job 2
/// asks for flow 3, which meets nobody, and flow 4 from N5.
#[test]
fn figure_6_2_preemption() {
    let network = two_racks(LINK);
    let node = |number: u32| host(&network, number - 1);
    let story = |policy: &str| {
        let mut desk = desk(policy, network.clone());
        desk.tell(Time::ZERO, job_start(1));
        desk.tell(Time::ZERO, job_start(2));
        desk.tell(Time::ZERO, request(1, 5, node(5), node(6), 2 * UNIT));
        desk.tell(Time::ZERO, request(2, 3, node(1), node(3), UNIT));
        desk.tell(Time::ZERO, request(2, 4, node(5), node(2), UNIT));
        desk
    };

    let mut phurti = story("smsf");
    assert!(!phurti.is_slow(3), "flow 3 interferes with nobody");
    assert!(!phurti.is_slow(4) && phurti.is_slow(5), "flow 4 preempts flow 5");
    phurti.tell(Time::ZERO, flow_complete(2, 4));
    assert!(!phurti.is_slow(5), "flow 5 goes on right after flow 4");

    let mut fifo = story("fifo");
    assert!(!fifo.is_slow(3), "flow 3 interferes with nobody");
    assert!(fifo.is_slow(4) && !fifo.is_slow(5), "flow 4 waits for flow 5");
    fifo.tell(Time::ZERO, flow_complete(1, 5));
    assert!(!fifo.is_slow(4));
}
