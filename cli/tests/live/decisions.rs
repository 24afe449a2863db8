//! One way to decide: what a daemon decided, a replay of its recording decides again, and so does a
//! fresh policy to which the simulator's driver tells the same at the same times.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use control::record::{Configuration, Content, Record};
use control::{Change, Config, Configure};
use controller::replay::{self, Recorded};
use engine::{Actions, Application, FlowState, Notice, Outcome, Plan, World, drive};
use model::{Directives, FlowId, LinkId, Network, NodeId, Observation, Severity};
use policy::{Descriptor, Policy};
use protocol::Connection;
use protocol::agent::{ConnectionReport, Report};
use serde_json::json;
use units::{Bytes, Rate, Span, Time};

use crate::rig::{Agent, Daemon, PATIENCE, config, declare};

/// Something that a policy observed or decided, and when.
#[derive(Clone, Debug)]
enum Step {
    Observed(Time, Observation),
    Decided(Directives),
}

/// What passed the seam between a controller and its policy.
#[derive(Default)]
struct Seam {
    network: Option<Network>,
    steps: Vec<Step>,
}

/// Notes what passes.
struct Tap {
    inner: Box<dyn Policy + Send>,
    seam: Arc<Mutex<Seam>>,
}

impl Policy for Tap {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        let mut seam = self.seam.lock().unwrap();
        seam.network.get_or_insert_with(|| network.clone());
        seam.steps.push(Step::Observed(now, observation.clone()));
        self.inner.observe(now, network, observation);
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        let from = out.len();
        self.inner.decide(now, network, out);
        let mut seam = self.seam.lock().unwrap();
        match seam.steps.last() {
            Some(Step::Observed(..)) => seam.steps.push(Step::Decided(out[from..].to_vec())),
            _ => assert_eq!(out[from..], [], "nothing happened, nothing follows"),
        }
    }

    fn watch(&self) -> Option<policy::Watch> {
        self.inner.watch()
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }
}

/// Configurations as the daemon reads them, with a tap.
/// A policy that decides nothing.
fn silent() -> Box<dyn Policy + Send> {
    policy::by_name("tcp", &policy::Parameters::default()).unwrap()
}

struct Tapped {
    recorded: Recorded,
    seam: Arc<Mutex<Seam>>,
}

impl Configure for Tapped {
    fn start(&mut self, recorded: &Configuration) -> Result<Config, String> {
        let mut config = self.recorded.start(recorded)?;
        let inner = std::mem::replace(&mut config.policy, silent());
        config.policy = Box::new(Tap { inner, seam: Arc::clone(&self.seam) });
        Ok(config)
    }

    fn change(&mut self, recorded: &Configuration) -> Result<Change, String> {
        self.recorded.change(recorded)
    }
}

/// What is to be told and decided in the driver's world.
struct Script {
    steps: Vec<Step>,
    /// The next step of the policy.
    next: usize,
    /// The next step to speak of.
    spoken: usize,
    /// The first difference.
    difference: Option<String>,
}

impl Script {
    /// Notes the first difference. Nothing is told after it.
    fn differs(&mut self, what: String) {
        let step = self.next;
        self.difference.get_or_insert(format!("step {step}: {what}"));
        (self.next, self.spoken) = (self.steps.len(), self.steps.len());
    }
}

/// The policy in the driver's world. It decides where the daemon's turns ended, and its ticks come as
/// late as they came there.
struct Player {
    inner: Box<dyn Policy + Send>,
    has_observed: bool,
    script: Rc<RefCell<Script>>,
}

