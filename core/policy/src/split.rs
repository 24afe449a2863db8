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
    // What the level must fill, and how wide it is, where all flows of some weight are above their
    // least; mostly they are.
    let (mut least, mut volume, mut width, mut widest) = (0u128, 0u128, 0u128, 0);
    for claim in claims {
        least += u128::from(claim.least);
        if claim.weight > 0 {
            volume += u128::from(claim.begins());
            width += u128::from(claim.weight);
            widest = widest.max(claim.weight);
        }
    }
    let capacity_bps = u128::from(capacity.as_bps());
    if least > capacity_bps || width == 0 {
        let even = Rate::from_bps(even(capacity, claims.len()));
        rates.extend(claims.iter().map(|_| even));
        return;
    }
    let spare = capacity_bps - least;
    let first = rates.len();
    let water = Height::of(spare + volume, width, widest);
    rates.extend(claims.iter().map(|claim| Rate::from_bps(water.over(claim))));
    if claims.iter().all(|claim| claim.weight == 0 || water.covers(claim)) {
        return;
    }
    order.clear();
    order.extend((0..claims.len()).filter(|&flow| claims[flow].weight > 0));
    order.sort_unstable_by(|&a, &b| claims[a].order(&claims[b]).then(a.cmp(&b)));
    let (mut volume, mut width) = (spare, 0);
    for &flow in &*order {
        let begins = u128::from(claims[flow].begins());
        let weight = u128::from(claims[flow].weight);
        if width > 0 && volume * weight <= begins * width {
            break;
        }
        (volume, width) = (volume + begins, width + weight);
    }
    let water = Height::of(volume, width, widest);
    for (rate, claim) in rates[first..].iter_mut().zip(claims) {
        *rate = Rate::from_bps(water.over(claim));
    }
}

/// A level in fixed point, rounded down. It has as many bits behind the point as the largest weight
/// has, so that a rate by it is off by less than a bit per second, never above.
struct Height {
    fixed: u128,
    point: u32,
}

impl Height {
    fn of(volume: u128, width: u128, widest: u64) -> Self {
        let point = u64::BITS - widest.leading_zeros();
        let volume = volume << point;
        // Narrow where that is enough: wide divisions take several times as long.
        let fixed = match (u64::try_from(volume), u64::try_from(width)) {
            (Ok(volume), Ok(width)) => u128::from(volume / width),
            _ => volume / width,
        };
        Self { fixed, point }
    }

    /// How high the water stands at a flow: its rate and its offset.
    fn at(&self, claim: &Claim) -> u64 {
        let filled = (self.fixed * u128::from(claim.weight)) >> self.point;
        u64::try_from(filled).unwrap_or(u64::MAX)
    }

    fn covers(&self, claim: &Claim) -> bool {
        self.at(claim) >= claim.begins()
    }

    /// The rate of a flow.
    fn over(&self, claim: &Claim) -> u64 {
        self.at(claim).saturating_sub(claim.offset).max(claim.least)
    }
}

fn even(capacity: Rate, flows: usize) -> u64 {
    capacity.as_bps() / (flows as u64).max(1)
}
