//! Whatever a client says, each of its lines is answered as often as by memcached: the connection to a server, which all
//! clients share, stays in step.

use std::time::Duration;

use bytes::Bytes;
use gather::command::{Form, Query, Verb};
use gather::front::Front;
use gather::pool::{Budget, Server};
use gather::settings::Settings;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use crate::cluster::{Client, Cluster, HANGS, Memcached, is_there};

/// Lines that memcached takes; `KEY` is one that no other line names.
const GOOD: &[&str] = &[
    "set KEY 0 0 2",
    "add KEY 0 0 2",
    "replace KEY 1 0 2",
    "append KEY 0 30 2",
    "prepend KEY 0 0 2 noreply",
    "cas KEY 0 0 2 18446744073709551615",
    "ms KEY 2",
    "ms KEY 2 T30 F9 c q",
    "mg KEY",
    "mg KEY v k q",
    "mg KEY s v t f h l",
    "mg KEY v N30 O7",
    "md KEY q",
    "md KEY I T30",
    "ma KEY v",
    "ma KEY N0 J5 MD q",
    "me KEY",
    "get KEY",
    "gets KEY",
    "gat 0 KEY",
    "gats 30 KEY",
    "gat x KEY",
    "touch KEY 0",
    "incr KEY 1",
    "decr KEY 1 noreply",
    "delete KEY",
    "delete KEY 0 noreply",
];

/// What is put among their words.
const WORDS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "30",
    "2147483648",
    "4294967295",
    "99999999999999999999",
    "-",
    "x",
    "noreply",
    "noreply",
    "v",
    "q",
    "qq",
    "qk",
    "k",
    "kk",
    "f",
    "t",
    "c",
    "b",
    "bb",
    "O8",
    "N0",
    "T0",
    "R30",
    "F1",
    "C1",
    "D2",
    "E5",
    "I",
    "MA",
    "ME",
    "M",
    "Tx",
    "F-1",
    "Z",
    "\u{1}",
    "v\u{1}",
    "\u{7f}",
    "\u{e9}",
    "k s t f h l u I L P O1 C1 J2 D2 MS F1 T0",
];

#[derive(Clone, Copy, Debug)]
enum Change {
    Put,
    Replace,
    Remove,
}

/// A line and whether its key is there; behind the key up to three words are others.
fn lines() -> impl Strategy<Value = (String, bool)> {
    let change = prop::sample::select(vec![Change::Put, Change::Replace, Change::Remove]);
    let change = (any::<prop::sample::Index>(), change, prop::sample::select(WORDS));
    let changes = prop::collection::vec(change, 0..4);
    (prop::sample::select(GOOD), changes, any::<bool>()).prop_map(|(line, changes, is_there)| {
        let mut words: Vec<&str> = line.split(' ').collect();
        let after = words.iter().position(|word| *word == "KEY").unwrap_or(words.len() - 1) + 1;
        for (place, change, word) in changes {
            let place = after + place.index(words.len() - after + 1);
            match change {
                Change::Replace if place < words.len() => words[place] = word,
                Change::Remove if place < words.len() => {
                    words.remove(place);
                }
                _ => words.insert(place, word),
            }
        }
        (words.join(" "), is_there)
    })
}

/// Asked for in one go with each line, so that it is gathered. They aren't there.
const AROUND: &[&str] = &["one", "two", "three", "four", "five", "six"];

/// The line with the value that it announces, if it does.
fn with_value(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let place = match words[0] {
        "set" | "add" | "replace" | "append" | "prepend" | "cas" => 4,
        "ms" => 2,
        _ => return format!("{line}\r\n"),
    };
    match words.get(place).and_then(|size| size.parse::<usize>().ok()) {
        Some(size) if size <= 64 => format!("{line}\r\n{}\r\n", "z".repeat(size)),
        _ => format!("{line}\r\n"),
    }
}

/// All that is answered, without its numbers: two servers count what they store differently.
async fn answers(client: &mut Client, said: &str) -> Vec<String> {
    let around: String = AROUND.iter().map(|key| format!("mg {key} v\r\n")).collect();
    client.send(format!("{around}{said}mn\r\n").as_bytes()).await;
    for key in AROUND {
        assert_eq!(client.line().await, "EN", "{key} before {said:?}");
    }
    let mut lines = Vec::new();
    loop {
        let line = client.line().await;
        if line == "MN" {
            return lines;
        }
        let mut shape = line.replace(|c: char| c.is_ascii_digit(), "#");
        while shape.contains("##") {
            shape = shape.replace("##", "#");
        }
        lines.push(shape);
    }
}

