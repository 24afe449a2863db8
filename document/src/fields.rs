//! Reading values out of a document: every refusal says where, which field, what is wrong and what
//! to do.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use policy::Share;

use crate::document::{Document, Item, Node, Place, Table};
use crate::{DocumentError, Setting, shown, written};

type Read<T> = Result<T, DocumentError>;

/// A value on its way into the scenario.
#[derive(Clone)]
pub struct Value<'a> {
    document: &'a Document<'a>,
    path: String,
    item: &'a Item,
}

impl<'a> Value<'a> {
    /// The whole document.
    pub const fn root(document: &'a Document<'a>) -> Self {
        Self { document, path: String::new(), item: &document.root }
    }

    /// An error about this value.
    pub fn error(&self, message: impl fmt::Display) -> DocumentError {
        self.document.error(self.item.place, &self.path, message)
    }

    /// Where it was written, as errors say it.
    pub fn at(&self) -> String {
        self.document.site(self.item.place)
    }

    /// Where it is.
    pub fn site(&self) -> Site {
        Site { key: "", path: self.path.clone(), at: self.at(), is_given: true }
    }

    fn wrong_kind(&self, wanted: impl fmt::Display) -> DocumentError {
        self.error(format_args!("is {}; write {wanted}", self.item.node.kind()))
    }

