//! The world itself: flows over links, event by event.

mod audit;
mod foresee;
mod granting;
mod handshake;
mod host_queues;
#[cfg(test)]
mod reading;
mod receiving;
mod switching;

use engine::{FlowState, Living, Notice, Outcome};
use model::{Buffer, Caps, FlowId, LinkId, Measured, Network, NodeId, NodeKind};
use policy::Tags;
use units::{Bytes, Rate, Span, Time};

use crate::capture::Taps;
use crate::flow::{Flow, NEVER};
use crate::frame::{self, Packet};
use crate::link;
use crate::meter::Meter;
use crate::switches::Switches;
use crate::tags::{self, Tagger};
use crate::tcp::{Acknowledgement, ictcp, low, unwrap};
use crate::wires::{DELIVER, SPECIAL, Way, Wires, arrival_slot, slot_number};
use crate::{Discipline, Limiter, Protocol, RunError, Setup, Transport};
use foresee::foresee;
use host_queues::HostQueues;

/// Events between two [`Notice::Pause`].
const PAUSE: u64 = 1 << 20;
/// Events until the queue's buckets are first chosen by what is seen; then twice as many, and so on.
const TUNE: u64 = 1 << 12;

/// Hosts, queues and switches with the packets between them.
pub struct World {
    now: u64,
    transport: Transport,
    enforcement: Limiter,
    /// Under a policy that gives all flows rates: how long a flow waits for its first one, ns.
    first_rate: Option<u64>,
    wires: Wires,
    /// What hosts write into data packets.
    tagger: Option<Tagger>,
    /// Whether data packets are tagged, or counted in their hosts' own queues.
    attends_sending: bool,
    flows: Vec<Flow>,
    /// Positions in `flows` that are free.
    free: Vec<u32>,
    /// Where each flow lives, by [`FlowId`]; gone once the network holds nothing of it.
    places: Living<u32>,
    /// Frame bytes that entered the network, reached their host, or were dropped on the way.
    injected: u64,
    arrived: u64,
    dropped: u64,
    /// Events after which something is to be done between two: see [`World::between`]. The next choice of the
    /// queue's buckets, the next [`Notice::Pause`].
    pause_at: u64,
    tune_at: u64,
    notice_at: u64,
    taps: Taps,
    /// Packets that wait at their hosts, if the transport has host queues.
    host_queues: Option<HostQueues>,
    switches: Option<Box<Switches>>,
    /// Receiving hosts, by node, under ICTCP.
    receivers: Option<Vec<Option<ictcp::Host>>>,
    /// Receiving hosts that grant.
    granting: Option<Box<granting::Receivers>>,
}

impl World {
    /// The idle network of `setup`.
    pub(crate) fn new(setup: &Setup<'_>) -> Result<Self, RunError> {
        let network = &setup.network;
        let tags = setup.policy.as_ref().and_then(|policy| policy.tags());
        let transport = match &tags {
            Some(tags) => tags::transport(tags, setup.transport).map_err(RunError::Transport)?,
            None => setup.transport,
        };
        let tagger = tags.as_ref().map(|tags| Tagger::new(tags, transport.mss));
        transport.check().map_err(RunError::Transport)?;
        let topology = network.topology();
        let [host_queue, switch_queue] = match &tagger {
            Some(tagger) => tagger.disciplines(),
            None => [setup.host_queue, setup.switch_queue],
        };
        let ports = |link: LinkId| match topology.nodes()[topology.link(link).from.index()].kind {
            NodeKind::Host => host_queue,
            NodeKind::Switch => switch_queue,
        };
        if transport.small_queue.is_some() && host_queue != Discipline::Fifo {
            let what = "small_queue counts what leaves in order: set queues.host = \"fifo\"";
            return Err(RunError::Transport(what.into()));
        }
        let watch = setup.policy.as_ref().and_then(|policy| policy.watch());
        if watch.is_some() && !transport.handshake {
            let what = "the policy reads SYN and FIN at switches: set transport.handshake = true";
            return Err(RunError::Transport(what.into()));
        }
        let spare = watch.map_or(0, |_| Self::switch_events(topology.links().len()));
        let buffer = match &tags {
            Some(Tags::Left(own)) => Some(Buffer::Bytes(own.buffer)),
            _ => None,
        };
        let wires = Wires::new(network, &transport, ports, buffer, spare)?;
        let paces_all = setup.policy.as_ref().is_some_and(|policy| policy.paces_all());
        let turn = setup.control_delay + setup.control_delay + setup.processing;
        // A nanosecond later: of what happens at the same time, packets come first.
        let first_rate = (paces_all && setup.enforcement == Limiter::Pacing)
            .then(|| turn.as_nanos().saturating_add(1));
        let nodes = topology.nodes().len();
        let granting = match &tags {
            Some(Tags::Granted(own)) => {
                Some(Box::new(granting::Receivers::new(own, transport.mss, nodes)))
            }
            _ => None,
        };
        let host_queues = transport.held.then(|| HostQueues::new(nodes, wires.links.len()));
        let mut taps = Taps::new(wires.links.len());
        for capture in &setup.captures {
            taps.open(network, capture)?;
        }
        Ok(Self {
            now: 0,
            transport,
            enforcement: setup.enforcement,
            first_rate,
            taps,
            wires,
            attends_sending: tagger.is_some() || transport.small_queue.is_some(),
            tagger,
            flows: Vec::new(),
            free: Vec::new(),
            places: Living::default(),
            injected: 0,
            arrived: 0,
            dropped: 0,
            pause_at: TUNE,
            tune_at: TUNE,
            notice_at: PAUSE,
            host_queues,
            switches: watch.map(|watch| Box::new(Switches::new(topology, watch))),
            receivers: transport.ictcp.then(|| vec![None; nodes]),
            granting,
        })
    }

