//! The whole controller in a simulated world, to which it is one more policy.
//!
//! Observations of the world's applications become messages of the northbound interface, and the
//! agents' commands become directives. Between them are the controller that the daemon runs, which decides
//! after each input here and not when a turn ends, an agent for each host, and channels that are slow and
//! lossy. Channels are cut, agents die, and the controller crashes and is replaced by one with a higher
//! epoch, all by named random streams: equal seeds give equal histories. Agents enforce what they were
//! granted until the lease ends, whatever happens to the controller.
//!
//! Only for trees: the controller numbers flows itself, so with several shortest paths it could
//! assume another path than the world takes.
#![forbid(unsafe_code)]

mod applications;
mod channels;
mod host;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use control::{ChannelId, Config, Controller, HostConfig, Input, Output, Refusal};
use engine::random::Stream;
use model::{Declared, Directive, Directives, FlowId, Network, NodeId, Observation};
use policy::Policy;
use protocol::agent::{self, Commands, Report};
use protocol::application::{Declaration, Outcome};
use protocol::client::{Action, Client, Limits};
use protocol::translate::{self, Translator};
use rand::RngExt as _;
use units::{Span, Time};

use crate::applications::{Hosts, flow};
use crate::channels::{Channels, part};
use crate::host::{Change, Host};

/// What is on its way to and from the applications, by a number that no channel of an agent has.
const NORTHBOUND: ChannelId = ChannelId(0);

/// Faults to inject. The default: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Largest delay of a message; uniformly distributed from zero.
    pub jitter: Span,
    /// The probability that a transmission of a message is lost, from 0 to less than 1. The
    /// channels are reliable and ordered: a loss delays the message and those behind it by a
    /// timeout.
    pub loss: f64,
    /// The channel of an agent, or of the applications, is cut.
    pub cut: Option<Often>,
    /// An agent dies.
    pub death: Option<Often>,
    /// The controller crashes.
    pub crash: Option<Often>,
    /// The probability that an operation of a host's kernel fails that commands ask for, from 0 to 1. That it sweeps out
    /// what has no lease any more never fails: nothing would come of it.
    pub failure: f64,
}

/// How often a fault occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Often {
    /// Mean time between two.
    pub every: Span,
    /// The longest that one lasts.
    pub most: Span,
}

impl Faults {
    /// The longest that a message can take.
    pub fn longest_message(&self) -> Span {
        Channels::longest(self.jitter, self.loss)
    }
}

/// Makes the policy of a controller that starts.
pub type Make<'a> = Box<dyn Fn() -> Box<dyn Policy + Send> + 'a>;

/// Hears of every step of a controller.
pub type Watch<'a> = Box<dyn FnMut(Time, &Controller) + 'a>;

/// The controller, its agents and channels.
pub struct SimulatedController<'a> {
    make: Make<'a>,
    paces_all: bool,
    lease: Span,
    faults: Faults,
    chance: Stream,
    /// Draws which operations fail.
    failures: Stream,
    channels: Channels,
    epoch: u64,
    controller: Option<Controller>,
    hosts: Vec<NodeId>,
    agents: Vec<Host>,
    translator: Translator,
    applications: Rc<RefCell<Client>>,
    /// The application of each job that has begun, also once it has ended: what it declared may still be on its way, and
    /// who has no job any more is still connected.
    names: BTreeMap<String, Arc<str>>,
    /// The connection of the applications, counted up.
    connection: u64,
    /// Whether the applications can't reach a controller though there may be one.
    cut_off: bool,
    /// What is on its way or will happen, in a total order.
    due: BTreeMap<(Time, u64), Event>,
    count: u64,
    changes: Vec<Change>,
    /// What has changed at agents and the world has not been told.
    directives: Directives,
    watch: Option<Watch<'a>>,
}

enum Event {
    ToAgent(usize, ChannelId, Commands),
    Reported(ChannelId, Report),
    /// The applications ask over a connection: nothing declared asks for the controller's health.
    Asked(u64, Vec<Declaration>),
    Answered(u64, Answer),
    Cut,
    Death,
    Crash,
    AgentReturns(usize),
    ApplicationsReturn,
    ControllerReturns,
}