    /// A text.
    pub fn text(&self) -> Read<&'a str> {
        match &self.item.node {
            Node::Text(text) => Ok(text),
            _ => Err(self.wrong_kind("a text in quotes")),
        }
    }

    /// A path; what is relative begins at `folder`.
    pub fn path(&self, folder: &Path) -> Read<PathBuf> {
        let text = self.text()?;
        if text.is_empty() || text.contains('\0') {
            return Err(self.error("is no path; write one such as \"/var/lib/watermaster\""));
        }
        Ok(folder.join(text))
    }

    /// An IP address.
    pub fn ip(&self) -> Read<IpAddr> {
        self.text()?.parse().map_err(|_| self.error("is no IP address; write \"10.0.0.1\""))
    }

    /// The name of a host, a switch or who acts for them ([`model::is_name`]).
    pub fn name(&self) -> Read<String> {
        let text = self.text()?;
        if !model::is_name(text) {
            return Err(self.error(model::NO_NAME));
        }
        Ok(text.to_owned())
    }

    /// A name without dots, which paths of keys have between their parts.
    pub fn label(&self) -> Read<String> {
        let text = self.text()?;
        if !model::is_name(text) || text.contains('.') {
            return Err(self.error("is no name; use 1 to 64 letters, digits, - and _"));
        }
        Ok(text.to_owned())
    }

    /// A text that is a quantity with its unit.
    pub fn quantity<T: FromStr<Err: fmt::Display>>(&self) -> Read<T> {
        match &self.item.node {
            Node::Text(text) => text.parse().map_err(|error| self.error(error)),
            Node::Integer(_) | Node::Float(_) => {
                // The quantity's own message names its units.
                let number = match &self.item.node {
                    Node::Integer(number) => number.to_string(),
                    Node::Float(number) => number.to_string(),
                    _ => String::new(),
                };
                match number.parse::<T>() {
                    Err(error) => Err(self.error(error)),
                    Ok(_) => Err(self.wrong_kind("a number with its unit in quotes")),
                }
            }
            _ => Err(self.wrong_kind("a number with its unit in quotes")),
        }
    }

    /// An integer in `range`.
    pub fn integer<T>(&self, range: RangeInclusive<T>) -> Read<T>
    where
        T: TryFrom<i64> + PartialOrd + fmt::Display,
    {
        let (least, most) = (range.start(), range.end());
        let Node::Integer(integer) = self.item.node else {
            return Err(self.wrong_kind(format_args!("an integer from {least} to {most}")));
        };
        match T::try_from(integer) {
            Ok(value) if range.contains(&value) => Ok(value),
            _ => Err(self.error(format_args!(
                "{integer} is out of range; write an integer from {least} to {most}"
            ))),
        }
    }

    /// A number in `range`.
    pub fn number(&self, range: RangeInclusive<f64>) -> Read<f64> {
        let (least, most) = (range.start(), range.end());
        #[allow(clippy::cast_precision_loss)] // a bound check in tenths doesn't need 53 bits
        let number = match self.item.node {
            Node::Integer(integer) => integer as f64,
            Node::Float(float) => float,
            _ => return Err(self.wrong_kind(format_args!("a number from {least} to {most}"))),
        };
        if range.contains(&number) {
            Ok(number)
        } else {
            // As it is written, not with all its digits.
            let is_long = number != 0.0 && !(1e-9..1e15).contains(&number.abs());
            let number = if is_long { format!("{number:e}") } else { number.to_string() };
            Err(self.error(format_args!(
                "{number} is out of range; write a number from {least} to {most}"
            )))
        }
    }

    /// `true` or `false`.
    pub fn flag(&self) -> Read<bool> {
        match self.item.node {
            Node::Bool(flag) => Ok(flag),
            _ => Err(self.wrong_kind("true or false")),
        }
    }

    /// A share of a whole as a fraction, to parts per million.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked first
    pub fn share(&self) -> Read<Share> {
        let fraction = self.number(1e-6..=1.0)?;
        Share::from_ppm((fraction * 1e6).round() as u32).map_err(|error| self.error(error))
    }

    /// A single value of any kind.
    pub fn setting(&self) -> Read<Setting> {
        self.item.node.setting().ok_or_else(|| self.wrong_kind("a number, a text or a flag"))
    }

    /// Whether it is a list.
    pub const fn is_list(&self) -> bool {
        matches!(self.item.node, Node::List(_))
    }

    /// One of a few texts.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Read<T> {
        let text = self.text()?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
            return Ok(*choice);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        Err(self.error(unknown(text, &names)))
    }

    /// A list of at most `most` values.
    pub fn list(&self, most: usize) -> Read<Vec<Self>> {
        let Node::List(items) = &self.item.node else {
            return Err(self.wrong_kind("a list"));
        };
        if items.len() > most {
            return Err(
                self.error(format_args!("has {} members; write at most {most}", items.len()))
            );
        }
        let members = items.iter().enumerate().map(|(number, item)| Self {
            document: self.document,
            path: format!("{}[{number}]", self.path),
            item,
        });
        Ok(members.collect())
    }

    /// The members of a table by key.
    pub fn members(&self) -> Read<Vec<(&'a str, Self)>> {
        let Node::Table(table) = &self.item.node else {
            return Err(self.wrong_kind("a table"));
        };
        let members = table.iter().map(|(key, (_, item))| {
            let path = format!("{}.{}", self.path, shown(key));
            (key.as_str(), Self { document: self.document, path, item })
        });
        Ok(members.collect())
    }

    /// The value as TOML.
    pub fn toml(&self) -> String {
        written::inline(&self.item.node)
    }

    /// The members of a table as TOML, one a line, without those called `left_out`.
    pub fn written(&self, left_out: &[&str]) -> Read<String> {
        match &self.item.node {
            Node::Table(table) => Ok(written::body(table, left_out)),
            _ => Err(self.wrong_kind("a table")),
        }
    }

    /// The fields of a table.
    pub fn fields(&self) -> Read<Fields<'a>> {
        match &self.item.node {
            Node::Table(table) => Ok(Fields {
                document: self.document,
                path: self.path.clone(),
                place: self.item.place,
                table,
                known: Vec::new(),
            }),
            _ => Err(self.wrong_kind("a table")),
        }
    }
}

/// Where a key is, or would be: for errors that are found when all has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The key; empty: the table itself.
    pub key: &'static str,
    /// Its path, as errors call it.
    pub path: String,
    /// Its place, or where it isn't given that of the table, as errors say it.
    pub at: String,
    /// Whether it is given.
    pub is_given: bool,
}

