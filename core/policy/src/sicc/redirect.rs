//! Which queries go to another hub (SICC, section 3.3.2).

use alloc::vec::Vec;

use units::{Bytes, Rate, Span};

/// What a hub still has to send, and how fast it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Octets of the objects it and those below it have not sent.
    pub bytes: Bytes,
    /// Its real speed.
    pub speed: Rate,
}

impl Load {
    /// Equation 7, called progress rate there: the time that it still needs.
    pub(super) fn remaining(&self) -> Span {
        self.speed.time_for(self.bytes)
    }
}

/// The mean of what hubs still need (equation 8).
pub fn mean(loads: &[Load]) -> Span {
    let total: u128 = loads.iter().map(|load| u128::from(load.remaining().as_nanos())).sum();
    let mean = total.checked_div(loads.len() as u128).unwrap_or_default();
    Span::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
}

/// Takes objects from hubs whose remaining time is above the `mean` to hubs where it is below, until
/// the ones or the others have none left to give or take. `objects` are those that have not been
/// sent: number, size and hub; `elsewhere` names the hubs that have each one's replicas. Returns
/// object and new hub; `loads` are then as expected.
///
/// The hub that needs longest gives first; where the text has any hub below the mean, an object goes
/// where least time remains, and never where it would take longer than where it is.
pub fn redirect<I: IntoIterator<Item = usize>>(
    mean: Span,
    loads: &mut [Load],
    objects: &[(u32, Bytes, usize)],
    elsewhere: impl Fn(u32) -> I,
) -> Vec<(u32, usize)> {
    let behind = |hub: &usize| loads[*hub].remaining() > mean;
    let mut slow: Vec<usize> = (0..loads.len()).filter(behind).collect();
    slow.sort_by_key(|hub| core::cmp::Reverse(loads[*hub].remaining()));
    let mut by_hub: Vec<&(u32, Bytes, usize)> =
        objects.iter().filter(|(_, _, hub)| slow.contains(hub)).collect();
    by_hub.sort_by_key(|(object, _, hub)| (*hub, *object));
    let mut moves = Vec::new();
    for hub in slow {
        let first = by_hub.partition_point(|(_, _, at)| *at < hub);
        for &&(object, size, _) in by_hub[first..].iter().take_while(|(_, _, at)| *at == hub) {
            if loads[hub].remaining() <= mean {
                break;
            }
            let with = |to: usize| Load { bytes: loads[to].bytes + size, ..loads[to] }.remaining();
            let fast = |to: &usize| {
                loads.get(*to).is_some_and(|load| load.remaining() < mean)
                    && with(*to) < loads[hub].remaining()
            };
            let Some(to) = elsewhere(object).into_iter().filter(fast).min_by_key(|to| with(*to))
            else {
                continue;
            };
            loads[hub].bytes = loads[hub].bytes - size;
            loads[to].bytes += size;
            moves.push((object, to));
        }
    }
    moves
}
