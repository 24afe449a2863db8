//! The client for applications against a model of what a controller remembers, through random
//! histories of declarations, lost connections, lost answers, refusals, and new epochs.
#![allow(clippy::unwrap_used)] // a test may panic

mod later;

use std::collections::BTreeMap;

use proptest::prelude::*;
use units::{Bytes, Span, Time};
use watermaster_protocol::application::{
    Declaration, Outcome, Portion, Problem, RefusedDeclaration, StreamReport,
};
use watermaster_protocol::client::{Account, Action, Client, KEEP_ALIVE, Limits};
use watermaster_protocol::{Connection, Process, Processes};

type Job = BTreeMap<String, Declaration>;

/// What holds by the meaning of the messages; as an application sees it, or a controller.
#[derive(Clone, Debug, Default, PartialEq)]
struct Held(BTreeMap<String, Job>);

impl Held {
    /// Takes a declaration in; the field at fault where a controller would refuse it.
    fn take(&mut self, said: &Declaration) -> Option<&'static str> {
        use Declaration::*;
        let fault = |is_right: bool, field| (!is_right).then_some(field);
        if let JobStart { job } = said {
            self.0.entry(job.clone()).or_default();
            return None;
        }
        let Some(held) = self.0.get_mut(said.job()) else { return Some("job") };
        match said {
            JobStart { .. } => unreachable!(),
            JobComplete { job } => {
                self.0.remove(job);
                None
            }
            JobTerms { .. } => {
                held.insert("terms".into(), said.clone());
                None
            }
            TaskHost { task, .. } => {
                held.insert(format!("task {task}"), said.clone());
                None
            }
            Size { map, .. } => {
                held.insert(format!("size {map}"), said.clone());
                None
            }
            FlowRequest { flow, .. } => {
                let before = held.entry(format!("flow {flow}")).or_insert(said.clone());
                let is_same = sized(before.clone(), None) == sized(said.clone(), None);
                if is_same {
                    *before = said.clone();
                }
                fault(is_same, "flow")
            }
            FlowComplete { flow, .. } => {
                fault(held.remove(&format!("flow {flow}")).is_some(), "flow")
            }
            Streams { samples, .. } => {
                let is_known =
                    samples.iter().all(|s| held.contains_key(&format!("flow {}", s.flow)));
                fault(is_known, "flow")
            }
        }
    }

    /// How much it is.
    fn amount(&self) -> usize {
        self.0.values().map(|held| 1 + held.len()).sum()
    }

    /// What a client says that holds.
    fn of(client: &Client) -> Self {
        let mut held = Self::default();
        for said in client.holds() {
            assert_eq!(held.take(said), None, "{said:?} comes before what it refers to");
        }
        held
    }

    /// Without what the controller never takes.
    fn acceptable(mut self) -> Self {
        self.0.retain(|job, _| !is_unwanted_job(job));
        for held in self.0.values_mut() {
            held.retain(|_, said| !is_unwanted(said));
        }
        self
    }
}

fn is_unwanted_job(job: &str) -> bool {
    job == "\u{1}\""
}

/// What the model always refuses.
fn is_unwanted(said: &Declaration) -> bool {
    match said {
        Declaration::JobStart { job } => is_unwanted_job(job),
        Declaration::FlowRequest { flow, .. } => flow == "3",
        _ => false,
    }
}

/// A controller, and what becomes of a request.
struct Controller {
    epoch: u64,
    held: Held,
    /// Most declarations in a request.
    most: usize,
    /// More than that it takes later.
    room: usize,
}

impl Controller {
    /// Looks at the first `budget` declarations at most; nothing where the request is too long.
    fn declare(&mut self, said: &[Declaration], budget: usize) -> Option<Outcome> {
        if said.len() > self.most {
            return None;
        }
        let mut outcome = Outcome { epoch: self.epoch, ..Outcome::default() };
        for (index, declaration) in (0..).zip(said) {
            if index >= budget as u64 {
                outcome.rest = Some(index);
                break;
            }
            let mut held = self.held.clone();
            let fault =
                if is_unwanted(declaration) { Some("flow") } else { held.take(declaration) };
            let later = fault.is_none() && held.amount() > self.room.max(self.held.amount());
            if fault.is_none() && !later {
                self.held = held;
                outcome.taken += 1;
            } else {
                let (field, reason) = (fault.unwrap_or("flow").into(), "because".into());
                outcome.refused.push(RefusedDeclaration { index, field, reason, later });
            }
        }
        Some(outcome)
    }
}

