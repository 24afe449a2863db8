//! What an agent obeys, for how long, and what it reports, on a kernel in memory.
#![allow(clippy::unwrap_used)] // a test may panic

use agent::{
    Actuator, Agent, Capacity, Ended, Failure, Happening, Kernel, Lapse, Leases, Operation, Port,
    PortNumber,
};
use model::{Cap, Caps, PortWatch, Severity, Thresholds};
use proptest::prelude::*;
use protocol::agent::{
    Capability, Command, Commands, ConnectionReport, EndedConnection, MOST_EPOCH, MOST_GAP,
    MOST_IDENTIFIED, MOST_LEASE, PortCount, Report,
};
use protocol::{Connection, Process};
use units::{Bytes, Rate, Span, Time};

const LEASE: Span = Span::from_secs(3);
const SECOND: Span = Span::from_secs(1);
const PORT: PortNumber = PortNumber(0);
const RATE: Rate = Rate::from_mbps(5);
const THRESHOLDS: Thresholds =
    Thresholds { low: 30, medium: 60, high: 85, recovery: Span::from_secs(1) };
const CAP: Cap = Cap { bytes: Bytes::new(3_000), floor_segments: 1 };

fn s(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn connection(source: u16) -> Connection {
    let end = |last, port| ([10, 0, 0, last], port).into();
    Connection { source: end(1, source), destination: end(2, 80) }
}

fn pace(source: u16, rate_bps: Option<Rate>) -> Command {
    Command::Pace { connection: connection(source), rate_bps }
}

fn window(source: u16, cap: Option<Cap>) -> Command {
    let (node, interface) = ("s1".into(), "eth0".into());
    Command::Window { node, interface, connection: Some(connection(source)), cap }
}

fn prepare(connection: Option<Connection>, caps: Caps) -> Command {
    Command::Prepare { node: "s1".into(), interface: "eth0".into(), connection, caps }
}

fn space(gap_ns: Option<Span>) -> Command {
    Command::Space { node: "s1".into(), interface: "eth0".into(), gap_ns }
}

fn class(source: u16, priority: u8) -> Command {
    Command::Prioritize { connection: connection(source), priority }
}

fn watch(watch: Option<PortWatch>) -> Command {
    Command::Watch { node: "s1".into(), interface: "eth0".into(), watch }
}

fn queue(thresholds: Thresholds) -> Command {
    watch(Some(PortWatch { thresholds: Some(thresholds) }))
}

/// An agent with one port that has three classes, and its kernel.
struct Host {
    agent: Agent,
    kernel: Kernel,
    sequence: u64,
    lease: Span,
    fails: Option<fn(&Operation) -> bool>,
    /// Connections that are open; `None`: its kernel tells nothing of them.
    open: Option<u16>,
    /// The connection that ends right after the next sample.
    ends: Option<u16>,
    /// What the agent had its kernel do.
    operations: Vec<Operation>,
    /// How long a sample takes, or a look at counters.
    takes: Span,
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

fn port(interface: &str) -> Port {
    Port { node: "s1".into(), interface: interface.into(), classes: 3, watchable: true }
}

fn machine() -> Agent {
    Agent::new(vec![port("eth0")], true)
}

impl Host {
    fn new() -> Self {
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

    fn told(
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

    fn tick(&mut self, now: Time) -> Vec<Report> {
        let (reports, done) = self.try_tick(now);
        done.unwrap();
        reports
    }

    fn try_tick(&mut self, now: Time) -> (Vec<Report>, Result<(), Failure>) {
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

    fn all(&mut self, now: Time, epoch: u64, commands: Vec<Command>) -> Vec<Report> {
        self.told(now, epoch, true, commands).unwrap()
    }

    /// The sources of the connections that are held to a rate.
    fn paced(&self, now: Time) -> Vec<u16> {
        self.kernel.limits(now).map(|(connection, _)| connection.source.port()).collect()
    }

    fn applied(&self, epoch: u64) -> Report {
        Report::Applied { epoch, sequence: self.sequence }
    }
}

#[test]
fn an_epoch_that_is_over_is_refused() {
    let mut host = Host::new();
    host.all(s(0), 5, vec![pace(1, Some(RATE))]);
    let answer = host.all(s(1), 4, vec![]);
    assert_eq!(answer, [Report::Stale { epoch: 4, obeys: 5 }]);
    assert_eq!(host.paced(s(1)), [1]);
    assert_eq!(host.paced(s(3)), [0; 0], "and renewed nothing");
}

#[test]
fn what_no_controller_says_is_not_obeyed() {
    let mut host = Host::new();
    host.all(s(0), MOST_EPOCH, vec![pace(1, Some(RATE))]);
    let beyond = MOST_EPOCH + 1;
    assert_eq!(host.told(s(1), beyond, true, vec![]), Err(Lapse::Epoch(beyond)));
    host.lease = MOST_LEASE + Span::from_nanos(1);
    let long = host.lease;
    assert_eq!(host.told(s(1), MOST_EPOCH, true, vec![]), Err(Lapse::Lease(long)));
    assert_eq!(host.paced(s(1)), [1]);
    assert_eq!(host.paced(s(3)), [0; 0], "nothing was renewed");
}

#[test]
fn after_a_lapse_everything_has_to_be_said_anew() {
    let mut host = Host::new();
    assert_eq!(host.told(s(0), 1, false, vec![]), Err(Lapse::Ended), "before anything stands");
    host.all(s(0), 1, vec![pace(1, Some(RATE))]);
    assert_eq!(host.told(s(2), 1, false, vec![pace(2, Some(RATE))]), Ok(vec![host_applied(3)]));
    assert_eq!(host.paced(s(4)), [1, 2], "all was renewed");
    assert_eq!(host.told(s(5), 1, false, vec![pace(3, Some(RATE))]), Err(Lapse::Ended));
    assert_eq!(host.paced(s(5)), [0; 0]);
    host.all(s(6), 1, vec![pace(3, Some(RATE))]);
    assert_eq!(host.paced(s(6)), [3], "what lapsed doesn't come back");
    assert_eq!(
        host.told(s(6), 2, false, vec![]),
        Err(Lapse::Ended),
        "a controller that said nothing yet"
    );
}

fn host_applied(sequence: u64) -> Report {
    Report::Applied { epoch: 1, sequence }
}

#[test]
fn complete_ends_what_its_epoch_granted_and_no_more() {
    let mut host = Host::new();
    let all = |sources: [u16; 2]| -> Vec<Command> {
        let paced = sources.map(|source| pace(source, Some(RATE)));
        let capped = sources.map(|source| window(source, Some(CAP)));
        let classed = sources.map(|source| class(source, 9));
        [paced, capped, classed].concat()
    };
    let stand = |host: &Host, now, source| {
        let connection = connection(source);
        let cap = host.kernel.cap(now, PORT, Severity::Recovered, &connection);
        let class = host.kernel.class(now, PORT, &connection);
        assert_eq!(cap.is_some(), class.is_some());
        assert!(class.is_none_or(|class| class == 2), "the last class takes the rest");
        assert_eq!(cap.is_some(), host.kernel.limit(now, &connection).is_some());
        cap.is_some()
    };
    host.all(s(0), 1, all([1, 2]));
    host.all(s(1), 2, all([2, 3]));
    assert_eq!([1, 2, 3].map(|source| stand(&host, s(2), source)), [true; 3], "1 has its lease");
    assert_eq!([1, 2, 3].map(|source| stand(&host, s(3), source)), [false, true, true]);
    host.all(s(3), 2, all([3, 4]));
    assert_eq!([1, 2, 3, 4].map(|source| stand(&host, s(4), source)), [false, false, true, true]);
    host.all(s(4), 2, vec![]);
    assert_eq!([3, 4].map(|source| stand(&host, s(4), source)), [false; 2]);
}

#[test]
fn whatever_is_said_renews_the_lease() {
    let mut host = Host::new();
    host.all(s(0), 1, vec![pace(1, Some(RATE))]);
    for second in [2, 4, 6] {
        assert_eq!(host.told(s(second), 1, false, vec![]), Ok(vec![host.applied(1)]));
        assert_eq!(host.agent.deadline(), Some(s(second) + LEASE), "in the agent");
        assert_eq!(host.kernel.leases().end(1), s(second) + LEASE, "in its kernel");
    }
}

/// Of all connections of a port together, until the lease ends or complete commands don't name it.
#[test]
fn spacing_ends_with_its_lease_and_is_bounded() {
    let mut host = Host::new();
    let gap = Some(Span::from_micros(120));
    assert_eq!(host.all(s(0), 1, vec![space(gap)]), [host_applied(1)]);
    assert_eq!([s(2), s(3)].map(|at| host.kernel.gap(at, PORT)), [gap, None]);
    // Others don't end it, and it is renewed with all else.
    host.told(s(2), 1, false, vec![pace(1, Some(RATE))]).unwrap();
    assert_eq!([s(4), s(5)].map(|at| host.kernel.gap(at, PORT)), [gap, None]);
    for wrong in [Span::ZERO, MOST_GAP + Span::from_nanos(1)] {
        let reports = host.told(s(3), 1, false, vec![space(Some(wrong))]).unwrap();
        assert!(matches!(&reports[0], Report::Failed { reason, .. } if reason.contains("held")));
        assert_eq!(host.kernel.gap(s(3), PORT), gap, "what stood stands");
    }
    host.told(s(3), 1, false, vec![space(Some(MOST_GAP))]).unwrap();
    assert_eq!(host.kernel.gap(s(3), PORT), Some(MOST_GAP));
    host.told(s(3), 1, false, vec![space(None)]).unwrap();
    assert_eq!(host.kernel.gap(s(3), PORT), None);
    host.all(s(3), 1, vec![space(gap)]);
    host.all(s(4), 1, vec![]);
    assert_eq!(host.kernel.gap(s(4), PORT), None, "complete commands don't name it");
}

#[test]
fn what_has_ended_makes_room_and_is_forgotten() {
    let all = |sources: std::ops::RangeInclusive<u16>| -> Vec<Command> {
        let each = |source| [pace(source, Some(RATE)), window(source, Some(CAP)), class(source, 1)];
        sources.flat_map(each).collect()
    };
    // The epoch's lease ends while another stands; or nothing does, and the same epoch begins again; or
    // the next epoch takes its place.
    for (next, at, ticks) in [(2, s(3), true), (1, s(3), true), (1, s(3), false), (9, s(1), false)]
    {
        let mut host = Host::new();
        host.all(s(0), 1, all(1..=4));
        if next == 2 {
            host.all(s(1), 2, vec![]);
        }
        assert_eq!(host.kernel.granted().count(), 4);
        host.operations.clear();
        if ticks {
            assert_eq!(host.agent.deadline(), Some(at));
            assert_eq!(host.tick(at), []);
            assert_eq!(host.operations, [Operation::Sweep]);
            assert_eq!(host.kernel.granted().count(), 0, "swept out");
        }
        host.operations.clear();
        let gone = vec![pace(1, None), window(1, None), class(1, 0)];
        let answer = host.all(at, next, [gone, all(5..=8)].concat());
        assert_eq!(answer, [host.applied(next)], "there is room");
        assert_eq!(host.operations.len(), 13, "and nothing to end: {:?}", host.operations);
    }
}

/// What a kernel held under a lease that ended doesn't come back with the next lease of the epoch.
#[test]
fn a_lease_that_begins_again_begins_with_nothing() {
    let (mut kernel, only) =
        (Kernel::new(1, Capacity { limits: 4, connections: 4, ended: 2_000 }), connection(1));
    let renew = Operation::Renew { epoch: 1, lease: LEASE };
    let granted = [
        renew,
        Operation::Pace { connection: only, rate: Some(RATE) },
        Operation::Cap { port: PORT, connection: Some(only), caps: Some(CAP.into()) },
        Operation::Classify { port: PORT, connection: only, class: Some(1) },
    ];
    granted.iter().for_each(|operation| kernel.execute(s(0), operation).unwrap());
    let stands = |kernel: &Kernel, now| {
        let (cap, class) =
            (kernel.cap(now, PORT, Severity::High, &only), kernel.class(now, PORT, &only));
        [kernel.limit(now, &only).is_some(), cap.is_some(), class.is_some()]
    };
    assert_eq!([s(0), s(3)].map(|now| stands(&kernel, now)), [[true; 3], [false; 3]]);
    kernel.execute(s(4), &renew).unwrap();
    assert_eq!(stands(&kernel, s(4)), [false; 3]);
    assert_eq!(kernel.granted().count(), 0);
}

#[test]
fn the_cap_of_a_connection_goes_before_that_of_its_port() {
    let mut host = Host::new();
    let wide = Cap { bytes: Bytes::new(9_000), ..CAP };
    let (node, interface) = ("s1".into(), "eth0".into());
    let all = Command::Window { node, interface, connection: None, cap: Some(wide) };
    host.all(s(0), 1, vec![all, window(1, Some(CAP))]);
    let caps =
        |host: &Host| [1, 2].map(|of| host.kernel.cap(s(0), PORT, Severity::Low, &connection(of)));
    assert_eq!(caps(&host), [Some(CAP), Some(wide)]);
    host.told(s(0), 1, false, vec![window(1, None)]).unwrap();
    assert_eq!(caps(&host), [Some(wide); 2]);
}

/// A port changes between prepared caps by itself; what is told takes their place, and lasts as long.
#[test]
fn prepared_caps_go_by_severity_and_end_with_the_lease() {
    let mut host = Host::new();
    let wide = Cap { bytes: Bytes::new(9_000), ..CAP };
    let caps = Caps { medium: Some(wide), high: Some(CAP), ..Caps::default() };
    host.all(s(0), 1, vec![prepare(None, caps), prepare(Some(connection(1)), Caps::default())]);
    let stand = |host: &Host, now, of| {
        Severity::ALL.map(|severity| host.kernel.cap(now, PORT, severity, &connection(of)))
    };
    let prepared = [None, None, Some(wide), Some(CAP)];
    assert_eq!(stand(&host, s(2), 2), prepared);
    assert_eq!(
        stand(&host, s(2), 1),
        [None; 4],
        "its own go before those of all, also where they are none"
    );
    host.told(s(2), 1, false, vec![window(1, Some(CAP))]).unwrap();
    assert_eq!(stand(&host, s(4), 1), [Some(CAP); 4], "in their place, and all are renewed");
    assert_eq!(stand(&host, s(4), 2), prepared);
    assert_eq!(stand(&host, s(5), 2), [None; 4], "the lease is over");
    host.told(s(4), 1, false, vec![window(1, None)]).unwrap();
    assert_eq!(stand(&host, s(4), 1), prepared, "those of all");
    // What complete commands don't name ends.
    host.all(s(4), 1, vec![]);
    assert_eq!(stand(&host, s(4), 2), [None; 4]);
}

#[test]
fn whichever_command_fails_it_is_reported() {
    let mut host = Host::new();
    host.fails = Some(|operation| !matches!(operation, Operation::Renew { .. }));
    let commands = [
        pace(1, Some(RATE)),
        class(1, 1),
        window(1, Some(CAP)),
        prepare(None, CAP.into()),
        space(Some(MOST_GAP)),
        watch(Some(PortWatch::default())),
    ];
    let answer = host.all(s(0), 1, commands.to_vec());
    let failed = commands.map(|command| Report::Failed {
        epoch: 1,
        sequence: 1,
        command,
        reason: "no".into(),
    });
    assert_eq!(answer, [&failed[..], &[host.applied(1)]].concat());
    host.operations.clear();
    host.all(s(1), 1, vec![]);
    assert_eq!(host.operations.len(), 1, "nothing stands that had to end");
}

#[test]
fn what_fails_is_reported_and_the_rest_is_done() {
    let mut host = Host::new();
    let unknown = Connection { source: ([10, 0, 0, 1], 0).into(), ..connection(1) };
    let unlocated = Command::Prioritize { connection: unknown, priority: 1 };
    let (node, interface) = ("s1".into(), "eth0".into());
    let unheard = Command::Window { node, interface, connection: Some(unknown), cap: Some(CAP) };
    let unknown = Command::Pace { connection: unknown, rate_bps: Some(RATE) };
    let (node, interface) = ("s1".into(), "eth7".into());
    let nowhere = Command::Window { node, interface, connection: None, cap: Some(CAP) };
    let falling = queue(Thresholds { low: 60, ..THRESHOLDS });
    let deep = queue(Thresholds { high: Thresholds::MOST_LIVE + 1, ..THRESHOLDS });
    let full = pace(5, Some(RATE));
    let at_once = queue(Thresholds { recovery: Span::ZERO, ..THRESHOLDS });
    let [still, fast] = [7, 40_000_000_000].map(|bps| pace(1, Some(Rate::from_bps(bps))));
    let refused = [unknown, unlocated, unheard, nowhere, falling, deep, at_once, still, fast];
    let commands: Vec<_> = refused
        .iter()
        .cloned()
        .chain((1..=4).map(|source| pace(source, Some(RATE))))
        .chain([full.clone()])
        .collect();
    let answer = host.all(s(0), 1, commands);
    let failed: Vec<_> = answer
        .iter()
        .filter_map(|report| match report {
            Report::Failed { command, reason, .. } => Some((command.clone(), reason.as_str())),
            _ => None,
        })
        .collect();
    let commands: Vec<_> = failed.iter().map(|(command, _)| command.clone()).collect();
    assert_eq!(commands, [&refused[..], &[full]].concat());
    let parts = ["port", "port", "port", "eth7", "rise", "rise", "rise", "held", "held", "full"];
    for ((_, reason), part) in failed.iter().zip(parts) {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(answer.last(), Some(&host.applied(1)));
    assert_eq!(host.paced(s(0)), [1, 2, 3, 4]);
    // A full map takes another rate of a connection that it holds.
    let other = vec![pace(1, Some(Rate::from_mbps(6)))];
    assert_eq!(host.told(s(0), 1, false, other), Ok(vec![host.applied(1)]));
    // What doesn't stand needs no ending.
    let gone = [pace(9, None), window(9, None), watch(None)];
    assert_eq!(host.all(s(1), 1, gone.to_vec()), [host.applied(1)]);
}

#[test]
fn a_priority_that_one_of_two_ports_refuses_is_reported() {
    let mut host = Host::new();
    host.agent = Agent::new(vec![port("eth0"), port("eth1")], true);
    host.kernel = Kernel::new(2, Capacity { limits: 4, connections: 4, ended: 2_000 });
    host.fails = Some(|operation| matches!(operation, Operation::Classify { port: PORT, .. }));
    let answer = host.all(s(0), 1, vec![class(1, 2)]);
    assert!(matches!(&answer[0], Report::Failed { command, .. } if *command == class(1, 2)));
    assert_eq!(host.kernel.class(s(0), PortNumber(1), &connection(1)), Some(2), "the other");
}

#[test]
fn a_port_is_found_by_its_node_and_its_interface() {
    let mut host = Host::new();
    let of = |node: &str| Port { node: node.into(), ..port("eth0") };
    host.agent = Agent::new(vec![of("s1"), of("s2")], true);
    host.kernel = Kernel::new(2, Capacity { limits: 4, connections: 4, ended: 2_000 });
    let told = |node: &str| {
        let (node, interface) = (node.to_owned(), "eth0".to_owned());
        Command::Window { node, interface, connection: None, cap: Some(CAP) }
    };
    assert_eq!(host.all(s(0), 1, vec![told("s2")]), [host.applied(1)]);
    let caps =
        [0, 1].map(|port| host.kernel.cap(s(0), PortNumber(port), Severity::Low, &connection(1)));
    assert_eq!(caps, [None, Some(CAP)]);
    let answer = host.told(s(0), 1, false, vec![told("s3")]).unwrap();
    assert!(
        matches!(&answer[0], Report::Failed { reason, .. } if reason.contains("eth0 of s3")),
        "{answer:?}"
    );
}

/// A port may have classes alone: nothing is watched or capped there.
#[test]
fn a_port_that_is_no_switch_has_no_queue_to_act_at() {
    let mut host = Host::new();
    host.agent = Agent::new(vec![Port { watchable: false, ..port("eth0") }], true);
    let commands = [window(1, Some(CAP)), watch(Some(PortWatch::default()))];
    let answer = host.all(s(0), 1, commands.to_vec());
    let failed = commands.map(|command| Report::Failed {
        epoch: 1,
        sequence: 1,
        command,
        reason: "no interface eth0 of s1 is configured here".into(),
    });
    assert_eq!(answer, [&failed[..], &[host.applied(1)]].concat());
    assert!(matches!(host.operations[..], [Operation::Renew { .. }]), "{:?}", host.operations);
    let priorities = vec![Capability::Pacing, Capability::Statistics, Capability::Priorities];
    assert_eq!(host.agent.capabilities(), priorities);
    assert_eq!(host.told(s(0), 1, false, vec![class(1, 1)]), Ok(vec![host_applied(2)]));
}

/// What no kernel can do is refused by the machine, whatever executes its operations.
#[test]
fn an_actuator_is_asked_for_nothing_impossible() {
    let mut host = Host::new();
    let other_family = Connection { source: "[fd00::1]:1".parse().unwrap(), ..connection(1) };
    host.all(
        s(0),
        1,
        vec![
            Command::Pace { connection: other_family, rate_bps: Some(RATE) },
            pace(1, Some(Rate::ZERO)),
            queue(Thresholds { low: 0, ..THRESHOLDS }),
        ],
    );
    assert!(matches!(host.operations[..], [Operation::Renew { .. }]), "{:?}", host.operations);
}

#[test]
fn what_cant_be_ended_is_reported_too() {
    let mut host = Host::new();
    host.all(s(0), 1, vec![pace(1, Some(RATE)), pace(2, Some(RATE))]);
    host.fails = Some(|operation| matches!(operation, Operation::Pace { rate: None, .. }));
    let answer = host.all(s(1), 1, vec![pace(2, Some(RATE))]);
    assert!(matches!(&answer[0], Report::Failed { command, .. } if *command == pace(1, None)));
    host.fails = None;
    host.all(s(2), 1, vec![]);
    assert_eq!(host.paced(s(2)), [0; 0], "tried again");
    // All else, too.
    let watching = watch(Some(PortWatch::default()));
    let prepared = prepare(None, CAP.into());
    let spaced = space(Some(MOST_GAP));
    host.all(s(2), 1, vec![window(1, Some(CAP)), prepared, class(1, 1), spaced, watching]);
    host.fails = Some(|operation| !matches!(operation, Operation::Renew { .. }));
    for _ in 0..2 {
        let answer = host.all(s(2), 1, vec![]);
        let (node, interface) = ("s1".into(), "eth0".into());
        let of_all = Command::Window { node, interface, connection: None, cap: None };
        let ends = [of_all, window(1, None), class(1, 0), space(None), watch(None)];
        let failed = ends.map(|command| Report::Failed {
            epoch: 1,
            sequence: host.sequence,
            command,
            reason: "no".into(),
        });
        assert_eq!(answer, [&failed[..], &[host.applied(1)]].concat());
    }
    host.fails = None;
    assert_eq!(host.all(s(2), 1, vec![]), [host.applied(1)]);
    let (kernel, only) = (&host.kernel, connection(1));
    let (cap, class) =
        (kernel.cap(s(2), PORT, Severity::Recovered, &only), kernel.class(s(2), PORT, &only));
    let (gap, watch) = (kernel.gap(s(2), PORT), kernel.watch(PORT));
    assert_eq!((cap, class, gap, watch), (None, None, None, None));
    // Without a lease nothing is granted and nothing confirmed.
    host.fails = Some(|operation| matches!(operation, Operation::Renew { .. }));
    for complete in [false, true] {
        let answer = host.told(s(2), 1, complete, vec![pace(1, Some(RATE))]);
        assert_eq!(answer, Err(Lapse::NotRenewed("no".into())));
    }
    assert_eq!(host.paced(s(2)), [0; 0]);
}

#[test]
fn an_agent_goes_on_from_what_another_left() {
    let mut host = Host::new();
    host.all(s(0), 7, vec![pace(1, Some(RATE)), pace(2, Some(RATE)), window(1, Some(CAP))]);
    host.kernel.abandon();
    host.agent = machine().after(host.kernel.leases().clone(), host.kernel.granted());
    assert_eq!(host.paced(s(1)), [1, 2]);
    assert_eq!(host.kernel.cap(s(1), PORT, Severity::Recovered, &connection(1)), None);
    assert_eq!(host.agent.epoch(), 7);
    assert!(matches!(host.agent.hello(vec![]), Report::Hello { epoch: 7, .. }));
    assert_eq!(host.told(s(1), 7, false, vec![]), Err(Lapse::Ended));
    host.all(s(1), 7, vec![pace(2, Some(RATE))]);
    assert_eq!(host.paced(s(1)), [2]);
}

#[test]
fn it_tells_of_watched_ports_and_samples_while_somebody_listens() {
    let mut host = Host::new();
    let mut reports = Vec::new();
    let congested = Happening::Congested { severity: Severity::High, queue: Bytes::new(9) };
    host.agent.hear(PORT, &congested, &mut reports);
    assert_eq!(reports, [], "not watched");
    let every = Span::from_millis(500);
    let sample = Command::Sample { every_ns: every };
    host.all(s(0), 1, vec![watch(Some(PortWatch::default())), sample]);
    assert_eq!(host.kernel.watch(PORT), Some(PortWatch::default()));
    host.agent.hear(PORT, &congested, &mut reports);
    host.agent.hear(PortNumber(9), &congested, &mut reports);
    let (node, interface) = ("s1".into(), "eth0".into());
    let (severity, queue_bytes) = (Severity::High, Bytes::new(9));
    assert_eq!(reports, [Report::Congested { node, interface, severity, queue_bytes }]);
    reports.clear();
    host.agent.hear(PORT, &Happening::Opened(connection(1)), &mut reports);
    host.agent.hear(PORT, &Happening::Closed(connection(2)), &mut reports);
    let (opened, closed) = (connection(1), connection(2));
    let said = [Report::Opened { connection: opened }, Report::Closed { connection: closed }];
    assert_eq!(reports, said);
    let due = host.agent.deadline().unwrap();
    assert_eq!(due, Time::ZERO, "the first at once");
    let reports = host.tick(due);
    let sizes = reports.iter().map(|report| match report {
        Report::Connections { sampled_ns, connections } => {
            assert_eq!(*sampled_ns, due);
            connections.len()
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [1_000, 1_000, 500]);
    assert_eq!(host.agent.deadline(), Some(due + every));
    host.agent.disconnected();
    assert_eq!(host.agent.deadline(), Some(s(3)), "the lease");
    assert_eq!(host.tick(s(3)), []);
    assert_eq!(host.agent.deadline(), None);
    host.all(s(4), 1, vec![]);
    assert_eq!(host.kernel.watch(PORT), None);
    let all = host.agent.capabilities();
    assert_eq!(all, Capability::ALL);
}

#[test]
fn nobody_is_looked_for_when_the_controller_is_gone() {
    let mut host = Host::new();
    let processes = vec![Process::Pid(7)];
    host.all(s(0), 1, vec![Command::Identify { processes: processes.clone() }]);
    assert_eq!(host.agent.identified(), processes);
    host.agent.disconnected();
    assert_eq!(host.agent.identified(), []);
}

#[test]
fn complete_ends_samples_and_the_search_that_it_does_not_ask_for() {
    let mut host = Host::new();
    let every = Span::from_millis(500);
    let sample = Command::Sample { every_ns: every };
    let identify = Command::Identify { processes: vec![Process::Pid(7)] };
    let both = |host: &Host| {
        let samples = host.agent.deadline() == Some(Time::ZERO);
        (samples, host.agent.identified() == [Process::Pid(7)])
    };
    for (kept, stands) in [
        (vec![sample.clone()], (true, false)),
        (vec![identify.clone()], (false, true)),
        (vec![], (false, false)),
    ] {
        host.all(s(0), 1, vec![sample.clone(), identify.clone()]);
        host.told(s(0), 1, false, vec![]).unwrap();
        assert_eq!(both(&host), (true, true), "what is said besides leaves them");
        host.all(s(0), 1, kept.clone());
        assert_eq!(both(&host), stands, "{kept:?}");
    }
}

#[test]
fn no_more_processes_are_looked_for_than_a_command_may_name() {
    let mut host = Host::new();
    let identify = |many: usize| {
        let processes: Vec<_> = (1..).take(many).map(Process::Pid).collect();
        Command::Identify { processes }
    };
    let answer = host.all(s(0), 1, vec![identify(MOST_IDENTIFIED)]);
    assert_eq!(answer, [host.applied(1)]);
    let answer = host.told(s(0), 1, false, vec![identify(MOST_IDENTIFIED + 1)]).unwrap();
    assert!(
        matches!(&answer[0], Report::Failed { reason, .. } if reason.contains("no more than 256")),
        "{answer:?}"
    );
    assert_eq!(host.agent.identified().len(), MOST_IDENTIFIED, "those before");
}

#[test]
fn a_late_sample_is_one_and_the_next_has_its_time() {
    let mut host = Host::new();
    let every = Span::from_millis(500);
    host.all(s(0), 1, vec![Command::Sample { every_ns: every }]);
    assert_eq!(host.tick(s(2)).len(), 3, "one, of three parts");
    assert_eq!(host.agent.deadline(), Some(s(2) + every));
    assert_eq!(host.tick(s(2) + Span::from_millis(499)), []);
    assert_eq!(host.tick(s(2) + every).len(), 3);
}

/// Else whoever samples as fast as it can would hear no controller.
#[test]
fn between_samples_there_is_time_for_the_controller() {
    let mut host = Host::new();
    for every in [Command::Sample { every_ns: SECOND }, Command::Count { every_ns: SECOND }] {
        for (takes, rest) in [(400, 1_000), (3_000, 3_000)] {
            let (began, takes) = (s(10), Span::from_millis(takes));
            host.agent.disconnected();
            (host.takes, host.lease) = (takes, SECOND * 60);
            host.all(began, 1, vec![every.clone()]);
            assert!(!host.tick(began).is_empty());
            // What counters are read after takes its time as well.
            let done = began + takes * if matches!(every, Command::Count { .. }) { 2 } else { 1 };
            assert_eq!(host.agent.deadline(), Some(done + Span::from_millis(rest)), "{every:?}");
        }
    }
}

/// Without it a controller would take what goes on for what begins.
#[test]
fn whoever_begins_to_want_samples_has_the_first_at_once() {
    let mut host = Host::new();
    let sample = || vec![Command::Sample { every_ns: Span::from_secs(1) }];
    let at = |ms| s(2) + Span::from_millis(ms);
    host.all(at(0), 1, sample());
    assert_eq!(host.tick(at(0)).len(), 3);
    host.all(at(100), 1, sample());
    assert_eq!(host.tick(at(100)).len(), 0, "it was wanted already");
    host.agent.disconnected();
    host.all(at(200), 2, sample());
    assert_eq!(host.tick(at(200)).len(), 3, "over another connection");
    host.all(at(300), 2, vec![]);
    host.all(at(400), 2, sample());
    assert_eq!(host.tick(at(400)).len(), 3, "nobody wanted any");
}

/// That nothing is open any more is said: else nobody would know that what was open is gone.
#[test]
fn an_empty_sample_is_told() {
    let mut host = Host::new();
    host.all(s(0), 1, vec![Command::Sample { every_ns: Span::from_secs(1) }]);
    host.open = Some(0);
    let none = Report::Connections { sampled_ns: s(1), connections: vec![] };
    assert_eq!(host.tick(s(1)), [none]);
}

/// That nothing was seen is not said of a kernel that tells nothing.
#[test]
fn a_sample_that_fails_is_told_and_tried_again() {
    let mut host = Host::new();
    host.all(s(0), 1, vec![Command::Sample { every_ns: Span::from_secs(1) }]);
    host.open = None;
    let failed = || Err("no sample".to_owned());
    let told = |reports: &[Report], number| {
        let every = Command::Sample { every_ns: Span::from_secs(1) };
        matches!(&reports[0], Report::Failed { epoch: 1, sequence, command, reason }
            if (*sequence, command) == (number, &every) && reason == "no sample")
    };
    let (reports, done) = host.try_tick(s(1));
    assert!(told(&reports, 1) && reports.len() == 1 && done == failed(), "{reports:?}");
    assert_eq!(host.agent.deadline(), Some(s(2)));
    assert_eq!(host.try_tick(s(2)), (vec![], failed()), "once is enough");
    // Whoever asks for it again hears that it still fails, and then that it doesn't.
    let again = || vec![Command::Sample { every_ns: Span::from_secs(1) }];
    assert!(told(&host.told(s(2), 1, false, again()).unwrap(), 2));
    host.open = Some(2_500);
    assert_eq!(host.try_tick(s(3)).1, Ok(()));
    let answer = host.told(s(3), 1, false, again()).unwrap();
    assert!(matches!(answer[..], [Report::Applied { .. }]), "{answer:?}");
    // What can't be swept out doesn't keep connections from being sampled.
    host.open = Some(2_500);
    host.fails = Some(|operation| matches!(operation, Operation::Sweep));
    let (reports, done) = host.try_tick(s(100));
    assert_eq!((reports.len(), done), (3, Err("no".to_owned())), "the lease is over");
}

/// The controller goes on above the highest epoch that an agent obeyed.
#[test]
fn a_hello_names_whom_it_acts_for_what_it_can_and_whom_it_obeyed() {
    let mut host = Host::new();
    let hosts = vec![protocol::agent::Host { name: "h1".into(), addresses: vec![] }];
    let hello = |host: &Host| host.agent.hello(hosts.clone());
    let of = |epoch| {
        let capabilities = Capability::ALL.to_vec();
        Report::Hello { hosts: hosts.clone(), capabilities, epoch }
    };
    assert_eq!(hello(&host), of(0), "nobody");
    host.all(s(0), 5, vec![]);
    host.all(s(1), 4, vec![]);
    host.agent.disconnected();
    assert_eq!(hello(&host), of(5));
    host.agent = Agent::new(vec![Port { watchable: false, classes: 0, ..port("eth0") }], false);
    assert_eq!(host.agent.capabilities(), [Capability::Pacing], "no samples, no queue, no classes");
}

#[test]
fn samples_come_no_faster_than_each_millisecond_and_ports_are_watched_no_longer_than_told() {
    let mut host = Host::new();
    let sample = Command::Sample { every_ns: Span::from_nanos(1) };
    host.all(s(0), 1, vec![sample, watch(Some(PortWatch::default()))]);
    host.tick(s(0));
    assert_eq!(host.agent.deadline(), Some(Time::ZERO + Span::from_millis(1)));
    host.told(s(0), 1, false, vec![watch(None)]).unwrap();
    let mut reports = Vec::new();
    host.agent.hear(PORT, &Happening::Opened(connection(1)), &mut reports);
    assert_eq!((host.kernel.watch(PORT), reports), (None, vec![]));
}

/// What ended is told with the next sample, before it, in parts; and what there was no room for by its number.
#[test]
fn what_has_ended_is_told_before_the_sample_and_not_in_it() {
    let mut host = Host::new();
    let group = |name: &str| Process::Cgroup(name.into());
    let end = |host: &mut Host, source: u16, bytes| {
        host.kernel.end(connection(source), Bytes::new(bytes), group("/a"));
    };
    let told = |ports: std::ops::Range<u16>, lost, processes: &[Process]| Report::Ended {
        sampled_ns: s(1),
        connections: ports
            .map(|source| EndedConnection {
                connection: connection(source),
                sent_bytes: Bytes::new(u64::from(source) + 1),
                processes: processes.to_vec(),
            })
            .collect(),
        lost,
    };
    host.open = Some(2);
    let wishes = || {
        vec![
            Command::Sample { every_ns: Span::from_secs(1) },
            Command::Identify { processes: vec![group("/a"), group("/b")] },
        ]
    };
    host.all(s(0), 1, wishes());
    end(&mut host, 7, 1);
    let sampled = |report: &Report| match report {
        Report::Connections { connections, .. } => connections.len(),
        other => panic!("{other:?}"),
    };
    let first = host.tick(s(0));
    assert_eq!(first.len(), 1, "what ended before the first sample nobody has to know");
    assert_eq!(sampled(&first[0]), 2);
    // One of those that end is in the sample still; two more than fit; one that sent nothing.
    for source in 1..=2_002 {
        end(&mut host, source, u64::from(source) + 1);
    }
    end(&mut host, 3_000, 0);
    let reports = host.tick(s(1));
    let parts = [told(1..1_001, 2, &[group("/a")]), told(1_001..2_001, 0, &[group("/a")])];
    assert_eq!(reports[..2], parts);
    let another = "connection 1 is another one between the same ends";
    assert_eq!((reports.len(), sampled(&reports[2])), (3, 2), "{another}");
    assert_eq!(host.tick(s(2)).len(), 1, "it is told once");
    // What ends between the sample and the look for what ended is in it once more.
    host.ends = Some(1);
    let reports = host.tick(s(3));
    assert_eq!((reports.len(), sampled(&reports[1])), (2, 1), "connection 1 has ended");
    // The same ends may have been used again.
    [7, 8].into_iter().for_each(|bytes| end(&mut host, 3, bytes));
    let Report::Ended { connections, .. } = &parts[0] else { panic!() };
    let again = EndedConnection { sent_bytes: Bytes::new(15), ..connections[2].clone() };
    let once = Report::Ended { sampled_ns: s(4), connections: vec![again], lost: 0 };
    assert_eq!(host.tick(s(4))[0], once);
    // A kernel without room tells how many there were; a failed sample keeps nothing back.
    host.kernel = Kernel::new(1, Capacity { limits: 4, connections: 4, ended: 0 });
    end(&mut host, 7, 1);
    host.open = None;
    let (reports, done) = host.try_tick(s(5));
    let none = Report::Ended { sampled_ns: s(5), connections: vec![], lost: 1 };
    assert_eq!((&reports[0], done), (&none, Err("no sample".into())));
    assert!(matches!(reports[1..], [Report::Failed { .. }]), "{reports:?}");
}

/// However long the paths of control groups are, each report is a line that a controller reads.
#[test]
fn no_report_is_longer_than_a_controller_reads() {
    let mut host = Host::new();
    host.kernel = Kernel::new(1, Capacity { limits: 4, connections: 4, ended: 2_000 });
    host.open = Some(0);
    let group = || Process::Cgroup(format!("/{}", "\"".repeat(1_023)));
    let wishes = || {
        let sample = Command::Sample { every_ns: Span::from_secs(1) };
        vec![sample, Command::Identify { processes: vec![group()] }]
    };
    host.all(s(0), 1, wishes());
    host.tick(s(0));
    for source in 1..=1_000 {
        host.kernel.end(connection(source), Bytes::new(1), group());
    }
    let reports = host.tick(s(1));
    let longest = reports.iter().map(|report| serde_json::to_vec(report).unwrap().len()).max();
    assert!(longest.is_some_and(|octets| octets < 1 << 20), "{longest:?}");
    let told = reports.iter().map(|report| match report {
        Report::Ended { connections, .. } => connections.len(),
        _ => 0,
    });
    assert_eq!(told.sum::<usize>(), 1_000);
}

/// One that ends in order has no sample any more.
#[test]
fn the_last_words_of_an_agent_tell_what_has_ended_since_the_last_sample() {
    let mut host = Host::new();
    host.open = Some(0);
    let finish = |host: &mut Host, source| {
        host.kernel.end(connection(source), Bytes::new(9), Process::Pid(1));
        let mut reports = Vec::new();
        host.agent.finish(s(1), &mut host.kernel, &mut reports).unwrap();
        reports
    };
    assert_eq!(finish(&mut host, 1), [], "nobody has asked");
    host.all(s(1), 1, vec![Command::Sample { every_ns: Span::from_secs(1) }]);
    host.tick(s(1));
    let [Report::Ended { connections, lost: 0, .. }] = &finish(&mut host, 2)[..] else { panic!() };
    assert_eq!(connections[0].connection, connection(2));
}

#[test]
fn it_counts_what_ports_sent_as_long_and_as_often_as_it_is_told() {
    let mut host = Host::new();
    let every = Span::from_millis(500);
    let count = Command::Count { every_ns: every };
    host.all(s(0), 1, vec![count.clone()]);
    let counter =
        PortCount { node: "s1".into(), interface: "eth0".into(), sent_bytes: Bytes::new(70) };
    assert_eq!(host.tick(s(0)), [Report::Ports { ports: vec![counter] }]);
    assert_eq!(host.agent.deadline(), Some(Time::ZERO + every));
    assert_eq!(host.tick(s(0)), [], "once");
    assert_eq!(host.tick(s(1)).len(), 1);
    host.told(s(1), 1, false, vec![]).unwrap();
    assert!(host.agent.deadline() < Some(s(2)), "what is said besides leaves it");
    host.all(s(1), 1, vec![]);
    assert_eq!(host.agent.deadline(), Some(s(1) + LEASE), "complete commands end it");
    host.all(s(1), 1, vec![count.clone()]);
    host.agent.disconnected();
    assert_eq!(host.tick(s(3)), [], "nobody listens");
    host.agent = Agent::new(vec![port("eth0")], false);
    let answers = host.told(s(3), 1, true, vec![count.clone()]).unwrap();
    assert!(matches!(&answers[0], Report::Failed { command, .. } if *command == count));
}

/// A port tells of a threshold as it is passed; a controller that starts after that must hear of it too.
#[test]
fn who_begins_to_watch_a_congested_port_is_told_once_after_the_connections() {
    let mut host = Host::new();
    let commands = || {
        let sample = Command::Sample { every_ns: Span::from_secs(1) };
        vec![watch(Some(PortWatch::default())), sample]
    };
    host.all(s(0), 1, commands());
    let hear = |host: &mut Host, severity| {
        let mut reports = Vec::new();
        let congested = Happening::Congested { severity, queue: Bytes::new(9) };
        host.agent.hear(PORT, &congested, &mut reports);
        reports
    };
    let told = hear(&mut host, Severity::Medium);
    host.agent.disconnected();
    assert_eq!(host.tick(s(1)), [], "nobody listens");
    host.all(s(1), 2, commands());
    assert_eq!(host.agent.deadline(), Some(Time::ZERO));
    let is_sample = |report: &Report| matches!(report, Report::Connections { .. });
    let reports = host.tick(s(1));
    let (last, before) = reports.split_last().unwrap();
    assert_eq!(last, &told[0]);
    assert!(!before.is_empty() && before.iter().all(is_sample));
    assert_eq!(host.tick(s(1)), [], "once");
    // It rose before it could be told.
    host.agent.disconnected();
    host.all(s(2), 3, commands());
    let told = hear(&mut host, Severity::High);
    assert_eq!(told.len(), 1);
    assert!(host.tick(s(2)).iter().all(is_sample));
    // It recovered while nobody listened.
    host.agent.disconnected();
    hear(&mut host, Severity::Recovered);
    host.all(s(4), 4, commands());
    assert!(host.tick(s(4)).iter().all(is_sample));
}

#[test]
fn it_tells_nothing_of_a_port_that_is_not_watched_beside_one_that_is() {
    let mut host = Host::new();
    host.agent = Agent::new(vec![port("eth0"), port("eth1")], true);
    host.all(s(0), 1, vec![watch(Some(PortWatch::default()))]);
    let mut reports = Vec::new();
    for (port, source) in [(PORT, 1), (PortNumber(1), 2)] {
        host.agent.hear(port, &Happening::Opened(connection(source)), &mut reports);
    }
    assert_eq!(reports, [Report::Opened { connection: connection(1) }]);
}

proptest! {
    /// Leases against a naive list of grants: an epoch's grants end together, the last of two epochs
    /// with one place ends the other, and what has ended doesn't come back.
    #[test]
    fn leases_hold_as_long_as_they_were_renewed(
        steps in prop::collection::vec((0..5_u64, 0..2_u64, 0..8_u64), 1..100),
    ) {
        let mut leases = Leases::default();
        let mut naive: Vec<(u64, u64)> = Vec::new();
        let (mut now, mut epoch) = (0, 1);
        for (wait, more, span) in steps {
            (now, epoch) = (now + wait, epoch + more * 4);
            let mut removed = false;
            leases.renew(s(now), epoch, Span::from_secs(span), |_| removed = true).unwrap();
            let stood = naive.iter().any(|(of, end)| *of == epoch && now < *end);
            prop_assert_eq!(removed, !stood);
            naive.retain(|(of, _)| of % 8 != epoch % 8);
            naive.push((epoch, now + span));
            for of in 0..=epoch {
                let holds = naive.iter().any(|(each, end)| *each == of && now < *end);
                prop_assert_eq!(leases.holds(of, s(now)), holds);
            }
            let older = leases.renew(s(now), epoch - 1, LEASE, |_| {});
            prop_assert_eq!(older.is_err(), epoch > 0);
        }
    }
}
