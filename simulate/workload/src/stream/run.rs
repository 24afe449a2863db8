//! A topology as an application of a world: connections, turns, samples.

use engine::{Actions, Application, Streams};
use model::{Declared, JobId};
use units::{Bytes, Time};

use super::Stream;
use super::channel::Channel;
use super::instance::{From, Instance, Output};
use crate::ParameterError;

/// A topology that runs.
#[derive(Debug)]
pub struct StreamRun<'a> {
    stream: &'a Stream,
    /// The one job that all connections belong to.
    job: JobId,
    /// Operator by operator.
    instances: Vec<Instance>,
    channels: Vec<Channel>,
    /// The hosts at both ends of each channel.
    ends: Vec<(model::NodeId, model::NodeId)>,
    begun: bool,
    next_sample: Time,
    done: usize,
}

impl<'a> StreamRun<'a> {
    /// Instances and channels of `stream`, which draw from streams of `seed`.
    ///
    /// # Errors
    /// As [`Stream::check`].
    pub fn new(stream: &'a Stream, seed: u64) -> Result<Self, ParameterError> {
        stream.check()?;
        let mut firsts = Vec::new();
        let mut instances = Vec::new();
        for operator in &stream.operators {
            firsts.push(instances.len());
            let numbers = 0..operator.hosts.len();
            instances.extend(numbers.map(|number| Instance::new(operator, number, seed)));
        }
        let mut run = Self {
            stream,
            job: JobId(0),
            instances,
            channels: Vec::new(),
            ends: Vec::new(),
            begun: false,
            next_sample: Time::ZERO,
            done: 0,
        };
        for (to, operator) in stream.operators.iter().enumerate() {
            for input in &operator.inputs {
                let from = &stream.operators[input.operator].hosts;
                for (sender, &src) in from.iter().enumerate() {
                    let first = run.channels.len();
                    for (receiver, &dst) in operator.hosts.iter().enumerate() {
                        let from = From::new(run.channels.len(), input.emit);
                        run.instances[firsts[to] + receiver].inputs.push(from);
                        run.channels.push(Channel::new(operator.opaque));
                        run.ends.push((src, dst));
                    }
                    let channels = (first..run.channels.len()).collect();
                    // Senders begin with different receivers, or these would get tuples in bursts.
                    let turn = sender % operator.hosts.len();
                    let output = Output { grouping: input.grouping, channels, turn };
                    run.instances[firsts[input.operator] + sender].outputs.push(output);
                }
            }
        }
        Ok(run)
    }

    /// The same, its job with this number.
    #[must_use]
    pub fn numbered(mut self, job: JobId) -> Self {
        self.job = job;
        self
    }

    fn turn<W: Streams>(&mut self, actions: &mut Actions<'_, W>) {
        for channel in &mut self.channels {
            if let Some(flow) = channel.flow
                && let Some(state) = actions.state(flow)
            {
                channel.delivered = state.delivered.get();
                channel.taken = match self.stream.receive_queue {
                    None => channel.delivered,
                    Some(most) => {
                        let full = channel.processed.saturating_add(most.get());
                        let taken = channel.delivered.min(full).max(channel.taken);
                        actions.consume(flow, Bytes::new(taken - channel.taken));
                        taken
                    }
                };
                channel.arrive();
            }
        }
        let now = actions.now();
        let most = self.stream.send_queue.unwrap_or(Bytes::MAX).get();
        let done = &mut actions.outcome().completions[self.done];
        for instance in &mut self.instances {
            instance.act(now, self.stream.turn, most, &mut self.channels, done);
        }
        for channel in &mut self.channels {
            let fresh = channel.flush();
            if let Some(flow) = channel.flow
                && fresh > Bytes::ZERO
            {
                actions.write(flow, fresh);
            }
        }
        if now >= self.next_sample {
            self.next_sample = now + self.stream.sampling;
            if actions.is_controlled() {
                let samples = self.channels.iter().filter_map(Channel::sample).collect();
                actions.tell(Declared::Streams(samples));
            }
        }
        actions.later(self.stream.turn, 0);
    }
}

impl<W: Streams> Application<W> for StreamRun<'_> {
    fn arrival(&mut self) -> Option<Time> {
        (!self.begun).then_some(Time::ZERO)
    }

    fn arrive(&mut self, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        self.begun = true;
        self.done = actions.count("tuples", actions.now());
        let (job, application) = (self.job, actions.application());
        actions.tell(Declared::JobStart { job, application });
        for (channel, &(src, dst)) in self.channels.iter_mut().zip(&self.ends) {
            if src == dst {
                continue;
            }
            let flow = actions.open(job, src, dst)?;
            if self.stream.receive_queue.is_some() {
                actions.pause_reading(flow);
            }
            channel.flow = Some(flow);
            actions.tell(Declared::FlowRequest { job, flow, src, dst, size: Bytes::MAX });
        }
        self.turn(actions);
        Ok(())
    }

    fn due(&mut self, _: u64, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        self.turn(actions);
        Ok(())
    }
}
