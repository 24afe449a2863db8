//! What a policy can be told: parameters with kind, range and default, and the values given for them.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use units::{Bytes, Rate, Span};

use crate::{Acknowledgements, Objective, Share};

/// Longest time that a parameter may name: a thousand hours.
pub const LONGEST: Span = Span::from_secs(3_600_000);

/// The shortest time above zero.
pub(crate) const SHORTEST: Span = Span::from_nanos(1);

/// A parameter of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its key in scenarios and configurations.
    pub name: &'static str,
    /// What it sets.
    pub meaning: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// Its value where none is given.
    pub default: Option<Value>,
    /// What holds where there is neither a value nor a default.
    pub otherwise: &'static str,
    /// The other parameter without which a file must give this one.
    pub needed_without: Option<&'static str>,
    /// Where the policy's source gives the default; `None`: it gives none, or the policy is ours. Each
    /// policy says so for itself in its descriptor, also of a parameter that it shares with others.
    pub published: Option<&'static str>,
}

impl Parameter {
    /// A parameter with a default.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        default: Value,
        meaning: &'static str,
    ) -> Self {
        let default = Some(default);
        Self { name, meaning, kind, default, otherwise: "", needed_without: None, published: None }
    }

    /// A parameter without a default; `otherwise` says what holds where no value is given.
    pub const fn optional(
        name: &'static str,
        kind: Kind,
        otherwise: &'static str,
        meaning: &'static str,
    ) -> Self {
        let default = None;
        Self { name, meaning, kind, default, otherwise, needed_without: None, published: None }
    }

    /// The same parameter, whose default is in `section` of the source of the policy that lists it.
    pub const fn published(mut self, section: &'static str) -> Self {
        self.published = Some(section);
        self
    }

    /// The same parameter, which a file must give where it doesn't give `other`.
    pub const fn needed_without(mut self, other: &'static str) -> Self {
        self.needed_without = Some(other);
        self
    }
}

/// What the value of a parameter may be. It shows as the end of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of a whole, written as a fraction.
    Share,
    /// A time within bounds.
    Span(Span, Span),
    /// Octets within bounds.
    Bytes(Bytes, Bytes),
    /// A rate.
    Rate,
    /// An integer within bounds.
    Integer(u64, u64),
    /// `true` or `false`.
    Flag,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// At most so many values of a kind.
    List(&'static Self, usize),
}

impl Kind {
    /// Whether `value` is of this kind and within its bounds.
    pub fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Share, Value::Share(_))
            | (Self::Rate, Value::Rate(_))
            | (Self::Flag, Value::Flag(_)) => true,
            (Self::Span(least, most), Value::Span(span)) => span >= least && span <= most,
            (Self::Bytes(least, most), Value::Bytes(bytes)) => bytes >= least && bytes <= most,
            (Self::Integer(least, most), Value::Integer(n)) => n >= least && n <= most,
            (Self::Choice(names), Value::Choice(name)) => names.contains(name),
            (Self::List(kind, most), Value::List(values)) => {
                values.len() <= *most && values.iter().all(|value| kind.admits(value))
            }
            _ => false,
        }
    }

    /// The least value and the most, where values have an order.
    pub const fn bounds(&self) -> Option<(Value, Value)> {
        match *self {
            Self::Share => Some((Value::Share(Share::LEAST), Value::Share(Share::ALL))),
            Self::Span(least, most) => Some((Value::Span(least), Value::Span(most))),
            Self::Bytes(least, most) => Some((Value::Bytes(least), Value::Bytes(most))),
            Self::Integer(least, most) => Some((Value::Integer(least), Value::Integer(most))),
            Self::Rate | Self::Flag | Self::Choice(_) | Self::List(..) => None,
        }
    }

    /// A value of this kind, to show how one is written.
    pub fn example(&self) -> Value {
        match self {
            Self::Rate => Value::Rate(Rate::from_mbps(4)),
            Self::Flag => Value::Flag(true),
            Self::Choice(names) => Value::Choice(names.first().copied().unwrap_or_default()),
            Self::List(kind, _) => Value::List(alloc::vec![kind.example()]),
            _ => self.bounds().map_or(Value::Flag(true), |(least, _)| least),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share => write!(f, "a number from {} to {}", Share::LEAST, Share::ALL),
            Self::Span(Span::ZERO, most) => write!(f, "a time up to {most}"),
            Self::Span(SHORTEST, most) => write!(f, "a time above 0 s and up to {most}"),
            Self::Span(least, most) => write!(f, "a time from {least} to {most}"),
            Self::Bytes(least, Bytes::MAX) => write!(f, "a size of at least {least}"),
            Self::Bytes(least, most) => write!(f, "a size from {least} to {most}"),
            Self::Rate => f.write_str("a rate"),
            Self::Integer(least, most) => write!(f, "an integer from {least} to {most}"),
            Self::Flag => f.write_str("true or false"),
            Self::Choice(names) => write!(f, "one of {}", names.join(", ")),
            Self::List(kind, most) => write!(f, "a list of at most {most}, each {kind}"),
        }
    }
}

