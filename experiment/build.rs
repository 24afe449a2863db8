//! Gives the library an identity: a hash of all sources that a result depends on, so that cached
//! results are told from those of another build. How they are judged and shown is left out.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    const SOURCES: [&str; 5] = ["../core", "../document", "../simulate", "src", "../Cargo.lock"];
    const WITHOUT: [&str; 6] = [
        "src/choice.rs",
        "src/published.rs",
        "src/report",
        "src/reproduce",
        "src/store.rs",
        "src/table.rs",
    ];
    let mut hasher = DefaultHasher::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        add(Path::new(source), &WITHOUT, &mut hasher)?;
    }
    println!("cargo::rustc-env=WATERMASTER_SOURCES={:016x}", hasher.finish());
    Ok(())
}

/// Adds the file or all Rust sources below the directory `path`, in a fixed order.
fn add(path: &Path, without: &[&str], hasher: &mut DefaultHasher) -> io::Result<()> {
    if without.iter().any(|other| path == Path::new(other)) {
        return Ok(());
    }
    if path.is_dir() {
        let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
        let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        return entries.iter().try_for_each(|entry| {
            let name = entry.file_name().unwrap_or_default();
            if name == "tests" || name == "target" { Ok(()) } else { add(entry, without, hasher) }
        });
    }
    if path.extension().is_some_and(|end| end == "rs" || end == "lock") {
        hasher.write(path.to_string_lossy().as_bytes());
        hasher.write(&fs::read(path)?);
    }
    Ok(())
}