/// What becomes of one thing that the client wants.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// After so many declarations the application was too fast.
    TooFast(usize),
    /// The controller took it in and the answer was lost.
    AnswerLost,
    /// It never arrived.
    Lost,
    /// The controller is ending.
    Ending,
}

#[derive(Clone, Debug)]
enum Step {
    Declare(Declaration),
    /// The size of an open flow is corrected, and the flow may end before anybody hears of that.
    Correct {
        nth: usize,
        size: Option<u64>,
        ends: bool,
    },
    Poll(Fate),
    /// The connection breaks while nothing is under way, and the same controller may have forgotten
    /// the application until it is back.
    Break(bool),
    /// The controller forgets a job, or all, and the connection stands: a client hears of it only where it says something
    /// of the job.
    Forget(Option<&'static str>),
    NewController,
    /// Another controller answers on the same connection.
    Replaced,
    /// The controller has room for so much.
    Room(usize),
    Pass(u64),
}

struct World {
    /// What was declared.
    application: Held,
    client: Client,
    controller: Controller,
    now: Time,
    limits: Limits,
    /// The controller has forgotten something that the client may not have heard of.
    has_forgotten: bool,
}

impl World {
    fn new(limits: Limits, most: usize) -> Self {
        let controller = Controller { epoch: 1, held: Held::default(), most, room: usize::MAX };
        let (application, client) = (Held::default(), Client::new(limits));
        let (now, has_forgotten) = (Time::ZERO, false);
        Self { application, client, controller, now, limits, has_forgotten }
    }

    fn declare(&mut self, said: Declaration) {
        self.application.take(&said);
        self.client.declare(said);
    }

    fn lose(&mut self) {
        self.client.lost(self.now, "cut", 7 << 28);
    }

    /// Does one thing that the client wants now; whether there was one.
    fn poll(&mut self, fate: Fate) -> bool {
        let Some(action) = self.client.poll(self.now) else { return false };
        let said: Vec<Declaration> = match action {
            Action::Connect => {
                match fate {
                    Fate::Lost => self.lose(),
                    _ => self.client.connected(self.now),
                }
                return true;
            }
            Action::Health => {
                match fate {
                    Fate::Lost | Fate::AnswerLost | Fate::Ending => self.lose(),
                    _ => self.client.healthy(self.now, self.controller.epoch),
                }
                return true;
            }
            Action::Declare(said) => said.into_iter().cloned().collect(),
        };
        assert!(!said.is_empty() && said.len() <= self.limits.declarations);
        let octets = serde_json::to_string(&said).unwrap().len();
        assert!(octets <= self.limits.octets || said.len() == 1, "{octets} octets");
        let budget = if let Fate::TooFast(budget) = fate { budget } else { usize::MAX };
        match fate {
            Fate::Lost => {
                return {
                    self.lose();
                    true
                };
            }
            Fate::Ending => {
                self.client.refused(self.now, 503, &Problem::default(), 0);
                return true;
            }
            _ => {}
        }
        let answer = self.controller.declare(&said, budget);
        match (fate, answer) {
            (Fate::AnswerLost, _) => self.lose(),
            (_, Some(outcome)) => self.client.answered(self.now, &outcome, 0),
            (_, None) => self.client.refused(self.now, 400, &Problem::default(), 0),
        }
        true
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Declare(said) => self.declare(said),
            Step::Correct { nth, size, ends } => {
                let is_flow = |said: &&Declaration| matches!(said, Declaration::FlowRequest { .. });
                let Some(said) = self.client.holds().filter(is_flow).nth(nth).cloned() else {
                    return;
                };
                let Declaration::FlowRequest { job, flow, .. } = &said else { return };
                let end = Declaration::FlowComplete { job: job.clone(), flow: flow.clone() };
                self.declare(sized(said, size));
                if ends {
                    self.declare(end);
                }
            }
            Step::Poll(fate) => {
                self.poll(fate);
            }
            Step::Break(forgets) => {
                self.lose();
                if forgets {
                    self.controller.held = Held::default();
                }
            }
            Step::Forget(job) => {
                match job {
                    Some(job) => _ = self.controller.held.0.remove(job),
                    None => self.controller.held = Held::default(),
                }
                self.has_forgotten = true;
            }
            Step::NewController => {
                self.lose();
                self.step(Step::Replaced);
            }
            Step::Replaced => {
                self.controller.epoch += 1;
                self.controller.held = Held::default();
            }
            Step::Room(room) => self.controller.room = room,
            Step::Pass(ms) => self.now += Span::from_millis(ms),
        }
    }

