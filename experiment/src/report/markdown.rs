//! The results as a page of documentation.

use std::fs;
use std::path::Path;

use crate::files::{WriteError, write_whole};
use crate::published::{Published, Verdict};
use crate::reproduce::{ChoiceResult, FigureResult, Measure, Reproduction};

use super::results;

const QUICK: &str = "A quick run: few points and repetitions, so that intervals are wide, and no\n\
     other value of what the texts leave open: no verdict is `undetermined`, and any may become it, and many are `unresolved`.\n\n";

impl Reproduction {
    /// Writes the page to the file `path`, and for each text a page and a picture into the folder of its name
    /// without the ending; `command` reproduces them.
    ///
    /// # Errors
    /// A folder that can't be made, or a file that can't be written, of which no part is left.
    pub fn write_markdown(&self, path: &Path, command: &str) -> Result<(), WriteError> {
        let folder = path.with_extension("");
        fs::create_dir_all(&folder)
            .map_err(|error| WriteError { path: folder.clone(), source: error.into() })?;
        let write =
            |path: &Path, page: &str| write_whole(path, |file| file.write_all(page.as_bytes()));
        for text in self.texts() {
            write(&folder.join(format!("{text}.md")), &self.text_markdown(text, command))?;
            if let Some((_, picture)) = self.picture(text) {
                write(&folder.join(format!("{text}.svg")), &picture)?;
            }
        }
        write(path, &self.markdown(command))
    }

