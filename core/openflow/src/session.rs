//! One connection between switch and controller, without its socket and without a clock.
//!
//! The owner hands in what arrives ([`Session::receive`]) and sends what [`Session::output`] holds.
//! [`Session::poll`] gives the next event; [`Session::deadline`] says when to poll although nothing
//! arrived. The session cuts the stream into messages, agrees on the version (6.3.1), learns the
//! switch's features (7.3.1), asks after a silent peer (6.3.2), answers its questions, and ties
//! replies to requests. What it holds is bounded, whatever the peer does.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

use units::{Span, Time};

use crate::error::{ErrorCode, ErrorMessage};
use crate::hello::Hello;
use crate::message::{Features, Message, MessageType, TooLong};
use crate::wire::Malformed;
use crate::{HEADER_BYTES, VERSION};

/// The longest message.
const MESSAGE_BYTES: usize = u16::MAX as usize;
/// Bytes that may wait to be read: a message, and the beginning of the next.
const INPUT_BYTES: usize = 2 * MESSAGE_BYTES;
/// What the session's own answers may take beyond the limit of its output.
const ANSWER_BYTES: usize = 2 * MESSAGE_BYTES;
/// The least of a wrong message that an error must give back (`ofp_error_msg`).
const QUOTED_BYTES: usize = 64;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Asks for features; tells its owner of messages that can't be read.
    Controller,
    /// Answers with an error to messages that can't be read.
    Switch,
}

/// How patient a session is, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which end it is.
    pub side: Side,
    /// Silence after which it asks whether the peer is there.
    pub idle: Span,
    /// How long the peer may take to answer that, or to begin.
    pub grace: Span,
    /// How long it may take to answer a request, or to go on answering it.
    pub request_timeout: Span,
    /// Requests that may be open.
    pub max_requests: usize,
    /// Bytes of output above which nothing more is accepted.
    pub output_bytes: usize,
}

impl Config {
    /// Asks after 5 s of silence, gives up after 10 s more; 1024 requests of 10 s; 1 MB of output.
    pub const fn new(side: Side) -> Self {
        Self {
            side,
            idle: Span::from_secs(5),
            grace: Span::from_secs(10),
            request_timeout: Span::from_secs(10),
            max_requests: 1024,
            output_bytes: 1_000_000,
        }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The version is agreed on; a controller knows the [`features`](Session::features).
    Up,
    /// A message that nobody asked for.
    Message {
        /// Its number, which a reply must bear.
        xid: u32,
        /// The message.
        message: Message<'a>,
    },
    /// A reply to a request, or a part of one.
    Reply {
        /// The number of the request.
        xid: u32,
        /// The reply.
        message: Message<'a>,
        /// Nothing more will come.
        last: bool,
    },
    /// A request won't be answered.
    Failed {
        /// Its number.
        xid: u32,
        /// Why.
        failure: Failure<'a>,
    },
    /// A message that could not be read was left out.
    Malformed {
        /// Its number.
        xid: u32,
        /// What was wrong.
        malformed: Malformed,
    },
}

/// Why a request won't be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// The peer says so.
    Error(ErrorMessage<'a>),
    /// The peer says nothing.
    Timeout,
    /// Its reply could not be read.
    Malformed(Malformed),
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer began with something else than a hello.
    NoHello,
    /// There is no version that both speak, or the peer says so.
    NoVersion,
    /// A header says that its message is shorter than a header: the stream has lost its rhythm.
    Framing,
    /// The peer has been silent for too long, or has not begun in time.
    Silence,
    /// The peer asks but does not take the answers.
    Flood,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoHello => "the peer did not begin with a hello",
            Self::NoVersion => "the peer does not speak OpenFlow 1.3",
            Self::Framing => "the peer sent a message shorter than its header",
            Self::Silence => "the peer did not answer in time",
            Self::Flood => "the peer does not read what it asks for",
        })
    }
}