impl Policy for Player {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        self.has_observed = true;
        let mut script = self.script.borrow_mut();
        match script.steps.get(script.next) {
            Some(Step::Observed(at, then)) if *at == now && then == observation => {}
            other => {
                let other = format!("{other:?}");
                script.differs(format!("{now:?} {observation:?} instead of {other}"));
            }
        }
        script.next += 1;
        if *observation == Observation::Tick {
            script.spoken = script.next;
            if self.inner.deadline().is_none_or(|deadline| deadline > now) {
                script.differs(format!("a tick at {now:?} that the policy did not want"));
            }
        }
        self.inner.observe(now, network, observation);
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        let mut script = self.script.borrow_mut();
        if !std::mem::take(&mut self.has_observed) {
            return script.differs(format!("a decision at {now:?} about nothing"));
        }
        let Some(Step::Decided(then)) = script.steps.get(script.next).cloned() else {
            return;
        };
        self.inner.decide(now, network, out);
        if *out != then {
            script.differs(format!("{out:?} instead of {then:?}"));
        }
        script.next += 1;
    }

    fn deadline(&self) -> Option<Time> {
        let script = self.script.borrow();
        match script.steps.get(script.next) {
            Some(Step::Observed(at, Observation::Tick)) => Some(*at),
            _ => None,
        }
    }
}

/// Says what was observed, when it was.
struct Speaker {
    script: Rc<RefCell<Script>>,
}

impl Application<Still> for Speaker {
    fn arrival(&mut self) -> Option<Time> {
        let mut script = self.script.borrow_mut();
        while let Some(Step::Decided(_)) = script.steps.get(script.spoken) {
            script.spoken += 1;
        }
        match script.steps.get(script.spoken) {
            // The driver's own; the run goes on until it has come.
            Some(Step::Observed(at, Observation::Tick)) => Some(*at + Span::from_secs(1)),
            Some(Step::Observed(at, _)) => Some(*at),
            _ => None,
        }
    }

    fn arrive(&mut self, actions: &mut Actions<'_, Still>) -> Result<(), String> {
        let mut script = self.script.borrow_mut();
        if let Some(Step::Observed(at, observation)) = script.steps.get(script.spoken).cloned() {
            if observation == Observation::Tick {
                return Err(format!("the tick at {at:?} never comes"));
            }
            script.spoken += 1;
            actions.tell(observation);
        }
        Ok(())
    }
}

/// A world in which nothing flows.
struct Still(Time);

impl World for Still {
    type Error = String;

    fn now(&self) -> Time {
        self.0
    }

    fn run(&mut self, _: Time) -> Notice {
        Notice::Limit
    }

    fn advance(&mut self, time: Time) {
        self.0 = time;
    }

    fn start(&mut self, _: &Network, _: NodeId, _: NodeId, _: Bytes) -> Result<FlowId, String> {
        Err("nothing flows here".to_owned())
    }

    fn limit(&mut self, _: FlowId, _: Option<Rate>) {}

    fn prioritize(&mut self, _: FlowId, _: u8) {}

    fn state(&self, _: FlowId) -> Option<FlowState> {
        None
    }

    fn queue_length(&mut self, _: LinkId) -> u32 {
        0
    }

    fn queued(&mut self, _: LinkId) -> Bytes {
        Bytes::ZERO
    }

