//! Connections that are seen join the flows that were declared without their ports, and leave them.

use alloc::vec::Vec;

use model::{FlowId, LinkId};
use protocol::Connection;
use protocol::agent::ConnectionReport;
use units::{Bytes, Time};

use super::Controller;
use crate::applications::selector::Selector;

impl Controller {
    /// A connection is seen, which had delivered `before` if it is seen the first time: it joins what it
    /// fits best, and nothing else.
    pub(super) fn join(&mut self, connection: Connection, before: Bytes) {
        let fits = self.registry.fitting(&connection);
        if fits.as_ref() == self.registry.joins.of(&connection) {
            return;
        }
        let had_joined = self.part(&connection);
        let Some(declared) = fits else {
            return;
        };
        // What it delivered for others is not of these flows.
        let flow = self.registry.sharing(&declared).first().and_then(|id| self.registry.flow(*id));
        let since = flow.filter(|_| !had_joined).map_or(Time::NEVER, |flow| flow.since);
        let ends = self.view.ends(&connection);
        let known = ends.and_then(|e| self.desired.delivered_before(e, &connection, since));
        let before = known.unwrap_or(before);
        if self.registry.joins.join(&self.context, connection, declared, before) {
            self.cap_joined(&declared, connection, true);
            self.touch_joined(&declared);
        }
    }

    /// A connection is no more, or of others: it leaves what it had joined, if it had.
    pub(super) fn part(&mut self, connection: &Connection) -> bool {
        let Some(declared) = self.registry.joins.part(connection) else {
            return false;
        };
        self.cap_joined(&declared, *connection, false);
        self.switches.uncap_everywhere(&self.context, connection);
        self.desired.touch(*connection);
        self.touch_joined(&declared);
        true
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
        if is_divided_anew
            && let Some(declared) = self.registry.joins.of(&report.connection).copied()
        {
            self.touch_joined(&declared);
        }
        Some(grown)
    }

    /// Notes who has the source of a connection. What comes back over it may belong to other flows then.
    pub(super) fn note_holders(&mut self, report: &ConnectionReport) {
        let Connection { source, destination } = report.connection;
        let host = self.view.host_at(source.ip());
        let number = |process| self.registry.processes.number(host?, process);
        let processes = report.processes.iter().filter_map(number).collect();
        if self.registry.joins.hold(&self.context, report.connection, processes) {
            let back = Connection { source: destination, destination: source };
            let is_known = |ends| self.desired.is_reported(ends, &back);
            if self.view.ends(&back).is_some_and(is_known) {
                self.join(back, Bytes::ZERO);
            }
        }
    }

    /// Caps the windows of a connection that joins as those of its flows are, or no more.
    fn cap_joined(&mut self, declared: &Selector, connection: Connection, joins: bool) {
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
    fn touch_joined(&mut self, declared: &Selector) {
        for connection in self.registry.joins.with(declared) {
            self.desired.touch(*connection);
        }
    }
}
