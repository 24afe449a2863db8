//! What operators order: what ends at once, what is not in force, and what comes back.

use crate::in_memory::{Rig, SECOND, Shape, connection, even, metered};
use protocol::application::Declaration;
use protocol::operator::{Act, MOST_LASTS, Order};
use units::{Rate, Span};
use watermaster_control::{Change, Input, Refusal, Tenant};

fn act(order: Order) -> Act {
    Act { at_s: 1_000, by: "operator me".into(), order }
}

fn give(rig: &mut Rig, order: Order) -> Result<(), Refusal> {
    let done = rig.input(Input::Ordered { act: &act(order), again: false });
    rig.pass(Span::ZERO);
    done
}

fn evict() -> Order {
    Order::Evict { application: "a".into() }
}

fn block() -> Order {
    Order::Block { application: "a".into(), reason: Some("it lies".into()) }
}

fn freeze() -> Order {
    Order::Freeze { reason: Some("fire".into()) }
}

fn drain(host: &str) -> Order {
    Order::Drain { host: host.into(), reason: None }
}

/// Two applications: each has a flow to host 3, from a host of its own.
fn rig() -> Rig {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, shape.config("fair", even(), true), 1);
    rig.agent("left", &[0, 1]);
    for (application, host) in [("a", 0), ("b", 1)] {
        rig.start(application, "j");
        rig.flow(application, "j", 1, connection(host, 3, 10), None).unwrap();
    }
    assert_eq!(rig.paced().len(), 2, "both are held");
    rig
}

#[test]
fn a_job_that_is_canceled_ends_with_its_limits_and_may_come_again() {
    let mut rig = rig();
    let before = rig.paced()[&connection(1, 3, 10)];
    let cancel = |application: &str, job: &str| Order::Cancel {
        application: application.into(),
        job: job.into(),
    };
    assert_eq!(give(&mut rig, cancel("a", "k")).unwrap_err().field, "job");
    assert_eq!(give(&mut rig, cancel("c", "j")).unwrap_err().field, "application");
    assert_eq!(rig.paced().len(), 2);
    give(&mut rig, cancel("a", "j")).unwrap();
    assert!(!rig.paced().contains_key(&connection(0, 3, 10)), "{:?}", rig.paced());
    assert!(rig.paced()[&connection(1, 3, 10)] > before, "the other has its share");
    rig.start("a", "j");
    rig.flow("a", "j", 1, connection(0, 3, 10), None).unwrap();
    assert_eq!(rig.paced().len(), 2);
}

#[test]
fn an_application_that_is_evicted_is_gone_at_once_and_may_come_again() {
    let mut rig = rig();
    // Also within its grace.
    rig.input(Input::ApplicationGone("a")).unwrap();
    give(&mut rig, evict()).unwrap();
    assert_eq!(rig.paced().into_keys().collect::<Vec<_>>(), [connection(1, 3, 10)]);
    let known = |rig: &Rig| rig.controller.at(rig.now).status().applications.len();
    assert_eq!(known(&rig), 1);
    assert_eq!(give(&mut rig, evict()).unwrap_err().field, "application");
    rig.start("a", "j");
    rig.flow("a", "j", 1, connection(0, 3, 10), None).unwrap();
    // The end of its grace was that of what is gone.
    rig.pass(SECOND * 60);
    assert_eq!((known(&rig), rig.paced().len()), (2, 2));
}

#[test]
fn an_application_that_is_blocked_is_refused_until_it_is_not() {
    let mut rig = rig();
    give(&mut rig, block()).unwrap();
    assert_eq!(rig.paced().len(), 1);
    let start = Declaration::JobStart { job: "j".into() };
    let refused = rig.declare("a", start.clone()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "application: is blocked by operator me (it lies); ask the operator"
    );
    assert!(refused.busy, "it says it again, with all that comes after");
    assert_eq!(rig.input(Input::Unreadable("a")), Err(refused));
    rig.input(Input::ApplicationGone("a")).unwrap();
    rig.pass(SECOND * 60);
    let status = rig.controller.at(rig.now).status();
    assert_eq!(status.orders, [act(block())]);
    assert_eq!(status.applications.len(), 1, "who is blocked takes no place");
    let unblock = |name: &str| Order::Unblock { application: name.into() };
    assert_eq!(give(&mut rig, unblock("b")).unwrap_err().field, "application");
    assert!(rig.declare("a", start.clone()).is_err());
    give(&mut rig, unblock("a")).unwrap();
    rig.declare("a", start).unwrap();
    assert_eq!(rig.controller.at(rig.now).orders(), []);
}

