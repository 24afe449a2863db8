//! Labs that a controller and an agent govern. Needs root; elsewhere the tests say why they do nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testing::needs::{open_vswitch, root};
use testing::wait::{eventually, settled};

/// A flow of 2.5 MB for each rate: 2.05 s at 10 Mbit/s, which a link of 20 Mbit/s carries in half the time.
const SCENARIO: &str = r#"
name = "held"
title = "A flow that is held"
world = "lab"
[topology]
kind = "star"
hosts = 3
access = { capacity = "20 Mbit/s", delay = "1 us", buffer = "50 packets" }
[transport]
protocol = "cubic"
min_rto = "200 ms"
handshake = true
[lab]
control = "daemons"
[workload]
kind = "jobs"
[[workload.job]]
flow = [{ from = "h0", to = "h1", size = "2500 kB" }]
[[policy]]
name = "static"
rates = ["10 Mbit/s"]
"#;
/// A policy more, which some labs have nobody for.
const AT_SWITCHES: &str = "[[policy]]\nname = \"sdtcp\"\n";
/// At 10 Mbit/s of frame bytes with 1460 of 1500 octets payload.
const HELD_S: f64 = 2.055;

fn scenario() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("held.toml");
    fs::write(&file, SCENARIO).unwrap();
    let file = file.display().to_string();
    (folder, file)
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watermaster"));
    command.args(words);
    command
}

