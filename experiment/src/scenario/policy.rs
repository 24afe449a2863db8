//! `[[policy]]`: who decides, one run each.

use packet::Transport;
use policy::matching::MOST_SLOTS;
use policy::syn::Order;
use policy::{Parameters, Policy, PolicyError, Share, smsf, syn};
use units::{Bytes, Span};

use super::fields::{Value, unknown};
use super::{ScenarioError, transport};

/// Most policies of a scenario.
const MOST: usize = 64;
/// Longest time that a parameter may name: a thousand hours.
const LONGEST: Span = Span::from_secs(3_600_000);

const ORDERS: &[(&str, Order)] = &[("ocf", Order::Ocf), ("srjf", Order::Srjf), ("mmf", Order::Mmf)];

/// One policy of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySpec {
    /// How results name it; unique in the scenario.
    pub label: String,
    /// Which policy it is, one of [`policy::NAMES`].
    pub name: &'static str,
    /// Its parameters.
    pub parameters: Parameters,
    /// What the hosts speak in its run.
    pub transport: Transport,
}

impl PolicySpec {
    /// The policy in its initial state.
    ///
    /// # Errors
    /// None for what [`Scenario::read`](super::Scenario::read) accepted.
    pub fn build(&self) -> Result<Box<dyn Policy + Send>, PolicyError> {
        policy::by_name(self.name, &self.parameters)
    }
}

/// The list `[[policy]]`; `base` is what hosts speak where a policy doesn't say otherwise.
pub(super) fn read(value: &Value<'_>, base: Transport) -> Result<Vec<PolicySpec>, ScenarioError> {
    let members = value.list(MOST)?;
    if members.is_empty() {
        return Err(value.error("is empty; add a [[policy]] with name = \"tcp\""));
    }
    let mut policies: Vec<PolicySpec> = Vec::new();
    for member in members {
        let policy = read_one(&member, base)?;
        if policies.iter().any(|other| other.label == policy.label) {
            let what = format!(
                "there are two policies called \"{}\"; give one a label of its own",
                policy.label
            );
            return Err(member.error(what));
        }
        policies.push(policy);
    }
    Ok(policies)
}

fn read_one(value: &Value<'_>, base: Transport) -> Result<PolicySpec, ScenarioError> {
    let mut fields = value.fields()?;
    let named = fields.need("name", "\"smsf\"")?;
    let text = named.text()?;
    let name = policy::NAMES.into_iter().find(|name| *name == text);
    let name = name.ok_or_else(|| named.error(unknown(text, &policy::NAMES)))?;
    let label = fields.or("label", name.to_owned(), Value::name)?;
    let transport = fields.or("transport", base, |v| transport::read(v, base))?;
    let mut parameters = Parameters::default();
    match name {
        "fifo" => parameters.fifo = fields.or("beta", parameters.fifo, share)?,
        "sff" => parameters.sff = fields.or("beta", parameters.sff, share)?,
        "smsf" => {
            let default = smsf::Parameters::default();
            parameters.smsf = smsf::Parameters {
                slow_share: fields.or("beta", default.slow_share, share)?,
                guard: smsf::Guard {
                    threshold: fields.or("threshold", default.guard.threshold, span)?,
                    period: fields.or("period", default.guard.period, span)?,
                    duration: fields.or("duration", default.guard.duration, span)?,
                },
            };
        }
        "syn" => {
            let default = syn::Parameters::default();
            parameters.syn = syn::Parameters {
                order: fields.or("order", default.order, |v| v.choice(ORDERS))?,
                packet: fields.or("packet", default.packet, |v| {
                    transport::between(v, Bytes::new(64), Bytes::new(65_535))
                })?,
                batch: fields.or("batch", default.batch, |v| v.integer(1..=MOST_SLOTS))?,
            };
        }
        _ => {}
    }
    fields.done()?;
    let spec = PolicySpec { label, name, parameters, transport };
    // The policy itself knows what its parameters may be together.
    spec.build().map_err(|error| value.error(error))?;
    Ok(spec)
}

/// A share of a whole as a fraction, to parts per million.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked first
fn share(value: &Value<'_>) -> Result<Share, ScenarioError> {
    let fraction = value.number(1e-6..=1.0)?;
    Share::from_ppm((fraction * 1e6).round() as u32).map_err(|error| value.error(error))
}

fn span(value: &Value<'_>) -> Result<Span, ScenarioError> {
    transport::between(value, Span::ZERO, LONGEST)
}
