//! Scenario files: what is read, and that everything bad is refused with place, field and remedy.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::path::Path;

use model::{Buffer, JobClass, Network, NodeId, NodeKind};
use packet::{Discipline, Limiter, Protocol};
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_experiment::scenario::{DocumentError, Override, Scenario, World};
use watermaster_experiment::{Claim, ReadFrom, Reading, Rule, Standing};

const GOOD: &str = r#"name = "good"
title = "Two hosts"

[topology]
kind = "star"
hosts = 3
access = { capacity = "100 Mbit/s", delay = "33 us", buffer = "150 KB" }

[workload]
kind = "jobs"

[[workload.job]]
flow = [{ from = "h0", to = "h1", size = "1 MB" }]

[[policy]]
name = "tcp"

[[policy]]
name = "smsf"
beta = 0.05
"#;

fn read(text: &str, changes: &[&str]) -> Result<Scenario, DocumentError> {
    let changes: Vec<Override> = changes.iter().map(|c| c.parse().unwrap()).collect();
    Scenario::read("s.toml", text, Path::new(""), &changes)
}

/// The value of a policy's parameter, as TOML.
fn value(scenario: &Scenario, policy: usize, name: &str) -> String {
    scenario.policies[policy].parameters.get(name).unwrap().to_string()
}

fn refusal(text: &str, changes: &[&str]) -> String {
    read(text, changes).unwrap_err().to_string()
}

#[test]
fn a_job_says_what_it_is_worth_as_a_number() {
    let with = |weight: &str| GOOD.replace("flow = [", &format!("weight = {weight}\nflow = ["));
    assert!(read(&with("3"), &[]).is_ok());
    for wrong in ["0", "0.5", "\"3\""] {
        let said = refusal(&with(wrong), &[]);
        assert!(said.starts_with("s.toml:13:10: workload.job[0].weight: "), "{said}");
    }
}

#[test]
fn what_is_measured_beside_the_baseline_compares_with_it() {
    for (measure, compares) in [("jct_mean_s", false), ("jobs_improved_ratio", true)] {
        let scenario = read(&format!("measures = [\"{measure}\"]\n{GOOD}"), &[]).unwrap();
        assert_eq!(scenario.compares(), compares, "{measure}");
    }
}

#[test]
fn a_small_scenario_has_the_stated_values_and_defaults() {
    let scenario = read(GOOD, &[]).unwrap();
    assert_eq!(scenario.name, "good");
    assert_eq!(scenario.seed, 1);
    assert_eq!(scenario.baseline, "tcp");
    assert_eq!(scenario.control.enforcement, Limiter::Pacing);
    assert_eq!(scenario.queues.host, Discipline::Fifo);
    assert_eq!(scenario.labels().collect::<Vec<_>>(), ["tcp", "smsf"]);
    assert_eq!(value(&scenario, 1, "beta"), "0.05");
    let hosts = scenario.topology.hosts().count();
    assert_eq!((hosts, scenario.topology.links().len()), (3, 6));
    // The switch's port towards the host has the buffer, the host's own queue the default.
    for link in scenario.topology.links() {
        let from = &scenario.topology.nodes()[link.from.index()];
        let expected = match from.kind {
            NodeKind::Switch => Buffer::Bytes(Bytes::new(150_000)),
            NodeKind::Host => Buffer::Packets(1000),
        };
        assert_eq!(link.spec.buffer, expected);
        assert_eq!(link.spec.capacity, Rate::from_mbps(100));
        assert_eq!(link.spec.delay, Span::from_micros(33));
    }
}

