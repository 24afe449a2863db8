//! `watermaster bench flood`: what an honest application meets while others flood the controller.
//!
//! A daemon of this program runs on one core, with TLS. An application announces a flow each few
//! milliseconds and has its directive at an agent's connection, as in `bench control`; meanwhile
//! somebody else says, within the protocol, as much as they can.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use hyper::Method;
use openflow::switch::{Output as Answers, Switch};
use openflow::{
    BufferId, Event, Field, Kind, List, Message, PacketIn, PacketInReason, Port, Session, Side,
    TableId,
};
use protocol::Connection;
use protocol::agent::{Capability, Host, Report};
use protocol::application::{Declaration, Portion};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ClientConfig;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use units::{Bytes, Time};
use wire::certs::{self, Order};
use wire::client::{Address, Client, connect};
use wire::identity::{Identity, Role};
use wire::tls;

use super::daemon::{
    Application, Daemon, HEAD, Shared, agent, at, mebibytes, of, open, peak_rss_bytes, say, star,
    start,
};
use crate::failure::{Failure, print};
use crate::live::block_on;

/// Hosts of the network: two of the honest application, two of the flood.
const HOSTS: u32 = 4;
/// Between two announcements of the honest application.
const EVERY: Duration = Duration::from_millis(5);
/// How long directives may come after the last announcement.
const PATIENCE: Duration = Duration::from_secs(5);
/// Flows of the flood's job, and declarations in a request.
const FLOWS: u32 = 26_000;
const BATCH: u32 = 1_000;
/// Connections of the flood's identity: as many as it may have.
const CONNECTIONS: u32 = 64;

/// A flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Flood {
    /// Nobody else speaks
    None,
    /// An agent's hello with 9,990 hosts that nobody declared, again and again
    Names,
    /// An application with 26,000 flows without sizes ends and requests a thousand in each request, on 64
    /// connections
    Requests,
    /// The same, all flows of one connection
    Alike,
    /// An application with 26,000 flows that requests one more in each request, each larger than all before
    Sizes,
    /// An application that starts 10,000 jobs, each with as many tasks and portions as it may
    Jobs,
    /// An application with 26,000 flows that asks about them on 64 connections
    Questions,
    /// The same, which doesn't read the answers
    Unread,
    /// 22,000 connections that say nothing
    Silent,
    /// A switch that forges ARP of 11,000 hosts
    Hosts,
}

/// Measure what an honest application meets beside floods
///
/// For each flood a daemon runs on a core of its own. Prints how long announcements of an application
/// waited for their directives meanwhile, the most memory that the daemon held, and the problems that its
/// status told.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster bench flood requests silent --json")]
pub(crate) struct FloodBench {
    /// Floods [default: each]
    #[arg(value_enum)]
    floods: Vec<Flood>,

    /// How long each, s
    #[arg(long, value_name = "S", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,

    /// The policy, with its defaults
    #[arg(long, default_value = "smsf", hide_possible_values = true,
          value_parser = clap::builder::PossibleValuesParser::new(policy::NAMES))]
    policy: String,

    /// The core that the daemon runs on, alone where there are others
    #[arg(long, value_name = "N", default_value_t = 0)]
    core: usize,

    /// Print a JSON object for each flood, one on a line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Measured {
    flood: String,
    policy: String,
    /// Announcements of the honest application, those refused, and those whose directive came.
    announced: u64,
    refused: u64,
    directed: u64,
    p50_ms: f64,
    p99_ms: f64,
    worst_ms: f64,
    /// What the flood got done: messages that were answered or sent.
    flooded: u64,
    /// The longest that the status took over the Unix socket, and how often it couldn't be had.
    status_worst_ms: f64,
    status_failed: u64,
    /// Most memory that the daemon held.
    peak_rss_bytes: u64,
    /// Problems that the status told at some time.
    problems: Vec<String>,
}

