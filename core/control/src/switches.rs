//! Switches: a session for each connection, what the switch has said of its ports, and what it was
//! given. A switch outlives its connections: while it is away it forwards as it was told.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use model::{LinkId, Measured, NodeId, NodeKind};
use openflow::sdtcp::Notice;
use openflow::{
    Config, ErrorCode, Event, Failure, FlowCommand, FlowMod, FlowSelect, Message, MeterId, Port,
    PortNo, PortReason, Refused, Reply, Request, Role, RoleMessage, Session, Side, TableId,
};
use protocol::Connection;
use units::{Bytes, Rate, Time};

use crate::budget::Budget;
use crate::config::Enforcement;
use crate::controller::Controller;
use crate::entry::{self, Does, Key};
use crate::frame::{self, Frame};
use crate::message::{Closing, Output, Peer, Refusal};

/// A connection of a switch.
pub(crate) struct Line {
    session: Session,
    pub(crate) node: Option<NodeId>,
    pub(crate) budget: Budget,
    /// What was taken from the session and not handed out yet.
    output: Vec<u8>,
}

/// A switch.
#[derive(Default)]
pub(crate) struct Switch {
    pub(crate) datapath_id: u64,
    pub(crate) peer: Option<Peer>,
    /// Its ports are known, so that it can be given entries.
    pub(crate) ready: bool,
    pub(crate) ready_since: Time,
    /// It obeys a controller of a later epoch.
    pub(crate) obeys_another: bool,
    /// It has the two tables that we need.
    pub(crate) capable: bool,
    /// How often it has connected.
    pub(crate) generation: u16,
    pub(crate) ports: BTreeMap<u32, PortView>,
    /// Entries for forwarding that it has, as far as is known.
    pub(crate) routes: BTreeMap<Key, Does>,
    /// Entries for single connections that it shall have, and has while it is connected.
    pub(crate) own: BTreeMap<Key, Does>,
    pub(crate) meters: BTreeMap<Connection, (u32, Rate)>,
    pub(crate) free_meters: BTreeSet<u32>,
    /// What earlier controllers left: entries are asked for once the new ones stand.
    pub(crate) cleaned: bool,
    /// Meters of earlier controllers, and when their entries have ended.
    pub(crate) old_meters: Vec<u32>,
    pub(crate) old_meters_end: Option<Time>,
    pending: BTreeMap<u32, Pending>,
    /// Cookies of entries that are not of this generation.
    stale: BTreeSet<u64>,
}

/// A port of a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortView {
    pub(crate) up: bool,
    /// The speed that it tells; zero: none.
    pub(crate) speed: Rate,
    /// Since when it is probed.
    pub(crate) probed: Option<Time>,
}

/// What an answer is about.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    Role,
    Ports,
    Step,
    Confirm(Vec<(Connection, Option<Rate>)>),
    OldEntries,
    OldMeters,
    Carried(Vec<(Connection, Bytes)>),
}

/// What was heard, without the bytes that it came in.
enum Heard {
    Up,
    Ports(u32, Vec<Port>, bool),
    PortStatus(PortReason, Port),
    Packet { port: u32, table: u8, frame: Frame },
    Notice(Notice),
    Barrier(u32),
    Entries(u32, Vec<(u64, Option<Connection>, Bytes)>, bool),
    Meters(u32, Vec<u32>, bool),
    Role(u32),
    Failed(u32, Option<ErrorCode>),
    Error(ErrorCode),
    Malformed,
    Nothing,
}

/// Switches answer an error to changes of meters that we make sure of in two ways.
const EXPECTED: [ErrorCode; 2] = [ErrorCode::METER_EXISTS, ErrorCode::UNKNOWN_METER];
/// Distinct cookies of earlier controllers that are remembered.
const STALE: usize = 10_000;
/// Output is taken from a session when it is longer, so that no change is refused for want of room.
const TAKEN: usize = 65_536;
/// Bits of `ofp_port` that say that nothing goes through: told down; no link.
const DOWN: u32 = 1;

