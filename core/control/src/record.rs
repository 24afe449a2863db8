//! A recording: what a controller was made from and what it was told, so that it can happen again.
//!
//! A recording has one part or several. A part begins with 8 bytes: `WMREC`, two zeros, and the version
//! of this form. Records follow one another. Each is the length of its content (4 bytes), the CRC-32 of
//! that length, the content, and the CRC-32 of the content; so a flipped bit is noticed wherever it is.
//! The content is a byte that says what it is, a time (8 bytes, ns), and what belongs to it. Numbers are
//! little-endian; texts and lists open with their length (4 bytes). A truncated last record ends the
//! recording: the program that wrote it stopped there.
//!
//! The first record of the first part is [`Content::Started`], that of every later one
//! [`Content::Continued`], which binds it to all that stands before.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

use model::{Cap, Caps, PortWatch, Severity, Thresholds};
use protocol::agent::{
    Capability, Command, Commands, ConnectionReport, EndedConnection, Host, PortCount, Report,
};
use protocol::application::{Declaration, Portion, StreamReport};
use protocol::operator::{Act, Order};
use protocol::{Connection, Process, Processes};
use units::{Bytes, Rate, Span, Time};

pub use crate::judged::{Fnv, Judged};
use crate::message::{ChannelId, Closing, Input, Output, OwnedInput};

/// How every part begins; the version of the form is the last byte.
pub const MAGIC: &[u8; 8] = b"WMREC\0\0\x12";

/// The longest content of a record, in bytes.
const LONGEST: usize = 64 << 20;

/// Before the content: its length and the CRC-32 of that. After it: its CRC-32.
const BEFORE: usize = 8;
const AFTER: usize = 4;

/// Something that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When it happened.
    pub at: Time,
    /// What happened.
    pub content: Content,
}

/// What a record tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A controller of this epoch began. The first record of the first part.
    Started(u64, Configuration),
    /// The first record of every later part.
    Continued(Continuation),
    /// The configuration was read again.
    Changed(Configuration),
    /// An input. Each [`Input::Tick`] is the end of a turn: [`Controller::end_turn`](crate::Controller::end_turn).
    Input(OwnedInput),
    /// The digest of all that was recorded and decided so far.
    Digest(Digest),
    /// The controller ended. The last record of the last part.
    Ended,
}

/// What a controller was made from, in its owner's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The version of the program that recorded.
    pub program: String,
    /// What errors call the configuration.
    pub file: String,
    /// The configuration.
    pub settings: String,
}

/// What a later part follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The controller's epoch.
    pub epoch: u64,
    /// The number of the part; the first one has 0.
    pub part: u64,
    /// Over all bytes of all parts before.
    pub before: Fnv,
}

/// What was recorded and what was decided, in the form of this module and in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How many records there were, but digests and beginnings of later parts.
    pub records: u64,
    /// Over them.
    pub recorded: Fnv,
    /// How many outputs there were.
    pub outputs: u64,
    /// Over them.
    pub decided: Fnv,
    /// What stood behind them.
    pub judged: Judged,
}

impl Digest {
    /// Takes in a record, as a function of this module wrote it.
    pub fn add_record(&mut self, written: &[u8]) {
        self.records += 1;
        self.recorded.update(written);
    }

    /// Takes in outputs, in their order, and what was judged up to them.
    pub fn add_outputs(&mut self, outputs: &[Output], judged: Judged) {
        self.judged = judged;
        let mut bytes = Vec::new();
        for output in outputs {
            self.outputs += 1;
            bytes.clear();
            write_output(output, &mut bytes);
            self.decided.update(&bytes);
        }
    }
}

