//! The metrics of a run, under names that carry their unit. `docs/metrics.md` explains every name;
//! a test keeps the two together.
//!
//! A metric that has nothing to measure (no job completed, no baseline, no such class) is absent.

mod flows;
mod sample;
mod summary;
mod sync_vs_async;
pub mod transmit;
mod unit;
mod view;

use std::collections::BTreeMap;

use engine::Outcome;
use model::JobClass::{Large, Medium, Small};
use model::{LinkId, Topology};

use flows::Length;
pub use sample::Sample;
pub use summary::Summary;
use sync_vs_async::Place;
pub use unit::{Unit, human, is_change};
use view::View;

/// Metrics of one run by name.
pub type Metrics = BTreeMap<String, f64>;

/// Measures `run` on its `topology`, and compares it with the `baseline` policy's run of the same
/// jobs, if given.
pub fn measure(topology: &Topology, run: &Outcome, baseline: Option<&Outcome>) -> Metrics {
    let mut metrics = measured(topology, run, baseline, |_| true);
    for (number, application) in (0u32..).zip(&run.applications) {
        let (run, baseline) = (of(run, number), baseline.map(|run| of(run, number)));
        let own = measured(topology, &run, baseline.as_ref(), is_of_applications);
        let own = own.into_iter().map(|(name, value)| (format!("{application}/{name}"), value));
        metrics.extend(own);
    }
    metrics
}

fn measured(
    topology: &Topology,
    run: &Outcome,
    baseline: Option<&Outcome>,
    counts: impl Fn(&str) -> bool,
) -> Metrics {
    let view = View::new(topology, run, baseline);
    let measured = TABLE.iter().filter(|(name, _)| counts(name)).filter_map(|(name, metric)| {
        let value = metric(&view).filter(|value| value.is_finite())?;
        Some(((*name).to_owned(), value))
    });
    measured.collect()
}

/// Whether a metric is told of each application too, as `APPLICATION/METRIC`: of its jobs, flows and
/// completions.
fn is_of_applications(name: &str) -> bool {
    let told = [
        "jct_",
        "fct_",
        "jobs_c",
        "flows_count",
        "goodput_",
        "throughput_tps",
        "latency_",
        "datagrams_",
    ];
    told.iter().any(|start| name.starts_with(start))
}

/// What a run was to one of its applications.
fn of(run: &Outcome, application: u32) -> Outcome {
    Outcome {
        flows: run.flows.iter().filter(|f| f.application == application).collect(),
        jobs: run.jobs.iter().filter(|j| j.application == application).collect(),
        completions: (run.completions.iter())
            .filter(|all| all.application == application)
            .cloned()
            .collect(),
        datagrams: (run.datagrams.iter().copied())
            .filter(|flow| run.flows.at(flow.index()).application == application)
            .collect(),
        end: run.end,
        ..Outcome::default()
    }
}

/// The metric of all that `name` is, if it may be one of an application among `applications`.
pub fn metric_of<'a>(name: &'a str, applications: &[&str]) -> &'a str {
    match name.split_once('/') {
        Some((application, metric))
            if applications.contains(&application) && is_of_applications(metric) =>
        {
            metric
        }
        _ => name,
    }
}

/// The names of all metrics, related ones together.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// The distribution `name` of `run`; `None` if there is none of that name.
pub fn distribution(
    name: &str,
    topology: &Topology,
    run: &Outcome,
    baseline: Option<&Outcome>,
) -> Option<Sample> {
    let (_, sample) = DISTRIBUTIONS.iter().find(|(known, _)| *known == name)?;
    Some(sample(&View::new(topology, run, baseline)))
}

/// The names of all distributions.
pub fn distributions() -> impl Iterator<Item = &'static str> {
    DISTRIBUTIONS.iter().map(|(name, _)| *name)
}

/// Whether the metric or distribution `name` is of a run beside the baseline's.
pub fn compares(name: &str) -> bool {
    const SHARES: [&str; 3] =
        ["jobs_improved_ratio", "jobs_worsened_ratio", "jobs_gained_100_s_ratio"];
    is_change(name) || SHARES.contains(&name)
}

/// Share of each link's capacity that was used; empty when nothing ran.
pub fn link_utilization(topology: &Topology, run: &Outcome) -> BTreeMap<LinkId, f64> {
    View::new(topology, run, None).utilization()
}

/// How much longer each job took than under the baseline, s, over jobs completed in both runs.
pub fn jct_increase(topology: &Topology, run: &Outcome, baseline: &Outcome) -> Sample {
    View::new(topology, run, Some(baseline)).increase()
}

