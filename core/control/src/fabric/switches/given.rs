//! What switches are given: entries, meters of connections and caps of windows, and what of earlier
//! controllers is taken away.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use model::NodeId;
use openflow::{FlowCommand, FlowMod, FlowSelect, Message, Request, TableId};
use protocol::Connection;
use units::{Bytes, Rate};

use super::{Changes, Pending, STALE, Switch, Switches, changes};
use crate::context::Context;
use crate::fabric::entry::{self, Does, Key};
use crate::fabric::meters;

impl Switches {
    /// Holds a connection to a rate at a switch and nowhere else, or lets it go. Whether that is so,
    /// or will be as soon as the switch is back and takes it.
    pub(crate) fn hold(
        &mut self,
        cx: &Context,
        connection: Connection,
        at: Option<NodeId>,
        rate: Option<Rate>,
    ) -> bool {
        let others = self.iter().filter(|(node, switch)| {
            switch.meters.contains(&connection) && (Some(*node) != at || rate.is_none())
        });
        for node in others.map(|(node, _)| node).collect::<Vec<_>>() {
            self.let_go(cx, node, &connection);
        }
        let Some(rate) = rate else {
            return true;
        };
        let known = at.and_then(|node| Some((node, self.switches.get_mut(&node)?)));
        let Some((node, switch)) = known.filter(|(_, switch)| switch.capable) else {
            return false;
        };
        let (is_ready, is_changed) = (switch.ready, switch.meters.set(connection, rate));
        let has_number = switch.meters.number(cx.epoch, &connection).is_some();
        if is_changed && is_ready {
            self.send_meter(cx, node, connection, true);
        }
        has_number
    }

    fn let_go(&mut self, cx: &Context, node: NodeId, connection: &Connection) {
        if let Some(switch) = self.switches.get_mut(&node)
            && let Some(number) = switch.meters.remove(connection)
        {
            changes(&mut switch.pending).for_each(|changes| changes.meters.forget(connection));
            if switch.ready {
                self.take(cx, node, &Key::of_meter(connection));
                self.send(cx, node, &meters::removal(number));
            }
        }
    }

    /// Gives a switch the entry that leads to a connection's meter, and the meter before, when it is
    /// to have the whole.
    pub(super) fn send_meter(
        &mut self,
        cx: &Context,
        node: NodeId,
        connection: Connection,
        is_whole: bool,
    ) {
        let known = self.switches.get_mut(&node);
        let known = known.and_then(|switch| switch.meters.number(cx.epoch, &connection));
        let Some((number, rate)) = known else {
            return;
        };
        let mut messages = Vec::new();
        if is_whole {
            let sent = meters::modify_or_add(number, rate, |message| self.send(cx, node, message));
            messages.extend(sent.map(|(xid, expected)| (xid, Some(expected))));
        }
        let entry = self.put(cx, node, &Key::of_meter(&connection), Does::Meter(number));
        messages.push((entry, None));
        if let Some(switch) = self.switches.get_mut(&node) {
            switch.meters.sent(connection, is_whole, &messages);
        }
    }

    /// Gives a switch the entry that caps a connection's window.
    pub(super) fn send_cap(
        &mut self,
        cx: &Context,
        node: NodeId,
        connection: Connection,
        does: Does,
    ) {
        let xid = self.put(cx, node, &Key::of_acknowledgements(&connection), does);
        if let Some(switch) = self.switches.get_mut(&node) {
            switch.caps.sent(connection, xid);
        }
    }

    /// Asks every switch whose meters or caps were changed to say when that is done: once for all.
    pub(super) fn ask_for_changes(&mut self, cx: &Context) {
        let nodes = self.written.iter().filter_map(|channel| self.channels.get(channel)?.node);
        let is_open = |node: &NodeId| self.switches.get(node).is_some_and(Switch::is_open);
        for node in nodes.filter(is_open).collect::<Vec<_>>() {
            let xid = self.send(cx, node, &Message::BarrierRequest);
            if let Some(switch) = self.switches.get_mut(&node) {
                let (meters, caps) = (switch.meters.take_open(), switch.caps.take_open());
                let renewal = switch.renewing.take();
                let changes = Changes { meters, caps, renewal };
                match xid {
                    Some(xid) => _ = switch.pending.insert(xid, Pending::Changes(changes)),
                    None => switch.fail(&changes, None),
                }
            }
        }
    }

    /// The rate that a connection is held to, as a switch has confirmed, and at which one.
    pub(crate) fn enforced(&self, connection: &Connection) -> Option<(NodeId, Rate)> {
        self.iter().find_map(|(node, switch)| Some((node, switch.meters.enforced(connection)?)))
    }

    /// Why a connection isn't metered, and at which switch.
    pub(crate) fn failure(&self, connection: &Connection) -> Option<(NodeId, meters::Failure)> {
        self.iter().find_map(|(node, switch)| Some((node, switch.meters.failure(connection)?)))
    }

    /// Meters of a switch: those of earlier controllers are removed after their entries have ended.
    pub(crate) fn meters_listed(
        &mut self,
        cx: &Context,
        node: NodeId,
        xid: u32,
        meters: &[u32],
        last: bool,
    ) {
        if let Some(switch) = self.switches.get_mut(&node) {
            let own = meters::numbers(cx.epoch);
            let old = meters.iter().copied().filter(|meter| !own.contains(meter));
            let room = STALE.saturating_sub(switch.old_meters.len());
            switch.old_meters.extend(old.take(room));
        }
        if last {
            self.answered(node, xid);
        }
    }

