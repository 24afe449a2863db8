//! What operators order: by HTTP and by command, what it does, and what is written down.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use protocol::agent::Command as Told;
use serde_json::{Value, json};
use wire::client::{Address, Client};

use crate::daemon::{Agent, Daemon, PATIENCE, TLS, certificates, config, declare, get, shows};

const FIXED: &str = "[policy]\nname = \"static\"\nrates = [\"6 Mbit/s\"]\n";

async fn give(client: &mut Client, order: &Value) -> (StatusCode, Value) {
    post(client, order.to_string().into_bytes()).await
}

async fn post(client: &mut Client, body: Vec<u8>) -> (StatusCode, Value) {
    let (status, said) = client.ask(Method::POST, "/v1/orders", body).await.unwrap();
    (status, serde_json::from_slice(&said).unwrap())
}

/// The lines of the audit log.
fn audit(daemon: &Daemon) -> Vec<Value> {
    let text = std::fs::read_to_string(daemon.path("state/audit.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn a_flow() -> Value {
    json!([
        { "type": "job_start", "job": "j" },
        { "type": "flow_request", "job": "j", "flow": "1", "bytes": 1_000_000, "connection":
            { "source": "10.0.0.1:4001", "destination": "10.0.0.2:80" } },
    ])
}

/// Until the agent is told of a rate, or of its end.
async fn paced(agent: &mut Agent, wanted: bool) {
    let is_it = |command: &Told| matches!(command, Told::Pace { rate_bps, .. } if rate_bps.is_some() == wanted);
    let hear = async { while !agent.hear().await.unwrap().commands.iter().any(is_it) {} };
    tokio::time::timeout(PATIENCE, hear).await.expect("it is never told that");
}

#[tokio::test]
async fn orders_are_an_operators_and_are_written_down() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    certificates(&folder.path().join("certs"), &["--application", "a", "--operator", "me"]);
    let daemon = Daemon::start_in(folder, &config(&format!("{TLS}{FIXED}")));
    let certs = daemon.path("certs");
    let connect = async |who: &str| {
        let address = Address::Tls(daemon.http.clone());
        Client::connect(&address, Some(&shows(&certs, who))).await.unwrap()
    };
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &[("h0", "10.0.0.1")], 0).await;
    let (mut operator, mut application) =
        (connect("operator-me").await, connect("application-a").await);
    assert_eq!(declare(&mut application, "a", &a_flow()).await.0, StatusCode::OK);
    paced(&mut agent, true).await;

    let block = json!({ "type": "block", "application": "a", "reason": "it lies" });
    assert_eq!(give(&mut application, &block).await.0, StatusCode::FORBIDDEN);
    let asked = application.ask(Method::GET, "/v1/orders", Vec::new()).await.unwrap();
    assert_eq!(asked.0, StatusCode::FORBIDDEN);
    assert_eq!(audit(&daemon), Vec::<Value>::new());

    let (status, said) = give(&mut operator, &block).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    let stands = &said["standing"][0];
    assert_eq!((&stands["by"], &stands["order"]), (&json!("operator me"), &block));
    paced(&mut agent, false).await;
    let mut application = connect("application-a").await;
    let (status, said) = declare(&mut application, "a", &a_flow()).await;
    assert_eq!((status, &said["rest"]), (StatusCode::TOO_MANY_REQUESTS, &json!(0)), "{said}");
    let reason = said["reason"].as_str().unwrap();
    assert!(reason.contains("is blocked by operator me (it lies)"), "{said}");
    let (status, said) = give(&mut operator, &json!({ "type": "evict", "application": "a" })).await;
    let wrong = (status, &said["error"]["field"]);
    assert_eq!(wrong, (StatusCode::UNPROCESSABLE_ENTITY, &json!("application")));
    assert_eq!(get(&mut operator, "/v1/orders").await["standing"][0]["order"], block);

    let lines = audit(&daemon);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[0]["by"], &lines[0]["order"]), (&json!("operator me"), &block));
    assert_eq!(lines[0]["answer"], "done");
    let answer = lines[1]["answer"].as_str().unwrap();
    assert!(answer.starts_with("application: \"a\" has declared nothing"), "{answer}");
}

/// An application says all again on a new connection: that is how it hears that it was forgotten.
#[tokio::test]
async fn connections_end_of_whom_an_operator_ends_something() {
    let daemon = Daemon::start(&config(FIXED));
    let (mut operator, mut other) = (daemon.client().await, daemon.client().await);
    let start = json!({ "type": "job_start", "job": "j" });
    assert_eq!(declare(&mut other, "b", &start).await.0, StatusCode::OK);
    for order in [
        json!({ "type": "cancel", "application": "a", "job": "j" }),
        json!({ "type": "evict", "application": "a" }),
        json!({ "type": "block", "application": "a" }),
    ] {
        let mut application = daemon.client().await;
        let (status, said) = declare(&mut application, "a", &a_flow()).await;
        assert_eq!(status, StatusCode::OK, "{said}");
        let (status, said) = give(&mut operator, &order).await;
        assert_eq!(status, StatusCode::OK, "{said}");
        let ended =
            async { while application.ask(Method::GET, "/v1/health", Vec::new()).await.is_ok() {} };
        tokio::time::timeout(PATIENCE, ended).await.expect("its connection stays");
    }
    let asked = other.ask(Method::GET, "/v1/health", Vec::new()).await;
    assert_eq!(asked.unwrap().0, StatusCode::OK, "another's stays");
}

