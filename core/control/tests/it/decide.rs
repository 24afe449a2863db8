//! Declarations in, limits at agents and switches out; lies; leases; restarts.

use crate::in_memory::{
    Rig, SECOND, Shape, address, connection, even, metered, meters, segment, step,
};
use model::Severity;
use openflow::switch::{Output as Answers, Switch};
use openflow::{Message, PortNo, Role, RoleMessage};
use protocol::agent::{Capability, Command, Commands, ConnectionReport, Host, Report};
use protocol::application::{Declaration, Portion, StreamReport};
use protocol::{Connection, Processes};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::{Change, ChannelId, Controller, Input, LEASE, Output};

fn named(name: &str) -> Box<dyn policy::Policy + Send> {
    policy::by_name(name, &policy::Parameters::default()).unwrap()
}

fn rig(name: &str) -> Rig {
    let shape = Shape::racks(3);
    Rig::new(&shape, shape.config(name, named(name), true), 1)
}

/// How an agent says that a connection stands.
pub fn report(connection: Connection, delivered: u64, unsent: u64) -> ConnectionReport {
    ConnectionReport {
        connection,
        delivered_bytes: Bytes::new(delivered),
        unsent_bytes: Bytes::new(unsent),
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::from_micros(100),
        processes: Vec::new(),
    }
}

fn sampled(sampled_ns: Time, connections: &[ConnectionReport]) -> Report {
    Report::Connections { sampled_ns, connections: connections.to_vec() }
}

/// What an agent has not confirmed stays in proportion to what it holds, however long it says nothing;
/// its word for the last command is its word for all.
#[test]
fn an_agent_that_never_confirms_costs_no_memory() {
    let mut rig = rig("smsf");
    let agent = rig.agent("left", &[0, 1, 2]);
    rig.start("hadoop", "large");
    rig.start("hadoop", "small");
    let (large, small) = (connection(0, 3, 1000), connection(1, 4, 1001));
    rig.flow("hadoop", "large", 1, large, Some(200_000_000)).unwrap();
    let request = Declaration::FlowRequest {
        job: "small".into(),
        flow: "1".into(),
        connection: small,
        processes: Processes::default(),
        bytes: Some(Bytes::new(100_000_000)),
    };
    let complete = Declaration::FlowComplete { job: "small".into(), flow: "1".into() };
    let (mut commands, mut sequence, mut most) = (0, 0, 0);
    for declaration in [&request, &complete].into_iter().cycle().take(5001) {
        rig.now += Span::from_millis(10);
        let mut out = Vec::new();
        let input = Input::Declared { application: "hadoop", declaration };
        step(&mut rig.controller, rig.now, input, &mut out).unwrap();
        for output in out {
            if let Output::Agent(_, told) = output {
                commands += told.commands.len();
                sequence = told.sequence;
            }
        }
        most = most.max(rig.controller.at(rig.now).status().agents[0].unconfirmed);
    }
    assert!(commands > 4000, "{commands} commands");
    assert!((1..1100).contains(&most), "{most} remembered");
    // By what it has announced in all the small one is the larger now: it waits, once the agent says that it does.
    let enforced = |rig: &Rig| {
        let why = rig.why("hadoop", "small", 1);
        (why.flow.intended_bps, why.flow.enforced_bps)
    };
    let slow = Some(Rate::from_mbps(1));
    assert_eq!(enforced(&rig), (slow, None));
    rig.input(Input::Reported(agent, &Report::Applied { epoch: 1, sequence })).unwrap();
    assert_eq!(enforced(&rig), (slow, slow));
    assert_eq!(rig.controller.at(rig.now).status().agents[0].unconfirmed, 0);
}

/// Phurti, figure 2.3, live: of two jobs across one core link, the smaller goes first.
#[test]
fn the_smaller_job_goes_first() {
    let mut rig = rig("smsf");
    let agent = rig.agent("left", &[0, 1, 2]);
    rig.start("hadoop", "large");
    rig.start("hadoop", "small");
    let (large, small) = (connection(0, 3, 1000), connection(1, 4, 1001));
    rig.flow("hadoop", "large", 1, large, Some(200_000_000)).unwrap();
    assert!(rig.paced().is_empty());
    rig.flow("hadoop", "small", 1, small, Some(100_000_000)).unwrap();
    // β = 1 % of 100 Mbit/s.
    assert_eq!(rig.agents[&agent].paced, [(large, Rate::from_mbps(1))].into());
    let why = rig.why("hadoop", "large", 1);
    assert_eq!(why.flow.intended_bps, Some(Rate::from_mbps(1)));
    assert_eq!(why.flow.enforced_bps, Some(Rate::from_mbps(1)));
    assert_eq!(why.bottleneck.as_ref().unwrap().link, "s0 -> s1");
    assert_eq!(why.bottleneck.unwrap().rivals[0].job, "small");
    assert!(
        why.why.contains("holds it to 1 Mbit/s beside 1 other flow on s0 -> s1"),
        "{}",
        why.why
    );
    assert_eq!(why.by, "agent left, by pacing");
    rig.declare("hadoop", Declaration::FlowComplete { job: "small".into(), flow: "1".into() })
        .unwrap();
    assert!(rig.paced().is_empty());
    let job = rig.controller.at(rig.now).explain_job("hadoop", "large").unwrap();
    assert_eq!((job.flows.len(), job.flows[0].flow.enforced_bps), (1, None));
    assert_eq!(job.declared_bytes, Bytes::new(200_000_000));
}

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

/// The controller is stopped for a while within its lease. What waited for it arrives at once: rates are
/// those of the agent's clock, nobody was silent, and limits stay.
#[test]
fn a_pause_of_the_controller_changes_no_limit() {
    for pause in [2, 5] {
        let mut rig = rig("app-aware");
        let agent = rig.agent("left", &[0, 1, 2]);
        let streams = [0, 1].map(|host| connection(host, 3, 1000));
        rig.start("storm", "t");
        for (flow, stream) in (0..).zip(streams) {
            rig.flow("storm", "t", flow, stream, None).unwrap();
        }
        // Both deliver 45 Mbit/s, and their kernels have more.
        let reports = |second: u64| {
            let delivered = second * 5_625_000;
            sampled(
                Time::ZERO + SECOND * second,
                &streams.map(|stream| report(stream, delivered, 1_000_000)),
            )
        };
        let words = |second: u64| Declaration::Streams {
            job: "t".into(),
            samples: (0..2)
                .map(|flow| StreamReport {
                    flow: flow.to_string(),
                    delivered_bytes: Bytes::new(second * 5_625_000),
                    sender_queue_bytes: Bytes::new(3_000_000),
                    receiver_queue_bytes: Bytes::ZERO,
                })
                .collect(),
        };
        let check = |rig: &Rig, second: u64| {
            assert_eq!(rig.paced().len(), 2, "{pause} s, at {second}");
            for flow in rig.controller.at(rig.now).flows(2) {
                assert_eq!(flow.measured_bps, Some(Rate::from_mbps(45)), "{pause} s, at {second}");
            }
        };
        for second in 1..60 {
            // The policy decides each 5 s, also in the pause.
            let wakes = 30 + pause;
            if second == wakes {
                rig.now += SECOND * pause;
                for missed in 30..wakes {
                    rig.input(Input::Reported(agent, &reports(missed))).unwrap();
                    rig.input(Input::Tick).unwrap();
                    check(&rig, second);
                    rig.now += Span::from_micros(300);
                }
                for missed in 30..wakes {
                    rig.declare("storm", words(missed)).unwrap();
                }
                rig.now = Time::ZERO + SECOND * second;
            } else if (30..wakes).contains(&second) {
                continue;
            } else {
                rig.pass(SECOND);
            }
            rig.input(Input::Reported(agent, &reports(second))).unwrap();
            rig.declare("storm", words(second)).unwrap();
            rig.input(Input::Tick).unwrap();
            if second > 20 {
                check(&rig, second);
            }
        }
    }
}

