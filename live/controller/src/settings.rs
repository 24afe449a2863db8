//! The configuration file: one TOML document. `docs/configuration.md` explains every key.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use control::{
    Change, Config, Enforcement, HostConfig, LEASES, Limits, PERIODS, PortConfig, SwitchConfig,
    Tenant, wrong_cgroup, wrong_sample,
};
use document::fields::{Fields, Once, Value, between};
use document::{Document, DocumentError, policies, topology};
use model::{NodeKind, Topology};
use policy::{Messages, Parameters};
use protocol::kubernetes::is_object;
use tracing_subscriber::filter::{LevelFilter, Targets};
use units::{Bytes, Span};
use wire::client::Address;
use wire::kubernetes::Access;
use wire::tls;

type Read<T> = Result<T, DocumentError>;

/// Largest configuration file, in octets.
const MOST_BYTES: u64 = 4 << 20;
/// Most entries of a list.
const MOST: usize = 1 << 17;
/// What applications may take, in octets, where nothing else is configured: three quarters for what they declared,
/// a quarter for requests and answers that are on their way.
const MEMORY: usize = 1 << 30;

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
    /// Through what several controllers agree on one.
    pub election: Option<Election>,
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
    /// Strangers are let in where there is no TLS.
    pub insecure: bool,
}

/// What the daemon itself limits; the machine inside has limits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections of all kinds over the network, and as many over the Unix socket.
    pub connections: usize,
    /// Connections of one identity.
    pub connections_per_identity: usize,
    /// Octets of a request.
    pub request: usize,
    /// Declarations in a request.
    pub declarations: usize,
    /// Octets of requests and answers that are on their way.
    pub memory: usize,
}

impl Bounds {
    /// Octets of a line that an agent sends. They are made to be half as long: a controller that takes less would cut off
    /// agents that do as they should.
    pub fn line(&self) -> usize {
        self.request.max(1 << 20)
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_identity: 64,
            request: 1 << 20,
            declarations: 1_000,
            memory: MEMORY / 4,
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

/// Through what several controllers agree on one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// What this one is called.
    pub name: String,
    /// Where others find it.
    pub address: Address,
    /// Where they agree.
    pub store: Store,
    /// How long one leads without word of the store.
    pub lease: Span,
}

/// Where controllers agree on who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// In etcd.
    Etcd {
        /// Its members.
        members: Vec<Address>,
        /// The certificates that they want.
        tls: Option<tls::Files>,
        /// What its keys begin with.
        prefix: String,
    },
    /// In a Lease of Kubernetes.
    Kubernetes(Kubernetes),
}

/// A Lease of Kubernetes, and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// What the Lease is called.
    pub name: String,
    /// Its namespace; `None`: that of this pod.
    pub namespace: Option<String>,
    /// The way to the API server.
    pub access: Access,
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
        Change {
            policy: fresh,
            limits: Some(self.control.limits),
            lease: Some(self.control.lease),
            tenants: Some(self.control.tenants),
            acting: Some(self.control.acting),
        }
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
        read_tenants(&mut root, &mut control)?;
        root.or("control", (), |value| read_control(value, &mut control))?;
        let mut bounds = Bounds::default();
        root.or("limits", (), |value| read_limits(value, &mut control.limits, &mut bounds))?;
        let recorder = root.optional("recorder", |value| read_recorder(value, folder))?;
        let election = root.optional("election", |value| read_election(value, folder))?;
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
            election,
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
        crl: fields.optional("crl", |v| v.path(folder))?,
    };
    fields.done()?;
    Ok(files)
}

