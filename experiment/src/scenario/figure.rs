//! `[figure]` or `[[figure]]`: which figures of a text a scenario is.

use document::fields::{Value, unknown};
use document::{DocumentError, Setting};

use crate::figure::Figure;
use crate::metrics;

type Read<T> = Result<T, DocumentError>;

/// Most figures of a scenario, keys of an axis, and metrics of a figure.
const MOST: usize = 16;
/// Most points of an axis.
const MOST_POINTS: usize = 256;
/// Most repetitions of a point.
const MOST_SEEDS: u32 = 1000;

pub(super) fn read(value: &Value<'_>) -> Read<Vec<Figure>> {
    let members = if value.is_list() { value.list(MOST)? } else { vec![value.clone()] };
    let mut figures: Vec<Figure> = Vec::new();
    for member in members {
        let figure = read_one(&member)?;
        if figures.iter().any(|other| other.number == figure.number) {
            return Err(
                member.error("has the number of another figure of this file; give it its own")
            );
        }
        figures.push(figure);
    }
    Ok(figures)
}

fn read_one(value: &Value<'_>) -> Read<Figure> {
    let mut fields = value.fields()?;
    let text = fields.need("text", "\"phurti\"")?.label()?;
    let number = number(&fields.need("number", "\"6.4\"")?)?;
    let panel = fields.or("panel", String::new(), |v| Ok(v.text()?.to_owned()))?;
    let vary = fields.or("vary", Vec::new(), texts)?;
    let over = match vary.len() {
        0 => Vec::new(),
        keys => points(&fields.need("over", "[10, 20, 30]")?, keys)?,
    };
    let quick = match fields.get("quick") {
        Some(value) if vary.is_empty() => {
            return Err(value.error("picks values of an axis, and there is none; add vary"));
        }
        Some(value) => {
            let quick = points(&value, vary.len())?;
            if let Some(other) = quick.iter().find(|point| !over.contains(point)) {
                let other = other.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                return Err(value.error(format_args!("{other} isn't in over; choose from there")));
            }
            quick
        }
        None => over.clone(),
    };
    let repeat = fields.or("repeat", vec!["seed".to_owned()], texts)?;
    let seeds = fields.or("seeds", 1, |v| v.integer(1..=MOST_SEEDS))?;
    let draws = fields.optional("draws", |v| v.integer(1..=MOST_SEEDS))?;
    let metric = fields.need("metric", "\"goodput_bps\"")?;
    let metrics = texts(&metric)?;
    let known: Vec<&str> = metrics::names().chain(metrics::distributions()).collect();
    if let Some(name) = metrics.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(metric.error(unknown(name, &known)));
    }
    if metrics.len() > 1 && metrics.iter().any(|name| metrics::distributions().any(|d| d == name)) {
        return Err(metric.error("a distribution stands alone; remove the other names"));
    }
    let x = fields.or("x", String::new(), |v| Ok(v.text()?.to_owned()))?;
    let x = if x.is_empty() { vary.first().cloned().unwrap_or_default() } else { x };
    let y = fields.or("y", String::new(), |v| Ok(v.text()?.to_owned()))?;
    let trace = fields.optional("trace", file_name)?;
    let same_values_as = fields.optional("same_values_as", |v| match self::number(v)? {
        own if own == number => Err(v.error("is the figure itself; name another, or remove it")),
        other => Ok(other),
    })?;
    fields.done()?;
    Ok(Figure {
        text,
        number,
        panel,
        vary,
        over,
        quick,
        seeds,
        draws,
        repeat,
        metrics,
        x,
        y,
        same_values_as,
        trace,
    })
}

/// The number of a figure: 1 to 16 letters, digits, `.`, `-`.
pub(super) fn number(value: &Value<'_>) -> Read<String> {
    let text = value.text()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    if text.is_empty() || text.len() > MOST || !text.chars().all(plain) {
        return Err(
            value.error(format_args!("is no number; use 1 to {MOST} letters, digits, . and -"))
        );
    }
    Ok(text.to_owned())
}

/// A text or a list of some.
fn texts(value: &Value<'_>) -> Read<Vec<String>> {
    if !value.is_list() {
        return Ok(vec![value.text()?.to_owned()]);
    }
    let members = value.list(MOST)?;
    if members.is_empty() {
        return Err(value.error("is empty; write at least one"));
    }
    members.iter().map(|member| Ok(member.text()?.to_owned())).collect()
}

/// Points of an axis, of `keys` values each.
fn points(value: &Value<'_>, keys: usize) -> Read<Vec<Vec<Setting>>> {
    let members = value.list(MOST_POINTS)?;
    if members.is_empty() {
        return Err(value.error("is empty; write at least one value"));
    }
    let mut points = Vec::new();
    for member in members {
        let point = if keys == 1 && !member.is_list() {
            vec![member.setting()?]
        } else {
            let values = member.list(MOST)?;
            if values.len() != keys {
                let what = format!(
                    "has {} values for {keys} keys of vary; write one for each",
                    values.len()
                );
                return Err(member.error(what));
            }
            values.iter().map(Value::setting).collect::<Read<_>>()?
        };
        if points.contains(&point) {
            return Err(member.error("is there twice; remove one"));
        }
        points.push(point);
    }
    Ok(points)
}

/// The name of a file, without folders.
fn file_name(value: &Value<'_>) -> Read<String> {
    let text = value.text()?;
    if text.is_empty() || text.contains(['/', '\\', '\0']) || text == ".." || text == "." {
        return Err(value.error("is no file name; write it without folders"));
    }
    Ok(text.to_owned())
}
