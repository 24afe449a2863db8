//! What the crates below offer only as unsafe; there is no other unsafe code.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use libbpf_rs::{AsRawLibbpf, Link, ProgramMut, RingBuffer, libbpf_sys};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Attaches a program of a `tcx/` section, in the namespace of the calling thread, with a link that
/// ends with its holder (Linux 6.6).
pub(crate) fn attach_tcx(program: &ProgramMut<'_>, interface: i32) -> libbpf_rs::Result<Link> {
    // SAFETY: the program is a loaded one that `program` borrows; null stands for no options.
    let link = unsafe {
        libbpf_sys::bpf_program__attach_tcx(
            program.as_libbpf_object().as_ptr(),
            interface,
            ptr::null(),
        )
    };
    let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the link was made above and nobody else has it.
    Ok(unsafe { Link::from_ptr(link) })
}

/// Moves the calling thread into a new network namespace.
pub(crate) fn enter_new_namespace() -> io::Result<()> {
    // SAFETY: only the network namespace is left, and no table of file descriptors.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// What is readable when a ring has something.
pub(crate) fn descriptor<'a>(ring: &'a RingBuffer<'_>) -> BorrowedFd<'a> {
    // SAFETY: the ring keeps it open as long as it lives, which is longer than the borrow.
    unsafe { BorrowedFd::borrow_raw(ring.epoll_fd()) }
}
