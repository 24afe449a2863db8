//! What the programs of a port cost a packet, in the kernel, without a network.
//!
//! `make packets`, as root. The rounds may be given, a million otherwise. Times are of one processor that
//! does nothing else; the ratio to a port that nobody has told anything says more.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

#[path = "../tests/hosts/mod.rs"]
mod hosts;

use std::net::SocketAddr;
use std::process::ExitCode;

use hosts::crafted::{connection, packet, syn};
use hosts::{Rig, lease};
use kernel::{Connection, Port, PortOptions, Switch, Watch, now};
use model::{Buffer, Cap};
use units::{Bytes, Rate, Span};

type Stand = fn(&mut Port);

/// What stands at the port when it is measured, each beside all before it.
const STAGES: [(&str, Stand); 4] = [
    ("nothing", |_| ()),
    ("a watch", |port| {
        let (rate, buffer) = (Rate::from_mbps(100), Buffer::Packets(100));
        port.watch(Some(Watch { rate, buffer, thresholds: None, mark: None })).unwrap();
    }),
    ("a class and a window for it, 2000 for others", |port| {
        let window = Some(Cap { bytes: Bytes::new(1 << 20), floor_segments: 2 }.into());
        for source in 6_000..8_000 {
            let source = SocketAddr::from(([10, 0, 0, 1], source));
            let other = Connection { source, ..connection() };
            port.classify(&other, Some((1, 0x10))).unwrap();
            port.cap(Some(&other), window).unwrap();
        }
        port.classify(&connection(), Some((1, 0x10))).unwrap();
        port.cap(Some(&connection()), window).unwrap();
    }),
    ("a window for all instead of its own", |port| {
        let window = Some(Cap { bytes: Bytes::new(1 << 20), floor_segments: 2 }.into());
        port.cap(Some(&connection()), None).unwrap();
        port.cap(None, window).unwrap();
    }),
];

fn main() -> ExitCode {
    let Some(rounds) = hosts::argument("packets [ROUNDS]", 1_000_000) else {
        return ExitCode::from(2);
    };
    let rig = Rig::new(None);
    let mut switch = Switch::new().unwrap();
    let number = switch.attach(rig.namespace(0), "eth0", &PortOptions::default()).unwrap();
    switch.renew(now(), lease(3_600_000)).unwrap();
    let port = switch.port(number).unwrap();
    // Windows are looked at where both SYNs were seen.
    port.pass_out(&packet(true, false, |header| syn(header, 1460, Some(7)))).unwrap();
    let answer = |header: &mut _| {
        syn(header, 1460, Some(7));
        header.ack = true;
    };
    port.pass_in(&packet(false, false, answer)).unwrap();
    let data = packet(true, false, |header| header.ack = true);
    let acknowledgement = packet(false, false, |header| {
        header.ack = true;
        header.window_size = 500;
    });
    println!("| what stands | leaving | ratio | returning | ratio |");
    println!("|---|---|---|---|---|");
    let mut least: Option<[Span; 2]> = None;
    for (what, stand) in STAGES {
        stand(port);
        let cost = port.cost(&data, &acknowledgement, rounds).unwrap();
        let least = *least.get_or_insert(cost);
        let ratio = |way: usize| cost[way].as_secs_f64() / least[way].as_secs_f64();
        println!("| {what} | {} | {:.2} | {} | {:.2} |", cost[0], ratio(0), cost[1], ratio(1));
    }
    ExitCode::SUCCESS
}
