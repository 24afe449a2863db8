//! Drives a world: applications act and send messages to the policy, whose directives are carried
//! out; each message takes the control delay.

use std::collections::VecDeque;

use model::{Caps, Directive, Directives, FlowId, LinkId, Measured, Network, Observation};
use policy::Policy;
use units::{Span, Time};

use crate::agenda::{Act, Agenda};
use crate::application::{Actions, Application, Progress, Speaker, note_background};
use crate::limits::Limits;
use crate::outcome::{Outcome, QueueRecord};
use crate::rates::Rates;
use crate::records::FlowRecord;
use crate::world::{FlowState, Notice, World};

/// A run: network, application and policy.
pub struct Plan<'a, W> {
    /// The network that the policy sees.
    pub network: Network,
    /// What runs on the hosts.
    pub application: Box<dyn Application<W> + 'a>,
    /// The policy; `None` decides nothing.
    pub policy: Option<Box<dyn Policy + 'a>>,
    /// One-way delay between an application, or an actuator, and the controller.
    pub control_delay: Span,
    /// Processing time of each message; one at a time.
    pub processing: Span,
    /// The run ends here at the latest; [`Time::NEVER`] runs until every flow has ended.
    pub until: Time,
    /// Queues to watch.
    pub monitors: Vec<Monitor>,
    /// Sampling period of achieved rates ([`Outcome::rates`]), above zero; `None` records none.
    pub rates: Option<Span>,
}

/// A queue whose length is recorded at regular times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// The directed link that the queue feeds.
    pub link: LinkId,
    /// Time between two samples; above zero.
    pub interval: Span,
    /// Delay before the first interval.
    pub start: Span,
}

/// Runs `plan` in `world` to its end and reports. `progress` is called now and then.
///
/// # Errors
/// Those of the world.
pub fn drive<W: World>(
    world: W,
    plan: Plan<'_, W>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, W::Error> {
    Driver::new(world, plan).run(progress)
}

struct Driver<'a, W> {
    network: Network,
    policy: Option<Box<dyn Policy + 'a>>,
    control_delay: Span,
    processing: Span,
    /// Whether SYNs wait in the world until the controller has answered them ([`World::admit`]).
    holds_syns: bool,
    /// Observations that the controller processes or has queued, and when each arrived.
    inbox: VecDeque<(Time, Observation)>,
    until: Time,
    application: Box<dyn Application<W> + 'a>,
    world: W,
    agenda: Agenda,
    outcome: Outcome,
    directives: Directives,
    limits: Limits,
    progress: Progress,
    samples_pending: usize,
    rates: Option<(Span, Rates)>,
}

/// The application and what it can do, two disjoint parts of a driver.
macro_rules! application {
    ($driver:ident) => {
        (
            &mut *$driver.application,
            &mut Actions {
                network: &$driver.network,
                world: &mut $driver.world,
                agenda: &mut $driver.agenda,
                outcome: &mut $driver.outcome,
                progress: &mut $driver.progress,
                control_delay: $driver.control_delay,
                is_controlled: $driver.policy.is_some(),
                speaker: Speaker::ONLY,
            },
        )
    };
}

impl<'a, W: World> Driver<'a, W> {
    fn new(world: W, plan: Plan<'a, W>) -> Self {
        let mut agenda = Agenda::default();
        let mut outcome = Outcome::default();
        let watch = plan.policy.as_ref().and_then(|policy| policy.watch());
        let holds_syns = watch.is_some_and(|watch| watch.holds_syns);
        for (monitor, &Monitor { link, interval, start }) in plan.monitors.iter().enumerate() {
            outcome.queues.push(QueueRecord { link, interval, packets: Vec::new() });
            agenda.enter(Time::ZERO + start + interval, Act::Sample { monitor });
        }
        if let Some(every) = plan.rates {
            agenda.enter(Time::ZERO + every, Act::Rates);
        }
        let ports = plan.policy.as_ref().and_then(|policy| policy.ports());
        if let Some(every) = ports {
            agenda.enter(Time::ZERO, Act::Ports { every });
        }
        Self {
            samples_pending: plan.monitors.len()
                + usize::from(plan.rates.is_some())
                + usize::from(ports.is_some()),
            rates: plan.rates.map(|every| (every, Rates::default())),
            network: plan.network,
            policy: plan.policy,
            control_delay: plan.control_delay,
            processing: plan.processing,
            holds_syns,
            inbox: VecDeque::new(),
            until: plan.until,
            application: plan.application,
            world,
            agenda,
            outcome,
            directives: Directives::new(),
            limits: Limits::default(),
            progress: Progress::default(),
        }
    }

