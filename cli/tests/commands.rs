//! The program as users meet it: what good input gives, and that bad input gives one clear error,
//! exit code 2 and no output.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const SCENARIO: &str = r#"name = "small"
title = "Two hosts"

[topology]
kind = "star"
hosts = 3
access = { capacity = "100 Mbit/s", delay = "33 us", buffer = "100 packets" }

[workload]
kind = "shuffle"
jobs = 4
mean_bytes = "100 KB"
load = 0.5

[workload.trace]
trace_nodes = 3

[[policy]]
name = "tcp"

[[policy]]
name = "fifo"

[[capture]]
from = "h0"
to = "s0"
"#;

const TRACE: &str = "job0\t0\t0\t1000\t20000\t10\njob1\t1\t1\t1000\t30000\t10\n\
                     job2\t2\t1\t1000\t20000\t10\njob3\t3\t1\t1000\t30000\t10\n";

/// A directory with the scenario `small.toml` and the trace `trace.tsv`.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(TempDir::new().unwrap());
        desk.write("small.toml", SCENARIO);
        desk.write("trace.tsv", TRACE);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        command(arguments).current_dir(self.0.path()).output().unwrap()
    }

    /// The names of all files and directories here, hidden ones too.
    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watermaster"));
    command.args(arguments);
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What was printed, but for what it cost.
fn without_cost(output: &Output) -> Value {
    let mut object = json(output);
    assert!(object.as_object_mut().unwrap().remove("cost").is_some());
    object
}

/// One file that is lost is made anew by what the error says, and no other.
#[test]
fn a_lost_certificate_is_made_anew_beside_the_others() {
    let desk = Desk::new();
    let make = |more: &[&str]| {
        let mut make = Command::new(env!("CARGO_BIN_EXE_watermaster"));
        make.args(["certs", "--directory", "certs", "--controller", "m=10.0.0.1", "--agent", "a"]);
        make.args(more).current_dir(desk.0.path()).output().unwrap()
    };
    assert!(make(&[]).status.success());
    let before = fs::read(desk.path("certs/ca.crt")).unwrap();
    for (lost, left) in [("agent-a.crt", "agent-a.key"), ("agent-a.key", "agent-a.crt")] {
        fs::remove_file(desk.path(&format!("certs/{lost}"))).unwrap();
        let refused = make(&[]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("remove certs/agent-a.crt and certs/agent-a.key and run"), "{said}");
        fs::remove_file(desk.path(&format!("certs/{left}"))).unwrap();
        let made = String::from_utf8(make(&[]).stdout).unwrap();
        assert!(
            made.contains("made  certs/agent-a.crt") && made.contains("kept  certs/ca.crt"),
            "{made}"
        );
    }
    assert_eq!(fs::read(desk.path("certs/ca.crt")).unwrap(), before);
    // The authority itself isn't made anew by that.
    for lost in ["ca.crt", "ca.key"] {
        fs::rename(desk.path(&format!("certs/{lost}")), desk.path("away")).unwrap();
        let said = String::from_utf8(make(&[]).stderr).unwrap();
        assert!(said.contains(&format!("bring {lost} back")) && !said.contains("remove"), "{said}");
        fs::rename(desk.path("away"), desk.path(&format!("certs/{lost}"))).unwrap();
    }
}

