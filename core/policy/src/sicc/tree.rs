//! Hubs and the tree they form (SICC, section 3.1, algorithm 1).
//!
//! Section 3.1 chooses a rack's hub by spare capacity, algorithm 1 by objects. Here spare capacity
//! decides, and objects where it is equal.
//!
//! Two deviations. Where no hub under the same aggregation router is left, any takes the child: the
//! text is silent. And a hub with N children doesn't take another, as in the text, but passes the
//! child down to the smallest of its children that has at least as many objects, so that N bounds
//! what sends to any hub and not only to the front end.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem;

use model::{Buffer, LinkSpec, NodeId};
use units::{Bytes, Rate};

use super::Racks;

/// The servers of a request in one rack, or a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swarm {
    /// Which rack.
    pub rack: u32,
    /// Which part of the rack.
    pub part: u32,
    /// The server with the largest spare capacity; of equals the one with most objects, of equals
    /// of these the first.
    pub hub: NodeId,
    /// The next: it takes over when the hub dies.
    pub backup: Option<NodeId>,
    /// Objects that the swarm has for the request.
    pub objects: u32,
    /// Its servers.
    pub servers: u32,
}

/// A server of which a request wants something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Which.
    pub server: NodeId,
    /// How many objects.
    pub objects: u32,
    /// What it can send.
    pub spare: Rate,
}

/// Which of the `parts` of its rack a server is in.
pub(super) const fn part(server: NodeId, parts: u32) -> u32 {
    if parts > 1 { server.0 % parts } else { 0 }
}

/// The swarms of `targets`, of which each server is one at most: one for each of so many `parts` of
/// a rack, in order of racks. What is no server of a rack is left out.
pub fn swarms(racks: &Racks, parts: u32, targets: impl IntoIterator<Item = Target>) -> Vec<Swarm> {
    #[derive(Clone, Copy, Default)]
    struct Group {
        /// Spare capacity, a server's objects, its number's complement: the greater goes first.
        best: [u128; 2],
        objects: u32,
        servers: u32,
    }
    let mut all = vec![Group::default(); racks.count() * parts as usize];
    for Target { server, objects, spare } in targets {
        let Some(rack) = racks.of(server) else { continue };
        let group = &mut all[(rack * parts + part(server, parts)) as usize];
        group.objects = group.objects.saturating_add(objects);
        group.servers += 1;
        let own = u64::from(objects) << 32 | u64::from(!server.0);
        let rank = u128::from(spare.as_bps()) << 64 | u128::from(own);
        // Of a rack's many servers few come here.
        if rank > group.best[1] {
            group.best[1] = rank.min(group.best[0]);
            group.best[0] = rank.max(group.best[0]);
        }
    }
    #[allow(clippy::cast_possible_truncation)] // the lowest quarter is the server
    let server = |rank: u128| (rank > 0).then_some(NodeId(!(rank as u32)));
    let swarm = |(place, Group { best: [hub, backup], objects, servers }): (u32, Group)| {
        let (rack, part) = (place / parts, place % parts);
        Some(Swarm { rack, part, hub: server(hub)?, backup: server(backup), objects, servers })
    };
    (0u32..).zip(all).filter_map(swarm).collect()
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
        objects: hubs.iter().map(|(_, objects)| (*objects).max(1)).collect(),
        children: vec![Vec::new(); hubs.len()],
        parent: vec![None; hubs.len()],
    };
    let places: Vec<usize> = hubs.iter().map(|(router, _)| router_of(*router)).collect();
    let mut groups = vec![Vec::new(); routers.len()];
    for (hub, place) in (0u32..).zip(&places) {
        groups[*place].push(Reverse(forest.entry(hub)));
    }
    let mut queue = Queue(groups.iter().flatten().copied().collect());
    let mut near: Vec<Queue> = groups.into_iter().map(|group| Queue(group.into())).collect();
    for _ in most..hubs.len() {
        let Some(child) = queue.pop(&forest) else { break };
        // The smallest of all is the smallest under its router.
        let own = &mut near[places[child as usize]];
        own.pop(&forest);
        let Some(parent) = own.pop(&forest).or_else(|| queue.peek(&forest)) else { break };
        forest.link(parent, child);
        queue.push(forest.entry(parent));
        near[places[parent as usize]].push(forest.entry(parent));
    }
    forest.parent
}

/// Roots in order of the objects below them, ties by number. Entries that no longer hold stay in
/// the heap until they come up.
struct Queue(BinaryHeap<Reverse<u64>>);

impl Queue {
    fn push(&mut self, entry: u64) {
        self.0.push(Reverse(entry));
    }

    fn peek(&mut self, forest: &Forest) -> Option<u32> {
        loop {
            let Reverse(entry) = *self.0.peek()?;
            #[allow(clippy::cast_possible_truncation)] // the lower half is the hub
            let hub = entry as u32;
            if forest.parent[hub as usize].is_none() && forest.entry(hub) == entry {
                return Some(hub);
            }
            self.0.pop();
        }
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
    objects: Vec<u32>,
    children: Vec<Vec<u32>>,
    parent: Vec<Option<u32>>,
}

impl Forest {
    /// Orders hubs by objects, and by number where those are equal.
    fn entry(&self, hub: u32) -> u64 {
        u64::from(self.objects[hub as usize]) << 32 | u64::from(hub)
    }

    /// Makes the root `child` a child of the root `parent`, and those of its children that have
    /// most objects too while there is room.
    fn link(&mut self, parent: u32, child: u32) {
        self.adopt(parent, child);
        let (to, from) = (parent as usize, child as usize);
        let room = self.most - self.children[to].len();
        if room < self.children[from].len() {
            let mut own = mem::take(&mut self.children[from]);
            own.sort_unstable_by_key(|hub| self.entry(*hub));
            self.children[from] = own;
        }
        let kept = self.children[from].len().saturating_sub(room);
        for moved in self.children[from].split_off(kept) {
            self.objects[from] = self.objects[from].saturating_sub(self.objects[moved as usize]);
            self.parent[moved as usize] = Some(parent);
            self.children[to].push(moved);
        }
    }

    /// Puts `child`, which has at most as many objects as `parent`, below it.
    fn adopt(&mut self, mut parent: u32, mut child: u32) {
        loop {
            let at = parent as usize;
            self.objects[at] = self.objects[at].saturating_add(self.objects[child as usize]);
            if self.children[at].len() < self.most {
                self.parent[child as usize] = Some(parent);
                self.children[at].push(child);
                return;
            }
            let rank = |hub: u32| self.entry(hub);
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
