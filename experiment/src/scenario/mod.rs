//! The scenario file: one TOML document that says what runs where under which policies, and what
//! was published about it. `docs/scenarios.md` explains every key.
//!
//! Reading any file gives either a scenario within the bounds at [`Content::MOST_BYTES`] and beside
//! each key, or one error that names file, line, column, field, fault and remedy.

mod amounts;
mod choice;
mod cluster;
mod content;
mod control;
mod engine;
mod figure;
mod gather;
mod jobs;
mod lab;
mod monitor;
mod policy;
mod published;
mod stream;
mod transport;
mod workload;

use std::path::Path;

use ::engine::Monitor;
use ::policy::Descriptor;
use document::fields::{Fields, Value};
use document::{text_of, topology};
use model::{LinkId, NodeKind, Topology};
use packet::Transport;
use units::{Span, Time};

use crate::choice::Choice;
use crate::figure::Figure;
use crate::metrics;
use crate::published::Published;

pub use content::Content;
pub use control::{Control, Simulated};
pub use document::{DocumentError, Override};
pub use engine::EngineSettings;
pub use lab::LabSettings;
pub use policy::{Maker, PolicySpec};
pub use transport::Queues;
pub use workload::{Traffic, Workload};

/// An experiment, ready to be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Short name, fit for a file name.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The text and section that the experiment is from; may be empty.
    pub source: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// The world that it runs in.
    pub world: World,
    /// Label of the policy that the others are compared with.
    pub baseline: String,
    /// The run ends here at the latest.
    pub until: Time,
    /// Hosts, switches and links.
    pub topology: Topology,
    /// The transport, where a policy names none of its own.
    pub transport: Transport,
    /// Queueing disciplines.
    pub queues: Queues,
    /// How directives reach the flows.
    pub control: Control,
    /// How the lab is built and governed.
    pub lab: LabSettings,
    /// The engine that the lab runs in the place of the workload.
    pub engine: Option<EngineSettings>,
    /// The traffic.
    pub workload: Workload,
    /// The policies, one run each.
    pub policies: Vec<PolicySpec>,
    /// Ports to capture in every run.
    pub captures: Vec<CapturePort>,
    /// Queues to watch in every run.
    pub monitors: Vec<Monitor>,
    /// The figures of a text that it is.
    pub figures: Vec<Figure>,
    /// What the text leaves open.
    pub choices: Vec<Choice>,
    /// What the text leaves open, and nothing else was tried.
    pub untried: Vec<String>,
    /// What the text says and the scenario has not, since it can't.
    pub lacking: Vec<String>,
    /// Values published for the scenario as it is, without those of other points of a figure's
    /// axis.
    pub published: Vec<Published>,
    /// Names of the metrics that a table for people shows; empty: the usual ones.
    pub measures: Vec<String>,
}

/// Where it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum World {
    /// Packet by packet.
    #[default]
    Packet,
    /// Flows that share links max-min fairly, without transport or queues.
    Fluid,
    /// The kernel's own TCP between network namespaces of this machine, in real time.
    Lab,
}

impl World {
    const NAMED: &[(&str, Self)] =
        &[("packet", Self::Packet), ("fluid", Self::Fluid), ("lab", Self::Lab)];

    /// Its name in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Fluid => "fluid",
            Self::Lab => "lab",
        }
    }
}

/// A port whose packets are written to a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturePort {
    /// The directed link behind the port.
    pub link: LinkId,
    /// `FROM-TO`, the names of its ends; part of the file name.
    pub name: String,
}

impl Scenario {
    /// The end of a run without `until`: late enough for any finite flow.
    const LATEST: Span = Span::from_secs(3_600_000);
    const MOST_CAPTURES: usize = 64;
    const MOST_UNTRIED: usize = 64;
    const MOST_LACKING: usize = 64;

    /// Reads the scenario file at `path` and applies `overrides` in order.
    ///
    /// # Errors
    /// The file can't be read or is no scenario; the message names place, field and remedy.
    pub fn load(path: &Path, overrides: &[Override]) -> Result<Self, DocumentError> {
        let (file, text) = text_of(path, Content::MOST_BYTES)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::read(&file, &text, folder, overrides)
    }

