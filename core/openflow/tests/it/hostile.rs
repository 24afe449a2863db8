//! Bytes that are meant to harm. Each of the nine advisories against Ryu's parsers (faucetsdn/ryu
//! issues 188 to 196) is a length of zero on which a loop made no progress; the message of each is
//! a test here. And no bytes whatever make the decoder panic.
#![allow(clippy::unwrap_used)] // a test may panic

use proptest::prelude::*;
use watermaster_openflow::{Fault, Malformed, Message, Part, VERSION};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digits = str::from_utf8(&digits).unwrap();
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// A message of this type and body, with a header that tells its length.
fn message(kind: u8, body: &str) -> Vec<u8> {
    let body = bytes(body);
    let length = u16::try_from(body.len() + 8).unwrap().to_be_bytes();
    let mut message = vec![VERSION, kind, length[0], length[1], 0, 0, 0, 1];
    message.extend(body);
    message
}

#[track_caller]
fn refused(message: &[u8], part: Part) {
    let refused = Message::decode(message).map(|(_, message)| message);
    assert_eq!(refused, Err(Malformed { part, fault: Fault::Length }));
}

const MATCH_ALL: &str = "0001 0004 00000000";
/// Cookie and mask, table, command, timeouts, priority, buffer, port, group, flags, padding.
const FLOW_MOD: &str =
    "0000000000000000 0000000000000000 00 00 0000 0000 8000 ffffffff ffffffff ffffffff 0000 0000";
const MULTIPART: &str = "0000 00000000";

#[test]
fn issue_188_flow_mod_with_an_instruction_of_length_zero() {
    let message = message(14, &format!("{FLOW_MOD} {MATCH_ALL} 0001 0000 00000000"));
    refused(&message, Part::Instruction);
}

#[test]
fn issue_189_apply_actions_with_an_action_of_length_zero() {
    let actions = "0004 0018 00000000 0000 0000 fffffffd ffff 000000000000";
    refused(&message(14, &format!("{FLOW_MOD} {MATCH_ALL} {actions}")), Part::Action);
}

#[test]
fn issue_190_queue_with_a_property_of_length_zero() {
    let queue = "00000001 0000000a 0020 000000000000 0001 0000 00000000 0001 000000000000";
    refused(&message(23, &format!("0000000a 00000000 {queue}")), Part::Queue);
}

#[test]
fn issue_191_flow_statistics_of_length_zero() {
    let entry = format!("0000 00 00 {} {MATCH_ALL}", "00".repeat(44));
    refused(&message(19, &format!("0001 {MULTIPART} {entry}")), Part::Multipart);
}

#[test]
fn issue_192_flow_statistics_with_an_instruction_of_length_zero() {
    let entry = format!("0040 00 00 {} {MATCH_ALL} 0004 0000 00000000", "00".repeat(44));
    refused(&message(19, &format!("0001 {MULTIPART} {entry}")), Part::Instruction);
}

#[test]
fn issue_193_group_description_with_a_bucket_of_length_zero() {
    let bucket = "0000 0001 ffffffff ffffffff 00000000 0000 0010 00000001 ffe5 000000000000";
    refused(&message(19, &format!("0007 {MULTIPART} 0028 00 00 00000000 {bucket}")), Part::Bucket);
}

#[test]
fn issue_194_bucket_with_an_action_of_length_zero() {
    let bucket = "0020 0001 ffffffff ffffffff 00000000 0019 0000 80000806 0000000000000000";
    refused(&message(19, &format!("0007 {MULTIPART} 0028 00 00 00000000 {bucket}")), Part::Action);
}

#[test]
fn issue_195_hello_with_an_element_of_length_zero() {
    refused(&message(0, "0001 0000 00000010"), Part::Hello);
}

#[test]
fn issue_196_table_features_with_a_property_of_length_zero() {
    let table = format!("0048 01 0000000000 {}", "00".repeat(56));
    let message = message(19, &format!("000c {MULTIPART} {table} 0000 0000 00000001"));
    refused(&message, Part::Multipart);
}

