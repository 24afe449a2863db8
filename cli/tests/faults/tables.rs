//! What Open vSwitch's bridges forward by, and changes to them from outside.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cluster::PATIENCE;

/// Where the bridges of a lab are.
#[derive(Clone)]
pub struct Tables {
    pub namespace: String,
    pub folder: PathBuf,
    pub bridges: Vec<String>,
}

impl Tables {
    /// Runs a command where they are.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> String {
        self.try_run(words).unwrap_or_else(|said| panic!("{words:?}: {said}"))
    }

    fn try_run(&self, words: &[&str]) -> Result<String, String> {
        let output = Command::new("ip")
            .args(["netns", "exec", &self.namespace])
            .args(words)
            .env("OVS_RUNDIR", &self.folder)
            .output()
            .unwrap();
        let said = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(said(output.stdout)) } else { Err(said(output.stderr)) }
    }

    /// Changes Open vSwitch's database.
    pub fn configure(&self, words: &[&str]) {
        let database = format!("--db=unix:{}", self.folder.join("db.sock").display());
        self.run(&[&["ovs-vsctl", &database, "--timeout=10"], words].concat());
    }

    /// Has all bridges listen to a controller at `target`.
    pub fn obey(&self, target: &str) {
        for bridge in &self.bridges {
            self.configure(&["set-controller", bridge, target]);
        }
    }

    /// Speaks to a bridge past its controller.
    pub fn order(&self, bridge: &str, words: &[&str]) -> Result<String, String> {
        let socket = format!("unix:{}", self.folder.join(bridge).with_extension("mgmt").display());
        let (command, rest) = words.split_first().unwrap();
        self.try_run(&[&["ovs-ofctl", "-O", "OpenFlow13", command, &socket], rest].concat())
    }

    /// All entries of all bridges, as `ovs-ofctl` writes them, with their bridge before them.
    /// Of bridges that don't answer there are none.
    pub fn raw(&self) -> Vec<String> {
        let of = |bridge: &String| {
            let listed = self.order(bridge, &["dump-flows", "--no-stats"]).unwrap_or_default();
            let lines = listed.lines().filter(|line| line.contains("actions="));
            lines.map(|line| format!("{bridge} {}", line.trim())).collect::<Vec<_>>()
        };
        self.bridges.iter().flat_map(of).collect()
    }

    /// The same without their cookies, which tell who wrote them when; sorted.
    pub fn entries(&self) -> Vec<String> {
        let bare = |line: String| {
            let words = line.split(' ').filter(|word| !word.starts_with("cookie="));
            words.collect::<Vec<_>>().join(" ")
        };
        let mut entries: Vec<String> = self.raw().into_iter().map(bare).collect();
        entries.sort();
        entries
    }

    /// Waits until they are as expected; how long that took.
    #[track_caller]
    pub fn until(&self, expected: &[String]) -> Duration {
        let start = Instant::now();
        loop {
            let now = self.entries();
            if now == expected {
                return start.elapsed();
            }
            let missing: Vec<_> = expected.iter().filter(|entry| !now.contains(entry)).collect();
            let more: Vec<_> = now.iter().filter(|entry| !expected.contains(entry)).collect();
            let late = start.elapsed() > PATIENCE;
            assert!(!late, "entries stay wrong: missing {missing:#?}, too many {more:#?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Looks again and again whether all that is expected is there.
    pub fn watch(&self, expected: &[String]) -> Watch {
        let (tables, expected, over) = (self.clone(), expected.to_vec(), Arc::default());
        let halt: Arc<AtomicBool> = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let (mut looks, mut missing) = (0, Vec::new());
            while !halt.load(Ordering::Relaxed) {
                let now = tables.entries();
                missing.extend(expected.iter().filter(|entry| !now.contains(entry)).cloned());
                looks += 1;
            }
            (looks, missing)
        });
        Watch { over, thread }
    }
}

/// Somebody who looks.
pub struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Vec<String>)>,
}

impl Watch {
    /// How often it looked, and what was missing.
    pub fn end(self) -> (u32, Vec<String>) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
