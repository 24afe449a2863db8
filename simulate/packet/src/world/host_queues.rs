//! Packets that wait at their host, in a queue for each destination, until directives release them.
//!
//! Source: sync-vs-async, sections II and III-B. A grant releases the packet at the head of a queue
//! at once, perhaps over a switch of the controller's choice. A rate makes the queue a leaky
//! bucket: each packet goes to its link when its last bit has leaked, or, if the transport says so,
//! when that of the packet before it has. Packets of one queue leave in order of arrival. A queue that runs empty loses its rate: new packets wait for the next
//! directive. Hosts report to the controller when packets are queued and when a queue runs empty.

use std::collections::VecDeque;

use engine::{HostQueueRecord, Notice};
use model::{FlowId, Measured, Network, NodeId};
use units::{Bytes, Span};

use super::World;
use crate::frame::{self, Packet};
use crate::link;
use crate::tcp::low;
use crate::wires::{DELIVER, Path, SPECIAL, Wires, slot_number};

/// No queue.
const NOWHERE: u32 = u32::MAX;

/// All queues of all hosts.
#[derive(Default)]
pub(super) struct HostQueues {
    /// The queue of each pair that has one, by source and destination; rows are filled on first
    /// use.
    places: Vec<Vec<u32>>,
    queues: Vec<Queue>,
    /// Waiting packets by the first link of their path.
    waiting: Vec<u32>,
    reports: Vec<Measured>,
    record: HostQueueRecord,
}

/// The packets from one host to another.
struct Queue {
    src: NodeId,
    dst: NodeId,
    /// Flows with packets, by arrival; places in the world's table.
    flows: VecDeque<u32>,
    /// Whether it leaks.
    leaks: bool,
    /// Cost of an octet at the rate that was last set.
    cost: u64,
    /// When the packet at the head may leave, or after the last what the next waits for, ns.
    finish: u64,
    /// Rows of the paths over switches that grants have named.
    detours: Vec<(NodeId, u32)>,
}

impl HostQueues {
    pub(super) fn new(nodes: usize, links: usize) -> Self {
        Self { places: vec![Vec::new(); nodes], waiting: vec![0; links], ..Self::default() }
    }

    /// The queue of a pair.
    fn place(&self, src: NodeId, dst: NodeId) -> Option<usize> {
        let place = *self.places.get(src.index())?.get(dst.index())?;
        (place != NOWHERE).then_some(place as usize)
    }

    /// Packets that wait for a link.
    pub(super) fn waiting(&self, link: usize) -> u32 {
        self.waiting[link]
    }

    /// Records the latency of a packet that arrived at `now`.
    #[inline]
    pub(super) fn arrived(&mut self, now: u64, packet: &Packet) {
        let since = low(now).wrapping_sub(packet.block.1);
        self.record.latency.push(Span::from_nanos(since.into()));
    }

    /// Whether hosts have something to report.
    pub(super) fn notice(&self) -> Option<Notice> {
        (!self.reports.is_empty()).then_some(Notice::Measured)
    }

    pub(super) fn take_reports(&mut self) -> Vec<Measured> {
        std::mem::take(&mut self.reports)
    }

    pub(super) fn into_record(self) -> HostQueueRecord {
        self.record
    }
}

impl World {
    /// Queues the packets of a flow that has just begun.
    pub(super) fn hold_back(&mut self, place: u32) {
        let flow = &mut self.flows[place as usize];
        let (id, src, dst, size) = (flow.id, flow.source, flow.destination, flow.size);
        let path = self.wires.ways[2 * place as usize].0;
        let (packets, bytes, [ideal, slotted]) = self.packets(id, size, &path);
        let Some(queues) = &mut self.host_queues else { return };
        queues.record.ideal.push(Span::from_nanos(ideal));
        queues.record.slotted.push(Span::from_nanos(slotted));
        let number = queues.place(src, dst).unwrap_or_else(|| {
            queues.queues.push(Queue {
                src,
                dst,
                flows: VecDeque::new(),
                leaks: false,
                cost: 0,
                finish: 0,
                detours: Vec::new(),
            });
            let number = queues.queues.len() - 1;
            let nodes = queues.places.len();
            let row = &mut queues.places[src.index()];
            row.resize(nodes, NOWHERE);
            row[dst.index()] = slot_number(number);
            number
        });
        self.flows[place as usize].queue = number;
        if packets > 0 {
            queues.queues[number].flows.push_back(place);
            queues.waiting[(path[0] & !SPECIAL) as usize] += packets;
            queues.reports.push(Measured::Queued { src, dst, packets, bytes: Bytes::new(bytes) });
        }
    }

    /// The number of packets of a flow of `size` octets, their frame octets, and its completion
    /// times in an empty network, ns: where all are sent at once, and where each waits for its slot.
    fn packets(&self, id: FlowId, size: u64, path: &Path) -> (u32, u64, [u64; 2]) {
        let full = u64::from(self.transport.mss) + u64::from(self.transport.header);
        let (slot, _) = self.wires.links.times((path[0] & !SPECIAL) as usize, full);
        let (mut packets, mut bytes, mut left) = (0, 0, size);
        let (mut last, mut free) = ([0; 2], [[0; 16]; 2]);
        while left > 0 {
            let payload = u64::from(self.payload(id, packets)).min(left);
            let frame = payload + u64::from(self.transport.header);
            last = [0, slot * u64::from(packets)];
            for (last, free) in last.iter_mut().zip(&mut free) {
                let links = free.iter_mut().zip(path).take_while(|(_, e)| **e != DELIVER);
                for (free, element) in links {
                    let (sent, delay) =
                        self.wires.links.times((element & !SPECIAL) as usize, frame);
                    *free = (*last).max(*free) + sent;
                    *last = *free + delay;
                }
            }
            left -= payload;
            packets += 1;
            bytes += frame;
        }
        (packets, bytes, last)
    }

