//! What the policy wants.
//!
//! The policy speaks of flows, actuators of connections. A connection that carries several flows gets
//! the sum of their rates, and no limit while one of them has none. The rate of a pair of hosts is
//! divided among its connections.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use model::{Caps, FlowId, LEAST_RATE, LinkId, Measured, NodeId};
use protocol::Connection;
use protocol::agent::ConnectionReport;
use units::{Bytes, Rate, Span, Time};

use crate::carrier::Carrier;
use crate::context::Context;
use crate::gauge::Gauge;

/// What the policy wants for a flow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Intention {
    /// `None`: no limit.
    limit: Option<Rate>,
    /// Since when.
    pub(crate) since: Time,
    pub(crate) priority: u8,
    /// Operators keep the limit from being in force.
    withheld: bool,
    /// What it was let send before, and when that was added up.
    earlier: LetGo,
    counted: Time,
}

impl Intention {
    pub(crate) const fn limit(&self) -> Option<Rate> {
        self.limit
    }

    /// Another limit is wanted from now on.
    pub(crate) fn set_limit(&mut self, now: Time, limit: Option<Rate>) {
        (self.earlier, self.counted) = (self.let_go(now), now);
        self.limit = limit;
    }

    /// What it was let send until now.
    pub(crate) fn let_go(&self, now: Time) -> LetGo {
        let (LetGo { held, free }, span) = (self.earlier, now.since(self.counted));
        match self.limit.filter(|_| !self.withheld) {
            Some(rate) => LetGo { held: held + rate.bytes_in(span), free },
            None => LetGo { held, free: free + span },
        }
    }
}

/// What limits let a flow send, and how long it had none.
#[derive(Clone, Copy, Default)]
pub(crate) struct LetGo {
    held: Bytes,
    free: Span,
}

impl LetGo {
    /// What it was let send since it had been let go so much, where without a limit it can send at `capacity`.
    pub(crate) fn since(self, before: Self, capacity: Rate) -> Bytes {
        let free = self.free.saturating_sub(before.free);
        (self.held - before.held) + capacity.bytes_in(free)
    }
}

/// What a connection is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) rate: Option<Rate>,
    pub(crate) priority: u8,
}

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
}

/// All of it.
#[derive(Default)]
pub(crate) struct Desired {
    /// By [`FlowId`].
    intentions: Vec<Intention>,
    /// Caps of windows at links: of one flow, or of all.
    windows: BTreeMap<(LinkId, Option<FlowId>), Caps>,
    /// The links where a flow has a cap of its own.
    capping: BTreeSet<(FlowId, LinkId)>,
    /// Least times between acknowledgements at links.
    gaps: BTreeMap<LinkId, Span>,
    pairs: BTreeMap<(NodeId, NodeId), Pair>,
    /// Connections whose grant may have changed, some of them more than once.
    changed: Vec<Connection>,
    /// Pairs whose rate is divided anew at the end of the turn, for all their connections at once.
    divided: BTreeSet<(NodeId, NodeId)>,
    /// When pairs were last looked through, as [`Context::awake`].
    swept: Time,
}

impl Desired {
    /// A flow has this number from now on.
    pub(crate) fn begin(&mut self, now: Time, flow: FlowId) {
        if self.intentions.len() <= flow.index() {
            self.intentions.resize(flow.index() + 1, Intention::default());
        }
        self.intentions[flow.index()] =
            Intention { since: now, counted: now, ..Intention::default() };
    }

    pub(crate) fn intention(&self, flow: FlowId) -> Intention {
        self.intentions.get(flow.index()).copied().unwrap_or_default()
    }

    /// Operators keep a flow's limit from being in force from now on, or no longer.
    pub(crate) fn withhold(&mut self, now: Time, flow: FlowId, withheld: bool) {
        if let Some(of) = self.intentions.get_mut(flow.index()) {
            (of.earlier, of.counted) = (of.let_go(now), now);
            of.withheld = withheld;
        }
    }

    /// Changes what is wanted for a flow.
    pub(crate) fn intend(&mut self, flow: FlowId, change: impl FnOnce(&mut Intention)) {
        if let Some(intention) = self.intentions.get_mut(flow.index()) {
            change(intention);
        }
    }

