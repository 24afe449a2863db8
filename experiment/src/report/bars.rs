//! Bars: a metric by job class, and the utilization of links.

use std::collections::BTreeMap;

use model::{LinkId, Topology};

use crate::metrics::{Metrics, Unit, human};
use crate::table::shown_value;

use super::html::{Figure, Table};
use super::svg::{Drawing, Scale, Spread};

/// The bars of one policy.
pub(super) struct Bars<'a, T> {
    /// Class of their colour.
    pub(super) class: String,
    /// The policy.
    pub(super) name: String,
    pub(super) values: &'a T,
}

const WIDTH: f64 = 540.0;
const X: (f64, f64) = (58.0, 526.0);
const Y: (f64, f64) = (20.0, 240.0);

/// A ratio for all jobs and by class; `metric` is its name with `{}` in place of the class. `None`
/// if it wasn't measured.
pub(super) fn by_class(
    title: &str,
    caption: &str,
    metric: &str,
    policies: &[Bars<'_, Metrics>],
) -> Option<Figure> {
    let groups = ["small", "medium", "large", ""].map(|class| {
        let part = if class.is_empty() { String::new() } else { format!("_{class}") };
        let label = if class.is_empty() { "all jobs" } else { class };
        (label, metric.replace("{}", &part))
    });
    let measured = |name: &str| policies.iter().any(|p| p.values.contains_key(name));
    let groups: Vec<_> = groups.iter().filter(|(_, name)| measured(name)).collect();
    let every = policies.iter().flat_map(|p| groups.iter().filter_map(|(_, m)| p.values.get(m)));
    let every: Vec<f64> = every.map(|value| value * 100.0).collect();
    if every.is_empty() {
        return None;
    }
    let low = every.iter().copied().fold(0.0, f64::min);
    let high = every.iter().copied().fold(0.0, f64::max);
    // Room for the numbers at the ends of the bars.
    let room = 0.08 * (high - low);
    let low = if low < 0.0 { low - room } else { low };
    let high = if high > 0.0 { high + room } else { high };
    let y = Scale::new(Spread::Linear, low, high, (Y.1, Y.0));

    let mut drawing = Drawing::new(WIDTH, Y.1 + 28.0);
    let ticks: Vec<_> = y.ticks().into_iter().map(|(v, text)| (v, text + " %")).collect();
    drawing.y_axis(&ticks, &y, X);
    let slot = (X.1 - X.0) / groups.len() as f64;
    let thick = (slot * 0.8 / policies.len() as f64).min(48.0);
    let mut ends = Vec::new();
    for (position, (label, name)) in groups.iter().enumerate() {
        let middle = X.0 + slot * (position as f64 + 0.5);
        drawing.text("label", "middle", (middle, Y.1 + 20.0), label);
        let left = middle - thick * policies.len() as f64 / 2.0;
        for (number, policy) in policies.iter().enumerate() {
            let Some(&value) = policy.values.get(name) else {
                continue;
            };
            let from = left + thick * number as f64;
            let (end, shown) = (y.at(value * 100.0), human(name, value));
            let tip = format!("{}, {label}: {shown}", policy.name);
            let class = format!("bar {}", policy.class);
            drawing.bar(&class, (from + 1.0, from + thick - 1.0), (y.at(0.0), end), &tip);
            if thick >= 30.0 {
                let above = if value < 0.0 { end + 13.0 } else { end - 5.0 };
                ends.push(((from + thick / 2.0, above), shown));
            }
        }
    }
    // Drawn after all bars, because a number may be wider than its bar.
    for (at, shown) in &ends {
        drawing.text("value", "middle", *at, shown.trim_end_matches(" %"));
    }
    drawing.line("zero", (X.0, y.at(0.0)), (X.1, y.at(0.0)));

    let header = groups.iter().map(|(label, _)| (*label).to_owned());
    let mut numbers = Table::new(title, ["policy".to_owned()].into_iter().chain(header));
    for policy in policies {
        let cells = groups.iter().map(|(_, m)| shown_value(m, policy.values.get(m).copied()));
        numbers.row([policy.name.clone()].into_iter().chain(cells));
    }
    Some(Figure {
        title: title.to_owned(),
        caption: caption.to_owned(),
        legend: legend(policies),
        svg: drawing.finish(&format!("{title}, by job class and policy")),
        numbers,
        wide: false,
    })
}

fn legend<T>(policies: &[Bars<'_, T>]) -> Vec<(String, String)> {
    let keys = policies.iter().map(|p| (format!("{} bars", p.class), p.name.clone()));
    keys.collect()
}

/// Most links shown.
const MOST_LINKS: usize = 12;

/// The share of its capacity that each link used under each policy, for the busiest links. `None`
/// when nothing moved.
pub(super) fn links(
    topology: &Topology,
    policies: &[Bars<'_, BTreeMap<LinkId, f64>>],
) -> Option<Figure> {
    let mut busiest: BTreeMap<LinkId, f64> = BTreeMap::new();
    for (&link, &used) in policies.iter().flat_map(|p| p.values) {
        let most = busiest.entry(link).or_default();
        *most = most.max(used);
    }
    let mut busiest: Vec<_> = busiest.into_iter().filter(|(_, used)| *used > 0.0).collect();
    busiest.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let count = busiest.len();
    busiest.truncate(MOST_LINKS);
    if busiest.is_empty() {
        return None;
    }
    let name = |link: &LinkId| {
        let ends = topology.links().get(link.index()).map(|l| [l.from, l.to]);
        let ends = ends.map(|ends| ends.map(|node| topology.node_name(node)).join("→"));
        ends.unwrap_or_default()
    };
    let names: Vec<String> = busiest.iter().map(|(link, _)| name(link)).collect();
    let widest = names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
    let x = (16.0 + 7.5 * widest.min(24) as f64, 526.0);

    const BAR: f64 = 6.0;
    const GAP: f64 = 8.0;
    let slot = BAR * policies.len() as f64 + GAP;
    let y = (8.0, 8.0 + slot * busiest.len() as f64);
    let scale = Scale::new(Spread::Linear, 0.0, 100.0, x);
    let mut drawing = Drawing::new(WIDTH, y.1 + 44.0);
    drawing.x_axis(&scale, y, "share of capacity (%)");
    for (row, ((link, _), name)) in busiest.iter().zip(&names).enumerate() {
        let top = y.0 + slot * row as f64 + GAP / 2.0;
        let middle = top + (slot - GAP) / 2.0;
        let short: String = name.chars().take(24).collect();
        drawing.text("tick", "end", (x.0 - 8.0, middle + 4.0), &short);
        for (number, policy) in policies.iter().enumerate() {
            let used = policy.values.get(link).copied().unwrap_or(0.0);
            let from = top + BAR * number as f64;
            let tip = format!("{}, {name}: {}", policy.name, Unit::Ratio.show(used));
            let class = format!("bar {}", policy.class);
            let across = (x.0, scale.at(used * 100.0));
            drawing.bar(&class, across, (from, from + BAR - 1.0), &tip);
        }
    }
    drawing.line("zero", (x.0, y.0), (x.0, y.1));

    let title = "Use of links";
    let header = policies.iter().map(|p| p.name.clone());
    let mut numbers = Table::new(title, ["link".to_owned()].into_iter().chain(header));
    for ((link, _), name) in busiest.iter().zip(&names) {
        let used = policies.iter().map(|p| p.values.get(link).copied().unwrap_or(0.0));
        let shown = used.map(|used| Unit::Ratio.show(used));
        numbers.row([name.clone()].into_iter().chain(shown));
    }
    let shown = if count > MOST_LINKS {
        format!(" The {MOST_LINKS} busiest of {count} directed links.")
    } else {
        String::new()
    };
    Some(Figure {
        title: title.to_owned(),
        caption: format!(
            "Frame bytes over what the link could have carried from the first start of a flow to \
             the last end.{shown}"
        ),
        legend: legend(policies),
        svg: drawing.finish("Share of capacity used by each directed link, by policy"),
        numbers,
        wide: false,
    })
}
