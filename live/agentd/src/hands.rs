//! What has the kernel obey.
//!
//! It owns what is attached to the kernel, carries out commands in the order they come, and tells
//! what it sees, all on the thread that talks to the controller: between a full queue and its windows
//! no other thread has to be woken.

use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::pin;
use std::time::Duration;

use kernel::{Error, Happening, Lease, Namespace, Pacer, PortNumber, State, Switch, Watch, Window};
use model::Congestion;
use protocol::Connection;
use protocol::agent::{Command, Commands, ConnectionReport, Level, Report};
use tokio::io::unix::AsyncFd;
use units::{Span, Time};

use crate::StartError;
use crate::delay::Delays;
use crate::settings::{Interface, Settings};

/// How often the kernel is asked whether it has capped a window, while that is followed.
const LOOK: Span = Span::from_micros(200);
/// How often what is over is swept out.
const SWEEP: Span = Span::from_secs(1);
/// Connections in one report, so that its line stays within what a controller reads.
const REPORT: usize = 1_000;

/// Leases ended before the controller was heard again: it has to say everything anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapsed;

/// What is attached to the kernel.
pub struct Hands {
    pacer: Pacer,
    switch: Option<Switch>,
    /// Readable when the ports tell something.
    events: Option<AsyncFd<OwnedFd>>,
    namespaces: Vec<Namespace>,
    ports: Vec<(PortNumber, Interface)>,
    /// What stands in the ports' maps, and of which epoch, so that the rest can end when commands are
    /// complete.
    windows: HashMap<(PortNumber, Option<Connection>), u64>,
    classes: HashMap<(PortNumber, Connection), u64>,
    epoch: u64,
    /// When what stands ends, unless the controller is heard before.
    until: Time,
    every: Option<Span>,
    sampled: Time,
    swept: Time,
    delays: Option<Delays>,
}