    /// Whether a scheduler, a capture or a busy switch stands before the link.
    fn is_special(&self, link: usize) -> bool {
        let switch = self.switches.as_ref().is_some_and(|switches| switches.ports[link].is_switch);
        switch || self.wires.schedulers[link].is_some() || self.taps.has(link)
    }

    /// Sets or lifts the pace of a flow in frame bits per second. A flow that is gone is ignored.
    pub(crate) fn pace(&mut self, flow: FlowId, bps: Option<u64>) {
        let Some(place) = self.place(flow) else {
            return;
        };
        let flow = &mut self.flows[place as usize];
        let was = flow.pace;
        flow.pace = bps.map_or(0, link::cost);
        // The rest of the wait for the next packet is scaled to the new pace.
        let wait = flow.pace_at.saturating_sub(self.now);
        if wait > 0 && was > 0 {
            let scaled = u128::from(wait) * u128::from(flow.pace) / u128::from(was);
            flow.pace_at = self.now + u64::try_from(scaled).unwrap_or(u64::MAX >> 1);
        } else if self.first_rate.is_some() && flow.pace > 0 {
            // Flows that were told together don't send together.
            let turn = link::span(u64::from(self.transport.mss + self.transport.header), flow.pace);
            flow.pace_at = self.now + phase(flow.id, turn);
        }
        if self.first_rate.is_some() {
            flow.sender.hold(flow.pace_at);
        }
        self.pump(place);
    }

    /// Sets or lifts a meter on the flow's data at the first switch of its path.
    pub(crate) fn meter(&mut self, flow: FlowId, bps: Option<u64>, burst: u64) {
        let Some(place) = self.place(flow) else {
            return;
        };
        let path = &self.wires.ways[2 * place as usize].0;
        if path[1] == DELIVER {
            return;
        }
        let link = path[1] & !SPECIAL;
        let special = bps.is_some() || self.is_special(link as usize);
        self.wires.ways[2 * place as usize].0[1] = if special { link | SPECIAL } else { link };
        self.flows[place as usize].meter = bps.map(|bps| Box::new(Meter::new(bps, burst)));
    }

