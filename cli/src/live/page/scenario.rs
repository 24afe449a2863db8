//! A scenario's runs, for the page.

use std::collections::{BTreeMap, BTreeSet};

use ::page::film::{About, Film, Flow, Job, Link, Metric, Run, Scenario};
use engine::{FlowRecord, JobRecord};
use experiment::run::Prepared;
use experiment::{RunResult, metrics};
use model::{JobId, Network, NodeKind, Terms, Topology};
use units::{Bytes, Rate, Span, Time};

/// Flows of a run that are shown, and limits of one.
const FLOWS: usize = 20_000;
const LIMITS: usize = 1_000;

/// The film of `runs`.
pub(crate) fn film(
    prepared: &Prepared,
    command: &str,
    runs: &[experiment::Run],
    result: &RunResult,
) -> Film {
    let scenario = &prepared.scenario;
    let origin = prepared.origin();
    let about = [
        ("Scenario", origin.scenario.clone()),
        ("World", origin.world),
        ("Seed", origin.seed.to_string()),
        ("Watermaster", origin.version),
    ];
    let title = if scenario.title.is_empty() { &origin.scenario } else { &scenario.title };
    let terms = prepared.traffic.terms().collect();
    let (switches, links) = network(&scenario.topology);
    Film::Scenario(Scenario {
        about: About {
            title: title.clone(),
            subtitle: scenario.source.clone(),
            command: command.to_owned(),
            about: about.into_iter().map(|(term, text)| (term.to_owned(), text)).collect(),
            switches,
            links,
        },
        runs: runs.iter().map(|ran| run(&prepared.network, &terms, ran)).collect(),
        metrics: measured(result),
    })
}

/// The names of switches, and all links.
fn network(topology: &Topology) -> (Vec<String>, Vec<Link>) {
    let switches = topology.nodes().iter().filter(|node| node.kind == NodeKind::Switch);
    let links = topology.links().iter().map(|link| Link {
        from: topology.node_name(link.from).into_owned(),
        to: topology.node_name(link.to).into_owned(),
        capacity_bps: link.spec.capacity.as_bps(),
    });
    (switches.map(|node| node.name.clone()).collect(), links.collect())
}

fn measured(result: &RunResult) -> Vec<Metric> {
    let row = |name: &'static str| {
        let of = |result: &experiment::PolicyResult| result.metrics.get(name).copied();
        result.results.iter().any(|result| of(result).is_some()).then(|| Metric {
            name: name.to_owned(),
            cells: result
                .results
                .iter()
                .map(|result| {
                    of(result).map_or_else(|| "–".to_owned(), |value| metrics::human(name, value))
                })
                .collect(),
        })
    };
    metrics::names().filter_map(row).collect()
}

fn run(network: &Network, terms: &BTreeMap<JobId, Terms>, ran: &experiment::Run) -> Run {
    let outcome = &ran.outcome;
    // The largest matter most; an endless one is larger than all.
    let flows = outcome.flows.iter().enumerate();
    let mut largest: Vec<_> =
        flows.map(|(place, flow)| (std::cmp::Reverse(flow.size), flow.id, place)).collect();
    if largest.len() > FLOWS {
        largest.sort_unstable();
        largest.truncate(FLOWS);
    }
    let largest = largest.into_iter().map(|(.., place)| outcome.flows.at(place));
    let largest: Vec<FlowRecord> = largest.collect();
    let jobs: BTreeSet<JobId> = largest.iter().map(|flow| flow.job).collect();
    let known = outcome.jobs.iter().filter(|job| jobs.contains(&job.id));
    let known: BTreeMap<JobId, JobRecord> = known.map(|job| (job.id, job)).collect();
    Run {
        policy: ran.policy.clone(),
        end_ns: outcome.end.as_nanos(),
        applications: outcome.applications.clone(),
        more: outcome.flows.len() - largest.len(),
        flows: largest.iter().map(|record| flow(network, record)).collect(),
        jobs: jobs
            .into_iter()
            .filter_map(|id| known.get(&id))
            .map(|record| job(record, terms.get(&record.id)))
            .collect(),
        notes: outcome.notes.clone(),
    }
}

fn flow(network: &Network, record: &FlowRecord) -> Flow {
    let mut path = Vec::new();
    // Worlds choose among equal paths by the flow's number.
    network.path(record.src, record.dst, u64::from(record.id.0), &mut path);
    let limits = record.limits.iter().take(LIMITS);
    Flow {
        id: record.id.0,
        job: record.job.0,
        application: record.application,
        size: (record.size < Bytes::MAX).then(|| record.size.get()),
        delivered: record.delivered.get(),
        start_ns: record.start.as_nanos(),
        end_ns: record.end.map(Time::as_nanos),
        limits: limits.map(|(at, rate)| (at.as_nanos(), rate.map(Rate::as_bps))).collect(),
        path: path.into_iter().map(model::LinkId::index).collect(),
    }
}

fn job(record: &JobRecord, terms: Option<&Terms>) -> Job {
    let objective = terms.and_then(|terms| terms.objective.as_deref());
    Job {
        id: record.id.0,
        application: record.application,
        arrival_ns: record.arrival.as_nanos(),
        end_ns: record.end.map(Time::as_nanos),
        objective: objective.unwrap_or_default().to_owned(),
        weight: terms.map_or(1, |terms| terms.weight),
        deadline_ns: terms.and_then(|terms| terms.deadline).map(Span::as_nanos),
    }
}
