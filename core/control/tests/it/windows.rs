//! What the controller makes of each directive, by hand: the commands to an agent, what then stands in
//! its kernel, and what is shown where a command fails. What it tells the policy of a congested port.

use std::sync::{Arc, Mutex};

use agent::{Actuator, Agent, Capacity, Failure, Happening, Kernel, Operation, PortNumber};
use model::{
    Buffer, Cap, Caps, Declared, Directive, Directives, FlowId, JobId, LinkId, LinkSpec, MOST_RATE,
    Measured, Network, NodeId, NodeKind, Observation, PortWatch, Request, Severity, TaskId,
    Thresholds, Topology,
};
use policy::{DirectiveKind, Policy, Watch};
use protocol::agent::{
    Command, Commands, ConnectionReport, EndedConnection, Host, PortCount, Report,
};
use protocol::application::{Declaration, Portion};
use protocol::operator::{Act, Order};
use protocol::{Connection, Process, Processes};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::record::{self, Configuration, Content, Record, Records};
use watermaster_control::{
    Answers, Change, ChannelId, Config, Configure, Controller, HostConfig, Input, Limits, Output,
    PortConfig, SwitchConfig, replay,
};

/// The switch, two hosts, and the watched port that leads to the second.
const SWITCH: NodeId = NodeId(0);
const FROM: NodeId = NodeId(1);
const TO: NodeId = NodeId(2);
const LINK: LinkId = LinkId(2);
const PORT: PortNumber = PortNumber(0);
const FLOW: FlowId = FlowId(0);
const THRESHOLDS: Thresholds =
    Thresholds { low: 30, medium: 60, high: 85, recovery: Span::from_secs(1) };
const NARROW: Cap = Cap { bytes: Bytes::new(3_000), floor_segments: 2 };
const WIDE: Cap = Cap { bytes: Bytes::new(9_000), floor_segments: 2 };

