//! `[[monitor]]`: queues to watch.

use document::fields::{Value, between};
use document::{DocumentError, topology};
use engine::Monitor;
use model::Topology;
use units::Span;

type Read<T> = Result<T, DocumentError>;

/// The tables `[[monitor]]`: `from`, `to`, `interval`.
pub(super) fn read_monitors(values: &[Value<'_>], topology: &Topology) -> Read<Vec<Monitor>> {
    let read = |value: &Value<'_>| {
        let mut fields = value.fields()?;
        let link = topology::read_port(&mut fields, topology)?;
        let interval = fields.or("interval", Span::from_millis(1), |v| {
            between(v, Span::from_micros(1), Span::from_secs(3600))
        })?;
        let start =
            fields.or("start", Span::ZERO, |v| between(v, Span::ZERO, Span::from_secs(3600)))?;
        fields.done()?;
        Ok(Monitor { link, interval, start })
    };
    values.iter().map(read).collect()
}
