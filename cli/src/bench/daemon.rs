//! `watermaster bench control`: announcements to directives through a whole daemon.
//!
//! A daemon of this program runs on one core; this process plays the applications, over its HTTP
//! interface, and the agents, on the other cores. One clock measures from before an announcement is
//! sent to its directive at an agent's connection.
//!
//! Each application has a job of one small lasting flow, and one whose flows are announced and
//! whose traffic was announced before, as in Phurti. So under policies by size all announced flows
//! wait, and each gets a directive.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use protocol::Connection;
use protocol::agent::{self, Commands, Host, Report};
use protocol::application::{Declaration, Portion};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustls::ClientConfig;
use serde::Serialize;
use tokio::io::{AsyncWriteExt as _, ReadHalf, WriteHalf};
use units::Bytes;
use wire::client::{Address, Client, Exchange};
use wire::lines::{self, Lines};

use crate::cost::peak_of;
use crate::failure::{Failure, print};
use crate::live::block_on;

/// How long directives may come after the last announcement.
const PATIENCE: Duration = Duration::from_secs(5);
/// The job of one flow that stays, and that of the flows that are announced.
const FIRST: &str = "first";
const JOB: &str = "j";
/// Declarations of a request before the measurement.
const SOME: usize = 50;
/// Pause between the last of those and the measurement.
const REST: Duration = Duration::from_millis(500);

/// Measure a controller's daemon under load
///
/// Applications announce flows over HTTP, each on a connection of its own; a daemon on one core hands
/// directives to agents. Prints the time from an announcement to its directive.
#[derive(Args)]
#[command(
    after_help = "Example:\n  watermaster bench control --applications 500 --rate 10000 --json"
)]
pub(crate) struct DaemonBench {
    /// Applications
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    applications: u32,

    /// Flows announced per second, by all together
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,

    /// How long, s
    #[arg(long, value_name = "S", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,

    /// Flows that live at once, of an application, all the time: when one is announced the oldest ends
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    live: u32,

    /// Agents that share the hosts
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=250))]
    agents: u32,

    /// Don't announce traffic of jobs ahead, so that each announced flow changes its job's size
    #[arg(long)]
    no_sizes: bool,

    /// The policy, with its defaults
    #[arg(long, default_value = "sff", hide_possible_values = true,
          value_parser = clap::builder::PossibleValuesParser::new(policy::NAMES))]
    policy: String,

    /// The core that the daemon runs on, alone where there are others
    #[arg(long, value_name = "N", default_value_t = 0)]
    core: usize,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Measured {
    applications: u32,
    policy: String,
    /// Announcements that were made, per second.
    announced_per_s: f64,
    announced: u64,
    refused: u64,
    /// Announcements whose directive came.
    directed: u64,
    p50_ms: f64,
    p99_ms: f64,
    worst_ms: f64,
    /// Lateness of announcements, p99: if far above a timer's millisecond, the load generator is
    /// the bottleneck.
    late_p99_ms: f64,
    /// Processor time of applications and agents over the time of the run.
    peers_cores: f64,
    /// Processor time of the daemon over the time of the run.
    daemon_cores: f64,
    /// Most memory that the daemon held before it knew an application.
    daemon_start_rss_bytes: u64,
    /// Most memory that the daemon held.
    daemon_peak_rss_bytes: u64,
}

/// When each flow was announced, and how long its directive took.
#[derive(Default)]
pub(super) struct Log {
    pub(super) announced: HashMap<Connection, Instant>,
    pub(super) took: Vec<Duration>,
    late: Vec<Duration>,
}

pub(super) type Shared = Arc<Mutex<Log>>;

