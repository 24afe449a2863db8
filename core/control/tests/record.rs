//! What was recorded happens again, and nothing that can stand in a file harms.
#![allow(clippy::unwrap_used)] // a test may panic

mod support;

use proptest::prelude::*;
use protocol::agent::Report;
use protocol::application::{Declaration, Portion, StreamReport};
use support::{SECOND, Shape, address, connection, step};
use units::{Bytes, Time};
use watermaster_control::record::{self, Record, Records};
use watermaster_control::{ChannelId, Controller, Digest, Input, Output, replay};

fn config(_: &[u8]) -> Result<watermaster_control::Config, String> {
    let policy = policy::by_name("smsf", &policy::Parameters::default()).unwrap();
    Ok(Shape::racks(3).config("smsf", policy, true))
}

/// A controller whose inputs are recorded, and what came of them.
fn recorded() -> (Vec<u8>, Digest, Vec<Output>) {
    let mut bytes = Vec::new();
    let mut controller = Controller::new(config(&[]).unwrap(), 7, Time::ZERO).unwrap();
    record::write_started(Time::ZERO, 7, b"smsf", &mut bytes);
    let mut all = Vec::new();
    let mut digest = Digest::default();
    let mut heard = |second: u64, input: Input<'_>, bytes: &mut Vec<u8>| {
        let (now, mut out) = (Time::ZERO + SECOND * second, Vec::new());
        record::write_input(now, &input, bytes);
        let _ = step(&mut controller, now, input, &mut out);
        digest.update(&out);
        record::write_digest(digest.value(), bytes);
        all.extend(out);
    };
    heard(0, Input::SwitchConnected(ChannelId(1)), &mut bytes);
    heard(0, Input::SwitchBytes(ChannelId(1), &[4, 0, 0, 8, 0, 0, 0, 1]), &mut bytes);
    heard(1, Input::AgentConnected { channel: ChannelId(2), identity: "left" }, &mut bytes);
    let hosts = (0..3).map(|host| protocol::agent::Host {
        name: format!("h{host}"),
        addresses: vec![address(host), "2001:db8::1".parse().unwrap()],
    });
    let hello =
        Report::Hello { hosts: hosts.collect(), capabilities: vec!["pacing".into()], epoch: 3 };
    heard(1, Input::Reported(ChannelId(2), &hello), &mut bytes);
    for declaration in declarations() {
        let application = "hadoop";
        heard(2, Input::Declared { application, declaration: &declaration }, &mut bytes);
    }
    heard(9, Input::Tick, &mut bytes);
    heard(9, Input::SwitchGone(ChannelId(1)), &mut bytes);
    heard(10, Input::AgentGone(ChannelId(2)), &mut bytes);
    heard(10, Input::ApplicationGone("hadoop"), &mut bytes);
    heard(60, Input::Tick, &mut bytes);
    (bytes, digest, all)
}

fn declarations() -> Vec<Declaration> {
    let job = || String::from("sort");
    vec![
        Declaration::JobStart { job: job() },
        Declaration::JobStart { job: "small".into() },
        Declaration::TaskHost { job: job(), task: 0, host: "h0".into() },
        Declaration::Size {
            job: job(),
            map: 0,
            reduces: vec![Portion { task: 1, bytes: Bytes::new(300_000_000) }],
        },
        Declaration::FlowRequest {
            job: job(),
            flow: 1,
            connection: connection(0, 3, 1),
            bytes: Some(Bytes::new(300_000_000)),
        },
        Declaration::FlowRequest {
            job: "small".into(),
            flow: 1,
            connection: connection(1, 4, 1),
            bytes: Some(Bytes::new(1_000)),
        },
        Declaration::FlowRequest {
            job: job(),
            flow: 2,
            connection: connection(2, 3, 9),
            bytes: None,
        },
        Declaration::Streams {
            job: job(),
            samples: vec![StreamReport {
                flow: 2,
                delivered_bytes: Bytes::new(1),
                sender_queue_bytes: Bytes::new(2),
                receiver_queue_bytes: Bytes::new(3),
            }],
        },
        Declaration::FlowComplete { job: "small".into(), flow: 1 },
        Declaration::JobComplete { job: job() },
    ]
}