/// What applications are answered.
enum Answer {
    Health(u64),
    Declared(Outcome),
}

impl<'a> SimulatedController<'a> {
    /// A controller whose policy `make` makes and whose grants last a `lease`, with `faults` drawn
    /// by `seed`.
    pub fn new(make: Make<'a>, lease: Span, faults: Faults, seed: u64) -> Self {
        let stream = Stream::named(seed, "control channels");
        let paces_all = make().paces_all();
        Self {
            make,
            paces_all,
            lease,
            faults,
            chance: Stream::named(seed, "control faults"),
            failures: Stream::named(seed, "kernel failures"),
            channels: Channels::new(faults.jitter, faults.loss, stream),
            epoch: 0,
            controller: None,
            hosts: Vec::new(),
            agents: Vec::new(),
            translator: Translator::default(),
            names: BTreeMap::new(),
            // One client here stands for any number of applications.
            applications: Rc::new(RefCell::new(Client::new(Limits {
                entries: usize::MAX,
                ..Limits::default()
            }))),
            connection: 0,
            cut_off: false,
            due: BTreeMap::new(),
            count: 0,
            changes: Vec::new(),
            directives: Directives::new(),
            watch: None,
        }
    }

    /// The controller, unless it is down.
    pub const fn controller(&self) -> Option<&Controller> {
        self.controller.as_ref()
    }

    /// The hosts whose agents are connected and have heard all that was said to them: there stands
    /// what the controller wants, beside what is left of another.
    pub fn settled(&self) -> BTreeSet<NodeId> {
        let on_its_way = self.due.values().filter_map(|event| match event {
            Event::ToAgent(_, channel, _) | Event::Reported(channel, _) => Some(*channel),
            _ => None,
        });
        let on_its_way: BTreeSet<ChannelId> = on_its_way.collect();
        let hosts = self.hosts.iter().zip(&self.agents).filter(|(_, agent)| {
            agent.channel.is_some_and(|channel| !on_its_way.contains(&channel))
        });
        hosts.map(|(host, _)| *host).collect()
    }

    /// Tells what the controller didn't take of what the applications declared, or not at once, if anything, in a
    /// sentence: also once a world has this.
    pub fn not_taken(&self) -> impl Fn() -> Option<String> + use<> {
        let applications = Rc::clone(&self.applications);
        move || {
            let applications = applications.borrow();
            let account = applications.account();
            let why = account.fault.as_deref().unwrap_or_default();
            // A world ends with words on their way: what waits then is no loss.
            let became = match (account.lost(), account.later) {
                (0, 0) => return None,
                (0, later) => format!("{later} declarations taken late or never"),
                (lost, 0) => format!("{lost} declarations NOT TAKEN"),
                (lost, later) => format!("{lost} declarations NOT TAKEN, {later} late or never"),
            };
            Some(format!("{became} by the controller: {why}"))
        }
    }

    /// The number of controllers so far.
    pub const fn controllers(&self) -> u64 {
        self.epoch
    }

    /// Has `watch` called whenever the controller has heard something. It calls the world's jobs and
    /// flows by their numbers.
    #[must_use]
    pub fn watched(mut self, watch: Watch<'a>) -> Self {
        self.watch = Some(watch);
        self
    }

    fn at(&mut self, time: Time, event: Event) {
        self.count += 1;
        self.due.insert((time, self.count), event);
    }

    fn send(&mut self, now: Time, channel: ChannelId, event: Event) {
        let arrival = self.channels.arrival(now, channel);
        self.at(arrival, event);
    }

    /// Something happens again, some time after `from`.
    fn again(&mut self, from: Time, often: Option<Often>, event: Event) {
        if let Some(often) = often {
            let time = from + part(&mut self.chance, often.every * 2);
            self.at(time, event);
        }
    }

