//! The world itself: flows over links, event by event.

use std::io;
use std::path::PathBuf;

use engine::{EventQueue, Slot};
use model::{FlowId, LinkId, Network, NodeId};
use units::{Span, Time};

use crate::frame::{self, Packet};
use crate::link::{self, Link, Taken};
use crate::meter::Meter;
use crate::scheduler::{Discipline, Scheduler};
use crate::tcp::{Acknowledgement, Receiver, Sender, low, unwrap};
use crate::{Capture, CaptureFile, Frame, Protocol, RunError, Transport};

/// Most links on a path.
const PATH: usize = 15;
/// In a path: the packet has arrived.
const DELIVER: u32 = u32::MAX;
/// In a path, with a link: a meter, a scheduler or a capture stands before the link.
const SPECIAL: u32 = 1 << 31;
/// No timer event is pending.
const NEVER: u64 = u64::MAX;
/// Events between two [`Notice::Pause`].
const PAUSE: u64 = 1 << 20;

/// Why [`World::run`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The flow's last byte was delivered, and what it took.
    Ended(FlowId, FlowState),
    /// Many events passed: a chance to show progress.
    Pause,
    /// Nothing more happens up to the limit.
    Limit,
}

/// What a flow has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowState {
    pub(crate) delivered: u64,
    pub(crate) retransmissions: u32,
    pub(crate) timeouts: u32,
}

pub(crate) struct World {
    now: u64,
    transport: Transport,
    wires: Wires,
    flows: Vec<Flow>,
    /// Positions in `flows` that are free.
    free: Vec<u32>,
    /// Where each flow lives, by [`FlowId`]; gone once the network holds nothing of it.
    places: Vec<u32>,
    /// Frame bytes that entered the network, reached their host, or were dropped on the way.
    injected: u64,
    arrived: u64,
    dropped: u64,
    pause_at: u64,
    /// By link.
    captures: Vec<Option<Box<(PathBuf, CaptureFile)>>>,
    capture_error: Option<RunError>,
}

/// Links, paths and events: what a packet needs on its way.
struct Wires {
    links: Vec<Link>,
    /// Two per flow, there and back: links, then [`DELIVER`].
    paths: Vec<[u32; PATH + 1]>,
    events: EventQueue,
    schedulers: Vec<Option<Box<Scheduler>>>,
}

struct Flow {
    sender: Sender,
    receiver: Receiver,
    /// Cost of an octet at the flow's pace; zero when it isn't paced.
    pace: u64,
    /// When the pace lets the next packet go, ns.
    pace_at: u64,
    /// When the sender's and the receiver's timer events are due.
    timers: [u64; 2],
    size: u64,
    /// Payload of datagrams that arrived and that were lost.
    received: u64,
    lost: u64,
    /// Packets in the network.
    in_flight: u32,
    id: FlowId,
    source: u32,
    destination: u32,
    ended: bool,
    priority: u8,
    meter: Option<Box<Meter>>,
}

impl World {
    /// An idle network. `ports` tells how each link's queue is served.
    pub(crate) fn new(
        network: &Network,
        transport: Transport,
        ports: impl Fn(LinkId) -> Discipline,
    ) -> Result<Self, RunError> {
        transport.check().map_err(RunError::Transport)?;
        let specs = network.topology().links().iter().map(|link| link.spec);
        let links: Vec<Link> = specs.clone().map(|spec| Link::new(&spec)).collect();
        let schedulers = (0u32..)
            .zip(specs.clone())
            .map(|(number, spec)| match ports(LinkId(number)) {
                Discipline::Fifo => None,
                other => Some(Box::new(Scheduler::new(other, spec.buffer))),
            })
            .collect();
        // At full load each link has an arrival every full packet's time.
        let frame = u64::from(transport.mss) + u64::from(transport.header);
        let times = specs.map(|s| (link::span(frame, link::cost(s.capacity.as_bps())), s.delay));
        let per_second: f64 = times.clone().map(|(span, _)| 1e9 / span.max(1) as f64).sum();
        let reach = times.map(|(span, delay)| span + delay.as_nanos()).max().unwrap_or(0);
        let gap = Span::from_secs_f64(1.0 / per_second.max(1.0));
        let events = EventQueue::new(2 * links.len(), gap, Span::from_nanos(reach));
        let captures = links.iter().map(|_| None).collect();
        Ok(Self {
            now: 0,
            transport,
            wires: Wires { links, paths: Vec::new(), events, schedulers },
            captures,
            capture_error: None,
            flows: Vec::new(),
            free: Vec::new(),
            places: Vec::new(),
            injected: 0,
            arrived: 0,
            dropped: 0,
            pause_at: PAUSE,
        })
    }

