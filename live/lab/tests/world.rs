//! The world of a lab, driven as the simulators are. Needs root; elsewhere the tests say why they do
//! nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss)]

use std::thread;
use std::time::Duration;

use engine::{Notice, Streams as _, World as _};
use lab::{Control, Lab, Order, Transport, World};
use model::build::{Access, star};
use model::{Buffer, FlowId, LinkSpec, Network, NodeId};
use testing::wait::{eventually, settled};
use units::{Bytes, Rate, Span, Time};

/// [`testing::wait::PATIENCE`] as a span.
const PATIENCE: Span = Span::from_secs(60);

/// A world of three hosts at 20 Mbit/s that speak cubic; `None` without root.
fn world(name: &str) -> Option<(World, Network, [NodeId; 3])> {
    world_that_speaks(name, transport("cubic"), None)
}

fn transport(congestion_control: &'static str) -> Transport {
    Transport {
        congestion_control,
        mss: 1460,
        header: 40,
        initial_window: 10,
        min_rto: Span::from_millis(200),
        delayed_ack: true,
        receive_window: Bytes::new(1 << 18),
        sack: true,
        ecn: congestion_control == "dctcp",
        handshake: false,
    }
}

/// The same with another transport, and a switch that marks at so many packets.
fn world_that_speaks(
    name: &str,
    transport: Transport,
    mark: Option<u32>,
) -> Option<(World, Network, [NodeId; 3])> {
    if !testing::needs::root() {
        return None;
    }
    let link = LinkSpec { mark, ..testing::network::link(20, 0, Buffer::Packets(50)) };
    let topology = star(3, &Access { link, nic: Buffer::Packets(50) }).unwrap();
    let name = format!("t{name}-{}", std::process::id());
    let order = Order { name, passing: true, ..Order::default() };
    let lab = Lab::up(&topology, &order).unwrap();
    let hosts: Vec<NodeId> = topology.hosts().collect();
    let network = Network::new(topology);
    let world = World::new(lab, &network, transport, Control::Direct, Time::NEVER).unwrap();
    Some((world, network, [hosts[0], hosts[1], hosts[2]]))
}

/// The next notice that isn't a pause.
fn next(world: &mut World, limit: Time) -> Notice {
    loop {
        match world.run(limit) {
            Notice::Pause => world.check().unwrap(),
            notice => return notice,
        }
    }
}

fn after(world: &World, span: Span) -> Time {
    world.now() + span
}

#[test]
fn a_flow_takes_as_long_as_its_link_needs() {
    let Some((mut world, network, [a, b, _])) = world("flow") else { return };
    let size = Bytes::new(1_000_000);
    let flow = world.start(&network, a, b, size).unwrap();
    assert_eq!(world.directory().get(flow).unwrap().destination.port(), 5001);
    let Notice::Ended(ended, state) = next(&mut world, Time::NEVER) else { panic!("no end") };
    assert_eq!((ended, state.delivered, state.unread), (flow, size, Bytes::ZERO));
    assert_eq!(world.state(flow), None);
    // 685 packets of 1500 bytes at 20 Mbit/s, never less, and no more where the machine isn't busy.
    let first = world.now().since(Time::ZERO);
    let mut took = vec![first];
    let is = eventually(|| {
        let is = *took.last().unwrap() < Span::from_secs(1);
        if !is {
            let begin = world.now();
            world.start(&network, a, b, size).unwrap();
            let Notice::Ended(..) = next(&mut world, Time::NEVER) else { panic!("no end") };
            took.push(world.now().since(begin));
        }
        is
    });
    assert!(is && took.iter().all(|took| *took > Span::from_millis(400)), "{took:?}");
    assert_eq!(next(&mut world, Time::NEVER), Notice::Limit);

    let mut outcome = engine::Outcome::default();
    world.finish(&mut outcome).unwrap();
    let carried = outcome.links.iter().find(|link| link.link.0 == 0).unwrap();
    assert!(carried.bytes > size && carried.packets >= 685, "{carried:?}");
    assert!(outcome.notes.iter().any(|note| note.contains("calibration: h0 to h2")));
    assert!(outcome.notes[0].contains("achine"), "the verdict comes first: {:?}", outcome.notes);
}

