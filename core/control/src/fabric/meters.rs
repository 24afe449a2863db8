//! Meters: what holds a connection to a rate at a switch.
//!
//! OpenFlow's meters have no timeout. So the entry that leads to a meter has one, of the length of the
//! lease, and is added anew each third of it; when the controller is no more, the entry ends and the
//! packets go the same way without a meter. Meters that a controller left are removed by the next one
//! after their entries must have ended.
//!
//! A change stands when the switch answers the barrier after it and has refused no part of it: an
//! error bears the number of the message that it is about, and comes before that answer (OpenFlow
//! 1.3.5, 6.2). What is refused is sent anew, meter and entry, when leases are renewed.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use openflow::{
    Band, BandKind, ErrorCode, List, Message, MeterCommand, MeterFlags, MeterId, MeterMod,
};
use protocol::Connection;
use units::{Bytes, Rate, Span};

/// A meter lets through at once what its rate gives in this time. Ours: the less it lets through at
/// once, the more of the rate TCP loses. What it still loses: `docs/lab-results.md`.
const BURST: Span = Span::from_millis(100);
/// And at least ten full frames.
const LEAST_BURST: Bytes = Bytes::new(15_000);

/// The meters of a switch.
#[derive(Default)]
pub(crate) struct Meters {
    meters: BTreeMap<Connection, Meter>,
    /// Numbers that were used before, and how many were ever given.
    free: BTreeSet<u32>,
    given: u32,
    /// What was sent since the last barrier.
    open: Batch,
}

struct Meter {
    /// `None` while no number is free.
    number: Option<u32>,
    rate: Rate,
    /// The rate that the switch has confirmed.
    enforced: Option<Rate>,
    failure: Option<Failure>,
}

/// Why a connection isn't metered, or its window not capped: what the switch answered, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) Option<ErrorCode>);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(code) => code.fmt(f),
            None => f.write_str("it did not answer in time"),
        }
    }
}

/// Changes that one barrier confirms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// By the number of the message: the connection, and the error that is expected.
    changes: BTreeMap<u32, (Connection, Option<ErrorCode>)>,
    /// What stands once all is done, unless it is refused; whether the meter was sent with its entry.
    results: BTreeMap<Connection, (Rate, bool)>,
}

impl Batch {
    /// The connection was let go.
    pub(crate) fn forget(&mut self, connection: &Connection) {
        self.results.remove(connection);
    }
}

impl Meters {
    pub(crate) fn len(&self) -> usize {
        self.meters.len()
    }

    pub(crate) fn contains(&self, connection: &Connection) -> bool {
        self.meters.contains_key(connection)
    }

    /// The connections, and why they aren't metered, where that has failed.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (Connection, Option<Failure>)> + '_ {
        self.meters.iter().map(|(connection, meter)| (*connection, meter.failure))
    }

    /// The number and the rate of a connection's meter, which is given a number where it has none and one is free.
    pub(crate) fn number(&mut self, epoch: u64, connection: &Connection) -> Option<(u32, Rate)> {
        let Self { meters, free, given, .. } = self;
        let meter = meters.get_mut(connection)?;
        if meter.number.is_none() {
            meter.number = free.pop_first().or_else(|| {
                let numbers = numbers(epoch);
                let next = Some(numbers.start + *given).filter(|next| numbers.contains(next))?;
                *given += 1;
                Some(next)
            });
        }
        if meter.number.is_none() {
            meter.fail(Some(ErrorCode::OUT_OF_METERS));
        }
        Some((meter.number?, meter.rate))
    }

    /// The rate that a connection is held to, as the switch has confirmed.
    pub(crate) fn enforced(&self, connection: &Connection) -> Option<Rate> {
        self.meters.get(connection)?.enforced
    }

    /// Why a connection isn't metered.
    pub(crate) fn failure(&self, connection: &Connection) -> Option<Failure> {
        self.meters.get(connection)?.failure
    }

    /// Notes the rate of a connection. Whether that is a change.
    pub(crate) fn set(&mut self, connection: Connection, rate: Rate) -> bool {
        if let Some(meter) = self.meters.get_mut(&connection) {
            return core::mem::replace(&mut meter.rate, rate) != rate;
        }
        self.meters.insert(connection, Meter { number: None, rate, enforced: None, failure: None });
        true
    }

    /// Lets a connection go; the number of its meter, if it had one.
    pub(crate) fn remove(&mut self, connection: &Connection) -> Option<u32> {
        let meter = self.meters.remove(connection)?;
        self.open.forget(connection);
        self.free.extend(meter.number);
        meter.number
    }

    /// What was sent for a connection: the number of each message, if it could be sent, and the error
    /// that is expected. `is_whole`: the meter and its entry, not the entry alone.
    pub(crate) fn sent(
        &mut self,
        connection: Connection,
        is_whole: bool,
        messages: &[(Option<u32>, Option<ErrorCode>)],
    ) {
        let Some(meter) = self.meters.get_mut(&connection) else {
            return;
        };
        if messages.iter().any(|(xid, _)| xid.is_none()) {
            meter.fail(None);
            self.open.forget(&connection);
            return;
        }
        for (xid, expected) in messages {
            self.open.changes.extend(xid.map(|xid| (xid, (connection, *expected))));
        }
        let result = self.open.results.entry(connection).or_insert((meter.rate, is_whole));
        *result = (meter.rate, result.1 || is_whole);
    }

    /// Whether something was sent after the last barrier.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.changes.is_empty()
    }

    /// A barrier is sent: what it confirms.
    pub(crate) fn take_open(&mut self) -> Batch {
        core::mem::take(&mut self.open)
    }

    /// The switch answers a barrier. What has failed stands only after all of it was sent anew.
    pub(crate) fn confirm(&mut self, batch: Batch) {
        for (connection, (rate, is_whole)) in batch.results {
            if let Some(meter) = self.meters.get_mut(&connection)
                && (is_whole || meter.failure.is_none())
            {
                (meter.enforced, meter.failure) = (Some(rate), None);
            }
        }
    }

    /// The switch refuses a message. `None` when the batch has none of this number; else whether
    /// that was expected.
    pub(crate) fn refuse(&mut self, batch: &mut Batch, xid: u32, code: ErrorCode) -> Option<bool> {
        let (connection, expected) = *batch.changes.get(&xid)?;
        if expected == Some(code) {
            return Some(true);
        }
        // The first error tells the cause: without its meter the entry is refused too.
        if batch.results.remove(&connection).is_some()
            && let Some(meter) = self.meters.get_mut(&connection)
        {
            meter.fail(Some(code));
        }
        Some(false)
    }

    /// The switch doesn't answer a barrier, or refuses it.
    pub(crate) fn fail(&mut self, batch: &Batch, code: Option<ErrorCode>) {
        for connection in batch.results.keys() {
            if let Some(meter) = self.meters.get_mut(connection) {
                meter.fail(code);
            }
        }
    }

    /// The channel is gone. Whether meters still stand is not known any more.
    pub(crate) fn lose(&mut self) {
        self.open = Batch::default();
        for meter in self.meters.values_mut() {
            (meter.enforced, meter.failure) = (None, None);
        }
    }
}

