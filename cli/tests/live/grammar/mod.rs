//! Valid messages in hostile order. Peers of one kind say whatever their interface has words for, and come and go;
//! meanwhile an honest application is answered and its agent's leases are renewed, and when they are gone nothing of
//! theirs is left: no application, no flow, no agent, no limit, no memory. What was recorded is decided again alike, in a
//! replay and by each policy in the simulator's driver (`decisions`).
//!
//! They share cores with who floods and are judged by time, so only `make grammar` runs them:
//! `GRAMMAR_SECONDS=600 GRAMMAR_SEED=7`, so long for each interface, and three rounds at least. Each round has another
//! policy; which ones had their turn is said at the end.

mod agent;
mod northbound;
mod switch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::Method;
use protocol::Connection;
use protocol::agent::Command;
use serde_json::{Value, json};
use testing::wait::PATIENCE;
use tokio::task::JoinSet;
use units::Rate;
use wire::client::{Address, Client};

use crate::daemon::{Agent, Daemon, get};
use crate::decisions::{STATIC, hold_file};
use crate::draw::Draw;

const LEASE: Duration = Duration::from_secs(1);
/// How long peers of a kind speak before it is looked what is left of them.
const ROUND: Duration = Duration::from_secs(5);
/// Rounds of one daemon; the recording of these is replayed.
const ROUNDS: u32 = 6;
/// Rounds of a run, however short: the memory of the third is compared.
const LEAST_ROUNDS: u32 = 3;
/// How long an honest application waits for an answer at most. Both share cores with who floods.
const ANSWER: Duration = Duration::from_secs(2);
/// What may be held in addition after rounds that leave nothing: caches and recordings that are full by then.
const MORE_KIB: u64 = 96 << 10;

/// The ports of the honest application, and those of the others.
const HONEST_PORT: u16 = 80;
const PORTS: [u16; 6] = [5000, 5001, 5002, 5003, 5004, 5005];

/// A policy's name, and the parameters that a configuration must give it.
type Configured = (&'static str, &'static str);

/// Those that decide something here: `arbiter` has no objectives.
fn policies() -> Vec<Configured> {
    let live = policy::POLICIES.iter().filter(|policy| policy.is_live() && !policy.is_passive());
    let named = live.map(|policy| policy.name).filter(|name| *name != "arbiter");
    named.map(|name| (name, if name == "static" { STATIC } else { "" })).collect()
}

/// The policies round and round, in an order of the seed. Each surface begins elsewhere in it, so that short runs of all
/// three take different ones.
fn turns(seed: u64, surface: Surface) -> impl Iterator<Item = Configured> {
    let (mut order, mut draw) = (policies(), Draw(seed));
    for place in (1..order.len()).rev() {
        order.swap(place, draw.small::<usize>(place as u64 + 1));
    }
    order.into_iter().cycle().skip(surface as usize * LEAST_ROUNDS as usize)
}

