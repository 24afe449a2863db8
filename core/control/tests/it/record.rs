//! What was recorded happens again, and nothing that can stand in a file harms.

use crate::in_memory::{SECOND, Shape, address, connection};
use model::{Cap, Caps, PortWatch, Severity, Thresholds};
use proptest::prelude::*;
use protocol::agent::{
    Capability, Command, Commands, ConnectionReport, EndedConnection, PortCount, Report,
};
use protocol::application::{Declaration, Portion, StreamReport};
use protocol::operator::{Act, Order};
use protocol::{Connection, Process, Processes};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::record::{
    self, Configuration, Content, Continuation, Fnv, Judged, Record, RecordError, Records,
};
use watermaster_control::{
    Answers, Change, ChannelId, Closing, Config, Configure, Controller, Digest, Input, Output,
    OwnedInput, Refusal, Replay,
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
            tenants: Some(config.tenants),
            acting: Some(config.acting),
        })
    }
}

/// Makes a controller that holds all flows to a rate, Mbit/s.
struct Held(u64);

impl Configure for Held {
    fn start(&mut self, _: &Configuration) -> Result<Config, String> {
        let rates = vec![Rate::from_mbps(self.0); 9];
        let parameters = policy::Parameters::default().with("rates", rates);
        let policy = policy::by_name("static", &parameters).unwrap();
        Ok(Shape::racks(3).config("static", policy, true))
    }

    fn change(&mut self, _: &Configuration) -> Result<Change, String> {
        Err("it is never read again".into())
    }
}

fn configuration() -> Configuration {
    Configuration { program: "0.1.0".into(), file: "c.toml".into(), settings: "smsf".into() }
}

/// Every order. What there was is blocked in the end.
fn orders() -> Vec<Act> {
    let (application, host) = (|| String::from("hadoop"), || String::from("h1"));
    let reason = || Some(String::from("fire"));
    let orders = [
        Order::Drain { host: host(), reason: None },
        Order::Freeze { reason: reason() },
        Order::Thaw {},
        Order::Undrain { host: host() },
        Order::Cancel { application: application(), job: "sort".into() },
        Order::Evict { application: application() },
        Order::Limit {
            application: application(),
            job: Some("sort".into()),
            rate_bps: Rate::from_mbps(5),
            lasts_s: Some(9),
            reason: reason(),
        },
        Order::Unlimit { application: application(), job: Some("sort".into()) },
        Order::Block { application: application(), reason: reason() },
        Order::Unblock { application: application() },
    ];
    orders.into_iter().map(|order| Act { at_s: 8, by: "me".into(), order }).collect()
}

/// A controller whose inputs are recorded, and what came of them.
fn recorded() -> (Vec<u8>, Digest, Vec<Output>) {
    recorded_by(&mut Always("smsf"), true)
}

/// With an agent, or with nobody who could be told.
fn recorded_by(configure: &mut impl Configure, agent: bool) -> (Vec<u8>, Digest, Vec<Output>) {
    let mut bytes = Vec::new();
    let config = configure.start(&configuration()).unwrap();
    let mut controller = Controller::new(config, 7, Time::ZERO).unwrap();
    record::write_started(Time::ZERO, 7, &configuration(), &mut bytes).unwrap();
    let mut all = Vec::new();
    let mut digest = Digest::default();
    digest.add_record(&bytes);
    let mut heard = |second: u64, input: Input<'_>, bytes: &mut Vec<u8>| {
        let is_of_agent = matches!(
            input,
            Input::AgentConnected { .. } | Input::Reported(..) | Input::AgentGone(_)
        );
        if is_of_agent && !agent {
            return;
        }
        let (now, mut out) = (Time::ZERO + SECOND * second, Vec::new());
        for input in [input, Input::Tick] {
            let from = bytes.len();
            record::write_input(now, &input, bytes).unwrap();
            digest.add_record(&bytes[from..]);
        }
        let _ = controller.observe(now, input);
        controller.step(now, Input::Tick, &mut out).unwrap();
        digest.add_outputs(&out, controller.judged());
        record::write_digest(now, digest, bytes).unwrap();
        all.extend(out);
    };
    heard(0, Input::SwitchConnected { channel: ChannelId(1), identity: None }, &mut bytes);
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
    for act in &orders() {
        heard(8, Input::Ordered { act, again: false }, &mut bytes);
    }
    heard(9, Input::Tick, &mut bytes);
    heard(9, Input::SwitchGone(ChannelId(1)), &mut bytes);
    heard(10, Input::AgentGone(ChannelId(2)), &mut bytes);
    heard(10, Input::ApplicationHere("hadoop"), &mut bytes);
    heard(10, Input::ApplicationGone("hadoop"), &mut bytes);
    heard(60, Input::Tick, &mut bytes);
    (bytes, digest, all)
}

