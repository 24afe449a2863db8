//! `watermaster replay`: a recording once more.

use std::path::{Path, PathBuf};

use clap::Args;
use control::record::{Content, MAGIC, Record};
use control::{Input, Output};
use controller::replay::Replayed;
use model::PortWatch;
use protocol::agent::{Command, Commands, Report};
use protocol::application::Declaration;
use protocol::{Connection, Process, Processes};
use serde::Serialize;
use serde_json::{Value, json};
use units::{Bytes, Time};

use super::block_on;
use crate::failure::{Failure, note, print};
use crate::input::quoted;
use crate::live::page::recording::Camera;
use crate::live::page::serve;
use crate::overwrite;

/// Put a recording into the controller's machine again
///
/// Prints what was said and decided when, and how far it is what was decided then. Exit code 1 where it
/// is not, nothing can be compared, or a later part of the recording can't be read.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster replay \
                  /var/lib/watermaster/records/epoch-000003.000.record --quiet")]
pub(crate) struct Replay {
    /// The first part of a recording
    file: PathBuf,

    /// Print the summary only
    #[arg(short, long)]
    quiet: bool,

    /// Print JSON objects, one on a line; the last one is the summary
    #[arg(long)]
    json: bool,

    /// Write the page of it to this file: what was decided when, by time
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,

    /// Write the page over a file that is there and is no page; never over a recording
    #[arg(long, requires = "page")]
    force: bool,

    /// Serve the page on 127.0.0.1 and open it in the browser, until it is interrupted
    #[arg(long)]
    open: bool,

    /// The same without a browser: the address is printed
    #[arg(long)]
    serve: bool,
}

impl Replay {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        let shown = self.open || self.serve;
        self.page.as_deref().map_or(Ok(()), |page| self.may_write(page))?;
        let mut camera = (shown || self.page.is_some()).then(Camera::default);
        let quiet = self.quiet || shown;
        let mut written = Ok(());
        let replayed = controller::replay::replay(&self.file, |record, outputs, answers| {
            if let Some(camera) = &mut camera {
                let input = Line::input(record).into_iter();
                let lines =
                    input.chain(outputs.iter().map(|output| Line::output(record.at, output)));
                camera.see(record, lines.map(|line| (line.way == "from", line.plain())), answers);
            }
            let input = Line::input(record).into_iter();
            let outputs = outputs.iter().map(|output| Line::output(record.at, output));
            for line in input.chain(outputs).filter(|_| !quiet) {
                if written.is_ok() {
                    written = print(&if self.json { line.json() } else { line.text() });
                }
            }
        })
        .map_err(Failure::misused)?;
        written?;
        let page = camera.map(|camera| self.film(camera, replayed.replay.epoch)).transpose()?;
        if let (Some(file), Some(page)) = (&self.page, &page) {
            let wrong = |error| {
                Failure::misused(format_args!(
                    "--page {}: {error}; name a file that can be written",
                    file.display()
                ))
            };
            std::fs::write(file, page).map_err(wrong)?;
        }
        let verdict = self.told(&replayed);
        match page.filter(|_| shown) {
            // What differs is said before the page is served, and again by the exit code.
            Some(page) => {
                if let Err(Failure::Failed(why)) = &verdict {
                    note(why);
                }
                block_on(serve(0, page, None, self.open))?;
                verdict
            }
            None => verdict,
        }
    }

    /// Refuses a file that holds something else than a page.
    fn may_write(&self, page: &Path) -> Result<(), Failure> {
        overwrite::spare("--page", page, [&*self.file])?;
        let Some(begins) = overwrite::begins(page) else { return Ok(()) };
        let shown = page.display();
        // Its last octet is the version.
        if begins.starts_with(&MAGIC[..MAGIC.len() - 1]) {
            return Err(Failure::misused(format_args!(
                "--page {shown}: is a recording; name another file"
            )));
        }
        if self.force || ::page::is_page(&String::from_utf8_lossy(&begins)) {
            return Ok(());
        }
        Err(Failure::misused(format_args!(
            "--page {shown}: is there already, and is no page; name another file, or add --force to write over it"
        )))
    }

    fn film(&self, camera: Camera, epoch: u64) -> Result<String, Failure> {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let command = format!("watermaster replay {}", quoted(&self.file.to_string_lossy()));
        ::page::with_film(&camera.film(name, epoch, command)).map_err(Failure::failed)
    }

    /// Prints what came of it; fails where it isn't what was decided then.
    fn told(&self, replayed: &Replayed) -> Result<(), Failure> {
        let Replayed { replay, truncated, .. } = replayed;
        let verdict = verdict(replay);
        let verdict = match &replay.damaged {
            None => verdict,
            Some(damaged) => Err(format!(
                "{}: {damaged}; the {} inputs before it were replayed: {}",
                self.file.display(),
                replay.inputs,
                verdict.unwrap_or_else(|why| why)
            )),
        };
        if self.json {
            let said = verdict.as_ref().unwrap_or_else(|why| why);
            let summary = Summary { replayed, equal: verdict.is_ok(), verdict: said };
            let line = serde_json::to_string(&summary).map_err(Failure::failed)?;
            print(&(line + "\n"))?;
            return verdict.map(|_| ()).map_err(Failure::failed);
        }
        let cut = match (truncated, replay.ended || replay.damaged.is_some()) {
            (true, _) => "; the last record is truncated",
            (_, false) => {
                "; its end isn't there: the controller still runs or was killed, or the rest is cut off"
            }
            _ => "",
        };
        print(&format!(
            "epoch {}: {} inputs ({} refused), {} directives and {} outputs in {:.3} s, digest {}{cut}\n",
            replay.epoch,
            replay.inputs,
            replay.refused,
            replay.directives,
            replay.outputs,
            replay.lasted_ns.as_secs_f64(),
            replay.digest,
        ))?;
        print(&(verdict.map_err(Failure::failed)? + "\n"))
    }
}

