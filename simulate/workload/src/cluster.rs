//! Hadoop jobs as an application: map tasks read and compute in containers, reduce tasks fetch the
//! maps' output and compute; a free container goes to the next task. So a transfer that ends sooner
//! lets others begin sooner, unlike with jobs that are only flows.
//!
//! The rules are those of Hadoop's YARN, on which Phurti was evaluated (section 6.1), as far as they
//! decide when tasks run: containers of any task, given to jobs in order of arrival, maps before
//! reduces; a master in one container for the life of a job; reduces from a share of finished maps
//! on (slow start); few fetches of a reduce at a time. Left out: reading over the network, for
//! Hadoop places maps beside their input, writing of the output, speculation, and failures.
//!
//! A job begins when it is submitted and ends when its last reduce does. Messages are those of Phurti,
//! section 5.1: `SIZE` comes at the end of each map.

use std::collections::VecDeque;

use engine::random::Stream;
use engine::{Actions, Application, Living, World};
use model::{Declared, FlowId, JobId, NodeId, TaskId};
use rand::RngExt;
use rand::seq::SliceRandom;
use units::{Bytes, Rate, Span, Time};

use crate::error::{require, require_hosts};
use crate::{Draft, ParameterError, Plan, Tasks};

/// The containers, and how long tasks take in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Containers of each host; repeats if there are more hosts.
    pub containers: Vec<u32>,
    /// Most jobs at once; the others wait for one to end.
    pub most_jobs: u32,
    /// Share of a job's maps that must have ended before its reduces are launched.
    pub slow_start: f64,
    /// Fetches of a reduce at a time.
    pub fetches: u32,
    /// From the launch of a task to its first work.
    pub startup: Span,
    /// Input that a map processes in a second.
    pub map_rate: Rate,
    /// Shuffled payload that a reduce processes in a second.
    pub reduce_rate: Rate,
    /// Every task takes its time, times an evenly distributed factor from 1 − this to 1 + this.
    pub variation: f64,
}

impl Cluster {
    /// Fewest containers without deadlock: a master and a task.
    const LEAST: u64 = 2;

    /// The application that runs `drafts`, in order of arrival, with tasks as `tasks` says. Streams:
    /// `placement`, `task-time`.
    ///
    /// # Errors
    /// A parameter outside its range.
    pub fn run(
        &self,
        tasks: &Tasks,
        drafts: &[Draft],
        hosts: &[NodeId],
        seed: u64,
    ) -> Result<Running, ParameterError> {
        require_hosts(hosts)?;
        tasks.validate()?;
        tasks.require_room(drafts)?;
        let all = self.containers.iter().cycle().zip(hosts);
        let free: Vec<u32> = all.map(|(containers, _)| *containers).collect();
        let total: u64 = free.iter().copied().map(u64::from).sum();
        require(total >= Self::LEAST, "containers", || {
            format!("{total} in all; a job needs {} at least", Self::LEAST)
        })?;
        require((1..total).contains(&u64::from(self.most_jobs)), "most_jobs", || {
            format!(
                "{}; each job has a container for its master: write 1 to {}, so that one is left",
                self.most_jobs,
                total - 1
            )
        })?;
        let mut placement = Stream::named(seed, "placement");
        let mut times = Stream::named(seed, "task-time");
        let spread = (1.0 - self.variation)..=(1.0 + self.variation);
        let mut next = |drafts: &Draft| {
            let plan = tasks.plan(drafts);
            let mut order = || {
                let mut order: Vec<usize> = (0..hosts.len()).collect();
                order.shuffle(&mut placement);
                order
            };
            let (map_order, reduce_order) = (order(), order());
            let mut taking = |rate: Rate, bytes: Bytes| {
                let factor: f64 = times.random_range(spread.clone());
                Span::from_secs_f64(rate.time_for(bytes).as_secs_f64() * factor)
            };
            let part = Bytes::new(drafts.input.get() / u64::from(plan.maps));
            let maps = (0..plan.maps).map(|_| self.startup + taking(self.map_rate, part)).collect();
            let received = plan.sizes.iter().map(|parts| parts.iter().copied().sum());
            let reduces = received.map(|bytes| taking(self.reduce_rate, bytes)).collect();
            Job {
                draft: drafts.clone(),
                state: State::default(),
                plan,
                map_order,
                reduce_order,
                maps,
                reduces,
            }
        };
        Ok(Running {
            jobs: drafts.iter().map(&mut next).collect(),
            cluster: self.clone(),
            hosts: hosts.to_vec(),
            free,
            arrived: 0,
            running: 0,
            first: 0,
            timers: Vec::new(),
            owners: Living::default(),
        })
    }
}

/// Jobs in a cluster.
#[derive(Clone, Debug)]
pub struct Running {
    cluster: Cluster,
    hosts: Vec<NodeId>,
    /// Free containers of each host.
    free: Vec<u32>,
    /// By arrival.
    jobs: Vec<Job>,
    arrived: usize,
    /// Jobs that have a master.
    running: u32,
    /// The number of the first job.
    first: u32,
    /// What the timer of each token is for.
    timers: Vec<Timer>,
    /// Job and reduce of each flow.
    owners: Living<(usize, usize)>,
}

