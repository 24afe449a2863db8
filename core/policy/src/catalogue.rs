//! All policies by the short names that scenarios and reports use.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;

use crate::{Policy, PolicyError, Share, fair, fifo, one_all, sff, sicc, smsf, sw, tcp};

/// The name of every policy.
pub const NAMES: [&str; 9] =
    ["tcp", "fair", "fifo", "sff", "smsf", "one-all", "sw", "sicc", "sicc-joint"];

/// The policies that say how fan-out requests are gathered.
pub const GATHERING: [&str; 4] = ["one-all", "sw", "sicc", "sicc-joint"];

/// The parameters of all policies that have some; the defaults are the published ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The share of its access link that a host's SLOW flows divide under `fifo`.
    pub fifo: Share,
    /// The same under `sff`.
    pub sff: Share,
    /// Phurti's parameters.
    pub smsf: smsf::Parameters,
    /// Those of `sicc` and `sicc-joint`.
    pub sicc: sicc::Parameters,
}

/// A policy, in its initial state, by its name.
///
/// # Errors
/// An unknown name, or a parameter of the policy outside its range.
pub fn by_name(name: &str, parameters: &Parameters) -> Result<Box<dyn Policy + Send>, PolicyError> {
    Ok(match name {
        "tcp" => Box::new(tcp::Tcp),
        "fair" => Box::new(fair::Fair::default()),
        "fifo" => Box::new(fifo::new(parameters.fifo)),
        "sff" => Box::new(sff::new(parameters.sff)),
        "smsf" => Box::new(smsf::new(parameters.smsf)?),
        "one-all" => Box::new(one_all::OneAll),
        "sw" => Box::new(sw::SlidingWindow::default()),
        "sicc" => Box::new(sicc::Sicc::new(parameters.sicc, sicc::Choice::First)),
        "sicc-joint" => Box::new(sicc::Sicc::new(parameters.sicc, sicc::Choice::Joint)),
        _ => return Err(PolicyError::UnknownPolicy(name.to_owned())),
    })
}
