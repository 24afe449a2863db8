//! What goes into the controller and what comes out of it.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use openflow::Closed;
use protocol::agent::{Commands, Report};
use protocol::application::Declaration;

/// A connection of a switch or an agent, numbered by the owner. A number is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u64);

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// A switch connected.
    SwitchConnected(Peer),
    /// It sent bytes, cut anywhere.
    SwitchBytes(Peer, &'a [u8]),
    /// Its connection ended.
    SwitchGone(Peer),
    /// An application said something.
    Declared {
        /// Who it has proved to be.
        application: &'a str,
        /// What it said.
        declaration: &'a Declaration,
    },
    /// The last connection of an application ended. What it declared ends after a grace, unless it
    /// declares something again.
    ApplicationGone(&'a str),
    /// An agent connected. Its first report must be a hello.
    AgentConnected {
        /// The connection.
        peer: Peer,
        /// Who it has proved to be.
        identity: &'a str,
    },
    /// It reported.
    Reported(Peer, &'a Report),
    /// Its connection ended. What it was told stands there until its lease ends.
    AgentGone(Peer),
    /// Nothing but time has passed.
    Tick,
}

/// An input that owns what it holds.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the variants are those of `Input`
pub enum OwnedInput {
    SwitchConnected(Peer),
    SwitchBytes(Peer, Vec<u8>),
    SwitchGone(Peer),
    Declared { application: String, declaration: Declaration },
    ApplicationGone(String),
    AgentConnected { peer: Peer, identity: String },
    Reported(Peer, Report),
    AgentGone(Peer),
    Tick,
}

impl OwnedInput {
    /// The input.
    pub fn as_input(&self) -> Input<'_> {
        match self {
            Self::SwitchConnected(peer) => Input::SwitchConnected(*peer),
            Self::SwitchBytes(peer, bytes) => Input::SwitchBytes(*peer, bytes),
            Self::SwitchGone(peer) => Input::SwitchGone(*peer),
            Self::Declared { application, declaration } => {
                Input::Declared { application, declaration }
            }
            Self::ApplicationGone(application) => Input::ApplicationGone(application),
            Self::AgentConnected { peer, identity } => {
                Input::AgentConnected { peer: *peer, identity }
            }
            Self::Reported(peer, report) => Input::Reported(*peer, report),
            Self::AgentGone(peer) => Input::AgentGone(*peer),
            Self::Tick => Input::Tick,
        }
    }
}

/// What the owner has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send bytes to a switch.
    Switch(Peer, Vec<u8>),
    /// Send what is left to it and close its connection. The controller has forgotten it.
    CloseSwitch(Peer, Closing),
    /// Tell an agent.
    Agent(Peer, Commands),
    /// Close its connection. The controller has forgotten it.
    CloseAgent(Peer, Closing),
}

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The OpenFlow session has ended.
    Session(Closed),
    /// The same switch or agent has a newer connection.
    Replaced,
    /// The switch obeys a controller of a later epoch.
    Outranked,
    /// The peer asked for too much or said what can't be.
    Refused(Refusal),
}

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(closed) => closed.fmt(f),
            Self::Replaced => f.write_str("the same peer has a newer connection"),
            Self::Outranked => {
                f.write_str("the switch obeys a controller of a later epoch: stop one of the two")
            }
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl core::error::Error for Closing {}

/// Why a message was not taken: the field at fault, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The field of the message, such as `connection.source`.
    pub field: &'static str,
    /// What is wrong with it, and the remedy.
    pub reason: String,
    /// True when the same message may be taken later: a limit was reached.
    pub busy: bool,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl core::error::Error for Refusal {}
