//! The machine.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use model::{Caps, LEAST_RATE, MOST_RATE, Severity};
use protocol::agent::{
    Capability, Command, Commands, EndedConnection, Host, MOST_EPOCH, MOST_GAP, MOST_IDENTIFIED,
    MOST_LEASE, MOST_REPORTED, PortCount, Report,
};
use protocol::{Connection, Process};
use units::{Bytes, Rate, Span, Time};

use crate::lease::{Leases, Renewal, Stale};
use crate::operation::{Actuator, Ended, Failure, Happening, Operation, PortNumber};
use crate::trigger;

/// Connections are sampled, and ports read, no more often.
const FASTEST: Span = Span::from_millis(1);

/// A report of connections is no longer, in octets of JSON: a controller reads lines of 1 MiB. One connection with all
/// the processes that can be looked for stays below that, too.
const MOST_OCTETS: usize = 512 << 10;
/// What a connection takes there at most without its processes, and each of these without its path.
const OCTETS_CONNECTION: usize = 384;
const OCTETS: usize = 32;

/// Why nothing was carried out: the controller has to say everything anew, over another connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lapse {
    /// The lease had ended before the controller was heard again, while it believes that all stands.
    Ended,
    /// The actuator did not renew the lease, so that it will end.
    NotRenewed(Failure),
    /// No controller has such an epoch: obeyed, it would shut all others out.
    Epoch(u64),
    /// No controller gives such a lease.
    Lease(Span),
}

impl fmt::Display for Lapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the lease had ended before the controller was heard again"),
            Self::NotRenewed(reason) => write!(f, "the lease can't be renewed: {reason}"),
            Self::Epoch(epoch) => {
                write!(f, "{epoch} is no controller's epoch; at most {MOST_EPOCH} can be")
            }
            Self::Lease(lease) => write!(f, "{lease} is no lease; at most {MOST_LEASE} can be"),
        }
    }
}

/// An interface that an agent acts at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The host or switch that it belongs to, as the controller knows it.
    pub node: String,
    /// Its name.
    pub interface: String,
    /// How many classes of strict priority it has.
    pub classes: usize,
    /// Whether its queue can be watched and windows capped there.
    pub watchable: bool,
}

/// The agent of one or more hosts. What it grants stands in the kernel: it outlives the agent, not its
/// lease.
#[derive(Clone, Debug)]
pub struct Agent {
    ports: Vec<Port>,
    samples: bool,
    /// As in the kernel.
    leases: Leases,
    /// Whether a controller has told this agent everything, which one that just started doesn't know.
    told: bool,
    /// What stands, and the epoch that it was granted under.
    limits: BTreeMap<Connection, u64>,
    windows: BTreeMap<(PortNumber, Option<Connection>), u64>,
    classes: BTreeMap<(PortNumber, Connection), u64>,
    spaced: BTreeMap<PortNumber, u64>,
    watched: BTreeSet<PortNumber>,
    /// Ports that told of congestion and haven't recovered: what they told last.
    congested: BTreeMap<PortNumber, Happening>,
    /// Of these, who begins to watch now and hasn't heard it.
    untold: BTreeSet<PortNumber>,
    /// The number of the commands that were carried out last.
    sequence: u64,
    sampling: Option<Sampling>,
    counting: Option<Sampling>,
    /// Whose connections are looked for in samples.
    identified: Vec<Process>,
}

/// Somebody wants samples of connections, or counters of ports.
#[derive(Clone, Debug)]
struct Sampling {
    every: Span,
    /// When the last one was done, and how long it took.
    last: Option<(Time, Span)>,
    /// Why the last one failed, if it did.
    failed: Option<Failure>,
}

impl Sampling {
    /// When the next is due. The first is at once: it says which connections go on, before ports tell of them. Between
    /// two there is as much time as one takes, at least: else the controller would hardly be heard.
    fn due(&self) -> Time {
        self.last.map_or(Time::ZERO, |(done, took)| done + self.every.max(took))
    }

