//! `watermaster run`.

use std::path::{Path, PathBuf};

use clap::Args;
use experiment::report::{self, Report};
use experiment::run::{Prepared, Repeat};
use experiment::scenario::Override;
use experiment::{RunResult, store, table};

use crate::cost::{Cost, Costed, cpu_s};
use crate::failure::{Failure, print};
use crate::input::{Input, MOST_RUNS, prepare};
use crate::live::page;
use crate::overwrite;
use crate::staging::{Staging, clean_up_on_interrupt};

/// Name of the report in the output directory.
const REPORT: &str = "report.html";
/// Name of the page there.
const PAGE: &str = "page.html";
/// Name of the result there.
const RESULT: &str = "result.json";
/// What is written there, but for captures.
const WRITTEN: [&str; 5] = [REPORT, PAGE, RESULT, "flows.parquet", "jobs.parquet"];

/// Run a scenario under each of its policies and compare them
///
/// Prints the comparison and what the runs cost (packets over links, events, processor time, memory;
/// with --json under `cost`), and writes flows.parquet, jobs.parquet, result.json, report.html and the
/// scenario's captures.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    watermaster run scenarios/phurti/facebook-100-jobs.toml\n  \
    watermaster run scenarios/phurti/facebook-100-jobs.toml --policy tcp,smsf --seed 7 \\\n    \
    --set topology.core.capacity=\"50 Mbit/s\" --repeat 8 --json")]
pub(crate) struct Run {
    #[command(flatten)]
    input: Input,

    /// Run it so many times, with seeds that count up, and show means with 95 % intervals
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_RUNS as u64))]
    repeat: u64,

    /// Directory for the files [default: out/NAME of the scenario; with --json none]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write page.html too, the network and its flows by time, and open it in the browser
    #[arg(long)]
    open: bool,
}

impl Run {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        if self.open && self.input.json && self.out.is_none() {
            return Err(Failure::misused(
                "--open with --json needs --out DIR, where the page is written",
            ));
        }
        let first = self.input.load(&[])?;
        let shown = self.input.shown(&first)?;
        let (name, seed) = (first.name.clone(), first.seed);
        let measures = first.measures.clone();
        let mut repeats = vec![prepare(first)?];
        for repeat in 1..self.repeat {
            let seed = Override::seed(seed.saturating_add(repeat));
            repeats.push(prepare(self.input.load(&[seed])?)?);
        }

        clean_up_on_interrupt()?;
        let default = (!self.input.json).then(|| Path::new("out").join(&name));
        let out = self.out.clone().or(default);
        for file in out.iter().flat_map(|out| WRITTEN.map(|name| out.join(name))) {
            overwrite::spare("--out", &file, self.input.read())?;
        }
        let staging = out.as_deref().map(Staging::begin).transpose()?;
        let directory = staging.as_ref().map(Staging::directory);
        let start_s = cpu_s();
        let done = self.input.run_all(&repeats, &shown, directory)?;
        let cost = Cost::since(start_s, &done)?;
        let results: Vec<RunResult> = done.iter().map(|repeat| repeat.result.clone()).collect();
        let Some(result) = RunResult::mean_of(&results) else {
            return Ok(());
        };
        let mut asked = result.clone();
        asked.results.retain(|result| shown.contains(&result.policy));
        let json = asked.to_json().map_err(Failure::failed)?;
        if let (Some(directory), Some(prepared), Some(first)) =
            (directory, repeats.first(), done.first())
        {
            self.write(directory, prepared, first, &result)?;
            std::fs::write(directory.join(RESULT), &json).map_err(Failure::failed)?;
        }
        if let Some(staging) = staging {
            staging.finish()?;
        }

        if let Some(out) = out.as_ref().filter(|_| self.open) {
            page::browse(&out.join(PAGE));
        }
        if self.input.json {
            let costed = Costed { result: &asked, cost: &cost };
            let json = serde_json::to_string_pretty(&costed).map_err(Failure::failed)?;
            return print(&(json + "\n"));
        }
        let measures: Vec<&str> = measures.iter().map(String::as_str).collect();
        let measures = if measures.is_empty() { table::DEFAULT_METRICS } else { &measures };
        let mut text = heading(&repeats);
        text += &table::render(&asked, measures, None);
        text += &format!("\n{cost}\n");
        if let Some(out) = out {
            text += &format!("Report: {}\n", out.join(REPORT).display());
            if self.open {
                text += &format!("Page: {}\n", out.join(PAGE).display());
            }
        }
        print(&text)
    }

    /// Writes the report and the tables of flows and jobs, with the baseline if it was run. Single
    /// flows and jobs are of the `first` repetition.
    fn write(
        &self,
        directory: &Path,
        prepared: &Prepared,
        first: &Repeat,
        result: &RunResult,
    ) -> Result<(), Failure> {
        let scenario = &prepared.scenario;
        let topology = &scenario.topology;
        let mut command = self.input.command("run");
        if self.repeat > 1 {
            command += &format!(" --repeat {}", self.repeat);
        }
        let report = Report {
            title: &scenario.title,
            source: &scenario.source,
            command: &command,
            topology,
            runs: &first.runs,
            result,
        };
        store::write(directory, &prepared.origin(), topology, &first.runs)
            .map_err(Failure::failed)?;
        report::write(&directory.join(REPORT), &report).map_err(Failure::failed)?;
        if self.open {
            let film = page::scenario::film(prepared, &command, &first.runs, result);
            let text = ::page::with_film(&film).map_err(Failure::failed)?;
            std::fs::write(directory.join(PAGE), text).map_err(Failure::failed)?;
        }
        Ok(())
    }
}

fn heading(repeats: &[Prepared]) -> String {
    let Some(scenario) = repeats.first().map(|prepared| &prepared.scenario) else {
        return String::new();
    };
    let seeds = match repeats.len() {
        1 => format!("seed {}", scenario.seed),
        count => {
            format!("mean ± half of the 95 % interval over {count} seeds from {}", scenario.seed)
        }
    };
    let source = if scenario.source.is_empty() {
        String::new()
    } else {
        format!("Source: {}\n", scenario.source)
    };
    let printable = |c: &char| !c.is_control() || *c == '\n';
    let text = format!("{} ({seeds})\n{source}\n", scenario.title);
    text.chars().filter(printable).collect()
}
