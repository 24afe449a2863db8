//! What agents report: the policy is told, and what is known of flows is set right.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use model::{Declared, FlowId, LinkId, Measured, NodeId, Severity, StreamSample};
use protocol::agent::{
    Capability, Command, ConnectionReport, EndedConnection, Host, MOST_EPOCH, PortCount, Report,
};
use protocol::kubernetes::is_pod;
use protocol::{Connection, Process};
use units::{Bytes, Rate, Span, Time};

use super::Controller;
use crate::applications::flow::Flow;
use crate::message::{ChannelId, Closing, Output, Refusal};
use crate::thing::granted;

/// So much longer than known a link may have carried what is reported.
const LATE: Span = Span::from_secs(3_600);
/// What no link is asked about: one of 2.4 Mbit/s carries that within `LATE`.
const UNCHECKED: Bytes = Bytes::new(1 << 30);
/// What a host sends at most of which no link is known, or what it carries: the fastest port that a host is commonly sold
/// with.
const FASTEST: Rate = Rate::from_mbps(400_000);
/// No connection is older: ten years.
const OLDEST: Span = Span::from_secs(315_360_000);

/// What is known of a flow with one report, over all its connections.
#[derive(Clone, Copy, Default)]
struct Sum {
    delivered: Bytes,
    queued: Bytes,
    /// The least.
    round_trip: Option<Span>,
}

impl Controller {
    pub(super) fn handle_report(
        &mut self,
        channel: ChannelId,
        report: &Report,
    ) -> Result<(), Refusal> {
        if !self.agents.knows(channel) {
            let reason = "the connection is not known; connect first".into();
            return Err(Refusal { field: "agent", reason, busy: false });
        }
        let greeted = self.agents.admit(&self.context, channel, report);
        let done = greeted.and_then(|greeted| match report {
            Report::Hello { hosts, capabilities, epoch } => {
                let done = self.greet(channel, hosts, capabilities, *epoch);
                done.inspect_err(|refusal| self.refuse_agent(channel, refusal))
            }
            _ if !greeted => {
                let reason = "the first report must be a hello; connect again".into();
                let refusal = Refusal { field: "type", reason, busy: false };
                self.refuse_agent(channel, &refusal);
                Err(refusal)
            }
            _ => self.take_in_report(channel, report),
        });
        match &done {
            Ok(()) => self.counters.reports += 1,
            Err(refusal) => {
                self.counters.reports_refused += 1;
                if !self.is_of_others(report) {
                    self.agents.note_refused(channel, self.context.now, refusal);
                }
            }
        }
        done
    }

    /// Whether it is a packet of somebody outside, which a port on the way sees: nobody's mistake.
    fn is_of_others(&self, report: &Report) -> bool {
        matches!(report, Report::Opened { connection } | Report::Closed { connection }
            if self.view.host_at(connection.source.ip()).is_none())
    }

    /// The first report of an agent.
    fn greet(
        &mut self,
        channel: ChannelId,
        hosts: &[Host],
        capabilities: &[Capability],
        epoch: u64,
    ) -> Result<(), Refusal> {
        check_epoch(self.context.epoch, epoch)?;
        self.forget_named();
        let (cx, view) = (&self.context, &mut self.view);
        let replaced = self.agents.greet(cx, view, channel, hosts, capabilities, epoch)?;
        self.agents.note_epoch(channel, epoch);
        for old in replaced {
            self.close_agent(old, Closing::Replaced);
        }
        self.fabric.rollout.make_due();
        let hosts = self.agents.hosts_of(channel).to_vec();
        self.recap_at(&hosts);
        Ok(())
    }

    fn refuse_agent(&mut self, channel: ChannelId, refusal: &Refusal) {
        self.agents.note_turned_away(channel, self.context.now, refusal);
        self.close_agent(channel, Closing::Refused(refusal.clone()));
    }

    fn close_agent(&mut self, channel: ChannelId, why: Closing) {
        self.lose_agent(channel);
        self.closing.push(Output::CloseAgent(channel, why));
    }

    pub(super) fn lose_agent(&mut self, channel: ChannelId) {
        self.recover(channel);
        let hosts = self.agents.hosts_of(channel).to_vec();
        self.agents.remove(&self.context, channel);
        self.release(&hosts);
        // Its switch caps what it did.
        self.recap_at(&hosts);
    }

