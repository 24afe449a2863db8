//! Three controllers and three members of etcd in namespaces of their own: the leader is killed, or its machine cut
//! off, while applications announce flows. `make failover` prints the table of docs/high-availability.md; with
//! `FAILOVER_TLS=1` all speak to etcd and to controllers by TLS.
#![allow(clippy::unwrap_used)] // a test may panic

mod process;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::Method;
use protocol::Connection;
use protocol::agent::{self, Commands, Host, Report};
use protocol::application::{Declaration, Leader};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tempfile::TempDir;
use testing::lateness::Lateness;
use testing::wait::{PATIENCE, until};
use tokio::io::AsyncWriteExt as _;
use units::Bytes;
use wire::certs;
use wire::client::{Address, Client};
use wire::controllers::Controllers;
use wire::delivery::{Delivery, Shared};
use wire::identity::{Identity, Role};
use wire::lines::{self, Lines};
use wire::tls::{self, Files};

const HOSTS: u32 = 16;
const AGENTS: u32 = 4;
/// Flows that an application has at once.
const LIVE: u64 = 4;
/// The number of the one that lasts.
const LASTS: u64 = 1_000_000_000;
const JOB: &str = "j";
/// Who asks controllers and gives orders. Controllers show etcd the same certificate: their own are no client's.
const OPERATOR: &str = "me";

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn ip(arguments: &str) -> bool {
    let ran = Command::new("ip").args(arguments.split_whitespace()).stderr(Stdio::null()).status();
    ran.unwrap().success()
}

fn in_namespace(of: usize, program: &str, arguments: &[&str], log: &Path) -> Command {
    let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &namespace(of), program])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    command
}

fn namespace(of: usize) -> String {
    format!("wmfo{}-{of}", std::process::id())
}

fn cable(of: usize) -> String {
    format!("fo{}-{of}", std::process::id() % 1_000_000)
}

fn bridge() -> String {
    format!("fob{}", std::process::id() % 1_000_000)
}

fn address(of: usize) -> String {
    format!("10.213.77.{}", 11 + of)
}

/// Where the certificates of all are, of one authority; `None`: nobody has one, and all speak without TLS.
#[derive(Clone)]
struct Certificates(Option<PathBuf>);

impl Certificates {
    /// Makes them in `folder` if they are asked for, for so many applications.
    fn make(folder: &Path, applications: u32) -> Self {
        if number("FAILOVER_TLS", 0) == 0 {
            return Self(None);
        }
        let folder = folder.join("certs");
        let order = |role, name: String, reached_by: Vec<String>| certs::Order {
            identity: Identity { role, name },
            reached_by,
        };
        let named = |number: u32| format!("a{number}");
        let mut orders = vec![order(Role::Operator, OPERATOR.to_owned(), vec![])];
        orders
            .extend((0..3).map(|at| order(Role::Controller, format!("c{at}"), vec![address(at)])));
        orders.extend((0..AGENTS).map(|number| order(Role::Agent, named(number), vec![])));
        let declare = |number| order(Role::Application, named(number), vec![]);
        orders.extend((0..applications).map(declare));
        certs::make(&folder, &orders, false).unwrap();
        (0..3).for_each(|at| sign_member(&folder, at));
        Self(Some(folder))
    }

    const fn scheme(&self) -> &'static str {
        if self.0.is_some() { "https" } else { "http" }
    }

    fn controller(&self, at: usize) -> Address {
        format!("{}://{}:7443", self.scheme(), address(at)).parse().unwrap()
    }

    fn controllers(&self) -> Controllers {
        Controllers::new((0..3).map(|at| self.controller(at)).collect()).unwrap()
    }

    /// What one shows whom it connects to.
    fn shown_by(&self, role: Role, name: &str) -> Option<Arc<ClientConfig>> {
        let folder = self.0.as_ref()?;
        let file = |extension: &str| folder.join(format!("{role}-{name}.{extension}"));
        let (ca, certificate, key) = (folder.join("ca.crt"), file("crt"), file("key"));
        Some(Arc::new(tls::client(&Files { ca, certificate, key, crl: None }).unwrap()))
    }
}

