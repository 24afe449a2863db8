//! Crashes, restarts, reloads.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use protocol::agent::Report;
use serde_json::json;
use wire::client::Client;

use crate::daemon::{Agent, Daemon, PATIENCE, SMSF, TLS, certificates, config, declare};

const HOST: &[(&str, &str)] = &[("h0", "10.0.0.1")];

#[tokio::test]
async fn the_epoch_rises_with_every_start_and_what_is_declared_again_stands_again() {
    let config = config(SMSF);
    let mut daemon = Daemon::start(&config);
    let mut agent = Agent::connect(&daemon.address(), None, "h0", HOST, 0).await;
    assert_eq!(agent.hear().await.unwrap().epoch, 1);
    let declared = json!([
        { "type": "job_start", "job": "j" },
        { "type": "flow_request", "job": "j", "flow": "1", "bytes": 1_000_000, "connection":
            { "source": "10.0.0.1:4001", "destination": "10.0.0.2:80" } },
    ]);
    let mut client = daemon.client().await;
    assert!(declare(&mut client, "a", &declared).await.0.is_success());
    daemon.kill();
    assert!(agent.hear().await.is_none() || agent.hear().await.is_none(), "it is gone");

    let daemon = Daemon::start_in(Arc::clone(&daemon.folder), &config);
    let mut agent = Agent::connect(&daemon.address(), None, "h0", HOST, 1).await;
    let mut client = daemon.client().await;
    assert!(declare(&mut client, "a", &declared).await.0.is_success());
    // Nothing is wiped before the new state stands: what is complete bears the flow.
    loop {
        let commands = agent.hear().await.unwrap();
        assert_eq!(commands.epoch, 2);
        if commands.complete {
            break;
        }
    }
    daemon.until("/v1/flows", |flows| flows.as_array().unwrap().len() == 1).await;
}

#[tokio::test]
async fn an_epoch_that_is_over_is_told_and_shown() {
    let daemon = Daemon::start(&config(SMSF));
    let mut agent = Agent::connect(&daemon.address(), None, "h0", HOST, 0).await;
    agent.hear().await.unwrap();
    agent.say(&Report::Stale { epoch: 1, obeys: 7 }).await;
    daemon
        .until("/v1/status", |status| {
            let problems = status["problems"].as_array().unwrap();
            problems.iter().any(|problem| problem.as_str().unwrap().contains("epoch"))
        })
        .await;
}

#[tokio::test]
async fn a_second_controller_does_not_touch_the_state_of_the_first() {
    let daemon = Daemon::start(&config(SMSF));
    let file = daemon.path("controller.toml");
    let second = daemon.command(&["controller", "--config", file.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("another controller uses this state"), "{said}");
    assert_eq!(daemon.get("/v1/status").await["epoch"], 1);
}

#[tokio::test]
async fn a_damaged_epoch_stops_the_start() {
    for (holds, wanted) in
        [("x", "holds no epoch"), ("281474976710656", "an epoch above 281474976710656")]
    {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        std::fs::write(folder.path().join("state/epoch"), holds).unwrap();
        let file = folder.path().join("controller.toml");
        std::fs::write(&file, config(SMSF)).unwrap();
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_watermaster"))
            .args(["controller", "--config", file.to_str().unwrap()])
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(1));
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(said.contains(wanted), "{said}");
    }
}

/// State and records are on a disk of 64 KiB that is filled between two starts. Recording goes on when there is room.
#[test]
fn a_full_disk_stops_no_start() {
    // A mount namespace of its own: nobody else sees the disk, which goes with it.
    const RUN: &str = r#"
        folder=$1 program=$2
        mkdir "$folder/state"
        mount -t tmpfs -o size=64k none "$folder/state"
        start() {
            rm -f "$folder/log"; touch "$folder/log"
            "$program" controller --config "$folder/controller.toml" 2>>"$folder/log" & pid=$!
            until grep -q '"controller ready"' "$folder/log"; do
                kill -0 $pid 2>/dev/null || { cat "$folder/log" >&2; return 1; }
                sleep 0.02
            done
            [ $again = 0 ] || {
                until grep -q 'recording interrupted' "$folder/log"; do sleep 0.02; done
                rm "$folder/state/a"
                until grep -q 'recording goes on' "$folder/log"; do
                    "$program" status --controller "unix:$folder/controller.sock" >/dev/null || true
                    kill -HUP $pid
                    sleep 0.1
                done
            }
            kill $pid
            wait $pid || true
        }
        again=0
        fill() { dd if=/dev/zero of="$folder/state/$1" bs=1k 2>/dev/null || true; }
        start
        fill a
        again=1
        start
        cat "$folder/state/epoch" "$folder/log"
        ls "$folder/state/records"
        rm "$folder/state/epoch.new"
        again=0
        fill b
        ! start
    "#;
    if !testing::needs::root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let records = "[recorder]\ndirectory = \"state/records\"\n";
    std::fs::write(folder.path().join("controller.toml"), config(&(SMSF.to_owned() + records)))
        .unwrap();
    let ended = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-euc", RUN, "sh"])
        .args([folder.path().as_os_str(), env!("CARGO_BIN_EXE_watermaster").as_ref()])
        .output()
        .unwrap();
    let (said, failed) =
        [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap()).into();
    assert!(ended.status.success(), "{said}{failed}");
    assert!(said.starts_with('2') && said.contains("recording goes on"), "{said}");
    assert!(failed.contains("make room there"), "{failed}");
}