    /// No port that an agent told of counts as congested: it would not tell that the port has recovered. One that goes on
    /// and connects again tells how its ports stand.
    fn recover(&mut self, channel: ChannelId) {
        for host in self.agents.hosts_of(channel).to_vec() {
            for link in self.view.network().topology().out(host).to_vec() {
                if self.view.forget_congestion(self.context.now, link, channel) {
                    let (severity, queue) = (Severity::Recovered, Bytes::ZERO);
                    self.tell(Measured::Congested { link, severity, queue });
                }
            }
        }
    }

    /// Forgets hosts that agents named and left.
    pub(super) fn forget_named(&mut self) {
        let (now, memory, agents) = (self.context.now, self.context.memory(), &self.agents);
        let acts = |host| agents.acting_for(host).is_some();
        let forgotten = self.view.forget_named(now, memory, acts, || self.registry.hosts_in_use());
        self.agents.forget_nodes(&forgotten);
    }

    /// Forgets the connections that nobody declared and that only agents told of which are gone for a grace. An
    /// agent that comes back tells of those that go on, and of others nobody would hear that they have ended.
    pub(super) fn forget_untold(&mut self) {
        let gone = self.agents.take_gone(&self.context);
        if gone.is_empty() {
            return;
        }
        let told_by = |flow: &Flow| {
            flow.owner.is_none() && flow.told_by.is_some_and(|channel| gone.contains(&channel))
        };
        let untold = self.registry.flows().filter(|(_, flow)| told_by(flow));
        for id in untold.map(|(id, _)| id).collect::<Vec<_>>() {
            self.forget_flow(id);
        }
    }

    fn take_in_report(&mut self, channel: ChannelId, report: &Report) -> Result<(), Refusal> {
        match report {
            Report::Hello { .. } => {}
            Report::Connections { sampled_ns, connections } => {
                self.sampled(channel, *sampled_ns, connections)?;
            }
            Report::Ended { sampled_ns, connections, lost } => {
                self.ended(channel, *sampled_ns, connections, *lost)?;
            }
            Report::Opened { connection } => {
                self.check_seen(channel, connection)?;
                self.agents.note_teller(channel);
                self.opened(*connection, Some(channel));
            }
            Report::Closed { connection } => {
                self.check_seen(channel, connection)?;
                self.closed(connection);
            }
            Report::Congested { node, interface, severity, queue_bytes } => {
                let found = self.view.named(node);
                let found = found.filter(|node| self.agents.acts_for(channel, *node));
                let link = found.and_then(|node| self.view.link_by(node, interface));
                let Some(link) = link else {
                    let reason = "is no interface that the agent acts for; declare it".into();
                    return Err(Refusal { field: "interface", reason, busy: false });
                };
                let (severity, queue) = (*severity, *queue_bytes);
                self.congested(link, severity, queue, Some(channel));
            }
            Report::Ports { ports } => self.counted_ports(channel, ports)?,
            Report::Failed { epoch, sequence, command, reason } => {
                self.check_sent(channel, *epoch, *sequence)?;
                if let Some(connection) = granted(command) {
                    self.check_host(channel, connection)?;
                }
                let (number, can_hold) = ((*epoch, *sequence), self.can_hold(channel, command));
                let (cx, agents) = (&self.context, &mut self.agents);
                if agents.failed(cx, channel, number, (command, can_hold), reason)? {
                    self.counters.commands_failed += 1;
                }
            }
            Report::Applied { epoch, sequence } => {
                self.check_sent(channel, *epoch, *sequence)?;
                self.agents.applied(&self.context, channel, *epoch, *sequence);
            }
            Report::Stale { obeys, .. } => {
                check_epoch(self.context.epoch, *obeys)?;
                self.counters.stale += 1;
                self.agents.note_epoch(channel, *obeys);
            }
            Report::Left {} => {
                self.agents.let_go(channel);
                self.close_agent(channel, Closing::Left);
            }
        }
        Ok(())
    }

    /// The queue of a link is so congested: noted for people, told to the policy.
    pub(super) fn congested(
        &mut self,
        link: LinkId,
        severity: Severity,
        queue: Bytes,
        told_by: Option<ChannelId>,
    ) {
        self.view.note_congestion(self.context.now, link, (severity, queue), told_by);
        self.tell(Measured::Congested { link, severity, queue });
    }

