//! Which flows share a connection.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;

use model::FlowId;

/// The flows of a connection, which nearly always is one.
pub(super) enum Sharing {
    One(FlowId),
    Many {
        /// In the order in which they began.
        flows: Vec<FlowId>,
        /// How many of them each application has declared, and nobody.
        of: BTreeMap<Option<Arc<str>>, usize>,
    },
}

impl Sharing {
    pub(super) fn flows(&self) -> &[FlowId] {
        match self {
            Self::One(flow) => core::slice::from_ref(flow),
            Self::Many { flows, .. } => flows,
        }
    }

    /// Takes in a flow of an application; `first`: whose the only one is that was there.
    pub(super) fn push(&mut self, flow: FlowId, own: Option<Arc<str>>, first: Option<Arc<str>>) {
        match self {
            Self::One(one) => {
                let mut of = BTreeMap::from([(first, 1)]);
                *of.entry(own).or_default() += 1;
                *self = Self::Many { flows: alloc::vec![*one, flow], of };
            }
            Self::Many { flows, of } => {
                flows.push(flow);
                *of.entry(own).or_default() += 1;
            }
        }
    }

    /// Takes a flow of an application out, which began then; whether none is left.
    pub(super) fn remove(
        &mut self,
        (flow, own): (FlowId, Option<Arc<str>>),
        begun: u64,
        began: impl Fn(FlowId) -> Option<u64>,
    ) -> bool {
        match self {
            Self::One(only) => *only == flow,
            Self::Many { flows, of } => {
                let place = |id: &FlowId| if *id == flow { begun } else { began(*id).unwrap_or(0) };
                if let Ok(at) = flows.binary_search_by_key(&begun, place) {
                    flows.remove(at);
                    if let Entry::Occupied(mut number) = of.entry(own) {
                        *number.get_mut() -= 1;
                        if *number.get() == 0 {
                            number.remove();
                        }
                    }
                }
                if let [only] = **flows {
                    *self = Self::One(only);
                }
                self.flows().is_empty()
            }
        }
    }
}
