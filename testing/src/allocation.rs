//! Work that is counted, not timed: how often a program asks for memory, and how much it has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting what each thread asks for. A test's program makes it its own with
/// `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + 1);
        HELD.set(HELD.get() + layout.size().cast_signed() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size().cast_signed() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// How often this thread asks for memory while it does `work`.
pub fn asked(work: impl FnOnce()) -> u64 {
    let before = ASKED.get();
    work();
    ASKED.get() - before
}

/// Octets that this thread has asked for and not given back, since it began. What another thread gives back
/// counts there.
#[must_use]
pub fn held() -> i64 {
    HELD.get()
}

/// Holds that `work` on twice as much asks for memory about twice as often, not four times.
pub fn grows_no_faster_than_its_input(size: u32, mut work: impl FnMut(u32)) {
    let (once, twice) = (asked(|| work(size)), asked(|| work(2 * size)));
    assert!(once > 0, "the allocator counts");
    assert!(twice <= 3 * once, "{once} allocations for {size}, {twice} for twice as much");
}
