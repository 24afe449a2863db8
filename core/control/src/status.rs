//! Answers to people: the status, and why a flow has its rate.

use alloc::string::String;
use alloc::vec::Vec;

use model::Severity;
use protocol::Connection;
use protocol::agent::Capability;
use protocol::operator::Act;
use serde::Serialize;
use units::{Bytes, Rate, Time};

/// How everything stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// The controller's epoch.
    pub epoch: u64,
    /// Since when it runs.
    pub since_ns: Time,
    /// When this is so, by the same clock.
    pub now_ns: Time,
    /// The name of the policy.
    pub policy: String,
    /// `pacing` or `meters`.
    pub enforcement: &'static str,
    /// Switches that are declared or connected.
    pub switches: Vec<SwitchStatus>,
    /// Agents that are connected.
    pub agents: Vec<AgentStatus>,
    /// Agents that were connected, as long as no other acts for their hosts.
    pub former_agents: Vec<FormerAgentStatus>,
    /// Applications that have declared something.
    pub applications: Vec<ApplicationStatus>,
    /// Tenants of the configuration, whether or not they have declared something.
    pub tenants: Vec<String>,
    /// All links.
    pub links: Vec<LinkStatus>,
    /// Orders of operators that stand.
    pub orders: Vec<Act>,
    /// Problems, each in a sentence.
    pub problems: Vec<String>,
}

/// A switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SwitchStatus {
    /// Its name.
    pub name: String,
    /// Its OpenFlow datapath number; nothing where it is not expected to connect.
    pub datapath_id: Option<u64>,
    /// Whether it is connected.
    pub connected: bool,
    /// Whether a barrier has confirmed all entries that forward packets.
    pub settled: bool,
    /// Flow entries that it should have.
    pub entries: usize,
    /// Meters that it should have.
    pub meters: usize,
}

impl SwitchStatus {
    /// Whether it should be connected by OpenFlow and isn't. Of a switch whose number no configuration gives nothing
    /// is asked.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        self.datapath_id.is_some() && !self.connected
    }
}

/// An agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentStatus {
    /// Who it has proved to be.
    pub identity: String,
    /// The hosts that it acts for.
    pub hosts: Vec<String>,
    /// What its kernel gives.
    pub capabilities: Vec<Capability>,
    /// Connections whose rate it has confirmed and that it sees, where it samples.
    pub paced: usize,
    /// Connections whose rate it has confirmed and that it doesn't see: nothing is held.
    pub unseen: usize,
    /// Rates of connections, and ends of such, that it has not confirmed yet.
    pub unconfirmed: u64,
    /// Pods of Kubernetes that have connections, of those that it told of lately.
    pub pods: usize,
    /// When it reported last.
    pub heard_ns: Time,
}

/// An agent that acted for hosts for which none acts now.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormerAgentStatus {
    /// Who it had proved to be.
    pub identity: String,
    /// The hosts that it acted for.
    pub hosts: Vec<String>,
    /// Since when it is gone.
    pub since_ns: Time,
    /// Whether it said that it ends and holds nothing; else its connection was lost.
    pub left: bool,
    /// What may stand at its hosts until leases are over: rates, windows, classes and times between
    /// acknowledgements.
    pub may_stand: usize,
    /// When the last of these leases is over, if any isn't.
    pub until_ns: Option<Time>,
}

/// An application.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApplicationStatus {
    /// Who it has proved to be.
    pub name: String,
    /// Whether it is connected.
    pub connected: bool,
    /// Its jobs.
    pub jobs: usize,
    /// Its flows.
    pub flows: usize,
    /// Declarations that were refused, those among them that couldn't be read.
    pub refused: u64,
    /// Why the last of these were, the newest at the end; one that comes again and again is told once.
    pub refusals: Vec<RefusalStatus>,
    /// Flows whose declaration was contradicted by measurement.
    pub contradicted: u64,
    /// What is kept of it takes about so many bytes.
    pub memory_bytes: u64,
}

/// A declaration that was refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusalStatus {
    /// When.
    pub at_ns: Time,
    /// The field, what is wrong with it, and the remedy: its first 200 characters.
    pub reason: String,
}

