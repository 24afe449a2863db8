//! What agents were told and could not do, until a later command for the same thing succeeds, and which windows,
//! classes and gaps stand meanwhile.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::discriminant;

use model::{Caps, NodeId};
use protocol::Connection;
use protocol::agent::Command;
use units::{Rate, Span};

use crate::view::View;

/// Most characters of a reason that are kept.
const REASON: usize = 200;

/// What a command is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    Rate(Connection),
    Priority(Connection),
    Window(String, String, Option<Connection>),
    Gap(String, String),
    Watch(String, String),
    Samples,
    Counters,
    Processes,
}

impl Thing {
    fn of(command: &Command) -> Self {
        match command {
            Command::Pace { connection, .. } => Self::Rate(*connection),
            Command::Prioritize { connection, .. } => Self::Priority(*connection),
            Command::Window { node, interface, connection, .. }
            | Command::Prepare { node, interface, connection, .. } => {
                Self::Window(node.clone(), interface.clone(), *connection)
            }
            Command::Space { node, interface, .. } => Self::Gap(node.clone(), interface.clone()),
            Command::Watch { node, interface, .. } => Self::Watch(node.clone(), interface.clone()),
            Command::Sample { .. } => Self::Samples,
            Command::Count { .. } => Self::Counters,
            Command::Identify { .. } => Self::Processes,
        }
    }

    /// The host or switch where it stands.
    pub(crate) fn place(&self, view: &View) -> Option<NodeId> {
        match self {
            Self::Rate(connection) | Self::Priority(connection) => {
                view.host_at(connection.source.ip())
            }
            Self::Window(node, ..) | Self::Gap(node, _) | Self::Watch(node, _) => view.named(node),
            Self::Samples | Self::Counters | Self::Processes => None,
        }
    }

    /// Whether what stands of it is kept here, not in what is confirmed of connections' rates; what is neither is asked for
    /// and doesn't stand.
    const fn is_kept_here(&self) -> bool {
        match self {
            Self::Priority(_) | Self::Window(..) | Self::Gap(..) => true,
            Self::Rate(_) | Self::Watch(..) | Self::Samples | Self::Counters | Self::Processes => {
                false
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Rate(connection) => format!("the rate of {}", connection.source),
            Self::Priority(connection) => format!("the priority of {}", connection.source),
            Self::Window(node, interface, _) => format!("a window at {node} {interface}"),
            Self::Gap(node, interface) => {
                format!("the spacing of acknowledgements at {node} {interface}")
            }
            Self::Watch(node, interface) => format!("watching {node} {interface}"),
            Self::Samples => "samples of connections".into(),
            Self::Counters => "counters of interfaces".into(),
            Self::Processes => "looking for processes".into(),
        }
    }
}

struct Failure {
    command: Command,
    /// The number of the commands that it failed with; 0: it was never sent.
    sequence: u64,
    reason: String,
    /// The number of the last commands, sent after those that failed, with one for the same thing. Once
    /// they are confirmed and that one has not failed too, this failure is over.
    retried: Option<u64>,
}

/// The command that ends what another asks for of a window, a class or a gap.
fn end_of(command: &Command) -> Command {
    match command.clone() {
        Command::Prioritize { connection, .. } => Command::Prioritize { connection, priority: 0 },
        Command::Window { node, interface, connection, .. }
        | Command::Prepare { node, interface, connection, .. } => {
            Command::Window { node, interface, connection, cap: None }
        }
        Command::Space { node, interface, .. } => Command::Space { node, interface, gap_ns: None },
        other @ (Command::Pace { .. }
        | Command::Watch { .. }
        | Command::Sample { .. }
        | Command::Count { .. }
        | Command::Identify { .. }) => other,
    }
}

/// The class that a command asks for.
pub(crate) fn class_of(command: &Command) -> Option<u8> {
    match command {
        Command::Prioritize { priority, .. } => Some(*priority),
        _ => None,
    }
}

/// The least time between acknowledgements that a command asks for.
pub(crate) fn gap_of(command: &Command) -> Option<Span> {
    match command {
        Command::Space { gap_ns, .. } => *gap_ns,
        _ => None,
    }
}

/// The caps that a command asks for.
pub(crate) fn caps_of(command: &Command) -> Option<Caps> {
    match command {
        Command::Window { cap, .. } => cap.map(Caps::from),
        Command::Prepare { caps, .. } => Some(*caps),
        _ => None,
    }
}

/// The failures of an agent.
#[derive(Default)]
pub(crate) struct Failures {
    things: BTreeMap<Thing, Failure>,
    /// The last number that each thing was sent with and that is not confirmed; of rates and priorities
    /// the grants tell what is meant.
    latest: BTreeMap<Thing, u64>,
    /// The number of the last commands of which more failed than are kept.
    pub(crate) dropped: u64,
    /// The windows, classes and gaps that stand, as the agent has confirmed.
    stands: BTreeMap<Thing, Command>,
    /// Commands for windows, classes and gaps that are not confirmed.
    unconfirmed: VecDeque<(u64, Command)>,
}

impl Failures {
    /// All is told anew with commands of this number: what failed before is over, and what stands ends if it isn't
    /// among them.
    pub(crate) fn begin_anew(&mut self, sequence: u64) {
        self.things.clear();
        self.latest.clear();
        self.dropped = 0;
        let sent = self.unconfirmed.iter().map(|(_, command)| command);
        let all: BTreeMap<Thing, Command> =
            self.stands.values().chain(sent).map(|of| (Thing::of(of), end_of(of))).collect();
        self.unconfirmed.extend(all.into_values().map(|end| (sequence, end)));
    }