    /// The texts, in order.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.figures
            .chunk_by(|one, next| one.text == next.text)
            .filter_map(|figures| figures.first().map(|figure| figure.text.as_str()))
    }

    /// A picture of the text's most important figure, else of the first that has one and tells something.
    fn picture(&self, text: &str) -> Option<(&FigureResult, String)> {
        let figures = || self.figures.iter().filter(|figure| figure.text == text);
        let important = figures()
            .filter(|figure| figure.measures.iter().any(|measure| measure.published.headline));
        let telling = figures().filter(|figure| figure.verdict != Verdict::NoInformation);
        important.chain(telling).find_map(|figure| Some((figure, results::picture(figure)?)))
    }

    /// The page about all texts: what was found, how many, and the most important.
    pub fn markdown(&self, command: &str) -> String {
        let mut page = "# Results: published figures, and ours\n\n".to_owned();
        for text in self.texts() {
            page += &self.found(text);
        }
        page += &format!(
            "\nWritten by `{command}`. Each scenario holds what is published and how exactly that can be read; `a ± b` of ours is a\n\
             mean with half of its 95 % interval over the repetitions, of the published the error of reading it. The texts\n\
             give no spread of their own: where they print four digits hardly anything can hold, only its direction. Their words\n\
             and tables were read, no plots.\n\
             [metrics.md](metrics.md#published-figures-and-verdicts) explains names and verdicts, [claims.md](claims.md) lists\n\
             what the texts claim and where each claim is judged.\n\n"
        );
        if self.quick {
            page += QUICK;
        }
        page += &self.counts();
        let headline: Vec<_> = self.headline().collect();
        if !headline.is_empty() {
            page += "\n## The most important results\n\n";
            page += "| text | figure | measure | published | ours | verdict |\n|---|---|---|---|---|---|\n";
            for (figure, measure) in headline {
                page += &format!("| {} | {} | {}\n", figure.text, figure.number, cells(measure));
            }
            page += &self.left_out();
        }
        page
    }

    /// Figures of which an important value isn't among the most important results, since its verdict
    /// says nothing of the text.
    fn left_out(&self) -> String {
        let figures = self.counted().filter_map(|figure| {
            let important = figure.measures.iter().filter(|m| m.published.headline);
            let mut verdicts: Vec<_> =
                important.map(|m| m.verdict).filter(|verdict| !verdict.decides()).collect();
            verdicts.sort();
            verdicts.dedup();
            let names: Vec<_> = verdicts.into_iter().map(Verdict::name).collect();
            let about = format!("{} {} ({})", figure.text, figure.number, names.join(", "));
            (!names.is_empty()).then_some(about)
        });
        let figures: Vec<String> = figures.collect();
        match figures.is_empty() {
            true => String::new(),
            false => format!(
                "\nAs important, and not in the table, since the verdict on them says nothing of the text: {}.\n",
                figures.join("; ")
            ),
        }
    }

    /// The page about one text: how many, what was found, and each of its figures.
    pub fn text_markdown(&self, text: &str, command: &str) -> String {
        let mut page = format!(
            "# {text}: published figures, and ours\n\n\
             Written by `{command}`. [results.md](../results.md) sums up all texts;\n\
             [metrics.md](../metrics.md#published-figures-and-verdicts) explains names and verdicts. Beside what was tried instead\n\
             stands what stands on the same seeds; where both are equal there is no row.\n"
        );
        if self.quick {
            page += "\n";
            page += QUICK.trim_end();
            page += "\n";
        }
        page += &format!("\n{}\n", self.counts_of(text));
        let more = self.words(text).1.trim_end();
        if !more.is_empty() {
            page += &format!("\n## What was found\n\n{more}\n");
        }
        let figures = || self.figures.iter().filter(|figure| figure.text == text);
        for figure in figures() {
            page += &section(figure);
        }
        page += &listed("The text says it, and the setup has it not", figures(), |f| {
            f.lacking.as_slice()
        });
        page += &listed("Left open, and not tried", figures(), |f| f.untried.as_slice());
        page
    }

    /// What was found of a text, in a maintainer's words: the first paragraph, for the page about all
    /// texts, and the others, for its own.
    fn words(&self, text: &str) -> (&str, &str) {
        let all = self.found.get(text).map_or("", String::as_str);
        all.split_once("\n\n").unwrap_or((all, ""))
    }

    /// A text on the page about all of them: its figures by verdict, what was found, and a picture.
    fn found(&self, text: &str) -> String {
        let figures: Vec<_> = self.counted().filter(|figure| figure.text == text).collect();
        let by = |verdict: Verdict| {
            let same = figures.iter().filter(|figure| figure.verdict == verdict);
            let numbers: Vec<&str> = same.map(|figure| figure.number.as_str()).collect();
            (!numbers.is_empty() && verdict != Verdict::None)
                .then(|| format!("**{}** {}", verdict.name(), numbers.join(", ")))
        };
        let found: Vec<String> = Verdict::ALL.into_iter().filter_map(by).collect();
        let judged = if found.is_empty() { "none was judged".to_owned() } else { found.join("; ") };
        let words = self.words(text).0.lines().map(|line| format!("  {line}\n"));
        format!("* [{text}](results/{text}.md), figures: {judged}.\n")
            + &words.collect::<String>()
            + &self.picture(text).map_or_else(String::new, |(figure, _)| {
                format!("\n  ![Figure {} of {text}](results/{text}.svg)\n\n", figure.number)
            })
    }

    /// How many of a text's values have which verdict, in a line.
    fn counts_of(&self, text: &str) -> String {
        let figures = self.counted().filter(|figure| figure.text == text);
        let (rules, values): (Vec<&Measure>, Vec<_>) = figures
            .flat_map(|figure| &figure.measures)
            .partition(|measure| measure.published.is_by_rule());
        let (numbers, orders): (Vec<&Measure>, Vec<_>) =
            values.into_iter().partition(|measure| measure.published.claim.size().is_some());
        let count = |all: &[&Measure], verdict| all.iter().filter(|m| m.verdict == verdict).count();
        let counted = |all: &[&Measure]| {
            format!(
                "{} hold, {} hold in direction, {} differ",
                count(all, Verdict::Holds),
                count(all, Verdict::DirectionHolds),
                count(all, Verdict::Differs)
            )
        };
        let mut line = format!("Of {} published numbers {}.", numbers.len(), counted(&numbers));
        if !orders.is_empty() {
            line += &format!(
                " Orders without a number: {}, of which {} hold in direction, {} differ.",
                orders.len(),
                count(&orders, Verdict::DirectionHolds),
                count(&orders, Verdict::Differs)
            );
        }
        if !rules.is_empty() {
            line += &format!(
                " Rules of ours make {} more of its words: {}.",
                rules.len(),
                counted(&rules)
            );
        }
        let again = self.figures.iter().filter(|f| f.text == text && f.same_values_as.is_some());
        let again: Vec<&str> = again.map(|figure| figure.number.as_str()).collect();
        if !again.is_empty() {
            line +=
                &format!(" Judged again from other input, and not counted: {}.", again.join(", "));
        }
        line
    }

    /// The number of figures and values by verdict.
    fn counts(&self) -> String {
        let names = Verdict::ALL.map(|verdict| match verdict {
            Verdict::None => "not run or nothing published",
            verdict => verdict.name(),
        });
        let mut table = "A figure has the verdict of its value that stands lowest in the order of \
             [metrics.md](metrics.md#published-figures-and-verdicts), so that one of ten that differs makes it differ.\n\n"
            .to_owned();
        table += &format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
        let figures: Vec<Verdict> = self.counted().map(|figure| figure.verdict).collect();
        let values = |is: fn(&Published) -> bool| {
            let all = self.counted().flat_map(|figure| &figure.measures);
            all.filter(|one| is(&one.published)).map(|one| one.verdict).collect()
        };
        let rows = [
            ("figures", figures),
            ("published numbers", values(|p| !p.is_by_rule() && p.claim.size().is_some())),
            ("published orders", values(|p| !p.is_by_rule() && p.claim.size().is_none())),
            ("values by our rules", values(Published::is_by_rule)),
        ];
        for (name, verdicts) in rows {
            let count = |verdict| verdicts.iter().filter(|&&other| other == verdict).count();
            let counts = Verdict::ALL.map(|verdict| count(verdict).to_string());
            table += &format!("| {name} | {} |\n", counts.join(" | "));
        }
        table
    }
}

