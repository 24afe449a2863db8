//! An agent with one port, and its kernel in memory.

use agent::{
    Actuator, Agent, Capacity, Ended, Failure, Kernel, Lapse, Operation, Port, PortNumber,
};
use model::{Cap, Caps, PortWatch, Thresholds};
use protocol::agent::{Command, Commands, ConnectionReport, Report};
use protocol::{Connection, Process};
use units::{Bytes, Rate, Span, Time};

pub const LEASE: Span = Span::from_secs(3);
pub const SECOND: Span = Span::from_secs(1);
pub const PORT: PortNumber = PortNumber(0);
pub const RATE: Rate = Rate::from_mbps(5);
pub const THRESHOLDS: Thresholds =
    Thresholds { low: 30, medium: 60, high: 85, recovery: Span::from_secs(1) };
pub const CAP: Cap = Cap { bytes: Bytes::new(3_000), floor_segments: 1 };

pub fn s(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

pub fn connection(source: u16) -> Connection {
    let end = |last, port| ([10, 0, 0, last], port).into();
    Connection { source: end(1, source), destination: end(2, 80) }
}

pub fn pace(source: u16, rate_bps: Option<Rate>) -> Command {
    Command::Pace { connection: connection(source), rate_bps }
}

pub fn window(source: u16, cap: Option<Cap>) -> Command {
    let (node, interface) = ("s1".into(), "eth0".into());
    Command::Window { node, interface, connection: Some(connection(source)), cap }
}

pub fn prepare(connection: Option<Connection>, caps: Caps) -> Command {
    Command::Prepare { node: "s1".into(), interface: "eth0".into(), connection, caps }
}

pub fn space(gap_ns: Option<Span>) -> Command {
    Command::Space { node: "s1".into(), interface: "eth0".into(), gap_ns }
}

pub fn class(source: u16, priority: u8) -> Command {
    Command::Prioritize { connection: connection(source), priority }
}

pub fn watch(watch: Option<PortWatch>) -> Command {
    Command::Watch { node: "s1".into(), interface: "eth0".into(), watch }
}

pub fn queue(thresholds: Thresholds) -> Command {
    watch(Some(PortWatch { thresholds: Some(thresholds) }))
}

/// An agent with one port that has three classes, and its kernel.
pub struct Host {
    pub agent: Agent,
    pub kernel: Kernel,
    pub sequence: u64,
    pub lease: Span,
    pub fails: Option<fn(&Operation) -> bool>,
    /// Connections that are open; `None`: its kernel tells nothing of them.
    pub open: Option<u16>,
    /// The connection that ends right after the next sample.
    pub ends: Option<u16>,
    /// What the agent had its kernel do.
    pub operations: Vec<Operation>,
    /// How long a sample takes, or a look at counters.
    pub takes: Span,
}

/// A kernel that notes what it has to do, and may fail at it.
struct Failing<'a>(
    &'a mut Kernel,
    Option<fn(&Operation) -> bool>,
    Option<u16>,
    &'a mut Vec<Operation>,
    &'a mut Option<u16>,
    Span,
);

impl Actuator for Failing<'_> {
    fn now(&self, began: Time) -> Time {
        began + self.5
    }

    fn execute(&mut self, now: Time, operation: &Operation) -> Result<(), Failure> {
        self.3.push(*operation);
        if self.1.is_some_and(|fails| fails(operation)) {
            return Err("no".into());
        }
        self.0.execute(now, operation)
    }

    fn sample(&mut self, _: &[Process]) -> Result<Vec<ConnectionReport>, Failure> {
        let Some(open) = self.2 else {
            return Err("no sample".into());
        };
        let report = |source| ConnectionReport {
            connection: connection(source),
            delivered_bytes: Bytes::ZERO,
            unsent_bytes: Bytes::ZERO,
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: Vec::new(),
        };
        if let Some(source) = self.4.take() {
            self.0.end(connection(source), Bytes::new(9), Process::Cgroup("/a".into()));
        }
        Ok((0..open).map(report).collect())
    }

    fn ended(&mut self, processes: &[Process]) -> Result<Ended, Failure> {
        self.0.ended(processes)
    }

    fn count(&mut self) -> Result<Vec<(PortNumber, Bytes)>, Failure> {
        // The last is of a port that the agent doesn't know.
        Ok([0, 9].map(|number| (PortNumber(number), Bytes::new(70 + u64::from(number)))).to_vec())
    }
}

pub fn port(interface: &str) -> Port {
    Port { node: "s1".into(), interface: interface.into(), classes: 3, watchable: true }
}

pub fn machine() -> Agent {
    Agent::new(vec![port("eth0")], true)
}

impl Host {
    pub fn new() -> Self {
        let kernel = Kernel::new(1, Capacity { limits: 4, connections: 4, ended: 2_000 });
        let (agent, operations) = (machine(), Vec::new());
        Self {
            agent,
            kernel,
            sequence: 0,
            lease: LEASE,
            fails: None,
            open: Some(2_500),
            ends: None,
            operations,
            takes: Span::ZERO,
        }
    }

    pub fn told(
        &mut self,
        now: Time,
        epoch: u64,
        complete: bool,
        commands: Vec<Command>,
    ) -> Result<Vec<Report>, Lapse> {
        self.sequence += 1;
        let sequence = self.sequence;
        let commands = Commands { epoch, sequence, lease_ns: self.lease, complete, commands };
        let mut reports = Vec::new();
        let mut actuator = Failing(
            &mut self.kernel,
            self.fails,
            self.open,
            &mut self.operations,
            &mut self.ends,
            self.takes,
        );
        self.agent.obey(now, &commands, &mut actuator, &mut reports).map(|()| reports)
    }

    pub fn tick(&mut self, now: Time) -> Vec<Report> {
        let (reports, done) = self.try_tick(now);
        done.unwrap();
        reports
    }

    pub fn try_tick(&mut self, now: Time) -> (Vec<Report>, Result<(), Failure>) {
        let mut reports = Vec::new();
        let mut actuator = Failing(
            &mut self.kernel,
            self.fails,
            self.open,
            &mut self.operations,
            &mut self.ends,
            self.takes,
        );
        let done = self.agent.tick(now, &mut actuator, &mut reports);
        (reports, done)
    }

    pub fn all(&mut self, now: Time, epoch: u64, commands: Vec<Command>) -> Vec<Report> {
        self.told(now, epoch, true, commands).unwrap()
    }

    /// The sources of the connections that are held to a rate.
    pub fn paced(&self, now: Time) -> Vec<u16> {
        self.kernel.limits(now).map(|(connection, _)| connection.source.port()).collect()
    }

    pub fn applied(&self, epoch: u64) -> Report {
        Report::Applied { epoch, sequence: self.sequence }
    }
}