fn connection(port: u16) -> Connection {
    let (source, destination) = (([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into());
    Connection { source, destination }
}

fn config(name: &str, policy: Box<dyn Policy + Send>) -> Config {
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
struct Scripted(Arc<Mutex<(Vec<Observation>, Directives)>>);

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

fn machine() -> Agent {
    let (node, interface) = ("s0".into(), "eth0".into());
    Agent::new(vec![agent::Port { node, interface, classes: 3, watchable: true }], true)
}

/// A controller and one agent that acts for the switch and the hosts.
struct Rig {
    controller: Controller,
    policy: Scripted,
    now: Time,
    channel: ChannelId,
    agent: Agent,
    kernel: Kernel,
    refuses: bool,
}

impl Rig {
    fn new() -> Self {
        let policy = Scripted::default();
        let config = config("scripted", Box::new(policy.clone()));
        let controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let kernel = Kernel::new(1, Capacity { limits: 10, connections: 10, ended: 0 });
        let (now, channel, agent) = (Time::ZERO, ChannelId(0), machine());
        Self { controller, policy, now, channel, agent, kernel, refuses: false }
    }

    /// The controller takes something in and decides; the commands, which the agent carries out.
    fn told(&mut self, input: Input<'_>) -> Vec<Command> {
        self.controller.observe(self.now, input).unwrap();
        let mut out = Vec::new();
        self.controller.decide(&mut out);
        self.obey(&out)
    }

    /// An application starts a job with one flow of 1 MB.
    fn declares_a_flow(&mut self) {
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
    fn obey(&mut self, out: &[Output]) -> Vec<Command> {
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
    fn connect(&mut self) -> Vec<Command> {
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
    fn with_two_flows() -> Self {
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
    fn with_a_flow() -> Self {
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
    fn decided(&mut self, directives: impl Into<Directives>) -> Vec<Command> {
        self.policy.0.lock().unwrap().1 = directives.into();
        self.told(Input::Tick)
    }

    /// Another policy takes the place of the one before; the commands that follow.
    fn replace(&mut self) -> Vec<Command> {
        self.policy = Scripted::default();
        let policy: Box<dyn Policy + Send> = Box::new(self.policy.clone());
        let policy = Some(("scripted".into(), policy));
        self.controller.reconfigure(self.now, Change { policy, ..Change::default() });
        let mut out = Vec::new();
        self.controller.decide(&mut out);
        self.obey(&out)
    }

    fn cap(&self, port: u16) -> Option<Cap> {
        self.kernel.cap(self.now, PORT, Severity::Recovered, &connection(port))
    }
}

/// What the status says of the agent.
fn problems(rig: &Rig) -> Vec<String> {
    let problems = rig.controller.at(rig.now).status().problems;
    problems.into_iter().filter(|said| said.starts_with("agent")).collect()
}

fn window(flow: Option<FlowId>, cap: Option<Cap>) -> Directive {
    Directive::Window { link: LINK, flow, cap }
}

fn windowed(connection: Option<Connection>, cap: Option<Cap>) -> Command {
    Command::Window { node: "s0".into(), interface: "eth0".into(), connection, cap }
}

fn paced(port: u16, rate: Option<Rate>) -> Command {
    Command::Pace { connection: connection(port), rate_bps: rate }
}

/// An agent has sampled connections of which each has so much to send.
fn waiting(rig: &mut Rig, unsent: &[(u16, u64)]) -> Vec<Command> {
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

/// The round trips of a flow's connections that its sender's kernel has; none before its first
/// acknowledgement, and none while acknowledgements wait for their turn.
#[test]
fn what_agents_sample_of_round_trips_is_told() {
    let mut rig = Rig::with_a_flow();
    let told = |rig: &mut Rig, us: u64| {
        rig.policy.0.lock().unwrap().0.clear();
        let report = ConnectionReport {
            connection: connection(1),
            delivered_bytes: Bytes::ZERO,
            unsent_bytes: Bytes::ZERO,
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::from_micros(us),
            processes: Vec::new(),
        };
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![report] };
        rig.told(Input::Reported(rig.channel, &report));
        let heard = rig.policy.0.lock().unwrap().0.clone();
        let timed = heard.into_iter().filter_map(|observation| match observation {
            Observation::Measured(Measured::RoundTrips(flows)) => Some(flows),
            _ => None,
        });
        timed.collect::<Vec<_>>()
    };
    let timed = |us| [[(FLOW, Span::from_micros(us))]];
    assert_eq!(told(&mut rig, 0), Vec::<Vec<_>>::new());
    assert_eq!(told(&mut rig, 140), timed(140));
    rig.decided([space(Some(Span::from_micros(120)))]);
    assert_eq!(told(&mut rig, 260), Vec::<Vec<_>>::new());
    rig.decided([space(None)]);
    assert_eq!(told(&mut rig, 150), timed(150));
}

fn watched() -> [Command; 2] {
    let (node, interface) = ("s0".into(), "eth0".into());
    let watch = Some(PortWatch { thresholds: Some(THRESHOLDS) });
    let sample = Command::Sample { every_ns: Span::from_secs(1) };
    [sample, Command::Watch { node, interface, watch }]
}

/// What is to apply at each severity goes to the agent once, and is renewed with all else; who can't change between
/// caps by itself is told nothing, and it is shown.
#[test]
fn prepared_caps_are_told_once_and_stand_until_the_lease_ends() {
    let mut rig = Rig::with_a_flow();
    let caps = Caps { medium: Some(WIDE), high: Some(NARROW), ..Caps::default() };
    let prepare = |flow| Directive::Prepare { link: LINK, flow, caps };
    let prepared = |connection| Command::Prepare {
        node: "s0".into(),
        interface: "eth0".into(),
        connection,
        caps,
    };
    assert_eq!(rig.decided([prepare(None)]), [prepared(None)]);
    let stand = |rig: &Rig| {
        let at = |severity| rig.kernel.cap(rig.now, PORT, severity, &connection(1));
        Severity::ALL.map(at)
    };
    assert_eq!(stand(&rig), [None, None, Some(WIDE), Some(NARROW)]);
    // The port has told, and nothing is left to say.
    let (node, interface) = ("s0".into(), "eth0".into());
    let (severity, queue_bytes) = (Severity::High, Bytes::new(127_500));
    let report = Report::Congested { node, interface, severity, queue_bytes };
    assert_eq!(rig.told(Input::Reported(rig.channel, &report)), []);
    assert_eq!(rig.decided([prepare(None)]), [], "the same");
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    let said = format!("{why:?}");
    assert!(said.contains("at medium, ") && said.contains("at high)"), "{said}");
    // A cap for all severities takes its place, and the other way round; renewals go by the lease.
    assert_eq!(rig.decided([window(None, Some(WIDE))]), [windowed(None, Some(WIDE))]);
    assert_eq!(stand(&rig), [Some(WIDE); 4]);
    assert_eq!(rig.decided([prepare(Some(FLOW))]), [prepared(Some(connection(1)))]);
    rig.now += Span::from_secs(4);
    rig.decided([]);
    rig.now += Span::from_secs(8);
    assert_eq!(stand(&rig), [None, None, Some(WIDE), Some(NARROW)]);
    rig.now += Span::from_secs(3);
    assert_eq!(stand(&rig), [None; 4], "nobody has renewed them");
}

fn space(gap: Option<Span>) -> Directive {
    Directive::Space { link: LINK, gap }
}

fn spaced(gap_ns: Option<Span>) -> Command {
    Command::Space { node: "s0".into(), interface: "eth0".into(), gap_ns }
}

/// Spacing goes to the agent where the link begins, is renewed with all else, and is not in force while decisions are
/// frozen; who can't is told nothing, and it is shown.
#[test]
fn spacing_is_told_once_and_stands_until_the_lease_ends() {
    let mut rig = Rig::with_a_flow();
    let gap = Some(Span::from_micros(120));
    assert_eq!(rig.decided([space(gap)]), [spaced(gap)]);
    assert_eq!(rig.decided([space(gap)]), [], "the same");
    assert_eq!(rig.kernel.gap(rig.now, PORT), gap);
    let explained = |rig: &Rig| {
        let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
        format!("{why:?}")
    };
    let said = explained(&rig);
    assert!(said.contains("acknowledgements 120 us apart at s0"), "{said}");
    let freeze = |order| Act { at_s: 1, by: "me".into(), order };
    let (freezes, thaws) = (freeze(Order::Freeze { reason: None }), freeze(Order::Thaw {}));
    assert_eq!(rig.told(Input::Ordered { act: &freezes, again: false }), [spaced(None)]);
    assert_eq!(rig.told(Input::Ordered { act: &thaws, again: false }), [spaced(gap)]);
    // One that comes anew is told with all else.
    rig.told(Input::AgentGone(rig.channel));
    rig.connect();
    assert_eq!(rig.kernel.gap(rig.now, PORT), gap);
    rig.now += Span::from_secs(4);
    rig.decided([]);
    rig.now += Span::from_secs(8);
    assert_eq!(rig.kernel.gap(rig.now, PORT), gap);
    rig.now += Span::from_secs(3);
    assert_eq!(rig.kernel.gap(rig.now, PORT), None, "nobody has renewed it");
    let mut rig = Rig::with_a_flow();
    rig.refuses = true;
    rig.decided([space(gap)]);
    let said = explained(&rig);
    assert!(said.contains("no room"), "{said}");
    let problems = rig.controller.at(rig.now).status().problems;
    assert!(format!("{problems:?}").contains("the spacing of acknowledgements at s0 eth0"));
    rig.refuses = false;
    rig.decided([space(None)]);
    assert!(!explained(&rig).contains("no room"));
}

#[test]
fn each_directive_becomes_its_command_and_stands() {
    let mut rig = Rig::with_a_flow();
    let priority = |priority| Command::Prioritize { connection: connection(1), priority };
    let limit = Some(Rate::from_mbps(5));
    let pace = |limit| Directive::Pace { flow: FLOW, limit };
    assert_eq!(rig.decided([pace(limit)]), [paced(1, limit)]);
    let directive = Directive::Prioritize { flow: FLOW, priority: 2 };
    assert_eq!(rig.decided([directive]), [priority(2)]);
    let both = [window(None, Some(WIDE)), window(Some(FLOW), Some(NARROW))];
    let commands = [windowed(None, Some(WIDE)), windowed(Some(connection(1)), Some(NARROW))];
    assert_eq!(rig.decided(both), commands);
    assert_eq!(rig.kernel.limit(rig.now, &connection(1)), limit);
    assert_eq!(rig.kernel.class(rig.now, PORT, &connection(1)), Some(2));
    assert_eq!((rig.cap(1), rig.cap(2)), (Some(NARROW), Some(WIDE)));
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    assert_eq!((why.flow.intended_bps, why.flow.enforced_bps), (limit, limit));
    // What ends: the cap of all ends those of single flows, which are told first.
    let ends = [pace(None), Directive::Prioritize { flow: FLOW, priority: 0 }, window(None, None)];
    let commands = [windowed(Some(connection(1)), None), windowed(None, None)];
    assert_eq!(rig.decided(ends), [&commands[..], &[paced(1, None), priority(0)]].concat());
    assert_eq!(rig.kernel.limits(rig.now).count() + rig.kernel.classes(rig.now, PORT).count(), 0);
    assert_eq!((rig.cap(1), rig.cap(2)), (None, None));
    let counters = rig.controller.counters();
    assert_eq!((counters.directives, counters.directives_unenforced), (7, 0));
}

/// Without an agent, at a switch that caps none: what is lifted is nothing that somebody must do.
#[test]
fn what_has_nobody_to_obey_is_counted() {
    let mut rig = Rig::new();
    let unenforced = |rig: &mut Rig, directive: Directive| {
        let before = rig.controller.counters().directives_unenforced;
        rig.policy.0.lock().unwrap().1 = [directive].into();
        rig.controller.observe(rig.now, Input::Tick).unwrap();
        rig.controller.decide(&mut Vec::new());
        rig.controller.counters().directives_unenforced - before
    };
    rig.declares_a_flow();
    let pace = |limit| Directive::Pace { flow: FLOW, limit };
    for _ in 0..2 {
        for (directive, count) in [
            (window(None, Some(WIDE)), 1),
            (window(Some(FLOW), Some(NARROW)), 1),
            (window(Some(FLOW), None), 0),
            (window(None, None), 0),
            (space(Some(Span::from_secs(1))), 1),
            (space(None), 0),
            (pace(Some(Rate::from_mbps(5))), 1),
            (pace(None), 0),
            (Directive::Prioritize { flow: FLOW, priority: 2 }, 1),
            (Directive::Prioritize { flow: FLOW, priority: 0 }, 0),
        ] {
            assert_eq!(unenforced(&mut rig, directive.clone()), count, "{directive:?}");
        }
        // An agent that was there is gone.
        rig.connect();
        for directive in [window(None, Some(WIDE)), pace(Some(Rate::from_mbps(5)))] {
            assert_eq!(unenforced(&mut rig, directive.clone()), 0, "{directive:?}");
        }
        rig.told(Input::AgentGone(rig.channel));
    }
}

/// The end of a rate fails, so that the rate still stands, and nothing is wanted of the connection any more. Then
/// its agent goes, and the next one is told to hold nothing.
#[test]
fn a_rate_whose_end_failed_is_not_shown_for_the_agent_that_comes_after() {
    let mut rig = Rig::with_a_flow();
    let limit = Some(Rate::from_mbps(5));
    rig.decided([Directive::Pace { flow: FLOW, limit }]);
    rig.policy.0.lock().unwrap().1 = [Directive::Pace { flow: FLOW, limit: None }].into();
    rig.controller.observe(rig.now, Input::Tick).unwrap();
    let mut out = Vec::new();
    rig.controller.decide(&mut out);
    let [Output::Agent(_, Commands { epoch, sequence, .. })] = out[..] else { panic!("{out:?}") };
    let (command, reason) = (paced(1, None), String::from("no"));
    for report in
        [Report::Failed { epoch, sequence, command, reason }, Report::Applied { epoch, sequence }]
    {
        rig.controller.observe(rig.now, Input::Reported(rig.channel, &report)).unwrap();
    }
    let enforced = |rig: &Rig| rig.controller.at(rig.now).flows(1)[0].enforced_bps;
    assert_eq!(enforced(&rig), limit, "as before");
    rig.told(Input::AgentGone(rig.channel));
    assert_eq!(enforced(&rig), limit, "until its lease ends");
    rig.connect();
    assert_eq!(rig.kernel.limit(rig.now, &connection(1)), None);
    assert_eq!((enforced(&rig), &*by(&rig)), (None, "nobody: there is nothing to enforce"));
}

/// Two flows on one connection, which gets the sum of their rates and none while one has no limit.
#[test]
fn a_flow_beside_one_without_a_limit_on_its_connection_is_held_by_nobody() {
    let mut rig = Rig::with_a_flow();
    let request = Declaration::FlowRequest {
        job: "sort".into(),
        flow: "2".into(),
        connection: connection(1),
        processes: Processes::default(),
        bytes: None,
    };
    rig.told(Input::Declared { application: "app", declaration: &request });
    let pace = |flow, mbps| Directive::Pace { flow, limit: Some(Rate::from_mbps(mbps)) };
    assert_eq!(rig.decided([pace(FLOW, 5)]), []);
    assert_eq!(by(&rig), "nobody: another flow of its connection has no limit");
    let other = rig.controller.at(rig.now).explain_flow("app", "sort", "2").unwrap().by;
    assert_eq!(other, "nobody: there is nothing to enforce");
    assert_eq!(rig.decided([pace(FlowId(1), 3)]), [paced(1, Some(Rate::from_mbps(8)))]);
    assert_eq!(by(&rig), "agent left, by pacing its connection, which 2 flows share");
}

/// It would refuse more, and a lower limit of before would stand for good.
#[test]
fn no_agent_is_told_more_than_it_takes() {
    let mut rig = Rig::with_a_flow();
    let pace = |mbps| Directive::Pace { flow: FLOW, limit: Some(Rate::from_mbps(mbps)) };
    rig.decided([pace(10_000)]);
    let most = Some(MOST_RATE);
    assert_eq!(rig.decided([pace(100_000)]), [paced(1, most)]);
    assert_eq!(rig.kernel.limit(rig.now, &connection(1)), most);
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    assert_eq!(why.flow.intended_bps, Some(Rate::from_mbps(100_000)));
    assert_eq!((why.flow.enforced_bps, why.flow.failed), (most, None));
    assert!(why.why.contains("100 Gbit/s"), "{}", why.why);
    // An agent that comes back is told the same.
    rig.told(Input::AgentGone(rig.channel));
    assert!(rig.connect().contains(&paced(1, most)));
    // So is what a pair of hosts gives.
    rig.decided([Directive::Pace { flow: FLOW, limit: None }]);
    waiting(&mut rig, &[(1, 1)]);
    let pair = Directive::PacePair { src: FROM, dst: TO, rate: Rate::from_mbps(40_000) };
    assert_eq!(rig.decided([pair]), [paced(1, most)]);
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    assert_eq!(
        (why.flow.intended_bps, why.flow.enforced_bps),
        (Some(Rate::from_mbps(40_000)), most)
    );
    assert!(why.why.contains("40 Gbit/s"), "{}", why.why);
}

/// Of a switch that only agents act for, or nobody, no connection is expected.
#[test]
fn a_switch_is_missed_only_where_it_is_expected_by_openflow() {
    for is_expected in [true, false] {
        let mut config = config("scripted", Box::new(Scripted::default()));
        if !is_expected {
            config.switches.clear();
        }
        let controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let status = controller.at(Time::ZERO).status();
        assert_eq!(status.switches[0].is_missing(), is_expected);
        let missed = [String::from("switch s0 is not connected")];
        assert_eq!(status.problems, if is_expected { &missed[..] } else { &[] });
    }
}

/// Jobs, tasks, sizes and flows, and which of these are open.
#[test]
fn another_policy_is_told_all_that_was_said() {
    let mut rig = Rig::with_a_flow();
    let job = || String::from("sort");
    let reduces = vec![Portion { task: 3, bytes: Bytes::new(9) }];
    for declaration in [
        Declaration::TaskHost { job: job(), task: 3, host: "h2".into() },
        Declaration::Size { job: job(), map: 7, reduces },
    ] {
        rig.told(Input::Declared { application: "app", declaration: &declaration });
    }
    // One that nobody declared is open too.
    for port in [1, 2] {
        let opened = Report::Opened { connection: connection(port) };
        rig.told(Input::Reported(rig.channel, &opened));
    }
    rig.replace();
    let (job, task, map) = (JobId(0), TaskId(3), TaskId(7));
    let opened = |flow| Measured::Opened { flow: FlowId(flow), src: FROM, dst: TO }.into();
    let expected: [Observation; 6] = [
        Declared::JobStart { job, application: "app".into() }.into(),
        Declared::TaskHost { job, task, host: TO }.into(),
        Declared::Size { job, map, reduces: vec![(task, Bytes::new(9))] }.into(),
        Declared::FlowRequest { job, flow: FLOW, src: FROM, dst: TO, size: Bytes::MAX }.into(),
        opened(0),
        opened(1),
    ];
    assert_eq!(rig.policy.0.lock().unwrap().0, expected);
}

/// The policy of the objective that a job goes to hasn't heard of its tasks. Where it asks for something else,
/// nothing is new to anybody.
#[test]
fn of_a_job_that_asks_for_another_objective_the_tasks_are_told_again() {
    let mut rig = Rig::with_a_flow();
    let job = || String::from("sort");
    let reduces = vec![Portion { task: 3, bytes: Bytes::new(9) }];
    let asks = |objective: Option<&str>, weight| Declaration::JobTerms {
        job: job(),
        objective: objective.map(Into::into),
        deadline_ms: None,
        weight: Some(weight),
    };
    let mut tell = |declaration: Declaration| {
        rig.policy.0.lock().unwrap().0.clear();
        rig.told(Input::Declared { application: "app", declaration: &declaration });
        rig.policy.0.lock().unwrap().0.clone()
    };
    tell(Declaration::TaskHost { job: job(), task: 3, host: "h2".into() });
    tell(Declaration::Size { job: job(), map: 7, reduces });
    let (id, task, map) = (JobId(0), TaskId(3), TaskId(7));
    let tasks: [Observation; 2] = [
        Declared::TaskHost { job: id, task, host: TO }.into(),
        Declared::Size { job: id, map, reduces: vec![(task, Bytes::new(9))] }.into(),
    ];
    for (objective, weight, moves) in
        [(Some("web"), 2, true), (Some("web"), 3, false), (None, 3, true), (None, 3, false)]
    {
        let mut told = tell(asks(objective, weight));
        told.retain(|said| !matches!(said, Observation::Declared(Declared::JobTerms { .. })));
        assert_eq!(told, if moves { &tasks[..] } else { &[] }, "{objective:?}, {weight}");
    }
}

/// Numbers are given again, so they say nothing about age.
#[test]
fn another_policy_hears_of_the_older_job_first() {
    let mut rig = Rig::with_a_flow();
    let mut tell = |declaration| {
        rig.told(Input::Declared { application: "app", declaration: &declaration });
    };
    let flow = |job: &str| Declaration::FlowRequest {
        job: job.into(),
        flow: "1".into(),
        connection: connection(if job == "second" { 2 } else { 3 }),
        processes: Processes::default(),
        bytes: None,
    };
    let start = |job: &str| Declaration::JobStart { job: job.into() };
    tell(start("second"));
    tell(flow("second"));
    tell(Declaration::JobComplete { job: "sort".into() });
    tell(start("third"));
    tell(flow("third"));
    rig.replace();
    let heard = rig.policy.0.lock().unwrap().0.clone();
    let jobs = heard.iter().filter_map(|observation| match observation {
        Observation::Declared(Declared::FlowRequest { job, flow, .. }) => Some((*job, *flow)),
        _ => None,
    });
    // The third has the numbers of the first.
    assert_eq!(jobs.collect::<Vec<_>>(), [(JobId(1), FlowId(1)), (JobId(0), FlowId(0))]);
}

#[test]
fn another_policy_lifts_all_that_the_one_before_wanted() {
    let mut rig = Rig::with_a_flow();
    // Nobody has declared the second connection: the rate of its hosts is all that holds it.
    let both = [(1, 10), (2, 10)];
    waiting(&mut rig, &both);
    rig.decided([
        Directive::Pace { flow: FLOW, limit: Some(Rate::from_mbps(5)) },
        Directive::Prioritize { flow: FLOW, priority: 2 },
        Directive::PacePair { src: FROM, dst: TO, rate: Rate::from_mbps(6) },
        window(None, Some(WIDE)),
        window(Some(FLOW), Some(NARROW)),
    ]);
    assert_eq!(rig.kernel.limits(rig.now).count(), 2);
    assert_eq!(rig.replace(), watched());
    assert_eq!(rig.kernel.limits(rig.now).count() + rig.kernel.classes(rig.now, PORT).count(), 0);
    assert_eq!((rig.cap(1), rig.cap(2)), (None, None));
    // With the next sample the new one hears what its hosts offer; nothing of before is divided.
    assert_eq!(waiting(&mut rig, &both), []);
    let offered = Measured::Offered { src: FROM, dst: TO, rate: Rate::from_mbps(100) };
    assert!(rig.policy.0.lock().unwrap().0.contains(&offered.into()));
}

/// A flow that is declared completes, another's last packet is seen.
#[test]
fn flows_that_are_forgotten_are_closed() {
    let mut rig = Rig::with_a_flow();
    for port in [1, 2] {
        let opened = Report::Opened { connection: connection(port) };
        rig.told(Input::Reported(rig.channel, &opened));
    }
    rig.policy.0.lock().unwrap().0.clear();
    rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(1) }));
    let declaration = Declaration::FlowComplete { job: "sort".into(), flow: "1".into() };
    rig.told(Input::Declared { application: "app", declaration: &declaration });
    rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(2) }));
    let expected: [Observation; 3] = [
        Measured::Closed { flow: FLOW }.into(),
        Declared::FlowComplete { job: JobId(0), flow: FLOW }.into(),
        Measured::Closed { flow: FlowId(1) }.into(),
    ];
    assert_eq!(rig.policy.0.lock().unwrap().0, expected);
}

/// A shuffle keeps its connections: one flow after another, or several at once.
#[test]
fn a_connection_that_carries_one_flow_after_another_stays_open_for_the_policy() {
    let mut rig = Rig::with_a_flow();
    let flow = |flow: &str| Declaration::FlowRequest {
        job: "sort".into(),
        flow: flow.into(),
        connection: connection(1),
        processes: Processes::default(),
        bytes: None,
    };
    let declare = |rig: &mut Rig, declaration| {
        rig.told(Input::Declared { application: "app", declaration: &declaration });
    };
    let complete = |flow: &str| Declaration::FlowComplete { job: "sort".into(), flow: flow.into() };
    opens(&mut rig, 1);
    // Numbers are given again.
    assert_eq!(comings(&rig), [came(0)]);
    // Nothing is declared for a while.
    declare(&mut rig, complete("1"));
    assert_eq!(comings(&rig), [went(0), came(1)]);
    declare(&mut rig, flow("2"));
    assert_eq!(comings(&rig), [went(1), came(0)]);
    assert_eq!(rig.decided([window(Some(FlowId(0)), Some(NARROW))]).len(), 1);
    assert_eq!(rig.cap(1), Some(NARROW));
    // Another before the first ends.
    declare(&mut rig, flow("3"));
    assert_eq!(comings(&rig), []);
    declare(&mut rig, complete("2"));
    assert_eq!(comings(&rig), [went(0), came(1)]);
    assert_eq!(rig.decided([window(Some(FlowId(1)), Some(NARROW))]).len(), 1);
    assert_eq!(rig.cap(1), Some(NARROW));
    rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(1) }));
    assert_eq!(comings(&rig), [went(1)]);
    declare(&mut rig, complete("3"));
    assert_eq!(comings(&rig), []);
}