#[test]
fn a_flow_that_was_made_ready_has_sent_when_its_start_returns() {
    let Some((mut world, network, [a, b, c])) = world("ready") else { return };
    world.prepare([(a, b), (c, b), (c, b)]).unwrap();
    let size = Bytes::new(100_000);
    let flows = [(a, b), (c, b)].map(|(src, dst)| world.start(&network, src, dst, size).unwrap());
    for flow in flows {
        // Its initial window at least: acknowledgements may have come.
        assert!(world.state(flow).unwrap().sent >= Bytes::new(14_600));
    }
    for _ in flows {
        let Notice::Ended(_, state) = next(&mut world, Time::NEVER) else { panic!("no end") };
        assert_eq!(state.delivered, size);
    }
    // One more than was made ready works as well.
    for _ in 0..2 {
        world.start(&network, c, b, size).unwrap();
        let Notice::Ended(..) = next(&mut world, Time::NEVER) else { panic!("no end") };
    }
}

#[test]
fn a_handshake_begins_when_its_flow_does() {
    for handshake in [true, false] {
        let transport = Transport { handshake, ..transport("cubic") };
        let Some((mut world, network, [a, b, c])) = world_that_speaks("syn", transport, None)
        else {
            return;
        };
        let from_c = network.topology().out(c)[0];
        world.prepare([(a, b), (c, b)]).unwrap();
        world.start(&network, a, b, Bytes::new(5_000)).unwrap();
        let Notice::Ended(..) = next(&mut world, Time::NEVER) else { panic!("no end") };
        let mut outcome = engine::Outcome::default();
        world.finish(&mut outcome).unwrap();
        let packets = outcome.links.iter().find(|link| link.link == from_c).unwrap().packets;
        // What has not started has sent nothing, unless connections are there already.
        assert_eq!(packets == 0, handshake, "{packets} packets");
    }
}

#[test]
fn a_wait_ends_within_its_millisecond() {
    let Some((mut world, ..)) = world("wait") else { return };
    let late = (0..50).map(|_| {
        let due = after(&world, Span::from_micros(200));
        assert_eq!(next(&mut world, due), Notice::Limit);
        world.advance(due);
        world.now().since(due)
    });
    // Timers that count milliseconds would all be 800 us late, and so may all be on a busy machine.
    let least = late.min().unwrap();
    let is_soon = least < Span::from_micros(600);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    let running: f64 = load.split(' ').next().unwrap().parse().unwrap();
    if !is_soon && running > 0.5 * thread::available_parallelism().unwrap().get() as f64 {
        let why = format!("the machine is too busy, with {running} that run: {least} late");
        testing::needs::skipped(&why);
        return;
    }
    assert!(is_soon, "{least}");
}

#[test]
fn what_has_come_goes_before_what_is_due() {
    let Some((mut world, network, [a, b, _])) = world("due") else { return };
    // The kernel carries it meanwhile: a busy one gets more time.
    let mut goes_first = |power: u32| {
        world.prepare([(a, b)]).unwrap();
        let flow = world.start(&network, a, b, Bytes::new(5_000)).unwrap();
        let limit = after(&world, Span::from_millis(10));
        thread::sleep(Duration::from_millis(1 << power));
        let first = next(&mut world, limit);
        let other = if first == Notice::Limit { Time::NEVER } else { limit };
        let second = next(&mut world, other);
        let (ended, is_first) = match (first, second) {
            (Notice::Ended(ended, _), Notice::Limit) => (ended, true),
            (Notice::Limit, Notice::Ended(ended, _)) => (ended, false),
            other => panic!("{other:?}"),
        };
        assert_eq!(ended, flow);
        is_first
    };
    let shows = (9..16).any(|power| (0..3).all(|_| goes_first(power)));
    assert!(shows, "what is due goes first");
}

