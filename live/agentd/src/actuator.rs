//! Executes operations through the kernel, and hands on what it tells.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, OwnedFd};

use agent::{Failure, Happening, Operation, PortNumber};
use kernel::{Error, Event, Lease, Namespace, Pacer, Sockets, Switch, Watch};
use model::Severity;
use protocol::Process;
use protocol::agent::{ConnectionReport, EndedConnection, MOST_GAP, MOST_HOLDERS};
use tokio::io::unix::AsyncFd;
use units::{Bytes, Span, Time};

use crate::StartError;
use crate::delay::Delays;
use crate::pods::Pods;
use crate::settings::{Interface, Settings};

/// What to do about a namespace that was left out, or is gone.
const NAMESPACE: &str = "remove its file with `ip netns delete` where one is left, make it with `ip netns add`: the agent ends then, to be \
    started again; or remove it from the configuration";

/// Of declared groups within each other that have a connection so many are told of: services are in fewer.
const MOST_GROUPS: usize = 16;

/// What is attached to the kernel.
pub struct Actuator {
    pacer: Pacer,
    switch: Option<Switch>,
    namespaces: Vec<Namespace>,
    /// Those of them of which the log says that they are gone.
    gone: Vec<bool>,
    /// Namespaces that weren't there at the start.
    left_out: BTreeSet<String>,
    /// By [`PortNumber`].
    ports: Vec<Interface>,
    delays: Option<Delays>,
    pods: Option<Pods>,
    /// Whether the log says that a process's sockets aren't shown.
    hidden: bool,
    /// How much of what each port had to tell the log says was lost.
    lost: Vec<u64>,
}

/// The namespace that a field of the configuration names; `None`: the agent's own.
fn namespace(settings: &Settings, name: Option<&str>) -> Result<Namespace, StartError> {
    let Some(name) = name else { return Ok(Namespace::own()?) };
    Namespace::named(name).map_err(|source| StartError::Absent {
        file: settings.file.clone(),
        field: format!("namespace = \"{name}\""),
        source: Box::new(source),
        remedy: "make it with `ip netns add`, or correct the name",
    })
}

/// The namespaces of the hosts; those of the ports are there too.
///
/// # Errors
/// One isn't there.
pub fn namespaces(settings: &Settings) -> Result<Vec<Namespace>, StartError> {
    let mut names: Vec<_> = settings.hosts.iter().map(|host| &host.namespace).collect();
    names.sort();
    names.dedup();
    let open = |name: &Option<String>| namespace(settings, name.as_deref());
    let namespaces = names.into_iter().map(open).collect::<Result<_, _>>()?;
    settings.ports.iter().try_for_each(|port| open(&port.namespace).map(drop))?;
    Ok(namespaces)
}

/// Leaves out the hosts and interfaces whose namespace isn't there, and says so: the others are governed. Where no host
/// would be left, none is left out, and the start tells why it can't be.
pub fn leave_out(settings: &mut Settings) {
    let is_absent = |name: &Option<String>| {
        let found = name.as_deref().map(Namespace::named);
        matches!(found, Some(Err(Error::File { source, .. })) if source.kind() == ErrorKind::NotFound)
    };
    if settings.hosts.iter().all(|host| is_absent(&host.namespace)) {
        return;
    }
    let Settings { hosts, ports, left_out, .. } = settings;
    let mut keep = |what: &str, name: &str, namespace: &Option<String>| {
        let absent = namespace.clone().filter(|_| is_absent(namespace));
        if let Some(namespace) = &absent {
            tracing::error!(
                namespace,
                remedy = NAMESPACE,
                "{what} {name} is left out: its namespace is not there"
            );
        }
        let stays = absent.is_none();
        left_out.extend(absent);
        stays
    };
    hosts.retain(|host| keep("host", &host.host.name, &host.namespace));
    ports.retain(|port| keep("interface", &port.interface, &port.namespace));
}

/// What is wrong with the control group or the pins that the configuration names.
fn unfit(settings: &Settings, error: Error) -> StartError {
    let kernel::PacerOptions { cgroup, pins, .. } = &settings.pacer;
    let (key, path, remedy) = match (&error, cgroup) {
        (Error::File { path, .. }, Some(group)) if path == group => {
            let remedy = "make it with mkdir, or correct the path; `ip netns exec` hides what is mounted below /sys";
            ("cgroup", group, remedy)
        }
        (Error::NotGroup(_), Some(group)) => {
            ("cgroup", group, "name a directory of the control groups, version 2")
        }
        (Error::File { path, .. }, _) if path.starts_with(pins) => (
            "pins",
            pins,
            "name a directory that this user may make, or one with a BPF file system",
        ),
        _ => return error.into(),
    };
    StartError::Absent {
        file: settings.file.clone(),
        field: format!("{key} = \"{}\"", path.display()),
        source: Box::new(error),
        remedy,
    }
}

