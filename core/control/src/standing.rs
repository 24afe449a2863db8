//! What stands, as far as agents have confirmed: rates of connections, whoever acts for their hosts; windows, classes and
//! gaps of each agent; and what agents that are gone have left, until its lease ends or another says what stands.
//!
//! What switches have confirmed is known of each meter and cap (`fabric`).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use model::Caps;
use protocol::Connection;
use protocol::agent::Command;
use units::{Rate, Span, Time};

use crate::behind::Behind;
use crate::thing::{Thing, caps_of, class_of, end_of, gap_of};

/// What stands, but for what each agent holds beside rates.
#[derive(Default)]
pub(crate) struct Standing {
    /// Rates that are confirmed to stand.
    rates: BTreeMap<Connection, Rate>,
    /// Connections whose rates agents that are gone have left standing, and what these had confirmed.
    rates_left: Behind<Connection, Option<Rate>>,
    /// Those of them that count as enforced, for the lease that was confirmed.
    sure: Behind<Connection>,
    /// Windows, classes and gaps that they have.
    things_left: Behind<Thing, Command>,
}

impl Standing {
    /// The rate of a connection stands, or none, as its agent says.
    pub(crate) fn confirm(&mut self, connection: Connection, rate: Option<Rate>) {
        self.settle(&connection);
        match rate {
            Some(rate) => self.rates.insert(connection, rate),
            None => self.rates.remove(&connection),
        };
    }

    /// An agent answers for the rate of a connection: nothing of it is another's any more.
    pub(crate) fn settle(&mut self, connection: &Connection) {
        self.rates_left.settle(connection);
        self.sure.settle(connection);
    }

    /// The same of a window, a class or a gap.
    pub(crate) fn settle_thing(&mut self, thing: &Thing) {
        self.things_left.settle(thing);
    }

    /// No rate of a connection stands for certain.
    pub(crate) fn doubt(&mut self, connection: &Connection) {
        self.rates.remove(connection);
    }

    /// An agent says that it holds none of a connection. What another has left is not its to lift.
    pub(crate) fn release(&mut self, connection: &Connection) {
        if self.left_until(connection).is_none() {
            self.doubt(connection);
        }
    }

    /// The agent of a connection is gone, and has left its rate standing `until` then, if at all: it may stand, and counts
    /// as enforced as long as that is `sure`. What another has left, and this one has not answered for, may stand as long
    /// as before. No more than `most` are remembered.
    pub(crate) fn leave(
        &mut self,
        connection: &Connection,
        until: Option<Time>,
        sure: Option<Time>,
        most: usize,
    ) {
        let (before, left) = self.rates_left.settle(connection).unzip();
        self.sure.settle(connection);
        let until = until.max(before).filter(|_| self.rates_left.len() < most);
        if let Some(until) = until {
            let rate = self.rate(connection).or(left.flatten());
            self.rates_left.insert(*connection, rate, until);
        }
        match sure.filter(|_| until.is_some()) {
            Some(sure) => self.sure.insert(*connection, (), sure),
            None => self.doubt(connection),
        }
    }

    /// The same of what a command asked for of a thing.
    pub(crate) fn leave_thing(
        &mut self,
        thing: Thing,
        command: Command,
        until: Option<Time>,
        most: usize,
    ) {
        let stand = self.rates_left.len() + self.things_left.len();
        let until = until.max(self.things_left.until(&thing));
        if let Some(until) = until.filter(|_| stand < most) {
            self.things_left.insert(thing, command, until);
        }
    }

    /// What was left is over where its lease is.
    pub(crate) fn lapse(&mut self, now: Time) {
        for connection in self.sure.take(now) {
            self.rates.remove(&connection);
        }
        self.rates_left.take(now);
        self.things_left.take(now);
    }

    /// When the first lease ends of what was left.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let all = [self.sure.first(), self.rates_left.first(), self.things_left.first()];
        all.into_iter().flatten().min()
    }

    /// The rate of a connection that is confirmed to stand.
    pub(crate) fn rate(&self, connection: &Connection) -> Option<Rate> {
        self.rates.get(connection).copied()
    }

    /// The connections of which one is.
    pub(crate) fn rates(&self) -> impl Iterator<Item = &Connection> {
        self.rates.keys()
    }

    /// The rate of a connection that an agent has left, and that may stand at `now`.
    pub(crate) fn rate_left(&self, now: Time, connection: &Connection) -> Option<Rate> {
        *self.rates_left.get(connection, now)?
    }

    /// Until when the rate of a connection may stand that an agent has left.
    pub(crate) fn left_until(&self, connection: &Connection) -> Option<Time> {
        self.rates_left.until(connection)
    }

    /// Until when it counts as enforced.
    pub(crate) fn sure_until(&self, connection: &Connection) -> Option<Time> {
        self.sure.until(connection)
    }

    /// The connections whose rates were left, and until when they may stand.
    pub(crate) fn rates_left(&self) -> impl Iterator<Item = (&Connection, Time)> {
        self.rates_left.iter()
    }

    /// The same of windows, classes and gaps.
    pub(crate) fn things_left(&self) -> impl Iterator<Item = (&Thing, Time)> {
        self.things_left.iter()
    }

    /// The caps that were left where a node's interface leads, and may stand at `now`.
    pub(crate) fn window_left(
        &self,
        now: Time,
        node: &str,
        interface: &str,
        of: Option<Connection>,
    ) -> Option<Caps> {
        caps_of(self.things_left.get(&Thing::Window(node.into(), interface.into(), of), now)?)
    }

    /// The least time between acknowledgements likewise.
    pub(crate) fn gap_left(&self, now: Time, node: &str, interface: &str) -> Option<Span> {
        gap_of(self.things_left.get(&Thing::Gap(node.into(), interface.into()), now)?)
    }

    /// The class of a connection likewise.
    pub(crate) fn class_left(&self, now: Time, connection: &Connection) -> Option<u8> {
        class_of(self.things_left.get(&Thing::Priority(*connection), now)?)
    }
}

