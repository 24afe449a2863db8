//! Objectives: what applications are to get, by which policy, and who yields to whom.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use units::Span;

use crate::{Descriptor, DirectiveKind, Need, Parameters, PolicyError, Share};

/// What a group of applications is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// How people call it.
    pub name: String,
    /// The applications: names, in which a `*` stands for any text.
    pub applications: Vec<String>,
    /// The policy that divides among their flows what the objective is given.
    pub policy: &'static Descriptor,
    /// Its parameters.
    pub parameters: Parameters,
    /// Who yields to whom.
    pub aim: Aim,
}

/// What an objective asks of every link that its flows take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// A share in proportion to a weight.
    Weight(u32),
    /// Before all others what it carries and what lets it deliver within the target.
    Latency {
        /// The time in which what waits is to be delivered.
        target: Span,
        /// The part of a link that it may take first.
        most: Share,
    },
    /// Before all but latencies what its jobs need to end in time.
    Deadline {
        /// From the start of a job to its end.
        within: Span,
        /// The part of a link that it may take first.
        most: Share,
    },
    /// What others leave.
    Background,
}

impl Aim {
    /// The largest weight.
    pub const MOST: u32 = 1_000_000;

    /// Its weight where links are divided by weight; zero takes part in no such division.
    pub(crate) const fn weight(self) -> u32 {
        match self {
            Self::Weight(weight) => weight,
            Self::Latency { .. } | Self::Deadline { .. } => 1,
            Self::Background => 0,
        }
    }
}

impl fmt::Display for Aim {
    /// For people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight(weight) => write!(f, "weight {weight}"),
            Self::Latency { target, .. } => write!(f, "latency {target}"),
            Self::Deadline { within, .. } => write!(f, "deadline {within}"),
            Self::Background => f.write_str("background"),
        }
    }
}

impl Objective {
    /// Most objectives of a configuration.
    pub const MOST: usize = 64;

    /// Whether an application of this name is under the objective.
    pub fn names(&self, application: &str) -> bool {
        self.applications.iter().any(|pattern| matches(pattern, application))
    }

    /// Whether it can be an objective.
    ///
    /// # Errors
    /// Its policy speaks of more than the rates of its own flows; a number is out of bounds.
    pub fn check(&self) -> Result<(), PolicyError> {
        let policy = self.policy;
        let says_more = policy.directives.iter().any(|kind| *kind != DirectiveKind::Pace);
        if says_more || policy.needs(Need::Tags) {
            let range =
                "one that says rates of flows only: others decide about whole ports or hosts";
            return Err(PolicyError::OutOfRange { parameter: "policy", range });
        }
        if matches!(self.aim, Aim::Weight(weight) if weight == 0 || weight > Aim::MOST) {
            let range = "from 1 to 1000000";
            return Err(PolicyError::OutOfRange { parameter: "weight", range });
        }
        let (Aim::Latency { target: span, .. } | Aim::Deadline { within: span, .. }) = self.aim
        else {
            return Ok(());
        };
        if span == Span::ZERO {
            let parameter =
                if matches!(self.aim, Aim::Latency { .. }) { "latency" } else { "deadline" };
            return Err(PolicyError::OutOfRange { parameter, range: "above 0 s" });
        }
        Ok(())
    }
}

/// Whether `text` is of the form `pattern`, in which a `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, does) in [
            ("sort", "sort", true),
            ("sort", "sorts", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("storm-*", "storm-", true),
            ("storm-*", "storm", false),
            ("*-sort", "terasort", false),
            ("*-sort", "tera-sort", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("aa*aa", "aaa", false),
            ("a**b", "ab", true),
            ("é*", "éa", true),
        ] {
            assert_eq!(matches(pattern, text), does, "{pattern} {text}");
        }
    }
}
