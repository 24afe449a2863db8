//! A controller's end of a connection, with time in its hand, to a switch of any kind.

use std::collections::VecDeque;
use std::time::Instant;

use testing::openflow::{Connected, switch};
use testing::wait::PATIENCE;
use units::{Span, Time};
use watermaster_openflow::*;

/// Deletes every entry of every table.
pub const DELETE_ALL: FlowMod<'_> =
    FlowMod { table: TableId::ALL, command: FlowCommand::DELETE, ..FlowMod::ADD };

/// A switch with the ports 1 to 4, named p1 to p4, whose time stands still until it is moved.
pub trait Device {
    /// Sends bytes to it; fetches what it sends, waiting a little when there is nothing.
    fn exchange(&mut self, bytes: &[u8]) -> Vec<u8>;
    /// Lets a frame come in by a port.
    fn inject(&mut self, port: u32, frame: &[u8]);
    /// What left since the last call, by port; at least `count` frames if they come at all.
    fn emitted(&mut self, count: usize) -> Vec<(u32, Vec<u8>)>;
    /// Moves its time.
    fn pass(&mut self, span: Span);
    /// Has it bring its counters up to date.
    fn settle(&mut self) {}
}

/// The controller's end.
pub struct Rig {
    device: Box<dyn Device>,
    session: Session,
    now: Time,
    /// Messages that nobody asked for, whole.
    unasked: VecDeque<(u32, Vec<u8>)>,
    replies: Vec<(u32, bool, Vec<u8>)>,
    errors: Vec<(u32, ErrorCode)>,
}

/// What a request was answered with: its parts, whole.
pub type Answer = Result<Vec<Vec<u8>>, ErrorCode>;

impl Rig {
    pub fn new(device: Box<dyn Device>) -> Self {
        let now = Time::ZERO;
        let session = Session::new(Config::new(Side::Controller), now);
        let mut rig = Self {
            device,
            session,
            now,
            unasked: VecDeque::new(),
            replies: Vec::new(),
            errors: Vec::new(),
        };
        rig.until(|rig| rig.session.is_up());
        rig
    }

    pub fn features(&self) -> Features {
        *self.session.features().unwrap()
    }

