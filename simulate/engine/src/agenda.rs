//! Acts at times given in advance, beside the world's own events.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use model::{Directives, FlowId, Observation};
use units::{Span, Time};

/// An act at a time given in advance.
pub(crate) enum Act {
    /// An application's timer is due.
    Due { token: u64 },
    /// An observation reaches the controller.
    Hear(Observation),
    /// The controller has dealt with the observation that waited longest.
    Decide,
    /// Directives reach their actuators.
    Obey(Directives),
    /// The answer to a flow's SYN reaches the switch that holds it.
    Admit(FlowId),
    /// A watched queue is sampled.
    Sample { monitor: usize },
    /// Sample achieved rates.
    Rates,
    /// Counters of ports are read.
    Ports { every: Span },
}

/// Acts in order of time, those of one time in order of entry.
#[derive(Default)]
pub(crate) struct Agenda {
    /// Acts entered in order of time, as most are.
    queue: VecDeque<Entry>,
    heap: BinaryHeap<Entry>,
    entered: u64,
}

struct Entry {
    due: Reverse<(Time, u64)>,
    act: Act,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.cmp(&other.due)
    }
}

impl Agenda {
    pub(crate) fn enter(&mut self, time: Time, act: Act) {
        let entry = Entry { due: Reverse((time, self.entered)), act };
        self.entered += 1;
        if self.queue.back().is_none_or(|last| last.due.0.0 <= time) {
            self.queue.push_back(entry);
        } else {
            self.heap.push(entry);
        }
    }

    /// Whether the queue's first goes before the heap's.
    fn is_queued(&self) -> bool {
        let queued = self.queue.front();
        queued.is_some_and(|queued| self.heap.peek().is_none_or(|other| queued > other))
    }

    /// When the first act is due.
    pub(crate) fn next(&self) -> Time {
        let first = if self.is_queued() { self.queue.front() } else { self.heap.peek() };
        first.map_or(Time::NEVER, |entry| entry.due.0.0)
    }

    pub(crate) fn pop(&mut self) -> Option<Act> {
        let first = if self.is_queued() { self.queue.pop_front() } else { self.heap.pop() };
        first.map(|entry| entry.act)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.heap.len()
    }
}
