//! The agent's daemon: it connects to the controller, has the kernel do what it is told, and tells
//! what it sees.
//!
//! It holds nothing that must survive: when the controller is gone, leases end in the kernel's own
//! maps; when the agent is gone, they end there too.
#![deny(unsafe_code)]

mod actuator;
mod delay;
mod host;
mod outgoing;
pub mod pods;
mod reload;
#[cfg(test)]
mod rig;
pub mod settings;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use document::DocumentError;
use protocol::agent::{Report, Said};
use protocol::backoff::Backoff;
use rand::RngExt as _;
use rustls::ClientConfig;
use tokio::io::{BufReader, ReadHalf, WriteHalf};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout, timeout_at};
use units::Span;
use wire::client::Exchange;
use wire::identity::Role;
use wire::lines::{LineError, Lines};
use wire::tls;

use host::Host;
use outgoing::Outgoing;
use reload::{Certificates, Kept, Reloaded, reload};
use settings::Settings;

/// Longest line of commands that is read.
const LINE: usize = 64 << 20;
/// How long one that ends waits for the controller to hear so.
const FAREWELL: Duration = Duration::from_secs(1);
/// A controller that says nothing, or takes nothing, for so long is taken for dead.
const SILENCE: Duration = duration(protocol::agent::SILENCE);
/// Why a connection ends where nothing is left to do.
const GONE: &str = "something that is governed is gone";
/// The same where the controller ends it.
const CLOSED: &str = "the controller closed the connection";

const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// Why an agent could not start, or go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Settings(#[from] DocumentError),
    /// The configuration names what isn't there, or isn't what it should be.
    #[error("{file}: {field}: {source}; {remedy}")]
    Absent {
        /// The configuration.
        file: String,
        /// The field, as it stands there.
        field: String,
        /// What the kernel said.
        source: Box<kernel::Error>,
        /// What to do.
        remedy: &'static str,
    },
    /// It isn't known whom to ask for the pods of the node, or for which node.
    #[error("{file}: {reason}")]
    Kubernetes {
        /// The configuration.
        file: String,
        /// What is missing, and the remedy.
        reason: String,
    },
    /// The certificates.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// A descriptor or a signal that the system doesn't give.
    #[error("the system refuses a descriptor or a signal: {0}; raise LimitNOFILE= of its unit")]
    System(#[from] std::io::Error),
}

/// Checks the configuration, its certificates and that the namespaces that it names are there. Control group,
/// interfaces and what the kernel gives are not tried.
///
/// # Errors
/// An agent can't start with it, or would leave hosts out.
pub fn check(path: &Path) -> Result<(), StartError> {
    let settings = Settings::load(path)?;
    settings.tls.as_ref().map(tls::client).transpose()?;
    if let Some(files) = &settings.tls {
        tls::check(files, Role::Agent, Some(&settings.name))?;
    }
    if let Some(wanted) = &settings.kubernetes {
        let file = settings.file.clone();
        pods::check(wanted).map_err(|reason| StartError::Kubernetes { file, reason })?;
    }
    actuator::namespaces(&settings).map(drop)
}

/// Runs an agent until SIGTERM or SIGINT; SIGHUP has it read its configuration again, and no limit ends with that.
///
/// # Errors
/// It can't start; or an interface or the control group that it governs is removed, or a namespace is another or has
/// come: nothing that it was told of that would act any more, and the next agent finds what is there.
pub async fn run(path: &Path) -> Result<(), StartError> {
    let mut settings = Settings::load(path)?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut certificates = Certificates::load(settings.tls.as_ref())?;
    let kept = Kept::of(&settings);
    actuator::leave_out(&mut settings);
    let mut host = Host::start(&settings)?;
    let mut open = None;
    tracing::info!(agent = settings.name, controller = %settings.controllers, "agent ready");
    let lost = loop {
        let config = certificates.config.as_ref();
        tokio::select! {
            lost = converse(&mut settings, config, &mut host, &mut open) => break Some(lost),
            _ = terminate.recv() => break None,
            _ = interrupt.recv() => break None,
            _ = hangup.recv() => {}
        }
        match reload(path, &kept, &mut settings, &mut certificates) {
            Ok(Reloaded { restart, stays }) => {
                if restart.is_empty() {
                    tracing::info!("configuration read again");
                } else {
                    let restart = restart.join(", ");
                    tracing::warn!(
                        restart,
                        "configuration read again; some changes need a restart"
                    );
                }
                if !stays {
                    open = None;
                    host.disconnected();
                }
                if let Some(channel) = &mut open {
                    channel.outgoing.bound(settings.openings);
                }
            }
            Err(error) => tracing::error!(%error, "configuration kept as it was"),
        }
    };
    let last = host.finish();
    if host.stop()
        && let Some(channel) = open
    {
        leave(channel, last).await;
    }
    lost.map_or(Ok(()), |lost| Err(lost.into()))
}

