//! The runs of a sweep: those of all repetitions of all combinations together, on all cores. A repetition is prepared
//! when its first run begins and summed up when its last ends, so that memory holds those alone that are on.

use std::mem;
use std::path::Path;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use experiment::metrics::Metrics;
use experiment::rates::FlowRate;
use experiment::reproduce::Cache;
use experiment::run::{Prepared, Repeats, order};
use experiment::scenario::{Override, Scenario, World};
use experiment::{Origin, Published, Run, RunResult, Stage};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::input::{Input, prepare, threads};

/// The repetitions of all combinations.
pub(crate) struct Grid<'a> {
    input: &'a Input,
    cells: Vec<Cell>,
    /// Where results are kept.
    cache: Option<Cache>,
    threads: usize,
    /// Whether runs are live.
    in_lab: bool,
    /// Whether runs tell in words how far they are.
    pub(crate) in_words: bool,
}

/// A repetition of a combination.
struct Cell {
    changes: Vec<Override>,
    /// The policies to show.
    shown: Vec<String>,
    /// The policies that run: those, and what they are compared with.
    policies: Vec<String>,
    /// Positions of their runs, in the order in which these begin.
    order: Vec<usize>,
    origin: Origin,
    baseline: String,
    published: Vec<Published>,
    /// What the results of its policies are kept as.
    keys: Vec<String>,
    /// The result, where it was kept.
    known: Option<RunResult>,
}

/// What is kept of a policy's run.
#[derive(Serialize, Deserialize)]
struct Kept {
    metrics: Metrics,
    notes: Vec<String>,
    rates: Vec<FlowRate>,
}

/// A repetition while it runs.
#[derive(Default)]
struct Open {
    prepared: Option<Arc<Prepared>>,
    /// What has run, by position.
    ran: Vec<(usize, Run)>,
}

impl<'a> Grid<'a> {
    pub(crate) fn new(input: &'a Input) -> Self {
        let threads = threads(input.jobs);
        Self { input, cells: Vec::new(), cache: None, threads, in_lab: false, in_words: false }
    }

    /// Adds a repetition: `scenario`, which is the input's with `changes`, under the policies `shown`.
    pub(crate) fn add(
        &mut self,
        changes: Vec<Override>,
        scenario: Scenario,
        shown: Vec<String>,
    ) -> Result<(), Failure> {
        let prepared = prepare(scenario)?;
        let repeats = Repeats::new(slice::from_ref(&prepared), &shown);
        let tasks = repeats.tasks(None, None);
        if prepared.scenario.world == World::Lab {
            // Two would compete for processors.
            self.threads = 1;
            self.in_lab = true;
        }
        self.in_words |= prepared.has_engine();
        self.cells.push(Cell {
            changes,
            policies: tasks.iter().map(|task| task.policy.label.clone()).collect(),
            order: order(&tasks),
            origin: prepared.origin(),
            baseline: prepared.scenario.baseline.clone(),
            published: prepared.scenario.published.clone(),
            keys: Vec::new(),
            known: None,
            shown,
        });
        Ok(())
    }

    /// Has results kept in the folder `out`, and takes those that it has of what was added.
    pub(crate) fn keep_in(&mut self, out: &Path) -> Result<(), Failure> {
        if self.in_lab {
            return Err(Failure::misused(
                "--out: what a lab gives depends on the machine, and isn't kept; leave it out",
            ));
        }
        let wrong = |error| Failure::misused(format_args!("--out: {error}"));
        let cache = Cache::open(out).map_err(wrong)?;
        for cell in &mut self.cells {
            cell.keys = cell.keys_now(self.input)?;
            let kept: Option<Vec<Kept>> = cell.keys.iter().map(|key| cache.get(key)).collect();
            cell.known = kept.map(|kept| cell.result(kept));
        }
        self.cache = Some(cache);
        Ok(())
    }

    /// How many repetitions there are.
    pub(crate) fn repetitions(&self) -> usize {
        self.cells.len()
    }