/// What came of it, for scripts.
#[derive(Serialize)]
struct Summary<'a> {
    #[serde(flatten)]
    replayed: &'a Replayed,
    /// Whether the exit code is 0.
    equal: bool,
    /// The same in a sentence, as people are told it.
    verdict: &'a str,
}

/// How far what was decided then is what is decided now, or why that can't be said.
fn verdict(replay: &control::Replay) -> Result<String, String> {
    let control::Replay { outputs, directives, refused, digests, unverified, .. } = replay;
    if let Some(records) = replay.altered_after {
        return Err(format!(
            "the recording was altered: its first {records} records are not what was recorded"
        ));
    }
    if let Some(outputs) = replay.differs_after {
        let (this, then) = (env!("CARGO_PKG_VERSION"), &replay.version);
        return Err(format!(
            "it differs from what was decided then, within the first {outputs} outputs; this program \
             is {this}, {then} recorded"
        ));
    }
    if *digests == 0 {
        return Err(format!(
            "nothing was compared: the recording ends before its first digest; its {outputs} outputs, {directives} \
             directives and {refused} refusals are not verified"
        ));
    }
    let until = replay.verified_ns.as_secs_f64();
    let messages = outputs - unverified;
    let wanted = directives - replay.unverified_directives;
    let refusals = refused - replay.unverified_refusals;
    if messages + wanted + refusals == 0 {
        return Err(format!(
            "nothing was compared: up to t={until:.3} s the policy wanted nothing, nothing was refused, and no message \
             to an agent or a switch was decided"
        ));
    }
    let rest = match (replay.unverified_records, unverified) {
        (0, 0) => String::new(),
        (records, outputs) => format!(
            "; {records} records and {outputs} outputs after the last digest are not verified"
        ),
    };
    Ok(format!(
        "equal to what was decided then up to t={until:.3} s ({messages} messages to agents and switches, {wanted} directives, {refusals} refusals, {digests} digests){rest}"
    ))
}

/// Something that was said to the controller, or by it.
struct Line {
    at: Time,
    /// `from` or `to`.
    way: &'static str,
    /// Who: a kind of peer, and its number or name.
    peer: String,
    /// In a sentence.
    text: String,
    /// The same for programs.
    what: Value,
}

