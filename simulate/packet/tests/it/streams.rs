//! Connections over which applications write while they are open.
#![allow(clippy::unwrap_used)]

use crate::runs::{access, host, link, outcome, setup};
use engine::{Actions, Application};
use model::{FlowId, JobId, NodeId, build};
use units::{Bytes, Span, Time};
use watermaster_packet::{RunError, Transport, World};

/// Writes `octets` every `every`, `times` over, and notes when each was received.
struct Writer {
    ends: (NodeId, NodeId),
    octets: u64,
    every: Span,
    times: u64,
    written: u64,
    flow: Option<FlowId>,
    opened: bool,
}

impl Application<World> for Writer {
    fn arrival(&mut self) -> Option<Time> {
        (!self.opened).then_some(Time::ZERO)
    }

    fn arrive(&mut self, actions: &mut Actions<'_, World>) -> Result<(), RunError> {
        self.opened = true;
        self.flow = Some(actions.open(JobId(0), self.ends.0, self.ends.1)?);
        self.due(0, actions)
    }

    fn due(&mut self, _: u64, actions: &mut Actions<'_, World>) -> Result<(), RunError> {
        let flow = self.flow.unwrap();
        assert_eq!(actions.state(flow).unwrap().delivered.get(), self.octets * self.written);
        actions.write(flow, Bytes::new(self.octets));
        self.written += 1;
        actions.mark(flow, Bytes::new(self.octets * self.written));
        actions.begin_job(JobId(u32::try_from(self.written).unwrap()), None, Bytes::ZERO);
        if self.written < self.times {
            actions.later(self.every, 0);
        } else {
            actions.close(flow);
        }
        Ok(())
    }

    fn reached(
        &mut self,
        flow: FlowId,
        delivered: Bytes,
        actions: &mut Actions<'_, World>,
    ) -> Result<(), RunError> {
        assert_eq!(delivered.get(), self.octets * self.written);
        assert_eq!(actions.state(flow).unwrap().sent, delivered);
        actions.end_job(usize::try_from(self.written).unwrap() - 1);
        Ok(())
    }
}

/// Each write of one packet takes two links' serialisation and delay; the flow ends with the last.
#[test]
fn what_is_written_arrives_and_is_told() {
    let topology = build::star(2, &access(link(100, 10, 100))).unwrap();
    let writer = Writer {
        ends: (host(&topology, "h0"), host(&topology, "h1")),
        octets: 1460,
        every: Span::from_millis(1),
        times: 5,
        written: 0,
        flow: None,
        opened: false,
    };
    let mut setup = setup(topology, Transport::default(), Vec::new());
    setup.application = Box::new(writer);
    let outcome = outcome(setup);
    let transit = Span::from_micros(2 * (120 + 10));
    assert_eq!(outcome.jobs.len(), 5);
    for job in &outcome.jobs {
        assert_eq!(job.completion(), Some(transit));
    }
    let flow = outcome.flows.at(0);
    assert_eq!(flow.delivered, Bytes::new(5 * 1460));
    assert_eq!(flow.size, flow.delivered);
    assert_eq!(flow.end, outcome.jobs.at(4).end);
}
