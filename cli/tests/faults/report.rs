//! The table: a line for each fault, kept where `make faults` finds it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::cluster::Suffered;

/// Notes what a fault did: what was `seen`, and what the traffic suffered meanwhile. `place` orders
/// the lines.
pub fn note(place: u32, fault: &str, suffered: &Suffered, seen: &str) {
    let Suffered { losses, gap, again, dropped, .. } = suffered;
    let line = format!(
        "| {fault} | {} of {} | {} | {} | {again} | {dropped} | {seen} |\n",
        losses.lost,
        losses.sent,
        seconds(losses.outage),
        seconds(*gap),
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{place:02}.row")), &line).unwrap();
    println!("{line}");
}

/// As people read it.
pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
