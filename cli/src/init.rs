//! `watermaster init`.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use experiment::scenario::{Override, Scenario};
use policy::NAMES;
use units::Rate;

use crate::failure::{Failure, note, print};
use crate::input::{prepare, quoted};
use crate::policies::Label;

/// Longest answer, in octets.
const MOST_ANSWER: u64 = 4096;
/// Most racks, and most hosts of one.
const MOST: u32 = 512;
/// How often a question is asked.
const MOST_TRIES: usize = 10;
/// The slowest and the fastest link of a scenario.
const SLOWEST: Rate = Rate::from_bps(1000);
const FASTEST: Rate = Rate::from_mbps(100_000_000);

/// Make a scenario by a few questions
///
/// Asks on the terminal for what no option gives; an empty line takes the default that stands in brackets.
/// With --yes nothing is asked. What is written is a start: docs/scenarios.md explains every key.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    watermaster init\n  \
    watermaster init incast.toml --workload incast --hosts 40 --access \"10 Gbit/s\" --yes")]
pub(crate) struct Init {
    /// The file to write; its name becomes the scenario's
    #[arg(default_value = "scenario.toml")]
    file: PathBuf,

    /// What moves data
    #[arg(long, value_name = "KIND")]
    workload: Option<Workload>,

    /// Where it runs
    #[arg(long, value_name = "WORLD")]
    world: Option<World>,

    /// Racks: one is a switch with its hosts; several are switches below a spine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    racks: Option<u32>,

    /// Hosts of each rack
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST)))]
    hosts: Option<u32>,

    /// Rate of each host's link
    #[arg(long, value_name = "RATE", value_parser = rate)]
    access: Option<Rate>,

    /// Rate of each rack's link to the spine, where there are several racks
    #[arg(long, value_name = "RATE", value_parser = rate)]
    core: Option<Rate>,

    /// Policies to compare
    #[arg(long, value_delimiter = ',', value_name = "A,B", value_parser = Label, hide_possible_values = true)]
    policy: Vec<String>,

    /// Ask nothing: take the default of what no option gives
    #[arg(long)]
    yes: bool,

    /// Write over a file that is there
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Jobs whose maps all send to all of their reduces
    Shuffle,
    /// All hosts send to one at once
    Incast,
    /// Operators that pass tuples on
    Stream,
    /// Requests that fan out to many hosts
    Gather,
    /// Flows between any two hosts, at random
    Flows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum World {
    /// The simulator, packet by packet
    Packet,
    /// The simulator, flows that share links, for long runs
    Fluid,
    /// The kernel's own TCP on this machine, as root
    Lab,
}

impl Workload {
    /// Where it can run.
    const fn worlds(self) -> &'static [World] {
        match self {
            Self::Shuffle | Self::Incast | Self::Flows => {
                &[World::Packet, World::Fluid, World::Lab]
            }
            Self::Stream => &[World::Packet, World::Lab],
            Self::Gather => &[World::Packet],
        }
    }

    /// Which policies to compare by default, where they fit.
    const fn policies(self) -> &'static [&'static str] {
        match self {
            Self::Shuffle => &["tcp", "smsf", "srb"],
            Self::Incast => &["tcp", "sdtcp", "srb"],
            Self::Stream => &["tcp", "app-aware", "app-aware-fast"],
            Self::Gather => &["one-all", "sw", "sicc"],
            Self::Flows => &["tcp", "srpt", "pfabric"],
        }
    }
}

/// What was answered, but for the policies.
struct Answers {
    name: String,
    workload: Workload,
    world: World,
    racks: u32,
    hosts: u32,
    access: Rate,
    core: Rate,
}

