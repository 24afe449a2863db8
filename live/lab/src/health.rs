//! Whether the machine keeps up with the lab: measured during every run, because results of an
//! overloaded machine are wrong.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use engine::LinkRecord;
use model::{Buffer, LinkId, Topology};
use serde::Serialize;
use units::{Bytes, Rate, Span};

use crate::probe::{Count, Probe};
use crate::{Error, Lab};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(100);
/// Samples per second.
const SECOND: u32 = 10;
/// Least utilization of a link with a standing queue.
const REACHED: f64 = 0.95;
/// A queue is standing when it is half full at two samples in a row, or this full if it is never
/// full.
const DEEP: u32 = 50;
/// Least total time of a standing queue for a judgement.
const STOOD: Duration = Duration::from_millis(500);
/// In a saturated second less than this part of processor time is idle.
const IDLE: f64 = 0.02;
/// Largest acceptable part of saturated seconds.
const SATURATED: f64 = 0.2;
/// A later timer is late; at most one in a hundred may be.
const LATE: Span = Span::from_millis(5);

/// Samples a lab while it runs.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Seen, Error>>,
}

/// The observations.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) links: BTreeMap<LinkId, LinkSeen>,
    /// Of each second: the parts of the processors' time that were idle, and spent in soft
    /// interrupts, where the kernel forwards.
    seconds: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkSeen {
    /// The previous sample.
    pub(crate) before: Count,
    pub(crate) last: Count,
    /// Most packets in the queue at a sample.
    pub(crate) peak: u32,
    /// Packets in the queue from which it is standing.
    deep: u32,
    /// Most frame bytes in a second, as a rate.
    fastest: Rate,
    /// How long the queue stood, and frame bytes that left meanwhile.
    stood: Duration,
    stood_bytes: Bytes,
}

/// A rate for people, of four digits.
pub(crate) fn short(rate: Rate) -> Rate {
    let unit = 10_u64.pow(rate.as_bps().checked_ilog10().unwrap_or(0).saturating_sub(3));
    Rate::from_bps(rate.as_bps() / unit * unit)
}

/// Lateness of timers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timers {
    all: u64,
    late: u64,
    latest: Span,
}

impl Timers {
    pub(crate) fn note(&mut self, by: Span) {
        self.all += 1;
        self.late += u64::from(by > LATE);
        self.latest = self.latest.max(by);
    }
}

/// The verdict on the machine, with its reasons.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Evidence that it was too slow; empty if it kept up.
    pub faults: Vec<String>,
    /// Possible disturbances without evidence of an effect.
    pub doubts: Vec<String>,
    /// What was measured, on a line.
    pub measured: String,
}

impl Verdict {
    /// For people.
    pub fn line(&self) -> String {
        if self.faults.is_empty() {
            let doubts: String = self.doubts.iter().map(|doubt| format!(", but {doubt}")).collect();
            return format!("the machine kept up{doubts}: {}", self.measured);
        }
        format!(
            "THE MACHINE WAS TOO SLOW, don't trust these figures: {} ({}); ask for less, such as a \
             tenth of the rates, or let nothing else run",
            self.faults
                .iter()
                .chain(&self.doubts)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("; "),
            self.measured
        )
    }
}

impl Watch {
    pub(crate) fn start(lab: &Lab) -> Result<Self, Error> {
        let probe = Probe::open(lab)?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let topology = &lab.blueprint.topology;
        let before = probe.read()?.into_iter().map(|(link, count)| {
            let deep = deep(topology.link(link).spec.buffer);
            (link, LinkSeen { before: count, last: count, deep, ..LinkSeen::default() })
        });
        let before = before.collect();
        let thread = std::thread::spawn(move || watch(&probe, before, &flag));
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) -> Result<Seen, Error> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = |_| Error::Inconsistent("the thread that watches the lab has died".into());
        self.thread.join().map_err(panicked)?
    }
}

