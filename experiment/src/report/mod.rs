//! One self-contained HTML page about a result: its origin, our values beside the published ones,
//! and plots with their numbers. It loads nothing and runs no script.
//!
//! The plots are those of Phurti, section 6: completion times, their difference from the baseline
//! (figure 6.3), their change by job class (6.4), the effective transmit rate (6.5, 6.6), and the
//! flow timeline (6.2).

mod bars;
mod cdf;
mod html;
mod markdown;
mod plot;
mod results;
mod svg;
mod timeline;

use std::collections::BTreeMap;
use std::path::Path;

use engine::Outcome;
use model::{LinkId, Topology};
use units::Span;

use crate::files::{WriteError, write_whole};
use crate::metrics::{self, Metrics, Sample, Unit, transmit};
use crate::published::Verdict;
use crate::result::{PolicyResult, Run, RunResult};
use crate::table::{DEFAULT_METRICS, measured};

pub use results::{render as render_results, write as write_results};

use bars::Bars;
use cdf::{Curve, Quantity};
use html::{Figure, Table, classes, escape, page};

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// One line on the scenario; its name when empty.
    pub title: &'a str,
    /// The text that the experiment is from; may be empty.
    pub source: &'a str,
    /// The command that reproduces the result.
    pub command: &'a str,
    /// The network.
    pub topology: &'a Topology,
    /// What happened under each policy, in the order of `result.results`; of repeated runs the
    /// first.
    pub runs: &'a [Run],
    /// What was measured.
    pub result: &'a RunResult,
}

/// Writes the report to the file `path`.
///
/// # Errors
/// A file that can't be written; no part of it is left.
pub fn write(path: &Path, report: &Report<'_>) -> Result<(), WriteError> {
    let page = render(report);
    write_whole(path, |file| file.write_all(page.as_bytes()))
}

/// The report as one HTML document.
pub fn render(report: &Report<'_>) -> String {
    let origin = &report.result.origin;
    let title = if report.title.is_empty() { &origin.scenario } else { report.title };
    let mut body = format!("<header>\n<h1>{}</h1>\n", escape(title));
    if !report.source.is_empty() {
        body += &format!("<p class=\"source\">{}</p>\n", escape(report.source));
    }
    let policies: Vec<&str> = report.runs.iter().map(|run| run.policy.as_str()).collect();
    let seed = origin.seed.to_string();
    let about = [
        ("Scenario", origin.scenario.as_str()),
        ("World", &origin.world),
        ("Policies", &policies.join(", ")),
        ("Baseline", report.result.baseline.as_deref().unwrap_or("none")),
        ("Seed", &seed),
        ("Random numbers", &origin.random),
        ("Watermaster", &origin.version),
    ];
    body += "<dl>";
    for (term, value) in about {
        body += &format!("<div><dt>{term}</dt><dd>{}</dd></div>", escape(value));
    }
    body +=
        &format!("</dl>\n<pre><code>{}</code></pre>\n</header>\n<main>\n", escape(report.command));

    body += "<h2>Results</h2>\n";
    body += &comparison(report.result, DEFAULT_METRICS);
    for result in &report.result.results {
        for note in &result.notes {
            body += &format!("<p>{}: {}</p>\n", escape(&result.policy), escape(note));
        }
    }
    body += &beside_published(report.result);
    body += "<h2>Plots</h2>\n";
    if report.result.results.iter().any(|r| !r.interval95.is_empty()) {
        body += "<p>Runs were repeated: the tables and bars by class give means (± half the width \
                 of the 95 % interval), every other plot shows the first repetition.</p>\n";
    }
    body += "<div class=\"figures\">\n";
    for figure in figures(report) {
        body += &figure.html();
    }
    body +=
        "</div>\n<h2>All metrics</h2>\n<details><summary>Every metric of every policy</summary>\n";
    let every: Vec<_> = metrics::names().collect();
    body += &comparison(report.result, &every);
    page(title, &(body + "</details>\n</main>\n"))
}

fn comparison(result: &RunResult, names: &[&str]) -> String {
    let policies = result.results.iter().map(|r| {
        let baseline = result.baseline.as_ref() == Some(&r.policy);
        format!("{}{}", r.policy, if baseline { " (baseline)" } else { "" })
    });
    let header = ["metric".to_owned()].into_iter().chain(policies);
    let mut table = Table::new("What each policy gave", header);
    for name in names.iter().copied().chain(result.counters()) {
        if result.results.iter().any(|r| r.metrics.contains_key(name)) {
            let cells = result.results.iter().map(|r| measured(r, name));
            table.row([name.to_owned()].into_iter().chain(cells));
        }
    }
    table.html()
}

/// Written by hand because verdicts have a style class.
fn beside_published(result: &RunResult) -> String {
    let rows = |r: &PolicyResult| -> String {
        let rows = r.published.iter().map(|(name, figure)| {
            let verdict = r.verdicts.get(name).copied().unwrap_or(Verdict::None);
            let class = html::class(verdict);
            let about = [figure.source.as_str(), &figure.note];
            let about = about.into_iter().filter(|text| !text.is_empty());
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td>\
                 <td class=\"verdict {class}\">{}</td><td>{}</td></tr>\n",
                escape(&r.policy),
                escape(name),
                measured(r, name),
                figure.shown(),
                verdict.name(),
                escape(&about.collect::<Vec<_>>().join(". ")),
            )
        });
        rows.collect()
    };
    let rows: String = result.results.iter().map(rows).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<div class=\"scroll\"><table class=\"published\"><caption>Beside the published figures</caption>\
         <thead><tr><th scope=\"col\">policy</th><th scope=\"col\">metric</th>\
         <th scope=\"col\">ours</th><th scope=\"col\">published</th>\
         <th scope=\"col\">verdict</th><th scope=\"col\">source</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>\n"
    )
}

