//! How long from a queue's threshold to the first acknowledgement with a capped window: where the cap was prepared,
//! and where nothing but this process is between the notice and the cap.
//!
//! `make control`, as root. The rounds may be given, 200 otherwise. 20, 60 and 200 senders at once send 4 MB over
//! a cable of 1 Gbit/s with room for 100 packets, where a packet takes 12 µs. `watermaster lab delay` measures the
//! same with agent and controller between, at 100 Mbit/s. It fails where prepared windows are later than published ones.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

#[path = "../tests/hosts/mod.rs"]
mod hosts;

use std::io::{Read, Write};
use std::process::ExitCode;
use std::thread;

use hosts::{Idle, Rig, lease};
use kernel::{Happening, PortNumber, PortOptions, Switch, Watch, now};
use model::{Buffer, Cap, Caps, Severity, Thresholds};
use testing::wait::settled;
use units::{Bytes, Rate, Span, Time};

/// What is waited for a queue.
const PATIENCE: Span = Span::from_secs(10);

/// The most that is published from a notice to the answer (SDTCP, section 5.2.5). A prepared window needs none.
const PUBLISHED: Span = Span::from_micros(95);

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

/// What all senders of a round send.
const TOTAL: usize = 4_000_000;

/// Of this what they send first, all one after another: at most an initial window each, for which no write waits.
const FIRST: usize = 280_000;

/// All senders send at once, and it is read.
fn burst(connections: &[Idle]) {
    let part = vec![0x5a; TOTAL / connections.len()];
    thread::scope(|scope| {
        scope.spawn(|| {
            let (first, rest) = part.split_at(FIRST / connections.len());
            for half in [first, rest] {
                for connection in connections {
                    (&connection.ends[0]).write_all(half).expect("it is sent");
                }
            }
        });
        let mut read = part.clone();
        for connection in connections {
            (&connection.ends[1]).read_exact(&mut read).expect("it comes");
        }
    });
}

/// How long it takes from CN-H on in each round: until this process hears it, and until the first window is capped.
fn rounds(
    switch: &mut Switch,
    number: PortNumber,
    connections: &[Idle],
    prepared: bool,
    rounds: usize,
) -> [Vec<Span>; 2] {
    // Of two segments: receivers delay the acknowledgement of one.
    let cap = Cap { bytes: Bytes::new(1), floor_segments: 2 };
    let high = Caps { high: Some(cap), ..Caps::default() };
    let [mut told, mut written] = [Vec::new(), Vec::new()];
    for _ in 0..2 * rounds {
        if written.len() == rounds {
            break;
        }
        switch.renew(now(), lease(60_000)).expect("a lease");
        let port = switch.port(number).expect("the port");
        port.cap(None, prepared.then_some(high)).expect("prepared caps");
        thread::scope(|scope| {
            scope.spawn(|| burst(connections));
            let Some(at) = next(switch, Severity::High, PATIENCE) else {
                eprintln!("no queue in {PATIENCE}");
                return;
            };
            told.push(now().since(at));
            let port = switch.port(number).expect("the port");
            if !prepared {
                port.cap(None, Some(cap.into())).expect("a cap");
            }
            let since = settled(|| port.capped_since(None).expect("a cap"), Option::is_some);
            written.extend(since.map(|since| since.since(at)));
        });
        // The queue tells that it rises only after it has recovered.
        if next(switch, Severity::Recovered, PATIENCE).is_none() {
            eprintln!("the queue has not recovered in {PATIENCE}");
        }
    }
    [told, written]
}

fn main() -> ExitCode {
    let Some(count) = hosts::argument("control [ROUNDS]", 200) else {
        return ExitCode::from(2);
    };
    let rig = Rig::new(Some("1gbit"));
    rig.acknowledge_each();
    let mut switch = Switch::new().expect("events");
    let number = switch.attach(rig.namespace(0), "eth0", &PortOptions::default()).expect("a port");
    // Half of what the cable carries: hosts keep less in their own queue than a switch gets from many.
    let watch = Watch {
        rate: Rate::from_mbps(500),
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
    let mut failed = false;
    println!("| senders | from CN-H to | rounds | median | p99 |");
    println!("|---|---|---|---|---|");
    for senders in [20, 60, 200] {
        let connections: Vec<Idle> = (0..senders).map(|_| rig.idle()).collect();
        let [_, prepared] = rounds(&mut switch, number, &connections, true, count);
        let [heard, written] = rounds(&mut switch, number, &connections, false, count);
        for (what, mut spans, bound) in [
            ("a prepared window", prepared, Some(PUBLISHED)),
            ("the notice in user space", heard, None),
            ("a window that user space writes then", written, None),
        ] {
            spans.sort();
            let at = |percent: usize| {
                spans.get((spans.len() * percent / 100).min(spans.len().max(1) - 1))
            };
            let show = |span: Option<&Span>| span.map_or("none".to_owned(), ToString::to_string);
            let of = spans.len();
            println!("| {senders} | {what} | {of} | {} | {} |", show(at(50)), show(at(99)));
            if let Some(bound) = bound
                && at(50).is_none_or(|median| *median > bound)
            {
                eprintln!(
                    "{senders} senders: the median of {what} is above {bound}, or there is none"
                );
                failed = true;
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
