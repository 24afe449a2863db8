//! A lab of two racks under Open vSwitch, governed by both daemons, with traffic through its core.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kernel::Namespace;
use lab::{Daemon, Daemons, Enforcement, Governance, Journal, Lab, Order, Switches, Transport};
use model::build::{Access, dumbbell};
use model::{Buffer, LinkSpec, Topology};
use protocol::Connection;
use rustix::process::{Pid, Signal, setpriority_process};
use serde_json::Value;
use units::{Bytes, Rate, Span};
use wire::client::Address;

use crate::application::Application;
use crate::meter::{Losses, Probe, Stream, Window};
use crate::relay::Relay;
use crate::tables::Tables;

/// Where switches find the controller.
pub const CONTROLLER: &str = "tcp:127.0.0.1:6653";
/// What every link carries, frames.
pub const LINK: Rate = Rate::from_mbps(10);
/// What the policy holds the two streams to, frames.
const HELD: [Rate; 2] = [Rate::from_mbps(3), Rate::from_mbps(1)];
/// How long what is granted holds without a controller.
pub const LEASE: Duration = Duration::from_secs(4);
/// How long what is expected may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How much later than it should something may happen here.
pub const SLACK: Duration = Duration::from_secs(3);
/// What goodput is taken over where it is watched.
const TAKEN: Duration = Duration::from_millis(500);

/// One at a time: they measure.
static TURN: Mutex<()> = Mutex::new(());

pub struct Cluster {
    pub daemons: Daemons,
    pub lab: Lab,
    pub relay: Relay,
    pub folder: PathBuf,
    pub tables: Tables,
    topology: Topology,
    /// What a held stream gets of its rate, at least, in percent.
    least: u64,
    _turn: MutexGuard<'static, ()>,
}

/// What traffic suffered.
#[derive(Debug)]
pub struct Suffered {
    pub losses: Losses,
    /// The longest time in which a receiver got nothing.
    pub gap: Duration,
    /// Segments that hosts sent again.
    pub again: u64,
    /// Packets that found a full queue at a link.
    pub dropped: u64,
}

/// The share of datagrams that a busy machine may lose by itself, and the longest stop.
const NEGLIGIBLE: f64 = 0.01;
const STOP: Duration = Duration::from_secs(1);
/// Losses at a meter or a full queue may cost TCP some timeouts in a row.
const TIMEOUTS: Duration = Duration::from_secs(2);

impl Suffered {
    /// That traffic never stopped.
    #[track_caller]
    pub fn assert_flowing(&self) {
        let Losses { sent, lost, outage } = self.losses;
        assert!(sent > 100, "{sent} datagrams prove nothing");
        let flows = lost as f64 <= NEGLIGIBLE * sent as f64 && outage < STOP;
        assert!(flows && self.gap < TIMEOUTS, "{self:?}");
    }
}

/// What cases differ in.
pub struct Setup {
    /// What starts the daemons.
    pub program: PathBuf,
    pub lease: Duration,
    pub enforcement: Enforcement,
}

impl Default for Setup {
    fn default() -> Self {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_watermaster"));
        Self { program, lease: LEASE, enforcement: Enforcement::Pacing }
    }
}

impl Cluster {
    /// Builds it; `None` where it can't run, and says why.
    pub fn up(case: &str) -> Option<Self> {
        Self::up_as(case, &Setup::default())
    }

