//! Which figures there are and which runs each takes. Figures that need the same run share it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use document::{DocumentError, Override, Setting, text_of};

use crate::choice::{Choice, Tried};
use crate::figure::Figure;
use crate::metrics;
use crate::published::Published;
use crate::scenario::{Content, Scenario};

/// What to reproduce, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only this text.
    pub text: Option<String>,
    /// Only the figure of this number.
    pub number: Option<String>,
    /// Only the points and repetitions of a quick run, and no choices.
    pub quick: bool,
    /// Trace files by name.
    pub traces: BTreeMap<String, PathBuf>,
}

/// Why nothing can be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The folder of scenarios can't be read.
    #[error("{}: {source}; name the folder of the scenarios", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] DocumentError),
    /// A figure has the published values of one that isn't there.
    #[error("{}: figure.same_values_as: there is no figure {other}; name one of the same text", path.display())]
    SameValues {
        /// The scenario.
        path: PathBuf,
        /// The number that it names.
        other: String,
    },
    /// A file that a scenario names can't be read.
    #[error("{scenario}: {source}")]
    File {
        /// The scenario.
        scenario: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// All figures that were chosen, and the runs that they take, each once.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// By text and number.
    pub figures: Vec<FigurePlan>,
    /// All runs.
    pub units: Vec<Unit>,
    /// What was found, by text: the file `found.txt` beside its scenarios. The first paragraph is for the
    /// page about all texts, the others for its own.
    pub found: BTreeMap<String, String>,
}

/// A figure.
#[derive(Clone, Debug)]
pub struct FigurePlan {
    /// Short name of the text.
    pub text: String,
    /// Number in the text.
    pub number: String,
    /// Its scenarios, by file name.
    pub panels: Vec<PanelPlan>,
}

/// A figure's scenario.
#[derive(Clone, Debug)]
pub struct PanelPlan {
    /// What it plots.
    pub figure: Figure,
    /// One line for people.
    pub title: String,
    /// Text and section.
    pub source: String,
    /// The file.
    pub path: PathBuf,
    /// Label of the policy that others are compared with.
    pub baseline: String,
    /// The points of its axis; none when it can't be run.
    pub points: Vec<PointPlan>,
    /// What the text leaves open, with the runs of what else was possible.
    pub choices: Vec<ChoicePlan>,
    /// What the text leaves open, and nothing else was tried.
    pub untried: Vec<String>,
    /// What the text says and the scenario has not.
    pub lacking: Vec<String>,
    /// Why it can't be run.
    pub missing: Option<String>,
}

/// A choice, at the points that something is published of.
#[derive(Clone, Debug)]
pub struct ChoicePlan {
    /// What is chosen. After each value that takes other runs stands the same, read as each value of
    /// a choice of readings does; no value in a quick run.
    pub choice: Choice,
    /// The points under each of its other values, in its order.
    pub tried: Vec<Vec<PointPlan>>,
}

impl ChoicePlan {
    /// Adds `value`, with what `read` has judged at `points`.
    fn add(
        &mut self,
        value: Tried,
        points: &[PointPlan],
        read: impl Fn(&Published) -> Option<Published>,
    ) {
        let read = |point: &PointPlan| PointPlan {
            published: point.published.iter().filter_map(&read).collect(),
            ..point.clone()
        };
        self.choice.tried.push(value);
        self.tried.push(points.iter().map(read).collect());
    }
}

/// A point of an axis.
#[derive(Clone, Debug)]
pub struct PointPlan {
    /// Its x value; `None` where nothing varies.
    pub x: Option<Setting>,
    /// What is published of it.
    pub published: Vec<Published>,
    /// Its repetitions: positions in [`Plan::units`].
    pub units: Vec<usize>,
}

/// A scenario with one repetition's values, to be run under some of its policies.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The scenario file.
    pub path: PathBuf,
    /// What changes it.
    pub overrides: Vec<Override>,
    /// Label of the policy that the others are compared with; `None` where nothing is.
    pub baseline: Option<String>,
    /// Its runs, in the order of the scenario.
    pub runs: Vec<PlannedRun>,
    /// The distributions that figures plot of it.
    pub distributions: BTreeSet<String>,
}

/// The run of a unit under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// Label of the policy.
    pub policy: String,
    /// Equal for equal results, whatever the policy is called.
    pub key: String,
}

/// Most octets of what was found of a text.
const MOST_FOUND: u64 = 4096;

