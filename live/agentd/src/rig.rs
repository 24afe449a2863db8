//! For tests: a network namespace with a port of an agent's, and connections in it.
#![allow(clippy::unwrap_used, reason = "serves tests")]

use std::io::{Read as _, Seek as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{self, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel::{Connection, Namespace};
use protocol::agent::{self, Commands};
use units::Span;

use crate::settings::Settings;

/// Longer than any test takes.
pub const LEASE: Span = Span::from_secs(600);

/// A namespace with nothing but `lo`, which is a port of the node `s1`.
pub struct Rig {
    pub name: String,
}

impl Rig {
    /// `None` without root.
    #[track_caller]
    pub fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !testing::needs::root() {
            return None;
        }
        // The tests of the kernel's side remove what is called so and has no process.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let rig = Self { name: format!("wma-{}-agentd{number}", process::id()) };
        rig.ip(&["netns", "add", &rig.name]);
        rig.ip(&["-n", &rig.name, "link", "set", "lo", "up"]);
        Some(rig)
    }

    /// Runs `ip`.
    pub fn ip(&self, arguments: &[&str]) {
        run("ip", arguments);
    }

    /// Runs `tc` inside.
    pub fn tc(&self, arguments: &str) {
        let inside = ["-n", &self.name].into_iter().chain(arguments.split(' '));
        run("tc", &inside.collect::<Vec<_>>());
    }

    /// Those of an agent of this namespace, whose controller listens there.
    pub fn settings(&self, controller: &str) -> Settings {
        let name = &self.name;
        let text = format!(
            "name = \"a\"\ncontroller = \"{controller}\"\npins = \"/run/{name}\"\n\
             [[host]]\nname = \"h1\"\naddresses = [\"127.0.0.1\"]\nnamespace = \"{name}\"\n\
             [[interface]]\nnode = \"s1\"\ninterface = \"lo\"\nnamespace = \"{name}\"\n\
             rate = \"1 Gbit/s\"\nbuffer = \"100 packets\"\n"
        );
        Settings::read("agent.toml", &text, Path::new("")).unwrap()
    }

    /// A new connection: its name, and its two ends.
    pub fn connect(&self) -> (Connection, TcpStream, TcpStream) {
        let within = Namespace::named(&self.name).unwrap();
        let both = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            Ok((sender, listener.accept().unwrap().0))
        };
        let (sender, receiver) = within.visit(both).unwrap();
        let (source, destination) = (sender.local_addr().unwrap(), sender.peer_addr().unwrap());
        (Connection { source, destination }, sender, receiver)
    }
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).status().unwrap();
    assert!(done.success(), "{program} {arguments:?}");
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

/// Writes as much as the connection takes while nobody reads; how much that is.
pub fn fill(sender: &mut TcpStream) -> u64 {
    sender.set_nonblocking(true).unwrap();
    let (data, mut written) = ([0x5a; 64 << 10], 0);
    while let Ok(octets) = sender.write(&data) {
        written += octets as u64;
    }
    written
}

/// Commands of epoch 1.
pub fn commands(sequence: u64, complete: bool, commands: Vec<agent::Command>) -> Commands {
    Commands { epoch: 1, sequence, lease_ns: LEASE, complete, commands }
}

/// Has the port watched, not its queue.
pub fn watch() -> agent::Command {
    let (node, interface) = ("s1".to_owned(), "lo".to_owned());
    agent::Command::Watch { node, interface, watch: Some(model::PortWatch::default()) }
}

/// Does something; what came of it, and what the log says.
pub fn logged<T>(work: impl FnOnce() -> T) -> (T, String) {
    let mut log = tempfile::tempfile().unwrap();
    let writer = Arc::new(log.try_clone().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    let done = tracing::subscriber::with_default(subscriber, work);
    let mut said = String::new();
    log.rewind().unwrap();
    log.read_to_string(&mut said).unwrap();
    (done, said)
}
