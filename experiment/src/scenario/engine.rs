//! `[engine]`: the engines that run in the lab, and what is run on them.

use std::path::{Path, PathBuf};

use document::DocumentError;
use document::fields::{Value, between};
use document::topology::{Names, named};
use lab::{Application, Engine, Results};
use model::{JobClass, NodeId};
use units::Span;

use super::jobs::CLASSES;

type Read<T> = Result<T, DocumentError>;

/// Most applications, and most commands that prepare them.
const MOST: usize = 16;
/// Line of results that counts, at most.
const LINES: usize = 100_000;

/// The engines that run in the lab, and what is run on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// The engines, each once.
    pub kinds: Vec<Engine>,
    /// Commands that each start of the engines begins with.
    pub prepare: Vec<String>,
    /// When the results of all applications must be there.
    pub until: Span,
    /// What runs on them, of each the size class of its job, where it has one.
    pub applications: Vec<(Application, Option<JobClass>)>,
    /// The folder of the scenario, absolute.
    pub folder: PathBuf,
}

impl EngineSettings {
    /// The names of its applications where there are several: their metrics have them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = if self.applications.len() > 1 { &self.applications[..] } else { &[] };
        all.iter().map(|(application, _)| application.name.as_str())
    }
}

/// The table `[engine]`.
pub(super) fn read(value: &Value<'_>, hosts: &Names<'_>, folder: &Path) -> Read<EngineSettings> {
    let mut fields = value.fields()?;
    let kinds = kinds(&fields.need("kind", "\"storm\"")?)?;
    let span = |v: &Value<'_>| between(v, Span::from_secs(1), Span::from_secs(86_400));
    let until = fields.or("until", Span::from_secs(900), span)?;
    let prepare = fields.tables("prepare", MOST)?;
    let prepare = prepare.iter().map(command).collect::<Read<_>>()?;
    let tables = fields.tables("application", MOST)?;
    let applications = tables.iter().map(|v| application(v, hosts, until));
    let applications = applications.collect::<Read<Vec<_>>>()?;
    if applications.is_empty() {
        return Err(value.error("has nothing to run; add an [[engine.application]]"));
    }
    for (number, (own, _)) in applications.iter().enumerate() {
        if applications[..number].iter().any(|(other, _)| other.name == own.name) {
            return Err(tables[number].error("has the name of another; give each its own name"));
        }
    }
    fields.done()?;
    // What is empty is no path.
    let folder = std::path::absolute(Path::new(".").join(folder)).map_err(|e| value.error(e))?;
    Ok(EngineSettings { kinds, prepare, until, applications, folder })
}

/// An engine, or several.
fn kinds(value: &Value<'_>) -> Read<Vec<Engine>> {
    if !value.is_list() {
        return Ok(vec![value.choice(Engine::NAMED)?]);
    }
    let mut kinds = Vec::new();
    for value in value.list(Engine::NAMED.len())? {
        let kind = value.choice(Engine::NAMED)?;
        if kinds.contains(&kind) {
            return Err(value.error("is named twice; name each engine once"));
        }
        kinds.push(kind);
    }
    if kinds.is_empty() {
        return Err(value.error("is empty; name an engine"));
    }
    Ok(kinds)
}

/// An application that starts before `until`.
fn application(
    value: &Value<'_>,
    hosts: &Names<'_>,
    until: Span,
) -> Read<(Application, Option<JobClass>)> {
    let mut fields = value.fields()?;
    let name = fields.need("name", "\"trucking\"")?.label()?;
    let class = fields.optional("class", |v| v.choice(CLASSES))?;
    let start = fields.or("start", Span::ZERO, |v| {
        let start = between(v, Span::ZERO, Span::from_secs(86_400))?;
        if start >= until {
            return Err(v.error(format!("isn't before the engine's until, {until}; start earlier")));
        }
        Ok(start)
    })?;
    let on: Option<NodeId> = fields.optional("on", |v| named(v, "host", hosts))?;
    let run = command(&fields.need("run", "\"storm jar …\"")?)?;
    let results = fields.optional("results", |v| {
        let mut fields = v.fields()?;
        let file = fields.need("file", "\"results.jsonl\"")?.text()?.to_owned();
        let line = fields.or("line", 1, |v| v.integer(1..=LINES))?;
        let stop = command(&fields.need("stop", "\"storm kill …\"")?)?;
        fields.done()?;
        Ok(Results { file, line, stop })
    })?;
    fields.done()?;
    Ok((Application { name, start, on, run, results }, class))
}

fn command(value: &Value<'_>) -> Read<String> {
    let text = value.text()?;
    if text.trim().is_empty() {
        return Err(value.error("is empty; write a command"));
    }
    if text.contains('\0') {
        return Err(value.error("has a character that no command can have"));
    }
    Ok(text.to_owned())
}
