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
