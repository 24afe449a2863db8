//! A policy and its parameters, as [`policy::POLICIES`] describes them; `arbiter` has objectives besides.

use policy::{Descriptor, Kind, Parameters, Value as Content};
use units::Bytes;

use crate::fields::{Fields, Value, between, unknown};
use crate::{DocumentError, objectives};

type Read<T> = Result<T, DocumentError>;

/// The field `name` and the parameters of the policy that it names, for hosts whose full segment carries
/// `segment`. The policy can be built with them.
///
/// # Errors
/// There is no such policy, or a value is of the wrong kind, out of bounds, or contradicts another.
pub fn read(fields: &mut Fields<'_>, segment: Bytes) -> Read<(&'static Descriptor, Parameters)> {
    let named = fields.need("name", "\"smsf\"")?;
    let name = named.text()?;
    let policy = policy::find(name).map_err(|_| named.error(unknown(name, &policy::NAMES)))?;
    let mut parameters = Parameters::new(segment);
    for parameter in policy.parameters {
        if let Some(value) = fields.optional(parameter.name, |v| content(v, &parameter.kind))? {
            parameters.set(parameter.name, value);
        }
    }
    for parameter in policy.parameters {
        let is_given = |name: &str| parameters.get(name).is_some();
        let is_missing = |other: &str| !is_given(other) && !is_given(parameter.name);
        if parameter.needed_without.is_some_and(is_missing) {
            fields.need(parameter.name, &parameter.kind.example().to_string())?;
        }
    }
    if policy == policy::ARBITER {
        parameters = parameters.under(objectives::read(fields, |fields| read(fields, segment))?);
    }
    // The policy itself knows what its parameters may be together.
    if let Err(error) = policy.build(&parameters) {
        let place = error.parameter().and_then(|name| fields.get(name));
        return Err(place.map_or_else(|| fields.error(&error), |value| value.error(&error)));
    }
    Ok((policy, parameters))
}

fn content(value: &Value<'_>, kind: &Kind) -> Read<Content> {
    Ok(match *kind {
        Kind::Share => Content::Share(value.share()?),
        Kind::Span(least, most) => Content::Span(between(value, least, most)?),
        Kind::Bytes(least, most) => Content::Bytes(between(value, least, most)?),
        Kind::Rate => Content::Rate(value.quantity()?),
        Kind::Integer(least, most) => Content::Integer(value.integer(least..=most)?),
        Kind::Flag => Content::Flag(value.flag()?),
        Kind::Choice(names) => {
            let names: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
            Content::Choice(value.choice(&names)?)
        }
        Kind::List(kind, most) => {
            let members = value.list(most)?;
            Content::List(members.iter().map(|v| content(v, kind)).collect::<Read<_>>()?)
        }
    })
}
