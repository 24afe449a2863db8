//! Datagrams at a constant rate, as of a transport without congestion control.

use engine::{Actions, Application, Streams};
use model::{FlowId, JobId, NodeId};
use units::{Bytes, Rate, Span, Time};

/// A sender of datagrams. Nobody declares what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// Sending host.
    pub src: NodeId,
    /// Receiving host.
    pub dst: NodeId,
    /// Payload a second; above zero.
    pub rate: Rate,
    /// Payload of a datagram; above zero.
    pub size: Bytes,
    /// When the first goes, from the begin of the run.
    pub start: Span,
    /// From then on none goes.
    pub until: Span,
}

impl Datagrams {
    /// It as an application, its flow under this job's number.
    pub const fn application(self, job: JobId) -> DatagramRun {
        DatagramRun { datagrams: self, job, flow: None, sent: 0 }
    }
}

/// A sender at work.
#[derive(Clone, Copy, Debug)]
pub struct DatagramRun {
    datagrams: Datagrams,
    job: JobId,
    /// Once it has begun.
    flow: Option<FlowId>,
    sent: u64,
}

impl<W: Streams> Application<W> for DatagramRun {
    fn arrival(&mut self) -> Option<Time> {
        let Datagrams { rate, size, start, until, .. } = self.datagrams;
        let before = Bytes::new(size.get().saturating_mul(self.sent));
        let at = start + rate.time_for(before);
        (at < until).then_some(Time::ZERO + at)
    }

    fn arrive(&mut self, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let Datagrams { src, dst, size, .. } = self.datagrams;
        let flow = match self.flow {
            Some(flow) => flow,
            None => *self.flow.insert(actions.open_datagrams(self.job, src, dst)?),
        };
        actions.send(flow, size);
        self.sent += 1;
        Ok(())
    }
}
