//! Programs on an interface: with packets made by hand, and with real connections.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

mod hosts;

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use hosts::crafted::{carrying, connection, packet, syn};
use hosts::wire::{Seen, Wire};
use hosts::{Rig, lease, options, statistics};
use kernel::{
    Attachment, Connection, Error, Event, Happening, Lease, Namespace, Pacer, PortNumber,
    PortOptions, Stopped, Switch, Watch, now,
};
use model::{Buffer, Cap, Severity, Thresholds};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use testing::needs::root;
use testing::wait::eventually;
use units::{Bytes, Rate, Span, Time};

const LONG: u64 = 600_000;
/// [`testing::wait::PATIENCE`] as a span.
const PATIENCE: Span = Span::from_secs(60);
const FULL: Bytes = Bytes::new(1500);
const THRESHOLDS: Thresholds =
    Thresholds { low: 30, medium: 60, high: 85, recovery: Span::from_millis(200) };

fn watch(rate: Rate) -> Watch {
    Watch { rate, buffer: Buffer::Packets(100), thresholds: Some(THRESHOLDS), mark: None }
}

fn uplink(rig: &Rig, switch: &mut Switch, attachment: Attachment) -> PortNumber {
    let options = PortOptions { attachment, ..PortOptions::default() };
    switch.attach(rig.namespace(0), "eth0", &options).unwrap()
}

/// The next event, which comes.
#[track_caller]
fn event(switch: &mut Switch) -> Event {
    switch.next(PATIENCE).unwrap().expect("nothing is told")
}

/// The next severity that is told, with the queue in bytes and when.
#[track_caller]
fn severity(switch: &mut Switch) -> (Severity, Bytes, Time) {
    let event = event(switch);
    match event.happening {
        Happening::Congested { severity, queue } => (severity, queue, event.at),
        other => panic!("{other:?}"),
    }
}

/// A packet that opens another connection, and what is told of it: all that was to be told is told before.
fn marker() -> (Vec<u8>, Happening) {
    let source = SocketAddr::new(connection().source.ip(), 5_999);
    let opening = packet(true, false, |header| {
        syn(header, 1460, None);
        header.source_port = source.port();
    });
    (opening, Happening::Opened(Connection { source, ..connection() }))
}

#[test]
fn a_queue_that_fills_rises_through_the_levels_and_recovers() {
    if !root() {
        return;
    }
    let rig = Rig::new(Some("100mbit"));
    let mut switch = Switch::new().unwrap();
    let number = uplink(&rig, &mut switch, Attachment::Best);
    switch.port(number).unwrap().watch(Some(watch(Rate::from_mbps(60)))).unwrap();
    let stream = rig.stream();
    let mut told = vec![severity(&mut switch)];
    while told.last().unwrap().0 != Severity::High {
        told.push(severity(&mut switch));
    }
    drop(stream);
    while told.last().unwrap().0 != Severity::Recovered {
        told.push(severity(&mut switch));
    }
    let levels: Vec<Severity> = told.iter().map(|(level, ..)| *level).collect();
    assert_eq!(levels.first(), Some(&Severity::Low), "{levels:?}");
    // Between two recoveries it only rises, a message each.
    for run in levels.split(|level| *level == Severity::Recovered) {
        assert!(run.is_sorted_by(|a, b| a < b), "{levels:?}");
    }
    for (level, queue, at) in &told {
        let least = match level {
            Severity::Recovered => Bytes::ZERO,
            // Packets count. One may have left in part, and a sender that waits for a processor
            // cuts short ones.
            Severity::Low => FULL * 20,
            Severity::Medium => FULL * 40,
            Severity::High => FULL * 60,
        };
        assert!((least..=FULL * 100).contains(queue), "{level:?} {queue}");
        assert!(*at <= now());
    }
    let counters = switch.port(number).unwrap().counters().unwrap();
    assert!(counters.packets > 85 && counters.lost == 0 && counters.malformed == 0, "{counters:?}");
}

