//! `[workload]`: what moves, read here and made by the workload crate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::fields::{Fields, Site, Value, between};
use document::topology::{self, Names, named};
use document::{DocumentError, Setting};
use engine::{Application, Jobs, Several, Streams, World};
use model::{Job, JobId, Network, NodeId, NodeKind, Terms, Topology};
use packet::{Progress, Transport};
use units::{Bytes, Rate, Span};
use workload::coflow::{self, Coflows};
use workload::stream::{Stream, StreamRun};
use workload::{
    Cdf, Cluster, Datagrams, Draft, Error, Floors, Gather, Incast, MOST_JOBS, ParameterError,
    Pattern, Poisson, Reduces, Running, Sample, Shuffle, SizeDistribution, Tasks, all_to_all, load,
    permutation, swim,
};

use super::amounts::{bytes, count, file, span};
use super::cluster;
use super::{gather, jobs, stream};

type Read<T> = Result<T, DocumentError>;

/// A description counts at most this many flows.
const MOST_COUNTED: usize = 1_000_000;

/// What moves in a scenario, of one application or of several at once: recipes, of which
/// [`Workload::prepare`] makes the jobs.
#[derive(Clone, Debug)]
pub struct Workload(Vec<Part>);

/// What one application moves.
#[derive(Clone, Debug)]
struct Part {
    /// The name of the application; `None` of one alone that nobody named.
    application: Option<String>,
    recipe: Recipe,
    /// The containers in which the jobs of a shuffle run; `None`: jobs are only flows.
    cluster: Option<Cluster>,
    /// Hosts in order of creation.
    hosts: Vec<NodeId>,
    /// Stretch arrivals until the busiest link carries this load.
    load: Option<f64>,
    /// Where each parameter was written, for errors found only when jobs are made.
    sites: Vec<Site>,
}

#[derive(Clone, Debug)]
enum Recipe {
    Jobs(Vec<Job>),
    Shuffle(Shuffle),
    Swim {
        file: PathBuf,
        sample: Sample,
        /// The jobs among which the trace's octets are divided instead.
        drawn: Option<Shuffle>,
    },
    Coflow {
        file: PathBuf,
        /// Whether a port is two hosts; hosts of the first half send.
        split: bool,
    },
    Poisson {
        sizes: Sizes,
        pattern: Pattern,
        load: f64,
        capacity: Rate,
        duration: Span,
    },
    Incast(Incast),
    Permutation(Bytes),
    AllToAll(Bytes),
    Gather(Gather),
    Stream(stream::Recipe),
    Datagrams(Datagrams),
}

#[derive(Clone, Debug)]
enum Sizes {
    Fixed(Bytes),
    Exponential(Bytes),
    Cdf(PathBuf),
}

/// Jobs that are ready to be run, any number of times.
#[derive(Clone, Debug)]
pub struct Traffic(Vec<Moving>);

/// What an application does.
#[derive(Clone, Debug)]
struct Moving {
    application: Option<Arc<str>>,
    /// The number of its first job.
    first: JobId,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Jobs {
        jobs: Vec<Job>,
        /// Their payload.
        total: Bytes,
    },
    Coflows(Coflows),
    Flows {
        poisson: Poisson,
        hosts: Vec<NodeId>,
        seed: u64,
    },
    Gather {
        gather: Gather,
        hosts: Vec<NodeId>,
        seed: u64,
    },
    Stream {
        stream: Stream,
        seed: u64,
    },
    Cluster(Box<Running>),
    Datagrams(Datagrams),
}

impl Traffic {
    /// What runs on the hosts of a world whose flows can grow.
    pub fn in_streams<W: Streams + 'static>(&self) -> Box<dyn Application<W> + '_> {
        self.together(Moving::in_streams)
    }