impl FloodBench {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        // Its own ends of 22,000 connections, and the daemon's.
        let files = getrlimit(Resource::Nofile);
        let most = Rlimit { current: files.maximum, maximum: files.maximum };
        setrlimit(Resource::Nofile, most).map_err(Failure::failed)?;
        let all = Flood::value_variants();
        for flood in if self.floods.is_empty() { all } else { &self.floods } {
            self.show(&block_on(self.measure(*flood))?)?;
        }
        Ok(())
    }

    fn show(&self, measured: &Measured) -> Result<(), Failure> {
        if self.json {
            let line = serde_json::to_string(measured).map_err(Failure::failed)?;
            return print(&(line + "\n"));
        }
        let problems = measured.problems.iter().map(|problem| format!("  ! {problem}\n"));
        print(&format!(
            "{:<10} {:>7.2} ms p50 {:>8.2} ms p99 {:>9.2} ms worst; {} announced, {} refused, {} \
             directed; flood: {}; status {:.0} ms at worst, {} failed; {:.0} MiB\n{}",
            measured.flood,
            measured.p50_ms,
            measured.p99_ms,
            measured.worst_ms,
            measured.announced,
            measured.refused,
            measured.directed,
            measured.flooded,
            measured.status_worst_ms,
            measured.status_failed,
            mebibytes(measured.peak_rss_bytes),
            problems.collect::<String>(),
        ))
    }

    async fn measure(&self, flood: Flood) -> Result<Measured, Failure> {
        let folder = std::env::temp_dir().join(format!("watermaster-flood-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(Failure::failed)?;
        let measured = self.measure_in(flood, &folder).await;
        let _ = std::fs::remove_dir_all(&folder);
        measured
    }

    async fn measure_in(&self, flood: Flood, folder: &Path) -> Result<Measured, Failure> {
        let certificates = Certificates::make(folder)?;
        let text = format!(
            "{HEAD}[listen]\nhttp = \"127.0.0.1:0\"\nopenflow_tls = \"127.0.0.1:0\"\n\
             socket = \"controller.sock\"\n\
             [tls]\nca = \"ca.crt\"\ncertificate = \"controller-c.crt\"\nkey = \"controller-c.key\"\n\
             [policy]\nname = \"{}\"\n{}[[switch]]\nname = \"s0\"\ndatapath_id = \"0x1\"\n",
            self.policy,
            star(HOSTS)
        );
        let (daemon, listening) = start(folder, &text, self.core)?;
        let place = |what: &str| {
            let found = listening.get(what).cloned().map(Address::Tls);
            found.ok_or_else(|| Failure::failed("the daemon did not start"))
        };
        let to = To { http: place("HTTP")?, openflow: place("OpenFlow")?, certificates };
        let log = Shared::default();
        let bench = to.certificates.of(Role::Agent, "bench")?;
        let agent = agent("bench", 0..HOSTS, &to.http, Some(&bench)).await?;
        let _listening = Abort(tokio::spawn(agent.run(Arc::clone(&log))));
        let client = to.client(Role::Application, "a0").await?;
        let mut honest = Application {
            number: 0,
            hosts: 2,
            client,
            every: EVERY,
            live: 4,
            sizes: true,
            from_due: true,
            log: Arc::clone(&log),
        };
        honest.prepare().await?;
        // What must be there before the flood begins.
        let flooding = to.prepare(flood).await?;
        let start = Instant::now();
        let until = start + Duration::from_secs(self.seconds.into());
        let socket = Address::Unix(folder.join("controller.sock"));
        let watching = tokio::spawn(watch(socket, until));
        let flooding = tokio::spawn(flooding.run(until));
        let honest = tokio::spawn(honest.run(start, until));
        let (announced, refused) = honest.await.map_err(Failure::failed)??;
        let end = Instant::now() + PATIENCE;
        while !open(&log).announced.is_empty() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let Seen { worst, failed, problems } = watching.await.map_err(Failure::failed)?;
        let flooded = flooding.await.map_err(Failure::failed)?;
        let mut log = std::mem::take(&mut *open(&log));
        // What was never answered waited at least so long.
        log.took.extend(log.announced.values().map(Instant::elapsed));
        let directed = log.took.len() as u64 - log.announced.len() as u64;
        log.took.sort();
        let Daemon(child) = &daemon;
        Ok(Measured {
            flood: flood.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned()),
            policy: self.policy.clone(),
            announced,
            refused,
            directed,
            p50_ms: at(&log.took, 500),
            p99_ms: at(&log.took, 990),
            worst_ms: at(&log.took, 1000),
            flooded,
            status_worst_ms: worst.as_secs_f64() * 1e3,
            status_failed: failed,
            peak_rss_bytes: peak_rss_bytes(child.id())?,
            problems: problems.into_iter().collect(),
        })
    }
}

