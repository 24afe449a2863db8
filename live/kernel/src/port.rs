//! An interface as a port of a switch: its queue, the windows that pass, classes, flows.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;

use agent::PortNumber;
use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ProgramInput, TC_EGRESS, TC_INGRESS, TcAttachPoint,
    TcHook, TcHookBuilder,
};
use model::{Buffer, Caps, Severity, Thresholds};
use protocol::Connection;
use units::{Bytes, Rate, Span, Time};

use crate::event::severity_of;
use crate::interfaces::index_of;
use crate::layout::{
    CLOSED, CONNECTION, Fields, Passed, RECEIVER_SCALE, RECEIVER_SYN, SENDER_SCALE, SENDER_SYN,
    UNCAPPED, Value, key,
};
use crate::lease::Leases;
use crate::objects::{PORT, map, open_map, program, program_mut};
use crate::rtnetlink::{Dump, Rtnetlink};
use crate::spacer::Spacer;
use crate::{Error, Namespace, raw};

/// The place of our filters among those of others, where there is no tcx.
const PRIORITY: u32 = 0x574d;

/// How programs are put on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attachment {
    /// By tcx, or where the kernel lacks it by clsact.
    #[default]
    Best,
    /// By a link that ends with the process (Linux 6.6).
    Tcx,
    /// By filters of the clsact discipline. They outlive a killed process; leases end all the same.
    Clsact,
}

/// What a port is.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// How the programs are attached.
    pub attachment: Attachment,
    /// Whether packets have an Ethernet header; those of a TUN device don't.
    pub ethernet: bool,
    /// The most payload of a packet: the interface's MTU less 40.
    pub segment: Bytes,
    /// How many connections are known at a time; the one not seen for longest is forgotten. About
    /// 300 octets each.
    pub connections: u32,
    /// The classes that connections will be put into, `major:minor` as [`Port::classify`] takes them.
    pub classes: Vec<(u16, u16)>,
}

impl Default for PortOptions {
    fn default() -> Self {
        Self {
            attachment: Attachment::Best,
            ethernet: true,
            segment: model::MSS,
            connections: 8192,
            classes: Vec::new(),
        }
    }
}

/// A virtual queue: what would wait if the port sent at `rate`, the packet in transmission included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The rate that the port is shaped to, frame bits.
    pub rate: Rate,
    /// Its buffer: what doesn't fit isn't counted, as it would be dropped. Beyond [`Thresholds::MOST_LIVE`]
    /// packets nothing is counted.
    pub buffer: Buffer,
    /// When it tells (SDTCP, section 3.2); `None`: never.
    pub thresholds: Option<Thresholds>,
    /// CE is set in packets that find so many others (DCTCP's K), if they can carry it.
    pub mark: Option<u32>,
}

/// A flow that passed a port, in the direction of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The connection.
    pub connection: Connection,
    /// Its SYN, or the first packet that was seen.
    pub first: Time,
    /// The last packet, in either direction.
    pub last: Time,
    /// The scale of the windows that come back; `None`: the SYNs weren't seen.
    pub scale: Option<u8>,
    /// Whether a FIN or RST was seen.
    pub closed: bool,
}

/// A virtual queue as a packet left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// What was told last.
    pub severity: Severity,
    /// Until when it has L packets or more.
    pub above: Time,
    /// When a packet was offered last.
    pub seen: Time,
    /// When the port recovered last.
    pub recovered: Time,
    /// How often it did.
    pub recoveries: u64,
    /// When it looks next whether it does, or looked last.
    pub due: Time,
    /// Packets that were queued then.
    pub packets: u32,
}