    /// How many runs are to be made.
    pub(crate) fn runs(&self) -> usize {
        self.missing().count()
    }

    /// The runs that are to be made: repetition and position.
    fn missing(&self) -> impl Iterator<Item = (usize, usize)> {
        let cells = self.cells.iter().enumerate().filter(|(_, cell)| cell.known.is_none());
        cells.flat_map(|(at, cell)| cell.order.iter().map(move |position| (at, *position)))
    }

    /// Runs all, gives each repetition's result to `take`, as they come, and tells what part of each run is done,
    /// from 0 to 1.
    ///
    /// # Errors
    /// Of the first run that failed, or of `take`; runs not begun by then are left out.
    pub(crate) fn run(
        &self,
        tell: &(dyn Fn(usize, f64) + Sync),
        take: &mut dyn FnMut(usize, RunResult) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (at, cell) in self.cells.iter().enumerate() {
            if let Some(known) = &cell.known {
                take(at, known.clone())?;
            }
        }
        let runs: Vec<(usize, usize)> = self.missing().collect();
        let open: Vec<Mutex<Open>> = self.cells.iter().map(|_| Mutex::default()).collect();
        let next = AtomicUsize::new(0);
        let stop = || next.store(runs.len(), Ordering::Relaxed);
        let work = |say: &mpsc::Sender<_>| {
            let mut stage = Stage::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(at, position)) = runs.get(number) else { break };
                let tell = |part| tell(number, part);
                let ran = self.one(&self.cells[at], position, &open[at], &mut stage, &tell);
                if ran.is_err() {
                    stop();
                }
                // Who hears it stays until all have ended.
                if let Some(ran) = ran.transpose() {
                    let _ = say.send((number, at, ran));
                }
            }
        };
        std::thread::scope(|scope| {
            let (say, hear) = mpsc::channel();
            for _ in 0..self.threads.min(runs.len()) {
                let (say, work) = (say.clone(), &work);
                scope.spawn(move || work(&say));
            }
            drop(say);
            let mut failed: Option<(usize, Failure)> = None;
            for (number, at, ran) in hear {
                let taken = match ran {
                    Ok(result) if failed.is_none() => take(at, result),
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                };
                if let Err(error) = taken {
                    stop();
                    if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                        failed = Some((number, error));
                    }
                }
            }
            failed.map_or(Ok(()), |(_, error)| Err(error))
        })
    }

    /// Makes the run at `position` of `cell`; with the last of its runs the result.
    fn one(
        &self,
        cell: &Cell,
        position: usize,
        open: &Mutex<Open>,
        stage: &mut Stage,
        tell: &dyn Fn(f64),
    ) -> Result<Option<RunResult>, Failure> {
        let prepared = self.prepared(cell, open)?;
        let repeats = Repeats::new(slice::from_ref(&*prepared), &cell.shown);
        let tasks = repeats.tasks(None, self.input.memory);
        tell(0.0);
        let ran = tasks[position].run(stage, &mut |now| tell(prepared.done(&now)));
        let run = ran.map_err(Failure::failed)?;
        tell(1.0);
        let mut own = lock(open);
        own.ran.push((position, run));
        if own.ran.len() < tasks.len() {
            return Ok(None);
        }
        let Open { mut ran, .. } = mem::take(&mut *own);
        drop(own);
        ran.sort_by_key(|(position, _)| *position);
        let runs = ran.into_iter().map(|(_, run)| run).collect();
        let done = repeats.done(runs).pop();
        done.map(|repeat| self.keep(cell, repeat.result)).transpose()
    }

    /// The scenario of `cell`, which its runs share.
    fn prepared(&self, cell: &Cell, open: &Mutex<Open>) -> Result<Arc<Prepared>, Failure> {
        let mut own = lock(open);
        if let Some(prepared) = &own.prepared {
            return Ok(Arc::clone(prepared));
        }
        let prepared = Arc::new(prepare(self.input.load(&cell.changes)?)?);
        // It was read again: the result would be kept as that of what stood there before.
        if self.cache.is_some() && cell.keys_now(self.input)? != cell.keys {
            return Err(Failure::failed(
                "the scenario, or a file that it names, has changed since the sweep began; begin it again",
            ));
        }
        own.prepared = Some(Arc::clone(&prepared));
        Ok(prepared)
    }

    /// The result as it will be read, where results are kept.
    fn keep(&self, cell: &Cell, result: RunResult) -> Result<RunResult, Failure> {
        let Some(cache) = &self.cache else { return Ok(result) };
        let kept = result.results.into_iter().zip(&cell.keys).map(|(mut own, key)| {
            // What the scenario publishes against other policies is reckoned anew, of what it then says.
            for (name, _) in own.published.iter().filter(|(_, figure)| figure.against.is_some()) {
                own.metrics.remove(name);
            }
            let own = Kept { metrics: own.metrics, notes: own.notes, rates: own.rates };
            cache.put(key, &own).map_err(Failure::failed)
        });
        Ok(cell.result(kept.collect::<Result<_, _>>()?))
    }
}

