//! Who has declared what: applications, their jobs, their flows, and their numbers. Numbers are dense
//! and used again, so that tables by number stay small.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use model::{Declared, FlowId, JobId, LinkId, NodeId, StreamSample, TaskId, Terms};
use protocol::Connection;
use protocol::agent::ConnectionReport;
use units::{Bytes, Rate, Time};

use crate::applications::application::{Application, ApplicationId, Applications};
use crate::applications::flow::Flow;
use crate::applications::joins::Joins;
use crate::applications::ledger::{Ledger, Share};
use crate::applications::owners::Owners;
use crate::applications::pods::Pods;
use crate::applications::selector::{ProcessId, Processes, Selector};
use crate::applications::sharing::Sharing;
use crate::applications::tenants::Tenants;
use crate::applications::weigh;
use crate::context::Context;
use crate::contradictions::Contradictions;
use crate::desired::LetGo;
use crate::message::ChannelId;
use crate::traffic::Traffic;

/// A job. Terms, tasks and sizes are kept for a policy that comes later.
pub(crate) struct Job {
    pub(crate) application: Arc<str>,
    of: ApplicationId,
    pub(crate) name: Arc<str>,
    pub(crate) started: Time,
    /// Its place in the order in which jobs began: numbers are given again.
    begun: u64,
    pub(crate) terms: Terms,
    pub(crate) flows: BTreeMap<Arc<str>, FlowId>,
    pub(crate) hosts: BTreeMap<TaskId, NodeId>,
    pub(crate) sizes: BTreeMap<TaskId, Vec<(TaskId, Bytes)>>,
    /// Entries in `sizes`.
    pub(crate) portions: usize,
    /// What it takes beside its flows, by [`weigh`].
    memory: u64,
}

/// All applications, jobs and flows. Who isn't of this room can't change one but by what it says of it here.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) applications: Applications,
    /// Applications that are gone, by when what they declared ends.
    ending: BTreeSet<(Time, Arc<str>)>,
    jobs: Vec<Option<Job>>,
    free_jobs: Vec<JobId>,
    flows: Vec<Option<Flow>>,
    free_flows: Vec<FlowId>,
    /// Numbers that are free from the next decision on.
    freed_flows: Vec<FlowId>,
    by_selector: BTreeMap<Selector, Sharing>,
    /// The connections of those that were declared without a port.
    pub(crate) joins: Joins,
    pub(crate) processes: Processes,
    pub(super) tenants: Tenants,
    pub(crate) owners: Owners,
    pub(crate) pods: Pods,
    pub(crate) ledger: Ledger,
    /// How many flows the policy isn't told of.
    parked: usize,
    /// Who asked for what nobody has granted them, for people.
    pub(super) overreach: Contradictions<256>,
    /// Flows that nobody declared.
    seen: usize,
    /// When those were looked through, as [`Context::awake`].
    swept: Time,
    /// Turns that have ended.
    turns: u64,
    /// The last in which something changed for an application.
    changed: u64,
    /// What records of all applications take, by [`weigh`].
    memory: u64,
    /// Jobs and flows that have begun.
    begun: u64,
}

impl Registry {
    /// Nothing is declared, and these may declare.
    pub(crate) fn new(tenants: Tenants) -> Self {
        Self { tenants, ..Self::default() }
    }

    /// Others may declare from now on. What is declared already stays.
    pub(crate) fn set_tenants(&mut self, tenants: Tenants) {
        self.tenants = tenants;
    }

    /// Who may declare what.
    pub(crate) const fn tenants(&self) -> &Tenants {
        &self.tenants
    }

    /// Who asked for what nobody has granted them, for people.
    pub(crate) const fn overreach(&self) -> &Contradictions<256> {
        &self.overreach
    }

    /// How many flows nobody declared.
    pub(crate) const fn seen(&self) -> usize {
        self.seen
    }

    /// Forgets an application. Its jobs must be gone.
    pub(crate) fn forget(&mut self, application: &str) {
        self.applications.remove(application);
    }

    /// Whose the source of a reported connection is, as the control groups of its host say.
    pub(crate) fn note_owner(&mut self, cx: &Context, host: &str, report: &ConnectionReport) {
        let owner = self.tenants.owner(host, &report.processes);
        if !self.owners.note(cx, report.connection, owner)
            && let Some(owner) = owner
        {
            let told = format!(
                "application {owner} has more than {} connections: whose those beyond are isn't known; raise limits.flows",
                cx.limits.flows
            );
            self.overreach.note(cx.now, told);
        }
    }