impl Plan {
    /// Reads all scenarios in the folders of `folder` and plans those that are figures.
    ///
    /// # Errors
    /// See [`PlanError`]; a missing trace is no error.
    pub fn new(folder: &Path, selection: &Selection) -> Result<Self, PlanError> {
        let mut plan = Self::default();
        let mut figures: BTreeMap<(String, Vec<Part>), FigurePlan> = BTreeMap::new();
        // The scenarios of a text are in the folder of its name.
        let chosen = |path: &PathBuf| match &selection.text {
            Some(text) => path.file_name() == Some(OsStr::new(text)),
            None => true,
        };
        for directory in entries(folder)?.iter().filter(|path| path.is_dir() && chosen(path)) {
            let found = directory.join("found.txt");
            if let (Some(text), true) = (directory.file_name(), found.exists()) {
                let (_, words) = text_of(&found, MOST_FOUND)?;
                plan.found.insert(text.to_string_lossy().into_owned(), words);
            }
            for path in entries(directory)? {
                if path.extension() != Some(OsStr::new("toml")) {
                    continue;
                }
                let scenario = Scenario::load(&path, &[])?;
                for figure in &scenario.figures {
                    if !selection.chooses(figure) {
                        continue;
                    }
                    let panel = plan.panel(&path, &scenario, figure, selection)?;
                    let place = (figure.text.clone(), natural(&figure.number));
                    let entry = figures.entry(place).or_insert_with(|| FigurePlan {
                        text: figure.text.clone(),
                        number: figure.number.clone(),
                        panels: Vec::new(),
                    });
                    entry.panels.push(panel);
                }
            }
        }
        for panel in figures.values().flat_map(|figure| &figure.panels) {
            let Figure { text, same_values_as, .. } = &panel.figure;
            let missing = |other: &&String| !figures.contains_key(&(text.clone(), natural(other)));
            // With a single figure chosen the others aren't here.
            let other = same_values_as.as_ref().filter(missing);
            if let Some(other) = other.filter(|_| selection.number.is_none()) {
                return Err(PlanError::SameValues {
                    path: panel.path.clone(),
                    other: other.clone(),
                });
            }
        }
        plan.figures = figures.into_values().collect();
        Ok(plan)
    }

    fn panel(
        &mut self,
        path: &Path,
        scenario: &Scenario,
        figure: &Figure,
        selection: &Selection,
    ) -> Result<PanelPlan, PlanError> {
        let mut panel = PanelPlan {
            figure: figure.clone(),
            title: scenario.title.clone(),
            source: scenario.source.clone(),
            path: path.to_owned(),
            baseline: scenario.baseline.clone(),
            points: Vec::new(),
            choices: Vec::new(),
            untried: scenario.untried.clone(),
            lacking: scenario.lacking.clone(),
            missing: None,
        };
        let mut trace = None;
        if let Some(name) = &figure.trace {
            let Some(file) = selection.traces.get(name) else {
                panel.missing = Some(format!("needs the trace {name}, which isn't here"));
                return Ok(panel);
            };
            let file = file.to_string_lossy();
            trace = Some(Override::text("--trace", "workload.trace.file", &file));
        }
        let plotted = scenario.figures.iter().flat_map(|figure| &figure.metrics);
        let distributions: BTreeSet<String> =
            plotted.filter(|name| metrics::distributions().any(|d| d == *name)).cloned().collect();
        let series = Series {
            path,
            figure,
            set: trace.into_iter().collect(),
            seeds: figure.repetitions(selection.quick),
            policies: Vec::new(),
            distributions,
        };
        let points = figure.points(selection.quick);
        panel.points = self.points(&series, &points)?;
        let open: Vec<&Published> =
            panel.points.iter().flat_map(|point| &point.published).collect();
        let open: Vec<_> = open.into_iter().filter(|p| p.standing.is_judged()).collect();
        for choice in &scenario.choices {
            // Only what is judged: the points, and at each the policies, that something is published of.
            let open: Vec<_> = open.iter().copied().filter(|p| choice.is_of(p)).collect();
            let whole = open.iter().any(|p| p.at.is_none());
            let is_judged = |point: &&&[Setting]| {
                whole || open.iter().any(|p| p.at.is_some() && p.at.as_ref() == point.first())
            };
            let judged: Vec<_> = points.iter().filter(is_judged).copied().collect();
            let all = panel.points.iter().flat_map(|point| &point.published);
            let all: Vec<&Published> = all.collect();
            let tells = choice.tried.iter().any(|value| match value.is_other_runs() {
                true => !judged.is_empty(),
                false => all.iter().any(|one| choice.read(value, one).is_some()),
            });
            if !tells {
                continue;
            }
            // Other runs may be read otherwise, too.
            let readings: Vec<(&Choice, &Tried)> = scenario
                .choices
                .iter()
                .flat_map(|of| of.tried.iter().map(move |value| (of, value)))
                .filter(|(_, value)| !value.is_other_runs())
                .collect();
            let own: Vec<&Published> = all.into_iter().filter(|one| choice.is_of(one)).collect();
            let read = own.iter().flat_map(|one| {
                readings.iter().filter_map(move |(of, reading)| of.read(reading, one))
            });
            let judged_of: Vec<Published> = own
                .iter()
                .map(|one| (*one).clone())
                .chain(read)
                .filter(|one| one.standing.is_judged())
                .collect();
            let nothing = Choice { tried: Vec::new(), ..choice.clone() };
            let mut plan = ChoicePlan { choice: nothing, tried: Vec::new() };
            for value in choice.tried.iter().filter(|_| !selection.quick) {
                if !value.is_other_runs() {
                    plan.add(value.clone(), &panel.points, |one| choice.read(value, one));
                    continue;
                }
                let set = series.set.iter().chain(&value.set).cloned().collect();
                let seeds = choice.seeds.min(series.seeds);
                let mut series = Series { set, seeds, ..series.clone() };
                let mut points = Vec::new();
                for point in &judged {
                    series.policies = policies_of(&judged_of, point, scenario);
                    points.extend(self.points(&series, &[*point])?);
                }
                plan.add(value.clone(), &points, |one| choice.read(value, one));
                for (of, reading) in &readings {
                    plan.add(value.read_as(reading), &points, |one| {
                        of.read(reading, one).filter(|_| choice.is_of(one))
                    });
                }
            }
            panel.choices.push(plan);
        }
        Ok(panel)
    }