impl Cell {
    /// What its results are kept as, by what the files hold now.
    fn keys_now(&self, input: &Input) -> Result<Vec<String>, Failure> {
        let labels: Vec<&str> = self.policies.iter().map(String::as_str).collect();
        // Without the baseline nothing is compared with it.
        let baseline = labels.contains(&self.baseline.as_str()).then_some(self.baseline.as_str());
        let with = ["sweep".to_owned()];
        let keys = input.content(&self.changes)?.keys(&labels, baseline, &with);
        keys.map_err(|error| {
            Failure::misused(format_args!("--out: a file that the scenario names: {error}"))
        })
    }

    /// The result, from what was kept of its policies.
    fn result(&self, kept: Vec<Kept>) -> RunResult {
        let metrics = kept.iter().map(|own| own.metrics.clone());
        let measured = self.policies.iter().cloned().zip(metrics).collect();
        let (origin, baseline) = (self.origin.clone(), Some(&*self.baseline));
        let mut result = RunResult::judged(origin, measured, baseline, &self.published);
        for (own, kept) in result.results.iter_mut().zip(kept) {
            own.notes = kept.notes;
            own.rates = kept.rates;
        }
        result
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::sync::Condvar;
    use std::time::Duration;

    use clap::{Args as _, FromArgMatches as _};
    use tempfile::TempDir;

    use super::*;

    const SCENARIO: &str = "name = \"small\"\ntitle = \"Small\"\n[topology]\nkind = \"star\"\nhosts = 2\n\
        access = { capacity = \"100 Mbit/s\", delay = \"33 us\", buffer = \"150 KB\" }\n\
        [workload]\nkind = \"jobs\"\n\
        job = [{ flow = [{ from = \"h0\", to = \"h1\", size = \"100 KB\" }] }]\n\
        [[policy]]\nname = \"tcp\"\n[[policy]]\nname = \"smsf\"\n";

    /// The scenario `text` in `folder`, with so many runs at the same time.
    fn input(folder: &TempDir, text: &str, jobs: &str) -> Input {
        let path = folder.path().join("small.toml");
        fs::write(&path, text).unwrap();
        let command = Input::augment_args(clap::Command::new("sweep"));
        let words = ["sweep", path.to_str().unwrap(), "--jobs", jobs];
        Input::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    /// A combination for each seed.
    fn grid(input: &Input, seeds: u64) -> Grid<'_> {
        let mut grid = Grid::new(input);
        for seed in 1..=seeds {
            let changes = vec![Override::seed(seed)];
            let scenario = input.load(&changes).unwrap();
            let shown = input.shown(&scenario).unwrap();
            grid.add(changes, scenario, shown).unwrap();
        }
        grid
    }

    fn results(grid: &Grid<'_>) -> BTreeMap<usize, RunResult> {
        let mut all = BTreeMap::new();
        let mut take = |at: usize, result: RunResult| {
            assert!(all.insert(at, result).is_none(), "twice");
            Ok(())
        };
        grid.run(&|_, _| (), &mut take).unwrap();
        all
    }

    #[test]
    fn runs_of_all_combinations_are_on_together() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let folder = TempDir::new().unwrap();
        let input = input(&folder, SCENARIO, "6");
        let grid = grid(&input, 3);
        let (begun, told) = (Mutex::new(BTreeSet::<usize>::new()), Condvar::new());
        // Nobody goes on before all have begun: two policies of each combination.
        let tell = |run: usize, _: f64| {
            let mut all = begun.lock().unwrap();
            all.insert(run);
            told.notify_all();
            let waited = told.wait_timeout_while(all, PATIENCE, |all| all.len() < 6).unwrap();
            assert!(!waited.1.timed_out(), "{:?} have begun", waited.0);
        };
        let mut taken = 0;
        let mut take = |_: usize, _: RunResult| {
            taken += 1;
            Ok(())
        };
        grid.run(&tell, &mut take).unwrap();
        assert_eq!(taken, 3);
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let folder = TempDir::new().unwrap();
        let (one, many) = (input(&folder, SCENARIO, "1"), input(&folder, SCENARIO, "5"));
        assert_eq!(results(&grid(&one, 3)), results(&grid(&many, 3)));
    }

