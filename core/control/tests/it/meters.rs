//! Meters: what a switch refuses, forgets or doesn't answer is never shown as enforced.

use crate::in_memory::{Rig, SECOND, Shape, connection, entries, even, metered, meters, spec};
use model::{LinkId, NodeId};
use openflow::switch::Output as Answers;
use openflow::{
    FlowCommand, FlowMod, List, Message, MeterCommand, MeterFlags, MeterId, MeterMod, TableId,
};
use protocol::Processes;
use protocol::agent::{ConnectionReport, Report};
use protocol::application::Declaration;
use units::{Bytes, Rate, Span};
use watermaster_control::{Change, Input, LEASE, PortConfig};

/// The first meter of a controller of epoch 1.
const FIRST: u32 = 0x8000;
/// How many meters a model of a switch has room for.
const ROOM: u32 = 100_000;

/// Two racks whose first flow is declared, with meters at the switches.
fn rig() -> Rig {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, metered(shape.config("fair", even(), true)), 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.start("app", "job");
    rig
}

fn flow(rig: &mut Rig, number: u64) {
    let port = u16::try_from(number).unwrap();
    rig.flow("app", "job", number, connection(0, 2, port), None).unwrap();
}

/// What is wanted, what is enforced, why not, and by whom.
fn shown(rig: &Rig, number: u64) -> (Option<Rate>, Option<Rate>, Option<String>, String) {
    let why = rig.why("app", "job", number);
    (why.flow.intended_bps, why.flow.enforced_bps, why.flow.failed, why.by)
}

#[track_caller]
fn stands(rig: &Rig, number: u64) {
    let (intended, enforced, failed, by) = shown(rig, number);
    assert!(intended.is_some(), "flow {number} has a limit");
    assert_eq!((enforced, failed.as_deref()), (intended, None), "flow {number}");
    assert_eq!(by, "switch s0, by a meter");
}

#[track_caller]
fn fails(rig: &Rig, number: u64, because: &str) {
    let (intended, enforced, failed, by) = shown(rig, number);
    assert!(intended.is_some(), "flow {number} has a limit");
    assert_eq!(enforced, None, "flow {number}");
    let failed = failed.unwrap();
    assert!(failed.starts_with("switch s0: ") && failed.contains(because), "{failed}");
    assert!(by.starts_with("nobody: switch s0 failed: ") && by.contains(because), "{by}");
}

fn problem(rig: &Rig) -> Option<String> {
    let problems = rig.controller.at(rig.now).status().problems;
    problems.into_iter().find(|problem| problem.contains("not enforced"))
}

fn complete(rig: &mut Rig, number: u64) {
    let flow = number.to_string();
    rig.declare("app", Declaration::FlowComplete { job: "job".into(), flow }).unwrap();
}

/// Has the first switch do something that the controller doesn't hear of.
fn by_hand<'a>(rig: &mut Rig, messages: impl IntoIterator<Item = Message<'a>>) {
    let mut switch = rig.switch(0).clone();
    let mut answers = Answers::default();
    for message in messages {
        switch.handle(rig.now, 1, &message, &mut answers);
    }
    assert!(answers.messages.is_empty(), "it is done");
    rig.swap_switch(0, switch);
}

fn meter(command: MeterCommand, meter: u32) -> Message<'static> {
    let (flags, meter, bands) = (MeterFlags::KBPS, MeterId(meter), List::EMPTY);
    Message::MeterMod(MeterMod { command, flags, meter, bands })
}

/// Leaves no room for meters besides the `own`.
fn fill(rig: &mut Rig, own: u32) {
    by_hand(rig, (own..ROOM).map(|number| meter(MeterCommand::ADD, 2 * FIRST + number)));
}

/// Gives room for one more that was filled.
fn make_room(rig: &mut Rig, number: u32) {
    by_hand(rig, [meter(MeterCommand::DELETE, 2 * FIRST + number)]);
}

/// Entries that lead to meters.
fn leading(rig: &Rig) -> usize {
    leading_at(rig, 0)
}

fn leading_at(rig: &Rig, switch: u32) -> usize {
    entries(rig.switch(switch)).iter().filter(|(_, priority)| *priority == 800).count()
}

