//! What Prometheus is told: the machine's counters, how much there is of everything, and how long
//! declarations take.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::{Counters, Status};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};

/// What happened is a problem for so long.
const OVER: Duration = Duration::from_secs(600);

/// What is measured while the daemon runs.
#[derive(Debug)]
pub struct Measures {
    /// From a request at the machine to all that follows from it handed to the sockets.
    declare: Histogram,
    /// Turns that kept renewals of leases waiting.
    long_turns: AtomicU64,
    /// The end of the last of them, and how long it took.
    last_long: Mutex<Option<(Instant, Duration)>>,
    /// Lines of agents that can't be read.
    unreadable: AtomicU64,
    /// When the last of them came, whose it was, and what is wrong with it.
    last_unreadable: Mutex<Option<(Instant, String)>>,
    recorder: Mutex<Recording>,
    /// Octets recorded.
    pub recorded_bytes: AtomicU64,
    /// Questions after health.
    pub asked: AtomicU64,
    /// Offices that were won in elections.
    pub offices: AtomicU64,
    /// Questions that the elections' store didn't answer.
    store_failures: AtomicU64,
}

/// How recording stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Not wanted.
    Off,
    /// It records.
    On,
    /// It had to stop, and why.
    Stopped(String),
}

impl Recording {
    /// Its name in the status.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Stopped(_) => "stopped",
        }
    }
}

impl Default for Measures {
    fn default() -> Self {
        let buckets = (0..16_i32).map(|power| 1e-5 * 2_f64.powi(power));
        Self {
            declare: Histogram::new(buckets),
            long_turns: AtomicU64::new(0),
            last_long: Mutex::new(None),
            unreadable: AtomicU64::new(0),
            last_unreadable: Mutex::new(None),
            recorder: Mutex::new(Recording::Off),
            recorded_bytes: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            offices: AtomicU64::new(0),
            store_failures: AtomicU64::new(0),
        }
    }
}

impl Measures {
    /// The machine took so long over a request with declarations.
    pub fn declared(&self, took: Duration) {
        self.declare.observe(took.as_secs_f64());
    }

