//! Small shuffles on two racks, drawn by a seed.
#![allow(dead_code)] // each test uses a part of it

use engine::random::Stream;
use model::build;
use model::{Buffer, Flow, Job, JobId, TaskId, Terms, Topology};
use packet::{Discipline, Jobs, Outcome, Setup, Transport};
use policy::{Aim, DirectiveKind, Messages, Objective, Parameters, Policy};
use rand::RngExt as _;
use testing::network;
use testing::packet::{outcome, setup};
use units::{Bytes, Rate, Span, Time};
use watermaster_simulated_controller::Faults;

pub const CAPACITY: Rate = Rate::from_mbps(20);
pub const NONE: Faults =
    Faults { jitter: Span::ZERO, loss: 0.0, cut: None, death: None, crash: None, failure: 0.0 };

/// A policy with its defaults; `static` and `arbiter`, which do nothing by default, have something to do.
pub fn policy(name: &str) -> Box<dyn Policy + Send> {
    built(name, Messages::Free)
}

/// The same where messages cost so much.
pub fn built(name: &str, messages: Messages) -> Box<dyn Policy + Send> {
    let parameters = Parameters::default().at_cost(messages);
    let parameters = match name {
        "static" => {
            let rates: Vec<Rate> = (1..40).map(|flow| Rate::from_bps(200_000 * flow)).collect();
            let levels: Vec<u8> = (0..40).map(|flow| flow % 3).collect();
            parameters.with("rates", rates).with("levels", levels)
        }
        // The class of the background isn't the one where every flow begins.
        "arbiter" => parameters.with("priorities", true).under(vec![Objective {
            name: "all".into(),
            applications: vec![engine::UNNAMED.into()],
            policy: policy::find("srpt").unwrap(),
            parameters: Parameters::default(),
            aim: Aim::Background,
        }]),
        _ => parameters,
    };
    policy::by_name(name, &parameters).unwrap()
}

/// Policies that decide by what applications declare alone, and together give flows no more than links carry. `static`
/// gives what it was given.
pub fn sparing() -> Vec<&'static str> {
    let alone = policy::POLICIES.iter().filter(|policy| policy.needs.is_empty());
    let acting = alone.filter(|policy| policy.is_live() && !policy.is_passive());
    acting.map(|policy| policy.name).filter(|name| *name != "static").collect()
}

/// Whether a policy gives flows priorities.
pub fn gives_priorities(name: &str) -> bool {
    policy::find(name).unwrap().directives.contains(&DirectiveKind::Prioritize)
}

/// What moves where.
pub struct Case {
    pub policy: String,
    pub topology: Topology,
    pub jobs: Vec<Job>,
}

impl Case {
    /// Jobs of some flows each, over some twenty seconds.
    pub fn draw(seed: u64, policy: &str) -> Self {
        let mut chance = Stream::named(seed, "case");
        let link = network::link(20, 100, Buffer::Packets(50));
        let racks = chance.random_range(1..4);
        let topology = build::dumbbell(racks, racks, &network::access(link), &link).unwrap();
        let hosts: Vec<_> = topology.hosts().collect();
        let mut jobs = Vec::new();
        let mut arrival = Time::ZERO;
        for id in 0..chance.random_range(2..7) {
            let mut flow = |task: usize| {
                let from = chance.random_range(0..hosts.len());
                let to = (from + chance.random_range(1..hosts.len())) % hosts.len();
                Flow {
                    src: hosts[from],
                    dst: hosts[to],
                    from: TaskId(u32::try_from(task).unwrap()),
                    to: TaskId(100),
                    size: Bytes::new(chance.random_range(100_000..8_000_000)),
                    offset: Span::ZERO,
                }
            };
            let flows = (0..3).map(&mut flow).collect();
            jobs.push(Job { id: JobId(id), arrival, class: None, terms: Terms::default(), flows });
            arrival += Span::from_millis(chance.random_range(0..2_000));
        }
        Self { policy: policy.into(), topology, jobs }
    }

    /// Flows and jobs that tie with others, of few sizes and several at once, and come when others have
    /// ended, whose numbers the controller gives again.
    pub fn draw_tied(seed: u64, policy: &str) -> Self {
        let mut case = Self::draw(seed, policy);
        let mut chance = Stream::named(seed, "ties");
        let hosts: Vec<_> = case.topology.hosts().collect();
        case.jobs.clear();
        for id in 0..12 {
            let arrival = Time::ZERO + Span::from_secs(u64::from(id / 3));
            let mut flow = || {
                let from = chance.random_range(0..hosts.len());
                let to = (from + chance.random_range(1..hosts.len())) % hosts.len();
                // A host runs one map and one reduce, between which there may be several flows.
                let task = |number: usize| TaskId(u32::try_from(number).unwrap());
                let size = Bytes::new(100_000 << chance.random_range(0..3));
                let (src, dst, offset) = (hosts[from], hosts[to], Span::ZERO);
                Flow { src, dst, from: task(from), to: task(10 + to), size, offset }
            };
            let flows = (0..3).map(|_| flow()).collect();
            let (id, terms) = (JobId(id), Terms::default());
            case.jobs.push(Job { id, arrival, class: None, terms, flows });
        }
        case
    }

    pub fn run<'a>(&self, policy: Option<Box<dyn Policy + 'a>>) -> Outcome {
        let jobs = Box::new(Jobs::new(self.jobs.clone().into_iter()));
        let setup = setup(self.topology.clone(), Transport::default(), jobs);
        let switch_queue = if gives_priorities(&self.policy) {
            Discipline::StrictPriority
        } else {
            Discipline::Fifo
        };
        let until = Time::ZERO + Span::from_secs(600);
        outcome(Setup { policy, switch_queue, until, ..setup })
    }
}
