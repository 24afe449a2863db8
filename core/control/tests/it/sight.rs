//! What the kernels at the ends of connections say goes before what applications declare: whose a connection is,
//! whether it is there, and what it has carried.

use crate::in_memory::{Rig, SECOND, Shape, connection};
use protocol::agent::{ConnectionReport, EndedConnection, MOST_REPORTED, Report};
use protocol::application::Declaration;
use protocol::operator::{Act, Order};
use protocol::{Connection, Process, Processes};
use units::{Bytes, Rate, Span, Time};
use watermaster_control::{Change, ChannelId, Input, Refusal, Tenant};

const MB: u64 = 1_000_000;

/// Two racks of a host each, under `smsf`, and the agent of the sender, which has sampled for long.
fn rig(tenants: Vec<Tenant>) -> (Rig, ChannelId) {
    rig_of(&Shape::racks(1), tenants)
}

fn rig_of(shape: &Shape, tenants: Vec<Tenant>) -> (Rig, ChannelId) {
    rig_with(shape, "smsf", tenants)
}

fn rig_under(policy: &str) -> (Rig, ChannelId) {
    rig_with(&Shape::racks(1), policy, vec![])
}

fn rig_with(shape: &Shape, policy: &str, tenants: Vec<Tenant>) -> (Rig, ChannelId) {
    let made = policy::by_name(policy, &policy::Parameters::default()).unwrap();
    rig_of_policy(shape, policy, made, tenants)
}

fn rig_of_policy(
    shape: &Shape,
    name: &str,
    policy: Box<dyn policy::Policy + Send>,
    tenants: Vec<Tenant>,
) -> (Rig, ChannelId) {
    let mut config = shape.config(name, policy, true);
    config.tenants = tenants;
    let mut rig = Rig::new(shape, config, 1);
    let agent = rig.agent("a", &[0]);
    for _ in 0..12 {
        sample(&mut rig, agent, &[]);
    }
    (rig, agent)
}

/// What a connection of `h0` has delivered and what waits, and the control group of its socket.
type Seen = (Connection, u64, u64, Option<&'static str>);

/// A sample later, with these connections.
fn sample(rig: &mut Rig, agent: ChannelId, seen: &[Seen]) {
    rig.pass(SECOND);
    let connections = seen.iter().map(|(connection, delivered, unsent, group)| ConnectionReport {
        connection: *connection,
        delivered_bytes: Bytes::new(*delivered),
        unsent_bytes: Bytes::new(*unsent),
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: group.iter().map(|group| Process::Cgroup((*group).into())).collect(),
    });
    let connections = connections.collect();
    let report =
        Report::Connections { sampled_ns: Time::ZERO + rig.now.since(Time::ZERO), connections };
    rig.input(Input::Reported(agent, &report)).unwrap();
    rig.pass(Span::ZERO);
}

/// The agent tells that these connections of `h0` have ended, having sent so much, and how many it lost.
fn ended(
    rig: &mut Rig,
    agent: ChannelId,
    seen: &[(Connection, u64)],
    lost: u64,
) -> Result<(), Refusal> {
    let connections = seen.iter().map(|(connection, sent)| EndedConnection {
        connection: *connection,
        sent_bytes: Bytes::new(*sent),
        processes: vec![],
    });
    let connections = connections.collect();
    let sampled_ns = Time::ZERO + rig.now.since(Time::ZERO);
    let told = rig.input(Input::Reported(agent, &Report::Ended { sampled_ns, connections, lost }));
    rig.pass(Span::ZERO);
    told
}

fn tenant(application: &str, group: &str) -> Tenant {
    Tenant {
        application: application.into(),
        hosts: vec!["h0".into(), "h1".into()],
        cgroups: vec![group.into()],
        ..Tenant::default()
    }
}

/// What a flow of a job of this name is held to.
fn held(rig: &Rig, application: &str) -> Option<Rate> {
    rig.why(application, "job", 1).flow.intended_bps
}

fn bytes(rig: &Rig, application: &str) -> u64 {
    rig.why(application, "job", 1).flow.bytes.unwrap().get()
}

fn declare(rig: &mut Rig, application: &str, port: u16, bytes: u64) {
    rig.start(application, "job");
    rig.flow(application, "job", 1, connection(0, 1, port), Some(bytes)).unwrap();
}

#[test]
fn a_ghost_holds_nobody_for_longer_than_four_samples() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "ghost", 1, MB);
    declare(&mut rig, "real", 2, 100 * MB);
    let real = |sent| [(connection(0, 1, 2), sent, MB, None)];
    assert!(held(&rig, "real").is_some(), "it comes after the smaller one");
    for second in 1..=4 {
        sample(&mut rig, agent, &real(second * MB));
        assert!(held(&rig, "real").is_some(), "{second}");
    }
    sample(&mut rig, agent, &real(5 * MB));
    assert_eq!(held(&rig, "real"), None);
    // It was late, and is there.
    sample(&mut rig, agent, &[real(6 * MB)[0], (connection(0, 1, 1), 0, MB, None)]);
    assert!(held(&rig, "real").is_some());
}