    /// The elections' store didn't answer.
    pub fn store_failed(&self) {
        self.store_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// A turn of the machine ended `now` and `took` so long; whether that is longer than the `most` that
    /// leases may go without renewal.
    pub fn turned(&self, now: Instant, took: Duration, most: Duration) -> bool {
        let is_long = took > most;
        if is_long {
            self.long_turns.fetch_add(1, Ordering::Relaxed);
            *self.last_long.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, took));
        }
        is_long
    }

    /// The last turn that was too long, if that was lately.
    pub fn long_turn(&self, now: Instant) -> Option<String> {
        let (at, took) = (*self.last_long.lock().unwrap_or_else(PoisonError::into_inner))?;
        let since = Some(now.saturating_duration_since(at)).filter(|since| *since <= OVER)?;
        Some(format!(
            "the controller was busy for {:.1} s with one turn, {} s ago: no lease was renewed meanwhile",
            took.as_secs_f64(),
            since.as_secs()
        ))
    }

    /// An agent sent what can't be read, which ended its connection.
    pub fn unreadable(&self, now: Instant, agent: &str, reason: &str) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
        // It may repeat what came.
        let reason = &reason[..reason.floor_char_boundary(200)];
        let told = format!("agent {agent} is cut off, its words can't be read: {reason}");
        *self.last_unreadable.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, told));
    }

    /// The last words that could not be read, if that was lately.
    pub fn last_unreadable(&self, now: Instant) -> Option<String> {
        let last = self.last_unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let last = last.filter(|(at, _)| now.saturating_duration_since(*at) <= OVER);
        last.map(|(_, told)| told)
    }

    /// Recording has begun or had to stop.
    pub fn set_recorder(&self, recording: Recording) {
        *self.recorder.lock().unwrap_or_else(PoisonError::into_inner) = recording;
    }

    /// How recording stands.
    pub fn recorder(&self) -> Recording {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All of it as OpenMetrics text.
    ///
    /// # Errors
    /// None that is known: the text goes to memory.
    pub fn encode(
        &self,
        counters: &Counters,
        status: &Status,
        leads: bool,
        connections: usize,
    ) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("watermaster");
        registry.register_with_unit(
            "declare",
            "From a request at the machine to its consequences handed to the sockets",
            Unit::Seconds,
            self.declare.clone(),
        );
        registry.register_collector(Box::new(Snapshot {
            counters: counted(counters, self),
            gauges: stands(status, leads, connections, self),
        }));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

#[derive(Debug)]
struct Snapshot {
    counters: Vec<(&'static str, &'static str, u64)>,
    gauges: Vec<(&'static str, &'static str, u64)>,
}

impl prometheus_client::collector::Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in &self.counters {
            let counter = ConstCounter::new(*value);
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        for (name, help, value) in &self.gauges {
            let gauge = ConstGauge::new(i64::try_from(*value).unwrap_or(i64::MAX));
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        Ok(())
    }
}

fn counted(c: &Counters, measures: &Measures) -> Vec<(&'static str, &'static str, u64)> {
    vec![
        ("declarations", "Declarations taken", c.declarations),
        ("declarations_refused", "Declarations refused", c.declarations_refused),
        ("reports", "Reports of agents taken", c.reports),
        ("reports_refused", "Reports refused, whole or in part", c.reports_refused),
        (
            "reports_unreadable",
            "Lines of agents that could not be read",
            measures.unreadable.load(Ordering::Relaxed),
        ),
        ("packets_in", "Packets that switches sent up", c.packets_in),
        ("packets_refused", "Packets beyond the limit of a switch", c.packets_refused),
        ("malformed", "Messages of switches that could not be read", c.malformed),
        ("switch_errors", "What switches refused or did not answer", c.switch_errors),
        ("directives", "Directives of the policy", c.directives),
        ("commands_failed", "Commands that agents could not carry out", c.commands_failed),
        ("directives_unenforced", "Directives that nothing can enforce", c.directives_unenforced),
        ("commands", "Commands sent to agents", c.commands),
        ("entries_added", "Flow entries added or changed", c.entries_added),
        ("entries_removed", "Flow entries removed", c.entries_removed),
        ("stale", "Commands that agents called stale", c.stale),
        ("contradictions", "Declarations that measurement contradicted", c.contradictions),
        ("flows_vanished", "Flows whose connection was gone without a word", c.flows_vanished),
        ("flows_ignored", "Undeclared connections beyond the limit of flows", c.flows_ignored),
        ("reroutes", "Changes of paths", c.reroutes),
        (
            "long_turns",
            "Turns of the controller that kept renewals of leases waiting",
            measures.long_turns.load(Ordering::Relaxed),
        ),
        ("offices", "Elections that this controller won", measures.offices.load(Ordering::Relaxed)),
        (
            "store_failures",
            "Questions that the elections' store did not answer",
            measures.store_failures.load(Ordering::Relaxed),
        ),
        (
            "recorded_bytes",
            "Octets of inputs recorded",
            measures.recorded_bytes.load(Ordering::Relaxed),
        ),
    ]
}

fn stands(
    status: &Status,
    leads: bool,
    connections: usize,
    measures: &Measures,
) -> Vec<(&'static str, &'static str, u64)> {
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let connected = status.switches.iter().filter(|switch| switch.connected).count();
    let flows = status.applications.iter().map(|application| application.flows).sum();
    let stopped = matches!(measures.recorder(), Recording::Stopped(_));
    vec![
        ("epoch", "The epoch of the controller, or of the one that leads", status.epoch),
        ("leads", "Whether this controller leads; one that is alone does", u64::from(leads)),
        ("connections", "Connections of all kinds", count(connections)),
        ("switches", "Switches that are declared or connected", count(status.switches.len())),
        ("switches_connected", "Switches that are connected", count(connected)),
        ("agents", "Agents that are connected", count(status.agents.len())),
        ("applications", "Applications that declared something", count(status.applications.len())),
        ("flows", "Flows of all applications", count(flows)),
        ("problems", "Things that are not as they should be", count(status.problems.len())),
        ("recorder_stopped", "Whether recording had to stop", u64::from(stopped)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_keeps_renewals_waiting_is_counted_and_told_for_a_while() {
        let (measures, now) = (Measures::default(), Instant::now());
        let seconds = Duration::from_secs;
        assert!(!measures.turned(now, seconds(3), seconds(3)));
        assert_eq!(measures.long_turn(now), None);
        assert!(measures.turned(now, seconds(8), seconds(3)));
        assert!(!measures.turned(now, seconds(1), seconds(3)));
        let told = "the controller was busy for 8.0 s with one turn, 20 s ago: no lease was renewed meanwhile";
        assert_eq!(measures.long_turn(now + seconds(20)).as_deref(), Some(told));
        assert_eq!(measures.long_turn(now + seconds(601)), None);
        let text =
            measures.encode(&Counters::default(), &Status::default(), true, 0).expect("a text");
        assert!(text.contains("watermaster_long_turns_total 1\n"), "{text}");
    }

    #[test]
    fn words_that_can_not_be_read_are_counted_and_told_for_a_while() {
        let (measures, now) = (Measures::default(), Instant::now());
        let seconds = Duration::from_secs;
        assert_eq!(measures.last_unreadable(now), None);
        measures.unreadable(now, "h0", "unknown variant");
        let told = "agent h0 is cut off, its words can't be read: unknown variant";
        assert_eq!(measures.last_unreadable(now + seconds(600)).as_deref(), Some(told));
        assert_eq!(measures.last_unreadable(now + seconds(601)), None);
        let text =
            measures.encode(&Counters::default(), &Status::default(), true, 0).expect("a text");
        assert!(text.contains("watermaster_reports_unreadable_total 1\n"), "{text}");
    }
}
