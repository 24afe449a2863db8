//! Engines in another language: the example of docs/integrating.md, and a client that a published
//! generator makes of openapi.json.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::daemon::{Agent, Daemon, PATIENCE, SMSF, config, get};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The example as a process; killed when dropped.
struct Engine(Child);

impl Engine {
    /// `None`: there is no Python.
    fn start(address: &str) -> Option<Self> {
        Self::run("import runpy; runpy.run_module('shuffle', run_name='__main__')", address)
    }

    /// A program that may import the example.
    fn run(program: &str, address: &str) -> Option<Self> {
        let child = Command::new("python3")
            .args(["-B", "-c", program, address])
            .env("PYTHONPATH", Path::new(ROOT).join("docs/examples"))
            .stdin(Stdio::piped())
            .spawn();
        if let Err(error) = &child {
            assert!(std::env::var_os("OPENAPI").is_none(), "python3: {error}");
            testing::needs::skipped(&format!("python3: {error}"));
        }
        child.ok().map(Self)
    }

    /// Has it say what waits, until the controller has its flow.
    async fn declares(&mut self, daemon: &Daemon) {
        let mut client = daemon.client().await;
        let start = Instant::now();
        loop {
            self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            let flows = get(&mut client, "/v1/flows").await;
            if let Some(flow) = flows.get(0) {
                assert_eq!(flow["application"], "shuffle");
                assert_eq!(flow["bytes"], 8_000_000);
                return;
            }
            assert!(start.elapsed() < PATIENCE, "it declares nothing");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Its transfer is over.
    async fn ends(mut self, daemon: &Daemon) {
        drop(self.0.stdin.take());
        daemon.until("/v1/flows", |flows| *flows == json!([])).await;
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_example_declares_over_a_unix_socket_and_over_tcp() {
    let daemon = Daemon::start(&config(SMSF));
    let socket = format!("unix:{}", daemon.path("controller.sock").display());
    for address in [socket, format!("http://{}", daemon.http)] {
        let Some(mut engine) = Engine::start(&address) else { return };
        engine.declares(&daemon).await;
        let job = daemon.get("/v1/explain/shuffle/sort").await;
        assert_eq!(job["declared_bytes"], 8_000_000, "{job:#}");
        engine.ends(&daemon).await;
        let application = daemon.get("/v1/status").await["applications"][0].take();
        assert_eq!((&application["refused"], &application["jobs"]), (&json!(0), &json!(0)));
    }
}

#[tokio::test]
async fn the_example_says_again_what_holds_to_a_controller_that_starts_anew() {
    let mut daemon = Daemon::start(&config(SMSF));
    let socket = format!("unix:{}", daemon.path("controller.sock").display());
    let Some(mut engine) = Engine::start(&socket) else { return };
    engine.declares(&daemon).await;
    let folder = Arc::clone(&daemon.folder);
    daemon.kill();
    let daemon = Daemon::start_in(folder, &config(SMSF));
    assert_eq!(daemon.get("/v1/health").await, json!({ "epoch": 2, "declared": 0 }));
    engine.declares(&daemon).await;
    engine.ends(&daemon).await;
}

/// One request with a declaration that can't be read, one that is wrong, and good ones.
#[tokio::test]
async fn the_example_leaves_out_what_is_refused_and_says_the_rest() {
    const PROGRAM: &str = "
import sys, shuffle
engine = shuffle.Application(sys.argv[1], 'shuffle')
tick, engine.tick = engine.tick, lambda: None
engine.say('job_start', 'sort')
engine.say('task_host', 'sort', task='no number', host='h0')
engine.say('task_host', 'sort', task=0, host='no such host')
ends = {'source': '10.0.0.1:40000', 'destination': '10.0.0.2:13562'}
engine.say('flow_request', 'sort', flow='1', bytes=8_000_000, connection=ends)
for _ in sys.stdin:
    tick()
";
    let daemon = Daemon::start(&config(SMSF));
    let Some(mut engine) = Engine::run(PROGRAM, &format!("http://{}", daemon.http)) else { return };
    engine.declares(&daemon).await;
}

#[test]
fn the_page_has_the_example_word_for_word() {
    let page = include_str!("../../../docs/integrating.md");
    let example = include_str!("../../../docs/examples/shuffle.py");
    assert!(page.contains(&format!("```python\n{example}```\n")));
}

/// With the virtual environment that checks/openapi.sh makes.
#[tokio::test(flavor = "multi_thread")]
async fn a_generated_client_reads_every_answer() {
    let Some(tools) = std::env::var_os("OPENAPI") else {
        testing::needs::skipped("make openapi runs this");
        return;
    };
    let more = "[policy]\nname = \"sff\"\n[recorder]\ndirectory = \"records\"\n";
    let daemon = Daemon::start(&config(more));
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &[("h0", "10.0.0.1")], 0).await;
    // The controller knows it once it has told it everything.
    agent.hear().await.unwrap();
    let obeys = tokio::spawn(async move { while agent.hear().await.is_some() {} });
    let said = Command::new(Path::new(&tools).join("bin/python"))
        .arg(Path::new(ROOT).join("checks/openapi_client.py"))
        .arg(format!("http://{}", daemon.http))
        .arg(daemon.path("controller.sock"))
        .env("PYTHONPATH", Path::new(&tools).join("client"))
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    obeys.abort();
    let status: Value = daemon.get("/v1/status").await;
    assert_eq!(status["applications"][0]["name"], "generated");
}
