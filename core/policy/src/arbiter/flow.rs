//! What the arbiter knows of a flow, and what it could use.

use alloc::vec::Vec;

use model::{FlowId, LinkId, Network, NodeId, StreamSample};
use units::{Bytes, Rate, Span, Time};

use crate::cross::Counter;

/// What waits of a stream is to be gone in so long.
const HORIZON: Span = Span::from_secs(1);
/// A flow that carries less than this part of its limit, by numerator and denominator, is held by
/// something else.
const BUSY: (u64, u64) = (1, 2);

/// So much of a limit is filled at least.
const FILLED: (u64, u64) = (15, 16);

/// A sender that was held to the least rate goes on so long after it may send faster: until then it waits with
/// its next packet.
const WAKES: Span = Span::from_millis(1500);

/// When a job is to have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) at: Time,
    /// From its start until then.
    pub(super) within: Span,
}

/// A flow in the network.
#[derive(Debug)]
pub(super) struct Flow {
    /// The position of its objective.
    pub(super) room: usize,
    pub(super) ends: (NodeId, NodeId),
    /// Empty when no path leads from end to end.
    pub(super) path: Vec<LinkId>,
    pub(super) due: Due,
    /// Payload.
    pub(super) size: Bytes,
    /// What its own policy holds it to, and what was told.
    pub(super) limit: Option<Rate>,
    pub(super) told: Option<Rate>,
    /// The payload rate that this is, when it was told, and the payload sent until then by limits and
    /// measurements.
    carries: Rate,
    accounted: Time,
    sent: Bytes,
    /// When it was told a limit of more than twice the one before.
    raised: Option<Time>,
    /// The last measurement of what was delivered, and the payload rate since the one before, with the time
    /// of that.
    delivered: Option<(Time, Bytes)>,
    rate: Option<(Time, Rate)>,
    /// The same, for what links carry besides.
    pub(super) counter: Counter,
    /// What waits at the sender of a stream.
    queue: Option<Bytes>,
}

impl Flow {
    pub(super) fn new(
        now: Time,
        room: usize,
        ends: (NodeId, NodeId),
        size: Bytes,
        due: Due,
    ) -> Self {
        Self {
            room,
            ends,
            path: Vec::new(),
            due,
            size,
            limit: None,
            told: None,
            carries: Rate::ZERO,
            accounted: now,
            sent: Bytes::ZERO,
            raised: None,
            delivered: None,
            rate: None,
            counter: Counter::default(),
            queue: None,
        }
    }

    /// The way that the network has for it now.
    pub(super) fn way(&self, network: &Network, id: FlowId) -> Vec<LinkId> {
        let mut path = Vec::new();
        network.path(self.ends.0, self.ends.1, u64::from(id.0), &mut path);
        path
    }

    /// So much was delivered since it began.
    pub(super) fn measure(&mut self, now: Time, delivered: Bytes) {
        self.counter.read(now, delivered);
        if let Some((then, before)) = self.delivered {
            let passed = now.since(then);
            if passed == Span::ZERO {
                return;
            }
            self.rate = Some((then, Rate::of(delivered - before, passed)));
        }
        self.delivered = Some((now, delivered));
        (self.accounted, self.sent) = (now, delivered);
    }

    /// How it stands as a stream.
    pub(super) fn sample(&mut self, now: Time, sample: &StreamSample) {
        self.measure(now, sample.delivered);
        self.queue = Some(sample.sender_queue);
    }

    /// Payload that was delivered, as far as it is known. A flow that nothing holds may have sent
    /// anything.
    fn sent(&self, now: Time) -> Bytes {
        self.sent + self.carries.bytes_in(now.since(self.accounted))
    }

    /// It is held to another limit, which has room for so much payload. Transports don't fill it: what is
    /// reckoned too high would be missing in the end.
    pub(super) fn tell(&mut self, now: Time, limit: Option<Rate>, carries: Rate) {
        (self.sent, self.accounted) = (self.sent(now), now);
        if let (Some(before), Some(limit)) = (self.told, limit)
            && limit > before + before
        {
            self.raised = Some(now);
        }
        (self.told, self.carries) = (limit, carries.fraction(FILLED.0, FILLED.1));
    }

