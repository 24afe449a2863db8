//! The controller: its rooms, and how inputs go through them.
//!
//! Each room owns its state and knows no other but by what it is given: the [`View`] of the network,
//! the [`Registry`] of applications, the [`Decider`] (the policy), what is [`Desired`], the [`Pairs`] of hosts, the
//! [`Traffic`] of links, the [`Agents`], the [`Fabric`] of switches and the [`Orders`] of operators.
//! The controller carries what one says to the others: `announce` for applications, `reports` and `join` for agents,
//! `sight` for what follows from what kernels see, `events` for switches, `operator` for operators; `decide` from there to
//! the policy and down to the actuators; `explain` reads the rooms for people.

mod announce;
mod decide;
mod events;
mod explain;
mod join;
mod operator;
mod reports;
mod sight;

pub use explain::{Answers, question};

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use model::{Declared, FlowId, JobId, Measured, NodeId, Observation, Terms};
use policy::Policy;
use units::{Span, Time};

use crate::agents::Agents;
use crate::applications::registry::Registry;
use crate::applications::tenants::Tenants;
use crate::config::{Config, ConfigError, Limits, PERIODS, Tenant};
use crate::context::Context;
use crate::decider::Decider;
use crate::desired::Desired;
use crate::fabric::Fabric;
use crate::fabric::discovery::Discovery;
use crate::judged::Judged;
use crate::message::{Closing, Input, Output, Refusal};
use crate::orders::Orders;
use crate::pairs::Pairs;
use crate::status::Counters;
use crate::traffic::Traffic;
use crate::view::{Changed, View};

/// The controller.
pub struct Controller {
    context: Context,
    since: Time,
    counters: Counters,
    judged: Judged,
    view: View,
    registry: Registry,
    decider: Decider,
    desired: Desired,
    pairs: Pairs,
    /// What goes over links, as far as agents tell.
    traffic: Traffic,
    agents: Agents,
    fabric: Fabric,
    orders: Orders,
    /// Pairs of hosts between which a job moves something else than it declared, as the policy is still to be told.
    corrections: BTreeMap<JobId, BTreeSet<(NodeId, NodeId)>>,
    /// When it was looked for agents that sample no more, as [`Context::awake`].
    released: Time,
    /// Channels that are closed after all else was sent.
    closing: Vec<Output>,
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
    /// Other tenants, as in [`Config::tenants`]. What they have declared already stays.
    pub tenants: Option<Vec<Tenant>>,
    /// Other agents of nodes, as in [`Config::acting`]. Those that act already stay until they connect anew.
    pub acting: Option<Vec<(String, String)>>,
}

impl Controller {
    /// A controller that begins at `now`. `epoch` must be higher than that of every controller
    /// before it: actuators refuse what is older.
    ///
    /// # Errors
    /// A configuration that contradicts itself.
    pub fn new(mut config: Config, epoch: u64, now: Time) -> Result<Self, ConfigError> {
        for (field, span) in
            [("lease", config.lease), ("sample", config.sample), ("probe", config.probe)]
        {
            let (shortest, _) = PERIODS;
            if span < shortest {
                let reason = alloc::format!("must be at least {shortest}");
                return Err(ConfigError { field: field.into(), reason });
            }
        }
        let view = View::new(&mut config)?;
        let tenants = Tenants::new(&config.tenants)?;
        let context = Context::new(&config, epoch, now);
        let capping = config.switches.iter().filter(|switch| switch.windows);
        Ok(Self {
            context,
            since: now,
            counters: Counters::default(),
            judged: Judged::default(),
            view,
            registry: Registry::new(tenants),
            decider: Decider::new(config.policy_name, config.policy),
            desired: Desired::default(),
            pairs: Pairs::default(),
            traffic: Traffic::default(),
            agents: Agents::new(config.acting),
            fabric: Fabric::new(&context, capping.map(|switch| switch.node).collect()),
            orders: Orders::default(),
            corrections: BTreeMap::new(),
            released: now,
            closing: Vec::new(),
        })
    }

    /// Ends a turn at `now`: what is due is done, and what follows from all that was observed since the last one ended
    /// is decided and appended to `out`. A recording has an [`Input::Tick`] for it.
    pub fn end_turn(&mut self, now: Time, out: &mut Vec<Output>) {
        // A tick is never refused.
        let _ = self.observe(now, Input::Tick);
        self.decide(out);
    }

    /// Takes in one thing and decides at once: for worlds and tests, where a turn is one input. What is due waits for
    /// an [`Input::Tick`] at the [`Controller::deadline`].
    ///
    /// # Errors
    /// As [`Controller::observe`]; what follows is decided all the same.
    pub fn step(
        &mut self,
        now: Time,
        input: Input<'_>,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let done = self.observe(now, input);
        self.decide(out);
        done
    }

