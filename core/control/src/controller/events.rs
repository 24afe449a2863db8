//! What switches say, and what follows from it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use model::{Measured, NodeId};
use openflow::{Closed, ErrorCode, PortReason, tcp_flags};
use protocol::Connection;
use units::Bytes;

use super::Controller;
use crate::config::Enforcement;
use crate::fabric::entry::Key;
use crate::fabric::frame::{Content, Frame, OWN, Segment};
use crate::fabric::meters::Failure;
use crate::fabric::switches::{Pending, SwitchEvent};
use crate::message::{ChannelId, Closing, Output, Refusal};

impl Controller {
    pub(super) fn handle_bytes(&mut self, channel: ChannelId, mut bytes: &[u8]) {
        while let Some(taken) = self.fabric.switches.receive(&self.context, channel, bytes) {
            bytes = &bytes[taken..];
            self.poll_switch(channel);
            if bytes.is_empty() {
                return;
            }
        }
    }

    /// Polls the sessions that wait for something that doesn't come.
    pub(super) fn poll_switches(&mut self) {
        if let Some(due) = self.fabric.switches.due(self.context.now) {
            for channel in due {
                self.poll_switch(channel);
            }
            self.fabric.switches.polled_all();
        }
    }

    fn poll_switch(&mut self, channel: ChannelId) {
        while let Some((node, event)) = self.fabric.switches.poll(&self.context, channel) {
            self.handle_event(channel, node, event);
        }
        if let Some(closed) = self.fabric.switches.polled(channel) {
            self.close_switch(channel, Closing::Session(closed));
        }
    }

    fn handle_event(&mut self, channel: ChannelId, node: Option<NodeId>, event: SwitchEvent) {
        if matches!(event, SwitchEvent::Up) {
            self.switch_up(channel);
            return;
        }
        let Some(node) = node else {
            return;
        };
        match event {
            SwitchEvent::Ports(xid, ports, last) => {
                for port in ports {
                    self.discover(|discovery| discovery.port_found(node, &port, false));
                }
                // What nobody asked, or asked for something else, begins nothing anew.
                if last && matches!(self.fabric.switches.answered(node, xid), Some(Pending::Ports))
                {
                    self.discover(|discovery| discovery.ports_listed(node));
                    self.switch_ready(node);
                }
            }
            SwitchEvent::PortStatus(reason, port) => {
                self.discover(|discovery| {
                    discovery.port_found(node, &port, reason == PortReason::DELETE)
                });
            }
            SwitchEvent::Packet { port, table, frame } => {
                self.packet_in(node, port, table, &frame);
            }
            SwitchEvent::Notice(notice) => {
                if let Some(link) = self.view.link_at(node, notice.port.0) {
                    let queue = Bytes::new(notice.queue_bytes.into());
                    let severity = notice.severity;
                    self.congested(link, severity, queue, None);
                }
            }
            SwitchEvent::Idle(connection) => self.idle(node, &connection),
            SwitchEvent::Done(xid) => match self.fabric.switches.answered(node, xid) {
                Some(Pending::Step) => self.fabric.stepped(node, Ok(())),
                Some(Pending::Changes(changes)) => self.fabric.switches.confirm(node, changes),
                _ => {}
            },
            SwitchEvent::Entries(xid, entries, last) => {
                let sums =
                    self.fabric.switches.entries_listed(&self.context, node, xid, &entries, last);
                if let Some(sums) = sums {
                    self.carried(&sums);
                }
            }
            SwitchEvent::Meters(xid, meters, last) => {
                self.fabric.switches.meters_listed(&self.context, node, xid, &meters, last);
            }
            SwitchEvent::Failed(xid, code) => {
                self.fabric.switches.note_error();
                match self.fabric.switches.answered(node, xid) {
                    // A switch that knows no roles obeys everybody.
                    Some(Pending::Role) if code == Some(ErrorCode::STALE) => {
                        self.outranked_at(channel, node);
                    }
                    // A step that isn't confirmed must not stop all others.
                    Some(Pending::Step) => self.fabric.stepped(node, Err(Failure(code))),
                    Some(Pending::Changes(changes)) => {
                        self.fabric.switches.fail(node, &changes, code)
                    }
                    // A switch that doesn't say what ports it has is of no use.
                    Some(Pending::Ports) => {
                        self.close_switch(channel, Closing::Session(Closed::Silence));
                    }
                    _ => {}
                }
            }
            // A controller of a later epoch has come meanwhile.
            SwitchEvent::Error(_, ErrorCode::IS_SLAVE) => self.outranked_at(channel, node),
            SwitchEvent::Error(xid, code) => self.fabric.switches.refused(node, xid, code),
            SwitchEvent::Malformed => self.fabric.switches.note_malformed(),
            SwitchEvent::Up | SwitchEvent::Nothing => {}
        }
    }

