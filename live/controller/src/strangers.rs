//! Connections that have yet to prove who they are: few at once, and nobody is kept out by them. Who comes
//! when there are as many takes the place of the oldest from where most come; from wherever, where all are alike.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Most at once: a handshake takes milliseconds, and thousands a second are more than a core can do.
const MOST: usize = 256;
/// That some had to give way is a problem for so long.
const OVER: Duration = Duration::from_secs(600);

/// All of them.
#[derive(Debug, Default)]
pub struct Strangers(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    /// By where they come from, oldest first; dropping one's sender ends it.
    by_place: BTreeMap<IpAddr, BTreeMap<u64, oneshot::Sender<()>>>,
    count: usize,
    entered: u64,
    ousted: u64,
    /// The last that had to give way: when, and from where.
    last: Option<(Instant, IpAddr)>,
}

/// One of them; dropping it, when it has proved who it is or gone, makes room.
#[derive(Debug)]
pub struct Stranger {
    all: Arc<Strangers>,
    place: IpAddr,
    number: u64,
    ended: oneshot::Receiver<()>,
}

/// An address, or the 64 bits of one that a host has for itself.
fn place(of: IpAddr) -> IpAddr {
    match of.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & (u128::MAX << 64)).into(),
        address => address,
    }
}

impl Inside {
    /// From where most come; of several such places, where the oldest of all comes from.
    fn crowded(&self) -> Option<IpAddr> {
        let oldest = |all: &BTreeMap<u64, _>| all.first_key_value().map(|(number, _)| *number);
        let places = self.by_place.iter();
        places.max_by_key(|(_, all)| (all.len(), Reverse(oldest(all)))).map(|(place, _)| *place)
    }
}

impl Strangers {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, from there; another may have to give way.
    pub fn enter(self: &Arc<Self>, from: IpAddr, now: Instant) -> Stranger {
        let mut inside = self.inside();
        let place = place(from);
        if inside.count >= MOST
            && let Some(from) = inside.crowded()
        {
            let oldest = inside.by_place.get_mut(&from).and_then(|all| all.pop_first());
            drop(oldest);
            inside.count -= 1;
            inside.ousted += 1;
            inside.last = Some((now, from));
        }
        let (end, ended) = oneshot::channel();
        inside.entered += 1;
        inside.count += 1;
        let number = inside.entered;
        inside.by_place.entry(place).or_default().insert(number, end);
        drop(inside);
        Stranger { all: Arc::clone(self), place, number, ended }
    }

    /// How many had to give way.
    pub fn ousted(&self) -> u64 {
        self.inside().ousted
    }

    /// That some had to give way, if that was lately.
    pub fn problem(&self, now: Instant) -> Option<String> {
        let inside = self.inside();
        let (at, from) = inside.last?;
        let since = Some(now.saturating_duration_since(at)).filter(|since| *since <= OVER)?;
        Some(format!(
            "{} connections were closed that had not proved who they are, because more than {MOST} were open; \
             the last {} s ago, from {from}: look at what runs there",
            inside.ousted,
            since.as_secs()
        ))
    }
}

impl Stranger {
    /// Ends when it has to give way.
    pub async fn ousted(&mut self) {
        let _ = (&mut self.ended).await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut inside = self.all.inside();
        let Some(all) = inside.by_place.get_mut(&self.place) else { return };
        let was_there = all.remove(&self.number).is_some();
        if all.is_empty() {
            inside.by_place.remove(&self.place);
        }
        inside.count -= usize::from(was_there);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    /// Whether it still has its place.
    fn stays(stranger: &mut Stranger) -> bool {
        stranger.ended.try_recv() == Err(oneshot::error::TryRecvError::Empty)
    }

    #[test]
    fn the_oldest_from_where_most_come_gives_way() {
        let (all, now) = (Arc::new(Strangers::default()), Instant::now());
        let many = |n: u64| IpAddr::from(Ipv6Addr::from(1_u128 << 64 | u128::from(n)));
        let mut few: Vec<_> = (0..10).map(|n| all.enter([10, 0, 0, n].into(), now)).collect();
        let mut flood: Vec<_> = (0..10_000).map(|n| all.enter(many(n), now)).collect();
        assert!(few.iter_mut().all(stays));
        let left = flood.iter_mut().map(stays).collect::<Vec<_>>();
        assert_eq!(left.iter().filter(|stays| **stays).count(), MOST - 10);
        assert!(left.ends_with(&[true; MOST - 10]), "the oldest went");
        assert_eq!(all.ousted(), 10_010 - MOST as u64);
        let told = all.problem(now + Duration::from_secs(5)).unwrap();
        assert!(told.contains("the last 5 s ago, from 0:0:0:1::"), "{told}");
        assert_eq!(all.problem(now + Duration::from_secs(601)), None);
        // Who goes makes room, whether it had to or not.
        drop(flood);
        let counted = |all: &Strangers| {
            let inside = all.inside();
            (inside.count, inside.by_place.len())
        };
        assert_eq!(counted(&all), (10, 10));
        drop(few);
        let last = all.enter([10, 0, 0, 1].into(), now);
        assert_eq!(counted(&all), (1, 1));
        drop(last);
    }

    /// From as many places as there is room, no place is worse than another: who came last has time for a handshake.
    #[test]
    fn of_places_from_which_as_many_come_the_oldest_gives_way() {
        let (all, now) = (Arc::new(Strangers::default()), Instant::now());
        let enter = |net: u8, host: u8| all.enter([10, 0, net, host].into(), now);
        let mut silent: Vec<_> = (0..=u8::MAX).map(|host| enter(0, host)).collect();
        let mut honest = enter(1, 0);
        silent.extend((1..=u8::MAX).map(|host| enter(2, host)));
        assert!(stays(&mut honest), "as many as there are places came after it, but for one");
        let left: Vec<_> = silent.iter_mut().map(stays).collect();
        assert_eq!(left, [[false; MOST].as_slice(), &[true; MOST - 1]].concat());
        silent.push(enter(3, 0));
        assert!(!stays(&mut honest));
    }
}
