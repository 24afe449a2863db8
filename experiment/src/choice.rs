//! Choices that a text doesn't make: what else was possible, and by which rule one was taken.

use std::collections::BTreeMap;

use document::Override;
use serde::Serialize;

/// Something that a run needs and the text doesn't give.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What is chosen, for people.
    pub about: String,
    /// What the scenario has.
    pub stands: String,
    /// The rule by which that stands, which is there before anything is run.
    pub rule: Rule,
    /// How the rule leads to it.
    pub why: String,
    /// What else was possible.
    pub tried: Vec<Tried>,
    /// Repetitions of what else was possible.
    pub seeds: u32,
}

/// Another value of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// What it is called.
    pub name: String,
    /// What turns the scenario into it; empty where the same runs are read otherwise.
    pub set: Vec<Override>,
    /// By which metric what is published is judged instead, by that of the scenario.
    pub metric: BTreeMap<String, String>,
}

/// By which rule one of several values stands. The first that applies is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The text says something of it elsewhere.
    Text,
    /// The tools that its authors used do so.
    Tools,
    /// It adds the least.
    Plainest,
}

impl Rule {
    /// The word for each, as in scenarios.
    pub const NAMED: &[(&str, Self)] =
        &[("text", Self::Text), ("tools", Self::Tools), ("plainest", Self::Plainest)];

    /// For people.
    pub const fn shown(self) -> &'static str {
        match self {
            Self::Text => "the text says so elsewhere",
            Self::Tools => "its authors' tools do so",
            Self::Plainest => "the plainest",
        }
    }
}
