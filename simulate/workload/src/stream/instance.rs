//! An instance of an operator: what it does in a turn.

use engine::Completions;
use engine::random::Stream as Chance;
use rand::RngExt;
use rand_distr::Exp1;
use units::{Span, Time};

use super::channel::{Channel, Tuple};
use super::keys::Draw;
use super::{Grouping, Operator};

/// Fractions of a tuple are counted in parts of this.
const WHOLE: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Instance {
    /// Channels from which it receives.
    pub(super) inputs: Vec<From>,
    pub(super) outputs: Vec<Output>,
    source: Option<Source>,
    keys: Option<Draw>,
    join: bool,
    /// Processor time of a tuple, and when the processor is free, ns.
    cost: u64,
    free_at: u64,
    /// Tuples collected, with the millionths of a tuple to emit for each; how many make a batch.
    held: Vec<(Tuple, u64)>,
    batch: usize,
    /// Millionths of a tuple still to emit.
    owed: u64,
    size: u32,
}

/// A channel from which an instance receives.
#[derive(Clone, Copy, Debug)]
pub(super) struct From {
    pub(super) channel: usize,
    /// Millionths of a tuple emitted for each.
    emit: u64,
}

impl From {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `Stream::check` bounds it
    pub(super) fn new(channel: usize, emit: f64) -> Self {
        Self { channel, emit: (emit * WHOLE as f64).round() as u64 }
    }
}

/// Where an instance sends to: the instances of one operator.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) grouping: Grouping,
    /// A channel to each instance.
    pub(super) channels: Vec<usize>,
    /// Whose turn it is.
    pub(super) turn: usize,
}

/// Emits tuples of itself.
#[derive(Debug)]
struct Source {
    /// Mean time between two, ns.
    gap: f64,
    chance: Option<Chance>,
    next: u64,
}

impl Source {
    fn new(operator: &Operator, number: usize, mut chance: Chance) -> Self {
        let gap = operator.hosts.len() as f64 * 1e9 / operator.rate;
        // Instances that emit evenly take turns; else each begins at random.
        let part = if operator.random {
            chance.sample(Exp1)
        } else {
            number as f64 / operator.hosts.len() as f64
        };
        let chance = operator.random.then_some(chance);
        Self { gap, chance, next: nanos(gap * part) }
    }

    fn advance(&mut self) {
        let gap = match &mut self.chance {
            Some(chance) => self.gap * chance.sample::<f64, _>(Exp1),
            None => self.gap,
        };
        self.next = self.next.saturating_add(nanos(gap).max(1));
    }
}

/// To the nearest nanosecond.
fn nanos(ns: f64) -> u64 {
    Span::from_secs_f64(ns / 1e9).as_nanos()
}

impl Instance {
    /// Instance `number` of `operator`, without channels. Stream: `arrivals NAME NUMBER`.
    #[allow(clippy::cast_possible_truncation)] // `Stream::check` bounds it
    pub(super) fn new(operator: &Operator, number: usize, seed: u64) -> Self {
        let count = operator.hosts.len();
        let chance = Chance::named(seed, &format!("arrivals {} {number}", operator.name));
        let source = (operator.rate > 0.0).then(|| Source::new(operator, number, chance));
        let keys = operator.keys.as_ref();
        Self {
            inputs: Vec::new(),
            outputs: Vec::new(),
            source,
            keys: keys.and_then(|k| Draw::new(k, &operator.name, (number, count), seed)),
            join: operator.join,
            cost: operator.cost.as_nanos(),
            free_at: 0,
            held: Vec::new(),
            batch: operator.batch as usize,
            owed: 0,
            size: operator.size.get() as u32,
        }
    }

    /// Emits, or processes what has arrived, up to `now`, one turn after the last call. At a sink
    /// tuples end in `done`. `most` is the backlog at which it stops.
    pub(super) fn act(
        &mut self,
        now: Time,
        turn: Span,
        most: u64,
        channels: &mut [Channel],
        done: &mut Completions,
    ) {
        let at = now.as_nanos();
        if let Some(mut source) = self.source.take() {
            while source.next <= at {
                if self.is_stopped(most, channels) {
                    // Tuples of the time in which it was stopped are skipped.
                    source.next = at + 1;
                    break;
                }
                self.emit(Tuple { birth: source.next, key: 0, size: self.size }, channels);
                source.advance();
            }
            self.tell_clock(at, channels);
            self.source = Some(source);
            return;
        }
        self.free_at = self.free_at.max(at.saturating_sub(turn.as_nanos()));
        // A tuple counts as processed when the processor turns to it.
        while self.free_at < at && !self.is_stopped(most, channels) {
            let Some((tuple, emit)) = self.receive(channels) else {
                break;
            };
            self.free_at = self.free_at.saturating_add(self.cost);
            if self.outputs.is_empty() {
                done.add(now.since(Time::from_nanos(tuple.birth)));
            } else {
                self.process(tuple, emit, channels);
            }
        }
        let clock = self.inputs.iter().map(|input| channels[input.channel].progress()).min();
        self.tell_clock(clock.unwrap_or(at), channels);
    }

    /// Takes the oldest tuple that has arrived, and how much is emitted for it. A join waits until
    /// none older can come.
    fn receive(&self, channels: &mut [Channel]) -> Option<(Tuple, u64)> {
        let here =
            self.inputs.iter().filter_map(|from| Some((channels[from.channel].next()?, from)));
        let (birth, from) = here.min_by_key(|(birth, from)| (*birth, from.channel))?;
        let is_behind = |from: &From| channels[from.channel].progress() < birth;
        if self.join && self.inputs.iter().any(is_behind) {
            return None;
        }
        Some((channels[from.channel].pop()?, from.emit))
    }

    fn process(&mut self, tuple: Tuple, emit: u64, channels: &mut [Channel]) {
        self.held.push((tuple, emit));
        if self.held.len() < self.batch {
            return;
        }
        for held in 0..self.held.len() {
            let (tuple, emit) = self.held[held];
            self.owed += emit;
            while self.owed >= WHOLE {
                self.owed -= WHOLE;
                self.emit(Tuple { size: self.size, ..tuple }, channels);
            }
        }
        self.held.clear();
    }

    fn emit(&mut self, mut tuple: Tuple, channels: &mut [Channel]) {
        if let Some(keys) = &mut self.keys {
            tuple.key = keys.next(tuple.birth);
        }
        for output in &mut self.outputs {
            let count = output.channels.len();
            let chosen = match output.grouping {
                Grouping::Shuffle => {
                    output.turn = (output.turn + 1) % count;
                    output.turn
                }
                // The upper bits of the product: a part of the range of hashes for each.
                Grouping::Key => usize::try_from((u64::from(tuple.key) * count as u64) >> 32)
                    .expect("less than the number of channels"),
                Grouping::Global => 0,
                Grouping::All => {
                    output.channels.iter().for_each(|&channel| channels[channel].push(tuple));
                    continue;
                }
            };
            channels[output.channels[chosen]].push(tuple);
        }
    }

    fn is_stopped(&self, most: u64, channels: &[Channel]) -> bool {
        let mut outputs = self.outputs.iter().flat_map(|output| &output.channels);
        outputs.any(|&channel| channels[channel].backlog() >= most)
    }

    fn tell_clock(&self, clock: u64, channels: &mut [Channel]) {
        for &channel in self.outputs.iter().flat_map(|output| &output.channels) {
            channels[channel].clock = clock;
        }
    }
}
