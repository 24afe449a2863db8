//! Who may declare what, and who may act for whom, where the configuration says so.

use crate::in_memory::{Rig, Shape, address, connection, even};
use protocol::agent::{Capability, Host, Report};
use protocol::application::Declaration;
use watermaster_control::{Change, Config, Input, Refusal, Tenant};

fn tenant(application: &str, hosts: &[&str]) -> Tenant {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    Tenant { application: application.into(), hosts, ..Tenant::default() }
}

/// A controller of four hosts under such a configuration.
fn rig(change: impl FnOnce(&mut Config)) -> Rig {
    let shape = Shape::racks(2);
    let mut config = shape.config("fair", even(), true);
    change(&mut config);
    Rig::new(&shape, config, 1)
}

/// The field that is refused, and why.
fn refusal(done: Result<(), Refusal>) -> (&'static str, String) {
    let Refusal { field, reason, .. } = done.unwrap_err();
    (field, reason)
}

fn problems(rig: &Rig) -> String {
    rig.controller.at(rig.now).status().problems.join("\n")
}

#[test]
fn an_application_declares_what_it_is_granted_and_nothing_else() {
    let mut rig = rig(|config| {
        let mut granted = tenant("app", &["h0", "h2"]);
        granted.ports = vec![5000..=5010];
        (granted.jobs, granted.flows) = (Some(2), Some(1));
        config.tenants = vec![granted];
    });
    rig.start("app", "job");
    let (field, reason) = refusal(rig.flow("app", "job", 1, connection(0, 1, 1000), None));
    assert_eq!(field, "connection.destination");
    assert!(reason.contains("h1 is not among the hosts"), "{reason}");
    assert!(problems(&rig).contains("application app is refused: connection.destination: h1"));
    let host = "h1".into();
    let placed = rig.declare("app", Declaration::TaskHost { job: "job".into(), task: 0, host });
    assert_eq!(refusal(placed).0, "host");
    let mut foreign = connection(0, 2, 1000);
    foreign.destination.set_port(6000);
    let (field, reason) = refusal(rig.flow("app", "job", 1, foreign, None));
    assert_eq!(field, "connection");
    assert!(reason.contains("5000-5010"), "{reason}");
    rig.flow("app", "job", 1, connection(0, 2, 1000), None).unwrap();
    let (field, reason) = refusal(rig.flow("app", "job", 2, connection(0, 2, 1001), None));
    assert!(field == "flow" && reason.contains("raise flows of its [[tenant]]"), "{reason}");
    rig.start("app", "second");
    let third = rig.declare("app", Declaration::JobStart { job: "third".into() });
    assert_eq!(refusal(third).0, "job");
    assert_eq!(rig.controller.at(rig.now).status().applications[0].refused, 5);
}

#[test]
fn who_is_no_tenant_declares_nothing_and_is_not_known() {
    let mut rig = rig(|config| config.tenants = vec![tenant("app", &["h0"])]);
    let job = Declaration::JobStart { job: "job".into() };
    let (field, reason) = refusal(rig.declare("stranger", job.clone()));
    assert_eq!(field, "application");
    assert!(reason.contains("[[tenant]]"), "{reason}");
    assert!(rig.controller.at(rig.now).status().applications.is_empty());
    assert!(problems(&rig).contains("application stranger is refused"), "{}", problems(&rig));
    assert_eq!(rig.controller.counters().declarations_refused, 1);
    // The file is read again.
    let tenants = Some(vec![tenant("stranger", &["h0"])]);
    rig.reload(Change { tenants, ..Change::default() });
    rig.declare("stranger", job.clone()).unwrap();
    rig.declare("app", job).unwrap_err();
}

#[test]
fn without_tenants_all_may_declare_everything() {
    let mut rig = rig(|_| ());
    rig.start("anybody", "job");
    rig.flow("anybody", "job", 1, connection(0, 1, 1000), None).unwrap();
}

/// Whether an agent of this name is taken for the agent of these hosts.
fn is_taken(rig: &mut Rig, identity: &str, hosts: &[u32]) -> bool {
    let channel = rig.peer();
    rig.input(Input::AgentConnected { channel, identity }).unwrap();
    let hosts = hosts.iter().map(|host| {
        let name = format!("h{host}");
        Host { name, addresses: vec![address(*host)] }
    });
    let (hosts, capabilities) = (hosts.collect(), Capability::ALL.to_vec());
    let hello = Report::Hello { hosts, capabilities, epoch: 0 };
    rig.input(Input::Reported(channel, &hello)).is_ok()
}

#[test]
fn a_certificate_acts_for_its_nodes_alone() {
    let bound = || vec![("h0".to_owned(), "a".to_owned())];
    let mut rig = rig(|config| config.acting = bound());
    assert!(!is_taken(&mut rig, "evil", &[0]), "it isn't h0's");
    assert!(problems(&rig).contains("agent evil is refused: hosts: h0 is agent a's"));
    assert!(!is_taken(&mut rig, "a", &[0, 1]), "h1 is not among its nodes");
    assert!(problems(&rig).contains("h1 is not among the nodes of agent a"), "{}", problems(&rig));
    assert!(is_taken(&mut rig, "a", &[0]));
    assert!(is_taken(&mut rig, "b", &[1, 2]), "nobody is named for these");
    let acting = Some(vec![("h3".to_owned(), "d".to_owned())]);
    rig.reload(Change { acting, ..Change::default() });
    assert!(!is_taken(&mut rig, "c", &[3]));
    assert!(is_taken(&mut rig, "b", &[1, 2]), "nobody is named for these still");
}