fn read_listen<'a>(
    value: &Value<'a>,
    folder: &Path,
    tls: &Option<tls::Files>,
    insecure: bool,
) -> Read<Listen> {
    let mut fields = value.fields()?;
    let taken = RefCell::new(Once::default());
    let address = |value: &Value<'a>| {
        let text = value.text()?;
        let address = text.parse::<SocketAddr>().map_err(|_| {
            value.error(format_args!(
                "\"{}\" is no address; write \"0.0.0.0:7443\"",
                document::shown(text)
            ))
        })?;
        // Port 0 is any that is free.
        if address.port() == 0 { Ok(address) } else { taken.borrow_mut().take(address, value) }
    };
    // Without certificates anyone could say anything.
    let guarded = |value: &Value<'a>| {
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
    let with_tls = |value: &Value<'a>| match tls {
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
        insecure,
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
        let listed = fields.need("addresses", "[\"10.0.0.1\"]")?;
        let addresses = listed.list(64)?;
        if addresses.is_empty() {
            return Err(listed.error("names none; write those of the host, such as [\"10.0.0.1\"]"));
        }
        let addresses = addresses.iter().map(|v| ips.take(v.ip()?, v));
        let addresses = addresses.collect::<Read<_>>()?;
        let ethernet = fields.optional("ethernet", |listed| match listed.list(64)? {
            none if none.is_empty() => Err(listed.error("names none; write some, or leave it out")),
            some => Ok(some),
        })?;
        let ethernet = ethernet.unwrap_or_default();
        let ethernet = ethernet.iter().map(|v| macs.take(read_ethernet(v)?, v));
        let ethernet = ethernet.collect::<Read<_>>()?;
        read_agent(&mut fields, &topology.nodes()[node.index()].name, control)?;
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
        read_agent(&mut fields, &topology.nodes()[node.index()].name, control)?;
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

/// The agent that alone may act for a node.
fn read_agent(fields: &mut Fields<'_>, node: &str, control: &mut Config) -> Read<()> {
    let agent = fields.optional("agent", Value::name)?;
    control.acting.extend(agent.map(|agent| (node.to_owned(), agent)));
    Ok(())
}

/// The members of a list that grants something. An empty one says neither all nor nothing.
fn granted<'a>(value: &Value<'a>, most: usize, what: &str) -> Read<Vec<Value<'a>>> {
    let members = value.list(most)?;
    if members.is_empty() {
        return Err(value.error(format_args!("is empty; write {what}")));
    }
    Ok(members)
}

/// `[[tenant]]`: who may declare what.
fn read_tenants(root: &mut Fields<'_>, control: &mut Config) -> Read<()> {
    let names = topology::names(&control.topology, |kind| kind == NodeKind::Host);
    let (mut applications, mut groups) = (Once::default(), Once::default());
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    let mut tenants = Vec::new();
    let all = "a [[tenant]], or leave it out: everybody may declare everything then";
    for value in root.or("tenant", Vec::new(), |value| granted(value, MOST, all))? {
        let mut fields = value.fields()?;
        let name = fields.need("application", "\"wordcount\"")?;
        let application = applications.take(name.name()?, &name)?;
        let hosts = fields.need("hosts", "[\"h1\", \"h2\"]")?;
        let hosts =
            granted(&hosts, MOST, "a host, or remove this [[tenant]]: it may declare nothing")?;
        let hosts = hosts.iter().map(|host| {
            topology::named(host, "host", &names)?;
            Ok(host.text()?.to_owned())
        });
        let hosts = hosts.collect::<Read<Vec<_>>>()?;
        let every = "a port, or leave it out: all are granted then";
        let ports = fields.or("ports", Vec::new(), |value| granted(value, 64, every))?;
        let ports = ports.iter().map(read_ports).collect::<Read<_>>()?;
        let mut cgroups = Vec::new();
        let none =
            "a control group, or leave it out: whose connections are is told by ports alone then";
        for group in fields.or("cgroups", Vec::new(), |value| granted(value, 64, none))? {
            let path = group.text()?;
            if let Some(wrong) = wrong_cgroup(path) {
                return Err(group.error(wrong));
            }
            for host in &hosts {
                groups.take((host.clone(), path.to_owned()), &group)?;
                let count = named.entry(host.clone()).or_default();
                *count += 1;
                if *count > Tenant::MOST_CGROUPS {
                    let most = Tenant::MOST_CGROUPS;
                    return Err(group.error(format_args!(
                        "is one too many at {host}, which has {most} of tenants; name groups above them"
                    )));
                }
            }
            cgroups.push(path.to_owned());
        }
        let (jobs, flows) = (fields.optional("jobs", count)?, fields.optional("flows", count)?);
        fields.done()?;
        tenants.push(Tenant { application, hosts, ports, cgroups, jobs, flows });
    }
    control.tenants = tenants;
    Ok(())
}