    /// One that began at `began` is done now, or has failed; why, where the one before it didn't.
    fn done(&mut self, began: Time, now: Time, done: Result<(), Failure>) -> Option<Failure> {
        self.last = Some((now, now.since(began)));
        let before = core::mem::replace(&mut self.failed, done.err());
        self.failed.clone().filter(|_| before.is_none())
    }

    /// Whether the last one could be taken.
    fn stands(&self) -> Result<(), Failure> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

/// What complete commands ask for.
#[derive(Default)]
struct Kept {
    limits: BTreeSet<Connection>,
    windows: BTreeSet<(PortNumber, Option<Connection>)>,
    classes: BTreeSet<(PortNumber, Connection)>,
    spaced: BTreeSet<PortNumber>,
    watched: BTreeSet<PortNumber>,
    sampled: bool,
    counted: bool,
    identified: bool,
}

impl Agent {
    /// An agent that acts at these ports, numbered as they come, and samples connections if `samples`.
    pub fn new(ports: Vec<Port>, samples: bool) -> Self {
        Self {
            ports,
            samples,
            leases: Leases::default(),
            told: false,
            limits: BTreeMap::new(),
            windows: BTreeMap::new(),
            classes: BTreeMap::new(),
            spaced: BTreeMap::new(),
            watched: BTreeSet::new(),
            congested: BTreeMap::new(),
            untold: BTreeSet::new(),
            sequence: 0,
            sampling: None,
            counting: None,
            identified: Vec::new(),
        }
    }

    /// Goes on from what an agent before it left in the kernel: leases, and limits with their epochs.
    #[must_use]
    pub fn after(
        mut self,
        leases: Leases,
        limits: impl IntoIterator<Item = (Connection, u64)>,
    ) -> Self {
        self.leases = leases;
        self.limits = limits.into_iter().collect();
        self
    }

    /// The highest epoch that was obeyed.
    pub fn epoch(&self) -> u64 {
        self.leases.epoch()
    }

    /// Whose connections it looks for.
    pub fn identified(&self) -> &[Process] {
        &self.identified
    }

    /// Its ports.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// What it can do.
    pub fn capabilities(&self) -> Vec<Capability> {
        let watches = self.ports.iter().any(|port| port.watchable);
        let has_classes = self.ports.iter().any(|port| port.classes > 0);
        let can = |capability: &Capability| match capability {
            Capability::Pacing => true,
            Capability::Statistics => self.samples,
            Capability::Watching
            | Capability::Windows
            | Capability::Prepared
            | Capability::Spacing => watches,
            Capability::Priorities => has_classes,
        };
        Capability::ALL.into_iter().filter(can).collect()
    }

    /// The first report of a connection to a controller, for the hosts that it acts for.
    pub fn hello(&self, hosts: Vec<Host>) -> Report {
        Report::Hello { hosts, capabilities: self.capabilities(), epoch: self.epoch() }
    }

    /// The connection to the controller is gone: nobody wants samples or counters until somebody asks for them.
    pub fn disconnected(&mut self) {
        (self.sampling, self.counting) = (None, None);
        self.identified.clear();
        self.untold.clear();
    }