/// What a port has counted since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that left.
    pub packets: u64,
    /// Their frame bytes.
    pub carried: Bytes,
    /// Packets that found the virtual queue full.
    pub over: u64,
    /// Packets marked with CE.
    pub marked: u64,
    /// Packets put into a class.
    pub classed: u64,
    /// Acknowledgements that came back.
    pub acknowledgements: u64,
    /// Those whose window was capped.
    pub rewritten: u64,
    /// Those whose window should have been looked at, had the scale been known.
    pub unscaled: u64,
    /// Packets that contradict themselves; they pass untouched.
    pub malformed: u64,
    /// Events for which there was no room.
    pub lost: u64,
    /// Acknowledgements that were sent to wait for their turn.
    pub spaced: u64,
}

enum Attached {
    Links { leaving: Link, _returning: Link },
    Filters { index: i32 },
}

/// What became of a packet that a program was run with.
struct Ran {
    passed: Vec<u8>,
    /// Whether it goes to another device.
    redirected: bool,
    priority: u32,
    took: Span,
}

/// An interface with programs on it, which are taken off when it is dropped.
pub struct Port {
    // The programs go before the device that they send acknowledgements to.
    attached: Attached,
    /// Since acknowledgements were spaced first.
    spacer: Option<Spacer>,
    object: Object,
    number: PortNumber,
    interface: String,
    namespace: Namespace,
    options: PortOptions,
    watch: Option<Watch>,
    /// Its filters are taken off, or were tried to be.
    is_off: bool,
    /// Whom openings and endings are told to, and the number of those who were before.
    punt: Option<u32>,
    punted: u32,
    leases: Arc<Leases>,
}

impl Drop for Port {
    fn drop(&mut self) {
        if !self.is_off {
            let _ = self.take_off();
        }
    }
}

impl Port {
    pub(crate) fn attach(
        number: PortNumber,
        namespace: Namespace,
        interface: &str,
        options: &PortOptions,
        events: &MapHandle,
        leases: Arc<Leases>,
    ) -> Result<Self, Error> {
        let mut object = PORT.open()?;
        for name in ["flows", "windows", "classes"] {
            open_map(&mut object, name)
                .set_max_entries(options.connections)
                .map_err(Error::bpf("size a map"))?;
        }
        for (name, shared) in [("events", events), ("leases", leases.map())] {
            open_map(&mut object, name)
                .reuse_fd(shared.as_fd())
                .map_err(Error::bpf("share a map"))?;
        }
        let object = PORT.load(object)?;
        // Before a packet can come.
        configure(&object, number, options, None, None)?;
        let attached = namespace.visit(|| {
            let index = index_of(interface, &namespace)?;
            find_classes(index, interface, &options.classes)?;
            let attached = match options.attachment {
                Attachment::Tcx => by_links(&object, index),
                Attachment::Clsact => by_filters(&object, index),
                Attachment::Best => {
                    by_links(&object, index).or_else(|_| by_filters(&object, index))
                }
            }?;
            // Programs that sent something there are replaced, or went with their process.
            Spacer::remove_left(&namespace, index)?;
            Ok(attached)
        })?;
        Ok(Self {
            attached,
            spacer: None,
            object,
            number,
            interface: interface.to_owned(),
            namespace,
            options: options.clone(),
            watch: None,
            is_off: false,
            punt: None,
            punted: 0,
            leases,
        })
    }

    /// Takes the programs off.
    ///
    /// # Errors
    /// They may be there still.
    pub(crate) fn detach(mut self) -> Result<(), Error> {
        self.is_off = true;
        self.take_off()
    }

    /// Takes filters off: links end by themselves.
    fn take_off(&self) -> Result<(), Error> {
        let Attached::Filters { index } = self.attached else { return Ok(()) };
        self.namespace.visit(|| {
            let detach = |mut hook: TcHook| match hook.detach() {
                // Somebody else may have taken it off.
                Err(_) if is_free(&mut hook) => Ok(()),
                done => done.map_err(Error::bpf("take a filter off")),
            };
            let taken = filters(&self.object, index).map(detach).into_iter().collect();
            match index_of(&self.interface, &self.namespace) {
                Ok(found) if found == index => taken,
                // The interface is gone, and the filters with it.
                Ok(_) | Err(Error::NoInterface(..)) => Ok(()),
                Err(error) => taken.and(Err(error)),
            }
        })
    }

