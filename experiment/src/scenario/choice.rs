//! `[[choice]]`: what the text leaves open, what else was possible, and by which rule one value stands.

use std::collections::BTreeMap;

use document::fields::{Value, unknown};
use document::{DocumentError, Override};

use crate::choice::{Choice, Rule, Tried};
use crate::figure::Figure;
use crate::metrics;

use super::policy::PolicySpec;

type Read<T> = Result<T, DocumentError>;

/// Most choices of a scenario, values of a choice, and settings of a value.
const MOST: usize = 32;
/// Repetitions of each value that doesn't stand, unless the choice says otherwise.
const SEEDS: u32 = 3;

pub(super) fn read(
    value: &Value<'_>,
    policies: &[PolicySpec],
    applications: &[&str],
    figures: &[Figure],
) -> Read<Vec<Choice>> {
    let names = Names { policies, applications, figures };
    let mut choices: Vec<Choice> = Vec::new();
    for value in value.list(MOST)? {
        let choice = read_one(&value, &names)?;
        if choices.iter().any(|other| other.about == choice.about) {
            return Err(value.error("is about the same as another; join their values"));
        }
        choices.push(choice);
    }
    Ok(choices)
}

fn read_one(value: &Value<'_>, names: &Names<'_>) -> Read<Choice> {
    let mut fields = value.fields()?;
    let about = said(&fields.need("about", "\"when flows start\"")?)?;
    let stands = said(&fields.need("stands", "\"within 100 us\"")?)?;
    let rule = fields.need("rule", "\"plainest\"")?.choice(Rule::NAMED)?;
    let why = said(&fields.need("why", "\"the text calls them synchronous\"")?)?;
    let members = fields.need("tried", "[{ name = \"1 ms\", set = { … } }]")?;
    let mut tried: Vec<Tried> = Vec::new();
    for member in members.list(MOST)? {
        let one = read_tried(&member, names)?;
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
    let (policy, metric) = fields.optional("of", |v| names.of(v))?.unwrap_or_default();
    fields.done()?;
    Ok(Choice { about, stands, rule, why, tried, seeds, policy, metric })
}

fn read_tried(value: &Value<'_>, names: &Names<'_>) -> Read<Tried> {
    let mut fields = value.fields()?;
    let name = said(&fields.need("name", "\"1 ms\"")?)?;
    let metric = fields.optional("metric", |v| read_pairs(v, |name| names.metric(name)))?;
    let against = fields.optional("against", |v| read_pairs(v, |name| names.policy(name)))?;
    let (metric, against) = (metric.unwrap_or_default(), against.unwrap_or_default());
    if !metric.is_empty() || !against.is_empty() {
        if let Some(table) = fields.get("set") {
            let what =
                "and another reading of the same runs exclude each other; make two values of them";
            return Err(table.error(what));
        }
        let follows = fields.optional("follows_from", said)?;
        fields.done()?;
        return Ok(Tried { name, set: Vec::new(), metric, against, follows });
    }
    let table = fields.need("set", "{ \"workload.spread\" = \"1 ms\" }")?;
    let mut set = Vec::new();
    for (path, value) in table.members()? {
        let taken = |figure: &&Figure| figure.vary.iter().chain(&figure.repeat).any(|k| k == path);
        if let Some(figure) = names.figures.iter().find(taken) {
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
    Ok(Tried { name, set, metric, against, follows: None })
}

/// What a choice may name.
struct Names<'a> {
    policies: &'a [PolicySpec],
    applications: &'a [&'a str],
    figures: &'a [Figure],
}

impl Names<'_> {
    /// The policy and the metric of the published values that a choice is about.
    fn of(&self, value: &Value<'_>) -> Read<(Option<String>, Option<String>)> {
        let mut fields = value.fields()?;
        let named = |v: &Value<'_>, check: &dyn Fn(&str) -> Result<(), String>| {
            check(v.text()?).map_err(|what| v.error(what))?;
            Ok(v.text()?.to_owned())
        };
        let policy = fields.optional("policy", |v| named(v, &|name| self.policy(name)))?;
        let metric = fields.optional("metric", |v| named(v, &|name| self.metric(name)))?;
        if policy.is_none() && metric.is_none() {
            return Err(fields.error("names nothing; write policy, metric or both"));
        }
        fields.done()?;
        Ok((policy, metric))
    }

    fn policy(&self, name: &str) -> Result<(), String> {
        let labels: Vec<_> = self.policies.iter().map(|policy| policy.label.as_str()).collect();
        if labels.contains(&name) { Ok(()) } else { Err(unknown(name, &labels)) }
    }

    fn metric(&self, name: &str) -> Result<(), String> {
        let known = metrics::metric_of(name, self.applications);
        let names: Vec<_> = metrics::names().collect();
        if names.contains(&known) { Ok(()) } else { Err(unknown(name, &names)) }
    }
}

/// Names by those in whose place they are taken, all of which `check` knows.
fn read_pairs(
    value: &Value<'_>,
    check: impl Fn(&str) -> Result<(), String>,
) -> Read<BTreeMap<String, String>> {
    let members = value.members()?;
    if members.is_empty() || members.len() > MOST {
        return Err(value.error(format_args!("write 1 to {MOST} names")));
    }
    let one = |(from, to): (&str, Value<'_>)| {
        let name = to.text()?;
        check(from).and_then(|()| check(name)).map_err(|what| to.error(what))?;
        Ok((from.to_owned(), name.to_owned()))
    };
    members.into_iter().map(one).collect()
}

/// A text that says something.
pub(super) fn said(value: &Value<'_>) -> Read<String> {
    let text = value.text()?;
    if text.trim().is_empty() {
        return Err(value.error("is empty; say something"));
    }
    Ok(text.to_owned())
}
