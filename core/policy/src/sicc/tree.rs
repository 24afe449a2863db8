//! Hubs and the tree they form (SICC, section 3.1, algorithm 1).
//!
//! Two deviations. Where no hub under the same aggregation router is left, any takes the child: the
//! text is silent. And a hub with N children doesn't take another, as in the text, but passes the
//! child down to the smallest of its children that has at least as many objects, so that N bounds
//! what sends to any hub and not only to the front end.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use model::{Buffer, LinkSpec, NodeId};
use units::{Bytes, Rate};

use super::Racks;

/// The servers of a request in one rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swarm {
    /// Which rack.
    pub rack: u32,
    /// The server with the most objects, the first of equals.
    pub hub: NodeId,
    /// The one with the second most: it takes over when the hub dies.
    pub backup: Option<NodeId>,
    /// Objects that the swarm has for the request.
    pub objects: u32,
    /// Its servers.
    pub servers: u32,
}

/// The swarms of the servers in `targets`, each named once with its number of objects; in order of
/// racks. What is no server of a rack is left out.
pub fn swarms(racks: &Racks, targets: impl IntoIterator<Item = (NodeId, u32)>) -> Vec<Swarm> {
    const NOBODY: (u32, NodeId) = (0, NodeId(u32::MAX));
    let mut best = vec![[NOBODY; 2]; racks.count()];
    let mut sums = vec![(0u32, 0u32); racks.count()];
    for (server, count) in targets {
        let Some(rack) = racks.of(server).map(|rack| rack as usize) else { continue };
        let (objects, servers) = &mut sums[rack];
        *objects = objects.saturating_add(count);
        *servers += 1;
        let [first, second] = &mut best[rack];
        let ahead = |other: &(u32, NodeId)| (count, Reverse(server)) > (other.0, Reverse(other.1));
        if ahead(first) {
            *second = *first;
            *first = (count, server);
        } else if ahead(second) {
            *second = (count, server);
        }
    }
    let in_use = (0u32..).zip(best).zip(sums).filter(|((_, best), _)| best[0].0 > 0);
    in_use
        .map(|((rack, [hub, backup]), (objects, servers))| Swarm {
            rack,
            hub: hub.1,
            backup: (backup.0 > 0).then_some(backup.1),
            objects,
            servers,
        })
        .collect()
}

/// Equation 1 and what follows from it, N = M / m: the most hubs that send to a front end behind
/// the switch port `down` while it has `requests` under way, when a burst comes in at `up` in
/// packets of `packet` octets.
pub fn most_hubs(down: &LinkSpec, up: Rate, packet: Bytes, requests: usize) -> u32 {
    let room = match down.buffer {
        Buffer::Unlimited => return u32::MAX,
        Buffer::Packets(packets) => Bytes::new(u64::from(packets)) * packet.get(),
        Buffer::Bytes(bytes) => bytes,
    };
    let burst = u128::from(room.get()) * u128::from(up.as_bps());
    let each = u128::from(packet.get().max(1))
        * u128::from(down.capacity.as_bps().max(1))
        * (requests.max(1) as u128);
    u32::try_from(burst / each).unwrap_or(u32::MAX).max(1)
}

/// The parent of each hub, so that at most `most` (at least 1) have none and no hub has more than
/// `most` children. `hubs` gives each hub's aggregation router and number of objects.
pub fn merge(hubs: &[(NodeId, u32)], most: u32) -> Vec<Option<u32>> {
    let most = most.max(1) as usize;
    if hubs.len() <= most {
        return vec![None; hubs.len()];
    }
    let mut routers: Vec<NodeId> = hubs.iter().map(|(router, _)| *router).collect();
    routers.sort_unstable();
    routers.dedup();
    let router_of = |router| routers.binary_search(&router).unwrap_or_default();
    let mut forest = Forest {
        most,
        // Above zero, so that a hub that adopts another always moves up in the queues.
        objects: hubs.iter().map(|(_, objects)| u64::from(*objects).max(1)).collect(),
        children: vec![Vec::new(); hubs.len()],
        parent: vec![None; hubs.len()],
    };
    let mut queue = Queue::default();
    let mut near = vec![Queue::default(); routers.len()];
    let places: Vec<usize> = hubs.iter().map(|(router, _)| router_of(*router)).collect();
    for (hub, place) in (0u32..).zip(&places) {
        queue.push(&forest, hub);
        near[*place].push(&forest, hub);
    }
    for _ in most..hubs.len() {
        let Some(child) = queue.pop(&forest) else { break };
        // The smallest of all is the smallest under its router.
        let own = &mut near[places[child as usize]];
        own.pop(&forest);
        let Some(parent) = own.pop(&forest).or_else(|| queue.peek(&forest)) else { break };
        forest.link(parent, child);
        queue.push(&forest, parent);
        near[places[parent as usize]].push(&forest, parent);
    }
    forest.parent
}

/// Roots in order of the objects below them, ties by number. Entries that no longer hold stay in
/// the heap until they come up.
#[derive(Clone, Default)]
struct Queue(BinaryHeap<Reverse<(u64, u32)>>);

impl Queue {
    fn push(&mut self, forest: &Forest, hub: u32) {
        self.0.push(Reverse((forest.objects[hub as usize], hub)));
    }

    fn peek(&mut self, forest: &Forest) -> Option<u32> {
        while let Some(&Reverse((objects, hub))) = self.0.peek() {
            if forest.parent[hub as usize].is_none() && forest.objects[hub as usize] == objects {
                return Some(hub);
            }
            self.0.pop();
        }
        None
    }

    fn pop(&mut self, forest: &Forest) -> Option<u32> {
        let hub = self.peek(forest);
        self.0.pop();
        hub
    }
}

struct Forest {
    most: usize,
    /// Objects of each hub and all below it.
    objects: Vec<u64>,
    children: Vec<Vec<u32>>,
    parent: Vec<Option<u32>>,
}

impl Forest {
    /// Makes the root `child` a child of the root `parent`, and those of its children that have
    /// most objects too while there is room.
    fn link(&mut self, parent: u32, child: u32) {
        self.adopt(parent, child);
        let (to, from) = (parent as usize, child as usize);
        let room = self.most - self.children[to].len();
        if room < self.children[from].len() {
            let objects = &self.objects;
            self.children[from].sort_unstable_by_key(|hub| (objects[*hub as usize], *hub));
        }
        let kept = self.children[from].len().saturating_sub(room);
        for moved in self.children[from].split_off(kept) {
            self.objects[from] -= self.objects[moved as usize];
            self.parent[moved as usize] = Some(parent);
            self.children[to].push(moved);
        }
    }

    /// Puts `child`, which has at most as many objects as `parent`, below it.
    fn adopt(&mut self, mut parent: u32, mut child: u32) {
        loop {
            let at = parent as usize;
            self.objects[at] += self.objects[child as usize];
            if self.children[at].len() < self.most {
                self.parent[child as usize] = Some(parent);
                self.children[at].push(child);
                return;
            }
            let rank = |hub: u32| (self.objects[hub as usize], hub);
            let children = self.children[at].iter().copied().enumerate();
            let larger = children.clone().filter(|(_, hub)| rank(*hub) >= rank(child));
            if let Some((_, next)) = larger.min_by_key(|(_, hub)| rank(*hub)) {
                parent = next;
            } else if let Some((place, least)) = children.min_by_key(|(_, hub)| rank(*hub)) {
                // Smaller than all: the child takes the place of the least, which goes below it.
                self.children[at][place] = child;
                self.parent[child as usize] = Some(parent);
                (parent, child) = (child, least);
            }
        }
    }
}