#[allow(unsafe_code)]
fn events_of(switch: &Switch) -> std::io::Result<AsyncFd<OwnedFd>> {
    let descriptor = switch.as_fd().try_clone_to_owned()?;
    // SAFETY: an `OwnedFd` is one open descriptor until it is dropped, and nobody else has this one.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}

fn namespace(name: Option<&str>) -> Result<Namespace, Error> {
    name.map_or_else(Namespace::own, Namespace::named)
}

impl Hands {
    /// Attaches to the kernel, and takes over the connections that exist. Within a runtime.
    ///
    /// # Errors
    /// What the kernel doesn't give.
    pub fn start(settings: &Settings) -> Result<Self, StartError> {
        let pacer = Pacer::start(&settings.pacer)?;
        let mut namespaces = Vec::new();
        let mut names: Vec<_> = settings.hosts.iter().map(|host| &host.namespace).collect();
        names.sort();
        names.dedup();
        for name in names {
            let namespace = namespace(name.as_deref())?;
            let adopted = pacer.adopt(&namespace)?;
            tracing::info!(namespace = ?name, adopted, "connections that were there before");
            namespaces.push(namespace);
        }
        let mut switch = None;
        let mut ports = Vec::new();
        for interface in &settings.ports {
            let switch = match &mut switch {
                Some(switch) => switch,
                None => switch.insert(Switch::new()?),
            };
            let within = namespace(interface.namespace.as_deref())?;
            let options = kernel::PortOptions::default();
            let number = switch.attach(within, &interface.interface, &options)?;
            ports.push((number, interface.clone()));
        }
        let events = switch.as_ref().map(events_of).transpose()?;
        let epoch = pacer.epoch();
        let now = kernel::now();
        Ok(Self {
            pacer,
            switch,
            events,
            namespaces,
            ports,
            windows: HashMap::new(),
            classes: HashMap::new(),
            epoch,
            until: now,
            every: None,
            sampled: now,
            swept: now,
            delays: Delays::wanted(),
        })
    }

    /// The highest epoch that was obeyed.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Ends when there is something to attend to. May be cancelled.
    pub async fn ready(&self) {
        let due = self.every.map_or(SWEEP, |every| (self.sampled + every).since(kernel::now()));
        let looks = self.delays.as_ref().is_some_and(Delays::is_pending);
        let patience = due.min(if looks { LOOK } else { SWEEP });
        let told = async {
            match &self.events {
                Some(events) => match events.readable().await {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(error) => {
                        tracing::error!(%error, "events can't be waited for");
                        pending().await
                    }
                },
                None => pending().await,
            }
        };
        tokio::select! {
            () = told => {}
            () = tokio::time::sleep(Duration::from_nanos(patience.as_nanos())) => {}
        }
    }

    /// Does what is due, and adds what is to be told.
    pub fn attend(&mut self, reports: &mut Vec<Report>) {
        self.listen(reports);
        self.sample(reports);
        if let (Some(delays), Some(switch)) = (&mut self.delays, &mut self.switch) {
            delays.look(switch);
        }
    }

    /// Does what is due while `other` takes its time. Nobody listens: what would be told is old by
    /// the time somebody does.
    pub async fn meanwhile<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = pin!(other);
        let mut untold = Vec::new();
        loop {
            tokio::select! {
                ended = &mut other => return ended,
                () = self.ready() => {
                    self.attend(&mut untold);
                    untold.clear();
                }
            }
        }
    }

    /// The controller is gone: nobody wants samples until somebody asks for them again.
    pub const fn left_alone(&mut self) {
        self.every = None;
    }

    /// Lets all connections go.
    pub fn stop(self) {
        match self.pacer.stop(&self.namespaces) {
            Ok(kernel::Stopped::Clean) => tracing::info!("all connections let go"),
            Ok(kernel::Stopped::Lingering { held }) => {
                tracing::warn!(held, "connections are let go with their next acknowledgement");
            }
            Err(error) => tracing::error!(%error, "leases end by themselves"),
        }
    }

    /// Carries out commands, and confirms them if that succeeds. What ends, ends after what begins
    /// stands.
    ///
    /// # Errors
    /// [`Lapsed`]: nothing was carried out.
    pub fn obey(&mut self, commands: &Commands, reports: &mut Vec<Report>) -> Result<(), Lapsed> {
        let (epoch, sequence) = (commands.epoch, commands.sequence);
        let arrived = kernel::now();
        if epoch < self.epoch {
            reports.push(Report::Stale { epoch, obeys: self.epoch });
            return Ok(());
        }
        self.epoch = epoch;
        if !commands.complete && arrived >= self.until {
            // The controller believes that all still stands; what it adds to that is of no use.
            return Err(Lapsed);
        }
        self.until = arrived + commands.lease_ns;
        match self.carry_out(commands, arrived) {
            Ok(()) => reports.push(Report::Applied { epoch, sequence }),
            Err(error) => tracing::error!(%error, epoch, sequence, "commands not confirmed"),
        }
        Ok(())
    }

    fn carry_out(&mut self, commands: &Commands, arrived: Time) -> Result<(), Error> {
        let lease = Lease { epoch: commands.epoch, span: commands.lease_ns };
        self.pacer.renew(lease)?;
        if let Some(switch) = &mut self.switch {
            switch.renew(lease)?;
        }
        let mut kept = Kept::default();
        let mut carried_out = Ok(());
        for command in &commands.commands {
            // One that can't be carried out doesn't keep the others from it.
            if let Err(error) = self.one(command, arrived, &mut kept) {
                tracing::error!(%error, ?command, "command not carried out");
                carried_out = carried_out.and(Err(error));
            }
        }
        if commands.complete {
            self.end_others(&kept)?;
        }
        carried_out
    }

    fn one(&mut self, command: &Command, arrived: Time, kept: &mut Kept) -> Result<(), Error> {
        match command {
            Command::Pace { connection, rate_bps } => {
                if rate_bps.is_some() {
                    kept.paced.insert(*connection);
                }
                self.pacer.pace(connection, *rate_bps)
            }
            Command::Prioritize { connection, priority } => {
                let ports: Vec<_> = self
                    .ports
                    .iter()
                    .filter_map(|(number, port)| {
                        let last = port.classes.len().checked_sub(1)?;
                        Some((*number, *port.classes.get(usize::from(*priority).min(last))?))
                    })
                    .collect();
                if ports.is_empty() {
                    let remedy = "no interface has classes; configure some to have priorities";
                    return Err(Error::Setting { setting: "classes", remedy });
                }
                for (number, class) in ports {
                    self.port(number)?.classify(connection, Some(class))?;
                    kept.classes.insert((number, *connection));
                    self.classes.insert((number, *connection), self.epoch);
                }
                Ok(())
            }
            Command::Window { node, interface, connection, cap_bytes } => {
                let number = self.find(node, interface)?.0;
                // A cap of one segment is asked for by its size.
                let window = cap_bytes.map(|cap| Window {
                    cap,
                    one_segment: cap <= kernel::PortOptions::default().segment,
                });
                self.port(number)?.cap(connection.as_ref(), window)?;
                if window.is_some() {
                    kept.windows.insert((number, *connection));
                    self.windows.insert((number, *connection), self.epoch);
                    if let Some(delays) = &mut self.delays {
                        delays.stands(number, arrived, *connection);
                    }
                } else {
                    self.windows.remove(&(number, *connection));
                }
                Ok(())
            }
            Command::Watch { node, interface, thresholds } => {
                let (number, port) = self.find(node, interface)?;
                let (number, rate, buffer) = (*number, port.rate, port.buffer);
                let watch = thresholds.map(|wanted| Watch {
                    rate,
                    buffer,
                    thresholds: Some(wanted),
                    mark: None,
                });
                if watch.is_some() {
                    kept.watched.insert(number);
                }
                let at = self.port(number)?;
                at.watch(watch)?;
                at.punt(watch.is_some())
            }
            Command::Sample { every_ns } => {
                self.every = every_ns.map(|every| every.max(Span::from_millis(1)));
                kept.sampled = true;
                Ok(())
            }
        }
    }

    /// Ends what stands and isn't among what is kept. What a controller of an earlier epoch granted
    /// ends with its lease: the new one speaks before applications have told it all.
    fn end_others(&mut self, kept: &Kept) -> Result<(), Error> {
        let current = self.epoch;
        for limit in self.pacer.limits()? {
            if limit.epoch == current && !kept.paced.contains(&limit.connection) {
                self.pacer.pace(&limit.connection, None)?;
            }
        }
        let over = |epoch: &u64, is_kept: bool| *epoch == current && !is_kept;
        let windows =
            self.windows.iter().filter(|(at, epoch)| over(epoch, kept.windows.contains(at)));
        for (number, connection) in windows.map(|(at, _)| *at).collect::<Vec<_>>() {
            self.port(number)?.cap(connection.as_ref(), None)?;
            self.windows.remove(&(number, connection));
        }
        let classes =
            self.classes.iter().filter(|(at, epoch)| over(epoch, kept.classes.contains(at)));
        for (number, connection) in classes.map(|(at, _)| *at).collect::<Vec<_>>() {
            self.port(number)?.classify(&connection, None)?;
            self.classes.remove(&(number, connection));
        }
        let ports: Vec<_> = self.ports.iter().map(|(number, _)| *number).collect();
        for number in ports {
            if !kept.watched.contains(&number) {
                let port = self.port(number)?;
                port.watch(None)?;
                port.punt(false)?;
            }
        }
        if !kept.sampled {
            self.every = None;
        }
        Ok(())
    }

    fn port(&mut self, number: PortNumber) -> Result<&mut kernel::Port, Error> {
        self.switch.as_mut().ok_or(Error::NoPort(number.0))?.port(number)
    }

    fn find(&self, node: &str, interface: &str) -> Result<&(PortNumber, Interface), Error> {
        let found =
            self.ports.iter().find(|(_, port)| port.node == node && port.interface == interface);
        found.ok_or_else(|| Error::NoInterface(interface.to_owned(), node.to_owned()))
    }

    /// Tells what the ports saw.
    fn listen(&mut self, reports: &mut Vec<Report>) {
        let Some(switch) = &mut self.switch else { return };
        loop {
            let event = match switch.next(Span::ZERO) {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "events of the kernel are lost");
                    return;
                }
            };
            let report = match event.happening {
                Happening::Opened(connection) => Report::Opened { connection },
                Happening::Closed(connection) => Report::Closed { connection },
                Happening::Congested { level, queue } => {
                    let port = self.ports.iter().find(|(number, _)| *number == event.port);
                    let Some((_, port)) = port else { continue };
                    Report::Congested {
                        node: port.node.clone(),
                        interface: port.interface.clone(),
                        level: of(level),
                        queue_bytes: queue,
                    }
                }
            };
            let crossed =
                matches!(&report, Report::Congested { level, .. } if *level != Level::Recovered);
            reports.push(report);
            if let (true, Some(delays)) = (crossed, &mut self.delays) {
                delays.crossed(event.port, event.at);
            }
        }
    }

    /// Tells how connections stand, when it is time; sweeps.
    fn sample(&mut self, reports: &mut Vec<Report>) {
        let now = kernel::now();
        if now >= self.swept + SWEEP {
            self.swept = now;
            let mut swept = self.pacer.sweep();
            if let Some(switch) = &mut self.switch {
                swept = swept.and(switch.sweep());
            }
            if let Err(error) = swept {
                tracing::warn!(%error, "what is over can't be swept out");
            }
        }
        let Some(every) = self.every else { return };
        if now < self.sampled + every {
            return;
        }
        self.sampled = now;
        match self.pacer.statistics() {
            Ok(found) => {
                let open = found.iter().filter(|each| each.state != State::Closed);
                let open: Vec<_> = open
                    .map(|each| ConnectionReport {
                        connection: each.connection,
                        delivered_bytes: each.delivered,
                        unsent_bytes: each.unsent,
                        in_flight_bytes: each.in_flight,
                        rtt_ns: each.round_trip,
                        retransmissions: each.retransmissions,
                    })
                    .collect();
                let parts = open.chunks(REPORT);
                reports
                    .extend(parts.map(|part| Report::Connections { connections: part.to_vec() }));
            }
            Err(error) => tracing::error!(%error, "connections can't be sampled"),
        }
    }
}

/// What complete commands ask for.
#[derive(Default)]
struct Kept {
    paced: HashSet<Connection>,
    windows: HashSet<(PortNumber, Option<Connection>)>,
    classes: HashSet<(PortNumber, Connection)>,
    watched: HashSet<PortNumber>,
    sampled: bool,
}

const fn of(level: Congestion) -> Level {
    match level {
        Congestion::Recovered => Level::Recovered,
        Congestion::Low => Level::Low,
        Congestion::Medium => Level::Medium,
        Congestion::High => Level::High,
    }
}
