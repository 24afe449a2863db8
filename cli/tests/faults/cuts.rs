//! Control channels are cut without anybody being told.

use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, LEASE, PATIENCE, SLACK};
use crate::report::{note, seconds};
use crate::switches::{gone, settled};

const CUT: Duration = Duration::from_secs(30);

/// The agent's channel stops passing anything on, and that of the switches loses its interface.
#[test]
#[ignore = "takes long: make faults"]
fn channels_cut_for_thirty_seconds_come_back() {
    let Some(cluster) = Cluster::up("cut") else { return };
    let traffic = cluster.traffic();
    let entries = cluster.tables.entries();
    let mark = traffic.mark();
    cluster.relay.cut();
    cluster.tables.run(&["ip", "link", "set", "lo", "down"]);
    traffic.stay_held(LEASE / 2, "what was granted stands");
    traffic.until_free("leases end");
    let freed = mark.at.elapsed();
    assert!(freed < LEASE + SLACK, "free after {freed:?}");
    cluster.until(gone);
    let noticed = mark.at.elapsed();
    thread::sleep(CUT.saturating_sub(mark.at.elapsed()));
    assert_eq!(cluster.tables.entries(), entries, "switches go on as they were told");
    let mended = Instant::now();
    cluster.tables.run(&["ip", "link", "set", "lo", "up"]);
    cluster.relay.mend();
    traffic.until_held("the agent is back");
    let held = mended.elapsed();
    cluster.until(settled);
    let back = mended.elapsed();
    assert!(held.max(back) < PATIENCE, "{held:?}, {back:?}");
    cluster.tables.until(&entries);
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let [freed, noticed, held, back] = [freed, noticed, held, back].map(seconds);
    let seen = format!(
        "plain TCP after {freed}, switches noted as gone after {noticed}; after its end held again \
         {held}, switches settled {back}"
    );
    note(7, "control channels of agent and switches cut for 30 s", &suffered, &seen);
}

/// Too short for either end to take the other for dead, but longer than a lease: the controller
/// must not go on believing in limits that have ended.
#[test]
#[ignore = "takes long: make faults"]
fn a_cut_that_nobody_notices_ends_leases_all_the_same() {
    let Some(cluster) = Cluster::up("short") else { return };
    let traffic = cluster.traffic();
    let mark = traffic.mark();
    cluster.relay.cut();
    traffic.until_free("leases end");
    let freed = mark.at.elapsed();
    thread::sleep((LEASE * 2).saturating_sub(freed));
    let mended = Instant::now();
    cluster.relay.mend();
    traffic.until_held("all is said anew");
    let held = mended.elapsed();
    assert!(cluster.log("agent").contains("the lease had ended"), "{}", cluster.log("agent"));
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let seen =
        format!("plain TCP after {}, held again {} after its end", seconds(freed), seconds(held));
    note(8, "control channel of the agent cut for two leases", &suffered, &seen);
}