    /// An application has more than it is granted; `told` to people.
    pub(crate) fn note_excess(&mut self, now: Time, told: String) {
        self.overreach.note(now, told);
    }

    /// An application has declared what is another's: counted, and `told` to people.
    pub(crate) fn note_usurper(&mut self, now: Time, application: &str, told: String) {
        self.overreach.note(now, told);
        if let Some(known) = self.applications.get_mut(application) {
            known.contradicted += 1;
        }
    }

    /// What an application declared ends at `at`, unless it comes back.
    pub(crate) fn leaves(&mut self, application: &str, at: Time) {
        self.stays(application);
        if let Some((name, id)) = self.applications.find(application) {
            self.ending.insert((at, name.clone()));
            if let Some(known) = self.applications.of_mut(id) {
                known.ends = Some(at);
            }
        }
    }

    /// An application is connected, or connected again.
    pub(crate) fn stays(&mut self, application: &str) {
        if let Some(id) = self.applications.number(application) {
            self.goes_on(id, application);
        }
    }

    /// The same, of an application that was found.
    pub(super) fn goes_on(&mut self, id: ApplicationId, name: &str) {
        if let Some(at) = self.applications.of_mut(id).and_then(|known| known.ends.take()) {
            self.ending.remove(&(at, name.into()));
        }
    }

