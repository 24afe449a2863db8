//! One way to decide: what a daemon decided, a replay of its recording decides again; and where the
//! simulator's driver tells a fresh policy the same at the same times, the same is carried out. Here an agent speaks for
//! the switch; in `switch` an OpenFlow switch does.

mod switch;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::{Debug, Display};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use control::record::{Configuration, Record};
use control::{Change, Config, Configure, Output};
use controller::replay::{self, Recorded};
use engine::{Actions, Application, FlowState, Notice, Outcome, Plan, World, drive};
use hyper::Method;
use model::{
    Caps, Directive, Directives, FlowId, JobId, LinkId, Measured, Network, NodeId, Observation,
    Severity,
};
use policy::{Descriptor, DirectiveKind, Policy};
use protocol::Connection;
use protocol::agent::{Command, ConnectionReport, PortCount, Report};
use serde_json::{Value, json};
use units::{Bytes, Rate, Span, Time};
use wire::client::Client;

use crate::daemon::{Agent, Daemon, PATIENCE, config, declare};

/// Something that a policy observed or decided, and when.
#[derive(Clone, Debug)]
enum Step {
    Observed(Time, Observation),
    Decided(Directives),
}

/// Steps of a policy that are compared; a long history has more.
const MOST: usize = 20_000;

/// What passed the seam between a controller and its policy, and the network that the policy was shown then.
#[derive(Default)]
struct Seam {
    steps: Vec<(Arc<Network>, Step)>,
}

impl Seam {
    fn note(&mut self, network: &Network, step: Step) {
        if self.steps.len() >= MOST {
            return;
        }
        let known = self.steps.last().map(|(known, _)| known);
        let known = known.filter(|known| is_same(known, network));
        let network = known.map_or_else(|| Arc::new(network.clone()), Arc::clone);
        self.steps.push((network, step));
    }
}

fn is_same(one: &Network, other: &Network) -> bool {
    let links = 0..u32::try_from(one.topology().links().len()).unwrap();
    one.topology() == other.topology()
        && links.map(LinkId).all(|link| one.is_up(link) == other.is_up(link))
}

/// Notes what passes.
struct Tap {
    inner: Box<dyn Policy + Send>,
    seam: Arc<Mutex<Seam>>,
}

impl Policy for Tap {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        let observed = Step::Observed(now, observation.clone());
        self.seam.lock().unwrap().note(network, observed);
        self.inner.observe(now, network, observation);
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        let from = out.len();
        self.inner.decide(now, network, out);
        let mut seam = self.seam.lock().unwrap();
        match seam.steps.last() {
            _ if seam.steps.len() >= MOST => {}
            Some((_, Step::Observed(..))) => {
                seam.note(network, Step::Decided(out[from..].to_vec()));
            }
            _ => assert_eq!(out[from..], [], "nothing happened, nothing follows"),
        }
    }

    fn watch(&self) -> Option<policy::Watch> {
        self.inner.watch()
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }

    fn tags(&self) -> Option<policy::Tags> {
        self.inner.tags()
    }

    fn ports(&self) -> Option<Span> {
        self.inner.ports()
    }

    fn paces_all(&self) -> bool {
        self.inner.paces_all()
    }

    fn account(&self, flow: FlowId) -> Option<policy::Account> {
        self.inner.account(flow)
    }
}

/// A policy that decides nothing.
fn silent() -> Box<dyn Policy + Send> {
    policy::by_name("tcp", &policy::Parameters::default()).unwrap()
}

/// Configurations as the daemon reads them, with a tap at each policy.
#[derive(Default)]
struct Tapped {
    recorded: Recorded,
    /// Of each policy, one after another, and what it is made of.
    seams: Vec<(Configuration, Arc<Mutex<Seam>>)>,
}

impl Tapped {
    fn tap(
        &mut self,
        recorded: &Configuration,
        inner: Box<dyn Policy + Send>,
    ) -> Box<dyn Policy + Send> {
        let seam = Arc::<Mutex<Seam>>::default();
        self.seams.push((recorded.clone(), Arc::clone(&seam)));
        Box::new(Tap { inner, seam })
    }
}

impl Configure for Tapped {
    fn start(&mut self, recorded: &Configuration) -> Result<Config, String> {
        let mut config = self.recorded.start(recorded)?;
        let inner = std::mem::replace(&mut config.policy, silent());
        config.policy = self.tap(recorded, inner);
        Ok(config)
    }

