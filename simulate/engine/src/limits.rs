//! Which flows are limited, in little memory: limits change for thousands of flows at once.

use model::FlowId;

use crate::Living;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Limits that were set or lifted.
    changes: u32,
    is_limited: bool,
    has_ended: bool,
}

/// The state of each flow that lives. Later flows have no limit.
#[derive(Debug, Default)]
pub(crate) struct Limits(Living<State>);

impl Limits {
    /// `None` of a flow that has ended.
    fn state(&mut self, flow: FlowId) -> Option<&mut State> {
        while self.0.count() <= flow.index() {
            self.0.push(State::default());
        }
        self.0.get_mut(flow.index()).filter(|state| !state.has_ended)
    }

    /// Notes that the limit of a flow that exists is set or lifted. Whether it was limited before;
    /// `None` if it has ended.
    pub(crate) fn set(&mut self, flow: FlowId, is_limited: bool) -> Option<bool> {
        let state = self.state(flow)?;
        state.changes = state.changes.saturating_add(1);
        Some(std::mem::replace(&mut state.is_limited, is_limited))
    }

    /// Notes that a flow that exists has ended; how often its limit was set or lifted.
    pub(crate) fn end(&mut self, flow: FlowId) -> u32 {
        let Some(state) = self.state(flow) else { return 0 };
        state.has_ended = true;
        let changes = state.changes;
        self.0.end(flow.index());
        changes
    }
}
