//! Receivers that grant: those of [`Tags::Granted`](policy::Tags::Granted).
//!
//! Source: draft-ousterhout-tsvwg-homa-00, "Policy Considerations for Grants" and "Priorities and
//! Cutoffs". A grant is an acknowledgement: its window says how far, its block, where it has no SACK
//! block, with which priority.

use model::NodeId;
use policy::Granting;

use super::World;
use crate::flow::Flow;
use crate::tcp::Acknowledgement;

/// All receivers.
#[derive(Debug)]
pub(super) struct Receivers {
    /// Octets granted beyond what has arrived.
    ahead: u64,
    /// Number of the highest priority of grants, and of the lowest; 0 is the highest of all.
    highest: u32,
    lowest: u32,
    overcommitment: usize,
    /// By node, the messages that want more grants.
    hosts: Vec<Vec<Message>>,
    /// Those that were granted more just now, with their priorities.
    told: Vec<(u32, u32)>,
}

/// A message that is not granted as a whole.
#[derive(Clone, Copy, Debug)]
struct Message {
    place: u32,
    source: NodeId,
    /// How far it is granted, octets, and what has not arrived of it.
    granted: u64,
    left: u64,
}

impl Receivers {
    pub(super) fn new(granting: &Granting, mss: u16, nodes: usize) -> Self {
        let highest = u32::try_from(granting.cutoffs.len()).map_or(1, |cutoffs| cutoffs + 1);
        Self {
            ahead: u64::from(granting.ahead) * u64::from(mss),
            highest,
            lowest: highest + granting.priorities.max(1) - 1,
            overcommitment: granting.overcommitment as usize,
            hosts: vec![Vec::new(); nodes],
            told: Vec::new(),
        }
    }

    /// Grants anew at the receiver of a flow of which data arrived, which was granted as far as `edge`.
    fn arrived(&mut self, flows: &mut [Flow], place: u32, edge: u64) {
        self.told.clear();
        let flow = &flows[place as usize];
        let Some(messages) = self.hosts.get_mut(flow.destination.index()) else {
            return;
        };
        let is_known = messages.iter().any(|message| message.place == place);
        if !is_known && edge < flow.size {
            messages.push(Message { place, source: flow.source, granted: edge, left: 0 });
        }
        // What is written to a stream is left, too.
        for message in messages.iter_mut() {
            let flow = &flows[message.place as usize];
            message.left = flow.size - flow.receiver.delivered();
        }
        // Of equals that which came first.
        messages.sort_by_key(|message| message.left);
        let sends = |to: usize, messages: &[Message]| {
            let source = messages[to].source;
            messages[..to].iter().all(|before| before.source != source)
        };
        let chosen = (0..messages.len()).filter(|at| sends(*at, messages));
        let chosen: Vec<usize> = chosen.take(self.overcommitment).collect();
        // The lowest that are enough, so that who comes with less left finds a higher one.
        let spare =
            (self.lowest + 1 - self.highest).saturating_sub(super::slot_number(chosen.len()));
        for (rank, at) in (0..).zip(chosen) {
            let message = &mut messages[at];
            let size = flows[message.place as usize].size;
            let arrived = size - message.left;
            let granted = size.min(arrived + self.ahead);
            if granted > message.granted {
                message.granted = granted;
                let priority = (self.highest + spare + rank).min(self.lowest);
                self.told.push((message.place, priority));
                flows[message.place as usize].receiver.grant(granted - arrived);
            }
        }
        if self.told.iter().all(|(told, _)| *told != place) {
            // What is granted stays: with what arrived the window gets smaller.
            let flow = &mut flows[place as usize];
            flow.receiver.grant(edge.saturating_sub(flow.receiver.delivered()));
        }
        messages.retain(|message| message.granted < flows[message.place as usize].size);
    }
}

impl World {
    /// Sends `acknowledgement` of a flow of which data arrived, which was granted as far as `edge` before, and what
    /// flows are granted now.
    #[cold]
    pub(super) fn grant(
        &mut self,
        place: u32,
        edge: u64,
        acknowledgement: Option<Acknowledgement>,
    ) {
        let Some(receivers) = &mut self.granting else {
            return;
        };
        receivers.arrived(&mut self.flows, place, edge);
        let told = std::mem::take(&mut receivers.told);
        let own = told.iter().find(|(other, _)| *other == place).map(|(_, priority)| *priority);
        if let Some(mut acknowledgement) = acknowledgement {
            let flow = &self.flows[place as usize];
            acknowledgement.window = flow.receiver.window();
            if acknowledgement.block.0 == acknowledgement.block.1 {
                let priority = own.unwrap_or(flow.priority.into());
                acknowledgement.block = (priority, priority);
            }
            self.acknowledge(place, acknowledgement);
        }
        for (other, priority) in told.iter().filter(|(other, _)| *other != place) {
            let mut grant = self.flows[*other as usize].receiver.acknowledge((0, 0));
            grant.block = (*priority, *priority);
            self.acknowledge(*other, grant);
        }
        if let Some(receivers) = &mut self.granting {
            receivers.told = told;
        }
    }

    /// A grant says with which priority its flow goes on.
    pub(super) fn granted(&mut self, place: u32, block: (u32, u32)) {
        if self.granting.is_some() && block.0 == block.1 {
            self.flows[place as usize].priority = u8::try_from(block.0).unwrap_or(u8::MAX);
        }
    }
}