    /// Carries out commands that arrive at `now`, and answers. A command that fails is reported and
    /// doesn't keep the others from being carried out. What ends, ends after what begins stands. After complete commands
    /// come with [`Agent::tick`] before what ports tell is heard: the first sample says which connections go on.
    ///
    /// # Errors
    /// [`Lapse`]: nothing was carried out.
    pub fn obey(
        &mut self,
        now: Time,
        commands: &Commands,
        actuator: &mut impl Actuator,
        reports: &mut Vec<Report>,
    ) -> Result<(), Lapse> {
        let Commands { epoch, sequence, lease_ns: lease, complete, .. } = *commands;
        if epoch > MOST_EPOCH {
            return Err(Lapse::Epoch(epoch));
        }
        if lease > MOST_LEASE {
            return Err(Lapse::Lease(lease));
        }
        let steps = match self.leases.renewal(now, epoch, lease) {
            Ok(steps) => steps,
            Err(Stale { obeys }) => {
                reports.push(Report::Stale { epoch, obeys });
                return Ok(());
            }
        };
        if (!self.leases.holds(epoch, now) || !self.told) && !complete {
            return Err(Lapse::Ended);
        }
        let mut fail = |command: &Command, reason: Failure| {
            reports.push(Report::Failed { epoch, sequence, command: command.clone(), reason });
        };
        actuator.execute(now, &Operation::Renew { epoch, lease }).map_err(Lapse::NotRenewed)?;
        self.forget_ended(now);
        for step in steps {
            match step {
                Renewal::End(end) => self.leases.set(epoch, end),
                Renewal::Remove => self.forget_ended(now),
            }
        }
        self.told = true;
        let mut kept = Kept::default();
        for command in &commands.commands {
            if let Err(reason) = self.execute(now, command, actuator, &mut kept) {
                fail(command, reason);
            }
        }
        if complete {
            for (command, reason) in self.end_others(now, actuator, &kept) {
                fail(&command, reason);
            }
        }
        self.sequence = sequence;
        reports.push(Report::Applied { epoch, sequence });
        Ok(())
    }

    fn execute(
        &mut self,
        now: Time,
        command: &Command,
        actuator: &mut impl Actuator,
        kept: &mut Kept,
    ) -> Result<(), Failure> {
        let epoch = self.epoch();
        if command.ends() && !self.stands(command) {
            return Ok(());
        }
        match command {
            &Command::Pace { connection, rate_bps: rate } => {
                check_connection(&connection)?;
                rate.map_or(Ok(()), check_rate)?;
                actuator.execute(now, &Operation::Pace { connection, rate })?;
                note(&mut self.limits, &mut kept.limits, connection, rate.map(|_| epoch));
            }
            &Command::Prioritize { connection, priority } => {
                check_connection(&connection)?;
                let mut ports = self.ports_with_classes().peekable();
                if ports.peek().is_none() {
                    return Err("no interface has classes; configure some".to_owned());
                }
                let mut done = Ok(());
                for (port, classes) in ports.collect::<Vec<_>>() {
                    // Priority 0 is where every connection starts.
                    let last = u8::try_from(classes - 1).unwrap_or(u8::MAX);
                    let class = Some(priority.min(last)).filter(|class| *class > 0);
                    match actuator.execute(now, &Operation::Classify { port, connection, class }) {
                        Ok(()) => {
                            let granted = class.map(|_| epoch);
                            note(&mut self.classes, &mut kept.classes, (port, connection), granted);
                        }
                        Err(reason) => done = Err(reason),
                    }
                }
                return done;
            }
            &Command::Window { ref node, ref interface, connection, cap } => {
                let at = (self.find(node, interface)?, connection);
                self.cap(now, at, cap.map(Caps::from), actuator, kept)?;
            }
            &Command::Prepare { ref node, ref interface, connection, caps } => {
                let at = (self.find(node, interface)?, connection);
                self.cap(now, at, Some(caps), actuator, kept)?;
            }
            &Command::Space { ref node, ref interface, gap_ns: gap } => {
                let port = self.find(node, interface)?;
                gap.map_or(Ok(()), check_gap)?;
                actuator.execute(now, &Operation::Space { port, gap })?;
                note(&mut self.spaced, &mut kept.spaced, port, gap.map(|_| epoch));
            }
            &Command::Watch { ref node, ref interface, watch } => {
                let port = self.find(node, interface)?;
                let thresholds = watch.and_then(|watch| watch.thresholds);
                thresholds.as_ref().map_or(Ok(()), trigger::check)?;
                actuator.execute(now, &Operation::Watch { port, watch })?;
                if watch.is_some() {
                    self.watched.insert(port);
                    kept.watched.insert(port);
                    if self.congested.contains_key(&port) {
                        self.untold.insert(port);
                    }
                } else {
                    self.watched.remove(&port);
                }
            }
            Command::Sample { every_ns } => {
                let sampling = self.often(*every_ns, self.sampling.as_ref())?;
                kept.sampled = true;
                return self.sampling.insert(sampling).stands();
            }
            Command::Count { every_ns } => {
                let counting = self.often(*every_ns, self.counting.as_ref())?;
                kept.counted = true;
                return self.counting.insert(counting).stands();
            }
            Command::Identify { processes } => {
                if processes.len() > MOST_IDENTIFIED {
                    return Err(format!("no more than {MOST_IDENTIFIED} processes are looked for"));
                }
                self.identified.clone_from(processes);
                kept.identified = true;
            }
        }
        Ok(())
    }

