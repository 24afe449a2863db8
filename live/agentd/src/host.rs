//! The machine of an agent and the kernel that it acts on, on the thread that talks to the controller:
//! between a full queue and its windows no other thread has to be woken.

use std::future::pending;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::time::Duration;

use agent::{Agent, Lapse};
use protocol::agent::{Commands, Report};
use tokio::io::unix::AsyncFd;
use units::{Span, Time};

use crate::StartError;
use crate::actuator::Actuator;
use crate::settings::Settings;

/// How often the kernel is asked whether it has capped a window, while that is followed.
const LOOK: Span = Span::from_micros(200);
/// How often it is looked whether all that is governed is still there.
const IDLE: Span = Span::from_secs(1);
/// So much of what ports tell is taken before anything else: anybody who can send packets through one makes it tell as
/// fast as it is listened to, and leases are renewed on this thread.
const EVENTS: usize = 4_096;

/// Hands on what comes, no more than [`EVENTS`]; whether there may be more.
fn hand_on<T>(mut next: impl FnMut() -> Option<T>, mut to: impl FnMut(T)) -> bool {
    for _ in 0..EVENTS {
        match next() {
            Some(event) => to(event),
            None => return false,
        }
    }
    true
}

/// An agent at work.
pub struct Host {
    agent: Agent,
    actuator: Actuator,
    /// Readable when ports tell something.
    events: Option<AsyncFd<OwnedFd>>,
    looks: bool,
    /// Ports may have told more than was taken.
    has_more: bool,
    /// When it was last looked whether all is there, and what isn't.
    checked: Time,
    lost: Option<kernel::Error>,
    /// The epoch that the log names.
    obeyed: u64,
}

impl Host {
    /// Attaches to the kernel. Within a runtime.
    ///
    /// # Errors
    /// What the configuration names isn't there, or what the kernel doesn't give. Nothing is left behind.
    pub fn start(settings: &Settings) -> Result<Self, StartError> {
        let mut actuator = Actuator::start(settings)?;
        let mut prepare = || {
            actuator.attach(settings)?;
            Ok((actuator.machine()?, actuator.readable()?))
        };
        match prepare() {
            Ok((agent, events)) => {
                let (checked, lost) = (kernel::now(), None);
                let (looks, has_more, obeyed) = (false, false, 0);
                Ok(Self { agent, actuator, events, looks, has_more, checked, lost, obeyed })
            }
            Err(error) => {
                actuator.withdraw();
                Err(error)
            }
        }
    }

    /// The first report of a connection.
    pub fn hello(&self, settings: &Settings) -> Report {
        self.agent.hello(settings.hosts.iter().map(|acting| acting.host.clone()).collect())
    }

    /// Ends when there is something to attend to. May be cancelled.
    pub async fn ready(&self) {
        let due = self.agent.deadline().map_or(IDLE, |at| at.since(kernel::now()));
        if self.has_more {
            // What the controller says is heard in between.
            tokio::task::yield_now().await;
            return;
        }
        if due == Span::ZERO {
            // A timer would take its time, and begin anew whenever something else comes first.
            return;
        }
        let patience = due.min(if self.looks { LOOK } else { IDLE });
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
        let Self { agent, actuator, .. } = self;
        self.has_more =
            hand_on(|| actuator.next(), |event| agent.hear(event.port, &event.happening, reports));
        self.tick(reports);
        self.looks = self.actuator.look();
        let now = kernel::now();
        if now.since(self.checked) >= IDLE {
            self.checked = now;
            self.lost = self.actuator.stands().err();
        }
    }

    fn tick(&mut self, reports: &mut Vec<Report>) {
        let from = reports.len();
        if let Err(error) = self.agent.tick(kernel::now(), &mut self.actuator, reports) {
            tracing::warn!(
                error,
                "connections or interfaces can't be sampled, or what has ended not swept out"
            );
        }
        for report in &reports[from..] {
            if let Report::Ended { lost: lost @ 1.., .. } = report {
                let remedy = "have connections stay open longer, or samples come more often (control.sample)";
                let what = "more connections ended between two samples than can be told";
                tracing::warn!(lost, remedy, "{what}");
            }
        }
    }

    /// What has ended since the last sample, for the controller that is left.
    pub fn finish(&mut self) -> Vec<Report> {
        let mut reports = Vec::new();
        if let Err(error) = self.agent.finish(kernel::now(), &mut self.actuator, &mut reports) {
            tracing::warn!(error, "what has ended since the last sample can't be told");
        }
        reports
    }

    /// Whether something that is governed isn't there any more.
    pub const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// What that is.
    pub fn lost(&mut self) -> Option<kernel::Error> {
        self.lost.take()
    }

    /// Does what is due while `other` takes its time. Nobody listens: what would be told is old by
    /// the time somebody does. `None` where something that is governed is gone before.
    pub async fn meanwhile<T>(&mut self, other: impl Future<Output = T>) -> Option<T> {
        let mut other = pin!(other);
        let mut untold = Vec::new();
        while !self.is_lost() {
            tokio::select! {
                ended = &mut other => return Some(ended),
                () = self.ready() => {
                    self.attend(&mut untold);
                    untold.clear();
                }
            }
        }
        None
    }

