//! Stream applications on small networks, against closed forms.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)] // a test may panic

use engine::Outcome;
use model::build::{Access, star};
use model::{Buffer, NodeId, Topology};
use packet::{Setup, Transport};
use policy::{Parameters, Policy, by_name};
use testing::network::link;
use testing::packet::{outcome, setup};
use units::{Bytes, Rate, Span, Time};
use watermaster_workload::stream::{Grouping, Input, Keys, Operator, Stream, StreamRun};

fn topology(mbps: u64) -> Topology {
    let (link, nic) = (link(mbps, 50, Buffer::Packets(100)), Buffer::Packets(100));
    star(8, &Access { link, nic }).unwrap()
}

fn host(number: u32) -> NodeId {
    testing::network::host(&topology(1), &format!("h{number}"))
}

fn operator(name: &str, hosts: &[u32], inputs: &[(usize, Grouping, f64)], size: u64) -> Operator {
    let inputs =
        inputs.iter().map(|&(operator, grouping, emit)| Input { operator, grouping, emit });
    Operator {
        name: name.to_owned(),
        hosts: hosts.iter().map(|&number| host(number)).collect(),
        rate: 0.0,
        random: false,
        inputs: inputs.collect(),
        join: false,
        opaque: false,
        cost: Span::ZERO,
        batch: 1,
        size: Bytes::new(size),
        keys: None,
    }
}

fn source(name: &str, hosts: &[u32], rate: f64, size: u64) -> Operator {
    Operator { rate, ..operator(name, hosts, &[], size) }
}

fn stream(operators: Vec<Operator>) -> Stream {
    Stream {
        operators,
        turn: Span::from_millis(5),
        sampling: Span::from_secs(1),
        send_queue: None,
        receive_queue: None,
    }
}

fn run(stream: &Stream, mbps: u64, seconds: u64, rates: &[Rate]) -> Outcome {
    let parameters = Parameters::default().with("rates", rates.to_vec());
    let transport = Transport { receive_window: Bytes::new(100_000), ..Transport::default() };
    let application = Box::new(StreamRun::new(stream, 1).unwrap());
    let policy: Box<dyn Policy> = by_name("static", &parameters).unwrap();
    let until = Time::ZERO + Span::from_secs(seconds);
    outcome(Setup { policy: Some(policy), until, ..setup(topology(mbps), transport, application) })
}

fn per_second(outcome: &Outcome) -> f64 {
    outcome.completions[0].count() as f64 / outcome.end.as_secs_f64()
}

fn payload(outcome: &Outcome) -> Vec<u64> {
    outcome.flows.iter().map(|flow| flow.size.get()).collect()
}

/// 200 tuples of 1 kB a second pass two operators and two links: none is lost, and each takes the
/// turns that it waits for, at most three.
#[test]
fn a_chain_without_a_bottleneck() {
    let (a, b) =
        (source("a", &[0], 200.0, 1000), operator("b", &[1], &[(0, Grouping::Shuffle, 1.0)], 500));
    let c = operator("c", &[2], &[(1, Grouping::Global, 1.0)], 0);
    let outcome = run(&stream(vec![a, b, c]), 100, 10, &[]);
    assert!((per_second(&outcome) - 200.0).abs() < 1.0, "{}", per_second(&outcome));
    assert!(outcome.completions[0].percentile(100).unwrap() <= Span::from_millis(15));
}

/// Of 1000 tuples each of two receivers gets half by shuffling, one gets all by global grouping,
/// both get all by all grouping; by key every copy of a word goes to the same one.
#[test]
fn groupings() {
    let sent = |grouping, keys| {
        let a = Operator { keys, ..source("a", &[0], 100.0, 10) };
        let b = operator("b", &[1, 2], &[(0, grouping, 1.0)], 0);
        let sizes = payload(&run(&stream(vec![a, b]), 100, 10, &[]));
        let total = sizes.iter().sum::<u64>();
        assert!((10_000..=20_020).contains(&total), "{sizes:?}");
        [sizes[0] / 100, sizes[1] / 100]
    };
    assert_eq!(sent(Grouping::Shuffle, None), [50, 50]);
    assert_eq!(sent(Grouping::Global, None), [100, 0]);
    assert_eq!(sent(Grouping::All, None), [100, 100]);
    let one_word = Some(Keys::Zipf { count: 1, skew: 1.0, shift: None });
    assert!(sent(Grouping::Key, one_word).contains(&0));
    let many = Some(Keys::Zipf { count: 10_000, skew: 0.0, shift: None });
    assert!(sent(Grouping::Key, many).iter().all(|share| (40..=60).contains(share)));
}

