//! The tuples between two instances: on their way, and arrived but not processed.

use std::collections::VecDeque;

use model::{FlowId, StreamSample};
use units::Bytes;

/// One tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tuple {
    /// When its source emitted it, ns.
    pub(super) birth: u64,
    pub(super) key: u32,
    /// Octets on a connection.
    pub(super) size: u32,
}

/// From one instance to another. Amounts are octets since the start.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// The connection; `None` between two instances on one host.
    pub(super) flow: Option<FlowId>,
    /// Whether samples don't show what waits at the receiver.
    pub(super) opaque: bool,
    /// Births up to here have all been sent: nothing older will come.
    pub(super) clock: u64,
    /// Tuples that have not arrived whole, and those that have and wait.
    transit: VecDeque<Tuple>,
    queue: VecDeque<Tuple>,
    pub(super) written: u64,
    /// What the transport delivered, and of that what the receiving instance took.
    pub(super) delivered: u64,
    pub(super) taken: u64,
    /// The end of the last tuple that arrived whole, and of the last that was processed.
    arrived: u64,
    pub(super) processed: u64,
    /// What was written since [`Channel::flush`].
    fresh: u64,
}

impl Channel {
    pub(super) fn new(opaque: bool) -> Self {
        Self { opaque, ..Self::default() }
    }

    pub(super) fn push(&mut self, tuple: Tuple) {
        let size = u64::from(tuple.size);
        self.written += size;
        if self.flow.is_some() {
            self.fresh += size;
            self.transit.push_back(tuple);
        } else {
            (self.delivered, self.taken, self.arrived) = (self.written, self.written, self.written);
            self.queue.push_back(tuple);
        }
    }

    /// What is to be handed to the connection.
    pub(super) fn flush(&mut self) -> Bytes {
        Bytes::new(std::mem::take(&mut self.fresh))
    }

    /// Takes in the tuples that are whole now.
    pub(super) fn arrive(&mut self) {
        while let Some(tuple) = self.transit.front()
            && self.arrived + u64::from(tuple.size) <= self.taken
        {
            self.arrived += u64::from(tuple.size);
            self.queue.push_back(*tuple);
            self.transit.pop_front();
        }
    }

    /// The birth of the next tuple to process, if it is here.
    pub(super) fn next(&self) -> Option<u64> {
        self.queue.front().map(|tuple| tuple.birth)
    }

    /// Births up to here have all arrived.
    pub(super) fn progress(&self) -> u64 {
        self.queue.front().or(self.transit.front()).map_or(self.clock, |tuple| tuple.birth)
    }

    pub(super) fn pop(&mut self) -> Option<Tuple> {
        let tuple = self.queue.pop_front()?;
        self.processed += u64::from(tuple.size);
        Some(tuple)
    }

    /// The sender's backlog: what waits to be delivered or, on one host, to be processed.
    pub(super) const fn backlog(&self) -> u64 {
        self.written - if self.flow.is_some() { self.delivered } else { self.processed }
    }

    /// A sample for the policy; `None` on one host.
    pub(super) fn sample(&self) -> Option<StreamSample> {
        Some(StreamSample {
            flow: self.flow?,
            delivered: Bytes::new(self.delivered),
            sender_queue: Bytes::new(self.written - self.delivered),
            receiver_queue: if self.opaque {
                Bytes::ZERO
            } else {
                Bytes::new(self.delivered - self.processed)
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_in_an_applications_own_memory_is_not_sampled() {
        let waits = |opaque| {
            let mut channel = Channel { flow: Some(FlowId(0)), ..Channel::new(opaque) };
            channel.push(Tuple { birth: 1, key: 0, size: 100 });
            (channel.delivered, channel.taken) = (100, 100);
            channel.arrive();
            assert_eq!(channel.next(), Some(1));
            channel.sample().map(|sample| sample.receiver_queue)
        };
        assert_eq!(waits(false), Some(Bytes::new(100)));
        assert_eq!(waits(true), Some(Bytes::ZERO));
    }
}
