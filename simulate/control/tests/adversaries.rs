//! No tenant's share grows by any sequence of declarations that its bytes contradict, as far as samples show bytes.
//!
//! The controller's machine, and hosts of which each has an agent that samples, over one link that all share: flows
//! have max-min fair shares of it beneath what they are held to, in steps of a tenth of a second. Of the tenants of a
//! history one is the adversary. The history is played twice, by equal seeds: once it declares what is so, once it lies.
//! What it gains is how much sooner its bytes are there; what honest tenants lose, how much later theirs are.
//!
//! `ADVERSARIES=n` plays so many histories of each kind, and `--nocapture` prints the table.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test may panic, and prints its table
#![allow(clippy::cast_precision_loss)] // of means

use std::collections::BTreeMap;

use control::{ChannelId, Config, Controller, HostConfig, Input, Output};
use engine::random::Stream;
use model::{Buffer, NodeKind, Topology};
use protocol::agent::{Capability, Command, ConnectionReport, EndedConnection, Host, Report};
use protocol::application::Declaration;
use protocol::{Connection, Process, Processes};
use rand::RngExt as _;
use testing::network::link;
use units::{Bytes, Rate, Span, Time};

const MBPS: u64 = 100;
const STEP: Span = Span::from_millis(100);
/// Steps between two samples of an agent.
const SAMPLE: u64 = 10;
/// Agents have sampled for so many steps when tenants come: before they are not believed about what isn't there.
const BEFORE: u64 = 12 * SAMPLE;
/// No history takes longer.
const LONGEST: u64 = 4_000;
const MB: u64 = 1_000_000;

/// How the adversary lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// It declares what is so.
    None,
    /// The same connection is a new tiny job each few steps.
    Rename,
    /// It declares a tenth of each flow, over several connections.
    Split,
    /// New connections all the time, each declared as tiny.
    Rush,
    /// It declares tiny flows whose connection sends nothing, in front of its own.
    HoldBack,
    /// It declares tiny flows that are not there, and large ones that are the others' connections.
    Forge,
    /// It declares all that it sends as a flow of its connection, and tiny ones of the same connection beside it.
    Cover,
    /// It says what is so, over several connections, and sends next to nothing until the others have ended.
    Crawl,
}

const LIES: [Lie; 7] =
    [Lie::Rename, Lie::Split, Lie::Rush, Lie::HoldBack, Lie::Forge, Lie::Cover, Lie::Crawl];

/// What who crawls sends over each connection.
const CRAWL: Rate = Rate::from_bps(80_000);

/// The job of what an adversary declares beside what it sends.
const BESIDE: &str = "beside";

/// What a tenant has to send.
struct Tenant {
    name: String,
    host: usize,
    begins: u64,
    bytes: u64,
    lie: Lie,
    /// Its connections, by port: what they have left to send, and have sent.
    sockets: BTreeMap<u16, (u64, u64)>,
    /// The flow that stands for each, as job and name.
    flows: BTreeMap<u16, (String, String)>,
    next: u16,
    ended: Option<u64>,
}

fn address(host: usize) -> std::net::IpAddr {
    [10, 0, 0, u8::try_from(host + 1).unwrap()].into()
}

fn connection(host: usize, port: u16, sink: usize) -> Connection {
    Connection { source: (address(host), port).into(), destination: (address(sink), 5000).into() }
}

struct Play {
    controller: Controller,
    now: Time,
    tenants: Vec<Tenant>,
    sink: usize,
    /// What stands at the kernels.
    limits: BTreeMap<Connection, Rate>,
    /// Connections that have ended since the last sample.
    ended: Vec<(usize, EndedConnection)>,
    out: Vec<Output>,
}

