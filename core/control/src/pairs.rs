//! Pairs of hosts: their connections, as agents report them, what they offer, and what the policy gives them, which is
//! divided among their connections.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use model::{LEAST_RATE, Measured, NodeId};
use protocol::Connection;
use protocol::agent::ConnectionReport;
use units::{Bytes, Rate, Time};

use crate::carrier::Carrier;
use crate::context::Context;
use crate::gauge::Gauge;

/// What goes from one host to another, as agents report it.
#[derive(Default)]
struct Pair {
    /// What the policy gives it.
    rate: Option<Rate>,
    /// Its connections, as they were reported last.
    connections: BTreeMap<Connection, Paired>,
    /// How many of them count, and at how many something waits.
    counting: u64,
    waiting: u64,
    /// What these have delivered, and those that have ended. A sample comes in many reports: of what none has told yet
    /// that of the last sample is known.
    delivered: Bytes,
    /// What the policy was told of it last.
    offered: Rate,
    /// How fast they deliver.
    gauge: Gauge,
    /// When it was reported last, as [`Context::awake`].
    at: Time,
    /// When its connections were last looked through, likewise.
    swept: Option<Time>,
}

impl Pair {
    /// Looks which connections are still there, which count, and at which something waits; whether others count.
    fn sweep(&mut self, cx: &Context, looked: Time) -> bool {
        self.swept = Some(cx.awake);
        let before = self.connections.len();
        self.connections.retain(|_, paired| !paired.carrier.is_silent(cx, looked));
        let mut changed = self.connections.len() != before;
        (self.counting, self.waiting) = (0, 0);
        for Paired { carrier, .. } in self.connections.values_mut() {
            carrier.pass_over(looked);
            changed |= carrier.count(cx);
            self.counting += u64::from(carrier.counts());
            self.waiting += u64::from(carrier.waits());
        }
        changed
    }
}

/// A connection of a pair.
struct Paired {
    carrier: Carrier,
    /// When it was reported first, by the controller's clock, and what it had delivered before.
    since: Time,
    before: Bytes,
    /// What it had delivered then.
    first: Bytes,
}

/// All pairs.
#[derive(Default)]
pub(crate) struct Pairs {
    pairs: BTreeMap<(NodeId, NodeId), Pair>,
    /// Connections whose grant may have changed, some of them more than once.
    changed: Vec<Connection>,
    /// Pairs whose rate is divided anew at the end of the turn, for all their connections at once.
    divided: BTreeSet<(NodeId, NodeId)>,
    /// When pairs were last looked through, as [`Context::awake`].
    swept: Time,
}

impl Pairs {
    /// The policy gives a pair of hosts a rate.
    pub(crate) fn give(&mut self, ends: (NodeId, NodeId), rate: Rate) {
        let pair = self.pairs.entry(ends).or_default();
        pair.rate = Some(rate);
        self.divided.insert(ends);
    }

    /// Another policy decides: forgets all of them.
    pub(crate) fn clear(&mut self) {
        let pairs = core::mem::take(&mut self.pairs).into_values();
        self.changed.extend(pairs.flat_map(|pair| pair.connections.into_keys()));
    }

    /// The grants of all connections may have changed.
    pub(crate) fn touch_all(&mut self) {
        self.divided.extend(self.pairs.keys());
    }

    /// The connections whose grant may have changed since this was asked, some of them more than once.
    pub(crate) fn take_changed(&mut self) -> Vec<Connection> {
        for ends in core::mem::take(&mut self.divided) {
            let pair = self.pairs.get(&ends);
            self.changed.extend(pair.into_iter().flat_map(|pair| pair.connections.keys()));
        }
        core::mem::take(&mut self.changed)
    }

    /// What a connection has of the rate of its hosts; `ends` tells these, where they are known.
    pub(crate) fn share(
        &self,
        connection: &Connection,
        ends: impl FnOnce() -> Option<(NodeId, NodeId)>,
    ) -> Option<Rate> {
        if self.pairs.is_empty() {
            return None;
        }
        let pair = self.pairs.get(&ends()?)?;
        let rate = pair.rate?;
        // A connection that never sends needs no share. One that rests keeps its own, in case it
        // sends again.
        pair.connections.get(connection).filter(|paired| paired.carrier.has_sent())?;
        Some(rate.fraction(1, pair.counting.max(1)).max(LEAST_RATE))
    }

