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
//! - *A job that had started* and that a refusal says has not (`job`) is one that the controller has forgotten, as an
//!   operator may have it do: all is said again.
//! - *All is said again on one connection* after a wait, which is longer each time until it wasn't for 30 s: a controller
//!   that lies, or two behind one address, are asked no more often than one that is gone.
//! - *What ends* before it was said is never said. An end that the controller refuses is one: it had
//!   forgotten.
//! - *What does not fit* into [`Limits::entries`] is dropped and counted, and so is whatever refers to
//!   it. Ends of what holds always fit: each takes the place of what ended. That of a job that is not known here, such as
//!   one from a process before, is left out without being counted where there is no room.
//! - *A refused declaration* is left out and counted; a refused job with all of its own.
//! - *What may be taken later* is parked: it holds, and is said again after growing waits, behind what is new
//!   and in turn, a request at a time. What belongs to a job that is parked waits until that is taken. What
//!   ended or was replaced in the meantime is not said again; a new connection hears all of it at once.
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

/// A controller closes a connection on which nothing is asked for so long.
pub const IDLE: Span = Span::from_secs(60);
/// Something is asked at least so often.
pub const KEEP_ALIVE: Span = Span::from_nanos(IDLE.as_nanos() / 3);
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
    /// Refused by a controller for good.
    pub refused: u64,
    /// Refused by a controller that may take them later. One that is refused again isn't counted again; once
    /// it is taken it is counted there, too.
    pub later: u64,
    /// Never said, for want of room or because it refers to what isn't declared.
    pub dropped: u64,
    /// Connections that were made; more than one says that some broke.
    pub connections: u64,
    /// What went wrong first.
    pub fault: Option<String>,
}

