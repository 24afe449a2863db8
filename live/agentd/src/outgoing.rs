//! What waits to be sent to the controller, bounded in octets.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use protocol::agent::Report;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until, timeout_at};
use units::Time;
use wire::lines::{self, ALIVE};

use crate::SILENCE;

/// Beyond so many octets that wait, samples of connections are left out: they are taken again. Whole ones: a connection
/// that is in no part of a sample counts as gone. So is what has ended, of which the number is told later, and what ports
/// see open and close.
const MANY: usize = 16 << 20;
/// Beyond so many and one sample, the connection ends: nothing else is left out of a stream that goes on. Answers to
/// 16 MiB of commands stay below it.
const MOST: usize = 4 * MANY;
const SECOND: Duration = Duration::from_secs(1);
/// So many openings and closings are told in a second, unless the configuration says otherwise: fewer than a controller
/// takes of reports if `limits.reports_per_second` isn't set, so that nothing else waits or is refused because of them.
/// Anybody who can send a packet through a watched port makes as many as he likes.
pub const SEEN: usize = 800;
/// So many of each wait for their second: where a watch begins, all connections that go on open at once.
const LATER: usize = 4096;

/// What ports see of connections, second by second.
#[derive(Debug)]
struct Seen {
    /// So many are told in a second.
    most: usize,
    /// When the second began that runs.
    since: Instant,
    told: usize,
    left_out: u64,
    /// What waits for the next one, and how many openings and closings that are.
    later: VecDeque<Report>,
    waiting: [usize; 2],
}

impl Seen {
    fn new(most: usize) -> Self {
        let later = VecDeque::new();
        Self { most, since: Instant::now(), told: 0, left_out: 0, later, waiting: [0; 2] }
    }

    /// Openings have a room, and closings.
    fn room(&mut self, report: &Report) -> &mut usize {
        &mut self.waiting[usize::from(matches!(report, Report::Closed { .. }))]
    }

    /// Has a report told in its turn, or counts it.
    fn push(&mut self, report: &Report) {
        let room = self.room(report);
        if *room == LATER {
            self.left_out += 1;
        } else {
            *room += 1;
            self.later.push_back(report.clone());
        }
    }

    /// The next that is told in the second that runs.
    fn pop(&mut self) -> Option<Report> {
        if self.since.elapsed() >= SECOND {
            self.go_on();
        }
        let next = (self.told < self.most).then(|| self.later.pop_front()).flatten()?;
        self.told += 1;
        *self.room(&next) -= 1;
        Some(next)
    }

    /// Another second begins.
    fn go_on(&mut self) {
        (self.since, self.told) = (Instant::now(), 0);
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let remedy = "look at who opens so many, or raise `openings_per_second`; of those left out only what is \
                 declared is governed";
            let what = "more connections opened or closed at watched interfaces than are told";
            tracing::warn!(left_out, remedy, "{what}");
        }
    }
}

/// The writing end of a connection.
#[derive(Debug)]
pub struct Outgoing<W> {
    writer: W,
    waiting: Vec<u8>,
    is_flushed: bool,
    /// Connections that have ended and were left out.
    lost: u64,
    /// When the last sample or what ended before it was taken that was told.
    sampled: Time,
    /// The last sample of which a part was told, and the octets of its parts.
    sample: (Option<Time>, usize),
    seen: Seen,
    /// When something went out last.
    moved: Instant,
}

impl<W: AsyncWrite + Unpin> Outgoing<W> {
    /// With nothing that waits, for so many openings and closings in a second.
    pub fn new(writer: W, openings: usize) -> Self {
        Self {
            writer,
            waiting: Vec::new(),
            is_flushed: true,
            lost: 0,
            sampled: Time::ZERO,
            sample: (None, 0),
            seen: Seen::new(openings),
            moved: Instant::now(),
        }
    }

    /// From now on so many openings and closings are told in a second.
    pub const fn bound(&mut self, openings: usize) {
        self.seen.most = openings;
    }

