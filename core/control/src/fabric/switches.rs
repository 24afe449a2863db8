//! Switches: a session for each channel, what the switch has said of its ports, and what it was
//! given (`given`). A switch outlives its channels: while it is away it forwards as it was told.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use model::NodeId;
use openflow::sdtcp::Notice;
use openflow::{
    Action, BufferId, Closed, Config, ErrorCode, Event, Failure, Features, FlowSelect, List,
    Message, MeterId, PacketOut, Port, PortNo, PortReason, Refused, RemovedReason, Reply, Request,
    Role, RoleMessage, Session, Side, TableId,
};
use protocol::Connection;
use units::{Bytes, Rate, Span, Time};

use crate::budget::Budget;
use crate::context::Context;
use crate::fabric::caps::{self, Caps};
use crate::fabric::entry::{self, Does, Key};
use crate::fabric::frame::{self, Frame};
use crate::fabric::meters::{self, Batch, Meters};
use crate::lease::Lease;
use crate::message::{ChannelId, Output, Refusal};
use crate::status::Counters;

mod given;

/// A channel of a switch.
struct SwitchChannel {
    session: Session,
    /// The name that it has proved; `None` without TLS.
    identity: Option<String>,
    /// The switch, once it has said which it is.
    node: Option<NodeId>,
    /// Packets that it may send up.
    budget: Budget,
    /// What was taken from the session and not handed out yet.
    output: Vec<u8>,
}

/// A switch.
#[derive(Default)]
pub(crate) struct Switch {
    pub(crate) datapath_id: u64,
    channel: Option<ChannelId>,
    /// When it last went.
    gone: Time,
    /// Its ports are known, so that it can be given entries.
    pub(crate) ready: bool,
    pub(crate) ready_since: Time,
    /// Since when all its entries with leases last, and how long; and what will be, once it confirms that
    /// they were added anew.
    lease: Lease,
    renewing: Option<Lease>,
    /// It obeys a controller of a later epoch.
    pub(crate) obeys_another: bool,
    /// It has the two tables that we need.
    pub(crate) capable: bool,
    /// How often it has connected.
    generation: u16,
    pub(crate) ports: BTreeMap<u32, PortView>,
    /// Those that it had over the channel before and has not listed over this one.
    pub(crate) unlisted: BTreeSet<u32>,
    /// Entries for forwarding that it has, as far as is known.
    pub(crate) routes: BTreeMap<Key, Does>,
    /// Those of the step that waits for its barrier, by the number of the message; and those that it refused or
    /// didn't confirm, and why.
    step: BTreeMap<u32, Key>,
    pub(crate) refused: BTreeMap<Key, meters::Failure>,
    /// Entries for single connections that it shall have, and has while it is connected; those that
    /// lead to meters or cap windows are not among them.
    pub(crate) own: BTreeMap<Key, Does>,
    pub(crate) meters: Meters,
    pub(crate) caps: Caps,
    /// What earlier controllers left: entries are asked for once the new ones stand.
    cleaned: bool,
    /// Meters of earlier controllers, and when their entries have ended.
    old_meters: Vec<u32>,
    old_meters_end: Option<Time>,
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
    /// Frames from it that may be sent out of all edge ports.
    pub(crate) floods: Budget,
}

/// What an answer is about.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    Role,
    Ports,
    /// A step of the rollout.
    Step,
    /// Changes of meters and caps, which stand once all before is done.
    Changes(Changes),
    OldEntries,
    OldMeters,
    Carried(BTreeMap<Connection, Bytes>),
}

/// Changes that one barrier confirms.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    meters: Batch,
    caps: caps::Entries,
    renewal: Option<Lease>,
}

