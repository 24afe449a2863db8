//! A metric along an axis: lines where the axis has numbers, bars where it has names. Every value
//! has its 95 % interval and the published value beside it.

use document::Setting;

use crate::metrics::Unit;

use super::cdf::axis_unit;
use super::html::{Figure, Table};
use super::svg::{Drawing, Scale, Spread, px};

/// One policy along the axis.
pub(super) struct Series {
    /// Class of its colour.
    pub(super) class: String,
    /// Its label.
    pub(super) name: String,
    /// A value for each place of the axis.
    pub(super) values: Vec<Value>,
}

/// What a policy gave at one place of the axis, in the metric's unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Value {
    pub(super) mean: Option<f64>,
    /// Half the width of the 95 % interval.
    pub(super) half: f64,
    pub(super) published: Option<f64>,
}

/// What is plotted.
pub(super) struct Subject<'a> {
    pub(super) title: &'a str,
    pub(super) caption: &'a str,
    /// What the axes show.
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Unit of the y axis.
    pub(super) unit: Unit,
}

const WIDTH: f64 = 540.0;
const X: (f64, f64) = (64.0, 526.0);
const Y: (f64, f64) = (24.0, 252.0);
/// A larger ratio of the extremes gets a logarithmic axis.
const WIDE: f64 = 50.0;

/// The plot of the series over `places`; `None` when none has a value.
pub(super) fn figure(
    subject: &Subject<'_>,
    places: &[Setting],
    series: &[Series],
) -> Option<Figure> {
    let every = series.iter().flat_map(|series| &series.values);
    let every: Vec<f64> = every
        .flat_map(|v| [v.mean.map(|m| m - v.half), v.mean.map(|m| m + v.half), v.published])
        .flatten()
        .collect();
    let low = every.iter().copied().reduce(f64::min)?;
    let high = every.iter().copied().reduce(f64::max)?;
    let (factor, unit) = axis_unit(subject.unit, low.abs().max(high.abs()));
    let numbers = numbers(places).filter(|_| places.len() > 1);
    // On a logarithmic axis an interval that reaches below zero ends at the edge.
    let values = series.iter().flat_map(|series| &series.values);
    let values = values.flat_map(|v| [v.mean, v.published]).flatten();
    let least = values.fold(f64::MAX, f64::min);
    let logarithmic = numbers.is_some() && least > 0.0 && high > WIDE * least;
    let spread = if logarithmic { Spread::Log } else { Spread::Linear };
    let from = match logarithmic {
        true if low > 0.0 => low,
        true => least / 2.0,
        false => low.min(0.0),
    };
    let y = Scale::new(spread, from * factor, high.max(from) * factor, (Y.1, Y.0));

    let mut drawing = Drawing::new(WIDTH, Y.1 + 46.0);
    drawing.y_axis(&y.ticks(), &y, X);
    let note = if logarithmic { ", logarithmic" } else { "" };
    drawing.text("label", "start", (4.0, Y.0 - 10.0), &format!("{} ({unit}{note})", subject.y));
    let place: Box<dyn Fn(usize, usize) -> f64> = match &numbers {
        Some((at, x_unit)) => {
            let x = x_scale(at);
            let note = if x_unit.is_empty() { String::new() } else { format!(" ({x_unit})") };
            drawing.x_axis(&x, Y, &format!("{}{note}", subject.x));
            let across: Vec<f64> = at.iter().map(|&value| x.at(value)).collect();
            Box::new(move |place, _| across[place])
        }
        None => {
            let slot = (X.1 - X.0) / places.len() as f64;
            let middle = move |place: usize| X.0 + slot * (place as f64 + 0.5);
            for (number, name) in places.iter().enumerate() {
                drawing.text("tick", "middle", (middle(number), Y.1 + 16.0), &name.to_string());
            }
            drawing.text("label", "middle", (f64::midpoint(X.0, X.1), Y.1 + 36.0), subject.x);
            let thick = thickness(places.len(), series.len());
            let left = thick * (series.len() as f64 - 1.0) / 2.0;
            Box::new(move |place, series| middle(place) - left + thick * series as f64)
        }
    };
    let thick = thickness(places.len(), series.len());
    for (number, series) in series.iter().enumerate() {
        let points = series.values.iter().enumerate();
        let drawn: Vec<(f64, f64, Value, &Setting)> = points
            .filter_map(|(at, v)| {
                Some((place(at, number), y.at(v.mean? * factor), *v, &places[at]))
            })
            .collect();
        if numbers.is_some() {
            let commands = drawn.iter().map(|(x, y, ..)| format!("{} {}", px(*x), px(*y)));
            let commands: Vec<String> = commands.collect();
            let class = format!("line {}", series.class);
            drawing.path(&class, &format!("M{}", commands.join("L")), &series.name);
        }
        for &(x, top, value, name) in &drawn {
            let mean = value.mean.unwrap_or_default();
            let tip = format!("{}, {name}: {}", series.name, shown(subject.unit, &value));
            if numbers.is_none() {
                let class = format!("bar {}", series.class);
                let across = (x - thick / 2.0 + 1.0, x + thick / 2.0 - 1.0);
                drawing.bar(&class, across, (y.at(0.0), top), &tip);
            } else {
                drawing.path(&format!("mark {}", series.class), &diamond(x, top, 3.0), &tip);
            }
            if value.half > 0.0 {
                let ends = [mean - value.half, mean + value.half].map(|end| y.at(end * factor));
                drawing.line(&format!("error {}", series.class), (x, ends[0]), (x, ends[1]));
            }
        }
        for (at, value) in series.values.iter().enumerate() {
            let Some(published) = value.published else { continue };
            let at = place(at, number);
            let tip = format!("{}, published: {}", series.name, subject.unit.show(published));
            let commands = diamond(at, y.at(published * factor), 5.5);
            drawing.path(&format!("told {}", series.class), &commands, &tip);
        }
    }
    if from < 0.0 {
        drawing.line("zero", (X.0, y.at(0.0)), (X.1, y.at(0.0)));
    }
    Some(finish(subject, places, series, numbers.is_none(), drawing))
}

