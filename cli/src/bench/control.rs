//! `watermaster bench control`: announcements to directives through a whole daemon.
//!
//! A daemon of this program runs on one core; this process plays the applications, over its HTTP
//! interface, and the agents. From an announcement before it is sent to the directive for it at an
//! agent's connection, all is measured by one clock.

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
use protocol::application::Declaration;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use units::Bytes;
use wire::client::{Address, Client};
use wire::lines::{self, Lines};

use crate::failure::{Failure, print};
use crate::live::block_on;

/// How long directives may come after the last announcement.
const PATIENCE: Duration = Duration::from_secs(5);

/// Measure a controller's daemon under load
///
/// Applications announce flows over HTTP, each on a connection of its own; a daemon on one core hands
/// directives to agents. Prints the time from an announcement to its directive.
#[derive(Args)]
#[command(
    after_help = "Example:\n  watermaster bench control --applications 500 --rate 10000 --json"
)]
pub(crate) struct Control {
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

    /// Flows that live at once, of an application: each ends after so many newer ones
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    live: u32,

    /// The policy, with its defaults
    #[arg(long, default_value = "sff")]
    policy: String,

    /// The core that the daemon runs on
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
    /// Processor time of the daemon over the time of the run.
    daemon_cores: f64,
    /// Most memory that the daemon held.
    daemon_peak_rss_bytes: u64,
}

/// When each flow was announced, and how long its directive took.
#[derive(Default)]
struct Log {
    announced: HashMap<Connection, Instant>,
    took: Vec<Duration>,
}

type Shared = Arc<Mutex<Log>>;

