//! The one task that owns the machine.
//!
//! Everybody else puts what happened into one bounded channel and waits while it is full: what was
//! accepted is never dropped, and who says too much is slowed down at the socket. What the machine
//! answers goes to the peers' outlets.
//!
//! What waits is a line for each tenant (`queue.rs`), and is taken in turn by turn: so little a turn that
//! nobody waits long for it, and from whom has had least. What follows from a turn is told once: the more waits, the
//! less each costs. A tick ends every turn, so a record of inputs and ticks tells where turns ended. Another
//! configuration is decided on at once, and its record tells where.
//!
//! It is a task among those of the connections, and lets all go first that have something to say: a
//! thread of its own would be woken by the first word, and on one core take the processor from the
//! readers, again and again. Only an agent's report of a queue that
//! fills isn't kept waiting.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{Answers, ChannelId, Closing, ConfigError, Controller, Input, Output, Refusal};
use policy::Parameters;
use protocol::agent::{self, Report};
use protocol::application::{Declaration, Outcome, Problem};
use protocol::operator::Act;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use units::{Span, Time};
use wire::clock::{Clock, duration};
use wire::lines;

use crate::election::Mandate;
use crate::metrics::Measures;
use crate::outlet::Outlet;
use crate::queue::Queue;
use crate::recorder::Recorder;
use crate::settings::Settings;
use crate::tenant::Tenant;

/// Events that may wait for the machine.
pub const WAITING: usize = 1024;
/// Most events of a turn.
const BATCH: usize = 256;
/// A turn takes in no more once it has taken so long: the first must not wait for the last.
const TURN: Duration = Duration::from_millis(1);

/// Agents have so long to come to one that was elected, before what most of them say counts; what the last leader
/// granted lasts longer.
const GATHERED: Span = Span::from_secs(2);

/// Declarations of a request that are taken in before somebody else's turn may come; one with a list counts as many as
/// that has entries.
const SOME: usize = 16;

/// What somebody says.
pub struct Said {
    /// Whose share of the machine it takes.
    pub tenant: Arc<Tenant>,
    /// What happened.
    pub event: Event,
    /// Its place among what may wait of that tenant.
    pub turn: Option<OwnedSemaphorePermit>,
}

/// A request of an application.
pub struct Request {
    application: Arc<str>,
    /// What is left of it.
    declarations: std::iter::Enumerate<std::vec::IntoIter<Result<Declaration, Problem>>>,
    answer: oneshot::Sender<Outcome>,
    /// When the machine began with it, and what became of it since.
    begun: Option<(Instant, Outcome)>,
}

impl Request {
    /// What is declared, and who is told what became of it.
    pub fn new(
        application: Arc<str>,
        declarations: Vec<Result<Declaration, Problem>>,
        answer: oneshot::Sender<Outcome>,
    ) -> Self {
        let declarations = declarations.into_iter().enumerate();
        Self { application, declarations, answer, begun: None }
    }
}

