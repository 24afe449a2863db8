//! How the simulated controller knows the world's hosts and flows: by addresses and connections that
//! stand for them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use model::{FlowId, NodeId};
use protocol::Connection;
use protocol::translate::Names;

/// Ports that a flow's number can be in; none is zero, which would stand for any.
const PORTS: u32 = 65_535;

/// All hosts in order; a host's address is its place among them.
pub(crate) struct Hosts<'a>(pub(crate) &'a [NodeId]);

impl Hosts<'_> {
    pub(crate) fn address(&self, host: NodeId) -> Option<IpAddr> {
        let place = u32::try_from(self.0.binary_search(&host).ok()?).ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(0x0a00_0001 + place)))
    }
}

impl Names for Hosts<'_> {
    fn host(&self, host: NodeId) -> Option<String> {
        Some(self.address(host)?.to_string())
    }

    /// The flow's number is in the ports.
    fn connection(&self, flow: FlowId, ends: (NodeId, NodeId)) -> Option<Connection> {
        let port = |number: u32| u16::try_from(number % PORTS + 1).ok();
        Some(Connection {
            source: SocketAddr::new(self.address(ends.0)?, port(flow.0)?),
            destination: SocketAddr::new(self.address(ends.1)?, port(flow.0 / PORTS)?),
        })
    }
}

/// The flow that a connection stands for.
pub(crate) fn flow(connection: &Connection) -> Option<FlowId> {
    let number = |address: SocketAddr| u32::from(address.port()).checked_sub(1);
    let high = number(connection.destination)?.checked_mul(PORTS)?;
    high.checked_add(number(connection.source)?).map(FlowId)
}
