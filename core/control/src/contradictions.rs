//! What somebody says that contradicts what is known, for people.

use alloc::collections::BTreeMap;
use alloc::string::String;

use units::{Span, Time};

/// What was not seen again for so long is over.
const OVER: Span = Span::from_secs(600);

/// At most `MOST` contradictions, each told once; a new one takes the place of that which was not seen for
/// longest.
#[derive(Default)]
pub(crate) struct Contradictions<const MOST: usize> {
    seen: BTreeMap<String, Time>,
    /// How many had to make room before they were over, and when one had to last.
    more: (u64, Time),
}

impl<const MOST: usize> Contradictions<MOST> {
    /// Notes one that was seen at `now`; at [`Time::NEVER`] it stays.
    pub(crate) fn note(&mut self, now: Time, what: String) {
        if self.seen.len() >= MOST && !self.seen.contains_key(&what) {
            let oldest = self.seen.iter().min_by_key(|(_, at)| **at);
            if let Some((what, at)) = oldest.map(|(what, at)| (what.clone(), *at)) {
                self.seen.remove(&what);
                if now.since(at) <= OVER {
                    self.more = (self.more(now) + 1, now);
                }
            }
        }
        self.seen.insert(what, now);
    }

    /// How many more stood of late than are kept; one that comes again counts again.
    pub(crate) fn more(&self, now: Time) -> u64 {
        if now.since(self.more.1) <= OVER { self.more.0 } else { 0 }
    }

    /// Those that stand.
    pub(crate) fn iter(&self, now: Time) -> impl Iterator<Item = &String> {
        self.seen.iter().filter(move |(_, at)| now.since(**at) <= OVER).map(|(what, _)| what)
    }

    /// Those that stand because they were seen of late, and when.
    pub(crate) fn seen(&self, now: Time) -> impl Iterator<Item = (&String, Time)> {
        let seen = self.seen.iter().map(|(what, at)| (what, *at));
        seen.filter(move |(_, at)| *at != Time::NEVER && now.since(*at) <= OVER)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn what_is_not_seen_again_is_over_and_makes_room() {
        let at = |s| Time::ZERO + Span::from_secs(s);
        let mut told = Contradictions::<2>::default();
        let list = |told: &Contradictions<2>, s| told.iter(at(s)).cloned().collect::<Vec<_>>();
        told.note(at(0), "a".into());
        told.note(at(1), "b".into());
        told.note(at(2), "a".into());
        assert_eq!(list(&told, 601), ["a", "b"]);
        told.note(at(3), "c".into());
        assert_eq!((list(&told, 602), told.more(at(602))), (vec!["a".into(), "c".into()], 1));
        assert_eq!(list(&told, 603), ["c"]);
        assert_eq!(told.more(at(604)), 0);
        told.note(at(604), "e".into());
        assert_eq!(told.more(at(604)), 0, "what made room was over");
        told.note(Time::NEVER, "d".into());
        assert_eq!(list(&told, 9_000), ["d"]);
    }
}
