//! Connections that are seen join the flows that were declared without their ports, and leave them.

use alloc::format;
use alloc::vec::Vec;

use model::FlowId;
use protocol::Connection;
use protocol::agent::{ConnectionReport, MOST_HOLDERS};
use units::{Bytes, Time};

use super::Controller;
use crate::applications::registry::Registry;

impl Controller {
    /// A connection is seen, which had delivered `before` if it is seen the first time: it joins what it
    /// fits best, and nothing else. No windows are capped of one that `is_over` already.
    pub(super) fn join(&mut self, connection: Connection, before: Bytes, is_over: bool) {
        let fits = self.registry.fitting(&connection);
        if fits.as_ref() == self.registry.joins.of(&connection) {
            return;
        }
        let had_joined = self.part(&connection);
        let Some(declared) = fits else {
            return;
        };
        let flows = self.registry.sharing(&declared).len();
        let joined = self.registry.joins.joined_by(&declared) + 1;
        if !Registry::has_room_to_join(&self.context, flows, joined) {
            return;
        }
        // What it delivered for others is not of these flows.
        let flow = self.registry.sharing(&declared).first().and_then(|id| self.registry.flow(*id));
        let since = flow.filter(|_| !had_joined).map_or(Time::NEVER, |flow| flow.since);
        let ends = self.view.ends(&connection);
        let known = ends.and_then(|e| self.pairs.delivered_before(e, &connection, since));
        let before = known.unwrap_or(before);
        let ids = self.registry.sharing(&declared).to_vec();
        let was_seen = ids.first().is_some_and(|id| self.take_over(&connection, *id));
        let Some(of) = ids.first().and_then(|id| self.registry.application_of(*id)).cloned() else {
            return;
        };
        if self.registry.joins.join(&self.context, connection, (declared, &of), before) {
            for id in ids.into_iter().filter(|_| was_seen) {
                self.tell_opened(id);
            }
            if !is_over {
                self.cap_anew(&connection, &[]);
            }
            self.desired.touch(connection);
        } else {
            let told = format!(
                "application {of} has more than {} connections of flows that it declared without their ports: those \
                 beyond are not governed; raise limits.flows",
                self.context.limits.flows
            );
            self.registry.note_excess(self.context.now, told);
        }
    }

    /// A connection that was seen before anybody declared it is a declared flow's from now on: what stood for it
    /// until now is forgotten. Whether there was such a thing.
    pub(super) fn take_over(&mut self, connection: &Connection, by: FlowId) -> bool {
        let Some((seen, scale)) = self.registry.undeclared(connection) else {
            return false;
        };
        self.registry.take_over_scale(by, scale);
        self.forget_flow(seen);
        true
    }

    /// A connection is no more, or of others: it leaves what it had joined, if it had.
    pub(super) fn part(&mut self, connection: &Connection) -> bool {
        let Some(declared) = self.registry.joins.part(connection) else {
            return false;
        };
        let left = self.registry.sharing(&declared).first().copied();
        let capped = left.into_iter().flat_map(|id| self.desired.links_capping(id));
        let capped: Vec<_> = capped.collect();
        self.cap_anew(connection, &capped);
        self.desired.touch(*connection);
        true
    }

    /// The connections that no report has spoken of lately leave.
    pub(super) fn part_silent(&mut self) {
        let host = |of: &Connection| self.view.host_at(of.source.ip());
        let looked = |of: &Connection| self.agents.looked(host(of)).awake;
        for connection in self.registry.joins.silent(&self.context, looked) {
            self.part(&connection);
        }
    }

