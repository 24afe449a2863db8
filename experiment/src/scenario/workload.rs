//! `[workload]`: what moves.

use std::path::Path;

use model::{Job, Topology};

use super::fields::Value;
use super::{ScenarioError, jobs};

/// What moves in a scenario.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Jobs written out in the file, by arrival.
    Jobs(Vec<Job>),
}

#[derive(Clone, Copy)]
enum Kind {
    Jobs,
}

const KINDS: &[(&str, Kind)] = &[("jobs", Kind::Jobs)];

/// Files that the table names are looked up from `folder`; endless flows are allowed where the run
/// `ends` on its own.
pub(super) fn read(
    value: &Value<'_>,
    topology: &Topology,
    folder: &Path,
    ends: bool,
) -> Result<Workload, ScenarioError> {
    let _ = folder;
    let mut fields = value.fields()?;
    let kind = fields.need("kind", "\"shuffle\"")?.choice(KINDS)?;
    let workload = match kind {
        Kind::Jobs => {
            let list = fields.need("job", "a [[workload.job]] table")?;
            Workload::Jobs(jobs::read(&list, &jobs::hosts(topology), ends)?)
        }
    };
    fields.done()?;
    Ok(workload)
}

impl Workload {
    pub(super) fn jobs(&self) -> Result<Box<dyn Iterator<Item = Job> + '_>, ScenarioError> {
        match self {
            Self::Jobs(jobs) => Ok(Box::new(jobs.iter().cloned())),
        }
    }
}
