use std::io;
use std::path::PathBuf;

use protocol::Connection;

/// How to get a cgroup v2. `ip netns exec` covers all below /sys, so that a mount there is seen by no program
/// that it starts; one beside it is, and hides no cgroup v1.
pub(crate) const CGROUP_REMEDY: &str = "mkdir -p /run/cgroup2 && mount -t cgroup2 none /run/cgroup2, before `ip netns exec`, which hides mounts \
     below /sys";

/// Why the kernel wasn't made to do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A BPF object isn't accepted.
    #[error("BPF program {object}: {source}; `watermaster doctor` tells what is missing")]
    Load {
        /// Which object.
        object: &'static str,
        /// What the loader said.
        source: libbpf_rs::Error,
    },
    /// A BPF operation failed.
    #[error("{doing}: {source}")]
    Bpf {
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// A file or directory.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The clock of this process isn't the kernel's (time_namespaces(7)): its leases would end at other times.
    #[error(
        "this process has a clock of its own ({0} s off): leases would not end when they should; start it outside \
             of its time namespace"
    )]
    Clock(i64),
    /// There is no cgroup v2 hierarchy.
    #[error("no cgroup v2 is mounted here; {CGROUP_REMEDY}")]
    NoCgroup,
    /// What should be a control group isn't one.
    #[error("no connections can be governed there: {0}")]
    NotGroup(libbpf_rs::Error),
    /// What an earlier agent left has another layout.
    #[error(
        "{path}: left by another version of the agent ({source}); stop it with that version, or remove the directory"
    )]
    Incompatible {
        /// Where it lies.
        path: PathBuf,
        /// What doesn't fit.
        source: libbpf_rs::Error,
    },
    /// What is pinned there belongs to an agent that runs.
    #[error("another agent uses {0}; stop it, or give this one a name or pins of its own")]
    Taken(PathBuf),
    /// There is no such interface in the namespace.
    #[error("no interface {0} in {1}")]
    NoInterface(String, String),
    /// There is no such class at an interface.
    #[error("no class {class} that packets wait in at {interface}, which has {there}")]
    NoClass {
        /// As tc writes it.
        class: String,
        /// Where.
        interface: String,
        /// Those that are there.
        there: String,
    },
    /// What was governed isn't there any more.
    #[error("{0} is gone, or another has taken its place")]
    Gone(String),
    /// What was left out at the start, as it wasn't there.
    #[error("{0} is there now, and governed from the next start")]
    Come(String),
    /// A command of a controller that another has replaced.
    #[error("epoch {given} is over: {standing} stands")]
    Stale {
        /// The epoch of the command.
        given: u64,
        /// The highest one seen.
        standing: u64,
    },
    /// A setting that makes no sense.
    #[error("{setting}: {remedy}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What it must be.
        remedy: &'static str,
    },
    /// A connection that can't be limited.
    #[error("{} to {}: {why}", .connection.source, .connection.destination)]
    Unnamed {
        /// Which.
        connection: Connection,
        /// Why.
        why: &'static str,
    },
    /// A connection whose windows can't be read.
    #[error(
        "the window scale of {} to {} is not known: a SYN of it was not seen, or is forgotten; open it anew",
        .connection.source, .connection.destination
    )]
    Unscaled {
        /// Which.
        connection: Connection,
    },
    /// There is no room for another limit.
    #[error("all {0} limits are taken; raise `limits` in the agent's configuration")]
    Full(u32),
    /// There is no room for another window, or class, of a connection at an interface.
    #[error(
        "all {0} places for connections at the interface are taken; declare fewer flows that go through it"
    )]
    Crowded(u32),
    /// A process whose sockets aren't shown.
    #[error("the descriptors of process {pid} can't be read without {lacks}: {source}")]
    Hidden {
        /// Which.
        pid: u32,
        /// The capability.
        lacks: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no such port.
    #[error("no port {0}")]
    NoPort(u32),
}

impl Error {
    pub(crate) fn bpf(doing: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Bpf { doing, source }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
