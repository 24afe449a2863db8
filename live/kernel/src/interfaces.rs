//! Interfaces of a namespace: their numbers, and what the kernel counts of them (proc_pid_net(5)).

use std::fs;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use units::Bytes;

use crate::{Error, Namespace};

/// Of the namespace that the calling thread is in.
const TABLE: &str = "/proc/thread-self/net/dev";
/// The header that Ethernet puts before an IP packet, which the kernel counts.
const ETHERNET: u64 = 14;
/// Where octets and packets that were sent stand in a line, after the name.
const SENT: (usize, usize) = (8, 9);

/// The number of an interface of the calling thread's namespace.
pub(crate) fn index_of(interface: &str, namespace: &Namespace) -> Result<i32, Error> {
    let none = || Error::NoInterface(interface.to_owned(), namespace.path().display().to_string());
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)
        .map_err(|error| Error::file("socket")(error.into()))?;
    let index = netdevice::name_to_index(&socket, interface).map_err(|_| none())?;
    i32::try_from(index).map_err(|_| none())
}

/// The counters of all interfaces here.
pub(crate) fn table() -> Result<String, Error> {
    fs::read_to_string(TABLE).map_err(Error::file(TABLE))
}

/// Frame bytes that an interface of the table has sent.
pub(crate) fn sent(table: &str, interface: &str) -> Option<Bytes> {
    let mut named = table.lines().filter_map(|line| line.trim_start().split_once(':'));
    let (_, counters) = named.find(|(name, _)| *name == interface)?;
    let counters: Vec<&str> = counters.split_whitespace().collect();
    let counter = |at: usize| counters.get(at)?.parse::<u64>().ok();
    let (octets, packets) = (counter(SENT.0)?, counter(SENT.1)?);
    Some(Bytes::new(octets.saturating_sub(packets.saturating_mul(ETHERNET))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interface_sent_is_found_by_its_name() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n\
                     \x20 eth0: 7 1 0 0 0 0 0 0 3028 2 0 0 0 0 0 0\n eth01:9 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n";
        assert_eq!(sent(table, "eth0"), Some(Bytes::new(3000)));
        assert_eq!(sent(table, "eth01"), Some(Bytes::ZERO));
        for (table, interface) in [
            (table, "eth"),
            ("eth0: 7 1", "eth0"),
            ("", "eth0"),
            ("eth0: 7 1 0 0 0 0 0 0 x 2", "eth0"),
        ] {
            assert_eq!(sent(table, interface), None, "{interface} in {table}");
        }
    }
}