/// An output, ended by nothing that its beginning doesn't tell.
fn write_output(output: &Output, out: &mut Vec<u8>) {
    match output {
        Output::Switch(channel, bytes) => {
            out.push(1);
            out.put(&channel.0);
            out.put(&(bytes.len() as u64));
            out.extend_from_slice(bytes);
        }
        Output::CloseSwitch(channel, why) => {
            out.push(2);
            out.put(&channel.0);
            out.push(closing(why));
        }
        Output::Agent(channel, commands) => {
            out.push(3);
            out.put(&channel.0);
            out.put(commands);
        }
        Output::CloseAgent(channel, why) => {
            out.push(4);
            out.put(&channel.0);
            out.push(closing(why));
        }
    }
}

/// Why, without its words.
const fn closing(why: &Closing) -> u8 {
    match why {
        Closing::Session(_) => 0,
        Closing::Replaced => 1,
        Closing::Outranked => 2,
        Closing::Refused(_) => 3,
        Closing::Left => 4,
    }
}

/// A part that can't be read: where, in bytes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Where the record begins.
    pub offset: u64,
    /// What is wrong with it, as the end of a sentence.
    pub reason: &'static str,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record at byte {} {}", self.offset, self.reason)
    }
}

impl core::error::Error for RecordError {}

/// A record that would be longer than any that is read. Nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a record would be longer than {LONGEST} bytes")
    }
}

impl core::error::Error for TooLong {}

/// Appends the beginning of a recording: that a controller began.
///
/// # Errors
/// The configuration is too long.
pub fn write_started(
    at: Time,
    epoch: u64,
    configuration: &Configuration,
    out: &mut Vec<u8>,
) -> Result<(), TooLong> {
    out.extend_from_slice(MAGIC);
    record(Kind::Started, at, out, |out| {
        out.put(&epoch);
        out.put(configuration);
    })
}

/// Appends the beginning of a later part, whose time is zero.
///
/// # Errors
/// As of every record; this one is never too long.
pub fn write_continued(continuation: &Continuation, out: &mut Vec<u8>) -> Result<(), TooLong> {
    out.extend_from_slice(MAGIC);
    record(Kind::Continued, Time::ZERO, out, |out| out.put(continuation))
}

/// Appends that the configuration was read again.
///
/// # Errors
/// It is too long.
pub fn write_changed(
    at: Time,
    configuration: &Configuration,
    out: &mut Vec<u8>,
) -> Result<(), TooLong> {
    record(Kind::Changed, at, out, |out| out.put(configuration))
}

/// Appends the digest of all that was recorded and decided so far.
///
/// # Errors
/// As of every record; this one is never too long.
pub fn write_digest(at: Time, digest: Digest, out: &mut Vec<u8>) -> Result<(), TooLong> {
    record(Kind::Digest, at, out, |out| out.put(&digest))
}

/// Appends the end.
///
/// # Errors
/// As of every record; this one is never too long.
pub fn write_ended(at: Time, out: &mut Vec<u8>) -> Result<(), TooLong> {
    record(Kind::Ended, at, out, |_| {})
}

/// Appends an input.
///
/// # Errors
/// It is too long.
pub fn write_input(at: Time, input: &Input<'_>, out: &mut Vec<u8>) -> Result<(), TooLong> {
    let kind = match input {
        Input::SwitchConnected { .. } => Kind::SwitchConnected,
        Input::SwitchBytes(..) => Kind::SwitchBytes,
        Input::SwitchGone(_) => Kind::SwitchGone,
        Input::Declared { .. } => Kind::Declared,
        Input::ApplicationGone(_) => Kind::ApplicationGone,
        Input::AgentConnected { .. } => Kind::AgentConnected,
        Input::Reported(..) => Kind::Reported,
        Input::AgentGone(_) => Kind::AgentGone,
        Input::Tick => Kind::Tick,
        Input::Unreadable(_) => Kind::Unreadable,
        Input::ApplicationHere(_) => Kind::ApplicationHere,
        Input::Ordered { .. } => Kind::Ordered,
    };
    record(kind, at, out, |out| match input {
        Input::SwitchConnected { channel, identity } => {
            out.put(&channel.0);
            out.put(&identity.map(String::from));
        }
        Input::SwitchGone(channel) | Input::AgentGone(channel) => {
            out.put(&channel.0);
        }
        Input::SwitchBytes(channel, bytes) => {
            out.put(&channel.0);
            out.extend_from_slice(bytes);
        }
        Input::Declared { application, declaration } => {
            out.text(application);
            out.put(*declaration);
        }
        Input::Unreadable(application)
        | Input::ApplicationHere(application)
        | Input::ApplicationGone(application) => {
            out.text(application);
        }
        Input::AgentConnected { channel, identity } => {
            out.put(&channel.0);
            out.text(identity);
        }
        Input::Reported(channel, report) => {
            out.put(&channel.0);
            out.put(*report);
        }
        Input::Ordered { act, again } => {
            out.put(*act);
            out.put(again);
        }
        Input::Tick => {}
    })
}

