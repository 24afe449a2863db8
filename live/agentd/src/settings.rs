//! The agent's configuration file. `docs/configuration.md` explains every key.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use document::fields::{Fields, Once, Value, between};
use document::topology::buffer;
use document::{Document, DocumentError};
use model::Buffer;
use protocol::agent::Host;
use protocol::kubernetes::is_object;
use units::{Bytes, Rate};
use wire::controllers::Controllers;
use wire::kubernetes::Access;
use wire::{settings, tls};

use crate::outgoing::SEEN;

type Read<T> = Result<T, DocumentError>;

/// Largest configuration file, in octets.
const MOST_BYTES: u64 = 1 << 20;
/// Most hosts and interfaces of an agent.
const MOST: usize = 4096;

/// All that an agent's daemon is told.
pub struct Settings {
    /// What errors call the configuration.
    pub file: String,
    /// Its name, as in its certificate.
    pub name: String,
    /// Where the controllers are.
    pub controllers: Controllers,
    /// Its certificates.
    pub tls: Option<tls::Files>,
    /// Logs as JSON instead of text.
    pub log_json: bool,
    /// Whom it asks for the pods of its node, if anybody.
    pub kubernetes: Option<Kubernetes>,
    /// Whose connections, and where what survives is kept.
    pub pacer: kernel::PacerOptions,
    /// So many connections that ports see open and close are told in a second.
    pub openings: usize,
    /// The hosts that it acts for.
    pub hosts: Vec<Acting>,
    /// Namespaces that weren't there at the start, with hosts and interfaces that are none of these.
    pub left_out: BTreeSet<String>,
    /// The interfaces that it acts at.
    pub ports: Vec<Interface>,
}

/// Where an agent hears of the pods of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// What the cluster calls the node; `None`: as `NODE_NAME` in the environment says.
    pub node: Option<String>,
    /// The way to the API server.
    pub access: Access,
}

/// A host that an agent acts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acting {
    /// Its name and addresses, as the controller knows them.
    pub host: Host,
    /// Its network namespace; `None`: the agent's own.
    pub namespace: Option<String>,
}

/// An interface that an agent acts at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The host or switch that it belongs to, as the controller knows it.
    pub node: String,
    /// Its name.
    pub interface: String,
    /// Its network namespace; `None`: the agent's own.
    pub namespace: Option<String>,
    /// What it is shaped to, frame bytes.
    pub rate: Rate,
    /// Its buffer.
    pub buffer: Buffer,
    /// Payload of a full TCP segment there.
    pub mss: Bytes,
    /// HTB classes by priority, the first one served first.
    pub classes: Vec<(u16, u16)>,
}

