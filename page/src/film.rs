//! What has happened, as the page reads it (`page/web/src/film.ts`). Times in nanoseconds, rates in bit/s, sizes
//! in octets of payload.

use control::{ApplicationStatus, FlowStatus, JobStatus};
use serde::Serialize;

/// What a page shows that has ended.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Film {
    /// A controller's recording.
    Recording(Recording),
    /// A scenario's runs.
    Scenario(Scenario),
}

/// What all films say of themselves.
#[derive(Clone, Debug, Default, Serialize)]
pub struct About {
    /// One line.
    pub title: String,
    /// Another; may be empty.
    pub subtitle: String,
    /// What reproduces it; may be empty.
    pub command: String,
    /// Terms and what they are.
    pub about: Vec<(String, String)>,
    /// The names of nodes that are no hosts.
    pub switches: Vec<String>,
    /// All directed links.
    pub links: Vec<Link>,
}

/// A directed link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Where it leaves.
    pub from: String,
    /// Where it arrives.
    pub to: String,
    /// What it carries, frame bytes.
    pub capacity_bps: u64,
}

/// A recording: how the controller stood at some instants, and what happened.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recording {
    /// Of itself.
    #[serde(flatten)]
    pub about: About,
    /// By time.
    pub frames: Vec<Frame>,
    /// By time.
    pub happenings: Vec<Happening>,
    /// Happenings beyond those.
    pub left_out: u64,
}

/// How a controller stood at an instant.
#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    /// When.
    pub at_ns: u64,
    /// The policy that decided.
    pub policy: String,
    /// Problems, each in a sentence.
    pub problems: Vec<String>,
    /// Links that carry flows or are down: number, measured, limited, flows, whether it is up.
    pub loads: Vec<(usize, Option<u64>, u64, usize, bool)>,
    /// Applications.
    pub applications: Vec<ApplicationStatus>,
    /// Jobs.
    pub jobs: Vec<JobStatus>,
    /// The flows that got most.
    pub flows: Vec<FlowStatus>,
    /// Why each of the first has its rate, by the order of `flows`.
    pub why: Vec<String>,
    /// Flows beyond those.
    pub more: usize,
}

/// What sort of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The controller told somebody something.
    Decision,
    /// A queue is congested.
    Congestion,
    /// Something failed.
    Trouble,
    /// Anything else.
    News,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Happening {
    /// When.
    pub at_ns: u64,
    /// What sort of thing.
    pub kind: Kind,
    /// In a sentence.
    pub text: String,
}

/// The runs of a scenario.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Scenario {
    /// Of itself.
    #[serde(flatten)]
    pub about: About,
    /// A run for each policy.
    pub runs: Vec<Run>,
    /// What was measured, a cell for each run.
    pub metrics: Vec<Metric>,
}

/// A metric of all runs.
#[derive(Clone, Debug, Serialize)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// With unit, by run.
    pub cells: Vec<String>,
}

/// The run of a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its label.
    pub policy: String,
    /// When it ended.
    pub end_ns: u64,
    /// The names of the applications; empty if there is one without a name.
    pub applications: Vec<String>,
    /// The largest flows.
    pub flows: Vec<Flow>,
    /// Flows beyond those.
    pub more: usize,
    /// The jobs of these flows.
    pub jobs: Vec<Job>,
    /// Notes to readers, in sentences.
    pub notes: Vec<String>,
}

/// A flow of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Flow {
    /// Its number.
    pub id: u32,
    /// Its job's.
    pub job: u32,
    /// Its application's place.
    pub application: u32,
    /// What it asks to move; nothing where it is endless.
    pub size: Option<u64>,
    /// What arrived.
    pub delivered: u64,
    /// Its first octet.
    pub start_ns: u64,
    /// Its last; nothing where the run ended first.
    pub end_ns: Option<u64>,
    /// When it was limited, and when it was free again.
    pub limits: Vec<(u64, Option<u64>)>,
    /// The numbers of the links that it went by.
    pub path: Vec<usize>,
}

/// A job of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    /// Its number.
    pub id: u32,
    /// Its application's place.
    pub application: u32,
    /// When it arrived.
    pub arrival_ns: u64,
    /// When its last flow ended; nothing where the run ended first.
    pub end_ns: Option<u64>,
    /// The objective that it names; may be empty.
    pub objective: String,
    /// What its completion is worth beside that of others.
    pub weight: u32,
    /// From its arrival.
    pub deadline_ns: Option<u64>,
}
