//! Inputs and outputs of the controller.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use openflow::Closed;
use protocol::agent::{Commands, Report};
use protocol::application::{Declaration, Outcome, Problem};
use protocol::operator::Act;

/// A connection between the controller and a switch or an agent, numbered by the controller's owner.
/// A number is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u64);

/// An input: something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// A switch connected.
    SwitchConnected {
        /// The connection.
        channel: ChannelId,
        /// The name that it has proved; `None` without TLS.
        identity: Option<&'a str>,
    },
    /// It sent bytes, cut anywhere.
    SwitchBytes(ChannelId, &'a [u8]),
    /// Its connection ended.
    SwitchGone(ChannelId),
    /// An application declared something.
    Declared {
        /// The identity that it has proved.
        application: &'a str,
        /// The declaration.
        declaration: &'a Declaration,
    },
    /// An application declared something that couldn't be read; who read it has told it so.
    Unreadable(&'a str),
    /// An application is there, and declares nothing more.
    ApplicationHere(&'a str),
    /// The last connection of an application ended. What it declared ends after a grace, unless it
    /// declares something again.
    ApplicationGone(&'a str),
    /// An agent connected. Its first report must be a hello.
    AgentConnected {
        /// The connection.
        channel: ChannelId,
        /// The identity that it has proved.
        identity: &'a str,
    },
    /// It reported.
    Reported(ChannelId, &'a Report),
    /// Its connection ended. What it was told stands there until its lease ends.
    AgentGone(ChannelId),
    /// An operator ordered something.
    Ordered {
        /// Who, when and what.
        act: &'a Act,
        /// It was ordered before this controller began, and stands.
        again: bool,
    },
    /// Time has passed: what is due is done. In a recording a turn ends with it:
    /// [`Controller::end_turn`](crate::Controller::end_turn).
    Tick,
}

/// An input that owns what it holds.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the variants are those of `Input`
pub enum OwnedInput {
    SwitchConnected { channel: ChannelId, identity: Option<String> },
    SwitchBytes(ChannelId, Vec<u8>),
    SwitchGone(ChannelId),
    Declared { application: String, declaration: Declaration },
    Unreadable(String),
    ApplicationHere(String),
    ApplicationGone(String),
    AgentConnected { channel: ChannelId, identity: String },
    Reported(ChannelId, Report),
    AgentGone(ChannelId),
    Ordered { act: Act, again: bool },
    Tick,
}

impl OwnedInput {
    /// The input.
    pub fn as_input(&self) -> Input<'_> {
        match self {
            Self::SwitchConnected { channel, identity } => {
                Input::SwitchConnected { channel: *channel, identity: identity.as_deref() }
            }
            Self::SwitchBytes(channel, bytes) => Input::SwitchBytes(*channel, bytes),
            Self::SwitchGone(channel) => Input::SwitchGone(*channel),
            Self::Declared { application, declaration } => {
                Input::Declared { application, declaration }
            }
            Self::Unreadable(application) => Input::Unreadable(application),
            Self::ApplicationHere(application) => Input::ApplicationHere(application),
            Self::ApplicationGone(application) => Input::ApplicationGone(application),
            Self::AgentConnected { channel, identity } => {
                Input::AgentConnected { channel: *channel, identity }
            }
            Self::Reported(channel, report) => Input::Reported(*channel, report),
            Self::AgentGone(channel) => Input::AgentGone(*channel),
            Self::Ordered { act, again } => Input::Ordered { act, again: *again },
            Self::Tick => Input::Tick,
        }
    }
}

/// An output: what the owner has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send bytes to a switch.
    Switch(ChannelId, Vec<u8>),
    /// Send what is left to it and close its connection. The controller has forgotten it.
    CloseSwitch(ChannelId, Closing),
    /// Send commands to an agent.
    Agent(ChannelId, Commands),
    /// Close its connection. The controller has forgotten it.
    CloseAgent(ChannelId, Closing),
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
    /// The switch or agent asked for too much or said what can't be.
    Refused(Refusal),
    /// The agent has said that it ends, and holds nothing.
    Left,
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
            Self::Left => f.write_str("the agent has left, and holds nothing"),
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
    /// Whether all else that the application says has to wait too.
    pub(crate) fn is_for_all(&self) -> bool {
        self.busy && self.field == "application"
    }
}

/// Notes in the answer what became of the declaration at `index`; whether to look at the next one: an
/// application that is too fast, or comes before the agents, has to wait with the rest.
pub fn note(outcome: &mut Outcome, index: u64, became: Result<(), Refusal>) -> bool {
    match became {
        Ok(()) => outcome.taken += 1,
        Err(refusal) if refusal.is_for_all() => {
            (outcome.rest, outcome.reason) = (Some(index), Some(refusal.reason));
            return false;
        }
        Err(Refusal { field, reason, busy: later }) => {
            outcome.refuse(index, Problem { field: field.into(), reason }, later);
        }
    }
    true
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl core::error::Error for Refusal {}