#[test]
fn while_decisions_are_frozen_nothing_is_held_whatever_happens() {
    for meters in [false, true] {
        let shape = Shape::racks(2);
        let config = shape.config("fair", even(), true);
        let mut rig = Rig::new(&shape, if meters { metered(config) } else { config }, 1);
        (0..shape.switches).for_each(|switch| rig.connect(switch));
        rig.agent("left", &[0, 1]);
        rig.pass(SECOND);
        rig.start("a", "j");
        let held = |rig: &Rig| {
            let metered =
                (0..shape.switches).map(|s| crate::in_memory::meters(rig.switch(s)).len());
            metered.sum::<usize>() + rig.paced().len()
        };
        let flow = |rig: &mut Rig, number: u64, host: u32| {
            rig.flow("a", "j", number, connection(host, 3, 10), None).unwrap();
            rig.pass(SECOND);
        };
        flow(&mut rig, 1, 0);
        let enforced = |rig: &Rig, flow| rig.why("a", "j", flow).flow.enforced_bps.is_some();
        assert_eq!((held(&rig), enforced(&rig, 1)), (1, true));
        give(&mut rig, freeze()).unwrap();
        assert!(rig.paced().is_empty(), "at once");
        rig.pass(SECOND);
        assert!(!enforced(&rig, 1));
        // What comes then isn't held either, nor is what an agent is told that comes anew.
        flow(&mut rig, 2, 1);
        rig.agent("left", &[0, 1]);
        rig.pass(SECOND * 30);
        assert_eq!((rig.paced().len(), enforced(&rig, 1), enforced(&rig, 2)), (0, false, false));
        let by = rig.why("a", "j", 2).by;
        assert!(by.starts_with("nobody: decisions are frozen by operator me (fire)"), "{by}");
        let status = rig.controller.at(rig.now).status();
        let told = "DECISIONS ARE FROZEN by operator me (fire)";
        assert!(status.problems[0].starts_with(told), "{:?}", status.problems);
        assert_eq!(status.orders, [act(freeze())]);
        give(&mut rig, Order::Thaw {}).unwrap();
        rig.pass(SECOND);
        assert!(enforced(&rig, 1) && enforced(&rig, 2), "what is wanted now is in force");
        assert_eq!(give(&mut rig, Order::Thaw {}).unwrap_err().field, "type");
        let status = rig.controller.at(rig.now).status();
        assert!(!status.problems.iter().any(|said| said.contains("FROZEN")));
    }
}

/// As what an earlier controller was told is told again.
#[test]
fn a_controller_that_begins_frozen_holds_nothing() {
    let shape = Shape::racks(2);
    let mut rig = Rig::new(&shape, shape.config("fair", even(), true), 2);
    for order in [freeze(), block(), drain("h7")] {
        rig.input(Input::Ordered { act: &act(order), again: true }).unwrap();
    }
    rig.pass(SECOND * 30);
    rig.agent("left", &[0, 1]);
    rig.start("b", "j");
    rig.flow("b", "j", 1, connection(1, 3, 10), None).unwrap();
    assert!(rig.paced().is_empty());
    assert!(rig.declare("a", Declaration::JobStart { job: "j".into() }).is_err());
    // A host that isn't known yet.
    assert_eq!(rig.controller.at(rig.now).orders().len(), 3);
}

