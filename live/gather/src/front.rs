//! The front end: clients in front, servers and hubs behind.

mod swarm;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::command::{Command, Form, LARGE, Parser, Pass, Query, Spread};
use crate::decider::Decider;
use crate::hashing::Ring;
use crate::hubs::{Hubs, Terms};
use crate::pool::{Answers, Budget, Fault, Pending, Server};
use crate::settings::Settings;
use crate::straight;

/// How many times a request's `deadline` a client may take to say a command or to take an answer, and what it has to say
/// or take besides: octets a millisecond, 2 Mbit/s.
const PATIENT: u32 = 10;
const LEAST: usize = 256;
/// What a client may have said of a command before that counts as held, octets.
const FREE: usize = 4096;
/// Keys that are touched at a time, so that others find room at servers; and in a line, which memcached takes up to 2048
/// octets of: eight of the longest keys, a command and a number.
const TOUCHED: usize = 1024;
const IN_LINE: usize = 8;
/// Commands for servers that are sent before the first of them is answered.
const RUN: usize = 256;
/// Answers are written in pieces of about so many octets.
const PIECE: usize = 64 << 10;

/// Why a service can't begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address can't be listened at.
    #[error("{0}: {1}; is another program listening there?")]
    Listen(SocketAddr, io::Error),
    /// The policy refuses its parameters.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    /// There is no such server, or it has no hub.
    #[error(
        "{0}: the configuration has no server of that name with a hub; add hub = \"ADDRESS:PORT\" to it"
    )]
    NoHub(String),
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    clients: AtomicU64,
    gets: AtomicU64,
    swarms: AtomicU64,
    errors: AtomicU64,
    pub(crate) hubs_lost: AtomicU64,
}

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    ring: Ring,
    budget: Budget,
    pub(crate) servers: Vec<Server>,
    pub(crate) hubs: Hubs,
    pub(crate) decider: Mutex<Decider>,
    pub(crate) counters: Counters,
    next: AtomicU64,
    /// What objects have lately had in the mean, octets.
    size: AtomicU32,
    began: Instant,
}

/// A front end that listens.
pub struct Front {
    listener: TcpListener,
    inner: Arc<Inner>,
}

impl Front {
    /// Listens as the configuration says. Servers need not be there yet.
    ///
    /// # Errors
    /// The address is taken, or the policy can't be built.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let listen = settings.listen;
        let listener =
            TcpListener::bind(listen).await.map_err(|error| StartError::Listen(listen, error))?;
        let item = settings.bounds.item;
        let start =
            |server: &crate::settings::Server| Server::start(&server.name, server.address, item);
        let servers = settings.servers.iter().map(start).collect();
        let terms = Terms {
            front: RandomState::new().build_hasher().finish(),
            placement: settings.placement(),
            patience: settings.patience,
            most: item + PIECE,
        };
        let hubs = Hubs::start(settings.servers.iter().map(|server| server.hub), &terms);
        let inner = Inner {
            ring: settings.ring(),
            budget: Budget::new(settings.memory),
            servers,
            hubs,
            decider: Mutex::new(Decider::new(&settings)?),
            counters: Counters::default(),
            next: AtomicU64::new(0),
            size: AtomicU32::new(settings.size),
            began: Instant::now(),
            settings,
        };
        Ok(Self { listener, inner: Arc::new(inner) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system doesn't say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves clients, for good.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(self.inner.settings.clients));
        loop {
            let mut stream = accept(&self.listener).await;
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                let _ = stream.try_write(b"SERVER_ERROR too many clients\r\n");
                let _ = stream.shutdown().await;
                continue;
            };
            let inner = Arc::clone(&self.inner);
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                inner.counters.clients.fetch_add(1, Ordering::Relaxed);
                // A client that goes needs no notice.
                let _ = inner.serve(stream).await;
                inner.counters.clients.fetch_sub(1, Ordering::Relaxed);
                drop(place);
            });
        }
    }
}

