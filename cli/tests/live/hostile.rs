//! What no honest peer sends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::Connection;
use protocol::agent::{Command, Commands, PortCount, Report};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use units::Bytes;
use wire::client::{Address, Client, connect};

use crate::daemon::{
    Agent, Daemon, PATIENCE, SMSF, TLS, certificates, config, declare, get, shows,
};
use crate::switch::model;

const HOST: &[(&str, &str)] = &[("h0", "10.0.0.1")];

#[tokio::test]
async fn half_a_message_of_any_kind_hinders_nobody() {
    let daemon = Daemon::start(&config(SMSF));
    let mut held = Vec::new();
    for half in [
        &b"POST /v1/applications/a/declarations HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{\"type\":"[..],
        b"GET /v1/st",
        b"\x16\x03\x01",
    ] {
        let mut stream = TcpStream::connect(&daemon.http).await.unwrap();
        stream.write_all(half).await.unwrap();
        held.push(stream);
    }
    let mut switch = TcpStream::connect(daemon.openflow.as_ref().unwrap()).await.unwrap();
    switch.write_all(&[4, 0, 0]).await.unwrap();
    let mut agent = Agent::connect(&daemon.address(), None, "h0", HOST, 0).await;
    agent.write(b"{\"type\":\"opened\",").await;
    assert_eq!(daemon.get("/v1/health").await["epoch"], 1);
    // And when the other half never comes.
    drop((held, switch, agent));
    daemon.until("/v1/status", |status| status["connections"].as_u64() == Some(1)).await;
}

/// The operator's own way in stays open.
#[tokio::test]
async fn connections_from_the_network_take_none_of_the_sockets() {
    let daemon = Daemon::start(&config(&format!("[limits]\nconnections = 2\n{SMSF}")));
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(TcpStream::connect(&daemon.http).await.unwrap());
    }
    daemon.until("/v1/status", |status| status["connections"].as_u64() == Some(3)).await;
    // The network has no more.
    let mut third = TcpStream::connect(&daemon.http).await.unwrap();
    let mut octet = [0];
    let ended = tokio::time::timeout(PATIENCE, third.read(&mut octet));
    assert_eq!(ended.await.expect("the connection ends").unwrap_or(0), 0);
    let status = daemon.command(&["status", "--controller", &daemon.address().to_string()]);
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
}

#[tokio::test]
async fn an_agent_that_talks_nonsense_is_cut_off_alone() {
    let daemon = Daemon::start(&config(SMSF));
    let mut calm = Agent::connect(&daemon.address(), None, "h1", &[("h1", "10.0.0.2")], 0).await;
    calm.hear().await.unwrap();
    // One octet more than a line may have.
    let long = vec![b' '; (1 << 20) + 1];
    for nonsense in [&b"{}\n"[..], b"\xff\n", b"null\n", &long[..], b"{\"type\":\"applied\"}\n"] {
        let mut agent = Agent::connect(&daemon.address(), None, "h0", HOST, 0).await;
        agent.write(nonsense).await;
        let why = agent.last_word().await.expect("it is told why");
        assert!(why.starts_with("a line is "), "{why}");
    }
    let status =
        daemon.until("/v1/status", |status| status["agents"].as_array().unwrap().len() == 1);
    assert_eq!(status.await["agents"][0]["identity"], "h1");
}

