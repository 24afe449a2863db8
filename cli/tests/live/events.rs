//! What operators are told of what happened.

use std::process::Command;

use serde_json::{Value, json};

use crate::daemon::{Agent, Daemon, SMSF, config, declare, get};

#[tokio::test]
async fn who_comes_goes_and_is_refused_is_told() {
    let daemon = Daemon::start(&config(SMSF));
    let mut client = daemon.client().await;
    let agent = Agent::connect(&daemon.address(), None, "h0", &[("h0", "10.0.0.1")], 0).await;
    let wrong = json!([{ "type": "job_end", "job": "none" }, { "type": "job_start", "job": "" }]);
    assert!(!declare(&mut client, "a", &wrong).await.0.is_success());
    drop(agent);
    let (mut after, mut seen) = (0, Vec::<Value>::new());
    // Each answer waits for more. Those who connect and who end are told by tasks of their own.
    let is_told = |seen: &[Value], what: &str| seen.iter().any(|event| event["message"] == what);
    while !["agent connected", "agent connection ended"].iter().all(|what| is_told(&seen, what)) {
        let told = get(&mut client, &format!("/v1/events?after={after}&wait=30")).await;
        let events = told["events"].as_array().unwrap();
        assert!(!events.is_empty(), "nothing more happens: {seen:?}");
        after = events.last().unwrap()["number"].as_u64().unwrap();
        seen.extend(events.iter().cloned());
    }
    let find = |what: &str| seen.iter().find(|event| event["message"] == what);
    assert_eq!(find("agent connected").unwrap()["fields"]["agent"], "h0");
    assert_eq!(find("application connected").unwrap()["fields"]["application"], "a");
    let refused = &find("declarations refused").unwrap()["fields"];
    assert_eq!(
        (&refused["application"], &refused["number"]),
        (&json!("a"), &json!("2")),
        "{refused}"
    );
    let at = daemon.address().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watermaster"));
    let shown = command.args(["events", "--controller", &at]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let line = shown.lines().find(|line| line.contains("agent connected")).unwrap();
    assert!(line.ends_with("INFO  agent connected  agent=\"h0\" channel=\"1\""), "{line}");
}
