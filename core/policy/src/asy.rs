//! `asy`: a rate for every pair of hosts, renormalised whenever what is offered changes.
//!
//! Source: sync-vs-async, sections II-B and III-B. A pair with packets waiting offers the rate of its slower link,
//! for so fast would it drain alone; a pair whose offered rate was measured offers that. With a `period` a pair
//! offers what joined its queue since that was empty, over the period and at most its link, and what the hosts have
//! left is given in proportion. What the hosts can't carry is renormalised (III-B, `renormalise`). Rates count frame
//! bytes. Paths are left to ECMP (III-B).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use model::{Directive, Directives, LEAST_RATE, Measured, Network, NodeId, NodeKind, Observation};
use units::{Bytes, Rate, Span, Time};

use crate::renormalise::{Offer, Renormaliser};
use crate::{Descriptor, DirectiveKind, Kind, Need, Parameter, Policy, Share, Value};

const USABLE: Parameter = Parameter::new(
    "usable",
    Kind::Share,
    Value::Share(Share::ALL),
    "the part of a link that is given away; the rest is for what has no rate, as acknowledgements",
)
.published("section II-B");

const PERIOD: Parameter = Parameter::new(
    "period",
    Kind::Span(Span::ZERO, Span::from_secs(1)),
    Value::Span(Span::ZERO),
    "time over which a pair offers what joined its queue since that was empty, and rates are in proportion to what is offered; 0: a pair with packets offers its whole link",
);

/// How often what hosts have left is given away, where a pair may have more than it offers.
const FILLS: u32 = 4;

/// What `asy` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "asy",
    summary: "a rate for every pair of hosts, renormalised when what is offered changes",
    source: "To sync or not to sync, sections II-B and III-B",
    parameters: &[USABLE, PERIOD],
    needs: &[Need::WaitingPackets],
    directives: &[DirectiveKind::PacePair],
    is_max_min: false,
    build: |given| Ok(Box::new(Asy::new(given.get(USABLE.name), given.get(PERIOD.name)))),
};

/// The asynchronous policy.
#[derive(Debug)]
struct Asy {
    /// The pairs that offer anything, in order of their ends.
    pairs: Vec<Pair>,
    /// The part of every link that is given away.
    usable: Share,
    /// The time over which what joins a queue is offered; zero: who has packets offers its link.
    period: Span,
    /// What each node can send and receive on the links that are up; empty: to be looked up.
    sources: Vec<Rate>,
    destinations: Vec<Rate>,
    solver: Renormaliser,
    offers: Vec<Offer>,
    rates: Vec<Rate>,
    /// Whether there is something to divide anew.
    changed: bool,
}

#[derive(Debug)]
struct Pair {
    ends: (NodeId, NodeId),
    /// Frame octets that joined its queue since that was empty.
    joined: Bytes,
    offer: Rate,
    /// The rate that it was given last.
    given: Rate,
}

impl Asy {
    /// The policy that gives the pairs `usable` of every link: what it leaves is for what has no rate,
    /// as the acknowledgements of a live network.
    fn new(usable: Share, period: Span) -> Self {
        let fills = period > Span::ZERO;
        Self {
            pairs: Vec::new(),
            usable,
            period,
            sources: Vec::new(),
            destinations: Vec::new(),
            solver: if fills { Renormaliser::filling() } else { Renormaliser::default() },
            offers: Vec::new(),
            rates: Vec::new(),
            changed: false,
        }
    }

