//! The time and the settings: every room reads them, none changes them.

use model::LinkSpec;
use protocol::backoff::Backoff;
use units::{Bytes, Span, Time};

use crate::config::{Config, Enforcement, Limits};

/// When it is, and what the configuration says.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) now: Time,
    /// Goes on while the controller listens: only this tells how long others have been silent.
    pub(crate) awake: Time,
    pub(crate) epoch: u64,
    /// When the controller began.
    started: Time,
    pub(crate) mss: Bytes,
    pub(crate) enforcement: Enforcement,
    pub(crate) lease: Span,
    pub(crate) sample: Span,
    pub(crate) probe: Span,
    pub(crate) grace: Span,
    pub(crate) discovered: LinkSpec,
    /// Whether hosts are learnt that nobody declared.
    pub(crate) learn: bool,
    pub(crate) limits: Limits,
}

/// A lease is renewed so many times before it ends, so that two renewals may be lost.
const RENEWALS: u64 = 3;
/// Links are not looked for more often.
const PAUSE: Span = Span::from_millis(100);
/// What was reported so many samples ago is what stands: one may be late.
const LATELY: u64 = 2;
/// What no report of an agent speaks of for so many samples is gone: two may be lost, and one late.
pub(crate) const PATIENCE: u32 = 4;

/// What was learnt of a host is known so long after its last word, at least.
const MEMORY: Span = Span::from_secs(600);

/// Agents of a controller that ended come to the next one within this time, where attempts are refused at once:
/// two may fail that wait the longest.
const ARRIVAL: Span = Span::from_nanos(3 * Backoff::MOST.as_nanos());

impl Context {
    pub(crate) const fn new(config: &Config, epoch: u64, now: Time) -> Self {
        Self {
            now,
            awake: now,
            epoch,
            started: now,
            mss: config.mss,
            enforcement: config.enforcement,
            lease: config.lease,
            sample: config.sample,
            probe: config.probe,
            grace: config.grace,
            discovered: config.discovered,
            learn: config.learn,
            limits: config.limits,
        }
    }

    /// It is `now`, or later. For what is longer than a sample the controller may have slept, and what
    /// was said meanwhile waits.
    pub(crate) fn pass(&mut self, now: Time) {
        self.awake += now.since(self.now).min(self.sample);
        self.now = self.now.max(now);
    }

    /// Whether a controller was there before, whose agents may not have come to this one yet: hosts that they know
    /// are unknown until then.
    pub(crate) fn awaits_agents(&self) -> bool {
        self.epoch > 1 && self.now.since(self.started) < ARRIVAL
    }

    /// What was reported so long ago is what stands.
    pub(crate) fn lately(&self) -> Span {
        self.sample * LATELY
    }

    /// What no report of an agent speaks of for so long is gone.
    pub(crate) fn patience(&self) -> Span {
        self.sample * u64::from(PATIENCE)
    }

    /// Whether what was last told of at `at` is gone: for longer than `patience`, and since before its agent `looked` at
    /// all that there is. All of these are times as [`Context::awake`].
    pub(crate) fn is_gone(&self, at: Time, patience: Span, looked: Time) -> bool {
        self.awake.since(at) > patience && at < looked
    }

    /// Samples are not quite as far apart as they should be.
    pub(crate) fn nearly_a_sample(&self) -> Span {
        self.sample / 4 * 3
    }

    /// Over less there is no rate.
    pub(crate) fn least(&self) -> Span {
        self.sample / 2
    }

    /// How long a lease may go without renewal.
    pub(crate) fn renewal_pause(&self) -> Span {
        self.lease / RENEWALS
    }

    /// When a lease that is given now must be renewed.
    pub(crate) fn renewal(&self) -> Time {
        self.now + self.renewal_pause()
    }

    /// Within this time a probe has crossed a link, or there is none.
    pub(crate) fn probe_pause(&self) -> Span {
        self.probe.max(PAUSE)
    }

    /// What was learnt of a host that is silent for so long is forgotten: it has been asked some times meanwhile.
    pub(crate) fn memory(&self) -> Span {
        MEMORY.max(self.probe_pause() * 10)
    }

    /// When switches are asked and links probed next, where the policy asks for `statistics`.
    pub(crate) fn next_statistics(&self, statistics: Option<Span>) -> Time {
        self.now + statistics.unwrap_or(self.probe).max(PAUSE)
    }
}