    /// Keeps no more than `most` commands that are not confirmed: the newest for each thing, those sent last first.
    /// What stands of the others isn't known any more.
    pub(crate) fn bound(&mut self, most: usize) {
        if self.unconfirmed.len() <= most {
            return;
        }
        let mut seen = BTreeSet::new();
        let mut newest: Vec<_> = self.unconfirmed.drain(..).rev().collect();
        newest.retain(|(_, command)| seen.insert(Thing::of(command)));
        for (_, command) in newest.drain(newest.len().min(most / 2)..) {
            self.stands.remove(&Thing::of(&command));
        }
        self.unconfirmed.extend(newest.into_iter().rev());
    }

    /// A command is sent with this number.
    pub(crate) fn sent(&mut self, command: &Command, sequence: u64) {
        let is_granted = matches!(command, Command::Pace { .. } | Command::Prioritize { .. });
        if Thing::of(command).is_kept_here() {
            self.unconfirmed.push_back((sequence, command.clone()));
        }
        if self.things.is_empty() && is_granted {
            return;
        }
        let thing = Thing::of(command);
        if let Some(failure) = self.things.get_mut(&thing) {
            failure.retried = Some(sequence);
        }
        if !is_granted {
            self.latest.insert(thing, sequence);
        }
    }

    /// A command of this number failed. Beyond `most`, failures are not kept.
    pub(crate) fn failed(&mut self, command: &Command, sequence: u64, reason: &str, most: usize) {
        let thing = Thing::of(command);
        if self.things.len() >= most && !self.things.contains_key(&thing) {
            self.dropped = self.dropped.max(sequence);
            return;
        }
        let before = self.things.get(&thing).and_then(|failure| failure.retried);
        let latest = before.max(self.latest.get(&thing).copied());
        let retried = latest.filter(|later| *later > sequence);
        let reason = reason.chars().take(REASON).collect();
        let command = command.clone();
        self.things.insert(thing, Failure { command, sequence, reason, retried });
    }

    /// A command is not needed any more.
    pub(crate) fn forget(&mut self, command: &Command) {
        self.things.remove(&Thing::of(command));
    }

    /// Commands up to this number were carried out, but for those that failed.
    pub(crate) fn applied(&mut self, sequence: u64) {
        while let Some((number, command)) =
            self.unconfirmed.pop_front_if(|(number, _)| *number <= sequence)
        {
            let thing = Thing::of(&command);
            let failed = self.things.get(&thing).is_some_and(|failure| failure.sequence == number);
            if failed || number <= self.dropped {
                continue;
            }
            self.over(&thing, number);
            if command.ends() {
                self.stands.remove(&thing);
            } else {
                self.stands.insert(thing, command);
            }
        }
        self.things.retain(|_, failure| failure.retried.is_none_or(|number| number > sequence));
        self.latest.retain(|_, number| *number > sequence);
    }

    /// The rate of a connection was set, or ended, with commands of this number.
    pub(crate) fn rate_applied(&mut self, connection: &Connection, sequence: u64) {
        if !self.things.is_empty() {
            self.over(&Thing::Rate(*connection), sequence);
        }
    }

    /// A command of this number for a thing succeeded: what failed of it before is over.
    fn over(&mut self, thing: &Thing, sequence: u64) {
        if self.things.get(thing).is_some_and(|failure| failure.sequence < sequence) {
            self.things.remove(thing);
        }
    }

    /// A command of those that were all there are failed: what stood before has ended, unless that failed.
    pub(crate) fn ended(&mut self, command: &Command) {
        if !command.ends() {
            self.stands.remove(&Thing::of(command));
        }
    }

    /// The caps that stand of the windows of a connection, or of all, where a node's interface leads.
    pub(crate) fn standing_window(
        &self,
        node: &str,
        interface: &str,
        connection: Option<Connection>,
    ) -> Option<Caps> {
        caps_of(self.stands.get(&Thing::Window(node.into(), interface.into(), connection))?)
    }

