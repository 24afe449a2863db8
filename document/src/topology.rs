//! `[topology]`: a usual shape or a custom one, link by link.

use std::collections::BTreeMap;

use model::build::{self, Access};
use model::{Buffer, LinkId, LinkSpec, NodeId, NodeKind, Topology, TopologyError};
use units::{Bytes, Rate, Span};

use crate::fields::{Fields, Value};
use crate::{DocumentError, shown};

type Read<T> = Result<T, DocumentError>;

/// Most hosts. Ten times what the largest published experiment has (150,000 in 2,500 racks would be
/// a star of that many) would no longer fit a laptop.
const MOST_HOSTS: u32 = 1 << 18;
/// Most switches: those of the largest fat-tree. Routes take two octets for each pair of them.
const MOST_SWITCHES: u32 = 5120;
/// Most nodes of a custom topology, in which every node may route.
const MOST_CUSTOM: usize = 4096;
const MOST_LINKS: usize = 1 << 17;
const MOST_OVERRIDES: usize = 10_000;
const LONGEST_DELAY: Span = Span::from_secs(100);

/// What a switch port holds unless the file says otherwise.
const BUFFER: Buffer = Buffer::Packets(100);
/// What a network card holds unless the file says otherwise (Linux `txqueuelen`).
const NIC: Buffer = Buffer::Packets(1000);

#[derive(Clone, Copy)]
enum Shape {
    Star,
    Dumbbell,
    TwoRacks,
    LeafSpine,
    FatTree,
    Racks,
    Custom,
}

const SHAPES: &[(&str, Shape)] = &[
    ("star", Shape::Star),
    ("dumbbell", Shape::Dumbbell),
    ("two-racks", Shape::TwoRacks),
    ("leaf-spine", Shape::LeafSpine),
    ("fat-tree", Shape::FatTree),
    ("racks", Shape::Racks),
    ("custom", Shape::Custom),
];

/// The table `[topology]`.
///
/// # Errors
/// No topology, or one beyond the bounds above.
pub fn read(value: &Value<'_>) -> Read<Topology> {
    let mut fields = value.fields()?;
    let shape = fields.need("kind", "\"two-racks\"")?.choice(SHAPES)?;
    let built = match shape {
        Shape::Star => {
            let hosts = hosts(&mut fields, "hosts", 1)?;
            build::star(hosts, &access(&mut fields)?)
        }
        Shape::Dumbbell => {
            let (left, right) = (hosts(&mut fields, "left", 2)?, hosts(&mut fields, "right", 2)?);
            build::dumbbell(left, right, &access(&mut fields)?, &cable(&mut fields, "core")?)
        }
        Shape::TwoRacks => {
            let each = hosts(&mut fields, "hosts_per_rack", 2)?;
            build::dumbbell(each, each, &access(&mut fields)?, &cable(&mut fields, "core")?)
        }
        Shape::LeafSpine => {
            let leaves = fields.need("leaves", "4")?.integer(1..=MOST_SWITCHES / 2)?;
            let spines = fields.need("spines", "3")?.integer(1..=MOST_SWITCHES / 2)?;
            let each = hosts(&mut fields, "hosts_per_leaf", leaves)?;
            if leaves as usize * spines as usize > MOST_LINKS {
                return Err(value.error(format_args!(
                    "{leaves} leaves and {spines} spines need more than {MOST_LINKS} cables; use fewer"
                )));
            }
            let access = access(&mut fields)?;
            build::leaf_spine(leaves, spines, each, &access, &cable(&mut fields, "fabric")?)
        }
        Shape::FatTree => {
            let k = fields.need("k", "8")?.integer(2..=64)?;
            build::fat_tree(k, &access(&mut fields)?, &cable(&mut fields, "fabric")?)
        }
        Shape::Racks => {
            let racks = fields.need("racks", "50")?.integer(1..=MOST_SWITCHES / 2)?;
            let each = hosts(&mut fields, "hosts_per_rack", racks)?;
            let group = fields.need("racks_per_router", "10")?.integer(1..=racks)?;
            let access = access(&mut fields)?;
            let uplink = cable(&mut fields, "uplink")?;
            build::racks(racks, group, each, &access, &uplink, &cable(&mut fields, "core")?)
        }
        Shape::Custom => Ok(custom(&mut fields)?),
    };
    let topology = built.map_err(|error| value.error(error))?;
    let overrides = fields.tables("override", MOST_OVERRIDES)?;
    fields.done()?;
    if overrides.is_empty() {
        return Ok(topology);
    }
    respecify(&topology, &overrides)?.map_err(|error| value.error(error))
}

