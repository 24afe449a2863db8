//! Holding connections to rates, where their sockets are.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, ProgInfoIter};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, OpenObject};
use protocol::Connection;
use units::{Bytes, Rate, Span, Time};

use crate::ended::Endings;
use crate::layout::{Fields, Value, key};
use crate::lease::Leases;
use crate::objects::{PACE, map, map_mut, open_map, program, program_mut};
use crate::pins::Pins;
use crate::{Ended, Error, Lease, Namespace, Statistics, clock, statistics, unified_mount};

/// The maps that survive the agent.
const KEPT: [&str; 4] = ["leases", "limits", "sockets", "held"];

/// Whose connections, and where what survives is kept.
#[derive(Clone, Debug)]
pub struct PacerOptions {
    /// The control group whose processes' connections are governed; `None`: all.
    pub cgroup: Option<PathBuf>,
    /// Where a BPF file system is, or will be mounted.
    pub pins: PathBuf,
    /// Tells pacers of one machine apart.
    pub name: String,
    /// How many connections can have a limit at a time.
    pub limits: u32,
    /// How many that ended can wait to be told.
    pub ended: u32,
}

impl Default for PacerOptions {
    fn default() -> Self {
        Self {
            cgroup: None,
            pins: "/run/watermaster/bpf".into(),
            name: "agent".to_owned(),
            limits: 65_536,
            ended: 65_536,
        }
    }
}

/// A limit that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The connection, in the direction of its data.
    pub connection: Connection,
    /// Frame bytes per second.
    pub rate: Rate,
    /// When it ends by itself; zero where it has no lease any more.
    pub expires: Time,
    /// Who set it.
    pub epoch: u64,
}

/// How a pacer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Stopped {
    /// No connection is held, and nothing is left.
    Clean,
    /// Connections are still held: in namespaces that it couldn't reach, or lower by another agent, which gives them
    /// back as they were. The programs stay to let them go, each with its next acknowledgement, or once the other has
    /// let it go; stop again to remove them.
    Lingering {
        /// How many.
        held: u64,
    },
}

/// Holds connections to rates. Dropped without [`Pacer::stop`], it leaves its programs to end the
/// leases, as it does when its process is killed; the next one of the same name goes on from there.
pub struct Pacer {
    // Before what it reads from, so that it is dropped first.
    endings: Endings,
    object: Object,
    pins: Pins,
    leases: Leases,
    /// The control group, and its number.
    group: (PathBuf, u64),
    // Kept attached by its pin, and by this while there is none.
    link: Link,
}

impl Pacer {
    /// Governs the connections of a control group from their beginning; those that exist already
    /// need [`Pacer::adopt`].
    ///
    /// # Errors
    /// What the kernel doesn't give or allow; [`Error::Incompatible`] when another version's maps are
    /// in the way; [`Error::Taken`] when another pacer of this name runs. Nothing is left behind.
    pub fn start(options: &PacerOptions) -> Result<Self, Error> {
        clock::check()?;
        let group = match &options.cgroup {
            Some(path) => path.clone(),
            None => unified_mount()?,
        };
        let directory = File::open(&group).map_err(Error::file(&group))?;
        let identity = directory.metadata().map_err(Error::file(&group))?.ino();
        let pins = Pins::at(&options.pins, &options.name)?;
        match govern(&pins, &directory, identity, options) {
            Ok((object, leases, link, endings)) => {
                let group = (group, identity);
                Ok(Self { endings, object, pins, leases, group, link })
            }
            Err(error) => {
                // The first error is the one that tells.
                let _ = pins.undo();
                Err(error)
            }
        }
    }

    /// How many other agents govern connections that this one governs too: those of its control group, of one
    /// around it, or, where it governs all, of any. One that was killed counts as long as its pins are there.
    pub fn rivals(&self) -> usize {
        let (path, identity) = &self.group;
        let number = |group: &Path| Some(fs::metadata(group).ok()?.ino());
        let root = unified_mount().unwrap_or_default();
        let around = path.ancestors().take_while(|group| group.starts_with(&root));
        let around: Vec<u64> = around.filter_map(number).collect();
        let governs_all = number(&root) == Some(*identity);
        let is_rival = |group: &u64| governs_all || around.contains(group);
        self.others().filter(is_rival).count()
    }

    /// The control groups that programs of other agents govern.
    fn others(&self) -> impl Iterator<Item = u64> {
        let programs = ProgInfoIter::default().filter(|program| program.name == "govern");
        let programs: Vec<u32> = programs.map(|program| program.id).collect();
        let own = self.link.info().map(|info| info.id).ok();
        let others = LinkInfoIter::default()
            .filter(move |link| Some(link.id) != own && programs.contains(&link.prog_id));
        others.filter_map(|link| match link.info {
            LinkTypeInfo::Cgroup(of) => Some(of.cgroup_id),
            _ => None,
        })
    }