    /// Reads the scenario `text`, called `file` in errors, with files that it names looked up from
    /// `folder`, and applies `overrides` in order.
    ///
    /// # Errors
    /// The text is no scenario; the message names place, field and remedy.
    pub fn read(
        file: &str,
        text: &str,
        folder: &Path,
        overrides: &[Override],
    ) -> Result<Self, DocumentError> {
        let document = content::document(file, text, folder, overrides)?;
        let mut root = Value::root(&document).fields()?;
        // Read already: its values are the document's.
        root.get("testbed");

        let name = root.need("name", "\"my-scenario\"")?.label()?;
        let title = root.need("title", "\"One line for people\"")?.text()?.to_owned();
        let source = root.or("source", String::new(), |v| Ok(v.text()?.to_owned()))?;
        let seed = root.or("seed", 1, |v| Ok(v.integer(0..=i64::MAX)?.unsigned_abs()))?;
        let world = root.or("world", World::default(), |v| v.choice(World::NAMED))?;
        let until = root.optional("until", |v| {
            let until = v.quantity::<Span>()?;
            if until == Span::ZERO || until > Self::LATEST {
                return Err(v.error(format_args!("is out of range; write up to {}", Self::LATEST)));
            }
            Ok(until)
        })?;
        let topology_value = root.need("topology", "a [topology] table")?;
        let topology = topology::read(&topology_value)?;
        let transport = root
            .or("transport", Transport::default(), |v| transport::read(v, Transport::default()))?;
        let queues = root.or("queues", Queues::default(), transport::read_queues)?;
        let control = root.or("control", control::CONTROL, control::read)?;
        let lab = root.or("lab", LabSettings::default(), |v| lab::read(v, folder))?;
        let hosts = topology::names(&topology, |kind| kind == NodeKind::Host);
        let engine = root.optional("engine", |v| {
            let engine = engine::read(v, &hosts, folder)?;
            if lab.daemons.is_none() {
                return Err(v.error("needs daemons, which its plug-in declares to; write control = \"daemons\" in [lab]"));
            }
            Ok(engine)
        })?;
        let context = workload::Context {
            topology: &topology,
            transport: &transport,
            folder,
            ends: until.is_some(),
        };
        let workload_value = root.need("workload", "a [workload] table")?;
        let workload = workload::read(&workload_value, &context)?;
        if world == World::Fluid && workload.needs_packets() {
            return Err(workload_value.error("needs packets; use world = \"packet\""));
        }
        let policy_value = root.need("policy", "a [[policy]] table")?;
        let policies = policy::read(&policy_value, transport, &hosts)?;
        if engine.is_none() && policies.iter().any(|policy| !policy.faults.is_empty()) {
            return Err(policy_value.error(
                "has faults, which are of applications on an engine; add [engine] or remove them",
            ));
        }
        let place = policy::Place { world, lab: &lab, workload: &workload };
        policy::check_needs(&policy_value, &policies, &place)?;
        let packets = policies.iter().map(|policy| transport::packet(&policy.transport));
        topology::check_buffers(&topology_value, &topology, packets.max().unwrap_or_default())?;
        if control.simulated.is_some()
            && let Some(value) = root.get("control")
        {
            if world == World::Lab {
                return Err(value.error("the lab has no simulated controller; remove controller"));
            }
            control::check(&value, &topology, &policies)?;
        }
        let baseline = baseline(&mut root, &policies)?;
        let captures = root.tables("capture", Self::MOST_CAPTURES)?;
        if let (World::Fluid, Some(capture)) = (world, captures.first()) {
            return Err(capture.error("the fluid world has no packets to capture; remove it"));
        }
        if let (World::Lab, Some(capture)) = (world, captures.first()) {
            let what = "the lab captures nothing by itself; remove it, and run tcpdump by \
                        watermaster lab shell";
            return Err(capture.error(what));
        }
        let captures =
            captures.iter().map(|v| read_capture(v, &topology)).collect::<Result<_, _>>()?;
        let monitors = root.tables("monitor", Self::MOST_CAPTURES)?;
        let monitors = monitor::read_monitors(&monitors, &topology)?;
        let mut applications: Vec<&str> = workload.applications().collect();
        applications.extend(engine.iter().flat_map(EngineSettings::names));
        let figures = root.or("figure", Vec::new(), figure::read)?;
        let choices =
            root.or("choice", Vec::new(), |v| choice::read(v, &policies, &applications, &figures))?;
        let untried = root.tables("untried", Self::MOST_UNTRIED)?;
        let untried = untried.iter().map(choice::said).collect::<Result<_, _>>()?;
        let lacking = root.tables("lacking", Self::MOST_LACKING)?;
        let lacking = lacking.iter().map(choice::said).collect::<Result<_, _>>()?;
        let mut published = root.or("published", Vec::new(), |v| {
            published::read(v, &policies, &applications, &figures, &document)
        })?;
        published.retain(|published| published::applies(published, &figures, &document));
        let measures = root.tables("measures", metrics::names().count())?;
        let measures = measures.iter().map(|v| published::metric_name(v, &applications));
        let measures = measures.collect::<Result<_, _>>()?;
        root.done()?;
        Ok(Self {
            name,
            title,
            source,
            seed,
            world,
            baseline,
            until: Time::ZERO + until.unwrap_or(Self::LATEST),
            topology,
            transport,
            queues,
            control,
            lab,
            engine,
            workload,
            policies,
            captures,
            monitors,
            figures,
            choices,
            untried,
            lacking,
            published,
            measures,
        })
    }