/// A controller that is no more: within the lease no limit is left. One that comes back with a
/// higher epoch takes over; the old one is refused.
#[test]
fn limits_end_with_their_lease_and_epochs_with_the_next() {
    let mut rig = rig("smsf");
    let agent = rig.agent("left", &[0, 1, 2]);
    let flows = |rig: &mut Rig| {
        for (job, from, bytes) in [("large", 0, 2), ("small", 1, 1)] {
            rig.start("hadoop", job);
            let connection = connection(from, 3 + from, 1000);
            rig.flow("hadoop", job, 1, connection, Some(bytes * 100_000_000)).unwrap();
        }
    };
    flows(&mut rig);
    rig.pass(SECOND * 60);
    assert_eq!(rig.paced().len(), 1, "renewed while the controller lives");
    let mut model = rig.agents[&agent].clone();
    let before = rig.now + LEASE;
    model.expire(before);
    assert!(model.paced.is_empty(), "nothing is left when the lease is over");
    let shape = Shape::racks(3);
    rig.replace(shape.config("smsf", named("smsf"), true), 2);
    let old = rig.agents.remove(&agent).unwrap();
    assert_eq!(old.paced.len(), 1, "what stands, stands until the new controller has spoken");
    // The application says all again before the agent is there: its first word is complete.
    flows(&mut rig);
    let peer = rig.agent("left", &[0, 1, 2]);
    assert_eq!((rig.agents[&peer].paced.len(), rig.agents[&peer].completed), (1, 1));
    let mut now = rig.agents[&peer].clone();
    let stale =
        Commands { epoch: 1, sequence: 9, lease_ns: SECOND, complete: true, commands: vec![] };
    assert_eq!(now.obey(rig.now, &stale), Ok(vec![Report::Stale { epoch: 1, obeys: 2 }]));
    assert_eq!(now.paced.len(), 1);
    rig.input(Input::Reported(peer, &Report::Stale { epoch: 2, obeys: 7 })).unwrap();
    assert_eq!(rig.controller.outranked(), Some(("left", 7)));
    assert!(rig.controller.at(rig.now).status().problems[0].contains("a controller of epoch 7"));
    // Of several one that is alone in saying so may lie, in what it names too.
    assert_eq!(rig.controller.outranked_by_most(), Some(7));
    let other = rig.agent("right", &[3, 4, 5]);
    assert_eq!(rig.controller.outranked_by_most(), None);
    rig.input(Input::Reported(other, &Report::Stale { epoch: 2, obeys: 5 })).unwrap();
    assert_eq!(rig.controller.outranked_by_most(), Some(5));
}

/// Meters have no timeout: the entry that leads to one has. Within two leases (a switch counts whole
/// seconds) a dead controller's limits have ended, and packets still go their way.
#[test]
fn meters_of_a_dead_controller_end() {
    let shape = Shape::racks(3);
    let config = |epoch: u64| (metered(shape.config("smsf", named("smsf"), true)), epoch);
    let (first, epoch) = config(1);
    let mut rig = Rig::new(&shape, first, epoch);
    (0..2).for_each(|switch| rig.connect(switch));
    for (job, from, bytes) in [("large", 0, 2), ("small", 1, 1)] {
        rig.start("hadoop", job);
        let connection = connection(from, 3 + from, 1000);
        rig.flow("hadoop", job, 1, connection, Some(bytes * 100_000_000)).unwrap();
    }
    let burst = |rig: &Rig, after: Span| {
        let mut switch = rig.switch(0).clone();
        let mut out = Answers::default();
        let now = rig.now + after;
        switch.tick(now, &mut out);
        for _ in 0..100 {
            switch.receive(now, PortNo(2), &segment(0, 3, 1000, 16, 1400), &mut out);
        }
        out.frames.len()
    };
    let held = burst(&rig, Span::ZERO);
    assert!((8..20).contains(&held), "{held}: ten frames at once and no more");
    let why = rig.why("hadoop", "large", 1);
    assert_eq!(
        (why.flow.enforced_bps, why.by.as_str()),
        (Some(Rate::from_mbps(1)), "switch s0, by a meter")
    );
    rig.pass(SECOND * 60);
    let held = burst(&rig, Span::ZERO);
    assert!((8..20).contains(&held), "{held}: the entry is renewed");
    assert_eq!(burst(&rig, LEASE), 100, "nobody renewed it");
    // The next controller finds the meter, and removes it when nothing leads to it any more.
    let (second, epoch) = config(2);
    rig.replace(second, epoch);
    (0..2).for_each(|switch| rig.connect(switch));
    assert!(burst(&rig, Span::ZERO) < 20, "what stands, stands until its lease ends");
    assert_eq!(meters(rig.switch(0)).len(), 1);
    rig.pass(LEASE * 3);
    assert_eq!((burst(&rig, Span::ZERO), meters(rig.switch(0)).len()), (100, 0));
    assert_eq!(rig.controller.counters().switch_errors, 0);
}

/// Of two controllers a switch obeys the one of the later epoch (OpenFlow 1.3.5, section 6.3.6); the
/// other is told, says so, and changes nothing.
#[test]
fn a_switch_obeys_the_later_epoch() {
    let shape = Shape::racks(3);
    let config = || shape.config("smsf", named("smsf"), true);
    let mut rig = Rig::new(&shape, config(), 2);
    rig.connect(0);
    rig.pass(SECOND);
    let before = crate::in_memory::entries(rig.switch(0));
    assert!(!before.is_empty());
    rig.replace(config(), 1);
    rig.connect(0);
    assert!(rig.closed[0].contains("a controller of a later epoch"), "{:?}", rig.closed);
    let problems = rig.controller.at(rig.now).status().problems.join("\n");
    assert!(
        problems.contains("switch s0 obeys a controller of a later epoch than 1"),
        "{problems}"
    );
    assert_eq!(crate::in_memory::entries(rig.switch(0)), before);
    // The next start is later than both.
    rig.replace(config(), 3);
    rig.connect(0);
    rig.pass(SECOND);
    assert_eq!((rig.closed.len(), rig.controller.counters().switch_errors), (1, 0));

    // Another comes while this one is there: what it writes is refused from then on.
    let mut switch = rig.switch(0).clone();
    let role = RoleMessage { role: Role::SLAVE, generation_id: 4 };
    switch.handle(rig.now, 1, &Message::RoleRequest(role), &mut Answers::default());
    let before = crate::in_memory::entries(&switch);
    rig.swap_switch(0, switch);
    rig.unplug(1);
    rig.connect(1);
    rig.pass(SECOND * 30);
    assert!(rig.closed[1].contains("a controller of a later epoch"), "{:?}", rig.closed);
    assert_eq!(crate::in_memory::entries(rig.switch(0)).len(), before.len());
}

