//! `watermaster lab delay`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ::lab::{Control, Daemon, Daemons, Error, Governance, Lab, Order, Transport, World};
use clap::Args;
use engine::{Notice, World as _};
use model::build::{Access, star};
use model::{Buffer, LinkSpec, Network, NodeId};
use serde::Serialize;
use units::{Bytes, Rate, Span, Time};

use super::{failed, tell};
use crate::failure::Failure;
use crate::staging::clean_up_on_interrupt;

/// Octets that each sends.
const SIZE: Bytes = Bytes::new(40_000);
/// The policy: the published thresholds, but a short recovery, so that rounds follow each other.
const POLICY: &str = "name = \"sdtcp\"\nrecovery = \"50 ms\"\nfloor_segments = 2";
/// Pause between bursts, so that the port recovers.
const PAUSE: Span = Span::from_millis(150);
/// Longest time for a burst.
const LONGEST: Span = Span::from_secs(20);

/// Measure the control delay: from a queue's threshold to the first acknowledgement with a capped window
///
/// Bursts of flows fill a switch port of a lab at 100 Mbit/s, again and again. The agent tells the
/// controller, whose policy sdtcp answers with windows, and the agent has the kernel write them into
/// acknowledgements. Both are the daemons of real machines. The published figures are 70 to 95 us for
/// notice and answer, of which 66 us are wire (SDTCP, section 5.2.5), and 200 us for a switch's meters
/// ("On SDN-Enabled Online and Dynamic Bandwidth Allocation for Stream Analytics", section VI-D).
#[derive(Args)]
#[command(after_help = "Example:\n  sudo watermaster lab delay --rounds 200 --json")]
pub(crate) struct Delay {
    /// Measure so often
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,

    /// Hosts that send in a burst, ten segments at once each: 20 pass the highest threshold of the
    /// port's 100 packets for certain
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(10..=200))]
    senders: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One part of the delay, nanoseconds; none where no round has it.
#[derive(Serialize)]
struct Part {
    part: &'static str,
    rounds: usize,
    median_ns: Option<u64>,
    p99_ns: Option<u64>,
    published: &'static str,
}

#[derive(Serialize)]
struct Report {
    /// Bursts that were sent.
    bursts: u32,
    /// Those after which no acknowledgement was seen capped; the parts leave them out.
    unanswered: u32,
    parts: Vec<Part>,
    notes: Vec<String>,
}

/// Begin and end of each part, as logged by the agent from the threshold on.
const PARTS: [(&str, Option<&str>, &str, &str); 5] = [
    ("threshold to notice handed over", None, "told_ns", ""),
    ("notice to commands back", Some("told_ns"), "commanded_ns", "70 to 95 us"),
    ("commands to all windows in the kernel", Some("commanded_ns"), "stood_ns", "200 us"),
    ("commands to the first capped acknowledgement", Some("commanded_ns"), "capped_ns", ""),
    ("threshold to the first capped acknowledgement", None, "capped_ns", ""),
];

impl Delay {
    pub(super) fn execute(self) -> Result<(), Failure> {
        clean_up_on_interrupt()?;
        let report = self.measure().map_err(failed)?;
        let mut text =
            format!("{:<47} {:>6} {:>12} {:>12}  published\n", "", "rounds", "median", "p99");
        for part in &report.parts {
            let show =
                |ns: Option<u64>| ns.map_or("-".into(), |ns| Span::from_nanos(ns).to_string());
            text += &format!(
                "{:<47} {:>6} {:>12} {:>12}  {}\n",
                part.part,
                part.rounds,
                show(part.median_ns),
                show(part.p99_ns),
                part.published
            );
        }
        for note in &report.notes {
            text += &format!("{note}\n");
        }
        tell(self.json, &report, &text)?;
        if report.unanswered == report.bursts {
            let none = "no acknowledgement was seen with a capped window: nothing was measured. End what else this \
                        machine does, or run it under `chrt -f 50`";
            return Err(failed(Error::Control(none.into())));
        }
        Ok(())
    }