#[test]
fn run_writes_every_file_and_nothing_else() {
    let desk = Desk::new();
    let output = desk.run(&["run", "small.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout(&output).contains("Report: out/small/report.html"));
    let files = [
        "fifo-h0-s0.pcapng",
        "flows.parquet",
        "jobs.parquet",
        "report.html",
        "result.json",
        "tcp-h0-s0.pcapng",
    ];
    assert_eq!(desk.names("out/small"), files);
    assert_eq!(desk.names("out"), ["small"]);
    // A second run replaces the files of the first and keeps what isn't ours.
    desk.write("out/small/notes.txt", "mine");
    assert!(desk.run(&["run", "small.toml"]).status.success());
    assert_eq!(desk.names("out/small").len(), files.len() + 1);
}

#[test]
fn json_is_one_object_of_the_published_shape_and_writes_nothing() {
    let desk = Desk::new();
    let output = desk.run(&["run", "small.toml", "--json", "--seed", "5"]);
    let object = json(&output);
    let keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys.len(), 6, "{keys:?}");
    for key in ["scenario", "world", "seed", "version", "results", "cost"] {
        assert!(keys.contains(&key), "{keys:?}");
    }
    let cost = &object["cost"];
    assert!(cost["hops"].as_u64().unwrap() > 0 && cost["events"].as_u64().unwrap() > 0, "{cost}");
    assert!(cost["hops_per_cpu_s"].as_f64().unwrap() > 0.0, "{cost}");
    assert!(cost["peak_rss_bytes"].as_u64().unwrap() > 1 << 20, "{cost}");
    assert_eq!((&object["scenario"], &object["seed"]), (&Value::from("small"), &Value::from(5)));
    let results = object["results"].as_array().unwrap();
    let policies: Vec<&Value> = results.iter().map(|result| &result["policy"]).collect();
    assert_eq!(policies, ["tcp", "fifo"]);
    for result in results {
        let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 4, "{keys:?}");
        assert!(result["metrics"]["jct_mean_s"].as_f64().unwrap() > 0.0);
        assert!(result["published"].is_object() && result["verdict"].is_string());
    }
    assert_eq!(desk.names("."), ["small.toml", "trace.tsv"]);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let desk = Desk::new();
    let runs = ["1", "2", "7"].map(|threads| {
        let out = format!("out-{threads}");
        let arguments = ["run", "small.toml", "--json", "--jobs", threads, "--out", &out];
        let printed = without_cost(&desk.run(&arguments));
        let mut files = vec![printed.to_string().into_bytes()];
        for name in desk.names(&out) {
            files.push(fs::read(desk.path(&out).join(name)).unwrap());
        }
        files
    });
    assert_eq!(runs[0].len(), 7);
    assert!(runs[0] == runs[1] && runs[0] == runs[2]);
    let other = without_cost(&desk.run(&["run", "small.toml", "--json", "--seed", "2"]));
    assert_ne!(runs[0][0], other.to_string().into_bytes(), "another seed must give another result");
}

#[test]
fn a_policy_that_is_chosen_alone_is_still_compared_with_the_baseline() {
    let desk = Desk::new();
    let both = json(&desk.run(&["run", "small.toml", "--json"]));
    let one = json(&desk.run(&["run", "small.toml", "--json", "--policy", "fifo"]));
    assert_eq!(one["results"].as_array().unwrap().len(), 1);
    assert_eq!(one["results"][0], both["results"][1]);
    assert!(one["results"][0]["metrics"]["jct_mean_change_ratio"].is_number());
    let printed = desk.run(&["run", "small.toml", "--json", "--policy", "fifo", "--out", "o"]);
    // The cost differs from run to run, so no file holds it.
    let file: Value =
        serde_json::from_slice(&fs::read(desk.path("o/result.json")).unwrap()).unwrap();
    assert_eq!(file, without_cost(&printed));
}

/// What the policies of the catalogue make of a scenario that lists none of them is what they make of it when it does: they
/// run the same, or are refused for the same reason, which names what is missing.
#[test]
fn any_policy_that_fits_runs_as_if_the_file_listed_it() {
    let desk = Desk::new();
    let listing = json(&command(&["policies", "--json"]).output().unwrap());
    let names = listing.as_array().unwrap().iter().map(|policy| policy["name"].as_str().unwrap());
    let (mut ran, mut refused) = (0, 0);
    for name in names.filter(|name| !["tcp", "fifo"].contains(name)) {
        let text = SCENARIO.replace(
            "name = \"fifo\"",
            &format!("name = \"fifo\"\n\n[[policy]]\nname = \"{name}\""),
        );
        desk.write("lists.toml", &text);
        let asked = desk.run(&["run", "small.toml", "--json", "--policy", name]);
        let listed = desk.run(&["run", "lists.toml", "--json", "--policy", name]);
        assert_eq!(asked.status.code(), listed.status.code(), "{name}");
        if asked.status.success() {
            assert_eq!(without_cost(&asked), without_cost(&listed));
            assert_eq!(json(&asked)["results"][0]["policy"], name);
            ran += 1;
        } else {
            let why = |output: Output| String::from_utf8(output.stderr).unwrap();
            let (asked, listed) = (why(asked), why(listed));
            let said = |error: &str| error.split_once("]: ").map(|(_, said)| said.to_owned());
            assert!(asked.starts_with(&format!("error: --policy {name}: policy[2]")), "{asked}");
            let missing =
                asked.contains(&format!("{name} needs ")) || asked.contains("is missing; add");
            assert!(missing || asked.contains("doesn't say how"), "{asked}");
            assert_eq!(said(&asked), said(&listed), "{asked}{listed}");
            refused += 1;
        }
    }
    assert!(ran > 10 && refused > 5, "{ran} ran, {refused} were refused");
}

