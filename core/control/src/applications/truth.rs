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

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use model::{Declared, FlowId, JobId, NodeId, TaskId};
use units::Bytes;

use crate::applications::flow::{Flow, Lie};
use crate::applications::registry::Registry;

/// Numbers of tasks from here on are the controller's own.
pub(crate) const OWN_TASKS: u32 = 0xc000_0000;

/// What headers of the application's own protocol may add to what it declares.
const SLACK: Bytes = Bytes::new(65_536);
/// Apart from that, 1 in so many.
const SLACK_PART: u64 = 64;

impl Registry {
    /// Checks the declared size of a flow against what has been delivered. When it is false, the flow
    /// counts as another from now on: whether it does.
    pub(crate) fn check_size(&mut self, id: FlowId) -> bool {
        let Some(flow) = self.flow_mut(id) else {
            return false;
        };
        let (Some(size), Some(job)) = (flow.size, flow.job()) else {
            return false;
        };
        if flow.delivered <= size + SLACK + Bytes::new(size.get() / SLACK_PART) {
            return false;
        }
        flow.size = Some(flow.delivered * 2);
        let is_first = flow.contradicted.is_none();
        flow.contradicted.get_or_insert(Lie::Size { declared: size });
        self.note_lie(job, is_first);
        true
    }

    /// Whether a job has declared sizes.
    pub(crate) fn has_sizes(&self, job: JobId) -> bool {
        self.job(job).is_some_and(|job| !job.sizes.is_empty())
    }

    /// What a job really moves between these pairs of hosts, as messages for a policy.
    pub(crate) fn corrected_sizes(
        &self,
        job: JobId,
        between: &BTreeSet<(NodeId, NodeId)>,
    ) -> Vec<Declared> {
        let ids = self.job(job).into_iter().flat_map(|job| job.flows.values());
        let mut moved: BTreeMap<_, Bytes> =
            between.iter().map(|ends| (*ends, Bytes::ZERO)).collect();
        for flow in ids.filter_map(|id| self.flow(*id)) {
            if let Some(bytes) = moved.get_mut(&flow.ends) {
                *bytes += flow.size.unwrap_or(flow.delivered);
            }
        }
        let told = moved.into_iter().flat_map(|((src, dst), bytes)| {
            // A node's number is below 2²², the most that a topology holds.
            let map = TaskId(OWN_TASKS | src.0);
            let reduce = TaskId(OWN_TASKS | 1 << 24 | dst.0);
            [
                Declared::TaskHost { job, task: map, host: src },
                Declared::TaskHost { job, task: reduce, host: dst },
                Declared::Size { job, map, reduces: vec![(reduce, bytes)] },
            ]
        });
        told.collect()
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
        let (queued, owner) = (flow.queued, flow.job());
        if let Some(job) = owner {
            self.note_lie(job, is_first);
        }
        (queued, owner.is_some())
    }

    /// A flow of an application counts as more than it was declared, if `raise` says that it does.
    pub(crate) fn raise(
        &mut self,
        id: FlowId,
        of: &str,
        raise: impl FnOnce(&mut Flow) -> bool,
    ) -> bool {
        let Some(flow) = self.flow_mut(id) else {
            return false;
        };
        let is_first = flow.contradicted.is_none();
        let is_raised = raise(flow);
        if is_raised {
            self.note_raised(of, is_first);
        }
        is_raised
    }

    pub(super) fn note_raised(&mut self, of: &str, is_first: bool) {
        if let Some(application) = self.applications.get_mut(of).filter(|_| is_first) {
            application.contradicted += 1;
        }
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

#[cfg(test)]
mod tests {
    use units::Time;

    use super::*;

    const MEGA: u64 = 1_000_000;

    fn one_flow() -> (Registry, FlowId) {
        let mut registry = Registry::default();
        registry.applications.add("app").expect("there is room");
        let job = registry.add_job(Time::ZERO, "app", "job").expect("there is room");
        let connection = protocol::Connection {
            source: ([10, 0, 0, 1], 1).into(),
            destination: ([10, 0, 0, 2], 2).into(),
        };
        let size = Some(Bytes::new(MEGA));
        let ends = (NodeId(0), NodeId(1));
        let flow = Flow::new(Some((job, "1".into())), connection.into(), ends, size, Time::ZERO);
        let id = registry.add_flow(flow).expect("there is room");
        (registry, id)
    }

    #[test]
    fn a_size_is_doubled_when_more_was_delivered_and_the_lie_counts_once() {
        let (mut registry, id) = one_flow();
        let mut delivered = |bytes| {
            registry.flow_mut(id).expect("it is there").delivered = Bytes::new(bytes);
            registry.check_size(id).then(|| registry.flow(id).unwrap().size.unwrap().get())
        };
        assert_eq!(delivered(MEGA + 65_536), None, "headers of the application");
        assert_eq!(delivered(2 * MEGA), Some(4 * MEGA));
        assert_eq!(delivered(4 * MEGA), None);
        assert_eq!(delivered(5 * MEGA), Some(10 * MEGA));
        assert_eq!(registry.applications.get("app").map(|known| known.contradicted), Some(1));
    }

    #[test]
    fn a_backlog_that_the_kernel_lacks_is_false_unless_we_hold_the_flow() {
        let (mut registry, id) = one_flow();
        let much = Bytes::new(MEGA);
        assert_eq!(registry.backlog(id, much, true), (much, false));
        assert_eq!(registry.backlog(id, much, false), (Bytes::ZERO, true));
        registry.flow_mut(id).expect("it is there").queued = Bytes::new(5);
        assert_eq!(registry.backlog(id, much, false), (much + Bytes::new(5), false));
    }

    #[test]
    fn a_jobs_corrected_sizes_are_those_between_two_hosts() {
        let (mut registry, id) = one_flow();
        let job = registry.flow(id).and_then(Flow::job).expect("it is of a job");
        let connection = protocol::Connection {
            source: ([10, 0, 0, 1], 1).into(),
            destination: ([10, 0, 0, 3], 2).into(),
        };
        let other = (NodeId(0), NodeId(2));
        let size = Some(Bytes::new(5 * MEGA));
        let flow = Flow::new(Some((job, "2".into())), connection.into(), other, size, Time::ZERO);
        registry.add_flow(flow).expect("there is room");
        assert!(!registry.has_sizes(job));
        registry.job_mut(job).expect("it is there").sizes.insert(TaskId(0), vec![]);
        assert!(registry.has_sizes(job));
        let between = BTreeSet::from([(NodeId(0), NodeId(1)), other]);
        let told = registry.corrected_sizes(job, &between);
        let size = |told: &Declared| match told {
            Declared::Size { reduces, .. } => Some(reduces.clone()),
            _ => None,
        };
        let reduce = |dst: u32, bytes| vec![(TaskId(OWN_TASKS | 1 << 24 | dst), Bytes::new(bytes))];
        let sizes: Vec<_> = told.iter().filter_map(size).collect();
        assert_eq!(sizes, [reduce(1, MEGA), reduce(2, 5 * MEGA)]);
    }
}
