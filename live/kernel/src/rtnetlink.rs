//! What is set up at the interfaces of a network namespace for traffic control, as the kernel tells it
//! (rtnetlink(7)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use crate::layout::Fields;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: u16 = 1 | 0x300;
/// `nlmsghdr` and `tcmsg`, octets.
const HEADER: usize = 16;
const TCMSG: usize = 20;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// Queueing disciplines, of all interfaces.
    Disciplines,
    /// The classes of an interface, by its number.
    Classes(i32),
}

impl Dump {
    /// `RTM_NEWQDISC`, `RTM_NEWTCLASS`; two more are `RTM_GETQDISC`, `RTM_GETTCLASS`.
    const fn answer(self) -> u16 {
        match self {
            Self::Disciplines => 36,
            Self::Classes(_) => 40,
        }
    }
}

/// A queueing discipline or a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The number of its interface.
    pub interface: i32,
    /// As tc writes it: 1:10 is `0x10010`.
    pub handle: u32,
    /// What it is below, [`Found::ROOT`] for nothing.
    pub parent: u32,
    /// All else.
    pub attributes: &'a [u8],
}

impl Found<'_> {
    /// `TC_H_ROOT`.
    pub const ROOT: u32 = u32::MAX;
}

/// A socket to ask by.
#[derive(Debug)]
pub struct Rtnetlink(OwnedFd);

impl AsFd for Rtnetlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Rtnetlink {
    /// One for the namespace that the calling thread is in.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn open() -> io::Result<Self> {
        // NETLINK_ROUTE is protocol 0.
        let flags = SocketFlags::CLOEXEC;
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?))
    }

    /// Hands on all that there is.
    ///
    /// # Errors
    /// What the kernel says, or `each`.
    pub fn dump(
        &self,
        what: Dump,
        mut each: impl FnMut(Found<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let interface = match what {
            Dump::Disciplines => 0,
            Dump::Classes(interface) => interface,
        };
        let mut request = Vec::new();
        request.extend(u32::try_from(HEADER + TCMSG).unwrap_or(0).to_ne_bytes());
        request.extend((what.answer() + 2).to_ne_bytes());
        request.extend(DUMP.to_ne_bytes());
        request.resize(HEADER + 4, 0);
        request.extend(interface.to_ne_bytes());
        request.resize(HEADER + TCMSG, 0);
        sendto(&self.0, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let (length, _) = recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
            if !parse(&buffer[..length], what, &mut each)? {
                return Ok(());
            }
        }
    }
}

/// That something the kernel said ends before it should.
pub fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message is cut short")
}

/// Reads one datagram of a dump; returns whether more follow.
fn parse(
    mut datagram: &[u8],
    what: Dump,
    each: &mut impl FnMut(Found<'_>) -> io::Result<()>,
) -> io::Result<bool> {
    while !datagram.is_empty() {
        let mut header = Fields(datagram);
        let (length, kind) = (header.u32() as usize, header.u16());
        let message = datagram.get(..length).filter(|_| length >= HEADER).ok_or_else(cut)?;
        let body = |least: usize| Some(&message[HEADER..]).filter(|body| body.len() >= least);
        if kind == NLMSG_DONE {
            return Ok(false);
        } else if kind == NLMSG_ERROR {
            let code = Fields(body(4).ok_or_else(cut)?).u32().cast_signed();
            return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
        } else if kind == what.answer() {
            let mut fields = Fields(body(TCMSG).ok_or_else(cut)?);
            let [_family, interface, handle, parent, _more] = [(); 5].map(|()| fields.u32());
            let interface = interface.cast_signed();
            each(Found { interface, handle, parent, attributes: fields.0 })?;
        }
        // The last message may end where the datagram does.
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may panic
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u32]) -> Vec<u8> {
        let mut message = Vec::new();
        message.extend(u32::try_from(HEADER + 4 * body.len()).unwrap().to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.resize(HEADER, 0);
        message.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
        message
    }

    fn handles(datagram: &[u8], what: Dump) -> io::Result<(bool, Vec<u32>)> {
        let mut found = Vec::new();
        let more = parse(datagram, what, &mut |each| {
            found.push(each.handle);
            Ok(())
        })?;
        Ok((more, found))
    }

    #[test]
    fn only_what_was_asked_for_is_handed_on() {
        let discipline = message(36, &[0, 7, 0x1_0000, Found::ROOT, 0, 1]);
        let class = message(40, &[0, 7, 0x1_0010, 0x1_0000, 0]);
        let both = [discipline, class].concat();
        assert_eq!(handles(&both, Dump::Disciplines).unwrap(), (true, vec![0x1_0000]));
        assert_eq!(handles(&both, Dump::Classes(7)).unwrap(), (true, vec![0x1_0010]));
        let end = [message(NLMSG_DONE, &[0]), both].concat();
        assert_eq!(handles(&end, Dump::Classes(7)).unwrap(), (false, vec![]));
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        let whole = message(36, &[0, 7, 0x1_0000, Found::ROOT, 0]);
        for length in 1..whole.len() {
            assert!(handles(&whole[..length], Dump::Disciplines).is_err(), "{length}");
        }
        let short = message(36, &[0, 7, 0x1_0000, Found::ROOT]);
        assert!(handles(&short, Dump::Disciplines).is_err());
        // A length that would loop forever.
        let mut endless = whole;
        endless[..4].fill(0);
        assert!(handles(&endless, Dump::Disciplines).is_err());
        let denied = message(NLMSG_ERROR, &[(-1_i32).cast_unsigned()]);
        let error = handles(&denied, Dump::Disciplines).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
