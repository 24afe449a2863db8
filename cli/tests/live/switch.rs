//! Switches: the model over TCP, and Open vSwitch where it is installed.

use openflow::switch::{Output, Switch};
use openflow::{Config, Event, Message, Port, PortNo, Session, Side};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use units::Time;

use crate::rig::{Daemon, SMSF, config};

/// The model at the end of a real connection, until that ends.
async fn model(address: String) -> std::io::Result<usize> {
    let clock = wire::clock::Clock::start();
    let mut stream = TcpStream::connect(address).await?;
    let mut output = Output::default();
    let mut switch = Switch::new(0xaa, 254);
    for number in 1..=3_u8 {
        let mut name = [0; 16];
        name[..2].copy_from_slice(&[b'p', b'0' + number]);
        let port = Port {
            port: PortNo(number.into()),
            hw_addr: [2, 0, 0, 0, 0, number],
            name,
            config: 0,
            state: 4,
            curr: 0,
            advertised: 0,
            supported: 0,
            peer: 0,
            curr_speed_kbps: 0,
            max_speed_kbps: 0,
        };
        switch.set_port(Time::ZERO, port, &mut output);
    }
    output.messages.clear();
    let mut session = Session::new(Config::new(Side::Switch), clock.now());
    let mut rules = 0;
    let mut chunk = [0; 4096];
    loop {
        let bytes = session.output().to_vec();
        stream.write_all(&bytes).await?;
        session.sent(bytes.len());
        let read = stream.read(&mut chunk).await?;
        if read == 0 {
            return Ok(rules);
        }
        let mut rest = &chunk[..read];
        while !rest.is_empty() {
            let taken = session.receive(clock.now(), rest);
            rest = &rest[taken..];
            while let Some(event) = session.poll(clock.now()) {
                if let Event::Message { xid, message } = event {
                    rules += usize::from(matches!(message, Message::FlowMod(_)));
                    switch.handle(clock.now(), xid, &message, &mut output);
                }
            }
            for bytes in output.messages.drain(..) {
                let (xid, message) = Message::decode(&bytes).unwrap();
                session.reply(xid, &message).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_switch_is_set_up_and_again_after_it_comes_back() {
    let daemon = Daemon::start(&config(SMSF));
    for round in 0..2 {
        let switch = tokio::spawn(model(daemon.openflow.clone().unwrap()));
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
        daemon.until("/v1/status", up(false)).await;
    }
}