    /// What runs on the hosts of the fluid world.
    pub fn in_fluid(&self) -> Box<dyn Application<fluid::World> + '_> {
        self.together(Moving::in_fluid)
    }

    fn together<'a, W: World + 'a>(
        &'a self,
        run: impl Fn(&'a Moving) -> Box<dyn Application<W> + 'a>,
    ) -> Box<dyn Application<W> + 'a> {
        match &self.0[..] {
            [only] if only.application.is_none() => run(only),
            all => {
                let named = all.iter().map(|one| (one.name(), run(one)));
                Box::new(Several::new(named.collect()))
            }
        }
    }

    /// The names of the applications; none if there is one without a name.
    pub fn applications(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|one| one.application.as_deref())
    }

    /// Its size, on one line.
    pub fn describe(&self) -> String {
        let describe = |one: &Moving| match &one.application {
            None => one.describe(),
            Some(name) => format!("{name}: {}", one.describe()),
        };
        self.0.iter().map(describe).collect::<Vec<_>>().join("; ")
    }

    /// Sender and receiver of each flow known before the run, by arrival of their jobs.
    /// Applications that decide as they run have none.
    pub fn pairs(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let jobs = self.0.iter().flat_map(Moving::jobs);
        jobs.flat_map(|job| job.flows).map(|flow| (flow.src, flow.dst))
    }

    /// What the jobs known before the run ask for.
    pub fn terms(&self) -> impl Iterator<Item = (JobId, Terms)> {
        self.0.iter().flat_map(Moving::jobs).map(|job| (job.id, job.terms))
    }

    /// The part that a run has done, from 0 to about 1.
    pub(crate) fn done(&self, progress: &Progress) -> f64 {
        match &self.0[..] {
            [only] => only.done(progress),
            // Progress is the time that has passed.
            _ => 0.0,
        }
    }
}

impl Moving {
    fn name(&self) -> Arc<str> {
        self.application.clone().unwrap_or_default()
    }

    fn in_streams<W: Streams + 'static>(&self) -> Box<dyn Application<W> + '_> {
        match &self.source {
            Source::Gather { gather, hosts, seed } => gather.application(hosts, *seed),
            Source::Stream { stream, seed } => match StreamRun::new(stream, *seed) {
                Ok(run) => Box::new(run.numbered(self.first)),
                // `Workload::prepare` has made one, so this can't fail.
                Err(_) => Box::new(Jobs::new(self.jobs())),
            },
            Source::Cluster(running) => Box::new((**running).clone().numbered(self.first)),
            Source::Datagrams(datagrams) => Box::new(datagrams.application(self.first)),
            _ => Box::new(Jobs::new(self.jobs())),
        }
    }

