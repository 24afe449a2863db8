//! Connections that are seen join the flows that were declared without their ports, and leave them.

use alloc::vec::Vec;

use model::{FlowId, LinkId, NodeId};
use protocol::Connection;
use protocol::agent::ConnectionReport;
use units::{Bytes, Time};

use super::Controller;
use crate::message::ChannelId;

impl Controller {
    /// A connection is seen that had `delivered` so much before: it joins what it fits best, and nothing
    /// else.
    pub(super) fn join(&mut self, connection: Connection, delivered: Bytes) {
        let fits = self.registry.fitting(&connection);
        if fits.as_ref() == self.registry.joins.of(&connection) {
            return;
        }
        self.part(&connection);
        if let Some(declared) = fits
            && self.registry.joins.join(&self.context, connection, declared, delivered)
        {
            self.cap_joined(&declared, connection, true);
            self.touch_joined(&declared);
        }
    }

    /// A connection is no more, or of others: it leaves what it had joined.
    pub(super) fn part(&mut self, connection: &Connection) {
        if let Some(declared) = self.registry.joins.part(connection) {
            self.cap_joined(&declared, *connection, false);
            self.switches.uncap_everywhere(&self.context, connection);
            self.desired.touch(*connection);
            self.touch_joined(&declared);
        }
    }

    /// The connections that no report has spoken of lately leave.
    pub(super) fn part_silent(&mut self) {
        for connection in self.registry.joins.silent(&self.context) {
            self.part(&connection);
        }
    }

    /// What a connection that has joined has delivered since it was reported last; `None` where it has
    /// not.
    pub(super) fn note_joined(&mut self, report: &ConnectionReport) -> Option<Bytes> {
        let (grown, is_divided_anew) = self.registry.joins.note(&self.context, report)?;
        if is_divided_anew && let Some(declared) = self.registry.joins.of(&report.connection).copied()
        {
            self.touch_joined(&declared);
        }
        Some(grown)
    }

    /// What a connection had delivered before the interval that a report is about: nothing, where it
    /// began since the report before; all, where nobody knows.
    pub(super) fn delivered_before(
        &self,
        channel: ChannelId,
        sampled: Time,
        ends: Option<(NodeId, NodeId)>,
        report: &ConnectionReport,
    ) -> Bytes {
        let known = ends.and_then(|ends| self.desired.delivered(ends, &report.connection));
        let is_new = || self.agents.sampled_before(channel, sampled);
        known.unwrap_or_else(|| if is_new() { Bytes::ZERO } else { report.delivered_bytes })
    }

    /// Caps the windows of a connection that joins as those of its flows are, or no more.
    fn cap_joined(&mut self, declared: &Connection, connection: Connection, joins: bool) {
        let flows: Vec<FlowId> = self.registry.sharing(declared).to_vec();
        for flow in flows {
            let links: Vec<LinkId> = self.desired.links_capping(flow).collect();
            for link in links {
                let cap = self.desired.window(link, flow).map(|(cap, _)| cap).filter(|_| joins);
                self.agents.cap_window(&self.view, link, Some(connection), cap);
            }
            if joins {
                self.cap_scaled(flow);
            }
        }
    }

    /// The rate of what was declared is divided anew.
    fn touch_joined(&mut self, declared: &Connection) {
        for connection in self.registry.joins.with(declared) {
            self.desired.touch(*connection);
        }
    }
}