/// A directed link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkStatus {
    /// Where it leaves.
    pub from: String,
    /// Where it arrives.
    pub to: String,
    /// What it carries, frame bytes.
    pub capacity_bps: Rate,
    /// Whether the configuration names it.
    pub declared: bool,
    /// Whether it was discovered; `None` where it can't be, as to a host that was never heard.
    pub seen: Option<bool>,
    /// Whether it carries traffic.
    pub up: bool,
    /// Flows whose path it is on.
    pub flows: usize,
    /// What the limits that the policy wants for them add up to, frame bytes.
    pub limited_bps: Rate,
    /// What the limits that are confirmed to stand for them add up to, frame bytes.
    pub enforced_bps: Rate,
    /// What was measured of them, payload; nothing where nobody measures any of them, zero where there are none.
    pub measured_bps: Option<Rate>,
    /// What was last said of its queue, if anything.
    pub congested: Option<CongestionStatus>,
}

/// How congested a link's queue is, by the switch or the agent that watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CongestionStatus {
    /// When that was said last.
    pub at_ns: Time,
    /// How congested it is.
    pub severity: Severity,
    /// What was in the queue.
    pub queue_bytes: Bytes,
    /// How often something was said of it since the controller began.
    pub notices: u64,
}

/// A flow in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowStatus {
    /// Its application.
    pub application: String,
    /// Its job.
    pub job: String,
    /// Its name there.
    pub flow: String,
    /// Its packets, as they were declared; a port that was not known is 0.
    pub connection: Connection,
    /// The connections that carry it, by their addresses, 16 at most: itself, or those that agents saw where a port was
    /// not known.
    pub carriers: Vec<Connection>,
    /// How many more connections carry it.
    pub more_carriers: usize,
    /// The pod of Kubernetes where its data comes from, as `namespace/name`; nothing where no agent tells.
    pub source_pod: Option<String>,
    /// The pod where its data goes to, likewise.
    pub destination_pod: Option<String>,
    /// What is wanted, by the policy or less by an operator: frame bytes in bit/s; nothing: no limit.
    pub intended_bps: Option<Rate>,
    /// The limit that is confirmed to stand, over all its connections; nothing while one of them has none.
    pub enforced_bps: Option<Rate>,
    /// Why a limit, a class or a window that the policy wants is not there.
    pub failed: Option<String>,
    /// What was measured between the last two reports, payload; nothing where the last is old.
    pub measured_bps: Option<Rate>,
    /// What it was declared to be, payload; after a contradiction, what the policy reckons with.
    pub bytes: Option<Bytes>,
    /// What has reached its receiver, payload.
    pub delivered_bytes: Bytes,
    /// What was declared and measured otherwise.
    pub contradicted: Option<String>,
}

/// The flows of an application.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApplicationFlows {
    /// The epoch of the controller that answers. Another has other versions.
    pub epoch: u64,
    /// Another one when a flow has come or gone, or something else is wanted of one.
    pub version: u64,
    /// The flows by their jobs and names.
    pub flows: Vec<FlowStatus>,
    /// How many more there are.
    pub more: usize,
}

/// What a job asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asked {
    /// The objective that it is to be under. That of its flows may be another, where this names no such
    /// application, or isn't there.
    pub objective: Option<String>,
    /// From its start to its end.
    pub deadline_ms: Option<u64>,
    /// What its completion is worth beside that of others.
    pub weight: u32,
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobStatus {
    /// Its application.
    pub application: String,
    /// Its name there.
    pub job: String,
    /// When it started.
    pub started_ns: Time,
    /// Flows that it has now.
    pub flows: usize,
    /// Those for which the policy wants a rate.
    pub limited: usize,
    /// What was measured of them, payload.
    pub measured_bps: Rate,
    /// What it asks for, if anything.
    pub terms: Option<Asked>,
}

/// Why a flow has its rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowExplanation {
    /// How it stands.
    pub flow: FlowStatus,
    /// When it was declared.
    pub declared_ns: Time,
    /// Since when the intention stands.
    pub since_ns: Time,
    /// The rule: what the policy decided and why, in a sentence.
    pub why: String,
    /// Who enforces it: an agent, a meter in a switch, or nobody and why.
    pub by: String,
    /// The links of its path, as `from -> to`.
    pub path: Vec<String>,
    /// The link of its path that has the least left.
    pub bottleneck: Option<Bottleneck>,
    /// The objective that it is under; nothing where the policy knows none.
    pub objective: Option<ObjectiveStatus>,
}