/// A controller that starts again may hear applications before switches. What these get to hear is
/// the same in either order: the meters, and the entries of flows that go their own way.
#[test]
fn switches_that_come_after_applications_are_told_all_the_same() {
    let shape = Shape::diamond(2);
    let told = |switches_first: bool| {
        let mut rig = Rig::new(&shape, metered(shape.config("smsf", named("smsf"), true)), 1);
        let connect = |rig: &mut Rig| (0..4).for_each(|switch| rig.connect(switch));
        if switches_first {
            connect(&mut rig);
        }
        for (port, bytes) in (1000_u16..1008).zip(1..) {
            let job = port.to_string();
            rig.start("hadoop", &job);
            let connection = connection(u32::from(port % 2), u32::from(2 + port % 2), port);
            rig.flow("hadoop", &job, 1, connection, Some(bytes * 100_000_000)).unwrap();
        }
        if !switches_first {
            connect(&mut rig);
        }
        rig.pass(SECOND);
        let entries = |switch| {
            let mut found = crate::in_memory::entries(rig.switch(switch));
            found.sort_unstable();
            found
        };
        (meters(rig.switch(0)).len(), (0..4).map(entries).collect::<Vec<_>>())
    };
    let (before, after) = (told(true), told(false));
    assert!(before.0 > 2, "{before:?}");
    assert!(before.1[0].iter().any(|(_, priority)| *priority == 300), "flows go their own ways");
    assert_eq!(before, after);
}

/// The SYN-ACK of a connection from the first host to the fourth comes back; without the option its
/// scale is zero.
pub fn accept(rig: &mut Rig, port: u16) {
    let mut back = segment(3, 0, 5000, 18, 0);
    // Its destination port is where the SYN came from.
    let at = 14 + 20 + 2;
    back[at..at + 2].copy_from_slice(&port.to_be_bytes());
    rig.send(3, back);
}

/// The entries of a switch that cap windows.
fn capping(rig: &Rig, switch: u32) -> usize {
    let entries = crate::in_memory::entries(rig.switch(switch)).into_iter();
    entries.filter(|(_, priority)| *priority == 850).count()
}

/// SDTCP through a switch that knows the extension: SYN seen, congestion told, windows capped.
#[test]
fn windows_are_capped_at_the_switch() {
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("sdtcp", named("sdtcp"), true), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    assert_eq!(rig.controller.at(rig.now).flows(9).len(), 1);
    let notice = rig.congest(0, Severity::High, 1);
    let before = rig.controller.counters();
    rig.tell(0, &notice);
    let after = rig.controller.counters();
    assert_eq!(after.directives, before.directives + 1);
    assert_eq!(after.directives_unenforced, before.directives_unenforced);
    assert_eq!(after.entries_added, before.entries_added + 1);
    // FIN: forgotten.
    rig.send(0, segment(0, 3, 1000, 17, 0));
    assert_eq!(rig.controller.at(rig.now).flows(9).len(), 0);
}

/// An agent on a switch that caps windows, which can't itself, leaves them to the switch; also when it comes back,
/// and is told everything.
#[test]
fn an_agent_that_caps_no_windows_leaves_them_to_the_switch() {
    for capabilities in [vec![Capability::Watching], Capability::ALL.to_vec()] {
        let by_agent = capabilities.contains(&Capability::Windows);
        let shape = Shape::racks(3);
        let mut rig = Rig::new(&shape, shape.config("sdtcp", named("sdtcp"), true), 1);
        (0..2).for_each(|switch| rig.connect(switch));
        let connect = |rig: &mut Rig| {
            let channel = rig.peer();
            rig.agents.insert(channel, crate::in_memory::Host::default());
            rig.input(Input::AgentConnected { channel, identity: "s0" }).unwrap();
            let hosts = vec![Host { name: "s0".into(), addresses: Vec::new() }];
            let capabilities = capabilities.clone();
            rig.input(Input::Reported(channel, &Report::Hello { hosts, capabilities, epoch: 1 }))
                .unwrap();
            channel
        };
        let agent = connect(&mut rig);
        rig.start("app", "job");
        rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
        rig.send(0, segment(0, 3, 1000, 2, 0));
        accept(&mut rig, 1000);
        let notice = rig.congest(0, Severity::High, 1);
        let before = rig.controller.counters();
        rig.tell(0, &notice);
        rig.pass(SECOND);
        let after = rig.controller.counters();
        assert_eq!(after.directives_unenforced, before.directives_unenforced);
        for comes_back in [false, true] {
            if comes_back {
                rig.input(Input::AgentGone(agent)).unwrap();
                connect(&mut rig);
                rig.pass(SECOND);
            }
            assert_eq!(capping(&rig, 0), usize::from(!by_agent));
            let problems = rig.controller.at(rig.now).status().problems;
            assert!(!problems.iter().any(|told| told.contains("no windows")), "{problems:?}");
            let why = rig.why("app", "job", 1);
            // The model of an agent's machine has no interfaces.
            let failed = by_agent.then_some("no interface p1 of s0 is configured here");
            assert_eq!(why.flow.failed.as_deref(), failed, "{}", why.by);
            assert_eq!(why.by.starts_with("nobody"), by_agent, "{}", why.by);
        }
    }
}

/// The policy caps all windows of a port with the first SYN, when no scale is known yet.
#[test]
fn a_switch_caps_the_window_of_each_flow_once_its_scale_is_seen() {
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("sab", named("sab"), true), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    let counted = |rig: &Rig| {
        let counters = rig.controller.counters();
        (counters.directives, counters.directives_unenforced)
    };
    for (count, port) in [(1, 1000_u16), (2, 1001)] {
        let before = counted(&rig);
        rig.send(0, segment(0, 3, port, 2, 0));
        assert_eq!(capping(&rig, 0), count - 1);
        let waiting = counted(&rig);
        let (said, unenforced) = (waiting.0 - before.0, waiting.1 - before.1);
        assert!(said > 0 && unenforced == said, "{unenforced} of {said} are enforced by nobody");
        accept(&mut rig, port);
        assert_eq!(capping(&rig, 0), count);
        assert_eq!(counted(&rig), waiting);
    }
    let before = counted(&rig);
    rig.send(0, segment(0, 3, 1001, 17, 0));
    assert_eq!(capping(&rig, 0), 1, "an entry ends with its flow");
    let after = counted(&rig);
    assert!(after.0 > before.0 && after.1 == before.1, "the other's scale is known");
    rig.reload(Change { policy: Some(("tcp".into(), named("tcp"))), ..Change::default() });
    assert_eq!(capping(&rig, 0), 0, "and with the policy that wanted it");
}