impl core::error::Error for Closed {}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The session is not up yet, or has ended.
    NotUp,
    /// Too much output waits, or too many requests are open: try again later.
    Busy,
    /// The message is too long.
    TooLong,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUp => f.write_str("the OpenFlow session is not up"),
            Self::Busy => f.write_str("the peer has not taken what was sent before"),
            Self::TooLong => TooLong.fmt(f),
        }
    }
}

impl core::error::Error for Refused {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for the peer's hello.
    Hello,
    /// Waits for the reply to the features request of this number.
    Features(u32),
    Up,
    Closed(Closed),
}

#[derive(Clone, Copy, Debug)]
struct Open {
    reply: MessageType,
    deadline: Time,
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    config: Config,
    state: State,
    features: Option<Features>,
    input: Vec<u8>,
    /// Where the first unread message starts.
    read: usize,
    output: Vec<u8>,
    xid: u32,
    open: BTreeMap<u32, Open>,
    /// The deadlines of the open requests.
    deadlines: BTreeSet<(Time, u32)>,
    /// When the session must be up, or else when the peer must say something.
    alive: Time,
    /// When to ask after the peer, while nothing has been asked.
    ask: Option<Time>,
}

impl Session {
    /// A connection that was made at `now`. Its hello waits in the output.
    pub fn new(config: Config, now: Time) -> Self {
        let mut session = Self {
            config,
            state: State::Hello,
            features: None,
            input: Vec::new(),
            read: 0,
            output: Vec::new(),
            xid: 0,
            open: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            alive: now + config.idle + config.grace,
            ask: None,
        };
        let xid = session.number();
        session.answer(xid, &Message::Hello(Hello::ONLY_1_3));
        session
    }

    /// Takes in what arrived, as much as there is room for, and says how much that was. When it
    /// wasn't everything, poll and come again with the rest.
    pub fn receive(&mut self, now: Time, bytes: &[u8]) -> usize {
        if self.closed().is_some() {
            return bytes.len();
        }
        self.input.drain(..self.read);
        self.read = 0;
        let taken = bytes.len().min(INPUT_BYTES - self.input.len());
        self.input.extend_from_slice(&bytes[..taken]);
        if taken > 0 && self.state == State::Up {
            self.alive = now + self.config.idle + self.config.grace;
            self.ask = Some(now + self.config.idle);
        }
        taken
    }