    /// Nothing more goes wrong until all has been said to the controller that there is.
    fn settle(&mut self) {
        self.controller.room = usize::MAX;
        if std::mem::take(&mut self.has_forgotten) {
            self.lose();
        }
        self.now += KEEP_ALIVE;
        self.poll(Fate::Answered);
        for _ in 0..10_000 {
            if self.client.is_settled() {
                return;
            }
            self.now = self.now.max(self.client.deadline().expect("nothing is under way"));
            assert!(self.poll(Fate::Answered), "a deadline and nothing to do");
        }
        panic!("it never settles: {:?}", self.client);
    }
}

fn start(job: &str) -> Declaration {
    Declaration::JobStart { job: job.into() }
}

fn complete(job: &str) -> Declaration {
    Declaration::JobComplete { job: job.into() }
}

fn request(job: &str, flow: u64, port: u16) -> Declaration {
    let source = ([10, 0, 0, 1], port).into();
    let connection = Connection { source, destination: ([10, 0, 0, 2], 80).into() };
    let flow = flow.to_string();
    Declaration::FlowRequest {
        job: job.into(),
        flow,
        connection,
        processes: Processes::default(),
        bytes: Some(Bytes::MAX),
    }
}

/// A request with another size.
fn sized(mut request: Declaration, size: Option<u64>) -> Declaration {
    if let Declaration::FlowRequest { bytes, .. } = &mut request {
        *bytes = size.map(Bytes::new);
    }
    request
}

/// A request with another process at its source.
fn sent_by(process: Option<Process>, mut request: Declaration) -> Declaration {
    if let Declaration::FlowRequest { processes, .. } = &mut request {
        processes.source = process;
    }
    request
}

fn end(job: &str, flow: u64) -> Declaration {
    Declaration::FlowComplete { job: job.into(), flow: flow.to_string() }
}

fn sample(job: &str, flows: &[u64]) -> Declaration {
    let report = |flow: &u64| StreamReport {
        flow: flow.to_string(),
        delivered_bytes: Bytes::MAX,
        sender_queue_bytes: Bytes::MAX,
        receiver_queue_bytes: Bytes::MAX,
    };
    Declaration::Streams { job: job.into(), samples: flows.iter().map(report).collect() }
}

