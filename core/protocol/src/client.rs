//! A client for applications, without I/O: what happens goes in, what to ask the controller comes out.
//!
//! Its owner tells it what the application declares, what became of the connection and what the
//! controller answered, and does what [`Client::poll`] says; time and chance are arguments. One
//! request is under way at a time. Nothing here waits or fails: an application goes on whatever
//! becomes of the controller, and [`Client::account`] tells what the controller didn't take.
//!
//! - *What holds* (jobs, their terms, tasks and sizes, open flows) is said again, in its order, on every new
//!   connection and to every controller with another epoch. Samples are not said again; of those that
//!   wait, the last of a job counts.
//! - *What ends* before it was said is never said. An end that the controller refuses is one: it had
//!   forgotten.
//! - *What does not fit* into [`Limits::entries`] is dropped and counted, and so is whatever refers to
//!   it. Ends of what holds always fit: each takes the place of what ended. That of a job that is not known here, such as
//!   one from a process before, is left out without being counted where there is no room.
//! - *A refused declaration* is left out and counted; a refused job with all of its own.
//! - *Too fast*: what the controller didn't look at waits.
//! - *A request that is too long or can't be read* (400 or 413) is halved until it is a single
//!   declaration, which is then left out as refused; after it requests grow again.
//! - Any other answer counts as a lost connection.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use units::{Span, Time};

use crate::Process;
use crate::application::{Declaration, Outcome, Problem, RefusedDeclaration};
use crate::backoff::Backoff;

/// Something is asked at least so often: a controller closes connections that are silent for longer.
pub const KEEP_ALIVE: Span = Span::from_secs(20);
/// How long the controller may take to answer, before its connection counts as lost.
pub const PATIENCE: Span = Span::from_secs(5);

/// What bounds a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Declarations that hold or wait.
    pub entries: usize,
    /// Declarations in a request.
    pub declarations: usize,
    /// Octets of a request in JSON. A single declaration may be longer.
    pub octets: usize,
}

/// 262,144 entries; requests of 1000 declarations, what a controller takes unless it is told otherwise,
/// and 512 KiB, half of it.
impl Default for Limits {
    fn default() -> Self {
        Self { entries: 1 << 18, declarations: 1000, octets: 512 << 10 }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Open a connection, in place of the one there may be; then say [`Client::connected`] or
    /// [`Client::lost`].
    Connect,
    /// Ask for `/v1/health`; then say [`Client::healthy`] or [`Client::lost`].
    Health,
    /// Send a list of declarations; then say [`Client::answered`], [`Client::refused`]
    /// or [`Client::lost`].
    Declare(Vec<&'a Declaration>),
}

/// What became of what was declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Taken by a controller; what is said again isn't counted again.
    pub taken: u64,
    /// Refused by a controller.
    pub refused: u64,
    /// Never said, for want of room or because it refers to what isn't declared.
    pub dropped: u64,
    /// Connections that were made; more than one says that some broke.
    pub connections: u64,
    /// What went wrong first.
    pub fault: Option<String>,
}

impl Account {
    fn note(&mut self, fault: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(fault);
    }
}

/// A thing of a job that holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Start,
    Terms,
    Task(u32),
    Size(u32),
    Flow(String),
    Sample,
}

/// The entry of a thing that holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    number: u64,
    /// The number that it began with: what corrects it has a later one.
    first: u64,
}

#[derive(Debug)]
enum State {
    Lost,
    Connecting,
    /// Nothing is under way.
    Idle,
    Asked,
    /// These entries are under way.
    Declared(Vec<u64>),
}

/// An application's end of the northbound interface.
#[derive(Debug)]
pub struct Client {
    limits: Limits,
    /// What holds, and ends and samples that wait, by number in the order they were declared.
    entries: BTreeMap<u64, Declaration>,
    /// The entries of jobs that hold.
    jobs: BTreeMap<String, BTreeMap<Thing, Held>>,
    /// The number of the next entry.
    next: u64,
    /// Entries below were answered on this connection.
    answered: u64,
    /// Entries below may be known to the controller of `epoch`.
    said: u64,
    /// Entries below are in the account.
    counted: u64,
    epoch: Option<u64>,
    /// A request was never answered: the next controller may be the one that took it.
    doubt: bool,
    state: State,
    /// Whether the controller has told its epoch on this connection.
    greeted: bool,
    /// Most declarations in the next request.
    batch: usize,
    /// Nothing is asked before.
    until: Time,
    /// The last answer.
    heard: Time,
    backoff: Backoff,
    account: Account,
}

