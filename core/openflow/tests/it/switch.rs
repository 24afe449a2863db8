//! What only the switch model can do, or what only it can be asked: the rest is conformance.
#![allow(clippy::unwrap_used)] // a test may panic

use crate::messages;
use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use model::Severity;
use proptest::prelude::*;
use units::{Span, Time};
use watermaster_openflow::sdtcp::{CapWindow, Notice, PrepareWindow};
use watermaster_openflow::switch::{Output, Switch};
use watermaster_openflow::*;

fn switch() -> Switch {
    testing::openflow::switch(1, 3, 3)
}

#[track_caller]
fn add(switch: &mut Switch, fields: &[Oxm<'_>], instructions: &[Instruction<'_>]) {
    let (fields, instructions) = (List::of(fields), List::of(instructions));
    let mut out = Output::default();
    let change = Message::FlowMod(FlowMod { fields, instructions, ..FlowMod::ADD });
    switch.handle(Time::ZERO, 1, &change, &mut out);
    assert_eq!(out, Output::default());
}

fn segment(syn: bool, ack: bool, window: u16, length: usize) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut tcp = ethernet.tcp(80, 5000, 77, window);
    tcp = if syn { tcp.syn() } else { tcp };
    tcp = if ack { tcp.ack(5) } else { tcp };
    let mut bytes = Vec::new();
    tcp.write(&mut bytes, &vec![9; length]).unwrap();
    bytes
}

/// Equation 9 of the SDTCP text, on the wire: the capped segment is the one that a receiver with
/// that window would have sent, its checksum included.
#[test]
fn windows_of_acknowledgements_are_capped() {
    let mut switch = switch();
    let tcp =
        [Field::exact(Kind::EthType, 0x0800_u16).into(), Field::exact(Kind::IpProto, 6_u8).into()];
    let cap = CapWindow { window_bytes: 2920, shift: 7 };
    let actions = [Action::CapWindow(cap), Action::output(PortNo(2))];
    add(&mut switch, &tcp, &[Instruction::ApplyActions(List::of(&actions))]);
    let mut through = |frame: &[u8]| {
        let mut out = Output::default();
        switch.receive(Time::ZERO, PortNo(1), frame, &mut out);
        out.frames.pop().unwrap().1
    };
    for length in [0, 1, 99] {
        assert_eq!(through(&segment(false, true, 500, length)), segment(false, true, 22, length));
    }
    // Small windows stay, a closed one too; what is no acknowledgement, or isn't scaled, is left.
    for (syn, ack, window) in [
        (false, true, 21),
        (false, true, 0),
        (true, true, 500),
        (true, false, 500),
        (false, false, 500),
    ] {
        let frame = segment(syn, ack, window, 3);
        assert_eq!(through(&frame), frame);
    }
}