    fn change(&mut self, recorded: &Configuration) -> Result<Change, String> {
        let mut change = self.recorded.change(recorded)?;
        change.policy = change.policy.take().map(|(name, inner)| (name, self.tap(recorded, inner)));
        Ok(change)
    }
}

/// What was observed, and what left for actuators, and when.
#[derive(Debug, Default, PartialEq)]
struct Passed {
    observed: Vec<(Time, Observation)>,
    left: Vec<(Time, Directive)>,
}

impl Passed {
    /// What the driver should make of what passed the seam. What a policy says leaves at the time of its
    /// last observation.
    fn expected(steps: &[(Arc<Network>, Step)]) -> Self {
        let mut passed = Self::default();
        for (_, step) in steps {
            match step {
                Step::Observed(at, observation) => passed.observed.push((*at, observation.clone())),
                Step::Decided(directives) => {
                    let (at, _) = *passed.observed.last().expect("something was observed");
                    passed.left.extend(directives.iter().map(|directive| (at, directive.clone())));
                }
            }
        }
        passed
    }

    /// The first difference.
    fn difference(&self, expected: &Self) -> Option<String> {
        first_difference("observed", &self.observed, &expected.observed)
            .or_else(|| first_difference("left", &self.left, &expected.left))
    }
}

fn first_difference<T: Debug + PartialEq>(what: &str, is: &[T], should: &[T]) -> Option<String> {
    let place =
        (0..is.len().max(should.len())).find(|place| is.get(*place) != should.get(*place))?;
    let (is, should) = (is.get(place), should.get(place));
    Some(format!("{what}, {place}: {is:?} instead of {should:?}"))
}

/// The policy in the driver's world. It decides once about what the daemon's turn held, as the daemon
/// does; its ticks are those that it asks for, as late as the daemon's clock woke. The driver's network never changes: it
/// is shown the daemon's.
struct Player {
    inner: Box<dyn Policy + Send>,
    steps: Rc<[(Arc<Network>, Step)]>,
    next: usize,
    passed: Rc<RefCell<Passed>>,
}

impl Policy for Player {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        let steps = Rc::clone(&self.steps);
        let shown = steps.get(self.next).map_or(network, |(shown, _)| shown.as_ref());
        self.next += 1;
        self.passed.borrow_mut().observed.push((now, observation.clone()));
        self.inner.observe(now, shown, observation);
    }

    fn decide(&mut self, now: Time, _: &Network, out: &mut Directives) {
        if let Some((network, Step::Decided(_))) = self.steps.get(self.next) {
            self.next += 1;
            self.inner.decide(now, network, out);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let own = self.inner.deadline()?;
        let woken = self.steps.iter().skip(self.next).find_map(|(_, step)| match step {
            Step::Observed(at, Observation::Tick) => Some(*at),
            _ => None,
        });
        Some(woken.map_or(own, |woken| own.max(woken)))
    }
}

/// Starts the flows that the policy spoke of, and says what was observed, when it was. Flows never end, so that the
/// driver goes on for the policy's ticks.
struct Speaker {
    flows: usize,
    said: VecDeque<(Time, Observation)>,
}

impl Application<Recorder> for Speaker {
    fn arrival(&mut self) -> Option<Time> {
        let begin = (self.flows > 0).then_some(Time::ZERO);
        self.said.front().map(|(at, _)| *at).or(begin)
    }

    fn arrive(&mut self, actions: &mut Actions<'_, Recorder>) -> Result<(), String> {
        for _ in 0..std::mem::take(&mut self.flows) {
            actions.start(JobId(0), NodeId(0), NodeId(1), Bytes::MAX)?;
        }
        if let Some((_, observation)) = self.said.pop_front() {
            actions.tell(observation);
        }
        Ok(())
    }
}

/// A world in which nothing flows. It notes what is to be carried out.
struct Recorder {
    now: Time,
    flows: u32,
    passed: Rc<RefCell<Passed>>,
}

impl Recorder {
    fn note(&self, directive: Directive) {
        self.passed.borrow_mut().left.push((self.now, directive));
    }
}

impl World for Recorder {
    type Error = String;

    fn now(&self) -> Time {
        self.now
    }

