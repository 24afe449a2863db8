//! Our values beside the published ones, by figure.

use std::collections::{BTreeMap, BTreeSet};

use document::Setting;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::plan::{FigurePlan, PanelPlan, Plan, PointPlan};
use super::runs::{Measured, PolicyMeasured};
use crate::figure::Figure;
use crate::metrics::{Metrics, Sample};
use crate::published::{Published, Verdict};
use crate::result::{Origin, RunResult};

/// All figures that were reproduced. As JSON the list of them.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Reproduction {
    /// By text and number.
    pub figures: Vec<FigureResult>,
    /// Whether it was a quick run.
    #[serde(skip)]
    pub quick: bool,
}

/// A figure: our values beside the published ones.
#[derive(Clone, Debug, Serialize)]
pub struct FigureResult {
    /// Short name of the text.
    pub text: String,
    /// Number in the text.
    #[serde(rename = "figure")]
    pub number: String,
    /// The worst verdict of the measures, without those of panels that stand in for one that was
    /// run; `None` when nothing is published or nothing was run.
    pub verdict: Verdict,
    /// Every published value.
    pub measures: Vec<Measure>,
    /// Why our values differ, or why nothing was run; may be empty.
    pub reason: String,
    /// What to draw.
    #[serde(skip)]
    pub panels: Vec<PanelResult>,
}

/// A published value beside ours.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// What is compared, in the scenario's words.
    pub name: String,
    /// Our mean; `None` when it wasn't measured.
    pub ours: Option<f64>,
    /// Half the width of its 95 % interval, of repeated runs.
    #[serde(skip)]
    pub interval: Option<f64>,
    /// What the text gives.
    #[serde(flatten, serialize_with = "value_and_bound")]
    pub published: Published,
    /// The verdict.
    pub verdict: Verdict,
}

fn value_and_bound<S: Serializer>(published: &Published, to: S) -> Result<S::Ok, S::Error> {
    let mut keys = to.serialize_map(None)?;
    keys.serialize_entry("published", &published.value)?;
    if let Some(bound) = published.bound.name() {
        keys.serialize_entry("bound", bound)?;
    }
    keys.end()
}

/// One scenario of a figure.
#[derive(Clone, Debug)]
pub struct PanelResult {
    /// What it plots.
    pub figure: Figure,
    /// One line for people.
    pub title: String,
    /// Text and section.
    pub source: String,
    /// The points of its axis; none when it wasn't run.
    pub points: Vec<Drawn>,
}

/// A point of an axis.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The x value; `None` where nothing varies.
    pub x: Option<Setting>,
    /// Means and intervals by policy, judged.
    pub result: RunResult,
    /// Every policy's values of the figure's distribution, of all repetitions, in the order of the
    /// result; empty when it plots none.
    pub samples: Vec<Sample>,
}

impl Reproduction {
    /// Judges `results`, those of the units of `plan` in their order.
    pub fn new(plan: &Plan, results: &[Result<Measured, String>], quick: bool) -> Self {
        let figures = plan.figures.iter().map(|figure| FigureResult::new(figure, results));
        Self { figures: figures.collect(), quick }
    }

    /// The published values that matter most, each with its figure.
    pub fn headline(&self) -> impl Iterator<Item = (&FigureResult, &Measure)> {
        let all = self.figures.iter().flat_map(|f| f.measures.iter().map(move |m| (f, m)));
        all.filter(|(_, measure)| measure.published.headline)
    }

    /// The JSON array, indented, with a line end.
    ///
    /// # Errors
    /// None with finite metrics.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

impl FigureResult {
    fn new(plan: &FigurePlan, results: &[Result<Measured, String>]) -> Self {
        let mut figure = Self {
            text: plan.text.clone(),
            number: plan.number.clone(),
            verdict: Verdict::None,
            measures: Vec::new(),
            reason: String::new(),
            panels: Vec::new(),
        };
        let mut said = Vec::new();
        for panel in &plan.panels {
            let prefix = match &panel.figure.panel {
                name if name.is_empty() => String::new(),
                name => format!("{name}: "),
            };
            said.extend(panel.missing.iter().map(|missing| format!("{prefix}not run: {missing}")));
            let mut points = Vec::new();
            for point in &panel.points {
                match point.collect(results) {
                    Ok(repetitions) => points.push((point, repetitions)),
                    Err(error) => said.push(format!("{prefix}failed: {error}")),
                }
            }
            if points.len() < panel.points.len() {
                figure.verdict = Verdict::Differs;
            }
            let measures = measures(panel, &points, &prefix);
            let original = &panel.figure.stands_in_for;
            if plan.ran(original) {
                let aside = "it stands in for the panel, and its values don't decide the verdict";
                said.push(format!("{prefix}{aside} ({original} was run)"));
            } else {
                let worst = measures.iter().map(|measure| measure.verdict).max();
                figure.verdict = figure.verdict.max(worst.unwrap_or(Verdict::None));
            }
            said.extend(measures.iter().filter(|m| m.verdict > Verdict::Holds).map(|m| {
                let reason = &m.published.reason;
                let unknown = format!("{}: no reason is known", m.name);
                if reason.is_empty() { unknown } else { reason.clone() }
            }));
            figure.measures.extend(measures);
            figure.panels.push(PanelResult {
                figure: panel.figure.clone(),
                title: panel.title.clone(),
                source: panel.source.clone(),
                points: points.iter().map(|(point, all)| draw(panel, point, all)).collect(),
            });
        }
        let mut seen = BTreeSet::new();
        said.retain(|reason| seen.insert(reason.clone()));
        figure.reason = said.join("\n");
        figure
    }