    fn check(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn finish(self, _: &mut Outcome) -> Result<(), String> {
        Ok(())
    }
}

/// Has the driver tell `policy` all that passed the seam; what is different, if anything.
fn driven(seam: &Seam, policy: Box<dyn Policy + Send>) -> Option<String> {
    let steps = seam.steps.clone();
    let count = steps.len();
    let script = Rc::new(RefCell::new(Script { steps, next: 0, spoken: 0, difference: None }));
    let speaker = Speaker { script: Rc::clone(&script) };
    let player = Player { inner: policy, has_observed: false, script: Rc::clone(&script) };
    let plan = Plan {
        network: seam.network.clone().expect("the policy observed something"),
        application: Box::new(speaker),
        policy: Some(Box::new(player)),
        control_delay: Span::ZERO,
        processing: Span::ZERO,
        until: Time::NEVER,
        monitors: Vec::new(),
        rates: None,
    };
    let run = drive(Still(Time::ZERO), plan, &mut |_| {});
    let mut script = script.borrow_mut();
    if let Err(error) = run {
        script.differs(error);
    }
    if script.next != count {
        script.differs(format!("the run ends, of {count} steps"));
    }
    script.difference.take()
}

/// A daemon with the policy `name`, told by an application and an agent what each policy may want to
/// know, until it has decided something; its recording.
async fn recording(policy: &Descriptor) -> Vec<Record> {
    let name = policy.name;
    let parameters = match name {
        "app-aware" | "app-aware-fast" => "interval = \"100 ms\"\n",
        "static" => "rates = [\"10 Mbit/s\", \"20 Mbit/s\"]\n",
        _ => "",
    };
    let port = "[[port]]\nfrom = \"s0\"\nto = \"h2\"\ninterface = \"eth0\"\n";
    // The agent says as much as it can.
    let limits = "[limits]\nreports_per_second = 1000000\n";
    let more = format!(
        "{port}{limits}[recorder]\ndirectory = \"records\"\n[policy]\nname = \"{name}\"\n{parameters}"
    );
    let mut daemon = Daemon::start(&config(&more));
    let hosts = [("h0", "10.0.0.1"), ("h1", "10.0.0.2"), ("h2", "10.0.0.3"), ("s0", "10.0.0.4")];
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &hosts, 0).await;
    let mut client = daemon.client().await;
    let connection = |flow: u64| Connection {
        source: format!("10.0.0.{}:{}", 1 + flow % 2, 4000 + flow).parse().unwrap(),
        destination: "10.0.0.3:80".parse().unwrap(),
    };
    let request = |job: &str, flow: u64, bytes: Option<u64>| {
        let mut request = json!({ "type": "flow_request", "job": job, "flow": flow,
            "connection": connection(flow) });
        if let Some(bytes) = bytes {
            request["bytes"] = json!(bytes);
        }
        request
    };
    let begin = json!([
        { "type": "job_start", "job": "large" },
        { "type": "job_start", "job": "small" },
        { "type": "job_start", "job": "stream" },
        { "type": "task_host", "job": "large", "task": 0, "host": "h0" },
        { "type": "task_host", "job": "large", "task": 1, "host": "h2" },
        { "type": "size", "job": "large", "map": 0, "reduces": [{ "task": 1, "bytes": 90_000_000 }] },
        request("stream", 1, None),
        request("stream", 2, None),
        request("large", 3, Some(50_000_000)),
        request("large", 4, Some(40_000_000)),
        request("small", 5, Some(3_000_000)),
    ]);
    assert!(declare(&mut client, "a", &begin).await.0.is_success());
    for flow in 1..=6 {
        agent.say(&Report::Opened { connection: connection(flow) }).await;
    }
    let start = Instant::now();
    for round in 1_u64.. {
        assert!(start.elapsed() < PATIENCE, "{name} never decides");
        // Two streams fill a port of 100 Mbit/s: each delivers 48 Mbit/s, and 30 Mbit/s more wait.
        let elapsed = Span::from_secs_f64(start.elapsed().as_secs_f64());
        let delivered = Rate::from_mbps(48).bytes_in(elapsed);
        let waiting = Rate::from_mbps(30).bytes_in(elapsed);
        let report = |flow: u64| ConnectionReport {
            connection: connection(flow),
            delivered_bytes: delivered,
            unsent_bytes: waiting,
            in_flight_bytes: Bytes::new(14_600),
            rtt_ns: Span::from_micros(200),
            retransmissions: 0,
        };
        agent.say(&Report::Connections { connections: (1..=6).map(report).collect() }).await;
        for severity in [Severity::Low, Severity::Medium, Severity::High] {
            let (node, interface) = ("s0".to_owned(), "eth0".to_owned());
            let queue_bytes = Bytes::new(60_000);
            agent.say(&Report::Congested { node, interface, severity, queue_bytes }).await;
        }
        let sample = |flow: u64| {
            json!({ "flow": flow, "delivered_bytes": delivered, "sender_queue_bytes": waiting,
                "receiver_queue_bytes": 0 })
        };
        let said = json!([
            { "type": "streams", "job": "stream", "samples": [sample(1), sample(2)] },
            request("small", 10 + round, Some(round * 1_000_000)),
        ]);
        assert!(declare(&mut client, "a", &said).await.0.is_success());
        // Commands of another epoch than this one were refused: it changes nothing, and is counted.
        agent.say(&Report::Stale { epoch: 0, obeys: 0 }).await;
        let metrics = loop {
            let metrics = daemon.client().await.get("/metrics").await.unwrap();
            let metrics = String::from_utf8(metrics.to_vec()).unwrap();
            if count(&metrics, "stale") >= round {
                break metrics;
            }
            assert!(start.elapsed() < PATIENCE, "{metrics}");
        };
        if round >= 3 && (policy.is_passive() || count(&metrics, "directives") > 0) {
            break;
        }
    }
    let end = json!([
        { "type": "flow_complete", "job": "large", "flow": 3 },
        { "type": "job_complete", "job": "large" },
    ]);
    assert!(declare(&mut client, "a", &end).await.0.is_success());
    daemon.signal("-TERM");
    assert!(daemon.wait().success());
    let mut parts = replay::Parts::open(&daemon.path("records/epoch-000001.000.record")).unwrap();
    let records = parts.by_ref().map(Result::unwrap).collect();
    assert!(!parts.is_truncated());
    records
}

