//! Real connections in network namespaces, held to rates.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

mod hosts;

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hosts::{Rig, Said, lease, namespaces, options, payload, statistics, within};
use kernel::{
    Connection, Error, Lease, Pacer, PacerOptions, Sockets, State, Statistics, Stopped, now,
};
use model::LEAST_RATE;
use protocol::Process;
use testing::needs::{root, skipped};
use testing::wait::{eventually, settled};
use units::{Bytes, Rate, Span};

/// Milliseconds; longer than anything here waits: the end of a lease is not what is looked for.
const LONG: u64 = 600_000;
/// What nothing that is held here reaches, and all else does on a busy machine too.
const FAST: Rate = Rate::from_mbps(100);

#[test]
fn a_rate_holds_and_a_new_one_takes_its_place() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let options = options();
    let mut pacer = Pacer::start(&options).unwrap();
    let stream = rig.stream();
    pacer.renew(now(), lease(LONG)).unwrap();
    for rate in [20, 80, 40].map(Rate::from_mbps) {
        pacer.pace(&stream.connection, Some(rate)).unwrap();
        stream.settles(payload(rate), 3);
        let held = statistics(&pacer, &stream.connection).pacing.unwrap();
        assert!(within(held, payload(rate), 1), "{held} for {rate}");
    }
    pacer.pace(&stream.connection, None).unwrap();
    stream.exceeds(FAST);
    assert_eq!(statistics(&pacer, &stream.connection).pacing, None);
    drop(stream);
    assert!(options.pins.join("agent/link").exists());
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
    assert!(!options.pins.exists(), "the mount stays");
}

#[test]
fn a_lower_rate_of_the_application_stands_and_comes_back() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let mut pacer = Pacer::start(&options()).unwrap();
    let stream = rig.stream();
    let own = Rate::from_mbps(20);
    stream.asks_for(own);
    stream.settles(own, 3);
    pacer.renew(now(), lease(LONG)).unwrap();
    let low = payload(Rate::from_mbps(10));
    for (rate, held) in [(10, low), (80, own), (10, low)] {
        pacer.pace(&stream.connection, Some(Rate::from_mbps(rate))).unwrap();
        stream.settles(held, 3);
    }
    pacer.pace(&stream.connection, None).unwrap();
    stream.settles(own, 3);
    assert_eq!(statistics(&pacer, &stream.connection).pacing, None);
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
}

/// Nothing waits for what only the application can end.
#[test]
fn a_lower_rate_of_the_application_keeps_no_program_that_stops() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let options = options();
    let mut pacer = Pacer::start(&options).unwrap();
    let stream = rig.stream();
    pacer.renew(now(), lease(LONG)).unwrap();
    pacer.pace(&stream.connection, Some(Rate::from_mbps(40))).unwrap();
    stream.settles(payload(Rate::from_mbps(40)), 3);
    let own = Rate::from_mbps(10);
    stream.asks_for(own);
    stream.settles(own, 3);
    drop(pacer);
    // Tests beside this one have programs too, which come and go; an agent of this machine's stays.
    // Where there are none before a stop that isn't clean, and none after it, nobody else is to blame.
    let (mut rivals, mut was_alone) = (usize::MAX, false);
    let stops = || {
        let pacer = Pacer::start(&options).unwrap();
        was_alone |= rivals == 0 && pacer.rivals() == 0;
        rivals = settled(|| pacer.rivals(), |rivals| *rivals == 0);
        pacer.stop(&[rig.namespace(0)]).unwrap() == Stopped::Clean
    };
    if !settled(stops, |is_clean| *is_clean) {
        assert!(!was_alone, "nobody else could bring back what stood before");
        assert!(rivals > 0, "nobody is there, and it never stops clean");
        skipped(&format!("{rivals} other agents govern connections of this machine"));
        return;
    }
    assert!(!options.pins.exists());
    stream.settles(own, 3);
}

