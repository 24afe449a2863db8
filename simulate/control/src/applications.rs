//! The world's applications in the words of the northbound interface, and what they remember to say
//! again to a controller that has forgotten.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use model::{Declared, FlowId, JobId, NodeId, StreamSample};
use protocol::Connection;
use protocol::application::{Declaration, Portion, StreamReport};
use units::Bytes;

/// Ports that a flow's number can be in; none is zero, which would stand for any.
const PORTS: u32 = 65_535;

/// What all applications of the world together have said and what still holds of it.
#[derive(Default)]
pub(crate) struct Applications {
    jobs: BTreeMap<JobId, Job>,
    flows: BTreeMap<FlowId, (JobId, Connection)>,
    by_connection: BTreeMap<Connection, FlowId>,
}

#[derive(Default)]
struct Job {
    /// `TASK_HOST` and `SIZE`, in order.
    tasks: Vec<Declaration>,
    flows: BTreeMap<FlowId, Declaration>,
}

impl Applications {
    /// The flow of a connection, while it is open.
    pub(crate) fn flow(&self, connection: &Connection) -> Option<FlowId> {
        self.by_connection.get(connection).copied()
    }

    /// All that holds, to be said again.
    pub(crate) fn all(&self) -> Vec<Declaration> {
        let mut all = Vec::new();
        for (id, job) in &self.jobs {
            all.push(Declaration::JobStart { job: name(*id) });
            all.extend(job.tasks.iter().chain(job.flows.values()).cloned());
        }
        all
    }

    /// Takes in what is said, and says it in the words of the interface. Nothing where it has no words.
    pub(crate) fn say(&mut self, declared: &Declared, hosts: &[NodeId]) -> Vec<Declaration> {
        let said = match declared {
            Declared::JobStart { job } => {
                self.jobs.entry(*job).or_default();
                Declaration::JobStart { job: name(*job) }
            }
            Declared::JobComplete { job } => {
                let flows = self.jobs.remove(job).map(|job| job.flows).unwrap_or_default();
                flows.keys().for_each(|flow| self.forget(*flow));
                Declaration::JobComplete { job: name(*job) }
            }
            Declared::TaskHost { job, task, host } => {
                let Some(host) = address(hosts, *host) else { return Vec::new() };
                let (task, host) = (task.0, host.to_string());
                let said = Declaration::TaskHost { job: name(*job), task, host };
                self.jobs.entry(*job).or_default().tasks.push(said.clone());
                said
            }
            Declared::Size { job, map, reduces } => {
                let reduces =
                    reduces.iter().map(|(task, bytes)| Portion { task: task.0, bytes: *bytes });
                let (map, reduces) = (map.0, reduces.collect());
                let said = Declaration::Size { job: name(*job), map, reduces };
                self.jobs.entry(*job).or_default().tasks.push(said.clone());
                said
            }
            Declared::FlowRequest { job, flow, src, dst, size } => {
                let Some(connection) = connection(*flow, hosts, (*src, *dst)) else {
                    return Vec::new();
                };
                self.flows.insert(*flow, (*job, connection));
                self.by_connection.insert(connection, *flow);
                let bytes = Some(*size).filter(|size| *size != Bytes::MAX);
                let number = flow.0.into();
                let said =
                    Declaration::FlowRequest { job: name(*job), flow: number, connection, bytes };
                self.jobs.entry(*job).or_default().flows.insert(*flow, said.clone());
                said
            }
            Declared::FlowComplete { job, flow } => {
                self.forget(*flow);
                if let Some(job) = self.jobs.get_mut(job) {
                    job.flows.remove(flow);
                }
                Declaration::FlowComplete { job: name(*job), flow: flow.0.into() }
            }
            Declared::Streams(samples) => return self.samples(samples),
            Declared::Gather(_) => return Vec::new(),
        };
        vec![said]
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some((_, connection)) = self.flows.remove(&flow) {
            self.by_connection.remove(&connection);
        }
    }

    /// The interface wants streams by job, the world gives those of all jobs together.
    fn samples(&self, samples: &[StreamSample]) -> Vec<Declaration> {
        let mut jobs: BTreeMap<JobId, Vec<StreamReport>> = BTreeMap::new();
        for sample in samples {
            if let Some((job, _)) = self.flows.get(&sample.flow) {
                jobs.entry(*job).or_default().push(StreamReport {
                    flow: sample.flow.0.into(),
                    delivered_bytes: sample.delivered,
                    sender_queue_bytes: sample.sender_queue,
                    receiver_queue_bytes: sample.receiver_queue,
                });
            }
        }
        let said = jobs.into_iter();
        said.map(|(job, samples)| Declaration::Streams { job: name(job), samples }).collect()
    }
}

fn name(job: JobId) -> String {
    job.0.to_string()
}

/// The address of a host; `hosts` are all of them in order.
pub(crate) fn address(hosts: &[NodeId], node: NodeId) -> Option<IpAddr> {
    let position = u32::try_from(hosts.binary_search(&node).ok()?).ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(0x0a00_0001 + position)))
}

/// The connection that stands for a flow: its number is in the ports.
fn connection(flow: FlowId, hosts: &[NodeId], ends: (NodeId, NodeId)) -> Option<Connection> {
    let port = |number: u32| u16::try_from(number % PORTS + 1).ok();
    Some(Connection {
        source: SocketAddr::new(address(hosts, ends.0)?, port(flow.0)?),
        destination: SocketAddr::new(address(hosts, ends.1)?, port(flow.0 / PORTS)?),
    })
}
