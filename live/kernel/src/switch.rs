//! The ports of a switch, and one place to wait for what they tell.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use agent::PortNumber;
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapHandle, MapType, RingBuffer, RingBufferBuilder};
use units::{Bytes, Span, Time};

use crate::lease::Leases;
use crate::{Error, Event, Lease, Namespace, Port, PortOptions, interfaces, raw};

/// Octets of events that may wait.
const ROOM: u32 = 256 * 1024;

/// Interfaces that are watched together.
pub struct Switch {
    // Before what it reads from, so that it is dropped first.
    ring: RingBuffer<'static>,
    events: MapHandle,
    leases: Arc<Leases>,
    told: Receiver<Event>,
    waiting: VecDeque<Event>,
    ports: Vec<Option<Port>>,
}

impl Switch {
    /// A switch without ports.
    ///
    /// # Errors
    /// The kernel has no BPF ring buffers (before 5.8), or doesn't allow them.
    pub fn new() -> Result<Self, Error> {
        let making = "make a BPF ring buffer";
        let options =
            bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as _, ..Default::default() };
        let events = MapHandle::create(MapType::RingBuf, Some("events"), 0, 0, ROOM, &options)
            .map_err(Error::bpf(making))?;
        let (tell, told) = channel();
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&events, move |record| {
                if let Some(event) = Event::read(record) {
                    let _ = tell.send(event); // the receiver lives as long as the ring
                }
                0
            })
            .map_err(Error::bpf(making))?;
        let ring = builder.build().map_err(Error::bpf(making))?;
        Ok(Self {
            ring,
            events,
            leases: Arc::new(Leases::new()?),
            told,
            waiting: VecDeque::new(),
            ports: Vec::new(),
        })
    }

    /// Makes an interface a port. It does nothing until it is told what.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses the programs.
    pub fn attach(
        &mut self,
        namespace: Namespace,
        interface: &str,
        options: &PortOptions,
    ) -> Result<PortNumber, Error> {
        let number = PortNumber(u32::try_from(self.ports.len()).unwrap_or(u32::MAX));
        let leases = Arc::clone(&self.leases);
        let port = Port::attach(number, namespace, interface, options, &self.events, leases)?;
        self.ports.push(Some(port));
        Ok(number)
    }

    /// Takes the programs off an interface.
    ///
    /// # Errors
    /// They may be there still, and go on until leases end.
    pub fn detach(&mut self, number: PortNumber) -> Result<(), Error> {
        let port = self.ports.get_mut(number.0 as usize).and_then(Option::take);
        port.map_or(Ok(()), Port::detach)
    }

    /// Takes the programs off all interfaces; those where they may be still, and why.
    pub fn stop(mut self) -> Vec<(String, Error)> {
        let ports = std::mem::take(&mut self.ports).into_iter().flatten();
        let detached = ports.map(|port| (port.interface().to_owned(), port.detach()));
        detached.filter_map(|(interface, done)| Some((interface, done.err()?))).collect()
    }

    /// A port.
    ///
    /// # Errors
    /// [`Error::NoPort`]
    pub fn port(&mut self, number: PortNumber) -> Result<&mut Port, Error> {
        let port = self.ports.get_mut(number.0 as usize).and_then(Option::as_mut);
        port.ok_or(Error::NoPort(number.0))
    }

    /// Begins a lease, or makes it last from `now` on, for all windows, classes and gaps of all ports that
    /// were granted under its epoch and still stand. It costs the same however many that are.
    ///
    /// # Errors
    /// [`Error::Stale`], or what the kernel says.
    pub fn renew(&mut self, now: Time, lease: Lease) -> Result<(), Error> {
        self.leases.renew(now, lease, || self.remove_ended(now))
    }

    /// Whether the interfaces of all ports are still there.
    ///
    /// # Errors
    /// [`Error::Gone`], or what the kernel says.
    pub fn stands(&self) -> Result<(), Error> {
        self.ports.iter().flatten().try_for_each(Port::stands)
    }

    /// Frame bytes that each port's interface has sent since it began to count.
    ///
    /// # Errors
    /// A namespace can't be entered; [`Error::Gone`].
    pub fn sent(&self) -> Result<Vec<(PortNumber, Bytes)>, Error> {
        let mut tables: BTreeMap<&Path, String> = BTreeMap::new();
        let mut sent = Vec::with_capacity(self.ports.len());
        for port in self.ports.iter().flatten() {
            let table = match tables.entry(port.namespace().path()) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(port.namespace().visit(interfaces::table)?),
            };
            let found = interfaces::sent(table, port.interface());
            let gone = || Error::Gone(format!("interface {}", port.interface()));
            sent.push((port.number(), found.ok_or_else(gone)?));
        }
        Ok(sent)
    }

    /// Removes the windows, classes and gaps whose lease is over at `now`; returns how many.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sweep(&mut self, now: Time) -> Result<usize, Error> {
        self.leases.sweep(now, || self.remove_ended(now))
    }

    fn remove_ended(&self, now: Time) -> Result<usize, Error> {
        self.ports.iter().flatten().map(|port| port.remove_ended(now)).sum()
    }

    /// The next event, waiting so long for one; `None`: there was none.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn next(&mut self, patience: Span) -> Result<Option<Event>, Error> {
        if self.waiting.is_empty() {
            let patience = Duration::from_nanos(patience.as_nanos());
            self.ring.poll(patience).map_err(Error::bpf("wait for events"))?;
            self.waiting.extend(self.told.try_iter());
        }
        Ok(self.waiting.pop_front())
    }
}

/// Readable when there are events, for who waits for other things too.
impl AsFd for Switch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        raw::descriptor(&self.ring)
    }
}