#[test]
fn a_host_that_is_drained_is_free_and_leaves_its_share_to_others() {
    let mut rig = rig();
    let (drained, other) = (connection(0, 3, 10), connection(1, 3, 10));
    let shared = rig.paced()[&other];
    for nothing in ["s0", "h99"] {
        assert_eq!(give(&mut rig, drain(nothing)).unwrap_err().field, "host");
    }
    give(&mut rig, drain("h0")).unwrap();
    assert!(!rig.paced().contains_key(&drained));
    assert!(rig.paced()[&other] > shared, "{:?}", rig.paced());
    let by = rig.why("a", "j", 1).by;
    assert!(by.starts_with("nobody: host h0 is drained by operator me"), "{by}");
    // What comes then, whichever end it is.
    rig.flow("a", "j", 2, connection(0, 2, 11), None).unwrap();
    rig.flow("b", "j", 2, connection(1, 0, 11), None).unwrap();
    assert_eq!(rig.paced().into_keys().collect::<Vec<_>>(), [other]);
    // What goes while it is drained.
    let gone = Declaration::FlowComplete { job: "j".into(), flow: "2".into() };
    rig.declare("a", gone).unwrap();
    let undrain = || Order::Undrain { host: "h0".into() };
    give(&mut rig, undrain()).unwrap();
    let paced = rig.paced();
    assert_eq!(paced.len(), 3, "{paced:?}");
    assert_eq!(paced[&other], paced[&drained], "they share again");
    assert_eq!(give(&mut rig, undrain()).unwrap_err().field, "host");
}

fn limit(application: &str, job: Option<&str>, mbps: u64) -> Order {
    Order::Limit {
        application: application.into(),
        job: job.map(Into::into),
        rate_bps: Rate::from_mbps(mbps),
        lasts_s: None,
        reason: Some("it hurts".into()),
    }
}

fn unlimit(job: Option<&str>) -> Order {
    Order::Unlimit { application: "a".into(), job: job.map(Into::into) }
}

/// Neither the policy's word nor the operator's is told as if it held a flow of a drained host, or filled a link.
#[test]
fn at_a_drained_host_no_limit_is_told_of() {
    let mut rig = rig();
    give(&mut rig, limit("a", None, 20)).unwrap();
    let limited = |rig: &Rig| {
        let links = rig.controller.at(rig.now).status().links;
        links.into_iter().find(|link| link.from == "h0").unwrap().limited_bps
    };
    let why = rig.why("a", "j", 1);
    assert!(why.why.contains("each of its connections is held to 20 Mbit/s"), "{}", why.why);
    assert_eq!(
        (why.flow.intended_bps, limited(&rig)),
        (Some(Rate::from_mbps(20)), Rate::from_mbps(20))
    );
    give(&mut rig, drain("h0")).unwrap();
    let why = rig.why("a", "j", 1);
    assert_eq!(
        why.why,
        "host h0 is drained by operator me: policy fair isn't asked, and no limit holds it"
    );
    assert_eq!((why.flow.intended_bps, limited(&rig)), (None, Rate::ZERO));
    give(&mut rig, Order::Undrain { host: "h0".into() }).unwrap();
    assert_eq!(rig.why("a", "j", 1).flow.intended_bps, Some(Rate::from_mbps(20)));
}

