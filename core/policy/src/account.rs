//! Why a flow has what it has: its objective, and how links are divided among objectives.

use alloc::string::String;
use alloc::vec::Vec;

use model::LinkId;
use units::{Rate, Time};

use crate::Aim;

/// The account of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The objective that it is under.
    pub objective: String,
    /// What that asks for, or the flow's job itself.
    pub aim: Aim,
    /// When its job is to have ended, under a deadline.
    pub due: Option<Time>,
    /// The policy that serves the objective, by its name.
    pub policy: &'static str,
    /// The links of its path in order.
    pub parts: Vec<Part>,
}

/// How a link is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The directed link.
    pub link: LinkId,
    /// What each objective has of it that takes part.
    pub given: Vec<Holding>,
}

/// What an objective has of a link, frame bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The objective.
    pub objective: String,
    /// What it asks for.
    pub aim: Aim,
    /// What it is given.
    pub rate: Rate,
    /// What a latency or a deadline needs to be met, what others could use; one that is given less yields.
    pub wants: Rate,
}