/// A port, or a range of them such as `"5000-5100"`.
fn read_ports(value: &Value<'_>) -> Read<RangeInclusive<u16>> {
    let wrong = || value.error("is no port; write \"5000\" or \"5000-5100\"");
    let text = value.text()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let range = port(first).zip(port(last)).filter(|(first, last)| first <= last);
    range.map(|(first, last)| first..=last).ok_or_else(wrong)
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
    let memory = f.or("memory", MEMORY, memory)?;
    (limits.memory, bounds.memory) = ((memory - memory / 4) as u64, memory / 4);
    fields.done()
}

fn count(value: &Value<'_>) -> Read<usize> {
    let most = 1_u32 << 30;
    Ok(usize::try_from(value.integer(1..=most)?).unwrap_or(usize::MAX))
}

fn memory(value: &Value<'_>) -> Read<usize> {
    let bytes = between(value, Bytes::new(16 << 20), Bytes::new(1 << 46))?;
    Ok(usize::try_from(bytes.get()).unwrap_or(usize::MAX))
}

fn read_election(value: &Value<'_>, folder: &Path) -> Read<Election> {
    let mut fields = value.fields()?;
    let name = fields.need("name", "\"ctl1\"")?.name()?;
    let own = fields.need("address", "\"https://10.0.0.1:7443\"")?;
    let address = read_address(&own)?;
    if matches!(address, Address::Unix(_)) {
        return Err(own.error("is of this machine alone; write https://HOST:PORT"));
    }
    let store = match (fields.get("etcd"), fields.get("kubernetes")) {
        (Some(members), None) => read_etcd(&members, &mut fields, folder)?,
        (None, Some(cluster)) => {
            for key in ["tls", "prefix"] {
                if let Some(other) = fields.get(key) {
                    return Err(other.error("is for etcd, and the store is Kubernetes; remove it"));
                }
            }
            Store::Kubernetes(read_kubernetes(&cluster, folder)?)
        }
        (Some(_), Some(other)) => {
            return Err(other.error("is a store beside election.etcd; remove one of the two"));
        }
        (None, None) => {
            return Err(fields.error(
                "names no store; add etcd = [\"https://10.0.0.1:2379\"] or, in a cluster of Kubernetes, an \
                 [election.kubernetes] table",
            ));
        }
    };
    let lease = fields.or("lease", Span::from_secs(2), |v| {
        between(v, Span::from_millis(500), Span::from_secs(60))
    })?;
    fields.done()?;
    Ok(Election { name, address, store, lease })
}

fn read_etcd(members: &Value<'_>, fields: &mut Fields<'_>, folder: &Path) -> Read<Store> {
    let mut known = Once::default();
    let etcd = members.list(16)?;
    let etcd = etcd.iter().map(|v| known.take(v.text()?.to_owned(), v).and(read_address(v)));
    let etcd = etcd.collect::<Read<Vec<_>>>()?;
    if etcd.is_empty() {
        return Err(members.error("names no member; write [\"https://10.0.0.1:2379\"]"));
    }
    let tls = fields.optional("tls", |value| read_tls(value, folder))?;
    if tls.is_none() && etcd.iter().any(|address| matches!(address, Address::Tls(_))) {
        return Err(members.error("need certificates; add an [election.tls] table"));
    }
    let prefix = fields.or("prefix", "/watermaster/".to_owned(), |v| Ok(v.text()?.to_owned()))?;
    Ok(Store::Etcd { members: etcd, tls, prefix })
}

fn read_kubernetes(value: &Value<'_>, folder: &Path) -> Read<Kubernetes> {
    let mut fields = value.fields()?;
    let named = |value: &Value<'_>| match value.text()? {
        text if is_object(text) => Ok(text.to_owned()),
        _ => Err(value.error("is no name in Kubernetes; use small letters, digits, - and .")),
    };
    let access = Access::read(&mut fields, folder)?;
    let namespace = fields.optional("namespace", named)?;
    let name = fields.or("name", "watermaster".to_owned(), named)?;
    fields.done()?;
    Ok(Kubernetes { name, namespace, access })
}

