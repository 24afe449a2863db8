//! The parameters of policies, by the names that [`policy::NAMES`] has.

use model::Thresholds;
use policy::matching::MOST_SLOTS;
use policy::syn::Order;

use policy::{
    Parameters, Pause, Share, app_aware, dclas, fixed, hold, sab, sdtcp, sicc, smsf, srb, syn,
};
use units::{Bytes, Span};

use crate::DocumentError;
use crate::fields::{Fields, Value, between, unknown};

type Read<T> = Result<T, DocumentError>;

/// Most rates given beforehand.
const MOST_RATES: usize = 100_000;
/// Longest time that a parameter may name: a thousand hours.
const LONGEST: Span = Span::from_secs(3_600_000);

const ORDERS: &[(&str, Order)] = &[("ocf", Order::Ocf), ("srjf", Order::Srjf), ("mmf", Order::Mmf)];

/// The field `name`: which policy it is.
///
/// # Errors
/// It is missing, or there is no such policy.
pub fn read_name(fields: &mut Fields<'_>) -> Read<&'static str> {
    let named = fields.need("name", "\"smsf\"")?;
    let text = named.text()?;
    let name = policy::NAMES.into_iter().find(|name| *name == text);
    name.ok_or_else(|| named.error(unknown(text, &policy::NAMES)))
}

/// The parameters of the policy `name` among `fields`, of hosts whose full segment carries
/// `segment`.
///
/// # Errors
/// A value of the wrong kind or outside its range.
pub fn read(fields: &mut Fields<'_>, name: &str, segment: Bytes) -> Read<Parameters> {
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
                    between(v, Bytes::new(64), Bytes::new(65_535))
                })?,
                batch: fields.or("batch", default.batch, |v| v.integer(1..=MOST_SLOTS))?,
            };
        }
        "asy" => parameters.asy = fields.or("usable", parameters.asy, share)?,
        "sdtcp" => parameters.sdtcp = read_sdtcp(fields, segment)?,
        "sdtcp-hold" => parameters.hold = read_hold(fields, segment)?,
        "sab" => parameters.sab = read_sab(fields, segment)?,
        "sicc" | "sicc-joint" => parameters.sicc = read_sicc(fields)?,
        "app-aware" => parameters.app_aware = app_aware(fields, parameters.app_aware)?,
        "app-aware-fast" => {
            parameters.app_aware_fast = app_aware(fields, parameters.app_aware_fast)?;
        }
        "static" => {
            fn list<'a>(value: &Value<'a>) -> Read<Vec<Value<'a>>> {
                value.list(MOST_RATES)
            }
            let levels = fields.or("levels", Vec::new(), list)?;
            let rates = match levels[..] {
                [] => {
                    fields.need("rates", "[\"4 Mbit/s\", \"6 Mbit/s\"]").and_then(|v| list(&v))?
                }
                _ => fields.or("rates", Vec::new(), list)?,
            };
            parameters.fixed = fixed::Parameters {
                rates: rates.iter().map(Value::quantity).collect::<Result<_, _>>()?,
                levels: levels.iter().map(|v| v.integer(0..=u8::MAX)).collect::<Result<_, _>>()?,
            };
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
    Ok(parameters)
}

fn read_sicc(fields: &mut Fields<'_>) -> Result<sicc::Parameters, DocumentError> {
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

fn read_sdtcp(fields: &mut Fields<'_>, segment: Bytes) -> Read<sdtcp::Parameters> {
    let default = sdtcp::Parameters::default();
    let packets = |v: &Value<'_>| v.integer(1..=1_000_000);
    Ok(sdtcp::Parameters {
        thresholds: Thresholds {
            low: fields.or("low", default.thresholds.low, packets)?,
            medium: fields.or("medium", default.thresholds.medium, packets)?,
            high: fields.or("high", default.thresholds.high, packets)?,
            recovery: fields.or("recovery", default.thresholds.recovery, span)?,
        },
        background_size: fields.or("background_size", default.background_size, |v| {
            between(v, Bytes::ZERO, Bytes::new(1 << 50))
        })?,
        background_age: fields.or("background_age", default.background_age, span)?,
        low_share: fields.or("low_share", default.low_share, share)?,
        medium_share: fields.or("medium_share", default.medium_share, share)?,
        segment,
        floor_segments: fields.or("floor_segments", default.floor_segments, floor)?,
        statistics: fields.or("statistics", default.statistics, span)?,
    })
}

fn read_hold(fields: &mut Fields<'_>, segment: Bytes) -> Read<hold::Parameters> {
    let default = hold::Parameters::default();
    Ok(hold::Parameters {
        target: fields.or("target", default.target, share)?,
        segment,
        floor_segments: fields.or("floor_segments", default.floor_segments, floor)?,
        queues: fields.or("queues", default.queues, span)?,
        statistics: fields.or("statistics", default.statistics, span)?,
    })
}

fn read_sab(fields: &mut Fields<'_>, segment: Bytes) -> Read<sab::Parameters> {
    let default = sab::Parameters::default();
    let buffer_share = fields.or("buffer_share", default.buffer_share, share)?;
    let floor_segments = fields.or("floor_segments", default.floor_segments, floor)?;
    Ok(sab::Parameters { buffer_share, segment, floor_segments })
}

/// Segments that always fit into a window.
fn floor(value: &Value<'_>) -> Read<u32> {
    value.integer(1..=1_000)
}

fn app_aware(
    fields: &mut Fields<'_>,
    default: app_aware::Parameters,
) -> Result<app_aware::Parameters, DocumentError> {
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

fn pause(value: &Value<'_>) -> Result<Pause, DocumentError> {
    Pause::new(span(value)?).map_err(|error| value.error(error))
}

/// A share of a whole as a fraction, to parts per million.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked first
fn share(value: &Value<'_>) -> Result<Share, DocumentError> {
    let fraction = value.number(1e-6..=1.0)?;
    Share::from_ppm((fraction * 1e6).round() as u32).map_err(|error| value.error(error))
}

fn span(value: &Value<'_>) -> Result<Span, DocumentError> {
    between(value, Span::ZERO, LONGEST)
}
