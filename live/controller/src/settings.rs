//! The configuration file: one TOML document. `docs/operating.md` explains every key.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use control::{
    Change, Config, Enforcement, HostConfig, LEASES, Limits, PERIODS, PortConfig, SwitchConfig,
    wrong_sample,
};
use document::fields::{Fields, Once, Value, between};
use document::{Document, DocumentError, policies, topology};
use model::{NodeKind, Topology};
use policy::{Messages, Parameters};
use tracing_subscriber::filter::{LevelFilter, Targets};
use units::Bytes;
use wire::tls;

type Read<T> = Result<T, DocumentError>;

/// Largest configuration file, in octets.
const MOST_BYTES: u64 = 4 << 20;
/// Most entries of a list.
const MOST: usize = 1 << 17;

/// All that a controller's daemon is told.
pub struct Settings {
    /// What errors call the file.
    pub file: String,
    /// The file itself, which a recording keeps.
    pub text: String,
    /// Where it keeps its epoch.
    pub state: PathBuf,
    /// Logs as JSON instead of text.
    pub log_json: bool,
    /// What is logged, such as `info` or `controller=debug`.
    pub log_level: String,
    /// Where it listens.
    pub listen: Listen,
    /// Its certificates.
    pub tls: Option<tls::Files>,
    /// The policy's parameters.
    pub parameters: Parameters,
    /// What the daemon itself limits.
    pub bounds: Bounds,
    /// Where inputs are recorded.
    pub recorder: Option<Recorder>,
    /// What the machine inside is told.
    pub control: Config,
}

/// Where a daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// HTTP: with TLS where there are certificates.
    pub http: Option<SocketAddr>,
    /// OpenFlow without TLS.
    pub openflow: Option<SocketAddr>,
    /// OpenFlow with TLS.
    pub openflow_tls: Option<SocketAddr>,
    /// The Unix socket for commands on this machine.
    pub socket: PathBuf,
}

/// What the daemon itself limits; the machine inside has limits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections of all kinds over the network, and as many over the Unix socket.
    pub connections: usize,
    /// Connections of one identity.
    pub connections_per_identity: usize,
    /// Octets of a request, and of a line that an agent sends.
    pub request: usize,
    /// Declarations in a request.
    pub declarations: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_identity: 64,
            request: 1 << 20,
            declarations: 1_000,
        }
    }
}

/// Where inputs are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorder {
    /// The folder of the recordings.
    pub directory: PathBuf,
    /// A file ends at so many octets, and the recording goes on in the next.
    pub most: u64,
    /// So many files are kept, of all recordings.
    pub files: usize,
}

impl Settings {
    /// What this changes of a controller that runs; `policy` is the one that decides there.
    pub fn change(self, policy: &mut (String, Parameters)) -> Change {
        let asked = (self.control.policy_name, self.parameters);
        let fresh = if asked == *policy {
            None
        } else {
            *policy = asked;
            Some((policy.0.clone(), self.control.policy))
        };
        Change { policy: fresh, limits: Some(self.control.limits), lease: Some(self.control.lease) }
    }

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
        let state = root.need("state", "\"/var/lib/watermaster\"")?.path(folder)?;
        let (log_json, log_level) = read_log(&mut root)?;
        let tls = root.optional("tls", |value| read_tls(value, folder))?;
        let insecure = root.or("insecure", false, Value::flag)?;
        let listen =
            read_listen(&root.need("listen", "a [listen] table")?, folder, &tls, insecure)?;
        let topology = root.optional("topology", topology::read)?.unwrap_or_default();
        let policy = root.need("policy", "a [policy] table with name = \"smsf\"")?;
        let mss = root.or("mss", model::MSS, |v| Ok(Bytes::new(v.integer(64..=65_000)?)))?;
        let (parameters, mut control) = read_policy(&policy, mss)?;
        read_nodes(&mut root, topology, &mut control)?;
        root.or("control", (), |value| read_control(value, &mut control))?;
        let mut bounds = Bounds::default();
        root.or("limits", (), |value| read_limits(value, &mut control.limits, &mut bounds))?;
        let recorder = root.optional("recorder", |value| read_recorder(value, folder))?;
        root.done()?;
        let (file, text) = (file.to_owned(), text.to_owned());
        Ok(Self {
            file,
            text,
            state,
            log_json,
            log_level,
            listen,
            tls,
            parameters,
            bounds,
            recorder,
            control,
        })
    }
}

