//! An agent that can't start says why and leaves nothing behind. Needs root.
#![allow(clippy::unwrap_used)] // a test may panic

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use agentd::StartError;
use kernel::{Pacer, PacerOptions, Stopped};

/// A configuration in a folder of its own, and where it has things pinned.
struct Configured {
    file: PathBuf,
    pins: PathBuf,
    _folder: tempfile::TempDir,
}

fn configured(test: &str, host: &str, more: &str) -> Option<Configured> {
    if !testing::needs::root() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, pins) = (
        folder.path().join("agent.toml"),
        PathBuf::from(format!("/run/wms-{}-{test}", process::id())),
    );
    let text = format!(
        "name = \"h1\"\ncontroller = \"http://127.0.0.1:1\"\npins = \"{}\"\n{more}\n\
         [[host]]\nname = \"h1\"\naddresses = [\"10.0.0.1\"]\n{host}\n",
        pins.display()
    );
    fs::write(&file, text).unwrap();
    Some(Configured { file, pins, _folder: folder })
}

/// Why an agent does not start.
async fn refused(file: &Path) -> StartError {
    let run = agentd::run(file);
    tokio::time::timeout(Duration::from_secs(60), run).await.expect("it started").unwrap_err()
}

#[tokio::test]
async fn what_the_configuration_names_must_be_there() {
    let interface = "[[interface]]\nnode = \"h1\"\ninterface = \"none0\"\nrate = \"1 Gbit/s\"\n\
                     buffer = \"100 packets\"";
    let cases = [
        ("namespace", "namespace = \"none\"", "", "namespace = \"none\"", "ip netns add"),
        (
            "cgroup",
            "",
            "cgroup = \"/sys/fs/cgroup/none\"",
            "cgroup = \"/sys/fs/cgroup/none\"",
            "mkdir",
        ),
        ("folder", "", "cgroup = \"/tmp\"", "cgroup = \"/tmp\"", "control groups, version 2"),
        ("file", "", "cgroup = \"/etc/passwd\"", "cgroup = \"/etc/passwd\"", "control groups"),
        ("interface", interface, "", "interface = \"none0\"", "correct the name"),
    ];
    for (test, host, more, field, remedy) in cases {
        let Some(configured) = configured(test, host, more) else { return };
        let error = refused(&configured.file).await;
        assert!(matches!(error, StartError::Absent { .. }), "{error}");
        let said = error.to_string();
        let file = configured.file.display().to_string();
        for part in [file.as_str(), field, remedy] {
            assert!(said.contains(part), "{said}: {part}");
        }
        assert!(!configured.pins.exists(), "{test}: something is left behind");
    }
}

#[tokio::test]
async fn pins_need_a_directory() {
    let Some(configured) = configured("taken", "", "") else { return };
    let Configured { file, pins, .. } = &configured;
    fs::write(pins, "a file").unwrap();
    let error = refused(file).await;
    fs::remove_file(pins).unwrap();
    let said = error.to_string();
    let field = format!("{}: pins = \"{}\": ", file.display(), pins.display());
    assert!(said.starts_with(&field) && said.contains("; name a directory"), "{said}");
}

#[tokio::test]
async fn pins_belong_to_one_agent_at_a_time() {
    let Some(configured) = configured("pins", "", "") else { return };
    let options = PacerOptions {
        pins: configured.pins.clone(),
        name: "h1".to_owned(),
        ..PacerOptions::default()
    };
    let first = Pacer::start(&options).unwrap();
    let error = refused(&configured.file).await;
    let taken = configured.pins.join("h1");
    assert!(
        matches!(&error, StartError::Kernel(kernel::Error::Taken(path)) if *path == taken),
        "{error}"
    );
    assert!(
        error.to_string().starts_with(&format!("another agent uses {}; stop it", taken.display()))
    );
    // What the first one pinned is still there.
    assert!(taken.join("link").exists());
    // One that was killed leaves its pins to the next one.
    drop(first);
    let next = Pacer::start(&options).unwrap();
    assert_eq!(next.stop(&[]).unwrap(), Stopped::Clean);
    assert!(!configured.pins.exists());
    // The domain name of a host is one for an agent too.
    let options = PacerOptions { name: "h1.dc1.example.org".to_owned(), ..options };
    assert_eq!(Pacer::start(&options).unwrap().stop(&[]).unwrap(), Stopped::Clean);
}
