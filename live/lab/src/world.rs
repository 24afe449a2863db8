//! The lab as a world: flows are connections of the kernel's TCP between namespaces, in real time.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{FlowState, LimitedFlow, LinkRecord, Notice, Outcome};
use kernel::Dctcp;
use model::{Caps, FlowId, LinkId, Network, NodeId};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use units::{Bytes, Rate, Span, Time};

use crate::blueprint::LEAST_DELAY;
use crate::datagrams::{self, Datagrams};
use crate::flow::{Flow, Step};
use crate::health::{Timers, Verdict, Watch};
use crate::line::Line;
use crate::marking::Marking;
use crate::probe::Probe;
use crate::ready::{self, Ready};
use crate::{Directory, Error, Lab, Switches, Transport, health, namespace, ovs};

/// Where receivers listen.
const PORT: u16 = 5001;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 65_535;
/// Octets read or written at once.
const CHUNK: usize = 256 << 10;
/// Sockets that are ready at each host.
const SPARE: usize = 8;
/// Most connections that are made ready for flows to come.
const MOST_READY: usize = 1000;
/// Time between two [`Notice::Pause`].
const PAUSE: Duration = Duration::from_millis(100);
/// A run that expects data and receives none for this long has hung.
const STALLED: Span = Span::from_secs(120);
/// Durations for a bulk transfer to fill the path and to be measured.
const WARM: Span = Span::from_millis(150);
const MEASURED: Span = Span::from_millis(350);
/// Part of its rate that a path must carry before a run.
const REACHED: f64 = 0.95;

/// Who enforces the rates of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// This process, which has the sockets: the policy decides here, and the kernel paces.
    #[default]
    Direct,
    /// The lab's agent or switches: limits are counted here, not set.
    Elsewhere,
}

/// A lab on which flows run.
pub struct World {
    /// They end before the lab does.
    lines: Vec<Line>,
    lab: Arc<Lab>,
    transport: Transport,
    control: Control,
    until: Time,
    home: File,
    /// By node; hosts only.
    hosts: BTreeMap<NodeId, Host>,
    probe: Probe,
    epoll: OwnedFd,
    watch: Option<Watch>,
    marking: Option<Marking>,
    _dctcp: Option<Dctcp>,
    timers: Timers,
    start: Instant,
    now: Time,
    /// Time of the last look at arrivals.
    looked: Time,
    paused: Instant,
    moved: Time,
    flows: Vec<Option<Flow>>,
    live: usize,
    /// Flows of datagrams, which are none of `flows`.
    datagrams: BTreeMap<FlowId, Datagrams>,
    ready: ready::Waiting,
    /// Flows whose connection has not been accepted, by address of the sender.
    awaited: BTreeMap<SocketAddrV4, FlowId>,
    directory: Directory,
    notices: VecDeque<Notice>,
    fault: Option<Error>,
    zeros: Vec<u8>,
    sink: Vec<u8>,
    events: u64,
    /// Directives that this world can't carry out.
    ignored: u64,
    limits: u64,
    least_rtt: Option<Span>,
    notes: Vec<String>,
    /// Who else must be well.
    companion: Option<Companion>,
}

/// Whether those without whom a run makes no sense are well.
type Companion = Box<dyn FnMut() -> Result<(), Error>>;

struct Host {
    namespace: File,
    listener: OwnedFd,
    /// Sockets made beforehand, because entering a namespace takes a while.
    spare: Vec<OwnedFd>,
}

/// What an event is about.
#[derive(Clone, Copy)]
enum Source {
    Listener(NodeId),
    Sender(FlowId),
    Receiver(FlowId),
}

impl Source {
    fn data(self) -> EventData {
        let (kind, number) = match self {
            Self::Listener(node) => (0, node.0),
            Self::Sender(flow) => (1, flow.0),
            Self::Receiver(flow) => (2, flow.0),
        };
        EventData::new_u64(u64::from(number) << 2 | kind)
    }

