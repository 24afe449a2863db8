//! A program that brings its own panic handler and allocator, and nothing but `core` and `alloc`.
//!
//! If one of the crates it uses pulled in the standard library, that would bring a second panic
//! handler, and this crate would not compile (E0152). So this command is the check:
//!
//! ```text
//! cargo check --manifest-path checks/no-std/Cargo.toml
//! ```
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;


use agent::Trigger;
use control::{Controller, Input};
use model::build::{Access, star};
use model::{Buffer, Declared, JobId, LinkSpec, Network, Thresholds};
use openflow::switch::{Output, Switch};
use openflow::{Config, Message, Session, Side};
use protocol::application::Declaration;
use units::{Rate, Span, Time};

/// Refuses every request; nothing here is ever run.
struct NoMemory;

// SAFETY: a null pointer is how an allocator says that it has nothing, so none is ever freed.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Uses each crate, so that its code is compiled in.
#[unsafe(no_mangle)]
pub extern "C" fn watermaster_decide() -> usize {
    let link = LinkSpec {
        capacity: Rate::from_mbps(100),
        delay: Span::ZERO,
        buffer: Buffer::Unlimited,
        mark: None,
    };
    let nic = link.buffer;
    let Ok(topology) = star(2, &Access { link, nic }) else {
        return 0;
    };
    let network = Network::new(topology);
    let mut out = Vec::new();
    for name in policy::NAMES {
        if let Ok(mut policy) = policy::by_name(name, &policy::Parameters::default()) {
            let observation = Declared::JobStart { job: JobId(0), application: "".into() }.into();
            policy.observe(Time::ZERO, &network, &observation);
            policy.decide(Time::ZERO, &network, &mut out);
        }
    }
    let thresholds = Thresholds { low: 30, medium: 60, high: 85, recovery: Span::from_secs(1) };
    let congested = Trigger::new(thresholds).observe(90, || Time::ZERO).is_some();
    let declaration = Declaration::JobStart { job: "job".into() };
    usize::from(congested) + out.len() + conversation() + control(&declaration)
}

/// A controller that hears a declaration.
fn control(declaration: &Declaration) -> usize {
    let mut out = Vec::new();
    let Ok(policy) = policy::by_name("tcp", &policy::Parameters::default()) else {
        return 0;
    };
    if let Ok(mut controller) = Controller::new(control::Config::new("tcp", policy), 1, Time::ZERO) {
        let input = Input::Declared { application: "application", declaration };
        let taken = controller.observe(Time::ZERO, input).is_ok();
        controller.decide(&mut out);
        return usize::from(taken) + out.len();
    }
    0
}

/// A controller's session with a switch model.
fn conversation() -> usize {
    let mut session = Session::new(Config::new(Side::Controller), Time::ZERO);
    let mut switch = Switch::new(1, 1);
    let mut answers = Output::default();
    if let Ok((xid, message)) = Message::decode(session.output()) {
        switch.handle(Time::ZERO, xid, &message, &mut answers);
    }
    for answer in &answers.messages {
        session.receive(Time::ZERO, answer);
    }
    usize::from(session.poll(Time::ZERO).is_some())
}