/// Before the first switch of its path has ever been connected, a rate has nobody to obey.
#[test]
fn a_rate_that_no_switch_can_meter_is_counted() {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, metered(shape.config("fair", even(), true)), 1);
    rig.agent("h0", &[0]);
    rig.start("app", "job");
    flow(&mut rig, 1);
    assert_eq!(rig.controller.counters().directives_unenforced, 1);
    (0..2).for_each(|switch| rig.connect(switch));
    let before = rig.controller.counters().directives_unenforced;
    flow(&mut rig, 2);
    assert_eq!(rig.controller.counters().directives_unenforced, before);
    stands(&rig, 2);
}

/// What a switch has no room for is told, with the reason, until it has.
#[test]
fn a_meter_that_a_switch_refuses_is_not_enforced() {
    let mut rig = rig();
    flow(&mut rig, 1);
    stands(&rig, 1);
    fill(&mut rig, 1);
    flow(&mut rig, 2);
    stands(&rig, 1);
    fails(&rig, 2, "the table of meters is full, OpenFlow error of type 12, code 10");
    let told = problem(&rig).unwrap();
    assert!(
        told.starts_with("switch s0: the rate of 10.0.0.1:2 is not enforced: the table"),
        "{told}"
    );
    // Meter and entry; that the meter wasn't there before was expected.
    assert_eq!(rig.controller.counters().switch_errors, 2);
    // Neither renewals nor other rates change that.
    rig.pass(LEASE * 3);
    fails(&rig, 2, "full");
    flow(&mut rig, 3);
    (2..=3).for_each(|number| fails(&rig, number, "full"));
    assert!(problem(&rig).unwrap().ends_with(" (and 1 more)"));
    // It heals when there is room.
    make_room(&mut rig, 1);
    rig.pass(LEASE);
    stands(&rig, 2);
    fails(&rig, 3, "full");
    // It is forgotten with the flow.
    complete(&mut rig, 3);
    rig.pass(LEASE);
    (1..=2).for_each(|number| stands(&rig, number));
    assert_eq!((problem(&rig), leading(&rig)), (None, 2));
    let errors = rig.controller.counters().switch_errors;
    rig.pass(LEASE * 3);
    assert_eq!(rig.controller.counters().switch_errors, errors);
}

/// A switch that is away confirms nothing; when it is back, it does so again, whatever it has kept.
#[test]
fn meters_are_confirmed_again_after_a_switch_reconnects() {
    let mut rig = rig();
    let empty = rig.switch(0).clone();
    (1..=3).for_each(|number| flow(&mut rig, number));
    for keeps in [true, false] {
        (1..=3).for_each(|number| stands(&rig, number));
        rig.unplug(0);
        for number in 1..=3 {
            let (_, enforced, failed, _) = shown(&rig, number);
            assert_eq!((enforced, failed), (None, None), "a switch that is away");
        }
        if !keeps {
            rig.swap_switch(0, empty.clone());
        }
        rig.plug(0);
    }
    (1..=3).for_each(|number| stands(&rig, number));
    assert_eq!(rig.controller.counters().switch_errors, 0);
    // One that has no room any more says so.
    rig.unplug(0);
    rig.swap_switch(0, empty);
    fill(&mut rig, 2);
    rig.plug(0);
    (1..=2).for_each(|number| stands(&rig, number));
    fails(&rig, 3, "full");
}

/// It lists what it has kept: that is ours, and stays when what earlier controllers left is removed.
#[test]
fn a_switch_that_comes_back_keeps_our_meters() {
    let mut rig = rig();
    (1..=2).for_each(|number| flow(&mut rig, number));
    rig.unplug(0);
    rig.plug(0);
    for _ in 0..100 {
        rig.pass(LEASE / 30);
        (1..=2).for_each(|number| stands(&rig, number));
        assert_eq!(meters(rig.switch(0)), [FIRST, FIRST + 1]);
    }
    assert_eq!(rig.controller.counters().switch_errors, 0);
}

/// Meters of the controller before stay until no entry can lead to them, and go then, however many messages
/// a switch takes to list them.
#[test]
fn meters_of_an_earlier_controller_outlive_its_entries_and_no_more() {
    for in_parts in [false, true] {
        let mut rig = rig();
        (1..=3).for_each(|number| flow(&mut rig, number));
        rig.replace(metered(Shape::racks(2).config("fair", even(), true)), 2);
        rig.in_parts = in_parts;
        (0..2).for_each(|switch| rig.connect(switch));
        rig.pass(LEASE + LEASE / 2);
        assert_eq!((leading(&rig), meters(rig.switch(0)).len()), (0, 3));
        rig.pass(LEASE);
        assert!(meters(rig.switch(0)).is_empty());
    }
}

