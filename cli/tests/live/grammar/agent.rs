//! What agents can say.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use model::Severity;
use protocol::agent::{
    Capability, Commands, ConnectionReport, EndedConnection, Host, PortCount, Report,
};
use tokio::io::AsyncWriteExt as _;
use units::{Bytes, Span, Time};
use wire::client::Client;
use wire::lines::{self, Lines};

use super::To;
use super::northbound::{connection, process};
use crate::draw::Draw;

fn amount(draw: &mut Draw) -> Bytes {
    let large = draw.next();
    Bytes::new(draw.of(&[0, 1, 100_000, 10_000_000, u64::MAX, large]))
}

fn hosts(draw: &mut Draw) -> Vec<Host> {
    let host = |draw: &mut Draw| match draw.below(10) {
        0 => Host { name: "h0".into(), addresses: vec![[10, 0, 0, 1].into()] },
        1..=6 => Host { name: "h2".into(), addresses: vec![[10, 0, 0, 3].into()] },
        7 => Host { name: "s0".into(), addresses: vec![] },
        _ => {
            let number = draw.small::<u8>(200);
            let addresses = vec![[10, 0, 1, draw.of(&[number, number, 7])].into()];
            Host { name: format!("n{number}"), addresses }
        }
    };
    (0..1 + draw.below(3)).map(|_| host(draw)).collect()
}

fn report(draw: &mut Draw, heard: Option<&Commands>) -> Report {
    let sampled_ns = Time::from_nanos(draw.next() >> draw.small::<u32>(64));
    let node = draw.of(&["h2", "h2", "s0", "h0", "nobody"]).to_owned();
    let interface = draw.of(&["eth0", "p1", ""]).to_owned();
    let (epoch, sequence) = heard.map_or((1, 1), |heard| (heard.epoch, heard.sequence));
    match draw.below(20) {
        0 => Report::Hello { hosts: hosts(draw), capabilities: Capability::ALL.to_vec(), epoch: 0 },
        1..=6 => {
            let one = |draw: &mut Draw| ConnectionReport {
                connection: connection(draw),
                delivered_bytes: amount(draw),
                unsent_bytes: amount(draw),
                in_flight_bytes: amount(draw),
                rtt_ns: Span::from_nanos(draw.next() >> draw.small::<u32>(64)),
                processes: (0..draw.below(3)).map(|_| process(draw)).collect(),
            };
            let many = if draw.once_in(20) { 1_000 } else { 20 };
            let connections = (0..draw.below(many)).map(|_| one(draw)).collect();
            Report::Connections { sampled_ns, connections }
        }
        7..=8 => {
            let one = |draw: &mut Draw| EndedConnection {
                connection: connection(draw),
                sent_bytes: amount(draw),
                processes: (0..draw.below(3)).map(|_| process(draw)).collect(),
            };
            let connections = (0..draw.below(20)).map(|_| one(draw)).collect();
            Report::Ended { sampled_ns, connections, lost: draw.below(2) }
        }
        9..=10 => Report::Opened { connection: connection(draw) },
        11 => Report::Closed { connection: connection(draw) },
        12 => {
            let severity = draw.of(&Severity::ALL);
            Report::Congested { node, interface, severity, queue_bytes: amount(draw) }
        }
        13 => {
            let sent_bytes = amount(draw);
            Report::Ports { ports: vec![PortCount { node, interface, sent_bytes }] }
        }
        14 => match heard.and_then(|heard| heard.commands.first()) {
            Some(command) => {
                let reason = "the kernel \u{e9} says no".repeat(draw.small::<usize>(20));
                Report::Failed { epoch, sequence, command: command.clone(), reason }
            }
            None => Report::Applied { epoch, sequence },
        },
        15 => Report::Stale { epoch, obeys: draw.of(&[epoch, 5, protocol::agent::MOST_EPOCH]) },
        16 if draw.once_in(10) => Report::Left {},
        17 => Report::Applied { epoch: draw.below(3), sequence: draw.below(100) },
        _ => Report::Applied { epoch, sequence },
    }
}

/// An agent that comes, says something and goes.
pub async fn speak(to: To, number: u32, mut draw: Draw, until: Instant) -> u64 {
    let mut said = 0;
    while Instant::now() < until {
        let Ok(client) = Client::connect(&to.http, None).await else { continue };
        // Sometimes two of a name.
        let name = format!("rogue{}", if draw.once_in(3) { 0 } else { number });
        let Ok(stream) = client.exchange(&format!("/v1/agents/{name}/exchange")).await else {
            continue;
        };
        let (reader, mut writer) = tokio::io::split(stream);
        let heard = Arc::new(Mutex::new(None));
        let hears = tokio::spawn({
            let heard = Arc::clone(&heard);
            async move {
                let mut lines = Lines::new(tokio::io::BufReader::new(reader), 1 << 20);
                while let Ok(Some(commands)) = lines.next::<Commands>().await {
                    *heard.lock().unwrap() = commands;
                }
            }
        });
        let hello = Report::Hello {
            hosts: hosts(&mut draw),
            capabilities: if draw.once_in(3) { vec![] } else { Capability::ALL.to_vec() },
            epoch: draw.of(&[0, 0, 1, 2, protocol::agent::MOST_EPOCH]),
        };
        let mut next = hello;
        for _ in 0..draw.below(300) {
            let mut line = Vec::new();
            lines::append(&next, &mut line).unwrap();
            if Instant::now() >= until || writer.write_all(&line).await.is_err() {
                break;
            }
            // Several at once, or one by one.
            if draw.once_in(4) && writer.flush().await.is_err() {
                break;
            }
            said += 1;
            next = report(&mut draw, heard.lock().unwrap().as_ref());
            tokio::task::yield_now().await;
        }
        hears.abort();
    }
    said
}
