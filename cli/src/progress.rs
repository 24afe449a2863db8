//! Progress and remaining time of runs, on a terminal only.

use std::io::{self, IsTerminal};
use std::sync::Mutex;

use experiment::run::{Prepared, Task};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use packet::Progress;

/// Steps that a run counts for.
const STEPS: u64 = 1000;

/// One bar on standard error for many runs, by the part done of each; none unless that is a
/// terminal.
pub(crate) struct Count {
    bar: ProgressBar,
    /// Steps of each run.
    steps: Mutex<Vec<u64>>,
}

impl Count {
    pub(crate) fn new(runs: usize) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let total = STEPS * runs as u64;
        let style = ProgressStyle::with_template(
            "{bar:40} {percent:>3} %  {elapsed} passed, {eta} to go  {msg}",
        );
        let bar = ProgressBar::with_draw_target(Some(total), target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, steps: Mutex::new(vec![0; runs]) }
    }

    /// Shows nothing any more.
    pub(crate) fn hide(&self) {
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
    }

    /// Lets `act` write to the terminal, without the bar between its lines.
    pub(crate) fn beside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }

    /// Records that the part `done`, from 0 to 1, of run number `run` is done.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and STEPS
    pub(crate) fn update(&self, run: usize, done: f64) {
        let steps = (done.clamp(0.0, 1.0) * STEPS as f64) as u64;
        // A poisoned lock means that another thread panicked, which ends the command anyway.
        if let Ok(mut all) = self.steps.lock()
            && let Some(own) = all.get_mut(run)
        {
            *own = steps.max(*own);
            self.bar.set_position(all.iter().sum());
        }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The bar of the runs of scenarios.
pub(crate) struct Bar<'a> {
    count: Count,
    runs: Vec<&'a Prepared>,
}

impl<'a> Bar<'a> {
    pub(crate) fn new(tasks: &[Task<'a>]) -> Self {
        let runs = tasks.iter().map(|task| task.prepared);
        let bar = Self { count: Count::new(tasks.len()), runs: runs.collect() };
        if bar.runs.iter().any(|prepared| prepared.has_engine()) {
            // These tell in words.
            bar.count.hide();
        }
        bar
    }

    /// Records the progress of run number `run`.
    pub(crate) fn update(&self, run: usize, progress: &Progress) {
        if let Some(prepared) = self.runs.get(run) {
            self.count.bar.set_message(format!("{} flows ended", progress.ended));
            self.count.update(run, prepared.done(progress));
        }
    }
}