fn declaration() -> impl Strategy<Value = Declaration> {
    let job = || prop::sample::select(vec!["a", "b", "\u{1}\""]);
    let flow = || 0..5u64;
    prop_oneof![
        3 => job().prop_map(start),
        1 => job().prop_map(complete),
        2 => (job(), 0..3u32, 0..3u32).prop_map(|(job, task, host)| Declaration::TaskHost {
            job: job.into(),
            task,
            host: format!("h{host}"),
        }),
        1 => (job(), 0..3u32).prop_map(|(job, weight)| Declaration::JobTerms {
            job: job.into(),
            objective: Some(job.into()),
            deadline_ms: Some(u64::MAX),
            weight: Some(weight),
        }),
        2 => (job(), 0..3u32, 0..4u32).prop_map(|(job, map, reduces)| Declaration::Size {
            job: job.into(),
            map,
            reduces: (0..reduces).map(|task| Portion { task, bytes: Bytes::MAX }).collect(),
        }),
        6 => (job(), flow(), 1..3u16, prop::option::of(1..3u64), prop::option::weighted(0.3, 1..3u32))
            .prop_map(|(job, flow, port, size, process)| {
                let source = process.map(Process::Pid);
                sent_by(source, sized(request(job, flow, port), size))
            }),
        4 => (job(), flow()).prop_map(|(job, flow)| end(job, flow)),
        1 => (job(), prop::collection::vec(flow(), 1..3))
            .prop_map(|(job, flows)| sample(job, &flows)),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Answered),
        1 => (0..3usize).prop_map(Fate::TooFast),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Ending),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => declaration().prop_map(Step::Declare),
        2 => (0..3usize, prop::option::of(1..3u64), any::<bool>())
            .prop_map(|(nth, size, ends)| Step::Correct { nth, size, ends }),
        8 => fate().prop_map(Step::Poll),
        4 => (0..6_000u64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Break),
        1 => prop::sample::select(vec![None, Some("a"), Some("b")]).prop_map(Step::Forget),
        1 => Just(Step::NewController),
        1 => Just(Step::Replaced),
        1 => (0..8usize).prop_map(Step::Room),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever went wrong: once all has been said, the controller has what the application has,
    /// without what it refuses.
    #[test]
    fn in_the_end_the_controller_holds_what_the_application_does(
        steps in prop::collection::vec(step(), 0..150),
        declarations in 1..9usize,
        octets in 400..4_000usize,
        most in 1..9usize,
    ) {
        let limits = Limits { declarations, octets, ..Limits::default() };
        let mut world = World::new(limits, most);
        for step in steps {
            world.step(step);
        }
        world.settle();
        prop_assert_eq!(&world.controller.held, &world.application.clone().acceptable());
        prop_assert_eq!(&world.controller.held, &Held::of(&world.client));
    }

    /// With too little room the client drops what doesn't fit, and what it keeps still agrees.
    #[test]
    fn what_has_no_room_is_dropped_with_all_that_refers_to_it(
        steps in prop::collection::vec(step(), 0..150),
        entries in 0..8usize,
    ) {
        let mut world = World::new(Limits { entries, ..Limits::default() }, usize::MAX);
        for step in steps {
            world.step(step);
            prop_assert!(world.client.holds().count() <= entries);
            prop_assert!(world.client.waiting() <= entries);
        }
        world.settle();
        prop_assert_eq!(&world.controller.held, &Held::of(&world.client));
    }

    /// The bound on a request's octets holds for any text and any number.
    #[test]
    fn a_request_keeps_its_octets(jobs in prop::collection::vec("[\u{1}\"a]{0,200}", 1..20)) {
        let mut world = World::new(Limits { octets: 2_000, ..Limits::default() }, usize::MAX);
        for job in &jobs {
            world.client.declare(start(job));
            world.client.declare(request(job, u64::MAX, u16::MAX));
            world.client.declare(Declaration::TaskHost {
                job: job.clone(), task: u32::MAX, host: job.clone(),
            });
            let reduces = vec![Portion { task: u32::MAX, bytes: Bytes::MAX }; 9];
            world.client.declare(Declaration::Size { job: job.clone(), map: u32::MAX, reduces });
        }
        world.settle();
    }
}

/// The paths of control groups are the longest of what a flow may say.
#[test]
fn a_request_of_flows_with_long_paths_keeps_its_octets() {
    let mut world = World::new(Limits { octets: 20_000, ..Limits::default() }, usize::MAX);
    world.client.declare(start("a"));
    let path = || Some(Process::Cgroup(format!("/{}", "p".repeat(1_000))));
    for flow in 0..50 {
        let mut said = request("a", flow, 1);
        if let Declaration::FlowRequest { processes, .. } = &mut said {
            *processes = Processes { source: path(), destination: path() };
        }
        world.client.declare(said);
    }
    world.settle();
}

