//! What waits for the machine: a line for each tenant, and whose is next.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1996, section 2): each line has a tag, which grows by what
//! the machine took for its events; the line with the least tag is next. Who comes after a pause begins at
//! the tag of who is served, so that nobody saves up, and whoever asks for little is next soon. What an event
//! costs is known only when it is done: who costs much waits afterwards.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::tenant::Tenant;

/// A tenant that was given so much more than who is served now goes before nobody, however urgent.
const CREDIT: u64 = 10_000_000;
/// So many lines are ahead at most. Where more are, who comes begins at the tag of the least of them, which is forgotten.
const AHEAD: usize = 1_000;

/// What waits, line by line.
#[derive(Debug)]
pub struct Queue<E> {
    lines: Lines<E>,
    /// Lines in which something waits, by their tags and by who began to wait first.
    waiting: BTreeSet<(u64, u64, u64)>,
    /// Lines that are forgotten once they are served up to a tag, if nothing waits in them then: who comes back
    /// before has its tag. Tags may have grown since.
    ahead: BTreeSet<(u64, u64)>,
    /// Lines that go first, now.
    urgent: VecDeque<u64>,
    /// The tag of who is served, ns.
    now: u64,
    /// How often a line began to wait.
    begun: u64,
}

/// By the numbers of tenants, which nobody outside chooses.
type Lines<E> = HashMap<u64, Line<E>, BuildHasherDefault<Spread>>;

/// Spreads numbers that follow each other (Knuth, The Art of Computer Programming 3, section 6.4).
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("numbers alone")
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[derive(Debug)]
struct Line<E> {
    tenant: Arc<Tenant>,
    /// What waits: most lines have one event at most.
    next: Option<E>,
    then: VecDeque<E>,
    /// What the machine has taken for it, from where it began, ns.
    tag: u64,
    /// As it waits.
    waits: Option<(u64, u64)>,
    /// Whether it is in `ahead`.
    is_ahead: bool,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self {
            lines: Lines::default(),
            waiting: BTreeSet::new(),
            ahead: BTreeSet::new(),
            urgent: VecDeque::new(),
            now: 0,
            begun: 0,
        }
    }
}

impl<E> Queue<E> {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets an event wait at the end of its tenant's line. What `is_urgent` goes before all other lines, unless
    /// its own isn't empty or has had more than its share.
    pub fn push(&mut self, tenant: &Arc<Tenant>, event: E, is_urgent: bool) {
        let (number, now) = (tenant.number, self.now);
        let line = line(&mut self.lines, tenant, now);
        if line.next.is_some() {
            line.then.push_back(event);
            return;
        }
        line.next = Some(event);
        if is_urgent && line.tag <= now.saturating_add(CREDIT) {
            self.urgent.push_back(number);
        }
        self.begun += 1;
        line.tag = line.tag.max(now);
        line.waits = Some((line.tag, self.begun));
        self.waiting.insert((line.tag, self.begun, number));
    }

    /// Puts an event back to the head of its tenant's line: it isn't done, and what was said after it waits.
    pub fn put_back(&mut self, tenant: &Arc<Tenant>, event: E) {
        match self.lines.get_mut(&tenant.number) {
            Some(Line { next: Some(next), then, .. }) => {
                then.push_front(std::mem::replace(next, event));
            }
            _ => self.push(tenant, event, false),
        }
    }

    /// Takes out the event that is next.
    pub fn next(&mut self) -> Option<(Arc<Tenant>, E)> {
        let number = match self.urgent.pop_front() {
            Some(number) => number,
            None => {
                let (tag, _, number) = self.waiting.first()?;
                self.now = self.now.max(*tag);
                *number
            }
        };
        self.forget();
        let line = self.lines.get_mut(&number)?;
        let event = line.next.take()?;
        line.next = line.then.pop_front();
        let tenant = Arc::clone(&line.tenant);
        if line.next.is_none() {
            if let Some((tag, place)) = line.waits.take() {
                self.waiting.remove(&(tag, place, number));
            }
            if !std::mem::replace(&mut line.is_ahead, true) {
                self.ahead.insert((line.tag, number));
            }
        }
        Some((tenant, event))
    }

    /// Forgets lines in which nothing waits: those whose tag isn't ahead, and the least where too many are.
    fn forget(&mut self) {
        while let Some((tag, number)) = self.ahead.first().copied()
            && (tag <= self.now || self.ahead.len() > AHEAD)
        {
            self.ahead.pop_first();
            let Some(line) = self.lines.get_mut(&number) else { continue };
            if line.waits.is_some() {
                line.is_ahead = false;
            } else if line.tag > tag {
                self.ahead.insert((line.tag, number));
            } else {
                self.now = self.now.max(tag);
                self.lines.remove(&number);
            }
        }
    }

    /// The machine took so long for a tenant.
    pub fn charge(&mut self, tenant: &Arc<Tenant>, took: Duration) {
        tenant.worked(took);
        let (number, now) = (tenant.number, self.now);
        let line = line(&mut self.lines, tenant, now);
        line.tag = line.tag.saturating_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        if let Some((before, place)) = line.waits {
            line.waits = Some((line.tag, place));
            self.waiting.remove(&(before, place, number));
            self.waiting.insert((line.tag, place, number));
        } else if !std::mem::replace(&mut line.is_ahead, true) {
            self.ahead.insert((line.tag, number));
        }
    }
}

