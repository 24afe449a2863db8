//! Fixed patterns: permutation and all-to-all.

use engine::random::Stream;
use model::{Flow, Job, JobId, NodeId, TaskId, Terms};
use rand::seq::SliceRandom;
use units::{Bytes, Span, Time};

use crate::error::{require, require_bytes, require_hosts};
use crate::{MOST_FLOWS, ParameterError};

/// One job at 0 in which each host sends `bytes` to exactly one other and receives from exactly
/// one. Stream: `permutation`.
///
/// # Errors
/// Fewer than 2 hosts, or no bytes.
pub fn permutation(hosts: &[NodeId], bytes: Bytes, seed: u64) -> Result<Job, ParameterError> {
    require_hosts(hosts)?;
    require_bytes("bytes", bytes)?;
    let mut stream = Stream::named(seed, "permutation");
    let mut targets = hosts.to_vec();
    // Every derangement is as likely as any other; one in e permutations is one.
    loop {
        targets.shuffle(&mut stream);
        if hosts.iter().zip(&targets).all(|(src, dst)| src != dst) {
            break;
        }
    }
    Ok(at_once(hosts.iter().copied().zip(targets), bytes))
}

/// One job at 0 in which each host sends `bytes` to every other.
///
/// # Errors
/// Fewer than 2 hosts or more than 4096, or no bytes.
pub fn all_to_all(hosts: &[NodeId], bytes: Bytes) -> Result<Job, ParameterError> {
    require_hosts(hosts)?;
    require_bytes("bytes", bytes)?;
    let flows = hosts.len().saturating_mul(hosts.len() - 1);
    require(flows as u64 <= MOST_FLOWS, "hosts", || {
        format!("{} make {flows} flows; at most {MOST_FLOWS} are possible", hosts.len())
    })?;
    let pairs = hosts.iter().flat_map(|&src| hosts.iter().map(move |&dst| (src, dst)));
    Ok(at_once(pairs.filter(|(src, dst)| src != dst), bytes))
}

/// The flows from task 2i to task 2i + 1.
fn at_once(pairs: impl Iterator<Item = (NodeId, NodeId)>, size: Bytes) -> Job {
    let flows = (0u32..).zip(pairs).map(|(number, (src, dst))| Flow {
        src,
        dst,
        from: TaskId(2 * number),
        to: TaskId(2 * number + 1),
        size,
        offset: Span::ZERO,
    });
    Job {
        id: JobId(0),
        arrival: Time::ZERO,
        class: None,
        terms: Terms::default(),
        flows: flows.collect(),
    }
}