/// Two connections of a pair send, a third only receives: the two have half of the pair's rate each,
/// and a flow no more than its own.
#[test]
fn the_rate_of_a_pair_is_divided_among_those_that_send() {
    let mut rig = Rig::with_a_flow();
    assert_eq!(waiting(&mut rig, &[(1, 10), (2, 10), (3, 0)]), []);
    let offered = Measured::Offered { src: FROM, dst: TO, rate: Rate::from_mbps(100) };
    assert!(rig.policy.0.lock().unwrap().0.contains(&offered.into()));
    let pair = |mbps| Directive::PacePair { src: FROM, dst: TO, rate: Rate::from_mbps(mbps) };
    let rate = |mbps| Some(Rate::from_mbps(mbps));
    assert_eq!(rig.decided([pair(6)]), [paced(1, rate(3)), paced(2, rate(3))]);
    // Its share is what is wanted of a flow, where the policy wants nothing of the flow itself.
    let answers = rig.controller.at(rig.now);
    let flows = answers.flows(9);
    let wanted: Vec<_> = flows.iter().map(|flow| flow.intended_bps).collect();
    assert_eq!(wanted, vec![rate(3); flows.len()]);
    let links = answers.status().links;
    let most = links.iter().map(|link| link.limited_bps).max();
    assert_eq!(most, Some(Rate::from_mbps(3 * flows.len() as u64)));
    let pace = Directive::Pace { flow: FLOW, limit: rate(5) };
    assert_eq!(rig.decided([pace, pair(20)]), [paced(1, rate(5)), paced(2, rate(10))]);
    // Not even a small share stops a connection, nor a limit that no agent would hold.
    let least = model::LEAST_RATE;
    let slow = Directive::Pace { flow: FLOW, limit: Some(Rate::from_bps(1)) };
    assert_eq!(rig.decided([slow]), [paced(1, Some(least))]);
    let free = Directive::Pace { flow: FLOW, limit: None };
    assert_eq!(rig.decided([free]), [paced(1, rate(10))]);
    let pair = Directive::PacePair { src: FROM, dst: TO, rate: Rate::from_bps(1_000) };
    assert_eq!(rig.decided([pair]), [paced(1, Some(least)), paced(2, Some(least))]);
}