fn watch(
    probe: &Probe,
    links: BTreeMap<LinkId, LinkSeen>,
    stop: &AtomicBool,
) -> Result<Seen, Error> {
    let before: BTreeMap<_, _> = links.iter().map(|(link, own)| (*link, own.before)).collect();
    let mut seen = Seen { links, seconds: Vec::new() };
    let mut second = (Instant::now(), before.clone(), processors());
    let mut previous = (Instant::now(), before);
    for look in 1_u32.. {
        let last = stop.load(Ordering::Relaxed);
        if !last {
            sleep(INTERVAL);
        }
        let (now, counts) = (Instant::now(), probe.read()?);
        for (link, count) in &counts {
            let (Some(own), Some(was)) = (seen.links.get_mut(link), previous.1.get(link)) else {
                continue;
            };
            own.last = *count;
            own.peak = own.peak.max(count.waiting);
            if was.waiting.min(count.waiting) >= own.deep {
                own.stood += now - previous.0;
                own.stood_bytes += count.bytes - was.bytes;
            }
        }
        previous = (now, counts);
        // The rest of a second counts unless it is too short to say anything.
        let passed = now - second.0;
        if look % SECOND == 0 || (last && passed >= INTERVAL / 2) {
            let span = span(passed);
            for (link, count) in &previous.1 {
                let (Some(own), Some(was)) = (seen.links.get_mut(link), second.1.get(link)) else {
                    continue;
                };
                own.fastest = own.fastest.max(Rate::of(count.bytes - was.bytes, span));
            }
            let now = processors();
            seen.seconds.extend(parts(&second.2, &now));
            second = (previous.0, previous.1.clone(), now);
        }
        if last {
            break;
        }
    }
    Ok(seen)
}

