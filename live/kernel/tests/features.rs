//! What is said to be there is what the other tests use, so that with root nothing may be missing that
//! they need.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and what serves them"
)]

use kernel::Features;

#[test]
fn every_feature_is_there_or_says_why_not() {
    let Features(found) = Features::probe();
    for each in &found {
        match &each.finding {
            Ok(detail) => assert!(!detail.is_empty()),
            Err(missing) => {
                eprintln!("{}: {}", each.name, missing.reason);
                assert!(!missing.reason.is_empty() && !missing.remedy.is_empty());
            }
        }
    }
    if testing::needs::root() {
        let names: Vec<_> = Features(found).names().collect();
        for needed in ["bpf", "cgroup2", "pacing", "events"] {
            assert!(names.contains(&needed), "{needed} is missing");
        }
        assert!(names.contains(&"tcx") || names.contains(&"clsact"));
    }
}
