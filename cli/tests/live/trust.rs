//! Who gets in, and what each may do.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use protocol::agent::Command as Told;
use serde_json::{Value, json};
use units::{Rate, Span};
use wire::client::{Address, Client};

use crate::daemon::{
    Agent, Daemon, PATIENCE, SMSF, TLS, certificates, config, declare, get, revoke, shows,
};

fn start() -> Daemon {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let who = ["--application", "a", "--application", "b", "--agent", "h0", "--operator", "me"];
    certificates(&folder.path().join("certs"), &who);
    let limits = "[limits]\nconnections_per_identity = 3\n";
    Daemon::start_in(folder, &config(&format!("{TLS}{limits}{SMSF}")))
}

#[tokio::test]
async fn a_reload_changes_parameters_lease_limits_and_certificates() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let (certs, fresh_certs) = (folder.path().join("certs"), folder.path().join("fresh"));
    for folder in [&certs, &fresh_certs] {
        certificates(folder, &["--application", "a"]);
    }
    let fixed = |rate: &str| format!("{TLS}[policy]\nname = \"static\"\nrates = [\"{rate}\"]\n");
    let mut daemon = Daemon::start_in(folder, &config(&fixed("6 Mbit/s")));
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &[("h0", "10.0.0.1")], 0).await;
    let mut client = daemon.client().await;
    let declared = json!([
        { "type": "job_start", "job": "j" },
        { "type": "flow_request", "job": "j", "flow": "1", "bytes": 1_000_000, "connection":
            { "source": "10.0.0.1:4001", "destination": "10.0.0.2:80" } },
    ]);
    assert!(declare(&mut client, "a", &declared).await.0.is_success());
    // Renewals would be heard without end.
    let paced = async |agent: &mut Agent, rate| {
        let wanted = |command: &Told| matches!(command, Told::Pace { rate_bps, .. } if *rate_bps == Some(rate));
        let hear = async {
            loop {
                let commands = agent.hear().await.unwrap();
                if commands.commands.iter().any(wanted) {
                    break commands.lease_ns;
                }
            }
        };
        tokio::time::timeout(PATIENCE, hear).await.expect("it is never told that rate")
    };
    assert_eq!(paced(&mut agent, Rate::from_mbps(6)).await, control::LEASE);

    let more = "[control]\nlease = \"5 s\"\n[limits]\njobs = 1\nrequest = \"500 B\"\n";
    std::fs::write(daemon.path("controller.toml"), config(&(fixed("2 Mbit/s") + more))).unwrap();
    for file in ["ca.crt", "controller-main.crt", "controller-main.key"] {
        std::fs::copy(fresh_certs.join(file), certs.join(file)).unwrap();
    }
    // Of the authority before.
    let before = shows(&certs, "application-a");
    daemon.signal("-HUP");
    let line = daemon.hears("configuration read again");
    assert_eq!(line["restart"], Value::Null, "{line}");
    assert_eq!(paced(&mut agent, Rate::from_mbps(2)).await, Span::from_secs(5));
    let (status, said) =
        declare(&mut client, "a", &json!({ "type": "job_start", "job": "k" })).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{said}");
    let long = json!({ "type": "job_start", "job": "j".repeat(500) });
    assert_eq!(declare(&mut client, "a", &long).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let address = Address::Tls(daemon.http.clone());
    assert!(refused(&address, before).await);
    assert!(!refused(&address, shows(&fresh_certs, "application-a")).await);
}

#[tokio::test]
async fn who_shows_no_certificate_of_the_authority_is_refused() {
    let daemon = start();
    let address = Address::Tls(daemon.http.clone());
    // Plain HTTP to a port that speaks TLS.
    let plain = Client::connect(&Address::Tcp(daemon.http.clone()), None)
        .await
        .unwrap()
        .get("/v1/health")
        .await;
    assert!(plain.is_err());
    // No certificate at all.
    let certs = daemon.path("certs");
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(certs.join("ca.crt")).unwrap();
    use rustls::pki_types::pem::PemObject as _;
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let nobody = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    assert!(refused(&address, std::sync::Arc::new(nobody)).await);
    // A certificate of the same name, of another authority.
    let other = daemon.path("other");
    certificates(&other, &["--application", "a"]);
    std::fs::copy(certs.join("ca.crt"), other.join("ca.crt")).unwrap();
    assert!(refused(&address, shows(&other, "application-a")).await);
    // The right one.
    assert!(!refused(&address, shows(&certs, "application-a")).await);
}