    /// An agent tells what interfaces have sent. Of those that are no port of a known link, such as one to the
    /// outside, nobody wants to know.
    fn counted_ports(&mut self, channel: ChannelId, ports: &[PortCount]) -> Result<(), Refusal> {
        let most = self.context.limits.reported();
        if ports.len() > most {
            let reason = format!("more than {most} in a report; send fewer");
            return Err(Refusal { field: "ports", reason, busy: false });
        }
        let (mut counters, mut refused) = (Vec::new(), None);
        for PortCount { node, interface, sent_bytes } in ports {
            let found = self.view.named(node);
            let Some(node) = found.filter(|node| self.agents.acts_for(channel, *node)) else {
                // One that is odd doesn't silence the others.
                let reason =
                    format!("{} is no node that the agent acts for; declare it", shown(node));
                let refusal = Refusal { field: "ports.node", reason, busy: false };
                self.agents.note_refused(channel, self.context.now, &refusal);
                refused = Some(refusal);
                continue;
            };
            counters.extend(self.view.link_by(node, interface).map(|link| (link, *sent_bytes)));
        }
        if self.decider.ports().is_some() && !counters.is_empty() {
            self.tell(Measured::Ports(counters));
        }
        refused.map_or(Ok(()), Err)
    }

    /// The first and last packet of a connection are told by the agent of its sender, or of a switch
    /// that the sender is attached to.
    fn check_seen(&self, channel: ChannelId, connection: &Connection) -> Result<(), Refusal> {
        check_ports(connection)?;
        let topology = self.view.network().topology();
        let host = self.view.host_at(connection.source.ip());
        let links = host.map(|host| topology.out(host)).into_iter().flatten();
        let mut next = links.map(|link| topology.link(*link).to);
        if next.any(|node| self.view.is_switch(node) && self.agents.acts_for(channel, node)) {
            return Ok(());
        }
        self.check_own(channel, connection)
    }

    /// An agent answers what it was told.
    fn check_sent(&self, channel: ChannelId, epoch: u64, sequence: u64) -> Result<(), Refusal> {
        if self.agents.may_have(&self.context, channel, epoch, sequence) {
            return Ok(());
        }
        let reason =
            "no such commands were sent; answer with the numbers of those that came".into();
        Err(Refusal { field: "sequence", reason, busy: false })
    }

    /// An agent samples connections of its own hosts only.
    fn check_own(&self, channel: ChannelId, connection: &Connection) -> Result<(), Refusal> {
        check_ports(connection)?;
        self.check_host(channel, connection)
    }

    /// A connection begins at a host of the agent's.
    fn check_host(&self, channel: ChannelId, connection: &Connection) -> Result<(), Refusal> {
        let host = self.view.host_at(connection.source.ip());
        if host.is_some_and(|host| self.agents.acts_for(channel, host)) {
            return Ok(());
        }
        let reason = format!(
            "{} is not of the agent's hosts; add it to addresses of a [[host]] in the agent's file",
            connection.source.ip()
        );
        Err(Refusal { field: "connection.source", reason, busy: false })
    }

    /// A connection of this host's has delivered no more since it was reported first than the fastest of its links
    /// carries meanwhile and within `LATE`, for which the first report may be late: that is granted once, not with each
    /// report. Where what a connection had delivered at first isn't kept, as of one to no known host, all of it is
    /// held against `OLDEST` alone. A capacity that is a guess counts as `FASTEST`. What can be true isn't told from what
    /// is.
    fn check_amount(
        &self,
        connection: &Connection,
        src: NodeId,
        ends: Option<(NodeId, NodeId)>,
        delivered: Bytes,
    ) -> Result<(), Refusal> {
        if delivered <= UNCHECKED {
            return Ok(());
        }
        let first = ends.and_then(|ends| self.pairs.first(ends, connection));
        let (span, before) = match first {
            Some((at, before)) => (self.context.now.since(at) + LATE, before),
            // Nobody knows since when it has been there.
            None => (OLDEST, Bytes::ZERO),
        };
        let grown = delivered - before;
        if grown <= UNCHECKED {
            return Ok(());
        }
        // One that is down may have carried it.
        let topology = self.view.network().topology();
        let carries = |link: &LinkId| {
            let is_guess = self.view.link(*link).guessed;
            if is_guess { FASTEST } else { topology.link(*link).spec.capacity }
        };
        let links = topology.out(src).iter().map(carries);
        let access = links.max().unwrap_or(FASTEST);
        let bits = u128::from(grown.get()) * 8;
        let second = u128::from(Span::from_secs(1).as_nanos());
        if bits * second <= u128::from(access.as_bps()) * u128::from(span.as_nanos()) {
            return Ok(());
        }
        // Told once, however much it grows.
        let field = "connections.delivered_bytes";
        let reason = format!(
            "more than a link of {access} carries; look at that host and its agent, or declare the link's capacity"
        );
        Err(Refusal { field, reason, busy: false })
    }

