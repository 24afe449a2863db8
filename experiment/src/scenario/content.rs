//! Everything that the results of a scenario depend on.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use document::{Below, Document, DocumentError, Item, Node, Override, Table, text_of};

use super::World;

/// Keys that affect how results are compared, shown and judged, but not the results.
const WITHOUT: [&str; 11] = [
    "name",
    "baseline",
    "title",
    "source",
    "testbed",
    "measures",
    "figure",
    "choice",
    "untried",
    "lacking",
    "published",
];

/// The scenario `text`, called `file` in errors, over the testbed that it names, with `overrides`
/// applied in order.
pub(super) fn document<'a>(
    file: &'a str,
    text: &'a str,
    folder: &Path,
    overrides: &'a [Override],
) -> Result<Document<'a>, DocumentError> {
    // Changes may be of what the testbed says.
    let alone = Document::read(file, text, &[])?;
    let Node::Table(root) = &alone.root.node else {
        return Document::read(file, text, overrides);
    };
    let Some((_, item)) = root.get("testbed") else {
        return Document::read(file, text, overrides);
    };
    let Node::Text(name) = &item.node else {
        let what = "is no text; name a file, such as \"testbed/sdtcp.toml\"";
        return Err(alone.error(item.place, "testbed", what));
    };
    let (below, shared) = text_of(&folder.join(name), Content::MOST_BYTES)
        .map_err(|error| alone.error(item.place, "testbed", error))?;
    if let Node::Table(root) = Document::read(&below, &shared, &[])?.root.node
        && root.contains_key("testbed")
    {
        let what = "stands on no other file; write what they share in one";
        return Err(DocumentError::new(&below, "testbed", what));
    }
    let below = Below { file: below, text: shared };
    Document::read_above(
        Some(below),
        &[("choice", "about"), ("untried", ""), ("lacking", "")],
        file,
        text,
        overrides,
    )
}

/// A scenario file with overrides applied, without keys that change no result.
#[derive(Clone, Debug)]
pub struct Content {
    /// All but the policies and the control.
    shared: Written,
    /// How decisions come about and reach the hosts.
    control: Written,
    policies: Vec<Own>,
}

/// A policy.
#[derive(Clone, Debug)]
struct Own {
    /// How results call it.
    label: String,
    /// All but the label.
    written: Written,
    /// Whether its runs depend on the control.
    is_controlled: bool,
}

impl Content {
    /// Largest scenario file, in octets.
    pub const MOST_BYTES: u64 = 4 << 20;

    /// Reads the scenario file at `path`, which need only be TOML, and applies `overrides` in
    /// order.
    ///
    /// # Errors
    /// The file can't be read, or an override can't be applied.
    pub fn load(path: &Path, overrides: &[Override]) -> Result<Self, DocumentError> {
        let (file, text) = text_of(path, Self::MOST_BYTES)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let document = document(&file, &text, folder, overrides)?;
        let (shared, control) = (Written::default(), Written::default());
        let mut content = Self { shared, control, policies: Vec::new() };
        if let Node::Table(root) = &document.root.node {
            let mut root = root.clone();
            root.retain(|key, _| !WITHOUT.contains(&key.as_str()));
            let mut is_heard =
                word(&root, "world") == Some(World::Lab.name()) || has_samples(&root);
            if let Some((_, control)) = root.remove("control") {
                // A whole controller tells, in the notes of a run, what it didn't take.
                is_heard |=
                    matches!(&control.node, Node::Table(own) if own.contains_key("controller"));
                content.control.node(&control.node, folder);
            }
            if let Some((_, Item { node: Node::List(policies), .. })) = root.remove("policy") {
                let policies = policies.iter();
                content.policies = policies.map(|one| Own::of(one, folder, is_heard)).collect();
            }
            content.shared.table(&root, folder);
        }
        Ok(content)
    }