    /// Entries of a switch: those that earlier controllers left are removed. What connections have
    /// carried, when that was asked: those that it was given entries for, however long its answer is.
    pub(crate) fn entries_listed(
        &mut self,
        cx: &Context,
        node: NodeId,
        xid: u32,
        entries: &[(u64, Option<Connection>, Bytes)],
        last: bool,
    ) -> Option<BTreeMap<Connection, Bytes>> {
        let switch = self.switches.get_mut(&node)?;
        match switch.pending.get_mut(&xid)? {
            Pending::Carried(sums) => {
                let counted = entries.iter().filter_map(|(_, c, bytes)| Some(((*c)?, *bytes)));
                let own = &switch.own;
                sums.extend(counted.filter(|(of, _)| own.contains_key(&Key::of_count(of))));
            }
            Pending::OldEntries => {
                let own = entry::cookie(cx.epoch, switch.generation, Does::Next);
                let old = entries.iter().map(|(cookie, ..)| *cookie);
                let old = old.filter(|cookie| entry::is_standing(*cookie) && *cookie != own);
                let room = STALE.saturating_sub(switch.stale.len());
                switch.stale.extend(old.take(room));
            }
            _ => return None,
        }
        if !last {
            return None;
        }
        if let Pending::Carried(sums) = switch.pending.remove(&xid)? {
            return Some(sums);
        }
        for cookie in core::mem::take(&mut switch.stale) {
            let gone = FlowMod {
                cookie,
                cookie_mask: u64::MAX,
                table: TableId::ALL,
                command: FlowCommand::DELETE,
                ..FlowMod::ADD
            };
            self.send(cx, node, &Message::FlowMod(gone));
            self.counters.entries_removed += 1;
        }
        None
    }

    /// Gives a switch an entry; the number of the message, if it could be sent.
    pub(crate) fn put(&mut self, cx: &Context, node: NodeId, key: &Key, does: Does) -> Option<u32> {
        let switch = self.switches.get(&node)?;
        let cookie = entry::cookie(cx.epoch, switch.generation, does);
        self.counters.entries_added += 1;
        entry::add(key, does, cookie, cx.lease, |message| self.send(cx, node, message))
    }

    /// Takes an entry from a switch.
    pub(crate) fn take(&mut self, cx: &Context, node: NodeId, key: &Key) {
        entry::remove(key, |message| self.send(cx, node, message));
        self.counters.entries_removed += 1;
    }

    /// Gives a switch an entry for a connection, now and whenever it comes back.
    pub(crate) fn put_own(&mut self, cx: &Context, node: NodeId, key: Key, does: Does) {
        let Some(switch) = self.switches.get_mut(&node) else {
            return;
        };
        let takes_entries = switch.takes_entries();
        let is_new = switch.own.insert(key.clone(), does) != Some(does);
        if takes_entries && is_new {
            self.put(cx, node, &key, does);
        }
    }

    /// Takes such an entry from all switches: those that were told so.
    pub(crate) fn take_own_everywhere(&mut self, cx: &Context, key: &Key) -> Vec<NodeId> {
        let with = self.switches.iter_mut().filter_map(|(node, switch)| {
            (switch.own.remove(key).is_some() && switch.takes_entries()).then_some(*node)
        });
        let told: Vec<NodeId> = with.collect();
        for node in &told {
            self.take(cx, *node, key);
        }
        told
    }

    /// Has a switch cap a connection's window, now and whenever it comes back.
    pub(crate) fn cap(&mut self, cx: &Context, node: NodeId, connection: Connection, does: Does) {
        if let Some(switch) = self.switches.get_mut(&node)
            && switch.caps.set(connection, does)
            && switch.takes_entries()
        {
            self.send_cap(cx, node, connection, does);
        }
    }

    /// Lifts the cap of a connection's window at a switch.
    pub(crate) fn uncap(&mut self, cx: &Context, node: NodeId, connection: &Connection) {
        if let Some(switch) = self.switches.get_mut(&node)
            && switch.caps.remove(connection)
            && switch.takes_entries()
        {
            self.take(cx, node, &Key::of_acknowledgements(connection));
        }
    }

    /// Lifts the caps of a connection's window at all switches but these.
    pub(crate) fn uncap_elsewhere(&mut self, cx: &Context, connection: &Connection, at: &[NodeId]) {
        let others = self.capping.iter().filter(|node| !at.contains(node));
        for node in others.copied().collect::<Vec<_>>() {
            self.uncap(cx, node, connection);
        }
    }

    /// Asks switches for what earlier controllers, or we over an earlier channel, left behind. Called
    /// once all that replaces it stands.
    pub(crate) fn clean(&mut self, cx: &Context) {
        let left = self.ready().filter(|(_, switch)| !switch.cleaned);
        for node in left.map(|(node, _)| node).collect::<Vec<_>>() {
            let mark = entry::cookie(0, 0, Does::Next);
            let select =
                FlowSelect { cookie: mark, cookie_mask: entry::MARK_MASK, ..FlowSelect::ALL };
            if self.ask(cx, node, &Request::Flow(select), Pending::OldEntries)
                && let Some(switch) = self.switches.get_mut(&node)
            {
                switch.cleaned = true;
            }
        }
    }
}
