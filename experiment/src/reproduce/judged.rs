//! Our values beside the published ones, by figure.

use std::collections::{BTreeMap, BTreeSet};

use document::Setting;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::plan::{ChoicePlan, FigurePlan, PanelPlan, Plan, PointPlan};
use super::runs::{Measured, PolicyMeasured};
use crate::choice::{Choice, Rule, Tried};
use crate::figure::Figure;
use crate::metrics::{Metrics, Sample, Summary, Unit, human};
use crate::published::{Published, Standing, Verdict, judge};
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
    /// What was found, by text, in a maintainer's words.
    #[serde(skip)]
    pub found: BTreeMap<String, String>,
}

/// A figure: our values beside the published ones.
#[derive(Clone, Debug, Serialize)]
pub struct FigureResult {
    /// Short name of the text.
    pub text: String,
    /// Number in the text.
    #[serde(rename = "figure")]
    pub number: String,
    /// The verdict of the measures that prevails; `None` when nothing is published or nothing was
    /// run.
    pub verdict: Verdict,
    /// Every published value.
    pub measures: Vec<Measure>,
    /// What the text leaves open, and what else was possible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<ChoiceResult>,
    /// Why our values differ, or why nothing was run; may be empty.
    pub reason: String,
    /// What to draw.
    #[serde(skip)]
    pub panels: Vec<PanelResult>,
}

impl Measure {
    /// Our value for people, with its interval.
    pub fn ours_shown(&self) -> String {
        let key = self.published.key();
        let ours = self.ours.map_or_else(|| "–".to_owned(), |value| human(&key, value));
        match self.interval {
            Some(half) => format!("{ours} ± {}", Unit::of(&key).show(half)),
            None => ours,
        }
    }

    /// Whether our interval covers both the published size and no effect.
    fn covers_both(&self) -> bool {
        let (Some(ours), Some(half)) = (self.ours, self.interval) else { return false };
        let sizes = [self.published.claim.size(), self.published.no_effect()];
        sizes.iter().all(|size| size.is_some_and(|size| (size - ours).abs() <= half))
    }
}

/// A published value beside ours.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// What is compared, in the scenario's words.
    pub name: String,
    /// Our mean; `None` when it wasn't measured.
    pub ours: Option<f64>,
    /// Half the width of its 95 % interval.
    #[serde(rename = "interval95", skip_serializing_if = "Option::is_none")]
    pub interval: Option<f64>,
    /// What the text gives.
    #[serde(flatten, serialize_with = "claimed")]
    pub published: Published,
    /// The verdict, under all values of all choices.
    pub verdict: Verdict,
    /// The verdict under the values that stand, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_chosen: Option<Verdict>,
    /// Why it tells nothing, or which choices decide it; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub because: String,
}

/// A choice that the text doesn't make, and our values under what else was possible.
#[derive(Clone, Debug, Serialize)]
pub struct ChoiceResult {
    /// What is chosen.
    pub about: String,
    /// What stands.
    pub stands: String,
    /// The rule by which it stands.
    pub rule: Rule,
    /// How the rule leads to it.
    pub why: String,
    /// What else was possible.
    pub tried: Vec<TriedResult>,
}

/// Our values under another value of a choice.
#[derive(Clone, Debug, Serialize)]
pub struct TriedResult {
    /// What the value is called.
    pub name: String,
    /// Those published values that can tell something, judged. Their intervals are as wide as they
    /// would be with as many repetitions as the value that stands has.
    pub measures: Vec<Measure>,
    /// Why there are none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failed: String,
}

