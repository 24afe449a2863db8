//! Switches lose their controller, and themselves.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cluster::{CONTROLLER, Cluster};
use crate::report::{note, seconds};

/// All switches that are as `wanted`.
fn all(status: &Value, wanted: impl Fn(&Value) -> bool) -> bool {
    status["switches"].as_array().is_some_and(|all| !all.is_empty() && all.iter().all(wanted))
}

pub fn settled(status: &Value) -> bool {
    all(status, |switch| switch["connected"] == true && switch["settled"] == true)
}

pub fn gone(status: &Value) -> bool {
    all(status, |switch| switch["connected"] == false)
}

/// Entries stay while the switches are on their own. What went wrong meanwhile is made right when
/// they are back: one that is missing is there again, one that is left over goes, and what others
/// wrote is left alone.
#[test]
#[ignore = "takes long: make faults"]
fn a_switch_without_its_controller_forwards_and_is_made_right_afterwards() {
    let Some(cluster) = Cluster::up("alone") else { return };
    let tables = &cluster.tables;
    let bridge = &tables.bridges[0];
    let foreign = "table=1,priority=7,cookie=0x1,udp,nw_dst=10.99.0.1,actions=drop";
    tables.order(bridge, &["add-flow", foreign]).unwrap();
    let traffic = cluster.traffic();
    let entries = tables.entries();
    let mark = traffic.mark();
    // Nobody listens there.
    tables.obey("tcp:127.0.0.1:1");
    cluster.until(gone);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(tables.entries(), entries, "switches go on as they were told");
    // An entry of the controller's that it doesn't know, with the cookie of one that it does.
    let raw = tables.raw();
    let question = raw.iter().find(|entry| entry.starts_with(&**bridge) && entry.contains("arp"));
    let question = question.expect("questions after addresses have entries");
    let cookie = question.split([' ', ',']).find(|word| word.starts_with("cookie=")).unwrap();
    let left = format!("table=1,priority=9,{cookie},udp,nw_dst=10.99.0.2,actions=drop");
    tables.order(bridge, &["add-flow", &left]).unwrap();
    // And one fewer.
    let (matched, _) = question.split_once(" actions=").unwrap();
    let matched = matched.split_once(cookie).unwrap().1.trim_start_matches([',', ' ']);
    tables.order(bridge, &["del-flows", &matched.replace(' ', ""), "--strict"]).unwrap();
    let hurt = tables.entries();
    assert!(hurt.len() == entries.len() && hurt != entries, "{hurt:#?}");
    let returned = Instant::now();
    tables.obey(CONTROLLER);
    cluster.until(settled);
    let back = returned.elapsed();
    tables.until(&entries);
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let seen = format!(
        "{} entries stay; settled {} after the channel was back, the missing one there, the one too many gone",
        entries.len(),
        seconds(back)
    );
    note(5, "switches disconnected and reconnected", &suffered, &seen);
}

#[test]
#[ignore = "takes long: make faults"]
fn a_restart_of_open_vswitch_stops_traffic_until_its_entries_are_back() {
    let Some(cluster) = Cluster::up("ovs") else { return };
    let traffic = cluster.traffic();
    let entries = cluster.tables.entries();
    let mut vswitchd = Vswitchd::of(&cluster);
    let mark = traffic.mark();
    vswitchd.kill();
    vswitchd.start();
    let down = mark.at.elapsed();
    cluster.tables.until(&entries);
    let back = mark.at.elapsed();
    cluster.until(settled);
    traffic.until_held("traffic is back");
    let suffered = traffic.since(&mark);
    let losses = suffered.losses;
    assert!(losses.lost > 0, "without it nothing forwards: {losses:?}");
    assert!(losses.outage < Duration::from_secs(10), "{losses:?}");
    let seen = format!(
        "started again after {}, {} entries back after {}",
        seconds(down),
        entries.len(),
        seconds(back)
    );
    note(6, "Open vSwitch (`ovs-vswitchd`) killed and started", &suffered, &seen);
}

/// The daemon that forwards, as the lab has started it.
struct Vswitchd {
    pid: Pid,
    group: PathBuf,
    namespace: String,
    words: Vec<String>,
    folder: PathBuf,
    child: Option<Child>,
}

impl Vswitchd {
    fn of(cluster: &Cluster) -> Self {
        let (group, pid) = (cluster.group(), cluster.vswitchd());
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        Self {
            pid: Pid::from_raw(pid.cast_signed()).unwrap(),
            group,
            namespace: cluster.tables.namespace.clone(),
            words: words.split_terminator('\0').map(str::to_owned).collect(),
            folder: cluster.folder.clone(),
            child: None,
        }
    }

    fn kill(&self) {
        kill_process(self.pid, Signal::KILL).unwrap();
        let stat = format!("/proc/{}/stat", self.pid.as_raw_nonzero());
        // Gone, or left for its maker to take note of.
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// In the lab's group, so that it ends with the lab.
    fn start(&mut self) {
        let script = "echo $$ > \"$1\" && shift && exec \"$@\"";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "sh"]).arg(self.group.join("cgroup.procs"));
        command.args(["ip", "netns", "exec", &self.namespace]).args(&self.words);
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, &self.folder);
        }
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        self.child = Some(child.unwrap());
    }
}

impl Drop for Vswitchd {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