    /// Whether an agent can hold what a command is about though nobody here told it so: an earlier controller may have.
    /// Whose connection it is was checked.
    fn can_hold(&self, channel: ChannelId, command: &Command) -> bool {
        match command {
            Command::Pace { .. } | Command::Prioritize { .. } => true,
            Command::Window { node, interface, .. }
            | Command::Prepare { node, interface, .. }
            | Command::Space { node, interface, .. }
            | Command::Watch { node, interface, .. } => {
                let node = self.view.named(node);
                let own = node.filter(|node| self.agents.acts_for(channel, *node));
                own.is_some_and(|node| self.view.link_by(node, interface).is_some())
            }
            Command::Sample { .. } | Command::Count { .. } | Command::Identify { .. } => false,
        }
    }

    /// The first packet of a connection. Connections that nobody declared matter to policies that
    /// watch the network only.
    pub(super) fn opened(&mut self, connection: Connection, told_by: Option<ChannelId>) {
        // Its ports are used again, and nobody saw the end of what had them.
        for id in self.outlived(&connection, told_by) {
            self.forget_flow(id);
        }
        // One that was sampled before goes on, and somebody has begun to watch: samples tell what it had delivered.
        let ends = self.view.ends(&connection);
        let is_new = ends.is_none_or(|ends| !self.pairs.is_reported(ends, &connection));
        if is_new {
            self.join(connection, Bytes::ZERO, false);
        }
        if let Some(id) = self.registry.carried_by(&connection).first().copied() {
            if is_new {
                self.registry.begins_at_nothing(id);
            }
            self.registry.told(&self.context, id, told_by);
            self.tell_opened(id);
            return;
        }
        self.open_undeclared(connection, told_by, Some(Bytes::ZERO));
    }

    /// A flow of an open connection has ended, and nobody has told that the connection has: it carries another,
    /// or what nobody declares.
    pub(super) fn hand_on(&mut self, connection: Connection, ended: &Flow) {
        let next = self.registry.carried_by(&connection).first().copied();
        let next = next.or_else(|| self.open_undeclared(connection, ended.told_by, None));
        if let Some(id) = next {
            self.registry.take_over_scale(id, ended.scale);
            self.registry.told(&self.context, id, ended.told_by);
            self.tell_opened(id);
        }
    }

    /// Tells the policy of a connection that nobody declared, which had delivered `base`.
    fn open_undeclared(
        &mut self,
        connection: Connection,
        told_by: Option<ChannelId>,
        base: Option<Bytes>,
    ) -> Option<FlowId> {
        let ends = self.view.ends(&connection).filter(|(src, dst)| src != dst);
        let ends = ends.filter(|_| self.decider.watch().is_some())?;
        if self.registry.seen() >= self.context.limits.flows {
            self.counters.flows_ignored += 1;
            return None;
        }
        let flow = Flow::seen(&self.context, connection.into(), ends, base, told_by);
        let id = self.registry.add_flow(flow)?;
        self.desired.begin(self.context.now, id);
        self.tell_opened(id);
        self.count(id);
        Some(id)
    }

    /// What nobody declared of a connection that opens now, and so is over. An agent that begins to watch tells of
    /// what goes on, too; and a SYN that is sent again, or seen by two switches, begins nothing new.
    fn outlived(&self, connection: &Connection, told_by: Option<ChannelId>) -> Vec<FlowId> {
        let (awake, patience) = (self.context.awake, self.context.patience());
        let is_over = |flow: &Flow| {
            let is_silent = flow.heard.is_some_and(|at| awake.since(at) > patience);
            flow.owner.is_none() && flow.told_by == told_by && is_silent
        };
        let flows = self.registry.sharing(&(*connection).into()).iter().copied();
        flows.filter(|id| self.registry.flow(*id).is_some_and(is_over)).collect()
    }

