//! `watermaster check`.

use std::path::{Path, PathBuf};

use clap::Args;
use experiment::scenario::{Override, Scenario};
use model::NodeKind;

use crate::failure::{Failure, print, say};
use crate::input::{prepare, trace_override};

/// Check scenarios without running them: read them, and make their networks and jobs
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster check scenarios/*/*.toml")]
pub(crate) struct Check {
    /// The scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,

    /// Change a key of each scenario; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    changes: Vec<Override>,

    /// Take the jobs from this trace
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

impl Check {
    pub(crate) fn execute(mut self) -> Result<(), Failure> {
        if let Some(trace) = &self.trace {
            self.changes.push(trace_override(trace)?);
        }
        let mut last = None;
        for path in &self.scenarios {
            match self.check(path) {
                Ok(summary) => print(&summary)?,
                // All but the last error are printed here; the caller prints the last.
                Err(failure) => {
                    if let Some(Failure::Misused(message)) = last.replace(failure) {
                        say(&message);
                    }
                }
            }
        }
        last.map_or(Ok(()), Err)
    }

    fn check(&self, path: &Path) -> Result<String, Failure> {
        let scenario = Scenario::load(path, &self.changes).map_err(Failure::misused)?;
        // Every point of a figure's axis is read too.
        for figure in &scenario.figures {
            for point in figure.points(false) {
                let point = figure.overrides(point, 1);
                let changes: Vec<Override> = self.changes.iter().cloned().chain(point).collect();
                Scenario::load(path, &changes).map_err(Failure::misused)?;
            }
        }
        let prepared = prepare(scenario)?;
        let scenario = &prepared.scenario;
        let topology = &scenario.topology;
        let hosts = topology.nodes().iter().filter(|node| node.kind == NodeKind::Host).count();
        let labels: Vec<&str> = scenario.labels().collect();
        Ok(format!(
            "{}: {hosts} hosts, {} switches, {} links; {}; {}\n",
            path.display(),
            topology.nodes().len() - hosts,
            topology.links().len(),
            prepared.traffic.describe(),
            labels.join(", ")
        ))
    }
}
