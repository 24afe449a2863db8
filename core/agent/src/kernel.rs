//! What stands in a host's kernel, as an actuator in memory. Simulated hosts have it; the BPF programs
//! of live/kernel are tested against it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use model::{Cap, Caps, PortWatch, Severity};
use protocol::agent::{ConnectionReport, EndedConnection};
use protocol::{Connection, Process};
use units::{Bytes, Rate, Span, Time};

use crate::lease::{Leases, Renewal, Stale};
use crate::machine::{self, Agent};
use crate::operation::{Actuator, Ended, Failure, Operation, PortNumber};

/// How many entries a map holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Limits, in the whole kernel.
    pub limits: usize,
    /// Windows, and classes, at each port.
    pub connections: usize,
    /// Connections that have ended and wait to be told.
    pub ended: usize,
}

/// Something granted under an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grant<T> {
    value: T,
    epoch: u64,
}

/// What stands in a kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    capacity: Capacity,
    leases: Leases,
    limits: BTreeMap<Connection, Grant<Rate>>,
    ports: Vec<Port>,
    ended: Ended,
}

#[derive(Clone, Debug, Default)]
struct Port {
    windows: BTreeMap<Option<Connection>, Grant<Caps>>,
    classes: BTreeMap<Connection, Grant<u8>>,
    space: Option<Grant<Span>>,
    watch: Option<PortWatch>,
}

impl Port {
    fn remove_ended(&mut self, leases: &Leases, now: Time) {
        self.windows.retain(|_, grant| leases.holds(grant.epoch, now));
        self.classes.retain(|_, grant| leases.holds(grant.epoch, now));
        self.space = self.space.filter(|grant| leases.holds(grant.epoch, now));
    }
}

impl Kernel {
    /// A kernel with so many ports in which nothing stands.
    pub fn new(ports: usize, capacity: Capacity) -> Self {
        let ports = core::iter::repeat_with(Port::default).take(ports).collect();
        let (leases, limits, ended) = (Leases::default(), BTreeMap::new(), Ended::default());
        Self { capacity, leases, limits, ports, ended }
    }

    /// The leases.
    pub const fn leases(&self) -> &Leases {
        &self.leases
    }

    /// The limits that are in the map, standing or not, and the epochs that they were granted under.
    pub fn granted(&self) -> impl Iterator<Item = (Connection, u64)> {
        self.limits.iter().map(|(connection, grant)| (*connection, grant.epoch))
    }

    /// The limits that stand at `now`.
    pub fn limits(&self, now: Time) -> impl Iterator<Item = (Connection, Rate)> {
        let standing = self.limits.iter().filter(move |(_, g)| self.leases.holds(g.epoch, now));
        standing.map(|(connection, grant)| (*connection, grant.value))
    }

    /// The limit of a connection that stands at `now`.
    pub fn limit(&self, now: Time, connection: &Connection) -> Option<Rate> {
        self.standing(now, self.limits.get(connection))
    }

    /// The cap for a connection's windows that stands at a port at `now`, while that is so congested: its own
    /// before that of all, also where its own is none.
    pub fn cap(
        &self,
        now: Time,
        port: PortNumber,
        severity: Severity,
        connection: &Connection,
    ) -> Option<Cap> {
        let windows = &self.ports.get(port.0 as usize)?.windows;
        let own = self.standing(now, windows.get(&Some(*connection)));
        own.or_else(|| self.standing(now, windows.get(&None)))?.at(severity)
    }

    /// The class of a connection that stands at a port at `now`.
    pub fn class(&self, now: Time, port: PortNumber, connection: &Connection) -> Option<u8> {
        self.standing(now, self.ports.get(port.0 as usize)?.classes.get(connection))
    }

    /// The classes that stand at a port at `now`.
    pub fn classes(&self, now: Time, port: PortNumber) -> impl Iterator<Item = (Connection, u8)> {
        let classes = self.ports.get(port.0 as usize).into_iter().flat_map(|port| &port.classes);
        let standing = classes.filter(move |(_, g)| self.leases.holds(g.epoch, now));
        standing.map(|(connection, grant)| (*connection, grant.value))
    }

    /// The least time between acknowledgements that stands at a port at `now`.
    pub fn gap(&self, now: Time, port: PortNumber) -> Option<Span> {
        self.standing(now, self.ports.get(port.0 as usize)?.space.as_ref())
    }

    /// How a port is watched.
    pub fn watch(&self, port: PortNumber) -> Option<PortWatch> {
        self.ports.get(port.0 as usize)?.watch
    }

    /// A connection ends that has sent so much, of the control group that made its source. One that sent nothing isn't
    /// told.
    pub fn end(&mut self, connection: Connection, sent: Bytes, group: Process) {
        if sent == Bytes::ZERO {
            return;
        }
        if self.ended.connections.len() >= self.capacity.ended {
            self.ended.lost += 1;
            return;
        }
        let processes = alloc::vec![group];
        self.ended.connections.push(EndedConnection { connection, sent_bytes: sent, processes });
    }