#[test]
fn connections_that_were_there_before_are_reached_and_let_go() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let stream = rig.stream();
    let mut pacer = Pacer::start(&options()).unwrap();
    let rate = Rate::from_mbps(30);
    pacer.renew(now(), lease(LONG)).unwrap();
    pacer.pace(&stream.connection, Some(rate)).unwrap();
    // Not before it was adopted.
    stream.exceeds(FAST);
    assert_eq!(pacer.adopt(&rig.namespace(0)).unwrap(), 1);
    stream.settles(payload(rate), 3);
    // The same for a change: adopted once, it asks by itself.
    let rate = Rate::from_mbps(60);
    pacer.pace(&stream.connection, Some(rate)).unwrap();
    stream.settles(payload(rate), 3);
    assert_eq!(pacer.stop(&[rig.namespace(0)]).unwrap(), Stopped::Clean);
    stream.exceeds(FAST);
}

#[test]
fn what_cannot_be_reached_is_let_go_by_the_programs_that_stay() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let options = options();
    let mut pacer = Pacer::start(&options).unwrap();
    let stream = rig.stream();
    pacer.renew(now(), lease(LONG)).unwrap();
    pacer.pace(&stream.connection, Some(Rate::from_mbps(20))).unwrap();
    let stopped = pacer.stop(&[]).unwrap();
    if let Stopped::Lingering { held } = stopped {
        assert_eq!(held, 1);
    }
    stream.exceeds(FAST);
    assert_eq!(Pacer::start(&options).unwrap().stop(&[]).unwrap(), Stopped::Clean);
}

#[test]
fn the_end_of_a_lease_lifts_the_limit() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let mut pacer = Pacer::start(&options()).unwrap();
    let stream = rig.stream();
    let rate = Rate::from_mbps(20);
    // A lease that is renewed before its end goes on. On a machine that is too slow for it, again.
    let first = Span::from_secs(1);
    let end = loop {
        let begin = now();
        pacer.renew(begin, Lease { epoch: 1, span: first }).unwrap();
        pacer.pace(&stream.connection, Some(rate)).unwrap();
        pacer.renew(now(), lease(LONG)).unwrap();
        if now() < begin + first {
            break begin + first;
        }
    };
    assert!(eventually(|| now() > end));
    stream.settles(payload(rate), 6);
    assert_eq!(pacer.sweep(now()).unwrap(), 0);
    pacer.renew(now(), lease(100)).unwrap();
    stream.exceeds(FAST);
    // Another lease of the same epoch doesn't bring back what has ended.
    pacer.renew(now(), lease(LONG)).unwrap();
    assert_eq!(pacer.limits().unwrap(), []);
    // One of another epoch leaves what the earlier one held to its own end, where it is swept out.
    pacer.pace(&stream.connection, Some(rate)).unwrap();
    let at = now();
    pacer.renew(at, lease(200)).unwrap();
    pacer.renew(at, Lease { epoch: 2, span: Span::from_millis(LONG) }).unwrap();
    assert_eq!((pacer.sweep(at).unwrap(), pacer.limits().unwrap().len()), (0, 1));
    let end = at + Span::from_millis(200);
    assert_eq!((pacer.sweep(end).unwrap(), pacer.limits().unwrap()), (1, vec![]));
    stream.exceeds(FAST);
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
}

/// To the moment, on however busy a machine: each look is between two readings of the clock.
#[test]
fn a_limit_ends_with_its_lease_neither_sooner_nor_later() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let mut pacer = Pacer::start(&options()).unwrap();
    let idle = rig.idle();
    let span = Span::from_millis(500);
    loop {
        let begin = now();
        pacer.renew(begin, Lease { epoch: 1, span }).unwrap();
        pacer.pace(&idle.connection, Some(FAST)).unwrap();
        let (end, mut held) = (begin + span, 0);
        loop {
            let before = now();
            idle.talk();
            if statistics(&pacer, &idle.connection).pacing.is_none() {
                assert!(now() >= end, "{} too soon", end.since(now()));
                break;
            }
            assert!(before < end, "held {} too late", before.since(end));
            held += 1;
        }
        if held > 10 {
            break;
        }
    }
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
}

