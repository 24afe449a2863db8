//! Packet captures of a simulated port as pcapng, for Wireshark, tshark and whatever else reads it.
//!
//! Packets are raw IPv4 with nanosecond timestamps that count from the start of the run. Payload
//! isn't stored: a packet's original length is right, its captured length ends with the headers.
//! Fields that the simulator lacks follow fixed rules:
//!
//! * node n has the address 10.0.0.1 + n;
//! * flow f has the port 49152 + f mod 2¹⁴ at its sender and 5001 + f / 2¹⁴ at its receiver;
//! * simulated headers longer than 40 octets show as TCP options (no-operation);
//! * a SACK block shows as the option of RFC 2018, although the simulator doesn't count its 12
//!   octets: a packet whose simulated headers leave no room for it is longer here than there;
//! * the window has no scale, since no SYN is there to set one: it stops at 65535;
//! * payload counts as zeros in checksums.

mod pcapng;
mod taps;

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use etherparse::{IpEcn, IpNumber, Ipv4Header, TcpHeader, UdpHeader};
use model::{FlowId, NodeId};
use units::{Rate, Time};

pub use taps::Capture;
pub(crate) use taps::Taps;

/// IP and TCP header without options, octets.
const BARE_TCP: usize = Ipv4Header::MIN_LEN + TcpHeader::MIN_LEN;
/// IP and UDP header, octets.
const BARE_UDP: usize = Ipv4Header::MIN_LEN + UdpHeader::LEN;
/// Longest TCP options, octets.
const MOST_OPTIONS: usize = TcpHeader::MAX_LEN - TcpHeader::MIN_LEN;
/// Longest headers, octets.
const SNAP: u32 = 80;
/// Stands in for the payload when a checksum is computed; as long as an IPv4 packet can be.
static ZEROS: [u8; 65_535] = [0; 65_535];

/// A packet as a simulated link carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Host that sent this packet: the flow's receiver when it is an acknowledgement.
    pub src: NodeId,
    /// Host that it is for.
    pub dst: NodeId,
    /// Its flow.
    pub flow: FlowId,
    /// In the direction of the data; false for acknowledgements.
    pub from_sender: bool,
    /// Unreliable: captured as UDP, and `seq`, `ack`, `sack`, `window` and `ece` say nothing.
    pub datagram: bool,
    /// IP and transport header as simulated, octets.
    pub header: u16,
    /// Payload, octets.
    pub payload: u32,
    /// First octet of the payload in the stream.
    pub seq: u32,
    /// Next octet expected from the other side.
    pub ack: u32,
    /// A block received out of order: its first octet and the one after its last.
    pub sack: Option<(u32, u32)>,
    /// Window advertised, octets.
    pub window: u32,
    /// ECN-Echo.
    pub ece: bool,
    /// ECN-capable transport.
    pub ect: bool,
    /// Congestion experienced.
    pub ce: bool,
}

/// A capture in the making. Its file is called `….part` until [`CaptureFile::finish`]; dropped
/// before that, it leaves nothing behind.
#[derive(Debug)]
pub struct CaptureFile {
    out: pcapng::Writer<BufWriter<File>>,
    part: Part,
    path: PathBuf,
    /// Buffer for the headers of the current packet.
    headers: Vec<u8>,
}

/// The unfinished file, removed when it goes out of scope.
#[derive(Debug)]
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // After the rename there is nothing to remove; before it, an error can't be reported.
        let _ = fs::remove_file(&self.0);
    }
}

impl CaptureFile {
    /// Starts the capture of a port called `interface` with the speed `capacity`. A file that is
    /// already at `path` stays until this one is finished.
    ///
    /// # Errors
    /// The file can't be created or written, or the port's name is longer than 65535 octets.
    pub fn create(path: &Path, interface: &str, capacity: Rate) -> io::Result<Self> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let file = File::create(&part)?;
        let part = Part(part.into());
        Ok(Self {
            out: pcapng::Writer::new(BufWriter::new(file), interface, capacity, SNAP)?,
            part,
            path: path.to_owned(),
            headers: Vec::with_capacity(SNAP as usize),
        })
    }

    /// Adds `frame`, which went over the port at `at`.
    ///
    /// # Errors
    /// The file can't be written, or the packet is larger than IPv4 allows (65535 octets).
    pub fn packet(&mut self, at: Time, frame: &Frame) -> io::Result<()> {
        self.headers.clear();
        let length = write_headers(frame, &mut self.headers)?;
        self.out.packet(at, length.into(), &self.headers)
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// The file can't be written or renamed; nothing new is left then.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        fs::rename(&self.part.0, &self.path)
    }
}

