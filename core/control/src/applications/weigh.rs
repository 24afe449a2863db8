//! What records take in all rooms, in bytes, rather too high. Not what this machine takes, so that a recording is
//! replayed alike on another.

/// A task of a job and the host that it is on.
pub(crate) const TASK: u64 = 256;
/// What a map sends to a reduce.
pub(crate) const PORTION: u64 = 128;
/// The portions of a map, beside them.
pub(crate) const MAP: u64 = 512;

/// A job.
pub(crate) const fn job(name: &str) -> u64 {
    4_096 + name.len() as u64
}

/// A flow.
pub(crate) const fn flow(name: &str) -> u64 {
    3_072 + name.len() as u64
}
