//! Bodies of declarations, and what the machine makes of them: an answer with a field and a remedy,
//! and no flow beyond the limits.
#![no_main]
#![forbid(unsafe_code)]

use control::{Config, Controller, Input};
use libfuzzer_sys::fuzz_target;
use protocol::application::Problem;
use units::Time;

fuzz_target!(|data: &[u8]| {
    let declared = match controller::http::declarations(data, 100) {
        Ok(declared) => declared,
        Err(problem) => return check(&problem),
    };
    assert!(declared.len() <= 100);
    let policy = policy::by_name("smsf", &policy::Parameters::default()).unwrap();
    let access = model::build::Access {
        link: model::LinkSpec {
            capacity: units::Rate::from_mbps(100),
            delay: units::Span::from_micros(10),
            buffer: model::Buffer::Packets(100),
            mark: None,
        },
        nic: model::Buffer::Unlimited,
    };
    let mut config = Config::new("smsf", policy);
    config.topology = model::build::star(4, &access).unwrap();
    config.hosts = (0..4_u8)
        .map(|host| control::HostConfig {
            node: model::NodeId(u32::from(host) + 1),
            addresses: vec![std::net::Ipv4Addr::new(10, 0, 0, host).into()],
            ethernet: Vec::new(),
        })
        .collect();
    config.limits.flows = 8;
    config.limits.jobs = 4;
    let mut machine = Controller::new(config, 1, Time::ZERO).unwrap();
    let mut out = Vec::new();
    for (number, declaration) in declared.iter().enumerate() {
        let declaration = match declaration {
            Ok(declaration) => declaration,
            Err(problem) => {
                check(problem);
                continue;
            }
        };
        let now = Time::from_nanos(number as u64 * 1_000_000);
        let input = Input::Declared { application: "fuzz", declaration };
        if let Err(refusal) = machine.step(now, input, &mut out) {
            assert!(!refusal.field.is_empty() && !refusal.reason.is_empty());
        }
    }
    let status = machine.at(Time::NEVER).status();
    assert!(status.applications.iter().all(|each| each.flows <= 8 && each.jobs <= 4));
});

fn check(Problem { field, reason }: &Problem) {
    assert!(!field.is_empty() && field.len() < 300 && reason.len() < 2000);
}
