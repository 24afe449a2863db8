//! `watermaster lab`.

mod compare;
mod delay;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use ::lab::{Error, Journal, Lab, Order, Phase, Removed, Switches};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use experiment::run::{Prepared, Task, run_all};
use experiment::scenario::{Override, Scenario};
use experiment::table;
use serde::Serialize;

use crate::failure::{Failure, note, print};
use crate::input::prepare;
use crate::policies::{chosen, listed};
use crate::progress::Bar;
use crate::staging::clean_up_on_interrupt;

/// Virtual clusters on this machine: network namespaces, shaped links, and the kernel's own TCP
#[derive(Subcommand)]
#[command(after_help = "Example:\n  \
    sudo watermaster lab up scenarios/lab/two-shuffles.toml --name demo\n  \
    sudo watermaster lab run demo\n  \
    sudo watermaster lab shell demo h0 -- ping -c 3 10.0.0.4\n  \
    sudo watermaster lab down demo")]
pub(crate) enum Command {
    Up(Up),
    Run(Run),
    Compare(compare::Compare),
    Delay(delay::Delay),
    Down(Down),
    Shell(Shell),
    List(List),
}

impl Command {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        match self {
            Self::Up(command) => command.execute(),
            Self::Run(command) => command.execute(),
            Self::Compare(command) => command.execute(),
            Self::Delay(command) => command.execute(),
            Self::Down(command) => command.execute(),
            Self::Shell(command) => command.execute(),
            Self::List(command) => command.execute(),
        }
    }
}

/// Errors that the user can mend are misuse; others are failures.
fn failed(error: Error) -> Failure {
    match error {
        Error::Name(_)
        | Error::None(_)
        | Error::Taken(_)
        | Error::Foreign(_)
        | Error::Other(_)
        | Error::Busy(_)
        | Error::Missing(_)
        | Error::Topology(_)
        | Error::Transport(_) => Failure::misused(error),
        _ => Failure::failed(error),
    }
}

/// Prints `value` as JSON, or `text`.
fn tell(json: bool, value: &impl Serialize, text: &str) -> Result<(), Failure> {
    if !json {
        return print(text);
    }
    let json = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    print(&(json + "\n"))
}

/// Build a scenario's topology and keep it
#[derive(Args)]
#[command(after_help = "Examples:\n  sudo watermaster lab up scenarios/lab/two-shuffles.toml\n  \
                        sudo watermaster lab up scenarios/engines/flink.toml --engine flink\n  \
                        sudo watermaster lab up scenarios/engines/hadoop.toml --engine hadoop\n  \
                        sudo watermaster lab up scenarios/engines/spark.toml --engine spark\n  \
                        sudo watermaster lab up scenarios/engines/storm.toml --engine storm")]
pub(crate) struct Up {
    /// The scenario file
    scenario: PathBuf,

    /// Its name: namespaces are called wm-NAME-NODE [default: name of the scenario]
    #[arg(long)]
    name: Option<String>,

    /// What forwards: bridge, of the kernel (with loops: its routing); or ovs, Open vSwitch
    #[arg(long, value_name = "KIND", value_parser = ["bridge", "ovs"])]
    switches: Option<String>,

    /// The policy that its daemons begin with, by label or name [default: the first of the scenario]
    #[arg(long, value_name = "A", value_parser = crate::policies::Label, hide_possible_values = true)]
    policy: Option<String>,

    /// Change a key of the scenario; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    changes: Vec<Override>,

