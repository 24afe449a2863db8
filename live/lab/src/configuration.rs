//! The configurations of a lab's controller and agent (see `docs/configuration.md`), written from a
//! blueprint.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use control::Enforcement;
use model::{LinkId, Node, NodeId, NodeKind};
use units::{Bytes, Span};
use wire::client::Address;

use crate::blueprint::{Blueprint, Forwarding};

/// How a controller governs a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Governance {
    /// Payload of a full TCP segment of the hosts.
    pub mss: Bytes,
    /// What enforces rates; meters need Open vSwitch.
    pub enforcement: Enforcement,
    /// Lease: how long grants last without a controller.
    pub lease: Span,
    /// How often the agent reports.
    pub sample: Span,
    /// How long declarations of a disconnected application last.
    pub grace: Span,
    /// Where the controller records what it hears and decides; `None`: nowhere.
    pub record: Option<PathBuf>,
    /// Whether the daemons log the control delay.
    pub trace: bool,
}

impl Default for Governance {
    fn default() -> Self {
        Self {
            mss: model::MSS,
            enforcement: Enforcement::default(),
            lease: control::LEASE,
            sample: control::SAMPLE,
            grace: control::GRACE,
            record: None,
            trace: false,
        }
    }
}

/// Below a lab's folder: where its agent pins its BPF programs and maps.
pub(crate) const PINS: &str = "bpf";
/// Where Open vSwitch finds the controller, in the namespace of the bridges.
pub(crate) const OPENFLOW: &str = "127.0.0.1:6653";
/// The controller's socket for all others, in the lab's folder.
pub(crate) const SOCKET: &str = "controller.sock";
/// The agent's name.
pub(crate) const AGENT: &str = "lab";
/// One agent speaks for all hosts here, and nobody is a stranger.
const REPORTS_PER_SECOND: u32 = 1_000_000;

/// The controller's file, with `policy` as the body of its table.
pub(crate) fn controller(plan: &Blueprint, governance: &Governance, policy: &str) -> String {
    let Governance { mss, enforcement, lease, sample, grace, record, .. } = governance;
    let with_switches = plan.forwarding == Forwarding::Ovs;
    let openflow =
        if with_switches { format!("openflow = \"{OPENFLOW}\"\n") } else { String::new() };
    let mss = mss.get();
    let enforcement = enforcement.name();
    let mut text = format!(
        "state = \"state\"\nmss = {mss}\n\
         [listen]\nsocket = \"{SOCKET}\"\n{openflow}\
         [policy]\n{policy}\n\
         [control]\nenforcement = \"{enforcement}\"\nlease = {}\nsample = {}\nprobe = {}\n\
         grace = {}\n\
         [limits]\nreports_per_second = {REPORTS_PER_SECOND}\n",
        nanos(*lease),
        nanos(*sample),
        nanos(*sample),
        nanos(*grace),
    );
    if let Some(folder) = record {
        // What JSON has for text TOML has too. None is removed for another: who compares runs needs all.
        let folder = serde_json::json!(folder);
        let _ = writeln!(text, "[recorder]\ndirectory = {folder}\nfiles = 10000");
    }
    topology(plan, &mut text);
    for (id, node) in nodes(plan) {
        match node.kind {
            NodeKind::Host => {
                let address = plan.address(id);
                let ethernet: Vec<String> =
                    plan.ends(id).map(|end| format!("\"{}\"", end.mac)).collect();
                let _ = write!(
                    text,
                    "[[host]]\nname = \"{}\"\naddresses = [\"{address}\"]\nethernet = [{}]\n",
                    node.name,
                    ethernet.join(", ")
                );
            }
            NodeKind::Switch if with_switches => {
                let number = plan.switches().position(|switch| switch == id).unwrap_or_default();
                let _ = write!(
                    text,
                    "[[switch]]\nname = \"{}\"\ndatapath_id = \"{:#x}\"\n",
                    node.name,
                    number + 1
                );
            }
            NodeKind::Switch => {}
        }
    }
    ports(plan, &mut text);
    text
}

