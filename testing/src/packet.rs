//! Runs of the packet world. Every run is audited by the simulator itself: a broken invariant is an
//! error.

use ::packet::{Discipline, Limiter, Outcome, Setup, Transport, World, run};
use engine::Application;
use model::{Network, Topology};
use units::{Span, Time};

/// A run without policy, to its end.
#[must_use]
pub fn setup<'a>(
    topology: Topology,
    transport: Transport,
    application: Box<dyn Application<World> + 'a>,
) -> Setup<'a> {
    Setup {
        network: Network::new(topology),
        transport,
        application,
        policy: None,
        enforcement: Limiter::Pacing,
        host_queue: Discipline::Fifo,
        switch_queue: Discipline::Fifo,
        control_delay: Span::ZERO,
        processing: Span::ZERO,
        until: Time::NEVER,
        captures: Vec::new(),
        monitors: Vec::new(),
        rates: None,
    }
}

/// Runs it.
#[must_use]
pub fn outcome(setup: Setup<'_>) -> Outcome {
    run(setup, &mut |_| {}).unwrap()
}
