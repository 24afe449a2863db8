//! What a thread is told that waits for it and for the kernel's events at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use units::Span;

/// The end that puts in.
#[derive(Debug)]
pub struct Outbox<T> {
    /// Taken away at the end, before the other end is woken.
    sender: Option<SyncSender<T>>,
    wake: Arc<OwnedFd>,
}

/// The end that takes out.
#[derive(Debug)]
pub struct Inbox<T> {
    receiver: Receiver<T>,
    wake: Arc<OwnedFd>,
}

/// Both ends, with room for so many words.
///
/// # Errors
/// The system gives no descriptor.
pub fn inbox<T>(room: usize) -> io::Result<(Outbox<T>, Inbox<T>)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = sync_channel(room);
    let outbox = Outbox { sender: Some(sender), wake: Arc::clone(&wake) };
    Ok((outbox, Inbox { receiver, wake }))
}

impl<T> Outbox<T> {
    /// Puts a word in.
    ///
    /// # Errors
    /// There is no room, or nobody takes it out any more.
    pub fn try_send(&self, word: T) -> Result<(), TrySendError<T>> {
        let Some(sender) = &self.sender else { return Err(TrySendError::Disconnected(word)) };
        sender.try_send(word)?;
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        // A counter that is full wakes all the same.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl<T> Drop for Outbox<T> {
    fn drop(&mut self) {
        self.sender = None;
        self.wake();
    }
}

impl<T> Inbox<T> {
    /// Waits for a word, for `other` to have something, or for the end of `patience`.
    pub fn wait(&self, other: Option<BorrowedFd<'_>>, patience: Span) {
        let own = self.wake.as_fd();
        let mut both =
            [own, other.unwrap_or(own)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let timeout = Timespec {
            tv_sec: i64::try_from(patience.as_nanos() / Span::from_secs(1).as_nanos())
                .unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(patience.as_nanos() % Span::from_secs(1).as_nanos())
                .unwrap_or(0),
        };
        match poll(&mut both, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => tracing::error!(%error, "events can't be waited for"),
        }
        // Empty where it was the other one.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    /// The next word.
    ///
    /// # Errors
    /// There is none yet, or will be none any more.
    pub fn take(&self) -> Result<T, TryRecvError> {
        self.receiver.try_recv()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_word_and_the_end_of_all_words_wake_who_waits() {
        let long = Span::from_secs(20);
        let (outbox, end) = inbox(1).unwrap();
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                outbox.try_send(7).unwrap();
                assert!(outbox.try_send(7).is_err(), "there is room for one");
                std::thread::sleep(Duration::from_millis(100));
            });
            end.wait(None, long);
            assert!(matches!(end.take(), Ok(7)));
            assert!(matches!(end.take(), Err(TryRecvError::Empty)));
            end.wait(None, long);
        });
        assert!(matches!(end.take(), Err(TryRecvError::Disconnected)));
        assert!(start.elapsed() < Duration::from_secs(10));
        // Without a word it waits as long as it is told.
        let (_outbox, end) = inbox::<u8>(1).unwrap();
        let start = Instant::now();
        end.wait(None, Span::from_millis(30));
        assert!(start.elapsed() >= Duration::from_millis(29));
    }
}
