//! The results for a terminal: a table for each figure, and how many hold.

use comfy_table::Cell;

use super::judged::{ChoiceResult, Reproduction};
use crate::table::{finished, new_table, printable, right};

impl Reproduction {
    /// Plain text without escape sequences.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for figure in &self.figures {
            let title = figure.panels.first().map_or("", |panel| panel.title.as_str());
            let name =
                format!("{}/{}: {title}: {}\n", figure.text, figure.number, figure.verdict_name());
            text += &printable(&name);
            text.push('\n');
            if !figure.measures.is_empty() {
                let mut table = new_table(None);
                table.set_header(["measure", "ours", "published", "verdict"]);
                for measure in &figure.measures {
                    table.add_row([
                        Cell::new(printable(&measure.name)),
                        right(measure.ours_shown()),
                        right(measure.published.shown()),
                        Cell::new(measure.verdict_shown()),
                    ]);
                }
                text += &finished(&table);
            }
            for reason in figure.reason.lines() {
                text += &printable(reason);
                text.push('\n');
            }
            for choice in &figure.choices {
                text += &chosen(choice);
            }
            text.push('\n');
        }
        text
    }
}

/// A choice with our values under what else was possible.
fn chosen(choice: &ChoiceResult) -> String {
    let mut text = printable(&choice.told());
    text.push('\n');
    let mut table = new_table(None);
    table.set_header([
        "instead",
        "measure",
        "ours",
        "published",
        "verdict",
        "what stands, same seeds",
    ]);
    for tried in &choice.tried {
        for measure in &tried.measures {
            table.add_row([
                Cell::new(printable(&tried.name)),
                Cell::new(printable(&measure.name)),
                right(measure.ours_shown()),
                right(measure.published.shown()),
                Cell::new(measure.verdict_shown()),
                Cell::new(measure.same_seeds_shown()),
            ]);
        }
        if !tried.failed.is_empty() {
            let failed = format!("failed: {}", tried.failed);
            table.add_row([printable(&tried.name), printable(&failed)]);
        }
    }
    text + &finished(&table)
}
