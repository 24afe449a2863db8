//! `homa`: receivers grant, to the messages with least left, and say with which priority they come.
//!
//! Source: Montazeri, Li, Alizadeh, Ousterhout, "Homa: A Receiver-Driven Low-Latency Transport Protocol
//! Using Network Priorities", SIGCOMM 2018, and draft-ousterhout-tsvwg-homa-00: grants in its "Policy
//! Considerations for Grants", priorities in "Priorities and Cutoffs". Nothing is decided centrally: this
//! says what hosts and ports do ([`Tags::Granted`]), which the packet world does.
//!
//! Deviations: each packet is acknowledged, and senders find by a timeout what is lost, where in the text
//! receivers ask for it; cutoffs are given, where receivers find them in what they saw; no share of grants
//! goes to the oldest message.

use alloc::boxed::Box;
use alloc::vec::Vec;

use model::{Directives, Network, Observation};
use units::{Bytes, Span, Time};

use crate::{Descriptor, Granting, Kind, Need, Parameter, Policy, PolicyError, Tags, Value};

/// Priorities of a switch's port.
const LEVELS: usize = 8;

const AHEAD: Parameter = Parameter::new(
    "ahead",
    Kind::Integer(1, 10_000),
    Value::Integer(12),
    "segments that a message sends without a grant, and that are granted beyond what has arrived: C*RTT \
     (RTTbytes)",
);

const CUTOFFS: Parameter = Parameter::optional(
    "cutoffs",
    Kind::List(&Kind::Bytes(Bytes::new(1), Bytes::new(1 << 50)), LEVELS - 2),
    "none: what needs no grant has one priority, the other seven are for grants",
    "messages above each size send what needs no grant with the next lower priority; each above the one \
     before. Chosen so that as many octets have each of the eight priorities",
);

const OVERCOMMITMENT: Parameter = Parameter::optional(
    "overcommitment",
    Kind::Integer(1, 1_000),
    "as many as grants have priorities",
    "messages, each of another host, that a receiver grants to at once",
);

const TIMEOUT: Parameter = Parameter::new(
    "timeout",
    Kind::Span(Span::from_micros(10), Span::from_secs(60)),
    Value::Span(Span::from_millis(5)),
    "the least time after which what isn't acknowledged is sent again; above what packets of low priority wait",
);

/// What `homa` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "homa",
    summary: "receivers grant to the messages with least left, and ports serve by priority (Homa)",
    source: "Homa, SIGCOMM 2018; draft-ousterhout-tsvwg-homa-00",
    parameters: &[AHEAD, CUTOFFS, OVERCOMMITMENT, TIMEOUT],
    needs: &[Need::Tags],
    directives: &[],
    is_max_min: false,
    build: |given| {
        let cutoffs: Vec<Bytes> = given.find(CUTOFFS.name).unwrap_or_default();
        if !cutoffs.is_sorted_by(|one, next| one < next) {
            let range = "a list in which each size is above the one before";
            return Err(PolicyError::OutOfRange { parameter: CUTOFFS.name, range });
        }
        // Six cutoffs at most: seven priorities, and one is left.
        let priorities = u32::try_from(LEVELS - 1 - cutoffs.len()).unwrap_or(1);
        let granting = Granting {
            ahead: given.get(AHEAD.name),
            cutoffs,
            priorities,
            overcommitment: given.find(OVERCOMMITMENT.name).unwrap_or(priorities),
            timeout: given.get(TIMEOUT.name),
        };
        Ok(Box::new(Homa { granting }))
    },
};

#[derive(Debug)]
struct Homa {
    granting: Granting,
}

impl Policy for Homa {
    fn observe(&mut self, _: Time, _: &Network, _: &Observation) {}

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}

    fn tags(&self) -> Option<Tags> {
        Some(Tags::Granted(self.granting.clone()))
    }
}