/// A sender without room for a segment as large as passes here would wait for its persist timer.
#[test]
fn a_switch_caps_no_window_below_the_largest_segment() {
    let shape = Shape::racks(3);
    let parameters = policy::Parameters::default().with("buffer_share", policy::Share::literal(1));
    let sparing = policy::by_name("sab", &parameters).unwrap();
    let mut config = shape.config("sab", sparing, true);
    config.mss = Bytes::new(8_960);
    let mut rig = Rig::new(&shape, config, 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    let mut wide = segment(3, 0, 5000, 16, 0);
    wide[36..38].copy_from_slice(&1000_u16.to_be_bytes());
    wide[48..50].copy_from_slice(&[0xff; 2]);
    rig.send(3, wide);
    let (_, narrowed) = rig.delivered.last().unwrap();
    assert_eq!(u16::from_be_bytes([narrowed[48], narrowed[49]]), 8_960);
    let by = rig.why("app", "job", 1).by;
    assert!(by.contains("a window of 8960 B at s0"), "{by}");
}

/// A flow that was declared goes on under the policy that comes: only its caps end.
#[test]
fn another_policy_lifts_the_caps_at_switches() {
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("sab", named("sab"), true), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    assert_eq!([0, 1].map(|switch| capping(&rig, switch)), [1, 1]);
    rig.reload(Change { policy: Some(("tcp".into(), named("tcp"))), ..Change::default() });
    assert_eq!(rig.why("app", "job", 1).by, "nobody: there is nothing to enforce");
    for _ in 0..2 {
        assert_eq!([0, 1].map(|switch| capping(&rig, switch)), [0, 0]);
        rig.pass(LEASE);
    }
}

/// A switch with one table gets no entries at all: not at once, not with renewals, not when it comes back.
#[test]
fn a_switch_without_a_second_table_gets_no_entries() {
    const MIDDLE: u32 = 2;
    const FEW: &str = "switch s2 has less than two tables";
    // Windows of flows, counts and meters.
    for (name, caps) in [("sab", true), ("sdtcp", false), ("fair", false)] {
        let hosts = vec![0, 0, 0, 1, 1, 1, MIDDLE];
        let shape = Shape {
            switches: 3,
            cables: vec![(0, MIDDLE), (MIDDLE, 1)],
            hosts,
            mbps: 100,
            cable_mbps: 100,
        };
        let config = shape.config(name, named(name), true);
        let config = if name == "fair" { metered(config) } else { config };
        let mut rig = Rig::new(&shape, config, 1);
        let mut small = Switch::new(u64::from(MIDDLE) + 1, 1);
        for port in 1..=3 {
            small.set_port(Time::ZERO, crate::in_memory::port(port, true), &mut Answers::default());
        }
        rig.swap_switch(MIDDLE, small);
        (0..3).for_each(|switch| rig.connect(switch));
        let agent = rig.agent("middle", &[6]);
        rig.start("app", "job");
        // The first goes through it, the second and a third, which nobody declared, begin there.
        rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
        rig.send(0, segment(0, 3, 1000, 2, 0));
        accept(&mut rig, 1000);
        rig.flow("app", "job", 2, connection(6, 3, 1), None).unwrap();
        let opened = Report::Opened { connection: connection(6, 3, 2) };
        rig.input(Input::Reported(agent, &opened)).unwrap();
        for comes_back in [false, true] {
            if comes_back {
                rig.unplug(MIDDLE);
                rig.plug(MIDDLE);
            }
            rig.pass(LEASE * 2);
            let there = crate::in_memory::entries(rig.switch(MIDDLE)).len();
            assert_eq!((there, meters(rig.switch(MIDDLE)).len()), (0, 0));
            assert_eq!(rig.controller.counters().switch_errors, 0);
        }
        let problems = rig.controller.at(rig.now).status().problems;
        assert!(problems.contains(&format!("{FEW}: it gets no entries")), "{problems:?}");
        assert_eq!(rig.controller.at(rig.now).status().switches[MIDDLE as usize].entries, 0);
        let [through, from] = [1, 2].map(|flow| rig.why("app", "job", flow));
        assert_eq!(from.flow.enforced_bps, None);
        assert_eq!(through.by.contains(&format!("at s2: {FEW}")), caps, "{}", through.by);
    }
}

/// The SYN-ACK doesn't come again for the flow that takes the place of what was only seen.
#[test]
fn a_flow_that_is_declared_after_its_scale_was_seen_has_its_window_capped() {
    let shape = Shape::racks(3);
    for declared in [1000, 0] {
        let mut rig = Rig::new(&shape, shape.config("sab", named("sab"), true), 1);
        (0..2).for_each(|switch| rig.connect(switch));
        let capping = |rig: &Rig| {
            let entries = crate::in_memory::entries(rig.switch(0)).into_iter();
            entries.filter(|(_, priority)| *priority == 850).count()
        };
        rig.send(0, segment(0, 3, 1000, 2, 0));
        accept(&mut rig, 1000);
        rig.start("app", "job");
        rig.flow("app", "job", 1, connection(0, 3, declared), None).unwrap();
        // Of a flow whose port nobody knows the connection must be seen once more.
        rig.send(0, segment(0, 3, 1000, 2, 0));
        assert_eq!(rig.controller.at(rig.now).flows(9).len(), 1, "it was taken over");
        assert_eq!(capping(&rig), 1, "port {declared}");
    }
}

/// A switch that doesn't know the action says so; one that takes the entry has confirmed it.
#[test]
fn a_cap_that_a_switch_refuses_is_not_enforced() {
    let shape = Shape::racks(3);
    let mut rig = Rig::new(&shape, shape.config("sab", named("sab"), true), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 3, 1000), None).unwrap();
    rig.uncapping = true;
    rig.send(0, segment(0, 3, 1000, 2, 0));
    accept(&mut rig, 1000);
    let shown = |rig: &Rig| {
        let why = rig.why("app", "job", 1);
        let problems = rig.controller.at(rig.now).status().problems;
        (why.by, why.flow.failed, problems.into_iter().find(|told| told.contains("10.0.0.1")))
    };
    let (by, failed, problem) = shown(&rig);
    let reason = "the experimenter of the action is unknown, OpenFlow error of type 2, code 2";
    assert!(by.starts_with("nobody (a window of ") && by.contains(reason), "{by}");
    assert_eq!(failed.unwrap(), format!("switch s0: {reason}"));
    let told = format!("switch s0: the window of 10.0.0.1:1000 is not enforced: {reason}");
    assert_eq!(problem, Some(told));
    rig.uncapping = false;
    rig.pass(LEASE);
    let (by, failed, problem) = shown(&rig);
    assert!(by.contains(" at s0; ") && by.ends_with(" at s1") && !by.contains("nobody"), "{by}");
    assert_eq!((failed, problem), (None, None));
    // A switch that is away has confirmed nothing; one that is back confirms anew.
    rig.unplug(0);
    assert!(shown(&rig).0.contains(" at s0: it is not connected); "));
    rig.plug(0);
    assert_eq!(shown(&rig).0, by);
    // Nothing has reached it since.
    rig.now += LEASE + SECOND;
    let (by, ..) = shown(&rig);
    assert!(by.contains(" at s0: switch s0 has confirmed nothing for 11 s: its entries"), "{by}");
}

