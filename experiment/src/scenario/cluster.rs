//! `[workload.cluster]`: containers in which the tasks of shuffle jobs run.

use document::DocumentError;
use document::fields::{Fields, Site, Value, between};
use units::{Rate, Span};
use workload::Cluster;

/// Most containers of a host, and most entries of a list of them.
const MOST: u32 = 65_536;

/// Reads the table and adds the place of each key to `sites`.
pub(super) fn read(
    value: &Value<'_>,
    hosts: usize,
    sites: &mut Vec<Site>,
) -> Result<Cluster, DocumentError> {
    let mut fields = value.fields()?;
    let containers = containers(&fields.need("containers", "[6, 6, 3]")?)?;
    let all = containers.iter().cycle().take(hosts).fold(0, |sum: u32, n| sum.saturating_add(*n));
    let cluster = Cluster {
        // At most half of the containers run masters.
        most_jobs: fields.or("most_jobs", (all / 2).max(1), |v| v.integer(1..=u32::MAX))?,
        slow_start: fields.or("slow_start", 0.05, |v| v.number(0.0..=1.0))?,
        fetches: fields.or("fetches", 5, |v| v.integer(1..=MOST))?,
        startup: fields.or("startup", Span::from_secs(2), span)?,
        map_rate: rate(&mut fields, "map_rate")?,
        reduce_rate: rate(&mut fields, "reduce_rate")?,
        variation: fields.or("variation", 0.0, |v| v.number(0.0..=0.99))?,
        containers,
    };
    sites.append(&mut fields.sites());
    fields.done()?;
    Ok(cluster)
}

/// A number for all hosts, or a list that repeats.
fn containers(value: &Value<'_>) -> Result<Vec<u32>, DocumentError> {
    if !value.is_list() {
        return Ok(vec![value.integer(1..=MOST)?]);
    }
    let each = value.list(MOST as usize)?;
    if each.is_empty() {
        return Err(value.error("is empty; write the containers of each host"));
    }
    each.iter().map(|value| value.integer(0..=MOST)).collect()
}

fn rate(fields: &mut Fields<'_>, key: &'static str) -> Result<Rate, DocumentError> {
    let value = fields.need(key, "\"400 Mbit/s\"")?;
    between(&value, Rate::from_bps(1000), Rate::from_mbps(100_000_000))
}

fn span(value: &Value<'_>) -> Result<Span, DocumentError> {
    between(value, Span::ZERO, Span::from_secs(3_600_000))
}