/// The port of each link; of parallel cables the first.
fn ports(plan: &Blueprint, text: &mut String) {
    for (id, node) in nodes(plan).filter(|(_, node)| node.kind == NodeKind::Switch) {
        for (end, number) in plan.ends(id).zip(1..) {
            let link = plan.topology.link(end.link);
            if plan.topology.link_between(link.from, link.to) != Some(end.link) {
                continue;
            }
            let _ = write!(
                text,
                "[[port]]\nfrom = \"{}\"\nto = \"{}\"\ninterface = \"{}\"\n",
                node.name,
                name(plan, link.to),
                end.interface
            );
            if plan.forwarding == Forwarding::Ovs {
                let _ = writeln!(text, "number = {number}");
            }
        }
    }
}

fn topology(plan: &Blueprint, text: &mut String) {
    let of = |kind: NodeKind| {
        let names = plan.topology.nodes().iter().filter(|node| node.kind == kind);
        names.map(|node| format!("\"{}\"", node.name)).collect::<Vec<_>>().join(", ")
    };
    let _ = write!(
        text,
        "[topology]\nkind = \"custom\"\nhosts = [{}]\nswitches = [{}]\n",
        of(NodeKind::Host),
        of(NodeKind::Switch)
    );
    for number in 0..plan.topology.links().len() {
        let link = plan.topology.link(LinkId(u32::try_from(number).unwrap_or(u32::MAX)));
        let buffer = link.spec.buffer;
        let _ = write!(
            text,
            "[[topology.link]]\nfrom = \"{}\"\nto = \"{}\"\none_way = true\n\
             capacity = \"{} bit/s\"\ndelay = {}\nbuffer = \"{buffer}\"\n",
            name(plan, link.from),
            name(plan, link.to),
            link.spec.capacity.as_bps(),
            nanos(link.spec.delay),
        );
        if let Some(mark) = link.spec.mark {
            let _ = writeln!(text, "mark = {mark}");
        }
    }
}

/// The agent's file: it acts for every host, and at every switch port that is an interface of the
/// kernel. It governs the connections of the control group `group`.
pub(crate) fn agent(
    plan: &Blueprint,
    mss: Bytes,
    namespace: impl Fn(NodeId) -> String,
    group: &Path,
    pins: &Path,
    controller: &Address,
) -> String {
    let mss = mss.get();
    let mut text = format!(
        "name = \"{AGENT}\"\ncontroller = \"{controller}\"\ncgroup = \"{}\"\npins = \"{}\"\n\
         openings_per_second = {REPORTS_PER_SECOND}\n",
        group.display(),
        pins.display()
    );
    let kernel_forwards = plan.forwarding != Forwarding::Ovs;
    for (id, node) in nodes(plan) {
        let addresses = match node.kind {
            NodeKind::Host => format!("\"{}\"", plan.address(id)),
            NodeKind::Switch if kernel_forwards => String::new(),
            NodeKind::Switch => continue,
        };
        let _ = write!(
            text,
            "[[host]]\nname = \"{}\"\naddresses = [{addresses}]\nnamespace = \"{}\"\n",
            node.name,
            namespace(id)
        );
    }
    let switches = nodes(plan).filter(|(_, node)| node.kind == NodeKind::Switch);
    for (id, node) in switches.filter(|_| kernel_forwards) {
        for end in plan.ends(id) {
            let spec = plan.topology.link(end.link).spec;
            let _ = write!(
                text,
                "[[interface]]\nnode = \"{}\"\ninterface = \"{}\"\nnamespace = \"{}\"\n\
                 rate = \"{} bit/s\"\nbuffer = \"{}\"\nmss = {mss}\n",
                node.name,
                end.interface,
                namespace(id),
                spec.capacity.as_bps(),
                spec.buffer,
            );
            let classes = plan.classes(end);
            if !classes.is_empty() {
                let _ = writeln!(text, "classes = [\"{}\"]", classes.join("\", \""));
            }
        }
    }
    text
}

fn nodes(plan: &Blueprint) -> impl Iterator<Item = (NodeId, &Node)> {
    (0u32..).map(NodeId).zip(plan.topology.nodes())
}

