//! One link divided among objectives.
//!
//! In this order: a least part for each; what latencies need; what deadlines need; by weight what the
//! others ask for; what the background asks for. What nobody asks for is given all the same, by
//! weight, so that who wants more next finds it.

use alloc::vec::Vec;

use model::LEAST_RATE;

/// What an objective wants of a link, bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Want {
    /// When its need is met: 0 first.
    pub(super) turn: Turn,
    /// What it needs before those of later turns have anything.
    pub(super) need: u64,
    /// All that it could use.
    pub(super) demand: u64,
    /// Zero is the background.
    pub(super) weight: u32,
}

/// When a need is met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turn {
    Latency,
    Deadline,
    /// It has no need that goes first.
    #[default]
    Share,
}

/// Divides `capacity` among those who want some; all of it is given. `parts` has an entry for each.
pub(super) fn divide(capacity: u64, wants: &[Want], parts: &mut Vec<u64>) {
    parts.clear();
    let count = wants.len() as u64;
    let least = LEAST_RATE.as_bps().min(capacity / count.max(1));
    parts.resize(wants.len(), least);
    let mut left = capacity - least * count;
    for turn in [Turn::Latency, Turn::Deadline] {
        let share = |want: &Want| if want.turn == turn { (1, want.need) } else { (0, 0) };
        fill(&mut left, wants, parts, share);
    }
    fill(&mut left, wants, parts, |want| (want.weight, want.demand));
    fill(&mut left, wants, parts, |want| (u32::from(want.weight == 0), want.demand));
    fill(&mut left, wants, parts, |want| (want.weight, u64::MAX));
    fill(&mut left, wants, parts, |_| (1, u64::MAX));
    if let Some(first) = parts.first_mut() {
        // What rounding leaves.
        *first += left;
    }
}

/// Has parts grow in proportion to weights, each up to a limit, until nothing is left.
fn fill(left: &mut u64, wants: &[Want], parts: &mut [u64], share: impl Fn(&Want) -> (u32, u64)) {
    // In each round some reach their limit, or all that is left is given.
    for _ in 0..=wants.len() {
        let grows = |want: &Want, part: u64| share(want).1 > part;
        let growing = wants.iter().zip(&*parts).filter(|(want, part)| grows(want, **part));
        let weight: u64 = growing.map(|(want, _)| u64::from(share(want).0)).sum();
        if weight == 0 || *left == 0 {
            return;
        }
        let (whole, mut is_done) = (*left, true);
        for (want, part) in wants.iter().zip(&mut *parts).filter(|(want, part)| grows(want, **part))
        {
            let (own, most) = share(want);
            let even = u128::from(whole) * u128::from(own) / u128::from(weight);
            let even = u64::try_from(even).unwrap_or(whole);
            let room = most - *part;
            if room < even {
                is_done = false;
            }
            let more = even.min(room).min(*left);
            *part += more;
            *left -= more;
        }
        if is_done {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    const LEAST: u64 = LEAST_RATE.as_bps();

    fn parts(capacity: u64, wants: &[Want]) -> Vec<u64> {
        let mut parts = Vec::new();
        divide(capacity, wants, &mut parts);
        parts
    }

    fn by_weight(weight: u32, demand: u64) -> Want {
        Want { weight, demand, ..Want::default() }
    }

    #[test]
    fn by_hand() {
        let mbps = 1_000_000;
        let latency = Want { turn: Turn::Latency, need: 2 * mbps, demand: 2 * mbps, weight: 1 };
        let deadline = Want { turn: Turn::Deadline, need: 5 * mbps, demand: 9 * mbps, weight: 1 };
        let [one, three] = [by_weight(1, u64::MAX), by_weight(3, u64::MAX)];
        let background = by_weight(0, u64::MAX);
        // Latency and deadline have what they need; the rest is 1:3:1, the background has the least.
        let all = parts(10 * mbps, &[latency, deadline, one, three, background]);
        assert_eq!(all[0], 2 * mbps);
        assert_eq!(all[4], LEAST);
        let rest = 3 * mbps - 5 * LEAST;
        assert!(all[1] > 5 * mbps && all[3] > all[2] * 2, "{all:?} of {rest}");
        assert_eq!(all.iter().sum::<u64>(), 10 * mbps);
        // Needs beyond the link: the latency goes first.
        let greedy = Want { need: 9 * mbps, ..deadline };
        let two = parts(10 * mbps, &[latency, greedy]);
        assert_eq!(two, [2 * mbps, 8 * mbps]);
        // Who asks for little leaves the rest; the background takes it.
        let small = parts(10 * mbps, &[by_weight(1, mbps), background]);
        assert_eq!(small, [mbps, 9 * mbps]);
        assert_eq!(parts(10 * mbps, &[by_weight(1, 0), by_weight(1, 0)]), vec![5 * mbps; 2]);
        assert_eq!(parts(1, &[one, one]).iter().sum::<u64>(), 1);
        assert!(parts(7, &[]).is_empty());
    }

    fn want() -> impl Strategy<Value = Want> {
        let turn = prop::sample::select(vec![Turn::Latency, Turn::Deadline, Turn::Share]);
        let rate = || prop_oneof![4 => 0..20_000_000u64, 1 => Just(u64::MAX)];
        (turn, rate(), rate(), 0..5u32).prop_map(|(turn, need, demand, weight)| Want {
            turn,
            need,
            demand,
            weight,
        })
    }

    proptest! {
        /// All is given, and nothing twice; nobody is without, but on a link that is too small.
        #[test]
        fn the_link_is_divided(
            capacity in prop_oneof![9 => 0..50_000_000u64, 1 => Just(u64::MAX)],
            wants in prop::collection::vec(want(), 1..9),
        ) {
            let parts = parts(capacity, &wants);
            prop_assert_eq!(parts.iter().map(|part| u128::from(*part)).sum::<u128>(), capacity.into());
            let least = LEAST.min(capacity / wants.len() as u64);
            prop_assert!(parts.iter().all(|part| *part >= least));
        }

        /// Whatever others ask for, an objective has its share by weight of what needs leave, or all that
        /// it asks for.
        #[test]
        fn no_demand_takes_anothers_share(
            capacity in 1_000_000..50_000_000u64,
            own in (1..5u32, 0..20_000_000u64),
            others in prop::collection::vec(want(), 0..8),
        ) {
            let needs = others.iter().filter(|want| want.turn != Turn::Share);
            let needs = needs.fold(0, |sum: u64, want| sum.saturating_add(want.need));
            let weights: u64 = others.iter().map(|want| u64::from(want.weight)).sum();
            let mut wants = others;
            wants.push(by_weight(own.0, own.1));
            let floors = LEAST * wants.len() as u64;
            let rest = capacity.saturating_sub(needs).saturating_sub(floors);
            let share = rest * u64::from(own.0) / (weights + u64::from(own.0));
            let part = parts(capacity, &wants)[wants.len() - 1];
            prop_assert!(part + 8 >= share.min(own.1), "{part} of {share}");
        }
    }
}
