//! Peers that say half a message, and then nothing, or go.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use kernel::Namespace;

use crate::cluster::{Cluster, SLACK};
use crate::report::{note, seconds};

/// What half a message is of, and how long one may be silent within it.
struct Half {
    who: &'static str,
    /// What is said, and answered, before.
    before: &'static [u8],
    said: &'static [u8],
    patience: Duration,
}

const HALVES: [Half; 5] = [
    Half {
        who: "switch, in its first message",
        before: b"",
        said: &[4, 0, 0],
        patience: Duration::from_secs(15),
    },
    Half {
        who: "switch, in its second message",
        // A hello; then a header that promises 32 octets.
        before: &[4, 0, 0, 8, 0, 0, 0, 1],
        said: &[4, 6, 0, 32, 0, 0, 0, 2, 0, 0],
        patience: Duration::from_secs(15),
    },
    Half {
        who: "agent, in a report",
        before: b"GET /v1/agents/half/exchange HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\n\
                  upgrade: watermaster-agent/1\r\n\r\n",
        said: b"{\"type\":\"opened\",",
        patience: Duration::from_secs(30),
    },
    Half {
        who: "application, in a declaration",
        before: b"",
        said: b"POST /v1/applications/half/declarations HTTP/1.1\r\nhost: x\r\n\
                content-length: 100\r\n\r\n{\"type\":",
        patience: Duration::from_secs(30),
    },
    Half {
        who: "application, in a request's head",
        before: b"",
        said: b"GET /v1/st",
        patience: Duration::from_secs(60),
    },
];

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Half {
    /// Says it, to whom it is for.
    fn say(&self, cluster: &Cluster) -> Box<dyn Stream> {
        const WAIT: Option<Duration> = Some(Duration::from_secs(90));
        let mut stream: Box<dyn Stream> = if self.who.starts_with("switch") {
            let switches = Namespace::named(&cluster.tables.namespace).unwrap();
            let stream = switches.visit(|| Ok(TcpStream::connect("127.0.0.1:6653").unwrap()));
            let stream = stream.unwrap();
            stream.set_read_timeout(WAIT).unwrap();
            Box::new(stream)
        } else {
            let stream = UnixStream::connect(cluster.folder.join("controller.sock")).unwrap();
            stream.set_read_timeout(WAIT).unwrap();
            Box::new(stream)
        };
        if !self.before.is_empty() {
            stream.write_all(self.before).unwrap();
            let mut answer = [0; 1024];
            assert!(stream.read(&mut answer).unwrap() > 0, "{}: no answer", self.who);
        }
        stream.write_all(self.said).unwrap();
        stream
    }
}

#[test]
#[ignore = "takes long: make faults"]
fn half_a_message_is_cut_off_and_hurts_nobody_else() {
    let Some(cluster) = Cluster::up("half") else { return };
    let traffic = cluster.traffic();
    let entries = cluster.tables.entries();
    let before = cluster.log("agent");
    let mark = traffic.mark();
    // Those that go are forgotten at once.
    let connections = |status: &serde_json::Value| status["connections"].as_u64().unwrap();
    let usual = connections(&cluster.daemons.status().unwrap());
    let gone: Vec<_> = HALVES.iter().map(|half| half.say(&cluster)).collect();
    cluster.until(|status| connections(status) >= usual + gone.len() as u64);
    drop(gone);
    cluster.until(|status| connections(status) <= usual);
    // Those that stay silent are cut off.
    let silent: Vec<_> = HALVES
        .iter()
        .map(|half| {
            let (mut stream, start) = (half.say(&cluster), Instant::now());
            thread::spawn(move || {
                // Closed or reset, after whatever was said to it.
                let ended = stream.read_to_end(&mut Vec::new());
                let late = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
                assert!(!late, "nobody cuts it off");
                start.elapsed()
            })
        })
        .collect();
    let mut seen = Vec::new();
    for (half, silent) in HALVES.iter().zip(silent) {
        let took = silent.join().unwrap();
        assert!(took < half.patience + SLACK, "{}: cut off after {took:?}", half.who);
        seen.push(format!("{} {}", half.who, seconds(took)));
        traffic.stay_held(Duration::from_secs(1), half.who);
    }
    assert_eq!(cluster.log("agent"), before, "the real one has not noticed");
    assert_eq!(cluster.tables.entries(), entries);
    let suffered = traffic.since(&mark);
    suffered.assert_flowing();
    let seen = format!("cut off: {}; the others not affected", seen.join(", "));
    note(12, "half a message, then silence or an end", &suffered, &seen);
}
