//! Histories of elections without I/O: clocks that run at different speeds, messages that are late or lost, writes that
//! come after who asked for them has given up, cuts, restarts, processes that stand still. `ELECTION_SEEDS=n` runs so many.
#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::BTreeMap;

use controller::election::machine::{Action, Candidate, Election, Record, Revision, Said};
use units::{Span, Time};

const MS: u64 = 1_000_000;
const LEASE: Span = Span::from_secs(2);

/// `splitmix64`.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A process on a machine whose clock runs at `speed` of a thousand, and began at `offset`.
struct Node {
    election: Election,
    speed: u64,
    offset: u64,
    /// Stands still until then.
    still_until: u64,
    cut_until: u64,
    /// A question under way: which process asked, when the store gets it, and what.
    asked: Option<(u64, Action)>,
    answer: Option<(u64, Option<Said>)>,
    /// When it asked for the write that it waits for, by its clock.
    asking: Option<Time>,
    /// The same of the last write that it was told of.
    confirmed: Option<Time>,
    /// The process gave up at that time.
    epoch_on_disk: u64,
}

impl Node {
    fn clock(&self, now: u64) -> Time {
        Time::from_nanos((now + self.offset) / 1000 * self.speed)
    }
}

fn candidate(name: usize, process: u64) -> Candidate {
    let (name, address) = (format!("c{name}"), format!("https://10.0.0.{name}:7443"));
    Candidate { name, address, process, lease: LEASE }
}

/// A revision as a store calls it, which is no number.
fn revision(number: u64) -> Revision {
    format!("r{number}")
}

fn holds(held: &Option<(Record, u64)>) -> Said {
    let (record, at) = held.clone().unzip();
    Said::Holds(record, at.map(revision))
}

