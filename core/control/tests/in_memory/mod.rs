//! A controller with model switches, cables between them, and agents that obey, in memory.
#![allow(dead_code, clippy::unwrap_used)] // each test uses a part; a test may panic

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use agent::{Agent, Capacity, Failing, Kernel, Lapse, Operation};
use model::{Buffer, LinkId, LinkSpec, NodeId, NodeKind, Severity, Topology};
use openflow::sdtcp::Notice;
use openflow::switch::{Output as Answers, Switch};
use openflow::{
    Action, Config as SessionConfig, ErrorCode, ErrorMessage, Event, FlowCommand, Instruction,
    List, Message, Port, PortNo, Reply, Session, Side, TableId,
};
use protocol::agent::{Commands, Report};
use protocol::application::Declaration;
use protocol::{Connection, Processes};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::{
    Change, ChannelId, Config, Controller, Enforcement, HostConfig, Input, Output, PortConfig,
    Refusal, SwitchConfig,
};

pub const SECOND: Span = Span::from_secs(1);

pub fn spec(mbps: u64) -> LinkSpec {
    testing::network::link(mbps, 10, Buffer::Packets(100))
}

pub fn address(host: u32) -> IpAddr {
    [10, 0, u8::try_from(host / 200).unwrap(), u8::try_from(host % 200 + 1).unwrap()].into()
}

pub fn ethernet(host: u32) -> [u8; 6] {
    [2, 0, 0, 0, u8::try_from(host / 200).unwrap(), u8::try_from(host % 200 + 1).unwrap()]
}

pub fn connection(from: u32, to: u32, port: u16) -> Connection {
    Connection {
        source: SocketAddr::new(address(from), port),
        destination: SocketAddr::new(address(to), 5000),
    }
}

/// A shape: which switches, which cables between them, which host hangs where. Ports are numbered
/// from 1 as cables come.
pub struct Shape {
    pub switches: u32,
    pub cables: Vec<(u32, u32)>,
    /// The switch of each host.
    pub hosts: Vec<u32>,
    pub mbps: u64,
    /// Of the cables between switches.
    pub cable_mbps: u64,
}

impl Shape {
    /// Two racks of `each` hosts with one cable between them.
    pub fn racks(each: u32) -> Self {
        let hosts = (0..2 * each).map(|host| host / each).collect();
        Self { switches: 2, cables: vec![(0, 1)], hosts, mbps: 100, cable_mbps: 100 }
    }

    /// Two leaves with `each` hosts under two spines.
    pub fn diamond(each: u32) -> Self {
        let hosts = (0..2 * each).map(|host| host / each).collect();
        let cables = vec![(0, 2), (0, 3), (1, 2), (1, 3)];
        Self { switches: 4, cables, hosts, mbps: 100, cable_mbps: 100 }
    }

    /// For each switch, what each of its ports leads to: a switch's port, or a host.
    pub fn wiring(&self) -> BTreeMap<(u32, u32), End> {
        let mut next = vec![1; self.switches as usize];
        let mut take = |switch: u32| {
            let port = next[switch as usize];
            next[switch as usize] += 1;
            port
        };
        let mut wiring = BTreeMap::new();
        for &(a, b) in &self.cables {
            let (p, q) = (take(a), take(b));
            wiring.insert((a, p), End::Switch(b, q));
            wiring.insert((b, q), End::Switch(a, p));
        }
        for (host, &switch) in (0..).zip(&self.hosts) {
            wiring.insert((switch, take(switch)), End::Host(host));
        }
        wiring
    }

