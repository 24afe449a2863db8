//! What tests of several rooms begin with.

use protocol::Connection;

use crate::config::Config;

/// A configuration whose policy decides nothing.
pub(crate) fn config() -> Config {
    let policy = policy::by_name("tcp", &policy::Parameters::default()).expect("it is known");
    Config::new("tcp", policy)
}

/// A connection of the first host to the second one, by its port there.
pub(crate) fn connection(port: u16) -> Connection {
    Connection { source: ([10, 0, 0, 1], port).into(), destination: ([10, 0, 0, 2], 5000).into() }
}