    /// Adds a policy, of the scenario's transport, that stands in no catalogue (see [`PolicySpec::own`]).
    ///
    /// # Errors
    /// There is one of this label, or it can't be run here; the text names the remedy.
    pub fn add_policy(
        &mut self,
        label: &str,
        policy: &'static Descriptor,
        maker: Maker,
    ) -> Result<(), String> {
        if self.labels().any(|other| other == label) {
            return Err(format!("there is a policy called \"{label}\"; give one another name"));
        }
        let spec = PolicySpec::own(label.to_owned(), policy, self.transport, maker);
        let place = policy::Place { world: self.world, lab: &self.lab, workload: &self.workload };
        let daemons = || format!("{label} runs in no daemon; write control = \"direct\" in [lab]");
        let none =
            self.lab.daemons.as_ref().filter(|_| self.world == World::Lab).map(|_| daemons());
        if let Some(wrong) = none.or_else(|| place.wrong(&spec)) {
            return Err(wrong);
        }
        self.policies.push(spec);
        Ok(())
    }

    /// The labels of all policies, in the order of the file.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.policies.iter().map(|policy| policy.label.as_str())
    }

    /// Whether a shown metric or a published value compares with the baseline. The default metrics
    /// do.
    pub fn compares(&self) -> bool {
        let figures = self.published.iter();
        let against = |figure: &Published| figure.against.as_ref() == Some(&self.baseline);
        self.measures.is_empty()
            || self.measures.iter().any(|measure| metrics::compares(measure))
            || figures.clone().any(|figure| metrics::compares(&figure.metric) || against(figure))
    }

    /// Whether a figure plots, or a published value is judged by, what compares with the baseline.
    pub fn figures_compare(&self) -> bool {
        let plotted = self.figures.iter().flat_map(|figure| &figure.metrics);
        let published = self.published.iter().map(|published| &published.metric);
        let tried = self.choices.iter().flat_map(|choice| &choice.tried);
        let read = tried.flat_map(|value| value.metric.values());
        plotted.chain(published).chain(read).any(|metric| metrics::compares(metric))
    }
}

/// A member of `[[capture]]`.
fn read_capture(value: &Value<'_>, topology: &Topology) -> Result<CapturePort, DocumentError> {
    let mut fields = value.fields()?;
    let names = topology::names(topology, |_| true);
    let (link, name) = topology::port(&mut fields, topology, &names)?;
    fields.done()?;
    Ok(CapturePort { link, name })
}

fn baseline(root: &mut Fields<'_>, policies: &[PolicySpec]) -> Result<String, DocumentError> {
    let labels: Vec<&str> = policies.iter().map(|policy| policy.label.as_str()).collect();
    let chosen = root.optional("baseline", |v| {
        let names: Vec<_> = labels.iter().map(|label| (*label, *label)).collect();
        v.choice(&names)
    })?;
    // A policy that decides nothing, unless it stands for a transport of another name.
    let plain = || {
        let is_plain =
            |spec: &&PolicySpec| spec.policy.is_passive() && spec.label == spec.policy.name;
        policies.iter().find(is_plain).map(|spec| spec.label.as_str())
    };
    let first = || labels.first().copied().unwrap_or_default();
    Ok(chosen.or_else(plain).unwrap_or_else(first).to_owned())
}