#[test]
fn what_sends_nothing_holds_nobody_either() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "idle", 1, MB);
    declare(&mut rig, "real", 2, 100 * MB);
    let seen = |sent, idle| {
        [(connection(0, 1, 2), sent, MB, None), (connection(0, 1, 1), 1000, idle, None)]
    };
    sample(&mut rig, agent, &seen(MB, 1));
    assert!(held(&rig, "real").is_some());
    // A report that leaves it out says nothing of it.
    for second in 2..=3 {
        sample(&mut rig, agent, &seen(second * MB, 0)[..1]);
        assert!(held(&rig, "real").is_some(), "{second}");
    }
    sample(&mut rig, agent, &seen(4 * MB, 0));
    assert_eq!(held(&rig, "real"), None, "nothing went, and nothing waits");
    sample(&mut rig, agent, &seen(5 * MB, 1));
    assert!(held(&rig, "real").is_some());
}

/// Under each policy that serves one flow before another, in how many of these samples a small flow held a large one,
/// where in a sample it sends so much and so much waits for it.
fn samples_held(policy: &str, flows: u64, sends: impl Fn(u64) -> (u64, u64)) -> Vec<u64> {
    samples_held_in(rig_under(policy), flows, sends)
}

fn samples_held_in(
    (mut rig, agent): (Rig, ChannelId),
    flows: u64,
    sends: impl Fn(u64) -> (u64, u64),
) -> Vec<u64> {
    rig.start("slow", "job");
    for flow in 0..flows {
        rig.flow("slow", "job", flow, connection(0, 1, 1), Some(2_000 * MB)).unwrap();
    }
    declare(&mut rig, "real", 2, 30_000 * MB);
    let (mut slow, mut real, mut held_in) = (0, 0, vec![]);
    for second in 1..=90 {
        let (sent, waits) = if second == 1 { (0, 1) } else { sends(second) };
        let is_held = held(&rig, "real").is_some_and(|rate| rate < Rate::from_mbps(50));
        if is_held {
            held_in.push(second);
        }
        slow += sent;
        real += if is_held { 1_500 } else { 12 * MB - sent };
        let seen =
            [(connection(0, 1, 1), slow, waits, None), (connection(0, 1, 2), real, MB, None)];
        sample(&mut rig, agent, &seen);
    }
    held_in
}

const ONE_BEFORE_ANOTHER: [&str; 4] = ["smsf", "sff", "srb", "fifo"];

/// Whether little is written at its sender or little is read at its receiver, and however many flows its connection has.
#[test]
fn who_sends_slowly_loses_its_turn_within_some_samples() {
    for policy in ONE_BEFORE_ANOTHER {
        for flows in [1, 2] {
            let trickles = samples_held(policy, flows, |_| (10_000, 0));
            assert!((4..=6).contains(&trickles.len()), "{policy}, {flows}: {trickles:?}");
            let unread = samples_held(policy, flows, |_| (10_000, MB));
            assert!((4..=24).contains(&unread.len()), "{policy}, {flows}: {unread:?}");
        }
    }
}

/// Flows that wait may divide more of a link than by default.
#[test]
fn who_sends_slowly_loses_its_turn_where_the_next_has_a_twentieth_too() {
    for policy in ["smsf", "sff", "fifo"] {
        let parameters = policy::Parameters::default().with("beta", policy::Share::literal(50_000));
        let made = policy::by_name(policy, &parameters).unwrap();
        let rig = rig_of_policy(&Shape::racks(1), policy, made, vec![]);
        let trickles = samples_held_in(rig, 1, |_| (10_000, 0));
        assert!((4..=6).contains(&trickles.len()), "{policy}: {trickles:?}");
    }
}

/// It may have waited for its application.
#[test]
fn who_sent_slowly_has_its_turn_again_when_it_has_data() {
    for policy in ONE_BEFORE_ANOTHER {
        let sends = |second| if second <= 10 { (10_000, 0) } else { (6 * MB, MB) };
        let held_in = samples_held(policy, 1, sends);
        assert!(!held_in.contains(&10), "{policy}: {held_in:?}");
        assert!((13..=90).all(|second| held_in.contains(&second)), "{policy}: {held_in:?}");
    }
}

/// As long as it sends, and as long again.
#[test]
fn who_alternates_holds_others_no_longer_than_it_sends_twice() {
    for policy in ONE_BEFORE_ANOTHER {
        for (fast, slow) in [(1, 3), (1, 9), (3, 12)] {
            let is_fast = |second: u64| second % (fast + slow) < fast;
            let sends = |second| if is_fast(second) { (6 * MB, MB) } else { (10_000, MB) };
            let held_in = samples_held(policy, 1, sends);
            let sent = (1..=90).filter(|second| is_fast(*second)).count();
            let held = held_in.len();
            assert!(held <= 2 * sent + 24, "{policy}, {fast}, {slow}: {held}, sent in {sent}");
        }
    }
}

/// Who sends slowly beside one that is held, both over the uplink of two racks, has given way after so many samples.
fn gives_way(rig: &mut Rig, agent: ChannelId) -> bool {
    for second in 1..=12 {
        let slow = (connection(0, 1, 1), 10_000 * second, 1, None);
        sample(rig, agent, &[slow, (connection(0, 1, 2), 20_000 * second, MB, None)]);
    }
    rig.why("slow", "job", 1).why.contains("gives way")
}

/// Then nothing holds anybody back.
#[test]
fn during_a_freeze_nobody_leaves_links_idle() {
    for freezes in [false, true] {
        let (mut rig, agent) = rig(vec![]);
        declare(&mut rig, "slow", 1, 20 * MB);
        declare(&mut rig, "real", 2, 3_000 * MB);
        if freezes {
            order(&mut rig, Order::Freeze { reason: None });
        }
        assert_eq!(gives_way(&mut rig, agent), !freezes);
    }
}