    /// Takes in one thing that happened at `now`. Time that goes backwards is taken to stand still.
    ///
    /// # Errors
    /// A declaration, an order or a report that is not taken, and why; of one that couldn't be read only that the
    /// application has to wait, or is none. Who sent it was heard all the same: the
    /// application is known and stays, the agent isn't silent, and both have used up a part of what
    /// they may say in a second. Of a report on several connections those of the agent's own hosts are
    /// taken. An agent whose first report is refused is closed.
    pub fn observe(&mut self, now: Time, input: Input<'_>) -> Result<(), Refusal> {
        self.context.pass(now);
        self.take_in_input(input).inspect_err(|refusal| self.judged.add_refusal(refusal))
    }

    fn take_in_input(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        match input {
            Input::SwitchConnected { channel, identity } => {
                if let Err(refusal) = self.fabric.switches.connect(&self.context, channel, identity)
                {
                    self.closing.push(Output::CloseSwitch(channel, Closing::Refused(refusal)));
                }
            }
            Input::SwitchBytes(channel, bytes) => self.handle_bytes(channel, bytes),
            Input::SwitchGone(channel) => self.fabric.remove(self.context.now, channel),
            Input::Declared { application, declaration } => {
                return self.handle_declaration(application, declaration);
            }
            Input::Unreadable(application) => return self.handle_unreadable(application),
            Input::ApplicationHere(application) => self.registry.stays(application),
            Input::ApplicationGone(application) => {
                self.registry.leaves(application, self.context.now + self.context.grace);
            }
            Input::AgentConnected { channel, identity } => {
                if let Err(refusal) = self.agents.connect(&self.context, channel, identity) {
                    self.closing.push(Output::CloseAgent(channel, Closing::Refused(refusal)));
                }
            }
            Input::Reported(channel, report) => return self.handle_report(channel, report),
            Input::AgentGone(channel) => self.lose_agent(channel),
            Input::Ordered { act, again } => {
                self.handle_order(act, again)?;
                self.orders.note(self.context.now);
            }
            Input::Tick => self.pass_time(),
        }
        Ok(())
    }

    /// When to end a turn, or step with [`Input::Tick`], although nothing happened. It may be now: policies
    /// that divide links anew after every change ask for it so, and decide once about all that was
    /// observed before the tick.
    pub fn deadline(&self) -> Option<Time> {
        let rooms = [
            self.decider.deadline(),
            self.registry.next_end(),
            self.agents.deadline(),
            self.fabric.switches.deadline(),
        ];
        rooms.into_iter().flatten().min()
    }

    /// How long leases may go without renewal: a turn that takes longer keeps agents waiting.
    pub fn renewal_pause(&self) -> Span {
        self.context.renewal_pause()
    }

    /// Changes what may change while it runs, and forgets nothing.
    pub fn reconfigure(&mut self, now: Time, change: Change) {
        self.context.pass(now);
        if let Some(limits) = change.limits {
            self.context.limits = limits;
        }
        if let Some(lease) = change.lease {
            // What stands is told by samples, whose time only a restart changes.
            self.context.lease = lease.max(PERIODS.0).max(self.context.sample);
            self.fabric.switches.renew_now(self.context.now);
            self.agents.renew_all();
        }
        // Whoever reads a configuration checks it.
        if let Some(tenants) = change.tenants.and_then(|all| Tenants::new(&all).ok()) {
            self.registry.set_tenants(tenants);
            self.identify_all();
        }
        if let Some(acting) = change.acting {
            self.agents.bind(acting);
        }
        if let Some((name, policy)) = change.policy {
            if policy.watch().is_none() {
                self.forget_seen();
            }
            self.decider = Decider::new(name, policy);
            self.introduce();
        }
        self.pass_time();
    }

    /// What has happened since the beginning.
    pub fn counters(&self) -> Counters {
        let of_switches = self.fabric.switches.counters();
        Counters {
            packets_in: of_switches.packets_in,
            packets_refused: of_switches.packets_refused,
            malformed: of_switches.malformed,
            switch_errors: of_switches.switch_errors,
            entries_added: of_switches.entries_added,
            entries_removed: of_switches.entries_removed,
            reroutes: of_switches.reroutes,
            ..self.counters
        }
    }

    /// What was judged so far.
    pub fn judged(&self) -> Judged {
        self.judged
    }

    /// The turn in which something changed for an application last: a flow came or went, or something else is
    /// wanted of one.
    pub fn changed(&self) -> u64 {
        self.registry.changed(None)
    }

    /// An agent that says to obey a later epoch than this controller's, and that epoch: then this one
    /// should end, or begin again with a higher epoch.
    pub fn outranked(&self) -> Option<(&str, u64)> {
        self.agents.highest_epoch().filter(|(_, epoch)| *epoch > self.context.epoch)
    }

    /// A later epoch than this controller's that more than half of its agents say to obey: one that says so alone may
    /// lie.
    pub fn outranked_by_most(&self) -> Option<u64> {
        Some(self.agents.epoch_of_most()).filter(|epoch| *epoch > self.context.epoch)
    }

