//! The session: every byte sequence, every silence, every limit.
#![allow(clippy::unwrap_used)] // a test may panic

use crate::messages;
use proptest::prelude::*;
use units::{Span, Time};
use watermaster_openflow::*;

const CONFIG: Config = Config::new(Side::Controller);

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn bytes(xid: u32, message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(xid, &mut bytes).unwrap();
    bytes
}

/// The whole messages in a stream.
fn messages(mut stream: &[u8]) -> Vec<(u32, Message<'_>)> {
    let mut found = Vec::new();
    while !stream.is_empty() {
        let length = usize::from(u16::from_be_bytes([stream[2], stream[3]]));
        found.push(Message::decode(&stream[..length]).unwrap());
        stream = &stream[length..];
    }
    found
}

fn drain(session: &mut Session) -> Vec<u8> {
    let output = session.output().to_vec();
    session.sent(output.len());
    output
}

#[track_caller]
fn feed(session: &mut Session, now: Time, input: &[u8]) -> usize {
    assert_eq!(session.receive(now, input), input.len());
    let mut events = 0;
    while session.poll(now).is_some() {
        events += 1;
    }
    events
}

const FEATURES: Features = Features {
    datapath_id: 0xabc,
    n_buffers: 0,
    n_tables: 7,
    auxiliary_id: 0,
    capabilities: 0,
    reserved: 0,
};

/// A controller's session that is up, with nothing to send.
fn up(config: Config) -> Session {
    let mut session = Session::new(config, at(0));
    feed(&mut session, at(0), &bytes(9, &Message::Hello(Hello::ONLY_1_3)));
    let output = drain(&mut session);
    let sent = messages(&output);
    assert_eq!(sent[0].1, Message::Hello(Hello::ONLY_1_3));
    assert_eq!(sent[1].1, Message::FeaturesRequest);
    let reply = bytes(sent[1].0, &Message::FeaturesReply(FEATURES));
    assert_eq!(session.receive(at(0), &reply), reply.len());
    assert_eq!(session.poll(at(0)), Some(Event::Up));
    assert_eq!(session.poll(at(0)), None);
    assert_eq!(session.features(), Some(&FEATURES));
    session
}

#[test]
fn two_ends_agree() {
    let mut controller = Session::new(CONFIG, at(0));
    let mut switch = Session::new(Config::new(Side::Switch), at(0));
    for _ in 0..2 {
        feed(&mut switch, at(0), &drain(&mut controller));
        feed(&mut controller, at(0), &drain(&mut switch));
    }
    // The switch's owner answers the request for features.
    assert!(switch.is_up() && !controller.is_up());
    switch.reply(2, &Message::FeaturesReply(FEATURES)).unwrap();
    feed(&mut controller, at(0), &drain(&mut switch));
    assert!(controller.is_up());
}

/// 6.3.1: a bitmap decides if there is one, else the lower of both versions.
#[test]
fn versions_are_agreed_on() {
    let cases: &[(&[u8], bool)] = &[
        (&[4, 0, 0, 8, 0, 0, 0, 1], true),
        (&[6, 0, 0, 8, 0, 0, 0, 1], true),
        (&[1, 0, 0, 8, 0, 0, 0, 1], false),
        // 1.0 and 1.3; 1.0 and 1.5.
        (&[6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0b01_0010], true),
        (&[6, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0b100_0010], false),
        // A header of 1.0 whose bitmap has 1.3.
        (&[1, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0b01_0010], true),
        // Elements that can't be read: the header decides.
        (&[4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 16], true),
    ];
    for (hello, agreed) in cases {
        let mut session = Session::new(CONFIG, at(0));
        drain(&mut session);
        feed(&mut session, at(0), hello);
        assert_eq!(session.closed(), (!agreed).then_some(Closed::NoVersion), "{hello:?}");
        let output = drain(&mut session);
        let (_, said) = messages(&output)[0];
        if *agreed {
            assert_eq!(said, Message::FeaturesRequest);
        } else {
            let Message::Error(error) = said else { panic!() };
            assert_eq!(error.error, ErrorCode::INCOMPATIBLE);
        }
    }
}

#[test]
fn a_session_begins_with_a_hello() {
    let mut session = Session::new(CONFIG, at(0));
    feed(&mut session, at(0), &bytes(1, &Message::FeaturesReply(FEATURES)));
    assert_eq!(session.closed(), Some(Closed::NoHello));
    assert_eq!(session.poll(at(1)), None);
    assert_eq!(session.deadline(), None);
    assert_eq!(session.send(at(1), &Message::BarrierRequest), Err(Refused::NotUp));
}

/// What arrives after the end is swallowed, so that nobody waits for room.
#[test]
fn a_header_shorter_than_a_header_ends_the_session() {
    let mut session = up(CONFIG);
    feed(&mut session, at(0), &[4, 10, 0, 7, 0, 0, 0, 0]);
    assert_eq!(session.closed(), Some(Closed::Framing));
    assert_eq!(session.receive(at(0), &[0; 300_000]), 300_000);
    assert_eq!(session.poll(at(0)), None);
}