/// The certificate of a member of etcd is for a client too, as none of [`certs::make`] is: its gateway connects to it.
fn sign_member(folder: &Path, at: usize) {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let authority = KeyPair::from_pem(&read("ca.key")).unwrap();
    let authority = Issuer::from_ca_cert_pem(&read("ca.crt"), authority).unwrap();
    let mut member = CertificateParams::new(vec![address(at)]).unwrap();
    member.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let made = member.signed_by(&key, &authority).unwrap();
    std::fs::write(folder.join(format!("etcd{at}.crt")), made.pem()).unwrap();
    std::fs::write(folder.join(format!("etcd{at}.key")), key.serialize_pem()).unwrap();
}

/// The machines: each has a member of etcd and a controller.
struct Cluster {
    folder: TempDir,
    certificates: Certificates,
    members: Vec<Child>,
    controllers: Vec<Option<Child>>,
}

impl Cluster {
    /// For so many applications.
    fn up(applications: u32) -> Option<Self> {
        if !testing::needs::root() {
            return None;
        }
        if Command::new("etcd").arg("--version").output().is_err() {
            testing::needs::skipped("there is no etcd; install etcd-server");
            return None;
        }
        let bridge = bridge();
        assert!(ip(&format!("link add {bridge} type bridge")));
        assert!(ip(&format!("address add 10.213.77.1/24 dev {bridge}")));
        assert!(ip(&format!("link set {bridge} up")));
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates::make(folder.path(), applications);
        let mut cluster = Self { folder, certificates, members: vec![], controllers: vec![] };
        for at in 0..3 {
            let (namespace, cable) = (namespace(at), cable(at));
            assert!(ip(&format!("netns add {namespace}")));
            assert!(ip(&format!("link add {cable} type veth peer name eth0 netns {namespace}")));
            assert!(ip(&format!("link set {cable} master {bridge} up")));
            assert!(ip(&format!("-n {namespace} address add {}/24 dev eth0", address(at))));
            assert!(ip(&format!("-n {namespace} link set eth0 up")));
            assert!(ip(&format!("-n {namespace} link set lo up")));
        }
        let all: Vec<String> =
            (0..3).map(|at| format!("m{at}=http://{}:2380", address(at))).collect();
        for at in 0..3 {
            let scheme = cluster.certificates.scheme();
            let client = format!("{scheme}://{}:2379", address(at));
            let peer = format!("http://{}:2380", address(at));
            let data = cluster.folder.path().join(format!("etcd{at}"));
            let plain = [
                "--name",
                &format!("m{at}"),
                "--data-dir",
                data.to_str().unwrap(),
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
                "--initial-cluster",
                &all.join(","),
                "--initial-cluster-state",
                "new",
            ];
            let mut arguments = plain.to_vec();
            let files = cluster.certificates.0.as_ref().map(|folder| {
                ["ca.crt".to_owned(), format!("etcd{at}.crt"), format!("etcd{at}.key")]
                    .map(|name| folder.join(name).display().to_string())
            });
            if let Some([ca, certificate, key]) = &files {
                arguments.extend(["--client-cert-auth", "--trusted-ca-file", ca.as_str()]);
                arguments.extend(["--cert-file", certificate.as_str(), "--key-file", key.as_str()]);
            }
            let log = cluster.folder.path().join(format!("etcd{at}.log"));
            cluster.members.push(in_namespace(at, "etcd", &arguments, &log).spawn().unwrap());
        }
        for at in 0..3 {
            cluster.controllers.push(None);
            cluster.launch(at);
        }
        Some(cluster)
    }

