//! The fabric: the switches and their OpenFlow channels, what they forward by, what they do to single
//! connections, and what they reveal about links and hosts.

pub(crate) mod caps;
pub(crate) mod discovery;
pub(crate) mod entry;
pub(crate) mod frame;
pub(crate) mod meters;
pub(crate) mod rollout;
pub(crate) mod switches;

use alloc::collections::BTreeSet;

use model::{FlowId, NodeId};
use openflow::Features;
use protocol::Connection;
use units::Time;

use crate::context::Context;
use crate::fabric::discovery::Discovery;
use crate::fabric::meters::Failure;
use crate::fabric::rollout::Rollout;
use crate::fabric::switches::Switches;
use crate::message::ChannelId;
use crate::view::View;

/// The switches, and what they forward by.
pub(crate) struct Fabric {
    pub(crate) switches: Switches,
    pub(crate) rollout: Rollout,
}

impl Fabric {
    /// `capping` are the switches whose experimenter action caps windows.
    pub(crate) fn new(cx: &Context, capping: BTreeSet<NodeId>) -> Self {
        Self { switches: Switches::new(cx, capping), rollout: Rollout::default() }
    }

    /// Takes in what switches reveal, and says it to the view.
    pub(crate) fn discovery<'a>(
        &'a mut self,
        cx: &'a Context,
        view: &'a mut View,
    ) -> Discovery<'a> {
        let Self { switches, rollout } = self;
        Discovery { cx, view, switches, rollout }
    }

    /// The network has changed: so may paths have.
    pub(crate) fn reroute(&mut self) {
        self.switches.counters.reroutes += 1;
        self.rollout.paths_changed();
    }

    /// A session is up, as [`Switches::up`]. What the switch was to confirm over the channel before, it confirms no
    /// more.
    pub(crate) fn up(
        &mut self,
        cx: &Context,
        channel: ChannelId,
        node: NodeId,
        features: &Features,
    ) -> Option<ChannelId> {
        let old = self.switches.up(cx, channel, node, features)?;
        self.rollout.confirmed(node);
        Some(old)
    }

    /// A channel is gone.
    pub(crate) fn remove(&mut self, now: Time, channel: ChannelId) {
        if let Some(node) = self.switches.remove(now, channel) {
            self.rollout.confirmed(node);
        }
    }

    /// A switch answers the barrier of a step of the rollout, or doesn't.
    pub(crate) fn stepped(&mut self, node: NodeId, answer: Result<(), Failure>) {
        self.rollout.confirmed(node);
        self.switches.stepped(node, answer);
    }

    /// As [`Rollout::plan`].
    pub(crate) fn plan(&mut self, view: &View, watching: bool) {
        self.rollout.plan(&self.switches, view, watching);
    }

    /// As [`Rollout::step`].
    pub(crate) fn step(&mut self, cx: &Context) -> bool {
        self.rollout.step(cx, &mut self.switches)
    }

    /// As [`Rollout::pin`].
    pub(crate) fn pin(
        &mut self,
        cx: &Context,
        view: &View,
        flow: (FlowId, Connection),
        ends: (NodeId, NodeId),
    ) {
        self.rollout.pin(cx, &mut self.switches, view, flow, ends);
    }

    /// As [`Rollout::unpin`].
    pub(crate) fn unpin(&mut self, cx: &Context, flow: FlowId, connection: &Connection) {
        self.rollout.unpin(cx, &mut self.switches, flow, connection);
    }

    /// As [`Rollout::unpin_all`].
    pub(crate) fn unpin_all(
        &mut self,
        cx: &Context,
        connection: impl Fn(FlowId) -> Option<Connection>,
    ) {
        self.rollout.unpin_all(cx, &mut self.switches, connection);
    }
}