impl Default for Client {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Client {
    /// Without a connection, which it wants at once.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            jobs: BTreeMap::new(),
            next: 0,
            answered: 0,
            said: 0,
            counted: 0,
            epoch: None,
            doubt: false,
            state: State::Lost,
            greeted: false,
            batch: limits.declarations,
            until: Time::ZERO,
            heard: Time::ZERO,
            backoff: Backoff::default(),
            account: Account::default(),
        }
    }

    /// What became of all that was declared.
    pub const fn account(&self) -> &Account {
        &self.account
    }

    /// What holds, in the order it was declared: jobs, their tasks and sizes, open flows.
    pub fn holds(&self) -> impl Iterator<Item = &Declaration> {
        self.entries.values().filter(|entry| thing(entry).is_some_and(|t| t != Thing::Sample))
    }

    /// Declarations that wait for a controller's answer.
    pub fn waiting(&self) -> usize {
        self.entries.range(self.answered..).count()
    }

    /// Whether the controller has answered all there is to say.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, State::Idle) && self.greeted && self.waiting() == 0
    }

    /// When to [`poll`](Self::poll) although nothing happens; `None`: an answer is due first.
    pub fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Lost => Some(self.until),
            State::Idle if !self.greeted || self.waiting_any() => Some(self.until),
            State::Idle => Some(self.heard + KEEP_ALIVE),
            State::Connecting | State::Asked | State::Declared(_) => None,
        }
    }

    fn waiting_any(&self) -> bool {
        self.entries.range(self.answered..).next().is_some()
    }

    /// What to do now, if anything.
    pub fn poll(&mut self, now: Time) -> Option<Action<'_>> {
        if self.deadline()? > now {
            return None;
        }
        if matches!(self.state, State::Lost) {
            self.state = State::Connecting;
            return Some(Action::Connect);
        }
        if !self.greeted || !self.waiting_any() {
            self.state = State::Asked;
            return Some(Action::Health);
        }
        let (mut numbers, mut declarations, mut octets) = (Vec::new(), Vec::new(), 0);
        for (number, declaration) in self.entries.range(self.answered..).take(self.batch) {
            octets += most_octets(declaration);
            if octets > self.limits.octets && !numbers.is_empty() {
                break;
            }
            numbers.push(*number);
            declarations.push(declaration);
        }
        self.said = self.said.max(numbers.last().map_or(0, |last| last + 1));
        self.state = State::Declared(numbers);
        Some(Action::Declare(declarations))
    }

    /// A connection stands: all that holds is said again.
    pub fn connected(&mut self, now: Time) {
        self.state = State::Idle;
        self.greeted = false;
        self.answered = 0;
        self.batch = self.limits.declarations.max(1);
        self.until = now;
        self.account.connections += 1;
    }

    /// The connection broke or could not be made, or an answer is missing or can't be understood:
    /// `why`. Of `chance`, any number, comes the wait: between half of the back-off and all of it.
    pub fn lost(&mut self, now: Time, why: &str, chance: u32) {
        self.account.note(|| why.into());
        self.doubt |= matches!(self.state, State::Declared(_));
        self.state = State::Lost;
        self.until = now + self.backoff.wait(chance);
        for things in self.jobs.values_mut() {
            if let Some(held) = things.remove(&Thing::Sample) {
                self.entries.remove(&held.number);
            }
        }
    }

    /// The answer to [`Action::Health`]: the controller works, and this is its epoch.
    pub fn healthy(&mut self, now: Time, epoch: u64) {
        if matches!(self.state, State::Asked) {
            self.state = State::Idle;
            self.heard = now;
            self.greeted = true;
            self.meet(epoch, 0);
        }
    }

    /// A controller of another epoch knows nothing but what was just said to it, entries below `said`,
    /// or was said in a request without an answer, or by a process before this one.
    fn meet(&mut self, epoch: u64, said: u64) {
        let may_know = core::mem::take(&mut self.doubt) || self.epoch.is_none();
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            self.answered = 0;
            if !may_know {
                self.entries.retain(|_, entry| thing(entry).is_some());
                self.said = said;
            }
        }
    }

    /// The answer to [`Action::Declare`]: what became of each declaration.
    pub fn answered(&mut self, now: Time, outcome: &Outcome, chance: u32) {
        let State::Declared(numbers) = &mut self.state else { return };
        let numbers = core::mem::take(numbers);
        let looked_at = outcome.rest.unwrap_or(numbers.len() as u64);
        let refused: BTreeMap<u64, &RefusedDeclaration> =
            outcome.refused.iter().map(|refused| (refused.index, refused)).collect();
        let adds_up = looked_at <= numbers.len() as u64
            && outcome.taken.checked_add(refused.len() as u64) == Some(looked_at)
            && refused.keys().all(|index| *index < looked_at);
        if !adds_up {
            return self.lost(now, "the controller's answer doesn't add up", chance);
        }
        self.state = State::Idle;
        self.heard = now;
        // By one: where the controller takes fewer than the limits say, few requests are too long again.
        self.batch = (self.batch + 1).min(self.limits.declarations.max(1));
        // Another controller doesn't know what a refused declaration refers to.
        let is_other = self.epoch != Some(outcome.epoch);
        for (number, index) in numbers.iter().zip(0..looked_at) {
            match refused.get(&index) {
                None => self.settle(*number),
                Some(_) if is_other => {}
                Some(RefusedDeclaration { field, reason, .. }) => {
                    self.leave_out(*number, || format!("the controller refuses {field}: {reason}"));
                }
            }
        }
        if outcome.rest.is_some() {
            self.until = now + self.backoff.wait(chance);
        }
        self.meet(outcome.epoch, numbers.last().map_or(0, |last| last + 1));
    }

    /// The answer to [`Action::Declare`]: an HTTP `status` that refuses the whole request, and why.
    pub fn refused(&mut self, now: Time, status: u16, problem: &Problem, chance: u32) {
        let State::Declared(numbers) = &mut self.state else { return };
        let numbers = core::mem::take(numbers);
        let why = || {
            let Problem { field, reason } = problem;
            format!("the controller answers {status}: {field}: {reason}")
        };
        self.state = State::Idle;
        if !matches!(status, 400 | 413) {
            return self.lost(now, &why(), chance);
        }
        self.heard = now;
        match numbers[..] {
            [only] => self.leave_out(only, why),
            _ => self.batch = numbers.len() / 2,
        }
    }

    /// An entry was taken.
    fn settle(&mut self, number: u64) {
        self.answered = number + 1;
        self.backoff.reset();
        if number >= self.counted {
            self.counted = number + 1;
            self.account.taken += 1;
        }
        match self.entries.get(&number) {
            Some(Declaration::Streams { job, .. }) => {
                if let Some(things) = self.jobs.get_mut(job) {
                    things.remove(&Thing::Sample);
                }
                self.entries.remove(&number);
            }
            Some(entry) if thing(entry).is_none() => {
                self.entries.remove(&number);
            }
            _ => {}
        }
    }

    /// Leaves out an entry that the controller refused.
    fn leave_out(&mut self, number: u64, why: impl FnOnce() -> String) {
        self.answered = number + 1;
        self.backoff.reset();
        // It may have ended in the meantime.
        let Some(entry) = self.entries.remove(&number) else { return };
        // The controller had forgotten what ends.
        let Some(thing) = thing(&entry) else { return };
        self.account.note(why);
        self.account.refused += 1;
        if thing == Thing::Start {
            for held in self.jobs.remove(entry.job()).unwrap_or_default().into_values() {
                self.account.refused += u64::from(self.entries.remove(&held.number).is_some());
            }
        } else if let Some(things) = self.jobs.get_mut(entry.job()) {
            things.remove(&thing);
        }
    }

    /// The application declares something.
    pub fn declare(&mut self, mut declaration: Declaration) {
        match &mut declaration {
            Declaration::JobComplete { job } => {
                let Some(things) = self.jobs.remove(job) else {
                    // The controller may know it from a process before this one, whose name it has.
                    if self.entries.len() < self.limits.entries {
                        self.enter(declaration);
                    }
                    return;
                };
                let was_said =
                    things.get(&Thing::Start).is_some_and(|start| start.first < self.said);
                for held in things.into_values() {
                    self.entries.remove(&held.number);
                }
                if was_said {
                    self.enter(declaration);
                }
            }
            Declaration::FlowComplete { job, flow } => {
                let things = self.jobs.get_mut(job);
                let Some(held) =
                    things.and_then(|things| things.remove(&Thing::Flow(flow.clone())))
                else {
                    return;
                };
                self.entries.remove(&held.number);
                if held.first < self.said {
                    self.enter(declaration);
                }
            }
            Declaration::Streams { job, samples } => {
                // One flow that isn't known would have the controller refuse the samples of all.
                let things = self.jobs.get(job);
                let is_open = |flow: &String| {
                    things.is_some_and(|things| things.contains_key(&Thing::Flow(flow.clone())))
                };
                samples.retain(|sample| is_open(&sample.flow));
                if !samples.is_empty() && !matches!(self.state, State::Lost | State::Connecting) {
                    self.hold(declaration, Thing::Sample);
                }
            }
            _ => {
                if let Some(thing) = thing(&declaration) {
                    self.hold(declaration, thing);
                }
            }
        }
    }

    /// What holds from now on, in place of what held before.
    fn hold(&mut self, declaration: Declaration, thing: Thing) {
        let name = declaration.job();
        let before = self.jobs.get(name).and_then(|things| things.get(&thing)).copied();
        let held = before.and_then(|before| self.entries.get(&before.number));
        if held == Some(&declaration) {
            return;
        }
        let is_other_flow = held.is_some_and(|held| !corrects(&declaration, held));
        let fault = if thing != Thing::Start && !self.jobs.contains_key(name) {
            Some("its job has not started, or was refused")
        } else if matches!(thing, Thing::Flow(_)) && is_other_flow {
            Some("its flow is open; complete it first")
        } else if before.is_none() && self.entries.len() >= self.limits.entries {
            Some("more declarations than the client holds")
        } else {
            None
        };
        if let Some(fault) = fault {
            self.account.dropped += 1;
            return self.account.note(|| format!("dropped: {fault}"));
        }
        if let Some(before) = before {
            self.entries.remove(&before.number);
        }
        let first = before.map_or(self.next, |before| before.first);
        let held = Held { number: self.next, first };
        self.jobs.entry(name.to_string()).or_default().insert(thing, held);
        self.enter(declaration);
    }

    fn enter(&mut self, declaration: Declaration) {
        self.entries.insert(self.next, declaration);
        self.next += 1;
    }
}