/// No message comes: the port's own queue decides, also while nobody wants to hear of it.
#[test]
fn prepared_windows_follow_the_queue_of_their_port() {
    let mut switch = switch();
    let window_bytes = [PrepareWindow::NONE, 8760, 5840, 1460];
    let caps = PrepareWindow { port: PortNo(3), window_bytes, shift: 7 };
    let actions = [Action::PrepareWindow(caps), Action::output(PortNo(2))];
    add(&mut switch, &[], &[Instruction::ApplyActions(List::of(&actions))]);
    let nothing = AsyncConfig {
        packet_in: 0,
        packet_in_slave: 0,
        port_status: 0,
        port_status_slave: 0,
        flow_removed: 0,
        flow_removed_slave: 0,
    };
    for is_told in [true, false] {
        if !is_told {
            let mut out = Output::default();
            switch.handle(Time::ZERO, 1, &Message::SetAsync(nothing), &mut out);
        }
        let mut at = |severity, port| {
            let mut out = Output::default();
            let notice = Notice { severity, port: PortNo(port), queue_bytes: 45_000 };
            switch.notify(&notice, &mut out);
            assert_eq!(out.messages.len(), usize::from(is_told));
            switch.receive(Time::ZERO, PortNo(1), &segment(false, true, 1000, 1), &mut out);
            out.frames.pop().unwrap().1
        };
        for (severity, window) in [
            (Severity::Low, 68),
            (Severity::High, 11),
            (Severity::Medium, 45),
            (Severity::Recovered, 1000),
        ] {
            assert_eq!(at(severity, 3), segment(false, true, window, 1));
            // The queues of other ports don't count, nor those of ports that aren't there.
            assert_eq!(at(Severity::High, 2), segment(false, true, window, 1));
            assert_eq!(at(Severity::High, 77), segment(false, true, window, 1));
        }
    }
    // Of a port that isn't there no queue is known to be congested; no port at all is refused.
    for (port, error) in [(77, None), (0xffff_fffd, Some(ErrorCode::ACTION_BAD_ARGUMENT))] {
        let actions = [Action::PrepareWindow(PrepareWindow { port: PortNo(port), ..caps })];
        let instructions = [Instruction::ApplyActions(List::of(&actions))];
        let change = FlowMod { instructions: List::of(&instructions), ..FlowMod::ADD };
        let mut out = Output::default();
        switch.handle(Time::ZERO, 1, &Message::FlowMod(change), &mut out);
        let answer = out.messages.first().map(|bytes| Message::decode(bytes).unwrap().1);
        let refused = answer.map(|answer| match answer {
            Message::Error(ErrorMessage { error, .. }) => error,
            other => panic!("{other:?}"),
        });
        assert_eq!(refused, error);
    }
}

#[test]
fn congestion_is_told_to_who_wants_to_hear() {
    let mut switch = switch();
    let notice = Notice { severity: Severity::Medium, port: PortNo(2), queue_bytes: 90_000 };
    let mut out = Output::default();
    switch.notify(&notice, &mut out);
    let (xid, Message::PacketIn(packet)) = Message::decode(&out.messages[0]).unwrap() else {
        panic!()
    };
    assert_eq!((xid, Notice::of(&packet)), (0, Some(notice)));
    let quiet = AsyncConfig {
        packet_in: !(1 << 26),
        packet_in_slave: 0,
        port_status: 0,
        port_status_slave: 0,
        flow_removed: 0,
        flow_removed_slave: 0,
    };
    let mut out = Output::default();
    switch.handle(Time::ZERO, 1, &Message::SetAsync(quiet), &mut out);
    switch.notify(&notice, &mut out);
    assert_eq!(out, Output::default());
    switch.notify(&Notice { severity: Severity::High, ..notice }, &mut out);
    assert_eq!(out.messages.len(), 1);
}

/// 7.3.4.4: a remark band raises the drop precedence of an assured-forwarding class (RFC 2597).
/// Of two bands that are exceeded the higher acts.
#[test]
fn the_highest_exceeded_band_acts() {
    let mut switch = switch();
    let bands = [
        Band { rate: 2, burst: 4, kind: BandKind::Drop },
        Band { rate: 1, burst: 2, kind: BandKind::Remark(1) },
    ];
    let flags = MeterFlags(MeterFlags::PACKETS.0 | MeterFlags::BURST.0);
    let (command, meter, bands) = (MeterCommand::ADD, MeterId(1), List::of(&bands));
    let mut out = Output::default();
    let change = Message::MeterMod(MeterMod { command, flags, meter, bands });
    switch.handle(Time::ZERO, 1, &change, &mut out);
    let actions = [Action::output(PortNo(2))];
    let instructions =
        [Instruction::Meter(MeterId(1)), Instruction::ApplyActions(List::of(&actions))];
    add(&mut switch, &[], &instructions);
    let af11 = |dscp: u8| {
        let mut ip =
            etherparse::Ipv4Header::new(20, 64, etherparse::IpNumber::UDP, [1; 4], [2; 4]).unwrap();
        ip.dscp = dscp.try_into().unwrap();
        let ip = etherparse::IpHeaders::Ipv4(ip, Default::default());
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ip(ip)
            .udp(1, 2)
            .write(&mut bytes, &[0; 12])
            .unwrap();
        bytes
    };
    for _ in 0..6 {
        switch.receive(Time::ZERO, PortNo(1), &af11(10), &mut out);
    }
    let sent: Vec<Vec<u8>> = out.frames.into_iter().map(|(_, frame)| frame).collect();
    // Two pass, two are marked AF12, the rest is dropped.
    assert_eq!(sent, [af11(10), af11(10), af11(12), af11(12)]);
}

