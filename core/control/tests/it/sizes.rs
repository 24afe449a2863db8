//! Sizes and backlogs that applications declare, against what is measured.

use crate::decide::{report, rig, sampled};
use crate::in_memory::{Rig, SECOND, Shape, connection};
use protocol::agent::Report;
use protocol::application::{Declaration, Portion, StreamReport};
use units::{Bytes, Rate};
use watermaster_control::Input;

/// The lie: a job of 300 MB says that it has 1 MB, and goes first. The detection: agents count what it
/// delivers. The effect: it counts as what it is, and the honest job goes first.
#[test]
fn a_job_that_lies_about_its_size_gains_nothing() {
    for with_sizes in [false, true] {
        let mut rig = rig("smsf");
        let agent = rig.agent("left", &[0, 1, 2]);
        let (liar, honest) = (connection(0, 3, 1000), connection(1, 4, 1001));
        rig.start("evil", "liar");
        rig.start("good", "honest");
        if with_sizes {
            for (application, job, hosts, bytes) in
                [("evil", "liar", ["h0", "h3"], 1), ("good", "honest", ["h1", "h4"], 50)]
            {
                for (task, host) in (0..).zip(hosts) {
                    let (job, host) = (job.into(), host.into());
                    rig.declare(application, Declaration::TaskHost { job, task, host }).unwrap();
                }
                let reduces = vec![Portion { task: 1, bytes: Bytes::new(bytes * 1_000_000) }];
                let job = job.into();
                rig.declare(application, Declaration::Size { job, map: 0, reduces }).unwrap();
            }
        }
        rig.flow("evil", "liar", 1, liar, Some(1_000_000)).unwrap();
        rig.flow("good", "honest", 1, honest, Some(50_000_000)).unwrap();
        assert_eq!(rig.paced().keys().collect::<Vec<_>>(), [&honest], "the lie works at first");
        rig.input(Input::Reported(agent, &Report::Opened { connection: liar })).unwrap();
        let mut delivered = 0;
        let mut found = None;
        for second in 0..40 {
            rig.pass(SECOND);
            delivered += 12_000_000;
            // The honest one is there, and hardly gets anything.
            let seen =
                [report(liar, delivered, 1_000_000), report(honest, delivered / 100, 1_000_000)];
            let sample = sampled(rig.now, &seen);
            rig.input(Input::Reported(agent, &sample)).unwrap();
            if found.is_none() && rig.paced().keys().eq([&liar]) {
                found = Some(second);
            }
        }
        // 12 MB are more than 1 MB: the job counts as 24 MB, then, found again, as 72 MB.
        assert_eq!(found, Some(2), "with sizes: {with_sizes}");
        assert_eq!(rig.paced().keys().collect::<Vec<_>>(), [&liar]);
        let status = &rig.controller.at(rig.now).flows(1)[0];
        let lie = status.contradicted.clone().unwrap();
        assert!(lie.starts_with("declared 1 MB in all, but"), "{lie}");
        assert!(status.bytes.unwrap() > Bytes::new(50_000_000));
        let job = rig.controller.at(rig.now).explain_job(&status.application, &status.job).unwrap();
        assert_eq!(
            job.declared_bytes,
            Bytes::new(1_000_000),
            "what was said, whatever was measured"
        );
        let applications = rig.controller.at(rig.now).status().applications;
        assert_eq!(applications.iter().map(|a| a.contradicted).collect::<Vec<_>>(), [1, 0]);
        let found = rig.controller.counters().contradictions;
        assert!((2..10).contains(&found), "{found}");
    }
}

/// A flow that declares too little has the rate that it was given, however often that is found.
#[test]
fn a_size_that_is_contradicted_leaves_a_static_rate() {
    let rates = vec![Rate::from_mbps(4), Rate::from_mbps(3), Rate::from_mbps(2)];
    let parameters = policy::Parameters::default().with("rates", rates);
    let policy = policy::by_name("static", &parameters).unwrap();
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("static", policy, true), 1);
    let agent = rig.agent("left", &[0, 1, 2]);
    rig.start("app", "job");
    let (first, second) = (connection(0, 3, 1000), connection(1, 3, 1001));
    rig.flow("app", "job", 1, first, Some(1_000_000)).unwrap();
    rig.flow("app", "job", 2, second, None).unwrap();
    let rates = [(first, Rate::from_mbps(4)), (second, Rate::from_mbps(3))];
    rig.input(Input::Reported(agent, &Report::Opened { connection: first })).unwrap();
    for megabytes in [1, 2, 9, 40] {
        rig.pass(SECOND);
        let sample = sampled(rig.now, &[report(first, megabytes * 1_200_000, 1_000)]);
        rig.input(Input::Reported(agent, &sample)).unwrap();
        rig.pass(SECOND);
        assert_eq!(rig.paced(), rates.into());
    }
    assert!(rig.controller.counters().contradictions >= 3);
    // One that begins as another ends is another.
    let complete = Declaration::FlowComplete { job: "job".into(), flow: "2".into() };
    let ends = Input::Declared { application: "app", declaration: &complete };
    rig.controller.observe(rig.now, ends).unwrap();
    rig.flow("app", "job", 3, second, None).unwrap();
    assert_eq!(rig.paced()[&second], Rate::from_mbps(2));
}