/// 6.3.2: a silent peer is asked after; an answer of any kind counts as life.
#[test]
fn silence_is_asked_after_and_then_ends_the_session() {
    let mut session = up(CONFIG);
    assert_eq!(session.deadline(), Some(at(5)));
    assert_eq!(session.poll(at(4)), None);
    assert!(session.output().is_empty());
    assert_eq!(session.poll(at(5)), None);
    let output = drain(&mut session);
    let [(xid, Message::EchoRequest(_))] = messages(&output)[..] else { panic!() };
    // Asked once.
    assert_eq!(session.poll(at(6)), None);
    assert!(session.output().is_empty());
    // The answer to a question of the session's own is no event.
    assert_eq!(feed(&mut session, at(6), &bytes(xid, &Message::EchoReply(&[]))), 0);
    assert_eq!(session.deadline(), Some(at(11)));
    assert_eq!(session.poll(at(20)), None);
    assert_eq!(session.closed(), None);
    assert_eq!(session.poll(at(21)), None);
    assert_eq!(session.closed(), Some(Closed::Silence));
}

/// A peer that sends bytes but never comes to the point is not waited for.
#[test]
fn a_handshake_has_a_time_limit() {
    let mut session = Session::new(CONFIG, at(0));
    for second in 0..15 {
        feed(&mut session, at(second), &[4]);
    }
    assert_eq!(session.poll(at(15)), None);
    assert_eq!(session.closed(), Some(Closed::Silence));
}

#[test]
fn questions_are_answered() {
    let mut session = up(CONFIG);
    feed(&mut session, at(1), &bytes(77, &Message::EchoRequest(b"x")));
    assert_eq!(session.output(), bytes(77, &Message::EchoReply(b"x")));
}

#[test]
fn replies_find_their_requests() {
    let mut session = up(CONFIG);
    let barrier = session.send(at(1), &Message::BarrierRequest).unwrap();
    let body = Request::Table;
    let tables = session.send(at(1), &Message::MultipartRequest { more: false, body }).unwrap();
    assert_ne!(barrier, tables);
    assert_eq!(session.open_requests(), 2);
    let part = |more| Message::MultipartReply { more, body: Reply::Table(List::EMPTY) };
    let unasked = bytes(barrier, &Message::GetAsyncRequest);
    let input = [
        bytes(tables, &part(true)),
        bytes(barrier, &Message::BarrierReply),
        // Twice is once too often; and another type is no reply.
        bytes(barrier, &Message::BarrierReply),
        unasked,
        bytes(tables, &part(false)),
    ]
    .concat();
    session.receive(at(1), &input);
    let mut seen = Vec::new();
    while let Some(event) = session.poll(at(1)) {
        seen.push(match event {
            Event::Reply { xid, last, .. } => (xid, Some(last)),
            Event::Message { xid, .. } => (xid, None),
            other => panic!("{other:?}"),
        });
    }
    let expected = [
        (tables, Some(false)),
        (barrier, Some(true)),
        (barrier, None),
        (barrier, None),
        (tables, Some(true)),
    ];
    assert_eq!(seen, expected);
    assert_eq!(session.open_requests(), 0);
}

#[test]
fn requests_fail_by_error_by_time_and_by_nonsense() {
    let mut session = up(CONFIG);
    let refused = session.send(at(1), &Message::BarrierRequest).unwrap();
    let garbled = session.send(at(1), &Message::GetConfigRequest).unwrap();
    let late = session.send(at(3), &Message::GetAsyncRequest).unwrap();
    let error = ErrorMessage { error: ErrorCode::IS_SLAVE, data: &[] };
    let mut short =
        bytes(garbled, &Message::GetConfigReply(SwitchConfig { flags: 0, miss_send_len: 0 }));
    short.pop();
    short[3] -= 1;
    session.receive(at(4), &[bytes(refused, &Message::Error(error)), short].concat());
    let malformed = Malformed { part: Part::Message, fault: Fault::Truncated };
    let failure = Failure::Error(error);
    assert_eq!(session.poll(at(4)), Some(Event::Failed { xid: refused, failure }));
    let failure = Failure::Malformed(malformed);
    assert_eq!(session.poll(at(4)), Some(Event::Failed { xid: garbled, failure }));
    assert_eq!(session.poll(at(4)), None);
    let failure = Failure::Timeout;
    assert_eq!(session.poll(at(13)), Some(Event::Failed { xid: late, failure }));
    assert_eq!(session.open_requests(), 0);
}