    fn in_fluid(&self) -> Box<dyn Application<fluid::World> + '_> {
        match &self.source {
            Source::Cluster(running) => Box::new((**running).clone().numbered(self.first)),
            _ => Box::new(Jobs::new(self.jobs())),
        }
    }

    fn describe(&self) -> String {
        match &self.source {
            Source::Gather { gather, .. } => {
                let (fronts, objects) = (gather.fronts.len(), gather.objects);
                let requests = fronts * gather.requests as usize;
                return format!("{requests} requests of {objects} objects");
            }
            Source::Stream { .. } => return "a stream topology".to_owned(),
            Source::Cluster(running) => {
                let (jobs, tasks) = running.tasks();
                return format!("{jobs} jobs, {tasks} tasks, {}", running.payload());
            }
            Source::Datagrams(datagrams) => return format!("datagrams, {}", datagrams.rate),
            Source::Jobs { .. } | Source::Coflows(_) | Source::Flows { .. } => {}
        }
        if let Source::Stream { stream, .. } = &self.source {
            let instances: usize = stream.operators.iter().map(|o| o.hosts.len()).sum();
            return format!("{} operators, {instances} instances", stream.operators.len());
        }
        let (mut jobs, mut flows, mut bytes) = (0, 0, Bytes::ZERO);
        let mut source = self.jobs();
        for job in source.by_ref() {
            jobs += 1;
            flows += job.flows.len();
            bytes += job.size();
            if flows >= MOST_COUNTED {
                break;
            }
        }
        let at_least = if source.next().is_some() { "at least " } else { "" };
        let payload =
            if bytes == Bytes::MAX { "without end".to_owned() } else { bytes.to_string() };
        format!("{at_least}{jobs} jobs, {flows} flows, {payload}")
    }

    /// The jobs by arrival.
    fn jobs(&self) -> Box<dyn Iterator<Item = Job> + '_> {
        let jobs: Box<dyn Iterator<Item = Job>> = match &self.source {
            Source::Jobs { jobs, .. } => Box::new(jobs.iter().cloned()),
            Source::Coflows(coflows) => Box::new(coflows.jobs()),
            // `Workload::prepare` has drawn from it, so this can't fail.
            Source::Flows { poisson, hosts, seed } => {
                Box::new(poisson.flows(hosts, *seed).into_iter().flatten())
            }
            // Applications of their own, without jobs.
            Source::Gather { .. }
            | Source::Stream { .. }
            | Source::Cluster(_)
            | Source::Datagrams(_) => Box::new(std::iter::empty()),
        };
        let first = self.first.0;
        Box::new(jobs.map(move |job| Job { id: JobId(first + job.id.0), ..job }))
    }

    fn done(&self, progress: &Progress) -> f64 {
        match &self.source {
            Source::Jobs { total, .. } => {
                progress.delivered.get() as f64 / total.get().max(1) as f64
            }
            Source::Coflows(coflows) => {
                progress.delivered.get() as f64 / coflows.size().get().max(1) as f64
            }
            Source::Flows { poisson, .. } => {
                let duration = poisson.duration.as_secs_f64().max(f64::MIN_POSITIVE);
                progress.now.as_secs_f64() / duration
            }
            Source::Gather { gather, .. } => {
                let objects = gather.fronts.len() as f64
                    * f64::from(gather.requests)
                    * f64::from(gather.objects);
                let size = f64::midpoint(f64::from(gather.sizes.0), f64::from(gather.sizes.1));
                progress.delivered.get() as f64 / (objects * size)
            }
            // Progress is the time that has passed.
            Source::Stream { .. } | Source::Datagrams(_) => 0.0,
            Source::Cluster(running) => {
                progress.delivered.get() as f64 / running.payload().get().max(1) as f64
            }
        }
    }
}

/// Most applications of a scenario.
const MOST_APPLICATIONS: usize = 64;
/// Jobs of an application are numbered from a multiple of this on.
const JOBS: u32 = 1 << 24;

impl Workload {
    fn has(&self, is: impl Fn(&Recipe) -> bool) -> bool {
        self.0.iter().any(|part| is(&part.recipe))
    }

    /// Whether it makes fan-out requests, which need the packet world and a policy that says how to
    /// gather.
    pub(super) fn is_gather(&self) -> bool {
        self.has(|recipe| matches!(recipe, Recipe::Gather(_)))
    }

    /// Whether it makes streams, whose queues are sampled.
    pub(super) fn is_stream(&self) -> bool {
        self.has(|recipe| matches!(recipe, Recipe::Stream(_)))
    }

    /// Whether it needs the packet world or the lab.
    pub(super) fn needs_packets(&self) -> bool {
        self.is_stream()
            || self.is_gather()
            || self.has(|recipe| matches!(recipe, Recipe::Datagrams(_)))
    }

    /// The names of the applications; none if there is one without a name.
    pub(super) fn applications(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| part.application.as_deref())
    }

    /// Makes the jobs for `network`, drawing from streams of `seed`; reads the traces that it
    /// names.
    ///
    /// # Errors
    /// A trace that can't be read; parameters that don't go together.
    pub fn prepare(&self, network: &Network, seed: u64) -> Result<Traffic, DocumentError> {
        let parts = (0u32..).zip(&self.0).map(|(number, part)| {
            // Each draws for itself, also where seeds follow each other.
            let source = part.prepare(network, seed ^ (u64::from(number) << 32))?;
            let application = part.application.as_deref().map(Arc::from);
            Ok(Moving { application, first: JobId(number * JOBS), source })
        });
        Ok(Traffic(parts.collect::<Read<_>>()?))
    }
}