fn read_log(root: &mut Fields<'_>) -> Read<(bool, String)> {
    let Some(value) = root.get("log") else { return Ok((false, "info".to_owned())) };
    let mut fields = value.fields()?;
    let json = fields.or("format", false, |v| v.choice(&[("text", false), ("json", true)]))?;
    let level = fields.or("level", "info".to_owned(), |v| {
        let text = v.text()?;
        let wrong =
            |why: &dyn Display| Err(v.error(format_args!("{why}; write \"info\" or \"debug\"")));
        // A word that is no level would be a target, and all others silent.
        let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
        let mut words = text.split(',').map(str::trim).filter(|word| !word.contains('='));
        if let Some(word) = words.find(|word| !is_level(word)) {
            return wrong(&format_args!("\"{}\" is no level", document::shown(word)));
        }
        match text.parse::<Targets>() {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => wrong(&error),
        }
    })?;
    fields.done()?;
    Ok((json, level))
}

fn read_tls(value: &Value<'_>, folder: &Path) -> Read<tls::Files> {
    let mut fields = value.fields()?;
    let files = tls::Files {
        ca: fields.need("ca", "\"ca.crt\"")?.path(folder)?,
        certificate: fields.need("certificate", "\"controller-main.crt\"")?.path(folder)?,
        key: fields.need("key", "\"controller-main.key\"")?.path(folder)?,
    };
    fields.done()?;
    Ok(files)
}

fn read_listen(
    value: &Value<'_>,
    folder: &Path,
    tls: &Option<tls::Files>,
    insecure: bool,
) -> Read<Listen> {
    let mut fields = value.fields()?;
    let address = |value: &Value<'_>| {
        let text = value.text()?;
        text.parse::<SocketAddr>().map_err(|_| {
            value.error(format_args!(
                "\"{}\" is no address; write \"0.0.0.0:7443\"",
                document::shown(text)
            ))
        })
    };
    // Without certificates anyone could say anything.
    let guarded = |value: &Value<'_>| {
        let address = address(value)?;
        if insecure || address.ip().is_loopback() {
            return Ok(address);
        }
        let remedy = match tls {
            Some(_) => "listen with openflow_tls instead",
            None => "add a [tls] table",
        };
        Err(value.error(format_args!(
            "would be open to everyone; {remedy}, listen on 127.0.0.1, or write insecure = true"
        )))
    };
    let with_tls = |value: &Value<'_>| match tls {
        Some(_) => address(value),
        None => Err(value.error("needs certificates; add a [tls] table")),
    };
    let listen = Listen {
        http: fields.optional("http", |v| if tls.is_some() { address(v) } else { guarded(v) })?,
        openflow: fields.optional("openflow", guarded)?,
        openflow_tls: fields.optional("openflow_tls", with_tls)?,
        socket: fields
            .optional("socket", |v| v.path(folder))?
            .unwrap_or_else(|| PathBuf::from(crate::SOCKET)),
    };
    fields.done()?;
    Ok(listen)
}

fn read_policy(value: &Value<'_>, mss: Bytes) -> Read<(Parameters, Config)> {
    let mut fields = value.fields()?;
    let (descriptor, parameters) = policies::read(&mut fields, mss)?;
    fields.done()?;
    // There are agents to be told.
    let parameters = parameters.at_cost(Messages::Costly);
    let policy = descriptor.build(&parameters).map_err(|error| value.error(error))?;
    Ok((parameters, Config { mss, ..Config::new(descriptor.name, policy) }))
}

