//! What applications declare becomes what the policy is told. Every message is checked in full
//! before anything changes, so that a refused one leaves no trace.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use model::{Declared, FlowId, JobId, NodeId, StreamSample, TaskId};
use protocol::Connection;
use protocol::application::{Declaration, Portion, StreamReport};
use units::{Bytes, Rate, Time};

use crate::budget::Budget;
use crate::controller::Controller;
use crate::message::Refusal;
use crate::registry::{Application, Flow, Lie};

/// Numbers of tasks from here on are the controller's own: see [`crate::truth`].
pub(crate) const OWN_TASKS: u32 = 0xc000_0000;

fn refuse(field: &'static str, reason: String) -> Refusal {
    Refusal { field, reason, busy: false }
}

fn busy(field: &'static str, reason: String) -> Refusal {
    Refusal { field, reason, busy: true }
}

impl Controller {
    pub(crate) fn declared(
        &mut self,
        application: &str,
        declaration: &Declaration,
    ) -> Result<(), Refusal> {
        self.admit(application)?;
        let done = self.declare(application, declaration);
        if let Some(record) = self.registry.applications.get_mut(application) {
            match done {
                Ok(()) => self.counters.declarations += 1,
                Err(_) => {
                    record.refused += 1;
                    self.counters.declarations_refused += 1;
                }
            }
        }
        done
    }

    /// Knows the application from now on, unless it says too much.
    fn admit(&mut self, name: &str) -> Result<(), Refusal> {
        let (now, limits) = (self.now, self.limits);
        if !self.registry.applications.contains_key(name) {
            let most = limits.applications;
            let refusal = if self.registry.applications.len() >= most {
                Some(busy("application", format!("{most} applications are known; try again later")))
            } else if name.is_empty() || name.len() > limits.name_bytes {
                let most = limits.name_bytes;
                Some(refuse("application", format!("must have 1 to {most} bytes")))
            } else {
                None
            };
            if let Some(refusal) = refusal {
                self.counters.declarations_refused += 1;
                return Err(refusal);
            }
            let application = Application {
                jobs: Default::default(),
                flows: 0,
                budget: Budget::new(now),
                ends: None,
                refused: 0,
                contradicted: 0,
            };
            self.registry.applications.insert(Arc::from(name), application);
        }
        self.registry.stays(name);
        let application =
            self.registry.applications.get_mut(name).expect("it is there or was added");
        let per_second = limits.declarations_per_second;
        if !application.budget.take(now, per_second) {
            application.refused += 1;
            self.counters.declarations_refused += 1;
            let reason = format!("more than {per_second} declarations in a second; send fewer");
            return Err(busy("application", reason));
        }
        Ok(())
    }

    fn declare(&mut self, application: &str, declaration: &Declaration) -> Result<(), Refusal> {
        match declaration {
            Declaration::JobStart { job } => self.start_job(application, job),
            Declaration::JobComplete { job } => {
                let job = self.known(application, job)?;
                self.complete_job(job);
                Ok(())
            }
            Declaration::TaskHost { job, task, host } => {
                let job = self.known(application, job)?;
                self.place_task(job, *task, host)
            }
            Declaration::Size { job, map, reduces } => {
                let job = self.known(application, job)?;
                self.announce(job, *map, reduces)
            }
            Declaration::FlowRequest { job, flow, connection, bytes } => {
                let job = self.known(application, job)?;
                self.request(application, job, *flow, *connection, *bytes)
            }
            Declaration::FlowComplete { job, flow } => {
                let job = self.known(application, job)?;
                let id = self.flow_of(job, *flow)?;
                self.complete_flow(id);
                Ok(())
            }
            Declaration::Streams { job, samples } => {
                let job = self.known(application, job)?;
                self.sample(job, samples)
            }
        }
    }

    fn known(&self, application: &str, job: &str) -> Result<JobId, Refusal> {
        let found = self.registry.find_job(application, job);
        found.ok_or_else(|| {
            let job: String = job.chars().take(80).collect();
            refuse("job", format!("\"{job}\" has not started; declare job_start first"))
        })
    }

    fn flow_of(&self, job: JobId, flow: u64) -> Result<FlowId, Refusal> {
        let found = self.registry.job(job).and_then(|job| job.flows.get(&flow));
        found.copied().ok_or_else(|| {
            refuse("flow", format!("the job has no flow {flow}; declare flow_request first"))
        })
    }

