//! Where acknowledgements wait for their turn: an ifb device whose HTB lets one go in each gap.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use units::Span;

use crate::interfaces::index_of;
use crate::rtnetlink::{Dump, Found, Rtnetlink};
use crate::{Error, Namespace};

/// Acknowledgements that can wait at a port. Those that find no room are lost, as at a real queue.
pub(crate) const ROOM: u32 = 4096;

/// Octets that each acknowledgement counts as: more than any has.
const OCTETS: u16 = 256;

/// The time of what is to wait no longer.
const NONE: Span = Span::from_nanos(1);

/// How often, a millisecond apart, what still waits is looked for before the device goes.
const LOOKS: u32 = 100;

/// A device, which goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Spacer {
    socket: Rtnetlink,
    device: i32,
    name: String,
}

impl Spacer {
    /// The device for the acknowledgements that come in at an interface, by its number.
    ///
    /// # Errors
    /// The kernel has no ifb devices or no HTB, or doesn't allow them.
    pub(crate) fn start(namespace: &Namespace, interface: i32) -> Result<Self, Error> {
        namespace.visit(|| {
            let name = name(interface);
            let socket = Rtnetlink::open().map_err(Error::file("rtnetlink"))?;
            let made = socket.add_ifb(&name, ROOM);
            made.map_err(Error::file("an ifb device, on which acknowledgements wait"))?;
            let device = index_of(&name, namespace)?;
            let spacer = Self { socket, device, name };
            let made = spacer.socket.add_htb(device).and_then(|()| spacer.rate(NONE));
            made.map_err(Error::file("HTB, which spaces acknowledgements"))?;
            Ok(spacer)
        })
    }

    /// Removes what a process that was killed left at an interface. To be called where the interface is.
    pub(crate) fn remove_left(namespace: &Namespace, interface: i32) -> Result<(), Error> {
        let Ok(left) = index_of(&name(interface), namespace) else { return Ok(()) };
        Rtnetlink::open()
            .and_then(|socket| socket.remove(left))
            .map_err(Error::file(name(interface)))
    }

    /// Its number.
    pub(crate) const fn device(&self) -> i32 {
        self.device
    }

    /// Whether it is still there. To be called in its namespace.
    pub(crate) fn stands(&self, namespace: &Namespace) -> Result<(), Error> {
        let found = index_of(&self.name, namespace);
        let is_there = found.is_ok_and(|found| found == self.device);
        if is_there { Ok(()) } else { Err(Error::Gone(format!("interface {}", self.name))) }
    }

    /// Lets one go in each gap from now on; of `None`, all that wait.
    pub(crate) fn space(&self, gap: Option<Span>) -> Result<(), Error> {
        let set = self.rate(gap.unwrap_or(NONE));
        set.map_err(Error::file(format!("the class of {}", self.name)))
    }

    fn rate(&self, gap: Span) -> io::Result<()> {
        // Rounded so that the time of `OCTETS` is never below the gap.
        let rate = u64::from(OCTETS) * 1_000_000_000 / gap.as_nanos().saturating_add(1);
        self.socket.set_htb_class(self.device, rate.max(1), OCTETS)
    }

    /// How many wait.
    fn waiting(&self) -> io::Result<u32> {
        let mut waiting = 0;
        self.socket.dump(Dump::Disciplines, |found| {
            if found.interface == self.device && found.parent == Found::ROOT {
                waiting = found.waiting();
            }
            Ok(())
        })?;
        Ok(waiting)
    }
}

impl Drop for Spacer {
    fn drop(&mut self) {
        // The device may be gone already, with its namespace.
        if self.rate(NONE).is_ok() {
            for _ in 0..LOOKS {
                if !self.waiting().is_ok_and(|waiting| waiting > 0) {
                    break;
                }
                sleep(Duration::from_millis(1));
            }
        }
        let _ = self.socket.remove(self.device);
    }
}

fn name(interface: i32) -> String {
    format!("wm-acks{interface}")
}
