//! Jobs that arrive, shuffle and end: flows whose sizes are known beforehand.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;

use model::{Declared, Flow, FlowId, Job, TaskId, Terms};
use units::{Bytes, Span, Time};

use crate::{Actions, Application, Living, World};

/// Runs jobs and sends their messages to the policy as Phurti, section 5.1, has Hadoop do.
pub struct Jobs<'a> {
    jobs: Peekable<Box<dyn Iterator<Item = Job> + 'a>>,
    /// Flows of each job that have not ended, by its position in the results.
    remaining: Living<usize>,
    /// Position of each flow's job in the results.
    owners: Living<usize>,
    /// Flows that begin later than their job; a timer's token is the position.
    waiting: VecDeque<Option<(usize, Flow)>>,
    /// Entries removed from the front of `waiting`.
    gone: u64,
}

impl<'a> Jobs<'a> {
    /// `jobs` in order of arrival.
    pub fn new(jobs: impl Iterator<Item = Job> + 'a) -> Self {
        let jobs: Box<dyn Iterator<Item = Job> + 'a> = Box::new(jobs);
        Self {
            jobs: jobs.peekable(),
            remaining: Living::default(),
            owners: Living::default(),
            waiting: VecDeque::new(),
            gone: 0,
        }
    }

    fn start<W: World>(
        &mut self,
        job: usize,
        flow: &Flow,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let (src, dst, size) = (flow.src, flow.dst, flow.size);
        let id = actions.outcome().jobs.peek(job).id;
        let flow = actions.start(id, src, dst, size)?;
        // Other applications have flows too, and jobs.
        self.owners.skip(flow.index(), usize::MAX);
        self.owners.push(job);
        actions.tell(Declared::FlowRequest { job: id, flow, src, dst, size });
        Ok(())
    }
}

impl<W: World> Application<W> for Jobs<'_> {
    fn arrival(&mut self) -> Option<Time> {
        self.jobs.peek().map(|job| job.arrival)
    }

    fn arrive(&mut self, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let Some(job) = self.jobs.next() else {
            return Ok(());
        };
        let position = actions.begin_job(job.id, job.class, job.size());
        self.remaining.skip(position, 0);
        self.remaining.push(job.flows.len());
        if job.flows.is_empty() {
            self.remaining.end(position);
            actions.end_job(position);
        }
        if actions.is_controlled() {
            announce(&job, actions);
        }
        for flow in &job.flows {
            if flow.offset == Span::ZERO {
                self.start(position, flow, actions)?;
            } else {
                actions.later(flow.offset, self.gone + self.waiting.len() as u64);
                self.waiting.push_back(Some((position, *flow)));
            }
        }
        Ok(())
    }

    fn due(&mut self, token: u64, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let position = usize::try_from(token - self.gone).ok();
        let entry = position.and_then(|position| self.waiting.get_mut(position)?.take());
        while self.waiting.front().is_some_and(Option::is_none) {
            self.waiting.pop_front();
            self.gone += 1;
        }
        match entry {
            Some((job, flow)) => self.start(job, &flow, actions),
            None => Ok(()),
        }
    }

    fn ended(&mut self, flow: FlowId, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let owner = self.owners[flow.index()];
        self.owners.end(flow.index());
        self.remaining[owner] -= 1;
        let job = actions.flow(flow).job;
        actions.tell(Declared::FlowComplete { job, flow });
        if self.remaining[owner] == 0 {
            self.remaining.end(owner);
            actions.end_job(owner);
            actions.tell(Declared::JobComplete { job });
        }
        Ok(())
    }
}

/// The messages of a job: that it started, where its tasks run, and, as each map task ends, how
/// much its reduce tasks will fetch.
fn announce<W: World>(job: &Job, actions: &mut Actions<'_, W>) {
    let id = job.id;
    let application = actions.application();
    actions.tell(Declared::JobStart { job: id, application });
    if job.terms != Terms::default() {
        actions.tell(Declared::JobTerms { job: id, terms: job.terms.clone() });
    }
    let mut by_map: Vec<&Flow> = job.flows.iter().collect();
    by_map.sort_by_key(|flow| flow.from);
    // Flows of a task mostly follow each other, in this order or in the other.
    let mut hosts: Vec<_> = by_map.iter().map(|flow| (flow.from, flow.src)).collect();
    hosts.dedup();
    let mut reducers: Vec<_> = job.flows.iter().map(|flow| (flow.to, flow.dst)).collect();
    reducers.dedup();
    hosts.append(&mut reducers);
    hosts.sort_unstable();
    hosts.dedup();
    for (task, host) in hosts {
        actions.tell(Declared::TaskHost { job: id, task, host });
    }
    for own in by_map.chunk_by(|one, other| one.from == other.from) {
        let map = own[0].from;
        let offset = own.iter().map(|flow| flow.offset).min().unwrap_or_default();
        // Several flows may go from one map to one reduce, which stands once in a message.
        let mut reduces: BTreeMap<TaskId, Bytes> = BTreeMap::new();
        for flow in own {
            *reduces.entry(flow.to).or_default() += flow.size;
        }
        let reduces = reduces.into_iter().collect();
        actions.tell_after(offset, Declared::Size { job: id, map, reduces });
    }
}
