//! Attaching to an interface with a link that ends with its holder (Linux 6.6); the only unsafe code.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{self, NonNull};

use libbpf_rs::{AsRawLibbpf, Link, ProgramMut, libbpf_sys};

/// Attaches a program of a `tcx/` section, in the namespace of the calling thread.
pub(crate) fn attach(program: &ProgramMut<'_>, interface: i32) -> libbpf_rs::Result<Link> {
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