/// The lie: a stream without data declares a backlog, to get the larger share of a link. The
/// detection: its sender's kernel has nothing to send. The effect: the honest stream gets the link.
#[test]
fn a_stream_that_lies_about_its_backlog_gains_nothing() {
    let shares = |measured: bool| {
        let mut rig = rig("app-aware");
        let agent = rig.agent("left", &[0, 1, 2]);
        let (liar, honest) = (connection(0, 3, 1000), connection(1, 3, 1001));
        for (application, connection) in [("evil", liar), ("good", honest)] {
            rig.start(application, "stream");
            rig.flow(application, "stream", 1, connection, None).unwrap();
        }
        let sample = |delivered: u64, queue: u64| Declaration::Streams {
            job: "stream".into(),
            samples: vec![StreamReport {
                flow: "1".into(),
                delivered_bytes: Bytes::new(delivered),
                sender_queue_bytes: Bytes::new(queue),
                receiver_queue_bytes: Bytes::ZERO,
            }],
        };
        for second in 1..20 {
            rig.pass(SECOND);
            if measured {
                // Both have delivered what the link gave them; only one has more.
                let reports = [
                    report(liar, second * 1_000_000, 0),
                    report(honest, second * 11_000_000, 4_000_000),
                ];
                rig.input(Input::Reported(agent, &sampled(rig.now, &reports))).unwrap();
            }
            rig.declare("evil", sample(second * 1_000_000, second * 50_000_000)).unwrap();
            rig.declare("good", sample(second * 11_000_000, second * 1_000_000)).unwrap();
        }
        let paced = rig.paced();
        let status = rig.why("evil", "stream", 1);
        let rate = |connection| paced.get(connection).copied().unwrap_or(Rate::MAX);
        (rate(&liar), rate(&honest), status.flow.contradicted)
    };
    let (liar, honest, found) = shares(false);
    assert!(
        liar > honest && found.is_none(),
        "the lie works while nobody measures: {liar} {honest}"
    );
    let (liar, honest, found) = shares(true);
    assert!(liar < honest, "{liar} {honest}");
    assert!(found.unwrap().contains("its sender's kernel has nothing to send"));
}

/// A limit excuses that the kernel has nothing to send only where the flow runs near it.
#[test]
fn a_limit_that_a_stream_does_not_use_excuses_no_backlog() {
    for (mbps, is_excused) in [(4, true), (3, false)] {
        let rates = vec![Rate::from_mbps(5)];
        let parameters = policy::Parameters::default().with("rates", rates);
        let policy = policy::by_name("static", &parameters).unwrap();
        let shape = Shape::racks(2);
        let mut rig = Rig::new(&shape, shape.config("static", policy, true), 1);
        let agent = rig.agent("left", &[0]);
        rig.start("app", "job");
        rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
        for second in 1..6 {
            rig.pass(SECOND);
            let reports = [report(connection(0, 2, 7), second * mbps * 125_000, 0)];
            rig.input(Input::Reported(agent, &sampled(rig.now, &reports))).unwrap();
        }
        let samples = vec![StreamReport {
            flow: "1".into(),
            delivered_bytes: Bytes::ZERO,
            sender_queue_bytes: Bytes::new(50_000_000),
            receiver_queue_bytes: Bytes::ZERO,
        }];
        rig.declare("app", Declaration::Streams { job: "job".into(), samples }).unwrap();
        let found = rig.why("app", "job", 1).flow.contradicted;
        assert_eq!(found.is_none(), is_excused, "{mbps} Mbit/s: {found:?}");
    }
}

/// An application learns a size; what was contradicted it can't make small again.
#[test]
fn a_size_can_be_corrected_and_after_a_lie_only_upwards() {
    let mut rig = rig("sff");
    let agent = rig.agent("left", &[0, 1, 2]);
    rig.start("a", "j");
    let declare = |rig: &mut Rig, size: u64| {
        rig.flow("a", "j", 1, connection(0, 3, 1), Some(size)).unwrap();
        rig.why("a", "j", 1).flow.bytes.unwrap().get()
    };
    assert_eq!([1_000, 9_000, 5_000].map(|size| declare(&mut rig, size)), [1_000, 9_000, 5_000]);
    rig.pass(SECOND);
    for delivered in [0, 200_000] {
        rig.pass(SECOND);
        let sample = sampled(rig.now, &[report(connection(0, 3, 1), delivered, 1)]);
        rig.input(Input::Reported(agent, &sample)).unwrap();
    }
    assert_eq!(
        [5_000, 6_000, 900_000].map(|size| declare(&mut rig, size)),
        [400_000, 400_000, 900_000]
    );
}
