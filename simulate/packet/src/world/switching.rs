//! The world's switches at work: see [`Switches`](crate::switches::Switches).

use agent::Trigger;
use engine::Slot;
use model::{Caps, FlowId, LinkId, Measured, Severity};
use units::{Bytes, Span, Time};

use super::World;
use crate::frame::{self, Packet};
use crate::switches::NONE;
use crate::wires::{DELIVER, SPECIAL, slot_number};

/// Events of switches, after those of links and ports: of each link the next acknowledgement that
/// may pass and the deadline of its trigger, then statistics, then reports of queues.
impl World {
    /// Events that switches need with so many links.
    pub(super) const fn switch_events(links: usize) -> usize {
        2 * links + 2
    }

    fn switch_slot(&self, number: usize) -> Slot {
        Slot(slot_number(2 * self.wires.links.len() + number))
    }

    /// A packet at a switch port; returns whether it goes on now or waits.
    pub(super) fn inspect(&mut self, packet: &mut Packet) -> bool {
        let Some(switches) = &mut self.switches else {
            return true;
        };
        let flow = &mut self.flows[packet.flow as usize];
        let (id, src, dst) = (flow.id, flow.source, flow.destination);
        let Some(passage) = &mut flow.passage else {
            return true;
        };
        if packet.flags & frame::ACK != 0 {
            let toll = passage.tolls[packet.hop as usize];
            if toll == NONE {
                return true;
            }
            let port = &mut switches.ports[toll as usize];
            let waits = port.gap.is_some() && (port.ready > self.now || !port.waiting.is_empty());
            if waits {
                port.waiting.push_back(*packet);
                if port.waiting.len() == 1 {
                    let ready = port.ready;
                    self.await_gate(toll as usize, ready);
                }
                return false;
            }
            self.release(toll, packet);
            return true;
        }
        if packet.hop == 1 {
            passage.carried += u64::from(packet.size);
            if packet.flags & frame::SYN != 0 {
                let waits = switches.watch.holds_syns && !passage.is_admitted;
                // One that comes again finds the first still waiting: it takes its place.
                let syn = (self.now, *packet);
                let again = waits.then(|| passage.held.replace(syn)).flatten();
                self.report(Measured::Opened { flow: id, src, dst });
                if let Some((_, again)) = again {
                    self.drop(&again);
                }
                return !waits;
            } else if packet.flags & frame::FIN != 0 {
                self.report(Measured::Closed { flow: id });
            }
        }
        true
    }

    /// Passes an acknowledgement through a port, which caps its window by the port's entries.
    fn release(&mut self, toll: u32, packet: &mut Packet) {
        let Some(switches) = &mut self.switches else {
            return;
        };
        let passage = self.flows[packet.flow as usize].passage.as_ref();
        if let Some(cap) = passage.and_then(|passage| switches.entry(passage, toll)) {
            // The window of a SYN has no scale (RFC 7323, section 2.2).
            let is_syn = packet.flags & frame::SYN != 0;
            let scale = if is_syn { 0 } else { self.transport.window_scale() };
            let segment = Bytes::new(u64::from(self.transport.mss));
            packet.window = cap.rewritten(packet.window, scale, segment);
        }
        let port = &mut switches.ports[toll as usize];
        port.ready = self.now + port.gap.unwrap_or(0);
    }

    fn await_gate(&mut self, link: usize, at: u64) {
        let slot = self.switch_slot(link);
        self.wires.events.schedule(slot, Time::from_nanos(at.max(self.now)));
    }

    /// The next acknowledgement that waits at a port may pass.
    fn open_gate(&mut self, link: usize) {
        let waiting = |world: &mut Self| {
            let port = &mut world.switches.as_mut()?.ports[link];
            port.waiting.pop_front()
        };
        let Some(mut packet) = waiting(self) else {
            return;
        };
        self.release(slot_number(link), &mut packet);
        self.pass(packet);
        let port = self.switches.as_ref().map(|switches| &switches.ports[link]);
        if let Some(ready) = port.and_then(|port| (!port.waiting.is_empty()).then_some(port.ready))
        {
            self.await_gate(link, ready);
        }
    }

    /// A packet that waited at a switch goes on.
    fn pass(&mut self, packet: Packet) {
        let element = self.wires.element(&packet);
        let out = (element & !SPECIAL) as usize;
        if element != DELIVER && !self.serve(out, packet) {
            self.drop(&packet);
        }
        self.sense(out);
    }

