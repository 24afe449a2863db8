//! The application: front ends, hubs and servers together.
//!
//! A query is a flow that names its objects; an answer is a flow of the objects. So is each order
//! to a hub: what to get, what not to send, its speed, its parent. The queue of the aggregation
//! router, which is no host here, is known after the cables' time there and back. Deaths of hubs are
//! noticed after a time that the scenario gives.

use std::sync::Arc;

use engine::random::Stream;
use engine::{Actions, Application, Streams};
use model::gather::{Step, frames};
use model::{Declared, Directive, FlowId, HubOrder, JobId, Measured, NodeId};
use units::{Bytes, Rate, Span, Time};

use super::active::{Active, grouped};
use super::hub::Line;
use super::router;
use super::{Asker, Gather};

/// What a flow carries.
#[derive(Debug)]
struct Message {
    request: u32,
    what: What,
    objects: Vec<u32>,
    /// Whether it answers what came after a timeout.
    is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A hub's objects, to its parent.
    Line(u32),
    /// To a hub: objects to get, and objects not to send, which it passes on to those above it.
    Swarm(u32),
    Cancel(u32),
    /// To a hub: its speed, by which change; that its parent is another, and what to send it again.
    Speed(u32, u32, Rate),
    Parent(u32),
    /// A server is asked, by a hub or by the front end, and answers.
    Query(NodeId, Option<u32>),
    Answer(Option<u32>),
}

/// What a server that is overloaded is busy with.
#[derive(Debug)]
enum Departure {
    Message((NodeId, NodeId), Bytes, Message),
    /// The packet of a hub, which runs there.
    Packet(u32, u32, NodeId, Vec<u32>, Bytes),
}

/// Timers of a request: of the first there are three steps, the last is for what departs, the others
/// are for a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Sample,
    Send,
    Die,
    Detect,
    Depart,
}

impl Timer {
    const ALL: [Self; 5] = [Self::Sample, Self::Send, Self::Die, Self::Detect, Self::Depart];

    const fn token(self, request: u32, hub: u32) -> u64 {
        (request as u64) << 32 | (hub as u64 & 0x1fff_ffff) << 3 | self as u64
    }

    #[allow(clippy::cast_possible_truncation)] // the parts that `token` put together
    const fn of(token: u64) -> (Self, u32, u32) {
        (Self::ALL[(token & 7) as usize], (token >> 32) as u32, (token as u32) >> 3)
    }
}

pub(super) struct Fronts {
    plan: Gather,
    hosts: Vec<NodeId>,
    askers: Vec<Asker>,
    /// How many front ends have begun.
    begun: usize,
    /// Requests by number; gone when complete.
    active: Vec<Option<Box<Active>>>,
    /// By flow; gone when it ended.
    messages: Vec<Option<Message>>,
    /// What departs later, and free places there.
    departures: Vec<Option<Departure>>,
    free: Vec<u32>,
}

impl Fronts {
    pub(super) fn new(plan: Gather, hosts: Vec<NodeId>, seed: u64) -> Self {
        let asker = |(number, node): (usize, &NodeId)| Asker {
            node: *node,
            left: plan.requests,
            random: Stream::named(seed, &format!("objects-{number}")),
            overload: Stream::named(seed, &format!("overload-{number}")),
        };
        Self {
            askers: plan.fronts.iter().enumerate().map(asker).collect(),
            plan,
            hosts,
            begun: 0,
            active: Vec::new(),
            messages: Vec::new(),
            departures: Vec::new(),
            free: Vec::new(),
        }
    }

    fn active(&mut self, request: u32) -> Option<&mut Active> {
        self.active.get_mut(request as usize)?.as_deref_mut()
    }

