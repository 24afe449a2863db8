//! Bad lines: each gives one error that names line, field, what was found and the remedy.

use std::path::Path;

use watermaster_workload::{Cdf, TraceError, coflow, swim};

fn swim_error(text: &str) -> String {
    let found = swim::Reader::new(text.as_bytes(), "t").find_map(Result::err);
    found.expect("a bad trace").to_string()
}

fn coflow_error(text: &str) -> String {
    let error = match coflow::Reader::new(text.as_bytes(), "t") {
        Err(error) => error,
        Ok(mut reader) => reader.find_map(Result::err).expect("a bad trace"),
    };
    error.to_string()
}

fn cdf_error(text: &str) -> String {
    let result = Cdf::read(text.as_bytes(), "t");
    result.expect_err("a bad distribution").to_string()
}

const GOOD: &str = "job0\t49\t49\t740773\t2339561\t627471\n";

#[test]
fn swim_lines() {
    let cases = [
        (
            format!("{GOOD}job1\t101\t52\t7\t-5\t1\n"),
            "t:2: shuffle (B): \"-5\" is negative; write a whole number from 0 to \
             1000000000000000000",
        ),
        (
            format!("{GOOD}job1\t101\t52\t7\n"),
            "t:2: found 4 fields in \"job1\\t101\\t52\\t7\"; write job, submit time, gap, map input, \
             shuffle and output with a tab between them",
        ),
        (
            format!("{GOOD}job1\t101\t52\t7\t5\t12"),
            "t:2: the file is cut within this line; fetch it anew, or end the line if it is whole",
        ),
        (
            format!("{GOOD}job1\t48\t0\t7\t5\t1\n"),
            "t:2: submit time (s): 48 s is before the previous line's; sort the trace by submit \
             time",
        ),
        (
            format!("{GOOD}job1\t101\t52\t\t5\t1\n"),
            "t:2: map input (B): nothing is there; write a whole number from 0 to \
             1000000000000000000",
        ),
        (
            format!("{GOOD}job1\t101\t52\t1\t5\t99999999999999999999999\n"),
            "t:2: output (B): found \"99999999999999999999999\"; write a whole number from 0 to \
             1000000000000000000",
        ),
        (
            format!("{GOOD}job1\t1e3\t52\t1\t5\t9\n"),
            "t:2: submit time (s): found \"1e3\"; write a whole number from 0 to 1000000000",
        ),
        (
            format!("{GOOD}\n"),
            "t:2: found 1 fields in \"\"; write job, submit time, gap, map input, shuffle and \
             output with a tab between them",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(swim_error(&text), expected);
    }
}

#[test]
fn lines_are_bounded_and_text() {
    let long = "x".repeat(3 << 20);
    assert_eq!(
        swim_error(&long),
        "t:1: the line is longer than 1048576 octets; is this a trace file?"
    );
    let octets: &[u8] = b"job0\t1\t1\t1\xff\t1\t1\n";
    let error = swim::Reader::new(octets, "t").find_map(Result::err);
    assert_eq!(
        error.map(|error| error.to_string()).as_deref(),
        Some("t:1: the line is not UTF-8 text; is this a trace file?")
    );
    let quoted = swim_error(&format!("{}\n", "\u{1b}[2J".repeat(1000)));
    assert!(!quoted.contains('\u{1b}') && quoted.len() < 400, "{quoted}");
}

#[test]
fn reading_ends_with_the_first_error() {
    let text = format!("{GOOD}bad\n{GOOD}");
    let read: Vec<_> = swim::Reader::new(text.as_bytes(), "t").collect();
    assert_eq!(read.len(), 2);
    assert!(read[0].is_ok() && read[1].is_err());
}

#[test]
fn coflow_lines() {
    let cases = [
        ("", "t:1: the file is empty; its first line gives ports and coflows"),
        (
            "3\n",
            "t:1: coflows: the line ends before it; is the file cut, or a number of tasks wrong?",
        ),
        (
            "3 2\n1 0 1 2 1 0:1.0\n",
            "t:3: the file ends after 1 coflows and line 1 announces 2; fetch it anew",
        ),
        (
            "3 1\n1 0 1 2 1 0:1.0\n2 0 1 2 1 0:1.0\n",
            "t:3: found \"2 0 1 2 1 0:1.0\" after the 1 coflows that line 1 announces; correct \
             line 1",
        ),
        (
            "3 1\n1 0 1 3 1 0:1.0\n",
            "t:2: mapper port: found 3; line 1 announces 3 ports, which count from 0: correct one",
        ),
        (
            "3 1\n1 0 1 2 1 0:-1.0\n",
            "t:2: reducer megabytes: \"-1.0\" is negative; write a number with at most nine \
             decimals from 0 to 1099511627776",
        ),
        ("3 1\n1 0 1 2 1 0\n", "t:2: reducer port:megabytes: found \"0\"; write it as 12:3.5"),
        ("3 1\n1 0 0 1 0:1.0\n", "t:2: number of mappers: found 0; a coflow has at least one"),
        (
            "3 1\n1 0 1 2 2 0:1.0\n",
            "t:2: reducer port:megabytes: the line ends before it; is the file cut, or a number of \
             tasks wrong?",
        ),
        (
            "3 1\n1 0 1 2 1 0:1.0 1:1.0\n",
            "t:2: found \"1:1.0\" after the last field; is a number of tasks wrong?",
        ),
        (
            "3 2\n1 5 1 2 1 0:1.0\n2 4 1 2 1 0:1.0\n",
            "t:3: arrival (ms): it is before the previous line's; sort the trace by arrival",
        ),
        (
            "3 1\n1 0 4194304 1\n",
            "t:2: mapper port: the line ends before it; is the file cut, or a number of tasks \
             wrong?",
        ),
        (
            "3 1\n1 0 99999999 1\n",
            "t:2: number of mappers: found \"99999999\"; write a whole number from 0 to 4194304",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(coflow_error(text), expected);
    }
}

#[test]
fn more_ports_than_hosts() {
    let reader = coflow::Reader::new("3 1\n1 0 1 2 1 0:1.0\n".as_bytes(), "t").expect("line 1");
    let hosts = [model::NodeId(4), model::NodeId(5)];
    let error = coflow::Coflows::read(reader, &hosts, &hosts).expect_err("too few hosts");
    assert_eq!(
        error.to_string(),
        "t:1: ports: the trace has 3 ports and the network 2 hosts; give it a host for each port"
    );
}

#[test]
fn cdf_lines() {
    let cases = [
        ("", "t:1: the file is empty; write one `bytes,cdf` per line"),
        ("100,0\nx\n", "t:2: found \"x\"; write bytes and cdf"),
        ("100,0\n100,1\n", "t:2: bytes: 100 is not above the line before (100); sort it"),
        ("100,0.5\n200,0.4\n", "t:2: cdf: 0.4 is below the line before (0.5); a cdf never falls"),
        (
            "100,0.5\n200,0.9\n",
            "t:3: the file ends at cdf 0.9; the last line's must be 1: fetch the file anew",
        ),
        ("100,NaN\n", "t:1: cdf: found \"NaN\"; write a number from 0 to 1"),
        (
            "300\n100 0.5\n200 1\n",
            "t:4: line 1 states the mean 300, and the points have 150; correct one",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(cdf_error(text), expected);
    }
}

#[test]
fn paths_that_are_no_file() {
    let missing = Path::new("no/such/trace.tsv");
    let opens: [fn(&Path) -> Option<TraceError>; 3] = [
        |path| swim::Reader::open(path).err(),
        |path| coflow::Reader::open(path).err(),
        |path| Cdf::open(path).err(),
    ];
    for open in opens {
        let error = open(missing).expect("no such file").to_string();
        assert!(error.starts_with("no/such/trace.tsv: No such file"), "{error}");
        assert!(error.ends_with("; give the path of a trace file"), "{error}");
        let error = open(Path::new(".")).expect("a directory").to_string();
        assert_eq!(error, ".: this is a directory; give the path of the trace file in it");
    }
}