    fn launch(&mut self, at: usize) {
        let folder = self.folder.path().join(format!("c{at}"));
        std::fs::create_dir_all(&folder).unwrap();
        let scheme = self.certificates.scheme();
        // Its own member first.
        let etcd: Vec<String> =
            (at..at + 3).map(|at| format!("\"{scheme}://{}:2379\"", address(at % 3))).collect();
        let table = |name: &str, certificates: &Path, own: &str| {
            let folder = certificates.display();
            format!(
                "[{name}]\nca = \"{folder}/ca.crt\"\ncertificate = \"{folder}/{own}.crt\"\n\
                 key = \"{folder}/{own}.key\"\n"
            )
        };
        let (insecure, tables) = match &self.certificates.0 {
            None => ("insecure = true\n", String::new()),
            Some(folder) => {
                let own = table("tls", folder, &format!("controller-c{at}"));
                let of_etcd = table("election.tls", folder, &format!("operator-{OPERATOR}"));
                ("", own + &of_etcd)
            }
        };
        let mut text = format!(
            "state = \"state\"\n{insecure}log = {{ format = \"json\" }}\n\
             [listen]\nhttp = \"{own}:7443\"\nsocket = \"controller.sock\"\n\
             [election]\nname = \"c{at}\"\naddress = \"{scheme}://{own}:7443\"\netcd = [{etcd}]\n\
             {tables}[policy]\nname = \"sff\"\n[topology]\nkind = \"star\"\nhosts = {HOSTS}\n\
             access = {{ capacity = \"10 Gbit/s\", delay = \"10 us\" }}\n",
            own = address(at),
            etcd = etcd.join(", "),
        );
        for host in 0..HOSTS {
            text += &format!("[[host]]\nname = \"h{host}\"\naddresses = [\"{}\"]\n", of(host));
        }
        let file = folder.join("controller.toml");
        std::fs::write(&file, text).unwrap();
        // This program again, as a daemon.
        let program = std::env::current_exe().unwrap();
        let log = self.folder.path().join(format!("c{at}.log"));
        let program = program.to_str().unwrap();
        let mut command = in_namespace(at, program, &process::ARGUMENTS, &log);
        self.controllers[at] = Some(command.env(process::CONFIG, &file).spawn().unwrap());
    }

    fn kill(&mut self, at: usize) {
        let mut child = self.controllers[at].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (at, child) in self.controllers.iter_mut().enumerate() {
                let ended = child.as_mut().map(|child| child.try_wait());
                let said = self.folder.path().join(format!("c{at}.log"));
                let said = std::fs::read_to_string(said).unwrap_or_default();
                let _ = writeln!(std::io::stderr(), "c{at}, {ended:?}:\n{said}");
            }
        }
        for child in self.controllers.iter_mut().flatten().chain(&mut self.members) {
            let _ = child.kill();
            let _ = child.wait();
        }
        for at in 0..3 {
            ip(&format!("link delete {}", cable(at)));
            ip(&format!("netns delete {}", namespace(at)));
        }
        ip(&format!("link delete {}", bridge()));
    }
}

fn of(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + host)
}

/// What agents heard and hold.
#[derive(Default)]
struct Heard {
    /// The first directive of each epoch.
    first: HashMap<u64, Instant>,
    highest: u64,
    /// Directives of an epoch after one of a higher was heard.
    mixed: u64,
    directives: u64,
    /// Limits, of what epoch they are and until when they hold.
    held: HashMap<Connection, (u64, Instant)>,
    /// Connections of flows that are open.
    open: HashSet<Connection>,
    /// Those of these whose limit ran out.
    lapsed: HashSet<Connection>,
}

