//! Drives a world: jobs arrive, applications speak to the policy, its directives are obeyed; each
//! message takes the control delay.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::iter::Peekable;

use model::{
    Declared, Directive, Directives, Flow, FlowId, Job, JobId, LinkId, Network, NodeId,
    Observation, TaskId,
};
use policy::Policy;
use units::{Bytes, Rate, Span, Time};

use crate::{FlowRecord, JobRecord, Outcome, QueueRecord};

/// A network on which flows run, as the driver sees it.
pub trait World {
    /// Why a run can't go on.
    type Error;

    /// The simulated time.
    fn now(&self) -> Time;

    /// Lets everything happen up to `limit`, or until there is something to tell.
    fn run(&mut self, limit: Time) -> Notice;

    /// Moves the clock to `time`, before which nothing is left to happen.
    fn advance(&mut self, time: Time);

    /// Starts a flow now; identifiers count up from 0.
    ///
    /// # Errors
    /// A flow that the world can't carry.
    fn start(
        &mut self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
        size: Bytes,
    ) -> Result<FlowId, Self::Error>;

    /// Sets or lifts the limit of a flow. A flow that is gone is left.
    fn limit(&mut self, flow: FlowId, limit: Option<Rate>);

    /// Sets the priority of a flow, where the world serves priorities; 0 goes first.
    fn prioritize(&mut self, flow: FlowId, level: u8);

    /// From now on the flow's receiving application reads by [`World::consume`] only; what it leaves
    /// fills the receive buffer and slows the sender. Where receivers have no buffers, nothing
    /// changes.
    fn hold(&mut self, flow: FlowId) {
        let _ = flow;
    }

    /// The receiving application of a flow that is held reads so many octets, or what there is.
    fn consume(&mut self, flow: FlowId, bytes: Bytes) {
        let _ = (flow, bytes);
    }

    /// What a flow has done so far; `None` once the world holds nothing of it.
    fn state(&self, flow: FlowId) -> Option<FlowState>;

    /// Packets in the queue of a link now.
    fn queue_length(&mut self, link: LinkId) -> u32;

    /// Called when the world paused, to tell of faults outside the simulation.
    ///
    /// # Errors
    /// The fault.
    fn check(&mut self) -> Result<(), Self::Error>;

    /// Audits the run that has ended and adds to `outcome` its links and its counts of events.
    ///
    /// # Errors
    /// A law of the world that was broken, or a fault outside the simulation.
    fn finish(self, outcome: &mut Outcome) -> Result<(), Self::Error>;
}

/// Why [`World::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The flow's last byte was delivered, and what it took.
    Ended(FlowId, FlowState),
    /// Many events passed: a chance to show progress.
    Pause,
    /// Nothing more happens up to the limit.
    Limit,
}

/// What a flow has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowState {
    /// Payload that reached the receiving host in order.
    pub delivered: Bytes,
    /// Of that, what its application has not read; zero where it reads at once.
    pub unread: Bytes,
    /// Packets sent again.
    pub retransmissions: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
}

/// What happens in a world: who moves what, and who decides.
pub struct Plan<'a> {
    /// The network that the policy sees.
    pub network: Network,
    /// Jobs in order of arrival.
    pub jobs: Box<dyn Iterator<Item = Job> + 'a>,
    /// The policy; `None` decides nothing.
    pub policy: Option<Box<dyn Policy + 'a>>,
    /// One-way delay between an application, or an actuator, and the controller.
    pub control_delay: Span,
    /// The run ends here at the latest; [`Time::NEVER`] runs until every flow has ended.
    pub until: Time,
    /// Queues to watch.
    pub monitors: Vec<Monitor>,
}

/// A queue whose length is recorded at regular times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// The directed link that the queue feeds.
    pub link: LinkId,
    /// Time between two samples; above zero.
    pub interval: Span,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// Flows started so far.
    pub started: u64,
    /// Flows ended so far.
    pub ended: u64,
    /// Payload delivered so far.
    pub delivered: Bytes,
}

/// Runs `plan` in `world` to its end and reports. `progress` is called now and then.
///
/// # Errors
/// Those of the world.
pub fn drive<W: World>(
    world: W,
    plan: Plan<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, W::Error> {
    Driver::new(world, plan).run(progress)
}

/// Something that happens at a time given in advance.
enum Act {
    /// A flow of a job begins.
    Start { job: usize, flow: Flow },
    /// An observation reaches the policy.
    Hear(Observation),
    /// A directive reaches its actuator.
    Obey(Directive),
    /// A watched queue is sampled.
    Sample { monitor: usize },
}

/// Acts in order of time; of those at the same time, what was entered first comes first.
#[derive(Default)]
struct Agenda {
    heap: BinaryHeap<Entry>,
    entered: u64,
}

struct Entry {
    due: Reverse<(Time, u64)>,
    act: Act,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.cmp(&other.due)
    }
}