impl Part {
    fn prepare(&self, network: &Network, seed: u64) -> Read<Source> {
        self.make(network, seed).map_err(|error| match error {
            Error::Trace(error) => DocumentError::whole(error),
            Error::Parameter(ParameterError { parameter, message }) => {
                let of = |site: &&Site| site.key == parameter;
                let given = self.sites.iter().filter(of).find(|site| site.is_given);
                match (given.or(self.sites.iter().find(of)), self.sites.first()) {
                    (Some(Site { path, at, .. }), _) => DocumentError::new(at, path, message),
                    // It follows from others, as the number of hosts does.
                    (None, Some(Site { path, at, .. })) => {
                        DocumentError::new(at, path, format_args!("{parameter}: {message}"))
                    }
                    (None, None) => DocumentError::new("", parameter, message),
                }
            }
        })
    }

    fn make(&self, network: &Network, seed: u64) -> Result<Source, Error> {
        let hosts = &self.hosts;
        if let Some(cluster) = &self.cluster
            && let Some((mut drafts, tasks)) = self.drafts(seed)?
        {
            if let Some(load) = self.load {
                // As if each job were only its flows.
                let mut jobs = tasks.place(&drafts, hosts, seed)?;
                load::calibrate(network, &mut jobs, load)?;
                for (draft, job) in drafts.iter_mut().zip(jobs) {
                    draft.arrival = job.arrival;
                }
            }
            let running = cluster.run(&tasks, &drafts, hosts, seed)?;
            return Ok(Source::Cluster(Box::new(running)));
        }
        let mut jobs = match &self.recipe {
            Recipe::Stream(recipe) => {
                return Ok(Source::Stream { stream: recipe.make()?, seed });
            }
            Recipe::Datagrams(datagrams) => return Ok(Source::Datagrams(*datagrams)),
            Recipe::Jobs(jobs) => jobs.clone(),
            Recipe::Shuffle(shuffle) => shuffle.jobs(hosts, seed)?,
            Recipe::Swim { file, sample, drawn } => {
                let drafts = sampled(file, sample, drawn.as_ref(), hosts.len(), seed)?;
                sample.tasks.place(&drafts, hosts, seed)?
            }
            Recipe::Coflow { file, split } => {
                let halves = hosts.split_at(hosts.len() / 2);
                let (senders, receivers) = if *split { halves } else { (&hosts[..], &hosts[..]) };
                let reader = coflow::Reader::open(file)?;
                let mut coflows = Coflows::read(reader, senders, receivers)?;
                if let Some(load) = self.load {
                    coflows.calibrate(network, load)?;
                }
                return Ok(Source::Coflows(coflows));
            }
            Recipe::Incast(incast) => incast.jobs(hosts, seed)?,
            Recipe::Permutation(bytes) => vec![permutation(hosts, *bytes, seed)?],
            Recipe::AllToAll(bytes) => vec![all_to_all(hosts, *bytes)?],
            Recipe::Gather(gather) => {
                gather.check(hosts)?;
                let (gather, hosts) = (gather.clone(), hosts.clone());
                return Ok(Source::Gather { gather, hosts, seed });
            }
            Recipe::Poisson { sizes, pattern, load, capacity, duration } => {
                let sizes = match sizes {
                    Sizes::Fixed(size) => SizeDistribution::Fixed(*size),
                    Sizes::Exponential(mean) => SizeDistribution::Exponential(*mean),
                    Sizes::Cdf(file) => SizeDistribution::Cdf(Cdf::open(file)?),
                };
                let (pattern, load, capacity, duration) = (*pattern, *load, *capacity, *duration);
                let poisson = Poisson { sizes, pattern, load, capacity, duration };
                poisson.flows(hosts, seed)?;
                return Ok(Source::Flows { poisson, hosts: hosts.clone(), seed });
            }
        };
        if let Some(load) = self.load {
            load::calibrate(network, &mut jobs, load)?;
        }
        let total = jobs.iter().map(Job::size).sum();
        Ok(Source::Jobs { jobs, total })
    }

