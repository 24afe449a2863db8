//! Recordings: reading ends, and what is read is written the same.
#![no_main]
#![forbid(unsafe_code)]

use control::record::{self, Content, Record, Records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(records) = Records::new(data) else { return };
    for Record { at, content } in records.flatten() {
        let mut bytes = record::MAGIC.to_vec();
        let written = match &content {
            Content::Started(epoch, configuration) => {
                bytes.clear();
                record::write_started(at, *epoch, configuration, &mut bytes)
            }
            Content::Changed(configuration) => {
                record::write_changed(at, configuration, &mut bytes)
            }
            Content::Digest(digest) => record::write_digest(at, *digest, &mut bytes),
            Content::Input(input) => record::write_input(at, &input.as_input(), &mut bytes),
        };
        assert!(written.is_ok(), "what was read is no longer than what is written");
        let again = Records::new(&bytes).expect("it begins as a recording").next();
        assert_eq!(again, Some(Ok(Record { at, content })));
    }
});
