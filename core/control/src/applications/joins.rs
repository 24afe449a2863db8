//! Which connections carry the flows whose ports nobody knew when they were declared.
//!
//! Such a flow is declared with port 0, which fits any, and may name the process that has that end. A
//! connection that an agent sees, or whose SYN a switch sees, joins the selector that fits it best, and
//! leaves it when it closes or when no report speaks of it any more. The flows' rate is divided among those
//! that send.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use protocol::Connection;
use protocol::agent::ConnectionReport;
use units::{Bytes, Time};

use crate::applications::selector::{ProcessId, Selector, leaving};
use crate::applications::taken::Taken;
use crate::carrier::Carrier;
use crate::context::Context;

/// A connection that was seen.
struct Joined {
    to: Selector,
    /// The application whose room it takes.
    of: Arc<str>,
    carrier: Carrier,
}

/// What fits one selector.
#[derive(Default)]
struct Group {
    connections: BTreeSet<Connection>,
    /// How many of them count.
    counting: u64,
    /// What waits at all of them. A sample comes in many reports: of what none has told yet that of the last sample is
    /// known.
    queued: Bytes,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Joins {
    joined: BTreeMap<Connection, Joined>,
    taken: Taken<Arc<str>>,
    groups: BTreeMap<Selector, Group>,
    /// What is divided anew at the end of the turn, for all of a group at once.
    divided: BTreeSet<Selector>,
    /// Who has the source of a connection, of the processes that flows name; and when that was said last.
    holders: BTreeMap<Connection, (Vec<ProcessId>, Time)>,
    /// How many of those begin at an address.
    held: Taken<IpAddr>,
    swept: Time,
}

impl Joins {
    /// What a connection has joined.
    pub(crate) fn of(&self, connection: &Connection) -> Option<&Selector> {
        self.joined.get(connection).map(|joined| &joined.to)
    }

    /// The connections that have joined.
    pub(crate) fn with(&self, declared: &Selector) -> impl Iterator<Item = &Connection> {
        self.groups.get(declared).into_iter().flat_map(|group| &group.connections)
    }

    /// How many these are.
    pub(crate) fn joined_by(&self, declared: &Selector) -> usize {
        self.groups.get(declared).map_or(0, |group| group.connections.len())
    }

    /// Among how many connections the rate is divided.
    pub(crate) fn counting(&self, declared: &Selector) -> u64 {
        self.groups.get(declared).map_or(1, |group| group.counting.max(1))
    }

    /// The rate of what was declared is divided anew.
    pub(crate) fn divide(&mut self, declared: &Selector) {
        self.divided.insert(*declared);
    }

    /// The connections of all whose rate is divided anew since this was asked.
    pub(crate) fn take_divided(&mut self) -> impl Iterator<Item = &Connection> {
        let divided = core::mem::take(&mut self.divided).into_iter();
        divided
            .filter_map(|declared| self.groups.get(&declared))
            .flat_map(|group| &group.connections)
    }

    /// The connections that begin at an address.
    pub(crate) fn leaving(&self, from: IpAddr) -> impl Iterator<Item = &Connection> {
        self.joined.range(leaving(from)).map(|(connection, _)| connection)
    }

    /// A connection joins what an application has declared, which had `delivered` so much before; whether it does: there
    /// is room for as many of each application as it may have flows.
    pub(crate) fn join(
        &mut self,
        cx: &Context,
        connection: Connection,
        (to, of): (Selector, &Arc<str>),
        delivered: Bytes,
    ) -> bool {
        if !self.taken.take(Arc::clone(of), cx.limits.flows) {
            return false;
        }
        let (of, carrier) = (Arc::clone(of), Carrier::new(cx, delivered));
        self.joined.insert(connection, Joined { to, of, carrier });
        self.groups.entry(to).or_default().connections.insert(connection);
        true
    }

    /// A connection leaves what it has joined: that.
    pub(crate) fn part(&mut self, connection: &Connection) -> Option<Selector> {
        let joined = self.joined.remove(connection)?;
        self.taken.give(&joined.of);
        if let Some(group) = self.groups.get_mut(&joined.to) {
            group.connections.remove(connection);
            group.queued = group.queued - joined.carrier.queued();
            if joined.carrier.counts() {
                group.counting -= 1;
                self.divided.insert(joined.to);
            }
            if group.connections.is_empty() {
                self.groups.remove(&joined.to);
            }
        }
        Some(joined.to)
    }

    /// Notes how a connection stands: what it has delivered since the last time, and what waits at all that have joined
    /// the same; `None` where it has not joined. The rate is divided anew where it begins or ceases to count.
    pub(crate) fn note(
        &mut self,
        cx: &Context,
        report: &ConnectionReport,
    ) -> Option<(Bytes, Bytes)> {
        let joined = self.joined.get_mut(&report.connection)?;
        let group = self.groups.get_mut(&joined.to)?;
        let before = joined.carrier.queued();
        let grown = joined.carrier.note(cx, report);
        group.queued = group.queued - before + joined.carrier.queued();
        if joined.carrier.count(cx) {
            let counts = joined.carrier.counts();
            group.counting = if counts { group.counting + 1 } else { group.counting - 1 };
            self.divided.insert(joined.to);
        }
        Some((grown, group.queued))
    }

