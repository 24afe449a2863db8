//! What applications declare. A message is checked in full before anything of it is taken. After a
//! refused one the application is known, its grace doesn't run, and the refusal is counted.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use model::{Declared, FlowId, JobId, NodeId, NodeKind, StreamSample, TaskId, Terms};
use protocol::agent::MOST_IDENTIFIED;
use protocol::application::{Declaration, Portion, StreamReport};
use protocol::kubernetes::is_pod;
use protocol::{Connection, Process, Processes};
use units::{Bytes, Span};

use crate::applications::application::ApplicationId;
use crate::applications::flow::Flow;
use crate::applications::registry::Registry;
use crate::applications::selector::{NamedBy, ProcessId, Selector, names_pod};
use crate::applications::truth::OWN_TASKS;
use crate::applications::weigh;
use crate::config::wrong_cgroup;
use crate::context::Context;
use crate::message::Refusal;
use crate::view::View;

/// The hosts whose processes the agent of a host looks for.
pub(crate) type Beside<'a> = &'a dyn Fn(NodeId) -> Vec<NodeId>;

/// What follows from a declaration.
pub(crate) enum Announcement {
    /// It was known already: an application that comes back declares all again.
    Known,
    /// The policy is to be told.
    Tell(Declared),
    /// A job asks for something else than before.
    Terms {
        job: JobId,
        /// Whether it asks for another objective.
        moves: bool,
    },
    /// A flow has begun.
    Flow(FlowId),
    /// A flow has another size than was declared before.
    Resized(FlowId),
    FlowComplete(FlowId),
    JobComplete(JobId),
    /// How streams stand, as the application says.
    Streams(Vec<StreamSample>),
}

/// Who declares something.
#[derive(Clone, Copy)]
struct Declarer<'a> {
    id: ApplicationId,
    name: &'a str,
}

fn refuse(field: &'static str, reason: String) -> Refusal {
    Refusal { field, reason, busy: false }
}

fn busy(field: &'static str, reason: String) -> Refusal {
    Refusal { field, reason, busy: true }
}

