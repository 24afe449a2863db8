//! Questions whose answers grow with what there is: each is answered in parts of bounded work, so that others have their
//! turns between them.
//!
//! **What a reader may see** where something changes between two parts: each entry is as it was when its part was made.
//! What is there from the first part to the last is told once; what comes or goes meanwhile may be told or not, once at
//! most. What adds up is the sum of what each flow had when it was added. A version is that of the first part, so that
//! who follows hears of what has changed since.
//!
//! **That it ends.** Numbers of flows are bounded by limits. What goes by names follows those that grow as jobs and
//! flows come and go, but catches up: a step costs much less than the two declarations that bring the next name, and who
//! asks has as large a share of the machine as who declares.
//!
//! A flow takes a step for each connection that carries it. What is one part, however long: one flow, the flows that were
//! declared of one connection, what the status tells beside flows and grants (agents and what those that are gone left,
//! pods, links, switches, applications), and, while decisions are frozen, the limits that still stand.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem;
use core::ops::{Bound, Range};

use model::{FlowId, LinkId, NodeId};
use protocol::Connection;
use units::{Bytes, Rate, Time};

use super::loads::Load;
use super::{Answers, terms};
use crate::applications::application::{Application, after};
use crate::applications::flow::Flow;
use crate::applications::registry::Job;
use crate::message::ChannelId;
use crate::status::{
    ApplicationFlows, FlowExplanation, FlowStatus, JobExplanation, JobStatus, Status,
};

/// Steps of a part, so many that others hardly wait for it.
pub const PART: usize = 32;
/// An explanation takes as long as so many other steps, for each connection that carries its flow.
const EXPLANATION: usize = 8;
/// Flows of a job that are explained.
const EXPLAINED: usize = 1000;

/// A question that is answered in parts.
pub trait Question {
    /// What is answered.
    type Answer;

    /// Goes on by `most` steps, one at least; the answer, once that was the last of them. Then it is over.
    fn go_on(&mut self, answers: &Answers<'_>, most: usize) -> Option<Self::Answer>;
}

impl Answers<'_> {
    /// Answers in one piece, however long that takes.
    pub fn at_once<Q: Question>(&self, mut question: Q) -> Q::Answer {
        loop {
            if let Some(answer) = question.go_on(self, usize::MAX) {
                return answer;
            }
        }
    }

    /// A flow by its number, unless that has been given again since.
    pub(super) fn same_flow(&self, id: FlowId, begun: u64) -> Option<&Flow> {
        self.registry.flow(id).filter(|flow| flow.begun == begun)
    }

    /// Steps that a flow takes: each connection that carries it is looked at.
    fn steps(&self, flow: Option<&Flow>) -> usize {
        flow.map_or(1, |flow| self.registry.joins.joined_by(&flow.selector).max(1))
    }
}

/// Which numbers of flows have been gone over.
#[derive(Default)]
struct Numbers {
    next: usize,
}

impl Numbers {
    /// The next, whose flows take `most` steps; nothing once there are no more.
    fn part(&mut self, answers: &Answers<'_>, most: usize) -> Option<Range<usize>> {
        let (first, all) = (self.next, answers.registry.numbers());
        let mut left = most;
        while left > 0 && self.next < all {
            let id = u32::try_from(self.next).ok().map(FlowId);
            let flow = id.and_then(|id| answers.registry.flow(id));
            left = left.saturating_sub(answers.steps(flow));
            self.next += 1;
        }
        (first < self.next).then_some(first..self.next)
    }
}

/// A place among the jobs of an application and the flows of each, by their names.
#[derive(Default)]
struct Place {
    job: Option<Arc<str>>,
    flow: Option<Arc<str>>,
}

impl Place {
    /// Goes to the next flow of the job, or else to the next job itself.
    fn go_on<'a>(
        &mut self,
        answers: &'a Answers<'_>,
        known: &'a Application,
    ) -> Option<(&'a Job, Option<FlowId>)> {
        let at = self.job.as_ref().and_then(|name| known.jobs.get(name));
        if let Some(job) = at.and_then(|id| answers.registry.job(*id))
            && let Some((name, id)) = after(&job.flows, self.flow.as_deref()).next()
        {
            self.flow = Some(Arc::clone(name));
            return Some((job, Some(*id)));
        }
        let mut rest = after(&known.jobs, self.job.as_deref());
        let (name, job) = rest.find_map(|(name, id)| Some((name, answers.registry.job(*id)?)))?;
        (self.job, self.flow) = (Some(Arc::clone(name)), None);
        Some((job, None))
    }
}