/// A policy that was refused runs when the scenario has what its refusal names, and changes reach what was added.
#[test]
fn what_a_refusal_names_lets_the_policy_run() {
    let desk = Desk::new();
    let run =
        |more: &[&'static str]| [&["run", "small.toml", "--policy", "sdtcp,srb"], more].concat();
    refused(
        &desk,
        &run(&[]),
        &[
            "--policy sdtcp: policy[2]: sdtcp needs switches that report SYN and FIN",
            "handshake = true",
        ],
    );
    let done = desk.run(&run(&["--json", "--set", "transport.handshake=true"]));
    let policies: Vec<_> =
        json(&done)["results"].as_array().unwrap().iter().map(|r| r["policy"].clone()).collect();
    assert_eq!(policies, ["sdtcp", "srb"]);
    let changed = ["run", "small.toml", "--policy", "smsf", "--set", "policy.smsf.beta=2"];
    refused(&desk, &changed, &["--set policy.smsf.beta=2: ", "policy[2].beta"]);
    let swept = json(&desk.run(&[
        "sweep",
        "small.toml",
        "--json",
        "--policy",
        "smsf",
        "--vary",
        "policy.smsf.beta=0.05,0.5",
    ]));
    assert_eq!(swept["sweep"].as_array().unwrap().len(), 2);
}

#[test]
fn a_baseline_that_nothing_compares_with_is_not_run() {
    let desk = Desk::new();
    desk.write("absolute.toml", &format!("measures = [\"jct_mean_s\"]\n{SCENARIO}"));
    let of = |policies| {
        let object = json(&desk.run(&["run", "absolute.toml", "--json", "--policy", policies]));
        let results = object["results"].as_array().unwrap();
        results.last().unwrap()["metrics"].clone()
    };
    let (alone, beside) = (of("fifo"), of("tcp,fifo"));
    assert_eq!(alone["jct_mean_s"], beside["jct_mean_s"]);
    assert!(alone["jct_mean_change_ratio"].is_null());
    assert!(beside["jct_mean_change_ratio"].is_number());
}

#[test]
fn repeats_give_the_mean_of_single_runs_with_an_interval() {
    let desk = Desk::new();
    let mean = |object: &Value| object["results"][0]["metrics"]["jct_mean_s"].as_f64().unwrap();
    let singles: Vec<f64> = ["3", "4", "5"]
        .iter()
        .map(|seed| mean(&json(&desk.run(&["run", "small.toml", "--json", "--seed", seed]))))
        .collect();
    let repeated =
        json(&desk.run(&["run", "small.toml", "--json", "--seed", "3", "--repeat", "3"]));
    let expected = singles.iter().sum::<f64>() / 3.0;
    assert!((mean(&repeated) - expected).abs() < 1e-9);
    // Student's t at 2 degrees of freedom is 4.303.
    let squares: f64 = singles.iter().map(|value| (value - expected).powi(2)).sum();
    let width = 4.3027 * (squares / 2.0).sqrt() / 3f64.sqrt();
    let ours = repeated["results"][0]["interval95"]["jct_mean_s"].as_f64().unwrap();
    assert!((ours - width).abs() < 1e-4 * width, "{ours} should be {width}");
}

#[test]
fn a_sweep_has_a_point_for_each_combination() {
    let desk = Desk::new();
    let arguments = [
        "sweep",
        "small.toml",
        "--json",
        "--policy",
        "tcp",
        "--vary",
        "workload.load=0.3,0.6",
        "--over",
        "seed=1,2,3",
    ];
    let object = json(&desk.run(&arguments));
    let points = object["sweep"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    assert_eq!(points[1]["set"]["workload.load"], "0.6");
    assert_eq!(points[0]["runs"], 3);
    let single = json(&desk.run(&[
        "run",
        "small.toml",
        "--json",
        "--policy",
        "tcp",
        "--set",
        "workload.load=0.3",
        "--repeat",
        "3",
    ]));
    assert_eq!(points[0]["results"], single["results"]);
    assert_eq!(desk.names("."), ["small.toml", "trace.tsv"]);
}

#[test]
fn a_trace_takes_the_place_of_the_generator() {
    let desk = Desk::new();
    let object = json(&desk.run(&["run", "small.toml", "--json", "--trace", "trace.tsv"]));
    assert_eq!(object["results"][0]["metrics"]["jobs_count"], 4.0);
    let checked = desk.run(&["check", "small.toml", "--trace", "trace.tsv"]);
    assert!(stdout(&checked).contains("4 jobs"), "{}", stdout(&checked));
}

/// Runs `arguments`, which must be refused with one line that has all of `parts`, and leave nothing.
fn refused(desk: &Desk, arguments: &[&str], parts: &[&str]) {
    let before = desk.names(".");
    let output = desk.run(arguments);
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!(stdout(&output), "", "{arguments:?}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    for part in parts {
        assert!(error.contains(part), "{arguments:?}: {error}  should say {part}");
    }
    assert_eq!(desk.names("."), before, "{arguments:?} left something");
}

#[test]
fn bad_scenarios_are_refused() {
    let desk = Desk::new();
    let cases: [(&str, &str, &[&str]); 6] = [
        ("jobs = 4", "jobz = 4", &["bad.toml:9:1: ", "workload.jobs", "missing", "add jobs"]),
        ("load = 0.5", "lode = 0.5", &["bad.toml:9:1: ", "mean_gap", "missing"]),
        (
            "trace_nodes",
            "trace_node",
            &["bad.toml:16:1: ", "unknown key", "did you mean \"trace_nodes\""],
        ),
        (
            "trace_nodes = 3",
            "trace_nodes = 3\nfloors = \"swin\"",
            &["bad.toml:17:10: ", "workload.trace.floors", "did you mean \"swim\""],
        ),
        ("100 Mbit/s", "100 MB", &["bad.toml:7:23: ", "unit is unknown", "Mbit/s"]),
        ("capacity = \"100 Mbit/s\", ", "", &["bad.toml:7:10: ", "capacity", "missing", "add"]),
    ];
    for (old, new, parts) in cases {
        assert!(SCENARIO.contains(old));
        desk.write("bad.toml", &SCENARIO.replace(old, new));
        refused(&desk, &["run", "bad.toml"], parts);
        refused(&desk, &["run", "bad.toml", "--json", "--out", "there"], parts);
        refused(&desk, &["check", "bad.toml"], parts);
        refused(&desk, &["sweep", "bad.toml"], parts);
    }
    refused(&desk, &["run", "absent.toml"], &["absent.toml", "no such file", "check the path"]);
    refused(&desk, &["run", "."], &["directory"]);
}

#[test]
fn bad_traces_are_refused() {
    let desk = Desk::new();
    desk.write("negative.tsv", &TRACE.replace("\t30000\t", "\t-5\t"));
    desk.write("cut.tsv", &TRACE[..TRACE.len() - 8]);
    desk.write("fields.tsv", &TRACE.replace("job2\t2\t1\t", "job2\t2\t"));
    fs::create_dir(desk.path("folder")).unwrap();
    let cases: [(&str, &[&str]); 5] = [
        ("negative.tsv", &["negative.tsv:2: ", "-5", "negative", "write"]),
        ("cut.tsv", &["cut.tsv:4: ", "cut", "fetch"]),
        ("fields.tsv", &["fields.tsv:3: ", "5 fields", "write"]),
        ("absent.tsv", &["absent.tsv: "]),
        ("folder", &["folder: ", "directory"]),
    ];
    for (trace, parts) in cases {
        refused(&desk, &["run", "small.toml", "--trace", trace], parts);
        refused(&desk, &["run", "small.toml", "--trace", trace, "--json", "--out", "o"], parts);
    }
    let sample = ["run", "small.toml", "--trace", "trace.tsv", "--set", "workload.trace.sample=9"];
    refused(&desk, &sample, &["--set workload.trace.sample=9: workload.trace.sample: "]);
}

#[test]
fn bad_options_are_refused() {
    let desk = Desk::new();
    let run = |more: &[&'static str]| [&["run", "small.toml"], more].concat();
    refused(&desk, &run(&["--policy", "smfs"]), &["--policy smfs", "tcp, fifo"]);
    refused(&desk, &run(&["--set", "topology.hots=4"]), &["--set topology.hots=4", "\"hosts\""]);
    refused(&desk, &run(&["--out", "trace.tsv"]), &["--out trace.tsv", "file"]);
    for arguments in [run(&["--seed", "-1"]), run(&["--jobs", "0"]), run(&["--set", "seed"])] {
        let output = desk.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(desk.names("."), ["small.toml", "trace.tsv"]);
}

#[test]
fn check_says_all_errors_of_all_files() {
    let desk = Desk::new();
    desk.write("a.toml", &SCENARIO.replace("jobs = 4", ""));
    desk.write("b.toml", &SCENARIO.replace("fifo", "lifo"));
    let output = desk.run(&["check", "a.toml", "small.toml", "b.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(error.contains("a.toml:") && error.contains("b.toml:"), "{error}");
    assert!(stdout(&output).starts_with("small.toml: 3 hosts, 1 switches, 6 links; 4 jobs"));
}

/// Each kind in each simulated world, and with racks.
#[test]
fn init_makes_scenarios_that_run() {
    let desk = Desk::new();
    for (workload, worlds) in [
        ("shuffle", &["packet", "fluid"][..]),
        ("incast", &["packet", "fluid"]),
        ("stream", &["packet"]),
        ("gather", &["packet"]),
        ("flows", &["packet", "fluid"]),
    ] {
        for world in worlds {
            let file = format!("{workload}-{world}.toml");
            let init =
                ["init", &file, "--workload", workload, "--world", world, "--hosts", "4", "--yes"];
            let made = desk.run(&init);
            assert!(made.status.success(), "{init:?}: {}", String::from_utf8_lossy(&made.stderr));
            assert!(stdout(&made).contains(&format!("watermaster run {file}")));
            let slow = ["run", &file, "--json", "--set", "topology.access.capacity=100 Mbit/s"];
            let object = json(&desk.run(&slow));
            assert_eq!(
                (&object["world"], &object["scenario"]),
                (&Value::from(*world), &Value::from(&file[..file.len() - 5]))
            );
            let results = object["results"].as_array().unwrap();
            let least = if *world == "fluid" { 1 } else { 3 };
            assert!(results.len() >= least, "{file}: {results:?}");
            for result in results {
                let done =
                    ["jobs_count", "throughput_tps"].map(|name| result["metrics"][name].as_f64());
                assert!(done.into_iter().flatten().any(|number| number > 0.0), "{file}: {result}");
            }
            // Two racks, and the smallest network.
            for more in [["--racks", "2", "--hosts", "1"], ["--racks", "1", "--hosts", "2"]] {
                let all = [
                    &[
                        "init",
                        "racks.toml",
                        "--force",
                        "--workload",
                        workload,
                        "--world",
                        world,
                        "--yes",
                    ],
                    &more[..],
                ];
                assert!(desk.run(&all.concat()).status.success(), "{workload} {world} {more:?}");
                assert!(
                    desk.run(&["check", "racks.toml"]).status.success(),
                    "{workload} {world} {more:?}"
                );
            }
        }
    }
}

/// What is asked and answered makes what options make; a wrong answer is asked for again.
#[test]
fn init_asks_for_what_no_option_gives() {
    let desk = Desk::new();
    let answer = |arguments: &[&str], answers: &str| {
        let mut child = command(arguments)
            .current_dir(desk.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), answers.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let asked = answer(
        &["init", "asked.toml", "--access", "10 Gbit/s"],
        "incst\nincast\n\n2\n5\n40 Gbit/s\nsicc\ntcp, srb\n",
    );
    let questions = String::from_utf8(asked.stderr.clone()).unwrap();
    assert!(asked.status.success(), "{questions}");
    for said in [
        "What moves data: shuffle, incast, stream, gather or flows? [shuffle] ",
        "write shuffle, incast,",
        "In which world: packet, fluid or lab? [packet] ",
        "How many racks? [1] ",
        "How many hosts in a rack? [8] ",
        "How fast is a rack's link? [30 Gbit/s] ",
        "[tcp,sdtcp,srb] ",
        "sicc needs requests that fan out",
    ] {
        assert!(questions.contains(said), "{questions} should say {said}");
    }
    assert!(!questions.contains("How fast is a host's"), "{questions}");
    let given = [
        "init",
        "given.toml",
        "--workload",
        "incast",
        "--world",
        "packet",
        "--racks",
        "2",
        "--hosts",
        "5",
        "--access",
        "10 Gbit/s",
        "--core",
        "40 Gbit/s",
        "--policy",
        "tcp,srb",
    ];
    assert!(desk.run(&given).status.success());
    let text = |name: &str| fs::read_to_string(desk.path(name)).unwrap();
    assert_eq!(text("asked.toml").replace("asked", "given"), text("given.toml"));
    // An end of the input, or no end of wrong answers, writes nothing.
    for answers in ["", "incast\n", &"x\n".repeat(99)] {
        let ended = answer(&["init", "none.toml"], answers);
        assert_eq!(ended.status.code(), Some(2));
        assert!(!desk.path("none.toml").exists());
    }
}

#[test]
fn init_writes_over_nothing_and_refuses_what_would_not_run() {
    let desk = Desk::new();
    refused(&desk, &["init", "small.toml", "--yes"], &["small.toml: is there already", "--force"]);
    assert_eq!(fs::read_to_string(desk.path("small.toml")).unwrap(), SCENARIO);
    let init = |more: &[&'static str]| [&["init", "new.toml", "--yes"], more].concat();
    let gather = ["--workload", "gather", "--world", "fluid"];
    refused(&desk, &init(&gather), &["--world fluid", "use packet"]);
    refused(&desk, &init(&["--policy", "tcp,sicc"]), &["--policy sicc", "kind = \"gather\""]);
    refused(&desk, &init(&["--policy", "smfs"]), &["--policy smfs", "did you mean \"smsf\""]);
    refused(&desk, &init(&["--hosts", "1"]), &["--hosts 1", "2 or more"]);
    refused(&desk, &init(&["--core", "1 Gbit/s"]), &["--core: one rack", "add --racks"]);
    let slow = desk.run(&init(&["--access", "1 bit/s"]));
    assert_eq!(slow.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&slow.stderr).contains("1 bit/s is out of range; write 1 kbit/s")
    );
    assert!(!desk.path("new.toml").exists());
    refused(&desk, &["init", "nowhere/new.toml", "--yes"], &["name a file that can be written"]);
    assert!(desk.run(&["init", "small.toml", "--yes", "--force"]).status.success());
    assert!(desk.run(&["check", "small.toml"]).status.success());
}

/// Every scenario of the project passes.
#[test]
fn the_scenarios_of_the_project_pass() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut files = Vec::new();
    for folder in fs::read_dir(scenarios).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 4);
    // The coflow trace is not part of the project: any of its format does.
    let desk = Desk::new();
    desk.write("trace.txt", "2 1\n0 0 1 0 1 1:2\n");
    let (coflow, others): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| file.parent().unwrap().ends_with("coflow"));
    for (files, arguments) in
        [(coflow, vec!["--trace".into(), desk.path("trace.txt")]), (others, vec![])]
    {
        let output = command(&["check"]).args(&files).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(stdout(&output).lines().count(), files.len());
    }
}

/// The examples of docs/scenarios.md are what they say: the first is a whole scenario.
#[test]
fn the_documented_example_passes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/scenarios.md");
    let page = fs::read_to_string(page).unwrap();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let desk = Desk::new();
    desk.write("example.toml", example);
    let output = desk.run(&["check", "example.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whatever a page has a reader run on a scenario of the project passes its check with the page's changes.
#[test]
fn the_documented_commands_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut commands = std::collections::BTreeSet::new();
    for folder in ["", "docs", "docs/decisions"] {
        for file in fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                commands.extend(documented(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(commands.len() > 20, "{commands:?}");
    // Traces are not part of the project: any of their format do.
    let desk = Desk::new();
    desk.write("coflows.txt", "2 1\n0 0 1 0 1 1:2\n");
    desk.write("jobs.tsv", &(0..1000).map(job).collect::<String>());
    for words in commands {
        let mut check = vec!["check".to_owned()];
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap();
            match word {
                "--set" => check.extend(["--set".into(), value().into()]),
                "--world" => check.extend(["--set".into(), format!("world={}", value())]),
                // The first of a list is enough.
                "--vary" | "--over" => {
                    let point = value().split(',').next().unwrap();
                    check.extend(["--set".into(), point.into()]);
                }
                "--trace" => {
                    let trace = if value().ends_with(".txt") { "coflows.txt" } else { "jobs.tsv" };
                    check.extend(["--trace".into(), desk.path(trace).display().to_string()]);
                }
                word if word.starts_with("scenarios/") => check.push(word.into()),
                _ => {}
            }
        }
        let output = command(&[]).args(&check).current_dir(&root).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{check:?}: {error}");
    }
}

fn job(number: u32) -> String {
    format!("job{number}\t{number}\t1\t1000\t30000\t10\n")
}

/// The words of each command on a scenario of the project in `page`, on lines of their own or between
/// backquotes.
fn documented(page: &str) -> Vec<Vec<String>> {
    let page = page.replace("\\\n", " ");
    let mut found = Vec::new();
    for (at, name) in page.match_indices("watermaster ") {
        let before = page[..at].trim_end_matches("sudo ");
        let rest = &page[at + name.len()..];
        let end = if before.ends_with('`') { '`' } else { '\n' };
        let text = rest.split(end).next().unwrap();
        let is_scenario = |word: &String| word.starts_with("scenarios/") && word.ends_with(".toml");
        let words = words(text);
        // NAME stands for any.
        if words.iter().any(is_scenario) && !text.contains("NAME") {
            found.push(words);
        }
    }
    found
}

/// A line's words as a shell sees them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in line.chars() {
        match (c, quote) {
            ('#', None) => break,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() => words.push(String::new()),
            (c, _) => words.last_mut().unwrap().push(c),
        }
    }
    words
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    for arguments in [&["completions", "bash"][..], &["doctor"][..], &["--help"][..]] {
        let mut child =
            command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && error.is_empty(), "{arguments:?}: {error}");
    }
}

#[test]
fn doctor_names_purpose_and_remedy_of_what_is_missing() {
    let output = command(&["doctor", "--json"]).output().unwrap();
    let report = json(&output);
    let features = report["features"].as_array().unwrap();
    assert!(features.len() > 20);
    for feature in features {
        let available = feature["available"].as_bool().unwrap();
        assert_eq!(feature["remedy"] == "", available, "{feature}");
        assert!(feature["purpose"] != "" && feature["detail"] != "", "{feature}");
    }
}

/// The compiler that is looked for is the one that compiles the BPF programs.
#[test]
fn doctor_finds_the_compiler_of_the_bpf_programs() {
    let build = include_str!("../../live/kernel/bpf/build.sh");
    let version = build.lines().find_map(|line| line.strip_prefix("version=")).unwrap();
    let clang = format!("clang-{version}");
    let report = json(&command(&["doctor", "--json"]).output().unwrap());
    let features = report["features"].as_array().unwrap();
    let found = features.iter().find(|feature| feature["name"] == clang.as_str()).unwrap();
    let there = Command::new(&clang).arg("--version").output().is_ok();
    assert_eq!(found["available"], there, "{found}");
}

/// What labs run is looked for.
#[test]
fn doctor_finds_what_labs_need() {
    let report = json(&command(&["doctor", "--json"]).output().unwrap());
    for tool in ["ovs-vswitchd", "ethtool"] {
        let features = report["features"].as_array().unwrap();
        let found = features.iter().find(|feature| feature["name"] == tool);
        let found = found.unwrap_or_else(|| panic!("{tool} is not looked for"));
        let there = Command::new(tool).arg("--version").output().is_ok();
        assert_eq!(found["available"], there, "{found}");
    }
}

#[test]
fn bench_decide_gives_an_object_for_each_case() {
    let output = command(&["bench", "decide", "--runs", "3", "--json"]).output().unwrap();
    assert!(output.status.success());
    let lines = stdout(&output);
    assert!(lines.lines().count() >= 4);
    for line in lines.lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        let keys: Vec<&String> = object.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "us_median", "us_p99"]);
        let (median, p99) = (object["us_median"].as_f64(), object["us_p99"].as_f64());
        assert!(median > Some(0.0) && p99 >= median, "{line}");
    }
}

#[test]
fn every_command_shows_an_example() {
    for name in ["init", "run", "sweep", "reproduce", "check", "bench", "doctor", "completions"] {
        let help = stdout(&command(&[name, "--help"]).output().unwrap());
        assert!(help.contains("Example"), "{name}");
    }
}

/// `SCENARIO` as a figure of a text, without its capture.
fn figure() -> String {
    let scenario = SCENARIO.split("[[capture]]").next().unwrap_or_default();
    format!(
        "{scenario}\n[figure]\ntext = \"thesis\"\nnumber = \"1.2\"\nseeds = 3\nmetric = \"jct_mean_s\"\n\
         [[published]]\npolicy = \"fifo\"\nmetric = \"jct_mean_s\"\nvalue = 1\n\
         reading = {{ from = \"text\", error = 1 }}\n"
    )
}

#[test]
fn reproduce_writes_its_pages_and_keeps_what_it_ran() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("scenarios/thesis")).unwrap();
    desk.write("scenarios/thesis/figure.toml", &figure());
    let output = desk.run(&["reproduce"]);
    let text = stdout(&output);
    assert!(output.status.success() && text.contains("thesis/1.2: Two hosts: holds"), "{text}");
    assert_eq!(desk.names("out"), ["cache", "reproduce"]);
    assert_eq!(desk.names("out/cache").len(), 6, "of three seeds and two policies");
    assert_eq!(desk.names("out/reproduce"), ["results", "results.html", "results.md"]);
    assert_eq!(desk.names("out/reproduce/results"), ["thesis.md", "thesis.svg"]);

    let quick = desk.run(&["reproduce", "thesis/1.2", "--quick", "--json", "--jobs", "1"]);
    let array = json(&quick);
    assert_eq!((&array[0]["text"], &array[0]["figure"]), (&"thesis".into(), &"1.2".into()));
    assert_eq!(array[0]["measures"][0]["name"], "fifo jct_mean_s");
    assert_eq!(desk.names("out/cache").len(), 6, "a quick run is a part of the whole");

    // With other wishes, what exists is named.
    refused(
        &desk,
        &["reproduce", "thesis/7"],
        &["thesis/7: there is no such figure", "thesis/1.2"],
    );
    refused(&desk, &["reproduce", "--scenarios", "nowhere"], &["nowhere: ", "name the folder"]);
    refused(
        &desk,
        &["reproduce", "--trace", "nothing.tsv"],
        &["--trace nothing.tsv: ", "name a file"],
    );
    desk.write("scenarios/thesis/bad.toml", "name = 1");
    refused(&desk, &["reproduce"], &["bad.toml:1:8: name: "]);
}