    /// The next event at `now`, until there is none.
    pub fn poll(&mut self, now: Time) -> Option<Event<'_>> {
        if let Some(xid) = self.overdue(now) {
            return Some(Event::Failed { xid, failure: Failure::Timeout });
        }
        let (start, end, up) = loop {
            let (start, end) = self.frame()?;
            self.read = end;
            match self.consume(now, start, end) {
                Consumed::Up => break (start, end, true),
                Consumed::Pass => break (start, end, false),
                Consumed::Done => {}
            }
        };
        if up {
            return Some(Event::Up);
        }
        let mut quoted = [0; 4];
        quoted.copy_from_slice(&self.input[start + 4..start + HEADER_BYTES]);
        let xid = u32::from_be_bytes(quoted);
        let kind = MessageType(self.input[start + 1]);
        let asked = self.open.get(&xid).copied();
        let asked = asked.filter(|open| kind == open.reply || kind == MessageType::ERROR);
        // The input is borrowed by the event that is returned, so what must change changes first.
        let decoded = Message::decode(&self.input[start..end]);
        let more = matches!(decoded, Ok((_, Message::MultipartReply { more: true, .. })));
        if let Err(malformed) = decoded
            && self.config.side == Side::Switch
            && kind != MessageType::ERROR
        {
            let mut head = [0; QUOTED_BYTES];
            let quoted = (end - start).min(QUOTED_BYTES);
            head[..quoted].copy_from_slice(&self.input[start..start + quoted]);
            let error = malformed.into();
            self.answer(xid, &Message::Error(ErrorMessage { error, data: &head[..quoted] }));
            if self.closed().is_some() {
                return None;
            }
        }
        if asked.is_some() {
            self.settle(xid);
            if more {
                self.expect(xid, kind, now);
            }
        }
        Some(match (Message::decode(&self.input[start..end]), asked) {
            (Ok((xid, Message::Error(error))), Some(_)) => {
                Event::Failed { xid, failure: Failure::Error(error) }
            }
            (Ok((xid, message)), Some(_)) => Event::Reply { xid, message, last: !more },
            (Ok((xid, message)), None) => Event::Message { xid, message },
            (Err(malformed), Some(_)) => {
                Event::Failed { xid, failure: Failure::Malformed(malformed) }
            }
            (Err(malformed), None) => Event::Malformed { xid, malformed },
        })
    }

    /// Sends a message of our own and gives its number. A request is answered with
    /// [`Event::Reply`] or [`Event::Failed`] of that number.
    pub fn send(&mut self, now: Time, message: &Message<'_>) -> Result<u32, Refused> {
        let reply = reply_to(message);
        if reply.is_some() && self.open.len() >= self.config.max_requests {
            return Err(Refused::Busy);
        }
        let xid = self.xid;
        let next = self.number();
        if let Err(refused) = self.reply(next, message) {
            self.xid = xid;
            return Err(refused);
        }
        if let Some(reply) = reply {
            self.expect(next, reply, now);
        }
        Ok(next)
    }

    /// Sends a message under the number of the one that it answers, or a part of a multipart
    /// request under that of its beginning.
    pub fn reply(&mut self, xid: u32, message: &Message<'_>) -> Result<(), Refused> {
        if self.state != State::Up {
            return Err(Refused::NotUp);
        }
        if self.output.len() >= self.config.output_bytes {
            return Err(Refused::Busy);
        }
        message.encode(xid, &mut self.output).map_err(|TooLong| Refused::TooLong)
    }

    /// The bytes that wait to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// The first `count` bytes of the output have been sent.
    pub fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
    }

    /// When to poll although nothing arrives.
    pub fn deadline(&self) -> Option<Time> {
        if self.closed().is_some() {
            return None;
        }
        let request = self.deadlines.first().map(|(deadline, _)| *deadline);
        [Some(self.alive), self.ask, request].into_iter().flatten().min()
    }

    /// Why the session has ended, if it has. The output may hold a last word.
    pub fn closed(&self) -> Option<Closed> {
        if let State::Closed(closed) = self.state { Some(closed) } else { None }
    }

    /// True while messages can be exchanged.
    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// What the switch said of itself, to a controller.
    pub fn features(&self) -> Option<&Features> {
        self.features.as_ref()
    }

    /// Requests that wait for their reply.
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// Deals with time: asks after a silent peer, gives it up, finds a request that took too long.
    fn overdue(&mut self, now: Time) -> Option<u32> {
        if self.closed().is_some() {
            return None;
        }
        if now >= self.alive {
            self.close(Closed::Silence);
            return None;
        }
        if self.ask.is_some_and(|ask| now >= ask) {
            self.ask = None;
            let xid = self.number();
            self.answer(xid, &Message::EchoRequest(&[]));
        }
        let (deadline, xid) = *self.deadlines.first()?;
        if now < deadline {
            return None;
        }
        self.settle(xid);
        Some(xid)
    }

    /// Where the next whole message is.
    fn frame(&mut self) -> Option<(usize, usize)> {
        if self.closed().is_some() {
            return None;
        }
        let rest = &self.input[self.read..];
        let (high, low) = (*rest.get(2)?, *rest.get(3)?);
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < HEADER_BYTES {
            self.close(Closed::Framing);
            return None;
        }
        (rest.len() >= length).then_some((self.read, self.read + length))
    }

    /// Does what the session itself does with a message.
    fn consume(&mut self, now: Time, start: usize, end: usize) -> Consumed {
        let message = &self.input[start..end];
        let (version, kind) = (message[0], MessageType(message[1]));
        match (self.state, kind) {
            (State::Hello, MessageType::HELLO) => {
                let speaks = match Message::decode(message) {
                    Ok((_, Message::Hello(hello))) => hello.speaks_1_3(),
                    // Elements that can't be read say nothing; the header does.
                    _ => version >= VERSION,
                };
                if !speaks {
                    let data = b"this side speaks OpenFlow 1.3 only";
                    let error = ErrorMessage { error: ErrorCode::INCOMPATIBLE, data };
                    let xid = self.number();
                    self.answer(xid, &Message::Error(error));
                    self.close(Closed::NoVersion);
                    return Consumed::Done;
                }
                if self.config.side == Side::Switch {
                    return self.up(now);
                }
                let xid = self.number();
                self.answer(xid, &Message::FeaturesRequest);
                self.state = State::Features(xid);
            }
            (State::Hello, MessageType::ERROR) => self.close(Closed::NoVersion),
            (State::Hello, _) => self.close(Closed::NoHello),
            // A second hello changes nothing.
            (_, MessageType::HELLO) => {}
            (_, MessageType::ECHO_REQUEST) if version == VERSION => {
                // The same bytes with another type.
                let from = self.output.len();
                self.output.extend_from_slice(message);
                self.output[from + 1] = MessageType::ECHO_REPLY.0;
                self.check_flood();
            }
            (State::Features(asked), _) => match Message::decode(message) {
                Ok((xid, Message::FeaturesReply(features))) if xid == asked => {
                    self.features = Some(features);
                    return self.up(now);
                }
                Ok((xid, Message::Error(_))) if xid == asked => self.close(Closed::NoVersion),
                // Whatever comes before the features can't be told apart from another switch's.
                _ => {}
            },
            (_, MessageType::ECHO_REPLY) if !self.is_open(message) => {}
            _ => return Consumed::Pass,
        }
        Consumed::Done
    }

    fn is_open(&self, message: &[u8]) -> bool {
        Message::decode(message).is_ok_and(|(xid, _)| self.open.contains_key(&xid))
    }

    fn up(&mut self, now: Time) -> Consumed {
        self.state = State::Up;
        self.alive = now + self.config.idle + self.config.grace;
        self.ask = Some(now + self.config.idle);
        Consumed::Up
    }

    fn close(&mut self, why: Closed) {
        self.state = State::Closed(why);
        self.open.clear();
        self.deadlines.clear();
        self.input = Vec::new();
        self.read = 0;
    }

    /// Sends a message of the session's own.
    fn answer(&mut self, xid: u32, message: &Message<'_>) {
        message.encode(xid, &mut self.output).expect("the session's own messages are short");
        self.check_flood();
    }

    fn check_flood(&mut self) {
        if self.output.len() > self.config.output_bytes + ANSWER_BYTES {
            self.close(Closed::Flood);
        }
    }

    /// The next number that no open request has. Zero is what switches use for their own messages.
    fn number(&mut self) -> u32 {
        loop {
            self.xid = self.xid.wrapping_add(1).max(1);
            if !self.open.contains_key(&self.xid) {
                return self.xid;
            }
        }
    }

    fn expect(&mut self, xid: u32, reply: MessageType, now: Time) {
        let deadline = now + self.config.request_timeout;
        self.open.insert(xid, Open { reply, deadline });
        self.deadlines.insert((deadline, xid));
    }

    fn settle(&mut self, xid: u32) {
        if let Some(open) = self.open.remove(&xid) {
            self.deadlines.remove(&(open.deadline, xid));
        }
    }
}

enum Consumed {
    Done,
    Pass,
    Up,
}

/// The type of the reply that a message asks for.
fn reply_to(message: &Message<'_>) -> Option<MessageType> {
    Some(match message {
        Message::EchoRequest(_) => MessageType::ECHO_REPLY,
        Message::FeaturesRequest => MessageType::FEATURES_REPLY,
        Message::GetConfigRequest => MessageType::GET_CONFIG_REPLY,
        Message::MultipartRequest { .. } => MessageType::MULTIPART_REPLY,
        Message::BarrierRequest => MessageType::BARRIER_REPLY,
        Message::QueueGetConfigRequest(_) => MessageType::QUEUE_GET_CONFIG_REPLY,
        Message::RoleRequest(_) => MessageType::ROLE_REPLY,
        Message::GetAsyncRequest => MessageType::GET_ASYNC_REPLY,
        _ => return None,
    })
}
