//! A sample that comes in several reports says what it would in one.

use crate::decide::report;
use crate::in_memory::{Rig, SECOND, Shape, connection};
use protocol::Connection;
use protocol::agent::{ConnectionReport, Report};
use protocol::application::{Declaration, StreamReport};
use units::{Bytes, Rate, Span};
use watermaster_control::{ChannelId, Input};

fn rig(name: &str) -> (Rig, ChannelId) {
    let shape = Shape::racks(2);
    let policy = policy::by_name(name, &policy::Parameters::default()).unwrap();
    let mut rig = Rig::new(&shape, shape.config(name, policy, true), 1);
    let agent = rig.agent("left", &[0, 1]);
    (rig, agent)
}

/// A sample in reports of so many connections each, which come within some milliseconds; what a connection is held to
/// after each of them.
fn tell(
    rig: &mut Rig,
    agent: ChannelId,
    each: usize,
    sample: &[ConnectionReport],
    of: &Connection,
) -> Vec<Option<Rate>> {
    let sampled_ns = rig.now;
    let told = sample.chunks(each).map(|part| {
        let report = Report::Connections { sampled_ns, connections: part.to_vec() };
        rig.input(Input::Reported(agent, &report)).unwrap();
        rig.pass(Span::from_millis(5));
        rig.agents[&agent].paced.get(of).copied()
    });
    told.collect()
}

/// What a connection is held to after each sample of `connections`, which deliver so much a second and have so much
/// unsent; `each` of them in a report.
fn held(each: usize, connections: &[(Connection, u64, u64)], of: &Connection) -> Vec<Option<Rate>> {
    let (mut rig, agent) = rig("asy");
    let mut after = Vec::new();
    for second in 1..8 {
        rig.pass(SECOND);
        let sample: Vec<_> = connections
            .iter()
            .map(|(of, each, unsent)| report(*of, 50_000_000 + second * each, *unsent))
            .collect();
        let rates = tell(&mut rig, agent, each, &sample, of);
        // With the first sample there is no rate.
        after.extend(rates.into_iter().filter(|_| second > 1));
    }
    after
}

/// One waits to send, others of the pair do not: the pair has all of the link, whichever is told last.
#[test]
fn a_pair_of_which_one_connection_waits_keeps_the_link() {
    let (busy, idle) = (connection(0, 2, 1), connection(0, 2, 2));
    let waits = [(busy, 1_000_000, 5_000_000), (idle, 100_000, 0)];
    let whole = held(2, &waits, &busy);
    let least = *whole.iter().min().unwrap();
    assert!(least >= Some(Rate::from_mbps(45)), "{whole:?}");
    for waits in [waits, [waits[1], waits[0]]] {
        let parts = held(1, &waits, &busy);
        assert!(parts.iter().all(|rate| *rate >= least), "{parts:?} in parts, {whole:?}");
    }
}

/// None waits: what a pair offers is what all of its connections deliver, not what those of one report do.
#[test]
fn a_pair_offers_what_all_of_its_connections_deliver() {
    let of = connection(0, 2, 1);
    let (first, second) = ((of, 2_000_000, 0), (connection(0, 2, 2), 3_000_000, 0));
    let whole = held(2, &[first, second], &of);
    assert!(whole.iter().all(Option::is_some), "{whole:?}");
    for sample in [[first, second], [second, first]] {
        let parts = held(1, &sample, &of);
        // What the second part says of the second sample counts with the third.
        assert!(parts[..2].iter().all(|rate| *rate <= whole[0]), "{parts:?} in parts, {whole:?}");
        assert!(parts[2..].iter().all(|rate| *rate == whole[0]), "{parts:?} in parts, {whole:?}");
    }
}

/// What has nothing to say any more doesn't wait.
#[test]
fn a_connection_that_vanishes_waits_for_a_sample_at_most() {
    let (mut rig, agent) = rig("asy");
    let (busy, idle) = (connection(0, 2, 1), connection(0, 2, 2));
    let sample = |rig: &mut Rig, reports: &[ConnectionReport]| {
        rig.pass(SECOND);
        tell(rig, agent, 1, reports, &idle).pop().unwrap()
    };
    for second in 1..4 {
        sample(
            &mut rig,
            &[report(busy, second * 1_000_000, 5_000_000), report(idle, second * 100_000, 0)],
        );
    }
    let [before, after] = [400_000, 500_000].map(|sent| sample(&mut rig, &[report(idle, sent, 0)]));
    assert!(before > Some(Rate::from_mbps(45)), "{before:?}: the agent has not looked at all yet");
    assert!(after < Some(Rate::from_mbps(5)), "{after:?}");
}

/// A stream over two connections, of which one has much in its sender's kernel: it is no lie that data waits.
#[test]
fn what_waits_at_a_stream_is_what_waits_at_all_of_its_connections() {
    for (each, busy_first, vanishes) in
        [(2, true, false), (1, true, false), (1, false, false), (1, true, true)]
    {
        let (mut rig, agent) = rig("app-aware");
        rig.start("app", "job");
        rig.flow("app", "job", 1, connection(0, 2, 0), None).unwrap();
        let streams = |delivered: u64| Declaration::Streams {
            job: "job".into(),
            samples: vec![StreamReport {
                flow: "1".into(),
                delivered_bytes: Bytes::new(delivered),
                sender_queue_bytes: Bytes::new(3_000_000),
                receiver_queue_bytes: Bytes::ZERO,
            }],
        };
        for second in 1..6 {
            rig.pass(SECOND);
            let mut sample = [
                report(connection(0, 2, 1), second * 1_000_000, 2_000_000),
                report(connection(0, 2, 2), second * 1_000, 0),
            ];
            if !busy_first {
                sample.reverse();
            }
            tell(&mut rig, agent, each, &sample, &connection(0, 2, 1));
            rig.declare("app", streams(second * 1_000_000)).unwrap();
        }
        let found = rig.why("app", "job", 1).flow.contradicted;
        assert_eq!(found, None, "{each} in a report");
        // Once the kernel has nothing any more, the same word is one.
        for second in 6..9 {
            rig.pass(SECOND);
            let mut sample = vec![report(connection(0, 2, 2), second * 1_000, 0)];
            if !vanishes {
                sample.push(report(connection(0, 2, 1), 6_000_000, 0));
            }
            tell(&mut rig, agent, each, &sample, &connection(0, 2, 1));
            rig.declare("app", streams(second * 1_000_000)).unwrap();
        }
        let found = rig.why("app", "job", 1).flow.contradicted.unwrap();
        assert!(found.contains("nothing to send"), "{found}");
    }
}