    /// Caps windows at a port: of a connection, or of all.
    fn cap(
        &mut self,
        now: Time,
        at: (PortNumber, Option<Connection>),
        caps: Option<Caps>,
        actuator: &mut impl Actuator,
        kept: &mut Kept,
    ) -> Result<(), Failure> {
        let (port, connection) = at;
        connection.as_ref().map_or(Ok(()), check_connection)?;
        actuator.execute(now, &Operation::Cap { port, connection, caps })?;
        note(&mut self.windows, &mut kept.windows, at, caps.map(|_| self.leases.epoch()));
        Ok(())
    }

    /// Statistics so often from now on, instead of as `before`.
    fn often(&self, every: Span, before: Option<&Sampling>) -> Result<Sampling, Failure> {
        if !self.samples {
            return Err("there are no statistics here".to_owned());
        }
        let last = before.and_then(|before| before.last);
        let failed = before.and_then(|before| before.failed.clone());
        Ok(Sampling { every: every.max(FASTEST), last, failed })
    }

    /// Whether there is something of what a command is about.
    fn stands(&self, command: &Command) -> bool {
        match command {
            Command::Pace { connection, .. } => self.limits.contains_key(connection),
            Command::Prioritize { connection, .. } => self
                .ports_with_classes()
                .any(|(port, _)| self.classes.contains_key(&(port, *connection))),
            Command::Window { node, interface, connection, .. }
            | Command::Prepare { node, interface, connection, .. } => {
                let port = self.find(node, interface);
                port.is_ok_and(|port| self.windows.contains_key(&(port, *connection)))
            }
            Command::Space { node, interface, .. } => {
                self.find(node, interface).is_ok_and(|port| self.spaced.contains_key(&port))
            }
            Command::Watch { node, interface, .. } => {
                self.find(node, interface).is_ok_and(|port| self.watched.contains(&port))
            }
            Command::Sample { .. } => self.sampling.is_some(),
            Command::Count { .. } => self.counting.is_some(),
            Command::Identify { .. } => !self.identified.is_empty(),
        }
    }

    /// Ends what stands of this epoch and isn't kept; returns what failed. What a controller of an
    /// earlier epoch granted ends with its lease: the new one speaks before applications have told it
    /// all.
    fn end_others(
        &mut self,
        now: Time,
        actuator: &mut impl Actuator,
        kept: &Kept,
    ) -> Vec<(Command, Failure)> {
        // All of it is here, so that nothing that commands ask for is left standing.
        let Kept { limits, windows, classes, spaced, watched, sampled, counted, identified } = kept;
        let epoch = self.epoch();
        let at = |port: PortNumber| {
            let Port { node, interface, .. } = self.ports[port.0 as usize].clone();
            (node, interface)
        };
        let mut failed = end_each(
            over(&self.limits, limits, epoch),
            |connection| actuator.execute(now, &Operation::Pace { connection, rate: None }),
            |connection| {
                self.limits.remove(connection);
            },
            |connection| Command::Pace { connection, rate_bps: None },
        );
        failed.extend(end_each(
            over(&self.windows, windows, epoch),
            |(port, connection)| {
                actuator.execute(now, &Operation::Cap { port, connection, caps: None })
            },
            |key| {
                self.windows.remove(key);
            },
            |(port, connection)| {
                let (node, interface) = at(port);
                Command::Window { node, interface, connection, cap: None }
            },
        ));
        failed.extend(end_each(
            over(&self.classes, classes, epoch),
            |(port, connection)| {
                actuator.execute(now, &Operation::Classify { port, connection, class: None })
            },
            |key| {
                self.classes.remove(key);
            },
            |(_, connection)| Command::Prioritize { connection, priority: 0 },
        ));
        failed.extend(end_each(
            over(&self.spaced, spaced, epoch),
            |port| actuator.execute(now, &Operation::Space { port, gap: None }),
            |port| {
                self.spaced.remove(port);
            },
            |port| {
                let (node, interface) = at(port);
                Command::Space { node, interface, gap_ns: None }
            },
        ));
        failed.extend(end_each(
            self.watched.difference(watched).copied().collect(),
            |port| actuator.execute(now, &Operation::Watch { port, watch: None }),
            |port| {
                self.watched.remove(port);
            },
            |port| {
                let (node, interface) = at(port);
                Command::Watch { node, interface, watch: None }
            },
        ));
        if !sampled {
            self.sampling = None;
        }
        if !counted {
            self.counting = None;
        }
        if !identified {
            self.identified.clear();
        }
        failed
    }

