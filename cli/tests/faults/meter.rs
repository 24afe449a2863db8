//! What traffic suffers, seen by those who receive it.
//!
//! - [`Stream`]: endless data over the kernel's TCP. Its reader notes when how much came: the longest
//!   time in which nothing did, and the goodput of any part of the time.
//! - [`Probe`]: a small datagram every two milliseconds, numbered. What was sent and never came is a
//!   loss of the network: nobody sends it again. The longest run of such is an outage, told by the
//!   clock of the sender, so that a busy machine that sends late doesn't look like one that loses.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kernel::Namespace;
use protocol::Connection;
use units::{Bytes, Rate, Span};

/// Between two datagrams of a probe.
const BEAT: Duration = Duration::from_millis(2);
/// A datagram that takes longer is lost.
const LATE: Duration = Duration::from_millis(500);
/// Octets of a datagram.
const DATAGRAM: usize = 64;

/// What happened at which time.
type Log<T> = Arc<Mutex<Vec<(Instant, T)>>>;

fn lock<T>(log: &Log<T>) -> MutexGuard<'_, Vec<(Instant, T)>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stretch of time.
#[derive(Clone, Copy)]
pub struct Window {
    pub from: Instant,
    pub to: Instant,
}

impl Window {
    pub fn since(from: Instant) -> Self {
        Self { from, to: Instant::now() }
    }

    fn holds(&self, at: Instant) -> bool {
        (self.from..self.to).contains(&at)
    }

    pub fn length(&self) -> Duration {
        self.to - self.from
    }
}

/// Data that flows from its making until it is dropped.
pub struct Stream {
    pub connection: Connection,
    arrivals: Log<u64>,
    ends: [TcpStream; 2],
    threads: Vec<JoinHandle<()>>,
}

impl Stream {
    /// From a host to another, which are namespaces with an address.
    pub fn start(from: (&Namespace, IpAddr), to: (&Namespace, IpAddr)) -> Self {
        let there = to.0.visit(|| Ok(TcpListener::bind((to.1, 0)).unwrap())).unwrap();
        let address = there.local_addr().unwrap();
        let sender = from.0.visit(|| Ok(TcpStream::connect(address).unwrap())).unwrap();
        let (mut reader, _) = there.accept().unwrap();
        let connection = Connection { source: sender.local_addr().unwrap(), destination: address };
        let arrivals = Log::default();
        let ends = [sender.try_clone().unwrap(), reader.try_clone().unwrap()];
        let (mut writer, noted) = (sender, Arc::clone(&arrivals));
        let write = thread::spawn(move || {
            let data = [0x5a; 16 << 10];
            while writer.write_all(&data).is_ok() {}
        });
        let read = thread::spawn(move || {
            let mut data = [0; 64 << 10];
            while let Ok(octets @ 1..) = reader.read(&mut data) {
                lock(&noted).push((Instant::now(), octets as u64));
            }
        });
        Self { connection, arrivals, ends, threads: vec![write, read] }
    }

    /// What its receiver got, payload.
    pub fn goodput(&self, window: Window) -> Rate {
        let arrivals = lock(&self.arrivals);
        let first = arrivals.partition_point(|(at, _)| *at < window.from);
        let within = arrivals[first..].iter().take_while(|(at, _)| *at < window.to);
        Rate::of(Bytes::new(within.map(|(_, octets)| octets).sum()), span(window.length()))
    }

    /// The longest time in which its receiver got nothing; one that lasts at the end counts.
    pub fn gap(&self, window: Window) -> Duration {
        let arrivals = lock(&self.arrivals);
        let times = arrivals.iter().map(|(at, _)| *at).filter(|at| window.holds(*at));
        longest(std::iter::once(window.from).chain(times).chain([window.to]))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for end in &self.ends {
            // Each of its own: where nothing forwards, one doesn't hear of the other.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Numbered datagrams that are sent from its making until it is dropped.
pub struct Probe {
    sent: Log<u64>,
    received: Log<u64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What became of a probe's datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Losses {
    pub sent: usize,
    pub lost: usize,
    /// The longest time in which all that was sent got lost.
    pub outage: Duration,
}

impl Probe {
    /// From a host to another, which are namespaces with an address.
    pub fn start(from: (&Namespace, IpAddr), to: (&Namespace, IpAddr)) -> Self {
        let socket = |host: (&Namespace, IpAddr)| {
            host.0.visit(|| Ok(UdpSocket::bind((host.1, 0)).unwrap())).unwrap()
        };
        let (sender, receiver) = (socket(from), socket(to));
        let there: SocketAddr = receiver.local_addr().unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (sent, received) = (Log::default(), Log::default());
        let stop = Arc::new(AtomicBool::new(false));
        let (noted, halt) = (Arc::clone(&sent), Arc::clone(&stop));
        let send = thread::spawn(move || {
            let mut data = [0; DATAGRAM];
            let mut next = Instant::now();
            for number in 0_u64.. {
                if halt.load(Ordering::Relaxed) {
                    return;
                }
                data[..8].copy_from_slice(&number.to_be_bytes());
                let now = Instant::now();
                // One that its own host refuses is as lost as any other.
                let _ = sender.send_to(&data, there);
                lock(&noted).push((now, number));
                next = (next + BEAT).max(now);
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        let (noted, halt) = (Arc::clone(&received), Arc::clone(&stop));
        let receive = thread::spawn(move || {
            let mut data = [0; DATAGRAM];
            while !halt.load(Ordering::Relaxed) {
                if let Ok(DATAGRAM) = receiver.recv(&mut data) {
                    let number = u64::from_be_bytes(*data.first_chunk().unwrap());
                    lock(&noted).push((Instant::now(), number));
                }
            }
        });
        Self { sent, received, stop, threads: vec![send, receive] }
    }

    /// What became of those that were sent in a window. Waits for the last of them.
    pub fn losses(&self, window: Window) -> Losses {
        thread::sleep((window.to + LATE).saturating_duration_since(Instant::now()));
        let came: std::collections::HashSet<u64> =
            lock(&self.received).iter().map(|(_, number)| *number).collect();
        let sent = lock(&self.sent);
        let sent = sent.iter().filter(|(at, _)| window.holds(*at));
        let sent: Vec<(Instant, bool)> =
            sent.map(|(at, number)| (*at, came.contains(number))).collect();
        let lost = sent.iter().filter(|(_, came)| !came).count();
        // An outage is from the first that got lost to the first that came again.
        let mut outage = Duration::ZERO;
        let mut since = None;
        for (at, came) in &sent {
            let start = *since.get_or_insert(*at);
            if *came {
                since = None;
            }
            if lost > 0 {
                outage = outage.max(*at - start);
            }
        }
        Losses { sent: sent.len(), lost, outage }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn longest(times: impl Iterator<Item = Instant>) -> Duration {
    let mut last = None;
    let mut longest = Duration::ZERO;
    for time in times {
        longest = longest.max(last.map_or(Duration::ZERO, |last| time - last));
        last = Some(time);
    }
    longest
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap())
}
