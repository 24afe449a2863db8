//! What is done to single connections at switches: meters, counts, caps of windows.
//!
//! OpenFlow's meters have no timeout. So the entry that leads to a meter has one, of the length of the
//! lease, and is added anew each third of it; when the controller is no more, the entry ends and the
//! packets go the same way without a meter. Meters that a controller left are removed by the next one
//! after their entries must have ended.

use alloc::vec;
use alloc::vec::Vec;

use model::{Cap, FlowId, LinkId, NodeId};
use openflow::{Band, BandKind, List, Message, MeterCommand, MeterFlags, MeterId, MeterMod};
use protocol::Connection;
use units::{Bytes, Rate, Span};

use crate::controller::Controller;
use crate::entry::{Does, Key};
use crate::switches::{Pending, meter_numbers};

/// A meter lets through at once what its rate gives in this time: a shorter one costs TCP more than
/// half of the rate (ours, measured: `docs/control.md`).
const BURST: Span = Span::from_millis(100);
/// And at least ten full frames.
const LEAST_BURST: Bytes = Bytes::new(15_000);
/// Payload of a full segment on Ethernet: an OpenFlow switch doesn't look at what hosts agreed on.
const SEGMENT: Bytes = Bytes::new(1460);

/// Bits of a rate or a burst in the wire's units of 1000, rounded up, never zero.
fn kilo(bits: u64) -> u32 {
    u32::try_from(bits.div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

fn burst(rate: Rate) -> u32 {
    let bytes = rate.bytes_in(BURST).max(LEAST_BURST);
    // In one second, as many bits move as the rate says.
    kilo(Rate::of(bytes, Span::from_secs(1)).as_bps())
}

impl Controller {
    /// Holds a connection to a rate at the first switch of its path, or lets it go.
    pub(crate) fn meter(
        &mut self,
        ends: (NodeId, NodeId),
        connection: Connection,
        rate: Option<Rate>,
    ) {
        let path_key = self.registry.sharing(&connection).first().map_or(0, |id| u64::from(id.0));
        let entrance = self.entrance(ends, path_key);
        let at = entrance.map(|link| self.view.network.topology().link(link).from);
        let key = Key::of(0, 800, &connection);
        let elsewhere: Vec<NodeId> = self
            .switches
            .iter()
            .filter(|(node, switch)| {
                switch.meters.contains_key(&connection) && (Some(**node) != at || rate.is_none())
            })
            .map(|(node, _)| *node)
            .collect();
        for node in elsewhere {
            self.take_own(node, &key);
            self.drop_meter(node, &connection);
            self.barrier(node, Pending::Confirm(vec![(connection, None)]));
        }
        let Some(rate) = rate else {
            return;
        };
        let Some((node, switch)) = at.and_then(|node| Some((node, self.switches.get_mut(&node)?)))
        else {
            self.counters.directives_unenforced += 1;
            return;
        };
        if switch.meters.get(&connection).is_some_and(|(_, old)| *old == rate) {
            return;
        }
        let free = || {
            let numbers = meter_numbers(self.epoch);
            let next = numbers.start + u32::try_from(switch.meters.len()).unwrap_or(u32::MAX / 2);
            Some(next).filter(|next| numbers.contains(next))
        };
        let known = switch.meters.get(&connection).map(|(number, _)| *number);
        let number = known.or_else(|| switch.free_meters.first().copied()).or_else(free);
        let Some(number) = number.filter(|_| switch.capable) else {
            self.counters.directives_unenforced += 1;
            return;
        };
        switch.free_meters.remove(&number);
        switch.meters.insert(connection, (number, rate));
        if switch.ready {
            self.set_meter(node, number, rate);
        }
        self.put_own(node, key, Does::Meter(number));
        self.barrier(node, Pending::Confirm(vec![(connection, Some(rate))]));
    }

    /// Sees to it that a switch has a meter of this rate, whether it has that meter already or not:
    /// one of the two is refused.
    pub(crate) fn set_meter(&mut self, node: NodeId, meter: u32, rate: Rate) {
        let bands = [Band { rate: kilo(rate.as_bps()), burst: burst(rate), kind: BandKind::Drop }];
        let flags = MeterFlags(MeterFlags::KBPS.0 | MeterFlags::BURST.0);
        for command in [MeterCommand::MODIFY, MeterCommand::ADD] {
            let (meter, bands) = (MeterId(meter), List::of(&bands));
            self.send(node, &Message::MeterMod(MeterMod { command, flags, meter, bands }));
        }
    }

    fn drop_meter(&mut self, node: NodeId, connection: &Connection) {
        let Some(switch) = self.switches.get_mut(&node) else {
            return;
        };
        if let Some((number, _)) = switch.meters.remove(connection) {
            switch.free_meters.insert(number);
            self.remove_meter(node, number);
        }
    }

    fn remove_meter(&mut self, node: NodeId, meter: u32) {
        let (command, flags, bands) = (MeterCommand::DELETE, MeterFlags(0), List::EMPTY);
        let meter = MeterId(meter);
        self.send(node, &Message::MeterMod(MeterMod { command, flags, meter, bands }));
    }

    /// Adds entries that end by themselves anew, and removes old controllers' meters when theirs
    /// have ended.
    pub(crate) fn renew_entries(&mut self) {
        let now = self.now;
        let mut renewed = Vec::new();
        let mut old = Vec::new();
        for (node, switch) in self.switches.iter_mut().filter(|(_, switch)| switch.ready) {
            let leased = switch.own.iter().filter(|(_, does)| does.is_leased());
            renewed.extend(leased.map(|(key, does)| (*node, key.clone(), *does)));
            if switch.old_meters_end.is_some_and(|end| end <= now) {
                switch.old_meters_end = None;
                let meters = core::mem::take(&mut switch.old_meters);
                old.extend(meters.into_iter().map(|meter| (*node, meter)));
            }
        }
        for (node, key, does) in renewed {
            self.put(node, &key, does);
        }
        for (node, meter) in old {
            self.remove_meter(node, meter);
        }
        self.end_pairs();
    }

    /// Has the first switch of its path count a connection that the policy watches.
    pub(crate) fn count_at_switch(&mut self, id: FlowId) {
        let Some(flow) = self.registry.flow(id) else {
            return;
        };
        let (connection, ends) = (flow.connection, flow.ends);
        if let Some(link) = self.entrance(ends, u64::from(id.0)) {
            let at = self.view.network.topology().link(link).from;
            self.put_own(at, Key::of(0, 700, &connection), Does::Count);
        }
    }

    /// Caps windows at a switch that knows how; whether it does.
    pub(crate) fn cap_at_switch(
        &mut self,
        at: NodeId,
        link: LinkId,
        flow: Option<FlowId>,
        cap: Option<Cap>,
    ) -> bool {
        if !self.capping.contains(&at) {
            return false;
        }
        let flows = match flow {
            Some(flow) => vec![flow],
            None => self.flows_over(link),
        };
        for id in flows {
            let Some(flow) = self.registry.flow(id) else {
                continue;
            };
            let (connection, scale) = (flow.connection, flow.scale);
            match (cap, scale) {
                // Without its scale the header can't be written.
                (Some(cap), Some(shift)) => {
                    let bytes = cap.least(SEGMENT);
                    self.put_own(at, acknowledgements(&connection), Does::Cap { bytes, shift });
                }
                (Some(_), None) => self.counters.directives_unenforced += 1,
                (None, _) => self.uncap_at_switch(at, &connection),
            }
        }
        true
    }

    pub(crate) fn uncap_at_switch(&mut self, at: NodeId, connection: &Connection) {
        self.take_own(at, &acknowledgements(connection));
    }

    /// The flows whose path a link is on.
    pub(crate) fn flows_over(&self, link: LinkId) -> Vec<FlowId> {
        let mut path = Vec::new();
        let over = self.registry.flows().filter(|(id, flow)| {
            path.clear();
            self.view.network.path(flow.ends.0, flow.ends.1, u64::from(id.0), &mut path);
            path.contains(&link)
        });
        over.map(|(id, _)| id).collect()
    }
}

/// The entry for what comes back on a connection.
fn acknowledgements(connection: &Connection) -> Key {
    let Connection { source, destination } = *connection;
    Key::of(0, 850, &Connection { source: destination, destination: source })
}
