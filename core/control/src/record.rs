//! Every input of a controller as a record, so that what happened can happen again.
//!
//! A record is its length (4 bytes), a byte that says what it is, a time where it has one (8 bytes),
//! and its content. Numbers are little-endian; texts and lists open with their length (4 bytes). The
//! first record of a file says which version of this form follows. Half a record at the end is an
//! end: the machine that wrote it stopped there.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

use protocol::Connection;
use protocol::agent::{ConnectionReport, Host, Level, Report};
use protocol::application::{Declaration, Portion, StreamReport};
use units::{Bytes, Span, Time};

use crate::message::{ChannelId, Input};

/// The version of the form.
pub const VERSION: u16 = 1;

/// The longest record that is read.
const LONGEST: usize = 64 << 20;

/// What a controller was made from and what it was told.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A controller began.
    Started {
        /// When.
        at: Time,
        /// Its epoch.
        epoch: u64,
        /// What its configuration is made from; the owner's own form.
        config: Vec<u8>,
    },
    /// The owner changed its configuration; in the form of `Started`.
    Changed {
        /// When.
        at: Time,
        /// What its configuration is made from now.
        config: Vec<u8>,
    },
    /// An input.
    Heard {
        /// When.
        at: Time,
        /// What.
        heard: Heard,
    },
    /// The digest of all outputs so far: see [`Digest`](crate::Digest).
    Digest(u64),
}

/// An input that owns what it holds.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the variants are those of `Input`
pub enum Heard {
    SwitchConnected(ChannelId),
    SwitchBytes(ChannelId, Vec<u8>),
    SwitchGone(ChannelId),
    Declared { application: String, declaration: Declaration },
    ApplicationGone(String),
    AgentConnected { channel: ChannelId, identity: String },
    Reported(ChannelId, Report),
    AgentGone(ChannelId),
    Tick,
}

impl Heard {
    /// The input.
    pub fn as_input(&self) -> Input<'_> {
        match self {
            Self::SwitchConnected(channel) => Input::SwitchConnected(*channel),
            Self::SwitchBytes(channel, bytes) => Input::SwitchBytes(*channel, bytes),
            Self::SwitchGone(channel) => Input::SwitchGone(*channel),
            Self::Declared { application, declaration } => {
                Input::Declared { application, declaration }
            }
            Self::ApplicationGone(application) => Input::ApplicationGone(application),
            Self::AgentConnected { channel, identity } => {
                Input::AgentConnected { channel: *channel, identity }
            }
            Self::Reported(channel, report) => Input::Reported(*channel, report),
            Self::AgentGone(channel) => Input::AgentGone(*channel),
            Self::Tick => Input::Tick,
        }
    }
}

/// A record that can't be read: where it begins, in bytes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Where the record begins.
    pub offset: u64,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record at byte {} {}", self.offset, self.reason)
    }
}

impl core::error::Error for RecordError {}

/// Appends the record of a controller's beginning. The first of a file.
pub fn write_started(at: Time, epoch: u64, config: &[u8], out: &mut Vec<u8>) {
    record(0, out, |out| {
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.put(&at);
        out.put(&epoch);
        out.extend_from_slice(config);
    });
}

/// Appends the record of a change of configuration.
pub fn write_changed(at: Time, config: &[u8], out: &mut Vec<u8>) {
    record(1, out, |out| {
        out.put(&at);
        out.extend_from_slice(config);
    });
}

/// Appends the digest of all outputs so far.
pub fn write_digest(digest: u64, out: &mut Vec<u8>) {
    record(2, out, |out| out.put(&digest));
}

