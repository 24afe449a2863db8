//! Max-min fair rates by progressive filling: all flows grow together, and those on a link that
//! fills up stop there (Bertsekas and Gallager, Data Networks, section 6.5.2).

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::{Ordering, Reverse};

use model::LinkId;
use units::Rate;

use crate::filling::{Filler, Paths};

/// What a flow has while nothing has stopped it; it keeps that where no link limits it.
const GROWS: Rate = Rate::MAX;

/// The max-min fair rate of each flow, given each link's capacity and the links of each flow.
///
/// Rates are whole bits per second, rounded down, and so never exceed any capacity in sum; each
/// flow has a link on which no flow has a larger rate and on which less than one bit per second
/// for each flow is left. A link without an entry in `capacities` doesn't limit; a flow that no
/// link limits gets [`Rate::MAX`].
pub fn max_min(capacities: &[Rate], flows: &[&[LinkId]]) -> Vec<Rate> {
    max_min_below(capacities, &paths(capacities.len(), flows.iter().copied()), &[])
}

/// The same over paths whose links all have a capacity, none above its cap; flows beyond `caps` have
/// none.
pub(crate) fn max_min_below(capacities: &[Rate], paths: &Paths, caps: &[Rate]) -> Vec<Rate> {
    let lefts = capacities.iter().map(|capacity| capacity.as_bps()).collect();
    max_min_left(lefts, paths, caps).0
}

/// The same where so much is left of each link, bit/s, and what is left then.
pub(crate) fn max_min_left(lefts: Vec<u64>, paths: &Paths, caps: &[Rate]) -> (Vec<Rate>, Vec<u64>) {
    let mut links: Vec<Filling> =
        lefts.into_iter().map(|left| Filling { left, growing: 0 }).collect();
    for (link, filling) in links.iter_mut().enumerate() {
        filling.growing = paths.members.of(link).len() as u64;
    }
    let mut queue: BinaryHeap<Reverse<(Filling, usize)>> = (links.iter().copied().enumerate())
        .filter(|(_, filling)| filling.growing > 0)
        .map(|(link, filling)| Reverse((filling, link)))
        .collect();
    let mut bounded: Vec<usize> = (0..caps.len()).filter(|flow| caps[*flow] < Rate::MAX).collect();
    bounded.sort_unstable_by_key(|flow| caps[*flow]);
    let mut bounded = bounded.into_iter().peekable();

    let mut rates = vec![GROWS; paths.links.len()];
    let mut stop = |flow: usize, rate: Rate, links: &mut [Filling]| {
        if rates[flow] == GROWS {
            rates[flow] = rate;
            for used in paths.links.of(flow) {
                let filling = &mut links[*used as usize];
                filling.left -= rate.as_bps();
                filling.growing -= 1;
            }
        }
    };
    // A link's level only rises while flows stop elsewhere, so that an entry that has gone stale
    // comes up too early, never too late.
    while let Some(Reverse((queued, link))) = queue.pop() {
        while let Some(flow) = bounded.next_if(|flow| queued.reaches(caps[*flow])) {
            stop(flow, caps[flow], &mut links);
        }
        if links[link].growing == 0 {
            continue;
        }
        if links[link] != queued {
            queue.push(Reverse((links[link], link)));
            continue;
        }
        let rate = Rate::from_bps(queued.left / queued.growing);
        if rate == GROWS {
            continue;
        }
        for &flow in paths.members.of(link) {
            stop(flow as usize, rate, &mut links);
        }
    }
    for flow in bounded {
        stop(flow, caps[flow], &mut links);
    }
    (rates, links.into_iter().map(|link| link.left).collect())
}

/// The weighted max-min fair rate of each flow: all grow together, each in proportion to its weight,
/// and those on a link that fills up stop there.
///
/// Rates are whole bits per second, rounded down, and never exceed a capacity in sum. Links are those
/// of `capacities`; a flow without links gets nothing.
pub fn weighted(capacities: &[Rate], flows: &[&[LinkId]], weights: &[f64]) -> Vec<Rate> {
    divide(capacities, flows, |filler, paths, rates| {
        filler.fill(paths, 0, |flow| weights[flow], rates);
    })
}

/// The least rates at which flows with so much to send all end together, as early as the links allow
/// (Varys's MADD); rounding and links as in [`weighted`].
pub fn together(capacities: &[Rate], flows: &[&[LinkId]], sizes: &[f64]) -> Vec<Rate> {
    divide(capacities, flows, |filler, paths, rates| filler.pace(paths, |flow| sizes[flow], rates))
}

fn divide(
    capacities: &[Rate],
    flows: &[&[LinkId]],
    by: impl FnOnce(&mut Filler, &Paths, &mut [u64]),
) -> Vec<Rate> {
    let paths = paths(capacities.len(), flows.iter().copied());
    let mut filler = Filler::default();
    filler.open(capacities.iter().map(|capacity| capacity.as_bps()));
    let mut rates = vec![0; flows.len()];
    by(&mut filler, &paths, &mut rates);
    rates.into_iter().map(Rate::from_bps).collect()
}

/// The flows over links of which there are so many; others don't count.
pub(crate) fn paths<'a>(links: usize, flows: impl Iterator<Item = &'a [LinkId]>) -> Paths {
    let mut paths = Paths::NONE;
    for flow in flows {
        paths.links.push(flow.iter().map(|link| link.0).filter(|link| (*link as usize) < links));
    }
    paths.turn(links);
    paths
}

/// What a link has left for its flows that still grow; ordered by the level at which it fills up.
#[derive(Clone, Copy)]
struct Filling {
    left: u64,
    growing: u64,
}

impl Filling {
    /// Whether its level is no lower than `rate`.
    fn reaches(&self, rate: Rate) -> bool {
        u128::from(rate.as_bps()) * u128::from(self.growing) <= u128::from(self.left)
    }
}

impl Ord for Filling {
    /// Compares `left / growing` without rounding.
    fn cmp(&self, other: &Self) -> Ordering {
        let scaled = |a: u64, b: u64| u128::from(a) * u128::from(b);
        scaled(self.left, other.growing).cmp(&scaled(other.left, self.growing))
    }
}

impl PartialOrd for Filling {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Filling {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Filling {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lists::position;

    proptest! {
        /// A cap is a link for the flow itself.
        #[test]
        fn a_cap_is_a_link_of_its_own(
            capacities in prop::collection::vec(0..1_000u64, 1..6),
            flows in prop::collection::vec(
                (prop::collection::btree_set(0..6u32, 0..4), prop_oneof![0..500u64, Just(u64::MAX)]),
                0..12,
            ),
        ) {
            let mut capacities: Vec<Rate> = capacities.into_iter().map(Rate::from_bps).collect();
            let links = capacities.len();
            let caps: Vec<Rate> = flows.iter().map(|(_, cap)| Rate::from_bps(*cap)).collect();
            let mut over: Vec<Vec<LinkId>> = flows
                .iter()
                .map(|(path, _)| path.iter().map(|link| LinkId(link % position(links))).collect())
                .collect();
            for path in &mut over {
                path.sort_unstable();
                path.dedup();
            }
            let slices: Vec<&[LinkId]> = over.iter().map(Vec::as_slice).collect();
            let over_all = paths(links, slices.iter().copied());
            let below = max_min_below(&capacities, &over_all, &caps);
            for (own, (path, cap)) in (position(links)..).zip(over.iter_mut().zip(&caps)) {
                path.push(LinkId(own));
                capacities.push(*cap);
            }
            let slices: Vec<&[LinkId]> = over.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(below, max_min(&capacities, &slices));
        }
    }
}
