//! What is refused, with field and remedy, and how much a peer may ask for.

use crate::decide::{report, rig, sampled};
use crate::in_memory::{Rig, SECOND, Shape, connection, even};
use protocol::Connection;
use protocol::agent::{Capability, Host, Report};
use protocol::application::Declaration;
use units::Span;
use watermaster_control::Input;

#[test]
fn refusals_name_field_and_remedy() {
    let mut rig = rig("fair");
    let text = |done: Result<(), watermaster_control::Refusal>| done.unwrap_err().to_string();
    let start = |job: &str| Declaration::JobStart { job: job.into() };
    assert_eq!(text(rig.declare("a", start(""))), "job: is empty; write 1 to 256 bytes");
    let long = "job: has 257 bytes; write at most 256, or raise limits.name";
    assert_eq!(text(rig.declare("a", start(&"j".repeat(257)))), long);
    let unseen = "job: has control or invisible characters; leave them out";
    let unseen_ones = [
        "\n\u{1b}[2J",
        "\u{202e}",
        "\u{200f}",
        "\u{61c}",
        "\u{2028}",
        "\u{200b}",
        "\u{feff}",
        "\u{3164}",
        "\u{115f}",
        "\u{2800}",
        "\u{fe0f}",
    ];
    for c in unseen_ones {
        assert_eq!(text(rig.declare("a", start(&format!("j{c}")))), unseen, "{c:?}");
    }
    for blank in [" ", "\u{a0}", " \u{3000}\t"] {
        let blanks = "job: is nothing but blanks; write what can be seen";
        assert_eq!(text(rig.declare("a", start(blank))), blanks, "{blank:?}");
    }
    assert!(rig.declare("a", start("größe 大小 \u{1f600}")).is_ok());
    let complete = Declaration::JobComplete { job: "x".into() };
    assert_eq!(
        text(rig.declare("a", complete)),
        "job: \"x\" has not started; declare job_start first"
    );
    rig.start("a", "j");
    let unknown = Connection { source: "192.0.2.1:1".parse().unwrap(), ..connection(0, 1, 1) };
    assert!(text(rig.flow("a", "j", 1, unknown, None)).starts_with("connection.source: 192.0.2.1"));
    rig.flow("a", "j", 1, connection(0, 1, 1), None).unwrap();
    rig.flow("a", "j", 1, connection(0, 1, 1), None).unwrap();
    assert!(text(rig.flow("a", "j", 1, connection(0, 1, 2), None)).contains("is in use"));
    rig.start("b", "j");
    let stolen = rig.flow("b", "j", 1, connection(0, 1, 1), None);
    assert!(text(stolen).contains("another application has declared this connection"));
    let task =
        |task, host: &str| Declaration::TaskHost { job: "j".into(), task, host: host.into() };
    assert!(text(rig.declare("a", task(0, "nowhere"))).starts_with("host: no host is called"));
    assert!(
        text(rig.declare("a", task(u32::MAX, "h0"))).starts_with("task: 4294967295 is too large")
    );
    rig.declare("a", task(0, "10.0.0.1")).unwrap();
    let agent = rig.agent("left", &[0]);
    let sample = sampled(rig.now, &[report(connection(1, 2, 1), 1, 1)]);
    let foreign = rig.input(Input::Reported(agent, &sample));
    assert!(text(foreign).starts_with("connection.source: 10.0.0.2 is not of the agent's hosts"));
    // Somebody else may not act for the same host; the same agent may come back.
    let other = rig.peer();
    rig.input(Input::AgentConnected { channel: other, identity: "right" }).unwrap();
    let hosts = vec![Host { name: "h0".into(), addresses: vec![] }];
    let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
    assert!(text(rig.input(Input::Reported(other, &hello))).contains("another agent acts for h0"));
    assert_eq!(rig.closed.len(), 1);
    rig.agent("left", &[0]);
    assert_eq!(rig.closed[1], "the same peer has a newer connection");
}

