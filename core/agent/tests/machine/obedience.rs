//! What an agent obeys, and for how long.

use crate::host::{
    CAP, Host, LEASE, PORT, RATE, THRESHOLDS, class, connection, machine, pace, port, prepare,
    queue, s, space, watch, window,
};
use agent::{
    Actuator, Agent, Capacity, Kernel, Lapse, Leases, Operation, Port, PortNumber, Renewal, Stale,
};
use model::{Cap, Caps, PortWatch, Severity, Thresholds};
use proptest::prelude::*;
use protocol::Connection;
use protocol::agent::{Capability, Command, MOST_EPOCH, MOST_GAP, MOST_LEASE, Report};
use units::{Bytes, Rate, Span, Time};

#[test]
fn an_epoch_that_is_over_is_refused() {
    let mut host = Host::new();
    host.all(s(0), 5, vec![pace(1, Some(RATE))]);
    let answer = host.all(s(1), 4, vec![]);
    assert_eq!(answer, [Report::Stale { epoch: 4, obeys: 5 }]);
    assert_eq!(host.paced(s(1)), [1]);
    assert_eq!(host.paced(s(3)), [0; 0], "and renewed nothing");
}

#[test]
fn what_no_controller_says_is_not_obeyed() {
    let mut host = Host::new();
    host.all(s(0), MOST_EPOCH, vec![pace(1, Some(RATE))]);
    let beyond = MOST_EPOCH + 1;
    assert_eq!(host.told(s(1), beyond, true, vec![]), Err(Lapse::Epoch(beyond)));
    host.lease = MOST_LEASE + Span::from_nanos(1);
    let long = host.lease;
    assert_eq!(host.told(s(1), MOST_EPOCH, true, vec![]), Err(Lapse::Lease(long)));
    assert_eq!(host.paced(s(1)), [1]);
    assert_eq!(host.paced(s(3)), [0; 0], "nothing was renewed");
}

#[test]
fn after_a_lapse_everything_has_to_be_said_anew() {
    let mut host = Host::new();
    assert_eq!(host.told(s(0), 1, false, vec![]), Err(Lapse::Ended), "before anything stands");
    host.all(s(0), 1, vec![pace(1, Some(RATE))]);
    assert_eq!(host.told(s(2), 1, false, vec![pace(2, Some(RATE))]), Ok(vec![host_applied(3)]));
    assert_eq!(host.paced(s(4)), [1, 2], "all was renewed");
    assert_eq!(host.told(s(5), 1, false, vec![pace(3, Some(RATE))]), Err(Lapse::Ended));
    assert_eq!(host.paced(s(5)), [0; 0]);
    host.all(s(6), 1, vec![pace(3, Some(RATE))]);
    assert_eq!(host.paced(s(6)), [3], "what lapsed doesn't come back");
    assert_eq!(
        host.told(s(6), 2, false, vec![]),
        Err(Lapse::Ended),
        "a controller that said nothing yet"
    );
}

fn host_applied(sequence: u64) -> Report {
    Report::Applied { epoch: 1, sequence }
}

#[test]
fn complete_ends_what_its_epoch_granted_and_no_more() {
    let mut host = Host::new();
    let all = |sources: [u16; 2]| -> Vec<Command> {
        let paced = sources.map(|source| pace(source, Some(RATE)));
        let capped = sources.map(|source| window(source, Some(CAP)));
        let classed = sources.map(|source| class(source, 9));
        [paced, capped, classed].concat()
    };
    let stand = |host: &Host, now, source| {
        let connection = connection(source);
        let cap = host.kernel.cap(now, PORT, Severity::Recovered, &connection);
        let class = host.kernel.class(now, PORT, &connection);
        assert_eq!(cap.is_some(), class.is_some());
        assert!(class.is_none_or(|class| class == 2), "the last class takes the rest");
        assert_eq!(cap.is_some(), host.kernel.limit(now, &connection).is_some());
        cap.is_some()
    };
    host.all(s(0), 1, all([1, 2]));
    host.all(s(1), 2, all([2, 3]));
    assert_eq!([1, 2, 3].map(|source| stand(&host, s(2), source)), [true; 3], "1 has its lease");
    assert_eq!([1, 2, 3].map(|source| stand(&host, s(3), source)), [false, true, true]);
    host.all(s(3), 2, all([3, 4]));
    assert_eq!([1, 2, 3, 4].map(|source| stand(&host, s(4), source)), [false, false, true, true]);
    host.all(s(4), 2, vec![]);
    assert_eq!([3, 4].map(|source| stand(&host, s(4), source)), [false; 2]);
}

