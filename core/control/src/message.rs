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

impl Refusal {
    /// The HTTP status that says it: 429 where waiting helps, or 422.
    pub const fn status(&self) -> u16 {
        if self.busy { 429 } else { 422 }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl core::error::Error for Refusal {}
