//! `pfabric`: ports with tiny buffers serve the flow with the least left, and hosts start at line rate.
//!
//! Source: Alizadeh, Yang, Sharif, Katti, McKeown, Prabhakar, Shenker, "pFabric: Minimal Near-Optimal
//! Datacenter Transport", SIGCOMM 2013: ports in section 4.1, hosts in 4.2, parameters in 5. Nothing is
//! decided centrally: this says what hosts write into packets and ports make of it ([`Tags::Left`]), which
//! the packet world does.
//!
//! Deviation: a packet's tag is what its flow has left as the packet is sent; what is written to an open
//! connection later isn't known then.

use alloc::boxed::Box;

use model::{Directives, Network, Observation};
use units::{Bytes, Span, Time};

use crate::{Descriptor, Kind, LineRate, Need, Parameter, Policy, PolicyError, Tags, Value};

const BUFFER: Parameter = Parameter::new(
    "buffer",
    Kind::Bytes(Bytes::new(3_000), Bytes::new(1 << 30)),
    Value::Bytes(Bytes::new(36_000)),
    "room of every port, beside the packet in transmission; about twice C*RTT",
)
.published("section 5.1");

const FIRST_WINDOW: Parameter = Parameter::new(
    "first_window",
    Kind::Integer(1, 1_000),
    Value::Integer(12),
    "first window in segments: C*RTT, so that a flow starts at line rate",
)
.published("section 4.2");

const LARGEST_WINDOW: Parameter = Parameter::new(
    "largest_window",
    Kind::Integer(1, 10_000),
    Value::Integer(23),
    "most segments of a window: one less than a port's buffer holds",
)
.published("the authors' simulations");

const TIMEOUT: Parameter = Parameter::new(
    "timeout",
    Kind::Span(Span::from_micros(10), Span::from_secs(60)),
    Value::Span(Span::from_micros(45)),
    "the fixed timeout, which alone tells of losses; about three round trips",
)
.published("section 4.2");

const TIMEOUTS: Parameter = Parameter::new(
    "timeouts",
    Kind::Integer(1, 1_000),
    Value::Integer(5),
    "timeouts in a row after which a flow sends one octet each timeout until one is acknowledged",
)
.published("section 4.2");

/// What `pfabric` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "pfabric",
    summary: "ports with tiny buffers serve the flow with least left, hosts start at line rate (pFabric)",
    source: "pFabric, SIGCOMM 2013, section 4",
    parameters: &[BUFFER, FIRST_WINDOW, LARGEST_WINDOW, TIMEOUT, TIMEOUTS],
    needs: &[Need::Tags],
    directives: &[],
    is_max_min: false,
    build: |given| {
        let line_rate = LineRate {
            buffer: given.get(BUFFER.name),
            first_window: given.get(FIRST_WINDOW.name),
            largest_window: given.get(LARGEST_WINDOW.name),
            timeout: given.get(TIMEOUT.name),
            timeouts: given.get(TIMEOUTS.name),
        };
        if line_rate.largest_window < line_rate.first_window {
            let range = "at least first_window";
            return Err(PolicyError::OutOfRange { parameter: LARGEST_WINDOW.name, range });
        }
        Ok(Box::new(Pfabric { line_rate }))
    },
};

#[derive(Debug)]
struct Pfabric {
    line_rate: LineRate,
}

impl Policy for Pfabric {
    fn observe(&mut self, _: Time, _: &Network, _: &Observation) {}

    fn decide(&mut self, _: Time, _: &Network, _: &mut Directives) {}

    fn tags(&self) -> Option<Tags> {
        Some(Tags::Left(self.line_rate))
    }
}