    /// Notes who has the source of a connection. What comes back over it may belong to other flows then. With each
    /// sample those of both ends are looked up with each other, so that of many who share a socket few count.
    pub(super) fn note_holders(&mut self, report: &ConnectionReport) {
        let Connection { source, destination } = report.connection;
        let host = self.view.host_at(source.ip());
        let number = |process| self.registry.processes.number(host?, process);
        let mut processes: Vec<_> = report.processes.iter().filter_map(number).collect();
        if processes.len() > MOST_HOLDERS {
            processes.sort_unstable();
            processes.truncate(MOST_HOLDERS);
        }
        if self.registry.joins.hold(&self.context, report.connection, processes) {
            let back = Connection { source: destination, destination: source };
            let is_known = |ends| self.pairs.is_reported(ends, &back);
            if self.view.ends(&back).is_some_and(is_known) {
                self.join(back, Bytes::ZERO, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use model::Buffer;
    use protocol::agent::{Capability, Host, Report};
    use protocol::application::Declaration;
    use protocol::{Process, Processes};
    use testing::network::{host, hosts, link};
    use units::Span;

    use super::*;
    use crate::config::HostConfig;
    use crate::fixture::{config, connection};
    use crate::message::{ChannelId, Input};

    const AGENT: ChannelId = ChannelId(1);

    /// A flow whose port nobody knew, and an agent that sees so many connections of it, which all send.
    fn joined_by(connections: u16) -> Controller {
        let mut config = config();
        config.topology = hosts(2, link(100, 10, Buffer::Unlimited));
        for (name, address) in [("h0", 1), ("h1", 2)] {
            let (node, addresses) =
                (host(&config.topology, name), vec![[10, 0, 0, address].into()]);
            config.hosts.push(HostConfig { node, addresses, ethernet: vec![] });
        }
        let mut controller = Controller::new(config, 1, Time::ZERO).expect("a configuration");
        let hosts = vec![Host { name: "h0".into(), addresses: vec![] }];
        let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
        let start = Declaration::JobStart { job: "job".into() };
        let request = Declaration::FlowRequest {
            job: "job".into(),
            flow: "1".into(),
            connection: connection(0),
            processes: Processes::default(),
            bytes: None,
        };
        let (application, seen) = ("app", sampled(1..=connections));
        for input in [
            Input::AgentConnected { channel: AGENT, identity: "a" },
            Input::Reported(AGENT, &hello),
            Input::Declared { application, declaration: &start },
            Input::Declared { application, declaration: &request },
            Input::Reported(AGENT, &seen),
        ] {
            controller.observe(Time::ZERO, input).expect("it is taken");
        }
        controller.decide(&mut Vec::new());
        controller
    }

    fn sampled(ports: impl IntoIterator<Item = u16>) -> Report {
        let sends = |port| ConnectionReport {
            connection: connection(port),
            delivered_bytes: Bytes::ZERO,
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: vec![],
        };
        let connections = ports.into_iter().map(sends).collect();
        Report::Connections { sampled_ns: Time::ZERO, connections }
    }

    /// A socket that hundreds share, at both ends, would cost all pairs of them with each sample.
    #[test]
    fn of_many_who_share_a_socket_those_count_that_were_named_first() {
        let mut controller = joined_by(1);
        let all = || (1..=20).rev().map(Process::Pid);
        for (number, process) in (0..).zip(all()) {
            let declaration = Declaration::FlowRequest {
                job: "job".into(),
                flow: alloc::format!("named {number}"),
                connection: connection(0),
                processes: Processes { source: Some(process), destination: None },
                bytes: None,
            };
            let input = Input::Declared { application: "app", declaration: &declaration };
            controller.observe(Time::ZERO, input).expect("it is taken");
        }
        let Report::Connections { sampled_ns, mut connections } = sampled([1]) else {
            panic!("it is a sample");
        };
        connections[0].processes = all().collect();
        let report = Report::Connections { sampled_ns, connections };
        controller.observe(Time::ZERO, Input::Reported(AGENT, &report)).expect("it is taken");
        let registry = &controller.registry;
        let held = registry.joins.holders(&connection(1)).iter();
        let held: Vec<_> = held.filter_map(|number| registry.processes.named(*number)).collect();
        let first: Vec<_> = all().take(MOST_HOLDERS).collect();
        assert_eq!(held, first.iter().collect::<Vec<_>>());
    }

    /// Who comes or goes touches itself only; the others are gone through once, when the turn ends.
    #[test]
    fn of_those_that_share_a_rate_each_is_touched_once_a_turn() {
        for connections in [100, 200] {
            let mut controller = joined_by(connections);
            for port in 1..=10 {
                let closed = Report::Closed { connection: connection(port) };
                let begun = sampled([1_000 + port]);
                for report in [closed, begun] {
                    let input = Input::Reported(AGENT, &report);
                    controller.observe(Time::ZERO, input).expect("it is taken");
                }
            }
            let paired = controller.pairs.take_changed();
            assert_eq!(controller.desired.take_changed(paired.iter()).len(), 20);
            let divided = controller.registry.joins.take_divided().count();
            assert_eq!(divided, usize::from(connections));
        }
    }
}
