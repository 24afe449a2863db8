//! Recordings: reading ends, and what is read is written the same.
#![no_main]
#![forbid(unsafe_code)]

use control::record::{self, Content, Record, Records};
use libfuzzer_sys::fuzz_target;
use units::Time;

fuzz_target!(|data: &[u8]| {
    let mut records = Records::default();
    records.push(data);
    for Record { at, content } in records.flatten() {
        let mut bytes = record::MAGIC.to_vec();
        let written = match &content {
            Content::Started(epoch, configuration) => {
                bytes.clear();
                record::write_started(at, *epoch, configuration, &mut bytes)
            }
            // It has no time of its own.
            Content::Continued(_) if at != Time::ZERO => continue,
            Content::Continued(continuation) => {
                bytes.clear();
                record::write_continued(continuation, &mut bytes)
            }
            Content::Changed(configuration) => {
                record::write_changed(at, configuration, &mut bytes)
            }
            Content::Digest(digest) => record::write_digest(at, *digest, &mut bytes),
            Content::Ended => record::write_ended(at, &mut bytes),
            Content::Input(input) => record::write_input(at, &input.as_input(), &mut bytes),
        };
        assert!(written.is_ok(), "what was read is no longer than what is written");
        let mut again = Records::default();
        again.push(&bytes);
        assert_eq!(again.next(), Some(Ok(Record { at, content })));
    }
});
