//! All policies.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;

use crate::{
    Descriptor, DirectiveKind, Parameters, Policy, PolicyError, app_aware, arbiter, asy, bssf,
    dclas, fair, fastpass, fifo, fifo_lm, fixed, homa, one_all, pfabric, pias, sab, sdtcp,
    sdtcp_hold, sebf, sff, sicc, smsf, srb, srpt, sw, sw_ictcp, syn, tcp,
};

/// Every policy, in the order in which they are listed.
pub const POLICIES: &[&Descriptor] = &[
    &tcp::DESCRIPTOR,
    &fair::DESCRIPTOR,
    &fifo::DESCRIPTOR,
    &sff::DESCRIPTOR,
    &smsf::DESCRIPTOR,
    &app_aware::DESCRIPTOR,
    &app_aware::FAST,
    &sebf::DESCRIPTOR,
    &bssf::DESCRIPTOR,
    &srb::DESCRIPTOR,
    &dclas::DESCRIPTOR,
    &fifo_lm::DESCRIPTOR,
    &srpt::DESCRIPTOR,
    &pfabric::DESCRIPTOR,
    &pias::DESCRIPTOR,
    &homa::DESCRIPTOR,
    &sdtcp::DESCRIPTOR,
    &sdtcp_hold::DESCRIPTOR,
    &sab::DESCRIPTOR,
    &syn::DESCRIPTOR,
    &fastpass::DESCRIPTOR,
    &asy::DESCRIPTOR,
    &one_all::DESCRIPTOR,
    &sw::DESCRIPTOR,
    &sw_ictcp::DESCRIPTOR,
    &sicc::DESCRIPTOR,
    &sicc::JOINT,
    &fixed::DESCRIPTOR,
    &arbiter::DESCRIPTOR,
];

/// The policy that decides nothing.
pub const PLAIN: &Descriptor = &tcp::DESCRIPTOR;

/// The policy that divides links among objectives.
pub const ARBITER: &Descriptor = &arbiter::DESCRIPTOR;

/// The name of every policy.
pub const NAMES: [&str; POLICIES.len()] = {
    let mut names = [""; POLICIES.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = POLICIES[place].name;
        place += 1;
    }
    names
};

/// The policy called `name`.
///
/// # Errors
/// There is none.
pub fn find(name: &str) -> Result<&'static Descriptor, PolicyError> {
    let policy = POLICIES.iter().find(|policy| policy.name == name);
    policy.copied().ok_or_else(|| PolicyError::UnknownPolicy(name.to_owned()))
}

/// The policies that say directives of this kind.
pub fn saying(kind: DirectiveKind) -> impl Iterator<Item = &'static Descriptor> {
    POLICIES.iter().copied().filter(move |policy| policy.says(kind))
}

/// The policy called `name`, in its initial state.
///
/// # Errors
/// As [`find`] and [`Descriptor::build`].
pub fn by_name(name: &str, parameters: &Parameters) -> Result<Box<dyn Policy + Send>, PolicyError> {
    find(name)?.build(parameters)
}