/// Where a frame takes longer than that at the least rate: a sender that waited six seconds for its turn would
/// hear as late of the end of its limit.
#[test]
fn a_segment_a_second_is_the_least() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    rig.carry(9_000);
    let mut pacer = Pacer::start(&options()).unwrap();
    let stream = rig.stream();
    pacer.renew(now(), lease(LONG)).unwrap();
    pacer.pace(&stream.connection, Some(LEAST_RATE)).unwrap();
    // 40 octets of headers and 12 of timestamps.
    let least = Some(Rate::of(Bytes::new(9_000 - 52), Span::from_secs(1)));
    let held = settled(|| statistics(&pacer, &stream.connection).pacing, |held| *held == least);
    // Let go first: what a sender this slow has buffered takes minutes.
    pacer.pace(&stream.connection, None).unwrap();
    stream.exceeds(FAST);
    assert_eq!(held, least);
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
}

/// What went out in one burst stands in the way of every later rate, and of the end of the limit.
#[test]
fn a_slow_connection_sends_little_at_once() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    rig.offload();
    rig.namespace(0).shorten_bursts().unwrap();
    let mut pacer = Pacer::start(&options()).unwrap();
    let stream = rig.stream();
    stream.exceeds(FAST);
    pacer.renew(now(), lease(LONG)).unwrap();
    let slow = Rate::from_bps(120_000);
    pacer.pace(&stream.connection, Some(slow)).unwrap();
    let held = |state: &Statistics| state.pacing == Some(payload(slow));
    assert!(held(&settled(|| statistics(&pacer, &stream.connection), held)));
    // The first of these may have been on its way when the rate came. The round trip is a few microseconds: by it
    // some segments are added.
    let bursts = [(); 3].map(|()| {
        let before = stream.received();
        settled(|| stream.received() - before, |more| *more > 0)
    });
    assert!(bursts[1..].iter().all(|octets| (1..=16 * 1448).contains(octets)), "{bursts:?}");
    pacer.pace(&stream.connection, None).unwrap();
    stream.exceeds(FAST);
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
}

#[test]
fn a_limit_that_finds_no_room_says_which_setting_has_more() {
    if !root() {
        return;
    }
    let mut pacer = Pacer::start(&PacerOptions { limits: 1, ..options() }).unwrap();
    assert_eq!(pacer.room(), 1);
    pacer.renew(now(), lease(LONG)).unwrap();
    let connection = |port| Connection {
        source: SocketAddr::new(IpAddr::from([10, 9, 0, 1]), port),
        destination: SocketAddr::new(IpAddr::from([10, 9, 0, 2]), 80),
    };
    pacer.pace(&connection(1), Some(FAST)).unwrap();
    let full = pacer.pace(&connection(2), Some(FAST)).unwrap_err();
    let why = "all 1 limits are taken; raise `limits` in the agent's configuration";
    assert_eq!(full.to_string(), why);
    pacer.pace(&connection(1), None).unwrap();
    pacer.pace(&connection(2), Some(FAST)).unwrap();
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
}

/// Where `send_from_a_group` sends to, and the control group that it joins before.
const SEND: &str = "WATERMASTER_TEST_SEND";

/// What `a_group_is_all_that_is_adopted` starts.
#[test]
#[ignore = "started by a_group_is_all_that_is_adopted"]
fn send_from_a_group() {
    let task = env::var(SEND).expect("started with a task");
    let [group, to] = task.split(' ').collect::<Vec<_>>().try_into().unwrap();
    fs::write(Path::new(group).join("cgroup.procs"), process::id().to_string()).unwrap();
    let namespace = kernel::Namespace::at(env::var("NAMESPACE").unwrap()).unwrap();
    let to: SocketAddr = to.parse().unwrap();
    let mut sender = namespace.visit(|| Ok(TcpStream::connect(to).unwrap())).unwrap();
    while sender.write_all(&[0x5a; 64 << 10]).is_ok() {}
}

/// A process in control groups of its own, one within the other, that sends until it is dropped.
struct Member {
    /// The inner one is where it is.
    groups: [PathBuf; 2],
    process: Child,
    connection: Connection,
    reader: Option<JoinHandle<()>>,
}