impl Meter {
    fn fail(&mut self, code: Option<ErrorCode>) {
        (self.enforced, self.failure) = (None, Some(Failure(code)));
    }
}

/// Sees to it that a switch has a meter of this rate, whether it has that meter already or not: one of
/// two commands is refused. What `send` returned for each, and the error that is expected.
pub(crate) fn modify_or_add<T>(
    meter: u32,
    rate: Rate,
    mut send: impl FnMut(&Message<'_>) -> T,
) -> [(T, ErrorCode); 2] {
    let burst = rate.bytes_in(BURST).max(LEAST_BURST);
    // In one second, as many bits move as the rate says.
    let burst = kilo(Rate::of(burst, Span::from_secs(1)).as_bps());
    let bands = [Band { rate: kilo(rate.as_bps()), burst, kind: BandKind::Drop }];
    let flags = MeterFlags(MeterFlags::KBPS.0 | MeterFlags::BURST.0);
    [(MeterCommand::MODIFY, ErrorCode::UNKNOWN_METER), (MeterCommand::ADD, ErrorCode::METER_EXISTS)]
        .map(|(command, expected)| {
            let (meter, bands) = (MeterId(meter), List::of(&bands));
            (send(&Message::MeterMod(MeterMod { command, flags, meter, bands })), expected)
        })
}

/// The message that removes a meter.
pub(crate) const fn removal(meter: u32) -> Message<'static> {
    let (command, flags, bands) = (MeterCommand::DELETE, MeterFlags(0), List::EMPTY);
    Message::MeterMod(MeterMod { command, flags, meter: MeterId(meter), bands })
}