/// A buffer of packets has room for a SYN or a full frame alike, and so counts its queue.
#[test]
fn small_packets_count_as_many() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let mut switch = Switch::new().unwrap();
    let number = uplink(&rig, &mut switch, Attachment::Best);
    let port = switch.port(number).unwrap();
    // 100 octets take 8 ms.
    port.watch(Some(watch(Rate::from_bps(100_000)))).unwrap();
    let bind = || Ok(UdpSocket::bind((rig.addresses[0], 0)).unwrap());
    let socket = rig.namespace(0).visit(bind).unwrap();
    // Until one finds no room: a busy machine may need more than the buffer takes.
    let over = || {
        for _ in 0..110 {
            socket.send_to(&[0; 72], (rig.addresses[1], 9)).unwrap();
        }
        port.counters().unwrap().over > 0
    };
    assert!(eventually(over));
    let recovered = || port.queue().unwrap().severity == Severity::Recovered;
    assert!(eventually(recovered));
    let mut told = vec![severity(&mut switch)];
    while told.iter().all(|(level, ..)| *level != Severity::High)
        || told.last().unwrap().0 != Severity::Recovered
    {
        told.push(severity(&mut switch));
    }
    // On a busy machine it may have recovered on the way.
    let told = told.split_off(told.len() - 4);
    let levels: Vec<Severity> = told.iter().map(|(level, ..)| *level).collect();
    let rising = [Severity::Low, Severity::Medium, Severity::High, Severity::Recovered];
    assert_eq!(levels, rising);
    for ((_, queue, _), packets) in told.iter().zip([30, 60, 85]) {
        // What has left meanwhile; addresses are asked for before.
        let queue = queue.get();
        assert!((packets - 10) * 100 <= queue && queue <= packets * 100, "{told:?}");
    }
    // From 85 packets to 29, of which one may have left in part, and the recovery time.
    let recovery = told[3].2.since(told[2].2);
    assert!(recovery >= Span::from_millis(55 * 8 + 200), "{recovery}");
}

#[test]
fn marks_slow_a_sender_that_understands_them() {
    if !root() {
        return;
    }
    for ecn in [false, true] {
        let rig = Rig::new(Some("100mbit"));
        if ecn {
            rig.explicit_congestion();
        }
        let mut switch = Switch::new().unwrap();
        let number = uplink(&rig, &mut switch, Attachment::Best);
        let port = switch.port(number).unwrap();
        let mark = Some(20);
        port.watch(Some(Watch { mark, ..watch(Rate::from_mbps(50)) })).unwrap();
        let pacer = Pacer::start(&options()).unwrap();
        let stream = rig.stream();
        // The virtual queue is always full: who obeys its marks halves its window to the least.
        let (mut window, mut counters) = (0, port.counters().unwrap());
        let is = eventually(|| {
            window = statistics(&pacer, &stream.connection).window;
            counters = port.counters().unwrap();
            counters.over > 0 && (counters.marked > 0, window < 5) == (ecn, ecn)
        });
        assert!(is, "{window} {counters:?}");
        assert_eq!(pacer.stop(&[]).unwrap(), Stopped::Clean);
    }
}