    /// Its number in events.
    pub const fn number(&self) -> PortNumber {
        self.number
    }

    /// The name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    pub(crate) const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// How it is attached: [`Attachment::Tcx`] or [`Attachment::Clsact`].
    pub const fn attachment(&self) -> Attachment {
        match self.attached {
            Attached::Links { .. } => Attachment::Tcx,
            Attached::Filters { .. } => Attachment::Clsact,
        }
    }

    /// Whether the interface is still there.
    ///
    /// # Errors
    /// [`Error::Gone`]: it was removed, though one of its name may be there; what the kernel says.
    pub fn stands(&self) -> Result<(), Error> {
        let is_there = match &self.attached {
            Attached::Links { leaving, .. } => {
                let info = leaving.info().map_err(Error::bpf("look at a link"))?;
                // The kernel ends the link with the interface.
                !matches!(info.info, LinkTypeInfo::Tcx(found) if found.ifindex == 0)
            }
            Attached::Filters { index } => {
                let found = self.namespace.visit(|| index_of(&self.interface, &self.namespace));
                found.is_ok_and(|found| found == *index)
            }
        };
        let gone = || Error::Gone(format!("interface {}", self.interface));
        if !is_there {
            return Err(gone());
        }
        let Some(spacer) = &self.spacer else { return Ok(()) };
        self.namespace.visit(|| spacer.stands(&self.namespace))
    }

    /// Watches the queue, or stops. The agent has checked the thresholds.
    ///
    /// # Errors
    /// [`Error::Setting`]: a rate or a buffer of zero.
    pub fn watch(&mut self, watch: Option<Watch>) -> Result<(), Error> {
        if let Some(watch) = watch {
            let nothing = matches!(watch.buffer, Buffer::Packets(0) | Buffer::Bytes(Bytes::ZERO));
            if watch.rate == Rate::ZERO || nothing {
                let remedy = "the rate and the buffer must be above zero";
                return Err(Error::Setting { setting: "watch", remedy });
            }
        }
        self.watch = watch;
        self.configure()
    }