    fn run(&mut self, _: Time) -> Notice {
        Notice::Limit
    }

    fn advance(&mut self, time: Time) {
        self.now = time;
    }

    fn start(&mut self, _: &Network, _: NodeId, _: NodeId, _: Bytes) -> Result<FlowId, String> {
        self.flows += 1;
        Ok(FlowId(self.flows - 1))
    }

    fn limit(&mut self, flow: FlowId, limit: Option<Rate>) {
        self.note(Directive::Pace { flow, limit });
    }

    fn prioritize(&mut self, flow: FlowId, priority: u8) {
        self.note(Directive::Prioritize { flow, priority });
    }

    fn pace_pair(&mut self, src: NodeId, dst: NodeId, rate: Rate) {
        self.note(Directive::PacePair { src, dst, rate });
    }

    fn cap(&mut self, link: LinkId, flow: Option<FlowId>, caps: Option<Caps>) {
        self.note(match caps.map(|caps| (caps, caps.constant())) {
            Some((caps, None)) => Directive::Prepare { link, flow, caps },
            constant => Directive::Window { link, flow, cap: constant.and_then(|(_, cap)| cap) },
        });
    }

    fn space(&mut self, link: LinkId, gap: Option<Span>) {
        self.note(Directive::Space { link, gap });
    }

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

/// Has the driver tell `policy` all that passed the seam; the first difference in what it observes and
/// in what is carried out, if there is one.
fn driven(seam: &Seam, policy: Box<dyn Policy + Send>) -> Option<String> {
    let is_decision = |(_, step): &(Arc<Network>, Step)| matches!(step, Step::Decided(_));
    let end = seam.steps.iter().rposition(is_decision)?;
    let network = Network::clone(&seam.steps[0].0);
    let steps: Rc<[(Arc<Network>, Step)]> = seam.steps[..=end].into();
    let expected = Passed::expected(&steps);
    let paced = expected.left.iter().filter_map(|(_, directive)| match directive {
        Directive::Pace { flow, .. } => Some(flow.index() + 1),
        _ => None,
    });
    let flows = paced.max().unwrap_or(1);
    let said = expected.observed.iter().filter(|(_, said)| *said != Observation::Tick).cloned();
    let speaker = Speaker { flows, said: said.collect() };
    let passed = Rc::new(RefCell::new(Passed::default()));
    let player = Player { inner: policy, steps, next: 0, passed: Rc::clone(&passed) };
    let plan = Plan {
        network,
        application: Box::new(speaker),
        policy: Some(Box::new(player)),
        control_delay: Span::ZERO,
        processing: Span::ZERO,
        until: expected.observed.last().expect("something was observed").0,
        monitors: Vec::new(),
        rates: None,
    };
    let world = Recorder { now: Time::ZERO, flows: 0, passed: Rc::clone(&passed) };
    drive(world, plan, &mut |_| {}).unwrap();
    passed.borrow().difference(&expected)
}

/// Priorities for more flows than rates.
pub const STATIC: &str =
    "rates = [\"10 Mbit/s\", \"20 Mbit/s\", \"30 Mbit/s\"]\nlevels = [2, 1, 0, 2]\n";

/// Two applications under objectives of their own: one yields to the other.
const OBJECTIVES: &str = "priorities = true\n\
                          objective = [{ name = \"a\", policy = { name = \"app-aware\", interval = \"20 ms\" } }, \
                          { name = \"b\", policy = { name = \"srb\" }, latency = \"1 s\" }]\n";

/// What the agent says of a congested queue.
const QUEUE: Bytes = Bytes::new(60_000);

/// Windows that are said before a port is congested.
const PREPARED: &str = "windows = \"prepared\"\n";

/// Each policy that can be live, with parameters under which it has something to do; `sdtcp` once more, with windows that
/// are prepared.
fn cases() -> impl Iterator<Item = (&'static Descriptor, &'static str)> {
    let live = policy::POLICIES.iter().filter(|policy| policy.is_live());
    let each = live.map(|policy| {
        let parameters = match policy.name {
            "app-aware" | "app-aware-fast" => "interval = \"20 ms\"\n",
            "static" => STATIC,
            "arbiter" => OBJECTIVES,
            _ => "",
        };
        (*policy, parameters)
    });
    each.chain([(policy::find("sdtcp").unwrap(), PREPARED)])
}

/// A recording is long enough with so many directives.
fn enough(policy: &Descriptor, parameters: &str) -> u64 {
    match policy.directives {
        _ if policy.is_passive() => 0,
        // Once more only where other flows are there.
        _ if parameters == PREPARED => 1,
        // One window and one gap for all connections of a port stand as long as these are the same.
        all if all.contains(&DirectiveKind::Space) => 2,
        _ => 6,
    }
}

/// Of two hosts in turn to the third.
fn connection(flow: u64) -> Connection {
    Connection {
        source: format!("10.0.0.{}:{}", 1 + flow % 2, 4000 + flow).parse().unwrap(),
        destination: "10.0.0.3:80".parse().unwrap(),
    }
}

fn request(job: &str, flow: u64, bytes: Option<u64>) -> Value {
    let mut request = json!({ "type": "flow_request", "job": job, "flow": flow.to_string(),
        "connection": connection(flow) });
    if let Some(bytes) = bytes {
        request["bytes"] = json!(bytes);
    }
    request
}

/// Two applications declare three jobs and the first five flows.
async fn begin(client: &mut Client) {
    let begin = json!([
        { "type": "job_start", "job": "large" },
        { "type": "job_start", "job": "stream" },
        { "type": "job_terms", "job": "large", "weight": 2 },
        { "type": "task_host", "job": "large", "task": 0, "host": "h0" },
        { "type": "task_host", "job": "large", "task": 1, "host": "h2" },
        { "type": "size", "job": "large", "map": 0, "reduces": [{ "task": 1, "bytes": 90_000_000 }] },
        request("stream", 1, None),
        request("stream", 2, None),
        request("large", 3, Some(50_000_000)),
        request("large", 4, Some(40_000_000)),
    ]);
    assert!(declare(client, "a", &begin).await.0.is_success());
    let other = json!([
        { "type": "job_start", "job": "small" },
        request("small", 5, Some(3_000_000)),
    ]);
    assert!(declare(client, "b", &other).await.0.is_success());
}

/// How far connections are. Two streams fill a port of 100 Mbit/s: each delivers 48 Mbit/s, and more waits at each in
/// turn, or at its receiver. All of a host's connections together deliver less than its port carries, so that what it
/// offers changes when nothing waits.
struct Load {
    elapsed: Span,
}

impl Load {
    fn since(start: Instant) -> Self {
        Self { elapsed: Span::from_secs_f64(start.elapsed().as_secs_f64()) }
    }