    /// A configuration that declares everything; without `ports`, ports are left to be found.
    pub fn config(
        &self,
        name: &str,
        policy: Box<dyn policy::Policy + Send>,
        ports: bool,
    ) -> Config {
        let mut config = Config::new(name, policy);
        let mut topology = Topology::new();
        for switch in 0..self.switches {
            let node = topology.add_node(format!("s{switch}"), NodeKind::Switch).unwrap();
            let datapath_id = u64::from(switch) + 1;
            config.switches.push(SwitchConfig { node, datapath_id, windows: true });
        }
        for host in (0u32..).take(self.hosts.len()) {
            let node = topology.add_node(format!("h{host}"), NodeKind::Host).unwrap();
            let addresses = vec![address(host)];
            config.hosts.push(HostConfig { node, addresses, ethernet: vec![ethernet(host)] });
        }
        let mut link = 0;
        let mut done = Vec::new();
        for ((switch, port), end) in self.wiring() {
            if done.contains(&(switch, port)) {
                continue;
            }
            let (to, back) = match end {
                End::Switch(to, back) => (NodeId(to), Some(back)),
                End::Host(host) => (NodeId(self.switches + host), None),
            };
            let spec = spec(if back.is_some() { self.cable_mbps } else { self.mbps });
            topology.connect(NodeId(switch), to, spec, spec).unwrap();
            if let End::Switch(to, back) = end {
                done.push((to, back));
            }
            let mut name = |link, port: Option<u32>, interface: String| {
                config.ports.push(PortConfig { link: LinkId(link), port, interface });
            };
            name(link, ports.then_some(port), format!("p{port}"));
            if let Some(back) = back {
                name(link + 1, ports.then_some(back), format!("p{back}"));
            }
            link += 2;
        }
        config.topology = topology;
        config
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Switch(u32, u32),
    Host(u32),
}

pub fn port(number: u32, up: bool) -> Port {
    Port { state: u32::from(!up), curr_speed_kbps: 100_000, ..testing::openflow::port(number) }
}

/// The agent of a host: the machine, and its kernel in memory.
#[derive(Clone)]
pub struct Host {
    pub machine: Agent,
    kernel: Kernel,
    /// The limits that stand.
    pub paced: BTreeMap<Connection, Rate>,
    pub completed: u32,
    pub heard: u32,
    /// How many of the next operations fail.
    pub failing: u32,
    /// It hears and says nothing.
    pub frozen: bool,
}

impl Default for Host {
    fn default() -> Self {
        let kernel = Kernel::new(1, Capacity { limits: 10_000, connections: 10_000, ended: 0 });
        let (machine, paced) = (kernel.agent(true), BTreeMap::new());
        Self { machine, kernel, paced, completed: 0, heard: 0, failing: 0, frozen: false }
    }
}

impl Host {
    /// Carries commands out; the answers.
    pub fn obey(&mut self, now: Time, commands: &Commands) -> Result<Vec<Report>, Lapse> {
        self.heard += 1;
        self.completed += u32::from(commands.complete);
        let mut reports = Vec::new();
        let failing = &mut self.failing;
        let fails = |operation: &Operation| {
            let is_refused = *failing > 0 && !matches!(operation, Operation::Renew { .. });
            *failing -= u32::from(is_refused);
            is_refused
        };
        let mut kernel = Failing { kernel: &mut self.kernel, fails };
        let done = self.machine.obey(now, commands, &mut kernel, &mut reports);
        self.expire(now);
        assert!(self.paced.values().all(|rate| *rate > Rate::ZERO));
        done.map(|()| reports)
    }

    pub fn expire(&mut self, now: Time) {
        self.paced = self.kernel.limits(now).collect();
    }

