//! `[[published]]`: values that the text reports, to be compared with ours.

use std::collections::BTreeSet;

use document::fields::{Fields, Value, unknown};
use document::{Document, DocumentError};

use super::choice::said;
use super::policy::PolicySpec;
use crate::figure::Figure;
use crate::metrics;
use crate::published::{Bound, Claim, Published, ReadFrom, Reading, Standing};

/// Most published figures of a scenario.
const MOST: usize = 1024;
/// Largest published value.
const MOST_VALUE: f64 = 1e18;
/// Most settings solved from one published value.
const MOST_SOLVED: usize = 16;

pub(super) fn read(
    value: &Value<'_>,
    policies: &[PolicySpec],
    applications: &[&str],
    figures: &[Figure],
    document: &Document<'_>,
) -> Result<Vec<Published>, DocumentError> {
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
        if figure.is_some_and(|figure| figure.seeds == 1) {
            let what = "one repetition has no interval; write seeds = 2 or more in its figure";
            return Err(fields.error(what));
        }
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
        let reading = fields.optional("reading", |v| read_reading(v))?;
        let claim = claim(&mut fields)?;
        let least = fields.or("least", 0.0, |v| match claim.size() {
            Some(_) => Err(v.error("goes with a direction, and a value is a size; remove one")),
            None => v.number(0.0..=MOST_VALUE),
        })?;
        let needs_tolerance = claim.size().is_some() && reading.is_none();
        let tolerance = match reading {
            _ if needs_tolerance => fields.need("tolerance", "0.1")?.number(0.0..=MOST_VALUE)?,
            Some(Reading { error, .. }) => {
                fields.or("tolerance", error, |v| v.number(0.0..=MOST_VALUE))?
            }
            None => 0.0,
        };
        let published = Published {
            figure: figure.map(|figure| figure.number.clone()).unwrap_or_default(),
            policy: policy.to_owned(),
            metric: metric_name(&metric, applications)?,
            against,
            at,
            claim,
            least,
            bound: fields.or("bound", Bound::Both, |v| v.choice(BOUNDS))?,
            tolerance,
            reading,
            standing: standing(&mut fields, document)?,
            source: fields.or("source", String::new(), |v| Ok(v.text()?.to_owned()))?,
            note: fields.or("note", String::new(), |v| Ok(v.text()?.to_owned()))?,
            reason: fields.or("reason", String::new(), |v| Ok(v.text()?.to_owned()))?,
            headline: fields.or("headline", false, Value::flag)?,
        };
        sized(&fields, &published)?;
        let is_ruled = published.is_by_rule() || published.least > 0.0;
        if is_ruled && published.note.trim().is_empty() {
            let what = "a rule of ours makes the size; say which in note";
            return Err(fields.error(what));
        }
        fields.done()?;
        let about = |p: &Published| {
            (p.figure.clone(), p.policy.clone(), p.key(), p.at.as_ref().map(ToString::to_string))
        };
        if all.iter().any(|other| about(other) == about(&published)) {
            return Err(metric.error("is published for this policy already; keep one of the two"));
        }
        all.push(published);
    }
    let solved = |one: &Published| match &one.standing {
        Standing::Calibrates(paths) => Some(paths.clone()),
        _ => None,
    };
    let from: Vec<Vec<String>> = all.iter().filter_map(solved).collect();
    let settings: BTreeSet<&String> = from.iter().flatten().collect();
    if from.len() > settings.len() {
        return Err(value.error(format_args!(
            "has {} values that calibrate {} settings; no more values can be arranged than settings \
             are solved: remove calibrates from the others, which are then judged",
            from.len(),
            settings.len()
        )));
    }
    Ok(all)
}

/// The size of an effect, or an order of which no size is known.
fn claim(fields: &mut Fields<'_>) -> Result<Claim, DocumentError> {
    const DIRECTIONS: &[(&str, Claim)] = &[("more", Claim::More), ("less", Claim::Less)];
    let direction = fields.optional("direction", |v| v.choice(DIRECTIONS))?;
    let Some(direction) = direction else {
        let value = fields.need("value", "1.5")?.number(-MOST_VALUE..=MOST_VALUE)?;
        return Ok(Claim::Size(value));
    };
    for key in ["value", "bound", "tolerance"] {
        if let Some(value) = fields.get(key) {
            return Err(
                value.error("goes with a size, and direction says that none is known; remove one")
            );
        }
    }
    Ok(direction)
}

fn read_reading(value: &Value<'_>) -> Result<Reading, DocumentError> {
    let mut fields = value.fields()?;
    let from = fields.need("from", "\"text\"")?.choice(ReadFrom::NAMED)?;
    let error = fields.need("error", "0.005")?.number(0.0..=MOST_VALUE)?;
    fields.done()?;
    Ok(Reading { from, error })
}

/// Why the comparison tells nothing, where the scenario says so.
fn standing(fields: &mut Fields<'_>, document: &Document<'_>) -> Result<Standing, DocumentError> {
    let solved = fields.optional("calibrates", |v| {
        let members = v.list(MOST_SOLVED)?;
        if members.is_empty() {
            return Err(v.error("is empty; name the settings that were solved from the value"));
        }
        let paths = members.iter().map(|member| {
            let path = member.text()?;
            match document.has(path) {
                true => Ok(path.to_owned()),
                false => Err(member
                    .error(format_args!("there is no setting {path}; name one as --set does"))),
            }
        });
        paths.collect::<Result<Vec<_>, _>>()
    })?;
    let follows = fields.optional("follows_from", |v| Ok((v.text()?.to_owned(), v.clone())))?;
    let lacks = fields.optional("lacks", |v| Ok((said(v)?, v.clone())))?;
    match (solved, follows, lacks) {
        (None, None, None) => Ok(Standing::Open),
        (Some(paths), None, None) => Ok(Standing::Calibrates(paths)),
        (None, Some((why, _)), None) => Ok(Standing::Follows(why)),
        (None, None, Some((what, _))) => Ok(Standing::Lacks(what)),
        (_, Some((_, value)), _) | (_, _, Some((_, value))) => {
            Err(value.error("calibrates, follows_from and lacks exclude each other; keep one"))
        }
    }
}

/// Refuses what says less than a text would: an order has no size, and no effect is no bound.
fn sized(fields: &Fields<'_>, published: &Published) -> Result<(), DocumentError> {
    let neutral = published.no_effect();
    match published.claim {
        Claim::More | Claim::Less if neutral.is_none() => Err(fields.error(
            "direction needs a comparison; add against, or write value with what is published",
        )),
        Claim::Size(value) if published.bound != Bound::Both && neutral == Some(value) => {
            Err(fields.error(
                "a bound at no effect says nothing of a size; write the size that the text gives, or, \
                 where it gives none, direction = \"more\" or \"less\" without value, bound and tolerance",
            ))
        }
        _ => Ok(()),
    }
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
