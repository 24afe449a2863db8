//! How long from a queue's threshold to the first acknowledgement with a capped window, with nothing
//! between the notice and the cap but this process.
//!
//! `make control`, as root. The rounds may be given, 200 otherwise. `watermaster lab delay` measures the
//! same with the controller between.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

#[path = "../tests/hosts/mod.rs"]
mod hosts;

use std::process::ExitCode;

use hosts::{Rig, lease};
use kernel::{Happening, PortOptions, Switch, Watch, now};
use model::{Buffer, Cap, Severity, Thresholds};
use testing::wait::settled;
use units::{Bytes, Rate, Span, Time};

/// What is waited for a queue.
const PATIENCE: Span = Span::from_secs(10);

/// When the queue next reached `level`, told within so long.
fn next(switch: &mut Switch, level: Severity, patience: Span) -> Option<Time> {
    let end = now() + patience;
    loop {
        let event = switch.next(end.since(now())).expect("events");
        match event?.happening {
            Happening::Congested { severity: told, .. } if told == level => {
                return event.map(|e| e.at);
            }
            _ => {}
        }
    }
}

fn main() -> ExitCode {
    let Some(rounds) = hosts::argument("control [ROUNDS]", 200) else {
        return ExitCode::from(2);
    };
    let rig = Rig::new(Some("100mbit"));
    let mut switch = Switch::new().expect("events");
    let number = switch.attach(rig.namespace(0), "eth0", &PortOptions::default()).expect("a port");
    // Half of what the link carries, so that the virtual queue fills whenever nothing is capped.
    let watch = Watch {
        rate: Rate::from_mbps(50),
        buffer: Buffer::Packets(100),
        thresholds: Some(Thresholds {
            low: 30,
            medium: 60,
            high: 85,
            recovery: Span::from_millis(5),
        }),
        mark: None,
    };
    switch.port(number).expect("the port").watch(Some(watch)).expect("a watch");
    let _streams: Vec<_> = (0..4).map(|_| rig.stream()).collect();
    let mut told = Vec::new();
    let mut written = Vec::new();
    let window = Cap { bytes: Bytes::new(2_000), floor_segments: 1 };
    for _ in 0..2 * rounds {
        if written.len() == rounds {
            break;
        }
        let Some(at) = next(&mut switch, Severity::Low, PATIENCE) else {
            eprintln!("no queue in {PATIENCE}");
            break;
        };
        told.push(now().since(at));
        switch.renew(now(), lease(100)).expect("a lease");
        let port = switch.port(number).expect("the port");
        port.cap(None, Some(window)).expect("a cap");
        let since = settled(|| port.capped_since(None).expect("a cap"), Option::is_some);
        written.extend(since.map(|since| since.since(at)));
        // The queue tells that it rises only after it has recovered: until then the cap stands, however
        // long the machine takes.
        let mut recovered = None;
        for _ in 0..40 {
            recovered = next(&mut switch, Severity::Recovered, Span::from_millis(50));
            if recovered.is_some() {
                break;
            }
            switch.renew(now(), lease(100)).expect("a lease");
        }
        if recovered.is_none() {
            eprintln!("the queue has not recovered in 2 s");
        }
        switch.port(number).and_then(|port| port.cap(None, None)).expect("no cap");
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