    /// An agent that goes on from what stands here, at one interface: its classes are as many as priorities, and it
    /// isn't watched. It samples if `samples`.
    pub fn agent(&self, samples: bool) -> Agent {
        let (node, interface) = (String::new(), String::new());
        let port = machine::Port { node, interface, classes: 256, watchable: false };
        Agent::new(alloc::vec![port], samples).after(self.leases.clone(), self.granted())
    }

    /// The agent's process ends: limits stay until their lease ends, the programs at ports go with it.
    pub fn abandon(&mut self) {
        self.ports.iter_mut().for_each(|port| *port = Port::default());
    }

    fn standing<T: Copy>(&self, now: Time, grant: Option<&Grant<T>>) -> Option<T> {
        grant.filter(|grant| self.leases.holds(grant.epoch, now)).map(|grant| grant.value)
    }

    /// What has no lease is taken away.
    fn remove_ended(&mut self, now: Time) {
        let Self { leases, limits, ports, .. } = self;
        limits.retain(|_, grant| leases.holds(grant.epoch, now));
        ports.iter_mut().for_each(|port| port.remove_ended(leases, now));
    }

    fn port(&mut self, port: PortNumber) -> Result<&mut Port, Failure> {
        self.ports.get_mut(port.0 as usize).ok_or_else(|| format!("no port {}", port.0))
    }
}

/// Puts an entry into a map that holds `most`, or takes it out.
fn put<K: Ord, T>(
    map: &mut BTreeMap<K, Grant<T>>,
    most: usize,
    key: K,
    value: Option<T>,
    epoch: u64,
) -> Result<(), Failure> {
    match value {
        None => {
            map.remove(&key);
        }
        Some(_) if map.len() >= most && !map.contains_key(&key) => {
            return Err(format!("the map is full: it holds {most} entries"));
        }
        Some(value) => {
            map.insert(key, Grant { value, epoch });
        }
    }
    Ok(())
}

impl Actuator for Kernel {
    fn execute(&mut self, now: Time, operation: &Operation) -> Result<(), Failure> {
        let epoch = self.leases.epoch();
        let Capacity { limits, connections, .. } = self.capacity;
        match *operation {
            Operation::Renew { epoch, lease } => {
                let steps = self.leases.renewal(now, epoch, lease);
                let stale = |stale: Stale| format!("epoch {epoch} is over: {} stands", stale.obeys);
                for step in steps.map_err(stale)? {
                    match step {
                        Renewal::End(end) => self.leases.set(epoch, end),
                        Renewal::Remove => self.remove_ended(now),
                    }
                }
                Ok(())
            }
            Operation::Pace { connection, rate } => {
                put(&mut self.limits, limits, connection, rate, epoch)
            }
            Operation::Classify { port, connection, class } => {
                put(&mut self.port(port)?.classes, connections, connection, class, epoch)
            }
            Operation::Cap { port, connection, caps } => {
                put(&mut self.port(port)?.windows, connections, connection, caps, epoch)
            }
            Operation::Space { port, gap } => {
                self.port(port)?.space = gap.map(|value| Grant { value, epoch });
                Ok(())
            }
            Operation::Watch { port, watch } => {
                self.port(port)?.watch = watch;
                Ok(())
            }
            Operation::Sweep => {
                if self.leases.sweep(now) {
                    self.remove_ended(now);
                }
                Ok(())
            }
        }
    }

    /// Nobody sends here.
    fn sample(&mut self, _: &[Process]) -> Result<Vec<ConnectionReport>, Failure> {
        Ok(Vec::new())
    }

    fn ended(&mut self, processes: &[Process]) -> Result<Ended, Failure> {
        let mut ended = core::mem::take(&mut self.ended);
        for each in &mut ended.connections {
            each.processes.retain(|group| processes.contains(group));
        }
        Ok(ended)
    }
}

/// A kernel that refuses some operations.
pub struct Failing<'a, F> {
    /// The kernel.
    pub kernel: &'a mut Kernel,
    /// Whether it refuses this one.
    pub fails: F,
}

impl<F: FnMut(&Operation) -> bool> Actuator for Failing<'_, F> {
    fn execute(&mut self, now: Time, operation: &Operation) -> Result<(), Failure> {
        if (self.fails)(operation) {
            return Err("the kernel refuses".into());
        }
        self.kernel.execute(now, operation)
    }

    fn sample(&mut self, processes: &[Process]) -> Result<Vec<ConnectionReport>, Failure> {
        self.kernel.sample(processes)
    }

    fn ended(&mut self, processes: &[Process]) -> Result<Ended, Failure> {
        self.kernel.ended(processes)
    }
}