    /// The front end begins its next request, if there is one.
    fn begin<W: Streams>(&mut self, asker: usize, actions: &mut Actions<'_, W>) {
        let number = u32::try_from(self.active.len()).unwrap_or(u32::MAX);
        let next = self.askers[asker].next(&self.plan, &self.hosts, JobId(number));
        let Some((request, servers)) = next else { return };
        let size = (0..request.sizes.len()).map(|object| request.size(object)).sum();
        let record = actions.begin_job(request.id, None, size);
        actions.tell(Declared::Gather(Arc::clone(&request)));
        actions.later(self.plan.period, Timer::Sample.token(number, ASK));
        if let Some(death) = self.plan.death {
            actions.later(death.after, Timer::Die.token(number, death.hub));
        }
        let mut active = Active::new((request, servers), asker, record, actions.now());
        active.port = router::port(actions.network(), active.request.front);
        self.active.push(Some(Box::new(active)));
    }

    /// Ends a complete request; its front end goes on.
    fn finish<W: Streams>(&mut self, request: u32, actions: &mut Actions<'_, W>) {
        let place = &mut self.active[request as usize];
        let Some(done) = place.take_if(|active| active.course.is_complete()) else { return };
        actions.end_job(done.record);
        actions.tell(Declared::JobComplete { job: JobId(request) });
        done.hubs.iter().filter_map(|hub| hub.line.as_ref()).for_each(|l| actions.close(l.flow));
        self.begin(done.asker, actions);
    }

    /// Sends a message of so many octets, when its server can; what stays on a host arrives at once,
    /// and what has no octets: an order that costs nothing.
    fn send<W: Streams>(
        &mut self,
        ends: (NodeId, NodeId),
        size: Bytes,
        message: Message,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        if ends.0 == ends.1 || size == Bytes::ZERO {
            return self.deliver(message, actions);
        }
        let now = actions.now();
        let Some(active) = self.active(message.request) else { return Ok(()) };
        let wait = match ends.0 {
            front if front == active.request.front => Span::ZERO,
            server => active.servers.send(now, server, frames(size)),
        };
        self.depart(wait, Departure::Message(ends, size, message), actions)
    }