/// The next who connects.
pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                // Such as no more files: others may end meanwhile.
                tracing::warn!("nobody can be taken: {error}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// What a client is told, written in pieces.
struct Out<'a> {
    stream: &'a mut (dyn AsyncWrite + Send + Unpin),
    buffer: BytesMut,
    /// How long it may still take.
    left: Duration,
    /// What values count in that are held for it.
    budget: &'a Budget,
}

impl Out<'_> {
    async fn say(&mut self, octets: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(octets);
        if self.buffer.len() >= PIECE { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> io::Result<()> {
        for piece in self.buffer.chunks(PIECE) {
            self.left += time_of(piece.len());
            let began = Instant::now();
            timeout(self.left, self.stream.write_all(piece)).await??;
            self.left = self.left.saturating_sub(began.elapsed());
        }
        self.buffer.clear();
        Ok(())
    }
}

/// A command that went to its servers, and whose answer a client waits for.
enum Passing {
    /// It went to none: this is said.
    Refused(&'static [u8]),
    /// These answer, and whether the client wants to hear nothing.
    Sent(Vec<Pending>, bool),
}

/// What so many octets may take.
const fn time_of(octets: usize) -> Duration {
    Duration::from_millis((octets / LEAST) as u64)
}

impl Inner {
    async fn serve(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    ) -> io::Result<()> {
        let patience = self.settings.deadline * PATIENT;
        let budget = self.budget.part(self.settings.share);
        let mut parser = Parser::new(self.settings.bounds);
        let mut input = BytesMut::new();
        // Of a command that isn't whole: what holds its octets, and when it began.
        let (mut held, mut began) = (None, Instant::now());
        loop {
            // All that has come, so that lines of `mg` become one request, and what follows each other is sent so.
            let (mut queries, mut passing) = (Vec::new(), Vec::new());
            let mut out = Out {
                stream: &mut stream,
                buffer: BytesMut::new(),
                left: patience,
                budget: &budget,
            };
            let before = input.len();
            while let Some(command) = parser.next(&mut input) {
                match command {
                    Command::Meta(query) => {
                        self.passed(&mut passing, &mut out).await?;
                        queries.push(query);
                        if queries.len() >= self.settings.bounds.keys {
                            self.meta(&mut queries, &mut out).await?;
                        }
                    }
                    Command::Pass(pass) => {
                        self.meta(&mut queries, &mut out).await?;
                        passing.push(self.pass(&pass, &budget));
                        if passing.len() >= RUN {
                            self.passed(&mut passing, &mut out).await?;
                        }
                    }
                    command => {
                        self.meta(&mut queries, &mut out).await?;
                        self.passed(&mut passing, &mut out).await?;
                        if !self.execute(command, &mut out).await? {
                            out.flush().await?;
                            return stream.shutdown().await;
                        }
                    }
                }
            }
            self.meta(&mut queries, &mut out).await?;
            self.passed(&mut passing, &mut out).await?;
            out.flush().await?;
            if input.len() < before {
                began = Instant::now();
            }
            let was_held = held.take().is_some();
            let got = if input.is_empty() {
                if was_held {
                    // Its room is given back.
                    input = BytesMut::new();
                }
                // Much comes at once, if there is room for it.
                input.reserve(FREE);
                let got = stream.read_buf(&mut input).await?;
                began = Instant::now();
                got
            } else {
                held = budget.take(input.len().saturating_sub(FREE));
                if held.is_none() {
                    stream.write_all(b"SERVER_ERROR out of memory\r\n").await?;
                    return stream.shutdown().await;
                }
                let end = began + patience + time_of(input.len());
                timeout_at(end, stream.read_buf(&mut input)).await??
            };
            if got == 0 {
                return Ok(());
            }
        }
    }

    /// Answers lines of `mg`, in their order.
    async fn meta(&self, queries: &mut Vec<Query>, out: &mut Out<'_>) -> io::Result<()> {
        if queries.is_empty() {
            return Ok(());
        }
        let answers = self.gather(queries, out.budget).await;
        for answer in answers {
            match answer {
                Ok(record) => {
                    out.say(record.as_ref().map_or(&[][..], |record| &record.octets)).await?
                }
                Err(fault) => self.complain(&fault, out).await?,
            }
        }
        queries.clear();
        Ok(())
    }

    async fn complain(&self, fault: &Fault, out: &mut Out<'_>) -> io::Result<()> {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        let said: String = fault.chars().filter(|c| !c.is_control()).take(512).collect();
        out.say(format!("SERVER_ERROR {said}\r\n").as_bytes()).await
    }

    /// Executes a command; `false` ends the connection.
    async fn execute(&self, command: Command, out: &mut Out<'_>) -> io::Result<bool> {
        match command {
            Command::Meta(query) => self.meta(&mut vec![query], out).await?,
            Command::Get(queries) => {
                let answers = self.gather(&queries, out.budget).await;
                let keys = queries.iter().map(|query| &query.key);
                self.values(keys, answers, out).await?;
            }
            Command::Touch(start, keys) => {
                if self.settings.copies > 1 {
                    out.say(COPIES).await?;
                    return Ok(true);
                }
                let answers = self.touch(&start, &keys, out.budget).await;
                self.values(keys.iter(), answers, out).await?;
            }
            Command::Pass(pass) => {
                self.passed(&mut vec![self.pass(&pass, out.budget)], out).await?;
            }
            Command::Flush(line, is_silent) => {
                let deadline = self.deadline();
                let say =
                    |server: &Server| server.say(line.clone(), Form::Line, out.budget, deadline);
                let pending: Vec<_> = self.servers.iter().map(say).collect();
                let answer = all(pending, b"OK\r\n").await;
                self.line(answer, is_silent, out).await?;
            }
            Command::NoOp => out.say(b"MN\r\n").await?,
            Command::Version => {
                out.say(concat!("VERSION ", env!("CARGO_PKG_VERSION"), "\r\n").as_bytes()).await?;
            }
            Command::Stats(what) => out.say(self.stats(&what).as_bytes()).await?,
            Command::Large(key) => {
                if let Some(key) = key {
                    let line = [b"delete ", &key[..], b"\r\n"].concat().into();
                    let pending = self.say_to_holders(&key, &line, Form::Line, out.budget);
                    if let Err(fault) = all(pending, b"").await {
                        self.complain(&fault, out).await?;
                        return Ok(true);
                    }
                }
                out.say(LARGE.as_bytes()).await?;
            }
            Command::Said(said) => out.say(said.as_bytes()).await?,
            Command::Fatal(said) => {
                out.say(said.as_bytes()).await?;
                return Ok(false);
            }
            Command::Quit => return Ok(false),
        }
        Ok(true)
    }

    /// Either all values, or an error.
    async fn values<'a>(
        &self,
        keys: impl Iterator<Item = &'a Bytes>,
        answers: Answers,
        out: &mut Out<'_>,
    ) -> io::Result<()> {
        let records = match answers.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(records) => records,
            Err(fault) => return self.complain(&fault, out).await,
        };
        for (key, record) in keys.zip(records) {
            if let Some(record) = record {
                out.say(b"VALUE ").await?;
                out.say(key).await?;
                out.say(b" ").await?;
                out.say(&record.octets).await?;
            }
        }
        out.say(b"END\r\n").await
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.settings.deadline
    }

    async fn gather(&self, queries: &[Query], budget: &Budget) -> Answers {
        let settings = &self.settings;
        self.counters.gets.fetch_add(queries.len() as u64, Ordering::Relaxed);
        let mut holders = Vec::with_capacity(queries.len() * settings.copies);
        for query in queries {
            self.ring.holders(&query.key, &mut holders);
        }
        let first = holders.first();
        if queries.len() < settings.straight_below
            || holders.iter().all(|holder| Some(holder) == first)
        {
            return straight::gather(
                &self.servers,
                queries,
                &holders,
                settings.copies,
                budget,
                settings.deadline,
            )
            .await;
        }
        self.counters.swarms.fetch_add(1, Ordering::Relaxed);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        swarm::gather(self, id, queries, &holders, budget).await
    }

    /// Asks for keys of one copy each by lines that begin so.
    async fn touch(&self, start: &[u8], keys: &[Bytes], budget: &Budget) -> Answers {
        let deadline = self.deadline();
        let mut all = Answers::new();
        for keys in keys.chunks(TOUCHED) {
            let mut holders = Vec::with_capacity(keys.len());
            keys.iter().for_each(|key| self.ring.holders(key, &mut holders));
            let mut groups = BTreeMap::<u32, Vec<usize>>::new();
            for (place, holder) in holders.into_iter().enumerate() {
                groups.entry(holder).or_default().push(place);
            }
            let mut pending = Vec::new();
            for (holder, places) in groups {
                for places in places.chunks(IN_LINE) {
                    let keys: Vec<Bytes> =
                        places.iter().map(|place| keys[*place].clone()).collect();
                    let server = &self.servers[holder as usize];
                    let asked = server.ask_with(start, &keys, budget, deadline);
                    pending.push((places.to_vec(), asked));
                }
            }
            let mut answers = vec![Ok(None); keys.len()];
            for (places, pending) in pending {
                let found = match pending.answer().await {
                    Ok(found) => found,
                    Err(fault) => vec![Err(fault); places.len()],
                };
                for (place, found) in places.into_iter().zip(found) {
                    answers[place] = found;
                }
            }
            all.extend(answers);
        }
        all
    }

    /// Says something to all servers of a key. No wait lies between the copies, so that all see the same order.
    fn say_to_holders(
        &self,
        key: &[u8],
        octets: &Bytes,
        form: Form,
        budget: &Budget,
    ) -> Vec<Pending> {
        let mut holders = Vec::new();
        self.ring.holders(key, &mut holders);
        let deadline = self.deadline();
        let say = |holder: &u32| {
            self.servers[*holder as usize].say(octets.clone(), form, budget, deadline)
        };
        holders.iter().map(say).collect()
    }

    /// Sends a command. The parser took `noreply` away: what follows sees what was done.
    fn pass(&self, pass: &Pass, budget: &Budget) -> Passing {
        if self.settings.copies > 1 && pass.spread == Spread::One {
            return Passing::Refused(if pass.is_silent { b"" } else { COPIES });
        }
        let pending = self.say_to_holders(&pass.key, &pass.octets, pass.form, budget);
        Passing::Sent(pending, pass.is_silent)
    }

    /// Answers commands, in their order.
    async fn passed(&self, passing: &mut Vec<Passing>, out: &mut Out<'_>) -> io::Result<()> {
        for one in passing.drain(..) {
            match one {
                Passing::Refused(said) => out.say(said).await?,
                Passing::Sent(pending, is_silent) => {
                    let answer = all(pending, b"").await;
                    self.line(answer, is_silent, out).await?;
                }
            }
        }
        Ok(())
    }

    async fn line(
        &self,
        answer: Result<Bytes, Fault>,
        is_silent: bool,
        out: &mut Out<'_>,
    ) -> io::Result<()> {
        match answer {
            _ if is_silent => Ok(()),
            Ok(octets) => out.say(&octets).await,
            Err(fault) => self.complain(&fault, out).await,
        }
    }

    /// What objects are taken to have, octets.
    pub(crate) fn usual_size(&self) -> u32 {
        self.size.load(Ordering::Relaxed).max(1)
    }

    /// An object had so many octets.
    pub(crate) fn saw_size(&self, octets: usize) {
        let (old, new) = (self.usual_size(), u32::try_from(octets).unwrap_or(u32::MAX));
        // A mean over about sixty-four.
        let mean = (u64::from(old) * 63 + u64::from(new)).div_ceil(64);
        self.size.store(u32::try_from(mean).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn stats(&self, what: &[u8]) -> String {
        match what {
            b"" => {}
            b"reset" => return "RESET\r\n".to_owned(),
            _ => return "END\r\n".to_owned(),
        }
        let counters = &self.counters;
        let rows: [(&str, u64); 8] = [
            ("pid", u64::from(std::process::id())),
            ("uptime", self.began.elapsed().as_secs()),
            ("curr_connections", counters.clients.load(Ordering::Relaxed)),
            ("cmd_get", counters.gets.load(Ordering::Relaxed)),
            ("swarms", counters.swarms.load(Ordering::Relaxed)),
            ("hubs_lost", counters.hubs_lost.load(Ordering::Relaxed)),
            ("server_errors", counters.errors.load(Ordering::Relaxed)),
            ("object_size", u64::from(self.usual_size())),
        ];
        let mut text = format!("STAT version {}\r\n", env!("CARGO_PKG_VERSION"));
        for (name, value) in rows {
            let _ = write!(text, "STAT {name} {value}\r\n");
        }
        text + "END\r\n"
    }
}

const COPIES: &[u8] =
    b"CLIENT_ERROR with copies above 1 only what is the same at all copies is possible\r\n";

/// One answer for all: the worst, else the first that found its item.
async fn all(pending: Vec<Pending>, otherwise: &'static [u8]) -> Result<Bytes, Fault> {
    let mut best: Option<Bytes> = None;
    let mut worst = None;
    for pending in pending {
        let record = match pending.answer().await {
            Ok(answers) => answers.into_iter().next().unwrap_or(Ok(None)),
            Err(fault) => Err(fault),
        };
        let octets = match record {
            Ok(record) => record.map(|record| record.octets).unwrap_or_default(),
            Err(fault) => {
                worst = Some(fault);
                continue;
            }
        };
        let is_error = |o: &Bytes| {
            o.starts_with(b"SERVER_ERROR")
                || o.starts_with(b"CLIENT_ERROR")
                || &o[..] == b"ERROR\r\n"
        };
        let is_missing =
            |o: &Bytes| o.starts_with(b"NOT_FOUND") || o.starts_with(b"NF") || o.starts_with(b"EN");
        let is_better = best
            .as_ref()
            .is_none_or(|best| is_error(&octets) || (is_missing(best) && !is_error(best)));
        if is_better {
            best = Some(octets);
        }
    }
    match worst {
        Some(fault) => Err(fault),
        None => Ok(best.unwrap_or_else(|| Bytes::from_static(otherwise))),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio::time::sleep;

    use super::*;

    async fn front() -> Front {
        let text = "policy = { name = \"one-all\" }\npool = { hashing = \"ketama\" }\n\
                    [front]\nlisten = \"127.0.0.1:0\"\n[[rack]]\nname = \"r1\"\n\
                    [[server]]\nname = \"s1\"\naddress = \"127.0.0.1:1\"\nrack = \"r1\"\n";
        Front::start(Settings::read("gather.toml", text).unwrap()).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn who_hardly_takes_its_answer_is_left() {
        let front = front().await;
        let (mut client, stream) = duplex(PIECE);
        client.write_all("stats\r\n".repeat(3000).as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        tokio::spawn(async move {
            let mut piece = vec![0; PIECE];
            while client.read(&mut piece).await.is_ok_and(|got| got > 0) {
                sleep(Duration::from_secs(29)).await;
            }
        });
        let ended = front.inner.serve(stream).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn who_hardly_says_its_command_is_left() {
        let front = front().await;
        let (mut client, stream) = duplex(PIECE);
        tokio::spawn(async move {
            client.write_all(b"set k 0 0 100\r\n").await.unwrap();
            while client.write_all(b"x").await.is_ok() {
                sleep(Duration::from_secs(5)).await;
            }
        });
        let ended = front.inner.serve(stream).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_says_is_held_too() {
        let front = front().await;
        let (mut client, stream) = duplex(PIECE);
        // All but what a client may say anyway is taken.
        let taken = front.inner.budget.take(front.inner.settings.memory - 1000).unwrap();
        let said = [&b"set k 0 0 9000\r\n"[..], &[b'x'; 6000]].concat();
        client.write_all(&said).await.unwrap();
        let serving = front.inner.serve(stream);
        let mut said = Vec::new();
        let (ended, read) = tokio::join!(serving, client.read_to_end(&mut said));
        ended.unwrap();
        read.unwrap();
        assert_eq!(said, b"SERVER_ERROR out of memory\r\n");
        drop(taken);
        // What was held for it is free again.
        assert!(front.inner.budget.take(front.inner.settings.memory).is_some());
    }
}
