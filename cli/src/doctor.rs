//! `watermaster doctor`: what this machine can do, found by trying it.
//!
//! Trials run in an unnamed network namespace, which the kernel removes with its process: nothing
//! outside is changed and nothing is left.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use serde::Serialize;

use crate::failure::{Failure, print};

/// Show what this machine can do, what each item is for, and how to get what is missing
///
/// Simulation needs none of it: it is for real networks and for reading captures.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster doctor --json")]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    kernel: String,
    features: Vec<Feature>,
}

/// One thing that a machine has or lacks.
#[derive(Serialize)]
struct Feature {
    name: String,
    available: bool,
    /// What was found, or why it is missing.
    detail: String,
    /// What Watermaster would use it for.
    purpose: &'static str,
    /// How to get it; empty when it is there.
    remedy: String,
}

type Finding = Result<String, String>;

fn feature(
    name: impl Into<String>,
    purpose: &'static str,
    remedy: impl Into<String>,
    finding: Finding,
) -> Feature {
    let name = name.into();
    let available = finding.is_ok();
    let (Ok(detail) | Err(detail)) = finding;
    Feature {
        name,
        available,
        detail,
        purpose,
        remedy: if available { String::new() } else { remedy.into() },
    }
}

impl Doctor {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let kernel = read("/proc/sys/kernel/osrelease").unwrap_or_else(|error| error);
        let report = Report { kernel, features: examine() };
        if self.json {
            let json = serde_json::to_string_pretty(&report).map_err(Failure::failed)?;
            return print(&(json + "\n"));
        }
        let mut text = format!("kernel {}\n", report.kernel);
        for feature in &report.features {
            let state = if feature.available { "available" } else { "missing  " };
            text += &format!("{state}  {:<24} {}\n", feature.name, feature.detail);
            if !feature.available {
                text += &format!(
                    "{:>11}for: {}\n{:>11}remedy: {}\n",
                    "", feature.purpose, "", feature.remedy
                );
            }
        }
        print(&text)
    }
}

fn examine() -> Vec<Feature> {
    let mut features = vec![
        feature(
            "root",
            "virtual clusters and host agents",
            "run as root, or give the capabilities NET_ADMIN, SYS_ADMIN and BPF",
            capabilities(),
        ),
        feature(
            "network namespaces",
            "virtual clusters on one machine",
            "run as root, or allow user namespaces (kernel.unprivileged_userns_clone)",
            in_namespace("ip", &["link", "show", "lo"]).map(|()| "made and removed one".to_owned()),
        ),
    ];
    let links: [(&str, &'static str, &[&str]); 2] = [
        (
            "veth",
            "cables of virtual clusters",
            &["link", "add", "wm0", "type", "veth", "peer", "name", "wm1"],
        ),
        ("bridge", "switches of virtual clusters", &["link", "add", "wm0", "type", "bridge"]),
    ];
    for (name, purpose, arguments) in links {
        let finding = in_namespace("ip", arguments).map(|()| "made one".to_owned());
        features.push(feature(
            name,
            purpose,
            format!("install iproute2 (ip) and, as root, modprobe {name}"),
            finding,
        ));
    }
    let disciplines: [(&str, &'static str, &[&str]); 4] = [
        ("htb", "shaping to a rate in the network", &["htb"]),
        ("pfifo", "buffers that count packets", &["pfifo", "limit", "100"]),
        ("bfifo", "buffers that count bytes", &["bfifo", "limit", "150000"]),
        ("clsact", "BPF programs on the way in and out", &["clsact"]),
    ];
    for (name, purpose, discipline) in disciplines {
        let place: &[&str] = if name == "clsact" { &[] } else { &["root"] };
        let arguments = [&["qdisc", "add", "dev", "lo"], place, discipline].concat();
        let finding = in_namespace("tc", &arguments).map(|()| "added one".to_owned());
        let remedy = format!("install iproute2 (tc) and, as root, modprobe sch_{name}");
        features.push(feature(format!("qdisc {name}"), purpose, remedy, finding));
    }
    features.extend(kernel::Features::probe().0.into_iter().map(|found| {
        let (remedy, finding) = match found.finding {
            Ok(detail) => (String::new(), Ok(detail)),
            Err(missing) => (missing.remedy.to_owned(), Err(missing.reason)),
        };
        feature(format!("agent {}", found.name), found.purpose, remedy, finding)
    }));
    features.extend([feature(
        "openvswitch module",
        "switching at line rate in a live network",
        "modprobe openvswitch; without it Open vSwitch switches in user space",
        exists("/sys/module/openvswitch"),
    )]);
    let tools: [(&str, &'static str, &'static str); 5] = [
        ("ovs-vswitchd", "OpenFlow switches in virtual clusters", "install openvswitch-switch"),
        ("ethtool", "labs with Open vSwitch, whose hosts compute checksums", "install ethtool"),
        ("tshark", "looking at captures", "install tshark"),
        ("valgrind", "instructions per hop in make bench", "install valgrind"),
        // The version that live/kernel/bpf/build.sh compiles with.
        ("clang-19", "compiling BPF programs", "install clang-19"),
    ];
    for (name, purpose, remedy) in tools {
        features.push(feature(name, purpose, remedy, version(name)));
    }
    let offered = read("/proc/sys/net/ipv4/tcp_available_congestion_control");
    for name in ["reno", "cubic", "dctcp", "bbr"] {
        let finding = offered.clone().and_then(|offered| {
            if offered.split_whitespace().any(|each| each == name) {
                Ok("offered by the kernel".to_owned())
            } else {
                Err(format!("the kernel offers {offered}"))
            }
        });
        let purpose = "comparing simulated TCP with the kernel's";
        features.push(feature(
            format!("TCP {name}"),
            purpose,
            format!("as root, modprobe tcp_{name}"),
            finding,
        ));
    }
    features
}

/// Whether the process has what agents and virtual clusters need.
fn capabilities() -> Finding {
    const NEEDED: [(&str, u32); 3] = [("NET_ADMIN", 12), ("SYS_ADMIN", 21), ("BPF", 39)];
    let status = read("/proc/self/status")?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .ok_or("/proc/self/status doesn't tell")?;
    let lacking: Vec<&str> =
        NEEDED.iter().filter(|(_, bit)| mask >> bit & 1 == 0).map(|(name, _)| *name).collect();
    if lacking.is_empty() {
        Ok("all capabilities needed".to_owned())
    } else {
        Err(format!("lacks {}", lacking.join(", ")))
    }
}

/// Runs a command in a network namespace of its own, which ends with it.
fn in_namespace(command: &str, arguments: &[&str]) -> Result<(), String> {
    let mut unshare = Command::new("unshare");
    unshare.arg("--net");
    if capabilities().is_err() {
        unshare.arg("--map-root-user");
    }
    let output = unshare
        .arg("--")
        .arg(command)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("unshare: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(first_line(&said).unwrap_or_else(|| format!("{command} failed")))
}

/// The first line of what `name --version` says.
fn version(name: &str) -> Finding {
    let output = Command::new(name)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|_| "not installed".to_owned())?;
    let said = String::from_utf8_lossy(&output.stdout);
    first_line(&said).ok_or_else(|| "doesn't tell its version".to_owned())
}

fn first_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

fn exists(path: &str) -> Finding {
    if Path::new(path).exists() { Ok(path.to_owned()) } else { Err(format!("no {path}")) }
}

fn read(path: &str) -> Finding {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text.trim_end().to_owned())
}
