//! The codec against itself, and against bytes worked out by hand from the specification.
#![allow(clippy::unwrap_used)] // a test may panic

use crate::messages;
use model::Severity;
use proptest::prelude::*;
use units::Span;
use watermaster_openflow::sdtcp::{CapWindow, Notice, PrepareWindow};
use watermaster_openflow::*;

fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(0x0102_0304, &mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(crate::cases(2000))]

    /// Every message is read as it was written, and written to the last byte as it was read.
    #[test]
    fn what_is_written_is_read(xid: u32, message in messages::message()) {
        let mut bytes = vec![0xee];
        message.encode(xid, &mut bytes).unwrap();
        prop_assert_eq!(Message::decode(&bytes[1..]), Ok((xid, message)));
        let stated = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        prop_assert_eq!(stated, bytes.len() - 1);
    }

    /// A message cut short, or with a byte changed, is refused or read, and never worse.
    #[test]
    fn damage_is_survived(message in messages::message(), at: prop::sample::Index, byte: u8) {
        let mut bytes = encoded(&message);
        prop_assert!(Message::decode(&bytes[..at.index(bytes.len())]).is_err());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok((xid, damaged)) = Message::decode(&bytes) {
            damaged.encode(xid, &mut Vec::new()).unwrap();
        }
    }
}

