//! Drawing: scales with round ticks, and the frame of a plot.

use super::html::escape;

/// Writes a coordinate to a tenth of a pixel.
pub(super) fn px(value: f64) -> String {
    let mut text = format!("{value:.1}");
    if text.ends_with(".0") {
        text.truncate(text.len() - 2);
    }
    text
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spread {
    Linear,
    /// Logarithmic; all values are above zero.
    Log,
    /// Linear up to about this size on both sides of zero, logarithmic beyond it.
    SignedLog(f64),
}

impl Spread {
    fn apply(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.log10(),
            Self::SignedLog(unit) => (1.0 + value.abs() / unit).log10().copysign(value),
        }
    }
}

/// Maps values onto pixels.
pub(super) struct Scale {
    spread: Spread,
    values: (f64, f64),
    pixels: (f64, f64),
}

impl Scale {
    /// From `low` to `high`; an empty range is widened.
    pub(super) fn new(spread: Spread, low: f64, high: f64, pixels: (f64, f64)) -> Self {
        let values = match spread {
            _ if high > low => (low, high),
            Spread::Log => (low / 2.0, low * 2.0),
            _ if low == 0.0 => (0.0, 1.0),
            _ => (low - low.abs() / 2.0, low + low.abs() / 2.0),
        };
        Self { spread, values, pixels }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let [low, high, value] =
            [self.values.0, self.values.1, value].map(|v| self.spread.apply(v));
        let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Round values within the scale, with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let (low, high) = self.values;
        let ticks = match self.spread {
            Spread::Linear => linear_ticks(low, high),
            Spread::Log => log_ticks(low, high),
            Spread::SignedLog(unit) => {
                let beyond = |end: f64| log_ticks(unit, end.abs().max(unit));
                let decades = |end| beyond(end).into_iter().filter(|&t| is_decade(t));
                let below = decades(low.min(0.0)).map(|t| -t);
                below.chain([0.0]).chain(decades(high.max(0.0))).collect()
            }
        };
        let within = ticks.into_iter().filter(|tick| (low..=high).contains(tick));
        within.map(|tick| (tick, plain(tick))).collect()
    }
}

/// Steps of 1, 2 or 5 times a power of ten, six at most.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    const MOST: f64 = 6.0;
    let rough = (high - low) / MOST;
    let decade = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    let step = steps.into_iter().find(|&step| step >= rough);
    let step = step.unwrap_or(10.0 * decade);
    let first = (low / step).ceil();
    (0..=6).map(|i| (first + f64::from(i)) * step).collect()
}

/// Powers of ten, with their double and fivefold where there are few.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor(), high.log10().ceil());
    let factors: &[f64] = if high / low < 200.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    // An f64 spans some 600 decades.
    let decades = (0..640).map(|i| first + f64::from(i));
    let decades = decades.take_while(|&decade| decade <= last);
    let ticks = decades.flat_map(|d| factors.iter().map(move |f| f * 10f64.powf(d)));
    ticks.collect()
}

fn is_decade(tick: f64) -> bool {
    (tick.log10() - tick.log10().round()).abs() < 1e-9
}

/// A tick's label: as few digits as it needs.
fn plain(value: f64) -> String {
    let rounded = format!("{value:.6}");
    let text = rounded.trim_end_matches('0').trim_end_matches('.');
    match text.strip_prefix('-') {
        Some("0") => "0".to_owned(),
        Some(size) => format!("−{size}"),
        None => text.to_owned(),
    }
}

/// The drawing of one plot, `width` × `height` user units.
pub(super) struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

impl Drawing {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// A straight line of a class.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
        self.body += &format!("<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>");
    }

    /// A path of a class, with a tooltip.
    pub(super) fn path(&mut self, class: &str, commands: &str, tip: &str) {
        let tip = escape(tip);
        self.body +=
            &format!("<path class=\"{class}\" d=\"{commands}\"><title>{tip}</title></path>\n");
    }

    /// A filled rectangle, with a tooltip.
    pub(super) fn bar(&mut self, class: &str, x: (f64, f64), y: (f64, f64), tip: &str) {
        let (left, top) = (x.0.min(x.1), y.0.min(y.1));
        let size = ((x.1 - x.0).abs(), (y.1 - y.0).abs());
        let commands =
            format!("M{} {}h{}v{}h-{}z", px(left), px(top), px(size.0), px(size.1), px(size.0));
        self.path(class, &commands, tip);
    }

    /// Text with its anchor (`start`, `middle` or `end`) at a point.
    pub(super) fn text(&mut self, class: &str, anchor: &str, at: (f64, f64), text: &str) {
        let ([x, y], text) = ([at.0, at.1].map(px), escape(text));
        self.body += &format!(
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x}\" y=\"{y}\">{text}</text>"
        );
    }

    /// Vertical grid lines with labels below `y.1`, and the axis title.
    pub(super) fn x_axis(&mut self, scale: &Scale, y: (f64, f64), label: &str) {
        for (tick, text) in scale.ticks() {
            let x = scale.at(tick);
            self.line("grid", (x, y.0), (x, y.1));
            self.text("tick", "middle", (x, y.1 + 16.0), &text);
        }
        let middle = f64::midpoint(scale.pixels.0, scale.pixels.1);
        self.text("label", "middle", (middle, y.1 + 36.0), label);
    }

    /// Horizontal grid lines from `x.0` to `x.1` with labels on the left.
    pub(super) fn y_axis(&mut self, ticks: &[(f64, String)], scale: &Scale, x: (f64, f64)) {
        for (tick, text) in ticks {
            let y = scale.at(*tick);
            self.line("grid", (x.0, y), (x.1, y));
            self.text("tick", "end", (x.0 - 8.0, y + 4.0), text);
        }
    }

    /// The finished element; `about` is its text for screen readers.
    pub(super) fn finish(self, about: &str) -> String {
        format!(
            "<svg class=\"plot\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\">\n{}</svg>\n",
            escape(about),
            px(self.width),
            px(self.height),
            self.body
        )
    }
}