/// A statistic in the middle of a list whose length skips past the end.
#[test]
fn lengths_beyond_their_container_are_refused() {
    refused(
        &message(18, &format!("0001 {MULTIPART} {} 0001 00ff 00000000", "00".repeat(32))),
        Part::Match,
    );
    let mut packet_out = message(13, "ffffffff fffffffd ffff 000000000000");
    refused(&packet_out, Part::Message);
    // The header promises more, or less, than there is.
    packet_out[3] += 1;
    refused(&packet_out, Part::Message);
    packet_out[3] = 7;
    refused(&packet_out, Part::Message);
}

/// The least and the most that an action may say of itself.
#[test]
fn actions_are_multiples_of_eight_bytes() {
    for length in ["0004", "0007", "0009", "000c", "0018"] {
        let actions = format!("0004 0018 00000000 0000 {length} 00000001 ffff 000000000000");
        refused(&message(14, &format!("{FLOW_MOD} {MATCH_ALL} {actions}")), Part::Action);
    }
}

/// Those that cap windows have 16 and 32 bytes. Of ours none else is known, nor is any of others: these pass.
#[test]
fn actions_of_ours_have_the_length_of_their_kind() {
    let entry = |experimenter: &str, kind: &str, length: u16| {
        let rest = "00".repeat(usize::from(length) - 10);
        let action = format!("ffff {length:04x} {experimenter} {kind} {rest}");
        message(14, &format!("{FLOW_MOD} {MATCH_ALL} 0004 {:04x} 00000000 {action}", length + 8))
    };
    for length in [16, 24, 32, 40] {
        for (kind, right) in [("0001", 16), ("0002", 32)] {
            let entry = entry("0002574d", kind, length);
            if length == right {
                assert!(Message::decode(&entry).is_ok());
            } else {
                refused(&entry, Part::Action);
            }
        }
        for (experimenter, kind) in [("0002574d", "0003"), ("00000007", "0002")] {
            assert!(Message::decode(&entry(experimenter, kind, length)).is_ok());
        }
    }
    let bare = format!("{FLOW_MOD} {MATCH_ALL} 0004 0010 00000000 ffff 0008 0002574d");
    assert!(Message::decode(&message(14, &bare)).is_ok());
}

#[test]
fn a_field_of_the_wrong_length_is_refused() {
    // An IPv4 source of three bytes; a masked one of four.
    for field in ["80001603 0a000000", "80001704 0a000000"] {
        let body = format!("{FLOW_MOD} 0001 000c {field} 00000000");
        refused(&message(14, &body), Part::Match);
    }
}

#[test]
fn errors_name_structure_and_fault() {
    let refused = Message::decode(&message(0, "0001 0000 00000010")).unwrap_err();
    assert_eq!(refused.to_string(), "hello element has an impossible length");
    let refused = Message::decode(&message(77, "")).unwrap_err();
    assert_eq!(refused.to_string(), "message has an unknown type");
}

/// Bytes that look like a message in the beginning, so that they get far.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let small =
        prop_oneof![Just(0_u8), Just(1), Just(4), Just(8), Just(16), Just(0xff), any::<u8>()];
    (0_u8..30, 0_u8..16, prop::collection::vec(small, 0..300)).prop_map(|(kind, part, mut body)| {
        if matches!(kind, 18 | 19) {
            body.splice(0..0, [0, part, 0, 0, 0, 0, 0, 0]);
        }
        let length = u16::try_from(body.len() + 8).unwrap().to_be_bytes();
        let mut message = vec![VERSION, kind, length[0], length[1], 0, 0, 0, 1];
        message.extend(body);
        message
    })
}

proptest! {
    /// What can be read can be written, is read the same again, and then written the same.
    #[test]
    fn what_is_read_is_written_canonically(bytes in nearly()) {
        if let Ok((xid, message)) = Message::decode(&bytes) {
            let mut first = Vec::new();
            message.encode(xid, &mut first).unwrap();
            let (again, reread) = Message::decode(&first).unwrap();
            prop_assert_eq!((again, &reread), (xid, &message));
            let mut second = Vec::new();
            reread.encode(again, &mut second).unwrap();
            prop_assert_eq!(first, second);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Message::decode(&bytes);
    }
}