    /// The same otherwise.
    pub fn up_as(case: &str, setup: &Setup) -> Option<Self> {
        if !(testing::needs::root() && testing::needs::open_vswitch()) {
            return None;
        }
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // Less than the send buffer of Open vSwitch's one socket holds (docs/lab.md).
        let buffer = Buffer::Packets(50);
        let link = LinkSpec { capacity: LINK, delay: Span::from_micros(10), buffer, mark: None };
        let topology = dumbbell(2, 2, &Access { link, nic: buffer }, &link).unwrap();
        let name = format!("ft-{case}-{}", std::process::id());
        let switches = Switches::Ovs;
        let order = Order { name, switches, passing: true, ..Order::default() };
        let mut lab = Lab::up(&topology, &order).unwrap();
        let transport = Transport {
            congestion_control: "cubic",
            mss: 1460,
            header: 40,
            initial_window: 10,
            min_rto: Span::from_millis(200),
            delayed_ack: true,
            receive_window: Bytes::new(1 << 20),
            sack: true,
            ecn: false,
            handshake: false,
        };
        lab.speak(&transport).unwrap();
        let governance = Governance {
            enforcement: setup.enforcement,
            lease: Span::from_nanos(u64::try_from(setup.lease.as_nanos()).unwrap()),
            ..Governance::default()
        };
        let [a, b] = HELD.map(Rate::as_bps);
        let policy = format!("name = \"static\"\nrates = [\"{a} bit/s\", \"{b} bit/s\"]");
        let mut daemons = Daemons::start(&mut lab, &governance, &policy, &setup.program).unwrap();
        // The agent speaks through a channel that can be cut.
        daemons.end(Daemon::Agent, Signal::TERM).unwrap();
        let folder = lab.folder().to_owned();
        let (direct, relayed) = (folder.join("controller.sock"), folder.join("relay.sock"));
        let relay = Relay::start(&relayed, &direct);
        let plan = lab.blueprint();
        let tables = Tables {
            namespace: format!("wm-{}-ovs", lab.name()),
            folder: folder.clone(),
            bridges: plan.switches().map(|switch| plan.bridge(switch)).collect(),
        };
        let least = if setup.enforcement == Enforcement::Meters { 10 } else { 85 };
        let mut cluster =
            Self { daemons, lab, relay, folder, tables, topology, least, _turn: turn };
        cluster.reword("agent.toml", "/controller.sock", "/relay.sock");
        cluster.daemons.launch(Daemon::Agent).unwrap();
        cluster.daemons.wait().unwrap();
        // A switch doesn't wait for other work of the machine.
        let forwards = Pid::from_raw(cluster.vswitchd().cast_signed());
        setpriority_process(forwards, -10).unwrap();
        Some(cluster)
    }