    /// Whether openings and endings are told as events. Who asks anew is told of all that is open, of each when
    /// its sender has something to send again.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn punt(&mut self, punt: bool) -> Result<(), Error> {
        self.punted = self.punted.checked_add(1).unwrap_or(1);
        self.punt = punt.then_some(self.punted);
        self.configure()
    }

    /// Caps the windows of acknowledgements that come back for a connection, or for all that have no
    /// entry of their own, under the lease that was renewed last; `None` removes the entry. As the watched queue
    /// passes thresholds, the next acknowledgement is capped by what is said for that severity.
    ///
    /// # Errors
    /// [`Error::Unnamed`], [`Error::Crowded`], or what the kernel says.
    pub fn cap(
        &mut self,
        connection: Option<&Connection>,
        caps: Option<Caps>,
    ) -> Result<(), Error> {
        let key = connection.map_or(Ok([0; CONNECTION]), key)?;
        let value = caps.map(|caps| {
            let value = Value::default().u64(self.leases.epoch()).u64(0);
            Severity::ALL.into_iter().fold(value, |value, severity| {
                let (octets, floor) = caps.at(severity).map_or((UNCAPPED, 0), |cap| {
                    let octets = u32::try_from(cap.bytes.get()).unwrap_or(UNCAPPED);
                    (octets, cap.floor_segments)
                });
                value.u32(octets).u32(floor)
            })
        });
        put(&self.object, "windows", &key, value)
    }

    /// Whether a connection's windows are left alone, whatever cap there is: packets of it have passed, and not both of
    /// its SYNs are known. It was there before the port, a SYN passed elsewhere or broke off, or the port has forgotten
    /// it ([`PortOptions::connections`]). While only its sender's SYN has passed it is opening: the answer may come yet.
    ///
    /// # Errors
    /// [`Error::Unnamed`], or what the kernel says.
    pub fn is_unscaled(&self, connection: &Connection) -> Result<bool, Error> {
        let flow = map(&self.object, "flows").lookup(&key(connection)?, MapFlags::ANY);
        let flow = flow.map_err(Error::bpf("read a flow"))?;
        Ok(flow.is_some_and(|flow| {
            let passed = Passed::read(&flow);
            let is_opening = passed.has(SENDER_SYN) && passed.first == passed.last;
            !(passed.has(SENDER_SYN | RECEIVER_SYN) || is_opening)
        }))
    }

    /// Spaces the acknowledgements that come back, of all connections together, under the lease that was renewed
    /// last: two are never let go within less than `gap`; `None` lets all pass as they come, those that wait
    /// too. One that had to wait for longer than `most` passes at once. They wait in an ifb device beside the interface,
    /// which is there from the first call on until the port is taken off.
    ///
    /// # Errors
    /// [`Error::Setting`]: the interface has no Ethernet header; the kernel has no ifb devices, or no HTB.
    pub fn space(&mut self, gap: Option<Span>, most: Span) -> Result<(), Error> {
        let zero = 0u32.to_ne_bytes();
        let Some(gap) = gap else {
            put(&self.object, "spaces", &zero, None)?;
            return self.spacer.as_ref().map_or(Ok(()), |spacer| spacer.space(None));
        };
        if !self.options.ethernet {
            let remedy = "only interfaces with an Ethernet header can space acknowledgements";
            return Err(Error::Setting { setting: "interface", remedy });
        }
        let spacer = match &mut self.spacer {
            Some(spacer) => spacer,
            None => {
                let namespace = &self.namespace;
                let index = namespace.visit(|| index_of(&self.interface, namespace))?;
                self.spacer.insert(Spacer::start(namespace, index)?)
            }
        };
        spacer.space(Some(gap))?;
        let value = Value::default()
            .u64(self.leases.epoch())
            .u64(gap.as_nanos())
            .u64(most.as_nanos())
            .u32(spacer.device().cast_unsigned())
            .u32(0);
        put(&self.object, "spaces", &zero, Some(value))
    }

    /// When a cap was first written into an acknowledgement; `None`: not yet, or there is no such
    /// entry.
    ///
    /// # Errors
    /// [`Error::Unnamed`], or what the kernel says.
    pub fn capped_since(&self, connection: Option<&Connection>) -> Result<Option<Time>, Error> {
        let key = connection.map_or(Ok([0; CONNECTION]), key)?;
        let value = map(&self.object, "windows").lookup(&key, MapFlags::ANY);
        let first = value.map_err(Error::bpf("read a window"))?.map_or(0, |value| {
            let mut fields = Fields(&value);
            let [_epoch, first] = [fields.u64(), fields.u64()];
            first
        });
        Ok((first > 0).then(|| Time::from_nanos(first)))
    }

    /// Puts a connection's packets into a class of the interface's HTB, `major:minor` as `tc` writes
    /// it, under the lease that was renewed last; `None` leaves them to the filters and the default
    /// class.
    ///
    /// # Errors
    /// [`Error::Unnamed`], [`Error::Crowded`], or what the kernel says.
    pub fn classify(
        &mut self,
        connection: &Connection,
        class: Option<(u16, u16)>,
    ) -> Result<(), Error> {
        let value = class.map(|(major, minor)| {
            Value::default()
                .u64(self.leases.epoch())
                .u32(u32::from(major) << 16 | u32::from(minor))
                .u32(0)
        });
        put(&self.object, "classes", &key(connection)?, value)
    }

    /// Removes the windows, classes and gaps whose lease is over at `now`; returns how many.
    pub(crate) fn remove_ended(&self, now: Time) -> Result<usize, Error> {
        let mut removed = 0;
        for name in ["windows", "classes", "spaces"] {
            let entries = map(&self.object, name);
            let mut over = Vec::new();
            for key in entries.keys() {
                let value = entries.lookup(&key, MapFlags::ANY).map_err(Error::bpf("read"))?;
                if value.is_some_and(|value| self.leases.end(Fields(&value).u64()) <= now) {
                    over.push(key);
                }
            }
            for key in &over {
                entries.delete(key).map_err(Error::bpf("remove an entry"))?;
            }
            removed += over.len();
        }
        Ok(removed)
    }

    /// The TCP flows that passed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn flows(&self) -> Result<Vec<Flow>, Error> {
        let flows = map(&self.object, "flows");
        let mut found = Vec::new();
        for key in flows.keys() {
            let value = flows.lookup(&key, MapFlags::ANY).map_err(Error::bpf("read a flow"))?;
            let Some(value) = value else { continue };
            let passed = Passed::read(&value);
            // Windows are scaled only where both SYNs say so (RFC 7323, section 2.2).
            let scale = if passed.has(SENDER_SCALE | RECEIVER_SCALE) { passed.scale } else { 0 };
            found.push(Flow {
                connection: Fields(&key).connection(),
                first: passed.first,
                last: passed.last,
                scale: passed.has(SENDER_SYN | RECEIVER_SYN).then_some(scale),
                closed: passed.has(CLOSED),
            });
        }
        Ok(found)
    }

    /// What it has counted.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counters(&self) -> Result<Counters, Error> {
        let counters = map(&self.object, "counters");
        let values = counters
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::bpf("read counters"))?
            .unwrap_or_default();
        let mut sum = [0u64; 11];
        for value in &values {
            let mut fields = Fields(value);
            for counter in &mut sum {
                *counter += fields.u64();
            }
        }
        let [packets, carried, over, marked, classed, acknowledgements, rewritten, unscaled, ..] =
            sum;
        let [.., malformed, lost, spaced] = sum;
        Ok(Counters {
            packets,
            carried: Bytes::new(carried),
            over,
            marked,
            classed,
            acknowledgements,
            rewritten,
            unscaled,
            malformed,
            lost,
            spaced,
        })
    }

    /// As it was attached.
    pub const fn options(&self) -> &PortOptions {
        &self.options
    }

    /// What becomes of a packet, Ethernet header and all, that leaves: for tests, on no wire.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn pass_out(&self, packet: &[u8]) -> Result<Vec<u8>, Error> {
        self.pass_out_as(packet, 1)
    }

    /// The same of one that the kernel cuts into so many packets only when they have passed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn pass_out_as(&self, packet: &[u8], packets: u32) -> Result<Vec<u8>, Error> {
        self.pass("leaving", packet, packets, 1).map(|ran| ran.passed)
    }

    /// The class `major:minor` that a packet leaves in, `None` where the programs leave it to the filters: for
    /// tests, on no wire.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn class_out(&self, packet: &[u8]) -> Result<Option<(u16, u16)>, Error> {
        let priority = self.pass("leaving", packet, 1, 1)?.priority;
        Ok((priority != 0).then_some(((priority >> 16) as u16, (priority & 0xffff) as u16)))
    }

    /// What becomes of a packet that comes in: for tests, on no wire.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn pass_in(&self, packet: &[u8]) -> Result<Vec<u8>, Error> {
        self.pass("returning", packet, 1, 1).map(|ran| ran.passed)
    }

    /// Whether a packet that comes in is sent to wait: for tests, on no wire.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn waits_in(&self, packet: &[u8]) -> Result<bool, Error> {
        self.pass("returning", packet, 1, 1).map(|ran| ran.redirected)
    }

    /// The virtual queue as the last packet left it: for tests.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn queue(&self) -> Result<Queue, Error> {
        let value = map(&self.object, "queues").lookup(&0u32.to_ne_bytes(), MapFlags::LOCK);
        let value = value.map_err(Error::bpf("read a queue"))?.unwrap_or_default();
        let mut fields = Fields(&value);
        let [_lock, severity] = [fields.u32(), fields.u32()];
        let [above, seen, recovered, recoveries, due] = [(); 5].map(|()| fields.u64());
        let [first, end] = [fields.u32(), fields.u32()];
        let ring = fields.0;
        let packets = |number: u32| {
            // The ring has a place more, which stays free.
            let place = 16 * (number % (Thresholds::MOST_LIVE + 1)) as usize;
            let mut fields = Fields(ring.get(place..).unwrap_or(&[]));
            let _leaves = fields.u64();
            fields.u32()
        };
        Ok(Queue {
            severity: severity_of(severity).unwrap_or(Severity::Recovered),
            above: Time::from_nanos(above),
            seen: Time::from_nanos(seen),
            recovered: Time::from_nanos(recovered),
            recoveries,
            due: Time::from_nanos(due),
            packets: packets(end.wrapping_sub(1)).wrapping_sub(packets(first.wrapping_sub(1))),
        })
    }

    /// How long the programs take for a packet that leaves and for one that comes in, each on average
    /// over so many rounds, on no wire.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn cost(&self, leaving: &[u8], returning: &[u8], rounds: u32) -> Result<[Span; 2], Error> {
        let leaving = self.pass("leaving", leaving, 1, rounds)?;
        let returning = self.pass("returning", returning, 1, rounds)?;
        Ok([leaving.took, returning.took])
    }

    fn pass(&self, name: &str, packet: &[u8], packets: u32, rounds: u32) -> Result<Ran, Error> {
        let mut passed = vec![0; packet.len()];
        // `struct __sk_buff` up to `gso_segs`, its last field here.
        let mut context = [0; 168];
        // With room for those of later kernels.
        let mut after = [0; 512];
        context[164..].copy_from_slice(&packets.to_ne_bytes());
        let input = ProgramInput {
            context_in: Some(&mut context),
            context_out: Some(&mut after),
            data_in: Some(packet),
            data_out: Some(&mut passed),
            repeat: rounds,
            ..ProgramInput::default()
        };
        let ran = program_mut(&self.object, name)
            .test_run(input)
            .map_err(Error::bpf("run a packet through"))?;
        let took = Span::from_nanos(u64::try_from(ran.duration.as_nanos()).unwrap_or(u64::MAX));
        // `TC_ACT_REDIRECT`.
        let redirected = ran.return_value == 7;
        // After `len`, `pkt_type`, `mark`, `queue_mapping`, `protocol` and three fields of VLANs.
        let priority = Fields(&after[32..]).u32();
        Ok(Ran { passed, redirected, priority, took })
    }

    fn configure(&self) -> Result<(), Error> {
        configure(&self.object, self.number, &self.options, self.watch, self.punt)
    }
}

