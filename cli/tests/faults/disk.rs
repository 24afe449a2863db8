//! The recorder's disk is full.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use lab::Daemon;
use rustix::process::Signal;

use crate::cluster::{Cluster, LEASE, Setup};
use crate::report::{note, seconds};

/// A disk of 64 KiB, in a mount namespace that ends with the controller.
#[test]
#[ignore = "takes long: make faults"]
fn a_full_disk_stops_the_recorder_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (program, disk) = (folder.path().join("watermaster"), folder.path().join("disk"));
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = controller ]; then\n\
         exec unshare --mount sh -c 'mount -t tmpfs -o size=64k none {0} && exec {1} \"$@\"' sh \"$@\"\n\
         fi\nexec {1} \"$@\"\n",
        disk.display(),
        env!("CARGO_BIN_EXE_watermaster")
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let setup = Setup { program, ..Setup::default() };
    let Some(mut cluster) = Cluster::up_as("disk", &setup) else { return };
    cluster.daemons.end(Daemon::Controller, Signal::TERM).unwrap();
    let recorder = format!("[recorder]\ndirectory = \"{}\"\n[limits]\n", disk.display());
    cluster.reword("controller.toml", "[limits]\n", &recorder);
    cluster.daemons.launch(Daemon::Controller).unwrap();
    cluster.daemons.wait().unwrap();
    let on = cluster.daemons.status().unwrap();
    let traffic = cluster.traffic();
    let mark = traffic.mark();
    assert_eq!(on["recorder"], "on");
    // Somebody else fills it.
    let process = format!("/proc/{}/root{}", cluster.pid("controller"), disk.display());
    let error = fs::write(format!("{process}/filler"), vec![0; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    cluster.until(|status| status["recorder"] == "stopped");
    let full = mark.at.elapsed();
    let status = cluster.daemons.status().unwrap();
    assert!(status["problems"].to_string().contains("recorder"), "{status:#}");
    assert!(cluster.log("controller").contains("No space left"), "{}", cluster.log("controller"));
    traffic.stay_held(LEASE * 3 / 2, "the controller goes on");
    // An agent that comes back is told all.
    cluster.daemons.end(Daemon::Agent, Signal::KILL).unwrap();
    cluster.daemons.launch(Daemon::Agent).unwrap();
    traffic.stay_held(LEASE * 3 / 2, "it goes on to decide");
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let seen = format!("full after {}; held all the time, the status tells", seconds(full));
    note(11, "disk of the recorder full", &suffered, &seen);
}
