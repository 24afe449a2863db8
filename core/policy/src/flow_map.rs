//! Something for each of many flows, whose numbers mostly follow each other; and sets of flows.

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
        Self::NONE
    }
}

/// Page of a flow, and its place there.
const fn place(flow: FlowId) -> (u32, usize) {
    (flow.0 / PAGE, (flow.0 % PAGE) as usize)
}

impl<T> FlowMap<T> {
    /// No flows.
    pub(crate) const NONE: Self = Self { pages: BTreeMap::new() };

    pub(crate) fn get(&self, flow: FlowId) -> Option<&T> {
        let (page, place) = place(flow);
        self.pages.get(&page)?.entries[place].as_ref()
    }

    pub(crate) fn get_mut(&mut self, flow: FlowId) -> Option<&mut T> {
        let (page, place) = place(flow);
        self.pages.get_mut(&page)?.entries[place].as_mut()
    }

    pub(crate) fn insert(&mut self, flow: FlowId, value: T) {
        let (page, place) = place(flow);
        let empty = || Box::new(Page { entries: [const { None }; PAGE as usize], count: 0 });
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

    /// All in order, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (FlowId, &mut T)> {
        self.pages.iter_mut().flat_map(|(number, page)| {
            let places = (0..PAGE).zip(&mut page.entries);
            places.filter_map(move |(place, entry)| {
                Some((FlowId(number * PAGE + place), entry.as_mut()?))
            })
        })
    }

    /// All in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FlowId, &T)> {
        self.pages.iter().flat_map(|(number, page)| {
            let places = (0..PAGE).zip(&page.entries);
            places.filter_map(move |(place, entry)| {
                Some((FlowId(number * PAGE + place), entry.as_ref()?))
            })
        })
    }
}

/// Flows, in their order, wherever their numbers are: a bit each.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowSet {
    pages: BTreeMap<u32, u64>,
}

impl FlowSet {
    pub(crate) fn insert(&mut self, flow: FlowId) {
        let (page, place) = place(flow);
        *self.pages.entry(page).or_default() |= 1 << place;
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, flow: FlowId) -> bool {
        let (number, place) = place(flow);
        let Some(page) = self.pages.get_mut(&number) else {
            return false;
        };
        let was_there = *page & 1 << place != 0;
        *page &= !(1 << place);
        if *page == 0 {
            self.pages.remove(&number);
        }
        was_there
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The flows in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FlowId> {
        self.pages.iter().flat_map(|(&number, &page)| {
            let mut rest = page;
            core::iter::from_fn(move || {
                let place = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(FlowId(number * PAGE + place))
            })
        })
    }
}
