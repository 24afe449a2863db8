//! Parsers say the same however octets are cut, and survive anything.

use bytes::BytesMut;
use gather::answer;
use gather::command::{Bounds, Command, Form, Parser, Query, Verb};
use gather::message::{Found, Message, Wanted};
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds { keys: 64, item: 2048 };

/// What stands for octets that come in pieces.
fn pieces(octets: &[u8], size: usize) -> Vec<Command> {
    let mut parser = Parser::new(BOUNDS);
    let (mut buffer, mut commands) = (BytesMut::new(), Vec::new());
    for piece in octets.chunks(size) {
        buffer.extend_from_slice(piece);
        while let Some(command) = parser.next(&mut buffer) {
            let ends = matches!(command, Command::Fatal(_));
            commands.push(command);
            if ends {
                return commands;
            }
        }
        assert!(buffer.len() <= parser.most());
    }
    commands
}

fn talk() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        "(get|gets|mg|ms|set|cas|delete|touch|incr|gat|flush_all|quit|mn|stats|verbosity)( [a-z0-9]{1,6}){0,6}\r\n",
        "set k 0 0 [0-9]{1,4}( noreply)?\r\n[a-z]{0,40}\r\n",
        "set k 0 0 4\r\nabcd\r\n",
        "ms k 4 T0 q\r\nabcd\r\n",
        "\\PC{0,30}\n",
    ];
    let lines = prop::collection::vec(line, 0..12);
    prop_oneof![
        lines.prop_map(|all| all.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..4000)
    ]
}

fn queries() -> impl Strategy<Value = Query> {
    let verb = prop_oneof![
        Just(Verb::Get),
        Just(Verb::Gets),
        "[a-z0-9]{0,4}( [a-z]{1,3})?".prop_map(|flags| Verb::Meta(flags.into()))
    ];
    ("[a-zA-Z0-9:]{1,250}", verb).prop_map(|(key, verb)| Query { key: key.into(), verb })
}

fn messages() -> impl Strategy<Value = Message> {
    let found = prop_oneof![
        Just(Found::Answer(None)),
        prop::collection::vec(any::<u8>(), 0..99).prop_map(|all| Found::Answer(Some(all.into()))),
        "\\PC{0,20}".prop_map(Found::Failed)
    ];
    let objects = || prop::collection::vec(any::<u32>(), 0..20);
    let place = || prop::option::of(0..4096u32);
    let wanted = (any::<u32>(), any::<u32>(), queries());
    let wanted = wanted.prop_map(|(object, holder, query)| Wanted { object, holder, query });
    prop_oneof![
        (any::<u64>(), any::<u64>(), any::<bool>())
            .prop_map(|(front, placement, is_front)| Message::Hello { front, placement, is_front }),
        (any::<(u64, u64, bool, u32)>(), place(), prop::collection::vec(wanted, 0..20)).prop_map(
            |((request, speed, packed, patience), parent, wanted)| Message::Gather {
                request,
                parent,
                speed,
                packed,
                patience,
                wanted
            }
        ),
        any::<(u64, u64)>().prop_map(|(request, speed)| Message::Speed(request, speed)),
        (any::<u64>(), objects()).prop_map(|(request, all)| Message::Cancel(request, all)),
        (any::<u64>(), place(), objects())
            .prop_map(|(r, place, all)| Message::Parent(r, place, all)),
        any::<u64>().prop_map(Message::End),
        (any::<u64>(), prop::collection::vec((any::<u32>(), found), 0..20))
            .prop_map(|(request, found)| Message::Objects(request, found)),
        "\\PC{0,40}".prop_map(Message::Refused),
    ]
}

proptest! {
    #[test]
    fn commands_are_the_same_however_they_are_cut(octets in talk(), size in 1..50usize) {
        prop_assert_eq!(pieces(&octets, size), pieces(&octets, octets.len().max(1)));
    }

    #[test]
    fn messages_come_back(all in prop::collection::vec(messages(), 0..6), size in 1..99usize) {
        let mut sent = BytesMut::new();
        all.iter().for_each(|message| message.write(&mut sent));
        let (mut buffer, mut read) = (BytesMut::new(), Vec::new());
        for piece in sent.chunks(size) {
            buffer.extend_from_slice(piece);
            while let Some(message) = Message::read(&mut buffer, 1 << 20).unwrap() {
                read.push(message);
            }
        }
        prop_assert_eq!(read, all);
    }

    #[test]
    fn anything_is_survived(octets in prop::collection::vec(any::<u8>(), 0..3000)) {
        let mut buffer = BytesMut::from(&octets[..]);
        while let Ok(Some(_)) = Message::read(&mut buffer, 1 << 20) {}
        let mut buffer = BytesMut::from(&octets[..]);
        while let Ok(Some(_)) = answer::values(&mut buffer, 1024) {}
        for form in [Form::Line, Form::Meta, Form::Quiet] {
            let mut buffer = BytesMut::from(&octets[..]);
            while let Ok(Some(_)) = answer::whole(&mut buffer, form, 1024) {}
        }
    }
}

#[test]
fn nothing_but_a_key_becomes_a_line() {
    let is_plain = |key: &str, verb| Query { key: key.to_owned().into(), verb }.is_plain();
    let flags = |flags: &str| Verb::Meta(flags.to_owned().into());
    for key in ["a b", "a\r\nflush_all", "", "\u{1}", &"k".repeat(251)] {
        assert!(!is_plain(key, Verb::Get), "{key:?}");
        assert!(!is_plain(key, flags("v")), "{key:?}");
    }
    for strange in ["v\r\nflush_all", "v\u{1}", "v v", "\u{e9}", "Tx", "F-1", "C", &"O".repeat(33)]
    {
        assert!(!is_plain("a", flags(strange)), "{strange:?}");
    }
    assert!(is_plain(&"k".repeat(250), flags("v O7 q")));
    assert!(is_plain("a", flags("")));
}
