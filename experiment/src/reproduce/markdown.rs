//! The results as a page of documentation.

use std::path::Path;

use super::judged::{ChoiceResult, FigureResult, Measure, Reproduction};
use crate::files::{WriteError, write_whole};
use crate::metrics::{Unit, human};
use crate::published::Verdict;

impl Measure {
    /// Our value for people, with its interval.
    pub fn ours_shown(&self) -> String {
        let key = self.published.key();
        let ours = self.ours.map_or_else(|| "–".to_owned(), |value| human(&key, value));
        match self.interval {
            Some(half) => format!("{ours} ± {}", Unit::of(&key).show(half)),
            None => ours,
        }
    }
}

impl Reproduction {
    /// Writes the page to the file `path`; `command` reproduces it.
    ///
    /// # Errors
    /// A file that can't be written; no part of it is left.
    pub fn write_markdown(&self, path: &Path, command: &str) -> Result<(), WriteError> {
        let page = self.markdown(command);
        write_whole(path, |file| file.write_all(page.as_bytes()))
    }

    /// The page.
    pub fn markdown(&self, command: &str) -> String {
        let mut page = format!(
            "# Results: published figures, and ours\n\n\
             Written by `{command}`. Each scenario holds what is published, with a tolerance; `a ± b` of ours is a mean\n\
             with half of its 95 % interval over the repetitions, of the published the tolerance. [metrics.md](metrics.md)\n\
             explains the names and the verdicts.\n\n"
        );
        if self.quick {
            page += "A quick run: few points and repetitions.\n\n";
        }
        page += &self.counts();
        let headline: Vec<_> = self.headline().collect();
        if !headline.is_empty() {
            page += "\n## The most important results\n\n";
            page += "| text | figure | measure | published | ours | verdict |\n|---|---|---|---|---|---|\n";
            for (figure, measure) in headline {
                page += &format!("| {} | {} | {}\n", figure.text, figure.number, cells(measure));
            }
        }
        let mut text = "";
        for figure in &self.figures {
            if text != figure.text {
                text = &figure.text;
                page += &format!("\n## {text}\n");
            }
            page += &section(figure);
        }
        page
    }

    /// The number of figures and values by verdict.
    fn counts(&self) -> String {
        let names = Verdict::ALL.map(|verdict| match verdict {
            Verdict::None => "not run or nothing published",
            verdict => verdict.name(),
        });
        let mut table =
            format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
        let figures: Vec<Verdict> = self.figures.iter().map(|figure| figure.verdict).collect();
        let values = self.figures.iter().flat_map(|figure| &figure.measures);
        let values: Vec<Verdict> = values.map(|measure| measure.verdict).collect();
        for (name, verdicts) in [("figures", figures), ("published values", values)] {
            let count = |verdict| verdicts.iter().filter(|&&other| other == verdict).count();
            let counts = Verdict::ALL.map(|verdict| count(verdict).to_string());
            table += &format!("| {name} | {} |\n", counts.join(" | "));
        }
        table
    }
}

fn section(figure: &FigureResult) -> String {
    let title = figure.panels.first().map_or("", |panel| panel.title.as_str());
    let mut page = format!(
        "\n### {} {}: {}\n\n**{}**",
        figure.text,
        figure.number,
        cell(title),
        figure.verdict_name()
    );
    for panel in &figure.panels {
        page += &format!(" · {}", cell(&panel.source));
    }
    page += "\n";
    if !figure.measures.is_empty() {
        page += "\n| measure | published | ours | verdict |\n|---|---|---|---|\n";
        for measure in &figure.measures {
            page += &format!("| {}\n", cells(measure));
        }
    }
    for reason in figure.reason.lines() {
        page += &format!("\n{}\n", cell(reason));
    }
    for choice in &figure.choices {
        page += &chosen(choice);
    }
    page
}

/// A choice with our values under what else was possible.
fn chosen(choice: &ChoiceResult) -> String {
    let mut page = format!(
        "\nThe text doesn't say {}. Here: {} ({}: {}).\n",
        cell(&choice.about),
        cell(&choice.stands),
        choice.rule.shown(),
        cell(&choice.why)
    );
    page += "\n| instead | measure | published | ours | verdict |\n|---|---|---|---|---|\n";
    for tried in &choice.tried {
        let name = cell(&tried.name);
        for measure in &tried.measures {
            page += &format!("| {name} | {}\n", cells(measure));
        }
        if !tried.failed.is_empty() {
            page += &format!("| {name} | failed: {} | | | |\n", cell(&tried.failed));
        }
    }
    page
}

fn cells(measure: &Measure) -> String {
    let (published, ours) = (measure.published.shown(), measure.ours_shown());
    let name = cell(&measure.name);
    format!("{name} | {published} | {ours} | {} |", measure.verdict.name())
}

/// A scenario's text in a table cell.
fn cell(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain
        .flat_map(|c| matches!(c, '|' | '<' | '*' | '`').then_some('\\').into_iter().chain([c]))
        .collect()
}