/// A switch has one controller here, and a time to live that ends is told to it only on demand.
#[test]
fn the_end_of_a_time_to_live_is_told_on_demand() {
    let mut switch = switch();
    add(&mut switch, &[], &[Instruction::ApplyActions(List::of(&[Action::DecNwTtl]))]);
    let mut frame = segment(false, true, 1, 1);
    frame[14 + 8] = 1;
    let mut out = Output::default();
    switch.receive(Time::ZERO, PortNo(1), &frame, &mut out);
    assert_eq!(out, Output::default());
    let all = AsyncConfig {
        packet_in: u32::MAX,
        packet_in_slave: 0,
        port_status: 0,
        port_status_slave: 0,
        flow_removed: 0,
        flow_removed_slave: 0,
    };
    switch.handle(Time::ZERO, 1, &Message::SetAsync(all), &mut out);
    switch.receive(Time::ZERO, PortNo(1), &frame, &mut out);
    let (_, Message::PacketIn(packet)) = Message::decode(&out.messages[0]).unwrap() else {
        panic!()
    };
    assert_eq!((packet.reason, packet.data), (PacketInReason::INVALID_TTL, &frame[..]));
}

proptest! {
    #![proptest_config(crate::cases(1000))]

    /// No message and no frame makes the switch panic; every answer can be read, and no flow
    /// entry outlives its time.
    #[test]
    fn anything_is_survived(
        messages in prop::collection::vec(messages::message(), 1..6),
        frame in prop::collection::vec(any::<u8>(), 0..80),
        seconds in 0_u64..100,
    ) {
        let mut switch = switch();
        let mut out = Output::default();
        for message in &messages {
            switch.handle(Time::ZERO, 5, message, &mut out);
        }
        let now = Time::ZERO + Span::from_secs(seconds);
        switch.receive(now, PortNo(1), &frame, &mut out);
        switch.tick(now, &mut out);
        for bytes in &out.messages {
            prop_assert!(Message::decode(bytes).is_ok());
        }
        prop_assert!(switch.deadline().is_none_or(|deadline| deadline > now));
    }

    /// Whatever is set in a TCP segment, a library that knows nothing of ours finds its checksums
    /// right.
    #[test]
    fn checksums_stay_right(field in messages::field(), vlan: bool, ttl in 1_u8.., length in 0_usize..9) {
        let mut switch = switch();
        let push = [Action::PushVlan(0x8100)];
        let prepared = PrepareWindow { port: PortNo(2), window_bytes: [3; 4], shift: 0 };
        let actions = [
            Action::SetField(field.into()),
            Action::SetNwTtl(ttl),
            Action::CapWindow(CapWindow { window_bytes: 7, shift: 0 }),
            Action::PrepareWindow(prepared),
            Action::output(PortNo(2)),
        ];
        let actions = if vlan { [&push[..], &actions].concat() } else { actions.to_vec() };
        let packet = PacketOut {
            buffer: BufferId::NONE,
            in_port: PortNo(1),
            actions: List::of(&actions),
            data: &segment(false, true, 1000, length),
        };
        let mut out = Output::default();
        switch.handle(Time::ZERO, 1, &Message::PacketOut(packet), &mut out);
        for (_, frame) in &out.frames {
            let sliced = SlicedPacket::from_ethernet(frame).unwrap();
            let Some(etherparse::NetSlice::Ipv4(ip)) = &sliced.net else { panic!() };
            let header = ip.header().to_header();
            prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
            let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { panic!() };
            let sum = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload()).unwrap();
            prop_assert_eq!(tcp.checksum(), sum);
        }
    }
}