/// Who is held to a small part of a wide link may have most of its own.
#[test]
fn who_shares_its_own_link_waits_for_nobody_at_a_wider_one() {
    for (limit, waits) in [(1, true), (20, false)] {
        let mut shape = Shape::racks(1);
        shape.cable_mbps = 100 * shape.mbps;
        let rates = vec![Rate::from_mbps(100), Rate::from_mbps(limit)];
        let policy = policy::Parameters::default().with("rates", rates);
        let policy = policy::by_name("static", &policy).unwrap();
        let (mut rig, agent) = rig_of_policy(&shape, "static", policy, vec![]);
        declare(&mut rig, "slow", 1, 20 * MB);
        declare(&mut rig, "real", 2, 3_000 * MB);
        assert_eq!(gives_way(&mut rig, agent), waits, "{limit}");
    }
}

/// What a flow was held to when nobody saw it sends is over once it is seen.
#[test]
fn who_comes_back_is_held_to_nothing_of_before() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "small", 1, MB);
    declare(&mut rig, "large", 2, 100 * MB);
    let small = (connection(0, 1, 1), 1_000, 1, None);
    for waits in [1, 0, 0] {
        sample(&mut rig, agent, &[small, (connection(0, 1, 2), 1_000, waits, None)]);
    }
    assert!(held(&rig, "large").is_some(), "it rests, and keeps its limit");
    rig.declare("small", Declaration::JobComplete { job: "job".into() }).unwrap();
    sample(&mut rig, agent, &[(connection(0, 1, 2), MB, 1, None)]);
    assert_eq!(held(&rig, "large"), None);
}

/// It would be held to what it had then for as long as its agent, or the next one, renews that.
#[test]
fn who_rests_counts_again_where_nobody_would_see_it() {
    for goes in [false, true] {
        let (mut rig, agent) = rig(vec![]);
        declare(&mut rig, "small", 1, MB);
        declare(&mut rig, "large", 2, 100 * MB);
        let small = (connection(0, 1, 1), 1_000, 1, None);
        for waits in [1, 0, 0] {
            sample(&mut rig, agent, &[small, (connection(0, 1, 2), 1_000, waits, None)]);
        }
        complete(&mut rig, "small", "job");
        rig.pass(Span::ZERO);
        assert!(held(&rig, "large").is_some(), "it rests, and keeps its limit");
        rig.now += SECOND * 5;
        rig.input(Input::Tick).unwrap();
        assert!(
            held(&rig, "large").is_some(),
            "the controller slept: what its agent said may wait"
        );
        if goes {
            rig.input(Input::AgentGone(agent)).unwrap();
        }
        for _ in 0..10 {
            rig.pass(SECOND);
            rig.input(Input::Tick).unwrap();
        }
        assert_eq!(held(&rig, "large"), None, "its agent is gone: {goes}");
    }
}

/// Many flows of a job fill a link together, each with a small part of it.
#[test]
fn flows_that_fill_a_link_together_keep_their_turn() {
    let (mut rig, agent) = rig(vec![]);
    rig.start("job", "job");
    for flow in 0..20 {
        let packets = connection(0, 1, 100 + u16::try_from(flow).unwrap());
        rig.flow("job", "job", flow, packets, Some(20 * MB)).unwrap();
    }
    declare(&mut rig, "real", 2, 3_000 * MB);
    for second in 1..=20 {
        assert!(held(&rig, "real").is_some(), "{second}");
        let mut seen: Vec<Seen> =
            (100..120).map(|port| (connection(0, 1, port), second * 600_000, MB, None)).collect();
        seen.push((connection(0, 1, 2), second * 1_500, MB, None));
        sample(&mut rig, agent, &seen);
    }
}

/// Seconds for which ghosts held a real flow, of which each lives for so long.
fn seconds_held(lives: u64) -> usize {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "real", 2, 1000 * MB);
    rig.start("ghost", "job");
    let mut seconds = 0;
    for second in 0..60 {
        if second % lives == 0 {
            let packets = connection(0, 1, 1000 + u16::try_from(second).unwrap());
            rig.flow("ghost", "job", second, packets, Some(MB)).unwrap();
        }
        seconds += usize::from(held(&rig, "real").is_some());
        sample(&mut rig, agent, &[(connection(0, 1, 2), second * MB, MB, None)]);
        if second % lives == lives - 1 {
            let (job, flow) = ("job".into(), (second + 1 - lives).to_string());
            rig.declare("ghost", Declaration::FlowComplete { job, flow }).unwrap();
        }
    }
    seconds
}

#[test]
fn ghosts_hold_others_for_some_samples_in_all() {
    for (lives, most) in [(2, 4), (3, 6), (60, 5)] {
        assert!((1..=most).contains(&seconds_held(lives)), "{lives}: {}", seconds_held(lives));
    }
}

