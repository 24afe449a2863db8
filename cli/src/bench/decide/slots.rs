//! `syn`: who sends in a timeslot among 256 hosts, decided in batches of 64, reports of new packets
//! taken in.

use policy::syn::{Arbiter, Order};

use super::{Decision, Dice, timed_us};
use crate::failure::Failure;

const HOSTS: u32 = 256;
const BATCH: u32 = 64;
/// Packets of a burst: 46 kB.
const BURST: u32 = 31;

pub(super) fn half() -> Result<Decision, Failure> {
    Ok(case(50))
}

pub(super) fn full() -> Result<Decision, Failure> {
    Ok(case(95))
}

/// Each host is offered `load` percent of a packet a slot, to any other, in bursts.
fn case(load: u32) -> Decision {
    let host = |number: u32| u16::try_from(number % HOSTS).unwrap_or_default();
    let mut arbiter = Arbiter::new(Order::Mmf, host(HOSTS - 1) + 1);
    let mut dice = Dice(1);
    let mut now = 0;
    Box::new(move || {
        // So many bursts of the hosts and slots of a batch, in parts of 100 · BURST.
        let expected = HOSTS * BATCH * load;
        let begun = (expected + dice.roll(100 * BURST)) / (100 * BURST);
        let bursts: Vec<(u16, u16)> = (0..begun)
            .map(|_| {
                let src = dice.roll(HOSTS);
                (host(src), host(src + 1 + dice.roll(HOSTS - 1)))
            })
            .collect();
        let mut granted = 0u32;
        let us = timed_us(|| {
            for (src, dst) in bursts {
                arbiter.queue(now, src, dst, BURST, u64::from(BURST) * 1500);
            }
            arbiter.fill(now, 1, BATCH, |_, _, _| granted += 1);
            granted
        });
        now += u64::from(BATCH);
        us / f64::from(BATCH)
    })
}