/// However many connect to either port, and never say who they are.
#[tokio::test]
async fn who_says_nothing_keeps_nobody_out() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let certs = folder.path().join("certs");
    certificates(&certs, &["--operator", "me", "--switch", "s0"]);
    // Fewer places than are silent.
    let config = config(&format!("{TLS}[limits]\nconnections = 100\n{SMSF}"))
        .replace("openflow =", "openflow_tls =");
    for is_openflow in [false, true] {
        let daemon = Daemon::start_in(Arc::clone(&folder), &config);
        let (http, openflow) = (daemon.http.clone(), daemon.openflow.clone().unwrap());
        let mut silent = Vec::new();
        for _ in 0..300 {
            let port = if is_openflow { &openflow } else { &http };
            silent.push(TcpStream::connect(port).await.unwrap());
        }
        let is_told = |status: &serde_json::Value| {
            let mut problems = status["problems"].as_array().unwrap().iter();
            problems.any(|one| one.as_str().unwrap().contains("had not proved who they are"))
        };
        daemon.until("/v1/status", is_told).await;
        let (operator, switch) = (shows(&certs, "operator-me"), shows(&certs, "switch-s0"));
        let mut operator = Client::connect(&Address::Tls(http), Some(&operator)).await.unwrap();
        assert!(is_told(&get(&mut operator, "/v1/status").await));
        let switch = connect(&Address::Tls(openflow), Some(&switch)).await.unwrap();
        let switch = tokio::spawn(model(switch));
        daemon.until("/v1/status", |status| status["switches"][0]["connected"] == true).await;
        switch.abort();
        drop(silent);
    }
}

/// Whoever fails to prove who it is, as fast as it can, at either port.
#[tokio::test]
async fn who_can_not_prove_who_it_is_fills_no_log() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    certificates(&folder.path().join("certs"), &[]);
    let config = config(&format!("{TLS}{SMSF}")).replace("openflow =", "openflow_tls =");
    let daemon = Daemon::start_in(folder, &config);
    let openflow = daemon.openflow.clone().unwrap();
    for (port, told) in
        [(daemon.http.clone(), "connection ended"), (openflow, "switch connection ended")]
    {
        let (begun, mut tried, mut lines, mut untold) = (Instant::now(), 0, 0_u64, 0_u64);
        // Each has a line or counts in that of a later one, so that some come after the hundredth.
        while lines + untold < 100 {
            assert!(
                begun.elapsed() < PATIENCE,
                "of {tried}, {lines} lines and {untold} more are told"
            );
            let mut stream = TcpStream::connect(&port).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            // Closed or reset: it ends.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            tried += 1;
            for line in daemon.said().filter(|line| line["message"] == told) {
                lines += 1;
                untold += line["untold"].as_u64().unwrap_or_default();
            }
            let most = 2 + begun.elapsed().as_secs();
            assert!(lines <= most, "{lines} lines of {tried} at {told}, of {most} at most");
            if tried >= 100 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Escape sequences, lines of their own, invisible characters and those that turn the direction of text.
#[tokio::test]
async fn what_agents_and_tenants_say_steers_no_terminal() {
    let odd = "\u{1b}[2J\u{9b}31m\n\u{202e}\u{200b}";
    let daemon = Daemon::start(&config(SMSF));
    let at = daemon.address().to_string();
    let mut agent = Agent::connect(&daemon.address(), None, "h0", HOST, 0).await;
    let ports = vec![PortCount {
        node: odd.to_owned(),
        interface: "eth0".to_owned(),
        sent_bytes: Bytes::ZERO,
    }];
    agent.say(&Report::Ports { ports }).await;
    let Commands { epoch, sequence, .. } = agent.next().await.unwrap();
    let connection =
        Connection { source: ([10, 0, 0, 1], 7).into(), destination: ([10, 0, 0, 2], 80).into() };
    let command = Command::Pace { connection, rate_bps: None };
    agent.say(&Report::Failed { epoch, sequence, command, reason: odd.to_owned() }).await;
    let mut other = Agent::connect(&daemon.address(), None, "h1", &[("h1", "10.0.0.2")], 0).await;
    other.write(format!("{}\n", json!({ "type": odd })).as_bytes()).await;
    let mut client = daemon.client().await;
    let unknown = json!([{ "type": "job_complete", "job": odd }]);
    assert!(!declare(&mut client, "a", &unknown).await.0.is_success());
    let wanted = ["is no node that the agent acts for", "10.0.0.1:7", "its words can't be read"];
    let told = |status: &serde_json::Value, what: &str| {
        let problems = status["problems"].as_array().unwrap();
        problems.iter().any(|problem| problem.as_str().unwrap().contains(what))
    };
    daemon.until("/v1/status", |status| wanted.iter().all(|what| told(status, what))).await;
    for command in ["status", "events"] {
        let shown = daemon.command(&[command, "--controller", &at]).stdout;
        let shown = String::from_utf8(shown).unwrap();
        let steers = |line: &&str| line.contains(control::is_control);
        assert_eq!(shown.lines().filter(steers).collect::<Vec<_>>(), [""; 0], "{command}");
        // None of what was said begins a line.
        let forged = |line: &&str| line.starts_with(char::is_whitespace) || line.starts_with('[');
        assert_eq!(shown.lines().filter(forged).collect::<Vec<_>>(), [""; 0], "{command}");
    }
    let events = daemon.get("/v1/events").await.to_string();
    assert!(events.contains("declarations refused"), "{events}");
}

#[tokio::test]
async fn a_switch_that_talks_nonsense_is_cut_off() {
    let daemon = Daemon::start(&config(SMSF));
    for nonsense in
        [&[4_u8, 0, 0, 0, 0, 0, 0, 0][..], &[1, 0, 0, 8, 0, 0, 0, 1], &[4, 9, 0, 8, 0, 0, 0, 1]]
    {
        let mut stream = TcpStream::connect(daemon.openflow.as_ref().unwrap()).await.unwrap();
        stream.write_all(nonsense).await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest));
        // Closed or reset: it ends.
        let _ = ended.await.expect("the connection ends");
    }
    assert_eq!(daemon.get("/v1/health").await["epoch"], 1);
}

