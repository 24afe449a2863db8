//! From a scenario to its outcome under each policy.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use document::DocumentError;
use engine::random::Stream;
use engine::{Monitor, Outcome, Plan, Progress};
use lab::{Faults, Session, Speakers};
use model::{LinkId, Network};
use packet::{Capture, Protocol, Setup, Transport};
use policy::{Acknowledgements, Messages, Policy, PolicyError};
use rand::Rng as _;
use simulated_controller::SimulatedController;
use units::{Bytes, Span};

use crate::memory;
use crate::metrics::Metrics;
use crate::result::{Origin, Run, RunResult};
use crate::scenario::{EngineSettings, PolicySpec, Scenario, Simulated, Traffic, World};
use crate::stage::{Set, Stage, Wanted, told};

/// Sampling period of achieved rates.
const LOOK: Span = Span::from_millis(20);

/// Why a run stops before its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The packet world refused the run or stopped.
    #[error("{policy}: {source}")]
    Packet {
        /// Label of the policy.
        policy: String,
        /// The world's error.
        source: packet::RunError,
    },
    /// The fluid world refused the run or stopped.
    #[error("{policy}: {source}")]
    Fluid {
        /// Label of the policy.
        policy: String,
        /// The world's error.
        source: fluid::RunError,
    },
    /// The lab refused the run or stopped.
    #[error("{policy}: {source}")]
    Lab {
        /// Label of the policy.
        policy: String,
        /// The lab's error.
        source: lab::Error,
    },
    /// A policy refuses its parameters.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// A scenario with its network and jobs, which all its runs share.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What was read.
    pub scenario: Scenario,
    /// Its topology in operation.
    pub network: Network,
    /// Its jobs.
    pub traffic: Traffic,
    /// Name of the existing lab to use; `None` builds one for each run.
    pub standing: Option<String>,
    /// Whether to record achieved rates; by default only in the lab.
    pub rates: bool,
    /// The program whose daemons a lab runs; `None`: this one.
    pub program: Option<PathBuf>,
    /// Hears in words how far a run is that has no other progress.
    pub tell: fn(&str),
}

impl Prepared {
    /// Makes network and jobs of `scenario`; reads its trace where it names one.
    ///
    /// # Errors
    /// A trace that can't be read; parameters of the workload that don't go together.
    pub fn new(scenario: Scenario) -> Result<Self, DocumentError> {
        let network = Network::new(scenario.topology.clone());
        let traffic = scenario.workload.prepare(&network, scenario.seed)?;
        let rates = scenario.world == World::Lab;
        Ok(Self { scenario, network, traffic, standing: None, rates, program: None, tell: |_| {} })
    }

    /// Whether its runs are of a real engine.
    pub fn has_engine(&self) -> bool {
        self.scenario.world == World::Lab && self.scenario.engine.is_some()
    }

    /// A run for each policy whose label is among `labels`, in the order of the scenario. Captures
    /// go into `captures`.
    pub fn tasks<'a>(
        &'a self,
        labels: &'a [String],
        captures: Option<&'a Path>,
    ) -> impl Iterator<Item = Task<'a>> {
        let policies = self.scenario.policies.iter();
        let chosen = policies.filter(|policy| labels.contains(&policy.label));
        let memory = memory::usual();
        chosen.map(move |policy| Task { prepared: self, policy, captures, memory })
    }

    /// Measures, compares and judges `runs`.
    pub fn result(&self, runs: &[Run]) -> RunResult {
        let scenario = &self.scenario;
        RunResult::new(
            self.origin(),
            &scenario.topology,
            runs,
            Some(&scenario.baseline),
            &scenario.published,
        )
    }

    /// What it takes to reproduce the result.
    pub fn origin(&self) -> Origin {
        Origin {
            scenario: self.scenario.name.clone(),
            world: self.scenario.world.name().to_owned(),
            seed: self.scenario.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            random: engine::random::ALGORITHM.to_owned(),
        }
    }

    /// The part of a run that is done, from 0 to 1, for progress displays.
    pub fn done(&self, progress: &Progress) -> f64 {
        let delivered = self.traffic.done(progress);
        let passed = progress.now.as_secs_f64() / self.scenario.until.as_secs_f64();
        delivered.max(passed).clamp(0.0, 1.0)
    }
}

