//! A flow in the network: both ends of its connection, and what the world keeps about it.

use std::collections::VecDeque;

use engine::FlowState;
use model::{FlowId, NodeId};
use units::Bytes;

use crate::frame::{self, Packet};
use crate::meter::Meter;
use crate::switches::Passage;
use crate::tcp::{Receiver, Sender, ictcp};
use crate::{Frame, Protocol, Transport};

/// No timer event is pending.
pub(crate) const NEVER: u64 = u64::MAX;

/// A connection whose SYN-ACK has not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// When the last SYN was sent and when the next is, ns.
    pub(crate) sent: u64,
    pub(crate) due: u64,
    /// How long its first switch held that SYN, ns.
    pub(crate) held: u64,
    /// SYNs sent.
    pub(crate) attempts: u32,
}

/// What a flow has in its host's own queue, where hosts limit that (Linux's TCP small queues): the rest
/// waits at the sender, where a window that is cut still holds it back.
#[derive(Debug)]
pub(crate) struct OwnQueue {
    limit: u64,
    waiting: u64,
    /// When each packet will have left, ns, and its octets.
    packets: VecDeque<(u64, u16)>,
}

impl OwnQueue {
    const fn new(limit: u64) -> Self {
        Self { limit, waiting: 0, packets: VecDeque::new() }
    }

    /// A packet joined the queue.
    pub(crate) fn push(&mut self, leaves: u64, size: u16) {
        self.waiting += u64::from(size);
        self.packets.push_back((leaves, size));
    }

    /// When the next packet may join; `None`: now.
    pub(crate) fn ready(&mut self, now: u64) -> Option<u64> {
        while let Some((_, size)) = self.packets.pop_front_if(|(leaves, _)| *leaves <= now) {
            self.waiting -= u64::from(size);
        }
        let mut waiting = self.waiting;
        let mut packets = self.packets.iter();
        let mut ready = None;
        while waiting >= self.limit {
            let (leaves, size) = packets.next()?;
            waiting -= u64::from(*size);
            ready = Some(*leaves);
        }
        ready
    }
}

pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// Cost of an octet at the flow's pace; zero when it isn't paced.
    pub(crate) pace: u64,
    /// When the pace lets the next packet go, ns.
    pub(crate) pace_at: u64,
    /// When the sender's and the receiver's timer events are due.
    pub(crate) timers: [u64; 2],
    /// Payload to move; of an open connection, what was written so far.
    pub(crate) size: u64,
    /// Whether more may be written.
    pub(crate) open: bool,
    /// The application's mark.
    pub(crate) mark: u64,
    /// The least delivery to act on: the mark or the end.
    pub(crate) watched: u64,
    /// Whether its packets are datagrams, and whether these go at once, past the sender.
    pub(crate) datagrams: bool,
    pub(crate) at_once: bool,
    /// Payload of datagrams that arrived and that were lost.
    pub(crate) received: u64,
    pub(crate) lost: u64,
    /// Packets in the network.
    pub(crate) in_flight: u32,
    pub(crate) id: FlowId,
    pub(crate) source: NodeId,
    pub(crate) destination: NodeId,
    pub(crate) ended: bool,
    pub(crate) priority: u8,
    pub(crate) meter: Option<Box<Meter>>,
    /// Of a flow in a host queue: its queue, and packets released.
    pub(crate) queue: usize,
    pub(crate) released: u32,
    /// Its SYN-ACK has not come.
    pub(crate) opening: Option<Opening>,
    /// Where its last data carries a FIN, octets; nowhere without a handshake.
    pub(crate) fin_at: u64,
    /// What its receiver grants, under ICTCP.
    pub(crate) grant: Option<Box<ictcp::Grant>>,
    /// Its packets in its host's own queue, if these are limited.
    pub(crate) own: Option<Box<OwnQueue>>,
    /// What switches know of it, if they do more than forward.
    pub(crate) passage: Option<Box<Passage>>,
}

impl Flow {
    /// A flow of `size` octets that has sent nothing; `handshake` as for [`Sender::new`].
    pub(crate) fn new(
        id: FlowId,
        source: NodeId,
        destination: NodeId,
        size: u64,
        handshake: u64,
        transport: &Transport,
    ) -> Self {
        Self {
            sender: Sender::new(transport, size, handshake),
            receiver: Receiver::new(transport),
            pace: 0,
            pace_at: 0,
            timers: [NEVER; 2],
            size,
            open: false,
            mark: u64::MAX,
            watched: size,
            datagrams: transport.protocol == Protocol::Datagram,
            at_once: false,
            received: 0,
            lost: 0,
            in_flight: 0,
            id,
            source,
            destination,
            ended: false,
            priority: 0,
            meter: None,
            queue: 0,
            released: 0,
            opening: None,
            fin_at: if transport.connects() { size } else { u64::MAX },
            grant: None,
            own: transport.small_queue.map(|limit| Box::new(OwnQueue::new(limit.get()))),
            passage: None,
        }
    }

    /// Updates `watched` after a change of size or mark.
    pub(crate) fn watch(&mut self) {
        self.watched = if self.open { self.mark } else { self.mark.min(self.size) };
    }

    /// Who sent the packet and whom it is for.
    pub(crate) const fn ends(&self, packet: &Packet) -> (NodeId, NodeId) {
        if packet.flags & frame::ACK == 0 {
            (self.source, self.destination)
        } else {
            (self.destination, self.source)
        }
    }

    /// The packet as a capture shows it.
    pub(crate) fn frame(&self, packet: &Packet, transport: &Transport) -> Frame {
        let is_ack = packet.flags & frame::ACK != 0;
        let (src, dst) = self.ends(packet);
        Frame {
            src,
            dst,
            flow: self.id,
            from_sender: !is_ack,
            datagram: packet.flags & frame::DATAGRAM != 0,
            header: transport.header,
            payload: u32::from(packet.size - transport.header),
            seq: if is_ack { 0 } else { packet.seq },
            ack: if is_ack { packet.seq } else { 0 },
            // The block of data is its tag, if it has one.
            sack: (is_ack && packet.block.0 != packet.block.1).then_some(packet.block),
            window: if is_ack {
                u32::from(packet.window) << transport.window_scale()
            } else {
                u32::try_from(transport.receive_window.get()).unwrap_or(u32::MAX)
            },
            ece: packet.flags & frame::ECE != 0,
            ect: packet.flags & frame::ECT != 0,
            ce: packet.flags & frame::CE != 0,
        }
    }

    /// Payload that reached the receiving application.
    pub(crate) const fn delivered(&self) -> u64 {
        if self.datagrams { self.received } else { self.receiver.delivered() }
    }

    pub(crate) fn state(&self) -> FlowState {
        FlowState {
            sent: Bytes::new(if self.at_once { self.size } else { self.sender.sent() }),
            delivered: Bytes::new(self.delivered()),
            unread: Bytes::new(self.receiver.unread()),
            retransmissions: self.sender.retransmissions,
            timeouts: self.sender.timeouts,
        }
    }
}
