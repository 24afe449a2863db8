//! A controller's process, and those who speak to it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use protocol::agent::{Capability, Commands, Host, Report, Said};
use rustls::ClientConfig;
use serde_json::Value;
use tempfile::TempDir;
pub use testing::wait::PATIENCE;
use testing::wait::settled;
use tokio::io::AsyncWriteExt as _;
use wire::client::{Address, Client};
use wire::lines::{self, Lines};
use wire::tls;

/// Two hosts on a switch; `more` goes into the configuration.
pub fn config(more: &str) -> String {
    format!(
        r#"
state = "state"
log = {{ format = "json" }}
[listen]
http = "127.0.0.1:0"
openflow = "127.0.0.1:0"
socket = "controller.sock"
[topology]
kind = "star"
hosts = 3
access = {{ capacity = "100 Mbit/s", delay = "10 us" }}
[[host]]
name = "h0"
addresses = ["10.0.0.1"]
[[host]]
name = "h1"
addresses = ["10.0.0.2"]
[[host]]
name = "h2"
addresses = ["10.0.0.3"]
[[switch]]
name = "s0"
datapath_id = "0xaa"
{more}"#
    )
}

/// What else most tests want: the policy that orders flows by size.
pub const SMSF: &str = "[policy]\nname = \"smsf\"\n";

/// Those that `certificates` makes in the folder `certs` beside the configuration.
pub const TLS: &str = "[tls]\nca = \"certs/ca.crt\"\ncertificate = \"certs/controller-main.crt\"\n\
                       key = \"certs/controller-main.key\"\n";

/// A controller's process; killed when dropped.
pub struct Daemon {
    pub folder: Arc<TempDir>,
    child: Child,
    log: Receiver<Value>,
    pub http: String,
    pub openflow: Option<String>,
}

