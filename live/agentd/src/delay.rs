//! How long it takes from a queue's threshold to the first acknowledgement with a capped window, told
//! in the log where that shows the target `delay` at level debug.

use std::collections::HashMap;

use kernel::{PortNumber, Switch};
use protocol::Connection;
use tracing::Level;
use units::{Span, Time};

/// What has not led to a capped window by then isn't followed further.
const PATIENCE: Span = Span::from_secs(1);

/// What is on its way, by port. Times are those of [`kernel::now`].
#[derive(Debug, Default)]
pub struct Delays(HashMap<PortNumber, Round>);

#[derive(Debug)]
struct Round {
    /// The kernel saw the queue pass it.
    threshold: Time,
    /// It was handed over to be told.
    told: Time,
    /// The answer: when it came, when all of it stood, and what it caps.
    answer: Option<(Time, Time)>,
    capped: Vec<Option<Connection>>,
}

impl Delays {
    /// Follows what happens, if anybody reads it.
    pub fn wanted() -> Option<Self> {
        tracing::enabled!(target: "delay", Level::DEBUG).then(Self::default)
    }

    /// Whether something is on its way.
    pub fn is_pending(&self) -> bool {
        !self.0.is_empty()
    }

    /// A port's queue passed a threshold. The last one before an answer counts.
    pub fn crossed(&mut self, port: PortNumber, threshold: Time) {
        if self.0.get(&port).is_none_or(|round| round.answer.is_none()) {
            let round = Round { threshold, told: kernel::now(), answer: None, capped: Vec::new() };
            self.0.insert(port, round);
        }
    }

    /// A cap of commands that arrived at `arrived` stands.
    pub fn stands(&mut self, port: PortNumber, arrived: Time, capped: Option<Connection>) {
        let Some(round) = self.0.get_mut(&port) else { return };
        if round.answer.is_none_or(|(came, _)| came == arrived) {
            round.answer = Some((arrived, kernel::now()));
            round.capped.push(capped);
        }
    }

    /// Looks whether acknowledgements were capped, and tells.
    pub fn look(&mut self, switch: &mut Switch) {
        let now = kernel::now();
        self.0.retain(|port, round| {
            let Some((arrived, stood)) = round.answer else {
                return now.since(round.threshold) < PATIENCE;
            };
            let Ok(port) = switch.port(*port) else { return false };
            let capped = round.capped.iter();
            let firsts = capped.filter_map(|one| port.capped_since(one.as_ref()).ok()?);
            let Some(first) = firsts.filter(|first| *first >= round.threshold).min() else {
                return now.since(round.threshold) < PATIENCE;
            };
            let since = |at: Time| at.since(round.threshold).as_nanos();
            tracing::debug!(
                target: "delay",
                told_ns = since(round.told),
                commanded_ns = since(arrived),
                stood_ns = since(stood),
                capped_ns = since(first),
                windows = round.capped.len(),
                "window capped"
            );
            false
        });
    }
}