impl Play {
    fn new(policy: &str, tenants: Vec<Tenant>) -> Self {
        let sink = tenants.len();
        let mut topology = Topology::new();
        let switch = topology.add_node("s".into(), NodeKind::Switch).unwrap();
        let made = policy::by_name(policy, &policy::Parameters::default()).unwrap();
        let mut config = Config::new(policy, made);
        for host in 0..=sink {
            let node = topology.add_node(format!("h{host}"), NodeKind::Host).unwrap();
            let cable = link(MBPS, 10, Buffer::Unlimited);
            topology.connect(node, switch, cable, cable).unwrap();
            config.hosts.push(HostConfig {
                node,
                addresses: vec![address(host)],
                ethernet: vec![],
            });
        }
        config.topology = topology;
        config.tenants = tenants
            .iter()
            .map(|tenant| control::Tenant {
                application: tenant.name.clone(),
                hosts: (0..=sink).map(|host| format!("h{host}")).collect(),
                cgroups: vec![format!("/{}", tenant.name)],
                ..control::Tenant::default()
            })
            .collect();
        let controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let (now, limits) = (Time::ZERO, BTreeMap::new());
        let (ended, out) = (Vec::new(), Vec::new());
        let mut play = Self { controller, now, tenants, sink, limits, ended, out };
        for host in 0..sink {
            let channel = ChannelId(host as u64);
            let identity = format!("a{host}");
            play.input(Input::AgentConnected { channel, identity: &identity });
            let hosts = vec![Host { name: format!("h{host}"), addresses: vec![] }];
            let capabilities = Capability::ALL.to_vec();
            let hello = Report::Hello { hosts, capabilities, epoch: 0 };
            play.input(Input::Reported(channel, &hello));
        }
        play
    }

    /// The controller takes in one thing, and agents do what it says; what it refuses is no matter here.
    fn input(&mut self, input: Input<'_>) -> bool {
        let done = self.controller.step(self.now, input, &mut self.out).is_ok();
        let mut answers = Vec::new();
        for output in self.out.drain(..) {
            let Output::Agent(channel, commands) = output else { continue };
            if commands.complete {
                let host = address(usize::try_from(channel.0).unwrap());
                self.limits.retain(|connection, _| connection.source.ip() != host);
            }
            for command in commands.commands {
                if let Command::Pace { connection, rate_bps } = command {
                    match rate_bps {
                        Some(rate) => self.limits.insert(connection, rate),
                        None => self.limits.remove(&connection),
                    };
                }
            }
            let (epoch, sequence) = (commands.epoch, commands.sequence);
            answers.push((channel, Report::Applied { epoch, sequence }));
        }
        for (channel, answer) in answers {
            self.input(Input::Reported(channel, &answer));
        }
        done
    }

    fn say(&mut self, application: &str, declaration: &Declaration) -> bool {
        self.input(Input::Declared { application, declaration })
    }

    fn start(&mut self, tenant: usize, job: &str) {
        let name = self.tenants[tenant].name.clone();
        self.say(&name, &Declaration::JobStart { job: job.into() });
    }

    fn request(
        &mut self,
        tenant: usize,
        (job, flow): (&str, &str),
        packets: Connection,
        bytes: u64,
    ) {
        let name = self.tenants[tenant].name.clone();
        let request = Declaration::FlowRequest {
            job: job.into(),
            flow: flow.into(),
            connection: packets,
            processes: Processes::default(),
            bytes: Some(Bytes::new(bytes)),
        };
        self.say(&name, &request);
    }

    fn complete(&mut self, tenant: usize, job: &str) {
        let name = self.tenants[tenant].name.clone();
        self.say(&name, &Declaration::JobComplete { job: job.into() });
    }

    /// Opens a connection that has so much to send, and declares it as a job of so much.
    fn open(&mut self, tenant: usize, bytes: u64, declared: u64) -> u16 {
        let known = &mut self.tenants[tenant];
        known.next += 1;
        let (port, host) = (known.next, known.host);
        known.sockets.insert(port, (bytes, 0));
        let job = format!("job{port}");
        known.flows.insert(port, (job.clone(), "1".into()));
        self.start(tenant, &job);
        self.request(tenant, (&job, "1"), connection(host, port, self.sink), declared);
        port
    }