impl Agenda {
    fn enter(&mut self, time: Time, act: Act) {
        self.heap.push(Entry { due: Reverse((time, self.entered)), act });
        self.entered += 1;
    }

    fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |entry| entry.due.0.0)
    }

    fn pop(&mut self) -> Option<Act> {
        self.heap.pop().map(|entry| entry.act)
    }
}

struct Driver<'a, W> {
    network: Network,
    policy: Option<Box<dyn Policy + 'a>>,
    control_delay: Span,
    until: Time,
    jobs: Peekable<Box<dyn Iterator<Item = Job> + 'a>>,
    world: W,
    agenda: Agenda,
    outcome: Outcome,
    /// Flows of each job that have not ended.
    remaining: Vec<usize>,
    /// Position of each flow's job in the outcome.
    owners: Vec<usize>,
    directives: Directives,
    progress: Progress,
    samples_pending: usize,
}

impl<'a, W: World> Driver<'a, W> {
    fn new(world: W, plan: Plan<'a>) -> Self {
        let mut agenda = Agenda::default();
        let mut outcome = Outcome::default();
        for (monitor, &Monitor { link, interval }) in plan.monitors.iter().enumerate() {
            outcome.queues.push(QueueRecord { link, interval, packets: Vec::new() });
            agenda.enter(Time::ZERO + interval, Act::Sample { monitor });
        }
        Self {
            samples_pending: plan.monitors.len(),
            network: plan.network,
            policy: plan.policy,
            control_delay: plan.control_delay,
            until: plan.until,
            jobs: plan.jobs.peekable(),
            world,
            agenda,
            outcome,
            remaining: Vec::new(),
            owners: Vec::new(),
            directives: Directives::new(),
            progress: Progress::default(),
        }
    }

    fn run(mut self, report: &mut dyn FnMut(Progress)) -> Result<Outcome, W::Error> {
        loop {
            let arrival = self.jobs.peek().map_or(Time::NEVER, |job| job.arrival);
            let tick = self.policy.as_ref().and_then(|p| p.deadline()).unwrap_or(Time::NEVER);
            let next = arrival.min(tick).min(self.agenda.next());
            match self.world.run(next.min(self.until)) {
                Notice::Ended(flow, state) => self.ended(flow, &state),
                Notice::Pause => {
                    self.progress.now = self.world.now();
                    report(self.progress);
                    self.world.check()?;
                }
                Notice::Limit if next > self.until || next == Time::NEVER => break,
                // A policy with nothing left to decide about must not keep the run alive.
                Notice::Limit if next == tick && self.is_idle() => break,
                Notice::Limit => {
                    self.world.advance(next);
                    if next == self.agenda.next() {
                        self.act()?;
                    } else if next == arrival {
                        if let Some(job) = self.jobs.next() {
                            self.arrive(&job)?;
                        }
                    } else {
                        self.tick(next);
                    }
                }
            }
        }
        self.finish()
    }

    /// Whether all jobs have come and gone.
    fn is_idle(&mut self) -> bool {
        self.jobs.peek().is_none()
            && self.progress.ended == self.progress.started
            && self.agenda.heap.is_empty()
    }

    fn arrive(&mut self, job: &Job) -> Result<(), W::Error> {
        let now = self.world.now();
        let position = self.outcome.jobs.len();
        self.outcome.jobs.push(JobRecord {
            id: job.id,
            class: job.class,
            arrival: job.arrival,
            size: job.size(),
            end: job.flows.is_empty().then_some(job.arrival),
        });
        self.remaining.push(job.flows.len());
        if self.policy.is_some() {
            self.announce(job);
        }
        for flow in &job.flows {
            let act = Act::Start { job: position, flow: *flow };
            if flow.offset == Span::ZERO {
                self.start(position, flow)?;
            } else {
                self.agenda.enter(now + flow.offset, act);
            }
        }
        Ok(())
    }

    /// What a job tells about itself: that it is there, where its tasks run, and, as each map task
    /// ends, how much its reduce tasks will fetch.
    fn announce(&mut self, job: &Job) {
        let id = job.id;
        self.tell(Declared::JobStart { job: id });
        let mut hosts: Vec<_> =
            job.flows.iter().flat_map(|f| [(f.from, f.src), (f.to, f.dst)]).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for (task, host) in hosts {
            self.tell(Declared::TaskHost { job: id, task, host });
        }
        let mut maps: Vec<TaskId> = job.flows.iter().map(|flow| flow.from).collect();
        maps.sort_unstable();
        maps.dedup();
        let mut by_map: Vec<&Flow> = job.flows.iter().collect();
        by_map.sort_by_key(|flow| flow.from);
        let mut by_map = &by_map[..];
        for map in maps {
            let count = by_map.partition_point(|flow| flow.from == map);
            let (own, rest) = by_map.split_at(count);
            by_map = rest;
            let offset = own.iter().map(|flow| flow.offset).min().unwrap_or_default();
            let reduces = own.iter().map(|flow| (flow.to, flow.size)).collect();
            let size = Declared::Size { job: id, map, reduces };
            let heard = self.world.now() + offset + self.control_delay;
            self.agenda.enter(heard, Act::Hear(size.into()));
        }
    }