    #[allow(clippy::cast_possible_truncation)] // made of 32 bits
    fn of(data: EventData) -> Self {
        let number = (data.u64() >> 2) as u32;
        match data.u64() & 3 {
            0 => Self::Listener(NodeId(number)),
            1 => Self::Sender(FlowId(number)),
            _ => Self::Receiver(FlowId(number)),
        }
    }
}

fn fail(what: impl Into<String>) -> impl FnOnce(Errno) -> Error {
    let what = what.into();
    move |error| Error::Socket(what, error.into())
}

impl World {
    /// Sets up `transport` at the hosts of `lab`, and checks that the machine is fast enough. When
    /// no flow is left and only the run's end `until` remains, the run ends without waiting for it.
    ///
    /// # Errors
    /// The kernel lacks a feature; a socket can't be made.
    pub fn new(
        lab: impl Into<Arc<Lab>>,
        network: &Network,
        transport: Transport,
        control: Control,
        until: Time,
    ) -> Result<Self, Error> {
        let lab = lab.into();
        let dctcp = lab.speak(&transport)?;
        raise_limits();
        let home = File::open("/proc/thread-self/ns/net")
            .map_err(|error| Error::Namespace("/proc/thread-self/ns/net".into(), error))?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(fail("epoll"))?;
        let probe = Probe::open(&lab)?;
        let now = Instant::now();
        let lines = Line::start(&lab)?;
        let mut world = Self {
            lines,
            probe,
            home,
            hosts: BTreeMap::new(),
            epoll,
            watch: None,
            marking: None,
            _dctcp: dctcp,
            timers: Timers::default(),
            start: now,
            now: Time::ZERO,
            looked: Time::ZERO,
            paused: now,
            moved: Time::ZERO,
            flows: Vec::new(),
            live: 0,
            datagrams: BTreeMap::new(),
            ready: BTreeMap::new(),
            awaited: BTreeMap::new(),
            directory: Directory::default(),
            notices: VecDeque::new(),
            fault: None,
            zeros: vec![0; CHUNK],
            sink: vec![0; CHUNK],
            events: 0,
            ignored: 0,
            limits: 0,
            least_rtt: None,
            notes: Vec::new(),
            companion: None,
            lab,
            transport,
            control,
            until,
        };
        let hosts: Vec<NodeId> = world.lab.blueprint.topology.hosts().collect();
        for host in hosts {
            world.listen(host)?;
        }
        let calibration = world.calibrate(network)?;
        world.notes.push(calibration);
        world.stock()?;
        world.marking = Marking::start(&world.lab, &world.transport)?;
        world.watch = Some(Watch::start(&world.lab)?);
        world.start = Instant::now();
        world.paused = world.start;
        Ok(world)
    }

    /// The addresses of flows, as they start.
    pub fn directory(&self) -> Directory {
        self.directory.clone()
    }

    /// Has a run end with the error of `check`, which is asked ten times a second.
    pub fn beside(&mut self, check: impl FnMut() -> Result<(), Error> + 'static) {
        self.companion = Some(Box::new(check));
    }