struct History {
    now: u64,
    chance: Chance,
    nodes: Vec<Node>,
    held: Option<(Record, u64)>,
    revision: u64,
    processes: u64,
    /// Epochs and which process led under them.
    offices: BTreeMap<u64, u64>,
    /// The highest epoch that an agent obeyed.
    obeyed: u64,
    /// Directives that are under way to the agent: when they arrive, and their epoch.
    directives: Vec<(u64, u64)>,
    mixed: u64,
    /// What nobody waits for any more, and when the store gets it.
    late: Vec<(u64, Action)>,
    /// How much of that was written.
    belated: u64,
    /// Whether messages and processes fail.
    faulty: bool,
    /// When somebody removes the record.
    removed: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let removed = (20_000 + chance.below(20_000)) * MS;
        let nodes = (0..3)
            .map(|name| Node {
                election: Election::new(candidate(name, name as u64 + 1), 0),
                // Two in a hundred: the margin is an eighth.
                speed: 980 + chance.below(41),
                offset: chance.below(1_000_000) * MS,
                still_until: 0,
                cut_until: 0,
                asked: None,
                answer: None,
                asking: None,
                confirmed: None,
                epoch_on_disk: 0,
            })
            .collect();
        Self {
            now: 0,
            chance,
            nodes,
            held: None,
            revision: 0,
            processes: 3,
            offices: BTreeMap::new(),
            obeyed: 0,
            directives: Vec::new(),
            mixed: 0,
            late: Vec::new(),
            belated: 0,
            faulty: true,
            removed,
        }
    }

    fn store(&mut self, action: &Action) -> Said {
        match action {
            Action::Read => holds(&self.held),
            Action::Write { over, record } => {
                if self.held.as_ref().map(|held| revision(held.1)) != *over {
                    return holds(&self.held);
                }
                self.revision += 1;
                self.held = Some((record.clone(), self.revision));
                Said::Written(revision(self.revision))
            }
        }
    }

    /// A millisecond. Processes that stand still learn nothing and do nothing.
    fn step(&mut self) {
        self.now += MS;
        let now = self.now;
        if self.faulty && now == self.removed {
            self.held = None;
        }
        let late: Vec<_> = self.late.extract_if(.., |late| late.0 <= now).collect();
        for (_, action) in late {
            self.belated += u64::from(matches!(self.store(&action), Said::Written(_)));
        }
        for at in 0..self.nodes.len() {
            if self.faulty {
                self.fault(at);
            }
            if self.nodes[at].asked.as_ref().is_some_and(|asked| asked.0 <= now) {
                let (_, action) = self.nodes[at].asked.take().unwrap();
                let said = self.store(&action);
                let is_lost =
                    self.nodes[at].cut_until > now || (self.faulty && self.chance.one_in(20));
                let late = if self.chance.one_in(4) { 1_500 } else { 300 };
                let took = 1 + self.chance.below(if self.faulty { late } else { 3 });
                self.nodes[at].answer = Some((now + took * MS, (!is_lost).then_some(said)));
            }
            let node = &mut self.nodes[at];
            if node.still_until > now {
                continue;
            }
            let clock = node.clock(now);
            if let Some((_, said)) = node.answer.take_if(|answer| answer.0 <= now) {
                if matches!(said, Some(Said::Written(_))) {
                    node.confirmed = node.asking;
                }
                node.election.heard(clock, said);
            }
            if node.election.deadline().is_some_and(|due| due <= clock)
                && let Some(action) = node.election.poll(clock, 0)
            {
                let is_lost = node.cut_until > now || (self.faulty && self.chance.one_in(20));
                let took = 1 + self.chance.below(if self.faulty { 300 } else { 3 });
                node.asking = matches!(action, Action::Write { .. }).then_some(clock);
                if self.faulty && self.chance.one_in(20) {
                    // It waits for a quarter of the lease (`election::store`).
                    let most = if self.chance.one_in(2) { 500 } else { 4_000 };
                    self.late.push((now + (500 + self.chance.below(most)) * MS, action));
                    node.answer = Some((now + 500 * MS, None));
                } else if is_lost {
                    node.answer = Some((now + 500 * MS, None));
                } else {
                    node.asked = Some((now + took * MS, action));
                }
            }
            // What the daemon does, of others' epochs too.
            node.epoch_on_disk = node.election.highest();
            if let Some((epoch, _)) = node.election.leads(clock) {
                self.directives.push((now + MS, epoch));
            }
        }
        self.check();
    }

    fn fault(&mut self, at: usize) {
        let now = self.now;
        match self.chance.below(6_000) {
            0 => self.nodes[at].cut_until = now + self.chance.below(5_000) * MS,
            // What it decided before may come out after it.
            1 => {
                let still = self.chance.below(4_000) * MS;
                let clock = self.nodes[at].clock(now);
                if let Some((epoch, _)) = self.nodes[at].election.leads(clock) {
                    self.directives.push((now + still, epoch));
                }
                self.nodes[at].still_until = now + still;
            }
            2 => {
                self.processes += 1;
                let node = &mut self.nodes[at];
                let own = candidate(at, self.processes);
                node.election = Election::new(own, node.epoch_on_disk);
                // What it asked still arrives.
                self.late.extend(node.asked.take());
                (node.answer, node.asking, node.confirmed) = (None, None, None);
            }
            3 => self.nodes[at].election.give_up(),
            // Who leads keeps orders beside its record: that has another revision.
            4 => {
                let node = &self.nodes[at];
                let led = node.election.leads(node.clock(now)).map(|(epoch, _)| epoch);
                if node.still_until <= now
                    && let Some(held) = self.held.as_mut().filter(|held| Some(held.0.epoch) == led)
                {
                    self.revision += 1;
                    held.1 = self.revision;
                }
            }
            _ => {}
        }
    }

    fn check(&mut self) {
        let now = self.now;
        let mut leading = Vec::new();
        for node in &self.nodes {
            if node.still_until > now {
                continue;
            }
            if let Some((epoch, _)) = node.election.leads(node.clock(now)) {
                // Others wait for a lease.
                let until = node.confirmed.unwrap() + LEASE;
                assert!(node.clock(now) < until, "epoch {epoch} lasts at {} ms", now / MS);
                let process = node.election.leader().unwrap().process;
                let highest = self.offices.last_key_value().map_or(0, |office| *office.0);
                assert!(epoch >= highest, "epoch {epoch} after {highest}");
                let known = *self.offices.entry(epoch).or_insert(process);
                assert_eq!(known, process, "epoch {epoch} has two leaders");
                leading.push(epoch);
            }
        }
        assert!(leading.len() <= 1, "{leading:?} lead at {} ms", now / MS);
        let arrived = self.directives.extract_if(.., |directive| directive.0 <= now);
        for (_, epoch) in arrived.collect::<Vec<_>>() {
            // What an agent does (`agent::Agent::obey`).
            if epoch < self.obeyed {
                self.mixed += 1;
            }
            self.obeyed = self.obeyed.max(epoch);
        }
    }
}

