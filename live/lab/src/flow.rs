//! One flow: a connection with both its ends in this process.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use engine::{FlowState, LimitedFlow};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};
use units::{Bytes, Rate};

use crate::directory::Taken;
use crate::socket::{self, Info};

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Open,
    Closed,
}

/// A connection. Amounts are octets of payload.
pub(crate) struct Flow {
    sender: OwnedFd,
    /// Once accepted.
    receiver: Option<OwnedFd>,
    /// Written by the application.
    handed: u64,
    /// Of that, taken by the socket.
    taken: Taken,
    /// Of that, read by the receiving application.
    read: u64,
    /// Arrived and not read.
    unread: u64,
    /// No more will be written.
    closed: bool,
    /// Whether the application reads only when it asks to.
    pub(crate) reading_paused: bool,
    /// The mark to report when this much has arrived.
    pub(crate) mark: Option<u64>,
    /// Its end has been reported.
    pub(crate) told: bool,
}

impl Flow {
    /// A flow of `size`, or one that is written to.
    pub(crate) fn new(sender: OwnedFd, size: Option<Bytes>, taken: Taken) -> Self {
        Self {
            sender,
            receiver: None,
            handed: size.map_or(0, Bytes::get),
            taken,
            read: 0,
            unread: 0,
            closed: size.is_some(),
            reading_paused: false,
            mark: None,
            told: false,
        }
    }

    pub(crate) const fn sender(&self) -> &OwnedFd {
        &self.sender
    }

    pub(crate) fn accepted(&mut self, receiver: OwnedFd) {
        self.receiver = Some(receiver);
    }

    /// Writes `more`; returns whether it is still open.
    pub(crate) fn write(&mut self, more: Bytes) -> bool {
        if !self.closed {
            self.handed += more.get();
        }
        !self.closed
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Writes to the socket what it takes.
    pub(crate) fn send(&mut self, zeros: &[u8]) -> Result<(), Errno> {
        while self.taken.get() < self.handed {
            let rest = usize::try_from(self.handed - self.taken.get()).unwrap_or(usize::MAX);
            let chunk = zeros.get(..rest).unwrap_or(zeros);
            match send(&self.sender, chunk, SendFlags::NOSIGNAL) {
                Ok(count) => self.taken.add(count as u64),
                // Wait until it is connected or has room.
                Err(Errno::AGAIN | Errno::NOTCONN | Errno::INPROGRESS) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Counts what has arrived, and reads it unless reading is paused.
    pub(crate) fn receive(&mut self, sink: &mut [u8]) -> Result<Step, Errno> {
        let Some(receiver) = &self.receiver else { return Ok(Step::Open) };
        if self.reading_paused {
            self.unread = ioctl_fionread(receiver)?;
            return Ok(Step::Open);
        }
        loop {
            match discard(receiver, sink)? {
                Some(0) => return Ok(Step::Closed),
                Some(count) => self.read += count,
                None => return Ok(Step::Open),
            }
        }
    }

    /// The receiving application reads `bytes`, or what there is.
    pub(crate) fn consume(&mut self, bytes: u64, sink: &mut [u8]) -> Result<(), Errno> {
        let Some(receiver) = &self.receiver else { return Ok(()) };
        let mut rest = bytes;
        while rest > 0 {
            let most = usize::try_from(rest).unwrap_or(usize::MAX).min(sink.len());
            match discard(receiver, &mut sink[..most])? {
                Some(0) | None => break,
                Some(count) => {
                    self.read += count;
                    rest -= count;
                }
            }
        }
        self.unread = ioctl_fionread(receiver)?;
        Ok(())
    }

    /// Octets known to have reached the receiving host.
    pub(crate) const fn arrived(&self) -> u64 {
        self.read + self.unread
    }

    pub(crate) const fn unread(&self) -> Bytes {
        Bytes::new(self.unread)
    }

    /// Removes and returns a mark that is reached.
    pub(crate) fn reached(&mut self) -> Option<Bytes> {
        let arrived = self.arrived();
        self.mark.take_if(|at| *at <= arrived).map(|_| Bytes::new(arrived))
    }

    /// Whether it is closed and all has arrived.
    pub(crate) const fn is_over(&self) -> bool {
        self.closed && self.arrived() == self.handed
    }

    pub(crate) fn pace(&self, rate: Option<Rate>) -> std::io::Result<()> {
        socket::pace(&self.sender, rate)
    }

    /// The kernel's statistics of the sender.
    pub(crate) fn info(&self) -> Option<Info> {
        socket::info(self.sender.as_fd()).ok()
    }

    pub(crate) fn state(&self) -> FlowState {
        let info = self.info().unwrap_or_default();
        // More may have arrived since the last event.
        let unread = match (&self.receiver, self.reading_paused) {
            (Some(receiver), true) => ioctl_fionread(receiver).unwrap_or(self.unread),
            _ => self.unread,
        };
        FlowState {
            sent: info.sent,
            delivered: Bytes::new(self.read + unread),
            unread: Bytes::new(unread),
            retransmissions: info.retransmissions,
            timeouts: info.timeouts,
        }
    }

    /// The rate to which the kernel paces it, and its progress; `frame` octets carry `mss` of payload.
    pub(crate) fn limited(&self, mss: u64, frame: u64) -> Option<LimitedFlow> {
        let info = self.info()?;
        let payload = info.pace?;
        Some(LimitedFlow {
            rate: payload.fraction(frame, mss),
            payload,
            unsent: Bytes::new(self.handed.saturating_sub(info.sent.get())),
            delivered: self.state().delivered,
        })
    }

    /// Whether the kernel at the receiver counted what the receiver read.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let Some(receiver) = &self.receiver else { return Ok(()) };
        let info = socket::info(receiver.as_fd()).map_err(|error| error.to_string())?;
        let (kernel, own) = (info.received.get(), self.arrived());
        // Zero on kernels before 4.1.
        if kernel != 0 && kernel != own {
            return Err(format!("{own} octets were read, the kernel received {kernel}"));
        }
        Ok(())
    }

    /// Aborts it with its data in flight.
    pub(crate) fn abort(self) {
        // If the socket is gone, nothing is in flight.
        let _ = sockopt::set_socket_linger(&self.sender, Some(Duration::ZERO));
    }
}

/// Closes both ends in order.
impl Drop for Flow {
    fn drop(&mut self) {
        // An end that is gone needs nothing.
        let _ = shutdown(&self.sender, Shutdown::Write);
    }
}

/// Reads without copying (`MSG_TRUNC`, tcp(7)); `None` when there is nothing.
fn discard(socket: impl AsFd, sink: &mut [u8]) -> Result<Option<u64>, Errno> {
    loop {
        return match recv(&socket, &mut *sink, RecvFlags::TRUNC) {
            Ok((_, count)) => Ok(Some(count as u64)),
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::INTR) => continue,
            Err(error) => Err(error),
        };
    }
}
