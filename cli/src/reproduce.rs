//! `watermaster reproduce`.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use experiment::report::write_results;
use experiment::reproduce::{Cache, Plan, Reproduction, Selection, Work};

use crate::failure::{Failure, print};
use crate::input::{quoted, threads};
use crate::overwrite;
use crate::progress::Count;

/// Names of the results in the output directory, beside those of the pages of each text.
const RESULTS: &str = "results.md";
const PAGE: &str = "results.html";

/// Run the scenarios of published figures and compare ours with the published values
///
/// Prints for each figure our means, with the 95 % interval over the repetitions, beside what is
/// published, with the verdict; runs what else the texts' gaps allow, one choice at a time; and writes results.md, a
/// page for each text, and results.html, with a plot of each figure. Results are kept until their
/// scenario, their trace or the simulator changes, so that an interrupted run resumes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    watermaster reproduce --quick\n  \
    watermaster reproduce phurti/6.4 --trace FB-2009_samples_24_times_1hr_0.tsv")]
pub(crate) struct Reproduce {
    /// Only the figures of this text, or only this figure [default: all]
    #[arg(value_name = "TEXT[/FIGURE]")]
    figure: Option<String>,

    /// Fewer points and repetitions, and no other values of what the texts leave open
    #[arg(long)]
    quick: bool,

    /// Print one JSON array instead of tables
    #[arg(long)]
    json: bool,

    /// The folder with a folder of scenarios for each text
    #[arg(long, value_name = "DIR", default_value = "scenarios")]
    scenarios: PathBuf,

    /// A trace file that figures need, or a folder with some; repeatable [default: the folder traces
    /// beside that of the scenarios]
    #[arg(long, value_name = "PATH")]
    trace: Vec<PathBuf>,

    /// Cache of single runs
    #[arg(long, value_name = "DIR", default_value = "out/cache")]
    cache: PathBuf,

    /// Directory for the files [default: out/reproduce; with --json none]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Runs at the same time; results don't depend on it [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

impl Reproduce {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let selection = self.selection()?;
        let default = (!self.json).then(|| Path::new("out").join("reproduce"));
        let out = self.out.clone().or(default);
        for file in out.iter().flat_map(|out| [RESULTS, PAGE].map(|name| out.join(name))) {
            overwrite::spare("--out", &file, selection.traces.values().map(|trace| &**trace))?;
        }
        let plan = Plan::new(&self.scenarios, &selection).map_err(Failure::misused)?;
        if plan.figures.is_empty() {
            return Err(self.nothing(&selection));
        }
        let cache = Cache::open(&self.cache).map_err(Failure::misused)?;
        let work = Work::new(&plan.units, &cache);
        let bar = Count::new(work.runs());
        let results = work.run(threads(self.jobs), &|tick| bar.update(tick.run, tick.done));
        drop(bar);
        let reproduction = Reproduction::new(&plan, &results, self.quick);
        let failed = results.iter().filter(|result| result.is_err()).count();

        if let Some(out) = out {
            self.write(&out, &reproduction)?;
        }
        if self.json {
            print(&reproduction.to_json().map_err(Failure::failed)?)?;
        } else {
            print(&reproduction.text())?;
        }
        match failed {
            0 => Ok(()),
            _ => Err(Failure::failed(format_args!("{failed} of {} runs failed", results.len()))),
        }
    }

    fn selection(&self) -> Result<Selection, Failure> {
        let chosen = self.figure.as_deref();
        let (text, number) = match chosen.map(|chosen| chosen.split_once('/').ok_or(chosen)) {
            None => (None, None),
            Some(Ok((text, number))) => (Some(text.to_owned()), Some(number.to_owned())),
            Some(Err(text)) => (Some(text.to_owned()), None),
        };
        let mut traces = BTreeMap::new();
        let beside = self.scenarios.parent().unwrap_or(Path::new("")).join("traces");
        if beside.is_dir() {
            add_traces(&beside, &mut traces)?;
        }
        for path in &self.trace {
            add_traces(path, &mut traces)?;
        }
        Ok(Selection { text, number, quick: self.quick, traces })
    }

    /// The error that no figure was chosen, with those that exist.
    fn nothing(&self, selection: &Selection) -> Failure {
        let all = Selection { quick: true, ..Selection::default() };
        let known = Plan::new(&self.scenarios, &all).map(|plan| {
            let names = plan.figures.iter().map(|f| format!("{}/{}", f.text, f.number));
            names.collect::<Vec<_>>().join(", ")
        });
        let folder = self.scenarios.display();
        match (known, &selection.text) {
            (Ok(known), Some(_)) if !known.is_empty() => Failure::misused(format_args!(
                "{}: there is no such figure; there are {known}",
                self.figure.as_deref().unwrap_or_default()
            )),
            _ => Failure::misused(format_args!(
                "{folder}: no scenario in its folders has a [figure]; name another with --scenarios"
            )),
        }
    }

    fn write(&self, out: &Path, reproduction: &Reproduction) -> Result<(), Failure> {
        let fail = |error| {
            Failure::misused(format_args!(
                "--out {}: {error}; name a directory that can be written",
                out.display()
            ))
        };
        fs::create_dir_all(out).map_err(fail)?;
        let mut command = "watermaster reproduce".to_owned();
        if let Some(figure) = &self.figure {
            command += &format!(" {}", quoted(figure));
        }
        if self.quick {
            command += " --quick";
        }
        let page = out.join(RESULTS);
        reproduction.write_markdown(&page, &command).map_err(Failure::failed)?;
        write_results(&out.join(PAGE), reproduction, &command).map_err(Failure::failed)
    }
}

/// Adds the trace file `path`, or all files of the folder `path` that aren't pages of results, under their names.
fn add_traces(path: &Path, traces: &mut BTreeMap<String, PathBuf>) -> Result<(), Failure> {
    let fail = |error| {
        Failure::misused(format_args!(
            "--trace {}: {error}; name a file or a folder",
            path.display()
        ))
    };
    let path = std::path::absolute(path).map_err(fail)?;
    let mut files = vec![path.clone()];
    if fs::metadata(&path).map_err(fail)?.is_dir() {
        let entries = fs::read_dir(&path).map_err(fail)?.map(|entry| Ok(entry?.path()));
        files = entries.collect::<Result<_, _>>().map_err(fail)?;
        // No trace is one; those that were written here before are written anew.
        let is_page =
            |file: &Path| file.extension().is_some_and(|ending| ending == "md" || ending == "html");
        files.retain(|file| !is_page(file));
    }
    let named = files.into_iter().filter_map(|file| {
        let name = file.file_name()?.to_str()?.to_owned();
        Some((name, file))
    });
    traces.extend(named);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    #[test]
    fn what_was_written_beside_traces_is_none_of_them() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.tsv", "b.txt", "c", RESULTS, PAGE] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let mut traces = BTreeMap::new();
        add_traces(folder.path(), &mut traces).unwrap();
        assert_eq!(traces.keys().collect::<Vec<_>>(), ["a.tsv", "b.txt", "c"]);
        // One that is named is taken as what it is named as.
        add_traces(&folder.path().join(RESULTS), &mut traces).unwrap();
        assert_eq!(traces.len(), 4);
    }
}
