//! A hint to the processor: the only unsafe code of the simulated worlds.
#![allow(unsafe_code)]

/// Octets of a cache line.
const LINE: usize = 64;

/// Has the processor fetch all cache lines of `place`, which will be read or written soon. Where it
/// can't be told, nothing happens.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        let first = std::ptr::from_ref(place).cast::<i8>();
        for line in 0..size_of::<T>().div_ceil(LINE) {
            // SAFETY: `first` points to a live `T`, and the offset stays below its size. The hint itself
            // reads and writes nothing that a program could see, and faults for no address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.add(line * LINE)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (place, LINE);
}