/// A connection is let go and comes again before the switch has answered: what it answers of the first meter
/// says nothing of the second.
#[test]
fn a_late_answer_confirms_nothing_of_a_connection_that_came_again() {
    let mut rig = rig();
    let mut unanswered = |declaration: Declaration| {
        let (application, declaration) = ("app", &declaration);
        let mut out = Vec::new();
        let input = Input::Declared { application, declaration };
        rig.controller.step(rig.now, input, &mut out).unwrap();
        rig.controller.step(rig.now, Input::Tick, &mut out).unwrap();
        out
    };
    let (job, flow) = (|| String::from("job"), || String::from("1"));
    let begin = || Declaration::FlowRequest {
        job: job(),
        flow: flow(),
        connection: connection(0, 2, 1),
        processes: Processes::default(),
        bytes: None,
    };
    let first = unanswered(begin());
    let ended = unanswered(Declaration::FlowComplete { job: job(), flow: flow() });
    let second = unanswered(begin());
    assert!([&first, &ended, &second].into_iter().all(|said| !said.is_empty()));
    for said in [first, ended] {
        rig.carry(said);
        assert_eq!(shown(&rig, 1).1, None);
    }
    rig.carry(second);
    stands(&rig, 1);
}

/// A session has room for 1024 open requests; all meters of a switch need one.
#[test]
fn more_meters_than_open_requests_are_confirmed() {
    let mut rig = rig();
    rig.unplug(0);
    (1..=1200).for_each(|number| flow(&mut rig, number));
    rig.plug(0);
    (1..=1200).for_each(|number| stands(&rig, number));
}

/// Somebody deletes a meter, and its entry with it: at the next renewal the switch refuses the entry,
/// which is told; at the one after that, both are there again.
#[test]
fn a_meter_that_vanishes_is_told_and_sent_anew() {
    let mut rig = rig();
    (1..=2).for_each(|number| flow(&mut rig, number));
    rig.pass(LEASE * 3);
    by_hand(&mut rig, [meter(MeterCommand::DELETE, FIRST)]);
    assert_eq!(leading(&rig), 1);
    let end = rig.now + LEASE / 3;
    while problem(&rig).is_none() {
        assert!(rig.now <= end, "no renewal has told it");
        rig.pass(LEASE / 30);
    }
    fails(&rig, 1, "the meter can't be, or is not there");
    stands(&rig, 2);
    rig.pass(LEASE / 3);
    (1..=2).for_each(|number| stands(&rig, number));
    assert_eq!((problem(&rig), leading(&rig)), (None, 2));
}

/// Somebody deletes the entry that leads to a meter: the next renewal adds it.
#[test]
fn an_entry_that_vanishes_is_added_anew() {
    let mut rig = rig();
    flow(&mut rig, 1);
    let command = FlowCommand::DELETE;
    let all = FlowMod { command, table: TableId::ALL, ..FlowMod::ADD };
    by_hand(&mut rig, [Message::FlowMod(all)]);
    assert_eq!(leading(&rig), 0);
    rig.pass(LEASE / 2);
    stands(&rig, 1);
    assert_eq!(leading(&rig), 1);
}

/// The first host has a second, shorter way in: its meter goes there, and is nowhere else.
#[test]
fn a_meter_moves_with_the_first_switch_of_its_path() {
    const SECOND_PORT: u32 = 9;
    let shape = Shape::racks(2);
    let mut config = metered(shape.config("fair", even(), true));
    let link = LinkId(u32::try_from(config.topology.links().len()).unwrap());
    config.topology.connect(NodeId(1), NodeId(2), spec(100), spec(100)).unwrap();
    let (port, interface) = (Some(SECOND_PORT), String::new());
    config.ports.push(PortConfig { link, port, interface });
    let mut rig = Rig::new(&shape, config, 1);
    (0..2).for_each(|switch| rig.connect(switch));
    rig.start("app", "job");
    rig.set_port(1, SECOND_PORT, false);
    flow(&mut rig, 1);
    for (is_up, by) in [(false, "s0"), (true, "s1"), (false, "s0")] {
        rig.set_port(1, SECOND_PORT, is_up);
        assert_eq!(shown(&rig, 1).3, format!("switch {by}, by a meter"));
        assert_eq!([0, 1].map(|at| leading_at(&rig, at)), [!is_up, is_up].map(usize::from));
    }
}