/// Who listens with the certificate of somebody else, though it is of the same authority, is told nothing.
#[tokio::test]
async fn who_is_no_controller_is_not_obeyed() {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path(), &["--application", "a", "--agent", "h0", "--operator", "me"]);
    let connect = async |name: &str| {
        let file = |ending: &str| folder.path().join(format!("{name}.{ending}"));
        let chain = vec![CertificateDer::from_pem_file(file("crt")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file("key")).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tls(listener.local_addr().unwrap().to_string());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut end = rustls::ServerConnection::new(std::sync::Arc::new(config)).unwrap();
            let _ = end.complete_io(&mut stream);
        });
        let shown = shows(folder.path(), "agent-h0");
        let connected = Client::connect(&address, Some(&shown)).await;
        server.join().unwrap();
        connected.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(connect("controller-main").await, Ok(()));
    for name in ["application-a", "agent-h0", "operator-me"] {
        let why = connect(name).await.unwrap_err();
        assert!(why.contains("key usage"), "{why}");
    }
}

/// Who asks in the wrong way learns what is wrong.
#[tokio::test]
async fn a_mismatch_is_named() {
    let daemon = start();
    let certs = daemon.path("certs");
    let other = daemon.path("other");
    certificates(&other, &["--operator", "me"]);
    std::fs::copy(certs.join("ca.crt"), other.join("ca.crt")).unwrap();
    let tcp = Address::Tcp(daemon.http.clone()).to_string();
    let tls = Address::Tls(daemon.http.clone()).to_string();
    let asked = |address: &str, folder: Option<&Path>| {
        let files = folder
            .map(|folder| ["ca.crt", "operator-me.crt", "operator-me.key"].map(|f| folder.join(f)));
        let mut words = vec!["status".to_owned(), "--controller".to_owned(), address.to_owned()];
        for (key, file) in
            ["--ca", "--certificate", "--key"].into_iter().zip(files.into_iter().flatten())
        {
            words.extend([key.to_owned(), file.display().to_string()]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = daemon.command(&words);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = asked(&tcp, None);
    let wanted = format!("{tcp}: who listens there does not speak HTTP; try {tls}");
    assert!(code == Some(1) && said.contains(&wanted), "{said}");
    let (code, said) = asked(&tls, Some(&other));
    assert!(code == Some(1) && said.contains("another authority has signed it"), "{said}");
    let plain = Daemon::start(&config(SMSF));
    let (tcp, tls) = (Address::Tcp(plain.http.clone()), Address::Tls(plain.http.clone()));
    let (code, said) = asked(&tls.to_string(), Some(&certs));
    let wanted = format!("{tls}: who listens there does not speak TLS; try {tcp}");
    assert!(code == Some(1) && said.contains(&wanted), "{said}");
}

async fn refused(address: &Address, config: std::sync::Arc<rustls::ClientConfig>) -> bool {
    // With TLS 1.3 the client learns at its first request that it isn't wanted.
    match Client::connect(address, Some(&config)).await {
        Ok(mut client) => client.get("/v1/health").await.is_err(),
        Err(_) => true,
    }
}

#[tokio::test]
async fn each_may_do_what_its_certificate_says() {
    let daemon = start();
    let address = Address::Tls(daemon.http.clone());
    let certs = daemon.path("certs");
    let job = json!({ "type": "job_start", "job": "j" });
    let mut a = Client::connect(&address, Some(&shows(&certs, "application-a"))).await.unwrap();
    assert_eq!(declare(&mut a, "a", &job).await.0, StatusCode::OK);
    let (status, said) = declare(&mut a, "b", &job).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(
        said["error"]["reason"],
        "you are application a; show a certificate of application b"
    );
    for path in ["/v1/status", "/v1/flows", "/v1/jobs", "/metrics", "/v1/explain/b/j"] {
        let (status, _) = a.ask(Method::GET, path, Vec::new()).await.unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
    }
    let mut agent = Client::connect(&address, Some(&shows(&certs, "agent-h0"))).await.unwrap();
    assert_eq!(declare(&mut agent, "a", &job).await.0, StatusCode::FORBIDDEN);
    assert_eq!(declare(&mut agent, "h0", &job).await.0, StatusCode::FORBIDDEN);
    let other = Client::connect(&address, Some(&shows(&certs, "agent-h0"))).await.unwrap();
    assert!(other.exchange("/v1/agents/h1/exchange").await.is_err());
    let mut me = Client::connect(&address, Some(&shows(&certs, "operator-me"))).await.unwrap();
    assert!(me.get("/v1/status").await.is_ok());
    assert_eq!(declare(&mut me, "a", &job).await.0, StatusCode::FORBIDDEN);
}

/// Whoever asks for what it may not, to read, to declare or to order, is in the log.
#[tokio::test]
async fn what_may_not_be_is_in_the_log() {
    let mut daemon = start();
    let address = Address::Tls(daemon.http.clone());
    let certs = daemon.path("certs");
    let (reads, none) = ("what is all tenants'", Value::Null);
    let declared = "/v1/applications/b/declarations";
    for (who, method, path, body, asked) in [
        ("agent-h0", Method::GET, "/v1/status", &none, reads),
        ("application-a", Method::GET, "/v1/explain/b/j", &none, "to act as application b"),
        ("operator-me", Method::POST, declared, &json!([]), "to act as application b"),
        ("application-b", Method::POST, "/v1/orders", &json!({ "type": "freeze" }), "an order"),
    ] {
        let mut client = Client::connect(&address, Some(&shows(&certs, who))).await.unwrap();
        let (status, _) = client.ask(method, path, body.to_string().into_bytes()).await.unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "{who}");
        let line = daemon.hears("refused: it may not");
        let expected = (&json!(who.replace('-', " ")), &json!(asked), &json!(0));
        assert_eq!((&line["by"], &line["asked"], &line["untold"]), expected);
    }
    // What it may is refused nobody, and so not told.
    let mut a = Client::connect(&address, Some(&shows(&certs, "application-a"))).await.unwrap();
    let (status, _) = a.ask(Method::GET, "/v1/explain/a/j", Vec::new()).await.unwrap();
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(get(&mut a, "/v1/applications/a/jobs").await, json!([]));
    assert_eq!(daemon.said().filter(|line| line["asked"].is_string()).count(), 0);
}

/// Without TLS whoever is on the machine comes by the network, and nobody is told apart.
#[tokio::test]
async fn without_tls_orders_take_the_socket() {
    let recorder = "[recorder]\ndirectory = \"records\"\n";
    let mut daemon = Daemon::start(&config(&format!("{SMSF}{recorder}")));
    let mut client = Client::connect(&Address::Tcp(daemon.http.clone()), None).await.unwrap();
    let freeze = json!({ "type": "freeze" }).to_string().into_bytes();
    let pin = "/v1/recordings/epoch-000001/pin";
    for (method, path, body) in [
        (Method::POST, "/v1/orders", freeze.clone()),
        (Method::PUT, pin, Vec::new()),
        (Method::DELETE, pin, Vec::new()),
    ] {
        let (status, said) = client.ask(method, path, body).await.unwrap();
        let said = String::from_utf8(said.to_vec()).unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {said}");
        assert!(said.contains("Unix socket") && said.contains("[tls]"), "{said}");
    }
    let line = daemon.hears("refused: it may not");
    assert_eq!((&line["by"], &line["asked"]), (&json!("somebody without TLS"), &json!("an order")));
    assert_eq!(get(&mut client, "/v1/orders").await["standing"], json!([]));
    let ordered = daemon.client().await.ask(Method::POST, "/v1/orders", freeze).await.unwrap();
    assert_eq!(ordered.0, StatusCode::OK, "{ordered:?}");
}

/// A browser is on its user's machine, and may have the user's certificate.
#[tokio::test]
async fn what_another_site_has_a_browser_ask_is_refused() {
    let said_so = |name: &'static str, value: &'static str| {
        HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))])
    };
    let daemon = start();
    let (address, shown) =
        (Address::Tls(daemon.http.clone()), shows(&daemon.path("certs"), "operator-me"));
    let mut operator = Client::connect(&address, Some(&shown)).await.unwrap();
    let freeze = json!({ "type": "freeze" }).to_string().into_bytes();
    for (method, path, body) in
        [(Method::POST, "/v1/orders", freeze), (Method::GET, "/v1/status", Vec::new())]
    {
        for headers in
            [said_so("sec-fetch-site", "cross-site"), said_so("origin", "https://evil.example")]
        {
            let asked = operator.ask_with(method.clone(), path, headers, body.clone()).await;
            let (status, said) = asked.unwrap();
            let said = String::from_utf8(said.to_vec()).unwrap();
            assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {said}");
            assert!(said.contains("another site's"), "{said}");
        }
    }
    assert_eq!(get(&mut operator, "/v1/orders").await["standing"], json!([]));
    let typed = said_so("sec-fetch-site", "none");
    let asked = operator.ask_with(Method::GET, "/v1/status", typed, Vec::new()).await;
    assert_eq!(asked.unwrap().0, StatusCode::OK);
    // Without TLS a site needs no certificate, and may have its own name lead here.
    let daemon = Daemon::start(&config(SMSF));
    let mut client = Client::connect(&Address::Tcp(daemon.http.clone()), None).await.unwrap();
    let start = || json!({ "type": "job_start", "job": "j" }).to_string().into_bytes();
    let path = "/v1/applications/a/declarations";
    let rebound = said_so("host", "evil.example:7443");
    let (status, said) = client.ask_with(Method::POST, path, rebound, start()).await.unwrap();
    assert_eq!(status, StatusCode::FORBIDDEN, "{said:?}");
    let (status, said) = client.ask(Method::POST, path, start()).await.unwrap();
    assert_eq!(status, StatusCode::OK, "{said:?}");
}

