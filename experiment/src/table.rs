//! The comparison for a terminal: a row per metric, a column per policy; below it every published
//! value beside ours.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use comfy_table::{ContentLineStyle, LineStyle, TableStyle};

use crate::metrics::{Unit, human, names};
use crate::published::Published;
use crate::rates;
use crate::result::{PolicyResult, RunResult};

/// The metrics shown when a scenario names none.
pub const DEFAULT_METRICS: &[&str] = &[
    "jct_mean_s",
    "jct_p50_s",
    "jct_p95_s",
    "jct_mean_change_ratio",
    "jct_p95_change_ratio",
    "jobs_improved_ratio",
    "jct_worst_increase_s",
    "jobs_completed_ratio",
    "makespan_s",
    "goodput_bps",
    "transmit_time_ratio",
    "retransmissions_count",
    "timeouts_count",
    "drops_count",
];

/// Writes the comparison of the metrics `shown` (all that were measured when empty), of what applications
/// measured under names of their own, and of what is published, as plain text without escape sequences, at
/// most `width` columns wide where that is given.
pub fn render(result: &RunResult, shown: &[&str], width: Option<u16>) -> String {
    let mut text = compare(result, shown, width);
    for own in &result.results {
        for note in &own.notes {
            text.push_str(&format!("{}: {}\n", printable(&own.policy), printable(note)));
        }
        if let Some(rates) = rates::show(&own.rates) {
            text.push_str(&format!("{}: {rates}\n", printable(&own.policy)));
        }
    }
    if result.results.iter().any(|r| !r.published.is_empty()) {
        text.push_str("\nBeside the published figures:\n");
        text.push_str(&beside_published(result, width));
    }
    text
}

fn compare(result: &RunResult, shown: &[&str], width: Option<u16>) -> String {
    let mut table = new_table(width);
    let policies = result.results.iter().map(|r| {
        let baseline = result.baseline.as_ref() == Some(&r.policy);
        let mark = if baseline { " (baseline)" } else { "" };
        right(printable(&r.policy) + mark)
    });
    table.set_header([Cell::new("metric")].into_iter().chain(policies));
    let every: Vec<_> = names().collect();
    let shown = if shown.is_empty() { &every } else { shown };
    for name in shown.iter().copied().chain(result.counters()) {
        let results = result.results.iter();
        if results.clone().all(|r| !r.metrics.contains_key(name)) {
            continue;
        }
        let cells = results.map(|r| right(measured(r, name)));
        table.add_row([Cell::new(name)].into_iter().chain(cells));
    }
    finished(&table)
}

/// Writes the metrics `shown` (all that were measured when empty) of one policy over several
/// results, a column for each under its heading. A published figure that all share comes first.
pub fn across(columns: &[(String, &RunResult)], policy: &str, shown: &[&str]) -> String {
    let results: Vec<Option<&PolicyResult>> = columns
        .iter()
        .map(|(_, result)| result.results.iter().find(|r| r.policy == policy))
        .collect();
    let known = |name: &str| {
        let figure = results.iter().flatten().find_map(|r| r.published.get(name));
        figure.map(Published::shown)
    };
    let every: Vec<_> = names().collect();
    let rows = if shown.is_empty() { &every[..] } else { shown };
    let measured_somewhere =
        |name: &&str| results.iter().flatten().any(|r| r.metrics.contains_key(*name));
    let mut table = new_table(None);
    let headings = columns.iter().map(|(heading, _)| right(printable(heading)));
    table.set_header(
        [Cell::new(printable(policy)), right("published".to_owned())].into_iter().chain(headings),
    );
    for &name in rows.iter().filter(|name| measured_somewhere(name)) {
        let cells =
            results.iter().map(|r| right(r.map_or_else(String::new, |r| measured(r, name))));
        let row = [Cell::new(name), right(known(name).unwrap_or_default())];
        table.add_row(row.into_iter().chain(cells));
    }
    finished(&table)
}

fn beside_published(result: &RunResult, width: Option<u16>) -> String {
    let mut table = new_table(width);
    let header = ["policy", "metric", "ours", "published", "verdict", "source"];
    table.set_header(header);
    for r in &result.results {
        for (name, figure) in &r.published {
            table.add_row([
                Cell::new(printable(&r.policy)),
                Cell::new(printable(name)),
                right(measured(r, name)),
                right(figure.shown()),
                Cell::new(r.verdicts.get(name).map_or("", |verdict| verdict.name())),
                Cell::new(printable(&figure.source)),
            ]);
        }
    }
    finished(&table)
}

/// The policy's value, with its interval if runs were repeated: `36.4 s ± 1.20 s`.
pub(crate) fn measured(result: &PolicyResult, name: &str) -> String {
    let value = shown_value(name, result.metrics.get(name).copied());
    match result.interval95.get(name) {
        Some(width) => format!("{value} ± {}", Unit::of(name).show(*width)),
        None => value,
    }
}

/// A value for people; a dash where nothing was measured.
pub(crate) fn shown_value(name: &str, value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| human(name, value))
}

pub(crate) fn new_table(width: Option<u16>) -> Table {
    let mut table = Table::new();
    let style = TableStyle::new()
        .header_lines(ContentLineStyle::none())
        .header_separator(LineStyle::none().fill('─').junction('─'))
        .content_lines(ContentLineStyle::none());
    table.load_style(style);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table
}

pub(crate) fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

pub(crate) fn finished(table: &Table) -> String {
    table.trim_fmt() + "\n"
}

/// A scenario's text without control characters, which could steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