#[test]
fn what_happened_happens_again() {
    let (bytes, digest, outputs) = recorded();
    assert!(
        outputs.iter().any(|output| matches!(output, Output::Agent(_, c) if c.commands.len() == 1))
    );
    let mut again = Vec::new();
    let replayed = replay(&bytes, config, |_, out| again.extend_from_slice(out)).unwrap();
    assert_eq!(again, outputs);
    assert_eq!((replayed.digest, replayed.differs, replayed.left), (digest, None, 0));
    assert!(replayed.confirmed > 15);
}

/// The disk was full, or the machine stopped: the last record is cut anywhere.
#[test]
fn half_a_record_is_an_end() {
    let (bytes, ..) = recorded();
    let whole = Records::new(&bytes).count();
    for length in 0..bytes.len() {
        let mut records = Records::new(&bytes[..length]);
        let read = records.by_ref().inspect(|record| assert!(record.is_ok())).count();
        assert!(read < whole && records.left() < bytes.len());
    }
}

/// A replay that comes out differently says so, and where.
#[test]
fn a_difference_is_found() {
    let (bytes, ..) = recorded();
    let other = |_: &[u8]| {
        let policy = policy::by_name("fifo", &policy::Parameters::default()).unwrap();
        let mut config = Shape::racks(3).config("fifo", policy, true);
        config.lease = SECOND * 9;
        Ok(config)
    };
    let replayed = replay(&bytes, other, |_, _| {}).unwrap();
    assert!(replayed.differs.is_some_and(|at| at > 5));
}

#[test]
fn errors_say_where() {
    let (mut bytes, ..) = recorded();
    let first = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize + 4;
    bytes[first + 4] = 99;
    let error = replay(&bytes, config, |_, _| {}).unwrap_err();
    assert_eq!(error, format!("the record at byte {first} is of an unknown kind"));
    let error = replay(&bytes[first..], config, |_, _| {}).unwrap_err();
    assert!(error.contains("unknown kind"));
    let mut tick = Vec::new();
    record::write_input(Time::ZERO, &Input::Tick, &mut tick);
    let error = replay(&tick, config, |_, _| {}).unwrap_err();
    assert!(error.contains("does not begin with a controller's start"));
    let mut later = recorded().0;
    later[5] = 9;
    assert!(replay(&later, config, |_, _| {}).unwrap_err().contains("another version"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No bytes panic, and what is read is written the same.
    #[test]
    fn any_bytes_are_survived(kind in 0_u8..30, body in prop::collection::vec(0_u8..8, 0..100)) {
        let mut bytes = u32::try_from(body.len() + 1).unwrap().to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend(body);
        for read in Records::new(&bytes).flatten() {
            let mut again = Vec::new();
            match &read {
                Record::Started { at, epoch, config } => record::write_started(*at, *epoch, config, &mut again),
                Record::Changed { at, config } => record::write_changed(*at, config, &mut again),
                Record::Digest(digest) => record::write_digest(*digest, &mut again),
                Record::Heard { at, heard } => record::write_input(*at, &heard.as_input(), &mut again),
            }
            prop_assert_eq!(&again, &bytes);
        }
    }
}

/// The seed of the fuzz target is what this test records: `CONTROL_SEED_FILE=FILE` writes it anew.
#[test]
fn the_fuzz_seed_is_a_record() {
    let (bytes, ..) = recorded();
    let file = [&[8], &bytes[..]].concat();
    if let Some(path) = std::env::var_os("CONTROL_SEED_FILE") {
        std::fs::write(path, &file).unwrap();
    }
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/control/smsf.bin");
    assert!(std::fs::read(seed).unwrap() == file, "record the seed anew: CONTROL_SEED_FILE={seed}");
}
