//! The OpenFlow codec: what can be read is written canonically, and read the same again.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;
use openflow::Message;

fuzz_target!(|data: &[u8]| {
    let Ok((xid, message)) = Message::decode(data) else {
        return;
    };
    let mut first = Vec::new();
    // Padding that was missing may make a message of full length longer.
    if message.encode(xid, &mut first).is_err() {
        assert!(first.is_empty() && data.len() > 65_000);
        return;
    }
    assert_eq!(Message::decode(&first), Ok((xid, message)));
    let mut second = Vec::new();
    let again = Message::decode(&first).map(|(xid, message)| message.encode(xid, &mut second));
    assert_eq!(again, Ok(Ok(())));
    assert_eq!(first, second);
});
