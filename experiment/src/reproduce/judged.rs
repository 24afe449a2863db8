//! Our values beside the published ones, by figure.

use std::collections::{BTreeMap, BTreeSet};

use document::Setting;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::plan::{ChoicePlan, FigurePlan, PanelPlan, Plan, PointPlan};
use super::runs::{Measured, PolicyMeasured};
use crate::choice::{Choice, Rule};
use crate::figure::Figure;
use crate::metrics::{Metrics, Sample, Unit, human};
use crate::published::{Ours, Published, Standing, Verdict, compared, judge};
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
    /// What a reader should know of the published values; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// What the text leaves open, and nothing else was tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<String>,
    /// What the text says and the scenarios have not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<String>,
    /// The figure whose published values these are once more, from other input: not counted again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_values_as: Option<String>,
    /// What to draw.
    #[serde(skip)]
    pub panels: Vec<PanelResult>,
}

impl Measure {
    /// Our value for people, with its interval.
    pub fn ours_shown(&self) -> String {
        self.shown(self.ours, self.interval)
    }

    /// What stands, on the same seeds, for people.
    pub fn same_seeds_shown(&self) -> String {
        self.same_seeds.as_ref().map_or_else(String::new, |stands| {
            format!("{}: {}", self.shown(stands.ours, stands.interval), stands.verdict.name())
        })
    }

    fn shown(&self, ours: Option<f64>, interval: Option<f64>) -> String {
        let key = self.published.key();
        let ours = ours.map_or_else(|| "–".to_owned(), |value| human(&key, value));
        match interval {
            Some(half) => format!("{ours} ± {}", Unit::of(&key).show(half)),
            None => ours,
        }
    }

    /// The verdict for people.
    pub fn verdict_shown(&self) -> &'static str {
        match (self.ours, self.verdict) {
            (None, Verdict::Unresolved) => "not measured",
            (_, verdict) => verdict.name(),
        }
    }

    /// The verdict under a value of a choice, where it tells something. Beside runs that differ by
    /// their seeds one run, whatever the seed, tells nothing: it has no interval.
    fn telling(&self) -> Option<Verdict> {
        let differ = self.same_seeds.as_ref().is_some_and(|stands| !stands.one_run);
        let tells = self.ours.is_some() && self.verdict != Verdict::Unresolved;
        (tells && !(self.one_run && differ)).then_some(self.verdict)
    }

    /// The verdict under a value of a choice beside what stands and can't tell with all its seeds: where
    /// what stands tells the same on the same seeds, these make the difference.
    fn of_itself(&self) -> Option<Verdict> {
        let stands = self.same_seeds.as_ref().map(|stands| stands.verdict);
        self.telling().filter(|told| stands != Some(*told))
    }

    /// The verdict under a value of a choice, where it counts: where what stands could tell as much
    /// on the same seeds, and tells something else.
    fn weight(&self) -> Option<Verdict> {
        let told = self.telling()?;
        let Some(stands) = &self.same_seeds else {
            return Some(told);
        };
        let apart = stands.ours.zip(self.ours).is_some_and(|(stands_at, ours)| {
            let reach = stands.interval.unwrap_or_default() + self.interval.unwrap_or_default();
            (stands_at - ours).abs() > reach
        });
        let counts = match stands.verdict {
            Verdict::Unresolved => apart,
            verdict => verdict != told,
        };
        counts.then_some(told)
    }

    /// Whether it comes out otherwise than what stands on the same seeds.
    fn is_otherwise(&self) -> bool {
        self.same_seeds.as_ref().is_some_and(|stands| stands.verdict != self.verdict)
    }

    /// Whether what stands gives the same numbers on the same seeds.
    fn is_untouched(&self) -> bool {
        let near = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => is_near(one, other),
            (one, other) => one == other,
        };
        self.same_seeds.as_ref().is_some_and(|stands| {
            near(stands.ours, self.ours) && near(stands.interval, self.interval)
        })
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
    /// Of a value that was tried: what stands, on the same seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_seeds: Option<SameSeeds>,
    /// Whether its repetitions are one run, whatever the seed.
    #[serde(skip)]
    pub one_run: bool,
}

