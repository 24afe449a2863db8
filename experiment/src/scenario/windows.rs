//! Parameters of the policies that set windows at switches: `sdtcp`, `sdtcp-hold`, `sab`; and
//! `[[monitor]]`, queues to watch.

use engine::Monitor;
use model::Topology;
use policy::trigger::Thresholds;
use policy::{hold, sab, sdtcp};
use units::{Bytes, Span};

use super::fields::{Fields, Value};
use super::policy::{share, span};
use super::{ScenarioError, topology, transport};

type Read<T> = Result<T, ScenarioError>;

pub(super) fn read_sdtcp(fields: &mut Fields<'_>, segment: Bytes) -> Read<sdtcp::Parameters> {
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
            transport::between(v, Bytes::ZERO, Bytes::new(1 << 50))
        })?,
        background_age: fields.or("background_age", default.background_age, span)?,
        low_share: fields.or("low_share", default.low_share, share)?,
        medium_share: fields.or("medium_share", default.medium_share, share)?,
        segment,
        statistics: fields.or("statistics", default.statistics, span)?,
    })
}

pub(super) fn read_hold(fields: &mut Fields<'_>, segment: Bytes) -> Read<hold::Parameters> {
    let default = hold::Parameters::default();
    Ok(hold::Parameters {
        target: fields.or("target", default.target, share)?,
        segment,
        queues: fields.or("queues", default.queues, span)?,
        statistics: fields.or("statistics", default.statistics, span)?,
    })
}

pub(super) fn read_sab(fields: &mut Fields<'_>, segment: Bytes) -> Read<sab::Parameters> {
    let default = sab::Parameters::default();
    let buffer_share = fields.or("buffer_share", default.buffer_share, share)?;
    Ok(sab::Parameters { buffer_share, segment })
}

/// The tables `[[monitor]]`: `from`, `to`, `interval`.
pub(super) fn read_monitors(values: &[Value<'_>], topology: &Topology) -> Read<Vec<Monitor>> {
    let read = |value: &Value<'_>| {
        let mut fields = value.fields()?;
        let link = topology::read_port(&mut fields, topology)?;
        let interval = fields.or("interval", Span::from_millis(1), |v| {
            transport::between(v, Span::from_micros(1), Span::from_secs(3600))
        })?;
        let start = fields.or("start", Span::ZERO, |v| {
            transport::between(v, Span::ZERO, Span::from_secs(3600))
        })?;
        fields.done()?;
        Ok(Monitor { link, interval, start })
    };
    values.iter().map(read).collect()
}
