//! Commands for real networks: the daemons, and queries to a controller.

pub(crate) mod agent;
pub(crate) mod certs;
pub(crate) mod controller;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod gather;
pub(crate) mod order;
pub(crate) mod page;
mod profile;
pub(crate) mod recordings;
pub(crate) mod replay;
pub(crate) mod status;
pub(crate) mod top;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use comfy_table::{Table, TableStyle};
use serde_json::Value;
use tokio::time::timeout;
use wire::client::{Address, Client, ClientError};
use wire::controllers::Controllers;
use wire::tls;

use crate::failure::Failure;

/// How long a connection, and then a whole answer, may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How long one that leads is sought, of several.
const SEEKING: Duration = Duration::from_secs(4);

/// The controller to query.
#[derive(Args, Clone)]
pub(crate) struct Target {
    /// The controller, or several of which one leads: https://HOST:PORT, http://HOST:PORT or unix:PATH
    /// [default: WATERMASTER_CONTROLLER, or else the Unix socket of this machine's]
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
    controller: Vec<Address>,

    /// The controllers and certificates of a [[profile]] in ~/.config/watermaster/profiles.toml [default:
    /// WATERMASTER_PROFILE, where neither option nor variable names a controller]
    #[arg(long, value_name = "NAME", conflicts_with = "controller")]
    profile: Option<String>,

    /// The authority's certificate [needed with https; default: WATERMASTER_CA]
    #[arg(long, value_name = "FILE", requires = "certificate", requires = "key")]
    ca: Option<PathBuf>,

    /// Your own certificate, of an operator or a viewer [default: WATERMASTER_CERTIFICATE]
    #[arg(long, value_name = "FILE", requires = "ca")]
    certificate: Option<PathBuf>,

    /// Its private key [default: WATERMASTER_KEY]
    #[arg(long, value_name = "FILE", requires = "ca")]
    key: Option<PathBuf>,
}

/// A question without anything else to say.
#[derive(Args)]
pub(crate) struct Plain {
    #[command(flatten)]
    target: Target,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Target {
    /// Where the controllers are, and what to show them: what is said first of options, the environment, and what is
    /// usual.
    fn way(&self) -> Result<(Controllers, Option<tls::Files>), Failure> {
        let named = match (&self.profile, variable("WATERMASTER_CONTROLLER")?) {
            (Some(name), _) => Some(name.clone()),
            (None, None) if self.controller.is_empty() => variable("WATERMASTER_PROFILE")?,
            _ => None,
        };
        if let Some(name) = named {
            let (controllers, files) = profile::named(&name)?;
            return Ok((controllers, self.given().or(files)));
        }
        let files = match self.given() {
            Some(given) => Some(given),
            None => environment_files()?,
        };
        let mut all = self.controller.clone();
        if let (true, Some(said)) = (all.is_empty(), variable("WATERMASTER_CONTROLLER")?) {
            let read = said.split(',').map(str::parse).collect::<Result<_, _>>();
            all = read.map_err(|error| {
                Failure::misused(format_args!("WATERMASTER_CONTROLLER: {error}"))
            })?;
        }
        if all.is_empty() {
            all.push(Address::Unix(PathBuf::from(controller::SOCKET)));
        }
        let most = wire::controllers::MOST;
        let wrong = || Failure::misused(format_args!("--controller: name {most} at most"));
        Ok((Controllers::new(all).ok_or_else(wrong)?, files))
    }

    /// The certificates that options name.
    fn given(&self) -> Option<tls::Files> {
        let (ca, certificate, key) =
            (self.ca.clone()?, self.certificate.clone()?, self.key.clone()?);
        Some(tls::Files { ca, certificate, key, crl: None })
    }

    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        self.reach().await?.map_err(failed)
    }

    /// A connection; or why there is none now.
    ///
    /// # Errors
    /// Options or files that can't be used, or nobody answers in time.
    async fn reach(&self) -> Result<Result<Client, ClientError>, Failure> {
        let (mut controllers, files) = self.way()?;
        let tls = files.as_ref().map(tls::client).transpose().map_err(Failure::misused)?;
        let tls = tls.map(Arc::new);
        match timeout(ANSWER, controllers.connect(tls.as_ref(), SEEKING)).await {
            Ok(connected) => Ok(connected),
            Err(_) => Err(Failure::failed(format_args!(
                "{controllers}: no connection within {} s; does the controller run there?",
                ANSWER.as_secs()
            ))),
        }
    }

    /// The contents of `path`.
    fn get(&self, path: &str) -> Result<Value, Failure> {
        block_on(async { fetch(&mut self.connect().await?, path).await })
    }
}

/// A variable of the environment; an empty one is none.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(said) => Ok(Some(said).filter(|said| !said.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Failure::misused(format_args!("{name}: {error}"))),
    }
}