#[derive(Clone, Debug)]
struct Job {
    draft: Draft,
    plan: Plan,
    /// The order in which maps and reduces prefer hosts; each starts one further.
    map_order: Vec<usize>,
    reduce_order: Vec<usize>,
    /// How long each map takes from its launch, and each reduce once it has everything.
    maps: Vec<Span>,
    reduces: Vec<Span>,
    state: State,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Position in the results.
    record: usize,
    /// Host of the master while the job runs.
    master: Option<usize>,
    /// Host of each map that was launched, in order.
    mapping: Vec<usize>,
    /// Maps that ended, in that order.
    mapped: Vec<usize>,
    /// Each reduce that was launched, in order.
    reducing: Vec<Reduce>,
    reduced: usize,
}

#[derive(Clone, Debug)]
struct Reduce {
    host: usize,
    started: bool,
    /// Maps to fetch from.
    waiting: VecDeque<usize>,
    fetching: u32,
    fetched: usize,
}

#[derive(Clone, Copy, Debug)]
enum Timer {
    MapEnds { job: usize, map: usize },
    ReduceStarts { job: usize, reduce: usize },
    ReduceEnds { job: usize, reduce: usize },
}

impl Running {
    /// Payload of all jobs, that of fetches within a host too.
    pub fn payload(&self) -> Bytes {
        self.jobs.iter().map(|job| job.draft.shuffle).sum()
    }

    /// The same, its jobs numbered from `first` on.
    #[must_use]
    pub fn numbered(mut self, first: JobId) -> Self {
        self.first = first.0;
        self
    }

    /// How many jobs there are, and how many tasks.
    pub fn tasks(&self) -> (usize, usize) {
        let tasks = self.jobs.iter().map(|job| job.maps.len() + job.reduces.len());
        (self.jobs.len(), tasks.sum())
    }

    /// Takes a container for the task that comes at `place` in `order`.
    fn take(free: &mut [u32], order: &[usize], place: usize) -> Option<usize> {
        let preferred = order.iter().cycle().skip(place % order.len()).take(order.len());
        let host = preferred.copied().find(|&host| free[host] > 0)?;
        free[host] -= 1;
        Some(host)
    }

    fn timer<W: World>(&mut self, wait: Span, timer: Timer, actions: &mut Actions<'_, W>) {
        actions.later(wait, self.timers.len() as u64);
        self.timers.push(timer);
    }

    /// Gives free containers to tasks that wait for one.
    fn schedule<W: World>(&mut self, actions: &mut Actions<'_, W>) {
        for number in 0..self.arrived {
            if self.jobs[number].is_done() {
                continue;
            }
            if self.jobs[number].state.master.is_none() {
                if self.running == self.cluster.most_jobs {
                    break;
                }
                let job = &mut self.jobs[number];
                let Some(host) = Self::take(&mut self.free, &job.map_order, 0) else {
                    break;
                };
                job.state.master = Some(host);
                self.running += 1;
            }
            self.launch_maps(number, actions);
            self.launch_reduces(number, actions);
        }
    }

    fn launch_maps<W: World>(&mut self, number: usize, actions: &mut Actions<'_, W>) {
        loop {
            let job = &mut self.jobs[number];
            let map = job.state.mapping.len();
            let Some(&span) = job.maps.get(map) else {
                break;
            };
            let Some(host) = Self::take(&mut self.free, &job.map_order, map) else {
                break;
            };
            job.state.mapping.push(host);
            let host = self.hosts[host];
            actions.tell(Declared::TaskHost { job: id(self.first, number), task: task(map), host });
            self.timer(span, Timer::MapEnds { job: number, map }, actions);
        }
    }

    /// Maps go first, so that reduces never hold containers that their own maps need.
    #[allow(clippy::cast_precision_loss)] // numbers of tasks
    fn launch_reduces<W: World>(&mut self, number: usize, actions: &mut Actions<'_, W>) {
        loop {
            let job = &mut self.jobs[number];
            let reduce = job.state.reducing.len();
            let enough = self.cluster.slow_start * job.maps.len() as f64;
            let ready = (job.state.mapped.len() as f64) >= enough;
            let mapping = job.state.mapping.len() == job.maps.len();
            if reduce == job.reduces.len() || !mapping || !ready {
                break;
            }
            let Some(host) = Self::take(&mut self.free, &job.reduce_order, reduce) else {
                break;
            };
            let waiting = job.state.mapped.iter().copied().collect();
            job.state.reducing.push(Reduce {
                host,
                started: false,
                waiting,
                fetching: 0,
                fetched: 0,
            });
            let (task, host) = (task(job.maps.len() + reduce), self.hosts[host]);
            actions.tell(Declared::TaskHost { job: id(self.first, number), task, host });
            let started = Timer::ReduceStarts { job: number, reduce };
            self.timer(self.cluster.startup, started, actions);
        }
    }

