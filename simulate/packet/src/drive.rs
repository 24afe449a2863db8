//! Drives a world: jobs arrive, applications speak to the policy, its directives are obeyed; each
//! message takes the control delay.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::iter::Peekable;

use engine::{FlowRecord, JobRecord, LinkRecord, Outcome, QueueRecord};
use model::{
    Declared, Directive, Directives, Flow, FlowId, Job, JobId, LinkId, Observation, TaskId,
};
use policy::Policy;
use units::{Bytes, Span, Time};

use crate::flow::FlowState;
use crate::world::{Notice, World};
use crate::{Enforcement, Monitor, Progress, RunError, Setup};

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

pub(crate) struct Driver<'a> {
    setup: Parts<'a>,
    jobs: Peekable<Box<dyn Iterator<Item = Job> + 'a>>,
    world: World,
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

/// The setup without its jobs.
struct Parts<'a> {
    network: model::Network,
    policy: Option<Box<dyn Policy + 'a>>,
    enforcement: Enforcement,
    control_delay: Span,
    until: Time,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(setup: Setup<'a>) -> Result<Self, RunError> {
        let ports = |link: LinkId| {
            let from = setup.network.topology().link(link).from;
            match setup.network.topology().nodes()[from.index()].kind {
                model::NodeKind::Host => setup.host_queue,
                model::NodeKind::Switch => setup.switch_queue,
            }
        };
        let mut world = World::new(&setup.network, setup.transport, ports)?;
        for capture in &setup.captures {
            world.taps.open(&setup.network, capture)?;
        }
        let parts = Parts {
            network: setup.network,
            policy: setup.policy,
            enforcement: setup.enforcement,
            control_delay: setup.control_delay,
            until: setup.until,
        };
        let mut agenda = Agenda::default();
        let mut outcome = Outcome::default();
        for (monitor, &Monitor { link, interval }) in setup.monitors.iter().enumerate() {
            if interval == Span::ZERO || link.index() >= parts.network.topology().links().len() {
                return Err(RunError::Monitor { link, interval });
            }
            outcome.queues.push(QueueRecord { link, interval, packets: Vec::new() });
            agenda.enter(Time::ZERO + interval, Act::Sample { monitor });
        }
        Ok(Self {
            samples_pending: setup.monitors.len(),
            setup: parts,
            jobs: setup.jobs.peekable(),
            world,
            agenda,
            outcome,
            remaining: Vec::new(),
            owners: Vec::new(),
            directives: Directives::new(),
            progress: Progress::default(),
        })
    }

    pub(crate) fn run(mut self, report: &mut dyn FnMut(Progress)) -> Result<Outcome, RunError> {
        loop {
            let arrival = self.jobs.peek().map_or(Time::NEVER, |job| job.arrival);
            let tick = self.setup.policy.as_ref().and_then(|p| p.deadline()).unwrap_or(Time::NEVER);
            let next = arrival.min(tick).min(self.agenda.next());
            match self.world.run(next.min(self.setup.until)) {
                Notice::Ended(flow, state) => self.ended(flow, &state),
                Notice::Pause => {
                    self.progress.now = self.world.now();
                    report(self.progress);
                    self.world.taps.check()?;
                }
                Notice::Limit if next > self.setup.until || next == Time::NEVER => break,
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

    fn arrive(&mut self, job: &Job) -> Result<(), RunError> {
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
        if self.setup.policy.is_some() {
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
            let heard = self.world.now() + offset + self.setup.control_delay;
            self.agenda.enter(heard, Act::Hear(size.into()));
        }
    }

    fn start(&mut self, job: usize, flow: &Flow) -> Result<(), RunError> {
        let now = self.world.now();
        let id = self.world.start(&self.setup.network, flow.src, flow.dst, flow.size.get())?;
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
        if self.setup.policy.is_some() {
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
        if self.setup.policy.is_some() {
            self.tell(Declared::FlowComplete { job, flow });
            if complete {
                self.tell(Declared::JobComplete { job });
            }
        }
    }

    /// Sends a message to the policy.
    fn tell(&mut self, message: Declared) {
        let heard = self.world.now() + self.setup.control_delay;
        self.agenda.enter(heard, Act::Hear(message.into()));
    }

    fn act(&mut self) -> Result<(), RunError> {
        match self.agenda.pop() {
            None => {}
            Some(Act::Start { job, flow }) => self.start(job, &flow)?,
            Some(Act::Hear(observation)) => {
                if let Some(policy) = &mut self.setup.policy {
                    let now = self.world.now();
                    policy.observe(now, &self.setup.network, &observation, &mut self.directives);
                    self.send();
                }
            }
            Some(Act::Obey(directive)) => self.obey(directive),
            Some(Act::Sample { monitor }) => self.sample(monitor),
        }
        Ok(())
    }

    fn tick(&mut self, now: Time) {
        if let Some(policy) = &mut self.setup.policy {
            policy.tick(now, &self.setup.network, &mut self.directives);
            self.send();
        }
    }

    /// Sends the policy's directives on their way.
    fn send(&mut self) {
        let obeyed = self.world.now() + self.setup.control_delay;
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
                let bps = limit.map(units::Rate::as_bps);
                match self.setup.enforcement {
                    Enforcement::Pacing => self.world.pace(flow, bps),
                    Enforcement::Meter { burst } => self.world.meter(flow, bps, burst.get()),
                }
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

    fn finish(mut self) -> Result<Outcome, RunError> {
        for record in self.outcome.flows.iter_mut().filter(|record| record.end.is_none()) {
            if let Some(state) = self.world.state(record.id) {
                note(record, &state);
            }
        }
        if self.setup.until != Time::NEVER {
            self.world.advance(self.setup.until);
        }
        let links = (0u32..).zip(self.setup.network.topology().links());
        self.outcome.links = links
            .map(|(number, _)| {
                let link = self.world.link(LinkId(number));
                LinkRecord {
                    link: LinkId(number),
                    bytes: Bytes::new(link.bytes),
                    packets: link.packets,
                    dropped: link.dropped,
                    marked: link.marked,
                    metered: link.metered,
                    peak: link.peak,
                }
            })
            .collect();
        self.outcome.hops = self.outcome.links.iter().map(|link| link.packets).sum();
        self.outcome.events = self.world.events();
        self.outcome.end = self.world.now();
        self.world.audit().map_err(RunError::Invariant)?;
        self.world.taps.finish()?;
        Ok(self.outcome)
    }
}

/// Notes what a flow has done.
fn note(record: &mut FlowRecord, state: &FlowState) {
    record.delivered = Bytes::new(state.delivered);
    record.retransmissions = state.retransmissions;
    record.timeouts = state.timeouts;
}