fn configure(
    object: &Object,
    number: PortNumber,
    options: &PortOptions,
    watch: Option<Watch>,
    punt: Option<u32>,
) -> Result<(), Error> {
    let value = match watch {
        None => Value::default().u64(0).u64(0).u64(0).u32(0).u32(0).u32(0).u32(0).u32(u32::MAX),
        Some(watch) => {
            let (limit, room) = match watch.buffer {
                Buffer::Bytes(bytes) => (watch.rate.time_for(bytes).as_nanos(), u32::MAX),
                Buffer::Packets(packets) => (u64::MAX, packets),
                Buffer::Unlimited => (u64::MAX, u32::MAX),
            };
            let never = Thresholds {
                low: u32::MAX,
                medium: u32::MAX,
                high: u32::MAX,
                recovery: Span::ZERO,
            };
            let thresholds = watch.thresholds.unwrap_or(never);
            Value::default()
                .u64(watch.rate.bytes_in(Span::from_secs(1)).get().max(1))
                .u64(limit)
                .u64(thresholds.recovery.as_nanos())
                .u32(room)
                .u32(thresholds.low)
                .u32(thresholds.medium)
                .u32(thresholds.high)
                .u32(watch.mark.unwrap_or(u32::MAX))
        }
    };
    let value = value
        .u32(if options.ethernet { 14 } else { 0 })
        .u32(u32::try_from(options.segment.get()).unwrap_or(u32::MAX))
        .u32(number.0)
        .u32(punt.unwrap_or(0))
        .u32(0);
    put(object, "port", &0u32.to_ne_bytes(), Some(value))
}