    /// The lab that it is in.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The findings of the calibration.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Runs `act` with this thread in the namespace of `namespace`.
    fn inside<T>(
        home: &File,
        namespace: &File,
        act: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Error> {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), kind).map_err(fail("setns"))?;
        let done = act();
        move_into_link_name_space(home.as_fd(), kind).map_err(fail("setns"))?;
        done.map_err(fail("socket"))
    }

    fn listen(&mut self, host: NodeId) -> Result<(), Error> {
        let path = namespace::path(&self.lab.namespace(host));
        let namespace = File::open(&path)
            .map_err(|error| Error::Namespace(path.display().to_string(), error))?;
        let listener = Self::inside(&self.home, &namespace, || {
            let listener = tcp_socket()?;
            sockopt::set_socket_reuseaddr(&listener, true)?;
            bind(&listener, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)))?;
            listen(&listener, BACKLOG)?;
            Ok(listener)
        })?;
        self.attend(&listener, Source::Listener(host), EventFlags::IN)?;
        self.hosts.insert(host, Host { namespace, listener, spare: Vec::new() });
        Ok(())
    }

    fn attend(&self, socket: impl AsFd, source: Source, flags: EventFlags) -> Result<(), Error> {
        epoll::add(&self.epoll, socket, source.data(), flags).map_err(fail("epoll"))
    }

    /// Calibration: measures a bulk transfer over the longest path.
    fn calibrate(&mut self, network: &Network) -> Result<String, Error> {
        let topology = network.topology();
        let (Some(src), Some(dst)) = (topology.hosts().next(), topology.hosts().last()) else {
            return Ok("no hosts".into());
        };
        let mut path = Vec::new();
        if src == dst || !network.path(src, dst, 0, &mut path) {
            return Ok("calibration: the first host has no path to the last".into());
        }
        let (rate, delay) = self.lab.blueprint.bottleneck(&path);
        let slowest = path.iter().find(|link| topology.link(**link).spec.capacity == rate);
        let flow = engine::World::start(self, network, src, dst, Bytes::MAX)?;
        let before = self.wait(WARM, slowest)?;
        let after = self.wait(MEASURED, slowest)?;
        let rtt = self.flows[flow.index()].as_ref().and_then(Flow::info).map(|info| info.least_rtt);
        self.reset()?;
        let carried = Rate::of(after.1 - before.1, after.0.since(before.0));
        let name = |node: NodeId| topology.nodes()[node.index()].name.as_str();
        let carried = health::short(carried);
        let slow = (carried.as_bps() as f64) < REACHED * rate.as_bps() as f64;
        let verdict = if slow { "; THE MACHINE IS TOO SLOW for this scenario" } else { "" };
        Ok(format!(
            "calibration: {} to {} carried {carried} of {rate}, least round trip {}{verdict}. \
             Delays of links below {LEAST_DELAY}, {delay} one way here, are not emulated",
            name(src),
            name(dst),
            rtt.unwrap_or_default(),
        ))
    }

    /// Lets flows run for `span`; returns the time, and the frame bytes sent on `link` so far.
    fn wait(&mut self, span: Span, link: Option<&LinkId>) -> Result<(Time, Bytes), Error> {
        let until = self.clock() + span;
        while engine::World::run(self, until) != Notice::Limit {}
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let count = link.and_then(|link| self.probe.read_one(*link)).unwrap_or_default();
        Ok((self.clock(), count.bytes))
    }

    /// Forgets the flows of the calibration, and waits until their packets are gone.
    fn reset(&mut self) -> Result<(), Error> {
        for flow in self.flows.drain(..).flatten() {
            flow.abort();
        }
        self.awaited.clear();
        self.notices.clear();
        self.directory = Directory::default();
        self.live = 0;
        let start = Instant::now();
        while self.probe.read()?.values().any(|count| count.waiting > 0) {
            if start.elapsed() > Duration::from_secs(10) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.timers = Timers::default();
        self.events = 0;
        self.now = Time::ZERO;
        self.looked = Time::ZERO;
        self.moved = Time::ZERO;
        Ok(())
    }

    /// Time since the start.
    fn clock(&self) -> Time {
        let passed = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(passed)
    }

    /// Makes connections ready, one for each pair of sender and receiver that will start a flow, so that
    /// at its time only the first write is left; with [`Transport::handshake`], the first SYN. The
    /// clock starts anew: call it last before the run.
    ///
    /// # Errors
    /// Hosts that aren't connected, or that the lab doesn't have.
    pub fn prepare(
        &mut self,
        pairs: impl IntoIterator<Item = (NodeId, NodeId)>,
    ) -> Result<(), Error> {
        for (src, dst) in pairs.into_iter().take(MOST_READY) {
            let mut ready = self.bind(src)?;
            if !self.transport.handshake {
                let there = self.there(dst);
                let listener = &self.host(dst)?.listener;
                ready.meet(listener, there).map_err(fail(format!("connect to {there}")))?;
            }
            self.ready.entry((src, dst)).or_default().push(ready);
        }
        self.stock()?;
        self.start = Instant::now();
        self.paused = self.start;
        Ok(())
    }

    fn host(&mut self, node: NodeId) -> Result<&mut Host, Error> {
        self.hosts.get_mut(&node).ok_or_else(|| Error::State("no such host".into()))
    }

    /// Where a host listens.
    fn there(&self, node: NodeId) -> SocketAddrV4 {
        SocketAddrV4::new(self.lab.blueprint.address(node), PORT)
    }

    fn bind(&mut self, src: NodeId) -> Result<Ready, Error> {
        let address = self.lab.blueprint.address(src);
        let sender = match self.host(src)?.spare.pop() {
            Some(sender) => sender,
            None => Self::inside(&self.home, &self.hosts[&src].namespace, tcp_socket)?,
        };
        Ready::bound(sender, address).map_err(fail("bind"))
    }

    /// The number of the next flow.
    fn number(&self) -> Result<FlowId, Error> {
        let number = u32::try_from(self.flows.len());
        number.map(FlowId).map_err(|_| Error::State("too many flows".into()))
    }

    fn enter(&mut self, src: NodeId, dst: NodeId, size: Option<Bytes>) -> Result<FlowId, Error> {
        let id = self.number()?;
        let there = self.there(dst);
        let ready = match self.ready.get_mut(&(src, dst)).and_then(Vec::pop) {
            Some(ready) => ready,
            None => self.bind(src)?,
        };
        if ready.receiver.is_none() {
            ready.connect(there).map_err(fail(format!("connect to {there}")))?;
            self.awaited.insert(ready.own, id);
        }
        let taken = self.directory.enter(id, ready.own.into(), there.into());
        let mut flow = Flow::new(ready.sender, size, taken);
        // Written at once, or as soon as it is connected.
        flow.send(&self.zeros).map_err(fail(format!("flow {}", id.0)))?;
        self.attend(flow.sender(), Source::Sender(id), EventFlags::OUT | EventFlags::ET)?;
        if let Some(receiver) = ready.receiver {
            self.attend(&receiver, Source::Receiver(id), EventFlags::IN | EventFlags::ET)?;
            flow.accepted(receiver);
        }
        self.flows.push(Some(flow));
        self.live += 1;
        self.tell(id);
        Ok(id)
    }

    /// Makes sockets for flows to come.
    fn stock(&mut self) -> Result<(), Error> {
        for host in self.hosts.values_mut() {
            while host.spare.len() < SPARE {
                host.spare.push(Self::inside(&self.home, &host.namespace, tcp_socket)?);
            }
        }
        Ok(())
    }

    /// Takes the connections that have come in at a host.
    fn accept(&mut self, host: NodeId) -> Result<(), Error> {
        loop {
            let Some(own) = self.hosts.get(&host) else { return Ok(()) };
            let accepted = ready::accept(&own.listener).map_err(fail("accept"))?;
            let Some((receiver, peer)) = accepted else { return Ok(()) };
            // Connections abandoned by the calibration belong to no flow.
            let Some(id) = peer.and_then(|peer| self.awaited.remove(&peer)) else { continue };
            self.attend(&receiver, Source::Receiver(id), EventFlags::IN | EventFlags::ET)?;
            if let Some(Some(flow)) = self.flows.get_mut(id.index()) {
                flow.accepted(receiver);
            }
            self.receive(id)?;
        }
    }

    /// Something has arrived for a flow.
    fn receive(&mut self, id: FlowId) -> Result<(), Error> {
        if let Some(datagrams) = self.datagrams.get_mut(&id) {
            return datagrams.receive(&mut self.sink).map_err(fail(format!("flow {}", id.0)));
        }
        let Some(Some(flow)) = self.flows.get_mut(id.index()) else { return Ok(()) };
        let before = flow.arrived();
        let step = flow.receive(&mut self.sink).map_err(fail(format!("flow {}", id.0)))?;
        if flow.arrived() > before {
            self.moved = self.now;
        }
        let over = flow.is_over();
        self.tell(id);
        if !over && step == Step::Closed {
            let gone = format!("flow {}: the connection ended before its data", id.0);
            return Err(Error::Inconsistent(gone));
        }
        Ok(())
    }

    /// Tells of a mark that is reached and of an end.
    fn tell(&mut self, id: FlowId) {
        let Some(Some(flow)) = self.flows.get_mut(id.index()) else { return };
        let (reached, over) = (flow.reached(), flow.is_over());
        self.notices.extend(reached.map(|at| Notice::Reached(id, at)));
        if over {
            self.end(id);
        }
    }

    fn send(&mut self, id: FlowId) -> Result<(), Error> {
        match self.flows.get_mut(id.index()) {
            Some(Some(flow)) => flow.send(&self.zeros).map_err(fail(format!("flow {}", id.0))),
            _ => Ok(()),
        }
    }

    /// All of a flow has arrived.
    fn end(&mut self, id: FlowId) {
        let Some(Some(flow)) = self.flows.get_mut(id.index()) else { return };
        if std::mem::replace(&mut flow.told, true) {
            return;
        }
        self.live -= 1;
        let state = flow.state();
        if let Some(info) = flow.info()
            && info.least_rtt > Span::ZERO
        {
            let least = self.least_rtt.unwrap_or(info.least_rtt);
            self.least_rtt = Some(least.min(info.least_rtt));
        }
        if let Err(what) = flow.audit() {
            self.fault = Some(Error::Inconsistent(format!("flow {}: {what}", id.0)));
        }
        if flow.unread() == Bytes::ZERO {
            self.flows[id.index()] = None;
        }
        self.notices.push_back(Notice::Ended(id, state));
    }

    fn handle(&mut self, event: &Event) -> Result<(), Error> {
        // The fields of a packed structure are copied out.
        let data = event.data;
        match Source::of(data) {
            Source::Listener(host) => self.accept(host),
            Source::Sender(id) => self.send(id),
            Source::Receiver(id) => self.receive(id),
        }
    }

    fn wait_until(&mut self, until: Time) -> Result<(), Error> {
        let rest = until.since(self.clock());
        let pause = PAUSE.saturating_sub(self.paused.elapsed());
        let rest = Duration::from_nanos(rest.as_nanos()).min(pause);
        let timeout = Timespec {
            tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: rest.subsec_nanos().into(),
        };
        let mut events = Vec::with_capacity(1024);
        let waited =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout));
        match waited {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(fail("epoll")(error)),
        }
        self.now = self.now.max(self.clock());
        self.looked = self.now;
        for event in &events {
            self.events += 1;
            self.handle(event)?;
        }
        if self.live > 0 && self.now.since(self.moved) > STALLED {
            return Err(Error::Stalled(STALLED));
        }
        Ok(())
    }
}

