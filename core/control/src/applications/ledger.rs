//! What applications have sent without having declared it. It is counted by connection, whatever flows and jobs are
//! called, and stands against the application: for [`WHILE`] after the last time all that it declares counts as twice
//! as much, at least. So does what it declared and nobody saw: after a number of such flows its flows count from when
//! they are seen. And so, for flows that share a connection, does what went over such connections beside what those of
//! them could send that were held back.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use core::net::IpAddr;

use protocol::Connection;
use units::{Bytes, Rate, Span, Time};

use crate::applications::taken::Taken;
use crate::context::Context;

/// How long it stands against an application that it has sent what it had not declared.
pub(crate) const WHILE: Span = Span::from_secs(60);
/// What a connection may carry beyond that between two samples: words of the application's own protocol.
const SLACK: Bytes = Bytes::new(65_536);
/// Apart from that, 1 in so many.
const SLACK_PART: u64 = 16;
/// A limit stands after so small a part of a sample.
const SETTLING: u64 = 64;
/// What flows that nobody saw weigh, in samples, at which an application is doubted.
const UNSEEN: u64 = 8;

/// What a connection has carried, beside what was declared for it.
struct Account {
    /// As it was reported last.
    delivered: Option<Bytes>,
    /// When that was, or since when something is declared of it.
    at: Time,
    /// What flows that have ended since may have carried, and how long they were there.
    ended: Bytes,
    open: Span,
    /// The same, and no more than they were let.
    ended_held: Bytes,
    /// What they were let send, whatever was declared.
    ended_let: Bytes,
    /// It has carried several flows at once since the last report.
    shared: bool,
    /// What flows of it weigh that ended unseen.
    unseen: Span,
    /// Whose flows it carried last, and who declared something of it first, whose room it takes.
    of: Arc<str>,
    by: Arc<str>,
    /// When it was spoken of last, as [`Context::awake`].
    touched: Time,
}

impl Account {
    /// Of a connection that an application has declared something of `since` then.
    fn new(cx: &Context, since: Time, of: &Arc<str>) -> Self {
        Self {
            delivered: None,
            at: since,
            ended: Bytes::ZERO,
            open: Span::ZERO,
            ended_held: Bytes::ZERO,
            ended_let: Bytes::ZERO,
            shared: false,
            unseen: Span::ZERO,
            of: Arc::clone(of),
            by: Arc::clone(of),
            touched: cx.awake,
        }
    }

    /// What of so much went beside its flows that were held back while others of them were not: these have no limit, so
    /// that the connection has none, and whose bytes went nobody can tell. Nothing, where it is so much that no limit
    /// stood.
    fn along(&self, slack: Bytes, grown: Bytes, shares: &[Share]) -> Bytes {
        let let_go: Bytes = shares.iter().map(|share| share.most).sum();
        if !(self.shared || shares.len() > 1) || grown > let_go + self.ended_let + slack {
            return Bytes::ZERO;
        }
        let covers = |share: &Share| {
            let most = with_slack(share.most);
            share.left.map_or(most, |left| with_slack(left).min(most))
        };
        grown - self.ended_held - shares.iter().map(covers).sum()
    }

    /// It carries flows of an application now.
    fn carries(&mut self, of: &Arc<str>) {
        if *self.of != **of {
            (self.of, self.unseen) = (Arc::clone(of), Span::ZERO);
        }
    }
}

/// What is declared of a connection.
pub(crate) struct Share {
    /// Since when.
    pub(crate) since: Time,
    /// What is left of it; `None` of a stream.
    pub(crate) left: Option<Bytes>,
    /// The most that its limits let it send since the last report.
    pub(crate) most: Bytes,
}

/// Whether what was added to last then, as [`Context::awake`], stands still.
fn stands(cx: &Context, at: Time) -> bool {
    cx.awake.since(at) <= WHILE
}

/// What an application has sent, and what flows count as for it.
#[derive(Default)]
struct Owed {
    sent: Bytes,
    /// What each of the flows counts as, at least.
    floor: Bytes,
    /// When something was added last, as [`Context::awake`].
    at: Time,
}

