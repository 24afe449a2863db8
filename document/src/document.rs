//! A TOML document in which every value remembers where it came from: a line of the file, or a
//! `--set` on the command line.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{DocumentError, Override, Setting, shown};

/// Where a key or value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Octets from the start of the file.
    File(usize),
    /// Octets from the start of the file below it.
    Below(usize),
    /// Which of the overrides.
    Override(usize),
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub struct Item {
    /// Where.
    pub place: Place,
    /// What.
    pub node: Node,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub enum Node {
    /// In quotes.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// Values in order.
    List(Vec<Item>),
    /// Values by key.
    Table(Table),
    /// A date or a time; nothing here uses one.
    Date,
}

/// Values by key, each with the place of its key.
pub type Table = BTreeMap<String, (Place, Item)>;

impl Node {
    /// What an error calls a value of this kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number with a fraction",
            Self::Bool(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Date => "a date",
        }
    }
}

impl Node {
    /// The value, where it is a single one.
    #[allow(clippy::cast_precision_loss)] // settings are compared and shown, not counted with
    pub fn setting(&self) -> Option<Setting> {
        match self {
            Self::Text(text) => Some(Setting::Text(text.clone())),
            Self::Integer(integer) => Some(Setting::Number(*integer as f64)),
            Self::Float(float) => Some(Setting::Number(*float)),
            Self::Bool(flag) => Some(Setting::Flag(*flag)),
            Self::List(_) | Self::Table(_) | Self::Date => None,
        }
    }
}

/// A file that others stand on: what they don't say, it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// What errors call it.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// A scenario file with its overrides applied.
#[derive(Debug)]
pub struct Document<'a> {
    file: &'a str,
    text: &'a str,
    below: Option<Below>,
    overrides: &'a [Override],
    /// The table that holds everything.
    pub root: Item,
}

impl<'a> Document<'a> {
    /// Reads `text`, called `file` in errors, and applies `overrides` in order.
    pub fn read(
        file: &'a str,
        text: &'a str,
        overrides: &'a [Override],
    ) -> Result<Self, DocumentError> {
        Self::read_above(None, &[], file, text, overrides)
    }

    /// Reads `text`, called `file` in errors, and applies `overrides` in order. Tables of it are
    /// laid over those of `below`, key by key; any other value takes the place of that below. Each
    /// list in `joined` has the members of both, of which those of `text` take the place of those
    /// that are the same by the key that stands beside the list's name.
    pub fn read_above(
        below: Option<Below>,
        joined: &[(&str, &str)],
        file: &'a str,
        text: &'a str,
        overrides: &'a [Override],
    ) -> Result<Self, DocumentError> {
        let root = Item { place: Place::File(0), node: Node::Table(Table::new()) };
        let mut document = Self { file, text, below, overrides, root };
        let mut table = match &document.below {
            Some(Below { text, .. }) => document.parse(text, Place::Below)?,
            None => Table::new(),
        };
        lay(document.parse(text, Place::File)?, &mut table, joined);
        document.root.node = Node::Table(table);
        for (number, change) in overrides.iter().enumerate() {
            let place = Place::Override(number);
            let item = document.override_value(change, place)?;
            document
                .replace(change, item)
                .map_err(|what| document.error(place, change.path(), what))?;
        }
        Ok(document)
    }

