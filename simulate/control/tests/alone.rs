//! Without faults, through the whole controller and its agents comes what the policy alone gives that is built alike.
#![allow(clippy::unwrap_used)] // a test may panic

mod shuffles;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ::policy::{Messages, Policy};
use model::{Declared, Directive, Directives, Flow, FlowId, JobId, Network, Observation, TaskId};
use shuffles::{Case, NONE, built, gives_priorities, policy};
use units::{Bytes, Span, Time};
use watermaster_simulated_controller::{Faults, SimulatedController};

const LEASE: Span = Span::from_secs(10);

fn ends(case: &Case, policy: Option<Box<dyn Policy + '_>>) -> Vec<Time> {
    let outcome = case.run(policy);
    outcome.flows.iter().map(|flow| flow.end.expect("every flow ends")).collect()
}

/// When the world was told another priority of a flow, and which.
type Priorities = BTreeMap<FlowId, Vec<(Time, u8)>>;

/// A policy of which it is noted what priorities it tells the world, of flows that haven't ended.
struct Noted<'a> {
    inner: Box<dyn Policy + 'a>,
    told: Rc<RefCell<Priorities>>,
    ended: BTreeSet<FlowId>,
}

impl Policy for Noted<'_> {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        if let Observation::Declared(Declared::FlowComplete { flow, .. }) = observation {
            self.ended.insert(*flow);
        }
        self.inner.observe(now, network, observation);
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        let from = out.len();
        self.inner.decide(now, network, out);
        for directive in &out[from..] {
            if let Directive::Prioritize { flow, priority } = *directive
                && !self.ended.contains(&flow)
            {
                let mut told = self.told.borrow_mut();
                let past = told.entry(flow).or_default();
                // Of one time the last counts.
                past.pop_if(|(at, _)| *at == now);
                // Every flow begins with 0.
                if past.last().map_or(0, |(_, before)| *before) != priority {
                    past.push((now, priority));
                }
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }

    fn paces_all(&self) -> bool {
        self.inner.paces_all()
    }
}

/// When flows end, and their priorities.
fn seen(case: &Case, policy: Box<dyn Policy + '_>) -> (Vec<Time>, Priorities) {
    let told = Rc::new(RefCell::new(Priorities::new()));
    let noted = Noted { inner: policy, told: Rc::clone(&told), ended: BTreeSet::new() };
    let ends = ends(case, Some(Box::new(noted)));
    let mut told = told.take();
    told.retain(|_, past| !past.is_empty());
    (ends, told)
}

/// Those that decide by what applications declare alone.
fn policies() -> impl Iterator<Item = &'static str> {
    let all = ::policy::POLICIES.iter().filter(|policy| policy.needs.is_empty());
    all.map(|policy| policy.name)
}

/// The policies and seeds of cases that end otherwise under the whole controller, or whose flows have other priorities,
/// whether messages cost or not.
fn apart(cases: impl Iterator<Item = (u64, Case)>) -> Vec<String> {
    let differs = |(seed, case): (u64, Case)| {
        let name = &*case.policy;
        let is_apart = |messages: &Messages| {
            let make = || built(name, *messages);
            let alone = seen(&case, make());
            assert_eq!(alone.1.is_empty(), !gives_priorities(name), "{name}, seed {seed}");
            let whole = SimulatedController::new(Box::new(make), LEASE, NONE, seed);
            let lost = whole.not_taken();
            alone != seen(&case, Box::new(whole)) || lost().is_some()
        };
        let apart = [Messages::Free, Messages::Costly].into_iter().find(is_apart);
        apart.map(|messages| format!("{name}, seed {seed}, {messages:?}"))
    };
    cases.filter_map(differs).collect()
}

#[test]
fn without_faults_it_is_the_policy_alone() {
    let each = (0..).zip(policies().flat_map(|name| [name; 3]));
    assert_eq!(apart(each.map(|(seed, name)| (seed, Case::draw(seed, name)))), [""; 0]);
}

#[test]
fn with_ties_it_is_too() {
    let each = policies().flat_map(|name| (0..4).map(move |seed| (seed, name)));
    assert_eq!(apart(each.map(|(seed, name)| (seed, Case::draw_tied(seed, name)))), [""; 0]);
}

/// Two flows of one map to one reduce, and a job whose turn depends on what both are together.
#[test]
fn several_flows_between_two_tasks_are_one_portion() {
    let mut case = Case::draw(1, "smsf");
    let (mut large, mut small) = (case.jobs[0].clone(), case.jobs[1].clone());
    let first = Flow { from: TaskId(0), size: Bytes::new(5_000_000), ..large.flows[0] };
    let second = Flow { size: Bytes::new(1_000_000), ..first };
    (large.flows, large.arrival) = (vec![first, second], Time::ZERO);
    (small.flows, small.arrival) =
        (vec![Flow { size: Bytes::new(3_000_000), ..first }], Time::ZERO + Span::from_millis(50));
    case.jobs = vec![large, small];
    let alone = ends(&case, Some(policy("smsf")));
    assert!(alone[2] < alone[0], "the job whose flows are less together goes first");
    let whole = SimulatedController::new(Box::new(|| policy("smsf")), LEASE, NONE, 1);
    let lost = whole.not_taken();
    assert_eq!(alone, ends(&case, Some(Box::new(whole))));
    assert_eq!(lost(), None);
}

#[test]
fn what_the_controller_refuses_is_counted() {
    let case = Case::draw(1, "smsf");
    let network = Network::new(case.topology);
    let mut whole = SimulatedController::new(Box::new(|| policy("smsf")), LEASE, NONE, 1);
    let job = JobId(1);
    let twice = vec![(TaskId(1), Bytes::new(1)), (TaskId(1), Bytes::new(2))];
    for said in [
        Declared::JobStart { job, application: "a".into() },
        Declared::Size { job, map: TaskId(0), reduces: twice },
    ] {
        whole.observe(Time::ZERO, &network, &Observation::Declared(said));
    }
    let lost = whole.not_taken()().unwrap();
    assert!(lost.contains("1 declarations NOT TAKEN") && lost.contains("stands twice"), "{lost}");
}

#[test]
fn limits_have_an_effect_and_so_have_faults() {
    let case = Case::draw(1, "smsf");
    let plain = ends(&case, None);
    let with = |faults| {
        let whole = SimulatedController::new(Box::new(|| policy("smsf")), LEASE, faults, 1);
        ends(&case, Some(Box::new(whole)))
    };
    let sound = with(NONE);
    assert_ne!(plain, sound);
    assert_ne!(sound, with(Faults { jitter: Span::from_secs(1), ..NONE }));
    assert_ne!(sound, with(Faults { loss: 0.5, ..NONE }));
}
