//! The machine itself: what it holds, how an input goes through it, and when it wants to be asked.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use model::{Cap, Declared, Directives, FlowId, JobId, LinkId, LinkSpec, NodeId, Observation};
use policy::Policy;
use protocol::Connection;
use units::{Bytes, Rate, Span, Time};

use crate::agents::Agent;
use crate::config::{Config, ConfigError, Enforcement, Limits};
use crate::enforce::Pair;
use crate::message::{Input, Output, Peer, Refusal};
use crate::registry::Registry;
use crate::rollout::Rollout;
use crate::status::Counters;
use crate::switches::{Line, Switch};
use crate::view::View;

/// The controller.
pub struct Controller {
    pub(crate) epoch: u64,
    pub(crate) since: Time,
    pub(crate) now: Time,
    pub(crate) policy_name: String,
    pub(crate) policy: Box<dyn Policy + Send>,
    pub(crate) enforcement: Enforcement,
    pub(crate) lease: Span,
    pub(crate) sample: Span,
    pub(crate) statistics: Span,
    pub(crate) grace: Span,
    pub(crate) discovered: LinkSpec,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) view: View,
    pub(crate) registry: Registry,
    /// What the policy has said and nobody has heard yet.
    pub(crate) decided: Directives,
    /// Connections whose limit may be wrong.
    pub(crate) touched: BTreeSet<Connection>,
    /// Limits that are confirmed to stand.
    pub(crate) confirmed: BTreeMap<Connection, Rate>,
    /// Caps of windows that the policy wants.
    pub(crate) windows: BTreeMap<(LinkId, Option<FlowId>), Cap>,
    pub(crate) pairs: BTreeMap<(NodeId, NodeId), Pair>,
    pub(crate) agents: BTreeMap<Peer, Agent>,
    /// The agent that acts for a node.
    pub(crate) acting: BTreeMap<NodeId, Peer>,
    /// Agents that have something to be told.
    pub(crate) addressed: BTreeSet<Peer>,
    /// When each agent must hear something again. Whatever it is told renews its lease, so that
    /// renewals of many agents don't fall on one moment.
    pub(crate) renewals: BTreeSet<(Time, Peer)>,
    /// The highest epoch that an agent obeys instead of this one.
    pub(crate) outranked: Option<u64>,
    pub(crate) lines: BTreeMap<Peer, Line>,
    pub(crate) switches: BTreeMap<NodeId, Switch>,
    /// Switches whose experimenter action caps windows.
    pub(crate) capping: BTreeSet<NodeId>,
    /// Lines with something to send.
    pub(crate) written: BTreeSet<Peer>,
    pub(crate) rollout: Rollout,
    /// The frame of the Packet-In at hand.
    pub(crate) packet: Vec<u8>,
    pub(crate) closing: Vec<Output>,
    pub(crate) renew_at: Time,
    pub(crate) statistics_at: Time,
    /// When the first session wants to be polled.
    pub(crate) sessions_at: Time,
}

/// What may change while the controller runs. What is `None` stays.
#[derive(Default)]
pub struct Change {
    /// Another policy and its name. It learns all that is declared; limits of the old one end as the
    /// new one decides.
    pub policy: Option<(String, Box<dyn Policy + Send>)>,
    /// Other limits. What exceeds them already stays.
    pub limits: Option<Limits>,
    /// Another lease.
    pub lease: Option<Span>,
}

impl From<Config> for Change {
    /// Everything of a configuration that may change.
    fn from(config: Config) -> Self {
        Self {
            policy: Some((config.policy_name, config.policy)),
            limits: Some(config.limits),
            lease: Some(config.lease),
        }
    }
}

