//! The tests of the codec, the session and the switch model, in one program.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod codec;
mod hostile;
mod messages;
mod session;
mod switch;

use proptest::test_runner::Config;

/// So many cases, or as many as `Config` has where these are more: it alone reads `PROPTEST_CASES`.
fn cases(least: u32) -> Config {
    let own = Config::default();
    Config { cases: own.cases.max(least), ..own }
}