    /// Has a report sent, after those before it.
    ///
    /// # Errors
    /// One that JSON can't express, or more waits than a controller that reads would leave.
    pub fn tell(&mut self, report: &Report) -> io::Result<()> {
        let (begun, octets) = self.sample;
        if self.waiting.len() > MOST + octets {
            let why = "the controller reads too slowly";
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
        }
        self.release()?;
        let is_crowded = self.waiting.len() > MANY;
        match report {
            Report::Opened { .. } | Report::Closed { .. } => {
                self.seen.push(report);
                return self.release();
            }
            Report::Connections { sampled_ns, .. } if begun == Some(*sampled_ns) => {}
            Report::Connections { .. } if is_crowded => {
                tracing::debug!("a sample could not be told");
                return Ok(());
            }
            Report::Ended { connections, lost, .. } if is_crowded => {
                self.lost += connections.len() as u64 + lost;
                return Ok(());
            }
            // The first that has room again.
            Report::Connections { sampled_ns, .. } => {
                self.sample = (Some(*sampled_ns), 0);
                self.tell_lost(*sampled_ns)?;
            }
            // Later there is no other.
            Report::Left {} => self.tell_lost(self.sampled)?,
            _ => {}
        }
        if let Report::Connections { sampled_ns, .. } | Report::Ended { sampled_ns, .. } = report {
            self.sampled = *sampled_ns;
        }
        let before = self.waiting.len();
        lines::append(report, &mut self.waiting)?;
        if matches!(report, Report::Connections { .. }) {
            self.sample.1 += self.waiting.len() - before;
        }
        Ok(())
    }

    /// Lets go what ports saw and has its turn, where there is room.
    fn release(&mut self) -> io::Result<()> {
        while self.waiting.len() <= MANY
            && let Some(report) = self.seen.pop()
        {
            lines::append(&report, &mut self.waiting)?;
        }
        Ok(())
    }