#[test]
fn a_window_holds_its_sender_until_the_lease_ends() {
    if !root() {
        return;
    }
    for attachment in [Attachment::Tcx, Attachment::Clsact] {
        let rig = Rig::new(Some("50mbit"));
        let mut switch = Switch::new().unwrap();
        let number = uplink(&rig, &mut switch, attachment);
        let port = switch.port(number).unwrap();
        assert_eq!(port.attachment(), attachment);
        let pacer = Pacer::start(&options()).unwrap();
        let stream = rig.stream();
        let in_flight = || {
            let samples = (0..40).map(|_| {
                thread::sleep(Duration::from_millis(5));
                statistics(&pacer, &stream.connection).in_flight
            });
            samples.max().unwrap()
        };
        let flow = || {
            let mut flows = port.flows().unwrap().into_iter();
            flows.find(|flow| flow.connection == stream.connection)
        };
        assert!(eventually(|| flow().is_some()));
        let scale = flow();
        let back = Connection {
            source: stream.connection.destination,
            destination: stream.connection.source,
        };
        let theirs = statistics(&pacer, &back).scale;
        assert!(theirs > 0, "a scale of zero shows nothing");
        assert_eq!(scale.unwrap().scale, Some(theirs));
        let window = |bytes, floor_segments| Some(Cap { bytes, floor_segments }.into());
        // Waits until so much is in flight.
        let comes = |least: Bytes, most: Bytes| {
            let mut seen = Bytes::ZERO;
            let is = eventually(|| {
                seen = in_flight();
                least < seen && seen <= most
            });
            assert!(is, "{seen} in flight instead of more than {least} up to {most}");
        };
        comes(Bytes::new(15_000), Bytes::MAX);
        // For all flows of the port; one for the flow itself goes before it.
        let cap = Bytes::new(12_000);
        switch.renew(now(), lease(LONG)).unwrap();
        let port = switch.port(number).unwrap();
        port.cap(None, window(cap, 2)).unwrap();
        assert!(eventually(|| port.capped_since(None).unwrap().is_some()));
        comes(Bytes::new(6_000), cap);
        let tighter = Bytes::new(6_000);
        switch.renew(now(), Lease { epoch: 2, span: Span::from_millis(LONG) }).unwrap();
        let port = switch.port(number).unwrap();
        port.cap(Some(&stream.connection), window(tighter, 2)).unwrap();
        comes(Bytes::new(2_000), tighter);
        // A window of several segments waits for no delayed acknowledgement: by one in 40 ms it would be
        // 1.2 Mbit/s.
        assert!(eventually(|| { stream.goodput(Duration::from_millis(200)) > Rate::from_mbps(5) }));
        // The lease of its own ends, then that of all.
        switch.renew(now(), Lease { epoch: 2, span: Span::from_millis(100) }).unwrap();
        comes(tighter, cap);
        switch.renew(now(), Lease { epoch: 2, span: Span::from_millis(LONG) }).unwrap();
        let port = switch.port(number).unwrap();
        port.cap(None, None).unwrap();
        comes(Bytes::new(15_000), Bytes::MAX);
        // Less than a segment still lets one through, as often as the receiver acknowledges: its
        // delayed acknowledgements take 40 ms.
        port.cap(None, window(Bytes::new(100), 1)).unwrap();
        comes(Bytes::ZERO, FULL);
        assert!(eventually(|| {
            stream.goodput(Duration::from_millis(300)) > Rate::from_bps(100_000)
        }));
        assert!(eventually(|| port.counters().unwrap().rewritten > 100));
        port.cap(None, None).unwrap(); // what is buffered would take a minute
        let counters = port.counters().unwrap();
        assert_eq!(counters.unscaled, 0, "{counters:?}");
        assert_eq!(pacer.stop(&[rig.namespace(0)]).unwrap(), Stopped::Clean);
        drop(stream);
        switch.detach(number).unwrap();
        for direction in ["ingress", "egress"] {
            assert_eq!(rig.tc(0, &format!("filter show dev eth0 {direction}")), "");
        }
    }
}

/// Filters outlive who put them there: who can't take them off says so.
#[test]
fn filters_that_stay_are_told_and_those_of_a_lost_interface_are_not() {
    if !root() {
        return;
    }
    for (is_lost, remains) in [(false, vec!["eth0".to_owned()]), (true, vec![])] {
        let rig = Rig::new(None);
        let may_not = || {
            let mut switch = Switch::new().unwrap();
            uplink(&rig, &mut switch, Attachment::Clsact);
            if is_lost {
                rig.unplug();
            }
            let mut own = capabilities(None).unwrap();
            own.effective.remove(CapabilitySet::NET_ADMIN);
            set_capabilities(None, own).unwrap(); // of this thread
            switch.stop()
        };
        let told = thread::scope(|scope| scope.spawn(may_not).join()).unwrap();
        let ports: Vec<_> = told.iter().map(|(interface, _)| interface.clone()).collect();
        assert_eq!(ports, remains, "{told:?}");
        if !is_lost {
            assert_ne!(rig.tc(0, "filter show dev eth0 egress"), "");
        }
    }
}

