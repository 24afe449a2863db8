//! Phurti's starvation guard (section 4.3): every T, jobs older than the threshold transmit for τ.

#![allow(clippy::unwrap_used)] // a test may panic

use crate::desk::*;
use units::{Rate, Span, Time};
use watermaster_policy::{Parameters, by_name};

const LINK: Rate = Rate::from_mbps(100);

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

/// Jobs 0 and 1 leave one host at 5 s and 45 s; job 0 is large and SLOW from then on.
fn starving() -> Desk {
    let network = big_switch(4, LINK);
    let node = |number| host(&network, number);
    let policy = by_name("smsf", &Parameters::default()).unwrap();
    let mut desk = Desk::new(network.clone(), policy);
    desk.tell(at(5), job_start(0));
    desk.tell(at(5), request(0, 0, node(0), node(1), 1000));
    assert_eq!(desk.policy.deadline(), None, "nobody waits");
    desk.tell(at(45), job_start(1));
    desk.tell(at(45), request(1, 1, node(0), node(2), 10));
    desk.tell(at(45), request(1, 2, node(0), node(3), 10));
    desk
}

/// With the published values: submitted at 5 s, job 0 is 95 s old at 100 s and 115 s old at 120 s.
#[test]
fn a_job_past_the_threshold_transmits_for_ten_of_twenty_seconds() {
    let mut desk = starving();
    for seconds in [60, 80, 100] {
        assert_eq!(desk.policy.deadline(), Some(at(seconds)));
        assert_eq!(desk.tick(at(seconds)), []);
    }
    assert!(desk.is_slow(0));
    for round in 0..3 {
        let check = 120 + 20 * round;
        assert_eq!(desk.policy.deadline(), Some(at(check)));
        assert_eq!(desk.tick(at(check)).len(), 1);
        assert!(!desk.is_slow(0) && !desk.is_slow(1) && !desk.is_slow(2));
        assert_eq!(desk.policy.deadline(), Some(at(check + 10)));
        assert_eq!(desk.tick(at(check + 10)).len(), 1);
        assert!(desk.is_slow(0));
    }
}

/// While job 0 is let go it blocks nobody, and the SLOW flows that stay have the share to themselves.
#[test]
fn a_flow_let_go_blocks_nobody_and_takes_no_share() {
    let mut desk = starving();
    let node = |number| host(&desk.network, number);
    let (two, one, three) = (node(2), node(1), node(3));
    let zero = node(0);
    desk.tell(at(110), job_start(2));
    desk.tell(at(110), request(2, 3, zero, three, 2000));
    assert_eq!(desk.limits[&model::FlowId(3)], Rate::from_bps(500_000));
    desk.tick(at(120));
    assert!(!desk.is_slow(0));
    assert_eq!(desk.limits[&model::FlowId(3)], Rate::from_mbps(1));
    desk.tell(at(121), job_start(3));
    desk.tell(at(121), request(3, 4, two, one, 5000));
    assert!(!desk.is_slow(4), "flow 0 into host 1 only transmits by exception");
    desk.tick(at(130));
    assert_eq!(desk.limits[&model::FlowId(0)], Rate::from_bps(500_000));
    assert_eq!(desk.limits[&model::FlowId(3)], Rate::from_bps(500_000));
}

/// What blocked a flow ends while it is let go: it transmits in its own right and goes on doing so.
#[test]
fn an_exception_that_turns_into_a_right_stays() {
    let mut desk = starving();
    desk.tick(at(120));
    desk.tell(at(123), flow_complete(1, 1));
    desk.tell(at(124), flow_complete(1, 2));
    assert!(!desk.is_slow(0));
    assert_eq!(desk.policy.deadline(), Some(at(130)), "the exception still ends");
    assert_eq!(desk.tick(at(130)), []);
    assert!(!desk.is_slow(0));
    assert_eq!(desk.policy.deadline(), None);
}

/// An exception ends with its flow: another flow of the same number has none.
#[test]
fn an_exception_is_not_inherited() {
    let mut desk = starving();
    desk.tick(at(120));
    assert!(!desk.is_slow(0));
    desk.tell(at(121), flow_complete(0, 0));
    let (zero, one) = (host(&desk.network, 0), host(&desk.network, 1));
    desk.tell(at(122), request(0, 0, zero, one, 1000));
    assert!(desk.is_slow(0));
}

/// An observation at the very moment of a check doesn't put it off.
#[test]
fn observations_do_not_put_a_check_off() {
    let mut desk = starving();
    let node = |number| host(&desk.network, number);
    let (zero, one) = (node(0), node(1));
    desk.tick(at(100));
    desk.tell(at(120), request(1, 9, zero, one, 10));
    desk.tell(at(121), request(1, 10, zero, one, 10));
    assert_eq!(desk.policy.deadline(), Some(at(120)));
    desk.tick(at(121));
    assert!(!desk.is_slow(0));
    assert_eq!(desk.policy.deadline(), Some(at(131)));
}

#[test]
fn parameters_outside_their_range_are_refused() {
    let make = |period, duration| {
        let parameters = Parameters::default().with("period", period).with("duration", duration);
        by_name("smsf", &parameters).err()
    };
    let second = Span::from_secs(1);
    assert_eq!(make(second, second), None);
    for (period, duration) in [
        (Span::from_nanos(1), Span::from_nanos(1)),
        (Span::ZERO, Span::ZERO),
        (second, Span::ZERO),
        (second, second + second),
    ] {
        let error = make(period, duration).unwrap();
        assert!(error.parameter().is_some_and(|name| ["period", "duration"].contains(&name)));
    }
}
