//! Why a lab can't do what was asked.

/// Why a lab can't do what was asked. Each message names a remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Namespaces need privileges.
    #[error(
        "a lab needs root, for network namespaces; run it with sudo, or use world = \"packet\""
    )]
    NotRoot,
    /// The topology asks for what a lab can't do.
    #[error("topology: {0}")]
    Topology(String),
    /// The transport asks for what the kernel can't do.
    #[error("transport: {0}")]
    Transport(String),
    /// A name that can't be part of a namespace's name.
    #[error(
        "\"{0}\" can't name a lab or a node of it; use letters, digits, - (not first) and _, at most 128 with \
             the lab's name"
    )]
    Name(String),
    /// A lab of this name exists.
    #[error("there is a lab {0} already; use it, or remove it by watermaster lab down {0}")]
    Taken(String),
    /// A namespace of a needed name belongs to somebody else.
    #[error("there is a namespace {0} that no lab has made; choose another name by --name")]
    Foreign(String),
    /// There is no lab of this name.
    #[error("there is no lab {0}; see watermaster lab list")]
    None(String),
    /// A lab of another topology, or one that was never finished.
    #[error("lab {0} is half made or of another topology; watermaster lab down {0}, then up again")]
    Other(String),
    /// A scenario runs in the lab.
    #[error("lab {0} is running a scenario; wait for its end, or watermaster lab down {0}")]
    Busy(String),
    /// A command of the system failed.
    #[error("{0}")]
    Command(String),
    /// A namespace can't be entered.
    #[error("namespace {0}: {1}; watermaster lab down, then up again")]
    Namespace(String, #[source] std::io::Error),
    /// A setting of the kernel can't be made.
    #[error(
        "/proc/sys/{0}: {1}; a lab needs root, a writable /proc/sys and a kernel with this setting"
    )]
    Setting(String, #[source] std::io::Error),
    /// A record of a lab, or a control group, can't be read or written.
    #[error("{0}")]
    State(String),
    /// A socket failed.
    #[error("{0}: {1}")]
    Socket(String, #[source] std::io::Error),
    /// The run has stalled.
    #[error("no flow has moved for {0}; run it again while nobody changes the machine's network")]
    Stalled(units::Span),
    /// The kernel's counters contradict what was sent.
    #[error("the run is inconsistent, which is a defect to report: {0}")]
    Inconsistent(String),
    /// A controller or an agent can't be started or reached.
    #[error("control: {0}")]
    Control(String),
    /// This machine lacks what an engine needs.
    #[error("{0}")]
    Missing(String),
    /// An engine can't be started, or has failed.
    #[error("engine: {0}")]
    Engine(String),
}
