//! A flow of UDP datagrams with both its ends in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use engine::FlowState;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, getsockname, recv,
    send, socket_with,
};
use units::Bytes;

/// A socket for datagrams in this thread's namespace.
pub(crate) fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)
}

/// A sender, connected to its receiver.
pub(crate) struct Datagrams {
    sender: OwnedFd,
    receiver: OwnedFd,
    sent: u64,
    received: u64,
}

impl Datagrams {
    /// Between these sockets of hosts with these addresses.
    pub(crate) fn connected(
        (sender, src): (OwnedFd, Ipv4Addr),
        (receiver, dst): (OwnedFd, Ipv4Addr),
    ) -> Result<Self, Errno> {
        bind(&sender, &SocketAddr::from((src, 0)))?;
        bind(&receiver, &SocketAddr::from((dst, 0)))?;
        connect(&sender, &getsockname(&receiver)?)?;
        Ok(Self { sender, receiver, sent: 0, received: 0 })
    }

    /// The addresses of its ends.
    pub(crate) fn ends(&self) -> Result<[SocketAddr; 2], Errno> {
        let address = |end| SocketAddr::try_from(getsockname(end)?);
        Ok([address(&self.sender)?, address(&self.receiver)?])
    }

    pub(crate) const fn receiver(&self) -> &OwnedFd {
        &self.receiver
    }

    /// Sends one. Where the host itself has no room for it, it is lost there.
    pub(crate) fn send(&mut self, payload: &[u8]) -> Result<(), Errno> {
        self.sent += payload.len() as u64;
        match send(&self.sender, payload, SendFlags::NOSIGNAL) {
            Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes what has arrived.
    pub(crate) fn receive(&mut self, sink: &mut [u8]) -> Result<(), Errno> {
        loop {
            match recv(&self.receiver, &mut *sink, RecvFlags::TRUNC) {
                Ok((_, count)) => self.received += count as u64,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn state(&self) -> FlowState {
        FlowState {
            sent: Bytes::new(self.sent),
            delivered: Bytes::new(self.received),
            ..FlowState::default()
        }
    }
}
