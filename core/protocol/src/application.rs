//! Northbound: what applications declare.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use units::Bytes;

use crate::{Connection, Processes};

/// One northbound message. Names and meanings are those of Phurti, section 5.1; amounts are payload.
/// Jobs and flows are named as the application likes, unique within the application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Declaration {
    /// `JOB_START`: a job registers.
    JobStart {
        /// The job.
        job: String,
    },
    /// What a job asks for, in place of what it asked for before. Not in the text. Each policy heeds what it
    /// can: the operator's configuration says who may ask for what.
    JobTerms {
        /// The job.
        job: String,
        /// The objective of the controller's configuration that it is to be under, by its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        objective: Option<String>,
        /// How long it may take from its start to its end, milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline_ms: Option<u64>,
        /// What its completion is worth beside that of others, from 1 to 1000000; 1 where nothing is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weight: Option<u32>,
    },
    /// `JOB_COMPLETE`: a job unregisters; what it still had in the network is forgotten.
    JobComplete {
        /// The job.
        job: String,
    },
    /// `TASK_HOST`: a task was launched on a host.
    TaskHost {
        /// The job.
        job: String,
        /// The map or reduce task.
        task: u32,
        /// Where it runs: name or address of the host.
        host: String,
    },
    /// `SIZE`: a map task finished and knows what each reduce task will fetch from it.
    Size {
        /// The job.
        job: String,
        /// The map task.
        map: u32,
        /// Payload for each reduce task.
        reduces: Vec<Portion>,
    },
    /// `FLOW_REQUEST`: a transfer begins.
    FlowRequest {
        /// The job.
        job: String,
        /// The flow.
        flow: String,
        /// Its packets.
        connection: Connection,
        /// Who has its ends, where ports are 0.
        #[serde(default, skip_serializing_if = "Processes::is_empty")]
        processes: Processes,
        /// Payload; nothing for a stream, which never ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<Bytes>,
    },
    /// `FLOW_COMPLETE`: a transfer ended.
    FlowComplete {
        /// The job.
        job: String,
        /// The flow.
        flow: String,
    },
    /// How streams of the job stand, sampled at the same moment.
    Streams {
        /// The job.
        job: String,
        /// The streams.
        samples: Vec<StreamReport>,
    },
}

impl Declaration {
    /// The job that it is about.
    pub fn job(&self) -> &str {
        match self {
            Self::JobStart { job }
            | Self::JobTerms { job, .. }
            | Self::JobComplete { job }
            | Self::TaskHost { job, .. }
            | Self::Size { job, .. }
            | Self::FlowRequest { job, .. }
            | Self::FlowComplete { job, .. }
            | Self::Streams { job, .. } => job,
        }
    }
}

/// What one reduce task will fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Portion {
    /// The reduce task.
    pub task: u32,
    /// Payload.
    pub bytes: Bytes,
}

/// How a stream stands. All amounts are payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamReport {
    /// The flow.
    pub flow: String,
    /// What reached the receiver since the stream began.
    pub delivered_bytes: Bytes,
    /// What waits in the sending application. What its kernel has of it is left out: the agent there measures
    /// that, and it is added.
    pub sender_queue_bytes: Bytes,
    /// What arrived and waits to be processed.
    pub receiver_queue_bytes: Bytes,
}

/// The answer to declarations, each of which was looked at by itself, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// How many were taken.
    pub taken: u64,
    /// The epoch of the controller that answers.
    pub epoch: u64,
    /// Those that were refused, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedDeclaration>,
    /// Those from this index on were not looked at: say them again later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<u64>,
    /// Why they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Outcome {
    /// The declaration at `index` is refused; `later` it may be taken.
    pub fn refuse(&mut self, index: u64, Problem { field, reason }: Problem, later: bool) {
        self.refused.push(RefusedDeclaration { index, field, reason, later });
    }
}

/// A declaration that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RefusedDeclaration {
    /// Its place in the request, from 0.
    pub index: u64,
    /// The field at fault.
    pub field: String,
    /// What is wrong with it, and the remedy.
    pub reason: String,
    /// A limit was reached: once something has ended the same declaration may be taken.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub later: bool,
}

/// The answer to a request that was refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// What is wrong with it.
    pub error: Problem,
}

/// What is wrong with a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The field at fault; empty where none is.
    pub field: String,
    /// What is wrong with it, and the remedy.
    pub reason: String,
}

/// The answer to a question for the controller's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// The controller's epoch.
    pub epoch: u64,
    /// Declarations that it has taken since it started.
    pub declared: u64,
}

/// The answer to a question for who leads, of several controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Leader {
    /// The leader's epoch; 0 where nobody is known to lead.
    pub epoch: u64,
    /// Whether it is the one that answers.
    pub here: bool,
    /// Its name, where there are several controllers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Since when it leads, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_s: Option<u64>,
}