/// What one policy of a front end says of a request.
fn gathered() -> Directive {
    let id = JobId(0);
    let (sizes, holders) = (vec![100], vec![TO]);
    let request = Request { id, front: FROM, sizes, holders, copies: 1, spare: Vec::new() };
    let rig = Rig::new();
    let network = Network::new(config("", Box::new(rig.policy)).topology);
    let mut policy = policy::by_name("one-all", &policy::Parameters::default()).unwrap();
    let declared = Declared::Gather(Arc::new(request));
    policy.observe(Time::ZERO, &network, &declared.into());
    let mut out = Directives::new();
    policy.decide(Time::ZERO, &network, &mut out);
    out.swap_remove(0)
}

/// What a policy's descriptor says of a kind of directive, the controller does and its page tells.
#[test]
fn what_has_an_actuator_is_enforced_and_nothing_else() {
    let page = include_str!("../../../../docs/control.md");
    let nobody = page.lines().find(|line| line.contains("counted in `directives_unenforced`"));
    for kind in policy::POLICIES.iter().flat_map(|policy| policy.directives) {
        let rate = Rate::from_mbps(5);
        let directive = match kind {
            DirectiveKind::Pace => Directive::Pace { flow: FLOW, limit: Some(rate) },
            DirectiveKind::Prioritize => Directive::Prioritize { flow: FLOW, priority: 2 },
            DirectiveKind::Window => window(Some(FLOW), Some(NARROW)),
            DirectiveKind::Prepare => {
                let caps = Caps { high: Some(NARROW), ..Caps::default() };
                Directive::Prepare { link: LINK, flow: Some(FLOW), caps }
            }
            DirectiveKind::Space => Directive::Space { link: LINK, gap: Some(Span::from_secs(1)) },
            DirectiveKind::Grant => {
                Directive::Grant { src: FROM, dst: TO, slot: Time::ZERO, via: None }
            }
            DirectiveKind::PacePair => Directive::PacePair { src: FROM, dst: TO, rate },
            DirectiveKind::Gather => gathered(),
        };
        assert_eq!(DirectiveKind::from(&directive), *kind);
        let mut rig = Rig::with_a_flow();
        waiting(&mut rig, &[(1, 10)]);
        let is_told = !rig.decided([directive]).is_empty();
        let unenforced = rig.controller.counters().directives_unenforced;
        let is_live = kind.live_actuator().is_some();
        assert_eq!((is_told, unenforced), (is_live, u64::from(!is_live)), "{kind:?}");
        let is_nobodys = nobody.unwrap().contains(&format!("`{kind:?}`"));
        assert_eq!(is_nobodys, !is_live, "docs/control.md: {kind:?}");
    }
}

#[test]
fn windows_end_with_their_flow() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    let declaration = Declaration::FlowComplete { job: "sort".into(), flow: "1".into() };
    let input = Input::Declared { application: "app", declaration: &declaration };
    assert_eq!(rig.told(input), [windowed(Some(connection(1)), None)]);
    assert_eq!(rig.cap(1), None);
}

/// Those that come while decisions are frozen as well, by an agent that comes then; and of a host that is drained.
#[test]
fn windows_and_classes_are_not_in_force_while_decisions_are_frozen_or_their_host_is_drained() {
    let order = |order| Act { at_s: 1, by: "me".into(), order };
    let host = || String::from("h1");
    let begins = [Order::Freeze { reason: None }, Order::Drain { host: host(), reason: None }];
    let ends = [Order::Thaw {}, Order::Undrain { host: host() }];
    for (begin, end) in begins.into_iter().zip(ends) {
        let mut rig = Rig::with_a_flow();
        let is_frozen = matches!(begin, Order::Freeze { .. });
        let all = || [window(None, Some(WIDE)), window(Some(FLOW), Some(NARROW))];
        rig.decided(all());
        rig.decided([Directive::Prioritize { flow: FLOW, priority: 2 }]);
        rig.told(Input::Ordered { act: &order(begin), again: false });
        let class = |rig: &Rig| rig.kernel.class(rig.now, PORT, &connection(1));
        assert_eq!((rig.cap(1).is_none(), class(&rig)), (is_frozen, None));
        assert_ne!(rig.cap(1), Some(NARROW));
        rig.decided(all());
        rig.told(Input::AgentGone(rig.channel));
        rig.connect();
        assert_eq!((rig.cap(1).is_none(), class(&rig)), (is_frozen, None));
        assert_ne!(rig.cap(1), Some(NARROW));
        rig.told(Input::Ordered { act: &order(end), again: false });
        // Of a host that was drained the policy decides anew.
        rig.decided(all());
        assert_eq!((rig.cap(1), rig.cap(2)), (Some(NARROW), Some(WIDE)));
        assert_eq!(class(&rig), is_frozen.then_some(2));
    }
}

/// Neither of a stream nor of a flow whose size is declared.
#[test]
fn what_is_measured_of_flows_of_a_drained_host_is_not_told() {
    for has_size in [false, true] {
        let mut rig = if has_size { Rig::new() } else { Rig::with_a_flow() };
        if has_size {
            rig.connect();
            rig.declares_a_flow();
        }
        let order = Order::Drain { host: "h1".into(), reason: None };
        let act = Act { at_s: 1, by: "me".into(), order };
        rig.told(Input::Ordered { act: &act, again: false });
        rig.policy.0.lock().unwrap().0.clear();
        waiting(&mut rig, &[(1, 10)]);
        assert_eq!(rig.policy.0.lock().unwrap().0, [], "with a size: {has_size}");
    }
}

/// A policy that wants nothing takes the place of one whose window failed, or fails only then.
#[test]
fn failures_end_with_what_was_wanted() {
    for is_late in [false, true] {
        let mut rig = Rig::with_a_flow();
        rig.refuses = true;
        rig.policy.0.lock().unwrap().1 = [window(Some(FLOW), Some(NARROW))].into();
        let (mut wanted, mut nothing) = (Vec::new(), Vec::new());
        rig.controller.observe(rig.now, Input::Tick).unwrap();
        rig.controller.decide(&mut wanted);
        if !is_late {
            rig.obey(&wanted);
            assert_eq!(problems(&rig).len(), 1);
        }
        let policy: Box<dyn Policy + Send> = Box::new(Scripted::default());
        let policy = Some(("scripted".into(), policy));
        rig.controller.reconfigure(rig.now, Change { policy, ..Change::default() });
        rig.controller.decide(&mut nothing);
        if is_late {
            rig.obey(&wanted);
        }
        rig.obey(&nothing);
        assert_eq!(problems(&rig), [""; 0], "late: {is_late}");
    }
}

/// A flow whose declared size was false ends for the policy and enters again: a rate of the one that
/// ended is nothing that the policy wants of the other.
#[test]
fn a_flow_that_enters_again_is_held_to_nothing() {
    let mut rig = Rig::with_a_flow();
    let (job, connection) = ("sort".into(), connection(2));
    let bytes = Some(Bytes::new(1_000_000));
    let declaration = Declaration::FlowRequest {
        job,
        flow: "2".into(),
        connection,
        processes: Processes::default(),
        bytes,
    };
    rig.told(Input::Declared { application: "app", declaration: &declaration });
    let (flow, limit) = (FlowId(1), Some(Rate::from_mbps(5)));
    assert_eq!(rig.decided([Directive::Pace { flow, limit }]), [paced(2, limit)]);
    rig.told(Input::Reported(rig.channel, &Report::Opened { connection }));
    let connections = vec![ConnectionReport {
        connection,
        delivered_bytes: Bytes::new(10_000_000),
        unsent_bytes: Bytes::ZERO,
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: Vec::new(),
    }];
    let report = Report::Connections { sampled_ns: rig.now, connections };
    let commands = rig.told(Input::Reported(rig.channel, &report));
    let ended = Declared::FlowComplete { job: JobId(0), flow };
    assert!(rig.policy.0.lock().unwrap().0.contains(&ended.into()));
    assert_eq!(commands, [paced(2, None)]);
}

/// A policy's statistics may be rare: what the controller looks at itself isn't.
#[test]
fn samples_are_as_frequent_as_policy_and_controller_need() {
    for (sample, every) in [(400, 400), (1000, 1000), (3000, 1000)] {
        let mut rig = Rig::new();
        let mut config = config("scripted", Box::new(rig.policy.clone()));
        config.sample = Span::from_millis(sample);
        rig.controller = Controller::new(config, 1, Time::ZERO).unwrap();
        assert_eq!(rig.connect()[0], Command::Sample { every_ns: Span::from_millis(every) });
    }
}

#[test]
fn a_cap_that_stands_is_not_told_again() {
    let mut rig = Rig::with_a_flow();
    for told in [vec![windowed(None, Some(WIDE))], vec![]] {
        assert_eq!(rig.decided([window(None, Some(WIDE))]), told);
    }
    for told in [vec![windowed(Some(connection(1)), Some(NARROW))], vec![]] {
        assert_eq!(rig.decided([window(Some(FLOW), Some(NARROW))]), told);
    }
}

#[test]
fn the_policy_is_told_of_a_congested_port() {
    let mut rig = Rig::new();
    assert_eq!(rig.connect(), watched());
    for (severity, bytes) in [(Severity::High, 60_000), (Severity::Recovered, 0)] {
        let queue = Bytes::new(bytes);
        let mut reports = Vec::new();
        rig.agent.hear(PORT, &Happening::Congested { severity, queue }, &mut reports);
        rig.told(Input::Reported(rig.channel, &reports[0]));
        let told = rig.policy.0.lock().unwrap().0.pop();
        assert_eq!(told, Some(Measured::Congested { link: LINK, severity, queue }.into()));
    }
}