    /// Payload of a flow's packet of this number, if that much is left.
    fn payload(&self, flow: FlowId, number: u32) -> u16 {
        let full = self.transport.mss + self.transport.header;
        self.transport.lengths.of(full, flow, number) - self.transport.header
    }

    /// The flow of the packet at the head of a queue, the packet's payload and its frame octets.
    fn head(&self, number: usize) -> Option<(u32, u16, u64)> {
        let place = *self.host_queues.as_ref()?.queues.get(number)?.flows.front()?;
        let flow = &self.flows[place as usize];
        let left = flow.size - flow.sender.sent();
        let payload =
            self.payload(flow.id, flow.released).min(u16::try_from(left).unwrap_or(u16::MAX));
        Some((place, payload, u64::from(payload) + u64::from(self.transport.header)))
    }

    /// The first link of a flow's path.
    fn uplink(&self, place: u32) -> usize {
        (self.wires.ways[2 * place as usize].0[0] & !SPECIAL) as usize
    }

    /// Releases the packet at the head of a queue, if there is one.
    fn let_go(&mut self, number: usize, detour: Option<u32>) {
        let Some((place, payload, _)) = self.head(number) else { return };
        let (now, link) = (self.now, self.uplink(place));
        let flow = &mut self.flows[place as usize];
        let (Some(segment), Some(queues)) =
            (flow.sender.datagram(now, payload), &mut self.host_queues)
        else {
            return;
        };
        flow.released += 1;
        queues.waiting[link] -= 1;
        let queue = &mut queues.queues[number];
        if flow.sender.is_done() {
            queue.flows.pop_front();
            if queue.flows.is_empty() {
                queue.leaks = false;
                queues.reports.push(Measured::Drained { src: queue.src, dst: queue.dst });
            }
        }
        self.inject(Packet {
            time: 0,
            seq: low(segment.seq),
            block: (detour.unwrap_or_default(), low(now)),
            flow: place,
            size: segment.len + self.transport.header,
            flags: frame::DATAGRAM | if detour.is_some() { frame::DETOUR } else { 0 },
            hop: 0,
            window: 0,
        });
    }

    /// Releases the packets of a queue that have leaked by now, and schedules the next.
    pub(super) fn leak(&mut self, number: usize) {
        while let Some((place, _, size)) = self.head(number) {
            let Some(queue) = self.host_queues.as_ref().map(|queues| &queues.queues[number]) else {
                return;
            };
            if !queue.leaks {
                return;
            }
            let leaked = queue.finish;
            if leaked > self.now {
                return self.schedule_timer(place, 0, leaked);
            }
            self.let_go(number, None);
            // What the next one waits for: that which left, or itself.
            let first = self.transport.leaves_first;
            let waits = if first { Some(size) } else { self.head(number).map(|(_, _, size)| size) };
            if let (Some(size), Some(queues)) = (waits, &mut self.host_queues) {
                let queue = &mut queues.queues[number];
                queue.finish += link::span(size, queue.cost);
            }
        }
    }

    /// Sets a pair's rate, as the cost of an octet.
    pub(super) fn set_leak(&mut self, src: NodeId, dst: NodeId, cost: u64) {
        let Some(queues) = &self.host_queues else { return };
        let Some(number) = queues.place(src, dst) else { return };
        let (now, head) = (self.now, self.head(number));
        let first = self.transport.leaves_first;
        let (Some((_, _, size)), Some(queues)) = (head, &mut self.host_queues) else { return };
        let queue = &mut queues.queues[number];
        if queue.leaks {
            // What has not leaked yet leaks at the new rate.
            let left = u128::from(queue.finish.saturating_sub(now));
            let scaled = left * u128::from(cost) / u128::from(queue.cost.max(1));
            queue.finish = now + u64::try_from(scaled).unwrap_or(u64::MAX >> 1);
        } else {
            let own = if first { 0 } else { link::span(size, cost) };
            queue.finish = queue.finish.max(now) + own;
        }
        (queue.leaks, queue.cost) = (true, cost);
        self.leak(number);
    }

    /// Releases one packet of a pair, over the switch `via`.
    pub(super) fn let_go_over(
        &mut self,
        network: &Network,
        src: NodeId,
        dst: NodeId,
        via: Option<NodeId>,
    ) {
        let Some(queues) = &mut self.host_queues else { return };
        queues.record.granted = true;
        let Some(number) = queues.place(src, dst) else { return };
        let detours = &queues.queues[number].detours;
        let known = via.and_then(|via| detours.iter().find(|(over, _)| *over == via));
        let detour = match (known, via) {
            (Some((_, row)), _) => Some(*row),
            (None, Some(via)) => self.detour(network, number, via),
            (None, None) => None,
        };
        self.let_go(number, detour);
    }

    /// A new row for the path of a pair over a switch; `None` when there is no such path.
    fn detour(&mut self, network: &Network, number: usize, via: NodeId) -> Option<u32> {
        let queue = &self.host_queues.as_ref()?.queues[number];
        let mut links = Vec::new();
        let there = network.path(queue.src, via, 0, &mut links);
        if !(there && network.path(via, queue.dst, 0, &mut links)) {
            return None;
        }
        let path = Wires::elements(&links, |link| self.is_special(link))?;
        let row = u32::try_from(self.wires.detours.len()).ok()?;
        self.wires.detours.push(path);
        self.host_queues.as_mut()?.queues[number].detours.push((via, row));
        Some(row)
    }
}
