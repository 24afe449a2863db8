//! The configuration of a controller.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use model::{Buffer, LinkId, LinkSpec, NodeId, Topology};
use policy::Policy;
use protocol::agent::{MOST_IDENTIFIED, MOST_LEASE};
use units::{Bytes, Rate, Span};

/// How long actuators obey without hearing from the controller, where nothing else is configured: some
/// five times the failover of a controller with replicated state (about 2 s), so that limits survive
/// one, and short enough that those of a controller that died for good soon end.
pub const LEASE: Span = Span::from_secs(10);
/// Leases that can be asked for of daemons, shortest and longest.
pub const LEASES: (Span, Span) = (Span::from_secs(1), MOST_LEASE);
/// How often a controller can do what repeats, most and least often.
pub const PERIODS: (Span, Span) = (Span::from_millis(10), Span::from_secs(3_600));

/// Why connections can't be sampled each `sample` under leases of `lease`: what stands is told by samples.
pub fn wrong_sample(sample: Span, lease: Span) -> Option<String> {
    (sample > lease).then(|| format!("is longer than the lease, {lease}; sample more often"))
}

/// Time between two reports of an agent on its connections, where nothing else is configured.
pub const SAMPLE: Span = Span::from_secs(1);

/// How long what a gone application declared stands, where nothing else is configured.
pub const GRACE: Span = Span::from_secs(10);

/// The configuration. [`Config::new`] gives defaults to all but the policy.
pub struct Config {
    /// Hosts, switches and links that are declared. What is discovered is added to it.
    pub topology: Topology,
    /// Addresses of its hosts.
    pub hosts: Vec<HostConfig>,
    /// Datapath numbers and abilities of its switches.
    pub switches: Vec<SwitchConfig>,
    /// The ports that its links leave by.
    pub ports: Vec<PortConfig>,
    /// The name of the policy, for people.
    pub policy_name: String,
    /// The policy.
    pub policy: Box<dyn Policy + Send>,
    /// Payload of a full TCP segment of the hosts: an OpenFlow switch doesn't look at what they agreed on.
    pub mss: Bytes,
    /// How rates are enforced.
    pub enforcement: Enforcement,
    /// How long actuators obey without hearing from the controller. Whole seconds in switches,
    /// rounded up.
    pub lease: Span,
    /// Time between two reports of an agent on its connections.
    pub sample: Span,
    /// Time between two probes of links. Where the policy asks for statistics of flows, links are
    /// probed as often as switches are asked for those.
    pub probe: Span,
    /// How long what a gone application declared stands.
    pub grace: Span,
    /// What is assumed of a link that is discovered and not declared; its capacity is that of the
    /// port where the port tells its speed.
    pub discovered: LinkSpec,
    /// Whether hosts are learnt that nobody declared, by what they send and by what agents say.
    pub learn: bool,
    /// What peers may ask of the controller.
    pub limits: Limits,
    /// The applications that may declare something; none: all may declare everything.
    pub tenants: Vec<Tenant>,
    /// Nodes for which one agent alone may act, and which.
    pub acting: Vec<(String, String)>,
}

/// An application, and what it may declare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenant {
    /// Its name, as in its certificate.
    pub application: String,
    /// The hosts of its flows and tasks.
    pub hosts: Vec<String>,
    /// Ports of which each flow has one, at either end; none: all.
    pub ports: Vec<RangeInclusive<u16>>,
    /// The control groups at its hosts whose sockets are its own, such as `/system.slice/x.service`.
    pub cgroups: Vec<String>,
    /// Jobs that it may have open, in the place of [`Limits::jobs`].
    pub jobs: Option<usize>,
    /// Flows that it may have open, in the place of [`Limits::flows`].
    pub flows: Option<usize>,
}

impl Tenant {
    /// Control groups of tenants that can be named at a host: as many are left for flows to name.
    pub const MOST_CGROUPS: usize = MOST_IDENTIFIED / 2;
}

/// The longest path of a control group, in bytes.
const LONGEST_PATH: usize = 1024;

/// Why a text can't be the path of a control group.
pub fn wrong_cgroup(path: &str) -> Option<String> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let whole = path.strip_prefix('/').filter(|rest| rest.split('/').all(is_plain));
    let is_wrong = whole.is_none() || path.len() > LONGEST_PATH || path.contains(char::is_control);
    is_wrong.then(|| {
        format!("must be a path of up to {LONGEST_PATH} bytes, as /system.slice/x.service")
    })
}

impl Config {
    /// No declared topology, pacing, [`LEASE`], [`SAMPLE`], [`GRACE`], probes of links each second;
    /// discovered links are of 1 Gbit/s.
    pub fn new(name: &str, policy: Box<dyn Policy + Send>) -> Self {
        Self {
            topology: Topology::new(),
            hosts: Vec::new(),
            switches: Vec::new(),
            ports: Vec::new(),
            policy_name: name.into(),
            policy,
            mss: model::MSS,
            enforcement: Enforcement::Pacing,
            lease: LEASE,
            sample: SAMPLE,
            probe: Span::from_secs(1),
            grace: GRACE,
            discovered: LinkSpec {
                capacity: Rate::from_mbps(1000),
                delay: Span::from_micros(10),
                buffer: Buffer::Unlimited,
                mark: None,
            },
            learn: true,
            limits: Limits::default(),
            tenants: Vec::new(),
            acting: Vec::new(),
        }
    }
}