    fn close(&mut self, tenant: usize, port: u16) {
        let known = &mut self.tenants[tenant];
        if let Some((_, sent)) = known.sockets.remove(&port).filter(|(_, sent)| *sent > 0) {
            let connection = connection(known.host, port, self.sink);
            let processes = vec![Process::Cgroup(format!("/{}", known.name))];
            let ended = EndedConnection { connection, sent_bytes: Bytes::new(sent), processes };
            self.ended.push((known.host, ended));
        }
        if let Some((job, _)) = self.tenants[tenant].flows.remove(&port) {
            self.complete(tenant, &job);
        }
    }

    /// A tenant comes, and says what it says at its beginning.
    fn begin(&mut self, tenant: usize, chance: &mut Stream) {
        let (bytes, lie) = (self.tenants[tenant].bytes, self.tenants[tenant].lie);
        match lie {
            Lie::None => drop(self.open(tenant, bytes, bytes)),
            Lie::Rename => drop(self.open(tenant, bytes, chance.random_range(1..100_000))),
            Lie::Split => {
                let ways = chance.random_range(2..6);
                for _ in 0..ways {
                    self.open(tenant, bytes / ways, bytes / ways / 10);
                }
            }
            Lie::Rush => drop(self.open(tenant, bytes, chance.random_range(1..100_000))),
            Lie::Crawl => {
                let ways = chance.random_range(1..4);
                for _ in 0..ways {
                    self.open(tenant, bytes / ways, bytes / ways);
                }
            }
            Lie::HoldBack | Lie::Forge | Lie::Cover => drop(self.open(tenant, bytes, bytes)),
        }
    }

    /// What the adversary says at a step, while it has something to send.
    fn lie(&mut self, tenant: usize, step: u64, chance: &mut Stream) {
        let (lie, host) = (self.tenants[tenant].lie, self.tenants[tenant].host);
        let tiny = chance.random_range(1..100_000);
        let every = 1 + tiny % 20;
        let ports: Vec<u16> = self.tenants[tenant].sockets.keys().copied().collect();
        match lie {
            Lie::Rename if step.is_multiple_of(every) => {
                for port in ports {
                    let fresh = format!("job{port}-{step}");
                    let flow = (fresh.clone(), "1".to_owned());
                    if let Some((job, _)) = self.tenants[tenant].flows.insert(port, flow) {
                        self.complete(tenant, &job);
                    }
                    self.start(tenant, &fresh);
                    let packets = connection(host, port, self.sink);
                    self.request(tenant, (&fresh, "1"), packets, tiny);
                }
            }
            Lie::Rush if step.is_multiple_of(every) => {
                for port in ports {
                    let (left, _) = self.tenants[tenant].sockets[&port];
                    self.close(tenant, port);
                    self.open(tenant, left, tiny);
                }
            }
            Lie::HoldBack if step.is_multiple_of(every + 10) => {
                // The last one goes, the next comes.
                for port in ports.iter().skip(1) {
                    self.close(tenant, *port);
                }
                self.open(tenant, 0, tiny);
            }
            Lie::Forge if step.is_multiple_of(every + 10) => {
                self.complete(tenant, BESIDE);
                self.start(tenant, BESIDE);
                let ghost =
                    connection(host, 40_000 + u16::try_from(step % 20_000).unwrap(), self.sink);
                self.request(tenant, (BESIDE, "ghost"), ghost, tiny);
                for other in (0..self.sink).filter(|other| *other != tenant) {
                    let packets = connection(self.tenants[other].host, 1, self.sink);
                    self.request(tenant, (BESIDE, &format!("of {other}")), packets, 10_000 * MB);
                }
            }
            Lie::Cover if step.is_multiple_of(every) || step == 1 => {
                for port in ports {
                    let (mut port, (left, _)) = (port, self.tenants[tenant].sockets[&port]);
                    match tiny % 4 {
                        // What covers is declared anew,
                        0 => {
                            let fresh = (format!("job{port}-{step}"), "1".to_owned());
                            let before =
                                self.tenants[tenant].flows.insert(port, fresh.clone()).unwrap();
                            self.complete(tenant, &before.0);
                            self.start(tenant, &fresh.0);
                            let packets = connection(host, port, self.sink);
                            self.request(tenant, (&fresh.0, "1"), packets, left);
                        }
                        // or over another connection.
                        1 => {
                            self.close(tenant, port);
                            port = self.open(tenant, left, left);
                        }
                        _ => {}
                    }
                    self.complete(tenant, BESIDE);
                    self.start(tenant, BESIDE);
                    let packets = connection(host, port, self.sink);
                    self.request(tenant, (BESIDE, "1"), packets, tiny);
                }
            }
            _ => {}
        }
    }