    /// A packet was offered to a port.
    pub(super) fn sense(&mut self, link: usize) {
        self.observe(link, 0);
    }

    /// A scheduled port is about to send the next packet: until now, the one before was in its queue.
    pub(super) fn sense_departure(&mut self, link: usize) {
        self.observe(link, 1);
    }

    /// Packets and octets in the queue of a port.
    fn queued(&mut self, link: usize) -> (u32, u64) {
        let waiting = self.wires.schedulers[link].as_ref();
        let (packets, bytes) = waiting.map_or((0, 0), |queue| (queue.packets(), queue.bytes()));
        let links = &mut self.wires.links;
        (packets + links.queue_length(link, self.now), bytes + links.queued(link, self.now))
    }

    /// Has the trigger of a port take in the length of its queue, and `left` packets that just left.
    fn observe(&mut self, link: usize, left: u32) {
        let port = self.switches.as_mut().map(|switches| &mut switches.ports[link]);
        let Some(mut trigger) = port.and_then(|port| port.trigger.take()) else {
            return;
        };
        let packets = self.queued(link).0 + left;
        let low = trigger.thresholds().low;
        let (scheduler, links) = (&self.wires.schedulers[link], &mut self.wires.links);
        let message = trigger.observe(packets, || {
            // Which packet of a scheduled port leaves when is decided as they leave.
            let now = self.now;
            Time::from_nanos(if scheduler.is_some() { now } else { links.below(link, now, low) })
        });
        if let Some(switches) = &mut self.switches {
            switches.ports[link].trigger = Some(trigger);
        }
        self.await_recovery(link);
        if let Some(severity) = message {
            self.report_congestion(link, severity);
        }
    }

    /// Has the trigger of a port asked again when it recovers, at the earliest.
    fn await_recovery(&mut self, link: usize) {
        let port = self.switches.as_mut().map(|switches| &mut switches.ports[link]);
        let Some(port) = port.filter(|port| !port.armed) else {
            return;
        };
        if let Some(deadline) = port.trigger.as_ref().and_then(Trigger::deadline) {
            port.armed = true;
            let slot = self.switch_slot(self.wires.links.len() + link);
            self.wires.events.schedule(slot, deadline);
        }
    }

    fn recover(&mut self, link: usize) {
        let port = self.switches.as_mut().map(|switches| &mut switches.ports[link]);
        let Some(port) = port else {
            return;
        };
        port.armed = false;
        let now = Time::from_nanos(self.now);
        if port.trigger.as_mut().is_some_and(|trigger| trigger.recover(now)) {
            self.report_congestion(link, Severity::Recovered);
        } else {
            self.await_recovery(link);
        }
    }

    fn report_congestion(&mut self, link: usize, severity: Severity) {
        let queue = Bytes::new(self.queued(link).1);
        self.report(Measured::Congested { link: LinkId(slot_number(link)), severity, queue });
    }

    fn report(&mut self, measured: Measured) {
        if let Some(switches) = &mut self.switches {
            switches.reports.push(measured);
            self.pause_at = 0;
        }
    }

    /// A handshake was answered after so long. The first switch sees it from when it lets the SYN go to the
    /// acknowledgement of the SYN-ACK, which here is the first data and may wait for an application:
    /// the sender's time is taken, which is the same without what the SYN was held. It is told with
    /// statistics, or at once.
    pub(super) fn timed(&mut self, flow: FlowId, round_trip: Span) {
        let Some(switches) = &mut self.switches else {
            return;
        };
        if switches.watch.statistics.is_some() {
            switches.round_trips.push((flow, round_trip));
        } else {
            self.report(Measured::RoundTrips(vec![(flow, round_trip)]));
        }
    }

    /// An event of a switch.
    pub(super) fn switch_event(&mut self, number: usize) {
        let links = self.wires.links.len();
        if number < links {
            self.open_gate(number);
        } else if number < 2 * links {
            self.recover(number - links);
        } else if number == 2 * links {
            self.count();
        } else {
            self.report_queues();
        }
    }

