//! `watermaster lab` on this machine. Needs root; elsewhere the tests say why they do nothing.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use testing::needs::root;
use testing::wait::eventually;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/lab/two-shuffles.toml");

fn watermaster(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_watermaster")).args(words).output().unwrap()
}

fn done(words: &[&str]) -> String {
    let output = watermaster(words);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The namespaces of the lab `name`.
fn namespaces(name: &str) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return BTreeSet::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|entry| entry.starts_with(&format!("wm-{name}-"))).collect()
}

#[test]
fn init_makes_scenarios_that_run_in_the_lab() {
    if !root() {
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    // As it is made, but shorter.
    for (workload, short) in [
        ("shuffle", "workload.mean_bytes=1 MB"),
        ("incast", "seed=1"),
        ("stream", "until=2 s"),
        ("flows", "workload.duration=20 ms"),
    ] {
        let file = folder.path().join(format!("i{}-{workload}.toml", std::process::id()));
        let file = file.to_str().unwrap();
        done(&["init", file, "--workload", workload, "--world", "lab", "--hosts", "3", "--yes"]);
        let ran: serde_json::Value =
            serde_json::from_str(&done(&["run", file, "--json", "--set", short])).unwrap();
        let results = ran["results"].as_array().unwrap();
        assert!(results.len() >= 2, "{ran}");
        for result in results {
            let said =
                ["jobs_count", "throughput_tps"].map(|name| result["metrics"][name].as_f64());
            assert!(said.into_iter().flatten().any(|number| number > 0.0), "{workload}: {result}");
        }
    }
}

/// `ip netns exec` mounts /sys anew, without what was mounted below it.
#[test]
fn the_remedy_for_a_missing_cgroup2_works_in_a_namespace() {
    if !root() {
        return;
    }
    let name = format!("wm-tgroup{}", std::process::id());
    let ip = |words: &[&str]| Command::new("ip").args(words).status().unwrap().success();
    assert!(ip(&["netns", "add", &name]));
    // Mounts made there are nobody else's.
    let doctor = |before: &str| {
        // In a mount namespace without any cgroup v2.
        let bare = "for at in $(awk '$3 == \"cgroup2\" { print $2 }' /proc/mounts); do umount -l $at; done";
        let program = env!("CARGO_BIN_EXE_watermaster");
        let script = format!("{bare}; {before} ip netns exec {name} {program} doctor --json");
        let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let features = report["features"].as_array().unwrap();
        features.iter().find(|each| each["name"] == "agent cgroup2").unwrap().clone()
    };
    let missing = doctor("");
    let had = Path::new("/run/cgroup2").exists();
    let remedy = missing["remedy"].as_str().unwrap().split(", ").next().unwrap();
    let found = doctor(&format!("{remedy} &&"));
    if !had {
        let _ = std::fs::remove_dir("/run/cgroup2");
    }
    assert!(ip(&["netns", "delete", &name]));
    assert_eq!(missing["available"], false);
    assert_eq!(found["detail"], "mounted at /run/cgroup2", "{missing:#}");
}

#[test]
fn a_lab_is_built_entered_listed_and_removed() {
    if !root() {
        return;
    }
    let name = format!("tcli{}", std::process::id());
    let up = done(&["lab", "up", SCENARIO, "--name", &name]);
    assert!(up.contains("h0") && up.contains("10.0.0."), "{up}");
    assert_eq!(namespaces(&name).len(), 8);
    let listed: serde_json::Value =
        serde_json::from_str(&done(&["lab", "list", "--json"])).unwrap();
    let own = listed.as_array().unwrap().iter().find(|lab| lab["name"] == *name).unwrap();
    assert_eq!(own["state"], "up");
    let inside = done(&["lab", "shell", &name, "h0", "--", "ip", "-br", "address", "show", "eth0"]);
    assert!(inside.contains("10.0.0."), "{inside}");
    let twice = watermaster(&["lab", "up", SCENARIO, "--name", &name]);
    assert_eq!(twice.status.code(), Some(2));
    let nowhere = watermaster(&["lab", "shell", &name, "h9"]);
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("use one of h0, h1"));
    done(&["lab", "down", &name]);
    assert_eq!(namespaces(&name), BTreeSet::new());
    let again = watermaster(&["lab", "down", &name]);
    assert_eq!(again.status.code(), Some(2));
}

/// Building fails at its first step, as on a machine without `ip`.
#[test]
fn a_lab_that_cannot_be_built_ends_with_the_reason() {
    if !root() {
        return;
    }
    let name = format!("tnone{}", std::process::id());
    let up = Command::new(env!("CARGO_BIN_EXE_watermaster"))
        .args(["lab", "up", SCENARIO, "--name", &name])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&up.stderr);
    assert_eq!(up.status.code(), Some(1), "{error}");
    assert!(error.contains("install util-linux, iproute2"), "{error}");
    assert_eq!(watermaster(&["lab", "down", &name]).status.code(), Some(2), "nothing is left");
}

#[test]
fn what_a_killed_process_left_is_removed_by_down_or_by_the_next() {
    if !root() {
        return;
    }
    let name = format!("tkill{}", std::process::id());
    let foreign = format!("wm-{name}-x");
    assert!(Command::new("ip").args(["netns", "add", &foreign]).status().unwrap().success());
    let stays = BTreeSet::from([foreign.clone()]);
    let journal = Path::new("/run/watermaster/lab").join(format!("{name}.json"));
    let build = || {
        let mut building = Command::new(env!("CARGO_BIN_EXE_watermaster"));
        building.args(["lab", "up", SCENARIO, "--name", &name]);
        building.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    // SIGKILL: nothing of it can clean up.
    let kill = |mut building: Child| {
        building.kill().unwrap();
        building.wait().unwrap();
        assert!(
            journal.exists() || namespaces(&name) == stays,
            "what is made is written down first"
        );
    };
    let down = || {
        let down = watermaster(&["lab", "down", &name]);
        // Whoever has built a lab here since has removed what was half built.
        let error = String::from_utf8_lossy(&down.stderr);
        assert!(down.status.success() || error.contains("there is no lab"), "{error}");
        assert_eq!(namespaces(&name), stays);
    };
    for after in [5, 20, 40, 80, 120, 200] {
        let building = build();
        sleep(Duration::from_millis(after));
        kill(building);
        if journal.exists() && after % 40 == 0 {
            down();
        }
    }
    if journal.exists() {
        down();
    }
    // As soon as something of it is there, until once not all of it was.
    let was_half = (0..20).any(|_| {
        let mut building = build();
        assert!(eventually(|| {
            namespaces(&name).len() > 1 || building.try_wait().unwrap().is_some()
        }));
        kill(building);
        let count = namespaces(&name).len();
        if (2..9).contains(&count) {
            return true;
        }
        down();
        false
    });
    assert!(was_half, "whenever it was killed, all of it was there");
    let up = watermaster(&["lab", "up", SCENARIO, "--name", &name]);
    // Killed after it was complete it stands, and stays.
    let error = String::from_utf8_lossy(&up.stderr);
    assert!(up.status.success() || error.contains("there is a lab"), "{error}");
    assert_eq!(namespaces(&name).len(), 9);
    done(&["lab", "down", &name]);
    assert_eq!(namespaces(&name), stays);
    assert!(Command::new("ip").args(["netns", "delete", &foreign]).status().unwrap().success());
}