/// The certificates that the environment names: all three, or none.
fn environment_files() -> Result<Option<tls::Files>, Failure> {
    const NAMES: [&str; 3] = ["WATERMASTER_CA", "WATERMASTER_CERTIFICATE", "WATERMASTER_KEY"];
    let mut said = Vec::new();
    for name in NAMES {
        said.push(variable(name)?.map(PathBuf::from));
    }
    match (said.remove(0), said.remove(0), said.remove(0)) {
        (None, None, None) => Ok(None),
        (Some(ca), Some(certificate), Some(key)) => {
            Ok(Some(tls::Files { ca, certificate, key, crl: None }))
        }
        _ => Err(Failure::misused(format_args!("set all of {}, or none", NAMES.join(", ")))),
    }
}

/// Waits for an answer, but not for ever.
async fn answer<T>(asked: impl Future<Output = T>) -> Result<T, Failure> {
    let seconds = ANSWER.as_secs();
    timeout(ANSWER, asked).await.map_err(|_| {
        Failure::failed(format_args!(
            "connected, but no answer within {seconds} s; is the controller stopped or overloaded?"
        ))
    })
}

async fn fetch(client: &mut Client, path: &str) -> Result<Value, Failure> {
    let body = answer(client.get(path)).await?.map_err(failed)?;
    serde_json::from_slice(&body).map_err(Failure::failed)
}

/// Blocks on a future.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::failed)?.block_on(future)
}

fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::Address(_) | ClientError::NoCertificates(_) => Failure::misused(error),
        ClientError::Refused { status, said } => {
            // The controller says what is wrong in one object.
            let told: Option<Value> = serde_json::from_str(&said).ok();
            let field = told.as_ref().and_then(|told| told["error"]["field"].as_str());
            let reason = told.as_ref().and_then(|told| told["error"]["reason"].as_str());
            match (field, reason) {
                (Some(field), Some(reason)) => Failure::failed(format_args!("{field}: {reason}")),
                _ => Failure::failed(format_args!("the controller refuses ({status}): {said}")),
            }
        }
        error => Failure::failed(error),
    }
}

/// A value as JSON for scripts.
fn pretty(value: &Value) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(Failure::failed)
}

/// A name as it was declared: who asks may write its `/` as `%2F`, and then its `%` as `%25`.
fn plain(name: &str) -> String {
    name.replace("%2F", "/").replace("%2f", "/").replace("%25", "%")
}

/// A path segment with special characters escaped.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(octet));
        } else {
            out += &format!("%{octet:02X}");
        }
    }
    out
}

/// The number at `key` as a rate; `-` where there is none.
fn rate(value: &Value, key: &str) -> String {
    value[key].as_u64().map_or_else(|| "-".to_owned(), rate_of)
}

/// What the limits at `key` add up to; `-` where there is no limit, which blocks nobody.
fn limits(value: &Value, key: &str) -> String {
    if value[key] == 0 { "-".to_owned() } else { rate(value, key) }
}

/// A rate for people.
pub(crate) fn rate_of(bps: u64) -> String {
    scaled(bps, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")], "bit/s")
}

/// A size for people.
fn octets_of(octets: u64) -> String {
    scaled(octets, &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")], "B")
}

/// Three digits and a unit: the largest of `steps` that fits, or `one`.
fn scaled(value: u64, steps: &[(f64, &str)], one: &str) -> String {
    let real = value as f64;
    match steps.iter().find(|(scale, _)| real >= *scale) {
        Some((scale, unit)) => {
            let scaled = real / scale;
            let digits = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
            format!("{scaled:.digits$} {unit}")
        }
        None => format!("{value} {one}"),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("-")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A table after a blank line; empty without rows.
pub(super) fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_header(head.to_vec());
    for row in rows {
        table.add_row(row);
    }
    if table.row_count() == 0 {
        return String::new();
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    format!("\n{}\n", lines.join("\n"))
}

/// A flow whose limit found no room, as the controller tells of it: what shows a flow reads fields by their names.
#[cfg(test)]
fn unheld() -> control::FlowStatus {
    use std::net::SocketAddr;

    use units::{Bytes, Rate};

    control::FlowStatus {
        application: "mr".to_owned(),
        job: "sort".to_owned(),
        flow: "1".to_owned(),
        connection: protocol::Connection {
            source: SocketAddr::from(([10, 0, 0, 1], 1)),
            destination: SocketAddr::from(([10, 0, 0, 2], 2)),
        },
        source_pod: None,
        destination_pod: None,
        carriers: Vec::new(),
        more_carriers: 0,
        intended_bps: Some(Rate::from_mbps(12)),
        enforced_bps: None,
        failed: Some("no room".to_owned()),
        measured_bps: Some(Rate::from_mbps(5)),
        bytes: Some(Bytes::new(8_000_000)),
        delivered_bytes: Bytes::ZERO,
        contradicted: None,
    }
}
