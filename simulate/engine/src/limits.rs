//! Which flows are limited, in little memory: limits change for thousands of flows at once.

use model::FlowId;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Limits that were set or lifted.
    changes: u32,
    is_limited: bool,
    has_ended: bool,
}

/// The state of each flow. Later flows have no limit.
#[derive(Debug, Default)]
pub(crate) struct Limits(Vec<State>);

impl Limits {
    fn state(&mut self, flow: FlowId) -> &mut State {
        if self.0.len() <= flow.index() {
            self.0.resize(flow.index() + 1, State::default());
        }
        &mut self.0[flow.index()]
    }

    /// Notes that the limit of a flow that exists is set or lifted. Whether it was limited before;
    /// `None` if it has ended.
    pub(crate) fn set(&mut self, flow: FlowId, is_limited: bool) -> Option<bool> {
        let state = self.state(flow);
        if state.has_ended {
            return None;
        }
        state.changes = state.changes.saturating_add(1);
        Some(std::mem::replace(&mut state.is_limited, is_limited))
    }

    /// Notes that a flow that exists has ended; how often its limit was set or lifted.
    pub(crate) fn end(&mut self, flow: FlowId) -> u32 {
        let state = self.state(flow);
        state.has_ended = true;
        state.changes
    }
}