/// Two sources of 16 and 8 kB on one host, a join on another, 10 Mbit/s: given half each, the join
/// gets 5 Mbit/s of the large, 38 tuples a second; given two thirds, 51. Headers take 40 of 1500 B.
#[test]
fn a_join_stalls_for_the_scarcer_side() {
    let large = source("large", &[0], 250.0, 16_000);
    let small = source("small", &[0], 250.0, 8_000);
    let inputs = [(0, Grouping::Shuffle, 1.0), (1, Grouping::Shuffle, 0.0)];
    let join = Operator { join: true, ..operator("join", &[1], &inputs, 100) };
    let sink = operator("sink", &[2], &[(2, Grouping::Global, 1.0)], 0);
    let stream = stream(vec![large, small, join, sink]);
    let joined = |kbps: [u64; 2]| {
        let rates = kbps.map(|rate| Rate::from_bps(rate * 1000));
        per_second(&run(&stream, 10, 60, &rates))
    };
    let payload = 1460.0 / 1500.0;
    let (half, thirds) = (joined([5_000, 5_000]), joined([6_660, 3_330]));
    assert!((half / (5e6 * payload / 128_000.0) - 1.0).abs() < 0.02, "{half}");
    assert!((thirds / (6.66e6 * payload / 128_000.0) - 1.0).abs() < 0.02, "{thirds}");
}

/// An operator that takes 10 ms a tuple processes 100 a second. With bounded queues its source, at
/// 1000 a second, stops: what is under way stays within the queues, the window and a turn's worth.
#[test]
fn back_pressure_reaches_the_source() {
    let slow = |send_queue, receive_queue| {
        let a = source("a", &[0], 1000.0, 1000);
        let b = Operator {
            cost: Span::from_millis(10),
            ..operator("b", &[1], &[(0, Grouping::Shuffle, 1.0)], 0)
        };
        let stream = Stream { send_queue, receive_queue, ..stream(vec![a, b]) };
        let outcome = run(&stream, 100, 20, &[]);
        assert!((per_second(&outcome) - 100.0).abs() < 2.0, "{}", per_second(&outcome));
        payload(&outcome)[0] - outcome.completions[0].count() * 1000
    };
    assert!(slow(None, None) > 17_000_000, "without bounds all is emitted");
    let under_way = slow(Some(Bytes::new(50_000)), Some(Bytes::new(30_000)));
    assert!((100_000..=190_000).contains(&under_way), "{under_way}");
}

/// Batches of 10, three tuples for ten: 30 a second of 100, a batch at a time.
#[test]
fn batches_and_fractions() {
    let a = source("a", &[0], 100.0, 10);
    let b = Operator { batch: 10, ..operator("b", &[1], &[(0, Grouping::Shuffle, 0.3)], 10) };
    let c = operator("c", &[2], &[(1, Grouping::Global, 1.0)], 0);
    let outcome = run(&stream(vec![a, b, c]), 100, 10, &[]);
    assert!((per_second(&outcome) - 30.0).abs() < 0.5, "{}", per_second(&outcome));
    let longest = outcome.completions[0].percentile(95).unwrap();
    assert!(
        longest >= Span::from_millis(60),
        "the fourth of a batch waits for the tenth: {longest}"
    );
}

/// The same seed gives the same run, another one other arrivals and words.
#[test]
fn chance_comes_from_the_seed() {
    let keys = Some(Keys::Zipf { count: 1000, skew: 1.0, shift: Some(Span::from_secs(1)) });
    let a = Operator { keys, random: true, ..source("a", &[0, 1], 500.0, 100) };
    let b = operator("b", &[2, 3, 4], &[(0, Grouping::Key, 1.0)], 0);
    let stream = stream(vec![a, b]);
    let sizes = |seed| {
        let application = Box::new(StreamRun::new(&stream, seed).unwrap());
        let until = Time::ZERO + Span::from_secs(5);
        let setup = setup(topology(100), Transport::default(), application);
        payload(&outcome(Setup { until, ..setup }))
    };
    assert_eq!(sizes(1), sizes(1));
    assert_ne!(sizes(1), sizes(2));
}

#[test]
fn what_cannot_run_is_refused() {
    let refused = |operators| StreamRun::new(&stream(operators), 1).unwrap_err().parameter;
    assert_eq!(refused(vec![]), "rate");
    assert_eq!(refused(vec![source("a", &[], 1.0, 1)]), "on");
    assert_eq!(refused(vec![operator("a", &[0], &[], 1)]), "rate");
    let b = |from| operator("b", &[1], &[(from, Grouping::Shuffle, 1.0)], 0);
    assert_eq!(refused(vec![source("a", &[0], 1.0, 0), b(0)]), "size");
    assert_eq!(refused(vec![source("a", &[0], 1.0, 1), b(1)]), "from");
}
