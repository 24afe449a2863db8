//! What a policy is told, and by whom.

use alloc::sync::Arc;
use alloc::vec::Vec;

use units::{Bytes, Rate, Span};

use crate::{FlowId, JobId, LinkId, NodeId, Request, Sample, Severity, TaskId};

/// Something that happened, as a policy learns it. Where an application and a measurement contradict
/// each other, the measurement wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// An application's word.
    Declared(Declared),
    /// Seen by a switch, an agent or the controller itself.
    Measured(Measured),
    /// Time has passed, and all that happened until now has been told: what a policy set itself to do
    /// by now is due.
    Tick,
}

/// Northbound messages, named as in Phurti section 5.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// `JOB_START`: a job registers.
    JobStart {
        /// The job.
        job: JobId,
        /// The application that it is of, by its name.
        application: Arc<str>,
    },
    /// What a job asks for, in place of what it asked for before. Ours.
    JobTerms {
        /// The job.
        job: JobId,
        /// What it asks for.
        terms: Terms,
    },
    /// `JOB_COMPLETE`: a job unregisters; what it still had in the network is forgotten.
    JobComplete {
        /// The job.
        job: JobId,
    },
    /// `TASK_HOST`: a task was launched on a host.
    TaskHost {
        /// The job.
        job: JobId,
        /// The map or reduce task.
        task: TaskId,
        /// Where it runs.
        host: NodeId,
    },
    /// `SIZE`: a map task finished and knows what each reduce task will fetch from it.
    Size {
        /// The job.
        job: JobId,
        /// The map task.
        map: TaskId,
        /// Payload for each reduce task, which stands once.
        reduces: Vec<(TaskId, Bytes)>,
    },
    /// `FLOW_REQUEST`: a transfer begins.
    FlowRequest {
        /// The job.
        job: JobId,
        /// The flow.
        flow: FlowId,
        /// Sending host.
        src: NodeId,
        /// Receiving host.
        dst: NodeId,
        /// Payload.
        size: Bytes,
    },
    /// `FLOW_COMPLETE`: a transfer ended.
    FlowComplete {
        /// The job.
        job: JobId,
        /// The flow.
        flow: FlowId,
    },
    /// How the streams of an application stand, those sampled at the same moment together.
    Streams(Vec<StreamSample>),
    /// A front end wants objects; [`JobComplete`](Self::JobComplete) says that it has them.
    Gather(Arc<Request>),
}

/// What a job asks for. Each policy heeds what it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The objective that it is to be under, by its name.
    pub objective: Option<Arc<str>>,
    /// From its start to its end.
    pub deadline: Option<Span>,
    /// What its completion is worth beside that of others, at least 1.
    pub weight: u32,
}

impl Terms {
    /// The largest weight.
    pub const HEAVIEST: u32 = 1_000_000;
    /// The longest deadline.
    pub const LONGEST: Span = Span::from_secs(30 * 24 * 3_600);
}

/// Nothing, and a weight of 1.
impl Default for Terms {
    fn default() -> Self {
        Self { objective: None, deadline: None, weight: 1 }
    }
}

/// How a stream stands: a flow that never ends, between a queue at its sender and one at its
/// receiver. All amounts are payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSample {
    /// The flow.
    pub flow: FlowId,
    /// What reached the receiver since the stream began.
    pub delivered: Bytes,
    /// What waits at the sender or is on its way.
    pub sender_queue: Bytes,
    /// What arrived and waits to be processed.
    pub receiver_queue: Bytes,
}

/// What instruments report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measured {
    /// A link failed or returned; the [`Network`](crate::Network) already shows it.
    LinkState {
        /// The directed link.
        link: LinkId,
        /// Whether it carries traffic now.
        up: bool,
    },
    /// Links have another capacity for the policy; the [`Network`](crate::Network) already shows it.
    Capacity(Vec<LinkId>),
    /// Packets joined the queue of a host's packets for one other host.
    Queued {
        /// Sending host.
        src: NodeId,
        /// Receiving host.
        dst: NodeId,
        /// How many.
        packets: u32,
        /// Their frame bytes together.
        bytes: Bytes,
    },
    /// The queue of a host's packets for one other host ran empty.
    Drained {
        /// Sending host.
        src: NodeId,
        /// Receiving host.
        dst: NodeId,
    },
    /// What one host offers to another changed, as seen over a while.
    Offered {
        /// Sending host.
        src: NodeId,
        /// Receiving host.
        dst: NodeId,
        /// Frame bytes per second.
        rate: Rate,
    },
    /// A flow's connection is there: the first switch of its path saw its SYN or, since it looks, first data; or a
    /// host's agent found it.
    Opened {
        /// The flow.
        flow: FlowId,
        /// Sending host.
        src: NodeId,
        /// Receiving host.
        dst: NodeId,
    },
    /// It is gone: the first switch of its path saw a FIN (agents: a RST too), nobody has seen it for some samples, or
    /// it was forgotten.
    Closed {
        /// The flow.
        flow: FlowId,
    },
    /// Flow statistics: what each open flow has sent through the first switch of its path. Switches
    /// count frame bytes; the agent of a sender, where it tells, counts payload, some 4 % less.
    Carried {
        /// The flows and their bytes so far.
        flows: Vec<(FlowId, Bytes)>,
    },
    /// Round trips of flows since they were told last: of a handshake, or as the kernel of the sender has
    /// them. What waited in queues on the way is in them; how long a switch held a SYN isn't.
    RoundTrips(Vec<(FlowId, Span)>),
    /// A switch port became congested, or more so, or recovered (SDTCP, section 3.2).
    Congested {
        /// The directed link that the port's queue feeds.
        link: LinkId,
        /// How much.
        severity: Severity,
        /// Frame bytes in the queue.
        queue: Bytes,
    },
    /// A switch port at the moment of a regular report.
    QueueLength {
        /// The directed link that its queue feeds.
        link: LinkId,
        /// Frame bytes in the queue.
        queue: Bytes,
        /// Frame bytes that entered it since the report before.
        sent: Bytes,
    },
    /// How much of each flow has reached its receiver since it began, payload: flow statistics of one
    /// sample.
    Delivered(Vec<(FlowId, Bytes)>),
    /// How streams stand, seen by the agents at their hosts.
    Streams(Vec<StreamSample>),
    /// Counters of ports: frame bytes that each of these directed links has sent since it began to count,
    /// whoever's they are.
    Ports(Vec<(LinkId, Bytes)>),
    /// A gathering advanced.
    Gathering {
        /// The request.
        request: JobId,
        /// How far.
        sample: Arc<Sample>,
    },
    /// A query of the front end itself was answered.
    Answered {
        /// The request.
        request: JobId,
        /// Whether the answer, or the query, was lost first and came after a timeout.
        late: bool,
        /// From the query to its answer.
        took: Span,
    },
    /// A hub of a gathering died.
    HubLost {
        /// The request.
        request: JobId,
        /// The hub, by its place among the hubs.
        hub: u32,
    },
}

impl From<Declared> for Observation {
    fn from(declared: Declared) -> Self {
        Self::Declared(declared)
    }
}

impl From<Measured> for Observation {
    fn from(measured: Measured) -> Self {
        Self::Measured(measured)
    }
}
