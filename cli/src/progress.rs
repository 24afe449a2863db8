//! How far the runs have come and when they will be done: on a terminal only.

use std::io::{self, IsTerminal};
use std::sync::Mutex;

use experiment::run::{Prepared, Task};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use packet::Progress;

/// Steps that a run counts for.
const STEPS: u64 = 1000;

/// A bar on standard error; nothing when that is no terminal.
pub(crate) struct Bar<'a> {
    bar: ProgressBar,
    runs: Vec<&'a Prepared>,
    /// Steps of each run.
    steps: Mutex<Vec<u64>>,
}

impl<'a> Bar<'a> {
    pub(crate) fn new(tasks: &[Task<'a>]) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let total = STEPS * tasks.len() as u64;
        let style = ProgressStyle::with_template(
            "{bar:40} {percent:>3} %  {elapsed} passed, {eta} to go  {msg}",
        );
        let bar = ProgressBar::with_draw_target(Some(total), target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            bar,
            runs: tasks.iter().map(|task| task.prepared).collect(),
            steps: Mutex::new(vec![0; tasks.len()]),
        }
    }

    /// Takes note of how far run number `run` has come.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and STEPS
    pub(crate) fn update(&self, run: usize, progress: &Progress) {
        let Some(prepared) = self.runs.get(run) else {
            return;
        };
        let steps = (prepared.done(progress) * STEPS as f64) as u64;
        // A poisoned lock means that another thread panicked, which ends the command anyway.
        if let Ok(mut all) = self.steps.lock()
            && let Some(own) = all.get_mut(run)
        {
            *own = steps.max(*own);
            self.bar.set_position(all.iter().sum());
            self.bar.set_message(format!("{} flows ended", progress.ended));
        }
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
