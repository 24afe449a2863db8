//! The keys, values and records of `bpf/watermaster.h`, octet for octet.
//!
//! Both sides run on one machine, so that numbers are in its order. Sizes are compared with those of
//! the maps at every load (`objects.rs`).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use protocol::Connection;
use units::Time;

use crate::Error;

/// The size of a connection in keys and records.
pub(crate) const CONNECTION: usize = 36;

/// The size of a lease.
pub(crate) const LEASE: u32 = 16;

/// The kinds of events; the first four are severities too.
pub(crate) const RECOVERED: u32 = 0;
pub(crate) const LOW: u32 = 1;
pub(crate) const MEDIUM: u32 = 2;
pub(crate) const HIGH: u32 = 3;
pub(crate) const OPENED: u32 = 4;
pub(crate) const CLOSED_FLOW: u32 = 5;

/// The octets of no cap.
pub(crate) const UNCAPPED: u32 = u32::MAX;

/// The flags of a flow: whose SYN was seen, whose SYN had a window scale, whether it has ended.
pub(crate) const SENDER_SYN: u8 = 1;
pub(crate) const SENDER_SCALE: u8 = 2;
pub(crate) const RECEIVER_SYN: u8 = 4;
pub(crate) const RECEIVER_SCALE: u8 = 8;
pub(crate) const CLOSED: u8 = 16;

/// Reads fields one after another; what is missing reads as zero, which sizes checked before exclude.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.0 = rest;
        *head
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_ne_bytes(self.take())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    pub(crate) fn connection(&mut self) -> Connection {
        let addresses = [self.take(), self.take()].map(|octets: [u8; 16]| {
            let address = Ipv6Addr::from(octets);
            address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
        });
        let [source, destination] = addresses.map(|address| SocketAddr::new(address, self.u16()));
        Connection { source, destination }
    }
}

/// A flow as a port keeps it, `struct wm_flow`.
pub(crate) struct Passed {
    pub(crate) first: Time,
    pub(crate) last: Time,
    /// Of the receiver's window.
    pub(crate) scale: u8,
    flags: u8,
}

impl Passed {
    pub(crate) fn read(value: &[u8]) -> Self {
        let mut fields = Fields(value);
        let [first, last] = [fields.u64(), fields.u64()].map(Time::from_nanos);
        let (_told, _segment, scale) = (fields.u32(), fields.u16(), fields.u8());
        Self { first, last, scale, flags: fields.u8() }
    }

    /// Whether all of these flags are set.
    pub(crate) const fn has(&self, all: u8) -> bool {
        self.flags & all == all
    }
}

/// Writes fields one after another.
#[derive(Default)]
pub(crate) struct Value(Vec<u8>);

impl Value {
    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// The key of a connection.
///
/// # Errors
/// [`Error::Unnamed`].
pub(crate) fn key(connection: &Connection) -> Result<[u8; CONNECTION], Error> {
    connection.limitable().map_err(|why| Error::Unnamed { connection: *connection, why })?;
    let Connection { source, destination } = connection;
    let mut key = [0; CONNECTION];
    for (place, end) in [source, destination].into_iter().enumerate() {
        let octets = match end.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        key[16 * place..16 * (place + 1)].copy_from_slice(&octets);
        key[32 + 2 * place..34 + 2 * place].copy_from_slice(&end.port().to_ne_bytes());
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_comes_back_from_its_key() {
        for (source, destination) in
            [("10.0.0.1:5000", "10.0.0.2:80"), ("[fd00::1]:1", "[fd00::2]:65535")]
        {
            let connection = Connection {
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
            };
            let key = key(&connection).unwrap();
            assert_eq!(Fields(&key).connection(), connection);
        }
    }

    #[test]
    fn half_a_connection_has_no_key() {
        for (source, destination) in [("10.0.0.1:0", "10.0.0.2:80"), ("10.0.0.1:1", "[::1]:1")] {
            let connection = Connection {
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
            };
            assert!(matches!(key(&connection), Err(Error::Unnamed { .. })));
        }
    }
}
