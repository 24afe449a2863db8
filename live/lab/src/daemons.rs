//! The controller and the agent of a lab: the daemons of real deployments, configured for the lab.
//!
//! Each has a control group below the lab's, by which it is found and ended whoever started it, and
//! removed with the lab after any crash. Their logs are in the lab's folder.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::NodeId;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use units::Span;
use wire::client::{Address, Client};

use crate::blueprint::Forwarding;
use crate::cgroup::{Membership, TRAFFIC, tail};
use crate::{Enforcement, Error, Governance, Lab, cgroup, configuration, namespace, ovs};

/// How long a daemon may take to be ready, and to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two polls.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of a daemon's log that an error shows.
const SHOWN: usize = 12;

/// One of the two daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Daemon {
    /// The controller.
    Controller,
    /// The agent.
    Agent,
}

impl Daemon {
    /// The command that starts it, which also names its control group and its files.
    const fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Agent => "agent",
        }
    }
}

/// What is killed, as by a crash, while applications run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A daemon.
    Daemon {
        /// Which.
        kill: Daemon,
        /// When, since the applications began.
        at: Span,
        /// When it starts again, since the same; `None`: never.
        back: Option<Span>,
    },
    /// All that applications run at a host, but not the engine's daemons there.
    Tasks {
        /// The host.
        on: NodeId,
        /// When, since the applications began.
        at: Span,
    },
}

/// What a [`Fault`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Launch(Daemon),
    Kill(Daemon),
    KillTasks(NodeId),
}

/// The faults that are still to come.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The last comes first.
    acts: Vec<(Span, Act)>,
    /// Processes that ran before the applications.
    spared: HashSet<Pid>,
}

impl Faults {
    /// All of them, before the applications of `lab` begin.
    pub fn new(faults: &[Fault], lab: &Lab) -> Self {
        Self { acts: acts(faults), spared: traffic(lab).into_iter().collect() }
    }

    /// Kills what applications run at a host, and says how many processes that was.
    pub(crate) fn kill_tasks(&self, lab: &Lab, host: NodeId) -> Result<usize, Error> {
        let room = lab.namespace(host);
        let mut tasks = traffic(lab);
        tasks.retain(|pid| !self.spared.contains(pid) && namespace::holds(&room, *pid));
        if tasks.is_empty() {
            return Err(Error::Engine(format!(
                "no process of an application runs at {} when it is to be killed; name another \
                 host, or a later time",
                lab.host_name(host)
            )));
        }
        signal_all(&tasks, Signal::KILL);
        Ok(tasks.len())
    }

    /// What is due when so much time has passed, one after another.
    fn due(&mut self, passed: Span) -> Option<Act> {
        self.acts.pop_if(|(at, _)| *at <= passed).map(|(_, act)| act)
    }

    /// How many have not come.
    pub fn left(&self) -> usize {
        self.acts.len()
    }
}

/// All that runs in a lab, but for its controller and agent.
fn traffic(lab: &Lab) -> Vec<Pid> {
    let group = lab.journal.cgroup.as_ref();
    group.map(|group| cgroup::members(&group.join(TRAFFIC))).unwrap_or_default()
}

fn acts(faults: &[Fault]) -> Vec<(Span, Act)> {
    let mut all = Vec::new();
    for fault in faults {
        match *fault {
            Fault::Daemon { kill, at, back } => {
                all.push((at, Act::Kill(kill)));
                all.extend(back.map(|back| (back, Act::Launch(kill))));
            }
            Fault::Tasks { on, at } => all.push((at, Act::KillTasks(on))),
        }
    }
    all.sort_by_key(|due| std::cmp::Reverse(*due));
    all
}

/// A controller and an agent that govern a lab. While this lives, connections that this process makes
/// in the lab are the agent's to govern. Dropped, it leaves the daemons running: they end with
/// [`Daemons::stop`], when others take their place, or with the lab.
#[derive(Debug)]
pub struct Daemons {
    program: PathBuf,
    folder: PathBuf,
    address: Address,
    group: PathBuf,
    /// The namespace in which Open vSwitch connects to the controller.
    switches: Option<String>,
    /// Hosts and switches that must be connected.
    expected: Expected,
    trace: bool,
    controller: Option<Child>,
    agent: Option<Child>,
    _membership: Membership,
}

#[derive(Clone, Copy, Debug)]
struct Expected {
    nodes: usize,
    switches: usize,
}