    /// Tells the policy. All that it hears goes this way, but [states of links](Decider::tell_link).
    fn tell(&mut self, observation: impl Into<Observation>) {
        if let Some(observation) = self.as_told(observation.into()) {
            self.decider.tell(self.context.now, self.view.network(), &observation);
        }
    }

    /// What the policy is told of an observation: it doesn't hear of hosts that are drained, nor of flows that are
    /// parked.
    fn as_told(&self, mut observation: Observation) -> Option<Observation> {
        if !self.orders.drains() && !self.registry.parks() {
            return Some(observation);
        }
        let of_flow = |id: FlowId| {
            self.registry
                .flow(id)
                .is_some_and(|flow| flow.is_parked() || self.is_drained(flow.ends))
        };
        let is_untold = match &mut observation {
            Observation::Declared(Declared::FlowRequest { flow, .. })
            | Observation::Measured(Measured::Opened { flow, .. }) => of_flow(*flow),
            Observation::Measured(
                Measured::Offered { src, dst, .. }
                | Measured::Queued { src, dst, .. }
                | Measured::Drained { src, dst },
            ) => self.is_drained((*src, *dst)),
            Observation::Declared(Declared::FlowComplete { flow, .. })
            | Observation::Measured(Measured::Closed { flow }) => of_flow(*flow),
            Observation::Declared(Declared::Streams(samples))
            | Observation::Measured(Measured::Streams(samples)) => {
                samples.retain(|sample| !of_flow(sample.flow));
                samples.is_empty()
            }
            Observation::Measured(Measured::Carried { flows } | Measured::Delivered(flows)) => {
                flows.retain(|(flow, _)| !of_flow(*flow));
                flows.is_empty()
            }
            Observation::Measured(Measured::RoundTrips(flows)) => {
                flows.retain(|(flow, _)| !of_flow(*flow));
                flows.is_empty()
            }
            _ => false,
        };
        (!is_untold).then_some(observation)
    }

    /// Has the fabric take in what switches reveal, and brings the network in line with it: the policy hears of each link
    /// before the next one changes.
    fn discover(&mut self, take_in: impl FnOnce(&mut Discovery<'_>)) {
        take_in(&mut self.fabric.discovery(&self.context, &mut self.view));
        let now = self.context.now;
        while let Some(changed) = self.view.settle(now) {
            let (links, up) = match &changed {
                Changed::State(link, up) => (core::slice::from_ref(link), *up),
                Changed::Found(both) => (&both[..], true),
            };
            for link in links {
                self.decider.tell_link(now, self.view.network(), *link, up);
            }
            self.fabric.reroute();
        }
    }

    fn pass_time(&mut self) {
        let now = self.context.now;
        while let Some(name) = self.registry.ended(now) {
            self.end_application(&name);
        }
        self.poll_switches();
        let statistics = self.decider.watch().and_then(|watch| watch.statistics);
        if self.fabric.switches.ask_statistics(&self.context, statistics) {
            self.discover(|discovery| discovery.look_for_lost_links());
            self.discover(|discovery| discovery.look_for_silent_hosts());
            self.forget_switches();
        }
        if self.fabric.switches.renew(&self.context) {
            self.end_silent_pairs();
            if self.fabric.switches.lack_entries() {
                self.fabric.rollout.make_due();
            }
        }
        self.forget_named();
        self.agents.renew(now);
        self.agents.lapse(now);
        self.forget_untold();
        self.release_unsampled();
        self.tell_corrections();
        // Last, for the policy has then been told all that has come up before.
        if self.decider.deadline().is_some_and(|deadline| deadline <= now) {
            self.tell(Observation::Tick);
        }
    }

    /// Tells a new policy all that is declared, in the order in which it began, and lifts what the old one
    /// wanted.
    fn introduce(&mut self) {
        let flows = self.registry.flows_by_age();
        for id in &flows {
            self.free(*id);
        }
        let (windows, gaps) = self.desired.take_all();
        for (link, flow) in windows {
            self.cap_window(link, flow, None);
        }
        for link in gaps {
            self.space(link, None);
        }
        self.pairs.clear();
        for id in self.registry.jobs_by_age() {
            let Some(job) = self.registry.job(id) else {
                continue;
            };
            let (application, terms) = (Arc::clone(&job.application), job.terms.clone());
            self.tell(Declared::JobStart { job: id, application });
            if terms != Terms::default() {
                self.tell(Declared::JobTerms { job: id, terms });
            }
            for declared in self.registry.tasks(id) {
                self.tell(declared);
            }
        }
        for id in flows {
            let Some(flow) = self.registry.flow(id) else {
                continue;
            };
            let ((src, dst), open) = (flow.ends, flow.open);
            if let Some(request) = self.registry.declared(id) {
                self.tell(request);
            }
            if open {
                self.tell(Measured::Opened { flow: id, src, dst });
            }
        }
        self.fabric.rollout.make_due();
        self.agents.retell_all();
    }
}
