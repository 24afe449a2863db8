//! `[[workload.job]]`: jobs written out flow by flow.

use std::sync::Arc;

use document::DocumentError;
use document::fields::{Value, between};
use document::topology::{Names, named};
use model::{Flow, Job, JobClass, JobId, NodeId, TaskId, Terms};
use units::{Bytes, Span, Time};

type Read<T> = Result<T, DocumentError>;

/// Most jobs, and most flows in all, that a file writes out.
const MOST: usize = 100_000;
const TOO_MANY: &str = "there are more than 100000 flows; use a trace";
/// Largest flow: a petabyte.
const LARGEST: Bytes = Bytes::new(1_000_000_000_000_000);
/// Latest arrival or start.
const LATEST: Span = Span::from_secs(3_600_000);

/// The error for an endless flow in a scenario without an end.
pub(super) const NEEDS_END: &str =
    "the run would never end; add until = \"10 s\" at the top of the scenario";

pub(super) const CLASSES: &[(&str, JobClass)] =
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
        let terms = Terms {
            objective: fields.optional("objective", Value::label)?.map(Arc::from),
            deadline: fields
                .optional("deadline", |v| between(v, Span::from_millis(1), Terms::LONGEST))?,
            weight: fields.or("weight", 1, |v| v.integer(1..=Terms::HEAVIEST))?,
        };
        let members = fields.need("flow", "[{ from = \"h0\", to = \"h1\", size = \"1 MB\" }]")?;
        fields.done()?;
        let mut own = Vec::new();
        for member in members.list(MOST)? {
            own.append(&mut between_hosts(&member, hosts, ends)?);
            if flows + own.len() > MOST {
                return Err(member.error(TOO_MANY));
            }
        }
        let arrival = Time::ZERO + arrival;
        let job = Job { id: JobId(number), arrival, class, terms, flows: own };
        flows += job.flows.len();
        if job.flows.is_empty() {
            return Err(value.error("has no flows; add one to flow"));
        }
        jobs.push(job);
    }
    if jobs.is_empty() {
        return Err(value.error("is empty; add a [[workload.job]]"));
    }
    jobs.sort_by_key(|job| job.arrival);
    Ok(jobs)
}

/// The flows of a member: from one host to another, or between each two of lists of hosts.
fn between_hosts(value: &Value<'_>, hosts: &Names<'_>, ends: bool) -> Read<Vec<Flow>> {
    let mut fields = value.fields()?;
    let from = fields.need("from", "\"h0\"")?;
    let to = fields.need("to", "\"h1\"")?;
    let (sources, targets) = (ends_of(&from, hosts)?, ends_of(&to, hosts)?);
    let size = size(&fields.need("size", "\"1 MB\"")?, ends)?;
    let offset = fields.or("start", Span::ZERO, time)?;
    fields.done()?;
    if sources.len().saturating_mul(targets.len()) > MOST {
        return Err(value.error(TOO_MANY));
    }
    let mut flows = Vec::new();
    for &src in &sources {
        for &dst in targets.iter().filter(|dst| **dst != src) {
            // A host runs one map and one reduce of each job.
            let (from, to) = (TaskId(src.0), TaskId(dst.0));
            flows.push(Flow { src, dst, from, to, size, offset });
        }
    }
    if flows.is_empty() {
        return Err(to.error("is where the flow comes from; name another host"));
    }
    Ok(flows)
}

/// A host, or each of a list.
fn ends_of(value: &Value<'_>, hosts: &Names<'_>) -> Read<Vec<NodeId>> {
    if !value.is_list() {
        return Ok(vec![named(value, "host", hosts)?]);
    }
    value.list(MOST)?.iter().map(|v| named(v, "host", hosts)).collect()
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