/// Who connects late is believed again when it has.
#[test]
fn a_late_flow_leaves_no_doubt() {
    for late in [false, true] {
        let (mut rig, agent) = rig(vec![]);
        declare(&mut rig, "real", 2, 1000 * MB);
        declare(&mut rig, "late", 1, MB);
        let real = |sent| (connection(0, 1, 2), sent, MB, None);
        for second in 1..=6 {
            sample(&mut rig, agent, &[real(second * MB)]);
        }
        assert_eq!(held(&rig, "real"), None);
        if late {
            sample(&mut rig, agent, &[real(7 * MB), (connection(0, 1, 1), 1000, 1, None)]);
            sample(&mut rig, agent, &[real(8 * MB), (connection(0, 1, 1), 1000, 0, None)]);
            assert_eq!(held(&rig, "real"), None);
        }
        rig.flow("late", "job", 3, connection(0, 1, 3), Some(MB)).unwrap();
        assert_eq!(held(&rig, "real").is_some(), late, "its next flow counts at once");
    }
}

#[test]
fn ghosts_under_new_names_are_believed_no_more() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "real", 2, 100 * MB);
    rig.start("ghost", "job");
    let mut last = 0;
    for second in 1..60 {
        let flow = |rig: &mut Rig, flow| {
            let packets = connection(0, 1, 1000 + u16::try_from(flow).unwrap());
            rig.flow("ghost", "job", flow, packets, Some(MB)).unwrap();
        };
        flow(&mut rig, second);
        if held(&rig, "real").is_some() {
            last = second;
        }
        sample(&mut rig, agent, &[(connection(0, 1, 2), second * MB, MB, None)]);
        let (job, flow) = ("job".into(), second.to_string());
        rig.declare("ghost", Declaration::FlowComplete { job, flow }).unwrap();
    }
    assert!((1..25).contains(&last), "held until {last}");
}

#[test]
fn where_no_agent_is_what_is_declared_counts() {
    let shape = Shape::racks(1);
    let policy = policy::by_name("smsf", &policy::Parameters::default()).unwrap();
    let mut rig = Rig::new(&shape, shape.config("smsf", policy, true), 1);
    declare(&mut rig, "ghost", 1, MB);
    declare(&mut rig, "real", 2, 100 * MB);
    rig.pass(SECOND * 60);
    assert!(held(&rig, "real").is_some());
}

#[test]
fn a_connection_is_whose_control_group_has_its_socket() {
    let (mut rig, agent) = rig(vec![tenant("thief", "/t"), tenant("victim", "/v")]);
    declare(&mut rig, "thief", 1, 1000 * MB);
    declare(&mut rig, "victim", 1, MB);
    let seen = [(connection(0, 1, 1), 1000, MB, Some("/v"))];
    sample(&mut rig, agent, &seen);
    let answers = rig.controller.at(rig.now);
    assert!(answers.explain_flow("thief", "job", "1").is_none(), "its flow has ended");
    assert_eq!(held(&rig, "victim"), None);
    let problems = answers.status().problems.join("\n");
    assert!(problems.contains("application thief declared 10.0.0.1:1"), "{problems}");
    let refused = rig.flow("thief", "job", 2, connection(0, 1, 1), Some(MB)).unwrap_err();
    assert_eq!(refused.field, "connection");
    assert!(!refused.reason.contains("victim"), "whose it is is not told: {refused}");
    // Nor by leaving the port open.
    rig.flow("thief", "job", 3, connection(0, 1, 0), Some(1000 * MB)).unwrap();
    rig.declare("victim", Declaration::JobComplete { job: "job".into() }).unwrap();
    sample(&mut rig, agent, &seen);
    assert!(rig.why("thief", "job", 3).flow.carriers.is_empty());
    let process = Process::Cgroup("/v".into());
    let job = || "job".to_owned();
    let named = Declaration::FlowRequest {
        job: job(),
        flow: "4".into(),
        connection: connection(0, 1, 0),
        processes: Processes { source: Some(process), destination: None },
        bytes: None,
    };
    rig.declare("thief", named).unwrap();
    sample(&mut rig, agent, &seen);
    assert!(rig.why("thief", "job", 4).flow.carriers.is_empty());
    // The victim may be late.
    declare(&mut rig, "victim", 1, MB);
    sample(&mut rig, agent, &seen);
    assert_eq!(rig.why("victim", "job", 1).flow.carriers, [connection(0, 1, 1)]);
}

/// What has ended takes no place from what comes within the same second.
#[test]
fn who_has_a_connection_is_forgotten_with_its_end() {
    let shape = Shape::racks(1);
    let policy = policy::by_name("smsf", &policy::Parameters::default()).unwrap();
    let mut config = shape.config("smsf", policy, true);
    config.limits.flows = 2;
    let mut rig = Rig::new(&shape, config, 1);
    let agent = rig.agent("a", &[0]);
    rig.start("app", "job");
    let processes = Processes { source: Some(Process::Cgroup("/v".into())), destination: None };
    let (job, flow, connection_of) = ("job".into(), "1".into(), connection(0, 1, 0));
    let named =
        Declaration::FlowRequest { job, flow, connection: connection_of, processes, bytes: None };
    rig.declare("app", named).unwrap();
    let open = |port| (connection(0, 1, port), MB, MB, Some("/v"));
    sample(&mut rig, agent, &[open(1), open(2)]);
    assert_eq!(rig.why("app", "job", 1).flow.carriers.len(), 2);
    rig.pass(SECOND / 2);
    let over = [1, 2].map(|port| (connection(0, 1, port), 2 * MB));
    ended(&mut rig, agent, &over, 0).unwrap();
    rig.pass(SECOND / 4);
    sample(&mut rig, agent, &[open(3), open(4)]);
    let carriers = [3, 4].map(|port| connection(0, 1, port));
    assert_eq!(rig.why("app", "job", 1).flow.carriers, carriers);
}