fn read_address(value: &Value<'_>) -> Read<Address> {
    value.text()?.parse().map_err(|error| value.error(error))
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

    /// Whoever bounds requests means those of applications.
    #[test]
    fn agents_have_room_for_their_lines() {
        let bounds = |request| Bounds { request, ..Bounds::default() };
        assert_eq!([16, 2 << 20].map(|request| bounds(request).line()), [1 << 20, 2 << 20]);
    }

    /// What is there and says nothing was meant to say something.
    #[test]
    fn what_names_nothing_is_refused() {
        for (rest, wanted) in [
            ("addresses = []", "10:13: host[0].addresses: names none; write those of the host"),
            (
                "addresses = [\"10.0.0.1\"]\nethernet = []",
                "11:12: host[0].ethernet: names none; write some, or leave it out",
            ),
        ] {
            let text = format!(
                "state = \"s\"\nlisten.http = \"127.0.0.1:0\"\npolicy.name = \"tcp\"\n\
                 [topology]\nkind = \"star\"\nhosts = 2\naccess = {{ capacity = \"1 Gbit/s\", delay = \"1 us\" }}\n\
                 [[host]]\nname = \"h0\"\n{rest}\n"
            );
            let read = Settings::read("c.toml", &text, Path::new(""));
            let said = read.map(drop).unwrap_err().to_string();
            assert!(said.starts_with(&format!("c.toml:{wanted}")), "{said}");
        }
    }

    #[test]
    fn a_host_of_an_empty_topology_is_refused_plainly() {
        for topology in
            ["", "[topology]\nkind = \"custom\"\nhosts = []\nswitches = []\nlink = []\n"]
        {
            let text = format!(
                "state = \"s\"\nlisten.http = \"127.0.0.1:0\"\npolicy.name = \"tcp\"\n{topology}\
                 [[host]]\nname = \"h0\"\naddresses = [\"10.0.0.1\"]\n"
            );
            let read = Settings::read("c.toml", &text, Path::new(""));
            let said = read.map(drop).unwrap_err().to_string();
            let wanted =
                "host[0].name: there is no host \"h0\": the topology has none; write a [topology]";
            assert!(said.contains(wanted), "{said}");
        }
    }

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
            ("host", "name = \"h0\"\naddresses = [\"10.0.0.2\"]", "21:8: host[1].name", "9:8"),
            (
                "host",
                "name = \"h1\"\naddresses = [\"10.0.0.1\"]",
                "22:14: host[1].addresses[0]",
                "10:14",
            ),
            (
                "host",
                "name = \"h1\"\naddresses = [\"10.0.0.2\"]\nethernet = [\"02:00:00:00:00:01\"]",
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

    /// One store and no other, and nothing that is the other's.
    #[test]
    fn controllers_agree_in_one_place() {
        let read = |election: &str| {
            let text = format!(
                "state = \"s\"\nlisten.http = \"127.0.0.1:0\"\npolicy.name = \"tcp\"\n[election]\n\
                 name = \"c1\"\naddress = \"https://10.0.0.1:7443\"\n{election}\n"
            );
            let read = Settings::read("c.toml", &text, Path::new("/f"));
            read.map(|settings| settings.election.unwrap().store).map_err(|error| error.to_string())
        };
        let account = Path::new(wire::kubernetes::SERVICE_ACCOUNT);
        let usual = Kubernetes {
            name: "watermaster".to_owned(),
            namespace: None,
            access: Access {
                address: None,
                token: account.join("token"),
                ca: account.join("ca.crt"),
            },
        };
        assert_eq!(read("kubernetes = {}"), Ok(Store::Kubernetes(usual)));
        let all = "[election.kubernetes]\nname = \"wm.a\"\nnamespace = \"traffic\"\n\
            address = \"https://[fd00::1]:6443\"\ntoken = \"token\"\nca = \"ca.crt\"";
        let named = Kubernetes {
            name: "wm.a".to_owned(),
            namespace: Some("traffic".to_owned()),
            access: Access {
                address: Some(Address::Tls("[fd00::1]:6443".to_owned())),
                token: PathBuf::from("/f/token"),
                ca: PathBuf::from("/f/ca.crt"),
            },
        };
        assert_eq!(read(all), Ok(Store::Kubernetes(named)));
        let etcd = "etcd = [\"http://10.0.0.1:2379\"]";
        let prefix = "/watermaster/".to_owned();
        let members = vec![Address::Tcp("10.0.0.1:2379".to_owned())];
        assert_eq!(read(etcd), Ok(Store::Etcd { members, tls: None, prefix }));
        let of = |rest: &str| format!("[election.kubernetes]\n{rest}");
        for (election, wrong) in [
            (String::new(), "election: names no store; add etcd"),
            (format!("{etcd}\nkubernetes = {{}}"), "election.kubernetes: is a store beside"),
            ("kubernetes = {}\nprefix = \"/\"".to_owned(), "election.prefix: is for etcd"),
            ("kubernetes = {}\n[election.tls]".to_owned(), "election.tls: is for etcd"),
            (of("name = \"a/../b\""), "election.kubernetes.name: is no name in Kubernetes"),
            (of("name = \"\""), "election.kubernetes.name: is no name in Kubernetes"),
            (of("namespace = \"-a\""), "election.kubernetes.namespace: is no name"),
            (of("address = \"http://10.0.0.1:80\""), "election.kubernetes.address: would show"),
            (of("lease = \"watermaster\""), "election.kubernetes.lease: unknown key"),
        ] {
            let said = read(&election).unwrap_err();
            assert!(said.contains(wrong), "{wrong}: {said}");
        }
        read(&of("address = \"http://127.0.0.1:8001\"")).unwrap();
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

    #[test]
    fn tenants_and_agents_of_nodes_are_read_and_what_is_wrong_is_named() {
        let text = |host: &str, tenant: &str| {
            format!(
                "state = \"s\"\nlisten.http = \"127.0.0.1:0\"\npolicy.name = \"tcp\"\n[topology]\n\
                 kind = \"star\"\nhosts = 2\naccess = {{ capacity = \"1 Gbit/s\", delay = \"1 us\" }}\n\
                 [[host]]\nname = \"h0\"\naddresses = [\"10.0.0.1\"]\n{host}\n[[tenant]]\n{tenant}\n"
            )
        };
        let read = |host: &str, tenant: &str| {
            Settings::read("c.toml", &text(host, tenant), Path::new(""))
                .map(|settings| (settings.control.acting, settings.control.tenants))
                .map_err(|error| error.to_string())
        };
        let good = "application = \"wordcount\"\nhosts = [\"h0\"]\n\
            ports = [\"5000\", \"6000-6010\"]\ncgroups = [\"/a.slice\"]\njobs = 3\nflows = 4";
        let (acting, tenants) = read("agent = \"a\"", good).unwrap();
        assert_eq!(acting, [("h0".to_owned(), "a".to_owned())]);
        let tenant = Tenant {
            application: "wordcount".to_owned(),
            hosts: vec!["h0".to_owned()],
            ports: vec![5000..=5000, 6000..=6010],
            cgroups: vec!["/a.slice".to_owned()],
            jobs: Some(3),
            flows: Some(4),
        };
        assert_eq!(tenants, [tenant]);
        let other =
            "\n[[tenant]]\napplication = \"other\"\nhosts = [\"h0\"]\ncgroups = [\"/a.slice\"]";
        for (host, tenant, wrong) in [
            ("agent = \"a b\"", good, "host[0].agent"),
            ("", "application = \"w\"", "tenant[0].hosts"),
            ("", "application = \"w\"\nhosts = [\"h9\"]", "tenant[0].hosts[0]"),
            ("", "application = \"w\"\nhosts = []", "tenant[0].hosts: is empty; write a host"),
            (
                "",
                "application = \"w\"\nhosts = [\"h0\"]\nports = []",
                "tenant[0].ports: is empty; write a port",
            ),
            (
                "",
                "application = \"w\"\nhosts = [\"h0\"]\ncgroups = []",
                "tenant[0].cgroups: is empty; write a control group",
            ),
            ("", "application = \"w\"\nhosts = [\"h0\"]\nports = [\"0\"]", "tenant[0].ports[0]"),
            ("", "application = \"w\"\nhosts = [\"h0\"]\nports = [\"9-8\"]", "tenant[0].ports[0]"),
            (
                "",
                "application = \"w\"\nhosts = [\"h0\"]\ncgroups = [\"a\"]",
                "tenant[0].cgroups[0]",
            ),
            ("", &format!("{good}{other}"), "tenant[1].cgroups[0]"),
        ] {
            let error = read(host, tenant).unwrap_err();
            assert!(error.contains(wrong), "{wrong}: {error}");
        }
        let whole = text("", good);
        let (others, _) = whole.split_once("[[tenant]]").unwrap();
        let none = format!("tenant = []\n{others}");
        let error =
            Settings::read("c.toml", &none, Path::new("")).map(drop).unwrap_err().to_string();
        assert!(
            error.contains("c.toml:1") && error.contains("tenant: is empty; write a [[tenant]]"),
            "{error}"
        );
    }
}