    /// What pairs of hosts offer, of which one is this.
    pub(crate) fn offered_at(&self, host: NodeId) -> Vec<((NodeId, NodeId), Rate)> {
        let of = self.pairs.iter().filter(|((src, dst), _)| *src == host || *dst == host);
        of.map(|(ends, pair)| (*ends, pair.offered)).collect()
    }

    /// The connections of pairs that begin at a host.
    pub(crate) fn paired_from(&self, host: NodeId) -> impl Iterator<Item = &Connection> {
        let all = self.pairs.range((host, NodeId(0))..=(host, NodeId(u32::MAX)));
        all.flat_map(|(_, pair)| pair.connections.keys())
    }

    /// What a connection that was reported had delivered before a flow that was declared at `declared`:
    /// when it was reported last, or nothing that matters to it where it was reported first since then.
    pub(crate) fn delivered_before(
        &self,
        ends: (NodeId, NodeId),
        of: &Connection,
        declared: Time,
    ) -> Option<Bytes> {
        let paired = self.pairs.get(&ends)?.connections.get(of)?;
        Some(if paired.since >= declared { paired.before } else { paired.carrier.delivered() })
    }

    /// When a connection of a pair was reported first, by the controller's clock, and what it had delivered then.
    pub(crate) fn first(&self, ends: (NodeId, NodeId), of: &Connection) -> Option<(Time, Bytes)> {
        let paired = self.pairs.get(&ends)?.connections.get(of)?;
        Some((paired.since, paired.first))
    }

    /// How many connections of pairs are known that begin at these hosts.
    pub(crate) fn reported_of(&self, hosts: &[NodeId]) -> usize {
        let of = |host| self.pairs.range((host, NodeId(0))..=(host, NodeId(u32::MAX)));
        let pairs = hosts.iter().flat_map(|host| of(*host));
        pairs.map(|(_, pair)| pair.connections.len()).sum()
    }

    /// Whether a connection of a pair was reported.
    pub(crate) fn is_reported(&self, ends: (NodeId, NodeId), of: &Connection) -> bool {
        self.pairs.get(&ends).is_some_and(|pair| pair.connections.contains_key(of))
    }

    /// Notes how a connection of a pair stands, which had delivered `before` if it is new.
    pub(crate) fn note_carrier(
        &mut self,
        cx: &Context,
        ends: (NodeId, NodeId),
        report: &ConnectionReport,
        before: Bytes,
    ) {
        let pair = self.pairs.entry(ends).or_default();
        if !pair.connections.contains_key(&report.connection) {
            pair.delivered += before;
            pair.gauge.add(before);
        }
        let paired = pair.connections.entry(report.connection).or_insert_with(|| Paired {
            carrier: Carrier::new(cx, before),
            since: cx.now,
            before,
            first: report.delivered_bytes,
        });
        let (counted, waited) = (paired.carrier.counts(), paired.carrier.waits());
        pair.delivered += paired.carrier.note(cx, report);
        pair.waiting = pair.waiting + u64::from(paired.carrier.waits()) - u64::from(waited);
        if paired.carrier.count(cx) {
            pair.counting = pair.counting + u64::from(!counted) - u64::from(counted);
            self.divided.extend(pair.rate.map(|_| ends));
        }
    }

    /// A connection of a pair has ended, having `delivered` so much; before it was told of the first time, `before`.
    pub(crate) fn note_ended(
        &mut self,
        ends: (NodeId, NodeId),
        connection: &Connection,
        (before, delivered): (Bytes, Bytes),
    ) {
        if let Some(pair) = self.pairs.get_mut(&ends) {
            let paired = pair.connections.get(connection);
            pair.delivered +=
                delivered - paired.map_or(before, |paired| paired.carrier.delivered());
        }
    }

    /// Connections of a pair were reported. What the pair offers is told when it changes by more than an eighth: as
    /// much as its access link carries while something waits at one of them, or else what all deliver. The agent has
    /// `sampled` that, and before `looked` at all.
    pub(crate) fn offer(
        &mut self,
        cx: &Context,
        (sampled, looked): (Time, Time),
        (src, dst): (NodeId, NodeId),
        access: Rate,
    ) -> Option<Measured> {
        let pair = self.pairs.get_mut(&(src, dst))?;
        // A sample comes in many reports where there are many connections.
        if pair.swept.is_none_or(|at| cx.awake.since(at) >= cx.least()) && pair.sweep(cx, looked) {
            self.divided.extend(pair.rate.map(|_| (src, dst)));
        }
        pair.gauge.note(sampled, pair.delivered, cx.least());
        pair.at = cx.awake;
        let carried = pair.gauge.rate.unwrap_or(pair.offered);
        let rate = if pair.waiting > 0 { access } else { carried.min(access) };
        let change = rate.max(pair.offered) - rate.min(pair.offered);
        if change <= pair.offered.fraction(1, 8) {
            return None;
        }
        pair.offered = rate;
        Some(Measured::Offered { src, dst, rate })
    }

