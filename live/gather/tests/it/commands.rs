//! Command by command, the front end says what memcached says.

use crate::cluster::{Cluster, is_there, value};

/// Pairs of what is said and what memcached 1.6 answers.
const TALK: &[(&str, &str)] = &[
    ("set a 5 0 2\r\nhi\r\n", "STORED\r\n"),
    ("get a\r\n", "VALUE a 5 2\r\nhi\r\nEND\r\n"),
    ("get a b a\r\n", "VALUE a 5 2\r\nhi\r\nVALUE a 5 2\r\nhi\r\nEND\r\n"),
    ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
    ("replace a 0 0 1\r\nx\r\n", "STORED\r\n"),
    ("append a 0 0 1\r\ny\r\n", "STORED\r\n"),
    ("prepend a 0 0 1\r\nw\r\n", "STORED\r\n"),
    ("gat 0 a\r\n", "VALUE a 0 3\r\nwxy\r\nEND\r\n"),
    ("set n 0 0 1 noreply\r\n5\r\nincr n 3\r\n", "8\r\n"),
    ("decr n 1\r\n", "7\r\n"),
    ("incr zz 1\r\n", "NOT_FOUND\r\n"),
    ("touch n 0\r\n", "TOUCHED\r\n"),
    ("delete n noreply\r\nget n\r\n", "END\r\n"),
    ("delete n\r\n", "NOT_FOUND\r\n"),
    ("ms m 2 F9\r\nhi\r\n", "HD\r\n"),
    ("mg m v f\r\n", "VA 2 f9\r\nhi\r\n"),
    ("mg m s v k O7 q\r\nmg zz v q\r\nmn\r\n", "VA 2 s2 km O7\r\nhi\r\nMN\r\n"),
    ("mg zz v\r\n", "EN\r\n"),
    ("mg v N30 v t\r\n", "VA 0 t30 W\r\n\r\n"),
    ("ms c 1 q\r\n1\r\nma c v\r\n", "VA 1\r\n2\r\n"),
    ("md c q\r\nmd c\r\n", "NF\r\n"),
    ("cas a 0 0 1 1\r\nx\r\n", "EXISTS\r\n"),
    ("verbosity 1\r\n", "OK\r\n"),
    ("nonsense\r\n", "ERROR\r\n"),
    ("get\r\n", "ERROR\r\n"),
    ("set a 0 0 x\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set a -1 0 9\r\nmg evil v\r\nmn\r\n", "CLIENT_ERROR bad command line format\r\nMN\r\n"),
    ("mg zz v qq\r\nmn\r\n", "MN\r\n"),
    ("touch zz noreply noreply\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
    ("mg Zm9v v bb\r\n", "CLIENT_ERROR keys in base64 are not supported\r\n"),
    ("mg zz v v\r\n", "CLIENT_ERROR too many, invalid or duplicate flags\r\n"),
    ("incr m x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
    ("flush_all\r\n", "OK\r\n"),
    ("get a m\r\n", "END\r\n"),
];

async fn talk(straight_below: usize) {
    if !is_there() {
        return;
    }
    let more = format!("straight_below = {straight_below}\nitem = \"64 KB\"");
    let cluster = Cluster::start("name = \"sicc\"", 2, 1, &more).await;
    let mut client = cluster.client().await;
    for (said, answer) in TALK {
        client.send(said.as_bytes()).await;
        let heard = client.octets(answer.len()).await;
        assert_eq!(String::from_utf8_lossy(&heard), *answer, "{said:?}");
    }
    // What is too large is passed over, and what follows is understood. The old value goes as at memcached.
    let too_large = "SERVER_ERROR object too large for cache";
    for (line, is_there) in [
        ("set l 0 0 70000", false),
        ("set l 0 0 70000 noreply", false),
        ("ms l 70000", false),
        ("append l 0 0 70000", true),
        ("cas l 0 0 70000 1", true),
    ] {
        assert_eq!(client.say("set l 0 0 2\r\nhi\r\n").await, "STORED");
        let large = format!("{line}\r\n{}\r\nmn\r\n", "x".repeat(70_000));
        assert_eq!(client.say(&large).await, too_large, "{line}");
        assert_eq!(client.line().await, "MN");
        let found = client.get(&["l".to_owned()]).await.unwrap();
        assert_eq!(found.contains_key("l"), is_there, "{line}");
    }
    // What is wrong besides is said of it alone.
    let wrong = format!("set l -1 0 70000\r\n{}\r\nmn\r\n", "x".repeat(70_000));
    assert_eq!(client.say(&wrong).await, "CLIENT_ERROR bad command line format");
    assert_eq!(client.line().await, "MN");
    // What can't be understood ends the connection.
    assert_eq!(client.say("set l 0 0 2\r\nxxxx\r\n").await, "CLIENT_ERROR bad data chunk");
    assert!(client.ends().await);
}

#[tokio::test]
async fn commands_are_answered_as_by_memcached() {
    talk(1000).await;
}

#[tokio::test]
async fn commands_are_answered_as_by_memcached_through_hubs() {
    talk(1).await;
}

#[tokio::test]
async fn as_many_keys_are_touched_as_are_fetched() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start("name = \"one-all\"", 1, 1, "deadline = \"15 s\"").await;
    let mut client = cluster.client().await;
    let filled = client.fill(20).await;
    // As many as a command may have, of the longest that there are.
    let mut keys: Vec<String> = (filled.len()..16_384).map(|n| format!("{n:0>250}")).collect();
    // Some that are there, far from each other.
    for (place, key) in filled.iter().enumerate() {
        keys.insert(place * 800, key.clone());
    }
    for time in ["0", "-0000000000000000000"] {
        client.send(format!("gat {time} {}\r\n", keys.join(" ")).as_bytes()).await;
        for key in &filled {
            let value = value(key);
            assert_eq!(client.line().await, format!("VALUE {key} 7 {}", value.len()));
            assert_eq!(client.octets(value.len() + 2).await, format!("{value}\r\n").as_bytes());
        }
        assert_eq!(client.line().await, "END");
    }
}

#[tokio::test]
async fn copies_are_all_written() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start("name = \"one-all\"", 2, 2, "").await;
    let mut client = cluster.client().await;
    client.fill(20).await;
    assert_eq!(client.say("incr key-1 1\r\n").await.split(' ').next(), Some("CLIENT_ERROR"));
    let mut items = 0;
    for server in &cluster.servers {
        use std::io::{BufRead as _, BufReader, Write as _};
        let mut stream = std::net::TcpStream::connect(server.address).unwrap();
        stream.write_all(b"stats\r\n").unwrap();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            match line.strip_prefix("STAT curr_items ") {
                Some(count) => items += count.parse::<u32>().unwrap(),
                None if line == "END" => break,
                None => {}
            }
        }
    }
    assert_eq!(items, 40);
}