/// Something that happened.
pub enum Event {
    /// A switch connected, and proved this name.
    SwitchConnected(ChannelId, Option<String>, Outlet),
    /// It sent bytes.
    SwitchBytes(ChannelId, Vec<u8>),
    /// Its connection ended.
    SwitchGone(ChannelId),
    /// An agent connected.
    AgentConnected(ChannelId, String, Outlet),
    /// It reported.
    Reported(ChannelId, Report),
    /// Its connection ended, and why, which it is told where it still hears.
    AgentGone(ChannelId, Option<String>),
    /// An application declared something; what can't be read has its place as well.
    Declared(Request),
    /// The last connection of an application ended.
    ApplicationGone(Arc<str>),
    /// An operator ordered something; the answer is what stands then.
    Ordered(Act, oneshot::Sender<Result<Vec<Act>, Refusal>>),
    /// Somebody wants to know something: goes on with the answer by a part, and tells whether that was the last.
    Ask(Box<dyn FnMut(&Answers<'_>) -> bool + Send>),
    /// The configuration was read again.
    Reload(Box<Settings>),
}

impl Event {
    /// A question with a short answer: in one part.
    pub fn ask(question: impl FnOnce(&Answers<'_>) + Send + 'static) -> Self {
        let mut question = Some(question);
        Self::Ask(Box::new(move |answers: &Answers<'_>| {
            if let Some(question) = question.take() {
                question(answers);
            }
            true
        }))
    }

    /// Whether the answer must not wait for what others have to say.
    const fn is_urgent(&self) -> bool {
        matches!(self, Self::Reported(_, Report::Congested { .. }))
    }
}

/// Who is connected.
struct Peer {
    /// Who it has proved to be, or says to be.
    identity: Option<String>,
    outlet: Outlet,
}

/// The machine and those it speaks to.
pub struct Owner {
    controller: Controller,
    epoch: u64,
    /// Without it nothing is decided any more.
    mandate: Mandate,
    /// The policy that decides now.
    policy: (String, Parameters),
    clock: Clock,
    recorder: Option<Recorder>,
    measures: Arc<Measures>,
    /// The turn in which something changed for an application last.
    changes: watch::Sender<u64>,
    switches: HashMap<ChannelId, Peer>,
    agents: HashMap<ChannelId, Peer>,
    out: Vec<Output>,
    queue: Queue<(Event, Option<OwnedSemaphorePermit>)>,
    /// Whom this turn has worked for, and how long.
    served: Vec<(Arc<Tenant>, Duration)>,
    /// Requests of this turn, since when, and what became of them.
    answers: Vec<(oneshot::Sender<Outcome>, Instant, Outcome)>,
    /// Orders of this turn that were carried out.
    ordered: Vec<oneshot::Sender<Result<Vec<Act>, Refusal>>>,
    /// An agent has said since it was looked at that it obeys a later epoch.
    defied: bool,
}

impl Owner {
    /// Makes a machine of `settings` that begins at zero of `clock`.
    ///
    /// # Errors
    /// Settings that the machine finds contradictory.
    pub fn new(
        settings: Settings,
        (epoch, mandate): (u64, Mandate),
        clock: Clock,
        recorder: Option<Recorder>,
        measures: Arc<Measures>,
        changes: watch::Sender<u64>,
    ) -> Result<Self, ConfigError> {
        let policy = (settings.control.policy_name.clone(), settings.parameters);
        Ok(Self {
            controller: Controller::new(settings.control, epoch, Time::ZERO)?,
            epoch,
            mandate,
            policy,
            clock,
            recorder,
            measures,
            changes,
            switches: HashMap::new(),
            agents: HashMap::new(),
            out: Vec::new(),
            queue: Queue::default(),
            served: Vec::new(),
            answers: Vec::new(),
            ordered: Vec::new(),
            defied: false,
        })
    }

    /// What operators ordered before this start, and what stands still.
    pub fn order_again(&mut self, standing: &[Act]) {
        let began = Instant::now();
        for act in standing {
            let now = self.clock.now();
            if let Some(refusal) = self.input(now, Input::Ordered { act, again: true }) {
                tracing::warn!(?act, %refusal, "an order that stood is refused");
            }
        }
        if !standing.is_empty() {
            self.end_turn(began);
        }
    }

    /// Works until all who could tell something have gone, or the mandate is over; or, where it was elected, until most
    /// agents obey a later epoch, which it gives then: nothing of what it says is in force, and another office can begin
    /// above that.
    pub async fn run(mut self, mut said: mpsc::Receiver<Said>) -> Option<u64> {
        let mut later = None;
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            if self.queue.is_empty() {
                let until = async |deadline: Option<Time>| match deadline {
                    Some(time) => tokio::time::sleep_until(self.clock.instant(time).into()).await,
                    None => std::future::pending().await,
                };
                let due = until(self.controller.deadline());
                let digest_due = until(self.recorder.as_ref().and_then(Recorder::due));
                tokio::select! {
                    biased;
                    count = said.recv_many(&mut batch, BATCH) => {
                        if count == 0 {
                            break;
                        }
                    }
                    () = due => self.end_turn(Instant::now()),
                    // No turn: what is recorded must not change what is decided.
                    () = digest_due => {}
                    () = self.mandate.ended() => {}
                }
            }
            if !batch.is_empty() || !self.queue.is_empty() {
                gather(&mut said, &mut batch).await;
                for Said { tenant, event, turn } in batch.drain(..) {
                    let is_urgent = event.is_urgent();
                    self.queue.push(&tenant, (event, turn), is_urgent);
                }
                self.turn();
            }
            later = self.outranked();
            if later.is_some() || !self.mandate.holds() {
                break;
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.flush(self.clock.now());
            }
        }
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
        later
    }

    /// The later epoch that most agents obey, once one has said so, and of one that was elected.
    fn outranked(&mut self) -> Option<u64> {
        let is_early = self.clock.now() < Time::ZERO + GATHERED;
        if self.mandate.is_endless() || is_early || !std::mem::take(&mut self.defied) {
            return None;
        }
        self.controller.outranked_by_most()
    }

    /// Takes in what is next, for a turn's time, and tells everybody what follows.
    fn turn(&mut self) {
        let began = Instant::now();
        let (mut start, mut urgent) = (began, None);
        for _ in 0..BATCH {
            let Some((tenant, (event, turn))) = self.queue.next() else { break };
            let is_urgent = event.is_urgent();
            match self.handle(start, event) {
                // What its tenant says next, such as an order, doesn't wait for all of the answer.
                Some(rest @ Event::Ask(_)) => self.queue.push(&tenant, (rest, turn), false),
                Some(rest) => self.queue.put_back(&tenant, (rest, turn)),
                None => {}
            }
            let end = Instant::now();
            let took = end - start;
            self.queue.charge(&tenant, took);
            self.served.push((tenant, took));
            // A queue that fills doesn't wait for the others of its turn.
            urgent = is_urgent.then_some(start);
            start = end;
            if is_urgent || end - began > TURN {
                break;
            }
        }
        self.end_turn(began);
        if let Some(heard) = urgent {
            let decided_ns = heard.elapsed().as_nanos();
            tracing::debug!(target: "delay", decided_ns, "congestion answered");
        }
        self.share(start.elapsed());
    }

    /// What was decided costs those who were taken in, each by what that took.
    fn share(&mut self, deciding: Duration) {
        let whole: Duration = self.served.iter().map(|(_, took)| *took).sum();
        for (tenant, took) in self.served.drain(..) {
            let part = took.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE);
            self.queue.charge(&tenant, deciding.mul_f64(part.min(1.0)));
        }
    }