/// Appends an input.
pub fn write_input(at: Time, input: &Input<'_>, out: &mut Vec<u8>) {
    let kind = match input {
        Input::SwitchConnected(_) => 16,
        Input::SwitchBytes(..) => 17,
        Input::SwitchGone(_) => 18,
        Input::Declared { .. } => 19,
        Input::ApplicationGone(_) => 20,
        Input::AgentConnected { .. } => 21,
        Input::Reported(..) => 22,
        Input::AgentGone(_) => 23,
        Input::Tick => 24,
    };
    record(kind, out, |out| {
        out.put(&at);
        match input {
            Input::SwitchConnected(channel)
            | Input::SwitchGone(channel)
            | Input::AgentGone(channel) => {
                out.put(&channel.0);
            }
            Input::SwitchBytes(channel, bytes) => {
                out.put(&channel.0);
                out.extend_from_slice(bytes);
            }
            Input::Declared { application, declaration } => {
                out.text(application);
                declaration.write(out);
            }
            Input::ApplicationGone(application) => out.text(application),
            Input::AgentConnected { channel, identity } => {
                out.put(&channel.0);
                out.text(identity);
            }
            Input::Reported(channel, report) => {
                out.put(&channel.0);
                report.write(out);
            }
            Input::Tick => {}
        }
    });
}

fn record(kind: u8, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind]);
    content(out);
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Reads records one after another.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    failed: bool,
}

impl<'a> Records<'a> {
    /// The records in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, failed: false }
    }

    /// Bytes after the last whole record.
    pub const fn left(&self) -> usize {
        self.bytes.len() - self.at
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let rest = &self.bytes[self.at..];
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let content = rest.get(..length).filter(|_| (1..=LONGEST).contains(&length));
        let done = match content {
            Some(content) => read(content),
            None if length == 0 => Err("is empty"),
            None if length > LONGEST => Err("is longer than any record"),
            None => return None,
        };
        let offset = self.at as u64;
        self.failed = done.is_err();
        self.at += if self.failed { 0 } else { 4 + length };
        Some(done.map_err(|reason| RecordError { offset, reason }))
    }
}

fn read(content: &[u8]) -> Result<Record, &'static str> {
    let mut from = Reader(content);
    let kind = from.byte().ok_or(CUT)?;
    if kind == 0 && from.u16() != Some(VERSION) {
        return Err("is of another version");
    }
    let record = match kind {
        0 => {
            (|| Some(Record::Started { at: from.time()?, epoch: from.u64()?, config: from.rest() }))(
            )
        }
        1 => (|| Some(Record::Changed { at: from.time()?, config: from.rest() }))(),
        2 => from.u64().map(Record::Digest),
        16..=24 => (|| {
            let at = from.time()?;
            let heard = heard(kind, &mut from)?;
            Some(Record::Heard { at, heard })
        })(),
        _ => return Err("is of an unknown kind"),
    };
    let record = record.ok_or(CUT)?;
    if from.0.is_empty() { Ok(record) } else { Err("is longer than its content") }
}

const CUT: &str = "has a content that can't be";

fn heard(kind: u8, from: &mut Reader<'_>) -> Option<Heard> {
    Some(match kind {
        16 => Heard::SwitchConnected(ChannelId(from.u64()?)),
        17 => Heard::SwitchBytes(ChannelId(from.u64()?), from.rest()),
        18 => Heard::SwitchGone(ChannelId(from.u64()?)),
        19 => Heard::Declared { application: from.text()?, declaration: Declaration::read(from)? },
        20 => Heard::ApplicationGone(from.text()?),
        21 => Heard::AgentConnected { channel: ChannelId(from.u64()?), identity: from.text()? },
        22 => Heard::Reported(ChannelId(from.u64()?), Report::read(from)?),
        23 => Heard::AgentGone(ChannelId(from.u64()?)),
        _ => Heard::Tick,
    })
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Time> {
        self.u64().map(Time::from_nanos)
    }

    fn rest(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.0).to_vec()
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        core::str::from_utf8(head).ok().map(String::from)
    }

    /// A list; each entry takes a byte at least, so that no length makes more than there is.
    fn list<T: Coded>(&mut self) -> Option<Vec<T>> {
        let length = usize::try_from(self.u32()?).ok()?;
        if length > self.0.len() {
            return None;
        }
        (0..length).map(|_| T::read(self)).collect()
    }
}

/// What goes into a record.
trait Put {
    fn put<T: Coded>(&mut self, value: &T);
    fn text(&mut self, text: &str);
    fn list<T: Coded>(&mut self, list: &[T]);
}