/// Each surface draws something else of the same seed.
fn drawn(seed: u64, surface: Surface) -> Draw {
    let mut draw = Draw(seed);
    for byte in format!("{surface:?}").bytes() {
        draw = Draw(draw.next() ^ u64::from(byte));
    }
    draw
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surface {
    Northbound,
    Agent,
    Switch,
}

/// Where the controller listens.
#[derive(Clone)]
struct To {
    http: Address,
    openflow: Address,
}

fn config((policy, parameters): Configured, enforcement: &str) -> String {
    let names = ["tenant-a", "tenant-b"];
    let tenants = names.map(|name| {
        format!(
            "[[tenant]]\napplication = \"{name}\"\nhosts = [\"h0\", \"h1\", \"h2\"]\nports = [\"5000-5009\"]\n"
        )
    });
    let more = format!(
        "[policy]\nname = \"{policy}\"\n{parameters}[control]\nlease = \"1 s\"\nsample = \"100 ms\"\ngrace = \"1 s\"\n\
         enforcement = \"{enforcement}\"\n[limits]\nflows = 3000\n\
         [recorder]\ndirectory = \"records\"\nsize = \"1 GB\"\n\
         [[tenant]]\napplication = \"honest\"\nhosts = [\"h0\", \"h1\"]\nports = [\"{HONEST_PORT}\"]\n{}",
        tenants.concat()
    );
    crate::daemon::config(&more)
}

/// What the honest agent was told.
#[derive(Default)]
struct Told {
    limits: BTreeMap<Connection, Rate>,
    last: Option<Instant>,
    /// The longest that it heard nothing.
    silence: Duration,
}

/// Does what it is told, until its connection ends.
async fn obey(mut agent: Agent, told: Arc<Mutex<Told>>) {
    while let Some(commands) = agent.hear().await {
        let (mut told, now) = (told.lock().unwrap(), Instant::now());
        let before = told.last.replace(now).unwrap_or(now);
        told.silence = told.silence.max(now - before);
        if commands.complete {
            told.limits.clear();
        }
        for command in commands.commands {
            match command {
                Command::Pace { connection, rate_bps: Some(rate) } => {
                    told.limits.insert(connection, rate);
                }
                Command::Pace { connection, rate_bps: None } => _ = told.limits.remove(&connection),
                _ => {}
            }
        }
    }
}

/// An honest application, its agent and an operator.
struct Honest {
    daemon: Daemon,
    client: Client,
    told: Arc<Mutex<Told>>,
    _agent: tokio::task::JoinHandle<()>,
    flows: u64,
    took: Vec<Duration>,
}

impl Honest {
    async fn begin(daemon: Daemon) -> Self {
        let hosts = [("h0", "10.0.0.1"), ("h1", "10.0.0.2")];
        let agent = Agent::connect(&daemon.address(), None, "honest", &hosts, 0).await;
        let told = Arc::new(Mutex::new(Told::default()));
        let _agent = tokio::spawn(obey(agent, Arc::clone(&told)));
        let client = Client::connect(&Address::Tcp(daemon.http.clone()), None).await.unwrap();
        let mut honest = Self { daemon, client, told, _agent, flows: 0, took: Vec::new() };
        honest.daemon.until("/v1/status", |s| s["agents"][0]["identity"] == "honest").await;
        honest.say(&json!({ "type": "job_start", "job": "j" })).await;
        honest
    }

    async fn say(&mut self, body: &Value) {
        let path = "/v1/applications/honest/declarations";
        let start = Instant::now();
        let asked = self.client.ask(Method::POST, path, body.to_string().into_bytes());
        let asked =
            tokio::time::timeout(ANSWER, asked).await.expect("the honest application waits");
        let (status, said) = asked.expect("the honest application is answered");
        assert!(
            status.is_success(),
            "the honest application is refused: {}",
            String::from_utf8_lossy(&said)
        );
        self.took.push(start.elapsed());
    }

    /// Announces a flow and ends the one before; it is known, and by no other's doing gone.
    async fn announce(&mut self) {
        let number = self.flows;
        let request = |number: u64| {
            json!({ "type": "flow_request", "job": "j", "flow": number.to_string(), "bytes": 1_000_000, "connection":
                { "source": format!("10.0.0.1:{}", 6_000 + number % 1_000), "destination": format!("10.0.0.2:{HONEST_PORT}") } })
        };
        let complete =
            json!({ "type": "flow_complete", "job": "j", "flow": (number.max(1) - 1).to_string() });
        let both = json!([request(number), complete]);
        self.say(if number == 0 { &both[0] } else { &both }).await;
        self.flows += 1;
        let told = get(&mut self.client, &format!("/v1/explain/honest/j/{number}")).await;
        assert_eq!(told["flow"]["flow"], number.to_string(), "{told}");
    }

    /// What is so while others speak.
    fn stands(&mut self) {
        for line in self.daemon.said() {
            assert!(!line.is_string(), "the daemon says {line}");
        }
        let told = self.told.lock().unwrap();
        let since = told.last.map_or(Duration::ZERO, |at| at.elapsed());
        let silence = told.silence.max(since);
        drop(told);
        assert!(
            silence < LEASE,
            "leases of the honest agent lapsed: it heard nothing for {silence:?}"
        );
    }

    /// What is left when they have gone.
    async fn left(&mut self) {
        let only = |all: &Value, key: &str, name: &str| {
            all.as_array().unwrap().iter().all(|one| one[key] == name)
        };
        let status = self.daemon.until("/v1/status", |status| {
            let held = status["former_agents"].as_array().unwrap().iter();
            only(&status["applications"], "name", "honest")
                && only(&status["agents"], "identity", "honest")
                && status["agents"].as_array().unwrap().len() == 1
                && held.clone().all(|agent| agent["may_stand"] == 0)
        });
        let status = status.await;
        let problems = status["problems"].as_array().unwrap().iter();
        let own = ["recorder", "a turn took", "could not be written"];
        let faults =
            problems.filter(|told| own.iter().any(|own| told.as_str().unwrap().contains(own)));
        assert_eq!(faults.collect::<Vec<_>>(), Vec::<&Value>::new());
        let flows = self.daemon.get("/v1/flows").await;
        let flows = flows.get("flows").unwrap_or(&flows).clone();
        // What nobody declared is known for a grace after it was seen.
        let is_own = |flow: &Value| ["honest", ""].iter().any(|name| flow["application"] == *name);
        assert!(flows.as_array().unwrap().iter().all(is_own), "{flows}");
        let told = Arc::clone(&self.told);
        let is_free = move || {
            let told = told.lock().unwrap();
            told.limits.keys().all(|of| of.destination.port() == HONEST_PORT)
        };
        let start = Instant::now();
        while !is_free() {
            assert!(
                start.elapsed() < PATIENCE,
                "limits are left: {:?}",
                self.told.lock().unwrap().limits
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn memory_kib(&self) -> u64 {
        let file = format!("/proc/{}/status", self.daemon.id());
        let text = std::fs::read_to_string(file).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// Has peers speak for a while; how many words they said.
async fn speak(surface: Surface, to: &To, draw: &mut Draw, until: Instant) -> JoinSet<u64> {
    let mut peers = JoinSet::new();
    for number in 0..4 {
        let (to, mine) = (to.clone(), Draw(draw.next()));
        match surface {
            Surface::Northbound => peers.spawn(northbound::speak(to, mine, until)),
            Surface::Agent => peers.spawn(agent::speak(to, number, mine, until)),
            Surface::Switch => peers.spawn(switch::speak(to, mine, until)),
        };
    }
    // What the others speak of.
    if surface != Surface::Northbound {
        peers.spawn(northbound::speak(to.clone(), Draw(draw.next()), until));
    }
    peers
}

async fn fuzz(surface: Surface) {
    let given = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let (seconds, seed) = (given("GRAMMAR_SECONDS", 600), given("GRAMMAR_SEED", 1));
    let (mut draw, mut turns) = (drawn(seed, surface), turns(seed, surface));
    let (end, folder) =
        (Instant::now() + Duration::from_secs(seconds), Arc::new(tempfile::tempdir().unwrap()));
    let (mut words, mut rounds, mut most_kib, mut took) = (0, 0, 0, Vec::new());
    // Which policies had a turn, and how many steps of each were compared.
    let (mut played, mut compared) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    while Instant::now() < end || rounds < LEAST_ROUNDS {
        let enforcement = draw.of(&["pacing", "pacing", "meters"]);
        let mut policy = turns.next().unwrap();
        let daemon = Daemon::start_in(Arc::clone(&folder), &config(policy, enforcement));
        let to = To {
            http: Address::Tcp(daemon.http.clone()),
            openflow: Address::Tcp(daemon.openflow.clone().unwrap()),
        };
        let mut honest = Honest::begin(daemon).await;
        let mut known_kib = 0;
        for round in 0..ROUNDS {
            if Instant::now() >= end && rounds >= LEAST_ROUNDS {
                break;
            }
            if round > 0 {
                policy = turns.next().unwrap();
                let file = honest.daemon.path("controller.toml");
                std::fs::write(file, config(policy, enforcement)).unwrap();
                honest.daemon.signal("-HUP");
            }
            let (name, _) = policy;
            eprintln!("{surface:?}, seed {seed}, round {rounds}: {name}");
            // A configuration that is refused leaves the policy before.
            honest.daemon.until("/v1/status", |status| status["policy"] == name).await;
            played.insert(name);
            let until = Instant::now() + ROUND;
            let mut peers = speak(surface, &to, &mut draw, until).await;
            while Instant::now() < until {
                honest.announce().await;
                honest.stands();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            while let Some(said) = peers.join_next().await {
                words += said.expect("who speaks sees nothing wrong");
            }
            honest.left().await;
            honest.stands();
            rounds += 1;
            let kib = honest.memory_kib();
            most_kib = most_kib.max(kib);
            if round == 1 {
                known_kib = kib;
            }
            assert!(round < 2 || kib < known_kib + MORE_KIB, "{known_kib} KiB have become {kib}");
        }
        took.append(&mut honest.took);
        let mut daemon = honest.daemon;
        daemon.signal("-TERM");
        assert!(daemon.wait().success());
        let records = daemon.path("records");
        for record in std::fs::read_dir(&records).unwrap() {
            let record = record.unwrap().path();
            let replayed = daemon.command(&["replay", record.to_str().unwrap(), "--quiet"]);
            let said = String::from_utf8_lossy(&replayed.stdout);
            assert!(
                replayed.status.success(),
                "seed {seed}: {said}{}",
                String::from_utf8_lossy(&replayed.stderr)
            );
            for (policy, steps) in hold_file(&format!("seed {seed}"), &record) {
                *compared.entry(policy).or_default() += steps;
            }
            std::fs::remove_file(record).unwrap();
        }
    }
    took.sort();
    let at = |part: usize| took[(took.len() * part / 1000).min(took.len() - 1)].as_secs_f64() * 1e3;
    eprintln!(
        "{surface:?}, seed {seed}: {rounds} rounds, {words} words; {} honest announcements, {:.1} ms (p99), {:.1} ms \
         (worst); {} MiB; {} steps of {} of {} policies were compared: {compared:?}",
        took.len(),
        at(990),
        at(1000),
        most_kib >> 10,
        compared.values().sum::<usize>(),
        compared.len(),
        policies().len()
    );
    assert!(words > 0 && !took.is_empty());
    let unheld = played.iter().find(|name| compared.get(**name).is_none_or(|steps| *steps == 0));
    assert_eq!(unheld, None, "what it decided was compared with nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "judged by time: make grammar"]
async fn applications_say_anything() {
    fuzz(Surface::Northbound).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "judged by time: make grammar"]
async fn agents_say_anything() {
    fuzz(Surface::Agent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "judged by time: make grammar"]
async fn switches_say_anything() {
    fuzz(Surface::Switch).await;
}
