//! `[[published]]`: values that the text reports, to be compared with ours.

use document::fields::{Fields, Value, unknown};
use document::{Document, DocumentError};

use super::policy::PolicySpec;
use crate::figure::Figure;
use crate::metrics;
use crate::published::{Bound, Published};

/// Most published figures of a scenario.
const MOST: usize = 1024;

pub(super) fn read(
    value: &Value<'_>,
    policies: &[PolicySpec],
    applications: &[&str],
    figures: &[Figure],
) -> Result<Vec<Published>, DocumentError> {
    const ANY: std::ops::RangeInclusive<f64> = -1e18..=1e18;
    const BOUNDS: &[(&str, Bound)] = &[("at least", Bound::AtLeast), ("at most", Bound::AtMost)];
    let labels: Vec<_> = policies.iter().map(|policy| policy.label.as_str()).collect();
    let mut all: Vec<Published> = Vec::new();
    for value in value.list(MOST)? {
        let mut fields = value.fields()?;
        let policy = fields.need("policy", "\"smsf\"")?;
        let policy = one_of(&policy, policy.text()?, &labels)?;
        let metric = fields.need("metric", "\"jct_mean_s\"")?;
        let against = fields.optional("against", |v| {
            let other = one_of(v, v.text()?, &labels)?;
            match metrics::is_change(metric.text()?) {
                true => Err(v.error("the metric is a change already; remove against")),
                false if other == policy => Err(v.error("is the policy itself; name another")),
                false => Ok(other.to_owned()),
            }
        })?;
        let figure = owner(&mut fields, figures)?;
        let at = fields.optional("at", |v| {
            let at = v.setting()?;
            let over = figure.map(|figure| &figure.over).filter(|over| !over.is_empty());
            let Some(over) = over else {
                return Err(v.error("there is no axis; remove it, or add [figure] with vary"));
            };
            if !over.iter().any(|point| point.first() == Some(&at)) {
                return Err(v.error(format_args!("{at} isn't in figure.over; choose from there")));
            }
            Ok(at)
        })?;
        let published = Published {
            figure: figure.map(|figure| figure.number.clone()).unwrap_or_default(),
            policy: policy.to_owned(),
            metric: metric_name(&metric, applications)?,
            against,
            at,
            value: fields.need("value", "1.5")?.number(ANY)?,
            bound: fields.or("bound", Bound::Both, |v| v.choice(BOUNDS))?,
            tolerance: fields.need("tolerance", "0.1")?.number(0.0..=1e18)?,
            source: fields.or("source", String::new(), |v| Ok(v.text()?.to_owned()))?,
            note: fields.or("note", String::new(), |v| Ok(v.text()?.to_owned()))?,
            reason: fields.or("reason", String::new(), |v| Ok(v.text()?.to_owned()))?,
            headline: fields.or("headline", false, Value::flag)?,
        };
        fields.done()?;
        let about = |p: &Published| {
            (p.figure.clone(), p.policy.clone(), p.key(), p.at.as_ref().map(ToString::to_string))
        };
        if all.iter().any(|other| about(other) == about(&published)) {
            return Err(metric.error("is published for this policy already; keep one of the two"));
        }
        all.push(published);
    }
    Ok(all)
}

/// The figure that a published value belongs to.
fn owner<'f>(
    fields: &mut Fields<'_>,
    figures: &'f [Figure],
) -> Result<Option<&'f Figure>, DocumentError> {
    let numbers: Vec<&str> = figures.iter().map(|figure| figure.number.as_str()).collect();
    match (fields.get("figure"), figures) {
        (Some(value), _) => {
            let number = one_of(&value, value.text()?, &numbers)?;
            Ok(figures.iter().find(|figure| figure.number == number))
        }
        (None, []) => Ok(None),
        (None, [only]) => Ok(Some(only)),
        (None, [first, ..]) => {
            let example = format!("\"{}\"", first.number);
            Err(fields.need("figure", &example).err().unwrap_or_else(|| fields.error("")))
        }
    }
}

/// Whether `published` is about the scenario as it is: its figure's axis has the value `at`.
pub(super) fn applies(published: &Published, figures: &[Figure], document: &Document<'_>) -> bool {
    let Some(at) = &published.at else {
        return true;
    };
    let figure = figures.iter().find(|figure| figure.number == published.figure);
    let key = figure.and_then(|figure| figure.vary.first());
    key.and_then(|key| document.setting(key)).is_some_and(|here| here == *at)
}

/// The name of a metric that exists, of all or of one of the applications.
pub(super) fn metric_name(
    value: &Value<'_>,
    applications: &[&str],
) -> Result<String, DocumentError> {
    let names: Vec<_> = metrics::names().collect();
    let name = value.text()?;
    one_of(value, metrics::metric_of(name, applications), &names)?;
    Ok(name.to_owned())
}

fn one_of<'a>(value: &Value<'_>, text: &'a str, names: &[&str]) -> Result<&'a str, DocumentError> {
    if names.contains(&text) {
        return Ok(text);
    }
    Err(value.error(unknown(text, names)))
}