impl Actuator {
    /// Finds everything that the configuration names, and begins to govern the connections that begin.
    ///
    /// # Errors
    /// Something isn't there, or what the kernel doesn't give. Nothing is left behind.
    pub fn start(settings: &Settings) -> Result<Self, StartError> {
        let namespaces = namespaces(settings)?;
        let follow = |wanted| {
            let file = settings.file.clone();
            Pods::follow(wanted, kernel::unified_mount()?)
                .map_err(|reason| StartError::Kubernetes { file, reason })
        };
        let pods = settings.kubernetes.as_ref().map(follow).transpose()?;
        let pacer = Pacer::start(&settings.pacer).map_err(|error| unfit(settings, error))?;
        let (room, limits) = (pacer.room(), settings.pacer.limits);
        if room != limits {
            let why = "an agent that was killed left other `limits`, which end as this one stops";
            tracing::warn!(room, limits, why);
        }
        let others = pacer.rivals();
        if others > 0 {
            let why = "each takes the other's limits for the application's own; stop one, or give each a `cgroup` \
                       of its own. What an agent left that was killed counts too: start that one again, and stop it";
            tracing::warn!(others, why, "other agents govern the same connections");
        }
        let ports = settings.ports.clone();
        let (lost, delays) = (vec![0; ports.len()], Delays::wanted());
        let (gone, left_out) = (vec![false; namespaces.len()], settings.left_out.clone());
        let (switch, hidden) = (None, false);
        Ok(Self { pacer, switch, namespaces, gone, left_out, ports, delays, pods, hidden, lost })
    }

    /// Takes over the connections that exist, and makes the interfaces ports.
    ///
    /// # Errors
    /// An interface isn't there, or what the kernel doesn't give.
    pub fn attach(&mut self, settings: &Settings) -> Result<(), StartError> {
        for namespace in &self.namespaces {
            let shortened = namespace.shorten_bursts();
            let adopted = self.pacer.adopt(namespace)?;
            let namespace = namespace.path().display();
            if let Err(error) = shortened {
                let why = "connections with low rates may stay silent for seconds after these have changed or ended; \
                           sysctl net.ipv4.tcp_tso_rtt_log=0 there";
                tracing::warn!(%namespace, %error, why, "TCP sends up to 64 KB at once at any rate");
            }
            tracing::info!(%namespace, adopted, "connections that were there before");
        }
        for interface in &settings.ports {
            let switch = match &mut self.switch {
                Some(switch) => switch,
                None => self.switch.insert(Switch::new()?),
            };
            let within = namespace(settings, interface.namespace.as_deref())?;
            let name = &interface.interface;
            let classes = interface.classes.clone();
            let segment = interface.mss;
            let options =
                kernel::PortOptions { segment, classes, ..kernel::PortOptions::default() };
            switch.attach(within, name, &options).map_err(|error| {
                let (field, remedy) = match error {
                    Error::NoInterface(..) => {
                        (format!("interface = \"{name}\""), "make it, or correct the name")
                    }
                    Error::NoClass { .. } => {
                        let written =
                            |(major, minor): &(u16, u16)| format!("\"{major:x}:{minor:x}\"");
                        let list: Vec<_> = interface.classes.iter().map(written).collect();
                        (
                            format!("classes = [{}]", list.join(", ")),
                            "make it with `tc class add`, or correct the number",
                        )
                    }
                    error => return StartError::from(error),
                };
                StartError::Absent {
                    file: settings.file.clone(),
                    field,
                    source: Box::new(error),
                    remedy,
                }
            })?;
        }
        Ok(())
    }

    /// Undoes the start, where the rest of the agent can't.
    pub fn withdraw(self) {
        if let Err(error) = self.pacer.withdraw() {
            tracing::error!(%error, "not all that was pinned could be removed");
        }
    }

