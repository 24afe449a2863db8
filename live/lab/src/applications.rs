//! Applications of an engine: started in a lab as users start them, until each has told what it measured.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use engine::LinkRecord;
use model::NodeId;
use rustix::process::Pid;
use serde_json::{Map, Value};
use units::{Span, Time};

use crate::cgroup::{self, TRAFFIC, tail};
use crate::health::{Timers, Watch};
use crate::{Engine, Error, Lab, hadoop, place};

/// What an application says when it could begin, at the end of a line.
const READY: &str = "is ready";
/// Below the folder of a lab's engines: a folder for each run.
const RUNS: &str = "runs";
/// The same: a file that is there once what the runs need is prepared.
const PREPARED: &str = "prepared";
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// How long processes of an application may stay after its end.
const LEAVING: Duration = Duration::from_secs(120);
/// Lines of an application's output that an error shows.
const SHOWN: usize = 20;
/// Longest line of results, octets.
const LONGEST: u64 = 1 << 20;

/// Looks ten times a second whether all else is well, and does what else is to be done: with the time since the
/// applications began, `None` before and after.
pub type Beside<'a> = dyn FnMut(Option<Span>) -> Result<(), Error> + 'a;

/// An application, for `sh -c` at a host, in a folder of the run's own. The environment has `RUN`, which no
/// other run of the lab has, `SEED`, the file `GATE`, the address of the `CONTROLLER`, `POLICY` and `SCENARIO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// For errors and progress.
    pub name: String,
    /// When it starts. One whose command names `$GATE` is launched before all others, says `… is ready`, and
    /// waits for that file, which is there from this time on.
    pub start: Span,
    /// The host that it is started at; `None`: the engines' master.
    pub on: Option<NodeId>,
    /// Its command.
    pub run: String,
    /// Where its results are; `None`: in the last line of JSON that it prints, when it has ended. A job of
    /// MapReduce needs to print none: `jct_s` is what the resource manager says.
    pub results: Option<Results>,
}

/// Results of an application that runs until it is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results {
    /// The file, in the folder of the run.
    pub file: String,
    /// The line that counts, from 1; the application is then stopped.
    pub line: usize,
    /// The command that stops it.
    pub stop: String,
}

/// How applications are run.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// What each start of the engines begins with, each to its end, and all before `until`.
    pub prepare: &'a [String],
    /// The applications.
    pub applications: &'a [Application],
    /// When all of them must have their results.
    pub until: Span,
    /// For applications that draw.
    pub seed: u64,
    /// The label of the policy that governs.
    pub policy: &'a str,
    /// The folder of the scenario.
    pub scenario: &'a Path,
}

/// What a run of applications was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ran {
    /// What each application said, in their order.
    pub results: Vec<Map<String, Value>>,
    /// What the links carried.
    pub links: Vec<LinkRecord>,
    /// What all processes took of the processors.
    pub processors: Span,
    /// When the last had its results.
    pub end: Time,
    /// Whether the machine was fast enough.
    pub notes: Vec<String>,
}

/// How far an application is.
enum Stage {
    /// Not launched.
    Waits,
    /// Launched; with a gate, ready from when it said so.
    Runs {
        child: Child,
        is_ready: bool,
    },
    /// Its results are there; what stops it runs.
    Stops {
        child: Child,
    },
    Done,
}

struct Running<'a> {
    application: &'a Application,
    stage: Stage,
    log: PathBuf,
    gate: PathBuf,
    results: Map<String, Value>,
}

impl Running<'_> {
    fn has_gate(&self) -> bool {
        let command = &self.application.run;
        command.contains("$GATE") || command.contains("${GATE")
    }

    fn fault(&self, why: impl std::fmt::Display) -> Error {
        Error::Engine(format!("{} {why}\n{}", self.application.name, tail(&self.log, SHOWN)))
    }
}

