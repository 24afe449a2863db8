//! `sicc`: swarms, hubs and their tree for the servers of a request among 150,000 (SICC, figure 10),
//! each with 1 to 10 objects.

use model::build::{Access, racks};
use model::{Buffer, LinkSpec, Network, NodeId};
use policy::sicc::Racks;
use policy::sicc::tree::{merge, most_hubs, swarms};
use units::{Bytes, Rate, Span};

use super::{Decision, Dice, timed_us};
use crate::failure::Failure;

const FULL_PACKET: Bytes = Bytes::new(1500);

pub(super) fn servers_10000() -> Result<Decision, Failure> {
    case(10_000)
}

pub(super) fn servers_50000() -> Result<Decision, Failure> {
    case(50_000)
}

fn case(servers: usize) -> Result<Decision, Failure> {
    let capacity = Rate::from_mbps(1_000);
    let buffer = Buffer::Bytes(Bytes::new(100_000));
    let link = LinkSpec { capacity, delay: Span::from_micros(5), buffer, mark: None };
    let access = Access { link, nic: Buffer::Unlimited };
    let network =
        Network::new(racks(2500, 10, 60, &access, &link, &link).map_err(Failure::failed)?);
    let most = most_hubs(&link, capacity, FULL_PACKET, 1);
    let racks = Racks::new(&network);
    let hosts: Vec<NodeId> = network.topology().hosts().collect();
    let mut dice = Dice(1);
    // Every so-manyth server from a random one on is a random sample for racks and numbers alike.
    let step = hosts.len() / servers;
    Ok(Box::new(move || {
        let first = dice.roll(1000) as usize;
        let sample = hosts.iter().cycle().skip(first).step_by(step).take(servers);
        let targets: Vec<(NodeId, u32)> = sample.map(|host| (*host, 1 + dice.roll(10))).collect();
        timed_us(|| {
            let swarms = swarms(&racks, targets.iter().copied());
            let hubs: Vec<_> =
                swarms.iter().map(|swarm| (racks.router(swarm.rack), swarm.objects)).collect();
            merge(&hubs, most).len()
        })
    }))
}