    fn parse(&self, text: &str, place: fn(usize) -> Place) -> Result<Table, DocumentError> {
        let table = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let what = error.message().trim_end();
            self.error(place(offset), "", format_args!("{what}; correct the TOML syntax"))
        })?;
        convert_table(table.get_ref(), |span: Range<usize>| place(span.start))
            .map_err(|fault| self.error(fault.place, &fault.path, fault.what))
    }

    /// An error about `field`, written at `place`.
    pub fn error(&self, place: Place, field: &str, message: impl fmt::Display) -> DocumentError {
        DocumentError::new(&self.site(place), field, message)
    }

    /// `file:line:column`, or the override.
    pub fn site(&self, place: Place) -> String {
        match place {
            Place::File(offset) => site(self.file, self.text, offset),
            Place::Below(offset) => match &self.below {
                Some(Below { file, text }) => site(file, text, offset),
                None => self.file.to_owned(),
            },
            Place::Override(number) => self
                .overrides
                .get(number)
                .map_or_else(|| self.file.to_owned(), |change| change.shown().to_owned()),
        }
    }

    /// The value of an override: TOML, or else a text that needs no quotes on a command line.
    fn override_value(&self, change: &Override, place: Place) -> Result<Item, DocumentError> {
        let parsed = DeValue::parse(change.value()).ok();
        let node = match parsed.filter(|_| !change.is_literal()) {
            Some(value) => {
                let wrong = |fault: Fault| {
                    let Fault { place, path, what } = fault.within(change.path());
                    self.error(place, &path, what)
                };
                convert(&value, |_| place).map_err(wrong)?.node
            }
            None => Node::Text(change.value().to_owned()),
        };
        let item = Item { place, node };
        if !change.is_member() {
            return Ok(item);
        }
        let named = Table::from([("name".to_owned(), (place, item))]);
        Ok(Item { place, node: Node::Table(named) })
    }

    /// The single value that stands where `path` leads, as a change follows it.
    pub fn setting(&self, path: &str) -> Option<Setting> {
        self.find(path)?.node.setting()
    }

    /// Whether anything stands where `path` leads.
    pub fn has(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    fn find(&self, path: &str) -> Option<&Item> {
        let mut at = &self.root;
        for key in path.split('.') {
            at = match &at.node {
                Node::Table(table) => &table.get(key.trim())?.1,
                Node::List(items) => items.get(member(items, key.trim()).ok()?)?,
                _ => return None,
            };
        }
        Some(at)
    }

    /// Puts `item` where the path of `change` leads. Members of a list are named as [`member`] says.
    fn replace(&mut self, change: &Override, item: Item) -> Result<(), String> {
        let place = item.place;
        let mut at = &mut self.root;
        for key in change.path().split('.') {
            let key = key.trim();
            at = match &mut at.node {
                Node::Table(table) => {
                    let empty = Item { place, node: Node::Table(Table::new()) };
                    &mut table.entry(key.to_owned()).or_insert((place, empty)).1
                }
                Node::List(items) => {
                    let position = member(items, key)?;
                    items.get_mut(position).ok_or_else(String::new)?
                }
                other => {
                    return Err(format!(
                        "\"{key}\" can't be set inside {}; shorten the path",
                        other.kind()
                    ));
                }
            };
        }
        if change.is_member() {
            match &mut at.node {
                Node::List(items)
                    if items.iter().any(|item| label(item).as_deref() == Some(change.value())) => {}
                Node::List(items) => items.push(item),
                Node::Table(table) if table.is_empty() => at.node = Node::List(vec![item]),
                // For the reader to refuse.
                _ => {}
            }
            return Ok(());
        }
        *at = item;
        Ok(())
    }
}

/// Lays `upper` over `lower`, key by key.
fn lay(upper: Table, lower: &mut Table, joined: &[(&str, &str)]) {
    for (key, (place, item)) in upper {
        let Some((_, under)) = lower.get_mut(&key) else {
            lower.insert(key, (place, item));
            continue;
        };
        match (item.node, &mut under.node) {
            // What is joined stands at the top.
            (Node::Table(table), Node::Table(under)) => lay(table, under, &[]),
            (Node::List(items), Node::List(below)) => {
                if let Some((_, key)) = joined.iter().find(|(list, _)| *list == key) {
                    let name = |item: &Item| match &item.node {
                        Node::Table(table) => match table.get(*key).map(|(_, item)| &item.node) {
                            Some(Node::Text(name)) => Some(name.clone()),
                            _ => None,
                        },
                        _ => None,
                    };
                    let names: Vec<String> = items.iter().filter_map(name).collect();
                    below.retain(|old| name(old).is_none_or(|name| !names.contains(&name)));
                    below.extend(items);
                } else {
                    *below = items;
                    under.place = item.place;
                }
            }
            (node, _) => *under = Item { place: item.place, node },
        }
    }
}