    /// Run an engine in it, under its daemons [default: the scenario's]; what it consists of is fetched by
    /// Maven once; repeatable
    ///
    /// The first host of the topology is the master, all others are workers; where there are no more than
    /// two, both are. `watermaster lab shell NAME HOST` finds the engine's commands, such as hadoop,
    /// spark-submit or storm.
    #[arg(long, value_name = "NAME", value_parser = engines())]
    engine: Vec<::lab::Engine>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Engines by name.
fn engines() -> impl TypedValueParser<Value = ::lab::Engine> {
    let named = ::lab::Engine::NAMED;
    let known =
        |name: String| named.iter().find(|(own, _)| *own == name).map(|(_, engine)| *engine);
    PossibleValuesParser::new(named.iter().map(|(name, _)| *name))
        .try_map(move |name| known(name).ok_or("no such engine"))
}

/// A lab for scripts.
#[derive(Serialize)]
struct Entry {
    name: String,
    /// `up`, `being made`, or `orphaned`: its maker was killed; `lab down` removes it.
    state: &'static str,
    scenario: String,
    switches: Switches,
    namespaces: Vec<String>,
    /// Where its controller listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    engines: Vec<::lab::Engine>,
}

impl Entry {
    fn of(journal: Journal) -> Self {
        let state = match journal.phase {
            _ if journal.is_orphaned() => "orphaned",
            Phase::Up => "up",
            Phase::Building => "being made",
        };
        let Journal { name, scenario, switches, namespaces, engines, .. } = journal;
        Self { name, state, scenario, switches, namespaces, controller: None, engines }
    }
}

impl Up {
    fn execute(self) -> Result<(), Failure> {
        let asked: Vec<String> = self.policy.into_iter().collect();
        let mut changes: Vec<Override> = listed(&asked).collect();
        changes.extend_from_slice(&self.changes);
        if let Some(kind) = &self.switches {
            changes.push(Override::text("--switches", "lab.switches", kind));
        }
        let scenario = Scenario::load(&self.scenario, &changes).map_err(Failure::misused)?;
        let path = std::path::absolute(&self.scenario).map_err(Failure::misused)?;
        let order = Order {
            name: self.name.unwrap_or_else(|| scenario.name.clone()),
            switches: scenario.lab.switches,
            segmentation: scenario.lab.segmentation,
            // Until it is whole.
            passing: true,
            scenario: path.display().to_string(),
            changes: self.changes.iter().map(|c| format!("{}={}", c.path(), c.value())).collect(),
        };
        let mut labels = chosen(&scenario, &asked)?;
        labels.truncate(1);
        // An interrupt removes what is being made.
        clean_up_on_interrupt()?;
        let prepared = prepare(scenario)?;
        let scenario = &prepared.scenario;
        let mut engines = self.engine;
        if engines.is_empty() {
            engines.extend(scenario.engine.iter().flat_map(|engine| &engine.kinds));
        }
        let mut rest = engines.iter();
        while let Some(engine) = rest.next() {
            if rest.as_slice().contains(engine) {
                let what = format_args!("--engine {} stands twice; leave one out", engine.name());
                return Err(Failure::misused(what));
            }
        }
        if !engines.is_empty() && scenario.lab.daemons.is_none() {
            return Err(Failure::misused(
                "--engine needs daemons, which its plug-in declares to; add --set lab.control=daemons",
            ));
        }
        let parts = engines.iter().map(|engine| Ok((*engine, engine.parts(&note)?)));
        let parts: Vec<_> = parts.collect::<Result<_, Error>>().map_err(failed)?;
        let mut lab = Lab::up(&scenario.topology, &order).map_err(failed)?;
        if let Some(first) = prepared.tasks(&labels, None).next() {
            bring_to_life(&mut lab, &first).map_err(failed)?;
        }
        for (engine, parts) in &parts {
            lab.run_engine(*engine, parts, &note).map_err(failed)?;
        }
        lab.keep().map_err(failed)?;
        let Some(journal) = Journal::read(lab.name()).map_err(failed)? else {
            return Err(Failure::failed("the lab was removed meanwhile"));
        };
        let hosts = scenario.topology.hosts().map(|host| {
            let name = &scenario.topology.nodes()[host.index()].name;
            format!("  {name:<12} {}\n", lab.blueprint().address(host))
        });
        let mut text = format!("lab {} is up\n{}", lab.name(), hosts.collect::<String>());
        let mut entry = Entry::of(journal);
        if scenario.lab.daemons.is_some() {
            let address = lab.controller();
            text += &format!("controller: watermaster status --controller {address}\n");
            entry.controller = Some(address.to_string());
        }
        let master = scenario.topology.hosts().next();
        for (host, (engine, _)) in master.into_iter().cycle().zip(&parts) {
            let host = &scenario.topology.nodes()[host.index()].name;
            text += &format!(
                "{}: watermaster lab shell {} {host} -- {}\n",
                engine.title(),
                lab.name(),
                engine.example()
            );
        }
        tell(self.json, &entry, &text)
    }
}

/// Sets up the transport of the run `first`, and starts daemons if the scenario has them.
fn bring_to_life(lab: &mut Lab, first: &Task<'_>) -> Result<(), Error> {
    first.speak(lab)?;
    if let Some(governance) = &first.prepared.scenario.lab.daemons {
        first.govern(lab, governance)?;
    }
    Ok(())
}

/// Run the scenario of an existing lab
#[derive(Args)]
#[command(after_help = "Example:\n  sudo watermaster lab run demo --policy tcp,smsf")]
pub(crate) struct Run {
    /// The lab
    name: String,

    /// Run only these policies, by label, or by name with default parameters where the scenario doesn't list them
    #[arg(long, value_delimiter = ',', value_name = "A,B", value_parser = crate::policies::Label,
          hide_possible_values = true)]
    policy: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Run {
    fn execute(self) -> Result<(), Failure> {
        let none = || Failure::misused(Error::None(self.name.clone()));
        let journal = Journal::read(&self.name).map_err(failed)?.ok_or_else(none)?;
        let changes = journal.changes.iter().map(|text| text.parse());
        let mut changes: Vec<Override> = listed(&self.policy)
            .map(Ok)
            .chain(changes)
            .collect::<Result<_, _>>()
            .map_err(Failure::misused)?;
        changes.push(Override::text("world", "world", "lab"));
        let mut prepared = load(Path::new(&journal.scenario), &changes)?;
        prepared.standing = Some(self.name);
        let labels = chosen(&prepared.scenario, &self.policy)?;
        let tasks: Vec<_> = prepared.tasks(&labels, None).collect();
        let bar = Bar::new(&tasks);
        let runs = run_all(&tasks, 1, &|task, progress| bar.update(task, &progress))
            .map_err(Failure::failed)?;
        drop(bar);
        let result = prepared.result(&runs);
        if self.json {
            return print(&result.to_json().map_err(Failure::failed)?);
        }
        let measures: Vec<&str> = prepared.scenario.measures.iter().map(String::as_str).collect();
        let shown = if measures.is_empty() { table::DEFAULT_METRICS } else { &measures };
        print(&table::render(&result, shown, None))
    }
}

