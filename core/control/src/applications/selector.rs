//! Which packets are a flow's, as far as its application knows, and the processes that flows name.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::RangeInclusive;

use model::NodeId;
use protocol::{Connection, Process};

use crate::applications::application::ApplicationId;

/// A process that a flow names, by its number here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessId(u32);

/// What a flow's packets have in common: addresses, the ports that are known, and who has the ends whose
/// ports are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selector {
    /// Ordered as connections are, so that tables mostly compare one number.
    rank: u128,
    /// A port that is not known is 0.
    pub(crate) connection: Connection,
    pub(crate) source: Option<ProcessId>,
    pub(crate) destination: Option<ProcessId>,
}

impl From<Connection> for Selector {
    fn from(connection: Connection) -> Self {
        Self::new(connection, None, None)
    }
}

impl Selector {
    pub(crate) fn new(
        connection: Connection,
        source: Option<ProcessId>,
        destination: Option<ProcessId>,
    ) -> Self {
        Self { rank: rank(&connection), connection, source, destination }
    }

    /// Whether it fits one connection only.
    pub(crate) fn is_exact(&self) -> bool {
        self.connection.limitable().is_ok()
    }

    /// Whether switches, which know no processes, can tell what it fits.
    pub(crate) const fn is_by_ports(&self) -> bool {
        self.source.is_none() && self.destination.is_none()
    }

    /// All whose connections begin at an address.
    pub(crate) fn leaving(from: IpAddr) -> RangeInclusive<Self> {
        Self::between(leaving(from))
    }

    /// All of a connection, whatever processes they name.
    pub(crate) fn all_of(connection: Connection) -> RangeInclusive<Self> {
        Self::between(connection..=connection)
    }

    fn between(connections: RangeInclusive<Connection>) -> RangeInclusive<Self> {
        let (first, last) = connections.into_inner();
        let most = Some(ProcessId(u32::MAX));
        Self::from(first)..=Self::new(last, most, most)
    }
}

/// A connection of a lower rank comes before one of a higher: sources of IPv4 in their order, and for each its
/// destinations of IPv4 in theirs, then those of IPv6; last, all sources of IPv6.
fn rank(connection: &Connection) -> u128 {
    let end = |end: &SocketAddr| match end {
        SocketAddr::V4(end) => Some(u128::from(end.ip().to_bits()) << 16 | u128::from(end.port())),
        SocketAddr::V6(_) => None,
    };
    let Some(source) = end(&connection.source) else {
        return u128::MAX;
    };
    source << 49 | end(&connection.destination).unwrap_or(1 << 48)
}

/// Those of all connections that begin at an address.
pub(crate) fn leaving(from: IpAddr) -> RangeInclusive<Connection> {
    let least = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let most = SocketAddr::new(IpAddr::V6(Ipv6Addr::from([0xff; 16])), u16::MAX);
    let first = Connection { source: SocketAddr::new(from, 0), destination: least };
    first..=Connection { source: SocketAddr::new(from, u16::MAX), destination: most }
}

/// Of pods agents tell without being asked.
pub(crate) const fn names_pod(process: &Process) -> bool {
    matches!(process, Process::Pod(_))
}

/// The applications that name a process, and by how many flows.
pub(crate) type NamedBy = BTreeMap<ApplicationId, usize>;

/// The processes that flows name.
#[derive(Default)]
pub(crate) struct Processes {
    /// With who names them, and by how many flows.
    numbers: BTreeMap<(NodeId, Process), (ProcessId, NamedBy)>,
    named: BTreeMap<ProcessId, (NodeId, Process)>,
    next: u32,
    /// Hosts where others are to be looked for than before.
    changed: BTreeSet<NodeId>,
}

impl Processes {
    pub(crate) fn number(&self, host: NodeId, process: &Process) -> Option<ProcessId> {
        self.numbers.get(&(host, process.clone())).map(|(number, _)| *number)
    }

    /// Whether an application names a process of a host.
    pub(crate) fn is_named_by(&self, host: NodeId, process: &Process, by: ApplicationId) -> bool {
        let known = self.numbers.get(&(host, process.clone()));
        known.is_some_and(|(_, all)| all.contains_key(&by))
    }

