//! `sicc`: the tree of hubs of a request that names objects on 10,000 or 50,000 servers.

use model::{LinkSpec, Network};
use policy::sicc::Racks;
use policy::sicc::tree::{Target, merge, most_hubs, swarms};
use units::{Bytes, Rate, Span};

use super::{Decision, Dice, timed_us};
use crate::failure::Failure;

/// Servers of a rack and racks of a router, as in the text.
const SERVERS: u32 = 60;
const RACKS: u32 = 20;

pub(super) fn few() -> Result<Decision, Failure> {
    case(10_000)
}

pub(super) fn many() -> Result<Decision, Failure> {
    case(50_000)
}

fn case(servers: u32) -> Result<Decision, Failure> {
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
            let swarms = swarms(&racks, targets.iter().copied());
            let hubs = swarms.iter().map(|swarm| (racks.router(swarm.rack), swarm.objects));
            merge(&hubs.collect::<Vec<_>>(), most)
        })
    }))
}