/// One run: a scenario under one of its policies.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The scenario.
    pub prepared: &'a Prepared,
    /// The policy.
    pub policy: &'a PolicySpec,
    /// Where captures go, as `LABEL-FROM-TO.pcapng`; `None` makes none.
    pub captures: Option<&'a Path>,
    /// A run in the fluid world stops above this; `None` never.
    pub memory: Option<Bytes>,
}

impl Task<'_> {
    /// Runs to the end. `progress` is called now and then. What can be used again is on the `stage`.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn run(
        &self,
        stage: &mut Stage,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Run, Failure> {
        let policy = self.policy.label.clone();
        let scenario = &self.prepared.scenario;
        if let (World::Lab, Some(engine), Some(governance)) =
            (scenario.world, &scenario.engine, &scenario.lab.daemons)
        {
            let ran = self.on_engine(stage, engine, governance);
            let (outcome, counters) =
                ran.map_err(|source| Failure::Lab { policy: policy.clone(), source })?;
            return Ok(Run { policy, outcome, counters });
        }
        let outcome = match scenario.world {
            World::Packet => self.packet(progress),
            World::Fluid => self.fluid(progress),
            World::Lab => self.in_lab(progress),
        }?;
        let applications = self.prepared.traffic.applications().map(str::to_owned).collect();
        let outcome = Outcome { applications, ..outcome };
        Ok(Run { policy, outcome, counters: Metrics::new() })
    }

    /// The applications of `engine`, on the engines that stand or that are started.
    fn on_engine(
        &self,
        stage: &mut Stage,
        engine: &EngineSettings,
        governance: &lab::Governance,
    ) -> Result<(Outcome, Metrics), lab::Error> {
        let prepared = self.prepared;
        let tell = |words: &str| (prepared.tell)(&format!("{}: {words}", self.policy.label));
        let transport = in_kernel(&self.policy.transport)?;
        let scenario = &prepared.scenario;
        let (topology, settings) = (&scenario.topology, &scenario.lab);
        let wanted = Wanted { topology, transport: &transport, settings, engine };
        let stands = stage.take(&wanted);
        let is_new = stands.is_none() && prepared.standing.is_none();
        let mut set = match stands {
            Some(set) => set,
            None => {
                let mut lab = self.lab()?;
                let speaks = self.speak(&mut lab)?;
                Set::new(lab, speaks, &wanted)
            }
        };
        let mut daemons = self.govern(&mut set.lab, governance)?;
        if is_new {
            for kind in &engine.kinds {
                set.lab.run_engine(*kind, &kind.parts(&tell)?, &tell)?;
            }
        }
        let applications: Vec<_> = engine.applications.iter().map(|(own, _)| own.clone()).collect();
        let session = Session {
            prepare: &engine.prepare,
            applications: &applications,
            until: engine.until,
            seed: scenario.seed,
            policy: &self.policy.label,
            scenario: &engine.folder,
        };
        let mut faults = Faults::new(&self.policy.faults, &set.lab);
        let mut beside = |passed: Option<Span>| {
            passed.map_or(Ok(()), |passed| daemons.suffer(&mut faults, &set.lab, passed, &tell))?;
            daemons.check()
        };
        let mut ran = set.lab.run_applications(&session, &mut beside, &tell)?;
        if faults.left() > 0 {
            ran.notes.push(format!("ended before {} of its faults", faults.left()));
        }
        if prepared.standing.is_none() {
            daemons.stop()?;
        }
        stage.keep(set);
        Ok(told(engine, ran))
    }

    fn packet(&self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Failure> {
        let scenario = &self.prepared.scenario;
        let capture = |directory: &Path| -> Vec<Capture> {
            let ports = scenario.captures.iter();
            let named = ports.map(|port| Capture {
                link: port.link,
                path: directory.join(format!("{}-{}.pcapng", self.policy.label, port.name)),
            });
            named.collect()
        };
        let mut monitors = scenario.monitors.clone();
        if let Some(interval) = scenario.queues.sample {
            let links = 0..u32::try_from(scenario.topology.links().len()).unwrap_or(u32::MAX);
            monitors.extend(links.map(|link| Monitor {
                link: LinkId(link),
                interval,
                start: Span::ZERO,
            }));
        }
        let (policy, lost) = self.decider()?;
        let setup = Setup {
            network: self.prepared.network.clone(),
            transport: self.policy.transport,
            application: self.prepared.traffic.in_streams(),
            policy: Some(policy),
            enforcement: scenario.control.enforcement,
            host_queue: scenario.queues.host,
            switch_queue: scenario.queues.switch,
            control_delay: scenario.control.delay,
            processing: scenario.control.processing,
            until: scenario.until,
            captures: self.captures.map(capture).unwrap_or_default(),
            monitors,
            rates: self.rates(),
        };
        let mut outcome = packet::run(setup, progress)
            .map_err(|source| Failure::Packet { policy: self.policy.label.clone(), source })?;
        outcome.notes.extend(lost());
        Ok(outcome)
    }

    /// Sampling period of achieved rates; `None` records none.
    fn rates(&self) -> Option<Span> {
        (self.prepared.rates && !self.policy.policy.is_passive()).then_some(LOOK)
    }

    /// The policy. Where agents carry it out each limit that changes costs a message, in every world.
    fn policy(&self) -> Result<Box<dyn Policy + Send>, PolicyError> {
        let scenario = &self.prepared.scenario;
        let has_agents = scenario.control.simulated.is_some() || scenario.lab.daemons.is_some();
        let messages = if has_agents { Messages::Costly } else { Messages::Free };
        let acknowledgements = match scenario.world {
            World::Packet => self.policy.transport.acknowledgements(),
            World::Fluid | World::Lab => Acknowledgements::NONE,
        };
        self.policy.build(messages, acknowledgements)
    }

    /// The policy, alone or within the whole controller, and who tells after the run what that didn't
    /// take.
    fn decider(&self) -> Result<(Box<dyn Policy + '_>, Lost), PolicyError> {
        let scenario = &self.prepared.scenario;
        let Some(Simulated { lease, faults }) = scenario.control.simulated else {
            return Ok((self.policy()?, Box::new(|| None)));
        };
        let make = || self.policy().expect("it was built when the scenario was read");
        let whole = SimulatedController::new(Box::new(make), lease, faults, scenario.seed);
        let lost = Box::new(whole.not_taken());
        Ok((Box::new(whole), lost))
    }

    fn in_lab(&self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Failure> {
        let outcome = match &self.prepared.scenario.lab.daemons {
            None => self.directly(progress),
            Some(governance) => self.by_daemons(governance, progress),
        };
        outcome.map_err(|source| Failure::Lab { policy: self.policy.label.clone(), source })
    }

    /// In the lab, with the policy in this process.
    fn directly(&self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, lab::Error> {
        let control = &self.prepared.scenario.control;
        let refuse = |error: PolicyError| lab::Error::Control(error.to_string());
        // Without a policy the applications need send no messages.
        let policy: Option<Box<dyn Policy>> = if self.policy.policy.is_passive() {
            None
        } else {
            Some(self.policy().map_err(refuse)?)
        };
        let transport = in_kernel(&self.policy.transport)?;
        let mut world = lab::World::new(
            self.lab()?,
            &self.prepared.network,
            transport,
            lab::Control::Direct,
            self.prepared.scenario.until,
        )?;
        world.prepare(self.prepared.traffic.pairs())?;
        let plan = self.plan(policy, control.delay, control.processing);
        engine::drive(world, plan, progress)
    }

    /// In the lab, with the policy in a controller's daemon, enforced by an agent.
    fn by_daemons(
        &self,
        governance: &lab::Governance,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Outcome, lab::Error> {
        let prepared = self.prepared;
        let transport = in_kernel(&self.policy.transport)?;
        let mut lab = self.lab()?;
        // The world speaks for itself.
        drop(self.speak(&mut lab)?);
        let daemons = Rc::new(RefCell::new(self.govern(&mut lab, governance)?));
        // The lab is removed after the daemons have ended.
        let lab = Arc::new(lab);
        let until = prepared.scenario.until;
        let elsewhere = lab::Control::Elsewhere;
        let mut world =
            lab::World::new(Arc::clone(&lab), &prepared.network, transport, elsewhere, until)?;
        let names: Vec<&str> = prepared.traffic.applications().collect();
        let names = if names.is_empty() { vec![engine::UNNAMED] } else { names };
        let northbound =
            Speakers::new(names.into_iter(), daemons.borrow().address(), &world.directory())?;
        let accounts = northbound.accounts();
        let companions = Rc::clone(&daemons);
        world.beside(move || companions.borrow_mut().check());
        world.prepare(self.prepared.traffic.pairs())?;
        // Real delays: none are added.
        let plan = self.plan(Some(Box::new(northbound)), Span::ZERO, Span::ZERO);
        let mut outcome = engine::drive(world, plan, progress)?;
        daemons.borrow_mut().check()?;
        if let Some(daemons) = Rc::into_inner(daemons).filter(|_| prepared.standing.is_none()) {
            daemons.into_inner().stop()?;
        }
        let lines = accounts().into_iter().map(|(name, account)| match &*name {
            engine::UNNAMED => account.line(),
            name => format!("{name}: {}", account.line()),
        });
        outcome.notes.extend(lines);
        Ok(outcome)
    }

    /// Sets up the run's transport and queues in `lab`: agents look for the classes of their ports when they
    /// start.
    ///
    /// # Errors
    /// The kernel lacks a feature.
    pub fn speak(&self, lab: &mut lab::Lab) -> Result<Option<lab::Dctcp>, lab::Error> {
        let strict = self.prepared.scenario.queues.switch == packet::Discipline::StrictPriority;
        lab.prioritize(if strict { lab::LEVELS } else { 1 });
        lab.speak(&in_kernel(&self.policy.transport)?)
    }

    /// Starts the daemons for `lab`, which speaks, with this policy.
    ///
    /// # Errors
    /// Those of the daemons.
    pub fn govern(
        &self,
        lab: &mut lab::Lab,
        governance: &lab::Governance,
    ) -> Result<lab::Daemons, lab::Error> {
        let program = match &self.prepared.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(|error| {
                lab::Error::Control(format!("this program isn't found: {error}"))
            })?,
        };
        // A run's own folder: recordings are named by epochs, which begin again with each run.
        let run = format!("{}-{}", self.policy.label, self.prepared.scenario.seed);
        let record = governance.record.as_ref().map(|folder| folder.join(run));
        let governance = lab::Governance {
            record,
            mss: Bytes::new(self.policy.transport.mss.into()),
            ..governance.clone()
        };
        lab::Daemons::start(lab, &governance, &self.policy.written, &program)
    }

    fn plan<'p, W: engine::Streams + 'static>(
        &'p self,
        policy: Option<Box<dyn Policy>>,
        control_delay: Span,
        processing: Span,
    ) -> Plan<'p, W> {
        let prepared = self.prepared;
        Plan {
            network: prepared.network.clone(),
            application: prepared.traffic.in_streams(),
            policy,
            control_delay,
            processing,
            until: prepared.scenario.until,
            monitors: prepared.scenario.monitors.clone(),
            rates: self.rates(),
        }
    }

    /// The lab to run in: the existing one, or a new one for this run.
    fn lab(&self) -> Result<lab::Lab, lab::Error> {
        let scenario = &self.prepared.scenario;
        if let Some(name) = &self.prepared.standing {
            return lab::Lab::attach(name, &scenario.topology);
        }
        let order = lab::Order {
            name: format!("run{}", std::process::id()),
            switches: scenario.lab.switches,
            segmentation: scenario.lab.segmentation,
            passing: true,
            ..lab::Order::default()
        };
        lab::Lab::up(&scenario.topology, &order)
    }

    fn fluid(&self, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Failure> {
        let scenario = &self.prepared.scenario;
        // This world shares max-min fairly by itself.
        let is_own = self.policy.policy.is_max_min && scenario.control.simulated.is_none();
        let (policy, lost) = if is_own { None } else { Some(self.decider()?) }.unzip();
        let plan = Plan {
            network: self.prepared.network.clone(),
            application: self.prepared.traffic.in_fluid(),
            policy,
            control_delay: scenario.control.delay,
            processing: scenario.control.processing,
            until: scenario.until,
            monitors: scenario.monitors.clone(),
            // Rates are exact in this world.
            rates: None,
        };
        let room = self.memory.map(|most| fluid::Room { most, used: memory::used });
        let mut outcome = fluid::run(plan, room, progress)
            .map_err(|source| Failure::Fluid { policy: self.policy.label.clone(), source })?;
        outcome.notes.extend(lost.and_then(|lost| lost()));
        Ok(outcome)
    }
}

/// Tells what a controller didn't take, for readers of the figures.
type Lost = Box<dyn Fn() -> Option<String>>;

/// Repetitions of a scenario, which differ in their seeds, under the policies of some labels and the baseline
/// that these are compared with.
#[derive(Debug)]
pub struct Repeats<'a> {
    each: Vec<(&'a Prepared, Vec<String>)>,
}

/// One of them: what happened, and the result.
#[derive(Clone, Debug)]
pub struct Repeat {
    /// A run for each policy, the baseline's too.
    pub runs: Vec<Run>,
    /// Their result.
    pub result: RunResult,
}

impl<'a> Repeats<'a> {
    /// `repeats` under the policies `shown`.
    pub fn new(repeats: &'a [Prepared], shown: &[String]) -> Self {
        let each = repeats.iter().map(|prepared| {
            let scenario = &prepared.scenario;
            let baseline = scenario.compares().then_some(&scenario.baseline);
            (prepared, shown.iter().chain(baseline).cloned().collect())
        });
        Self { each: each.collect() }
    }

    /// Their runs. Captures of the first go into `captures`; in the fluid world a run stops above `memory`,
    /// `None`: the usual bound.
    pub fn tasks<'b>(
        &'b self,
        mut captures: Option<&'b Path>,
        memory: Option<Bytes>,
    ) -> Vec<Task<'b>> {
        let each = self.each.iter();
        let tasks = each.flat_map(|(prepared, labels)| prepared.tasks(labels, captures.take()));
        tasks.map(|task| Task { memory: memory.or(task.memory), ..task }).collect()
    }

    /// What became of them, by the runs of all [`tasks`](Self::tasks) in their order.
    pub fn done(&self, runs: Vec<Run>) -> Vec<Repeat> {
        let mut runs = runs.into_iter();
        let each = self.each.iter().map(|(prepared, labels)| {
            let count = prepared.tasks(labels, None).count();
            let runs: Vec<_> = runs.by_ref().take(count).collect();
            let result = prepared.result(&runs);
            Repeat { runs, result }
        });
        each.collect()
    }
}

