//! `[[workload.job]]`: jobs written out flow by flow.

use document::DocumentError;
use document::fields::{Value, between};
use document::topology::{Names, named};
use model::{Flow, Job, JobClass, JobId, TaskId};
use units::{Bytes, Span, Time};

type Read<T> = Result<T, DocumentError>;

/// Most jobs, and most flows in all, that a file writes out.
const MOST: usize = 100_000;
/// Largest flow: a petabyte.
const LARGEST: Bytes = Bytes::new(1_000_000_000_000_000);
/// Latest arrival or start.
const LATEST: Span = Span::from_secs(3_600_000);

/// The error for an endless flow in a scenario without an end.
pub(super) const NEEDS_END: &str =
    "the run would never end; add until = \"10 s\" at the top of the scenario";

const CLASSES: &[(&str, JobClass)] =
    &[("small", JobClass::Small), ("medium", JobClass::Medium), ("large", JobClass::Large)];

/// The jobs by arrival, numbered in the order of the file. A flow may be endless where the run
/// `ends` on its own.
pub(super) fn read(value: &Value<'_>, hosts: &Names<'_>, ends: bool) -> Read<Vec<Job>> {
    let mut jobs = Vec::new();
    let mut flows = 0;
    for (number, value) in (0u32..).zip(value.list(MOST)?) {
        let mut fields = value.fields()?;
        let arrival = fields.or("arrival", Span::ZERO, time)?;
        let class = fields.optional("class", |v| v.choice(CLASSES))?;
        let members = fields.need("flow", "[{ from = \"h0\", to = \"h1\", size = \"1 MB\" }]")?;
        fields.done()?;
        let read = |v: &Value<'_>| flow(v, hosts, ends);
        let job = Job {
            id: JobId(number),
            arrival: Time::ZERO + arrival,
            class,
            flows: members.list(MOST)?.iter().map(read).collect::<Read<_>>()?,
        };
        flows += job.flows.len();
        if job.flows.is_empty() {
            return Err(value.error("has no flows; add one to flow"));
        }
        if flows > MOST {
            return Err(value.error(format_args!("there are more than {MOST} flows; use a trace")));
        }
        jobs.push(job);
    }
    if jobs.is_empty() {
        return Err(value.error("is empty; add a [[workload.job]]"));
    }
    jobs.sort_by_key(|job| job.arrival);
    Ok(jobs)
}

fn flow(value: &Value<'_>, hosts: &Names<'_>, ends: bool) -> Read<Flow> {
    let mut fields = value.fields()?;
    let src = named(&fields.need("from", "\"h0\"")?, "host", hosts)?;
    let to = fields.need("to", "\"h1\"")?;
    let dst = named(&to, "host", hosts)?;
    if src == dst {
        return Err(to.error("is where the flow comes from; name another host"));
    }
    let size = size(&fields.need("size", "\"1 MB\"")?, ends)?;
    let offset = fields.or("start", Span::ZERO, time)?;
    fields.done()?;
    // A host runs one map and one reduce of each job.
    let (from, to) = (TaskId(src.0), TaskId(dst.0));
    Ok(Flow { src, dst, from, to, size, offset })
}

fn size(value: &Value<'_>, ends: bool) -> Read<Bytes> {
    if value.text() == Ok("endless") {
        return if ends { Ok(Bytes::MAX) } else { Err(value.error(NEEDS_END)) };
    }
    between(value, Bytes::new(1), LARGEST)
}

fn time(value: &Value<'_>) -> Read<Span> {
    between(value, Span::ZERO, LATEST)
}
