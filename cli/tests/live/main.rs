//! The daemon as a process: real sockets on loopback, real signals.

mod faults;
mod hostile;
mod northbound;
mod recording;
mod rig;
mod switch;
mod trust;