    /// Tells everybody what follows from the events of the turn that `began` then.
    fn end_turn(&mut self, began: Instant) {
        loop {
            let now = self.clock.now();
            if let Some(recorder) = &mut self.recorder {
                recorder.record(now, &Input::Tick);
            }
            let mut out = std::mem::take(&mut self.out);
            self.controller.end_turn(now, &mut out);
            if let Some(recorder) = &mut self.recorder {
                recorder.decided(&out, self.controller.judged());
            }
            // Another may lead already. Who waits for an answer gets none.
            if !self.mandate.holds() {
                self.answers.clear();
                self.ordered.clear();
                return;
            }
            if self.send(out) {
                break;
            }
        }
        self.tell_followers();
        for asked in self.ordered.drain(..) {
            // Who asked may have gone; what was ordered stands.
            let _ = asked.send(Ok(self.controller.at(self.clock.now()).orders()));
        }
        for (asked, start, answer) in self.answers.drain(..) {
            self.measures.declared(start.elapsed());
            // Who asked may have gone; what was declared stands.
            let _ = asked.send(answer);
        }
        let (now, most) = (Instant::now(), duration(self.controller.renewal_pause()));
        let took = now - began;
        if self.measures.turned(now, took, most) {
            tracing::warn!(?took, "a turn took long; no lease was renewed meanwhile");
        }
    }