#[test]
fn what_is_said_again_is_counted_once_and_what_ended_unsaid_is_not_said() {
    let mut world = World::new(Limits::default(), usize::MAX);
    for said in [start("b"), complete("b"), start("a"), request("a", 1, 1)] {
        world.client.declare(said);
    }
    assert_eq!(world.client.waiting(), 2, "nothing of b");
    world.settle();
    for said in [request("a", 2, 2), end("a", 2)] {
        world.client.declare(said);
    }
    assert!(world.client.is_settled(), "nothing of a flow that ended unsaid");
    world.step(Step::NewController);
    world.settle();
    let account = world.client.account();
    assert_eq!((account.taken, account.refused, account.connections), (2, 0, 2), "{account:?}");
    // The same controller hears of an end that it missed; another doesn't.
    world.step(Step::Break(false));
    world.client.declare(end("a", 1));
    world.settle();
    assert_eq!(world.client.account().taken, 3);
    world.step(Step::NewController);
    world.client.declare(complete("a"));
    world.now += KEEP_ALIVE;
    assert!(world.poll(Fate::Answered) && world.poll(Fate::Answered));
    assert!(world.client.is_settled(), "nothing is to be said after the connection and the epoch");
    assert_eq!(world.client.holds().count(), 0);
}

#[test]
fn an_end_is_said_to_whoever_may_have_taken_the_request_without_an_answer() {
    let mut world = World::new(Limits::default(), usize::MAX);
    world.settle();
    world.step(Step::Replaced);
    world.client.declare(start("a"));
    assert!(world.poll(Fate::AnswerLost));
    world.client.declare(complete("a"));
    world.settle();
    assert_eq!(world.controller.held, Held::default());
}

#[test]
fn a_request_that_cant_be_read_is_halved_until_it_is_one_declaration() {
    let mut world = World::new(Limits::default(), usize::MAX);
    world.settle();
    (0..8).for_each(|job| world.client.declare(start(&job.to_string())));
    let sizes = [413, 400, 413, 400].map(|status| {
        let Some(Action::Declare(said)) = world.client.poll(world.now) else { panic!() };
        let size = said.len();
        world.client.refused(world.now, status, &Problem::default(), 0);
        size
    });
    assert_eq!(sizes, [8, 4, 2, 1]);
    world.settle();
    let Account { taken, refused, connections, .. } = world.client.account();
    assert_eq!((*taken, *refused, *connections), (7, 1, 1));
}

/// It refuses what refers to a job that only the one before knew: no fault of what was declared.
#[test]
fn what_another_controller_refuses_is_said_to_it_again() {
    let mut world = World::new(Limits::default(), usize::MAX);
    world.declare(start("a"));
    world.settle();
    world.step(Step::Replaced);
    world.declare(request("a", 1, 1));
    assert!(world.poll(Fate::Answered));
    assert_eq!(world.controller.held, Held::default(), "the new one refuses it");
    world.settle();
    assert_eq!(world.controller.held, world.application);
    let Account { taken, refused, connections, ref fault, .. } = *world.client.account();
    assert_eq!((taken, refused, connections, fault), (2, 0, 1, &None));
}

/// As one that lies, or two behind one address: the client's thread must not be busy with it.
#[test]
fn who_answers_in_ever_other_epochs_is_asked_seldom() {
    let mut world = World::new(Limits::default(), usize::MAX);
    world.declare(start("a"));
    world.settle();
    world.declare(start("b"));
    let begin = world.now;
    let mut requests = 0;
    while world.now.since(begin) < Span::from_secs(60) {
        world.step(Step::Replaced);
        assert!(world.poll(Fate::Answered));
        requests += 1;
        assert!(requests < 40, "too many requests until {}", world.now.since(begin));
        world.now = world.now.max(world.client.deadline().unwrap());
    }
    assert_eq!(world.client.account().connections, 1);
    world.settle();
    assert_eq!(world.controller.held, world.application);
    // After a while without one the wait is short again.
    world.now += Span::from_secs(31);
    world.step(Step::Replaced);
    world.declare(start("c"));
    assert!(world.poll(Fate::Answered));
    assert_eq!(world.client.deadline(), Some(world.now + Span::from_millis(50)));
}

/// As where an operator has blocked it.
#[test]
fn an_application_hears_why_the_controller_looks_at_nothing() {
    let mut world = World::new(Limits::default(), usize::MAX);
    world.settle();
    world.client.declare(start("a"));
    assert!(matches!(world.client.poll(world.now), Some(Action::Declare(_))));
    let reason = Some("it is blocked".to_owned());
    let outcome = Outcome { epoch: 1, rest: Some(0), reason, ..Outcome::default() };
    world.client.answered(world.now, &outcome, 0);
    let fault = world.client.account().fault.as_deref();
    assert_eq!(fault, Some("the controller looks at nothing for now: it is blocked"));
}

