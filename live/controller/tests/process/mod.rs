//! A test program once more, as a controller's process.

use std::path::Path;
use std::sync::Arc;

/// Names the configuration of the controller that this program is, where it is one.
pub const CONFIG: &str = "CONTROLLER_CONFIG";
/// With these it is one.
pub const ARGUMENTS: [&str; 4] = ["--exact", "process::daemon", "--ignored", "--nocapture"];

#[test]
#[ignore = "other tests start it"]
fn daemon() {
    let Some(file) = std::env::var_os(CONFIG) else { return };
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(controller::run(Path::new(&file), Arc::default(), || ())).unwrap();
}
