//! What agents were told and could not do, until a later command for the same thing succeeds.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::discriminant;

use protocol::Connection;
use protocol::agent::Command;

use crate::thing::{Thing, goes_on, granted};

/// Most characters of a reason that are kept.
const REASON: usize = 200;

struct Failure {
    command: Command,
    /// The number of the commands that it failed with; 0: it was never sent.
    sequence: u64,
    reason: String,
    /// The number of the last commands, sent after those that failed, with one for the same thing. Once
    /// they are confirmed and that one has not failed too, this failure is over.
    retried: Option<u64>,
}

/// The failures of an agent.
#[derive(Default)]
pub(crate) struct Failures {
    things: BTreeMap<Thing, Failure>,
    /// What was sent last of each thing and is not confirmed, and its number; of samples and counters, which may fail
    /// after that, too, always. Not of rates and priorities: their grants tell what is meant.
    latest: BTreeMap<Thing, (u64, Command)>,
    /// The rates and priorities that are not confirmed, with the numbers that they were sent with, in this order: many
    /// are sent, and few are asked for.
    granted: VecDeque<(u64, Thing)>,
    /// The last number that each thing was sent with among the first `found` of these, for those that are asked for.
    numbers: BTreeMap<Thing, u64>,
    found: usize,
    /// The number of the last commands of whose rates and priorities that is not kept.
    forgotten: u64,
    /// The number of the last commands of which more failed than are kept.
    pub(crate) dropped: u64,
}

