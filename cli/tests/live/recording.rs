//! Recordings, their replay, and a recording that can't go on.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use control::OwnedInput;
use control::record::{self, Content, Digest, Record, Records};
use protocol::application::Declaration;
use serde_json::json;
use testing::wait::until;
use units::{Bytes, Span};

use crate::daemon::{Agent, Daemon, PATIENCE, config, declare};

fn recorder() -> String {
    config("[recorder]\ndirectory = \"records\"\n[policy]\nname = \"sff\"\n")
}

fn declared(flow: u64) -> serde_json::Value {
    json!({ "type": "flow_request", "job": "j", "flow": flow.to_string(), "bytes": 1_000_000 + flow, "connection":
        { "source": format!("10.0.0.1:{}", 4000 + flow), "destination": "10.0.0.2:80" } })
}

#[test]
fn a_page_is_written_over_no_recording_and_nothing_that_is_no_page() {
    let mut daemon = Daemon::start(&recorder());
    daemon.signal("-TERM");
    assert!(daemon.wait().success());
    let file = daemon.path("records/epoch-000001.000.record");
    let before = std::fs::read(&file).unwrap();
    let filmed = |to: &Path, more: &[&str]| {
        let words = ["replay", file.to_str().unwrap(), "--page", to.to_str().unwrap()];
        let done = daemon.command(&[&words[..], more].concat());
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (copy, link) = (daemon.path("copy"), daemon.path("page.html"));
    std::fs::copy(&file, &copy).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for to in [&file, &link, &copy] {
        for more in [&["-q"][..], &["-q", "--force"]] {
            let (code, said) = filmed(to, more);
            assert!(code == Some(2) && said.contains("name another"), "{code:?}: {said}");
            assert_eq!(std::fs::read(to).unwrap(), before);
        }
    }
    let notes = daemon.path("notes.html");
    std::fs::write(&notes, "<!doctype html>\nmine").unwrap();
    let (code, said) = filmed(&notes, &["-q"]);
    assert!(code == Some(2) && said.contains("add --force"), "{code:?}: {said}");
    assert_eq!(std::fs::read(&notes).unwrap(), b"<!doctype html>\nmine");
    // A recording of nothing is compared with nothing: 1.
    for more in [&["-q", "--force"][..], &["-q"]] {
        let (code, said) = filmed(&notes, more);
        assert_eq!(code, Some(1), "{said}");
        assert!(std::fs::read_to_string(&notes).unwrap().contains("<title>Watermaster</title>"));
    }
}

#[tokio::test]
async fn a_replay_decides_what_was_decided_then() {
    let mut daemon = Daemon::start(&recorder());
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &[("h0", "10.0.0.1")], 0).await;
    agent.hear().await.unwrap();
    let mut client = daemon.client().await;
    declare(&mut client, "a", &json!([{ "type": "job_start", "job": "j" }])).await;
    for flow in 0..200 {
        assert!(declare(&mut client, "a", &declared(flow)).await.0.is_success());
    }
    // Several at once, so that one turn has what more than one says.
    let mut many = tokio::task::JoinSet::new();
    for number in 0..8 {
        let mut client = daemon.client().await;
        many.spawn(async move {
            let name = format!("b{number}");
            declare(&mut client, &name, &json!([{ "type": "job_start", "job": "j" }])).await;
            for flow in 1..100 {
                let mut request = declared(flow);
                request["connection"]["source"] =
                    json!(format!("10.0.0.1:{}", 5000 + number * 100 + flow));
                let gone =
                    json!({ "type": "flow_complete", "job": "j", "flow": (flow - 1).to_string() });
                let said = if flow > 1 { json!([request, gone]) } else { request };
                assert!(declare(&mut client, &name, &said).await.0.is_success());
            }
        });
    }
    while let Some(done) = many.join_next().await {
        done.unwrap();
    }
    // A reload is a part of the story.
    std::fs::write(daemon.path("controller.toml"), recorder().replace("sff", "fair")).unwrap();
    daemon.signal("-HUP");
    daemon.until("/v1/status", |status| status["policy"] == "fair").await;
    assert!(declare(&mut client, "a", &declared(200)).await.0.is_success());
    daemon.signal("-TERM");
    assert!(daemon.wait().success());
    let file = daemon.path("records/epoch-000001.000.record");
    let replayed = daemon.command(&["replay", file.to_str().unwrap(), "--json"]);
    let said = String::from_utf8(replayed.stdout).unwrap();
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
    let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert!(last["inputs"].as_u64() > Some(200) && last["outputs"].as_u64() > Some(100), "{last}");
    assert_eq!((&last["differs_after"], &last["truncated"]), (&json!(null), &json!(false)));
    // Who asks for the summary alone gets one object, with the verdict.
    let summary = |code: i32| {
        let replayed = daemon.command(&["replay", file.to_str().unwrap(), "--json", "-q"]);
        assert_eq!(replayed.status.code(), Some(code), "{}", stderr(&replayed));
        serde_json::from_slice::<serde_json::Value>(&replayed.stdout).unwrap()
    };
    let said = summary(0);
    assert_eq!((&said["equal"], &said["digest"]), (&json!(true), &last["digest"]));
    assert!(said["verdict"].as_str().unwrap().starts_with("equal to what was decided then up to"));
    // What was said and what was decided can be read.
    let text = daemon.command(&["replay", file.to_str().unwrap()]);
    let text = String::from_utf8(text.stdout).unwrap();
    let request = "from application a: job j: flow 0 begins, 10.0.0.1:4000 -> 10.0.0.2:80, 1 MB";
    for part in [request, "to   agent", "10.0.0.1:4001 -> 10.0.0.2:80 at 1 Mbit/s"] {
        assert!(text.contains(part), "{part}: {}", &text[..text.len().min(5_000)]);
    }

    // Another size of the flow that is served first: the digest of what was recorded tells, and where
    // it was made to fit, the one of what was decided.
    let bytes = std::fs::read(&file).unwrap();
    for (fits, why) in [(false, "was altered"), (true, "differs")] {
        std::fs::write(&file, with_another_size(&bytes, fits)).unwrap();
        let replayed = replay(&daemon, &file);
        assert_eq!(replayed.status.code(), Some(1));
        assert!(stderr(&replayed).contains(why), "{}", stderr(&replayed));
        let said = summary(1);
        assert!(
            said["equal"] == false && said["verdict"].as_str().unwrap().contains(why),
            "{said}"
        );
    }

    // A bit that flipped on the disk.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let replayed = replay(&daemon, &file);
    assert_eq!(replayed.status.code(), Some(1));
    assert!(stderr(&replayed).contains("is damaged"));

    // Zeros where a file was longer than what had reached the disk before a crash.
    std::fs::write(&file, [&bytes[..], &[0; 4096]].concat()).unwrap();
    let replayed = replay(&daemon, &file);
    assert_eq!(replayed.status.code(), Some(1));
    assert!(stdout(&replayed).contains(&format!("{} inputs", last["inputs"])));
    let says = format!(
        "{}: the record at byte {} is damaged: its checksum differs; the {} inputs before it were \
         replayed: equal to what was decided then up to t=",
        file.display(),
        bytes.len(),
        last["inputs"]
    );
    assert!(stderr(&replayed).contains(&says), "{}", stderr(&replayed));
    // Nothing is left where the beginning is damaged.
    std::fs::write(&file, [&bytes[..8], &[0; 4096]].concat()).unwrap();
    assert_eq!(replay(&daemon, &file).status.code(), Some(2));

    // Cut as by a crash.
    std::fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
    let replayed = replay(&daemon, &file);
    assert!(stdout(&replayed).contains("the last record is truncated"));
    // What follows the last digest is not verified, which is said.
    let last = records(&bytes).last().unwrap().at;
    let tick =
        Record { at: last + Span::from_secs(100), content: Content::Input(OwnedInput::Tick) };
    let open = records(&bytes).filter(|record| !matches!(record.content, Content::Ended));
    std::fs::write(&file, written(open.chain([tick]))).unwrap();
    let replayed = replay(&daemon, &file);
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    for part in
        ["equal to what was decided then up to t=", " after the last digest are not verified"]
    {
        assert!(stdout(&replayed).contains(part), "{}", stdout(&replayed));
    }
    // No digest at all.
    std::fs::write(&file, written(records(&bytes).filter(|record| !is_digest(record)))).unwrap();
    let replayed = replay(&daemon, &file);
    assert_eq!(replayed.status.code(), Some(1));
    assert!(stderr(&replayed).contains("ends before its first digest"), "{}", stderr(&replayed));
    // And nothing to compare.
    std::fs::write(&file, written(records(&bytes).take(1))).unwrap();
    let replayed = replay(&daemon, &file);
    assert_eq!(replayed.status.code(), Some(1));
    assert!(stderr(&replayed).contains("nothing was compared"), "{}", stderr(&replayed));
    assert!(stdout(&replayed).contains("its end isn't there"), "{}", stdout(&replayed));
    // Refusals are decisions.
    let mut daemon = Daemon::start(&recorder().replace("sff", "tcp"));
    let mut client = daemon.client().await;
    let unknown = json!({ "type": "job_complete", "job": "x" });
    declare(&mut client, "a", &unknown).await;
    daemon.signal("-TERM");
    assert!(daemon.wait().success());
    let replayed = replay(&daemon, &daemon.path("records/epoch-000001.000.record"));
    assert!(replayed.status.success(), "{}", stderr(&replayed));
    assert!(stdout(&replayed).contains(" 1 refusals, "), "{}", stdout(&replayed));
}

