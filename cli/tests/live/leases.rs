//! Whoever dies, and in whatever order: no connection is limited longer than a lease after its last renewal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testing::lateness::Lateness;
use testing::wait::settled;
use wire::client::Client;

use crate::daemon::{Daemon, PATIENCE, config, declare};
use crate::draw::Draw;

const LEASE: Duration = Duration::from_secs(1);
/// How much later the last renewal may be read, or the connection have its next acknowledgement: less than a lease,
/// so that a second one is seen.
const SLACK: Duration = Duration::from_millis(500);

fn run(command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Two hosts, and a connection between them that always has something to send.
struct Hosts {
    names: [String; 2],
    pins: PathBuf,
    connection: (SocketAddr, SocketAddr),
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hosts {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wml-{}-{number}", std::process::id());
        let names = ["a", "b"].map(|host| format!("{name}-{host}"));
        let addresses = [Ipv4Addr::new(10, 98, 0, 1), Ipv4Addr::new(10, 98, 0, 2)];
        for name in &names {
            run(&format!("ip netns add {name}"));
        }
        let [a, b] = &names;
        run(&format!("ip -n {a} link add eth0 type veth peer name eth0 netns {b}"));
        for (name, address) in names.iter().zip(addresses) {
            run(&format!("ip -n {name} address add {address}/24 dev eth0"));
            run(&format!("ip -n {name} link set eth0 up"));
        }
        let [a, b] = names.each_ref().map(|name| kernel::Namespace::named(name).unwrap());
        let listener = b.visit(|| Ok(TcpListener::bind((addresses[1], 0)).unwrap())).unwrap();
        let to = listener.local_addr().unwrap();
        let mut sender = a.visit(|| Ok(TcpStream::connect(to).unwrap())).unwrap();
        let (mut receiver, from) = listener.accept().unwrap();
        let connection = (from, to);
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let sends = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) && sender.write_all(&[0x5a; 1000]).is_ok() {
                thread::sleep(Duration::from_millis(2));
            }
        });
        let reads = thread::spawn(move || {
            let mut taken = [0; 4096];
            while receiver.read(&mut taken).is_ok_and(|read| read > 0) {}
        });
        let pins = PathBuf::from(format!("/run/{name}"));
        Self { names, pins, connection, ends, threads: vec![sends, reads] }
    }

    /// Whether the kernel holds the connection to a rate now.
    fn is_limited(&self) -> bool {
        let (from, to) = self.connection;
        let words = format!(
            "ip netns exec {} ss -tinH src {} sport = :{} dport = :{}",
            self.names[0],
            from.ip(),
            from.port(),
            to.port()
        );
        let words: Vec<&str> = words.split_whitespace().collect();
        let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (_, rate) = said.split_once("pacing_rate ").unwrap_or_else(|| panic!("{said}"));
        // What is behind the slash is the most that the socket may send.
        rate.split_whitespace().next().unwrap().contains('/')
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
        let _ = Command::new("umount").arg(&self.pins).stderr(Stdio::null()).status();
        let _ = std::fs::remove_dir(&self.pins);
    }
}

/// Who renews leases.
struct Cast {
    folder: Arc<TempDir>,
    config: String,
    controller: Option<Daemon>,
    /// Who has declared.
    client: Option<Client>,
    agent: Option<Child>,
    /// The last moment at which anything could be renewed.
    renewed: Instant,
    kills: u64,
}