#[test]
fn whatever_is_said_renews_the_lease() {
    let mut host = Host::new();
    host.all(s(0), 1, vec![pace(1, Some(RATE))]);
    for second in [2, 4, 6] {
        assert_eq!(host.told(s(second), 1, false, vec![]), Ok(vec![host.applied(1)]));
        assert_eq!(host.agent.deadline(), Some(s(second) + LEASE), "in the agent");
        assert_eq!(host.kernel.leases().end(1), s(second) + LEASE, "in its kernel");
    }
}

/// Of all connections of a port together, until the lease ends or complete commands don't name it.
#[test]
fn spacing_ends_with_its_lease_and_is_bounded() {
    let mut host = Host::new();
    let gap = Some(Span::from_micros(120));
    assert_eq!(host.all(s(0), 1, vec![space(gap)]), [host_applied(1)]);
    assert_eq!([s(2), s(3)].map(|at| host.kernel.gap(at, PORT)), [gap, None]);
    // Others don't end it, and it is renewed with all else.
    host.told(s(2), 1, false, vec![pace(1, Some(RATE))]).unwrap();
    assert_eq!([s(4), s(5)].map(|at| host.kernel.gap(at, PORT)), [gap, None]);
    for wrong in [Span::ZERO, MOST_GAP + Span::from_nanos(1)] {
        let reports = host.told(s(3), 1, false, vec![space(Some(wrong))]).unwrap();
        assert!(matches!(&reports[0], Report::Failed { reason, .. } if reason.contains("held")));
        assert_eq!(host.kernel.gap(s(3), PORT), gap, "what stood stands");
    }
    host.told(s(3), 1, false, vec![space(Some(MOST_GAP))]).unwrap();
    assert_eq!(host.kernel.gap(s(3), PORT), Some(MOST_GAP));
    host.told(s(3), 1, false, vec![space(None)]).unwrap();
    assert_eq!(host.kernel.gap(s(3), PORT), None);
    host.all(s(3), 1, vec![space(gap)]);
    host.all(s(4), 1, vec![]);
    assert_eq!(host.kernel.gap(s(4), PORT), None, "complete commands don't name it");
}

#[test]
fn what_has_ended_makes_room_and_is_forgotten() {
    let all = |sources: std::ops::RangeInclusive<u16>| -> Vec<Command> {
        let each = |source| [pace(source, Some(RATE)), window(source, Some(CAP)), class(source, 1)];
        sources.flat_map(each).collect()
    };
    // The epoch's lease ends while another stands; or nothing does, and the same epoch begins again; or
    // the next epoch takes its place.
    for (next, at, ticks) in [(2, s(3), true), (1, s(3), true), (1, s(3), false), (9, s(1), false)]
    {
        let mut host = Host::new();
        host.all(s(0), 1, all(1..=4));
        if next == 2 {
            host.all(s(1), 2, vec![]);
        }
        assert_eq!(host.kernel.granted().count(), 4);
        host.operations.clear();
        if ticks {
            assert_eq!(host.agent.deadline(), Some(at));
            assert_eq!(host.tick(at), []);
            assert_eq!(host.operations, [Operation::Sweep]);
            assert_eq!(host.kernel.granted().count(), 0, "swept out");
        }
        host.operations.clear();
        let gone = vec![pace(1, None), window(1, None), class(1, 0)];
        let answer = host.all(at, next, [gone, all(5..=8)].concat());
        assert_eq!(answer, [host.applied(next)], "there is room");
        assert_eq!(host.operations.len(), 13, "and nothing to end: {:?}", host.operations);
    }
}