pub(super) fn open(log: &Shared) -> std::sync::MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The daemon's process, ended on drop.
pub(super) struct Daemon(pub(super) Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl DaemonBench {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let measured = block_on(self.measure())?;
        if self.json {
            let line = serde_json::to_string(&measured).map_err(Failure::failed)?;
            return print(&(line + "\n"));
        }
        print(&format!(
            "{} applications, {:.0} flows announced a second under {}: directive after {:.2} ms \
             (median), {:.2} ms (p99), {:.2} ms (worst)\n{} announced, {} refused, {} directed; \
             {:.2} ms late (p99)\nthe daemon took {:.2} cores and {:.1} MiB, {:.1} MiB of them before \
             it knew applications; its peers took {:.2} cores\n",
            measured.applications,
            measured.announced_per_s,
            measured.policy,
            measured.p50_ms,
            measured.p99_ms,
            measured.worst_ms,
            measured.announced,
            measured.refused,
            measured.directed,
            measured.late_p99_ms,
            measured.daemon_cores,
            mebibytes(measured.daemon_peak_rss_bytes),
            mebibytes(measured.daemon_start_rss_bytes),
            measured.peers_cores,
        ))
    }

    async fn measure(&self) -> Result<Measured, Failure> {
        let folder = std::env::temp_dir().join(format!("watermaster-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(Failure::failed)?;
        let measured = self.measure_in(&folder).await;
        let _ = std::fs::remove_dir_all(&folder);
        measured
    }

    async fn measure_in(&self, folder: &Path) -> Result<Measured, Failure> {
        let (daemon, address) = self.start(folder)?;
        let log = Shared::default();
        let mut listening = tokio::task::JoinSet::new();
        for number in 0..self.agents.min(self.hosts()) {
            let hosts = (number..self.hosts()).step_by(self.agents as usize);
            let agent = agent(&format!("bench{number}"), hosts, &address, None).await?;
            listening.spawn(agent.run(Arc::clone(&log)));
        }
        let every = Duration::from_secs_f64(f64::from(self.applications) / f64::from(self.rate));
        let start_rss_bytes = peak_rss_bytes(daemon.0.id())?;
        let mut ready = Vec::new();
        for number in 0..self.applications {
            let client = Client::connect(&address, None).await.map_err(Failure::failed)?;
            let (hosts, live) = (self.hosts(), self.live.into());
            let log = Arc::clone(&log);
            let sizes = !self.no_sizes;
            let from_due = false;
            let mut application =
                Application { number, hosts, client, every, live, sizes, from_due, log };
            application.prepare().await?;
            ready.push(application);
        }
        tokio::time::sleep(REST).await;
        let peers = std::process::id();
        let cpu = [cpu_s(daemon.0.id())?, cpu_s(peers)?];
        let start = Instant::now();
        let until = start + Duration::from_secs(self.seconds.into());
        // Spread over the interval, so that they aren't synchronized.
        let applications: Vec<_> = (0..)
            .zip(ready)
            .map(|(number, application)| {
                let first = start + every.mul_f64(f64::from(number) / f64::from(self.applications));
                tokio::spawn(application.run(first, until))
            })
            .collect();
        let (mut announced, mut refused) = (0, 0);
        for application in applications {
            let (said, no) = application.await.map_err(Failure::failed)??;
            announced += said;
            refused += no;
        }
        let lasted = start.elapsed().as_secs_f64();
        let daemon_cores = (cpu_s(daemon.0.id())? - cpu[0]) / lasted;
        let peers_cores = (cpu_s(peers)? - cpu[1]) / lasted;
        let end = Instant::now() + PATIENCE;
        while !open(&log).announced.is_empty() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let Log { mut took, mut late, .. } = std::mem::take(&mut *open(&log));
        took.sort();
        late.sort();
        Ok(Measured {
            applications: self.applications,
            policy: self.policy.clone(),
            announced_per_s: announced as f64 / lasted,
            announced,
            refused,
            directed: took.len() as u64,
            p50_ms: at(&took, 500),
            p99_ms: at(&took, 990),
            worst_ms: at(&took, 1000),
            late_p99_ms: at(&late, 990),
            peers_cores,
            daemon_cores,
            daemon_start_rss_bytes: start_rss_bytes,
            daemon_peak_rss_bytes: peak_rss_bytes(daemon.0.id())?,
        })
    }

    fn hosts(&self) -> u32 {
        self.applications.clamp(2, 250)
    }

    fn start(&self, folder: &Path) -> Result<(Daemon, Address), Failure> {
        let mut text = format!(
            "[listen]\nhttp = \"127.0.0.1:0\"\nsocket = \"controller.sock\"\n\
             [policy]\nname = \"{}\"\n{}",
            self.policy,
            star(self.hosts())
        );
        text.insert_str(0, HEAD);
        let (daemon, listening) = start(folder, &text, self.core)?;
        let address = listening.get("HTTP").cloned().map(Address::Tcp);
        let address = address.ok_or_else(|| Failure::failed("the daemon did not start"))?;
        Ok((daemon, address))
    }
}

/// The head of a configuration.
pub(super) const HEAD: &str = "state = \"state\"\nlog = { format = \"json\", level = \"info\" }\n";

/// Hosts around a switch, with their addresses, in a configuration.
pub(super) fn star(hosts: u32) -> String {
    let mut text = format!(
        "[topology]\nkind = \"star\"\nhosts = {hosts}\n\
         access = {{ capacity = \"10 Gbit/s\", delay = \"10 us\" }}\n"
    );
    for host in 0..hosts {
        let address = of(host);
        text += &format!("[[host]]\nname = \"h{host}\"\naddresses = [\"{address}\"]\n");
    }
    text
}

/// Starts a daemon with a configuration in `folder`, on a core that this process leaves to it; where it
/// listens, by what its log calls that.
pub(super) fn start(
    folder: &Path,
    text: &str,
    core: usize,
) -> Result<(Daemon, HashMap<String, String>), Failure> {
    let file = folder.join("controller.toml");
    std::fs::write(&file, text).map_err(Failure::failed)?;
    let program = std::env::current_exe().map_err(Failure::failed)?;
    // Its threads inherit the core, and it starts as many as one core needs.
    let others = take_core(core)?;
    let child = Command::new(program)
        .args(["controller", "--config"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Failure::failed)?;
    let mut daemon = Daemon(child);
    sched_setaffinity(None, &others).map_err(Failure::failed)?;
    let said = daemon.0.stderr.take().ok_or_else(|| Failure::failed("the daemon is mute"))?;
    let mut lines = BufReader::new(said).lines().map_while(Result::ok);
    let mut listening = HashMap::new();
    for line in &mut lines {
        let value: serde_json::Value = serde_json::from_str(&line)
            .map_err(|_| Failure::failed(format_args!("the daemon says: {line}")))?;
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        if let (Some(what), Some(address)) = (text("message"), text("address")) {
            listening.insert(what, address);
        }
        if value["message"] == "controller ready" {
            // It must not block on an unread log.
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((daemon, listening));
        }
    }
    Err(Failure::failed("the daemon did not start"))
}

/// Puts this thread on the daemon's core; gives the others, or that one where it is alone.
fn take_core(core: usize) -> Result<CpuSet, Failure> {
    let mut others = sched_getaffinity(None).map_err(Failure::failed)?;
    let mut own = CpuSet::new();
    if core < CpuSet::MAX_CPU {
        own.set(core);
        others.unset(core);
    }
    sched_setaffinity(None, &own).map_err(|error| {
        Failure::misused(format_args!("--core {core}: {error}; name a core that is there"))
    })?;
    Ok(if others.count() == 0 { own } else { others })
}

/// An agent's connection.
pub(super) struct Agent {
    lines: Lines<tokio::io::BufReader<ReadHalf<Exchange>>>,
    writer: WriteHalf<Exchange>,
}

/// An agent that has said hello for some hosts.
pub(super) async fn agent(
    name: &str,
    hosts: impl Iterator<Item = u32>,
    address: &Address,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<Agent, Failure> {
    let client = Client::connect(address, tls).await.map_err(Failure::failed)?;
    let path = format!("/v1/agents/{name}/exchange");
    let stream = client.exchange(&path).await.map_err(Failure::failed)?;
    let (reader, mut writer) = tokio::io::split(stream);
    let host = |host| Host { name: format!("h{host}"), addresses: vec![of(host).into()] };
    let hosts = hosts.map(host).collect();
    let capabilities = vec![agent::Capability::Pacing, agent::Capability::Statistics];
    say(&Report::Hello { hosts, capabilities, epoch: 0 }, &mut writer)
        .await
        .map_err(Failure::failed)?;
    Ok(Agent { lines: Lines::new(tokio::io::BufReader::new(reader), 64 << 20), writer })
}

impl Agent {
    /// Notes what it is told and confirms it.
    pub(super) async fn run(mut self, log: Shared) {
        while let Ok(Some(commands)) = self.lines.next::<Commands>().await {
            let Some(commands) = commands else { continue };
            note(&commands, &log);
            let Commands { epoch, sequence, .. } = commands;
            if say(&Report::Applied { epoch, sequence }, &mut self.writer).await.is_err() {
                return;
            }
        }
    }
}

pub(super) async fn say(report: &Report, to: &mut WriteHalf<Exchange>) -> std::io::Result<()> {
    let mut line = Vec::new();
    lines::append(report, &mut line)?;
    to.write_all(&line).await?;
    to.flush().await
}

/// A quantile in thousandths, ms.
pub(super) fn at(sorted: &[Duration], thousandths: usize) -> f64 {
    let place = (sorted.len() * thousandths / 1000).min(sorted.len().saturating_sub(1));
    sorted.get(place).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
}

pub(super) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The address of a host.
pub(super) fn of(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + host)
}

/// Notes the directives that came.
fn note(commands: &Commands, log: &Shared) {
    let now = Instant::now();
    let mut log = open(log);
    for command in &commands.commands {
        if let agent::Command::Pace { connection, rate_bps: Some(_) } = command
            && let Some(announced) = log.announced.remove(connection)
        {
            log.took.push(now.duration_since(announced));
        }
    }
}

pub(super) struct Application {
    pub(super) number: u32,
    pub(super) hosts: u32,
    pub(super) client: Client,
    pub(super) every: Duration,
    pub(super) live: u64,
    /// Whether it announces its traffic ahead.
    pub(super) sizes: bool,
    /// Whether a wait counts from when the announcement was due: what waits behind one that waits, waits too.
    pub(super) from_due: bool,
    pub(super) log: Shared,
}

impl Application {
    /// Starts its jobs: one of a flow that stays, one of all others, which have announced more, with as
    /// many flows as live at once.
    pub(super) async fn prepare(&mut self) -> Result<(), Failure> {
        let job = || JOB.to_owned();
        let host = |number: u32| format!("h{}", number % self.hosts);
        let bytes = Bytes::new(u64::from(u32::MAX));
        let first = self.flow(FIRST, 0, Bytes::new(1));
        let prepared = [
            Declaration::JobStart { job: FIRST.to_owned() },
            first,
            Declaration::JobStart { job: job() },
            Declaration::TaskHost { job: job(), task: 0, host: host(self.number) },
            Declaration::TaskHost { job: job(), task: 1, host: host(self.number + 1) },
            Declaration::Size { job: job(), map: 0, reduces: vec![Portion { task: 1, bytes }] },
        ];
        let said = prepared.len() - usize::from(!self.sizes);
        let mut taken = self.post(&prepared[..said]).await?;
        let flows: Vec<_> = (1..=self.live).map(|flow| self.announced(flow)).collect();
        for some in flows.chunks(SOME) {
            taken &= self.post(some).await?;
        }
        if taken { Ok(()) } else { Err(Failure::failed("an application may not begin")) }
    }

    /// Announces at its times; returns the number of announcements and of refusals.
    pub(super) async fn run(
        mut self,
        first: Instant,
        until: Instant,
    ) -> Result<(u64, u64), Failure> {
        let mut bodies = Vec::new();
        let (mut announced, mut refused) = (0_u64, 0);
        let mut next = first;
        while next < until {
            tokio::time::sleep_until(next.into()).await;
            announced += 1;
            let request = self.announced(self.live + announced);
            bodies.clear();
            if let Declaration::FlowRequest { connection, .. } = &request {
                let now = Instant::now();
                let mut log = open(&self.log);
                log.announced.insert(*connection, if self.from_due { next } else { now });
                log.late.push(now.duration_since(next));
            }
            next += self.every;
            bodies.push(request);
            bodies.push(Declaration::FlowComplete {
                job: JOB.to_owned(),
                flow: announced.to_string(),
            });
            if !self.post(&bodies).await? {
                refused += 1;
            }
        }
        Ok((announced, refused))
    }

    async fn post(&mut self, bodies: &[Declaration]) -> Result<bool, Failure> {
        let path = format!("/v1/applications/a{}/declarations", self.number);
        let body = serde_json::to_vec(bodies).map_err(Failure::failed)?;
        let asked = self.client.ask(hyper::Method::POST, &path, body).await;
        Ok(asked.map_err(Failure::failed)?.0.is_success())
    }

    fn announced(&self, flow: u64) -> Declaration {
        self.flow(JOB, flow, Bytes::new(1_000_000 + flow))
    }

    fn flow(&self, job: &str, flow: u64, bytes: Bytes) -> Declaration {
        let source = self.number % self.hosts;
        let destination = (self.number + 1) % self.hosts;
        // Ports tell the flows of an application apart from those of others on the same host.
        let port = 1024 + (u64::from(self.number / self.hosts) * 16_000 + flow % 16_000) % 60_000;
        Declaration::FlowRequest {
            job: job.to_owned(),
            flow: flow.to_string(),
            connection: Connection {
                source: SocketAddr::new(of(source).into(), u16::try_from(port).unwrap_or(1)),
                destination: SocketAddr::new(of(destination).into(), 80),
            },
            processes: protocol::Processes::default(),
            bytes: Some(bytes),
        }
    }
}

/// Processor time that a process has taken, s.
fn cpu_s(process: u32) -> Result<f64, Failure> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).map_err(Failure::failed)?;
    // After the name, which may hold anything: field 3 is the first, user and system time 14 and 15.
    let fields: Vec<&str> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let both = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
    let both = both.ok_or_else(|| Failure::failed("/proc/PID/stat has another form"))?;
    Ok(both as f64 / rustix::param::clock_ticks_per_second() as f64)
}

pub(super) fn peak_rss_bytes(process: u32) -> Result<u64, Failure> {
    peak_of(&format!("/proc/{process}/status"))
}