    /// A flow that has sent nothing yet.
    fn enter(
        &mut self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
        size: Bytes,
    ) -> Result<FlowId, RunError> {
        let number = u32::try_from(self.places.count()).ok().filter(|n| *n < u32::MAX / 4);
        let too_many = || RunError::Transport("a run has at most 2^30 flows".into());
        let id = FlowId(number.ok_or_else(too_many)?);
        let special = |link| self.is_special(link);
        let there = Wires::path(network, src, dst, id.0, special)?;
        let back = Wires::path(network, dst, src, id.0, special)?;
        let header = u64::from(self.transport.header);
        let handshake = self.wires.transit(&there, header) + self.wires.transit(&back, header);
        let mut flow = Flow::new(id, src, dst, size.get(), handshake, &self.transport);
        flow.pace_at = self.first_rate.map_or(0, |wait| self.now + wait);
        if self.switches.is_some() {
            flow.passage = Some(Box::new(Switches::passage(network.topology(), &there, &back)));
        }
        let place = if let Some(place) = self.free.pop() {
            self.flows[place as usize] = flow;
            self.wires.ways[2 * place as usize] = Way(there);
            self.wires.ways[2 * place as usize + 1] = Way(back);
            place
        } else {
            self.flows.push(flow);
            self.wires.ways.extend([Way(there), Way(back)]);
            let slots = 2 * self.wires.links.len() + self.wires.spare + 2 * self.flows.len();
            self.wires.events.grow(slots);
            u32::try_from(self.flows.len() - 1).map_err(|_| too_many())?
        };
        self.places.push(place);
        self.expect(network, place);
        self.attend();
        Ok(id)
    }

    /// Starts a flow: with its SYN, or with its first data.
    fn begin(&mut self, place: u32) {
        if self.transport.connects() {
            self.greet(place);
        } else {
            self.pump(place);
        }
    }

    fn place(&self, flow: FlowId) -> Option<u32> {
        self.places.get(flow.index()).copied().filter(|place| *place != u32::MAX)
    }

    /// Passes a packet on; accounts for it when it is dropped.
    #[inline(always)] // once a hop: the call would copy the packet
    fn forward(&mut self, element: u32, packet: &mut Packet) {
        let kept = if element & SPECIAL == 0 {
            self.wires.offer(element as usize, self.now, packet)
        } else {
            self.special((element & !SPECIAL) as usize, *packet)
        };
        if !kept {
            self.drop(packet);
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
            // The end of the flow is handled by an event, because a drop may happen within a send.
            self.schedule_timer(packet.flow, 0, self.now);
        }
    }

    /// Puts a packet on a link that may be captured.
    fn offer(&mut self, link: usize, mut packet: Packet) -> bool {
        let marked = self.wires.links.counts[link].marked;
        let fits = self.wires.offer(link, self.now, &mut { packet });
        if fits && self.taps.has(link) {
            if self.wires.links.counts[link].marked != marked {
                packet.flags |= frame::CE;
            }
            let frame = self.flows[packet.flow as usize].frame(&packet, &self.transport);
            self.taps.packet(link, Time::from_nanos(self.wires.links.free_at(link)), &frame);
        }
        fits
    }

    /// A hop with a meter, a scheduler, a capture or a busy switch before it.
    #[cold]
    fn special(&mut self, link: usize, mut packet: Packet) -> bool {
        if !self.inspect(&mut packet) {
            return true;
        }
        let kept = self.serve(link, packet);
        self.sense(link);
        kept
    }

    /// Meter, scheduler and capture.
    fn serve(&mut self, link: usize, mut packet: Packet) -> bool {
        let flow = &mut self.flows[packet.flow as usize];
        if packet.hop == 1
            && packet.flags & frame::ACK == 0
            && let Some(meter) = &mut flow.meter
            && !meter.admits(self.now, packet.size)
        {
            self.wires.links.counts[link].metered += 1;
            return false;
        }
        let Some(scheduler) = &mut self.wires.schedulers[link] else {
            return self.offer(link, packet);
        };
        if scheduler.packets() == 0 && self.wires.links.is_idle(link, self.now) {
            return self.offer(link, packet);
        }
        let (_, destination) = flow.ends(&packet);
        let queue = scheduler.queue_of(&packet, flow.priority, destination);
        self.wires.links.mark(link, &mut packet, scheduler.packets() + 1);
        self.enqueue(link, packet, queue)
    }