/// Who watched a port is gone: nobody would tell that it has recovered. An agent that goes on tells how it stands.
#[test]
fn what_nobody_watches_is_not_congested() {
    let mut rig = Rig::new();
    rig.connect();
    let (severity, queue) = (Severity::High, Bytes::new(60_000));
    let high = Observation::from(Measured::Congested { link: LINK, severity, queue });
    let recovered =
        Measured::Congested { link: LINK, severity: Severity::Recovered, queue: Bytes::ZERO };
    let heard = |rig: &Rig| core::mem::take(&mut rig.policy.0.lock().unwrap().0);
    let congested = |rig: &Rig| {
        let status = rig.controller.at(rig.now).status();
        let link = status.links.into_iter().find_map(|link| link.congested).unwrap();
        (link.severity, link.queue_bytes, link.notices)
    };
    let mut reports = Vec::new();
    rig.agent.hear(PORT, &Happening::Congested { severity, queue }, &mut reports);
    rig.told(Input::Reported(rig.channel, &reports[0]));
    assert_eq!(heard(&rig), vec![high.clone()]);
    rig.told(Input::AgentGone(rig.channel));
    assert_eq!(heard(&rig), [recovered.clone().into()]);
    assert_eq!(congested(&rig), (Severity::Recovered, Bytes::ZERO, 1));
    rig.connect();
    let mut reports = Vec::new();
    rig.agent.tick(rig.now, &mut rig.kernel, &mut reports).unwrap();
    for report in reports {
        rig.told(Input::Reported(rig.channel, &report));
    }
    assert!(heard(&rig).contains(&high), "it is told again");
    // Another connection takes its place.
    let hello = rig.agent.hello(vec![Host { name: "s0".into(), addresses: vec![] }]);
    let channel = ChannelId(rig.channel.0 + 1);
    for input in
        [Input::AgentConnected { channel, identity: "left" }, Input::Reported(channel, &hello)]
    {
        rig.controller.observe(rig.now, input).unwrap();
    }
    assert_eq!(heard(&rig), [recovered.into()]);
}

/// Anybody can open connections, each of which is told: that keeps nobody from hearing of a full queue, or its end.
#[test]
fn openings_silence_no_notice_of_congestion() {
    let mut rig = Rig::new();
    rig.connect();
    let refused = (0..2_000).filter(|port| {
        let report = Report::Opened { connection: connection(1 + port) };
        rig.controller.observe(rig.now, Input::Reported(rig.channel, &report)).is_err()
    });
    assert!(refused.count() > 500, "more than limits.reports_per_second");
    for severity in [Severity::High, Severity::Recovered] {
        let queue = Bytes::new(60_000);
        let mut reports = Vec::new();
        rig.agent.hear(PORT, &Happening::Congested { severity, queue }, &mut reports);
        rig.controller.observe(rig.now, Input::Reported(rig.channel, &reports[0])).unwrap();
    }
}

/// Asks for counters of ports.
struct Counting(Scripted);

impl Policy for Counting {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        self.0.observe(now, network, observation);
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        self.0.decide(now, network, out);
    }

    fn ports(&self) -> Option<Span> {
        Some(Span::from_millis(300))
    }
}

fn counts(ports: &[(&str, &str)]) -> Report {
    let count = |(node, interface): &(&str, &str)| PortCount {
        node: (*node).into(),
        interface: (*interface).into(),
        sent_bytes: Bytes::new(70_000),
    };
    Report::Ports { ports: ports.iter().map(count).collect() }
}

#[test]
fn the_policy_is_told_what_ports_have_sent_if_it_asks() {
    let mut rig = Rig::new();
    let policy = Box::new(Counting(rig.policy.clone()));
    rig.controller = Controller::new(config("counting", policy), 1, Time::ZERO).unwrap();
    let every_ns = Span::from_millis(300);
    assert!(rig.connect().contains(&Command::Count { every_ns }));
    // One that is no port of the network is left out.
    let report = counts(&[("s0", "wan0"), ("s0", "eth0")]);
    rig.told(Input::Reported(rig.channel, &report));
    let told = || rig.policy.0.lock().unwrap().0.pop();
    assert_eq!(told(), Some(Measured::Ports(vec![(LINK, Bytes::new(70_000))]).into()));
    // Nor does one that is no node of the agent's silence the others; it is counted, and told.
    for (times, stranger) in [(1, "s1"), (2, "s9"), (3, "")] {
        let report = counts(&[(stranger, "eth0"), ("s0", "eth0"), (stranger, "eth1")]);
        let refused = rig.controller.observe(rig.now, Input::Reported(rig.channel, &report));
        assert_eq!(refused.unwrap_err().field, "ports.node");
        assert_eq!(told(), Some(Measured::Ports(vec![(LINK, Bytes::new(70_000))]).into()));
        assert_eq!(rig.controller.counters().reports_refused, times);
        let problems = rig.controller.at(rig.now).status().problems;
        let said = format!(
            "refused: ports.node: {stranger} is no node that the agent acts for; declare it"
        );
        assert!(problems.iter().any(|problem| problem.ends_with(&said)), "{problems:?}");
    }
    let many = counts(&vec![("s0", "eth0"); Limits::default().flows + 1]);
    let refused = rig.controller.observe(rig.now, Input::Reported(rig.channel, &many));
    assert_eq!(refused.unwrap_err().field, "ports");
    assert_eq!(rig.policy.0.lock().unwrap().0, []);
}

#[test]
fn a_policy_that_does_not_ask_is_told_no_counters() {
    let mut rig = Rig::new();
    assert_eq!(rig.connect(), watched());
    rig.policy.0.lock().unwrap().0.clear();
    rig.told(Input::Reported(rig.channel, &counts(&[("s0", "eth0")])));
    assert_eq!(rig.policy.0.lock().unwrap().0, []);
}

/// An agent of a host apart, which is known from then on.
fn connect_another(rig: &mut Rig) -> ChannelId {
    let channel = ChannelId(99);
    let hosts = vec![Host { name: "h9".into(), addresses: vec![] }];
    let hello = Report::Hello { hosts, capabilities: vec![], epoch: 0 };
    for input in
        [Input::AgentConnected { channel, identity: "right" }, Input::Reported(channel, &hello)]
    {
        rig.controller.observe(rig.now, input).unwrap();
    }
    rig.policy.0.lock().unwrap().0.clear();
    channel
}

#[test]
fn another_agent_says_nothing_of_a_port() {
    let mut rig = Rig::new();
    rig.connect();
    let channel = connect_another(&mut rig);
    let (node, interface, queue_bytes) = ("s0".into(), "eth0".into(), Bytes::new(60_000));
    let report = Report::Congested { node, interface, severity: Severity::High, queue_bytes };
    let refused = rig.controller.observe(rig.now, Input::Reported(channel, &report));
    assert_eq!(refused.unwrap_err().field, "interface");
    assert_eq!(rig.policy.0.lock().unwrap().0, []);
}

/// Of a node that is known, too, only the agent that acts for it tells what its ports have sent: another is refused,
/// and nothing of others is told.
#[test]
fn another_agent_says_nothing_of_what_a_port_has_sent() {
    let mut rig = Rig::new();
    let policy = Box::new(Counting(rig.policy.clone()));
    rig.controller = Controller::new(config("counting", policy), 1, Time::ZERO).unwrap();
    rig.connect();
    let (own, another) = (rig.channel, connect_another(&mut rig));
    let ports = [("s0", "eth0"), ("h9", "eth0")];
    for (channel, ports) in [(another, &ports[..1]), (another, &ports[1..]), (own, &ports[1..])] {
        let report = counts(ports);
        let refused = rig.controller.observe(rig.now, Input::Reported(channel, &report));
        assert_eq!(refused.is_err(), (channel == own) == (ports[0].0 == "h9"), "{ports:?}");
    }
    rig.controller.decide(&mut Vec::new());
    assert_eq!(rig.policy.0.lock().unwrap().0, []);
    let refused = rig.controller.observe(rig.now, Input::Reported(own, &counts(&ports)));
    assert_eq!(refused.unwrap_err().field, "ports.node");
    let told = &rig.policy.0.lock().unwrap().0;
    assert_eq!(*told, [Measured::Ports(vec![(LINK, Bytes::new(70_000))]).into()]);
}

/// Its process ends, and its windows with it; another one is told them.
#[test]
fn an_agent_that_reconnects_is_told_its_windows() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(None, Some(WIDE)), window(Some(FLOW), Some(NARROW))]);
    rig.told(Input::AgentGone(rig.channel));
    rig.kernel.abandon();
    rig.agent = machine().after(rig.kernel.leases().clone(), rig.kernel.granted());
    assert_eq!(rig.cap(1), None);
    let windows = [windowed(None, Some(WIDE)), windowed(Some(connection(1)), Some(NARROW))];
    assert_eq!(rig.connect(), [watched(), windows].concat());
    assert_eq!((rig.cap(1), rig.cap(2)), (Some(NARROW), Some(WIDE)));
    // And that they end.
    rig.decided([window(None, None)]);
    assert_eq!((rig.cap(1), rig.cap(2)), (None, None));
}

#[test]
fn an_agent_that_reconnects_is_told_its_classes() {
    let mut rig = Rig::with_a_flow();
    rig.decided([Directive::Prioritize { flow: FLOW, priority: 2 }]);
    rig.told(Input::AgentGone(rig.channel));
    rig.kernel.abandon();
    rig.agent = machine().after(rig.kernel.leases().clone(), rig.kernel.granted());
    assert_eq!(rig.kernel.class(rig.now, PORT, &connection(1)), None);
    rig.connect();
    assert_eq!(rig.kernel.class(rig.now, PORT, &connection(1)), Some(2));
}

