//! A controller whose policy says what a test wants, and one agent with a kernel.

use std::sync::{Arc, Mutex};

use agent::{Actuator, Agent, Capacity, Failure, Kernel, Operation, PortNumber};
use model::{
    Buffer, Cap, Declared, Directive, Directives, FlowId, JobId, LinkId, LinkSpec, Network, NodeId,
    NodeKind, Observation, PortWatch, Severity, Thresholds, Topology,
};
use policy::{Policy, Watch};
use protocol::agent::{Command, ConnectionReport, Host, Report};
use protocol::application::Declaration;
use protocol::{Connection, Process, Processes};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::{
    Change, ChannelId, Config, Controller, HostConfig, Input, Output, PortConfig, SwitchConfig,
};

/// The switch, two hosts, and the watched port that leads to the second.
const SWITCH: NodeId = NodeId(0);
pub const FROM: NodeId = NodeId(1);
pub const TO: NodeId = NodeId(2);
pub const LINK: LinkId = LinkId(2);
pub const PORT: PortNumber = PortNumber(0);
pub const FLOW: FlowId = FlowId(0);
const THRESHOLDS: Thresholds =
    Thresholds { low: 30, medium: 60, high: 85, recovery: Span::from_secs(1) };
pub const NARROW: Cap = Cap { bytes: Bytes::new(3_000), floor_segments: 2 };
pub const WIDE: Cap = Cap { bytes: Bytes::new(9_000), floor_segments: 2 };

pub fn connection(port: u16) -> Connection {
    let (source, destination) = (([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into());
    Connection { source, destination }
}

pub fn config(name: &str, policy: Box<dyn Policy + Send>) -> Config {
    let mut config = Config::new(name, policy);
    let buffer = Buffer::Packets(100);
    let (capacity, delay) = (Rate::from_mbps(100), Span::from_micros(10));
    let spec = LinkSpec { capacity, delay, buffer, mark: None };
    let mut topology = Topology::new();
    topology.add_node("s0".into(), NodeKind::Switch).unwrap();
    for (last, node) in [(1, FROM), (2, TO)] {
        topology.add_node(format!("h{last}"), NodeKind::Host).unwrap();
        topology.connect(SWITCH, node, spec, spec).unwrap();
        let addresses = vec![[10, 0, 0, last].into()];
        config.hosts.push(HostConfig { node, addresses, ethernet: vec![] });
    }
    config.topology = topology;
    config.switches.push(SwitchConfig { node: SWITCH, datapath_id: 1, windows: false });
    // That of the first host, which nobody is to watch, is known too.
    for link in [LINK, LinkId(1)] {
        config.ports.push(PortConfig { link, port: None, interface: "eth0".into() });
    }
    config
}

/// Says what the test wants, and notes what it observes.
#[derive(Clone, Default)]
pub struct Scripted(pub Arc<Mutex<(Vec<Observation>, Directives)>>);

impl Policy for Scripted {
    fn observe(&mut self, _: Time, _: &Network, observation: &Observation) {
        self.0.lock().unwrap().0.push(observation.clone());
    }

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.0.lock().unwrap().1);
    }

    fn watch(&self) -> Option<Watch> {
        let statistics = Some(Span::from_secs(1));
        Some(Watch { congestion: Some(THRESHOLDS), statistics, ..Watch::default() })
    }
}

/// A kernel that refuses caps of windows and spacing, if asked to.
struct Refusing<'a>(&'a mut Kernel, bool);

impl Actuator for Refusing<'_> {
    fn execute(&mut self, now: Time, operation: &Operation) -> Result<(), Failure> {
        if self.1 && matches!(operation, Operation::Cap { .. } | Operation::Space { .. }) {
            return Err("no room".into());
        }
        self.0.execute(now, operation)
    }

    fn sample(&mut self, processes: &[Process]) -> Result<Vec<ConnectionReport>, Failure> {
        self.0.sample(processes)
    }
}

pub fn machine() -> Agent {
    let (node, interface) = ("s0".into(), "eth0".into());
    Agent::new(vec![agent::Port { node, interface, classes: 3, watchable: true }], true)
}

/// A controller and one agent that acts for the switch and the hosts.
pub struct Rig {
    pub controller: Controller,
    pub policy: Scripted,
    pub now: Time,
    pub channel: ChannelId,
    pub agent: Agent,
    pub kernel: Kernel,
    pub refuses: bool,
}

impl Rig {
    pub fn new() -> Self {
        let policy = Scripted::default();
        let config = config("scripted", Box::new(policy.clone()));
        let controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let kernel = Kernel::new(1, Capacity { limits: 10, connections: 10, ended: 0 });
        let (now, channel, agent) = (Time::ZERO, ChannelId(0), machine());
        Self { controller, policy, now, channel, agent, kernel, refuses: false }
    }

    /// The controller takes something in and decides; the commands, which the agent carries out.
    pub fn told(&mut self, input: Input<'_>) -> Vec<Command> {
        self.controller.observe(self.now, input).unwrap();
        let mut out = Vec::new();
        self.controller.decide(&mut out);
        self.obey(&out)
    }

    /// An application starts a job with one flow of 1 MB.
    pub fn declares_a_flow(&mut self) {
        let job = || String::from("sort");
        let request = Declaration::FlowRequest {
            job: job(),
            flow: "1".into(),
            connection: connection(1),
            processes: Processes::default(),
            bytes: Some(Bytes::new(1_000_000)),
        };
        for declaration in [Declaration::JobStart { job: job() }, request] {
            self.told(Input::Declared { application: "app", declaration: &declaration });
        }
    }