    /// Whether the control group is still there.
    ///
    /// # Errors
    /// [`Error::Gone`]: it was removed, though one of its path may be there.
    pub fn stands(&self) -> Result<(), Error> {
        let (path, identity) = &self.group;
        let found = fs::metadata(path).map(|found| found.ino());
        if found.is_ok_and(|found| found == *identity) {
            return Ok(());
        }
        Err(Error::Gone(format!("control group {}", path.display())))
    }

    /// Takes over the connections of a namespace that were there before, of the control group where one is
    /// given, and applies at once what stands for them. Those of other groups that an earlier pacer held are
    /// let go. Returns how many there are; 0 although there are some says that this kernel
    /// can't (before 6.13): they stay untouched.
    ///
    /// # Errors
    /// The namespace can't be entered.
    pub fn adopt(&self, namespace: &Namespace) -> Result<usize, Error> {
        adopt(&self.object, namespace)
    }

    /// Holds a connection to a rate of frame bytes under the lease that was renewed last, or lets it
    /// go. It may exist already, or begin while the lease lasts. Obeyed with its next acknowledgement. The
    /// agent has checked the rate.
    ///
    /// # Errors
    /// [`Error::Unnamed`], [`Error::Full`], or what the kernel says.
    pub fn pace(&mut self, connection: &Connection, limit: Option<Rate>) -> Result<(), Error> {
        let key = key(connection)?;
        let Some(rate) = limit else { return self.forget(&key) };
        let octets = rate.bytes_in(Span::from_secs(1)).get();
        let value = Value::default().u64(octets).u64(self.leases.epoch());
        let limits = map(&self.object, "limits");
        limits.update(&key, &value.done(), MapFlags::ANY).map_err(|error| match error.kind() {
            libbpf_rs::ErrorKind::TooBig => Error::Full(limits.max_entries()),
            _ => Error::bpf("write a limit")(error),
        })
    }

    /// How many connections can be held: as many as the map that an earlier agent left can, or as the
    /// options say.
    pub fn room(&self) -> u32 {
        map(&self.object, "limits").max_entries()
    }

    /// Begins a lease, or makes it last from `now` on, for all that was granted under its epoch and
    /// still stands. It costs the same however many that are.
    ///
    /// # Errors
    /// [`Error::Stale`], or what the kernel says.
    pub fn renew(&mut self, now: Time, lease: Lease) -> Result<(), Error> {
        self.leases.renew(now, lease, || self.remove_ended(now))
    }

    /// Removes the limits whose lease is over at `now`, which makes room; returns how many.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sweep(&mut self, now: Time) -> Result<usize, Error> {
        self.leases.sweep(now, || self.remove_ended(now))
    }

    fn remove_ended(&self, now: Time) -> Result<usize, Error> {
        let mut ended = self.limits()?;
        ended.retain(|limit| limit.expires <= now);
        ended.iter().try_for_each(|limit| self.forget(&key(&limit.connection)?))?;
        Ok(ended.len())
    }

    /// The limits in the map, those that ended and weren't swept too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn limits(&self) -> Result<Vec<Limit>, Error> {
        let limits = map(&self.object, "limits");
        let mut found = Vec::new();
        for key in limits.keys() {
            let value = limits.lookup(&key, MapFlags::ANY).map_err(Error::bpf("read a limit"))?;
            let Some(value) = value else { continue };
            let mut fields = Fields(&value);
            let (octets, epoch) = (Bytes::new(fields.u64()), fields.u64());
            found.push(Limit {
                connection: Fields(&key).connection(),
                rate: Rate::of(octets, Span::from_secs(1)),
                expires: self.leases.end(epoch),
                epoch,
            });
        }
        Ok(found)
    }

    /// The leases.
    pub fn leases(&self) -> agent::Leases {
        self.leases.known().clone()
    }

    /// How the open connections of some namespaces stand that began since the start or were adopted.
    ///
    /// # Errors
    /// A namespace can't be entered, or what the kernel says.
    pub fn statistics(&self, namespaces: &[Namespace]) -> Result<Vec<Statistics>, Error> {
        statistics::all(&self.object, namespaces)
    }

    /// The connections of some namespaces that have sent something and have ended since this was asked last, in the order
    /// of their ends; and how many more, of any, found no room.
    ///
    /// # Errors
    /// A namespace is gone, or what the kernel says.
    pub fn ended(&mut self, namespaces: &[Namespace]) -> Result<(Vec<Ended>, u64), Error> {
        self.endings.take(namespaces)
    }

    /// How many open connections, in whatever namespace, have a limit applied.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn held(&self) -> Result<u64, Error> {
        let held = map(&self.object, "held");
        let value = held.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(Error::bpf("read how many are held"))?;
        Ok(value.map_or(0, |value| Fields(&value).u64()))
    }

    /// Lets all connections go, those of the given namespaces at once, and removes what it made.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn stop(self, namespaces: &[Namespace]) -> Result<Stopped, Error> {
        for limit in self.limits()? {
            self.forget(&key(&limit.connection)?)?;
        }
        let is_alone = u64::from(self.others().next().is_none());
        map(&self.object, "alone")
            .update(&0_u32.to_ne_bytes(), &is_alone.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::bpf("say whether there are other agents"))?;
        for namespace in namespaces {
            self.adopt(namespace)?;
        }
        let held = self.held()?;
        if held > 0 {
            return Ok(Stopped::Lingering { held });
        }
        self.pins.remove()?;
        Ok(Stopped::Clean)
    }

    /// Undoes [`Pacer::start`] when what belongs to it can't start. What an earlier pacer had left stays
    /// until its leases end.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn withdraw(self) -> Result<(), Error> {
        self.pins.undo()
    }

    fn forget(&self, key: &[u8]) -> Result<(), Error> {
        match map(&self.object, "limits").delete(key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(Error::bpf("remove a limit")(error))
            }
            _ => Ok(()),
        }
    }
}

