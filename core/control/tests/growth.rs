//! What each message that a peer can send costs, at one, two, four and eight thousand of what it holds, and that
//! nothing bends: no cost grows faster than n log n.
//!
//! Requests for memory are counted in each run of the tests; instructions, which see loops that ask for none, by
//! `make growth` (valgrind).
#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test may panic, and prints its table

mod in_memory;

use std::process::Command;

use in_memory::{SECOND, Shape, address, connection};
use policy::{Messages, Parameters};
use protocol::agent::{Capability, ConnectionReport, Host, Report};
use protocol::application::{Declaration, Portion, StreamReport};
use protocol::{Connection, Processes};
use testing::allocation::{Counting, asked};
use units::{Bytes, Time};
use watermaster_control::{Change, ChannelId, Controller, Input, Output};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIZES: [u32; 4] = [1_000, 2_000, 4_000, 8_000];
/// A cost of eight times as much is more by so much at most: n log n, and a quarter for tables that grow in steps.
const MOST: f64 = 8.0 * 13.0 / 10.0 * 1.25;
/// What is told to the test's own process under valgrind.
const ASK: &str = "GROWTH";

/// The machine with what a message needs, and the message: all of it is in one turn.
type Kind = (&'static str, fn(&mut Bench, u32));

/// A controller, and what is measured in it.
struct Bench {
    controller: Controller,
    now: Time,
    out: Vec<Output>,
    /// How what is measured is run.
    measure: fn(&mut dyn FnMut()) -> u64,
    cost: u64,
}

const AGENT: ChannelId = ChannelId(1);

impl Bench {
    fn new(measure: fn(&mut dyn FnMut()) -> u64) -> Self {
        let policy = policy::by_name("smsf", &Parameters::default().at_cost(Messages::Costly));
        let mut config = Shape::racks(2).config("smsf", policy.unwrap(), true);
        let limits = &mut config.limits;
        limits.declarations_per_second = 1_000_000_000;
        limits.hosts_per_agent = 10_000;
        let controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let mut bench = Self { controller, now: Time::ZERO, out: Vec::new(), measure, cost: 0 };
        bench.setup(Input::AgentConnected { channel: AGENT, identity: "agent" });
        let host = |number| Host { name: format!("h{number}"), addresses: vec![address(number)] };
        let hosts = (0..4).map(host).collect();
        let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
        bench.setup(Input::Reported(AGENT, &hello));
        bench
    }

    fn setup(&mut self, input: Input<'_>) {
        self.controller.step(self.now, input, &mut self.out).unwrap();
        self.out.clear();
    }

    /// Declarations that are no part of what is measured, in one turn.
    fn given(&mut self, declarations: impl IntoIterator<Item = Declaration>) {
        for declaration in declarations {
            let input = Input::Declared { application: "a", declaration: &declaration };
            self.controller.observe(self.now, input).unwrap();
        }
        self.setup(Input::Tick);
    }

    /// Measures a turn in which all this is said.
    fn declare(&mut self, declarations: impl IntoIterator<Item = Declaration>) {
        let all: Vec<_> = declarations.into_iter().collect();
        let said = |declaration| Input::Declared { application: "a", declaration };
        self.take(&all.iter().map(said).collect::<Vec<_>>());
    }

    fn take(&mut self, inputs: &[Input<'_>]) {
        let Self { controller, now, out, measure, cost } = self;
        *cost = measure(&mut || {
            for input in inputs {
                controller.observe(*now, *input).unwrap();
            }
            controller.end_turn(*now, out);
        });
    }

    fn ask(&mut self, question: impl Fn(&Controller)) {
        let Self { controller, measure, cost, .. } = self;
        *cost = measure(&mut || question(controller));
    }
}

fn start(number: u32) -> Declaration {
    Declaration::JobStart { job: number.to_string() }
}

fn of(number: u32) -> Connection {
    connection(number % 2, 2 + number % 2, u16::try_from(1024 + number).unwrap())
}

/// A flow of a job.
fn flow(job: u32, number: u32, bytes: Option<u64>) -> Declaration {
    Declaration::FlowRequest {
        job: job.to_string(),
        flow: number.to_string(),
        connection: of(number),
        processes: Processes::default(),
        bytes: bytes.map(Bytes::new),
    }
}

/// A job of `n` flows, behind one that goes first.
fn job_of_flows(bench: &mut Bench, n: u32) {
    bench.given([start(1), flow(1, 60_000, Some(1)), start(0)]);
    bench.given((0..n).map(|number| flow(0, number, Some(1_000))));
}

/// Flows of a job that are all declared of one connection, behind what goes first.
fn alike(bench: &mut Bench, packets: Connection, n: u32) -> Vec<Declaration> {
    bench.given([start(1), flow(1, 60_000, Some(1)), start(0)]);
    let request = |number: u32| Declaration::FlowRequest {
        job: "0".into(),
        flow: number.to_string(),
        connection: packets,
        processes: Processes::default(),
        bytes: Some(Bytes::new(1_000)),
    };
    (0..n).map(request).collect()
}

/// Any connection from one host to another.
fn unknown() -> Connection {
    let mut packets = of(0);
    packets.source.set_port(0);
    packets.destination.set_port(0);
    packets
}

fn complete(flow: u32) -> Declaration {
    Declaration::FlowComplete { job: "0".into(), flow: flow.to_string() }
}

fn sampled(now: Time, connections: impl Iterator<Item = Connection>) -> Report {
    let connections = connections.map(|connection| ConnectionReport { connection, ..reported(0) });
    Report::Connections { sampled_ns: now, connections: connections.collect() }
}

fn reported(number: u32) -> ConnectionReport {
    ConnectionReport {
        connection: of(number),
        delivered_bytes: Bytes::new(1_000),
        unsent_bytes: Bytes::ZERO,
        in_flight_bytes: Bytes::ZERO,
        rtt_ns: SECOND,
        processes: Vec::new(),
    }
}

/// What a job says of a map, so that its policy goes by sizes.
fn sizes() -> Declaration {
    let reduces = vec![Portion { task: 1, bytes: Bytes::new(1) }];
    Declaration::Size { job: "0".into(), map: 0, reduces }
}

/// What a connection has delivered.
fn sampled_at(now: Time, connection: Connection, delivered: u64) -> Report {
    let one =
        ConnectionReport { connection, delivered_bytes: Bytes::new(delivered), ..reported(0) };
    Report::Connections { sampled_ns: now, connections: vec![one] }
}

/// A connection that has had a tiny flow declared; in the next report it has carried more than that by far.
fn debt(bench: &mut Bench) -> Report {
    bench.given([start(1), flow(1, 60_000, Some(1))]);
    let report = sampled_at(bench.now, of(60_000), 0);
    bench.setup(Input::Reported(AGENT, &report));
    bench.now += SECOND;
    sampled_at(bench.now, of(60_000), 500_000)
}

/// An application with a job that goes by sizes, which has sent what it did not declare.
fn in_debt(bench: &mut Bench) {
    bench.given([start(0), sizes()]);
    let report = debt(bench);
    bench.setup(Input::Reported(AGENT, &report));
}

/// Many tiny flows of a job that goes by sizes, over the connection of a large one that is held back for them.
fn cover(bench: &mut Bench, n: u32) {
    let requests = alike(bench, of(0), n);
    bench.given([Declaration::FlowComplete { job: "1".into(), flow: "60000".into() }, sizes()]);
    let mut large = requests[0].clone();
    if let Declaration::FlowRequest { job, flow, bytes, .. } = &mut large {
        (*job, *flow, *bytes) = ("1".into(), "large".into(), Some(Bytes::new(1 << 40)));
    }
    bench.given([large]);
    bench.given(requests);
    let report = sampled_at(bench.now, of(0), 0);
    bench.setup(Input::Reported(AGENT, &report));
    bench.now += SECOND;
}

/// An agent comes that acts for many hosts.
fn hello(bench: &mut Bench, n: u32) {
    let channel = ChannelId(2);
    bench.setup(Input::AgentConnected { channel, identity: "many" });
    let host =
        |number| Host { name: format!("n{number}"), addresses: vec![address(1_000 + number)] };
    let hosts = (0..n).map(host).collect();
    let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
    bench.take(&[Input::Reported(channel, &hello)]);
}

const KINDS: &[Kind] = &[
    ("job_start", |bench, n| bench.declare((0..n).map(start))),
    ("job_complete, of one flow each", |bench, n| {
        bench.given((0..n).map(start));
        bench.given((0..n).map(|number| flow(number, number, None)));
        bench.declare((0..n).map(|job| Declaration::JobComplete { job: job.to_string() }));
    }),
    ("job_complete, of many flows", |bench, n| {
        job_of_flows(bench, n);
        bench.declare([Declaration::JobComplete { job: "0".into() }]);
    }),
    ("task_host", |bench, n| {
        bench.given([start(0)]);
        let place = |task| Declaration::TaskHost { job: "0".into(), task, host: "h1".into() };
        bench.declare((0..n).map(place));
    }),
    ("size, of many reduces", |bench, n| {
        bench.given([start(0)]);
        let portion = |task| Portion { task, bytes: Bytes::new(1) };
        let reduces = (0..n).map(portion).collect();
        bench.declare([Declaration::Size { job: "0".into(), map: 0, reduces }]);
    }),
    ("size, of many maps", |bench, n| {
        bench.given([start(0)]);
        let size = |map| {
            let reduces = vec![Portion { task: map + 10_000, bytes: Bytes::new(1) }];
            Declaration::Size { job: "0".into(), map, reduces }
        };
        bench.declare((0..n).map(size));
    }),
    ("flow_request", |bench, n| {
        bench.given([start(1), flow(1, 60_000, Some(1)), start(0)]);
        bench.declare((0..n).map(|number| flow(0, number, Some(1_000))));
    }),
    ("flow_request, without sizes", |bench, n| {
        bench.given([start(1), flow(1, 60_000, Some(1)), start(0)]);
        bench.declare((0..n).map(|number| flow(0, number, None)));
    }),
    ("flow_request, each larger", |bench, n| {
        bench.given([start(1), flow(1, 60_000, Some(1)), start(0)]);
        bench.declare((0..n).map(|number| flow(0, number, Some(1 << (number % 40)))));
    }),
    ("flow_request, each of a job", |bench, n| {
        bench.given((0..n).map(start));
        bench.declare((0..n).map(|number| flow(number, number, Some(number.into()))));
    }),
    ("flow_request, again", |bench, n| {
        job_of_flows(bench, n);
        bench.declare((0..n).map(|number| flow(0, number, Some(1_000))));
    }),
    ("flow_request, with another size", |bench, n| {
        job_of_flows(bench, n);
        bench.declare((0..n).map(|number| flow(0, number, Some(2_000))));
    }),
    ("flow_complete", |bench, n| {
        job_of_flows(bench, n);
        bench.declare((0..n).map(complete));
    }),
    ("flow_request, of one connection", |bench, n| {
        let requests = alike(bench, of(0), n);
        bench.declare(requests);
    }),
    ("flow_complete, of one connection", |bench, n| {
        let requests = alike(bench, of(0), n);
        bench.given(requests);
        bench.declare((0..n).rev().step_by(2).map(complete));
    }),
    ("a connection of many flows", |bench, n| {
        let requests = alike(bench, of(0), n);
        bench.given(requests);
        let report = sampled(bench.now, [of(0)].into_iter());
        bench.take(&[Input::Reported(AGENT, &report)]);
    }),
    ("a connection of many flows, beside one that is held", |bench, n| {
        cover(bench, n);
        let report = sampled_at(bench.now, of(0), 11_000_000);
        bench.take(&[Input::Reported(AGENT, &report)]);
    }),
    ("flow_request, in debt", |bench, n| {
        in_debt(bench);
        bench.declare((0..n).map(|number| flow(0, number, Some(1_000))));
    }),
    ("flows in debt", |bench, n| {
        bench.given([start(0), sizes()]);
        bench.given((0..n).map(|number| flow(0, number, Some(1_000))));
        let report = debt(bench);
        bench.take(&[Input::Reported(AGENT, &report)]);
    }),
    ("connections that join many flows", |bench, n| {
        let requests = alike(bench, unknown(), n);
        bench.given(requests);
        let report = sampled(bench.now, (0..n).map(|number| of(number * 2)));
        bench.take(&[Input::Reported(AGENT, &report)]);
    }),
    ("flow_request, of what many joined", |bench, n| {
        let requests = alike(bench, unknown(), n);
        bench.given(requests[..1].to_vec());
        let report = sampled(bench.now, (0..n).map(|number| of(number * 2)));
        bench.setup(Input::Reported(AGENT, &report));
        let Bench { controller, now, out, measure, cost } = bench;
        *cost = measure(&mut || {
            for declaration in &requests {
                // As many are refused as have no room.
                let _ = controller.observe(*now, Input::Declared { application: "a", declaration });
            }
            controller.end_turn(*now, out);
        });
    }),
    ("flow_complete, of what many joined", |bench, n| {
        let requests = alike(bench, unknown(), n);
        bench.given(requests);
        let report = sampled(bench.now, (0..n).map(|number| of(number * 2)));
        bench.setup(Input::Reported(AGENT, &report));
        bench.declare((0..n).map(complete));
    }),
    ("streams", |bench, n| {
        job_of_flows(bench, n);
        let sample = |flow: u32| StreamReport {
            flow: flow.to_string(),
            delivered_bytes: Bytes::ZERO,
            sender_queue_bytes: Bytes::new(1),
            receiver_queue_bytes: Bytes::ZERO,
        };
        let samples = (0..n).map(sample).collect();
        bench.declare([Declaration::Streams { job: "0".into(), samples }]);
    }),
    ("an application goes", |bench, n| {
        job_of_flows(bench, n);
        bench.setup(Input::ApplicationGone("a"));
        bench.now += SECOND * 100;
        bench.take(&[]);
    }),
    ("hello", hello),
    ("hello, where others have agents of their own", |bench, n| {
        let acting = (0..n).map(|number| (format!("other{number}"), format!("agent{number}")));
        let change = Change { acting: Some(acting.collect()), ..Change::default() };
        bench.controller.reconfigure(bench.now, change);
        hello(bench, n);
    }),
    ("connections that nobody declared", |bench, n| {
        let connections = (0..n).map(reported).collect();
        let report = Report::Connections { sampled_ns: bench.now, connections };
        bench.take(&[Input::Reported(AGENT, &report)]);
    }),
    ("connections of a job", |bench, n| {
        job_of_flows(bench, n);
        let connections = (0..n).map(reported).collect();
        let report = Report::Connections { sampled_ns: bench.now, connections };
        bench.take(&[Input::Reported(AGENT, &report)]);
    }),
    ("a sample in many reports", |bench, n| {
        let channel = ChannelId(2);
        bench.setup(Input::AgentConnected { channel, identity: "many" });
        let from = |number| address(1_000 + number);
        let host = |number| Host { name: format!("n{number}"), addresses: vec![from(number)] };
        let hosts = (0..n).map(host).collect();
        let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
        bench.setup(Input::Reported(channel, &hello));
        // Each is of another pair of hosts.
        let of = |number| Connection { source: (from(number), 1).into(), ..of(0) };
        let all: Vec<u32> = (0..n).collect();
        let parts = all.chunks(100);
        let parts = parts.map(|part| sampled(bench.now, part.iter().map(|number| of(*number))));
        let parts: Vec<_> = parts.collect();
        let inputs = parts.iter().map(|report| Input::Reported(channel, report));
        bench.take(&inputs.collect::<Vec<_>>());
    }),
    ("an agent goes", |bench, n| {
        job_of_flows(bench, n);
        bench.take(&[Input::AgentGone(AGENT)]);
    }),
    ("the status", |bench, n| {
        job_of_flows(bench, n);
        bench.ask(|controller| drop(controller.at(Time::ZERO).status()));
    }),
    ("all flows", |bench, n| {
        job_of_flows(bench, n);
        bench.ask(|controller| drop(controller.at(Time::ZERO).flows(usize::MAX)));
    }),
    ("flows of an application", |bench, n| {
        job_of_flows(bench, n);
        bench.ask(|controller| drop(controller.at(Time::ZERO).flows_of("a", usize::MAX)));
    }),
    ("jobs", |bench, n| {
        bench.given((0..n).map(start));
        bench.given((0..n).map(|number| flow(number, number, None)));
        bench.ask(|controller| drop(controller.at(Time::ZERO).jobs(None)));
    }),
    ("why a job has its rates", |bench, n| {
        job_of_flows(bench, n);
        bench.ask(|controller| drop(controller.at(Time::ZERO).explain_job("a", "0")));
    }),
];

/// What is told of `cost` at each size; whether it bends.
fn bends(name: &str, cost: impl Fn(u32) -> u64) -> Option<String> {
    let costs = SIZES.map(cost);
    let [least, .., most] = costs;
    let grows = most as f64 / (least.max(1)) as f64;
    eprintln!("{name:34} {costs:?}, by {grows:.1}");
    (grows > MOST && most > 1_000).then(|| format!("{name}: {costs:?} for {SIZES:?}"))
}

fn none(bent: &[String]) {
    assert!(bent.is_empty(), "these grow faster than n log n:\n{}", bent.join("\n"));
}

#[test]
fn no_message_asks_for_memory_more_often_than_n_log_n() {
    let counted = |run: fn(&mut Bench, u32)| {
        move |n| {
            let mut bench = Bench::new(|work| asked(work));
            run(&mut bench, n);
            bench.cost
        }
    };
    none(&KINDS.iter().filter_map(|(name, run)| bends(name, counted(*run))).collect::<Vec<_>>());
}

/// What is counted by valgrind, by this name.
#[inline(never)]
fn growth_measured(work: &mut dyn FnMut()) -> u64 {
    work();
    1
}

/// Counts instructions in this very program under valgrind, one kind and size after another.
#[test]
#[ignore = "needs valgrind: make growth"]
fn no_message_takes_more_instructions_than_n_log_n() {
    if let Ok(asked) = std::env::var(ASK) {
        let (kind, n) = asked.split_once(' ').unwrap();
        let mut bench = Bench::new(growth_measured);
        KINDS[kind.parse::<usize>().unwrap()].1(&mut bench, n.parse().unwrap());
        assert_eq!(bench.cost, 1, "it was measured");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let counted = |kind: usize| {
        let program = &program;
        move |n| {
            let output = Command::new("valgrind")
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .args(["--toggle-collect=*growth_measured*"])
                .arg(program)
                .args(["--ignored", "--exact", "no_message_takes_more_instructions_than_n_log_n"])
                .env(ASK, format!("{kind} {n}"))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            let line = said.lines().find_map(|line| line.split_once("Collected :")).unwrap();
            let count = line.1.trim().parse().unwrap();
            assert!(count > 0, "nothing was counted");
            count
        }
    };
    let kinds = KINDS.iter().enumerate();
    none(&kinds.filter_map(|(at, (name, _))| bends(name, counted(at))).collect::<Vec<_>>());
}
