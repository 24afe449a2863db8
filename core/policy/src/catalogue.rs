//! All policies by the short names that scenarios and reports use.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;

use crate::{
    Messages, Pause, Policy, PolicyError, Share, app_aware, asy, bssf, dclas, fair, fifo, fixed,
    hold, one_all, sab, sdtcp, sebf, sff, sicc, smsf, srb, srpt, sw, sw_ictcp, syn, tcp,
};

/// The name of every policy.
pub const NAMES: [&str; 23] = [
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
    "sdtcp",
    "sdtcp-hold",
    "sab",
    "syn",
    "asy",
    "one-all",
    "sw",
    "sw-ictcp",
    "sicc",
    "sicc-joint",
    "static",
];

/// The policies that say how fan-out requests are gathered.
pub const GATHERING: [&str; 5] = ["one-all", "sw", "sw-ictcp", "sicc", "sicc-joint"];

/// The parameters of all policies that have some; the defaults are the published ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// What it costs to tell a host another limit, where the policy heeds it.
    pub messages: Messages,
    /// The share of its access link that a host's SLOW flows divide under `fifo`.
    pub fifo: Share,
    /// The same under `sff`.
    pub sff: Share,
    /// Phurti's parameters.
    pub smsf: smsf::Parameters,
    /// The parameters of timeslots.
    pub syn: syn::Parameters,
    /// The part of every link that `asy` gives away.
    pub asy: Share,
    /// Those of `app-aware`.
    pub app_aware: app_aware::Parameters,
    /// Those of its variant.
    pub app_aware_fast: app_aware::Parameters,
    /// SDTCP's parameters.
    pub sdtcp: sdtcp::Parameters,
    /// Those of its variant.
    pub hold: hold::Parameters,
    /// SAB's parameters.
    pub sab: sab::Parameters,
    /// Those of `sicc` and `sicc-joint`.
    pub sicc: sicc::Parameters,
    /// What `static` gives.
    pub fixed: fixed::Parameters,
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
            messages: Messages::default(),
            fifo: Share::default(),
            sff: Share::default(),
            smsf: smsf::Parameters::default(),
            asy: Share::ALL,
            app_aware: app_aware::Parameters::PUBLISHED,
            app_aware_fast: app_aware::Parameters::FAST,
            sdtcp: sdtcp::Parameters::default(),
            hold: hold::Parameters::default(),
            sab: sab::Parameters::default(),
            syn: syn::Parameters::default(),
            sicc: sicc::Parameters::default(),
            fixed: fixed::Parameters::default(),
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
        "fifo" => Box::new(fifo::new(parameters.fifo, parameters.messages)),
        "sff" => Box::new(sff::new(parameters.sff, parameters.messages)),
        "smsf" => Box::new(smsf::new(parameters.smsf, parameters.messages)?),
        "app-aware" => Box::new(app_aware::new(parameters.app_aware)?),
        "app-aware-fast" => Box::new(app_aware::fast(parameters.app_aware_fast)?),
        "sdtcp" => Box::new(sdtcp::new(parameters.sdtcp)?),
        "sdtcp-hold" => Box::new(hold::new(parameters.hold)?),
        "sab" => Box::new(sab::new(parameters.sab)?),
        "syn" => Box::new(syn::Syn::new(parameters.syn)?),
        "asy" => Box::new(asy::Asy::new(parameters.asy)),
        "one-all" => Box::new(one_all::OneAll::default()),
        "sw" => Box::new(sw::new()),
        "sw-ictcp" => Box::new(sw_ictcp::new()),
        "sicc" => Box::new(sicc::Sicc::new(parameters.sicc, sicc::Choice::First)),
        "sicc-joint" => Box::new(sicc::Sicc::new(parameters.sicc, sicc::Choice::Joint)),
        "static" => Box::new(fixed::Static::new(parameters.fixed.clone())),
        "sebf" => Box::new(sebf::new(parameters.sebf)),
        "bssf" => Box::new(bssf::new(parameters.bssf)),
        "srb" => Box::new(srb::new(parameters.srb)),
        "dclas" => Box::new(dclas::new(parameters.dclas)?),
        "srpt" => Box::new(srpt::new()),
        _ => return Err(PolicyError::UnknownPolicy(name.to_owned())),
    })
}