    /// The jobs of a shuffle before they are placed; `None` of another recipe.
    fn drafts(&self, seed: u64) -> Result<Option<(Vec<Draft>, Tasks)>, Error> {
        Ok(match &self.recipe {
            Recipe::Shuffle(shuffle) => Some((shuffle.drafts(seed)?, shuffle.tasks)),
            Recipe::Swim { file, sample, drawn } => {
                let drafts = sampled(file, sample, drawn.as_ref(), self.hosts.len(), seed)?;
                Some((drafts, sample.tasks))
            }
            _ => None,
        })
    }
}

/// The jobs of a trace's sample for a cluster of so many `nodes`; where others are `drawn`, these arrive when those do,
/// and move as many octets together.
fn sampled(
    file: &Path,
    sample: &Sample,
    drawn: Option<&Shuffle>,
    nodes: usize,
    seed: u64,
) -> Result<Vec<Draft>, Error> {
    let mut drafts = sample.drafts(swim::Reader::open(file)?, nodes)?.drafts;
    if let Some(drawn) = drawn {
        let octets: Bytes = drafts.iter().map(|draft| draft.shuffle).sum();
        let mean = octets.get() / u64::from(drawn.jobs.max(1));
        let drawn = Shuffle { mean_bytes: Bytes::new(mean.max(1)), ..*drawn };
        for (own, drawn) in drafts.iter_mut().zip(drawn.drafts(seed)?) {
            *own = Draft { arrival: own.arrival, ..drawn };
        }
    }
    Ok(drafts)
}

#[derive(Clone, Copy)]
enum Kind {
    Jobs,
    Shuffle,
    Coflow,
    Poisson,
    Incast,
    Permutation,
    AllToAll,
    Gather,
    Stream,
    Datagrams,
}

const KINDS: &[(&str, Kind)] = &[
    ("jobs", Kind::Jobs),
    ("shuffle", Kind::Shuffle),
    ("coflow", Kind::Coflow),
    ("poisson", Kind::Poisson),
    ("incast", Kind::Incast),
    ("permutation", Kind::Permutation),
    ("all-to-all", Kind::AllToAll),
    ("gather", Kind::Gather),
    ("stream", Kind::Stream),
    ("datagrams", Kind::Datagrams),
];

/// What the reader of the table needs to know.
pub(super) struct Context<'a> {
    pub(super) topology: &'a Topology,
    pub(super) transport: &'a Transport,
    /// Where files that the table names are looked up from.
    pub(super) folder: &'a Path,
    /// Whether the run ends on its own, so that flows may be endless.
    pub(super) ends: bool,
}

/// `[workload]`, or `[[workload]]` for each of several applications at once.
pub(super) fn read(value: &Value<'_>, context: &Context<'_>) -> Read<Workload> {
    if !value.is_list() {
        return Ok(Workload(vec![read_part(value, context, false)?]));
    }
    let members = value.list(MOST_APPLICATIONS)?;
    let mut parts: Vec<Part> = Vec::new();
    for member in &members {
        let part = read_part(member, context, true)?;
        if members.len() > 1 && matches!(part.recipe, Recipe::Gather(_)) {
            return Err(member.error("gathers, for which one policy serves all; let it be alone"));
        }
        if parts.iter().any(|other| other.application == part.application) {
            let what = "there are two applications of this name; give each its own";
            return Err(member.error(what));
        }
        parts.push(part);
    }
    if parts.is_empty() {
        return Err(value.error("is empty; add a [[workload]] with its application and kind"));
    }
    Ok(Workload(parts))
}

