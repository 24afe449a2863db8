//! Integer quantities that cross every public boundary of Watermaster.
//!
//! | type    | counts            | representation | range              |
//! |---------|-------------------|----------------|--------------------|
//! | [`Time`]  | instant on the run's clock | `u64` ns | 0 to 584 years |
//! | [`Span`]  | length of time    | `u64` ns       | 0 to 584 years     |
//! | [`Bytes`] | octets            | `u64`          | 0 to 18.4 EB       |
//! | [`Rate`]  | bits per second   | `u64`          | 0 to 18.4 Ebit/s   |
//!
//! Arithmetic saturates: a quantity can reach the end of its range, it can't wrap around. Each
//! conversion states its rounding, and always rounds so that a capacity is never exceeded.
//! Which bytes a rate counts (frame or payload) is stated where the rate is used.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bytes;
mod parse;
mod rate;
mod time;

pub use bytes::Bytes;
pub use parse::ParseUnitError;
pub use rate::Rate;
pub use time::{Span, Time};

const NS_PER_S: u64 = 1_000_000_000;
const BITS_PER_BYTE: u64 = 8;
