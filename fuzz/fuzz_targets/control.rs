//! A controller that hears whatever stands in a record: bytes of switches, declarations, reports and
//! time in any order. The first byte says which policy decides and how rates are enforced.
#![no_main]
#![forbid(unsafe_code)]

use control::record::{Content, Record, Records};
use control::{Config, Controller, Enforcement, HostConfig, PortConfig, SwitchConfig};
use libfuzzer_sys::fuzz_target;
use model::build::{Access, dumbbell};
use model::{Buffer, LinkId, LinkSpec};
use units::{Rate, Span, Time};

fn config(how: u8) -> Config {
    let name = policy::NAMES[usize::from(how >> 1) % policy::NAMES.len()];
    let policy = policy::by_name(name, &policy::Parameters::default()).expect("a name of the list");
    let mut config = Config::new(name, policy);
    config.enforcement = if how & 1 == 0 { Enforcement::Pacing } else { Enforcement::Meters };
    let link = LinkSpec {
        capacity: Rate::from_mbps(100),
        delay: Span::from_micros(10),
        buffer: Buffer::Packets(100),
        mark: None,
    };
    let access = Access { link, nic: Buffer::Unlimited };
    config.topology = dumbbell(3, 3, &access, &link).expect("a topology");
    let hosts = (1_u8..).zip(config.topology.hosts());
    config.hosts = hosts
        .map(|(host, node)| HostConfig {
            node,
            addresses: vec![[10, 0, 0, host].into()],
            ethernet: vec![],
        })
        .collect();
    for (link, number) in (0..).zip(1..=config.topology.links().len() as u32) {
        let port = PortConfig { link: LinkId(link), port: Some(number), interface: format!("p{link}") };
        config.ports.push(port);
    }
    for (name, datapath_id) in [("s0", 1), ("s1", 2)] {
        let node = config.topology.node_named(name).expect("a switch of the dumbbell");
        config.switches.push(SwitchConfig { node, datapath_id, windows: true });
    }
    config
}

fuzz_target!(|data: &[u8]| {
    let [how, data @ ..] = data else { return };
    let mut controller = Controller::new(config(*how), 1, Time::ZERO).expect("a sound configuration");
    let mut out = Vec::new();
    let mut now = Time::ZERO;
    let mut records = Records::default();
    records.push(data);
    for record in records {
        let Ok(Record { at, content: Content::Input(input) }) = record else { continue };
        out.clear();
        now = now.max(at);
        let _ = controller.step(at, input.as_input(), &mut out);
        // What it set itself to do at this time, it does and is done with.
        for _ in 0..10 {
            if controller.deadline().is_none_or(|deadline| deadline > now) {
                break;
            }
            controller.end_turn(now, &mut out);
        }
    }
    let answers = controller.at(now);
    let _ = (answers.status(), answers.flows(10));
});
