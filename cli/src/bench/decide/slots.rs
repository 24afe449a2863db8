//! Timeslots for 256 nodes, and rates for 4,096 servers with 100 destinations each.
//!
//! A decision of `syn` is a timeslot, as part of a batch of 64: bursts of 10 packets on average join the
//! backlog, and each slot's list of pairs is written out. Spines are left out, as in the
//! figures that Fastpass gives for its allocator.

use policy::renormalise::{Offer, Renormaliser};
use policy::syn::{Arbiter, Order};
use units::Rate;

use super::{Decision, Dice, timed_us};
use crate::failure::Failure;

const NODES: u16 = 256;
const BATCH: u32 = 64;
/// Packets of a burst: 1 to so many, equally likely.
const MOST_PACKETS: u32 = 19;

pub(super) fn half() -> Result<Decision, Failure> {
    Ok(syn(50))
}

pub(super) fn full() -> Result<Decision, Failure> {
    Ok(syn(95))
}

/// Timeslots where every node is offered so many percent of what it can carry.
fn syn(percent: u32) -> Decision {
    let mut arbiter = Arbiter::new(Order::Mmf, NODES);
    let mut dice = Dice(1);
    let mut node = move |but: Option<u16>| loop {
        let node = u16::try_from(dice.roll(NODES.into())).unwrap_or_default();
        if Some(node) != but {
            break (node, 1 + dice.roll(MOST_PACKETS));
        }
    };
    let bursts = u32::from(NODES) * BATCH * percent / 100 / u32::midpoint(1, MOST_PACKETS);
    let mut slots = vec![Vec::new(); BATCH as usize];
    let mut now = 0;
    Box::new(move || {
        let offered: Vec<(u16, u16, u32)> = (0..bursts)
            .map(|_| {
                let (src, packets) = node(None);
                (src, node(Some(src)).0, packets)
            })
            .collect();
        let took = timed_us(|| {
            for (src, dst, packets) in offered {
                arbiter.queue(now, src, dst, packets, u64::from(packets) * 1500);
            }
            slots.iter_mut().for_each(Vec::clear);
            arbiter.fill(now, 1, BATCH, |slot, src, dst| slots[slot as usize].push((src, dst)));
            slots.len()
        });
        now += u64::from(BATCH);
        took / f64::from(BATCH)
    })
}

/// The rates of all pairs anew.
pub(super) fn asy() -> Result<Decision, Failure> {
    const SERVERS: u32 = 4096;
    const DESTINATIONS: u32 = 100;
    let rate = Rate::from_mbps(10_000);
    let mut dice = Dice(1);
    let mut offers: Vec<Offer> = (0..SERVERS * DESTINATIONS)
        .map(|number| Offer { src: number / DESTINATIONS, dst: dice.roll(SERVERS), rate })
        .collect();
    offers.sort_by_key(|offer| (offer.src, offer.dst));
    let capacities = vec![rate; SERVERS as usize];
    let (mut solver, mut rates) = (Renormaliser::default(), Vec::new());
    Ok(Box::new(move || {
        timed_us(|| {
            solver.solve(&capacities, &capacities, &offers, &mut rates);
            rates.len()
        })
    }))
}
