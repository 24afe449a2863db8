//! `[workload] kind = "stream"`: a topology of operators, their groupings and their places.

use std::path::{Path, PathBuf};

use document::DocumentError;
use document::fields::{Fields, Site, Value, between, unknown};
use document::topology::{Names, named};
use model::NodeId;
use units::{Bytes, Span};
use workload::stream::{Grouping, Input, Keys, Operator, Stream};

use super::amounts::{bytes, count, file, span};

type Read<T> = Result<T, DocumentError>;

/// Most operators.
const MOST: usize = 256;
/// Most tuples emitted for one.
const MOST_EMITTED: f64 = 1000.0;

const GROUPINGS: &[(&str, Grouping)] = &[
    ("shuffle", Grouping::Shuffle),
    ("key", Grouping::Key),
    ("global", Grouping::Global),
    ("all", Grouping::All),
];

/// A topology, and the files whose words are keys, by position of the operator.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    stream: Stream,
    texts: Vec<(usize, PathBuf)>,
}

impl Recipe {
    /// The topology with its texts read.
    pub(super) fn make(&self) -> Result<Stream, workload::Error> {
        let mut stream = self.stream.clone();
        for (operator, path) in &self.texts {
            stream.operators[*operator].keys = Some(Keys::open(path)?);
        }
        stream.check()?;
        Ok(stream)
    }
}

/// The keys of the table; files are looked up from `folder`. The places of parameters are added to
/// `sites`, for errors found later.
pub(super) fn read(
    fields: &mut Fields<'_>,
    hosts: &Names<'_>,
    folder: &Path,
    sites: &mut Vec<Site>,
) -> Read<Recipe> {
    let stream = Stream {
        operators: Vec::new(),
        turn: fields.or("turn", Span::from_millis(5), turn)?,
        sampling: fields.or("sampling", Span::from_secs(1), turn)?,
        send_queue: fields.or("send_queue", None, queue)?,
        receive_queue: fields.or("receive_queue", None, queue)?,
    };
    let mut recipe = Recipe { stream, texts: Vec::new() };
    for value in fields.need("operator", "a [[workload.operator]] table")?.list(MOST)? {
        let mut fields = value.fields()?;
        let operator = operator(&mut fields, &mut recipe, hosts, folder)?;
        sites.append(&mut fields.sites());
        fields.done()?;
        if recipe.stream.operators.iter().any(|other| other.name == operator.name) {
            let name = operator.name;
            return Err(value.error(format_args!("\"{name}\" is an operator already; rename it")));
        }
        recipe.stream.operators.push(operator);
    }
    Ok(recipe)
}

fn operator(
    fields: &mut Fields<'_>,
    recipe: &mut Recipe,
    hosts: &Names<'_>,
    folder: &Path,
) -> Read<Operator> {
    let others = &recipe.stream.operators;
    let input = |value: &Value<'_>| input(value, others);
    let on = fields.need("on", "[\"h0\"]")?;
    let places = if on.is_list() { on.list(Stream::MOST_INSTANCES)? } else { vec![on] };
    let place = |value: &Value<'_>| named(value, "host", hosts);
    let places: Vec<NodeId> = places.iter().map(place).collect::<Read<_>>()?;
    let keys = match fields.get("keys") {
        None => None,
        Some(value) => {
            let mut keys = value.fields()?;
            let text = keys.optional("text", |v| file(v, folder))?;
            let words = keys.or("words", 10_000, count)?;
            let skew = keys.or("skew", 1.0, |v| v.number(0.0..=10.0))?;
            let shift = keys.optional("shift", turn)?;
            keys.done()?;
            recipe.texts.extend(text.map(|path| (others.len(), path)));
            Some(Keys::Zipf { count: words, skew, shift })
        }
    };
    Ok(Operator {
        name: fields.need("name", "\"split\"")?.label()?,
        hosts: places,
        rate: fields.or("rate", 0.0, |v| v.number(0.0..=1e7))?,
        random: fields.or("arrivals", false, |v| v.choice(&[("even", false), ("random", true)]))?,
        inputs: fields.tables("from", MOST)?.iter().map(input).collect::<Read<_>>()?,
        join: fields.or("join", false, Value::flag)?,
        opaque: fields.or("opaque", false, Value::flag)?,
        cost: fields.or("cost", Span::ZERO, span)?,
        batch: fields.or("batch", 1, count)?,
        size: fields.or("size", Bytes::ZERO, bytes)?,
        keys,
    })
}

fn input(value: &Value<'_>, others: &[Operator]) -> Read<Input> {
    let mut fields = value.fields()?;
    let named = fields.need("operator", "\"split\"")?;
    let name = named.text()?;
    let position = others.iter().position(|other| other.name == name).ok_or_else(|| {
        let names: Vec<&str> = others.iter().map(|other| other.name.as_str()).collect();
        named.error(format_args!("{}; operators above this one count", unknown(name, &names)))
    })?;
    let grouping = fields.need("grouping", "\"shuffle\"")?.choice(GROUPINGS)?;
    let emit = fields.or("emit", 1.0, |v| v.number(0.0..=MOST_EMITTED))?;
    fields.done()?;
    Ok(Input { operator: position, grouping, emit })
}

/// A period.
fn turn(value: &Value<'_>) -> Read<Span> {
    between(value, Span::from_micros(10), Span::from_secs(3600))
}

/// Room for bytes; `None` without bound.
fn queue(value: &Value<'_>) -> Read<Option<Bytes>> {
    if value.text() == Ok("unlimited") { Ok(None) } else { bytes(value).map(Some) }
}