impl Failures {
    /// All is told anew: what failed before is over.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self::default();
    }

    /// A command is sent with this number.
    pub(crate) fn sent(&mut self, command: &Command, sequence: u64) {
        let is_granted = granted(command).is_some();
        let thing = Thing::of(command);
        if let Some(failure) = self.things.get_mut(&thing) {
            failure.retried = Some(sequence);
        }
        if is_granted {
            self.granted.push_back((sequence, thing));
        } else {
            self.latest.insert(thing, (sequence, command.clone()));
        }
    }

    /// Keeps no more than so many rates and priorities, and so many of all other things (`others`), of which the last were sent with
    /// this number. Of rates and priorities any may have been sent then; of all else nothing is tried again that may not
    /// have been, so that its failures are left out.
    pub(crate) fn bound(&mut self, grants: usize, others: usize, sequence: u64) {
        if self.granted.len() > grants {
            self.granted = VecDeque::new();
            self.numbers = BTreeMap::new();
            self.found = 0;
            self.forgotten = sequence;
        }
        if self.latest.len() > others {
            self.latest.retain(|_, (_, command)| goes_on(command));
            self.dropped = self.dropped.max(sequence);
        }
    }

    /// The last number that a rate or priority was sent with, if it is kept.
    fn granted(&mut self, thing: &Thing) -> Option<u64> {
        for (number, sent) in self.granted.range(self.found..) {
            self.numbers.insert(sent.clone(), *number);
        }
        self.found = self.granted.len();
        self.numbers.get(thing).copied()
    }

    /// Whether a command for the same thing was sent with this number or a later one, and may fail.
    pub(crate) fn awaits(&mut self, command: &Command, sequence: u64) -> bool {
        let thing = Thing::of(command);
        let sent = self.latest.get(&thing).map(|(number, _)| *number);
        match thing {
            Thing::Rate(_) | Thing::Priority(_) => {
                let sent = self.granted(&thing);
                sent.max(Some(self.forgotten)) >= Some(sequence)
            }
            Thing::Window(..) | Thing::Gap(..) | Thing::Watch(..) | Thing::Processes => {
                sent >= Some(sequence)
            }
            Thing::Samples | Thing::Counters => sent.is_some(),
        }
    }

    /// A command of this number failed. Beyond `most`, failures are not kept.
    pub(crate) fn failed(&mut self, command: &Command, sequence: u64, reason: &str, most: usize) {
        let thing = Thing::of(command);
        let can_stand = command.connection().is_none_or(|of| of.limitable().is_ok());
        if command.ends() && !can_stand {
            self.things.remove(&thing);
            return;
        }
        if self.things.len() >= most && !self.things.contains_key(&thing) {
            self.dropped = self.dropped.max(sequence);
            return;
        }
        let before = self.things.get(&thing).and_then(|failure| failure.retried);
        let granted = self.granted(&thing);
        let last = self.latest.get(&thing);
        let number = last.map(|(number, _)| *number).max(granted);
        let retried = before.max(number).filter(|later| *later > sequence);
        let reason = reason.chars().take(REASON).collect();
        // What is tried again is what was sent, whatever is said to have failed.
        let own = last.filter(|(number, _)| *number <= sequence).map(|(_, own)| own);
        let command = own.unwrap_or(command).clone();
        self.things.insert(thing, Failure { command, sequence, reason, retried });
    }

    /// A command is not needed any more.
    pub(crate) fn forget(&mut self, command: &Command) {
        self.things.remove(&Thing::of(command));
    }

    /// Commands up to this number were carried out, but for those that failed.
    pub(crate) fn applied(&mut self, sequence: u64) {
        self.things.retain(|_, failure| failure.retried.is_none_or(|number| number > sequence));
        self.latest.retain(|_, (number, command)| *number > sequence || goes_on(command));
        while let Some((number, thing)) =
            self.granted.pop_front_if(|(number, _)| *number <= sequence)
        {
            self.found = self.found.saturating_sub(1);
            if self.numbers.get(&thing) == Some(&number) {
                self.numbers.remove(&thing);
            }
        }
    }

    /// Whether the command of this number for a thing succeeded: then what failed of it before is over. Of commands with
    /// failures that are not kept nothing is certain.
    pub(crate) fn succeeded(&mut self, thing: &Thing, sequence: u64) -> bool {
        if sequence <= self.dropped {
            return false;
        }
        match self.things.get(thing).map(|failure| failure.sequence) {
            Some(failed) if failed == sequence => return false,
            Some(failed) if failed < sequence => drop(self.things.remove(thing)),
            _ => {}
        }
        true
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

    /// A sentence about the first of each kind. `stands` says what stands of a thing, in words, and whether it is what a
    /// command asks for.
    pub(crate) fn summaries(
        &self,
        stands: impl Fn(&Thing, &Command) -> Option<(String, bool)>,
    ) -> Vec<String> {
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
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            if let Thing::Samples | Thing::Counters = thing {
                return format!("{name} can't be had, and are tried again: {reason}");
            }
            match stands(thing, &failure.command) {
                Some((stands, true)) => format!(
                    "{name} stands as it shall ({stands}), but to say so again failed and is tried again: \
                     {reason}{more}"
                ),
                Some((stands, false)) if failure.command.ends() => format!(
                    "{name} still stands ({stands}), and is renewed with the lease; its end failed and is tried \
                     again: {reason}{more}"
                ),
                Some((stands, false)) => {
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
    use units::{Rate, Span};

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
            let rate = Thing::Rate(connection(port));
            assert!(!failures.succeeded(&rate, 3), "{port}");
            assert!(failures.succeeded(&rate, 4), "{port}");
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
        let numbers = failures.latest.values().map(|(number, _)| *number);
        assert_eq!(numbers.collect::<Vec<_>>(), [3]);
    }

    /// An agent that never confirms anything: what isn't kept any more is not tried again, and nothing is certain of it.
    #[test]
    fn what_is_never_confirmed_is_kept_within_bounds() {
        let watch = |number: u64| Command::Watch {
            node: format!("s{number}"),
            interface: "eth0".into(),
            watch: None,
        };
        let mut failures = Failures::default();
        let count = Command::Count { every_ns: Span::from_nanos(7) };
        failures.sent(&count, 1);
        (1..=3).for_each(|number| failures.sent(&watch(number), 1));
        failures.bound(0, 4, 1);
        assert!(failures.awaits(&watch(2), 1), "as many as may be");
        failures.sent(&watch(4), 2);
        failures.bound(0, 4, 2);
        assert_eq!(failures.latest.len(), 1);
        assert!(failures.awaits(&count, 1), "it may fail at any time");
        assert!(!failures.awaits(&watch(2), 1));
        assert!(!failures.succeeded(&Thing::of(&watch(2)), 2));
    }

    /// What an agent says to have failed is not what is sent again.
    #[test]
    fn what_is_tried_again_is_what_was_sent() {
        let count = |nanos| Command::Count { every_ns: Span::from_nanos(nanos) };
        let mut failures = Failures::default();
        assert!(!failures.awaits(&count(7), 1), "nobody asked for it");
        failures.sent(&count(7), 1);
        failures.applied(1);
        assert!(failures.awaits(&count(5), 3), "it may fail at any time");
        failures.failed(&count(5), 3, "no", 10);
        assert_eq!(failures.to_retry(10), [count(7)]);
    }

    /// Of those of which is not known which they were, any may have been sent.
    #[test]
    fn rates_that_were_sent_are_known_or_believed() {
        let pace = |port: u16| {
            let (source, destination) = (([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into());
            Command::Pace { connection: Connection { source, destination }, rate_bps: None }
        };
        let mut failures = Failures::default();
        (1..=3).for_each(|port| failures.sent(&pace(port), port.into()));
        let awaited = |failures: &mut Failures, sequence| {
            [1, 2, 3, 4].map(|port| failures.awaits(&pace(port), sequence))
        };
        assert_eq!(awaited(&mut failures, 2), [false, true, true, false]);
        failures.applied(2);
        assert_eq!(awaited(&mut failures, 3), [false, false, true, false]);
        failures.bound(0, 0, 3);
        failures.sent(&pace(4), 4);
        assert_eq!(awaited(&mut failures, 3), [true; 4]);
        assert_eq!(awaited(&mut failures, 4), [false, false, false, true]);
    }
}