    fn delivered(&self, flow: u64) -> Bytes {
        let mbps = if flow <= 2 { 48 } else { 10 };
        Rate::from_mbps(mbps).bytes_in(self.elapsed)
    }

    fn waiting(&self, flow: u64) -> Bytes {
        let turn = self.elapsed.as_nanos() / Span::from_millis(60).as_nanos();
        Bytes::new((flow + turn) % 2 * 12_000_000)
    }

    /// What an agent samples of flows.
    fn sampled(&self, flows: impl Iterator<Item = u64>) -> Report {
        let report = |flow: u64| ConnectionReport {
            connection: connection(flow),
            delivered_bytes: self.delivered(flow),
            unsent_bytes: self.waiting(flow),
            in_flight_bytes: Bytes::new(14_600),
            rtt_ns: Span::from_micros(200),
            processes: Vec::new(),
        };
        let connections = flows.map(report).collect();
        Report::Connections { sampled_ns: Time::ZERO + self.elapsed, connections }
    }

    /// What applications declare in a round: how far streams are, and a new flow.
    async fn declared(&self, client: &mut Client, round: u64) {
        let sample = |flow: u64| {
            json!({ "flow": flow.to_string(), "delivered_bytes": self.delivered(flow),
                "sender_queue_bytes": self.waiting(flow), "receiver_queue_bytes": self.waiting(flow + 1) })
        };
        let said = json!([
            { "type": "streams", "job": "stream", "samples": [sample(1), sample(2)] },
        ]);
        assert!(declare(client, "a", &said).await.0.is_success());
        let said = json!([request("small", 10 + round, Some(round * 1_000_000))]);
        assert!(declare(client, "b", &said).await.0.is_success());
    }
}

/// An operator orders something, another policy comes than the one of this `name`, and a job and the daemon end; its
/// recording. `of`: the configuration with a policy and its parameters.
async fn end(
    daemon: &mut Daemon,
    client: &mut Client,
    name: &str,
    of: impl Fn(&str, &str) -> String,
) -> Vec<Record> {
    let order = json!({ "type": "drain", "host": "h1" }).to_string().into_bytes();
    let mut operator = daemon.client().await;
    let (status, said) = operator.ask(Method::POST, "/v1/orders", order).await.unwrap();
    assert!(status.is_success(), "{said:?}");
    let next = if name == "smsf" { "srb" } else { "smsf" };
    std::fs::write(daemon.path("controller.toml"), of(next, "")).unwrap();
    daemon.signal("-HUP");
    daemon.until("/v1/status", |status| status["policy"] == next).await;
    let end = json!([
        { "type": "flow_complete", "job": "large", "flow": "3" },
        { "type": "job_complete", "job": "large" },
    ]);
    assert!(declare(client, "a", &end).await.0.is_success());
    daemon.signal("-TERM");
    assert!(daemon.wait().success());
    let mut parts = replay::Parts::open(&daemon.path("records/epoch-000001.000.record")).unwrap();
    let records = parts.by_ref().map(Result::unwrap).collect();
    assert!(!parts.is_truncated());
    records
}

/// A daemon with a policy, told by an application and an agent what each policy may want to know, until it has decided
/// something; then an operator orders something, and another policy comes. Its recording.
async fn recording(policy: &Descriptor, parameters: &str) -> (Vec<Record>, Daemon) {
    let name = policy.name;
    // The agent says as much as it can.
    let of = |name: &str, parameters: &str| {
        config(&format!(
            "[[port]]\nfrom = \"s0\"\nto = \"h2\"\ninterface = \"eth0\"\n\
             [limits]\nreports_per_second = 1000000\n[recorder]\ndirectory = \"records\"\n\
             [policy]\nname = \"{name}\"\n{parameters}"
        ))
    };
    let mut daemon = Daemon::start(&of(name, parameters));
    let hosts = [("h0", "10.0.0.1"), ("h1", "10.0.0.2"), ("h2", "10.0.0.3"), ("s0", "10.0.0.4")];
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &hosts, 0).await;
    let mut client = daemon.client().await;
    begin(&mut client).await;
    for flow in 1..=6 {
        agent.say(&Report::Opened { connection: connection(flow) }).await;
    }
    let start = Instant::now();
    let (mut decided, mut rounds) = (0, 0);
    for round in 1_u64.. {
        rounds = round;
        assert!(start.elapsed() < PATIENCE, "{name} never decides: {decided}");
        let load = Load::since(start);
        agent.say(&load.sampled(1..=6)).await;
        // Beside the flows somebody else sends 20 Mbit/s.
        let sent_bytes =
            Rate::from_mbps(20).bytes_in(load.elapsed) + load.delivered(1) + load.delivered(2);
        let port = PortCount { node: "s0".into(), interface: "eth0".into(), sent_bytes };
        agent.say(&Report::Ports { ports: vec![port] }).await;
        for severity in [Severity::Low, Severity::Medium, Severity::High] {
            let (node, interface) = ("s0".to_owned(), "eth0".to_owned());
            agent.say(&Report::Congested { node, interface, severity, queue_bytes: QUEUE }).await;
        }
        load.declared(&mut client, round).await;
        decided = count(&heard(&daemon, &mut agent, round).await, "directives");
        if round >= 3 && decided >= enough(policy, parameters) {
            break;
        }
    }
    // The sixth flow, which nobody declared, is of no job.
    let jobs = daemon.get("/v1/jobs").await;
    let names: Vec<_> = jobs.as_array().unwrap().iter().map(|job| &job["job"]).collect();
    assert_eq!(names, ["large", "stream", "small"]);
    let (node, interface) = ("s0".to_owned(), "eth0".to_owned());
    let severity = Severity::Recovered;
    agent.say(&Report::Congested { node, interface, severity, queue_bytes: Bytes::ZERO }).await;
    agent.say(&Report::Closed { connection: connection(6) }).await;
    heard(&daemon, &mut agent, rounds + 1).await;
    let records = end(&mut daemon, &mut client, name, of).await;
    (records, daemon)
}

