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
pub(super) fn divide(
    flows: &[&Flow],
    links: usize,
    given: impl Fn(LinkId) -> Rate,
    framed: impl Fn(Rate) -> Rate,
) -> Vec<Rate> {
    let (used, paths) = lay_out(flows, links);
    let mut capacities: Vec<Rate> = used.into_iter().map(given).collect();
    let own = |flow: &Flow| flow.limit.unwrap_or(Rate::MAX);
    let wanted = flows.iter().map(|flow| own(flow).min(framed(flow.demand())));
    let mut rates = max_min_below(&capacities, &paths, &wanted.collect::<Vec<_>>());
    for (path, rate) in paths.links.iter().zip(&rates) {
        for link in path {
            capacities[*link as usize] = capacities[*link as usize] - *rate;
        }
    }
    let rest = flows.iter().zip(&rates).map(|(flow, rate)| own(flow) - *rate);
    let more = max_min_below(&capacities, &paths, &rest.collect::<Vec<_>>());
    for (rate, more) in rates.iter_mut().zip(more) {
        *rate = *rate + more;
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