/// A controller tells its owner of a message that it can't read, a switch answers with an error;
/// both go on.
#[test]
fn a_message_that_cannot_be_read_is_left_out() {
    let unknown = [4, 99, 0, 8, 0, 0, 0, 5];
    let malformed = Malformed { part: Part::Message, fault: Fault::Type };
    let mut controller = up(CONFIG);
    controller.receive(at(1), &unknown);
    assert_eq!(controller.poll(at(1)), Some(Event::Malformed { xid: 5, malformed }));
    assert!(controller.output().is_empty());

    let mut switch = Session::new(Config::new(Side::Switch), at(0));
    feed(&mut switch, at(0), &bytes(1, &Message::Hello(Hello::ONLY_1_3)));
    drain(&mut switch);
    switch.receive(at(1), &unknown);
    assert_eq!(switch.poll(at(1)), Some(Event::Malformed { xid: 5, malformed }));
    let error = ErrorMessage { error: ErrorCode::BAD_TYPE, data: &unknown };
    assert_eq!(switch.output(), bytes(5, &Message::Error(error)));
    // An error that can't be read is not answered with another.
    drain(&mut switch);
    assert_eq!(feed(&mut switch, at(1), &[4, 1, 0, 9, 0, 0, 0, 6, 0]), 1);
    assert!(switch.output().is_empty());
    assert!(controller.is_up() && switch.is_up());
}

#[test]
fn what_waits_is_bounded() {
    let config = Config { max_requests: 2, output_bytes: 100, ..CONFIG };
    let mut session = up(config);
    session.send(at(1), &Message::BarrierRequest).unwrap();
    session.send(at(1), &Message::BarrierRequest).unwrap();
    assert_eq!(session.send(at(1), &Message::BarrierRequest), Err(Refused::Busy));
    while session
        .send(at(1), &Message::SetConfig(SwitchConfig { flags: 0, miss_send_len: 0 }))
        .is_ok()
    {}
    assert!(session.output().len() < 100 + 12);
    session.sent(60);
    assert!(session.send(at(1), &Message::EchoReply(&[])).is_ok());
    let long = vec![0; 65_530];
    session.sent(1000);
    assert_eq!(session.send(at(1), &Message::EchoReply(&long)), Err(Refused::TooLong));

    // Input: a message and the beginning of the next, until somebody polls.
    let request = bytes(1, &Message::EchoRequest(&[0; 60_000]));
    let flood = request.repeat(4);
    let taken = session.receive(at(1), &flood);
    assert_eq!(taken, 2 * 65_535);
    assert_eq!(session.receive(at(1), &flood[taken..]), 0);
    while session.poll(at(1)).is_some() {}
    assert!(session.receive(at(1), &flood[taken..]) > 0);
    // The answers were not taken: that is where patience ends.
    while session.poll(at(1)).is_some() {}
    assert_eq!(session.closed(), Some(Closed::Flood));
}

proptest! {
    #![proptest_config(crate::cases(300))]

    /// However the stream is cut, the same messages come out.
    #[test]
    fn cuts_change_nothing(
        sent in prop::collection::vec(messages::message(), 1..6),
        cuts in prop::collection::vec(1_usize..50, 1..20),
    ) {
        let unsolicited = |message: &&Message<'_>| {
            !matches!(message.kind(), MessageType::HELLO | MessageType::ECHO_REQUEST | MessageType::ECHO_REPLY)
        };
        let sent: Vec<&Message<'_>> = sent.iter().filter(unsolicited).collect();
        let stream: Vec<u8> = sent.iter().flat_map(|message| bytes(1000, message)).collect();
        let mut session = up(CONFIG);
        let (mut rest, mut cuts, mut seen) = (&stream[..], cuts.iter().cycle(), Vec::new());
        while !rest.is_empty() {
            let piece = rest.len().min(*cuts.next().unwrap());
            prop_assert_eq!(session.receive(at(1), &rest[..piece]), piece);
            rest = &rest[piece..];
            while let Some(event) = session.poll(at(1)) {
                let Event::Message { xid: 1000, message } = event else { panic!("{event:?}") };
                seen.push(bytes(1000, &message));
            }
        }
        let sent: Vec<Vec<u8>> = sent.iter().map(|message| bytes(1000, message)).collect();
        prop_assert_eq!(seen, sent);
    }

    /// Whatever comes in, and whenever: no panic, and bounded memory.
    #[test]
    fn anything_is_survived(
        controller: bool,
        pieces in prop::collection::vec((0_u64..4, prop::collection::vec(any::<u8>(), 0..60)), 0..20),
    ) {
        let side = if controller { Side::Controller } else { Side::Switch };
        let mut session = Session::new(Config::new(side), at(0));
        let mut now = at(0);
        feed(&mut session, now, &bytes(1, &Message::Hello(Hello::ONLY_1_3)));
        for (wait, piece) in pieces {
            now += Span::from_secs(wait);
            session.receive(now, &piece);
            while session.poll(now).is_some() {}
            prop_assert!(session.deadline().is_none_or(|deadline| deadline > now));
        }
    }
}