/// The channel to the controller: a connection that says commands one way and reports the other.
struct Channel {
    lines: Lines<BufReader<ReadHalf<Exchange>>>,
    outgoing: Outgoing<WriteHalf<Exchange>>,
    /// When it was made, and when the controller said something last.
    since: Instant,
    heard: Instant,
}

impl Channel {
    /// How long there was a controller at its other end.
    fn stood(&self) -> Span {
        let stood = self.heard - self.since;
        Span::from_nanos(u64::try_from(stood.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Tells the controller the `last` there is to tell and that nothing is held any more, and waits a moment for it to close
/// the connection.
async fn leave(mut channel: Channel, last: Vec<Report>) {
    let Channel { lines, outgoing, .. } = &mut channel;
    let said = async {
        last.iter().chain([&Report::Left {}]).try_for_each(|report| outgoing.tell(report))?;
        loop {
            tokio::select! {
                sent = outgoing.send() => sent?,
                // What it says meanwhile comes too late.
                next = lines.next::<Said>() => {
                    if !matches!(next, Ok(Some(_)) | Err(LineError::Json(_))) {
                        return Ok(());
                    }
                }
            }
        }
    };
    let said: Result<std::io::Result<()>, _> = timeout(FAREWELL, said).await;
    if !matches!(said, Ok(Ok(()))) {
        tracing::warn!("the controller didn't hear that nothing is held any more");
    }
}

/// Connects again and again, until something is gone that it governs.
async fn converse(
    settings: &mut Settings,
    config: Option<&Arc<ClientConfig>>,
    host: &mut Host,
    open: &mut Option<Channel>,
) -> kernel::Error {
    let mut backoff = Backoff::default();
    loop {
        let why = once(settings, config, host, open).await;
        host.disconnected();
        if let Some(lost) = host.lost() {
            return lost;
        }
        if let Some(channel) = open.take() {
            backoff.stood(channel.stood());
        }
        let wait = backoff.wait(rand::rng().random());
        tracing::warn!(reason = why, "no connection to a controller; leases run out");
        host.meanwhile(tokio::time::sleep(duration(wait))).await;
        if let Some(lost) = host.lost() {
            return lost;
        }
    }
}

/// Opens a connection, and says hello.
async fn connect(
    settings: &mut Settings,
    config: Option<&Arc<ClientConfig>>,
    host: &mut Host,
) -> Result<Channel, String> {
    let client = host.meanwhile(settings.controllers.connect(config, SILENCE)).await;
    let client = client.ok_or(GONE)?.map_err(|error| error.to_string())?;
    let path = format!("/v1/agents/{}/exchange", settings.name);
    let stream = host.meanwhile(timeout(SILENCE, client.exchange(&path))).await.ok_or(GONE)?;
    let stream = stream.map_err(|_| "the controller does not answer")?;
    let (reader, writer) = tokio::io::split(stream.map_err(|error| error.to_string())?);
    tracing::info!(controller = %settings.controllers.leader(), "connected");
    let lines = Lines::new(BufReader::new(reader), LINE);
    let mut outgoing = Outgoing::new(writer, settings.openings);
    outgoing.tell(&host.hello(settings)).map_err(|error| error.to_string())?;
    let since = Instant::now();
    Ok(Channel { lines, outgoing, since, heard: since })
}

/// One connection, which is `open` meanwhile, or was before; why it ended. Who cancels it can go on with that.
async fn once(
    settings: &mut Settings,
    config: Option<&Arc<ClientConfig>>,
    host: &mut Host,
    open: &mut Option<Channel>,
) -> String {
    if open.is_none() {
        match connect(settings, config, host).await {
            Ok(channel) => *open = Some(channel),
            Err(why) => return why,
        }
    }
    let Some(Channel { lines, outgoing, heard, .. }) = open else { return GONE.to_owned() };
    let controllers = settings.controllers.clone();
    let mut moved = std::pin::pin!(controllers.moved(config));
    let mut reports = Vec::new();
    loop {
        if let Err(error) = reports.drain(..).try_for_each(|report| outgoing.tell(&report)) {
            return error.to_string();
        }
        tokio::select! {
            next = timeout_at(*heard + SILENCE, lines.next::<Said>()) => {
                if let Ok(Ok(Some(_))) = next {
                    *heard = Instant::now();
                }
                match next {
                    Ok(Ok(Some(Some(Said::Commands(commands))))) => {
                        if let Err(lapse) = host.obey(&commands, &mut reports) {
                            return lapse.to_string();
                        }
                        // A reload may add others, which are asked then who leads.
                        settings.controllers.led_under(commands.epoch);
                    }
                    Ok(Ok(Some(Some(Said::Closing(reason))))) => return format!("{CLOSED}: {reason}"),
                    Ok(Ok(Some(None))) => {}
                    Ok(Ok(None)) => return format!("{CLOSED}; its log and status may say why"),
                    Ok(Err(error)) => return error.to_string(),
                    Err(_) => return "the controller is silent".to_owned(),
                }
            }
            () = &mut moved => return "another controller leads".to_owned(),
            () = host.ready() => {
                host.attend(&mut reports);
                if host.is_lost() {
                    return GONE.to_owned();
                }
            }
            sent = outgoing.send() => {
                if let Err(error) = sent {
                    return error.to_string();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use std::io::Write as _;

    use protocol::agent::{Command, Commands};
    use testing::wait::{PATIENCE, eventually};
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use units::Rate;
    use wire::controllers::Controllers;

    use super::*;
    use crate::rig::{LEASE, Rig, commands};

    /// The controller's end of a connection.
    struct Controller {
        lines: Lines<BufReader<ReadHalf<TcpStream>>>,
        writer: WriteHalf<TcpStream>,
    }

    impl Controller {
        async fn accept(listener: &TcpListener) -> Self {
            let (stream, _) = listener.accept().await.unwrap();
            let (reader, mut writer) = tokio::io::split(stream);
            let mut reader = BufReader::new(reader);
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                assert_ne!(reader.read_line(&mut line).await.unwrap(), 0, "no request");
            }
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {}\r\n\r\n",
                wire::EXCHANGE
            );
            writer.write_all(answer.as_bytes()).await.unwrap();
            let mut controller = Self { lines: Lines::new(reader, LINE), writer };
            let first = controller.hear().await;
            assert!(matches!(first, Some(Report::Hello { .. })), "{first:?}");
            controller
        }

        /// The next report; `None` at the end of the connection.
        async fn hear(&mut self) -> Option<Report> {
            loop {
                match self.lines.next().await {
                    Ok(Some(Some(report))) => return Some(report),
                    Ok(Some(None)) => {}
                    Ok(None) | Err(LineError::Io(_)) => return None,
                    Err(error) => panic!("{error}"),
                }
            }
        }

        async fn tell(&mut self, commands: &Commands) {
            let mut line = Vec::new();
            wire::lines::append(commands, &mut line).unwrap();
            self.writer.write_all(&line).await.unwrap();
        }
    }

    async fn listening(rig: &Rig) -> (TcpListener, Settings) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = rig.settings(&format!("http://{}", listener.local_addr().unwrap()));
        (listener, settings)
    }

    #[tokio::test]
    async fn a_lapse_ends_the_connection() {
        let Some(rig) = Rig::new() else { return };
        let (listener, mut settings) = listening(&rig).await;
        let mut host = Host::start(&settings).unwrap();
        let controller = async {
            let mut controller = Controller::accept(&listener).await;
            // It takes for granted what no agent has heard; then says all, to one that goes on.
            controller.tell(&commands(1, false, vec![])).await;
            controller.tell(&commands(2, true, vec![])).await;
            controller.hear().await
        };
        let mut open = None;
        tokio::select! {
            why = once(&mut settings, None, &mut host, &mut open) => {
                assert_eq!(why, agent::Lapse::Ended.to_string());
            }
            heard = controller => panic!("it goes on: {heard:?}"),
        }
        host.stop();
    }

    /// Else one whose machine is cut off, and which closes nothing, would hold it.
    #[tokio::test]
    async fn a_controller_that_a_reload_adds_is_asked_who_leads() {
        let Some(rig) = Rig::new() else { return };
        let (listener, mut settings) = listening(&rig).await;
        let mut host = Host::start(&settings).unwrap();
        let mut open = None;
        let _leads = tokio::select! {
            why = once(&mut settings, None, &mut host, &mut open) => panic!("{why}"),
            controller = async {
                let mut controller = Controller::accept(&listener).await;
                controller.tell(&commands(1, true, vec![])).await;
                assert_eq!(controller.hear().await, Some(Report::Applied { epoch: 1, sequence: 1 }));
                controller
            } => controller,
        };
        let (follower, other) = listening(&rig).await;
        let both = [&settings, &other].map(|of| of.controllers.leader().clone());
        assert!(settings.controllers.change(Controllers::new(both.to_vec()).unwrap()));
        let answers = async {
            let (mut stream, _) = follower.accept().await.unwrap();
            let mut asked = [0; 1024];
            let read = stream.read(&mut asked).await.unwrap();
            let body = r#"{"epoch":2,"here":false}"#;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).await.unwrap();
            (stream, String::from_utf8_lossy(&asked[..read]).into_owned())
        };
        let both = async { tokio::join!(once(&mut settings, None, &mut host, &mut open), answers) };
        let (why, (_stream, asked)) = timeout(PATIENCE, both).await.expect("nobody is asked");
        assert_eq!(why, "another controller leads");
        assert!(asked.contains("after=1&"), "{asked}");
        host.stop();
    }

    /// One that accepts connections and says nothing is not to be tried as often as one that begins.
    #[tokio::test]
    async fn a_connection_stood_until_its_controller_spoke_last() {
        let Some(rig) = Rig::new() else { return };
        let (listener, mut settings) = listening(&rig).await;
        let mut host = Host::start(&settings).unwrap();
        let mut open = None;
        let mut controller = tokio::select! {
            why = once(&mut settings, None, &mut host, &mut open) => panic!("{why}"),
            controller = Controller::accept(&listener) => controller,
        };
        let channel = open.as_mut().unwrap();
        assert_eq!(channel.stood(), Span::ZERO);
        channel.since -= SILENCE;
        tokio::select! {
            why = once(&mut settings, None, &mut host, &mut open) => panic!("{why}"),
            () = async {
                controller.tell(&commands(1, true, vec![])).await;
                assert_eq!(controller.hear().await, Some(Report::Applied { epoch: 1, sequence: 1 }));
            } => {}
        }
        let channel = open.as_mut().unwrap();
        assert!(channel.stood() > protocol::agent::SILENCE);
        channel.heard = channel.since;
        let why = once(&mut settings, None, &mut host, &mut open).await;
        assert_eq!(why, "the controller is silent");
        assert_eq!(open.unwrap().stood(), Span::ZERO);
        host.stop();
    }

    /// Nobody else could tell the people there what to do.
    #[tokio::test]
    async fn why_it_is_refused_is_in_its_log() {
        let Some(rig) = Rig::new() else { return };
        let (listener, mut settings) = listening(&rig).await;
        let mut host = Host::start(&settings).unwrap();
        let reason = "hosts: another agent acts for h1; stop that one";
        let refuse = async {
            for said in [format!("\"{reason}\"\n"), String::new()] {
                let mut controller = Controller::accept(&listener).await;
                controller.writer.write_all(said.as_bytes()).await.unwrap();
            }
        };
        let mut open = None;
        let mut ends = Vec::new();
        let tries = async {
            for _ in 0..2 {
                ends.push(once(&mut settings, None, &mut host, &mut open).await);
                open = None;
            }
        };
        tokio::join!(refuse, tries);
        host.stop();
        let unsaid = "the controller closed the connection; its log and status may say why";
        assert_eq!(
            ends,
            [format!("the controller closed the connection: {reason}"), unsaid.into()]
        );
    }

    /// It says so once its limits are lifted, and waits for nobody who doesn't answer.
    #[tokio::test]
    async fn one_that_ends_says_that_it_holds_nothing() {
        let Some(rig) = Rig::new() else { return };
        let (listener, mut settings) = listening(&rig).await;
        let mut host = Host::start(&settings).unwrap();
        let (connection, ..) = rig.connect();
        let pace = Command::Pace { connection, rate_bps: Some(Rate::from_mbps(1)) };
        let sample = Command::Sample { every_ns: LEASE };
        let mut open = None;
        let mut controller = tokio::select! {
            lost = converse(&mut settings, None, &mut host, &mut open) => panic!("{lost}"),
            controller = async {
                let mut controller = Controller::accept(&listener).await;
                controller.tell(&commands(1, true, vec![pace, sample])).await;
                let answer = controller.hear().await;
                assert_eq!(answer, Some(Report::Applied { epoch: 1, sequence: 1 }));
                let sampled = controller.hear().await;
                assert!(matches!(sampled, Some(Report::Connections { .. })), "{sampled:?}");
                controller
            } => controller,
        };
        let (short, mut sender, receiver) = rig.connect();
        sender.write_all(&[1]).unwrap();
        drop((sender, receiver));
        let mut last = Vec::new();
        assert!(eventually(|| {
            last.extend(host.finish());
            !last.is_empty()
        }));
        assert!(host.stop());
        let heard = async {
            let said = [controller.hear().await, controller.hear().await];
            (said, controller)
        };
        let began = Instant::now();
        let (_, ([ended, left], _silent)) = tokio::join!(leave(open.unwrap(), last), heard);
        let Some(Report::Ended { connections, .. }) = ended else { panic!("{ended:?}") };
        assert_eq!(connections[0].connection, short, "what has ended since the sample");
        assert_eq!(left, Some(Report::Left {}));
        assert!(began.elapsed() >= FAREWELL, "it has waited for an answer");
    }

    /// Until then it would say that all is carried out, at what nothing passes any more.
    #[tokio::test]
    async fn an_agent_ends_when_what_it_governs_is_replaced() {
        let Some(rig) = Rig::new() else { return };
        let group = kernel::unified_mount().unwrap().join(&rig.name);
        let add = || {
            let name = &rig.name;
            rig.ip(&["-n", name, "link", "add", "port", "type", "veth", "peer", "name", "other"]);
        };
        std::fs::create_dir(&group).unwrap();
        add();
        let (_listener, mut settings) = listening(&rig).await;
        settings.pacer.cgroup = Some(group.clone());
        "port".clone_into(&mut settings.ports[0].interface);
        for replaced in ["control group", "interface"] {
            let mut host = Host::start(&settings).unwrap();
            if replaced == "interface" {
                rig.ip(&["-n", &rig.name, "link", "delete", "port"]);
                add();
            } else {
                std::fs::remove_dir(&group).unwrap();
                std::fs::create_dir(&group).unwrap();
            }
            let ended =
                timeout(PATIENCE, converse(&mut settings, None, &mut host, &mut None)).await;
            let said = ended.expect("it goes on").to_string();
            host.stop();
            assert!(said.contains(&format!("{replaced} ")) && said.contains(" is gone"), "{said}");
        }
        std::fs::remove_dir(&group).unwrap();
    }

    #[tokio::test]
    async fn what_one_connection_wished_for_no_other_is_told() {
        let Some(rig) = Rig::new() else { return };
        let (listener, mut settings) = listening(&rig).await;
        let mut host = Host::start(&settings).unwrap();
        let controller = async {
            let mut controller = Controller::accept(&listener).await;
            let sample = Command::Sample { every_ns: Span::from_millis(1) };
            controller.tell(&commands(1, true, vec![sample])).await;
            while !matches!(controller.hear().await.unwrap(), Report::Connections { .. }) {}
            drop(controller);
            let mut controller = Controller::accept(&listener).await;
            for sequence in 2..7 {
                // Samples would come in between.
                tokio::time::sleep(Duration::from_millis(5)).await;
                controller.tell(&commands(sequence, false, vec![])).await;
                let answer = controller.hear().await;
                assert_eq!(answer, Some(Report::Applied { epoch: 1, sequence }));
            }
        };
        let mut open = None;
        tokio::select! {
            lost = converse(&mut settings, None, &mut host, &mut open) => panic!("{lost}"),
            () = controller => {}
        }
        host.stop();
    }
}