type Metric = fn(&View<'_>) -> Option<f64>;

fn total(counts: impl Iterator<Item = u64>) -> f64 {
    counts.fold(0, u64::saturating_add) as f64
}

const TABLE: &[(&str, Metric)] = &[
    ("jct_mean_s", |v| v.jct(None).mean()),
    ("cct_mean_s", |v| v.jct(None).mean()),
    ("jct_p50_s", |v| v.jct(None).percentile(50)),
    ("jct_p95_s", |v| v.jct(None).percentile(95)),
    ("jct_p99_s", |v| v.jct(None).percentile(99)),
    ("jct_mean_small_s", |v| v.jct(Some(Small)).mean()),
    ("jct_mean_medium_s", |v| v.jct(Some(Medium)).mean()),
    ("jct_mean_large_s", |v| v.jct(Some(Large)).mean()),
    ("jct_p95_small_s", |v| v.jct(Some(Small)).percentile(95)),
    ("jct_p95_medium_s", |v| v.jct(Some(Medium)).percentile(95)),
    ("jct_p95_large_s", |v| v.jct(Some(Large)).percentile(95)),
    ("jobs_count", |v| Some(v.run.jobs.len() as f64)),
    ("jobs_completed_ratio", |v| v.completed()),
    ("jobs_small_ratio", |v| v.job_share(Small)),
    ("jobs_medium_ratio", |v| v.job_share(Medium)),
    ("jobs_large_ratio", |v| v.job_share(Large)),
    ("bytes_small_ratio", |v| v.byte_share(Small)),
    ("bytes_medium_ratio", |v| v.byte_share(Medium)),
    ("bytes_large_ratio", |v| v.byte_share(Large)),
    ("makespan_s", |v| v.makespan()),
    ("fct_mean_s", |v| v.fct().mean()),
    ("fct_p50_s", |v| v.fct().percentile(50)),
    ("fct_p95_s", |v| v.fct().percentile(95)),
    ("fct_p99_s", |v| v.fct().percentile(99)),
    ("fct_mean_short_s", |v| v.fct_of(Length::Short).mean()),
    ("fct_p99_short_s", |v| v.fct_of(Length::Short).percentile(99)),
    ("fct_mean_middle_s", |v| v.fct_of(Length::Middle).mean()),
    ("fct_mean_long_s", |v| v.fct_of(Length::Long).mean()),
    ("fct_normalized_mean_ratio", |v| v.fct_normalized().mean()),
    ("fct_normalized_cv_ratio", |v| v.fct_normalized().variation()),
    ("fct_normalized_variance_ratio", |v| {
        let all = v.fct_normalized();
        Some((all.variation()? * all.mean()?).powi(2))
    }),
    ("fct_normalized_p99_ratio", |v| v.fct_normalized().percentile(99)),
    ("fct_slotted_mean_ratio", |v| v.fct_slotted().mean()),
    ("flow_rate_jain_ratio", |v| v.rate_normalized().jain()),
    ("pair_rate_jain_ratio", |v| v.pair_rate_normalized().jain()),
    ("sender_throughput_jain_ratio", |v| v.sender_delivered().jain()),
    ("goodput_bps", |v| v.goodput()),
    ("throughput_ratio", |v| v.receiver_throughput()),
    ("burst_goodput_bps", |v| v.burst_goodput(false)),
    ("burst_total_goodput_bps", |v| v.burst_goodput(true)),
    ("flow_goodput_jain_ratio", |v| v.flow_goodput().jain()),
    ("link_utilization_max_ratio", |v| v.utilization().into_values().reduce(f64::max)),
    ("host_payload_max_ratio", |v| v.host_payload()),
    ("throughput_tps", |v| v.throughput()),
    ("latency_mean_s", |v| v.latency(|all| all.mean())),
    ("latency_p50_s", |v| v.latency(|all| all.percentile(50))),
    ("latency_p95_s", |v| v.latency(|all| all.percentile(95))),
    ("latency_p99_s", |v| v.latency(|all| all.percentile(99))),
    ("flows_count", |v| v.flows().all.known(|all| all.count as u64)),
    ("retransmissions_count", |v| v.flows().all.known(|all| all.retransmissions)),
    ("timeouts_count", |v| v.flows().all.known(|all| all.timeouts)),
    ("flows_with_timeout_ratio", |v| v.flows().all.late_share()),
    ("burst_flows_with_timeout_ratio", |v| v.flows().bounded.late_share()),
    ("drops_count", |v| Some(total(v.run.links.iter().map(|l| l.dropped)))),
    ("meter_drops_count", |v| Some(total(v.run.links.iter().map(|l| l.metered)))),
    ("datagrams_lost_ratio", |v| v.datagrams_lost()),
    ("marks_count", |v| Some(total(v.run.links.iter().map(|l| l.marked)))),
    ("queue_peak_packets", |v| v.run.links.iter().map(|l| f64::from(l.peak)).reduce(f64::max)),
    ("inter_rack_packets_count", |v| Some(v.inter_rack_packets() as f64)),
    ("queue_hosts_mean_packets", |v| v.queued(Place::Host).mean()),
    ("queue_hosts_p99_packets", |v| v.queued(Place::Host).percentile(99)),
    ("queue_leaves_mean_packets", |v| v.queued(Place::Leaf).mean()),
    ("queue_leaves_p99_packets", |v| v.queued(Place::Leaf).percentile(99)),
    ("queue_leaves_waiting_mean_packets", |v| v.waiting(Place::Leaf).mean()),
    ("queue_leaves_waiting_p99_packets", |v| v.waiting(Place::Leaf).percentile(99)),
    ("queue_spines_mean_packets", |v| v.queued(Place::Spine).mean()),
    ("queue_spines_p99_packets", |v| v.queued(Place::Spine).percentile(99)),
    ("queue_spines_waiting_mean_packets", |v| v.waiting(Place::Spine).mean()),
    ("queue_spines_waiting_p99_packets", |v| v.waiting(Place::Spine).percentile(99)),
    ("network_latency_mean_s", |v| v.network_latency().mean()),
    ("network_latency_p50_s", |v| v.network_latency().percentile(50)),
    ("network_latency_p99_s", |v| v.network_latency().percentile(99)),
    ("queue_mean_packets", |v| v.queues().mean()),
    ("queue_p99_packets", |v| v.queues().percentile(99)),
    ("queue_max_packets", |v| v.queues().max()),
    ("queue_last_packets", |v| v.last_queues().mean()),
    ("control_delay_mean_s", |v| v.reactions().mean()),
    ("control_delay_max_s", |v| v.reactions().max()),
    ("rate_flows_count", |v| {
        Some(v.rates.values().len() as f64).filter(|_| !v.run.rates.is_empty())
    }),
    ("rate_obeyed_p50_ratio", |v| v.rates.percentile(50)),
    ("rate_obeyed_min_ratio", |v| v.rates.percentile(0)),
    ("rate_obeyed_max_ratio", |v| v.rates.max()),
    ("transmit_time_ratio", |v| v.flows_transmit().mean()),
    ("jobs_transmit_time_ratio", |v| v.jobs_transmit(None).mean()),
    ("jobs_transmit_time_small_ratio", |v| v.jobs_transmit(Some(Small)).mean()),
    ("jobs_transmit_time_medium_ratio", |v| v.jobs_transmit(Some(Medium)).mean()),
    ("jobs_transmit_time_large_ratio", |v| v.jobs_transmit(Some(Large)).mean()),
    ("jobs_transmit_over_80_percent_ratio", |v| {
        v.jobs_transmit(None).share_where(|share| share > 0.8)
    }),
    ("jct_mean_change_ratio", |v| v.change(None, Sample::mean)),
    ("jct_mean_change_small_ratio", |v| v.change(Some(Small), Sample::mean)),
    ("jct_mean_change_medium_ratio", |v| v.change(Some(Medium), Sample::mean)),
    ("jct_mean_change_large_ratio", |v| v.change(Some(Large), Sample::mean)),
    ("jct_p95_change_ratio", |v| v.change(None, |s| s.percentile(95))),
    ("jct_p95_change_small_ratio", |v| v.change(Some(Small), |s| s.percentile(95))),
    ("jct_p95_change_medium_ratio", |v| v.change(Some(Medium), |s| s.percentile(95))),
    ("jct_p95_change_large_ratio", |v| v.change(Some(Large), |s| s.percentile(95))),
    ("jobs_improved_ratio", |v| v.improved()),
    ("jobs_worsened_ratio", |v| v.worsened()),
    ("jobs_gained_100_s_ratio", |v| v.increase().share_where(|longer| longer <= -100.0)),
    ("jct_worst_increase_s", |v| v.increase().max()),
];

type Distribution = fn(&View<'_>) -> Sample;

const DISTRIBUTIONS: &[(&str, Distribution)] = &[
    ("jct_s", |v| v.jct(None)),
    ("fct_s", |v| v.fct().clone()),
    ("jct_increase_s", |v| v.increase()),
    ("latency_s", |v| v.latencies()),
    ("fct_normalized_ratio", |v| v.fct_normalized()),
    ("network_latency_s", |v| v.network_latency().clone()),
    ("queue_packets", |v| v.queues()),
    ("control_delay_s", |v| v.reactions()),
    ("jobs_transmit_ratio", |v| v.jobs_transmit(None)),
];
