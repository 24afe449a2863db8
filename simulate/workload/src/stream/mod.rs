//! Stream analytics: operators that pass tuples to each other, as in Storm.
//!
//! Source: "On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", sections II
//! and VI-A. [`Stream`] describes a topology, [`StreamRun`] runs it as an application of a world.
//!
//! Each pair of instances has a connection of its own; a pair on one host has none and takes no
//! time. Tuples keep their order on a connection, and carry the time at which their source emitted
//! the oldest of what they are made of. The application acts in turns, [`Stream::turn`] apart, which
//! is the resolution of its latencies.

mod channel;
mod instance;
mod keys;
mod run;

use model::NodeId;
use units::{Bytes, Span};

use crate::ParameterError;
use crate::error::require;

pub use keys::Keys;
pub use run::StreamRun;

/// A topology of operators and how it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Operators; each receives from earlier ones only.
    pub operators: Vec<Operator>,
    /// Time between two turns.
    pub turn: Span,
    /// Time between two samples of all connections for the policy.
    pub sampling: Span,
    /// Backlog of one connection at which an instance stops; `None`: never.
    pub send_queue: Option<Bytes>,
    /// Most that an instance takes from a connection before processing; the rest fills the
    /// transport's window. `None`: it takes all that arrives.
    pub receive_queue: Option<Bytes>,
}

/// One step of the processing, done by instances in parallel.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// Its name, unique in the topology.
    pub name: String,
    /// The host of each instance.
    pub hosts: Vec<NodeId>,
    /// Tuples per second that all instances together emit of themselves, as far as their
    /// connections let them; zero for all but sources.
    pub rate: f64,
    /// Whether a source emits at random (Poisson) instead of evenly.
    pub random: bool,
    /// What it receives; nothing for a source.
    pub inputs: Vec<Input>,
    /// Whether an instance processes a tuple only when all inputs have reached its time at the
    /// source: a join, which waits for the slowest input.
    pub join: bool,
    /// Whether what waits to be processed is in the application's own memory, where no instrument
    /// sees it: samples say that nothing waits.
    pub opaque: bool,
    /// Processor time of a tuple.
    pub cost: Span,
    /// Tuples that an instance collects before it emits what they give.
    pub batch: u32,
    /// Octets of each emitted tuple, as sent; unused at a sink.
    pub size: Bytes,
    /// Keys of the tuples that it emits; `None`: those received, zero at a source.
    pub keys: Option<Keys>,
}

/// What an operator receives of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// Position of the operator that sends.
    pub operator: usize,
    /// Which instance gets which tuple.
    pub grouping: Grouping,
    /// Tuples emitted for each tuple received.
    pub emit: f64,
}

/// Which instance gets which tuple (section II-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Each in turn.
    Shuffle,
    /// The one that the hash of the key says.
    Key,
    /// The first.
    Global,
    /// Every one, a copy each.
    All,
}

impl Stream {
    /// Most instances of a topology.
    pub const MOST_INSTANCES: usize = 4096;

    /// Whether it can run.
    ///
    /// # Errors
    /// A parameter outside its range; an operator without instances, with neither rate nor inputs or
    /// with both, or that receives from itself or a later one; no source at all.
    pub fn check(&self) -> Result<(), ParameterError> {
        require(self.turn > Span::ZERO, "turn", || "0 s; turns take time".to_owned())?;
        require(self.sampling >= self.turn, "sampling", || {
            format!("{} is less than a turn, {}", self.sampling, self.turn)
        })?;
        let instances: usize = self.operators.iter().map(|operator| operator.hosts.len()).sum();
        require(instances <= Self::MOST_INSTANCES, "on", || {
            format!("{instances} instances; at most {} are possible", Self::MOST_INSTANCES)
        })?;
        for (position, operator) in self.operators.iter().enumerate() {
            operator.check(position)?;
            let (name, size) = (&operator.name, operator.size);
            let fits = size > Bytes::ZERO && size.get() <= u64::from(u32::MAX);
            require(fits || self.is_sink(position), "size", || {
                format!("{size} of {name} is outside the range from 1 B to 4 GB")
            })?;
        }
        let sources = self.operators.iter().any(|operator| operator.rate > 0.0);
        require(sources, "rate", || "no operator has one; name a source".to_owned())
    }

    /// Whether the operator at `position` is a sink.
    fn is_sink(&self, position: usize) -> bool {
        let mut inputs = self.operators.iter().flat_map(|operator| &operator.inputs);
        !inputs.any(|input| input.operator == position)
    }
}

impl Operator {
    fn check(&self, position: usize) -> Result<(), ParameterError> {
        let name = &self.name;
        require(!self.hosts.is_empty(), "on", || format!("{name} is nowhere; name its hosts"))?;
        require(self.inputs.is_empty() == (self.rate > 0.0), "rate", || {
            format!("{name} must have a rate, as a source, or receive from others; not both")
        })?;
        require(self.rate.is_finite() && self.rate <= 1e7, "rate", || {
            format!("{} of {name} is above 10 million a second", self.rate)
        })?;
        require(self.inputs.iter().all(|input| input.operator < position), "from", || {
            format!("{name} can receive from operators above it only")
        })?;
        let emits = self.inputs.iter().all(|input| (0.0..=1000.0).contains(&input.emit));
        require(emits, "emit", || format!("{name} emits less than 0 or more than 1000 tuples"))?;
        require(self.batch > 0, "batch", || format!("0 of {name}; it must be at least 1"))?;
        self.keys.as_ref().map_or(Ok(()), Keys::check)
    }
}
