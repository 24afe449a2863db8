//! `one-all`: the front end asks for all objects at once; the answers meet at its port.
//!
//! Source: SICC, section 4, the baseline.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use model::{
    Declared, Directive, Directives, Gathering, HubOrder, Network, Observation, Request, Way,
};
use units::Time;

use crate::{Descriptor, DirectiveKind, Need, Policy};

/// What `one-all` is.
pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "one-all",
    summary: "the front end asks for all objects at once",
    source: "SICC, section 4, the baseline",
    parameters: &[],
    needs: &[Need::Requests],
    directives: &[DirectiveKind::Gather],
    is_max_min: false,
    build: |_| Ok(Box::new(OneAll::default())),
};

/// The policy.
#[derive(Clone, Debug, Default)]
struct OneAll {
    orders: Directives,
}

impl Policy for OneAll {
    fn observe(&mut self, _: Time, _: &Network, observation: &Observation) {
        if let Observation::Declared(Declared::Gather(request)) = observation {
            self.orders.push(ask_all(request));
        }
    }

    fn decide(&mut self, _: Time, _: &Network, out: &mut Directives) {
        out.append(&mut self.orders);
    }
}

/// The order to ask the first holder of every object of `request`, without hubs.
pub(crate) fn ask_all(request: &Request) -> Directive {
    let first = request.holders.chunks_exact(request.copies.max(1)).filter_map(|all| all.first());
    let ways: Vec<Way> = first.map(|holder| Way { holder: *holder, hub: None }).collect();
    let order = HubOrder::Gather(Gathering { hubs: Vec::new(), ways, packed: false });
    Directive::Gather { request: request.id, order: Arc::new(order) }
}