impl Owed {
    /// So much more was sent; whether flows count as more from now on.
    fn add(&mut self, cx: &Context, more: Bytes) -> bool {
        if !stands(cx, self.at) {
            *self = Self::default();
        }
        self.sent += more;
        self.at = cx.awake;
        let is_passed = self.sent > self.floor;
        if is_passed {
            self.floor = self.sent * 2;
        }
        is_passed
    }

    /// What each of the flows counts as, at least, and what was sent.
    fn standing(&self, cx: &Context) -> (Bytes, Bytes) {
        if stands(cx, self.at) { (self.floor, self.sent) } else { (Bytes::ZERO, Bytes::ZERO) }
    }
}

/// What stands against an application.
#[derive(Default)]
struct Debt {
    /// What it has sent and not declared: for all its flows.
    undeclared: Owed,
    /// What went beside flows that were held back: for those that share a connection.
    along: Owed,
    /// What flows of it weigh that counted and that nobody saw, less those that were seen.
    unseen: Span,
    /// When something was added to that last, as [`Context::awake`].
    unseen_at: Time,
}

impl Debt {
    fn stands(&self, cx: &Context) -> bool {
        [self.undeclared.at, self.along.at, self.unseen_at].into_iter().any(|at| stands(cx, at))
    }

    /// What flows of it weigh that nobody saw, for as long as that stands.
    fn unseen(&mut self, cx: &Context) -> &mut Span {
        if !stands(cx, self.unseen_at) {
            self.unseen = Span::ZERO;
        }
        &mut self.unseen
    }
}

/// All of it.
#[derive(Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<Connection, Account>,
    /// How many each application has.
    taken: Taken<Arc<str>>,
    debts: BTreeMap<Arc<str>, Debt>,
    /// What went beside flows of an application that were held back, from one address within a sample, and since when,
    /// as [`Context::awake`].
    beside: BTreeMap<(Arc<str>, IpAddr), (Bytes, Time)>,
    swept: Time,
}

impl Ledger {
    fn debt(&mut self, of: &Arc<str>) -> &mut Debt {
        self.debts.entry(Arc::clone(of)).or_default()
    }

    /// So much went beside flows of an application that were held back, from an address. What of it counts: all but so
    /// much in a sample, over all connections, as goes until limits stand.
    fn beyond(
        &mut self,
        cx: &Context,
        (of, from): (&Arc<str>, IpAddr),
        along: Bytes,
        slack: Bytes,
    ) -> Bytes {
        let (sum, since) =
            self.beside.entry((Arc::clone(of), from)).or_insert((Bytes::ZERO, cx.awake));
        // A sample comes in many reports where there are many connections.
        if cx.awake.since(*since) >= cx.least() {
            (*sum, *since) = (Bytes::ZERO, cx.awake);
        }
        let before = *sum - slack;
        *sum += along;
        *sum - slack - before
    }

    /// What each flow of an application counts as, at least, and what the application has sent and not declared.
    pub(crate) fn standing(&self, cx: &Context, of: &str) -> (Bytes, Bytes) {
        let debt = self.debts.get(of);
        debt.map_or((Bytes::ZERO, Bytes::ZERO), |debt| debt.undeclared.standing(cx))
    }

    /// What each flow of an application that shares its connection counts as, at least, and what went beside such
    /// flows that were held back.
    pub(crate) fn along(&self, cx: &Context, of: &str) -> (Bytes, Bytes) {
        let debt = self.debts.get(of);
        debt.map_or((Bytes::ZERO, Bytes::ZERO), |debt| debt.along.standing(cx))
    }

    /// Whether flows of an application count from when they are seen only.
    pub(crate) fn is_doubted(&self, cx: &Context, of: &str) -> bool {
        let debt = self.debts.get(of).filter(|debt| stands(cx, debt.unseen_at));
        debt.is_some_and(|debt| debt.unseen >= cx.sample * UNSEEN)
    }