    /// What each connection that has something to send gets of the link in a step, octets.
    fn shares(&self) -> Vec<(usize, u16, u64)> {
        let mut all = Vec::new();
        for (number, tenant) in self.tenants.iter().enumerate() {
            let waits_for = |other: &Tenant| other.lie != Lie::Crawl && other.ended.is_none();
            let crawls = tenant.lie == Lie::Crawl && self.tenants.iter().any(waits_for);
            for (port, _) in tenant.sockets.iter().filter(|(_, (left, _))| *left > 0) {
                let limit = self.limits.get(&connection(tenant.host, *port, self.sink));
                let most = limit.map_or(MBPS * MB, |rate| rate.as_bps());
                let most = if crawls { most.min(CRAWL.as_bps()) } else { most };
                all.push((most / 8 / 10, number, *port));
            }
        }
        all.sort_unstable();
        let (mut room, count) = (MBPS * MB / 8 / 10, all.len() as u64);
        let given = (0..).zip(all).map(|(i, (most, number, port))| {
            let share = most.min(room / (count - i));
            room -= share;
            (number, port, share)
        });
        given.collect()
    }

    fn sample(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        for tenant in 0..self.sink {
            let host = self.tenants[tenant].host;
            let own = ended.extract_if(.., |(of, _)| *of == host).map(|(_, ended)| ended).collect();
            let report = Report::Ended { sampled_ns: self.now, connections: own, lost: 0 };
            self.input(Input::Reported(ChannelId(host as u64), &report));
            let known = &self.tenants[tenant];
            let reports = known.sockets.iter().map(|(port, (left, sent))| ConnectionReport {
                connection: connection(known.host, *port, self.sink),
                delivered_bytes: Bytes::new(*sent),
                unsent_bytes: Bytes::new(*left),
                in_flight_bytes: Bytes::ZERO,
                rtt_ns: Span::ZERO,
                processes: vec![Process::Cgroup(format!("/{}", known.name))],
            });
            let report =
                Report::Connections { sampled_ns: self.now, connections: reports.collect() };
            self.input(Input::Reported(ChannelId(known.host as u64), &report));
        }
    }

    /// Plays to the end: how many steps each tenant took.
    fn run(mut self, mut chance: Stream) -> Vec<u64> {
        for step in 0..LONGEST {
            for tenant in 0..self.sink {
                let known = &self.tenants[tenant];
                if step == known.begins {
                    self.begin(tenant, &mut chance);
                } else if step > known.begins && known.ended.is_none() {
                    self.lie(tenant, step - known.begins, &mut chance);
                }
            }
            for (tenant, port, share) in self.shares() {
                let socket = self.tenants[tenant].sockets.get_mut(&port).unwrap();
                let sent = share.min(socket.0);
                *socket = (socket.0 - sent, socket.1 + sent);
            }
            self.now += STEP;
            self.input(Input::Tick);
            for tenant in 0..self.sink {
                let known = &mut self.tenants[tenant];
                let is_done = known.sockets.values().all(|(left, _)| *left == 0);
                if step >= known.begins && is_done && known.ended.is_none() {
                    known.ended = Some(step + 1 - known.begins);
                    for port in known.sockets.keys().copied().collect::<Vec<_>>() {
                        self.close(tenant, port);
                    }
                    self.complete(tenant, BESIDE);
                }
            }
            if step.is_multiple_of(SAMPLE) {
                self.sample();
            }
            if self.tenants.iter().all(|tenant| tenant.ended.is_some()) {
                break;
            }
        }
        self.tenants.iter().map(|tenant| tenant.ended.unwrap_or(LONGEST)).collect()
    }
}