    /// Moves bytes both ways, and sorts what came.
    fn pump(&mut self) {
        let output = self.session.output().to_vec();
        self.session.sent(output.len());
        let input = self.device.exchange(&output);
        let mut input = &input[..];
        loop {
            let taken = self.session.receive(self.now, input);
            input = &input[taken..];
            while let Some(event) = self.session.poll(self.now) {
                let whole = |xid, message: Message<'_>| {
                    let mut bytes = Vec::new();
                    message.encode(xid, &mut bytes).unwrap();
                    bytes
                };
                match event {
                    Event::Up => {}
                    Event::Message { xid, message: Message::Error(error) }
                    | Event::Failed { xid, failure: Failure::Error(error) } => {
                        assert!(error.data.len() >= 8, "an error quotes its message");
                        assert_eq!(error.data[4..8], xid.to_be_bytes());
                        self.errors.push((xid, error.error));
                    }
                    Event::Message { xid, message } => {
                        self.unasked.push_back((xid, whole(xid, message)));
                    }
                    Event::Reply { xid, message, last } => {
                        self.replies.push((xid, last, whole(xid, message)));
                    }
                    wrong => panic!("{wrong:?}"),
                }
            }
            if input.is_empty() {
                break;
            }
        }
        assert_eq!(self.session.closed(), None);
    }

    #[track_caller]
    fn until(&mut self, done: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < PATIENCE, "the switch does not answer");
            self.pump();
        }
    }

    /// Sends a request and waits for all of its answer.
    #[track_caller]
    pub fn ask(&mut self, message: Message<'_>) -> Answer {
        let xid = self.session.send(self.now, &message).unwrap();
        self.until(|rig| {
            rig.replies.iter().any(|(of, last, _)| *of == xid && *last)
                || rig.errors.iter().any(|(of, _)| *of == xid)
        });
        if let Some(at) = self.errors.iter().position(|(of, _)| *of == xid) {
            return Err(self.errors.remove(at).1);
        }
        let parts = self.replies.drain(..).filter(|(of, ..)| *of == xid);
        Ok(parts.map(|(.., bytes)| bytes).collect())
    }

    /// Sends a message that has no answer, then a barrier: an error comes before its reply.
    #[track_caller]
    pub fn tell(&mut self, message: Message<'_>) -> Result<(), ErrorCode> {
        let xid = self.session.send(self.now, &message).unwrap();
        self.ask(Message::BarrierRequest).unwrap();
        match self.errors.iter().position(|(of, _)| *of == xid) {
            Some(at) => Err(self.errors.remove(at).1),
            None => Ok(()),
        }
    }

    /// Sends a message without waiting for anything.
    pub fn send(&mut self, message: Message<'_>) {
        self.session.send(self.now, &message).unwrap();
    }

    /// The next message that nobody asked for.
    #[track_caller]
    pub fn hear(&mut self) -> Vec<u8> {
        self.until(|rig| !rig.unasked.is_empty());
        self.unasked.pop_front().unwrap().1
    }

    /// The next message that nobody asked for, if one is there after all that was said before.
    pub fn overhear(&mut self) -> Option<Vec<u8>> {
        self.settle();
        self.ask(Message::BarrierRequest).unwrap();
        self.unasked.pop_front().map(|(_, bytes)| bytes)
    }

    pub fn inject(&mut self, port: u32, frame: &[u8]) {
        self.device.inject(port, frame);
    }

    /// Lets a frame come in, and gives the ports and frames that go out, by port: so many.
    #[track_caller]
    pub fn through<const N: usize>(&mut self, port: u32, frame: &[u8]) -> [(u32, Vec<u8>); N] {
        self.device.inject(port, frame);
        let mut frames = self.device.emitted(N);
        frames.sort();
        let ports: Vec<u32> = frames.iter().map(|(port, _)| *port).collect();
        frames.try_into().unwrap_or_else(|_| panic!("{N} frames expected, out of ports {ports:?}"))
    }

    #[track_caller]
    pub fn emitted(&mut self, count: usize) -> Vec<(u32, Vec<u8>)> {
        let mut frames = self.device.emitted(count);
        frames.sort();
        frames
    }

    pub fn pass(&mut self, span: Span) {
        self.now += span;
        self.device.pass(span);
    }

    pub fn settle(&mut self) {
        self.device.settle();
    }

    /// Takes away what an earlier test left.
    pub fn reset(&mut self) {
        self.tell(Message::FlowMod(DELETE_ALL)).unwrap();
        let (kind, buckets) = (GroupKind::ALL, List::EMPTY);
        let (command, group) = (GroupCommand::DELETE, GroupId::ALL);
        self.tell(Message::GroupMod(GroupMod { command, kind, group, buckets })).unwrap();
        let (command, meter) = (MeterCommand::DELETE, MeterId::ALL);
        let (flags, bands) = (MeterFlags::KBPS, List::EMPTY);
        self.tell(Message::MeterMod(MeterMod { command, flags, meter, bands })).unwrap();
        self.emitted(0);
        self.overhear();
        self.unasked.clear();
        assert_eq!(self.errors, []);
    }
}

/// The switch model at the other end of a session of its own.
pub struct Model {
    end: Connected,
    now: Time,
}

impl Model {
    pub fn new() -> Self {
        let (switch, now) = (switch(0xaa, 254, 4), Time::ZERO);
        Self { end: Connected::new(switch, Config::new(Side::Switch), now), now }
    }
}

impl Device for Model {
    fn exchange(&mut self, bytes: &[u8]) -> Vec<u8> {
        // In small pieces, so that messages arrive by halves.
        for piece in bytes.chunks(7) {
            self.end.receive(self.now, piece, |_| {});
        }
        self.end.reply();
        self.end.sent()
    }

    fn inject(&mut self, port: u32, frame: &[u8]) {
        self.end.switch.receive(self.now, PortNo(port), frame, &mut self.end.output);
    }

    fn emitted(&mut self, _: usize) -> Vec<(u32, Vec<u8>)> {
        self.end.output.frames.drain(..).map(|(port, frame)| (port.0, frame)).collect()
    }

    fn pass(&mut self, span: Span) {
        self.now += span;
        self.end.switch.tick(self.now, &mut self.end.output);
    }
}
