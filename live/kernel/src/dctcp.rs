//! DCTCP (RFC 8257) where the kernel may lack it: its own, or ours as a BPF program.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::Link;

use crate::Error;
use crate::objects::{DCTCP, map_mut, open_map};

/// What the kernel offers to everybody and every namespace.
const OFFERED: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// The kernel's own.
const KERNEL: &str = "dctcp";
/// How ours is called in the object, and what its names begin with.
const OURS: &str = "wm_dctcp";
/// Octets of a name in the kernel, with the zero at its end (`TCP_CA_NAME_MAX`).
const NAME: usize = 16;
/// How many this process has registered.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A congestion control of the name [`Dctcp::name`], for `TCP_CONGESTION` and for `congctl` of
/// routes.
///
/// All network namespaces have it. `net.ipv4.tcp_congestion_control` of a namespace other than the
/// first refuses it, and so does a socket without the capability NET_ADMIN.
#[derive(Debug)]
pub struct Dctcp {
    name: String,
    /// Ours is offered while this lives. Connections that speak it keep it until they end.
    link: Option<Link>,
}

impl Dctcp {
    /// The kernel's own where it has one, ours otherwise. Ours goes with the value, or with the
    /// process however that ends; each has another name, so that none ends that of another.
    ///
    /// # Errors
    /// [`Error::Load`], [`Error::Bpf`]: the kernel (before 6.4) takes no congestion control that
    /// ends with its holder.
    pub fn obtain() -> Result<Self, Error> {
        let offered = fs::read_to_string(OFFERED).map_err(Error::file(OFFERED))?;
        if offered.split_ascii_whitespace().any(|name| name == KERNEL) {
            return Ok(Self { name: KERNEL.to_owned(), link: None });
        }
        Self::ours()
    }

    /// Ours, whatever the kernel has.
    ///
    /// # Errors
    /// As [`Self::obtain`].
    pub fn ours() -> Result<Self, Error> {
        let mut object = DCTCP.open()?;
        // A process has 22 bits at most; seven digits in all leave room for the zero.
        let count = COUNT.fetch_add(1, Ordering::Relaxed) & 63;
        let name = format!("{OURS}{:07x}", (process::id() & 0x3f_ffff) << 6 | count);
        let mut padded = [0; NAME];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        let mut operations = open_map(&mut object, KERNEL);
        let value = operations.initial_value_mut().expect("it is filled in by the object");
        let place = value.windows(NAME).position(|part| part.starts_with(OURS.as_bytes()));
        let place = place.expect("the object has a name");
        value[place..place + NAME].copy_from_slice(&padded);
        let mut object = DCTCP.load(object)?;
        let link = map_mut(&mut object, KERNEL).attach_struct_ops();
        let link = link.map_err(Error::bpf("register a congestion control"))?;
        Ok(Self { name, link: Some(link) })
    }

    /// What sockets and routes call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the kernel's own.
    pub fn is_kernels(&self) -> bool {
        self.link.is_none()
    }
}