fn records(bytes: &[u8]) -> Records {
    let mut records = Records::default();
    records.push(bytes);
    records
}

fn replay(
    bytes: &[u8],
    policy: &'static str,
    tell: impl FnMut(&Record, &[Output], &Answers<'_>),
) -> Result<Replay, String> {
    watermaster_control::replay(records(bytes), &mut Always(policy), tell)
}

/// The bytes of records.
fn written(records: impl IntoIterator<Item = Record>) -> Vec<u8> {
    let mut out = Vec::new();
    for Record { at, content } in records {
        match content {
            Content::Started(epoch, configuration) => {
                record::write_started(at, epoch, &configuration, &mut out)
            }
            Content::Continued(continuation) => record::write_continued(&continuation, &mut out),
            Content::Changed(configuration) => record::write_changed(at, &configuration, &mut out),
            Content::Digest(digest) => record::write_digest(at, digest, &mut out),
            Content::Ended => record::write_ended(at, &mut out),
            Content::Input(input) => record::write_input(at, &input.as_input(), &mut out),
        }
        .unwrap();
    }
    out
}

fn declarations() -> Vec<Declaration> {
    let job = || String::from("sort");
    vec![
        Declaration::JobStart { job: job() },
        Declaration::JobStart { job: "small".into() },
        Declaration::JobTerms {
            job: job(),
            objective: Some("report".into()),
            deadline_ms: Some(60_000),
            weight: None,
        },
        Declaration::TaskHost { job: job(), task: 0, host: "h0".into() },
        Declaration::Size {
            job: job(),
            map: 0,
            reduces: vec![Portion { task: 1, bytes: Bytes::new(300_000_000) }],
        },
        Declaration::FlowRequest {
            job: job(),
            flow: "1".into(),
            connection: connection(0, 3, 1),
            processes: Processes::default(),
            bytes: Some(Bytes::new(300_000_000)),
        },
        Declaration::FlowRequest {
            job: "small".into(),
            flow: "1".into(),
            connection: connection(1, 4, 1),
            processes: Processes::default(),
            bytes: Some(Bytes::new(1_000)),
        },
        Declaration::FlowRequest {
            job: job(),
            flow: "2".into(),
            connection: connection(2, 3, 9),
            processes: Processes {
                source: Some(Process::Pid(7)),
                destination: Some(Process::Cgroup("/a".into())),
            },
            bytes: None,
        },
        Declaration::Streams {
            job: job(),
            samples: vec![StreamReport {
                flow: "2".into(),
                delivered_bytes: Bytes::new(1),
                sender_queue_bytes: Bytes::new(2),
                receiver_queue_bytes: Bytes::new(3),
            }],
        },
        Declaration::FlowComplete { job: "small".into(), flow: "1".into() },
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
    let tell = |_: &Record, out: &[Output], _: &Answers<'_>| again.extend_from_slice(out);
    let replayed = replay(&bytes, "smsf", tell).unwrap();
    assert_eq!(again, outputs);
    assert_eq!(replayed.digest, format!("{:016x}", digest.decided.0));
    assert_eq!((replayed.outputs, replayed.epoch), (outputs.len() as u64, 7));
    assert_eq!((replayed.altered_after, replayed.differs_after), (None, None));
    assert_eq!((replayed.verified_ns, replayed.unverified), (SECOND * 60, 0));
    assert!(replayed.digests > 15);
}

/// What is wanted, and what is refused, is compared also where nobody is told.
#[test]
fn decisions_of_which_nobody_hears_are_compared() {
    let (bytes, digest, outputs) = recorded_by(&mut Held(5), false);
    assert!(!outputs.iter().any(|output| matches!(output, Output::Agent(..))), "{outputs:?}");
    assert!(digest.judged.directives > 0 && digest.judged.refusals > 0, "{digest:?}");
    let replayed =
        |rate| watermaster_control::replay(records(&bytes), &mut Held(rate), |_, _, _| {}).unwrap();
    let same = replayed(5);
    assert_eq!((same.differs_after, same.unverified_directives), (None, 0));
    assert_eq!(same.directives, digest.judged.directives);
    let other = replayed(6);
    assert_eq!((other.digest, other.altered_after), (same.digest, None), "no output differs");
    assert!(other.differs_after.is_some());
    // Only what was refused differs.
    let mut judged = digest;
    judged.judged.refusals += 1;
    let last = records(&bytes).last().unwrap().unwrap();
    let mut more = bytes.clone();
    record::write_digest(last.at, judged, &mut more).unwrap();
    let more = watermaster_control::replay(records(&more), &mut Held(5), |_, _, _| {}).unwrap();
    assert!(more.differs_after.is_some());
}

/// Only a controller that was stopped has written its end, and nothing follows that.
#[test]
fn a_recording_has_an_end() {
    let (mut bytes, ..) = recorded();
    let ended = |bytes: &[u8]| {
        let replayed = replay(bytes, "smsf", |_, _, _| {}).unwrap();
        (replayed.ended, replayed.damaged)
    };
    assert_eq!(ended(&bytes), (false, None));
    record::write_ended(Time::ZERO + SECOND * 60, &mut bytes).unwrap();
    assert_eq!(ended(&bytes), (true, None));
    record::write_input(Time::ZERO + SECOND * 60, &Input::Tick, &mut bytes).unwrap();
    assert_eq!(ended(&bytes), (true, Some("records follow its end".into())));
}

/// As after a crash: what follows the last digest is replayed, and counted as not verified.
#[test]
fn what_follows_the_last_digest_is_not_verified() {
    let (bytes, ..) = recorded();
    let mut until: Vec<_> = records(&bytes).map(Result::unwrap).collect();
    until.retain(|record| {
        record.at < Time::ZERO + SECOND * 2 || !matches!(record.content, Content::Digest(_))
    });
    let replayed = replay(&written(until), "smsf", |_, _, _| {}).unwrap();
    assert_eq!((replayed.verified_ns, replayed.lasted_ns), (SECOND, SECOND * 60));
    assert!(0 < replayed.unverified && replayed.unverified < replayed.outputs, "{replayed:?}");
    let none = records(&bytes).map(Result::unwrap);
    let none = none.filter(|record| !matches!(record.content, Content::Digest(_)));
    let replayed = replay(&written(none), "smsf", |_, _, _| {}).unwrap();
    assert_eq!((replayed.digests, replayed.unverified), (0, replayed.outputs));
}

/// However its bytes come, a part is read the same; a truncated last record ends it, as when the disk
/// was full or the machine stopped.
#[test]
fn a_truncated_last_record_ends_the_part() {
    let (bytes, ..) = recorded();
    let whole = records(&bytes).count();
    let (mut reader, mut read) = (Records::default(), 0);
    for byte in &bytes {
        assert!(read < whole);
        reader.push(&[*byte]);
        read += reader.by_ref().inspect(|record| assert!(record.is_ok())).count();
    }
    assert_eq!((read, reader.is_truncated()), (whole, false));
    let mut cut = records(&bytes[..bytes.len() - 1]);
    assert_eq!((cut.by_ref().count(), cut.is_truncated()), (whole - 1, true));
}

/// Whichever bit flips, the replay says that the recording is damaged.
#[test]
fn a_flipped_bit_is_noticed() {
    let (mut bytes, ..) = recorded();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read: Result<Vec<_>, RecordError> = records(&bytes).collect();
        assert!(read.is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

/// What stands before the damage is replayed, and no more.
#[test]
fn what_stands_before_the_damage_is_replayed() {
    let (bytes, digest, outputs) = recorded();
    let zeros = [&bytes[..], &[0; 100]].concat();
    let mut again = Vec::new();
    let tell = |_: &Record, out: &[Output], _: &Answers<'_>| again.extend_from_slice(out);
    let replayed = replay(&zeros, "smsf", tell).unwrap();
    assert_eq!((again, replayed.digest), (outputs, format!("{:016x}", digest.decided.0)));
    let says = format!("the record at byte {} is damaged: its checksum differs", bytes.len());
    assert_eq!((replayed.damaged, replayed.differs_after), (Some(says), None));
    let whole = replay(&bytes, "smsf", |_, _, _| {}).unwrap();
    assert_eq!((whole.damaged, whole.inputs), (None, replayed.inputs));
    // Whole records behind it are not taken for what follows.
    let mut within = bytes.clone();
    within[bytes.len() / 2] ^= 1;
    let replayed = replay(&within, "smsf", |_, _, _| {}).unwrap();
    assert!(replayed.damaged.is_some() && replayed.altered_after.is_none());
    assert!(0 < replayed.inputs && replayed.inputs < whole.inputs, "{}", replayed.inputs);
}

/// A replay that comes out differently says so, and where.
#[test]
fn a_difference_is_found() {
    let (bytes, ..) = recorded();
    let replayed = replay(&bytes, "fifo", |_, _, _| {}).unwrap();
    assert!(replayed.differs_after.is_some_and(|outputs| outputs > 2), "{replayed:?}");
    assert_eq!(replayed.altered_after, None);
}

/// As many outputs that say something else are others, and nothing after them is verified.
#[test]
fn a_difference_is_found_among_as_many_outputs() {
    let (bytes, _, outputs) = recorded_by(&mut Held(5), true);
    let mut again = Vec::new();
    let tell = |_: &Record, out: &[Output], _: &Answers<'_>| again.extend_from_slice(out);
    let replayed = watermaster_control::replay(records(&bytes), &mut Held(7), tell).unwrap();
    assert_eq!(again.len(), outputs.len());
    let equal = again.iter().zip(&outputs).take_while(|(one, other)| one == other).count() as u64;
    assert!(0 < equal && equal < replayed.outputs);
    assert_eq!((replayed.altered_after, replayed.differs_after), (None, Some(equal + 1)));
    // The first flow is declared in the second second.
    assert_eq!((replayed.verified_ns, replayed.lasted_ns), (SECOND * 2, SECOND * 60));
    assert_eq!(replayed.unverified, replayed.outputs - equal);
    let replayed =
        watermaster_control::replay(records(&bytes), &mut Held(5), |_, _, _| {}).unwrap();
    assert_eq!((replayed.differs_after, replayed.verified_ns), (None, SECOND * 60));
}

/// Another input with a right checksum is found where nothing else follows from it.
#[test]
fn an_altered_input_is_found() {
    let (bytes, ..) = recorded();
    let altered = records(&bytes).map(|record| match record.unwrap() {
        Record { at, content: Content::Started(epoch, mut configuration) } => {
            configuration.settings.push('#');
            Record { at, content: Content::Started(epoch, configuration) }
        }
        record => record,
    });
    let replayed = replay(&written(altered), "smsf", |_, _, _| {}).unwrap();
    assert_eq!((replayed.altered_after, replayed.differs_after), (Some(3), None));
    let altered = records(&bytes).map(|record| match record.unwrap() {
        Record { at, content: Content::Input(OwnedInput::AgentGone(_)) } => {
            Record { at, content: Content::Input(OwnedInput::AgentGone(ChannelId(99))) }
        }
        record => record,
    });
    let replayed = replay(&written(altered), "smsf", |_, _, _| {}).unwrap();
    assert!(replayed.altered_after.is_some_and(|records| records > 30), "{replayed:?}");
}

#[test]
fn errors_say_where_and_what_to_do() {
    let error = |bytes: &[u8]| replay(bytes, "smsf", |_, _, _| {}).unwrap_err();
    let (mut bytes, ..) = recorded();
    bytes[record::MAGIC.len()] ^= 1;
    assert!(error(&bytes).contains("the record at byte 8 is damaged"), "{}", error(&bytes));
    assert!(error(&bytes[1..]).contains("this is no recording"));
    bytes[7] = 2;
    assert!(error(&bytes).contains("is of another version of the form"));
    let mut tick = record::MAGIC.to_vec();
    record::write_input(Time::ZERO, &Input::Tick, &mut tick).unwrap();
    assert!(error(&tick).contains("does not begin with a controller's start"));
}

/// A recording of this content, whose sums are right.
fn framed(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_le_bytes();
    [record::MAGIC, &length[..], &crc32(&length), content, &crc32(content)].concat()
}

fn crc32(bytes: &[u8]) -> [u8; 4] {
    let bit = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    let add = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), bit);
    (!bytes.iter().fold(!0, add)).to_le_bytes()
}

/// What a record has between its sums.
fn content(record: Record) -> Vec<u8> {
    let bytes = written([record]);
    let bytes = bytes.strip_prefix(record::MAGIC).unwrap_or(&bytes);
    bytes[8..bytes.len() - 4].to_vec()
}

/// What may stand in a record: good contents where octets were changed, taken out (often all that
/// follow) or put in, and any bytes behind a kind.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    let good = every_record().map(content);
    let few = || prop::collection::vec(any::<u8>(), 0..4);
    let out = prop_oneof![4 => 0..4_usize, 1 => Just(usize::MAX)];
    let mends = prop::collection::vec((any::<prop::sample::Index>(), out, few()), 1..4);
    let changed =
        (prop::sample::select(good.collect::<Vec<_>>()), mends).prop_map(|(good, mends)| {
            mends.into_iter().fold(good, |mut bytes, (at, out, few)| {
                let from = at.index(bytes.len() + 1);
                bytes.splice(from..from.saturating_add(out).min(bytes.len()), few);
                bytes
            })
        });
    let any = (0..30_u8, prop::collection::vec(any::<u8>(), 0..200));
    prop_oneof![4 => changed, 1 => any.prop_map(|(kind, rest)| [&[kind], &rest[..]].concat())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    /// No content of a record panics, and what is read of it is written the same.
    #[test]
    fn any_content_is_survived(bytes in contents()) {
        match records(&framed(&bytes)).next().unwrap() {
            // Its time isn't written.
            Ok(Record { content: Content::Continued(_), .. }) => {}
            Ok(record) => prop_assert_eq!(content(record), bytes),
            Err(error) => prop_assert!(!error.reason.contains("checksum"), "{error}"),
        }
    }

    /// No bytes panic; their sums are hardly ever right.
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let recording = [&record::MAGIC[..], &bytes].concat();
        prop_assert!(records(&recording).count() <= bytes.len());
    }
}

/// What is read is written the same.
#[test]
fn what_is_read_is_written_the_same() {
    let (mut bytes, ..) = recorded();
    record::write_changed(Time::ZERO, &configuration(), &mut bytes).unwrap();
    assert_eq!(written(records(&bytes).map(Result::unwrap)), bytes);
    let mut part = Vec::new();
    let continuation = Continuation { epoch: 7, part: 2, before: Fnv(3) };
    record::write_continued(&continuation, &mut part).unwrap();
    let read: Vec<_> = records(&part).map(Result::unwrap).collect();
    assert_eq!(read[0].content, Content::Continued(continuation));
    assert_eq!(written(read), part);
    for record in every_record() {
        let read = records(&framed(&content(record.clone()))).next().unwrap().unwrap();
        assert_eq!(read.content, record.content);
    }
}

/// Programs of one version of the form read each other's recordings.
#[test]
fn the_form_is_bound_to_its_version() {
    let mut sum = Fnv::default();
    sum.update(&written(every_record()));
    let [.., version] = *record::MAGIC;
    assert_eq!(
        (version, format!("{:016x}", sum.0)),
        (18, "b08bc355ca84fa0a".into()),
        "the form has changed: raise the version in MAGIC, then write both here"
    );
}

/// One of each kind, and of what they hold.
fn every_record() -> impl Iterator<Item = Record> {
    let commands = Commands {
        epoch: 1,
        sequence: 2,
        lease_ns: Span::from_nanos(3),
        complete: true,
        commands: commands(),
    };
    let mut digest = Digest::default();
    digest.add_record(&[1]);
    digest.add_outputs(
        &[
            Output::Switch(ChannelId(1), vec![2]),
            Output::CloseSwitch(ChannelId(3), Closing::Session(openflow::Closed::Silence)),
            Output::CloseSwitch(ChannelId(3), Closing::Replaced),
            Output::CloseSwitch(ChannelId(3), Closing::Outranked),
            Output::CloseAgent(ChannelId(3), Closing::Left),
            Output::Agent(ChannelId(4), commands),
            Output::CloseAgent(
                ChannelId(5),
                Closing::Refused(Refusal { field: "type", reason: "no".into(), busy: true }),
            ),
        ],
        Judged { directives: 8, refusals: 9, sum: Fnv(10) },
    );
    let channel = ChannelId(6);
    let declared = declarations()
        .into_iter()
        .map(|declaration| OwnedInput::Declared { application: "hadoop".into(), declaration });
    let inputs = [
        OwnedInput::SwitchConnected { channel, identity: None },
        OwnedInput::SwitchConnected { channel, identity: Some(String::from("leaf1")) },
        OwnedInput::SwitchBytes(channel, vec![7, 8]),
        OwnedInput::SwitchGone(channel),
        OwnedInput::Unreadable("hadoop".into()),
        OwnedInput::ApplicationHere("hadoop".into()),
        OwnedInput::ApplicationGone("hadoop".into()),
        OwnedInput::AgentConnected { channel, identity: "left".into() },
        OwnedInput::AgentGone(channel),
        OwnedInput::Tick,
    ];
    let ordered = orders().into_iter().map(|act| OwnedInput::Ordered { act, again: true });
    let inputs = inputs.into_iter().chain(declared).chain(ordered);
    let inputs = inputs.chain(reports().into_iter().map(move |r| OwnedInput::Reported(channel, r)));
    let others = [
        Content::Started(1, configuration()),
        Content::Continued(Continuation { epoch: 1, part: 2, before: Fnv(3) }),
        Content::Changed(configuration()),
        Content::Digest(digest),
        Content::Ended,
    ];
    let contents = others.into_iter().chain(inputs.map(Content::Input));
    contents.map(|content| Record { at: Time::from_nanos(9), content })
}

/// The same.
fn commands() -> Vec<Command> {
    let (node, interface) = (|| String::from("s0"), || String::from("eth0"));
    let cap = Some(Cap { bytes: Bytes::new(1), floor_segments: 2 });
    let recovery = Span::from_nanos(4);
    let thresholds = Some(Thresholds { low: 1, medium: 2, high: 3, recovery });
    let watch = Some(PortWatch { thresholds });
    let connection = connection(0, 3, 1);
    vec![
        Command::Pace { connection, rate_bps: Some(Rate::from_bps(5)) },
        Command::Prioritize { connection, priority: 6 },
        Command::Window { node: node(), interface: interface(), connection: None, cap },
        Command::Window {
            node: node(),
            interface: interface(),
            connection: Some(connection),
            cap: None,
        },
        Command::Watch { node: node(), interface: interface(), watch },
        Command::Prepare {
            node: node(),
            interface: interface(),
            connection: Some(connection),
            caps: Caps { medium: cap, ..Caps::default() },
        },
        Command::Space { node: node(), interface: interface(), gap_ns: Some(Span::from_nanos(9)) },
        Command::Sample { every_ns: Span::from_nanos(7) },
        Command::Count { every_ns: Span::from_nanos(8) },
        Command::Identify { processes: vec![Process::Pid(8), Process::Cgroup("/b".into())] },
    ]
}

/// The same.
fn reports() -> Vec<Report> {
    let six = |last, port| ([0x2001, 0xdb8, 0, 0, 0, 0, 0, last], port).into();
    let connection = Connection { source: six(1, 2), destination: six(3, 4) };
    let sampled = ConnectionReport {
        connection,
        delivered_bytes: Bytes::new(1),
        unsent_bytes: Bytes::new(2),
        in_flight_bytes: Bytes::new(3),
        rtt_ns: Span::from_nanos(4),
        processes: vec![Process::Pid(6), Process::Pod("a/b".into())],
    };
    let processes = vec![Process::Cgroup("/a".into())];
    let ended = EndedConnection { connection, sent_bytes: Bytes::new(1), processes };
    let host = protocol::agent::Host { name: "h0".into(), addresses: vec![address(0)] };
    let congested = |severity| Report::Congested {
        node: "s0".into(),
        interface: "eth0".into(),
        severity,
        queue_bytes: Bytes::new(6),
    };
    let counted =
        PortCount { node: "s0".into(), interface: "eth0".into(), sent_bytes: Bytes::new(9) };
    let failed = |command| Report::Failed { epoch: 1, sequence: 2, command, reason: "no".into() };
    let hello =
        Report::Hello { hosts: vec![host], capabilities: Capability::ALL.to_vec(), epoch: 1 };
    let few = [
        hello,
        Report::Connections { sampled_ns: Time::from_nanos(7), connections: vec![sampled] },
        Report::Ended { sampled_ns: Time::from_nanos(7), connections: vec![ended], lost: 8 },
        Report::Ports { ports: vec![counted] },
        Report::Opened { connection },
        Report::Closed { connection },
        Report::Applied { epoch: 1, sequence: 2 },
        Report::Stale { epoch: 1, obeys: 2 },
        Report::Left {},
    ];
    let severities = [Severity::Recovered, Severity::Low, Severity::Medium, Severity::High];
    let all = few.into_iter().chain(severities.map(congested));
    all.chain(commands().into_iter().map(failed)).collect()
}

/// The seeds of the fuzz targets are what this test records: `FUZZ_SEEDS=$PWD/fuzz/seeds` writes them
/// anew.
#[test]
fn the_fuzz_seeds_are_recordings() {
    let (bytes, ..) = recorded();
    // The first byte says how the target's controller is made.
    let seeds = [("control/smsf.bin", [&[8], &bytes[..]].concat()), ("recording/smsf.bin", bytes)];
    for (name, bytes) in seeds {
        if let Some(folder) = std::env::var_os("FUZZ_SEEDS") {
            std::fs::write(std::path::Path::new(&folder).join(name), &bytes).unwrap();
        }
        let seed = format!("{}/../../fuzz/seeds/{name}", env!("CARGO_MANIFEST_DIR"));
        assert!(std::fs::read(&seed).unwrap() == bytes, "{name}: record it anew, FUZZ_SEEDS=DIR");
    }
}