    /// A connection carries nothing any more: its share is for the others of its pair, and where
    /// none of them sends, for other pairs.
    pub(crate) fn leave(
        &mut self,
        ends: (NodeId, NodeId),
        connection: &Connection,
    ) -> Option<Measured> {
        let (pair, delivered) = self.take_out(ends, connection)?;
        // It may be told of again, with all that it has delivered.
        pair.delivered = pair.delivered - delivered;
        if pair.counting > 0 { None } else { self.end(ends) }
    }

    /// A connection is no more. What is known of others of its pair stays: those that rest may send again.
    pub(crate) fn forget(
        &mut self,
        ends: (NodeId, NodeId),
        connection: &Connection,
    ) -> Option<Measured> {
        let (pair, _) = self.take_out(ends, connection)?;
        if pair.connections.is_empty() { self.end(ends) } else { None }
    }

    /// The pair without a connection that it had, and what that had delivered.
    fn take_out(
        &mut self,
        ends: (NodeId, NodeId),
        connection: &Connection,
    ) -> Option<(&mut Pair, Bytes)> {
        let pair = self.pairs.get_mut(&ends)?;
        let left = pair.connections.remove(connection)?;
        self.changed.push(*connection);
        if left.carrier.counts() {
            pair.counting -= 1;
            self.divided.extend(pair.rate.map(|_| ends));
        }
        pair.waiting -= u64::from(left.carrier.waits());
        Some((pair, left.carrier.delivered()))
    }

    /// Ends pairs that no report has spoken of for long, though the agent of the first host has `looked`; sought twice a
    /// sample at most.
    pub(crate) fn end_silent(
        &mut self,
        cx: &Context,
        looked: impl Fn(NodeId) -> Time,
    ) -> Vec<Measured> {
        if cx.awake.since(self.swept) < cx.least() {
            return Vec::new();
        }
        self.swept = cx.awake;
        let is_gone = |src, pair: &Pair| cx.is_gone(pair.at, cx.patience(), looked(src));
        let silent = self.pairs.iter().filter(|((src, _), pair)| is_gone(*src, pair));
        let silent: Vec<(NodeId, NodeId)> = silent.map(|(ends, _)| *ends).collect();
        silent.into_iter().filter_map(|ends| self.end(ends)).collect()
    }

