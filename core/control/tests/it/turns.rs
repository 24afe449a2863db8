//! What is divided over turns, answers and requests, is what it would be in one piece.

use crate::decide::{named, report, rig, sampled};
use crate::in_memory::{Rig, SECOND, Shape, connection};
use proptest::prelude::*;
use protocol::Processes;
use protocol::application::Declaration;
use units::{Bytes, Rate, Span, Time};
use watermaster_control::question::{
    ExplainFlow, ExplainJob, Flows, FlowsOf, Jobs, Overview, Question,
};
use watermaster_control::{Answers, Controller, FlowStatus, Input};

fn in_parts<Q: Question>(answers: &Answers<'_>, mut question: Q, most: usize) -> Q::Answer {
    loop {
        if let Some(answer) = question.go_on(answers, most) {
            return answer;
        }
    }
}

/// Where nothing changes, answers in parts are those in one piece.
pub fn assert_alike(answers: &Answers<'_>) {
    for most in [1, 3] {
        let status = answers.status();
        assert_eq!(in_parts(answers, Overview::default(), most), status);
        for limit in [0, 2, usize::MAX] {
            assert_eq!(in_parts(answers, Flows::new(limit), most), answers.flows(limit));
            for application in status.applications.iter().map(|of| &*of.name) {
                let told = in_parts(answers, FlowsOf::new(application, limit), most);
                assert_eq!(told, answers.flows_of(application, limit));
            }
        }
        let jobs = answers.jobs(None);
        assert_eq!(in_parts(answers, Jobs::new(None), most), jobs);
        for of in &jobs {
            let told = in_parts(answers, Jobs::new(Some(&of.application)), most);
            assert_eq!(told, answers.jobs(Some(&of.application)));
            let told = in_parts(answers, ExplainJob::new(&of.application, &of.job), most);
            assert_eq!(told, answers.explain_job(&of.application, &of.job));
        }
        for FlowStatus { application, job, flow, .. } in answers.flows(3) {
            let told = in_parts(answers, ExplainFlow::new(&application, &job, &flow), most);
            assert_eq!(told, answers.explain_flow(&application, &job, &flow));
        }
    }
}

fn start(job: u64) -> Declaration {
    Declaration::JobStart { job: job.to_string() }
}

/// A flow of one of three jobs.
fn request(flow: u64, bytes: u64) -> Declaration {
    Declaration::FlowRequest {
        job: (flow % 3).to_string(),
        flow: flow.to_string(),
        connection: connection(0, 3, u16::try_from(1_000 + flow).unwrap()),
        processes: Processes::default(),
        bytes: Some(Bytes::new(bytes)),
    }
}

fn complete(flow: u64) -> Declaration {
    Declaration::FlowComplete { job: (flow % 3).to_string(), flow: flow.to_string() }
}

/// Forty flows of three jobs.
fn crowd() -> Rig {
    let mut rig = rig("smsf");
    rig.agent("left", &[0, 1, 2]);
    for declaration in (0..3).map(start).chain((0..40).map(|flow| request(flow, 1_000_000))) {
        rig.declare("app", declaration).unwrap();
    }
    rig
}

#[test]
fn answers_in_parts_are_those_in_one_piece() {
    let rig = crowd();
    let answers = rig.controller.at(rig.now);
    assert_alike(&answers);
    // And those are whole.
    let jobs = answers.jobs(None);
    assert_eq!(jobs.iter().map(|job| job.flows).collect::<Vec<_>>(), [14, 13, 13]);
    assert_eq!((answers.flows(usize::MAX).len(), answers.flows(7).len()), (40, 7));
    let listed = answers.flows_of("app", 7);
    assert_eq!((listed.flows.len(), listed.more), (7, 33));
    let explained = answers.explain_job("app", "0").unwrap();
    assert_eq!((explained.flows.len(), explained.more), (14, 0));
    let bottleneck = explained.flows[0].bottleneck.as_ref().unwrap();
    assert_eq!((bottleneck.rivals.len(), bottleneck.more), (10, 29));
    let links = answers.status().links;
    assert_eq!(links.iter().map(|link| link.flows).max(), Some(40));
}

/// Flows that were declared just so, and the connections from these ports, which each of them has.
fn over(flows: u64, ports: &[u16]) -> Rig {
    let mut rig = rig("smsf");
    let agent = rig.agent("left", &[0, 1, 2]);
    rig.start("app", "job");
    for flow in 1..=flows {
        rig.flow("app", "job", flow, connection(0, 3, 0), None).unwrap();
    }
    rig.pass(SECOND);
    let seen: Vec<_> = ports.iter().map(|port| report(connection(0, 3, *port), 0, 1_000)).collect();
    let seen = sampled(rig.now, &seen);
    rig.input(Input::Reported(agent, &seen)).unwrap();
    rig.pass(Span::ZERO);
    rig
}

