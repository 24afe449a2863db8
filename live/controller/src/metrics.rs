//! What Prometheus is told: the machine's counters, how much there is of everything, and how long
//! declarations take.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use control::{Counters, LinkStatus, Status};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use protocol::operator::Order;
use units::Rate;

use crate::journal::Journal;

/// What happened is a problem for so long.
const OVER: Duration = Duration::from_secs(600);
/// A certificate that ends within so many seconds is a problem.
pub const SOON: i64 = 30 * 86_400;
/// So many applications, links and agents have series of their own: what peers name must not fill the server that
/// scrapes.
const SERIES: usize = 1_000;

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
    /// Why the last reload failed, if it did.
    reload: Mutex<Option<String>>,
    /// What happened lately.
    pub journal: Arc<Journal>,
    /// Our own certificates, and when each ends, in seconds since 1970.
    certificates: Mutex<Vec<(PathBuf, i64)>>,
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
            reload: Mutex::default(),
            journal: Arc::default(),
            certificates: Mutex::default(),
            recorded_bytes: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            offices: AtomicU64::new(0),
            store_failures: AtomicU64::new(0),
        }
    }
}

impl Measures {
    /// What happens is noted in a journal.
    pub fn noting(journal: Arc<Journal>) -> Self {
        Self { journal, ..Self::default() }
    }

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

    /// The configuration was read again; or it wasn't, and why.
    pub fn reloaded(&self, failed: Option<String>) {
        *self.reload.lock().unwrap_or_else(PoisonError::into_inner) = failed;
    }

    /// That the last reload failed, if it did.
    pub fn reload_failed(&self) -> Option<String> {
        let why = self.reload.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(format!(
            "the last reload failed, so that configuration and certificates are as before: {why}; mend it and reload again"
        ))
    }

    /// Recording has begun or had to stop.
    pub fn set_recorder(&self, recording: Recording) {
        *self.recorder.lock().unwrap_or_else(PoisonError::into_inner) = recording;
    }

