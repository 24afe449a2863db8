//! What a world's applications tell a policy, in the words of the northbound interface.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;

use model::{Declared, FlowId, JobId, NodeId, StreamSample, TaskId, Terms};
use units::Bytes;

use crate::application::{Declaration, Portion, StreamReport};
use crate::{Connection, Processes};

/// How a controller knows what a world knows by number.
pub trait Names {
    /// The name or address of a host.
    fn host(&self, host: NodeId) -> Option<String>;
    /// The connection of a flow between two hosts.
    fn connection(&self, flow: FlowId, ends: (NodeId, NodeId)) -> Option<Connection>;
}

/// Translates, and keeps what the interface wants to hear with later messages: the jobs of flows.
/// Jobs and flows are called by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Translator {
    flows: BTreeMap<FlowId, (JobId, Connection)>,
    jobs: BTreeMap<JobId, BTreeSet<FlowId>>,
    unspoken: u64,
}

impl Translator {
    /// The connection of a flow, while it is open.
    pub fn connection(&self, flow: FlowId) -> Option<&Connection> {
        self.flows.get(&flow).map(|(_, connection)| connection)
    }

    /// How much was told that the interface has no words for.
    pub const fn unspoken(&self) -> u64 {
        self.unspoken
    }

    /// What is to be declared: usually one declaration; for samples one a job.
    pub fn translate(&mut self, declared: &Declared, names: &impl Names) -> Vec<Declaration> {
        let said = match declared {
            Declared::JobStart { job, .. } => Some(Declaration::JobStart { job: name(*job) }),
            Declared::JobTerms { job, terms } => Some(Declaration::JobTerms {
                job: name(*job),
                objective: terms.objective.as_deref().map(String::from),
                deadline_ms: terms.deadline.map(|span| span.as_nanos() / 1_000_000),
                weight: Some(terms.weight).filter(|weight| *weight != Terms::default().weight),
            }),
            Declared::JobComplete { job } => {
                for flow in self.jobs.remove(job).unwrap_or_default() {
                    self.flows.remove(&flow);
                }
                Some(Declaration::JobComplete { job: name(*job) })
            }
            Declared::TaskHost { job, task, host } => names
                .host(*host)
                .map(|host| Declaration::TaskHost { job: name(*job), task: task.0, host }),
            Declared::Size { job, map, reduces } => {
                let portion = |&(task, bytes): &(TaskId, Bytes)| Portion { task: task.0, bytes };
                let reduces = reduces.iter().map(portion).collect();
                Some(Declaration::Size { job: name(*job), map: map.0, reduces })
            }
            Declared::FlowRequest { job, flow, src, dst, size } => {
                names.connection(*flow, (*src, *dst)).map(|connection| {
                    self.flows.insert(*flow, (*job, connection));
                    self.jobs.entry(*job).or_default().insert(*flow);
                    let bytes = Some(*size).filter(|size| *size != Bytes::MAX);
                    let (job, flow) = (name(*job), flow.0.to_string());
                    Declaration::FlowRequest {
                        job,
                        flow,
                        connection,
                        processes: Processes::default(),
                        bytes,
                    }
                })
            }
            Declared::FlowComplete { job, flow } => {
                self.flows.remove(flow);
                if let Some(flows) = self.jobs.get_mut(job) {
                    flows.remove(flow);
                }
                Some(Declaration::FlowComplete { job: name(*job), flow: flow.0.to_string() })
            }
            Declared::Streams(samples) => return self.streams(samples),
            Declared::Gather(_) => None,
        };
        self.unspoken += u64::from(said.is_none());
        said.map_or_else(Vec::new, |said| vec![said])
    }

    /// The interface wants samples by job, a world gives those of all jobs together.
    fn streams(&mut self, samples: &[StreamSample]) -> Vec<Declaration> {
        let mut jobs: BTreeMap<JobId, Vec<StreamReport>> = BTreeMap::new();
        for sample in samples {
            let Some((job, _)) = self.flows.get(&sample.flow) else {
                self.unspoken += 1;
                continue;
            };
            jobs.entry(*job).or_default().push(StreamReport {
                flow: sample.flow.0.to_string(),
                delivered_bytes: sample.delivered,
                sender_queue_bytes: sample.sender_queue,
                receiver_queue_bytes: sample.receiver_queue,
            });
        }
        let said = jobs.into_iter();
        said.map(|(job, samples)| Declaration::Streams { job: name(job), samples }).collect()
    }
}

/// What a job is called.
pub fn name(job: JobId) -> String {
    job.0.to_string()
}
