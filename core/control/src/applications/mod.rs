//! Applications: what they declare, who declared it, and how it compares with what is measured.

pub(crate) mod application;
pub(crate) mod declare;
pub(crate) mod flow;
pub(crate) mod joins;
pub(crate) mod ledger;
pub(crate) mod owners;
pub(crate) mod pods;
pub(crate) mod registry;
pub(crate) mod selector;
mod sharing;
mod taken;
pub(crate) mod tenants;
pub(crate) mod truth;
pub(crate) mod weigh;
