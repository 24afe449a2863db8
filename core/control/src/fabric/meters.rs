//! Meters: what holds a connection to a rate at a switch.
//!
//! OpenFlow's meters have no timeout. So the entry that leads to a meter has one, of the length of the
//! lease, and is added anew each third of it; when the controller is no more, the entry ends and the
//! packets go the same way without a meter. Meters that a controller left are removed by the next one
//! after their entries must have ended.

use alloc::vec::Vec;

use model::NodeId;
use protocol::Connection;
use units::Rate;

use crate::context::Context;
use crate::fabric::entry::{Does, Key};
use crate::fabric::switches::{Pending, Switches, meter_numbers};

/// Holds a connection to a rate at a switch and nowhere else, or lets it go. Whether that is so, or
/// will be as soon as the switch is back.
pub(crate) fn hold(
    switches: &mut Switches,
    cx: &Context,
    connection: Connection,
    at: Option<NodeId>,
    rate: Option<Rate>,
) -> bool {
    let key = Key::of(0, 800, &connection);
    let others = switches.iter().filter(|(node, switch)| {
        switch.meters.contains_key(&connection) && (Some(*node) != at || rate.is_none())
    });
    for node in others.map(|(node, _)| node).collect::<Vec<_>>() {
        switches.take_own(cx, node, &key);
        release(switches, cx, node, &connection);
        switches.barrier(cx, node, Pending::Confirm(connection, None));
    }
    let Some(rate) = rate else {
        return true;
    };
    let Some((node, switch)) = at.and_then(|node| Some((node, switches.get_mut(node)?))) else {
        return false;
    };
    let known = switch.meters.get(&connection).copied();
    if known.is_some_and(|(_, old)| old == rate) {
        return true;
    }
    let unused = || {
        let numbers = meter_numbers(cx.epoch);
        let next = numbers.start + u32::try_from(switch.meters.len()).unwrap_or(u32::MAX / 2);
        Some(next).filter(|next| numbers.contains(next))
    };
    let known = known.map(|(number, _)| number);
    let number = known.or_else(|| switch.free_meters.first().copied()).or_else(unused);
    let Some(number) = number.filter(|_| switch.capable) else {
        return false;
    };
    switch.free_meters.remove(&number);
    switch.meters.insert(connection, (number, rate));
    if switch.ready {
        switches.set_meter(cx, node, number, rate);
    }
    switches.put_own(cx, node, key, Does::Meter(number));
    switches.barrier(cx, node, Pending::Confirm(connection, Some(rate)));
    true
}

fn release(switches: &mut Switches, cx: &Context, node: NodeId, connection: &Connection) {
    if let Some(switch) = switches.get_mut(node)
        && let Some((number, _)) = switch.meters.remove(connection)
    {
        switch.free_meters.insert(number);
        switches.remove_meter(cx, node, number);
    }
}
