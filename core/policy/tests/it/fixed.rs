//! `static`: the n-th flow has the n-th rate, however often it is announced.

use model::{Directive, FlowId};
use units::{Rate, Time};
use watermaster_policy::{Parameters, by_name};

use crate::desk::{Desk, big_switch, flow_complete, host, job_complete, job_start, request};

fn desk() -> Desk {
    let rates: Vec<Rate> = [4, 3, 2, 1].map(Rate::from_mbps).to_vec();
    let policy = by_name("static", &Parameters::default().with("rates", rates)).unwrap();
    let mut desk = Desk::new(big_switch(3, Rate::from_mbps(100)), policy);
    desk.tell(Time::ZERO, job_start(1));
    desk
}

/// Announces a flow; the rate that it is given.
fn asked(desk: &mut Desk, flow: u32) -> Option<Rate> {
    let ends = (host(&desk.network, 0), host(&desk.network, 1));
    let said = desk.tell(Time::ZERO, request(1, flow, ends.0, ends.1, 1));
    desk.limits.clear();
    match said[..] {
        [] => None,
        [Directive::Pace { flow: of, limit }] if of == FlowId(flow) => limit,
        _ => panic!("{said:?}"),
    }
}

#[test]
fn a_flow_that_is_announced_again_keeps_its_rate() {
    let mut desk = desk();
    assert_eq!(asked(&mut desk, 1), Some(Rate::from_mbps(4)));
    assert_eq!(asked(&mut desk, 2), Some(Rate::from_mbps(3)));
    for _ in 0..3 {
        // As when its size was contradicted: it ends and enters again before anything is decided.
        desk.together = true;
        desk.tell(Time::ZERO, flow_complete(1, 1));
        desk.together = false;
        assert_eq!(asked(&mut desk, 1), Some(Rate::from_mbps(4)));
    }
    assert_eq!(asked(&mut desk, 3), Some(Rate::from_mbps(2)));
}

#[test]
fn another_flow_of_the_same_number_has_the_next_rate() {
    let mut desk = desk();
    assert_eq!(asked(&mut desk, 1), Some(Rate::from_mbps(4)));
    desk.tell(Time::ZERO, flow_complete(1, 1));
    assert_eq!(asked(&mut desk, 1), Some(Rate::from_mbps(3)));
    desk.tell(Time::ZERO, job_complete(1));
    desk.tell(Time::ZERO, job_start(1));
    assert_eq!(asked(&mut desk, 1), Some(Rate::from_mbps(2)));
}