impl Daemons {
    /// Starts both by the program `program`, which is `watermaster`, replacing running ones.
    /// `policy` is the body of the configuration's table `[policy]`. Returns when the agent acts
    /// for all hosts and all switches are configured.
    ///
    /// # Errors [`Error::Control`], with the end of the daemon's log.
    pub fn start(
        lab: &mut Lab,
        governance: &Governance,
        policy: &str,
        program: &Path,
    ) -> Result<Self, Error> {
        let with_ovs = lab.blueprint.forwarding == Forwarding::Ovs;
        if governance.enforcement == Enforcement::Meters && !with_ovs {
            let why = "enforcement = \"meters\" needs switches with meters; use switches = \"ovs\"";
            return Err(Error::Control(why.into()));
        }
        let group = lab.group()?;
        let folder = lab.folder().to_owned();
        for daemon in [Daemon::Agent, Daemon::Controller] {
            end(&group.join(daemon.name()))?;
        }
        let traffic = group.join(TRAFFIC);
        let membership = Membership::begin(&traffic)?;
        let plan = &lab.blueprint;
        let address = lab.controller();
        let agent = configuration::agent(
            plan,
            governance.mss,
            |node| lab.namespace(node),
            &traffic,
            &folder.join(configuration::PINS),
            &address,
        );
        let texts = [
            (Daemon::Controller, configuration::controller(plan, governance, policy)),
            (Daemon::Agent, agent),
        ];
        for (daemon, text) in texts {
            let file = folder.join(daemon.name()).with_extension("toml");
            fs::write(&file, text).map_err(|error| control(&file, error))?;
        }
        let hosts = plan.topology.hosts().count();
        let switches = plan.switches().count();
        let mut daemons = Self {
            program: program.to_owned(),
            folder,
            address,
            group,
            switches: with_ovs.then(|| lab.journal.namespace("ovs")),
            expected: Expected {
                nodes: if with_ovs { hosts } else { hosts + switches },
                switches: if with_ovs { switches } else { 0 },
            },
            trace: governance.trace,
            controller: None,
            agent: None,
            _membership: membership,
        };
        daemons.launch(Daemon::Controller)?;
        if with_ovs {
            ovs::obey(&lab.journal, &lab.blueprint, configuration::OPENFLOW)?;
        }
        daemons.launch(Daemon::Agent)?;
        daemons.wait()?;
        Ok(daemons)
    }

    /// Where the controller listens.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Starts one that was ended, without waiting until it is ready.
    ///
    /// # Errors
    /// [`Error::Control`].
    pub fn launch(&mut self, daemon: Daemon) -> Result<(), Error> {
        let name = daemon.name();
        let group = self.group.join(name);
        if !group.exists() {
            cgroup::create(&group)?;
        }
        let inside = self.switches.as_ref().filter(|_| daemon == Daemon::Controller);
        let mut command = match inside {
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        let configuration = self.folder.join(name).with_extension("toml");
        if self.trace {
            command.env("RUST_LOG", "info,delay=debug");
        }
        command.arg(name).arg("--config").arg(configuration).current_dir(&self.folder);
        let child = cgroup::spawn(&group, &command, &self.log(daemon))?;
        *self.child(daemon) = Some(child);
        Ok(())
    }

    /// Ends one by a signal: [`Signal::TERM`] to end in order, [`Signal::KILL`] as a crash does;
    /// returns when it is gone.
    ///
    /// # Errors
    /// It doesn't end.
    pub fn end(&mut self, daemon: Daemon, signal: Signal) -> Result<(), Error> {
        let group = self.group.join(daemon.name());
        signal_all(&cgroup::members(&group), signal);
        let ended = wait_until_empty(&group);
        if let Some(mut child) = self.child(daemon).take() {
            // It is gone, or the error below reports that it isn't.
            let _ = if ended.is_ok() { child.wait().map(Some) } else { child.try_wait() };
        }
        ended
    }

    /// Suffers the faults that are due when so much time has passed. `tell` hears of them.
    ///
    /// # Errors
    /// [`Error::Control`]: a daemon doesn't end, or can't be started. [`Error::Engine`]: nothing of an
    /// application runs where it is to be killed.
    pub fn suffer(
        &mut self,
        faults: &mut Faults,
        lab: &Lab,
        passed: Span,
        tell: &dyn Fn(&str),
    ) -> Result<(), Error> {
        while let Some(act) = faults.due(passed) {
            match act {
                Act::Kill(daemon) => {
                    tell(&format!("the {} is killed", daemon.name()));
                    self.end(daemon, Signal::KILL)?;
                }
                Act::Launch(daemon) => {
                    tell(&format!("the {} starts again", daemon.name()));
                    self.launch(daemon)?;
                }
                Act::KillTasks(host) => {
                    let (name, count) = (lab.host_name(host), faults.kill_tasks(lab, host)?);
                    tell(&format!("{count} processes of applications at {name} are killed"));
                }
            }
        }
        Ok(())
    }

    /// Waits until the agent acts for all hosts and all switches are configured.
    ///
    /// # Errors [`Error::Control`]: a daemon has ended, or is not ready in time; with the end of
    /// its log.
    pub fn wait(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            self.check()?;
            let missing = match self.status() {
                Ok(status) => self.missing(&status),
                Err(error) => Some((Daemon::Controller, error.to_string())),
            };
            let Some((daemon, what)) = missing else { return Ok(()) };
            if start.elapsed() > PATIENCE {
                return Err(Error::Control(format!(
                    "after {} s {what}\n{}",
                    PATIENCE.as_secs(),
                    tail(&self.log(daemon), SHOWN)
                )));
            }
            sleep(LOOK);
        }
    }

