//! Cumulative distributions: for every value, the share of the sample that doesn't exceed it.

use crate::metrics::{Sample, Unit};

use super::html::{Figure, Table};
use super::svg::{Drawing, Scale, Spread, px};

/// One distribution.
pub(super) struct Curve {
    /// Class of its colour.
    pub(super) class: String,
    /// Whose it is.
    pub(super) name: String,
    pub(super) sample: Sample,
}

/// What is distributed.
pub(super) struct Quantity {
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) label: String,
    pub(super) unit: Unit,
    /// Of values on both sides of zero: what the left and the right side mean.
    pub(super) signed: Option<[String; 2]>,
}

/// Most points of a curve: one a pixel, on a plot that is half as wide.
const MOST_POINTS: usize = 1000;
const WIDTH: f64 = 540.0;
const X: (f64, f64) = (48.0, 526.0);
const Y: (f64, f64) = (12.0, 252.0);

/// The plot of the curves; `None` when none has a value.
pub(super) fn figure(quantity: Quantity, curves: &[Curve]) -> Option<Figure> {
    let curves: Vec<_> = curves.iter().filter(|c| !c.sample.values().is_empty()).collect();
    let ends = curves.iter().flat_map(|curve| {
        let values = curve.sample.values();
        [values.first().copied(), values.last().copied()]
    });
    let (low, high) =
        ends.flatten().fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return None;
    }
    let (factor, unit) = axis_unit(quantity.unit, low.abs().max(high.abs()));
    let scaled = |value: f64| value * factor;
    let spread = spread(&quantity, &curves, scaled(low), scaled(high), factor);
    let (from, to) = match (spread, quantity.unit) {
        (_, Unit::Ratio) => (0.0, scaled(1.0)),
        (Spread::Linear, _) if quantity.signed.is_none() => (0.0, scaled(high)),
        (Spread::Log, _) => (scaled(low), scaled(high)),
        _ => (scaled(low).min(0.0), scaled(high).max(0.0)),
    };
    let (x, y) =
        (Scale::new(spread, from, to, X), Scale::new(Spread::Linear, 0.0, 100.0, (Y.1, Y.0)));

    let mut drawing = Drawing::new(WIDTH, Y.1 + 46.0);
    let quarters = [0.0, 25.0, 50.0, 75.0, 100.0].map(|p| (p, format!("{p:.0} %")));
    drawing.y_axis(&quarters, &y, X);
    let logarithmic = match spread {
        Spread::Linear => "",
        Spread::Log => ", logarithmic",
        Spread::SignedLog(_) => ", logarithmic away from zero",
    };
    drawing.x_axis(&x, Y, &format!("{} ({unit}{logarithmic})", quantity.label));
    if let Some([below, above]) = &quantity.signed {
        let zero = x.at(0.0);
        drawing.line("zero", (zero, Y.0), (zero, Y.1));
        if zero - X.0 > 90.0 {
            drawing.text("note", "end", (zero - 8.0, Y.0 + 14.0), below);
        }
        if X.1 - zero > 90.0 {
            drawing.text("note", "start", (zero + 8.0, Y.1 - 8.0), above);
        }
    }
    for curve in &curves {
        let commands = steps(curve.sample.values(), |v| x.at(scaled(v)), &y);
        let median = curve.sample.percentile(50).unwrap_or_default();
        let tip = format!("{}: median {}", curve.name, quantity.unit.show(median));
        drawing.path(&format!("line {}", curve.class), &commands, &tip);
    }

    let mut numbers = Table::new(
        &quantity.title,
        ["policy", "values", "least", "p25", "p50", "p75", "p95", "p99", "greatest", "mean"]
            .map(str::to_owned),
    );
    for curve in &curves {
        let count = curve.sample.values().len().to_string();
        let percentiles = [0, 25, 50, 75, 95, 99, 100].map(|p| curve.sample.percentile(p));
        let values = percentiles.into_iter().chain([curve.sample.mean()]);
        let shown = values.map(|v| v.map_or_else(String::new, |v| quantity.unit.show(v)));
        numbers.row([curve.name.clone(), count].into_iter().chain(shown));
    }
    let about = format!("{}: cumulative distribution per policy", quantity.title);
    Some(Figure {
        title: quantity.title,
        caption: quantity.caption,
        legend: curves.iter().map(|c| (c.class.clone(), c.name.clone())).collect(),
        svg: drawing.finish(&about),
        numbers,
        wide: false,
    })
}

/// A readable unit for an axis up to `most`, and the factor for values.
pub(super) fn axis_unit(unit: Unit, most: f64) -> (f64, &'static str) {
    match unit {
        Unit::Ratio if most >= 10.0 => (1.0, "times"),
        Unit::Ratio => (100.0, "%"),
        Unit::Seconds if most >= 1.0 => (1.0, "s"),
        Unit::Seconds if most >= 1e-3 => (1e3, "ms"),
        Unit::Seconds => (1e6, "µs"),
        Unit::BitsPerSecond => (1e-6, "Mbit/s"),
        Unit::PerSecond => (1.0, "1/s"),
        Unit::Count => (1.0, "count"),
        Unit::Packets => (1.0, "packets"),
    }
}

/// Logarithmic when a linear axis would squeeze half of the values into a corner.
fn spread(quantity: &Quantity, curves: &[&Curve], low: f64, high: f64, factor: f64) -> Spread {
    const WIDE: f64 = 20.0;
    if quantity.unit == Unit::Ratio {
        return Spread::Linear;
    }
    let sizes = curves.iter().flat_map(|curve| curve.sample.values());
    let sizes: Sample = sizes.map(|v| v.abs() * factor).filter(|&v| v > 0.0).collect();
    let (Some(typical), Some(most)) = (sizes.percentile(50), sizes.max()) else {
        return Spread::Linear;
    };
    match quantity.signed {
        Some(_) if most > WIDE * typical && high.max(-low) > 0.0 => {
            Spread::SignedLog(10f64.powf(typical.log10().floor()))
        }
        None if low > 0.0 && most > WIDE * typical => Spread::Log,
        _ => Spread::Linear,
    }
}

/// The steps of a distribution. A large sample is thinned to evenly spaced ranks, ends included, so
/// that no point of the curve moves by more than 0.1 % of the height.
fn steps(values: &[f64], x: impl Fn(f64) -> f64, y: &Scale) -> String {
    let count = values.len();
    let points = count.min(MOST_POINTS);
    let mut commands = String::new();
    for point in 1..=points {
        let rank = (point * count).div_ceil(points);
        let across = px(x(values[rank - 1]));
        let up = px(y.at(100.0 * rank as f64 / count as f64));
        commands += &match point {
            1 => format!("M{across} {}V{up}", px(y.at(0.0))),
            _ => format!("H{across}V{up}"),
        };
    }
    commands + &format!("H{}", px(X.1))
}