impl Member {
    fn new(rig: &Rig) -> Self {
        let name = options().pins;
        let outer = kernel::unified_mount().unwrap().join(name.file_name().unwrap());
        let groups = [outer.clone(), outer.join("inner")];
        fs::create_dir_all(&groups[1]).unwrap();
        let listen = || Ok(TcpListener::bind((rig.addresses[1], 0)).unwrap());
        let listener = rig.namespace(1).visit(listen).unwrap();
        let to = listener.local_addr().unwrap();
        let process = Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "send_from_a_group"])
            .env(SEND, format!("{} {to}", groups[1].display()))
            .env("NAMESPACE", rig.namespace(0).path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (mut receiver, source) = listener.accept().unwrap();
        let reader = thread::spawn(move || _ = io::copy(&mut receiver, &mut io::sink()));
        let connection = Connection { source, destination: to };
        Self { groups, process, connection, reader: Some(reader) }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = self.reader.take().map(JoinHandle::join);
        self.groups.iter().rev().for_each(|group| _ = fs::remove_dir(group));
    }
}

#[test]
fn a_group_is_all_that_is_adopted() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let (inside, outside) = (Member::new(&rig), rig.stream());
    let all = options();
    let [outer, inner] = inside.groups.clone();
    let of = |group| PacerOptions { cgroup: Some(group), ..all.clone() };
    let rate = Rate::from_mbps(20);
    let known = |pacer: &Pacer| {
        let found = pacer.statistics(&namespaces()).unwrap();
        let of = |connection| found.iter().find(|each| each.connection == connection);
        [inside.connection, outside.connection].map(|each| of(each).map(|each| each.pacing))
    };
    // The first one governs the root; those after it find what one before left, and die too.
    let mut held = None;
    for (options, adopted) in [(all.clone(), 2), (of(outer), 1), (all.clone(), 2), (of(inner), 1)] {
        let mut pacer = Pacer::start(&options).unwrap();
        pacer.renew(now(), lease(LONG)).unwrap();
        for connection in [&inside.connection, &outside.connection] {
            pacer.pace(connection, Some(rate)).unwrap();
        }
        assert_eq!(pacer.adopt(&rig.namespace(0)).unwrap(), adopted, "{options:?}");
        let [ours, others] = known(&pacer);
        held = held.or(ours);
        assert!(held.flatten().is_some() && ours == held, "{options:?}: {ours:?}");
        if adopted == 2 {
            assert_eq!(others, held, "{options:?}");
            outside.settles(payload(rate), 3);
        } else {
            assert_eq!(others, None, "{options:?}");
            outside.exceeds(FAST);
        }
        drop(pacer);
    }
    let pacer = Pacer::start(&all).unwrap();
    assert_eq!(pacer.stop(&[rig.namespace(0)]).unwrap(), Stopped::Clean);
}

#[test]
fn who_governs_the_same_connections_is_counted() {
    if !root() {
        return;
    }
    let name = options().pins;
    let root = kernel::unified_mount().unwrap();
    let [one, other] = ["one", "other"]
        .map(|end| root.join(format!("{}-{end}", name.file_name().unwrap().display())));
    let inner = one.join("inner");
    fs::create_dir_all(&inner).unwrap();
    fs::create_dir(&other).unwrap();
    let start = |name: &str, group: &PathBuf| {
        let own = PacerOptions { name: name.into(), cgroup: Some(group.clone()), ..options() };
        Pacer::start(&own).unwrap()
    };
    let first = start("a", &one);
    let counted = loop {
        // Tests beside this one govern all, and come and go.
        let beside = first.rivals();
        let all = [start("b", &one), start("c", &inner), start("d", &other)];
        let counts = all.each_ref().map(Pacer::rivals);
        for pacer in all {
            assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
        }
        if first.rivals() == beside {
            break counts.map(|count| count - beside);
        }
    };
    assert_eq!(first.stop(&[]).unwrap(), Stopped::Clean);
    for group in [&inner, &one, &other] {
        fs::remove_dir(group).unwrap();
    }
    assert_eq!(counted, [1, 2, 0]);
}

