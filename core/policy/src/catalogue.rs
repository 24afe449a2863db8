//! All policies by the short names that scenarios and reports use.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;

use crate::{
    Pause, Policy, PolicyError, Share, app_aware, bssf, dclas, fair, fifo, sebf, sff, smsf, srb,
    srpt, tcp,
};

/// The name of every policy.
pub const NAMES: [&str; 12] = [
    "tcp",
    "fair",
    "fifo",
    "sff",
    "smsf",
    "app-aware",
    "app-aware-fast",
    "sebf",
    "bssf",
    "srb",
    "dclas",
    "srpt",
];

/// The parameters of all policies that have some; the defaults are the published ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The share of its access link that a host's SLOW flows divide under `fifo`.
    pub fifo: Share,
    /// The same under `sff`.
    pub sff: Share,
    /// Phurti's parameters.
    pub smsf: smsf::Parameters,
    /// Those of `app-aware`.
    pub app_aware: app_aware::Parameters,
    /// Those of its variant.
    pub app_aware_fast: app_aware::Parameters,
    /// Between two divisions under `sebf`.
    pub sebf: Pause,
    /// The same under `bssf`.
    pub bssf: Pause,
    /// Ours.
    pub srb: srb::Parameters,
    /// Aalo's parameters.
    pub dclas: dclas::Parameters,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            fifo: Share::default(),
            sff: Share::default(),
            smsf: smsf::Parameters::default(),
            app_aware: app_aware::Parameters::PUBLISHED,
            app_aware_fast: app_aware::Parameters::FAST,
            sebf: Pause::default(),
            bssf: Pause::default(),
            srb: srb::Parameters::default(),
            dclas: dclas::Parameters::default(),
        }
    }
}

/// A policy, in its initial state, by its name.
///
/// # Errors
/// An unknown name, or a parameter of the policy outside its range.
pub fn by_name(name: &str, parameters: &Parameters) -> Result<Box<dyn Policy + Send>, PolicyError> {
    Ok(match name {
        "tcp" => Box::new(tcp::Tcp),
        "fair" => Box::new(fair::new()),
        "fifo" => Box::new(fifo::new(parameters.fifo)),
        "sff" => Box::new(sff::new(parameters.sff)),
        "smsf" => Box::new(smsf::new(parameters.smsf)?),
        "app-aware" => Box::new(app_aware::new(parameters.app_aware)?),
        "app-aware-fast" => Box::new(app_aware::fast(parameters.app_aware_fast)?),
        "sebf" => Box::new(sebf::new(parameters.sebf)),
        "bssf" => Box::new(bssf::new(parameters.bssf)),
        "srb" => Box::new(srb::new(parameters.srb)),
        "dclas" => Box::new(dclas::new(parameters.dclas)?),
        "srpt" => Box::new(srpt::new()),
        _ => return Err(PolicyError::UnknownPolicy(name.to_owned())),
    })
}
