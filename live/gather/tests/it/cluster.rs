//! A pool of real memcached servers on loopback, with hubs and a front end in this process.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use gather::front::Front;
use gather::hub::Hub;
use gather::settings::Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Nothing in a test takes that long unless it hangs.
pub const HANGS: Duration = Duration::from_secs(20);

pub struct Cluster {
    pub servers: Vec<Memcached>,
    pub hubs: Vec<JoinHandle<()>>,
    pub front: SocketAddr,
}

pub struct Memcached {
    pub process: Child,
    pub address: SocketAddr,
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A free port, at an address of loopback that nobody else is given: ports alone come again.
pub fn free() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    TcpListener::bind((Ipv4Addr::new(127, 7, high, low), 0)).unwrap().local_addr().unwrap()
}

/// Whether there is memcached; says that a test is skipped where not.
pub fn is_there() -> bool {
    Command::new("memcached").arg("-V").stdout(Stdio::null()).status().is_ok()
        || testing::needs::skipped("there is no memcached; run checks/setup.sh memcached")
}

impl Memcached {
    pub async fn start() -> Self {
        loop {
            let address = free();
            let mut process = Command::new("memcached")
                .args([
                    "-u",
                    "nobody",
                    "-m",
                    "16",
                    "-t",
                    "1",
                    "-l",
                    &address.ip().to_string(),
                    "-p",
                    &address.port().to_string(),
                ])
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            loop {
                if TcpStream::connect(address).await.is_ok() {
                    return Self { process, address };
                }
                if process.try_wait().unwrap().is_some() {
                    // Another took the port.
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

impl Cluster {
    /// Racks of three servers each; `more` are lines of `[front]`.
    pub async fn start(policy: &str, racks: usize, copies: usize, more: &str) -> Self {
        let mut servers = Vec::new();
        let mut text = format!(
            "policy = {{ {policy} }}\npool = {{ hashing = \"ketama\", copies = {copies} }}\n\
             [front]\nlisten = \"127.0.0.1:0\"\n{more}\n"
        );
        for rack in 0..racks {
            text += &format!("[[rack]]\nname = \"r{rack}\"\n");
        }
        for place in 0..racks * 3 {
            let server = Memcached::start().await;
            text += &format!(
                "[[server]]\nname = \"s{place}\"\naddress = \"{}\"\nhub = \"{}\"\nrack = \"r{}\"\n",
                server.address,
                free(),
                place / 3
            );
            servers.push(server);
        }
        let read = || Settings::read("gather.toml", &text).unwrap();
        let mut hubs = Vec::new();
        for place in 0..servers.len() {
            let hub = Hub::start(read(), &format!("s{place}")).await.unwrap();
            hubs.push(tokio::spawn(hub.run()));
        }
        let front = Front::start(read()).await.unwrap();
        let address = front.address().unwrap();
        tokio::spawn(front.run());
        Self { servers, hubs, front: address }
    }

    pub async fn client(&self) -> Client {
        Client::at(self.front).await
    }
}

pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub async fn at(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), buffer: Vec::new() }
    }

    pub async fn send(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).await.unwrap();
    }

    async fn more(&mut self) {
        let got = timeout(HANGS, self.stream.read_buf(&mut self.buffer)).await.expect("it hangs");
        assert_ne!(got.unwrap(), 0, "the connection ended");
    }

    /// Whether the connection ends here.
    pub async fn ends(&mut self) -> bool {
        timeout(HANGS, self.stream.read_buf(&mut self.buffer)).await.expect("it hangs").unwrap_or(0)
            == 0
    }

    pub async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.iter().position(|octet| *octet == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return String::from_utf8(line).unwrap().trim_end().to_owned();
            }
            self.more().await;
        }
    }

    pub async fn octets(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            self.more().await;
        }
        self.buffer.drain(..count).collect()
    }

    /// Says `octets`, which are answered by a line.
    pub async fn say(&mut self, octets: &str) -> String {
        self.send(octets.as_bytes()).await;
        self.line().await
    }

    /// The values of keys, or the error.
    pub async fn get(&mut self, keys: &[String]) -> Result<BTreeMap<String, Vec<u8>>, String> {
        self.send(format!("get {}\r\n", keys.join(" ")).as_bytes()).await;
        let mut found = BTreeMap::new();
        loop {
            let line = self.line().await;
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["END"] => return Ok(found),
                ["VALUE", key, _, size] => {
                    let mut value = self.octets(size.parse::<usize>().unwrap() + 2).await;
                    assert_eq!(value.split_off(value.len() - 2), b"\r\n");
                    found.insert(key.to_owned(), value);
                }
                _ => {
                    assert!(line.starts_with("SERVER_ERROR "), "{line}");
                    return Err(line);
                }
            }
        }
    }

    /// Stores `count` keys, each with a value that names it; the keys.
    pub async fn fill(&mut self, count: usize) -> Vec<String> {
        let mut keys = Vec::new();
        for number in 0..count {
            let key = format!("key-{number}");
            let value = value(&key);
            let said = self.say(&format!("set {key} 7 0 {}\r\n{value}\r\n", value.len())).await;
            assert_eq!(said, "STORED");
            keys.push(key);
        }
        keys
    }
}

/// What a key has: of different lengths, some above a packet.
pub fn value(key: &str) -> String {
    let number: usize = key.rsplit('-').next().unwrap().parse().unwrap();
    let length = if number.is_multiple_of(50) { 5000 } else { 20 + number * 37 % 800 };
    let mut text = format!("{key}:");
    while text.len() < length {
        text.push_str("\r\nEND\r\n");
    }
    text
}

/// Asserts that all values found are those of their keys.
pub fn check(found: &BTreeMap<String, Vec<u8>>) {
    for (key, octets) in found {
        assert_eq!(String::from_utf8_lossy(octets), value(key), "{key} has another's value");
    }
}