/// Two agents that hold one connection, whoever is done first: nobody's limit outlives its lease.
#[test]
fn what_two_have_held_nobody_holds_once_both_are_done() {
    if !root() {
        return;
    }
    for first_is_done_first in [true, false] {
        let rig = Rig::new(None);
        let stream = rig.stream();
        let options = options();
        let start = |name: &str, mbps| {
            let own = PacerOptions { name: name.into(), ..options.clone() };
            let mut pacer = Pacer::start(&own).unwrap();
            pacer.renew(now(), lease(LONG)).unwrap();
            pacer.pace(&stream.connection, Some(Rate::from_mbps(mbps))).unwrap();
            assert_eq!(pacer.adopt(&rig.namespace(0)).unwrap(), 1);
            stream.settles(payload(Rate::from_mbps(mbps)), 3);
            pacer
        };
        let (mut first, mut second) = (start("a", 20), start("b", 5));
        let ends = |pacer: &mut Pacer| {
            let end = now() + Span::from_millis(100);
            pacer.renew(now(), lease(100)).unwrap();
            assert!(eventually(|| now() > end));
        };
        if first_is_done_first {
            ends(&mut first);
            stream.settles(payload(Rate::from_mbps(5)), 3);
            second.pace(&stream.connection, None).unwrap();
        } else {
            second.pace(&stream.connection, None).unwrap();
            stream.settles(payload(Rate::from_mbps(20)), 3);
            ends(&mut first);
        }
        stream.exceeds(FAST);
        for pacer in [first, second] {
            assert_eq!(pacer.stop(&[rig.namespace(0)]).unwrap(), Stopped::Clean);
        }
    }
}

/// A process that was killed a moment ago still has its pins.
#[test]
fn the_next_waits_for_one_that_is_about_to_end() {
    if !root() {
        return;
    }
    let options = options();
    let dying = Pacer::start(&options).unwrap();
    let directory = options.pins.join(&options.name);
    // Whoever wants to lock the directory has opened it.
    let waiting = || {
        let open = fs::read_dir("/proc/self/fd").unwrap();
        let open = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        open.filter(|file| *file == directory).count() == 2
    };
    let next = thread::scope(|scope| {
        let next = scope.spawn(|| Pacer::start(&options));
        assert!(eventually(waiting), "the other doesn't try");
        drop(dying);
        next.join().unwrap()
    });
    assert_eq!(next.unwrap().stop(&[]).unwrap(), Stopped::Clean);
}

const HOLD: &str = "WATERMASTER_TEST_HOLD";
/// What it prints once the kernel has its limit.
const HELD: &str = "the connection is held";