/// What records are, and the byte that says so.
macro_rules! kinds {
    ($($kind:ident = $byte:literal,)*) => {
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum Kind {
            $($kind = $byte,)*
        }

        impl Kind {
            const fn read(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    Started = 0,
    Changed = 1,
    Digest = 2,
    Continued = 3,
    Ended = 4,
    SwitchConnected = 16,
    SwitchBytes = 17,
    SwitchGone = 18,
    Declared = 19,
    ApplicationGone = 20,
    AgentConnected = 21,
    Reported = 22,
    AgentGone = 23,
    Tick = 24,
    Unreadable = 25,
    ApplicationHere = 26,
    Ordered = 27,
}

fn record(
    kind: Kind,
    at: Time,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>),
) -> Result<(), TooLong> {
    let start = out.len();
    out.extend_from_slice(&[0; BEFORE]);
    out.push(kind as u8);
    out.put(&at);
    content(out);
    let length = out.len() - start - BEFORE;
    let Some(written) = u32::try_from(length).ok().filter(|_| length <= LONGEST) else {
        out.truncate(start);
        return Err(TooLong);
    };
    let written = written.to_le_bytes();
    out[start..start + 4].copy_from_slice(&written);
    out[start + 4..start + BEFORE].copy_from_slice(&crc32(&written).to_le_bytes());
    out.put(&crc32(&out[start + BEFORE..]));
    Ok(())
}

/// The CRC-32 of IEEE 802.3 (section 3.2.9), as in Ethernet, gzip and PNG.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0_u32;
        while byte < 256 {
            let mut sum = byte;
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
                bit += 1;
            }
            table[byte as usize] = sum;
            byte += 1;
        }
        table
    };
    let add = |sum: u32, byte: &u8| sum >> 8 ^ TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)];
    !bytes.iter().fold(!0, add)
}

/// Reads a part as its bytes come, one record after another. It ends, for now, where the bytes end that
/// it was given, and for good with an error. It never holds more than a record and what was given last.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// What was given and isn't read yet, from `at` on.
    bytes: Vec<u8>,
    at: usize,
    /// Where `at` is in the part.
    offset: u64,
    has_failed: bool,
}

impl Records {
    /// Takes in more of the part.
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.has_failed {
            self.bytes.drain(..self.at);
            self.at = 0;
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Whether bytes are left after the last whole record.
    pub const fn is_truncated(&self) -> bool {
        self.at < self.bytes.len()
    }

    /// The next record and its length, or the beginning of the part and its length.
    fn read(&self) -> Option<(Result<Option<Record>, &'static str>, usize)> {
        let rest = &self.bytes[self.at..];
        if self.offset > 0 {
            return next(rest).map(|(read, used)| (read.map(Some), used));
        }
        let begin = rest.get(..MAGIC.len())?;
        let (name, version) = MAGIC.split_at(MAGIC.len() - 1);
        let read = match begin.strip_prefix(name) {
            None => Err("is none: this is no recording"),
            Some(found) if found != version => Err(OTHER_FORM),
            Some(_) => Ok(None),
        };
        Some((read, MAGIC.len()))
    }
}

const OTHER_FORM: &str =
    "is of another version of the form; replay it with the program that recorded it";

impl Iterator for Records {
    type Item = Result<Record, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_failed {
            let (read, used) = self.read()?;
            match read {
                Ok(read) => {
                    self.at += used;
                    self.offset += used as u64;
                    if let Some(record) = read {
                        return Some(Ok(record));
                    }
                }
                Err(reason) => {
                    self.has_failed = true;
                    return Some(Err(RecordError { offset: self.offset, reason }));
                }
            }
        }
        None
    }
}

