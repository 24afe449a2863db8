//! What operators are told of what happened.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use testing::wait::settled;

use crate::daemon::{Agent, Daemon, SMSF, TLS, certificates, config, declare, get, revoke};

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

/// Who is shut out for good hears so, and ends.
#[tokio::test]
async fn who_follows_with_a_certificate_that_is_revoked_ends() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let certs = folder.path().join("certs");
    certificates(&certs, &["--viewer", "eyes", "--crl"]);
    let tls = TLS.replace("[tls]\n", "[tls]\ncrl = \"certs/ca.crl\"\n");
    let mut daemon = Daemon::start_in(folder, &config(&format!("{tls}{SMSF}")));
    let at = format!("https://{}", daemon.http);
    let follow = || {
        let mut follower = Command::new(env!("CARGO_BIN_EXE_watermaster"));
        follower.args(["events", "--follow", "--controller", &at]);
        for (option, file) in
            [("--ca", "ca.crt"), ("--certificate", "viewer-eyes.crt"), ("--key", "viewer-eyes.key")]
        {
            follower.arg(option).arg(certs.join(file));
        }
        follower.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut follower = follow();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    lines
        .find(|line| line.as_ref().unwrap().contains("controller ready"))
        .expect("it ends")
        .unwrap();
    revoke(&certs, "viewer-eyes.crt");
    daemon.signal("-HUP");
    let line = daemon.hears("connection ended");
    assert_eq!(line["by"], "viewer eyes", "{line}");
    let ended = settled(|| follower.try_wait().unwrap(), Option::is_some);
    if ended.is_none() {
        follower.kill().unwrap();
    }
    let said = follower.wait_with_output().unwrap();
    let why = String::from_utf8(said.stderr).unwrap();
    let reason = "it refuses our certificate: it has been revoked";
    assert!(ended.and_then(|how| how.code()) == Some(1) && why.contains(reason), "{why}");
    // As one does that begins with it.
    let again = follow().wait_with_output().unwrap();
    let why = String::from_utf8(again.stderr).unwrap();
    assert!(again.status.code() == Some(1) && why.contains(reason), "{why}");
}

/// Whoever follows goes on with the next controller, and is told that something may be missing.
#[tokio::test]
async fn who_follows_comes_back_to_a_controller_that_begins_anew() {
    let config = config(SMSF);
    let mut daemon = Daemon::start(&config);
    let at = daemon.address().to_string();
    let mut follower = Command::new(env!("CARGO_BIN_EXE_watermaster"))
        .args(["events", "--follow", "--controller", &at])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut begins = || {
        let mut said = lines.by_ref().map(Result::unwrap);
        said.find(|line| line.contains("controller ready")).expect("it ends")
    };
    let first = begins();
    daemon.kill();
    let daemon = Daemon::start_in(Arc::clone(&daemon.folder), &config);
    assert_ne!(begins(), first);
    follower.kill().unwrap();
    let mut said = String::new();
    follower.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    follower.wait().unwrap();
    assert_eq!(said.matches("events may be missing").count(), 1, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    drop(daemon);
}