/// A run in progress.
struct Run<'a> {
    lab: &'a Lab,
    master: NodeId,
    folder: PathBuf,
    traffic: PathBuf,
    number: u32,
    session: &'a Session<'a>,
}

impl Lab {
    /// Runs applications on the engines that [`Lab::run_engine`] has started; see [`Beside`]. `tell` hears how far they are. Returns when their processes have ended.
    ///
    /// # Errors
    /// [`Error::Engine`]: no engine runs, an application has failed or has no results in time; what `beside`
    /// says.
    pub fn run_applications(
        &self,
        session: &Session<'_>,
        beside: &mut Beside<'_>,
        tell: &dyn Fn(&str),
    ) -> Result<Ran, Error> {
        let group = self.journal.cgroup.as_ref().filter(|_| !self.journal.engines.is_empty());
        let (Some(group), Some(master)) = (group, self.blueprint.topology.hosts().next()) else {
            let what = "the lab runs none; start it with watermaster lab up FILE --engine NAME";
            return Err(Error::Engine(what.into()));
        };
        let shared = place::folder(&self.journal.name);
        let (runs, prepared) = (shared.join(RUNS), shared.join(PREPARED));
        let state = |error: std::io::Error| Error::State(format!("{}: {error}", runs.display()));
        fs::create_dir_all(&runs).map_err(state)?;
        let number = u32::try_from(fs::read_dir(&runs).map_err(state)?.count()).unwrap_or(u32::MAX);
        let folder = runs.join(number.to_string());
        fs::create_dir(&folder).map_err(state)?;
        let run = Run { lab: self, master, folder, traffic: group.join(TRAFFIC), number, session };
        if !prepared.exists() {
            run.prepare(beside, tell)?;
            fs::write(&prepared, "").map_err(state)?;
        }
        run.drive(beside, tell)
    }
}