    /// Captures a port from now on.
    pub(crate) fn capture(&mut self, network: &Network, capture: &Capture) -> Result<(), RunError> {
        let failed = |source| RunError::Capture { path: capture.path.clone(), source };
        let topology = network.topology();
        let link = topology.links().get(capture.link.index()).ok_or_else(|| {
            failed(io::Error::new(io::ErrorKind::NotFound, "the topology has no such link"))
        })?;
        let name = |node: NodeId| topology.nodes()[node.index()].name.as_str();
        let interface = format!("{}-{}", name(link.from), name(link.to));
        let file = CaptureFile::create(&capture.path, &interface, link.spec.capacity);
        self.captures[capture.link.index()] =
            Some(Box::new((capture.path.clone(), file.map_err(failed)?)));
        Ok(())
    }

    /// Tells of a capture that could not be written.
    pub(crate) fn check_captures(&mut self) -> Result<(), RunError> {
        self.capture_error.take().map_or(Ok(()), Err)
    }

    /// Completes the capture files.
    pub(crate) fn finish_captures(&mut self) -> Result<(), RunError> {
        self.check_captures()?;
        for (path, file) in self.captures.drain(..).flatten().map(|capture| *capture) {
            file.finish().map_err(|source| RunError::Capture { path, source })?;
        }
        Ok(())
    }

    pub(crate) const fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    pub(crate) fn events(&self) -> u64 {
        self.wires.events.popped()
    }

    pub(crate) fn link(&self, link: LinkId) -> &Link {
        &self.wires.links[link.index()]
    }

    /// Packets in a link's queue now, the one in transmission included.
    pub(crate) fn queue_length(&mut self, link: LinkId) -> u32 {
        let waiting = self.wires.schedulers[link.index()].as_ref().map_or(0, |s| s.packets());
        self.wires.links[link.index()].queue_length(self.now) + waiting
    }

    /// Moves the clock to `time`, before which nothing is left to happen.
    pub(crate) fn advance(&mut self, time: Time) {
        self.now = self.now.max(time.as_nanos());
    }

    /// Starts a flow; identifiers count up from 0.
    pub(crate) fn start(
        &mut self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
        size: u64,
    ) -> Result<FlowId, RunError> {
        let number = u32::try_from(self.places.len()).ok().filter(|n| *n < u32::MAX / 4);
        let too_many = || RunError::Transport("a run has at most 2^30 flows".into());
        let id = FlowId(number.ok_or_else(too_many)?);
        let there = self.path(network, src, dst, id)?;
        let back = self.path(network, dst, src, id)?;
        let handshake = self.round_trip(&there, &back);
        let transport = &self.transport;
        let flow = Flow {
            sender: Sender::new(transport, size, handshake),
            receiver: Receiver::new(
                transport.delayed_ack.map_or(0, |d| d.as_nanos()),
                transport.sack,
            ),
            pace: 0,
            pace_at: 0,
            timers: [NEVER; 2],
            size,
            received: 0,
            lost: 0,
            in_flight: 0,
            id,
            source: src.0,
            destination: dst.0,
            ended: false,
            priority: 0,
            meter: None,
        };
        let place = if let Some(place) = self.free.pop() {
            self.flows[place as usize] = flow;
            self.wires.paths[2 * place as usize] = there;
            self.wires.paths[2 * place as usize + 1] = back;
            place
        } else {
            self.flows.push(flow);
            self.wires.paths.extend([there, back]);
            let slots = 2 * self.wires.links.len() + 2 * self.flows.len();
            self.wires.events.grow(slots);
            u32::try_from(self.flows.len() - 1).map_err(|_| too_many())?
        };
        self.places.push(place);
        self.pump(place);
        if size == 0 {
            // Nothing will arrive to end it.
            self.schedule_timer(place, 0, self.now);
        }
        Ok(id)
    }

