//! The policy, fed with what the front end sees; its orders go to the requests that they are for.

use std::collections::HashMap;
use std::sync::Arc;

use model::{
    Declared, Directive, Directives, HubOrder, JobId, Network, NodeId, Observation, Request,
};
use policy::{Policy, PolicyError};
use tokio::sync::mpsc;
use tokio::time::Instant;
use units::Time;

use crate::settings::Settings;

pub(crate) struct Decider {
    policy: Box<dyn Policy + Send>,
    network: Network,
    began: Instant,
    next: u32,
    requests: HashMap<JobId, mpsc::UnboundedSender<Arc<HubOrder>>>,
    out: Directives,
}

impl Decider {
    pub(crate) fn new(settings: &Settings) -> Result<Self, PolicyError> {
        let (descriptor, parameters) = &settings.policy;
        Ok(Self {
            policy: descriptor.build(parameters)?,
            network: Network::new(settings.topology()),
            began: Instant::now(),
            next: 0,
            requests: HashMap::new(),
            out: Directives::new(),
        })
    }

    /// Begins a request for objects of these sizes and holders; its number, and the orders for it.
    pub(crate) fn begin(
        &mut self,
        front: NodeId,
        sizes: Vec<u32>,
        holders: Vec<NodeId>,
        copies: usize,
    ) -> (JobId, mpsc::UnboundedReceiver<Arc<HubOrder>>) {
        let id = JobId(self.next);
        self.next = self.next.wrapping_add(1);
        let (to, orders) = mpsc::unbounded_channel();
        self.requests.insert(id, to);
        let request = Request { id, front, sizes, holders, copies, spare: Vec::new() };
        self.tell(Observation::Declared(Declared::Gather(Arc::new(request))));
        (id, orders)
    }

    pub(crate) fn end(&mut self, job: JobId) {
        self.tell(Observation::Declared(Declared::JobComplete { job }));
        self.requests.remove(&job);
    }

    pub(crate) fn tell(&mut self, observation: Observation) {
        let elapsed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let now = Time::from_nanos(elapsed);
        self.policy.observe(now, &self.network, &observation);
        self.policy.decide(now, &self.network, &mut self.out);
        // Who has one would wait in vain: nothing here wakes a policy.
        debug_assert_eq!(self.policy.deadline(), None, "a policy that gathers has no deadline");
        for directive in self.out.drain(..) {
            if let Directive::Gather { request, order } = directive
                && let Some(to) = self.requests.get(&request)
            {
                // A request that has just ended hears no more.
                let _ = to.send(order);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Measured;
    use policy::DirectiveKind;
    use units::Span;

    use super::*;

    const POOL: &str = r#"
pool = { hashing = "ketama" }
front = { listen = "127.0.0.1:11211" }
rack = [{ name = "r1" }]
server = [
    { name = "s1", address = "10.0.0.1:11211", hub = "10.0.0.1:11311", rack = "r1" },
    { name = "s2", address = "10.0.0.2:11211", hub = "10.0.0.2:11311", rack = "r1" },
]
"#;

    #[test]
    fn no_policy_that_gathers_has_a_deadline() {
        for policy in policy::saying(DirectiveKind::Gather) {
            let text = format!("policy = {{ name = \"{}\" }}{POOL}", policy.name);
            let settings = Settings::read("g.toml", &text).unwrap();
            let mut decider = Decider::new(&settings).unwrap();
            let holders = vec![NodeId(0), NodeId(1)];
            let (request, _orders) = decider.begin(NodeId(2), vec![1000; 2], holders, 1);
            assert_eq!(decider.policy.deadline(), None, "{}", policy.name);
            let (late, took) = (false, Span::from_millis(1));
            decider.tell(Observation::Measured(Measured::Answered { request, late, took }));
            assert_eq!(decider.policy.deadline(), None, "{}", policy.name);
            decider.end(request);
        }
    }
}
