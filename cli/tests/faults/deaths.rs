//! The daemons themselves die.

use std::time::Instant;

use lab::{Daemon, Enforcement};
use rustix::process::Signal;

use crate::application::Application;
use crate::cluster::{Cluster, LEASE, SLACK, Setup};
use crate::report::{note, seconds};

#[test]
#[ignore = "takes long: make faults"]
fn a_dead_controller_leaves_plain_tcp_within_the_lease() {
    let Some(mut cluster) = Cluster::up("ctl") else { return };
    let traffic = cluster.traffic();
    let entries = cluster.tables.entries();
    let mark = traffic.mark();
    cluster.daemons.end(Daemon::Controller, Signal::KILL).unwrap();
    traffic.stay_held(LEASE / 2, "what was granted stands without the controller");
    traffic.until_free("leases end");
    let freed = mark.at.elapsed();
    assert!(freed < LEASE + SLACK, "free after {freed:?}");
    assert_eq!(cluster.tables.entries(), entries, "switches go on as they were told");
    let returned = Instant::now();
    cluster.daemons.launch(Daemon::Controller).unwrap();
    traffic.until_held("a controller is back");
    let held = returned.elapsed();
    cluster.daemons.wait().unwrap();
    cluster.tables.until(&entries);
    assert_eq!(cluster.daemons.status().unwrap()["epoch"], 2);
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let (freed, held) = (seconds(freed), seconds(held));
    let seen = format!("plain TCP after {freed}, held again {held} after its return");
    note(1, "controller killed, back after the lease", &suffered, &seen);
}

/// A meter has no end of its own; the entry that leads to it has.
#[test]
#[ignore = "takes long: make faults"]
fn a_dead_controller_leaves_no_meter_in_the_way() {
    let setup = Setup { enforcement: Enforcement::Meters, ..Setup::default() };
    let Some(mut cluster) = Cluster::up_as("meters", &setup) else { return };
    let traffic = cluster.traffic();
    let forwarding = |entries: Vec<String>| -> Vec<String> {
        entries.into_iter().filter(|entry| entry.contains("table=1")).collect()
    };
    let entries = forwarding(cluster.tables.entries());
    let mark = traffic.mark();
    cluster.daemons.end(Daemon::Controller, Signal::KILL).unwrap();
    traffic.stay_held(LEASE / 2, "what was granted stands without the controller");
    traffic.until_free("entries that lead to meters end");
    let freed = mark.at.elapsed();
    assert!(freed < LEASE + SLACK, "free after {freed:?}");
    assert_eq!(forwarding(cluster.tables.entries()), entries, "packets go the same way");
    let returned = Instant::now();
    cluster.daemons.launch(Daemon::Controller).unwrap();
    traffic.until_held("a controller is back");
    let held = returned.elapsed();
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let (freed, held) = (seconds(freed), seconds(held));
    let seen = format!("unmetered after {freed}, metered again {held} after its return");
    note(3, "controller killed, where meters enforce", &suffered, &seen);
}

#[test]
#[ignore = "takes long: make faults"]
fn a_controller_that_returns_wipes_nothing_before_the_new_state_stands() {
    let lease = LEASE * 2;
    let Some(mut cluster) = Cluster::up_as("back", &Setup { lease, ..Setup::default() }) else {
        return;
    };
    let mut traffic = cluster.traffic();
    let entries = cluster.tables.entries();
    let mark = traffic.mark();
    let watch = cluster.tables.watch(&entries);
    // The application comes back last: the controller hears switches and agents before it.
    traffic.application = None;
    cluster.daemons.end(Daemon::Controller, Signal::KILL).unwrap();
    cluster.daemons.launch(Daemon::Controller).unwrap();
    cluster.daemons.wait().unwrap();
    let back = mark.at.elapsed();
    // Of a lease that is renewed three times in its length.
    assert!(back < lease * 2 / 3, "too late to tell: back after {back:?}");
    traffic.stay_held(back, "limits stand until the controller knows better");
    traffic.application = Some(Application::start(&cluster.controller(), &traffic.connections()));
    traffic.stay_held(lease * 3 / 2, "and the new ones take their place");
    let (looks, missing) = watch.end();
    assert!(looks > 10 && missing.is_empty(), "{looks} looks: {missing:#?}");
    cluster.tables.until(&entries);
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let seen =
        format!("back after {}, held all the time; {looks} looks at all entries", seconds(back));
    note(2, "controller killed, back within the lease", &suffered, &seen);
}

#[test]
#[ignore = "takes long: make faults"]
fn a_dead_agent_leaves_plain_tcp_and_the_next_one_adopts() {
    let Some(mut cluster) = Cluster::up("agent") else { return };
    let traffic = cluster.traffic();
    let mark = traffic.mark();
    cluster.daemons.end(Daemon::Agent, Signal::KILL).unwrap();
    traffic.stay_held(LEASE / 2, "what was granted stands without the agent");
    traffic.until_free("leases end in the kernel");
    let freed = mark.at.elapsed();
    assert!(freed < LEASE + SLACK, "free after {freed:?}");
    cluster.until(|status| status["agents"].as_array().is_some_and(Vec::is_empty));
    let returned = Instant::now();
    cluster.daemons.launch(Daemon::Agent).unwrap();
    traffic.until_held("an agent is back");
    let held = returned.elapsed();
    // And one that dies and is back at once.
    cluster.daemons.end(Daemon::Agent, Signal::KILL).unwrap();
    cluster.daemons.launch(Daemon::Agent).unwrap();
    traffic.stay_held(LEASE * 3 / 2, "the next one goes on from the maps");
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let (freed, held) = (seconds(freed), seconds(held));
    let seen = format!("plain TCP after {freed}, held again {held} after the next one's start");
    note(4, "agent killed", &suffered, &seen);
}