impl Put for Vec<u8> {
    fn put<T: Coded>(&mut self, value: &T) {
        value.write(self);
    }

    fn text(&mut self, text: &str) {
        u32::try_from(text.len()).unwrap_or(u32::MAX).write(self);
        self.extend_from_slice(text.as_bytes());
    }

    fn list<T: Coded>(&mut self, list: &[T]) {
        u32::try_from(list.len()).unwrap_or(u32::MAX).write(self);
        list.iter().for_each(|value| value.write(self));
    }
}

trait Coded: Sized {
    fn write(&self, out: &mut Vec<u8>);
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}

macro_rules! number {
    ($($kind:ty, $read:ident, $from:expr, $to:expr;)*) => {
        $(impl Coded for $kind {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&$to(*self).to_le_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                from.$read().map($from)
            }
        })*
    };
}

number! {
    u32, u32, |n| n, |n| n;
    u64, u64, |n| n, |n| n;
    Time, u64, Time::from_nanos, Time::as_nanos;
    Span, u64, Span::from_nanos, Span::as_nanos;
    Bytes, u64, Bytes::new, Bytes::get;
}

/// Structures that are their fields one after another.
macro_rules! fields {
    ($($kind:ident { $($field:ident),* })*) => {
        $(impl Coded for $kind {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)*
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                Some(Self { $($field: Coded::read(from)?),* })
            }
        })*
    };
}

fields! {
    Connection { source, destination }
    Portion { task, bytes }
    StreamReport { flow, delivered_bytes, sender_queue_bytes, receiver_queue_bytes }
    ConnectionReport {
        connection, delivered_bytes, unsent_bytes, in_flight_bytes, rtt_ns, retransmissions
    }
    Host { name, addresses }
}

/// Messages of several kinds: a byte that says which, and their fields.
macro_rules! tagged {
    ($($kind:ident { $($tag:literal => $variant:ident { $($field:ident),* })* })*) => {
        $(impl Coded for $kind {
            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant { $($field),* } => {
                        out.push($tag);
                        $($field.write(out);)*
                    })*
                }
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                Some(match from.byte()? {
                    $($tag => Self::$variant { $($field: Coded::read(from)?),* },)*
                    _ => return None,
                })
            }
        })*
    };
}

tagged! {
    Declaration {
        0 => JobStart { job }
        1 => JobComplete { job }
        2 => TaskHost { job, task, host }
        3 => Size { job, map, reduces }
        4 => FlowRequest { job, flow, connection, bytes }
        5 => FlowComplete { job, flow }
        6 => Streams { job, samples }
    }
    Report {
        0 => Hello { hosts, capabilities, epoch }
        1 => Connections { connections }
        2 => Opened { connection }
        3 => Closed { connection }
        4 => Congested { node, interface, level, queue_bytes }
        5 => Applied { epoch, sequence }
        6 => Stale { epoch, obeys }
    }
    Level {
        0 => Recovered {}
        1 => Low {}
        2 => Medium {}
        3 => High {}
    }
}

impl Coded for String {
    fn write(&self, out: &mut Vec<u8>) {
        out.text(self);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        from.text()
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        out.list(self);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        from.list()
    }
}

impl<T: Coded> Coded for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.byte()? {
            0 => Some(None),
            1 => T::read(from).map(Some),
            _ => None,
        }
    }
}

impl Coded for IpAddr {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::V4(address) => {
                out.push(4);
                out.extend_from_slice(&address.octets());
            }
            Self::V6(address) => {
                out.push(6);
                out.extend_from_slice(&address.octets());
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.byte()? {
            4 => from.array::<4>().map(Self::from),
            6 => from.array::<16>().map(Self::from),
            _ => None,
        }
    }
}

/// An address and a port. What else an IPv6 socket address has (flow label, scope) plays no part.
impl Coded for SocketAddr {
    fn write(&self, out: &mut Vec<u8>) {
        self.ip().write(out);
        out.extend_from_slice(&self.port().to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self::new(IpAddr::read(from)?, from.u16()?))
    }
}