/// The windows, classes and gaps of an agent.
#[derive(Default)]
pub(crate) struct Held {
    /// Those that stand, as it has confirmed.
    stands: BTreeMap<Thing, Command>,
    /// Commands for them that are not confirmed, and their numbers.
    unconfirmed: VecDeque<(u64, Command)>,
}

impl Held {
    /// All is told anew with commands of this number: what stands ends if it isn't among them.
    pub(crate) fn begin_anew(&mut self, sequence: u64) {
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
        if Thing::of(command).is_held() {
            self.unconfirmed.push_back((sequence, command.clone()));
        }
    }

    /// Commands up to this number were carried out, those that `succeeded`.
    pub(crate) fn applied(
        &mut self,
        sequence: u64,
        mut succeeded: impl FnMut(&Thing, u64) -> bool,
    ) {
        while let Some((number, command)) =
            self.unconfirmed.pop_front_if(|(number, _)| *number <= sequence)
        {
            let thing = Thing::of(&command);
            if !succeeded(&thing, number) {
                continue;
            }
            if command.ends() {
                self.stands.remove(&thing);
            } else {
                self.stands.insert(thing, command);
            }
        }
    }

    /// A command of those that were all there are failed: what stood before has ended, unless that failed.
    pub(crate) fn ended(&mut self, command: &Command) {
        if !command.ends() {
            self.stands.remove(&Thing::of(command));
        }
    }

    /// The caps of the windows of a connection, or of all, where a node's interface leads.
    pub(crate) fn window(
        &self,
        node: &str,
        interface: &str,
        connection: Option<Connection>,
    ) -> Option<Caps> {
        caps_of(self.stands.get(&Thing::Window(node.into(), interface.into(), connection))?)
    }

    /// The least time between acknowledgements where a node's interface leads.
    pub(crate) fn gap(&self, node: &str, interface: &str) -> Option<Span> {
        gap_of(self.stands.get(&Thing::Gap(node.into(), interface.into()))?)
    }

    /// The class of a connection.
    pub(crate) fn class(&self, connection: &Connection) -> Option<u8> {
        class_of(self.stands.get(&Thing::Priority(*connection))?)
    }

    /// How many stand.
    pub(crate) fn count(&self) -> usize {
        self.stands.len()
    }

    /// Whether exactly what a command asks for stands.
    pub(crate) fn has(&self, command: &Command) -> bool {
        self.stands.get(&Thing::of(command)) == Some(command)
    }

    /// What stands of a thing, in words.
    pub(crate) fn in_words(&self, thing: &Thing) -> Option<String> {
        match self.stands.get(thing)? {
            Command::Prioritize { priority, .. } => Some(format!("class {priority}")),
            Command::Space { gap_ns, .. } => gap_ns.map(|gap| format!("{gap}")),
            command => caps_of(command).map(|caps| match caps.constant() {
                Some(cap) => format!("{}", cap.bytes),
                None => "prepared".into(),
            }),
        }
    }

    /// Those that may stand: what is confirmed, and what was sent last.
    pub(crate) fn may_stand(self) -> BTreeMap<Thing, Command> {
        let mut all = self.stands;
        let sent = self.unconfirmed.into_iter().map(|(_, command)| command);
        all.extend(sent.filter(|of| !of.ends()).map(|of| (Thing::of(&of), of)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::connection;

    #[test]
    fn what_was_left_stands_until_its_lease_ends_or_an_agent_answers_for_it() {
        let (mut standing, rate) = (Standing::default(), Some(Rate::from_mbps(1)));
        let until = Time::ZERO + Span::from_secs(10);
        for port in 1..=4 {
            standing.confirm(connection(port), rate);
        }
        for port in 1..=3 {
            standing.leave(&connection(port), Some(until), Some(until), 2);
        }
        assert_eq!(standing.rate(&connection(3)), None, "there is room for two");
        standing.leave(&connection(4), None, Some(until), 9);
        assert_eq!(standing.rate(&connection(4)), None, "its lease is over");
        standing.release(&connection(1));
        assert_eq!(standing.rate(&connection(1)), rate, "another has left it");
        standing.confirm(connection(1), rate);
        assert_eq!((standing.deadline(), standing.rates_left().count()), (Some(until), 1));
        standing.lapse(until);
        let stand = [1, 2].map(|port| standing.rate(&connection(port)));
        assert_eq!((standing.deadline(), stand), (None, [rate, None]));
        standing.release(&connection(1));
        assert_eq!(standing.rates().count(), 0);
    }

    #[test]
    fn a_class_stands_once_it_is_confirmed_and_until_its_end_is() {
        let class = |priority| Command::Prioritize { connection: connection(1), priority };
        let mut held = Held::default();
        held.sent(&class(3), 1);
        assert_eq!((held.class(&connection(1)), held.count()), (None, 0));
        held.applied(1, |_, _| true);
        held.sent(&class(5), 2);
        held.applied(2, |_, number| number != 2);
        assert_eq!(held.class(&connection(1)), Some(3), "the second failed");
        held.begin_anew(3);
        held.applied(3, |_, _| true);
        assert_eq!(held.count(), 0, "nothing was told of it anew");
    }
}
