//! A cable with a delay: packets wait in user space between its two halves, because no queueing discipline that
//! every kernel has delays them. Without a run a bridge joins the halves, and nothing waits.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use units::Span;

use crate::blueprint::Splice;
use crate::namespace::{Inside, batch};
use crate::{Error, Lab};

/// Octets of the largest frame, segmentation left to the interface, with the header that tells of that.
const LARGEST: usize = 66_000;
/// Octets that may wait to be read: some milliseconds of a fast link.
const ROOM: libc::c_int = 8 << 20;
/// Packets that may be on their way; more are lost.
const MOST: usize = 1 << 16;
/// Packets read before what is due is sent.
const BATCH: usize = 256;
/// How long a line sleeps at most while packets may come.
const LOOK: Duration = Duration::from_millis(5);
/// An idle line looks this often whether it is to end.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Of a line's packets so many may be late by half of its delay: one in a hundred.
const LATE: u64 = 100;

/// A guard: while it lives, its cable delays what it carries.
pub(crate) struct Line {
    name: String,
    splice: Splice,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Carried>>,
}

/// What a direction has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Carried {
    packets: u64,
    /// By half of the delay and more.
    late: u64,
    /// Found no room, or weren't taken.
    lost: u64,
}

impl Line {
    /// Those of all cables of `lab` with a delay.
    pub(crate) fn start(lab: &Lab) -> Result<Vec<Self>, Error> {
        lab.blueprint.splices().map(|splice| Self::open(lab, splice)).collect()
    }

    fn open(lab: &Lab, splice: Splice) -> Result<Self, Error> {
        let name = lab.namespace(splice.node);
        // First the sockets: what fails leaves the bridge.
        let inside = Inside::enter(&name)?;
        let fail = |error| Error::Socket(format!("delay of {}", splice.bridge), error);
        let [one, other] =
            [tap(&splice.halves[0]).map_err(fail)?, tap(&splice.halves[1]).map_err(fail)?];
        let again = |socket: &OwnedFd| socket.try_clone().map_err(fail);
        let ways =
            [(again(&one)?, again(&other)?, splice.delays[0]), (other, one, splice.delays[1])];
        drop(inside);
        batch("ip", Some(&name), &splice.parted())?;
        let stop = Arc::new(AtomicBool::new(false));
        let threads = ways.map(|(from, to, delay)| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || carry(&from, &to, delay, &stop))
        });
        Ok(Self { name, splice, stop, threads: threads.into() })
    }

    /// What was wrong with it, if anything.
    pub(crate) fn stop(mut self) -> Option<String> {
        let mut all = Carried::default();
        for direction in self.end() {
            all.packets += direction.packets;
            all.late += direction.late;
            all.lost += direction.lost;
        }
        let Carried { packets, late, lost } = all;
        let bridge = &self.splice.bridge;
        (lost > 0 || late * LATE > packets).then(|| {
            format!("{bridge}, which delays, had {late} of {packets} packets late and lost {lost}")
        })
    }

    fn end(&mut self) -> Vec<Carried> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).filter_map(|thread| thread.join().ok()).collect()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.end();
        // A lab that is gone has no halves; in one that stands the next run joins them.
        let _ = batch("ip", Some(&self.name), &self.splice.joined());
    }
}

/// A socket that sees each frame that comes in at `interface`, here, with what its sender left to the interface.
fn tap(interface: &str) -> std::io::Result<OwnedFd> {
    const FLAGS: libc::c_int = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is handed over; what is returned is a new descriptor or -1.
    let socket = unsafe { libc::socket(libc::AF_PACKET, FLAGS, 0) };
    if socket < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: it was just opened, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, ROOM)?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    // Checksums and segments that are left to the interface stay so.
    set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    let index = rustix::net::netdevice::name_to_index(&socket, interface)?;
    let size = |length: usize| libc::socklen_t::try_from(length).unwrap_or(0);
    let all = u16::try_from(libc::ETH_P_ALL).unwrap_or(0).to_be();
    // SAFETY: all of it are integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap_or(0);
    address.sll_protocol = all;
    address.sll_ifindex = i32::try_from(index).unwrap_or(0);
    // SAFETY: the pointer is to a live address of the length given.
    let bound = unsafe {
        let length = size(size_of::<libc::sockaddr_ll>());
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    if bound == 0 { Ok(socket) } else { Err(std::io::Error::last_os_error()) }
}

