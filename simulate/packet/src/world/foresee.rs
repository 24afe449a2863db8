//! What events that come next will touch, fetched into the caches before (docs/decisions/memory-is-fetched-ahead.md).

use engine::{EventQueue, FORESEEN, Slot, prefetch};

use crate::flow::Flow;
use crate::link::Links;
use crate::wires::{DELIVER, SPECIAL, Way, arrival_slot};
/// Has memory fetched for the events of these slots, which come next. Each needs six lines or more that lie
/// anywhere, and most lines say where the next is: they are fetched step by step for all.
#[inline(never)] // it has the registers for itself
pub(super) fn foresee(
    links: &Links,
    ways: &[Way],
    flows: &[Flow],
    events: &EventQueue,
    slots: &[Slot],
) {
    #[derive(Clone, Copy, Default)]
    struct Hop {
        link: u32,
        /// Where its packet's next link stands: the row of the path, and how many links come before.
        way: u32,
        after: u8,
    }
    let mut hops = [Hop::default(); FORESEEN];
    let mut count = 0;
    for (slot, hop) in slots.iter().filter(|slot| links.has(slot.0)).zip(&mut hops) {
        hop.link = slot.0;
        links.prefetch(slot.0);
        count += 1;
    }
    let hops = &mut hops[..count];
    for hop in hops.iter() {
        links.prefetch_head(hop.link);
    }
    for hop in hops.iter_mut() {
        if let Some(packet) = links.head(hop.link) {
            (hop.way, hop.after) = (packet.way(), packet.hop);
        }
        if let Some(way) = ways.get(hop.way as usize) {
            prefetch(way);
        }
    }
    for hop in hops.iter_mut() {
        let Some(way) = ways.get(hop.way as usize) else { continue };
        let mut next = way.after(hop.after);
        if next == DELIVER {
            // The answer begins the path the other way.
            hop.way ^= 1;
            let (Some(flow), Some(back)) =
                (flows.get(hop.way as usize / 2), ways.get(hop.way as usize))
            else {
                continue;
            };
            prefetch(flow);
            next = back.after(0);
        }
        hop.link = next & !SPECIAL;
        links.prefetch(hop.link);
        events.prefetch(arrival_slot(hop.link as usize));
    }
    for hop in hops.iter() {
        links.prefetch_tail(hop.link);
    }
}