/// Of those that it shares a link with a tenant learns how many they are, and no more.
#[tokio::test]
async fn an_application_is_told_of_its_own_flows_alone() {
    let daemon = start();
    let address = Address::Tls(daemon.http.clone());
    let certs = daemon.path("certs");
    let mut clients = Vec::new();
    for (name, port) in [("a", 4001), ("b", 4002)] {
        let shown = shows(&certs, &format!("application-{name}"));
        let mut client = Client::connect(&address, Some(&shown)).await.unwrap();
        let all = [1, 2].map(|flow| {
            let source = format!("10.0.0.1:{}", port + 10 * flow);
            let connection = json!({ "source": source, "destination": "10.0.0.2:80" });
            json!({ "type": "flow_request", "job": name, "flow": flow.to_string(), "bytes": 1000 * flow,
                    "connection": connection })
        });
        let said = json!([{ "type": "job_start", "job": name }, all[0], all[1]]);
        assert_eq!(declare(&mut client, name, &said).await.0, StatusCode::OK);
        clients.push(client);
    }
    let shown = shows(&certs, "operator-me");
    let mut operator = Client::connect(&address, Some(&shown)).await.unwrap();
    let names = |explained: &Value| -> Vec<String> {
        let rivals = explained["bottleneck"]["rivals"].as_array().unwrap().iter();
        rivals.map(|rival| rival["application"].as_str().unwrap().to_owned()).collect()
    };
    let seen = get(&mut operator, "/v1/explain/a/a/1").await;
    assert_eq!((names(&seen).len(), &seen["bottleneck"]["more"]), (3, &json!(0)), "{seen}");
    let own = get(&mut clients[0], "/v1/explain/a/a/1").await;
    let job = get(&mut clients[0], "/v1/explain/a/a").await;
    let following = get(&mut clients[0], "/v1/applications/a/flows").await;
    for (said, flow) in [(&own, &own), (&job, &job["flows"][0])] {
        assert_eq!(
            (names(flow), &flow["bottleneck"]["more"]),
            (vec!["a".into()], &json!(2)),
            "{said}"
        );
    }
    assert_eq!(following["flows"].as_array().unwrap().len(), 2);
    for path in ["/v1/applications/b/flows", "/v1/applications/b/jobs"] {
        let (status, _) = clients[0].ask(Method::GET, path, Vec::new()).await.unwrap();
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
    }
}

