//! What was recorded happens again, and nothing that can stand in a file harms.
#![allow(clippy::unwrap_used)] // a test may panic

mod in_memory;

use in_memory::{SECOND, Shape, address, connection, step};
use proptest::prelude::*;
use protocol::agent::{Capability, Report};
use protocol::application::{Declaration, Portion, StreamReport};
use units::{Bytes, Time};
use watermaster_control::record::{self, Configuration, Content, Record, Records};
use watermaster_control::{
    Change, ChannelId, Config, Configure, Controller, Digest, Input, Output, replay,
};

/// Makes a controller with the policy of this name, whatever was recorded.
struct Always(&'static str);

impl Configure for Always {
    fn start(&mut self, _: &Configuration) -> Result<Config, String> {
        let policy = policy::by_name(self.0, &policy::Parameters::default()).unwrap();
        Ok(Shape::racks(3).config(self.0, policy, true))
    }

    fn change(&mut self, recorded: &Configuration) -> Result<Change, String> {
        self.start(recorded).map(|config| Change {
            policy: Some((config.policy_name, config.policy)),
            limits: Some(config.limits),
            lease: Some(config.lease),
        })
    }
}

fn configuration() -> Configuration {
    Configuration { program: "0.1.0".into(), file: "c.toml".into(), settings: "smsf".into() }
}

/// A controller whose inputs are recorded, and what came of them.
fn recorded() -> (Vec<u8>, Digest, Vec<Output>) {
    let mut bytes = Vec::new();
    let config = Always("smsf").start(&configuration()).unwrap();
    let mut controller = Controller::new(config, 7, Time::ZERO).unwrap();
    record::write_started(Time::ZERO, 7, &configuration(), &mut bytes).unwrap();
    let mut all = Vec::new();
    let mut digest = Digest::default();
    let mut heard = |second: u64, input: Input<'_>, bytes: &mut Vec<u8>| {
        let (now, mut out) = (Time::ZERO + SECOND * second, Vec::new());
        record::write_input(now, &input, bytes).unwrap();
        let _ = controller.observe(now, input);
        record::write_input(now, &Input::Tick, bytes).unwrap();
        step(&mut controller, now, Input::Tick, &mut out).unwrap();
        digest.update(&out);
        record::write_digest(now, digest, bytes).unwrap();
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
        Report::Hello { hosts: hosts.collect(), capabilities: vec![Capability::Pacing], epoch: 3 };
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
    let tell = |_: &Record, out: &[Output]| again.extend_from_slice(out);
    let replayed = replay(&bytes, &mut Always("smsf"), tell).unwrap();
    assert_eq!(again, outputs);
    assert_eq!(replayed.digest, format!("{:016x}", digest.value));
    assert_eq!((replayed.outputs, replayed.epoch), (outputs.len() as u64, 7));
    assert_eq!((replayed.differs_after, replayed.truncated), (None, false));
    assert!(replayed.digests > 15);
}

/// The disk was full, or the machine stopped: the last record is cut anywhere.
#[test]
fn a_truncated_last_record_ends_the_file() {
    let (bytes, ..) = recorded();
    let whole = Records::new(&bytes).unwrap().count();
    for length in record::MAGIC.len()..bytes.len() {
        let mut records = Records::new(&bytes[..length]).unwrap();
        let read = records.by_ref().inspect(|record| assert!(record.is_ok())).count();
        assert!(read < whole && (records.is_truncated() || Records::new(&bytes[..length]).is_ok()));
    }
}

/// Whichever bit flips, the replay says that the recording is damaged.
#[test]
fn a_flipped_bit_is_noticed() {
    let (mut bytes, ..) = recorded();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read: Result<Vec<_>, _> = Records::new(&bytes).and_then(Iterator::collect);
        assert!(read.is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// A replay that comes out differently says so, and where.
#[test]
fn a_difference_is_found() {
    let (bytes, ..) = recorded();
    let replayed = replay(&bytes, &mut Always("fifo"), |_, _| {}).unwrap();
    assert!(replayed.differs_after.is_some_and(|outputs| outputs > 2), "{replayed:?}");
}

#[test]
fn errors_say_where_and_what_to_do() {
    let error = |bytes: &[u8]| replay(bytes, &mut Always("smsf"), |_, _| {}).unwrap_err();
    let (mut bytes, ..) = recorded();
    let damaged = bytes.len() - 20;
    bytes[damaged] ^= 1;
    assert!(error(&bytes).contains("is damaged"), "{}", error(&bytes));
    assert!(error(&bytes[1..]).contains("this is no recording"));
    bytes[7] = 2;
    assert!(error(&bytes).contains("is of another version of the form"));
    let mut tick = record::MAGIC.to_vec();
    record::write_input(Time::ZERO, &Input::Tick, &mut tick).unwrap();
    assert!(error(&tick).contains("does not begin with a controller's start"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No bytes panic.
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let recording = [&record::MAGIC[..], &bytes].concat();
        prop_assert!(Records::new(&recording).unwrap().count() <= bytes.len());
    }
}

/// What is read is written the same.
#[test]
fn what_is_read_is_written_the_same() {
    let (mut bytes, ..) = recorded();
    record::write_changed(Time::ZERO, &configuration(), &mut bytes).unwrap();
    let mut again = Vec::new();
    for Record { at, content } in Records::new(&bytes).unwrap().map(Result::unwrap) {
        match content {
            Content::Started(epoch, configuration) => {
                record::write_started(at, epoch, &configuration, &mut again)
            }
            Content::Changed(configuration) => {
                record::write_changed(at, &configuration, &mut again)
            }
            Content::Digest(digest) => record::write_digest(at, digest, &mut again),
            Content::Input(input) => record::write_input(at, &input.as_input(), &mut again),
        }
        .unwrap();
    }
    assert_eq!(again, bytes);
}

/// The seeds of the fuzz targets are what this test records: `CONTROL_SEEDS=fuzz/seeds` writes them
/// anew.
#[test]
fn the_fuzz_seeds_are_recordings() {
    let (bytes, ..) = recorded();
    // The first byte says how the target's controller is made.
    let seeds = [("control/smsf.bin", [&[8], &bytes[..]].concat()), ("recording/smsf.bin", bytes)];
    for (name, bytes) in seeds {
        if let Some(folder) = std::env::var_os("CONTROL_SEEDS") {
            std::fs::write(std::path::Path::new(&folder).join(name), &bytes).unwrap();
        }
        let seed = format!("{}/../../fuzz/seeds/{name}", env!("CARGO_MANIFEST_DIR"));
        assert!(
            std::fs::read(&seed).unwrap() == bytes,
            "{name}: record it anew, CONTROL_SEEDS=DIR"
        );
    }
}
