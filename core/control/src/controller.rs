//! The machine itself.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use policy::Policy;
use units::{Span, Time};

use crate::config::{Config, ConfigError, Limits};
use crate::message::{Input, Output, Refusal};
use crate::status::{Counters, FlowExplanation, FlowStatus, JobExplanation, Status};

/// The controller.
pub struct Controller {
    config: Config,
    epoch: u64,
    since: Time,
    counters: Counters,
}

/// What may change while the controller runs. What is `None` stays.
#[derive(Default)]
pub struct Change {
    /// Another policy and its name. It learns all that is declared; limits of the old one stand until
    /// the new one has decided.
    pub policy: Option<(String, Box<dyn Policy + Send>)>,
    /// Other limits. What exceeds them already stays.
    pub limits: Option<Limits>,
    /// Another lease.
    pub lease: Option<Span>,
}

impl Controller {
    /// A controller that begins at `now`. `epoch` must be higher than that of every controller
    /// before it: actuators refuse what is older.
    ///
    /// # Errors
    /// A configuration that contradicts itself.
    pub fn new(config: Config, epoch: u64, now: Time) -> Result<Self, ConfigError> {
        Ok(Self { config, epoch, since: now, counters: Counters::default() })
    }

    /// Takes in what happened at `now` and appends to `out` what is to be done. Time that goes
    /// backwards is taken to stand still.
    ///
    /// # Errors
    /// A declaration or a report that is not taken, and why. Nothing has changed then.
    pub fn input(
        &mut self,
        now: Time,
        input: Input<'_>,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let _ = (now, input, out);
        Ok(())
    }

    /// When to come with [`Input::Tick`] although nothing happened.
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Comes with [`Input::Tick`].
    pub fn tick(&mut self, now: Time, out: &mut Vec<Output>) {
        // A tick is never refused.
        let _ = self.input(now, Input::Tick, out);
    }

    /// Changes what may change while it runs, and forgets nothing.
    pub fn reconfigure(&mut self, now: Time, change: Change, out: &mut Vec<Output>) {
        let _ = (now, change, out);
    }

    /// How everything stands.
    pub fn status(&self) -> Status {
        Status {
            epoch: self.epoch,
            since_ns: self.since,
            policy: self.config.policy_name.clone(),
            ..Status::default()
        }
    }

    /// What has happened since the beginning.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// At most `most` flows, those with the highest measured rate first.
    pub fn flows(&self, most: usize) -> Vec<FlowStatus> {
        let _ = most;
        Vec::new()
    }

    /// Why a flow has its rate; `None` when there is no such flow.
    pub fn explain_flow(&self, application: &str, job: &str, flow: u64) -> Option<FlowExplanation> {
        let _ = (application, job, flow);
        None
    }

    /// Why the flows of a job have their rates; `None` when there is no such job.
    pub fn explain_job(&self, application: &str, job: &str) -> Option<JobExplanation> {
        let _ = (application, job);
        None
    }
}