    /// Has something depart after `wait`.
    fn depart<W: Streams>(
        &mut self,
        wait: Span,
        what: Departure,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        if wait == Span::ZERO {
            return self.leave(what, actions);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.departures.push(None);
            u32::try_from(self.departures.len() - 1).unwrap_or(u32::MAX)
        });
        self.departures[place as usize] = Some(what);
        actions.later(wait, Timer::Depart.token(place, 0));
        Ok(())
    }

    /// Something departs.
    fn leave<W: Streams>(
        &mut self,
        what: Departure,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        match what {
            Departure::Message((from, to), size, message) => {
                let flow = actions.start(JobId(message.request), from, to, size)?;
                self.note(flow, message);
                Ok(())
            }
            Departure::Packet(request, hub, node, objects, size) => {
                self.forward(request, (hub, node), objects, size, actions)
            }
        }
    }

    fn note(&mut self, flow: FlowId, message: Message) {
        let place = flow.index();
        if self.messages.len() <= place {
            self.messages.resize_with(place + 1, || None);
        }
        self.messages[place] = Some(message);
    }

    /// Octets of a query that names `objects`.
    fn naming(&self, objects: &[u32]) -> Bytes {
        Bytes::new(u64::from(self.plan.query)) * objects.len() as u64
    }

    /// Asks the holders of `objects` on behalf of a hub, or of the front end, which asks for each
    /// alone: a window counts queries.
    fn ask<W: Streams>(
        &mut self,
        request: u32,
        hub: Option<u32>,
        objects: Vec<u32>,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let Some(active) = self.active(request) else { return Ok(()) };
        let from = active.end(hub);
        // A hub's own objects come first.
        let groups = grouped(objects, |object| {
            let holder = active.course.ways()[object as usize].holder;
            (holder != from, holder, hub.map_or(object, |_| 0))
        });
        for ((_, holder, _), objects) in groups {
            let (size, what) = (self.naming(&objects), What::Query(holder, hub));
            let message = Message { request, what, objects, is_late: false };
            self.send((from, holder), size, message, actions)?;
        }
        Ok(())
    }

    /// Has the front end ask for what its window allows.
    fn ask_on<W: Streams>(
        &mut self,
        request: u32,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        while let Some(active) = self.active(request)
            && let Some(object) = active.course.ask_next()
        {
            active.asked[object as usize] = actions.now();
            self.ask(request, None, vec![object], actions)?;
        }
        Ok(())
    }

    /// Sends a hub a message about `objects`; the first also tells its speed and parent.
    fn instruct<W: Streams>(
        &mut self,
        request: u32,
        hub: u32,
        what: What,
        objects: Vec<u32>,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let (names, order) = (self.naming(&objects), Bytes::new(u64::from(self.plan.order)));
        let Some(active) = self.active(request) else { return Ok(()) };
        let ends = (active.request.front, active.end(Some(hub)));
        let is_first = !std::mem::replace(&mut active.introduced[hub as usize], true);
        let tells = is_first || matches!(what, What::Speed(..) | What::Parent(_));
        let size = if tells { names + order } else { names };
        self.send(ends, size, Message { request, what, objects, is_late: false }, actions)
    }

    /// Tells a hub the speed that it is to have, once the one before has reached it.
    fn tell_speed<W: Streams>(
        &mut self,
        request: u32,
        hub: u32,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let Some(active) = self.active(request) else { return Ok(()) };
        if std::mem::replace(&mut active.is_telling[hub as usize], true) {
            return Ok(());
        }
        let what = What::Speed(hub, active.changes, active.course.hubs()[hub as usize].speed);
        self.instruct(request, hub, what, Vec::new(), actions)
    }

    /// A message has arrived.
    fn deliver<W: Streams>(
        &mut self,
        message: Message,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let Message { request, what, objects, is_late } = message;
        let Some(active) = self.active(request) else { return Ok(()) };
        match what {
            What::Line(_) => {}
            What::Swarm(hub) => {
                let node = &mut active.hubs[hub as usize];
                if !node.is_dead {
                    node.begin();
                    objects.iter().for_each(|object| node.queue.expect(*object));
                    self.wake(request, hub, actions);
                    return self.ask(request, Some(hub), objects, actions);
                }
            }
            What::Cancel(hub) => {
                if let Some(parent) = active.cancel(hub, &objects) {
                    let ends = (active.end(Some(hub)), active.end(Some(parent)));
                    let (size, what) = (self.naming(&objects), What::Cancel(parent));
                    let message = Message { request, what, objects, is_late: false };
                    return self.send(ends, size, message, actions);
                }
            }
            What::Speed(hub, change, speed) => {
                let newer = active.course.hubs()[hub as usize].speed;
                active.is_telling[hub as usize] = false;
                let node = &mut active.hubs[hub as usize];
                if !node.is_dead && node.accelerate(actions.now(), change, speed) {
                    if let Some(line) = &node.line {
                        actions.limit(line.flow, Some(node.speed()));
                    }
                    self.wake(request, hub, actions);
                }
                if newer != speed {
                    return self.tell_speed(request, hub, actions);
                }
            }
            What::Parent(hub) => {
                let parent = active.course.hubs()[hub as usize].parent;
                let node = &mut active.hubs[hub as usize];
                if !node.is_dead {
                    let line = node.start_over(parent, objects);
                    line.into_iter().for_each(|flow| actions.close(flow));
                    self.wake(request, hub, actions);
                }
            }
            What::Query(holder, hub) => {
                if !active.dead.contains(&holder) {
                    let ends = (holder, active.end(hub));
                    let sizes = objects.iter().map(|object| active.request.size(*object as usize));
                    let (size, what) = (sizes.sum(), What::Answer(hub));
                    let answer = Message { request, what, objects, is_late };
                    return self.send(ends, size, answer, actions);
                }
            }
            What::Answer(None) => {
                let new = objects.iter().filter(|object| active.course.arrive(**object)).count();
                active.course.answered(objects.len());
                let asked = objects.iter().map(|object| active.asked[*object as usize]).min();
                let took = actions.now().since(asked.unwrap_or_default());
                count(active.age(actions.now()), new, actions);
                actions.tell(Measured::Answered { request: JobId(request), late: is_late, took });
                self.finish(request, actions);
                return self.ask_on(request, actions);
            }
            What::Answer(Some(hub)) => {
                let node = &mut active.hubs[hub as usize];
                for object in objects {
                    node.queue.collect(object);
                }
                self.wake(request, hub, actions);
            }
        }
        Ok(())
    }

    /// Sets the timer of a hub that has something to send and none set.
    fn wake<W: Streams>(&mut self, request: u32, hub: u32, actions: &mut Actions<'_, W>) {
        let Some(active) = self.active(request) else { return };
        let node = &mut active.hubs[hub as usize];
        if !node.is_waiting
            && let Some(wait) = node.wait(actions.now())
        {
            node.is_waiting = true;
            actions.later(wait, Timer::Send.token(request, hub));
        }
    }

    /// A hub sends its next packet.
    fn send_on<W: Streams>(
        &mut self,
        request: u32,
        hub: u32,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let now = actions.now();
        let Some(active) = self.active(request) else { return Ok(()) };
        let (wanted, packed) = (Arc::clone(&active.request), active.course.packed());
        let node = &mut active.hubs[hub as usize];
        let Some((objects, size)) = node.packet(now, &wanted, packed) else {
            return Ok(());
        };
        let wait = active.servers.send(now, node.node, frames(size));
        node.is_sending(now, wait);
        let packet = Departure::Packet(request, hub, node.node, objects, size);
        self.depart(wait, packet, actions)?;
        self.wake(request, hub, actions);
        Ok(())
    }

    /// A packet leaves a hub, if it still runs there.
    fn forward<W: Streams>(
        &mut self,
        request: u32,
        (hub, at): (u32, NodeId),
        objects: Vec<u32>,
        size: Bytes,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let Some(active) = self.active(request) else { return Ok(()) };
        let to = active.end(active.hubs[hub as usize].parent);
        let node = &mut active.hubs[hub as usize];
        if node.is_dead || node.node != at {
            return Ok(());
        }
        let is_new = node.line.is_none();
        let line = match &mut node.line {
            Some(line) => line,
            none => none.insert(Line::new(actions.open(JobId(request), at, to)?, to)),
        };
        let (flow, mark) = (line.flow, line.send(objects, size));
        actions.write(flow, size);
        if let Some(mark) = mark {
            actions.mark(flow, mark);
        }
        if is_new {
            // Lost objects are resent no faster than the hub's speed.
            actions.limit(flow, Some(node.speed()));
            let what = What::Line(hub);
            self.note(flow, Message { request, what, objects: Vec::new(), is_late: false });
        }
        Ok(())
    }

    /// Obeys the policy.
    fn obey<W: Streams>(
        &mut self,
        request: u32,
        order: &HubOrder,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let Some(active) = self.active(request) else { return Ok(()) };
        let steps = active.course.obey(order);
        match order {
            HubOrder::Gather(_) => active.begin(),
            HubOrder::Speeds(_) => active.changes += 1,
            _ => {}
        }
        for step in steps {
            match step {
                Step::Fetch(hub, objects) => {
                    self.instruct(request, hub, What::Swarm(hub), objects, actions)?;
                }
                Step::Cancel(hub, objects) => {
                    self.instruct(request, hub, What::Cancel(hub), objects, actions)?;
                }
                Step::Speed(hub) => self.tell_speed(request, hub, actions)?,
                Step::Parent(hub, objects) => {
                    self.instruct(request, hub, What::Parent(hub), objects, actions)?;
                }
                Step::Replace(hub) => {
                    let line = self.active(request).and_then(|active| active.replace(hub));
                    line.into_iter().for_each(|flow| actions.close(flow));
                }
            }
        }
        self.ask_on(request, actions)
    }

    /// Asks the aggregation router for its queue and, when it has the answer, tells the policy how
    /// far a request has come.
    fn sample<W: Streams>(&mut self, request: u32, step: u32, actions: &mut Actions<'_, W>) {
        let period = self.plan.period;
        let Some(active) = self.active(request) else { return };
        let next = |step| Timer::Sample.token(request, step);
        if step == ASK {
            actions.later(period, next(ASK));
        }
        match (step, active.port) {
            _ if active.hubs.is_empty() => {}
            (ASK, Some(port)) => actions.later(port.away, next(READ)),
            (READ, Some(port)) => {
                active.queue = (actions.queued(port.link), port.room);
                actions.later(port.away, next(HEAR));
            }
            _ => {
                let sample = Arc::new(active.sample(actions.now()));
                actions.tell(Measured::Gathering { request: JobId(request), sample });
            }
        }
    }
}