    pub(super) fn tell_opened(&mut self, id: FlowId) {
        if let Some((src, dst)) = self.registry.open(id) {
            self.tell(Measured::Opened { flow: id, src, dst });
        }
    }

    /// The last packet of a connection.
    pub(super) fn closed(&mut self, connection: &Connection) {
        self.leave_pair(connection);
        let Some(id) = self.registry.carried_by(connection).first().copied() else {
            return;
        };
        self.part(connection);
        let Some(flow) = self.registry.flow(id) else {
            return;
        };
        if self.registry.joins.with(&flow.selector).next().is_some() {
            // Others carry it still.
            return;
        }
        if self.registry.flow(id).is_some_and(|flow| flow.owner.is_none()) {
            self.forget_flow(id);
        } else {
            self.tell_closed(id);
        }
    }

    pub(super) fn tell_closed(&mut self, id: FlowId) {
        if self.registry.close(id) {
            self.tell(Measured::Closed { flow: id });
        }
    }

    fn sampled(
        &mut self,
        channel: ChannelId,
        sampled: Time,
        reports: &[ConnectionReport],
    ) -> Result<(), Refusal> {
        let (now, most) = (self.context.now, self.context.limits.reported());
        if reports.len() > most {
            let reason = format!("more than {most} in a report; send fewer");
            return Err(Refusal { field: "connections", reason, busy: false });
        }
        let mut flows: BTreeMap<FlowId, Sum> = BTreeMap::new();
        let mut pairs: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
        let (mut refused, mut lied, mut told) = (None, BTreeSet::new(), BTreeSet::new());
        let kept = self.agents.kept(channel, sampled, |hosts| self.pairs.reported_of(hosts));
        let (mut new, mut has_more) = (0, false);
        let mut taken = Vec::new();
        for report in reports {
            // A sample says of each connection once how it stands.
            if !told.insert(report.connection) {
                continue;
            }
            // Loopback, a container, another network: no host of ours has the address.
            let Connection { source, destination } = report.connection;
            let Some(src) = self.view.host_at(source.ip()) else { continue };
            let ends = self.view.host_at(destination.ip()).map(|dst| (src, dst));
            let check = self.check_own(channel, &report.connection);
            let delivered = report.delivered_bytes;
            let amount = |()| self.check_amount(&report.connection, src, ends, delivered);
            if let Err(refusal) =
                check.and_then(amount).and_then(|()| check_pods(&report.processes))
            {
                self.agents.note_refused(channel, now, &refusal);
                refused = Some(refusal);
                continue;
            }
            taken.push(report.connection);
            self.note_holders(report);
            self.note_owner(report);
            self.note_pod(report);
            self.registry.hear_back(&self.context, &report.connection);
            // What began since the sample before has delivered nothing before; of others nobody knows.
            let is_new = self.agents.sampled_before(channel, sampled);
            let before = if is_new { Bytes::ZERO } else { report.delivered_bytes };
            lied.extend(self.attribute(report, before, false, &mut flows));
            if let Some(ends) = ends.filter(|(src, dst)| src != dst) {
                if !self.pairs.is_reported(ends, &report.connection) {
                    if kept + new >= most {
                        has_more = true;
                        continue;
                    }
                    new += 1;
                }
                pairs.insert(ends);
                self.pairs.note_carrier(&self.context, ends, report, before);
            }
        }
        if has_more {
            self.agents.note_more(channel, now, most);
        }
        self.agents.note_sample(&self.context, channel, sampled, kept + new);
        self.part_silent();
        self.tell_flows(sampled, &flows);
        // After its flows by themselves.
        for of in lied {
            self.raise(&of);
        }
        self.tell_pairs(sampled, &pairs);
        self.judge_waste(&taken);
        self.end_vanished(channel);
        self.forget_silent();
        refused.map_or(Ok(()), Err)
    }