    /// Queues a packet at a scheduled port, perhaps in place of another.
    fn enqueue(&mut self, link: usize, packet: Packet, queue: u32) -> bool {
        while let Some(scheduler) = &mut self.wires.schedulers[link] {
            let port = &mut self.wires.links.counts[link];
            if scheduler.fits(packet.size) {
                scheduler.push(packet, queue);
                port.peak = port.peak.max(scheduler.packets() + 1);
                #[cfg(debug_assertions)]
                self.wires.links.books.hold(link, self.now, scheduler.packets(), scheduler.bytes());
                if scheduler.packets() == 1 {
                    self.wires.await_port(link);
                }
                return true;
            }
            port.dropped += 1;
            let Some(victim) = scheduler.evict(&packet, queue) else {
                return false;
            };
            self.drop(&victim);
        }
        false
    }

    /// A port with a scheduler is free for its next packet.
    fn port_ready(&mut self, link: usize) {
        self.sense_departure(link);
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
            self.wires.await_port(link);
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
        if packet.flags & frame::SYN != 0 {
            self.greeted(packet);
            return self.settle(place);
        }
        if packet.flags & frame::ACK != 0 {
            let block = (packet.block.0 != packet.block.1).then_some(packet.block);
            let echo = packet.flags & frame::ECE != 0;
            flow.sender.on_ack(now, packet.seq, packet.window, block, echo);
            if flow.sender.is_done() {
                return self.settle(place);
            }
            if self.granting.is_some() {
                self.granted(place, packet.block);
            }
            self.pump(place);
            return None;
        }
        let len = u64::from(packet.size - self.transport.header);
        if packet.flags & frame::DATAGRAM != 0 {
            flow.received += len;
            if let Some(queues) = &mut self.host_queues {
                queues.arrived(now, packet);
            }
            return self.settle(place);
        }
        let seq = unwrap(flow.receiver.delivered(), packet.seq);
        if let Some(hosts) = &mut self.receivers {
            receiving::receive(hosts, flow, now, len, &self.transport);
        }
        let edge = self.granting.is_some().then(|| flow.receiver.edge());
        let marked = packet.flags & frame::CE != 0;
        let (before, after) = flow.receiver.on_data(now, seq, len, marked);
        let due = flow.receiver.deadline();
        let is_watched = flow.receiver.delivered() >= flow.watched;
        if let Some(before) = before {
            self.acknowledge(place, before);
        }
        if let Some(edge) = edge {
            self.grant(place, edge, after);
        } else if let Some(after) = after {
            self.acknowledge(place, after);
        }
        if let Some(due) = due {
            self.schedule_timer(place, 1, due);
        }
        if is_watched { self.settle(place) } else { None }
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
            window: acknowledgement.window,
        };
        self.inject(packet);
    }

    #[inline]
    fn inject(&mut self, mut packet: Packet) {
        self.injected += u64::from(packet.size);
        self.flows[packet.flow as usize].in_flight += 1;
        let element = self.wires.element(&packet);
        self.forward(element, &mut packet);
    }

    /// Sends data of a flow from `seq` on with its tag, and notes when it will have left its host's own
    /// queue.
    #[cold]
    fn inject_attended(&mut self, mut packet: Packet, seq: u64) {
        if let Some(tagger) = &self.tagger {
            packet.block = tagger.tag(&self.flows[packet.flow as usize], seq);
        }
        let link = (self.wires.element(&packet) & !SPECIAL) as usize;
        let before = self.wires.links.packets(link);
        self.inject(packet);
        let links = &self.wires.links;
        if let Some(own) = &mut self.flows[packet.flow as usize].own
            && links.packets(link) > before
        {
            own.push(links.free_at(link), packet.size);
        }
    }

    /// Sends what window and pace allow, and sets the timer.
    #[inline]
    fn pump(&mut self, place: u32) {
        let header = self.transport.header;
        let is_datagram = self.transport.protocol == Protocol::Datagram;
        let now = self.now;
        let mut deadline = NEVER;
        if self.flows[place as usize].opening.is_some() {
            return;
        }
        loop {
            let flow = &mut self.flows[place as usize];
            if flow.pace_at > now {
                deadline = flow.pace_at;
                break;
            }
            if let Some(own) = &mut flow.own
                && let Some(ready) = own.ready(now)
            {
                deadline = ready;
                break;
            }
            let Some(segment) = flow.sender.poll(now) else {
                break;
            };
            let size = segment.len + header;
            if flow.pace != 0 {
                flow.pace_at = now.max(flow.pace_at) + link::span(u64::from(size), flow.pace);
                if self.first_rate.is_some() {
                    flow.sender.hold(flow.pace_at);
                }
            }
            let mut flags = match (is_datagram, flow.sender.is_ecn_capable()) {
                (true, _) => frame::DATAGRAM,
                (false, true) => frame::ECT,
                (false, false) => 0,
            };
            if segment.seq + u64::from(segment.len) == flow.fin_at {
                flags |= frame::FIN;
            }
            let packet = Packet {
                time: 0,
                seq: low(segment.seq),
                block: (0, 0),
                flow: place,
                size,
                flags,
                hop: 0,
                window: 0,
            };
            if self.attends_sending {
                self.inject_attended(packet, segment.seq);
            } else {
                self.inject(packet);
            }
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
        let Some(number) = number.checked_sub(self.wires.spare) else {
            self.switch_event(number);
            return None;
        };
        let (place, side) = (number / 2, number % 2);
        let flow = &mut self.flows[place];
        flow.timers[side] = NEVER;
        let place = slot_number(place);
        if side == 0 && flow.opening.is_some() {
            self.greet_again(place);
            return self.settle(place);
        }
        if side == 0 {
            flow.sender.on_deadline(self.now);
            if self.host_queues.is_some() {
                self.leak(self.flows[place as usize].queue);
            } else {
                self.pump(place);
            }
            return self.settle(place).or_else(|| self.host_queues.as_ref()?.notice());
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
            let slot = self.wires.timer_slot(place, side);
            self.wires.events.schedule(slot, Time::from_nanos(at));
        }
    }

    /// Reports once that the flow's mark is reached or that the flow is complete, and frees its
    /// place when none of its packets is left.
    fn settle(&mut self, place: u32) -> Option<Notice> {
        let flow = &mut self.flows[place as usize];
        if flow.delivered() >= flow.mark {
            flow.mark = u64::MAX;
            flow.watch();
            let notice = Notice::Reached(flow.id, Bytes::new(flow.delivered()));
            // It may have ended too, which is reported next.
            self.schedule_timer(place, 0, self.now);
            return Some(notice);
        }
        let gone = if flow.datagrams { flow.lost } else { 0 };
        let complete = !flow.open && flow.delivered() + gone == flow.size;
        let notice = (complete && !flow.ended).then(|| Notice::Ended(flow.id, flow.state()));
        flow.ended |= complete;
        if flow.ended && flow.in_flight == 0 && flow.sender.is_done() {
            self.places[flow.id.index()] = u32::MAX;
            self.places.end(flow.id.index());
            if let Some(hosts) = &mut self.receivers {
                receiving::leave(hosts, flow);
            }
            self.free.push(place);
            for side in 0..2 {
                let slot = self.wires.timer_slot(place, side);
                self.wires.events.cancel(slot);
            }
        }
        notice
    }

    /// What is to be done after so many events, or at once when switches have something to report.
    #[cold]
    fn between(&mut self) -> Option<Notice> {
        let events = self.wires.events.popped();
        if events >= self.tune_at {
            self.wires.events.tune();
            self.tune_at = events + events.min(PAUSE);
        }
        let reports = self.switches.as_ref().is_some_and(|s| !s.reports.is_empty());
        let notice = if reports {
            Some(Notice::Measured)
        } else {
            (events >= self.notice_at).then_some(Notice::Pause)
        };
        if notice.is_some() {
            self.notice_at = events + PAUSE;
        }
        self.pause_at = self.notice_at.min(self.tune_at);
        notice
    }
}

