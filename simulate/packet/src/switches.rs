//! What switches do beyond forwarding when the policy asks for it: they watch their queues, report
//! SYN, FIN and flow statistics, and rewrite and space acknowledgements.

use std::collections::VecDeque;

use agent::Trigger;
use model::{Cap, Caps, FlowId, Measured, NodeKind, Severity, Topology};
use policy::Watch;
use units::Span;

use crate::frame::Packet;
use crate::wires::{DELIVER, Path, SPECIAL};

/// No port.
pub(crate) const NONE: u32 = u32::MAX;

/// All switches of a network.
pub(crate) struct Switches {
    pub(crate) watch: Watch,
    /// By link; those that leave hosts stay idle.
    pub(crate) ports: Vec<Port>,
    /// Measurements not reported yet.
    pub(crate) reports: Vec<Measured>,
    /// Round trips of handshakes that are told with the next statistics.
    pub(crate) round_trips: Vec<(FlowId, Span)>,
    /// Whether the next statistics and the next reports of queues are events already.
    pub(crate) counting: bool,
    pub(crate) reporting: bool,
}

/// A port, by the link that its queue feeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Port {
    pub(crate) is_switch: bool,
    pub(crate) trigger: Option<Trigger>,
    /// Whether the trigger's deadline is an event already.
    pub(crate) armed: bool,
    /// Frame bytes that the link had taken at the last report.
    pub(crate) told: u64,
    /// Caps of the windows of all flows through the link.
    pub(crate) caps: Option<Caps>,
    /// Time between their acknowledgements, ns; those that wait, and when the next may pass.
    pub(crate) gap: Option<u64>,
    pub(crate) waiting: VecDeque<Packet>,
    pub(crate) ready: u64,
}

/// What switches know of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Passage {
    /// For each hop of the way back, the link that the data takes from the same switch.
    pub(crate) tolls: Path,
    /// Windows of this flow alone, by link.
    pub(crate) entries: Vec<(u32, Caps)>,
    /// Frame bytes through its first switch.
    pub(crate) carried: u64,
    /// Whether the controller has answered its SYN, and, if it waits for that, since when, ns, and the SYN.
    pub(crate) is_admitted: bool,
    pub(crate) held: Option<(u64, Packet)>,
}

impl Switches {
    pub(crate) fn new(topology: &Topology, watch: Watch) -> Self {
        let ports = topology.links().iter().map(|link| {
            let is_switch = topology.nodes()[link.from.index()].kind == NodeKind::Switch;
            let trigger = watch.congestion.filter(|_| is_switch).map(Trigger::new);
            Port { is_switch, trigger, ..Port::default() }
        });
        Self {
            watch,
            ports: ports.collect(),
            reports: Vec::new(),
            round_trips: Vec::new(),
            counting: false,
            reporting: false,
        }
    }

    /// What switches must know of a flow that takes these paths.
    pub(crate) fn passage(topology: &Topology, there: &Path, back: &Path) -> Passage {
        let mut tolls = [NONE; _];
        let from = |element: u32| {
            (element != DELIVER).then(|| topology.links()[(element & !SPECIAL) as usize].from)
        };
        for (toll, hop) in tolls.iter_mut().zip(back).skip(1) {
            let same = |element: &&u32| from(**element) == from(*hop) && **element != DELIVER;
            *toll = there.iter().skip(1).find(same).map_or(NONE, |element| element & !SPECIAL);
        }
        Passage { tolls, entries: Vec::new(), carried: 0, is_admitted: false, held: None }
    }

    /// The cap of a flow's window at a port as congested as it is: its own entry before that of the port.
    pub(crate) fn entry(&self, passage: &Passage, link: u32) -> Option<Cap> {
        let own = passage.entries.iter().find(|(at, _)| *at == link).map(|(_, caps)| *caps);
        let port = &self.ports[link as usize];
        let severity = port.trigger.as_ref().map_or(Severity::Recovered, Trigger::severity);
        own.or(port.caps)?.at(severity)
    }

    /// Frame bytes of acknowledgements that wait.
    pub(crate) fn carried(&self) -> u64 {
        self.ports.iter().flat_map(|port| &port.waiting).map(|packet| u64::from(packet.size)).sum()
    }
}