impl Settings {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file can't be read or contradicts itself; the message names place, field and remedy.
    pub fn load(path: &Path) -> Read<Self> {
        let (file, text) = document::text_of(path, MOST_BYTES)?;
        Self::read(&file, &text, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads `text`, called `file` in errors; paths in it are relative to `folder`.
    ///
    /// # Errors
    /// The text contradicts itself; the message names place, field and remedy.
    pub fn read(file: &str, text: &str, folder: &Path) -> Read<Self> {
        let document = Document::read(file, text, &[])?;
        let mut root = Value::root(&document).fields()?;
        let name = root.need("name", "\"h1\"")?.name()?;
        let value = root.need("controller", "\"https://10.0.0.1:7443\"")?;
        let tls = root.optional("tls", |value| settings::tls(value, folder, "agent-h1"))?;
        let controllers = settings::controllers(&value, tls.is_some())?;
        let formats = [("text", false), ("json", true)];
        let log_json = root.or("log", false, |v| v.choice(&formats))?;
        let kubernetes = root.optional("kubernetes", |value| read_kubernetes(value, folder))?;
        let pacer = read_pacer(&mut root, &name)?;
        let openings = root.or("openings_per_second", SEEN, |v| v.integer(1..=1_000_000))?;
        let hosts = root.need("host", "a [[host]] table")?;
        let hosts = match hosts.list(MOST)? {
            none if none.is_empty() => {
                let what =
                    "names none; write a [[host]] table for each host or switch that it acts for";
                return Err(hosts.error(what));
            }
            hosts => hosts,
        };
        let (mut names, mut addresses) = (Once::default(), Once::default());
        let hosts = hosts.iter().map(|value| read_host(value, &mut names, &mut addresses));
        let hosts = hosts.collect::<Read<_>>()?;
        let ports = root.tables("interface", MOST)?;
        let mut interfaces = Once::default();
        let ports = ports.iter().map(|value| read_interface(value, &mut interfaces));
        let ports = ports.collect::<Read<_>>()?;
        root.done()?;
        let file = file.to_owned();
        Ok(Self {
            file,
            name,
            controllers,
            tls,
            log_json,
            kubernetes,
            pacer,
            openings,
            hosts,
            left_out: BTreeSet::new(),
            ports,
        })
    }
}

fn read_pacer(root: &mut Fields<'_>, name: &str) -> Read<kernel::PacerOptions> {
    let default = kernel::PacerOptions::default();
    Ok(kernel::PacerOptions {
        cgroup: root.optional("cgroup", |v| Ok(PathBuf::from(v.text()?)))?,
        pins: root.optional("pins", |v| Ok(PathBuf::from(v.text()?)))?.unwrap_or(default.pins),
        name: name.to_owned(),
        limits: root.or("limits", default.limits, |v| v.integer(1..=1 << 24))?,
        ..default
    })
}

fn read_kubernetes(value: &Value<'_>, folder: &Path) -> Read<Kubernetes> {
    let mut fields = value.fields()?;
    let access = Access::read(&mut fields, folder)?;
    let node = fields.optional("node", |value| match value.text()? {
        text if is_object(text) => Ok(text.to_owned()),
        _ => Err(value.error("is no node of Kubernetes; use small letters, digits, - and .")),
    })?;
    fields.done()?;
    Ok(Kubernetes { node, access })
}

fn read_host<'a>(
    value: &Value<'a>,
    names: &mut Once<'a, String>,
    known: &mut Once<'a, IpAddr>,
) -> Read<Acting> {
    let mut fields = value.fields()?;
    let named = fields.need("name", "\"h1\"")?;
    let name = names.take(named.name()?, &named)?;
    let addresses = fields.need("addresses", "[\"10.0.0.1\"]")?.list(64)?;
    let addresses = addresses.iter().map(|value| known.take(value.ip()?, value));
    let addresses = addresses.collect::<Read<_>>()?;
    let namespace = read_namespace(&mut fields)?;
    fields.done()?;
    Ok(Acting { host: Host { name, addresses }, namespace })
}

fn read_namespace(fields: &mut Fields<'_>) -> Read<Option<String>> {
    fields.optional("namespace", Value::name)
}

fn read_interface<'a>(
    value: &Value<'a>,
    known: &mut Once<'a, (String, String)>,
) -> Read<Interface> {
    let mut fields = value.fields()?;
    let interface = Interface {
        node: fields.need("node", "\"s1\"")?.name()?,
        interface: fields.need("interface", "\"eth0\"")?.text()?.to_owned(),
        namespace: read_namespace(&mut fields)?,
        rate: between(
            &fields.need("rate", "\"100 Mbit/s\"")?,
            Rate::from_bps(1_000),
            Rate::from_mbps(100_000_000),
        )?,
        buffer: fields.need("buffer", "\"100 packets\"").and_then(|value| room(&value))?,
        mss: fields.optional("mss", |v| v.integer(64..=65_000))?.map_or(model::MSS, Bytes::new),
        classes: fields.optional("classes", read_classes)?.unwrap_or_default(),
    };
    fields.done()?;
    known.take((interface.node.clone(), interface.interface.clone()), value)?;
    Ok(interface)
}

/// One class orders nothing, and none even less.
fn read_classes(value: &Value<'_>) -> Read<Vec<(u16, u16)>> {
    let classes = value.list(64)?;
    if classes.len() < 2 {
        let what =
            "orders nothing with less than two; name two, the first served first, or leave it out";
        return Err(value.error(what));
    }
    let mut once = Once::default();
    classes.iter().map(|value| once.take(read_class(value)?, value)).collect()
}

/// A buffer in which a full packet has room: what never fits is never counted.
fn room(value: &Value<'_>) -> Read<Buffer> {
    match buffer(value)? {
        Buffer::Bytes(least) if least < Bytes::new(1_500) => {
            Err(value.error("holds no full packet; write at least \"1500 B\""))
        }
        room => Ok(room),
    }
}