impl Daemon {
    pub fn start(config: &str) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()), config)
    }

    pub fn start_in(folder: Arc<TempDir>, config: &str) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_watermaster")), folder, config)
    }

    /// By a command that runs the program with the arguments that it gets.
    pub fn start_by(mut program: Command, folder: Arc<TempDir>, config: &str) -> Self {
        let file = folder.path().join("controller.toml");
        std::fs::write(&file, config).unwrap();
        let mut child = program
            .args(["controller", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, log) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut daemon = Self { folder, child, log, http: String::new(), openflow: None };
        loop {
            let line = daemon.line();
            let address = line["address"].as_str().map(str::to_owned);
            match line["message"].as_str() {
                Some("HTTP") => daemon.http = address.unwrap(),
                Some("OpenFlow") => daemon.openflow = address,
                Some("controller ready") => return daemon,
                _ => {}
            }
        }
    }

    fn line(&mut self) -> Value {
        match self.log.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("no log: {error}; {:?}", self.child.try_wait()),
        }
    }

    /// Waits for a line of the log that says so.
    #[track_caller]
    pub fn hears(&mut self, message: &str) -> Value {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let line = self.line();
            if line["message"].as_str().is_some_and(|said| said.contains(message)) {
                return line;
            }
        }
        panic!("the log never says {message}");
    }

    /// What the log has said and nobody has heard.
    pub fn said(&self) -> impl Iterator<Item = Value> {
        self.log.try_iter()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn address(&self) -> Address {
        Address::Unix(self.path("controller.sock"))
    }

    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        let ended = settled(|| self.child.try_wait().unwrap(), Option::is_some);
        ended.expect("the daemon does not end")
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.address(), None).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Value {
        get(&mut self.client().await, path).await
    }

    /// Asks again and again until the answer is as wanted.
    #[track_caller]
    pub fn until(
        &self,
        path: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> impl Future<Output = Value> {
        let caller = std::panic::Location::caller();
        async move {
            let mut client = self.client().await;
            let start = Instant::now();
            loop {
                let found = get(&mut client, path).await;
                if wanted(&found) {
                    return found;
                }
                assert!(start.elapsed() < PATIENCE, "{caller}: {path} stays {found:#}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Runs a command of the same program.
    pub fn command(&self, arguments: &[&str]) -> std::process::Output {
        Command::new(env!("CARGO_BIN_EXE_watermaster")).args(arguments).output().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("what the controller wrote is kept in {}", self.folder.path().display());
            std::mem::forget(Arc::clone(&self.folder));
        }
    }
}

pub async fn get(client: &mut Client, path: &str) -> Value {
    serde_json::from_slice(&client.get(path).await.unwrap()).unwrap()
}

/// Declares; gives the status and what was said.
pub async fn declare(client: &mut Client, application: &str, body: &Value) -> (StatusCode, Value) {
    post(client, application, body.to_string().into_bytes()).await
}

pub async fn post(client: &mut Client, application: &str, body: Vec<u8>) -> (StatusCode, Value) {
    let path = format!("/v1/applications/{application}/declarations");
    let (status, said) = client.ask(Method::POST, &path, body).await.unwrap();
    (status, serde_json::from_slice(&said).unwrap())
}

/// An agent of the test: it confirms what it is told.
pub struct Agent {
    lines: Lines<tokio::io::BufReader<tokio::io::ReadHalf<Box<dyn wire::Stream>>>>,
    writer: tokio::io::WriteHalf<Box<dyn wire::Stream>>,
}

impl Agent {
    pub async fn connect(
        address: &Address,
        config: Option<&Arc<ClientConfig>>,
        name: &str,
        hosts: &[(&str, &str)],
        epoch: u64,
    ) -> Self {
        let client = Client::connect(address, config).await.unwrap();
        let stream = client.exchange(&format!("/v1/agents/{name}/exchange")).await.unwrap();
        let (reader, writer) = tokio::io::split(Box::new(stream) as Box<dyn wire::Stream>);
        let lines = Lines::new(tokio::io::BufReader::new(reader), 1 << 20);
        let mut agent = Self { lines, writer };
        let hosts = hosts
            .iter()
            .map(|(name, address)| Host {
                name: (*name).to_owned(),
                addresses: vec![address.parse().unwrap()],
            })
            .collect();
        let capabilities = Capability::ALL.to_vec();
        agent.say(&Report::Hello { hosts, capabilities, epoch }).await;
        agent
    }

    pub async fn say(&mut self, report: &Report) {
        let mut line = Vec::new();
        lines::append(report, &mut line).unwrap();
        self.write(&line).await;
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.unwrap();
        self.writer.flush().await.unwrap();
    }

    /// The next commands, confirmed; `None`: the controller closed the connection.
    pub async fn hear(&mut self) -> Option<Commands> {
        let commands = self.next().await?;
        let mut line = Vec::new();
        let Commands { epoch, sequence, .. } = commands;
        lines::append(&Report::Applied { epoch, sequence }, &mut line).unwrap();
        // The controller may have gone after its last word.
        let _ = self.writer.write_all(&line).await;
        Some(commands)
    }

    /// Why the controller closes the connection; `None`: it doesn't say.
    pub async fn last_word(&mut self) -> Option<String> {
        let word = async {
            loop {
                if let Some(Said::Closing(why)) = self.lines.next::<Said>().await.ok()?? {
                    return Some(why);
                }
            }
        };
        tokio::time::timeout(PATIENCE, word).await.expect("the connection stays")
    }

    /// The next commands; `None`: the controller closed the connection.
    pub async fn next(&mut self) -> Option<Commands> {
        let next = async {
            loop {
                if let Some(commands) = self.lines.next::<Commands>().await.ok()?? {
                    return Some(commands);
                }
            }
        };
        let next = tokio::time::timeout(PATIENCE, next).await;
        next.expect("the controller says nothing")
    }
}

/// Certificates in `folder`, made by the command.
pub fn certificates(folder: &Path, more: &[&str]) {
    let made = Command::new(env!("CARGO_BIN_EXE_watermaster"))
        .args(["certs", "--directory"])
        .arg(folder)
        .args(["--controller", "main=127.0.0.1,localhost"])
        .args(more)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The client's end with the certificate of `who`, such as `agent-h1`.
pub fn shows(folder: &Path, who: &str) -> Arc<ClientConfig> {
    let files = tls::Files {
        ca: folder.join("ca.crt"),
        certificate: folder.join(format!("{who}.crt")),
        key: folder.join(format!("{who}.key")),
        crl: None,
    };
    Arc::new(tls::client(&files).unwrap())
}

/// Has the authority revoke one of the certificates in `folder`.
pub fn revoke(folder: &Path, file: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watermaster"));
    let made = command.args(["certs", "--directory"]).arg(folder).args(["--revoke", file]);
    let made = made.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
