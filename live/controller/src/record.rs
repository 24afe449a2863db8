//! The form of a recording: frames of a length, a time, a kind and a content.
//!
//! The first frame is the beginning: epoch and configuration. Then come inputs in order, and now and
//! then a digest of all that was decided so far: whoever puts the same inputs into the same machine
//! must get the same digest. Numbers are little-endian.

use control::{ChannelId, Input, Output};
use protocol::agent::Report;
use protocol::application::Declaration;
use serde::{Deserialize, Serialize};
use units::Time;

/// Opens every recording.
pub const MAGIC: &[u8; 8] = b"WMREC\0\0\x02";
/// Length, time, kind.
const HEAD: usize = 4 + 8 + 1;
/// Longest content that is believed.
const MOST: usize = 64 << 20;

/// How a recording begins, and how it goes on after a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// The program that recorded.
    pub version: String,
    /// The machine's incarnation.
    pub epoch: u64,
    /// What errors call the configuration.
    pub file: String,
    /// The configuration.
    pub settings: String,
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The recording begins, or the configuration was read again.
    Beginning(Beginning),
    /// A switch connected.
    SwitchConnected(ChannelId),
    /// It sent bytes.
    SwitchBytes(ChannelId, Vec<u8>),
    /// Its connection ended.
    SwitchGone(ChannelId),
    /// An application declared something.
    Declared(String, Declaration),
    /// Its last connection ended.
    ApplicationGone(String),
    /// An agent connected.
    AgentConnected(ChannelId, String),
    /// It reported.
    Reported(ChannelId, Report),
    /// Its connection ended.
    AgentGone(ChannelId),
    /// Time passed.
    Tick,
    /// So many outputs so far, and their digest.
    Digest(u64, u64),
}

/// A recording that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at octet {at}: {reason}")]
pub struct RecordError {
    /// Where.
    pub at: usize,
    /// What is wrong.
    pub reason: String,
}

/// Appends a frame. False: the content is longer than a frame can be, or JSON can't express it.
fn frame(
    now: Time,
    kind: u8,
    out: &mut Vec<u8>,
    content: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>,
) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&now.as_nanos().to_le_bytes());
    out.push(kind);
    let length = match content(out) {
        Ok(()) => u32::try_from(out.len() - start - HEAD).ok(),
        Err(_) => None,
    };
    match (length, out.get_mut(start..start + 4)) {
        (Some(length), Some(place)) => {
            place.copy_from_slice(&length.to_le_bytes());
            true
        }
        _ => {
            out.truncate(start);
            false
        }
    }
}

fn put_peer(peer: ChannelId, out: &mut Vec<u8>) {
    out.extend_from_slice(&peer.0.to_le_bytes());
}

/// Appends the beginning.
pub fn beginning(now: Time, beginning: &Beginning, out: &mut Vec<u8>) -> bool {
    frame(now, 0, out, |out| serde_json::to_writer(out, beginning))
}

/// Appends the digest of all outputs so far.
pub fn digest(now: Time, count: u64, digest: u64, out: &mut Vec<u8>) -> bool {
    frame(now, 10, out, |out| {
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(&digest.to_le_bytes());
        Ok(())
    })
}

/// Appends an input.
pub fn input(now: Time, input: &Input<'_>, out: &mut Vec<u8>) -> bool {
    let kind = match input {
        Input::SwitchConnected(_) => 1,
        Input::SwitchBytes(..) => 2,
        Input::SwitchGone(_) => 3,
        Input::Declared { .. } => 4,
        Input::ApplicationGone(_) => 5,
        Input::AgentConnected { .. } => 6,
        Input::Reported(..) => 7,
        Input::AgentGone(_) => 8,
        Input::Tick => 9,
    };
    frame(now, kind, out, |out| {
        match input {
            Input::SwitchConnected(peer) | Input::SwitchGone(peer) | Input::AgentGone(peer) => {
                put_peer(*peer, out);
            }
            Input::SwitchBytes(peer, bytes) => {
                put_peer(*peer, out);
                out.extend_from_slice(bytes);
            }
            Input::Declared { application, declaration } => {
                serde_json::to_writer(out, &(application, declaration))?;
            }
            Input::ApplicationGone(application) => out.extend_from_slice(application.as_bytes()),
            Input::AgentConnected { channel: peer, identity } => {
                put_peer(*peer, out);
                out.extend_from_slice(identity.as_bytes());
            }
            Input::Reported(peer, report) => {
                put_peer(*peer, out);
                serde_json::to_writer(out, report)?;
            }
            Input::Tick => {}
        }
        Ok(())
    })
}

