//! `[workload]` with `kind = "gather"`: fan-out requests.

use document::DocumentError;
use document::fields::{Fields, Site, Value, between};
use document::topology::{self, named};
use model::{NodeId, NodeKind, Topology};
use units::{Bytes, Rate, Span};
use workload::{Death, Gather, Overload};

type Read<T> = Result<T, DocumentError>;

/// Most requests of a front end.
const MOST_REQUESTS: u32 = 1_000_000;
/// Largest message that a key may name.
const LARGEST: Bytes = Bytes::new(1 << 20);
/// Longest span that a key may name.
const LONGEST: Span = Span::from_secs(3_600);

/// The requests that the table describes; the places of its keys are added to `sites`.
pub(super) fn read(
    fields: &mut Fields<'_>,
    topology: &Topology,
    hosts: &[NodeId],
    sites: &mut Vec<Site>,
) -> Read<Gather> {
    let names = topology::names(topology, |kind| kind == NodeKind::Host);
    let first = fields.optional("front", |v| named(v, "host", &names))?;
    let first = hosts.iter().position(|host| Some(*host) == first).unwrap_or_default();
    let left = u32::try_from(hosts.len() - first).unwrap_or(u32::MAX);
    let fronts = fields.or("fronts", 1, |v| v.integer(1..=left))?;
    let gather = Gather {
        fronts: hosts[first..][..fronts as usize].to_vec(),
        requests: fields.need("requests", "20")?.integer(1..=MOST_REQUESTS)?,
        objects: fields.need("objects", "1000")?.integer(1..=Gather::MOST_OBJECTS)?,
        sizes: (
            fields.or("smallest", Bytes::new(20), size).map(octets)?,
            fields.or("largest", Bytes::new(1000), size).map(octets)?,
        ),
        copies: fields.or("copies", 3, |v| v.integer(1..=16))?,
        query: fields.or("query", Bytes::new(20), size).map(octets)?,
        order: fields
            .or("order", Bytes::new(20), |v| between(v, Bytes::ZERO, LARGEST))
            .map(octets)?,
        period: fields
            .or("period", Span::from_millis(10), |v| between(v, Span::from_micros(10), LONGEST))?,
        overload: fields.optional("overload", overload)?,
        death: fields.optional("death", death)?,
    };
    sites.append(&mut fields.sites());
    Ok(gather)
}

fn overload(value: &Value<'_>) -> Read<Overload> {
    let mut fields = value.fields()?;
    let probability = fields.need("probability", "0.5")?.number(0.0..=1.0)?;
    let (least, most) = (Rate::from_bps(1000), Rate::from_mbps(1_000_000));
    let rate = between(&fields.need("rate", "\"2 Mbit/s\"")?, least, most)?;
    let known = fields.or("known", false, Value::flag)?;
    fields.done()?;
    Ok(Overload { probability, rate, known })
}

fn death(value: &Value<'_>) -> Read<Death> {
    let mut fields = value.fields()?;
    let span = |v: &Value<'_>| between(v, Span::ZERO, LONGEST);
    let hub = fields.or("hub", 0, |v| v.integer(0..=(1 << 20)))?;
    let after = span(&fields.need("after", "\"1 ms\"")?)?;
    let detection = span(&fields.need("detection", "\"10 ms\"")?)?;
    fields.done()?;
    Ok(Death { hub, after, detection })
}

fn size(value: &Value<'_>) -> Read<Bytes> {
    between(value, Bytes::new(1), LARGEST)
}

/// An amount already checked to fit.
fn octets(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}
