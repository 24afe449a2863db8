//! `[[policy]]`: who decides, one run each.

use packet::Transport;
use policy::matching::MOST_SLOTS;
use policy::syn::Order;
use policy::{
    GATHERING, Parameters, Pause, Policy, PolicyError, Share, app_aware, dclas, sicc, smsf, srb,
    syn,
};
use units::{Bytes, Span};

use super::fields::{Fields, Value, unknown};
use super::{ScenarioError, transport, windows};

/// Most policies of a scenario.
const MOST: usize = 64;
/// Most rates given beforehand.
const MOST_RATES: usize = 100_000;
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
    let segment = Bytes::new(u64::from(transport.mss));
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
        "sdtcp" => parameters.sdtcp = windows::read_sdtcp(&mut fields, segment)?,
        "sdtcp-hold" => parameters.hold = windows::read_hold(&mut fields, segment)?,
        "sab" => parameters.sab = windows::read_sab(&mut fields, segment)?,
        "sicc" | "sicc-joint" => parameters.sicc = read_sicc(&mut fields)?,
        "app-aware" => parameters.app_aware = app_aware(&mut fields, parameters.app_aware)?,
        "app-aware-fast" => {
            parameters.app_aware_fast = app_aware(&mut fields, parameters.app_aware_fast)?;
        }
        "static" => {
            let rates = fields.need("rates", "[\"4 Mbit/s\", \"6 Mbit/s\"]")?.list(MOST_RATES)?;
            parameters.fixed = rates.iter().map(Value::quantity).collect::<Result<_, _>>()?;
        }
        "sebf" => parameters.sebf = fields.or("pause", parameters.sebf, pause)?,
        "bssf" => parameters.bssf = fields.or("pause", parameters.bssf, pause)?,
        "srb" => {
            let default = parameters.srb;
            parameters.srb = srb::Parameters {
                pause: fields.or("pause", default.pause, pause)?,
                guard: srb::Ration {
                    threshold: fields.or("threshold", default.guard.threshold, span)?,
                    share: fields.or("share", default.guard.share, share)?,
                },
            };
        }
        "dclas" => {
            let default = parameters.dclas;
            parameters.dclas = dclas::Parameters {
                queues: fields
                    .or("queues", default.queues, |v| v.integer(1..=dclas::Parameters::MOST))?,
                first: fields.or("first", default.first, Value::quantity)?,
                factor: fields.or("factor", default.factor, |v| v.integer(2..=1_000))?,
                pause: fields.or("pause", default.pause, pause)?,
            };
        }
        _ => {}
    }
    fields.done()?;
    let spec = PolicySpec { label, name, parameters, transport };
    // The policy itself knows what its parameters may be together.
    let policy = spec.build().map_err(|error| value.error(error))?;
    if policy.watch().is_some() && !transport.handshake {
        return Err(value.error(format_args!(
            "{name} reads SYN and FIN at switches; write handshake = true into [transport]"
        )));
    }
    Ok(spec)
}

fn read_sicc(fields: &mut Fields<'_>) -> Result<sicc::Parameters, ScenarioError> {
    let default = sicc::Parameters::default();
    let yielding = default.yielding;
    Ok(sicc::Parameters {
        proximity: fields.or("proximity", default.proximity, Value::flag)?,
        tree: fields.or("tree", default.tree, Value::flag)?,
        speed: fields.or("speed", default.speed, Value::flag)?,
        redirect: fields.or("redirect", default.redirect, Value::flag)?,
        pack: fields.or("pack", default.pack, Value::flag)?,
        hubs: fields.optional("hubs", |v| v.integer(1..=u32::MAX))?,
        yielding: sicc::speed::Yielding {
            growth: fields.or("alpha", yielding.growth, share)?,
            cut: fields.or("beta", yielding.cut, share)?,
            threshold: fields.or("threshold", yielding.threshold, share)?,
        },
    })
}

/// Refuses policies under which fan-out requests would wait for ever: nobody says how to gather.
pub(super) fn check_gathering(
    value: &Value<'_>,
    policies: &[PolicySpec],
) -> Result<(), ScenarioError> {
    match policies.iter().find(|policy| !GATHERING.contains(&policy.name)) {
        Some(policy) => Err(value.error(format_args!(
            "{} doesn't say how to gather requests; use {}",
            policy.name,
            GATHERING.join(", ")
        ))),
        None => Ok(()),
    }
}

fn app_aware(
    fields: &mut Fields<'_>,
    default: app_aware::Parameters,
) -> Result<app_aware::Parameters, ScenarioError> {
    let interval = fields.or("interval", default.interval, span)?;
    // The text's queues are to drain within the next interval.
    let horizon = if default.horizon == default.interval { interval } else { default.horizon };
    Ok(app_aware::Parameters {
        interval,
        horizon: fields.or("horizon", horizon, span)?,
        division: app_aware::Division {
            bottleneck: fields.or("bottleneck", default.division.bottleneck, share)?,
            floor: fields.or("floor", default.division.floor, share)?,
            usable: fields.or("usable", default.division.usable, share)?,
        },
        hysteresis: fields.optional("hysteresis", share)?.or(default.hysteresis),
    })
}

fn pause(value: &Value<'_>) -> Result<Pause, ScenarioError> {
    Pause::new(span(value)?).map_err(|error| value.error(error))
}

/// A share of a whole as a fraction, to parts per million.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked first
pub(super) fn share(value: &Value<'_>) -> Result<Share, ScenarioError> {
    let fraction = value.number(1e-6..=1.0)?;
    Share::from_ppm((fraction * 1e6).round() as u32).map_err(|error| value.error(error))
}

pub(super) fn span(value: &Value<'_>) -> Result<Span, ScenarioError> {
    transport::between(value, Span::ZERO, LONGEST)
}
