//! The runs of a sweep: those of all repetitions of all combinations together, on all cores. What several of them want,
//! such as the baseline where another policy's parameter is varied, is run once. A repetition is prepared when its first
//! run begins, and a run that others are compared with is kept until the last of these ends; these come one after another,
//! so that memory holds those alone that are on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use experiment::reproduce::Cache;
use experiment::run::{Prepared, Repeats, order};
use experiment::scenario::{Override, Scenario, World};
use experiment::{Measurements, Origin, Published, Run, RunResult, Stage};

use crate::failure::Failure;
use crate::input::{Input, prepare, threads};

/// The repetitions of all combinations.
pub(crate) struct Grid<'a> {
    input: &'a Input,
    cells: Vec<Cell>,
    /// Where measurements are kept.
    cache: Option<Cache>,
    /// Those that were kept, by key.
    known: BTreeMap<String, Measurements>,
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
    /// The policies that are wanted: those, and what they are compared with.
    policies: Vec<String>,
    /// What their measurements are known by. Those of one key are the same.
    keys: Vec<String>,
    /// Their positions, in the order in which they are run.
    order: Vec<usize>,
    /// The position of the one that the others are compared with.
    base: Option<usize>,
    origin: Origin,
    baseline: String,
    published: Vec<Published>,
}

/// The runs that are compared with one of them: repetition, and position of the policy.
type Group = Vec<(usize, usize)>;

/// A repetition while its runs are on.
#[derive(Default)]
struct Open {
    prepared: Option<Arc<Prepared>>,
    /// How many of its runs have not ended.
    left: usize,
}

/// A group while its runs are on.
#[derive(Default)]
struct Compared<'a> {
    base: Option<Arc<Run>>,
    /// What has ended before that, by key.
    waiting: Vec<(&'a str, Arc<Run>)>,
    /// How many have not ended.
    left: usize,
}

impl<'a> Grid<'a> {
    pub(crate) fn new(input: &'a Input) -> Self {
        let threads = threads(input.jobs);
        let (cells, known) = (Vec::new(), BTreeMap::new());
        Self { input, cells, cache: None, known, threads, in_lab: false, in_words: false }
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
        let policies: Vec<String> = tasks.iter().map(|task| task.policy.label.clone()).collect();
        let baseline = prepared.scenario.baseline.clone();
        let mut cell = Cell {
            changes,
            base: policies.iter().position(|policy| *policy == baseline),
            policies,
            keys: Vec::new(),
            order: order(&tasks),
            origin: prepared.origin(),
            baseline,
            published: prepared.scenario.published.clone(),
            shown,
        };
        if prepared.scenario.world == World::Lab {
            // Two would compete for processors.
            self.threads = 1;
            self.in_lab = true;
            // None is like another.
            let at = self.cells.len();
            cell.keys = cell.policies.iter().map(|policy| format!("{at} {policy}")).collect();
        } else {
            cell.keys = cell.keys_now(self.input)?;
        }
        self.in_words |= prepared.has_engine();
        self.cells.push(cell);
        Ok(())
    }

    /// Has measurements kept in the folder `out`, and takes those that it has of what was added.
    pub(crate) fn keep_in(&mut self, out: &Path) -> Result<(), Failure> {
        if self.in_lab {
            return Err(Failure::misused(
                "--out: what a lab gives depends on the machine, and isn't kept; leave it out",
            ));
        }
        let wrong = |error| Failure::misused(format_args!("--out: {error}"));
        let cache = Cache::open(out).map_err(wrong)?;
        let keys: BTreeSet<&String> = self.cells.iter().flat_map(|cell| &cell.keys).collect();
        let kept = keys.into_iter().filter_map(|key| Some((key.clone(), cache.get(key)?)));
        self.known = kept.collect();
        self.cache = Some(cache);
        Ok(())
    }

    /// How many repetitions there are.
    pub(crate) fn repetitions(&self) -> usize {
        self.cells.len()
    }

    /// How many runs are to be made.
    pub(crate) fn runs(&self) -> usize {
        self.missing().iter().map(Vec::len).sum()
    }

