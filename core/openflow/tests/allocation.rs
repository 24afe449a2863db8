//! Reading a message, and all that is in it, allocates nothing; writing into a buffer with room
//! doesn't either.
#![allow(clippy::unwrap_used)] // a test may panic

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use watermaster_openflow::*;

/// The system's allocator, counting what each thread asks for.
struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn reading_and_writing_allocate_nothing() {
    let fields = [Field::exact(Kind::InPort, 3_u8).into()];
    let actions = [Action::DecNwTtl, Action::output(PortNo(4))];
    let instructions = [Instruction::ApplyActions(List::of(&actions))];
    let flow = FlowMod {
        fields: List::of(&fields),
        instructions: List::of(&instructions),
        ..FlowMod::ADD
    };
    let mut bytes = Vec::with_capacity(1000);
    let before = ASKED.get();
    Message::FlowMod(flow).encode(7, &mut bytes).unwrap();
    let (xid, message) = Message::decode(&bytes).unwrap();
    let Message::FlowMod(read) = message else { panic!() };
    let count: usize = read
        .instructions
        .iter()
        .map(|instruction| match instruction {
            Instruction::ApplyActions(actions) => actions.iter().count(),
            _ => 0,
        })
        .sum();
    let asked = ASKED.get() - before;
    assert_eq!((xid, read, count, asked), (7, flow, 2, 0));
    // And the count works.
    drop(Box::new(5));
    assert_eq!(ASKED.get() - before, 1);
}