    /// Takes in an event, as of `start`; gives back what is left of it for later.
    fn handle(&mut self, start: Instant, event: Event) -> Option<Event> {
        let now = self.clock.time(start);
        match event {
            Event::SwitchConnected(channel, identity, outlet) => {
                tracing::info!(identity, channel = channel.0, "switch connected");
                let known = identity.as_deref();
                self.input(now, Input::SwitchConnected { channel, identity: known });
                self.switches.insert(channel, Peer { identity, outlet });
            }
            Event::SwitchBytes(channel, bytes) => {
                if self.switches.contains_key(&channel) {
                    self.input(now, Input::SwitchBytes(channel, &bytes));
                }
            }
            Event::SwitchGone(channel) => {
                if self.switches.remove(&channel).is_some() {
                    self.input(now, Input::SwitchGone(channel));
                }
            }
            Event::AgentConnected(channel, identity, outlet) => {
                tracing::info!(agent = identity, channel = channel.0, "agent connected");
                self.input(now, Input::AgentConnected { channel, identity: &identity });
                self.agents.insert(channel, Peer { identity: Some(identity), outlet });
            }
            Event::Reported(channel, report) => {
                self.defied |= matches!(report, Report::Stale { .. });
                if self.agents.contains_key(&channel)
                    && let Some(refusal) = self.input(now, Input::Reported(channel, &report))
                {
                    tracing::debug!(channel = channel.0, %refusal, "report refused");
                }
            }
            Event::AgentGone(channel, why) => {
                if let Some(peer) = self.agents.remove(&channel) {
                    if let Some(why) = why {
                        take_leave(&peer.outlet, why);
                    }
                    self.input(now, Input::AgentGone(channel));
                }
            }
            Event::Declared(request) => return self.declare(start, now, request),
            Event::ApplicationGone(application) => {
                self.input(now, Input::ApplicationGone(&application));
            }
            Event::Ordered(act, answer) => {
                match self.input(now, Input::Ordered { act: &act, again: false }) {
                    Some(refusal) => {
                        // Who asked may have gone.
                        let _ = answer.send(Err(refusal));
                    }
                    None => self.ordered.push(answer),
                }
            }
            Event::Ask(mut question) => {
                let is_answered = question(&self.controller.at(now));
                return (!is_answered).then_some(Event::Ask(question));
            }
            Event::Reload(settings) => self.reload(now, *settings),
        }
        None
    }

    /// Hands some declarations to the machine, one by one, unless it takes no more now; gives back the rest.
    fn declare(&mut self, start: Instant, now: Time, mut request: Request) -> Option<Event> {
        let is_first = request.begun.is_none();
        let empty = || (start, Outcome { epoch: self.epoch, ..Outcome::default() });
        let (since, mut outcome) = request.begun.take().unwrap_or_else(empty);
        let application = &*request.application;
        if is_first && request.declarations.len() == 0 {
            self.input(now, Input::ApplicationHere(application));
        }
        let (mut goes_on, mut taken) = (true, 0);
        while taken < SOME
            && let Some((index, declaration)) = request.declarations.next()
        {
            let index = index as u64;
            taken += declaration.as_ref().map_or(1, entries);
            goes_on = match declaration {
                Ok(declaration) => {
                    let input = Input::Declared { application, declaration: &declaration };
                    let refusal = self.input(now, input);
                    control::note(&mut outcome, index, refusal.map_or(Ok(()), Err))
                }
                Err(problem) => match self.input(now, Input::Unreadable(application)) {
                    Some(refusal) => control::note(&mut outcome, index, Err(refusal)),
                    None => {
                        outcome.refuse(index, problem, false);
                        true
                    }
                },
            };
            if !goes_on {
                break;
            }
        }
        if goes_on && request.declarations.len() > 0 {
            request.begun = Some((since, outcome));
            return Some(Event::Declared(request));
        }
        self.answers.push((request.answer, since, outcome));
        None
    }

    fn reload(&mut self, now: Time, settings: Settings) {
        if let Some(recorder) = &mut self.recorder {
            recorder.changed(now, &settings);
        }
        let mut out = std::mem::take(&mut self.out);
        self.controller.reconfigure(now, settings.change(&mut self.policy));
        self.controller.decide(&mut out);
        if let Some(recorder) = &mut self.recorder {
            recorder.decided(&out, self.controller.judged());
        }
        if self.mandate.holds() {
            self.send(out);
            self.tell_followers();
        }
    }

    /// Wakes who waits for what changes for an application.
    fn tell_followers(&self) {
        let changed = self.controller.changed();
        self.changes.send_if_modified(|known| std::mem::replace(known, changed) != changed);
    }