fn replay(daemon: &Daemon, file: &Path) -> Output {
    daemon.command(&["replay", file.to_str().unwrap(), "--quiet"])
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn records(bytes: &[u8]) -> impl Iterator<Item = Record> + use<> {
    let mut records = Records::default();
    records.push(bytes);
    records.map(Result::unwrap)
}

const fn is_digest(record: &Record) -> bool {
    matches!(record.content, Content::Digest(_))
}

fn written(records: impl Iterator<Item = Record>) -> Vec<u8> {
    let mut out = Vec::new();
    for Record { at, content } in records {
        match content {
            Content::Started(epoch, configuration) => {
                record::write_started(at, epoch, &configuration, &mut out)
            }
            Content::Continued(continuation) => record::write_continued(&continuation, &mut out),
            Content::Changed(configuration) => record::write_changed(at, &configuration, &mut out),
            Content::Digest(digest) => record::write_digest(at, digest, &mut out),
            Content::Ended => record::write_ended(at, &mut out),
            Content::Input(input) => record::write_input(at, &input.as_input(), &mut out),
        }
        .unwrap();
    }
    out
}

/// The recording with another size of flow 0, and digests that `fit` it.
fn with_another_size(bytes: &[u8], fit: bool) -> Vec<u8> {
    let mut all = Digest::default();
    written(records(bytes).map(|mut record| {
        match &mut record.content {
            Content::Input(OwnedInput::Declared {
                declaration: Declaration::FlowRequest { flow, bytes, .. },
                ..
            }) if flow == "0" => *bytes = Some(Bytes::new(9_000_000)),
            Content::Digest(digest) if fit => digest.recorded = all.recorded,
            _ => {}
        }
        if !is_digest(&record) {
            all.add_record(&written(std::iter::once(record.clone())));
        }
        record
    }))
}

/// What recordings are for: a controller that runs, or was killed, has verified all but the last moments.
/// Where the state directory is lost, the next one keeps what is there.
#[tokio::test]
async fn a_killed_controller_leaves_a_recording_that_can_be_verified() {
    let mut daemon = Daemon::start(&recorder());
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &[("h0", "10.0.0.1")], 0).await;
    agent.hear().await.unwrap();
    let mut client = daemon.client().await;
    declare(&mut client, "a", &json!([{ "type": "job_start", "job": "j" }, declared(0)])).await;
    let file = daemon.path("records/epoch-000001.000.record");
    let start = Instant::now();
    let is_verified = |replayed: &Output| {
        replayed.status.success() && stdout(replayed).contains("equal to what was decided then")
    };
    loop {
        let replayed = replay(&daemon, &file);
        if is_verified(&replayed) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{}{}", stdout(&replayed), stderr(&replayed));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    daemon.kill();
    let replayed = replay(&daemon, &file);
    assert!(is_verified(&replayed), "{}{}", stdout(&replayed), stderr(&replayed));
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_dir_all(daemon.path("state")).unwrap();
    let next = Daemon::start_in(daemon.folder.clone(), &recorder());
    assert_eq!(next.get("/v1/status").await["epoch"], 1);
    assert!(std::fs::read(&file).unwrap() == bytes, "the recording was overwritten");
    assert!(next.path("records/epoch-000001-2.000.record").exists());
}

/// What has no end, or tells nothing of itself before somebody writes, is refused; and of a file that is
/// no recording no more is read than its beginning.
#[test]
fn what_is_no_recording_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, large) = (folder.path().join("pipe"), folder.path().join("large"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let no_file = "is no regular file; name part 000 of a recording";
    for (file, why) in [
        (Path::new("/dev/zero"), no_file),
        (&pipe, no_file),
        (folder.path(), no_file),
        (&large, "this is no recording"),
    ] {
        let replayed = Command::new(env!("CARGO_BIN_EXE_watermaster"))
            .arg("replay")
            .arg(file)
            .output()
            .unwrap();
        assert_eq!(replayed.status.code(), Some(2), "{}", file.display());
        assert!(stderr(&replayed).contains(why), "{}", stderr(&replayed));
    }
}

/// One application fills all files again and again: recording goes on, and a recording that is kept stays.
#[tokio::test]
async fn a_recording_never_ends_and_what_is_pinned_stays() {
    let small = recorder().replace("[policy]", "size = \"4096 B\"\nfiles = 4\n[policy]");
    let mut daemon = Daemon::start(&small);
    let records = daemon.path("records");
    let mut client = daemon.client().await;
    let job = json!({ "type": "job_start", "job": "j" });
    assert!(declare(&mut client, "a", &job).await.0.is_success());
    assert!(declare(&mut client, "a", &json!([declared(0), declared(1)])).await.0.is_success());
    // What was decided then is compared with what is decided again.
    let first = records.join("epoch-000001.000.record");
    until("a digest", async || {
        self::records(&std::fs::read(&first).unwrap())
            .any(|record| is_digest(&record))
            .then_some(())
    })
    .await;
    let unix = format!("unix:{}", daemon.path("controller.sock").display());
    let recordings = |words: &[&str]| {
        daemon.command(&[&["recordings"], words, &["--controller", &unix]].concat())
    };
    let pinned = recordings(&["pin", "epoch-000001"]);
    assert!(pinned.status.success(), "{}", stderr(&pinned));
    let has = |part: u64| records.join(format!("epoch-000001.{part:03}.record")).exists();
    let (mut flow, began) = (2, Instant::now());
    while !has(20) {
        assert!(began.elapsed() < PATIENCE, "no part 20 after {flow} flows");
        let (status, said) = declare(&mut client, "a", &declared(flow)).await;
        assert!(status.is_success(), "{said}");
        flow += 1;
    }
    assert_eq!(daemon.get("/v1/status").await["recorder"], "on");
    assert!(has(0) && !has(1), "the beginning stays");
    let listed = recordings(&["list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["recordings"][0]["pinned"], true, "{listed}");
    let unknown = recordings(&["pin", "epoch-000009"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("there is no recording"), "{}", stderr(&unknown));
    let audit = std::fs::read_to_string(daemon.path("state/audit.jsonl")).unwrap();
    assert!(
        audit.contains(r#"{"type":"pin","recording":"epoch-000001"},"answer":"done""#),
        "{audit}"
    );
    daemon.signal("-TERM");
    daemon.wait();
    let replay = |file: &Path| daemon.command(&["replay", file.to_str().unwrap(), "--quiet"]);
    // All that was there when it was pinned.
    let kept = replay(&records.join("pinned/epoch-000001.000.record"));
    assert!(kept.status.success(), "{}", stderr(&kept));
    let cut = replay(&records.join("epoch-000001.000.record"));
    assert!(stderr(&cut).contains("epoch-000001.001.record is missing"), "{}", stderr(&cut));
}

/// A service manager starts it again and again: that must not cost the recordings.
#[tokio::test]
async fn a_start_that_fails_removes_no_recording_and_leaves_no_socket() {
    let mut daemon = Daemon::start(&recorder());
    declare(&mut daemon.client().await, "a", &json!({ "type": "job_start", "job": "j" })).await;
    daemon.signal("-TERM");
    daemon.wait();
    let names = || -> Vec<_> {
        let files = std::fs::read_dir(daemon.path("records")).unwrap();
        files.map(|file| file.unwrap().file_name()).collect()
    };
    let before = names();
    assert_eq!(before.len(), 1, "{before:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let one = recorder()
        .replace("http = \"127.0.0.1:0\"", &format!("http = \"{}\"", taken.local_addr().unwrap()))
        .replace("[policy]", "files = 1\n[policy]");
    std::fs::write(daemon.path("controller.toml"), one).unwrap();
    let ended = daemon.command(&[
        "controller",
        "--config",
        daemon.path("controller.toml").to_str().unwrap(),
    ]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(stderr(&ended).contains("is another controller running there?"), "{}", stderr(&ended));
    assert_eq!(names(), before);
    assert!(!daemon.path("controller.sock").exists());
}
