//! The configuration of a front end and its hubs: one file for all of them. `docs/gather.md` explains every key.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use document::fields::{Fields, Once, Value, between};
use document::topology::buffer;
use document::{Document, DocumentError, policies};
use md5::{Digest as _, Md5};
use model::{Buffer, LinkSpec, MSS, NodeKind, Topology};
use policy::{Descriptor, DirectiveKind, Need, Parameters};
use units::{Bytes, Rate, Span};

use crate::command::Bounds;
use crate::hashing::{Hashing, Ring};

type Read<T> = Result<T, DocumentError>;

/// Largest configuration file, in octets.
const MOST_BYTES: u64 = 1 << 24;
/// Most servers.
const MOST_SERVERS: usize = 4096;

/// A memcached server, with its hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Where memcached listens.
    pub address: SocketAddr,
    /// Where its hub listens.
    pub hub: Option<SocketAddr>,
    /// Its rack, by number.
    pub rack: u32,
}

/// All that front end and hubs are told.
#[derive(Debug)]
pub struct Settings {
    /// Where the front end listens.
    pub listen: SocketAddr,
    /// The front end's link, and the room of the switch port towards it.
    pub rate: Rate,
    /// That room.
    pub buffer: Buffer,
    /// Links of servers.
    pub server_rate: Rate,
    /// Requests of fewer keys go straight to their servers.
    pub straight_below: usize,
    /// Most clients at once.
    pub clients: usize,
    /// What clients may say.
    pub bounds: Bounds,
    /// Most octets of values held at once.
    pub memory: usize,
    /// Most of it that a client holds.
    pub share: usize,
    /// How long a request may take.
    pub deadline: Duration,
    /// How long a hub may send nothing.
    pub patience: Duration,
    /// An answer that took longer was lost first.
    pub late: Duration,
    /// Time between samples.
    pub period: Duration,
    /// What objects are taken to have until some were seen, octets.
    pub size: u32,
    /// The policy and its parameters.
    pub policy: (&'static Descriptor, Parameters),
    /// Most requests of a hub at once.
    pub requests: usize,
    /// How many servers hold each key.
    pub copies: usize,
    /// How keys are hashed.
    pub hashing: Hashing,
    /// What servers are hashed by.
    pub labels: Vec<String>,
    /// The servers.
    pub servers: Vec<Server>,
    /// Names of racks, and their aggregation routers.
    pub racks: Vec<(String, String)>,
}

impl Settings {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file can't be read or contradicts itself; the message names place, field and remedy.
    pub fn load(path: &Path) -> Read<Self> {
        let (file, text) = document::text_of(path, MOST_BYTES)?;
        Self::read(&file, &text)
    }