    /// Starts a reduce's fetches up to its limit, and its work when it has everything.
    fn fetch<W: World>(
        &mut self,
        number: usize,
        reduce: usize,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let job = &mut self.jobs[number];
        let state = &mut job.state.reducing[reduce];
        if !state.started {
            return Ok(());
        }
        while state.fetching < self.cluster.fetches
            && let Some(map) = state.waiting.pop_front()
        {
            let size = job.plan.sizes[reduce][map];
            let host = job.state.mapping[map];
            if host == state.host || size == Bytes::ZERO {
                state.fetched += 1;
                continue;
            }
            let (src, dst) = (self.hosts[host], self.hosts[state.host]);
            let flow = actions.start(id(self.first, number), src, dst, size)?;
            // Other applications have flows too.
            self.owners.skip(flow.index(), (usize::MAX, usize::MAX));
            self.owners.push((number, reduce));
            state.fetching += 1;
            actions.tell(Declared::FlowRequest {
                job: id(self.first, number),
                flow,
                src,
                dst,
                size,
            });
        }
        if state.fetched == job.maps.len() {
            let span = job.reduces[reduce];
            self.timer(span, Timer::ReduceEnds { job: number, reduce }, actions);
        }
        Ok(())
    }

    fn map_ends<W: World>(
        &mut self,
        number: usize,
        map: usize,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let job = &mut self.jobs[number];
        self.free[job.state.mapping[map]] += 1;
        job.state.mapped.push(map);
        if actions.is_controlled() {
            let sizes = job.plan.sizes.iter().enumerate();
            let reduces = sizes.map(|(reduce, parts)| (task(job.maps.len() + reduce), parts[map]));
            let reduces = reduces.collect();
            actions.tell(Declared::Size { job: id(self.first, number), map: task(map), reduces });
        }
        for reduce in 0..job.state.reducing.len() {
            self.jobs[number].state.reducing[reduce].waiting.push_back(map);
            self.fetch(number, reduce, actions)?;
        }
        self.schedule(actions);
        Ok(())
    }

    fn reduce_ends<W: World>(
        &mut self,
        number: usize,
        reduce: usize,
        actions: &mut Actions<'_, W>,
    ) {
        let job = &mut self.jobs[number];
        self.free[job.state.reducing[reduce].host] += 1;
        job.state.reduced += 1;
        if job.is_done() {
            if let Some(master) = job.state.master.take() {
                self.free[master] += 1;
                self.running -= 1;
            }
            actions.end_job(job.state.record);
            actions.tell(Declared::JobComplete { job: id(self.first, number) });
        }
        self.schedule(actions);
    }
}

impl Job {
    fn is_done(&self) -> bool {
        self.state.reduced == self.reduces.len()
    }
}

impl<W: World> Application<W> for Running {
    fn arrival(&mut self) -> Option<Time> {
        self.jobs.get(self.arrived).map(|job| job.draft.arrival)
    }

    fn arrive(&mut self, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let Some(job) = self.jobs.get_mut(self.arrived) else {
            return Ok(());
        };
        let number = id(self.first, self.arrived);
        job.state.record = actions.begin_job(number, job.draft.class, job.draft.shuffle);
        self.arrived += 1;
        let application = actions.application();
        actions.tell(Declared::JobStart { job: number, application });
        self.schedule(actions);
        Ok(())
    }

    fn due(&mut self, token: u64, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let timer = usize::try_from(token).ok().and_then(|token| self.timers.get(token).copied());
        match timer {
            None => Ok(()),
            Some(Timer::MapEnds { job, map }) => self.map_ends(job, map, actions),
            Some(Timer::ReduceStarts { job, reduce }) => {
                self.jobs[job].state.reducing[reduce].started = true;
                self.fetch(job, reduce, actions)
            }
            Some(Timer::ReduceEnds { job, reduce }) => {
                self.reduce_ends(job, reduce, actions);
                Ok(())
            }
        }
    }

    fn ended(&mut self, flow: FlowId, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let (number, reduce) = self.owners[flow.index()];
        self.owners.end(flow.index());
        actions.tell(Declared::FlowComplete { job: id(self.first, number), flow });
        let state = &mut self.jobs[number].state.reducing[reduce];
        state.fetching -= 1;
        state.fetched += 1;
        self.fetch(number, reduce, actions)
    }
}

/// Jobs are numbered by arrival, of which there are fewer than 2³².
fn id(first: u32, job: usize) -> JobId {
    JobId(first.saturating_add(u32::try_from(job).unwrap_or(u32::MAX)))
}

/// Reduces are numbered after the maps; a job has fewer than 2³² tasks.
fn task(number: usize) -> TaskId {
    TaskId(u32::try_from(number).unwrap_or(u32::MAX))
}