    #[test]
    fn what_a_folder_has_is_not_run_again() {
        let folder = TempDir::new().unwrap();
        let kept = folder.path().join("kept");
        let run = |text: &str, seeds| {
            let input = input(&folder, text, "2");
            let mut grid = grid(&input, seeds);
            grid.keep_in(&kept).unwrap();
            (grid.runs(), results(&grid))
        };
        let (ran, first) = run(SCENARIO, 2);
        assert_eq!((ran, first.len()), (4, 2));
        let (ran, more) = run(SCENARIO, 3);
        assert_eq!((ran, more.len()), (2, 3));
        assert_eq!((&more[&0], &more[&1]), (&first[&0], &first[&1]));
        assert_eq!(run(SCENARIO, 3), (0, more.clone()));
        // What it is called changes no result, but what is sent.
        assert_eq!(run(&SCENARIO.replace("Small", "Smaller"), 3), (0, more));
        assert_eq!(run(&SCENARIO.replace("100 KB", "200 KB"), 3).0, 6);
        // Nor does what a policy is called; what is published of it is its scenario's alone.
        let against = "fct_mean_s against tcp";
        let published = "[[published]]\npolicy = \"smsf\"\nmetric = \"fct_mean_s\"\nagainst = \"tcp\"\n\
            value = 0.5\ntolerance = 0.1\n";
        let larger = SCENARIO.replace("100 KB", "300 KB");
        let (ran, told) = run(&format!("{larger}{published}"), 3);
        assert_eq!((ran, told[&0].results[1].metrics.contains_key(against)), (6, true));
        let called = larger.replace("name = \"smsf\"\n", "name = \"smsf\"\nlabel = \"mine\"\n");
        let (ran, plain) = run(&called, 3);
        let mine = &plain[&0].results[1];
        assert_eq!((ran, mine.policy.as_str()), (0, "mine"));
        assert!(!mine.metrics.contains_key(against), "{mine:?}");
    }

    #[test]
    fn what_was_done_before_a_sweep_stopped_is_kept() {
        let folder = TempDir::new().unwrap();
        let input = input(&folder, SCENARIO, "1");
        let kept_in = |name: &str| {
            let mut grid = grid(&input, 3);
            grid.keep_in(&folder.path().join(name)).unwrap();
            grid
        };
        let stopped = kept_in("kept").run(&|_, _| (), &mut |_, _| Err(Failure::Closed));
        assert!(matches!(stopped, Err(Failure::Closed)));
        let left = kept_in("kept").runs();
        assert!(left < 6, "{left} of 6 runs are left");
        assert_eq!(results(&kept_in("kept")), results(&kept_in("other")));
    }
}
