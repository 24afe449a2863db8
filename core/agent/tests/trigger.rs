//! The trigger by hand, and on a virtual queue against a naive watch of every nanosecond that matters.
#![allow(clippy::unwrap_used)] // a test may panic

use agent::{Trigger, VirtualQueue};
use model::Severity::{High, Low, Medium, Recovered};
use model::{Buffer, Thresholds};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

#[test]
fn it_rises_in_steps_and_recovers_a_second_after_the_queue_drained() {
    let thresholds = Thresholds { low: 30, medium: 60, high: 85, recovery: Span::from_secs(1) };
    let mut trigger = Trigger::new(thresholds);
    // Until when the queue has L or more, packets, message.
    let story = [
        (0, 29, None),
        (5, 30, Some(Low)),
        (9, 59, None),
        (12, 60, Some(Medium)),
        (0, 20, None),
        (13, 60, None), // no second message for the same rise
        (14, 84, None),
        (15, 85, Some(High)),
        (40, 100, None),
        (0, 29, None),
    ];
    for (above, packets, message) in story {
        assert_eq!(trigger.observe(packets, || ms(above)), message);
    }
    assert_eq!(trigger.deadline(), Some(ms(1040)), "counted from when it drained");
    assert!(!trigger.recover(ms(1039)));
    assert_eq!(trigger.observe(30, || ms(1041)), None, "the second starts again");
    assert!(!trigger.recover(ms(1040)));
    assert!(trigger.recover(ms(2041)));
    assert!(!trigger.recover(ms(9000)), "once");
    // What is seen for the first time so far up is one rise.
    assert_eq!(trigger.observe(90, || ms(3000)), Some(High));
}

/// A queue takes what just fits, by bytes and by packets, and no more than [`Thresholds::MOST_LIVE`] entries.
#[test]
fn a_queue_takes_what_just_fits() {
    let queue = |buffer| VirtualQueue::new(Rate::from_mbps(800), buffer);
    let mut bytes = queue(Buffer::Bytes(Bytes::new(3_000)));
    let taken = [1_500, 1_501, 1_500, 1].map(|octets| bytes.offer(Time::ZERO, octets, 1));
    assert_eq!(taken, [true, false, true, false]);
    assert_eq!(bytes.bytes(Time::ZERO), Bytes::new(3_000));
    let mut packets = queue(Buffer::Packets(2));
    assert_eq!([(); 3].map(|()| packets.offer(Time::ZERO, 100, 1)), [true, true, false]);
    let mut endless = queue(Buffer::Unlimited);
    let taken =
        (0..2 * Thresholds::MOST_LIVE).filter(|_| endless.offer(Time::ZERO, 100, 1)).count();
    assert_eq!(taken, Thresholds::MOST_LIVE as usize);
}

proptest! {
    /// Packets at any time: each message says where the queue is, severities rise between recoveries,
    /// and a recovery comes exactly one recovery time after the queue was last at L.
    #[test]
    fn it_says_what_a_queue_does(
        packets in prop::collection::vec((0..3_000_u64, 40..1_500_u32, 1..4_u32), 1..200),
        room in 8..40_u32,
    ) {
        let thresholds = Thresholds { low: 3, medium: 5, high: 8, recovery: Span::from_micros(2_000) };
        // 10 ns an octet.
        let mut queue = VirtualQueue::new(Rate::from_mbps(800), Buffer::Packets(room));
        let mut trigger = Trigger::new(thresholds);
        // Naively: when each packet leaves, and since when the queue has been below L.
        let mut leaves: Vec<u64> = Vec::new();
        let (mut now, mut state, mut last) = (0_u64, Recovered, None);
        for (wait, octets, count) in packets {
            let next = now + wait * 1_000;
            // The queue drained below L at the departure that left L - 1.
            let at_l = leaves.len().checked_sub(3).map(|last| leaves[last]);
            last = at_l.filter(|at| *at > now).or(last);
            let due = last.map(|at| at + thresholds.recovery.as_nanos());
            if let Some(due) = due.filter(|due| state != Recovered && *due <= next) {
                prop_assert_eq!(trigger.deadline(), Some(Time::from_nanos(due)));
                prop_assert!(trigger.recover(Time::from_nanos(due)));
                state = Recovered;
            }
            now = next;
            leaves.retain(|at| *at > now);
            let fits = leaves.len() < room as usize;
            if fits {
                let free = leaves.last().copied().unwrap_or(now).max(now);
                leaves.extend((0..count).map(|_| free + u64::from(octets) * 10));
            }
            let at = Time::from_nanos(now);
            prop_assert_eq!(queue.offer(at, octets, count), fits);
            let length = queue.length(at);
            prop_assert_eq!(length as usize, leaves.len());
            let severity = thresholds.severity(length);
            let said = trigger.observe(length, || queue.below(thresholds.low));
            prop_assert_eq!(said, (severity > state).then_some(severity));
            state = state.max(severity);
            prop_assert_eq!(trigger.deadline().is_some(), state > Recovered);
        }
    }
}
