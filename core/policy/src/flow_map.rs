//! Something for each of many flows, whose numbers mostly follow each other.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use model::FlowId;

/// Flows of a page.
const PAGE: u32 = 64;

#[derive(Clone, Debug)]
struct Page<T> {
    entries: [Option<T>; PAGE as usize],
    count: u32,
}

/// A map from flows, in their order. Flows that are far from all others take a page each.
#[derive(Clone, Debug)]
pub(crate) struct FlowMap<T> {
    pages: BTreeMap<u32, Box<Page<T>>>,
}

impl<T> Default for FlowMap<T> {
    fn default() -> Self {
        Self { pages: BTreeMap::new() }
    }
}

/// Page of a flow, and its place there.
const fn place(flow: FlowId) -> (u32, usize) {
    (flow.0 / PAGE, (flow.0 % PAGE) as usize)
}

impl<T: Copy> FlowMap<T> {
    pub(crate) fn get(&self, flow: FlowId) -> Option<T> {
        let (page, place) = place(flow);
        self.pages.get(&page)?.entries[place]
    }

    pub(crate) fn insert(&mut self, flow: FlowId, value: T) {
        let (page, place) = place(flow);
        let empty = || Box::new(Page { entries: [None; PAGE as usize], count: 0 });
        let page = self.pages.entry(page).or_insert_with(empty);
        page.count += u32::from(page.entries[place].replace(value).is_none());
    }

    pub(crate) fn remove(&mut self, flow: FlowId) -> Option<T> {
        let (number, place) = place(flow);
        let page = self.pages.get_mut(&number)?;
        let value = page.entries[place].take()?;
        page.count -= 1;
        if page.count == 0 {
            self.pages.remove(&number);
        }
        Some(value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The flows in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = FlowId> {
        self.pages.iter().flat_map(|(number, page)| {
            let places = (0u32..).zip(&page.entries).filter(|(_, entry)| entry.is_some());
            places.map(move |(place, _)| FlowId(number * PAGE + place))
        })
    }
}