    /// The agent's process ends and another begins.
    pub fn restart(&mut self) {
        self.kernel.abandon();
        self.machine = self.kernel.agent(true);
    }
}

struct Device {
    switch: Switch,
    session: Option<(ChannelId, Session)>,
}

/// All of it. Messages take no time here.
pub struct Rig {
    pub controller: Controller,
    pub now: Time,
    pub agents: BTreeMap<ChannelId, Host>,
    pub delivered: Vec<(u32, Vec<u8>)>,
    pub closed: Vec<String>,
    /// Switches know no action that caps windows.
    pub uncapping: bool,
    /// Switches have no room for entries that forward packets.
    pub full: bool,
    /// Switches list one thing in each message; between two the controller decides.
    pub in_parts: bool,
    /// How often one had entries before it had listed all its ports.
    pub early: usize,
    /// Cables carry everything but probes.
    pub unprobed: bool,
    devices: Vec<Device>,
    wiring: BTreeMap<(u32, u32), End>,
    frames: VecDeque<(u32, u32, Vec<u8>)>,
    next: u64,
    /// The controller's.
    epoch: u64,
    /// Agents that were there.
    met: BTreeSet<String>,
}

impl Rig {
    pub fn new(shape: &Shape, config: Config, epoch: u64) -> Self {
        let devices = (0..shape.switches).map(|number| {
            let mut switch = Switch::new(u64::from(number) + 1, 2);
            for (_, number) in shape.wiring().into_keys().filter(|(of, _)| *of == number) {
                switch.set_port(Time::ZERO, port(number, true), &mut Answers::default());
            }
            Device { switch, session: None }
        });
        Self {
            controller: Controller::new(config, epoch, Time::ZERO).unwrap(),
            now: Time::ZERO,
            agents: BTreeMap::new(),
            delivered: Vec::new(),
            closed: Vec::new(),
            uncapping: false,
            full: false,
            in_parts: false,
            early: 0,
            unprobed: false,
            devices: devices.collect(),
            wiring: shape.wiring(),
            frames: VecDeque::new(),
            next: 1,
            epoch,
            met: BTreeSet::new(),
        }
    }

    pub fn peer(&mut self) -> ChannelId {
        self.next += 1;
        ChannelId(self.next)
    }

    pub fn input(&mut self, input: Input<'_>) -> Result<(), Refusal> {
        let mut out = Vec::new();
        let done = self.controller.step(self.now, input, &mut out);
        self.carry(out);
        done
    }

    pub fn declare(&mut self, application: &str, declaration: Declaration) -> Result<(), Refusal> {
        self.input(Input::Declared { application, declaration: &declaration })
    }

    /// The configuration is read again.
    pub fn reload(&mut self, change: Change) {
        let mut out = Vec::new();
        self.controller.reconfigure(self.now, change);
        self.controller.decide(&mut out);
        self.carry(out);
    }

    pub fn start(&mut self, application: &str, job: &str) {
        self.declare(application, Declaration::JobStart { job: job.into() }).unwrap();
    }

    /// Why a flow that there is has its rate.
    pub fn why(
        &self,
        application: &str,
        job: &str,
        flow: u64,
    ) -> watermaster_control::FlowExplanation {
        self.controller.at(self.now).explain_flow(application, job, &flow.to_string()).unwrap()
    }

    pub fn flow(
        &mut self,
        application: &str,
        job: &str,
        flow: u64,
        connection: Connection,
        bytes: Option<u64>,
    ) -> Result<(), Refusal> {
        let bytes = bytes.map(Bytes::new);
        let job = job.into();
        let done = self.declare(
            application,
            Declaration::FlowRequest {
                job,
                flow: flow.to_string(),
                connection,
                processes: Processes::default(),
                bytes,
            },
        );
        self.pass(Span::ZERO);
        done
    }

    /// Connects a switch that keeps what it has.
    pub fn plug(&mut self, switch: u32) -> ChannelId {
        self.plug_as(switch, None)
    }

    /// The same over TLS, with the certificate of `identity`.
    pub fn plug_as(&mut self, switch: u32, identity: Option<&str>) -> ChannelId {
        let peer = self.peer();
        let session = Session::new(SessionConfig::new(Side::Switch), self.now);
        self.devices[switch as usize].session = Some((peer, session));
        self.input(Input::SwitchConnected { channel: peer, identity }).unwrap();
        self.speak(switch);
        peer
    }

    pub fn connect(&mut self, switch: u32) {
        self.plug(switch);
    }

    pub fn unplug(&mut self, switch: u32) {
        if let Some((peer, _)) = self.devices[switch as usize].session.take() {
            self.input(Input::SwitchGone(peer)).unwrap();
        }
    }

    pub fn agent(&mut self, identity: &str, hosts: &[u32]) -> ChannelId {
        let peer = self.peer();
        let agent = Host::default();
        self.input(Input::AgentConnected { channel: peer, identity }).unwrap();
        let hosts = hosts.iter().map(|host| protocol::agent::Host {
            name: format!("h{host}"),
            addresses: vec![address(*host)],
        });
        let mut hello = agent.machine.hello(hosts.collect());
        // One that comes back goes on from its maps.
        if let Report::Hello { epoch, .. } = &mut hello
            && !self.met.insert(identity.to_owned())
        {
            *epoch = self.epoch;
        }
        self.agents.insert(peer, agent);
        self.input(Input::Reported(peer, &hello)).unwrap();
        peer
    }