/// How a rate is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// By the agent at the sending host.
    #[default]
    Pacing,
    /// By a meter at the first switch of the path. TCP suffers from it: see `docs/enforcement.md`.
    Meters,
}

impl Enforcement {
    /// Both, by their names in configurations, scenarios and answers.
    pub const NAMED: &[(&str, Self)] = &[("pacing", Self::Pacing), ("meters", Self::Meters)];

    /// Its name there.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pacing => Self::NAMED[0].0,
            Self::Meters => Self::NAMED[1].0,
        }
    }
}

/// A host of the declared topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// The host.
    pub node: NodeId,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its Ethernet addresses; none where they are to be learnt.
    pub ethernet: Vec<[u8; 6]>,
}

/// A switch of the declared topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// The switch.
    pub node: NodeId,
    /// The number that it gives in the OpenFlow handshake.
    pub datapath_id: u64,
    /// Whether it knows the actions that cap windows (`docs/openflow.md`). Open vSwitch doesn't.
    pub windows: bool,
}

/// The port that a link of the declared topology leaves by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The directed link.
    pub link: LinkId,
    /// OpenFlow port number at a switch; `None`: not known, or a host.
    pub port: Option<u32>,
    /// Name of the interface, as agents use it; empty: not known.
    pub interface: String,
}

/// What peers may ask of the controller. What goes beyond is refused, not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of switches.
    pub switches: usize,
    /// Connections of agents.
    pub agents: usize,
    /// Applications that have declared something.
    pub applications: usize,
    /// Jobs of an application.
    pub jobs: usize,
    /// Flows of an application; also connections that nobody declared, and those of one agent that are kept.
    pub flows: usize,
    /// Tasks of a job, and portions that it may have declared.
    pub tasks: usize,
    /// Bytes of a job's name or an identity.
    pub name_bytes: usize,
    /// Declarations of an application in a second; as many may come at once.
    pub declarations_per_second: u32,
    /// Reports of an agent in a second; as many may come at once.
    pub reports_per_second: u32,
    /// Packets that a switch may send up in a second; as many may come at once.
    pub packets_per_second: u32,
    /// Hosts that are learnt without being declared.
    pub hosts: usize,
    /// Of those, what one agent names.
    pub hosts_per_agent: usize,
    /// Addresses of each kind that are learnt at one port of a switch.
    pub hosts_per_port: usize,
    /// Bytes that records of all applications may take. One may take as much as is left for all others.
    pub memory: u64,
}

impl Limits {
    /// Connections, or ports, in one report of an agent.
    pub(crate) fn reported(&self) -> usize {
        self.flows.max(protocol::agent::MOST_REPORTED)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            switches: 1_000,
            agents: 10_000,
            applications: 10_000,
            jobs: 10_000,
            flows: 100_000,
            tasks: 100_000,
            name_bytes: 256,
            declarations_per_second: 10_000,
            reports_per_second: 1_000,
            packets_per_second: 10_000,
            hosts: 10_000,
            hosts_per_agent: 2_000,
            hosts_per_port: 64,
            memory: 768 << 20,
        }
    }
}

/// Whether a terminal obeys a character in the place of showing it, as those that change the direction of text,
/// or shows nothing: two names could look the same. Those are the default ignorable code points of Unicode 17
/// (DerivedCoreProperties.txt), separators of lines, annotations and the blank of Braille.
pub fn is_control(c: char) -> bool {
    c.is_control() || UNSEEN.iter().any(|unseen| unseen.contains(&c))
}

/// What somebody said, for people on terminals, where none of it is obeyed and all of it stays on its line.
pub fn harmless(said: &str) -> String {
    said.replace(is_control, " ")
}

const UNSEEN: [RangeInclusive<char>; 18] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{2800}'..='\u{2800}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

impl Limits {
    /// Why a text can't be a name: it is empty or too long, nobody could see it, or it would write elsewhere on the
    /// terminal of who reads it.
    pub(crate) fn wrong_name(&self, name: &str) -> Option<String> {
        let most = self.name_bytes;
        if name.is_empty() {
            return Some(format!("is empty; write 1 to {most} bytes"));
        }
        if name.len() > most {
            let length = name.len();
            return Some(format!("has {length} bytes; write at most {most}, or raise limits.name"));
        }
        if name.trim().is_empty() {
            return Some("is nothing but blanks; write what can be seen".into());
        }
        name.contains(is_control)
            .then(|| "has control or invisible characters; leave them out".into())
    }
}

/// A configuration that contradicts itself: the field, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field, such as `switches[2].datapath_id`.
    pub field: String,
    /// What is wrong, and the remedy.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl core::error::Error for ConfigError {}