    /// Schedules statistics and reports as long as there are flows.
    pub(super) fn attend(&mut self) {
        let live = self.flows.len() > self.free.len();
        let events = 2 * self.wires.links.len();
        let (counts, reports) = (self.switch_slot(events), self.switch_slot(events + 1));
        let now = Time::from_nanos(self.now);
        let Some(switches) = self.switches.as_mut().filter(|_| live) else {
            return;
        };
        if let Some(period) = switches.watch.statistics.filter(|_| !switches.counting) {
            switches.counting = true;
            self.wires.events.schedule(counts, now + period);
        }
        if let Some(period) = switches.watch.queues.filter(|_| !switches.reporting) {
            switches.reporting = true;
            self.wires.events.schedule(reports, now + period);
        }
    }

    /// Flow statistics.
    fn count(&mut self) {
        let timed = self.switches.as_mut().map(|switches| {
            switches.counting = false;
            std::mem::take(&mut switches.round_trips)
        });
        if let Some(timed) = timed.filter(|timed| !timed.is_empty()) {
            self.report(Measured::RoundTrips(timed));
        }
        let live = self.flows.iter().filter(|flow| self.place(flow.id).is_some());
        let count = |passage: &crate::switches::Passage| Bytes::new(passage.carried);
        let mut flows: Vec<(FlowId, Bytes)> =
            live.filter_map(|flow| Some((flow.id, count(flow.passage.as_ref()?)))).collect();
        flows.sort_unstable();
        if !flows.is_empty() {
            self.report(Measured::Carried { flows });
        }
        self.attend();
    }

    /// Reports the queues of ports that forwarded something since the report before.
    fn report_queues(&mut self) {
        let Some(switches) = &mut self.switches else {
            return;
        };
        switches.reporting = false;
        for link in 0..self.wires.links.len() {
            let taken = self.wires.links.bytes(link);
            let port = self.switches.as_mut().map(|switches| &mut switches.ports[link]);
            let Some(port) = port.filter(|port| port.is_switch && port.told != taken) else {
                continue;
            };
            let sent = Bytes::new(taken - port.told);
            port.told = taken;
            let waiting = self.wires.schedulers[link].as_ref().map_or(0, |queue| queue.bytes());
            let queue = Bytes::new(self.wires.links.queued(link, self.now) + waiting);
            let link = LinkId(slot_number(link));
            self.report(Measured::QueueLength { link, queue, sent });
        }
        self.attend();
    }

    /// See [`engine::World::cap`].
    pub(super) fn set_cap(&mut self, link: LinkId, flow: Option<FlowId>, caps: Option<Caps>) {
        let Some(switches) = &mut self.switches else {
            return;
        };
        let Some(port) = switches.ports.get_mut(link.index()) else {
            return;
        };
        let Some(id) = flow else {
            port.caps = caps;
            if caps.is_none() {
                for passage in self.flows.iter_mut().filter_map(|flow| flow.passage.as_mut()) {
                    passage.entries.retain(|(at, _)| *at != link.0);
                }
            }
            return;
        };
        let place = self.place(id);
        let flow = place.and_then(|place| self.flows.get_mut(place as usize));
        if let Some(passage) = flow.and_then(|flow| flow.passage.as_mut()) {
            passage.entries.retain(|(at, _)| *at != link.0);
            passage.entries.extend(caps.map(|caps| (link.0, caps)));
        }
    }

    /// See [`engine::World::admit`].
    pub(super) fn let_in(&mut self, flow: FlowId) {
        let Some(place) = self.place(flow) else {
            return;
        };
        let flow = &mut self.flows[place as usize];
        let Some(passage) = &mut flow.passage else {
            return;
        };
        passage.is_admitted = true;
        if let Some((since, packet)) = passage.held.take() {
            if let Some(opening) = &mut flow.opening {
                opening.held = self.now - since;
            }
            self.pass(packet);
        }
    }

    /// See [`engine::World::space`].
    pub(super) fn set_gap(&mut self, link: LinkId, gap: Option<Span>) {
        let Some(port) =
            self.switches.as_mut().and_then(|switches| switches.ports.get_mut(link.index()))
        else {
            return;
        };
        let last = port.ready.saturating_sub(port.gap.unwrap_or(0));
        port.gap = gap.map(Span::as_nanos);
        port.ready = last.saturating_add(port.gap.unwrap_or(0));
        if !port.waiting.is_empty() {
            let ready = port.ready;
            self.await_gate(link.index(), ready);
        }
    }
}