/// The record that `rest` begins with, and its length with all; `None` where it is truncated.
#[allow(unexpected_cfgs)] // `cargo fuzz` sets `fuzzing`
fn next(rest: &[u8]) -> Option<(Result<Record, &'static str>, usize)> {
    let (head, rest) = rest.split_first_chunk::<BEFORE>()?;
    let [l0, l1, l2, l3, sum @ ..] = *head;
    let length = [l0, l1, l2, l3];
    // A fuzzer would not find the sums.
    let is_sound = |bytes: &[u8], sum| cfg!(fuzzing) || crc32(bytes) == u32::from_le_bytes(sum);
    if !is_sound(&length, sum) {
        return Some((Err(DAMAGED), 0));
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Some((Err("is longer than any record"), 0));
    }
    let (content, rest) = rest.split_at_checked(length)?;
    let (sum, _) = rest.split_first_chunk::<AFTER>()?;
    let read = if is_sound(content, *sum) { read(content) } else { Err(DAMAGED) };
    Some((read, BEFORE + length + AFTER))
}

const DAMAGED: &str = "is damaged: its checksum differs";

fn read(content: &[u8]) -> Result<Record, &'static str> {
    let mut from = Reader(content);
    let kind = from.byte().ok_or(MALFORMED)?;
    let at = from.time().ok_or(MALFORMED)?;
    let kind = Kind::read(kind).ok_or("is of an unknown kind")?;
    let content = content_of(kind, &mut from).ok_or(MALFORMED)?;
    if from.0.is_empty() { Ok(Record { at, content }) } else { Err("is longer than its content") }
}

const MALFORMED: &str = "has a content that can't be";

