//! The fabric: the switches and their OpenFlow channels, what they forward by, what they do to single
//! connections, and what they reveal about links and hosts.

pub(crate) mod caps;
pub(crate) mod discovery;
pub(crate) mod entry;
pub(crate) mod frame;
pub(crate) mod meters;
pub(crate) mod rollout;
pub(crate) mod switches;