    /// What is missing, and the daemon whose log may say why.
    fn missing(&self, status: &Value) -> Option<(Daemon, String)> {
        let acting = |agent: &Value| agent["hosts"].as_array().map_or(0, Vec::len);
        let nodes: usize = status["agents"].as_array().into_iter().flatten().map(acting).sum();
        if nodes < self.expected.nodes {
            return Some((Daemon::Agent, "the agent is not connected".into()));
        }
        let switches = status["switches"].as_array().into_iter().flatten();
        let settled = |switch: &&Value| switch["connected"] == true && switch["settled"] == true;
        let settled = switches.filter(settled).count();
        (settled < self.expected.switches).then(|| {
            let of = self.expected.switches;
            (Daemon::Controller, format!("{settled} of {of} switches have settled"))
        })
    }

    /// Whether those that were started still run.
    ///
    /// # Errors [`Error::Control`], with the end of its log.
    pub fn check(&mut self) -> Result<(), Error> {
        for daemon in [Daemon::Controller, Daemon::Agent] {
            let Some(child) = self.child(daemon) else { continue };
            if let Ok(Some(status)) = child.try_wait() {
                let name = daemon.name();
                return Err(Error::Control(format!(
                    "the {name} has ended ({status})\n{}",
                    tail(&self.log(daemon), SHOWN)
                )));
            }
        }
        Ok(())
    }

    /// The controller's status (`GET /v1/status`).
    ///
    /// # Errors
    /// [`Error::Control`].
    pub fn status(&self) -> Result<Value, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| control(&self.folder, error))?;
        let answer = runtime.block_on(async {
            let mut client = Client::connect(&self.address, None).await?;
            client.get("/v1/status").await
        });
        let answer = answer.map_err(|error| Error::Control(error.to_string()))?;
        serde_json::from_slice(&answer).map_err(|error| Error::Control(error.to_string()))
    }

    /// Ends both in order: the agent first, which releases all connections.
    ///
    /// # Errors
    /// One doesn't end.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end(Daemon::Agent, Signal::TERM)?;
        self.end(Daemon::Controller, Signal::TERM)
    }

    fn child(&mut self, daemon: Daemon) -> &mut Option<Child> {
        match daemon {
            Daemon::Controller => &mut self.controller,
            Daemon::Agent => &mut self.agent,
        }
    }

    /// The path of a daemon's log, which exists as long as the lab.
    pub fn log(&self, daemon: Daemon) -> PathBuf {
        self.folder.join(daemon.name()).with_extension("out")
    }
}

/// Ends what runs in a group, in order where it listens.
fn end(group: &Path) -> Result<(), Error> {
    signal_all(&cgroup::members(group), Signal::TERM);
    wait_until_empty(group)
}

fn signal_all(members: &[Pid], signal: Signal) {
    for pid in members {
        // It may have ended already.
        let _ = kill_process(*pid, signal);
    }
}

fn wait_until_empty(group: &Path) -> Result<(), Error> {
    let start = Instant::now();
    while !cgroup::members(group).is_empty() {
        if start.elapsed() > PATIENCE {
            return cgroup::remove(group);
        }
        sleep(LOOK);
    }
    Ok(())
}

fn control(path: &Path, error: std::io::Error) -> Error {
    Error::Control(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_in_the_order_of_their_times() {
        let seconds = Span::from_secs;
        let (controller, agent) = (Daemon::Controller, Daemon::Agent);
        let daemon = |kill, at, back| Fault::Daemon { kill, at: seconds(at), back };
        let mut faults = Faults {
            acts: acts(&[
                daemon(controller, 5, Some(seconds(9))),
                daemon(agent, 2, None),
                daemon(controller, 9, None),
                Fault::Tasks { on: NodeId(3), at: seconds(4) },
            ]),
            spared: HashSet::new(),
        };
        assert_eq!(faults.left(), 5);
        for (passed, due) in [
            (1, None),
            (2, Some(Act::Kill(agent))),
            (2, None),
            (8, Some(Act::KillTasks(NodeId(3)))),
            (8, Some(Act::Kill(controller))),
            (8, None),
            // What is to be there and is killed at one time is killed.
            (9, Some(Act::Launch(controller))),
            (9, Some(Act::Kill(controller))),
            (9, None),
        ] {
            assert_eq!(faults.due(seconds(passed)), due, "{passed} s");
        }
        assert_eq!(faults.left(), 0);
    }
}