impl Init {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let shown = self.file.display();
        if self.file.exists() && !self.force {
            return Err(Failure::misused(format_args!(
                "{shown}: is there already; name another file, or add --force to write over it"
            )));
        }
        let answers = self.answers()?;
        let body = answers.body();
        let policies = self.policies(answers.workload, &body)?;
        let mut text = body;
        for policy in &policies {
            let _ = write!(text, "\n[[policy]]\nname = \"{policy}\"\n");
        }
        // It is whole, and its network and jobs can be made, or nothing is written.
        prepare(read(&text, &[])?)?;
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).create_new(!self.force);
        let written = options.open(&self.file).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| {
            Failure::misused(format_args!("{shown}: {error}; name a file that can be written"))
        })?;
        let sudo = if answers.world == World::Lab { "sudo " } else { "" };
        let command = quoted(&self.file.to_string_lossy());
        print(&format!("{shown} is written. Run it: {sudo}watermaster run {command}\n"))
    }

    fn answers(&self) -> Result<Answers, Failure> {
        let kinds = Workload::value_variants();
        let workload = self.choice(self.workload, "What moves data", kinds)?;
        let worlds = workload.worlds();
        if let Some(world) = self.world.filter(|world| !worlds.contains(world)) {
            return Err(Failure::misused(format_args!(
                "--world {}: {} doesn't run there; use {}",
                named(&world),
                named(&workload),
                list(worlds)
            )));
        }
        let world = self.choice(self.world, "In which world", worlds)?;
        let is_lab = world == World::Lab;
        let number = |text: &str| match text.parse() {
            Ok(number) if (1..=MOST).contains(&number) => Ok(number),
            _ => Err(format!("write a number from 1 to {MOST}")),
        };
        let racks = self.ask(self.racks, "How many racks", "1", number)?;
        let usual = match (is_lab, racks) {
            (true, 1) => "4",
            (true, _) => "2",
            (false, 1) => "16",
            (false, _) => "8",
        };
        let enough = |text: &str| match number(text)? {
            1 if racks == 1 => Err("one host has nobody to send to; write 2 or more".to_owned()),
            hosts => Ok(hosts),
        };
        let given = self.hosts.map(|hosts| enough(&hosts.to_string())).transpose();
        let given = given.map_err(|what| Failure::misused(format_args!("--hosts 1: {what}")))?;
        let hosts = self.ask(given, "How many hosts in a rack", usual, enough)?;
        let usual = if is_lab { "100 Mbit/s" } else { "1 Gbit/s" };
        let access = self.ask(self.access, "How fast is a host's link", usual, rate)?;
        // As much as half of the rack's hosts can send.
        let half = access.as_bps().saturating_mul(u64::from(hosts.div_ceil(2)));
        let half = Rate::from_bps(half.min(FASTEST.as_bps()));
        let core = if racks == 1 {
            if self.core.is_some() {
                return Err(Failure::misused(
                    "--core: one rack has no link to a spine; add --racks, or leave it out",
                ));
            }
            half
        } else {
            self.ask(self.core, "How fast is a rack's link", &half.to_string(), rate)?
        };
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy();
        let fit = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name = stem.chars().map(fit).collect();
        Ok(Answers { name, workload, world, racks, hosts, access, core })
    }

    /// The policies to compare, of those that fit the scenario `body`.
    fn policies(&self, workload: Workload, body: &str) -> Result<Vec<String>, Failure> {
        let fits = |name: &str| read(body, &[Override::member("--policy", "policy", name)]);
        for name in &self.policy {
            fits(name)?;
        }
        let usual: Vec<&str> =
            workload.policies().iter().copied().filter(|name| fits(name).is_ok()).collect();
        let all: Vec<&str> = NAMES.into_iter().filter(|name| fits(name).is_ok()).collect();
        let split = |text: &str| -> Result<Vec<String>, String> {
            let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
            match names.iter().find(|name| !all.contains(&name.as_str())) {
                Some(name) => Err(fits(name).err().map_or_else(String::new, Failure::into_text)),
                None => Ok(names),
            }
        };
        let given = Some(self.policy.clone()).filter(|policies| !policies.is_empty());
        let question = format!("Which policies, of {}", all.join(", "));
        self.ask(given, &question, &usual.join(","), split)
    }

    /// `given`, or the answer to `question`, one of `choices`, of which the first is the default.
    fn choice<T: ValueEnum>(
        &self,
        given: Option<T>,
        question: &str,
        choices: &[T],
    ) -> Result<T, Failure> {
        let [first, rest @ ..] = choices else {
            return Err(Failure::failed(question));
        };
        let given = given.or_else(|| rest.is_empty().then(|| first.clone()));
        let question = format!("{question}: {}", list(choices));
        self.ask(given, &question, &named(first), |text| {
            let chosen = choices.iter().find(|choice| named(*choice) == text);
            chosen.cloned().ok_or_else(|| format!("write {}", list(choices)))
        })
    }

    /// `given`, or what `read` makes of the answer to `question`.
    fn ask<T>(
        &self,
        given: Option<T>,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        if let Some(given) = given {
            return Ok(given);
        }
        if self.yes {
            return read(default).map_err(Failure::failed);
        }
        for _ in 0..MOST_TRIES {
            let _ = write!(io::stderr(), "{question}? [{default}] ");
            let mut line = String::new();
            let mut input = io::stdin().lock().take(MOST_ANSWER);
            if input.read_line(&mut line).map_err(Failure::misused)? == 0 {
                return Err(Failure::misused(
                    "the input ended before all was answered; add --yes to take the defaults",
                ));
            }
            let answer = if line.trim().is_empty() { default } else { line.trim() };
            match read(answer) {
                Ok(answer) => return Ok(answer),
                Err(what) => note(&what),
            }
        }
        Err(Failure::misused(format_args!("{question}: {MOST_TRIES} answers were none")))
    }
}