impl Line {
    /// What a record tells; ticks tell nothing.
    fn input(record: &Record) -> Option<Self> {
        let (peer, text, what) = match &record.content {
            Content::Started(..) | Content::Continued(_) | Content::Digest(_) | Content::Ended => {
                return None;
            }
            Content::Changed(configuration) => {
                let text = format!("{} was read again", configuration.file);
                (String::from("configuration"), text.clone(), json!(text))
            }
            Content::Input(input) => match input.as_input() {
                Input::Tick => return None,
                Input::SwitchConnected { channel, identity } => {
                    let who = identity.map_or_else(String::new, |name| format!(" as {name}"));
                    said(&format!("switch {}", channel.0), &format!("connected{who}"))
                }
                Input::SwitchGone(channel) => said(&format!("switch {}", channel.0), "gone"),
                Input::SwitchBytes(channel, bytes) => {
                    let text = openflow(bytes);
                    (format!("switch {}", channel.0), text.clone(), json!(text))
                }
                Input::Declared { application, declaration } => (
                    format!("application {application}"),
                    declared(declaration),
                    plain(declaration),
                ),
                Input::Unreadable(name) => {
                    said(&format!("application {name}"), "declared something that couldn't be read")
                }
                Input::Ordered { act, again } => {
                    let said = if again { "ordered before" } else { "ordered" };
                    (act.by.clone(), format!("{said} {}", plain(&act.order)), plain(act))
                }
                Input::ApplicationHere(name) => said(&format!("application {name}"), "here"),
                Input::ApplicationGone(name) => said(&format!("application {name}"), "gone"),
                Input::AgentConnected { channel, identity } => {
                    said(&format!("agent {}", channel.0), &format!("connected as {identity}"))
                }
                Input::Reported(channel, report) => {
                    (format!("agent {}", channel.0), reported(report), plain(report))
                }
                Input::AgentGone(channel) => said(&format!("agent {}", channel.0), "gone"),
            },
        };
        Some(Self { at: record.at, way: "from", peer, text, what })
    }

    fn output(at: Time, output: &Output) -> Self {
        let (peer, text, what) = match output {
            Output::Switch(channel, bytes) => {
                let text = openflow(bytes);
                (format!("switch {}", channel.0), text.clone(), json!(text))
            }
            Output::Agent(channel, commands) => {
                (format!("agent {}", channel.0), commanded(commands), plain(commands))
            }
            Output::CloseSwitch(channel, why) => {
                said(&format!("switch {}", channel.0), &format!("closed: {why}"))
            }
            Output::CloseAgent(channel, why) => {
                said(&format!("agent {}", channel.0), &format!("closed: {why}"))
            }
        };
        Self { at, way: "to", peer, text, what }
    }

    /// Without the time.
    fn plain(&self) -> String {
        format!("{} {}: {}", self.way, self.peer, self.text)
    }

    fn text(&self) -> String {
        let Self { at, way, peer, text, .. } = self;
        let line = format!("{:>12.6}  {way:<4} {peer}: {text}", at.as_secs_f64());
        // What was refused is among it.
        line.replace(control::is_control, "\u{fffd}") + "\n"
    }

    fn json(&self) -> String {
        let Self { at, way, peer, what, .. } = self;
        format!("{}\n", json!({ "at_ns": at.as_nanos(), *way: peer, "what": what }))
    }
}

fn said(peer: &str, text: &str) -> (String, String, Value) {
    (peer.to_owned(), text.to_owned(), json!(text))
}

/// Messages of the protocol are plain data, which JSON always can express.
fn plain(message: &impl Serialize) -> Value {
    serde_json::to_value(message).unwrap_or_default()
}

fn ends(connection: &Connection) -> String {
    format!("{} -> {}", connection.source, connection.destination)
}