    /// Connections have ended: what they sent counts as if a sample had found them at their end.
    fn ended(
        &mut self,
        channel: ChannelId,
        sampled: Time,
        ended: &[EndedConnection],
        lost: u64,
    ) -> Result<(), Refusal> {
        let (now, most) = (self.context.now, self.context.limits.reported());
        if ended.len() > most {
            let reason = format!("more than {most} in a report; send fewer");
            return Err(Refusal { field: "connections", reason, busy: false });
        }
        if lost > 0 {
            self.agents.note_lost(channel, now);
        }
        let mut flows: BTreeMap<FlowId, Sum> = BTreeMap::new();
        let (mut refused, mut lied, mut over) = (None, BTreeSet::new(), Vec::new());
        for EndedConnection { connection, sent_bytes, processes } in ended {
            let Some(src) = self.view.host_at(connection.source.ip()) else { continue };
            let ends = self.view.host_at(connection.destination.ip()).map(|dst| (src, dst));
            let check = self.check_own(channel, connection);
            let amount = |()| self.check_amount(connection, src, ends, *sent_bytes);
            if let Err(refusal) = check.and_then(amount).and_then(|()| check_pods(processes)) {
                self.agents.note_refused(channel, now, &refusal);
                refused = Some(refusal);
                continue;
            }
            let report = ConnectionReport {
                connection: *connection,
                delivered_bytes: *sent_bytes,
                unsent_bytes: Bytes::ZERO,
                in_flight_bytes: Bytes::ZERO,
                rtt_ns: Span::ZERO,
                processes: processes.clone(),
            };
            // A sample says more of who had it.
            if self.registry.joins.holders(connection).is_empty() {
                self.note_holders(&report);
            }
            if processes.iter().any(|process| !matches!(process, Process::Pod(_))) {
                self.note_owner(&report);
            }
            let is_new = self.agents.sampled_before(channel, sampled);
            let untold = if is_new { Bytes::ZERO } else { *sent_bytes };
            // Also of one that has left its flow with its last packet.
            let before = self.registry.ledger.delivered(connection).unwrap_or(untold);
            lied.extend(self.attribute(&report, before, true, &mut flows));
            if let Some(ends) = ends {
                self.pairs.note_ended(ends, connection, (untold, *sent_bytes));
            }
            over.push(*connection);
        }
        self.tell_flows(sampled, &flows);
        for of in lied {
            self.raise(&of);
        }
        for connection in over {
            let ends = self.view.ends(&connection);
            let offered = ends.and_then(|ends| self.pairs.forget(ends, &connection));
            offered.into_iter().for_each(|offered| self.tell(offered));
            self.registry.ledger.close(&connection);
            self.registry.joins.hold(&self.context, connection, Vec::new());
            self.registry.owners.note(&self.context, connection, None);
            self.registry.pods.note(&self.context, connection, None);
            self.park_over(&connection);
            self.part(&connection);
        }
        refused.map_or(Ok(()), Err)
    }

    /// Takes in what a connection has carried, which had delivered `before` if it is told of the first time: for its
    /// flows, and for what they were declared as; it may be over. An application of which all flows count as more from
    /// now on.
    fn attribute(
        &mut self,
        report: &ConnectionReport,
        before: Bytes,
        is_over: bool,
        flows: &mut BTreeMap<FlowId, Sum>,
    ) -> Option<Arc<str>> {
        self.join(report.connection, before, is_over);
        let lied = self.settle(report, before);
        let last = self
            .view
            .ends(&report.connection)
            .and_then(|ends| self.pairs.delivered_before(ends, &report.connection, Time::NEVER));
        // Of a connection that isn't kept nobody knows.
        let since = last.map(|last| report.delivered_bytes - last);
        self.note_use(report, since.unwrap_or(Bytes::ZERO));
        let noted = self.registry.joins.note(&self.context, report);
        // What a connection of several flows delivers can't be told apart.
        let carried = self.registry.carried_by(&report.connection);
        if let [id] = *carried {
            let sum = flows.entry(id).or_insert_with(|| self.counted(id));
            let alone = (report.delivered_bytes, report.unsent_bytes + report.in_flight_bytes);
            let (grown, queued) = noted.unwrap_or(alone);
            sum.delivered += grown;
            sum.queued = queued;
            // Before its first acknowledgement a connection has none.
            let took = Some(report.rtt_ns).filter(|took| *took > Span::ZERO);
            sum.round_trip = [sum.round_trip, took].into_iter().flatten().min();
            return lied;
        }
        let carried = Vec::from(carried);
        let sends = report.unsent_bytes + report.in_flight_bytes > Bytes::ZERO
            || since.is_some_and(|since| since > Bytes::ZERO);
        for id in carried {
            self.registry.hear(&self.context, id, sends);
            if sends {
                self.see(id);
            }
        }
        lied
    }