fn done(words: &[&str]) -> String {
    let output = command(words).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs until the result `holds`: the load of others may spoil a run or two. What never holds is a defect,
/// unless each run tells that the machine was too slow.
#[track_caller]
fn holds(words: &[&str], holds: impl Fn(&Value) -> bool) {
    let mut disturbed = true;
    let shown = eventually(|| {
        let all: Value = serde_json::from_str(&done(words)).unwrap();
        let results = all["results"].as_array().unwrap();
        let kept_up = |own: &Value| own["notes"].to_string().contains("the machine kept up");
        disturbed &= !results.iter().all(kept_up);
        holds(&all["results"])
    });
    assert!(shown || disturbed, "{words:?} does not show it");
    if !shown {
        testing::needs::skipped("the machine was too slow in each run");
    }
}

#[track_caller]
fn refused(output: &Output, code: i32, why: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(error.contains(why), "{error}");
}

fn folder(lab: &str) -> PathBuf {
    Path::new("/run/watermaster/lab").join(lab)
}

/// What is written down of a lab.
fn journal(lab: &str) -> Option<Value> {
    let text = fs::read(folder(lab).with_extension("json")).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The process of a daemon of a lab, once there is one other than `before`.
#[track_caller]
fn process(lab: &str, daemon: &str, before: u32) -> u32 {
    let other = || {
        let group = journal(lab).and_then(|lab| lab["cgroup"].as_str().map(PathBuf::from));
        let members = group.map(|group| group.join(daemon).join("cgroup.procs"));
        let members = members.and_then(|members| fs::read_to_string(members).ok());
        let first = members.as_deref().and_then(|members| members.lines().next()?.parse().ok());
        first.filter(|pid| *pid != before)
    };
    settled(other, Option::is_some).unwrap_or_else(|| panic!("{lab} has no {daemon}"))
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
}

fn lives(pid: u32) -> bool {
    // A zombie has a state, but no command any more.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| !words.is_empty())
}

/// Nothing of a lab is left: processes, group, folder, mounts.
#[track_caller]
fn gone(lab: &str, group: &str, processes: &[u32]) {
    assert!(processes.iter().all(|pid| !lives(*pid)), "{processes:?}");
    assert!(!Path::new(group).exists() && !folder(lab).exists() && journal(lab).is_none());
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(&*folder(lab).to_string_lossy()), "{mounts}");
}

/// A run in the background.
fn begin(words: &[&str]) -> Child {
    command(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn what_no_daemon_could_do_is_refused_before_anything_is_made() {
    let (_folder, file) = scenario();
    let run = |more: &[&str]| {
        let words = [&["run", &file, "--json"], more].concat();
        command(&words).output().unwrap()
    };
    refused(&run(&["--set", "lab.enforcement=meters"]), 2, "switches = \"ovs\"");
    let direct = ["lab.enforcement=meters", "lab.switches=ovs", "lab.control=direct"];
    let direct = direct.map(|change| ["--set", change]).concat();
    refused(&run(&direct), 2, "control = \"daemons\"");
    refused(&run(&["--set", "lab.control=nobody"]), 2, "one of direct, daemons");
    // What acts at switches: in nobody's hands here, and there is nothing for an agent there.
    fs::write(&file, [SCENARIO, AT_SWITCHES].concat()).unwrap();
    refused(&run(&["--set", "lab.control=direct"]), 2, "control = \"daemons\" into [lab]");
    refused(&run(&["--set", "lab.switches=ovs"]), 2, "switches = \"bridge\" into [lab]");
}

#[test]
fn flows_are_held_to_what_the_controller_says() {
    if !root() {
        return;
    }
    let (_folder, file) = scenario();
    let took = |more: &[&str], seconds: std::ops::Range<f64>| {
        let words = [&["run", &file, "--policy", "static", "--json"], more].concat();
        holds(&words, |results| {
            let notes = results[0]["notes"].to_string();
            let by_daemons = notes.contains("controller and agent: 7 declarations taken");
            assert_eq!(by_daemons, !more.contains(&"lab.control=direct"), "{notes}");
            let took = results[0]["metrics"]["fct_mean_s"].as_f64().unwrap();
            // However busy the machine, the flow gets no more than its rate.
            assert!(took > seconds.start, "{took} s");
            took < seconds.end
        });
    };
    // The limit stands some milliseconds after the flow began.
    let paced = HELD_S * 0.9..HELD_S * 1.15;
    took(&[], paced.clone());
    // Its own pacing, without an agent, is held to the same.
    took(&["--set", "lab.control=direct"], paced.clone());
    if !open_vswitch() {
        return;
    }
    let ovs = ["--set", "lab.switches=ovs"];
    took(&ovs, paced);
    // A meter drops, so that TCP gets less than its rate, but never more.
    let metered = HELD_S * 0.9..f64::INFINITY;
    took(&[&ovs[..], &["--set", "lab.enforcement=meters"]].concat(), metered);
}

/// The scenario with half of its bytes: alone its small job takes 1.03 s.
#[test]
fn whose_level_is_lower_goes_first_through_the_switch() {
    if !root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("priorities.toml").display().to_string();
    let whole = fs::read_to_string("../scenarios/lab/priorities.toml").unwrap();
    let halves =
        [("\"15 MB\"", "\"7500 kB\""), ("\"5 MB\"", "\"2500 kB\""), ("\"2 s\"", "\"1 s\"")];
    let half = halves.iter().fold(whole, |text, (all, half)| {
        assert!(text.contains(all), "no {all}");
        text.replace(all, half)
    });
    fs::write(&file, half).unwrap();
    let words = ["run", &file, "--world", "lab", "--json"];
    holds(&words, |results| {
        let took = |policy: &str| {
            let mut all = results.as_array().unwrap().iter();
            let own = all.find(|own| own["policy"] == policy).unwrap();
            own["metrics"]["jct_mean_small_s"].as_f64().unwrap()
        };
        let (first, equal, last) = (took("small-first"), took("tcp"), took("large-first"));
        // The large one has two seconds to go when the small one comes.
        (0.95..1.3).contains(&first) && equal > 1.3 * first && last > 2.5
    });
}

/// The goodput of a paced flow and its rate, as the run itself reports them.
#[test]
fn a_run_says_what_a_flow_got_of_its_rate() {
    if !root() {
        return;
    }
    let (_folder, file) = scenario();
    for control in ["lab.control=daemons", "lab.control=direct"] {
        let words = ["run", &file, "--policy", "static", "--json", "--set", control];
        holds(&words, |results| {
            let rates = results[0]["rates"].as_array().unwrap();
            assert_eq!(rates.len(), 1, "{results:#}");
            let rate = rates[0]["rate_bps"].as_f64().unwrap();
            assert!((9_999_000.0..=10_000_000.0).contains(&rate), "{rates:?}");
            let ratio = rates[0]["ratio"].as_f64().unwrap();
            let times = ["limited_s", "counted_s"].map(|key| rates[0][key].as_f64().unwrap());
            assert!(times[1] <= times[0], "{rates:?}");
            (0.97..1.03).contains(&ratio) && times[1] > 1.0 && times[0] < HELD_S * 1.15
        });
    }
}

#[test]
fn daemons_go_with_their_lab_even_when_everybody_was_killed() {
    if !root() {
        return;
    }
    let (_folder, file) = scenario();
    let name = format!("tdaemons{}", std::process::id());
    let up = done(&["lab", "up", &file, "--name", &name, "--json"]);
    let up: Value = serde_json::from_str(&up).unwrap();
    let status = done(&["status", "--controller", up["controller"].as_str().unwrap(), "--json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["agents"][0]["hosts"].as_array().unwrap().len(), 4, "{status:#}");
    assert_eq!(status["problems"], Value::Array(Vec::new()));
    let group = journal(&name).unwrap()["cgroup"].as_str().unwrap().to_owned();
    let (controller, agent) = (process(&name, "controller", 0), process(&name, "agent", 0));
    // What it has pinned stays mounted.
    kill(agent);
    assert!(lives(controller));
    done(&["lab", "down", &name]);
    gone(&name, &group, &[controller, agent]);

    // A run that is killed leaves its daemons; whoever removes the lab ends them, and nobody must know its
    // name.
    let mut run = begin(&["run", &file, "--policy", "static", "--json"]);
    let name = format!("run{}", run.id());
    let (controller, agent) = (process(&name, "controller", 0), process(&name, "agent", 0));
    run.kill().unwrap();
    run.wait().unwrap();
    let group = journal(&name).unwrap()["cgroup"].as_str().unwrap().to_owned();
    let listed: Value = serde_json::from_str(&done(&["lab", "list", "--json"])).unwrap();
    let listed = listed.as_array().unwrap().iter().find(|lab| lab["name"] == *name);
    // Who builds a lab meanwhile has removed it.
    assert!(listed.is_none_or(|lab| lab["state"] == "orphaned"), "{listed:?}");
    done(&["lab", "down"]);
    gone(&name, &group, &[controller, agent]);
}

#[test]
fn a_daemon_that_dies_in_a_run_is_told_of_with_its_last_words() {
    if !root() {
        return;
    }
    let (_folder, file) = scenario();
    // So long that it is still running when a flow is seen; it goes on when its controller has died.
    let long = SCENARIO.replace("2500 kB", "12 MB");
    fs::write(&file, long).unwrap();
    let name = format!("tdies{}", std::process::id());
    done(&["lab", "up", &file, "--name", &name]);
    let first = process(&name, "controller", 0);
    let run = begin(&["lab", "run", &name, "--policy", "static", "--json"]);
    // Another one, with the run's policy, in the place of the first.
    let second = process(&name, "controller", first);
    let socket = format!("unix:{}", folder(&name).join("controller.sock").display());
    let flows = || {
        let output = command(&["top", "--controller", &socket, "--json"]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout)
            .map_or(0, |seen| seen["flows"].as_array().unwrap().len())
    };
    assert!(eventually(|| flows() > 0), "{name}: no flow is declared");
    kill(second);
    let output = run.wait_with_output().unwrap();
    refused(&output, 1, "the controller has ended");
    refused(&output, 1, "controller ready");
    // The next one begins anew.
    fs::write(&file, [SCENARIO, AT_SWITCHES].concat()).unwrap();
    let again = done(&["lab", "run", &name, "--policy", "sdtcp", "--json"]);
    assert!(again.contains("fct_mean_s"), "{again}");
    done(&["lab", "down", &name]);
}

#[test]
fn a_switch_that_dies_in_a_run_is_named() {
    if !root() || !open_vswitch() {
        return;
    }
    let (_folder, file) = scenario();
    // So long that it is still running when it has begun.
    fs::write(&file, SCENARIO.replace("2500 kB", "60 MB")).unwrap();
    let name = format!("tends{}", std::process::id());
    let direct = ["--set", "lab.control=direct", "--set", "lab.switches=ovs"];
    done(&[&["lab", "up", &file, "--name", &name], &direct[..]].concat());
    let run = begin(&["lab", "run", &name, "--policy", "static", "--json"]);
    let host = kernel::Namespace::named(&format!("wm-{name}-h0")).unwrap();
    let counters = || Ok(fs::read_to_string("/proc/thread-self/net/dev").unwrap());
    let sent = || host.visit(counters).unwrap();
    let first = sent();
    let of = |text: &str| -> u64 {
        let line = text.lines().find(|line| line.trim_start().starts_with("eth0:")).unwrap();
        line.split_whitespace().nth(9).unwrap().parse().unwrap()
    };
    assert!(eventually(|| of(&sent()) > of(&first) + 1_000_000), "{name}: nothing is sent");
    let control = folder(&name).join("ovs-vswitchd.ctl");
    let ends = Command::new("ovs-appctl").arg("--target").arg(control).arg("exit").status();
    assert!(ends.unwrap().success());
    refused(&run.wait_with_output().unwrap(), 1, "ovs-vswitchd has ended");
    done(&["lab", "down", &name]);
}

/// Live `sdtcp` from end to end: a queue passes its threshold, the controller is told and answers, and
/// the kernel writes the window into an acknowledgement that passes.
#[test]
fn a_queue_that_fills_ends_in_a_capped_acknowledgement() {
    if !root() {
        return;
    }
    // How long it takes is the machine's; that an answer comes, and its parts follow each other, is ours. With
    // precedence a busy machine answers within some bursts, else perhaps within none, which the report tells.
    let delay = || {
        let output = Command::new("chrt")
            .args(["-f", "50", env!("CARGO_BIN_EXE_watermaster")])
            .args(["lab", "delay", "--rounds", "5", "--json"])
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let none = report["unanswered"] == report["bursts"];
        assert_eq!(output.status.success(), !none, "{report:#}");
        let parts = report["parts"].as_array().unwrap();
        assert_eq!(parts.len(), 6, "{report:#}");
        assert!(parts.iter().all(|part| part["median_ns"].as_u64() <= part["p99_ns"].as_u64()));
        let median = |name: &str| {
            let mut parts = parts.iter();
            let part = parts.find(|part| part["part"].as_str().unwrap().contains(name)).unwrap();
            assert_eq!(part["median_ns"].is_null(), part["rounds"] == 0, "{report:#}");
            part["median_ns"].as_u64()
        };
        let rising = [
            "the decision",
            "notice to commands back",
            "threshold to the first capped acknowledgement",
        ];
        rising.map(median)
    };
    let holds = |medians: &[Option<u64>; 3]| {
        medians[0].is_some() && medians[1].is_some() && medians.is_sorted_by(|a, b| a < b)
    };
    let medians = settled(delay, holds);
    assert!(holds(&medians), "{medians:?} ns");
}

/// Sends to everybody who connects, for as long as they read.
const SENDER: &str = "
import socket, threading
server = socket.create_server(('0.0.0.0', 13562))
print('ready', flush=True)
while True:
    peer, _ = server.accept()
    def serve(peer=peer):
        try:
            while True:
                peer.sendall(bytes(65536))
        except OSError:
            pass
    threading.Thread(target=serve, daemon=True).start()
";
/// Fetches from the address that it is given, and says as which process.
const FETCHER: &str = "
import os, socket, sys
print(os.getpid(), flush=True)
peer = socket.create_connection((sys.argv[1], 13562))
while peer.recv(65536):
    pass
";

/// A Python program on a host of a lab; killed when dropped.
struct OnHost {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl OnHost {
    fn start(lab: &str, host: &str, program: &str, argument: &str) -> Self {
        let words = ["lab", "shell", lab, host, "--", "python3", "-c", program, argument];
        let mut child = command(&words).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for OnHost {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two reduces on one host, as of Hadoop: nobody knows the ports of their ends, and one address and port
/// sends to both. Each gets its own rate in the kernel, because the receiver's agent knows whose socket is
/// whose.
#[test]
fn connections_of_two_processes_are_held_each_to_its_own_rate() {
    if !root() {
        return;
    }
    let (_folder, file) = scenario();
    let rates = SCENARIO.replace("[\"10 Mbit/s\"]", "[\"6 Mbit/s\", \"2 Mbit/s\"]");
    fs::write(&file, rates).unwrap();
    let lab = format!("tjoins{}", std::process::id());
    let up = done(&["lab", "up", &file, "--name", &lab, "--policy", "static", "--json"]);
    let up: Value = serde_json::from_str(&up).unwrap();
    let address = up["controller"].as_str().unwrap();
    let status = done(&["status", "--controller", address, "--json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["policy"], "static");

    let of = |host: &str| {
        let words = ["lab", "shell", &lab, host, "--", "hostname", "-I"];
        done(&words).split_whitespace().next().unwrap().to_owned()
    };
    let (source, destination) = (of("h0"), of("h1"));
    let mut sender = OnHost::start(&lab, "h0", SENDER, "");
    assert_eq!(sender.line(), "ready");
    let mut fetchers = [(); 2].map(|()| OnHost::start(&lab, "h1", FETCHER, &source));
    let ends =
        json!({ "source": format!("{source}:13562"), "destination": format!("{destination}:0") });
    let mut declared = vec![json!({ "type": "job_start", "job": "sort" })];
    let pids = fetchers.each_mut().map(|fetcher| fetcher.line().parse::<u32>().unwrap());
    declared.extend(pids.iter().zip(["fast", "slow"]).map(|(pid, flow)| {
        let processes = json!({ "destination": { "pid": pid } });
        json!({ "type": "flow_request", "job": "sort", "flow": flow, "connection": ends, "processes": processes })
    }));
    let body = Value::from(declared).to_string();
    let mut application = UnixStream::connect(address.strip_prefix("unix:").unwrap()).unwrap();
    write!(
        application,
        "POST /v1/applications/engine/declarations HTTP/1.1\r\nHost: lab\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let explained = |flow: &str| -> Value {
        let output = command(&[
            "explain",
            &format!("engine/sort/{flow}"),
            "--controller",
            address,
            "--json",
        ])
        .output()
        .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    // A busy machine may give less than the rate, but never more.
    let goes = |flow: &str, rate: u64| {
        let shown = settled(
            || explained(flow),
            |shown| {
                let measured = shown["flow"]["measured_bps"].as_u64().unwrap_or(0);
                shown["flow"]["enforced_bps"] == rate && (rate / 2..rate).contains(&measured)
            },
        );
        let measured = shown["flow"]["measured_bps"].as_u64().unwrap();
        let is_held = shown["flow"]["enforced_bps"] == rate && (1..rate).contains(&measured);
        assert!(is_held, "{shown:#}");
        assert_eq!(shown["by"], "agent lab, by pacing", "{shown:#}");
        shown["flow"]["carriers"].as_array().unwrap().clone()
    };
    let (fast, slow) = (goes("fast", 6_000_000), goes("slow", 2_000_000));
    assert!(fast.len() == 1 && slow.len() == 1 && fast != slow, "{fast:?} {slow:?}");

    // One dies without a word: nothing of its flow is in force, and the other's limit stands.
    let dies = |flow: &str, pid| {
        kill(pid);
        let gone = settled(|| explained(flow), |shown| shown["flow"]["carriers"] == json!([]));
        assert_eq!(gone["flow"]["enforced_bps"], Value::Null, "{gone:#}");
        assert_eq!(gone["by"], "nobody yet: no agent has seen a connection of it yet", "{gone:#}");
    };
    dies("slow", pids[1]);
    assert_eq!(goes("fast", 6_000_000), fast);
    // And the last that there was.
    dies("fast", pids[0]);
    drop((sender, fetchers));
    done(&["lab", "down", &lab]);
}