    /// Replaces the controller by another, to which nobody is connected.
    pub fn replace(&mut self, config: Config, epoch: u64) {
        self.controller = Controller::new(config, epoch, self.now).unwrap();
        self.epoch = epoch;
        for device in &mut self.devices {
            device.session = None;
        }
    }

    pub fn switch(&self, switch: u32) -> &Switch {
        &self.devices[switch as usize].switch
    }

    /// The queue of a port passes a threshold, or has recovered; what the switch has to say of it.
    pub fn congest(&mut self, switch: u32, severity: Severity, port: u32) -> Vec<u8> {
        let notice = Notice { severity, port: PortNo(port), queue_bytes: 90_000 };
        let mut answers = Answers::default();
        self.devices[switch as usize].switch.notify(&notice, &mut answers);
        answers.messages.concat()
    }

    pub fn swap_switch(&mut self, switch: u32, by: Switch) {
        self.devices[switch as usize].switch = by;
    }

    pub fn set_port(&mut self, switch: u32, number: u32, up: bool) {
        let mut answers = Answers::default();
        self.devices[switch as usize].switch.set_port(self.now, port(number, up), &mut answers);
        self.answer(switch, answers);
        self.speak(switch);
        self.run_frames();
    }

    /// A host sends a frame.
    pub fn send(&mut self, host: u32, frame: Vec<u8>) {
        let at = self.wiring.iter().find(|(_, end)| **end == End::Host(host)).unwrap();
        let (switch, port) = *at.0;
        self.frames.push_back((switch, port, frame));
        self.run_frames();
    }

    /// Lets time pass; the controller hears of it when it wants to.
    pub fn pass(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let session = |device: &Device| device.session.as_ref().and_then(|(_, s)| s.deadline());
            let switches = self.devices.iter().filter_map(session).min();
            let next = [self.controller.deadline(), switches].into_iter().flatten().min();
            let next = next.filter(|next| *next <= end);
            let Some(next) = next else {
                break;
            };
            self.now = self.now.max(next);
            for switch in (0u32..).take(self.devices.len()) {
                self.speak(switch);
            }
            if self.controller.deadline().is_some_and(|at| at <= self.now) {
                self.input(Input::Tick).unwrap();
                let again = self.controller.deadline();
                assert!(again.is_none_or(|at| at > self.now), "the deadline stays");
            }
        }
        self.now = end;
        for switch in (0u32..).take(self.devices.len()) {
            let mut answers = Answers::default();
            self.devices[switch as usize].switch.tick(end, &mut answers);
            self.answer(switch, answers);
        }
        for agent in self.agents.values_mut() {
            agent.expire(end);
        }
    }

    pub fn carry(&mut self, out: Vec<Output>) {
        let mut out = VecDeque::from(out);
        while let Some(output) = out.pop_front() {
            match output {
                Output::Switch(peer, bytes) => {
                    let is = |device: &Device| {
                        device.session.as_ref().is_some_and(|(of, _)| *of == peer)
                    };
                    let found = self.devices.iter().position(is);
                    let mut rest = &bytes[..];
                    while let Some(at) = found.filter(|_| !rest.is_empty())
                        && let Some((_, session)) = &mut self.devices[at].session
                    {
                        let taken = session.receive(self.now, rest);
                        rest = &rest[taken..];
                        self.speak(u32::try_from(at).unwrap());
                    }
                }
                Output::Agent(peer, commands) => {
                    if let Some(agent) = self.agents.get_mut(&peer).filter(|agent| !agent.frozen) {
                        let reports = agent.obey(self.now, &commands).expect("renewed in time");
                        let mut more = Vec::new();
                        for report in reports {
                            let input = Input::Reported(peer, &report);
                            let _ = self.controller.step(self.now, input, &mut more);
                        }
                        out.extend(more);
                    }
                }
                Output::CloseSwitch(peer, why) => {
                    self.closed.push(why.to_string());
                    for device in &mut self.devices {
                        if device.session.as_ref().is_some_and(|(of, _)| *of == peer) {
                            device.session = None;
                        }
                    }
                }
                Output::CloseAgent(peer, why) => {
                    self.closed.push(why.to_string());
                    self.agents.remove(&peer);
                }
            }
        }
        self.run_frames();
    }