    fn path(
        &self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
        id: FlowId,
    ) -> Result<[u32; PATH + 1], RunError> {
        let mut links = Vec::with_capacity(PATH);
        if !network.path(src, dst, u64::from(id.0), &mut links) {
            let reason = if src == dst {
                "a flow needs two different hosts"
            } else {
                "the topology does not connect them"
            };
            return Err(RunError::NoPath { src, dst, reason });
        }
        if links.len() > PATH {
            return Err(RunError::NoPath { src, dst, reason: "it has more than 15 links" });
        }
        let mut path = [DELIVER; PATH + 1];
        for (element, link) in path.iter_mut().zip(&links) {
            let special = self.is_special(link.index());
            *element = if special { link.0 | SPECIAL } else { link.0 };
        }
        Ok(path)
    }

    /// Whether a scheduler or a capture stands before the link.
    fn is_special(&self, link: usize) -> bool {
        self.wires.schedulers[link].is_some() || self.captures[link].is_some()
    }

    /// Time for a header to go there and back through empty queues, ns.
    fn round_trip(&self, there: &[u32], back: &[u32]) -> u64 {
        let links = there.iter().chain(back).filter(|element| **element != DELIVER);
        let header = u64::from(self.transport.header);
        links.map(|e| self.wires.links[(e & !SPECIAL) as usize].transit(header)).sum()
    }

    /// Sets or lifts the pace of a flow in frame bits per second. A flow that is gone is left.
    pub(crate) fn pace(&mut self, flow: FlowId, bps: Option<u64>) {
        let Some(place) = self.place(flow) else {
            return;
        };
        let flow = &mut self.flows[place as usize];
        let was = flow.pace;
        flow.pace = bps.map_or(0, link::cost);
        // What is left of the wait for the next packet is waited at the new pace.
        let wait = flow.pace_at.saturating_sub(self.now);
        if wait > 0 && was > 0 {
            let scaled = u128::from(wait) * u128::from(flow.pace) / u128::from(was);
            flow.pace_at = self.now + u64::try_from(scaled).unwrap_or(u64::MAX >> 1);
        }
        self.pump(place);
    }

    /// Sets or lifts a meter on the flow's data at the first switch of its path.
    pub(crate) fn meter(&mut self, flow: FlowId, bps: Option<u64>, burst: u64) {
        let Some(place) = self.place(flow) else {
            return;
        };
        let path = &self.wires.paths[2 * place as usize];
        if path[1] == DELIVER {
            return;
        }
        let link = path[1] & !SPECIAL;
        let special = bps.is_some() || self.is_special(link as usize);
        self.wires.paths[2 * place as usize][1] = if special { link | SPECIAL } else { link };
        self.flows[place as usize].meter = bps.map(|bps| Box::new(Meter::new(bps, burst)));
    }

    /// Sets the priority of a flow at ports with [`Discipline::StrictPriority`]; 0 goes first.
    pub(crate) fn prioritize(&mut self, flow: FlowId, priority: u8) {
        if let Some(place) = self.place(flow) {
            self.flows[place as usize].priority = priority;
        }
    }

    /// What a flow has done so far; `None` once the network holds nothing of it.
    pub(crate) fn state(&self, flow: FlowId) -> Option<FlowState> {
        let flow = &self.flows[self.place(flow)? as usize];
        Some(flow.state(self.transport.protocol == Protocol::Datagram))
    }

    fn place(&self, flow: FlowId) -> Option<u32> {
        self.places.get(flow.index()).copied().filter(|place| *place != u32::MAX)
    }

    /// Lets everything happen up to `limit`, or until there is something to tell.
    pub(crate) fn run(&mut self, limit: Time) -> Notice {
        let links = self.wires.links.len();
        while let Some((time, slot)) = self.wires.events.pop(limit) {
            self.now = time.as_nanos();
            let slot = slot.0 as usize;
            if slot < links {
                let (packet, next) = self.wires.links[slot].arrive();
                if let Some(next) = next {
                    self.wires.events.insert(Slot(slot_number(slot)), Time::from_nanos(next));
                }
                let element = self.wires.element(&packet);
                if element != DELIVER {
                    self.forward(element, packet);
                } else if let Some(ended) = self.deliver(&packet) {
                    return ended;
                }
            } else if let Some(ended) = self.timer(slot - links) {
                return ended;
            }
            if self.wires.events.popped() >= self.pause_at {
                self.pause_at += PAUSE;
                return Notice::Pause;
            }
        }
        Notice::Limit
    }