/// What stands, in as many repetitions as something else was tried.
#[derive(Clone, Debug, Serialize)]
pub struct SameSeeds {
    /// Our mean; `None` when it wasn't measured.
    pub ours: Option<f64>,
    /// Half the width of its 95 % interval.
    #[serde(rename = "interval95", skip_serializing_if = "Option::is_none")]
    pub interval: Option<f64>,
    /// The verdict on it.
    pub verdict: Verdict,
    /// Whether its repetitions are one run, whatever the seed.
    #[serde(skip)]
    pub one_run: bool,
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
    /// Those published values that can tell something and that don't come out as they stand, judged.
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
    if published.least > 0.0 {
        keys.serialize_entry("least", &published.least)?;
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

    /// The figures that count: those whose published values aren't another figure's once more.
    pub fn counted(&self) -> impl Iterator<Item = &FigureResult> {
        self.figures.iter().filter(|figure| figure.same_values_as.is_none())
    }

    /// The published values that matter most, each with its figure, of those whose verdict says
    /// something of the text.
    pub fn headline(&self) -> impl Iterator<Item = (&FigureResult, &Measure)> {
        let all = self.counted().flat_map(|f| f.measures.iter().map(move |m| (f, m)));
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

/// What intervals are of where the text shows the mean of so many draws.
fn of_draws(draws: u32) -> String {
    let (shown, more) = match draws {
        1 => ("one draw".to_owned(), "one more of ours".to_owned()),
        _ => (format!("the mean of {draws} draws"), format!("the mean of {draws} more of ours")),
    };
    format!(
        "The text shows {shown} of what each of our repetitions draws anew: intervals are those in \
         which {more} is expected, not those of the mean."
    )
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
            notes: String::new(),
            untried: Vec::new(),
            lacking: Vec::new(),
            same_values_as: None,
            panels: Vec::new(),
        };
        let (mut said, mut notes) = (Vec::new(), Vec::new());
        for panel in &plan.panels {
            let prefix = match &panel.figure.panel {
                name if name.is_empty() => String::new(),
                name => format!("{name}: "),
            };
            let mut tell =
                |what: String| said.push((prefix.trim_end_matches(": ").to_owned(), what));
            figure.same_values_as = panel.figure.same_values_as.clone().or(figure.same_values_as);
            for (all, own) in
                [(&mut figure.untried, &panel.untried), (&mut figure.lacking, &panel.lacking)]
            {
                for what in own {
                    if !all.contains(what) {
                        all.push(what.clone());
                    }
                }
            }
            if let Some(missing) = &panel.missing {
                tell(format!("not run: {missing}"));
            }
            let mut points = Vec::new();
            for point in &panel.points {
                match point.collect(results) {
                    Ok(repetitions) => points.push((point, repetitions)),
                    Err(error) => tell(format!("failed: {error}")),
                }
            }
            if points.len() < panel.points.len() {
                figure.verdict = Verdict::Unresolved;
            }
            if let Some(draws) = panel.figure.draws {
                let name = prefix.trim_end_matches(": ").to_owned();
                notes.push((name, of_draws(draws)));
            }
            let mut measures = measures(panel, &points, &prefix);
            let mut joint: Vec<_> = measures
                .iter()
                .map(|m| Some(m.verdict).filter(|v| *v != Verdict::Unresolved))
                .collect();
            for choice in &panel.choices {
                if choice.tried.is_empty() {
                    tell(format!("not tried in a quick run: {}", choice.choice.about));
                    continue;
                }
                let choice = tried(panel, choice, results, &prefix, &mut measures, &mut joint);
                // Scenarios of a figure may leave the same open.
                match figure.choices.iter_mut().find(|other| other.is_as(&choice)) {
                    Some(other) => other.join(choice),
                    None => figure.choices.push(choice),
                }
            }
            // What a rule of ours makes of a sentence is shown, and decides no figure.
            let published = measures.iter().filter(|measure| !measure.published.is_by_rule());
            let worst = published.map(|measure| measure.verdict).max();
            figure.verdict = figure.verdict.max(worst.unwrap_or(Verdict::None));
            for measure in &measures {
                let mut tell = |what: &str| said.push((measure.name.clone(), what.to_owned()));
                if !measure.because.is_empty() {
                    tell(&measure.because);
                }
                let Published { reason, note, .. } = &measure.published;
                if measure.verdict > Verdict::Holds && !reason.is_empty() {
                    tell(reason);
                } else if measure.verdict == Verdict::Differs {
                    tell("no reason is known");
                }
                notes.push((measure.name.clone(), note.clone()));
            }
            figure.measures.extend(measures);
            figure.panels.push(PanelResult {
                figure: panel.figure.clone(),
                title: panel.title.clone(),
                source: panel.source.clone(),
                points: points.iter().map(|(point, all)| draw(panel, point, all)).collect(),
            });
        }
        (figure.reason, figure.notes) = (joined(said), joined(notes));
        figure
    }

    /// What its scenarios are called, each title once.
    pub fn title(&self) -> String {
        let mut titles: Vec<&str> = Vec::new();
        for title in self.panels.iter().map(|panel| panel.title.as_str()) {
            if !titles.contains(&title) {
                titles.push(title);
            }
        }
        titles.join("; ")
    }

    /// The verdict, or that nothing could be run.
    pub fn verdict_name(&self) -> &'static str {
        let ran = self.panels.iter().any(|panel| !panel.points.is_empty());
        if self.verdict == Verdict::None && !ran { "not run" } else { self.verdict.name() }
    }
}