impl Heard {
    fn obey(&mut self, commands: &Commands, hosts: &BTreeSet<Ipv4Addr>) {
        let now = Instant::now();
        let lease = Duration::from_nanos(commands.lease_ns.as_nanos());
        let is_own = |connection: &Connection| match connection.source.ip() {
            std::net::IpAddr::V4(source) => hosts.contains(&source),
            std::net::IpAddr::V6(_) => false,
        };
        self.expire(now);
        for (_, (epoch, until)) in self.held.iter_mut().filter(|(c, _)| is_own(c)) {
            if *epoch == commands.epoch {
                *until = now + lease;
            }
        }
        if commands.complete {
            let stays = |c: &Connection, epoch: u64| !is_own(c) || epoch != commands.epoch;
            self.held.retain(|connection, (epoch, _)| stays(connection, *epoch));
        }
        for command in &commands.commands {
            let agent::Command::Pace { connection, rate_bps } = command else { continue };
            self.directives += 1;
            self.mixed += u64::from(commands.epoch < self.highest);
            if commands.epoch > self.highest {
                self.highest = commands.epoch;
                self.first.insert(commands.epoch, now);
            }
            match rate_bps {
                Some(_) => drop(self.held.insert(*connection, (commands.epoch, now + lease))),
                None => drop(self.held.remove(connection)),
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        let over = self.held.extract_if(|_, (_, until)| *until <= now);
        let open = over.map(|(connection, _)| connection).filter(|over| self.open.contains(over));
        self.lapsed.extend(open);
    }
}

/// An agent that obeys, and follows whoever leads.
async fn agent(number: u32, certificates: Certificates, heard: Arc<Mutex<Heard>>) {
    let hosts: Vec<u32> = (number..HOSTS).step_by(AGENTS as usize).collect();
    let addresses: BTreeSet<Ipv4Addr> = hosts.iter().map(|host| of(*host)).collect();
    let mut controllers = certificates.controllers();
    let tls = certificates.shown_by(Role::Agent, &format!("a{number}"));
    let mut epoch = 0;
    loop {
        let Ok(client) = controllers.connect(tls.as_ref(), PATIENCE).await else { continue };
        let path = format!("/v1/agents/a{number}/exchange");
        let asked = tokio::time::timeout(Duration::from_secs(2), client.exchange(&path)).await;
        let Ok(Ok(stream)) = asked else { continue };
        let moved = controllers.moved(tls.as_ref());
        let (reader, mut writer) = tokio::io::split(stream);
        let mut lines = Lines::new(tokio::io::BufReader::new(reader), 64 << 20);
        let named = hosts
            .iter()
            .map(|host| Host { name: format!("h{host}"), addresses: vec![of(*host).into()] });
        let capabilities = vec![agent::Capability::Pacing, agent::Capability::Statistics];
        let hello = Report::Hello { hosts: named.collect(), capabilities, epoch };
        let mut out = Vec::new();
        lines::append(&hello, &mut out).unwrap();
        let talk = async {
            loop {
                if writer.write_all(&out).await.is_err() || writer.flush().await.is_err() {
                    return;
                }
                out.clear();
                let Ok(Some(next)) = lines.next::<Commands>().await else { return };
                let Some(commands) = next else { continue };
                // What an agent does.
                if commands.epoch < epoch {
                    let stale = commands.epoch;
                    let said = Report::Stale { epoch: stale, obeys: epoch };
                    lines::append(&said, &mut out).unwrap();
                    continue;
                }
                epoch = commands.epoch;
                heard.lock().unwrap().obey(&commands, &addresses);
                let Commands { epoch, sequence, .. } = commands;
                lines::append(&Report::Applied { epoch, sequence }, &mut out).unwrap();
            }
        };
        tokio::select! {
            () = talk => {}
            () = moved => {}
        }
    }
}

fn announced(application: u32, number: u64) -> Declaration {
    flow(application, number, Bytes::new(1_000_000 + number))
}

fn flow(application: u32, flow: u64, bytes: Bytes) -> Declaration {
    let (source, destination) = (application % HOSTS, (application + 1) % HOSTS);
    let port = if flow == LASTS { 2_000 } else { flow % 2_000 };
    let port = 1024 + (u64::from(application / HOSTS) * 2_001 + port) % 60_000;
    Declaration::FlowRequest {
        job: JOB.to_owned(),
        flow: flow.to_string(),
        connection: Connection {
            source: SocketAddr::new(of(source).into(), u16::try_from(port).unwrap()),
            destination: SocketAddr::new(of(destination).into(), 80),
        },
        processes: protocol::Processes::default(),
        bytes: Some(bytes),
    }
}

/// An application that announces a flow each `every`, and ends the oldest.
async fn announce(
    application: u32,
    shared: Arc<Shared>,
    every: Duration,
    heard: Arc<Mutex<Heard>>,
) {
    let declare = |declaration: Declaration| {
        if let Declaration::FlowRequest { connection, .. } = &declaration {
            heard.lock().unwrap().open.insert(*connection);
        }
        shared.declare(declaration);
    };
    declare(Declaration::JobStart { job: JOB.to_owned() });
    // One that lasts, and has the lowest rank.
    declare(flow(application, LASTS, Bytes::new(1 << 40)));
    let mut next = tokio::time::Instant::now() + every.mul_f64(f64::from(application % 97) / 97.0);
    for flow in 0.. {
        tokio::time::sleep_until(next).await;
        next += every;
        declare(announced(application, flow));
        if let Some(oldest) = flow.checked_sub(LIVE) {
            if let Declaration::FlowRequest { connection, .. } = announced(application, oldest) {
                heard.lock().unwrap().open.remove(&connection);
            }
            let (job, flow) = (JOB.to_owned(), oldest.to_string());
            shared.declare(Declaration::FlowComplete { job, flow });
        }
    }
}

/// What is at `path`; `None`: no answer, as where the leader has just lost its office.
async fn get(client: &mut Client, path: &str) -> Option<Value> {
    serde_json::from_slice(&client.get(path).await.ok()?).ok()
}

/// What a failover was like.
#[derive(Debug)]
struct Outcome {
    first: Duration,
    again: Duration,
    /// How long threads waited for the machine until then.
    waited: Duration,
    lapsed: u64,
    mixed: u64,
    forgotten: usize,
    announced_per_s: f64,
}

struct World {
    cluster: Cluster,
    /// What the operator shows controllers.
    operator: Option<Arc<ClientConfig>>,
    heard: Arc<Mutex<Heard>>,
    applications: Vec<Arc<Shared>>,
    drained: BTreeSet<String>,
}

impl World {
    fn taken(&self) -> u64 {
        self.applications.iter().map(|shared| shared.client().account().taken).sum()
    }

    /// Who leads, by the word of one that does; `None`: nobody within 10 s.
    async fn leader(&self) -> Option<(usize, Leader, Client)> {
        let (mut controllers, patience) =
            (self.cluster.certificates.controllers(), Duration::from_secs(10));
        let mut client = controllers.connect(self.operator.as_ref(), patience).await.ok()?;
        let leader: Leader = serde_json::from_slice(&client.get("/v1/leader").await.ok()?).ok()?;
        let at = (0..3).find(|at| leader.name.as_deref() == Some(&format!("c{at}")))?;
        Some((at, leader, client))
    }

    /// Hurts the leader and waits until all is as it was, under another.
    async fn hurt(&mut self, kill: bool, order: u32) -> Outcome {
        let (at, before) = until("an order is answered by who goes on leading", async || {
            let (at, before, _) = self.leader().await?;
            self.order(at, order).await?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            (self.leader().await?.1 == before).then_some((at, before))
        })
        .await;
        self.drained = until("orders", async || {
            let (_, _, mut client) = self.leader().await?;
            self.standing(&mut client).await
        })
        .await;
        let (taken, mixed) = {
            let mut heard = self.heard.lock().unwrap();
            heard.lapsed.clear();
            (self.taken(), heard.mixed)
        };
        let measured = Instant::now();
        tokio::time::sleep(Duration::from_secs(2)).await;
        // A flow that begins goes with one that ends.
        let announced_per_s =
            (self.taken() - taken) as f64 / 2.0 / measured.elapsed().as_secs_f64();
        let connections: Vec<u64> = self.applications.iter().map(connections_of).collect();
        let (late, hurt) = (Lateness::measure(), Instant::now());
        if kill {
            self.cluster.kill(at);
        } else {
            assert!(ip(&format!("link set {} down", cable(at))));
        }
        let heard = Arc::clone(&self.heard);
        let first = until("a directive of the next", async || {
            let heard = heard.lock().unwrap();
            let next = heard.first.iter().filter(|(epoch, _)| **epoch > before.epoch);
            next.map(|(_, at)| *at).min()
        });
        let first = first.await.duration_since(hurt);
        let (now, after, _) = until("the next leader", async || self.leader().await).await;
        assert!(now != at && after.epoch > before.epoch, "{after:?} after {before:?}");
        let applications = self.applications.clone();
        until("all is said again", async || {
            let is_said = |(shared, before): (&Arc<Shared>, &u64)| {
                connections_of(shared) > *before && shared.client().waiting() < 100
            };
            applications.iter().zip(&connections).all(is_said).then_some(())
        })
        .await;
        let again = hurt.elapsed();
        let waited = late.between(hurt, hurt + again);
        // Longer than the lease of what the former leader granted.
        tokio::time::sleep(Duration::from_secs(11)).await;
        self.heard.lock().unwrap().expire(Instant::now());
        let (forgotten, limited) = until("an account", async || {
            let (_, _, mut client) = self.leader().await?;
            self.forgotten(&mut client).await
        })
        .await;
        if kill {
            self.cluster.launch(at);
        } else {
            assert!(ip(&format!("link set {} up", cable(at))));
        }
        // It follows.
        until("it is back", async || {
            let address = self.cluster.certificates.controller(at);
            let mut client = Client::connect(&address, self.operator.as_ref()).await.ok()?;
            let told: Leader =
                serde_json::from_slice(&client.get("/v1/leader").await.ok()?).ok()?;
            (told.epoch >= after.epoch).then_some(())
        })
        .await;
        let heard = self.heard.lock().unwrap();
        // What the next leader leaves free ends with the lease of the former.
        let lapsed =
            heard.lapsed.iter().filter(|over| limited.contains(&over.source)).count() as u64;
        let mixed = heard.mixed - mixed;
        Outcome { first, again, waited, lapsed, mixed, forgotten, announced_per_s }
    }

    /// An order to one that changes something; `None`: it isn't answered, as where the leader has just lost its office.
    async fn order(&self, at: usize, number: u32) -> Option<()> {
        // Without TLS there is no other way to order.
        let socket = self.cluster.folder.path().join(format!("c{at}/controller.sock"));
        let mut client = Client::connect(&Address::Unix(socket), None).await.ok()?;
        let host = format!("h{}", number % HOSTS);
        let kind = if self.drained.contains(&host) { "undrain" } else { "drain" };
        let body = json!({ "type": kind, "host": host }).to_string().into_bytes();
        let (status, said) = client.ask(Method::POST, "/v1/orders", body).await.ok()?;
        let said: Value = serde_json::from_slice(&said).ok()?;
        (status.is_success() && said["warning"].is_null()).then_some(())
    }

    /// The hosts that are drained.
    async fn standing(&self, client: &mut Client) -> Option<BTreeSet<String>> {
        let orders = get(client, "/v1/orders").await?;
        let standing = orders["standing"].as_array()?;
        Some(standing.iter().map(|act| text(&act["order"], "host")).collect())
    }

    /// How many flows that applications were told are taken the leader doesn't know, and orders; and the sources of
    /// those that it wants held.
    async fn forgotten(&self, client: &mut Client) -> Option<(usize, HashSet<SocketAddr>)> {
        // What both answers name was there all the time.
        let holds = |shared: &Arc<Shared>| -> BTreeSet<String> {
            let client = shared.client();
            let flow = |declaration: &Declaration| match declaration {
                Declaration::FlowRequest { flow, .. } => Some(flow.clone()),
                _ => None,
            };
            client.holds().filter_map(flow).collect()
        };
        let began = Instant::now();
        let (mut missing, mut limited);
        loop {
            let before: Vec<_> = self.applications.iter().map(holds).collect();
            let flows = get(client, "/v1/flows?most=1000000").await?;
            let is_limited = |flow: &&Value| flow["intended_bps"].is_u64();
            let source = |flow: &Value| text(&flow["connection"], "source").parse().unwrap();
            let all = flows.as_array().unwrap();
            limited = all.iter().filter(is_limited).map(source).collect();
            let known: BTreeSet<(String, String)> = flows
                .as_array()
                .unwrap()
                .iter()
                .map(|flow| (text(flow, "application"), text(flow, "flow")))
                .collect();
            let after: Vec<_> = self.applications.iter().map(holds).collect();
            missing =
                (0..).zip(before.iter().zip(&after)).fold(0, |sum, (number, (before, after))| {
                    let stays = before.intersection(after);
                    sum + stays
                        .filter(|flow| !known.contains(&(format!("a{number}"), (*flow).clone())))
                        .count()
                });
            // What was declared just now is on its way.
            if missing == 0 || began.elapsed() > PATIENCE {
                break;
            }
        }
        let standing = self.standing(client).await?;
        Some((missing + standing.symmetric_difference(&self.drained).count(), limited))
    }
}

fn connections_of(shared: &Arc<Shared>) -> u64 {
    shared.client().account().connections
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn run(times: u32, rate: u32, count: u32) -> Option<Vec<(bool, Outcome)>> {
    let cluster = Cluster::up(count)?;
    let certificates = cluster.certificates.clone();
    let operator = certificates.shown_by(Role::Operator, OPERATOR);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let heard = Arc::<Mutex<Heard>>::default();
    let applications: Vec<Arc<Shared>> = (0..count).map(|_| Arc::default()).collect();
    let mut world = World { cluster, operator, heard, applications, drained: BTreeSet::new() };
    let outcomes = runtime.block_on(async {
        until("a leader", async || world.leader().await).await;
        for number in 0..AGENTS {
            tokio::spawn(agent(number, certificates.clone(), Arc::clone(&world.heard)));
        }
        let every = Duration::from_secs_f64(f64::from(count) / f64::from(rate));
        for (number, shared) in (0..).zip(&world.applications) {
            let (name, to) = (format!("a{number}"), certificates.controllers());
            let shown = certificates.shown_by(Role::Application, &name);
            let delivery = Delivery::new(Arc::clone(shared), &name, to).with_tls(shown);
            tokio::spawn(delivery.run());
            let heard = Arc::clone(&world.heard);
            tokio::spawn(announce(number, Arc::clone(shared), every, heard));
        }
        let heard = Arc::clone(&world.heard);
        until("directives", async || (heard.lock().unwrap().directives > 100).then_some(())).await;
        let mut outcomes = Vec::new();
        for time in 0..times {
            for kill in [true, false] {
                let outcome = world.hurt(kill, 2 * time + u32::from(kill)).await;
                let _ = writeln!(
                    std::io::stderr(),
                    "{} {outcome:?}",
                    if kill { "killed" } else { "cut off" }
                );
                outcomes.push((kill, outcome));
            }
        }
        outcomes
    });
    runtime.shutdown_background();
    Some(outcomes)
}

#[test]
fn another_leads_and_nothing_is_forgotten() {
    // Of a lease of 10 s, which is renewed thrice, this much is left at least when the leader dies. Who has told all by
    // then lets none run out.
    const LEFT: Duration = Duration::from_millis(6_600);
    let Some(outcomes) = run(1, 200, 20) else { return };
    for (_, outcome) in outcomes {
        let Outcome { again, waited, lapsed, mixed, forgotten, .. } = outcome;
        assert_eq!((mixed, forgotten), (0, 0), "{outcome:?}");
        if lapsed > 0 {
            assert!(again >= LEFT && again - waited < LEFT, "{outcome:?}");
            testing::needs::skipped(&format!(
                "the machine was too slow for the next leader to renew leases: all was said again after {again:?}, of \
                 which threads waited {waited:?}"
            ));
        }
    }
}

#[test]
#[ignore = "takes long and measures: make failover"]
fn failover() {
    let (times, rate) = (number("FAILOVER_TIMES", 10), number("FAILOVER_RATE", 10_000));
    let Some(outcomes) = run(times, rate, number("FAILOVER_APPLICATIONS", 200)) else { return };
    let mut out = std::io::stderr();
    let head = "| the leader is | times | announcements/s | first directive, s: least, median, most | all said again, s | leases that ran out | mixed | forgotten |";
    let _ = writeln!(out, "{head}\n|---|---|---|---|---|---|---|---|");
    for kill in [true, false] {
        let of: Vec<&Outcome> = outcomes.iter().filter(|o| o.0 == kill).map(|o| &o.1).collect();
        let sorted = |span: fn(&Outcome) -> Duration| {
            let mut all: Vec<f64> = of.iter().map(|outcome| span(outcome).as_secs_f64()).collect();
            all.sort_by(f64::total_cmp);
            format!("{:.2}, {:.2}, {:.2}", all[0], all[all.len() / 2], all[all.len() - 1])
        };
        let rate = of.iter().map(|outcome| outcome.announced_per_s).sum::<f64>() / of.len() as f64;
        let sum = |count: fn(&Outcome) -> u64| of.iter().map(|outcome| count(outcome)).sum::<u64>();
        let _ = writeln!(
            out,
            "| {} | {} | {rate:.0} | {} | {} | {} | {} | {} |",
            if kill { "killed" } else { "cut off" },
            of.len(),
            sorted(|outcome| outcome.first),
            sorted(|outcome| outcome.again),
            sum(|outcome| outcome.lapsed),
            sum(|outcome| outcome.mixed),
            sum(|outcome| outcome.forgotten as u64),
        );
    }
    let is_wrong = |o: &Outcome| o.lapsed > 0 || o.mixed > 0 || o.forgotten > 0;
    let wrong = outcomes.iter().any(|(_, outcome)| is_wrong(outcome));
    assert!(!wrong, "limits ran out, directives were mixed, or something is forgotten");
}