/// Its job was ended by an operator, while the connection stands.
#[test]
fn what_a_controller_has_forgotten_is_said_again_and_seldom_to_one_that_lies() {
    let mut world = World::new(Limits::default(), usize::MAX);
    for said in [start("a"), request("a", 1, 1)] {
        world.declare(said);
    }
    world.settle();
    let says = |world: &mut World, forgotten: &[u64]| {
        let Some(Action::Declare(said)) = world.client.poll(world.now) else { panic!() };
        let taken = said.len() as u64 - forgotten.len() as u64;
        let refused = forgotten.iter().map(|index| {
            let (field, reason) = ("job".into(), "has not started".into());
            RefusedDeclaration { index: *index, field, reason, later: false }
        });
        let refused = refused.collect();
        let outcome = Outcome { taken, epoch: 1, refused, ..Outcome::default() };
        world.client.answered(world.now, &outcome, 0);
        taken
    };
    world.controller.held = Held::default();
    world.declare(sample("a", &[1]));
    world.declare(request("a", 2, 1));
    says(&mut world, &[0, 1]);
    assert_eq!(world.client.deadline(), Some(world.now + Span::from_millis(50)));
    world.settle();
    assert_eq!(world.controller.held, world.application);
    let Account { taken, refused, connections, .. } = *world.client.account();
    assert_eq!((taken, refused, connections), (3, 1, 1), "the sample is over");

    world.declare(request("a", 4, 1));
    let begin = world.now;
    says(&mut world, &[0]);
    let mut requests = 1;
    while world.now.since(begin) < Span::from_secs(60) {
        world.now = world.client.deadline().unwrap();
        assert_eq!(says(&mut world, &[3]), 3, "all is said, of which it forgets the last");
        requests += 1;
        assert!(requests < 40, "too many requests until {}", world.now.since(begin));
    }
    world.settle();
    assert_eq!(world.controller.held, world.application);
}

/// What can't be read is past once it is left out, and another connection doesn't have it.
#[test]
fn requests_grow_again_after_one_that_cant_be_read() {
    let mut world = World::new(Limits { declarations: 8, ..Limits::default() }, usize::MAX);
    world.settle();
    let say = |world: &mut World, status: Option<u16>| {
        let Some(Action::Declare(said)) = world.client.poll(world.now) else { panic!() };
        let many = said.len();
        let taken = Outcome { taken: many as u64, epoch: 1, ..Outcome::default() };
        match status {
            Some(status) => world.client.refused(world.now, status, &Problem::default(), 0),
            None => world.client.answered(world.now, &taken, 0),
        }
        many
    };
    (0..40).for_each(|job| world.client.declare(start(&job.to_string())));
    let halved = [400, 413, 400, 400].map(|status| say(&mut world, Some(status)));
    assert_eq!(halved, [8, 4, 2, 1]);
    let grown = [(); 9].map(|()| say(&mut world, None));
    assert_eq!(grown, [1, 2, 3, 4, 5, 6, 7, 8, 3]);
    assert!(world.client.is_settled());
    // One that ended before it was found leaves the next connection nothing.
    (40..50).for_each(|job| world.client.declare(start(&job.to_string())));
    assert_eq!([413; 3].map(|status| say(&mut world, Some(status))), [8, 4, 2]);
    world.step(Step::Break(false));
    world.now = world.client.deadline().unwrap();
    assert!(world.poll(Fate::Answered) && world.poll(Fate::Answered));
    assert_eq!(say(&mut world, None), 8);
}

