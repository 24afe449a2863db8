//! The thread that has the kernel obey.
//!
//! It owns what is attached to the kernel, carries out commands in the order they come, and tells
//! what it sees. It never waits for the controller: what it can't tell now is sampled again.

use std::collections::{HashMap, HashSet};
use std::os::fd::AsFd as _;
use std::sync::mpsc::TryRecvError;

use agent::{Error, Happening, Lease, Namespace, Pacer, PortNumber, State, Switch, Watch, Window};
use model::Congestion;
use protocol::Connection;
use protocol::agent::{Command, Commands, ConnectionReport, Level, Report, Thresholds};
use tokio::sync::mpsc::Sender;
use units::{Span, Time};

use crate::delay::Delays;
use crate::inbox::Inbox;
use crate::settings::{Interface, Settings};

/// How often the kernel is asked whether it has capped a window, while that is followed.
const LOOK: Span = Span::from_micros(200);
/// How often what is over is swept out.
const SWEEP: Span = Span::from_secs(1);
/// Connections in one report, so that its line stays within what a controller reads.
const REPORT: usize = 1_000;

/// What the thread is told.
#[derive(Debug)]
pub enum Order {
    /// Obey.
    Obey(Commands),
    /// A controller listens again.
    Connected,
}

/// What the thread tells.
#[derive(Debug)]
pub enum Word {
    /// To the controller.
    Report(Report),
    /// Leases ended before the controller was heard again: it has to say everything anew.
    Lapsed,
}

/// What is attached to the kernel.
pub struct Hands {
    pacer: Pacer,
    switch: Option<Switch>,
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
    words: Sender<Word>,
    delays: Option<Delays>,
}

fn namespace(name: Option<&str>) -> Result<Namespace, Error> {
    name.map_or_else(Namespace::own, Namespace::named)
}

