//! The wall clock jumps.
//!
//! The machine's own is left alone: `libfaketime` stands between the daemons and the clock, and
//! changes what they read of the wall clock while they run, but not of the monotonic one. What the
//! kernel does for them, it does by its own clock, which a jump doesn't move.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lab::Daemon;
use rustix::process::Signal;

use crate::cluster::{Cluster, LEASE, SLACK, Setup};
use crate::report::{note, seconds};

#[test]
#[ignore = "takes long: make faults"]
fn a_jump_of_the_wall_clock_moves_nothing() {
    let Some(library) = library() else {
        testing::needs::skipped("there is no libfaketime; install faketime");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (program, offset) = (folder.path().join("watermaster"), folder.path().join("offset"));
    let script = format!(
        "#!/bin/sh\nexport LD_PRELOAD='{}' FAKETIME_TIMESTAMP_FILE='{}' FAKETIME_NO_CACHE=1 \
         FAKETIME_DONT_FAKE_MONOTONIC=1\nexec '{}' \"$@\"\n",
        library.display(),
        offset.display(),
        env!("CARGO_BIN_EXE_watermaster")
    );
    let jump = |to: &str| {
        let fresh = folder.path().join("fresh");
        fs::write(&fresh, to).unwrap();
        fs::rename(&fresh, &offset).unwrap();
    };
    jump("+0");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let setup = Setup { program, ..Setup::default() };
    let Some(mut cluster) = Cluster::up_as("clock", &setup) else { return };
    let traffic = cluster.traffic();
    let entries = cluster.tables.entries();
    let mark = traffic.mark();
    let before = [cluster.log("controller"), cluster.log("agent")];
    for to in ["+3650d", "-3650d"] {
        jump(to);
        traffic.stay_held(LEASE * 3 / 2, "a jump ends no lease");
    }
    // Nobody has lost anybody, and nothing was said about it.
    assert_eq!([cluster.log("controller"), cluster.log("agent")], before);
    assert_eq!(cluster.tables.entries(), entries);
    // And leases end when they should.
    let killed = traffic.mark();
    cluster.daemons.end(Daemon::Controller, Signal::KILL).unwrap();
    traffic.stay_held(LEASE / 2, "what was granted stands");
    jump("+3650d");
    traffic.until_free("leases end");
    let freed = killed.at.elapsed();
    assert!(freed < LEASE + SLACK, "free after {freed:?}");
    // The daemons did see it: what they log has the time of the wall clock.
    let (log, now) = (cluster.log("agent"), year(&before[1]));
    let logged: Vec<u32> = log.lines().map(year).collect();
    assert!(logged.iter().any(|year| year.abs_diff(now) == 10), "{logged:?}");
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let seen = format!(
        "no lease ended for {}; after a kill plain TCP in {}",
        seconds(killed.at - mark.at),
        seconds(freed)
    );
    note(10, "wall clock of both daemons +10 years, then −10 years", &suffered, &seen);
}

/// The year at the beginning of a log.
fn year(log: &str) -> u32 {
    let digits: String = log.chars().skip_while(|c| !c.is_ascii_digit()).take(4).collect();
    digits.parse().unwrap_or_else(|_| panic!("no year: {log}"))
}

fn library() -> Option<PathBuf> {
    let architecture = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = [format!("/usr/lib/{architecture}"), "/usr/lib64".into(), "/usr/lib".into()];
    let files = folders.iter().map(|folder| Path::new(folder).join("faketime/libfaketimeMT.so.1"));
    files.into_iter().find(|file| file.exists())
}