    /// The machine for it, which goes on from what an agent before left in the kernel.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn machine(&self) -> Result<agent::Agent, Error> {
        let ports = self.ports.iter().map(|port| agent::Port {
            node: port.node.clone(),
            interface: port.interface.clone(),
            classes: port.classes.len(),
            watchable: true,
        });
        let limits = self.pacer.limits()?;
        let limits = limits.into_iter().map(|limit| (limit.connection, limit.epoch));
        Ok(agent::Agent::new(ports.collect(), true).after(self.pacer.leases(), limits))
    }

    /// Whether all that is governed is still there. Of a namespace that isn't the log says so, once.
    ///
    /// # Errors
    /// A control group or an interface isn't, a namespace is another or has come since the start, or what the kernel
    /// says.
    pub fn stands(&mut self) -> Result<(), Error> {
        if let Some(name) = self.left_out.iter().find(|name| Namespace::named(name).is_ok()) {
            return Err(Error::Come(format!("namespace {name}")));
        }
        for (namespace, said) in self.namespaces.iter().zip(&mut self.gone) {
            let gone = !namespace.stands();
            let path = namespace.path();
            if gone && Namespace::at(path).is_ok() {
                return Err(Error::Gone(format!("namespace {}", path.display())));
            }
            if gone && !*said {
                tracing::error!(namespace = %path.display(), remedy = NAMESPACE, "a namespace is gone");
            }
            *said = gone;
        }
        self.pacer.stands()?;
        self.switch.as_ref().map_or(Ok(()), Switch::stands)
    }

    /// What is readable when ports tell something. Within a runtime.
    ///
    /// # Errors
    /// No descriptor is left.
    #[allow(unsafe_code)]
    pub fn readable(&self) -> std::io::Result<Option<AsyncFd<OwnedFd>>> {
        let register = |switch: &Switch| {
            let descriptor = switch.as_fd().try_clone_to_owned()?;
            // SAFETY: an `OwnedFd` is one open descriptor until it is dropped, and nobody else has this
            // one.
            Ok(unsafe { AsyncFd::register(descriptor) }?)
        };
        self.switch.as_ref().map(register).transpose()
    }

    /// What a port told, if one did.
    pub fn next(&mut self) -> Option<Event> {
        let event = self.switch.as_mut()?.next(Span::ZERO).unwrap_or_else(|error| {
            tracing::error!(%error, "events of the kernel are lost");
            None
        })?;
        let rises = matches!(event.happening, Happening::Congested { severity, .. } if severity > Severity::Recovered);
        if let (true, Some(delays)) = (rises, &mut self.delays) {
            delays.crossed(event.port, event.at);
        }
        Some(event)
    }

    /// Looks whether windows were capped, where that is followed; whether it has to be looked again.
    pub fn look(&mut self) -> bool {
        if let (Some(delays), Some(switch)) = (&mut self.delays, &mut self.switch) {
            delays.look(switch);
        }
        self.delays.as_ref().is_some_and(Delays::is_pending)
    }

    /// Lets all connections go; whether nothing is held any more.
    pub fn stop(self) -> bool {
        let stopped = self.pacer.stop(&self.namespaces);
        let remains = self.switch.map(Switch::stop).unwrap_or_default();
        for (interface, error) in &remains {
            let remedy = "remove them with `tc qdisc del dev INTERFACE clsact`";
            let what = "filters may be left at an interface: windows, classes and spacing stand there until leases end";
            tracing::error!(interface, %error, remedy, "{what}");
        }
        let is_free = stopped.is_ok() && remains.is_empty();
        match stopped {
            Ok(kernel::Stopped::Clean) => tracing::info!("all connections let go"),
            Ok(kernel::Stopped::Lingering { held }) => {
                let what = "connections are let go with their next acknowledgement, those that another agent holds \
                    lower once it lets them go, or as they close";
                tracing::warn!(held, "{what}");
            }
            Err(error) => tracing::error!(%error, "leases end by themselves"),
        }
        is_free
    }

    /// Says why the connections of a process aren't found. Once: it is looked for them with every sample.
    fn unknown(&mut self, error: &Error) {
        if !std::mem::replace(&mut self.hidden, true) {
            let remedy = "give the agent CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, as \
                packaging/watermaster-agent.service does, or declare a control group";
            tracing::warn!(%error, remedy, "connections of a declared process can't be found");
        }
    }

    /// The sockets of processes, of those that can be seen.
    fn look_for<'a>(
        &mut self,
        processes: impl Iterator<Item = &'a Process>,
    ) -> Vec<(&'a Process, Sockets)> {
        let processes: Vec<_> = processes.collect();
        // Nearly always nobody is looked for.
        let is_group = |process: &&Process| matches!(process, Process::Cgroup(_));
        let mount = processes.iter().any(is_group).then(|| kernel::unified_mount().ok()).flatten();
        let mut looked_for = Vec::new();
        for (process, found) in Sockets::of_all(&processes, mount.as_deref()) {
            match found {
                Ok(sockets) => looked_for.push((process, sockets)),
                Err(error) => self.unknown(&error),
            }
        }
        looked_for
    }

    /// Looks up the pods of control groups; what says then which pod one is of.
    fn pods_of(
        &mut self,
        groups: impl Iterator<Item = u64> + Clone,
    ) -> impl Fn(u64) -> Option<Process> {
        if let Some(pods) = &mut self.pods {
            pods.look_up(groups);
        }
        let pods = self.pods.as_ref();
        move |group| Some(Process::Pod(pods?.of(group)?.to_owned()))
    }

    /// Says what ports had to tell and found no room for since this was asked last.
    fn tell_losses(&mut self) -> Result<(), Error> {
        let Some(switch) = &mut self.switch else { return Ok(()) };
        for ((port, told), number) in self.ports.iter().zip(&mut self.lost).zip(0..) {
            let all = switch.port(PortNumber(number))?.counters()?.lost;
            let lost = all.saturating_sub(std::mem::replace(told, all));
            if lost > 0 {
                let interface = &port.interface;
                let remedy = "give the agent more of the processors (CPUWeight= or Nice= of its unit), or \
                    have it watch fewer interfaces";
                let what = "openings, endings or full queues of an interface came faster than the agent \
                    takes them; the controller doesn't hear of them";
                tracing::warn!(interface, lost, remedy, "{what}");
            }
        }
        Ok(())
    }

    fn port(&mut self, number: PortNumber) -> Result<&mut kernel::Port, Error> {
        self.switch.as_mut().ok_or(Error::NoPort(number.0))?.port(number)
    }

    fn try_execute(&mut self, now: Time, operation: &Operation) -> Result<(), Error> {
        match *operation {
            Operation::Renew { epoch, lease: span } => {
                let lease = Lease { epoch, span };
                self.pacer.renew(now, lease)?;
                self.switch.as_mut().map_or(Ok(()), |switch| switch.renew(now, lease))
            }
            Operation::Pace { connection, rate } => self.pacer.pace(&connection, rate),
            Operation::Classify { port, connection, class } => {
                let classes = self.ports.get(port.0 as usize).map(|port| &port.classes);
                let known = |class: u8| classes?.get(usize::from(class)).copied();
                let class = class.and_then(known);
                self.port(port)?.classify(&connection, class)
            }
            Operation::Cap { port: number, connection, caps } => {
                let port = self.port(number)?;
                // The kernel would leave its windows alone, and the cap be taken for one that is in force.
                if let (Some(connection), Some(_)) = (connection, caps)
                    && port.is_unscaled(&connection)?
                {
                    return Err(Error::Unscaled { connection });
                }
                port.cap(connection.as_ref(), caps)?;
                if let (Some(_), Some(delays)) = (caps, &mut self.delays) {
                    delays.stands(number, now, connection);
                }
                Ok(())
            }
            Operation::Space { port, gap } => self.port(port)?.space(gap, MOST_GAP),
            Operation::Watch { port: number, watch } => {
                let interface = self.ports.get(number.0 as usize).ok_or(Error::NoPort(number.0))?;
                let (rate, buffer) = (interface.rate, interface.buffer);
                let thresholds = watch.and_then(|watch| watch.thresholds);
                let queue = Watch { rate, buffer, thresholds, mark: None };
                let port = self.port(number)?;
                port.watch(thresholds.map(|_| queue))?;
                port.punt(watch.is_some())
            }
            Operation::Sweep => {
                self.pacer.sweep(now)?;
                self.switch.as_mut().map_or(Ok(0), |switch| switch.sweep(now)).map(drop)
            }
        }
    }
}

