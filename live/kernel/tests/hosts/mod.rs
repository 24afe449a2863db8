//! Two hosts and a cable, in network namespaces of our own.
#![allow(dead_code)] // each test binary uses its part

pub mod crafted;
pub mod wire;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{self, Command};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kernel::{Connection, Lease, Namespace, Pacer, PacerOptions, Statistics};
use testing::wait::settled;
use units::{Bytes, Rate, Span};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// What an example was given, `default` of nothing; without root, and of nonsense, it says so and `None`.
pub fn argument<T: FromStr>(usage: &str, default: T) -> Option<T> {
    if !testing::needs::root() {
        return None;
    }
    let given = std::env::args().nth(1).map_or(Ok(default), |argument| argument.parse());
    if given.is_err() {
        eprintln!("usage: {usage}");
    }
    given.ok()
}

fn run(command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().expect(command);
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

pub struct Rig {
    name: String,
    pub addresses: [Ipv4Addr; 2],
}

impl Rig {
    /// Hosts `a` and `b`; `shape` is a rate as tc writes it, for what leaves `a`, with room for 100
    /// packets.
    pub fn new(shape: Option<&str>) -> Self {
        sweep();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wma-{}-{number}", process::id());
        let addresses = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
        let rig = Self { name, addresses };
        let [a, b] = [rig.host(0), rig.host(1)];
        for host in [&a, &b] {
            run(&format!("ip netns add {host}"));
            run(&format!("ip -n {host} link set lo up"));
        }
        run(&format!("ip -n {a} link add eth0 type veth peer name eth0 netns {b}"));
        for (host, address) in [&a, &b].into_iter().zip(addresses) {
            run(&format!("ip -n {host} address add {address}/24 dev eth0"));
            run(&format!(
                "ip -n {host} address add fd00::{}/64 dev eth0 nodad",
                address.octets()[3]
            ));
            // Packets of their real size, as they'd be on a wire.
            run(&format!("ip -n {host} link set eth0 gso_max_segs 1"));
            run(&format!("ip -n {host} link set eth0 up"));
            run(&format!("ip netns exec {host} sysctl -qw net.ipv4.tcp_congestion_control=reno"));
        }
        if let Some(rate) = shape {
            run(&format!("tc -n {a} qdisc add dev eth0 root handle 1: htb default 1"));
            run(&format!(
                "tc -n {a} class add dev eth0 parent 1: classid 1:1 htb rate {rate} burst 15k quantum 1514"
            ));
            run(&format!("tc -n {a} qdisc add dev eth0 parent 1:1 pfifo limit 100"));
        }
        rig
    }

    /// Lets the hosts leave the cutting of segments to the wire, as real ones do.
    pub fn offload(&self) {
        for index in 0..2 {
            run(&format!("ip -n {} link set eth0 gso_max_segs 64", self.host(index)));
        }
    }

    /// Has the cable carry packets of so many octets.
    pub fn carry(&self, octets: u32) {
        for index in 0..2 {
            run(&format!("ip -n {} link set eth0 mtu {octets}", self.host(index)));
        }
    }

    /// Lets new connections carry marks instead of losing packets.
    pub fn explicit_congestion(&self) {
        for index in 0..2 {
            run(&format!("ip netns exec {} sysctl -qw net.ipv4.tcp_ecn=1", self.host(index)));
        }
    }

    /// Has new connections speak a congestion control.
    pub fn speak(&self, control: &str) {
        for index in 0..2 {
            let own = self.addresses[index];
            run(&format!(
                "ip -n {} route change 10.99.0.0/24 dev eth0 src {own} congctl {control}",
                self.host(index)
            ));
        }
    }

    /// Has `b` acknowledge each packet at once, as from now on.
    pub fn acknowledge_each(&self) {
        let (host, own) = (self.host(1), self.addresses[1]);
        run(&format!("ip -n {host} route change 10.99.0.0/24 dev eth0 src {own} quickack 1"));
    }

    /// Gives new connections at `b` room for so many octets that came and weren't read, which is the
    /// most that they let be in flight.
    pub fn narrow(&self, octets: u32) {
        let most = format!("4096 {octets} {octets}");
        let write = || Ok(fs::write("/proc/sys/net/ipv4/tcp_rmem", &most));
        self.namespace(1).visit(write).unwrap().unwrap();
    }

    /// Removes the cable.
    pub fn unplug(&self) {
        run(&format!("ip -n {} link delete eth0", self.host(0)));
    }

    fn host(&self, index: usize) -> String {
        format!("{}-{}", self.name, ["a", "b"][index])
    }

    pub fn namespace(&self, index: usize) -> Namespace {
        Namespace::named(&self.host(index)).unwrap()
    }

    /// The inode that statistics name the namespace by.
    pub fn inode(&self, index: usize) -> u64 {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(Path::new("/run/netns").join(self.host(index))).unwrap().ino()
    }

    pub fn tc(&self, index: usize, arguments: &str) -> String {
        let output = Command::new("tc")
            .args(["-n", &self.host(index)])
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Endless data from `a` to `b`.
    pub fn stream(&self) -> Stream {
        self.stream_to(self.addresses[1].into())
    }

    /// The same to an address of `b`.
    pub fn stream_to(&self, address: IpAddr) -> Stream {
        let [sender, receiver] = self.connect(address);
        Stream::between(self.host(0), sender, receiver)
    }

    /// A connection from `a` to `b` that nobody sends over.
    pub fn idle(&self) -> Idle {
        let [sender, receiver] = self.connect(self.addresses[1].into());
        Idle { connection: between(&sender), ends: [sender, receiver] }
    }

    /// A connection from `a` to an address of `b`: both ends.
    fn connect(&self, address: IpAddr) -> [TcpStream; 2] {
        let address = SocketAddr::from((address, 0));
        let listener = self.namespace(1).visit(|| Ok(TcpListener::bind(address).unwrap())).unwrap();
        let to = listener.local_addr().unwrap();
        let sender = self.namespace(0).visit(|| Ok(TcpStream::connect(to).unwrap())).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        [sender, receiver]
    }
}

fn between(sender: &TcpStream) -> Connection {
    Connection { source: sender.local_addr().unwrap(), destination: sender.peer_addr().unwrap() }
}

/// A connection that stands until it is dropped, over which nobody sends but who talks.
pub struct Idle {
    pub connection: Connection,
    pub ends: [TcpStream; 2],
}

impl Idle {
    /// Has an octet go there and back, and so an acknowledgement.
    pub fn talk(&self) {
        let [mut sender, mut receiver] = self.ends.each_ref();
        sender.write_all(&[1]).unwrap();
        receiver.read_exact(&mut [0]).unwrap();
        receiver.write_all(&[1]).unwrap();
        sender.read_exact(&mut [0]).unwrap();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for index in 0..2 {
            let _ = Command::new("ip").args(["netns", "delete", &self.host(index)]).output();
        }
    }
}

/// Removes what a test that was killed has left.
fn sweep() {
    let remove: [(&str, &[&str], &str); 2] =
        [("/run/netns", &["ip", "netns", "delete"], ""), ("/run", &["umount"], "/run/")];
    for (directory, command, before) in remove {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let owner = name.strip_prefix("wma-").and_then(|rest| rest.split('-').next());
            if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
                let (program, arguments) = (command[0], &command[1..]);
                let name = format!("{before}{name}");
                let _ = Command::new(program).args(arguments).arg(&name).output();
                let _ = fs::remove_dir(&name); // of a mount
            }
        }
    }
}

