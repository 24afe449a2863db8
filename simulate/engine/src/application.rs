//! Simulated applications: their traffic, and their messages to the controller.

use std::borrow::Cow;
use std::sync::Arc;

use model::{Directive, FlowId, JobClass, JobId, LinkId, Network, NodeId, Observation};
use units::{Bytes, Rate, Span, Time};

use crate::Completions;
use crate::agenda::{Act, Agenda};
use crate::outcome::Outcome;
use crate::records::{FlowRecord, JobRecord};
use crate::world::{FlowState, Streams, World};

/// What an application that runs alone is called where it has no name.
pub const UNNAMED: &str = "workload";

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Simulated time.
    pub now: Time,
    /// Flows started so far.
    pub started: u64,
    /// Flows ended so far.
    pub ended: u64,
    /// Payload delivered so far.
    pub delivered: Bytes,
}

/// What runs on the hosts. It acts on arrivals, timers and notices, only through [`Actions`]; equal
/// inputs give equal actions.
pub trait Application<W: World> {
    /// When to call [`Application::arrive`]: the next arrival from outside. At equal times messages
    /// and timers come first.
    fn arrival(&mut self) -> Option<Time> {
        None
    }

    /// The time of [`Application::arrival`] has come.
    ///
    /// # Errors
    /// Those of the world.
    fn arrive(&mut self, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let _ = actions;
        Ok(())
    }

    /// A timer set by [`Actions::later`] is due.
    ///
    /// # Errors
    /// Those of the world.
    fn due(&mut self, token: u64, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let _ = (token, actions);
        Ok(())
    }

    /// The receiver of a flow has reached its mark ([`Actions::mark`]) and has `delivered`.
    ///
    /// # Errors
    /// Those of the world.
    fn reached(
        &mut self,
        flow: FlowId,
        delivered: Bytes,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let _ = (flow, delivered, actions);
        Ok(())
    }

    /// The last byte of a flow has reached its receiver.
    ///
    /// # Errors
    /// Those of the world.
    fn ended(&mut self, flow: FlowId, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let _ = (flow, actions);
        Ok(())
    }

    /// A directive for the application arrived.
    ///
    /// # Errors
    /// Those of the world.
    fn directed(
        &mut self,
        directive: &Directive,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let _ = (directive, actions);
        Ok(())
    }
}

/// What an application can do now.
pub struct Actions<'d, W> {
    pub(crate) network: &'d Network,
    pub(crate) world: &'d mut W,
    pub(crate) agenda: &'d mut Agenda,
    pub(crate) outcome: &'d mut Outcome,
    pub(crate) progress: &'d mut Progress,
    pub(crate) control_delay: Span,
    pub(crate) is_controlled: bool,
    pub(crate) speaker: Speaker,
}

/// The application that acts, of several.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    number: u32,
    count: u32,
    /// `None`: it has no name.
    name: Option<Arc<str>>,
}

impl Speaker {
    /// The only one.
    pub(crate) const ONLY: Self = Self { number: 0, count: 1, name: None };
}