/// The same of whose it is.
#[test]
fn whose_a_connection_was_is_forgotten_with_its_end() {
    let (mut rig, agent) = rig(vec![tenant("a", "/a"), tenant("b", "/b")]);
    let ends = connection(0, 1, 1);
    sample(&mut rig, agent, &[(ends, MB, MB, Some("/a"))]);
    rig.start("b", "job");
    let declared = |rig: &mut Rig| rig.flow("b", "job", 1, ends, Some(MB)).map_err(|why| why.field);
    assert_eq!(declared(&mut rig), Err("connection"), "it is another's");
    ended(&mut rig, agent, &[(ends, MB)], 0).unwrap();
    assert_eq!(declared(&mut rig), Ok(()), "its ports are used again");
}

/// What nobody measures of a link is not said to be nothing.
#[test]
fn what_nobody_measures_is_not_said() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "a", 1, 100 * MB);
    let measured = |rig: &Rig| {
        let status = rig.controller.at(rig.now).status();
        let of = |from| status.links.iter().find(|link| link.from == from).unwrap().measured_bps;
        let bottleneck = rig.why("a", "job", 1).bottleneck.unwrap().measured_bps;
        (of("h0"), of("h1"), bottleneck)
    };
    let nothing = Some(Rate::ZERO);
    assert_eq!(measured(&rig), (None, nothing, None), "no flow crosses the other");
    for second in 1..=3 {
        sample(&mut rig, agent, &[(connection(0, 1, 1), second * MB, MB, None)]);
    }
    let eight = Some(Rate::from_mbps(8));
    assert_eq!(measured(&rig), (eight, nothing, eight));
    rig.pass(SECOND * 9);
    assert_eq!(measured(&rig), (None, nothing, None), "that was long ago");
}

#[test]
fn without_control_groups_a_connection_is_whose_declared_it_unless_nobody_sees_it() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "first", 1, MB);
    rig.start("second", "job");
    let again = |rig: &mut Rig| rig.flow("second", "job", 1, connection(0, 1, 1), Some(MB));
    assert_eq!(again(&mut rig).unwrap_err().field, "connection");
    for _ in 0..6 {
        sample(&mut rig, agent, &[]);
    }
    again(&mut rig).unwrap();
    assert!(rig.controller.at(rig.now).explain_flow("first", "job", "1").is_none());
}

/// A connection that sends 10 MB a second, of which each second another flow of another job is declared to have 10 kB.
#[test]
fn a_new_name_for_what_was_sent_escapes_nothing() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "honest", 2, 30 * MB);
    let start = |rig: &mut Rig, second: u64| {
        let job = second.to_string();
        rig.start("liar", &job);
        rig.flow("liar", &job, 1, connection(0, 1, 1), Some(10_000)).unwrap();
    };
    start(&mut rig, 0);
    for second in 1..=5 {
        let seen = [
            (connection(0, 1, 1), second * 10 * MB, MB, None),
            (connection(0, 1, 2), 100_000 * second, MB, None),
        ];
        sample(&mut rig, agent, &seen);
        let job = (second - 1).to_string();
        rig.declare("liar", Declaration::JobComplete { job }).unwrap();
        start(&mut rig, second);
    }
    assert_eq!(held(&rig, "honest"), None, "it goes first");
    let liar = rig.why("liar", "5", 1);
    assert!(liar.flow.intended_bps.is_some());
    let why = liar.flow.contradicted.unwrap();
    assert!(why.contains("that it did not declare"), "{why}");
    // It leaves, comes back, and is remembered, for a minute.
    rig.input(Input::ApplicationGone("liar")).unwrap();
    for second in 1..=20 {
        sample(&mut rig, agent, &[(connection(0, 1, 2), MB * (1 + second), MB, None)]);
    }
    assert!(rig.controller.at(rig.now).jobs(Some("liar")).is_empty());
    declare(&mut rig, "liar", 3, 10_000);
    assert!(bytes(&rig, "liar") > 50 * MB);
    for second in 1..=60 {
        sample(&mut rig, agent, &[(connection(0, 1, 2), MB * (21 + second), MB, None)]);
    }
    rig.start("liar", "later");
    rig.flow("liar", "later", 1, connection(0, 1, 4), Some(10_000)).unwrap();
    assert_eq!(rig.why("liar", "later", 1).flow.bytes, Some(Bytes::new(10_000)));
}

/// Nor does a new connection each second, which no sample finds, however much is left open meanwhile.
#[test]
fn a_new_connection_for_what_was_sent_escapes_nothing() {
    for completes in [false, true] {
        let (mut rig, agent) = rig(vec![]);
        declare(&mut rig, "honest", 2, 30 * MB);
        rig.start("liar", "job");
        let flow = |rig: &mut Rig, second: u16| {
            let packets = connection(0, 1, 1000 + second);
            rig.flow("liar", "job", second.into(), packets, Some(10_000)).unwrap();
        };
        flow(&mut rig, 0);
        for second in 1..=5_u16 {
            rig.pass(SECOND / 2);
            if completes {
                let (job, flow) = ("job".into(), (second - 1).to_string());
                rig.declare("liar", Declaration::FlowComplete { job, flow }).unwrap();
            }
            rig.pass(SECOND / 2);
            let gone = [(connection(0, 1, 999 + second), 10 * MB)];
            ended(&mut rig, agent, &gone, 0).unwrap();
            let real = (connection(0, 1, 2), 100_000 * u64::from(second), MB, None);
            sample(&mut rig, agent, &[real]);
            flow(&mut rig, second);
        }
        assert_eq!(held(&rig, "honest"), None, "it goes first");
        let liar = rig.why("liar", "job", 5).flow;
        assert!(liar.bytes.unwrap() > Bytes::new(35 * MB), "{completes}: {liar:?}");
        // What ended is asked for once: the same ports again owe for themselves alone.
        let again = [(connection(0, 1, 1000), 10_000)];
        ended(&mut rig, agent, &again, 0).unwrap();
        assert_eq!(rig.why("liar", "job", 5).flow.bytes, liar.bytes);
    }
}