/// `[[host]]`, `[[switch]]` and `[[port]]`: what is known of the nodes and links of the topology.
fn read_nodes(root: &mut Fields<'_>, topology: Topology, control: &mut Config) -> Read<()> {
    let hosts = topology::names(&topology, |kind| kind == NodeKind::Host);
    let (mut nodes, mut ips, mut macs) = (Once::default(), Once::default(), Once::default());
    for value in root.tables("host", MOST)? {
        let mut fields = value.fields()?;
        let name = fields.need("name", "\"h0\"")?;
        let node = nodes.take(topology::named(&name, "host", &hosts)?, &name)?;
        let addresses = fields.need("addresses", "[\"10.0.0.1\"]")?.list(64)?;
        let addresses = addresses.iter().map(|v| ips.take(v.ip()?, v));
        let addresses = addresses.collect::<Read<_>>()?;
        let ethernet = fields.tables("ethernet", 64)?;
        let ethernet = ethernet.iter().map(|v| macs.take(read_ethernet(v)?, v));
        let ethernet = ethernet.collect::<Read<_>>()?;
        fields.done()?;
        control.hosts.push(HostConfig { node, addresses, ethernet });
    }
    let switches = topology::names(&topology, |kind| kind == NodeKind::Switch);
    let mut datapaths = Once::default();
    for value in root.tables("switch", MOST)? {
        let mut fields = value.fields()?;
        let name = fields.need("name", "\"s0\"")?;
        let node = nodes.take(topology::named(&name, "switch", &switches)?, &name)?;
        let datapath = fields.need("datapath_id", "\"0x1\"")?;
        let datapath_id = datapaths.take(read_datapath(&datapath)?, &datapath)?;
        let windows = fields.or("windows", false, Value::flag)?;
        fields.done()?;
        control.switches.push(SwitchConfig { node, datapath_id, windows });
    }
    let names = topology::names(&topology, |_| true);
    let (mut links, mut numbers) = (Once::default(), Once::default());
    let mut interfaces = Once::default();
    for value in root.tables("port", MOST)? {
        let mut fields = value.fields()?;
        let (link, _) = topology::port(&mut fields, &topology, &names)?;
        let link = links.take(link, &value)?;
        let from = topology.link(link).from;
        let port = fields.optional("number", |v| {
            Ok(numbers.take((from, v.integer(1..=0xffff_ff00_u32)?), v)?.1)
        })?;
        let interface = fields.or("interface", String::new(), |v| match v.text()? {
            "" => Ok(String::new()),
            name => Ok(interfaces.take((from, name.to_owned()), v)?.1),
        })?;
        fields.done()?;
        control.ports.push(PortConfig { link, port, interface });
    }
    drop((hosts, switches, names));
    control.topology = topology;
    Ok(())
}

fn read_ethernet(value: &Value<'_>) -> Read<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = value.text()?.split(':');
    let read = octets.iter_mut().all(|octet| {
        let part = parts.next().filter(|part| part.len() == 2);
        let number = part.and_then(|part| u8::from_str_radix(part, 16).ok());
        number.map(|number| *octet = number).is_some()
    });
    if read && parts.next().is_none() {
        Ok(octets)
    } else {
        Err(value.error("is no Ethernet address; write \"02:00:00:00:00:01\""))
    }
}

fn read_datapath(value: &Value<'_>) -> Read<u64> {
    let text = value.text()?;
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map_err(|_| value.error("is no datapath number; write it in hexadecimal as \"0x1\""))
}

fn read_control(value: &Value<'_>, control: &mut Config) -> Read<()> {
    let mut fields = value.fields()?;
    let span = |v: &Value<'_>| between(v, PERIODS.0, PERIODS.1);
    control.enforcement =
        fields.or("enforcement", control.enforcement, |v| v.choice(Enforcement::NAMED))?;
    control.lease = fields.or("lease", control.lease, |v| between(v, LEASES.0, LEASES.1))?;
    let lease = control.lease;
    control.sample = fields.or("sample", control.sample, |v| {
        let sample = span(v)?;
        wrong_sample(sample, lease).map_or(Ok(sample), |reason| Err(v.error(reason)))
    })?;
    control.probe = fields.or("probe", control.probe, span)?;
    control.grace = fields.or("grace", control.grace, span)?;
    control.learn = fields.or("learn", control.learn, Value::flag)?;
    fields.done()
}

fn read_limits(value: &Value<'_>, limits: &mut Limits, bounds: &mut Bounds) -> Read<()> {
    let mut fields = value.fields()?;
    let f = &mut fields;
    for (key, limit) in [
        ("switches", &mut limits.switches),
        ("agents", &mut limits.agents),
        ("applications", &mut limits.applications),
        ("jobs", &mut limits.jobs),
        ("flows", &mut limits.flows),
        ("tasks", &mut limits.tasks),
        ("hosts", &mut limits.hosts),
        ("hosts_per_agent", &mut limits.hosts_per_agent),
        ("hosts_per_port", &mut limits.hosts_per_port),
        ("connections", &mut bounds.connections),
        ("connections_per_identity", &mut bounds.connections_per_identity),
        ("declarations", &mut bounds.declarations),
    ] {
        *limit = f.or(key, *limit, count)?;
    }
    for (key, limit) in [
        ("declarations_per_second", &mut limits.declarations_per_second),
        ("reports_per_second", &mut limits.reports_per_second),
        ("packets_per_second", &mut limits.packets_per_second),
    ] {
        *limit = f.or(key, *limit, |v| v.integer(1..=1_000_000_000))?;
    }
    limits.name_bytes = f.or("name", limits.name_bytes, octets)?;
    bounds.request = f.or("request", bounds.request, octets)?;
    fields.done()
}