/// An agent on each machine: that of the sender's switch is told to watch, tells SYN and FIN, and caps.
#[test]
fn the_agent_of_a_switch_watches_for_the_policies_that_ask() {
    for (policy, is_congested) in [("sdtcp", true), ("sab", false)] {
        let shape = Shape::racks(3);
        let mut config = shape.config(policy, named(policy), true);
        config.switches.iter_mut().for_each(|switch| switch.windows = false);
        let mut controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let mut tell = |input: Input<'_>| {
            let mut out = Vec::new();
            let done = step(&mut controller, Time::ZERO, input, &mut out);
            let commands = out.into_iter().flat_map(|output| match output {
                Output::Agent(channel, said) => {
                    said.commands.into_iter().map(|command| (channel, command)).collect()
                }
                _ => Vec::new(),
            });
            (done, commands.collect::<Vec<_>>())
        };
        let names = ["h0", "h3", "s0", "s1"];
        let mut told = Vec::new();
        for (number, name) in (0..).zip(names) {
            let channel = ChannelId(number);
            tell(Input::AgentConnected { channel, identity: name }).0.unwrap();
            let addresses = if name == "h0" { vec![address(0)] } else { Vec::new() };
            let addresses = if name == "h3" { vec![address(3)] } else { addresses };
            let hosts = vec![Host { name: name.into(), addresses }];
            let capabilities = Capability::ALL.to_vec();
            let (done, said) =
                tell(Input::Reported(channel, &Report::Hello { hosts, capabilities, epoch: 0 }));
            done.unwrap();
            told.extend(said);
        }
        let watched = told.iter().filter_map(|(channel, command)| match command {
            Command::Watch { watch: Some(watch), .. } => Some((channel.0, watch.thresholds)),
            _ => None,
        });
        let watched: Vec<_> = watched.collect();
        for number in 0..4 {
            let ports = watched.iter().filter(|(channel, _)| *channel == number).count();
            assert_eq!(
                ports,
                if number < 2 { 0 } else { 4 },
                "{policy}: {}",
                names[usize::try_from(number).unwrap()]
            );
        }
        assert!(watched.iter().all(|(_, thresholds)| thresholds.is_some() == is_congested));
        let every = told.iter().filter_map(|(_, command)| match command {
            Command::Sample { every_ns } => Some(*every_ns),
            _ => None,
        });
        let wanted = if is_congested { Span::from_millis(100) } else { SECOND };
        assert!(every.collect::<Vec<_>>().iter().all(|every| *every == wanted));

        let opened = Report::Opened { connection: connection(0, 3, 1000) };
        for stranger in [1, 3] {
            let refused = tell(Input::Reported(ChannelId(stranger), &opened)).0.unwrap_err();
            assert_eq!(refused.field, "connection.source");
        }
        let mut said = tell(Input::Reported(ChannelId(2), &opened)).1;
        let (node, interface) = ("s0".into(), "p1".into());
        let congested = Report::Congested {
            node,
            interface,
            severity: Severity::High,
            queue_bytes: Bytes::ZERO,
        };
        said.extend(tell(Input::Reported(ChannelId(2), &congested)).1);
        let caps = said.iter().filter(|(channel, command)| {
            channel.0 == 2 && matches!(command, Command::Window { cap: Some(_), .. })
        });
        assert!(caps.count() > 0, "{policy}: {said:?}");
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

#[test]
fn refusals_name_field_and_remedy() {
    let mut rig = rig("fair");
    let text = |done: Result<(), watermaster_control::Refusal>| done.unwrap_err().to_string();
    let start = |job: &str| Declaration::JobStart { job: job.into() };
    assert_eq!(text(rig.declare("a", start(""))), "job: is empty; write 1 to 256 bytes");
    let long = "job: has 257 bytes; write at most 256, or raise limits.name";
    assert_eq!(text(rig.declare("a", start(&"j".repeat(257)))), long);
    let unseen = "job: has control or invisible characters; leave them out";
    let unseen_ones = [
        "\n\u{1b}[2J",
        "\u{202e}",
        "\u{200f}",
        "\u{61c}",
        "\u{2028}",
        "\u{200b}",
        "\u{feff}",
        "\u{3164}",
        "\u{115f}",
        "\u{2800}",
        "\u{fe0f}",
    ];
    for c in unseen_ones {
        assert_eq!(text(rig.declare("a", start(&format!("j{c}")))), unseen, "{c:?}");
    }
    assert!(rig.declare("a", start("größe 大小 \u{1f600}")).is_ok());
    let complete = Declaration::JobComplete { job: "x".into() };
    assert_eq!(
        text(rig.declare("a", complete)),
        "job: \"x\" has not started; declare job_start first"
    );
    rig.start("a", "j");
    let unknown = Connection { source: "192.0.2.1:1".parse().unwrap(), ..connection(0, 1, 1) };
    assert!(text(rig.flow("a", "j", 1, unknown, None)).starts_with("connection.source: 192.0.2.1"));
    rig.flow("a", "j", 1, connection(0, 1, 1), None).unwrap();
    rig.flow("a", "j", 1, connection(0, 1, 1), None).unwrap();
    assert!(text(rig.flow("a", "j", 1, connection(0, 1, 2), None)).contains("is in use"));
    rig.start("b", "j");
    let stolen = rig.flow("b", "j", 1, connection(0, 1, 1), None);
    assert!(text(stolen).contains("another application has declared this connection"));
    let task =
        |task, host: &str| Declaration::TaskHost { job: "j".into(), task, host: host.into() };
    assert!(text(rig.declare("a", task(0, "nowhere"))).starts_with("host: no host is called"));
    assert!(
        text(rig.declare("a", task(u32::MAX, "h0"))).starts_with("task: 4294967295 is too large")
    );
    rig.declare("a", task(0, "10.0.0.1")).unwrap();
    let agent = rig.agent("left", &[0]);
    let sample = sampled(rig.now, &[report(connection(1, 2, 1), 1, 1)]);
    let foreign = rig.input(Input::Reported(agent, &sample));
    assert!(text(foreign).starts_with("connection.source: 10.0.0.2 is not of the agent's hosts"));
    // Somebody else may not act for the same host; the same agent may come back.
    let other = rig.peer();
    rig.input(Input::AgentConnected { channel: other, identity: "right" }).unwrap();
    let hosts = vec![Host { name: "h0".into(), addresses: vec![] }];
    let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
    assert!(text(rig.input(Input::Reported(other, &hello))).contains("another agent acts for h0"));
    assert_eq!(rig.closed.len(), 1);
    rig.agent("left", &[0]);
    assert_eq!(rig.closed[1], "the same peer has a newer connection");
}

#[test]
fn what_a_peer_may_ask_for_is_limited() {
    let shape = Shape::racks(3);
    let mut config = shape.config("fair", even(), true);
    config.limits.jobs = 2;
    config.limits.flows = 3;
    config.limits.applications = 2;
    config.limits.declarations_per_second = 20;
    let mut rig = Rig::new(&shape, config, 1);
    rig.start("a", "1");
    rig.start("a", "2");
    let refused = rig.declare("a", Declaration::JobStart { job: "3".into() }).unwrap_err();
    assert!(refused.busy, "{refused}");
    for (flow, port) in (0..3).zip(10..) {
        rig.flow("a", "1", flow, connection(0, 3, port), None).unwrap();
    }
    assert!(rig.flow("a", "2", 9, connection(0, 3, 99), None).unwrap_err().busy);
    rig.start("b", "1");
    assert!(rig.declare("c", Declaration::JobStart { job: "1".into() }).unwrap_err().busy);
    let mut taken = 0;
    while rig.declare("b", Declaration::JobStart { job: "1".into() }).is_ok() {
        taken += 1;
        assert!(taken < 100);
    }
    assert!(taken >= 15, "{taken}");
    rig.pass(SECOND);
    rig.declare("b", Declaration::JobStart { job: "1".into() }).unwrap();
    // An application that is gone is forgotten after its grace, and its limits with it.
    let agent = rig.agent("left", &[0, 1, 2]);
    assert_eq!(rig.agents[&agent].paced.len(), 3);
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 9);
    // One that is there again has no need to say anything.
    rig.input(Input::ApplicationHere("a")).unwrap();
    rig.pass(SECOND * 9);
    assert_eq!(rig.agents[&agent].paced.len(), 3);
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 9);
    assert_eq!(rig.agents[&agent].paced.len(), 3);
    rig.pass(SECOND * 2);
    assert_eq!(rig.agents[&agent].paced.len(), 0);
    assert_eq!(rig.controller.at(rig.now).status().applications.len(), 1);
}

/// An explanation has an end, and says how much it leaves out.
#[test]
fn of_a_job_of_many_flows_a_thousand_are_explained() {
    let mut rig = rig("fair");
    rig.start("a", "j");
    for flow in 0..1003 {
        let port = 1000 + u16::try_from(flow).unwrap();
        rig.flow("a", "j", flow, connection(0, 3, port), None).unwrap();
        // Within what it may say in a second.
        rig.now += Span::from_millis(100);
    }
    let why = rig.controller.at(rig.now).explain_job("a", "j").unwrap();
    assert_eq!((why.flows.len(), why.more), (1000, 3));
}