/// What a switch said.
pub(crate) enum SwitchEvent {
    /// It has said which it is.
    Up,
    Ports(u32, Vec<Port>, bool),
    PortStatus(PortReason, Box<Port>),
    Packet {
        port: u32,
        table: u8,
        frame: Frame,
    },
    Notice(Notice),
    /// No packet of a connection has come for as long as it is counted.
    Idle(Connection),
    /// A barrier or a change of roles is done.
    Done(u32),
    Entries(u32, Vec<(u64, Option<Connection>, Bytes)>, bool),
    Meters(u32, Vec<u32>, bool),
    Failed(u32, Option<ErrorCode>),
    /// The message of this number was refused.
    Error(u32, ErrorCode),
    Malformed,
    Nothing,
}

/// Distinct cookies of earlier controllers that are remembered, and meters.
const STALE: usize = 10_000;
/// Output is taken from a session when it is longer, so that no change is refused for want of room.
const TAKEN: usize = 65_536;
/// All switches and their channels.
pub(crate) struct Switches {
    channels: BTreeMap<ChannelId, SwitchChannel>,
    switches: BTreeMap<NodeId, Switch>,
    /// Switches whose experimenter action caps windows.
    capping: BTreeSet<NodeId>,
    /// Channels with something to send.
    written: BTreeSet<ChannelId>,
    /// The frame of the Packet-In at hand.
    pub(super) packet: Vec<u8>,
    /// When the first session wants to be polled.
    sessions_at: Time,
    /// When leases are renewed next.
    renew_at: Time,
    /// When links are probed and statistics are asked for next.
    statistics_at: Time,
    /// Those of switches.
    pub(super) counters: Counters,
}

