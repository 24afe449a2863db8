//! Why a flow has what it has: its objective, and how links are divided among objectives.

use alloc::string::String;
use alloc::vec::Vec;

use model::LinkId;
use units::Rate;

use crate::Aim;

/// The account of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The objective that it is under.
    pub objective: String,
    /// What that asks for.
    pub aim: Aim,
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
    /// What it could use; one that is given less yields to others.
    pub wants: Rate,
}