    /// A job that has started already goes on: an application that comes back declares all again.
    fn start_job(&mut self, application: &str, job: &str) -> Result<(), Refusal> {
        let limits = self.limits;
        if job.is_empty() || job.len() > limits.name_bytes {
            return Err(refuse("job", format!("must have 1 to {} bytes", limits.name_bytes)));
        }
        if self.registry.find_job(application, job).is_some() {
            return Ok(());
        }
        let jobs = self.registry.applications.get(application).map_or(0, |known| known.jobs.len());
        if jobs >= limits.jobs {
            return Err(busy("job", format!("{jobs} jobs are open; complete one first")));
        }
        let Some(id) = self.registry.add_job(self.now, application, job) else {
            return Err(busy("job", "too many jobs in all; try again later".into()));
        };
        self.tell(Declared::JobStart { job: id });
        Ok(())
    }

    pub(crate) fn complete_job(&mut self, job: JobId) {
        let flows: Vec<FlowId> = match self.registry.job(job) {
            Some(job) => job.flows.values().copied().collect(),
            None => return,
        };
        // Before the flows are forgotten: the policy may still say something about them.
        self.tell(Declared::JobComplete { job });
        for flow in flows {
            self.forget_flow(flow);
        }
        self.registry.remove_job(job);
    }

    fn place_task(&mut self, job: JobId, task: u32, host: &str) -> Result<(), Refusal> {
        check_task("task", task)?;
        let node = self.host(host).ok_or_else(|| {
            let host: String = host.chars().take(80).collect();
            refuse("host", format!("no host is called or addressed \"{host}\"; name a known one"))
        })?;
        let most = self.limits.tasks;
        let record = self.registry.job_mut(job).expect("the job was found");
        if record.hosts.len() >= most && !record.hosts.contains_key(&TaskId(task)) {
            return Err(busy(
                "task",
                format!("the job has {most} tasks already; start another job"),
            ));
        }
        record.hosts.insert(TaskId(task), node);
        self.tell(Declared::TaskHost { job, task: TaskId(task), host: node });
        Ok(())
    }

    /// A host by its name or address.
    fn host(&self, host: &str) -> Option<NodeId> {
        let by_address = || self.view.host_at(host.parse().ok()?);
        let found = self.view.named(host).or_else(by_address);
        found.filter(|node| self.view.kind(*node) == Some(model::NodeKind::Host))
    }

    fn announce(&mut self, job: JobId, map: u32, reduces: &[Portion]) -> Result<(), Refusal> {
        check_task("map", map)?;
        let mut tasks = BTreeSet::new();
        for portion in reduces {
            check_task("reduces.task", portion.task)?;
            if !tasks.insert(portion.task) {
                let reason = format!("task {} stands twice; add its portions up", portion.task);
                return Err(refuse("reduces.task", reason));
            }
        }
        let most = self.limits.tasks;
        let record = self.registry.job_mut(job).expect("the job was found");
        let before = record.sizes.get(&TaskId(map)).map_or(0, Vec::len);
        let portions = record.portions - before + reduces.len();
        if portions > most || record.sizes.len() >= most {
            let reason = format!("the job has more than {most} portions; start another job");
            return Err(busy("reduces", reason));
        }
        let reduces: Vec<(TaskId, Bytes)> =
            reduces.iter().map(|portion| (TaskId(portion.task), portion.bytes)).collect();
        record.portions = portions;
        record.sizes.insert(TaskId(map), reduces.clone());
        self.tell(Declared::Size { job, map: TaskId(map), reduces });
        Ok(())
    }

    fn request(
        &mut self,
        application: &str,
        job: JobId,
        flow: u64,
        connection: Connection,
        bytes: Option<Bytes>,
    ) -> Result<(), Refusal> {
        let src = self.end("connection.source", connection.source)?;
        let dst = self.end("connection.destination", connection.destination)?;
        if src == dst {
            let reason = "both ends are on one host; leave flows within a host out";
            return Err(refuse("connection", reason.into()));
        }
        let record = self.registry.job(job).expect("the job was found");
        if let Some(known) = record.flows.get(&flow).and_then(|id| self.registry.flow(*id)) {
            // Said again, by an application that came back.
            if known.connection == connection
                && (known.size == bytes || known.contradicted.is_some())
            {
                return Ok(());
            }
            let reason =
                format!("flow {flow} is in use; complete it first or choose another number");
            return Err(refuse("flow", reason));
        }
        if self.registry.is_foreign(&connection, application) {
            let reason = "another application has declared this connection; give exact ports";
            return Err(refuse("connection", reason.into()));
        }
        let most = self.limits.flows;
        let flows = self.registry.applications.get(application).map_or(0, |known| known.flows);
        if flows >= most {
            return Err(busy("flow", format!("{most} flows are open; complete one first")));
        }
        let record = Flow::new(Some((job, flow)), connection, (src, dst), bytes, self.now);
        let Some(id) = self.registry.add_flow(record) else {
            return Err(busy("flow", "too many flows in all; try again later".into()));
        };
        self.touched.insert(connection);
        self.pin(id);
        let size = bytes.unwrap_or(Bytes::MAX);
        self.tell(Declared::FlowRequest { job, flow: id, src, dst, size });
        Ok(())
    }