    /// A flow of an application that an agent would have told of was seen, and has ended.
    pub(crate) fn note_seen(&mut self, cx: &Context, of: &Arc<str>) {
        self.less_unseen(cx, of, cx.sample);
    }

    /// One that [`Ledger::note_unseen`] counted for so long was seen after all.
    pub(crate) fn note_late(&mut self, cx: &Context, of: &Arc<str>, lived: Span) {
        self.less_unseen(cx, of, weight(cx, lived));
    }

    fn less_unseen(&mut self, cx: &Context, of: &Arc<str>, less: Span) {
        if let Some(debt) = self.debts.get_mut(of) {
            let unseen = debt.unseen(cx);
            *unseen = unseen.saturating_sub(less);
        }
    }

    /// One counted for so long, and nobody saw it: not yet, if it has ended and an agent tells still that one of its
    /// `connections` sent something.
    pub(crate) fn note_unseen(
        &mut self,
        cx: &Context,
        of: &Arc<str>,
        lived: Span,
        connections: &[Connection],
    ) {
        for connection in connections {
            if let Some(account) = self.accounts.get_mut(connection) {
                account.unseen += weight(cx, lived);
            }
        }
        let debt = self.debt(of);
        *debt.unseen(cx) += weight(cx, lived);
        debt.unseen_at = cx.awake;
    }

    /// The account of a connection, of which an application has declared something `since` then; `None` where it has as
    /// many as it may have flows.
    fn account(
        &mut self,
        cx: &Context,
        connection: Connection,
        of: &Arc<str>,
        since: Time,
    ) -> Option<&mut Account> {
        match self.accounts.entry(connection) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(free) => {
                let has_room = self.taken.take(Arc::clone(of), cx.limits.flows);
                has_room.then(|| free.insert(Account::new(cx, since, of)))
            }
        }
    }

    /// A flow of a connection has ended, with so much `left` of what was declared, and may have carried as much of it as
    /// its host's link carries in its time; `shared` with others, beside which it was let so much.
    pub(crate) fn ended(
        &mut self,
        cx: &Context,
        connection: Connection,
        of: &Arc<str>,
        Share { since, left, most: let_go }: Share,
        shared: bool,
        capacity: Rate,
    ) {
        let Some(account) = self.account(cx, connection, of, since) else {
            return;
        };
        let lived = cx.now.since(since.max(account.at));
        let most = capacity.bytes_in(lived);
        let carried = left.map_or(most, |left| with_slack(left).min(most));
        account.ended += carried;
        account.ended_held += carried.min(with_slack(let_go));
        account.ended_let += let_go;
        account.shared |= shared;
        account.open += lived;
        account.touched = cx.awake;
        account.carries(of);
    }

    /// A connection is reported, which carries these flows of an application, or none now: since when, and what is left
    /// of what was declared. An application that has sent more than it had declared, by so much that all its flows count
    /// as more from now on.
    pub(crate) fn settle(
        &mut self,
        cx: &Context,
        connection: Connection,
        (delivered, before): (Bytes, Bytes),
        of: Option<&Arc<str>>,
        shares: &mut [Share],
        capacity: Rate,
    ) -> Option<Arc<str>> {
        let first = shares.iter().map(|share| share.since).min();
        if !self.accounts.contains_key(&connection) {
            self.account(cx, connection, of?, first?)?;
        }
        let account = self.accounts.get_mut(&connection)?;
        if let Some(of) = of {
            account.carries(of);
        }
        let grown = delivered - delivered.min(account.delivered.unwrap_or(before));
        let longest = first.map_or(Span::ZERO, |since| cx.now.since(since.max(account.at)));
        let is_endless = shares.iter().any(|share| share.left.is_none());
        let open = (account.open + longest).min(cx.now.since(account.at));
        let mut rest = grown.min(capacity.bytes_in(open) + SLACK);
        let slack = SLACK.max(capacity.bytes_in(cx.sample / SETTLING));
        let along = account.along(slack, rest, shares);
        rest = rest - account.ended;
        for left in shares.iter_mut().filter_map(|share| share.left.as_mut()) {
            let carried = rest.min(with_slack(*left));
            (rest, *left) = (rest - carried, *left - carried);
        }
        account.delivered = Some(delivered);
        (account.ended, account.open) = (Bytes::ZERO, Span::ZERO);
        (account.ended_held, account.ended_let) = (Bytes::ZERO, Bytes::ZERO);
        account.shared = false;
        (account.at, account.touched) = (cx.now, cx.awake);
        let unseen = core::mem::take(&mut account.unseen);
        let of = Arc::clone(&account.of);
        if grown > Bytes::ZERO {
            // They were there after all.
            self.less_unseen(cx, &of, unseen);
        }
        let undeclared = if is_endless { Bytes::ZERO } else { rest };
        if along > undeclared {
            let from = (&of, connection.source.ip());
            let beyond = self.beyond(cx, from, along - undeclared, slack);
            if beyond > Bytes::ZERO {
                self.debt(&of).along.add(cx, beyond);
            }
        }
        if undeclared <= SLACK || !self.debt(&of).undeclared.add(cx, rest) {
            return None;
        }
        Some(of)
    }

    /// What a connection had delivered when it was reported last, if something was declared of it.
    pub(crate) fn delivered(&self, connection: &Connection) -> Option<Bytes> {
        self.accounts.get(connection)?.delivered
    }

    /// A connection is closed.
    pub(crate) fn close(&mut self, connection: &Connection) {
        if let Some(account) = self.accounts.remove(connection) {
            self.taken.give(&account.by);
        }
    }

    /// Forgets what is over; looked for no more often than samples come.
    pub(crate) fn sweep(&mut self, cx: &Context) {
        if cx.awake.since(self.swept) >= cx.sample {
            self.swept = cx.awake;
            let taken = &mut self.taken;
            self.accounts.retain(|_, account| {
                let stays = cx.awake.since(account.touched) <= cx.patience();
                if !stays {
                    taken.give(&account.by);
                }
                stays
            });
            self.debts.retain(|_, debt| debt.stands(cx));
            self.beside.retain(|_, (_, since)| cx.awake.since(*since) <= cx.sample);
        }
    }
}