impl<W: World> Actions<'_, W> {
    /// The simulated time.
    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// The network as it is now.
    pub const fn network(&self) -> &Network {
        self.network
    }

    /// From now on the application of this number, of so many, acts.
    pub(crate) fn speak_for(&mut self, number: usize, count: usize, name: &Arc<str>) {
        let short = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let (number, count) = (short(number), short(count));
        self.speaker = Speaker { number, count, name: Some(Arc::clone(name)) };
    }

    /// The name of the application that acts.
    pub fn application(&self) -> Arc<str> {
        self.speaker.name.clone().unwrap_or_else(|| Arc::from(UNNAMED))
    }

    /// Has [`Application::due`] called with `token` after `wait`.
    pub fn later(&mut self, wait: Span, token: u64) {
        let token = token * u64::from(self.speaker.count) + u64::from(self.speaker.number);
        self.agenda.enter(self.world.now() + wait, Act::Due { token });
    }

    /// Adds a job to the results; returns its position.
    pub fn begin_job(&mut self, id: JobId, class: Option<JobClass>, size: Bytes) -> usize {
        let arrival = self.world.now();
        let application = self.speaker.number;
        self.outcome.jobs.push(JobRecord { id, application, class, arrival, size, end: None });
        self.outcome.jobs.len() - 1
    }

    /// Notes that the job at `position` is complete.
    pub fn end_job(&mut self, position: usize) {
        self.outcome.jobs.at_mut(position).end = Some(self.world.now());
        self.outcome.jobs.seal(position);
    }

    /// Starts a flow of `size` for a job.
    ///
    /// # Errors
    /// A flow that the world can't carry.
    pub fn start(
        &mut self,
        job: JobId,
        src: NodeId,
        dst: NodeId,
        size: Bytes,
    ) -> Result<FlowId, W::Error> {
        let id = self.world.start(self.network, src, dst, size)?;
        self.record(id, job, src, dst, size);
        Ok(id)
    }

    fn record(&mut self, id: FlowId, job: JobId, src: NodeId, dst: NodeId, size: Bytes) {
        self.outcome.flows.push(FlowRecord {
            id,
            job,
            application: self.speaker.number,
            src,
            dst,
            size,
            delivered: Bytes::ZERO,
            start: self.world.now(),
            end: None,
            retransmissions: 0,
            timeouts: 0,
            limits: Vec::new(),
            limits_set: 0,
        });
        self.progress.started += 1;
        if size == Bytes::MAX {
            self.outcome.endless.push(id);
        } else {
            note_background(self.world, self.outcome);
        }
    }

    /// The state of a flow; `None` once it is gone.
    pub fn state(&self, flow: FlowId) -> Option<FlowState> {
        self.world.state(flow)
    }

    /// Limits a flow to `limit`, frame bytes, at its own host.
    pub fn limit(&mut self, flow: FlowId, limit: Option<Rate>) {
        self.world.limit(flow, limit);
    }

    /// Frame bytes in the queue of a link now.
    pub fn queued(&mut self, link: LinkId) -> Bytes {
        self.world.queued(link)
    }

    /// The record of a flow.
    pub fn flow(&self, flow: FlowId) -> Cow<'_, FlowRecord> {
        self.outcome.flows.peek(flow.index())
    }

    /// Counts completions of a kind from now on; their position in the results.
    pub fn count(&mut self, kind: &'static str, since: Time) -> usize {
        let mut counted = Completions::new(kind, since);
        counted.application = self.speaker.number;
        self.outcome.completions.push(counted);
        self.outcome.completions.len() - 1
    }

    /// The results so far, for the application to add its own.
    pub const fn outcome(&mut self) -> &mut Outcome {
        self.outcome
    }

    /// Whether there is a policy; without one, messages need not be made.
    pub const fn is_controlled(&self) -> bool {
        self.is_controlled
    }

    /// Sends an observation to the policy.
    pub fn tell(&mut self, observation: impl Into<Observation>) {
        self.tell_after(Span::ZERO, observation);
    }

    /// Sends an observation to the policy after `wait`.
    pub fn tell_after(&mut self, wait: Span, observation: impl Into<Observation>) {
        if self.is_controlled {
            let heard = self.world.now() + wait + self.control_delay;
            self.agenda.enter(heard, Act::Hear(observation.into()));
        }
    }
}

impl<W: Streams> Actions<'_, W> {
    /// Opens a connection over which [`Actions::write`] sends, until [`Actions::close`].
    ///
    /// # Errors
    /// A flow that the world can't carry.
    pub fn open(&mut self, job: JobId, src: NodeId, dst: NodeId) -> Result<FlowId, W::Error> {
        let id = self.world.open(self.network, src, dst)?;
        self.record(id, job, src, dst, Bytes::ZERO);
        Ok(id)
    }

    /// Begins a flow of datagrams, which [`Actions::send`] sends. It has no end.
    ///
    /// # Errors
    /// A flow that the world can't carry.
    pub fn open_datagrams(
        &mut self,
        job: JobId,
        src: NodeId,
        dst: NodeId,
    ) -> Result<FlowId, W::Error> {
        let id = self.world.open_datagrams(self.network, src, dst)?;
        self.record(id, job, src, dst, Bytes::ZERO);
        self.outcome.datagrams.push(id);
        Ok(id)
    }

    /// Sends a datagram with so much payload.
    pub fn send(&mut self, flow: FlowId, payload: Bytes) {
        self.world.send(flow, payload);
        self.outcome.flows.at_mut(flow.index()).size += payload;
    }

    /// Writes `more` to an open connection; no effect on a closed one.
    pub fn write(&mut self, flow: FlowId, more: Bytes) {
        if self.world.write(flow, more) {
            self.outcome.flows.at_mut(flow.index()).size += more;
        }
    }

    /// Says that nothing more will be written: the flow ends when all has arrived.
    pub fn close(&mut self, flow: FlowId) {
        self.world.close(flow);
    }

    /// Has [`Application::reached`] called once when the receiver has the first `at` bytes; this
    /// replaces the mark before. A mark that has been passed is reached at once.
    pub fn mark(&mut self, flow: FlowId, at: Bytes) {
        self.world.mark(flow, at);
    }

    /// From now on the flow's receiver reads only by [`Actions::consume`].
    pub fn pause_reading(&mut self, flow: FlowId) {
        self.world.pause_reading(flow);
    }

    /// The receiver of a flow whose reading is paused reads `bytes`, or all that there is.
    pub fn consume(&mut self, flow: FlowId, bytes: Bytes) {
        self.world.consume(flow, bytes);
    }
}

/// Notes what endless flows have delivered, if there are any.
pub(crate) fn note_background<W: World>(world: &W, outcome: &mut Outcome) {
    if outcome.endless.is_empty() {
        return;
    }
    let delivered = |flow: &FlowId| world.state(*flow).map(|state| state.delivered);
    let sum = outcome.endless.iter().filter_map(delivered).sum();
    outcome.background.push((world.now(), sum));
}
