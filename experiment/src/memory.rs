//! How much memory a run may take. Runs at the same time share it.

use units::Bytes;

/// Resident memory of this process; `None` where the system doesn't tell.
pub fn used() -> Option<Bytes> {
    kilobytes("/proc/self/status", "VmRSS:")
}

/// What runs may take unless told otherwise: three quarters of the machine's memory.
pub fn usual() -> Option<Bytes> {
    kilobytes("/proc/meminfo", "MemTotal:").map(|all| Bytes::new(all.get() / 4 * 3))
}

/// A field of a file of `/proc` that counts kB, such as `VmHWM:` of a process's `status`.
pub fn kilobytes(file: &str, field: &str) -> Option<Bytes> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(Bytes::new(number.saturating_mul(1024)))
}
