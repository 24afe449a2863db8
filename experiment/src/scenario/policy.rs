//! `[[policy]]`: the policies, one run each.

use std::fmt;
use std::sync::Arc;

use document::fields::{Value, between};
use document::topology::{Names, named};
use document::{DocumentError, policies};
use lab::{Daemon, Fault};
use packet::{Protocol, Transport};
use policy::{
    Acknowledgements, Descriptor, DirectiveKind, Messages, Need, Parameters, Policy, PolicyError,
};
use units::{Bytes, Span};

use super::lab::LabSettings;
use super::workload::Workload;
use super::{World, transport};

/// Most policies of a scenario.
const MOST: usize = 64;
/// One policy of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// How results name it; unique in the scenario.
    pub label: String,
    /// Which policy it is.
    pub policy: &'static Descriptor,
    /// Its parameters.
    pub parameters: Parameters,
    /// The transport in its run.
    pub transport: Transport,
    /// What fails while the applications of an engine run under it.
    pub faults: Vec<Fault>,
    /// Name and parameters as TOML: the body of a controller's table `[policy]`.
    pub written: String,
    /// Makes it, where it stands in no catalogue.
    pub maker: Option<Maker>,
}

/// Makes a policy for each run anew.
#[derive(Clone)]
pub struct Maker(Arc<dyn Fn() -> Box<dyn Policy + Send> + Send + Sync>);

impl Maker {
    /// One that calls `make`.
    pub fn new(make: impl Fn() -> Box<dyn Policy + Send> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Maker")
    }
}

/// Equal where it is the same.
impl PartialEq for Maker {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Maker {}

impl PolicySpec {
    /// A policy that stands in no catalogue: `policy` says what it needs and says, `maker` makes it. It has no
    /// parameters, and no daemon knows it.
    pub fn own(
        label: String,
        policy: &'static Descriptor,
        transport: Transport,
        maker: Maker,
    ) -> Self {
        Self {
            label,
            policy,
            parameters: Parameters::default(),
            transport,
            faults: Vec::new(),
            written: String::new(),
            maker: Some(maker),
        }
    }

    /// The policy in its initial state, where it costs this to tell a host another limit, and so much
    /// comes back for what is sent.
    ///
    /// # Errors
    /// None for what [`Scenario::read`](super::Scenario::read) accepted.
    pub fn build(
        &self,
        messages: Messages,
        acknowledgements: Acknowledgements,
    ) -> Result<Box<dyn Policy + Send>, PolicyError> {
        if let Some(Maker(make)) = &self.maker {
            return Ok(make());
        }
        let parameters = self.parameters.clone().at_cost(messages);
        self.policy.build(&parameters.acknowledged(acknowledgements))
    }

    /// Whether it decides by counters of ports.
    pub(super) fn counts_ports(&self) -> bool {
        self.build(Messages::Free, Acknowledgements::NONE)
            .is_ok_and(|policy| policy.ports().is_some())
    }
}

/// The list `[[policy]]`; `base` is the default transport.
pub(super) fn read(
    value: &Value<'_>,
    base: Transport,
    hosts: &Names<'_>,
) -> Result<Vec<PolicySpec>, DocumentError> {
    let members = value.list(MOST)?;
    if members.is_empty() {
        return Err(value.error("is empty; add a [[policy]] with name = \"tcp\""));
    }
    let mut policies: Vec<PolicySpec> = Vec::new();
    for member in members {
        let policy = read_one(&member, base, hosts)?;
        if policies.iter().any(|other| other.label == policy.label) {
            let what = format!(
                "there are two policies called \"{}\"; give one a label of its own",
                policy.label
            );
            return Err(member.error(what));
        }
        policies.push(policy);
    }
    Ok(policies)
}

fn read_one(
    value: &Value<'_>,
    base: Transport,
    hosts: &Names<'_>,
) -> Result<PolicySpec, DocumentError> {
    let mut fields = value.fields()?;
    let transport = fields.or("transport", base, |v| transport::read(v, base))?;
    let segment = Bytes::new(u64::from(transport.mss));
    let (policy, parameters) = policies::read(&mut fields, segment)?;
    let faults = fields.tables("faults", MOST)?;
    let faults = faults.iter().map(|v| fault(v, hosts)).collect::<Result<_, _>>()?;
    let label = fields.or("label", policy.name.to_owned(), Value::label)?;
    fields.done()?;
    let written = value.written(&["faults", "label", "transport"])?;
    Ok(PolicySpec { label, policy, parameters, transport, faults, written, maker: None })
}

/// What can be killed; `None`: what applications run at a host.
const KILLED: &[(&str, Option<Daemon>)] =
    &[("agent", Some(Daemon::Agent)), ("controller", Some(Daemon::Controller)), ("tasks", None)];

fn fault(value: &Value<'_>, hosts: &Names<'_>) -> Result<Fault, DocumentError> {
    let mut fields = value.fields()?;
    let kill = fields.need("kill", "\"controller\"")?.choice(KILLED)?;
    let time = |v: &Value<'_>| between(v, Span::ZERO, Span::from_secs(86_400));
    let at = time(&fields.need("at", "\"30 s\"")?)?;
    let back = fields.optional("back", |v| {
        let back = time(v)?;
        if back <= at {
            return Err(v.error(format_args!("isn't after at, {at}; start it later")));
        }
        Ok(back)
    })?;
    let on = fields.optional("on", |v| Ok((named(v, "host", hosts)?, v.clone())))?;
    let fault = match (kill, on) {
        (Some(kill), None) => Fault::Daemon { kill, at, back },
        (Some(_), Some((_, on))) => {
            return Err(on.error("is for tasks: a daemon is that of all hosts; remove it"));
        }
        (None, None) => {
            return Err(value.error("kills tasks of no host; add on = \"h1\""));
        }
        (None, Some(_)) if back.is_some() => {
            return Err(value.error("has back: tasks are started again by their engine; remove it"));
        }
        (None, Some((on, _))) => Fault::Tasks { on, at },
    };
    fields.done()?;
    Ok(fault)
}

/// What a scenario has for its policies.
pub(super) struct Place<'a> {
    pub(super) world: World,
    pub(super) lab: &'a LabSettings,
    pub(super) workload: &'a Workload,
}