/// The agent that `a_killed_agent_leaves_no_connection_held` kills.
#[test]
#[ignore = "started by a_killed_agent_leaves_no_connection_held"]
fn hold_until_killed() {
    let task = env::var(HOLD).expect("started with a task");
    let [pins, source, destination] = task.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let options = PacerOptions { pins: pins.into(), ..PacerOptions::default() };
    let mut pacer = Pacer::start(&options).unwrap();
    let connection =
        Connection { source: source.parse().unwrap(), destination: destination.parse().unwrap() };
    pacer.adopt(&kernel::Namespace::at(env::var("NAMESPACE").unwrap()).unwrap()).unwrap();
    let mut first = true;
    loop {
        pacer.renew(now(), lease(1000)).unwrap();
        pacer.pace(&connection, Some(Rate::from_mbps(20))).unwrap();
        if std::mem::take(&mut first) {
            println!("{HELD}");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// What `pins_that_would_end_with_the_agent_are_refused` starts in another mount namespace.
#[test]
#[ignore = "started by pins_that_would_end_with_the_agent_are_refused"]
fn start_among_mounts_of_its_own() {
    let pins = env::var(HOLD).expect("started with a place").into();
    let refused = Pacer::start(&PacerOptions { pins, ..PacerOptions::default() });
    assert!(matches!(refused, Err(Error::Setting { setting: "pins", .. })), "{:?}", refused.err());
}

/// What is mounted over files hides them, and the last agent couldn't remove its directory.
#[test]
fn pins_that_would_hide_files_are_refused() {
    if !root() {
        return;
    }
    let options = options();
    fs::create_dir_all(&options.pins).unwrap();
    let file = options.pins.join("note");
    fs::write(&file, "").unwrap();
    let refused = Pacer::start(&options);
    assert!(matches!(refused, Err(Error::Setting { setting: "pins", .. })), "{:?}", refused.err());
    fs::remove_file(&file).unwrap();
    assert_eq!(Pacer::start(&options).unwrap().stop(&[]).unwrap(), Stopped::Clean);
}

/// Mounts of a namespace end with the last process there, as do those of a container with its first.
#[test]
fn pins_that_would_end_with_the_agent_are_refused() {
    if !root() {
        return;
    }
    let place = options().pins;
    let first_of_a_container = ["--pid", "--fork", "--mount-proc"];
    for more in [&[][..], &["--propagation", "slave"], &first_of_a_container] {
        let ended = Command::new("unshare")
            .arg("--mount")
            .args(more)
            .arg(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "start_among_mounts_of_its_own"])
            .env(HOLD, &place)
            .output()
            .unwrap();
        fs::remove_dir(&place).unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{more:?}: {said}");
    }
}

#[test]
fn a_killed_agent_leaves_no_connection_held() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let options = options();
    let stream = rig.stream();
    let (source, destination) = (stream.connection.source, stream.connection.destination);
    let mut agent = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "hold_until_killed"])
        .env(HOLD, format!("{} {source} {destination}", options.pins.display()))
        .env("NAMESPACE", rig.namespace(0).path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A stream that the machine has no time for is slow too.
    let mut said = BufReader::new(agent.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains(HELD)), "it ended before");
    let held = eventually(|| stream.goodput(Duration::from_millis(200)) < Rate::from_mbps(22));
    agent.kill().unwrap(); // SIGKILL
    agent.wait().unwrap();
    assert!(held, "the agent didn't hold the connection");
    // It is the lease that lets go, for which the programs stay.
    assert!(options.pins.join("agent/link").exists());
    stream.exceeds(FAST);
    // The next one finds what the last one left: the limit, and the epoch that is to be obeyed.
    let mut pacer = Pacer::start(&options).unwrap();
    assert_eq!((pacer.leases().epoch(), pacer.limits().unwrap().len()), (1, 1));
    let rate = Rate::from_mbps(50);
    let next = Lease { epoch: 2, span: Span::from_secs(60) };
    pacer.renew(now(), next).unwrap();
    pacer.pace(&stream.connection, Some(rate)).unwrap();
    stream.settles(payload(rate), 3);
    assert!(matches!(pacer.renew(now(), lease(LONG)), Err(Error::Stale { given: 1, standing: 2 })));
    assert_eq!(pacer.stop(&[rig.namespace(0)]).unwrap(), Stopped::Clean);
    assert!(!options.pins.exists());
}