fn claimed<S: Serializer>(published: &Published, to: S) -> Result<S::Ok, S::Error> {
    let mut keys = to.serialize_map(None)?;
    keys.serialize_entry("published", &published.claim.size())?;
    if let Some(bound) = published.bound.name() {
        keys.serialize_entry("bound", bound)?;
    }
    match published.claim.direction() {
        Some(direction) => keys.serialize_entry("direction", direction)?,
        None => keys.serialize_entry("tolerance", &published.tolerance)?,
    }
    if let Some(reading) = &published.reading {
        keys.serialize_entry("reading", reading)?;
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
        Self { figures: figures.collect(), quick, found: plan.found.clone() }
    }

    /// The published values that matter most, each with its figure, of those whose verdict says
    /// something of the text.
    pub fn headline(&self) -> impl Iterator<Item = (&FigureResult, &Measure)> {
        let all = self.figures.iter().flat_map(|f| f.measures.iter().map(move |m| (f, m)));
        all.filter(|(_, measure)| measure.published.headline && measure.verdict.decides())
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
            choices: Vec::new(),
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
            let mut measures = measures(panel, &points, &prefix, None);
            for choice in &panel.choices {
                if choice.tried.is_empty() {
                    said.push(format!("{prefix}not tried in a quick run: {}", choice.choice.about));
                    continue;
                }
                let choice = tried(panel, choice, results, &prefix, &mut measures);
                // Scenarios of a figure may leave the same open.
                match figure.choices.iter_mut().find(|other| other.is_as(&choice)) {
                    Some(other) => other.join(choice),
                    None => figure.choices.push(choice),
                }
            }
            let worst = measures.iter().map(|measure| measure.verdict).max();
            figure.verdict = figure.verdict.max(worst.unwrap_or(Verdict::None));
            for measure in &measures {
                if !measure.because.is_empty() {
                    said.push(format!("{}: {}", measure.name, measure.because));
                }
                let reason = &measure.published.reason;
                if measure.verdict > Verdict::Holds && !reason.is_empty() {
                    said.push(reason.clone());
                } else if measure.verdict == Verdict::Differs {
                    let why = match measure.covers_both() {
                        true => "our interval covers what is published and no effect alike",
                        false => "no reason is known",
                    };
                    said.push(format!("{}: {why}", measure.name));
                }
            }
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

impl ChoiceResult {
    fn of(choice: &Choice) -> Self {
        Self {
            about: choice.about.clone(),
            stands: choice.stands.clone(),
            rule: choice.rule,
            why: choice.why.clone(),
            tried: Vec::new(),
        }
    }

    fn is_as(&self, other: &Self) -> bool {
        let names = |choice: &Self| choice.tried.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
        self.about == other.about && self.stands == other.stands && names(self) == names(other)
    }

    fn join(&mut self, other: Self) {
        for (own, tried) in self.tried.iter_mut().zip(other.tried) {
            own.measures.extend(tried.measures);
            if own.failed.is_empty() {
                own.failed = tried.failed;
            }
        }
    }
}

/// Our values under what else `plan` could have been, after which `measures`, those under what
/// stands, have the verdicts that all of them allow.
fn tried(
    panel: &PanelPlan,
    plan: &ChoicePlan,
    results: &[Result<Measured, String>],
    prefix: &str,
    measures: &mut [Measure],
) -> ChoiceResult {
    let mut choice = ChoiceResult::of(&plan.choice);
    let runs = panel.points.iter().map(|point| point.units.len()).max();
    for (value, points) in plan.choice.tried.iter().zip(&plan.tried) {
        let collected: Result<Vec<_>, _> =
            points.iter().map(|point| Ok((point, point.collect(results)?))).collect();
        let (all, failed) = match collected {
            Ok(points) => (self::measures(panel, &points, prefix, runs), String::new()),
            Err(error) => (Vec::new(), String::clone(error)),
        };
        let tells = |one: &Measure| !matches!(one.published.standing, Standing::Follows(_));
        let all = all.into_iter().filter(tells).collect();
        choice.tried.push(TriedResult { name: value.name.clone(), measures: all, failed });
    }
    for measure in measures.iter_mut() {
        // What was put in tells nothing under any value, and what was undetermined stays so.
        let before = measure.as_chosen.unwrap_or(measure.verdict);
        let are_equal =
            before == Verdict::NoInformation && measure.published.standing == Standing::Open;
        let metric = &measure.published.metric;
        let is_read_otherwise = plan.choice.tried.iter().any(|v| v.metric.contains_key(metric));
        if !before.decides() && !are_equal && !is_read_otherwise {
            continue;
        }
        let same = |(value, tried): (&Tried, &TriedResult)| {
            let name = match value.metric.get(metric) {
                Some(other) => measure.name.replacen(metric, other, 1),
                // Another metric's reading says nothing of this one.
                None if !value.metric.is_empty() => return before,
                None => measure.name.clone(),
            };
            let found = tried.measures.iter().find(|one| one.name == name);
            found.map_or(Verdict::Differs, |found| match found.verdict {
                // What isn't measured contradicts nothing.
                _ if found.ours.is_none() => before,
                verdict if verdict.decides() => verdict,
                Verdict::NoInformation if are_equal => Verdict::NoInformation,
                // Of equal runs nothing that was published is true.
                _ => Verdict::Differs,
            })
        };
        let others: Vec<Verdict> = plan.choice.tried.iter().zip(&choice.tried).map(same).collect();
        let joint = others.iter().fold(before, |joint, other| joint.and(*other));
        if joint == before {
            continue;
        }
        measure.as_chosen = Some(before);
        measure.verdict = match measure.verdict {
            Verdict::Undetermined => Verdict::Undetermined,
            verdict => verdict.and(joint),
        };
        let which = choice.tried.iter().zip(&others).filter(|(_, other)| **other != before);
        let which: Vec<String> =
            which.map(|(tried, other)| format!("{}: {}", tried.name, other.name())).collect();
        if !measure.because.is_empty() {
            measure.because += "; ";
        }
        measure.because += &format!(
            "{} with what stands for {} ({}), otherwise {}",
            before.name(),
            choice.about,
            choice.stands,
            which.join(", ")
        );
    }
    choice
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
/// Intervals are as wide as those of `runs` repetitions, where that is given.
fn measures(
    panel: &PanelPlan,
    points: &[(&PointPlan, Repetitions<'_>)],
    prefix: &str,
    runs: Option<usize>,
) -> Vec<Measure> {
    let told = |result: &RunResult, published: &[Published], made: usize| {
        let widen = runs.map_or(1.0, |runs| Summary::width(runs) / Summary::width(made));
        told(result, published, prefix, widen)
    };
    let varies = !panel.figure.vary.is_empty();
    let mut measures = Vec::new();
    for (point, repetitions) in points {
        let here = here(panel, point);
        let metrics = repetitions.iter().map(|measured| metrics_of(measured));
        measures.extend(told(&judged(panel, &here, metrics), &here, repetitions.len()));
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
    measures.extend(told(&judged(panel, &whole, averages), &whole, repetitions.len()));
    measures
}

/// The verdict on each of `published`, in its order, with intervals `widen` times as wide.
fn told(result: &RunResult, published: &[Published], prefix: &str, widen: f64) -> Vec<Measure> {
    let measures = published.iter().filter_map(|published| {
        let policy = result.results.iter().find(|policy| policy.policy == published.policy)?;
        let key = published.key();
        let at = published.at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        let mut ours = policy.ours(&key);
        ours.half *= widen;
        let because = match &published.standing {
            Standing::Calibrates(paths) => format!("{} solved from it", were(paths)),
            Standing::Follows(why) => format!("it follows from {why}"),
            Standing::Open if ours.equal_runs => "both runs are equal".to_owned(),
            Standing::Open => String::new(),
        };
        Some(Measure {
            name: format!("{prefix}{} {key}{at}", published.policy),
            ours: ours.mean,
            interval: policy.interval95.contains_key(&key).then_some(ours.half),
            verdict: judge(published, ours),
            as_chosen: None,
            because,
            published: published.clone(),
        })
    });
    measures.collect()
}

fn were(paths: &[String]) -> String {
    let verb = if paths.len() == 1 { "was" } else { "were" };
    format!("{} {verb}", paths.join(", "))
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