fn count(value: &Value<'_>) -> Read<usize> {
    let most = 1_u32 << 30;
    Ok(usize::try_from(value.integer(1..=most)?).unwrap_or(usize::MAX))
}

fn octets(value: &Value<'_>) -> Read<usize> {
    let bytes = between(value, Bytes::new(16), Bytes::new(1 << 30))?;
    Ok(usize::try_from(bytes.get()).unwrap_or(usize::MAX))
}

fn read_recorder(value: &Value<'_>, folder: &Path) -> Read<Recorder> {
    let mut fields = value.fields()?;
    let recorder = Recorder {
        directory: fields.need("directory", "\"/var/lib/watermaster/records\"")?.path(folder)?,
        most: fields
            .or("size", Bytes::new(100 << 20), |v| {
                between(v, Bytes::new(1 << 12), Bytes::new(1 << 50))
            })?
            .get(),
        files: fields.or("files", 8, |v| v.integer(1..=10_000_u32)).map(|files| files as usize)?,
    };
    fields.done()?;
    Ok(recorder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    /// What is given twice is refused where the second stands, and the first is named.
    #[test]
    fn nothing_is_given_twice() {
        const GOOD: &str = "state = \"s\"\nlisten.http = \"127.0.0.1:0\"\npolicy.name = \"tcp\"\n\
            [topology]\nkind = \"star\"\nhosts = 2\naccess = { capacity = \"1 Gbit/s\", delay = \"1 us\" }\n\
            [[host]]\nname = \"h0\"\naddresses = [\"10.0.0.1\"]\nethernet = [\"02:00:00:00:00:01\"]\n\
            [[switch]]\nname = \"s0\"\ndatapath_id = \"0x1\"\n\
            [[port]]\nfrom = \"s0\"\nto = \"h0\"\nnumber = 1\ninterface = \"e1\"\n";
        let read = |more: &str| {
            let read = Settings::read("c.toml", &format!("{GOOD}{more}"), Path::new(""));
            read.map(drop).map_err(|error| error.to_string())
        };
        let more = |key: &str, rest: &str| format!("[[{key}]]\n{rest}\n");
        read(&more("host", "name = \"h1\"\naddresses = [\"10.0.0.2\"]")).unwrap();
        for (key, rest, at, before) in [
            ("host", "name = \"h0\"\naddresses = []", "21:8: host[1].name", "9:8"),
            (
                "host",
                "name = \"h1\"\naddresses = [\"10.0.0.1\"]",
                "22:14: host[1].addresses[0]",
                "10:14",
            ),
            (
                "host",
                "name = \"h1\"\naddresses = []\nethernet = [\"02:00:00:00:00:01\"]",
                "23:13: host[1].ethernet[0]",
                "11:13",
            ),
            ("switch", "name = \"s0\"\ndatapath_id = \"0x2\"", "21:8: switch[1].name", "13:8"),
            ("port", "from = \"s0\"\nto = \"h0\"", "20:1: port[1]", "15:1"),
            ("port", "from = \"s0\"\nto = \"h1\"\nnumber = 1", "23:10: port[1].number", "18:10"),
            (
                "port",
                "from = \"s0\"\nto = \"h1\"\ninterface = \"e1\"",
                "23:13: port[1].interface",
                "19:13",
            ),
        ] {
            let said = read(&more(key, rest)).unwrap_err();
            let wanted = format!("c.toml:{at}: the same is given at c.toml:{before} already; ");
            assert!(said.starts_with(&wanted), "{said}\n{wanted}");
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        let read = |level: &str| {
            let text = format!(
                "state = \"s\"\nlisten.http = \"127.0.0.1:0\"\n[policy]\nname = \"tcp\"\n\
                 [log]\nlevel = \"{level}\"\n"
            );
            Settings::read("c.toml", &text, Path::new("")).map(|settings| settings.log_level)
        };
        for level in ["debug", "WARN", "info,delay=debug", "delay=debug, off"] {
            assert_eq!(read(level).unwrap(), level);
        }
        for level in ["infoo", "info,delay", "", "delay=infoo"] {
            let why = read(level).map(drop).unwrap_err().to_string();
            assert!(why.contains("write \"info\" or \"debug\""), "{why}");
        }
    }
}