    fn measure(&self) -> Result<Report, Error> {
        let link = LinkSpec {
            capacity: Rate::from_mbps(100),
            delay: Span::ZERO,
            buffer: Buffer::Packets(100),
            mark: None,
        };
        let access = Access { link, nic: Buffer::Unlimited };
        let topology =
            star(self.senders + 1, &access).map_err(|error| Error::Topology(error.to_string()))?;
        let name = format!("delay{}", std::process::id());
        let order = Order { name, passing: true, ..Order::default() };
        let mut lab = Lab::up(&topology, &order)?;
        let program = std::env::current_exe()
            .map_err(|error| Error::Control(format!("this program isn't found: {error}")))?;
        let governance = Governance { trace: true, ..Governance::default() };
        let transport = transport();
        let mut daemons = Daemons::start(&mut lab, &governance, POLICY, &program)?;
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let network = Network::new(topology);
        let lab = std::sync::Arc::new(lab);
        let mut world = World::new(
            std::sync::Arc::clone(&lab),
            &network,
            transport,
            Control::Elsewhere,
            Time::NEVER,
        )?;
        let (mut bursts, mut before) = (0, 0);
        let rounds = self.rounds as usize;
        let mut notes = world.notes().to_vec();
        // One burst in three may have a late recovery.
        while bursts < self.rounds.saturating_mul(3) {
            if bursts >= self.rounds {
                let measured = said(&daemons.log(Daemon::Agent), "stood_ns").len();
                if measured >= rounds || measured == before {
                    break;
                }
                before = measured;
            }
            for _ in 0..self.rounds.min(20) {
                burst(&mut world, &network, &hosts)?;
                bursts += 1;
            }
            daemons.check()?;
        }
        drop(world);
        let decisions = said(&daemons.log(Daemon::Controller), "decided_ns");
        let chain = said(&daemons.log(Daemon::Agent), "stood_ns");
        daemons.stop()?;
        let mut parts: Vec<Part> = PARTS
            .iter()
            .map(|&(part, from, to, published)| {
                let length = |line: &BTreeMap<String, u64>| {
                    Some(
                        line.get(to)?
                            .saturating_sub(from.map_or(Some(0), |from| line.get(from).copied())?),
                    )
                };
                summary(part, chain.iter().filter_map(length).collect(), published)
            })
            .collect();
        let taken = decisions.iter().filter_map(|line| line.get("decided_ns").copied()).collect();
        parts.insert(2, summary("  of this the decision, every notice", taken, ""));
        let answered = u32::try_from(chain.len()).unwrap_or(u32::MAX);
        let unanswered = bursts.saturating_sub(answered);
        notes.extend(unanswered_note(bursts, unanswered));
        Ok(Report { bursts, unanswered, parts, notes })
    }
}

/// What the figures leave out.
fn unanswered_note(bursts: u32, unanswered: u32) -> Option<String> {
    (unanswered > 0).then(|| {
        format!(
            "of {bursts} bursts {unanswered} had no acknowledgement that was seen with a capped window; the figures \
             are of the others"
        )
    })
}

/// Reno without delayed acknowledgements, so that a window of one segment works.
fn transport() -> Transport {
    Transport {
        congestion_control: "reno",
        mss: 1460,
        header: 40,
        initial_window: 10,
        min_rto: Span::from_millis(200),
        delayed_ack: false,
        receive_window: Bytes::new(1 << 20),
        sack: true,
        ecn: false,
        handshake: true,
    }
}

/// Flows from all hosts to the last, until all have ended and the port has recovered.
fn burst(world: &mut World, network: &Network, hosts: &[NodeId]) -> Result<(), Error> {
    let Some((last, senders)) = hosts.split_last() else { return Ok(()) };
    for sender in senders {
        world.start(network, *sender, *last, SIZE)?;
    }
    let (mut open, end) = (senders.len(), world.now() + LONGEST);
    while open > 0 {
        match world.run(end) {
            Notice::Ended(..) => open -= 1,
            Notice::Limit => return Err(Error::Stalled(LONGEST)),
            _ => world.check()?,
        }
    }
    // Without flows the world doesn't wait; ports recover in real time.
    std::thread::sleep(std::time::Duration::from_nanos(PAUSE.as_nanos()));
    world.advance(Time::ZERO);
    world.check()
}

/// The numbers of the lines of a log that have `key`, by name.
fn said(log: &Path, key: &str) -> Vec<BTreeMap<String, u64>> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let number = |line: &str| -> Option<BTreeMap<String, u64>> {
        let fields = line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        let numbers =
            fields.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)));
        let numbers: BTreeMap<String, u64> = numbers.collect();
        numbers.contains_key(key).then_some(numbers)
    };
    text.lines().filter_map(number).collect()
}

fn summary(part: &'static str, mut spans: Vec<u64>, published: &'static str) -> Part {
    spans.sort_unstable();
    let at = |percent: usize| {
        let position = (spans.len() * percent / 100).min(spans.len().saturating_sub(1));
        spans.get(position).copied()
    };
    let (median_ns, p99_ns) = (at(50), at(99));
    Part { part, rounds: spans.len(), median_ns, p99_ns, published }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_log_are_read_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("agent.out");
        let lines = "2026 DEBUG delay: window capped told_ns=5 stood_ns=70 windows=2\n\
                     2026 INFO agentd: ready\nDEBUG delay: told_ns=x\n";
        fs::write(&log, lines).unwrap();
        let found = said(&log, "stood_ns");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0]["told_ns"], found[0]["stood_ns"]), (5, 70));
    }

    #[test]
    fn a_summary_has_the_middle_and_the_tail() {
        let part = summary("a", (1..=200).rev().collect(), "");
        assert_eq!((part.rounds, part.median_ns, part.p99_ns), (200, Some(101), Some(199)));
        let none = summary("none", Vec::new(), "");
        assert_eq!((none.rounds, none.median_ns, none.p99_ns), (0, None, None));
        assert_eq!(unanswered_note(5, 0), None);
        assert!(unanswered_note(5, 2).unwrap().starts_with("of 5 bursts 2 had no acknowledgement"));
    }
}
