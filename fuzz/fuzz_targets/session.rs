//! An OpenFlow session, and behind a switch's the switch model: any stream in any pieces at any
//! pace, with bounded memory. The input is a stream; the first two bytes say how it comes.
#![no_main]
#![forbid(unsafe_code)]

use libfuzzer_sys::fuzz_target;
use openflow::switch::Output;
use openflow::{Config, Event, Hello, Message, PortNo, Session, Side};
use units::{Span, Time};

const OUTPUT_BYTES: usize = 10_000;

fuzz_target!(|data: &[u8]| {
    let [how, pace, stream @ ..] = data else { return };
    let side = if how & 1 == 0 { Side::Controller } else { Side::Switch };
    let config = Config { output_bytes: OUTPUT_BYTES, ..Config::new(side) };
    let mut now = Time::ZERO;
    let mut session = Session::new(config, now);
    let mut switch = testing::openflow::switch(1, 4, 3);
    let mut output = Output::default();
    let mut hello = Vec::new();
    Message::Hello(Hello::ONLY_1_3).encode(1, &mut hello).expect("short");
    session.receive(now, &hello);
    for piece in stream.chunks(usize::from(how >> 1).max(1) * 8) {
        let taken = session.receive(now, piece);
        assert_eq!(taken, piece.len(), "everything before was polled");
        while let Some(event) = session.poll(now) {
            if let Event::Message { xid, message } = event
                && side == Side::Switch
            {
                switch.handle(now, xid, &message, &mut output);
                if let Message::PacketOut(packet) = message {
                    switch.receive(now, PortNo(1), packet.data, &mut output);
                }
            }
        }
        for bytes in output.messages.drain(..) {
            let (xid, message) = Message::decode(&bytes).expect("the switch writes what is read");
            // A full output refuses; that is what it is there for.
            let _ = session.reply(xid, &message);
        }
        output.frames.clear();
        assert!(session.output().len() <= OUTPUT_BYTES + 2 * 65_535 + 65_535);
        if pace & 1 == 1 {
            session.sent(usize::MAX);
        }
        now += Span::from_millis(u64::from(*pace) * 4);
        switch.tick(now, &mut output);
        assert!(switch.deadline().is_none_or(|deadline| deadline > now));
    }
});