/// The wait of an answer that names a rest, which is what is said then.
#[test]
fn what_came_too_fast_waits_and_is_said_then() {
    let mut world = World::new(Limits::default(), usize::MAX);
    world.settle();
    for said in [start("a"), request("a", 1, 1), request("a", 2, 1)] {
        world.client.declare(said);
    }
    let mut say = |chance, budget| {
        let Some(Action::Declare(said)) = world.client.poll(world.now) else { panic!() };
        let said: Vec<_> = said.into_iter().cloned().collect();
        let outcome = world.controller.declare(&said, budget).unwrap();
        world.client.answered(world.now, &outcome, chance);
        let due = world.client.deadline().unwrap();
        let waits = due.since(world.now).as_nanos() / 1_000_000;
        world.now = due - Span::from_nanos(1);
        assert_eq!(world.client.poll(world.now), None, "it is too soon");
        world.now = due;
        (said.len(), waits)
    };
    // Each wait is longer, until something is taken again.
    assert_eq!([0, 0, 0].map(|budget| say(0, budget)), [(3, 50), (3, 100), (3, 200)]);
    assert_eq!(say(u32::MAX, 1), (3, 99));
    assert_eq!(say(0, 0), (2, 100));
    assert_eq!(say(0, 1), (2, 50));
    world.settle();
    assert_eq!((world.client.account().taken, world.client.account().connections), (3, 1));
}

/// What a controller that lies or is of another kind may answer: nothing is left out or counted.
#[test]
fn an_answer_that_does_not_add_up_is_a_lost_connection() {
    let refused = |index| {
        let (field, reason, later) = ("f".into(), "r".into(), false);
        RefusedDeclaration { index, field, reason, later }
    };
    let outcomes = [
        (0, vec![], None),
        (3, vec![], None),
        (1, vec![refused(2)], None),
        (1, vec![refused(u64::MAX)], None),
        (u64::MAX, vec![refused(0)], None),
        (0, vec![refused(1), refused(1)], None),
        (0, vec![refused(1)], Some(1)),
        (2, vec![], Some(1)),
        (3, vec![], Some(3)),
    ];
    for (taken, refused, rest) in outcomes {
        let mut world = World::new(Limits::default(), usize::MAX);
        world.settle();
        for said in [start("a"), start("b")] {
            world.client.declare(said);
        }
        assert!(
            matches!(world.client.poll(world.now), Some(Action::Declare(said)) if said.len() == 2)
        );
        let outcome = Outcome { taken, refused, rest, epoch: 1, reason: None };
        world.client.answered(world.now, &outcome, 0);
        let account = world.client.account();
        assert_eq!((account.taken, account.refused), (0, 0), "{outcome:?}");
        assert!(account.fault.as_deref().unwrap().contains("add up"), "{outcome:?}");
        world.settle();
        assert_eq!((world.client.account().taken, world.client.holds().count()), (2, 2));
    }
}

#[test]
fn samples_are_said_once_and_the_last_of_those_that_wait() {
    let mut world = World::new(Limits::default(), usize::MAX);
    for said in [start("a"), request("a", 1, 1)] {
        world.client.declare(said);
    }
    // No controller to hear them.
    world.client.declare(sample("a", &[1]));
    world.settle();
    assert_eq!(world.client.account().taken, 2);
    world.client.declare(sample("a", &[1, 1]));
    world.client.declare(sample("a", &[9, 1]));
    let Some(Action::Declare(said)) = world.client.poll(world.now) else { panic!() };
    assert_eq!(said, [&sample("a", &[1])], "without the flow that nobody requested");
    world.client.answered(world.now, &Outcome { taken: 1, epoch: 1, ..Outcome::default() }, 0);
    world.step(Step::Break(false));
    world.settle();
    assert_eq!(world.client.account().taken, 3);
    // One that waits when the connection breaks, or may have been heard, is over.
    for fate in [None, Some(Fate::AnswerLost), Some(Fate::Lost)] {
        world.client.declare(sample("a", &[1]));
        match fate {
            Some(fate) => assert!(world.poll(fate)),
            None => world.step(Step::Break(false)),
        }
        assert_eq!(world.client.waiting(), 0);
        world.settle();
        assert_eq!(world.client.account().taken, 3, "{fate:?}");
    }
}

#[test]
fn a_client_with_nothing_to_say_keeps_its_connection() {
    let mut world = World::new(Limits::default(), usize::MAX);
    world.settle();
    assert_eq!(world.client.poll(world.now), None);
    assert_eq!(world.client.deadline(), Some(world.now + KEEP_ALIVE));
    world.now += KEEP_ALIVE;
    assert_eq!(world.client.poll(world.now), Some(Action::Health));
}

