//! The calendar against an ordered map: the same events in the same order, whatever is done to it.

use std::collections::BTreeSet;

use proptest::prelude::*;
use units::{Span, Time};
use watermaster_engine::{EventQueue, Slot};

const SLOTS: u32 = 40;

#[derive(Clone, Debug)]
enum Step {
    /// Schedule, or move, a slot's event so far ahead of the clock.
    Schedule(u32, u64),
    Cancel(u32),
    /// Pop what is due within so much.
    Pop(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let ahead = prop_oneof![0u64..4, 0u64..5_000, 0u64..100_000, 0u64..50_000_000];
    prop_oneof![
        4 => (0..SLOTS, ahead.clone()).prop_map(|(slot, ahead)| Step::Schedule(slot, ahead)),
        1 => (0..SLOTS).prop_map(Step::Cancel),
        4 => ahead.prop_map(Step::Pop),
    ]
}

proptest! {
    #[test]
    fn agrees_with_an_ordered_set(
        gap in 0u64..2_000, reach in 0u64..10_000_000, steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut queue = EventQueue::new(SLOTS as usize, Span::from_nanos(gap), Span::from_nanos(reach));
        let mut oracle: BTreeSet<(Time, u32)> = BTreeSet::new();
        let mut now = Time::ZERO;
        for step in steps {
            match step {
                Step::Schedule(slot, ahead) => {
                    let time = now + Span::from_nanos(ahead);
                    oracle.retain(|(_, other)| *other != slot);
                    oracle.insert((time, slot));
                    queue.schedule(Slot(slot), time);
                    prop_assert_eq!(queue.due(Slot(slot)), Some(time));
                }
                Step::Cancel(slot) => {
                    oracle.retain(|(_, other)| *other != slot);
                    queue.cancel(Slot(slot));
                    prop_assert_eq!(queue.due(Slot(slot)), None);
                }
                Step::Pop(ahead) => {
                    let limit = now + Span::from_nanos(ahead);
                    let due = oracle.first().copied().filter(|(time, _)| *time <= limit);
                    let popped = queue.pop(limit).map(|(time, slot)| (time, slot.0));
                    prop_assert_eq!(popped, due);
                    if let Some(event) = due {
                        oracle.remove(&event);
                        now = event.0;
                    } else {
                        now = limit;
                    }
                }
            }
        }
        while let Some(event) = oracle.pop_first() {
            prop_assert_eq!(queue.pop(Time::NEVER), Some((event.0, Slot(event.1))));
        }
        prop_assert_eq!(queue.pop(Time::NEVER), None);
    }
}

#[test]
fn simultaneous_events_come_in_the_order_of_their_slots() {
    let mut queue = EventQueue::new(1000, Span::from_nanos(100), Span::from_micros(1));
    for slot in [5, 999, 0, 17] {
        queue.insert(Slot(slot), Time::from_nanos(777));
    }
    let order: Vec<u32> = std::iter::from_fn(|| queue.pop(Time::NEVER))
        .map(|(_, slot)| slot.0)
        .collect();
    assert_eq!(order, [0, 5, 17, 999]);
}