/// Many flows, each over a connection of its own that no sample finds, and each as large as it was declared.
#[test]
fn honest_short_connections_owe_nothing_and_leave_no_doubt() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "real", 2, 1000 * MB);
    rig.start("app", "job");
    for second in 1..=30_u16 {
        let packets = connection(0, 1, 1000 + second);
        rig.flow("app", "job", second.into(), packets, Some(MB)).unwrap();
        assert!(held(&rig, "real").is_some(), "{second}: it counts at once");
        rig.pass(SECOND.saturating_sub(Span::from_millis(10)));
        let (job, flow) = ("job".into(), second.to_string());
        rig.declare("app", Declaration::FlowComplete { job, flow }).unwrap();
        ended(&mut rig, agent, &[(packets, MB)], 0).unwrap();
        let sent = u64::from(second) * MB;
        sample(&mut rig, agent, &[(connection(0, 1, 2), sent, MB, None)]);
    }
    let status = rig.controller.at(rig.now).status();
    assert!(status.applications.iter().all(|known| known.contradicted == 0), "{status:?}");
}

/// One that rests and has carried much before owes nothing when another between the same hosts ends.
#[test]
fn what_is_known_of_resting_connections_stays() {
    let (mut rig, agent) = rig(vec![]);
    rig.start("app", "job");
    let (kept, short) = (connection(0, 1, 1), connection(0, 1, 2));
    for second in 1..=10_u64 {
        sample(&mut rig, agent, &[(kept, second * 5 * MB, 0, None), (short, 1000, 0, None)]);
    }
    for _ in 0..6 {
        sample(&mut rig, agent, &[(kept, 50 * MB, 0, None), (short, 1000, 0, None)]);
    }
    ended(&mut rig, agent, &[(short, 1000)], 0).unwrap();
    rig.flow("app", "job", 1, kept, Some(MB)).unwrap();
    sample(&mut rig, agent, &[(kept, 51 * MB, 0, None)]);
    assert_eq!(rig.controller.at(rig.now).status().applications[0].contradicted, 0);
}

#[test]
fn a_flow_whose_connection_has_ended_holds_nobody() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "small", 1, MB);
    declare(&mut rig, "real", 2, 100 * MB);
    let real = (connection(0, 1, 2), MB, MB, None);
    sample(&mut rig, agent, &[real, (connection(0, 1, 1), 1000, MB, None)]);
    assert!(held(&rig, "real").is_some());
    ended(&mut rig, agent, &[(connection(0, 1, 1), 500_000)], 0).unwrap();
    assert_eq!(held(&rig, "real"), None);
    assert_eq!(rig.why("small", "job", 1).flow.delivered_bytes, Bytes::new(499_000));
    // Another one has its ports.
    sample(&mut rig, agent, &[real, (connection(0, 1, 1), 0, MB, None)]);
    assert!(held(&rig, "real").is_some());
}

/// A flow whose port nobody knew has had a connection that no sample finds.
#[test]
fn what_joins_at_its_end_counts() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "app", 0, 100_000);
    for (port, sent) in [(7, 60_000), (8, 30_000)] {
        ended(&mut rig, agent, &[(connection(0, 1, port), sent)], 0).unwrap();
    }
    let flow = rig.why("app", "job", 1).flow;
    assert_eq!((flow.delivered_bytes.get(), flow.contradicted), (90_000, None));
    assert_eq!(flow.carriers, [], "they are gone");
    ended(&mut rig, agent, &[(connection(0, 1, 9), MB)], 0).unwrap();
    assert!(rig.why("app", "job", 1).flow.contradicted.is_some());
}

#[test]
fn what_agents_tell_of_ended_connections_is_bounded_and_of_their_own() {
    let (mut rig, agent) = rig(vec![]);
    let others = [(connection(1, 0, 1), MB), (connection(0, 1, 1), MB)];
    declare(&mut rig, "app", 1, 10_000);
    // Before its first sample an agent tells of none.
    sample(&mut rig, agent, &[]);
    let refused = ended(&mut rig, agent, &others, 0).unwrap_err();
    assert_eq!(refused.field, "connection.source");
    assert!(bytes(&rig, "app") >= MB, "one that is odd doesn't silence the others");
    let most = 100_000.max(MOST_REPORTED);
    let many = vec![(connection(0, 1, 1), MB); most + 1];
    assert_eq!(ended(&mut rig, agent, &many, 0).unwrap_err().field, "connections");
    let told = |rig: &Rig| rig.controller.at(rig.now).status().problems.join("\n");
    assert!(!told(&rig).contains("more connections ended at once"), "{}", told(&rig));
    ended(&mut rig, agent, &[], 3).unwrap();
    assert!(told(&rig).contains("more connections ended at once"), "{}", told(&rig));
}

