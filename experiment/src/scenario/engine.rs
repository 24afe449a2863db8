//! `[engine]`: the engine that runs in the lab, and what is run on it.

use document::DocumentError;
use document::fields::{Value, between};
use lab::{Application, Engine, Results};
use model::JobClass;
use units::Span;

use super::jobs::CLASSES;

type Read<T> = Result<T, DocumentError>;

/// Most applications, and most commands that prepare them.
const MOST: usize = 16;
/// Line of results that counts, at most.
const LINES: usize = 100_000;

/// The engine that runs in the lab, and what is run on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// The engine.
    pub kind: Engine,
    /// Commands that each start of the engine begins with.
    pub prepare: Vec<String>,
    /// When the results of all applications must be there.
    pub until: Span,
    /// What runs on it, of each the size class of its job, where it has one.
    pub applications: Vec<(Application, Option<JobClass>)>,
}

impl EngineSettings {
    /// The names of its applications where there are several: their metrics have them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = if self.applications.len() > 1 { &self.applications[..] } else { &[] };
        all.iter().map(|(application, _)| application.name.as_str())
    }
}

/// The table `[engine]`.
pub(super) fn read(value: &Value<'_>) -> Read<EngineSettings> {
    let mut fields = value.fields()?;
    let kind = fields.need("kind", "\"storm\"")?.choice(Engine::NAMED)?;
    let span = |v: &Value<'_>| between(v, Span::from_secs(1), Span::from_secs(86_400));
    let until = fields.or("until", Span::from_secs(900), span)?;
    let prepare = fields.tables("prepare", MOST)?;
    let prepare = prepare.iter().map(command).collect::<Read<_>>()?;
    let tables = fields.tables("application", MOST)?;
    let applications: Vec<_> = tables.iter().map(application).collect::<Read<_>>()?;
    for (number, (own, _)) in applications.iter().enumerate() {
        if applications[..number].iter().any(|(other, _)| other.name == own.name) {
            return Err(tables[number].error("has the name of another; give each its own name"));
        }
    }
    fields.done()?;
    Ok(EngineSettings { kind, prepare, until, applications })
}

fn application(value: &Value<'_>) -> Read<(Application, Option<JobClass>)> {
    let mut fields = value.fields()?;
    let name = fields.need("name", "\"trucking\"")?.label()?;
    let class = fields.optional("class", |v| v.choice(CLASSES))?;
    let time = |v: &Value<'_>| between(v, Span::ZERO, Span::from_secs(86_400));
    let start = fields.or("start", Span::ZERO, time)?;
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
    Ok((Application { name, start, run, results }, class))
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