/// Who declares what is open already, by its ports or without, has what stood for it until then: one flow, which
/// the policy is told of as open.
#[test]
fn what_is_declared_after_it_was_seen_is_one_flow() {
    let agent_saw = |rig: &mut Rig| {
        let opened = Report::Opened { connection: connection(7) };
        rig.told(Input::Reported(rig.channel, &opened));
        let seen = Measured::Opened { flow: FlowId(1), src: FROM, dst: TO };
        assert_eq!(rig.policy.0.lock().unwrap().0.pop(), Some(seen.into()));
        assert_eq!(rig.decided([window(Some(FlowId(1)), Some(NARROW))]).len(), 1);
        assert_eq!(rig.cap(7), Some(NARROW));
        rig.policy.0.lock().unwrap().0.clear();
    };
    for declared in [connection(7), connection(0)] {
        let mut rig = Rig::with_a_flow();
        agent_saw(&mut rig);
        let (job, flow) = (String::from("sort"), String::from("2"));
        let processes = Processes::default();
        let request =
            Declaration::FlowRequest { job, flow, connection: declared, processes, bytes: None };
        rig.told(Input::Declared { application: "app", declaration: &request });
        if declared.source.port() == 0 {
            let connections = vec![ConnectionReport {
                connection: connection(7),
                delivered_bytes: Bytes::ZERO,
                unsent_bytes: Bytes::new(1),
                in_flight_bytes: Bytes::ZERO,
                rtt_ns: Span::ZERO,
                processes: vec![],
            }];
            let sample = Report::Connections { sampled_ns: rig.now, connections };
            rig.told(Input::Reported(rig.channel, &sample));
        }
        let observed = rig.policy.0.lock().unwrap().0.clone();
        let opened = observed.iter().filter_map(|observation| match observation {
            Observation::Measured(Measured::Opened { flow, .. }) => Some(*flow),
            _ => None,
        });
        assert_eq!(opened.collect::<Vec<_>>(), [FlowId(2)], "{observed:?}");
        assert!(observed.contains(&Measured::Closed { flow: FlowId(1) }.into()), "{observed:?}");
        assert_eq!(rig.cap(7), None);
        rig.decided([window(Some(FlowId(2)), Some(NARROW))]);
        assert_eq!(rig.cap(7), Some(NARROW));
        assert_eq!(rig.controller.at(rig.now).status().applications[0].flows, 2);
        // Its end is the flow's.
        rig.policy.0.lock().unwrap().0.clear();
        rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(7) }));
        let closed = Measured::Closed { flow: FlowId(2) };
        assert!(rig.policy.0.lock().unwrap().0.contains(&closed.into()));
    }
}

/// A flow whose port nobody knew has its window as soon as its connection is seen.
#[test]
fn a_connection_that_joins_has_its_flows_window() {
    let mut rig = Rig::with_two_flows();
    assert_eq!(rig.decided([window(Some(FlowId(1)), Some(NARROW))]), []);
    let connections = vec![ConnectionReport {
        connection: connection(7),
        delivered_bytes: Bytes::ZERO,
        unsent_bytes: Bytes::new(1_000),
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: Vec::new(),
    }];
    let report = Report::Connections { sampled_ns: rig.now, connections };
    let commands = [windowed(Some(connection(7)), Some(NARROW))];
    assert_eq!(rig.told(Input::Reported(rig.channel, &report)), commands);
    assert_eq!((rig.cap(7), rig.cap(1)), (Some(NARROW), None));
}

/// Of a connection that is told of when it has ended no window is capped, nor anything lifted.
#[test]
fn a_connection_that_has_ended_has_no_window() {
    let mut rig = Rig::with_two_flows();
    rig.decided([window(Some(FlowId(1)), Some(NARROW))]);
    waiting(&mut rig, &[(8, 1_000)]);
    assert_eq!(rig.cap(8), Some(NARROW));
    let mut ended = |port| {
        let sent_bytes = Bytes::new(9);
        let one = EndedConnection { connection: connection(port), sent_bytes, processes: vec![] };
        let (sampled_ns, connections) = (rig.now, vec![one]);
        let report = Report::Ended { sampled_ns, connections, lost: 0 };
        rig.told(Input::Reported(rig.channel, &report))
    };
    assert_eq!(ended(7), [], "nobody has seen it open");
    assert_eq!(ended(8), [windowed(Some(connection(8)), None)], "its entry goes");
}

#[test]
fn a_flow_of_two_connections_closes_with_the_last() {
    let mut rig = Rig::with_two_flows();
    for port in [7, 8] {
        let opened = Report::Opened { connection: connection(port) };
        rig.told(Input::Reported(rig.channel, &opened));
    }
    for (port, ends) in [(7, false), (8, true)] {
        let closed = Report::Closed { connection: connection(port) };
        rig.told(Input::Reported(rig.channel, &closed));
        let closed = Measured::Closed { flow: FlowId(1) }.into();
        assert_eq!(rig.policy.0.lock().unwrap().0.contains(&closed), ends, "{port}");
    }
}

#[test]
fn a_window_that_fails_is_shown_as_that_until_it_stands() {
    let mut rig = Rig::with_a_flow();
    let problem = "agent left: a window at s0 eth0 is not enforced: no room";
    let shown = problems;
    let limit = Some(Rate::from_mbps(5));
    rig.refuses = true;
    rig.decided([Directive::Pace { flow: FLOW, limit }, window(Some(FLOW), Some(NARROW))]);
    assert_eq!((shown(&rig), rig.cap(1)), (vec![problem.to_owned()], None));
    // The rate stands, and the window of all is not that of the connection.
    let why = rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap();
    assert_eq!((why.flow.enforced_bps, why.flow.failed.as_deref()), (limit, Some("no room")));
    rig.refuses = false;
    rig.decided([window(None, Some(WIDE))]);
    assert_eq!((shown(&rig), rig.cap(1)), (vec![problem.to_owned()], Some(WIDE)));
    rig.decided([window(Some(FLOW), Some(Cap { bytes: Bytes::new(4_000), ..NARROW }))]);
    assert_eq!(shown(&rig), [""; 0]);
}

/// A policy doesn't say again what it has said.
#[test]
fn a_window_that_failed_is_tried_again_with_each_renewal() {
    let mut rig = Rig::with_a_flow();
    rig.refuses = true;
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    for (refuses, cap) in [(true, None), (false, Some(NARROW))] {
        rig.refuses = refuses;
        // A third of a lease, when it is renewed.
        rig.now += Span::from_secs(4);
        rig.told(Input::Tick);
        assert_eq!((rig.cap(1), problems(&rig).is_empty()), (cap, cap.is_some()));
    }
    rig.now += Span::from_secs(4);
    assert_eq!(rig.told(Input::Tick), [], "what stands is not told again");
}

fn by(rig: &Rig) -> String {
    rig.controller.at(rig.now).explain_flow("app", "sort", "1").unwrap().by
}

const NARROWED: &str = "a window of 3 kB at s0";
const UNSEEN: &str = "if agent left has seen both SYNs";

#[test]
fn windows_and_classes_count_while_they_are_confirmed_and_leased() {
    let mut rig = Rig::with_a_flow();
    let class = Directive::Prioritize { flow: FLOW, priority: 2 };
    rig.policy.0.lock().unwrap().1 = [window(Some(FLOW), Some(NARROW)), class].into();
    rig.controller.observe(rig.now, Input::Tick).unwrap();
    let mut out = Vec::new();
    rig.controller.decide(&mut out);
    let waits = format!(
        "nobody ({NARROWED}: agent left has not confirmed it); nobody yet: agent left has not \
         confirmed its class"
    );
    assert_eq!(by(&rig), waits, "the commands are under way");
    rig.obey(&out);
    assert_eq!(by(&rig), format!("{NARROWED} {UNSEEN}; agent left, by its class"));
    // Nothing reaches the agent any more.
    rig.now += Span::from_secs(11);
    rig.controller.observe(rig.now, Input::Tick).unwrap();
    rig.controller.decide(&mut Vec::new());
    assert_eq!(rig.cap(1), None);
    let over = "agent left has confirmed nothing for 11 s: its leases may be over";
    assert_eq!(by(&rig), format!("nobody ({NARROWED}: {over}); nobody: {over}"));
}

#[test]
fn what_fails_says_nothing_of_what_stands() {
    let mut rig = Rig::with_a_flow();
    rig.refuses = true;
    let limit = Some(Rate::from_mbps(5));
    rig.decided([Directive::Pace { flow: FLOW, limit }, window(Some(FLOW), Some(NARROW))]);
    assert_eq!(by(&rig), format!("nobody ({NARROWED}: no room); agent left, by pacing"));
    // The cap of all fails, which is not that of the flow.
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    rig.refuses = true;
    rig.decided([window(None, Some(WIDE))]);
    assert_eq!((rig.cap(1), by(&rig)), (Some(NARROW), format!("{NARROWED} {UNSEEN}")));
}

/// Two windows fail and one failure is kept: the other window is not shown to stand.
#[test]
fn a_window_whose_failure_is_not_kept_is_not_confirmed() {
    let mut rig = Rig::with_a_flow();
    let limits = Some(Limits { flows: 1, ..Limits::default() });
    rig.controller.reconfigure(rig.now, Change { limits, ..Change::default() });
    rig.refuses = true;
    rig.decided([window(None, Some(WIDE)), window(Some(FLOW), Some(NARROW))]);
    assert_eq!(rig.cap(1), None);
    assert_eq!(by(&rig), format!("nobody ({NARROWED}: agent left has not confirmed it)"));
}

/// An agent leaves the windows of a connection alone whose SYNs it missed.
#[test]
fn a_window_counts_without_condition_where_the_agent_was_there_when_its_connection_opened() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    assert_eq!(by(&rig), format!("{NARROWED} {UNSEEN}"));
    let connection = connection(1);
    rig.told(Input::Reported(rig.channel, &Report::Opened { connection }));
    assert_eq!(by(&rig), NARROWED);
    // Another process knows nothing of what the one before has seen.
    rig.told(Input::AgentGone(rig.channel));
    rig.now += Span::from_secs(1);
    rig.connect();
    assert_eq!(by(&rig), format!("{NARROWED} {UNSEEN}"));
}