/// Who has none of root's rights, so that what a mode refuses is refused.
fn unprivileged() -> std::process::Command {
    let mut command = std::process::Command::new("setpriv");
    command.args(["--inh-caps=-all", "--bounding-set=-all", env!("CARGO_BIN_EXE_watermaster")]);
    command
}

/// Either at the start, which says what to do, or later: then the controller goes on, and the recording does, too, once
/// it can.
#[tokio::test]
async fn a_recorder_that_may_not_write_stops_a_start_and_no_controller() {
    if !testing::needs::root() {
        return;
    }
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let records = folder.path().join("records");
    let mode = |mode| {
        std::fs::set_permissions(&records, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir(&records).unwrap();
    mode(0o555);
    let more = "[recorder]\ndirectory = \"records\"\nsize = \"4096 B\"\nfiles = 4\n";
    let config = config(&(SMSF.to_owned() + more));
    let file = folder.path().join("controller.toml");
    std::fs::write(&file, &config).unwrap();
    let started = unprivileged().args(["controller", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8(started.stderr).unwrap();
    assert_eq!(started.status.code(), Some(1), "{said}");
    let wanted = "recorder.directory: ";
    assert!(said.contains(wanted) && said.contains("; name a folder "), "{said}");

    mode(0o755);
    let mut daemon = Daemon::start_by(unprivileged(), Arc::clone(&folder), &config);
    mode(0o555);
    let mut client = daemon.client().await;
    let fill = async |client: &mut Client, daemon: &mut Daemon, message: &str| {
        let start = std::time::Instant::now();
        loop {
            let job = json!({ "type": "job_start", "job": "j".repeat(200) });
            let end = json!({ "type": "job_complete", "job": "j".repeat(200) });
            assert!(declare(client, "a", &json!([job, end])).await.0.is_success());
            if daemon
                .said()
                .any(|line| line["message"].as_str().is_some_and(|said| said.starts_with(message)))
            {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "it never says {message}");
        }
    };
    fill(&mut client, &mut daemon, "recording interrupted; the controller goes on").await;
    let told = |status: &serde_json::Value| status["problems"].to_string().contains("records");
    daemon.until("/v1/status", told).await;
    mode(0o755);
    fill(&mut client, &mut daemon, "recording goes on").await;
    daemon.until("/v1/status", |status| !told(status)).await;
}

/// Who may not open the socket is told that, and not that nobody listens there.
#[test]
fn who_may_not_open_the_socket_is_told_what_to_do() {
    if !testing::needs::root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller.sock");
    let _unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    let address = format!("unix:{}", path.display());
    let asked = unprivileged().args(["status", "--controller", &address]).output().unwrap();
    let said = String::from_utf8(asked.stderr).unwrap();
    assert_eq!(asked.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{address}: this user may not open it; ")), "{said}");
    assert!(said.contains("group") && said.contains("sudo") && !said.contains('?'), "{said}");
}

/// A link to what has no end.
#[test]
fn an_epoch_that_is_no_file_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("state")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("state/epoch")).unwrap();
    let file = folder.path().join("controller.toml");
    std::fs::write(&file, config(SMSF)).unwrap();
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_watermaster"))
        .args(["controller", "--config", file.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.code() == Some(1) && said.contains("holds no epoch"), "{said}");
}

#[tokio::test]
async fn a_reload_changes_the_policy_and_a_bad_one_changes_nothing() {
    let mut daemon = Daemon::start(&config(SMSF));
    assert_eq!(daemon.get("/v1/status").await["policy"], "smsf");
    let file = daemon.path("controller.toml");
    std::fs::write(&file, config("[policy]\nname = \"fair\"\n")).unwrap();
    daemon.signal("-HUP");
    daemon.until("/v1/status", |status| status["policy"] == "fair").await;
    std::fs::write(&file, config("[policy]\nname = \"unfair\"\n")).unwrap();
    daemon.signal("-HUP");
    let line = daemon.hears("configuration kept as it was");
    let said = line["error"].as_str().unwrap();
    assert!(said.contains("controller.toml:") && said.contains("did you mean \"fair\""), "{said}");
    assert_eq!(daemon.get("/v1/status").await["policy"], "fair");
}

/// A reload names what it left as it was.
#[tokio::test]
async fn a_reload_names_what_needs_a_restart() {
    let mut daemon = Daemon::start(&config(SMSF));
    certificates(&daemon.path("certs"), &[]);
    let file = daemon.path("controller.toml");
    let more = "[control]\nenforcement = \"meters\"\nsample = \"2 s\"\nprobe = \"2 s\"\ngrace = \"1 s\"\nlearn = false\n\
                [[port]]\nfrom = \"s0\"\nto = \"h0\"\nnumber = 1\n[recorder]\ndirectory = \"records\"\n";
    let fresh = config(&format!("{SMSF}{more}{TLS}"));
    let fresh = fresh.replace("state = \"state\"", "state = \"other\"\nmss = 8960");
    let fresh = fresh.replace("\"json\"", "\"text\"").replace("controller.sock", "other.sock");
    let fresh = fresh.replace("hosts = 3", "hosts = 4").replace("10.0.0.3", "10.0.0.4");
    std::fs::write(&file, fresh.replace("0xaa", "0xab")).unwrap();
    daemon.signal("-HUP");
    let line = daemon.hears("configuration read again; some changes need a restart");
    assert_eq!(
        line["restart"],
        "state, log, [listen], whether there is [tls], [recorder], mss, control.enforcement, control.sample, \
         control.probe, control.grace, control.learn, [topology], [[host]], [[switch]], [[port]]"
    );
    for (log, restart) in [
        ("{ format = \"json\", level = \"warn\" }", json!("log")),
        ("{ format = \"json\" }", json!(null)),
    ] {
        let fresh = config(SMSF).replace("{ format = \"json\" }", log);
        std::fs::write(&file, fresh).unwrap();
        daemon.signal("-HUP");
        assert_eq!(daemon.hears("configuration read again")["restart"], restart, "{log}");
    }
}

/// The check refuses what a start would refuse, in the same words, and leaves nothing behind.
#[test]
fn a_check_loads_what_a_start_loads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("controller.toml");
    let tried = |config: &str, check: &[&str]| {
        std::fs::write(&file, config).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_watermaster"));
        command.args(["controller", "--config"]).arg(&file).args(check).output().unwrap()
    };
    let tls = "[tls]\nca = \"ca.crt\"\ncertificate = \"c.crt\"\nkey = \"c.key\"\n";
    let twice = "[[switch]]\nname = \"s0\"\ndatapath_id = \"0xaa\"\n";
    for (more, code, why) in [(tls, 1, "ca.crt: "), (twice, 2, "switch[1].name: the same")] {
        let config = config(&format!("{more}{SMSF}"));
        let checked = tried(&config, &["--check"]);
        let said = String::from_utf8(checked.stderr).unwrap();
        assert_eq!(checked.status.code(), Some(code), "{said}");
        assert!(said.contains(why), "{said}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "the check left something"
        );
        let started = tried(&config, &[]);
        assert_eq!(started.status.code(), Some(code));
        assert!(String::from_utf8(started.stderr).unwrap().contains(said.trim_end()));
        let _ = std::fs::remove_dir_all(folder.path().join("state"));
    }
    // Files that can be read and can't work.
    certificates(&folder.path().join("certs"), &["--agent", "h1"]);
    for (own, key, ca, why) in [
        (
            "controller-main",
            "controller-main",
            "controller-main",
            "certs/controller-main.crt: is no authority's",
        ),
        (
            "agent-h1",
            "agent-h1",
            "ca",
            "certs/agent-h1.crt: is for the agent h1; name a controller's",
        ),
        ("controller-main", "agent-h1", "ca", "certs/agent-h1.key: is not the key of"),
    ] {
        let tls = format!(
            "[tls]\nca = \"certs/{ca}.crt\"\ncertificate = \"certs/{own}.crt\"\nkey = \"certs/{key}.key\"\n"
        );
        let checked = tried(&config(&format!("{tls}{SMSF}")), &["--check"]);
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(checked.status.code() == Some(1) && said.contains(why), "{said}");
    }
    let good = tried(&config(SMSF), &["--check"]);
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    let idle = tried(&config("[policy]\nname = \"syn\"\n"), &["--check"]);
    let said = String::from_utf8(idle.stdout).unwrap();
    let note = "note: policy syn: nothing enforces timeslots outside a simulation\n";
    assert!(said.starts_with(&format!("the configuration is good\n{note}")), "{said}");
}

/// Peers don't prove who they are, or do and nothing says what each may do.
#[test]
fn who_may_do_everything_is_noted_by_a_check_and_a_start() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    certificates(&folder.path().join("certs"), &[]);
    let file = folder.path().join("controller.toml");
    let (application, agent) =
        ("any application with a certificate", "any agent with a certificate");
    let open = config(&format!("{TLS}{SMSF}"));
    let bind = |hosts| open.replacen("[[host]]\n", "[[host]]\nagent = \"a\"\n", hosts);
    let tenant = "[[tenant]]\napplication = \"web\"\nhosts = [\"h0\"]\n";
    let all = Some(" may act for h0 (and 2 more)");
    let (here, everywhere) = ("whoever is on this machine may", "whoever reaches it may");
    let bare = config(SMSF);
    let wide = format!("insecure = true\n{}", bare.replace("127.0.0.1:0", "0.0.0.0:0"));
    let silent = bare.replace("http = ", "# http = ");
    for (config, declares, acts, unproved) in [
        (open.clone(), true, all, None),
        (bind(3), true, None, None),
        (format!("{open}{tenant}"), false, all, None),
        (bind(3) + tenant, false, None, None),
        (bind(1) + tenant, false, Some(" may act for h1 (and 1 more)"), None),
        (bare.clone(), false, None, Some(here)),
        (wide, false, None, Some(everywhere)),
        (silent, false, None, None),
    ] {
        std::fs::write(&file, config).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_watermaster"));
        let checked = command.args(["controller", "--check", "--config"]).arg(&file).output();
        let said = String::from_utf8(checked.unwrap().stdout).unwrap();
        assert!(said.starts_with("the configuration is good\n"), "{said}");
        let found = said.split_once(agent).and_then(|(_, rest)| rest.split_once(';'));
        let found = (said.contains(application), found.map(|(whose, _)| whose));
        assert_eq!(found, (declares, acts), "{said}");
        let found = [here, everywhere].into_iter().find(|who| said.contains(who));
        assert_eq!(found, unproved, "{said}");
    }
    let mut daemon = Daemon::start_in(folder, &open);
    daemon.hears(application);
    daemon.hears(agent);
    Daemon::start(&bare).hears(here);
}

/// So does an agent's.
#[test]
fn a_check_of_an_agent_loads_what_a_start_loads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agent.toml");
    let tried = |config: &str, check: &[&str]| {
        std::fs::write(&file, config).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_watermaster"));
        command.args(["agent", "--config"]).arg(&file).args(check).output().unwrap()
    };
    let config = |more: &str| {
        format!(
            "name = \"h1\"\ncontroller = \"unix:/nowhere\"\n{more}[[host]]\nname = \"h1\"\naddresses = []\n"
        )
    };
    let tls = "[tls]\nca = \"ca.crt\"\ncertificate = \"c.crt\"\nkey = \"c.key\"\n";
    let over_tls = config(tls).replace("unix:/nowhere", "https://127.0.0.1:1");
    let nowhere = config("") + "namespace = \"watermaster-none\"\n";
    let unknown = config("limit = 3\n");
    for (config, code, why) in [
        (over_tls, 1, "ca.crt: "),
        (nowhere, 1, "namespace = \"watermaster-none\": "),
        (unknown, 2, "limit: "),
    ] {
        let checked = tried(&config, &["--check"]);
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(checked.status.code() == Some(code) && said.contains(why), "{said}");
        let started = tried(&config, &[]);
        assert_eq!(started.status.code(), Some(code));
        assert!(String::from_utf8(started.stderr).unwrap().contains(said.trim_end()));
    }
    let good = tried(&config(""), &["--check"]);
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the check left something");
}

/// A command ends though who listens never says anything.
#[test]
fn who_never_answers_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("silent.sock");
    let _unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (unix, http) =
        (format!("unix:{}", path.display()), format!("http://{}", tcp.local_addr().unwrap()));
    let commands = [
        (vec!["status"], &unix),
        (vec!["explain", "a/b/c"], &unix),
        (vec!["top", "--json"], &http),
    ];
    let begun = commands.map(|(words, address)| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_watermaster"));
        command.args(words).args(["--controller", address]).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    });
    for command in begun {
        let ended = command.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("connected, but no answer within 5 s"), "{said}");
    }
}

#[tokio::test]
async fn a_clean_end_takes_nothing_back() {
    let mut daemon = Daemon::start(&config(SMSF));
    let mut agent = Agent::connect(&daemon.address(), None, "h0", HOST, 0).await;
    agent.hear().await.unwrap();
    daemon.signal("-TERM");
    while let Some(commands) = agent.hear().await {
        assert!(!commands.complete, "nothing is withdrawn: {commands:?}");
    }
    assert!(daemon.wait().success());
    assert!(!daemon.path("controller.sock").exists());
}