/// A list with a heading of what is said `of` each of `figures`, with the numbers of those that it is said
/// of; nothing where nothing is.
fn listed<'a>(
    heading: &str,
    figures: impl Iterator<Item = &'a FigureResult>,
    of: fn(&FigureResult) -> &[String],
) -> String {
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for figure in figures {
        for what in of(figure) {
            match said.iter_mut().find(|(other, _)| other == what) {
                Some((_, numbers)) => numbers.push(&figure.number),
                None => said.push((what, vec![&figure.number])),
            }
        }
    }
    let mut list = String::new();
    if !said.is_empty() {
        list += &format!("\n## {heading}\n\n");
    }
    for (what, numbers) in said {
        list += &format!("* {} (figures {})\n", cell(what), numbers.join(", "));
    }
    list
}

/// The value that alone makes a figure differ, and of how many.
fn decides_alone(figure: &FigureResult) -> Option<(&str, usize)> {
    let published: Vec<&Measure> =
        figure.measures.iter().filter(|measure| !measure.published.is_by_rule()).collect();
    let mut differ = published.iter().filter(|measure| measure.verdict == Verdict::Differs);
    let alone = differ.next().filter(|_| differ.next().is_none() && published.len() > 1)?;
    Some((alone.name.as_str(), published.len()))
}

fn section(figure: &FigureResult) -> String {
    let mut page = format!(
        "\n## {} {}: {}\n\n**{}**",
        figure.text,
        figure.number,
        cell(&figure.title()),
        figure.verdict_name()
    );
    if let Some((alone, of)) = decides_alone(figure) {
        page += &format!(", by one alone of its {of} published values: {}", cell(alone));
    }
    let mut sources: Vec<&str> = figure.panels.iter().map(|panel| panel.source.as_str()).collect();
    sources.dedup();
    for source in sources {
        page += &format!(" · {}", cell(source));
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
    for note in figure.notes.lines() {
        page += &format!("\nNote. {}\n", cell(note));
    }
    for choice in &figure.choices {
        page += &chosen(choice);
    }
    page
}

/// A choice with our values under what else was possible.
fn chosen(choice: &ChoiceResult) -> String {
    let mut page = format!("\n{}\n", cell(&choice.told()));
    page += "\n| instead | measure | published | ours | verdict | what stands, same seeds |\n|---|---|---|---|---|---|\n";
    for tried in &choice.tried {
        let name = cell(&tried.name);
        for measure in &tried.measures {
            page += &format!("| {name} | {} {} |\n", cells(measure), measure.same_seeds_shown());
        }
        if !tried.failed.is_empty() {
            page += &format!("| {name} | failed: {} | | | | |\n", cell(&tried.failed));
        }
    }
    page
}

fn cells(measure: &Measure) -> String {
    let (published, ours) = (measure.published.shown(), measure.ours_shown());
    let name = cell(&measure.name);
    format!("{name} | {published} | {ours} | {} |", measure.verdict_shown())
}

/// A scenario's text in a table cell.
fn cell(text: &str) -> String {
    let plain = text.chars().filter(|c| !c.is_control());
    plain
        .flat_map(|c| matches!(c, '|' | '<' | '*' | '`').then_some('\\').into_iter().chain([c]))
        .collect()
}
