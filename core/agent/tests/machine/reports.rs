//! What an agent reports, and when.

use crate::host::{Host, LEASE, PORT, SECOND, connection, port, s, watch};
use agent::{Agent, Capacity, Happening, Kernel, Operation, Port, PortNumber};
use model::{PortWatch, Severity};
use protocol::Process;
use protocol::agent::{Capability, Command, EndedConnection, MOST_IDENTIFIED, PortCount, Report};
use units::{Bytes, Span, Time};

#[test]
fn it_tells_of_watched_ports_and_samples_while_somebody_listens() {
    let mut host = Host::new();
    let mut reports = Vec::new();
    let congested = Happening::Congested { severity: Severity::High, queue: Bytes::new(9) };
    host.agent.hear(PORT, &congested, &mut reports);
    assert_eq!(reports, [], "not watched");
    let every = Span::from_millis(500);
    let sample = Command::Sample { every_ns: every };
    host.all(s(0), 1, vec![watch(Some(PortWatch::default())), sample]);
    assert_eq!(host.kernel.watch(PORT), Some(PortWatch::default()));
    host.agent.hear(PORT, &congested, &mut reports);
    host.agent.hear(PortNumber(9), &congested, &mut reports);
    let (node, interface) = ("s1".into(), "eth0".into());
    let (severity, queue_bytes) = (Severity::High, Bytes::new(9));
    assert_eq!(reports, [Report::Congested { node, interface, severity, queue_bytes }]);
    reports.clear();
    host.agent.hear(PORT, &Happening::Opened(connection(1)), &mut reports);
    host.agent.hear(PORT, &Happening::Closed(connection(2)), &mut reports);
    let (opened, closed) = (connection(1), connection(2));
    let said = [Report::Opened { connection: opened }, Report::Closed { connection: closed }];
    assert_eq!(reports, said);
    let due = host.agent.deadline().unwrap();
    assert_eq!(due, Time::ZERO, "the first at once");
    let reports = host.tick(due);
    let sizes = reports.iter().map(|report| match report {
        Report::Connections { sampled_ns, connections } => {
            assert_eq!(*sampled_ns, due);
            connections.len()
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [1_000, 1_000, 500]);
    assert_eq!(host.agent.deadline(), Some(due + every));
    host.agent.disconnected();
    assert_eq!(host.agent.deadline(), Some(s(3)), "the lease");
    assert_eq!(host.tick(s(3)), []);
    assert_eq!(host.agent.deadline(), None);
    host.all(s(4), 1, vec![]);
    assert_eq!(host.kernel.watch(PORT), None);
    let all = host.agent.capabilities();
    assert_eq!(all, Capability::ALL);
}

#[test]
fn nobody_is_looked_for_when_the_controller_is_gone() {
    let mut host = Host::new();
    let processes = vec![Process::Pid(7)];
    host.all(s(0), 1, vec![Command::Identify { processes: processes.clone() }]);
    assert_eq!(host.agent.identified(), processes);
    host.agent.disconnected();
    assert_eq!(host.agent.identified(), []);
}

#[test]
fn complete_ends_samples_and_the_search_that_it_does_not_ask_for() {
    let mut host = Host::new();
    let every = Span::from_millis(500);
    let sample = Command::Sample { every_ns: every };
    let identify = Command::Identify { processes: vec![Process::Pid(7)] };
    let both = |host: &Host| {
        let samples = host.agent.deadline() == Some(Time::ZERO);
        (samples, host.agent.identified() == [Process::Pid(7)])
    };
    for (kept, stands) in [
        (vec![sample.clone()], (true, false)),
        (vec![identify.clone()], (false, true)),
        (vec![], (false, false)),
    ] {
        host.all(s(0), 1, vec![sample.clone(), identify.clone()]);
        host.told(s(0), 1, false, vec![]).unwrap();
        assert_eq!(both(&host), (true, true), "what is said besides leaves them");
        host.all(s(0), 1, kept.clone());
        assert_eq!(both(&host), stands, "{kept:?}");
    }
}

#[test]
fn no_more_processes_are_looked_for_than_a_command_may_name() {
    let mut host = Host::new();
    let identify = |many: usize| {
        let processes: Vec<_> = (1..).take(many).map(Process::Pid).collect();
        Command::Identify { processes }
    };
    let answer = host.all(s(0), 1, vec![identify(MOST_IDENTIFIED)]);
    assert_eq!(answer, [host.applied(1)]);
    let answer = host.told(s(0), 1, false, vec![identify(MOST_IDENTIFIED + 1)]).unwrap();
    assert!(
        matches!(&answer[0], Report::Failed { reason, .. } if reason.contains("no more than 256")),
        "{answer:?}"
    );
    assert_eq!(host.agent.identified().len(), MOST_IDENTIFIED, "those before");
}

#[test]
fn a_late_sample_is_one_and_the_next_has_its_time() {
    let mut host = Host::new();
    let every = Span::from_millis(500);
    host.all(s(0), 1, vec![Command::Sample { every_ns: every }]);
    assert_eq!(host.tick(s(2)).len(), 3, "one, of three parts");
    assert_eq!(host.agent.deadline(), Some(s(2) + every));
    assert_eq!(host.tick(s(2) + Span::from_millis(499)), []);
    assert_eq!(host.tick(s(2) + every).len(), 3);
}

/// Else whoever samples as fast as it can would hear no controller.
#[test]
fn between_samples_there_is_time_for_the_controller() {
    let mut host = Host::new();
    for every in [Command::Sample { every_ns: SECOND }, Command::Count { every_ns: SECOND }] {
        for (takes, rest) in [(400, 1_000), (3_000, 3_000)] {
            let (began, takes) = (s(10), Span::from_millis(takes));
            host.agent.disconnected();
            (host.takes, host.lease) = (takes, SECOND * 60);
            host.all(began, 1, vec![every.clone()]);
            assert!(!host.tick(began).is_empty());
            // What counters are read after takes its time as well.
            let done = began + takes * if matches!(every, Command::Count { .. }) { 2 } else { 1 };
            assert_eq!(host.agent.deadline(), Some(done + Span::from_millis(rest)), "{every:?}");
        }
    }
}

/// Without it a controller would take what goes on for what begins.
#[test]
fn whoever_begins_to_want_samples_has_the_first_at_once() {
    let mut host = Host::new();
    let sample = || vec![Command::Sample { every_ns: Span::from_secs(1) }];
    let at = |ms| s(2) + Span::from_millis(ms);
    host.all(at(0), 1, sample());
    assert_eq!(host.tick(at(0)).len(), 3);
    host.all(at(100), 1, sample());
    assert_eq!(host.tick(at(100)).len(), 0, "it was wanted already");
    host.agent.disconnected();
    host.all(at(200), 2, sample());
    assert_eq!(host.tick(at(200)).len(), 3, "over another connection");
    host.all(at(300), 2, vec![]);
    host.all(at(400), 2, sample());
    assert_eq!(host.tick(at(400)).len(), 3, "nobody wanted any");
}

/// That nothing is open any more is said: else nobody would know that what was open is gone.
#[test]
fn an_empty_sample_is_told() {
    let mut host = Host::new();
    host.all(s(0), 1, vec![Command::Sample { every_ns: Span::from_secs(1) }]);
    host.open = Some(0);
    let none = Report::Connections { sampled_ns: s(1), connections: vec![] };
    assert_eq!(host.tick(s(1)), [none]);
}

/// That nothing was seen is not said of a kernel that tells nothing.
#[test]
fn a_sample_that_fails_is_told_and_tried_again() {
    let mut host = Host::new();
    host.all(s(0), 1, vec![Command::Sample { every_ns: Span::from_secs(1) }]);
    host.open = None;
    let failed = || Err("no sample".to_owned());
    let told = |reports: &[Report], number| {
        let every = Command::Sample { every_ns: Span::from_secs(1) };
        matches!(&reports[0], Report::Failed { epoch: 1, sequence, command, reason }
            if (*sequence, command) == (number, &every) && reason == "no sample")
    };
    let (reports, done) = host.try_tick(s(1));
    assert!(told(&reports, 1) && reports.len() == 1 && done == failed(), "{reports:?}");
    assert_eq!(host.agent.deadline(), Some(s(2)));
    assert_eq!(host.try_tick(s(2)), (vec![], failed()), "once is enough");
    // Whoever asks for it again hears that it still fails, and then that it doesn't.
    let again = || vec![Command::Sample { every_ns: Span::from_secs(1) }];
    assert!(told(&host.told(s(2), 1, false, again()).unwrap(), 2));
    host.open = Some(2_500);
    assert_eq!(host.try_tick(s(3)).1, Ok(()));
    let answer = host.told(s(3), 1, false, again()).unwrap();
    assert!(matches!(answer[..], [Report::Applied { .. }]), "{answer:?}");
    // What can't be swept out doesn't keep connections from being sampled.
    host.open = Some(2_500);
    host.fails = Some(|operation| matches!(operation, Operation::Sweep));
    let (reports, done) = host.try_tick(s(100));
    assert_eq!((reports.len(), done), (3, Err("no".to_owned())), "the lease is over");
}

/// The controller goes on above the highest epoch that an agent obeyed.
#[test]
fn a_hello_names_whom_it_acts_for_what_it_can_and_whom_it_obeyed() {
    let mut host = Host::new();
    let hosts = vec![protocol::agent::Host { name: "h1".into(), addresses: vec![] }];
    let hello = |host: &Host| host.agent.hello(hosts.clone());
    let of = |epoch| {
        let capabilities = Capability::ALL.to_vec();
        Report::Hello { hosts: hosts.clone(), capabilities, epoch }
    };
    assert_eq!(hello(&host), of(0), "nobody");
    host.all(s(0), 5, vec![]);
    host.all(s(1), 4, vec![]);
    host.agent.disconnected();
    assert_eq!(hello(&host), of(5));
    host.agent = Agent::new(vec![Port { watchable: false, classes: 0, ..port("eth0") }], false);
    assert_eq!(host.agent.capabilities(), [Capability::Pacing], "no samples, no queue, no classes");
}

#[test]
fn samples_come_no_faster_than_each_millisecond_and_ports_are_watched_no_longer_than_told() {
    let mut host = Host::new();
    let sample = Command::Sample { every_ns: Span::from_nanos(1) };
    host.all(s(0), 1, vec![sample, watch(Some(PortWatch::default()))]);
    host.tick(s(0));
    assert_eq!(host.agent.deadline(), Some(Time::ZERO + Span::from_millis(1)));
    host.told(s(0), 1, false, vec![watch(None)]).unwrap();
    let mut reports = Vec::new();
    host.agent.hear(PORT, &Happening::Opened(connection(1)), &mut reports);
    assert_eq!((host.kernel.watch(PORT), reports), (None, vec![]));
}

/// What ended is told with the next sample, before it, in parts; and what there was no room for by its number.
#[test]
fn what_has_ended_is_told_before_the_sample_and_not_in_it() {
    let mut host = Host::new();
    let group = |name: &str| Process::Cgroup(name.into());
    let end = |host: &mut Host, source: u16, bytes| {
        host.kernel.end(connection(source), Bytes::new(bytes), group("/a"));
    };
    let told = |ports: std::ops::Range<u16>, lost, processes: &[Process]| Report::Ended {
        sampled_ns: s(1),
        connections: ports
            .map(|source| EndedConnection {
                connection: connection(source),
                sent_bytes: Bytes::new(u64::from(source) + 1),
                processes: processes.to_vec(),
            })
            .collect(),
        lost,
    };
    host.open = Some(2);
    let wishes = || {
        vec![
            Command::Sample { every_ns: Span::from_secs(1) },
            Command::Identify { processes: vec![group("/a"), group("/b")] },
        ]
    };
    host.all(s(0), 1, wishes());
    end(&mut host, 7, 1);
    let sampled = |report: &Report| match report {
        Report::Connections { connections, .. } => connections.len(),
        other => panic!("{other:?}"),
    };
    let first = host.tick(s(0));
    assert_eq!(first.len(), 1, "what ended before the first sample nobody has to know");
    assert_eq!(sampled(&first[0]), 2);
    // One of those that end is in the sample still; two more than fit; one that sent nothing.
    for source in 1..=2_002 {
        end(&mut host, source, u64::from(source) + 1);
    }
    end(&mut host, 3_000, 0);
    let reports = host.tick(s(1));
    let parts = [told(1..1_001, 2, &[group("/a")]), told(1_001..2_001, 0, &[group("/a")])];
    assert_eq!(reports[..2], parts);
    let another = "connection 1 is another one between the same ends";
    assert_eq!((reports.len(), sampled(&reports[2])), (3, 2), "{another}");
    assert_eq!(host.tick(s(2)).len(), 1, "it is told once");
    // What ends between the sample and the look for what ended is in it once more.
    host.ends = Some(1);
    let reports = host.tick(s(3));
    assert_eq!((reports.len(), sampled(&reports[1])), (2, 1), "connection 1 has ended");
    // The same ends may have been used again.
    [7, 8].into_iter().for_each(|bytes| end(&mut host, 3, bytes));
    let Report::Ended { connections, .. } = &parts[0] else { panic!() };
    let again = EndedConnection { sent_bytes: Bytes::new(15), ..connections[2].clone() };
    let once = Report::Ended { sampled_ns: s(4), connections: vec![again], lost: 0 };
    assert_eq!(host.tick(s(4))[0], once);
    // A kernel without room tells how many there were; a failed sample keeps nothing back.
    host.kernel = Kernel::new(1, Capacity { limits: 4, connections: 4, ended: 0 });
    end(&mut host, 7, 1);
    host.open = None;
    let (reports, done) = host.try_tick(s(5));
    let none = Report::Ended { sampled_ns: s(5), connections: vec![], lost: 1 };
    assert_eq!((&reports[0], done), (&none, Err("no sample".into())));
    assert!(matches!(reports[1..], [Report::Failed { .. }]), "{reports:?}");
}

/// However long the paths of control groups are, each report is a line that a controller reads.
#[test]
fn no_report_is_longer_than_a_controller_reads() {
    let mut host = Host::new();
    host.kernel = Kernel::new(1, Capacity { limits: 4, connections: 4, ended: 2_000 });
    host.open = Some(0);
    let group = || Process::Cgroup(format!("/{}", "\"".repeat(1_023)));
    let wishes = || {
        let sample = Command::Sample { every_ns: Span::from_secs(1) };
        vec![sample, Command::Identify { processes: vec![group()] }]
    };
    host.all(s(0), 1, wishes());
    host.tick(s(0));
    for source in 1..=1_000 {
        host.kernel.end(connection(source), Bytes::new(1), group());
    }
    let reports = host.tick(s(1));
    let longest = reports.iter().map(|report| serde_json::to_vec(report).unwrap().len()).max();
    assert!(longest.is_some_and(|octets| octets < 1 << 20), "{longest:?}");
    let told = reports.iter().map(|report| match report {
        Report::Ended { connections, .. } => connections.len(),
        _ => 0,
    });
    assert_eq!(told.sum::<usize>(), 1_000);
}

/// One that ends in order has no sample any more.
#[test]
fn the_last_words_of_an_agent_tell_what_has_ended_since_the_last_sample() {
    let mut host = Host::new();
    host.open = Some(0);
    let finish = |host: &mut Host, source| {
        host.kernel.end(connection(source), Bytes::new(9), Process::Pid(1));
        let mut reports = Vec::new();
        host.agent.finish(s(1), &mut host.kernel, &mut reports).unwrap();
        reports
    };
    assert_eq!(finish(&mut host, 1), [], "nobody has asked");
    host.all(s(1), 1, vec![Command::Sample { every_ns: Span::from_secs(1) }]);
    host.tick(s(1));
    let [Report::Ended { connections, lost: 0, .. }] = &finish(&mut host, 2)[..] else { panic!() };
    assert_eq!(connections[0].connection, connection(2));
}

#[test]
fn it_counts_what_ports_sent_as_long_and_as_often_as_it_is_told() {
    let mut host = Host::new();
    let every = Span::from_millis(500);
    let count = Command::Count { every_ns: every };
    host.all(s(0), 1, vec![count.clone()]);
    let counter =
        PortCount { node: "s1".into(), interface: "eth0".into(), sent_bytes: Bytes::new(70) };
    assert_eq!(host.tick(s(0)), [Report::Ports { ports: vec![counter] }]);
    assert_eq!(host.agent.deadline(), Some(Time::ZERO + every));
    assert_eq!(host.tick(s(0)), [], "once");
    assert_eq!(host.tick(s(1)).len(), 1);
    host.told(s(1), 1, false, vec![]).unwrap();
    assert!(host.agent.deadline() < Some(s(2)), "what is said besides leaves it");
    host.all(s(1), 1, vec![]);
    assert_eq!(host.agent.deadline(), Some(s(1) + LEASE), "complete commands end it");
    host.all(s(1), 1, vec![count.clone()]);
    host.agent.disconnected();
    assert_eq!(host.tick(s(3)), [], "nobody listens");
    host.agent = Agent::new(vec![port("eth0")], false);
    let answers = host.told(s(3), 1, true, vec![count.clone()]).unwrap();
    assert!(matches!(&answers[0], Report::Failed { command, .. } if *command == count));
}

/// A port tells of a threshold as it is passed; a controller that starts after that must hear of it too.
#[test]
fn who_begins_to_watch_a_congested_port_is_told_once_after_the_connections() {
    let mut host = Host::new();
    let commands = || {
        let sample = Command::Sample { every_ns: Span::from_secs(1) };
        vec![watch(Some(PortWatch::default())), sample]
    };
    host.all(s(0), 1, commands());
    let hear = |host: &mut Host, severity| {
        let mut reports = Vec::new();
        let congested = Happening::Congested { severity, queue: Bytes::new(9) };
        host.agent.hear(PORT, &congested, &mut reports);
        reports
    };
    let told = hear(&mut host, Severity::Medium);
    host.agent.disconnected();
    assert_eq!(host.tick(s(1)), [], "nobody listens");
    host.all(s(1), 2, commands());
    assert_eq!(host.agent.deadline(), Some(Time::ZERO));
    let is_sample = |report: &Report| matches!(report, Report::Connections { .. });
    let reports = host.tick(s(1));
    let (last, before) = reports.split_last().unwrap();
    assert_eq!(last, &told[0]);
    assert!(!before.is_empty() && before.iter().all(is_sample));
    assert_eq!(host.tick(s(1)), [], "once");
    // It rose before it could be told.
    host.agent.disconnected();
    host.all(s(2), 3, commands());
    let told = hear(&mut host, Severity::High);
    assert_eq!(told.len(), 1);
    assert!(host.tick(s(2)).iter().all(is_sample));
    // It recovered while nobody listened.
    host.agent.disconnected();
    hear(&mut host, Severity::Recovered);
    host.all(s(4), 4, commands());
    assert!(host.tick(s(4)).iter().all(is_sample));
}

#[test]
fn it_tells_nothing_of_a_port_that_is_not_watched_beside_one_that_is() {
    let mut host = Host::new();
    host.agent = Agent::new(vec![port("eth0"), port("eth1")], true);
    host.all(s(0), 1, vec![watch(Some(PortWatch::default()))]);
    let mut reports = Vec::new();
    for (port, source) in [(PORT, 1), (PortNumber(1), 2)] {
        host.agent.hear(port, &Happening::Opened(connection(source)), &mut reports);
    }
    assert_eq!(reports, [Report::Opened { connection: connection(1) }]);
}
