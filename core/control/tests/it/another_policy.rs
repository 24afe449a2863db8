//! What a policy is told that takes the place of another, and what of that other ends.

use crate::scripted::{
    FLOW, FROM, NARROW, PORT, Rig, TO, WIDE, config, connection, machine, waiting, watched, window,
};
use model::{Declared, Directive, FlowId, JobId, Measured, Observation, TaskId};
use protocol::Processes;
use protocol::agent::{Command, Commands, Host, Report};
use protocol::application::{Declaration, Portion};
use units::{Bytes, Rate, Time};
use watermaster_control::record::{self, Configuration, Content, Record, Records};
use watermaster_control::{
    Answers, Change, ChannelId, Config, Configure, Controller, Input, Output, replay,
};

/// Jobs, tasks, sizes and flows, and which of these are open.
#[test]
fn another_policy_is_told_all_that_was_said() {
    let mut rig = Rig::with_a_flow();
    let job = || String::from("sort");
    let reduces = vec![Portion { task: 3, bytes: Bytes::new(9) }];
    for declaration in [
        Declaration::TaskHost { job: job(), task: 3, host: "h2".into() },
        Declaration::Size { job: job(), map: 7, reduces },
    ] {
        rig.told(Input::Declared { application: "app", declaration: &declaration });
    }
    // One that nobody declared is open too.
    for port in [1, 2] {
        let opened = Report::Opened { connection: connection(port) };
        rig.told(Input::Reported(rig.channel, &opened));
    }
    rig.replace();
    let (job, task, map) = (JobId(0), TaskId(3), TaskId(7));
    let opened = |flow| Measured::Opened { flow: FlowId(flow), src: FROM, dst: TO }.into();
    let expected: [Observation; 6] = [
        Declared::JobStart { job, application: "app".into() }.into(),
        Declared::TaskHost { job, task, host: TO }.into(),
        Declared::Size { job, map, reduces: vec![(task, Bytes::new(9))] }.into(),
        Declared::FlowRequest { job, flow: FLOW, src: FROM, dst: TO, size: Bytes::MAX }.into(),
        opened(0),
        opened(1),
    ];
    assert_eq!(rig.policy.0.lock().unwrap().0, expected);
}

/// The policy of the objective that a job goes to hasn't heard of its tasks. Where it asks for something else,
/// nothing is new to anybody.
#[test]
fn of_a_job_that_asks_for_another_objective_the_tasks_are_told_again() {
    let mut rig = Rig::with_a_flow();
    let job = || String::from("sort");
    let reduces = vec![Portion { task: 3, bytes: Bytes::new(9) }];
    let asks = |objective: Option<&str>, weight| Declaration::JobTerms {
        job: job(),
        objective: objective.map(Into::into),
        deadline_ms: None,
        weight: Some(weight),
    };
    let mut tell = |declaration: Declaration| {
        rig.policy.0.lock().unwrap().0.clear();
        rig.told(Input::Declared { application: "app", declaration: &declaration });
        rig.policy.0.lock().unwrap().0.clone()
    };
    tell(Declaration::TaskHost { job: job(), task: 3, host: "h2".into() });
    tell(Declaration::Size { job: job(), map: 7, reduces });
    let (id, task, map) = (JobId(0), TaskId(3), TaskId(7));
    let tasks: [Observation; 2] = [
        Declared::TaskHost { job: id, task, host: TO }.into(),
        Declared::Size { job: id, map, reduces: vec![(task, Bytes::new(9))] }.into(),
    ];
    for (objective, weight, moves) in
        [(Some("web"), 2, true), (Some("web"), 3, false), (None, 3, true), (None, 3, false)]
    {
        let mut told = tell(asks(objective, weight));
        told.retain(|said| !matches!(said, Observation::Declared(Declared::JobTerms { .. })));
        assert_eq!(told, if moves { &tasks[..] } else { &[] }, "{objective:?}, {weight}");
    }
}

/// Numbers are given again, so they say nothing about age.
#[test]
fn another_policy_hears_of_the_older_job_first() {
    let mut rig = Rig::with_a_flow();
    let mut tell = |declaration| {
        rig.told(Input::Declared { application: "app", declaration: &declaration });
    };
    let flow = |job: &str| Declaration::FlowRequest {
        job: job.into(),
        flow: "1".into(),
        connection: connection(if job == "second" { 2 } else { 3 }),
        processes: Processes::default(),
        bytes: None,
    };
    let start = |job: &str| Declaration::JobStart { job: job.into() };
    tell(start("second"));
    tell(flow("second"));
    tell(Declaration::JobComplete { job: "sort".into() });
    tell(start("third"));
    tell(flow("third"));
    rig.replace();
    let heard = rig.policy.0.lock().unwrap().0.clone();
    let jobs = heard.iter().filter_map(|observation| match observation {
        Observation::Declared(Declared::FlowRequest { job, flow, .. }) => Some((*job, *flow)),
        _ => None,
    });
    // The third has the numbers of the first.
    assert_eq!(jobs.collect::<Vec<_>>(), [(JobId(1), FlowId(1)), (JobId(0), FlowId(0))]);
}