    /// Hands one input to the machine; gives back a refusal.
    fn input(&mut self, now: Time, input: Input<'_>) -> Option<Refusal> {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(now, &input);
        }
        self.controller.observe(now, input).err()
    }

    /// Sends what came out; whether everybody could be reached. Who couldn't is gone, which is an input
    /// again.
    fn send(&mut self, mut out: Vec<Output>) -> bool {
        let mut gone = Vec::new();
        for output in out.drain(..) {
            match output {
                Output::Switch(channel, bytes) => {
                    if self.switches.get(&channel).is_some_and(|peer| !peer.outlet.send(bytes)) {
                        cut_off("switch", channel, self.switches.remove(&channel));
                        gone.push(Input::SwitchGone(channel));
                    }
                }
                Output::CloseSwitch(channel, why) => {
                    closing("switch", channel, self.switches.remove(&channel), &why);
                }
                Output::Agent(channel, commands) => {
                    let Some(peer) = self.agents.get(&channel) else { continue };
                    let mut line = Vec::new();
                    let sent =
                        lines::append(&commands, &mut line).is_ok() && peer.outlet.send(line);
                    if !sent {
                        cut_off("agent", channel, self.agents.remove(&channel));
                        gone.push(Input::AgentGone(channel));
                    }
                }
                Output::CloseAgent(channel, Closing::Left) => {
                    let agent = self.agents.remove(&channel).and_then(|peer| peer.identity);
                    tracing::info!(agent, channel = channel.0, "agent left; it holds nothing");
                }
                Output::CloseAgent(channel, why) => {
                    let peer = self.agents.remove(&channel);
                    if let Some(peer) = &peer {
                        take_leave(&peer.outlet, why.to_string());
                    }
                    closing("agent", channel, peer, &why);
                }
            }
        }
        self.out = out;
        let reached_all = gone.is_empty();
        for input in gone {
            // After the turn's tick, not with it: who plays a recording again could not tell which of both was first.
            self.input(self.clock.now(), input);
        }
        reached_all
    }
}

/// Tells an agent why its connection is closed. Where it doesn't read, nobody can be told.
fn take_leave(outlet: &Outlet, why: String) {
    let mut line = Vec::new();
    if lines::append(&agent::Said::Closing(why), &mut line).is_ok() {
        outlet.send(line);
    }
}

/// How many things are declared at once.
fn entries(declaration: &Declaration) -> usize {
    let listed = match declaration {
        Declaration::Size { reduces, .. } => reduces.len(),
        Declaration::Streams { samples, .. } => samples.len(),
        _ => 1,
    };
    listed.max(1)
}

/// Lets all go that are ready and takes in what they say, until none has anything more, for a turn's
/// time at most, or until something is urgent.
async fn gather(from: &mut mpsc::Receiver<Said>, batch: &mut Vec<Said>) {
    let began = Instant::now();
    let mut heard = 0;
    while !batch[heard..].iter().any(|said| said.event.is_urgent()) && began.elapsed() < TURN {
        heard = batch.len();
        tokio::task::yield_now().await;
        while let Ok(said) = from.try_recv() {
            batch.push(said);
        }
        if batch.len() == heard {
            break;
        }
    }
}

fn closing(kind: &str, channel: ChannelId, peer: Option<Peer>, why: &Closing) {
    let (by, channel) = (peer.and_then(|peer| peer.identity), channel.0);
    tracing::warn!(kind, by, channel, reason = %why, "connection closed by the controller");
}