/// Steps of a sample: the front end asks the router, which reads its queue; it hears the answer.
const ASK: u32 = 0;
const READ: u32 = 1;
const HEAR: u32 = 2;

/// Counts queries that were answered when their request was so old.
fn count<W: Streams>(took: Span, queries: usize, actions: &mut Actions<'_, W>) {
    if let Some(all) = actions.outcome().completions.first_mut() {
        (0..queries).for_each(|_| all.add(took));
    }
}

impl<W: Streams> Application<W> for Fronts {
    fn arrival(&mut self) -> Option<Time> {
        (self.begun < self.askers.len()).then_some(Time::ZERO)
    }

    fn arrive(&mut self, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        if self.begun == 0 {
            actions.count("queries", Time::ZERO);
        }
        self.begun += 1;
        self.begin(self.begun - 1, actions);
        Ok(())
    }

    fn due(&mut self, token: u64, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let (timer, request, hub) = Timer::of(token);
        match timer {
            Timer::Sample => self.sample(request, hub, actions),
            Timer::Send => return self.send_on(request, hub, actions),
            Timer::Depart => {
                let what = self.departures.get_mut(request as usize).and_then(Option::take);
                let Some(what) = what else { return Ok(()) };
                self.free.push(request);
                return self.leave(what, actions);
            }
            Timer::Die => {
                let detection = self.plan.death.map_or(Span::ZERO, |death| death.detection);
                if let Some(active) = self.active(request)
                    && active.kill(hub)
                {
                    actions.later(detection, Timer::Detect.token(request, hub));
                }
            }
            Timer::Detect => {
                if self.active(request).is_some() {
                    actions.tell(Measured::HubLost { request: JobId(request), hub });
                }
            }
        }
        Ok(())
    }