#[test]
fn another_policy_lifts_all_that_the_one_before_wanted() {
    let mut rig = Rig::with_a_flow();
    // Nobody has declared the second connection: the rate of its hosts is all that holds it.
    let both = [(1, 10), (2, 10)];
    waiting(&mut rig, &both);
    rig.decided([
        Directive::Pace { flow: FLOW, limit: Some(Rate::from_mbps(5)) },
        Directive::Prioritize { flow: FLOW, priority: 2 },
        Directive::PacePair { src: FROM, dst: TO, rate: Rate::from_mbps(6) },
        window(None, Some(WIDE)),
        window(Some(FLOW), Some(NARROW)),
    ]);
    assert_eq!(rig.kernel.limits(rig.now).count(), 2);
    assert_eq!(rig.replace(), watched());
    assert_eq!(rig.kernel.limits(rig.now).count() + rig.kernel.classes(rig.now, PORT).count(), 0);
    assert_eq!((rig.cap(1), rig.cap(2)), (None, None));
    // With the next sample the new one hears what its hosts offer; nothing of before is divided.
    assert_eq!(waiting(&mut rig, &both), []);
    let offered = Measured::Offered { src: FROM, dst: TO, rate: Rate::from_mbps(100) };
    assert!(rig.policy.0.lock().unwrap().0.contains(&offered.into()));
}

/// Makes a configuration of the name of a policy.
struct Named;

impl Configure for Named {
    fn start(&mut self, recorded: &Configuration) -> Result<Config, String> {
        let name = &recorded.settings;
        Ok(config(name, policy::by_name(name, &policy::Parameters::default()).unwrap()))
    }

    fn change(&mut self, recorded: &Configuration) -> Result<Change, String> {
        let policy = self.start(recorded)?.policy;
        Ok(Change { policy: Some((recorded.settings.clone(), policy)), ..Change::default() })
    }
}

/// Another policy ends the windows of the one before it, at once; so it does in a replay.
#[test]
fn a_change_of_policy_is_decided_at_once_and_so_it_is_replayed() {
    let configuration = |policy: &str| Configuration {
        program: "0".into(),
        file: "c.toml".into(),
        settings: policy.into(),
    };
    let (now, channel) = (Time::ZERO, ChannelId(1));
    let mut controller =
        Controller::new(Named.start(&configuration("sab")).unwrap(), 1, now).unwrap();
    let (mut bytes, mut recorded) = (Vec::new(), Vec::new());
    record::write_started(now, 1, &configuration("sab"), &mut bytes).unwrap();
    let hosts = ["s0", "h1", "h2"].map(|name| Host { name: name.into(), addresses: vec![] });
    let hello = machine().hello(hosts.to_vec());
    let opened = Report::Opened { connection: connection(1) };
    for input in [
        Input::AgentConnected { channel, identity: "left" },
        Input::Reported(channel, &hello),
        Input::Reported(channel, &opened),
        Input::Tick,
    ] {
        record::write_input(now, &input, &mut bytes).unwrap();
        controller.observe(now, input).unwrap();
        if input == Input::Tick {
            controller.decide(&mut recorded);
        }
    }
    let told = |outputs: &[Output]| match outputs {
        [Output::Agent(_, Commands { complete: true, commands, .. })] => {
            commands.iter().filter(|command| matches!(command, Command::Window { .. })).count()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&recorded), 1);
    record::write_changed(now, &configuration("tcp"), &mut bytes).unwrap();
    controller.reconfigure(now, Named.change(&configuration("tcp")).unwrap());
    controller.decide(&mut recorded);
    assert_eq!(told(&recorded[1..]), 0);
    // Outputs by the record that they follow.
    let mut replayed = Vec::new();
    let tell = |record: &Record, out: &[Output], _: &Answers<'_>| {
        let changed = matches!(record.content, Content::Changed(_));
        replayed.extend(out.iter().map(|output| (changed, output.clone())));
    };
    let mut records = Records::default();
    records.push(&bytes);
    replay(records, &mut Named, tell).unwrap();
    assert_eq!(replayed, [false, true].into_iter().zip(recorded).collect::<Vec<_>>());
}