impl Hands {
    /// Attaches to the kernel, and takes over the connections that exist.
    ///
    /// # Errors
    /// What the kernel doesn't give.
    pub fn start(settings: &Settings, words: Sender<Word>) -> Result<Self, Error> {
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
            let options = agent::PortOptions::default();
            let number = switch.attach(within, &interface.interface, &options)?;
            ports.push((number, interface.clone()));
        }
        let epoch = pacer.epoch();
        let now = agent::now();
        Ok(Self {
            pacer,
            switch,
            namespaces,
            ports,
            windows: HashMap::new(),
            classes: HashMap::new(),
            epoch,
            until: now,
            every: None,
            sampled: now,
            swept: now,
            words,
            delays: Delays::wanted(),
        })
    }

    /// The highest epoch that was obeyed.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Works until nobody can tell it anything any more, then lets all connections go.
    pub fn run(mut self, inbox: &Inbox<Order>) {
        loop {
            let now = agent::now();
            let due = self.every.map_or(SWEEP, |every| (self.sampled + every).since(now));
            let looks = self.delays.as_ref().is_some_and(Delays::is_pending);
            let patience = due.min(if looks { LOOK } else { SWEEP });
            inbox.wait(self.switch.as_ref().map(|switch| switch.as_fd()), patience);
            let ended = loop {
                match inbox.take() {
                    Ok(order) => self.order(order),
                    Err(TryRecvError::Empty) => break false,
                    Err(TryRecvError::Disconnected) => break true,
                }
            };
            if ended {
                break;
            }
            self.listen();
            self.sample();
            if let (Some(delays), Some(switch)) = (&mut self.delays, &mut self.switch) {
                delays.look(switch);
            }
        }
        match self.pacer.stop(&self.namespaces) {
            Ok(agent::Stopped::Clean) => tracing::info!("all connections let go"),
            Ok(agent::Stopped::Lingering { held }) => {
                tracing::warn!(held, "connections are let go with their next acknowledgement");
            }
            Err(error) => tracing::error!(%error, "leases end by themselves"),
        }
    }

    fn order(&mut self, order: Order) {
        match order {
            // The controller says anew how often.
            Order::Connected => self.every = None,
            Order::Obey(commands) => {
                if let Err(error) = self.obey(&commands) {
                    tracing::error!(
                        %error,
                        epoch = commands.epoch,
                        sequence = commands.sequence,
                        "commands not carried out, and not confirmed"
                    );
                }
            }
        }
    }

    /// Carries out commands. What ends, ends after what begins stands.
    fn obey(&mut self, commands: &Commands) -> Result<(), Error> {
        let (epoch, sequence) = (commands.epoch, commands.sequence);
        let arrived = agent::now();
        if epoch < self.epoch {
            self.tell(Report::Stale { epoch, obeys: self.epoch });
            return Ok(());
        }
        self.epoch = epoch;
        let now = agent::now();
        if !commands.complete && now >= self.until {
            // The controller believes that all still stands; what it adds to that is of no use.
            let _ = self.words.try_send(Word::Lapsed);
            return Ok(());
        }
        self.until = now + commands.lease_ns;
        let lease = Lease { epoch, span: commands.lease_ns };
        self.pacer.renew(lease)?;
        if let Some(switch) = &mut self.switch {
            switch.renew(lease)?;
        }
        let mut kept = Kept::default();
        let mut failed = None;
        for command in &commands.commands {
            // One that can't be carried out doesn't keep the others from it.
            if let Err(error) = self.one(command, arrived, &mut kept) {
                tracing::error!(%error, ?command, "command not carried out");
                failed.get_or_insert(error);
            }
        }
        if commands.complete {
            self.end_others(&kept)?;
        }
        match failed {
            Some(error) => Err(error),
            None => {
                self.tell(Report::Applied { epoch, sequence });
                Ok(())
            }
        }
    }

    fn one(&mut self, command: &Command, arrived: Time, kept: &mut Kept) -> Result<(), Error> {
        match command {
            Command::Pace { connection, rate_bps } => {
                if rate_bps.is_some() {
                    kept.paced.insert(*connection);
                }
                self.pacer.pace(connection, *rate_bps)
            }
            Command::Prioritize { connection, level } => {
                let ports: Vec<_> = self
                    .ports
                    .iter()
                    .filter_map(|(number, port)| {
                        let last = port.classes.len().checked_sub(1)?;
                        Some((*number, *port.classes.get(usize::from(*level).min(last))?))
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
                let (number, _) = self.find(node, interface)?;
                // A cap of one segment is asked for by its size.
                let window = cap_bytes.map(|cap| Window {
                    cap,
                    one_segment: cap <= agent::PortOptions::default().segment,
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
                let watch = thresholds.as_ref().map(|wanted| watch(wanted, &port));
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

    fn port(&mut self, number: PortNumber) -> Result<&mut agent::Port, Error> {
        self.switch.as_mut().ok_or(Error::NoPort(number.0))?.port(number)
    }

    fn find(&self, node: &str, interface: &str) -> Result<(PortNumber, Interface), Error> {
        let found = self
            .ports
            .iter()
            .find(|(_, port)| port.node == node && port.interface == interface)
            .cloned();
        found.ok_or_else(|| Error::NoInterface(interface.to_owned(), node.to_owned()))
    }

    /// Tells what the ports saw.
    fn listen(&mut self) {
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
            if self.words.try_send(Word::Report(report)).is_err() {
                tracing::debug!("an event could not be told");
            } else if let (true, Some(delays)) = (crossed, &mut self.delays) {
                delays.crossed(event.port, event.at);
            }
        }
    }

    /// Tells how connections stand, when it is time; sweeps.
    fn sample(&mut self) {
        let now = agent::now();
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
                let reports: Vec<_> = open
                    .map(|each| ConnectionReport {
                        connection: each.connection,
                        delivered_bytes: each.delivered,
                        unsent_bytes: each.unsent,
                        in_flight_bytes: each.in_flight,
                        rtt_ns: each.round_trip,
                        retransmissions: each.retransmissions,
                    })
                    .collect();
                for part in reports.chunks(REPORT) {
                    self.tell(Report::Connections { connections: part.to_vec() });
                }
            }
            Err(error) => tracing::error!(%error, "connections can't be sampled"),
        }
    }

    fn tell(&self, report: Report) {
        // Nobody listens while there is no connection; a new one is told all that matters.
        let _ = self.words.try_send(Word::Report(report));
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

fn watch(wanted: &Thresholds, port: &Interface) -> Watch {
    Watch {
        rate: port.rate,
        limit: port.buffer,
        low: wanted.low_bytes,
        medium: wanted.medium_bytes,
        high: wanted.high_bytes,
        recovery: wanted.recovery_ns,
        mark: None,
    }
}

const fn of(level: Congestion) -> Level {
    match level {
        Congestion::Recovered => Level::Recovered,
        Congestion::Low => Level::Low,
        Congestion::Medium => Level::Medium,
        Congestion::High => Level::High,
    }
}
