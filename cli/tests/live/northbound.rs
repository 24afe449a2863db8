//! What applications say, and what they hear.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use protocol::application::Declaration;
use serde_json::{Value, json};
use wire::delivery::{Delivery, Shared};

use crate::daemon::{Agent, Daemon, SMSF, config, declare, get, post};

fn flow(job: &str, number: u64, port: u16, bytes: u64) -> Value {
    json!({
        "type": "flow_request", "job": job, "flow": number.to_string(), "bytes": bytes,
        "connection": { "source": format!("10.0.0.1:{port}"), "destination": "10.0.0.2:80" },
    })
}

#[tokio::test]
async fn a_declared_flow_is_a_command_to_its_agent_and_has_an_explanation() {
    let daemon = Daemon::start(&config("[policy]\nname = \"sff\"\n"));
    let mut agent = Agent::connect(&daemon.address(), None, "h0", &[("h0", "10.0.0.1")], 0).await;
    let first = agent.hear().await.unwrap();
    assert!(first.complete && first.epoch == 1, "{first:?}");
    let mut client = daemon.client().await;
    let job = |job| json!({ "type": "job_start", "job": job });
    // It is listed as soon as there is something to explain.
    assert_eq!(declare(&mut client, "a", &job("i")).await.0, StatusCode::OK);
    let mut jobs = get(&mut client, "/v1/jobs").await;
    assert!(jobs[0].as_object_mut().unwrap().remove("started_ns").unwrap().is_u64());
    let idle = json!({ "application": "a", "job": "i", "flows": 0, "limited": 0, "measured_bps": 0, "terms": null });
    assert_eq!(jobs, json!([idle]));
    // What it asks for.
    let asks =
        json!({ "type": "job_terms", "job": "i", "objective": "report", "deadline_ms": 60_000 });
    assert_eq!(declare(&mut client, "a", &asks).await.0, StatusCode::OK);
    let terms = json!({ "objective": "report", "deadline_ms": 60_000, "weight": 1 });
    assert_eq!(get(&mut client, "/v1/jobs").await[0]["terms"], terms);
    let (status, said) =
        declare(&mut client, "a", &json!({ "type": "job_terms", "job": "i", "weight": 0 })).await;
    assert_eq!(
        (status, &said["refused"][0]["field"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("weight"))
    );
    let (small, large) = (flow("i", 1, 4001, 1_000_000), flow("j", 2, 4002, 9_000_000));
    let flows = json!([job("i"), job("j"), small, large]);
    let (status, said) = declare(&mut client, "a", &flows).await;
    assert_eq!((status, &said["taken"]), (StatusCode::OK, &json!(4)), "{said}");
    // The larger flow yields to the smaller one: it is slow.
    let start = std::time::Instant::now();
    let slow = loop {
        assert!(start.elapsed() < crate::daemon::PATIENCE, "no directive comes");
        let commands = agent.hear().await.unwrap();
        let found = commands.commands.into_iter().find_map(|command| match command {
            protocol::agent::Command::Pace { connection, rate_bps: Some(rate) }
                if connection.source.port() == 4002 =>
            {
                Some(rate)
            }
            _ => None,
        });
        if let Some(rate) = found {
            break rate;
        }
    };
    assert_eq!(slow.as_bps(), 1_000_000, "1 % of the access link");
    let why = daemon
        .until("/v1/explain/a/j/2", |why| why["flow"]["enforced_bps"] == json!(1_000_000))
        .await;
    assert_eq!(why["flow"]["intended_bps"], json!(1_000_000), "{why:#}");
    assert!(!why["why"].as_str().unwrap().is_empty());
    let jobs = get(&mut client, "/v1/jobs").await;
    assert_eq!(jobs[1]["flows"], json!(1), "{jobs}");
    let explained = daemon.command(&[
        "explain",
        "a/j/2",
        "--controller",
        &format!("unix:{}", daemon.path("controller.sock").display()),
    ]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains("intended 1.00 Mbit/s"), "{explained}");

    let socket = daemon.address().to_string();
    let run = |words: &[&str]| {
        let said = daemon.command(&[words, &["--controller", &socket]].concat());
        let both = [said.stdout, said.stderr].map(|said| String::from_utf8(said).unwrap());
        (said.status.code(), both.concat())
    };
    assert_eq!(run(&["order", "limit", "a", "5 Mbit/s"]).0, Some(0));
    let (code, said) = run(&["explain", "a"]);
    assert!(
        code == Some(0)
            && said.starts_with("a: connected; jobs: 2; flows: 2; declarations refused: 1\n"),
        "{said}"
    );
    assert!(said.contains("limit  a: 5.00 Mbit/s") && said.contains("\nj "), "{said}");
    let (code, said) = run(&["explain", "b"]);
    assert!(code == Some(1) && said.contains("\"b\" has declared nothing"), "{said}");
    run(&["order", "block", "b"]);
    let (code, said) = run(&["explain", "b", "--json"]);
    assert!(code == Some(0) && said.contains("\"type\": \"block\""), "{said}");
    for (what, begins) in [
        ("a/j/x", "error: flow: \"x\" of job \"j\" is not known"),
        ("a/x", "error: job: \"x\" of a is"),
    ] {
        let (code, said) = run(&["explain", what]);
        assert!(code == Some(1) && said.starts_with(begins), "{said}");
        assert!(said.contains("`watermaster explain a` shows its jobs"), "{said}");
    }
}

/// Names of jobs and flows are the application's; all of them can be asked for.
#[tokio::test]
async fn a_name_with_a_slash_can_be_asked_for() {
    let daemon = Daemon::start(&config(SMSF));
    let mut client = daemon.client().await;
    let names = ["a", "a/b", "a/", "//", "50%", "a%2Fc"];
    for (port, name) in (4001..).zip(names) {
        let start = json!({ "type": "job_start", "job": name });
        let mut flow = flow(name, 1, port, 1_000_000);
        flow["flow"] = json!("b");
        let (status, said) = declare(&mut client, "x", &json!([start, flow])).await;
        assert_eq!(status, StatusCode::OK, "{said}");
    }
    let socket = daemon.address().to_string();
    let explain = |what: &str| {
        let said = daemon.command(&["explain", what, "--controller", &socket, "--json"]);
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        serde_json::from_slice::<Value>(&said.stdout).unwrap_or_else(|_| panic!("{what}: {error}"))
    };
    for (what, name) in [
        ("x/a", "a"),
        ("x/a%2Fb", "a/b"),
        ("x/a/", "a/"),
        ("x///", "//"),
        ("x/50%", "50%"),
        ("x/a%252Fc", "a%2Fc"),
    ] {
        let job = explain(what);
        assert_eq!((&job["job"], job["flows"].is_array()), (&json!(name), true), "{what}: {job}");
    }
    // Of what can be read as both, it is the flow.
    for (what, job) in [("x/a/b", "a"), ("x/a/b/b", "a/b"), ("x/a%2Fb/b", "a/b"), ("x////b", "//")]
    {
        let found = explain(what);
        assert_eq!(
            (&found["flow"]["job"], &found["flow"]["flow"]),
            (&json!(job), &json!("b")),
            "{found:#}"
        );
    }
    for nothing in ["", "x/", "/a"] {
        let said = daemon.command(&["explain", nothing, "--controller", &socket]);
        assert_eq!(said.status.code(), Some(2), "{nothing}");
    }
}

/// Two applications under objectives: `explain` says who yields to whom, and by how much.
#[tokio::test]
async fn an_explanation_names_the_objective_and_who_yields() {
    let daemon = Daemon::start(&config(
        "[policy]\nname = \"arbiter\"\n\
         [[policy.objective]]\nname = \"web\"\nlatency = \"100 ms\"\n\
         [[policy.objective]]\nname = \"sort\"\napplications = [\"sort-*\"]\npolicy = { name = \"srb\" }\n",
    ));
    let mut client = daemon.client().await;
    for (application, number, port, bytes) in
        [("sort-7", 1, 4001, 900_000_000), ("web", 2, 4002, 250_000)]
    {
        let said = json!([{ "type": "job_start", "job": "j" }, flow("j", number, port, bytes)]);
        assert_eq!(declare(&mut client, application, &said).await.0, StatusCode::OK);
    }
    let shared = |why: &Value| why["objective"]["shared"].as_array().map_or(0, Vec::len);
    let why = daemon.until("/v1/explain/sort-7/j/1", |why| shared(why) == 2).await;
    assert_eq!(why["objective"]["name"], "sort", "{why:#}");
    let parts = &why["objective"]["shared"][0]["parts"];
    assert_eq!(
        (&parts[0]["yields"], &parts[1]["yields"]),
        (&json!(false), &json!(true)),
        "{why:#}"
    );
    let explained = daemon.command(&[
        "explain",
        "sort-7/j/1",
        "--controller",
        &format!("unix:{}", daemon.path("controller.sock").display()),
    ]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    for line in [
        "objective: sort, weight 1",
        "h0 -> s0:",
        "web (latency 100 ms): given",
        "wants 100 Mbit/s, yields",
    ] {
        assert!(explained.contains(line), "{line}: {explained}");
    }
}

#[tokio::test]
async fn an_application_follows_what_is_wanted_of_its_own_flows() {
    let daemon = Daemon::start(&config("[policy]\nname = \"sff\"\n"));
    let mut client = daemon.client().await;
    let job = |job| json!({ "type": "job_start", "job": job });
    let large = flow("j", 2, 4002, 9_000_000);
    for (application, said) in [("a", json!([job("j"), large])), ("b", job("k"))] {
        assert_eq!(declare(&mut client, application, &said).await.0, StatusCode::OK);
    }
    let names = get(&mut client, "/v1/applications/a/jobs").await;
    assert_eq!((&names[0]["job"], &names[1]), (&json!("j"), &Value::Null), "its own alone");
    let before = get(&mut client, "/v1/applications/a/flows").await;
    assert_eq!(before["flows"][0]["intended_bps"], Value::Null, "it is alone: {before}");
    // Who has this version hears nothing until something else is wanted: here by another application.
    let mut follower = daemon.client().await;
    let follows = async {
        let mut version = before["version"].clone();
        loop {
            let path = format!("/v1/applications/a/flows?after={version}&wait=30");
            let answer = get(&mut follower, &path).await;
            assert_ne!(answer["version"], version, "thirty seconds were not enough");
            if !answer["flows"][0]["intended_bps"].is_null() {
                break answer;
            }
            version = answer["version"].clone();
        }
    };
    let yields = async {
        let small = flow("k", 1, 4001, 1_000_000);
        declare(&mut client, "b", &small).await
    };
    let (follows, yields) = tokio::join!(follows, yields);
    assert_eq!(yields.0, StatusCode::OK);
    assert_eq!(follows["flows"][0]["intended_bps"], json!(1_000_000), "{follows}");
    assert_eq!(follows["flows"].as_array().unwrap().len(), 1, "its own alone: {follows}");
    // Nobody waits where nothing is waited for, or the version is an old one.
    for asks in ["after=0&wait=30".to_owned(), format!("after={}", follows["version"])] {
        let path = format!("/v1/applications/a/flows?most=0&{asks}");
        let answer = get(&mut follower, &path).await;
        assert_eq!((&answer["flows"], &answer["more"]), (&json!([]), &json!(1)), "{answer}");
    }
    let nobody = get(&mut follower, "/v1/applications/nobody/flows").await;
    assert_eq!((&nobody["version"], &nobody["flows"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn what_is_wrong_is_said_with_field_and_remedy() {
    let daemon =
        Daemon::start(&config(&format!("[limits]\nrequest = \"4 KB\"\ndeclarations = 10\n{SMSF}")));
    let mut client = daemon.client().await;
    let (status, said) = post(&mut client, "a", b"[{}, {".to_vec()).await;
    assert_eq!((status, &said["error"]["field"]), (StatusCode::BAD_REQUEST, &json!("body")));
    let mut unreadable = 0;
    for (body, field, part) in [
        ("[1]", "body", "is no JSON object"),
        (r#""job_start""#, "body", "is no JSON object"),
        (r#"[["job_begin"]]"#, "body", "is no JSON object"),
        ("{}", "type", "missing field"),
        (r#"{"type":"job_begin","job":"j"}"#, "type", "unknown word `job_begin`"),
        (r#"{"type":"job_start","job":7}"#, "job", "invalid type"),
        (r#"{"type":"task_host","job":"j","task":-1,"host":"h0"}"#, "task", "invalid value"),
        (
            r#"{"type":"task_host","job":"j","task":4294967296,"host":"h0"}"#,
            "task",
            "expected a whole number, 0 or more, of 32 bits at most",
        ),
        (r#"{"type":"size","job":"j","map":0,"reduces":[{"task":0}]}"#, "bytes", "missing field"),
        (
            r#"{"type":"flow_request","job":"j","flow":"f","bytes":1,"connection":7}"#,
            "connection",
            "invalid type: integer `7`, expected an object",
        ),
        (
            r#"{"type":"flow_request","job":"j","flow":"f","bytes":1,
                "connection":{"source":"10.0.0.1:70000","destination":"10.0.0.2:1"}}"#,
            "connection",
            "expected an address with a port",
        ),
        (
            r#"{"type":"flow_request","job":"j","flow":"f","bytes":-1,
                "connection":{"source":"10.0.0.1:7","destination":"10.0.0.2:1"}}"#,
            "bytes",
            "invalid value",
        ),
        (r#"{"type":"job_start"}"#, "job", "missing field"),
        (r#"{"type":"job_start","job":"j","x":1}"#, "x", "unknown field"),
    ] {
        let (status, said) = post(&mut client, "a", body.into()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
        let refused = &said["refused"][0];
        assert_eq!((&refused["index"], &refused["field"]), (&json!(0), &json!(field)), "{said}");
        let reason = refused["reason"].as_str().unwrap();
        assert!(reason.contains(part) && reason.contains("openapi.json"), "{reason}");
        for word in ["internally tagged", "enum", "variant", "struct"] {
            assert!(!reason.contains(word), "{reason}");
        }
        unreadable += 1;
    }
    // They are counted beside who said it.
    let status = daemon.get("/v1/status").await;
    assert_eq!(status["applications"][0]["name"], "a");
    assert_eq!(status["applications"][0]["refused"], unreadable);
    let many = vec![json!({ "type": "job_start", "job": "j" }); 11];
    let (status, said) = declare(&mut client, "a", &json!(many)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(said["error"]["reason"], "has 11 declarations; send at most 10");
    let (status, said) = post(&mut client, "a", vec![b' '; 5_000]).await;
    assert_eq!((status, &said["error"]["field"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("body")));
    let (status, said) = post(&mut client, "no%20name", b"{}".to_vec()).await;
    assert_eq!((status, &said["error"]["field"]), (StatusCode::BAD_REQUEST, &json!("application")));
    let (status, _) = client.ask(Method::GET, "/v2/status", Vec::new()).await.unwrap();
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = client.ask(Method::PUT, "/v1/status", Vec::new()).await.unwrap();
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    // A refusal hinders nothing but itself, and what refers to it.
    let said = json!([
        { "type": "job_start", "job": "j" },
        { "type": "flow_complete", "job": "none", "flow": "1" },
        { "type": "job_end" },
        { "type": "job_start", "job": "k" },
        flow("j", 1, 4001, 1_000),
        flow("k", 1, 4001, 1_000),
        flow("none", 1, 4002, 1_000),
    ]);
    let (status, said) = declare(&mut client, "a", &said).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{said}");
    let refused = said["refused"].as_array().unwrap();
    let refused: Vec<_> = refused.iter().map(|each| (&each["index"], &each["field"])).collect();
    let expected =
        [(1, "job"), (2, "type"), (6, "job")].map(|(at, field)| (json!(at), json!(field)));
    assert_eq!(refused, expected.iter().map(|(at, field)| (at, field)).collect::<Vec<_>>());
    assert_eq!((&said["taken"], &said["rest"]), (&json!(4), &Value::Null));
    let jobs = get(&mut client, "/v1/jobs").await;
    assert_eq!(jobs.as_array().unwrap().len(), 2, "{jobs}");
}

/// On a Unix socket an answer is lost with its connection: a long body is read to its end.
#[tokio::test]
async fn whoever_sends_too_much_hears_so_on_the_same_connection() {
    let daemon = Daemon::start(&config(&format!("[limits]\nrequest = \"4 KB\"\n{SMSF}")));
    let mut client = daemon.client().await;
    for _ in 0..3 {
        let (status, said) = post(&mut client, "a", vec![b' '; 8 << 20]).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{said}");
        let (status, said) = post(&mut client, "no%20name", vec![b' '; 8 << 20]).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{said}");
    }
    assert_eq!(declare(&mut client, "a", &json!([])).await.0, StatusCode::OK);
}

/// What is said too fast is not looked at, and the answer says from where on.
#[tokio::test]
async fn the_rest_of_what_is_said_too_fast_waits() {
    let daemon =
        Daemon::start(&config(&format!("[limits]\ndeclarations_per_second = 100\n{SMSF}")));
    let mut client = daemon.client().await;
    let jobs: Vec<_> =
        (0..500).map(|job| json!({ "type": "job_start", "job": job.to_string() })).collect();
    let (status, said) = declare(&mut client, "a", &json!(jobs)).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{said}");
    assert_eq!(said["rest"], said["taken"]);
    assert!((100..500).contains(&said["rest"].as_u64().unwrap()), "{said}");
    assert!(said["reason"].as_str().unwrap().contains("100 declarations"), "{said}");
    assert_eq!(get(&mut client, "/v1/status").await["applications"][0]["jobs"], said["rest"]);
}

/// A bound that waiting doesn't lift by itself is no reason to wait, and the description says which are which.
#[tokio::test]
async fn who_has_too_much_open_is_refused_and_not_slowed_down() {
    let daemon = Daemon::start(&config(&format!("[limits]\njobs = 1\napplications = 1\n{SMSF}")));
    let mut client = daemon.client().await;
    let description = get(&mut client, "/v1/openapi.json").await;
    let answers =
        &description["paths"]["/v1/applications/{application}/declarations"]["post"]["responses"];
    let job = |job| json!({ "type": "job_start", "job": job });
    let (status, said) = declare(&mut client, "a", &json!([job("i"), job("j"), job("i")])).await;
    assert_eq!((status.as_u16(), &said["taken"]), (422, &json!(2)), "{said}");
    assert_eq!(said["refused"][0]["field"], "job", "{said}");
    assert!(answers["422"]["description"].as_str().unwrap().contains("bounds on jobs"));
    let (status, said) = declare(&mut client, "b", &job("i")).await;
    assert_eq!((status.as_u16(), &said["rest"]), (429, &json!(0)), "{said}");
    assert!(answers["429"]["description"].as_str().unwrap().contains("too many applications"));
    assert!(answers["429"]["headers"]["Retry-After"].is_object(), "{answers:#}");
}

/// Every answer that isn't what was asked for has one form.
#[tokio::test]
async fn what_cannot_be_asked_is_said_in_the_same_form() {
    let daemon = Daemon::start(&config(SMSF));
    let mut client = daemon.client().await;
    for (path, field) in [
        ("/v1/flows?most=abc", "query"),
        ("/v1/flows?x=1", "query"),
        ("/v1/applications/a/flows?wait=-1", "query"),
        ("/v1/explain/%ff/j", "path"),
        ("/v1/applications/%ff/jobs", "path"),
    ] {
        let (status, said) = client.ask(Method::GET, path, Vec::new()).await.unwrap();
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!(
            (status, &said["error"]["field"]),
            (StatusCode::BAD_REQUEST, &json!(field)),
            "{path} {said}"
        );
        assert!(!said["error"]["reason"].as_str().unwrap().is_empty());
    }
}

/// Whatever the description names is there, with the methods that it names and no others; that it names every path
/// holds `description.rs` of the controller.
#[tokio::test]
async fn the_description_is_of_what_is_served() {
    let daemon = Daemon::start(&config(SMSF));
    let mut client = daemon.client().await;
    let description = get(&mut client, "/v1/openapi.json").await;
    assert_eq!(description["openapi"], "3.1.0");
    for (path, methods) in description["paths"].as_object().unwrap() {
        let path = path
            .replace("{application}", "a")
            .replace("{agent}", "x")
            .replace("{job}", "j")
            .replace("{flow}", "1");
        for method in [Method::GET, Method::POST, Method::DELETE, Method::PUT] {
            let named = methods.get(method.as_str().to_lowercase()).is_some();
            let (status, said) = client.ask(method.clone(), &path, Vec::new()).await.unwrap();
            let there = status != StatusCode::METHOD_NOT_ALLOWED
                && !String::from_utf8_lossy(&said).contains("there is nothing here");
            assert_eq!(there, named, "{method} {path}: {status}");
        }
    }
}

#[tokio::test]
async fn an_application_that_floods_is_slowed_down_and_hinders_nobody() {
    let daemon =
        Daemon::start(&config(&format!("[limits]\ndeclarations_per_second = 100\n{SMSF}")));
    let address = daemon.address();
    let flood = tokio::spawn(async move {
        let mut client = wire::client::Client::connect(&address, None).await.unwrap();
        for round in 0..20 {
            // All of a request is looked at in the same moment, however long that takes.
            let job = |number| json!({ "type": "job_start", "job": format!("j{round}-{number}") });
            let jobs: Vec<Value> = (0..1_000).map(job).collect();
            let (status, said) = declare(&mut client, "flood", &json!(jobs)).await;
            assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{said}");
        }
    });
    let mut client = daemon.client().await;
    for number in 0..50 {
        let job = json!({ "type": "job_start", "job": format!("j{number}") });
        let (status, said) = declare(&mut client, "calm", &job).await;
        assert_eq!(status, StatusCode::OK, "{said}");
    }
    flood.await.unwrap();
}

/// By the client of applications: nobody declares the flow again.
#[tokio::test]
async fn what_a_limit_keeps_out_is_taken_once_there_is_room() {
    let daemon = Daemon::start(&config(&format!("[limits]\nflows = 1\n{SMSF}")));
    let shared = Arc::<Shared>::default();
    let delivery = Delivery::new(Arc::clone(&shared), "a", daemon.address().into());
    let delivery = tokio::spawn(delivery.run());
    let said = [
        json!({ "type": "job_start", "job": "j" }),
        flow("j", 1, 4001, 1_000_000),
        flow("j", 2, 4002, 1_000_000),
    ];
    let declare = |said: Value| {
        shared.declare(serde_json::from_value::<Declaration>(said).unwrap());
    };
    said.into_iter().for_each(declare);
    let later = |_: &Value| shared.client().account().later == 1;
    daemon.until("/v1/health", later).await;
    assert_eq!(shared.client().account().taken, 2, "the job and the first");
    declare(json!({ "type": "flow_complete", "job": "j", "flow": "1" }));
    let is_second = |said: &Value| said["flows"][0]["flow"] == json!("2");
    daemon.until("/v1/applications/a/flows", is_second).await;
    shared.end();
    delivery.await.unwrap();
    let client = shared.client();
    let account = client.account();
    assert_eq!((account.taken, account.refused, account.later, client.waiting()), (4, 0, 1, 0));
}