    /// When the next application ends.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.ending.first().map(|(at, _)| *at)
    }

    /// Takes out the next application whose end is not after `now`.
    pub(crate) fn ended(&mut self, now: Time) -> Option<Arc<str>> {
        let (at, _) = self.ending.first()?;
        if *at > now {
            return None;
        }
        self.ending.pop_first().map(|(_, name)| name)
    }

    pub(crate) fn job(&self, job: JobId) -> Option<&Job> {
        self.jobs.get(job.index())?.as_ref()
    }

    pub(super) fn job_mut(&mut self, job: JobId) -> Option<&mut Job> {
        self.jobs.get_mut(job.index())?.as_mut()
    }

    /// What a policy is told of a job's tasks and sizes.
    pub(crate) fn tasks(&self, job: JobId) -> alloc::vec::IntoIter<Declared> {
        let mut said = Vec::new();
        if let Some(known) = self.job(job) {
            let hosts = known.hosts.iter();
            said.extend(hosts.map(|(&task, &host)| Declared::TaskHost { job, task, host }));
            let sizes = known.sizes.iter().map(|(&map, portions)| (map, portions.clone()));
            said.extend(sizes.map(|(map, reduces)| Declared::Size { job, map, reduces }));
        }
        said.into_iter()
    }

    /// What a policy is told of a declared flow; `None` where it was only seen.
    pub(crate) fn declared(&self, id: FlowId) -> Option<Declared> {
        let flow = self.flow(id)?;
        let (job, (src, dst)) = (flow.job()?, flow.ends);
        let size = flow.size.unwrap_or(Bytes::MAX);
        Some(Declared::FlowRequest { job, flow: id, src, dst, size })
    }

    pub(crate) fn flow(&self, flow: FlowId) -> Option<&Flow> {
        self.flows.get(flow.index())?.as_ref()
    }

    pub(super) fn flow_mut(&mut self, flow: FlowId) -> Option<&mut Flow> {
        self.flows.get_mut(flow.index())?.as_mut()
    }

    /// The connection of a flow is open: its ends, where that is new.
    pub(crate) fn open(&mut self, flow: FlowId) -> Option<(NodeId, NodeId)> {
        let flow = self.flow_mut(flow).filter(|flow| !flow.open)?;
        flow.open = true;
        Some(flow.ends)
    }

    /// It isn't; whether that is new.
    pub(crate) fn close(&mut self, flow: FlowId) -> bool {
        self.flow_mut(flow).is_some_and(|flow| core::mem::take(&mut flow.open))
    }

    /// The first packet of a flow's connection is told now.
    pub(crate) fn told(&mut self, cx: &Context, flow: FlowId, by: Option<ChannelId>) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.told(cx, by);
        }
    }

    /// All that the connection of a flow delivers is the flow's, unless it is known that it had delivered something.
    pub(crate) fn begins_at_nothing(&mut self, flow: FlowId) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.base.get_or_insert(Bytes::ZERO);
        }
    }

    /// The window scale of a flow's receiver is seen; whether it was another, or unknown.
    pub(crate) fn see_scale(&mut self, flow: FlowId, scale: Option<u8>) -> bool {
        let seen = |flow: &mut Flow| core::mem::replace(&mut flow.scale, scale) != scale;
        self.flow_mut(flow).is_some_and(seen)
    }

    /// A flow goes on where the window scale was so, if that was known.
    pub(crate) fn take_over_scale(&mut self, flow: FlowId, scale: Option<u8>) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.scale = flow.scale.or(scale);
        }
    }

    /// A flow's connection was reported, and whether it `sends`.
    pub(crate) fn hear(&mut self, cx: &Context, flow: FlowId, sends: bool) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.hear(cx);
            if sends {
                flow.busy = Some(cx.awake);
            }
        }
    }

    /// What the connections of a flow have delivered, and what waits at them, by the report of now.
    pub(crate) fn note_progress(
        &mut self,
        cx: &Context,
        flow: FlowId,
        sampled: Time,
        (delivered, queued): (Bytes, Bytes),
    ) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.note(cx, sampled, delivered, queued);
        }
    }

    /// An application declares a sample of a stream.
    pub(crate) fn note_stream(&mut self, cx: &Context, sample: &StreamSample) {
        if let Some(flow) = self.flow_mut(sample.flow) {
            flow.declared = Some((cx.awake, *sample));
        }
    }

    /// What a flow makes of being let send: a connection of it has carried so much; whether something waits there.
    pub(crate) fn note_use(&mut self, flow: FlowId, carried: Bytes, waits: bool) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.waste.note(carried, waits);
        }
    }

    /// Judges that, as [`Waste::judge`](crate::waste::Waste::judge) does. Where it changes: whether the flow gives way.
    pub(crate) fn judge_waste(
        &mut self,
        cx: &Context,
        flow: FlowId,
        leads: bool,
        path: impl FnOnce() -> Vec<(LinkId, Rate)>,
        links: &Traffic,
    ) -> Option<bool> {
        let waste = &mut self.flow_mut(flow)?.waste;
        let is_changed = waste.judge(cx, leads, path, links);
        is_changed.then_some(waste.gives_way())
    }

    /// Nobody tells any more what a flow makes of being let send.
    pub(crate) fn release(&mut self, flow: FlowId) {
        if let Some(flow) = self.flow_mut(flow) {
            flow.waste.release();
        }
    }

    /// The policy isn't told of a flow any more.
    pub(crate) fn park(&mut self, flow: FlowId) {
        self.set_parked(flow, true);
    }

    /// The policy is told of a flow again.
    pub(crate) fn unpark(&mut self, flow: FlowId) {
        self.set_parked(flow, false);
    }

    fn set_parked(&mut self, flow: FlowId, parked: bool) {
        if let Some(flow) = self.flow_mut(flow).filter(|flow| flow.parked != parked) {
            flow.parked = parked;
            if parked {
                self.parked += 1;
            } else {
                self.parked -= 1;
            }
        }
    }

    /// Whether there are flows that the policy isn't told of.
    pub(crate) const fn parks(&self) -> bool {
        self.parked > 0
    }

    /// All flows, by number.
    pub(crate) fn flows(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        self.flows_in(0..self.numbers())
    }

    /// How many numbers flows have, or had.
    pub(crate) const fn numbers(&self) -> usize {
        self.flows.len()
    }

    /// The flows that have these numbers.
    pub(crate) fn flows_in(&self, numbers: Range<usize>) -> impl Iterator<Item = (FlowId, &Flow)> {
        let first = u32::try_from(numbers.start).unwrap_or(u32::MAX);
        let numbered = (first..).zip(self.flows.get(numbers).unwrap_or_default());
        numbered.filter_map(|(number, flow)| Some((FlowId(number), flow.as_ref()?)))
    }

    /// All jobs, by number.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        let numbered = (0u32..).zip(&self.jobs);
        numbered.filter_map(|(number, job)| Some((JobId(number), job.as_ref()?)))
    }

    /// The numbers of all jobs, in the order in which they began.
    pub(crate) fn jobs_by_age(&self) -> Vec<JobId> {
        let mut all: Vec<_> = self.jobs().map(|(id, job)| (job.begun, id)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Hosts at which a flow ends or a task is.
    pub(crate) fn hosts_in_use(&self) -> BTreeSet<NodeId> {
        let ends = self.flows().flat_map(|(_, flow)| [flow.ends.0, flow.ends.1]);
        let tasks = self.jobs.iter().flatten().flat_map(|job| job.hosts.values().copied());
        ends.chain(tasks).collect()
    }

    /// The numbers of all flows, in the order in which they began.
    pub(crate) fn flows_by_age(&self) -> Vec<FlowId> {
        let mut all: Vec<_> = self.flows().map(|(id, flow)| (flow.begun, id)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    pub(crate) fn find_job(&self, application: &str, job: &str) -> Option<JobId> {
        self.job_of(self.applications.number(application)?, job)
    }

    pub(super) fn job_of(&self, application: ApplicationId, job: &str) -> Option<JobId> {
        self.applications.of(application)?.jobs.get(job).copied()
    }

    pub(crate) fn add_job(&mut self, now: Time, application: &str, name: &str) -> Option<JobId> {
        let number = u32::try_from(self.jobs.len()).ok()?;
        let (application, of) = self.applications.find(application)?;
        let (application, name) = (application.clone(), Arc::<str>::from(name));
        let memory = weigh::job(&name);
        self.begun += 1;
        let job = Job {
            application,
            of,
            name: name.clone(),
            started: now,
            begun: self.begun,
            terms: Terms::default(),
            flows: BTreeMap::new(),
            hosts: BTreeMap::new(),
            sizes: BTreeMap::new(),
            portions: 0,
            memory,
        };
        let id = self.free_jobs.pop().unwrap_or(JobId(number));
        place(&mut self.jobs, id.index(), job);
        self.touch(of, i128::from(memory))?.jobs.insert(name, id);
        Some(id)
    }

    /// Forgets a job. Its flows must be gone.
    pub(crate) fn remove_job(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(id.index()).and_then(Option::take) {
            if let Some(known) = self.touch(job.of, -i128::from(job.memory)) {
                known.jobs.remove(&job.name);
            }
            self.free_jobs.push(id);
        }
    }

    pub(crate) fn add_flow(&mut self, mut flow: Flow) -> Option<FlowId> {
        let number = u32::try_from(self.flows.len()).ok()?;
        self.begun += 1;
        flow.begun = self.begun;
        let id = self.free_flows.pop().unwrap_or(FlowId(number));
        let mut own = None;
        match &flow.owner {
            Some((job, name)) => {
                let job = self.jobs.get_mut(job.index())?.as_mut()?;
                job.flows.insert(name.clone(), id);
                let (application, of) = (Arc::clone(&job.application), job.of);
                if let Some(known) = self.touch(of, i128::from(weigh::flow(name))) {
                    known.flows += 1;
                }
                own = Some(application);
            }
            None => self.seen += 1,
        }
        let before = self.declared_by(&flow.selector).cloned();
        match self.by_selector.entry(flow.selector) {
            Entry::Vacant(free) => {
                free.insert(Sharing::One(id));
            }
            Entry::Occupied(mut taken) => taken.get_mut().push(id, own, before),
        }
        place(&mut self.flows, id.index(), flow);
        Some(id)
    }

    /// Forgets a flow; whether it was the last that was declared just so.
    pub(crate) fn remove_flow(&mut self, id: FlowId) -> Option<(Flow, bool)> {
        let own = self.application_of(id).cloned();
        let by = own.as_deref().and_then(|own| self.applications.number(own));
        let flow = self.flows.get_mut(id.index()).and_then(Option::take)?;
        match &flow.owner {
            Some((job, name)) => {
                if let Some(job) = self.jobs.get_mut(job.index()).and_then(Option::as_mut) {
                    job.flows.remove(name);
                    let of = job.of;
                    if let Some(known) = self.touch(of, -i128::from(weigh::flow(name))) {
                        known.flows -= 1;
                    }
                }
            }
            None => self.seen -= 1,
        }
        let is_last = match self.by_selector.entry(flow.selector) {
            Entry::Vacant(_) => true,
            Entry::Occupied(mut sharing) => {
                let began = |id: FlowId| Some(self.flows.get(id.index())?.as_ref()?.begun);
                let is_last = sharing.get_mut().remove((id, own), flow.begun, began);
                if is_last {
                    sharing.remove();
                }
                is_last
            }
        };
        self.parked -= usize::from(flow.parked);
        let named = [flow.selector.source, flow.selector.destination].into_iter().flatten();
        for (process, by) in named.zip(by.into_iter().cycle()) {
            self.processes.release(process, by);
        }
        self.freed_flows.push(id);
        Some((flow, is_last))
    }

    /// A connection is reported: so is there what comes back over it, also where its sender has no agent.
    pub(crate) fn hear_back(&mut self, cx: &Context, connection: &Connection) {
        if self.seen == 0 {
            return;
        }
        let Connection { source, destination } = *connection;
        let back = Connection { source: destination, destination: source };
        let flows = self.by_selector.get(&back.into()).map_or(&[][..], Sharing::flows);
        for id in flows {
            if let Some(flow) = self.flows.get_mut(id.index()).and_then(Option::as_mut)
                && flow.owner.is_none()
            {
                flow.heard = Some(cx.awake);
            }
        }
    }

    /// The flows that nobody declared or has told of for a grace; looked for no more often than samples come.
    pub(crate) fn silent(&mut self, cx: &Context) -> Vec<FlowId> {
        if self.seen == 0 || cx.awake.since(self.swept) < cx.sample {
            return Vec::new();
        }
        self.swept = cx.awake;
        let is_silent = |flow: &Flow| flow.heard.is_some_and(|at| cx.awake.since(at) > cx.grace);
        let seen = self.flows().filter(|(_, flow)| flow.owner.is_none() && is_silent(flow));
        seen.map(|(id, _)| id).collect()
    }

    /// The policy has decided: numbers that were freed before may come again. Until then a flow that ends
    /// and enters again is the same one.
    pub(crate) fn decided(&mut self) {
        self.free_flows.append(&mut self.freed_flows);
        self.turns += 1;
    }

    /// Something else is wanted of a flow.
    pub(crate) fn wanted(&mut self, flow: FlowId) {
        let job = self.flow(flow).and_then(Flow::job).and_then(|job| self.job(job));
        if let Some(of) = job.map(|job| job.of) {
            self.touch(of, 0);
        }
    }

    /// The turn in which something changed for an application last; of all, where none is named.
    pub(crate) fn changed(&self, application: Option<&str>) -> u64 {
        let Some(name) = application else {
            return self.changed;
        };
        self.applications.get(name).map_or(0, |known| known.changed)
    }

    /// Something has changed for an application, whose records take so much more, or less.
    fn touch(&mut self, application: ApplicationId, memory: i128) -> Option<&mut Application> {
        let turn = self.turns + 1;
        self.changed = turn;
        let known = self.applications.of_mut(application)?;
        known.changed = turn;
        let moved = |before: u64| u64::try_from(i128::from(before) + memory).unwrap_or(0);
        (known.memory, self.memory) = (moved(known.memory), moved(self.memory));
        Some(known)
    }

    /// What a job says of its tasks takes so much more, or less.
    pub(crate) fn resize(&mut self, job: JobId, memory: i128) {
        let Some(known) = self.job_mut(job) else {
            return;
        };
        let moved = i128::from(known.memory) + memory;
        known.memory = u64::try_from(moved).unwrap_or(0);
        let of = known.of;
        if let Some(known) = self.applications.of_mut(of) {
            let moved = |before: u64| u64::try_from(i128::from(before) + memory).unwrap_or(0);
            (known.memory, self.memory) = (moved(known.memory), moved(self.memory));
        }
    }

    /// What an application has, and what is left of `most` for all others.
    pub(super) fn memory(&self, application: ApplicationId, most: u64) -> (u64, u64) {
        let own = self.applications.of(application).map_or(0, |known| known.memory);
        (own, most.saturating_sub(self.memory))
    }

    /// The flows that were declared just so.
    pub(crate) fn sharing(&self, declared: &Selector) -> &[FlowId] {
        self.by_selector.get(declared).map_or(&[], Sharing::flows)
    }

    /// The application that has declared all flows that were declared just so.
    pub(crate) fn declared_by(&self, declared: &Selector) -> Option<&Arc<str>> {
        match self.by_selector.get(declared)? {
            Sharing::One(id) => self.application_of(*id),
            Sharing::Many { of, .. } => {
                let first = of.first_key_value().filter(|_| of.len() == 1);
                first.and_then(|(application, _)| application.as_ref())
            }
        }
    }

    /// Whether `flows` that are declared alike and `connections` that join them are no more, taken with each other, than
    /// flows that an application may have: what is done for each of them is done so often.
    pub(crate) fn has_room_to_join(cx: &Context, flows: usize, connections: usize) -> bool {
        flows.saturating_mul(connections) <= cx.limits.flows
    }

    /// What stands for a connection that was seen and that nobody had declared, and its window scale.
    pub(crate) fn undeclared(&self, connection: &Connection) -> Option<(FlowId, Option<u8>)> {
        if self.seen == 0 {
            return None;
        }
        let flows = self.sharing(&(*connection).into()).iter();
        let mut known = flows.filter_map(|id| Some((*id, self.flow(*id)?)));
        known.find(|(_, flow)| flow.owner.is_none()).map(|(id, flow)| (id, flow.scale))
    }

    /// The flows that packets of a connection belong to: those declared with its ports, or else those
    /// that it has joined.
    pub(crate) fn carried_by(&self, connection: &Connection) -> &[FlowId] {
        self.carrying(connection).0
    }

    /// The same, and what the connection has joined, where it wasn't declared with its ports.
    pub(crate) fn carrying(&self, connection: &Connection) -> (&[FlowId], Option<&Selector>) {
        let exactly = self.sharing(&(*connection).into());
        if !exactly.is_empty() {
            return (exactly, None);
        }
        let joined = self.joins.of(connection);
        (joined.map_or(&[], |declared| self.sharing(declared)), joined)
    }

    /// What a connection that nobody declared with its ports fits best: what names most of the processes
    /// that have its ends, and of those what names one of its ports.
    pub(crate) fn fitting(&self, connection: &Connection) -> Option<Selector> {
        let is_owned = |id: &FlowId| {
            self.application_of(*id).is_some_and(|name| !self.owners.deny(connection, name))
        };
        let is_declared = |selector: &Selector| self.sharing(selector).iter().any(is_owned);
        if is_declared(&(*connection).into()) {
            return None;
        }
        let any = |address: SocketAddr| SocketAddr::new(address.ip(), 0);
        let Connection { source, destination } = *connection;
        let ways = [
            Connection { source, destination: any(destination) },
            Connection { source: any(source), destination },
            Connection { source: any(source), destination: any(destination) },
        ];
        let back = Connection { source: destination, destination: source };
        let named = |held: &'_ [ProcessId]| -> Vec<Option<ProcessId>> {
            held.iter().copied().map(Some).collect()
        };
        let (sources, destinations) =
            (named(self.joins.holders(connection)), named(self.joins.holders(&back)));
        let nobody = &[None][..];
        let holders = [
            (&sources[..], &destinations[..]),
            (&sources, nobody),
            (nobody, &destinations),
            (nobody, nobody),
        ];
        let all = holders.into_iter().flat_map(|(sources, destinations)| {
            let pairs = sources.iter().flat_map(|s| destinations.iter().map(|d| (*s, *d)));
            pairs.flat_map(|(source, destination)| {
                ways.map(|connection| Selector::new(connection, source, destination))
            })
        });
        all.into_iter().find(is_declared)
    }

    /// The connections whose packets belong to what was declared: one, where its ports are known.
    pub(crate) fn carriers<'a>(
        &'a self,
        declared: &'a Selector,
    ) -> impl Iterator<Item = Connection> + 'a {
        let itself = declared.is_exact().then_some(&declared.connection);
        itself.into_iter().chain(self.joins.with(declared)).copied()
    }

    /// The connections of all flows.
    pub(crate) fn connections(&self) -> impl Iterator<Item = Connection> {
        self.by_selector.keys().flat_map(|declared| self.carriers(declared))
    }

    /// The first of the flows that a connection carries: the policy hears of this one that it is open, so that the
    /// connection goes where this one is to go, and has the window that this one is to have.
    pub(crate) fn first_of(&self, of: &Connection) -> Option<(FlowId, &Flow)> {
        let first = *self.carried_by(of).first()?;
        Some((first, self.flow(first)?))
    }

    /// Whether a flow is the first of those that were declared just so.
    pub(crate) fn is_first(&self, id: FlowId) -> bool {
        self.flow(id).is_some_and(|flow| self.sharing(&flow.selector).first() == Some(&id))
    }

    /// The connections of flows that begin at an address.
    pub(crate) fn leaving(&self, from: IpAddr) -> impl Iterator<Item = &Connection> {
        let declared = self.by_selector.range(Selector::leaving(from));
        let exact = declared.filter(|(selector, _)| selector.is_exact());
        exact.map(|(selector, _)| &selector.connection).chain(self.joins.leaving(from))
    }

    /// What was declared without its ports, by processes or not, and the flows of each that no connection has joined.
    pub(crate) fn unseen(&self, of: &Connection) -> impl Iterator<Item = (&Selector, &[FlowId])> {
        let declared = self.by_selector.range(Selector::all_of(*of));
        let unseen = declared.filter(|(selector, _)| self.joins.joined_by(selector) == 0);
        unseen.map(|(selector, sharing)| (selector, sharing.flows()))
    }

    /// The flows that begin at an address.
    pub(crate) fn declared_from(&self, from: IpAddr) -> impl Iterator<Item = (FlowId, &Flow)> {
        let declared = self.by_selector.range(Selector::leaving(from));
        let flows = declared.flat_map(|(_, sharing)| sharing.flows());
        flows.filter_map(|id| Some((*id, self.flow(*id)?)))
    }

    /// The flows that were declared with both ports and begin at an address.
    pub(crate) fn known_from(&self, from: IpAddr) -> impl Iterator<Item = (FlowId, &Flow)> {
        let declared = self.by_selector.range(Selector::leaving(from));
        let exact = declared.filter(|(selector, _)| selector.is_exact());
        let flows = exact.flat_map(|(_, sharing)| sharing.flows());
        flows.filter_map(|id| Some((*id, self.flow(*id)?)))
    }

    /// Whose a declared flow is.
    pub(crate) fn application_of(&self, id: FlowId) -> Option<&Arc<str>> {
        Some(&self.job(self.flow(id)?.job()?)?.application)
    }

    /// What a connection has carried is set against what was declared for it; an application of which all flows
    /// count as more from now on. `before`: what it had delivered when it was first declared.
    pub(crate) fn settle(
        &mut self,
        cx: &Context,
        report: &ConnectionReport,
        before: Bytes,
        capacity: Rate,
        let_go: impl Fn(FlowId) -> LetGo,
    ) -> Option<Arc<str>> {
        let (connection, delivered) = (report.connection, report.delivered_bytes);
        // What those are let that join several connections isn't let each of these.
        let is_exact = !self.sharing(&connection.into()).is_empty();
        let ids = Vec::from(self.carried_by(&connection));
        let of = ids.first().and_then(|id| self.application_of(*id)).cloned();
        let owned = ids.iter().filter_map(|id| Some((*id, self.flow(*id)?)));
        let shares = owned.filter(|(_, flow)| flow.owner.is_some()).map(|(id, flow)| {
            let most = if is_exact { let_go(id).since(flow.let_go, capacity) } else { Bytes::MAX };
            Share { since: flow.since, left: flow.left, most }
        });
        let mut shares: Vec<Share> = shares.collect();
        let amounts = (delivered, before);
        let lied = self.ledger.settle(cx, connection, amounts, of.as_ref(), &mut shares, capacity);
        let mut shares = shares.into_iter();
        for id in ids {
            if let Some(flow) = self.flow_mut(id).filter(|flow| flow.owner.is_some())
                && let Some(share) = shares.next()
            {
                flow.left = share.left;
                flow.let_go = let_go(id);
            }
        }
        lied
    }

    /// A declared flow ends: what its connections may have carried of it is noted, and whether it was ever seen, where
    /// an agent would have told.
    pub(crate) fn note_end(&mut self, cx: &Context, id: FlowId, capacity: Rate, let_go: LetGo) {
        let Some((flow, of)) = self.flow(id).zip(self.application_of(id).cloned()) else {
            return;
        };
        let (since, left, selector) = (flow.since, flow.left, flow.selector);
        let (seen, noted, lived) = (flow.is_seen(), flow.noted, cx.now.since(flow.since));
        let carriers: Vec<Connection> = self.carriers(&selector).collect();
        let since_last = let_go.since(flow.let_go, capacity);
        let most = if selector.is_exact() { since_last } else { Bytes::MAX };
        let shared = selector.is_exact() && self.sharing(&selector).len() > 1;
        for connection in &carriers {
            let share = Share { since, left, most };
            self.ledger.ended(cx, *connection, &of, share, shared, capacity);
        }
        if seen {
            self.ledger.note_seen(cx, &of);
        } else if !noted {
            self.ledger.note_unseen(cx, &of, lived, &carriers);
        }
    }

    /// A flow is seen that counted for too long before.
    pub(crate) fn note_late(&mut self, cx: &Context, id: FlowId) {
        let of = self.application_of(id).cloned();
        let flow = self.flow_mut(id).filter(|flow| flow.noted);
        if let (Some(of), Some(flow)) = (of, flow) {
            flow.noted = false;
            self.ledger.note_late(cx, &of, cx.patience());
        }
    }

    /// A flow has counted for as long as one may that nobody sees.
    pub(crate) fn note_unseen(&mut self, cx: &Context, id: FlowId) {
        let of = self.application_of(id).cloned();
        let flow = self.flow_mut(id).filter(|flow| !flow.is_seen() && !flow.noted);
        if let (Some(of), Some(flow)) = (of, flow) {
            flow.noted = true;
            self.ledger.note_unseen(cx, &of, cx.patience(), &[]);
        }
    }

    /// Whether flows of somebody else than this application stand in the way of one that is declared just so: not
    /// where the kernel at an end says, or will say when there is the connection, that it is this application's, and
    /// not those that nobody sees.
    pub(crate) fn is_taken(&self, declared: &Selector, application: &str, ends: [&str; 2]) -> bool {
        let is_real = |id: &FlowId| {
            let is_other = self.application_of(*id).is_some_and(|name| **name != *application);
            is_other && !(declared.is_exact() && self.flow(*id).is_some_and(Flow::is_missing))
        };
        if self.declared_by(declared).is_some_and(|of| **of == *application) {
            return false;
        }
        let can_prove = declared.is_exact() && self.tenants.can_prove(application, ends);
        !can_prove && self.sharing(declared).iter().any(is_real)
    }

    /// The flows of a connection that are not of whom it belongs to: that is who the kernels at its ends name, or else
    /// who declared it first.
    pub(crate) fn usurping(&self, connection: &Connection) -> Vec<FlowId> {
        let flows = self.sharing(&(*connection).into());
        if let Some(all) = self.declared_by(&(*connection).into()) {
            let is_wrong = self.owners.deny(connection, all);
            return if is_wrong { Vec::from(flows) } else { Vec::new() };
        }
        let of = |id: &FlowId| self.application_of(*id);
        let Some(first) = flows.first().and_then(of) else {
            return Vec::new();
        };
        let is_known = self.owners.belongs(connection, first).is_some();
        let is_wrong = |id: &&FlowId| {
            let name = of(id);
            name.is_some_and(|name| {
                if is_known { self.owners.deny(connection, name) } else { name != first }
            })
        };
        flows.iter().filter(is_wrong).copied().collect()
    }

    /// The application, the job and the flow, as people call them; nothing for one that was only seen.
    pub(crate) fn name_of(&self, flow: &Flow) -> [String; 3] {
        let job = flow.owner.as_ref().and_then(|(job, flow)| Some((self.job(*job)?, flow)));
        job.map_or_else(Default::default, |(job, flow)| {
            [&job.application, &job.name, flow].map(|name| String::from(&**name))
        })
    }
}

fn place<T>(table: &mut Vec<Option<T>>, at: usize, what: T) {
    if table.len() <= at {
        table.resize_with(at + 1, || None);
    }
    table[at] = Some(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While none is parked nobody looks whether a flow is.
    #[test]
    fn a_flow_is_parked_once_until_it_goes_on_or_ends() {
        let mut registry = Registry::default();
        let mut add = |port: u16| {
            let connection = Connection {
                source: ([10, 0, 0, 1], port).into(),
                destination: ([10, 0, 0, 2], 5000).into(),
            };
            let ends = (NodeId(0), NodeId(1));
            let flow = Flow::new(None, connection.into(), ends, None, Time::ZERO);
            registry.add_flow(flow).expect("there is room")
        };
        let [goes_on, ends] = [add(1), add(2)];
        for flow in [goes_on, goes_on, ends] {
            registry.park(flow);
        }
        registry.unpark(goes_on);
        assert!(registry.parks());
        registry.remove_flow(ends);
        assert!(!registry.parks());
        registry.unpark(goes_on);
        assert!(!registry.parks());
    }
}
