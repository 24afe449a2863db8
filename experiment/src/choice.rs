//! Choices that a text doesn't make: what else was possible, and by which rule one was taken.

use std::collections::BTreeMap;

use document::Override;
use serde::Serialize;

use crate::published::{Published, Standing};

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
    /// The policy whose published values it is about; none: all of them.
    pub policy: Option<String>,
    /// The metric, likewise.
    pub metric: Option<String>,
}

impl Choice {
    /// Whether it is about `published`.
    pub fn is_of(&self, published: &Published) -> bool {
        let all_or = |only: &Option<String>, own: &str| only.as_deref().is_none_or(|o| o == own);
        all_or(&self.policy, &published.policy) && all_or(&self.metric, &published.metric)
    }

    /// What `value` has judged in the place of `published`; `None` where it says nothing of it.
    pub fn read(&self, value: &Tried, published: &Published) -> Option<Published> {
        if !self.is_of(published) || !value.is_other_reading() {
            return self.is_of(published).then(|| published.clone());
        }
        let metric = value.metric.get(&published.metric);
        let against = published.against.as_ref().and_then(|other| value.against.get(other));
        if metric.is_none() && against.is_none() || against == Some(&published.policy) {
            return None;
        }
        let mut read = published.clone();
        // What follows of one metric needn't follow of another; what is lacking is lacking for both.
        if !matches!(read.standing, Standing::Lacks(_)) {
            let follows = value.follows.clone();
            read.standing = follows.map_or(Standing::Open, Standing::Follows);
        }
        read.metric = metric.unwrap_or(&published.metric).clone();
        read.against = against.or(published.against.as_ref()).cloned();
        Some(read)
    }
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
    /// With which policy what is published is compared instead, likewise.
    pub against: BTreeMap<String, String>,
    /// What ours follows from where runs are read so, whatever is simulated.
    pub follows: Option<String>,
}

impl Tried {
    /// Whether it takes runs of its own, not another reading of those that stand.
    pub fn is_other_runs(&self) -> bool {
        !self.set.is_empty()
    }

    /// Whether it reads runs otherwise than what stands.
    pub fn is_other_reading(&self) -> bool {
        !self.metric.is_empty() || !self.against.is_empty()
    }

    /// Its runs, read as `reading` does.
    pub fn read_as(&self, reading: &Self) -> Self {
        Self {
            name: format!("{}, read as {}", self.name, reading.name),
            set: self.set.clone(),
            metric: reading.metric.clone(),
            against: reading.against.clone(),
            follows: reading.follows.clone(),
        }
    }
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
    /// The text says otherwise, and more than can be run.
    Reduced,
}

impl Rule {
    /// The word for each, as in scenarios.
    pub const NAMED: &[(&str, Self)] = &[
        ("text", Self::Text),
        ("tools", Self::Tools),
        ("plainest", Self::Plainest),
        ("reduced", Self::Reduced),
    ];

    /// For people.
    pub const fn shown(self) -> &'static str {
        match self {
            Self::Text => "the text says so elsewhere",
            Self::Tools => "its authors' tools do so",
            Self::Plainest => "the plainest",
            Self::Reduced => "what can be run",
        }
    }
}