    /// Changes a configuration of the next daemon that is launched.
    pub fn reword(&self, file: &str, old: &str, new: &str) {
        let path = self.folder.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(old), "{file} doesn't say {old}");
        fs::write(&path, text.replace(old, new)).unwrap();
    }

    pub fn controller(&self) -> Address {
        Address::Unix(self.folder.join("controller.sock"))
    }

    /// The control group of the lab's processes.
    pub fn group(&self) -> PathBuf {
        Journal::read(self.lab.name()).unwrap().unwrap().cgroup.unwrap()
    }

    /// The process of a daemon, which is alone in its group.
    pub fn pid(&self, daemon: &str) -> u32 {
        let procs = fs::read_to_string(self.group().join(daemon).join("cgroup.procs")).unwrap();
        procs.trim().parse().unwrap_or_else(|_| panic!("no {daemon}: {procs}"))
    }

    /// The process that forwards.
    pub fn vswitchd(&self) -> u32 {
        let procs = fs::read_to_string(self.group().join("cgroup.procs")).unwrap();
        let is_it = |pid: &&str| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "ovs-vswitchd"
        };
        procs.lines().find(is_it).expect("the lab has one").parse().unwrap()
    }

    /// What a daemon has logged.
    pub fn log(&self, daemon: &str) -> String {
        fs::read_to_string(self.folder.join(format!("{daemon}.out"))).unwrap()
    }

    pub fn namespace(&self, node: &str) -> String {
        format!("wm-{}-{node}", self.lab.name())
    }

    fn host(&self, name: &str) -> (Namespace, IpAddr) {
        let address = self.lab.blueprint().address(self.topology.node_named(name).unwrap());
        (Namespace::named(&self.namespace(name)).unwrap(), address.into())
    }

    /// Waits until the controller's status is as wanted; how long that took.
    #[track_caller]
    pub fn until(&self, wanted: impl Fn(&Value) -> bool) -> Duration {
        let start = Instant::now();
        loop {
            let status = self.daemons.status();
            if status.as_ref().is_ok_and(&wanted) {
                return start.elapsed();
            }
            assert!(start.elapsed() < PATIENCE, "the status stays {status:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Two streams through the core that the policy holds, and a probe the other way, where queues
    /// are empty: what it loses was not lost for want of room.
    pub fn traffic(&self) -> Traffic {
        let [a, b, c, d] = ["h0", "h1", "h2", "h3"].map(|name| self.host(name));
        let stream = |from: &(Namespace, IpAddr), to: &(Namespace, IpAddr)| {
            Stream::start((&from.0, from.1), (&to.0, to.1))
        };
        let streams = [stream(&a, &c), stream(&b, &d)];
        let probe = Probe::start((&c.0, c.1), (&a.0, a.1));
        let connections = streams.each_ref().map(|stream| stream.connection);
        let application = Some(Application::start(&self.controller(), &connections));
        let rooms = ["h0", "h1", "h2", "h3", "ovs"].map(|room| self.namespace(room));
        let hosts = [a.0, b.0, c.0, d.0];
        let traffic = Traffic { streams, probe, application, hosts, rooms, least: self.least };
        traffic.until_held("from the start");
        traffic
    }
}

pub struct Traffic {
    pub streams: [Stream; 2],
    pub probe: Probe,
    /// Who declares them.
    pub application: Option<Application>,
    hosts: [Namespace; 4],
    rooms: [String; 5],
    least: u64,
}

/// How often things happened, to be compared.
pub struct Mark {
    pub at: Instant,
    again: u64,
    dropped: u64,
}

/// The payload of a rate of frames of 1500 octets, without TCP's timestamps.
fn payload(frames: Rate) -> Rate {
    frames.fraction(1460, 1500)
}

impl Traffic {
    /// Goodput of both over the time just past.
    fn now(&self) -> [Rate; 2] {
        let to = Instant::now();
        self.streams.each_ref().map(|stream| stream.goodput(Window { from: to - TAKEN, to }))
    }

    /// Whether goodputs are what the policy holds the streams to.
    fn held(&self, goodputs: [Rate; 2]) -> bool {
        goodputs.into_iter().zip(HELD.map(payload)).all(|(got, held)| {
            (held.fraction(self.least, 100)..held.fraction(110, 100)).contains(&got)
        })
    }

    /// Whether together they fill the link, and none is held any more.
    fn free(&self, goodputs: [Rate; 2]) -> bool {
        let above = goodputs.into_iter().zip(HELD).any(|(got, held)| got > held.fraction(3, 2));
        above && goodputs.into_iter().sum::<Rate>() > payload(LINK).fraction(85, 100)
    }

    #[track_caller]
    fn until(&self, wanted: fn(&Self, [Rate; 2]) -> bool, what: &str) -> Duration {
        let start = Instant::now();
        loop {
            let now = self.now();
            if wanted(self, now) {
                return start.elapsed();
            }
            assert!(start.elapsed() < PATIENCE, "{what}: goodput stays {now:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the streams are held; how long that took.
    #[track_caller]
    pub fn until_held(&self, what: &str) -> Duration {
        self.until(Self::held, what)
    }

    /// Waits until they fill the link; how long that took.
    #[track_caller]
    pub fn until_free(&self, what: &str) -> Duration {
        self.until(Self::free, what)
    }

    /// That the streams are held all through a time from now on.
    #[track_caller]
    pub fn stay_held(&self, during: Duration, what: &str) {
        thread::sleep(during);
        let to = Instant::now();
        let window = Window { from: to - during, to };
        let got = self.streams.each_ref().map(|stream| stream.goodput(window));
        assert!(self.held(got), "{what}: {got:?}");
    }

    /// What the application declares.
    pub fn connections(&self) -> [Connection; 2] {
        self.streams.each_ref().map(|stream| stream.connection)
    }

    pub fn mark(&self) -> Mark {
        Mark { at: Instant::now(), again: self.again(), dropped: self.dropped() }
    }

    /// What was suffered since.
    pub fn since(&self, mark: &Mark) -> Suffered {
        let window = Window::since(mark.at);
        let gap = self.streams.iter().map(|stream| stream.gap(window)).max().unwrap();
        let (again, dropped) = (self.again() - mark.again, self.dropped() - mark.dropped);
        Suffered { losses: self.probe.losses(window), gap, again, dropped }
    }

    fn again(&self) -> u64 {
        self.hosts.iter().map(|host| host.visit(|| Ok(sent_again())).unwrap()).sum()
    }

    /// Packets that the links' queues have dropped.
    fn dropped(&self) -> u64 {
        let of = |room: &String| {
            let listed = Command::new("tc").args(["-n", room, "-s", "qdisc", "show"]).output();
            let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
            let mut is_queue = false;
            let mut sum = 0;
            for line in listed.lines() {
                if line.starts_with("qdisc") {
                    is_queue = line.contains("qdisc pfifo ");
                } else if let Some((_, rest)) = line.split_once("(dropped ").filter(|_| is_queue) {
                    sum += rest.split(',').next().unwrap().parse::<u64>().unwrap();
                }
            }
            sum
        };
        self.rooms.iter().map(of).sum()
    }
}

/// `RetransSegs` of this thread's namespace (RFC 4022, section 4).
fn sent_again() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(name, _)| *name == "RetransSegs").unwrap().1.parse().unwrap()
}