    /// When something that fails now is repaired.
    fn whole(&mut self, now: Time, often: Option<Often>) -> Time {
        now + often.map_or(Span::ZERO, |often| part(&mut self.chance, often.most))
    }

    fn begin(&mut self, now: Time, network: &Network) {
        self.hosts = network.topology().hosts().collect();
        self.agents.resize_with(self.hosts.len(), Host::default);
        self.start(now, network);
        (0..self.agents.len()).for_each(|agent| self.return_at(now, agent));
        self.again(now, self.faults.cut, Event::Cut);
        self.again(now, self.faults.death, Event::Death);
        self.again(now, self.faults.crash, Event::Crash);
    }

    /// Passes an input to the controller, if it is up, and sends its output.
    fn input(&mut self, now: Time, input: Input<'_>) {
        // What it refuses, it would refuse of a real peer as well.
        let _ = self.try_input(now, input);
    }

    /// The same, with the refusal.
    fn try_input(&mut self, now: Time, input: Input<'_>) -> Result<(), Refusal> {
        let Some(controller) = &mut self.controller else {
            return Ok(());
        };
        let mut out = Vec::new();
        let heard = controller.step(now, input, &mut out);
        if let Some(watch) = &mut self.watch {
            watch(now, controller);
        }
        for output in out {
            let (Output::Agent(channel, _) | Output::CloseAgent(channel, _)) = output else {
                continue;
            };
            let Some(agent) = self.agents.iter().position(|agent| agent.channel == Some(channel))
            else {
                continue;
            };
            match output {
                Output::Agent(_, commands) => {
                    self.send(now, channel, Event::ToAgent(agent, channel, commands));
                }
                _ => self.come_back(now, agent),
            }
        }
        heard
    }

    fn happen(&mut self, now: Time, event: Event, network: &Network) {
        match event {
            Event::ToAgent(agent, channel, commands) => self.tell(now, agent, channel, &commands),
            Event::Reported(channel, report) => self.input(now, Input::Reported(channel, &report)),
            Event::Asked(connection, said) => self.asked(now, connection, &said),
            Event::Answered(connection, answer) if connection == self.connection => {
                let chance = self.chance.random();
                match answer {
                    Answer::Health(epoch) => self.applications.borrow_mut().healthy(now, epoch),
                    Answer::Declared(outcome) => {
                        self.applications.borrow_mut().answered(now, &outcome, chance);
                    }
                }
            }
            // What is left in a connection that broke.
            Event::Answered(..) => {}
            Event::Cut => {
                let whole = self.whole(now, self.faults.cut);
                let end = self.chance.random_range(0..=self.agents.len());
                if end < self.agents.len() {
                    self.lose(now, end);
                    self.return_at(whole, end);
                } else {
                    self.cut_off = true;
                    self.lose_applications(now);
                    let names: BTreeSet<Arc<str>> = self.names.values().cloned().collect();
                    for name in names {
                        self.input(now, Input::ApplicationGone(&name));
                    }
                    self.at(whole, Event::ApplicationsReturn);
                }
                self.again(now, self.faults.cut, Event::Cut);
            }
            Event::Death => {
                let whole = self.whole(now, self.faults.death);
                let agent = self.chance.random_range(0..self.agents.len().max(1));
                if agent < self.agents.len() {
                    self.lose(now, agent);
                    self.agents[agent].die(now, &mut self.changes);
                    self.return_at(whole, agent);
                }
                self.again(now, self.faults.death, Event::Death);
            }
            Event::Crash => {
                self.controller = None;
                self.lose_applications(now);
                for agent in 0..self.agents.len() {
                    if self.agents[agent].channel.is_some() {
                        self.come_back(now, agent);
                    }
                }
                let whole = self.whole(now, self.faults.crash);
                self.at(whole, Event::ControllerReturns);
                self.again(whole, self.faults.crash, Event::Crash);
            }
            Event::AgentReturns(agent) => {
                // Another fault may have put it off.
                if self.agents[agent].tries.take_if(|at| *at <= now).is_some() {
                    self.connect(now, agent);
                }
            }
            Event::ApplicationsReturn => self.cut_off = false,
            Event::ControllerReturns => self.start(now, network),
        }
    }