/// The fields of a table; it remembers which were asked for, so that the rest can be refused.
pub struct Fields<'a> {
    document: &'a Document<'a>,
    path: String,
    place: Place,
    table: &'a Table,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The field `key`, if it is there.
    pub fn get(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.known.push(key);
        let (_, item) = self.table.get(key)?;
        Some(Value { document: self.document, path: self.below(key), item })
    }

    /// The field `key`, which must be there; the error shows an `example` of its value.
    pub fn need(&mut self, key: &'static str, example: &str) -> Read<Value<'a>> {
        self.get(key).ok_or_else(|| {
            let what = format_args!("is missing; add {key} = {example}");
            self.document.error(self.place, &self.below(key), what)
        })
    }

    /// The field `key` as `read` understands it, or `default`.
    pub fn or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Value<'a>) -> Read<T>,
    ) -> Read<T> {
        self.get(key).map_or(Ok(default), |value| read(&value))
    }

    /// The field `key` as `read` understands it, if it is there.
    pub fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Value<'a>) -> Read<T>,
    ) -> Read<Option<T>> {
        self.get(key).map(|value| read(&value)).transpose()
    }

    /// The members of the list of tables `key`, none when it isn't there.
    pub fn tables(&mut self, key: &'static str, most: usize) -> Read<Vec<Value<'a>>> {
        self.or(key, Vec::new(), |value| value.list(most))
    }

    /// Refuses the fields nobody asked for.
    pub fn done(self) -> Read<()> {
        match self.table.iter().find(|(key, _)| !self.known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, (place, _))) => Err(self.document.error(
                *place,
                &self.below(key),
                format_args!("unknown key; {}", unknown(key, &self.known)),
            )),
        }
    }

    /// An error about the table.
    pub fn error(&self, message: impl fmt::Display) -> DocumentError {
        self.document.error(self.place, &self.path, message)
    }

    /// Where each field is, or would be, that was asked for.
    pub fn sites(&self) -> Vec<Site> {
        let site = |&key: &&'static str| {
            let place = self.table.get(key).map(|(_, item)| item.place);
            let at = self.document.site(place.unwrap_or(self.place));
            Site { key, path: self.below(key), at, is_given: place.is_some() }
        };
        self.known.iter().map(site).collect()
    }

    /// Where fields of a table would be that isn't there.
    pub fn sites_below(&self, table: &str, keys: &[&'static str]) -> Vec<Site> {
        let (at, below) = (self.document.site(self.place), self.below(table));
        let site = |&key: &&'static str| {
            let (path, at) = (format!("{below}.{key}"), at.clone());
            Site { key, path, at, is_given: false }
        };
        keys.iter().map(site).collect()
    }

    fn below(&self, key: &str) -> String {
        if self.path.is_empty() { shown(key) } else { format!("{}.{}", self.path, shown(key)) }
    }
}

/// What may be given once, by where it was.
pub struct Once<'a, K>(BTreeMap<K, Value<'a>>);

impl<K> Default for Once<'_, K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'a, K: Ord + Clone> Once<'a, K> {
    /// What `value` gives, which none before has given.
    ///
    /// # Errors
    /// It is given twice; the message says where it was before.
    pub fn take(&mut self, given: K, value: &Value<'a>) -> Read<K> {
        match self.0.insert(given.clone(), value.clone()) {
            None => Ok(given),
            Some(before) => Err(value.error(format_args!(
                "the same is given at {} already; give each its own, or leave one out",
                before.at()
            ))),
        }
    }
}

/// What is wrong with `text` where only `names` are known, and which of them is nearest.
pub fn unknown(text: &str, names: &[&str]) -> String {
    let text = shown(text);
    let distance = |name: &&&str| strsim::osa_distance(&text, name);
    let nearest = names.iter().min_by_key(distance);
    match nearest {
        Some(nearest) if distance(&nearest) <= nearest.len().div_ceil(2) => {
            format!("\"{text}\" is unknown; did you mean \"{nearest}\"?")
        }
        _ => format!("\"{text}\" is unknown; use one of {}", names.join(", ")),
    }
}

/// A quantity from `least` to `most`.
///
/// # Errors
/// No quantity, or out of range.
pub fn between<T>(value: &Value<'_>, least: T, most: T) -> Result<T, DocumentError>
where
    T: FromStr<Err: fmt::Display> + PartialOrd + fmt::Display,
{
    let quantity: T = value.quantity()?;
    if quantity >= least && quantity <= most {
        return Ok(quantity);
    }
    Err(value.error(format_args!("{quantity} is out of range; write {least} to {most}")))
}