/// What can't be read is counted as what is refused, makes the application known and uses up what it may say.
#[test]
fn what_cannot_be_read_is_counted_as_refused() {
    let mut rig = rig("fair");
    rig.input(Input::Unreadable("a")).unwrap();
    rig.start("b", "j");
    rig.input(Input::Unreadable("b")).unwrap();
    rig.input(Input::Unreadable("b")).unwrap();
    let status = rig.controller.at(rig.now).status();
    let refused: Vec<_> =
        status.applications.iter().map(|known| (known.name.as_str(), known.refused)).collect();
    assert_eq!(refused, [("a", 1), ("b", 2)]);
    assert_eq!(rig.controller.counters().declarations_refused, 3);
    let much = (0..1_000_000).find_map(|_| rig.input(Input::Unreadable("a")).err()).unwrap();
    assert_eq!((much.field, much.busy), ("application", true));
    // Nothing is left of one that goes.
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 11);
    assert_eq!(rig.controller.at(rig.now).status().applications.len(), 1);
}

/// An application that comes back within its grace loses nothing when that is over. When it goes again, it
/// has a whole one.
#[test]
fn an_application_that_comes_back_keeps_what_it_declared() {
    let mut rig = rig("fair");
    rig.agent("left", &[0, 1, 2]);
    rig.start("a", "j");
    rig.flow("a", "j", 1, connection(0, 3, 10), None).unwrap();
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 5);
    rig.start("a", "j");
    rig.pass(SECOND * 3);
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 9);
    assert_eq!(rig.paced().len(), 1);
    rig.start("a", "j");
    rig.pass(SECOND * 60);
    assert_eq!(rig.paced().len(), 1);
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 11);
    assert_eq!((rig.paced().len(), rig.controller.at(rig.now).status().applications.len()), (0, 0));
}

/// Agents and switches are given another lease at once: what stands there ends with that.
#[test]
fn another_lease_is_given_at_once() {
    const SHORT: Span = Span::from_secs(2);
    let shape = Shape::racks(3);
    for is_metered in [false, true] {
        let config = shape.config("fair", even(), true);
        let mut rig = Rig::new(&shape, if is_metered { metered(config) } else { config }, 1);
        (0..2).for_each(|switch| rig.connect(switch));
        let agent = rig.agent("left", &[0, 1, 2]);
        rig.start("a", "j");
        rig.flow("a", "j", 1, connection(0, 3, 10), None).unwrap();
        rig.pass(SECOND);
        rig.reload(Change { lease: Some(SHORT), ..Change::default() });
        let stands = |after: Span| {
            let (mut host, mut switch) = (rig.agents[&agent].clone(), rig.switch(0).clone());
            host.expire(rig.now + after);
            switch.tick(rig.now + after, &mut Answers::default());
            let entries = crate::in_memory::entries(&switch).into_iter();
            host.paced.len() + entries.filter(|(_, priority)| *priority == 800).count()
        };
        assert_eq!([Span::ZERO, SHORT].map(stands), [1, 0], "by meters: {is_metered}");
    }
}

/// Another policy learns all that is declared, and its limits replace the old ones.
#[test]
fn a_policy_is_changed_while_flows_run() {
    let mut rig = rig("fair");
    let agent = rig.agent("left", &[0, 1, 2]);
    for (job, from, bytes) in [("large", 0, 2), ("small", 1, 1)] {
        rig.start("hadoop", job);
        rig.flow("hadoop", job, 1, connection(from, 3 + from, 1), Some(bytes * 100_000_000))
            .unwrap();
    }
    assert_eq!(rig.agents[&agent].paced.len(), 2);
    let change =
        |name: &str| Change { policy: Some((name.into(), named(name))), ..Change::default() };
    rig.reload(change("smsf"));
    assert_eq!(rig.agents[&agent].paced, [(connection(0, 3, 1), Rate::from_mbps(1))].into());
    rig.reload(change("tcp"));
    rig.pass(Span::ZERO);
    assert!(rig.agents[&agent].paced.is_empty());
}

/// A request service with a latency before a sort of weight 1.
fn under_objectives() -> Box<dyn policy::Policy + Send> {
    let objective = |name: &str, policy, aim| {
        let (applications, policy) = (vec![format!("{name}-*")], policy::find(policy).unwrap());
        let (name, parameters) = (name.into(), policy::Parameters::default());
        policy::Objective { name, applications, policy, parameters, aim }
    };
    let most = policy::Share::from_ppm(500_000).unwrap();
    let latency = policy::Aim::Latency { target: Span::from_millis(100), most };
    let mut objectives =
        vec![objective("web", "tcp", latency), objective("sort", "srb", policy::Aim::Weight(1))];
    let any = objective("any", "smsf", policy::Aim::Weight(2));
    let deadline = policy::Aim::Deadline { within: SECOND * 10, most };
    objectives.push(objective("report", "fair", deadline));
    objectives.push(policy::Objective { applications: vec!["*".into()], ..any });
    let parameters = policy::Parameters::default().under(objectives);
    policy::by_name("arbiter", &parameters).unwrap()
}

/// Who yields to whom is in the explanation of each flow; a policy that comes later learns whose jobs
/// there are already.
#[test]
fn an_explanation_names_the_objective_and_who_yields() {
    let mut rig = rig("tcp");
    let agent = rig.agent("left", &[0, 1, 2]);
    for (application, job, from, bytes) in
        [("sort-1", "large", 0, Some(500_000_000)), ("web-1", "answer", 1, Some(250_000))]
    {
        rig.start(application, job);
        rig.flow(application, job, 1, connection(from, 3 + from, 1), bytes).unwrap();
    }
    assert_eq!(rig.why("sort-1", "large", 1).objective, None, "tcp knows none");
    let policy = Some(("arbiter".into(), under_objectives()));
    rig.controller.reconfigure(rig.now, Change { policy, ..Change::default() });
    let mut out = Vec::new();
    rig.controller.decide(&mut out);
    rig.carry(out);
    rig.pass(Span::ZERO);
    // 250 kB within 100 ms are 20 Mbit/s; a quarter of that is head-room, and headers are counted.
    let objective = rig.why("sort-1", "large", 1).objective.unwrap();
    assert_eq!((&*objective.name, &*objective.aim), ("sort", "weight 1"));
    assert_eq!((objective.policy, objective.late), ("srb", false));
    let [shared] = &objective.shared[..] else { panic!("{objective:?}") };
    assert_eq!(shared.link, "s0 -> s1");
    let [web, sort] = &shared.parts[..] else { panic!("{shared:?}") };
    assert_eq!((&*web.objective, &*web.aim, web.yields), ("web", "latency 100 ms", false));
    assert_eq!((&*sort.objective, sort.yields), ("sort", true));
    assert!((Rate::from_mbps(25)..Rate::from_mbps(27)).contains(&web.wants_bps), "{web:?}");
    assert!(web.given_bps >= web.wants_bps, "{web:?}");
    assert_eq!(sort.wants_bps, Rate::from_mbps(100));
    assert_eq!(web.given_bps + sort.given_bps, Rate::from_mbps(100));
    let held = rig.agents[&agent].paced[&connection(0, 3, 1)];
    assert!(held <= sort.given_bps && held >= sort.given_bps.fraction(9, 10), "{held}");
    // To itself an application is told of its own objective.
    let own = rig.why("sort-1", "large", 1).without_others().objective.unwrap();
    assert_eq!(own.shared[0].parts, std::slice::from_ref(sort));
    let other = rig.why("web-1", "answer", 1).objective.unwrap();
    assert_eq!((&*other.name, &other.shared), ("web", &objective.shared));
    // The answer is there, and a while later the sort has the link for itself.
    rig.declare("web-1", Declaration::JobComplete { job: "answer".into() }).unwrap();
    rig.pass(SECOND * 30);
    let objective = rig.why("sort-1", "large", 1).objective.unwrap();
    assert_eq!((&*objective.name, &*objective.shared), ("sort", &[][..]));
}

