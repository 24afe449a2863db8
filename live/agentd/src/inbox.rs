//! Orders for the thread that obeys, which waits for them and for the kernel's events at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use units::Span;

use crate::hands::Order;

/// The end that puts in.
#[derive(Debug)]
pub struct Orders {
    /// Taken away at the end, before the other end is woken.
    sender: Option<SyncSender<Order>>,
    wake: Arc<OwnedFd>,
}

/// The end that takes out.
#[derive(Debug)]
pub struct Inbox {
    receiver: Receiver<Order>,
    wake: Arc<OwnedFd>,
}

/// Both ends, with room for so many orders.
///
/// # Errors
/// The system gives no descriptor.
pub fn inbox(room: usize) -> io::Result<(Orders, Inbox)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = sync_channel(room);
    let orders = Orders { sender: Some(sender), wake: Arc::clone(&wake) };
    Ok((orders, Inbox { receiver, wake }))
}

impl Orders {
    /// Puts an order in.
    ///
    /// # Errors
    /// There is no room, or nobody takes it out any more.
    pub fn try_send(&self, order: Order) -> Result<(), TrySendError<Order>> {
        let Some(sender) = &self.sender else { return Err(TrySendError::Disconnected(order)) };
        sender.try_send(order)?;
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        // A counter that is full wakes all the same.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.sender = None;
        self.wake();
    }
}

impl Inbox {
    /// Waits for an order, for `other` to have something, or for the end of `patience`.
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

    /// The next order.
    ///
    /// # Errors
    /// There is none yet, or will be none any more.
    pub fn take(&self) -> Result<Order, TryRecvError> {
        self.receiver.try_recv()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn an_order_and_the_end_of_all_orders_wake_who_waits() {
        let long = Span::from_secs(20);
        let (orders, end) = inbox(1).unwrap();
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                orders.try_send(Order::Connected).unwrap();
                assert!(orders.try_send(Order::Connected).is_err(), "there is room for one");
                std::thread::sleep(Duration::from_millis(100));
            });
            end.wait(None, long);
            assert!(matches!(end.take(), Ok(Order::Connected)));
            assert!(matches!(end.take(), Err(TryRecvError::Empty)));
            end.wait(None, long);
        });
        assert!(matches!(end.take(), Err(TryRecvError::Disconnected)));
        assert!(start.elapsed() < Duration::from_secs(10));
        // Without an order it waits as long as it is told.
        let (_orders, end) = inbox(1).unwrap();
        let start = Instant::now();
        end.wait(None, Span::from_millis(30));
        assert!(start.elapsed() >= Duration::from_millis(29));
    }
}