#[test]
fn a_cap_of_which_only_the_floor_changes_is_told() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    let lower = Some(Cap { floor_segments: 1, ..NARROW });
    let commands = rig.decided([window(Some(FLOW), lower)]);
    assert_eq!((commands, rig.cap(1)), (vec![windowed(Some(connection(1)), lower)], lower));
}

/// The agent can't change or end what it has capped: that stands, and is told as standing.
#[test]
fn a_window_whose_change_or_end_fails_is_told_as_it_stands() {
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(WIDE))]);
    let by = |rig: &Rig| {
        rig.controller.at(rig.now).explain_flow("app", "sort", "1").expect("it is declared")
    };
    let stands = "; a window of 9 kB at s0 of before still stands and is renewed with the lease, its end is tried \
                  again: agent left failed: no room";
    rig.refuses = true;
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    assert_eq!(rig.cap(1), Some(WIDE));
    assert_eq!(by(&rig).by, format!("nobody ({NARROWED}: no room){stands}"));
    let act = Act { at_s: 1, by: "operator me".into(), order: Order::Freeze { reason: None } };
    rig.told(Input::Ordered { act: &act, again: false });
    assert_eq!(by(&rig).by, format!("nobody: decisions are frozen by operator me{stands}"));
    let frozen = &rig.controller.at(rig.now).status().problems[0];
    assert!(frozen.contains("1 of before still stand"), "{frozen}");
    let [told] = &problems(&rig)[..] else { panic!("{:?}", problems(&rig)) };
    assert!(told.contains("a window at s0 eth0 still stands (9 kB)"), "{told}");
    // Nor where all is told anew.
    rig.replace();
    assert_eq!(rig.cap(1), Some(WIDE));
    assert_eq!(by(&rig).by, format!("nobody: decisions are frozen by operator me{stands}"));
    rig.refuses = false;
    for _ in 0..2 {
        rig.now += Span::from_secs(4);
        rig.told(Input::Tick);
    }
    assert_eq!(rig.cap(1), None);
    assert_eq!(by(&rig).by, "nobody: decisions are frozen by operator me");
    assert_eq!(problems(&rig), [""; 0]);
}

#[test]
fn a_switch_that_is_not_connected_caps_nothing() {
    let policy = Scripted::default();
    let mut config = config("scripted", Box::new(policy.clone()));
    config.switches[0].windows = true;
    let mut controller = Controller::new(config, 1, Time::ZERO).unwrap();
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
        let input = Input::Declared { application: "app", declaration: &declaration };
        controller.observe(Time::ZERO, input).unwrap();
    }
    policy.0.lock().unwrap().1 = [window(Some(FLOW), Some(NARROW))].into();
    controller.decide(&mut Vec::new());
    let why = controller.at(Time::ZERO).explain_flow("app", "sort", "1").unwrap();
    assert_eq!(why.by, format!("nobody ({NARROWED}: it is not connected)"));
}

/// Makes a configuration of the name of a policy.
struct Named;

impl Configure for Named {
    fn start(&mut self, recorded: &Configuration) -> Result<Config, String> {
        let name = &recorded.settings;
        Ok(config(name, policy::by_name(name, &policy::Parameters::default()).unwrap()))
    }

    fn change(&mut self, recorded: &Configuration) -> Result<Change, String> {
        let policy = self.start(recorded)?.policy;
        Ok(Change { policy: Some((recorded.settings.clone(), policy)), ..Change::default() })
    }
}

/// Another policy ends the windows of the one before it, at once; so it does in a replay.
#[test]
fn a_change_of_policy_is_decided_at_once_and_so_it_is_replayed() {
    let configuration = |policy: &str| Configuration {
        program: "0".into(),
        file: "c.toml".into(),
        settings: policy.into(),
    };
    let (now, channel) = (Time::ZERO, ChannelId(1));
    let mut controller =
        Controller::new(Named.start(&configuration("sab")).unwrap(), 1, now).unwrap();
    let (mut bytes, mut recorded) = (Vec::new(), Vec::new());
    record::write_started(now, 1, &configuration("sab"), &mut bytes).unwrap();
    let hosts = ["s0", "h1", "h2"].map(|name| Host { name: name.into(), addresses: vec![] });
    let hello = machine().hello(hosts.to_vec());
    let opened = Report::Opened { connection: connection(1) };
    for input in [
        Input::AgentConnected { channel, identity: "left" },
        Input::Reported(channel, &hello),
        Input::Reported(channel, &opened),
        Input::Tick,
    ] {
        record::write_input(now, &input, &mut bytes).unwrap();
        controller.observe(now, input).unwrap();
        if input == Input::Tick {
            controller.decide(&mut recorded);
        }
    }
    let told = |outputs: &[Output]| match outputs {
        [Output::Agent(_, Commands { complete: true, commands, .. })] => {
            commands.iter().filter(|command| matches!(command, Command::Window { .. })).count()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&recorded), 1);
    record::write_changed(now, &configuration("tcp"), &mut bytes).unwrap();
    controller.reconfigure(now, Named.change(&configuration("tcp")).unwrap());
    controller.decide(&mut recorded);
    assert_eq!(told(&recorded[1..]), 0);
    // Outputs by the record that they follow.
    let mut replayed = Vec::new();
    let tell = |record: &Record, out: &[Output], _: &Answers<'_>| {
        let changed = matches!(record.content, Content::Changed(_));
        replayed.extend(out.iter().map(|output| (changed, output.clone())));
    };
    let mut records = Records::default();
    records.push(&bytes);
    replay(records, &mut Named, tell).unwrap();
    assert_eq!(replayed, [false, true].into_iter().zip(recorded).collect::<Vec<_>>());
}

/// An agent that comes back tells of what goes on, when that sends again; of what ended meanwhile it says nothing.
#[test]
fn what_an_agent_told_is_forgotten_a_grace_after_it_has_gone() {
    let mut rig = Rig::with_a_flow();
    let opened = |port| Report::Opened { connection: connection(port) };
    let flows = |rig: &Rig| rig.controller.at(rig.now).flows(9).len();
    for port in [1, 7, 8] {
        rig.told(Input::Reported(rig.channel, &opened(port)));
    }
    assert_eq!(flows(&rig), 3);
    rig.told(Input::AgentGone(rig.channel));
    rig.now += Span::from_secs(5);
    rig.connect();
    rig.policy.0.lock().unwrap().0.clear();
    rig.told(Input::Reported(rig.channel, &opened(8)));
    let due = rig.controller.deadline().unwrap();
    assert!(due <= rig.now + Span::from_secs(6), "{due:?}");
    rig.now += Span::from_secs(4);
    rig.told(Input::Tick);
    assert_eq!(flows(&rig), 3, "not before the grace has passed");
    rig.now += Span::from_secs(2);
    rig.told(Input::Tick);
    let observed = rig.policy.0.lock().unwrap().0.clone();
    // The one that it told of again never stopped, and one that is declared has its application.
    assert_eq!(observed, [Measured::Closed { flow: FlowId(1) }.into()]);
    assert_eq!(flows(&rig), 2);
}

/// Somebody began to watch while it went on: what it had delivered is not of a flow that was declared since.
#[test]
fn what_a_connection_delivered_before_its_flow_is_not_the_flows() {
    let mut rig = Rig::new();
    rig.connect();
    let sample = |rig: &mut Rig, delivered| {
        rig.now += Span::from_secs(1);
        let report = ConnectionReport {
            connection: connection(1),
            delivered_bytes: Bytes::new(delivered),
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: vec![],
        };
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![report] };
        rig.told(Input::Reported(rig.channel, &report));
    };
    sample(&mut rig, 5_000_000);
    rig.declares_a_flow();
    rig.told(Input::Reported(rig.channel, &Report::Opened { connection: connection(1) }));
    for delivered in [5_100_000, 5_300_000] {
        sample(&mut rig, delivered);
    }
    let flow = rig.controller.at(rig.now).flows(1).remove(0);
    assert_eq!((flow.delivered_bytes, flow.contradicted), (Bytes::new(200_000), None));
}

/// A kernel with connections.
struct Sampled<'a>(&'a mut Kernel, &'a [ConnectionReport]);

impl Actuator for Sampled<'_> {
    fn execute(&mut self, now: Time, operation: &Operation) -> Result<(), Failure> {
        self.0.execute(now, operation)
    }

    fn sample(&mut self, _: &[Process]) -> Result<Vec<ConnectionReport>, Failure> {
        Ok(self.1.to_vec())
    }
}

/// Each controller is new to a connection that is kept alive, and its application says again what it carries now.
#[test]
fn what_an_agent_samples_first_says_what_goes_on_when_its_ports_tell_of_it() {
    let mut rig = Rig::new();
    rig.now += Span::from_secs(10);
    let mut delivered = 1_000_000_000;
    let mut attend = |rig: &mut Rig, opens: bool| {
        delivered += 100_000;
        let open = ConnectionReport {
            connection: connection(1),
            delivered_bytes: Bytes::new(delivered),
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: vec![],
        };
        let mut reports = Vec::new();
        rig.agent.tick(rig.now, &mut Sampled(&mut rig.kernel, &[open]), &mut reports).unwrap();
        if opens {
            rig.agent.hear(PORT, &Happening::Opened(connection(1)), &mut reports);
            assert!(matches!(reports.last(), Some(Report::Opened { .. })), "it is not watched");
        }
        for report in reports {
            rig.told(Input::Reported(rig.channel, &report));
        }
    };
    for epoch in [1, 2] {
        let policy = policy::by_name("sdtcp", &policy::Parameters::default()).unwrap();
        rig.controller = Controller::new(config("sdtcp", policy), epoch, rig.now).unwrap();
        rig.declares_a_flow();
        rig.connect();
        attend(&mut rig, true);
        for _ in 0..3 {
            rig.now += Span::from_secs(1);
            attend(&mut rig, false);
        }
        let flow = rig.controller.at(rig.now).flows(1).remove(0);
        let stands = (flow.delivered_bytes, flow.contradicted);
        assert_eq!(stands, (Bytes::new(300_000), None), "epoch {epoch}");
        // Sooner than the next sample would have come.
        rig.agent.disconnected();
        rig.now += Span::from_millis(1);
    }
}