#[test]
fn a_link_marks_at_its_threshold_and_dctcp_obeys() {
    // What was marked, and dropped before `b`; `None` without root.
    let count = |name, control| {
        let (mut world, network, [a, b, c]) =
            world_that_speaks(name, transport(control), Some(10))?;
        // Two, because a queue of the switch grows only when more comes in than goes out.
        for from in [a, c] {
            world.start(&network, from, b, Bytes::new(1_500_000)).unwrap();
        }
        for _ in 0..2 {
            let Notice::Ended(..) = next(&mut world, Time::NEVER) else { panic!("no end") };
        }
        let mut outcome = engine::Outcome::default();
        world.finish(&mut outcome).unwrap();
        let marked: u64 = outcome.links.iter().map(|link| link.marked).sum();
        // What a host drops of its own, nobody marks.
        let to_b = |link: &&engine::LinkRecord| network.topology().link(link.link).to == b;
        let dropped: u64 = outcome.links.iter().filter(to_b).map(|link| link.dropped).sum();
        Some((marked > 0, dropped))
    };
    // Who can't carry marks fills the buffer, unless a busy machine has one flow end before the other.
    let both = || Some([count("mark", "dctcp")?, count("drop", "reno")?]);
    let obeys = |counted: &Option<[(bool, u64); 2]>| match counted {
        None => true,
        Some([(marked, few), (other, many)]) => *marked && !other && few < many,
    };
    let counted = settled(both, obeys);
    assert!(obeys(&counted), "marked and dropped: {counted:?}");
}

/// What a flow delivers in so many milliseconds or a little more, Mbit/s.
fn delivered_mbps(world: &mut World, flow: FlowId, wait: u64) -> f64 {
    let (begin, before) = (world.now(), world.state(flow).unwrap().delivered);
    let until = begin + Span::from_millis(wait);
    while next(world, until) != Notice::Limit {}
    world.advance(until);
    let bytes = world.state(flow).unwrap().delivered - before;
    Rate::of(bytes, world.now().since(begin)).as_bps() as f64 / 1e6
}

#[test]
fn a_limit_paces_and_lifting_it_lets_go() {
    let Some((mut world, network, [a, b, _])) = world("pace") else { return };
    let flow = world.start(&network, a, b, Bytes::MAX).unwrap();
    world.limit(flow, Some(Rate::from_mbps(5)));
    delivered_mbps(&mut world, flow, 300);
    // 4.87 Mbit/s of payload; the load of others may spoil a second or two.
    let paced = |mbps: &f64| (4.4..5.2).contains(mbps);
    let mbps = settled(|| delivered_mbps(&mut world, flow, 1000), paced);
    assert!(paced(&mbps), "{mbps} Mbit/s");
    world.limit(flow, None);
    let free = |mbps: &f64| *mbps > 12.0;
    let mbps = settled(|| delivered_mbps(&mut world, flow, 500), free);
    assert!(free(&mbps), "{mbps} Mbit/s");
}

