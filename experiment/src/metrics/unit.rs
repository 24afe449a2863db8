//! The unit in a metric's name, and how values are shown to people.

/// Separates a metric's name from the policy that a published value compares it with.
const AGAINST: &str = " against ";

/// Units of metrics, by the ending of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `_s`: seconds.
    Seconds,
    /// `_bps`: bits per second.
    BitsPerSecond,
    /// `_tps`: completions, such as tuples, per second.
    PerSecond,
    /// `_ratio`: a share, or a relative change; shown in percent.
    Ratio,
    /// `_count`: a number of things.
    Count,
    /// `_packets`: a number of packets.
    Packets,
}

impl Unit {
    /// The unit of the metric of this name; a name with another ending counts something.
    pub fn of(name: &str) -> Self {
        if name.contains(AGAINST) {
            return Self::Ratio;
        }
        match name.rsplit('_').next() {
            Some("s") => Self::Seconds,
            Some("bps") => Self::BitsPerSecond,
            Some("tps") => Self::PerSecond,
            Some("ratio") => Self::Ratio,
            Some("packets") => Self::Packets,
            _ => Self::Count,
        }
    }

    /// The value with its unit, to three significant digits (ratios: a tenth of a percent).
    pub fn show(self, value: f64) -> String {
        let text = match self {
            Self::Seconds if value.abs() >= 1.0 => format!("{} s", digits(value)),
            Self::Seconds => scaled(value, "s", &["", "m", "µ", "n"], 1000.0),
            Self::BitsPerSecond => scaled(value, "bit/s", &["", "k", "M", "G", "T"], 0.001),
            Self::PerSecond => format!("{}/s", digits(value)),
            Self::Ratio => format!("{:.1} %", value * 100.0),
            Self::Count => format!("{value:.0}"),
            Self::Packets if value.fract() == 0.0 => format!("{value:.0} packets"),
            Self::Packets => format!("{} packets", digits(value)),
        };
        minus(&text)
    }
}

/// A value of the metric `name` for people: with its unit, and with its sign if it is a change.
pub fn human(name: &str, value: f64) -> String {
    let text = Unit::of(name).show(value);
    if is_change(name) && value > 0.0 { format!("+{text}") } else { text }
}

/// Whether the metric compares with the baseline, so that zero means no change.
pub fn is_change(name: &str) -> bool {
    name.contains(AGAINST) || name.contains("_change_") || name.contains("_increase_")
}

/// Scales `value` by `step` along `prefixes` until it lies between 1 and 999.
fn scaled(value: f64, unit: &str, prefixes: &[&str], step: f64) -> String {
    let reads_well = |v: f64| {
        if step > 1.0 { v.abs() >= 1.0 } else { v.abs() < 1000.0 }
    };
    let mut value = value;
    let mut prefix = prefixes[0];
    for next in &prefixes[1..] {
        if value == 0.0 || reads_well(value) {
            break;
        }
        value *= step;
        prefix = next;
    }
    format!("{} {prefix}{unit}", digits(value))
}

/// Three significant digits, all digits of the whole part.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Replaces a leading hyphen by a minus sign (U+2212); zero has none.
fn minus(text: &str) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.contains(|c| matches!(c, '1'..='9')) => format!("−{rest}"),
        Some(rest) => rest.to_owned(),
        None => text.to_owned(),
    }
}
