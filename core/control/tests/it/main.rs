//! The controller as a machine, by what goes in and comes out.
#![allow(clippy::unwrap_used)] // a test may panic

mod another_policy;
mod caps;
mod connections;
mod decide;
mod directives;
mod enforced;
mod former;
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
mod pods;
mod ports;
mod prepared;
mod processes;
mod record;
mod refusals;
mod scripted;
mod sight;
mod sizes;
mod steps;
mod switches;
mod tenants;
mod turns;
mod windows;