/// Bits of a rate or a burst in the wire's units of 1000, rounded up, never zero.
fn kilo(bits: u64) -> u32 {
    u32::try_from(bits.div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}

/// The numbers of meters of a controller: those of the one before are in the other half, so that its
/// entries, which end by themselves, never meet a meter of ours.
pub(crate) const fn numbers(epoch: u64) -> core::ops::Range<u32> {
    const HALF: u32 = 0x8000;
    if epoch.is_multiple_of(2) { 1..HALF } else { HALF..2 * HALF }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::fixture::connection;

    const RATES: [Rate; 2] = [Rate::from_mbps(10), Rate::from_mbps(20)];

    #[test]
    fn a_meter_lets_through_100_ms_at_once_and_at_least_ten_frames() {
        for (bps, rate, burst) in [(100_000, 100, 120), (10_000_001, 10_001, 1_000)] {
            modify_or_add(1, Rate::from_bps(bps), |message| {
                let Message::MeterMod(change) = message else { panic!("{message:?}") };
                let bands: Vec<_> =
                    change.bands.iter().map(|band| (band.rate, band.burst)).collect();
                assert_eq!(bands, [(rate, burst)], "{bps}");
            });
        }
    }

    #[test]
    fn a_new_barrier_confirms_nothing_of_a_connection_that_was_lost() {
        let mut meters = Meters::default();
        meters.set(connection(1), RATES[0]);
        meters.sent(connection(1), true, &[(Some(1), None)]);
        meters.lose();
        let open = meters.take_open();
        meters.confirm(open);
        assert_eq!(shown(&meters), (None, None));
    }

    /// Gives a connection a rate in messages of which the first has this number; the batch.
    fn give(meters: &mut Meters, first: u32, rate: Rate) -> Batch {
        assert!(meters.set(connection(1), rate));
        meters.number(1, &connection(1)).expect("a number is free");
        let expected = [Some(ErrorCode::UNKNOWN_METER), Some(ErrorCode::METER_EXISTS), None];
        let messages: Vec<_> = (first..).map(Some).zip(expected).collect();
        meters.sent(connection(1), true, &messages);
        meters.take_open()
    }

    fn renew(meters: &mut Meters, xid: Option<u32>) -> Batch {
        meters.sent(connection(1), false, &[(xid, None)]);
        meters.take_open()
    }

    fn shown(meters: &Meters) -> (Option<Rate>, Option<Failure>) {
        (meters.enforced(&connection(1)), meters.failure(&connection(1)))
    }

    #[test]
    fn a_change_stands_when_it_is_confirmed_and_the_rate_before_until_then() {
        let mut meters = Meters::default();
        let mut first = give(&mut meters, 1, RATES[0]);
        assert_eq!(meters.refuse(&mut first, 1, ErrorCode::UNKNOWN_METER), Some(true));
        assert_eq!(shown(&meters), (None, None));
        meters.confirm(first);
        let second = give(&mut meters, 4, RATES[1]);
        assert_eq!(shown(&meters), (Some(RATES[0]), None));
        meters.confirm(second);
        assert_eq!(shown(&meters), (Some(RATES[1]), None));
        assert!(!meters.set(connection(1), RATES[1]));
    }

    #[test]
    fn who_finds_no_number_is_told_and_has_one_once_another_goes() {
        let (mut meters, all) = (Meters::default(), numbers(0).count());
        let ports = (1_u16..).take(all + 1);
        let has = |meters: &mut Meters, port| {
            meters.set(connection(port), RATES[0]);
            meters.number(0, &connection(port)).is_some()
        };
        let found = ports.filter(|port| has(&mut meters, *port)).count();
        assert_eq!(found, all);
        let last = connection(u16::try_from(all + 1).expect("a port"));
        let full = Some(Failure(Some(ErrorCode::OUT_OF_METERS)));
        assert_eq!((meters.failure(&last), meters.remove(&last)), (full, None));
        meters.set(last, RATES[0]);
        let freed = meters.remove(&connection(7));
        assert_eq!(meters.number(0, &last).map(|(number, _)| number), freed);
        assert!(!has(&mut meters, 7));
    }

    #[test]
    fn the_first_error_that_is_not_expected_fails_a_change_until_the_whole_is_sent_anew() {
        let mut meters = Meters::default();
        let mut batch = give(&mut meters, 1, RATES[0]);
        assert_eq!(meters.refuse(&mut batch, 9, ErrorCode::OUT_OF_METERS), None);
        for (xid, code) in [(2, ErrorCode::OUT_OF_METERS), (3, ErrorCode::UNKNOWN_METER)] {
            assert_eq!(meters.refuse(&mut batch, xid, code), Some(false));
        }
        let full = Some(Failure(Some(ErrorCode::OUT_OF_METERS)));
        meters.confirm(batch);
        assert_eq!(shown(&meters), (None, full));
        // An entry that leads to another meter than ours may well be taken.
        let batch = renew(&mut meters, Some(4));
        meters.confirm(batch);
        assert_eq!(shown(&meters), (None, full));
        let batch = give(&mut meters, 5, RATES[1]);
        meters.confirm(batch);
        assert_eq!(shown(&meters), (Some(RATES[1]), None));
    }

    #[test]
    fn what_is_not_sent_or_not_answered_is_not_enforced() {
        for is_sent in [true, false] {
            let mut meters = Meters::default();
            let batch = give(&mut meters, 1, RATES[0]);
            meters.confirm(batch);
            let batch = renew(&mut meters, is_sent.then_some(4));
            if is_sent {
                meters.fail(&batch, None);
            }
            assert_eq!(shown(&meters), (None, Some(Failure(None))));
            meters.lose();
            assert_eq!(shown(&meters), (None, None), "the switch is away");
        }
    }

    #[test]
    fn what_comes_late_of_a_connection_that_was_let_go_changes_nothing() {
        let mut meters = Meters::default();
        let mut late = give(&mut meters, 1, RATES[0]);
        let number = meters.remove(&connection(1));
        late.forget(&connection(1));
        let _current = give(&mut meters, 4, RATES[1]);
        let again = meters.number(1, &connection(1)).map(|(number, _)| number);
        assert_eq!(again, number, "used again");
        assert_eq!(meters.refuse(&mut late, 2, ErrorCode::OUT_OF_METERS), Some(false));
        meters.confirm(late);
        assert_eq!(shown(&meters), (None, None));
    }
}
