//! Declared against measured: where they contradict each other, the measured wins.
//!
//! *Sizes.* More has been delivered than was declared: from then on the flow counts as twice what
//! was delivered, doubled again whenever that is passed, so that a lie is found at most 64 times.
//! Policies that go by flows hear of it as of a flow that ends and enters again; those that go by
//! `SIZE` messages as of a map and a reduce of the controller's own between the two hosts.
//!
//! *Backlogs.* An application says that data waits, but the kernel at the sender has nothing to
//! send and we don't hold the flow back: then what waits is what the kernel has. A program that
//! really has data to send keeps its socket's buffer filled.

use alloc::vec;

use model::{Declared, FlowId, JobId, NodeId, TaskId};
use units::Bytes;

use crate::applications::registry::{Lie, Registry};

/// Numbers of tasks from here on are the controller's own.
pub(crate) const OWN_TASKS: u32 = 0xc000_0000;

/// What headers of the application's own protocol may add to what it declares.
const SLACK: Bytes = Bytes::new(65_536);
/// Apart from that, 1 in so many.
const SLACK_PART: u64 = 64;

impl Registry {
    /// Checks the declared size of a flow against what has been delivered: its job and the size that
    /// it counts as from now on, when the declared one is false.
    pub(crate) fn check_size(&mut self, id: FlowId) -> Option<(JobId, Bytes)> {
        let flow = self.flow_mut(id)?;
        let (size, (job, _)) = (flow.size?, flow.owner?);
        if flow.delivered <= size + SLACK + Bytes::new(size.get() / SLACK_PART) {
            return None;
        }
        let new = flow.delivered * 2;
        flow.size = Some(new);
        let is_first = flow.contradicted.is_none();
        flow.contradicted.get_or_insert(Lie::Size { declared: size });
        self.note_lie(job, is_first);
        Some((job, new))
    }

    /// What a job that has declared sizes really moves between two hosts, as messages for a policy.
    pub(crate) fn corrected_sizes(
        &self,
        job: JobId,
        src: NodeId,
        dst: NodeId,
    ) -> Option<[Declared; 3]> {
        let record = self.job(job).filter(|job| !job.sizes.is_empty())?;
        let flows = record.flows.values().filter_map(|id| self.flow(*id));
        let between = flows.filter(|flow| flow.ends == (src, dst));
        let bytes: Bytes = between.map(|flow| flow.size.unwrap_or(flow.delivered)).sum();
        // A node's number is below 2²², the most that a topology holds.
        let map = TaskId(OWN_TASKS | src.0);
        let reduce = TaskId(OWN_TASKS | 1 << 24 | dst.0);
        Some([
            Declared::TaskHost { job, task: map, host: src },
            Declared::TaskHost { job, task: reduce, host: dst },
            Declared::Size { job, map, reduces: vec![(reduce, bytes)] },
        ])
    }

    /// What waits at the sender of a stream that was measured lately and declares so much, and whether
    /// that is another amount than it declares. `is_held`: we hold it back, as far as is known.
    pub(crate) fn backlog(&mut self, id: FlowId, declared: Bytes, is_held: bool) -> (Bytes, bool) {
        let Some(flow) = self.flow_mut(id) else {
            return (declared, false);
        };
        let is_false = declared > SLACK && flow.queued == Bytes::ZERO && !is_held;
        if !is_false {
            if flow.queued > Bytes::ZERO && matches!(flow.contradicted, Some(Lie::Backlog { .. })) {
                flow.contradicted = None;
            }
            // The kernel's part of the queue is not in what the application knows.
            return (declared + flow.queued, false);
        }
        let is_first = flow.contradicted.is_none();
        flow.contradicted = Some(Lie::Backlog { declared });
        let (queued, owner) = (flow.queued, flow.owner);
        if let Some((job, _)) = owner {
            self.note_lie(job, is_first);
        }
        (queued, owner.is_some())
    }

    fn note_lie(&mut self, job: JobId, is_first: bool) {
        let application = self.job(job).map(|job| job.application.clone());
        if let Some(name) = application.filter(|_| is_first)
            && let Some(application) = self.applications.get_mut(&name)
        {
            application.contradicted += 1;
        }
    }
}
