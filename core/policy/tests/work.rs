//! What turns of decisions cost, counted.
#![allow(clippy::unwrap_used)] // a test may panic

use model::{Buffer, Declared, Directives, FlowId, JobId, Network};
use testing::allocation::{Counting, grows_no_faster_than_its_input};
use testing::network::{host, hosts, link};
use units::{Bytes, Time};
use watermaster_policy::{Parameters, by_name};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Two jobs say their flows one by one, each of which makes the job's largest traffic larger, and so its
/// rank another. Flows are ranked anew once, when something is decided.
#[test]
fn jobs_whose_rank_changes_with_every_flow_are_ranked_once_a_turn() {
    let topology = hosts(2, link(100, 0, Buffer::Unlimited));
    let [src, dst] = ["h0", "h1"].map(|name| host(&topology, name));
    let network = Network::new(topology);
    grows_no_faster_than_its_input(1_000, |flows| {
        let mut policy = by_name("smsf", &Parameters::default()).unwrap();
        let mut out = Directives::new();
        for job in [0, 1].map(JobId) {
            policy.observe(
                Time::ZERO,
                &network,
                &Declared::JobStart { job, application: "".into() }.into(),
            );
        }
        // In the second turn some transmit already, and others wait.
        for turn in [0..flows / 2, flows / 2..flows] {
            for flow in turn.map(FlowId) {
                let (job, size) = (JobId(flow.0 % 2), Bytes::new(1_000));
                let request = Declared::FlowRequest { job, flow, src, dst, size };
                policy.observe(Time::ZERO, &network, &request.into());
            }
            policy.decide(Time::ZERO, &network, &mut out);
        }
        assert!(out.len() >= flows as usize / 2, "those of one job wait");
    });
}

/// A job says its flows one by one, and something is decided each time. Each makes the job's largest traffic
/// larger: its links hear of the new rank, not each flow that it has.
#[test]
fn a_rank_that_changes_with_every_decision_is_told_to_links() {
    let topology = hosts(2, link(100, 0, Buffer::Unlimited));
    let [src, dst] = ["h0", "h1"].map(|name| host(&topology, name));
    let network = Network::new(topology);
    grows_no_faster_than_its_input(300, |flows| {
        let mut policy = by_name("smsf", &Parameters::default()).unwrap();
        let mut out = Directives::new();
        let job = JobId(0);
        let start = Declared::JobStart { job, application: "".into() };
        policy.observe(Time::ZERO, &network, &start.into());
        for flow in (0..flows).map(FlowId) {
            let request = Declared::FlowRequest { job, flow, src, dst, size: Bytes::new(1_000) };
            policy.observe(Time::ZERO, &network, &request.into());
            policy.decide(Time::ZERO, &network, &mut out);
        }
        assert!(out.is_empty(), "nobody waits");
    });
}