/// What a flow weighs that counted for so long and that nobody saw. Of a connection that lives for a part of a sample an
/// agent tells with that chance: half of it, so that chance alone brings nobody into doubt. One that lives longer was not
/// there: twice, so that the first that held others for as long as it could brings its application there.
fn weight(cx: &Context, lived: Span) -> Span {
    let is_chance = lived <= cx.sample + cx.sample / 4;
    if is_chance { lived / 2 } else { lived.min(cx.patience()) * 2 }
}

/// With what an application's own protocol adds to what it declares.
fn with_slack(declared: Bytes) -> Bytes {
    declared + Bytes::new(declared.get() / SLACK_PART)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{config, connection};

    #[test]
    fn who_has_many_connections_takes_no_others_room() {
        let mut cx = Context::new(&config(), 1, Time::ZERO);
        cx.limits.flows = 1;
        let mut ledger = Ledger::default();
        let [many, few] = ["many", "few"].map(Arc::<str>::from);
        let settle = |ledger: &mut Ledger, port, of| {
            let mut shares = [Share { since: Time::ZERO, left: None, most: Bytes::MAX }];
            let delivered = (Bytes::new(1), Bytes::ZERO);
            let (at, rate) = (connection(port), Rate::MAX);
            ledger.settle(&cx, at, delivered, Some(of), &mut shares, rate);
            ledger.delivered(&at).is_some()
        };
        assert!(settle(&mut ledger, 1, &many) && !settle(&mut ledger, 2, &many));
        assert!(settle(&mut ledger, 3, &few), "another has room of its own");
        ledger.close(&connection(1));
        assert!(settle(&mut ledger, 2, &many));
    }
}