impl Registry {
    /// Takes in what an application declares.
    pub(crate) fn declare(
        &mut self,
        cx: &Context,
        around: (&View, Beside<'_>),
        application: &str,
        declaration: &Declaration,
    ) -> Result<Announcement, Refusal> {
        self.permit(cx, application)?;
        let id = self.admit(cx, application)?;
        let done = self.check(cx, around, Declarer { id, name: application }, declaration);
        let refusal = done.as_ref().err().filter(|refusal| !refusal.is_for_all());
        if let (Some(refusal), Some(record)) = (refusal, self.applications.of_mut(id)) {
            record.refuse(cx.now, &format!("{refusal}"));
        }
        done
    }

    /// An application declared something that couldn't be read.
    pub(crate) fn note_unreadable(
        &mut self,
        cx: &Context,
        application: &str,
    ) -> Result<(), Refusal> {
        self.permit(cx, application)?;
        let id = self.admit(cx, application)?;
        if let Some(record) = self.applications.of_mut(id) {
            record.refuse(cx.now, "it can't be read: the application was told why");
        }
        Ok(())
    }

    /// Whether an application may declare anything at all.
    fn permit(&mut self, cx: &Context, application: &str) -> Result<(), Refusal> {
        let granted = self.tenants.of(application).map(drop);
        granted.inspect_err(|refusal| self.note_overreach(cx, application, refusal))
    }

    /// Notes for people that an application asked for what it isn't granted.
    fn note_overreach(&mut self, cx: &Context, application: &str, refusal: &Refusal) {
        let application = start_of(application);
        self.overreach.note(cx.now, format!("application {application} is refused: {refusal}"));
    }

    /// Whether an application may declare this of a host.
    fn permit_host(
        &mut self,
        cx: &Context,
        view: &View,
        job: JobId,
        (field, host): (&'static str, NodeId),
    ) -> Result<(), Refusal> {
        let name = self.job(job).map(|job| Arc::clone(&job.application)).unwrap_or_default();
        let done = self.tenants.of(&name).and_then(|granted| {
            granted.map_or(Ok(()), |granted| granted.permit_host(field, view.node_name(host)))
        });
        done.inspect_err(|refusal| self.note_overreach(cx, &name, refusal))
    }

    /// Knows the application from now on, unless it declares too much.
    fn admit(&mut self, cx: &Context, name: &str) -> Result<ApplicationId, Refusal> {
        let limits = &cx.limits;
        let id = match self.applications.number(name) {
            Some(id) => id,
            None => self.welcome(cx, name)?,
        };
        self.goes_on(id, name);
        let application = self.applications.of_mut(id).expect("it is there or was added");
        let per_second = limits.declarations_per_second;
        if !application.budget.take(cx.now, per_second) {
            let reason = format!(
                "more than {per_second} declarations in a second; send fewer, or raise limits.declarations_per_second"
            );
            application.refuse(cx.now, &reason);
            return Err(busy("application", reason));
        }
        Ok(id)
    }

    /// Knows an application that has declared nothing, where there is room.
    fn welcome(&mut self, cx: &Context, name: &str) -> Result<ApplicationId, Refusal> {
        let most = cx.limits.applications;
        let full = || {
            let reason = format!(
                "{most} applications are known; try again later, or raise limits.applications"
            );
            busy("application", reason)
        };
        if self.applications.len() >= most {
            return Err(full());
        }
        if let Some(wrong) = cx.limits.wrong_name(name) {
            return Err(refuse("application", wrong));
        }
        self.applications.add(name).ok_or_else(full)
    }

    fn check(
        &mut self,
        cx: &Context,
        (view, beside): (&View, Beside<'_>),
        by: Declarer<'_>,
        declaration: &Declaration,
    ) -> Result<Announcement, Refusal> {
        match declaration {
            Declaration::JobStart { job } => self.start_job(cx, by, job),
            Declaration::JobTerms { job, objective, deadline_ms, weight } => {
                let job = self.known(by, job)?;
                self.set_terms(cx, job, (objective.as_deref(), *deadline_ms, *weight))
            }
            Declaration::JobComplete { job } => Ok(Announcement::JobComplete(self.known(by, job)?)),
            Declaration::TaskHost { job, task, host } => {
                let job = self.known(by, job)?;
                self.place_task(cx, view, (by.id, job), *task, host)
            }
            Declaration::Size { job, map, reduces } => {
                let job = self.known(by, job)?;
                self.add_sizes(cx, (by.id, job), *map, reduces)
            }
            Declaration::FlowRequest { job, flow, connection, processes, bytes } => {
                let job = self.known(by, job)?;
                let packets = (*connection, processes);
                self.request(cx, (view, beside), by, (job, flow), packets, *bytes)
            }
            Declaration::FlowComplete { job, flow } => {
                let job = self.known(by, job)?;
                Ok(Announcement::FlowComplete(self.flow_of(job, flow)?))
            }
            Declaration::Streams { job, samples } => {
                let job = self.known(by, job)?;
                let samples = samples.iter().map(|report| self.stream(job, report));
                Ok(Announcement::Streams(samples.collect::<Result<_, _>>()?))
            }
        }
    }

    fn known(&self, by: Declarer<'_>, job: &str) -> Result<JobId, Refusal> {
        let found = self.job_of(by.id, job);
        found.ok_or_else(|| {
            let job = start_of(job);
            refuse("job", format!("\"{job}\" has not started; declare job_start first"))
        })
    }

    fn flow_of(&self, job: JobId, flow: &str) -> Result<FlowId, Refusal> {
        let found = self.job(job).and_then(|job| job.flows.get(flow));
        found.copied().ok_or_else(|| {
            let flow = start_of(flow);
            refuse("flow", format!("the job has no flow \"{flow}\"; declare flow_request first"))
        })
    }

    /// A job that has started already goes on.
    fn start_job(
        &mut self,
        cx: &Context,
        by: Declarer<'_>,
        job: &str,
    ) -> Result<Announcement, Refusal> {
        check_name(cx, "job", job)?;
        if self.job_of(by.id, job).is_some() {
            return Ok(Announcement::Known);
        }
        let jobs = self.applications.of(by.id).map_or(0, |known| known.jobs.len());
        let (own, _) = self.tenants.amounts(by.name);
        if jobs >= own.unwrap_or(cx.limits.jobs) {
            let raise = own.map_or("limits.jobs", |_| "jobs of its [[tenant]]");
            return Err(busy(
                "job",
                format!("{jobs} jobs are open; complete one first, or raise {raise}"),
            ));
        }
        self.has_room(cx, by.id, "job", weigh::job(job))?;
        let Some(job) = self.add_job(cx.now, by.name, job) else {
            return Err(busy(
                "job",
                format!("{} jobs are known in all; try again later", u32::MAX),
            ));
        };
        let application = self.job(job).map(|known| Arc::clone(&known.application));
        let application = application.unwrap_or_default();
        Ok(Announcement::Tell(Declared::JobStart { job, application }))
    }

    fn set_terms(
        &mut self,
        cx: &Context,
        job: JobId,
        (objective, deadline, weight): (Option<&str>, Option<u64>, Option<u32>),
    ) -> Result<Announcement, Refusal> {
        if let Some(name) = objective {
            check_name(cx, "objective", name)?;
        }
        let longest = Terms::LONGEST.as_nanos() / 1_000_000;
        if deadline.is_some_and(|deadline| deadline == 0 || deadline > longest) {
            let reason = "must be from 1 ms to 30 days; leave it out for none";
            return Err(refuse("deadline_ms", reason.into()));
        }
        let weight = weight.unwrap_or(Terms::default().weight);
        if weight == 0 || weight > Terms::HEAVIEST {
            let reason = format!("must be from 1 to {}", Terms::HEAVIEST);
            return Err(refuse("weight", reason));
        }
        let terms = Terms {
            objective: objective.map(Arc::from),
            deadline: deadline.map(Span::from_millis),
            weight,
        };
        let record = self.job_mut(job).expect("the job was found");
        if record.terms == terms {
            return Ok(Announcement::Known);
        }
        let moves = record.terms.objective != terms.objective;
        record.terms = terms;
        Ok(Announcement::Terms { job, moves })
    }

    fn place_task(
        &mut self,
        cx: &Context,
        view: &View,
        (by, job): (ApplicationId, JobId),
        task: u32,
        host: &str,
    ) -> Result<Announcement, Refusal> {
        check_task("task", task)?;
        let address = host.parse::<IpAddr>().ok();
        let by_address = || view.host_at(address?.to_canonical());
        // Engines call hosts as name servers do.
        let short = host.split_once('.').map(|(name, _)| name).filter(|_| address.is_none());
        let found = view.named(host).or_else(by_address).or_else(|| view.named(short?));
        let node = found.filter(|node| view.kind(*node) == Some(NodeKind::Host));
        let node = node.ok_or_else(|| {
            let host = start_of(host);
            let reason = format!("no host is called or addressed \"{host}\"; name a known one");
            unknown(cx, "host", reason)
        })?;
        self.permit_host(cx, view, job, ("host", node))?;
        let (task, most) = (TaskId(task), cx.limits.tasks);
        let record = self.job_mut(job).expect("the job was found");
        if record.hosts.len() >= most && !record.hosts.contains_key(&task) {
            let reason = format!(
                "the job has {most} tasks already; start another job, or raise limits.tasks"
            );
            return Err(busy("task", reason));
        }
        if !record.hosts.contains_key(&task) {
            self.has_room(cx, by, "task", weigh::TASK)?;
            self.resize(job, weigh::TASK.into());
        }
        let record = self.job_mut(job).expect("the job was found");
        record.hosts.insert(task, node);
        Ok(Announcement::Tell(Declared::TaskHost { job, task, host: node }))
    }

    fn add_sizes(
        &mut self,
        cx: &Context,
        (by, job): (ApplicationId, JobId),
        map: u32,
        reduces: &[Portion],
    ) -> Result<Announcement, Refusal> {
        check_task("map", map)?;
        let mut tasks = BTreeSet::new();
        for portion in reduces {
            check_task("reduces.task", portion.task)?;
            if !tasks.insert(portion.task) {
                let reason = format!("task {} stands twice; add its portions up", portion.task);
                return Err(refuse("reduces.task", reason));
            }
        }
        let (map, most) = (TaskId(map), cx.limits.tasks);
        let record = self.job_mut(job).expect("the job was found");
        let before = record.sizes.get(&map);
        let portions = record.portions - before.map_or(0, Vec::len) + reduces.len();
        // A map without portions takes a place, too.
        if portions > most || before.is_none() && record.sizes.len() >= most {
            let reason = format!(
                "the job has more than {most} portions; start another job, or raise limits.tasks"
            );
            return Err(busy("reduces", reason));
        }
        let reduces: Vec<(TaskId, Bytes)> =
            reduces.iter().map(|portion| (TaskId(portion.task), portion.bytes)).collect();
        let weight = |portions: usize| weigh::MAP + weigh::PORTION * portions as u64;
        let before = before.map_or(0, |before| weight(before.len()));
        let after = weight(reduces.len());
        self.has_room(cx, by, "reduces", after.saturating_sub(before))?;
        self.resize(job, i128::from(after) - i128::from(before));
        let record = self.job_mut(job).expect("the job was found");
        record.portions = portions;
        record.sizes.insert(map, reduces.clone());
        Ok(Announcement::Tell(Declared::Size { job, map, reduces }))
    }

    fn request(
        &mut self,
        cx: &Context,
        (view, beside): (&View, Beside<'_>),
        Declarer { id: by, name: application }: Declarer<'_>,
        (job, flow): (JobId, &str),
        (connection, processes): (Connection, &Processes),
        bytes: Option<Bytes>,
    ) -> Result<Announcement, Refusal> {
        check_name(cx, "flow", flow)?;
        let connection = connection.canonical();
        let src = end(cx, view, "connection.source", connection.source)?;
        let dst = end(cx, view, "connection.destination", connection.destination)?;
        self.permit_host(cx, view, job, ("connection.source", src))?;
        self.permit_host(cx, view, job, ("connection.destination", dst))?;
        if let Some(granted) = self.tenants.of(application)? {
            let done = granted.permit_ports(&connection);
            done.inspect_err(|refusal| self.note_overreach(cx, application, refusal))?;
        }
        if src == dst {
            let reason = "both ends are on one host; leave flows within a host out";
            return Err(refuse("connection", reason.into()));
        }
        if connection.source.is_ipv4() != connection.destination.is_ipv4() {
            let reason = "the two addresses are of two families; use two of IPv4 or two of IPv6";
            return Err(refuse("connection", reason.into()));
        }
        // A port says more than a process.
        let named = |process: &'_ Option<Process>, end: SocketAddr| {
            process.clone().filter(|_| end.port() == 0)
        };
        let source = named(&processes.source, connection.source);
        let destination = named(&processes.destination, connection.destination);
        check_process("processes.source", source.as_ref())?;
        check_process("processes.destination", destination.as_ref())?;
        let number = |host, process: &Option<Process>| {
            process
                .as_ref()
                .map_or(Some(None), |process| self.processes.number(host, process).map(Some))
        };
        let (from, to) = (number(src, &source), number(dst, &destination));
        let known = from.zip(to);
        let known =
            known.map(|(source, destination)| Selector::new(connection, source, destination));
        let record = self.job(job).expect("the job was found");
        let open = record.flows.get(flow).copied();
        if let Some((id, other)) = open.and_then(|id| Some((id, self.flow_mut(id)?))) {
            if known == Some(other.selector) {
                if !other.resize(bytes) {
                    return Ok(Announcement::Known);
                }
                let standing = self.ledger.standing(cx, application);
                self.raise(id, application, |flow| flow.raise(standing));
                return Ok(Announcement::Resized(id));
            }
            let flow = start_of(flow);
            let reason = format!("\"{flow}\" is in use; complete it first or choose another name");
            return Err(refuse("flow", reason));
        }
        if self.owners.deny(&connection, application) {
            let reason = "is another's, as the kernel at one of its ends says; declare your own";
            let refusal = refuse("connection", reason.into());
            self.note_overreach(cx, application, &refusal);
            return Err(refusal);
        }
        let ends = [src, dst].map(|node| view.node_name(node));
        if known.is_some_and(|declared| self.is_taken(&declared, application, ends)) {
            let reason =
                "another application has declared this connection; give exact ports or processes";
            return Err(refuse("connection", reason.into()));
        }
        let (_, own) = self.tenants.amounts(application);
        let flows = self.applications.of(by).map_or(0, |known| known.flows);
        if flows >= own.unwrap_or(cx.limits.flows) {
            let raise = own.map_or("limits.flows", |_| "flows of its [[tenant]]");
            return Err(busy(
                "flow",
                format!("{flows} flows are open; complete one first, or raise {raise}"),
            ));
        }
        if let Some(alike) = known {
            let (flows, joined) = (self.sharing(&alike).len(), self.joins.joined_by(&alike));
            if !Self::has_room_to_join(cx, flows + 1, joined) {
                let reason = format!(
                    "{flows} flows are declared alike, and {joined} connections fit them; give exact ports or \
                     processes, or complete one first"
                );
                return Err(busy("connection", reason));
            }
        }
        self.has_room(cx, by, "flow", weigh::flow(flow))?;
        let named = [(src, &source), (dst, &destination)];
        for (host, process) in named {
            // Of pods agents tell without being asked.
            let is_new = |process: &Process| {
                !names_pod(process) && !self.processes.is_named_by(host, process, by)
            };
            if !process.as_ref().is_some_and(is_new) {
                continue;
            }
            let hosts = beside(host);
            let own = named.into_iter().filter(|(host, _)| hosts.contains(host));
            let own = own.filter_map(|(_, own)| own.clone());
            let mut all: BTreeSet<Process> = own.filter(|own| !names_pod(own)).collect();
            all.extend(self.groups_at(view, &hosts));
            for (_, process, naming) in hosts.iter().flat_map(|host| self.processes.of(*host)) {
                if naming.contains_key(&by) {
                    all.insert(process.clone());
                }
            }
            if all.len() > MOST_IDENTIFIED {
                let reason = format!(
                    "the agent of {} looks for {MOST_IDENTIFIED} processes, those of all its hosts and control groups of \
                     tenants together, and this application names as many; complete a flow that names another first, \
                     name control groups, or give the host an agent of its own",
                    view.node_name(host)
                );
                return Err(busy("processes", reason));
            }
        }
        let mut take = |host, process: Option<Process>| {
            process.map(|process| self.processes.take(host, &process, by))
        };
        let (source, destination) = (take(src, source), take(dst, destination));
        let selector = Selector::new(connection, source, destination);
        let mut record = Flow::new(Some((job, flow.into())), selector, (src, dst), bytes, cx.now);
        if record.raise(self.ledger.standing(cx, application)) {
            self.note_raised(application, true);
        }
        match self.add_flow(record) {
            Some(id) => Ok(Announcement::Flow(id)),
            None => {
                let named = [source, destination].into_iter().flatten();
                named.for_each(|process| self.processes.release(process, by));
                Err(busy("flow", format!("{} flows are known in all; try again later", u32::MAX)))
            }
        }
    }

    /// The control groups of tenants at these hosts.
    fn groups_at(&self, view: &View, hosts: &[NodeId]) -> impl Iterator<Item = Process> {
        let groups = hosts.iter().flat_map(|host| self.tenants.groups_at(view.node_name(*host)));
        groups.cloned().map(Process::Cgroup)
    }

    /// What the agent of these hosts looks for, and what it has no room for: control groups of tenants go before others.
    /// Applications take turns, each with what it named first.
    pub(crate) fn sought(
        &self,
        view: &View,
        hosts: &[NodeId],
    ) -> (BTreeSet<Process>, BTreeSet<Process>) {
        let named = hosts.iter().flat_map(|host| self.processes.of(*host));
        let mut named: Vec<_> = named.collect();
        named.sort_unstable_by_key(|(number, ..)| *number);
        let mut counts: BTreeMap<ApplicationId, usize> = BTreeMap::new();
        let turn = |(number, process, by): (ProcessId, &Process, &NamedBy)| {
            let turns = by.keys().map(|of| {
                let count = counts.entry(*of).or_default();
                *count += 1;
                *count
            });
            (turns.min(), number, process.clone())
        };
        let mut named: Vec<_> = named.into_iter().map(turn).collect();
        named.sort_unstable();
        let named = named.into_iter().map(|(.., process)| process);
        let (mut sought, mut unsought) = (BTreeSet::new(), BTreeSet::new());
        for process in self.groups_at(view, hosts).chain(named) {
            if sought.len() < MOST_IDENTIFIED || sought.contains(&process) {
                sought.insert(process);
            } else {
                unsought.insert(process);
            }
        }
        (sought, unsought)
    }

    /// Whether so much more may be kept of an application: it may have as much as is left then for all others.
    fn has_room(
        &self,
        cx: &Context,
        application: ApplicationId,
        field: &'static str,
        more: u64,
    ) -> Result<(), Refusal> {
        let (own, left) = self.memory(application, cx.limits.memory);
        if more == 0 || own.saturating_add(more) <= left.saturating_sub(more) {
            return Ok(());
        }
        let reason = format!(
            "{} MiB are kept of this application, no less than is left for all others; complete jobs and flows \
             first, or raise limits.memory",
            own >> 20
        );
        Err(busy(field, reason))
    }

    fn stream(&self, job: JobId, report: &StreamReport) -> Result<StreamSample, Refusal> {
        Ok(StreamSample {
            flow: self.flow_of(job, &report.flow)?,
            delivered: report.delivered_bytes,
            sender_queue: report.sender_queue_bytes,
            receiver_queue: report.receiver_queue_bytes,
        })
    }
}

/// No such host is known. Where its agent may still come, the application waits instead: what is refused it would
/// not say again.
fn unknown(cx: &Context, field: &'static str, reason: String) -> Refusal {
    if cx.awaits_agents() {
        return busy("application", format!("{reason}, unless its agent is still to come; wait"));
    }
    refuse(field, reason)
}

fn end(
    cx: &Context,
    view: &View,
    field: &'static str,
    address: SocketAddr,
) -> Result<NodeId, Refusal> {
    view.host_at(address.ip()).ok_or_else(|| {
        let reason = format!(
            "{} is no host's address; declare it in the configuration or run an agent there",
            address.ip()
        );
        unknown(cx, field, reason)
    })
}

fn check_name(cx: &Context, field: &'static str, name: &str) -> Result<(), Refusal> {
    cx.limits.wrong_name(name).map_or(Ok(()), |wrong| Err(refuse(field, wrong)))
}

fn check_process(field: &'static str, process: Option<&Process>) -> Result<(), Refusal> {
    let path = match process {
        Some(Process::Cgroup(path)) => path,
        Some(Process::Pod(name)) if !is_pod(name) => {
            return Err(refuse(field, "is no pod of Kubernetes; write namespace/name".into()));
        }
        Some(Process::Pid(0)) => {
            return Err(refuse(field, "no process has the number 0; name another".into()));
        }
        Some(Process::Pid(_) | Process::Pod(_)) | None => return Ok(()),
    };
    wrong_cgroup(path).map_or(Ok(()), |reason| Err(refuse(field, reason)))
}

/// As much of a name as a message to people holds.
fn start_of(name: &str) -> String {
    name.chars().take(80).collect()
}

fn check_task(field: &'static str, task: u32) -> Result<(), Refusal> {
    if task >= OWN_TASKS {
        return Err(refuse(field, format!("{task} is too large; number tasks from 0")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::config;

    #[test]
    fn a_refused_declaration_leaves_no_trace_and_a_repeated_one_changes_nothing() {
        let mut config = config();
        config.limits.flows = 1;
        let cx = Context::new(&config, 1, units::Time::ZERO);
        let mut view = View::new(&mut config).expect("a view");
        for (name, last) in [("a", 1), ("b", 2)] {
            let host = view.add_host(name).expect("there is room");
            view.learn_address([10, 0, 0, last].into(), host, &cx.limits);
        }
        let mut registry = Registry::default();
        let alone = |host: NodeId| Vec::from([host]);
        let mut declare =
            |declaration| registry.declare(&cx, (&view, &alone as Beside<'_>), "app", &declaration);
        let job = || String::from("job");
        let flow = |flow: u64, to| Declaration::FlowRequest {
            job: job(),
            flow: alloc::string::ToString::to_string(&flow),
            connection: Connection {
                source: ([10, 0, 0, 1], 1000).into(),
                destination: ([10, 0, 0, to], 5000).into(),
            },
            processes: Processes::default(),
            bytes: None,
        };
        assert_eq!(declare(flow(1, 2)).err().map(|refusal| refusal.field), Some("job"));
        assert!(declare(Declaration::JobStart { job: job() }).is_ok());
        let error = declare(flow(1, 9)).err().map(|refusal| refusal.field);
        assert_eq!(error, Some("connection.destination"));
        let error = declare(flow(1, 1)).err().map(|refusal| refusal.field);
        assert_eq!(error, Some("connection"), "both ends on one host");
        assert!(matches!(declare(flow(1, 2)), Ok(Announcement::Flow(FlowId(0)))));
        assert!(matches!(declare(flow(1, 2)), Ok(Announcement::Known)));
        // The same as Java calls it.
        let mut mapped = flow(1, 2);
        if let Declaration::FlowRequest { connection, .. } = &mut mapped {
            for end in [&mut connection.source, &mut connection.destination] {
                if let IpAddr::V4(address) = end.ip() {
                    end.set_ip(address.to_ipv6_mapped().into());
                }
            }
        }
        assert!(matches!(declare(mapped), Ok(Announcement::Known)));
        for host in
            ["a", "a.example.org", "10.0.0.1", "::ffff:10.0.0.1", "c.example.org", "10.0.0.9"]
        {
            let placed = declare(Declaration::TaskHost { job: job(), task: 0, host: host.into() });
            let known = !(host.starts_with('c') || host.ends_with('9'));
            assert_eq!(placed.is_ok(), known, "{host}");
        }
        assert!(declare(flow(2, 2)).is_err_and(|refusal| refusal.busy), "one flow is the limit");
        let known = registry.applications.get("app").expect("it has declared something");
        assert_eq!((known.refused, known.flows), (6, 1));
        assert_eq!(registry.flows().count(), 1);
    }
}