    /// Ends the flows whose connection this agent has reported, and not for a grace: whoever had it is gone
    /// without a word. Those that it ought to have reported, and has not, are parked.
    fn end_vanished(&mut self, channel: ChannelId) {
        let Some(agent) = self.agents.sweep(&self.context, channel) else {
            return;
        };
        let (cx, looked) = (&self.context, agent.looked.unwrap_or_default().awake);
        let is_gone = |flow: &Flow| {
            flow.owner.is_some()
                && flow.reported.is_some_and(|at| at >= agent.since)
                && flow.heard.is_some_and(|at| cx.is_gone(at, cx.grace, looked))
        };
        let hosts = agent.hosts.clone();
        let addresses = hosts.iter().flat_map(|host| self.view.addresses_of(*host));
        let flows = addresses.flat_map(|address| self.registry.known_from(address));
        let gone: Vec<FlowId> = flows.filter(|(_, flow)| is_gone(flow)).map(|(id, _)| id).collect();
        for id in gone {
            self.counters.flows_vanished += 1;
            self.end_flow(id);
        }
        self.park_unseen(&hosts);
        self.registry.owners.sweep(&self.context);
        self.registry.pods.sweep(&self.context);
        self.registry.ledger.sweep(&self.context);
    }

    /// Forgets the connections that nobody declared and that no agent of an end has reported for a grace: nobody
    /// saw their last packet.
    fn forget_silent(&mut self) {
        for id in self.registry.silent(&self.context) {
            let Some(flow) = self.registry.flow(id) else { continue };
            let would_hear = |node| {
                let looked = self.agents.looked(Some(node)).awake;
                self.agents.would_report(&self.context, node) && flow.heard < Some(looked)
            };
            if <[NodeId; 2]>::from(flow.ends).into_iter().any(would_hear) {
                self.counters.flows_vanished += 1;
                self.forget_flow(id);
            }
        }
    }

    /// Forgets all connections that nobody declared: nobody would tell their end.
    pub(super) fn forget_seen(&mut self) {
        let seen = self.registry.flows().filter(|(_, flow)| flow.owner.is_none());
        for id in seen.map(|(id, _)| id).collect::<Vec<_>>() {
            self.forget_flow(id);
        }
    }

    /// What was delivered of a flow up to now, where only what comes in addition is reported.
    fn counted(&self, id: FlowId) -> Sum {
        let flow = self.registry.flow(id);
        let joins = flow.filter(|flow| !flow.selector.is_exact());
        Sum { delivered: joins.map_or(Bytes::ZERO, |flow| flow.delivered), ..Sum::default() }
    }

    fn tell_flows(&mut self, sampled: Time, sums: &BTreeMap<FlowId, Sum>) {
        let mut delivered = Vec::new();
        let mut streams = Vec::new();
        let (awake, fresh) = (self.context.awake, self.context.lately());
        for (id, sum) in sums {
            self.registry.note_progress(&self.context, *id, sampled, (sum.delivered, sum.queued));
            let Some(flow) = self.registry.flow(*id).filter(|flow| flow.owner.is_some()) else {
                continue;
            };
            if flow.is_busy(&self.context) {
                self.see(*id);
            }
            let Some(flow) = self.registry.flow(*id) else {
                continue;
            };
            if flow.size.is_some() {
                delivered.push((*id, flow.delivered));
                self.check_size(*id);
            } else if flow.declared.is_none_or(|(at, _)| awake.since(at) > fresh) {
                streams.push(StreamSample {
                    flow: *id,
                    delivered: flow.delivered,
                    sender_queue: flow.queued,
                    receiver_queue: Bytes::ZERO,
                });
            }
        }
        if self.decider.watch().is_some_and(|watch| watch.statistics.is_some()) {
            let carried =
                sums.keys().filter_map(|id| Some((*id, self.registry.flow(*id)?.delivered)));
            let flows = carried.collect();
            self.tell(Measured::Carried { flows });
            let timed: Vec<_> = sums
                .iter()
                .filter(|(id, _)| !self.is_spaced(**id))
                .filter_map(|(id, sum)| Some((*id, sum.round_trip?)))
                .collect();
            if !timed.is_empty() {
                self.tell(Measured::RoundTrips(timed));
            }
        }
        if !delivered.is_empty() {
            self.tell(Measured::Delivered(delivered));
        }
        if !streams.is_empty() {
            self.tell(Measured::Streams(streams));
        }
    }

