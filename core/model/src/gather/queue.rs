//! What a hub has to send.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use units::Bytes;

use crate::MSS;

/// The objects of a hub in the order in which it sends them. It grows with what it is given: who
/// gives bounds it.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiting: VecDeque<u32>,
    /// All that it ever had, in order, for another parent.
    kept: Vec<u32>,
    known: BTreeSet<u32>,
    /// Objects that its swarm may still answer with, and must not.
    cancelled: BTreeSet<u32>,
}

impl Queue {
    /// Objects that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// An object is to come from the swarm, perhaps again.
    pub fn expect(&mut self, object: u32) {
        self.cancelled.remove(&object);
    }

    /// An object came from the swarm; whether it is to be sent.
    pub fn collect(&mut self, object: u32) -> bool {
        let is_wanted = !self.cancelled.contains(&object);
        if is_wanted {
            self.take(object);
        }
        is_wanted
    }

    /// An object came from a hub below.
    pub fn take(&mut self, object: u32) {
        self.waiting.push_back(object);
        if self.known.insert(object) {
            self.kept.push(object);
        }
    }

    /// These are not to be sent, as far as they weren't, nor to come from the swarm.
    pub fn cancel(&mut self, objects: impl IntoIterator<Item = u32>) {
        let objects: BTreeSet<u32> = objects.into_iter().collect();
        self.waiting.retain(|object| !objects.contains(object));
        self.kept.retain(|object| !objects.contains(object));
        self.known.retain(|object| !objects.contains(object));
        self.cancelled.extend(objects);
    }

    /// There is another parent, which is to get these of all that there ever was.
    pub fn start_over(&mut self, wanted: impl IntoIterator<Item = u32>) {
        let wanted: BTreeSet<u32> = wanted.into_iter().collect();
        self.waiting = self.kept.iter().copied().filter(|object| wanted.contains(object)).collect();
    }

    /// Takes the next packet: the objects and its payload. Of payloads of `size` and of `around` that
    /// any packet has besides, as many as fit a full one if `packed`, and at least one.
    pub fn packet(
        &mut self,
        packed: bool,
        around: Bytes,
        size: impl Fn(u32) -> Bytes,
    ) -> (Vec<u32>, Bytes) {
        let (mut objects, mut payload) = (Vec::new(), around);
        while let Some(object) = self.waiting.front() {
            let more = size(*object);
            let fits = objects.is_empty() || (packed && payload + more <= MSS);
            if !fits {
                break;
            }
            payload += more;
            objects.extend(self.waiting.pop_front());
        }
        (objects, payload)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn packets_are_full_where_they_may_be() {
        let mut queue = Queue::default();
        (0..5).for_each(|object| queue.take(object));
        let size = |object: u32| Bytes::new([700, 740, 10, 3000, 1][object as usize]);
        let around = Bytes::new(13);
        assert_eq!(queue.packet(true, around, size), (vec![0, 1], Bytes::new(1453)));
        assert_eq!(queue.packet(false, around, size), (vec![2], Bytes::new(23)));
        assert_eq!(queue.packet(true, around, size), (vec![3], Bytes::new(3013)));
        assert_eq!(queue.packet(true, around, size), (vec![4], Bytes::new(14)));
        assert!(queue.packet(true, around, size).0.is_empty());
    }

    #[test]
    fn another_parent_gets_all_that_was_not_cancelled() {
        let mut queue = Queue::default();
        assert!([3, 1, 2].iter().all(|object| queue.collect(*object)));
        queue.packet(true, Bytes::ZERO, |_| Bytes::new(1));
        queue.cancel([1, 4]);
        assert!(!queue.collect(4));
        queue.start_over([1, 2, 3, 4]);
        assert_eq!(queue.packet(true, Bytes::ZERO, |_| Bytes::new(1)).0, [3, 2]);
        queue.expect(4);
        assert!(queue.collect(4));
        assert_eq!(queue.len(), 1);
    }
}
