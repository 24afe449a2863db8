//! Packets put on the cable as they are, and what comes in there with the kernel's time.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use kernel::Namespace;
use units::{Span, Time};

/// Of the packet that was read last (packet(7), socket(7)); the C library has no name for it.
const SIOCGSTAMPNS: libc::Ioctl = 0x8907;

/// The cable's end at a host.
pub struct Wire(OwnedFd);

/// What of it is seen.
#[derive(Clone, Copy)]
pub enum Seen {
    /// All, as it comes in or goes out, before programs of ports.
    Before = libc::ETH_P_ALL as isize,
    /// What is IP, comes in and has passed them, at once or after its wait.
    After = libc::ETH_P_IP as isize,
}

fn done(result: libc::c_int) -> libc::c_int {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result
}

impl Wire {
    /// That of `eth0` in a namespace.
    pub fn of(namespace: &Namespace, seen: Seen) -> Self {
        let open = || {
            let protocol = u16::to_be(seen as u16);
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            // SAFETY: these take no pointers but a name that ends with 0; the descriptor is nobody else's.
            let (socket, index) = unsafe {
                let socket = done(libc::socket(libc::AF_PACKET, kind, protocol.into()));
                (OwnedFd::from_raw_fd(socket), libc::if_nametoindex(c"eth0".as_ptr()))
            };
            // SAFETY: numbers, of which zero is one.
            let mut address = unsafe { MaybeUninit::<libc::sockaddr_ll>::zeroed().assume_init() };
            address.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
            address.sll_protocol = protocol;
            address.sll_ifindex = i32::try_from(index).unwrap();
            let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap();
            // SAFETY: the pointer is to so many octets, live during the call.
            done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) });
            let wire = Self(socket);
            wire.stamp(); // from the first call on packets have a time
            Ok(wire)
        };
        namespace.visit(open).unwrap()
    }

    fn stamp(&self) -> Time {
        // SAFETY: numbers, of which zero is one; the pointer is to them, live during the call.
        let stamp = unsafe {
            let mut stamp = MaybeUninit::<libc::timespec>::zeroed().assume_init();
            libc::ioctl(self.0.as_raw_fd(), SIOCGSTAMPNS, &raw mut stamp);
            stamp
        };
        let [seconds, nanos] =
            [stamp.tv_sec, stamp.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
        Time::ZERO + Span::from_secs(seconds) + Span::from_nanos(nanos)
    }

    /// Puts a packet on the cable.
    pub fn send(&self, packet: &[u8]) {
        // SAFETY: the pointer is to so many octets, live during the call.
        let sent =
            unsafe { libc::send(self.0.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0) };
        assert_eq!(usize::try_from(sent), Ok(packet.len()), "{}", io::Error::last_os_error());
    }

    /// The next packet that came in or went out, and when; `None`: there is none yet.
    pub fn next(&self) -> Option<(Vec<u8>, Time)> {
        let mut packet = vec![0; 1 << 16];
        // SAFETY: the pointer is to so many octets, live during the call.
        let read =
            unsafe { libc::recv(self.0.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), 0) };
        packet.truncate(usize::try_from(read).ok()?);
        Some((packet, self.stamp()))
    }
}