    fn solve(&mut self, network: &Network, out: &mut Directives) {
        if self.sources.is_empty() {
            self.look_up(network);
        }
        // The floor of each pair is set aside, for it is added to what the pair gets.
        let (mut sources, mut destinations) = (self.sources.clone(), self.destinations.clone());
        for Pair { ends: (src, dst), .. } in &self.pairs {
            for end in [&mut sources[src.index()], &mut destinations[dst.index()]] {
                *end = *end - LEAST_RATE;
            }
        }
        self.offers.clear();
        let offers = self.pairs.iter();
        self.offers.extend(offers.map(|pair| {
            let (src, dst) = (pair.ends.0.0, pair.ends.1.0);
            Offer { src, dst, rate: pair.offer }
        }));
        self.solver.solve(&sources, &destinations, &self.offers, &mut self.rates);
        for _ in 1..self.passes() {
            for (offer, rate) in self.offers.iter_mut().zip(&self.rates) {
                offer.rate = *rate;
            }
            self.solver.solve(&sources, &destinations, &self.offers, &mut self.rates);
        }
        for (pair, &rate) in self.pairs.iter_mut().zip(&self.rates) {
            let (src, dst) = pair.ends;
            let whole = self.sources[src.index()].min(self.destinations[dst.index()]);
            let rate =
                LEAST_RATE + if rate < whole.fraction(127, 128) { round(rate) } else { rate };
            if pair.given != rate {
                pair.given = rate;
                out.push(Directive::PacePair { src, dst, rate });
            }
        }
    }

    /// How often hosts are filled: once where a pair has no more than it offers.
    const fn passes(&self) -> u32 {
        if self.period.as_nanos() == 0 { 1 } else { FILLS }
    }

    fn look_up(&mut self, network: &Network) {
        let topology = network.topology();
        self.sources = vec![Rate::ZERO; topology.nodes().len()];
        self.destinations = self.sources.clone();
        for (number, link) in (0..).zip(topology.links()) {
            if network.is_up(model::LinkId(number)) {
                let given = self.usable.divided(link.spec.capacity, 1);
                for end in
                    [&mut self.sources[link.from.index()], &mut self.destinations[link.to.index()]]
                {
                    *end = *end + given;
                }
            }
        }
    }

    /// Notes what joined the queue of a pair; whether that is news.
    fn join(&mut self, network: &Network, (src, dst): (NodeId, NodeId), bytes: Bytes) -> bool {
        if self.period == Span::ZERO {
            return self.offer(network, src, dst, Rate::MAX);
        }
        let place = |pairs: &[Pair]| pairs.binary_search_by_key(&(src, dst), |pair| pair.ends);
        let before = place(&self.pairs).map_or(Bytes::ZERO, |place| self.pairs[place].joined);
        let joined = before + bytes;
        let is_news = self.offer(network, src, dst, Rate::of(joined, self.period).max(LEAST_RATE));
        if let Ok(place) = place(&self.pairs) {
            self.pairs[place].joined = joined;
        }
        is_news
    }

    /// Notes what a pair offers; whether that is news.
    fn offer(&mut self, network: &Network, src: NodeId, dst: NodeId, rate: Rate) -> bool {
        let is_host = |node: NodeId| {
            network.topology().nodes().get(node.index()).is_some_and(|n| n.kind == NodeKind::Host)
        };
        let place = self.pairs.binary_search_by_key(&(src, dst), |pair| pair.ends);
        match place {
            Ok(place) if rate == Rate::ZERO => {
                self.pairs.remove(place);
                true
            }
            Ok(place) => core::mem::replace(&mut self.pairs[place].offer, rate) != rate,
            Err(_) if rate == Rate::ZERO || src == dst || !is_host(src) || !is_host(dst) => false,
            Err(place) => {
                let (joined, given) = (Bytes::ZERO, Rate::ZERO);
                let pair = Pair { ends: (src, dst), joined, offer: rate, given };
                self.pairs.insert(place, pair);
                true
            }
        }
    }
}

/// The rate down to 7 significant bits, 0.4 % less on average: what changes by less is not told.
/// Otherwise every change would be told to every pair that shares a link, for those of a busy network
/// hang together.
const fn round(rate: Rate) -> Rate {
    let bps = rate.as_bps();
    let drop = (u64::BITS - bps.leading_zeros()).saturating_sub(7);
    Rate::from_bps(bps >> drop << drop)
}

impl Policy for Asy {
    fn observe(&mut self, _: Time, network: &Network, observation: &Observation) {
        self.changed |= match *observation {
            Observation::Measured(Measured::Queued { src, dst, bytes, .. }) => {
                self.join(network, (src, dst), bytes)
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
    }

    fn decide(&mut self, _: Time, network: &Network, out: &mut Directives) {
        if core::mem::take(&mut self.changed) {
            self.solve(network, out);
        }
    }
}