    /// A controller starts, with a higher epoch.
    fn start(&mut self, now: Time, network: &Network) {
        self.epoch += 1;
        let mut config = Config::new("simulated", (self.make)());
        config.lease = self.lease;
        config.topology = network.topology().clone();
        let host = |node: &NodeId| HostConfig {
            node: *node,
            addresses: Hosts(&self.hosts).address(*node).into_iter().collect(),
            ethernet: Vec::new(),
        };
        config.hosts = self.hosts.iter().map(host).collect();
        // One application here stands for any number.
        config.limits.declarations_per_second = u32::MAX;
        config.limits.flows = usize::MAX;
        config.limits.jobs = usize::MAX;
        config.limits.tasks = usize::MAX;
        config.limits.agents = usize::MAX;
        let controller = Controller::new(config, self.epoch, now);
        self.controller = Some(controller.expect("hosts of the topology, with an address each"));
    }

    fn disconnect(&mut self, now: Time, agent: usize) {
        let known = &mut self.agents[agent];
        if let Some(channel) = known.channel.take() {
            known.backoff.stood(now.since(known.since));
            known.agent.disconnected();
            self.channels.close(channel);
        }
    }

    /// An agent's connection has ended, or could not be made: it tries again.
    fn come_back(&mut self, now: Time, agent: usize) {
        self.disconnect(now, agent);
        let wait = self.agents[agent].backoff.wait(self.chance.random());
        self.return_at(now + wait, agent);
    }

    /// An agent tries to connect at a time, and not before.
    fn return_at(&mut self, time: Time, agent: usize) {
        self.agents[agent].tries = Some(time);
        self.at(time, Event::AgentReturns(agent));
    }

    /// The channel of an agent breaks. The controller hears of it now, or when the agent is back.
    fn lose(&mut self, now: Time, agent: usize) {
        let channel = self.agents[agent].channel;
        self.disconnect(now, agent);
        let is_told = self.chance.random_bool(0.5);
        if let Some(channel) = channel.filter(|_| is_told) {
            self.input(now, Input::AgentGone(channel));
        }
    }

    fn connect(&mut self, now: Time, agent: usize) {
        if self.agents[agent].channel.is_some() {
            return;
        }
        if self.controller.is_none() {
            return self.come_back(now, agent);
        }
        self.count += 1;
        let channel = ChannelId(self.count);
        self.agents[agent].channel = Some(channel);
        self.agents[agent].since = now;
        self.agents[agent].last = Some((channel, self.epoch));
        let name = format!("agent-{agent}");
        self.input(now, Input::AgentConnected { channel, identity: &name });
        let addresses = Hosts(&self.hosts).address(self.hosts[agent]).into_iter().collect();
        let hello = self.agents[agent].agent.hello(vec![agent::Host { name, addresses }]);
        self.send(now, channel, Event::Reported(channel, hello));
    }

    fn lose_applications(&mut self, now: Time) {
        self.connection += 1;
        let chance = self.chance.random();
        self.applications.borrow_mut().lost(now, "no controller", chance);
    }

    /// Does one thing that the applications want now; whether there was one.
    fn speak(&mut self, now: Time) -> bool {
        let said = match self.applications.borrow_mut().poll(now) {
            None => return false,
            Some(Action::Connect) => None,
            Some(Action::Health) => Some(Vec::new()),
            Some(Action::Declare(said)) => Some(said.into_iter().cloned().collect()),
        };
        match said {
            Some(said) => self.send(now, NORTHBOUND, Event::Asked(self.connection, said)),
            None if self.cut_off || self.controller.is_none() => self.lose_applications(now),
            None => self.applications.borrow_mut().connected(now),
        }
        true
    }

    /// The applications ask the controller, unless the connection has broken.
    fn asked(&mut self, now: Time, connection: u64, said: &[Declaration]) {
        if connection != self.connection {
            return;
        }
        let answer =
            if said.is_empty() { Answer::Health(self.epoch) } else { self.take(now, said) };
        self.send(now, NORTHBOUND, Event::Answered(connection, answer));
    }