/// Reads the frame at `at`: when, what, and where the next one is. `None`: the recording ends here,
/// at a whole frame or, after a crash, within one.
///
/// # Errors
/// What stands there is no frame.
pub fn read(bytes: &[u8], at: usize) -> Result<Option<(Time, Content, usize)>, RecordError> {
    let wrong = |reason: &str| RecordError { at, reason: reason.to_owned() };
    let Some(head) = bytes.get(at..at + HEAD) else { return Ok(None) };
    let (length, rest) = head.split_at(4);
    let (time, kind) = rest.split_at(8);
    let length = usize::try_from(u32::from_le_bytes(array(length))).unwrap_or(usize::MAX);
    if length > MOST {
        return Err(wrong("the frame is too long to be one; is this a recording?"));
    }
    let Some(content) = bytes.get(at + HEAD..at + HEAD + length) else { return Ok(None) };
    let time = Time::from_nanos(u64::from_le_bytes(array(time)));
    let json = |error: serde_json::Error| RecordError { at, reason: error.to_string() };
    let peer = || {
        let number = content.get(..8).ok_or_else(|| wrong("the frame is too short"))?;
        Ok((ChannelId(u64::from_le_bytes(array(number))), content.get(8..).unwrap_or_default()))
    };
    let text =
        |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| wrong("a name isn't UTF-8"));
    let content = match kind {
        [0] => Content::Beginning(serde_json::from_slice(content).map_err(json)?),
        [1] => Content::SwitchConnected(peer()?.0),
        [2] => peer().map(|(peer, bytes)| Content::SwitchBytes(peer, bytes.to_vec()))?,
        [3] => Content::SwitchGone(peer()?.0),
        [4] => {
            let (application, declaration) = serde_json::from_slice(content).map_err(json)?;
            Content::Declared(application, declaration)
        }
        [5] => Content::ApplicationGone(text(content)?),
        [6] => {
            let (peer, identity) = peer()?;
            Content::AgentConnected(peer, text(identity)?)
        }
        [7] => {
            let (peer, report) = peer()?;
            Content::Reported(peer, serde_json::from_slice(report).map_err(json)?)
        }
        [8] => Content::AgentGone(peer()?.0),
        [9] => Content::Tick,
        [10] => {
            let (Some(count), Some(digest)) = (content.get(..8), content.get(8..16)) else {
                return Err(wrong("the frame is too short"));
            };
            Content::Digest(u64::from_le_bytes(array(count)), u64::from_le_bytes(array(digest)))
        }
        _ => return Err(wrong("the frame is of an unknown kind; a newer program recorded it")),
    };
    Ok(Some((time, content, at + HEAD + length)))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

/// A digest of outputs in order: FNV-1a of 64 bits. It finds differences, it doesn't prove anything
/// against somebody who makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// How many outputs.
    pub count: u64,
    /// Their digest.
    pub value: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { count: 0, value: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Digest {
    fn octets(&mut self, bytes: &[u8]) {
        for octet in bytes {
            self.value = (self.value ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Takes in what was decided.
    pub fn add(&mut self, outputs: &[Output]) {
        for output in outputs {
            self.count += 1;
            match output {
                Output::Switch(peer, bytes) => {
                    self.octets(&[1]);
                    self.octets(&peer.0.to_le_bytes());
                    self.octets(bytes);
                }
                Output::Agent(peer, commands) => {
                    self.octets(&[2]);
                    self.octets(&peer.0.to_le_bytes());
                    // Commands are plain data, which JSON always can express.
                    self.octets(&serde_json::to_vec(commands).unwrap_or_default());
                }
                Output::CloseSwitch(peer, _) => {
                    self.octets(&[3]);
                    self.octets(&peer.0.to_le_bytes());
                }
                Output::CloseAgent(peer, _) => {
                    self.octets(&[4]);
                    self.octets(&peer.0.to_le_bytes());
                }
            }
        }
    }
}