#[test]
fn statistics_say_what_the_ends_see() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let mut pacer = Pacer::start(&options()).unwrap();
    let stream = rig.stream();
    pacer.renew(now(), lease(LONG)).unwrap();
    pacer.pace(&stream.connection, Some(Rate::from_mbps(10))).unwrap();
    let received = || stream.received.load(std::sync::atomic::Ordering::Relaxed);
    let look = || statistics(&pacer, &stream.connection);
    // The writer never waits, once it has had its turn.
    let ours = settled(look, |ours| ours.unsent > Bytes::new(10_000));
    assert!(ours.unsent > Bytes::new(10_000), "{ours:?}");
    // What was acknowledged is read, and what the application has read was acknowledged.
    let delivered = ours.delivered.get();
    assert!(eventually(|| received() >= delivered), "{ours:?}");
    let read = received();
    assert!(eventually(|| look().delivered.get() >= read), "{read} read, {ours:?}");
    assert_eq!(ours.state, State::Established);
    assert_eq!(u64::from(ours.namespace), rig.inode(0));
    // Both ends are this process's, in its control group; another process has neither.
    let groups = kernel::unified_mount().unwrap();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    // In a container nobody may look at the first process.
    let has = |process| Sockets::of(&process, Some(&groups)).is_ok_and(|own| own.have(&ours));
    assert!(has(Process::Pid(process::id())) && has(Process::Cgroup(own.into())), "{ours:?}");
    assert!(!has(Process::Pid(1)) && !has(Process::Cgroup("/no/such/group".into())));
    assert_eq!(ours.segment, Bytes::new(1448));
    assert!(ours.round_trip > Span::ZERO, "{ours:?}");
    assert!(eventually(|| look().in_flight > Bytes::ZERO));
    let back =
        Connection { source: stream.connection.destination, destination: stream.connection.source };
    let theirs = statistics(&pacer, &back);
    assert!(theirs.received >= ours.delivered, "{theirs:?}");
    assert_eq!(theirs.delivered, Bytes::ZERO);
    assert_eq!(u64::from(theirs.namespace), rig.inode(1));
    assert_eq!(pacer.stop(&[rig.namespace(0)]).unwrap(), Stopped::Clean);
}

#[test]
fn statistics_say_what_the_socket_says() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    // Less than a sender keeps, so that some waits when the rest is in flight.
    rig.narrow(16 << 10);
    let pacer = Pacer::start(&options()).unwrap();
    let stream = rig.stream();
    stream.exceeds(Rate::ZERO);
    // No acknowledgement comes: the sender stands still but for segments that it sends again. Where the
    // receiver had no room just then, nothing is in flight: once more.
    let look = || (stream.said(), statistics(&pacer, &stream.connection), stream.said());
    let stands = |(before, ours, after): &(Said, Statistics, Said)| {
        let waits = before.unsent > Bytes::ZERO && before.retransmissions > 0 && ours.timeouts > 0;
        before == after && (waits || before.in_flight == Bytes::ZERO)
    };
    let still = || {
        rig.tc(1, "qdisc add dev eth0 root pfifo limit 0");
        let seen = settled(look, stands);
        rig.tc(1, "qdisc delete dev eth0 root");
        seen
    };
    let seen = settled(still, |(before, ..)| before.in_flight > Bytes::ZERO);
    assert!(stands(&seen) && seen.0.in_flight > Bytes::ZERO, "{seen:?}");
    let (before, ours, _) = seen;
    assert!(before.round_trip > Span::ZERO, "{before:?}");
    assert_eq!(Said::from(&ours), before);
    drop(stream);
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
}

#[test]
fn sockets_of_either_family_are_known_by_what_their_packets_say() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let mut pacer = Pacer::start(&options()).unwrap();
    // As Java opens them: a socket of IPv6 whose packets are of IPv4.
    let mapped = IpAddr::V6(rig.addresses[1].to_ipv6_mapped());
    let six = "fd00::2".parse().unwrap();
    for (address, segment) in [(mapped, 1448), (six, 1428)] {
        let stream = rig.stream_to(address);
        let Connection { source, destination } = stream.connection;
        let [source, destination] =
            [source, destination].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
        let connection = Connection { source, destination };
        let rate = Rate::from_mbps(40);
        pacer.renew(now(), lease(LONG)).unwrap();
        pacer.pace(&connection, Some(rate)).unwrap();
        // Exactly, as the headers of the families differ by less than a goodput can tell.
        let second = Span::from_secs(1);
        let octets = rate.bytes_in(second).get() * segment / 1500;
        let told = Some(Rate::of(Bytes::new(octets), second));
        let held = settled(|| statistics(&pacer, &connection).pacing, |held| *held == told);
        assert_eq!(held, told, "{connection:?}");
        stream.settles(rate.fraction(segment, 1500), 3);
        pacer.pace(&connection, None).unwrap();
        stream.exceeds(FAST);
    }
    assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
}