    /// The least time between acknowledgements that stands where a node's interface leads.
    pub(crate) fn standing_gap(&self, node: &str, interface: &str) -> Option<Span> {
        gap_of(self.stands.get(&Thing::Gap(node.into(), interface.into()))?)
    }

    /// The class that stands of a connection.
    pub(crate) fn standing_class(&self, connection: &Connection) -> Option<u8> {
        class_of(self.stands.get(&Thing::Priority(*connection))?)
    }

    /// The windows, classes and gaps that may stand: what is confirmed, and what was sent last.
    pub(crate) fn may_stand(self) -> BTreeMap<Thing, Command> {
        let mut all = self.stands;
        let sent = self.unconfirmed.into_iter().map(|(_, command)| command);
        all.extend(sent.filter(|of| !of.ends()).map(|of| (Thing::of(&of), of)));
        all
    }

    /// How many windows, classes and gaps stand.
    pub(crate) fn standing(&self) -> usize {
        self.stands.len()
    }

    /// Whether the rate that a connection was given with commands of this number was not set, or may
    /// not have been.
    pub(crate) fn missed(&self, connection: &Connection, sequence: u64) -> bool {
        sequence <= self.dropped
            || !self.things.is_empty()
                && self
                    .things
                    .get(&Thing::Rate(*connection))
                    .is_some_and(|f| f.sequence == sequence)
    }

    /// Why a connection doesn't have its rate.
    pub(crate) fn rate(&self, connection: &Connection) -> Option<&str> {
        self.of(&Thing::Rate(*connection))
    }

    /// Why a connection doesn't have its priority.
    pub(crate) fn priority(&self, connection: &Connection) -> Option<&str> {
        self.of(&Thing::Priority(*connection))
    }

    /// Why windows of a connection, or of all, are not capped where a node's interface leads.
    pub(crate) fn window(
        &self,
        node: &str,
        interface: &str,
        connection: Option<Connection>,
    ) -> Option<&str> {
        self.of(&Thing::Window(node.into(), interface.into(), connection))
    }

    /// Why acknowledgements are not spaced where a node's interface leads.
    pub(crate) fn gap(&self, node: &str, interface: &str) -> Option<&str> {
        self.of(&Thing::Gap(node.into(), interface.into()))
    }

    /// Why connections aren't sampled.
    pub(crate) fn samples(&self) -> Option<&str> {
        self.of(&Thing::Samples)
    }

    fn of(&self, thing: &Thing) -> Option<&str> {
        self.things.get(thing).map(|failure| failure.reason.as_str())
    }

    /// Commands that failed and none for the same thing was sent since: at most so many, those first that
    /// failed longest ago. What no agent can do for a connection is not among them. Of a rate or a priority another may be
    /// meant.
    pub(crate) fn to_retry(&self, most: usize) -> Vec<Command> {
        let is_open = |failure: &&Failure| {
            let can_stand = failure.command.connection().is_none_or(|of| of.limitable().is_ok());
            failure.sequence > 0 && failure.retried.is_none() && can_stand
        };
        let mut failed: Vec<&Failure> = self.things.values().filter(is_open).collect();
        failed.sort_by_key(|failure| failure.sequence);
        failed.into_iter().take(most).map(|failure| failure.command.clone()).collect()
    }

