//! Where control groups are: they decide whose connections a pacer governs.

use std::fs;
use std::path::PathBuf;

use crate::Error;

/// Where the cgroup v2 hierarchy is mounted, which is not everywhere `/sys/fs/cgroup`.
///
/// # Errors
/// [`Error::NoCgroup`], or [`Error::File`] without /proc.
pub fn unified_mount() -> Result<PathBuf, Error> {
    let mounts = fs::read_to_string("/proc/mounts").map_err(Error::file("/proc/mounts"))?;
    mount_of(&mounts, "cgroup2").ok_or(Error::NoCgroup)
}

/// The first mount point of a type in the text of /proc/mounts.
pub(crate) fn mount_of(mounts: &str, kind: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let point = words.next()?;
        (words.next()? == kind).then(|| point.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_point_is_found_beside_the_first_version() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount_of(mounts, "cgroup2"), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mount_of("cgroup2\n", "cgroup2"), None);
    }
}
