//! What a host does for the controller, through its kernel.
//!
//! - [`Pacer`]: holds TCP connections to rates and reports how they stand, at the host that has their
//!   sockets.
//! - [`Switch`]: watches the queues of interfaces, caps the windows of acknowledgements that pass,
//!   marks CE and chooses HTB classes, where a switch port or an uplink is a Linux interface.
//! - [`Dctcp`]: a congestion control that obeys marks, where the kernel has none.
//! - [`Features`]: what of this the kernel gives, found by trying.
//!
//! All that is granted has a [`Lease`], which ends in the kernel's own maps: nobody has to be left
//! alive to lift a limit. See `docs/agent.md`.

mod cgroup;
mod clock;
mod dctcp;
mod ended;
mod error;
mod event;
mod features;
mod interfaces;
mod layout;
mod lease;
mod namespace;
mod objects;
mod pacer;
mod pins;
mod port;
mod process;
mod raw;
pub mod rtnetlink;
mod spacer;
mod statistics;
mod switch;

pub use agent::{Happening, PortNumber};
pub use cgroup::unified_mount;
pub use clock::now;
pub use dctcp::Dctcp;
pub use ended::Ended;
pub use error::Error;
pub use event::Event;
pub use features::{Feature, Features, Missing};
pub use lease::Lease;
pub use namespace::Namespace;
pub use pacer::{Limit, Pacer, PacerOptions, Stopped};
pub use port::{Attachment, Counters, Flow, Port, PortOptions, Queue, Watch};
pub use process::Sockets;
pub use protocol::Connection;
pub use statistics::{State, Statistics};
pub use switch::Switch;