/// The metrics once all is taken in that the agent has said. Commands of another epoch than the controller's were
/// refused, it says: it changes nothing, and is counted.
async fn heard(daemon: &Daemon, agent: &mut Agent, times: u64) -> String {
    agent.say(&Report::Stale { epoch: 0, obeys: 0 }).await;
    let start = Instant::now();
    loop {
        let metrics = daemon.client().await.get("/metrics").await.unwrap();
        let metrics = String::from_utf8(metrics.to_vec()).unwrap();
        if count(&metrics, "stale") >= times {
            return metrics;
        }
        assert!(start.elapsed() < PATIENCE, "{metrics}");
    }
}

/// A counter of the metrics.
fn count(metrics: &str, name: &str) -> u64 {
    let name = format!("watermaster_{name}_total ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap_or_else(|| panic!("no {name}in {metrics}")).parse().unwrap()
}

/// Of a replay with a tap at each policy: what each policy is made of and what passed there. `see` is shown what left.
fn replayed<E: Display>(
    name: &str,
    records: impl IntoIterator<Item = Result<Record, E>>,
    mut see: impl FnMut(&Output),
) -> Vec<(Configuration, Seam)> {
    let mut configure = Tapped::default();
    let tell = |_: &Record, outputs: &[Output], _: &control::Answers<'_>| {
        outputs.iter().for_each(&mut see);
    };
    let replayed = control::replay(records, &mut configure, tell).unwrap();
    assert!(replayed.digests > 0, "{name}: {replayed:?}");
    assert_eq!((replayed.altered_after, replayed.differs_after), (None, None), "{name}");
    let seams = configure.seams.into_iter();
    let seams = seams.map(|(made_of, seam)| {
        let seam = std::mem::take(&mut *seam.lock().unwrap());
        (made_of, seam)
    });
    seams.collect()
}

