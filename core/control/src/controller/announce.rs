//! An application declares something: it is checked and noted, and the policy is told.

use alloc::vec::Vec;

use model::{Declared, FlowId, JobId, Measured, StreamSample};
use protocol::application::Declaration;
use units::Rate;

use super::Controller;
use crate::applications::declare::{Announcement, Beside};
use crate::applications::flow::Flow;
use crate::applications::selector::Selector;
use crate::message::Refusal;

impl Controller {
    /// An application declares something: it is checked and noted, then dealt with.
    pub(super) fn handle_declaration(
        &mut self,
        application: &str,
        declaration: &Declaration,
    ) -> Result<(), Refusal> {
        if let Err(refusal) = self.refuse_blocked(application) {
            self.counters.declarations_refused += 1;
            return Err(refusal);
        }
        let beside = |host| self.agents.beside(host);
        let around = (&self.view, &beside as Beside<'_>);
        let done = self.registry.declare(&self.context, around, application, declaration);
        match done {
            Ok(announcement) => {
                self.dispatch(announcement);
                self.counters.declarations += 1;
                Ok(())
            }
            Err(refusal) => {
                self.counters.declarations_refused += 1;
                Err(refusal)
            }
        }
    }

    /// An application declared something that couldn't be read: it is counted as what is refused, and
    /// has used up as much of what the application may say.
    pub(super) fn handle_unreadable(&mut self, application: &str) -> Result<(), Refusal> {
        self.counters.declarations_refused += 1;
        self.refuse_blocked(application)?;
        self.registry.note_unreadable(&self.context, application)
    }

    /// Tells the policy what follows from a declaration.
    fn dispatch(&mut self, announcement: Announcement) {
        match announcement {
            Announcement::Known => {}
            Announcement::Tell(declared) => self.tell(declared),
            Announcement::Terms { job, moves } => {
                let terms = self.registry.job(job).map(|known| known.terms.clone());
                self.tell(Declared::JobTerms { job, terms: terms.unwrap_or_default() });
                // The objective's policy hasn't heard of its tasks.
                let tasks = moves.then(|| self.registry.tasks(job));
                for declared in tasks.into_iter().flatten() {
                    self.tell(declared);
                }
            }
            Announcement::Flow(id) => self.begin_flow(id),
            Announcement::Resized(id) => {
                self.enter_again(id);
                if self.registry.flow(id).is_some_and(|flow| flow.contradicted.is_some()) {
                    self.correct_sizes(id);
                }
                self.share(id);
            }
            Announcement::FlowComplete(id) => {
                if let Some(job) = self.registry.flow(id).and_then(Flow::job) {
                    self.tell(Declared::FlowComplete { job, flow: id });
                }
                self.forget_flow(id);
            }
            Announcement::JobComplete(job) => self.complete_job(job),
            Announcement::Streams(mut samples) => {
                for sample in &mut samples {
                    self.correct(sample);
                }
                self.tell(Declared::Streams(samples));
            }
        }
    }

    fn begin_flow(&mut self, id: FlowId) {
        let selector = self.registry.flow(id).map(|flow| flow.selector);
        let exact = selector.filter(Selector::is_exact);
        let was_seen = exact.is_some_and(|exact| self.take_over(&exact.connection, id));
        self.desired.begin(self.context.now, id);
        self.note_withheld(id);
        self.admit_flow(id);
        self.pin(id);
        self.touch(id);
        if let Some(request) = self.registry.declared(id) {
            self.tell(request);
        }
        if self.registry.flow(id).is_some_and(|flow| flow.contradicted.is_some()) {
            self.correct_sizes(id);
        }
        if was_seen {
            self.tell_opened(id);
        }
        self.share(id);
    }

    pub(super) fn complete_job(&mut self, job: JobId) {
        let Some(known) = self.registry.job(job) else {
            return;
        };
        let flows: Vec<FlowId> = known.flows.values().copied().collect();
        // Before the flows are forgotten: the policy may still say something about them.
        self.tell(Declared::JobComplete { job });
        for flow in flows {
            self.forget_flow(flow);
        }
        self.registry.remove_job(job);
        self.corrections.remove(&job);
    }

    /// Forgets a flow and whatever holds it.
    pub(super) fn forget_flow(&mut self, id: FlowId) {
        self.unpin(id);
        self.note_end(id);
        let Some((flow, is_last)) = self.registry.remove_flow(id) else {
            return;
        };
        if flow.open && !flow.is_parked() {
            self.tell(Measured::Closed { flow: id });
        }
        // Else its connection is over.
        let goes_on = flow.open && flow.owner.is_some();
        let declared = flow.selector;
        self.desired.touch(declared.connection);
        let windows = self.desired.take_windows(id);
        for connection in self.registry.carriers(&declared).collect::<Vec<_>>() {
            self.desired.touch(connection);
            if is_last {
                self.registry.joins.part(&connection);
                self.leave_pair(&connection);
            }
            if goes_on {
                self.hand_on(connection, &flow);
            }
            // Also where it had no cap of its own: a switch has an entry for each connection.
            self.cap_anew(&connection, &windows);
        }
    }

    /// Sets right what an application says of a stream by what was measured lately.
    fn correct(&mut self, sample: &mut StreamSample) {
        let (awake, fresh) = (self.context.awake, self.context.lately());
        let limit = self.desired.intention(sample.flow).limit();
        self.registry.note_stream(&self.context, sample);
        let Some(flow) = self.registry.flow(sample.flow) else {
            return;
        };
        if flow.heard.is_none_or(|at| awake.since(at) > fresh) {
            return;
        }
        let near = |limit: Rate| flow.gauge.rate.is_some_and(|rate| rate >= limit.fraction(3, 4));
        let is_held = limit.is_some_and(near);
        sample.delivered = flow.delivered;
        let (queue, is_lie) = self.registry.backlog(sample.flow, sample.sender_queue, is_held);
        sample.sender_queue = queue;
        self.counters.contradictions += u64::from(is_lie);
    }
}