    /// The runs that are to be made: each that isn't known, once, and those that they are compared with.
    fn missing(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut of_base = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for (at, cell) in self.cells.iter().enumerate() {
            let next = groups.len();
            let group = match cell.base {
                Some(base) => *of_base.entry(&cell.keys[base]).or_insert(next),
                None => next,
            };
            if group == next {
                groups.push(Vec::new());
            }
            let own = cell.order.iter().filter(|position| taken.insert(&cell.keys[**position]));
            groups[group].extend(own.map(|position| (at, *position)));
        }
        for group in &mut groups {
            let is_known = |(at, position): &(usize, usize)| {
                self.known.contains_key(&self.cells[*at].keys[*position])
            };
            if group.iter().all(is_known) {
                group.clear();
            }
            group.retain(|run| !is_known(run) || self.cells[run.0].base == Some(run.1));
        }
        groups
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
        let mut known = self.known.clone();
        // Which repetitions wait for what, and for how much.
        let mut waiting: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut lacks = vec![0; self.cells.len()];
        for (at, cell) in self.cells.iter().enumerate() {
            for key in cell.keys.iter().filter(|key| !known.contains_key(*key)) {
                waiting.entry(key).or_default().push(at);
                lacks[at] += 1;
            }
            if lacks[at] == 0 {
                take(at, cell.result(&known))?;
            }
        }
        let mut runs = Vec::new();
        let mut open: Vec<Open> = self.cells.iter().map(|_| Open::default()).collect();
        let mut compared = Vec::new();
        for (number, group) in self.missing().into_iter().enumerate() {
            compared.push(Mutex::new(Compared { left: group.len(), ..Compared::default() }));
            for (at, position) in group {
                open[at].left += 1;
                runs.push((number, at, position));
            }
        }
        let open: Vec<Mutex<Open>> = open.into_iter().map(Mutex::new).collect();
        let next = AtomicUsize::new(0);
        let stop = || next.store(runs.len(), Ordering::Relaxed);
        let work = |say: &mpsc::Sender<_>| {
            let mut stage = Stage::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(group, at, position)) = runs.get(number) else { break };
                let tell = |part| tell(number, part);
                let run = (&self.cells[at], position);
                let ran = self.one(run, &open[at], &compared[group], &mut stage, &tell);
                if ran.is_err() {
                    stop();
                }
                // Who hears it stays until all have ended.
                let _ = say.send((number, ran));
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
            for (number, ran) in hear {
                let taken = ran.and_then(|measured| {
                    for (key, own) in measured {
                        known.insert(key.to_owned(), own);
                        for at in waiting.remove(key).unwrap_or_default() {
                            lacks[at] -= 1;
                            if lacks[at] == 0 && failed.is_none() {
                                take(at, self.cells[at].result(&known))?;
                            }
                        }
                    }
                    Ok(())
                });
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

    /// Makes a run of a repetition, by the position of its policy; gives what could be measured now that it has ended.
    fn one<'b>(
        &self,
        (cell, position): (&'b Cell, usize),
        open: &Mutex<Open>,
        compared: &Mutex<Compared<'b>>,
        stage: &mut Stage,
        tell: &dyn Fn(f64),
    ) -> Result<Vec<(&'b str, Measurements)>, Failure> {
        let prepared = self.prepared(cell, open)?;
        let repeats = Repeats::new(slice::from_ref(&*prepared), &cell.shown);
        let tasks = repeats.tasks(None, self.input.memory);
        tell(0.0);
        let ran = tasks[position].run(stage, &mut |now| tell(prepared.done(&now)));
        let run = Arc::new(ran.map_err(Failure::failed)?);
        tell(1.0);
        let mut all = lock(open);
        all.left -= 1;
        if all.left == 0 {
            all.prepared = None;
        }
        drop(all);
        let mut own = lock(compared);
        own.left -= 1;
        let mut ended = vec![(cell.keys[position].as_str(), Arc::clone(&run))];
        if cell.base == Some(position) {
            own.base = Some(run);
            ended.append(&mut own.waiting);
        } else if cell.base.is_some() && own.base.is_none() {
            own.waiting.append(&mut ended);
        }
        let base = own.base.clone();
        if own.left == 0 {
            own.base = None;
        }
        drop(own);
        // All of a group have one network.
        let topology = &prepared.scenario.topology;
        let measured = ended.into_iter().map(|(key, run)| {
            let own = Measurements::of(topology, &run, base.as_deref());
            // As it will be read, where it is kept.
            let own = match &self.cache {
                Some(cache) => cache.put(key, &own).map_err(Failure::failed)?,
                None => own,
            };
            Ok((key, own))
        });
        measured.collect()
    }

    /// The scenario of `cell`, which its runs share.
    fn prepared(&self, cell: &Cell, open: &Mutex<Open>) -> Result<Arc<Prepared>, Failure> {
        let mut own = lock(open);
        if let Some(prepared) = &own.prepared {
            return Ok(Arc::clone(prepared));
        }
        let prepared = Arc::new(prepare(self.input.load(&cell.changes)?)?);
        // It was read again: what is measured would count as of what stood there before.
        if !self.in_lab && cell.keys_now(self.input)? != cell.keys {
            return Err(Failure::failed(
                "the scenario, or a file that it names, has changed since the sweep began; begin it again",
            ));
        }
        own.prepared = Some(Arc::clone(&prepared));
        Ok(prepared)
    }
}

impl Cell {
    /// What its measurements are known by, of what the files hold now.
    fn keys_now(&self, input: &Input) -> Result<Vec<String>, Failure> {
        let labels: Vec<&str> = self.policies.iter().map(String::as_str).collect();
        // Without the baseline nothing is compared with it.
        let baseline = self.base.map(|_| self.baseline.as_str());
        let with = ["sweep".to_owned()];
        let keys = input.content(&self.changes)?.keys(&labels, baseline, &with);
        keys.map_err(|error| {
            Failure::misused(format_args!(
                "a file that the scenario names: {error}; let it be read"
            ))
        })
    }

    /// The result, of what is known of its policies.
    fn result(&self, known: &BTreeMap<String, Measurements>) -> RunResult {
        let each = self.policies.iter().zip(&self.keys);
        let own = each.filter_map(|(policy, key)| Some((policy.clone(), known.get(key)?.clone())));
        let (origin, baseline) = (self.origin.clone(), Some(&*self.baseline));
        RunResult::of(origin, own.collect(), baseline, &self.published)
    }
}

fn lock<T>(open: &Mutex<T>) -> MutexGuard<'_, T> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
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

    /// `smsf` with each of `betas`, each with the seeds 1 and 2; the baseline's share doesn't change.
    fn betas<'a>(input: &'a Input, betas: &[&str]) -> Grid<'a> {
        let mut grid = Grid::new(input);
        for beta in betas {
            for seed in 1..=2 {
                let beta = Override::new("policy.smsf.beta", beta).unwrap();
                let changes = vec![beta, Override::seed(seed)];
                let scenario = input.load(&changes).unwrap();
                let shown = input.shown(&scenario).unwrap();
                grid.add(changes, scenario, shown).unwrap();
            }
        }
        grid
    }

    #[test]
    fn what_several_combinations_want_is_run_once() {
        let folder = TempDir::new().unwrap();
        // `smsf` first: it ends before what it is compared with has.
        let (rest, smsf) = SCENARIO.split_once("[[policy]]\nname = \"tcp\"\n").unwrap();
        let text = format!("{rest}{smsf}[[policy]]\nname = \"tcp\"\n");
        for jobs in ["1", "6"] {
            let input = input(&folder, &text, jobs);
            let both = betas(&input, &["0.05", "0.2"]);
            assert_eq!(both.runs(), 6, "`tcp` runs for each seed, `smsf` for each beta too");
            let both = results(&both);
            let alone = [betas(&input, &["0.05"]), betas(&input, &["0.2"])];
            let alone = alone.iter().flat_map(|grid| results(grid).into_values());
            assert_eq!(both.into_values().collect::<Vec<_>>(), alone.collect::<Vec<_>>());
            // One that is named twice is no other.
            let twice = betas(&input, &["0.05", "0.05"]);
            assert_eq!(twice.runs(), 4);
            assert_eq!(results(&twice).len(), 4);
        }
    }

    /// What the others are compared with is not kept whole: it is run again beside what is new.
    #[test]
    fn a_new_combination_is_compared_with_a_baseline_that_is_kept() {
        let folder = TempDir::new().unwrap();
        let input = input(&folder, SCENARIO, "2");
        let kept_in = |name: &str, values: &[&str]| {
            let mut grid = betas(&input, values);
            grid.keep_in(&folder.path().join(name)).unwrap();
            (grid.runs(), results(&grid))
        };
        assert_eq!(kept_in("kept", &["0.05"]).0, 4);
        let (ran, more) = kept_in("kept", &["0.05", "0.2"]);
        assert_eq!(ran, 4);
        assert_eq!(more, kept_in("other", &["0.05", "0.2"]).1);
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