/// Example: a flow entry for TCP acknowledgements to 10.0.0.2 whose window is capped to 2920 bytes
/// at scale 7, sent out of port 3. The offsets are those of 7.3.4.1 and `docs/openflow.md`.
#[test]
fn a_flow_entry_that_caps_windows() {
    let fields = [
        Field::exact(Kind::EthType, 0x0800_u16).into(),
        Field::exact(Kind::IpProto, 6_u8).into(),
        Field::exact(Kind::Ipv4Dst, 0x0a00_0002_u32).into(),
        Field::masked(Kind::TcpFlags, tcp_flags::ACK, tcp_flags::ACK | tcp_flags::SYN).into(),
    ];
    let actions =
        [Action::CapWindow(CapWindow { window_bytes: 2920, shift: 7 }), Action::output(PortNo(3))];
    let instructions = [Instruction::ApplyActions(List::of(&actions))];
    let bytes = encoded(&Message::FlowMod(FlowMod {
        priority: 100,
        fields: List::of(&fields),
        instructions: List::of(&instructions),
        ..FlowMod::ADD
    }));
    let expected: &[&[u8]] = &[
        &[4, 14, 0, 128, 1, 2, 3, 4],
        &[0; 16],
        &[0, 0, 0, 0, 0, 0, 0, 100],
        &[0xff; 12],
        &[0, 0, 0, 0],
        // Match of 4 + 6 + 5 + 8 + 12 = 35 bytes, padded to 40.
        &[0, 1, 0, 35],
        &[0x80, 0x00, 5 << 1, 2, 0x08, 0x00],
        &[0x80, 0x00, 10 << 1, 1, 6],
        &[0x80, 0x00, 12 << 1, 4, 10, 0, 0, 2],
        &[0xff, 0xff, 42 << 1 | 1, 8, 0x4f, 0x4e, 0x46, 0x00, 0x00, 0x10, 0x00, 0x12],
        &[0; 5],
        &[0, 4, 0, 40, 0, 0, 0, 0],
        &[0xff, 0xff, 0, 16, 0x00, 0x02, 0x57, 0x4d, 0, 1, 7, 0, 0, 0, 0x0b, 0x68],
        &[0, 0, 0, 16, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
}

/// Example: an entry for all packets that prepares windows for port 5 at scale 7: none while the port is
/// not congested, 8760 and 5840 bytes from the low and the medium threshold on, 1460 from the high one on.
#[test]
fn a_flow_entry_that_prepares_windows() {
    let window_bytes = [PrepareWindow::NONE, 8760, 5840, 1460];
    let caps = PrepareWindow { port: PortNo(5), window_bytes, shift: 7 };
    let actions = [Action::PrepareWindow(caps)];
    let instructions = [Instruction::ApplyActions(List::of(&actions))];
    let instructions = List::of(&instructions);
    let bytes = encoded(&Message::FlowMod(FlowMod { instructions, ..FlowMod::ADD }));
    let expected: &[&[u8]] = &[
        &[0, 4, 0, 40, 0, 0, 0, 0],
        &[0xff, 0xff, 0, 32, 0x00, 0x02, 0x57, 0x4d, 0, 2, 7, 0, 0, 0, 0, 5],
        &[0xff, 0xff, 0xff, 0xff, 0, 0, 0x22, 0x38, 0, 0, 0x16, 0xd0, 0, 0, 0x05, 0xb4],
    ];
    assert_eq!(bytes[56..], expected.concat());
    let fields = Severity::ALL.map(|severity| caps.at(severity).cap(1000));
    assert_eq!(fields, [1000, 68, 45, 11]);
    // Whatever the scale, none is none.
    for shift in 0..=u8::MAX {
        assert_eq!(PrepareWindow { shift, ..caps }.at(Severity::Recovered).cap(u16::MAX), u16::MAX);
    }
}

/// Example: port 5 holds 45000 bytes, past the low threshold.
#[test]
fn a_notice_of_congestion() {
    let notice = Notice { severity: Severity::Low, port: PortNo(5), queue_bytes: 45_000 };
    let fields = notice.fields();
    let bytes = encoded(&Message::PacketIn(notice.packet_in(&fields)));
    let expected: &[&[u8]] = &[
        &[4, 10, 0, 50, 1, 2, 3, 4],
        &[0xff, 0xff, 0xff, 0xff, 0, 0, 25, 0],
        &[0xff; 8],
        // Match of 4 + 8 + 12 = 24 bytes.
        &[0, 1, 0, 24],
        &[0x80, 0x00, 0, 4, 0, 0, 0, 5],
        &[0xff, 0xff, 1 << 1, 8, 0x00, 0x02, 0x57, 0x4d, 0, 0, 0xaf, 0xc8],
        &[0, 0],
    ];
    assert_eq!(bytes, expected.concat());
    let (_, Message::PacketIn(packet)) = Message::decode(&bytes).unwrap() else { panic!() };
    assert_eq!(Notice::of(&packet), Some(notice));
    // A packet that an action sent is none.
    assert_eq!(Notice::of(&PacketIn { reason: PacketInReason::ACTION, ..packet }), None);
}

#[test]
fn every_severity_has_its_reason() {
    for severity in [Severity::Recovered, Severity::Low, Severity::Medium, Severity::High] {
        let notice = Notice { severity, port: PortNo(1), queue_bytes: 0 };
        let fields = notice.fields();
        assert_eq!(Notice::of(&notice.packet_in(&fields)), Some(notice));
    }
}

/// Equation 9 of the SDTCP text: the smaller of both windows, in units of 2^shift bytes.
#[test]
fn a_window_is_capped_and_never_raised_or_closed() {
    let cap = CapWindow { window_bytes: 2920, shift: 7 };
    assert_eq!(cap.cap(1000), 22);
    assert_eq!(cap.cap(10), 10);
    assert_eq!(cap.cap(0), 0);
    // 1460 bytes are less than a unit of 2^14.
    assert_eq!(CapWindow { window_bytes: 1460, shift: 14 }.cap(500), 1);
    assert_eq!(CapWindow { window_bytes: u32::MAX, shift: 0 }.cap(u16::MAX), u16::MAX);
    assert_eq!(CapWindow { window_bytes: u32::MAX, shift: 200 }.cap(u16::MAX), u16::MAX);
}

/// 65535 bytes are the most; a message beyond leaves the buffer as it was.
#[test]
fn a_message_too_long_is_refused_and_leaves_nothing() {
    let data = vec![7; 65535 - 8];
    let mut out = vec![1, 2];
    Message::EchoRequest(&data).encode(1, &mut out).unwrap();
    assert_eq!(out.len(), 2 + 65535);
    out.truncate(2);
    let data = vec![7; 65535 - 7];
    assert_eq!(Message::EchoRequest(&data).encode(1, &mut out), Err(TooLong));
    assert_eq!(out, [1, 2]);
    let actions = vec![Action::DecNwTtl; 9000];
    let packet = PacketOut {
        buffer: BufferId::NONE,
        in_port: PortNo::CONTROLLER,
        actions: List::of(&actions),
        data: &[],
    };
    assert_eq!(Message::PacketOut(packet).encode(1, &mut out), Err(TooLong));
    assert_eq!(out, [1, 2]);
}

/// Open vSwitch gives all ones for a duration that it doesn't know.
#[test]
fn an_unknown_duration_is_the_longest() {
    let mut bytes = vec![4, 19, 0, 56, 0, 0, 0, 1, 0, 5, 0, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    bytes.extend([0xff; 32]);
    let (_, Message::MultipartReply { body: Reply::Queue(queues), .. }) =
        Message::decode(&bytes).unwrap()
    else {
        panic!()
    };
    let longest = Span::from_nanos(4_294_967_295_999_999_999);
    assert_eq!(queues.iter().next().unwrap().duration, longest);
}

/// A field that this crate has no name for goes through unchanged.
#[test]
fn unknown_fields_pass() {
    // NXM_NX_REG0, and an experimenter nobody knows.
    let fields = "0001 0004 01020304  ffff 5605 00000099 01".replace(' ', "");
    let fields: Vec<u8> = (0..fields.len() / 2)
        .map(|i| u8::from_str_radix(&fields[2 * i..2 * i + 2], 16).unwrap())
        .collect();
    let mut bytes = vec![4, 10, 0, 0, 0, 0, 0, 9];
    bytes.extend([0xff; 4].iter().chain(&[0; 4]).chain(&[0; 8]));
    bytes.extend([0, 1, 0, 4 + 8 + 9]);
    bytes.extend(fields);
    bytes.extend([0; 3 + 2]);
    bytes[3] = u8::try_from(bytes.len()).unwrap();
    let (xid, message) = Message::decode(&bytes).unwrap();
    assert_eq!(encoded_as(xid, &message), bytes);
}

#[test]
fn errors_are_told_in_words_where_they_are_known() {
    let known = ErrorCode::OUT_OF_METERS.to_string();
    assert_eq!(known, "the table of meters is full, OpenFlow error of type 12, code 10");
    let unknown = ErrorCode { kind: 12, code: 99 }.to_string();
    assert_eq!(unknown, "OpenFlow error of type 12, code 99");
}

fn encoded_as(xid: u32, message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(xid, &mut bytes).unwrap();
    bytes
}