fn content_of(kind: Kind, from: &mut Reader<'_>) -> Option<Content> {
    type Is = OwnedInput;
    Some(Content::Input(match kind {
        Kind::Started => return Some(Content::Started(from.u64()?, Coded::read(from)?)),
        Kind::Changed => return Some(Content::Changed(Coded::read(from)?)),
        Kind::Digest => return Some(Content::Digest(Coded::read(from)?)),
        Kind::Continued => return Some(Content::Continued(Coded::read(from)?)),
        Kind::Ended => return Some(Content::Ended),
        Kind::SwitchConnected => {
            Is::SwitchConnected { channel: ChannelId(from.u64()?), identity: Coded::read(from)? }
        }
        Kind::SwitchBytes => Is::SwitchBytes(ChannelId(from.u64()?), from.rest()),
        Kind::SwitchGone => Is::SwitchGone(ChannelId(from.u64()?)),
        Kind::Declared => {
            Is::Declared { application: from.text()?, declaration: Declaration::read(from)? }
        }
        Kind::ApplicationGone => Is::ApplicationGone(from.text()?),
        Kind::AgentConnected => {
            Is::AgentConnected { channel: ChannelId(from.u64()?), identity: from.text()? }
        }
        Kind::Reported => Is::Reported(ChannelId(from.u64()?), Report::read(from)?),
        Kind::AgentGone => Is::AgentGone(ChannelId(from.u64()?)),
        Kind::Unreadable => Is::Unreadable(from.text()?),
        Kind::ApplicationHere => Is::ApplicationHere(from.text()?),
        Kind::Ordered => Is::Ordered { act: Act::read(from)?, again: bool::read(from)? },
        Kind::Tick => Is::Tick,
    }))
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
    u8, byte, |n| n, |n: u8| n;
    u32, u32, |n| n, |n: u32| n;
    u64, u64, |n| n, |n: u64| n;
    Time, u64, Time::from_nanos, Time::as_nanos;
    Span, u64, Span::from_nanos, Span::as_nanos;
    Bytes, u64, Bytes::new, Bytes::get;
    Rate, u64, Rate::from_bps, Rate::as_bps;
    Fnv, u64, Fnv, |sum: Fnv| sum.0;
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
    Processes { source, destination }
    Portion { task, bytes }
    Act { at_s, by, order }
    StreamReport { flow, delivered_bytes, sender_queue_bytes, receiver_queue_bytes }
    ConnectionReport {
        connection, delivered_bytes, unsent_bytes, in_flight_bytes, rtt_ns, processes
    }
    EndedConnection { connection, sent_bytes, processes }
    PortCount { node, interface, sent_bytes }
    Host { name, addresses }
    Commands { epoch, sequence, lease_ns, complete, commands }
    Cap { bytes, floor_segments }
    Caps { recovered, low, medium, high }
    PortWatch { thresholds }
    Thresholds { low, medium, high, recovery }
    Configuration { program, file, settings }
    Continuation { epoch, part, before }
    Judged { directives, refusals, sum }
    Digest { records, recorded, outputs, decided, judged }
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
        4 => FlowRequest { job, flow, connection, processes, bytes }
        5 => FlowComplete { job, flow }
        6 => Streams { job, samples }
        7 => JobTerms { job, objective, deadline_ms, weight }
    }
    Order {
        0 => Cancel { application, job }
        1 => Evict { application }
        2 => Block { application, reason }
        3 => Unblock { application }
        4 => Freeze { reason }
        5 => Thaw {}
        6 => Drain { host, reason }
        7 => Undrain { host }
        8 => Limit { application, job, rate_bps, lasts_s, reason }
        9 => Unlimit { application, job }
    }
    Report {
        0 => Hello { hosts, capabilities, epoch }
        1 => Connections { sampled_ns, connections }
        2 => Opened { connection }
        3 => Closed { connection }
        4 => Congested { node, interface, severity, queue_bytes }
        5 => Applied { epoch, sequence }
        6 => Stale { epoch, obeys }
        7 => Failed { epoch, sequence, command, reason }
        8 => Ports { ports }
        9 => Left {}
        10 => Ended { sampled_ns, connections, lost }
    }
    Command {
        0 => Pace { connection, rate_bps }
        1 => Prioritize { connection, priority }
        2 => Window { node, interface, connection, cap }
        3 => Watch { node, interface, watch }
        4 => Sample { every_ns }
        5 => Identify { processes }
        6 => Count { every_ns }
        7 => Prepare { node, interface, connection, caps }
        8 => Space { node, interface, gap_ns }
    }
    Capability {
        0 => Pacing {}
        1 => Statistics {}
        2 => Watching {}
        3 => Windows {}
        4 => Priorities {}
        5 => Prepared {}
        6 => Spacing {}
    }
    Severity {
        0 => Recovered {}
        1 => Low {}
        2 => Medium {}
        3 => High {}
    }
}

impl Coded for Process {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Pid(pid) => {
                out.push(0);
                pid.write(out);
            }
            Self::Cgroup(path) => {
                out.push(1);
                path.write(out);
            }
            Self::Pod(name) => {
                out.push(2);
                name.write(out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Self::Pid(Coded::read(from)?),
            1 => Self::Cgroup(Coded::read(from)?),
            2 => Self::Pod(Coded::read(from)?),
            _ => return None,
        })
    }
}

impl Coded for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
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
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        if bool::read(from)? { T::read(from).map(Some) } else { Some(None) }
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

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
