//! Declared against measured: where they contradict each other, the measured wins.
//!
//! *Sizes.* More has been delivered than was declared: from then on the flow counts as twice what
//! was delivered, doubled again whenever that is passed, so that a lie is found at most 64 times.
//! Policies that go by flows hear of it as of a flow that ends and enters again; those that go by
//! `SIZE` messages as of a map and a reduce of the controller's own between the two hosts.
//!
//! *Backlogs.* An application says that data waits, but the kernel at the sender has nothing to
//! send and the flow isn't held back by us: then what waits is what the kernel has. A program that
//! really has data to send keeps its socket's buffer filled.

use alloc::vec;

use model::{Declared, FlowId, JobId, NodeId, TaskId};
use units::Bytes;

use crate::controller::Controller;
use crate::declared::OWN_TASKS;
use crate::registry::Lie;

/// What headers of the application's own protocol may add to what it declares.
const SLACK: Bytes = Bytes::new(65_536);
/// Apart from that, 1 in so many.
const SLACK_PART: u64 = 64;

impl Controller {
    /// Checks the declared size of a flow against what has been delivered.
    pub(crate) fn check_size(&mut self, id: FlowId) {
        let Some(flow) = self.registry.flow_mut(id) else {
            return;
        };
        let (Some(size), Some((job, _))) = (flow.size, flow.owner) else {
            return;
        };
        if flow.delivered <= size + SLACK + Bytes::new(size.get() / SLACK_PART) {
            return;
        }
        let new = flow.delivered * 2;
        flow.size = Some(new);
        let first = flow.contradicted.is_none();
        flow.contradicted.get_or_insert(Lie::Size { declared: size });
        let (src, dst) = flow.ends;
        self.contradicted(job, first);
        // What the policy wanted of the flow that ends, it may not want of the one that enters.
        self.obey();
        self.tell(Declared::FlowComplete { job, flow: id });
        self.obey();
        if let Some(flow) = self.registry.flow_mut(id) {
            flow.intended = None;
            self.touched.insert(flow.connection);
        }
        self.tell(Declared::FlowRequest { job, flow: id, src, dst, size: new });
        self.correct_sizes(job, src, dst);
    }

    /// Tells what the job really moves between two hosts, when it has declared sizes.
    fn correct_sizes(&mut self, job: JobId, src: NodeId, dst: NodeId) {
        let Some(record) = self.registry.job(job).filter(|job| !job.sizes.is_empty()) else {
            return;
        };
        let flows = record.flows.values().filter_map(|id| self.registry.flow(*id));
        let between = flows.filter(|flow| flow.ends == (src, dst));
        let sizes = between.map(|flow| flow.size.unwrap_or(flow.delivered));
        let bytes: Bytes = sizes.sum();
        // A node's number is below 2²², the most that a topology holds.
        let map = TaskId(OWN_TASKS | src.0);
        let reduce = TaskId(OWN_TASKS | 1 << 24 | dst.0);
        self.tell(Declared::TaskHost { job, task: map, host: src });
        self.tell(Declared::TaskHost { job, task: reduce, host: dst });
        self.tell(Declared::Size { job, map, reduces: vec![(reduce, bytes)] });
    }

    /// What waits at the sender of a stream that was measured lately and declares so much.
    pub(crate) fn backlog(&mut self, id: FlowId, declared: Bytes) -> Bytes {
        let Some(flow) = self.registry.flow_mut(id) else {
            return declared;
        };
        let is_false = declared > SLACK && flow.queued == Bytes::ZERO && !flow.is_held();
        if !is_false {
            if flow.queued > Bytes::ZERO && matches!(flow.contradicted, Some(Lie::Backlog { .. })) {
                flow.contradicted = None;
            }
            // The kernel's part of the queue is not in what the application knows.
            return declared + flow.queued;
        }
        let first = flow.contradicted.is_none();
        flow.contradicted = Some(Lie::Backlog { declared });
        let queued = flow.queued;
        if let Some((job, _)) = flow.owner {
            self.contradicted(job, first);
        }
        queued
    }

    fn contradicted(&mut self, job: JobId, first: bool) {
        self.counters.contradictions += 1;
        let application = self.registry.job(job).map(|job| job.application.clone());
        if let Some(name) = application.filter(|_| first)
            && let Some(application) = self.registry.applications.get_mut(&name)
        {
            application.contradicted += 1;
        }
    }
}
