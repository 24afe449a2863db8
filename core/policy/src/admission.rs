//! TRANSMIT or SLOW for every flow, by rank: the machine that `fifo`, `sff` and `smsf` share.
//!
//! Source: Phurti, section 4.2, algorithms 1 and 2, read so that one rule holds: a flow is SLOW
//! exactly if a flow of another group with a better rank is in TRANSMIT on a link of its path.
//! Given ranks and paths that leaves one assignment only, in which each link has TRANSMIT flows of
//! one group at most and no SLOW flow could transmit. It differs from the listings as follows: the
//! state tested is that of the flow found on the link, not of the flow that enters; flows of one
//! group never block each other; and a flow that drops to SLOW frees its other links as if it had
//! ended, because work is conserved only then.
//!
//! The machine is incremental. What happened puts flows on an agenda, which is worked off from the
//! best rank down; a change of state affects worse ranks only, so no flow's state flips twice. A
//! SLOW flow is registered at one link that blocks it and looked at again when that link is freed.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use model::{Directives, FlowId, LEAST_RATE, LinkId, Network, NodeId};
use units::Rate;

use crate::flow_map::FlowMap;
use crate::groups::{GroupId, Groups, Rank, Ranked};
use crate::{Messages, Share, pace};

/// All flows in the network with their states.
#[derive(Debug)]
pub(crate) struct Admission {
    slow_share: Share,
    flows: FlowMap<Flow>,
    groups: Groups,
    /// By [`LinkId`].
    links: Vec<Link>,
    /// Flows whose state may be wrong.
    agenda: BTreeSet<(Rank, FlowId)>,
    /// Flows whose limit may be wrong.
    limits: BTreeSet<FlowId>,
    /// Access links whose SLOW flows must divide the share anew.
    shares: BTreeSet<LinkId>,
    /// SLOW flows that transmit for a while nevertheless.
    excepted: BTreeSet<FlowId>,
    /// How many flows are SLOW, the excepted among them.
    slow: usize,
    messages: Messages,
}

#[derive(Debug)]
struct Flow {
    ends: (NodeId, NodeId),
    /// Empty when no path leads from end to end; such a flow blocks nobody.
    path: Box<[LinkId]>,
    group: GroupId,
    state: State,
    /// The limit in force.
    limit: Option<Rate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On the agenda for the first time.
    New,
    Transmit,
    /// Blocked at this link, if not at others as well.
    Slow(LinkId),
}

/// Flows on one directed link.
#[derive(Debug, Default)]
struct Link {
    transmit: Ranked,
    /// SLOW flows that wait for this link to be freed.
    waiting: Ranked,
    /// SLOW flows that enter the network here and divide the share.
    sharing: BTreeSet<FlowId>,
    /// In how many parts the share was divided last: at least as many as share it.
    parts: usize,
}

impl Link {
    fn blocks(&self, rank: Rank) -> bool {
        self.transmit.first().is_some_and(|(best, _)| best < rank)
    }
}

impl Admission {
    /// No flows; SLOW flows with one access link divide `slow_share` of it.
    pub(crate) const fn new(slow_share: Share, messages: Messages) -> Self {
        Self {
            slow_share,
            flows: FlowMap::NONE,
            groups: Groups::NONE,
            links: Vec::new(),
            agenda: BTreeSet::new(),
            limits: BTreeSet::new(),
            shares: BTreeSet::new(),
            excepted: BTreeSet::new(),
            slow: 0,
            messages,
        }
    }

    /// Whether any flow is SLOW.
    pub(crate) const fn any_slow(&self) -> bool {
        self.slow > 0
    }

    /// Flow entry (algorithm 1). The flow's number must not be in use. A group with flows keeps the rank that
    /// it has until [`Admission::rerank`].
    pub(crate) fn enter(
        &mut self,
        network: &Network,
        id: FlowId,
        ends: (NodeId, NodeId),
        rank: Rank,
    ) {
        self.cover(network);
        let path = route(network, id, ends);
        let group = self.groups.enter(rank, &path);
        self.agenda.insert((self.groups.rank(group), id));
        self.flows.insert(id, Flow { ends, path, group, state: State::New, limit: None });
    }