    /// Reads `text`, called `file` in errors.
    ///
    /// # Errors
    /// The text contradicts itself; the message names place, field and remedy.
    pub fn read(file: &str, text: &str) -> Read<Self> {
        let document = Document::read(file, text, &[])?;
        let mut root = Value::root(&document).fields()?;
        let named = root.need("policy", "{ name = \"sicc\" }")?;
        let policy = read_policy(&named)?;
        let needs_hubs = policy.0.needs(Need::Hubs);
        let pool = root.need("pool", "a [pool] table with hashing and copies")?;
        let mut fields = pool.fields()?;
        let named = [("ketama", Hashing::Ketama), ("rendezvous", Hashing::Rendezvous)];
        let hashing = fields.need("hashing", "\"ketama\"")?.choice(&named)?;
        let copies_at = fields.get("copies");
        let copies = copies_at.as_ref().map_or(Ok(1), |value| value.integer(1..=16))?;
        fields.done()?;
        let mut racks: Vec<(String, String)> = Vec::new();
        let mut once = Once::default();
        for value in &root.need("rack", "a [[rack]] table")?.list(MOST_SERVERS)? {
            let mut fields = value.fields()?;
            let at = fields.need("name", "\"r1\"")?;
            let name = once.take(at.name()?, &at)?;
            let router = fields.optional("router", Value::name)?;
            fields.done()?;
            racks.push((name, router.unwrap_or_else(|| "router".to_owned())));
        }
        let (mut names, mut places) = (Once::default(), Once::default());
        let (mut servers, mut labels) = (Vec::new(), Vec::new());
        for value in &root.need("server", "a [[server]] table")?.list(MOST_SERVERS)? {
            let mut fields = value.fields()?;
            let at = fields.need("name", "\"s1\"")?;
            let name = names.take(at.name()?, &at)?;
            let at = fields.need("address", "\"10.0.0.1:11211\"")?;
            let address = places.take(socket(&at)?, &at)?;
            let hub = match fields.get("hub") {
                Some(at) => Some(places.take(socket(&at)?, &at)?),
                None if needs_hubs => {
                    let name = policy.0.name;
                    return Err(fields.error(format_args!(
                        "has no hub, which {name} may choose; add hub = \"{}:11311\"",
                        address.ip()
                    )));
                }
                None => None,
            };
            let at = fields.need("rack", "\"r1\"")?;
            let wanted = at.name()?;
            let rack = racks.iter().position(|(name, _)| *name == wanted);
            let rack = rack.and_then(|rack| u32::try_from(rack).ok()).ok_or_else(|| {
                at.error(format_args!(
                    "there is no rack \"{wanted}\"; add a [[rack]] with this name"
                ))
            })?;
            let label = fields.optional("label", |value| Ok(value.text()?.to_owned()))?;
            fields.done()?;
            labels.push(label.unwrap_or_else(|| usual_label(hashing, address)));
            servers.push(Server { name, address, hub, rack });
        }
        if servers.len() < copies {
            let at = copies_at.as_ref().unwrap_or(&pool);
            return Err(at.error(format_args!(
                "{copies} copies need as many servers, of which there are {}; add servers or write fewer",
                servers.len()
            )));
        }
        let front = root.need("front", "a [front] table with listen")?;
        let mut fields = front.fields()?;
        let rate = |fields: &mut Fields<'_>, key| {
            let bounds = (Rate::from_mbps(1), Rate::from_mbps(1_000_000));
            fields.or(key, Rate::from_mbps(1_000), |value| between(value, bounds.0, bounds.1))
        };
        let size = |fields: &mut Fields<'_>, key, default: usize, least: u64, most: u64| {
            let read = |value: &Value<'_>| between(value, Bytes::new(least), Bytes::new(most));
            let size = fields.optional(key, read)?;
            Ok(size.and_then(|size| usize::try_from(size.get()).ok()).unwrap_or(default))
        };
        let time = |fields: &mut Fields<'_>, key, default: u64, most: u64| {
            let read =
                |value: &Value<'_>| between(value, Span::from_millis(1), Span::from_millis(most));
            let span = fields.or(key, Span::from_millis(default), read)?;
            Ok::<_, DocumentError>(Duration::from_nanos(span.as_nanos()))
        };
        let item = size(&mut fields, "item", 1 << 20, 1024, 128 << 20)?;
        let memory = size(&mut fields, "memory", 256 << 20, 1 << 20, 1 << 40)?;
        let share = size(&mut fields, "share", (memory / 8).max(item), 1024, 1 << 40)?;
        let settings = Self {
            listen: socket(&fields.need("listen", "\"127.0.0.1:11211\"")?)?,
            rate: rate(&mut fields, "rate")?,
            server_rate: rate(&mut fields, "server_rate")?,
            buffer: fields.or("buffer", Buffer::Bytes(Bytes::new(100_000)), buffer)?,
            straight_below: fields.or("straight_below", 8, |v| v.integer(1..=1 << 20))?,
            clients: fields.or("clients", 1000, |v| v.integer(1..=1 << 16))?,
            bounds: Bounds { keys: fields.or("keys", 16_384, |v| v.integer(1..=1 << 20))?, item },
            memory,
            share,
            deadline: time(&mut fields, "deadline", 1000, 60_000)?,
            patience: time(&mut fields, "patience", 100, 60_000)?,
            late: time(&mut fields, "late", 200, 60_000)?,
            period: time(&mut fields, "period", 10, 60_000)?,
            requests: fields.or("requests", 1000, |v| v.integer(1..=1 << 16))?,
            size: fields.or("object", 500, |v| v.integer(1..=1 << 20))?,
            policy,
            copies,
            hashing,
            labels,
            servers,
            racks,
        };
        if settings.memory < settings.bounds.item {
            return Err(fields.error("memory is less than one item; raise memory or lower item"));
        }
        if settings.share < settings.bounds.item {
            return Err(fields.error("share is less than one item; raise share or lower item"));
        }
        fields.done()?;
        root.done()?;
        Ok(settings)
    }

    /// The servers by the keys that they hold.
    pub fn ring(&self) -> Ring {
        let racks = self.servers.iter().map(|server| server.rack).collect();
        Ring::new(self.hashing, self.labels.clone(), racks, self.copies)
    }

    /// What front end and hubs must have in common.
    pub fn placement(&self) -> u64 {
        let mut digest = Md5::new();
        for server in &self.servers {
            digest.update(format!(
                "{} {} {:?} {}\n",
                server.name, server.address, server.hub, server.rack
            ));
        }
        let digest = digest.finalize();
        digest.iter().take(8).fold(0, |sum, octet| sum << 8 | u64::from(*octet))
    }

    /// The network as policies see it. Servers are its first nodes, in their order; the front end is the next.
    ///
    /// # Panics
    /// Never: what was read has fewer nodes than a topology holds.
    pub fn topology(&self) -> Topology {
        let mut topology = Topology::new();
        let mut add =
            |name: &str, kind| topology.add_node(name.to_owned(), kind).expect("few nodes");
        let hosts: Vec<_> =
            self.servers.iter().map(|server| add(&server.name, NodeKind::Host)).collect();
        let front = add("front", NodeKind::Host);
        // The front end has a rack of its own: no server counts as its neighbour.
        let edges: Vec<_> =
            self.racks.iter().map(|(name, _)| add(name, NodeKind::Switch)).collect();
        let own = add("front-rack", NodeKind::Switch);
        let mut names: Vec<&str> = self.racks.iter().map(|(_, router)| router.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let routers: Vec<_> = names.iter().map(|name| add(name, NodeKind::Switch)).collect();
        let core = add("core", NodeKind::Switch);
        let link =
            |capacity| LinkSpec { capacity, delay: Span::ZERO, buffer: self.buffer, mark: None };
        let fast = link(Rate::from_mbps(1_000_000));
        let mut join = |a, b, spec| {
            topology
                .connect(a, b, spec, spec)
                .expect("both ends are there, and it carries something");
        };
        // A host's first switch is its rack; a rack's first is its router.
        for (host, server) in hosts.iter().zip(&self.servers) {
            join(*host, edges[server.rack as usize], link(self.server_rate));
        }
        join(front, own, link(self.rate));
        for (edge, (_, router)) in edges.iter().zip(&self.racks) {
            let router = names.binary_search(&router.as_str()).unwrap_or_default();
            join(*edge, routers[router], fast);
        }
        for router in routers {
            join(router, core, fast);
        }
        join(own, core, fast);
        topology
    }
}

fn read_policy(value: &Value<'_>) -> Read<(&'static Descriptor, Parameters)> {
    let mut fields = value.fields()?;
    let (policy, parameters) = policies::read(&mut fields, MSS)?;
    if !policy.says(DirectiveKind::Gather) {
        let names: Vec<&str> = policy::saying(DirectiveKind::Gather).map(|one| one.name).collect();
        return Err(fields.error(format_args!(
            "{} gathers nothing; use {}",
            policy.name,
            names.join(", ")
        )));
    }
    fields.done()?;
    Ok((policy, parameters))
}

fn socket(value: &Value<'_>) -> Read<SocketAddr> {
    let text = value.text()?;
    text.parse().map_err(|_| value.error("is no address with a port; write \"10.0.0.1:11211\""))
}

/// What clients hash a server by unless told otherwise: libmemcached leaves memcached's port out.
fn usual_label(hashing: Hashing, address: SocketAddr) -> String {
    match hashing {
        Hashing::Ketama if address.port() == 11211 => address.ip().to_string(),
        _ => address.to_string(),
    }
}
