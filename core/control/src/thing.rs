//! What commands are about, and what they ask for.

use alloc::format;
use alloc::string::String;

use model::{Caps, NodeId};
use protocol::Connection;
use protocol::agent::Command;
use units::Span;

use crate::view::View;

/// What a command is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    Rate(Connection),
    Priority(Connection),
    Window(String, String, Option<Connection>),
    Gap(String, String),
    Watch(String, String),
    Samples,
    Counters,
    Processes,
}

impl Thing {
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::Pace { connection, .. } => Self::Rate(*connection),
            Command::Prioritize { connection, .. } => Self::Priority(*connection),
            Command::Window { node, interface, connection, .. }
            | Command::Prepare { node, interface, connection, .. } => {
                Self::Window(node.clone(), interface.clone(), *connection)
            }
            Command::Space { node, interface, .. } => Self::Gap(node.clone(), interface.clone()),
            Command::Watch { node, interface, .. } => Self::Watch(node.clone(), interface.clone()),
            Command::Sample { .. } => Self::Samples,
            Command::Count { .. } => Self::Counters,
            Command::Identify { .. } => Self::Processes,
        }
    }

    /// The host or switch where it stands.
    pub(crate) fn place(&self, view: &View) -> Option<NodeId> {
        match self {
            Self::Rate(connection) | Self::Priority(connection) => {
                view.host_at(connection.source.ip())
            }
            Self::Window(node, ..) | Self::Gap(node, _) | Self::Watch(node, _) => view.named(node),
            Self::Samples | Self::Counters | Self::Processes => None,
        }
    }

    /// Whether what stands of it is noted of an agent, not of a connection, as its rate is; what is neither is asked for
    /// and doesn't stand.
    pub(crate) const fn is_held(&self) -> bool {
        match self {
            Self::Priority(_) | Self::Window(..) | Self::Gap(..) => true,
            Self::Rate(_) | Self::Watch(..) | Self::Samples | Self::Counters | Self::Processes => {
                false
            }
        }
    }

    /// In words.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Rate(connection) => format!("the rate of {}", connection.source),
            Self::Priority(connection) => format!("the priority of {}", connection.source),
            Self::Window(node, interface, _) => format!("a window at {node} {interface}"),
            Self::Gap(node, interface) => {
                format!("the spacing of acknowledgements at {node} {interface}")
            }
            Self::Watch(node, interface) => format!("watching {node} {interface}"),
            Self::Samples => "samples of connections".into(),
            Self::Counters => "counters of interfaces".into(),
            Self::Processes => "looking for processes".into(),
        }
    }
}

/// The connection of a command whose grant says what is meant of it.
pub(crate) const fn granted(command: &Command) -> Option<&Connection> {
    match command {
        Command::Pace { connection, .. } | Command::Prioritize { connection, .. } => {
            Some(connection)
        }
        Command::Window { .. }
        | Command::Prepare { .. }
        | Command::Space { .. }
        | Command::Watch { .. }
        | Command::Sample { .. }
        | Command::Count { .. }
        | Command::Identify { .. } => None,
    }
}

/// Whether what a command asks for is done again and again: it may fail long after it was confirmed.
pub(crate) const fn goes_on(command: &Command) -> bool {
    match command {
        Command::Sample { .. } | Command::Count { .. } => true,
        Command::Pace { .. }
        | Command::Prioritize { .. }
        | Command::Window { .. }
        | Command::Prepare { .. }
        | Command::Space { .. }
        | Command::Watch { .. }
        | Command::Identify { .. } => false,
    }
}

/// The command that ends what another asks for of a window, a class or a gap.
pub(crate) fn end_of(command: &Command) -> Command {
    match command.clone() {
        Command::Prioritize { connection, .. } => Command::Prioritize { connection, priority: 0 },
        Command::Window { node, interface, connection, .. }
        | Command::Prepare { node, interface, connection, .. } => {
            Command::Window { node, interface, connection, cap: None }
        }
        Command::Space { node, interface, .. } => Command::Space { node, interface, gap_ns: None },
        other @ (Command::Pace { .. }
        | Command::Watch { .. }
        | Command::Sample { .. }
        | Command::Count { .. }
        | Command::Identify { .. }) => other,
    }
}

/// The class that a command asks for.
pub(crate) fn class_of(command: &Command) -> Option<u8> {
    match command {
        Command::Prioritize { priority, .. } => Some(*priority),
        _ => None,
    }
}

/// The least time between acknowledgements that a command asks for.
pub(crate) fn gap_of(command: &Command) -> Option<Span> {
    match command {
        Command::Space { gap_ns, .. } => *gap_ns,
        _ => None,
    }
}

/// The caps that a command asks for.
pub(crate) fn caps_of(command: &Command) -> Option<Caps> {
    match command {
        Command::Window { cap, .. } => cap.map(Caps::from),
        Command::Prepare { caps, .. } => Some(*caps),
        _ => None,
    }
}
