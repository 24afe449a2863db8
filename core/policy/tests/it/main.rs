//! The tests of policies, in one program: linking takes longer than they do.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod admission;
mod aims;
mod app_aware;
mod arbiter;
mod catalogue;
mod desk;
mod fifo_lm;
mod figures;
mod fixed;
mod guard;
mod hostile;
mod order;
mod rates;
mod renormalise;
mod sdtcp;
mod sicc;
mod slots;
mod split;
mod waterfill;