/// The types of OpenFlow messages (OpenFlow 1.3.5, section 7.1, `ofp_type`), by number.
const TYPES: [&str; 30] = [
    "HELLO",
    "ERROR",
    "ECHO_REQUEST",
    "ECHO_REPLY",
    "EXPERIMENTER",
    "FEATURES_REQUEST",
    "FEATURES_REPLY",
    "GET_CONFIG_REQUEST",
    "GET_CONFIG_REPLY",
    "SET_CONFIG",
    "PACKET_IN",
    "FLOW_REMOVED",
    "PORT_STATUS",
    "PACKET_OUT",
    "FLOW_MOD",
    "GROUP_MOD",
    "PORT_MOD",
    "TABLE_MOD",
    "MULTIPART_REQUEST",
    "MULTIPART_REPLY",
    "BARRIER_REQUEST",
    "BARRIER_REPLY",
    "QUEUE_GET_CONFIG_REQUEST",
    "QUEUE_GET_CONFIG_REPLY",
    "ROLE_REQUEST",
    "ROLE_REPLY",
    "GET_ASYNC_REQUEST",
    "GET_ASYNC_REPLY",
    "SET_ASYNC",
    "METER_MOD",
];

/// What OpenFlow messages are in `bytes`. What a switch sent may be cut anywhere: the rest is counted.
fn openflow(bytes: &[u8]) -> String {
    let (mut rest, mut text) = (bytes, String::new());
    while let [4, kind, high, low, ..] = *rest
        && let Some(name) = TYPES.get(usize::from(kind))
        && let length @ 8.. = usize::from(u16::from_be_bytes([high, low]))
        && let Some((_, next)) = rest.split_at_checked(length)
    {
        text.push_str(if text.is_empty() { "" } else { ", " });
        text.push_str(name);
        rest = next;
    }
    match (text.is_empty(), rest.len()) {
        (_, 0) => text,
        (true, left) => format!("{left} bytes of a message"),
        (false, left) => format!("{text}, {left} bytes of the next"),
    }
}

fn declared(declaration: &Declaration) -> String {
    match declaration {
        Declaration::JobStart { job } => format!("job {job} starts"),
        Declaration::JobTerms { job, objective, deadline_ms, weight } => {
            let objective = objective.as_ref().map(|name| format!(" objective {name}"));
            let deadline = deadline_ms.map(|ms| format!(" deadline {ms} ms"));
            let weight = weight.map(|weight| format!(" weight {weight}"));
            let asked: Vec<_> = [objective, deadline, weight].into_iter().flatten().collect();
            format!(
                "job {job} asks for{}",
                if asked.is_empty() { " nothing".into() } else { asked.join(",") }
            )
        }
        Declaration::JobComplete { job } => format!("job {job} is complete"),
        Declaration::TaskHost { job, task, host } => {
            format!("job {job}: task {task} runs on {host}")
        }
        Declaration::Size { job, map, reduces } => {
            let total: Bytes = reduces.iter().map(|portion| portion.bytes).sum();
            format!("job {job}: map {map} has {total} for {} reduces", reduces.len())
        }
        Declaration::FlowRequest { job, flow, connection, processes, bytes } => {
            let size = bytes.map_or_else(|| "a stream".to_owned(), |bytes| bytes.to_string());
            let Processes { source, destination } = processes;
            let who = [(source, "from"), (destination, "to")];
            let who = who.into_iter().filter_map(|(end, way)| Some((end.as_ref()?, way)));
            let who: String = who.map(|(end, way)| format!(", {way} {}", process(end))).collect();
            format!("job {job}: flow {flow} begins, {}{who}, {size}", ends(connection))
        }
        Declaration::FlowComplete { job, flow } => format!("job {job}: flow {flow} is complete"),
        Declaration::Streams { job, samples } => {
            format!("job {job}: samples of {} streams", samples.len())
        }
    }
}

fn process(process: &Process) -> String {
    match process {
        Process::Pid(pid) => format!("process {pid}"),
        Process::Cgroup(path) => format!("control group {path}"),
        Process::Pod(name) => format!("pod {name}"),
    }
}

