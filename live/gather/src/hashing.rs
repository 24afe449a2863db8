//! Which servers hold a key.

use md5::{Digest as _, Md5};

/// How keys are spread over servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashing {
    /// As libketama, libmemcached (`KETAMA_WEIGHTED`) and twemproxy do: 160 points of MD5 a server.
    Ketama,
    /// As pymemcache's `HashClient` does: the server with the highest score.
    Rendezvous,
}

/// Points of a server on the ring.
const POINTS: u32 = 160;
/// Points that a digest gives.
const IN_DIGEST: u32 = 4;

/// The servers, ready to be asked.
#[derive(Debug)]
pub struct Ring {
    hashing: Hashing,
    labels: Vec<String>,
    racks: Vec<u32>,
    copies: usize,
    /// Points in order, with their servers.
    points: Vec<(u32, u32)>,
}

impl Ring {
    /// Servers are hashed by `labels`; each key has `copies`, in as many `racks` as there are.
    pub fn new(hashing: Hashing, labels: Vec<String>, racks: Vec<u32>, copies: usize) -> Self {
        let mut points = Vec::new();
        if hashing == Hashing::Ketama {
            for (server, label) in (0u32..).zip(&labels) {
                for number in 0..POINTS / IN_DIGEST {
                    let digest = Md5::digest(format!("{label}-{number}"));
                    let parts = digest.as_slice().chunks_exact(4);
                    points.extend(parts.map(|part| (word(part), server)));
                }
            }
            // A stable order where points are equal: the server that was named first.
            points.sort_unstable();
        }
        Self { hashing, labels, racks, copies, points }
    }

    /// Appends the servers of `key` to `found`, the one that other clients ask first.
    pub fn holders(&self, key: &[u8], found: &mut Vec<u32>) {
        let start = found.len();
        match self.hashing {
            Hashing::Ketama => {
                let at = word(&Md5::digest(key));
                let first = self.points.partition_point(|(point, _)| *point < at);
                let (before, after) = self.points.split_at(first);
                let order = after.iter().chain(before).map(|(_, server)| *server);
                self.choose(order, start, found);
            }
            Hashing::Rendezvous => {
                let score = |label: &String| murmur(&[label.as_bytes(), b"-", key].concat());
                let scored =
                    (0u32..).zip(&self.labels).map(|(server, label)| (score(label), label, server));
                if self.copies == 1 {
                    found.extend(scored.max().map(|(_, _, server)| server));
                    return;
                }
                let mut all: Vec<_> = scored.collect();
                all.sort_unstable_by(|a, b| b.cmp(a));
                self.choose(all.into_iter().map(|(_, _, server)| server), start, found);
            }
        }
    }

    /// The first of `order`, then those in other racks, then any, until there are enough.
    fn choose(&self, order: impl Iterator<Item = u32> + Clone, start: usize, found: &mut Vec<u32>) {
        for other_racks in [true, false] {
            for server in order.clone() {
                if found.len() - start >= self.copies {
                    return;
                }
                let rack = |server: u32| self.racks[server as usize];
                let is_near =
                    |old: &u32| *old == server || (other_racks && rack(*old) == rack(server));
                if !found[start..].iter().any(is_near) {
                    found.push(server);
                }
            }
        }
    }
}

fn word(octets: &[u8]) -> u32 {
    octets.iter().take(4).rev().fold(0, |word, octet| word << 8 | u32::from(*octet))
}

/// MurmurHash3, 32 bits, seed 0.
fn murmur(data: &[u8]) -> u32 {
    let mix =
        |block: u32| block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let blocks = data.chunks_exact(4);
    let rest = blocks.remainder();
    let step = |hash: u32, block: &[u8]| {
        (hash ^ mix(word(block))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    };
    let mut hash = blocks.fold(0, step) ^ mix(word(rest));
    hash ^= u32::try_from(data.len()).unwrap_or(u32::MAX);
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    include!("hashing_published.rs");

    fn first(hashing: Hashing, servers: &[&str], key: &str) -> u32 {
        let labels: Vec<String> = servers.iter().map(|s| (*s).to_owned()).collect();
        let racks = vec![0; labels.len()];
        let mut found = Vec::new();
        Ring::new(hashing, labels, racks, 1).holders(key.as_bytes(), &mut found);
        found[0]
    }

    #[test]
    fn keys_are_where_other_clients_put_them() {
        for (number, server) in KETAMA.iter().enumerate() {
            assert_eq!(
                first(Hashing::Ketama, SERVERS, &format!("key:{number}")),
                *server,
                "{number}"
            );
        }
        for (number, server) in RENDEZVOUS.iter().enumerate() {
            assert_eq!(
                first(Hashing::Rendezvous, SERVERS, &format!("key:{number}")),
                *server,
                "{number}"
            );
        }
    }

    #[test]
    fn copies_are_in_other_racks_while_there_are_some() {
        for hashing in [Hashing::Ketama, Hashing::Rendezvous] {
            let labels = (0..6).map(|n| format!("10.0.0.{n}")).collect();
            let ring = Ring::new(hashing, labels, vec![0, 0, 0, 1, 1, 1], 3);
            for key in 0..100 {
                let mut found = Vec::new();
                ring.holders(format!("k{key}").as_bytes(), &mut found);
                let [a, b, c] = found[..] else { panic!("{found:?}") };
                assert_ne!(a / 3, b / 3);
                assert!(c != a && c != b);
            }
        }
    }
}