#[test]
fn a_connection_whose_opening_was_missed_is_left_alone() {
    if !root() {
        return;
    }
    let rig = Rig::new(Some("50mbit"));
    let stream = rig.stream();
    let mut switch = Switch::new().unwrap();
    let number = uplink(&rig, &mut switch, Attachment::Best);
    switch.renew(now(), lease(LONG)).unwrap();
    let port = switch.port(number).unwrap();
    let window = Cap { bytes: Bytes::new(5_000), floor_segments: 2 };
    port.cap(None, Some(window.into())).unwrap();
    let flow = || {
        let mut flows = port.flows().unwrap().into_iter();
        flows.find(|flow| flow.connection == stream.connection)
    };
    let carried = || port.counters().unwrap().carried > Bytes::new(100_000);
    assert!(eventually(|| flow().is_some() && carried() && port.counters().unwrap().unscaled > 0));
    let counters = port.counters().unwrap();
    assert_eq!((counters.rewritten, flow().unwrap().scale), (0, None), "{counters:?}");
    assert!(port.is_unscaled(&stream.connection).unwrap());
}

/// A port by which nothing goes but what a test passes.
fn quiet(options: PortOptions) -> (Switch, PortNumber) {
    let mut switch = Switch::new().unwrap();
    let number = switch.attach(Namespace::private().unwrap(), "lo", &options).unwrap();
    (switch, number)
}

/// Buffers may be larger than what is counted; packets beyond that find no room.
#[test]
fn a_queue_counts_4095_packets_at_most() {
    if !root() {
        return;
    }
    let (mut switch, number) =
        quiet(PortOptions { attachment: Attachment::Best, ..PortOptions::default() });
    let port = switch.port(number).unwrap();
    let buffer = Buffer::Unlimited;
    // None leaves within the test, however slow the machine is: 40 octets take some five minutes.
    port.watch(Some(Watch { buffer, ..watch(Rate::from_bps(1)) })).unwrap();
    let frame = packet(true, false, |_| {});
    for _ in 0..4_200 {
        port.pass_out(&frame).unwrap();
    }
    assert_eq!((port.queue().unwrap().packets, port.counters().unwrap().over), (4_095, 105));
}

#[test]
fn openings_and_endings_are_told_once() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let mut switch = Switch::new().unwrap();
    let number = uplink(&rig, &mut switch, Attachment::Best);
    switch.port(number).unwrap().punt(true).unwrap();
    let stream = rig.stream();
    let connection = stream.connection;
    assert_eq!(event(&mut switch).happening, Happening::Opened(connection));
    drop(stream);
    assert_eq!(event(&mut switch).happening, Happening::Closed(connection));
    // Nothing more of it comes before the next.
    let next = rig.stream();
    assert_eq!(event(&mut switch).happening, Happening::Opened(next.connection));
}

/// Nobody takes what ports tell: what finds no room is counted, and what comes after finds room again.
#[test]
fn what_finds_no_room_among_the_events_is_counted() {
    if !root() {
        return;
    }
    let (mut switch, number) =
        quiet(PortOptions { attachment: Attachment::Best, ..PortOptions::default() });
    switch.port(number).unwrap().punt(true).unwrap();
    let opening = packet(true, false, |header| syn(header, 1460, None));
    let mut lost = 0;
    for many in [5_000, 10, 6_000] {
        let port = switch.port(number).unwrap();
        (0..many).for_each(|_| drop(port.pass_out(&opening).unwrap()));
        let before = std::mem::replace(&mut lost, port.counters().unwrap().lost);
        let told = std::iter::from_fn(|| switch.next(Span::ZERO).unwrap()).count() as u64;
        assert_eq!(told + lost - before, many);
        assert_eq!(lost > before, many > 4_000, "{told} of {many} found room");
    }
}