#[tokio::test]
async fn an_order_that_can_not_be_read_names_what_is_wrong() {
    let daemon = Daemon::start(&config(FIXED));
    let mut client = daemon.client().await;
    for (body, field) in [
        ("", "body"),
        ("[]", "body"),
        ("[\"thaw\"]", "body"),
        ("{}", "type"),
        ("{\"type\":\"melt\"}", "type"),
        ("{\"type\":\"block\"}", "application"),
        ("{\"type\":\"block\",\"application\":1}", "body"),
        ("{\"type\":\"thaw\",\"reason\":\"x\"}", "reason"),
        ("{\"type\":\"freeze\",\"reasons\":\"x\"}", "reasons"),
        ("{\"type\":\"freeze\",\"reason\":\"\\ud800\"}", "body"),
    ] {
        let (status, said) = post(&mut client, body.into()).await;
        assert_eq!(
            (status, &said["error"]["field"]),
            (StatusCode::BAD_REQUEST, &json!(field)),
            "{body}: {said}"
        );
        assert!(said["error"]["reason"].as_str().unwrap().contains("openapi.json"), "{said}");
    }
    let (status, _) = post(&mut client, vec![b' '; 1 << 20]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(audit(&daemon), Vec::<Value>::new());
}

/// By environment, and by a profile with certificates; what is said on the command line comes first.
#[tokio::test]
async fn commands_know_their_controller() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    certificates(&folder.path().join("certs"), &["--operator", "me"]);
    let daemon = Daemon::start_in(folder, &config(&format!("{TLS}{FIXED}")));
    let (socket, https) = (daemon.address().to_string(), format!("https://{}", daemon.http));
    std::fs::create_dir(daemon.path("watermaster")).unwrap();
    let profiles = format!(
        "[[profile]]\nname = \"main\"\ncontroller = [\"{https}\"]\ntls = {{ ca = \"../certs/ca.crt\", \
         certificate = \"../certs/operator-me.crt\", key = \"../certs/operator-me.key\" }}\n"
    );
    std::fs::write(daemon.path("watermaster/profiles.toml"), profiles).unwrap();
    let list = |more: &[&str], environment: &[(&str, &str)]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_watermaster"))
            .args(["order", "list"])
            .args(more)
            .env("XDG_CONFIG_HOME", daemon.path(""))
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
        (output.status.code(), said.concat())
    };
    let found = (Some(0), "no order stands\n".to_owned());
    let nowhere = ("WATERMASTER_CONTROLLER", "unix:/nowhere/at/all");
    let main = ("WATERMASTER_PROFILE", "main");
    assert_eq!(list(&[], &[("WATERMASTER_CONTROLLER", &socket)]), found);
    assert_eq!(list(&["--profile", "main"], &[]), found);
    assert_eq!(list(&[], &[main]), found);
    assert_eq!(list(&["--controller", &socket], &[nowhere, ("WATERMASTER_PROFILE", "x")]), found);
    assert_eq!(list(&["--profile", "main"], &[nowhere, ("WATERMASTER_CA", "x")]), found);
    let (code, said) = list(&[], &[("WATERMASTER_CA", "x")]);
    assert!(code == Some(2) && said.contains("set all of WATERMASTER_CA, "), "{said}");
    let (code, said) = list(&[], &[nowhere, main]);
    assert!(code == Some(1) && said.contains("/nowhere/at/all"), "{said}");
    let (code, said) = list(&["--profile", "x"], &[]);
    assert!(code == Some(2) && said.contains("has no profile \"x\", but: main"), "{said}");
    let bare = format!("[[profile]]\nname = \"main\"\ncontroller = \"{https}\"\n");
    std::fs::write(daemon.path("watermaster/profiles.toml"), bare).unwrap();
    let (code, said) = list(&[], &[main]);
    assert!(code == Some(2) && said.contains("needs certificates; add a [tls] table"), "{said}");
}

