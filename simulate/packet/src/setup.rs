//! What a packet run is made of.

use std::path::PathBuf;

use model::{Job, LinkId, Network};
use policy::Policy;
use units::{Bytes, Span, Time};

/// One run: a network, what moves over it, and who decides.
pub struct Setup<'a> {
    /// The network; flows take its ECMP paths, keyed by flow number.
    pub network: Network,
    /// What every flow speaks.
    pub transport: Transport,
    /// Jobs in order of arrival.
    pub jobs: Box<dyn Iterator<Item = Job> + 'a>,
    /// The policy; `None` decides nothing.
    pub policy: Option<Box<dyn Policy + 'a>>,
    /// How its directives are carried out.
    pub enforcement: Enforcement,
    /// One-way delay between an application, or an actuator, and the controller.
    pub control_delay: Span,
    /// The run ends here at the latest; [`Time::NEVER`] runs until every flow has ended.
    pub until: Time,
    /// Ports to capture as pcapng.
    pub captures: Vec<Capture>,
}

/// A port to capture: every packet as it leaves the queue onto the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The directed link.
    pub link: LinkId,
    /// The file to write.
    pub path: PathBuf,
}

/// How a limit on a flow is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// The sender spaces its packets.
    Pacing,
    /// The first switch drops what exceeds a token bucket, as an OpenFlow meter does.
    Meter {
        /// Depth of the bucket.
        burst: Bytes,
    },
}

/// The congestion control of a TCP flow, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 5681 with RFC 6582.
    NewReno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
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
    /// Window that the receiver advertises.
    pub receive_window: Bytes,
    /// Selective acknowledgements (RFC 2018, recovery by RFC 6675).
    pub sack: bool,
}

impl Default for Transport {
    /// NewReno as a Linux host of today would run it, without delayed acknowledgements.
    fn default() -> Self {
        Self {
            protocol: Protocol::NewReno,
            mss: 1460,
            header: 40,
            initial_window: 10,
            min_rto: Span::from_millis(200),
            delayed_ack: None,
            receive_window: Bytes::new(4 << 20),
            sack: true,
        }
    }
}
