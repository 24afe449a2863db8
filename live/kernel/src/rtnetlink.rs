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
/// `NLM_F_REQUEST | NLM_F_ACK`, and with `NLM_F_CREATE`.
const CHANGE: u16 = 1 | 4;
const CREATE: u16 = CHANGE | 0x400;
/// `RTM_NEWLINK`, `RTM_DELLINK`, `RTM_NEWQDISC`, `RTM_NEWTCLASS`.
const NEW_LINK: u16 = 16;
const REMOVE_LINK: u16 = 17;
const NEW_DISCIPLINE: u16 = 36;
const NEW_CLASS: u16 = 40;
/// What the disciplines and classes made here are called: 1: and 1:1.
const HANDLE: u32 = 0x1_0000;
const CLASS: u32 = 0x1_0001;
/// `TCA_KIND`, `TCA_OPTIONS`, `TCA_STATS`.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 3;

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

    /// How many packets wait in it (`qlen` of `tc_stats`).
    pub fn waiting(&self) -> u32 {
        let mut rest = self.attributes;
        while rest.len() >= 4 {
            let mut header = Fields(rest);
            let (length, kind) = (usize::from(header.u16()), header.u16());
            if kind == STATISTICS {
                return Fields(rest.get(4 + 28..length).unwrap_or_default()).u32();
            }
            rest = rest.get(length.max(4).next_multiple_of(4)..).unwrap_or_default();
        }
        0
    }
}

/// An attribute: its length, its kind, what it says, and octets up to a multiple of 4.
fn attribute(kind: u16, says: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(4 + says.len().next_multiple_of(4));
    made.extend(u16::try_from(4 + says.len()).unwrap_or(u16::MAX).to_ne_bytes());
    made.extend(kind.to_ne_bytes());
    made.extend(says);
    made.resize(made.len().next_multiple_of(4), 0);
    made
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
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

impl Rtnetlink {
    /// Adds an ifb device, where `room` packets can wait, and sets it up.
    ///
    /// # Errors
    /// What the kernel says: EEXIST, EOPNOTSUPP without such devices.
    pub fn add_ifb(&self, name: &str, room: u32) -> io::Result<()> {
        // `ifinfomsg`, with `IFF_UP` set and said to be; then `IFLA_IFNAME`, `IFLA_TXQLEN` and
        // `IFLA_LINKINFO` with `IFLA_INFO_KIND`.
        let mut body = words(&[0, 0, 1, 1]);
        body.extend(attribute(3, &[name.as_bytes(), &[0]].concat()));
        body.extend(attribute(13, &room.to_ne_bytes()));
        body.extend(attribute(18, &attribute(1, b"ifb")));
        self.ask(NEW_LINK, CREATE | 0x200, &body)
    }

    /// Removes a device.
    ///
    /// # Errors
    /// What the kernel says: ENODEV where there is none of that number.
    pub fn remove(&self, device: i32) -> io::Result<()> {
        self.ask(REMOVE_LINK, CHANGE, &words(&[0, device.cast_unsigned(), 0, 0]))
    }

    /// Gives a device an HTB with class 1:1 for all packets, which [`Rtnetlink::set_htb_class`] makes.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn add_htb(&self, device: i32) -> io::Result<()> {
        let mut body = words(&[0, device.cast_unsigned(), HANDLE, Found::ROOT, 0]);
        body.extend(attribute(KIND, b"htb\0"));
        // `TCA_HTB_INIT` with `tc_htb_glob`: version 3, `r2q` 10, the default class.
        body.extend(attribute(OPTIONS, &attribute(2, &words(&[3, 10, CLASS & 0xffff, 0, 0]))));
        self.ask(NEW_DISCIPLINE, CREATE, &body)
    }

    /// Has class 1:1 of a device's HTB send at `rate`, octets per second, without bursts: a packet waits
    /// until the time of the one before is over. Packets count as `least` octets at least (Linux 5.17).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_htb_class(&self, device: i32, rate: u64, least: u16) -> io::Result<()> {
        let mut body = words(&[0, device.cast_unsigned(), CLASS, HANDLE, 0]);
        body.extend(attribute(KIND, b"htb\0"));
        // `tc_ratespec`: Ethernet's link layer, so that no table of times is needed, the least size, and the
        // rate as far as it goes; what is above comes beside it.
        let narrow = u32::try_from(rate).unwrap_or(u32::MAX);
        let spec = [&[0, 1, 0, 0, 0, 0][..], &least.to_ne_bytes(), &narrow.to_ne_bytes()].concat();
        // `tc_htb_opt`: `rate`, `ceil`, `buffer`, `cbuffer`, `quantum`, `level`, `prio`.
        let options = [&spec[..], &spec, &words(&[0, 0, 1514, 0, 0])].concat();
        let whole = rate.to_ne_bytes();
        // `TCA_HTB_PARMS`, `TCA_HTB_RATE64`, `TCA_HTB_CEIL64`.
        let parts = [attribute(1, &options), attribute(6, &whole), attribute(7, &whole)];
        body.extend(attribute(OPTIONS, &parts.concat()));
        self.ask(NEW_CLASS, CREATE, &body)
    }

    /// Has something done, and waits for the answer.
    fn ask(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend(u32::try_from(HEADER + body.len()).unwrap_or(0).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.resize(HEADER, 0);
        request.extend(body);
        sendto(&self.0, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut buffer = [0; 4096];
        let (length, _) = recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
        answered(&buffer[..length])
    }
}

/// What the kernel answers to a request: an error, of which 0 is none.
fn answered(datagram: &[u8]) -> io::Result<()> {
    let mut header = Fields(datagram);
    let (_length, kind) = (header.u32(), header.u16());
    let code = datagram.get(HEADER..HEADER + 4).filter(|_| kind == NLMSG_ERROR).ok_or_else(cut)?;
    match Fields(code).u32().cast_signed() {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
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
