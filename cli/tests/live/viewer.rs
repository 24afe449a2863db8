//! Who may see everything and change nothing.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use wire::client::{Address, Client};

use crate::daemon::{Daemon, SMSF, TLS, certificates, config, declare, get, shows};

const RECORDER: &str = "[recorder]\ndirectory = \"records\"\nsize = \"1 MB\"\n";

fn start(limits: &str) -> Daemon {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let who = ["--application", "a", "--application", "b", "--operator", "me", "--viewer", "eyes"];
    certificates(&folder.path().join("certs"), &who);
    Daemon::start_in(folder, &config(&format!("{TLS}{SMSF}{RECORDER}{limits}")))
}

async fn connect(daemon: &Daemon, who: &str) -> Client {
    let address = Address::Tls(daemon.http.clone());
    Client::connect(&address, Some(&shows(&daemon.path("certs"), who))).await.unwrap()
}

/// Two applications, each with a flow that leaves by the same link. They go when their clients do.
async fn declared(daemon: &Daemon) -> Vec<Client> {
    let mut clients = Vec::new();
    for (name, source) in [("a", "10.0.0.1:4001"), ("b", "10.0.0.1:4002")] {
        let mut client = connect(daemon, &format!("application-{name}")).await;
        let connection = json!({ "source": source, "destination": "10.0.0.2:80" });
        let said = json!([
            { "type": "job_start", "job": "j" },
            { "type": "flow_request", "job": "j", "flow": "1", "bytes": 1_000_000, "connection": connection },
        ]);
        assert_eq!(declare(&mut client, name, &said).await.0, StatusCode::OK);
        clients.push(client);
    }
    clients
}

/// A command with the certificate of the viewer.
fn command(daemon: &Daemon, words: &[&str]) -> Command {
    let file = |name: &str| daemon.path("certs").join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_watermaster"));
    command
        .args(words)
        .env("WATERMASTER_CONTROLLER", format!("https://{}", daemon.http))
        .env("WATERMASTER_CA", file("ca.crt"))
        .env("WATERMASTER_CERTIFICATE", file("viewer-eyes.crt"))
        .env("WATERMASTER_KEY", file("viewer-eyes.key"));
    command
}

/// Whatever the description names: what asks is answered as to an operator, all else is refused with the viewer's name and
/// what would be taken, and nothing has changed.
#[tokio::test]
async fn a_viewer_sees_everything_and_changes_nothing() {
    let daemon = start("");
    let mut applications = declared(&daemon).await;
    let (mut operator, mut viewer) =
        (connect(&daemon, "operator-me").await, connect(&daemon, "viewer-eyes").await);
    let description = get(&mut viewer, "/v1/openapi.json").await;
    let (mut seen, mut kept) = (0, 0);
    for (path, methods) in description["paths"].as_object().unwrap() {
        let path = path
            .replace("{application}", "a")
            .replace("{agent}", "h0")
            .replace("{job}", "j")
            .replace("{flow}", "1")
            .replace("{recording}", "epoch-000001");
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            if methods.get(method.as_str().to_lowercase()).is_none() {
                continue;
            }
            let body = json!({ "type": "freeze" }).to_string().into_bytes();
            let (status, said) = viewer.ask(method.clone(), &path, body).await.unwrap();
            // To act for an agent is more than a question.
            if method == Method::GET && !path.starts_with("/v1/agents/") {
                let (wanted, _) = operator.ask(Method::GET, &path, Vec::new()).await.unwrap();
                assert_eq!((status, wanted), (StatusCode::OK, StatusCode::OK), "{path}");
                seen += 1;
                continue;
            }
            assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
            let said: Value = serde_json::from_slice(&said).unwrap();
            let reason = said["error"]["reason"].as_str().unwrap();
            assert!(reason.starts_with("you are viewer eyes"), "{method} {path}: {reason}");
            let remedies = ["an operator", "application a", "agent h0"];
            let remedy = remedies.map(|of| format!("; show a certificate of {of}"));
            assert!(remedy.iter().any(|remedy| reason.ends_with(remedy)), "{path}: {reason}");
            kept += 1;
        }
    }
    assert_eq!((seen, kept), (14, 6));
    // Also of others, by name.
    let explained = get(&mut viewer, "/v1/explain/a/j/1").await;
    assert_eq!(explained["bottleneck"]["rivals"][0]["application"], "b", "{explained}");
    // What it was refused is neither done nor in the log of orders.
    assert_eq!(get(&mut operator, "/v1/orders").await["standing"], json!([]));
    let recordings = get(&mut operator, "/v1/recordings").await;
    assert_eq!(recordings["recordings"][0]["pinned"], json!(false), "{recordings}");
    assert_eq!(std::fs::read_to_string(daemon.path("state/audit.jsonl")).unwrap_or_default(), "");
    for client in &mut applications {
        client.get("/v1/health").await.unwrap();
    }
    assert_eq!(get(&mut operator, "/v1/jobs").await.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn commands_and_page_of_a_viewer_ask_and_order_nothing() {
    let daemon = start("");
    let _applications = declared(&daemon).await;
    let run = |words: &[&str]| -> Output { command(&daemon, words).output().unwrap() };
    for words in [&["status"][..], &["events"], &["explain", "a/j"], &["order", "list"]] {
        let output = run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for words in [&["order", "freeze"][..], &["recordings", "pin", "epoch-000001"]] {
        let output = run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        let wanted = "you are viewer eyes, who may only read; show a certificate of an operator";
        assert!(output.status.code() == Some(1) && said.contains(wanted), "{words:?}: {said}");
    }

    let mut page =
        command(&daemon, &["page"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(page.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let (host, key) = url.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut browser = Client::connect(&Address::Tcp(host.to_owned()), None).await.unwrap();
    for question in ["v1/status", "v1/flows", "v1/jobs", "v1/explain/a/j/1"] {
        browser.get(&format!("/{key}{question}")).await.unwrap();
    }
    let shown = String::from_utf8(browser.get(&format!("/{key}")).await.unwrap().to_vec()).unwrap();
    // It has nothing that orders.
    assert!(shown.contains("v1/status") && !shown.contains("v1/orders"), "the page orders");
    page.kill().unwrap();
    page.wait().unwrap();
}

/// An operator gets in whatever others take, a viewer doesn't.
#[tokio::test]
async fn viewers_take_no_place_that_is_kept_for_operators() {
    let daemon = start("[limits]\nconnections = 2\n");
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = connect(&daemon, "viewer-eyes").await;
        client.get("/v1/status").await.unwrap();
        held.push(client);
    }
    let address = Address::Tls(daemon.http.clone());
    let own = shows(&daemon.path("certs"), "viewer-eyes");
    let is_refused = match Client::connect(&address, Some(&own)).await {
        Ok(mut third) => third.get("/v1/status").await.is_err(),
        Err(_) => true,
    };
    assert!(is_refused, "it takes an operator's place");
    connect(&daemon, "operator-me").await.get("/v1/status").await.unwrap();
}