/// `file:line:column` of the octet at `offset`.
fn site(file: &str, text: &str, offset: usize) -> String {
    let end = (0..=offset.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    let before = &text[..end.unwrap_or(0)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    format!("{file}:{line}:{column}")
}

/// The text `field` of a member of a list.
fn text(item: &Item, field: &str) -> Option<String> {
    let Node::Table(table) = &item.node else {
        return None;
    };
    match table.get(field) {
        Some((_, Item { node: Node::Text(text), .. })) => Some(text.clone()),
        _ => None,
    }
}

/// What a member of a list goes by: its `label`, or without one its `name`.
fn label(item: &Item) -> Option<String> {
    text(item, "label").or_else(|| text(item, "name"))
}

/// The position of the member that `key` names: the one that is called so by its `label`, or without a
/// label by its `name`; else the only one of that name, whatever its label; else the one of that number
/// from 0.
fn member(items: &[Item], key: &str) -> Result<usize, String> {
    let named = |of: &dyn Fn(&Item) -> Option<String>| -> Vec<usize> {
        let all = items.iter().enumerate().filter(|(_, item)| of(item).as_deref() == Some(key));
        all.map(|(position, _)| position).collect()
    };
    let mut found = named(&label);
    if found.is_empty() {
        found = named(&|item| text(item, "name"));
    }
    match found[..] {
        [one] => Ok(one),
        [] => key.parse().ok().filter(|number| *number < items.len()).ok_or_else(|| {
            let count = items.len();
            format!("the list has no member \"{key}\"; name one by its label, its name or a number below {count}")
        }),
        _ => {
            let all = found.iter().filter_map(|&at| Some(format!("{} ({at})", label(&items[at])?)));
            let all: Vec<_> = all.collect();
            Err(format!(
                "the list has several members \"{key}\"; name one by its label or its number: {}",
                all.join(", ")
            ))
        }
    }
}

/// What can't be taken, and its path within what is converted.
struct Fault {
    place: Place,
    path: String,
    what: String,
}

impl Fault {
    fn new(place: Place, what: &str) -> Self {
        Self { place, path: String::new(), what: what.to_owned() }
    }

    /// The same of what is within something else.
    fn within(mut self, outer: &str) -> Self {
        let between = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{outer}{between}{}", self.path);
        self
    }
}

fn convert_table(
    table: &DeTable<'_>,
    at: impl Fn(Range<usize>) -> Place + Copy,
) -> Result<Table, Fault> {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let name: &std::borrow::Cow<'_, str> = key.get_ref();
        let item = convert(value, at).map_err(|fault| fault.within(&shown(name)))?;
        Ok((name.clone().into_owned(), (at(key.span()), item)))
    };
    table.iter().map(entry).collect()
}

/// Recursion is bounded: the parser refuses deep nesting.
fn convert(
    value: &Spanned<DeValue<'_>>,
    at: impl Fn(Range<usize>) -> Place + Copy,
) -> Result<Item, Fault> {
    let place = at(value.span());
    let node = match value.get_ref() {
        DeValue::String(text) => Node::Text(text.clone().into_owned()),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map(Node::Integer)
            .map_err(|_| Fault::new(place, "the integer is too large; use a smaller one"))?,
        DeValue::Float(float) => float
            .as_str()
            .parse()
            .map(Node::Float)
            .map_err(|_| Fault::new(place, "the number can't be read; write it as 0.5"))?,
        DeValue::Boolean(value) => Node::Bool(*value),
        DeValue::Datetime(_) => Node::Date,
        DeValue::Array(items) => {
            let member = |(number, item)| {
                convert(item, at).map_err(|fault| fault.within(&format!("[{number}]")))
            };
            Node::List(items.iter().enumerate().map(member).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Node::Table(convert_table(table, at)?),
    };
    Ok(Item { place, node })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Value;

    /// What the members of `list` are called after `--add NAME` for each of `names`.
    fn members(text: &str, names: &[&str]) -> Result<Vec<String>, DocumentError> {
        let changes: Vec<_> =
            names.iter().map(|name| Override::member("--add", "list", name)).collect();
        let document = Document::read("d.toml", text, &changes)?;
        let mut root = Value::root(&document).fields()?;
        let list = root.need("list", "a list")?.list(9)?;
        list.iter()
            .map(|member| Ok(member.fields()?.need("name", "a name")?.text()?.into()))
            .collect()
    }

    #[test]
    fn a_member_is_added_unless_one_goes_by_its_name() {
        let text = "list = [{ name = \"a\" }, { name = \"b\", label = \"c\" }]";
        assert_eq!(members(text, &["a", "c"]).unwrap(), ["a", "b"]);
        assert_eq!(members(text, &["b", "true", "b"]).unwrap(), ["a", "b", "b", "true"]);
        assert_eq!(members("", &["a", "b"]).unwrap(), ["a", "b"]);
        let refused = members("list = 3", &["a"]).unwrap_err().to_string();
        assert!(refused.starts_with("d.toml:1:8: list: is"), "{refused}");
    }

    #[test]
    fn what_can_not_be_taken_is_named() {
        let large = "99999999999999999999";
        let said = |text: &str, changes: &[Override]| {
            Document::read("d.toml", text, changes).unwrap_err().to_string()
        };
        let found = said(&format!("[a]\nb = [1, {{ c = [{large}] }}]"), &[]);
        let wanted = ": a.b[1].c[0]: the integer is too large";
        assert!(found.starts_with("d.toml:2:") && found.contains(wanted), "{found}");
        let found = said("", &[Override::new("a.b", &format!("[{large}]")).unwrap()]);
        assert!(
            found.ends_with(": a.b[0]: the integer is too large; use a smaller one"),
            "{found}"
        );
    }

    #[test]
    fn errors_of_an_added_member_name_the_option() {
        let changes = [Override::member("--add", "list", "a")];
        let document = Document::read("d.toml", "list = []", &changes).unwrap();
        let mut root = Value::root(&document).fields().unwrap();
        let list = root.need("list", "a list").unwrap().list(9).unwrap();
        let missing = list[0].fields().unwrap().need("size", "3").err().unwrap().to_string();
        assert!(missing.starts_with("--add a: list[0].size: is missing"), "{missing}");
    }
}
