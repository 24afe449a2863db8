//! Packets made by hand, run through the programs without a network: what is rewritten agrees with the
//! model, and what contradicts itself passes untouched.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

mod hosts;

use std::cell::{Cell, RefCell};
use std::net::Ipv4Addr;

use etherparse::{SlicedPacket, TcpHeader, TransportSlice};
use hosts::crafted::{RECEIVER, SENDER, connection, packet, syn};
use hosts::{Rig, lease};
use kernel::{Connection, PortNumber, PortOptions, Switch, now};
use model::{Cap, MSS, offered_scale};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use testing::needs::root;
use units::Bytes;

/// The window and whether the checksum is right.
fn window(packet: &[u8]) -> (u16, bool) {
    let sliced = SlicedPacket::from_ethernet(packet).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("TCP") };
    let header = tcp.to_header();
    let sum = match sliced.net.unwrap() {
        etherparse::NetSlice::Ipv4(ip) => {
            header.calc_checksum_ipv4(&ip.header().to_header(), tcp.payload())
        }
        etherparse::NetSlice::Ipv6(ip) => {
            header.calc_checksum_ipv6(&ip.header().to_header(), tcp.payload())
        }
        _ => panic!("IP"),
    };
    (tcp.window_size(), sum.unwrap() == header.checksum)
}

const CAP: Cap = Cap { bytes: Bytes::new(3000), floor_segments: 1 };

/// A port in a namespace of its own, under a lease.
fn attached() -> (Rig, Switch, PortNumber) {
    let rig = Rig::new(None);
    let mut switch = Switch::new().unwrap();
    let number = switch.attach(rig.namespace(0), "eth0", &PortOptions::default()).unwrap();
    switch.renew(now(), lease(600_000)).unwrap();
    (rig, switch, number)
}

#[test]
fn windows_are_written_as_the_model_says() {
    if !root() {
        return;
    }
    let (_rig, mut switch, number) = attached();
    let port = RefCell::new(switch.port(number).unwrap());
    let strategy = (
        any::<u16>(),
        (0..=15u8, 0..=15u8, any::<bool>(), any::<bool>()),
        prop_oneof![0..3_000u64, 3_000..200_000u64, 200_000..1u64 << 32],
        prop_oneof![100..1461u16, Just(0), Just(u16::MAX)],
        0..4_u32,
        any::<bool>(),
    );
    proptest!(ProptestConfig::with_cases(2000), |((field, scales, bytes, segment, floor_segments, v6) in strategy)| {
        let mut port = port.borrow_mut();
        let (mine, theirs, i_scale, they_scale) = scales;
        let connection = if v6 {
            let [source, destination] = [SENDER, RECEIVER].map(|end| Ipv4Addr::from(end).to_ipv6_compatible());
            Connection { source: (source, 5000).into(), destination: (destination, 80).into() }
        } else {
            connection()
        };
        let cap = Cap { bytes: Bytes::new(bytes), floor_segments };
        port.cap(Some(&connection), Some(cap.into())).unwrap();
        let open = packet(true, v6, |h| syn(h, 1460, i_scale.then_some(mine)));
        port.pass_out(&open).unwrap();
        prop_assert!(!port.is_unscaled(&connection).unwrap(), "the answer is to come");
        let answer = packet(false, v6, |h| {
            syn(h, segment, they_scale.then_some(theirs));
            h.ack = true;
            h.window_size = field;
        });
        let answered = port.pass_in(&answer).unwrap();
        let ack = packet(false, v6, |h| {
            h.ack = true;
            h.window_size = field;
        });
        let passed = port.pass_in(&ack).unwrap();
        prop_assert!(!port.is_unscaled(&connection).unwrap());

        // A receiver that names no segment takes 536; nobody sends more than the interface carries.
        let segment = Bytes::new(u64::from(if segment == 0 { 536 } else { segment }.min(1460)));
        let scale = if i_scale && they_scale { theirs } else { 0 };
        for (before, after, scale) in [(&answer, &answered, 0), (&ack, &passed, scale)] {
            let (written, right) = window(after);
            prop_assert_eq!(written, cap.rewritten(field, scale, segment));
            prop_assert!(right, "checksum");
            // Nothing else changes: window and checksum are octets 14 to 17 of the TCP header.
            let tcp = if v6 { 54 } else { 34 };
            prop_assert_eq!(&before[..tcp + 14], &after[..tcp + 14]);
            prop_assert_eq!(&before[tcp + 18..], &after[tcp + 18..]);
        }
    });
}