/// Octets that were written and not sent; the C library has no name for it.
const SIOCOUTQNSD: libc::Ioctl = 0x894b;

/// How a connection stands, by its socket or by the statistics.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub round_trip: Span,
    pub retransmissions: u32,
    pub window: u32,
    pub segment: Bytes,
    pub unsent: Bytes,
    pub in_flight: Bytes,
}

impl From<&Statistics> for Said {
    fn from(ours: &Statistics) -> Self {
        let &Statistics { round_trip, retransmissions, window, segment, unsent, in_flight, .. } =
            ours;
        Self { round_trip, retransmissions, window, segment, unsent, in_flight }
    }
}

/// Data that flows from its making until it is dropped.
pub struct Stream {
    /// The sender's namespace.
    host: String,
    pub connection: Connection,
    pub received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    sender: TcpStream,
    threads: Vec<JoinHandle<()>>,
}

impl Stream {
    fn between(host: String, sender: TcpStream, receiver: TcpStream) -> Self {
        let connection = between(&sender);
        let received = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let (mut writer, halt) = (sender.try_clone().unwrap(), Arc::clone(&stop));
        threads.push(thread::spawn(move || {
            let data = [0x5a; 64 << 10];
            while !halt.load(Ordering::Relaxed) && writer.write_all(&data).is_ok() {}
        }));
        let (mut reader, count) = (receiver, Arc::clone(&received));
        threads.push(thread::spawn(move || {
            let mut data = [0; 64 << 10];
            loop {
                match reader.read(&mut data) {
                    Ok(0) => break,
                    Ok(octets) => _ = count.fetch_add(octets as u64, Ordering::Relaxed),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        }));
        Self { host, connection, received, stop, sender, threads }
    }

    /// The sender itself asks for no more (`SO_MAX_PACING_RATE`).
    pub fn asks_for(&self, most: Rate) {
        let octets = u32::try_from(most.bytes_in(Span::from_secs(1)).get()).unwrap();
        // SAFETY: the pointer is to a number of that length, live during the call.
        let done = unsafe {
            libc::setsockopt(
                self.sender.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MAX_PACING_RATE,
                (&raw const octets).cast(),
                libc::socklen_t::try_from(size_of_val(&octets)).unwrap(),
            )
        };
        assert_eq!(done, 0);
    }

    /// What the sender's own socket says of itself.
    pub fn said(&self) -> Said {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut length = libc::socklen_t::try_from(size_of_val(&info)).unwrap();
        // SAFETY: the pointers are to as many octets as `length` says and to it, live during the call.
        let done = unsafe {
            libc::getsockopt(
                self.sender.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert_eq!(done, 0);
        // SAFETY: numbers, of which zero is one, where the kernel wrote none.
        let info = unsafe { info.assume_init() };
        let octets = |which: libc::Ioctl| {
            let mut octets: libc::c_int = 0;
            // SAFETY: the pointer is to a number, live during the call.
            let done = unsafe { libc::ioctl(self.sender.as_raw_fd(), which, &raw mut octets) };
            assert_eq!(done, 0);
            Bytes::new(u64::try_from(octets).unwrap())
        };
        let unsent = octets(SIOCOUTQNSD);
        Said {
            round_trip: Span::from_micros(info.tcpi_rtt.into()),
            retransmissions: info.tcpi_total_retrans,
            window: info.tcpi_snd_cwnd,
            segment: Bytes::new(info.tcpi_snd_mss.into()),
            unsent,
            in_flight: octets(libc::TIOCOUTQ) - unsent,
        }
    }

    /// Waits until the goodput over a second is within `percent` of `wanted`. A busy machine keeps a
    /// sender from its rate for a while.
    #[track_caller]
    pub fn settles(&self, wanted: Rate, percent: u64) {
        let second = || self.goodput(Duration::from_secs(1));
        let got = settled(second, |got| within(*got, wanted, percent));
        assert!(within(got, wanted, percent), "{got} instead of {wanted}: {}", self.seen());
    }

    /// What the kernel says of the namespace's connections.
    fn seen(&self) -> String {
        let ss = ["netns", "exec", &self.host, "ss", "-tinH"];
        let output = Command::new("ip").args(ss).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until more than `wanted` comes through, which nothing holds.
    #[track_caller]
    pub fn exceeds(&self, wanted: Rate) {
        let got = settled(|| self.goodput(Duration::from_millis(300)), |got| *got > wanted);
        assert!(got > wanted, "{got}, not more than {wanted}: {}", self.seen());
    }

    /// What the application at the other end has received, octets of payload.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// What the application at the other end received in a while, payload.
    pub fn goodput(&self, during: Duration) -> Rate {
        let (start, before) = (Instant::now(), self.received());
        thread::sleep(during);
        let octets = self.received() - before;
        let span = Span::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap());
        Rate::of(Bytes::new(octets), span)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.sender.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Options of a pacer that no other shares.
pub fn options() -> PacerOptions {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let pins = format!("/run/wma-{}-{number}", process::id()).into();
    PacerOptions { pins, ..PacerOptions::default() }
}

pub fn lease(milliseconds: u64) -> Lease {
    Lease { epoch: 1, span: Span::from_millis(milliseconds) }
}

/// The payload of a rate of frames of 1500 octets: 20 of IP, 32 of TCP with timestamps.
pub fn payload(frames: Rate) -> Rate {
    frames.fraction(1448, 1500)
}

pub fn within(got: Rate, wanted: Rate, percent: u64) -> bool {
    let least = wanted.fraction(100 - percent, 100);
    let most = wanted.fraction(100 + percent, 100);
    (least..=most).contains(&got)
}

/// How the end of a connection stands that sends, in whatever namespace of this test's process.
pub fn statistics(pacer: &Pacer, connection: &Connection) -> Statistics {
    let all = pacer.statistics(&namespaces()).unwrap();
    all.into_iter().find(|each| each.connection == *connection).expect("the connection is known")
}

/// Those of this process's rigs.
pub fn namespaces() -> Vec<Namespace> {
    let ours = format!("wma-{}-", process::id());
    let all = fs::read_dir("/run/netns").unwrap().map(|entry| entry.unwrap().file_name());
    let names = all.filter_map(|name| name.into_string().ok());
    // Others of this process begin and end meanwhile: a file may be no namespace yet.
    let named = names
        .filter(|name| name.starts_with(&ours))
        .filter_map(|name| Namespace::named(&name).ok());
    named.filter(|namespace| namespace.visit(|| Ok(())).is_ok()).collect()
}