/// Writes the IP and TCP or UDP header of `frame`; returns the length of the whole packet.
fn write_headers(frame: &Frame, out: &mut Vec<u8>) -> io::Result<u16> {
    let (sender, receiver) = ports(frame.flow);
    let (from, to) = if frame.from_sender { (sender, receiver) } else { (receiver, sender) };
    let mut ip = Ipv4Header {
        ecn: match (frame.ce, frame.ect) {
            (true, _) => IpEcn::CongestionExperienced,
            (false, true) => IpEcn::Ect0,
            (false, false) => IpEcn::NotEct,
        },
        dont_fragment: true,
        time_to_live: 64,
        source: address(frame.src),
        destination: address(frame.dst),
        ..Ipv4Header::default()
    };
    if frame.datagram {
        // Simulated headers may be longer than those of UDP: the rest counts as payload.
        let surplus = usize::from(frame.header).saturating_sub(BARE_UDP);
        let payload = zeros(frame.payload, surplus)?;
        ip.protocol = IpNumber::UDP;
        ip.set_payload_len(UdpHeader::LEN + payload.len()).map_err(invalid)?;
        let udp = UdpHeader::with_ipv4_checksum(from, to, &ip, payload).map_err(invalid)?;
        ip.write(out)?;
        udp.write(out)?;
    } else {
        let payload = zeros(frame.payload, 0)?;
        let mut tcp = TcpHeader {
            source_port: from,
            destination_port: to,
            sequence_number: frame.seq,
            acknowledgment_number: frame.ack,
            ack: true,
            ece: frame.ece,
            window_size: u16::try_from(frame.window).unwrap_or(u16::MAX),
            ..TcpHeader::default()
        };
        let (options, length) = options(frame);
        tcp.set_options_raw(&options[..length]).map_err(invalid)?;
        ip.protocol = IpNumber::TCP;
        ip.set_payload_len(tcp.header_len() + payload.len()).map_err(invalid)?;
        tcp.checksum = tcp.calc_checksum_ipv4(&ip, payload).map_err(invalid)?;
        ip.write(out)?;
        tcp.write(out)?;
    }
    Ok(ip.total_len)
}

/// The TCP options of `frame` and how many octets of them count.
fn options(frame: &Frame) -> ([u8; MOST_OPTIONS], usize) {
    const NO_OPERATION: u8 = 1;
    const SACK: u8 = 5;
    let mut options = [NO_OPERATION; MOST_OPTIONS];
    let simulated = usize::from(frame.header).clamp(BARE_TCP, BARE_TCP + MOST_OPTIONS) - BARE_TCP;
    let mut length = simulated.next_multiple_of(4);
    if let Some((first, end)) = frame.sack {
        // Two no-operations align the block (RFC 2018, section 3).
        options[2..4].copy_from_slice(&[SACK, 10]);
        options[4..8].copy_from_slice(&first.to_be_bytes());
        options[8..12].copy_from_slice(&end.to_be_bytes());
        length = length.max(12);
    }
    (options, length)
}

fn zeros(payload: u32, surplus: usize) -> io::Result<&'static [u8]> {
    (payload as usize)
        .checked_add(surplus)
        .and_then(|length| ZEROS.get(..length))
        .ok_or_else(|| invalid(format!("a payload of {payload} octets exceeds an IPv4 packet")))
}

fn invalid(error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

fn address(node: NodeId) -> [u8; 4] {
    const NETWORK: u32 = 10 << 24;
    (NETWORK | (node.0.wrapping_add(1) & 0x00ff_ffff)).to_be_bytes()
}

/// The port at the sender and the port at the receiver; different for the first 990 million flows.
fn ports(flow: FlowId) -> (u16, u16) {
    const EPHEMERAL: u16 = 49_152; // RFC 6335, section 6
    const SERVICE: u16 = 5_001;
    let sender = EPHEMERAL + (flow.0 % (1 << 14)) as u16;
    let receiver = SERVICE + ((flow.0 >> 14) % 60_535) as u16;
    (sender, receiver)
}
