//! What applications, agents and the controller say to each other, version 1.
//!
//! Messages are plain data with a fixed JSON form: a tagged object each, fields named with their
//! unit. An unknown field or tag is an error, never ignored. Applications and agents name things in
//! their own words (a job by a text, a host by its address); only the controller knows indices.
//!
//! - [`application`]: what applications declare, in the northbound messages of Phurti, section 5.1.
//! - [`client`]: an application's end of it, without I/O.
//! - [`translate`]: what a world's applications tell a policy, in these messages.
//! - [`operator`]: what operators order.
//! - [`agent`]: what agents report, and what they are told to do.
//! - [`kubernetes`]: how Kubernetes calls things.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod agent;
pub mod application;
pub mod backoff;
pub mod client;
pub mod kubernetes;
pub mod operator;
pub mod translate;

use alloc::string::String;
use core::cmp::Ordering;
use core::fmt;
use core::net::{SocketAddr, SocketAddrV4};

use serde::de::{self, Unexpected, Visitor};
use serde::ser;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Who has an end of a connection, where its port is the kernel's choice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Process {
    /// A process, by its number where the host's agent runs.
    Pid(u32),
    /// A control group (version 2) and those below it, by its path from the root of their file system.
    Cgroup(String),
    /// A pod of Kubernetes, as `namespace/name`. Agents that know the pods of their node tell it of each connection.
    Pod(String),
}

/// Who has the ends of a connection; nothing: anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Processes {
    /// Where the data comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Process>,
    /// Where the data goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Process>,
}

impl Processes {
    /// Whether it is anybody at both.
    pub const fn is_empty(&self) -> bool {
        self.source.is_none() && self.destination.is_none()
    }
}

/// One direction of a TCP connection, as its packets show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// Where the data comes from. Port 0: not known, any.
    #[serde(serialize_with = "text", deserialize_with = "end")]
    pub source: SocketAddr,
    /// Where the data goes to. Port 0: not known, any.
    #[serde(serialize_with = "text", deserialize_with = "end")]
    pub destination: SocketAddr,
}

/// An end of a connection as people write it. Commands and samples are full of them, nearly always of IPv4, which
/// formatting would take most of the time of a command for.
fn text<S: Serializer>(end: &SocketAddr, to: S) -> Result<S::Ok, S::Error> {
    let SocketAddr::V4(end) = end else {
        return to.collect_str(end);
    };
    let mut text = [b'.'; "255.255.255.255:65535".len()];
    let whole = text.len();
    let mut at = prepend(&mut text, whole, end.port());
    at -= 1;
    text[at] = b':';
    let [first, second, third, fourth] = end.ip().octets();
    for octet in [fourth, third, second] {
        // Before it stands a full stop already.
        at = prepend(&mut text, at, octet.into()) - 1;
    }
    at = prepend(&mut text, at, first.into());
    to.serialize_str(core::str::from_utf8(&text[at..]).map_err(ser::Error::custom)?)
}

/// Writes a number in decimals so that it ends before `end`; where it begins.
fn prepend(text: &mut [u8], end: usize, mut number: u16) -> usize {
    let mut at = end;
    loop {
        at -= 1;
        let [digit, _] = (number % 10).to_le_bytes();
        text[at] = b'0' + digit;
        number /= 10;
        if number == 0 {
            return at;
        }
    }
}

/// An end of a connection; what is none is named.
fn end<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    struct End;

    impl Visitor<'_> for End {
        type Value = SocketAddr;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an address with a port, such as \"10.0.0.1:5001\"")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<SocketAddr, E> {
            let named = || text.chars().take(60).collect::<String>();
            text.parse().map_err(|_| E::invalid_value(Unexpected::Str(&named()), &self))
        }
    }

    from.deserialize_str(End)
}

/// By source, then destination, as socket addresses are ordered.
impl Ord for Connection {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // Tables of connections spend their time here, nearly always on IPv4.
        match (in_order(self), in_order(other)) {
            (Some(own), Some(other)) => own.cmp(&other),
            _ => {
                let ends = (&self.source, &self.destination);
                ends.cmp(&(&other.source, &other.destination))
            }
        }
    }
}

impl PartialOrd for Connection {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A number that is ordered as connections of IPv4 are.
#[inline]
fn in_order(connection: &Connection) -> Option<u128> {
    let (SocketAddr::V4(source), SocketAddr::V4(destination)) =
        (&connection.source, &connection.destination)
    else {
        return None;
    };
    let number = |end: &SocketAddrV4| u128::from(end.ip().to_bits()) << 16 | u128::from(end.port());
    Some(number(source) << 48 | number(destination))
}

impl Connection {
    /// With addresses of IPv4 that are written as IPv6 (RFC 4291, section 2.5.5.2) as their packets have them.
    #[must_use]
    pub fn canonical(self) -> Self {
        let of = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        Self { source: of(self.source), destination: of(self.destination) }
    }

    /// Whether it can be limited by itself: kernels and switches tell connections apart by two addresses
    /// of one family with their ports.
    ///
    /// # Errors
    /// What keeps it from that, for people.
    pub fn limitable(&self) -> Result<(), &'static str> {
        if self.source.port() == 0 || self.destination.port() == 0 {
            return Err("a port of the connection is not known; declare both");
        }
        if self.source.is_ipv4() != self.destination.is_ipv4() {
            return Err("the connection's addresses are of two families");
        }
        Ok(())
    }
}