/// An agent tells that a connection opens.
fn opens(rig: &mut Rig, port: u16) {
    rig.told(Input::Reported(rig.channel, &Report::Opened { connection: connection(port) }));
}

/// A second later it has sampled these.
fn samples(rig: &mut Rig, connections: &[Connection]) {
    rig.now += Span::from_secs(1);
    let report = |connection: &Connection| ConnectionReport {
        connection: *connection,
        delivered_bytes: Bytes::new(1),
        unsent_bytes: Bytes::ZERO,
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: vec![],
    };
    let connections = connections.iter().map(report).collect();
    let report = Report::Connections { sampled_ns: rig.now, connections };
    rig.told(Input::Reported(rig.channel, &report));
}

/// What the policy was told of flows that opened and closed since this was asked.
fn comings(rig: &Rig) -> Vec<Observation> {
    let mut observed = core::mem::take(&mut rig.policy.0.lock().unwrap().0);
    observed.retain(|observation| {
        let of_flows =
            |m: &Measured| matches!(m, Measured::Opened { .. } | Measured::Closed { .. });
        matches!(observation, Observation::Measured(measured) if of_flows(measured))
    });
    observed
}

fn came(flow: u32) -> Observation {
    Measured::Opened { flow: FlowId(flow), src: FROM, dst: TO }.into()
}

fn went(flow: u32) -> Observation {
    Measured::Closed { flow: FlowId(flow) }.into()
}

/// A host that loses power sends no FIN.
#[test]
fn a_connection_whose_end_nobody_saw_is_forgotten_a_grace_after_its_last_sample() {
    let mut rig = Rig::new();
    rig.connect();
    for port in 1..=4 {
        opens(&mut rig, port);
    }
    assert_eq!(comings(&rig), [0, 1, 2, 3].map(came));
    let Connection { source, destination } = connection(3);
    // Of the third only the receiver speaks, of the fourth nobody ever does.
    let alive = [connection(2), Connection { source: destination, destination: source }];
    samples(&mut rig, &[connection(1), alive[0], alive[1]]);
    for second in 0..9 {
        samples(&mut rig, &alive);
        assert_eq!(comings(&rig), [], "after {second} s");
    }
    for _ in 0..3 {
        samples(&mut rig, &alive);
    }
    assert_eq!(comings(&rig), [went(0), went(3)]);
    assert_eq!(rig.controller.counters().flows_vanished, 2);
    // The same ports are governed again.
    opens(&mut rig, 1);
    assert_eq!(comings(&rig).len(), 1);
}

/// What is idle sends nothing, and an agent that is new or silent says nothing of what isn't there.
#[test]
fn where_nobody_samples_nothing_is_forgotten() {
    let mut rig = Rig::new();
    rig.connect();
    opens(&mut rig, 1);
    for _ in 0..60 {
        rig.now += Span::from_secs(1);
        rig.told(Input::Tick);
    }
    samples(&mut rig, &[]);
    assert_eq!(comings(&rig), [came(0)]);
}

/// What it doesn't tell of may well be there.
#[test]
fn an_agent_that_samples_no_more_is_not_taken_to_see_all() {
    let mut rig = Rig::new();
    rig.connect();
    opens(&mut rig, 1);
    for _ in 0..15 {
        samples(&mut rig, &[connection(1)]);
    }
    assert_eq!(comings(&rig), [came(0)]);
    // That of a host apart goes on sampling.
    let (channel, identity) = (ChannelId(99), "right");
    let hosts = vec![Host { name: "h9".into(), addresses: vec![] }];
    let hello = Report::Hello { hosts, capabilities: vec![], epoch: 0 };
    rig.controller.observe(rig.now, Input::AgentConnected { channel, identity }).unwrap();
    rig.controller.observe(rig.now, Input::Reported(channel, &hello)).unwrap();
    for _ in 0..30 {
        rig.now += Span::from_secs(1);
        let report = Report::Connections { sampled_ns: rig.now, connections: vec![] };
        rig.controller.observe(rig.now, Input::Reported(channel, &report)).unwrap();
        rig.controller.decide(&mut Vec::new());
    }
    assert_eq!(comings(&rig), []);
    // The other samples again, and the connection is not there.
    rig.controller.observe(rig.now, Input::AgentGone(channel)).unwrap();
    (0..2).for_each(|_| samples(&mut rig, &[]));
    assert_eq!(comings(&rig), [went(0)]);
}

#[test]
fn a_syn_of_ports_that_are_held_open_begins_another_flow() {
    let mut rig = Rig::new();
    rig.connect();
    opens(&mut rig, 1);
    // It is sent again.
    rig.now += Span::from_secs(1);
    opens(&mut rig, 1);
    assert_eq!(comings(&rig), [came(0)]);
    // The controller hears no FIN, and of the next connection a SYN.
    for _ in 0..10 {
        rig.now += Span::from_secs(1);
        rig.told(Input::Tick);
    }
    opens(&mut rig, 1);
    assert_eq!(comings(&rig), [went(0), came(1)]);
    assert_eq!(rig.controller.at(rig.now).flows(9).len(), 1);
    // One that is sampled goes on: an agent has begun to watch.
    for _ in 0..10 {
        samples(&mut rig, &[connection(1)]);
    }
    opens(&mut rig, 1);
    assert_eq!(comings(&rig), []);
}

#[test]
fn a_policy_that_does_not_watch_knows_only_what_is_declared() {
    let mut rig = Rig::with_a_flow();
    for port in [1, 7] {
        opens(&mut rig, port);
    }
    rig.decided([window(Some(FlowId(1)), Some(NARROW))]);
    let policy = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    let policy = Some(("tcp".into(), policy));
    rig.controller.reconfigure(rig.now, Change { policy, ..Change::default() });
    let mut out = Vec::new();
    rig.controller.decide(&mut out);
    rig.obey(&out);
    assert_eq!(rig.cap(7), None);
    let flows = rig.controller.at(rig.now).flows(9);
    let left: Vec<_> =
        flows.iter().map(|flow| (flow.connection, flow.application.as_str())).collect();
    assert_eq!(left, [(connection(1), "app")]);
}

#[test]
fn connections_for_which_there_is_no_room_are_counted() {
    let mut rig = Rig::new();
    rig.connect();
    let limits = Limits { flows: 2, ..Limits::default() };
    rig.controller.reconfigure(rig.now, Change { limits: Some(limits), ..Change::default() });
    let problems = |rig: &Rig| rig.controller.at(rig.now).status().problems;
    let before = problems(&rig);
    for port in 1..=4 {
        opens(&mut rig, port);
    }
    assert_eq!(comings(&rig), [came(0), came(1)]);
    assert_eq!(rig.controller.counters().flows_ignored, 2);
    let full =
        "2 connections that nobody declared are open: more are not governed; raise limits.flows";
    assert!(problems(&rig).contains(&full.into()));
    rig.told(Input::Reported(rig.channel, &Report::Closed { connection: connection(1) }));
    assert_eq!(problems(&rig), before);
}

/// Windows, classes and times between acknowledgements that an agent may still hold whose connection is lost are told
/// as its rates are: until the lease ends, or another agent says what stands.
#[test]
fn what_a_lost_agent_may_hold_beside_rates_is_told_until_its_lease_ends() {
    const MAY: &str = "of the last one may stand until its lease ends";
    let lost = || {
        let mut rig = Rig::with_a_flow();
        rig.decided([
            window(Some(FLOW), Some(NARROW)),
            Directive::Prioritize { flow: FLOW, priority: 2 },
            space(Some(Span::from_micros(120))),
        ]);
        assert!(!by(&rig).contains(MAY), "{}", by(&rig));
        rig.told(Input::AgentGone(rig.channel));
        rig
    };
    let may_stand = |rig: &Rig| {
        let former = rig.controller.at(rig.now).status().former_agents;
        former.iter().map(|agent| agent.may_stand).sum::<usize>()
    };
    let freeze = |rig: &mut Rig| {
        let act = Act { at_s: 1, by: "me".into(), order: Order::Freeze { reason: None } };
        rig.told(Input::Ordered { act: &act, again: false });
        rig.controller.at(rig.now).status().problems.swap_remove(0)
    };
    let mut rig = lost();
    for what in [NARROWED, "class 2", "acknowledgements 120 us apart at s0"] {
        assert!(by(&rig).contains(&format!("{what} {MAY}")), "{what}: {}", by(&rig));
    }
    assert_eq!(may_stand(&rig), 3);
    let problem = freeze(&mut rig);
    assert!(problem.contains("but 3 of before still stand"), "{problem}");
    for what in [NARROWED, "class 2", "acknowledgements 120 us apart at s0"] {
        assert!(by(&rig).contains(&format!("{what} of before, until")), "{what}: {}", by(&rig));
    }
    rig.now += Span::from_secs(11);
    rig.told(Input::Tick);
    assert!(!by(&rig).contains("of before"), "{}", by(&rig));
    assert_eq!(may_stand(&rig), 0);
    // The next agent has confirmed what stands.
    let mut rig = lost();
    rig.connect();
    assert!(!by(&rig).contains(MAY), "{}", by(&rig));
    let problem = freeze(&mut rig);
    assert!(problem.contains("no limit is in force"), "{problem}");
    // One that leaves holds none of it.
    let mut rig = Rig::with_a_flow();
    rig.decided([window(Some(FLOW), Some(NARROW))]);
    let left = Input::Reported(rig.channel, &Report::Left {});
    rig.controller.observe(rig.now, left).unwrap();
    assert_eq!(may_stand(&rig), 0);
    assert!(by(&rig).contains("has left, and holds nothing"), "{}", by(&rig));
}