    fn start(&mut self, job: usize, flow: &Flow) -> Result<(), W::Error> {
        let now = self.world.now();
        let id = self.world.start(&self.network, flow.src, flow.dst, flow.size)?;
        let job_id = self.outcome.jobs[job].id;
        self.owners.push(job);
        self.outcome.flows.push(FlowRecord {
            id,
            job: job_id,
            src: flow.src,
            dst: flow.dst,
            size: flow.size,
            delivered: Bytes::ZERO,
            start: now,
            end: None,
            retransmissions: 0,
            timeouts: 0,
            limits: Vec::new(),
        });
        self.progress.started += 1;
        if self.policy.is_some() {
            let (src, dst, size) = (flow.src, flow.dst, flow.size);
            self.tell(Declared::FlowRequest { job: job_id, flow: id, src, dst, size });
        }
        Ok(())
    }

    fn ended(&mut self, flow: FlowId, state: &FlowState) {
        let now = self.world.now();
        let record = &mut self.outcome.flows[flow.index()];
        record.end = Some(now);
        note(record, state);
        self.progress.ended += 1;
        self.progress.delivered += record.delivered;
        let owner = self.owners[flow.index()];
        self.remaining[owner] -= 1;
        let job: JobId = record.job;
        let complete = self.remaining[owner] == 0;
        if complete {
            self.outcome.jobs[owner].end = Some(now);
        }
        if self.policy.is_some() {
            self.tell(Declared::FlowComplete { job, flow });
            if complete {
                self.tell(Declared::JobComplete { job });
            }
        }
    }

    /// Sends a message to the policy.
    fn tell(&mut self, message: Declared) {
        let heard = self.world.now() + self.control_delay;
        self.agenda.enter(heard, Act::Hear(message.into()));
    }

    fn act(&mut self) -> Result<(), W::Error> {
        match self.agenda.pop() {
            None => {}
            Some(Act::Start { job, flow }) => self.start(job, &flow)?,
            Some(Act::Hear(observation)) => {
                if let Some(policy) = &mut self.policy {
                    let now = self.world.now();
                    policy.observe(now, &self.network, &observation, &mut self.directives);
                    self.send();
                }
            }
            Some(Act::Obey(directive)) => self.obey(directive),
            Some(Act::Sample { monitor }) => self.sample(monitor),
        }
        Ok(())
    }

    fn tick(&mut self, now: Time) {
        if let Some(policy) = &mut self.policy {
            policy.tick(now, &self.network, &mut self.directives);
            self.send();
        }
    }

    /// Sends the policy's directives on their way.
    fn send(&mut self) {
        let obeyed = self.world.now() + self.control_delay;
        for directive in self.directives.drain(..) {
            self.agenda.enter(obeyed, Act::Obey(directive));
        }
    }

    fn obey(&mut self, directive: Directive) {
        match directive {
            Directive::Pace { flow, limit, .. } => {
                let now = self.world.now();
                let Some(record) = self.outcome.flows.get_mut(flow.index()) else { return };
                if record.end.is_some() {
                    return;
                }
                record.limits.push((now, limit));
                self.world.limit(flow, limit);
            }
            Directive::Prioritize { flow, level, .. } => self.world.prioritize(flow, level),
        }
    }

    /// Samples go on as long as anything else does.
    fn sample(&mut self, monitor: usize) {
        self.samples_pending -= 1;
        let queue = &mut self.outcome.queues[monitor];
        queue.packets.push(self.world.queue_length(queue.link));
        let idle = self.jobs.peek().is_none() && self.progress.ended == self.progress.started;
        if !(idle && self.agenda.heap.len() == self.samples_pending) {
            self.agenda.enter(self.world.now() + queue.interval, Act::Sample { monitor });
            self.samples_pending += 1;
        }
    }

    fn finish(mut self) -> Result<Outcome, W::Error> {
        for record in self.outcome.flows.iter_mut().filter(|record| record.end.is_none()) {
            if let Some(state) = self.world.state(record.id) {
                note(record, &state);
            }
        }
        if self.until != Time::NEVER {
            self.world.advance(self.until);
        }
        self.outcome.end = self.world.now();
        self.world.finish(&mut self.outcome)?;
        Ok(self.outcome)
    }
}

/// Notes what a flow has done.
fn note(record: &mut FlowRecord, state: &FlowState) {
    record.delivered = state.delivered;
    record.retransmissions = state.retransmissions;
    record.timeouts = state.timeouts;
}
