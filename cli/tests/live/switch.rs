//! Switches: the model over TCP, and Open vSwitch where it is installed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use openflow::sdtcp::Notice;
use openflow::{Config, Message, Port, PortNo, Side};
use tempfile::TempDir;
use testing::openflow::Connected;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use wire::client::{Address, connect};

use crate::daemon::{Daemon, PATIENCE, SMSF, TLS, certificates, config, revoke, shows};

/// What a switch meets.
pub enum Event {
    /// A frame comes in by a port.
    Frame(u32, Vec<u8>),
    /// A queue passes a threshold.
    Notice(Notice),
    /// A port changes.
    Port(Port),
}

/// The model at the end of a real connection, until that ends. `see` is shown what it is told.
pub async fn play(
    mut stream: Box<dyn wire::Stream>,
    mut events: UnboundedReceiver<Event>,
    mut see: impl FnMut(&Message<'_>),
) -> std::io::Result<()> {
    let clock = wire::clock::Clock::start();
    let switch = testing::openflow::switch(0xaa, 254, 3);
    let mut end = Connected::new(switch, Config::new(Side::Switch), clock.now());
    let mut chunk = [0; 4096];
    loop {
        stream.write_all(&end.sent()).await?;
        end.output.frames.clear();
        tokio::select! {
            read = stream.read(&mut chunk) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                end.receive(clock.now(), &chunk[..read], &mut see);
            }
            Some(event) = events.recv() => {
                let (switch, out) = (&mut end.switch, &mut end.output);
                match event {
                    Event::Frame(port, frame) => {
                        switch.receive(clock.now(), PortNo(port), &frame, out);
                    }
                    Event::Notice(notice) => switch.notify(&notice, out),
                    Event::Port(port) => switch.set_port(clock.now(), port, out),
                }
                end.reply();
            }
        }
    }
}

/// The same where nothing happens; how many changes of its entries it was told.
pub async fn model(stream: Box<dyn wire::Stream>) -> std::io::Result<usize> {
    let (_, nothing) = unbounded_channel();
    let mut rules = 0;
    let count = |message: &Message<'_>| {
        rules += usize::from(matches!(message, Message::FlowMod(_)));
    };
    play(stream, nothing, count).await?;
    Ok(rules)
}

/// An end of a segment: its Ethernet address, its IPv4 address and its port.
pub type End = ([u8; 6], [u8; 4], u16);

/// A segment, with a window scale and so many octets.
pub fn segment(from: End, to: End, flags: u16, scale: u8, octets: u16) -> Vec<u8> {
    let mut frame = [to.0, from.0].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + 24 + octets).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
    frame.extend(from.1);
    frame.extend(to.1);
    frame.extend(from.2.to_be_bytes());
    frame.extend(to.2.to_be_bytes());
    // Its number and what it acknowledges; header of six words, flags, window, no checksum, nothing urgent; the scale.
    frame.extend([0; 8]);
    frame.extend((6 << 12 | flags).to_be_bytes());
    frame.extend([0xff, 0xff, 0, 0, 0, 0, 3, 3, scale, 0]);
    frame.resize((frame.len() + usize::from(octets)).max(60), 0);
    frame
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

/// A controller to whom switches have to prove who they are.
fn start(folder: &Arc<TempDir>, tls: &str) -> Daemon {
    let config = config(&format!("{tls}{SMSF}")).replace("openflow =", "openflow_tls =");
    Daemon::start_in(Arc::clone(folder), &config)
}

/// The key of one switch doesn't open the place of another.
#[tokio::test]
async fn a_switch_with_the_certificate_of_another_is_refused() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let certs = folder.path().join("certs");
    certificates(&certs, &["--switch", "s0", "--switch", "rogue"]);
    let mut daemon = start(&folder, TLS);
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

/// Though its name is a switch's.
#[tokio::test]
async fn who_is_no_switch_is_refused_where_switches_connect() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let certs = folder.path().join("certs");
    let roles = ["agent", "application", "operator", "viewer"];
    let options = roles.map(|role| format!("--{role}"));
    let all: Vec<&str> = options.iter().flat_map(|option| [option.as_str(), "s0"]).collect();
    certificates(&certs, &all);
    for role in roles {
        // The first refusal of each daemon is told at once.
        let mut daemon = start(&folder, TLS);
        let address = Address::Tls(daemon.openflow.clone().unwrap());
        let shown = shows(&certs, &format!("{role}-s0"));
        let ended = timeout(PATIENCE, model(connect(&address, Some(&shown)).await.unwrap())).await;
        // Closed or reset: it ends.
        let _ = ended.expect("it is taken for a switch");
        let said = daemon.hears("switch connection ended");
        assert_eq!(said["reason"], format!("{role} s0 is no switch"));
        let status = daemon.get("/v1/status").await;
        assert_eq!(status["switches"][0]["connected"], false, "{role}");
    }
}

/// Where it is connected, and it doesn't get in again.
#[tokio::test]
async fn a_switch_whose_certificate_is_revoked_is_cut_off_at_a_reload() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let certs = folder.path().join("certs");
    certificates(&certs, &["--switch", "s0", "--crl"]);
    let mut daemon = start(&folder, &TLS.replace("[tls]\n", "[tls]\ncrl = \"certs/ca.crl\"\n"));
    let address = Address::Tls(daemon.openflow.clone().unwrap());
    let shown = shows(&certs, "switch-s0");
    let switch = tokio::spawn(model(connect(&address, Some(&shown)).await.unwrap()));
    let is = |wanted: bool| {
        move |status: &serde_json::Value| status["switches"][0]["connected"] == wanted
    };
    daemon.until("/v1/status", is(true)).await;
    revoke(&certs, "switch-s0.crt");
    daemon.signal("-HUP");
    let said = daemon.hears("switch connection ended");
    assert_eq!(said["reason"], "its certificate has been revoked");
    let _ = timeout(PATIENCE, switch).await.expect("it stays");
    daemon.until("/v1/status", is(false)).await;
    let again = timeout(PATIENCE, model(connect(&address, Some(&shown)).await.unwrap())).await;
    let _ = again.expect("it gets in again");
    daemon.until("/v1/status", is(false)).await;
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