/// In whatever order they were seen.
#[test]
fn of_many_connections_the_first_are_named_and_the_others_counted() {
    let ports: Vec<u16> = (1..=20).rev().collect();
    for (ports, more) in [(&ports[..], 4), (&ports[4..], 0)] {
        let rig = over(2, ports);
        for flow in rig.controller.at(rig.now).flows(2) {
            let first: Vec<_> = (1..=16).map(|port| connection(0, 3, port)).collect();
            assert_eq!((flow.carriers, flow.more_carriers), (first, more));
        }
    }
}

/// Each connection of a flow is looked at, and each flow that was declared just so has all of them.
#[test]
fn a_flow_of_many_connections_takes_as_many_steps() {
    let rig = over(4, &[1, 2, 3, 4, 5, 6]);
    let answers = rig.controller.at(rig.now);
    let connections: Vec<_> = answers.flows(9).iter().map(|flow| flow.carriers.len()).collect();
    assert_eq!(connections, [6; 4]);
    assert_alike(&answers);
    // One part for each flow that is looked at, one for each that is told of, and the end.
    let mut question = Flows::new(9);
    let parts = (1..).find(|_| question.go_on(&answers, 6).is_some());
    assert_eq!(parts, Some(9));
}

/// What is told of the flows while between two parts one with an odd number ends and another begins, which may be given
/// its number.
fn told<Q: Question>(mut question: Q, names: impl Fn(Q::Answer) -> Vec<String>) -> Vec<u64> {
    let mut rig = crowd();
    for round in 0.. {
        if let Some(answer) = question.go_on(&rig.controller.at(rig.now), 2) {
            return names(answer).iter().map(|name| name.parse().unwrap()).collect();
        }
        if round < 20 {
            rig.declare("app", complete(2 * round + 1)).unwrap();
            rig.declare("app", request(100 + round, 1)).unwrap();
        }
    }
    unreachable!("it is answered")
}

/// Once each, and nobody else more often.
#[test]
fn who_stays_while_others_come_and_go_is_told_once() {
    let of_job = |job: u64| {
        told(ExplainJob::new("app", &job.to_string()), |found| {
            found.unwrap().flows.into_iter().map(|of| of.flow.flow).collect()
        })
    };
    let names = |flows: Vec<FlowStatus>| flows.into_iter().map(|of| of.flow).collect::<Vec<_>>();
    let all: [Vec<u64>; 3] = [
        told(Flows::new(usize::MAX), names),
        told(FlowsOf::new("app", usize::MAX), |found| names(found.flows)),
        (0..3).flat_map(of_job).collect(),
    ];
    for mut told in all {
        told.sort_unstable();
        let count = told.len();
        told.dedup();
        assert_eq!(told.len(), count, "nobody is told twice: {told:?}");
        assert!((0..40).step_by(2).all(|stays| told.contains(&stays)), "{told:?}");
    }
}

/// The flows of others are nothing to it.
#[test]
fn a_job_without_flows_is_explained_at_once() {
    let mut rig = crowd();
    rig.declare("app", start(9)).unwrap();
    let answers = rig.controller.at(rig.now);
    let mut question = ExplainJob::new("app", "9");
    // It is listed, and told of.
    let parts = (1..).find(|_| question.go_on(&answers, 2).is_some());
    assert_eq!(parts, Some(2));
}

/// As one more: it is there.
#[test]
fn a_flow_that_comes_behind_the_place_of_an_answer_is_counted() {
    let mut rig = crowd();
    let mut question = FlowsOf::new("app", usize::MAX);
    // The job, and its flows 0, 12 and 15, as names are in order.
    assert!(question.go_on(&rig.controller.at(rig.now), 4).is_none());
    rig.declare("app", request(102, 1)).unwrap();
    let found = in_parts(&rig.controller.at(rig.now), question, 4);
    assert_eq!((found.flows.len(), found.more), (40, 1));
}

/// What is wanted of each flow after a request of which `each` declarations are taken in with a turn.
fn wanted(policy: &str, request: &[Declaration], each: usize) -> Vec<(String, Option<Rate>)> {
    let config = Shape::racks(3).config(policy, named(policy), true);
    let mut controller = Controller::new(config, 1, Time::ZERO).unwrap();
    for part in request.chunks(each) {
        for declaration in part {
            let input = Input::Declared { application: "app", declaration };
            controller.observe(Time::ZERO, input).unwrap();
        }
        controller.end_turn(Time::ZERO, &mut Vec::new());
    }
    let flows = controller.at(Time::ZERO).flows(usize::MAX);
    flows.into_iter().map(|flow| (flow.flow, flow.intended_bps)).collect()
}

proptest! {
    #[test]
    fn a_request_in_turns_leaves_what_it_leaves_in_one(
        policy in prop::sample::select(vec!["fair", "smsf", "sff"]),
        sizes in prop::collection::vec(1_u64..1_000_000, 1..40),
        each in 1_usize..8,
    ) {
        let requests = (0..).zip(&sizes).map(|(flow, bytes)| request(flow, *bytes));
        let all: Vec<_> = (0..3).map(start).chain(requests).collect();
        prop_assert_eq!(wanted(policy, &all, each), wanted(policy, &all, all.len()));
    }
}