    fn run(mut self, report: &mut dyn FnMut(Progress)) -> Result<Outcome, W::Error> {
        loop {
            let arrival = self.application.arrival().unwrap_or(Time::NEVER);
            let tick = self.policy.as_ref().and_then(|p| p.deadline()).unwrap_or(Time::NEVER);
            let next = arrival.min(tick).min(self.agenda.next());
            match self.world.run(next.min(self.until)) {
                Notice::Ended(flow, state) => self.ended(flow, &state)?,
                Notice::Reached(flow, delivered) => {
                    let (application, actions) = application!(self);
                    application.reached(flow, delivered, actions)?;
                }
                Notice::Measured => {
                    let heard = self.world.now() + self.control_delay;
                    for measured in self.world.measured() {
                        self.agenda.enter(heard, Act::Hear(measured.into()));
                    }
                }
                Notice::Pause => {
                    self.progress.now = self.world.now();
                    report(self.progress);
                    self.world.check()?;
                }
                Notice::Limit if next > self.until || next == Time::NEVER => break,
                // A policy's deadline alone must not keep the run alive.
                Notice::Limit if next == tick && self.is_idle() && self.agenda.len() == 0 => break,
                Notice::Limit => {
                    self.world.advance(next);
                    if next == self.agenda.next() {
                        self.act()?;
                    } else if next == arrival {
                        let (application, actions) = application!(self);
                        application.arrive(actions)?;
                    } else {
                        self.tick(next);
                    }
                }
            }
        }
        self.finish()
    }

    /// Whether no arrival is pending and no flow is left.
    fn is_idle(&mut self) -> bool {
        self.application.arrival().is_none() && self.progress.ended == self.progress.started
    }

    fn ended(&mut self, flow: FlowId, state: &FlowState) -> Result<(), W::Error> {
        let record = self.outcome.flows.at_mut(flow.index());
        record.end = Some(self.world.now());
        record.limits_set = self.limits.end(flow);
        note(record, state);
        self.progress.ended += 1;
        self.progress.delivered += record.delivered;
        note_background(&self.world, &mut self.outcome);
        {
            let (application, actions) = application!(self);
            application.ended(flow, actions)?;
        }
        self.outcome.flows.seal(flow.index());
        Ok(())
    }

    fn act(&mut self) -> Result<(), W::Error> {
        match self.agenda.pop() {
            None => {}
            Some(Act::Due { token }) => {
                let (application, actions) = application!(self);
                application.due(token, actions)?;
            }
            Some(Act::Hear(observation)) => {
                self.inbox.push_back((self.world.now(), observation));
                if self.processing == Span::ZERO {
                    self.decide();
                } else if self.inbox.len() == 1 {
                    self.agenda.enter(self.world.now() + self.processing, Act::Decide);
                }
            }
            Some(Act::Decide) => {
                self.decide();
                if !self.inbox.is_empty() {
                    self.agenda.enter(self.world.now() + self.processing, Act::Decide);
                }
            }
            Some(Act::Obey(mut directives)) => {
                for directive in directives.drain(..) {
                    self.obey(directive)?;
                }
                // The next ones may need as much room.
                if self.directives.capacity() < directives.capacity() {
                    directives.append(&mut self.directives);
                    self.directives = directives;
                }
            }
            Some(Act::Admit(flow)) => self.world.admit(flow),
            Some(Act::Sample { monitor }) => self.sample(monitor),
            Some(Act::Rates) => self.look(),
            Some(Act::Ports { every }) => self.count(every),
        }
        Ok(())
    }

    /// Has the policy process the oldest queued observation.
    fn decide(&mut self) {
        let (Some(policy), Some((heard, observation))) = (&mut self.policy, self.inbox.pop_front())
        else {
            return;
        };
        let now = self.world.now();
        policy.observe(now, &self.network, &observation);
        policy.decide(now, &self.network, &mut self.directives);
        if matches!(observation, Observation::Measured(_)) && !self.directives.is_empty() {
            let wire = self.control_delay + self.control_delay;
            self.outcome.reactions.push(now.since(heard) + wire);
        }
        self.send();
        if let Observation::Measured(Measured::Opened { flow, .. }) = observation
            && self.holds_syns
        {
            // Behind the entries that were made for it.
            self.agenda.enter(now + self.control_delay, Act::Admit(flow));
        }
    }