/// At most `most` flows, those with the highest measured rate first.
pub struct Flows {
    most: usize,
    numbers: Numbers,
    /// Those with the highest rates so far, and their places in the order in which flows began.
    first: BTreeSet<(Reverse<Option<Rate>>, FlowId, u64)>,
    told: Vec<FlowStatus>,
}

impl Flows {
    /// At most so many.
    pub fn new(most: usize) -> Self {
        Self { most, numbers: Numbers::default(), first: BTreeSet::new(), told: Vec::new() }
    }
}

impl Question for Flows {
    type Answer = Vec<FlowStatus>;

    fn go_on(&mut self, answers: &Answers<'_>, most: usize) -> Option<Vec<FlowStatus>> {
        if let Some(part) = self.numbers.part(answers, most) {
            for (id, flow) in answers.registry.flows_in(part) {
                self.first.insert((Reverse(answers.measured(flow)), id, flow.begun));
                if self.first.len() + self.told.len() > self.most {
                    self.first.pop_last();
                }
            }
            return None;
        }
        let mut left = most;
        while left > 0 {
            let Some((_, id, begun)) = self.first.pop_first() else {
                return Some(mem::take(&mut self.told));
            };
            let flow = answers.same_flow(id, begun);
            self.told.extend(flow.map(|flow| answers.flow_status(id, flow)));
            left = left.saturating_sub(answers.steps(flow));
        }
        None
    }
}

/// The flows of an application, at most `most`, by their jobs and names.
pub struct FlowsOf {
    application: String,
    most: usize,
    version: Option<u64>,
    place: Place,
    told: Vec<FlowStatus>,
}

impl FlowsOf {
    /// Of an application, at most so many.
    pub fn new(application: &str, most: usize) -> Self {
        let (application, place) = (application.into(), Place::default());
        Self { application, most, version: None, place, told: Vec::new() }
    }
}

impl Question for FlowsOf {
    type Answer = ApplicationFlows;

    fn go_on(&mut self, answers: &Answers<'_>, most: usize) -> Option<ApplicationFlows> {
        let version = self.version.unwrap_or_else(|| answers.version(&self.application));
        self.version = Some(version);
        let known = answers.registry.applications.get(&self.application);
        let mut left = most;
        while left > 0 {
            let asked = known.filter(|_| self.told.len() < self.most);
            let Some((_, id)) = asked.and_then(|known| self.place.go_on(answers, known)) else {
                let more = known.map_or(0, |known| known.flows.saturating_sub(self.told.len()));
                let flows = mem::take(&mut self.told);
                let epoch = answers.context.epoch;
                return Some(ApplicationFlows { epoch, version, flows, more });
            };
            let found = id.and_then(|id| Some((id, answers.registry.flow(id)?)));
            self.told.extend(found.map(|(id, flow)| answers.flow_status(id, flow)));
            left = left.saturating_sub(answers.steps(found.map(|(_, flow)| flow)));
        }
        None
    }
}

/// The jobs that run: of one application, or of all.
#[derive(Default)]
pub struct Jobs {
    of: Option<String>,
    /// The application whose jobs are gone over.
    at: Option<Arc<str>>,
    place: Place,
    told: Vec<JobStatus>,
}

impl Jobs {
    /// Of an application, or of all.
    pub fn new(of: Option<&str>) -> Self {
        Self { of: of.map(String::from), ..Self::default() }
    }
}

impl Question for Jobs {
    type Answer = Vec<JobStatus>;

    fn go_on(&mut self, answers: &Answers<'_>, most: usize) -> Option<Vec<JobStatus>> {
        let applications = &answers.registry.applications;
        let mut left = most;
        while left > 0 {
            let mut steps = 1;
            let known = self.at.as_deref().and_then(|name| applications.get(name));
            match known.and_then(|known| self.place.go_on(answers, known)) {
                Some((job, None)) => self.told.push(answers.job_status(job)),
                Some((_, Some(id))) => {
                    let flow = answers.registry.flow(id);
                    if let (Some(flow), Some(job)) = (flow, self.told.last_mut()) {
                        answers.add_to_job(job, id, flow);
                    }
                    steps = answers.steps(flow);
                }
                None => {
                    let next = match (&self.of, &self.at) {
                        (Some(of), None) => applications.find(of).map(|(name, _)| name),
                        (Some(_), Some(_)) => None,
                        (None, at) => applications.after(at.as_deref()),
                    };
                    let Some(next) = next else { return Some(mem::take(&mut self.told)) };
                    (self.at, self.place) = (Some(Arc::clone(next)), Place::default());
                }
            }
            left = left.saturating_sub(steps);
        }
        None
    }
}

