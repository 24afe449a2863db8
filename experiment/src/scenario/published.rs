//! `[[published]]`: what the text reports, to be held against what comes out.

use super::fields::{Value, unknown};
use super::{PolicySpec, ScenarioError};
use crate::{Published, metrics};

/// Most published figures of a scenario.
const MOST: usize = 1024;

pub(super) fn read(
    value: &Value<'_>,
    policies: &[PolicySpec],
) -> Result<Vec<Published>, ScenarioError> {
    const ANY: std::ops::RangeInclusive<f64> = -1e18..=1e18;
    let labels: Vec<_> = policies.iter().map(|policy| policy.label.as_str()).collect();
    let mut figures: Vec<Published> = Vec::new();
    for value in value.list(MOST)? {
        let mut fields = value.fields()?;
        let policy = fields.need("policy", "\"smsf\"")?;
        let policy = one_of(&policy, policy.text()?, &labels)?;
        let metric = fields.need("metric", "\"jct_mean_s\"")?;
        let figure = Published {
            policy: policy.to_owned(),
            metric: metric_name(&metric)?,
            value: fields.need("value", "1.5")?.number(ANY)?,
            tolerance: fields.need("tolerance", "0.1")?.number(0.0..=1e18)?,
            source: fields.or("source", String::new(), |v| Ok(v.text()?.to_owned()))?,
            note: fields.or("note", String::new(), |v| Ok(v.text()?.to_owned()))?,
        };
        fields.done()?;
        let same =
            |other: &Published| other.policy == figure.policy && other.metric == figure.metric;
        if figures.iter().any(same) {
            return Err(metric.error("is published for this policy already; keep one of the two"));
        }
        figures.push(figure);
    }
    Ok(figures)
}

/// The name of a metric that exists.
pub(super) fn metric_name(value: &Value<'_>) -> Result<String, ScenarioError> {
    let names: Vec<_> = metrics::names().collect();
    one_of(value, value.text()?, &names).map(str::to_owned)
}

fn one_of<'a>(value: &Value<'_>, text: &'a str, names: &[&str]) -> Result<&'a str, ScenarioError> {
    if names.contains(&text) {
        return Ok(text);
    }
    Err(value.error(unknown(text, names)))
}