#[test]
fn what_a_peer_may_ask_for_is_limited() {
    let shape = Shape::racks(3);
    let mut config = shape.config("fair", even(), true);
    config.limits.jobs = 2;
    config.limits.flows = 3;
    config.limits.applications = 2;
    config.limits.declarations_per_second = 20;
    let mut rig = Rig::new(&shape, config, 1);
    rig.start("a", "1");
    rig.start("a", "2");
    let refused = rig.declare("a", Declaration::JobStart { job: "3".into() }).unwrap_err();
    assert!(refused.busy, "{refused}");
    for (flow, port) in (0..3).zip(10..) {
        rig.flow("a", "1", flow, connection(0, 3, port), None).unwrap();
    }
    assert!(rig.flow("a", "2", 9, connection(0, 3, 99), None).unwrap_err().busy);
    rig.start("b", "1");
    assert!(rig.declare("c", Declaration::JobStart { job: "1".into() }).unwrap_err().busy);
    let mut taken = 0;
    while rig.declare("b", Declaration::JobStart { job: "1".into() }).is_ok() {
        taken += 1;
        assert!(taken < 100);
    }
    assert!(taken >= 15, "{taken}");
    rig.pass(SECOND);
    rig.declare("b", Declaration::JobStart { job: "1".into() }).unwrap();
    // An application that is gone is forgotten after its grace, and its limits with it.
    let agent = rig.agent("left", &[0, 1, 2]);
    assert_eq!(rig.agents[&agent].paced.len(), 3);
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 9);
    // One that is there again has no need to say anything.
    rig.input(Input::ApplicationHere("a")).unwrap();
    rig.pass(SECOND * 9);
    assert_eq!(rig.agents[&agent].paced.len(), 3);
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 9);
    assert_eq!(rig.agents[&agent].paced.len(), 3);
    rig.pass(SECOND * 2);
    assert_eq!(rig.agents[&agent].paced.len(), 0);
    assert_eq!(rig.controller.at(rig.now).status().applications.len(), 1);
}

/// An explanation has an end, and says how much it leaves out.
#[test]
fn of_a_job_of_many_flows_a_thousand_are_explained() {
    let mut rig = rig("fair");
    rig.start("a", "j");
    for flow in 0..1003 {
        let port = 1000 + u16::try_from(flow).unwrap();
        rig.flow("a", "j", flow, connection(0, 3, port), None).unwrap();
        // Within what it may say in a second.
        rig.now += Span::from_millis(100);
    }
    let why = rig.controller.at(rig.now).explain_job("a", "j").unwrap();
    assert_eq!((why.flows.len(), why.more), (1000, 3));
}

/// What can't be read is counted as what is refused, makes the application known and uses up what it may say.
#[test]
fn what_cannot_be_read_is_counted_as_refused() {
    let mut rig = rig("fair");
    rig.input(Input::Unreadable("a")).unwrap();
    rig.start("b", "j");
    rig.input(Input::Unreadable("b")).unwrap();
    rig.input(Input::Unreadable("b")).unwrap();
    let status = rig.controller.at(rig.now).status();
    let refused: Vec<_> =
        status.applications.iter().map(|known| (known.name.as_str(), known.refused)).collect();
    assert_eq!(refused, [("a", 1), ("b", 2)]);
    assert_eq!(rig.controller.counters().declarations_refused, 3);
    let much = (0..1_000_000).find_map(|_| rig.input(Input::Unreadable("a")).err()).unwrap();
    assert_eq!((much.field, much.busy), ("application", true));
    // Nothing is left of one that goes.
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 11);
    assert_eq!(rig.controller.at(rig.now).status().applications.len(), 1);
}

/// An application that comes back within its grace loses nothing when that is over. When it goes again, it
/// has a whole one.
#[test]
fn an_application_that_comes_back_keeps_what_it_declared() {
    let mut rig = rig("fair");
    rig.agent("left", &[0, 1, 2]);
    rig.start("a", "j");
    rig.flow("a", "j", 1, connection(0, 3, 10), None).unwrap();
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 5);
    rig.start("a", "j");
    rig.pass(SECOND * 3);
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 9);
    assert_eq!(rig.paced().len(), 1);
    rig.start("a", "j");
    rig.pass(SECOND * 60);
    assert_eq!(rig.paced().len(), 1);
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 11);
    assert_eq!((rig.paced().len(), rig.controller.at(rig.now).status().applications.len()), (0, 0));
}
