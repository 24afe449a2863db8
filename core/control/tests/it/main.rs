//! The controller as a machine, by what goes in and comes out.
#![allow(clippy::unwrap_used)] // a test may panic

mod caps;
mod decide;
mod enforced;
mod forwarding;
mod hostile;
mod identities;
#[path = "../in_memory/mod.rs"]
mod in_memory;
mod joins;
mod limits;
mod meters;
mod orders;
mod parts;
mod prepared;
mod processes;
mod record;
mod sight;
mod steps;
mod tenants;
mod windows;