    /// Flow exit (algorithm 2). Returns the limit that the flow was held to.
    pub(crate) fn exit(&mut self, id: FlowId) -> Option<Rate> {
        self.withdraw(id);
        self.excepted.remove(&id);
        let flow = self.flows.remove(id)?;
        self.groups.leave(flow.group, &flow.path);
        flow.limit
    }

    /// Gives a group another rank. Its flows stay where they are; those whose state may be wrong now are
    /// found at the links that the group crosses.
    pub(crate) fn rerank(&mut self, rank: Rank) {
        let Some(group) = self.groups.find(rank.arrival) else {
            return;
        };
        let before = self.groups.rerank(group, rank);
        if before == rank {
            return;
        }
        let all = (before, FlowId(0))..=(before, FlowId(u32::MAX));
        let pending: Vec<FlowId> = self.agenda.range(all).map(|(_, id)| *id).collect();
        for id in pending {
            self.agenda.remove(&(before, id));
            self.agenda.insert((rank, id));
        }
        for link in self.groups.links(group) {
            let link = &mut self.links[link.index()];
            link.transmit.rerank(before, rank);
            link.waiting.rerank(before, rank);
            // No other group transmits here: flows are placed only while the agenda is worked off, to its end.
            wake(link, &mut self.agenda);
        }
    }

    /// Takes in that the topology has changed.
    pub(crate) fn reroute(&mut self, network: &Network) {
        self.cover(network);
        let moved = self.flows.iter().filter_map(|(id, flow)| {
            let path = route(network, id, flow.ends);
            (path != flow.path).then_some((id, path))
        });
        let moved: Vec<(FlowId, Box<[LinkId]>)> = moved.collect();
        for (id, path) in moved {
            self.withdraw(id);
            if let Some(flow) = self.flows.get_mut(id) {
                self.groups.reroute(flow.group, &flow.path, &path);
                flow.path = path;
                self.agenda.insert((self.groups.rank(flow.group), id));
            }
        }
    }

    /// Lets a flow that is SLOW transmit beside those that block it. It blocks nobody itself.
    /// Returns whether it was SLOW.
    pub(crate) fn except(&mut self, id: FlowId) -> bool {
        let Some(flow) = self.flows.get(id) else {
            return false;
        };
        if !matches!(flow.state, State::Slow(_)) {
            return false;
        }
        self.stop_sharing(id);
        self.excepted.insert(id);
        true
    }

    /// Ends what [`Admission::except`] allowed.
    pub(crate) fn end_exceptions(&mut self) {
        for id in core::mem::take(&mut self.excepted) {
            let slow = (self.flows.get(id)).is_some_and(|f| matches!(f.state, State::Slow(_)));
            if slow {
                self.share(id);
            }
        }
    }

    /// Works off the agenda, then appends to `out` every limit that has changed, by flow number.
    pub(crate) fn settle(&mut self, network: &Network, out: &mut Directives) {
        while let Some((_, id)) = self.agenda.pop_first() {
            self.examine(id);
        }
        for link in core::mem::take(&mut self.shares) {
            let link = &mut self.links[link.index()];
            let count = link.sharing.len();
            let parts = match self.messages {
                Messages::Free => count,
                Messages::Costly => rounded(count, link.parts),
            };
            if core::mem::replace(&mut link.parts, parts) != parts {
                self.limits.extend(&link.sharing);
            }
        }
        for id in core::mem::take(&mut self.limits) {
            let Some(flow) = self.flows.get(id) else {
                continue;
            };
            let slow = matches!(flow.state, State::Slow(_)) && !self.excepted.contains(&id);
            let access = flow.path.first().filter(|_| slow);
            let limit = access.map(|&access| self.slow_rate(network, access));
            if let Some(flow) = self.flows.get_mut(id)
                && flow.limit != limit
            {
                flow.limit = limit;
                out.push(pace(id, limit));
            }
        }
    }

    /// What each SLOW flow that enters at `access` may send (section 4.3).
    fn slow_rate(&self, network: &Network, access: LinkId) -> Rate {
        let link = network.topology().links().get(access.index());
        let capacity = link.map_or(Rate::ZERO, |link| link.spec.capacity);
        let parts = self.links[access.index()].parts as u64;
        self.slow_share.divided(capacity, parts).max(LEAST_RATE)
    }