fn load(path: &Path, changes: &[Override]) -> Result<Prepared, Failure> {
    prepare(Scenario::load(path, changes).map_err(Failure::misused)?)
}

/// Remove a lab: its processes and namespaces, and nothing else
#[derive(Args)]
#[command(after_help = "Examples:\n  sudo watermaster lab down demo\n  \
                        sudo watermaster lab down             # what killed processes left")]
pub(crate) struct Down {
    /// The lab [default: all that killed processes left, which `lab list` calls orphaned]
    name: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Down {
    fn execute(self) -> Result<(), Failure> {
        let Some(name) = self.name else { return Self::orphans(self.json) };
        let removed = ::lab::down(&name).map_err(failed)?;
        tell(self.json, &removed, &Self::said(&removed))
    }

    fn said(removed: &Removed) -> String {
        let mut text = format!("removed {} namespaces\n", removed.namespaces.len());
        for name in &removed.left {
            text += &format!("left {name}: it isn't the lab's\n");
        }
        text
    }

    fn orphans(json: bool) -> Result<(), Failure> {
        let (mut all, mut text, mut first) = (BTreeMap::new(), String::new(), None);
        for (name, removed) in ::lab::down_orphans().map_err(failed)? {
            match removed {
                Ok(removed) => {
                    text += &format!("{name}: {}", Self::said(&removed));
                    all.insert(name, removed);
                }
                Err(error) => {
                    note(&format!("lab {name}: {error}"));
                    first.get_or_insert(error);
                }
            }
        }
        if text.is_empty() && first.is_none() {
            text = "nothing was left by killed processes; watermaster lab down NAME removes a lab that \
                    stands\n"
                .into();
        }
        tell(json, &all, &text)?;
        first.map_or(Ok(()), |error| Err(failed(error)))
    }
}

/// Enter a node of a lab, or run a command there
///
/// Where daemons govern the lab, they govern the connections of what runs there, and it ends with the
/// lab. Where the lab runs engines, it finds their commands.
#[derive(Args)]
#[command(after_help = "Examples:\n  sudo watermaster lab shell demo h0\n  \
                        sudo watermaster lab shell demo s0 -- tc -s qdisc")]
pub(crate) struct Shell {
    /// The lab
    name: String,

    /// The host or switch; all of Open vSwitch is in "ovs"
    node: String,

    /// The command [default: $SHELL]
    #[arg(last = true)]
    command: Vec<String>,
}

impl Shell {
    fn execute(self) -> Result<(), Failure> {
        let none = || Failure::misused(Error::None(self.name.clone()));
        let journal = Journal::read(&self.name).map_err(failed)?.ok_or_else(none)?;
        let namespace = format!("wm-{}-{}", self.name, self.node);
        if !journal.namespaces.contains(&namespace) {
            let prefix = format!("wm-{}-", self.name);
            let nodes: Vec<&str> =
                journal.namespaces.iter().filter_map(|name| name.strip_prefix(&prefix)).collect();
            return Err(Failure::misused(format_args!(
                "lab {} has no node {}; use one of {}",
                self.name,
                self.node,
                nodes.join(", ")
            )));
        }
        let shell = || vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into())];
        let command = if self.command.is_empty() { shell() } else { self.command };
        ::lab::enter(&journal).map_err(failed)?;
        let error = ::lab::at(&journal, &self.node).args(command).exec();
        Err(Failure::failed(format_args!("ip netns exec: {error}; install iproute2")))
    }
}

/// Show the labs on this machine
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster lab list --json")]
pub(crate) struct List {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

impl List {
    fn execute(self) -> Result<(), Failure> {
        let mut labs = Vec::new();
        for journal in Journal::all().map_err(failed)? {
            match journal {
                Ok(journal) => labs.push(Entry::of(journal)),
                Err(error) => note(&error.to_string()),
            }
        }
        let line = |lab: &Entry| {
            let count = lab.namespaces.len();
            format!("{:<20} {:<10} {count:>4} namespaces  {}\n", lab.name, lab.state, lab.scenario)
        };
        let text: String = labs.iter().map(line).collect();
        let text = if labs.is_empty() { "no labs\n".to_owned() } else { text };
        tell(self.json, &labs, &text)
    }
}
