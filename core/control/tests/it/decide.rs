//! Declarations in, limits at agents out; leases; restarts; objectives; what fails.

use crate::in_memory::{Rig, SECOND, Shape, address, connection, even, metered};
use openflow::switch::Output as Answers;
use protocol::agent::{Capability, Command, Commands, ConnectionReport, Host, Report};
use protocol::application::{Declaration, StreamReport};
use protocol::{Connection, Processes};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::{Change, ChannelId, Input, LEASE, Output};

pub fn named(name: &str) -> Box<dyn policy::Policy + Send> {
    policy::by_name(name, &policy::Parameters::default()).unwrap()
}

pub fn rig(name: &str) -> Rig {
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

pub fn sampled(sampled_ns: Time, connections: &[ConnectionReport]) -> Report {
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
        rig.controller.step(rig.now, input, &mut out).unwrap();
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
        rig.controller.step(now, Input::Tick, &mut out).unwrap();
    }
    rig.controller.step(Time::NEVER, Input::Tick, &mut out).unwrap();
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
    rig.controller.step(rig.now, Input::Tick, &mut out).unwrap();
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
        rig.controller.step(rig.now, Input::Tick, &mut out).unwrap();
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