#[test]
fn reproduce_takes_traces_by_name_and_goes_on_without() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("scenarios/thesis")).unwrap();
    let traced = figure().replace("seeds = 3", "seeds = 2\ntrace = \"trace.tsv\"");
    desk.write("scenarios/thesis/figure.toml", &traced);
    let array = json(&desk.run(&["reproduce", "--json"]));
    assert_eq!(array[0]["verdict"], "none");
    assert!(array[0]["reason"].as_str().unwrap().contains("needs the trace trace.tsv"));
    let array = json(&desk.run(&["reproduce", "--json", "--trace", "trace.tsv"]));
    assert_eq!(array[0]["verdict"], "holds");
    // The folder beside the scenarios is looked into unasked.
    fs::create_dir(desk.path("traces")).unwrap();
    fs::rename(desk.path("trace.tsv"), desk.path("traces/trace.tsv")).unwrap();
    assert_eq!(json(&desk.run(&["reproduce", "--json"]))[0]["verdict"], "holds");
    assert_eq!(desk.names("out/cache").len(), 4, "where a trace lies changes nothing");
}

/// An interrupt in the middle of a run leaves nothing behind.
#[cfg(unix)]
#[test]
fn an_interrupt_leaves_no_files() {
    let desk = Desk::new();
    // Long enough to be interrupted: ten thousand seconds of an endless flow.
    let endless = SCENARIO
        .replace("kind = \"shuffle\"\njobs = 4\nmean_bytes = \"100 KB\"\nload = 0.5\n\n[workload.trace]\ntrace_nodes = 3\n",
            "kind = \"jobs\"\njob = [{ flow = [{ from = \"h0\", to = \"h1\", size = \"endless\" }] }]\n")
        .replace("title =", "until = \"10000 s\"\ntitle =");
    desk.write("endless.toml", &endless);
    let mut child = command(&["run", "endless.toml"])
        .current_dir(desk.0.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !desk.path("out").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be interrupted");
        std::thread::yield_now();
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(desk.names("."), ["endless.toml", "small.toml", "trace.tsv"]);
}