fn hosts(fields: &mut Fields<'_>, key: &'static str, groups: u32) -> Read<u32> {
    fields.need(key, "3")?.integer(1..=MOST_HOSTS / groups)
}

fn access(fields: &mut Fields<'_>) -> Read<Access> {
    let value = fields.need("access", LINK)?;
    let mut fields = value.fields()?;
    let link = link(&mut fields)?;
    let nic = fields.or("nic", NIC, buffer)?;
    fields.done()?;
    Ok(Access { link, nic })
}

const LINK: &str = "{ capacity = \"100 Mbit/s\", delay = \"33 us\", buffer = \"100 packets\" }";

fn cable(fields: &mut Fields<'_>, key: &'static str) -> Read<LinkSpec> {
    let mut fields = fields.need(key, LINK)?.fields()?;
    let spec = link(&mut fields)?;
    fields.done()?;
    Ok(spec)
}

/// The keys that describe a link; capacity and delay must be there.
fn link(fields: &mut Fields<'_>) -> Read<LinkSpec> {
    Ok(LinkSpec {
        capacity: capacity(&fields.need("capacity", "\"100 Mbit/s\"")?)?,
        delay: delay(&fields.need("delay", "\"33 us\"")?)?,
        buffer: fields.or("buffer", BUFFER, buffer)?,
        mark: fields.optional("mark", mark)?,
    })
}

fn capacity(value: &Value<'_>) -> Read<Rate> {
    let capacity: Rate = value.quantity()?;
    let range = Rate::from_bps(1_000)..=Rate::from_mbps(100_000_000);
    if range.contains(&capacity) {
        return Ok(capacity);
    }
    Err(value.error(format_args!(
        "{capacity} is out of range; write a capacity from {} to {}",
        range.start(),
        range.end()
    )))
}

fn delay(value: &Value<'_>) -> Read<Span> {
    let delay: Span = value.quantity()?;
    if delay <= LONGEST_DELAY {
        return Ok(delay);
    }
    Err(value.error(format_args!("{delay} is out of range; write at most {LONGEST_DELAY}")))
}

fn mark(value: &Value<'_>) -> Read<u32> {
    value.integer(1..=u32::MAX)
}

/// `100 packets`, `150 KB` or `unlimited`.
///
/// # Errors
/// Anything else, or a buffer that holds nothing.
pub fn buffer(value: &Value<'_>) -> Read<Buffer> {
    const FORMS: &str = "write \"100 packets\", \"150 KB\" or \"unlimited\"";
    let text = value.text()?.trim();
    let buffer = if text == "unlimited" {
        Some(Buffer::Unlimited)
    } else if let Some(count) = text.strip_suffix("packets").or(text.strip_suffix("packet")) {
        // As in all other quantities.
        let digits = count.trim().replace('_', "");
        let is_plain = digits.starts_with(|c: char| c.is_ascii_digit());
        digits.parse().ok().filter(|_| is_plain).map(Buffer::Packets)
    } else {
        text.parse::<Bytes>().ok().map(Buffer::Bytes)
    };
    match buffer {
        Some(Buffer::Packets(0)) | Some(Buffer::Bytes(Bytes::ZERO)) => {
            Err(value.error(format_args!("holds nothing, so nothing could pass; {FORMS}")))
        }
        Some(buffer) => Ok(buffer),
        None => Err(value.error(format_args!("\"{}\" is no buffer; {FORMS}", shown(text)))),
    }
}

/// Nodes by name.
pub type Names<'a> = BTreeMap<&'a str, NodeId>;

/// The nodes of `topology` that are to be `kept`, by name.
pub fn names(topology: &Topology, kept: impl Fn(NodeKind) -> bool) -> Names<'_> {
    let nodes = (0u32..).zip(topology.nodes());
    nodes
        .filter(|(_, node)| kept(node.kind))
        .map(|(number, node)| (node.name.as_str(), NodeId(number)))
        .collect()
}

/// `from` and `to`, names of the ends of a link that exists, with the link's name.
pub fn port(
    fields: &mut Fields<'_>,
    topology: &Topology,
    names: &Names<'_>,
) -> Read<(LinkId, String)> {
    let from = fields.need("from", "\"s0\"")?;
    let to = fields.need("to", "\"h0\"")?;
    let ends = (named(&from, "node", names)?, named(&to, "node", names)?);
    match topology.link_between(ends.0, ends.1) {
        Some(link) => Ok((link, format!("{}-{}", from.text()?, to.text()?))),
        None => Err(to.error(format_args!(
            "there is no link from {} to {}; name neighbours",
            shown(from.text()?),
            shown(to.text()?)
        ))),
    }
}

