//! The flow timeline (Phurti, figure 6.2): a row per flow, thick while it is in TRANSMIT, thin while
//! it is SLOW; a panel per policy on one time axis.

use std::collections::{BTreeMap, BTreeSet};

use engine::FlowRecord;
use model::{FlowId, JobId, Topology};
use units::Time;

use crate::metrics::{Unit, transmit};
use crate::result::Run;

use super::html::{Figure, Table};
use super::svg::{Drawing, Scale, Spread, px};

/// Most flows drawn.
const MOST_FLOWS: usize = 40;
/// Most flows drawn of one job when not all fit, so that several jobs are visible.
const MOST_OF_A_JOB: usize = 4;
/// Colours of jobs, taken in turn.
const COLOURS: usize = 6;
const WIDTH: f64 = 1100.0;
const RIGHT: f64 = 1084.0;
/// Most characters of a row's label.
const LABEL: usize = 34;
const ROW: f64 = 15.0;
const PANEL_HEAD: f64 = 30.0;

/// The timelines of `runs`; `None` without flows.
pub(super) fn figure(topology: &Topology, runs: &[Run]) -> Option<Figure> {
    let every = runs.iter().flat_map(|run| &run.outcome.flows);
    let every: BTreeMap<FlowId, JobId> = every.map(|flow| (flow.id, flow.job)).collect();
    let chosen = choose(&every);
    let panels: Vec<Panel<'_>> = runs.iter().map(|run| Panel::new(run, &chosen)).collect();
    let flows = || panels.iter().flat_map(|panel| panel.flows.iter().map(move |f| (f, panel.end)));
    let from = flows().map(|(flow, _)| flow.start).min()?.as_secs_f64();
    let to = flows().map(|(f, end)| f.end.unwrap_or(end)).max()?.as_secs_f64();
    let jobs: Vec<JobId> = {
        let jobs: BTreeSet<JobId> = flows().map(|(flow, _)| flow.job).collect();
        jobs.into_iter().collect()
    };

    let widest = flows().map(|(flow, _)| label(topology, flow).chars().count()).max()?;
    let x = (16.0 + 7.2 * widest.min(LABEL) as f64, RIGHT);
    let time = Scale::new(Spread::Linear, from, to, x);
    let heights = panels.iter().map(|p| PANEL_HEAD + ROW * p.flows.len() as f64);
    let bottom = heights.sum::<f64>();
    let mut drawing = Drawing::new(WIDTH, bottom + 28.0);
    let mut top = 0.0;
    for panel in &panels {
        let rows = top + PANEL_HEAD;
        drawing.text("panel", "start", (0.0, rows - 8.0), &panel.run.policy);
        let below = rows + ROW * panel.flows.len() as f64;
        for (tick, text) in time.ticks() {
            let across = time.at(tick);
            drawing.line("grid", (across, rows), (across, below));
            drawing.text("tick", "middle", (across, rows - 6.0), &text);
        }
        for (row, flow) in panel.flows.iter().enumerate() {
            let middle = rows + ROW * (row as f64 + 0.5);
            let short: String = label(topology, flow).chars().take(LABEL).collect();
            drawing.text("tick", "end", (x.0 - 8.0, middle + 4.0), &short);
            let job = jobs.iter().position(|job| *job == flow.job).unwrap_or(0);
            let class = format!("bar j{}", job % COLOURS);
            let shape = shape(flow, panel.end, &time, middle);
            drawing.path(&class, &shape, &tip(topology, flow, panel.end));
        }
        top = below;
    }
    let middle = f64::midpoint(x.0, x.1);
    drawing.text("label", "middle", (middle, bottom + 20.0), "time (s)");

    let part = if chosen.len() < every.len() {
        format!(
            " The first {MOST_OF_A_JOB} flows of each job, up to {MOST_FLOWS} of {} in all.",
            every.len()
        )
    } else {
        String::new()
    };
    let keys = jobs.iter().take(COLOURS).enumerate();
    Some(Figure {
        title: "Flow timeline".to_owned(),
        caption: format!(
            "A row per flow, labelled with its job and path and coloured by job: thick while it \
             transmits freely, thin while a limit holds it back. An arrow marks a flow that the \
             run's end cut off.{part}"
        ),
        legend: if jobs.len() > COLOURS {
            Vec::new()
        } else {
            keys.map(|(n, job)| (format!("j{n} bars"), format!("job {}", job.0))).collect()
        },
        svg: drawing.finish("Timeline of flows under each policy"),
        numbers: numbers(topology, &panels),
        wide: true,
    })
}