impl Controller {
    /// A controller that begins at `now`. `epoch` must be higher than that of every controller
    /// before it: actuators refuse what is older.
    ///
    /// # Errors
    /// A configuration that contradicts itself.
    pub fn new(mut config: Config, epoch: u64, now: Time) -> Result<Self, ConfigError> {
        for (field, span) in
            [("lease", config.lease), ("sample", config.sample), ("statistics", config.statistics)]
        {
            if span < SHORTEST {
                let reason = alloc::format!("must be at least {SHORTEST}");
                return Err(ConfigError { field: field.into(), reason });
            }
        }
        let view = View::new(&mut config)?;
        let capping = config.switches.iter().filter(|switch| switch.windows);
        Ok(Self {
            epoch,
            since: now,
            now,
            policy_name: config.policy_name,
            policy: config.policy,
            enforcement: config.enforcement,
            lease: config.lease,
            sample: config.sample,
            statistics: config.statistics,
            grace: config.grace,
            discovered: config.discovered,
            limits: config.limits,
            counters: Counters::default(),
            view,
            registry: Registry::default(),
            decided: Vec::new(),
            touched: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            windows: BTreeMap::new(),
            pairs: BTreeMap::new(),
            agents: BTreeMap::new(),
            acting: BTreeMap::new(),
            addressed: BTreeSet::new(),
            renewals: BTreeSet::new(),
            outranked: None,
            lines: BTreeMap::new(),
            switches: BTreeMap::new(),
            capping: capping.map(|switch| switch.node).collect(),
            written: BTreeSet::new(),
            rollout: Rollout::default(),
            packet: Vec::new(),
            closing: Vec::new(),
            renew_at: now + config.lease / RENEWALS,
            statistics_at: now,
            sessions_at: Time::NEVER,
        })
    }

    /// Takes in what happened at `now` and appends to `out` what is to be done. Time that goes
    /// backwards is taken to stand still.
    ///
    /// # Errors
    /// A declaration or a report that is not taken, and why. Nothing has changed then.
    pub fn input(
        &mut self,
        now: Time,
        input: Input<'_>,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let done = self.hear(now, input);
        self.settle(out);
        done
    }