/// Refuses policies that would wait forever for what neither the world nor the workload gives, or whose
/// decisions nothing would enforce: they would run as `tcp` under another name.
pub(super) fn check_needs(
    value: &Value<'_>,
    policies: &[PolicySpec],
    place: &Place<'_>,
) -> Result<(), DocumentError> {
    for (member, spec) in value.list(MOST)?.iter().zip(policies) {
        if let Some(wrong) = place.wrong(spec) {
            return Err(member.error(wrong));
        }
    }
    Ok(())
}

impl Place<'_> {
    /// Why a policy can't be run here, with the remedy, if so.
    pub(super) fn wrong(&self, spec: &PolicySpec) -> Option<String> {
        let under = spec.parameters.objectives().iter().map(|objective| objective.policy);
        for policy in under.chain([spec.policy]) {
            let name = policy.name;
            for need in policy.needs {
                if let Some(remedy) = self.lacks(*need, &spec.transport) {
                    return Some(format!("{name} needs {need}; {remedy}"));
                }
            }
            if let Some(why) = self.why_not_enforced(policy) {
                return Some(format!("{name} has no effect here: {why}"));
            }
        }
        let name = spec.policy.name;
        if let (true, Some(remedy)) = (spec.counts_ports(), self.lacks_counters()) {
            return Some(format!("{name} with cross needs counters of ports; {remedy}"));
        }
        if spec.transport.held && !spec.policy.needs(Need::WaitingPackets) {
            return Some(format!(
                "{name} never lets go what hosts hold; write held = false into its transport"
            ));
        }
        if self.workload.is_gather() && !spec.policy.says(DirectiveKind::Gather) {
            let gathering = policy::saying(DirectiveKind::Gather);
            let names: Vec<&str> = gathering.map(|policy| policy.name).collect();
            return Some(format!(
                "{name} doesn't say how to gather requests; use {}",
                names.join(", ")
            ));
        }
        None
    }

    /// The remedy, where this is not what the policy needs.
    fn lacks(&self, need: Need, transport: &Transport) -> Option<&'static str> {
        const PACKET: &str = "use world = \"packet\"";
        const DAEMONS: &str = "in the lab agents see it: write control = \"daemons\" into [lab]";
        let is_direct = self.world == World::Lab && self.lab.daemons.is_none();
        match need {
            Need::Tags if self.world != World::Packet => Some(PACKET),
            Need::Tags if transport.protocol == Protocol::Datagram => {
                Some("datagrams have none: write another protocol into its transport")
            }
            Need::Handshakes | Need::PortReports | Need::WaitingPackets
                if self.world == World::Fluid =>
            {
                Some(PACKET)
            }
            Need::Handshakes | Need::PortReports | Need::WaitingPackets if is_direct => {
                Some(DAEMONS)
            }
            Need::Handshakes if !transport.handshake => {
                Some("write handshake = true into [transport]")
            }
            Need::Handshakes | Need::PortReports
                if self.world == World::Lab && self.lab.switches == lab::Switches::Ovs =>
            {
                Some(
                    "agents see it where the kernel forwards: write switches = \"bridge\" into [lab]",
                )
            }
            Need::WaitingPackets if self.world == World::Packet && !transport.held => {
                Some("write protocol = \"datagram\" and held = true into [transport]")
            }
            Need::StreamSamples if !self.workload.is_stream() => {
                Some("use a [workload] of kind = \"stream\"")
            }
            Need::Requests | Need::Hubs if !self.workload.is_gather() => {
                Some("use a [workload] of kind = \"gather\"")
            }
            Need::Handshakes
            | Need::PortReports
            | Need::WaitingPackets
            | Need::StreamSamples
            | Need::Tags
            | Need::Requests
            | Need::Hubs => None,
        }
    }

    /// The remedy, where nobody counts what ports send.
    fn lacks_counters(&self) -> Option<&'static str> {
        let is_ovs = self.lab.daemons.is_some() && self.lab.switches == lab::Switches::Ovs;
        match self.world {
            World::Fluid => Some("use world = \"packet\""),
            World::Lab if is_ovs => Some("write switches = \"bridge\" into [lab]"),
            World::Packet | World::Lab => None,
        }
    }

    /// Why nothing of what a policy says is done in the lab, if so.
    fn why_not_enforced(&self, policy: &Descriptor) -> Option<String> {
        if self.world != World::Lab || policy.is_passive() {
            return None;
        }
        if self.lab.daemons.is_some() {
            return policy.why_not_live();
        }
        (!policy.says(DirectiveKind::Pace)).then(|| {
            let said: Vec<String> = policy.directives.iter().map(ToString::to_string).collect();
            format!(
                "it says {}, and without daemons the lab sets rates of flows alone; write control = \
                 \"daemons\" into [lab]",
                said.join(", ")
            )
        })
    }
}