/// Whether a request is one of before with another size.
fn corrects(new: &Declaration, old: &Declaration) -> bool {
    let packets = |declaration: &Declaration| match declaration {
        Declaration::FlowRequest { connection, processes, .. } => {
            Some((*connection, processes.clone()))
        }
        _ => None,
    };
    packets(new) == packets(old)
}

/// What of its job a declaration says; `None`: that something ends.
fn thing(declaration: &Declaration) -> Option<Thing> {
    match declaration {
        Declaration::JobStart { .. } => Some(Thing::Start),
        Declaration::JobTerms { .. } => Some(Thing::Terms),
        Declaration::TaskHost { task, .. } => Some(Thing::Task(*task)),
        Declaration::Size { map, .. } => Some(Thing::Size(*map)),
        Declaration::FlowRequest { flow, .. } => Some(Thing::Flow(flow.clone())),
        Declaration::Streams { .. } => Some(Thing::Sample),
        Declaration::JobComplete { .. } | Declaration::FlowComplete { .. } => None,
    }
}

/// Most octets that a declaration takes in JSON, with a comma.
fn most_octets(declaration: &Declaration) -> usize {
    // JSON escapes an octet of a text into at most six.
    let text = |text: &str| 6 * text.len();
    let more = match declaration {
        Declaration::TaskHost { host, .. } => text(host),
        Declaration::JobTerms { objective, .. } => objective.as_deref().map_or(0, text),
        Declaration::Size { reduces, .. } => 64 * reduces.len(),
        Declaration::FlowRequest { flow, processes, .. } => {
            let ends = [&processes.source, &processes.destination].into_iter().flatten();
            let processes = ends.map(|process| match process {
                Process::Pid(_) => 64,
                Process::Cgroup(path) => 64 + text(path),
            });
            text(flow) + processes.sum::<usize>()
        }
        Declaration::FlowComplete { flow, .. } => text(flow),
        Declaration::Streams { samples, .. } => {
            samples.iter().map(|sample| 192 + text(&sample.flow)).sum()
        }
        _ => 0,
    };
    320 + text(declaration.job()) + more
}