fn reported(report: &Report) -> String {
    match report {
        Report::Hello { hosts, capabilities, epoch } => {
            let hosts: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            let can: Vec<&str> = capabilities.iter().map(|capability| capability.name()).collect();
            let (hosts, can) = (hosts.join(", "), can.join(", "));
            format!("acts for {hosts}, can do {can}, obeyed epoch {epoch}")
        }
        Report::Connections { connections, .. } => {
            format!("samples of {} connections", connections.len())
        }
        Report::Ended { connections, lost: 0, .. } => {
            format!("{} connections have ended", connections.len())
        }
        Report::Ended { connections, lost, .. } => {
            format!("{} connections have ended, and {lost} that it can't tell", connections.len())
        }
        Report::Opened { connection } => format!("{} opened", ends(connection)),
        Report::Closed { connection } => format!("{} closed", ends(connection)),
        Report::Congested { node, interface, severity, queue_bytes } => {
            format!("{node} {interface}: congestion {severity:?}, {queue_bytes} in the queue")
        }
        Report::Ports { ports } => format!("counters of {} interfaces", ports.len()),
        Report::Failed { epoch, sequence, command, reason } => {
            format!("could not do {} ({sequence} of epoch {epoch}): {reason}", wanted(command))
        }
        Report::Applied { epoch, sequence } => format!("did {sequence} of epoch {epoch}"),
        Report::Stale { epoch, obeys } => format!("refused epoch {epoch}, obeys {obeys}"),
        Report::Left {} => "left, and holds nothing".into(),
    }
}

fn commanded(commands: &Commands) -> String {
    let Commands { epoch, sequence, complete, commands, .. } = commands;
    let all = if *complete { ", all that holds" } else { "" };
    let mut text = format!("number {sequence} of epoch {epoch}{all}");
    let mut part = "";
    for command in commands {
        text.push_str(if part.is_empty() { ": " } else { part });
        part = "; ";
        text.push_str(&wanted(command));
    }
    text
}

fn wanted(command: &Command) -> String {
    match command {
        Command::Pace { connection, rate_bps: Some(rate) } => {
            format!("{} at {rate}", ends(connection))
        }
        Command::Pace { connection, rate_bps: None } => format!("{} free", ends(connection)),
        Command::Prioritize { connection, priority } => {
            format!("{} in class {priority}", ends(connection))
        }
        Command::Window { node, interface, connection, cap } => {
            let whose = connection.as_ref().map_or_else(|| "all".to_owned(), ends);
            let cap = cap.map_or_else(|| "none".to_owned(), |cap| cap.bytes.to_string());
            format!("{node} {interface}: window of {whose} {cap}")
        }
        Command::Prepare { node, interface, connection, caps } => {
            let whose = connection.as_ref().map_or_else(|| "all".to_owned(), ends);
            let said = model::Severity::ALL
                .into_iter()
                .filter_map(|severity| Some(format!("{} at {severity}", caps.at(severity)?.bytes)));
            let said: Vec<String> = said.collect();
            format!("{node} {interface}: prepared windows of {whose} {}", said.join(", "))
        }
        Command::Space { node, interface, gap_ns } => {
            let gap =
                gap_ns.map_or_else(|| "as they come".to_owned(), |gap| format!("{gap} apart"));
            format!("{node} {interface}: acknowledgements {gap}")
        }
        Command::Watch { node, interface, watch } => {
            let what = match watch {
                None => "not watched",
                Some(PortWatch { thresholds: None }) => "tells SYN and FIN",
                Some(PortWatch { thresholds: Some(_) }) => "tells SYN, FIN and congestion",
            };
            format!("{node} {interface} {what}")
        }
        Command::Sample { every_ns } => format!("samples every {every_ns}"),
        Command::Count { every_ns } => format!("counters of interfaces every {every_ns}"),
        Command::Identify { processes } => {
            let all: Vec<String> = processes.iter().map(process).collect();
            format!("look for connections of {}", all.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_steers_no_terminal() {
        let (peer, text, what) = said("a\u{202e}", "job x\u{1b}[2J\nb is complete");
        let line = Line { at: Time::ZERO, way: "from", peer, text, what };
        assert_eq!(
            line.text(),
            "    0.000000  from a\u{fffd}: job x\u{fffd}[2J\u{fffd}b is complete\n"
        );
    }
}