/// A part of `turn`, spread evenly over flows that follow each other (multiples of the golden ratio are).
fn phase(flow: FlowId, turn: u64) -> u64 {
    let part = flow.0.wrapping_mul(0x9e37_79b9);
    u64::try_from((u128::from(turn) * u128::from(part)) >> 32).unwrap_or(turn)
}

impl engine::Streams for World {
    fn open(&mut self, network: &Network, src: NodeId, dst: NodeId) -> Result<FlowId, RunError> {
        let id = self.enter(network, src, dst, Bytes::ZERO)?;
        if let Some(place) = self.place(id) {
            let flow = &mut self.flows[place as usize];
            flow.open = true;
            flow.fin_at = u64::MAX;
            flow.watch();
            self.begin(place);
        }
        Ok(id)
    }

    fn write(&mut self, flow: FlowId, more: Bytes) -> bool {
        let Some(place) = self.place(flow).filter(|place| self.flows[*place as usize].open) else {
            return false;
        };
        let flow = &mut self.flows[place as usize];
        flow.size = flow.size.saturating_add(more.get());
        flow.sender.extend(more.get());
        self.pump(place);
        true
    }

    fn close(&mut self, flow: FlowId) {
        if let Some(place) = self.place(flow) {
            let flow = &mut self.flows[place as usize];
            flow.open = false;
            flow.watch();
            if self.transport.connects() {
                flow.fin_at = flow.size;
                if flow.sender.sent() == flow.size {
                    self.part(place);
                }
            }
            // All may have arrived already.
            self.schedule_timer(place, 0, self.now);
        }
    }