/// Whatever the policy decides, for flows of before and of later.
#[test]
fn what_an_operator_limits_goes_no_faster() {
    for (name, meters) in [("fair", false), ("tcp", false), ("fair", true), ("tcp", true)] {
        let shape = Shape::racks(2);
        let decides = policy::by_name(name, &policy::Parameters::default()).unwrap();
        let config = shape.config(name, decides, true);
        let mut rig = Rig::new(&shape, if meters { metered(config) } else { config }, 1);
        (0..shape.switches).for_each(|switch| rig.connect(switch));
        rig.agent("left", &[0, 1]);
        rig.pass(SECOND);
        let rate = |rig: &Rig, of| {
            if !meters {
                return rig.paced().get(&of).copied();
            }
            let flows = rig.controller.at(rig.now).flows(10);
            flows.into_iter().find(|flow| flow.connection == of)?.enforced_bps
        };
        for job in ["j", "k"] {
            rig.start("a", job);
        }
        rig.start("b", "j");
        let (of_j, of_k, of_b) = (connection(0, 3, 10), connection(0, 3, 11), connection(1, 3, 10));
        rig.flow("a", "j", 1, of_j, None).unwrap();
        rig.flow("b", "j", 1, of_b, None).unwrap();
        rig.pass(SECOND);
        let before = [of_j, of_k, of_b].map(|of| rate(&rig, of));
        give(&mut rig, limit("a", None, 2)).unwrap();
        give(&mut rig, limit("a", Some("k"), 1)).unwrap();
        rig.flow("a", "k", 1, of_k, None).unwrap();
        rig.pass(SECOND);
        let held = |rig: &Rig| (rate(rig, of_j), rate(rig, of_k));
        let by_hand = (Some(Rate::from_mbps(2)), Some(Rate::from_mbps(1)));
        assert_eq!(held(&rig), by_hand, "{name} {meters}");
        let why = rig.why("a", "k", 1);
        assert!(why.why.contains("held to 1 Mbit/s by operator me (it hurts)"), "{}", why.why);
        assert!(!why.why.contains("share"), "{}", why.why);
        assert_eq!(why.flow.enforced_bps, Some(Rate::from_mbps(1)));
        // Nothing is held while decisions are frozen.
        give(&mut rig, freeze()).unwrap();
        rig.pass(SECOND);
        assert_eq!(held(&rig), (None, None));
        give(&mut rig, Order::Thaw {}).unwrap();
        rig.pass(SECOND);
        assert_eq!(held(&rig), by_hand);
        give(&mut rig, unlimit(Some("k"))).unwrap();
        rig.pass(SECOND);
        assert_eq!(rate(&rig, of_k), Some(Rate::from_mbps(2)));
        give(&mut rig, unlimit(None)).unwrap();
        rig.declare("a", Declaration::JobComplete { job: "k".into() }).unwrap();
        rig.pass(SECOND);
        assert_eq!([of_j, of_k, of_b].map(|of| rate(&rig, of)), before, "{name} {meters}");
        assert_eq!(rig.controller.at(rig.now).orders(), []);
    }
}

/// Before its port is known, who enforces its limit is told as nobody, and why.
#[test]
fn a_limit_by_hand_waits_for_a_connection() {
    let shape = Shape::racks(2);
    let decides = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    let mut rig = Rig::new(&shape, shape.config("tcp", decides, true), 1);
    rig.agent("left", &[0, 1]);
    rig.start("a", "j");
    rig.flow("a", "j", 1, connection(0, 3, 0), None).unwrap();
    give(&mut rig, limit("a", None, 2)).unwrap();
    let why = rig.why("a", "j", 1);
    assert!(why.by.starts_with("nobody yet: "), "{}", why.by);
    assert!(
        why.why.contains("sets no limit: it has what TCP gives it")
            && why.why.contains("held to 2 Mbit/s"),
        "{why:?}"
    );
}

#[test]
fn a_limit_that_can_not_be_is_refused() {
    let mut rig = rig();
    let bps = |rate: Rate, lasts_s| Order::Limit {
        application: "a".into(),
        job: None,
        rate_bps: rate,
        lasts_s,
        reason: None,
    };
    for (field, order) in [
        ("rate_bps", bps(Rate::from_bps(11_999), None)),
        ("rate_bps", bps(Rate::MAX, None)),
        ("lasts_s", bps(Rate::from_mbps(1), Some(0))),
        ("lasts_s", bps(Rate::from_mbps(1), Some(MOST_LASTS + 1))),
        ("application", unlimit(None)),
        ("application", unlimit(Some("j"))),
        ("job", limit("a", Some("a\nb"), 1)),
        ("application", limit("a/j", None, 1)),
        ("application", Order::Block { application: "a b".into(), reason: None }),
    ] {
        assert_eq!(give(&mut rig, order).unwrap_err().field, field);
    }
    // One that was to end while no controller ran is ended by who keeps the time.
    let ending = act(bps(Rate::from_mbps(1), Some(1)));
    rig.input(Input::Ordered { act: &ending, again: true }).unwrap();
    for number in 1..1_000 {
        let act = act(limit(&format!("x{number}"), None, 1));
        rig.input(Input::Ordered { act: &act, again: true }).unwrap();
    }
    rig.start("x", "j");
    assert!(give(&mut rig, limit("x", None, 1)).unwrap_err().reason.contains("end some"));
    give(&mut rig, limit("x1", None, 2)).unwrap();
}

