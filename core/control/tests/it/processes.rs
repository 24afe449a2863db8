//! How many processes an agent looks for, whatever number of hosts it acts for.

use protocol::agent::MOST_IDENTIFIED;
use protocol::application::Declaration;
use protocol::{Process, Processes};
use watermaster_control::{ChannelId, Refusal};

use crate::in_memory::{Rig, Shape, connection};

/// As the numbers of processes are.
fn most() -> u32 {
    u32::try_from(MOST_IDENTIFIED).unwrap()
}

/// The name of the flow of a process of a host.
fn flow(host: u32, pid: u32) -> u64 {
    u64::from(host * 1000 + pid)
}

fn rig() -> Rig {
    let (shape, tcp) = (Shape::racks(3), policy::by_name("tcp", &policy::Parameters::default()));
    let mut rig = Rig::new(&shape, shape.config("tcp", tcp.unwrap(), true), 1);
    rig.start("app", "job");
    rig
}

/// A flow named after the process of its source, and perhaps of its destination.
fn names(
    rig: &mut Rig,
    (from, to): (u32, u32),
    pid: u32,
    other: Option<u32>,
) -> Result<(), Refusal> {
    let mut connection = connection(from, to, 0);
    connection.destination.set_port(if other.is_some() { 0 } else { 5000 });
    let processes =
        Processes { source: Some(Process::Pid(pid)), destination: other.map(Process::Pid) };
    let (job, flow) = ("job".into(), flow(from, pid).to_string());
    rig.declare("app", Declaration::FlowRequest { job, flow, connection, processes, bytes: None })
}

fn completes(rig: &mut Rig, host: u32, pid: u32) {
    let (job, flow) = ("job".into(), flow(host, pid).to_string());
    rig.declare("app", Declaration::FlowComplete { job, flow }).unwrap();
}

/// What an agent looks for.
fn identified(rig: &Rig, agent: ChannelId) -> &[Process] {
    rig.agents[&agent].machine.identified()
}

#[test]
fn of_all_hosts_of_an_agent_no_more_processes_may_be_named_than_it_looks_for() {
    let (mut rig, most) = (rig(), most());
    let agent = rig.agent("both", &[0, 1]);
    for pid in 1..most {
        names(&mut rig, (pid % 2, 3), pid, None).unwrap();
    }
    let refusal = names(&mut rig, (0, 1), most, Some(most + 1)).unwrap_err();
    assert!(refusal.busy && refusal.field == "processes", "{refusal}");
    assert!(refusal.reason.contains("of all its hosts"), "{refusal}");
    names(&mut rig, (0, 3), most, None).unwrap();
    assert_eq!(identified(&rig, agent).len(), MOST_IDENTIFIED);
    // One that it looks for already, at its other host, is the same. The agent of another host has room.
    names(&mut rig, (0, 3), 3, None).unwrap();
    assert!(names(&mut rig, (1, 3), most + 1, None).is_err());
    names(&mut rig, (2, 3), most + 1, None).unwrap();
    assert_eq!(rig.controller.counters().commands_failed, 0);
}

/// What it names beyond its turn is left out, and told.
#[test]
fn who_names_as_many_as_an_agent_looks_for_leaves_others_theirs() {
    let (mut rig, most) = (rig(), most());
    let agent = rig.agent("both", &[0, 1]);
    for pid in 1..=most {
        names(&mut rig, (0, 3), pid, None).unwrap();
    }
    rig.start("other", "job");
    let others = [most + 1, most + 2];
    for pid in others {
        let processes = Processes { source: Some(Process::Pid(pid)), destination: None };
        let (job, flow) = ("job".into(), pid.to_string());
        let connection = connection(0, 3, 0);
        let request = Declaration::FlowRequest { job, flow, connection, processes, bytes: None };
        rig.declare("other", request).unwrap();
    }
    let expected: Vec<_> = (1..=most - 2).chain(others).map(Process::Pid).collect();
    assert_eq!(identified(&rig, agent), expected);
    let failed = rig.why("app", "job", flow(0, most)).flow.failed;
    assert!(failed.is_some_and(|failed| failed.contains("and not for its own")));
}

/// Nobody can refuse what was declared before they came.
#[test]
fn an_agent_that_comes_later_looks_for_what_was_named_first_and_the_others_are_told() {
    let (mut rig, most) = (rig(), most());
    // The last that are named have the lowest numbers.
    for pid in (1..=most + 2).rev() {
        names(&mut rig, (pid % 2, 3), pid, None).unwrap();
    }
    let agent = rig.agent("both", &[0, 1]);
    let expected: Vec<_> = (3..=most + 2).map(Process::Pid).collect();
    assert_eq!(identified(&rig, agent), expected);
    assert_eq!(rig.controller.counters().commands_failed, 0);
    let of_all = "looks for 256 processes, those of all its hosts together, and not for";
    let problems = |rig: &Rig| {
        let problems = rig.controller.at(rig.now).status().problems.into_iter();
        problems.filter(|told| told.contains(of_all)).collect::<Vec<_>>()
    };
    let told = problems(&rig);
    assert!(matches!(&told[..], [one] if one.contains("not for 2 more; complete")), "{told:?}");
    for (pid, is_left) in [(1, true), (2, true), (3, false)] {
        let failed = rig.why("app", "job", flow(pid % 2, pid)).flow.failed;
        let is_told = failed.as_deref().is_some_and(|failed| failed.contains(of_all));
        assert_eq!(is_told, is_left, "{pid}: {failed:?}");
    }
    // What ends makes room.
    completes(&mut rig, 1, 7);
    completes(&mut rig, 0, 8);
    assert_eq!(problems(&rig), Vec::<String>::new());
    assert!(identified(&rig, agent).contains(&Process::Pid(1)));
}