impl Controller {
    pub(crate) fn switch_connected(&mut self, peer: Peer) {
        let most = self.limits.switches;
        if self.lines.len() >= most {
            let reason = format!("{most} switches are connected; try again later");
            let refusal = Refusal { field: "switch", reason, busy: true };
            self.closing.push(Output::CloseSwitch(peer, Closing::Refused(refusal)));
            return;
        }
        let session = Session::new(Config::new(Side::Controller), self.now);
        let budget = Budget::new(self.now);
        self.lines.insert(peer, Line { session, node: None, budget, output: Vec::new() });
        self.written.insert(peer);
    }

    pub(crate) fn switch_bytes(&mut self, peer: Peer, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let Some(line) = self.lines.get_mut(&peer) else {
                return;
            };
            let taken = line.session.receive(self.now, rest);
            rest = &rest[taken..];
            self.listen(peer);
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Polls the sessions that are due for what doesn't come.
    pub(crate) fn poll_sessions(&mut self) {
        let due = |line: &&Line| line.session.deadline().is_some_and(|at| at <= self.now);
        let peers = self.lines.iter().filter(|(_, line)| due(line)).map(|(peer, _)| *peer);
        for peer in peers.collect::<Vec<_>>() {
            self.listen(peer);
        }
        let deadlines = self.lines.values().filter_map(|line| line.session.deadline());
        self.sessions_at = deadlines.min().unwrap_or(Time::NEVER);
    }

    /// Hears all that a session has to say.
    fn listen(&mut self, peer: Peer) {
        let now = self.now;
        while let Some(line) = self.lines.get_mut(&peer) {
            let Some(event) = line.session.poll(now) else {
                break;
            };
            let heard = digest(event, &mut self.packet);
            self.heard(peer, heard);
        }
        self.written.insert(peer);
        if let Some(closed) = self.lines.get(&peer).and_then(|line| line.session.closed()) {
            self.close_line(peer, Closing::Session(closed));
        }
    }

    fn heard(&mut self, peer: Peer, heard: Heard) {
        if matches!(heard, Heard::Up) {
            self.switch_up(peer);
            return;
        }
        let Some(node) = self.lines.get(&peer).and_then(|line| line.node) else {
            return;
        };
        match heard {
            Heard::Ports(xid, ports, last) => {
                for port in ports {
                    self.port_found(node, &port, false);
                }
                if last {
                    self.forget_pending(node, xid);
                    self.switch_ready(node);
                }
            }
            Heard::PortStatus(reason, port) => {
                self.port_found(node, &port, reason == PortReason::DELETE);
            }
            Heard::Packet { port, table, frame } => self.packet_in(peer, node, port, table, &frame),
            Heard::Notice(notice) => {
                if let Some(link) = self.view.link_at(node, notice.port.0) {
                    let queue = Bytes::new(notice.queue_bytes.into());
                    let severity = notice.severity;
                    self.tell(Measured::Congested { link, severity, queue });
                }
            }
            Heard::Barrier(xid) => match self.forget_pending(node, xid) {
                Some(Pending::Step) => self.stepped(node),
                Some(Pending::Confirm(limits)) => {
                    for (connection, rate) in limits {
                        match rate {
                            Some(rate) => self.confirmed.insert(connection, rate),
                            None => self.confirmed.remove(&connection),
                        };
                    }
                }
                _ => {}
            },
            Heard::Entries(xid, entries, last) => self.entries_listed(node, xid, &entries, last),
            Heard::Meters(xid, meters, last) => {
                if let Some(switch) = self.switches.get_mut(&node) {
                    let own = meter_numbers(self.epoch);
                    let old = meters.into_iter().filter(|meter| !own.contains(meter));
                    let room = STALE.saturating_sub(switch.old_meters.len());
                    switch.old_meters.extend(old.take(room));
                }
                if last {
                    self.forget_pending(node, xid);
                }
            }
            Heard::Role(xid) => {
                self.forget_pending(node, xid);
            }
            Heard::Failed(xid, code) => {
                self.counters.switch_errors += 1;
                match self.forget_pending(node, xid) {
                    // One that knows no roles obeys everybody.
                    Some(Pending::Role) if code == Some(ErrorCode::STALE) => {
                        self.outranked_at(peer, node);
                    }
                    // A step that isn't confirmed must not stop all others.
                    Some(Pending::Step) => self.stepped(node),
                    Some(Pending::Ports) => self.close_line(peer, Closing::Session(SILENT)),
                    _ => {}
                }
            }
            // A controller of a later epoch has come meanwhile.
            Heard::Error(ErrorCode::IS_SLAVE) => self.outranked_at(peer, node),
            Heard::Error(code) => {
                if !EXPECTED.contains(&code) {
                    self.counters.switch_errors += 1;
                }
            }
            Heard::Malformed => self.counters.malformed += 1,
            Heard::Up | Heard::Nothing => {}
        }
    }

    /// A session is up: the switch is known by its number.
    fn switch_up(&mut self, peer: Peer) {
        let features = self.lines.get(&peer).and_then(|line| line.session.features().copied());
        let Some(features) = features else {
            return;
        };
        let Some(node) = self.view.add_switch(features.datapath_id) else {
            return;
        };
        let switch = self.switches.entry(node).or_default();
        switch.datapath_id = features.datapath_id;
        switch.capable = features.n_tables >= 2;
        switch.generation = switch.generation.wrapping_add(1);
        switch.ready = false;
        switch.obeys_another = false;
        switch.cleaned = false;
        switch.routes.clear();
        switch.pending.clear();
        switch.stale.clear();
        if let Some(old) = switch.peer.replace(peer) {
            self.rollout.waiting.remove(&node);
            self.lines.remove(&old);
            self.written.remove(&old);
            self.closing.push(Output::CloseSwitch(old, Closing::Replaced));
        }
        if let Some(line) = self.lines.get_mut(&peer) {
            line.node = Some(node);
        }
        // The epoch is the number by which a switch tells who came later (6.3.6).
        let role = RoleMessage { role: Role::MASTER, generation_id: self.epoch };
        self.exchange(node, &Message::RoleRequest(role), Pending::Role);
        self.ask(node, &Request::PortDesc, Pending::Ports);
    }

    /// A switch takes nothing from this controller any more.
    fn outranked_at(&mut self, peer: Peer, node: NodeId) {
        if let Some(switch) = self.switches.get_mut(&node) {
            switch.obeys_another = true;
        }
        self.close_line(peer, Closing::Outranked);
    }

    fn switch_ready(&mut self, node: NodeId) {
        let lease = self.lease;
        let Some(switch) = self.switches.get_mut(&node) else {
            return;
        };
        switch.ready = true;
        switch.ready_since = self.now;
        switch.old_meters.clear();
        switch.old_meters_end = Some(self.now + lease + lease);
        self.ask(node, &Request::MeterConfig(MeterId::ALL), Pending::OldMeters);
        self.rollout.is_due = true;
        // What single connections have there.
        let own: Vec<(Key, Does)> =
            self.switches[&node].own.iter().map(|(key, does)| (key.clone(), *does)).collect();
        let meters: Vec<(u32, Rate)> = self.switches[&node].meters.values().copied().collect();
        for (meter, rate) in meters {
            self.set_meter(node, meter, rate);
        }
        for (key, does) in own {
            self.put(node, &key, does);
        }
        self.statistics_at = self.now;
        if self.switches[&node].generation == 1 {
            self.catch_up();
        }
    }

    /// A switch is there for the first time: applications may have come before it, as they do when
    /// the controller starts again, and what was decided of their connections had nowhere to go.
    fn catch_up(&mut self) {
        for id in self.registry.flows().map(|(id, _)| id).collect::<Vec<_>>() {
            self.pin(id);
        }
        if self.enforcement == Enforcement::Meters {
            self.touched.extend(self.registry.flows().map(|(_, flow)| flow.connection));
            self.touched.extend(self.pairs.values().flat_map(|pair| pair.connections.keys()));
        }
    }

    /// A switch told of a port, or that it has gone.
    fn port_found(&mut self, node: NodeId, port: &Port, gone: bool) {
        let number = port.port.0;
        if number > PortNo::MAX.0 {
            return;
        }
        let up = !gone && (port.config | port.state) & DOWN == 0;
        let speed = Rate::from_bps(u64::from(port.curr_speed_kbps).saturating_mul(1000));
        let Some(switch) = self.switches.get_mut(&node) else {
            return;
        };
        let probed =
            switch.ports.get(&number).filter(|old| old.up && up).and_then(|old| old.probed);
        if gone {
            switch.ports.remove(&number);
        } else {
            switch.ports.insert(number, PortView { up, speed, probed });
        }
        if let Some(link) = self.view.link_at(node, number) {
            self.view.set_interface(link, port.name());
            self.view.links[link.index()].port_down = !up;
            self.refresh(link);
        }
    }

    /// Brings both directions of a cable in line with what is known, and tells what changed.
    pub(crate) fn refresh(&mut self, link: LinkId) {
        let back = self.view.links[link.index()].back;
        for link in [Some(link), back].into_iter().flatten() {
            if let Some(up) = self.view.refresh(link) {
                self.tell(Measured::LinkState { link, up });
                self.counters.reroutes += 1;
                self.rollout.is_due = true;
                self.rollout.moved = true;
            }
        }
    }

    /// Asks a switch, and remembers what for.
    pub(crate) fn ask(&mut self, node: NodeId, request: &Request<'_>, what: Pending) -> bool {
        self.exchange(node, &Message::MultipartRequest { more: false, body: *request }, what)
    }

    /// Asks a switch to say when all that it was sent is done.
    pub(crate) fn barrier(&mut self, node: NodeId, what: Pending) -> bool {
        self.exchange(node, &Message::BarrierRequest, what)
    }

    fn exchange(&mut self, node: NodeId, message: &Message<'_>, what: Pending) -> bool {
        let xid = self.send(node, message);
        if let Some((xid, switch)) = xid.zip(self.switches.get_mut(&node)) {
            switch.pending.insert(xid, what);
        }
        xid.is_some()
    }

    fn forget_pending(&mut self, node: NodeId, xid: u32) -> Option<Pending> {
        self.switches.get_mut(&node)?.pending.remove(&xid)
    }

    /// Sends a message to a switch; its number unless the switch isn't there.
    pub(crate) fn send(&mut self, node: NodeId, message: &Message<'_>) -> Option<u32> {
        let peer = self.switches.get(&node)?.peer?;
        let line = self.lines.get_mut(&peer)?;
        self.written.insert(peer);
        if line.session.output().len() > TAKEN {
            line.take();
        }
        match line.session.send(self.now, message) {
            Ok(xid) => Some(xid),
            Err(Refused::Busy | Refused::NotUp | Refused::TooLong) => {
                self.counters.switch_errors += 1;
                None
            }
        }
    }

    /// Gives a switch an entry.
    pub(crate) fn put(&mut self, node: NodeId, key: &Key, does: Does) {
        let Some(switch) = self.switches.get(&node) else {
            return;
        };
        let cookie = entry::cookie(self.epoch, switch.generation, does);
        let lease = self.lease;
        entry::add(key, does, cookie, lease, |message| self.send(node, message));
        self.counters.entries_added += 1;
    }

    /// Takes an entry from a switch.
    pub(crate) fn take(&mut self, node: NodeId, key: &Key) {
        entry::remove(key, |message| self.send(node, message));
        self.counters.entries_removed += 1;
    }

    /// Asks what earlier controllers, or we over an earlier connection, left behind. Called once all
    /// that replaces it stands.
    pub(crate) fn clean(&mut self, node: NodeId) {
        let mark = entry::cookie(0, 0, Does::Next);
        let select = FlowSelect { cookie: mark, cookie_mask: entry::MARK_MASK, ..FlowSelect::ALL };
        if self.ask(node, &Request::Flow(select), Pending::OldEntries)
            && let Some(switch) = self.switches.get_mut(&node)
        {
            switch.cleaned = true;
        }
    }

    fn entries_listed(
        &mut self,
        node: NodeId,
        xid: u32,
        entries: &[(u64, Option<Connection>, Bytes)],
        last: bool,
    ) {
        let epoch = self.epoch;
        let Some(switch) = self.switches.get_mut(&node) else {
            return;
        };
        match switch.pending.get_mut(&xid) {
            Some(Pending::Carried(sums)) => {
                let counted = entries.iter().filter_map(|(_, c, bytes)| Some(((*c)?, *bytes)));
                sums.extend(counted);
            }
            Some(Pending::OldEntries) => {
                let own = entry::cookie(epoch, switch.generation, Does::Next);
                let old = entries.iter().map(|(cookie, ..)| *cookie);
                let old = old.filter(|cookie| entry::is_standing(*cookie) && *cookie != own);
                let room = STALE.saturating_sub(switch.stale.len());
                switch.stale.extend(old.take(room));
            }
            _ => return,
        }
        if !last {
            return;
        }
        match self.forget_pending(node, xid) {
            Some(Pending::Carried(sums)) => self.carried(&sums),
            Some(Pending::OldEntries) => {
                let stale = self.switches.get_mut(&node).map(|s| core::mem::take(&mut s.stale));
                for cookie in stale.into_iter().flatten() {
                    let gone = FlowMod {
                        cookie,
                        cookie_mask: u64::MAX,
                        table: TableId::ALL,
                        command: FlowCommand::DELETE,
                        ..FlowMod::ADD
                    };
                    self.send(node, &Message::FlowMod(gone));
                    self.counters.entries_removed += 1;
                }
            }
            _ => {}
        }
    }

    /// Flow statistics of a switch.
    fn carried(&mut self, sums: &[(Connection, Bytes)]) {
        let mut flows = Vec::new();
        for (connection, bytes) in sums {
            if let [id] = *self.registry.sharing(connection) {
                flows.push((id, *bytes));
            }
        }
        flows.sort_unstable();
        flows.dedup_by_key(|(id, _)| *id);
        if !flows.is_empty() && self.policy.watch().is_some() {
            self.tell(Measured::Carried { flows });
        }
    }

    /// Probes links and asks for statistics.
    pub(crate) fn ask_statistics(&mut self) {
        let watch = self.policy.watch().and_then(|watch| watch.statistics);
        self.statistics_at = self.now + watch.unwrap_or(self.statistics).max(crate::packets::PAUSE);
        let ready = self.switches.iter().filter(|(_, switch)| switch.ready);
        for node in ready.map(|(node, _)| *node).collect::<Vec<_>>() {
            self.probe(node);
            let has_counts = self.switches[&node].own.values().any(|does| *does == Does::Count);
            if watch.is_some() && has_counts {
                let cookie = entry::cookie(0, 0, Does::Count);
                let select = FlowSelect {
                    table: TableId(0),
                    cookie,
                    cookie_mask: entry::MARK_MASK | entry::cookie(0, 0, Does::Count),
                    ..FlowSelect::ALL
                };
                self.ask(node, &Request::Flow(select), Pending::Carried(Vec::new()));
            }
        }
        self.look_for_lost_links();
    }

    /// Forgets a connection. The switch goes on as it was told.
    pub(crate) fn lose_line(&mut self, peer: Peer) {
        self.written.remove(&peer);
        let Some(node) = self.lines.remove(&peer).and_then(|line| line.node) else {
            return;
        };
        if let Some(switch) = self.switches.get_mut(&node).filter(|s| s.peer == Some(peer)) {
            switch.peer = None;
            switch.ready = false;
            switch.pending.clear();
            self.stepped(node);
            // Whether limits still stand there, nobody says any more.
            for connection in self.switches[&node].meters.keys() {
                self.confirmed.remove(connection);
            }
        }
    }

    fn close_line(&mut self, peer: Peer, why: Closing) {
        if let Some(mut line) = self.lines.remove(&peer) {
            line.take();
            if !line.output.is_empty() {
                self.closing.push(Output::Switch(peer, core::mem::take(&mut line.output)));
            }
            self.lines.insert(peer, line);
        }
        self.lose_line(peer);
        self.closing.push(Output::CloseSwitch(peer, why));
    }

    /// Hands out what is to be sent to switches.
    pub(crate) fn write(&mut self, out: &mut Vec<Output>) {
        for peer in core::mem::take(&mut self.written) {
            let Some(line) = self.lines.get_mut(&peer) else {
                continue;
            };
            line.take();
            if !line.output.is_empty() {
                out.push(Output::Switch(peer, core::mem::take(&mut line.output)));
            }
            if let Some(at) = line.session.deadline() {
                self.sessions_at = self.sessions_at.min(at);
            }
        }
    }

    /// The switches that frames can be sent through, and their ports.
    pub(crate) fn is_switch(&self, node: NodeId) -> bool {
        self.view.kind(node) == Some(NodeKind::Switch)
    }
}

impl Line {
    fn take(&mut self) {
        self.output.extend_from_slice(self.session.output());
        self.session.sent(usize::MAX);
    }
}

/// A switch that doesn't say what ports it has is of no use.
const SILENT: openflow::Closed = openflow::Closed::Silence;

/// The numbers of meters of a controller: those of the one before are in the other half, so that its
/// entries, which end by themselves, never meet a meter of ours.
pub(crate) const fn meter_numbers(epoch: u64) -> core::ops::Range<u32> {
    const HALF: u32 = 0x8000;
    if epoch.is_multiple_of(2) { 1..HALF } else { HALF..2 * HALF }
}

/// What there is to an event, without what it borrows.
fn digest(event: Event<'_>, packet: &mut Vec<u8>) -> Heard {
    match event {
        Event::Up => Heard::Up,
        Event::Malformed { .. } => Heard::Malformed,
        Event::Failed { xid, failure: Failure::Malformed(_) | Failure::Timeout } => {
            Heard::Failed(xid, None)
        }
        Event::Failed { xid, failure: Failure::Error(error) } => {
            Heard::Failed(xid, Some(error.error))
        }
        Event::Message { message, .. } => match message {
            Message::PacketIn(heard) => match Notice::of(&heard) {
                Some(notice) => Heard::Notice(notice),
                None => {
                    let (Some(port), Some(frame)) = (heard.in_port(), frame::parse(heard.data))
                    else {
                        return Heard::Malformed;
                    };
                    packet.clear();
                    packet.extend_from_slice(heard.data);
                    Heard::Packet { port: port.0, table: heard.table.0, frame }
                }
            },
            Message::PortStatus(status) => Heard::PortStatus(status.reason, status.port),
            Message::Error(error) => Heard::Error(error.error),
            _ => Heard::Nothing,
        },
        Event::Reply { xid, message, last } => match message {
            Message::BarrierReply => Heard::Barrier(xid),
            Message::RoleReply(_) => Heard::Role(xid),
            Message::MultipartReply { body, .. } => match body {
                Reply::PortDesc(ports) => Heard::Ports(xid, ports.iter().collect(), last),
                Reply::Flow(entries) => {
                    let entries = entries.iter().map(|entry| {
                        let connection = Key::connection(&entry.fields);
                        (entry.cookie, connection, Bytes::new(entry.frame_bytes))
                    });
                    Heard::Entries(xid, entries.collect(), last)
                }
                Reply::MeterConfig(meters) => {
                    Heard::Meters(xid, meters.iter().map(|meter| meter.meter.0).collect(), last)
                }
                _ => Heard::Nothing,
            },
            _ => Heard::Nothing,
        },
    }
}