fn set(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> std::io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: the pointer is to a live integer of the length given.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Packets lost because they weren't read in time.
fn overrun(socket: &OwnedFd) -> u64 {
    let mut counts = [0_u32; 2];
    let mut length = libc::socklen_t::try_from(size_of_val(&counts)).unwrap_or(0);
    // SAFETY: the pointers are to two live integers, as `tpacket_stats` has, and to their length.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut length,
        )
    };
    if done == 0 { counts[1].into() } else { 0 }
}

/// Carries what comes in at `from` to `to`, each packet `delay` after it came, until `stop`.
fn carry(from: &OwnedFd, to: &OwnedFd, delay: Span, stop: &AtomicBool) -> Carried {
    // A kernel that refuses lets timers be 50 µs late.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let delay = Duration::from_nanos(delay.as_nanos());
    let mut carried = Carried::default();
    let mut waiting: VecDeque<(SystemTime, Vec<u8>)> = VecDeque::new();
    let mut frame = vec![0; LARGEST];
    while !stop.load(Ordering::Relaxed) {
        match waiting.front() {
            // One wake for each packet, not one more when it comes: it bears the time of that.
            Some((due, _)) => {
                let rest = due.duration_since(SystemTime::now()).unwrap_or_default();
                std::thread::sleep(rest.min(LOOK));
            }
            None => {
                // An interrupted wait is one that was short.
                let _ = poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&PAUSE));
            }
        }
        for _ in 0..BATCH {
            let Some((length, came)) = receive(from, &mut frame) else { break };
            if waiting.len() < MOST {
                waiting.push_back((came + delay, frame[..length].to_vec()));
            } else {
                carried.lost += 1;
            }
        }
        let now = SystemTime::now();
        while let Some((due, packet)) = waiting.front().filter(|(due, _)| *due <= now) {
            let late = now.duration_since(*due).unwrap_or_default();
            carried.packets += 1;
            carried.late += u64::from(late > delay / 2);
            carried.lost += u64::from(forward(to, packet).is_err());
            waiting.pop_front();
        }
    }
    carried.lost += overrun(from);
    carried
}

/// The next frame's length, and when it came; `None` if there is none.
fn receive(from: &OwnedFd, frame: &mut [u8]) -> Option<(usize, SystemTime)> {
    // What the kernel says beside it: a header and a time.
    let mut beside = [0_u64; 8];
    let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    // SAFETY: all of it are integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut beside).cast();
    message.msg_controllen = size_of_val(&beside);
    // SAFETY: all pointers are to memory of the lengths given, live during the call.
    let length = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).ok()?;
    // SAFETY: the kernel has filled the message in, and what it points at is live.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let stamp = header.filter(|header| header.cmsg_type == libc::SCM_TIMESTAMPNS).map(|header| {
        // SAFETY: a message of this type bears a `timespec`, and there is room for it.
        let stamp = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
        let part = |value: libc::c_long| u64::try_from(value).unwrap_or_default();
        Duration::from_secs(part(stamp.tv_sec)) + Duration::from_nanos(part(stamp.tv_nsec))
    });
    let now = SystemTime::now();
    // A time that isn't of just now is none of when it came.
    let came = stamp.map_or(now, |stamp| SystemTime::UNIX_EPOCH + stamp);
    let is_recent = now.duration_since(came).is_ok_and(|ago| ago < Duration::from_secs(1));
    Some((length, if is_recent { came } else { now }))
}

fn forward(to: impl AsFd, packet: &[u8]) -> Result<(), Errno> {
    loop {
        match send(&to, packet, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