/// Where ports are watched its last packet is told as well, between the sample and its end.
#[test]
fn what_was_sampled_and_closed_counts_once() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "app", 0, 100 * MB);
    for sent in [25, 50] {
        sample(&mut rig, agent, &[(connection(0, 1, 1), sent * MB, MB, None)]);
    }
    let closed = Report::Closed { connection: connection(0, 1, 1) };
    rig.input(Input::Reported(agent, &closed)).unwrap();
    ended(&mut rig, agent, &[(connection(0, 1, 1), 60 * MB)], 0).unwrap();
    assert_eq!(rig.why("app", "job", 1).flow.delivered_bytes, Bytes::new(60 * MB));
}

/// Large flows that end at once buy nothing either.
#[test]
fn what_was_declared_and_ended_covers_no_more_than_its_time() {
    let (mut rig, agent) = rig(vec![]);
    rig.start("liar", "job");
    for second in 1..=3_u64 {
        let flow = |rig: &mut Rig, name, bytes| {
            rig.flow("liar", "job", name, connection(0, 1, 1), Some(bytes)).unwrap();
        };
        let end = |rig: &mut Rig, flow: u64| {
            let (job, flow) = ("job".into(), flow.to_string());
            rig.declare("liar", Declaration::FlowComplete { job, flow }).unwrap();
        };
        flow(&mut rig, 2 * second, 1000 * MB);
        end(&mut rig, 2 * second);
        flow(&mut rig, 2 * second + 1, 10_000);
        sample(&mut rig, agent, &[(connection(0, 1, 1), second * 10 * MB, MB, None)]);
        if second < 3 {
            end(&mut rig, 2 * second + 1);
        }
    }
    let flow = rig.why("liar", "job", 7).flow;
    assert!(flow.bytes.unwrap() > Bytes::new(20 * MB), "{flow:?}");
}

/// Flows one after another over one connection, each as large as it was declared.
#[test]
fn honest_use_of_a_connection_owes_nothing() {
    let (mut rig, agent) = rig(vec![]);
    rig.start("app", "job");
    let mut sent = 0;
    for second in 1..=20_u64 {
        for flow in 0..4 {
            let name = 4 * second + flow;
            rig.flow("app", "job", name, connection(0, 1, 1), Some(2 * MB)).unwrap();
            rig.pass(Span::from_millis(200));
            sent += 2 * MB;
            let (job, flow) = ("job".into(), name.to_string());
            rig.declare("app", Declaration::FlowComplete { job, flow }).unwrap();
        }
        sample(&mut rig, agent, &[(connection(0, 1, 1), sent, 0, None)]);
    }
    rig.flow("app", "job", 1, connection(0, 1, 1), Some(MB)).unwrap();
    assert_eq!(rig.why("app", "job", 1).flow.bytes, Some(Bytes::new(MB)));
    assert_eq!(rig.controller.at(rig.now).status().applications[0].contradicted, 0);
}

fn start(rig: &mut Rig, application: &str, job: &str, port: u16, bytes: Option<u64>) {
    rig.start(application, job);
    rig.flow(application, job, 1, connection(0, 1, port), bytes).unwrap();
}

fn complete(rig: &mut Rig, application: &str, job: &str) {
    rig.declare(application, Declaration::JobComplete { job: job.into() }).unwrap();
}

fn order(rig: &mut Rig, order: Order) {
    let act = Act { at_s: 1_000, by: "operator me".into(), order };
    rig.input(Input::Ordered { act: &act, again: false }).unwrap();
    rig.pass(Span::ZERO);
}

/// Why a flow of a job counts as more than it was declared.
fn contradicted(rig: &Rig, application: &str, job: &str) -> Option<String> {
    rig.why(application, job, 1).flow.contradicted
}

/// A large flow, and in each of five seconds another tiny one of the same connection, while 10 MB go over it; before
/// each sample `meanwhile` happens. What is then said of the next tiny one.
fn cover(
    rig: &mut Rig,
    agent: ChannelId,
    mut meanwhile: impl FnMut(&mut Rig),
) -> (Option<String>, Bytes) {
    declare(rig, "honest", 2, 30 * MB);
    start(rig, "liar", "large", 1, Some(1000 * MB));
    for second in 1..=5_u64 {
        let tiny = second.to_string();
        start(rig, "liar", &tiny, 1, Some(10_000));
        rig.pass(Span::ZERO);
        meanwhile(rig);
        let seen = [
            (connection(0, 1, 1), second * 10 * MB, MB, None),
            (connection(0, 1, 2), 100_000 * second, MB, None),
        ];
        sample(rig, agent, &seen);
        complete(rig, "liar", &tiny);
    }
    start(rig, "liar", "last", 1, Some(10_000));
    rig.pass(Span::ZERO);
    let flow = rig.why("liar", "last", 1).flow;
    (flow.contradicted, flow.bytes.unwrap())
}