/// What a kernel held under a lease that ended doesn't come back with the next lease of the epoch.
#[test]
fn a_lease_that_begins_again_begins_with_nothing() {
    let (mut kernel, only) =
        (Kernel::new(1, Capacity { limits: 4, connections: 4, ended: 2_000 }), connection(1));
    let renew = Operation::Renew { epoch: 1, lease: LEASE };
    let granted = [
        renew,
        Operation::Pace { connection: only, rate: Some(RATE) },
        Operation::Cap { port: PORT, connection: Some(only), caps: Some(CAP.into()) },
        Operation::Classify { port: PORT, connection: only, class: Some(1) },
    ];
    granted.iter().for_each(|operation| kernel.execute(s(0), operation).unwrap());
    let stands = |kernel: &Kernel, now| {
        let (cap, class) =
            (kernel.cap(now, PORT, Severity::High, &only), kernel.class(now, PORT, &only));
        [kernel.limit(now, &only).is_some(), cap.is_some(), class.is_some()]
    };
    assert_eq!([s(0), s(3)].map(|now| stands(&kernel, now)), [[true; 3], [false; 3]]);
    kernel.execute(s(4), &renew).unwrap();
    assert_eq!(stands(&kernel, s(4)), [false; 3]);
    assert_eq!(kernel.granted().count(), 0);
}

#[test]
fn the_cap_of_a_connection_goes_before_that_of_its_port() {
    let mut host = Host::new();
    let wide = Cap { bytes: Bytes::new(9_000), ..CAP };
    let (node, interface) = ("s1".into(), "eth0".into());
    let all = Command::Window { node, interface, connection: None, cap: Some(wide) };
    host.all(s(0), 1, vec![all, window(1, Some(CAP))]);
    let caps =
        |host: &Host| [1, 2].map(|of| host.kernel.cap(s(0), PORT, Severity::Low, &connection(of)));
    assert_eq!(caps(&host), [Some(CAP), Some(wide)]);
    host.told(s(0), 1, false, vec![window(1, None)]).unwrap();
    assert_eq!(caps(&host), [Some(wide); 2]);
}

/// A port changes between prepared caps by itself; what is told takes their place, and lasts as long.
#[test]
fn prepared_caps_go_by_severity_and_end_with_the_lease() {
    let mut host = Host::new();
    let wide = Cap { bytes: Bytes::new(9_000), ..CAP };
    let caps = Caps { medium: Some(wide), high: Some(CAP), ..Caps::default() };
    host.all(s(0), 1, vec![prepare(None, caps), prepare(Some(connection(1)), Caps::default())]);
    let stand = |host: &Host, now, of| {
        Severity::ALL.map(|severity| host.kernel.cap(now, PORT, severity, &connection(of)))
    };
    let prepared = [None, None, Some(wide), Some(CAP)];
    assert_eq!(stand(&host, s(2), 2), prepared);
    assert_eq!(
        stand(&host, s(2), 1),
        [None; 4],
        "its own go before those of all, also where they are none"
    );
    host.told(s(2), 1, false, vec![window(1, Some(CAP))]).unwrap();
    assert_eq!(stand(&host, s(4), 1), [Some(CAP); 4], "in their place, and all are renewed");
    assert_eq!(stand(&host, s(4), 2), prepared);
    assert_eq!(stand(&host, s(5), 2), [None; 4], "the lease is over");
    host.told(s(4), 1, false, vec![window(1, None)]).unwrap();
    assert_eq!(stand(&host, s(4), 1), prepared, "those of all");
    // What complete commands don't name ends.
    host.all(s(4), 1, vec![]);
    assert_eq!(stand(&host, s(4), 2), [None; 4]);
}