    /// Connections whose rate was not set. What stands of them instead is as before.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.things.keys().filter_map(|thing| match thing {
            Thing::Rate(connection) => Some(connection),
            _ => None,
        })
    }

    /// Why processes are not looked for.
    pub(crate) fn processes(&self) -> Option<&str> {
        self.of(&Thing::Processes)
    }

    /// Whether the end of a rate failed, rather than a rate.
    pub(crate) fn is_rates_end(&self, connection: &Connection) -> bool {
        self.things.get(&Thing::Rate(*connection)).is_some_and(|failure| failure.command.ends())
    }

    /// A sentence about the first of each kind. `rate` tells the rate of a connection that stands.
    pub(crate) fn summaries(&self, rate: impl Fn(&Connection) -> Option<Rate>) -> Vec<String> {
        let mut all: Vec<(&Thing, &Failure, usize)> = Vec::new();
        for (thing, failure) in &self.things {
            // Those of a kind follow each other.
            match all.last_mut().filter(|(first, ..)| discriminant(*first) == discriminant(thing)) {
                Some((.., more)) => *more += 1,
                None => all.push((thing, failure, 0)),
            }
        }
        let sentence = |(thing, failure, more): (&Thing, &Failure, usize)| {
            let (name, reason) = (thing.name(), &failure.reason);
            let stands = match thing {
                Thing::Rate(connection) => rate(connection).map(|rate| format!("{rate}")),
                thing => self.stands.get(thing).and_then(|command| match command {
                    Command::Prioritize { priority, .. } => Some(format!("class {priority}")),
                    Command::Space { gap_ns, .. } => gap_ns.map(|gap| format!("{gap}")),
                    command => caps_of(command).map(|caps| match caps.constant() {
                        Some(cap) => format!("{}", cap.bytes),
                        None => "prepared".into(),
                    }),
                }),
            };
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            if let Thing::Samples | Thing::Counters = thing {
                return format!("{name} can't be had, and are tried again: {reason}");
            }
            match stands {
                Some(stands) if failure.command.ends() => format!(
                    "{name} still stands ({stands}), and is renewed with the lease; its end failed and is tried \
                     again: {reason}{more}"
                ),
                Some(stands) => {
                    format!("{name} is not enforced ({stands} of before stands): {reason}{more}")
                }
                None if failure.command.ends() => {
                    format!("the end of {name} failed and is tried again: {reason}{more}")
                }
                None => format!("{name} is not enforced: {reason}{more}"),
            }
        };
        all.into_iter().map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_commands_with_failures_that_are_not_kept_nothing_is_certain() {
        let connection = |port| Connection {
            source: ([10, 0, 0, 1], port).into(),
            destination: ([10, 0, 0, 2], 80).into(),
        };
        let mut failures = Failures::default();
        for port in 1..=2 {
            let command = Command::Pace { connection: connection(port), rate_bps: None };
            failures.failed(&command, 3, "no", 1);
        }
        for port in 1..=3 {
            assert!(failures.missed(&connection(port), 3), "{port}");
            assert!(!failures.missed(&connection(port), 4), "{port}");
        }
    }

    #[test]
    fn what_always_fails_is_not_tried_again() {
        let mut failures = Failures::default();
        let mut fail = |source: &str| {
            let [source, destination] = [source, "10.0.0.2:80"].map(|end| end.parse().unwrap());
            let connection = Connection { source, destination };
            let command = Command::Pace { connection, rate_bps: Some(Rate::from_mbps(1)) };
            failures.failed(&command, 1, "no", 10);
            command
        };
        let full = fail("10.0.0.1:1");
        fail("10.0.0.1:0");
        fail("[fd00::1]:1");
        assert_eq!(failures.to_retry(10), [full]);
    }

    #[test]
    fn what_failed_longest_ago_is_tried_first() {
        let mut failures = Failures::default();
        let watch = |number: u64| Command::Watch {
            node: format!("s{number}"),
            interface: "eth0".into(),
            watch: None,
        };
        for (number, sequence) in [(1, 7), (2, 5), (3, 6), (4, 8)] {
            failures.failed(&watch(number), sequence, "no", 10);
        }
        failures.sent(&watch(2), 9);
        assert_eq!(failures.to_retry(2), [3, 1].map(watch));
        failures.failed(&watch(2), 9, "no", 10);
        assert_eq!(failures.to_retry(10), [3, 1, 4, 2].map(watch));
        // Another was on its way when it failed.
        failures.sent(&watch(5), 11);
        failures.failed(&watch(5), 10, "no", 10);
        assert_eq!(failures.to_retry(10).len(), 4);
        failures.applied(11);
        assert_eq!(failures.to_retry(10).len(), 4);
    }

    /// Two commands for a rate are on their way, both fail, and a third was sent between: the second failure
    /// doesn't make it unsent.
    #[test]
    fn a_failure_that_comes_late_is_over_with_what_was_sent_before_it_came() {
        let [source, destination] = ["10.0.0.1:1", "10.0.0.2:80"].map(|end| end.parse().unwrap());
        let connection = Connection { source, destination };
        let command = Command::Pace { connection, rate_bps: Some(Rate::from_mbps(1)) };
        let mut failures = Failures::default();
        failures.failed(&command, 5, "no", 10);
        failures.sent(&command, 7);
        failures.failed(&command, 6, "no", 10);
        assert_eq!(failures.to_retry(10), []);
        failures.applied(6);
        assert_eq!(failures.rate(&connection), Some("no"));
        failures.applied(7);
        assert_eq!(failures.rate(&connection), None);
    }

    #[test]
    fn what_is_confirmed_is_not_remembered_as_sent() {
        let mut failures = Failures::default();
        for number in 1..=3 {
            let (node, interface) = (format!("s{number}"), "eth0".into());
            failures.sent(&Command::Watch { node, interface, watch: None }, number);
        }
        failures.applied(2);
        assert_eq!(failures.latest.values().copied().collect::<Vec<_>>(), [3]);
    }
}