fn tcp_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
}

/// Two sockets for each flow; what the system grants.
fn raise_limits() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // A refusal shows when a socket can't be made.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

impl engine::World for World {
    type Error = Error;

    fn now(&self) -> Time {
        self.now
    }

    fn run(&mut self, limit: Time) -> Notice {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return notice;
            }
            if self.fault.is_some() || self.paused.elapsed() >= PAUSE {
                self.paused = Instant::now();
                return Notice::Pause;
            }
            let now = self.clock();
            // Arrivals go before what is due now, but don't delay it.
            if now >= limit && self.looked >= limit {
                self.timers.note(now.since(limit));
                return Notice::Limit;
            }
            if limit >= self.until && self.live == 0 {
                return Notice::Limit;
            }
            if let Err(fault) = self.wait_until(limit) {
                self.fault = Some(fault);
            }
        }
    }

    fn advance(&mut self, time: Time) {
        self.now = self.now.max(time).max(self.clock());
        if self.live == 0 {
            self.moved = self.now;
        }
    }

    fn start(
        &mut self,
        _: &Network,
        src: NodeId,
        dst: NodeId,
        size: Bytes,
    ) -> Result<FlowId, Error> {
        self.enter(src, dst, Some(size))
    }

    fn limit(&mut self, flow: FlowId, limit: Option<Rate>) {
        self.limits += 1;
        if self.control == Control::Elsewhere {
            return;
        }
        let (mss, mtu) = (u64::from(self.transport.mss), u64::from(self.transport.mtu()));
        if let Some(Some(flow)) = self.flows.get(flow.index())
            && let Err(error) = flow.pace(limit.map(|limit| limit.fraction(mss, mtu)))
        {
            self.fault = Some(Error::Socket("SO_MAX_PACING_RATE".into(), error));
        }
    }

    fn prioritize(&mut self, _: FlowId, _: u8) {
        self.ignored += 1;
    }

    fn grant(&mut self, _: &Network, _: NodeId, _: NodeId, _: Option<NodeId>) {
        self.ignored += 1;
    }

    fn pace_pair(&mut self, _: NodeId, _: NodeId, _: Rate) {
        self.ignored += 1;
    }

    fn cap(&mut self, _: LinkId, _: Option<FlowId>, _: Option<Caps>) {
        self.ignored += 1;
    }

    fn space(&mut self, _: LinkId, _: Option<Span>) {
        self.ignored += 1;
    }

    fn ports(&mut self) -> Vec<(LinkId, Bytes)> {
        let counts = self.probe.read().unwrap_or_else(|fault| {
            self.fault = Some(fault);
            BTreeMap::new()
        });
        counts.into_iter().map(|(link, count)| (link, count.bytes)).collect()
    }

    fn state(&self, flow: FlowId) -> Option<FlowState> {
        if let Some(datagrams) = self.datagrams.get(&flow) {
            return Some(datagrams.state());
        }
        let flow = self.flows.get(flow.index())?.as_ref()?;
        (!flow.told).then(|| flow.state())
    }

    fn limited_flow(&self, flow: FlowId) -> Option<LimitedFlow> {
        let flow = self.flows.get(flow.index())?.as_ref().filter(|flow| !flow.told)?;
        flow.limited(self.transport.mss.into(), self.transport.mtu().into())
    }

    fn queue_length(&mut self, link: LinkId) -> u32 {
        self.probe.read_one(link).unwrap_or_default().waiting
    }

    fn queued(&mut self, link: LinkId) -> Bytes {
        self.probe.read_one(link).unwrap_or_default().queued
    }

    fn check(&mut self) -> Result<(), Error> {
        let stands_still = self.live > 0 && self.now.since(self.moved) > Span::from_secs(1);
        if (stands_still || self.fault.is_some()) && self.lab.journal.switches == Switches::Ovs {
            ovs::check(&self.lab.journal)?;
        }
        self.fault.take().map_or(Ok(()), Err)?;
        self.companion.as_mut().map_or(Ok(()), |check| check())?;
        self.stock()
    }

    fn finish(mut self, outcome: &mut Outcome) -> Result<(), Error> {
        self.check()?;
        let Some(watch) = self.watch.take() else { return Ok(()) };
        let seen = watch.stop()?;
        let mut verdict: Verdict = seen.judge(&self.lab.blueprint.topology, &self.timers);
        verdict.faults.extend(self.lines.drain(..).filter_map(Line::stop));
        for record in seen.records() {
            outcome.hops += record.packets;
            let marked = self.marking.as_mut().map_or(0, |marking| marking.marked(record.link));
            outcome.links.push(LinkRecord { marked, ..record });
        }
        outcome.events = self.events;
        // Each octet that was delivered has left by some link.
        let delivered: Bytes = outcome.flows.iter().map(|flow| flow.delivered).sum();
        let carried: Bytes = outcome.links.iter().map(|link| link.bytes).sum();
        if carried < delivered {
            return Err(Error::Inconsistent(format!(
                "{delivered} were delivered but the links carried {carried}"
            )));
        }
        let open = outcome.flows.iter().filter(|flow| flow.end.is_none()).count();
        if open > 0 {
            self.notes.push(format!("{open} flows had not ended when the run did"));
        }
        if self.ignored > 0 {
            self.notes.push(format!(
                "{} directives were of kinds that the lab can't obey, and were ignored",
                self.ignored
            ));
        }
        outcome.notes.push(verdict.line());
        outcome.notes.append(&mut self.notes);
        Ok(())
    }
}