/// Whom the configuration knows is not unknown, though it has yet to declare something.
#[tokio::test]
async fn a_tenant_that_has_declared_nothing_is_explained() {
    let tenant = "[[tenant]]\napplication = \"web\"\nhosts = [\"h0\"]\n";
    let daemon = Daemon::start(&config(&format!("{SMSF}{tenant}")));
    let at = daemon.address().to_string();
    let explained = daemon.command(&["explain", "web", "--controller", &at]);
    let said = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.status.success(), "{}", String::from_utf8_lossy(&explained.stderr));
    assert_eq!(said, "web: a tenant of the configuration that declares nothing now\n");
    let unknown = daemon.command(&["explain", "wbe", "--controller", &at]);
    assert_eq!(unknown.status.code(), Some(1));
}

#[tokio::test]
async fn an_identity_has_so_many_connections() {
    let daemon = start();
    let address = Address::Tls(daemon.http.clone());
    let a = shows(&daemon.path("certs"), "application-a");
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(&address, Some(&a)).await.unwrap();
        client.get("/v1/health").await.unwrap();
        held.push(client);
    }
    assert!(refused(&address, a.clone()).await, "a fourth");
    let mut told = Client::connect(&address, Some(&a)).await.unwrap();
    let (status, said) = told.ask(Method::GET, "/v1/health", Vec::new()).await.unwrap();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{said}");
    assert!(said.contains("raise limits.connections_per_identity"), "{said}");
    let b = shows(&daemon.path("certs"), "application-b");
    assert!(!refused(&address, b).await, "others are not hindered");
    drop(held);
    let start = std::time::Instant::now();
    while refused(&address, a.clone()).await {
        assert!(start.elapsed() < PATIENCE, "places come back");
    }
}