fn name(plan: &Blueprint, node: NodeId) -> &str {
    &plan.topology.nodes()[node.index()].name
}

fn nanos(span: Span) -> String {
    format!("\"{} ns\"", span.as_nanos())
}

#[cfg(test)]
mod tests {
    use model::build::{Access, dumbbell, leaf_spine};
    use model::{Buffer, LinkSpec, Topology};
    use units::Rate;

    use super::*;
    use crate::Switches;

    fn read(
        topology: &Topology,
        switches: Switches,
    ) -> (::controller::settings::Settings, agentd::settings::Settings) {
        let plan = Blueprint::new(topology, switches).unwrap();
        let folder = Path::new("/run/lab");
        let smsf = "name = \"smsf\"\nbeta = 0.05";
        let record = Some(PathBuf::from("/r\"\\ä"));
        let mss = Bytes::new(8960);
        let governance = Governance { record, mss, ..Governance::default() };
        let text = controller(&plan, &governance, smsf);
        let decides = ::controller::settings::Settings::read("c", &text, folder).unwrap();
        let socket = Address::Unix(folder.join(SOCKET));
        let namespace = |node: NodeId| format!("wm-t-{}", plan.room(node));
        let text =
            agent(&plan, governance.mss, namespace, Path::new("/g"), Path::new("/p"), &socket);
        (decides, agentd::settings::Settings::read("a", &text, folder).unwrap())
    }

    fn spec(buffer: Buffer) -> LinkSpec {
        let (capacity, delay) = (Rate::from_bps(33_333_333), Span::from_nanos(1_234));
        LinkSpec { capacity, delay, buffer, mark: Some(20) }
    }

    #[test]
    fn what_is_written_is_what_the_daemons_read() {
        let access = Access { link: spec(Buffer::Packets(100)), nic: Buffer::Unlimited };
        let fabric = spec(Buffer::Bytes(Bytes::new(30_001)));
        let spines = leaf_spine(2, 2, 1, &access, &fabric).unwrap();
        let (controller, agent) = read(&spines, Switches::Bridge);
        let known = |t: &Topology| {
            let name = |node: NodeId| t.nodes()[node.index()].name.clone();
            let ends = |link: &model::Link| (name(link.from), name(link.to), link.spec);
            let mut links: Vec<_> =
                t.links().iter().map(|link| format!("{:?}", ends(link))).collect();
            links.sort();
            links
        };
        assert_eq!(known(&controller.control.topology), known(&spines));
        assert_eq!(controller.control.policy_name, "smsf");
        let recorder = controller.recorder.unwrap();
        assert_eq!((&*recorder.directory, recorder.files), (Path::new("/r\"\\ä"), 10_000));
        assert_eq!((agent.hosts.len(), agent.ports.len()), (6, 10));
        assert_eq!(
            (agent.openings, controller.control.limits.reports_per_second),
            (1_000_000, 1_000_000)
        );
        let segments = (controller.control.mss, agent.ports.iter().map(|port| port.mss).max());
        assert_eq!(segments, (Bytes::new(8960), Some(Bytes::new(8960))));
        assert!(controller.control.switches.is_empty() && controller.listen.openflow.is_none());
        // The agent acts exactly at the interfaces that the controller knows.
        for port in &agent.ports {
            let topology = &controller.control.topology;
            let from = |link: LinkId| &topology.nodes()[topology.link(link).from.index()].name;
            let found = controller.control.ports.iter();
            let found =
                found.filter(|p| p.interface == port.interface && *from(p.link) == port.node);
            assert_eq!(found.count(), 1, "{port:?}");
        }

        let racks = dumbbell(1, 1, &access, &fabric).unwrap();
        let (controller, agent) = read(&racks, Switches::Ovs);
        assert_eq!(controller.control.switches.len(), 2);
        assert!(controller.control.ports.iter().all(|port| port.port.is_some()));
        assert_eq!((agent.hosts.len(), agent.ports.len()), (2, 0));
    }
}