fn seeds() -> u64 {
    std::env::var("ELECTION_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// Also where the record is lost.
#[test]
fn two_never_lead_and_epochs_rise() {
    let (mut offices, mut refused, mut belated) = (0, 0, 0);
    for seed in 0..seeds() {
        let mut history = History::new(seed);
        for _ in 0..60_000 {
            history.step();
        }
        // Once nothing fails any more, one leads and goes on.
        history.faulty = false;
        history.late.clear();
        for node in &mut history.nodes {
            (node.cut_until, node.still_until) = (0, 0);
        }
        for _ in 0..6_000 {
            history.step();
        }
        let last = *history.offices.last_key_value().unwrap().0;
        for _ in 0..10_000 {
            history.step();
            let leads = |node: &Node| node.election.leads(node.clock(history.now)).is_some();
            assert!(history.nodes.iter().any(leads), "seed {seed}: nobody leads");
        }
        assert_eq!(*history.offices.last_key_value().unwrap().0, last, "seed {seed}");
        offices += history.offices.len();
        refused += history.mixed;
        belated += history.belated;
    }
    assert!(offices as u64 > 5 * seeds(), "{offices} offices prove nothing");
    assert!(refused > 0, "no word of a leader of before came late: fencing is not tried");
    assert!(belated > 0, "nothing was written late");
}

/// A leader dies: another leads after a lease, less what the last writing of the record had used of it.
#[test]
fn a_new_leader_comes_after_a_lease() {
    for seed in 0..seeds() {
        let mut history = History::new(seed);
        history.faulty = false;
        let leads = |history: &History| {
            let leads = |node: &Node| node.election.leads(node.clock(history.now)).is_some();
            history.nodes.iter().position(leads)
        };
        // That there is no record is known for a lease first.
        for _ in 0..4_000 + seed * 7 {
            history.step();
        }
        let first = leads(&history).expect("one leads");
        history.nodes[first].still_until = u64::MAX;
        let died = history.now;
        while leads(&history).is_none_or(|leader| leader == first) {
            history.step();
            assert!(history.now - died < 2_500 * MS, "seed {seed}: nobody");
        }
        assert!(history.now - died > 1_400 * MS, "seed {seed}: too early");
        // One that ends of its own accord keeps nobody waiting.
        let second = leads(&history).unwrap();
        let release = history.nodes[second].election.release().unwrap();
        assert!(matches!(history.store(&release), Said::Written(_)), "seed {seed}");
        history.nodes[second].still_until = u64::MAX;
        let ended = history.now;
        while leads(&history).is_none_or(|leader| leader == second || leader == first) {
            history.step();
            assert!(history.now - ended < 300 * MS, "seed {seed}: nobody");
        }
    }
}

/// What an election asks for when it stands for office, with a store that says each time what `held` is.
fn stands(mut election: Election, held: &Option<(Record, u64)>) -> Option<Record> {
    let mut now = Time::ZERO;
    while now < Time::ZERO + LEASE * 3 {
        now = now.max(election.deadline().unwrap());
        match election.poll(now, 0) {
            Some(Action::Write { record, .. }) => return Some(record),
            Some(Action::Read) => election.heard(now, Some(holds(held))),
            None => {}
        }
    }
    None
}

/// What one has given up on is written when another has led and its record is gone. It leads by that no sooner than
/// the other has stopped; where it stands over another record, at once.
#[test]
fn what_is_written_late_over_nothing_is_waited_for() {
    let at = |ms| Time::from_nanos(ms * MS);
    let holds =
        |record: &Record, number| Some(Said::Holds(Some(record.clone()), Some(revision(number))));
    let mut election = Election::new(candidate(1, 1), 0);
    assert_eq!(election.poll(at(0), 0), Some(Action::Read));
    election.heard(at(1), Some(Said::Holds(None, None)));
    let Some(Action::Write { over: None, record: late }) = election.poll(at(2_001), 0) else {
        panic!()
    };
    election.heard(at(2_501), None);
    assert_eq!(election.poll(at(2_601), 0), Some(Action::Read));
    let other = Record { name: "c2".into(), process: 2, ..late.clone() };
    election.heard(at(2_602), holds(&other, 1));
    assert_eq!(election.poll(at(2_802), 0), Some(Action::Read));
    let mut now = 2_803;
    let taken = loop {
        election.heard(at(now), holds(&late, 2));
        now += 200;
        match election.poll(at(now), 0) {
            Some(Action::Read) => {}
            Some(Action::Write { record, .. }) => break record,
            None => panic!("it asks nothing"),
        }
    };
    assert_eq!((now, taken.epoch), (4_803, 2));
    election.heard(at(5_303), None);
    assert!(matches!(election.poll(at(5_403), 0), Some(Action::Write { .. })));
    election.heard(at(5_404), holds(&taken, 3));
    let Some(Action::Write { over, record }) = election.poll(at(5_404), 0) else { panic!() };
    assert_eq!((over, record.epoch), (Some(revision(3)), 3));
}

/// A controller that is alone with its record never leads above the last epoch that agents believe.
#[test]
fn the_last_epoch_is_not_passed() {
    let most = protocol::agent::MOST_EPOCH;
    for (last, leads) in [(most - 1, Some(most)), (most, None)] {
        let asked = stands(Election::new(candidate(1, 1), last), &None);
        assert_eq!(asked.map(|record| record.epoch), leads);
    }
}

/// One that has only followed, or to which it was told, begins above what is gone from the store, and far enough for
/// those offices that it has missed. One that knows of nothing begins with the first.
#[test]
fn what_was_seen_is_passed_where_the_record_is_gone_or_an_old_one() {
    let record = |epoch| Record {
        name: "c2".into(),
        address: "https://10.0.0.2:7443".into(),
        epoch,
        process: 2,
        lease_ns: LEASE,
        since_s: 0,
        released: false,
    };
    let knows = |epoch| {
        let mut election = Election::new(candidate(1, 1), 0);
        election.poll(Time::ZERO, 0).unwrap();
        election.heard(Time::ZERO, Some(holds(&Some((record(epoch), 9)))));
        election
    };
    let mut told = Election::new(candidate(1, 1), 0);
    told.pass(7);
    for (election, held) in
        [(knows(7), None), (knows(7), Some((record(5), 4))), (told, Some((record(2), 4)))]
    {
        let epoch = stands(election, &held).unwrap().epoch;
        assert!(epoch > 8 && epoch < 10_000, "{epoch}");
    }
    assert_eq!(stands(Election::new(candidate(1, 1), 0), &None).unwrap().epoch, 1);
    assert_eq!(stands(knows(7), &Some((record(7), 9))).unwrap().epoch, 8);
}

/// With an order a Lease gets another revision, of which the election hasn't heard.
#[test]
fn what_was_changed_beside_the_record_is_released_too() {
    let at = |ms| Time::from_nanos(ms * MS);
    let mut election = Election::new(candidate(1, 7), 0);
    assert!(matches!(election.poll(at(0), 1), Some(Action::Read)));
    election.heard(at(1), Some(Said::Holds(None, None)));
    let Some(Action::Write { over: None, record }) = election.poll(at(2_001), 3) else { panic!() };
    election.heard(at(2_002), Some(Said::Written(revision(1))));
    let Some(Action::Write { over, record: released }) = election.release() else { panic!() };
    assert_eq!((over, released.released), (Some(revision(1)), true));
    election.heard(at(2_010), Some(Said::Holds(Some(record), Some(revision(2)))));
    let again = election.release();
    assert_eq!(again, Some(Action::Write { over: Some(revision(2)), record: released }));
}