fn put(object: &Object, name: &str, key: &[u8], value: Option<Value>) -> Result<(), Error> {
    let entries = map(object, name);
    match value {
        Some(value) => {
            entries.update(key, &value.done(), MapFlags::ANY).map_err(|error| match error.kind() {
                libbpf_rs::ErrorKind::TooBig => Error::Crowded(entries.max_entries()),
                _ => Error::bpf("write an entry of a port")(error),
            })
        }
        None => match entries.delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(Error::bpf("remove an entry of a port")(error))
            }
            _ => Ok(()),
        },
    }
}

/// Whether an interface of the calling thread's namespace has all these classes, and packets can wait there:
/// HTB puts those of a class with others below it where filters say, else into its default class, like those
/// of one that isn't there.
fn find_classes(index: i32, interface: &str, classes: &[(u16, u16)]) -> Result<(), Error> {
    if classes.is_empty() {
        return Ok(());
    }
    let (mut there, mut above) = (BTreeSet::new(), BTreeSet::new());
    Rtnetlink::open()
        .and_then(|socket| {
            socket.dump(Dump::Classes(index), |class| {
                there.insert(class.handle);
                above.insert(class.parent);
                Ok(())
            })
        })
        .map_err(Error::file("RTM_GETTCLASS"))?;
    let leaves = &there - &above;
    let handle = |(major, minor): (u16, u16)| u32::from(major) << 16 | u32::from(minor);
    let written = |class: u32| format!("{:x}:{:x}", class >> 16, class & 0xffff);
    match classes.iter().copied().map(handle).find(|class| !leaves.contains(class)) {
        None => Ok(()),
        Some(class) => Err(Error::NoClass {
            class: written(class),
            interface: interface.to_owned(),
            there: match leaves.into_iter().map(written).collect::<Vec<_>>() {
                none if none.is_empty() => "none".to_owned(),
                some => some.join(", "),
            },
        }),
    }
}

fn by_links(object: &Object, index: i32) -> Result<Attached, Error> {
    let attach = |name| {
        raw::attach_tcx(&program_mut(object, name), index).map_err(Error::bpf("attach by tcx"))
    };
    Ok(Attached::Links { leaving: attach("leaving")?, _returning: attach("returning")? })
}

fn by_filters(object: &Object, index: i32) -> Result<Attached, Error> {
    for mut hook in filters(object, index) {
        // The discipline may be there already, and others may have filters on it: so it also stays.
        let _ = hook.create();
        hook.attach().map_err(Error::bpf("attach by clsact"))?;
    }
    Ok(Attached::Filters { index })
}

/// Whether there is no such filter.
fn is_free(hook: &mut TcHook) -> bool {
    hook.query().is_err_and(|error| error.kind() == libbpf_rs::ErrorKind::NotFound)
}

fn filters(object: &Object, index: i32) -> [TcHook; 2] {
    [("leaving", TC_EGRESS), ("returning", TC_INGRESS)].map(|(name, point): (_, TcAttachPoint)| {
        TcHookBuilder::new(program(object, name).as_fd())
            .ifindex(index)
            .replace(true)
            .handle(1)
            .priority(PRIORITY)
            .hook(point)
    })
}