    fn open_datagrams(
        &mut self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
    ) -> Result<FlowId, RunError> {
        if self.host_queues.is_some() {
            let what = "datagrams at a rate don't wait at their hosts: set transport.held = false";
            return Err(RunError::Transport(what.into()));
        }
        let id = self.enter(network, src, dst, Bytes::ZERO)?;
        if let Some(place) = self.place(id) {
            let flow = &mut self.flows[place as usize];
            (flow.open, flow.datagrams, flow.at_once) = (true, true, true);
            // Switches tell of connections.
            flow.passage = None;
            flow.watch();
        }
        Ok(id)
    }

    fn send(&mut self, flow: FlowId, payload: Bytes) {
        let Some(place) = self.place(flow) else {
            return;
        };
        let header = self.transport.header;
        let most = u64::from(u16::MAX - header);
        let payload = u16::try_from(payload.get().min(most)).unwrap_or(u16::MAX - header);
        self.flows[place as usize].size += u64::from(payload);
        self.inject(Packet {
            flow: place,
            size: payload + header,
            flags: frame::DATAGRAM,
            ..Packet::default()
        });
    }

    fn mark(&mut self, flow: FlowId, at: Bytes) {
        if let Some(place) = self.place(flow) {
            let flow = &mut self.flows[place as usize];
            flow.mark = at.get();
            flow.watch();
            self.schedule_timer(place, 0, self.now);
        }
    }

    fn pause_reading(&mut self, flow: FlowId) {
        if let Some(place) = self.place(flow) {
            self.flows[place as usize].receiver.pause_reading(&self.transport);
        }
    }

    fn consume(&mut self, flow: FlowId, bytes: Bytes) {
        let Some(place) = self.place(flow) else {
            return;
        };
        let flow = &mut self.flows[place as usize];
        let update = flow.receiver.read(bytes.get()).filter(|_| !flow.ended);
        if let Some(update) = update {
            self.acknowledge(place, update);
        }
    }
}

impl engine::World for World {
    type Error = RunError;

    fn now(&self) -> Time {
        Time::from_nanos(self.now)
    }

    fn run(&mut self, limit: Time) -> Notice {
        if let Some(notice) = self.host_queues.as_ref().and_then(HostQueues::notice) {
            return notice;
        }
        let links = self.wires.links.len();
        let mut packet = Packet::default();
        while let Some((time, slot)) = {
            let Wires { events, links, ways, .. } = &mut self.wires;
            let flows = &self.flows;
            events.pop(limit, |events, slots| foresee(links, ways, flows, events, slots))
        } {
            debug_assert!(self.now <= time.as_nanos());
            self.now = time.as_nanos();
            let slot = slot.0 as usize;
            if slot < links {
                let next = self.wires.links.arrive(slot, &mut packet);
                if let Some(next) = next {
                    self.wires.events.insert(arrival_slot(slot), Time::from_nanos(next));
                }
                let element = self.wires.element(&packet);
                if element != DELIVER {
                    self.forward(element, &mut packet);
                } else if let Some(ended) = self.deliver(&packet) {
                    return ended;
                }
            } else if let Some(ended) = self.timer(slot - links) {
                return ended;
            }
            if self.wires.events.popped() >= self.pause_at
                && let Some(notice) = self.between()
            {
                return notice;
            }
        }
        Notice::Limit
    }

    fn advance(&mut self, time: Time) {
        self.now = self.now.max(time.as_nanos());
    }

