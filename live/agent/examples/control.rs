//! How long from a queue's threshold to the first acknowledgement with a capped window, with nothing
//! between the notice and the cap but this process.
//!
//! `make control`, as root. The most rounds may be given, 200 otherwise; it ends early when the queue
//! stays full for two seconds.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

#[path = "../tests/rig/mod.rs"]
mod rig;

use std::process::ExitCode;
use std::time::Duration;

use agent::{Happening, PortOptions, Switch, Watch, Window, now};
use model::Congestion;
use rig::{Rig, eventually, lease};
use units::{Bytes, Rate, Span};

fn main() -> ExitCode {
    if !rig::root() {
        return ExitCode::from(2);
    }
    let rounds = std::env::args().nth(1).map_or(Ok(200), |argument| argument.parse());
    let Ok(rounds) = rounds else {
        eprintln!("usage: control [ROUNDS]");
        return ExitCode::from(2);
    };
    let rig = Rig::new(Some("100mbit"));
    let mut switch = Switch::new().expect("events");
    let number = switch.attach(rig.namespace(0), "eth0", &PortOptions::default()).expect("a port");
    let full = Bytes::new(1500);
    // Half of what the link carries, so that the virtual queue fills whenever nothing is capped.
    let watch = Watch {
        rate: Rate::from_mbps(50),
        limit: full * 100,
        low: full * 30,
        medium: full * 60,
        high: full * 85,
        recovery: Span::from_millis(5),
        mark: None,
    };
    switch.port(number).expect("the port").watch(Some(watch)).expect("a watch");
    let _streams: Vec<_> = (0..4).map(|_| rig.stream()).collect();
    let mut told = Vec::new();
    let mut written = Vec::new();
    while written.len() < rounds {
        let event = switch.next(Span::from_secs(2)).expect("events");
        let port = switch.port(number).expect("the port");
        let Some(event) = event else { break };
        if !matches!(event.happening, Happening::Congested { level: Congestion::Low, .. }) {
            continue;
        }
        told.push(now().since(event.at));
        let window = Window { cap: Bytes::new(2_000), one_segment: true };
        port.cap(None, Some(window), lease(100)).expect("a cap");
        let mut since = None;
        eventually(Duration::from_millis(100), || {
            since = port.capped_since(None).expect("a cap");
            since.is_some()
        });
        written.extend(since.map(|since| since.since(event.at)));
        std::thread::sleep(Duration::from_millis(60)); // recovered, and the lease not over yet
        while switch.next(Span::ZERO).expect("events").is_some() {}
    }
    println!("| from the threshold to | rounds | median | p99 |");
    println!("|---|---|---|---|");
    for (what, mut spans) in [("the notice in user space", told), ("the rewritten window", written)]
    {
        spans.sort();
        let at =
            |percent: usize| spans.get((spans.len() * percent / 100).min(spans.len().max(1) - 1));
        let show = |span: Option<&Span>| span.map_or("none".to_owned(), ToString::to_string);
        println!("| {what} | {} | {} | {} |", spans.len(), show(at(50)), show(at(99)));
    }
    ExitCode::SUCCESS
}