fn read_part(value: &Value<'_>, context: &Context<'_>, is_named: bool) -> Read<Part> {
    let names = topology::names(context.topology, |kind| kind == NodeKind::Host);
    let hosts: Vec<NodeId> = context.topology.hosts().collect();
    let mut sites = vec![value.site()];
    let mut fields = value.fields()?;
    let application = if is_named {
        Some(fields.need("application", "\"sort\"")?.label()?)
    } else {
        fields.optional("application", Value::label)?
    };
    let kind = fields.need("kind", "\"shuffle\"")?.choice(KINDS)?;
    let mut stretch = None;
    let mut running = None;
    let recipe = match kind {
        Kind::Jobs => {
            let list = fields.need("job", "a [[workload.job]] table")?;
            Recipe::Jobs(jobs::read(&list, &names, context.ends)?)
        }
        Kind::Shuffle => {
            stretch = fields.optional("load", load)?.flatten();
            running = fields.optional("cluster", |v| cluster::read(v, hosts.len(), &mut sites))?;
            shuffle(&mut fields, hosts.len(), stretch.is_none(), context, &mut sites)?
        }
        Kind::Coflow => {
            stretch = fields.optional("load", load)?.flatten();
            let mut trace =
                fields.need("trace", "{ file = \"FB2010-1Hr-150-0.txt\" }")?.fields()?;
            let file = file(&trace.need("file", "\"FB2010-1Hr-150-0.txt\"")?, context.folder)?;
            let split = trace.or("split", false, Value::flag)?;
            sites.append(&mut trace.sites());
            trace.done()?;
            Recipe::Coflow { file, split }
        }
        Kind::Poisson => poisson(&mut fields, &names, context)?,
        Kind::Incast => incast(&mut fields, &names, context.ends)?,
        Kind::Stream | Kind::Datagrams if !context.ends => {
            return Err(fields.error(jobs::NEEDS_END));
        }
        Kind::Stream => {
            Recipe::Stream(stream::read(&mut fields, &names, context.folder, &mut sites)?)
        }
        Kind::Datagrams => Recipe::Datagrams(datagrams(&mut fields, &names, context)?),
        Kind::Permutation => Recipe::Permutation(bytes(&fields.need("bytes", "\"1 MB\"")?)?),
        Kind::AllToAll => Recipe::AllToAll(bytes(&fields.need("bytes", "\"1 MB\"")?)?),
        Kind::Gather => {
            Recipe::Gather(gather::read(&mut fields, context.topology, &hosts, &mut sites)?)
        }
    };
    sites.append(&mut fields.sites());
    fields.done()?;
    Ok(Part { application, recipe, cluster: running, hosts, load: stretch, sites })
}

/// Jobs of the generator, or of the trace that `[workload.trace]` names. Every key is read in
/// either case, so that naming a trace on the command line turns no file into a bad one.
fn shuffle(
    fields: &mut Fields<'_>,
    hosts: usize,
    needs_gap: bool,
    context: &Context<'_>,
    sites: &mut Vec<Site>,
) -> Read<Recipe> {
    let nodes = u32::try_from(hosts).unwrap_or(u32::MAX);
    let mut tasks = Tasks::for_nodes(nodes);
    if let Some(value) = fields.get("tasks") {
        let mut fields = value.fields()?;
        tasks = Tasks {
            block: fields.or("block", tasks.block, bytes)?,
            most_maps: fields.or("most_maps", tasks.most_maps, count)?,
            reduces: reduces(&mut fields, nodes)?,
            skew: fields.or("skew", tasks.skew, |v| v.number(0.0..=10.0))?,
            map_spread: fields.or("map_spread", tasks.map_spread, span)?,
        };
        sites.append(&mut fields.sites());
        fields.done()?;
    } else {
        let keys = ["block", "most_maps", "most_reduces", "reduces", "skew", "map_spread"];
        sites.append(&mut fields.sites_below("tasks", &keys));
    }
    let jobs = fields.need("jobs", "100")?;
    let generated = Shuffle {
        jobs: many(&jobs)?,
        mean_bytes: bytes(&fields.need("mean_bytes", "\"100 MB\"")?)?,
        spread: fields.or("spread", 5.0, |v| v.number(1.0..=1e6))?,
        mean_gap: match fields.get("mean_gap") {
            Some(value) => span(&value)?,
            // Any gap does: the load stretches it.
            None if !needs_gap => Span::from_secs(1),
            None => span(&fields.need("mean_gap", "\"10 s\", or give a load")?)?,
        },
        tasks,
    };
    let Some(value) = fields.get("trace") else {
        return Ok(Recipe::Shuffle(generated));
    };
    let mut trace = value.fields()?;
    let file = trace.optional("file", |v| file(v, context.folder))?;
    let sample = Sample {
        trace_nodes: trace.or("trace_nodes", 600, count)?,
        jobs: trace.or("jobs", generated.jobs, many)?,
        sample: trace.or("sample", 0, |v| v.integer(0..=u32::MAX))?,
        all: trace.or("jobs_that", false, |v| v.choice(&[("shuffle", false), ("all", true)]))?,
        floors: trace.or("floors", Floors::NONE, |v| {
            v.choice(&[("none", Floors::NONE), ("swim", Floors::SWIM)])
        })?,
        tasks,
    };
    let is_drawn = trace.or("sizes", false, |v| v.choice(&[("own", false), ("drawn", true)]))?;
    sites.append(&mut trace.sites());
    trace.done()?;
    let drawn = is_drawn.then_some(Shuffle { jobs: sample.jobs, ..generated });
    Ok(match file {
        Some(file) => Recipe::Swim { file, sample, drawn },
        None => Recipe::Shuffle(generated),
    })
}