/// Who begins to watch may know nothing: a controller that has started anew, another policy.
#[test]
fn who_asks_anew_is_told_of_what_is_open() {
    if !root() {
        return;
    }
    let (mut switch, number) =
        quiet(PortOptions { attachment: Attachment::Best, ..PortOptions::default() });
    let port = switch.port(number).unwrap();
    let opening = packet(true, false, |header| syn(header, 1460, None));
    let data = carrying(b"data", true, false, |header| header.ack = true);
    let ending = packet(true, false, |header| header.fin = true);
    // Nobody asks; then somebody, again, and again after it has ended.
    port.pass_out(&opening).unwrap();
    port.pass_out(&data).unwrap();
    for _ in 0..2 {
        port.punt(true).unwrap();
        port.pass_out(&data).unwrap();
        port.pass_out(&data).unwrap();
    }
    port.pass_out(&ending).unwrap();
    port.punt(true).unwrap();
    port.pass_out(&data).unwrap();
    let (marker, marked) = marker();
    port.pass_out(&marker).unwrap();
    let told = [(); 4].map(|()| event(&mut switch).happening);
    let connection = connection();
    let opened = Happening::Opened(connection);
    assert_eq!(told, [opened, opened, Happening::Closed(connection), marked]);
}

/// Each direction of a connection is a flow, which its sender opens and closes at the port that it leaves by.
#[test]
fn a_direction_opens_by_its_own_syn_or_payload() {
    if !root() {
        return;
    }
    let (mut switch, number) =
        quiet(PortOptions { attachment: Attachment::Best, ..PortOptions::default() });
    let port = switch.port(number).unwrap();
    port.punt(true).unwrap();
    let opening = |from_sender| packet(from_sender, false, |header| syn(header, 1460, None));
    let with =
        |payload, from_sender| carrying(payload, from_sender, false, |header| header.ack = true);
    let ending = |from_sender| packet(from_sender, false, |header| header.fin = true);
    // Made by the end that is here: the other's segments come in and open nothing.
    port.pass_out(&opening(true)).unwrap();
    port.pass_in(&with(b"request", false)).unwrap();
    port.pass_out(&with(b"answer", true)).unwrap();
    port.pass_in(&ending(false)).unwrap();
    port.pass_out(&ending(true)).unwrap();
    // Made by the other end, which sends from port 80: its acknowledgements open nothing here.
    let answers = Connection { source: connection().destination, destination: connection().source };
    port.pass_in(&opening(true)).unwrap();
    port.pass_out(&with(b"", false)).unwrap();
    port.pass_out(&with(b"answer", false)).unwrap();
    port.pass_out(&with(b"more", false)).unwrap();
    port.pass_in(&packet(true, false, |header| header.rst = true)).unwrap();
    let (marker, marked) = marker();
    port.pass_out(&marker).unwrap();
    let told = [(); 5].map(|()| event(&mut switch).happening);
    let (opened, closed) = (Happening::Opened, Happening::Closed);
    let mine = connection();
    assert_eq!(told, [opened(mine), closed(mine), opened(answers), closed(answers), marked]);
}

#[test]
fn a_class_is_chosen_by_the_map_and_left_with_its_lease() {
    if !root() {
        return;
    }
    let rig = Rig::new(Some("100mbit"));
    rig.tc(0, "class add dev eth0 parent 1: classid 1:10 htb rate 10mbit ceil 10mbit burst 15k quantum 1514");
    rig.tc(0, "qdisc add dev eth0 parent 1:10 pfifo limit 100");
    let mut switch = Switch::new().unwrap();
    let number = uplink(&rig, &mut switch, Attachment::Best);
    switch.renew(now(), lease(LONG)).unwrap();
    let port = switch.port(number).unwrap();
    let stream = rig.stream();
    port.classify(&stream.connection, Some((1, 0x10))).unwrap();
    stream.settles(hosts::payload(Rate::from_mbps(10)), 6);
    assert!(port.counters().unwrap().classed > 100);
    switch.renew(now(), lease(100)).unwrap();
    stream.exceeds(Rate::from_mbps(60));
    assert_eq!(switch.sweep(now()).unwrap(), 1);
}