/// A cap is refused by [`kernel::Port::is_unscaled`] where the program would leave it unwritten, and only there.
#[test]
fn a_connection_is_unscaled_where_the_program_leaves_it_alone() {
    if !root() {
        return;
    }
    let (_rig, mut switch, number) = attached();
    let port = switch.port(number).unwrap();
    port.cap(None, Some(CAP.into())).unwrap();
    let seen = [[false, false], [true, false], [false, true], [true, true]];
    for (source, [opens, answers]) in (5001..).zip(seen) {
        let ends = |h: &mut TcpHeader| (h.source_port, h.destination_port) = (80, source);
        let connection = Connection { source: (SENDER, source).into(), ..connection() };
        let is_unscaled = || port.is_unscaled(&connection).unwrap();
        assert!(!is_unscaled(), "nothing of it has passed");
        if opens {
            let open = packet(true, false, |h| {
                syn(h, 1460, Some(7));
                h.source_port = source;
            });
            port.pass_out(&open).unwrap();
            assert!(!is_unscaled(), "the answer is to come");
        }
        if answers {
            let answer = packet(false, false, |h| {
                syn(h, 1460, Some(7));
                h.ack = true;
                ends(h);
            });
            port.pass_in(&answer).unwrap();
        }
        let before = port.counters().unwrap().unscaled;
        let ack = packet(false, false, |h| {
            (h.ack, h.window_size) = (true, 60_000);
            ends(h);
        });
        let is_left = port.pass_in(&ack).unwrap() == ack;
        let counted = port.counters().unwrap().unscaled - before;
        let found = (is_left, counted, is_unscaled());
        let is_known = opens && answers;
        assert_eq!(found, (!is_known, u64::from(!is_known), !is_known), "{opens} {answers}");
    }
}

#[test]
fn packets_that_contradict_themselves_pass_untouched() {
    if !root() {
        return;
    }
    let (_rig, mut switch, number) = attached();
    let port = switch.port(number).unwrap();
    port.cap(None, Some(CAP.into())).unwrap();
    port.pass_out(&packet(true, false, |h| syn(h, 1460, Some(7)))).unwrap();
    port.pass_in(&packet(false, false, |h| {
        syn(h, 1460, Some(7));
        h.ack = true;
    }))
    .unwrap();
    let ack = packet(false, false, |h| {
        h.ack = true;
        h.window_size = 60_000;
    });
    assert_ne!(port.pass_in(&ack).unwrap(), ack, "a sound one is rewritten");
    let sound = port.counters().unwrap();
    assert_eq!((sound.rewritten, sound.malformed), (1, 0));
    let change = |place: usize, value: u8| {
        let mut broken = ack.clone();
        broken[place] = value;
        broken
    };
    let broken: Vec<Vec<u8>> = [
        vec![
            change(14, 0x44), // IP header shorter than 20
            change(14, 0x4f), // and longer than the packet
            change(14, 0x65), // version 6
            change(17, 30),   // the packet ends inside the TCP header
            change(46, 0x40), // TCP header shorter than 20
            change(46, 0xf0), // and longer than the packet
        ],
        // The kernel's test run itself takes none without a whole IP header.
        (34..54).map(|end| ack[..end].to_vec()).collect(),
    ]
    .concat();
    for packet in &broken {
        assert_eq!(port.pass_in(packet).unwrap(), *packet);
    }
    let counters = port.counters().unwrap();
    assert_eq!((counters.rewritten, counters.malformed), (1, broken.len() as u64));
    for (place, value, what) in [(23, 17, "UDP"), (20, 0x20, "a fragment"), (47, 0x04, "RST")] {
        let other = change(place, value);
        assert_eq!(port.pass_in(&other).unwrap(), other, "{what}");
    }
}