    /// Passes a packet on; accounts for it when it is dropped.
    #[inline]
    fn forward(&mut self, element: u32, packet: Packet) {
        let kept = if element & SPECIAL == 0 {
            self.wires.offer(element as usize, self.now, packet)
        } else {
            self.special((element & !SPECIAL) as usize, packet)
        };
        if !kept {
            self.drop(&packet);
        }
    }

    #[cold]
    fn drop(&mut self, packet: &Packet) {
        self.dropped += u64::from(packet.size);
        let flow = &mut self.flows[packet.flow as usize];
        flow.in_flight -= 1;
        if packet.flags & frame::DATAGRAM != 0 {
            flow.lost += u64::from(packet.size - self.transport.header);
        }
        if flow.in_flight == 0 {
            // What its last packet decides waits for an event: a drop may happen within a send.
            self.schedule_timer(packet.flow, 0, self.now);
        }
    }

    /// Puts a packet on a link that may be captured.
    fn offer(&mut self, link: usize, packet: Packet) -> bool {
        let fits = self.wires.offer(link, self.now, packet);
        if fits && let Some(capture) = &mut self.captures[link] {
            let flow = &self.flows[packet.flow as usize];
            let left = Time::from_nanos(self.wires.links[link].free_at());
            let frame = flow.frame(&packet, &self.transport);
            if let Err(source) = capture.1.packet(left, &frame) {
                self.capture_error = Some(RunError::Capture { path: capture.0.clone(), source });
            }
        }
        fits
    }

    /// A hop with a meter, a scheduler or a capture before it.
    #[cold]
    fn special(&mut self, link: usize, packet: Packet) -> bool {
        let flow = &mut self.flows[packet.flow as usize];
        if packet.hop == 1
            && packet.flags & frame::ACK == 0
            && let Some(meter) = &mut flow.meter
            && !meter.admits(self.now, packet.size)
        {
            self.wires.links[link].metered += 1;
            return false;
        }
        let Some(scheduler) = &mut self.wires.schedulers[link] else {
            return self.offer(link, packet);
        };
        if scheduler.packets() == 0 && self.wires.links[link].is_idle(self.now) {
            return self.offer(link, packet);
        }
        let is_ack = packet.flags & frame::ACK != 0;
        let destination = if is_ack { flow.source } else { flow.destination };
        let fits = scheduler.push(packet, flow.priority, destination);
        let waiting = scheduler.packets();
        let port = &mut self.wires.links[link];
        if !fits {
            port.dropped += 1;
        }
        port.peak = port.peak.max(waiting + 1);
        if waiting == 1 && fits {
            let ready = Time::from_nanos(port.free_at());
            self.wires.events.schedule(Slot(slot_number(self.wires.links.len() + link)), ready);
        }
        fits
    }

    /// A port with a scheduler is free for its next packet.
    fn port_ready(&mut self, link: usize) {
        let Some(scheduler) = &mut self.wires.schedulers[link] else {
            return;
        };
        let next = scheduler.pop();
        let more = scheduler.packets() > 0;
        if let Some(packet) = next
            && !self.offer(link, packet)
        {
            self.drop(&packet);
        }
        if more {
            let ready = Time::from_nanos(self.wires.links[link].free_at());
            self.wires.events.schedule(Slot(slot_number(self.wires.links.len() + link)), ready);
        }
    }

    /// A packet has reached its host, and may complete its flow.
    #[inline]
    fn deliver(&mut self, packet: &Packet) -> Option<Notice> {
        let place = packet.flow;
        let now = self.now;
        self.arrived += u64::from(packet.size);
        let flow = &mut self.flows[place as usize];
        flow.in_flight -= 1;
        if packet.flags & frame::ACK != 0 {
            let block = (packet.block.0 != packet.block.1).then_some(packet.block);
            flow.sender.on_ack(now, packet.seq, block, packet.flags & frame::ECE != 0);
            if flow.sender.is_done() {
                return self.settle(place);
            }
            self.pump(place);
            return None;
        }
        let len = u64::from(packet.size - self.transport.header);
        if packet.flags & frame::DATAGRAM != 0 {
            flow.received += len;
            return self.settle(place);
        }
        let seq = unwrap(flow.receiver.delivered(), packet.seq);
        let marked = packet.flags & frame::CE != 0;
        let (before, after) = flow.receiver.on_data(now, seq, len, marked);
        let due = flow.receiver.deadline();
        let complete = flow.receiver.delivered() == flow.size;
        if let Some(before) = before {
            self.acknowledge(place, before);
        }
        if let Some(after) = after {
            self.acknowledge(place, after);
        }
        if let Some(due) = due {
            self.schedule_timer(place, 1, due);
        }
        if complete { self.settle(place) } else { None }
    }