#[test]
fn errors_name_line_column_field_fault_and_remedy() {
    let cases = [
        // (what is replaced, by what, place and field, a part of the fault, a part of the remedy)
        ("hosts = 3", "hosst = 3", "s.toml:4:1: topology.hosts", "missing", "add hosts = "),
        (
            "delay = \"33 us\"",
            "delai = \"33 us\"",
            "s.toml:7:10: topology.access.delay",
            "missing",
            "add delay",
        ),
        (
            "capacity = \"100 Mbit/s\", ",
            "",
            "s.toml:7:10: topology.access.capacity",
            "missing",
            "add capacity = \"100 Mbit/s\"",
        ),
        (
            "100 Mbit/s",
            "100 Mbps",
            "s.toml:7:23: topology.access.capacity",
            "unit is unknown",
            "Mbit/s",
        ),
        ("\"100 Mbit/s\"", "100", "s.toml:7:23: topology.access.capacity", "no unit", "Mbit/s"),
        (
            "100 Mbit/s",
            "0 Mbit/s",
            "s.toml:7:23: topology.access.capacity",
            "out of range",
            "write a capacity",
        ),
        ("150 KB", "many", "s.toml:7:63: topology.access.buffer", "no buffer", "100 packets"),
        ("150 KB", "+5 packets", "s.toml:7:63: topology.access.buffer", "no buffer", "100 packets"),
        ("150 KB", "1499 B", "s.toml:4:1: topology", "no full packet of 1500 B", "larger"),
        (
            "150 KB",
            "0 packets",
            "s.toml:7:63: topology.access.buffer",
            "holds nothing",
            "unlimited",
        ),
        ("beta = 0.05", "beta = 2", "s.toml:20:8: policy[1].beta", "out of range", "to 1"),
        (
            "beta = 0.05",
            "betta = 0.5",
            "s.toml:20:1: policy[1].betta",
            "unknown key",
            "did you mean \"beta\"?",
        ),
        (
            "name = \"smsf\"",
            "name = \"smfs\"",
            "s.toml:19:8: policy[1].name",
            "unknown",
            "did you mean \"smsf\"?",
        ),
        (
            "name = \"smsf\"\nbeta = 0.05",
            "name = \"tcp\"",
            "s.toml:18:1: policy[1]",
            "two policies",
            "label",
        ),
        (
            "to = \"h1\"",
            "to = \"h7\"",
            "s.toml:13:29: workload.job[0].flow[0].to",
            "no host \"h7\"",
            "h0, h1, h2",
        ),
        (
            "to = \"h1\"",
            "to = \"h0\"",
            "s.toml:13:29: workload.job[0].flow[0].to",
            "comes from",
            "another",
        ),
        ("1 MB", "-1 MB", "s.toml:13:42: workload.job[0].flow[0].size", "below zero", "one of"),
        ("1 MB", "endless", "s.toml:13:42: workload.job[0].flow[0].size", "never end", "until"),
        ("kind = \"star\"", "kind = \"ring\"", "s.toml:5:8: topology.kind", "unknown", "star"),
        ("name = \"good\"", "name = \"../bad\"", "s.toml:1:8: name", "no name", "letters"),
        ("hosts = 3", "hosts = 1", "s.toml:4:1: topology", "at least 2", "hosts"),
        ("hosts = 3", "hosts = 99999999", "s.toml:6:9: topology.hosts", "out of range", "262144"),
        ("hosts = 3", "hosts = ", "s.toml:6:", "", "correct the TOML syntax"),
        ("title = \"Two hosts\"\n", "", "s.toml:1:1: title", "missing", "add title"),
    ];
    for (old, new, place, fault, remedy) in cases {
        assert!(GOOD.contains(old), "the case replaces nothing: {old}");
        let error = refusal(&GOOD.replace(old, new), &[]);
        assert!(error.starts_with(place), "{error}\n  should start with {place}");
        assert!(error.contains(fault), "{error}\n  should say {fault}");
        assert!(error.contains(remedy), "{error}\n  should advise {remedy}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn columns_count_characters_and_lines_survive_carriage_returns() {
    let text = GOOD.replace('\n', "\r\n").replace("Two hosts", "Zwölf Höhlen");
    let error =
        refusal(&text.replace("title = \"Zwölf Höhlen\"", "title = \"Zwölf Höhlen\" x"), &[]);
    assert!(error.starts_with("s.toml:2:24"), "{error}");
}

#[test]
fn overrides_change_the_document_and_own_their_errors() {
    let changed = read(
        GOOD,
        &[
            "topology.access.capacity=1 Gbit/s",
            "policy.smsf.beta=0.5",
            "policy.0.label=plain",
            "until=\"3 s\"",
            "seed=7",
        ],
    )
    .unwrap();
    assert_eq!(changed.topology.links()[0].spec.capacity, Rate::from_mbps(1000));
    assert_eq!(value(&changed, 1, "beta"), "0.5");
    assert_eq!(changed.policies[0].label, "plain");
    assert_eq!((changed.until, changed.seed), (Time::ZERO + Span::from_secs(3), 7));

    let error = refusal(GOOD, &["topology.access.capacity=10"]);
    assert!(
        error.starts_with("--set topology.access.capacity=10: topology.access.capacity: "),
        "{error}"
    );
    let error = refusal(GOOD, &["topology.hots=4"]);
    assert!(error.starts_with("--set topology.hots=4: topology.hots: unknown key"), "{error}");
    assert!(error.contains("\"hosts\""), "{error}");
    let error = refusal(GOOD, &["policy.dctcp.beta=1"]);
    assert!(error.contains("no member \"dctcp\""), "{error}");
    let error = refusal(GOOD, &["name.short=1"]);
    assert!(error.contains("shorten the path"), "{error}");
    assert!("a..b=1".parse::<Override>().is_err());
    assert!("seed".parse::<Override>().is_err());
}

#[test]
fn a_policy_may_have_a_transport_of_its_own() {
    let text = GOOD.to_owned()
        + "[transport]\nmss = 1000\n[[policy]]\nname = \"tcp\"\nlabel = \"dctcp\"\ntransport.protocol = \"dctcp\"\n";
    // TOML allows a table after a list of tables.
    let scenario = read(&text, &[]).unwrap();
    let dctcp = &scenario.policies[2];
    assert_eq!((dctcp.transport.protocol, dctcp.transport.mss), (Protocol::Dctcp, 1000));
    assert_eq!(scenario.policies[0].transport.protocol, Protocol::NewReno);
}

#[test]
fn custom_topologies_and_overrides_of_links() {
    let custom = r#"kind = "custom"
hosts = ["a", "b"]
switches = ["s"]
link = [
    { from = "a", to = "s", capacity = "1 Gbit/s", delay = "1 us" },
    { from = "b", to = "s", capacity = "1 Gbit/s", delay = "1 us" },
]
override = [{ from = "s", to = "b", capacity = "10 Mbit/s", buffer = "7 packets", mark = 3 }]
"#;
    let start = GOOD.find("kind = \"star\"").unwrap();
    let end = GOOD.find("[workload]").unwrap();
    let text = GOOD.replace(&GOOD[start..end], custom).replace("h0", "a").replace("h1", "b");
    let scenario = read(&text, &[]).unwrap();
    let topology = &scenario.topology;
    let node = |name| topology.node_named(name).unwrap();
    let spec = |from, to| topology.link(topology.link_between(node(from), node(to)).unwrap()).spec;
    assert_eq!(spec("s", "b").capacity, Rate::from_mbps(10));
    assert_eq!(spec("s", "b").buffer, Buffer::Packets(7));
    assert_eq!(spec("s", "b").mark, Some(3));
    assert_eq!(spec("s", "b").delay, Span::from_micros(1));
    assert_eq!(spec("b", "s").capacity, Rate::from_mbps(1000));
    let error = refusal(&text.replace("from = \"s\", to = \"b\"", "from = \"a\", to = \"b\""), &[]);
    assert!(error.contains("no link from a to b"), "{error}");
    // Hosts may have the names of a domain; what results are filed under may not.
    let domain = text.replace("\"a\"", "\"a.dc1\"");
    assert!(read(&domain, &[]).unwrap().topology.node_named("a.dc1").is_some());
    assert!(refusal(&text, &["name=a.dc1"]).contains("is no name"));
}

#[test]
fn published_figures_name_policies_and_metrics_that_exist() {
    let figure =
        "[[published]]\npolicy = \"smsf\"\nmetric = \"jct_mean_s\"\nvalue = 1\ntolerance = 0.1\n";
    let scenario = read(&(GOOD.to_owned() + figure), &[]).unwrap();
    assert_eq!(scenario.published[0].metric, "jct_mean_s");
    let error = refusal(&(GOOD.to_owned() + &figure.replace("smsf", "sff")), &[]);
    assert!(error.starts_with("s.toml:22:10: published[0].policy"), "{error}");
    let error = refusal(&(GOOD.to_owned() + &figure.replace("jct_mean_s", "jct_meen_s")), &[]);
    assert!(error.contains("did you mean \"jct_mean_s\""), "{error}");
    let error = refusal(&(GOOD.to_owned() + figure + figure), &[]);
    assert!(error.starts_with("s.toml:28:10") && error.contains("already"), "{error}");
}

#[test]
fn a_published_value_says_how_exactly_it_can_be_read_and_of_what_size_it_is() {
    const TOLD: &str =
        "[[published]]\npolicy = \"smsf\"\nmetric = \"jct_mean_s\"\nagainst = \"tcp\"\n";
    const SIZE: &str = "value = -0.2\nreading = { from = \"text\", error = 0.05 }\n";
    let told = |more: &str| format!("{GOOD}{TOLD}{more}");
    let one = |more: &str| read(&told(more), &[]).unwrap().published.remove(0);
    let published = one(SIZE);
    let text = Reading { from: ReadFrom::Text, error: 0.05 };
    assert_eq!((published.reading, published.tolerance), (Some(text), 0.05));
    assert_eq!(one(&format!("{SIZE}tolerance = 0.01\n")).tolerance, 0.01);
    assert_eq!(one("direction = \"less\"\n").claim, Claim::Less);
    let much = one("direction = \"less\"\nleast = 0.1\nnote = \"much less: 10 %\"\n");
    assert_eq!((much.claim, much.least), (Claim::Less, 0.1));
    let solved = one(&format!("{SIZE}calibrates = [\"workload.job.0.flow.0.size\"]\n")).standing;
    assert_eq!(solved, Standing::Calibrates(vec!["workload.job.0.flow.0.size".into()]));
    let follows = one(&format!("{SIZE}follows_from = \"the sizes\"\n")).standing;
    assert_eq!(follows, Standing::Follows("the sizes".into()));
    let lacks = one(&format!("{SIZE}lacks = \"long cables\"\n")).standing;
    assert_eq!(lacks, Standing::Lacks("long cables".into()));
    // As many values can be arranged as settings are solved.
    let pair = |second: &str| {
        let first = told(&format!("{SIZE}calibrates = [\"workload.job.0.flow.0.size\"]\n"));
        let other = TOLD.replace("jct_mean_s", "jct_p95_s");
        format!("{first}{other}{SIZE}calibrates = [\"{second}\"]\n")
    };
    assert!(read(&pair("topology.hosts"), &[]).is_ok());
    let error = refusal(&pair("workload.job.0.flow.0.size"), &[]);
    assert!(error.contains("published: has 2 values that calibrate 1 settings"), "{error}");
    for (more, fault) in [
        ("value = -0.2\n", "published[0].tolerance: is missing"),
        (
            "value = 0\nbound = \"at least\"\ntolerance = 0\n",
            "a bound at no effect says nothing of a size",
        ),
        ("value = 0\nbound = \"at most\"\ntolerance = 0.1\n", "direction = \"more\" or \"less\""),
        ("value = -0.2\ndirection = \"less\"\n", "published[0].value: goes with a size"),
        ("direction = \"lower\"\n", "published[0].direction: \"lower\" is unknown"),
        (
            "value = -0.2\ntolerance = 0.1\nleast = 0.1\n",
            "published[0].least: goes with a direction",
        ),
        ("direction = \"less\"\nleast = 0.1\n", "a rule of ours makes the size; say which"),
        (
            "value = 1\nreading = { from = \"memory\", error = 1 }\n",
            "reading.from: \"memory\" is unknown",
        ),
        ("value = 1\ntolerance = 1\ncalibrates = []\n", "is empty; name the settings"),
        (
            "value = 1\ntolerance = 1\ncalibrates = [\"workload.sise\"]\n",
            "there is no setting workload.sise",
        ),
        (
            "value = 1\ntolerance = 1\ncalibrates = [\"topology.hosts\"]\nfollows_from = \"it\"\n",
            "exclude each other",
        ),
        ("value = 1\ntolerance = 1\nlacks = \"it\"\nfollows_from = \"it\"\n", "exclude each other"),
        ("value = 1\ntolerance = 1\nlacks = \"\"\n", "published[0].lacks: is empty"),
    ] {
        let error = refusal(&told(more), &[]);
        assert!(error.starts_with("s.toml:") && error.contains(fault), "{more}: {error}");
    }
    let level = told("direction = \"less\"\n").replace("against = \"tcp\"\n", "");
    assert!(refusal(&level, &[]).contains("direction needs a comparison; add against"));
    // An interval takes two repetitions.
    let single = format!("{GOOD}{FIGURE}").replace("seeds = 5", "seeds = 1");
    assert!(refusal(&single, &[]).contains("one repetition has no interval; write seeds = 2"));
}

const CHOICE: &str = r#"
[[choice]]
about = "how long links are"
stands = "1 ms"
rule = "plainest"
why = "a round number"
tried = [
    { name = "short", set = { "topology.access.delay" = "1 us" } },
    { name = "long", set = { "topology.access.delay" = "9 ms", "policy.smsf.beta" = 0.02 } },
]
"#;

#[test]
fn a_choice_names_what_stands_by_which_rule_and_what_else_was_possible() {
    let text = format!("{GOOD}{CHOICE}");
    let scenario = read(&text, &[]).unwrap();
    let [choice] = &scenario.choices[..] else { panic!("{:?}", scenario.choices) };
    assert_eq!((choice.rule, choice.seeds, choice.tried.len()), (Rule::Plainest, 3, 2));
    let long = Scenario::read("s.toml", &text, Path::new(""), &choice.tried[1].set).unwrap();
    assert_eq!(value(&long, 1, "beta"), "0.02");
    assert_eq!(long.topology.links()[0].spec.delay, Span::from_millis(9));
    for (good, bad, fault) in [
        ("stands = \"1 ms\"", "", "choice[0].stands: is missing"),
        ("why = \"a round number\"", "", "choice[0].why: is missing"),
        ("a round number", " ", "choice[0].why: is empty; say something"),
        ("rule = \"plainest\"", "rule = \"nearest\"", "choice[0].rule: \"nearest\" is unknown"),
        (
            "name = \"short\"",
            "name = \"long\"",
            "choice[0].tried[1]: has the name of another value",
        ),
        (
            "name = \"short\"",
            "name = \"1 ms\"",
            "choice[0].tried[0]: has the name of another value",
        ),
        ("{ \"topology.access.delay\" = \"1 us\" }", "{}", "choice[0].tried[0].set: write 1 to 32"),
        (
            "\"policy.smsf.beta\" =",
            "\"policy..beta\" =",
            "is no path; write keys with dots between",
        ),
    ] {
        assert!(text.contains(good), "{good}");
        let error = refusal(&text.replacen(good, bad, 1), &[]);
        assert!(error.starts_with("s.toml:") && error.contains(fault), "{bad}: {error}");
    }
    let twice = format!("{text}{CHOICE}");
    assert!(refusal(&twice, &[]).contains("choice[1]: is about the same as another"));
    // What an axis sets is no choice.
    let error = refusal(&format!("{GOOD}{FIGURE}{CHOICE}"), &[]);
    assert!(error.contains("figure 6.4 sets it at each point"), "{error}");
}

#[test]
fn limits_are_kept_by_pacing_or_by_meters() {
    let metered = ["control.enforcement=meters", "control.burst=15 KB"];
    let control = read(GOOD, &metered).unwrap().control;
    assert_eq!(control.enforcement, Limiter::Meter { burst: Bytes::new(15_000) });
    assert!(refusal(GOOD, &metered[..1]).contains("control.burst"));
}

#[test]
fn the_simulated_controller_is_for_trees_and_rates() {
    let simulated = |more: &[&str]| {
        let mut changes = vec!["control.controller=simulated"];
        changes.extend(more);
        read(GOOD, &changes)
    };
    let control = simulated(&["control.faults.loss=0.1", "control.lease=2 s"]).unwrap().control;
    let simulated_control = control.simulated.unwrap();
    assert_eq!(simulated_control.lease, Span::from_secs(2));
    assert_eq!(simulated_control.faults.loss, 0.1);
    assert_eq!(read(GOOD, &[]).unwrap().control.simulated, None);
    for (change, expected) in [
        ("control.faults.loss=1", "control.faults.loss: 1 is out of range"),
        ("control.faults.crash.every=2 s", "crash.most: is missing; add most = \"3 s\""),
        ("control.faults.crash.every=0 s", "control.faults.crash.every"),
        ("control.faults.crush=1", "crush"),
        ("policy.tcp.name=sdtcp", "control: sdtcp decides about more than rates"),
        ("world=lab", "control: the lab has no simulated controller"),
    ] {
        let mut more = vec![change];
        if change.contains("sdtcp") {
            more.push("transport.handshake=true");
        }
        let error = simulated(&more).unwrap_err().to_string();
        assert!(error.contains(expected), "{change}: {error}");
    }
    // Alone, faults mean nothing.
    assert!(refusal(GOOD, &["control.faults.loss=0.1"]).contains("control.faults"));
    let fabric = GOOD.replace(
        "kind = \"star\"\nhosts = 3",
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
         fabric = { capacity = \"1 Gbit/s\", delay = \"1 us\", buffer = \"150 KB\" }",
    );
    assert!(read(&fabric, &[]).is_ok());
    assert!(refusal(&fabric, &["control.controller=simulated"]).contains("one path between"));
}

/// Found by fuzzing: a text over several lines came back in the error as it was.
#[test]
fn errors_are_one_line_without_control_characters() {
    let several = GOOD.replace("\"100 Mbit/s\"", "\"\"\"100\nMbit\\u001b[31m\"\"\"");
    for error in [refusal(&several, &[]), refusal(GOOD, &["until=3\ns\u{7}"])] {
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

#[test]
fn nothing_that_is_written_makes_an_error_long() {
    let long = "x".repeat(100_000);
    for text in [
        GOOD.replace("hosts = 3", &format!("{long} = 3")),
        GOOD.replace("smsf", &long),
        GOOD.replace("100 Mbit/s", &long),
        GOOD.replace("h1", &long),
        GOOD.replace("150 KB", &long),
    ] {
        assert!(refusal(&text, &[]).len() < 1000);
    }
}

proptest! {
    /// Whatever a line is replaced by, reading ends with a scenario or with one line of error that
    /// begins with the file.
    #[test]
    fn any_damage_gives_a_scenario_or_one_line(line in 0usize..20, text in "\\PC{0,40}") {
        let mut lines: Vec<&str> = GOOD.lines().collect();
        lines[line] = &text;
        if let Err(error) = read(&lines.join("\n"), &[]) {
            let error = error.to_string();
            prop_assert!(error.starts_with("s.toml:"), "{}", error);
            prop_assert_eq!(error.lines().count(), 1);
        }
    }
}

#[test]
fn the_fluid_world_is_a_choice_and_has_nothing_to_capture() {
    assert_eq!(read(GOOD, &[]).unwrap().world, World::Packet);
    assert_eq!(read(GOOD, &["world=\"fluid\""]).unwrap().world, World::Fluid);
    let error = refusal(GOOD, &["world=\"fluids\""]);
    assert!(error.contains("world") && error.contains("fluid"), "{error}");
    let capture = GOOD.to_owned() + "[[capture]]\nfrom = \"s0\"\nto = \"h1\"\n";
    assert!(read(&capture, &[]).is_ok());
    let error = refusal(&capture, &["world=\"fluid\""]);
    assert!(error.contains("no packets to capture"), "{error}");
}

/// `GOOD` with a figure that varies beta.
const FIGURE: &str = r#"
[figure]
text = "phurti"
number = "6.4"
vary = ["policy.smsf.beta", "topology.access.capacity"]
over = [[0.01, "10 Mbit/s"], [0.05, "20 Mbit/s"], [0.1, "30 Mbit/s"]]
quick = [[0.01, "10 Mbit/s"]]
seeds = 5
metric = "jct_mean_s"

[[published]]
policy = "smsf"
metric = "jct_mean_s"
at = 0.05
value = 1.5
tolerance = 0.1

[[published]]
policy = "smsf"
metric = "jct_mean_s"
against = "tcp"
at = 0.1
value = -0.2
bound = "at most"
tolerance = 0.1
reason = "Because."

[[published]]
policy = "smsf"
metric = "jct_p95_s"
value = 2
tolerance = 1
headline = true
"#;

#[test]
fn a_figure_names_its_points_and_each_has_its_published_values() {
    let text = format!("{GOOD}{FIGURE}");
    let scenario = read(&text, &[]).unwrap();
    let [figure] = &scenario.figures[..] else { panic!("{:?}", scenario.figures) };
    assert_eq!((figure.name().as_str(), figure.x.as_str()), ("phurti/6.4", "policy.smsf.beta"));
    assert_eq!((figure.points(false).len(), figure.points(true).len()), (3, 1));
    assert_eq!((figure.repetitions(false), figure.repetitions(true)), (5, 2));
    // As written the file has beta 5 %.
    let keys = |scenario: &Scenario| -> Vec<String> {
        scenario.published.iter().map(|p| p.key()).collect()
    };
    assert_eq!(keys(&scenario), ["jct_mean_s", "jct_p95_s"]);
    let last = figure.overrides(figure.points(false)[2], 4);
    let last = Scenario::read("s.toml", &text, Path::new(""), &last).unwrap();
    assert_eq!(keys(&last), ["jct_mean_s against tcp", "jct_p95_s"]);
    assert_eq!(last.seed, 4);
    assert_eq!(value(&last, 1, "beta"), "0.1");
    assert_eq!(last.topology.links()[0].spec.capacity, Rate::from_mbps(30));
    let reasons: Vec<&str> = last.published.iter().map(|p| p.reason.as_str()).collect();
    assert_eq!(reasons, ["Because.", ""]);
    assert!(last.published[1].headline);
}

#[test]
fn figures_share_a_scenario_when_each_published_value_names_its_own() {
    let figure = |number: &str| {
        format!(
            "[[figure]]\ntext = \"phurti\"\nnumber = \"{number}\"\nmetric = \"fct_s\"\nseeds = 2\n"
        )
    };
    let published = |owner: &str| {
        format!(
            "[[published]]\npolicy = \"smsf\"\nmetric = \"jct_mean_s\"\n{owner}value = 1\ntolerance = 1\n"
        )
    };
    let both = format!("{GOOD}{}{}", figure("6.4"), figure("6.5"));
    let good = format!("{both}{}", published("figure = \"6.5\"\n"));
    assert_eq!(read(&good, &[]).unwrap().published[0].figure, "6.5");
    let fault = refusal(&format!("{both}{}", published("")), &[]);
    assert!(fault.contains("published[0].figure: is missing; add figure = \"6.4\""), "{fault}");
    let fault = refusal(&format!("{both}{}", figure("6.4")), &[]);
    assert!(fault.contains("figure[2]: has the number of another figure"), "{fault}");
}

#[test]
fn bad_figures_are_refused_with_place_fault_and_remedy() {
    let cases = [
        ("number = \"6.4\"", "number = \"six four\"", "figure.number: is no number; use"),
        ("seeds = 5", "seeds = 0", "figure.seeds: 0 is out of range; write an integer"),
        ("seeds = 5", "seeds = 5\ndraws = 0", "figure.draws: 0 is out of range; write an integer"),
        ("seeds = 5", "seed = 5", "figure.seed: unknown key; \"seed\" is unknown; did you mean"),
        (
            "metric = \"jct_mean_s\"\n\n[[",
            "metric = \"jct_mean\"\n\n[[",
            "did you mean \"jct_mean_s\"?",
        ),
        (
            "[0.01, \"10 Mbit/s\"], [",
            "[0.01], [",
            "figure.over[0]: has 1 values for 2 keys of vary",
        ),
        ("[0.05, \"20 Mbit/s\"]", "[0.01, \"10 Mbit/s\"]", "figure.over[1]: is there twice"),
        ("quick = [[0.01,", "quick = [[0.02,", "figure.quick: 0.02, 10 Mbit/s isn't in over"),
        ("at = 0.05", "at = 0.06", "published[0].at: 0.06 isn't in figure.over"),
        ("bound = \"at most\"", "bound = \"most\"", "did you mean \"at most\"?"),
        ("against = \"tcp\"", "against = \"smsf\"", "published[1].against: is the policy itself"),
        ("against = \"tcp\"", "against = \"tcq\"", "did you mean \"tcp\"?"),
    ];
    for (good, bad, fault) in cases {
        let text = format!("{GOOD}{FIGURE}");
        assert!(text.contains(good), "{good}");
        let error = refusal(&text.replacen(good, bad, 1), &[]);
        assert!(error.starts_with("s.toml:") && error.contains(fault), "{bad}: {error}");
    }
    let error = refusal(&format!("{GOOD}{}", &FIGURE[FIGURE.find("[[published").unwrap()..]), &[]);
    assert!(error.contains("published[0].at: there is no axis; remove it, or add"), "{error}");
    // A key that doesn't exist shows when a point is read.
    let text = format!("{GOOD}{FIGURE}").replacen("policy.smsf.beta", "policy.smsf.betta", 1);
    let figure = read(&text, &[]).unwrap().figures.remove(0);
    let point = figure.overrides(figure.points(true)[0], 1);
    let error = Scenario::read("s.toml", &text, Path::new(""), &point).unwrap_err().to_string();
    assert!(
        error.starts_with("figure.over: policy.smsf.betta = 0.01: policy[1].betta: unknown key"),
        "{error}"
    );
}

const STREAM: &str = r#"name = "stream"
title = "A source and a sink"
until = "1 s"

[topology]
kind = "star"
hosts = 3
access = { capacity = "10 Mbit/s", delay = "50 us" }

[workload]
kind = "stream"

[[workload.operator]]
name = "source"
on = "h0"
rate = 100
size = "1 kB"

[[workload.operator]]
name = "sink"
on = ["h1", "h2"]
from = [{ operator = "source", grouping = "shuffle" }]

[[policy]]
name = "app-aware"
interval = "2 s"

[[policy]]
name = "static"
rates = ["1 Mbit/s"]
"#;

#[test]
fn recovery_by_time_is_whole_or_refused() {
    let all = ["rack=true", "tail_loss_probe=true", "prr=true", "frto=true", "tick=4 ms"];
    let all = all.map(|key| format!("transport.{key}"));
    let all = all.each_ref().map(String::as_str);
    let transport = read(GOOD, &all).unwrap().policies[0].transport;
    assert!(transport.rack && transport.tail_loss_probe && transport.prr && transport.frto);
    assert_eq!(transport.tick, Span::from_millis(4));
    let plain = read(GOOD, &[]).unwrap().policies[0].transport;
    assert!(!(plain.rack || plain.tail_loss_probe || plain.prr || plain.frto));
    for part in &all[1..] {
        assert!(refusal(GOOD, &[part]).contains("give rack"), "{part}");
    }
    assert!(refusal(GOOD, &[all[0], "transport.sack=false"]).contains("give sack"));
    assert!(refusal(GOOD, &[all[0], "transport.tick=1 s"]).contains("transport.tick"));
}

#[test]
fn streams_and_their_policies() {
    let scenario = read(STREAM, &[]).unwrap();
    assert_eq!(value(&scenario, 0, "interval"), "\"2 s\"");
    assert_eq!(value(&scenario, 1, "rates"), "[\"1 Mbit/s\"]");
    for (change, refused) in [
        ("world=fluid", "workload: needs packets"),
        ("workload.operator.sink.from.0.operator=sauce", "did you mean \"source\"?"),
        ("workload.operator.sink.from.0.grouping=random", "is unknown"),
        ("workload.operator.sink.name=source", "is an operator already"),
        ("workload.operator.sink.on=h7", "workload.operator"),
        ("workload.send_queue=7 Mbit/s", "workload.send_queue"),
        ("policy.app-aware.interval=0 s", "interval"),
    ] {
        let refusal = refusal(STREAM, &[change]);
        assert!(refusal.contains(refused), "{change}: {refusal}");
    }
    let endless = STREAM.replace("until = \"1 s\"\n", "");
    assert!(refusal(&endless, &[]).contains("add until"));
}

/// With an objective, which it needs.
const ARBITER: &str = "arbiter\"\nobjective = [{ name = \"a\", weight = 2 }]\nlabel = \"arbiter";

/// What would run as `tcp` under another name is refused, with what is missing.
#[test]
fn a_policy_has_what_it_decides_by_and_somebody_who_obeys() {
    let under = |policy: &str, changes: &[&str]| {
        let text = GOOD.replace("name = \"smsf\"\nbeta = 0.05", &format!("name = \"{policy}\""));
        assert_ne!(text, GOOD);
        let changes = [&["transport.protocol=datagram"], changes].concat();
        refusal(&text, &changes)
    };
    for (policy, changes, fault) in [
        ("asy", &[][..], "asy needs hosts that report what waits for whom; write protocol"),
        ("syn", &[], "syn needs hosts that report what waits for whom; write protocol"),
        ("asy", &["world=fluid"], "use world = \"packet\""),
        ("asy", &["world=lab"], "in the lab agents see it"),
        ("pfabric", &[], "pfabric needs tags in packets by which ports serve; datagrams have none"),
        ("pias", &["world=fluid"], "ports serve; use world = \"packet\""),
        ("pias", &["world=lab", "lab.control=daemons"], "ports serve; use world = \"packet\""),
        (
            "pfabric",
            &["transport.protocol=newreno", "control.controller=simulated"],
            "decides about more than rates and priorities",
        ),
        ("sicc", &[], "sicc needs requests that fan out; use a [workload] of kind = \"gather\""),
        (
            "sdtcp",
            &[
                "transport.protocol=newreno",
                "transport.handshake=true",
                "world=lab",
                "lab.control=daemons",
                "lab.switches=ovs",
            ],
            "agents see it where the kernel forwards",
        ),
        (
            ARBITER,
            &["policy.arbiter.objective.a.policy={name=\"app-aware\"}"],
            "app-aware needs streams whose queues are sampled",
        ),
        ("syn", &["world=lab", "lab.control=daemons"], "nothing enforces timeslots outside"),
        ("sab", &["world=lab", "lab.control=daemons"], "write handshake = true"),
        ("smsf", &["transport.held=true"], "never lets go what hosts hold"),
        (ARBITER, &["world=fluid", "policy.arbiter.cross=true"], "needs counters of ports; use"),
        (
            ARBITER,
            &["control.controller=simulated", "policy.arbiter.cross=true"],
            "remove controller or cross",
        ),
        (
            ARBITER,
            &["world=lab", "lab.control=daemons", "lab.switches=ovs", "policy.arbiter.cross=true"],
            "counters of ports; write switches = \"bridge\"",
        ),
    ] {
        let refusal = under(policy, changes);
        assert!(refusal.contains(fault), "{policy} {changes:?}: {refusal}");
    }
}

#[test]
fn datagrams_have_an_end_and_fit_a_packet() {
    let start = GOOD.find("[workload]").unwrap();
    let (before, after) = (&GOOD[..start], &GOOD[GOOD.find("[[policy]]").unwrap()..]);
    let workload =
        "[workload]\nkind = \"datagrams\"\nfrom = \"h0\"\nto = \"h1\"\nrate = \"3 Mbit/s\"\n\n";
    let text = format!("until = \"1 s\"\n{before}{workload}{after}");
    assert!(read(&text, &["workload.size=1460 B", "workload.start=1 ms"]).is_ok());
    for (change, refused) in [
        ("world=fluid", "workload: needs packets"),
        ("workload.to=h0", "workload.from: is the host that it sends to"),
        ("workload.size=1461 B", "workload.size"),
        ("workload.size=0 B", "workload.size"),
        ("workload.rate=0 bit/s", "workload.rate"),
        ("workload.until=soon", "workload.until"),
    ] {
        let refusal = refusal(&text, &[change]);
        assert!(refusal.contains(refused), "{change}: {refusal}");
    }
    assert!(refusal(&text.replace("until = \"1 s\"\n", ""), &[]).contains("add until"));
}

#[test]
fn an_engine_needs_daemons_and_applications_of_their_own_names() {
    let engine = "[lab]\ncontrol = \"daemons\"\n\n[engine]\nkind = \"spark\"\nprepare = [\"true\"]\n\n\
                  [[engine.application]]\nname = \"a\"\nclass = \"small\"\nstart = \"1 s\"\n\
                  run = \"sort $GATE\"\n\n[[engine.application]]\nname = \"b\"\nrun = \"count\"\n\
                  results = { file = \"r\", line = 2, stop = \"kill\" }\n\n[workload]\n";
    let text = GOOD.replace("[workload]\n", engine);
    let engine = read(&text, &["world=lab"]).unwrap().engine.unwrap();
    assert_eq!(engine.kinds, [lab::Engine::Spark]);
    let several = read(&text, &["world=lab", "engine.kind=[\"storm\", \"spark\"]"]).unwrap();
    assert_eq!(several.engine.unwrap().kinds, [lab::Engine::Storm, lab::Engine::Spark]);
    assert_eq!(engine.until, Span::from_secs(900));
    assert_eq!(engine.names().collect::<Vec<_>>(), ["a", "b"]);
    let (first, class) = &engine.applications[0];
    assert_eq!((first.start, *class), (Span::from_secs(1), Some(JobClass::Small)));
    let (second, _) = &engine.applications[1];
    assert_eq!(second.results.as_ref().map(|r| (&*r.file, r.line)), Some(("r", 2)));
    for (change, fault) in [
        ("lab.control=direct", "engine: needs daemons"),
        (
            "lab={control=\"daemons\",lease=\"1 s\",sample=\"2 s\"}",
            "lab.sample: is longer than the lease, 1 s",
        ),
        ("lab={control=\"direct\",record=\"r\"}", "lab.record: needs a controller"),
        ("engine.kind=[\"spark\", \"spark\"]", "engine.kind[1]: is named twice"),
        ("engine.kind=[]", "engine.kind: is empty; name an engine"),
        ("engine.application.b.on=h9", "engine.application[1].on: there is no host \"h9\""),
        (
            "policy.tcp.faults=[{kill=\"switch\",at=\"1 s\"}]",
            "faults[0].kill: \"switch\" is unknown",
        ),
        (
            "policy.tcp.faults=[{kill=\"tasks\",at=\"1 s\"}]",
            "faults[0]: kills tasks of no host; add on",
        ),
        (
            "policy.tcp.faults=[{kill=\"tasks\",on=\"h9\",at=\"1 s\"}]",
            "faults[0].on: there is no host \"h9\"",
        ),
        (
            "policy.tcp.faults=[{kill=\"tasks\",on=\"h1\",at=\"1 s\",back=\"2 s\"}]",
            "faults[0]: has back: tasks are started again by their engine; remove it",
        ),
        (
            "policy.tcp.faults=[{kill=\"agent\",on=\"h1\",at=\"1 s\"}]",
            "faults[0].on: is for tasks: a daemon is that of all hosts; remove it",
        ),
        ("policy.tcp.faults=[{kill=\"agent\"}]", "faults[0].at: is missing"),
        ("policy.tcp.faults=[{kill=\"agent\",at=\"9 s\",back=\"9 s\"}]", "isn't after at, 9 s"),
        ("engine.kind=strom", "engine.kind: \"strom\" is unknown; did you mean \"storm\""),
        ("engine.application=[]", "engine: has nothing to run; add an [[engine.application]]"),
        ("engine.application.b.name=a", "has the name of another"),
        ("engine.application.b.run=\"\"", "is empty; write a command"),
        ("engine.application.b.results.line=0", "out of range"),
        (
            "engine.application.b.start=900 s",
            "engine.application[1].start: isn't before the engine's until, 900 s; start earlier",
        ),
        ("engine.until=1 s", "engine.application[0].start: isn't before the engine's until, 1 s"),
    ] {
        let error = refusal(&text, &[change]);
        assert!(error.contains(fault), "{change}: {error}");
    }
    assert!(read(&text, &["engine.application.b.start=899 s"]).is_ok());
}

/// What fails under a policy is none of its parameters.
#[test]
fn faults_are_of_policies_on_engines() {
    let engine = "[lab]\ncontrol = \"daemons\"\n\n[engine]\nkind = \"spark\"\n\n\
                  [[engine.application]]\nname = \"a\"\nrun = \"sort\"\n\n[workload]\n";
    let text = GOOD.replace("[workload]\n", engine);
    let change = "policy.tcp.faults=[{kill=\"agent\",at=\"1 s\",back=\"3 s\"},\
                  {kill=\"controller\",at=\"2 s\"},{kill=\"tasks\",on=\"h1\",at=\"2 s\"}]";
    let policies = read(&text, &["world=lab", change]).unwrap().policies;
    let seconds = Span::from_secs;
    let daemon = |kill, at, back| lab::Fault::Daemon { kill, at: seconds(at), back };
    let agent = daemon(lab::Daemon::Agent, 1, Some(seconds(3)));
    let controller = daemon(lab::Daemon::Controller, 2, None);
    // Of the nodes the switch is the first.
    let tasks = lab::Fault::Tasks { on: NodeId(2), at: seconds(2) };
    assert_eq!(policies[0].faults, [agent, controller, tasks]);
    assert!(!policies[0].written.contains("faults"), "{}", policies[0].written);
    let refused = refusal(GOOD, &[change]);
    assert!(
        refused.contains("policy: has faults, which are of applications on an engine"),
        "{refused}"
    );
}

#[test]
fn lists_of_hosts_make_flows_between_each_two() {
    let all = "{ from = [\"h0\", \"h1\", \"h2\"], to = [\"h0\", \"h1\", \"h2\"], size = \"1 MB\" }";
    let text = GOOD.replace("{ from = \"h0\", to = \"h1\", size = \"1 MB\" }", all);
    let scenario = read(&text, &[]).unwrap();
    let network = Network::new(scenario.topology.clone());
    let traffic = scenario.workload.prepare(&network, 1).unwrap();
    let pairs: Vec<(u32, u32)> = traffic.pairs().map(|(from, to)| (from.0, to.0)).collect();
    let hosts: Vec<u32> = scenario.topology.hosts().map(|host| host.0).collect();
    let [a, b, c] = hosts[..] else { panic!() };
    assert_eq!(pairs, [(a, b), (a, c), (b, a), (b, c), (c, a), (c, b)]);
    let same = text.replace("to = [\"h0\", \"h1\", \"h2\"]", "to = \"h0\"");
    let same = same.replace("from = [\"h0\", \"h1\", \"h2\"]", "from = [\"h0\"]");
    assert!(refusal(&same, &[]).contains("is where the flow comes from"));
}

/// What is found only when jobs are made is told like all else: by its place and its whole path.
#[test]
fn what_can_not_be_made_names_its_key() {
    let jobs = "kind = \"jobs\"\n\n[[workload.job]]\nflow = [{ from = \"h0\", to = \"h1\", size = \"1 MB\" }]\n";
    let shuffle = "kind = \"shuffle\"\njobs = 3\nmean_bytes = \"1 MB\"\nmean_gap = \"1 s\"\n";
    let given = format!("{shuffle}[workload.tasks]\nmost_maps = 4000000\n");
    let incast = "kind = \"incast\"\nreceiver = \"h0\"\nsenders = 20000000\nbytes = \"1 kB\"\n";
    let all = "kind = \"all-to-all\"\nbytes = \"1 kB\"\n";
    for (workload, hosts, wanted) in [
        (shuffle, 600, ": workload.tasks.most_maps: "),
        (&*given, 3, "s.toml:15:13: workload.tasks.most_maps: "),
        (incast, 3, "s.toml:12:11: workload.senders: "),
        (all, 5_000, ": workload: hosts: 5000 make "),
    ] {
        let text = GOOD.replace(jobs, workload);
        let scenario = read(&text, &[&format!("topology.hosts={hosts}")]).unwrap();
        let network = Network::new(scenario.topology.clone());
        let error = scenario.workload.prepare(&network, 1).map(drop).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.starts_with("s.toml:"), "{wanted}: {error}");
    }
    let shuffle = GOOD.replace(jobs, shuffle);
    let most = ": workload.jobs: 4294967295 is out of range; write an integer from 1 to 1000000";
    assert!(refusal(&shuffle, &["workload.jobs=4294967295"]).ends_with(most));
    let load = refusal(&shuffle, &["workload.load=1e308"]);
    assert!(load.contains(": workload.load: 1e308 is out of range"), "{load}");
}