    /// The controller looks at declarations, one by one.
    fn take(&mut self, now: Time, said: &[Declaration]) -> Answer {
        let mut outcome = Outcome { epoch: self.epoch, ..Outcome::default() };
        for (index, declaration) in (0..).zip(said) {
            let named = self.names.get(declaration.job());
            let application = named.map_or(engine::UNNAMED, |name| &**name).to_owned();
            let input = Input::Declared { application: &application, declaration };
            if !control::note(&mut outcome, index, self.try_input(now, input)) {
                break;
            }
        }
        Answer::Declared(outcome)
    }

    /// Commands reach an agent.
    fn tell(&mut self, now: Time, agent: usize, channel: ChannelId, commands: &Commands) {
        let known = &mut self.agents[agent];
        // Nobody reads what is left in a connection once there is another to the same controller. One
        // that thinks itself in charge still may go on.
        let is_left = |(of, epoch)| of != channel && epoch == commands.epoch;
        if known.last.is_none_or(is_left) {
            return;
        }
        let failures = (&mut self.failures, self.faults.failure);
        let done = known.obey(now, commands, failures, &mut self.changes);
        if known.channel == Some(channel) {
            match done {
                Ok(reports) => {
                    for report in reports {
                        self.send(now, channel, Event::Reported(channel, report));
                    }
                }
                Err(_) => {
                    self.lose(now, agent);
                    self.come_back(now, agent);
                }
            }
        }
        self.direct();
    }

    /// Turns changes at agents into directives.
    fn direct(&mut self) {
        for (connection, old, new) in self.changes.drain(..) {
            let is_open = |flow: &FlowId| self.translator.connection(*flow) == Some(&connection);
            let Some(flow) = flow(&connection).filter(is_open) else {
                continue;
            };
            if old.rate != new.rate {
                self.directives.push(Directive::Pace { flow, limit: new.rate });
            }
            if old.priority != new.priority {
                let priority = new.priority;
                self.directives.push(Directive::Prioritize { flow, priority });
            }
        }
    }

    /// Does all that is due. The controller's own deadline waits for a tick of the world, which
    /// comes after all observations of an instant, so that policies divide links once for all of
    /// them.
    fn run(&mut self, now: Time, network: &Network) {
        loop {
            if let Some(event) = self.due.first_entry().filter(|event| event.key().0 <= now) {
                let event = event.remove();
                self.happen(now, event, network);
            } else if !self.speak(now) {
                break;
            }
        }
        for agent in &mut self.agents {
            agent.tick(now, &mut self.changes);
        }
        self.direct();
    }
}

impl Policy for SimulatedController<'_> {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        if self.epoch == 0 {
            self.begin(now, network);
        }
        self.run(now, network);
        match observation {
            Observation::Declared(declared) => {
                if let Declared::JobStart { job, application } = declared {
                    self.names.insert(translate::name(*job), Arc::clone(application));
                }
                for said in self.translator.translate(declared, &Hosts(&self.hosts)) {
                    self.applications.borrow_mut().declare(said);
                }
            }
            // Instruments of the world report to policies that watch it, and this doesn't.
            Observation::Measured(_) => {}
            Observation::Tick => {
                let controller = self.controller.as_ref();
                if controller.and_then(Controller::deadline).is_some_and(|at| at <= now) {
                    self.input(now, Input::Tick);
                }
            }
        }
        self.run(now, network);
    }

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.directives);
    }

    fn paces_all(&self) -> bool {
        self.paces_all
    }

    fn deadline(&self) -> Option<Time> {
        let due = self.due.first_key_value().map(|((at, _), _)| *at);
        let controller = self.controller.as_ref().and_then(Controller::deadline);
        let leases = self.agents.iter().filter_map(Host::deadline).min();
        [due, controller, leases, self.applications.borrow().deadline()].into_iter().flatten().min()
    }
}
