//! The tests of the codec, the session and the switch model, in one program.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod codec;
mod hostile;
mod messages;
mod session;
mod switch;
