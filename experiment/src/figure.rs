//! A figure of a text: which runs of a scenario it takes and what it plots.

use document::{Override, Setting};

/// Makes a scenario a figure of a text. A scenario may be several figures, which share its runs, and
/// a figure may have several scenarios, its panels.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Short name of the text, such as `phurti`.
    pub text: String,
    /// Its number in the text, such as `6.4`.
    pub number: String,
    /// Name of the panel among the scenarios of the same figure; empty when it is the only one.
    pub panel: String,
    /// The keys that change together along the x axis; empty when nothing varies.
    pub vary: Vec<String>,
    /// Their values at each point of the x axis; the axis shows the value of the first key.
    pub over: Vec<Vec<Setting>>,
    /// The points of a quick run, all among `over`.
    pub quick: Vec<Vec<Setting>>,
    /// Repetitions of every point.
    pub seeds: u32,
    /// Of how many draws of what each repetition draws anew the text shows the mean; `None` where it
    /// shows no draws.
    pub draws: Option<u32>,
    /// The keys that are set to the number of the repetition, counted from 1.
    pub repeat: Vec<String>,
    /// What is plotted: metrics, or one distribution.
    pub metrics: Vec<String>,
    /// What the x axis shows.
    pub x: String,
    /// What the y axis shows; empty: the metric's name.
    pub y: String,
    /// Number of the figure whose published values it has once more, from other input.
    pub same_values_as: Option<String>,
    /// Name of the trace without which it can't be run.
    pub trace: Option<String>,
}

impl Figure {
    /// Most repetitions in a quick run.
    const QUICK_SEEDS: u32 = 2;

    /// What it is called: `text/number`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.text, self.number)
    }

    /// The points of the x axis in a quick or whole run; one without values when nothing varies.
    pub fn points(&self, quick: bool) -> Vec<&[Setting]> {
        let points = if quick { &self.quick } else { &self.over };
        if points.is_empty() { vec![&[]] } else { points.iter().map(Vec::as_slice).collect() }
    }

    /// The repetitions of each point in a quick or whole run.
    pub fn repetitions(&self, quick: bool) -> u32 {
        if quick { self.seeds.min(Self::QUICK_SEEDS) } else { self.seeds }
    }

    /// The overrides that turn the scenario into repetition `repetition`, counted from 1, at
    /// `point`.
    pub fn overrides(&self, point: &[Setting], repetition: u32) -> Vec<Override> {
        let varied = self.vary.iter().zip(point).map(|(key, value)| match value {
            Setting::Text(text) => Override::text("figure.over", key, text),
            other => Override::value_of("figure.over", key, other),
        });
        let repeated =
            self.repeat.iter().map(|key| Override::value_of("figure.repeat", key, repetition));
        // With a single repetition the scenario keeps its own seed.
        varied.chain(repeated.filter(|_| self.seeds > 1)).collect()
    }
}
