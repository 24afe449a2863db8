//! `sw`: a sliding window of queries. The front end has so many unanswered at most; the window
//! grows until an answer is lost and then halves.
//!
//! Source: SICC, section 4, after Nishtala et al. (NSDI 2013, section 3.1.1), where a client's
//! window outlives its requests. Growth is TCP's, which both name: by one an answer up to half of
//! the window at which an answer was last lost, by one a window beyond it.

use alloc::boxed::Box;

use model::{Network, NodeId, Request};
use units::{Span, Time};

use crate::sliding::{self, Sliding};
use crate::{Descriptor, DirectiveKind, Need};

/// What `sw` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "sw",
    summary: "a sliding window of queries, which halves when an answer is lost",
    source: "SICC, section 4, after Nishtala et al., NSDI 2013",
    parameters: &[],
    needs: &[Need::Requests],
    directives: &[DirectiveKind::Gather],
    is_max_min: false,
    build: |_| Ok(Box::new(Sliding::<Window>::new())),
};

#[derive(Clone, Copy, Debug)]
struct Window {
    queries: u32,
    threshold: u32,
    /// Answers since the window last changed.
    answers: u32,
    /// Answers until another loss halves again: those to the queries under way at the last one.
    spared: u32,
}

impl sliding::Window for Window {
    fn new(_: &Network, _: NodeId) -> Self {
        Self { queries: 1, threshold: u32::MAX, answers: 0, spared: 0 }
    }

    fn begin(&mut self, _: Time, _: &Request) {}

    fn answered(&mut self, _: Time, _: Span, late: bool) {
        let halves = late && self.spared == 0;
        self.spared = self.spared.saturating_sub(1);
        self.answers += 1;
        if halves {
            self.spared = self.queries;
            self.threshold = (self.queries / 2).max(1);
            self.queries = self.threshold;
            self.answers = 0;
        } else if !late && (self.queries < self.threshold || self.answers >= self.queries) {
            self.queries = self.queries.saturating_add(1);
            self.answers = 0;
        }
    }

    fn queries(&self) -> u32 {
        self.queries
    }
}
