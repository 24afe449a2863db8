//! `fastpass`: an arbiter gives timeslots to the pairs that were given one least recently.
//!
//! Source: Perry, Ousterhout, Balakrishnan, Shah, Fugal, "Fastpass: A Centralized 'Zero-Queue' Datacenter
//! Network", SIGCOMM 2014: timeslots in section 3 (a greedy maximal matching, pairs in the order of the last
//! timeslot that they were given, which tends to max-min fair rates), paths in section 4 (edge colouring).
//! `syn` is the same machine with the orders of another text; its file has how demands are kept and what a
//! timeslot is.
//!
//! Not here: the arbiter's protocol with the hosts, which ask again for what was lost, and its replicas. How
//! far hosts are is the world's control delay.

use alloc::boxed::Box;

use crate::syn::{BATCH, Order, PACKET, Syn};
use crate::{Descriptor, DirectiveKind, Need};

/// What `fastpass` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "fastpass",
    summary: "timeslots go to the pairs that were given one least recently, over coloured paths (Fastpass)",
    source: "Fastpass, SIGCOMM 2014, sections 3 and 4",
    parameters: &[PACKET.published("section 3"), BATCH],
    needs: &[Need::WaitingPackets],
    directives: &[DirectiveKind::Grant],
    is_max_min: false,
    build: |given| {
        let (packet, batch) = (given.get(PACKET.name), given.get(BATCH.name));
        Ok(Box::new(Syn::new(Order::Lra, packet, batch)))
    },
};