impl Account {
    /// How many no controller takes any more.
    pub const fn lost(&self) -> u64 {
        self.refused + self.dropped
    }

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

/// What holds or waits, and where it is in the account.
#[derive(Debug)]
struct Entry {
    declaration: Declaration,
    is_taken: bool,
    is_later: bool,
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
    /// These entries are under way; whether each was taken before.
    Declared(Vec<(u64, bool)>),
}

/// An application's end of the northbound interface.
#[derive(Debug)]
pub struct Client {
    limits: Limits,
    /// What holds, and ends and samples that wait, by number in the order in which they are said.
    entries: BTreeMap<u64, Entry>,
    /// What holds and is not said for now.
    parked: BTreeMap<u64, Entry>,
    /// What holds of jobs whose start is parked.
    behind: BTreeMap<u64, Entry>,
    /// The entries of jobs that hold.
    jobs: BTreeMap<String, BTreeMap<Thing, Held>>,
    /// The number of the next entry.
    next: u64,
    /// Entries below were answered on this connection.
    answered: u64,
    /// Entries below may be known to the controller of `epoch`.
    said: u64,
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
    /// What is parked is not said again before; `None` where nothing was refused since it was.
    again: Option<Time>,
    /// The last answer.
    heard: Time,
    backoff: Backoff,
    /// The waits of what is parked.
    parking: Backoff,
    /// The waits before all is said again on one connection.
    repeating: Backoff,
    /// When the last of these began.
    repeated: Time,
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
            parked: BTreeMap::new(),
            behind: BTreeMap::new(),
            jobs: BTreeMap::new(),
            next: 0,
            answered: 0,
            said: 0,
            epoch: None,
            doubt: false,
            state: State::Lost,
            greeted: false,
            batch: limits.declarations,
            until: Time::ZERO,
            again: None,
            heard: Time::ZERO,
            backoff: Backoff::default(),
            parking: Backoff::default(),
            repeating: Backoff::default(),
            repeated: Time::ZERO,
            account: Account::default(),
        }
    }

    /// What became of all that was declared.
    pub const fn account(&self) -> &Account {
        &self.account
    }

    /// What holds, in the order in which it is said: jobs, their tasks and sizes, open flows.
    pub fn holds(&self) -> impl Iterator<Item = &Declaration> {
        let all = self.entries.values().chain(self.parked.values()).chain(self.behind.values());
        let all = all.map(|entry| &entry.declaration);
        all.filter(|said| thing(said).is_some_and(|t| t != Thing::Sample))
    }

    /// Declarations that wait for a controller's answer, or to be said again.
    pub fn waiting(&self) -> usize {
        let unanswered = self.entries.range(self.answered..).count();
        unanswered + self.parked.len() + self.behind.len()
    }

    /// Whether the controller has answered all there is to say, and takes nothing later.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, State::Idle) && self.greeted && self.waiting() == 0
    }

    /// When to [`poll`](Self::poll) although nothing happens; `None`: an answer is due first.
    pub fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Lost => Some(self.until),
            State::Idle if !self.greeted || self.waiting_any() => Some(self.until),
            State::Idle if self.parked.is_empty() => Some(self.heard + KEEP_ALIVE),
            State::Idle => self.again.max(Some(self.until)).min(Some(self.heard + KEEP_ALIVE)),
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
        let is_due = !self.parked.is_empty() && self.again.is_none_or(|at| at <= now);
        if is_due && self.greeted {
            self.unpark();
        }
        if !self.greeted || !self.waiting_any() {
            self.state = State::Asked;
            return Some(Action::Health);
        }
        let (mut numbers, mut declarations, mut octets) = (Vec::new(), Vec::new(), 0);
        for (number, entry) in self.entries.range(self.answered..).take(self.batch) {
            octets += most_octets(&entry.declaration);
            if octets > self.limits.octets && !numbers.is_empty() {
                break;
            }
            numbers.push((*number, entry.is_taken));
            declarations.push(&entry.declaration);
        }
        self.said = self.said.max(after(&numbers));
        self.state = State::Declared(numbers);
        Some(Action::Declare(declarations))
    }

    /// A connection stands: all that holds is said again.
    pub fn connected(&mut self, now: Time) {
        self.state = State::Idle;
        self.greeted = false;
        self.say_all_again();
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

    /// All that holds waits, what was parked last.
    fn say_all_again(&mut self) {
        self.answered = 0;
        self.again = None;
        // A job before what belongs to it.
        let parked = core::mem::take(&mut self.parked);
        let behind = core::mem::take(&mut self.behind);
        parked.into_values().chain(behind.into_values()).for_each(|entry| self.say_last(entry));
    }

    /// What is parked waits, after all else: as much as the next request has room for.
    fn unpark(&mut self) {
        let waiting = self.entries.range(self.answered..).take(self.batch).count();
        for _ in waiting..self.batch {
            let Some((_, entry)) = self.parked.pop_first() else { return };
            self.again = None;
            self.say_last(entry);
        }
    }

    /// What belongs to a job waits, for that was taken.
    fn follow(&mut self, job: &str) {
        let things = self.jobs.get(job).into_iter().flatten();
        let mut numbers: Vec<u64> = things.map(|(_, held)| held.number).collect();
        numbers.sort_unstable();
        for number in numbers {
            if let Some(entry) = self.behind.remove(&number) {
                self.say_last(entry);
            }
        }
    }

    /// What was parked, or behind what was, waits after all else. It was refused, so that nothing of it is known.
    fn say_last(&mut self, entry: Entry) {
        let held = Held { number: self.next, first: self.next };
        let things = self.jobs.get_mut(entry.declaration.job());
        if let (Some(things), Some(thing)) = (things, thing(&entry.declaration)) {
            things.insert(thing, held);
        }
        self.entries.insert(self.next, entry);
        self.next += 1;
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
            self.say_all_again();
            if !may_know {
                self.entries.retain(|_, entry| thing(&entry.declaration).is_some());
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
        let mut has_forgotten = false;
        for ((number, was_taken), index) in numbers.iter().zip(0..looked_at) {
            match refused.get(&index) {
                None => self.settle(*number, *was_taken),
                Some(_) if is_other => {}
                Some(RefusedDeclaration { field, reason, later, .. }) => {
                    let why = || format!("the controller refuses {field}: {reason}");
                    let is_forgotten = field == "job" && !*later && self.has_started(*number);
                    has_forgotten |= is_forgotten;
                    // What holds of it is said again with its job.
                    if is_forgotten && self.holds_by(*number) {
                        continue;
                    }
                    if *later && self.holds_by(*number) {
                        self.park(now, *number, why, chance);
                    } else {
                        self.leave_out(*number, why);
                    }
                }
            }
        }
        if self.again.is_none() {
            self.parking.reset();
        }
        if outcome.rest.is_some() {
            self.until = now + self.backoff.wait(chance);
            // Who was too fast, and is heard in part, has nothing to complain of.
            if let Some(why) = outcome.reason.as_ref().filter(|_| looked_at == 0) {
                self.account.note(|| format!("the controller looks at nothing for now: {why}"));
            }
        }
        self.meet(outcome.epoch, after(&numbers));
        if has_forgotten {
            self.say_all_again();
        }
        if is_other || has_forgotten {
            self.repeating.stood(now.since(self.repeated));
            self.repeated = now;
            self.until = self.until.max(now + self.repeating.wait(chance));
        }
    }

    /// Whether the controller has taken the start of the job that an entry belongs to, before this entry.
    fn has_started(&self, number: u64) -> bool {
        let Some(entry) = self.entries.get(&number) else { return false };
        let things = self.jobs.get(entry.declaration.job());
        let start = things.and_then(|things| things.get(&Thing::Start));
        start.is_some_and(|start| start.number < number && self.entries.contains_key(&start.number))
    }

    /// Whether something holds by an entry, which is neither an end nor a sample.
    fn holds_by(&self, number: u64) -> bool {
        let thing = self.entries.get(&number).and_then(|entry| thing(&entry.declaration));
        thing.is_some_and(|thing| thing != Thing::Sample)
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
            [(only, _)] => self.leave_out(only, why),
            _ => self.batch = numbers.len() / 2,
        }
    }

    /// An entry was taken.
    fn settle(&mut self, number: u64, was_taken: bool) {
        self.answered = number + 1;
        self.backoff.reset();
        self.account.taken += u64::from(!was_taken);
        // It may have ended in the meantime.
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.is_taken = true;
        let job = entry.declaration.job();
        match thing(&entry.declaration) {
            Some(Thing::Start) if !self.behind.is_empty() => {
                let job = job.to_string();
                self.follow(&job);
            }
            Some(Thing::Sample) => {
                if let Some(things) = self.jobs.get_mut(job) {
                    things.remove(&Thing::Sample);
                }
                self.entries.remove(&number);
            }
            None => {
                self.entries.remove(&number);
            }
            Some(_) => {}
        }
    }

    /// Parks an entry that the controller may take later.
    fn park(&mut self, now: Time, number: u64, why: impl FnOnce() -> String, chance: u32) {
        self.answered = number + 1;
        self.backoff.reset();
        let Some(mut entry) = self.entries.remove(&number) else { return };
        self.account.note(why);
        self.account.later += u64::from(!entry.is_later);
        entry.is_later = true;
        if thing(&entry.declaration) == Some(Thing::Start)
            && let Some(things) = self.jobs.get_mut(entry.declaration.job())
        {
            // Samples are of flows that are known.
            if let Some(held) = things.remove(&Thing::Sample) {
                self.entries.remove(&held.number);
            }
            for Held { number, .. } in things.values() {
                let said = self.entries.remove(number);
                if let Some(entry) = said.or_else(|| self.parked.remove(number)) {
                    self.behind.insert(*number, entry);
                }
            }
        }
        self.parked.insert(number, entry);
        self.again.get_or_insert_with(|| now + self.parking.wait(chance));
    }

    /// Leaves out an entry that the controller refused.
    fn leave_out(&mut self, number: u64, why: impl FnOnce() -> String) {
        self.answered = number + 1;
        self.backoff.reset();
        // It may have ended in the meantime, or waits for its job.
        let Some(entry) = self.entries.remove(&number) else { return };
        // The controller had forgotten what ends.
        let Some(thing) = thing(&entry.declaration) else { return };
        self.account.note(why);
        self.account.refused += 1;
        let job = entry.declaration.job();
        if thing == Thing::Start {
            for held in self.jobs.remove(job).unwrap_or_default().into_values() {
                self.account.refused += u64::from(self.remove(held.number).is_some());
            }
        } else if let Some(things) = self.jobs.get_mut(job) {
            things.remove(&thing);
        }
    }

    /// Takes an entry out, wherever it is.
    fn remove(&mut self, number: u64) -> Option<Entry> {
        let said = self.entries.remove(&number).or_else(|| self.behind.remove(&number));
        said.or_else(|| {
            let entry = self.parked.remove(&number)?;
            if self.parked.is_empty() {
                self.again = None;
                self.parking.reset();
            }
            Some(entry)
        })
    }

    /// The entry of what holds.
    fn entry(&self, number: u64) -> Option<&Entry> {
        let said = self.entries.get(&number).or_else(|| self.parked.get(&number));
        said.or_else(|| self.behind.get(&number))
    }

    /// Whether the controller may know what holds, if not with what its entry says now.
    fn is_known(&self, held: &Held) -> bool {
        held.first < self.said && self.entries.contains_key(&held.number)
    }

    /// Whether the start of a job is parked.
    fn is_parked(&self, job: &str) -> bool {
        let start = self.jobs.get(job).and_then(|things| things.get(&Thing::Start));
        start.is_some_and(|start| self.parked.contains_key(&start.number))
    }

    /// The application declares something.
    pub fn declare(&mut self, mut declaration: Declaration) {
        match &mut declaration {
            Declaration::JobComplete { job } => {
                let Some(things) = self.jobs.remove(job) else {
                    // The controller may know it from a process before this one, whose name it has.
                    if self.has_room() {
                        self.enter(declaration);
                    }
                    return;
                };
                let was_said = things.get(&Thing::Start).is_some_and(|start| self.is_known(start));
                for held in things.into_values() {
                    self.remove(held.number);
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
                let was_said = self.is_known(&held);
                self.remove(held.number);
                if was_said {
                    self.enter(declaration);
                }
            }
            Declaration::Streams { job, samples } => {
                // One flow that isn't known would have the controller refuse the samples of all.
                let things = self.jobs.get(job);
                let is_open = |flow: &String| {
                    let held = things.and_then(|things| things.get(&Thing::Flow(flow.clone())));
                    held.is_some_and(|held| self.entries.contains_key(&held.number))
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
        let held = before.and_then(|before| self.entry(before.number));
        let held = held.map(|entry| &entry.declaration);
        if held == Some(&declaration) {
            return;
        }
        let is_other_flow = held.is_some_and(|held| !corrects(&declaration, held));
        let fault = if thing != Thing::Start && !self.jobs.contains_key(name) {
            Some("its job has not started, or was refused")
        } else if matches!(thing, Thing::Flow(_)) && is_other_flow {
            Some("its flow is open; complete it first")
        } else if before.is_none() && !self.has_room() {
            Some("more declarations than the client holds")
        } else {
            None
        };
        if let Some(fault) = fault {
            self.account.dropped += 1;
            return self.account.note(|| format!("dropped: {fault}"));
        }
        // What is parked was refused, so that nothing of it is known.
        let said = before.filter(|before| self.entries.contains_key(&before.number));
        let first = said.map_or(self.next, |before| before.first);
        if let Some(before) = before {
            self.remove(before.number);
        }
        let held = Held { number: self.next, first };
        self.jobs.entry(name.to_string()).or_default().insert(thing, held);
        self.enter(declaration);
    }

    fn has_room(&self) -> bool {
        self.entries.len() + self.parked.len() + self.behind.len() < self.limits.entries
    }

    fn enter(&mut self, declaration: Declaration) {
        let waits = thing(&declaration).is_some() && self.is_parked(declaration.job());
        let entries = if waits { &mut self.behind } else { &mut self.entries };
        entries.insert(self.next, Entry { declaration, is_taken: false, is_later: false });
        self.next += 1;
    }
}

/// The number after all that are under way.
fn after(numbers: &[(u64, bool)]) -> u64 {
    numbers.last().map_or(0, |(last, _)| last + 1)
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
                Process::Cgroup(name) | Process::Pod(name) => 64 + text(name),
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