    fn switch_up(&mut self, channel: ChannelId) {
        let Some(features) = self.fabric.switches.features(channel) else {
            return;
        };
        let most = self.context.limits.switches;
        let proved = self.check_certificate(channel, features.datapath_id);
        let node = proved.and_then(|()| self.view.add_switch(features.datapath_id, most));
        let node = match node {
            Ok(node) => node,
            Err(reason) => {
                let told =
                    format!("a switch of number {:#x} is refused: {reason}", features.datapath_id);
                self.view.contradict(self.context.now, told);
                let refusal = Refusal { field: "datapath_id", reason, busy: false };
                self.close_switch(channel, Closing::Refused(refusal));
                return;
            }
        };
        if let Some(old) = self.fabric.up(&self.context, channel, node, &features) {
            self.closing.push(Output::CloseSwitch(old, Closing::Replaced));
        }
    }

    /// Whether the switch of a channel may be this datapath: with a certificate it is what that says.
    fn check_certificate(&self, channel: ChannelId, datapath_id: u64) -> Result<(), String> {
        let name = self.view.switch_name(datapath_id);
        let Some(identity) =
            self.fabric.switches.identity(channel).filter(|proved| *proved != name)
        else {
            return Ok(());
        };
        let lacking = self.view.named(identity).filter(|node| self.view.lacks_datapath(*node));
        Err(match lacking {
            Some(_) => format!(
                "its certificate is {identity}'s, which has no number in the configuration: \
                 add [[switch]] name = \"{identity}\", datapath_id = \"{datapath_id:#x}\""
            ),
            None => format!(
                "{datapath_id:#x} is {name}'s, and this is the certificate of switch {identity}; \
                 give the switch its own"
            ),
        })
    }

    fn switch_ready(&mut self, node: NodeId) {
        self.fabric.rollout.make_due();
        self.recap_at(&[node]);
        if !self.fabric.switches.set_ready(&self.context, node) {
            return;
        }
        // It is there for the first time: applications may have come before it, as they do when the
        // controller starts again, and what was decided of their connections had nowhere to go.
        for id in self.registry.flows().map(|(id, _)| id).collect::<Vec<_>>() {
            self.pin(id);
        }
        if self.context.enforcement == Enforcement::Meters {
            for (_, flow) in self.registry.flows() {
                // Meters are set by what was declared.
                self.desired.touch(flow.selector.connection);
            }
            self.pairs.touch_all();
        }
    }

    /// A switch takes nothing from this controller any more.
    fn outranked_at(&mut self, channel: ChannelId, node: NodeId) {
        self.fabric.switches.note_outranked(node);
        self.close_switch(channel, Closing::Outranked);
    }

    fn close_switch(&mut self, channel: ChannelId, why: Closing) {
        self.closing.extend(self.fabric.switches.take_output(channel));
        self.fabric.remove(self.context.now, channel);
        self.closing.push(Output::CloseSwitch(channel, why));
    }

    /// Forgets switches that nobody declared and that are gone for long, as hosts. No connection is sent through one
    /// without links.
    pub(super) fn forget_switches(&mut self) {
        for node in self.fabric.switches.gone(self.context.now, self.context.memory()) {
            if self.agents.acting_for(node).is_none() && self.view.forget_switch(node) {
                self.fabric.switches.forget(node);
                self.agents.forget_nodes(&[node]);
            }
        }
    }