impl Switches {
    pub(crate) fn new(cx: &Context, capping: BTreeSet<NodeId>) -> Self {
        Self {
            channels: BTreeMap::new(),
            switches: BTreeMap::new(),
            capping,
            written: BTreeSet::new(),
            packet: Vec::new(),
            sessions_at: Time::NEVER,
            renew_at: cx.renewal(),
            statistics_at: cx.now,
            counters: Counters::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.switches.is_empty()
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&Switch> {
        self.switches.get(&node)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Switch> {
        self.switches.get_mut(&node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Switch)> {
        self.switches.iter().map(|(node, switch)| (*node, switch))
    }

    pub(crate) fn is_ready(&self, node: NodeId) -> bool {
        self.switches.get(&node).is_some_and(|switch| switch.ready)
    }

    fn ready(&self) -> impl Iterator<Item = (NodeId, &Switch)> {
        self.iter().filter(|(_, switch)| switch.ready)
    }

    /// Whether any switch caps windows.
    pub(crate) fn cap_any_windows(&self) -> bool {
        !self.capping.is_empty()
    }

    /// Whether a switch caps windows.
    pub(crate) fn caps_windows(&self, node: NodeId) -> bool {
        self.capping.contains(&node)
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        let timers = self.renew_at.min(self.statistics_at);
        let timers = if self.is_empty() { Time::NEVER } else { timers };
        Some(timers.min(self.sessions_at)).filter(|at| *at != Time::NEVER)
    }

    pub(crate) fn connect(
        &mut self,
        cx: &Context,
        channel: ChannelId,
        identity: Option<&str>,
    ) -> Result<(), Refusal> {
        let most = cx.limits.switches;
        if self.channels.len() >= most {
            let reason =
                format!("{most} switches are connected; try again later, or raise limits.switches");
            return Err(Refusal { field: "switch", reason, busy: true });
        }
        let session = Session::new(Config::new(Side::Controller), cx.now);
        let fresh = SwitchChannel {
            session,
            identity: identity.map(String::from),
            node: None,
            budget: Budget::default(),
            output: Vec::new(),
        };
        self.channels.insert(channel, fresh);
        self.written.insert(channel);
        Ok(())
    }

    /// Takes in as many bytes as it can; how many. What they say comes with [`Switches::poll`]; then
    /// there is room for more. `None` when the channel is not known.
    pub(crate) fn receive(
        &mut self,
        cx: &Context,
        channel: ChannelId,
        bytes: &[u8],
    ) -> Option<usize> {
        Some(self.channels.get_mut(&channel)?.session.receive(cx.now, bytes))
    }

    /// The next that a channel has to say, and its switch, once that has said which it is. A switch
    /// may not send up too many packets: those beyond are counted and left out.
    pub(crate) fn poll(
        &mut self,
        cx: &Context,
        channel: ChannelId,
    ) -> Option<(Option<NodeId>, SwitchEvent)> {
        let known = self.channels.get_mut(&channel)?;
        let mut event = read(known.session.poll(cx.now)?, &mut self.packet);
        if matches!(event, SwitchEvent::Packet { .. }) {
            self.counters.packets_in += 1;
            if !known.budget.take(cx.now, cx.limits.packets_per_second) {
                self.counters.packets_refused += 1;
                event = SwitchEvent::Nothing;
            }
        }
        Some((known.node, event))
    }

    /// Why a session ended, when it did. Called after the last [`Switches::poll`].
    pub(crate) fn polled(&mut self, channel: ChannelId) -> Option<Closed> {
        self.written.insert(channel);
        self.channels.get(&channel)?.session.closed()
    }

    /// When it is time, the channels whose sessions must be polled although nothing came.
    pub(crate) fn due(&self, now: Time) -> Option<Vec<ChannelId>> {
        if self.sessions_at > now {
            return None;
        }
        let is_due = |at: Time| at <= now;
        let channels = self.channels.iter();
        let due = channels.filter(|(_, channel)| channel.session.deadline().is_some_and(is_due));
        Some(due.map(|(channel, _)| *channel).collect())
    }

    /// Finds out when sessions must be polled next.
    pub(crate) fn polled_all(&mut self) {
        let deadlines = self.channels.values().filter_map(|channel| channel.session.deadline());
        self.sessions_at = deadlines.min().unwrap_or(Time::NEVER);
    }

    /// The name that a switch has proved.
    pub(crate) fn identity(&self, channel: ChannelId) -> Option<&str> {
        self.channels.get(&channel)?.identity.as_deref()
    }

    /// What a switch says of itself.
    pub(crate) fn features(&self, channel: ChannelId) -> Option<Features> {
        self.channels.get(&channel)?.session.features().copied()
    }

    /// A session is up: a switch is known by what it says of itself. The channel that it had before,
    /// if it had one, is forgotten and returned.
    pub(crate) fn up(
        &mut self,
        cx: &Context,
        channel: ChannelId,
        node: NodeId,
        features: &Features,
    ) -> Option<ChannelId> {
        let switch = self.switches.entry(node).or_default();
        switch.datapath_id = features.datapath_id;
        switch.capable = features.n_tables >= 2;
        switch.generation = switch.generation.wrapping_add(1);
        switch.obeys_another = false;
        switch.cleaned = false;
        switch.unlisted = switch.ports.keys().copied().collect();
        switch.routes.clear();
        switch.lose();
        switch.stale.clear();
        let old = switch.channel.replace(channel);
        if let Some(old) = old {
            self.channels.remove(&old);
            self.written.remove(&old);
        }
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.node = Some(node);
        }
        // The epoch is the number by which a switch tells who came later (6.3.6).
        let role = RoleMessage { role: Role::MASTER, generation_id: cx.epoch };
        self.exchange(cx, node, &Message::RoleRequest(role), Pending::Role);
        self.ask(cx, node, &Request::PortDesc, Pending::Ports);
        old
    }

    /// All ports of a switch are known: it gets what single connections shall have there. Whether it
    /// is there for the first time.
    pub(crate) fn set_ready(&mut self, cx: &Context, node: NodeId) -> bool {
        let Some(switch) = self.switches.get_mut(&node) else {
            return false;
        };
        switch.ready = true;
        switch.ready_since = cx.now;
        switch.lease = Lease::now(cx);
        switch.old_meters.clear();
        switch.old_meters_end = Some(cx.now + cx.lease + cx.lease);
        let own: Vec<(Key, Does)> = switch.own.iter().map(|(key, d)| (key.clone(), *d)).collect();
        let metered: Vec<_> = switch.meters.connections().map(|(of, _)| of).collect();
        let capped: Vec<_> = switch.caps.iter().collect();
        let (is_first, takes_entries) = (switch.generation == 1, switch.takes_entries());
        self.statistics_at = cx.now;
        self.ask(cx, node, &Request::MeterConfig(MeterId::ALL), Pending::OldMeters);
        if !takes_entries {
            return is_first;
        }
        for (key, does) in own {
            self.put(cx, node, &key, does);
        }
        for connection in metered {
            self.send_meter(cx, node, connection, true);
        }
        for (connection, does) in capped {
            self.send_cap(cx, node, connection, does);
        }
        is_first
    }

    /// A switch refuses a message: that is counted, unless it was expected, and noted of the meter, the
    /// cap or the entry that the message was about.
    pub(crate) fn refused(&mut self, node: NodeId, xid: u32, code: ErrorCode) {
        let is_expected = self.switches.get_mut(&node).and_then(|switch| {
            if let Some(key) = switch.step.remove(&xid) {
                switch.refused.insert(key, meters::Failure(Some(code)));
                return None;
            }
            changes(&mut switch.pending).find_map(|changes| {
                let is_cap = || switch.caps.refuse(&mut changes.caps, xid, code).then_some(false);
                switch.meters.refuse(&mut changes.meters, xid, code).or_else(is_cap)
            })
        });
        self.counters.switch_errors += u64::from(is_expected != Some(true));
    }

    /// A switch says that something failed.
    pub(crate) fn note_error(&mut self) {
        self.counters.switch_errors += 1;
    }

    /// A switch says what can't be read.
    pub(crate) fn note_malformed(&mut self) {
        self.counters.malformed += 1;
    }

    /// What has happened since the beginning.
    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A switch has carried out changes of meters and caps.
    pub(crate) fn confirm(&mut self, node: NodeId, changes: Changes) {
        if let Some(switch) = self.switches.get_mut(&node) {
            switch.confirm(changes);
        }
    }

    /// It could not.
    pub(crate) fn fail(&mut self, node: NodeId, changes: &Changes, code: Option<ErrorCode>) {
        if let Some(switch) = self.switches.get_mut(&node) {
            switch.fail(changes, code);
        }
    }

    /// A switch answers the barrier of a step of the rollout, or doesn't.
    pub(crate) fn stepped(&mut self, node: NodeId, answer: Result<(), meters::Failure>) {
        if let Some(switch) = self.switches.get_mut(&node) {
            switch.stepped(answer);
        }
    }

    /// A switch obeys a controller of a later epoch.
    pub(crate) fn note_outranked(&mut self, node: NodeId) {
        if let Some(switch) = self.switches.get_mut(&node) {
            switch.obeys_another = true;
        }
    }

    /// What an answer is about, which is then forgotten.
    pub(crate) fn answered(&mut self, node: NodeId, xid: u32) -> Option<Pending> {
        self.switches.get_mut(&node)?.pending.remove(&xid)
    }

    /// Asks a switch, and remembers what for.
    fn ask(&mut self, cx: &Context, node: NodeId, request: &Request<'_>, what: Pending) -> bool {
        let message = Message::MultipartRequest { more: false, body: *request };
        self.exchange(cx, node, &message, what)
    }

    /// Asks a switch to say when all that it was sent is done.
    pub(crate) fn barrier(&mut self, cx: &Context, node: NodeId, what: Pending) -> bool {
        self.exchange(cx, node, &Message::BarrierRequest, what)
    }

    fn exchange(
        &mut self,
        cx: &Context,
        node: NodeId,
        message: &Message<'_>,
        what: Pending,
    ) -> bool {
        let xid = self.send(cx, node, message);
        if let Some((xid, switch)) = xid.zip(self.switches.get_mut(&node)) {
            switch.pending.insert(xid, what);
        }
        xid.is_some()
    }

    /// Sends a message to a switch; its number unless the switch isn't there.
    fn send(&mut self, cx: &Context, node: NodeId, message: &Message<'_>) -> Option<u32> {
        let id = self.switches.get(&node)?.channel?;
        let channel = self.channels.get_mut(&id)?;
        self.written.insert(id);
        if channel.session.output().len() > TAKEN {
            channel.take();
        }
        match channel.session.send(cx.now, message) {
            Ok(xid) => Some(xid),
            Err(Refused::Busy | Refused::NotUp | Refused::TooLong) => {
                self.counters.switch_errors += 1;
                None
            }
        }
    }

    /// Sends a frame out of ports.
    pub(crate) fn send_out(&mut self, cx: &Context, node: NodeId, ports: &[u32], frame: &[u8]) {
        let actions: Vec<_> = ports.iter().map(|port| Action::output(PortNo(*port))).collect();
        let packet = PacketOut {
            buffer: BufferId::NONE,
            in_port: PortNo::CONTROLLER,
            actions: List::of(&actions),
            data: frame,
        };
        self.send(cx, node, &Message::PacketOut(packet));
    }

    /// When it is time, probes links and asks what connections have carried, where the policy wants
    /// that `every` so often. Whether it was.
    pub(crate) fn ask_statistics(&mut self, cx: &Context, every: Option<Span>) -> bool {
        if self.statistics_at > cx.now {
            return false;
        }
        self.statistics_at = cx.next_statistics(every);
        for node in self.ready().map(|(node, _)| node).collect::<Vec<_>>() {
            self.probe(cx, node);
            if every.is_some() {
                self.ask_counts(cx, node);
            }
        }
        true
    }

    /// Sends a probe out of every port of a switch.
    fn probe(&mut self, cx: &Context, node: NodeId) {
        let Some(switch) = self.switches.get_mut(&node) else {
            return;
        };
        let datapath_id = switch.datapath_id;
        let mut ports = Vec::new();
        for (number, port) in switch.ports.iter_mut().filter(|(_, port)| port.up) {
            port.probed.get_or_insert(cx.now);
            ports.push(*number);
        }
        for port in ports {
            self.send_out(cx, node, &[port], &frame::make_probe(datapath_id, port));
        }
    }

    /// Asks a switch what connections have carried, where it counts any and has answered before.
    fn ask_counts(&mut self, cx: &Context, node: NodeId) {
        let is_to_say = |switch: &Switch| {
            let mut pending = switch.pending.values();
            switch.own.values().any(|does| *does == Does::Count)
                && !pending.any(|what| matches!(what, Pending::Carried(_)))
        };
        if self.switches.get(&node).is_some_and(is_to_say) {
            let cookie = entry::cookie(0, 0, Does::Count);
            let select = FlowSelect {
                table: TableId(0),
                cookie,
                cookie_mask: entry::MARK_MASK | cookie,
                ..FlowSelect::ALL
            };
            self.ask(cx, node, &Request::Flow(select), Pending::Carried(BTreeMap::new()));
        }
    }

    /// Has leases be renewed at once.
    pub(crate) fn renew_now(&mut self, now: Time) {
        self.renew_at = now;
    }

    /// When it is time, adds entries that end by themselves anew, sends anew the meters that failed,
    /// and removes earlier controllers' meters whose entries have ended. Whether it was.
    pub(crate) fn renew(&mut self, cx: &Context) -> bool {
        if self.renew_at > cx.now {
            return false;
        }
        self.renew_at = cx.renewal();
        let (mut capped, mut metered, mut old) = (Vec::new(), Vec::new(), Vec::new());
        for (node, switch) in self.switches.iter_mut().filter(|(_, switch)| switch.ready) {
            if switch.takes_entries() && switch.meters.len() + switch.caps.len() > 0 {
                switch.renewing = Some(Lease::now(cx));
                capped.extend(switch.caps.iter().map(|(of, does)| (*node, of, does)));
                let meters = switch.meters.connections();
                metered.extend(meters.map(|(of, failure)| (*node, of, failure.is_some())));
            } else {
                switch.lease = Lease::now(cx);
            }
            if switch.old_meters_end.is_some_and(|end| end <= cx.now) {
                switch.old_meters_end = None;
                let meters = core::mem::take(&mut switch.old_meters);
                old.extend(meters.into_iter().map(|meter| (*node, meter)));
            }
        }
        for (node, connection, does) in capped {
            self.send_cap(cx, node, connection, does);
        }
        for (node, connection, has_failed) in metered {
            self.send_meter(cx, node, connection, has_failed);
        }
        for (node, meter) in old {
            self.send(cx, node, &meters::removal(meter));
        }
        true
    }

    /// Whether a switch that is there has refused entries that forward packets.
    pub(crate) fn lack_entries(&self) -> bool {
        self.ready().any(|(_, switch)| !switch.refused.is_empty())
    }

    /// Forgets a channel; the switch that it was of, which goes on as it was told.
    pub(crate) fn remove(&mut self, now: Time, channel: ChannelId) -> Option<NodeId> {
        self.written.remove(&channel);
        let node = self.channels.remove(&channel)?.node?;
        let switch = self.switches.get_mut(&node).filter(|s| s.channel == Some(channel))?;
        switch.channel = None;
        switch.gone = now;
        switch.lose();
        Some(node)
    }

    /// Those that have been gone for longer than `memory`.
    pub(crate) fn gone(&self, now: Time, memory: Span) -> Vec<NodeId> {
        let is_gone = |switch: &Switch| switch.channel.is_none() && now.since(switch.gone) > memory;
        self.iter().filter(|(_, switch)| is_gone(switch)).map(|(node, _)| node).collect()
    }

    /// A node is no switch any more.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.switches.remove(&node);
    }

    /// What is left to be sent over a channel that is to be closed.
    pub(crate) fn take_output(&mut self, channel: ChannelId) -> Option<Output> {
        let known = self.channels.get_mut(&channel)?;
        known.take();
        let output = core::mem::take(&mut known.output);
        (!output.is_empty()).then_some(Output::Switch(channel, output))
    }

    /// Hands out what is to be sent.
    pub(crate) fn write(&mut self, cx: &Context, out: &mut Vec<Output>) {
        self.ask_for_changes(cx);
        for channel in core::mem::take(&mut self.written) {
            out.extend(self.take_output(channel));
            let deadline = self.channels.get(&channel).and_then(|known| known.session.deadline());
            self.sessions_at = self.sessions_at.min(deadline.unwrap_or(Time::NEVER));
        }
    }
}

impl Switch {
    /// Whether it can be given entries: it is there, and has the tables that we need.
    pub(crate) fn takes_entries(&self) -> bool {
        self.ready && self.capable
    }

    /// Whether something was changed after the last barrier.
    fn is_open(&self) -> bool {
        self.meters.is_open() || self.caps.is_open()
    }

    /// An entry that forwards packets was sent with this number, if it could be.
    pub(crate) fn sent(&mut self, xid: Option<u32>, key: Key, does: Does) {
        match xid {
            Some(xid) => _ = self.step.insert(xid, key.clone()),
            None => _ = self.refused.insert(key.clone(), meters::Failure(None)),
        }
        self.routes.insert(key, does);
    }

    /// It answers the barrier of a step, or doesn't. What it has refused of the step is not in it any more.
    fn stepped(&mut self, answer: Result<(), meters::Failure>) {
        for key in core::mem::take(&mut self.step).into_values() {
            match answer {
                Ok(()) => _ = self.refused.remove(&key),
                Err(failure) => _ = self.refused.insert(key, failure),
            }
        }
    }

    /// It answers a barrier.
    fn confirm(&mut self, changes: Changes) {
        self.caps.confirm(&changes.caps);
        self.meters.confirm(changes.meters);
        self.lease = changes.renewal.unwrap_or(self.lease);
    }

    /// For how long nothing has been confirmed, where its entries have ended since.
    pub(crate) fn silence(&self, cx: &Context, now: Time) -> Option<Span> {
        self.lease.silence(cx, now)
    }

    /// It doesn't answer a barrier, or refuses it.
    fn fail(&mut self, changes: &Changes, code: Option<ErrorCode>) {
        self.caps.fail(&changes.caps, code);
        self.meters.fail(&changes.meters, code);
    }

    /// Its channel is gone.
    fn lose(&mut self) {
        self.ready = false;
        self.pending.clear();
        self.step.clear();
        self.refused.clear();
        self.renewing = None;
        self.meters.lose();
        self.caps.lose();
    }
}

impl SwitchChannel {
    fn take(&mut self) {
        self.output.extend_from_slice(self.session.output());
        self.session.sent(usize::MAX);
    }
}

/// The changes that a switch has not confirmed.
fn changes(pending: &mut BTreeMap<u32, Pending>) -> impl Iterator<Item = &mut Changes> {
    pending.values_mut().filter_map(|pending| match pending {
        Pending::Changes(changes) => Some(changes),
        _ => None,
    })
}

/// An event of a session, without what it borrows. The frame of a Packet-In goes to `packet`.
fn read(event: Event<'_>, packet: &mut Vec<u8>) -> SwitchEvent {
    match event {
        Event::Up => SwitchEvent::Up,
        Event::Malformed { .. } => SwitchEvent::Malformed,
        Event::Failed { xid, failure: Failure::Malformed(_) | Failure::Timeout } => {
            SwitchEvent::Failed(xid, None)
        }
        Event::Failed { xid, failure: Failure::Error(error) } => {
            SwitchEvent::Failed(xid, Some(error.error))
        }
        Event::Message { xid, message } => match message {
            Message::PacketIn(heard) => match Notice::of(&heard) {
                Some(notice) => SwitchEvent::Notice(notice),
                None => {
                    let (Some(port), Some(frame)) = (heard.in_port(), frame::parse(heard.data))
                    else {
                        return SwitchEvent::Malformed;
                    };
                    packet.clear();
                    packet.extend_from_slice(heard.data);
                    SwitchEvent::Packet { port: port.0, table: heard.table.0, frame }
                }
            },
            Message::PortStatus(status) => {
                SwitchEvent::PortStatus(status.reason, Box::new(status.port))
            }
            Message::FlowRemoved(gone) if gone.reason == RemovedReason::IDLE_TIMEOUT => {
                Key::connection(&gone.fields).map_or(SwitchEvent::Nothing, SwitchEvent::Idle)
            }
            Message::Error(error) => SwitchEvent::Error(xid, error.error),
            _ => SwitchEvent::Nothing,
        },
        Event::Reply { xid, message, last } => match message {
            Message::BarrierReply | Message::RoleReply(_) => SwitchEvent::Done(xid),
            Message::MultipartReply { body, .. } => match body {
                Reply::PortDesc(ports) => SwitchEvent::Ports(xid, ports.iter().collect(), last),
                Reply::Flow(entries) => {
                    let entries = entries.iter().map(|entry| {
                        let connection = Key::connection(&entry.fields);
                        (entry.cookie, connection, Bytes::new(entry.frame_bytes))
                    });
                    SwitchEvent::Entries(xid, entries.collect(), last)
                }
                Reply::MeterConfig(meters) => SwitchEvent::Meters(
                    xid,
                    meters.iter().map(|meter| meter.meter.0).collect(),
                    last,
                ),
                _ => SwitchEvent::Nothing,
            },
            _ => SwitchEvent::Nothing,
        },
    }
}

#[cfg(test)]
mod tests;
