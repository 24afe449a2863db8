//! What applications can say.

use std::net::SocketAddr;
use std::time::Instant;

use hyper::Method;
use protocol::application::{Declaration, Portion, StreamReport};
use protocol::{Connection, Process, Processes};
use units::Bytes;
use wire::client::Client;

use super::{PORTS, To};
use crate::draw::Draw;

const HOSTS: [[u8; 4]; 4] = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3], [10, 0, 9, 9]];
const JOBS: [&str; 4] = ["j0", "j1", "a job/with \u{e9}%2f", "j3"];

fn amount(draw: &mut Draw) -> Bytes {
    let large = draw.next();
    Bytes::new(draw.of(&[0, 1, 1_000, 1_000_000, 1_000_000_000_000, u64::MAX, large]))
}

fn host(draw: &mut Draw) -> [u8; 4] {
    let most = if draw.once_in(50) { 4 } else { 3 };
    HOSTS[draw.small::<usize>(most)]
}

/// A port that the tenant was granted, or none, or another.
fn port(draw: &mut Draw) -> u16 {
    match draw.below(20) {
        0 => draw.small(65_536),
        1..=4 => 0,
        _ => draw.of(&PORTS),
    }
}

pub fn connection(draw: &mut Draw) -> Connection {
    let (from, to) = (host(draw), host(draw));
    Connection {
        source: SocketAddr::from((from, port(draw))),
        destination: SocketAddr::from((to, port(draw))),
    }
}

pub fn process(draw: &mut Draw) -> Process {
    match draw.below(4) {
        0 => Process::Pid(draw.small(5)),
        1 => Process::Pod(draw.of(&["default/a", "default/b", "default"]).to_owned()),
        _ => Process::Cgroup(draw.of(&["/", "/a", "/a/b", "/tenant"]).to_owned()),
    }
}

fn task(draw: &mut Draw) -> u32 {
    if draw.once_in(50) { draw.small(1 << 32) } else { draw.small(20) }
}

/// What one declares, mostly of what was declared before.
fn declaration(draw: &mut Draw) -> Declaration {
    let job = draw.of(&JOBS).to_owned();
    let flow = draw.below(60).to_string();
    match draw.below(24) {
        0..=2 => Declaration::JobStart { job },
        3 => Declaration::JobComplete { job },
        4 => Declaration::JobTerms {
            job,
            objective: draw.once_in(2).then(|| draw.of(&["fast", "slow"]).to_owned()),
            deadline_ms: draw.once_in(2).then(|| draw.below(100_000)),
            weight: draw.once_in(2).then(|| draw.small(200)),
        },
        5..=6 => {
            let host =
                draw.of(&["h0", "h1", "h2", "10.0.0.3", "h1.example.org", "nobody"]).to_owned();
            Declaration::TaskHost { job, task: task(draw), host }
        }
        7..=8 => {
            let many = if draw.once_in(20) { 2_000 } else { 5 };
            let portion = |number: u32, draw: &mut Draw| Portion {
                task: if draw.once_in(100) { 0 } else { number },
                bytes: amount(draw),
            };
            let reduces = (0..draw.small(many)).map(|number| portion(number, draw)).collect();
            Declaration::Size { job, map: task(draw), reduces }
        }
        9..=16 => {
            let connection = connection(draw);
            let mut end = || draw.once_in(4).then(|| process(draw));
            let processes = Processes { source: end(), destination: end() };
            let bytes = if draw.once_in(4) { None } else { Some(amount(draw)) };
            Declaration::FlowRequest { job, flow, connection, processes, bytes }
        }
        17..=21 => Declaration::FlowComplete { job, flow },
        _ => {
            let sample = |draw: &mut Draw| StreamReport {
                flow: draw.below(60).to_string(),
                delivered_bytes: amount(draw),
                sender_queue_bytes: amount(draw),
                receiver_queue_bytes: amount(draw),
            };
            let samples = (0..draw.below(5)).map(|_| sample(draw)).collect();
            Declaration::Streams { job, samples }
        }
    }
}

/// Applications that come, say something and go.
pub async fn speak(to: To, mut draw: Draw, until: Instant) -> u64 {
    let mut said = 0;
    while Instant::now() < until {
        let Ok(mut client) = Client::connect(&to.http, None).await else { continue };
        let name = draw.of(&["tenant-a", "tenant-b", "tenant-b", "nobody"]);
        for _ in 0..draw.below(200) {
            if Instant::now() >= until {
                break;
            }
            let (method, path, body) = if draw.once_in(5) {
                let asked = [
                    "explain/tenant-a/j0",
                    "explain/tenant-b/j1/3",
                    "applications/tenant-a/flows?after=1&wait=1",
                    "applications/tenant-b/flows?most=2",
                    "applications/tenant-a/jobs",
                    "status",
                    "flows?most=3",
                    "jobs",
                    "explain/tenant-a/a%20job%2Fwith%20%C3%A9%252f",
                ];
                (Method::GET, format!("/v1/{}", draw.of(&asked)), Vec::new())
            } else {
                let count = if draw.once_in(10) { draw.below(500) } else { draw.below(10) };
                let all: Vec<_> = (0..count).map(|_| declaration(&mut draw)).collect();
                said += count;
                let path = format!("/v1/applications/{name}/declarations");
                (Method::POST, path, serde_json::to_vec(&all).unwrap())
            };
            // Some don't wait for the answer.
            if draw.once_in(40) {
                let soon = std::time::Duration::from_micros(draw.below(500));
                let _ = tokio::time::timeout(soon, client.ask(method, &path, body)).await;
                break;
            }
            let Ok((status, answer)) = client.ask(method, &path, body).await else { break };
            let answer = String::from_utf8_lossy(&answer);
            assert!(status.as_u16() != 500, "{path}: {answer}");
        }
    }
    said
}
