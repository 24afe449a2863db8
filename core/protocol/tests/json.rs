//! The JSON form is a promise to programs in other languages: it is spelt out here.

use std::net::SocketAddr;

use watermaster_protocol::Connection;
use watermaster_protocol::agent::{Capability, Command, Report, Said};
use watermaster_protocol::application::{Declaration, Outcome, Refused};

/// Reads, writes, and has what it began with.
fn same<T>(json: &str) -> T
where
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let message: T = serde_json::from_str(json).expect(json);
    let back = serde_json::to_value(&message).expect(json);
    assert_eq!(back, serde_json::from_str::<serde_json::Value>(json).expect(json));
    message
}

#[test]
fn declarations() {
    for json in [
        r#"{"type":"job_start","job":"sort-1"}"#,
        r#"{"type":"job_terms","job":"sort-1"}"#,
        r#"{"type":"job_terms","job":"sort-1","objective":"report","deadline_ms":60000,"weight":3}"#,
        r#"{"type":"task_host","job":"sort-1","task":4,"host":"h0"}"#,
        r#"{"type":"size","job":"sort-1","map":4,"reduces":[{"task":9,"bytes":1000}]}"#,
        r#"{"type":"flow_request","job":"sort-1","flow":"m_3/r_1","bytes":1000,
            "connection":{"source":"10.0.0.1:13562","destination":"10.0.0.2:0"}}"#,
        r#"{"type":"flow_request","job":"tt","flow":"m_3/r_1",
            "connection":{"source":"[::1]:6700","destination":"[::1]:6701"}}"#,
        r#"{"type":"flow_complete","job":"sort-1","flow":"m_3/r_1"}"#,
        r#"{"type":"streams","job":"tt","samples":[{"flow":"m_3/r_1","delivered_bytes":1,
            "sender_queue_bytes":2,"receiver_queue_bytes":3}]}"#,
        r#"{"type":"job_complete","job":"sort-1"}"#,
    ] {
        same::<Declaration>(json);
    }
}

#[test]
fn answers() {
    same::<Outcome>(r#"{"taken":3,"epoch":7}"#);
    same::<Outcome>(
        r#"{"taken":1,"epoch":7,"refused":[{"index":1,"field":"host","reason":"no"}],"rest":2,
            "reason":"too fast"}"#,
    );
    same::<Refused>(r#"{"error":{"field":"body","reason":"no"}}"#);
}

#[test]
fn reports_and_commands() {
    same::<Report>(
        r#"{"type":"hello","epoch":0,"capabilities":["pacing"],
            "hosts":[{"name":"h0","addresses":["10.0.0.1"]}]}"#,
    );
    same::<Report>(
        r#"{"type":"congested","node":"s0","interface":"p1","severity":"high","queue_bytes":90000}"#,
    );
    same::<Report>(
        r#"{"type":"failed","epoch":3,"sequence":1,"command":{"type":"sample","every_ns":9},"reason":"no"}"#,
    );
    for capability in Capability::ALL {
        let json = format!("\"{}\"", capability.name());
        assert_eq!(same::<Capability>(&json), capability);
    }
    assert_eq!(same::<Said>(r#""no""#), Said::Closing("no".into()));
    let Said::Commands(commands) = same::<Said>(
        r#"{"epoch":3,"sequence":1,"lease_ns":10000000000,"complete":true,"commands":[
            {"type":"pace","rate_bps":10000000,
             "connection":{"source":"10.0.0.1:1","destination":"10.0.0.2:2"}},
            {"type":"window","node":"s0","interface":"p1","cap":{"bytes":2920,"floor_segments":1}},
            {"type":"watch","node":"s0","interface":"p1","watch":{"thresholds":{
             "low_packets":30,"medium_packets":60,"high_packets":85,"recovery_ns":1000000000}}},
            {"type":"watch","node":"s0","interface":"p2","watch":{}},
            {"type":"prioritize","priority":2,
             "connection":{"source":"10.0.0.1:1","destination":"10.0.0.2:2"}},
            {"type":"sample","every_ns":1000000000}]}"#,
    ) else {
        panic!("an object is commands");
    };
    assert!(matches!(commands.commands[0], Command::Pace { rate_bps: Some(_), .. }));
}

#[test]
fn what_is_unknown_is_refused() {
    for json in [
        r#"{"type":"job_start","job":"a","weight":2}"#,
        r#"{"type":"job_begin","job":"a"}"#,
        r#"{"type":"flow_complete","job":"a","flow":1}"#,
        r#"{"type":"flow_complete","job":"a"}"#,
    ] {
        assert!(serde_json::from_str::<Declaration>(json).is_err(), "{json}");
    }
}

/// A name is none, nor is what has no port.
#[test]
fn what_is_no_end_of_a_connection_is_named() {
    for end in ["h0:0", "10.0.0.1", "10.0.0.1:99999"] {
        let json = format!(r#"{{"source":"10.0.0.9:1","destination":"{end}"}}"#);
        let said = serde_json::from_str::<Connection>(&json).unwrap_err().to_string();
        let wanted = r#", expected an address with a port, such as "10.0.0.1:5001""#;
        assert!(said.contains(end) && said.contains(wanted), "{said}");
    }
}

#[test]
fn connections_are_written_as_their_ends_are() {
    let ends = [
        "0.0.0.0:0",
        "1.20.3.40:9",
        "9.99.100.255:10000",
        "255.255.255.255:65535",
        "[::1]:80",
        "[fd00::1%3]:65535",
    ];
    for source in ends {
        for destination in ends {
            let [from, to] = [source, destination].map(|end| end.parse().unwrap());
            let written =
                serde_json::to_string(&Connection { source: from, destination: to }).unwrap();
            let wanted = format!(r#"{{"source":"{source}","destination":"{destination}"}}"#);
            assert_eq!(written, wanted);
        }
    }
}

/// Tables are walked by ranges of socket addresses.
#[test]
fn connections_are_ordered_as_their_addresses_are() {
    let ends = [
        "0.0.0.0:0",
        "10.0.0.1:1",
        "10.0.0.1:65535",
        "10.0.0.2:0",
        "255.255.255.255:65535",
        "[::]:0",
        "[::ffff:10.0.0.1]:1",
        "[fd00::1]:80",
        "[fd00::1%3]:80",
        "[fd00::2]:1",
    ]
    .map(|end| end.parse::<SocketAddr>().unwrap());
    let all = || ends.into_iter().flat_map(|a| ends.map(|b| (a, b)));
    for (a, b) in all().flat_map(|a| all().map(move |b| (a, b))) {
        let of = |(source, destination)| Connection { source, destination };
        assert_eq!(of(a).cmp(&of(b)), a.cmp(&b), "{a:?} {b:?}");
    }
}