/// How many reduces a job has: by SWIM's rule, or one a block up to `most_reduces`.
fn reduces(fields: &mut Fields<'_>, nodes: u32) -> Read<Reduces> {
    let slots = fields.or("most_reduces", nodes.saturating_mul(2), count)?;
    let named = [("slots", Reduces::Slots(slots)), ("swim", Reduces::Swim(nodes))];
    fields.or("reduces", Reduces::Slots(slots), |v| v.choice(&named))
}

/// The load that arrivals are stretched to; `None` where those of the trace are kept.
fn load(value: &Value<'_>) -> Read<Option<f64>> {
    match value.setting()? {
        Setting::Text(_) => value.choice(&[("own", None)]),
        _ => positive(value).map(Some),
    }
}

fn poisson(fields: &mut Fields<'_>, names: &Names<'_>, context: &Context<'_>) -> Read<Recipe> {
    let mut sizes = fields.need("sizes", "{ exponential = \"46 kB\" }")?.fields()?;
    let fixed = sizes.optional("fixed", bytes)?.map(Sizes::Fixed);
    let exponential = sizes.optional("exponential", bytes)?.map(Sizes::Exponential);
    let cdf = sizes.optional("cdf", |v| file(v, context.folder))?.map(Sizes::Cdf);
    let sizes = match (fixed, exponential, cdf) {
        (Some(only), None, None) | (None, Some(only), None) | (None, None, Some(only)) => {
            sizes.done()?;
            only
        }
        _ => return Err(sizes.error("give exactly one of fixed, exponential and cdf")),
    };
    let incast =
        fields.or("pattern", false, |v| v.choice(&[("uniform", false), ("incast", true)]))?;
    let pattern = if incast {
        Pattern::Incast(named(&fields.need("receiver", "\"h0\"")?, "host", names)?)
    } else {
        Pattern::Uniform
    };
    Ok(Recipe::Poisson {
        sizes,
        pattern,
        load: positive(&fields.need("load", "0.8")?)?,
        capacity: fields.or("capacity", payload_capacity(context), Value::quantity)?,
        duration: span(&fields.need("duration", "\"1 s\"")?)?,
    })
}

/// Payload that the first host's link carries in full packets.
fn payload_capacity(context: &Context<'_>) -> Rate {
    let topology = context.topology;
    let mut uplinks = topology.hosts().flat_map(|host| topology.out(host));
    let frame = uplinks.next().map_or(Rate::ZERO, |&link| topology.link(link).spec.capacity);
    let (mss, header) = (u64::from(context.transport.mss), u64::from(context.transport.header));
    frame.fraction(mss, mss + header)
}