/// Who has a connection, of those that were looked for: no more of a kind than matter, so that a sample of many
/// connections fills no memory. Of groups within each other the outer ones, which come first.
fn having(
    looked_for: &[(&Process, Sockets)],
    has: impl Fn(&Sockets) -> bool,
    pod: Option<Process>,
) -> Vec<Process> {
    let (mut pids, mut groups) = (0, 0);
    let counts = |process: &&Process| {
        let (count, most) = match process {
            Process::Pid(_) => (&mut pids, MOST_HOLDERS),
            // Nobody looks for pods.
            Process::Cgroup(_) | Process::Pod(_) => (&mut groups, MOST_GROUPS),
        };
        *count += 1;
        *count <= most
    };
    let having = looked_for.iter().filter(|(_, sockets)| has(sockets));
    having.map(|(process, _)| *process).filter(counts).cloned().chain(pod).collect()
}

impl agent::Actuator for Actuator {
    fn execute(&mut self, now: Time, operation: &Operation) -> Result<(), Failure> {
        self.try_execute(now, operation).map_err(|error| error.to_string())
    }

    fn now(&self, _: Time) -> Time {
        kernel::now()
    }

    fn sample(&mut self, processes: &[Process]) -> Result<Vec<ConnectionReport>, Failure> {
        self.tell_losses().map_err(|error| error.to_string())?;
        let looked_for = self.look_for(processes.iter());
        let found = self.pacer.statistics(&self.namespaces).map_err(|error| error.to_string())?;
        let pod_of = self.pods_of(found.iter().map(|each| each.cgroup));
        let reports = found.iter().map(|each| ConnectionReport {
            connection: each.connection,
            delivered_bytes: each.delivered,
            unsent_bytes: each.unsent,
            in_flight_bytes: each.in_flight,
            rtt_ns: each.round_trip,
            processes: having(&looked_for, |sockets| sockets.have(each), pod_of(each.cgroup)),
        });
        Ok(reports.collect())
    }