/// A connection has no limit while a flow of it has none: what goes so beside one that is held back is no secret.
#[test]
fn a_tiny_flow_before_a_large_one_of_its_connection_gains_nothing() {
    let (mut rig, agent) = rig(vec![]);
    let (why, bytes) = cover(&mut rig, agent, |_| {});
    assert!(why.unwrap().contains("shares its connection"));
    assert!(bytes > Bytes::new(40 * MB), "{bytes:?}");
    assert_eq!(held(&rig, "honest"), None, "it goes first");
    // Nor by another size later.
    start(&mut rig, "liar", "stream", 1, None);
    rig.flow("liar", "stream", 1, connection(0, 1, 1), Some(1)).unwrap();
    assert!(rig.why("liar", "stream", 1).flow.bytes.unwrap() > Bytes::new(40 * MB));
    // Those of other connections count as they were declared.
    start(&mut rig, "liar", "alone", 3, Some(10_000));
    assert_eq!(contradicted(&rig, "liar", "alone"), None);
    let status = rig.controller.at(rig.now).status();
    let liar = status.applications.iter().find(|known| known.name == "liar").unwrap();
    assert!(liar.contradicted >= 2, "{liar:?}");
}

#[test]
fn what_operators_set_free_goes_beside_nothing() {
    let freeze = |rig: &mut Rig| order(rig, Order::Freeze { reason: None });
    let drain = |host: &str| Order::Drain { host: host.into(), reason: None };
    let (mut rig, agent) = rig_of(&Shape::racks(2), vec![]);
    freeze(&mut rig);
    assert_eq!(cover(&mut rig, agent, |_| {}).0, None, "all is frozen");
    // It thaws shortly before each sample.
    let (mut rig, agent) = rig_of(&Shape::racks(2), vec![]);
    let (why, _) = cover(&mut rig, agent, |rig| {
        freeze(rig);
        rig.pass(SECOND);
        order(rig, Order::Thaw {});
        rig.pass(Span::ZERO);
    });
    assert_eq!(why, None, "most of the time all was frozen");
    let (mut rig, agent) = rig_of(&Shape::racks(2), vec![]);
    order(&mut rig, drain("h1"));
    assert_eq!(cover(&mut rig, agent, |_| {}).0, None, "its receiver is drained");
    let (mut rig, agent) = rig_of(&Shape::racks(2), vec![]);
    order(&mut rig, drain("h3"));
    assert!(cover(&mut rig, agent, |_| {}).0.is_some(), "another host is drained");
}

#[test]
fn another_policy_forgets_nothing_of_what_was_held_back() {
    let (mut rig, agent) = rig(vec![]);
    let (why, _) = cover(&mut rig, agent, |rig| {
        rig.pass(SECOND / 2);
        let policy = policy::by_name("smsf", &policy::Parameters::default()).unwrap();
        rig.reload(Change { policy: Some(("smsf".into(), policy)), ..Change::default() });
    });
    assert!(why.is_some());
}

/// Kernels tell whose a connection is; before they have, two may have declared it.
#[test]
fn what_went_beside_flows_of_one_application_is_not_anothers() {
    let (mut rig, agent) =
        rig(vec![tenant("liar", "/l"), tenant("other", "/o"), tenant("honest", "/h")]);
    assert!(cover(&mut rig, agent, |_| {}).0.is_some());
    start(&mut rig, "other", "job", 1, Some(10_000));
    assert_eq!(contradicted(&rig, "other", "job"), None);
}

/// Many connections leave no more out than one.
#[test]
fn many_connections_cover_no_more_than_one() {
    let (mut rig, agent) = rig(vec![]);
    let ports = 11..31;
    for port in ports.clone() {
        start(&mut rig, "liar", &format!("large {port}"), port, Some(1000 * MB));
    }
    for second in 1..=3_u64 {
        for port in ports.clone() {
            start(&mut rig, "liar", &format!("{port} {second}"), port, Some(1_000));
        }
        let seen = ports.clone().map(|port| (connection(0, 1, port), second * 150_000, MB, None));
        sample(&mut rig, agent, &seen.collect::<Vec<_>>());
        for port in ports.clone() {
            complete(&mut rig, "liar", &format!("{port} {second}"));
        }
    }
    start(&mut rig, "liar", "last", 11, Some(1_000));
    assert!(contradicted(&rig, "liar", "last").is_some());
}

/// Nor does one that was declared without a size before.
#[test]
fn another_size_escapes_nothing() {
    let (mut rig, agent) = rig(vec![]);
    start(&mut rig, "liar", "job", 1, Some(10_000));
    for second in 1..=3 {
        sample(&mut rig, agent, &[(connection(0, 1, 1), second * 10 * MB, MB, None)]);
    }
    start(&mut rig, "liar", "stream", 3, None);
    assert_eq!(contradicted(&rig, "liar", "stream"), None);
    rig.flow("liar", "stream", 1, connection(0, 1, 3), Some(1)).unwrap();
    assert!(contradicted(&rig, "liar", "stream").is_some());
    assert!(rig.why("liar", "stream", 1).flow.bytes.unwrap() > Bytes::new(20 * MB));
}

/// A report that names a connection often costs and counts what one does that names it once.
#[test]
fn a_connection_is_told_once_in_a_sample() {
    let (mut rig, agent) = rig(vec![]);
    declare(&mut rig, "app", 1, 100 * MB);
    let one = |sent| (connection(0, 1, 1), sent, MB, None);
    sample(&mut rig, agent, &[one(MB), one(5 * MB), one(9 * MB)]);
    assert_eq!(
        rig.why("app", "job", 1).flow.delivered_bytes,
        Bytes::ZERO,
        "it begins with the first"
    );
    sample(&mut rig, agent, &[one(2 * MB), one(9 * MB)]);
    assert_eq!(rig.why("app", "job", 1).flow.delivered_bytes, Bytes::new(MB));
}
