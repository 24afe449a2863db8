//! `asy`: rates for 4,096 hosts that each offer traffic to 100 others, half of which can't receive
//! all that is offered.

use policy::renormalise::{Offer, Renormaliser};
use units::Rate;

use super::{Decision, Dice, timed_us};
use crate::failure::Failure;

const HOSTS: u32 = 4096;
const EACH: u32 = 100;

pub(super) fn asy() -> Result<Decision, Failure> {
    let mut dice = Dice(1);
    let capacity = vec![Rate::from_mbps(1000); HOSTS as usize];
    let mut offers: Vec<Offer> = (0..HOSTS)
        .flat_map(|src| (0..EACH).map(move |number| (src, number)))
        .map(|(src, number)| {
            let dst = (src + 1 + number * (HOSTS / EACH) + dice.roll(HOSTS / EACH)) % HOSTS;
            Offer { src, dst, rate: Rate::ZERO }
        })
        .collect();
    let mut solver = Renormaliser::default();
    let mut rates = Vec::new();
    Ok(Box::new(move || {
        for offer in &mut offers {
            // 10 Mbit/s on average: at some hosts more than they can carry, at others less.
            offer.rate = Rate::from_bps(u64::from(dice.roll(20_000_000)));
        }
        timed_us(|| {
            solver.solve(&capacity, &capacity, &offers, &mut rates);
            rates.len()
        })
    }))
}