fn certs(folder: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watermaster"));
    command.args(["certs", "--directory"]).arg(folder).args(more).output().unwrap()
}

#[test]
fn names_and_addresses_are_checked_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("certs");
    for (more, why) in [
        (["--controller", "main="], "\"\" is no address"),
        (["--controller", "main=10.0.0.1,"], "\"\" is no address"),
        (["--controller", "m=foo bar"], "\"foo bar\" is no address"),
        (["--agent", ""], "\"\" is no name"),
        (["--agent", "a\u{1b}[31m"], "\"a\\u{1b}[31m\" is no name"),
        (["--controller", "m=\u{7}"], "\"\\u{7}\" is no address"),
        (["--controller", "m\n"], "--controller m\\n: how is it reached"),
    ] {
        let refused = certs(&directory, &more);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && said.contains(why), "{said}");
        assert!(!directory.exists());
    }
    let taken = certs(&directory, &["--controller", "m=fe80::1,*.example.org,localhost"]);
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
}

#[test]
fn certificates_stay_and_keys_are_private() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path(), &["--agent", "h1"]);
    let key = folder.path().join("agent-h1.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let before = std::fs::read(&key).unwrap();
    certificates(folder.path(), &["--agent", "h1", "--agent", "h2"]);
    assert_eq!(std::fs::read(&key).unwrap(), before, "what is there stays");
    assert!(folder.path().join("agent-h2.crt").exists());
    let run = |more: &[&str]| certs(folder.path(), more);
    // Other addresses than the certificate that is there.
    let other = run(&["--controller", "main=10.9.9.9"]);
    assert_eq!(other.status.code(), Some(2));
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(said.contains("is for other names") && said.contains("; remove "), "{said}");
    // Without the authority's key nothing is signed, and a new authority is not the first advice.
    let (ca, away) = (folder.path().join("ca.key"), folder.path().join("away"));
    std::fs::rename(&ca, &away).unwrap();
    let keyless = run(&["--agent", "h3"]);
    let said = String::from_utf8(keyless.stderr).unwrap();
    assert!(keyless.status.code() == Some(2) && said.contains("; bring ca.key back"), "{said}");
    std::fs::rename(&away, &ca).unwrap();
    assert!(run(&["--agent", "h1", "--force"]).status.success());
    assert_ne!(std::fs::read(&key).unwrap(), before);
}

