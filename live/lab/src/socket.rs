//! TCP socket options that the standard library lacks: `struct tcp_info` of linux/tcp.h, and the
//! pacing rate.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use units::{Bytes, Rate, Span};

/// The kernel's statistics of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// Packets sent again.
    pub retransmissions: u32,
    /// Retransmission timeouts; zero on kernels before 6.7, which don't report them.
    pub timeouts: u32,
    /// Payload sent at least once.
    pub sent: Bytes,
    /// Payload that was received, in order.
    pub received: Bytes,
    /// Pacing rate, payload; `None` if unlimited.
    pub pace: Option<Rate>,
    /// Least round-trip time.
    pub least_rtt: Span,
}

/// Octets of the part of the structure that is read; kernels append only.
const LENGTH: usize = 256;

pub(crate) fn info(socket: BorrowedFd<'_>) -> std::io::Result<Info> {
    let mut raw = [0_u8; LENGTH];
    let mut length = libc::socklen_t::try_from(LENGTH).unwrap_or(0);
    // SAFETY: the pointers are to a buffer and to its length, both live during the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if done != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let filled = raw.get(..length as usize).unwrap_or(&raw);
    Ok(parse(filled))
}

/// Reads the structure; fields that an old kernel lacks are zero.
fn parse(raw: &[u8]) -> Info {
    let u16_at = |at: usize| {
        let bytes = raw.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u16::from_ne_bytes(*bytes))
    };
    let u32_at = |at: usize| {
        let bytes = raw.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    };
    let u64_at = |at: usize| {
        let bytes = raw.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    };
    // tcpi_total_retrans, tcpi_total_rto, tcpi_bytes_sent less tcpi_bytes_retrans,
    // tcpi_bytes_received, tcpi_max_pacing_rate (all ones: none), tcpi_min_rtt.
    Info {
        retransmissions: u32_at(100),
        timeouts: u16_at(240).into(),
        sent: Bytes::new(u64_at(200).saturating_sub(u64_at(208))),
        received: Bytes::new(u64_at(128)),
        pace: Some(u64_at(112))
            .filter(|octets| !matches!(*octets, 0 | u64::MAX))
            .map(|octets| Rate::of(Bytes::new(octets), Span::from_secs(1))),
        least_rtt: Span::from_micros(u32_at(148).into()),
    }
}

/// Sets the pacing rate of a connection, payload; `None` lifts it. Needs no queueing discipline:
/// TCP paces itself.
pub(crate) fn pace(socket: impl AsFd, rate: Option<Rate>) -> std::io::Result<()> {
    let octets = rate.map_or(u64::MAX, |rate| rate.bytes_in(Span::from_secs(1)).get().max(1));
    // SAFETY: the pointer is to a live integer of the length given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const octets).cast(),
            libc::socklen_t::try_from(size_of::<u64>()).unwrap_or(0),
        )
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_says_what_was_sent_and_received() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[0; 12_345]).unwrap();
        receiver.read_exact(&mut [0; 12_345]).unwrap();
        let (there, here) = (info(sender.as_fd()).unwrap(), info(receiver.as_fd()).unwrap());
        assert_eq!(there.sent, Bytes::new(12_345));
        assert_eq!(here.received, Bytes::new(12_345));
        assert_eq!((there.retransmissions, there.timeouts), (0, 0));
        assert!(there.least_rtt < Span::from_secs(1));
        for rate in [Some(Rate::from_mbps(10)), None] {
            pace(&sender, rate).unwrap();
            assert_eq!(info(sender.as_fd()).unwrap().pace, rate);
        }
    }

    #[test]
    fn an_old_kernel_says_less() {
        assert_eq!(parse(&[]), Info::default());
        assert_eq!(parse(&[1; 103]), Info::default());
        assert_eq!(parse(&[1; 104]).retransmissions, 0x0101_0101);
    }
}