/// The lab's form of a transport.
///
/// # Errors
/// The kernel has no such transport.
pub fn in_kernel(transport: &Transport) -> Result<lab::Transport, lab::Error> {
    let congestion_control = match transport.protocol {
        Protocol::NewReno => "reno",
        Protocol::Cubic => "cubic",
        Protocol::Dctcp => "dctcp",
        Protocol::Granted | Protocol::LineRate { .. } | Protocol::Messages | Protocol::Datagram => {
            return Err(lab::Error::Transport(
                "hosts of the lab speak newreno, cubic or dctcp; use world = \"packet\"".into(),
            ));
        }
    };
    if transport.ictcp {
        return Err(lab::Error::Transport("no kernel has ictcp; use world = \"packet\"".into()));
    }
    Ok(lab::Transport {
        congestion_control,
        mss: transport.mss,
        header: transport.header,
        initial_window: transport.initial_window,
        min_rto: transport.min_rto,
        delayed_ack: transport.delayed_ack.is_some(),
        receive_window: transport.receive_window,
        sack: transport.sack,
        ecn: transport.protocol == Protocol::Dctcp,
        handshake: transport.handshake,
    })
}

/// The order in which tasks are run: their own. Real engines change with time, so each repeat runs its
/// policies in an order that its seed decides.
pub fn order(tasks: &[Task<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    let mut repeat = 0;
    let mut keys = vec![(0, 0); tasks.len()];
    for (position, task) in tasks.iter().enumerate() {
        let scenario = &task.prepared.scenario;
        if position > 0 && !std::ptr::eq(task.prepared, tasks[position - 1].prepared) {
            repeat += 1;
        }
        if task.prepared.has_engine() {
            let name = format!("order of {}", task.policy.label);
            keys[position] = (repeat, Stream::named(scenario.seed, &name).next_u64());
        } else {
            keys[position] = (repeat, 0);
        }
    }
    order.sort_by_key(|position| keys[*position]);
    order
}

/// Runs all `tasks` on at most `threads` threads, those in the lab one after another. The runs are in the order of the tasks and the
/// same whatever the number of threads. `progress` hears which task has come how far.
///
/// # Errors
/// That of the first task that failed, by order; tasks not begun by then are left out.
///
/// # Panics
/// With the first panic of a task, once all that run have ended; tasks not begun by then are left out.
pub fn run_all(
    tasks: &[Task<'_>],
    threads: usize,
    progress: &(dyn Fn(usize, Progress) + Sync),
) -> Result<Vec<Run>, Failure> {
    // Labs run one at a time: two would compete for processors.
    let in_lab = |task: &Task<'_>| task.prepared.scenario.world == World::Lab;
    let threads = if tasks.iter().any(in_lab) { 1 } else { threads };
    let order = order(tasks);
    let next = AtomicUsize::new(0);
    let finished = Mutex::new(Vec::with_capacity(tasks.len()));
    let panicked = Mutex::new(None);
    let work = || {
        let mut stage = Stage::default();
        while let Some(&position) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let task = &tasks[position];
            // What a policy throws reaches the caller whole, whatever thread it was on.
            let run = || task.run(&mut stage, &mut |now| progress(position, now));
            let result = match catch_unwind(AssertUnwindSafe(run)) {
                Ok(result) => result,
                Err(payload) => {
                    next.store(tasks.len(), Ordering::Relaxed);
                    let mut first =
                        panicked.lock().expect("no thread panics while it holds the lock");
                    first.get_or_insert(payload);
                    return;
                }
            };
            if result.is_err() {
                next.store(tasks.len(), Ordering::Relaxed);
            }
            let mut finished = finished.lock().expect("no thread panics while it holds the lock");
            finished.push((position, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(tasks.len()) {
            scope.spawn(work);
        }
        work();
    });
    let panicked = panicked.into_inner().expect("no thread panics while it holds the lock");
    if let Some(payload) = panicked {
        resume_unwind(payload);
    }
    let mut finished = finished.into_inner().expect("no thread panics while it holds the lock");
    finished.sort_by_key(|(position, _)| *position);
    finished.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LABELS: [&str; 3] = ["tcp", "fair", "smsf"];

    /// Repeats of one scenario, which differ in their seeds.
    fn repeats(world: &str, seeds: impl IntoIterator<Item = u64>, engine: &str) -> Vec<Prepared> {
        let policies = LABELS.map(|label| format!("[[policy]]\nname = \"{label}\"\n"));
        let each = seeds.into_iter().map(|seed| {
            let text = format!(
                "name = \"order\"\ntitle = \"Order\"\nseed = {seed}\nworld = \"{world}\"\n\
                 [topology]\nkind = \"star\"\nhosts = 2\n\
                 access = {{ capacity = \"100 Mbit/s\", delay = \"33 us\", buffer = \"150 KB\" }}\n\
                 [lab]\ncontrol = \"daemons\"\n{engine}[workload]\nkind = \"jobs\"\n\
                 job = [{{ flow = [{{ from = \"h0\", to = \"h1\", size = \"1 MB\" }}] }}]\n{}",
                policies.concat()
            );
            Prepared::new(Scenario::read("order.toml", &text, Path::new(""), &[]).unwrap()).unwrap()
        });
        each.collect()
    }

    /// The labels of each repeat, as they are run.
    fn orders(repeats: &[Prepared]) -> Vec<Vec<String>> {
        let labels = LABELS.map(str::to_owned);
        let tasks: Vec<_> = repeats.iter().flat_map(|one| one.tasks(&labels, None)).collect();
        let order = order(&tasks);
        let repeats = order.chunks(LABELS.len()).zip(repeats).map(|(places, repeat)| {
            let label = |place: &usize| {
                let Task { prepared, policy, .. } = tasks[*place];
                assert!(std::ptr::eq(prepared, repeat), "one repeat after another");
                policy.label.clone()
            };
            places.iter().map(label).collect()
        });
        repeats.collect()
    }

    const ENGINE: &str =
        "[engine]\nkind = \"spark\"\n[[engine.application]]\nname = \"a\"\nrun = \"true\"\n";

    #[test]
    fn the_seed_of_each_repeat_decides_its_order_of_policies_on_an_engine() {
        let seeds = 1..=60;
        let all = orders(&repeats("lab", seeds.clone(), ENGINE));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 6, "no policy has a place: {all:?}");
        // The seed and nothing else: not what runs beside the repeat.
        let backwards = orders(&repeats("lab", seeds.clone().rev(), ENGINE));
        assert!(all.iter().eq(backwards.iter().rev()));
        for (seed, order) in seeds.zip(&all) {
            assert_eq!(orders(&repeats("lab", [seed], ENGINE)), std::slice::from_ref(order));
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), LABELS.len(), "{order:?}");
        }
    }

    #[test]
    fn the_first_of_the_order_is_run_first() {
        for mut repeat in repeats("lab", 1..=9, ENGINE) {
            // A lab that isn't there: the first run fails, and no other begins.
            repeat.standing = Some("order-none".into());
            let labels = LABELS.map(str::to_owned);
            let tasks: Vec<_> = repeat.tasks(&labels, None).collect();
            let failed = run_all(&tasks, 1, &|_, _| {}).unwrap_err();
            let Failure::Lab { policy, .. } = failed else { panic!("{failed}") };
            assert_eq!(policy, orders(std::slice::from_ref(&repeat))[0][0]);
        }
    }

    #[test]
    fn without_an_engine_tasks_are_run_in_their_own_order() {
        for (world, engine) in [("lab", ""), ("packet", ENGINE)] {
            for order in orders(&repeats(world, 1..=9, engine)) {
                assert_eq!(order, LABELS, "{world}");
            }
        }
    }
}
