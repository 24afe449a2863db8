//! What a front end and hubs tell each other: frames of a length and a message, without I/O. Numbers are big-endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::command::{Query, Verb};

/// Begins a connection: the protocol and its version.
pub const GREETING: u64 = 0x7761_7465_7247_0001;
/// Largest frame, octets: one value of the largest size that memcached can have, and what is around it.
const LARGEST: usize = (128 << 20) + 4096;

/// An object of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its number in the request.
    pub object: u32,
    /// Its server, by its place in the configuration.
    pub holder: u32,
    /// What is asked for.
    pub query: Query,
}

/// What came of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The server's answer; `None`: the key isn't there.
    Answer(Option<Bytes>),
    /// The server did not answer as it should.
    Failed(String),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first of a connection, from who opens it.
    Hello {
        /// The front end, by a number of its own choice; hubs name that whose objects they bring.
        front: u64,
        /// Of servers and racks; both must have the same.
        placement: u64,
        /// Whether a front end speaks, which objects go back to.
        is_front: bool,
    },
    /// To a hub: get these and send them on.
    Gather {
        /// The request.
        request: u64,
        /// Who is told next, by its place in the configuration; `None`: the front end.
        parent: Option<u32>,
        /// Frame bits per second to send at.
        speed: u64,
        /// Whether several objects go into a packet.
        packed: bool,
        /// Milliseconds until nobody waits any more.
        patience: u32,
        /// What to get.
        wanted: Vec<Wanted>,
    },
    /// To a hub: another speed, in frame bits per second.
    Speed(u64, u64),
    /// To a hub: don't send these.
    Cancel(u64, Vec<u32>),
    /// To a hub: another parent, which is to have these again.
    Parent(u64, Option<u32>, Vec<u32>),
    /// To a hub: the request is over.
    End(u64),
    /// From a hub: what it found.
    Objects(u64, Vec<(u32, Found)>),
    /// From a hub: why it ends the connection.
    Refused(String),
}

/// A frame that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Too large.
    #[error("a frame is too large")]
    Large,
    /// Anything else.
    #[error("a frame is not as it should be")]
    Strange,
}