#[test]
fn whichever_command_fails_it_is_reported() {
    let mut host = Host::new();
    host.fails = Some(|operation| !matches!(operation, Operation::Renew { .. }));
    let commands = [
        pace(1, Some(RATE)),
        class(1, 1),
        window(1, Some(CAP)),
        prepare(None, CAP.into()),
        space(Some(MOST_GAP)),
        watch(Some(PortWatch::default())),
    ];
    let answer = host.all(s(0), 1, commands.to_vec());
    let failed = commands.map(|command| Report::Failed {
        epoch: 1,
        sequence: 1,
        command,
        reason: "no".into(),
    });
    assert_eq!(answer, [&failed[..], &[host.applied(1)]].concat());
    host.operations.clear();
    host.all(s(1), 1, vec![]);
    assert_eq!(host.operations.len(), 1, "nothing stands that had to end");
}

#[test]
fn what_fails_is_reported_and_the_rest_is_done() {
    let mut host = Host::new();
    let unknown = Connection { source: ([10, 0, 0, 1], 0).into(), ..connection(1) };
    let unlocated = Command::Prioritize { connection: unknown, priority: 1 };
    let (node, interface) = ("s1".into(), "eth0".into());
    let unheard = Command::Window { node, interface, connection: Some(unknown), cap: Some(CAP) };
    let unknown = Command::Pace { connection: unknown, rate_bps: Some(RATE) };
    let (node, interface) = ("s1".into(), "eth7".into());
    let nowhere = Command::Window { node, interface, connection: None, cap: Some(CAP) };
    let falling = queue(Thresholds { low: 60, ..THRESHOLDS });
    let deep = queue(Thresholds { high: Thresholds::MOST_LIVE + 1, ..THRESHOLDS });
    let full = pace(5, Some(RATE));
    let at_once = queue(Thresholds { recovery: Span::ZERO, ..THRESHOLDS });
    let [still, fast] = [7, 40_000_000_000].map(|bps| pace(1, Some(Rate::from_bps(bps))));
    let refused = [unknown, unlocated, unheard, nowhere, falling, deep, at_once, still, fast];
    let commands: Vec<_> = refused
        .iter()
        .cloned()
        .chain((1..=4).map(|source| pace(source, Some(RATE))))
        .chain([full.clone()])
        .collect();
    let answer = host.all(s(0), 1, commands);
    let failed: Vec<_> = answer
        .iter()
        .filter_map(|report| match report {
            Report::Failed { command, reason, .. } => Some((command.clone(), reason.as_str())),
            _ => None,
        })
        .collect();
    let commands: Vec<_> = failed.iter().map(|(command, _)| command.clone()).collect();
    assert_eq!(commands, [&refused[..], &[full]].concat());
    let parts = ["port", "port", "port", "eth7", "rise", "rise", "rise", "held", "held", "full"];
    for ((_, reason), part) in failed.iter().zip(parts) {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(answer.last(), Some(&host.applied(1)));
    assert_eq!(host.paced(s(0)), [1, 2, 3, 4]);
    // A full map takes another rate of a connection that it holds.
    let other = vec![pace(1, Some(Rate::from_mbps(6)))];
    assert_eq!(host.told(s(0), 1, false, other), Ok(vec![host.applied(1)]));
    // What doesn't stand needs no ending.
    let gone = [pace(9, None), window(9, None), watch(None)];
    assert_eq!(host.all(s(1), 1, gone.to_vec()), [host.applied(1)]);
}

#[test]
fn a_priority_that_one_of_two_ports_refuses_is_reported() {
    let mut host = Host::new();
    host.agent = Agent::new(vec![port("eth0"), port("eth1")], true);
    host.kernel = Kernel::new(2, Capacity { limits: 4, connections: 4, ended: 2_000 });
    host.fails = Some(|operation| matches!(operation, Operation::Classify { port: PORT, .. }));
    let answer = host.all(s(0), 1, vec![class(1, 2)]);
    assert!(matches!(&answer[0], Report::Failed { command, .. } if *command == class(1, 2)));
    assert_eq!(host.kernel.class(s(0), PortNumber(1), &connection(1)), Some(2), "the other");
}

#[test]
fn a_port_is_found_by_its_node_and_its_interface() {
    let mut host = Host::new();
    let of = |node: &str| Port { node: node.into(), ..port("eth0") };
    host.agent = Agent::new(vec![of("s1"), of("s2")], true);
    host.kernel = Kernel::new(2, Capacity { limits: 4, connections: 4, ended: 2_000 });
    let told = |node: &str| {
        let (node, interface) = (node.to_owned(), "eth0".to_owned());
        Command::Window { node, interface, connection: None, cap: Some(CAP) }
    };
    assert_eq!(host.all(s(0), 1, vec![told("s2")]), [host.applied(1)]);
    let caps =
        [0, 1].map(|port| host.kernel.cap(s(0), PortNumber(port), Severity::Low, &connection(1)));
    assert_eq!(caps, [None, Some(CAP)]);
    let answer = host.told(s(0), 1, false, vec![told("s3")]).unwrap();
    assert!(
        matches!(&answer[0], Report::Failed { reason, .. } if reason.contains("eth0 of s3")),
        "{answer:?}"
    );
}

/// A port may have classes alone: nothing is watched or capped there.
#[test]
fn a_port_that_is_no_switch_has_no_queue_to_act_at() {
    let mut host = Host::new();
    host.agent = Agent::new(vec![Port { watchable: false, ..port("eth0") }], true);
    let commands = [window(1, Some(CAP)), watch(Some(PortWatch::default()))];
    let answer = host.all(s(0), 1, commands.to_vec());
    let failed = commands.map(|command| Report::Failed {
        epoch: 1,
        sequence: 1,
        command,
        reason: "no interface eth0 of s1 is configured here".into(),
    });
    assert_eq!(answer, [&failed[..], &[host.applied(1)]].concat());
    assert!(matches!(host.operations[..], [Operation::Renew { .. }]), "{:?}", host.operations);
    let priorities = vec![Capability::Pacing, Capability::Statistics, Capability::Priorities];
    assert_eq!(host.agent.capabilities(), priorities);
    assert_eq!(host.told(s(0), 1, false, vec![class(1, 1)]), Ok(vec![host_applied(2)]));
}

/// What no kernel can do is refused by the machine, whatever executes its operations.
#[test]
fn an_actuator_is_asked_for_nothing_impossible() {
    let mut host = Host::new();
    let other_family = Connection { source: "[fd00::1]:1".parse().unwrap(), ..connection(1) };
    host.all(
        s(0),
        1,
        vec![
            Command::Pace { connection: other_family, rate_bps: Some(RATE) },
            pace(1, Some(Rate::ZERO)),
            queue(Thresholds { low: 0, ..THRESHOLDS }),
        ],
    );
    assert!(matches!(host.operations[..], [Operation::Renew { .. }]), "{:?}", host.operations);
}

#[test]
fn what_cant_be_ended_is_reported_too() {
    let mut host = Host::new();
    host.all(s(0), 1, vec![pace(1, Some(RATE)), pace(2, Some(RATE))]);
    host.fails = Some(|operation| matches!(operation, Operation::Pace { rate: None, .. }));
    let answer = host.all(s(1), 1, vec![pace(2, Some(RATE))]);
    assert!(matches!(&answer[0], Report::Failed { command, .. } if *command == pace(1, None)));
    host.fails = None;
    host.all(s(2), 1, vec![]);
    assert_eq!(host.paced(s(2)), [0; 0], "tried again");
    // All else, too.
    let watching = watch(Some(PortWatch::default()));
    let prepared = prepare(None, CAP.into());
    let spaced = space(Some(MOST_GAP));
    host.all(s(2), 1, vec![window(1, Some(CAP)), prepared, class(1, 1), spaced, watching]);
    host.fails = Some(|operation| !matches!(operation, Operation::Renew { .. }));
    for _ in 0..2 {
        let answer = host.all(s(2), 1, vec![]);
        let (node, interface) = ("s1".into(), "eth0".into());
        let of_all = Command::Window { node, interface, connection: None, cap: None };
        let ends = [of_all, window(1, None), class(1, 0), space(None), watch(None)];
        let failed = ends.map(|command| Report::Failed {
            epoch: 1,
            sequence: host.sequence,
            command,
            reason: "no".into(),
        });
        assert_eq!(answer, [&failed[..], &[host.applied(1)]].concat());
    }
    host.fails = None;
    assert_eq!(host.all(s(2), 1, vec![]), [host.applied(1)]);
    let (kernel, only) = (&host.kernel, connection(1));
    let (cap, class) =
        (kernel.cap(s(2), PORT, Severity::Recovered, &only), kernel.class(s(2), PORT, &only));
    let (gap, watch) = (kernel.gap(s(2), PORT), kernel.watch(PORT));
    assert_eq!((cap, class, gap, watch), (None, None, None, None));
    // Without a lease nothing is granted and nothing confirmed.
    host.fails = Some(|operation| matches!(operation, Operation::Renew { .. }));
    for complete in [false, true] {
        let answer = host.told(s(2), 1, complete, vec![pace(1, Some(RATE))]);
        assert_eq!(answer, Err(Lapse::NotRenewed("no".into())));
    }
    assert_eq!(host.paced(s(2)), [0; 0]);
}

#[test]
fn an_agent_goes_on_from_what_another_left() {
    let mut host = Host::new();
    host.all(s(0), 7, vec![pace(1, Some(RATE)), pace(2, Some(RATE)), window(1, Some(CAP))]);
    host.kernel.abandon();
    host.agent = machine().after(host.kernel.leases().clone(), host.kernel.granted());
    assert_eq!(host.paced(s(1)), [1, 2]);
    assert_eq!(host.kernel.cap(s(1), PORT, Severity::Recovered, &connection(1)), None);
    assert_eq!(host.agent.epoch(), 7);
    assert!(matches!(host.agent.hello(vec![]), Report::Hello { epoch: 7, .. }));
    assert_eq!(host.told(s(1), 7, false, vec![]), Err(Lapse::Ended));
    host.all(s(1), 7, vec![pace(2, Some(RATE))]);
    assert_eq!(host.paced(s(1)), [2]);
}

/// Whether something was to be taken away, while the epoch had no lease.
fn renew(leases: &mut Leases, now: Time, epoch: u64, span: Span) -> Result<bool, Stale> {
    let mut removed = false;
    for step in leases.renewal(now, epoch, span)? {
        match step {
            Renewal::End(end) => leases.set(epoch, end),
            Renewal::Remove => removed = !leases.holds(epoch, now),
        }
    }
    Ok(removed)
}

proptest! {
    /// Leases against a naive list of grants: an epoch's grants end together, the last of two epochs
    /// with one place ends the other, and what has ended doesn't come back.
    #[test]
    fn leases_hold_as_long_as_they_were_renewed(
        steps in prop::collection::vec((0..5_u64, 0..2_u64, 0..8_u64), 1..100),
    ) {
        let mut leases = Leases::default();
        let mut naive: Vec<(u64, u64)> = Vec::new();
        let (mut now, mut epoch) = (0, 1);
        for (wait, more, span) in steps {
            (now, epoch) = (now + wait, epoch + more * 4);
            let removed = renew(&mut leases, s(now), epoch, Span::from_secs(span)).unwrap();
            let stood = naive.iter().any(|(of, end)| *of == epoch && now < *end);
            prop_assert_eq!(removed, !stood);
            naive.retain(|(of, _)| of % 8 != epoch % 8);
            naive.push((epoch, now + span));
            for of in 0..=epoch {
                let holds = naive.iter().any(|(each, end)| *each == of && now < *end);
                prop_assert_eq!(leases.holds(of, s(now)), holds);
            }
            let older = renew(&mut leases, s(now), epoch - 1, LEASE);
            prop_assert_eq!(older.is_err(), epoch > 0);
        }
    }
}