    /// Plans the repetitions of `points`.
    fn points(
        &mut self,
        series: &Series<'_>,
        points: &[&[Setting]],
    ) -> Result<Vec<PointPlan>, PlanError> {
        let Series { path, figure, set, .. } = series;
        let mut planned = Vec::new();
        for point in points {
            let of = |repetition| -> Vec<Override> {
                set.iter().cloned().chain(figure.overrides(point, repetition)).collect()
            };
            let scenario = Scenario::load(path, &of(1))?;
            let baseline = scenario.figures_compare().then_some(scenario.baseline.as_str());
            let runs = |label: &&str| {
                let chosen =
                    series.policies.is_empty() || series.policies.iter().any(|p| p == label);
                chosen || baseline == Some(*label)
            };
            let labels: Vec<&str> = scenario.labels().filter(runs).collect();
            let mut units = Vec::new();
            for repetition in 1..=series.seeds {
                let overrides = of(repetition);
                let content = Content::load(path, &overrides)?;
                let keys = content.keys(&labels, baseline, &[]);
                let keys = keys.map_err(|source| PlanError::File {
                    scenario: path.display().to_string(),
                    source,
                })?;
                let runs = labels.iter().zip(keys);
                let runs = runs.map(|(label, key)| PlannedRun { policy: (*label).to_owned(), key });
                units.push(self.unit(Unit {
                    path: path.to_path_buf(),
                    overrides,
                    baseline: baseline.map(str::to_owned),
                    runs: runs.collect(),
                    distributions: series.distributions.clone(),
                }));
            }
            let mut published = scenario.published;
            published.retain(|p| p.figure == figure.number);
            planned.push(PointPlan { x: point.first().cloned(), published, units });
        }
        Ok(planned)
    }

    /// The position of a unit with the same results; `unit` is added if there is none.
    fn unit(&mut self, unit: Unit) -> usize {
        let same = self.units.iter().position(|other| other.runs == unit.runs);
        let Some(position) = same else {
            self.units.push(unit);
            return self.units.len() - 1;
        };
        self.units[position].distributions.extend(unit.distributions);
        position
    }
}

/// Points of a figure that share what changes their scenario and how often each is run.
#[derive(Clone)]
struct Series<'a> {
    path: &'a Path,
    figure: &'a Figure,
    set: Vec<Override>,
    seeds: u32,
    /// The policies to run; empty: all.
    policies: Vec<String>,
    distributions: BTreeSet<String>,
}

/// The policies without which what is `published` of `point`, or of the whole axis, can't be judged, but
/// for a baseline, in the order of the scenario.
fn policies_of(published: &[Published], point: &[Setting], scenario: &Scenario) -> Vec<String> {
    let here = |p: &&Published| p.at.is_none() || p.at.as_ref() == point.first();
    let needs = |label: &&str| {
        let of = |p: &Published| p.policy == *label || p.against.as_deref() == Some(*label);
        published.iter().filter(here).any(of)
    };
    scenario.labels().filter(needs).map(str::to_owned).collect()
}

impl Selection {
    fn chooses(&self, figure: &Figure) -> bool {
        let is = |chosen: &Option<String>, name| chosen.as_deref().is_none_or(|only| only == name);
        is(&self.text, &figure.text) && is(&self.number, &figure.number)
    }
}

/// The entries of a directory, by name.
fn entries(path: &Path) -> Result<Vec<PathBuf>, PlanError> {
    let fail = |source| PlanError::Folder { path: path.to_owned(), source };
    let entries = fs::read_dir(path).map_err(fail)?;
    let mut paths =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(fail)?;
    paths.sort();
    Ok(paths)
}

/// A part of a figure's number: digits count as a number, so that 9 comes before 10.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

fn natural(number: &str) -> Vec<Part> {
    let parts = number.split_inclusive(|c: char| !c.is_ascii_digit()).flat_map(|part| {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        let rest = part.get(digits.len()..).unwrap_or_default();
        let number = digits.parse().ok().map(Part::Number);
        number.into_iter().chain((!rest.is_empty()).then(|| Part::Text(rest.to_owned())))
    });
    parts.collect()
}
