//! The packet world: hosts, queues, switches and the TCP family, packet by packet.
#![forbid(unsafe_code)]

#[cfg(debug_assertions)]
mod book;
mod capture;
mod flow;
mod frame;
mod lengths;
mod link;
mod meter;
mod scheduler;
mod switches;
mod tags;
mod tcp;
mod transport;
mod wires;
mod world;

use engine::{Application, Plan};
use model::Network;
use policy::Policy;
use units::{Bytes, Span, Time};

pub use capture::{Capture, CaptureFile, Frame};
pub use engine::{Jobs, Monitor, Outcome, Progress};
pub use lengths::Lengths;
pub use scheduler::Discipline;
pub use transport::{Protocol, Transport};
pub use world::World;

/// One run: network, application and policy.
pub struct Setup<'a> {
    /// The network; flows take its ECMP paths, keyed by flow number.
    pub network: Network,
    /// The transport of every flow.
    pub transport: Transport,
    /// What runs on the hosts.
    pub application: Box<dyn Application<World> + 'a>,
    /// The policy; `None` decides nothing.
    pub policy: Option<Box<dyn Policy + 'a>>,
    /// How its directives are carried out.
    pub enforcement: Limiter,
    /// How hosts serve their transmit queues.
    pub host_queue: Discipline,
    /// How switches serve their output queues.
    pub switch_queue: Discipline,
    /// One-way delay between an application, or an actuator, and the controller.
    pub control_delay: Span,
    /// Processing time of each message; one at a time.
    pub processing: Span,
    /// The run ends here at the latest; [`Time::NEVER`] runs until every flow has ended.
    pub until: Time,
    /// Ports to capture as pcapng.
    pub captures: Vec<Capture>,
    /// Queues to watch.
    pub monitors: Vec<Monitor>,
    /// Sampling period of achieved rates ([`engine::Outcome::rates`]); `None` records none.
    pub rates: Option<Span>,
}

/// What holds a flow to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// The sender spaces its packets.
    Pacing,
    /// The first switch drops what exceeds a token bucket, as an OpenFlow meter does.
    Meter {
        /// Depth of the bucket.
        burst: Bytes,
    },
}

/// Why a run can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A flow between hosts with no path, or with more hops than a packet can count.
    #[error("no usable path from host {src} to host {dst}: {reason}", src = .src.0, dst = .dst.0)]
    NoPath {
        /// Sending host.
        src: model::NodeId,
        /// Receiving host.
        dst: model::NodeId,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A parameter of the transport that can't work; the text names it, its value and the range.
    #[error("{0}")]
    Transport(String),
    /// More kinds of links than the world's tables have room for.
    #[error(
        "links of more than 65536 kinds: a packet's way through memory has room for no more; give more of \
         them the same capacity, delay, buffer and mark"
    )]
    Kinds,
    /// A queue that can't be watched.
    #[error(
        "queue of link {link} every {interval}: the topology must have the link, and the \
         interval must be above zero",
        link = .link.0
    )]
    Monitor {
        /// The directed link.
        link: model::LinkId,
        /// Time between samples.
        interval: Span,
    },
    /// The simulator broke one of its own laws: a defect of Watermaster, not of the scenario.
    #[error("the simulation is inconsistent, which is a defect to report: {0}")]
    Invariant(String),
    /// A capture file can't be written.
    #[error("capture {path}: {source}")]
    Capture {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Runs `setup` to its end and reports. `progress` is called now and then.
///
/// # Errors
/// See [`RunError`].
pub fn run(setup: Setup<'_>, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, RunError> {
    let links = setup.network.topology().links().len();
    for &Monitor { link, interval, .. } in &setup.monitors {
        if interval == Span::ZERO || link.index() >= links {
            return Err(RunError::Monitor { link, interval });
        }
    }
    let world = World::new(&setup)?;
    let watch = setup.policy.as_ref().and_then(|policy| policy.watch());
    let local = watch.is_some_and(|watch| watch.local);
    let plan = Plan {
        network: setup.network,
        application: setup.application,
        policy: setup.policy,
        control_delay: if local { Span::ZERO } else { setup.control_delay },
        processing: if local { Span::ZERO } else { setup.processing },
        until: setup.until,
        monitors: setup.monitors,
        rates: setup.rates,
    };
    engine::drive(world, plan, progress)
}