/// Loads the program with the maps that are pinned, pins those that aren't, and attaches it.
fn govern(
    pins: &Pins,
    group: &File,
    identity: u64,
    options: &PacerOptions,
) -> Result<(Object, Leases, Link, Endings), Error> {
    let mut object = PACE.open()?;
    open_map(&mut object, "limits")
        .set_max_entries(options.limits)
        .map_err(Error::bpf("size the map of limits"))?;
    open_map(&mut object, "ended")
        .set_max_entries(Endings::size(options.ended))
        .map_err(Error::bpf("size the ring of what has ended"))?;
    for name in KEPT {
        inherit(&mut object, pins, name)?;
    }
    let mut object = PACE.load(object)?;
    for name in KEPT {
        if pins.existing(name).is_none() {
            map_mut(&mut object, name).pin(pins.path(name)).map_err(Error::bpf("pin a map"))?;
        }
    }
    if options.cgroup.is_some() {
        map(&object, "group")
            .update(&0_u32.to_ne_bytes(), &identity.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::bpf("name the control group"))?;
    }
    let endings = Endings::of(&object)?;
    let link = attach(&object, pins, group, identity)?;
    let map = MapHandle::try_from(&map(&object, "leases"));
    let leases = Leases::left_in(map.map_err(Error::bpf("hold the map of leases"))?)?;
    Ok((object, leases, link, endings))
}

/// As [`Pacer::adopt`].
pub(crate) fn adopt(object: &Object, namespace: &Namespace) -> Result<usize, Error> {
    statistics::iterate(object, "adopt", namespace).map(|marks| marks.len())
}

/// Uses the map that an earlier agent left, with what stands in it.
fn inherit(object: &mut OpenObject, pins: &Pins, name: &'static str) -> Result<(), Error> {
    let Some(path) = pins.existing(name) else { return Ok(()) };
    let incompatible = |source| Error::Incompatible { path: path.clone(), source };
    let left = MapHandle::from_pinned_path(&path).map_err(incompatible)?;
    let mut ours = open_map(object, name);
    if (left.key_size(), left.value_size()) != (ours.key_size(), ours.value_size()) {
        return Err(incompatible(std::io::Error::other("other sizes").into()));
    }
    ours.reuse_pinned_map(&path).map_err(incompatible)
}

/// Puts the program of a loaded object in the place of an earlier agent's, or into an empty one. At no
/// time does none govern.
fn attach(object: &Object, pins: &Pins, group: &File, identity: u64) -> Result<Link, Error> {
    let path = pins.path("link");
    if path.exists() {
        let mut left = Link::open(&path).map_err(Error::bpf("open the link left behind"))?;
        let info = left.info().map_err(Error::bpf("look at the link left behind"))?;
        if matches!(info.info, LinkTypeInfo::Cgroup(found) if found.cgroup_id == identity) {
            left.update_prog(&program(object, "govern"))
                .map_err(Error::bpf("replace a program"))?;
            return Ok(left);
        }
    }
    let mut link =
        program_mut(object, "govern").attach_cgroup(group.as_raw_fd()).map_err(Error::NotGroup)?;
    remove_if_there(&path)?;
    link.pin(&path).map_err(Error::bpf("pin a link"))?;
    Ok(link)
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    if path.exists() { fs::remove_file(path).map_err(Error::file(path)) } else { Ok(()) }
}