/// A tenant's line, which begins now where there is none.
fn line<'a, E>(lines: &'a mut Lines<E>, tenant: &Arc<Tenant>, now: u64) -> &'a mut Line<E> {
    lines.entry(tenant.number).or_insert_with(|| Line {
        tenant: Arc::clone(tenant),
        next: None,
        then: VecDeque::new(),
        tag: now,
        waits: None,
        is_ahead: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::{Tenants, Who};

    const MS: Duration = Duration::from_millis(1);

    fn tenant(tenants: &Tenants, name: &str) -> Arc<Tenant> {
        tenants.of(Who::Application(name.into()))
    }

    /// Serves one event, which takes so long; whose it was.
    fn serve(queue: &mut Queue<u32>, took: impl Fn(&str) -> Duration) -> String {
        let (tenant, _) = queue.next().expect("something waits");
        let Who::Application(name) = &tenant.who else { unreachable!("applications alone") };
        queue.charge(&tenant, took(name));
        name.to_string()
    }

    #[test]
    fn time_is_shared_not_events() {
        let tenants = Tenants::new(0);
        let [flood, honest] = ["flood", "honest"].map(|name| tenant(&tenants, name));
        let mut queue = Queue::default();
        for number in 0..1_000 {
            queue.push(&flood, number, false);
            queue.push(&honest, number, false);
        }
        let took = |name: &str| if name == "flood" { MS * 10 } else { MS };
        let served: Vec<_> = (0..110).map(|_| serve(&mut queue, took)).collect();
        let of_honest = served.iter().filter(|name| *name == "honest").count();
        assert!((99..=101).contains(&of_honest), "{of_honest}");
        assert!(flood.busy().abs_diff(honest.busy()) <= MS * 10);
    }

    #[test]
    fn who_asks_for_little_is_next_and_nobody_saves_up() {
        let tenants = Tenants::new(0);
        let floods: Vec<_> = (0..100).map(|n| tenant(&tenants, &n.to_string())).collect();
        let honest = tenant(&tenants, "honest");
        let mut queue = Queue::default();
        for _ in 0..100 {
            floods.iter().for_each(|flood| queue.push(flood, 0, false));
        }
        for _ in 0..1_000 {
            serve(&mut queue, |_| MS);
        }
        queue.push(&honest, 0, false);
        let before = (0..).position(|_| serve(&mut queue, |_| MS) == "honest");
        assert!(
            before.is_some_and(|before| before <= 100),
            "at most one of each flood: {before:?}"
        );
        // Having waited long, it has no more than others.
        for _ in 0..50 {
            queue.push(&honest, 0, false);
        }
        let served = (0..101).filter(|_| serve(&mut queue, |_| MS) == "honest").count();
        assert!(served <= 2, "{served}");
    }

    #[test]
    fn who_goes_and_comes_back_keeps_what_it_has_had() {
        let tenants = Tenants::new(0);
        let [flood, honest] = ["flood", "honest"].map(|name| tenant(&tenants, name));
        let mut queue = Queue::default();
        queue.push(&flood, 0, false);
        serve(&mut queue, |_| MS * 100);
        for round in 0..10 {
            queue.push(&flood, round, false);
            queue.push(&honest, round, false);
            assert_eq!(serve(&mut queue, |_| MS), "honest");
        }
        assert_eq!(serve(&mut queue, |_| MS), "flood");
        drop(flood);
        assert!(tenants.application("flood").is_some(), "the queue knows it");
        while queue.next().is_some() {}
        for round in 0..200 {
            queue.push(&honest, round, false);
            serve(&mut queue, |_| MS);
        }
        assert!(tenants.application("flood").is_none(), "what it has had is made up for");
    }

    /// Also where names come once each, and somebody always waits.
    #[test]
    fn lines_of_names_that_do_not_come_again_are_forgotten() {
        let tenants = Tenants::new(0);
        let mut queue = Queue::default();
        for busy in [false, true] {
            if busy {
                queue.push(&tenant(&tenants, "first"), 0, false);
            }
            for number in 0..4 * AHEAD {
                queue.push(&tenant(&tenants, &number.to_string()), 0, false);
                serve(&mut queue, |_| MS);
            }
            assert!(queue.lines.len() <= AHEAD + 2, "{}", queue.lines.len());
        }
    }

    #[test]
    fn what_is_urgent_goes_first_unless_its_own_wait_or_it_had_too_much() {
        let tenants = Tenants::new(0);
        let [one, other] = ["one", "other"].map(|name| tenant(&tenants, name));
        let mut queue = Queue::default();
        queue.push(&one, 0, false);
        queue.push(&one, 1, true);
        queue.push(&other, 2, true);
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).map(|(_, event)| event).collect();
        assert_eq!(order, [2, 0, 1]);
        queue.charge(&other, MS * 11);
        queue.push(&one, 3, false);
        queue.push(&other, 4, true);
        assert_eq!(queue.next().map(|(_, event)| event), Some(3));
    }
}