    /// Who has an end of a connection, of the processes that flows name; whether that is new.
    pub(crate) fn hold(
        &mut self,
        cx: &Context,
        connection: Connection,
        processes: Vec<ProcessId>,
    ) -> bool {
        let (before, at) = (self.holders.remove(&connection), connection.source.ip());
        if before.is_some() {
            self.held.give(&at);
        }
        let is_new = before.map(|(before, _)| before).unwrap_or_default() != processes;
        if !processes.is_empty() && self.held.take(at, cx.limits.flows) {
            self.holders.insert(connection, (processes, cx.awake));
        }
        is_new
    }

    /// Who has the source of a connection.
    pub(crate) fn holders(&self, connection: &Connection) -> &[ProcessId] {
        self.holders.get(connection).map_or(&[], |(processes, _)| processes)
    }

    /// The connections that no report has spoken of lately, though the agent of their sender has `looked`; sought no more
    /// often than samples come. At those that it has passed over nothing waits.
    pub(crate) fn silent(
        &mut self,
        cx: &Context,
        looked: impl Fn(&Connection) -> Time,
    ) -> Vec<Connection> {
        if cx.awake.since(self.swept) < cx.sample {
            return Vec::new();
        }
        self.swept = cx.awake;
        let held = &mut self.held;
        self.holders.retain(|connection, (_, at)| {
            let stays = cx.awake.since(*at) <= cx.lately();
            if !stays {
                held.give(&connection.source.ip());
            }
            stays
        });
        let mut silent = Vec::new();
        for (connection, Joined { to, carrier, .. }) in &mut self.joined {
            let (looked, before) = (looked(connection), carrier.queued());
            carrier.pass_over(looked);
            if carrier.queued() < before
                && let Some(group) = self.groups.get_mut(to)
            {
                group.queued = group.queued - before;
            }
            silent.extend(carrier.is_silent(cx, looked).then_some(*connection));
        }
        silent
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use model::NodeId;
    use protocol::Process;
    use units::Span;

    use super::*;
    use crate::applications::application::Applications;
    use crate::applications::selector::Processes;
    use crate::fixture::{config, connection};

    fn context() -> Context {
        Context::new(&config(), 1, Time::ZERO)
    }

    /// Two that flows name.
    fn processes() -> [ProcessId; 2] {
        let (mut all, mut applications) = (Processes::default(), Applications::default());
        let by = applications.add("app").expect("there is room");
        [1, 2].map(|pid| all.take(NodeId(0), &Process::Pid(pid), by))
    }

    /// A sample later.
    fn pass(cx: &mut Context) {
        cx.pass(cx.now + cx.sample);
    }

    fn report(port: u16) -> ConnectionReport {
        ConnectionReport {
            connection: connection(port),
            delivered_bytes: Bytes::ZERO,
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: vec![],
        }
    }

    #[test]
    fn there_is_room_for_as_many_as_an_application_may_have_flows() {
        let (mut joins, mut cx) = (Joins::default(), context());
        cx.limits.flows = 2;
        let (to, [first, second]) = (Selector::from(connection(0)), processes());
        let [of, other] = ["app", "other"].map(Arc::<str>::from);
        for (port, has_room) in [(1, true), (2, true), (3, false)] {
            assert_eq!(joins.join(&cx, connection(port), (to, &of), Bytes::ZERO), has_room);
            assert_eq!(joins.of(&connection(port)).is_some(), has_room);
            joins.hold(&cx, connection(port), vec![first]);
            assert_eq!(joins.holders(&connection(port)).is_empty(), !has_room);
        }
        assert_eq!(joins.with(&to).count(), 2);
        // Another application has room of its own, and so has another host.
        assert!(joins.join(&cx, connection(4), (to, &other), Bytes::ZERO));
        let back = connection(4);
        let back = Connection { source: back.destination, destination: back.source };
        joins.hold(&cx, back, vec![first]);
        assert_eq!(joins.holders(&back), [first]);
        // Those that have room can be held by others; who leaves makes room.
        assert!(joins.hold(&cx, connection(1), vec![second]));
        assert_eq!(joins.holders(&connection(1)), [second]);
        joins.part(&connection(1));
        assert!(joins.join(&cx, connection(3), (to, &of), Bytes::ZERO));
        joins.hold(&cx, connection(1), vec![]);
        joins.hold(&cx, connection(3), vec![first]);
        assert_eq!(joins.holders(&connection(3)), [first]);
    }

    /// Of who has it, two samples without a word; of a connection, four.
    #[test]
    fn what_no_report_speaks_of_is_forgotten() {
        let (mut joins, mut cx) = (Joins::default(), context());
        let (to, [process, _]) = (Selector::from(connection(0)), processes());
        for port in 1..=2 {
            joins.join(&cx, connection(port), (to, &Arc::from("app")), Bytes::ZERO);
            joins.hold(&cx, connection(port), vec![process]);
        }
        for sample in 1..=6 {
            pass(&mut cx);
            joins.note(&cx, &report(1));
            joins.hold(&cx, connection(1), vec![process]);
            let silent = joins.silent(&cx, |_| Time::NEVER);
            assert_eq!(silent, if sample > 4 { vec![connection(2)] } else { vec![] });
            assert_eq!(
                joins.silent(&cx, |_| Time::NEVER),
                [],
                "it was looked for with this sample"
            );
            assert_eq!(joins.holders(&connection(2)).is_empty(), sample > 2, "after {sample}");
            assert_eq!(joins.holders(&connection(1)), [process]);
        }
    }
}