/// Of datagrams that leave a host of 20 Mbit/s in one burst its queue and the switch's hold some; links count what
/// has gone.
#[test]
fn datagrams_that_find_no_room_are_lost_and_ports_count_the_others() {
    let Some((mut world, network, [a, b, _])) = world("datagrams") else { return };
    let flow = world.open_datagrams(&network, a, b).unwrap();
    let beside = world.start(&network, b, a, Bytes::new(1_000)).unwrap();
    let counted = |world: &mut World| {
        let uplink = network.topology().out(a)[0];
        let ports = world.ports();
        assert_eq!(ports.len(), network.topology().links().len());
        ports.into_iter().find(|(link, _)| *link == uplink).unwrap().1
    };
    let before = counted(&mut world);
    let payload = Bytes::new(1_460);
    let sent = 1_000;
    (0..sent).for_each(|_| world.send(flow, payload));
    let limit = after(&world, Span::from_secs(2));
    let Notice::Ended(ended, _) = next(&mut world, limit) else { panic!("no end") };
    assert_eq!(ended, beside);
    assert_eq!(next(&mut world, limit), Notice::Limit);
    world.advance(limit);
    let state = world.state(flow).unwrap();
    assert_eq!(state.sent, Bytes::new(1_460 * sent));
    let arrived = state.delivered.get() / 1_460;
    assert!((20..sent / 2).contains(&arrived), "{arrived} of {sent}");
    // IP and UDP headers are 28 octets; acknowledgements of the other flow are small.
    let left = counted(&mut world) - before;
    let least = Bytes::new(1_488 * arrived);
    assert!((least..least + Bytes::new(2_000)).contains(&left), "{left} for {arrived}");
}

#[test]
fn a_stream_reaches_its_marks_and_waits_for_its_reader() {
    let Some((mut world, network, [a, b, _])) = world("stream") else { return };
    let flow = world.open(&network, a, b).unwrap();
    world.pause_reading(flow);
    assert!(world.write(flow, Bytes::new(10_000)));
    world.mark(flow, Bytes::new(4_000));
    let limit = after(&world, PATIENCE);
    let Notice::Reached(of, at) = next(&mut world, limit) else { panic!("no mark") };
    assert!(of == flow && at >= Bytes::new(4_000));
    world.mark(flow, Bytes::new(10_000));
    let Notice::Reached(..) = next(&mut world, limit) else { panic!("no mark") };
    let state = world.state(flow).unwrap();
    assert_eq!((state.delivered, state.unread), (Bytes::new(10_000), Bytes::new(10_000)));
    world.consume(flow, Bytes::new(3_000));
    assert_eq!(world.state(flow).unwrap().unread, Bytes::new(7_000));

    // Nobody reads: the receive buffer fills, and the sender has to keep the rest.
    world.write(flow, Bytes::new(4_000_000));
    let limit = after(&world, Span::from_secs(1));
    assert_eq!(next(&mut world, limit), Notice::Limit);
    world.advance(limit);
    let state = world.state(flow).unwrap();
    assert!(state.delivered < Bytes::new(1_500_000), "{state:?}");
    world.close(flow);
    assert!(!world.write(flow, Bytes::new(1)));
    let limit = after(&world, PATIENCE);
    loop {
        world.consume(flow, Bytes::new(1_000_000));
        let soon = after(&world, Span::from_millis(20)).min(limit);
        match next(&mut world, soon) {
            Notice::Ended(_, state) => {
                assert_eq!(state.delivered, Bytes::new(4_010_000));
                break;
            }
            _ => assert!(world.now() < limit, "it never ends"),
        }
        world.advance(soon);
    }
}

#[test]
fn an_end_that_a_reader_sees_first_is_told() {
    let Some((mut world, network, [a, b, _])) = world("seen") else { return };
    let flow = world.open(&network, a, b).unwrap();
    world.pause_reading(flow);
    assert!(world.write(flow, Bytes::new(1_000)));
    world.mark(flow, Bytes::new(1_000));
    let limit = after(&world, PATIENCE);
    let Notice::Reached(..) = next(&mut world, limit) else { panic!("no mark") };
    world.consume(flow, Bytes::new(1_000));
    // It arrives while nobody waits for events, and is gone when somebody does.
    world.write(flow, Bytes::new(2_000));
    world.close(flow);
    assert!(eventually(|| world.state(flow).unwrap().unread == Bytes::new(2_000)));
    world.consume(flow, Bytes::new(2_000));
    let Notice::Ended(ended, _) = next(&mut world, limit) else { panic!("no end") };
    assert_eq!(ended, flow);
}