    fn end(&self, field: &'static str, address: SocketAddr) -> Result<NodeId, Refusal> {
        self.view.host_at(address.ip()).ok_or_else(|| {
            let reason = format!(
                "{} is no host's address; declare it in the configuration or run an agent there",
                address.ip()
            );
            refuse(field, reason)
        })
    }

    fn complete_flow(&mut self, id: FlowId) {
        if let Some((job, _)) = self.registry.flow(id).and_then(|flow| flow.owner) {
            self.tell(Declared::FlowComplete { job, flow: id });
        }
        self.forget_flow(id);
    }

    /// Forgets a flow and whatever holds it.
    pub(crate) fn forget_flow(&mut self, id: FlowId) {
        // What the policy said of it must not be taken for a word on the next flow of this number.
        self.obey();
        self.unpin(id);
        let Some(flow) = self.registry.remove_flow(id) else {
            return;
        };
        if flow.open {
            self.tell(model::Measured::Closed { flow: id });
            self.obey();
        }
        self.forget_windows(id, &flow.connection);
        self.touched.insert(flow.connection);
        if self.registry.sharing(&flow.connection).is_empty() {
            self.leave_pair(&flow.connection);
        }
    }

    /// The word of the application, set right by what was measured.
    fn sample(&mut self, job: JobId, samples: &[StreamReport]) -> Result<(), Refusal> {
        let flows: Result<Vec<FlowId>, Refusal> =
            samples.iter().map(|sample| self.flow_of(job, sample.flow)).collect();
        let mut told = Vec::with_capacity(samples.len());
        for (id, sample) in flows?.into_iter().zip(samples) {
            told.push(self.corrected(id, sample));
        }
        self.tell(Declared::Streams(told));
        Ok(())
    }

    fn corrected(&mut self, id: FlowId, declared: &StreamReport) -> StreamSample {
        let now = self.now;
        let sample = StreamSample {
            flow: id,
            delivered: declared.delivered_bytes,
            sender_queue: declared.sender_queue_bytes,
            receiver_queue: declared.receiver_queue_bytes,
        };
        let fresh = self.sample * 2;
        let Some(flow) = self.registry.flow_mut(id) else {
            return sample;
        };
        flow.declared = Some((now, sample));
        let is_measured = flow.reported.is_some_and(|at| now.since(at) <= fresh);
        if !is_measured {
            return sample;
        }
        let delivered = flow.delivered;
        let truth = self.backlog(id, sample.sender_queue);
        StreamSample { delivered, sender_queue: truth, ..sample }
    }
}

impl Flow {
    pub(crate) fn new(
        owner: Option<(JobId, u64)>,
        connection: Connection,
        ends: (NodeId, NodeId),
        size: Option<Bytes>,
        now: Time,
    ) -> Self {
        Self {
            owner,
            connection,
            ends,
            since: now,
            size,
            contradicted: None,
            intended: None,
            decided: now,
            level: 0,
            delivered: Bytes::ZERO,
            base: None,
            queued: Bytes::ZERO,
            measured: None,
            reported: None,
            declared: None,
            scale: None,
            pinned: false,
            open: false,
        }
    }

    /// Whether it is held below what it could send, as far as is known.
    pub(crate) fn is_held(&self) -> bool {
        let near = |limit: Rate| self.measured.is_some_and(|rate| rate >= limit.fraction(3, 4));
        self.intended.is_some_and(near)
    }

    pub(crate) fn lie(&self) -> Option<String> {
        Some(match self.contradicted? {
            Lie::Size { declared } => {
                format!("declared {declared} in all, but {} were delivered", self.delivered)
            }
            Lie::Backlog { declared } => {
                format!("declared {declared} waiting, but its sender's kernel has nothing to send")
            }
        })
    }
}

fn check_task(field: &'static str, task: u32) -> Result<(), Refusal> {
    if task >= OWN_TASKS {
        return Err(refuse(field, format!("{task} is too large; number tasks from 0")));
    }
    Ok(())
}