    /// Has a switch hear what came and send what it has to say.
    fn speak(&mut self, switch: u32) {
        let Device { switch: model, session } = &mut self.devices[switch as usize];
        let Some((peer, session)) = session else {
            return;
        };
        let peer = *peer;
        let mut answers = Answers::default();
        while let Some(event) = session.poll(self.now) {
            let Event::Message { xid, message } = event else {
                continue;
            };
            let refused = if self.uncapping && caps(&message) {
                Some(ErrorCode::ACTION_BAD_EXPERIMENTER)
            } else {
                Some(ErrorCode::TABLE_FULL).filter(|_| self.full && forwards(&message))
            };
            if let Some(error) = refused {
                let mut answer = Vec::new();
                let refusal = Message::Error(ErrorMessage { error, data: &[] });
                refusal.encode(xid, &mut answer).unwrap();
                answers.messages.push(answer);
            } else {
                model.handle(self.now, xid, &message, &mut answers);
            }
        }
        let bytes = session.output().to_vec();
        session.sent(bytes.len());
        let mut said = vec![bytes];
        for message in std::mem::take(&mut answers.messages) {
            if self.in_parts {
                said.extend(parts(&message));
            } else {
                said[0].extend(message);
            }
        }
        self.answer(switch, answers);
        for bytes in said.iter().filter(|bytes| !bytes.is_empty()) {
            let _ = self.input(Input::SwitchBytes(peer, bytes));
            let body = Message::decode(bytes).map(|(_, message)| message);
            if let Ok(Message::MultipartReply { more: true, body: Reply::PortDesc(_) }) = body {
                self.early += entries(self.switch(switch)).len();
            }
        }
    }

    fn answer(&mut self, switch: u32, answers: Answers) {
        for (port, frame) in answers.frames {
            if self.unprobed && frame[12..14] == [0x88, 0xcc] {
                continue; // LLDP
            }
            match self.wiring.get(&(switch, port.0)) {
                Some(End::Switch(to, at)) => self.frames.push_back((*to, *at, frame)),
                Some(End::Host(host)) => self.delivered.push((*host, frame)),
                None => {}
            }
        }
        if let Some((peer, session)) = &self.devices[switch as usize].session
            && session.is_up()
        {
            let (peer, bytes) = (*peer, answers.messages.concat());
            if !bytes.is_empty() {
                let _ = self.input(Input::SwitchBytes(peer, &bytes));
            }
        }
    }

    fn run_frames(&mut self) {
        let mut hops = 0;
        while let Some((switch, port, frame)) = self.frames.pop_front() {
            hops += 1;
            assert!(hops < 10_000, "a frame goes round");
            let mut answers = Answers::default();
            let model = &mut self.devices[switch as usize].switch;
            model.receive(self.now, PortNo(port), &frame, &mut answers);
            self.answer(switch, answers);
        }
    }

    /// A switch says something of its own.
    pub fn tell(&mut self, switch: u32, message: &[u8]) {
        let (peer, _) = self.devices[switch as usize].session.as_ref().unwrap();
        self.input(Input::SwitchBytes(*peer, message)).unwrap();
    }

    /// What agents hold back.
    pub fn paced(&self) -> BTreeMap<Connection, Rate> {
        self.agents.values().flat_map(|agent| agent.paced.clone()).collect()
    }
}

