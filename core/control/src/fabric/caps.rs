//! Caps of windows that a switch has an entry for, and what it has answered.
//!
//! A cap stands, as a meter does, when the switch answers the barrier after its entry and has not
//! refused that. Entries are added anew when leases are renewed, those that were refused too.

use alloc::collections::BTreeMap;

use openflow::ErrorCode;
use protocol::Connection;

use crate::fabric::entry::Does;
use crate::fabric::meters::Failure;

/// The caps of a switch, each of the window of a connection.
#[derive(Default)]
pub(crate) struct Caps {
    caps: BTreeMap<Connection, Cap>,
    /// What was sent since the last barrier.
    open: Entries,
}

/// Entries that one barrier confirms: the number of the message, and the connection.
pub(crate) type Entries = BTreeMap<u32, Connection>;

struct Cap {
    does: Does,
    /// The number of the last message with its entry: what earlier ones are answered doesn't count.
    sent: Option<u32>,
    answer: Option<Result<(), Failure>>,
}

impl Caps {
    pub(crate) fn len(&self) -> usize {
        self.caps.len()
    }

    /// What entries do, by connection.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Connection, Does)> + '_ {
        self.caps.iter().map(|(connection, cap)| (*connection, cap.does))
    }

    /// Caps that don't stand, and why.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (Connection, Failure)> + '_ {
        self.caps.iter().filter_map(|(connection, cap)| Some((*connection, cap.answer?.err()?)))
    }

    /// Whether the cap of a connection stands, or why not, once the switch has answered.
    pub(crate) fn answer(&self, connection: &Connection) -> Option<Result<(), Failure>> {
        self.caps.get(connection)?.answer
    }

    /// Notes the cap of a connection. Whether that is a change.
    pub(crate) fn set(&mut self, connection: Connection, does: Does) -> bool {
        if self.caps.get(&connection).is_some_and(|cap| cap.does == does) {
            return false;
        }
        self.caps.insert(connection, Cap { does, sent: None, answer: None });
        true
    }

    /// Lifts the cap of a connection. Whether there was one.
    pub(crate) fn remove(&mut self, connection: &Connection) -> bool {
        self.caps.remove(connection).is_some()
    }

    /// The entry of a connection was sent with this number, if it could be.
    pub(crate) fn sent(&mut self, connection: Connection, xid: Option<u32>) {
        if let Some(cap) = self.caps.get_mut(&connection) {
            cap.sent = xid;
            match xid {
                Some(xid) => _ = self.open.insert(xid, connection),
                None => cap.answer = Some(Err(Failure(None))),
            }
        }
    }

    /// Whether something was sent after the last barrier.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// A barrier is sent: what it confirms.
    pub(crate) fn take_open(&mut self) -> Entries {
        core::mem::take(&mut self.open)
    }

    /// The switch answers a barrier.
    pub(crate) fn confirm(&mut self, entries: &Entries) {
        self.note(entries, Ok(()));
    }

    /// The switch doesn't answer a barrier, or refuses it.
    pub(crate) fn fail(&mut self, entries: &Entries, code: Option<ErrorCode>) {
        self.note(entries, Err(Failure(code)));
    }

    /// The switch refuses a message. Whether that was one of these.
    pub(crate) fn refuse(&mut self, entries: &mut Entries, xid: u32, code: ErrorCode) -> bool {
        let refused = entries.remove_entry(&xid);
        self.note(&refused.into_iter().collect(), Err(Failure(Some(code))));
        refused.is_some()
    }

    fn note(&mut self, entries: &Entries, answer: Result<(), Failure>) {
        for (xid, connection) in entries {
            let cap = self.caps.get_mut(connection);
            if let Some(cap) = cap.filter(|cap| cap.sent == Some(*xid)) {
                cap.answer = Some(answer);
            }
        }
    }

    /// The channel is gone. Whether caps still stand is not known any more.
    pub(crate) fn lose(&mut self) {
        self.open.clear();
        for cap in self.caps.values_mut() {
            (cap.sent, cap.answer) = (None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use openflow::sdtcp::CapWindow;

    use super::*;

    /// Sends the entry of a cap of so many bytes with this number.
    fn send(caps: &mut Caps, xid: u32, window_bytes: u32) -> Entries {
        caps.set(connection(), Does::Cap(CapWindow { window_bytes, shift: 0 }));
        caps.sent(connection(), Some(xid));
        caps.take_open()
    }

    fn connection() -> Connection {
        Connection { source: ([10, 0, 0, 1], 1).into(), destination: ([10, 0, 0, 2], 2).into() }
    }

    #[test]
    fn the_last_entry_that_was_sent_counts_and_stands_while_it_is_renewed() {
        let mut caps = Caps::default();
        let (first, second) = (send(&mut caps, 1, 10), send(&mut caps, 2, 20));
        caps.confirm(&first);
        assert_eq!(caps.answer(&connection()), None, "that was the one before");
        caps.confirm(&second);
        assert_eq!(caps.answer(&connection()), Some(Ok(())));
        let mut renewed = send(&mut caps, 3, 20);
        assert_eq!(caps.answer(&connection()), Some(Ok(())), "until it is refused");
        assert!(!caps.refuse(&mut renewed, 2, ErrorCode::TABLE_FULL));
        assert!(caps.refuse(&mut renewed, 3, ErrorCode::TABLE_FULL));
        caps.confirm(&renewed);
        let full = Failure(Some(ErrorCode::TABLE_FULL));
        assert_eq!(caps.answer(&connection()), Some(Err(full)));
        // A connection that was let go and comes again has nothing of before.
        let late = send(&mut caps, 4, 20);
        assert!(caps.remove(&connection()) && !caps.remove(&connection()));
        let _current = send(&mut caps, 5, 20);
        caps.confirm(&late);
        assert_eq!(caps.answer(&connection()), None);
    }

    #[test]
    fn what_is_not_sent_or_not_answered_does_not_stand() {
        let mut caps = Caps::default();
        let unanswered = send(&mut caps, 1, 10);
        caps.fail(&unanswered, None);
        assert_eq!(caps.failures().collect::<Vec<_>>(), [(connection(), Failure(None))]);
        let answered = send(&mut caps, 2, 10);
        caps.confirm(&answered);
        caps.sent(connection(), None);
        assert_eq!(caps.answer(&connection()), Some(Err(Failure(None))));
        caps.lose();
        assert_eq!(caps.answer(&connection()), None, "the switch is away");
    }
}