    /// Takes in one of several things that happened, of which the next [`Controller::tick`] says
    /// what is to be done for all: limits that one changes and another changes back are not told.
    ///
    /// # Errors
    /// As [`Controller::input`].
    pub fn hear(&mut self, now: Time, input: Input<'_>) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        match input {
            Input::SwitchConnected(peer) => {
                self.switch_connected(peer);
                Ok(())
            }
            Input::SwitchBytes(peer, bytes) => {
                self.switch_bytes(peer, bytes);
                Ok(())
            }
            Input::SwitchGone(peer) => {
                self.lose_line(peer);
                Ok(())
            }
            Input::Declared { application, declaration } => self.declared(application, declaration),
            Input::ApplicationGone(application) => {
                self.registry.leaves(application, self.now + self.grace);
                Ok(())
            }
            Input::AgentConnected { peer, identity } => {
                self.agent_connected(peer, identity);
                Ok(())
            }
            Input::Reported(peer, report) => self.reported(peer, report),
            Input::AgentGone(peer) => {
                self.lose_agent(peer);
                Ok(())
            }
            Input::Tick => {
                self.pass_time();
                Ok(())
            }
        }
    }

    /// When to come with [`Input::Tick`] although nothing happened. It may be now: policies that
    /// divide links anew after every change ask for it so, and decide once about all that was handed
    /// in before the tick.
    pub fn deadline(&self) -> Option<Time> {
        let ends = self.registry.next_end();
        let statistics = (!self.switches.is_empty()).then_some(self.statistics_at);
        let renew = (!self.switches.is_empty()).then_some(self.renew_at);
        let lease = self.renewals.first().map(|(at, _)| *at);
        let sessions = Some(self.sessions_at).filter(|at| *at != Time::NEVER);
        [self.policy.deadline(), ends, statistics, renew, lease, sessions]
            .into_iter()
            .flatten()
            .min()
    }

    /// Comes with [`Input::Tick`].
    pub fn tick(&mut self, now: Time, out: &mut Vec<Output>) {
        // A tick is never refused.
        let _ = self.input(now, Input::Tick, out);
    }

    /// Changes what may change while it runs, and forgets nothing.
    pub fn reconfigure(&mut self, now: Time, change: Change, out: &mut Vec<Output>) {
        self.now = self.now.max(now);
        if let Some(limits) = change.limits {
            self.limits = limits;
        }
        if let Some(lease) = change.lease {
            self.lease = lease.max(SHORTEST);
            self.renew_at = self.now;
            self.addressed.extend(self.agents.keys());
        }
        if let Some((name, policy)) = change.policy {
            self.policy_name = name;
            self.policy = policy;
            self.introduce();
        }
        self.pass_time();
        self.settle(out);
    }

    /// What has happened since the beginning.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The epoch of a controller that agents obey instead of this one, when there is one: then this
    /// one should end, or begin again with a higher epoch.
    pub fn outranked(&self) -> Option<u64> {
        self.outranked
    }

    /// Tells the policy.
    pub(crate) fn tell(&mut self, observation: impl Into<Observation>) {
        let network = &self.view.network;
        self.policy.hear(self.now, network, &observation.into(), &mut self.decided);
    }

    /// Has the policy decide about all that it was told.
    fn conclude(&mut self) {
        self.policy.conclude(self.now, &self.view.network, &mut self.decided);
    }

    /// Tells a new policy all that is declared, and lifts what the old one wanted.
    fn introduce(&mut self) {
        self.decided.clear();
        let flows: Vec<FlowId> = self.registry.flows().map(|(id, _)| id).collect();
        for id in &flows {
            if let Some(flow) = self.registry.flow_mut(*id) {
                (flow.intended, flow.level) = (None, 0);
                self.touched.insert(flow.connection);
            }
        }
        for (link, flow) in core::mem::take(&mut self.windows).into_keys() {
            self.cap(link, flow, None);
        }
        for (_, pair) in core::mem::take(&mut self.pairs) {
            self.touched.extend(pair.connections.into_keys());
        }
        let jobs: Vec<JobId> = self.registry.jobs().map(|(id, _)| id).collect();
        for id in jobs {
            self.tell(Declared::JobStart { job: id });
            let Some(job) = self.registry.job(id) else {
                continue;
            };
            let hosts = job.hosts.iter();
            let hosts = hosts.map(|(&task, &host)| Declared::TaskHost { job: id, task, host });
            let sizes = job.sizes.iter();
            let sizes = sizes.map(|(&map, portions)| Declared::Size {
                job: id,
                map,
                reduces: portions.clone(),
            });
            let told: Vec<Declared> = hosts.chain(sizes).collect();
            for declared in told {
                self.tell(declared);
            }
        }
        for id in flows {
            let Some(flow) = self.registry.flow(id) else {
                continue;
            };
            let ((src, dst), open) = (flow.ends, flow.open);
            if let Some((job, _)) = flow.owner {
                let size = flow.size.unwrap_or(Bytes::MAX);
                self.tell(Declared::FlowRequest { job, flow: id, src, dst, size });
            }
            if open {
                self.tell(model::Measured::Opened { flow: id, src, dst });
            }
        }
        self.rollout.is_due = true;
        for agent in self.agents.values_mut().filter(|agent| agent.greeted) {
            agent.complete = true;
        }
        self.addressed.extend(self.agents.keys());
    }

    fn pass_time(&mut self) {
        let now = self.now;
        while let Some(name) = self.registry.ended(now) {
            let jobs = self.registry.applications.get(&name).map(|known| known.jobs.clone());
            for job in jobs.into_iter().flat_map(BTreeMap::into_values) {
                self.complete_job(job);
            }
            self.registry.applications.remove(&name);
        }
        if self.sessions_at <= now {
            self.poll_sessions();
        }
        if self.statistics_at <= now {
            self.ask_statistics();
        }
        if self.renew_at <= now {
            self.renew_at = now + self.lease / RENEWALS;
            self.renew_entries();
        }
        let due = self.renewals.iter().take_while(|(at, _)| *at <= now);
        self.addressed.extend(due.map(|(_, peer)| *peer));
        // Last, so that it decides about all that has come up before.
        self.conclude();
        if self.policy.deadline().is_some_and(|deadline| deadline <= now) {
            self.policy.tick(now, &self.view.network, &mut self.decided);
        }
    }

    /// Has everybody hear what has been decided.
    fn settle(&mut self, out: &mut Vec<Output>) {
        self.conclude();
        self.obey();
        self.roll();
        self.enforce();
        self.address(out);
        self.write(out);
        out.append(&mut self.closing);
    }
}

/// A lease is renewed so many times before it ends, so that two renewals may be lost.
pub(crate) const RENEWALS: u64 = 3;

/// Nothing repeats more often.
const SHORTEST: Span = Span::from_millis(10);