/// A task that ends with its owner.
struct Abort<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Abort<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What an operator sees.
#[derive(Default)]
struct Seen {
    worst: Duration,
    failed: u64,
    problems: BTreeSet<String>,
}

/// Asks for the status over the Unix socket, each time on a connection of its own, twice a second.
async fn watch(socket: Address, until: Instant) -> Seen {
    let mut seen = Seen::default();
    while Instant::now() < until {
        let began = Instant::now();
        let asked = async { Client::connect(&socket, None).await?.get("/v1/status").await };
        match tokio::time::timeout(Duration::from_secs(60), asked).await {
            Ok(Ok(body)) => {
                let told: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
                let problems = told["problems"].as_array().into_iter().flatten();
                // Numbers go on: one of each is enough.
                let named = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
                let known: BTreeSet<String> = seen.problems.iter().map(|p| named(p)).collect();
                let new = problems.filter_map(|problem| problem.as_str());
                seen.problems.extend(new.filter(|p| !known.contains(&named(p))).map(str::to_owned));
            }
            _ => seen.failed += 1,
        }
        seen.worst = seen.worst.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    seen
}

/// Certificates of all, by file name.
struct Certificates(HashMap<String, Arc<ClientConfig>>);

impl Certificates {
    const ALL: [(Role, &str); 6] = [
        (Role::Controller, "c"),
        (Role::Agent, "bench"),
        (Role::Agent, "flood"),
        (Role::Application, "a0"),
        (Role::Application, "flood"),
        (Role::Switch, "s0"),
    ];

    fn make(folder: &Path) -> Result<Self, Failure> {
        let order = |(role, name): (Role, &str)| Order {
            identity: Identity { role, name: name.to_owned() },
            reached_by: match role {
                Role::Controller => vec!["127.0.0.1".to_owned()],
                _ => Vec::new(),
            },
        };
        certs::make(folder, &Self::ALL.map(order), false).map_err(Failure::failed)?;
        let mut all = HashMap::new();
        for (role, name) in Self::ALL {
            let stem = format!("{}-{name}", role.name());
            let file = |ending: &str| folder.join(format!("{stem}.{ending}"));
            let files = tls::Files {
                ca: folder.join("ca.crt"),
                certificate: file("crt"),
                key: file("key"),
                crl: None,
            };
            let config = tls::client(&files).map_err(Failure::failed)?;
            all.insert(stem, Arc::new(config));
        }
        Ok(Self(all))
    }

    fn of(&self, role: Role, name: &str) -> Result<Arc<ClientConfig>, Failure> {
        let found = self.0.get(&format!("{}-{name}", role.name()));
        found.cloned().ok_or_else(|| Failure::failed("a certificate is missing"))
    }
}

/// Where the controller listens, and who one can be there.
struct To {
    http: Address,
    openflow: Address,
    certificates: Certificates,
}

/// A flood that is ready.
enum Ready {
    None,
    Names(tokio::io::WriteHalf<wire::client::Exchange>),
    Bodies(Vec<Client>, fn(u32, u32) -> Vec<Declaration>),
    Questions(Vec<Client>),
    Unread(Vec<Box<dyn wire::Stream>>),
    Silent(String),
    Hosts(Box<dyn wire::Stream>),
}

impl To {
    async fn client(&self, role: Role, name: &str) -> Result<Client, Failure> {
        let certificate = self.certificates.of(role, name)?;
        Client::connect(&self.http, Some(&certificate)).await.map_err(Failure::failed)
    }

    async fn clients(&self) -> Result<Vec<Client>, Failure> {
        let mut all = Vec::new();
        for _ in 0..CONNECTIONS {
            all.push(self.client(Role::Application, "flood").await?);
        }
        Ok(all)
    }

    /// A job of many flows without sizes.
    async fn job_of_flows(&self, flow: fn(u32) -> Declaration) -> Result<(), Failure> {
        let mut client = self.client(Role::Application, "flood").await?;
        post(&mut client, &[Declaration::JobStart { job: "j".to_owned() }]).await?;
        for batch in 0..FLOWS / BATCH {
            let flows = batch * BATCH..(batch + 1) * BATCH;
            let flows: Vec<_> = flows.map(flow).collect();
            while post(&mut client, &flows).await? == 429 {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        Ok(())
    }

    async fn prepare(&self, flood: Flood) -> Result<Ready, Failure> {
        Ok(match flood {
            Flood::None => Ready::None,
            Flood::Names => {
                let client = self.client(Role::Agent, "flood").await?;
                let stream = client.exchange("/v1/agents/flood/exchange").await;
                Ready::Names(tokio::io::split(stream.map_err(Failure::failed)?).1)
            }
            Flood::Requests => {
                self.job_of_flows(unsized_flow).await?;
                Ready::Bodies(self.clients().await?, |connection, round| {
                    again(connection, round, unsized_flow)
                })
            }
            Flood::Alike => {
                self.job_of_flows(alike).await?;
                Ready::Bodies(self.clients().await?, |connection, round| {
                    again(connection, round, alike)
                })
            }
            Flood::Sizes => {
                self.job_of_flows(unsized_flow).await?;
                Ready::Bodies(self.clients().await?, |connection, round| {
                    let number = FLOWS + connection * 400 + round % 400;
                    let size = u64::from(round) * 64 + u64::from(connection);
                    vec![
                        flow(number, Some(Bytes::new(size))),
                        Declaration::FlowComplete { job: "j".to_owned(), flow: number.to_string() },
                    ]
                })
            }
            Flood::Jobs => Ready::Bodies(self.clients().await?, |connection, round| {
                let portion = |task| Portion { task, bytes: Bytes::new(1 << 30) };
                let number = round / 4 * CONNECTIONS + connection;
                let job = || format!("j{}", number % 10_000);
                let reduces = (0..20_000).map(portion).collect();
                vec![
                    Declaration::JobStart { job: job() },
                    Declaration::Size { job: job(), map: round % 4, reduces },
                ]
            }),
            Flood::Questions => {
                self.job_of_flows(unsized_flow).await?;
                Ready::Questions(self.clients().await?)
            }
            Flood::Unread => {
                self.job_of_flows(unsized_flow).await?;
                let certificate = self.certificates.of(Role::Application, "flood")?;
                let mut all = Vec::new();
                for _ in 0..CONNECTIONS {
                    let stream = connect(&self.http, Some(&certificate)).await;
                    all.push(stream.map_err(Failure::failed)?);
                }
                Ready::Unread(all)
            }
            Flood::Silent => match &self.http {
                Address::Tls(place) => Ready::Silent(place.clone()),
                _ => Ready::None,
            },
            Flood::Hosts => {
                let certificate = self.certificates.of(Role::Switch, "s0")?;
                let stream = connect(&self.openflow, Some(&certificate)).await;
                Ready::Hosts(stream.map_err(Failure::failed)?)
            }
        })
    }
}

impl Ready {
    /// Floods until then; how many messages were taken.
    async fn run(self, until: Instant) -> u64 {
        match self {
            Self::None => 0,
            Self::Names(mut to) => {
                let host = |number: u32| Host {
                    name: format!("n{number}"),
                    addresses: vec![of(0x10_0000 + number).into()],
                };
                let hosts = (0..9_990).map(host).collect();
                let capabilities = Capability::ALL.to_vec();
                let hello = Report::Hello { hosts, capabilities, epoch: 0 };
                let mut said = 0;
                while Instant::now() < until && say(&hello, &mut to).await.is_ok() {
                    said += 1;
                }
                said
            }
            Self::Bodies(clients, bodies) => {
                every(clients, until, move |mut client, connection| async move {
                    let (mut taken, mut round) = (0, 0);
                    while Instant::now() < until {
                        let Ok(status) = post(&mut client, &bodies(connection, round)).await else {
                            break;
                        };
                        taken += u64::from(status == 200);
                        round += 1;
                    }
                    taken
                })
                .await
            }
            Self::Questions(clients) => {
                every(clients, until, move |mut client, connection| async move {
                    let paths = [
                        "/v1/explain/flood/j",
                        "/v1/applications/flood/flows?most=1000000",
                        "/v1/applications/flood/jobs",
                    ];
                    let path = paths[connection as usize % paths.len()];
                    let mut taken = 0;
                    while Instant::now() < until {
                        let Ok((status, _)) = client.ask(Method::GET, path, Vec::new()).await
                        else {
                            break;
                        };
                        taken += u64::from(status.is_success());
                    }
                    taken
                })
                .await
            }
            Self::Unread(mut streams) => {
                let ask =
                    b"GET /v1/applications/flood/flows?most=1000000 HTTP/1.1\r\nhost: c\r\n\r\n";
                let mut asked = 0;
                for stream in &mut streams {
                    if stream.write_all(ask).await.is_ok() && stream.flush().await.is_ok() {
                        asked += 1;
                    }
                }
                tokio::time::sleep_until(until.into()).await;
                asked
            }
            Self::Silent(place) => {
                let mut all = Vec::new();
                while Instant::now() < until && all.len() < 22_000 {
                    match TcpStream::connect(&place).await {
                        Ok(stream) => all.push(stream),
                        Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                    }
                }
                tokio::time::sleep_until(until.into()).await;
                all.len() as u64
            }
            Self::Hosts(stream) => forge(stream, until).await.unwrap_or(0),
        }
    }
}

/// Has each client do something; what that adds up to.
async fn every<F: Future<Output = u64> + Send + 'static>(
    clients: Vec<Client>,
    until: Instant,
    run: impl Fn(Client, u32) -> F,
) -> u64 {
    let tasks: Vec<_> = (0..)
        .zip(clients)
        .map(|(number, client)| {
            let run = run(client, number);
            tokio::spawn(async move {
                let late = until + PATIENCE;
                tokio::time::timeout_at(late.into(), run).await.unwrap_or(0)
            })
        })
        .collect();
    let mut taken = 0;
    for task in tasks {
        taken += task.await.unwrap_or(0);
    }
    taken
}

/// Declares something; the status of the answer.
async fn post(client: &mut Client, bodies: &[Declaration]) -> Result<u16, Failure> {
    let body = serde_json::to_vec(bodies).map_err(Failure::failed)?;
    let asked = client.ask(Method::POST, "/v1/applications/flood/declarations", body).await;
    Ok(asked.map_err(Failure::failed)?.0.as_u16())
}

/// Ends some flows and requests them again.
fn again(connection: u32, round: u32, flow: fn(u32) -> Declaration) -> Vec<Declaration> {
    let first = (connection * 400 + round % 50 * 8) % FLOWS;
    let some = (0..BATCH / 2).map(|n| (first + n) % FLOWS);
    let ended =
        |number: u32| Declaration::FlowComplete { job: "j".to_owned(), flow: number.to_string() };
    some.flat_map(|number| [ended(number), flow(number)]).collect()
}

fn unsized_flow(number: u32) -> Declaration {
    flow(number, None)
}

/// A flow of the same connection as all others.
fn alike(number: u32) -> Declaration {
    let mut all = flow(0, None);
    if let Declaration::FlowRequest { flow, .. } = &mut all {
        *flow = number.to_string();
    }
    all
}

/// A flow of the flood's job.
fn flow(number: u32, bytes: Option<Bytes>) -> Declaration {
    let port = u16::try_from(1024 + number % 60_000).unwrap_or(1);
    Declaration::FlowRequest {
        job: "j".to_owned(),
        flow: number.to_string(),
        connection: Connection {
            source: SocketAddr::new(of(2).into(), port),
            destination: SocketAddr::new(of(3).into(), 80),
        },
        processes: protocol::Processes::default(),
        bytes,
    }
}

/// Plays a switch that sends up ARP of hosts that there are none of.
async fn forge(mut stream: Box<dyn wire::Stream>, until: Instant) -> Result<u64, Failure> {
    let mut switch = Switch::new(1, 2);
    for number in 1..=HOSTS + 1 {
        let port = Port::up(number, [2, 0, 0, 0, 0, u8::try_from(number).unwrap_or(0)]);
        switch.set_port(Time::ZERO, port, &mut Answers::default());
    }
    let mut session = Session::new(openflow::Config::new(Side::Switch), Time::ZERO);
    let (mut forged, mut next) = (0_u32, Instant::now() + Duration::from_secs(1));
    let mut chunk = vec![0; 64 << 10];
    while Instant::now() < until {
        let bytes = session.output().to_vec();
        session.sent(bytes.len());
        stream.write_all(&bytes).await.map_err(Failure::failed)?;
        stream.flush().await.map_err(Failure::failed)?;
        tokio::select! {
            read = stream.read(&mut chunk) => {
                let read = read.map_err(Failure::failed)?;
                if read == 0 { break; }
                let mut rest = &chunk[..read];
                while !rest.is_empty() {
                    let taken = session.receive(Time::ZERO, rest);
                    rest = &rest[taken..];
                    let mut answers = Answers::default();
                    while let Some(event) = session.poll(Time::ZERO) {
                        if let Event::Message { xid, message } = event {
                            switch.handle(Time::ZERO, xid, &message, &mut answers);
                        }
                    }
                    for bytes in answers.messages {
                        let (xid, message) = Message::decode(&bytes).map_err(Failure::failed)?;
                        session.reply(xid, &message).map_err(Failure::failed)?;
                    }
                }
            }
            () = tokio::time::sleep_until(next.into()), if forged < 11_000 => {
                next += Duration::from_millis(10);
                let mut burst = Vec::new();
                for _ in 0..100 {
                    packet(forged, &mut burst)?;
                    forged += 1;
                }
                stream.write_all(&burst).await.map_err(Failure::failed)?;
            }
        }
    }
    Ok(forged.into())
}

/// An ARP request from a host that there is none of, sent up.
fn packet(forged: u32, out: &mut Vec<u8>) -> Result<(), Failure> {
    let [_, b, c, d] = forged.to_be_bytes();
    let mac = [2, 9, 9, b, c, d];
    let mut frame = vec![0xff; 6];
    frame.extend(mac);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(mac);
    frame.extend(of(0x20_0000 + forged).octets());
    frame.resize(60, 0);
    let fields = [Field::exact(Kind::InPort, HOSTS + 1).into()];
    let packet = PacketIn {
        buffer: BufferId::NONE,
        total_len: 60,
        reason: PacketInReason::NO_MATCH,
        table: TableId(1),
        cookie: 0,
        fields: List::of(&fields),
        data: &frame,
    };
    Message::PacketIn(packet).encode(0, out).map_err(Failure::failed)
}