const POLICIES: [&str; 3] = ["smsf", "sff", "srb"];

/// How long each tenant of a history takes under a policy, where its first one lies so.
fn history(seed: u64, policy: &str, lie: Lie) -> Vec<u64> {
    let mut chance = Stream::named(seed, "tenants");
    let count = chance.random_range(2..5);
    let tenants = (0..count).map(|host| Tenant {
        name: format!("tenant{host}"),
        host,
        begins: BEFORE + chance.random_range(0..50),
        bytes: chance.random_range(20..200) * MB,
        lie: if host == 0 { lie } else { Lie::None },
        sockets: BTreeMap::new(),
        flows: BTreeMap::new(),
        next: 0,
        ended: None,
    });
    let tenants = tenants.collect();
    Play::new(policy, tenants).run(Stream::named(seed, "lies"))
}

/// What came of one kind of lie under a policy, in parts of the time that honesty took: means, the adversary's best, and
/// the worst that a single honest tenant had.
#[derive(Default, Debug)]
struct Table {
    gain: f64,
    best: f64,
    loss: f64,
    worst: f64,
}

fn play(policy: &str, lie: Lie, histories: u64) -> Table {
    let mut table = Table::default();
    for seed in 0..histories {
        let (honest, lied) = (history(seed, policy, Lie::None), history(seed, policy, lie));
        let change = |i: usize| lied[i] as f64 / honest[i] as f64 - 1.0;
        let gain = -change(0);
        let loss = (1..honest.len()).map(change).sum::<f64>() / (honest.len() - 1) as f64;
        table.gain += gain / histories as f64;
        table.loss += loss / histories as f64;
        let worst = (1..honest.len()).map(change).fold(f64::MIN, f64::max);
        (table.best, table.worst) = (table.best.max(gain), table.worst.max(worst));
    }
    table
}

/// The mean gain that a kind of lie may have, in hundredths.
const GAIN: f64 = 1.0;

/// The same of covering: a connection goes with that of its flows that is first, until what goes beside it is noted
/// (docs/security.md, *Not defended*).
const COVERED: f64 = 20.0;

/// The mean loss that a kind of lie may cause others, in hundredths: what is said counts until a sample shows otherwise,
/// and jobs take some ten samples.
const LOSS: f64 = 60.0;

/// The same of crawling: each of its connections has its turn for four samples.
const CRAWLED: f64 = 150.0;

#[test]
fn no_lie_gains_or_ruins() {
    let asked = std::env::var("ADVERSARIES").ok();
    let histories = asked.map_or(60, |text| text.parse().expect("a number"));
    let each = (histories / POLICIES.len() as u64).max(1);
    eprintln!(
        "| policy | lie | histories | mean gain | best | honest tenants' mean loss | worst |"
    );
    eprintln!("|---|---|---|---|---|---|---|");
    let mut wrong = Vec::new();
    for (policy, lie) in POLICIES.into_iter().flat_map(|policy| LIES.map(|lie| (policy, lie))) {
        let Table { gain, best, loss, worst } = play(policy, lie, each);
        let [gain, best, loss, worst] = [gain, best, loss, worst].map(|part| 100.0 * part);
        eprintln!(
            "| {policy} | {lie:?} | {each} | {gain:.2} % | {best:.1} % | {loss:.2} % | {worst:.1} % |"
        );
        let most = if lie == Lie::Cover { COVERED } else { GAIN };
        let most_lost = if lie == Lie::Crawl { CRAWLED } else { LOSS };
        if gain > most || loss > most_lost {
            wrong.push((policy, lie, gain, loss));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn equal_seeds_give_equal_histories() {
    for lie in LIES {
        assert_eq!(history(7, "srb", lie), history(7, "srb", lie));
    }
}