fn finish(
    subject: &Subject<'_>,
    places: &[Setting],
    series: &[Series],
    bars: bool,
    drawing: Drawing,
) -> Figure {
    let header = [subject.x.to_owned()].into_iter().chain(series.iter().map(|s| s.name.clone()));
    let mut numbers = Table::new(subject.title, header);
    for (at, place) in places.iter().enumerate() {
        let cells = series
            .iter()
            .map(|s| s.values.get(at).map_or_else(String::new, |v| shown(subject.unit, v)));
        numbers.row([place.to_string()].into_iter().chain(cells));
    }
    let kind = if bars { " bars" } else { "" };
    Figure {
        title: subject.title.to_owned(),
        caption: subject.caption.to_owned(),
        legend: series.iter().map(|s| (format!("{}{kind}", s.class), s.name.clone())).collect(),
        svg: drawing.finish(&format!("{}: {} by policy", subject.title, subject.y)),
        numbers,
        wide: false,
    }
}

/// A value with its interval and what is published.
fn shown(unit: Unit, value: &Value) -> String {
    let mut text = value.mean.map_or_else(|| "–".to_owned(), |mean| unit.show(mean));
    if value.half > 0.0 {
        text += &format!(" ± {}", unit.show(value.half));
    }
    if let Some(published) = value.published {
        text += &format!(" (published {})", unit.show(published));
    }
    text
}

fn thickness(places: usize, series: usize) -> f64 {
    ((X.1 - X.0) / places as f64 * 0.8 / series.max(1) as f64).min(40.0)
}

fn diamond(x: f64, y: f64, size: f64) -> String {
    format!("M{} {}l{size} {size}l-{size} {size}l-{size} -{size}z", px(x), px(y - size))
}

fn x_scale(at: &[f64]) -> Scale {
    let low = at.iter().copied().fold(f64::MAX, f64::min);
    let high = at.iter().copied().fold(f64::MIN, f64::max);
    let spread = if low > 0.0 && high > WIDE * low { Spread::Log } else { Spread::Linear };
    Scale::new(spread, low, high, (X.0 + 8.0, X.1 - 8.0))
}

/// The places as numbers of one unit; `None` when they are names.
fn numbers(places: &[Setting]) -> Option<(Vec<f64>, String)> {
    let split = |place: &Setting| match place {
        Setting::Number(number) => Some((*number, String::new())),
        Setting::Text(text) => {
            let (number, unit) = text.split_once(' ')?;
            Some((number.parse().ok()?, unit.to_owned()))
        }
        Setting::Flag(_) => None,
    };
    let all: Vec<(f64, String)> = places.iter().map(split).collect::<Option<_>>()?;
    let unit = all.first()?.1.clone();
    let same = all.iter().all(|(_, other)| *other == unit);
    same.then(|| (all.into_iter().map(|(number, _)| number).collect(), unit))
}
