//! Lines of agents, and what the machine makes of them.
#![no_main]
#![forbid(unsafe_code)]

use control::{Config, Controller, Input, ChannelId};
use libfuzzer_sys::fuzz_target;
use protocol::agent::{Report, Said};
use units::Time;

fuzz_target!(|data: &[u8]| {
    let policy = policy::by_name("smsf", &policy::Parameters::default()).unwrap();
    let mut machine = Controller::new(Config::new("smsf", policy), 1, Time::ZERO).unwrap();
    let mut out = Vec::new();
    let connected = Input::AgentConnected { channel: ChannelId(1), identity: "fuzz" };
    machine.observe(Time::ZERO, connected).unwrap();
    for (number, line) in data.split(|octet| *octet == b'\n').take(200).enumerate() {
        let now = Time::from_nanos(number as u64 * 1_000_000);
        if let Ok(report) = serde_json::from_slice::<Report>(line) {
            // What is read is written as it was meant.
            let again = serde_json::to_vec(&report).unwrap();
            assert_eq!(serde_json::from_slice::<Report>(&again).unwrap(), report);
            let _ = machine.step(now, Input::Reported(ChannelId(1), &report), &mut out);
        }
        if let Ok(said) = serde_json::from_slice::<Said>(line) {
            let again = serde_json::to_vec(&said).unwrap();
            assert_eq!(serde_json::from_slice::<Said>(&again).unwrap(), said);
        }
    }
    machine.at(Time::NEVER).status();
});