/// A message as several, where it is a list: of one thing each.
fn parts(message: &[u8]) -> Vec<Vec<u8>> {
    let (xid, decoded) = Message::decode(message).unwrap();
    let Message::MultipartReply { more: false, body } = decoded else {
        return vec![message.to_vec()];
    };
    let mut parts = Vec::new();
    let mut say = |body: Reply<'_>, more| {
        let mut part = Vec::new();
        Message::MultipartReply { more, body }.encode(xid, &mut part).unwrap();
        parts.push(part);
    };
    match body {
        Reply::PortDesc(all) => each(all, |one, more| say(Reply::PortDesc(List::of(one)), more)),
        Reply::Flow(all) => each(all, |one, more| say(Reply::Flow(List::of(one)), more)),
        Reply::MeterConfig(all) => {
            each(all, |one, more| say(Reply::MeterConfig(List::of(one)), more));
        }
        other => say(other, false),
    }
    parts
}

/// The things of a list one by one, and whether more follow; of an empty list nothing, once.
fn each<T>(all: impl IntoIterator<Item = T>, mut say: impl FnMut(&[T], bool)) {
    let all: Vec<T> = all.into_iter().collect();
    if all.is_empty() {
        say(&[], false);
    }
    for (number, one) in (1..).zip(all.chunks(1)) {
        say(one, number < all.len());
    }
}

/// Whether a message is an entry that caps windows.
fn caps(message: &Message<'_>) -> bool {
    let Message::FlowMod(entry) = message else {
        return false;
    };
    entry.instructions.iter().any(|instruction| match instruction {
        Instruction::ApplyActions(actions) => {
            let caps = |action| matches!(action, Action::CapWindow(_) | Action::PrepareWindow(_));
            actions.iter().any(caps)
        }
        _ => false,
    })
}

/// Whether a message is an entry that forwards packets.
fn forwards(message: &Message<'_>) -> bool {
    matches!(message, Message::FlowMod(entry)
        if entry.table == TableId(1) && entry.command == FlowCommand::ADD)
}

/// A TCP segment between two hosts.
pub fn segment(from: u32, to: u32, source_port: u16, flags: u8, length: usize) -> Vec<u8> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (address(from), address(to)) else { panic!() };
    let builder = etherparse::PacketBuilder::ethernet2(ethernet(from), ethernet(to)).ipv4(
        src.octets(),
        dst.octets(),
        64,
    );
    let mut tcp = builder.tcp(source_port, 5000, 77, 1000);
    tcp = if flags & 2 != 0 { tcp.syn() } else { tcp };
    tcp = if flags & 1 != 0 { tcp.fin() } else { tcp };
    tcp = if flags & 16 != 0 { tcp.ack(5) } else { tcp };
    let mut bytes = Vec::new();
    tcp.write(&mut bytes, &vec![9; length]).unwrap();
    bytes
}

/// The entries of a switch, each as its cookie, priority and length of the list of fields.
pub fn entries(switch: &Switch) -> Vec<(u64, u16)> {
    let mut switch = switch.clone();
    let mut answers = Answers::default();
    let body = openflow::Request::Flow(openflow::FlowSelect::ALL);
    let request = Message::MultipartRequest { more: false, body };
    switch.handle(Time::ZERO, 1, &request, &mut answers);
    let mut entries = Vec::new();
    for bytes in &answers.messages {
        if let (_, Message::MultipartReply { body: Reply::Flow(flows), .. }) =
            Message::decode(bytes).unwrap()
        {
            entries.extend(flows.iter().map(|flow| (flow.cookie, flow.priority)));
        }
    }
    entries
}

/// The numbers of a switch's meters.
pub fn meters(switch: &Switch) -> Vec<u32> {
    let mut answers = Answers::default();
    let body = openflow::Request::MeterConfig(openflow::MeterId::ALL);
    let request = Message::MultipartRequest { more: false, body };
    switch.clone().handle(Time::ZERO, 1, &request, &mut answers);
    let mut meters = Vec::new();
    for bytes in &answers.messages {
        if let (_, Message::MultipartReply { body: Reply::MeterConfig(found), .. }) =
            Message::decode(bytes).unwrap()
        {
            meters.extend(found.iter().map(|meter| meter.meter.0));
        }
    }
    meters
}

pub fn metered(mut config: Config) -> Config {
    config.enforcement = Enforcement::Meters;
    config
}

/// A policy that divides 90 % of each link among the flows over it, evenly.
pub fn even() -> Box<dyn policy::Policy + Send> {
    policy::by_name("fair", &policy::Parameters::default()).unwrap()
}