impl engine::Streams for World {
    fn open(&mut self, _: &Network, src: NodeId, dst: NodeId) -> Result<FlowId, Error> {
        self.enter(src, dst, None)
    }

    fn write(&mut self, id: FlowId, more: Bytes) -> bool {
        let Some(Some(flow)) = self.flows.get_mut(id.index()) else { return false };
        let open = flow.write(more);
        if let Err(fault) = self.send(id) {
            self.fault = Some(fault);
        }
        open
    }

    fn close(&mut self, id: FlowId) {
        if let Some(Some(flow)) = self.flows.get_mut(id.index()) {
            flow.close();
            self.tell(id);
        }
    }

    fn open_datagrams(&mut self, _: &Network, src: NodeId, dst: NodeId) -> Result<FlowId, Error> {
        let id = self.number()?;
        let end = |node| {
            let address = self.lab.blueprint.address(node);
            let host = self.hosts.get(&node).ok_or_else(|| Error::State("no such host".into()))?;
            let socket = Self::inside(&self.home, &host.namespace, datagrams::socket)?;
            Ok::<_, Error>((socket, address))
        };
        let datagrams = Datagrams::connected(end(src)?, end(dst)?);
        let datagrams = datagrams.map_err(fail(format!("flow {}", id.0)))?;
        let [source, destination] = datagrams.ends().map_err(fail(format!("flow {}", id.0)))?;
        // Flows are there in their order, though nobody declares this one.
        self.directory.enter(id, source, destination);
        self.attend(datagrams.receiver(), Source::Receiver(id), EventFlags::IN | EventFlags::ET)?;
        self.flows.push(None);
        self.datagrams.insert(id, datagrams);
        Ok(id)
    }

