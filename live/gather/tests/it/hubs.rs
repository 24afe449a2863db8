//! A hub as front ends see it.

use bytes::BytesMut;
use gather::command::{Query, Verb};
use gather::hub::Hub;
use gather::message::{Found, Message, Wanted};
use gather::settings::Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cluster::{HANGS, Memcached, free, is_there};

struct Front {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Front {
    async fn say(&mut self, message: &Message) {
        self.stream.write_all(&message.frame()).await.unwrap();
    }

    /// What the hub finds of a request for these, by their numbers.
    async fn gather(&mut self, request: u64, queries: &[Query]) -> Vec<(u32, Found)> {
        let wanted = (0..).zip(queries);
        let wanted =
            wanted.map(|(object, query)| Wanted { object, holder: 0, query: query.clone() });
        let wanted = wanted.collect();
        let (speed, patience) = (1_000_000_000, 60_000);
        let parent = None;
        self.say(&Message::Gather { request, parent, speed, packed: true, patience, wanted }).await;
        let mut all = Vec::new();
        while all.len() < queries.len() {
            match Message::read(&mut self.buffer, 1 << 20).unwrap() {
                Some(Message::Objects(of, found)) if of == request => all.extend(found),
                Some(other) => panic!("{other:?}"),
                None => {
                    let got = timeout(HANGS, self.stream.read_buf(&mut self.buffer)).await;
                    assert_ne!(got.expect("it hangs").unwrap(), 0, "the connection ended");
                }
            }
        }
        all.sort_by_key(|(object, _)| *object);
        all
    }
}

#[tokio::test]
async fn what_is_no_query_fails_alone() {
    if !is_there() {
        return;
    }
    let memcached = Memcached::start().await;
    let text = format!(
        "policy = {{ name = \"sicc\" }}\npool = {{ hashing = \"ketama\" }}\n\
         [front]\nlisten = \"127.0.0.1:0\"\ndeadline = \"60 s\"\n[[rack]]\nname = \"r0\"\n\
         [[server]]\nname = \"s0\"\naddress = \"{}\"\nhub = \"{}\"\nrack = \"r0\"\n",
        memcached.address,
        free()
    );
    let settings = Settings::read("gather.toml", &text).unwrap();
    let placement = settings.placement();
    let hub = Hub::start(settings, "s0").await.unwrap();
    let stream = TcpStream::connect(hub.address().unwrap()).await.unwrap();
    tokio::spawn(hub.run());
    let mut front = Front { stream, buffer: BytesMut::new() };
    front.say(&Message::Hello { front: 1, placement, is_front: true }).await;
    let query = |key: &str, flags: &str| Query {
        key: key.to_owned().into(),
        verb: Verb::Meta(flags.to_owned().into()),
    };
    let queries = [query("a", "v\u{1}"), query("a", "v"), query("a\r\nflush_all", "v")];
    // Twice: the connection outlives it.
    for request in [1, 2] {
        let found = front.gather(request, &queries).await;
        assert!(matches!(&found[0], (0, Found::Failed(_))), "{found:?}");
        assert_eq!(found[1], (1, Found::Answer(Some("EN\r\n".into()))));
        assert!(matches!(&found[2], (2, Found::Failed(_))), "{found:?}");
    }
}