/// The objective of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectiveStatus {
    /// Its name.
    pub name: String,
    /// What it asks for, or the job itself, such as `weight 3` or `deadline 50 s`.
    pub aim: String,
    /// Whether the deadline has passed: a weight of 1 is left.
    pub late: bool,
    /// The policy that serves it.
    pub policy: &'static str,
    /// The links of the path that several objectives divide.
    pub shared: Vec<SharedLink>,
}

/// A link that several objectives divide.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedLink {
    /// The link, as `from -> to`.
    pub link: String,
    /// What each objective has of it.
    pub parts: Vec<ObjectivePart>,
}

/// What an objective has of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectivePart {
    /// The objective.
    pub objective: String,
    /// What it asks for.
    pub aim: String,
    /// What it is given, frame bytes.
    pub given_bps: Rate,
    /// What a latency or a deadline needs to be met, what others could use, as far as the link carries it; frame
    /// bytes.
    pub wants_bps: Rate,
    /// Whether it is given less than it wants.
    pub yields: bool,
}

impl FlowExplanation {
    /// The same for the flow's application alone: of others it learns how many they are, not who they are or what
    /// they have.
    #[must_use]
    pub fn without_others(mut self) -> Self {
        if let Some(bottleneck) = &mut self.bottleneck {
            let all = bottleneck.rivals.len();
            bottleneck.rivals.retain(|rival| rival.application == self.flow.application);
            bottleneck.more += all - bottleneck.rivals.len();
        }
        if let Some(ObjectiveStatus { name, shared, .. }) = &mut self.objective {
            for link in shared {
                link.parts.retain(|part| part.objective == *name);
            }
        }
        self
    }
}

/// A link and who else is on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The link, as `from -> to`.
    pub link: String,
    /// What it carries, frame bytes.
    pub capacity_bps: Rate,
    /// What the limits that the policy wants for the flows on it add up to, frame bytes.
    pub limited_bps: Rate,
    /// What was measured of them, payload; nothing where nobody measures any of them, zero where there are none.
    pub measured_bps: Option<Rate>,
    /// The flows on it that have most, this one left out.
    pub rivals: Vec<Rival>,
    /// How many more there are.
    pub more: usize,
}

/// Another flow on a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rival {
    /// Its application; empty where nobody declared it.
    pub application: String,
    /// Its job; empty where nobody declared it.
    pub job: String,
    /// Its name there; of what nobody declared, the two ends of the connection.
    pub flow: String,
    /// What is wanted for it, by the policy or less by an operator: frame bytes in bit/s; nothing: no limit.
    pub intended_bps: Option<Rate>,
    /// What was measured, payload.
    pub measured_bps: Option<Rate>,
}

/// Why the flows of a job have their rates.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobExplanation {
    /// Its application.
    pub application: String,
    /// The job.
    pub job: String,
    /// When it started.
    pub started_ns: Time,
    /// What it has declared to move, payload.
    pub declared_bytes: Bytes,
    /// What it asks for, if anything.
    pub terms: Option<Asked>,
    /// Its flows, a thousand at most.
    pub flows: Vec<FlowExplanation>,
    /// Its flows beyond those.
    pub more: usize,
}

/// What has happened since the controller began. All of them only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Declarations taken.
    pub declarations: u64,
    /// Declarations refused.
    pub declarations_refused: u64,
    /// Reports of agents taken.
    pub reports: u64,
    /// Reports refused, whole or in part.
    pub reports_refused: u64,
    /// Packets that switches sent up.
    pub packets_in: u64,
    /// Those left out because a switch sent too many.
    pub packets_refused: u64,
    /// Messages of switches that could not be read.
    pub malformed: u64,
    /// Requests and changes that switches refused or didn't answer.
    pub switch_errors: u64,
    /// Directives of the policy.
    pub directives: u64,
    /// Those that nothing can enforce.
    pub directives_unenforced: u64,
    /// Commands sent to agents.
    pub commands: u64,
    /// Commands that agents could not carry out.
    pub commands_failed: u64,
    /// Flow entries added or changed in switches.
    pub entries_added: u64,
    /// Flow entries removed from switches.
    pub entries_removed: u64,
    /// Commands that agents called stale: another controller has a higher epoch.
    pub stale: u64,
    /// Declarations that measurement contradicted.
    pub contradictions: u64,
    /// Flows that ended because their connection was gone, without a word of their application.
    pub flows_vanished: u64,
    /// Connections that nobody declared, beyond the limit of flows: they are not governed.
    pub flows_ignored: u64,
    /// Changes of paths after a link failed, returned or was found.
    pub reroutes: u64,
}