    /// Has a flow whose declared size was false end for the policy, and enter again.
    fn check_size(&mut self, id: FlowId) {
        if !self.registry.check_size(id) {
            return;
        }
        self.counters.contradictions += 1;
        self.enter_again(id);
        self.correct_sizes(id);
    }

    /// Has a flow end for the policy, and enter again with the size that it has now.
    pub(super) fn enter_again(&mut self, id: FlowId) {
        if let Some(job) = self.registry.flow(id).and_then(Flow::job) {
            self.tell(Declared::FlowComplete { job, flow: id });
        }
        // What the policy wanted of the flow that ends, it may not want of the one that enters.
        let now = self.context.now;
        self.intend(id, |wanted| wanted.set_limit(now, None));
        if let Some(request) = self.registry.declared(id) {
            self.tell(request);
        }
    }

    fn tell_pairs(&mut self, sampled: Time, pairs: &BTreeSet<(NodeId, NodeId)>) {
        for &ends in pairs {
            let access = self.view.access(ends.0).unwrap_or(Rate::ZERO);
            let cx = &self.context;
            let looked = self.agents.looked(Some(ends.0)).awake;
            let offered = self.pairs.offer(cx, (sampled, looked), ends, access);
            if let Some(offered) = offered {
                self.tell(offered);
            }
        }
        self.end_silent_pairs();
    }

    pub(super) fn leave_pair(&mut self, connection: &Connection) {
        let ends = self.view.ends(connection);
        if let Some(offered) = ends.and_then(|ends| self.pairs.leave(ends, connection)) {
            self.tell(offered);
        }
    }

    pub(super) fn end_silent_pairs(&mut self) {
        let looked = |src| self.agents.looked(Some(src)).awake;
        for offered in self.pairs.end_silent(&self.context, looked) {
            self.tell(offered);
        }
    }
}

/// What a peer calls something, as far as a line of the status has room for it.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(64)]
}

/// Who sees a connection knows its ports.
fn check_ports(connection: &Connection) -> Result<(), Refusal> {
    let refuse = |why| Refusal { field: "connection", reason: String::from(why), busy: false };
    connection.limitable().map_err(refuse)
}

/// What a pod is called is shown to people.
fn check_pods(processes: &[Process]) -> Result<(), Refusal> {
    let is_wrong = |process: &Process| matches!(process, Process::Pod(name) if !is_pod(name));
    if processes.iter().any(is_wrong) {
        let reason = "names a pod as Kubernetes names none; write namespace/name".into();
        return Err(Refusal { field: "connections.processes", reason, busy: false });
    }
    Ok(())
}

/// No other controller is believed to have started so many times more often: one start a second takes 136 years.
const FARTHEST: u64 = 1 << 32;

/// An epoch that nobody gave would be written into a state by who believes it: there must always be later ones.
fn check_epoch(own: u64, epoch: u64) -> Result<(), Refusal> {
    let left = MOST_EPOCH.saturating_sub(own);
    if epoch <= own + FARTHEST.min(left / 2) {
        return Ok(());
    }
    let reason = format!(
        "{epoch} was never given: this controller has {own}; stop that agent and look at its host, or, where all agents \
         say so, find the state that this controller lost"
    );
    Err(Refusal { field: "epoch", reason, busy: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{config, connection};

    /// A discovered link whose port tells no speed may carry more than is assumed of it.
    #[test]
    fn what_a_host_sent_is_not_held_against_a_guess() {
        for guessed in [true, false] {
            let mut controller = Controller::new(config(), 1, Time::ZERO).expect("a configuration");
            let (view, spec) = (&mut controller.view, controller.context.discovered);
            let switch = view.add_switch(1, 2).expect("there is room");
            let host = view.add_host("h").expect("there is room");
            view.note_cable((switch, 1), (host, None), spec, guessed);
            assert!(view.settle(Time::ZERO).is_some());
            // Ten years at 2.5 Gbit/s; a guess is 1 Gbit/s.
            let delivered = Bytes::new(100_000_000_000_000_000);
            let taken = controller.check_amount(&connection(1), host, None, delivered);
            assert_eq!(taken.is_ok(), guessed);
        }
    }
}