    fn acknowledge(&mut self, place: u32, acknowledgement: Acknowledgement) {
        let packet = Packet {
            time: 0,
            seq: acknowledgement.seq,
            block: acknowledgement.block,
            flow: place,
            size: self.transport.header,
            flags: if acknowledgement.echo { frame::ACK | frame::ECE } else { frame::ACK },
            hop: 0,
        };
        self.inject(packet);
    }

    #[inline]
    fn inject(&mut self, packet: Packet) {
        self.injected += u64::from(packet.size);
        self.flows[packet.flow as usize].in_flight += 1;
        let element = self.wires.element(&packet);
        self.forward(element, packet);
    }

    /// Sends what window and pace allow, and sees to the timer.
    #[inline]
    fn pump(&mut self, place: u32) {
        let header = self.transport.header;
        let is_datagram = self.transport.protocol == Protocol::Datagram;
        let now = self.now;
        let mut deadline = NEVER;
        loop {
            let flow = &mut self.flows[place as usize];
            if flow.pace != 0 && flow.pace_at > now {
                deadline = flow.pace_at;
                break;
            }
            let Some(segment) = flow.sender.poll(now) else {
                break;
            };
            let size = segment.len + header;
            if flow.pace != 0 {
                flow.pace_at = now.max(flow.pace_at) + link::span(u64::from(size), flow.pace);
            }
            let flags = match (is_datagram, flow.sender.is_ecn_capable()) {
                (true, _) => frame::DATAGRAM,
                (false, true) => frame::ECT,
                (false, false) => 0,
            };
            self.inject(Packet {
                time: 0,
                seq: low(segment.seq),
                block: (0, 0),
                flow: place,
                size,
                flags,
                hop: 0,
            });
        }
        let flow = &self.flows[place as usize];
        let deadline = deadline.min(flow.sender.deadline());
        if deadline < flow.timers[0] {
            self.schedule_timer(place, 0, deadline);
        }
    }

    /// A port is free, or a sender's (side 0) or receiver's (side 1) timer is due; the slots are
    /// numbered in this order.
    #[cold]
    fn timer(&mut self, number: usize) -> Option<Notice> {
        let Some(number) = number.checked_sub(self.wires.links.len()) else {
            self.port_ready(number);
            return None;
        };
        let (place, side) = (number / 2, number % 2);
        let flow = &mut self.flows[place];
        flow.timers[side] = NEVER;
        let place = slot_number(place);
        if side == 0 {
            flow.sender.on_deadline(self.now);
            self.pump(place);
            return self.settle(place);
        }
        let acknowledgement = flow.receiver.on_deadline(self.now);
        if let Some(due) = flow.receiver.deadline() {
            self.schedule_timer(place, 1, due);
        }
        if let Some(acknowledgement) = acknowledgement {
            self.acknowledge(place, acknowledgement);
        }
        None
    }

    /// Makes sure that the timer's event comes no later than `at`. It may come earlier: deadlines
    /// that move out, as a retransmission timer's does with each acknowledgement, cost nothing.
    fn schedule_timer(&mut self, place: u32, side: usize, at: u64) {
        let timer = &mut self.flows[place as usize].timers[side];
        if at < *timer {
            *timer = at;
            let slot = self.timer_slot(place, side);
            self.wires.events.schedule(slot, Time::from_nanos(at));
        }
    }

    const fn timer_slot(&self, place: u32, side: usize) -> Slot {
        Slot(slot_number(2 * self.wires.links.len() + 2 * place as usize + side))
    }

