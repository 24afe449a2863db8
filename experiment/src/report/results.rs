//! One self-contained page about a reproduction: each figure laid out like the text's, our values
//! beside the published ones.

use std::path::Path;

use document::Setting;

use crate::files::{WriteError, write_whole};
use crate::metrics::{Unit, distributions};
use crate::published::Bound;
use crate::reproduce::{ChoiceResult, Drawn, FigureResult, Measure, PanelResult, Reproduction};

use super::cdf::{self, Curve, Quantity};
use super::html::{Figure, class, classes, escape, page};
use super::plot::{self, Series, Subject, Value};

/// Writes the page to the file `path`; `command` reproduces it.
///
/// # Errors
/// A file that can't be written; no part of it is left.
pub fn write(path: &Path, reproduction: &Reproduction, command: &str) -> Result<(), WriteError> {
    let page = render(reproduction, command);
    write_whole(path, |file| file.write_all(page.as_bytes()))
}

/// The page as one HTML document.
pub fn render(reproduction: &Reproduction, command: &str) -> String {
    let mut body = format!(
        "<header>\n<h1>Published figures, reproduced</h1>\n<pre><code>{}</code></pre>\n</header>\n<main>\n",
        escape(command)
    );
    if reproduction.quick {
        body += "<p>A quick run: few points and repetitions, no choices.</p>\n";
    }
    body += "<p>Filled marks and bars are ours, with the 95 % interval over the repetitions; \
             hollow marks are published; bounds have none.</p>\n";
    let headline: Vec<_> = reproduction.headline().collect();
    if !headline.is_empty() {
        body += "<h2>The most important results</h2>\n";
        body += &table(headline.into_iter().map(|(figure, measure)| {
            (format!("{} {}: {}", figure.text, figure.number, measure.name), measure)
        }));
    }
    let mut text = "";
    for figure in &reproduction.figures {
        if text != figure.text {
            text = &figure.text;
            body += &format!("<h2>{}</h2>\n", escape(text));
        }
        body += &section(figure);
    }
    page("Published figures, reproduced", &(body + "</main>\n"))
}

fn section(figure: &FigureResult) -> String {
    let mut html = format!(
        "<section id=\"{0}-{1}\">\n<h3>Figure {1}: {2} <span class=\"verdict {3}\">{4}</span></h3>\n",
        escape(&figure.text),
        escape(&figure.number),
        escape(&figure.title()),
        class(figure.verdict),
        figure.verdict_name(),
    );
    html += "<div class=\"figures\">\n";
    for plot in figure.panels.iter().flat_map(plots) {
        html += &plot.html();
    }
    html += "</div>\n";
    if !figure.measures.is_empty() {
        html += &table(figure.measures.iter().map(|measure| (measure.name.clone(), measure)));
    }
    for line in figure.reason.lines().chain(figure.notes.lines()) {
        html += &format!("<p class=\"source\">{}</p>\n", escape(line));
    }
    for choice in &figure.choices {
        html += &chosen(choice);
    }
    for (what, all) in [
        ("The text says it, and the setup has it not", &figure.lacking),
        ("Left open, and not tried", &figure.untried),
    ] {
        for one in all {
            html += &format!("<p class=\"source\">{what}: {}</p>\n", escape(one));
        }
    }
    html + "</section>\n"
}

/// A choice with our values under what else was possible.
fn chosen(choice: &ChoiceResult) -> String {
    let mut html = format!("<p class=\"source\">{} Instead:</p>\n", escape(&choice.told()));
    html += &table(choice.tried.iter().flat_map(|tried| {
        tried.measures.iter().map(|measure| (format!("{}: {}", tried.name, measure.name), measure))
    }));
    for tried in choice.tried.iter().filter(|tried| !tried.failed.is_empty()) {
        html += &format!(
            "<p class=\"source\">{}: failed: {}</p>\n",
            escape(&tried.name),
            escape(&tried.failed)
        );
    }
    html
}

