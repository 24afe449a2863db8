//! The network as a policy in Python sees it.

use model::{FlowId, LinkId, Network, NodeId, NodeKind};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

/// A network at a moment: another one comes in its place when a link fails or changes.
#[pyclass(name = "Network", module = "watermaster", frozen)]
pub struct PyNetwork {
    network: Network,
}

impl PyNetwork {
    pub const fn new(network: Network) -> Self {
        Self { network }
    }

    fn check_node(&self, node: u32) -> PyResult<NodeId> {
        if NodeId(node).index() < self.network.topology().nodes().len() {
            return Ok(NodeId(node));
        }
        Err(PyKeyError::new_err(format!("there is no node {node}")))
    }

    fn link_of(&self, number: LinkId) -> PyLink {
        let link = self.network.topology().link(number);
        PyLink {
            id: number.0,
            source: link.from.0,
            destination: link.to.0,
            capacity: link.spec.capacity.as_bps(),
            delay: link.spec.delay.as_secs_f64(),
            up: self.network.is_up(number),
        }
    }
}

#[pymethods]
impl PyNetwork {
    #[getter]
    fn hosts(&self) -> Vec<u32> {
        self.network.topology().hosts().map(|host| host.0).collect()
    }

    #[getter]
    fn switches(&self) -> Vec<u32> {
        let nodes = (0u32..).zip(self.network.topology().nodes());
        nodes.filter(|(_, node)| node.kind == NodeKind::Switch).map(|(id, _)| id).collect()
    }

    #[getter]
    fn links(&self) -> Vec<PyLink> {
        let count = u32::try_from(self.network.topology().links().len()).unwrap_or(u32::MAX);
        (0..count).map(|link| self.link_of(LinkId(link))).collect()
    }

    fn link(&self, link: u32) -> PyResult<PyLink> {
        if LinkId(link).index() < self.network.topology().links().len() {
            return Ok(self.link_of(LinkId(link)));
        }
        Err(PyKeyError::new_err(format!("there is no link {link}")))
    }

    fn name(&self, node: u32) -> PyResult<String> {
        Ok(self.network.topology().node_name(self.check_node(node)?).into_owned())
    }

    fn node(&self, name: &str) -> PyResult<u32> {
        let node = self.network.topology().node_named(name);
        let missing = || PyKeyError::new_err(format!("there is no node called {name}"));
        node.map(|node| node.0).ok_or_else(missing)
    }

    /// The links of a flow in order; empty where there is no path.
    fn path(&self, src: u32, dst: u32, flow: u32) -> PyResult<Vec<u32>> {
        let (src, dst) = (self.check_node(src)?, self.check_node(dst)?);
        let mut path = Vec::new();
        // Switches choose by the flow's number, as every policy does.
        self.network.path(src, dst, u64::from(FlowId(flow).0), &mut path);
        Ok(path.into_iter().map(|link| link.0).collect())
    }

    fn __repr__(&self) -> String {
        let topology = self.network.topology();
        let hosts = topology.hosts().count();
        let switches = topology.nodes().len() - hosts;
        format!("Network of {hosts} hosts, {switches} switches, {} links", topology.links().len())
    }
}

/// One direction of a cable.
#[pyclass(name = "Link", module = "watermaster", frozen, get_all, eq)]
#[derive(Clone, PartialEq)]
pub struct PyLink {
    /// Its number.
    id: u32,
    /// The node that sends.
    source: u32,
    /// The node that receives.
    destination: u32,
    /// Frame bits per second.
    capacity: u64,
    /// Propagation delay, seconds.
    delay: f64,
    /// Whether it carries traffic.
    up: bool,
}

#[pymethods]
impl PyLink {
    fn __repr__(&self) -> String {
        let Self { id, source, destination, capacity, .. } = self;
        format!("Link {id} from node {source} to {destination}, {capacity} bit/s")
    }
}