/// The records again, all of which could be read.
fn again(records: &[Record]) -> impl Iterator<Item = Result<Record, Infallible>> {
    records.iter().cloned().map(Ok)
}

/// Holds that the driver decides as each policy did.
fn hold(name: &str, seams: &[(Configuration, Seam)]) {
    for (configuration, seam) in seams {
        if let Some(difference) = driven(seam, fresh(configuration)) {
            panic!("{name}: {difference}");
        }
    }
}

/// Holds a daemon's two policies, before and after its reload, to the driver; the first of them.
fn held<'a>(name: &str, seams: &'a [(Configuration, Seam)]) -> &'a (Configuration, Seam) {
    hold(name, seams);
    let [before, (_, after)] = seams else { panic!("{name}: {} policies", seams.len()) };
    assert!(!Passed::expected(&after.steps).left.is_empty(), "{name}: after a reload");
    before
}

/// Holds a recording in a file to a replay and to the driver; its policies, and how many steps of each were compared.
pub fn hold_file(name: &str, file: &Path) -> Vec<(String, usize)> {
    let seams = replayed(name, replay::Parts::open(file).unwrap(), |_| {});
    hold(name, &seams);
    let each = seams.iter();
    each.map(|(made_of, seam)| (started(made_of).policy_name, seam.steps.len())).collect()
}

fn started(configuration: &Configuration) -> Config {
    Recorded::default().start(configuration).unwrap()
}

fn fresh(configuration: &Configuration) -> Box<dyn Policy + Send> {
    started(configuration).policy
}

/// Whether a command is of this kind of directive. Rates of pairs are divided among connections.
const fn carries(command: &Command, kind: DirectiveKind) -> bool {
    match kind {
        DirectiveKind::Pace | DirectiveKind::PacePair => matches!(command, Command::Pace { .. }),
        DirectiveKind::Prioritize => matches!(command, Command::Prioritize { .. }),
        DirectiveKind::Window => matches!(command, Command::Window { .. }),
        DirectiveKind::Prepare => matches!(command, Command::Prepare { .. }),
        DirectiveKind::Space => matches!(command, Command::Space { .. }),
        DirectiveKind::Grant | DirectiveKind::Gather => false,
    }
}