#[test]
fn waits_grow_to_five_seconds_and_end_with_an_answer() {
    let mut world = World::new(Limits::default(), usize::MAX);
    world.client.declare(start("a"));
    let mut waits = Vec::new();
    for chance in [0, u32::MAX, 0, 0, 0, 0, 0, u32::MAX] {
        world.client.lost(world.now, "cut", chance);
        waits.push(world.client.deadline().unwrap().since(world.now).as_nanos() / 1_000_000);
    }
    assert_eq!(waits, [50, 199, 200, 400, 800, 1600, 2500, 4999]);
    world.settle();
    world.client.lost(world.now, "cut", 0);
    assert_eq!(world.client.deadline(), Some(world.now + Span::from_millis(50)));
}

#[test]
fn the_account_says_what_was_refused_and_dropped_and_why_first() {
    let mut world = World::new(Limits { entries: 3, ..Limits::default() }, usize::MAX);
    for said in [start("\u{1}\""), request("\u{1}\"", 1, 1), start("a")] {
        world.client.declare(said);
    }
    world.settle();
    for said in [request("\u{1}\"", 2, 1), request("a", 1, 1), request("a", 1, 2)] {
        world.client.declare(said);
    }
    let Account { taken, refused, dropped, fault, .. } = world.client.account().clone();
    assert_eq!((taken, refused, dropped), (1, 2, 2));
    assert_eq!(fault.unwrap(), "the controller refuses flow: because");
}

/// A process that takes the place of one that died ends what that one had declared.
#[test]
fn a_job_that_the_client_does_not_know_can_be_ended() {
    let mut world = World::new(Limits::default(), usize::MAX);
    world.controller.held.take(&start("a"));
    for said in [complete("a"), start("a")] {
        world.client.declare(said);
    }
    world.settle();
    assert_eq!((world.client.account().taken, world.client.account().refused), (2, 0));
}

#[test]
fn a_size_is_corrected_and_another_connection_is_not() {
    let mut world = World::new(Limits::default(), usize::MAX);
    let with = |port, size| sized(request("a", 1, port), size);
    for said in [start("a"), with(1, Some(5)), with(1, None), with(2, None)] {
        world.client.declare(said);
    }
    assert_eq!((world.client.holds().count(), world.client.account().dropped), (2, 1));
    assert!(world.client.holds().any(|said| *said == with(1, None)));
}

/// Once the controller has heard of a flow it hears of its end, whether or not it heard the last size.
#[test]
fn a_flow_that_ends_before_its_correction_is_sent_is_ended() {
    let mut world = World::new(Limits::default(), usize::MAX);
    let with = |size| sized(request("a", 1, 1), Some(size));
    for said in [start("a"), with(1)] {
        world.client.declare(said);
    }
    world.settle();
    for said in [with(2), with(3), end("a", 1)] {
        world.client.declare(said);
    }
    let Some(Action::Declare(said)) = world.client.poll(world.now) else { panic!() };
    assert_eq!(said, [&end("a", 1)], "no correction of what has ended");
    // Corrected and ended while the first request is under way.
    let mut world = World::new(Limits::default(), usize::MAX);
    world.settle();
    world.client.declare(start("a"));
    world.client.declare(with(1));
    assert!(matches!(world.client.poll(world.now), Some(Action::Declare(said)) if said.len() == 2));
    world.client.declare(with(2));
    world.client.declare(end("a", 1));
    world.client.answered(world.now, &Outcome { taken: 2, epoch: 1, ..Outcome::default() }, 0);
    let Some(Action::Declare(said)) = world.client.poll(world.now) else { panic!() };
    assert_eq!(said, [&end("a", 1)]);
    // What was never said needs no end, however often it was corrected.
    let mut world = World::new(Limits::default(), usize::MAX);
    world.settle();
    for said in [start("a"), with(1), with(2), end("a", 1)] {
        world.client.declare(said);
    }
    assert_eq!(world.client.waiting(), 1, "the job alone");
}