    fn packet_in(&mut self, node: NodeId, port: u32, table: u8, frame: &Frame) {
        match frame.content {
            Content::Probe { datapath_id, port: from } => {
                self.discover(|discovery| discovery.probed(datapath_id, from, node, port));
                return;
            }
            Content::Arp { sender } => {
                self.discover(|discovery| {
                    discovery.locate(node, port, frame.source, sender.into())
                });
            }
            Content::Ip { source, tcp, .. } => {
                self.discover(|discovery| discovery.locate(node, port, frame.source, source));
                if let Some(segment) = tcp {
                    self.watched(node, port, &segment);
                }
            }
            Content::Other => {}
        }
        // Table 0 sends copies; the packets themselves are on their way. Answers to our questions have arrived.
        if table > 0 && frame.destination != OWN {
            self.discover(|discovery| discovery.forward(node, port, frame));
        }
    }

    /// No packet has come for long of a connection that a switch counts, which nobody declared. Where no agent would
    /// tell that it is still there, nobody would tell of its end either.
    fn idle(&mut self, node: NodeId, connection: &Connection) {
        let key = Key::of_count(connection);
        // What is metered isn't counted.
        let counts = self.fabric.switches.get(node).is_some_and(|switch| {
            switch.own.contains_key(&key) && !switch.meters.contains(connection)
        });
        let would_tell = |host| self.agents.would_report(&self.context, host);
        let ends = self.view.ends(connection);
        if !counts || ends.is_some_and(|(src, dst)| would_tell(src) || would_tell(dst)) {
            return;
        }
        if let Some((id, _)) = self.registry.undeclared(connection) {
            self.counters.flows_vanished += 1;
            self.forget_flow(id);
        }
    }

    /// SYN, SYN-ACK, FIN and RST, seen at the first switch of the path.
    fn watched(&mut self, node: NodeId, port: u32, segment: &Segment) {
        if self.decider.watch().is_none() {
            return;
        }
        let Connection { source, destination } = segment.connection;
        let link = self.view.link_at(node, port);
        let leads = link.map(|link| self.view.network().topology().link(link).to);
        if leads.is_none() || self.view.host_at(source.ip()) != leads {
            return;
        }
        let is = |flag: u16| segment.flags & flag != 0;
        if is(tcp_flags::SYN) && is(tcp_flags::ACK) {
            let data = Connection { source: destination, destination: source };
            // The sender's SYN isn't asked: a receiver offers a scale only where the sender did (RFC 7323, 2.2).
            let scale = segment.scale;
            let (flows, mut is_new) = (self.registry.carried_by(&data).to_vec(), false);
            for id in &flows {
                is_new |= self.registry.see_scale(*id, scale);
            }
            let all = flows.first().filter(|_| is_new).map(|id| self.led_by(*id));
            for of in all.unwrap_or_else(|| Vec::from([data])) {
                self.cap_anew(&of, &[]);
            }
        } else if is(tcp_flags::SYN) {
            self.opened(segment.connection, None);
        } else if is(tcp_flags::RST) {
            // Nothing goes either way any more.
            self.closed(&segment.connection);
            self.closed(&Connection { source: destination, destination: source });
        } else if is(tcp_flags::FIN) {
            self.closed(&segment.connection);
        }
    }

    /// What connections have carried, as a switch counts.
    fn carried(&mut self, sums: &BTreeMap<Connection, Bytes>) {
        let mut flows = Vec::new();
        for (connection, bytes) in sums {
            if let [id] = *self.registry.sharing(&(*connection).into()) {
                flows.push((id, *bytes));
            }
        }
        flows.sort_unstable();
        flows.dedup_by_key(|(id, _)| *id);
        if !flows.is_empty() && self.decider.watch().is_some() {
            self.tell(Measured::Carried { flows });
        }
    }
}
