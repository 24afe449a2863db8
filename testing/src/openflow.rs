//! The switch model, and a session in front of it.

use ::openflow::switch::{Output, Switch};
use ::openflow::{Config, Event, Message, Port, Session, Side};
use units::Time;

/// A port that is up, called `p1` and so on.
#[must_use]
pub fn port(number: u32) -> Port {
    let mut name = [0; 16];
    let called = format!("p{number}");
    name[..called.len()].copy_from_slice(called.as_bytes());
    let [.., high, low] = number.to_be_bytes();
    Port { name, ..Port::up(number, [2, 0, 0, 0, high, low]) }
}

/// A switch with the ports 1 to `ports`, of whose making nothing is told.
#[must_use]
pub fn switch(datapath_id: u64, tables: u8, ports: u32) -> Switch {
    let mut switch = Switch::new(datapath_id, tables);
    for number in 1..=ports {
        switch.set_port(Time::ZERO, port(number), &mut Output::default());
    }
    switch
}

/// A switch at its end of a connection.
pub struct Connected {
    /// The model.
    pub switch: Switch,
    /// Its session.
    pub session: Session,
    /// Frames that left it and weren't fetched.
    pub output: Output,
}

impl Connected {
    /// A connection that begins.
    #[must_use]
    pub fn new(switch: Switch, config: Config, now: Time) -> Self {
        assert_eq!(config.side, Side::Switch);
        Self { switch, session: Session::new(config, now), output: Output::default() }
    }

    /// Takes in what came, and has the switch answer it; `see` is shown each message first.
    pub fn receive(&mut self, now: Time, bytes: &[u8], mut see: impl FnMut(&Message<'_>)) {
        let mut rest = bytes;
        loop {
            let taken = self.session.receive(now, rest);
            rest = &rest[taken..];
            while let Some(event) = self.session.poll(now) {
                if let Event::Message { xid, message } = event {
                    see(&message);
                    self.switch.handle(now, xid, &message, &mut self.output);
                }
            }
            self.reply();
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Hands the switch's messages to the session.
    pub fn reply(&mut self) {
        for bytes in self.output.messages.drain(..) {
            let (xid, message) = Message::decode(&bytes).unwrap();
            self.session.reply(xid, &message).unwrap();
        }
    }

    /// What is to be sent, which counts as sent.
    pub fn sent(&mut self) -> Vec<u8> {
        let bytes = self.session.output().to_vec();
        self.session.sent(bytes.len());
        bytes
    }
}
