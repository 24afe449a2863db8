//! The policy: what it observes, and what it decides.

use alloc::boxed::Box;
use alloc::string::String;

use model::{Directives, FlowId, LinkId, Measured, Network, Observation};
use policy::{Account, Policy, Watch};
use units::{Span, Time};

/// The policy and its name.
pub(crate) struct Decider {
    name: String,
    policy: Box<dyn Policy + Send>,
}

impl Decider {
    pub(crate) fn new(name: String, policy: Box<dyn Policy + Send>) -> Self {
        Self { name, policy }
    }

    /// What the policy is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Tells the policy.
    pub(crate) fn tell(&mut self, now: Time, network: &Network, observation: &Observation) {
        self.policy.observe(now, network, observation);
    }

    /// Tells the policy that a link is up, or down, before the next one changes. It hears of all links, whatever is
    /// drained.
    pub(crate) fn tell_link(&mut self, now: Time, network: &Network, link: LinkId, up: bool) {
        self.tell(now, network, &Observation::Measured(Measured::LinkState { link, up }));
    }

    /// What follows from all that the policy was told since it decided last.
    pub(crate) fn decide(&mut self, now: Time, network: &Network) -> Directives {
        let mut directives = Directives::new();
        self.policy.decide(now, network, &mut directives);
        directives
    }

    /// The objective of a flow, and what it has of the links of its path.
    pub(crate) fn account(&self, flow: FlowId) -> Option<Account> {
        self.policy.account(flow)
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.policy.deadline()
    }

    /// What switches are to report to the policy.
    pub(crate) fn watch(&self) -> Option<Watch> {
        self.policy.watch()
    }

    /// How often the policy is to be told what ports have sent.
    pub(crate) fn ports(&self) -> Option<Span> {
        self.policy.ports()
    }
}