async fn compare(policy: &str, straight_below: usize) {
    if !is_there() {
        return;
    }
    let more =
        format!("straight_below = {straight_below}\ndeadline = \"10 s\"\npatience = \"9 s\"");
    let cluster = Cluster::start(policy, 1, 1, &more).await;
    let memcached = Memcached::start().await;
    let mut gathered = cluster.client().await;
    let mut straight = Client::at(memcached.address).await;
    let mut runner = TestRunner::deterministic();
    let strategy = lines();
    // Beyond the numbers that lines have for what servers count.
    gathered.fill(300).await;
    straight.fill(100).await;
    let (mut same, all) = (0, 1500);
    for number in 0..all {
        let (line, is_there) = strategy.new_tree(&mut runner).unwrap().current();
        let letters = number.to_string().into_bytes();
        let letters = letters.into_iter().map(|digit| char::from(digit - b'0' + b'a'));
        let key: String = "own-".chars().chain(letters).collect();
        if is_there {
            let set = format!("set {key} 5 0 1\r\n7\r\n");
            assert_eq!(gathered.say(&set).await, "STORED", "{number}");
            assert_eq!(straight.say(&set).await, "STORED", "{number}");
        }
        let said = with_value(&line.replace("KEY", &key));
        let ours = answers(&mut gathered, &said).await;
        let theirs = answers(&mut straight, &said).await;
        if ours == theirs {
            same += 1;
        } else {
            // What is refused here never came to a server.
            assert!(
                matches!(&ours[..], [one] if one.starts_with("CLIENT_ERROR ") || one == "ERROR"),
                "{said:?}: {ours:?}, and straight {theirs:?}"
            );
        }
        // Nothing is left over for another's question.
        assert_eq!(gathered.say("mg nobodys-key v\r\n").await, "EN", "after {said:?}");
    }
    // None of it was a reason for hubs to leave.
    gathered.send(b"stats\r\n").await;
    while gathered.line().await != "STAT hubs_lost 0" {}
    while gathered.line().await != "END" {}
    assert!(same > all / 4, "only {same} are the same");
}

#[tokio::test]
async fn lines_are_answered_as_often_as_by_memcached() {
    compare("name = \"one-all\"", 1000).await;
}

#[tokio::test]
async fn lines_are_answered_as_often_as_by_memcached_through_hubs() {
    compare("name = \"sicc\"", 1).await;
}

#[tokio::test]
async fn what_nobody_asked_for_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server::start("s1", listener.local_addr().unwrap(), 1024);
    let budget = Budget::new(1 << 20);
    let deadline = Instant::now() + Duration::from_secs(600);
    let mut open = Vec::new();
    for (asked, form, said, wanted) in [
        ("set a 0 0 1\r\n1\r\n", Form::Line, "STORED\r\nVA 6\r\nsecret\r\n", "STORED\r\n"),
        ("mg k v\r\n", Form::Meta, "EN\r\n", "EN\r\n"),
    ] {
        let pending = server.say(Bytes::from_static(asked.as_bytes()), form, &budget, deadline);
        // Each comes on a connection of its own.
        let (mut stream, _) =
            timeout(HANGS, listener.accept()).await.expect("the old one").unwrap();
        let mut heard = vec![0; asked.len()];
        stream.read_exact(&mut heard).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut answers = pending.answer().await.unwrap();
        let record = answers.pop().unwrap().unwrap().unwrap();
        assert_eq!(record.octets, wanted.as_bytes());
        open.push(stream);
    }
}

#[tokio::test]
async fn what_comes_in_one_go_is_sent_in_one_go() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = format!(
        "policy = {{ name = \"one-all\" }}\npool = {{ hashing = \"ketama\" }}\n\
         [front]\nlisten = \"127.0.0.1:0\"\ndeadline = \"60 s\"\n[[rack]]\nname = \"r0\"\n\
         [[server]]\nname = \"s0\"\naddress = \"{}\"\nrack = \"r0\"\n",
        listener.local_addr().unwrap()
    );
    let front = Front::start(Settings::read("gather.toml", &text).unwrap()).await.unwrap();
    let mut client = Client::at(front.address().unwrap()).await;
    tokio::spawn(front.run());
    client.send(b"set a 0 0 1 noreply\r\n1\r\nincr a 1\r\ndelete a\r\nmn\r\n").await;
    // All of it comes before any of it is answered.
    let (mut stream, _) = timeout(HANGS, listener.accept()).await.expect("it connects").unwrap();
    let all = b"set a 0 0 1\r\n1\r\nincr a 1\r\ndelete a\r\n";
    let mut heard = vec![0; all.len()];
    timeout(HANGS, stream.read_exact(&mut heard)).await.expect("it waits for an answer").unwrap();
    assert_eq!(heard, all);
    stream.write_all(b"STORED\r\n2\r\nDELETED\r\n").await.unwrap();
    for said in ["2", "DELETED", "MN"] {
        assert_eq!(client.line().await, said);
    }
}

#[tokio::test]
async fn a_value_too_large_fails_alone() {
    if !is_there() {
        return;
    }
    let memcached = Memcached::start().await;
    let mut straight = Client::at(memcached.address).await;
    let large = "x".repeat(100_000);
    assert_eq!(straight.say(&format!("set k 0 0 100000\r\n{large}\r\n")).await, "STORED");
    assert_eq!(straight.say("set a 0 0 2\r\nhi\r\n").await, "STORED");
    let server = Server::start("s1", memcached.address, 1024);
    let (budget, deadline) = (Budget::new(1 << 20), Instant::now() + HANGS);
    let query = |key: &'static str, verb: &Verb| Query { key: key.into(), verb: verb.clone() };
    let meta = |flags: &'static str| Verb::Meta(flags.into());
    // All on one connection, before the first is answered.
    let asked = [Verb::Get, Verb::Gets, meta("v"), meta("v q")];
    let asked = asked.map(|verb| {
        let queries = ["k", "a", "b"].map(|key| query(key, &verb));
        server.ask(&queries, &budget, deadline)
    });
    for pending in asked {
        let answers = pending.answer().await.unwrap();
        let [large, small, missing] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(&**large.as_ref().unwrap_err(), "s1: a value is larger than item allows");
        let small = small.as_ref().unwrap().as_ref().unwrap();
        assert!(small.octets.ends_with(b"\r\nhi\r\n"), "{small:?}");
        // A miss is nothing, or a line that says so.
        let missing = missing.as_ref().unwrap().as_ref();
        assert!(missing.is_none_or(|record| record.octets.len() < 5), "{missing:?}");
    }
}