#[test]
fn options_that_break_off_leave_the_scale_unknown() {
    if !root() {
        return;
    }
    let (_rig, mut switch, number) = attached();
    let port = switch.port(number).unwrap();
    port.cap(None, Some(CAP.into())).unwrap();
    let ack = packet(false, false, |h| {
        h.ack = true;
        h.window_size = 60_000;
    });
    let answers: [&[u8]; 6] = [
        &[3, 0, 1, 1],             // no length
        &[3, 1, 7, 1],             // shorter than itself
        &[1, 1, 1, 3],             // no length before the end
        &[1, 3, 3, 7, 2, 9, 1, 1], // a segment that runs over the end
        &[255, 255, 1, 1],
        &[8, 40, 1, 1],
    ];
    for answer in answers {
        port.pass_out(&packet(true, false, |h| syn(h, 1460, Some(7)))).unwrap();
        port.pass_in(&packet(false, false, |h| {
            h.set_options_raw(answer).unwrap();
            (h.syn, h.ack) = (true, true);
        }))
        .unwrap();
        assert_eq!(port.pass_in(&ack).unwrap(), ack, "{answer:?}");
        assert!(port.is_unscaled(&connection()).unwrap(), "{answer:?}");
    }
    // Lists whatever, such as may be whole among them, are read as the controller reads them. The floor is too low for
    // segments to count.
    let cap = Cap { bytes: CAP.bytes, floor_segments: 0 };
    port.cap(None, Some(cap.into())).unwrap();
    let option = prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 1..4),
        2 => (0..20_u8).prop_map(|shift| vec![3, 3, shift]),
        1 => (2..6_u8).prop_map(|length| [vec![8, length], vec![7; usize::from(length) - 2]].concat()),
        1 => Just(vec![1_u8]),
        1 => Just(vec![0_u8]),
    ];
    let lists = prop::collection::vec(option, 0..8).prop_map(|options: Vec<Vec<u8>>| {
        let mut octets = options.concat();
        octets.truncate(40);
        // A header is whole words: what is missing would be filled with ends of the list.
        octets.resize(octets.len().next_multiple_of(4), 1);
        octets
    });
    let (mut whole, mut broken) = (0, 0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(2000));
    let counts = RefCell::new((&mut whole, &mut broken));
    runner
        .run(&lists, |options| {
            port.pass_out(&packet(true, false, |h| syn(h, 1460, Some(7)))).unwrap();
            let answer = packet(false, false, |h| {
                h.set_options_raw(&options).unwrap();
                (h.syn, h.ack) = (true, true);
            });
            port.pass_in(&answer).unwrap();
            let (written, right) = window(&port.pass_in(&ack).unwrap());
            let scale = offered_scale(&options);
            let expected = scale.map_or(60_000, |scale| cap.rewritten(60_000, scale, MSS));
            prop_assert_eq!((written, right), (expected, true));
            prop_assert_eq!(port.is_unscaled(&connection()).unwrap(), scale.is_none());
            let mut counts = counts.borrow_mut();
            *counts.0 += u32::from(scale.is_some_and(|scale| scale > 0));
            *counts.1 += u32::from(scale.is_none());
            Ok(())
        })
        .unwrap();
    assert!(whole > 100 && broken > 100, "{whole} scales, {broken} lists that break off");
}

/// Of an acknowledgement whose window is capped, with any octets in it changed and any length.
#[test]
fn nothing_but_the_window_and_its_checksum_is_rewritten() {
    if !root() {
        return;
    }
    let (_rig, mut switch, number) = attached();
    let port = switch.port(number).unwrap();
    port.cap(None, Some(CAP.into())).unwrap();
    let open = packet(true, false, |h| syn(h, 1460, Some(7)));
    let answer = packet(false, false, |h| {
        syn(h, 1460, Some(7));
        h.ack = true;
    });
    let ack = packet(false, false, |h| {
        h.ack = true;
        h.window_size = 60_000;
    });
    // Behind the Ethernet header: the kernel's test run takes what is of no other kind.
    let changes = prop::collection::vec((14..54_usize, any::<u8>()), 0..4);
    let rewritten = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(2000));
    runner
        .run(&(changes, 54..80_usize), |(changes, length)| {
            // The packet before may have ended the connection.
            port.pass_out(&open).unwrap();
            port.pass_in(&answer).unwrap();
            let mut before = ack.clone();
            changes.iter().for_each(|(at, value)| before[*at] = *value);
            before.resize(length, 0);
            let after = port.pass_in(&before).unwrap();
            prop_assert_eq!(after.len(), before.len());
            let tcp = 14 + usize::from(before[14] & 15) * 4;
            let window = |packet: &[u8]| u16::from_be_bytes([packet[tcp + 14], packet[tcp + 15]]);
            let changed = (0..length).filter(|at| before[*at] != after[*at]);
            for at in changed {
                prop_assert!((tcp + 14..tcp + 18).contains(&at), "octet {} of {:?}", at, before);
            }
            if before != after {
                prop_assert!(window(&after) < window(&before) && window(&after) > 0);
                rewritten.set(rewritten.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(rewritten.get() > 100, "{} were rewritten", rewritten.get());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn any_octets_pass(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 54..200), 100)) {
        if !root() {
            return Ok(());
        }
        let (_rig, mut switch, number) = attached();
        let port = switch.port(number).unwrap();
        port.cap(None, Some(CAP.into())).unwrap();
        for mut packet in packets {
            let v4 = packet[0] & 1 == 0;
            packet[12..14].copy_from_slice(if v4 { &[8, 0] } else { &[0x86, 0xdd] });
            packet[if v4 { 23 } else { 20 }] = 6;
            if packet[1] & 1 == 0 {
                packet[14] = if v4 { 0x45 } else { 0x60 };
            }
            prop_assert_eq!(&port.pass_in(&packet).unwrap(), &packet);
            prop_assert_eq!(&port.pass_out(&packet).unwrap(), &packet);
        }
    }
}
