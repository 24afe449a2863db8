//! Fan-out in front of memcached (SICC, section 3). A front end speaks memcached's protocols to any client; a request
//! for many keys becomes a swarm, gathered through hubs on the data servers as a policy of the catalogue decides.
//!
//! - [`command`], [`answer`], [`message`]: what is said, without I/O; [`hashing`]: who holds a key.
//! - [`settings`]: the configuration of all.
//! - [`pool`]: connections to memcached. `decider`: the policy, fed and obeyed. `front::swarm`: one request. `hubs`: the front
//!   end's connections to hubs.
//! - [`front::Front`] and [`hub::Hub`]: the services.
#![forbid(unsafe_code)]

pub mod answer;
pub mod command;
mod decider;
pub mod front;
pub mod hashing;
pub mod hub;
mod hubs;
pub mod message;
pub mod pool;
pub mod settings;
mod straight;