    /// A flow of an application names a process of a host.
    pub(crate) fn take(&mut self, host: NodeId, process: &Process, by: ApplicationId) -> ProcessId {
        let Self { numbers, named, next, changed } = self;
        let (number, all) = numbers.entry((host, process.clone())).or_insert_with(|| {
            // Those of long ago are used again after 2³² others.
            while named.contains_key(&ProcessId(*next)) {
                *next = next.wrapping_add(1);
            }
            named.insert(ProcessId(*next), (host, process.clone()));
            (ProcessId(*next), NamedBy::new())
        });
        let flows = all.entry(by).or_default();
        *flows += 1;
        if *flows == 1 && !names_pod(process) {
            changed.insert(host);
        }
        *number
    }

    /// A flow of an application that named a process has ended.
    pub(crate) fn release(&mut self, number: ProcessId, by: ApplicationId) {
        let Some(key) = self.named.get(&number) else {
            return;
        };
        let Some((_, all)) = self.numbers.get_mut(key) else {
            return;
        };
        if let Some(flows) = all.get_mut(&by) {
            *flows -= 1;
            if *flows == 0 {
                all.remove(&by);
                if !names_pod(&key.1) {
                    self.changed.insert(key.0);
                }
            }
        }
        if all.is_empty() {
            self.numbers.remove(key);
            self.named.remove(&number);
        }
    }

    /// The process of a number.
    pub(crate) fn named(&self, number: ProcessId) -> Option<&Process> {
        self.named.get(&number).map(|(_, process)| process)
    }

    /// The processes of a host that are to be looked for, their numbers, which are higher for later ones, and who names
    /// them.
    pub(crate) fn of(&self, host: NodeId) -> impl Iterator<Item = (ProcessId, &Process, &NamedBy)> {
        // In the order of their kinds, of which pods are the last.
        let all = (host, Process::Pid(0))..(host, Process::Pod(String::new()));
        let all = self.numbers.range(all);
        all.map(|((_, process), (number, by))| (*number, process, by))
    }

    /// The hosts where others are to be looked for than when this was asked last.
    pub(crate) fn take_changed(&mut self) -> Vec<NodeId> {
        core::mem::take(&mut self.changed).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::applications::application::Applications;

    #[test]
    fn selectors_are_ordered_as_their_connections_are() {
        let ends: Vec<SocketAddr> = [
            "10.0.0.1:0",
            "10.0.0.1:65535",
            "10.0.0.2:1",
            "255.255.255.255:65535",
            "[::]:0",
            "[ff::1]:9",
        ]
        .map(|end| end.parse().expect("an address"))
        .into();
        let pairs = ends
            .iter()
            .flat_map(|source| ends.iter().map(move |destination| (source, destination)));
        let connections: Vec<Connection> =
            pairs.map(|(&source, &destination)| Connection { source, destination }).collect();
        for one in &connections {
            for other in &connections {
                assert_eq!(
                    Selector::from(*one).cmp(&Selector::from(*other)),
                    one.cmp(other),
                    "{one:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn a_process_is_known_while_a_flow_names_it() {
        let (mut processes, host) = (Processes::default(), NodeId(3));
        let (pid, group) = (Process::Pid(7), Process::Cgroup("/a".into()));
        let mut all = Applications::default();
        let [by, another] = ["a", "b"].map(|name| all.add(name).expect("there is room"));
        let first = processes.take(host, &pid, by);
        assert_eq!(processes.take(host, &pid, by), first);
        let other = processes.take(host, &group, by);
        assert!(other != first && processes.take(NodeId(4), &pid, by) != first);
        let named: Vec<_> = processes.of(host).map(|(_, named, _)| named).collect();
        assert_eq!(named, [&pid, &group]);
        assert_eq!(processes.named(first), Some(&pid));
        assert_eq!(processes.take_changed(), [host, NodeId(4)]);
        let name = Process::Pod("a/b".into());
        let pod = processes.take(host, &name, by);
        assert_eq!((processes.named(pod), processes.of(host).count()), (Some(&name), 2));
        processes.release(pod, by);
        assert_eq!((processes.named(pod).is_none(), processes.take_changed()), (true, Vec::new()));
        assert_eq!(processes.take(host, &pid, another), first);
        for (who, is_told) in [(by, false), (by, true)] {
            assert!(processes.is_named_by(host, &pid, who));
            processes.release(first, who);
            let _of_another = processes.take_changed();
            assert_eq!(processes.is_named_by(host, &pid, who), !is_told);
            assert_eq!(processes.number(host, &pid), Some(first));
        }
        processes.release(first, another);
        assert_eq!(
            (processes.number(host, &pid), processes.take_changed()),
            (None, Vec::from([host]))
        );
    }
}
