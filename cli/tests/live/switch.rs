//! Switches: the model over TCP, and Open vSwitch where it is installed.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use openflow::{Config, Message, Side};
use testing::openflow::Connected;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use wire::client::{Address, connect};

use crate::daemon::{Daemon, SMSF, certificates, config, shows};

/// The model at the end of a real connection, until that ends.
async fn model(mut stream: Box<dyn wire::Stream>) -> std::io::Result<usize> {
    let clock = wire::clock::Clock::start();
    let switch = testing::openflow::switch(0xaa, 254, 3);
    let mut end = Connected::new(switch, Config::new(Side::Switch), clock.now());
    let mut rules = 0;
    let mut chunk = [0; 4096];
    loop {
        stream.write_all(&end.sent()).await?;
        let read = stream.read(&mut chunk).await?;
        if read == 0 {
            return Ok(rules);
        }
        end.receive(clock.now(), &chunk[..read], |message| {
            rules += usize::from(matches!(message, Message::FlowMod(_)));
        });
    }
}

#[tokio::test]
async fn a_switch_is_set_up_and_again_after_it_comes_back() {
    let daemon = Daemon::start(&config(SMSF));
    for round in 0..2 {
        let address = Address::Tcp(daemon.openflow.clone().unwrap());
        let switch = tokio::spawn(model(connect(&address, None).await.unwrap()));
        let up = |wanted: bool| {
            move |status: &serde_json::Value| {
                let switch = &status["switches"][0];
                switch["connected"] == wanted && (!wanted || switch["settled"] == true)
            }
        };
        let status = daemon.until("/v1/status", up(true)).await;
        let entries = status["switches"][0]["entries"].as_u64().unwrap();
        assert!(entries > 0, "round {round}: {status:#}");
        switch.abort();
        assert!(switch.await.unwrap_err().is_cancelled());
        daemon.until("/v1/status", up(false)).await;
    }
}

/// The key of one switch doesn't open the place of another.
#[tokio::test]
async fn a_switch_with_the_certificate_of_another_is_refused() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let certs = folder.path().join("certs");
    certificates(&certs, &["--switch", "s0", "--switch", "rogue"]);
    let tls = "[tls]\nca = \"certs/ca.crt\"\ncertificate = \"certs/controller-main.crt\"\n\
               key = \"certs/controller-main.key\"\n";
    let config = config(&format!("{tls}{SMSF}")).replace("openflow =", "openflow_tls =");
    let mut daemon = Daemon::start_in(folder, &config);
    let address = Address::Tls(daemon.openflow.clone().unwrap());
    let shown = shows(&certs, "switch-rogue");
    model(connect(&address, Some(&shown)).await.unwrap()).await.unwrap();
    let said = daemon.hears("connection closed by the controller");
    let reason = "datapath_id: 0xaa is s0's, and this is the certificate of switch rogue; give the switch its own";
    assert_eq!(said["reason"], reason);
    let shown = shows(&certs, "switch-s0");
    let switch = tokio::spawn(model(connect(&address, Some(&shown)).await.unwrap()));
    daemon.until("/v1/status", |status| status["switches"][0]["connected"] == true).await;
    // It goes as a process does that is killed: TLS hears no word of it.
    switch.abort();
    assert!(switch.await.unwrap_err().is_cancelled());
    loop {
        let said = daemon.hears("switch connection ended");
        let reason = said["reason"].as_str().unwrap();
        assert!(!reason.contains("close_notify"), "{reason}");
        if reason.contains("has gone without a word") {
            break;
        }
    }
}

/// As behind a rack that loses its power.
#[tokio::test]
async fn the_log_tells_of_each_machine_whose_switch_goes_at_once_with_others() {
    let mut daemon = Daemon::start(&config(SMSF));
    let listens: SocketAddr = daemon.openflow.as_ref().unwrap().parse().unwrap();
    let mut left: BTreeSet<String> = (2..12).map(|last| format!("127.0.0.{last}")).collect();
    let mut open = Vec::new();
    for machine in &left {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{machine}:0").parse().unwrap()).unwrap();
        open.push(socket.connect(listens).await.unwrap());
    }
    drop(open);
    while !left.is_empty() {
        let said = daemon.hears("switch connection ended");
        let from = said["from"].as_str().unwrap();
        left.remove(from.split_once(':').unwrap().0);
    }
}