    fn tick(&mut self, now: Time) {
        if let Some(policy) = &mut self.policy {
            policy.observe(now, &self.network, &Observation::Tick);
            policy.decide(now, &self.network, &mut self.directives);
            self.send();
        }
    }

    /// Sends the policy's directives on their way.
    fn send(&mut self) {
        let heard = self.world.now() + self.control_delay;
        // An early grant waits for its timeslot; a late one is used at once.
        let due = |directive: &Directive| match directive {
            Directive::Grant { slot, .. } => heard.max(*slot),
            _ => heard,
        };
        let mut rest = std::mem::take(&mut self.directives);
        while let Some(at) = rest.first().map(due) {
            let count = rest.iter().take_while(|directive| due(directive) == at).count();
            let later = rest.split_off(count);
            self.agenda.enter(at, Act::Obey(rest));
            rest = later;
        }
    }

    /// Has the world carry out a directive, or the application if it is addressed to it.
    fn obey(&mut self, directive: Directive) -> Result<(), W::Error> {
        match directive {
            Directive::Pace { flow, limit } => {
                if flow.index() >= self.outcome.flows.len() {
                    return Ok(());
                }
                let Some(was_limited) = self.limits.set(flow, limit.is_some()) else {
                    return Ok(());
                };
                if was_limited != limit.is_some() {
                    let limits = &mut self.outcome.flows.at_mut(flow.index()).limits;
                    if limits.is_empty() {
                        // Most flows are limited once.
                        limits.reserve_exact(1);
                    }
                    limits.push((self.world.now(), limit));
                }
                self.world.limit(flow, limit);
            }
            Directive::Prioritize { flow, priority } => self.world.prioritize(flow, priority),
            // Its time has come.
            Directive::Grant { src, dst, slot: _, via } => {
                self.world.grant(&self.network, src, dst, via);
            }
            Directive::PacePair { src, dst, rate } => self.world.pace_pair(src, dst, rate),
            Directive::Window { link, flow, cap } => {
                self.world.cap(link, flow, cap.map(Caps::from));
            }
            Directive::Prepare { link, flow, caps } => self.world.cap(link, flow, Some(caps)),
            Directive::Space { link, gap } => self.world.space(link, gap),
            directive @ Directive::Gather { .. } => {
                let (application, actions) = application!(self);
                application.directed(&directive, actions)?;
            }
        }
        Ok(())
    }

    fn sample(&mut self, monitor: usize) {
        let queue = &mut self.outcome.queues[monitor];
        queue.packets.push(self.world.queue_length(queue.link));
        let interval = queue.interval;
        self.again(interval, Act::Sample { monitor });
    }

    fn look(&mut self) {
        let Some((every, rates)) = &mut self.rates else { return };
        rates.look(&self.world, &self.outcome.flows);
        let every = *every;
        self.again(every, Act::Rates);
    }

    /// Has the policy told what ports have sent. Where there are no flows that is nothing new, and must not keep
    /// the run alive.
    fn count(&mut self, every: Span) {
        if !self.is_idle() {
            let heard = self.world.now() + self.control_delay;
            let counters = Measured::Ports(self.world.ports());
            self.agenda.enter(heard, Act::Hear(counters.into()));
        }
        self.again(every, Act::Ports { every });
    }

    /// Sampling goes on as long as anything else does.
    fn again(&mut self, interval: Span, act: Act) {
        self.samples_pending -= 1;
        if !(self.is_idle() && self.agenda.len() == self.samples_pending) {
            self.agenda.enter(self.world.now() + interval, act);
            self.samples_pending += 1;
        }
    }

    fn finish(mut self) -> Result<Outcome, W::Error> {
        for record in self.outcome.flows.open_mut().filter(|record| record.end.is_none()) {
            if let Some(state) = self.world.state(record.id) {
                note(record, &state);
            }
            record.limits_set = self.limits.end(record.id);
        }
        if self.until != Time::NEVER {
            self.world.advance(self.until);
        }
        self.outcome.rates = self.rates.map(|(_, rates)| rates.into_records()).unwrap_or_default();
        self.outcome.end = self.world.now();
        self.world.finish(&mut self.outcome)?;
        Ok(self.outcome)
    }
}

/// Records the result of a flow.
fn note(record: &mut FlowRecord, state: &FlowState) {
    record.delivered = state.delivered;
    record.retransmissions = state.retransmissions;
    record.timeouts = state.timeouts;
}