#[tokio::test]
async fn a_daemon_its_replay_and_the_driver_decide_the_same() {
    for (policy, parameters) in cases() {
        let name = policy.name;
        // Where one fails below, what the daemon wrote is kept.
        let (records, _daemon) = recording(policy, parameters).await;
        let mut commands = Vec::new();
        let seams = replayed(name, again(&records), |output| {
            if let Output::Agent(_, told) = output {
                commands.extend_from_slice(&told.commands);
            }
        });
        let (configuration, seam) = held(name, &seams);
        let Passed { observed, left } = Passed::expected(&seam.steps);
        let (steps, directives) = (seam.steps.len(), left.len() as u64);
        eprintln!("{name}: {steps} steps, {directives} directives, {} commands", commands.len());
        let enough = enough(policy, parameters);
        assert!(directives >= enough && (directives > 0) == (enough > 0), "{name}");
        // What the controller does alike in the daemon and in a replay is held to what the agent said
        // and was told.
        let notices: Vec<_> = observed
            .iter()
            .filter_map(|(_, observation)| match observation {
                Observation::Measured(Measured::Congested { severity, queue, .. }) => {
                    Some((*severity, *queue))
                }
                _ => None,
            })
            .collect();
        let said = [Severity::Low, Severity::Medium, Severity::High].map(|level| (level, QUEUE));
        let (recovered, notices) = notices.split_last().unwrap();
        assert_eq!(*recovered, (Severity::Recovered, Bytes::ZERO), "{name}");
        assert!(notices.len() >= 9 && notices.chunks(3).all(|three| three == said), "{name}");
        let is_closed = observed.iter().any(|(_, observation)| {
            matches!(observation, Observation::Measured(Measured::Closed { .. }))
        });
        assert!(is_closed || fresh(configuration).watch().is_none(), "{name}: no FIN");
        let is_counted = observed.iter().any(|(_, observation)| {
            matches!(observation, Observation::Measured(Measured::Ports(_)))
        });
        let counts = fresh(configuration).ports().is_some();
        assert_eq!(is_counted, counts, "{name}: counters of ports");
        // By default nothing is prepared, and else hardly anything is said beside.
        let prepares = parameters == PREPARED;
        let mut kinds = policy.directives.iter();
        let leaves = |kind| commands.iter().any(|command| carries(command, kind));
        let missing =
            kinds.find(|kind| (**kind == DirectiveKind::Prepare) == prepares && !leaves(**kind));
        assert_eq!(missing, None, "{name}");
        if name == "static" {
            let rate = |mbps| Some(Rate::from_mbps(mbps));
            let pace = |flow, mbps| Directive::Pace { flow: FlowId(flow), limit: rate(mbps) };
            let prioritize =
                |flow, priority| Directive::Prioritize { flow: FlowId(flow), priority };
            let by_hand = [
                [pace(0, 10), prioritize(0, 2)],
                [pace(1, 20), prioritize(1, 1)],
                [pace(2, 30), prioritize(2, 0)],
            ];
            let by_hand: Vec<_> = by_hand.into_iter().flatten().chain([prioritize(3, 2)]).collect();
            let left: Vec<_> = left.into_iter().map(|(_, directive)| directive).collect();
            assert_eq!(left, by_hand);
        }
    }
}

/// What is wrong with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It forgets one directive of the second decision that has any.
    Directive,
    /// It never asks for a tick.
    Deadline,
}

struct Faulty {
    inner: Box<dyn Policy + Send>,
    fault: Fault,
    decisions: usize,
}

impl Policy for Faulty {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        self.inner.observe(now, network, observation);
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        let from = out.len();
        self.inner.decide(now, network, out);
        if out.len() > from {
            self.decisions += 1;
            if (self.fault, self.decisions) == (Fault::Directive, 2) {
                out.pop();
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline().filter(|_| self.fault != Fault::Deadline)
    }
}

/// The comparison finds a single directive that is missing, a deadline that is, and another policy
/// altogether.
#[tokio::test]
async fn a_fault_in_a_decision_is_found() {
    let (records, _daemon) = recording(policy::find("fair").unwrap(), "").await;
    let seams = replayed("fair", again(&records), |_| {});
    let (configuration, seam) = &seams[0];
    for (fault, what) in [(Fault::Directive, "left"), (Fault::Deadline, "observed")] {
        let inner = fresh(configuration);
        let difference = driven(seam, Box::new(Faulty { inner, fault, decisions: 0 })).unwrap();
        assert!(difference.starts_with(what), "{fault:?}: {difference}");
    }
    assert!(driven(seam, silent()).is_some());
    assert_eq!(driven(seam, fresh(configuration)), None);
}