/// `1:10`, as `tc` writes it: hexadecimal.
fn read_class(value: &Value<'_>) -> Read<(u16, u16)> {
    let parts = value.text()?.split_once(':');
    let number = |text| u16::from_str_radix(text, 16).ok();
    let class = parts.and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
    class.ok_or_else(|| value.error("is no class; write \"1:10\" as tc does"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    /// What is there and says nothing was meant to say something.
    #[test]
    fn what_names_nothing_is_refused() {
        let read = |more: &str| {
            let text = format!("name = \"a\"\ncontroller = \"http://127.0.0.1:1\"\n{more}");
            let read = Settings::read("a.toml", &text, Path::new(""));
            read.map(drop).unwrap_err().to_string()
        };
        let said = read("host = []\n");
        assert!(said.starts_with("a.toml:3:8: host: names none; write a [[host]]"), "{said}");
        for (classes, wrong) in [
            ("[]", "11:11: interface[0].classes: orders nothing with less than two; name"),
            ("[\"1:1\"]", "11:11: interface[0].classes: orders nothing with less than two; name"),
            ("[\"1:1\", \"1:01\"]", "11:19: interface[0].classes[1]: the same is given at"),
        ] {
            let said = read(&format!(
                "[[host]]\nname = \"h1\"\naddresses = []\n[[interface]]\nnode = \"s1\"\n\
                 interface = \"e1\"\nrate = \"1 Gbit/s\"\nbuffer = \"100 packets\"\nclasses = {classes}\n"
            ));
            assert!(said.starts_with(&format!("a.toml:{wrong}")), "{said}");
        }
    }

    #[test]
    fn the_way_to_the_pods_of_the_node_is_that_of_every_pod_unless_it_is_named() {
        let read = |table: &str| {
            let text = format!(
                "name = \"a\"\ncontroller = \"http://127.0.0.1:1\"\n[[host]]\nname = \"h1\"\naddresses = []\n{table}"
            );
            let read = Settings::read("a.toml", &text, Path::new("/f"));
            read.map(|settings| settings.kubernetes).map_err(|error| error.to_string())
        };
        assert_eq!(read(""), Ok(None));
        let account = Path::new(wire::kubernetes::SERVICE_ACCOUNT);
        let (token, ca) = (account.join("token"), account.join("ca.crt"));
        let usual = Kubernetes { node: None, access: Access { address: None, token, ca } };
        assert_eq!(read("[kubernetes]\n"), Ok(Some(usual)));
        let all = "[kubernetes]\nnode = \"node-1.example\"\naddress = \"http://127.0.0.1:8001\"\ntoken = \"token\"\n\
                   ca = \"/ca.crt\"\n";
        let access = Access {
            address: Some("http://127.0.0.1:8001".parse().unwrap()),
            token: PathBuf::from("/f/token"),
            ca: PathBuf::from("/ca.crt"),
        };
        assert_eq!(read(all), Ok(Some(Kubernetes { node: Some("node-1.example".into()), access })));
        for (field, wrong) in [
            ("node = \"a&watch=1\"", "kubernetes.node: is no node of Kubernetes"),
            ("address = \"http://10.0.0.1:80\"", "kubernetes.address: would show the token"),
            ("name = \"a\"", "kubernetes.name: unknown key"),
        ] {
            let said = read(&format!("[kubernetes]\n{field}\n")).unwrap_err();
            assert!(said.contains(wrong), "{said}");
        }
    }

    #[test]
    fn nothing_is_given_twice() {
        let host = |name: &str, address: &str| {
            format!("[[host]]\nname = \"{name}\"\naddresses = [\"{address}\"]\n")
        };
        let interface = |node: &str, name: &str| {
            format!(
                "[[interface]]\nnode = \"{node}\"\ninterface = \"{name}\"\nrate = \"1 Gbit/s\"\n\
                 buffer = \"100 packets\"\n"
            )
        };
        let read = |more: &str| {
            let start = "name = \"a\"\ncontroller = \"http://127.0.0.1:1\"\n";
            let text = [start, &host("h1", "10.0.0.1"), &interface("s1", "e1"), more].concat();
            let read = Settings::read("a.toml", &text, Path::new(""));
            read.map(drop).map_err(|error| error.to_string())
        };
        let good = [host("h2", "10.0.0.2"), interface("s1", "e2"), interface("s2", "e1")];
        read(&good.concat()).unwrap();
        for (more, at, before) in [
            (host("h1", "10.0.0.2"), "12:8: host[1].name", "4:8"),
            (host("h2", "10.0.0.1"), "13:14: host[1].addresses[0]", "5:14"),
            (interface("s1", "e1"), "11:1: interface[1]", "6:1"),
        ] {
            let said = read(&more).unwrap_err();
            let wanted = format!("a.toml:{at}: the same is given at a.toml:{before} already; ");
            assert!(said.starts_with(&wanted), "{said}\n{wanted}");
        }
    }
}
