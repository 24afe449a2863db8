//! `asy`: a rate for every pair of hosts, renormalised whenever what is offered changes.
//!
//! Source: sync-vs-async, section II-B. A pair with packets waiting offers the rate of its slower link,
//! for so fast would it drain alone; a pair whose offered rate was measured offers that. What the
//! hosts can't carry is renormalised (`renormalise`). Rates count frame bytes. Paths are left
//! to ECMP, as in the text.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use model::{Directive, Directives, Measured, Network, NodeId, NodeKind, Observation};
use units::{Rate, Time};

use crate::renormalise::{Offer, Renormaliser};
use crate::{FLOOR, LEASE, Policy};

/// The asynchronous policy.
#[derive(Debug, Default)]
pub struct Asy {
    /// What each pair that offers anything offers, and the rate that it was given last.
    pairs: BTreeMap<(NodeId, NodeId), Pair>,
    /// What each node can send and receive on the links that are up; empty: to be looked up.
    sources: Vec<Rate>,
    destinations: Vec<Rate>,
    solver: Renormaliser,
    offers: Vec<Offer>,
    rates: Vec<Rate>,
}

#[derive(Debug)]
struct Pair {
    offer: Rate,
    given: Rate,
}

impl Asy {
    fn solve(&mut self, network: &Network, out: &mut Directives) {
        if self.sources.is_empty() {
            self.look_up(network);
        }
        // The floor of each pair is set aside, for it is added to what the pair gets.
        let (mut sources, mut destinations) = (self.sources.clone(), self.destinations.clone());
        for (src, dst) in self.pairs.keys() {
            for end in [&mut sources[src.index()], &mut destinations[dst.index()]] {
                *end = *end - FLOOR;
            }
        }
        self.offers.clear();
        self.offers.extend((self.pairs.iter()).map(|(&(src, dst), pair)| Offer {
            src: src.0,
            dst: dst.0,
            rate: pair.offer,
        }));
        self.solver.solve(&sources, &destinations, &self.offers, &mut self.rates);
        for ((&(src, dst), pair), &rate) in self.pairs.iter_mut().zip(&self.rates) {
            let rate = rate + FLOOR;
            if pair.given != rate {
                pair.given = rate;
                out.push(Directive::PacePair { src, dst, rate, lease: LEASE });
            }
        }
    }

    fn look_up(&mut self, network: &Network) {
        let topology = network.topology();
        self.sources = vec![Rate::ZERO; topology.nodes().len()];
        self.destinations = self.sources.clone();
        for (number, link) in (0..).zip(topology.links()) {
            if network.is_up(model::LinkId(number)) {
                self.sources[link.from.index()] =
                    self.sources[link.from.index()] + link.spec.capacity;
                let received = &mut self.destinations[link.to.index()];
                *received = *received + link.spec.capacity;
            }
        }
    }

    /// Notes what a pair offers; whether that is news.
    fn offer(&mut self, network: &Network, src: NodeId, dst: NodeId, rate: Rate) -> bool {
        let is_host = |node: NodeId| {
            network.topology().nodes().get(node.index()).is_some_and(|n| n.kind == NodeKind::Host)
        };
        if rate == Rate::ZERO {
            return self.pairs.remove(&(src, dst)).is_some();
        }
        if src == dst || !is_host(src) || !is_host(dst) {
            return false;
        }
        let given = Rate::ZERO;
        let pair = self.pairs.entry((src, dst)).or_insert(Pair { offer: Rate::ZERO, given });
        core::mem::replace(&mut pair.offer, rate) != rate
    }
}

impl Policy for Asy {
    fn observe(
        &mut self,
        _: Time,
        network: &Network,
        observation: &Observation,
        out: &mut Directives,
    ) {
        let changed = match *observation {
            Observation::Measured(Measured::Queued { src, dst, .. }) => {
                self.offer(network, src, dst, Rate::MAX)
            }
            Observation::Measured(Measured::Drained { src, dst }) => {
                self.offer(network, src, dst, Rate::ZERO)
            }
            Observation::Measured(Measured::Offered { src, dst, rate }) => {
                self.offer(network, src, dst, rate)
            }
            Observation::Measured(Measured::LinkState { .. }) => {
                self.sources.clear();
                true
            }
            _ => false,
        };
        if changed {
            self.solve(network, out);
        }
    }
}