fn datagrams(fields: &mut Fields<'_>, names: &Names<'_>, context: &Context<'_>) -> Read<Datagrams> {
    let from = fields.need("from", "\"h0\"")?;
    let (src, dst) =
        (named(&from, "host", names)?, named(&fields.need("to", "\"h1\"")?, "host", names)?);
    if src == dst {
        return Err(from.error("is the host that it sends to; name another"));
    }
    let rate = fields.need("rate", "\"3 Mbit/s\"")?;
    let full = Bytes::new(context.transport.mss.into());
    let size = |value: &Value<'_>| between(value, Bytes::new(1), full);
    Ok(Datagrams {
        src,
        dst,
        rate: between(&rate, Rate::from_bps(1_000), Rate::from_mbps(100_000_000))?,
        size: fields.or("size", full, size)?,
        start: fields.or("start", Span::ZERO, span)?,
        until: fields.or("until", Span::MAX, span)?,
    })
}

fn incast(fields: &mut Fields<'_>, names: &Names<'_>, ends: bool) -> Read<Recipe> {
    let receiver = named(&fields.need("receiver", "\"h0\"")?, "host", names)?;
    let senders = count(&fields.need("senders", "40")?)?;
    let each = match fields.get("total") {
        // A block that the senders hold in equal parts.
        Some(total) => Bytes::new(bytes(&total)?.get().div_ceil(senders.into())),
        None => bytes(&fields.need("bytes", "\"512 KB\", or give a total")?)?,
    };
    let once = Incast::once(receiver, senders, each);
    Ok(Recipe::Incast(Incast {
        jitter: fields.or("jitter", once.jitter, span)?,
        start: fields.or("start", once.start, span)?,
        rounds: fields.or("rounds", once.rounds, count)?,
        interval: fields.or("interval", once.interval, span)?,
        background: fields.or("background", once.background, |v| {
            let background = v.flag()?;
            if background && !ends {
                return Err(v.error(jobs::NEEDS_END));
            }
            Ok(background)
        })?,
        ..once
    }))
}

/// How many jobs there are.
fn many(value: &Value<'_>) -> Read<u32> {
    value.integer(1..=MOST_JOBS)
}

fn positive(value: &Value<'_>) -> Read<f64> {
    value.number(1e-6..=1000.0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use units::Time;

    use super::*;

    #[test]
    fn jobs_drawn_for_a_trace_have_its_times_and_its_octets() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("trace.tsv");
        let lines = "a\t3\t0\t9\t20000\t9\nb\t7\t4\t9\t30000\t9\nc\t60\t53\t9\t50000\t9\n";
        fs::write(&file, lines).unwrap();
        let tasks = Tasks::for_nodes(6);
        let (all, floors) = (false, Floors::NONE);
        let sample = Sample { trace_nodes: 6, jobs: 3, sample: 0, all, floors, tasks };
        let (mean_bytes, mean_gap) = (Bytes::new(7), Span::from_secs(1));
        let drawn = Shuffle { jobs: 3, mean_bytes, spread: 5.0, mean_gap, tasks };
        let [own, other] =
            [None, Some(&drawn)].map(|drawn| sampled(&file, &sample, drawn, 6, 1).unwrap());
        let sizes = |drafts: &[Draft]| -> Vec<u64> {
            drafts.iter().map(|draft| draft.shuffle.get()).collect()
        };
        assert_eq!(sizes(&own), [20_000, 30_000, 50_000]);
        assert_ne!(sizes(&own), sizes(&other));
        // A third of it is no whole number.
        assert_eq!(sizes(&other).iter().sum::<u64>(), 3 * (100_000 / 3));
        for drafts in [&own, &other] {
            let arrivals: Vec<_> = drafts.iter().map(|d| d.arrival.since(Time::ZERO)).collect();
            assert_eq!(arrivals, [0, 4, 57].map(Span::from_secs));
        }
    }
}
