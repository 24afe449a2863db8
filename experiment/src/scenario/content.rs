//! Everything that the results of a scenario depend on.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use document::{Below, Document, DocumentError, Item, Node, Override, Table, text_of};

/// Keys that affect how results are shown and judged, but not the results.
const WITHOUT: [&str; 10] = [
    "name",
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
    /// All but the policies.
    shared: Written,
    /// The policies by label, in order.
    policies: Vec<(String, Written)>,
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
        let mut content = Self { shared: Written::default(), policies: Vec::new() };
        if let Node::Table(root) = &document.root.node {
            let mut root = root.clone();
            root.retain(|key, _| !WITHOUT.contains(&key.as_str()));
            if let Some((_, Item { node: Node::List(policies), .. })) = root.remove("policy") {
                content.policies = policies
                    .iter()
                    .map(|one| (label(&one.node), Written::of(one, folder)))
                    .collect();
            }
            content.shared.table(&root, folder);
        }
        Ok(content)
    }

    /// Names for the results of each of the policies `labels` beside the `baseline`, which also
    /// depend on `with`: equal for equal contents but for other policies, equal files and sources
    /// of the program.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn keys(
        &self,
        labels: &[&str],
        baseline: &str,
        with: &[String],
    ) -> io::Result<Vec<String>> {
        let mut shared = DefaultHasher::new();
        shared.write(crate::SOURCES.as_bytes());
        self.shared.hash(&mut shared)?;
        shared.write(format!("{baseline:?} {with:?}").as_bytes());
        let key = |label: &&str| {
            let mut hasher = shared.clone();
            for (own, policy) in &self.policies {
                if own == label || own == baseline {
                    policy.hash(&mut hasher)?;
                }
            }
            hasher.write(format!("{label:?}").as_bytes());
            Ok(format!("{:016x}", hasher.finish()))
        };
        labels.iter().map(key).collect()
    }
}

/// How results name the policy of a table.
fn label(policy: &Node) -> String {
    let Node::Table(table) = policy else { return String::new() };
    match table.get("label").or_else(|| table.get("name")) {
        Some((_, Item { node: Node::Text(text), .. })) => text.clone(),
        _ => String::new(),
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
    fn of(item: &Item, folder: &Path) -> Self {
        let mut written = Self::default();
        written.node(&item.node, folder);
        written
    }

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
