//! Which jobs are registered, and which of their flows are in the network.
//!
//! This is where messages that contradict earlier ones end: a job that starts twice, a flow of an
//! unknown job, a number that is in use, a flow that ends twice or for another job.

use alloc::collections::BTreeMap;

use model::{FlowId, JobId, Network, NodeId};

use crate::flow_map::{FlowMap, FlowSet};

/// Registered jobs, each with a policy's own record `J` of it.
#[derive(Debug)]
pub(crate) struct Roster<J> {
    jobs: BTreeMap<JobId, Entry<J>>,
    owners: FlowMap<JobId>,
}

/// A registered job.
#[derive(Debug)]
pub(crate) struct Entry<J> {
    /// What the policy remembers of it.
    pub(crate) record: J,
    /// Its flows in the network.
    pub(crate) flows: FlowSet,
}

impl<J> Default for Roster<J> {
    fn default() -> Self {
        Self { jobs: BTreeMap::new(), owners: FlowMap::default() }
    }
}

impl<J> Roster<J> {
    /// Registers a job, unless it is already.
    pub(crate) fn start(&mut self, job: JobId, record: impl FnOnce() -> J) {
        self.jobs
            .entry(job)
            .or_insert_with(|| Entry { record: record(), flows: FlowSet::default() });
    }

    /// Forgets a job and returns the flows it still had in the network.
    pub(crate) fn complete(&mut self, job: JobId) -> FlowSet {
        let flows = self.jobs.remove(&job).map(|entry| entry.flows);
        let flows = flows.unwrap_or_default();
        for flow in flows.iter() {
            self.owners.remove(flow);
        }
        flows
    }

    /// Adds a flow to a registered job. `None` when the job or an end of the flow is unknown or
    /// the flow's number is in use.
    pub(crate) fn enter(
        &mut self,
        network: &Network,
        job: JobId,
        flow: FlowId,
        ends: (NodeId, NodeId),
    ) -> Option<&mut Entry<J>> {
        if !exists(network, ends.0) || !exists(network, ends.1) || self.owners.get(flow).is_some() {
            return None;
        }
        let entry = self.jobs.get_mut(&job)?;
        entry.flows.insert(flow);
        self.owners.insert(flow, job);
        Some(entry)
    }

    /// Removes a flow of a job; whether it was there.
    pub(crate) fn leave(&mut self, job: JobId, flow: FlowId) -> bool {
        if self.owners.get(flow) != Some(&job) {
            return false;
        }
        self.owners.remove(flow);
        let entry = self.jobs.get_mut(&job);
        entry.is_some_and(|entry| entry.flows.remove(flow))
    }

    /// A registered job.
    pub(crate) fn get_mut(&mut self, job: JobId) -> Option<&mut Entry<J>> {
        self.jobs.get_mut(&job)
    }

    /// The job of a flow.
    pub(crate) fn owner(&self, flow: FlowId) -> Option<JobId> {
        self.owners.get(flow).copied()
    }

    /// All registered jobs.
    pub(crate) fn jobs_mut(&mut self) -> impl Iterator<Item = &mut Entry<J>> {
        self.jobs.values_mut()
    }

    /// All registered jobs.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Entry<J>> {
        self.jobs.values()
    }
}

/// Whether `node` is of this network.
pub(crate) fn exists(network: &Network, node: NodeId) -> bool {
    node.index() < network.topology().nodes().len()
}
