//! Goodput of one connection against the rate that it is held to, between two network namespaces.
//!
//! `make pacing`, as root. Seconds for each rate may be given; published figures use 5.
//! What counts is what the kernel of the sender saw acknowledged, over whole seconds after the first.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

#[path = "../tests/hosts/mod.rs"]
mod hosts;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use hosts::{Rig, lease, options, statistics};
use kernel::{Pacer, now};
use units::Rate;

fn main() -> ExitCode {
    let Some(seconds) = hosts::argument("pacing [SECONDS]", 5) else {
        return ExitCode::from(2);
    };
    let mut pacer = Pacer::start(&options()).expect("the pacer starts");
    println!("| set, frames | expected payload | seen payload | ratio | sent again |");
    println!("|---|---|---|---|---|");
    let mut good = true;
    for rate in [1, 10, 100, 1000].map(Rate::from_mbps) {
        let rig = Rig::new(None);
        if rate > Rate::from_mbps(100) {
            rig.offload(); // a packet at a time is more than a small machine can do
        }
        let stream = rig.stream();
        pacer.renew(now(), lease(3_600_000)).expect("a lease");
        pacer.pace(&stream.connection, Some(rate)).expect("the rate stands");
        // What was sent before the limit stood drains first: up to a buffer of it.
        thread::sleep(Duration::from_secs(if rate < Rate::from_mbps(10) { 6 } else { 1 }));
        let (start, before) = (now(), statistics(&pacer, &stream.connection));
        thread::sleep(Duration::from_secs(seconds));
        let (end, after) = (now(), statistics(&pacer, &stream.connection));
        let seen = Rate::of(after.delivered - before.delivered, end.since(start));
        let expected = hosts::payload(rate);
        let again = after.retransmissions - before.retransmissions;
        #[expect(clippy::cast_precision_loss, reason = "for show")]
        let ratio = seen.as_bps() as f64 / expected.as_bps() as f64;
        good &= (0.99..=1.01).contains(&ratio);
        println!("| {rate} | {expected} | {seen} | {ratio:.4} | {again} |");
    }
    let _ = pacer.stop(&[]).expect("the pacer stops");
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