/// Flows of a job, and what all flows add up to on their links.
#[derive(Default)]
struct Explaining {
    flows: VecDeque<Arc<str>>,
    links: BTreeSet<LinkId>,
    numbers: Numbers,
    loads: BTreeMap<LinkId, Load>,
    /// All flows are added up.
    is_added_up: bool,
    told: Vec<FlowExplanation>,
}

impl Explaining {
    /// A flow is to be explained.
    fn add(&mut self, answers: &Answers<'_>, name: &Arc<str>, id: FlowId) {
        if let Some(flow) = answers.registry.flow(id) {
            self.links.extend(answers.view.path(flow.ends, u64::from(id.0)));
            self.flows.push_back(Arc::clone(name));
        }
    }

    fn go_on(
        &mut self,
        answers: &Answers<'_>,
        job: &Job,
        most: usize,
    ) -> Option<Vec<FlowExplanation>> {
        // Without a flow, or a path of one, there is nothing that they could add up to.
        if !self.links.is_empty() {
            if let Some(part) = self.numbers.part(answers, most) {
                for (id, flow) in answers.registry.flows_in(part) {
                    answers.add_flow(&mut self.loads, id, flow, Some(&self.links));
                }
                return None;
            }
            if !mem::replace(&mut self.is_added_up, true) {
                answers.add_ended(&mut self.loads, Some(&self.links));
            }
        }
        let mut left = most;
        while left > 0 {
            let Some(name) = self.flows.pop_front() else { return Some(mem::take(&mut self.told)) };
            let found = job.flows.get(&name);
            let found = found.and_then(|id| Some((*id, answers.registry.flow(*id)?)));
            self.told.extend(found.map(|(id, flow)| answers.explain_one(id, flow, &self.loads)));
            let steps = EXPLANATION * answers.steps(found.map(|(_, flow)| flow));
            left = left.saturating_sub(steps);
        }
        None
    }
}

/// Why a flow has its rate; `None` when there is no such flow.
pub struct ExplainFlow {
    application: String,
    job: String,
    flow: String,
    explaining: Option<Explaining>,
}

impl ExplainFlow {
    /// A flow of a job of an application.
    pub fn new(application: &str, job: &str, flow: &str) -> Self {
        let [application, job, flow] = [application, job, flow].map(String::from);
        Self { application, job, flow, explaining: None }
    }
}

impl Question for ExplainFlow {
    type Answer = Option<FlowExplanation>;

    fn go_on(&mut self, answers: &Answers<'_>, most: usize) -> Option<Option<FlowExplanation>> {
        let Some(job) = answers.job_named(&self.application, &self.job) else { return Some(None) };
        let Some((name, id)) = job.flows.get_key_value(&*self.flow) else { return Some(None) };
        let explaining = self.explaining.get_or_insert_with(|| {
            let mut explaining = Explaining::default();
            explaining.add(answers, name, *id);
            explaining
        });
        explaining.go_on(answers, job, most).map(|mut told| told.pop())
    }
}

/// Why the flows of a job have their rates; `None` when there is no such job.
#[derive(Default)]
pub struct ExplainJob {
    application: String,
    job: String,
    /// The flow that was listed last.
    last: Option<Arc<str>>,
    is_listed: bool,
    requested: Bytes,
    explaining: Explaining,
}

impl ExplainJob {
    /// A job of an application.
    pub fn new(application: &str, job: &str) -> Self {
        Self { application: application.into(), job: job.into(), ..Self::default() }
    }

    /// Goes over some flows of the job.
    fn list(&mut self, answers: &Answers<'_>, job: &Job, most: usize) {
        let mut listed = 0;
        for (name, id) in after(&job.flows, self.last.as_deref()).take(most) {
            let size = answers.registry.flow(*id).and_then(Flow::declared_size);
            self.requested += size.unwrap_or(Bytes::ZERO);
            if self.explaining.flows.len() < EXPLAINED {
                self.explaining.add(answers, name, *id);
            }
            self.last = Some(Arc::clone(name));
            listed += 1;
        }
        self.is_listed = listed < most;
    }
}

