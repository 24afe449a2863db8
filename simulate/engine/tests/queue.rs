//! The calendar against an ordered map: the same events in the same order, whatever is done to it and
//! however it is tuned.

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use units::{Span, Time};
use watermaster_engine::{EventQueue, FORESEEN, Slot};

const SLOTS: u32 = 40;
/// With so many slots the queue foresees events and has wide buckets.
const LARGE: usize = 5000;

#[derive(Clone, Debug)]
enum Step {
    /// Schedule, or move, a slot's event so far ahead of the clock.
    Schedule(u32, u64),
    Cancel(u32),
    /// Choose the width of buckets anew.
    Tune,
    /// Pop what is due within so much.
    Pop(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let ahead = prop_oneof![0u64..4, 0u64..5_000, 0u64..100_000, 0u64..50_000_000];
    prop_oneof![
        4 => (0..SLOTS, ahead.clone()).prop_map(|(slot, ahead)| Step::Schedule(slot, ahead)),
        1 => (0..SLOTS).prop_map(Step::Cancel),
        1 => Just(Step::Tune),
        4 => ahead.prop_map(Step::Pop),
    ]
}

proptest! {
    #[test]
    fn agrees_with_an_ordered_set(
        gap in 0u64..2_000, reach in 0u64..10_000_000, steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut queue = EventQueue::new(SLOTS as usize, Span::from_nanos(gap), Span::from_nanos(reach));
        // Ties too must not depend on how a queue is tuned.
        let mut large = EventQueue::new(LARGE, Span::from_nanos(gap), Span::from_nanos(reach));
        let mut oracle: BTreeSet<(Time, u32)> = BTreeSet::new();
        let mut now = Time::ZERO;
        for step in steps {
            match step {
                Step::Schedule(slot, ahead) => {
                    let time = now + Span::from_nanos(ahead);
                    oracle.retain(|(_, other)| *other != slot);
                    oracle.insert((time, slot));
                    queue.schedule(Slot(slot), time);
                    large.schedule(Slot(slot), time);
                    prop_assert_eq!(queue.due(Slot(slot)), Some(time));
                }
                Step::Cancel(slot) => {
                    oracle.retain(|(_, other)| *other != slot);
                    queue.cancel(Slot(slot));
                    large.cancel(Slot(slot));
                    prop_assert_eq!(queue.due(Slot(slot)), None);
                }
                Step::Tune => {
                    queue.tune();
                    large.tune();
                }
                Step::Pop(ahead) => {
                    let limit = now + Span::from_nanos(ahead);
                    let due = oracle.first().map(|(time, _)| *time).filter(|time| *time <= limit);
                    let popped = queue.pop(limit, |_, _| {});
                    prop_assert_eq!(large.pop(limit, foreseen), popped);
                    prop_assert_eq!(popped.map(|(time, _)| time), due);
                    if let Some((time, slot)) = popped {
                        prop_assert!(oracle.remove(&(time, slot.0)));
                        now = time;
                    } else {
                        now = limit;
                    }
                }
            }
        }
        while let Some((time, slot)) = queue.pop(Time::NEVER, |_, _| {}) {
            prop_assert_eq!(large.pop(Time::NEVER, foreseen), Some((time, slot)));
            prop_assert_eq!(oracle.first().map(|(time, _)| *time), Some(time));
            prop_assert!(oracle.remove(&(time, slot.0)));
        }
        prop_assert!(oracle.is_empty());
    }
}

/// What is told beforehand has an event, and in this order.
fn foreseen(queue: &EventQueue, slots: &[Slot]) {
    assert!(!slots.is_empty() && slots.len() <= FORESEEN);
    let due: Vec<Time> =
        slots.iter().map(|slot| queue.due(*slot).expect("its event pends")).collect();
    assert!(due.is_sorted(), "{slots:?}: {due:?}");
}

#[test]
fn every_event_of_a_large_queue_is_foreseen_once() {
    let mut queue = EventQueue::new(LARGE, Span::from_nanos(100), Span::from_micros(1));
    let told = RefCell::new(Vec::new());
    let mut popped = Vec::new();
    for slot in 0..1000u32 {
        queue.insert(Slot(slot), Time::from_nanos(10_000 + u64::from(slot * slot % 997)));
    }
    while let Some((_, slot)) =
        queue.pop(Time::NEVER, |_, slots| told.borrow_mut().extend_from_slice(slots))
    {
        popped.push(slot);
        assert!(told.borrow().len() >= popped.len(), "{slot:?} came unforeseen");
    }
    assert_eq!(told.into_inner(), popped);
}

#[test]
fn no_slot_is_favoured_among_simultaneous_events() {
    const INSTANTS: u64 = 4000;
    let pairs = [(0, 1), (3, 4), (0, 15), (8, 999)];
    for (a, b) in pairs {
        let mut queue = EventQueue::new(1000, Span::from_nanos(100), Span::from_micros(1));
        let mut first = 0;
        for instant in 0..INSTANTS {
            for slot in [a, b] {
                queue.insert(Slot(slot), Time::from_nanos(instant * 12_000));
            }
            let (_, winner) = queue.pop(Time::NEVER, |_, _| {}).unwrap();
            queue.pop(Time::NEVER, |_, _| {}).unwrap();
            first += u64::from(winner.0 == a);
        }
        let share = first as f64 / INSTANTS as f64;
        assert!((0.45..0.55).contains(&share), "slot {a} came before {b} in {share} of all ties");
    }
}