/// The node that `value` names; an error calls it a `what` and shows what names look like here.
pub fn named(value: &Value<'_>, what: &str, names: &Names<'_>) -> Read<NodeId> {
    const SHOWN: usize = 8;
    let name = value.text()?;
    names.get(name).copied().ok_or_else(|| {
        let mut some: Vec<&str> = names.keys().copied().take(SHOWN).collect();
        if names.len() > SHOWN {
            some.push("…");
        }
        let (name, some) = (shown(name), some.join(", "));
        if names.is_empty() {
            return value.error(format_args!(
                "there is no {what} \"{name}\": the topology has none; write a [topology] that has it"
            ));
        }
        value.error(format_args!("there is no {what} \"{name}\"; there are {some}"))
    })
}

/// The link that `from` and `to` name, two neighbours.
pub fn read_port(fields: &mut Fields<'_>, topology: &Topology) -> Read<LinkId> {
    Ok(port(fields, topology, &names(topology, |_| true))?.0)
}

/// Refuses a buffer that no full packet of `octets` fits into: its flows would try for ever.
pub fn check_buffers(value: &Value<'_>, topology: &Topology, octets: u32) -> Read<()> {
    for link in topology.links() {
        if let Buffer::Bytes(room) = link.spec.buffer
            && room < Bytes::new(u64::from(octets))
        {
            let (from, to) = (link.from.index(), link.to.index());
            let (from, to) = (&topology.nodes()[from].name, &topology.nodes()[to].name);
            return Err(value.error(format_args!(
                "the buffer of {room} from {from} to {to} holds no full packet of {octets} B; \
                 write a larger one"
            )));
        }
    }
    Ok(())
}

/// `hosts`, `switches` and `[[topology.link]]`, each a cable with the same properties both ways
/// unless it is `one_way`.
fn custom(fields: &mut Fields<'_>) -> Read<Topology> {
    let mut topology = Topology::new();
    let mut names = Names::new();
    for (key, kind, example) in
        [("hosts", NodeKind::Host, "[\"n1\", \"n2\"]"), ("switches", NodeKind::Switch, "[\"s1\"]")]
    {
        for value in fields.need(key, example)?.list(MOST_CUSTOM / 2)? {
            let node = topology.add_node(value.name()?, kind).map_err(|e| value.error(e))?;
            if names.insert(value.text()?, node).is_some() {
                return Err(value.error("there is a node of that name already; use another"));
            }
        }
    }
    for value in fields.tables("link", MOST_LINKS / 2)? {
        let mut fields = value.fields()?;
        let from = named(&fields.need("from", "\"n1\"")?, "node", &names)?;
        let to = named(&fields.need("to", "\"s1\"")?, "node", &names)?;
        let spec = link(&mut fields)?;
        let one_way = fields.or("one_way", false, Value::flag)?;
        fields.done()?;
        let added = if one_way {
            topology.add_link(from, to, spec).map(drop)
        } else {
            topology.connect(from, to, spec, spec).map(drop)
        };
        added.map_err(|error| value.error(error))?;
    }
    Ok(topology)
}

/// The topology with the properties that `[[topology.override]]` gives to single links.
fn respecify(
    topology: &Topology,
    overrides: &[Value<'_>],
) -> Read<Result<Topology, TopologyError>> {
    let names = names(topology, |_| true);
    let mut links = topology.links().to_vec();
    for value in overrides {
        let mut fields = value.fields()?;
        let (link, _) = port(&mut fields, topology, &names)?;
        let spec = &mut links[link.index()].spec;
        *spec = LinkSpec {
            capacity: fields.or("capacity", spec.capacity, capacity)?,
            delay: fields.or("delay", spec.delay, delay)?,
            buffer: fields.or("buffer", spec.buffer, buffer)?,
            mark: fields.optional("mark", mark)?.or(spec.mark),
        };
        fields.done()?;
    }
    let rebuild = || {
        let mut rebuilt = Topology::new();
        for node in topology.nodes() {
            rebuilt.add_node(node.name.clone(), node.kind)?;
        }
        for link in links {
            rebuilt.add_link(link.from, link.to, link.spec)?;
        }
        Ok(rebuilt)
    };
    Ok(rebuild())
}
