//! Connections prepared before their flow starts, so that only the first packet is sent at its
//! time.

use std::collections::BTreeMap;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

use model::NodeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, bind, connect, getpeername, getsockname, sockopt};

/// How long an empty network may take to connect two hosts, seconds.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// One end, or both.
pub(crate) struct Ready {
    pub(crate) sender: OwnedFd,
    /// The address of that end.
    pub(crate) own: SocketAddrV4,
    /// The other end; `None` until connected.
    pub(crate) receiver: Option<OwnedFd>,
}

impl Ready {
    /// All but the handshake, on a socket made in the namespace of `address`.
    pub(crate) fn bound(sender: OwnedFd, address: std::net::Ipv4Addr) -> Result<Self, Errno> {
        sockopt::set_tcp_nodelay(&sender, true)?;
        bind(&sender, &SocketAddr::from((address, 0)))?;
        let own = SocketAddrV4::try_from(getsockname(&sender)?)?;
        Ok(Self { sender, own, receiver: None })
    }

    /// Starts to connect without waiting.
    pub(crate) fn connect(&self, there: SocketAddrV4) -> Result<(), Errno> {
        match connect(&self.sender, &SocketAddr::V4(there)) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Connects to the listener at `there`, which must have no other acceptor.
    pub(crate) fn meet(&mut self, listener: impl AsFd, there: SocketAddrV4) -> Result<(), Errno> {
        self.connect(there)?;
        while self.receiver.is_none() {
            let mut wait = [PollFd::new(&listener, PollFlags::IN)];
            match poll(&mut wait, Some(&PATIENCE)) {
                Ok(0) => return Err(Errno::TIMEDOUT),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            let (receiver, peer) = match accept(&listener)? {
                Some(accepted) => accepted,
                None => continue,
            };
            // Skip connections that were abandoned.
            self.receiver = Some(receiver).filter(|_| peer == Some(self.own));
        }
        Ok(())
    }
}

/// The next incoming connection, if any, and its peer, if still connected.
pub(crate) fn accept(
    listener: impl AsFd,
) -> Result<Option<(OwnedFd, Option<SocketAddrV4>)>, Errno> {
    loop {
        return match accept_with(&listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(receiver) => {
                let peer = getpeername(&receiver).ok().flatten();
                let peer = peer.and_then(|peer| SocketAddrV4::try_from(peer).ok());
                Ok(Some((receiver, peer)))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => Err(error),
        };
    }
}

/// Those that wait for their flow, by sender and receiver.
pub(crate) type Waiting = BTreeMap<(NodeId, NodeId), Vec<Ready>>;