impl Question for ExplainJob {
    type Answer = Option<JobExplanation>;

    fn go_on(&mut self, answers: &Answers<'_>, most: usize) -> Option<Option<JobExplanation>> {
        let Some(job) = answers.job_named(&self.application, &self.job) else { return Some(None) };
        if !self.is_listed {
            self.list(answers, job, most);
            return None;
        }
        let flows = self.explaining.go_on(answers, job, most)?;
        let sizes = job.sizes.values().flatten().map(|(_, bytes)| *bytes);
        Some(Some(JobExplanation {
            application: mem::take(&mut self.application),
            job: mem::take(&mut self.job),
            started_ns: job.started,
            declared_bytes: sizes.sum::<Bytes>().max(self.requested),
            terms: terms(job),
            more: job.flows.len().saturating_sub(EXPLAINED),
            flows,
        }))
    }
}

/// How everything stands.
#[derive(Default)]
pub struct Overview {
    numbers: Numbers,
    /// What flows add up to on links.
    pub(super) loads: BTreeMap<LinkId, Load>,
    /// Connections whose rate an agent has confirmed though it doesn't see them, and since when their flows are wanted.
    unseen: BTreeMap<Connection, Time>,
    /// How many flows of each host had a limit and no agent that could hold it.
    pub(super) unattended: BTreeMap<NodeId, usize>,
    /// All flows are added up.
    is_added_up: bool,
    /// The agent whose grants are gone over, up to this connection.
    at: Option<ChannelId>,
    last: Option<Connection>,
    granted: BTreeMap<ChannelId, Granted>,
}

/// The connections that an agent was granted something for.
#[derive(Clone, Copy, Default)]
pub(super) struct Granted {
    /// Those whose rate it holds and sees.
    pub(super) paced: usize,
    /// Those that it holds and doesn't see.
    pub(super) unseen: usize,
    /// Those of them that it should see by now, and the first.
    pub(super) late: usize,
    pub(super) first_late: Option<Connection>,
}

impl Overview {
    /// Whether a connection is held and not seen.
    pub(super) fn is_unseen(&self, connection: &Connection) -> bool {
        self.unseen.contains_key(connection)
    }

    /// What an agent was granted.
    pub(super) fn granted(&self, channel: ChannelId) -> Granted {
        self.granted.get(&channel).copied().unwrap_or_default()
    }

    /// Goes over some grants of an agent, or to the next one; whether there is more.
    fn add_grants(&mut self, answers: &Answers<'_>, most: usize) -> bool {
        let here = self.at.and_then(|channel| Some((channel, answers.agents.get(channel)?)));
        if let Some((channel, agent)) = here {
            let granted = self.granted.entry(channel).or_default();
            let from = self.last.map_or(Bound::Unbounded, Bound::Excluded);
            let rest = agent.grants.range::<Connection, _>((from, Bound::Unbounded));
            let mut added = 0;
            for (connection, _) in rest.take(most) {
                if let Some(since) = self.unseen.get(connection) {
                    granted.unseen += 1;
                    if answers.has_looked(agent, *since) {
                        granted.late += 1;
                        granted.first_late.get_or_insert(*connection);
                    }
                } else if answers.is_held(agent, connection) {
                    granted.paced += 1;
                }
                self.last = Some(*connection);
                added += 1;
            }
            if added == most {
                return true;
            }
        }
        (self.at, self.last) = (answers.agents.after(self.at), None);
        self.at.is_some()
    }
}

impl Question for Overview {
    type Answer = Status;

    fn go_on(&mut self, answers: &Answers<'_>, most: usize) -> Option<Status> {
        if let Some(part) = self.numbers.part(answers, most) {
            for (id, flow) in answers.registry.flows_in(part) {
                answers.add_flow(&mut self.loads, id, flow, None);
                self.unseen.extend(answers.unseen(flow));
                if answers.is_unattended(id, flow) {
                    *self.unattended.entry(flow.ends.0).or_default() += 1;
                }
            }
            return None;
        }
        if !mem::replace(&mut self.is_added_up, true) {
            answers.add_ended(&mut self.loads, None);
        }
        if self.add_grants(answers, most) {
            return None;
        }
        Some(answers.overview(self))
    }
}
