//! DCTCP as a BPF program: what it does to a queue, and that it goes with its holder.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

mod hosts;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use hosts::{Rig, Stream, options, statistics};
use kernel::{Dctcp, Pacer, PortOptions, Statistics, Stopped, Switch, Watch};
use model::Buffer;
use testing::needs::root;
use testing::wait::eventually;
use units::Rate;

/// What four connections of `control` did to a port of 93 Mbit/s that marks above 20 packets: their
/// goodput together, how they stand, and packets marked.
fn four(control: &str) -> (Rate, Vec<Statistics>, u64) {
    // The shaper counts 14 octets more of a packet than the virtual queue, which is as fast as it.
    let rig = Rig::new(Some("93868kbit"));
    rig.explicit_congestion();
    rig.speak(control);
    let mut switch = Switch::new().unwrap();
    let number = switch.attach(rig.namespace(0), "eth0", &PortOptions::default()).unwrap();
    let port = switch.port(number).unwrap();
    let (rate, buffer) = (Rate::from_mbps(93), Buffer::Packets(100));
    port.watch(Some(Watch { rate, buffer, thresholds: None, mark: Some(20) })).unwrap();
    let pacer = Pacer::start(&options()).unwrap();
    let streams: Vec<Stream> = (0..4).map(|_| rig.stream()).collect();
    thread::sleep(Duration::from_millis(500));
    let goodput = thread::scope(|scope| {
        let during = Duration::from_secs(2);
        let each: Vec<_> = streams.iter().map(|s| scope.spawn(move || s.goodput(during))).collect();
        each.into_iter().map(|one| one.join().unwrap()).fold(Rate::ZERO, |sum, one| sum + one)
    });
    let found = streams.iter().map(|stream| statistics(&pacer, &stream.connection)).collect();
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
    (goodput, found, port.counters().unwrap().marked)
}

#[test]
fn a_marked_queue_is_short_and_the_link_full() {
    if !root() {
        return;
    }
    let dctcp = Dctcp::ours().unwrap();
    // A machine that is busy now delays what it measures: it has many attempts.
    let mut seen = Vec::new();
    let holds = eventually(|| {
        let (goodput, found, marked) = four(dctcp.name());
        let sent_again: u32 = found.iter().map(|one| one.retransmissions).sum();
        let windows: u32 = found.iter().map(|one| one.window).sum();
        seen.push((goodput, sent_again, windows, marked));
        // 93 Mbit/s of frames are 89.8 of payload. The buffer has 100 packets, and who fills it has as
        // many on the way.
        goodput > Rate::from_mbps(75) && sent_again == 0 && windows < 70 && marked > 0
    });
    assert!(holds, "goodput, sent again, windows, marks: {seen:?}");
}

fn offered(name: &str) -> bool {
    let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    all.split_whitespace().any(|each| each == name)
}

/// The holder that `it_goes_with_its_holder` kills.
#[test]
#[ignore = "started by it_goes_with_its_holder"]
fn hold_until_killed() {
    assert!(env::var_os("WATERMASTER_TEST_HOLD").is_some(), "started by hand");
    let dctcp = Dctcp::ours().unwrap();
    println!("\nholds {}", dctcp.name());
    loop {
        thread::park();
    }
}

#[test]
fn it_goes_with_its_holder() {
    if !root() {
        return;
    }
    let [one, other] = [Dctcp::ours().unwrap(), Dctcp::ours().unwrap()];
    let name = one.name().to_owned();
    assert!(name != other.name() && offered(&name) && offered(other.name()));
    drop(one);
    // A child of another test may still have it, between its fork and its exec.
    let gone = || eventually(|| !offered(&name));
    assert!(gone() && offered(other.name()));

    let mut holder = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "hold_until_killed"])
        .env("WATERMASTER_TEST_HOLD", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines().map_while(Result::ok);
    let name = lines.find_map(|line| line.strip_prefix("holds ").map(str::to_owned)).unwrap();
    assert!(offered(&name));
    let rig = Rig::new(None);
    rig.speak(&name);
    let stream = rig.stream();
    holder.kill().unwrap(); // SIGKILL
    holder.wait().unwrap();
    assert!(eventually(|| !offered(&name)), "{name} outlives its holder");
    // Who speaks it still does.
    stream.exceeds(Rate::from_mbps(10));
    drop(stream);
}
