//! Building, attaching to and removing a lab.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use kernel::Dctcp;
use model::{NodeKind, Topology};
use serde::Serialize;
use wire::client::Address;

use crate::blueprint::{Blueprint, End, Forwarding};
use crate::cgroup::TRAFFIC;
use crate::journal::{self, Journal, Phase, Process};
use crate::namespace::{self, Inside, Mark, batch, run};
use crate::{Error, Switches, Transport, cgroup, configuration, ovs, place};

/// How to build a lab, apart from its topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Its name; each namespace is called `wm-NAME-NODE`.
    pub name: String,
    /// What forwards.
    pub switches: Switches,
    /// Whether hosts use segmentation offload, as real ones do: for rates at which single packets
    /// are too much for the machine. Buffers then count large packets. Not with Open vSwitch.
    pub segmentation: bool,
    /// Whether it ends with its maker.
    pub passing: bool,
    /// The scenario file, recorded with it; may be empty.
    pub scenario: String,
    /// Changes to that, `PATH=VALUE`.
    pub changes: Vec<String>,
}

/// Most strict priorities of a port: HTB knows eight, of which the first is kept for SYNs.
pub const LEVELS: u8 = 7;

/// A virtual cluster.
#[derive(Debug)]
pub struct Lab {
    pub(crate) journal: Journal,
    pub(crate) blueprint: Blueprint,
    /// Locked while a scenario runs in a lab that stands.
    _run: Option<File>,
}

/// The result of removing a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Namespaces removed.
    pub namespaces: Vec<String>,
    /// Namespaces of its names that belong to others and were kept.
    pub left: Vec<String>,
}

