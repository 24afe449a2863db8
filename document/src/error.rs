//! What is wrong with a document, and changes to it from a command line.

use std::fmt;
use std::str::FromStr;

/// Why a document can't be used: `file:line:column: field: what is wrong; remedy`, or
/// `--set path=value: field: …` where an override is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DocumentError(String);

impl DocumentError {
    /// An error that says in itself what is wrong where.
    pub fn whole(message: impl fmt::Display) -> Self {
        // One line, and nothing in it steers a terminal, whatever the document says.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        Self(message.to_string().chars().map(plain).collect())
    }

    /// An error about `field`, written at `at`.
    pub fn new(at: &str, field: &str, message: impl fmt::Display) -> Self {
        if field.is_empty() {
            Self::whole(format_args!("{at}: {message}"))
        } else {
            Self::whole(format_args!("{at}: {field}: {message}"))
        }
    }
}

/// `path=value`: a change to a document before it is read, such as
/// `topology.access.capacity=1 Gbit/s` or `policy.smsf.beta=0.05`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    path: String,
    value: String,
    form: Form,
    /// What errors call it.
    shown: String,
}

/// How the value is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// TOML, or a text that needs no quotes.
    Toml,
    /// A text, whatever it looks like.
    Text,
    /// The name of a member.
    Member,
}

impl Override {
    const MOST_KEYS: usize = 16;

    /// The override of `path`, keys with dots between, with `value`: TOML, or a text that needs no
    /// quotes.
    ///
    /// # Errors
    /// A path with no key, an empty key or too many keys.
    pub fn new(path: &str, value: &str) -> Result<Self, DocumentError> {
        let (path, value) = (path.trim(), value.trim());
        let keys = path.split('.').count();
        if keys > Self::MOST_KEYS || path.split('.').any(|key| key.trim().is_empty()) {
            let at = format!("--set {}", shown(path));
            let what = "is no path; write keys with dots between, such as topology.access.delay";
            return Err(DocumentError::new(&at, "", what));
        }
        Ok(Self {
            path: path.to_owned(),
            value: value.to_owned(),
            form: Form::Toml,
            shown: format!("--set {}", shown(&format!("{path}={value}"))),
        })
    }

    /// What the option `name` of a command line changes: the key at `path` becomes the text
    /// `value`.
    pub fn text(name: &str, path: &str, value: &str) -> Self {
        Self {
            path: path.to_owned(),
            value: value.to_owned(),
            form: Form::Text,
            shown: format!("{name} {}", shown(value)),
        }
    }

    /// What the option `name` of a command line adds: a member whose `name` is `value`, at the end of the list at
    /// `path`, unless the list has one that goes by this label, or without a label by this name.
    pub fn member(name: &str, path: &str, value: &str) -> Self {
        Self { form: Form::Member, ..Self::text(name, path, value) }
    }

    /// What `name` changes: the key at `path` becomes `value`, no text.
    pub fn value_of(name: &str, path: &str, value: impl fmt::Display) -> Self {
        let value = value.to_string();
        let shown = format!("{name}: {}", shown(&format!("{path} = {value}")));
        Self { path: path.to_owned(), value, form: Form::Toml, shown }
    }

    /// What `--seed` changes.
    pub fn seed(seed: u64) -> Self {
        Self {
            path: "seed".to_owned(),
            value: seed.to_string(),
            form: Form::Toml,
            shown: format!("--seed {seed}"),
        }
    }

    /// Keys with dots between.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The new value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether the value is a text, whatever it looks like.
    pub const fn is_literal(&self) -> bool {
        matches!(self.form, Form::Text | Form::Member)
    }

    /// Whether it adds a member to a list.
    pub(crate) const fn is_member(&self) -> bool {
        matches!(self.form, Form::Member)
    }

    /// What errors call it.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

impl FromStr for Override {
    type Err = DocumentError;

    fn from_str(text: &str) -> Result<Self, DocumentError> {
        let Some((path, value)) = text.split_once('=') else {
            let at = format!("--set {}", shown(text));
            return Err(DocumentError::new(&at, "", "has no =; write path=value"));
        };
        Self::new(path, value)
    }
}

/// A text as an error repeats it: cut, so that hostile input can't flood a terminal.
pub fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut cut: String = text.chars().take(MOST).filter(|c| !c.is_control()).collect();
    if text.chars().nth(MOST).is_some() {
        cut.push('…');
    }
    cut
}