    /// Tells once that the flow is complete, and frees its place when the network holds nothing of
    /// it any more.
    fn settle(&mut self, place: u32) -> Option<Notice> {
        let datagrams = self.transport.protocol == Protocol::Datagram;
        let flow = &mut self.flows[place as usize];
        let gone = if datagrams { flow.lost } else { 0 };
        let complete = flow.delivered(datagrams) + gone == flow.size;
        let notice =
            (complete && !flow.ended).then(|| Notice::Ended(flow.id, flow.state(datagrams)));
        flow.ended |= complete;
        if flow.ended && flow.in_flight == 0 && flow.sender.is_done() {
            self.places[flow.id.index()] = u32::MAX;
            self.free.push(place);
            for side in 0..2 {
                let slot = self.timer_slot(place, side);
                self.wires.events.cancel(slot);
            }
        }
        notice
    }

    /// Checks what must hold whatever happened: bytes are conserved, no link sent faster than its
    /// rate, no queue exceeded its room, no flow delivered more than it has.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let links = (0u32..).zip(&self.wires.links);
        for (number, link) in links {
            if !link.kept_its_rate() {
                return Err(format!("link {number} sent more than its capacity"));
            }
            if !link.kept_its_room() {
                return Err(format!("the queue of link {number} exceeded its buffer"));
            }
        }
        let waiting = self.wires.schedulers.iter().flatten().map(|s| s.bytes());
        let carried = self.wires.links.iter().map(Link::carried).chain(waiting).sum::<u64>();
        if self.injected != self.arrived + self.dropped + carried {
            return Err(format!(
                "{} bytes entered the network, but {} arrived, {} were dropped and {carried} are \
                 on their way",
                self.injected, self.arrived, self.dropped
            ));
        }
        let datagrams = self.transport.protocol == Protocol::Datagram;
        match self.flows.iter().find(|flow| flow.delivered(datagrams) > flow.size) {
            Some(flow) => Err(format!("flow {} delivered more than it has", flow.id.0)),
            None => Ok(()),
        }
    }
}

impl Flow {
    /// The packet as a capture shows it.
    fn frame(&self, packet: &Packet, transport: &Transport) -> Frame {
        let is_ack = packet.flags & frame::ACK != 0;
        let (source, destination) = (NodeId(self.source), NodeId(self.destination));
        let window = u32::try_from(transport.receive_window.get()).unwrap_or(u32::MAX);
        Frame {
            src: if is_ack { destination } else { source },
            dst: if is_ack { source } else { destination },
            flow: self.id,
            from_sender: !is_ack,
            datagram: packet.flags & frame::DATAGRAM != 0,
            header: transport.header,
            payload: u32::from(packet.size - transport.header),
            seq: if is_ack { 0 } else { packet.seq },
            ack: if is_ack { packet.seq } else { 0 },
            sack: (packet.block.0 != packet.block.1).then_some(packet.block),
            window,
            ece: packet.flags & frame::ECE != 0,
            ect: packet.flags & frame::ECT != 0,
            ce: packet.flags & frame::CE != 0,
        }
    }

    const fn delivered(&self, datagrams: bool) -> u64 {
        if datagrams { self.received } else { self.receiver.delivered() }
    }

    const fn state(&self, datagrams: bool) -> FlowState {
        FlowState {
            delivered: self.delivered(datagrams),
            retransmissions: self.sender.retransmissions,
            timeouts: self.sender.timeouts,
        }
    }
}

impl Wires {
    /// The next element of the packet's path.
    #[inline]
    fn element(&self, packet: &Packet) -> u32 {
        let way = 2 * packet.flow as usize + usize::from(packet.flags & frame::ACK);
        self.paths[way][packet.hop as usize & PATH]
    }

    /// Puts a packet on a link; `false` when there is no room.
    #[inline(always)] // one call a hop
    fn offer(&mut self, link: usize, now: u64, mut packet: Packet) -> bool {
        packet.hop += 1;
        match self.links[link].offer(now, packet) {
            Taken::Queued => true,
            Taken::First(at) => {
                self.events.insert(Slot(slot_number(link)), Time::from_nanos(at));
                true
            }
            Taken::Dropped => false,
        }
    }
}

/// Tables of links and flows are bounded well below 2³².
#[allow(clippy::cast_possible_truncation)]
const fn slot_number(index: usize) -> u32 {
    index as u32
}