/// A switch that answers nothing has confirmed nothing, whatever was confirmed before.
#[test]
fn a_switch_that_does_not_answer_has_no_meters_enforced() {
    let mut rig = rig();
    (1..=2).for_each(|number| flow(&mut rig, number));
    // A request is given 10 s. Until then the rate before stands.
    let end = rig.now + SECOND * 11;
    let declaration = Declaration::FlowComplete { job: "job".into(), flow: "2".into() };
    let (application, declaration) = ("app", &declaration);
    let mut lost = Vec::new();
    let input = Input::Declared { application, declaration };
    rig.controller.step(rig.now, input, &mut lost).unwrap();
    while let Some(next) = rig.controller.deadline().filter(|next| *next <= end) {
        rig.now = next;
        rig.controller.step(next, Input::Tick, &mut lost).unwrap();
    }
    fails(&rig, 1, "it did not answer in time");
    // Answers to all that was lost are waited for.
    rig.pass(LEASE * 2);
    stands(&rig, 1);
}

/// One meter holds all connections that join a flow, and goes with the flow.
#[test]
fn a_flow_without_ports_has_one_meter_as_long_as_it_lasts() {
    let mut rig = rig();
    let agent = rig.agent("h0", &[0]);
    flow(&mut rig, 0);
    let report = |port| ConnectionReport {
        connection: connection(0, 2, port),
        delivered_bytes: Bytes::ZERO,
        unsent_bytes: Bytes::new(1_000),
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: Span::ZERO,
        processes: Vec::new(),
    };
    let connections = vec![report(1), report(2)];
    let report = Report::Connections { sampled_ns: rig.now, connections };
    rig.input(Input::Reported(agent, &report)).unwrap();
    assert_eq!(rig.why("app", "job", 0).flow.carriers.len(), 2);
    stands(&rig, 0);
    assert_eq!((leading(&rig), meters(rig.switch(0)).len(), rig.paced().len()), (1, 1, 0));
    complete(&mut rig, 0);
    assert_eq!((leading(&rig), meters(rig.switch(0)).len()), (0, 0));
}

/// Numbers of meters come again, each for one connection.
#[test]
fn every_connection_has_a_meter_of_its_own() {
    let mut rig = rig();
    (1..=4).for_each(|number| flow(&mut rig, number));
    for (ended, begun) in [([1, 2], [5, 6]), ([4, 5], [7, 8])] {
        ended.into_iter().for_each(|number| complete(&mut rig, number));
        begun.into_iter().for_each(|number| flow(&mut rig, number));
        assert_eq!(leading(&rig), 4);
        assert_eq!(meters(rig.switch(0)), [0, 1, 2, 3].map(|number| FIRST + number));
    }
}

#[test]
fn an_agent_paces_nothing_that_a_meter_holds() {
    let mut rig = rig();
    flow(&mut rig, 1);
    stands(&rig, 1);
    // It comes, and comes back.
    for _ in 0..2 {
        rig.agent("h0", &[0]);
        assert!(rig.paced().is_empty());
    }
    rig.reload(Change { policy: Some(("fair".into(), even())), ..Change::default() });
    rig.pass(Span::ZERO);
    stands(&rig, 1);
    assert!(rig.paced().is_empty());
}

/// Nothing reaches the switch any more: its entries end, after a shorter lease if it has heard of that.
#[test]
fn meters_of_a_silent_switch_are_over_with_their_lease() {
    for (change, lease) in [(None, LEASE), (Some(SECOND * 3), SECOND * 3)] {
        let mut rig = rig();
        flow(&mut rig, 1);
        let change = Change { lease: change, ..Change::default() };
        rig.controller.reconfigure(rig.now, change);
        rig.controller.decide(&mut Vec::new());
        rig.now += lease;
        stands(&rig, 1);
        rig.now += SECOND;
        let (_, enforced, failed, by) = shown(&rig, 1);
        assert_eq!((enforced, failed), (None, None));
        let seconds = (lease + SECOND).as_nanos() / SECOND.as_nanos();
        let silent =
            format!("nobody: switch s0 has confirmed nothing for {seconds} s: its entries");
        assert!(by.starts_with(&silent), "{by}");
    }
}
