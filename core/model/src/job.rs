//! What applications want to move: flows, grouped into jobs.

use alloc::vec::Vec;

use units::{Bytes, Span, Time};

use crate::{JobId, NodeId, TaskId, Terms};

/// A job, or coflow: flows that are of use only together.
///
/// It is complete when its last flow is; its completion time (JCT, CCT) runs from `arrival`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Unique in the run.
    pub id: JobId,
    /// When the job starts its transfers.
    pub arrival: Time,
    /// Size class, where the workload has classes.
    pub class: Option<JobClass>,
    /// What it asks for.
    pub terms: Terms,
    /// Its transfers between different hosts. Transfers within a host cross no network and are
    /// left out.
    pub flows: Vec<Flow>,
}

impl Job {
    /// Payload of all flows.
    pub fn size(&self) -> Bytes {
        self.flows.iter().map(|flow| flow.size).sum()
    }
}

/// One transfer of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Sending host.
    pub src: NodeId,
    /// Receiving host.
    pub dst: NodeId,
    /// Sending task (the map of a shuffle).
    pub from: TaskId,
    /// Receiving task (the reduce of a shuffle).
    pub to: TaskId,
    /// Payload; [`Bytes::MAX`] for a flow that never ends.
    pub size: Bytes,
    /// Start, counted from the job's arrival.
    pub offset: Span,
}

/// Size class of a job by its shuffled bytes (Phurti, table 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobClass {
    /// 62 % of jobs, 5.5 % of bytes.
    Small,
    /// 16 % of jobs, 10.3 % of bytes.
    Medium,
    /// 22 % of jobs, 84.2 % of bytes.
    Large,
}

impl JobClass {
    /// All classes, smallest first.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// The name used in metrics and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}