/// What the daemon answers until it closes the connection.
async fn answers(daemon: &Daemon, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(&daemon.http).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut said = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said));
    // Closed or reset: it ends.
    let _ = ended.await.expect("the connection ends");
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn a_request_that_can_not_be_is_refused_and_hinders_nobody() {
    let daemon = Daemon::start(&config(SMSF));
    let head = "POST /v1/applications/a/declarations HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let with = |body: &str| format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let size = |bytes: &str| {
        with(&format!(
            "[{{\"type\":\"job_start\",\"job\":\"j\"}},{{\"type\":\"flow_request\",\"job\":\"j\",\
             \"flow\":\"1\",\"bytes\":{bytes},\"connection\":{{\"source\":\"10.0.0.1:4001\",\
             \"destination\":\"10.0.0.2:80\"}}}}]"
        ))
    };
    assert!(
        answers(&daemon, size("7").as_bytes()).await.starts_with("HTTP/1.1 200 "),
        "a good one"
    );
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let bare = |more: &str| format!("{head}{more}\r\n\r\n{{}}");
    for (request, status) in [
        (bare(many.trim_end()), "431"),
        (with(&"[".repeat(100_000)), "400"),
        (with(&"{\"a\":".repeat(100_000)), "400"),
        (size("NaN"), "400"),
        (size("Infinity"), "400"),
        (size("1e400"), "422"),
        (size("-1"), "422"),
        (bare("content-length: 99999999999999999999"), "400"),
        (bare("content-length: 18446744073709551615"), "4"),
        (bare("content-length: -1"), "400"),
        (bare("content-length: 2\r\ncontent-length: 3"), "400"),
    ] {
        let said = answers(&daemon, request.as_bytes()).await;
        let shown: String = request.chars().take(300).collect();
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{shown}: {said}");
        assert_eq!(daemon.get("/v1/health").await["epoch"], 1, "{shown}");
    }
}

/// Two that read one connection must not find different requests in it: a proxy that goes by the length would take the
/// second one for a body.
#[tokio::test]
async fn nothing_is_read_after_a_body_of_two_lengths() {
    let daemon = Daemon::start(&config(SMSF));
    let (length, chunked) = ("content-length: 5\r\n", "transfer-encoding: chunked\r\n");
    for (lengths, read) in [
        (["", chunked], 2),
        ([length, chunked], 1),
        ([chunked, length], 1),
        ([chunked, chunked], 2),
    ] {
        let request = format!(
            "POST /v1/applications/a/declarations HTTP/1.1\r\nhost: x\r\n{}\r\n2\r\n[]\r\n0\r\n\r\n\
             GET /v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            lengths.concat()
        );
        let said = answers(&daemon, request.as_bytes()).await;
        assert_eq!(said.matches("HTTP/1.1 ").count(), read, "{said}");
        assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    }
}