impl Run<'_> {
    /// Starts `command` at a host.
    fn spawn(&self, host: NodeId, command: &str, log: &Path, gate: &Path) -> Result<Child, Error> {
        let mut at = place::at(&self.lab.journal, self.lab.host_name(host));
        at.args(["sh", "-c", command]).current_dir(&self.folder);
        let Session { seed, policy, scenario, .. } = self.session;
        at.env("RUN", self.number.to_string()).env("SEED", seed.to_string()).env("GATE", gate);
        at.env("POLICY", policy).env("SCENARIO", scenario);
        at.env("CONTROLLER", self.lab.controller().to_string());
        cgroup::spawn(&self.traffic, &at, log)
    }

    fn launch(&self, own: &Running<'_>) -> Result<Child, Error> {
        let host = own.application.on.unwrap_or(self.master);
        self.spawn(host, &own.application.run, &own.log, &own.gate)
    }

    /// Runs all commands that prepare at once, to their ends.
    fn prepare(&self, beside: &mut Beside<'_>, tell: &dyn Fn(&str)) -> Result<(), Error> {
        let mut open = Vec::new();
        for (number, command) in self.session.prepare.iter().enumerate() {
            tell(&format!("preparing: {command}"));
            let log = self.folder.join(format!("prepare-{number}.out"));
            open.push((self.spawn(self.master, command, &log, Path::new(""))?, command, log));
        }
        let begun = Instant::now();
        while let Some((mut child, command, log)) = open.pop() {
            let fault =
                |why: String| Error::Engine(format!("{command}: {why}\n{}", tail(&log, SHOWN)));
            match child.try_wait() {
                Ok(None) if passed(begun) > self.session.until => {
                    return Err(fault(format!("has not ended after {}", self.session.until)));
                }
                Ok(None) => open.insert(0, (child, command, log)),
                Ok(Some(status)) if status.success() => {}
                _ => return Err(fault("has failed".into())),
            }
            beside(None)?;
            sleep(LOOK);
        }
        Ok(())
    }

    fn drive(&self, beside: &mut Beside<'_>, tell: &dyn Fn(&str)) -> Result<Ran, Error> {
        let before: HashSet<Pid> = cgroup::members(&self.traffic).into_iter().collect();
        let mut all: Vec<Running<'_>> = self
            .session
            .applications
            .iter()
            .map(|application| Running {
                application,
                stage: Stage::Waits,
                log: self.folder.join(format!("{}.out", application.name)),
                gate: self.folder.join(format!("{}.gate", application.name)),
                results: Map::new(),
            })
            .collect();
        for own in all.iter_mut().filter(|own| own.has_gate()) {
            tell(&format!("{} is launched", own.application.name));
            let child = self.launch(own)?;
            own.stage = Stage::Runs { child, is_ready: false };
        }
        let launched = Instant::now();
        loop {
            let mut waits = false;
            for own in &mut all {
                waits |= !self.is_ready(own)?;
            }
            if !waits {
                break;
            }
            self.look((launched, false), beside, &all)?;
        }
        let watch = Watch::start(self.lab)?;
        let (start, taken) = (Instant::now(), self.taken()?);
        loop {
            let mut is_over = true;
            for own in &mut all {
                self.step(own, start, tell)?;
                is_over &= matches!(own.stage, Stage::Done);
            }
            if is_over {
                break;
            }
            self.look((start, true), beside, &all)?;
        }
        let end = Time::ZERO + passed(start);
        let processors = self.taken()?.saturating_sub(taken);
        let seen = watch.stop()?;
        let verdict = seen.judge(&self.lab.blueprint.topology, &Timers::default());
        self.wait_for_the_end(&before, beside)?;
        Ok(Ran {
            results: all.into_iter().map(|own| own.results).collect(),
            links: seen.records().collect(),
            processors: Span::from_micros(processors),
            end,
            notes: vec![verdict.line()],
        })
    }

    /// Between two steps.
    fn look(
        &self,
        (since, has_begun): (Instant, bool),
        beside: &mut Beside<'_>,
        all: &[Running<'_>],
    ) -> Result<(), Error> {
        beside(has_begun.then(|| passed(since)))?;
        if passed(since) > self.session.until
            && let Some(late) = all.iter().find(|own| !matches!(own.stage, Stage::Done))
        {
            return Err(late.fault(format_args!("has no results after {}", self.session.until)));
        }
        sleep(LOOK);
        Ok(())
    }

    /// Whether it could begin at its time.
    fn is_ready(&self, own: &mut Running<'_>) -> Result<bool, Error> {
        let text = fs::read_to_string(&own.log).unwrap_or_default();
        let says_so = text.lines().any(|line| line.trim_end().ends_with(READY));
        let Stage::Runs { child, is_ready } = &mut own.stage else { return Ok(true) };
        *is_ready = *is_ready || says_so;
        let (is_ready, ended) = (*is_ready, child.try_wait().ok().flatten());
        match ended {
            Some(status) if !is_ready => {
                Err(own.fault(format_args!("has ended before it was ready ({status})")))
            }
            _ => Ok(is_ready),
        }
    }

    /// What is due of an application.
    fn step(
        &self,
        own: &mut Running<'_>,
        start: Instant,
        tell: &dyn Fn(&str),
    ) -> Result<(), Error> {
        let name = &own.application.name;
        let is_due = passed(start) >= own.application.start;
        let has_gate = own.has_gate();
        match &mut own.stage {
            Stage::Waits if is_due => {
                tell(&format!("{name} starts"));
                let child = self.launch(own)?;
                own.stage = Stage::Runs { child, is_ready: true };
            }
            Stage::Waits | Stage::Done => {}
            Stage::Runs { child, .. } => {
                if is_due && has_gate && !own.gate.exists() {
                    tell(&format!("{name} starts"));
                    fs::write(&own.gate, "").map_err(|error| {
                        Error::State(format!("{}: {error}", own.gate.display()))
                    })?;
                }
                let ended =
                    child.try_wait().map_err(|error| Error::Engine(format!("{name}: {error}")))?;
                if let Some(status) = ended.filter(|status| !status.success()) {
                    return Err(own.fault(format_args!("has failed ({status})")));
                }
                match &own.application.results {
                    None if ended.is_some() => {
                        own.results = self.printed(own)?;
                        tell(&format!("{name} has ended: {}", json(&own.results)));
                        own.stage = Stage::Done;
                    }
                    Some(Results { file, line, stop }) => {
                        if let Some(results) = line_of(&self.folder.join(file), *line) {
                            own.results = results.map_err(|error| own.fault(error))?;
                            tell(&format!("{name} is stopped: {}", json(&own.results)));
                            let log = self.folder.join(format!("{name}-stop.out"));
                            let host = own.application.on.unwrap_or(self.master);
                            let child = self.spawn(host, stop, &log, &own.gate)?;
                            own.log = log;
                            own.stage = Stage::Stops { child };
                        }
                    }
                    None => {}
                }
            }
            Stage::Stops { child } => {
                let ended =
                    child.try_wait().map_err(|error| Error::Engine(format!("{name}: {error}")))?;
                match ended {
                    Some(status) if status.success() => own.stage = Stage::Done,
                    Some(status) => {
                        return Err(own.fault(format_args!("can't be stopped ({status})")));
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// The last object of JSON among what an application printed.
    fn printed(&self, own: &Running<'_>) -> Result<Map<String, Value>, Error> {
        let text = fs::read_to_string(&own.log)
            .map_err(|error| Error::State(format!("{}: {error}", own.log.display())))?;
        if let Some(object) = text.lines().rev().find_map(|line| serde_json::from_str(line).ok()) {
            return Ok(object);
        }
        let asked = if self.lab.journal.engines.contains(&Engine::Hadoop) {
            hadoop::completion(self.lab, &text)?
        } else {
            None
        };
        asked.ok_or_else(|| own.fault("has printed no results: no line is an object of JSON"))
    }

    /// What the processes have taken of the processors so far, microseconds (`cpu.stat`, kernel documentation,
    /// cgroup-v2).
    fn taken(&self) -> Result<u64, Error> {
        let file = self.traffic.join("cpu.stat");
        let text = fs::read_to_string(&file)
            .map_err(|error| Error::State(format!("{}: {error}", file.display())))?;
        let used = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.parse().ok());
        used.ok_or_else(|| Error::State(format!("{}: usage_usec is missing", file.display())))
    }

    /// Until no process is left that wasn't there before.
    fn wait_for_the_end(
        &self,
        before: &HashSet<Pid>,
        beside: &mut Beside<'_>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let left = cgroup::members(&self.traffic);
            let Some(pid) = left.into_iter().find(|pid| !before.contains(pid)) else {
                return Ok(());
            };
            if start.elapsed() > LEAVING {
                return Err(Error::Engine(format!(
                    "process {} of an application still runs {} s after it ended",
                    pid.as_raw_nonzero(),
                    LEAVING.as_secs()
                )));
            }
            beside(None)?;
            sleep(LOOK);
        }
    }
}

/// As it was said.
fn json(results: &Map<String, Value>) -> String {
    serde_json::to_string(results).unwrap_or_default()
}

fn passed(since: Instant) -> Span {
    Span::from_nanos(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// The object in a line of a file, once the line is whole.
fn line_of(file: &Path, line: usize) -> Option<Result<Map<String, Value>, serde_json::Error>> {
    let mut reader = BufReader::new(fs::File::open(file).ok()?);
    let mut text = String::new();
    for _ in 0..line {
        text.clear();
        std::io::Read::take(&mut reader, LONGEST).read_line(&mut text).ok()?;
    }
    text.ends_with('\n').then(|| serde_json::from_str(&text))
}

#[cfg(test)]
mod tests {
    use model::build::{Access, star};
    use model::{Buffer, LinkSpec};
    use testing::needs::root;
    use units::Rate;

    use super::*;
    use crate::{Faults, Order};

    /// A lab whose engine is no more than its folder.
    fn lab(name: &str) -> Lab {
        let link = LinkSpec {
            capacity: Rate::from_mbps(100),
            delay: Span::ZERO,
            buffer: Buffer::Packets(100),
            mark: None,
        };
        let topology = star(2, &Access { link, nic: Buffer::Packets(100) }).unwrap();
        let name = format!("{name}{}", std::process::id());
        let order = Order { name, passing: true, ..Order::default() };
        let mut lab = Lab::up(&topology, &order).unwrap();
        cgroup::create(&lab.group().unwrap().join(TRAFFIC)).unwrap();
        lab.journal.engines = vec![Engine::Spark];
        lab.journal.write().unwrap();
        let folder = place::folder(lab.name());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(place::HOSTS), "127.0.0.1 localhost\n").unwrap();
        lab
    }

    fn application(name: &str, start: u64, run: &str) -> Application {
        let start = Span::from_millis(start);
        Application { name: name.into(), start, on: None, run: run.into(), results: None }
    }

    fn session(applications: &[Application], seconds: u64) -> Session<'_> {
        let until = Span::from_secs(seconds);
        let scenario = Path::new("/scenarios");
        Session { prepare: &[], applications, until, seed: 7, policy: "tcp", scenario }
    }

    fn run(lab: &Lab, prepare: &[String], applications: &[Application]) -> Result<Ran, Error> {
        let until = Span::from_secs(120);
        let session = Session { prepare, applications, until, ..session(&[], 0) };
        lab.run_applications(&session, &mut |_| Ok(()), &|_| {})
    }

    #[test]
    fn applications_start_at_their_times_and_tell_what_they_measured() {
        if !root() {
            return;
        }
        let lab = lab("apps");
        let prepare = ["echo 1 >> ../../times".to_owned()];
        let gated = "echo It is ready; until [ -e ${GATE} ]; do sleep 0.05; done; \
                     echo '{\"seed\": '$SEED'}'; echo end";
        let mut served = application(
            "served",
            0,
            "(echo '{\"a\": 1}'; echo '{\"a\": 2}'; until [ -e stop ]; do sleep 0.05; done) >r &",
        );
        served.results = Some(Results { file: "r".into(), line: 2, stop: "touch stop".into() });
        // h1 is the second host, and its name the one that processes see there.
        let mut other = application(
            "other",
            0,
            "touch other; echo '{\"b\": \"'$(uname -n) $CONTROLLER $POLICY $SCENARIO'\"}'",
        );
        other.on = lab.blueprint.topology.hosts().nth(1);
        let all = [application("late", 300, gated), other, served];
        for number in ["0", "1"] {
            let ran = run(&lab, &prepare, &all).unwrap();
            assert_eq!(ran.results[0]["seed"], 7);
            let place = format!("h1 {} tcp /scenarios", lab.controller());
            assert_eq!(ran.results[1]["b"], place);
            assert_eq!(ran.results[2]["a"], 2);
            assert!(ran.processors > Span::ZERO && ran.end >= Time::ZERO + Span::from_millis(300));
            assert_eq!(ran.links.len(), 4);
            assert!(place::folder(lab.name()).join(RUNS).join(number).join("other").exists());
        }
        let prepared = fs::read_to_string(place::folder(lab.name()).join("times"));
        assert_eq!(prepared.unwrap(), "1\n");
    }

    #[test]
    fn an_application_that_fails_says_how_far_it_came() {
        if !root() {
            return;
        }
        let mut lab = lab("fail");
        let hangs = ["echo begun; sleep 1000".to_owned()];
        let hung = Session { prepare: &hangs, ..session(&[], 1) };
        let error = lab.run_applications(&hung, &mut |_| Ok(()), &|_| {}).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("has not ended after 1 s") && text.contains("begun"), "{text}");
        let mut served = application("served", 0, "echo begun; sleep 1000");
        served.results = Some(Results { file: "r".into(), line: 1, stop: "true".into() });
        for (application, until, fault) in [
            (application("a", 0, "echo begun; exit 3"), 60, "a has failed (exit status: 3)"),
            (application("b", 0, "echo begun"), 60, "b has printed no results"),
            (application("c", 0, "echo begun # $GATE"), 60, "c has ended before it was ready"),
            (served, 1, "served has no results after 1 s"),
        ] {
            let session = session(std::slice::from_ref(&application), until);
            let error = lab.run_applications(&session, &mut |_| Ok(()), &|_| {}).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(fault) && text.contains("begun"), "{text}");
        }
        let dies = |_| Err(Error::Control("the controller has ended".into()));
        let waits = [application("d", 0, "sleep 1000")];
        let error = lab.run_applications(&session(&waits, 9), &mut { dies }, &|_| {});
        assert!(error.unwrap_err().to_string().contains("the controller has ended"));
        lab.journal.engines.clear();
        let error = run(&lab, &[], &waits).unwrap_err();
        assert!(error.to_string().contains("the lab runs none"), "{error}");
    }

    #[test]
    fn only_what_applications_run_at_a_host_is_killed() {
        if !root() {
            return;
        }
        let lab = lab("struck");
        let hosts: Vec<NodeId> = lab.blueprint.topology.hosts().collect();
        // As an engine's daemon, at the same host.
        let mut daemon = place::at(&lab.journal, lab.host_name(hosts[1]));
        daemon.args(["sleep", "1000"]).current_dir(place::folder(lab.name()));
        let traffic = lab.journal.cgroup.as_ref().unwrap().join(TRAFFIC);
        let log = place::folder(lab.name()).join("daemon.out");
        let mut daemon = cgroup::spawn(&traffic, &daemon, &log).unwrap();
        assert!(testing::wait::eventually(|| !cgroup::members(&traffic).is_empty()));
        let faults = Faults::new(&[], &lab);
        let nobody = faults.kill_tasks(&lab, hosts[1]).unwrap_err().to_string();
        assert!(nobody.contains("no process of an application runs at h1"), "{nobody}");
        let mut struck = application("struck", 0, "touch ../begun; exec sleep 1000");
        struck.on = Some(hosts[1]);
        let waits = application("waits", 0, "exec sleep 1000");
        let begun = place::folder(lab.name()).join(RUNS).join("begun");
        let mut beside = |_| {
            if begun.exists() {
                fs::remove_file(&begun).unwrap();
                faults.kill_tasks(&lab, hosts[1])?;
            }
            Ok(())
        };
        let all = [waits, struck];
        let error = lab.run_applications(&session(&all, 60), &mut beside, &|_| {}).unwrap_err();
        assert!(error.to_string().contains("struck has failed (signal: 9"), "{error}");
        assert!(daemon.try_wait().unwrap().is_none(), "what ran before is spared");
        // What waits at the other host.
        assert_eq!(faults.kill_tasks(&lab, hosts[0]).unwrap(), 1);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    #[test]
    fn a_line_counts_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results");
        assert!(line_of(&file, 1).is_none());
        fs::write(&file, "{\"a\": 1}\n{\"a\":").unwrap();
        assert_eq!(line_of(&file, 1).unwrap().unwrap()["a"], 1);
        assert!(line_of(&file, 2).is_none());
        fs::write(&file, "{\"a\": 1}\n{\"a\": 2}\n").unwrap();
        assert_eq!(line_of(&file, 2).unwrap().unwrap()["a"], 2);
        assert!(line_of(&file, 3).is_none());
        fs::write(&file, "nothing\n").unwrap();
        assert!(line_of(&file, 1).unwrap().is_err());
    }
}
