//! The policy: what it is told, and what it has decided.

use alloc::boxed::Box;
use alloc::string::String;

use model::{Directives, Network, Observation};
use policy::{Policy, Watch};
use units::Time;

/// The policy and the directives that nobody has acted upon yet.
pub(crate) struct Decider {
    pub(crate) name: String,
    policy: Box<dyn Policy + Send>,
    directives: Directives,
}

impl Decider {
    pub(crate) fn new(name: String, policy: Box<dyn Policy + Send>) -> Self {
        Self { name, policy, directives: Directives::new() }
    }

    /// Tells the policy.
    pub(crate) fn tell(
        &mut self,
        now: Time,
        network: &Network,
        observation: impl Into<Observation>,
    ) {
        self.policy.hear(now, network, &observation.into(), &mut self.directives);
    }

    /// Has the policy decide about all that it was told.
    pub(crate) fn conclude(&mut self, now: Time, network: &Network) {
        self.policy.conclude(now, network, &mut self.directives);
    }

    /// The same, and what the policy does as time passes.
    pub(crate) fn tick(&mut self, now: Time, network: &Network) {
        self.conclude(now, network);
        if self.policy.deadline().is_some_and(|deadline| deadline <= now) {
            self.policy.tick(now, network, &mut self.directives);
        }
    }

    /// Takes out what the policy has decided.
    pub(crate) fn take_directives(&mut self) -> Directives {
        core::mem::take(&mut self.directives)
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.policy.deadline()
    }

    /// What switches are to report to the policy.
    pub(crate) fn watch(&self) -> Option<Watch> {
        self.policy.watch()
    }
}