impl Message {
    /// Appends the message as a frame.
    pub fn write(&self, out: &mut BytesMut) {
        let start = out.len();
        out.put_u32(0);
        match self {
            Self::Hello { front, placement, is_front } => {
                out.put_u8(0);
                out.put_u64(GREETING);
                out.put_u64(*front);
                out.put_u64(*placement);
                out.put_u8(u8::from(*is_front));
            }
            Self::Gather { request, parent, speed, packed, patience, wanted } => {
                out.put_u8(1);
                out.put_u64(*request);
                put_place(out, *parent);
                out.put_u64(*speed);
                out.put_u8(u8::from(*packed));
                out.put_u32(*patience);
                for one in wanted {
                    out.put_u32(one.object);
                    out.put_u32(one.holder);
                    match &one.query.verb {
                        Verb::Get => out.put_u8(0),
                        Verb::Gets => out.put_u8(1),
                        Verb::Meta(flags) => {
                            out.put_u8(2);
                            put_octets(out, flags);
                        }
                    }
                    put_octets(out, &one.query.key);
                }
            }
            Self::Speed(request, speed) => {
                out.put_u8(2);
                out.put_u64(*request);
                out.put_u64(*speed);
            }
            Self::Cancel(request, objects) => {
                out.put_u8(3);
                out.put_u64(*request);
                objects.iter().for_each(|object| out.put_u32(*object));
            }
            Self::Parent(request, parent, objects) => {
                out.put_u8(4);
                out.put_u64(*request);
                put_place(out, *parent);
                objects.iter().for_each(|object| out.put_u32(*object));
            }
            Self::End(request) => {
                out.put_u8(5);
                out.put_u64(*request);
            }
            Self::Objects(request, objects) => {
                out.put_u8(6);
                out.put_u64(*request);
                for (object, found) in objects {
                    out.put_u32(*object);
                    match found {
                        Found::Answer(None) => out.put_u8(0),
                        Found::Answer(Some(answer)) => {
                            out.put_u8(1);
                            put_octets(out, answer);
                        }
                        Found::Failed(why) => {
                            out.put_u8(2);
                            put_octets(out, why.as_bytes());
                        }
                    }
                }
            }
            Self::Refused(why) => {
                out.put_u8(7);
                out.put_slice(why.as_bytes());
            }
        }
        let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// The message as a frame.
    pub fn frame(&self) -> Bytes {
        let mut out = BytesMut::new();
        self.write(&mut out);
        out.freeze()
    }

    /// Takes the next message, of at most `most` octets, out of `buffer`; `None` until more has come.
    ///
    /// # Errors
    /// It is none, or larger.
    pub fn read(buffer: &mut BytesMut, most: usize) -> Result<Option<Self>, FrameError> {
        let Some(length) = buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > most.min(LARGEST) {
            return Err(FrameError::Large);
        }
        if buffer.len() < 4 + length {
            return Ok(None);
        }
        buffer.advance(4);
        let mut frame = buffer.split_to(length).freeze();
        message(&mut frame).map(Some).ok_or(FrameError::Strange)
    }
}

const NOBODY: u32 = u32::MAX;

fn put_place(out: &mut BytesMut, place: Option<u32>) {
    out.put_u32(place.unwrap_or(NOBODY));
}

fn put_octets(out: &mut BytesMut, octets: &[u8]) {
    out.put_u32(u32::try_from(octets.len()).unwrap_or(u32::MAX));
    out.put_slice(octets);
}

fn octets(frame: &mut Bytes) -> Option<Bytes> {
    let length = frame.try_get_u32().ok()? as usize;
    (length <= frame.len()).then(|| frame.split_to(length))
}

fn place(frame: &mut Bytes) -> Option<Option<u32>> {
    Some(Some(frame.try_get_u32().ok()?).filter(|place| *place != NOBODY))
}

fn flag(frame: &mut Bytes) -> Option<bool> {
    match frame.try_get_u8().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn objects(frame: &mut Bytes) -> Option<Vec<u32>> {
    let mut objects = Vec::new();
    while frame.has_remaining() {
        objects.push(frame.try_get_u32().ok()?);
    }
    Some(objects)
}

fn message(frame: &mut Bytes) -> Option<Message> {
    let kind = frame.try_get_u8().ok()?;
    let message = match kind {
        0 => {
            if frame.try_get_u64().ok()? != GREETING {
                return None;
            }
            let (front, placement) = (frame.try_get_u64().ok()?, frame.try_get_u64().ok()?);
            Message::Hello { front, placement, is_front: flag(frame)? }
        }
        1 => {
            let (request, parent) = (frame.try_get_u64().ok()?, place(frame)?);
            let (speed, packed) = (frame.try_get_u64().ok()?, flag(frame)?);
            let patience = frame.try_get_u32().ok()?;
            let mut wanted = Vec::new();
            while frame.has_remaining() {
                let (object, holder) = (frame.try_get_u32().ok()?, frame.try_get_u32().ok()?);
                let verb = match frame.try_get_u8().ok()? {
                    0 => Verb::Get,
                    1 => Verb::Gets,
                    2 => Verb::Meta(octets(frame)?),
                    _ => return None,
                };
                let query = Query { key: octets(frame)?, verb };
                wanted.push(Wanted { object, holder, query });
            }
            Message::Gather { request, parent, speed, packed, patience, wanted }
        }
        2 => Message::Speed(frame.try_get_u64().ok()?, frame.try_get_u64().ok()?),
        3 => Message::Cancel(frame.try_get_u64().ok()?, objects(frame)?),
        4 => Message::Parent(frame.try_get_u64().ok()?, place(frame)?, objects(frame)?),
        5 => Message::End(frame.try_get_u64().ok()?),
        6 => {
            let request = frame.try_get_u64().ok()?;
            let mut found = Vec::new();
            while frame.has_remaining() {
                let object = frame.try_get_u32().ok()?;
                found.push((
                    object,
                    match frame.try_get_u8().ok()? {
                        0 => Found::Answer(None),
                        1 => Found::Answer(Some(octets(frame)?)),
                        2 => Found::Failed(String::from_utf8(octets(frame)?.into()).ok()?),
                        _ => return None,
                    },
                ));
            }
            Message::Objects(request, found)
        }
        7 => Message::Refused(String::from_utf8(frame.split_to(frame.len()).into()).ok()?),
        _ => return None,
    };
    (!frame.has_remaining()).then_some(message)
}