    /// The verdict, or that nothing could be run.
    pub fn verdict_name(&self) -> &'static str {
        let ran = self.panels.iter().any(|panel| !panel.points.is_empty());
        if self.verdict == Verdict::None && !ran { "not run" } else { self.verdict.name() }
    }
}

impl FigurePlan {
    /// Whether there is a panel of this name, and it can be run.
    fn ran(&self, panel: &str) -> bool {
        let runs = |one: &PanelPlan| one.figure.panel == panel && one.missing.is_none();
        !panel.is_empty() && self.panels.iter().any(runs)
    }
}

/// What every repetition of a point gave.
type Repetitions<'a> = Vec<&'a Measured>;

impl PointPlan {
    fn collect<'a>(
        &self,
        results: &'a [Result<Measured, String>],
    ) -> Result<Repetitions<'a>, &'a String> {
        self.units.iter().map(|&unit| results[unit].as_ref()).collect()
    }
}

fn draw(panel: &PanelPlan, point: &PointPlan, repetitions: &Repetitions<'_>) -> Drawn {
    let metrics = repetitions.iter().map(|measured| metrics_of(measured));
    let result = judged(panel, &here(panel, point), metrics);
    let distribution = panel.figure.metrics.first();
    let samples = result.results.iter().map(|policy| {
        let all = repetitions.iter().flat_map(|measured| &measured.0);
        let own = all.filter(|measured| measured.policy == policy.policy);
        let values = own.filter_map(|measured| measured.samples.get(distribution?));
        values.flatten().copied().collect()
    });
    Drawn { x: point.x.clone(), samples: samples.collect(), result }
}

/// Values published for a point, not for the whole axis.
fn here(panel: &PanelPlan, point: &PointPlan) -> Vec<Published> {
    let published = point.published.iter();
    published.filter(|p| panel.figure.vary.is_empty() || p.at.is_some()).cloned().collect()
}

/// The means of repetitions, given the metrics of each by policy.
fn judged(
    panel: &PanelPlan,
    published: &[Published],
    repetitions: impl Iterator<Item = Vec<(String, Metrics)>>,
) -> RunResult {
    let origin = Origin {
        scenario: panel.path.display().to_string(),
        world: String::new(),
        seed: 1,
        version: String::new(),
        random: String::new(),
    };
    let one =
        |metrics| RunResult::judged(origin.clone(), metrics, Some(&panel.baseline), published);
    let all: Vec<RunResult> = repetitions.map(one).collect();
    // A point has one repetition at least.
    RunResult::mean_of(&all).unwrap_or_else(|| one(Vec::new()))
}

fn metrics_of(measured: &Measured) -> Vec<(String, Metrics)> {
    let policies = measured.0.iter();
    policies.map(|policy| (policy.policy.clone(), policy.metrics.clone())).collect()
}

/// Every published value of a panel: first those at points of its axis, then those about all of it.
fn measures(
    panel: &PanelPlan,
    points: &[(&PointPlan, Repetitions<'_>)],
    prefix: &str,
) -> Vec<Measure> {
    let varies = !panel.figure.vary.is_empty();
    let mut measures = Vec::new();
    for (point, repetitions) in points {
        let here = here(panel, point);
        let metrics = repetitions.iter().map(|measured| metrics_of(measured));
        measures.extend(told(&judged(panel, &here, metrics), &here, prefix));
    }
    let Some((first, repetitions)) = points.first().filter(|_| varies) else {
        return measures;
    };
    let whole: Vec<Published> =
        first.published.iter().filter(|p| p.at.is_none()).cloned().collect();
    let averages = (0..repetitions.len()).map(|repetition| {
        let along = points.iter().filter_map(|(_, all)| all.get(repetition).copied());
        average(&along.collect::<Vec<_>>())
    });
    measures.extend(told(&judged(panel, &whole, averages), &whole, prefix));
    measures
}

/// The verdict on each of `published`, in its order.
fn told(result: &RunResult, published: &[Published], prefix: &str) -> Vec<Measure> {
    let measures = published.iter().filter_map(|published| {
        let policy = result.results.iter().find(|policy| policy.policy == published.policy)?;
        let key = published.key();
        let at = published.at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        Some(Measure {
            name: format!("{prefix}{} {key}{at}", published.policy),
            ours: policy.metrics.get(&key).copied(),
            interval: policy.interval95.get(&key).copied(),
            verdict: policy.verdicts.get(&key).copied().unwrap_or(Verdict::Differs),
            published: published.clone(),
        })
    });
    measures.collect()
}

/// The mean of every metric over those points of an axis that have it, by policy.
fn average(along: &[&Measured]) -> Vec<(String, Metrics)> {
    let Some(first) = along.first() else {
        return Vec::new();
    };
    let policies = first.0.iter().map(|PolicyMeasured { policy, .. }| {
        let mut sums: BTreeMap<&String, (f64, f64)> = BTreeMap::new();
        let same = along.iter().flat_map(|measured| &measured.0).filter(|m| m.policy == *policy);
        for (name, value) in same.flat_map(|measured| &measured.metrics) {
            let (sum, count) = sums.entry(name).or_default();
            (*sum, *count) = (*sum + value, *count + 1.0);
        }
        let means = sums.into_iter().map(|(name, (sum, count))| (name.clone(), sum / count));
        (policy.clone(), means.collect())
    });
    policies.collect()
}