    fn start(
        &mut self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
        size: Bytes,
    ) -> Result<FlowId, RunError> {
        let id = self.enter(network, src, dst, size)?;
        let place = self.places[id.index()];
        if self.host_queues.is_some() {
            self.hold_back(place);
        }
        if size == Bytes::ZERO {
            // No arrival will end it.
            self.schedule_timer(place, 0, self.now);
        } else if self.host_queues.is_none() {
            self.begin(place);
        }
        Ok(id)
    }

    fn limit(&mut self, flow: FlowId, limit: Option<Rate>) {
        let bps = limit.map(Rate::as_bps);
        match self.enforcement {
            Limiter::Pacing => self.pace(flow, bps),
            Limiter::Meter { burst } => self.meter(flow, bps, burst.get()),
        }
    }

    fn prioritize(&mut self, flow: FlowId, priority: u8) {
        if let Some(place) = self.place(flow) {
            self.flows[place as usize].priority = priority;
        }
    }

    fn grant(&mut self, network: &Network, src: NodeId, dst: NodeId, via: Option<NodeId>) {
        self.let_go_over(network, src, dst, via);
    }

    fn pace_pair(&mut self, src: NodeId, dst: NodeId, rate: Rate) {
        self.set_leak(src, dst, link::cost(rate.as_bps()));
    }

    fn cap(&mut self, link: LinkId, flow: Option<FlowId>, caps: Option<Caps>) {
        self.set_cap(link, flow, caps);
    }

    fn admit(&mut self, flow: FlowId) {
        self.let_in(flow);
    }

    fn space(&mut self, link: LinkId, gap: Option<Span>) {
        self.set_gap(link, gap);
    }

    fn measured(&mut self) -> Vec<Measured> {
        let switches = self.switches.as_mut().map(|s| std::mem::take(&mut s.reports));
        let hosts = self.host_queues.as_mut().map(HostQueues::take_reports);
        [switches, hosts].into_iter().flatten().flatten().collect()
    }

    fn ports(&mut self) -> Vec<(LinkId, Bytes)> {
        let (now, links) = (self.now, &mut self.wires.links);
        let all = links.len();
        // A link has taken in what waits before it, too.
        let mut sent = |link| Bytes::new(links.bytes(link) - links.queued(link, now));
        (0..all).map(|link| (LinkId(slot_number(link)), sent(link))).collect()
    }

    fn state(&self, flow: FlowId) -> Option<FlowState> {
        Some(self.flows[self.place(flow)? as usize].state())
    }

    fn limited_flow(&self, flow: FlowId) -> Option<engine::LimitedFlow> {
        let flow = &self.flows[self.place(flow)? as usize];
        let rate = Rate::from_bps(link::rate(flow.pace)?);
        let (mss, header) = (u64::from(self.transport.mss), u64::from(self.transport.header));
        Some(engine::LimitedFlow {
            rate,
            payload: rate.fraction(mss, mss + header),
            unsent: Bytes::new(flow.size - flow.sender.sent()),
            delivered: Bytes::new(flow.delivered()),
        })
    }

    fn queue_length(&mut self, link: LinkId) -> u32 {
        let waiting = self.wires.schedulers[link.index()].as_ref().map_or(0, |s| s.packets());
        let held = self.host_queues.as_ref().map_or(0, |queues| queues.waiting(link.index()));
        self.wires.links.queue_length(link.index(), self.now) + waiting + held
    }

    fn queued(&mut self, link: LinkId) -> Bytes {
        let waiting = self.wires.schedulers[link.index()].as_ref().map_or(0, |s| s.bytes());
        Bytes::new(self.wires.links.queued(link.index(), self.now) + waiting)
    }

    fn check(&mut self) -> Result<(), RunError> {
        self.taps.check()
    }

    fn finish(mut self, outcome: &mut Outcome) -> Result<(), RunError> {
        outcome.links = self.wires.links.records();
        outcome.hops = outcome.links.iter().map(|link| link.packets).sum();
        outcome.events = self.wires.events.popped();
        outcome.host_queues =
            self.host_queues.take().map(HostQueues::into_record).unwrap_or_default();
        self.audit().map_err(RunError::Invariant)?;
        self.taps.finish()
    }
}