    fn send(&mut self, id: FlowId, payload: Bytes) {
        let Some(datagrams) = self.datagrams.get_mut(&id) else { return };
        let length = usize::try_from(payload.get()).unwrap_or(usize::MAX);
        if let Err(error) = datagrams.send(self.zeros.get(..length).unwrap_or(&self.zeros)) {
            self.fault = Some(fail(format!("flow {}", id.0))(error));
        }
    }

    fn mark(&mut self, id: FlowId, at: Bytes) {
        if let Some(Some(flow)) = self.flows.get_mut(id.index()) {
            flow.mark = Some(at.get());
            self.tell(id);
        }
    }

    fn pause_reading(&mut self, id: FlowId) {
        if let Some(Some(flow)) = self.flows.get_mut(id.index()) {
            flow.reading_paused = true;
        }
    }

    fn consume(&mut self, id: FlowId, bytes: Bytes) {
        let Some(Some(flow)) = self.flows.get_mut(id.index()) else { return };
        let before = flow.arrived();
        if let Err(error) = flow.consume(bytes.get(), &mut self.sink) {
            self.fault = Some(fail(format!("flow {}", id.0))(error));
        } else if !flow.told {
            // Epoll doesn't tell of what is read before the next wait.
            if flow.arrived() > before {
                self.moved = self.now;
            }
            self.tell(id);
        } else if flow.unread() == Bytes::ZERO {
            self.flows[id.index()] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_says_whom_it_is_about() {
        for number in [0, 7, u32::MAX >> 2] {
            let flow = FlowId(number);
            assert!(
                matches!(Source::of(Source::Sender(flow).data()), Source::Sender(f) if f == flow)
            );
            let data = Source::Receiver(flow).data();
            assert!(matches!(Source::of(data), Source::Receiver(f) if f == flow));
            let node = NodeId(number);
            let data = Source::Listener(node).data();
            assert!(matches!(Source::of(data), Source::Listener(n) if n == node));
        }
    }
}