/// What a job asks for is checked, shown, and told to a policy that comes later too.
#[test]
fn a_job_is_under_the_objective_that_it_asks_for() {
    let mut rig = rig("tcp");
    let asks = |objective: Option<&str>, deadline_ms, weight| Declaration::JobTerms {
        job: "j".into(),
        objective: objective.map(Into::into),
        deadline_ms,
        weight,
    };
    let refused = rig.declare("sort-1", asks(None, None, None)).unwrap_err();
    assert_eq!(refused.field, "job");
    rig.start("sort-1", "j");
    for (declaration, field) in [
        (asks(Some(""), None, None), "objective"),
        (asks(Some(&"x".repeat(1000)), None, None), "objective"),
        (asks(None, Some(0), None), "deadline_ms"),
        (asks(None, Some(u64::MAX), None), "deadline_ms"),
        (asks(None, None, Some(0)), "weight"),
        (asks(None, None, Some(1_000_001)), "weight"),
    ] {
        assert_eq!(rig.declare("sort-1", declaration).unwrap_err().field, field);
    }
    rig.flow("sort-1", "j", 1, connection(0, 3, 1), Some(500_000_000)).unwrap();
    let terms = |rig: &Rig| rig.controller.at(rig.now).explain_job("sort-1", "j").unwrap().terms;
    assert_eq!(terms(&rig), None);
    rig.declare("sort-1", asks(Some("web"), Some(2_000), Some(3))).unwrap();
    let told = terms(&rig).unwrap();
    assert_eq!(
        (told.objective.as_deref(), told.deadline_ms, told.weight),
        (Some("web"), Some(2_000), 3)
    );
    // Another objective that names the application, for the policy that comes.
    let policy = Some(("arbiter".into(), under_objectives()));
    rig.reload(Change { policy, ..Change::default() });
    let under = |rig: &mut Rig| rig.why("sort-1", "j", 1).objective.unwrap().name;
    assert_eq!(under(&mut rig), "sort", "web doesn't name it");
    rig.declare("sort-1", asks(Some("any"), None, None)).unwrap();
    rig.pass(Span::ZERO);
    assert_eq!(under(&mut rig), "any");
    let policy = Some(("arbiter".into(), under_objectives()));
    rig.reload(Change { policy, ..Change::default() });
    assert_eq!(under(&mut rig), "any", "a policy that comes later is told");
    rig.declare("sort-1", asks(None, None, None)).unwrap();
    rig.pass(Span::ZERO);
    assert_eq!((under(&mut rig).as_str(), terms(&rig)), ("sort", None));
}

/// A job that is late has a weight of 1, and its explanation says so.
#[test]
fn a_job_that_is_late_is_called_so() {
    let mut rig = rig("tcp");
    rig.reload(Change {
        policy: Some(("arbiter".into(), under_objectives())),
        ..Change::default()
    });
    rig.start("report-1", "j");
    rig.flow("report-1", "j", 1, connection(0, 3, 1), Some(500_000_000)).unwrap();
    let objective = |rig: &Rig| rig.why("report-1", "j", 1).objective.unwrap();
    let seen = |rig: &Rig| (objective(rig).aim, objective(rig).late, objective(rig).policy);
    assert_eq!(seen(&rig), ("deadline 10 s".into(), false, "fair"));
    rig.pass(SECOND * 11);
    assert_eq!(seen(&rig), ("deadline 10 s".into(), true, "fair"));
    let terms = |deadline_ms| Declaration::JobTerms {
        job: "j".into(),
        objective: None,
        deadline_ms,
        weight: None,
    };
    rig.declare("report-1", terms(Some(60_000))).unwrap();
    assert_eq!(seen(&rig), ("deadline 60 s".into(), false, "fair"));
}

/// Several flows over one connection: the sum of their rates.
#[test]
fn a_connection_of_several_flows_gets_their_sum() {
    let mut rig = rig("fair");
    let agent = rig.agent("left", &[0, 1, 2]);
    rig.start("storm", "t");
    for flow in 0..4 {
        rig.flow("storm", "t", flow, connection(0, 3, 1), Some(1_000_000)).unwrap();
    }
    let sum: Rate = (0..4).map(|f| rig.why("storm", "t", f).flow.intended_bps.unwrap()).sum();
    assert_eq!(rig.agents[&agent].paced, [(connection(0, 3, 1), sum)].into());
}

/// `asy`: rates of pairs of hosts, divided among their connections.
#[test]
fn a_pair_is_held_by_its_connections() {
    let mut rig = rig("asy");
    let agent = rig.agent("left", &[0, 1, 2]);
    for second in 1..4 {
        rig.pass(SECOND);
        let reports = [(0, 1), (0, 2), (1, 1), (2, 1)]
            .map(|(from, port)| report(connection(from, 3, port), second * 1_000_000, 1_000_000));
        rig.input(Input::Reported(agent, &sampled(rig.now, &reports))).unwrap();
    }
    let paced = rig.agents[&agent].paced.clone();
    assert_eq!(paced.len(), 4);
    let total: Rate = paced.values().copied().sum();
    assert!(total <= Rate::from_mbps(100) && total >= Rate::from_mbps(95), "{total}");
    assert_eq!(paced[&connection(0, 3, 1)], paced[&connection(0, 3, 2)]);
    rig.input(Input::Reported(agent, &Report::Closed { connection: connection(0, 3, 2) })).unwrap();
    let after = &rig.agents[&agent].paced;
    assert_eq!(after.len(), 3);
    assert!(after[&connection(0, 3, 1)] > paced[&connection(0, 3, 1)]);
}

/// What a connection only receives is no part of the pair that goes the other way, and what a pair that
/// has ended had is others' again.
#[test]
fn pairs_are_of_those_who_send_and_end_with_them() {
    let mut rig = rig("asy");
    let agent = rig.agent("left", &[0, 1, 2]);
    let tell = |rig: &mut Rig, reports: &[(u32, u32, u16, u64, u64)]| {
        rig.pass(SECOND);
        let reports = reports.iter().map(|&(from, to, port, delivered, unsent)| {
            report(connection(from, to, port), delivered, unsent)
        });
        let reports: Vec<_> = reports.collect();
        rig.input(Input::Reported(agent, &sampled(rig.now, &reports))).unwrap();
    };
    let paced = |rig: &Rig, from| rig.agents[&agent].paced.get(&connection(from, 3, 1)).copied();
    for second in 1..4 {
        let sent = second * 1_000_000;
        // Port 9 of the first host only receives.
        tell(&mut rig, &[(0, 3, 1, sent, 500), (0, 3, 9, 0, 0), (1, 3, 1, sent, 500)]);
    }
    let half = Rate::from_mbps(50);
    let about = |rate: Rate, of: Rate| rate >= of.fraction(96, 100) && rate <= of;
    assert!(about(paced(&rig, 0).unwrap(), half), "{:?}", paced(&rig, 0));
    assert_eq!(rig.agents[&agent].paced.len(), 2, "who never sends is not held");
    // The second host's connection is reported no more; then it comes back, and its flow completes.
    for second in 4..12 {
        tell(&mut rig, &[(0, 3, 1, second * 1_000_000, 500)]);
    }
    assert_eq!(paced(&rig, 1), None);
    let whole = Rate::from_mbps(100);
    assert!(about(paced(&rig, 0).unwrap(), whole), "{:?}", paced(&rig, 0));
    rig.start("storm", "t");
    rig.flow("storm", "t", 1, connection(1, 3, 1), Some(1_000_000)).unwrap();
    tell(&mut rig, &[(0, 3, 1, 12_000_000, 500), (1, 3, 1, 1_000, 500)]);
    assert!(about(paced(&rig, 0).unwrap(), half), "{:?}", paced(&rig, 0));
    let job = "t".to_owned();
    rig.declare("storm", Declaration::FlowComplete { job, flow: "1".into() }).unwrap();
    assert!(about(paced(&rig, 0).unwrap(), whole), "{:?}", paced(&rig, 0));
}