/// The value of a parameter. It shows as TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A part of a whole.
    Share(Share),
    /// A time.
    Span(Span),
    /// Octets.
    Bytes(Bytes),
    /// A rate.
    Rate(Rate),
    /// An integer.
    Integer(u64),
    /// `true` or `false`.
    Flag(bool),
    /// A name out of a few.
    Choice(&'static str),
    /// Values of one kind.
    List(Vec<Self>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => share.fmt(f),
            Self::Span(span) => write!(f, "\"{span}\""),
            Self::Bytes(bytes) => write!(f, "\"{bytes}\""),
            Self::Rate(rate) => write!(f, "\"{rate}\""),
            Self::Integer(integer) => integer.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Choice(name) => write!(f, "\"{name}\""),
            Self::List(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A type that a parameter's value is read as, and made of.
pub trait Typed: Sized {
    /// The value as this type; `None` where it is of another kind or too large.
    fn of(value: &Value) -> Option<Self>;
    /// This as a value.
    fn value(self) -> Value;
}

/// A type with a variant of [`Value`] of its own.
macro_rules! typed {
    ($($type:ty: $variant:ident),*) => {$(
        impl Typed for $type {
            fn of(value: &Value) -> Option<Self> {
                if let Value::$variant(value) = value { Some(*value) } else { None }
            }

            fn value(self) -> Value {
                Value::$variant(self)
            }
        }
    )*};
}

typed!(Share: Share, Span: Span, Bytes: Bytes, Rate: Rate, u64: Integer, bool: Flag);
typed!(&'static str: Choice);

impl Typed for u32 {
    fn of(value: &Value) -> Option<Self> {
        u64::of(value)?.try_into().ok()
    }

    fn value(self) -> Value {
        Value::Integer(self.into())
    }
}

impl Typed for u8 {
    fn of(value: &Value) -> Option<Self> {
        u64::of(value)?.try_into().ok()
    }

    fn value(self) -> Value {
        Value::Integer(self.into())
    }
}

impl<T: Typed> Typed for Vec<T> {
    fn of(value: &Value) -> Option<Self> {
        if let Value::List(values) = value { values.iter().map(T::of).collect() } else { None }
    }

    fn value(self) -> Value {
        Value::List(self.into_iter().map(T::value).collect())
    }
}

/// What it costs to tell a host another limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    /// Nothing, as in a simulation of the policy alone.
    #[default]
    Free,
    /// A message for each limit that changes: prefer stable shares to exactly equal ones.
    Costly,
}

/// The values given for a policy's parameters, and what its hosts are like. [`Default`] gives none, to
/// hosts on Ethernet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    values: BTreeMap<&'static str, Value>,
    segment: Bytes,
    acknowledgements: Acknowledgements,
    messages: Messages,
    objectives: Vec<Objective>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self::new(model::MSS)
    }
}

impl Parameters {
    /// No values, for hosts whose full segment carries `segment` and whose acknowledgements don't count.
    pub const fn new(segment: Bytes) -> Self {
        Self {
            values: BTreeMap::new(),
            segment,
            acknowledgements: Acknowledgements::NONE,
            messages: Messages::Free,
            objectives: Vec::new(),
        }
    }

    /// The same for hosts that acknowledge so.
    #[must_use]
    pub const fn acknowledged(mut self, acknowledgements: Acknowledgements) -> Self {
        self.acknowledgements = acknowledgements;
        self
    }

    /// The same where a message costs this.
    #[must_use]
    pub const fn at_cost(mut self, messages: Messages) -> Self {
        self.messages = messages;
        self
    }

    /// The same with `value` for the parameter `name`.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Typed) -> Self {
        self.set(name, value.value());
        self
    }

    /// Gives `value` to the parameter `name`.
    pub fn set(&mut self, name: &'static str, value: Value) {
        self.values.insert(name, value);
    }

    /// The same with these objectives. Of several that name an application the first counts.
    #[must_use]
    pub fn under(mut self, objectives: Vec<Objective>) -> Self {
        self.objectives = objectives;
        self
    }

    /// The objectives; only `arbiter` has some.
    pub fn objectives(&self) -> &[Objective] {
        &self.objectives
    }

    /// The value given for the parameter `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Checks all values against the `parameters` of a policy.
    pub(crate) fn check(&self, parameters: &'static [Parameter]) -> Result<(), PolicyError> {
        if self.segment == Bytes::ZERO {
            let range = "above 0 B";
            return Err(PolicyError::OutOfRange { parameter: "segment", range });
        }
        for (&name, value) in &self.values {
            match parameters.iter().find(|parameter| parameter.name == name) {
                None => return Err(PolicyError::UnknownParameter(name)),
                Some(Parameter { kind, .. }) if !kind.admits(value) => {
                    return Err(PolicyError::Unfit { parameter: name, kind: *kind });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// What a policy is built from: the values of its parameters, each given or by default.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    pub(crate) parameters: &'static [Parameter],
    pub(crate) given: &'a Parameters,
}

impl Given<'_> {
    /// The value of the parameter `name`, which has a default.
    ///
    /// # Panics
    /// The policy has no such parameter, it has no default, or `T` is not its type. Building the
    /// policy without parameters shows it.
    pub fn get<T: Typed>(&self, name: &str) -> T {
        self.find(name).expect("a parameter with a default")
    }

    /// The value of the parameter `name`, if one was given or is the default.
    ///
    /// # Panics
    /// The policy has no such parameter, or `T` is not its type.
    pub fn find<T: Typed>(&self, name: &str) -> Option<T> {
        let parameter = self.parameters.iter().find(|parameter| parameter.name == name);
        let default = &parameter.expect("a parameter of the policy").default;
        let value = self.given.get(name).or(default.as_ref())?;
        Some(T::of(value).expect("a parameter of this type"))
    }

    /// The objectives.
    pub fn objectives(&self) -> &[Objective] {
        &self.given.objectives
    }

    /// Payload of a full segment of the hosts.
    pub const fn segment(&self) -> Bytes {
        self.given.segment
    }

    /// What the hosts send back for what they get.
    pub const fn acknowledgements(&self) -> Acknowledgements {
        self.given.acknowledgements
    }

    /// What a message to a host costs.
    pub const fn messages(&self) -> Messages {
        self.given.messages
    }
}

/// Why a policy can't be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// No policy has this name.
    UnknownPolicy(String),
    /// The policy has no such parameter.
    UnknownParameter(&'static str),
    /// The value of a parameter is of another kind or out of bounds.
    Unfit {
        /// The parameter.
        parameter: &'static str,
        /// What it may be.
        kind: Kind,
    },
    /// Values that contradict each other.
    OutOfRange {
        /// The parameter to change.
        parameter: &'static str,
        /// What it must be, as the end of a sentence.
        range: &'static str,
    },
}

impl PolicyError {
    /// The parameter to change.
    pub const fn parameter(&self) -> Option<&'static str> {
        match self {
            Self::UnknownPolicy(_) => None,
            Self::UnknownParameter(parameter)
            | Self::Unfit { parameter, .. }
            | Self::OutOfRange { parameter, .. } => Some(parameter),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy(name) => {
                write!(
                    f,
                    "there is no policy \"{name}\"; choose one of {}",
                    crate::NAMES.join(", ")
                )
            }
            Self::UnknownParameter(name) => write!(f, "the policy has no parameter \"{name}\""),
            Self::Unfit { parameter, kind } => write!(f, "{parameter} must be {kind}"),
            Self::OutOfRange { parameter, range } => write!(f, "{parameter} must be {range}"),
        }
    }
}

impl core::error::Error for PolicyError {}