/// Written by hand because verdicts have a style class.
fn table<'a>(rows: impl Iterator<Item = (String, &'a Measure)>) -> String {
    let rows: String = rows
        .map(|(name, measure)| {
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td>\
                 <td class=\"verdict {}\">{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&name),
                escape(&measure.ours_shown()),
                escape(&measure.published.shown()),
                class(measure.verdict),
                measure.verdict_shown(),
                escape(&measure.same_seeds_shown()),
                escape(&measure.published.source),
            )
        })
        .collect();
    format!(
        "<div class=\"scroll\"><table class=\"published\"><thead><tr><th scope=\"col\">measure</th>\
         <th scope=\"col\">ours</th><th scope=\"col\">published</th><th scope=\"col\">verdict</th>\
         <th scope=\"col\">what stands, same seeds</th><th scope=\"col\">source</th></tr></thead><tbody>{rows}</tbody></table></div>\n"
    )
}

/// The first plot of a figure, as a file of its own.
pub(super) fn picture(figure: &FigureResult) -> Option<String> {
    figure.panels.iter().flat_map(plots).next().map(|plot| plot.picture())
}

fn plots(panel: &PanelResult) -> Vec<Figure> {
    let Some(first) = panel.points.first() else {
        return Vec::new();
    };
    let title = match panel.figure.panel.as_str() {
        "" => panel.title.clone(),
        name => format!("{} ({name})", panel.title),
    };
    let classes = classes(
        first.result.results.iter().map(|result| result.policy.as_str()),
        first.result.baseline.as_deref(),
    );
    let metrics = &panel.figure.metrics;
    if distributions().any(|name| metrics.iter().any(|metric| metric == name)) {
        return panel
            .points
            .iter()
            .filter_map(|point| curves(panel, &title, point, &classes))
            .collect();
    }
    let subject = |unit, y| Subject {
        title: &title,
        caption: &panel.source,
        x: &panel.figure.x,
        y: if panel.figure.y.is_empty() { y } else { &panel.figure.y },
        unit,
    };
    let value = |point: &Drawn, policy: usize, metric: &String| {
        let Some(result) = point.result.results.get(policy) else {
            return Value::default();
        };
        Value {
            mean: result.metrics.get(metric).copied(),
            half: result.interval95.get(metric).copied().unwrap_or_default(),
            // A bound isn't a point.
            published: result
                .published
                .get(metric)
                .filter(|published| published.bound == Bound::Both && !published.is_by_rule())
                .and_then(|published| published.claim.size()),
        }
    };
    let policies = || first.result.results.iter().zip(&classes).enumerate();
    // A line for each policy along the axis; without an axis the metrics stand side by side.
    if panel.figure.vary.is_empty() {
        let places: Vec<Setting> = metrics.iter().map(|name| Setting::Text(name.clone())).collect();
        let series: Vec<Series> = policies()
            .map(|(policy, (result, class))| Series {
                class: class.clone(),
                name: result.policy.clone(),
                values: metrics.iter().map(|metric| value(first, policy, metric)).collect(),
            })
            .collect();
        let name = metrics.first().map_or("", String::as_str);
        let y = if metrics.len() == 1 { name } else { "value" };
        return plot::figure(&subject(Unit::of(name), y), &places, &series).into_iter().collect();
    }
    let places: Vec<Setting> = panel.points.iter().filter_map(|point| point.x.clone()).collect();
    let plots = metrics.iter().filter_map(|metric| {
        let series: Vec<Series> = policies()
            .map(|(policy, (result, class))| Series {
                class: class.clone(),
                name: result.policy.clone(),
                values: panel.points.iter().map(|point| value(point, policy, metric)).collect(),
            })
            .collect();
        plot::figure(&subject(Unit::of(metric), metric), &places, &series)
    });
    plots.collect()
}

fn curves(panel: &PanelResult, title: &str, point: &Drawn, classes: &[String]) -> Option<Figure> {
    let metric = panel.figure.metrics.first()?;
    let title = match &point.x {
        Some(x) => format!("{title}, {} {x}", panel.figure.x),
        None => title.to_owned(),
    };
    let results = point.result.results.iter().zip(classes).zip(&point.samples);
    let curves: Vec<Curve> = results
        .map(|((result, class), sample)| Curve {
            class: class.clone(),
            name: result.policy.clone(),
            sample: sample.clone(),
        })
        .collect();
    let signed = metric.contains("_increase_");
    let quantity = Quantity {
        title,
        caption: panel.source.clone(),
        label: if panel.figure.y.is_empty() { metric.clone() } else { panel.figure.y.clone() },
        unit: Unit::of(metric),
        signed: signed.then(|| ["less".to_owned(), "more".to_owned()]),
    };
    cdf::figure(quantity, &curves)
}
