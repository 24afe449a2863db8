//! What the flows of an objective may have of its parts: max-min fairly.

use alloc::vec;
use alloc::vec::Vec;

use model::LinkId;
use units::Rate;

use super::flow::Flow;
use crate::filling::Paths;
use crate::lists::position;
use crate::waterfill::max_min_below;

/// What each flow may have where they have `given` of a link together, of so many links: no more than
/// its own policy says and than it could use; and of what is left then, no more than its own policy
/// says. `framed` makes a frame rate of a payload rate.
///
/// Where others `yield_to` them, each may have all that is left, and an even part in any case. Answers come
/// in bursts, of some flows at a time: who is quiet now may burst before it is sampled again, and together
/// they have more than is given until then.
pub(super) fn divide(
    flows: &[&Flow],
    links: usize,
    given: impl Fn(LinkId) -> Rate,
    framed: impl Fn(Rate) -> Rate,
    yield_to: bool,
) -> Vec<Rate> {
    let (used, paths) = lay_out(flows, links);
    let capacities: Vec<Rate> = used.into_iter().map(given).collect();
    let own: Vec<Rate> = flows.iter().map(|flow| flow.limit.unwrap_or(Rate::MAX)).collect();
    let wanted = flows.iter().zip(&own).map(|(flow, own)| framed(flow.demand()).min(*own));
    let mut rates = max_min_below(&capacities, &paths, &wanted.collect::<Vec<_>>());
    let mut left = capacities.clone();
    for (path, rate) in paths.links.iter().zip(&rates) {
        for link in path {
            left[*link as usize] = left[*link as usize] - *rate;
        }
    }
    if yield_to {
        let even = max_min_below(&capacities, &paths, &own);
        for (place, path) in paths.links.iter().enumerate() {
            let all = path.iter().map(|link| left[*link as usize]).min().unwrap_or(Rate::MAX);
            rates[place] = (rates[place] + all).min(own[place]).max(even[place]);
        }
    } else {
        let rest: Vec<Rate> = own.iter().zip(&rates).map(|(own, rate)| *own - *rate).collect();
        for (rate, more) in rates.iter_mut().zip(max_min_below(&left, &paths, &rest)) {
            *rate = *rate + more;
        }
    }
    rates
}

/// The links that flows use, and the paths over them by their places there.
fn lay_out(flows: &[&Flow], links: usize) -> (Vec<LinkId>, Paths) {
    let mut places = vec![None; links];
    let mut used = Vec::new();
    let mut paths = Paths::NONE;
    for flow in flows {
        paths.links.push(flow.path.iter().map(|link| {
            *places[link.index()].get_or_insert_with(|| {
                used.push(*link);
                position(used.len() - 1)
            })
        }));
    }
    paths.turn(used.len());
    (used, paths)
}