    /// Reports what a port told.
    pub fn hear(&mut self, port: PortNumber, happening: &Happening, reports: &mut Vec<Report>) {
        if let Happening::Congested { severity, .. } = happening {
            self.untold.remove(&port);
            if *severity == Severity::Recovered {
                self.congested.remove(&port);
            } else if (port.0 as usize) < self.ports.len() {
                self.congested.insert(port, *happening);
            }
        }
        reports.extend(self.report(port, happening));
    }

    /// What a port told as a report, if it is watched: it may have told it before the watch ended.
    fn report(&self, port: PortNumber, happening: &Happening) -> Option<Report> {
        let Port { node, interface, .. } = self.ports.get(port.0 as usize)?;
        self.watched.contains(&port).then(|| match *happening {
            Happening::Opened(connection) => Report::Opened { connection },
            Happening::Closed(connection) => Report::Closed { connection },
            Happening::Congested { severity, queue: queue_bytes } => {
                let (node, interface) = (node.clone(), interface.clone());
                Report::Congested { node, interface, severity, queue_bytes }
            }
        })
    }

    /// When to come with [`Agent::tick`].
    pub fn deadline(&self) -> Option<Time> {
        let statistics = [&self.sampling, &self.counting];
        let statistics = statistics.map(|wanted| wanted.as_ref().map(Sampling::due));
        let [sample, count] = statistics;
        let untold = (!self.untold.is_empty()).then_some(Time::ZERO);
        [sample, count, untold, self.leases.next_end()].into_iter().flatten().min()
    }