fn cut_off(kind: &str, channel: ChannelId, peer: Option<Peer>) {
    let (by, channel) = (peer.and_then(|peer| peer.identity), channel.0);
    tracing::warn!(kind, by, channel, "cut off: it does not read, or has gone");
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use model::Severity;
    use protocol::agent::Host;
    use tracing_subscriber::layer::SubscriberExt as _;
    use units::Bytes;

    use super::*;
    use crate::journal::{Journal, Noting};
    use crate::tenant::{Tenants, Who};

    /// What somebody says who is known no more elsewhere.
    fn said(who: &str, event: Event) -> Said {
        let tenant = Tenants::new(0).of(Who::Agent(who.into()));
        Said { tenant, event, turn: None }
    }

    /// What is taken into a turn that begins with a report, while another event waits.
    async fn taken(report: Report) -> usize {
        let (tell, mut events) = mpsc::channel(4);
        tell.send(said("a", Event::AgentGone(ChannelId(1), None))).await.unwrap();
        let mut batch = Vec::from([said("b", Event::Reported(ChannelId(0), report))]);
        gather(&mut events, &mut batch).await;
        batch.len()
    }

    #[tokio::test]
    async fn a_queue_that_fills_waits_for_nobody() {
        let (node, interface) = ("s1".to_owned(), "eth0".to_owned());
        let (severity, queue_bytes) = (Severity::Medium, Bytes::ZERO);
        let full = Report::Congested { node, interface, severity, queue_bytes };
        assert_eq!(taken(full).await, 1);
        assert_eq!(taken(Report::Applied { epoch: 1, sequence: 1 }).await, 2);
    }

    fn owner() -> Owner {
        let text = "state = \"s\"\n[listen]\n[policy]\nname = \"tcp\"\n\
                    [topology]\nkind = \"star\"\nhosts = 2\n\
                    access = { capacity = \"1 Gbit/s\", delay = \"1 us\", buffer = \"100 packets\" }\n\
                    [[host]]\nname = \"h0\"\naddresses = [\"10.0.0.1\"]\n";
        let settings = Settings::read("c", text, std::path::Path::new("/")).unwrap();
        let (changes, _follower) = watch::channel(0);
        let led = (1, Mandate::endless());
        Owner::new(settings, led, Clock::start(), None, Arc::default(), changes).unwrap()
    }

    /// A machine to which nobody has said anything.
    pub fn controller() -> Controller {
        owner().controller
    }

    fn hello() -> Report {
        let host = Host { name: "h0".into(), addresses: vec![[10, 0, 0, 1].into()] };
        Report::Hello { hosts: vec![host], capabilities: vec![], epoch: 0 }
    }

    /// Of events that are all there already, the one behind finds its turn ended: what was asked before is
    /// answered.
    #[tokio::test]
    async fn a_queue_that_fills_ends_its_turn() {
        let (outlet, _drain) = crate::outlet::outlet();
        let (node, interface) = ("h0".to_owned(), "eth0".to_owned());
        let (severity, queue_bytes) = (Severity::High, Bytes::ZERO);
        let full = Report::Congested { node, interface, severity, queue_bytes };
        let (answer, mut answered) = oneshot::channel();
        let (look, looked) = oneshot::channel();
        let ask = move |_: &Answers<'_>| look.send(answered.try_recv().is_ok()).unwrap();
        let (tell, heard) = mpsc::channel(8);
        for event in [
            Event::AgentConnected(ChannelId(1), "a".into(), outlet),
            Event::Reported(ChannelId(1), hello()),
            Event::Declared(Request::new("app".into(), vec![], answer)),
            Event::Reported(ChannelId(1), full),
            Event::ask(ask),
        ] {
            tell.send(said("a", event)).await.unwrap();
        }
        let running = tokio::spawn(owner().run(heard));
        assert!(looked.await.unwrap());
        drop(tell);
        running.await.unwrap();
    }

    fn tenants(names: [&str; 2]) -> [Arc<Tenant>; 2] {
        let tenants = Tenants::new(0);
        names.map(|name| tenants.of(Who::Application(name.into())))
    }

    /// Two who have asked before the machine begins. Whose questions are longer than a turn, and there first, has its
    /// second one answered once the other has had as much, by what the machine itself has charged.
    #[test]
    fn who_takes_long_waits_for_who_asks_for_little() {
        let (both, cost) = (tenants(["long", "short"]), TURN * 2);
        let mut owner = owner();
        let (tell, told) = std::sync::mpsc::channel();
        for who in [0_usize, 1] {
            for _ in 0..4 {
                let (tell, tenants) = (tell.clone(), both.clone());
                let ask = move |_: &Answers<'_>| {
                    tell.send((who, tenants.map(|tenant| tenant.busy()))).unwrap();
                    if who == 0 {
                        std::thread::sleep(cost);
                    }
                };
                owner.queue.push(&both[who], (Event::ask(ask), None), false);
            }
        }
        while !owner.queue.is_empty() {
            owner.turn();
        }
        let served: Vec<(usize, [Duration; 2])> = told.try_iter().collect();
        assert_eq!((served[0].0, served[1].0), (0, 1), "{served:?}");
        let mut left = [4, 4];
        for &(who, busy) in &served {
            let other = 1 - who;
            assert!(left[other] == 0 || busy[who] <= busy[other], "{served:?}");
            left[who] -= 1;
        }
        assert_eq!(left, [0, 0]);
        assert!(both[0].busy() >= cost * 4, "{:?}", both[0].busy());
    }

    #[test]
    fn what_is_decided_costs_those_who_were_taken_in() {
        let both = tenants(["a", "b"]);
        let mut owner = owner();
        let took = [3, 1].map(Duration::from_secs);
        owner.served = both.iter().cloned().zip(took).collect();
        owner.share(Duration::from_secs(8));
        assert_eq!(both.map(|tenant| tenant.busy()), [6, 2].map(Duration::from_secs));
    }

    #[test]
    fn a_long_request_lets_others_go_between_its_declarations() {
        let [long, short] = tenants(["long", "short"]);
        let mut owner = owner();
        let declared = (0..1_000).map(|job| Ok(Declaration::JobStart { job: job.to_string() }));
        let (answer, mut answered) = oneshot::channel();
        let request = Request::new("long".into(), declared.collect(), answer);
        owner.queue.push(&long, (Event::Declared(request), None), false);
        let (look, mut looked) = oneshot::channel();
        let ask = move |answers: &Answers<'_>| look.send(answers.counters().declarations).unwrap();
        owner.queue.push(&short, (Event::ask(ask), None), false);
        while !owner.queue.is_empty() {
            owner.turn();
        }
        assert_eq!(looked.try_recv(), Ok(SOME as u64));
        assert_eq!(answered.try_recv().map(|outcome| outcome.taken), Ok(1_000));
    }

    /// Also what its own tenant says meanwhile.
    #[test]
    fn a_long_question_lets_others_go_between_its_parts() {
        let [long, short] = tenants(["long", "short"]);
        for other in [&short, &long] {
            let mut owner = owner();
            let (tell, told) = std::sync::mpsc::channel();
            let (mut left, own) = (3, tell.clone());
            let part = move |_: &Answers<'_>| {
                own.send("long").unwrap();
                left -= 1;
                left == 0
            };
            owner.queue.push(&long, (Event::Ask(Box::new(part)), None), false);
            let ask = move |_: &Answers<'_>| tell.send("short").unwrap();
            owner.queue.push(other, (Event::ask(ask), None), false);
            while !owner.queue.is_empty() {
                owner.turn();
            }
            assert_eq!(told.try_iter().collect::<Vec<_>>(), ["long", "short", "long", "long"]);
        }
    }

    /// A request with what can't be taken, in the midst of others: the answer is the same as of each for itself.
    #[test]
    fn a_request_in_turns_is_answered_item_by_item() {
        let [long, _] = tenants(["long", "short"]);
        let mut owner = owner();
        let wrong = |number: u32| number % 7 == 3;
        let declared = |number: u32| match wrong(number) {
            true if number.is_multiple_of(2) => {
                Err(Problem { field: "body".into(), reason: "is none".into() })
            }
            true => Ok(Declaration::JobComplete { job: "unknown".into() }),
            false => Ok(Declaration::JobStart { job: number.to_string() }),
        };
        let (answer, mut answered) = oneshot::channel();
        let request = Request::new("long".into(), (0..100).map(declared).collect(), answer);
        owner.queue.push(&long, (Event::Declared(request), None), false);
        let mut turns = 0;
        while let Some((_, (event, _))) = owner.queue.next() {
            if let Some(rest) = owner.handle(Instant::now(), event) {
                owner.queue.put_back(&long, (rest, None));
            }
            owner.end_turn(Instant::now());
            turns += 1;
        }
        let outcome = answered.try_recv().unwrap();
        let refused: Vec<u64> = outcome.refused.iter().map(|refused| refused.index).collect();
        let expected: Vec<u64> = (0..100).filter(|n| wrong(*n)).map(u64::from).collect();
        assert_eq!((outcome.taken, refused), (100 - expected.len() as u64, expected));
        assert_eq!(turns, 100_usize.div_ceil(SOME));
    }

    /// Whatever a list holds, somebody else may come before what follows it.
    #[test]
    fn a_long_list_lets_others_go_before_what_follows_it() {
        let mut owner = owner();
        let portion = |task| protocol::application::Portion { task, bytes: Bytes::new(1) };
        let size = |map| {
            let reduces = (0..20).map(portion).collect();
            Ok(Declaration::Size { job: "j".into(), map, reduces })
        };
        let start = Ok(Declaration::JobStart { job: "j".into() });
        let declared = std::iter::once(start).chain((100..103).map(size)).collect();
        let (answer, _answered) = oneshot::channel();
        let mut event = Event::Declared(Request::new("long".into(), declared, answer));
        let mut parts = 1;
        while let Some(rest) = owner.handle(Instant::now(), event) {
            event = rest;
            parts += 1;
        }
        assert_eq!(parts, 3);
    }

    /// How many agents the machine of these events believes in, a turn after the last of them.
    async fn agents_after(events: Vec<Event>) -> usize {
        let (tell, heard) = mpsc::channel(8);
        let running = tokio::spawn(owner().run(heard));
        for event in events {
            tell.send(said("a", event)).await.unwrap();
        }
        let mut count = 0;
        for _ in 0..2 {
            let (answer, answered) = oneshot::channel();
            let ask = move |answers: &Answers<'_>| {
                let _ = answer.send(answers.status().agents.len());
            };
            tell.send(said("a", Event::ask(ask))).await.unwrap();
            count = answered.await.unwrap();
        }
        drop(tell);
        running.await.unwrap();
        count
    }

    /// Else people at its host would look for a controller that is there.
    #[tokio::test]
    async fn an_agent_that_is_refused_is_told_why() {
        let (first, second) = (crate::outlet::outlet(), crate::outlet::outlet());
        let mut drains = Vec::new();
        let mut events = Vec::new();
        for (number, name, (outlet, drain)) in [(1, "a", first), (2, "b", second)] {
            let channel = ChannelId(number);
            events.push(Event::AgentConnected(channel, name.into(), outlet));
            events.push(Event::Reported(channel, hello()));
            drains.push(drain);
        }
        assert_eq!(agents_after(events).await, 1);
        let mut heard = Vec::new();
        drains.pop().unwrap().run_lines(&mut heard).await.unwrap();
        let why = "hosts: another agent acts for h0; stop that one";
        assert_eq!(String::from_utf8(heard).unwrap(), format!("\"{why}\"\n"));
    }

    /// And whoever is cut off.
    #[tokio::test]
    async fn who_leaves_is_named_in_the_log() {
        let journal = Arc::new(Journal::default());
        let subscriber = tracing_subscriber::registry().with(Noting(Arc::clone(&journal)));
        let _noting = tracing::subscriber::set_default(subscriber);
        let (outlet, _drain) = crate::outlet::outlet();
        let (cut, _) = crate::outlet::outlet();
        let events = vec![
            Event::AgentConnected(ChannelId(1), "a".into(), outlet),
            Event::Reported(ChannelId(1), hello()),
            Event::Reported(ChannelId(1), Report::Left {}),
            Event::AgentConnected(ChannelId(2), "b".into(), cut),
            Event::Reported(ChannelId(2), hello()),
        ];
        assert_eq!(agents_after(events).await, 0);
        let told = journal.after(0, 99);
        for (message, field, name) in [("agent left", "agent", "a"), ("cut off", "by", "b")] {
            let line = told.iter().find(|entry| entry.message.starts_with(message));
            assert_eq!(line.map(|line| &*line.fields[field]), Some(name), "{told:?}");
        }
    }

    #[tokio::test]
    async fn who_can_not_be_told_is_gone() {
        for is_there in [true, false] {
            let (outlet, drain) = crate::outlet::outlet();
            let _drain = is_there.then_some(drain);
            let events = vec![
                Event::AgentConnected(ChannelId(1), "a".into(), outlet),
                Event::Reported(ChannelId(1), hello()),
            ];
            assert_eq!(agents_after(events).await, usize::from(is_there));
        }
    }
}