/// What its own list says of an authority nobody asks.
#[test]
fn an_authority_is_not_revoked() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path(), &[]);
    let refused = certs(folder.path(), &["--revoke", "ca.crt"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    let wanted = "ca.crt: is the authority's own";
    assert!(refused.status.code() == Some(2) && said.contains(wanted), "{said}");
    assert!(said.contains("name the certificate of whom is to be cut off"), "{said}");
    assert!(!folder.path().join("ca.crl").exists());
}

/// A revoked certificate is cut off where it is connected, and doesn't get in again; its successor of the same name does.
#[tokio::test]
async fn a_revoked_certificate_is_cut_off_at_a_reload() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let certs = folder.path().join("certs");
    certificates(&certs, &["--application", "a", "--agent", "h0", "--agent", "h1"]);
    let crl = TLS.replace("[tls]\n", "[tls]\ncrl = \"certs/ca.crl\"\n");
    // The list is made before it is named; nobody is on it whom the daemon knows.
    certificates(&certs, &["--application", "gone", "--crl"]);
    assert!(certs.join("ca.crl").exists());
    revoke(&certs, "application-gone.crt");
    let mut daemon = Daemon::start_in(folder, &config(&format!("{crl}{SMSF}")));
    let address = Address::Tls(daemon.http.clone());
    assert!(refused(&address, shows(&certs, "application-gone")).await);
    let of = async |agent: &str, host: &str, ip: &str| {
        Agent::connect(
            &address,
            Some(&shows(&certs, agent)),
            &agent["agent-".len()..],
            &[(host, ip)],
            0,
        )
        .await
    };
    let mut revoked = of("agent-h0", "h0", "10.0.0.1").await;
    let mut other = of("agent-h1", "h1", "10.0.0.2").await;
    let mut client =
        Client::connect(&address, Some(&shows(&certs, "application-a"))).await.unwrap();
    assert!(client.get("/v1/health").await.is_ok());

    revoke(&certs, "agent-h0.crt");
    revoke(&certs, "application-a.crt");
    daemon.signal("-HUP");
    daemon.hears("configuration read again");
    let end = async { while revoked.hear().await.is_some() {} };
    tokio::time::timeout(PATIENCE, end).await.expect("a revoked agent stays");
    let ends = async { while client.get("/v1/health").await.is_ok() {} };
    tokio::time::timeout(PATIENCE, ends).await.expect("a revoked application stays");
    assert!(refused(&address, shows(&certs, "agent-h0")).await);
    assert!(other.hear().await.is_some(), "whose certificate is good stays");

    let again = || {
        let mut made = Command::new(env!("CARGO_BIN_EXE_watermaster"));
        made.args(["certs", "--agent", "h0", "--directory"]).arg(&certs).output().unwrap()
    };
    let refusal = again();
    assert_eq!(refusal.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refusal.stderr).contains("has been revoked"));
    for file in ["agent-h0.crt", "agent-h0.key"] {
        std::fs::remove_file(certs.join(file)).unwrap();
    }
    assert!(again().status.success());
    assert!(
        !refused(&address, shows(&certs, "agent-h0")).await,
        "a new certificate of the same name"
    );

    // What can't be read again is a problem until it can.
    let list = std::fs::read(certs.join("ca.crl")).unwrap();
    let is_told = |status: &Value| {
        let mut problems = status["problems"].as_array().unwrap().iter();
        problems.any(|problem| problem.as_str().unwrap().contains("the last reload failed"))
    };
    for (content, failed) in [(&b"no list"[..], true), (&list[..], false)] {
        std::fs::write(certs.join("ca.crl"), content).unwrap();
        daemon.signal("-HUP");
        daemon.until("/v1/status", |status| is_told(status) == failed).await;
    }
}
