//! Recordings, their replay, and a disk that is full.

use control::OwnedInput;
use control::record::{self, Content, Record, Records};
use protocol::application::Declaration;
use serde_json::json;
use units::Bytes;

use crate::daemon::{Agent, Daemon, config, declare};

fn recorder() -> String {
    config("[recorder]\ndirectory = \"records\"\n[policy]\nname = \"sff\"\n")
}

fn declared(flow: u64) -> serde_json::Value {
    json!({ "type": "flow_request", "job": "j", "flow": flow, "bytes": 1_000_000 + flow, "connection":
        { "source": format!("10.0.0.1:{}", 4000 + flow), "destination": "10.0.0.2:80" } })
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
                let gone = json!({ "type": "flow_complete", "job": "j", "flow": flow - 1 });
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
    // What was said and what was decided can be read.
    let text = daemon.command(&["replay", file.to_str().unwrap()]);
    let text = String::from_utf8(text.stdout).unwrap();
    let request = "from application a: job j: flow 0 begins, 10.0.0.1:4000 -> 10.0.0.2:80, 1 MB";
    for part in [request, "to   agent", "10.0.0.1:4001 -> 10.0.0.2:80 at 1 Mbit/s"] {
        assert!(text.contains(part), "{part}: {}", &text[..text.len().min(5_000)]);
    }

    // Another size of the flow that is served first: the digest tells.
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, with_another_size(&bytes)).unwrap();
    let replayed = daemon.command(&["replay", file.to_str().unwrap(), "--quiet"]);
    assert_eq!(replayed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&replayed.stderr).contains("differs"));

    // A bit that flipped on the disk.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let replayed = daemon.command(&["replay", file.to_str().unwrap(), "--quiet"]);
    assert_eq!(replayed.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&replayed.stderr).contains("is damaged"));

    // Cut as by a crash.
    std::fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
    let replayed = daemon.command(&["replay", file.to_str().unwrap(), "--quiet"]);
    assert!(String::from_utf8_lossy(&replayed.stdout).contains("the last record is truncated"));
}

/// The recording with another size of flow 0.
fn with_another_size(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in Records::new(bytes).unwrap() {
        let Record { at, content } = record.unwrap();
        let written = match content {
            Content::Started(epoch, configuration) => {
                record::write_started(at, epoch, &configuration, &mut out)
            }
            Content::Changed(configuration) => record::write_changed(at, &configuration, &mut out),
            Content::Digest(digest) => record::write_digest(at, digest, &mut out),
            Content::Input(mut input) => {
                if let OwnedInput::Declared {
                    declaration: Declaration::FlowRequest { flow: 0, bytes, .. },
                    ..
                } = &mut input
                {
                    *bytes = Some(Bytes::new(9_000_000));
                }
                record::write_input(at, &input.as_input(), &mut out)
            }
        };
        written.unwrap();
    }
    out
}

#[tokio::test]
async fn a_full_disk_stops_the_recording_and_nothing_else() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    // A disk that is full: the kernel's own.
    let records = folder.path().join("records");
    std::fs::create_dir(&records).unwrap();
    std::os::unix::fs::symlink("/dev/full", records.join("epoch-000001.000.record")).unwrap();
    let mut daemon = Daemon::start_in(folder, &recorder());
    let mut client = daemon.client().await;
    let job = json!({ "type": "job_start", "job": "j" });
    let (status, said) = declare(&mut client, "a", &job).await;
    assert!(status.is_success(), "{said}");
    let line = daemon.hears("recording stopped");
    assert_eq!(line["level"], "ERROR");
    assert!(line["error"].as_str().unwrap().contains("No space left"), "{line}");
    // What comes afterwards is taken all the same.
    for flow in 0..100 {
        let (status, said) = declare(&mut client, "a", &declared(flow)).await;
        assert!(status.is_success(), "{said}");
    }
    let status = daemon.get("/v1/status").await;
    assert_eq!(status["recorder"], "stopped");
    assert!(status["problems"].to_string().contains("recorder"), "{status}");
    assert_eq!(status["applications"][0]["flows"], 100);
    let metrics = daemon.client().await.get("/metrics").await.unwrap();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    assert!(metrics.contains("watermaster_recorder_stopped 1"), "{metrics}");
}
