//! The results for a terminal: a table for each figure, and how many hold.

use comfy_table::Cell;

use super::judged::Reproduction;
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
                        Cell::new(measure.verdict.name()),
                    ]);
                }
                text += &finished(&table);
            }
            for reason in figure.reason.lines() {
                text += &printable(reason);
                text.push('\n');
            }
            text.push('\n');
        }
        text
    }
}
