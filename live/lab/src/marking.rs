//! Marking at switches: a virtual queue beside each link that has a threshold, kept by the agent's
//! program on the interface that the link leaves by.

use std::collections::BTreeMap;

use kernel::{Namespace, PortNumber, PortOptions, Switch, Watch};
use model::LinkId;
use units::Bytes;

use crate::{Error, Lab, Transport};

/// A guard: while it lives, links with a threshold mark.
pub(crate) struct Marking {
    switch: Switch,
    ports: BTreeMap<LinkId, PortNumber>,
}

impl Marking {
    /// Starts marking at links with a threshold; `None` if there are none, or if the transport has
    /// no ECN.
    pub(crate) fn start(lab: &Lab, transport: &Transport) -> Result<Option<Self>, Error> {
        let topology = &lab.blueprint.topology;
        let ends = lab.blueprint.cables.iter().flatten();
        let marking = ends.filter_map(|end| Some((end, topology.link(end.link).spec.mark?)));
        let marking: Vec<_> = marking.collect();
        if marking.is_empty() || !transport.ecn {
            return Ok(None);
        }
        let mut switch = Switch::new().map_err(refused)?;
        let mut ports = BTreeMap::new();
        for (end, packets) in marking {
            let spec = topology.link(end.link).spec;
            let options =
                PortOptions { segment: Bytes::new(transport.mss.into()), ..PortOptions::default() };
            let namespace = Namespace::named(&lab.namespace(end.node)).map_err(refused)?;
            let number = switch.attach(namespace, &end.interface, &options).map_err(refused)?;
            let (rate, buffer, mark) = (spec.capacity, spec.buffer, Some(packets));
            let watch = Watch { rate, buffer, thresholds: None, mark };
            switch.port(number).and_then(|port| port.watch(Some(watch))).map_err(refused)?;
            ports.insert(end.link, number);
        }
        Ok(Some(Self { switch, ports }))
    }

    /// Packets that a link has marked.
    pub(crate) fn marked(&mut self, link: LinkId) -> u64 {
        let number = self.ports.get(&link);
        let counters = number.and_then(|number| self.switch.port(*number).ok()?.counters().ok());
        counters.map_or(0, |counters| counters.marked)
    }
}

fn refused(error: kernel::Error) -> Error {
    Error::Transport(format!(
        "marking at switches needs BPF programs on interfaces ({error}); watermaster doctor tells \
         what is missing"
    ))
}