/// A limit of a name that nobody bears would be no limit, unsaid.
#[test]
fn what_nobody_knows_can_not_be_limited() {
    let mut rig = rig();
    let refused = |rig: &mut Rig, application, job| {
        give(rig, limit(application, job, 1)).map_err(|refusal| (refusal.field, refusal.reason))
    };
    let (field, reason) = refused(&mut rig, "nobody", None).unwrap_err();
    assert_eq!(field, "application");
    assert!(reason.contains("has declared nothing; see the status"), "{reason}");
    rig.start("x", "j");
    let (field, reason) = refused(&mut rig, "x", Some("k")).unwrap_err();
    assert_eq!(field, "job");
    assert!(reason.contains("`watermaster explain x` shows its jobs"), "{reason}");
    for job in [None, Some("j")] {
        refused(&mut rig, "x", job).unwrap();
    }
    // What stands can be changed whoever is there.
    give(&mut rig, Order::Evict { application: "x".into() }).unwrap();
    refused(&mut rig, "x", Some("j")).unwrap();
    assert_eq!(rig.controller.at(rig.now).orders().len(), 2);
    // A tenant can be limited before it comes.
    let tenant = Tenant {
        application: "later".into(),
        hosts: vec!["h0".into()],
        ports: vec![],
        cgroups: vec![],
        jobs: None,
        flows: None,
    };
    rig.reload(Change { tenants: Some(vec![tenant]), ..Change::default() });
    refused(&mut rig, "later", None).unwrap();
    assert!(refused(&mut rig, "nobody", None).is_err());
}

#[test]
fn names_and_reasons_that_can_not_be_are_refused() {
    let mut rig = rig();
    let long = "x".repeat(257);
    for bad in ["", "a\nb", "\u{1b}[2J", &long] {
        let name = || String::from(bad);
        for (field, order) in [
            ("application", Order::Evict { application: name() }),
            ("application", Order::Block { application: name(), reason: None }),
            ("application", Order::Unblock { application: name() }),
            ("application", Order::Cancel { application: name(), job: "j".into() }),
            ("job", Order::Cancel { application: "a".into(), job: name() }),
            ("host", Order::Drain { host: name(), reason: None }),
            ("host", Order::Undrain { host: name() }),
            ("reason", Order::Freeze { reason: Some(name()) }),
            ("reason", Order::Drain { host: "h0".into(), reason: Some(name()) }),
            ("reason", Order::Block { application: "a".into(), reason: Some(name()) }),
        ] {
            assert_eq!(give(&mut rig, order).unwrap_err().field, field);
        }
    }
    assert_eq!(rig.controller.at(rig.now).orders(), []);
    assert_eq!(rig.paced().len(), 2);
}

/// What stood when the bound was another stands still, and can be ended.
#[test]
fn what_stands_may_be_longer_than_names_are_now() {
    let long = || "x".repeat(257);
    let mut rig = rig();
    let standing = [
        Order::Freeze { reason: Some(long()) },
        Order::Block { application: "b".into(), reason: Some(long()) },
        Order::Drain { host: long(), reason: None },
        limit("a", Some(&long()), 1),
    ];
    for order in standing.clone() {
        rig.input(Input::Ordered { act: &act(order), again: true }).unwrap();
    }
    assert_eq!(rig.controller.at(rig.now).orders(), standing.clone().map(act));
    for order in standing {
        give(&mut rig, order.ends_by().unwrap()).unwrap();
    }
    assert_eq!(rig.controller.at(rig.now).orders(), []);
}

#[test]
fn standing_orders_are_bounded() {
    let mut rig = rig();
    let block = |number: u32| Order::Block { application: format!("x{number}"), reason: None };
    for number in 0..1_000 {
        give(&mut rig, block(number)).unwrap();
    }
    assert!(give(&mut rig, block(1_000)).unwrap_err().reason.contains("end some"));
    give(&mut rig, block(0)).unwrap();
    give(&mut rig, Order::Unblock { application: "x0".into() }).unwrap();
    give(&mut rig, block(1_000)).unwrap();
}
