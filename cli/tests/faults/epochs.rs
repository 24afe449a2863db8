//! Two controllers at a time.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lab::Daemon;
use rustix::process::Signal;
use serde_json::Value;
use wire::client::{Address, Client};

use crate::application::Application;
use crate::cluster::{CONTROLLER, Cluster, LEASE, PATIENCE, SLACK};
use crate::report::{note, seconds};
use crate::switches::settled;

/// The agent is led to a controller of an earlier epoch, which would hold both streams to a fraction
/// of what they have. Beside it the newer one has the switches, and then both have.
#[test]
#[ignore = "takes long: make faults"]
fn an_old_controller_is_refused_and_says_so() {
    let Some(mut cluster) = Cluster::up("epoch") else { return };
    // The lab's becomes the newer one.
    cluster.daemons.end(Daemon::Controller, Signal::KILL).unwrap();
    cluster.daemons.launch(Daemon::Controller).unwrap();
    cluster.daemons.wait().unwrap();
    let traffic = cluster.traffic();
    let entries = cluster.tables.entries();
    let old = Old::start(&cluster);
    let wrong = Application::start(&old.address, &traffic.connections());
    let mark = traffic.mark();
    cluster.relay.turn(&old.socket);
    // As long as the lease of the newer one lasts, and never what the old one says.
    traffic.stay_held(LEASE / 2, "the old one's word counts nothing");
    assert!(wrong.told() > 0, "it has wishes of its own");
    traffic.until_free("nobody renews");
    let freed = mark.at.elapsed();
    assert!(freed < LEASE + SLACK, "free after {freed:?}");
    let told = old.until(|status| problems(status).contains("epoch 2"));
    assert_eq!(told["epoch"], 1);
    let returned = Instant::now();
    cluster.relay.turn(&cluster.folder.join("controller.sock"));
    traffic.until_held("the newer one is heard again");
    let held = returned.elapsed();
    // Nor do switches obey it, whoever asks first: they know epochs by the number of the master.
    let watch = cluster.tables.watch(&entries);
    for bridge in &cluster.tables.bridges {
        cluster.tables.configure(&["set-controller", bridge, CONTROLLER, OLD]);
    }
    old.until(|status| problems(status).contains("obeys a controller of a later epoch than 1"));
    thread::sleep(Duration::from_secs(3));
    cluster.until(settled);
    drop((wrong, old));
    thread::sleep(Duration::from_secs(1));
    let (looks, missing) = watch.end();
    assert!(looks > 3 && missing.is_empty(), "{looks} looks: {missing:#?}");
    cluster.tables.obey(CONTROLLER);
    cluster.until(settled);
    cluster.tables.until(&entries);
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let seen = format!(
        "refused; plain TCP {} after the agent was led to it, its status tells; held again {} after \
         the way back; switches refuse it too, and no entry is missing",
        seconds(freed),
        seconds(held)
    );
    note(9, "an older controller beside a newer one", &suffered, &seen);
}

/// Where the old controller listens to switches.
const OLD: &str = "tcp:127.0.0.1:6663";

fn problems(status: &Value) -> String {
    status["problems"].to_string()
}

/// A controller with a state of its own, whose epoch is 1.
struct Old {
    child: Child,
    socket: PathBuf,
    address: Address,
}

impl Old {
    fn start(cluster: &Cluster) -> Self {
        let folder = cluster.folder.join("old");
        fs::create_dir(&folder).unwrap();
        let text = fs::read_to_string(cluster.folder.join("controller.toml")).unwrap();
        let text = text.replace("127.0.0.1:6653", "127.0.0.1:6663");
        // Other rates, which would show.
        let text = text.replace("rates = [", "rates = [\"1 Mbit/s\", \"1 Mbit/s\", ");
        let file = folder.join("controller.toml");
        fs::write(&file, text).unwrap();
        let log = File::create(folder.join("controller.out")).unwrap();
        let child = Command::new("ip")
            .args(["netns", "exec", &cluster.tables.namespace])
            .arg(env!("CARGO_BIN_EXE_watermaster"))
            .args(["controller", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let socket = folder.join("controller.sock");
        let old = Self { child, address: Address::Unix(socket.clone()), socket };
        let start = Instant::now();
        while !old.socket.exists() {
            assert!(start.elapsed() < PATIENCE, "it does not start");
            thread::sleep(Duration::from_millis(20));
        }
        old
    }

    fn status(&self) -> Option<Value> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = Client::connect(&self.address, None).await.ok()?;
            serde_json::from_slice(&client.get("/v1/status").await.ok()?).ok()
        })
    }

    #[track_caller]
    fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let status = self.status();
            if let Some(status) = status.as_ref().filter(|status| wanted(status)) {
                return status.clone();
            }
            assert!(start.elapsed() < PATIENCE, "its status stays {status:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
