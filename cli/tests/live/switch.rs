//! Switches: the model over TCP, and Open vSwitch where it is installed.

use openflow::{Config, Message, Side};
use testing::openflow::Connected;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::daemon::{Daemon, SMSF, config};

/// The model at the end of a real connection, until that ends.
async fn model(address: String) -> std::io::Result<usize> {
    let clock = wire::clock::Clock::start();
    let mut stream = TcpStream::connect(address).await?;
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
