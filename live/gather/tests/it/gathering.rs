//! Every way to gather brings every value, and nothing else.

use crate::cluster::{Cluster, check, is_there, value};

async fn gathers(policy: &str, copies: usize) {
    if !is_there() {
        return;
    }
    // No hub is lost, however slow the machine.
    let more = "straight_below = 2\npatience = \"10 s\"\ndeadline = \"15 s\"";
    let cluster = Cluster::start(policy, 3, copies, more).await;
    let mut client = cluster.client().await;
    let mut keys = client.fill(300).await;
    keys.extend((300..320).map(|number| format!("missing-{number}")));
    for _ in 0..3 {
        let found = client.get(&keys).await.unwrap();
        check(&found);
        assert_eq!(found.len(), 300);
    }
    // The same by meta commands on one connection, each answered in its place.
    let lines: String = keys.iter().map(|key| format!("mg {key} v k q\r\n")).collect();
    client.send(format!("{lines}mn\r\n").as_bytes()).await;
    for key in &keys[..300] {
        let value = value(key);
        assert_eq!(client.line().await, format!("VA {} k{key}", value.len()));
        assert_eq!(client.octets(value.len() + 2).await, format!("{value}\r\n").as_bytes());
    }
    assert_eq!(client.line().await, "MN");
    let stats = client.say("stats\r\n").await;
    assert!(stats.starts_with("STAT version"));
    let mut swarms = 0;
    loop {
        match client.line().await {
            line if line == "END" => break,
            line => {
                swarms = line.strip_prefix("STAT swarms ").map_or(swarms, |n| n.parse().unwrap());
                if let Some(lost) = line.strip_prefix("STAT hubs_lost ") {
                    assert_eq!(lost, "0");
                }
            }
        }
    }
    assert!(swarms >= 4, "{swarms}");
}

#[tokio::test]
async fn all_at_once() {
    gathers("name = \"one-all\"", 1).await;
}

#[tokio::test]
async fn in_a_window() {
    gathers("name = \"sw\"", 1).await;
}

#[tokio::test]
async fn in_a_window_that_looks_at_the_link() {
    gathers("name = \"sw-ictcp\"", 1).await;
}

#[tokio::test]
async fn through_hubs() {
    gathers("name = \"sicc\"", 1).await;
}

#[tokio::test]
async fn through_hubs_with_copies() {
    gathers("name = \"sicc-joint\"", 2).await;
}

#[tokio::test]
async fn through_a_tree_of_hubs() {
    gathers("name = \"sicc\", hubs = 1", 1).await;
}