    /// Names for the results of each of the policies `labels`, beside those of the `baseline` where
    /// they are compared with one, which also depend on `with`. They are equal for equal files and
    /// sources of the program and equal contents, but for other policies, for what a policy is called,
    /// and for the control of one that decides nothing, unless queues are sampled.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn keys(
        &self,
        labels: &[&str],
        baseline: Option<&str>,
        with: &[String],
    ) -> io::Result<Vec<String>> {
        let mut shared = DefaultHasher::new();
        shared.write(crate::SOURCES.as_bytes());
        self.shared.hash(&mut shared)?;
        shared.write(format!("{with:?}").as_bytes());
        let key = |label: &&str| {
            let mut hasher = shared.clone();
            self.hash_policy(label, &mut hasher)?;
            if let Some(baseline) = baseline.filter(|baseline| baseline != label) {
                hasher.write(b"beside");
                self.hash_policy(baseline, &mut hasher)?;
            }
            Ok(format!("{:016x}", hasher.finish()))
        };
        labels.iter().map(key).collect()
    }

    /// Adds what the runs of the policy `label` depend on, and no other policy's.
    fn hash_policy(&self, label: &str, hasher: &mut DefaultHasher) -> io::Result<()> {
        let Some(own) = self.policies.iter().find(|own| own.label == label) else {
            hasher.write(format!("{label:?}").as_bytes());
            return Ok(());
        };
        own.written.hash(hasher)?;
        if own.is_controlled { self.control.hash(hasher) } else { Ok(()) }
    }
}

impl Own {
    /// The policy of `item`; `is_heard`: the control says something of runs in which nothing is decided.
    fn of(item: &Item, folder: &Path, is_heard: bool) -> Self {
        let mut table = match &item.node {
            Node::Table(table) => table.clone(),
            _ => Table::new(),
        };
        let name = word(&table, "name").unwrap_or_default();
        let is_passive = policy::find(name).is_ok_and(|policy| policy.is_passive());
        let label = word(&table, "label").unwrap_or(name).to_owned();
        table.remove("label");
        let mut written = Written::default();
        written.table(&table, folder);
        Self { label, written, is_controlled: is_heard || !is_passive }
    }
}

/// Whether queues are sampled: that goes on until all that was said has been heard, also by a policy that decides nothing.
fn has_samples(root: &Table) -> bool {
    let queues = root.get("queues").map(|(_, queues)| &queues.node);
    root.contains_key("monitor")
        || matches!(queues, Some(Node::Table(own)) if own.contains_key("sample"))
}

/// The text `key` of a table.
fn word<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    match table.get(key) {
        Some((_, Item { node: Node::Text(text), .. })) => Some(text),
        _ => None,
    }
}

/// A part of a scenario.
#[derive(Clone, Debug, Default)]
struct Written {
    text: String,
    /// Files that it names.
    files: Vec<PathBuf>,
}

impl Written {
    fn hash(&self, hasher: &mut DefaultHasher) -> io::Result<()> {
        hasher.write(self.text.as_bytes());
        for file in &self.files {
            hasher.write(&fs::read(file)?);
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, folder: &Path) {
        self.text.push('{');
        for (key, (_, item)) in table {
            // Writing to a `String` can't fail.
            let _ = write!(self.text, "{key:?}:");
            self.node(&item.node, folder);
        }
        self.text.push('}');
    }

    fn node(&mut self, node: &Node, folder: &Path) {
        let _ = match node {
            // Any text that names a file may be read as one: its contents count, not its path.
            Node::Text(text) if !text.contains('\0') && folder.join(text).is_file() => {
                self.files.push(folder.join(text));
                write!(self.text, "file,")
            }
            Node::Text(text) => write!(self.text, "{text:?},"),
            Node::Integer(number) => write!(self.text, "{number},"),
            Node::Float(number) => write!(self.text, "{number:?},"),
            Node::Bool(flag) => write!(self.text, "{flag},"),
            Node::Date => write!(self.text, "date,"),
            Node::List(items) => {
                self.text.push('[');
                for item in items {
                    self.node(&item.node, folder);
                }
                write!(self.text, "],")
            }
            Node::Table(table) => {
                self.table(table, folder);
                Ok(())
            }
        };
    }
}