/// As one of limits does.
#[test]
fn a_full_table_of_an_interface_names_what_to_do() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let mut switch = Switch::new().unwrap();
    let number = uplink(&rig, &mut switch, Attachment::Best);
    switch.renew(now(), lease(LONG)).unwrap();
    let port = switch.port(number).unwrap();
    let mut classify = |from: u16| {
        let source = ([10, 9, 0, 1], from).into();
        let connection = Connection { source, destination: ([10, 9, 0, 2], 1).into() };
        port.classify(&connection, Some((1, 0x10)))
    };
    (1..=8192).for_each(|from| classify(from).unwrap());
    let full = classify(8193).unwrap_err();
    assert!(matches!(full, Error::Crowded(8192)), "{full}");
}

#[test]
fn orders_of_the_past_and_senseless_settings_are_refused() {
    if !root() {
        return;
    }
    let rig = Rig::new(None);
    let mut switch = Switch::new().unwrap();
    let missing = switch.attach(rig.namespace(0), "eth7", &PortOptions::default());
    assert!(matches!(missing, Err(Error::NoInterface(..))));
    let number = uplink(&rig, &mut switch, Attachment::Best);
    assert!(matches!(switch.port(PortNumber(9)), Err(Error::NoPort(9))));
    switch.renew(now(), Lease { epoch: 5, span: Span::from_secs(1) }).unwrap();
    let past = switch.renew(now(), Lease { epoch: 4, span: Span::from_secs(1) });
    assert!(matches!(past, Err(Error::Stale { given: 4, standing: 5 })));
    let port = switch.port(number).unwrap();
    assert!(matches!(port.watch(Some(watch(Rate::ZERO))), Err(Error::Setting { .. })));
}

/// What the kernel cuts later counts as the packets that it becomes.
#[test]
fn marks_come_above_the_threshold_however_packets_are_cut() {
    if !root() {
        return;
    }
    let (mut switch, number) = quiet(PortOptions::default());
    let port = switch.port(number).unwrap();
    // A packet takes half a minute: none leaves.
    let mark = Some(3);
    port.watch(Some(Watch { mark, ..watch(Rate::from_bps(10)) })).unwrap();
    let mut packet = packet(true, false, |header| header.ack = true);
    let service = 15;
    packet[service] = 2; // ECT(0)
    let marked = [2, 1, 1].map(|packets| {
        let mut cut = packet.clone();
        cut.resize(54 * packets as usize, 0);
        port.pass_out_as(&cut, packets).unwrap()[service] == 3
    });
    assert_eq!((marked, port.counters().unwrap().marked), ([false, false, true], 1));
    assert_eq!(port.queue().unwrap().packets, 4);
}

#[test]
fn a_connection_that_opens_begins_then() {
    if !root() {
        return;
    }
    let (mut switch, number) = quiet(PortOptions::default());
    let port = switch.port(number).unwrap();
    let opens = packet(true, false, |header| syn(header, 1460, None));
    // The second has the numbers of the first.
    let first = [(), ()].map(|()| {
        port.pass_out(&opens).unwrap();
        port.pass_out(&packet(true, false, |header| header.ack = true)).unwrap();
        let [flow] = port.flows().unwrap()[..] else { panic!("one flow") };
        assert!(flow.first < flow.last);
        flow.first
    });
    assert!(first[0] < first[1]);
}

#[test]
fn what_a_lease_held_is_swept_out_when_it_has_ended() {
    if !root() {
        return;
    }
    let (mut switch, number) = quiet(PortOptions { connections: 2_000, ..PortOptions::default() });
    let window = Some(Cap { bytes: FULL * 4, floor_segments: 2 }.into());
    let connection = |source| {
        let source = SocketAddr::from(([10, 0, 0, 1], source));
        Connection { source, destination: ([10, 0, 0, 2], 80).into() }
    };
    for (epoch, sources) in [(1, 1..=900), (9, 901..=2_000)] {
        // Both epochs have the same place in the kernel: the second lease ends the first.
        switch.renew(now(), Lease { epoch, span: Span::from_millis(LONG) }).unwrap();
        for source in sources {
            switch.port(number).unwrap().cap(Some(&connection(source)), window).unwrap();
        }
    }
    // So there is room for others.
    for source in 2_001..=2_900 {
        switch.port(number).unwrap().cap(Some(&connection(source)), window).unwrap();
    }
    switch.renew(now(), Lease { epoch: 10, span: Span::from_millis(LONG) }).unwrap();
    switch.port(number).unwrap().cap(Some(&connection(2_000)), window).unwrap();
    let (at, span) = (now(), Span::from_millis(200));
    switch.renew(at, Lease { epoch: 10, span }).unwrap();
    assert_eq!([at, at + span, at + span].map(|at| switch.sweep(at).unwrap()), [0, 1, 0]);
}