#[tokio::test]
async fn what_is_frozen_stays_so_over_a_restart_and_is_replayed() {
    let recorded = config(&format!("{FIXED}[recorder]\ndirectory = \"records\"\n"));
    let mut daemon = Daemon::start(&recorded);
    let socket = daemon.address().to_string();
    let order = |daemon: &Daemon, words: &[&str]| {
        let words = [&["order"], words, &["--controller", &socket]].concat();
        let output = daemon.command(&words);
        let both = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
        (output.status.code(), both.concat())
    };
    assert_eq!(order(&daemon, &["list"]), (Some(0), "no order stands\n".to_owned()));
    let (code, said) = order(&daemon, &["freeze", "--reason", "fire"]);
    assert!(code == Some(0) && said.starts_with("done\n"), "{said}");
    assert!(said.contains("the Unix socket") && said.contains("fire"), "{said}");
    let (code, said) = order(&daemon, &["drain", "h9"]);
    assert!(code == Some(1) && said.contains("host: \"h9\" is no host"), "{said}");
    let (code, said) = order(&daemon, &["cancel", "a"]);
    assert!(code == Some(2) && said.contains("write APPLICATION/JOB"), "{said}");
    let (code, said) = order(&daemon, &["cancel", "a/j/k"]);
    assert!(code == Some(1) && said.contains("application: "), "{said}");
    daemon.kill();

    let folder = Arc::clone(&daemon.folder);
    drop(daemon);
    let mut daemon = Daemon::start_in(Arc::clone(&folder), &recorded);
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &[("h0", "10.0.0.1")], 0).await;
    agent.hear().await.unwrap();
    assert!(declare(&mut daemon.client().await, "a", &a_flow()).await.0.is_success());
    let why = daemon.get("/v1/explain/a/j/1").await;
    let by = why["by"].as_str().unwrap();
    assert!(by.starts_with("nobody: decisions are frozen by the Unix socket (fire)"), "{by}");
    let status = daemon.command(&["status", "--controller", &socket]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("problem: DECISIONS ARE FROZEN"), "{status}");
    assert!(status.contains("freeze  everything  the Unix socket"), "{status}");
    assert_eq!(order(&daemon, &["thaw"]), (Some(0), "done\nno order stands\n".to_owned()));
    paced(&mut agent, true).await;

    // What can't be written is told as long as a restart would undo it, and written once it can be.
    let (state, away) = (folder.path().join("state"), folder.path().join("away"));
    std::fs::rename(&state, &away).unwrap();
    let (code, said) = order(&daemon, &["block", "b"]);
    assert!(code == Some(1) && said.contains("a restart undoes it"), "{said}");
    let is_told = |status: &Value| {
        let mut problems = status["problems"].as_array().unwrap().iter();
        problems.any(|problem| problem.as_str().unwrap().contains("a restart undoes it"))
    };
    daemon.until("/v1/status", is_told).await;
    std::fs::rename(&away, &state).unwrap();
    daemon.until("/v1/status", |status| !is_told(status)).await;
    let kept = std::fs::read_to_string(state.join("orders.json")).unwrap();
    assert!(kept.contains("block"), "{kept}");
    assert_eq!(order(&daemon, &["unblock", "b"]).0, Some(0));

    // What nobody knows can't be limited, and what is no rate limits nothing.
    let (code, said) = order(&daemon, &["limit", "nobody", "1 Mbit/s"]);
    assert!(code == Some(1) && said.contains("\"nobody\" has declared nothing; see"), "{said}");
    let (code, said) = order(&daemon, &["limit", "a", "50"]);
    assert!(code == Some(2) && said.contains("such as \"50 Mbit/s\""), "{said}");
    // A limit by hand ends by itself.
    let (code, said) = order(&daemon, &["limit", "a/j", "1 Mbit/s", "--for", "1 s"]);
    assert!(code == Some(0) && said.contains("a/j: 1.00 Mbit/s for 1 s "), "{said}");
    daemon.until("/v1/orders", |orders| orders["standing"] == json!([])).await;
    // Orders are written down one after another: this one after that end.
    assert_eq!(order(&daemon, &["unlimit", "a/j"]).0, Some(1));
    let audit = std::fs::read_to_string(state.join("audit.jsonl")).unwrap();
    let by_itself = |line: &str| line.contains("its time is over") && line.contains("unlimit");
    assert!(audit.lines().rev().nth(1).is_some_and(by_itself), "{audit}");
    daemon.signal("-TERM");
    assert!(daemon.wait().success());

    for epoch in 1..=2 {
        let file = folder.path().join(format!("records/epoch-00000{epoch}.000.record"));
        let replayed = daemon.command(&["replay", file.to_str().unwrap(), "--json", "-q"]);
        let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
        assert_eq!(replayed["differs_after"], Value::Null, "{replayed}");
        assert_eq!(replayed["unverified"], 0, "{replayed}");
    }
    // What can't be read is no order, and not nothing.
    std::fs::write(folder.path().join("state/orders.json"), "[{}]").unwrap();
    let file = folder.path().join("controller.toml");
    let refused = daemon.command(&["controller", "--config", file.to_str().unwrap()]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("orders.json: "), "{said}");
}
