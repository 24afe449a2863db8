//! The transport of flows and its parameters.

use policy::Acknowledgements;
use units::{Bytes, Span};

use crate::Lengths;

/// Least window of ICTCP, segments, and its first one.
pub(crate) const ICTCP_LEAST: u64 = 2;

/// The congestion control of a TCP flow, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 5681 with RFC 6582.
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
    /// No congestion window: sends what the advertised window grants, as SAB's senders do.
    Granted,
    /// pFabric's (SIGCOMM 2013, section 4.2): the first window is all of C*RTT, `min_rto` is the timeout,
    /// whatever round trips are, and nothing else tells of losses. The policy `pfabric` has hosts speak it.
    LineRate {
        /// Timeouts in a row after which single octets probe the path.
        timeouts: u32,
    },
    /// Homa's: it sends what its receiver grants, packets of other priorities overtake each other, and a
    /// timeout alone tells of losses. The policy `homa` has hosts speak it.
    Messages,
    /// Unreliable packets, all at once or at the limit set on the flow.
    Datagram,
}

/// A transport with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Which one.
    pub protocol: Protocol,
    /// Payload of a full packet (maximum segment size), octets.
    pub mss: u16,
    /// IP and TCP header, octets; an acknowledgement is a packet of just that.
    pub header: u16,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Lower bound of the retransmission timeout (RFC 6298: 1 s; Linux: 200 ms).
    pub min_rto: Span,
    /// Longest time an acknowledgement waits for a second segment; `None` acknowledges each.
    pub delayed_ack: Option<Span>,
    /// Room of the receive buffer, and the most that the receiver advertises.
    pub receive_window: Bytes,
    /// Most octets that a flow has in its host's own queue before its next packet waits at the sender
    /// (Linux's TCP small queues); `None`: the queue's room alone limits it.
    pub small_queue: Option<Bytes>,
    /// Selective acknowledgements (RFC 2018, recovery by RFC 6675).
    pub sack: bool,
    /// A new segment for each of the first two duplicate acknowledgements (RFC 3042).
    pub limited_transmit: bool,
    /// Losses are found by time (RACK, RFC 8985). Needs SACK.
    pub rack: bool,
    /// The end of a burst is probed before the timer runs out (RFC 8985, section 7). Needs RACK.
    pub tail_loss_probe: bool,
    /// A recovery sends in proportion to what arrives (RFC 9937). Needs RACK.
    pub prr: bool,
    /// New data tells whether a timeout was spurious (F-RTO, RFC 5682). Needs RACK.
    pub frto: bool,
    /// Granularity of the recovery timers; zero is exact. Needs RACK.
    pub tick: Span,
    /// Of datagrams: whether packets wait at their host, in a queue for each destination, until
    /// directives release them.
    pub held: bool,
    /// Of datagrams in host queues that leak at a rate: whether each leaves when all before it have
    /// leaked, and the next waits; otherwise when it has leaked itself.
    pub leaves_first: bool,
    /// Of datagrams in host queues: packet lengths.
    pub lengths: Lengths,
    /// Whether connections open by SYN and SYN-ACK and close by FIN. Otherwise they exist when
    /// their flow starts.
    pub handshake: bool,
    /// Whether receivers limit windows to what their link has left (ICTCP).
    pub ictcp: bool,
}

impl Transport {
    /// Whether flows open and close connections.
    pub(crate) fn connects(&self) -> bool {
        self.handshake && self.protocol != Protocol::Datagram
    }

    /// What its receivers send back for full segments.
    pub fn acknowledgements(&self) -> Acknowledgements {
        if self.protocol == Protocol::Datagram {
            return Acknowledgements::NONE;
        }
        let (header, mss) = (u32::from(self.header), u32::from(self.mss));
        let segments = if self.delayed_ack.is_some() { 2 } else { 1 };
        Acknowledgements::new(header, segments * (mss + header))
    }

    /// Most octets that a receiver advertises at first.
    pub(crate) fn first_window(&self) -> u64 {
        let room = self.receive_window.get();
        if self.ictcp { room.min(ICTCP_LEAST * u64::from(self.mss)) } else { room }
    }

    /// Shift of the window field: the least that can say the whole receive window (RFC 7323).
    pub fn window_scale(&self) -> u8 {
        const MOST: u8 = 14;
        let window = self.receive_window.get();
        (0..MOST).find(|scale| window >> scale <= u64::from(u16::MAX)).unwrap_or(MOST)
    }

    /// Checks that the parameters can work.
    ///
    /// # Errors
    /// A text that names the parameter, its value and the range.
    pub fn check(&self) -> Result<(), String> {
        let Self { mss, header, initial_window, .. } = *self;
        if mss == 0 || u32::from(mss) + u32::from(header) > u32::from(u16::MAX) {
            return Err(format!("mss {mss} plus header {header} must be from 1 to 65535 octets"));
        }
        if header == 0 {
            return Err("header 0: an acknowledgement is a header, give it at least 1 octet".into());
        }
        if initial_window == 0 || initial_window > 1 << 20 {
            return Err(format!("initial_window {initial_window} must be from 1 to 2^20 segments"));
        }
        if self.held && self.protocol != Protocol::Datagram {
            return Err("held packets are datagrams: give the protocol datagram".into());
        }
        if self.lengths != Lengths::Full && (!self.held || header >= Lengths::SHORTEST) {
            let shortest = Lengths::SHORTEST;
            return Err(format!(
                "packets of several lengths must be held, and have a header below {shortest} octets"
            ));
        }
        if self.rack && !self.sack {
            return Err("rack needs to be told what arrived: give sack".into());
        }
        let parts = [
            ("tail_loss_probe", self.tail_loss_probe),
            ("prr", self.prr),
            ("frto", self.frto),
            ("tick", self.tick != Span::ZERO),
        ];
        if let Some((name, _)) = parts.iter().find(|(_, set)| *set && !self.rack) {
            return Err(format!("{name} is a part of recovery by time: give rack"));
        }
        if self.min_rto == Span::ZERO {
            return Err("min_rto must be above zero".into());
        }
        if self.receive_window.get() > 1 << 30 {
            let window = self.receive_window;
            return Err(format!("receive_window {window} must be at most 1 GiB (RFC 7323)"));
        }
        Ok(())
    }
}

impl Default for Transport {
    /// NewReno with the defaults of a Linux host, without delayed acknowledgements.
    fn default() -> Self {
        Self {
            protocol: Protocol::NewReno,
            mss: 1460,
            header: 40,
            initial_window: 10,
            min_rto: Span::from_millis(200),
            delayed_ack: None,
            receive_window: Bytes::new(4 << 20),
            small_queue: None,
            sack: true,
            limited_transmit: true,
            rack: false,
            tail_loss_probe: false,
            prr: false,
            frto: false,
            tick: Span::ZERO,
            held: false,
            leaves_first: false,
            lengths: Lengths::Full,
            handshake: false,
            ictcp: false,
        }
    }
}
