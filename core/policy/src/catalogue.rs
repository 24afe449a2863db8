//! All policies by the short names that scenarios and reports use.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;

use crate::{Policy, PolicyError, Share, asy, fair, fifo, sff, smsf, syn, tcp};

/// The name of every policy.
pub const NAMES: [&str; 7] = ["tcp", "fair", "fifo", "sff", "smsf", "syn", "asy"];

/// The parameters of all policies that have some; the defaults are the published ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The share of its access link that a host's SLOW flows divide under `fifo`.
    pub fifo: Share,
    /// The same under `sff`.
    pub sff: Share,
    /// Phurti's parameters.
    pub smsf: smsf::Parameters,
    /// The parameters of timeslots.
    pub syn: syn::Parameters,
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
        "syn" => Box::new(syn::Syn::new(parameters.syn)?),
        "asy" => Box::new(asy::Asy::default()),
        _ => return Err(PolicyError::UnknownPolicy(name.to_owned())),
    })
}