impl Lab {
    /// Builds a lab. First removes what a killed process left half made under the same name, and
    /// temporary labs of dead makers.
    ///
    /// # Errors
    /// No root, a name in use, a topology that can't be built, a command that failed; what
    /// was made is removed.
    pub fn up(topology: &Topology, order: &Order) -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let mut blueprint = Blueprint::new(topology, order.switches)?;
        if order.segmentation && blueprint.forwarding == Forwarding::Ovs {
            let why = "segmentation can't be left to the interface with Open vSwitch's user-space \
                       datapath; use switches = \"bridge\"";
            return Err(Error::Topology(why.into()));
        }
        blueprint.segmentation = order.segmentation;
        let rooms = blueprint.rooms();
        let mut journal = Journal::new(&order.name, order.switches)?;
        // What `read` refuses could be removed by nobody.
        let named = |room: &&String| journal::check_name(&journal.namespace(room)).is_err();
        if let Some(room) = rooms.keys().find(named) {
            return Err(Error::Name(journal.namespace(room)));
        }
        let lock = journal::lock()?;
        for other in Journal::all()?.into_iter().flatten() {
            if other.is_orphaned() {
                remove(&other)?;
            } else if other.name == order.name {
                return Err(Error::Taken(order.name.clone()));
            }
        }
        journal.passing = order.passing;
        journal.scenario.clone_from(&order.scenario);
        journal.changes.clone_from(&order.changes);
        journal.namespaces = rooms.keys().map(|room| journal.namespace(room)).collect();
        if blueprint.forwarding == Forwarding::Ovs {
            journal.cgroup = Some(cgroup::path(&journal.name, &journal.token)?);
        }
        let foreign = journal.namespaces.iter().find(|name| namespace::path(name).exists());
        if let Some(name) = foreign {
            return Err(Error::Foreign(name.clone()));
        }
        journal.write()?;
        let mut lab = Self { journal, blueprint, _run: None };
        let built = lab.build().and_then(|()| {
            lab.journal.phase = Phase::Up;
            lab.journal.write()
        });
        if built.is_err() {
            // Report the first fault.
            let _ = remove(&lab.journal);
        }
        // A passing lab takes it when it is dropped.
        drop(lock);
        built.map(|()| lab)
    }

    /// Attaches to the lab `name`, which was built for `topology`, as the only one.
    ///
    /// # Errors
    /// There is none, or one of another topology, or another is attached.
    pub fn attach(name: &str, topology: &Topology) -> Result<Self, Error> {
        let journal = Journal::read(name)?.ok_or_else(|| Error::None(name.to_owned()))?;
        let blueprint = Blueprint::new(topology, journal.switches)?;
        let rooms = blueprint.rooms().into_keys().map(|room| journal.namespace(&room));
        let same = rooms.collect::<BTreeSet<_>>() == journal.namespaces.iter().cloned().collect();
        if !same || journal.phase != Phase::Up {
            return Err(Error::Other(name.to_owned()));
        }
        let run = journal.occupy()?;
        Ok(Self { journal, blueprint, _run: Some(run) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.journal.name
    }

    /// Where its nodes are.
    pub const fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// From the next [`Lab::speak`] on, ports of the kernel's switches have `levels` strict
    /// priorities, 1 to [`LEVELS`], each with the port's buffer.
    pub fn prioritize(&mut self, levels: u8) {
        self.blueprint.levels = levels.clamp(1, LEVELS);
    }

    /// The folder of its processes' files.
    pub fn folder(&self) -> &Path {
        &self.journal.folder
    }

    /// Where its controller listens, when daemons govern it.
    pub fn controller(&self) -> Address {
        Address::Unix(self.journal.folder.join(configuration::SOCKET))
    }

    /// From now on it doesn't end with its maker.
    ///
    /// # Errors
    /// It can't be written down.
    pub fn keep(&mut self) -> Result<(), Error> {
        self.journal.passing = false;
        self.journal.write()
    }

    /// The control group of its processes, written down before it is made.
    pub(crate) fn group(&mut self) -> Result<PathBuf, Error> {
        if let Some(group) = &self.journal.cgroup {
            return Ok(group.clone());
        }
        let group = cgroup::path(&self.journal.name, &self.journal.token)?;
        self.journal.cgroup = Some(group.clone());
        self.journal.write()?;
        cgroup::create(&group)?;
        Ok(group)
    }

    pub(crate) fn namespace(&self, node: model::NodeId) -> String {
        self.journal.namespace(self.blueprint.room(node))
    }

    fn build(&self) -> Result<(), Error> {
        let journal = &self.journal;
        let _ = fs::remove_dir_all(&journal.folder);
        fs::create_dir(&journal.folder)
            .map_err(|error| Error::State(format!("{}: {error}", journal.folder.display())))?;
        let add: Vec<String> =
            journal.namespaces.iter().map(|name| format!("netns add {name}")).collect();
        batch("ip", None, &add)?;
        let rooms = self.blueprint.rooms();
        for (room, nodes) in &rooms {
            let name = journal.namespace(room);
            run("ip", &["-n", &name, "link", "set", "lo", "up", "alias", &journal.mark()], "")?;
            let inside = Inside::enter(&name)?;
            // Only the flows use the cables.
            for key in ["all", "default"] {
                inside.set(&format!("net/ipv6/conf/{key}/disable_ipv6"), "1")?;
                inside.set(&format!("net/ipv4/conf/{key}/rp_filter"), "0")?;
                inside.set(&format!("net/ipv4/conf/{key}/send_redirects"), "0")?;
            }
            let routes = self.blueprint.forwarding == Forwarding::Routed
                && nodes.iter().any(|node| self.kind(*node) == NodeKind::Switch);
            if routes {
                inside.set("net/ipv4/ip_forward", "1")?;
                // Hash of addresses and ports, as for ECMP.
                inside.set("net/ipv4/fib_multipath_hash_policy", "1")?;
            }
        }
        const MTU: u32 = 1500;
        let cables = self.blueprint.cable_lines(|room| journal.namespace(room), MTU);
        batch("ip", None, &cables)?;
        for (room, nodes) in &rooms {
            batch("ip", Some(&journal.namespace(room)), &self.blueprint.address_lines(nodes))?;
        }
        if let Some(cgroup) = &journal.cgroup {
            cgroup::create(cgroup)?;
            for host in self.blueprint.topology.hosts() {
                // The user-space datapath doesn't compute checksums left to the card.
                let name = self.namespace(host);
                run("ip", &["netns", "exec", &name, "ethtool", "-K", "eth0", "tx", "off"], "")?;
            }
            ovs::start(&self.journal, &self.blueprint, cgroup)?;
        }
        Ok(())
    }

    fn kind(&self, node: model::NodeId) -> NodeKind {
        self.blueprint.topology.nodes()[node.index()].kind
    }

    /// Sets up `transport` at all hosts, and shapes the links for its packets. New connections use
    /// it while the returned guard lives.
    ///
    /// # Errors
    /// The kernel lacks a feature.
    pub fn speak(&self, transport: &Transport) -> Result<Option<Dctcp>, Error> {
        transport.check()?;
        let dctcp = transport.obtain()?;
        let control = dctcp.as_ref().map_or(transport.congestion_control, Dctcp::name);
        let metrics = transport.metrics(control);
        let mtu = transport.mtu();
        for (room, nodes) in self.blueprint.rooms() {
            let name = self.journal.namespace(&room);
            // This also removes the old shaper.
            let ends = nodes.iter().flat_map(|node| self.blueprint.ends(*node));
            let plain = |end: &End| format!("qdisc replace dev {} root pfifo", end.interface);
            let mut shape: Vec<String> = ends.map(plain).collect();
            let mut links = self.blueprint.mtu_lines(&nodes, mtu);
            let hosts = nodes.iter().filter(|node| self.kind(**node) == NodeKind::Host);
            links.extend(hosts.clone().map(|host| self.blueprint.route_line(*host, &metrics)));
            batch("ip", Some(&name), &links)?;
            shape.extend(self.blueprint.shape_lines(&nodes, mtu, !transport.handshake));
            batch("tc", Some(&name), &shape)?;
            if hosts.count() > 0 {
                let inside = Inside::enter(&name)?;
                for (key, value) in transport.settings() {
                    inside.set(&format!("net/ipv4/{key}"), &value)?;
                }
                inside.set("net/core/somaxconn", "65535")?;
            }
        }
        Ok(dctcp)
    }
}

/// A temporary lab is removed when dropped.
impl Drop for Lab {
    fn drop(&mut self) {
        if self.journal.passing {
            // The error can't be reported; the next lab tries again.
            let _ = down(&self.journal.name);
        }
    }
}

/// Removes the lab `name`: its processes, its namespaces, its folder, and nothing else.
///
/// # Errors
/// There is none, or a part can't be removed; the rest stays recorded.
pub fn down(name: &str) -> Result<Removed, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let _lock = journal::lock()?;
    let journal = Journal::read(name)?.ok_or_else(|| Error::None(name.to_owned()))?;
    remove(&journal)
}

