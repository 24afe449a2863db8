//! Tests: an application that reads at its own pace, from its buffer to the sender's timer.
#![allow(clippy::unwrap_used)] // a test may panic

use engine::{Streams as _, World as _};
use model::{Buffer, FlowId, LinkSpec, Network, build};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};

use super::World;
use crate::{Discipline, Limiter, Setup, Transport};

const MSS: u64 = 1460;
/// Window of ten segments, which a scale of 0 says exactly.
const ROOM: u64 = 10 * MSS;
/// Least timeout; a round trip takes some 0.45 ms, so that the first timeouts are this.
const RTO: Span = Span::from_millis(10);
const FLOW: FlowId = FlowId(0);

/// A world with one flow of `size` octets from h0 to h1, over two links of 1 Gbit/s and 100 µs.
fn world(size: u64) -> World {
    let link = LinkSpec {
        capacity: Rate::from_mbps(1_000),
        delay: Span::from_micros(100),
        buffer: Buffer::Unlimited,
        mark: None,
    };
    let access = build::Access { link, nic: Buffer::Unlimited };
    let network = Network::new(build::star(2, &access).unwrap());
    let transport = Transport {
        receive_window: Bytes::new(ROOM),
        min_rto: RTO,
        initial_window: 100,
        ..Transport::default()
    };
    let setup = Setup {
        network: network.clone(),
        transport,
        application: Box::new(engine::Jobs::new(std::iter::empty())),
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
    };
    let mut world = World::new(&setup).unwrap();
    let hosts: Vec<_> = network.topology().hosts().collect();
    world.start(&network, hosts[0], hosts[1], Bytes::new(size)).unwrap();
    world.pause_reading(FLOW);
    world
}

/// Lets `span` pass; returns what was delivered by then.
fn pass(world: &mut World, span: Span) -> u64 {
    let limit = world.now() + span;
    while world.run(limit) != engine::Notice::Limit {}
    world.advance(limit);
    world.state(FLOW).map_or(u64::MAX, |state| state.delivered.get())
}

/// Packets that the sender has put on its link.
fn sent(world: &World) -> u64 {
    world.wires.links.packets(0)
}

#[test]
fn a_full_buffer_stops_the_sender_and_reading_starts_it_again() {
    let mut world = world(100 * MSS);
    assert_eq!(pass(&mut world, Span::from_millis(5)), ROOM);
    assert_eq!(world.state(FLOW).unwrap().unread.get(), ROOM);
    // Three segments are read: the update takes half a round trip, the data the other half.
    world.consume(FLOW, Bytes::new(3 * MSS));
    assert_eq!(world.state(FLOW).unwrap().unread.get(), 7 * MSS);
    assert_eq!(pass(&mut world, Span::from_micros(390)), ROOM);
    assert_eq!(pass(&mut world, Span::from_micros(110)), ROOM + 3 * MSS);
    assert_eq!(pass(&mut world, Span::from_millis(5)), ROOM + 3 * MSS, "no more than was read");
    assert_eq!((sent(&world), world.state(FLOW).unwrap().timeouts), (13, 0));
    world.audit().unwrap();
}

#[test]
fn silly_windows_are_not_offered() {
    let mut world = world(100 * MSS);
    pass(&mut world, Span::from_millis(5));
    // An octet less than a segment: no update. One more, and there is one.
    world.consume(FLOW, Bytes::new(MSS - 1));
    assert_eq!(pass(&mut world, Span::from_millis(2)), ROOM);
    world.consume(FLOW, Bytes::new(1));
    assert_eq!(pass(&mut world, Span::from_millis(1)), ROOM + MSS);
}

#[test]
fn a_zero_window_is_probed_after_doubling_times() {
    let mut world = world(100 * MSS);
    // The window is known to be zero after a round trip: probes 10, 30, 70 and 150 ms later.
    pass(&mut world, Span::from_millis(1));
    for (wait, probes) in [(8, 0), (3, 1), (17, 1), (3, 2), (37, 2), (3, 3), (77, 3), (3, 4)] {
        assert_eq!(pass(&mut world, Span::from_millis(wait)), ROOM);
        assert_eq!(sent(&world), 10 + probes);
    }
    let state = world.state(FLOW).unwrap();
    assert_eq!((state.timeouts, state.retransmissions), (0, 0));
    // What was read starts the clock afresh.
    world.consume(FLOW, Bytes::new(MSS));
    pass(&mut world, Span::from_millis(9));
    assert_eq!(sent(&world), 15);
    pass(&mut world, Span::from_millis(3));
    assert_eq!(sent(&world), 16);
}

proptest! {
    /// Whatever the application reads and when, the buffer keeps its room, nothing is lost, and
    /// the flow ends once everything can be delivered.
    #[test]
    fn reading_anyhow(
        size in 1..200 * MSS,
        reads in prop::collection::vec((0..30_000_u64, 0..20 * MSS), 0..40),
    ) {
        let mut world = world(size);
        let mut read = 0;
        for (micros, bytes) in reads {
            pass(&mut world, Span::from_micros(micros));
            let Some(state) = world.state(FLOW) else { break };
            prop_assert_eq!(state.delivered.get() - state.unread.get(), read);
            prop_assert!(state.unread.get() <= ROOM);
            world.consume(FLOW, Bytes::new(bytes));
            read += bytes.min(state.unread.get());
        }
        for _ in 0..200 {
            world.consume(FLOW, Bytes::MAX);
            pass(&mut world, Span::from_millis(20));
        }
        prop_assert!(world.state(FLOW).is_none(), "the flow has ended and is gone");
        world.audit().unwrap();
    }
}
