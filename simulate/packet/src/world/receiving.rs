//! The receivers' side of [`ictcp`](crate::tcp::ictcp).

use model::Network;

use super::World;
use crate::Transport;
use crate::flow::Flow;
use crate::tcp::ictcp::Host;

impl World {
    /// A receiver learns of a flow that begins.
    pub(super) fn expect(&mut self, network: &Network, place: u32) {
        let flow = &mut self.flows[place as usize];
        let (mss, now) = (u64::from(self.transport.mss), self.now);
        let Some(host) = self.receivers.as_mut().and_then(|h| h.get_mut(flow.destination.index()))
        else {
            return;
        };
        let links = network.topology().links().iter();
        let into = links.filter(|link| link.to == flow.destination);
        let host =
            host.get_or_insert_with(|| Host::new(into.map(|l| l.spec.capacity.as_bps()).sum()));
        flow.grant = Some(Box::new(host.open(now, mss)));
    }
}

/// Data of a flow arrived at its receiver.
pub(super) fn receive(
    hosts: &mut [Option<Host>],
    flow: &mut Flow,
    now: u64,
    len: u64,
    transport: &Transport,
) {
    let Some(host) = hosts.get_mut(flow.destination.index()).and_then(Option::as_mut) else {
        return;
    };
    if let Some(grant) = &mut flow.grant {
        host.receive(grant, now, len, u64::from(transport.mss), flow.sender.round_trip());
        flow.receiver.grant(grant.window.min(transport.receive_window.get()));
    }
}

/// A flow is over.
pub(super) fn leave(hosts: &mut [Option<Host>], flow: &mut Flow) {
    let host = hosts.get_mut(flow.destination.index()).and_then(Option::as_mut);
    if let (Some(host), Some(grant)) = (host, flow.grant.take()) {
        host.close(&grant);
    }
}
