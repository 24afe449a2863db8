//! Dividing one link among the flows that claim it, so that the worst off is as well off as can be.
//!
//! Source: "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", problems
//! (3) and (4). Both have closed forms, which need no solver: [`proportional`] for the fork at an
//! uplink, [`level`] for the join at a downlink. All quantities are in bits per second, integers;
//! rates are rounded down, so that they never exceed the capacity in sum.

use alloc::vec::Vec;
use core::cmp::Ordering;

use units::Rate;

/// Largest weight or offset that counts, bit/s: products of sums of them stay within 128 bits.
pub const MOST: u64 = 1 << 46;

/// What a flow brings forward at a link; see [`level`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// How much a unit of level is worth to the flow; at most [`MOST`].
    pub weight: u64,
    /// What the flow has already; at most [`MOST`].
    pub offset: u64,
    /// The rate that it gets in any case; at most [`MOST`].
    pub least: u64,
}

impl Claim {
    /// Where the flow begins to get more than its least, times its weight.
    const fn begins(&self) -> u64 {
        self.least.saturating_add(self.offset)
    }

    /// Compares the levels at which two flows, both of some weight, begin to get more.
    fn order(&self, other: &Self) -> Ordering {
        let product = |a: &Self, b: &Self| u128::from(a.begins()) * u128::from(b.weight);
        product(self, other).cmp(&product(other, self))
    }
}

/// Minimises the largest `demand / rate` over rates that add up to `capacity`: each flow gets its
/// part of the demand, problem (3). Without any demand all get the same.
pub fn proportional(capacity: Rate, demands: &[u64]) -> Vec<Rate> {
    let sum: u128 = demands.iter().copied().map(u128::from).sum();
    let share = |demand: &u64| {
        let part = u128::from(capacity.as_bps()) * u128::from(*demand);
        let part = part.checked_div(sum).unwrap_or_else(|| even(capacity, demands.len()).into());
        Rate::from_bps(u64::try_from(part).unwrap_or(u64::MAX))
    };
    demands.iter().map(share).collect()
}

/// Minimises the largest `(offset + rate) / weight` over rates of at least `least` that add up to
/// `capacity`, problem (4): there is a level T at which every flow has
/// max(`least`, T·`weight` − `offset`). With no offsets and no least rates that is the proportional
/// split by weight.
///
/// Where no flow has weight, or the least rates alone exceed the capacity, all get the same. The
/// rates are appended to `rates` in the order of `claims`; `order` is room to work in.
pub fn level(capacity: Rate, claims: &[Claim], order: &mut Vec<usize>, rates: &mut Vec<Rate>) {
    let least: u128 = claims.iter().map(|claim| u128::from(claim.least)).sum();
    let capacity_bps = u128::from(capacity.as_bps());
    if least > capacity_bps || claims.iter().all(|claim| claim.weight == 0) {
        let even = Rate::from_bps(even(capacity, claims.len()));
        rates.extend(claims.iter().map(|_| even));
        return;
    }
    order.clear();
    order.extend((0..claims.len()).filter(|&flow| claims[flow].weight > 0));
    // Of the flows above their least: what the level must fill, and how wide it is.
    let fill = |(volume, width): (u128, u128), flow: &usize| {
        let claim = &claims[*flow];
        (volume + u128::from(claim.begins()), width + u128::from(claim.weight))
    };
    let mut water = order.iter().fold((capacity_bps - least, 0), fill);
    let is_above = |&flow: &usize, (volume, width): (u128, u128)| {
        volume * u128::from(claims[flow].weight) > u128::from(claims[flow].begins()) * width
    };
    if !order.iter().all(|flow| is_above(flow, water)) {
        order.sort_unstable_by(|&a, &b| claims[a].order(&claims[b]).then(a.cmp(&b)));
        water = (capacity_bps - least, 0);
        let mut above = 0;
        while let Some(flow) = order.get(above)
            && (above == 0 || is_above(flow, water))
        {
            water = fill(water, flow);
            above += 1;
        }
        order.truncate(above);
    }
    // The level T = volume / width, in fixed point: off by less than a bit per second, never above.
    let (volume, width) = water;
    let point = volume.leading_zeros().min(64);
    let height = (volume << point) / width;
    let first = rates.len();
    rates.extend(claims.iter().map(|claim| Rate::from_bps(claim.least)));
    for &flow in &*order {
        let Claim { weight, offset, least } = claims[flow];
        let filled = (height * u128::from(weight)) >> point;
        let rate = u64::try_from(filled).unwrap_or(u64::MAX).saturating_sub(offset);
        rates[first + flow] = Rate::from_bps(rate.max(least));
    }
}

fn even(capacity: Rate, flows: usize) -> u64 {
    capacity.as_bps() / (flows as u64).max(1)
}