    fn reached(
        &mut self,
        flow: FlowId,
        delivered: Bytes,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        let message = self.messages.get(flow.index()).and_then(Option::as_ref);
        let Some(&Message { request, what: What::Line(hub), .. }) = message else {
            return Ok(());
        };
        let Some(active) = self.active(request) else { return Ok(()) };
        let took = active.age(actions.now());
        let (new, parent, mark) = active.pass_on(hub, flow, delivered);
        count(took, new, actions);
        if let Some(mark) = mark {
            actions.mark(flow, mark);
        }
        if let Some(parent) = parent {
            self.wake(request, parent, actions);
        }
        self.finish(request, actions);
        Ok(())
    }

    fn ended(&mut self, flow: FlowId, actions: &mut Actions<'_, W>) -> Result<(), W::Error> {
        let Some(mut message) = self.messages.get_mut(flow.index()).and_then(Option::take) else {
            return Ok(());
        };
        message.is_late |= actions.flow(flow).timeouts > 0;
        self.deliver(message, actions)
    }

    fn directed(
        &mut self,
        directive: &Directive,
        actions: &mut Actions<'_, W>,
    ) -> Result<(), W::Error> {
        match directive {
            Directive::Gather { request, order } => self.obey(request.0, order, actions),
            _ => Ok(()),
        }
    }
}
