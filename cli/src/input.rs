//! Options that `run` and `sweep` share: a scenario with changes to it, and the policies to run.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use experiment::run::{Prepared, Repeat, Repeats, run_all};
use experiment::scenario::{Content, Override, Scenario};
use units::Bytes;

use crate::failure::{Failure, note};
use crate::policies::{Label, chosen, listed};
use crate::progress::Bar;

/// Repetitions and combinations are bounded: each is held in memory until it is summed up.
pub(crate) const MOST_RUNS: usize = 10_000;

#[derive(Args)]
pub(crate) struct Input {
    /// The scenario file
    scenario: PathBuf,

    /// Run only these policies, by label, or by name with default parameters where the scenario
    /// doesn't list them; the baseline runs too, hidden, if the scenario compares with it
    #[arg(long, value_delimiter = ',', value_name = "A,B", value_parser = Label,
          hide_possible_values = true)]
    policy: Vec<String>,

    /// Seed of every random stream
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Change a key of the scenario, such as topology.access.capacity="1 Gbit/s" or
    /// policy.smsf.beta=0.05; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    changes: Vec<Override>,

    /// Run it in this world instead: packet, fluid, or lab, the kernel's own TCP on this machine
    #[arg(long, value_name = "WORLD")]
    world: Option<String>,

    /// Take the jobs from this trace: SWIM for kind = "shuffle", coflow-benchmark for "coflow"
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Runs at the same time; results don't depend on it [default: one a core]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Stop a run in the fluid world once the process takes more than this [default: three quarters of
    /// the machine's memory]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Bytes>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

impl Input {
    /// The scenario with the options' changes, then with those of `more`.
    pub(crate) fn load(&self, more: &[Override]) -> Result<Scenario, Failure> {
        Scenario::load(&self.scenario, &self.all_changes(more)?).map_err(Failure::misused)
    }

    /// The files that are named and read.
    pub(crate) fn read(&self) -> impl Iterator<Item = &Path> {
        [Some(&*self.scenario), self.trace.as_deref()].into_iter().flatten()
    }

    /// What the results of that depend on.
    pub(crate) fn content(&self, more: &[Override]) -> Result<Content, Failure> {
        Content::load(&self.scenario, &self.all_changes(more)?).map_err(Failure::misused)
    }

    fn all_changes(&self, more: &[Override]) -> Result<Vec<Override>, Failure> {
        let mut changes: Vec<Override> = listed(&self.policy).collect();
        changes.extend_from_slice(&self.changes);
        changes.extend(self.seed.map(Override::seed));
        changes.extend(self.world.as_deref().map(|name| Override::text("--world", "world", name)));
        if let Some(trace) = &self.trace {
            changes.push(trace_override(trace)?);
        }
        changes.extend_from_slice(more);
        Ok(changes)
    }

    /// The policy, if exactly one was chosen.
    pub(crate) fn only_policy(&self) -> Option<&str> {
        if let [policy] = &self.policy[..] { Some(policy) } else { None }
    }

    /// The labels of the policies to show.
    pub(crate) fn shown(&self, scenario: &Scenario) -> Result<Vec<String>, Failure> {
        chosen(scenario, &self.policy)
    }

    /// The `watermaster` command that gives the same results, without options that only affect
    /// speed and output.
    pub(crate) fn command(&self, name: &str) -> String {
        let mut words =
            vec!["watermaster".to_owned(), name.to_owned(), self.scenario.display().to_string()];
        let mut option = |option: &str, value: String| words.extend([option.to_owned(), value]);
        if !self.policy.is_empty() {
            option("--policy", self.policy.join(","));
        }
        if let Some(seed) = self.seed {
            option("--seed", seed.to_string());
        }
        if let Some(world) = &self.world {
            option("--world", world.clone());
        }
        for change in &self.changes {
            option("--set", format!("{}={}", change.path(), change.value()));
        }
        if let Some(trace) = &self.trace {
            option("--trace", trace.display().to_string());
        }
        let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        quoted.join(" ")
    }

    /// Runs every one of `repeats` under the policies `shown`, and under its baseline if it compares
    /// with that. Captures of the first go into `captures`.
    pub(crate) fn run_all(
        &self,
        repeats: &[Prepared],
        shown: &[String],
        captures: Option<&Path>,
    ) -> Result<Vec<Repeat>, Failure> {
        let repeats = Repeats::new(repeats, shown);
        let tasks = repeats.tasks(captures, self.memory);
        let bar = Bar::new(&tasks);
        let threads = threads(self.jobs);
        let runs = run_all(&tasks, threads, &|task, progress| bar.update(task, &progress))
            .map_err(Failure::failed)?;
        Ok(repeats.done(runs))
    }
}

/// Parallel runs: as many as asked for, or one a core.
pub(crate) fn threads(jobs: Option<NonZeroUsize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    jobs.map_or_else(cores, NonZeroUsize::get)
}

/// A word quoted for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Makes network and jobs.
pub(crate) fn prepare(scenario: Scenario) -> Result<Prepared, Failure> {
    let prepared = Prepared::new(scenario).map_err(Failure::misused)?;
    Ok(Prepared { tell: note, ..prepared })
}

/// `--trace FILE`, which unlike a path in the scenario counts from the working directory.
pub(crate) fn trace_override(trace: &Path) -> Result<Override, Failure> {
    let path = std::path::absolute(trace).map_err(|error| {
        Failure::misused(format_args!("--trace {}: {error}; name a file", trace.display()))
    })?;
    let Some(path) = path.to_str() else {
        return Err(Failure::misused(format_args!(
            "--trace {}: the path isn't UTF-8; rename the file",
            trace.display()
        )));
    };
    Ok(Override::text("--trace", "workload.trace.file", path))
}