    fn end(&mut self, (src, dst): (NodeId, NodeId)) -> Option<Measured> {
        let pair = self.pairs.remove(&(src, dst))?;
        self.changed.extend(pair.connections.into_keys());
        (pair.offered > Rate::ZERO).then_some(Measured::Offered { src, dst, rate: Rate::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;
    use crate::fixture::{config, connection};

    const ENDS: (NodeId, NodeId) = (NodeId(1), NodeId(2));

    fn sent(port: u16, bytes: u64) -> ConnectionReport {
        ConnectionReport {
            connection: connection(port),
            delivered_bytes: Bytes::new(bytes),
            unsent_bytes: Bytes::new(1),
            in_flight_bytes: Bytes::ZERO,
            rtt_ns: Span::ZERO,
            processes: Vec::new(),
        }
    }

    #[test]
    fn a_pair_is_divided_among_those_that_send_and_ends_with_the_last() {
        let config = config();
        let (mut pairs, now) = (Pairs::default(), Time::ZERO + Span::from_secs(1));
        let cx = &Context::new(&config, 1, now);
        let share = |pairs: &Pairs, port| pairs.share(&connection(port), || Some(ENDS));
        for port in [1, 2] {
            pairs.note_carrier(cx, ENDS, &sent(port, 0), Bytes::ZERO);
        }
        let access = Rate::from_mbps(100);
        let offered = pairs.offer(cx, (now, Time::ZERO), ENDS, access);
        assert_eq!(offered, Some(Measured::Offered { src: ENDS.0, dst: ENDS.1, rate: access }));
        assert_eq!(pairs.offer(cx, (now, Time::ZERO), ENDS, access), None, "nothing changed");
        pairs.give(ENDS, access);
        assert_eq!(share(&pairs, 1), Some(Rate::from_mbps(50)));
        pairs.take_changed();
        assert_eq!(pairs.leave(ENDS, &connection(1)), None);
        assert_eq!(pairs.changed.len(), 1, "the others are looked for when the turn ends");
        assert_eq!(share(&pairs, 2), Some(access));
        assert_eq!(pairs.take_changed().len(), 2, "both hear of it");
        let rate = Rate::ZERO;
        let ended = pairs.leave(ENDS, &connection(2));
        assert_eq!(ended, Some(Measured::Offered { src: ENDS.0, dst: ENDS.1, rate }));
    }

    /// However many reports a sample comes in.
    #[test]
    fn a_pair_is_looked_through_twice_a_sample_at_most() {
        let config = config();
        let began = Time::ZERO + Span::from_secs(1);
        let (mut pairs, mut cx) = (Pairs::default(), Context::new(&config, 1, began));
        let access = Rate::from_mbps(100);
        let report = |pairs: &mut Pairs, cx: &Context, ports: &[u16]| {
            for port in ports {
                pairs.note_carrier(cx, ENDS, &sent(*port, 0), Bytes::ZERO);
            }
            pairs.offer(cx, (cx.now, Time::ZERO), ENDS, access);
            pairs.give(ENDS, access);
            pairs.share(&connection(2), || Some(ENDS))
        };
        assert_eq!(report(&mut pairs, &cx, &[1, 2]), Some(Rate::from_mbps(50)));
        cx.pass(began + cx.lately());
        cx.awake = cx.now;
        assert_eq!(report(&mut pairs, &cx, &[2]), Some(Rate::from_mbps(50)), "it sent lately");
        cx.pass(cx.now + cx.least() / 2);
        assert_eq!(report(&mut pairs, &cx, &[2]), Some(Rate::from_mbps(50)), "not looked at");
        cx.pass(cx.now + cx.least() / 2);
        assert_eq!(report(&mut pairs, &cx, &[2]), Some(access));
        assert_eq!(report(&mut pairs, &cx, &[1]), Some(Rate::from_mbps(50)), "it sends again");
    }

    /// What a connection carried until its end counts for its pair like what others carry.
    #[test]
    fn what_has_ended_counts_for_its_pair() {
        let config = config();
        let (mut pairs, mut cx) = (Pairs::default(), Context::new(&config, 1, Time::ZERO));
        let access = Rate::from_mbps(100);
        let mut sample = |pairs: &mut Pairs, open: &[(u16, u64)]| {
            cx.pass(cx.now + Span::from_secs(1));
            for (port, bytes) in open {
                let report = ConnectionReport { unsent_bytes: Bytes::ZERO, ..sent(*port, *bytes) };
                pairs.note_carrier(&cx, ENDS, &report, Bytes::ZERO);
            }
            pairs.offer(&cx, (cx.now, Time::ZERO), ENDS, access);
            pairs.pairs[&ENDS].offered
        };
        sample(&mut pairs, &[(1, 0), (2, 0)]);
        let one = sample(&mut pairs, &[(1, 500_000), (2, 500_000)]);
        assert_eq!(one, Rate::from_mbps(8));
        // One has sent as much again until it ended, and another that no sample has had.
        pairs.note_ended(ENDS, &connection(2), (Bytes::ZERO, Bytes::new(1_000_000)));
        pairs.forget(ENDS, &connection(2));
        pairs.note_ended(ENDS, &connection(3), (Bytes::ZERO, Bytes::new(500_000)));
        assert_eq!(sample(&mut pairs, &[(1, 1_000_000)]), Rate::from_mbps(12));
        assert_eq!(sample(&mut pairs, &[(1, 1_250_000)]), Rate::from_mbps(2));
        // One that leaves and is told of again has not delivered all of it since.
        assert_eq!(sample(&mut pairs, &[(1, 1_500_000), (4, 250_000)]), Rate::from_mbps(4));
        assert_eq!(pairs.leave(ENDS, &connection(1)), None);
        assert_eq!(sample(&mut pairs, &[(1, 1_750_000), (4, 500_000)]), Rate::from_mbps(4));
    }
}