/// Packets from which a queue with room for `buffer` is standing.
fn deep(buffer: Buffer) -> u32 {
    const PACKET: u64 = 1500;
    match buffer {
        Buffer::Packets(packets) => (packets / 2).max(1),
        Buffer::Bytes(bytes) => u32::try_from(bytes.get() / PACKET / 2).unwrap_or(DEEP).max(1),
        Buffer::Unlimited => DEEP,
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The first line of /proc/stat: clock ticks by what was done in them (proc_stat(5)).
fn processors() -> Vec<u64> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    line.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect()
}

/// The idle part of the time between two readings, and that in soft interrupts.
fn parts(before: &[u64], after: &[u64]) -> Option<(f64, f64)> {
    const IDLE: usize = 3;
    const SOFTIRQ: usize = 6;
    let passed: Vec<u64> =
        after.iter().zip(before).map(|(after, before)| after.saturating_sub(*before)).collect();
    // Guests' time is counted in that of users too.
    let all: u64 = passed.iter().take(8).sum();
    let part = |at: usize| Some(*passed.get(at)? as f64 / all as f64);
    if all == 0 { None } else { Some((part(IDLE)?, part(SOFTIRQ)?)) }
}

impl Seen {
    /// What the links carried. Marks and meters aren't counted here.
    pub(crate) fn records(&self) -> impl Iterator<Item = LinkRecord> {
        self.links.iter().map(|(&link, own)| LinkRecord {
            link,
            bytes: own.last.bytes - own.before.bytes,
            packets: own.last.packets - own.before.packets,
            dropped: own.last.dropped - own.before.dropped,
            marked: 0,
            metered: 0,
            peak: own.peak,
        })
    }

    /// Judges what was seen.
    pub(crate) fn judge(&self, topology: &Topology, timers: &Timers) -> Verdict {
        let name = |link: LinkId| {
            let link = topology.link(link);
            let of = |node: model::NodeId| topology.nodes()[node.index()].name.as_str();
            format!("{}-{}", of(link.from), of(link.to))
        };
        // To a tenth of a millisecond.
        let latest = timers.latest.as_nanos().next_multiple_of(100_000);
        let latest = Span::from_nanos(latest);
        let (mut faults, mut doubts) = (Vec::new(), Vec::new());
        let mut busiest: Option<(f64, String)> = None;
        for (&link, own) in &self.links {
            let capacity = topology.link(link).spec.capacity;
            let part = own.fastest.as_bps() as f64 / capacity.as_bps() as f64;
            if busiest.as_ref().is_none_or(|(most, _)| part > *most) {
                let fastest = short(own.fastest);
                let text = format!("busiest link {}, {fastest} of {capacity}", name(link));
                busiest = Some((part, text));
            }
            let reached = Rate::of(own.stood_bytes, span(own.stood));
            let enough = reached.as_bps() as f64 >= REACHED * capacity.as_bps() as f64;
            if own.stood >= STOOD && !enough {
                faults.push(format!(
                    "while packets waited for {}, it carried {} of {capacity}",
                    name(link),
                    short(reached)
                ));
            }
        }
        let saturated = self.seconds.iter().filter(|(idle, _)| *idle < IDLE).count();
        let share = saturated as f64 / self.seconds.len().max(1) as f64;
        if share > SATURATED && self.seconds.len() > 1 {
            // Whoever used them: links and timers show whether the lab suffered.
            doubts.push(format!(
                "the processors were saturated in {saturated} of {} seconds",
                self.seconds.len()
            ));
        }
        if timers.late * 100 > timers.all {
            faults.push(format!(
                "{} of {} timers were more than {LATE} late, the latest by {latest}",
                timers.late, timers.all
            ));
        }
        let mean = |of: fn(&(f64, f64)) -> f64| {
            100.0 * self.seconds.iter().map(of).sum::<f64>() / self.seconds.len().max(1) as f64
        };
        let mut measured: Vec<String> = busiest.map(|(_, text)| text).into_iter().collect();
        if !self.seconds.is_empty() {
            measured.push(format!("processors {:.0} % idle", mean(|part| part.0)));
            measured.push(format!("{:.0} % in soft interrupts", mean(|part| part.1)));
        }
        if timers.all > 0 {
            measured.push(format!("latest timer by {latest}"));
        }
        Verdict { faults, doubts, measured: measured.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use model::LinkSpec;
    use model::build::{Access, star};

    use super::*;

    fn topology() -> Topology {
        let link = LinkSpec {
            capacity: Rate::from_mbps(100),
            delay: Span::ZERO,
            buffer: Buffer::Packets(100),
            mark: None,
        };
        star(2, &Access { link, nic: Buffer::Packets(100) }).unwrap()
    }

    fn seen(megabytes_while_standing: u64, idle: f64) -> Seen {
        let own = LinkSeen {
            stood: Duration::from_secs(1),
            stood_bytes: Bytes::new(megabytes_while_standing * 1_000_000),
            ..LinkSeen::default()
        };
        Seen { links: BTreeMap::from([(LinkId(1), own)]), seconds: vec![(idle, 0.1); 10] }
    }

    #[test]
    fn a_link_below_its_rate_while_packets_wait_shows_a_slow_machine() {
        let timers = Timers::default();
        assert_eq!(seen(12, 0.5).judge(&topology(), &timers).faults, Vec::<String>::new());
        let verdict = seen(11, 0.5).judge(&topology(), &timers);
        assert!(verdict.faults[0].contains("for s0-h0, it carried 88"), "{verdict:?}");
        assert!(verdict.line().starts_with("THE MACHINE WAS TOO SLOW"));
    }

    #[test]
    fn saturated_processors_and_late_timers_show_it_too() {
        let mut timers = Timers::default();
        let verdict = seen(12, 0.0).judge(&topology(), &timers);
        assert!(verdict.line().starts_with("the machine kept up, but"), "{verdict:?}");
        assert!(verdict.doubts[0].contains("saturated in 10 of 10 seconds"), "{verdict:?}");
        for late in 0..100 {
            timers.note(if late < 2 { Span::from_millis(7) } else { Span::ZERO });
        }
        let verdict = seen(12, 0.5).judge(&topology(), &timers);
        assert!(verdict.faults[0].starts_with("2 of 100 timers"), "{verdict:?}");
    }

    #[test]
    fn parts_of_the_processors_time_are_of_the_time_between() {
        let before = [10, 0, 10, 100, 0, 0, 10, 0, 0, 0];
        let after = [20, 0, 20, 160, 0, 0, 30, 0, 10, 0];
        assert_eq!(parts(&before, &after), Some((0.6, 0.2)));
        assert_eq!(parts(&before, &before), None);
        assert!(processors().len() >= 7);
    }
}