/// The name of a lab that nobody holds any more, and whether it went.
pub type Orphan = (String, Result<Removed, Error>);

/// Removes what killed processes left: labs half made, and temporary ones. One that can't be removed doesn't
/// keep the others. Each with its name.
///
/// # Errors
/// No root, or the records can't be read.
pub fn down_orphans() -> Result<Vec<Orphan>, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let _lock = journal::lock()?;
    let orphans = Journal::all()?.into_iter().flatten().filter(Journal::is_orphaned);
    Ok(orphans.map(|orphan| (orphan.name.clone(), remove(&orphan))).collect())
}

/// Puts this process among those of a lab: where daemons govern it, its connections too, and it ends with
/// the lab.
///
/// # Errors
/// The control group can't be entered.
pub fn enter(lab: &Journal) -> Result<(), Error> {
    let traffic = lab.cgroup.as_ref().map(|group| group.join(TRAFFIC));
    traffic.filter(|group| group.is_dir()).map_or(Ok(()), |group| cgroup::enter(&group))
}

/// Removes every temporary lab of this process; for the interrupt handler.
pub fn abandon() {
    let (Ok(own), Ok(_lock)) = (Process::own(), journal::lock()) else {
        return;
    };
    for journal in Journal::all().unwrap_or_default().into_iter().flatten() {
        if journal.maker == own && (journal.passing || journal.phase == Phase::Building) {
            // The next lab tries again.
            let _ = remove(&journal);
        }
    }
}

fn remove(journal: &Journal) -> Result<Removed, Error> {
    if let Some(cgroup) = &journal.cgroup {
        cgroup::remove(cgroup)?;
    }
    // The mount with pinned programs that a killed agent left.
    let pins = journal.folder.join(configuration::PINS);
    while rustix::mount::unmount(&pins, rustix::mount::UnmountFlags::empty()).is_ok() {}
    let mut removed = Removed::default();
    for name in &journal.namespaces {
        let is_own = match namespace::mark(name)? {
            Mark::Absent => continue,
            Mark::By(mark) => mark == journal.mark(),
            // Made for this lab, after a check that there was none, but not marked yet.
            Mark::Blank => journal.phase == Phase::Building,
        };
        let list = if is_own { &mut removed.namespaces } else { &mut removed.left };
        list.push(name.clone());
    }
    let delete: Vec<String> =
        removed.namespaces.iter().map(|name| format!("netns delete {name}")).collect();
    batch("ip", None, &delete)?;
    let engines = (!journal.engines.is_empty()).then(|| place::folder(&journal.name));
    for folder in engines.iter().chain([&journal.folder]) {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::State(format!("{}: {error}", folder.display())));
            }
            _ => {}
        }
    }
    journal.remove()?;
    Ok(removed)
}