    /// Does what is due at `now`: samples connections, tells who begins to watch a port that it is congested, reads
    /// counters of ports, and sweeps out what has no lease any more.
    ///
    /// # Errors
    /// The first operation that failed. Nothing has to be done about it: what can't be swept out doesn't
    /// stand, and samples come again. That samples or counters fail from now on is reported.
    pub fn tick(
        &mut self,
        now: Time,
        actuator: &mut impl Actuator,
        reports: &mut Vec<Report>,
    ) -> Result<(), Failure> {
        let mut done = Ok(());
        if self.leases.sweep(now) {
            self.forget_ended(now);
            done = actuator.execute(now, &Operation::Sweep);
        }
        if let Some(sampling) = self.sampling.as_mut().filter(|sampling| sampling.due() <= now) {
            let was_told = sampling.last.is_some();
            // What ended before the sample and is in it is another one between the same ends; what ended between
            // the sample and the second look is in it once more.
            let before = actuator.ended(&self.identified);
            let mut open = actuator.sample(&self.identified);
            let after = actuator.ended(&self.identified);
            let end = actuator.now(now);
            if let (Ok(open), Ok(after)) = (&mut open, &after) {
                let after: BTreeSet<_> = after.connections.iter().map(|e| e.connection).collect();
                open.retain(|each| !after.contains(&each.connection));
            }
            let (mut ended, mut looked) = (Ended::default(), Ok(()));
            for look in [before, after] {
                match look {
                    Ok(more) => {
                        ended.connections.extend(more.connections);
                        ended.lost += more.lost;
                    }
                    Err(failure) => looked = Err(failure),
                }
            }
            // Nobody listened to what ended before the first sample.
            if was_told {
                tell(ended, now, reports);
            }
            let sampled = open.map(|open| {
                // That there are none is said too: what was there before is gone.
                let none = open.is_empty().then(Vec::new);
                let parts = parts(open, |each| &each.processes).into_iter().chain(none);
                let told =
                    parts.map(|connections| Report::Connections { sampled_ns: now, connections });
                reports.extend(told);
            });
            if let Some(reason) = sampling.done(now, end, sampled.clone()) {
                let command = Command::Sample { every_ns: sampling.every };
                reports.push(self.fails(command, reason));
            }
            done = done.and(sampled).and(looked);
        }
        // After the sample, which says whose connections go on there.
        while let Some(port) = self.untold.pop_first() {
            let told = self.congested.get(&port);
            reports.extend(told.and_then(|happening| self.report(port, happening)));
        }
        if let Some(counting) = self.counting.as_mut().filter(|counting| counting.due() <= now) {
            let began = actuator.now(now);
            let counted = actuator.count();
            let end = actuator.now(began);
            if let Some(reason) = counting.done(began, end, counted.clone().map(drop)) {
                let command = Command::Count { every_ns: counting.every };
                reports.push(self.fails(command, reason));
            }
            if let Ok(counted) = &counted {
                let named = counted.iter().filter_map(|(number, sent_bytes)| {
                    let Port { node, interface, .. } = self.ports.get(number.0 as usize)?;
                    let (node, interface) = (node.clone(), interface.clone());
                    Some(PortCount { node, interface, sent_bytes: *sent_bytes })
                });
                let named: Vec<PortCount> = named.collect();
                let parts = named.chunks(MOST_REPORTED);
                reports.extend(parts.map(|part| Report::Ports { ports: part.to_vec() }));
            }
            done = done.and(counted.map(drop));
        }
        done
    }

    /// That what a command asks for again and again fails now: with the number of the last commands.
    fn fails(&self, command: Command, reason: Failure) -> Report {
        let (epoch, sequence) = (self.epoch(), self.sequence);
        Report::Failed { epoch, sequence, command, reason }
    }

    /// Tells what has ended since the last sample: after this one there is none.
    ///
    /// # Errors
    /// The actuator can't tell.
    pub fn finish(
        &mut self,
        now: Time,
        actuator: &mut impl Actuator,
        reports: &mut Vec<Report>,
    ) -> Result<(), Failure> {
        if self.sampling.as_ref().is_some_and(|sampling| sampling.last.is_some()) {
            tell(actuator.ended(&self.identified)?, now, reports);
        }
        Ok(())
    }

    fn forget_ended(&mut self, now: Time) {
        let Self { leases, limits, windows, classes, spaced, .. } = self;
        limits.retain(|_, epoch| leases.holds(*epoch, now));
        windows.retain(|_, epoch| leases.holds(*epoch, now));
        classes.retain(|_, epoch| leases.holds(*epoch, now));
        spaced.retain(|_, epoch| leases.holds(*epoch, now));
    }

    fn ports_with_classes(&self) -> impl Iterator<Item = (PortNumber, usize)> {
        let numbered = (0u32..).zip(&self.ports);
        let with = numbered.filter(|(_, port)| port.classes > 0);
        with.map(|(number, port)| (PortNumber(number), port.classes))
    }