/// The longest that an acknowledgement may wait here: none passes before its turn.
const MOST: Span = Span::from_secs(60);

/// An acknowledgement with a number.
fn acknowledgement(number: u32) -> Vec<u8> {
    packet(false, false, |header| {
        header.ack = true;
        header.acknowledgment_number = number;
    })
}

/// Sends so many acknowledgements from `b` and returns when each came in at `a`, and when it had passed the port.
fn passed(rig: &Rig, count: u32) -> Vec<[Time; 2]> {
    let [here, there] = [0, 1].map(|host| rig.namespace(host));
    let wires = [Seen::Before, Seen::After].map(|seen| Wire::of(&here, seen));
    let mut times = vec![[Vec::new(), Vec::new()]; count as usize];
    let from = Wire::of(&there, Seen::Before);
    (0..count).for_each(|number| from.send(&acknowledgement(number)));
    let all = eventually(|| {
        for (place, wire) in wires.iter().enumerate() {
            while let Some((packet, at)) = wire.next() {
                let number = packet.get(42..46).and_then(|octets| octets.try_into().ok());
                if packet.get(26..30) == Some(&hosts::crafted::RECEIVER) {
                    times[u32::from_be_bytes(number.unwrap()) as usize][place].push(at);
                }
            }
        }
        times.iter().flatten().all(|seen| !seen.is_empty())
    });
    assert!(all, "{times:?}");
    times
        .into_iter()
        .map(|seen| seen.map(|at| *at.as_array::<1>().expect("once")).map(|[at]| at))
        .collect()
}

/// By the kernel's own times, and so on however busy a machine: between any two that waited are as many gaps as the one
/// came after the other.
#[test]
fn acknowledgements_are_spaced_until_the_lease_ends() {
    if !root() {
        return;
    }
    for attachment in [Attachment::Tcx, Attachment::Clsact] {
        let rig = Rig::new(None);
        let mut switch = Switch::new().unwrap();
        let number = uplink(&rig, &mut switch, attachment);
        switch.renew(now(), lease(LONG)).unwrap();
        for gap in [Span::from_micros(1_000), Span::from_micros(120)] {
            switch.port(number).unwrap().space(Some(gap), MOST).unwrap();
            let passed = passed(&rig, 200);
            let mut turn = Time::ZERO;
            for [came, went] in &passed {
                // No sooner than it came, nor than a gap after the turn of the one before.
                turn = turn.max(*came);
                assert!(*went >= turn, "{attachment:?} {gap}: {went:?} instead of {turn:?}");
                turn += gap;
            }
            let mut gaps: Vec<Span> =
                passed.windows(2).map(|two| two[1][1].since(two[0][1])).collect();
            gaps.sort();
            eprintln!("{attachment:?}: of {gap} the least {}, the median {}", gaps[0], gaps[100]);
        }
        let port = switch.port(number).unwrap();
        assert_eq!(port.counters().unwrap().spaced, 400);
        assert!(port.waits_in(&acknowledgement(1)).unwrap());
        switch.renew(now(), lease(1)).unwrap();
        let port = switch.port(number).unwrap();
        assert!(eventually(|| !port.waits_in(&acknowledgement(1)).unwrap()));
        assert_eq!(switch.sweep(now()).unwrap(), 1);
        passed(&rig, 20);
        assert_eq!(switch.port(number).unwrap().counters().unwrap().spaced, 402);
    }
}