/// A rate that a link may have.
fn rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error| format!("{error}"))?;
    if (SLOWEST..=FASTEST).contains(&rate) {
        return Ok(rate);
    }
    Err(format!("{rate} is out of range; write {SLOWEST} to {FASTEST}"))
}

/// Reads the scenario `text` with `changes`.
fn read(text: &str, changes: &[Override]) -> Result<Scenario, Failure> {
    let read = Scenario::read("the scenario that this makes", text, Path::new(""), changes);
    read.map_err(Failure::misused)
}

fn named(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn list(choices: &[impl ValueEnum]) -> String {
    let names: Vec<String> = choices.iter().map(named).collect();
    match &names[..] {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        names => names.concat(),
    }
}

impl Answers {
    /// All hosts of the network.
    const fn all(&self) -> u32 {
        self.racks * self.hosts
    }

    /// The scenario without its policies.
    fn body(&self) -> String {
        let Self { name, workload, world, racks, hosts, access, core } = self;
        let (workload, world) = (named(workload), named(world));
        let until = if self.workload == Workload::Stream { "until = \"5 s\"\n" } else { "" };
        let cable = |rate: &Rate| {
            format!("{{ capacity = \"{rate}\", delay = \"10 us\", buffer = \"100 packets\" }}")
        };
        let network = if *racks == 1 {
            format!("kind = \"star\"\nhosts = {hosts}\naccess = {}\n", cable(access))
        } else {
            format!(
                "kind = \"leaf-spine\"\nleaves = {racks}\nspines = 1\nhosts_per_leaf = {hosts}\n\
                 access = {}\nfabric = {}\n",
                cable(access),
                cable(core)
            )
        };
        // Switches that watch ports see connections open.
        let is_watched = self.workload == Workload::Incast && self.world == World::Packet;
        let transport = if is_watched { "\n[transport]\nhandshake = true\n" } else { "" };
        format!(
            "# A start: docs/scenarios.md explains every key, docs/policies.md every policy.\n\
             name = \"{name}\"\ntitle = \"{workload} on {} hosts\"\nworld = \"{world}\"\n{until}\n\
             [topology]\n{network}{transport}\n{}",
            self.all(),
            self.traffic()
        )
    }

    /// The workload: small enough to run in seconds at the default rates.
    fn traffic(&self) -> String {
        let all = self.all();
        match self.workload {
            Workload::Shuffle => {
                "[workload]\nkind = \"shuffle\"\njobs = 20\nmean_bytes = \"10 MB\"\n\
                 # Of the busiest link's capacity, while jobs arrive.\nload = 0.5\n"
                    .to_owned()
            }
            Workload::Incast => format!(
                "[workload]\nkind = \"incast\"\nreceiver = \"h0\"\nsenders = {}\nbytes = \"100 kB\"\n\
                 rounds = 10\ninterval = \"200 ms\"\n",
                all - 1
            ),
            Workload::Gather => format!(
                "[workload]\nkind = \"gather\"\nfront = \"h0\"\nrequests = 20\nobjects = 100\n\
                 # Hosts that hold an object.\ncopies = {}\n",
                (all - 1).min(3)
            ),
            Workload::Flows => {
                "[workload]\nkind = \"poisson\"\nsizes = { exponential = \"100 kB\" }\n\
                 # Of each host's link.\nload = 0.5\nduration = \"200 ms\"\n"
                    .to_owned()
            }
            Workload::Stream => {
                // Sources fill half of a link together, with tuples of 10 kB.
                let rate = (self.access.as_bps() / 2 / 80_000).max(1);
                let sources = (all / 4).clamp(1, 4);
                let counters = (all / 2).clamp(1, 8);
                let hosts = |from: u32, count: u32| {
                    let names: Vec<_> = (from..from + count).map(|n| format!("\"h{n}\"")).collect();
                    names.join(", ")
                };
                format!(
                    "[workload]\nkind = \"stream\"\n\n\
                     [[workload.operator]]\nname = \"source\"\non = [{}]\nrate = {rate}\n\
                     keys = {{ words = 1000 }}\nsize = \"10 kB\"\n\n\
                     [[workload.operator]]\nname = \"count\"\non = [{}]\n\
                     from = [{{ operator = \"source\", grouping = \"key\" }}]\nsize = \"10 kB\"\n\n\
                     [[workload.operator]]\nname = \"sink\"\non = \"h{}\"\n\
                     from = [{{ operator = \"count\", grouping = \"global\" }}]\n",
                    hosts(0, sources),
                    hosts(sources, counters),
                    all - 1
                )
            }
        }
    }
}
