//! `[[choice]]`: what the text leaves open, what else was possible, and by which rule one value stands.

use std::collections::BTreeMap;

use document::fields::Value;
use document::{DocumentError, Override};

use crate::choice::{Choice, Rule, Tried};
use crate::figure::Figure;
use crate::metrics;

use super::published::metric_name;

type Read<T> = Result<T, DocumentError>;

/// Most choices of a scenario, values of a choice, and settings of a value.
const MOST: usize = 32;
/// Repetitions of each value that doesn't stand, unless the choice says otherwise.
const SEEDS: u32 = 3;

pub(super) fn read(value: &Value<'_>, figures: &[Figure]) -> Read<Vec<Choice>> {
    let mut choices: Vec<Choice> = Vec::new();
    for value in value.list(MOST)? {
        let choice = read_one(&value, figures)?;
        if choices.iter().any(|other| other.about == choice.about) {
            return Err(value.error("is about the same as another; join their values"));
        }
        choices.push(choice);
    }
    Ok(choices)
}

fn read_one(value: &Value<'_>, figures: &[Figure]) -> Read<Choice> {
    let mut fields = value.fields()?;
    let about = said(&fields.need("about", "\"when flows start\"")?)?;
    let stands = said(&fields.need("stands", "\"within 100 us\"")?)?;
    let rule = fields.need("rule", "\"plainest\"")?.choice(Rule::NAMED)?;
    let why = said(&fields.need("why", "\"the text calls them synchronous\"")?)?;
    let members = fields.need("tried", "[{ name = \"1 ms\", set = { … } }]")?;
    let mut tried: Vec<Tried> = Vec::new();
    for member in members.list(MOST)? {
        let one = read_tried(&member, figures)?;
        if one.name == stands || tried.iter().any(|other| other.name == one.name) {
            return Err(member.error("has the name of another value; give it its own"));
        }
        tried.push(one);
    }
    if tried.is_empty() {
        return Err(members.error("is empty; write what else was possible"));
    }
    // Fewer than two have no interval.
    let seeds = fields.or("seeds", SEEDS, |v| v.integer(2..=1000))?;
    fields.done()?;
    Ok(Choice { about, stands, rule, why, tried, seeds })
}

fn read_tried(value: &Value<'_>, figures: &[Figure]) -> Read<Tried> {
    let mut fields = value.fields()?;
    let name = said(&fields.need("name", "\"1 ms\"")?)?;
    let metric = fields.optional("metric", |v| read_metric(v))?.unwrap_or_default();
    if !metric.is_empty() {
        if let Some(table) = fields.get("set") {
            return Err(table.error("and metric exclude each other; make two values of them"));
        }
        fields.done()?;
        return Ok(Tried { name, set: Vec::new(), metric });
    }
    let table = fields.need("set", "{ \"workload.spread\" = \"1 ms\" }")?;
    let mut set = Vec::new();
    for (path, value) in table.members()? {
        let taken = |figure: &&Figure| figure.vary.iter().chain(&figure.repeat).any(|k| k == path);
        if let Some(figure) = figures.iter().find(taken) {
            let number = &figure.number;
            return Err(value.error(format_args!(
                "figure {number} sets it at each point; choose another setting"
            )));
        }
        // The path is checked as that of --set is.
        Override::new(path, "")
            .map_err(|_| value.error("is no path; write keys with dots between"))?;
        set.push(Override::value_of(&format!("choice {name}"), path, value.toml()));
    }
    if set.is_empty() || set.len() > MOST {
        return Err(table.error(format_args!("write 1 to {MOST} settings")));
    }
    fields.done()?;
    Ok(Tried { name, set, metric })
}

/// Metrics by those in whose place they are published.
fn read_metric(value: &Value<'_>) -> Read<BTreeMap<String, String>> {
    let members = value.members()?;
    if members.is_empty() || members.len() > MOST {
        return Err(value.error(format_args!("write 1 to {MOST} metrics")));
    }
    let one = |(from, to): (&str, Value<'_>)| {
        if !metrics::names().any(|name| name == from) {
            return Err(to.error(format_args!("there is no metric {from}; see docs/metrics.md")));
        }
        Ok((from.to_owned(), metric_name(&to, &[])?))
    };
    members.into_iter().map(one).collect()
}

/// A text that says something.
fn said(value: &Value<'_>) -> Read<String> {
    let text = value.text()?;
    if text.trim().is_empty() {
        return Err(value.error("is empty; say something"));
    }
    Ok(text.to_owned())
}