/// A line for each thing that is said, after the names of all that it is said of.
fn joined(said: Vec<(String, String)>) -> String {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (name, what) in said.into_iter().filter(|(_, what)| !what.is_empty()) {
        match lines.iter_mut().find(|(other, _)| *other == what) {
            Some((_, names)) => names.push(name),
            None => lines.push((what, vec![name])),
        }
    }
    let lines = lines.into_iter().map(|(what, mut names)| {
        names.retain(|name| !name.is_empty());
        names.dedup();
        if names.is_empty() { what } else { format!("{}: {what}", names.join(", ")) }
    });
    lines.collect::<Vec<_>>().join("\n")
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

    /// What it is about, what stands and why, in a sentence or two.
    pub fn told(&self) -> String {
        let Self { about, stands, rule, why, .. } = self;
        let opening = match rule {
            Rule::Reduced => format!("The text says {about}, which isn't run."),
            Rule::Text | Rule::Tools | Rule::Plainest => format!("The text doesn't say {about}."),
        };
        format!("{opening} Here: {stands} ({}: {why}).", rule.shown())
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
/// stands, have the verdicts that all of them allow: `joint` has what all that counted so far allow.
fn tried(
    panel: &PanelPlan,
    plan: &ChoicePlan,
    results: &[Result<Measured, String>],
    prefix: &str,
    measures: &mut [Measure],
    joint: &mut [Option<Verdict>],
) -> ChoiceResult {
    let mut choice = ChoiceResult::of(&plan.choice);
    let all_of = |points: &[PointPlan]| -> Result<Vec<Measure>, String> {
        let points = points.iter().map(|point| Ok((point, point.collect(results)?)));
        Ok(self::measures(panel, &points.collect::<Result<Vec<_>, &String>>()?, prefix))
    };
    for (value, points) in plan.choice.tried.iter().zip(&plan.tried) {
        let (mut all, failed) = match all_of(points) {
            Ok(all) => (all, String::new()),
            Err(error) => (Vec::new(), error),
        };
        if value.is_other_runs() {
            let stands = points.iter().filter_map(|point| {
                let stands = panel.points.iter().find(|other| other.x == point.x)?;
                let units = stands.units.get(..point.units.len())?.to_vec();
                Some(PointPlan { units, ..point.clone() })
            });
            let stands = all_of(&stands.collect::<Vec<_>>()).unwrap_or_default();
            for Measure { name, ours, interval, verdict, one_run, .. } in stands {
                let of = all.iter_mut().find(|one| one.name == name);
                of.into_iter().for_each(|one| {
                    one.same_seeds = Some(SameSeeds { ours, interval, verdict, one_run });
                });
            }
        }
        all.retain(|one| match one.published.standing {
            // By this reading; a row that follows as it stands isn't run otherwise.
            Standing::Follows(_) => value.follows.is_some(),
            _ => one.published.standing.is_judged(),
        });
        choice.tried.push(TriedResult { name: value.name.clone(), measures: all, failed });
    }
    // What counts: the position of a value, and the name of a row.
    let mut counted: BTreeSet<(usize, String)> = BTreeSet::new();
    for (measure, joint) in measures.iter_mut().zip(joint) {
        // What was put in tells nothing under any value.
        let before = measure.as_chosen.unwrap_or(measure.verdict);
        let are_equal =
            before == Verdict::NoInformation && measure.published.standing == Standing::Open;
        let may_change = before.decides() || are_equal || before == Verdict::Unresolved;
        // What follows may contradict the text all the same.
        let ours = Ours {
            mean: measure.ours,
            half: measure.interval.unwrap_or_default(),
            ..Ours::default()
        };
        let contradicts = matches!(measure.published.standing, Standing::Follows(_))
            && compared(&measure.published, ours) == Verdict::Differs;
        let values = plan.choice.tried.iter().zip(&choice.tried).enumerate();
        let others = values.filter_map(|(position, (value, tried))| {
            // Of another metric it may tell something.
            if value.is_other_runs() && !value.is_other_reading() && !may_change {
                return None;
            }
            let name = name(prefix, &plan.choice.read(value, &measure.published)?);
            let one = tried.measures.iter().find(|one| one.name == name)?;
            if matches!(one.published.standing, Standing::Follows(_)) {
                // By this reading no run could have told anything else.
                return None;
            }
            // What can't tell anything by itself contradicts nothing, and values may contradict each
            // other.
            let told = match before {
                Verdict::Unresolved => one.of_itself(),
                _ => one.weight(),
            };
            let verdict = match told? {
                verdict if verdict.decides() => verdict,
                // As it would have to, where it was solved.
                Verdict::Calibrated => Verdict::Holds,
                Verdict::NoInformation if are_equal => Verdict::NoInformation,
                // Of equal runs nothing that was published is true.
                _ => Verdict::Differs,
            };
            if contradicts && verdict == Verdict::Differs {
                // It agrees by neither reading.
                return None;
            }
            counted.insert((position, name));
            Some((&tried.name, verdict))
        });
        let others: Vec<(&String, Verdict)> =
            others.filter(|(_, verdict)| *verdict != before).collect();
        for (_, verdict) in &others {
            *joint = Some(match *joint {
                // Equal runs show no effect either.
                Some(Verdict::NoInformation) if are_equal && *verdict == Verdict::Differs => {
                    *verdict
                }
                None => *verdict,
                Some(joint) => joint.and(*verdict),
            });
        }
        if others.iter().all(|(_, verdict)| before.and(*verdict) == before) {
            continue;
        }
        measure.verdict = match (before, *joint) {
            (Verdict::Unresolved, Some(Verdict::Undetermined)) => Verdict::Undetermined,
            (Verdict::Unresolved, _) => Verdict::Unresolved,
            (_, joint) => joint.unwrap_or(before),
        };
        measure.as_chosen = Some(before).filter(|before| *before != measure.verdict);
        let which: Vec<String> =
            others.iter().map(|(name, other)| format!("{name}: {}", other.name())).collect();
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
    for (position, (value, tried)) in plan.choice.tried.iter().zip(&mut choice.tried).enumerate() {
        // Of other runs that are also read otherwise the table has what counts, and what comes out
        // otherwise.
        let both = value.is_other_runs() && value.is_other_reading();
        if both {
            // It stands once already, under the runs.
            tried.failed.clear();
        }
        tried.measures.retain(|one| {
            let counts =
                !both || one.is_otherwise() || counted.contains(&(position, one.name.clone()));
            counts && !one.is_untouched()
        });
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
    let mut result = RunResult::mean_of(&all).unwrap_or_else(|| one(Vec::new()));
    if let Some(draws) = panel.figure.draws {
        result.expect_more(draws, all.len());
    }
    result
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
        let one_run = |row: &Published| are_one_run(repetitions, row);
        measures.extend(told(&judged(panel, &here, metrics), &here, prefix, one_run));
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
    let one_run =
        |row: &Published| points.iter().all(|(_, repetitions)| are_one_run(repetitions, row));
    measures.extend(told(&judged(panel, &whole, averages), &whole, prefix, one_run));
    measures
}

/// Whether what `row` compares is one run in all repetitions, whatever the seed.
fn are_one_run(repetitions: &Repetitions<'_>, row: &Published) -> bool {
    // Other policies differ by the seed where these don't, and a value of a choice may run without them.
    let is_compared = |own: &&PolicyMeasured| {
        own.policy == row.policy || row.against.as_ref() == Some(&own.policy)
    };
    let same = |one: &PolicyMeasured, other: &PolicyMeasured| {
        one.metrics.len() == other.metrics.len()
            && one.metrics.iter().all(|(name, value)| {
                other.metrics.get(name).is_some_and(|other| is_near(*value, *other))
            })
    };
    repetitions.windows(2).all(|two| {
        let [one, other] = [two[0], two[1]]
            .map(|measured| measured.0.iter().filter(is_compared).collect::<Vec<_>>());
        one.len() == other.len() && one.into_iter().zip(other).all(|(one, other)| same(one, other))
    })
}

/// Whether two results are the same. One may come from the cache, which keeps all but the last digit.
fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-12 * one.abs().max(other.abs())
}

/// The verdict on each of `published`, in its order; `one_run`: whether it is of one run, whatever the seed.
fn told(
    result: &RunResult,
    published: &[Published],
    prefix: &str,
    one_run: impl Fn(&Published) -> bool,
) -> Vec<Measure> {
    let measures = published.iter().filter_map(|published| {
        let policy = result.results.iter().find(|policy| policy.policy == published.policy)?;
        let key = published.key();
        let ours = policy.ours(&key);
        let because = match &published.standing {
            Standing::Calibrates(paths) => format!("{} solved from it", were(paths)),
            Standing::Follows(why) => format!("it follows from {why}"),
            Standing::Lacks(what) => format!(
                "{} as it is here, which tells nothing of the text: it lacks {what}",
                compared(published, ours).name()
            ),
            Standing::Open if ours.equal_runs => "both runs are equal".to_owned(),
            Standing::Open if compared(published, ours) == Verdict::NoInformation => {
                "both are equal, as far as is shown".to_owned()
            }
            Standing::Open => String::new(),
        };
        let lacks = matches!(published.standing, Standing::Lacks(_));
        Some(Measure {
            name: name(prefix, published),
            ours: ours.mean,
            interval: policy.interval95.get(&key).copied(),
            verdict: judge(published, ours),
            as_chosen: lacks.then(|| compared(published, ours)),
            because,
            same_seeds: None,
            one_run: one_run(published),
            published: published.clone(),
        })
    });
    measures.collect()
}

/// What a published value is called.
fn name(prefix: &str, published: &Published) -> String {
    let at = published.at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
    format!("{prefix}{} {}{at}", published.policy, published.key())
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