    /// Payload that waits at its sender; none of a flow without end that isn't sampled. A flow that
    /// should have ended has a little left.
    pub(super) fn waiting(&self, now: Time) -> Bytes {
        match self.queue {
            Some(queue) => queue,
            None if self.size == Bytes::MAX => Bytes::ZERO,
            None => (self.size - self.sent(now)).max(Bytes::new(self.size.get() / 1024)),
        }
    }

    /// Payload rate that it was measured to have lately, of a flow without end.
    pub(super) fn carried(&self) -> Rate {
        let rate = self.rate.filter(|_| self.size == Bytes::MAX);
        rate.map_or(Rate::ZERO, |(_, rate)| rate)
    }

    /// Payload rate that lets its job end in time, which isn't over: a tenth of the time that it has is left
    /// for what goes wrong, and after that half of what there is.
    pub(super) fn need(&self, now: Time, least: Span) -> Rate {
        let left = self.due.at.since(now).as_nanos();
        let margin = (self.due.within / 10).as_nanos().min(left / 2);
        Rate::of(self.waiting(now), Span::from_nanos(left - margin).max(least))
    }

    /// Payload rate that a flow without end could use besides what it carries, of which nothing shows what
    /// waits.
    pub(super) fn unseen(&self) -> Rate {
        if self.queue.is_none() { self.demand() } else { Rate::ZERO }
    }

    /// Payload rate that it could use; [`Rate::MAX`] where nothing shows that it is less.
    pub(super) fn demand(&self) -> Rate {
        let Some((since, rate)) = self.rate else {
            return Rate::MAX;
        };
        if let Some(queue) = self.queue {
            return rate.fraction(5, 4) + Rate::of(queue, HORIZON);
        }
        let is_awake = self.raised.is_none_or(|raised| since >= raised + WAKES);
        match self.told {
            Some(told) if is_awake && rate < told.fraction(BUSY.0, BUSY.1) => rate.fraction(3, 2),
            _ => Rate::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;
    const LEAST: Span = Span::from_millis(200);

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// 9 MB that are due 10 s after their job's start.
    fn flow() -> Flow {
        let due = Due { at: at_ms(10_000), within: Span::from_secs(10) };
        Flow::new(Time::ZERO, 0, (NodeId(0), NodeId(1)), Bytes::new(9 * MB), due)
    }

    /// It is to have ended a second before it must have, and at the end in half the time that is left.
    #[test]
    fn a_tenth_of_the_time_is_left_for_what_goes_wrong() {
        let in_ms = |ms| Rate::of(Bytes::new(9 * MB), Span::from_millis(ms));
        for (now, left) in [(0, 9_000), (5_000, 4_000), (8_000, 1_000), (9_000, 500), (9_999, 200)]
        {
            assert_eq!(flow().need(at_ms(now), LEAST), in_ms(left), "after {now} ms");
        }
        assert_eq!(in_ms(9_000), Rate::from_mbps(8));
    }

    /// Of a limit with room for 8 Mbit/s of payload 15/16 are reckoned, and what is measured instead of that.
    #[test]
    fn of_a_limit_fifteen_sixteenths_are_reckoned_as_sent() {
        let mut flow = flow();
        let limit = |mbps| (Some(Rate::from_mbps(mbps)), Rate::from_mbps(mbps));
        let (told, carries) = limit(8);
        flow.tell(Time::ZERO, told, carries);
        let waits = |flow: &Flow, ms, sent| {
            assert_eq!(flow.waiting(at_ms(ms)), Bytes::new(9 * MB - sent), "after {ms} ms");
        };
        waits(&flow, 1_000, MB * 15 / 16);
        let (told, carries) = limit(4);
        flow.tell(at_ms(1_000), told, carries);
        waits(&flow, 3_000, MB * 15 / 8);
        flow.measure(at_ms(3_000), Bytes::new(MB));
        waits(&flow, 3_000, MB);
        waits(&flow, 5_000, MB + MB * 15 / 16);
        assert_eq!(flow.waiting(at_ms(60_000)), Bytes::new(9 * MB / 1024), "a little is left");
    }
}