    fn find(&self, node: &str, interface: &str) -> Result<PortNumber, Failure> {
        let is = |(_, port): &(u32, &Port)| port.node == node && port.interface == interface;
        let found = (0u32..).zip(&self.ports).find(is);
        let Some((number, _)) = found.filter(|(_, port)| port.watchable) else {
            return Err(format!("no interface {interface} of {node} is configured here"));
        };
        Ok(PortNumber(number))
    }
}

/// Notes that something stands, of an epoch, or doesn't any more.
fn note<K: Ord + Copy>(
    stands: &mut BTreeMap<K, u64>,
    kept: &mut BTreeSet<K>,
    key: K,
    granted: Option<u64>,
) {
    if let Some(epoch) = granted {
        stands.insert(key, epoch);
        kept.insert(key);
    } else {
        stands.remove(&key);
        kept.remove(&key);
    }
}

/// What stands of an epoch and isn't kept.
fn over<K: Ord + Copy>(stands: &BTreeMap<K, u64>, kept: &BTreeSet<K>, epoch: u64) -> Vec<K> {
    let over = stands.iter().filter(|(key, of)| **of == epoch && !kept.contains(key));
    over.map(|(key, _)| *key).collect()
}

/// Has each of these end, and be forgotten; those that failed, as the commands that ask for their end.
fn end_each<K: Copy>(
    all: Vec<K>,
    mut end: impl FnMut(K) -> Result<(), Failure>,
    mut forget: impl FnMut(&K),
    command: impl Fn(K) -> Command,
) -> Vec<(Command, Failure)> {
    let mut failed = Vec::new();
    for key in all {
        match end(key) {
            Ok(()) => forget(&key),
            Err(reason) => failed.push((command(key), reason)),
        }
    }
    failed
}

/// Tells what has ended, in parts. Ends that were used again meanwhile are one, which sent what all of them did.
fn tell(ended: Ended, now: Time, reports: &mut Vec<Report>) {
    let mut by_ends: BTreeMap<Connection, EndedConnection> = BTreeMap::new();
    for each in ended.connections {
        let sent = by_ends.get(&each.connection).map_or(Bytes::ZERO, |before| before.sent_bytes);
        let sent_bytes = sent + each.sent_bytes;
        by_ends.insert(each.connection, EndedConnection { sent_bytes, ..each });
    }
    let mut lost = ended.lost;
    let none = (by_ends.is_empty() && lost > 0).then(Vec::new);
    let parts = parts(by_ends.into_values(), |each| &each.processes).into_iter().chain(none);
    reports.extend(parts.map(|connections| {
        let lost = core::mem::take(&mut lost);
        Report::Ended { sampled_ns: now, connections, lost }
    }));
}

/// What one report after another has: no more than a controller takes, nor a line of JSON that is longer than it reads.
fn parts<T>(all: impl IntoIterator<Item = T>, processes: impl Fn(&T) -> &[Process]) -> Vec<Vec<T>> {
    let (mut parts, mut octets) = (Vec::<Vec<T>>::new(), 0);
    for each in all {
        let named = processes(&each).iter().map(|process| match process {
            Process::Pid(_) => OCTETS,
            // Each of its octets may be escaped.
            Process::Cgroup(name) | Process::Pod(name) => OCTETS + 2 * name.len(),
        });
        let own = OCTETS_CONNECTION + named.sum::<usize>();
        let has_room =
            |part: &&mut Vec<T>| part.len() < MOST_REPORTED && octets + own <= MOST_OCTETS;
        match parts.last_mut().filter(has_room) {
            Some(part) => {
                part.push(each);
                octets += own;
            }
            None => {
                parts.push(Vec::from([each]));
                octets = own;
            }
        }
    }
    parts
}

fn check_connection(connection: &Connection) -> Result<(), Failure> {
    connection.limitable().map_err(str::to_owned)
}

fn check_gap(gap: Span) -> Result<(), Failure> {
    if gap == Span::ZERO || gap > MOST_GAP {
        return Err(format!("{gap} between acknowledgements can't be held; up to {MOST_GAP} can"));
    }
    Ok(())
}

fn check_rate(rate: Rate) -> Result<(), Failure> {
    if !(LEAST_RATE..=MOST_RATE).contains(&rate) {
        return Err(format!("{rate} can't be held; a kernel takes {LEAST_RATE} to {MOST_RATE}"));
    }
    Ok(())
}
