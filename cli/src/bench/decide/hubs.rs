//! `sicc`: the tree of hubs of a request that names 1 to 10 objects on each of so many servers (SICC,
//! section 4.6, figure 10).

use model::{LinkSpec, Network};
use policy::sicc::Racks;
use policy::sicc::tree::{Target, merge, most_hubs, swarms};
use units::{Bytes, Rate, Span};

use super::{Decision, Dice, timed_us};
use crate::failure::Failure;

/// Servers of a rack and racks of a router, as in the text.
const SERVERS: u32 = 60;
const RACKS: u32 = 20;

pub(super) fn tree(servers: u32) -> Result<Decision, Failure> {
    let link = LinkSpec {
        capacity: Rate::from_mbps(1000),
        delay: Span::from_micros(10),
        buffer: model::Buffer::Bytes(Bytes::new(100_000)),
        mark: None,
    };
    let access = model::build::Access { link, nic: model::Buffer::Unlimited };
    let racks = servers.div_ceil(SERVERS);
    let topology = model::build::racks(racks, RACKS, SERVERS, &access, &link, &link);
    let topology = topology.map_err(Failure::failed)?;
    let servers = servers as usize;
    let target = |server| Target { server, objects: 0, spare: link.capacity };
    let mut targets: Vec<Target> = topology.hosts().take(servers).map(target).collect();
    let racks = Racks::new(&Network::new(topology));
    let most = most_hubs(&link, link.capacity, Bytes::new(1500), 1);
    let mut dice = Dice(1);
    Ok(Box::new(move || {
        for target in &mut targets {
            target.objects = 1 + dice.roll(10);
        }
        timed_us(|| {
            let swarms = swarms(&racks, 1, targets.iter().copied());
            let hubs = swarms.iter().map(|swarm| (racks.router(swarm.rack), swarm.objects));
            merge(&hubs.collect::<Vec<_>>(), most)
        })
    }))
}