    /// Makes room for every link of the network.
    fn cover(&mut self, network: &Network) {
        let links = network.topology().links().len();
        if self.links.len() < links {
            self.links.resize_with(links, Link::default);
        }
    }

    /// Sets a flow's state right, given that all better ranks are.
    fn examine(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get(id) else {
            return;
        };
        let rank = self.groups.rank(flow.group);
        let blocks = |link: &LinkId| self.links[link.index()].blocks(rank);
        let kept = match flow.state {
            State::Slow(link) if blocks(&link) => Some(link),
            _ => None,
        };
        let blocked = kept.or_else(|| flow.path.iter().copied().find(|link| blocks(link)));
        let state = blocked.map_or(State::Transmit, State::Slow);
        if state != flow.state {
            self.withdraw(id);
            self.place(id, state);
        }
    }

    /// Puts a withdrawn flow into a state.
    fn place(&mut self, id: FlowId, state: State) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        flow.state = state;
        let rank = self.groups.rank(flow.group);
        match state {
            State::New => {}
            State::Transmit => {
                for link in &flow.path {
                    let transmit = &mut self.links[link.index()].transmit;
                    transmit.insert(rank, id);
                    // PreemptFlows: worse ranks here are blocked from now on.
                    self.agenda.extend(transmit.behind(rank));
                }
                self.limits.insert(id);
            }
            State::Slow(link) => {
                self.links[link.index()].waiting.insert(rank, id);
                self.slow += 1;
                if self.excepted.contains(&id) {
                    self.limits.insert(id);
                } else {
                    self.share(id);
                }
            }
        }
    }

    /// Takes a flow out of every link and off the agenda, and wakes who waited for it.
    fn withdraw(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        let rank = self.groups.rank(flow.group);
        self.agenda.remove(&(rank, id));
        match core::mem::replace(&mut flow.state, State::New) {
            State::New => {}
            State::Transmit => {
                for link in &flow.path {
                    let link = &mut self.links[link.index()];
                    link.transmit.remove(rank, id);
                    wake(link, &mut self.agenda);
                }
            }
            State::Slow(link) => {
                let link = &mut self.links[link.index()];
                link.waiting.remove(rank, id);
                wake(link, &mut self.agenda);
                self.slow -= 1;
                self.stop_sharing(id);
            }
        }
    }

    fn share(&mut self, id: FlowId) {
        if let Some(&access) = self.flows.get(id).and_then(|flow| flow.path.first()) {
            self.links[access.index()].sharing.insert(id);
            self.shares.insert(access);
        }
        self.limits.insert(id);
    }

    fn stop_sharing(&mut self, id: FlowId) {
        if let Some(&access) = self.flows.get(id).and_then(|flow| flow.path.first()) {
            self.links[access.index()].sharing.remove(&id);
            self.shares.insert(access);
        }
        self.limits.insert(id);
    }
}

/// In how many parts `count` flows divide a share that was divided in `before`, where each change of a
/// rate costs a message. Up to eight flows it is their number. Of more, each that comes or goes would
/// give all others another rate, by next to nothing: their number is rounded up to four steps an
/// octave, and parts stay as long as they are enough and not many more. Then one flow that comes or
/// goes changes the rates of some six others in the mean, however many there are, and seven tenths of
/// the share are in use at least. (Phurti, section 4.3, says only that they share it together.)
fn rounded(count: usize, before: usize) -> usize {
    let up = |count: usize| {
        let step = 1 << count.max(1).ilog2().saturating_sub(2);
        count.next_multiple_of(step)
    };
    let is_near = count <= before && before <= up(count + count.saturating_sub(1) / 8);
    if is_near { before } else { up(count) }
}

/// Puts the first flow that waits for `link` on the agenda, unless the link still blocks it. When
/// that flow has left the queue the next one's turn comes, and so on until one takes the link.
fn wake(link: &Link, agenda: &mut BTreeSet<(Rank, FlowId)>) {
    if let Some((rank, id)) = link.waiting.first()
        && !link.blocks(rank)
    {
        agenda.insert((rank, id));
    }
}

fn route(network: &Network, id: FlowId, ends: (NodeId, NodeId)) -> Box<[LinkId]> {
    let mut path = Vec::new();
    network.path(ends.0, ends.1, u64::from(id.0), &mut path);
    path.into()
}