impl Cast {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn new(hosts: &Hosts) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let fixed = "[policy]\nname = \"static\"\nrates = [\"6 Mbit/s\"]\n\
                     [control]\nlease = \"1 s\"\nsample = \"100 ms\"\n";
        let config =
            config(fixed).replace("10.0.0.1\"", "10.98.0.1\"").replace("10.0.0.2\"", "10.98.0.2\"");
        let [a, b] = &hosts.names;
        let agent = format!(
            "name = \"h0\"\ncontroller = \"unix:{}\"\npins = \"{}\"\n\
             [[host]]\nname = \"h0\"\naddresses = [\"10.98.0.1\"]\nnamespace = \"{a}\"\n\
             [[host]]\nname = \"h1\"\naddresses = [\"10.98.0.2\"]\nnamespace = \"{b}\"\n",
            folder.path().join("controller.sock").display(),
            hosts.pins.display(),
        );
        std::fs::write(folder.path().join("agent.toml"), agent).unwrap();
        let renewed = Instant::now();
        Self { folder, config, controller: None, client: None, agent: None, renewed, kills: 0 }
    }

    /// Something dies: until now both may have been there.
    fn dies(&mut self, controller: bool) {
        let were_both = self.controller.is_some() && self.agent.is_some();
        // SIGKILL.
        if controller {
            let Some(mut daemon) = self.controller.take() else { return };
            daemon.kill();
        } else {
            let Some(mut agent) = self.agent.take() else { return };
            agent.kill().unwrap();
            agent.wait().unwrap();
        }
        self.kills += 1;
        if were_both {
            self.renewed = Instant::now();
        }
    }

    async fn start_controller(&mut self, connection: (SocketAddr, SocketAddr)) {
        let daemon = Daemon::start_in(Arc::clone(&self.folder), &self.config);
        let mut client = daemon.client().await;
        let flow = json!([
            { "type": "job_start", "job": "j" },
            { "type": "flow_request", "job": "j", "flow": "1", "bytes": 1_000_000_000, "connection":
                { "source": connection.0.to_string(), "destination": connection.1.to_string() } },
        ]);
        let (status, said) = declare(&mut client, "a", &flow).await;
        assert!(status.is_success(), "{said}");
        (self.controller, self.client) = (Some(daemon), Some(client));
    }

    /// Starts an agent. Where one is there, another of the same configuration ends, and does no harm.
    fn start_agent(&mut self) {
        let log = File::options().create(true).append(true).open(self.path("agent.log")).unwrap();
        let mut fresh = Command::new(env!("CARGO_BIN_EXE_watermaster"))
            .args(["agent", "--config"])
            .arg(self.folder.path().join("agent.toml"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        if self.agent.is_none() {
            self.agent = Some(fresh);
            return;
        }
        let ended = settled(|| fresh.try_wait().unwrap(), Option::is_some);
        assert_eq!(ended.expect("a second agent runs").code(), Some(1));
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        self.dies(true);
        self.dies(false);
    }
}

/// `LEASE_KILLS=200 LEASE_SEED=7`: so many moments, of this seed.
#[tokio::test]
async fn no_limit_outlives_its_lease_whoever_dies() {
    if !testing::needs::root() {
        return;
    }
    let given = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let (moments, seed) = (given("LEASE_KILLS", 3), given("LEASE_SEED", 1));
    let hosts = Hosts::new();
    let mut cast = Cast::new(&hosts);
    let mut draw = Draw(seed);
    let (late, mut latest) = (Lateness::measure(), Duration::ZERO);
    // How many limits ended in time, and those that the machine may have held longer.
    let (mut ended, mut slow) = (0_u64, Vec::new());
    for moment in 0..moments {
        // An agent that waits to connect again would take its time.
        cast.dies(false);
        if cast.controller.is_none() {
            cast.start_controller(hosts.connection).await;
        }
        cast.start_agent();
        let began = Instant::now();
        while !hosts.is_limited() {
            assert!(began.elapsed() < PATIENCE, "seed {seed}, moment {moment}: never held");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut history = Vec::new();
        for _ in 0..draw.below(5) {
            tokio::time::sleep(Duration::from_millis(draw.below(600))).await;
            let act = draw.below(4);
            history.push(act);
            match act {
                0 if cast.controller.is_some() => cast.dies(true),
                0 | 1 if cast.controller.is_none() => cast.start_controller(hosts.connection).await,
                2 if cast.agent.is_some() => cast.dies(false),
                _ => cast.start_agent(),
            }
        }
        tokio::time::sleep(Duration::from_millis(draw.below(600))).await;
        let first = draw.below(2) == 0;
        cast.dies(first);
        if draw.below(2) == 0 {
            tokio::time::sleep(Duration::from_millis(draw.below(600))).await;
            cast.dies(!first);
        }
        history.push(10 + u64::from(first));
        // How long it was seen limited after the last renewal, and how long threads waited for the machine meanwhile.
        let (mut limited, mut waited) = (None, Duration::ZERO);
        loop {
            // Before it is looked, so that a machine that looks slowly accuses nobody.
            let seen = Instant::now();
            if !hosts.is_limited() {
                break;
            }
            let since = seen - cast.renewed;
            // So much later an agent may have read what its controller said last, and an acknowledgement come.
            waited = late.between(cast.renewed, seen);
            assert!(
                since < LEASE + SLACK + waited && since < PATIENCE,
                "seed {seed}, moment {moment}, {history:?}: limited {since:?} after the last renewal, of which the \
                 machine was late by {waited:?}"
            );
            limited = Some(since);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        match limited {
            Some(since) if since >= LEASE + SLACK => slow.push((since, waited)),
            limited => ended += u64::from(limited.is_some()),
        }
        latest = latest.max(limited.unwrap_or_default());
    }
    if !slow.is_empty() {
        testing::needs::skipped(&format!(
            "the machine was too slow to judge {} of {moments} moments; how long a limit stood after the last renewal, \
             and how late the machine was: {slow:?}",
            slow.len()
        ));
    }
    let seen = ended > 0 || !slow.is_empty();
    assert!(seen, "seed {seed}: no limit stood after {} kills, nothing was seen", cast.kills);
    eprintln!(
        "{moments} moments of seed {seed}, {} kills: limited {ended} times after them, at most {:.2} s after \
         the last renewal; the lease is {} s",
        cast.kills,
        latest.as_secs_f64(),
        LEASE.as_secs()
    );
}

/// An agent that is stopped lifts its limits and says so: before it ends, the status and explanations tell it.
#[tokio::test]
async fn an_agent_that_is_stopped_says_that_it_holds_nothing() {
    if !testing::needs::root() {
        return;
    }
    let hosts = Hosts::new();
    let mut cast = Cast::new(&hosts);
    cast.start_controller(hosts.connection).await;
    cast.start_agent();
    assert!(settled(|| hosts.is_limited(), |held| *held), "never held");
    let mut agent = cast.agent.take().unwrap();
    run(&format!("kill -TERM {}", agent.id()));
    let ended = settled(|| agent.try_wait().unwrap(), Option::is_some);
    assert!(ended.expect("it goes on").success());
    let daemon = cast.controller.as_ref().unwrap();
    let status = daemon.get("/v1/status").await;
    let former = &status["former_agents"][0];
    let told = [&former["identity"], &former["left"], &former["may_stand"]];
    assert_eq!(told, [&json!("h0"), &json!(true), &json!(0)], "{status}");
    let why = daemon.get("/v1/explain/a/j/1").await;
    let by = why["by"].as_str().unwrap();
    assert!(by.contains("agent h0 has left, and holds nothing"), "{by}");
    assert!(!settled(|| hosts.is_limited(), |held| !*held), "it is held");
}

/// SIGHUP has an agent read its configuration again: what can change does, what can't is named, what is wrong changes
/// nothing, and no connection is let go meanwhile.
#[tokio::test]
async fn an_agent_that_reads_its_configuration_again_lets_no_connection_go() {
    if !testing::needs::root() {
        return;
    }
    let hosts = Hosts::new();
    let mut cast = Cast::new(&hosts);
    cast.start_controller(hosts.connection).await;
    let file = cast.path("agent.toml");
    let first = "log = \"json\"\n".to_owned() + &std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &first).unwrap();
    cast.start_agent();
    assert!(settled(|| hosts.is_limited(), |held| *held), "never held");
    let said = |what: &str| {
        let log = std::fs::read_to_string(cast.path("agent.log")).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["message"].as_str().unwrap().starts_with(what)).collect::<Vec<_>>()
    };
    let agent = cast.agent.as_ref().unwrap().id();
    let reload = |text: &str, what: &str| {
        std::fs::write(&file, text).unwrap();
        let before = said(what).len();
        run(&format!("kill -HUP {agent}"));
        let heard = settled(|| said(what), |lines| lines.len() > before);
        assert!(heard.len() > before, "it never says {what}: {:?}", said(""));
        assert!(hosts.is_limited(), "{what}: let go");
        heard.last().unwrap().clone()
    };

    let more = "openings_per_second = 5\n".to_owned() + &first;
    let line = reload(&more, "configuration read again");
    assert_eq!(line["restart"], Value::Null, "{line}");

    let wrong = first.replace("/controller.sock", "/other.sock") + "adresses = []\n";
    let line = reload(&wrong, "configuration kept as it was");
    let error = line["error"].as_str().unwrap();
    assert!(
        error.contains("agent.toml:13:1: host[1].adresses: ") && error.contains("did you mean"),
        "{error}"
    );

    let other = first.replace("\"json\"", "\"text\"").replace("name = \"h0\"", "name = \"h9\"");
    let other = other.replace("pins = \"/run", "cgroup = \"/none\"\nlimits = 7\npins = \"/var");
    let interface = "[[interface]]\nnode = \"h9\"\ninterface = \"eth0\"\nrate = \"1 Gbit/s\"\n\
                     buffer = \"100 packets\"\n";
    let line =
        reload(&(other + interface), "configuration read again; some changes need a restart");
    assert_eq!(
        line["restart"],
        "name (controller and [tls] go with it), log, cgroup, pins, limits, [[host]], [[interface]]"
    );
    assert_eq!(said("connected").len(), 1, "its connection goes on");

    // The same controller, by another way.
    let http = format!("http://{}", cast.controller.as_ref().unwrap().http);
    let socket = format!("unix:{}", cast.path("controller.sock").display());
    let line = reload(&first.replace(&socket, &http), "connected");
    assert_eq!(line["controller"], http.as_str());
    // For longer than a lease.
    let since = Instant::now();
    while since.elapsed() < LEASE + SLACK {
        assert!(hosts.is_limited(), "let go");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(cast.agent.as_mut().unwrap().try_wait().unwrap().is_none(), "it has ended");
}