    /// How many connections have ended and were left out, if any were.
    fn tell_lost(&mut self, sampled_ns: Time) -> io::Result<()> {
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            let ended = Report::Ended { sampled_ns, connections: Vec::new(), lost };
            lines::append(&ended, &mut self.waiting)?;
        }
        Ok(())
    }

    /// Sends a part of what waits, or, when nothing has for a while, a sign of life. May be cancelled.
    ///
    /// # Errors
    /// A broken connection, or a controller that doesn't read.
    pub async fn send(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() && self.is_flushed {
            let (alive, next) = (self.moved + ALIVE, self.seen.since + SECOND);
            let is_full = !self.seen.later.is_empty();
            sleep_until(if is_full { alive.min(next) } else { alive }).await;
            self.release()?;
            if self.waiting.is_empty() {
                self.waiting.push(b'\n');
            }
        }
        let part = async {
            if self.waiting.is_empty() {
                self.writer.flush().await.map(|()| 0)
            } else {
                self.writer.write(&self.waiting).await
            }
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the controller does not read");
        let sent = timeout_at(self.moved + SILENCE, part).await.map_err(late)??;
        self.is_flushed = self.waiting.is_empty();
        self.waiting.drain(..sent);
        self.moved = Instant::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use protocol::Process;
    use protocol::agent::{Command, ConnectionReport, EndedConnection};
    use tokio::io::{AsyncReadExt as _, BufReader};
    use units::{Bytes, Span};
    use wire::lines::Lines;

    use super::*;
    use crate::rig::logged;

    #[tokio::test(start_paused = true)]
    async fn what_waits_goes_out_in_order_and_silence_is_broken() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut outgoing = Outgoing::new(ours, SEEN);
        let report = Report::Applied { epoch: 1, sequence: 2 };
        outgoing.tell(&report).unwrap();
        let reading = async {
            let mut read = vec![0; serde_json::to_vec(&report).unwrap().len() + 1];
            theirs.read_exact(&mut read).await.unwrap();
            assert_eq!(serde_json::from_slice::<Report>(&read).unwrap(), report);
            let began = Instant::now();
            assert_eq!(theirs.read_u8().await.unwrap(), b'\n');
            assert!(began.elapsed() >= ALIVE - Duration::from_millis(1));
        };
        let sending = async {
            loop {
                outgoing.send().await.unwrap();
            }
        };
        tokio::select! {
            () = reading => {}
            () = sending => {}
        }
        // Nobody reads any more, and there is no room.
        let mut rounds = 0;
        let why = loop {
            outgoing.tell(&report).unwrap();
            match outgoing.send().await {
                Ok(()) => rounds += 1,
                Err(why) => break why,
            }
        };
        assert_eq!(why.kind(), io::ErrorKind::TimedOut, "after {rounds}");
    }

    /// A burst of endings costs no connection: how many were left out is told with the next sample that has room.
    #[tokio::test(start_paused = true)]
    async fn what_ended_and_has_no_room_is_counted() {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let mut outgoing = Outgoing::new(ours, SEEN);
        let processes = vec![Process::Cgroup("x".repeat(1 << 10))];
        let end = |port| ([10, 0, 0, 1], port).into();
        let connection = protocol::Connection { source: end(1), destination: end(2) };
        let one = EndedConnection { connection, sent_bytes: Bytes::new(1), processes };
        let connections = vec![one; 1_000];
        let ended = Report::Ended { sampled_ns: Time::ZERO, connections, lost: 3 };
        for _ in 0..100 {
            outgoing.tell(&ended).unwrap();
        }
        let sampled_ns = Time::from_nanos(5);
        let sample = Report::Connections { sampled_ns, connections: Vec::new() };
        let mut lines = Lines::new(BufReader::new(theirs), 2 << 20);
        let (mut told, mut lost) = (0, 0);
        while told + lost < 100 * 1_003 {
            tokio::select! {
                sent = outgoing.send() => sent.unwrap(),
                line = lines.next::<Report>() => match line.unwrap().unwrap() {
                    Some(Report::Ended { connections, lost: left, .. }) => {
                        (told, lost) = (told + connections.len() as u64, lost + left);
                    }
                    _ => outgoing.tell(&sample).unwrap(),
                },
            }
            if outgoing.waiting.is_empty() {
                outgoing.tell(&sample).unwrap();
            }
        }
        assert!(told > 10_000 && lost > 50_000, "{told} {lost}");
    }

    /// A flood of openings keeps nothing else waiting and takes nothing of what the controller takes of an agent from
    /// it. As many as go on when a watch begins are told one second after the other, and closings among them.
    #[tokio::test(start_paused = true)]
    async fn openings_keep_nothing_else_waiting() {
        openings_wait_for_their_second(SEEN).await;
        // Where the controller takes more.
        openings_wait_for_their_second(2 * SEEN).await;
    }

    async fn openings_wait_for_their_second(most: usize) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let mut outgoing = Outgoing::new(ours, SEEN);
        outgoing.bound(most);
        let end = |port| ([10, 0, 0, 1], port).into();
        let connection = protocol::Connection { source: end(1), destination: end(2) };
        let (opened, closed) = (Report::Opened { connection }, Report::Closed { connection });
        let applied = Report::Applied { epoch: 1, sequence: 1 };
        for _ in 0..17_000 {
            outgoing.tell(&opened).unwrap();
        }
        outgoing.tell(&closed).unwrap();
        tokio::time::sleep(SECOND).await;
        let log = logged(|| outgoing.tell(&applied).unwrap()).1;
        assert!(log.contains(&format!("left_out={}", 17_000 - most - LATER)), "{log}");
        let mut lines = Lines::new(BufReader::new(theirs), 2 << 20);
        let (mut told, began) = (Vec::new(), Instant::now());
        while told.last() != Some(&closed) {
            tokio::select! {
                sent = outgoing.send() => sent.unwrap(),
                line = lines.next::<Report>() => told.extend(line.unwrap().unwrap()),
            }
        }
        let before = told.iter().position(|said| *said == applied);
        assert_eq!(before, Some(2 * most), "those of two seconds");
        assert_eq!(told.len(), most + LATER + 2);
        // The second of those that wait has begun.
        assert_eq!(began.elapsed().as_secs(), (LATER / most) as u64);
    }

    /// What is in no part of a sample counts as gone.
    #[tokio::test(start_paused = true)]
    async fn a_sample_is_told_whole_or_not_at_all() {
        let (ours, _theirs) = tokio::io::duplex(1 << 20);
        let mut outgoing = Outgoing::new(ours, SEEN);
        let processes = vec![Process::Cgroup("x".repeat(1 << 20))];
        let end = |port| ([10, 0, 0, 1], port).into();
        let connection = protocol::Connection { source: end(1), destination: end(2) };
        let (none, no_time) = (Bytes::ZERO, Span::ZERO);
        let open = ConnectionReport {
            connection,
            delivered_bytes: none,
            unsent_bytes: none,
            in_flight_bytes: none,
            rtt_ns: no_time,
            processes,
        };
        let mut tell = |second, parts| {
            let before = outgoing.waiting.len();
            let sampled_ns = Time::ZERO + Span::from_secs(second);
            let part = Report::Connections { sampled_ns, connections: vec![open.clone()] };
            (0..parts).for_each(|_| outgoing.tell(&part).unwrap());
            (outgoing.waiting.len() - before) >> 20
        };
        assert_eq!((tell(1, 10), tell(2, 90)), (10, 90), "there was room when they began");
        assert_eq!((tell(3, 1), tell(4, 1)), (0, 0), "there is none for others");
        let answer = Report::Applied { epoch: 1, sequence: 1 };
        outgoing.tell(&answer).expect("however large a sample is, the controller is answered");
    }

    /// Also by an agent that leaves before it samples again.
    #[tokio::test(start_paused = true)]
    async fn what_was_left_out_is_told_by_who_leaves() {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let mut outgoing = Outgoing::new(ours, SEEN);
        outgoing.lost = 7;
        outgoing.tell(&Report::Left {}).unwrap();
        while !outgoing.waiting.is_empty() {
            outgoing.send().await.unwrap();
        }
        let mut lines = Lines::new(BufReader::new(theirs), 2 << 20);
        let ended = Report::Ended { sampled_ns: Time::ZERO, connections: vec![], lost: 7 };
        assert_eq!(lines.next::<Report>().await.unwrap(), Some(Some(ended)));
        assert_eq!(lines.next::<Report>().await.unwrap(), Some(Some(Report::Left {})));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_never_left_out_and_what_waits_is_bounded() {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let mut outgoing = Outgoing::new(ours, SEEN);
        let sample = Report::Connections { sampled_ns: Time::ZERO, connections: Vec::new() };
        let failed = |sequence| Report::Failed {
            epoch: 1,
            sequence,
            command: Command::Sample { every_ns: Span::ZERO },
            reason: "x".repeat(1 << 20),
        };
        for sequence in 0..20 {
            outgoing.tell(&failed(sequence)).unwrap();
        }
        outgoing.tell(&sample).unwrap();
        outgoing.tell(&Report::Applied { epoch: 1, sequence: 20 }).unwrap();
        let mut lines = Lines::new(BufReader::new(theirs), 2 << 20);
        let reading = async {
            for sequence in 0..20 {
                assert_eq!(lines.next::<Report>().await.unwrap(), Some(Some(failed(sequence))));
            }
            let last = lines.next::<Report>().await.unwrap();
            assert_eq!(last, Some(Some(Report::Applied { epoch: 1, sequence: 20 })));
        };
        let sending = async {
            loop {
                outgoing.send().await.unwrap();
            }
        };
        tokio::select! {
            () = reading => {}
            () = sending => {}
        }
        let told = (0..1_000).find(|sequence| outgoing.tell(&failed(*sequence)).is_err());
        assert_eq!(told, Some(64), "a controller that doesn't read");
    }
}