    /// Carries out commands, and adds the answers.
    ///
    /// # Errors
    /// [`Lapse`]: nothing was carried out.
    pub fn obey(&mut self, commands: &Commands, reports: &mut Vec<Report>) -> Result<(), Lapse> {
        let from = reports.len();
        let done = self.agent.obey(kernel::now(), commands, &mut self.actuator, reports);
        if commands.complete {
            // The first sample goes before what ports tell: it says which connections go on.
            self.tick(reports);
        }
        for report in &reports[from..] {
            match report {
                Report::Failed { command, reason, .. } => {
                    tracing::error!(?command, reason, "command not carried out");
                }
                Report::Stale { epoch, obeys } => {
                    tracing::warn!(epoch, obeys, "a controller of a lower epoch is not obeyed");
                }
                _ => {}
            }
        }
        if self.obeyed != self.agent.epoch() {
            self.obeyed = self.agent.epoch();
            tracing::info!(epoch = self.obeyed, "obeys");
        }
        done
    }

    /// The controller is gone.
    pub fn disconnected(&mut self) {
        self.agent.disconnected();
    }

    /// Lets all connections go; whether that could be done.
    pub fn stop(self) -> bool {
        self.actuator.stop()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::io::Write as _;
    use std::net::TcpStream;

    use protocol::Process;
    use protocol::agent::Command;
    use testing::wait::{PATIENCE, eventually};
    use tokio::time::timeout;

    use super::*;
    use crate::rig::{Rig, commands, logged, watch};

    #[test]
    fn what_comes_without_end_is_left_for_the_next_turn() {
        let mut heard = 0;
        assert!(hand_on(|| Some(()), |()| heard += 1));
        assert_eq!(heard, EVENTS);
        let mut few = vec![(); 3];
        assert!(!hand_on(|| few.pop(), |()| heard += 1));
        assert_eq!(heard, EVENTS + 3);
    }

    #[tokio::test]
    async fn a_controller_that_begins_hears_of_connections_that_go_on() {
        let Some(rig) = Rig::new() else { return };
        let mut host = Host::start(&rig.settings("http://127.0.0.1:1")).unwrap();
        let mut reports = Vec::new();
        host.obey(&commands(1, true, vec![watch()]), &mut reports).unwrap();
        let (first, mut sender, _receiver) = rig.connect();
        let told = async |host: &mut Host, connection, sender: &mut TcpStream| {
            let mut reports = Vec::new();
            while !reports.contains(&Report::Opened { connection }) {
                sender.write_all(&[1]).unwrap();
                host.ready().await;
                host.attend(&mut reports);
            }
        };
        let patience = timeout(PATIENCE, told(&mut host, first, &mut sender)).await;
        patience.expect("the first controller hears nothing");
        host.disconnected();
        let (second, mut other, _other_receiver) = rig.connect();
        host.attend(&mut Vec::new());
        let all = Commands { epoch: 2, ..commands(1, true, vec![watch()]) };
        host.obey(&all, &mut Vec::new()).unwrap();
        for (connection, sender) in [(first, &mut sender), (second, &mut other)] {
            let patience = timeout(PATIENCE, told(&mut host, connection, sender)).await;
            patience
                .unwrap_or_else(|_| panic!("the second controller never hears of {connection:?}"));
        }
        host.stop();
    }

    /// Else it would sample all the time, and its controller would wait for each word to be heard.
    #[tokio::test]
    async fn one_whose_sample_takes_longer_than_its_interval_rests_between_two() {
        let Some(rig) = Rig::new() else { return };
        let mut host = Host::start(&rig.settings("http://127.0.0.1:1")).unwrap();
        let _open: Vec<_> = (0..300).map(|_| rig.connect()).collect();
        let every = Span::from_millis(1);
        let sample = Command::Sample { every_ns: every };
        // For each it reads the names of all descriptors here, those of the connections among them.
        let processes = vec![Process::Pid(std::process::id()); 32];
        let wishes = vec![sample, Command::Identify { processes }];
        let mut reports = Vec::new();
        host.obey(&commands(1, true, wishes), &mut reports).unwrap();
        // On a busy machine others may have the processor for as long as it would rest: then another time.
        let patient = std::time::Instant::now() + PATIENCE;
        loop {
            host.ready().await;
            reports.clear();
            host.attend(&mut reports);
            // After the interval alone, counted from the sample's end or from before, it would be due by then.
            let (is_sample, due) = (!reports.is_empty(), host.agent.deadline().unwrap());
            if is_sample && due > kernel::now() + every {
                break;
            }
            assert!(std::time::Instant::now() < patient, "it never rests");
        }
        host.stop();
    }

    /// What nobody listened to isn't missed.
    #[tokio::test]
    async fn what_ended_while_no_controller_was_there_is_no_loss() {
        let Some(rig) = Rig::new() else { return };
        let mut settings = rig.settings("http://127.0.0.1:1");
        settings.pacer.ended = 1;
        let mut host = Host::start(&settings).unwrap();
        // More than the least room that there can be.
        let end_many = || {
            for _ in 0..200 {
                let (_, mut sender, receiver) = rig.connect();
                sender.write_all(&[1]).unwrap();
                drop((sender, receiver));
            }
        };
        let sample = Command::Sample { every_ns: Span::from_millis(1) };
        let said_of = |host: &mut Host, connects: bool| {
            let (reports, said) = logged(|| {
                let mut reports = Vec::new();
                if connects {
                    host.obey(&commands(1, true, vec![sample.clone()]), &mut reports).unwrap();
                }
                host.attend(&mut reports);
                reports
            });
            let lost =
                reports.iter().any(|report| matches!(report, Report::Ended { lost: 1.., .. }));
            (lost, said.contains("than can be told"))
        };
        end_many();
        assert_eq!(said_of(&mut host, true), (false, false), "nobody listened");
        end_many();
        assert_eq!(said_of(&mut host, false), (true, true));
        host.disconnected();
        end_many();
        assert_eq!(said_of(&mut host, true), (false, false), "nobody listened");
        host.stop();
    }

    /// Packets of a class that isn't there, or has others below it, would go to the default class unsaid.
    #[tokio::test]
    async fn the_classes_of_an_interface_must_be_there() {
        let Some(rig) = Rig::new() else { return };
        let mut settings = rig.settings("http://127.0.0.1:1");
        let mut refused = |classes: &[(u16, u16)]| {
            settings.ports[0].classes = classes.to_vec();
            let started = Host::start(&settings);
            let refused = started.map(Host::stop).err().map(|error| error.to_string());
            assert!(!settings.pacer.pins.exists(), "something is left behind");
            refused
        };
        let wanted = [(9, 0x77), (1, 0x78)];
        let said = |at: &str, class: &str, there: &str| {
            Some(format!(
                "agent.toml: classes = [{at}]: no class {class} that packets wait in at lo, which has \
                 {there}; make it with `tc class add`, or correct the number"
            ))
        };
        assert_eq!(refused(&wanted), said("\"9:77\", \"1:78\"", "9:77", "none"));
        rig.tc("qdisc add dev lo root handle 1: htb default 10");
        for (parent, class) in [("1:", "1:1"), ("1:1", "1:10"), ("1:1", "1:78")] {
            rig.tc(&format!("class add dev lo parent {parent} classid {class} htb rate 10mbit"));
        }
        assert_eq!(refused(&wanted), said("\"9:77\", \"1:78\"", "9:77", "1:10, 1:78"));
        let inner = [(1, 0x78), (1, 0x1)];
        assert_eq!(refused(&inner), said("\"1:78\", \"1:1\"", "1:1", "1:10, 1:78"));
        assert_eq!(refused(&[(1, 0x78), (1, 0x10)]), None);
        assert_eq!(refused(&[]), None);
    }

    #[tokio::test]
    async fn it_tells_what_opens_and_drops_wishes_with_the_controller() {
        let Some(rig) = Rig::new() else { return };
        let mut host = Host::start(&rig.settings("http://127.0.0.1:1")).unwrap();
        let processes = vec![Process::Pid(1)];
        let identify = Command::Identify { processes: processes.clone() };
        let sample = Command::Sample { every_ns: Span::from_secs(1) };
        let mut reports = Vec::new();
        let wishes = commands(1, true, vec![sample, identify, watch()]);
        host.obey(&wishes, &mut reports).unwrap();
        // The first sample comes with the answer, before anything that ports tell.
        let applied = Report::Applied { epoch: 1, sequence: 1 };
        assert!(matches!(&reports[..], [first, Report::Connections { .. }] if *first == applied));
        let (connection, ..) = rig.connect();
        let told = async {
            while !reports.contains(&Report::Opened { connection }) {
                host.ready().await;
                host.attend(&mut reports);
            }
        };
        timeout(PATIENCE, told).await.expect("nothing was told");
        let sampled = |report: &Report| matches!(report, Report::Connections { .. });
        assert!(reports.iter().any(sampled), "the first sample was due");
        let lease_ends = kernel::now() + Span::from_secs(60);
        assert_eq!(host.agent.identified(), processes);
        assert!(host.agent.deadline().unwrap() < lease_ends, "the next sample");
        // However busy the connection is, what is due comes to its turn.
        let due = host.agent.deadline().unwrap();
        assert!(eventually(|| kernel::now() > due));
        let is_ready = async {
            tokio::select! {
                biased;
                () = host.ready() => true,
                () = async {} => false,
            }
        };
        assert!(is_ready.await);
        host.attend(&mut reports);
        host.disconnected();
        assert_eq!(host.agent.identified(), []);
        assert!(host.agent.deadline().unwrap() > lease_ends, "only the lease");
        // The next controller's first sample doesn't wait for its time either.
        reports.clear();
        host.obey(&wishes, &mut reports).unwrap();
        assert!(matches!(&reports[..], [first, Report::Connections { .. }] if *first == applied));
        host.stop();
    }
}