    /// The grant of a connection may have changed.
    pub(crate) fn touch(&mut self, connection: Connection) {
        self.changed.push(connection);
    }

    pub(crate) fn touch_pairs(&mut self) {
        self.divided.extend(self.pairs.keys());
    }

    /// The connections whose grant may have changed since this was asked, and `others`; each once.
    pub(crate) fn take_changed<'a>(
        &mut self,
        others: impl Iterator<Item = &'a Connection>,
    ) -> Vec<Connection> {
        for ends in core::mem::take(&mut self.divided) {
            let pair = self.pairs.get(&ends);
            self.changed.extend(pair.into_iter().flat_map(|pair| pair.connections.keys()));
        }
        let mut changed = core::mem::take(&mut self.changed);
        changed.extend(others);
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// What a connection should be held to. `flows` are those that it and others share, `among` so many
    /// in all; `ends` tells its hosts, where they are known.
    pub(crate) fn grant(
        &self,
        connection: &Connection,
        (flows, among): (&[FlowId], u64),
        ends: impl FnOnce() -> Option<(NodeId, NodeId)>,
    ) -> Grant {
        let share = if self.pairs.is_empty() { None } else { self.pair_share(connection, ends()) };
        let mut intentions = flows.iter().map(|flow| self.intention(*flow));
        let Some(first) = intentions.next() else {
            return Grant { rate: share, priority: 0 };
        };
        let (mut rate, mut priority) = (first.limit, first.priority);
        for intention in intentions {
            rate = rate.zip(intention.limit).map(|(sum, more)| sum + more);
            priority = priority.min(intention.priority);
        }
        if among > 1 {
            rate = rate.map(|rate| rate.fraction(1, among).max(LEAST_RATE));
        }
        Grant { rate: [rate, share].into_iter().flatten().min(), priority }
    }

    fn pair_share(&self, connection: &Connection, ends: Option<(NodeId, NodeId)>) -> Option<Rate> {
        let pair = self.pairs.get(&ends?)?;
        let rate = pair.rate?;
        // A connection that never sends needs no share. One that rests keeps its own, in case it
        // sends again.
        pair.connections.get(connection).filter(|paired| paired.carrier.has_sent())?;
        Some(rate.fraction(1, pair.counting.max(1)).max(LEAST_RATE))
    }

    pub(crate) fn set_window(&mut self, link: LinkId, flow: Option<FlowId>, caps: Option<Caps>) {
        match caps {
            Some(caps) => self.windows.insert((link, flow), caps),
            None => self.windows.remove(&(link, flow)),
        };
        if let Some(flow) = flow {
            match caps {
                Some(_) => self.capping.insert((flow, link)),
                None => self.capping.remove(&(flow, link)),
            };
        }
    }

    /// The caps at a link: that of all flows first.
    pub(crate) fn windows_at(
        &self,
        link: LinkId,
    ) -> impl Iterator<Item = (Option<FlowId>, Caps)> + '_ {
        let all = (link, None)..=(link, Some(FlowId(u32::MAX)));
        self.windows.range(all).map(|((_, flow), caps)| (*flow, *caps))
    }

    /// The caps of a flow's window at a link, and whether they are its own or those of all.
    pub(crate) fn window(&self, link: LinkId, flow: FlowId) -> Option<(Caps, bool)> {
        let of = |flow| self.windows.get(&(link, flow)).copied();
        of(Some(flow)).map(|caps| (caps, true)).or_else(|| Some((of(None)?, false)))
    }

    /// The links where a flow has a cap of its own.
    pub(crate) fn links_capping(&self, of: FlowId) -> impl Iterator<Item = LinkId> + '_ {
        let own = self.capping.range((of, LinkId(0))..=(of, LinkId(u32::MAX)));
        own.map(|(_, link)| *link)
    }

    /// Takes out the caps of a flow: the links where it had one.
    pub(crate) fn take_windows(&mut self, of: FlowId) -> Vec<LinkId> {
        let links: Vec<LinkId> = self.links_capping(of).collect();
        for link in &links {
            self.set_window(*link, Some(of), None);
        }
        links
    }

    /// All caps.
    pub(crate) fn all_windows(&self) -> Vec<(LinkId, Option<FlowId>, Caps)> {
        self.windows.iter().map(|((link, flow), caps)| (*link, *flow, *caps)).collect()
    }

    /// What pairs of hosts offer, of which one is this.
    pub(crate) fn offered_at(&self, host: NodeId) -> Vec<((NodeId, NodeId), Rate)> {
        let of = self.pairs.iter().filter(|((src, dst), _)| *src == host || *dst == host);
        of.map(|(ends, pair)| (*ends, pair.offered)).collect()
    }

    pub(crate) fn set_gap(&mut self, link: LinkId, gap: Option<Span>) {
        match gap {
            Some(gap) => self.gaps.insert(link, gap),
            None => self.gaps.remove(&link),
        };
    }

    /// Whether there is one at any link.
    pub(crate) fn spaces(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// The least time between acknowledgements at a link.
    pub(crate) fn gap(&self, link: LinkId) -> Option<Span> {
        self.gaps.get(&link).copied()
    }

    /// All of them.
    pub(crate) fn all_gaps(&self) -> Vec<(LinkId, Span)> {
        self.gaps.iter().map(|(link, gap)| (*link, *gap)).collect()
    }

    /// The policy gives a pair of hosts a rate.
    pub(crate) fn give_pair(&mut self, ends: (NodeId, NodeId), rate: Rate) {
        let pair = self.pairs.entry(ends).or_default();
        pair.rate = Some(rate);
        self.divided.insert(ends);
    }

    /// Another policy decides: forgets all pairs, and takes out all caps and gaps; tells where these were. Flows are
    /// freed one by one.
    pub(crate) fn take_all(&mut self) -> (Vec<(LinkId, Option<FlowId>)>, Vec<LinkId>) {
        // All of it is here, so that nothing is left of what the old policy wanted.
        let Self { windows, capping, gaps, pairs, changed, intentions: _, divided: _, swept: _ } =
            self;
        capping.clear();
        let pairs = core::mem::take(pairs).into_values();
        changed.extend(pairs.flat_map(|pair| pair.connections.into_keys()));
        let windows = core::mem::take(windows).into_keys().collect();
        (windows, core::mem::take(gaps).into_keys().collect())
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
    pub(crate) fn note_pair(
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
    pub(crate) fn leave_pair(
        &mut self,
        ends: (NodeId, NodeId),
        connection: &Connection,
    ) -> Option<Measured> {
        let (pair, delivered) = self.take_out(ends, connection)?;
        // It may be told of again, with all that it has delivered.
        pair.delivered = pair.delivered - delivered;
        if pair.counting > 0 { None } else { self.end_pair(ends) }
    }

    /// A connection is no more. What is known of others of its pair stays: those that rest may send again.
    pub(crate) fn forget_carrier(
        &mut self,
        ends: (NodeId, NodeId),
        connection: &Connection,
    ) -> Option<Measured> {
        let (pair, _) = self.take_out(ends, connection)?;
        if pair.connections.is_empty() { self.end_pair(ends) } else { None }
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
    pub(crate) fn end_silent_pairs(
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
        silent.into_iter().filter_map(|ends| self.end_pair(ends)).collect()
    }

    fn end_pair(&mut self, (src, dst): (NodeId, NodeId)) -> Option<Measured> {
        let pair = self.pairs.remove(&(src, dst))?;
        self.changed.extend(pair.connections.into_keys());
        (pair.offered > Rate::ZERO).then_some(Measured::Offered { src, dst, rate: Rate::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: (NodeId, NodeId) = (NodeId(1), NodeId(2));

    fn connection(port: u16) -> Connection {
        Connection {
            source: ([10, 0, 0, 1], port).into(),
            destination: ([10, 0, 0, 2], 5000).into(),
        }
    }

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
    fn a_shared_connection_gets_the_sum_and_no_limit_while_one_flow_has_none() {
        let (mut desired, flows) = (Desired::default(), [FlowId(0), FlowId(3)]);
        for (flow, mbps) in flows.into_iter().zip([10, 20]) {
            desired.begin(Time::ZERO, flow);
            desired.intend(flow, |wanted| {
                wanted.set_limit(Time::ZERO, Some(Rate::from_mbps(mbps)));
                wanted.priority = if flow.0 == 0 { 5 } else { 2 };
            });
        }
        let grant = desired.grant(&connection(1), (&flows, 1), || None);
        assert_eq!(grant, Grant { rate: Some(Rate::from_mbps(30)), priority: 2 });
        let divided = desired.grant(&connection(1), (&flows, 3), || None);
        assert_eq!(divided, Grant { rate: Some(Rate::from_mbps(10)), priority: 2 });
        desired.intend(flows[1], |wanted| wanted.set_limit(Time::ZERO, None));
        assert_eq!(desired.grant(&connection(1), (&flows, 1), || None).rate, None);
        // Another flow with the same number starts without what the last one had.
        desired.begin(Time::ZERO, flows[0]);
        assert_eq!(desired.grant(&connection(1), (&flows[..1], 1), || None), Grant::default());
    }

    #[test]
    fn a_pair_is_divided_among_those_that_send_and_ends_with_the_last() {
        let policy = policy::by_name("tcp", &policy::Parameters::default()).expect("it is one");
        let config = crate::config::Config::new("tcp", policy);
        let (mut desired, now) = (Desired::default(), Time::ZERO + Span::from_secs(1));
        let cx = &Context::new(&config, 1, now);
        let share = |desired: &Desired, port| {
            desired.grant(&connection(port), (&[], 1), || Some(ENDS)).rate
        };
        for port in [1, 2] {
            desired.note_carrier(cx, ENDS, &sent(port, 0), Bytes::ZERO);
        }
        let access = Rate::from_mbps(100);
        let offered = desired.note_pair(cx, (now, Time::ZERO), ENDS, access);
        assert_eq!(offered, Some(Measured::Offered { src: ENDS.0, dst: ENDS.1, rate: access }));
        assert_eq!(desired.note_pair(cx, (now, Time::ZERO), ENDS, access), None, "nothing changed");
        desired.give_pair(ENDS, access);
        assert_eq!(share(&desired, 1), Some(Rate::from_mbps(50)));
        desired.take_changed([].iter());
        assert_eq!(desired.leave_pair(ENDS, &connection(1)), None);
        assert_eq!(desired.changed.len(), 1, "the others are looked for when the turn ends");
        assert_eq!(share(&desired, 2), Some(access));
        assert_eq!(desired.take_changed([].iter()).len(), 2, "both hear of it");
        let rate = Rate::ZERO;
        let ended = desired.leave_pair(ENDS, &connection(2));
        assert_eq!(ended, Some(Measured::Offered { src: ENDS.0, dst: ENDS.1, rate }));
    }

    /// However many reports a sample comes in.
    #[test]
    fn a_pair_is_looked_through_twice_a_sample_at_most() {
        let policy = policy::by_name("tcp", &policy::Parameters::default()).expect("it is one");
        let config = crate::config::Config::new("tcp", policy);
        let began = Time::ZERO + Span::from_secs(1);
        let (mut desired, mut cx) = (Desired::default(), Context::new(&config, 1, began));
        let access = Rate::from_mbps(100);
        let report = |desired: &mut Desired, cx: &Context, ports: &[u16]| {
            for port in ports {
                desired.note_carrier(cx, ENDS, &sent(*port, 0), Bytes::ZERO);
            }
            desired.note_pair(cx, (cx.now, Time::ZERO), ENDS, access);
            desired.give_pair(ENDS, access);
            desired.grant(&connection(2), (&[], 1), || Some(ENDS)).rate
        };
        assert_eq!(report(&mut desired, &cx, &[1, 2]), Some(Rate::from_mbps(50)));
        cx.pass(began + cx.lately());
        cx.awake = cx.now;
        assert_eq!(report(&mut desired, &cx, &[2]), Some(Rate::from_mbps(50)), "it sent lately");
        cx.pass(cx.now + cx.least() / 2);
        assert_eq!(report(&mut desired, &cx, &[2]), Some(Rate::from_mbps(50)), "not looked at");
        cx.pass(cx.now + cx.least() / 2);
        assert_eq!(report(&mut desired, &cx, &[2]), Some(access));
        assert_eq!(report(&mut desired, &cx, &[1]), Some(Rate::from_mbps(50)), "it sends again");
    }

    /// What a connection carried until its end counts for its pair like what others carry.
    #[test]
    fn what_has_ended_counts_for_its_pair() {
        let policy = policy::by_name("tcp", &policy::Parameters::default()).expect("it is known");
        let config = crate::config::Config::new("tcp", policy);
        let (mut desired, mut cx) = (Desired::default(), Context::new(&config, 1, Time::ZERO));
        let access = Rate::from_mbps(100);
        let mut sample = |desired: &mut Desired, open: &[(u16, u64)]| {
            cx.pass(cx.now + Span::from_secs(1));
            for (port, bytes) in open {
                let report = ConnectionReport { unsent_bytes: Bytes::ZERO, ..sent(*port, *bytes) };
                desired.note_carrier(&cx, ENDS, &report, Bytes::ZERO);
            }
            desired.note_pair(&cx, (cx.now, Time::ZERO), ENDS, access);
            desired.pairs[&ENDS].offered
        };
        sample(&mut desired, &[(1, 0), (2, 0)]);
        let one = sample(&mut desired, &[(1, 500_000), (2, 500_000)]);
        assert_eq!(one, Rate::from_mbps(8));
        // One has sent as much again until it ended, and another that no sample has had.
        desired.note_ended(ENDS, &connection(2), (Bytes::ZERO, Bytes::new(1_000_000)));
        desired.forget_carrier(ENDS, &connection(2));
        desired.note_ended(ENDS, &connection(3), (Bytes::ZERO, Bytes::new(500_000)));
        assert_eq!(sample(&mut desired, &[(1, 1_000_000)]), Rate::from_mbps(12));
        assert_eq!(sample(&mut desired, &[(1, 1_250_000)]), Rate::from_mbps(2));
        // One that leaves and is told of again has not delivered all of it since.
        assert_eq!(sample(&mut desired, &[(1, 1_500_000), (4, 250_000)]), Rate::from_mbps(4));
        assert_eq!(desired.leave_pair(ENDS, &connection(1)), None);
        assert_eq!(sample(&mut desired, &[(1, 1_750_000), (4, 500_000)]), Rate::from_mbps(4));
    }

    #[test]
    fn windows_of_a_flow_go_with_it() {
        let cap = Caps::from(model::Cap { bytes: Bytes::new(1460), floor_segments: 1 });
        let mut desired = Desired::default();
        for (link, flow) in [(1, Some(FlowId(7))), (2, Some(FlowId(7))), (2, None)] {
            desired.set_window(LinkId(link), flow, Some(cap));
        }
        assert_eq!(desired.take_windows(FlowId(7)), [LinkId(1), LinkId(2)]);
        assert_eq!(desired.windows_at(LinkId(2)).collect::<Vec<_>>(), [(None, cap)]);
    }

    #[test]
    fn links_where_a_flow_is_capped_are_those_where_it_has_a_cap() {
        let cap = Some(Caps::from(model::Cap { bytes: Bytes::new(1), floor_segments: 1 }));
        let (flow, other) = (FlowId(1), FlowId(2));
        let mut desired = Desired::default();
        let links = |desired: &Desired, of| desired.links_capping(of).collect::<Vec<_>>();
        for link in [3, 4, 5] {
            desired.set_window(LinkId(link), Some(flow), cap);
            desired.set_window(LinkId(link), Some(other), cap);
            desired.set_window(LinkId(link), None, cap);
        }
        desired.set_window(LinkId(4), Some(flow), None);
        desired.set_window(LinkId(5), None, None);
        assert_eq!(links(&desired, flow), [LinkId(3), LinkId(5)]);
        assert_eq!(desired.take_windows(flow), [LinkId(3), LinkId(5)]);
        assert_eq!(links(&desired, flow), []);
        assert_eq!(links(&desired, other), [LinkId(3), LinkId(4), LinkId(5)]);
        assert_eq!(desired.take_all().0.len(), 5);
        assert_eq!(links(&desired, other), []);
    }
}