    fn ended(&mut self, processes: &[Process]) -> Result<agent::Ended, Failure> {
        let ended = self.pacer.ended(&self.namespaces).map_err(|error| error.to_string());
        let (ended, lost) = ended?;
        let groups = processes.iter().filter(|process| matches!(process, Process::Cgroup(_)));
        let looked_for = if ended.is_empty() { Vec::new() } else { self.look_for(groups) };
        let pod_of = self.pods_of(ended.iter().map(|each| each.cgroup));
        let connections = ended.iter().map(|each| EndedConnection {
            connection: each.connection,
            sent_bytes: each.sent,
            processes: having(&looked_for, |sockets| sockets.had(each), pod_of(each.cgroup)),
        });
        Ok(agent::Ended { connections: connections.collect(), lost })
    }

    fn count(&mut self) -> Result<Vec<(PortNumber, Bytes)>, Failure> {
        let sent = self.switch.as_ref().map_or(Ok(Vec::new()), Switch::sent);
        sent.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;
    use std::process::Command;
    use std::thread;

    use agent::Actuator as _;
    use kernel::{Connection, now};
    use model::{Cap, PortWatch};
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    use testing::wait::{eventually, settled};
    use units::Rate;

    use super::*;
    use crate::rig::{LEASE, Rig, fill, logged};

    const PORT: PortNumber = PortNumber(0);

    fn attached(rig: &Rig) -> Actuator {
        let settings = rig.settings("http://127.0.0.1:1");
        let mut actuator = Actuator::start(&settings).unwrap();
        actuator.attach(&settings).unwrap();
        actuator
    }

    #[test]
    fn of_many_who_have_a_connection_few_are_told() {
        let groups = (1..=20).map(|depth| Process::Cgroup("/a".repeat(depth)));
        let all: Vec<Process> = (1..=20).map(Process::Pid).chain(groups).collect();
        let looked_for: Vec<_> =
            all.iter().map(|process| (process, Sockets::MadeIn([1].into()))).collect();
        let told = having(&looked_for, |sockets| *sockets == Sockets::MadeIn([1].into()), None);
        assert_eq!(told, [&all[..MOST_HOLDERS], &all[20..20 + MOST_GROUPS]].concat());
    }

    #[test]
    fn limits_and_windows_have_one_lease_and_are_swept_out_together() {
        let Some(rig) = Rig::new() else { return };
        let mut actuator = attached(&rig);
        let source = |port| ([10, 0, 0, 1], port).into();
        let only = Connection { source: source(1), destination: source(2) };
        let caps = Some(Cap { bytes: Bytes::new(3_000), floor_segments: 2 }.into());
        let grant = |actuator: &mut Actuator, at, epoch| {
            let granted = [
                Operation::Renew { epoch, lease: LEASE },
                Operation::Pace { connection: only, rate: Some(Rate::from_mbps(5)) },
                Operation::Cap { port: PORT, connection: Some(only), caps },
                Operation::Space { port: PORT, gap: Some(Span::from_millis(1)) },
            ];
            granted.iter().for_each(|operation| actuator.execute(at, operation).unwrap());
            at + LEASE
        };
        // Each part has it, and finds that it has ended.
        let end = grant(&mut actuator, now(), 1);
        let ended = |actuator: &mut Actuator, at| {
            let windows = actuator.switch.as_mut().unwrap().sweep(at).unwrap();
            (actuator.pacer.sweep(at).unwrap(), windows)
        };
        assert_eq!(ended(&mut actuator, end), (1, 2));
        // Unless all was swept out already.
        let end = grant(&mut actuator, end, 2);
        actuator.execute(end, &Operation::Sweep).unwrap();
        assert_eq!(ended(&mut actuator, end), (0, 0));
        assert_eq!(actuator.pacer.limits().unwrap(), []);
        actuator.stop();
    }

    #[test]
    fn a_cap_fails_for_a_connection_of_which_packets_passed_and_no_syn() {
        let Some(rig) = Rig::new() else { return };
        let mut actuator = attached(&rig);
        actuator.execute(now(), &Operation::Renew { epoch: 1, lease: LEASE }).unwrap();
        let end = |port| ([10, 0, 0, 1], port).into();
        let connection = Some(Connection { source: end(1), destination: end(2) });
        let some = Some(Cap { bytes: Bytes::new(3_000), floor_segments: 2 }.into());
        let cap = |actuator: &mut Actuator, caps| {
            actuator.execute(now(), &Operation::Cap { port: PORT, connection, caps })
        };
        // A packet of it over IPv4, without payload.
        let passes = |actuator: &mut Actuator, flags: u8| {
            let mut packet = [0; 54];
            for (place, octet) in [(12, 8), (14, 0x45), (17, 40), (23, 6), (46, 0x50), (47, flags)]
            {
                packet[place] = octet;
            }
            packet[26..30].copy_from_slice(&[10, 0, 0, 1]);
            packet[30..38].copy_from_slice(&[10, 0, 0, 1, 0, 1, 0, 2]);
            actuator.port(PORT).unwrap().pass_out(&packet).unwrap();
        };
        let (syn, acknowledgement) = (2, 16);
        cap(&mut actuator, some).expect("it may open yet");
        passes(&mut actuator, acknowledgement);
        let failed = cap(&mut actuator, some).unwrap_err();
        let said = "the window scale of 10.0.0.1:1 to 10.0.0.1:2 is not known: ";
        assert!(failed.starts_with(said), "{failed}");
        cap(&mut actuator, None).expect("what stands there can end");
        passes(&mut actuator, syn);
        cap(&mut actuator, some).expect("it has opened");
        actuator.stop();
    }

    /// A window below it would have its sender wait for its persist timer.
    #[test]
    fn a_port_knows_the_largest_segment_that_passes_its_interface() {
        let Some(rig) = Rig::new() else { return };
        let mut settings = rig.settings("http://127.0.0.1:1");
        settings.ports[0].mss = Bytes::new(8_960);
        let mut actuator = Actuator::start(&settings).unwrap();
        actuator.attach(&settings).unwrap();
        let port = actuator.switch.as_mut().unwrap().port(PORT).unwrap();
        assert_eq!(port.options().segment, Bytes::new(8_960));
        actuator.stop();
    }

    /// A host that was removed takes none of the others with it.
    #[test]
    fn a_namespace_that_is_gone_is_told_and_left_out() {
        let (Some(rig), Some(other)) = (Rig::new(), Rig::new()) else { return };
        let mut settings = rig.settings("http://127.0.0.1:1");
        let mut more = other.settings("http://127.0.0.1:1");
        more.hosts[0].host.name = "h2".into();
        settings.hosts.append(&mut more.hosts);
        settings.ports.append(&mut more.ports);
        let mut actuator = Actuator::start(&settings).unwrap();
        let look = |actuator: &mut Actuator| logged(|| actuator.stands().unwrap()).1;
        assert_eq!(look(&mut actuator), "");
        let gone = other.name.clone();
        drop(other);
        let said = look(&mut actuator);
        assert!(said.contains("a namespace is gone") && said.contains(&gone), "{said}");
        assert_eq!(look(&mut actuator), "", "it is said already");
        // One that was unmounted leaves its file.
        let file = Path::new("/run/netns").join(&gone);
        fs::write(&file, "").unwrap();
        assert_eq!(look(&mut actuator), "", "that is no namespace");
        actuator.stop();
        let said = logged(|| leave_out(&mut settings)).1;
        assert!(said.contains("host h2 is left out") && said.contains("interface lo is"), "{said}");
        assert_eq!((settings.hosts.len(), settings.ports.len()), (1, 1));
        let mut actuator = Actuator::start(&settings).unwrap();
        actuator.attach(&settings).unwrap();
        // What the log says to do.
        for (what, remedy) in [("delete", "`ip netns delete`"), ("add", "`ip netns add`")] {
            assert!(said.contains(remedy), "{said}");
            rig.ip(&["netns", what, &gone]);
        }
        assert!(matches!(actuator.stands(), Err(Error::Come(_))));
        actuator.stop();
        rig.ip(&["netns", "delete", &gone]);
        // The start itself says that none is there.
        drop(rig);
        leave_out(&mut settings);
        assert_eq!(settings.hosts.len(), 1);
    }

    /// Its unit starts the agent again, which then has it.
    #[test]
    fn a_namespace_that_comes_or_is_another_ends_the_agent() {
        let (Some(rig), Some(other)) = (Rig::new(), Rig::new()) else { return };
        let mut settings = rig.settings("http://127.0.0.1:1");
        let mut more = other.settings("http://127.0.0.1:1");
        more.hosts[0].host.name = "h2".into();
        settings.hosts.append(&mut more.hosts);
        let name = other.name.clone();
        let mut actuator = Actuator::start(&settings).unwrap();
        drop(other);
        actuator.stands().unwrap();
        rig.ip(&["netns", "add", &name]);
        assert!(matches!(actuator.stands(), Err(Error::Gone(_))), "another has its name");
        actuator.stop();
        rig.ip(&["netns", "delete", &name]);
        leave_out(&mut settings);
        let mut actuator = Actuator::start(&settings).unwrap();
        actuator.stands().unwrap();
        rig.ip(&["netns", "add", &name]);
        assert!(matches!(actuator.stands(), Err(Error::Come(_))));
        actuator.stop();
        rig.ip(&["netns", "delete", &name]);
    }

    #[test]
    fn a_port_tells_what_opens_while_it_is_watched() {
        let Some(rig) = Rig::new() else { return };
        let mut actuator = attached(&rig);
        let watch = |actuator: &mut Actuator, watch| {
            actuator.execute(now(), &Operation::Watch { port: PORT, watch }).unwrap();
        };
        let mut opened = Vec::new();
        let mut tells = |actuator: &mut Actuator, connection| {
            eventually(|| {
                while let Some(event) = actuator.next() {
                    if let Happening::Opened(connection) = event.happening {
                        opened.push(connection);
                    }
                }
                opened.contains(&connection)
            })
        };
        watch(&mut actuator, Some(PortWatch::default()));
        let (first, ..) = rig.connect();
        assert!(tells(&mut actuator, first), "{first:?} opened");
        watch(&mut actuator, None);
        let (second, ..) = rig.connect();
        watch(&mut actuator, Some(PortWatch::default()));
        let (third, ..) = rig.connect();
        assert!(tells(&mut actuator, third), "{third:?} opened");
        assert!(!opened.contains(&second), "nobody watched");
        actuator.stop();
    }

    #[test]
    fn a_sample_tells_delivered_and_waiting_octets_apart() {
        let Some(rig) = Rig::new() else { return };
        let mut actuator = attached(&rig);
        let (connection, mut sender, receiver) = rig.connect();
        let written = fill(&mut sender);
        let own = [Process::Pid(std::process::id())];
        // The receiver's end has taken some, and no more until somebody reads.
        let look = || {
            let reports = actuator.sample(&own).unwrap();
            reports.into_iter().find(|report| report.connection == connection).unwrap()
        };
        let rests = settled(look, |report| report.in_flight_bytes == Bytes::ZERO);
        let (delivered, unsent) = (rests.delivered_bytes.get(), rests.unsent_bytes.get());
        // What was delivered is what the other end finds. The kernel counts the SYN with it.
        let there = receiver.peek(&mut vec![0; written.try_into().unwrap()]).unwrap() as u64;
        assert_eq!((delivered - 1, unsent), (there, written - there), "{rests:?}");
        assert!(there > 0 && unsent > there, "{rests:?}");
        assert_eq!(rests.processes, own);
        actuator.stop();
    }

    #[tokio::test]
    async fn samples_and_endings_tell_the_pod_of_a_control_group() {
        let Some(rig) = Rig::new() else { return };
        let mut actuator = attached(&rig);
        let (connection, mut sender, receiver) = rig.connect();
        let group = actuator.pacer.statistics(&actuator.namespaces).unwrap()[0].cgroup;
        actuator.pods = Some(Pods::of_group(group, "default/a"));
        let (pod, own) = (Process::Pod("default/a".into()), Process::Pid(std::process::id()));
        let sampled = actuator.sample(std::slice::from_ref(&own)).unwrap();
        let ours = sampled.iter().find(|report| report.connection == connection).unwrap();
        assert_eq!(ours.processes, [own, pod.clone()]);
        sender.write_all(&[1]).unwrap();
        drop((sender, receiver));
        let mut ended = Vec::new();
        assert!(eventually(|| {
            ended.extend(actuator.ended(&[]).unwrap().connections);
            ended.iter().any(|ended| ended.connection == connection)
        }));
        let ours = ended.iter().find(|ended| ended.connection == connection).unwrap();
        assert_eq!(ours.processes, [pod]);
        actuator.stop();
    }

    #[test]
    fn ports_count_what_they_have_sent() {
        let Some(rig) = Rig::new() else { return };
        let mut actuator = attached(&rig);
        let mut sent = || {
            let counted = actuator.count().unwrap();
            assert_eq!(counted.len(), 1);
            assert_eq!(counted[0].0, PORT);
            counted[0].1
        };
        let (_, mut sender, mut receiver) = rig.connect();
        let before = sent();
        let payload = vec![0; 1_000_000];
        thread::scope(|scope| {
            scope.spawn(|| sender.write_all(&payload).unwrap());
            receiver.read_exact(&mut vec![0; payload.len()]).unwrap();
        });
        // Headers are some 4 % of it; acknowledgements, if the port is on their way, less.
        let grown = (sent() - before).get();
        assert!((1_000_000..1_100_000).contains(&grown), "{grown}");
        actuator.stop();
    }

    /// What the unit gives an agent.
    fn of_the_unit() -> CapabilitySet {
        let unit = include_str!("../../../packaging/watermaster-agent.service");
        let given = |key| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        let bounding = given("CapabilityBoundingSet=");
        assert_eq!(bounding, given("AmbientCapabilities="));
        let named =
            |name: &str| CapabilitySet::from_name(name.strip_prefix("CAP_").unwrap()).unwrap();
        bounding.split(' ').map(named).collect()
    }

    /// Has an agent with these capabilities alone look for a process three times; how often it found its
    /// connection, and what the log says.
    fn looks_for(
        process: u32,
        connection: Connection,
        settings: &Settings,
        capabilities: CapabilitySet,
    ) -> (usize, String) {
        let work = || {
            let (effective, inheritable) = (capabilities, CapabilitySet::empty());
            let own = CapabilitySets { effective, permitted: effective, inheritable };
            set_capabilities(None, own).unwrap(); // of this thread
            let mut actuator = Actuator::start(settings).unwrap();
            actuator.attach(settings).unwrap();
            let processes = [Process::Pid(process)];
            let mut found = 0;
            for _ in 0..3 {
                let reports = actuator.sample(&processes).unwrap();
                let ours = reports.into_iter().find(|report| report.connection == connection);
                found += ours.unwrap().processes.len();
            }
            actuator.stop();
            found
        };
        // As packaging/run-watermaster-bpf.mount does.
        let pins = &settings.pacer.pins;
        fs::create_dir(pins).unwrap();
        mount("bpf", pins, "bpf", MountFlags::empty(), None).unwrap();
        let ended = thread::scope(|scope| scope.spawn(|| logged(work)).join());
        unmount(pins, UnmountFlags::DETACH).unwrap();
        fs::remove_dir(pins).unwrap();
        let (found, said) = ended.unwrap();
        // Agents of other tests may be there.
        let own = |line: &&str| !line.contains("other agents govern");
        (found, said.lines().filter(own).collect())
    }

    #[test]
    fn what_a_port_had_to_tell_and_found_no_room_for_is_said_once() {
        let Some(rig) = Rig::new() else { return };
        let mut actuator = attached(&rig);
        let watch = Operation::Watch { port: PORT, watch: Some(PortWatch::default()) };
        actuator.execute(now(), &watch).unwrap();
        // A SYN over IPv4 and no more: each opens the connection anew.
        let mut syn = [0; 54];
        for (place, octet) in [(12, 8), (14, 0x45), (17, 40), (23, 6), (46, 0x50), (47, 2)] {
            syn[place] = octet;
        }
        let said_of = |actuator: &mut Actuator| logged(|| actuator.sample(&[]).unwrap()).1;
        assert!(!said_of(&mut actuator).contains("WARN"));
        for _ in 0..2 {
            for _ in 0..5_000 {
                actuator.port(PORT).unwrap().pass_out(&syn).unwrap();
            }
            let said = said_of(&mut actuator);
            let told = std::iter::from_fn(|| actuator.next()).count();
            assert!(told > 1_000 && said.matches("WARN").count() == 1, "{told}: {said}");
            let names = format!("interface=\"lo\" lost={} remedy=\"give the agent", 5_000 - told);
            assert!(said.contains(&names), "{told}: {said}");
            assert_eq!(said_of(&mut actuator), "", "it is said already");
        }
        actuator.stop();
    }

    #[test]
    fn the_capabilities_of_its_unit_are_enough_and_what_is_missing_is_said_once() {
        let Some(rig) = Rig::new() else { return };
        let settings = rig.settings("http://127.0.0.1:1");
        let (connection, sender, _receiver) = rig.connect();
        let mut other = Command::new("sleep");
        let other = other.arg("600").uid(65_534).stdin(OwnedFd::from(sender));
        let mut other = other.spawn().unwrap();
        let look = |settings: &Settings, without| {
            looks_for(other.id(), connection, settings, of_the_unit().difference(without))
        };
        let whole = look(&settings, CapabilitySet::empty());
        let hidden = [CapabilitySet::SYS_PTRACE, CapabilitySet::DAC_READ_SEARCH];
        let hidden = hidden.map(|without| (look(&settings, without), without.iter_names().next()));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(whole.0 == 3 && !whole.1.contains("WARN"), "{whole:?}");
        for ((found, said), name) in hidden {
            let name = format!("CAP_{}", name.unwrap().0);
            let lacks = format!("process {} can't be read without {name}: ", other.id());
            assert!(found == 0 && said.matches("WARN").count() == 1, "{said}");
            assert!(said.contains(&lacks) && said.contains("remedy=\"give the agent"), "{said}");
        }
    }

    /// Only another namespace needs SYS_ADMIN to be entered.
    #[test]
    fn an_agent_of_its_own_namespace_does_without_the_right_to_enter_others() {
        let Some(rig) = Rig::new() else { return };
        let mut settings = rig.settings("http://127.0.0.1:1");
        settings.hosts.iter_mut().for_each(|host| host.namespace = None);
        settings.ports.iter_mut().for_each(|port| port.namespace = None);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (source, destination) = (sender.local_addr().unwrap(), sender.peer_addr().unwrap());
        let connection = Connection { source, destination };
        let capabilities = of_the_unit().difference(CapabilitySet::SYS_ADMIN);
        let (found, said) = looks_for(std::process::id(), connection, &settings, capabilities);
        assert!(found == 3 && !said.contains("WARN"), "{found}: {said}");
    }
}
