//! `pias`: a flow loses priority as it sends, so that short flows go first though nobody knows their sizes.
//!
//! Source: Bai, Chen, Chen, Han, Tian, Wang, "Information-Agnostic Flow Scheduling for Commodity Data
//! Centers" (PIAS), NSDI 2015: priorities in section 3.1, thresholds in 4. Nothing is decided centrally:
//! this says what hosts write into packets and ports make of it ([`Tags::Sent`]), which the packet world
//! does. The text has DCTCP as its transport and ports that mark by all of their queues together: the
//! scenario's `transport` and `mark`.
//!
//! Deviation: what is sent again keeps the priority of its place in the flow, as in the authors'
//! simulations, where the text counts what was sent.

use alloc::boxed::Box;
use alloc::vec::Vec;

use model::{Directives, Network, Observation};
use units::{Bytes, Time};

use crate::{Descriptor, Kind, Need, Parameter, Policy, PolicyError, Tags};

/// Payload of a packet in the authors' simulations.
const PACKET: u64 = 1_460;
/// Their thresholds for web search at load 0.8, packets: where none are given.
const WEB_SEARCH: [u64; 7] = [909, 1_329, 1_648, 1_960, 2_143, 2_337, 2_484];

/// Eight priorities, as in section 6.2: commodity switches have eight queues a port.
const MOST: usize = 7;

const THRESHOLDS: Parameter = Parameter::optional(
    "thresholds",
    Kind::List(&Kind::Bytes(Bytes::new(1), Bytes::new(1 << 50)), MOST),
    "the authors' for web search at load 0.8: 909, 1329, 1648, 1960, 2143, 2337 and 2484 packets of 1460 B",
    "from so much sent on a flow has the next lower priority; each above the one before. They belong to a \
     workload and its load (section 4)",
);

/// What `pias` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "pias",
    summary: "a flow loses priority as it sends, its size being unknown (PIAS)",
    source: "PIAS, NSDI 2015, section 3",
    parameters: &[THRESHOLDS],
    needs: &[Need::Tags],
    directives: &[],
    is_max_min: false,
    build: |given| {
        let published = || WEB_SEARCH.iter().map(|packets| Bytes::new(packets * PACKET)).collect();
        let thresholds: Vec<Bytes> = given.find(THRESHOLDS.name).unwrap_or_else(published);
        if !thresholds.is_sorted_by(|one, next| one < next) {
            let range = "a list in which each size is above the one before";
            return Err(PolicyError::OutOfRange { parameter: THRESHOLDS.name, range });
        }
        Ok(Box::new(Pias { thresholds }))
    },
};

#[derive(Debug)]
struct Pias {
    thresholds: Vec<Bytes>,
}

impl Policy for Pias {
    fn observe(&mut self, _: Time, _: &Network, _: &Observation) {}

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}

    fn tags(&self) -> Option<Tags> {
        Some(Tags::Sent(self.thresholds.clone()))
    }
}