fn open(log: &Shared) -> std::sync::MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends with the measurement, whatever comes of it.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Control {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let measured = block_on(self.measure())?;
        if self.json {
            let line = serde_json::to_string(&measured).map_err(Failure::failed)?;
            return print(&(line + "\n"));
        }
        print(&format!(
            "{} applications, {:.0} flows announced a second under {}: directive after {:.2} ms \
             (median), {:.2} ms (p99), {:.2} ms (worst)\n{} announced, {} refused, {} directed; \
             the daemon took {:.2} cores and {:.1} MiB\n",
            measured.applications,
            measured.announced_per_s,
            measured.policy,
            measured.p50_ms,
            measured.p99_ms,
            measured.worst_ms,
            measured.announced,
            measured.refused,
            measured.directed,
            measured.daemon_cores,
            measured.daemon_peak_rss_bytes as f64 / f64::from(1 << 20),
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
        let agent = Client::connect(&address, None).await.map_err(Failure::failed)?;
        let stream = agent.exchange("/v1/agents/bench/exchange").await.map_err(Failure::failed)?;
        let (reader, mut writer) = tokio::io::split(stream);
        let hosts = (0..self.hosts())
            .map(|host| Host { name: format!("h{host}"), addresses: vec![of(host).into()] })
            .collect();
        let capabilities = vec!["pace".to_owned(), "statistics".to_owned()];
        let mut hello = Vec::new();
        lines::append(&Report::Hello { hosts, capabilities, epoch: 0 }, &mut hello)
            .map_err(Failure::failed)?;
        writer.write_all(&hello).await.map_err(Failure::failed)?;
        writer.flush().await.map_err(Failure::failed)?;
        let heard = Arc::clone(&log);
        let listens = tokio::spawn(async move {
            let mut lines = Lines::new(tokio::io::BufReader::new(reader), 64 << 20);
            while let Ok(Some(commands)) = lines.next::<Commands>().await {
                let Some(commands) = commands else { continue };
                note(&commands, &heard);
                let applied =
                    Report::Applied { epoch: commands.epoch, sequence: commands.sequence };
                let mut line = Vec::new();
                if lines::append(&applied, &mut line).is_err()
                    || writer.write_all(&line).await.is_err()
                    || writer.flush().await.is_err()
                {
                    return;
                }
            }
        });
        let cpu = cpu_s(daemon.0.id())?;
        let start = Instant::now();
        let mut applications = Vec::new();
        for number in 0..self.applications {
            let client = Client::connect(&address, None).await.map_err(Failure::failed)?;
            let every =
                Duration::from_secs_f64(f64::from(self.applications) / f64::from(self.rate));
            let application = Application {
                number,
                hosts: self.hosts(),
                client,
                every,
                // Spread over the interval, so that they don't come in step.
                first: start
                    + Duration::from_secs(1)
                    + every.mul_f64(f64::from(number) / f64::from(self.applications)),
                until: start + Duration::from_secs(u64::from(self.seconds) + 1),
                live: self.live.into(),
                log: Arc::clone(&log),
            };
            applications.push(tokio::spawn(application.run()));
        }
        let (mut announced, mut refused) = (0, 0);
        for application in applications {
            let (said, no) = application.await.map_err(Failure::failed)??;
            announced += said;
            refused += no;
        }
        let lasted = start.elapsed().as_secs_f64() - 1.0;
        let cores = (cpu_s(daemon.0.id())? - cpu) / lasted;
        let end = Instant::now() + PATIENCE;
        while !open(&log).announced.is_empty() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        listens.abort();
        let mut took = std::mem::take(&mut open(&log).took);
        took.sort();
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let at = |share: usize| took.get(took.len() * share / 1000).copied().map_or(f64::NAN, ms);
        Ok(Measured {
            applications: self.applications,
            policy: self.policy.clone(),
            announced_per_s: announced as f64 / lasted,
            announced,
            refused,
            directed: took.len() as u64,
            p50_ms: at(500),
            p99_ms: at(990),
            worst_ms: took.last().copied().map_or(f64::NAN, ms),
            daemon_cores: cores,
            daemon_peak_rss_bytes: peak_rss_bytes(daemon.0.id())?,
        })
    }

    fn hosts(&self) -> u32 {
        self.applications.clamp(2, 250)
    }

    fn start(&self, folder: &Path) -> Result<(Daemon, Address), Failure> {
        let file = folder.join("controller.toml");
        let mut text = format!(
            "state = \"state\"\nlog = {{ format = \"json\", level = \"info\" }}\n\
             [listen]\nhttp = \"127.0.0.1:0\"\nsocket = \"controller.sock\"\n\
             [policy]\nname = \"{}\"\n[topology]\nkind = \"star\"\nhosts = {}\n\
             access = {{ capacity = \"10 Gbit/s\", delay = \"10 us\" }}\n",
            self.policy,
            self.hosts()
        );
        for host in 0..self.hosts() {
            let address = of(host);
            text += &format!("[[host]]\nname = \"h{host}\"\naddresses = [\"{address}\"]\n");
        }
        std::fs::write(&file, text).map_err(Failure::failed)?;
        let program = std::env::current_exe().map_err(Failure::failed)?;
        let child = Command::new(program)
            .args(["controller", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Failure::failed)?;
        let mut daemon = Daemon(child);
        let mut cores = CpuSet::new();
        cores.set(self.core);
        let id = i32::try_from(daemon.0.id()).ok().and_then(Pid::from_raw);
        sched_setaffinity(id, &cores).map_err(|error| {
            Failure::misused(format_args!(
                "--core {}: {error}; name a core that is there",
                self.core
            ))
        })?;
        let said = daemon.0.stderr.take().ok_or_else(|| Failure::failed("the daemon is mute"))?;
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let mut address = None;
        for line in &mut lines {
            let value: serde_json::Value = serde_json::from_str(&line)
                .map_err(|_| Failure::failed(format_args!("the daemon says: {line}")))?;
            if value["message"] == "HTTP" {
                address = value["address"].as_str().map(|at| Address::Tcp(at.to_owned()));
            }
            if value["message"] == "controller ready" {
                break;
            }
        }
        // It must not wait for somebody to read what it logs.
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.ok_or_else(|| Failure::failed("the daemon did not start"))?;
        Ok((daemon, address))
    }
}

/// The address of a host.
fn of(host: u32) -> Ipv4Addr {
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

struct Application {
    number: u32,
    hosts: u32,
    client: Client,
    every: Duration,
    first: Instant,
    until: Instant,
    live: u64,
    log: Shared,
}

impl Application {
    /// Announces at its times; gives how often it did, and how often it was refused.
    async fn run(mut self) -> Result<(u64, u64), Failure> {
        let path = format!("/v1/applications/a{}/declarations", self.number);
        let job = "j".to_owned();
        let mut bodies = vec![Declaration::JobStart { job: job.clone() }];
        // A small flow that stays: the others are larger, wait for it, and so have a directive.
        bodies.push(self.flow(0, Bytes::new(1)));
        let (mut announced, mut refused) = (0_u64, 0);
        self.post(&path, &bodies).await?;
        let mut next = self.first;
        while next < self.until {
            tokio::time::sleep_until(next.into()).await;
            next += self.every;
            announced += 1;
            let request = self.flow(announced, Bytes::new(1_000_000 + announced));
            bodies.clear();
            if let Declaration::FlowRequest { connection, .. } = &request {
                open(&self.log).announced.insert(*connection, Instant::now());
            }
            bodies.push(request);
            if let Some(old @ 1..) = announced.checked_sub(self.live) {
                bodies.push(Declaration::FlowComplete { job: job.clone(), flow: old });
            }
            if !self.post(&path, &bodies).await? {
                refused += 1;
            }
        }
        Ok((announced, refused))
    }

    async fn post(&mut self, path: &str, bodies: &[Declaration]) -> Result<bool, Failure> {
        let body = serde_json::to_vec(bodies).map_err(Failure::failed)?;
        let asked = self.client.ask(hyper::Method::POST, path, body).await;
        Ok(asked.map_err(Failure::failed)?.0.is_success())
    }

    fn flow(&self, flow: u64, bytes: Bytes) -> Declaration {
        let source = self.number % self.hosts;
        let destination = (self.number + 1) % self.hosts;
        // Ports tell the flows of an application apart from those of others on the same host.
        let port = 1024 + (u64::from(self.number / self.hosts) * 16_000 + flow % 16_000) % 60_000;
        Declaration::FlowRequest {
            job: "j".to_owned(),
            flow,
            connection: Connection {
                source: SocketAddr::new(of(source).into(), u16::try_from(port).unwrap_or(1)),
                destination: SocketAddr::new(of(destination).into(), 80),
            },
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

fn peak_rss_bytes(process: u32) -> Result<u64, Failure> {
    super::peak_of(&format!("/proc/{process}/status"))
}
