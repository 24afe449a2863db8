//! Whatever dies: the right values or an error, in time.

use gather::pool::{Budget, Record};

use crate::cluster::{Client, Cluster, check, is_there};

/// Asks until all is found again, and never gets a wrong value.
async fn recovers(client: &mut Client, keys: &[String]) {
    let all = async {
        loop {
            if let Ok(found) = client.get(keys).await {
                check(&found);
                if found.len() == keys.len() {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(testing::wait::PATIENCE, all).await.expect("it never recovers");
}

#[tokio::test]
async fn a_hub_that_dies_costs_no_object() {
    if !is_there() {
        return;
    }
    for policy in ["name = \"sicc\"", "name = \"sicc\", hubs = 1", "name = \"sicc-joint\""] {
        let cluster = Cluster::start(policy, 3, 1, "straight_below = 2").await;
        let mut client = cluster.client().await;
        let keys = client.fill(400).await;
        // All hubs but one of each rack die, one after the other, while requests run.
        for hub in [0, 3, 6, 1, 4, 7] {
            let request = client.get(&keys);
            cluster.hubs[hub].abort();
            let found = request.await.unwrap();
            check(&found);
            assert_eq!(found.len(), keys.len(), "{policy}");
            let found = client.get(&keys).await.unwrap();
            check(&found);
            assert_eq!(found.len(), keys.len(), "{policy}");
        }
    }
}

#[tokio::test]
async fn without_any_hub_servers_are_asked() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start("name = \"sicc\"", 2, 1, "straight_below = 2").await;
    cluster.hubs.iter().for_each(tokio::task::JoinHandle::abort);
    let mut client = cluster.client().await;
    let keys = client.fill(100).await;
    let found = client.get(&keys).await.unwrap();
    check(&found);
    assert_eq!(found.len(), keys.len());
}

#[tokio::test]
async fn a_server_that_dies_is_an_error_or_another_copy() {
    if !is_there() {
        return;
    }
    for policy in ["one-all", "sw", "sw-ictcp", "sicc"].map(|name| format!("name = \"{name}\"")) {
        for copies in [1, 2] {
            let mut cluster = Cluster::start(&policy, 2, copies, "straight_below = 2").await;
            let mut client = cluster.client().await;
            let keys = client.fill(200).await;
            cluster.servers[1].process.kill().unwrap();
            cluster.servers[1].process.wait().unwrap();
            if copies == 2 {
                recovers(&mut client, &keys).await;
            } else {
                let said = client.get(&keys).await.unwrap_err();
                assert!(said.starts_with("SERVER_ERROR s1: "), "{said}");
            }
        }
    }
}

/// Whether every thread of a process has stopped.
fn has_stopped(process: &str) -> bool {
    let mut tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    // The state follows the name, which is in parentheses.
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    tasks.all(is_stopped)
}

#[tokio::test]
async fn a_server_that_stops_does_not_hang_clients() {
    if !is_there() {
        return;
    }
    for policy in ["name = \"one-all\"", "name = \"sicc\""] {
        let more = "straight_below = 2\ndeadline = \"500 ms\"";
        let cluster = Cluster::start(policy, 2, 1, more).await;
        let mut client = cluster.client().await;
        let keys = client.fill(200).await;
        let process = cluster.servers[1].process.id().to_string();
        let signal = |name: &str| {
            std::process::Command::new("kill").args([name, &process]).status().unwrap();
        };
        signal("-STOP");
        // Each of its threads takes the signal when it runs next.
        while !has_stopped(&process) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        // The answer comes while the server is stopped, or not at all.
        let said = client.get(&keys).await;
        signal("-CONT");
        let said = said.unwrap_err();
        assert!(said.starts_with("SERVER_ERROR "), "{said}");
        recovers(&mut client, &keys).await;
    }
}

#[tokio::test]
async fn memory_is_bounded() {
    if !is_there() {
        return;
    }
    // By all that there is, and by a client's share of it.
    for (memory, share, fit) in [(2, 2, 5), (8, 1, 3)] {
        let more = format!(
            "straight_below = 2\nmemory = \"{memory} MB\"\nshare = \"{share} MB\"\nitem = \"1 MB\""
        );
        let cluster = Cluster::start("name = \"one-all\"", 1, 1, &more).await;
        let mut client = cluster.client().await;
        let value = "x".repeat(300_000);
        let mut keys = Vec::new();
        for number in 0..10 {
            let key = format!("large-{number}");
            let set = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
            assert_eq!(client.say(&set).await, "STORED");
            keys.push(key);
        }
        assert_eq!(client.get(&keys).await.unwrap_err(), "SERVER_ERROR out of memory");
        // What was held is free again.
        assert_eq!(client.get(&keys[..fit]).await.unwrap().len(), fit);
    }
}

#[test]
fn what_is_held_of_a_part_is_held_of_the_whole() {
    let whole = Budget::new(1000);
    let (one, other) = (whole.part(600), whole.part(600));
    let held = one.take(500).unwrap();
    assert!(one.take(101).is_none());
    assert!(other.take(501).is_none());
    let more = other.take(500).unwrap();
    drop((held, more));
    // What was refused took nothing, and what was held is free again.
    assert!(whole.take(1000).is_some());
}

#[test]
fn what_was_done_is_said_however_full_the_memory() {
    let full = Budget::new(0);
    for line in ["STORED\r\n", "EN\r\n", ""] {
        assert!(Record::new(line.into(), &full).is_ok());
    }
    assert!(Record::new("VA 1\r\nx\r\n".into(), &full).is_err());
}