fn figures(report: &Report<'_>) -> Vec<Figure> {
    let baseline = report.result.baseline.as_deref();
    let classes = classes(report.runs.iter().map(|run| run.policy.as_str()), baseline);
    let base = report.runs.iter().find(|run| Some(run.policy.as_str()) == baseline);
    let curves = |sample: &dyn Fn(&Outcome) -> Sample| -> Vec<Curve> {
        let curves = report.runs.iter().zip(&classes).map(|(run, class)| Curve {
            class: class.clone(),
            name: run.policy.clone(),
            sample: sample(&run.outcome),
        });
        curves.collect()
    };
    let seconds = |spans: &mut dyn Iterator<Item = Span>| spans.map(Span::as_secs_f64).collect();

    let jct = curves(&|o| seconds(&mut o.jobs.iter().filter_map(|job| job.completion())));
    let fct = curves(&|o| seconds(&mut o.flows.iter().filter_map(|flow| flow.completion())));
    let mut figures = vec![cdf::figure(jct_quantity(), &jct)];
    if let Some(base) = base {
        let mut increase = curves(&|o| metrics::jct_increase(report.topology, o, &base.outcome));
        increase.retain(|curve| curve.name != base.policy);
        figures.push(cdf::figure(increase_quantity(&base.policy), &increase));
    }
    figures.extend(class_bars(report, &classes));
    if report.runs.iter().any(|run| run.outcome.flows.iter().any(|f| !f.limits.is_empty())) {
        let rates = curves(&|o| transmit::of_jobs(o).into_values().collect());
        figures.push(cdf::figure(transmit_quantity(), &rates));
    }
    figures.push(cdf::figure(fct_quantity(), &fct));
    figures.push(links(report, &classes));
    figures.push(timeline::figure(report.topology, report.runs));
    figures.into_iter().flatten().collect()
}

fn jct_quantity() -> Quantity {
    Quantity {
        title: "Job completion time".to_owned(),
        caption: "Share of completed jobs that took at most so long; further left is better."
            .to_owned(),
        label: "job completion time".to_owned(),
        unit: Unit::Seconds,
        signed: None,
    }
}

fn increase_quantity(baseline: &str) -> Quantity {
    Quantity {
        title: "Difference in job completion time".to_owned(),
        caption: format!(
            "Each job's completion time minus the same job's under {baseline}, over jobs completed \
             in both runs; left of zero is quicker."
        ),
        label: format!("difference from {baseline}"),
        unit: Unit::Seconds,
        signed: Some(["quicker".to_owned(), "slower".to_owned()]),
    }
}

fn transmit_quantity() -> Quantity {
    Quantity {
        title: "Effective transmit rate".to_owned(),
        caption: "Share of jobs whose flows spent at most so much of their life in TRANSMIT; \
                  further right is better."
            .to_owned(),
        label: "share of life in TRANSMIT".to_owned(),
        unit: Unit::Ratio,
        signed: None,
    }
}

fn fct_quantity() -> Quantity {
    Quantity {
        title: "Flow completion time".to_owned(),
        caption: "Share of completed flows that took at most so long.".to_owned(),
        label: "flow completion time".to_owned(),
        unit: Unit::Seconds,
        signed: None,
    }
}

fn class_bars(report: &Report<'_>, classes: &[String]) -> Vec<Option<Figure>> {
    let policies = |with_baseline: bool| -> Vec<Bars<'_, Metrics>> {
        let results = report.result.results.iter().zip(classes);
        let kept = results
            .filter(|(r, _)| with_baseline || Some(&r.policy) != report.result.baseline.as_ref());
        let bars = kept.map(|(r, class)| Bars {
            class: class.clone(),
            name: r.policy.clone(),
            values: &r.metrics,
        });
        bars.collect()
    };
    let (all, others) = (policies(true), policies(false));
    vec![
        bars::by_class(
            "Change of mean completion time",
            "Mean job completion time against the baseline; below zero is shorter.",
            "jct_mean_change{}_ratio",
            &others,
        ),
        bars::by_class(
            "Change of the 95th percentile",
            "95th percentile of job completion time against the baseline; below zero is shorter.",
            "jct_p95_change{}_ratio",
            &others,
        ),
        bars::by_class(
            "Time in TRANSMIT",
            "Share of their life that a job's flows spent without a limit, mean over jobs.",
            "jobs_transmit_time{}_ratio",
            &all,
        ),
    ]
}

fn links(report: &Report<'_>, classes: &[String]) -> Option<Figure> {
    let used: Vec<BTreeMap<LinkId, f64>> = report
        .runs
        .iter()
        .map(|run| metrics::link_utilization(report.topology, &run.outcome))
        .collect();
    let policies: Vec<_> = report
        .runs
        .iter()
        .zip(classes)
        .zip(&used)
        .map(|((run, class), values)| Bars {
            class: class.clone(),
            name: run.policy.clone(),
            values,
        })
        .collect();
    bars::links(report.topology, &policies)
}