/// The flows to draw: all when they are few, else the first of each job, by number.
fn choose(every: &BTreeMap<FlowId, JobId>) -> BTreeSet<FlowId> {
    if every.len() <= MOST_FLOWS {
        return every.keys().copied().collect();
    }
    let mut drawn: BTreeMap<JobId, usize> = BTreeMap::new();
    let first = every.iter().filter(|(_, job)| {
        let of_job = drawn.entry(**job).or_default();
        *of_job += 1;
        *of_job <= MOST_OF_A_JOB
    });
    first.map(|(flow, _)| *flow).take(MOST_FLOWS).collect()
}

/// The flows drawn of one run.
struct Panel<'a> {
    run: &'a Run,
    flows: Vec<FlowRecord>,
    end: Time,
}

impl<'a> Panel<'a> {
    fn new(run: &'a Run, chosen: &BTreeSet<FlowId>) -> Self {
        let mut flows: Vec<_> =
            run.outcome.flows.iter().filter(|f| chosen.contains(&f.id)).collect();
        flows.sort_by_key(|flow| flow.id);
        Self { run, flows, end: run.outcome.end }
    }
}

fn label(topology: &Topology, flow: &FlowRecord) -> String {
    let [src, dst] = [flow.src, flow.dst].map(|node| topology.node_name(node));
    format!("job {} {src}⇝{dst}", flow.job.0)
}

/// The life of a flow around the height `middle`.
fn shape(flow: &FlowRecord, end: Time, time: &Scale, middle: f64) -> String {
    const THICK: f64 = 4.5;
    const THIN: f64 = 1.0;
    let across = |at: Time| time.at(at.as_secs_f64());
    let last = flow.end.unwrap_or(end);
    let rectangle = |from: f64, to: f64, half: f64| {
        let [left, upper, width, height] =
            [from, middle - half, (to - from).max(1.0), 2.0 * half].map(px);
        format!("M{left} {upper}h{width}v{height}h-{width}z")
    };
    let mut commands = rectangle(across(flow.start), across(last), THIN);
    // Periods less than half a pixel apart are drawn as one, which bounds the size of a row.
    let mut thick: Vec<(f64, f64)> = Vec::new();
    for stretch in transmit::stretches(flow, end).iter().filter(|s| s.free) {
        let (from, to) = (across(stretch.from), across(stretch.to));
        match thick.last_mut() {
            Some(previous) if from - previous.1 < 0.5 => previous.1 = to,
            _ => thick.push((from, to)),
        }
    }
    for (from, to) in thick {
        commands += &rectangle(from, to, THICK);
    }
    if flow.end.is_none() {
        let [x, y] = [across(last), middle - 5.0].map(px);
        commands += &format!("M{x} {y}l6 5l-6 5z");
    }
    commands
}

/// The tooltip of the flow.
fn tip(topology: &Topology, flow: &FlowRecord, end: Time) -> String {
    let seconds = |time: Time| Unit::Seconds.show(time.as_secs_f64());
    let times = [flow.start, flow.end.unwrap_or(end)].map(seconds).join(" to ");
    let share = transmit::of_flow(flow, end).unwrap_or(1.0);
    let share = Unit::Ratio.show(share);
    let name = label(topology, flow);
    format!("flow {}, {name}: {times}, in TRANSMIT for {share} of it", flow.id.0)
}

fn numbers(topology: &Topology, panels: &[Panel<'_>]) -> Table {
    let header = ["flow", "job", "path", "policy", "start", "end", "in TRANSMIT"];
    let mut table = Table::new("Flows drawn", header.map(str::to_owned));
    let mut rows: Vec<_> = panels
        .iter()
        .enumerate()
        .flat_map(|(n, panel)| panel.flows.iter().map(move |flow| (flow.id, n, flow, panel)))
        .collect();
    rows.sort_by_key(|(flow, panel, ..)| (*flow, *panel));
    for (_, _, flow, panel) in rows {
        let [src, dst] = [flow.src, flow.dst].map(|node| topology.node_name(node));
        let seconds = |time: Time| Unit::Seconds.show(time.as_secs_f64());
        let share = transmit::of_flow(flow, panel.end);
        table.row([
            flow.id.0.to_string(),
            flow.job.0.to_string(),
            format!("{src}⇝{dst}"),
            panel.run.policy.clone(),
            seconds(flow.start),
            flow.end.map_or_else(|| "cut off".to_owned(), seconds),
            share.map_or_else(String::new, |share| Unit::Ratio.show(share)),
        ]);
    }
    table
}