    /// How recording stands.
    pub fn recorder(&self) -> Recording {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Our own certificates are these, and end then, in seconds since 1970.
    pub fn set_certificates(&self, ends: Vec<(PathBuf, i64)>) {
        *self.certificates.lock().unwrap_or_else(PoisonError::into_inner) = ends;
    }

    /// Which of our own certificates end soon after `now`, in seconds since 1970.
    pub fn ending(&self, now: i64) -> Vec<String> {
        let certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        let soon = certificates.iter().filter(|(_, ends)| *ends < now + SOON);
        soon.map(|(file, ends)| ending(&file.display().to_string(), *ends, now)).collect()
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
        let certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(Snapshot {
            counters: counted(counters, self),
            gauges: stands(status, leads, connections, self),
            families: families(status, &certificates),
        }));
        drop(certificates);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

#[derive(Debug)]
struct Snapshot {
    counters: Vec<(&'static str, &'static str, u64)>,
    gauges: Vec<(&'static str, &'static str, u64)>,
    families: Vec<Family>,
}

/// A metric of each of several.
#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    /// It only grows.
    counts: bool,
    series: Vec<(Vec<(&'static str, String)>, u64)>,
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
        for Family { name, help, counts, series } in &self.families {
            if *counts {
                let kind = ConstCounter::new(0_u64).metric_type();
                let mut of = encoder.encode_descriptor(name, help, None, kind)?;
                for (labels, value) in series {
                    ConstCounter::new(*value).encode(of.encode_family(labels)?)?;
                }
            } else {
                let kind = ConstGauge::new(0_i64).metric_type();
                let mut of = encoder.encode_descriptor(name, help, None, kind)?;
                for (labels, value) in series {
                    let gauge = ConstGauge::new(i64::try_from(*value).unwrap_or(i64::MAX));
                    gauge.encode(of.encode_family(labels)?)?;
                }
            }
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

/// What is measured of each application, link and agent, and when certificates end.
fn families(status: &Status, certificates: &[(PathBuf, i64)]) -> Vec<Family> {
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let applications = || status.applications.iter().take(SERIES);
    let of_application = |name, help, counts, value: fn(&control::ApplicationStatus) -> u64| {
        let series = applications().map(|of| (vec![("application", of.name.clone())], value(of)));
        Family { name, help, counts, series: series.collect() }
    };
    // Those that somebody uses come first: they are the ones that are asked for.
    let mut links: Vec<&LinkStatus> = status.links.iter().collect();
    links.sort_by_key(|link| link.flows == 0 && link.congested.is_none());
    let left_out = links.len().saturating_sub(SERIES);
    links.truncate(SERIES);
    let of_link = |name, help, value: fn(&LinkStatus) -> Option<u64>| {
        let labels = |link: &LinkStatus| vec![("from", link.from.clone()), ("to", link.to.clone())];
        let series = links.iter().filter_map(|link| Some((labels(link), value(link)?)));
        Family { name, help, counts: false, series: series.collect() }
    };
    let agents = || status.agents.iter().take(SERIES);
    let of_agent = |name, help, value: &dyn Fn(&control::AgentStatus) -> u64| {
        let series = agents().map(|of| (vec![("agent", of.identity.clone())], value(of)));
        Family { name, help, counts: false, series: series.collect() }
    };
    let silent =
        |of: &control::AgentStatus| status.now_ns.since(of.heard_ns).as_nanos() / 1_000_000_000;
    let beyond = |all: usize| count(all.saturating_sub(SERIES));
    let left = [
        ("application", beyond(status.applications.len())),
        ("link", count(left_out)),
        ("agent", beyond(status.agents.len())),
    ];
    let ends = certificates.iter().map(|(file, ends)| {
        (vec![("file", file.display().to_string())], u64::try_from(*ends).unwrap_or(0))
    });
    vec![
        of_application("application_connected", "Whether it is connected", false, |of| {
            of.connected.into()
        }),
        of_application("application_jobs", "Its jobs", false, |of| of.jobs as u64),
        of_application("application_flows", "Its flows", false, |of| of.flows as u64),
        of_application("application_refused", "Its declarations that were refused", true, |of| {
            of.refused
        }),
        of_application(
            "application_contradicted",
            "Its flows that measurement contradicted",
            true,
            |of| of.contradicted,
        ),
        of_link("link_up", "Whether it carries traffic", |link| Some(link.up.into())),
        of_link("link_silent", "Whether it is declared and no probe crosses it", |link| {
            Some(u64::from(link.declared && link.seen == Some(false)))
        }),
        of_link("link_flows", "Flows whose path it is on", |link| Some(link.flows as u64)),
        of_link("link_capacity_bits_per_second", "What it carries, frame bytes", |link| {
            Some(bps(link.capacity_bps))
        }),
        of_link(
            "link_limited_bits_per_second",
            "Limits that the policy wants, frame bytes",
            |link| Some(bps(link.limited_bps)),
        ),
        of_link(
            "link_enforced_bits_per_second",
            "Limits that are confirmed, frame bytes",
            |link| Some(bps(link.enforced_bps)),
        ),
        of_link("link_measured_bits_per_second", "What flows on it get, payload", |link| {
            link.measured_bps.map(bps)
        }),
        of_agent("agent_paced", "Connections whose rate it has confirmed and sees", &|of| {
            count(of.paced)
        }),
        of_agent(
            "agent_unseen",
            "Connections whose rate it has confirmed and does not see",
            &|of| count(of.unseen),
        ),
        of_agent("agent_unconfirmed", "Rates that it has not confirmed yet", &|of| of.unconfirmed),
        of_agent("agent_silent_seconds", "Since it reported last", &silent),
        Family {
            name: "series_left_out",
            help: "How many have no series of their own, because there are more than 1000",
            counts: false,
            series: left.map(|(of, value)| (vec![("of", of.to_owned())], value)).into(),
        },
        Family {
            name: "certificate_ends_timestamp_seconds",
            help: "When a certificate of the controller ends, since 1970",
            counts: false,
            series: ends.collect(),
        },
    ]
}

/// A rate as a value.
const fn bps(rate: Rate) -> u64 {
    rate.as_bps()
}

/// Seconds since 1970.
pub fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// That a certificate ends soon, or has ended; `whose`: a file, or who shows it.
pub fn ending(whose: &str, ends: i64, now: i64) -> String {
    let days = (ends - now) / 86_400;
    let when = match ends - now {
        left if left <= 0 => "has ended".to_owned(),
        _ => format!("ends in {days} days"),
    };
    format!(
        "the certificate of {whose} {when}: renew it (where `watermaster certs` made it, remove it and run that again), \
         then reload or restart"
    )
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
    let frozen = status.orders.iter().any(|act| matches!(act.order, Order::Freeze { .. }));
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
        ("frozen", "Whether an operator has frozen decisions", u64::from(frozen)),
        ("orders", "Orders of operators that stand", count(status.orders.len())),
        ("problems", "Things that are not as they should be", count(status.problems.len())),
        ("recorder_stopped", "Whether recording had to stop", u64::from(stopped)),
        (
            "reload_failed",
            "Whether the last reload failed",
            u64::from(measures.reload_failed().is_some()),
        ),
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
    fn a_reload_that_failed_is_told_until_one_succeeds() {
        let measures = Measures::default();
        let gauge = |measures: &Measures| {
            let text = measures.encode(&Counters::default(), &Status::default(), true, 0);
            let text = text.expect("a text");
            text.contains("watermaster_reload_failed 1\n")
        };
        assert_eq!((measures.reload_failed(), gauge(&measures)), (None, false));
        measures.reloaded(Some("ca.crl: no list".into()));
        let told = measures.reload_failed().expect("it failed");
        assert!(told.contains("as before: ca.crl: no list; mend it") && gauge(&measures), "{told}");
        measures.reloaded(None);
        assert_eq!((measures.reload_failed(), gauge(&measures)), (None, false));
    }

    /// Whatever alert rules and the dashboard ask for is told.
    #[test]
    fn alerts_and_dashboard_ask_for_what_there_is() {
        let measures = Measures::default();
        measures.set_certificates(vec![("ca.crt".into(), 1)]);
        let text =
            measures.encode(&Counters::default(), &Status::default(), true, 0).expect("a text");
        let told: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let told: Vec<&str> = told.iter().filter_map(|line| line.split(' ').next()).collect();
        let rules = include_str!("../../../packaging/prometheus/watermaster.rules.yaml");
        let dashboard = include_str!("../../../packaging/grafana/watermaster.json");
        let mut asked = 0;
        for word in
            [rules, dashboard].concat().split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        {
            if !word.starts_with("watermaster_") {
                continue;
            }
            let name = word.trim_end_matches("_total").trim_end_matches("_bucket");
            assert!(told.contains(&name), "{word} is asked for and not told: {told:?}");
            asked += 1;
        }
        assert!(asked > 30, "{asked}");
    }

    #[test]
    fn a_metric_of_each_application_link_and_agent_is_told_up_to_a_bound() {
        let link =
            LinkStatus { from: "h\"1".into(), to: "s".into(), flows: 1, ..LinkStatus::default() };
        let idle = LinkStatus { from: "idle".into(), to: "s".into(), ..LinkStatus::default() };
        let mut links = vec![idle; SERIES];
        links.push(link);
        let status = Status { links, ..Status::default() };
        let text =
            Measures::default().encode(&Counters::default(), &status, true, 0).expect("a text");
        assert!(
            text.contains(r#"watermaster_link_flows{from="h\"1",to="s"} 1"#),
            "the used one: {text}"
        );
        assert!(text.contains(r#"watermaster_series_left_out{of="link"} 1"#), "{text}");
        assert_eq!(text.matches("watermaster_link_up{").count(), SERIES);
    }

    #[test]
    fn a_certificate_that_ends_within_a_month_is_told() {
        let measures = Measures::default();
        let now = 1_000_000;
        measures
            .set_certificates(vec![("far".into(), now + SOON), ("near".into(), now + SOON - 1)]);
        let told = measures.ending(now);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("the certificate of near ends in 29 days: "), "{told:?}");
        assert!(ending("x", now, now).contains("has ended"));
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