    /// The agent carries out what the controller says, and answers; the commands.
    pub fn obey(&mut self, out: &[Output]) -> Vec<Command> {
        let mut all = Vec::new();
        for output in out {
            let Output::Agent(to, commands) = output else { panic!("{output:?}") };
            assert_eq!(*to, self.channel);
            let (mut reports, mut kernel) = (Vec::new(), Refusing(&mut self.kernel, self.refuses));
            self.agent.obey(self.now, commands, &mut kernel, &mut reports).unwrap();
            all.extend_from_slice(&commands.commands);
            for report in reports {
                assert_eq!(self.told(Input::Reported(*to, &report)), []);
            }
        }
        all
    }

    /// An agent begins; what it is told.
    pub fn connect(&mut self) -> Vec<Command> {
        self.channel = ChannelId(self.channel.0 + 1);
        let input = Input::AgentConnected { channel: self.channel, identity: "left" };
        assert_eq!(self.told(input), []);
        let host = |(name, last): (&str, u8)| Host {
            name: name.into(),
            addresses: vec![[10, 0, 0, last].into()],
        };
        let hello = self.agent.hello([("s0", 9), ("h1", 1), ("h2", 2)].map(host).to_vec());
        self.told(Input::Reported(self.channel, &hello))
    }

    /// As [`Rig::with_a_flow`], and another whose port nobody knows.
    pub fn with_two_flows() -> Self {
        let mut rig = Self::with_a_flow();
        let declaration = Declaration::FlowRequest {
            job: "sort".into(),
            flow: "2".into(),
            connection: connection(0),
            processes: Processes::default(),
            bytes: None,
        };
        rig.told(Input::Declared { application: "app", declaration: &declaration });
        rig
    }

    /// The same, and an application's flow.
    pub fn with_a_flow() -> Self {
        let mut rig = Self::new();
        rig.connect();
        let (job, connection) = (|| String::from("sort"), connection(1));
        for declaration in [
            Declaration::JobStart { job: job() },
            Declaration::FlowRequest {
                job: job(),
                flow: "1".into(),
                connection,
                processes: Processes::default(),
                bytes: None,
            },
        ] {
            let declared = Input::Declared { application: "app", declaration: &declaration };
            assert_eq!(rig.told(declared), []);
        }
        let observed = rig.policy.0.lock().unwrap().0.clone();
        let request = Declared::FlowRequest {
            job: JobId(0),
            flow: FLOW,
            src: FROM,
            dst: TO,
            size: Bytes::MAX,
        };
        assert_eq!(
            observed,
            [
                Declared::JobStart { job: JobId(0), application: "app".into() }.into(),
                request.into()
            ]
        );
        rig
    }

    /// The policy decides so; the commands that follow.
    pub fn decided(&mut self, directives: impl Into<Directives>) -> Vec<Command> {
        self.policy.0.lock().unwrap().1 = directives.into();
        self.told(Input::Tick)
    }

    /// Another policy takes the place of the one before; the commands that follow.
    pub fn replace(&mut self) -> Vec<Command> {
        self.policy = Scripted::default();
        let policy: Box<dyn Policy + Send> = Box::new(self.policy.clone());
        let policy = Some(("scripted".into(), policy));
        self.controller.reconfigure(self.now, Change { policy, ..Change::default() });
        let mut out = Vec::new();
        self.controller.decide(&mut out);
        self.obey(&out)
    }

    pub fn cap(&self, port: u16) -> Option<Cap> {
        self.kernel.cap(self.now, PORT, Severity::Recovered, &connection(port))
    }
}

/// What the status says of the agent.
pub fn problems(rig: &Rig) -> Vec<String> {
    let problems = rig.controller.at(rig.now).status().problems;
    problems.into_iter().filter(|said| said.starts_with("agent")).collect()
}

pub fn window(flow: Option<FlowId>, cap: Option<Cap>) -> Directive {
    Directive::Window { link: LINK, flow, cap }
}

pub fn windowed(connection: Option<Connection>, cap: Option<Cap>) -> Command {
    Command::Window { node: "s0".into(), interface: "eth0".into(), connection, cap }
}

pub fn paced(port: u16, rate: Option<Rate>) -> Command {
    Command::Pace { connection: connection(port), rate_bps: rate }
}

/// An agent has sampled connections of which each has so much to send.
pub fn waiting(rig: &mut Rig, unsent: &[(u16, u64)]) -> Vec<Command> {
    let report = |&(port, unsent): &(u16, u64)| ConnectionReport {
        connection: connection(port),
        delivered_bytes: Bytes::ZERO,
        unsent_bytes: Bytes::new(unsent),
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: Vec::new(),
    };
    let connections = unsent.iter().map(report).collect();
    let report = Report::Connections { sampled_ns: rig.now, connections };
    rig.told(Input::Reported(rig.channel, &report))
}

pub fn watched() -> [Command; 2] {
    let (node, interface) = ("s0".into(), "eth0".into());
    let watch = Some(PortWatch { thresholds: Some(THRESHOLDS) });
    let sample = Command::Sample { every_ns: Span::from_secs(1) };
    [sample, Command::Watch { node, interface, watch }]
}

pub fn space(gap: Option<Span>) -> Directive {
    Directive::Space { link: LINK, gap }
}

pub fn spaced(gap_ns: Option<Span>) -> Command {
    Command::Space { node: "s0".into(), interface: "eth0".into(), gap_ns }
}

pub fn by(rig: &Rig) -> String {
    rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap().by
}