/// A counter of the metrics.
fn count(metrics: &str, name: &str) -> u64 {
    let name = format!("watermaster_{name}_total ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name}in {metrics}")).parse().unwrap()
}

/// A replay with a tap, and how another policy is made of what was recorded.
fn replayed(name: &str, records: &[Record]) -> (Arc<Mutex<Seam>>, Configuration) {
    let seam = Arc::new(Mutex::new(Seam::default()));
    let mut configure = Tapped { recorded: Recorded::default(), seam: Arc::clone(&seam) };
    let again = records.iter().cloned().map(Ok::<_, Infallible>);
    let replayed = control::replay(again, &mut configure, |_, _| {}).unwrap();
    assert!(replayed.digests > 0, "{name}: {replayed:?}");
    assert_eq!((replayed.altered_after, replayed.differs_after), (None, None), "{name}");
    let first = records[0].clone();
    let Content::Started(_, configuration) = first.content else { panic!("{first:?}") };
    (seam, configuration)
}

fn fresh(configuration: &Configuration) -> Box<dyn Policy + Send> {
    Recorded::default().start(configuration).unwrap().policy
}

#[tokio::test]
async fn a_daemon_its_replay_and_the_driver_decide_the_same() {
    for policy in policy::POLICIES.iter().filter(|policy| policy.is_live()) {
        let name = policy.name;
        let records = recording(policy).await;
        let (seam, configuration) = replayed(name, &records);
        let seam = seam.lock().unwrap();
        if let Some(difference) = driven(&seam, fresh(&configuration)) {
            panic!("{name}: {difference}");
        }
        let directives = seam.steps.iter().map(|step| match step {
            Step::Decided(directives) => directives.len(),
            Step::Observed(..) => 0,
        });
        let directives: usize = directives.sum();
        eprintln!("{name}: {} steps, {directives} directives", seam.steps.len());
        assert_eq!(directives == 0, policy.is_passive(), "{name}");
    }
}

/// A policy that forgets one directive of the second decision that has any.
struct Forgetful {
    inner: Box<dyn Policy + Send>,
    decisions: usize,
}

impl Policy for Forgetful {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        self.inner.observe(now, network, observation);
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        let from = out.len();
        self.inner.decide(now, network, out);
        if out.len() > from {
            self.decisions += 1;
            if self.decisions == 2 {
                out.pop();
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }
}

/// The comparison finds a single directive that is missing, and another policy altogether.
#[tokio::test]
async fn a_fault_in_a_decision_is_found() {
    let records = recording(policy::find("fair").unwrap()).await;
    let (seam, configuration) = replayed("fair", &records);
    let seam = seam.lock().unwrap();
    let faulty = Forgetful { inner: fresh(&configuration), decisions: 0 };
    let difference = driven(&seam, Box::new(faulty)).unwrap();
    assert!(difference.contains(" instead of "), "{difference}");
    assert!(driven(&seam, silent()).is_some());
    assert_eq!(driven(&seam, fresh(&configuration)), None);
}
