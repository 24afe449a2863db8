//! What a machine must have for a test. Each test asks first, and ends where the answer is no.

use std::io::Write as _;
use std::panic::Location;
use std::path::PathBuf;
use std::process::Command;

/// Whether this is root. Otherwise says why the test is skipped; where the environment has
/// `CONFORMANCE`, nothing may be skipped.
#[track_caller]
#[must_use]
pub fn root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    is_root || skipped("network namespaces and BPF need root")
}

/// The same for the daemons of Open vSwitch.
#[track_caller]
#[must_use]
pub fn open_vswitch() -> bool {
    let found = Command::new("ovs-vswitchd").arg("--version").output().is_ok();
    found || skipped("there is no ovs-vswitchd; install openvswitch-switch")
}

/// A published trace, in the folder that the environment's `TRACES` names.
#[track_caller]
#[must_use]
pub fn trace(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("TRACES") else {
        skipped(&format!("TRACES names no folder in which {name} is"));
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    let found = path.exists() || skipped(&format!("{} is not there", path.display()));
    found.then_some(path)
}

/// Says why a test is skipped; `false`, so that the question can end with it.
#[track_caller]
pub fn skipped(why: &str) -> bool {
    assert!(std::env::var_os("CONFORMANCE").is_none(), "{why}");
    // Not by `eprintln`, which only shows where a test fails. In one piece: checks/test.sh looks for the line.
    let line = format!("skipped: {}: {why}\n", Location::caller().file());
    let _ = std::io::stderr().write_all(line.as_bytes());
    false
}