/// Time that goes backwards stands still: nothing ends early, nothing panics.
#[test]
fn clocks_may_jump() {
    let mut rig = rig("smsf");
    rig.agent("left", &[0]);
    let mut out: Vec<Output> = Vec::new();
    for seconds in [100, 3, 1_000_000, 0] {
        let now = Time::ZERO + SECOND * seconds;
        step(&mut rig.controller, now, Input::Tick, &mut out).unwrap();
    }
    step(&mut rig.controller, Time::NEVER, Input::Tick, &mut out).unwrap();
    let commands = |o: &Output| matches!(o, Output::Agent(ChannelId(_), c) if c.commands.iter().all(|c| !matches!(c, Command::Pace { .. })));
    assert!(out.iter().all(commands));
}

/// Twenty flows wait at a host. In one turn one comes and another goes: the two are told, nobody else.
/// Said one after the other, the same stands in the end.
#[test]
fn what_comes_and_goes_in_one_turn_changes_nothing_for_others() {
    let request = |flow: u64, bytes| Declaration::FlowRequest {
        job: "j".into(),
        flow: flow.to_string(),
        connection: connection(0, 3, 1000 + u16::try_from(flow).unwrap()),
        processes: Processes::default(),
        bytes: Some(Bytes::new(bytes)),
    };
    let crowded = || {
        let mut rig = rig("sff");
        let agent = rig.agent("left", &[0, 1, 2]);
        rig.start("a", "j");
        rig.declare("a", request(0, 1)).unwrap();
        for flow in 1..=20 {
            rig.declare("a", request(flow, 1_000_000 + flow)).unwrap();
        }
        assert_eq!(rig.agents[&agent].paced.len(), 20);
        (rig, agent)
    };
    let said = [
        request(21, 2_000_000),
        Declaration::FlowComplete { job: "j".into(), flow: "7".into() },
        request(22, 2_000_000),
        Declaration::FlowComplete { job: "j".into(), flow: "22".into() },
    ];
    let (mut one_by_one, agent) = crowded();
    for declaration in &said {
        one_by_one.declare("a", declaration.clone()).unwrap();
    }

    let (mut rig, _) = crowded();
    for declaration in &said {
        let input = Input::Declared { application: "a", declaration };
        rig.controller.observe(rig.now, input).unwrap();
    }
    let mut out = Vec::new();
    step(&mut rig.controller, rig.now, Input::Tick, &mut out).unwrap();
    let told: Vec<_> = out
        .iter()
        .filter_map(|output| match output {
            Output::Agent(_, commands) => Some(commands.commands.clone()),
            _ => None,
        })
        .flatten()
        .collect();
    rig.carry(out);
    let [came, went] = [1021, 1007].map(|port| connection(0, 3, port));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.contains(&Command::Pace { connection: went, rate_bps: None }));
    assert!(rig.agents[&agent].paced.contains_key(&came));
    assert_eq!(rig.agents[&agent].paced, one_by_one.agents[&agent].paced);
}

/// Leases of agents that came at different times are renewed at different times, and not while an
/// agent hears other things.
#[test]
fn renewals_are_spread() {
    let mut rig = rig("sff");
    for host in 0..3 {
        rig.agent(&format!("h{host}"), &[host]);
        rig.pass(Span::from_millis(500));
    }
    rig.start("a", "j");
    let busy = |flow: u64| Declaration::FlowRequest {
        job: "j".into(),
        flow: flow.to_string(),
        connection: connection(0, 3, 1000 + u16::try_from(flow).unwrap()),
        processes: Processes::default(),
        bytes: Some(Bytes::new(1 + flow)),
    };
    let end = rig.now + SECOND * 30;
    let (mut heard, mut flow) = ([0; 3], 0);
    while rig.now < end {
        let next = rig.controller.deadline().unwrap();
        rig.now = next.min(rig.now + Span::from_millis(100));
        let mut out = Vec::new();
        step(&mut rig.controller, rig.now, Input::Tick, &mut out).unwrap();
        assert!(out.len() <= 1, "at {}: {out:?}", rig.now);
        for output in &out {
            if let Output::Agent(peer, _) = output {
                heard[usize::try_from(peer.0 - 2).unwrap()] += 1;
            }
        }
        rig.carry(out);
        flow += 1;
        rig.declare("a", busy(flow)).unwrap();
    }
    // Three in a lease of 10 s; the first hears something every 100 ms.
    assert_eq!(heard, [0, 9, 9]);
}

/// What an agent can't do is shown as not enforced, with the reason, until it succeeds.
#[test]
fn a_command_that_fails_is_shown_and_never_confirmed() {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, shape.config("fair", even(), true), 1);
    let agent = rig.agent("h0", &[0]);
    rig.start("app", "job");
    rig.agents.get_mut(&agent).unwrap().failing = 100;
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    let shown = |rig: &Rig, number| {
        let why = rig.why("app", "job", number);
        (why.flow.enforced_bps, why.flow.failed, why.by)
    };
    let (enforced, failed, by) = shown(&rig, 1);
    assert_eq!((enforced, failed.as_deref()), (None, Some("the kernel refuses")));
    assert_eq!(by, "nobody: agent h0 failed: the kernel refuses");
    assert!(rig.paced().is_empty());
    let problem = |rig: &Rig| {
        let problems = rig.controller.at(rig.now).status().problems;
        problems.into_iter().find(|problem| problem.contains("not enforced"))
    };
    assert!(problem(&rig).unwrap().contains("10.0.0.1:7 is not enforced: the kernel refuses"));
    assert_eq!(rig.controller.counters().commands_failed, 1);
    // Renewals try it again, in vain.
    rig.pass(SECOND * 20);
    assert_eq!((shown(&rig, 1).0, shown(&rig, 1).1.is_some()), (None, true));
    assert!((5..9).contains(&rig.controller.counters().commands_failed));
    // The next succeeds.
    rig.agents.get_mut(&agent).unwrap().failing = 0;
    rig.pass(SECOND * 4);
    assert_eq!(rig.paced().len(), 1);
    rig.flow("app", "job", 2, connection(0, 3, 8), None).unwrap();
    let (enforced, failed, _) = shown(&rig, 1);
    assert_eq!((enforced, failed), (rig.paced().get(&connection(0, 2, 7)).copied(), None));
    assert_eq!(problem(&rig), None);
}

/// What an agent has no capability for is not sent, and shown as not enforced.
#[test]
fn what_an_agent_cant_do_is_not_asked_of_it() {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, shape.config("fair", even(), true), 1);
    let peer = rig.peer();
    rig.input(Input::AgentConnected { channel: peer, identity: "h0" }).unwrap();
    let hosts = vec![Host { name: "h0".into(), addresses: vec![address(0)] }];
    let hello = Report::Hello { hosts, capabilities: vec![Capability::Statistics], epoch: 0 };
    rig.input(Input::Reported(peer, &hello)).unwrap();
    rig.start("app", "job");
    rig.flow("app", "job", 1, connection(0, 2, 7), None).unwrap();
    let why = rig.why("app", "job", 1);
    assert_eq!(why.flow.failed.as_deref(), Some("agent h0 has no pacing"));
    assert_eq!(why.flow.enforced_bps, None);
    assert_eq!(rig.controller.counters().commands, 1, "samples alone");
    rig.declare("app", Declaration::FlowComplete { job: "job".into(), flow: "1".into() }).unwrap();
    assert!(
        rig.controller.at(rig.now).status().problems.iter().all(|p| !p.contains("not enforced"))
    );
}
