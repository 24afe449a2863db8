//! Achieved rates of limited flows, for people and for scripts.

use engine::Outcome;
use model::Topology;
use serde::{Deserialize, Serialize};

use crate::metrics::{Sample, Unit};

/// Most flows that are shown one by one.
const FEW: usize = 12;

/// A flow that had a rate. Times count while its rate stood and it had enough to send, except
/// `limited_s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRate {
    /// Number of the flow.
    pub flow: u32,
    /// Number of its job.
    pub job: u32,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// How long it had a rate, s.
    pub limited_s: f64,
    /// How long of that counts, s.
    pub counted_s: f64,
    /// The mean of its rates, frame bytes, bit/s.
    pub rate_bps: u64,
    /// What full packets carry of that, payload, bit/s.
    pub expected_bps: u64,
    /// What arrived, payload, bit/s.
    pub goodput_bps: u64,
    /// Goodput over the expected rate; `None` when too little was to be sent to tell.
    pub ratio: Option<f64>,
}

/// The flows of `run` that had a rate.
pub(crate) fn of(topology: &Topology, run: &Outcome) -> Vec<FlowRate> {
    let seen = run.rates.iter().filter_map(|own| {
        let flow = run.flows.get(own.flow.index())?;
        Some(FlowRate {
            flow: own.flow.0,
            job: flow.job.0,
            from: topology.node_name(flow.src).into_owned(),
            to: topology.node_name(flow.dst).into_owned(),
            limited_s: own.limited.as_secs_f64(),
            counted_s: own.counted.as_secs_f64(),
            rate_bps: own.rate.as_bps(),
            expected_bps: own.expected.as_bps(),
            goodput_bps: own.goodput().unwrap_or_default().as_bps(),
            ratio: own.ratio(),
        })
    });
    seen.collect()
}

/// `flows` on one line, and one by one if few, without a line end; `None` without flows.
pub fn show(flows: &[FlowRate]) -> Option<String> {
    let ratios: Sample = flows.iter().filter_map(|flow| flow.ratio).collect();
    let mute = flows.len() - ratios.values().len();
    let mut text = match (ratios.percentile(50), ratios.percentile(0), ratios.max()) {
        (Some(median), Some(least), Some(most)) => format!(
            "goodput by rate {median:.3} (median), {least:.3} to {most:.3}; {} flows",
            ratios.values().len()
        ),
        _ if flows.is_empty() => return None,
        _ => "no flow that had a rate had enough to send".to_owned(),
    };
    if mute > 0 {
        text += &format!("\n {mute} had too little to send to say anything");
    }
    if flows.len() > FEW {
        return Some(text + "\n one by one with --json");
    }
    let rate = |bps: u64| Unit::BitsPerSecond.show(bps as f64);
    text += &format!(
        "\n {:<14} {:>8} {:>8} {:>12} {:>12} {:>12} {:>6}",
        "flow", "limited", "counts", "rate, frames", "in payload", "goodput", "ratio"
    );
    for flow in flows {
        let ratio = flow.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"));
        text += &format!(
            "\n {:<14} {:>6.2} s {:>6.2} s {:>12} {:>12} {:>12} {ratio:>6}",
            format!("{} {} to {}", flow.flow, flow.from, flow.to),
            flow.limited_s,
            flow.counted_s,
            rate(flow.rate_bps),
            rate(flow.expected_bps),
            rate(flow.goodput_bps),
        );
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(number: u32, ratio: Option<f64>) -> FlowRate {
        FlowRate {
            flow: number,
            job: 0,
            from: "h0".into(),
            to: "h1".into(),
            limited_s: 2.0,
            counted_s: 1.5,
            rate_bps: 3_000_000,
            expected_bps: 2_920_000,
            goodput_bps: 2_910_000,
            ratio,
        }
    }

    #[test]
    fn few_flows_are_shown_one_by_one_and_many_are_summed_up() {
        assert_eq!(show(&[]), None);
        let few = show(&[flow(0, Some(0.996)), flow(1, None)]).unwrap();
        let lines: Vec<&str> = few.lines().collect();
        assert_eq!(lines[0], "goodput by rate 0.996 (median), 0.996 to 0.996; 1 flows");
        assert_eq!(lines[1], " 1 had too little to send to say anything");
        assert_eq!(
            lines[3],
            " 0 h0 to h1       2.00 s   1.50 s  3.00 Mbit/s  2.92 Mbit/s  2.91 Mbit/s  0.996"
        );
        assert!(lines[4].ends_with('–'));
        let many: Vec<_> = (0..13).map(|number| flow(number, Some(0.99))).collect();
        assert_eq!(show(&many).unwrap().lines().count(), 2);
        assert!(show(&[flow(0, None)]).unwrap().starts_with("no flow that had a rate"));
    }
}
