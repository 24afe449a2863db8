//! What agents that are gone have left behind: it is told as long as it may stand.

use crate::enforced::{freeze, held, shown};
use crate::in_memory::{Rig, SECOND, address, connection};
use protocol::agent::{Capability, Host, Report};
use units::Rate;
use watermaster_control::question::{Overview, Question as _};
use watermaster_control::{Change, Input};

/// Its kernel keeps what it was told until the lease ends.
#[test]
fn what_an_agent_held_that_is_gone_stands_until_its_lease_ends() {
    for frozen in [false, true] {
        let (mut rig, agent) = held();
        rig.input(Input::AgentGone(agent)).unwrap();
        if frozen {
            freeze(&mut rig);
        }
        rig.pass(SECOND * 9);
        assert_eq!(rig.paced().len(), 1);
        let why = shown(&rig);
        assert_eq!(why.flow.enforced_bps, Some(Rate::from_mbps(5)));
        assert!(why.by.contains("5 Mbit/s of "), "{}", why.by);
        let problems = rig.controller.at(rig.now).status().problems;
        assert!(!problems.iter().any(|said| said.contains("no limit is in force")), "{problems:?}");
        rig.pass(SECOND * 2);
        assert_eq!((rig.paced().len(), shown(&rig).flow.enforced_bps), (0, None));
    }
}

/// A shorter lease may have ended what the longer one kept: it isn't enforced, and not said to be over.
#[test]
fn what_may_stand_is_not_said_to_be_over_while_decisions_are_frozen() {
    let (mut rig, agent) = held();
    rig.agents.get_mut(&agent).unwrap().frozen = true;
    rig.reload(Change { lease: Some(SECOND * 3), ..Change::default() });
    rig.pass(SECOND * 4);
    rig.input(Input::AgentGone(agent)).unwrap();
    freeze(&mut rig);
    let frozen = |rig: &Rig| {
        let problems = rig.controller.at(rig.now).status().problems;
        problems.into_iter().find(|said| said.starts_with("DECISIONS ARE FROZEN")).unwrap()
    };
    assert_eq!(shown(&rig).flow.enforced_bps, None);
    let said = frozen(&rig);
    assert!(said.contains("but 1 of before still stand or may"), "{said}");
    rig.pass(SECOND * 7);
    let said = frozen(&rig);
    assert!(said.contains("no limit is in force"), "{said}");
}

/// The next agent says what stands.
#[test]
fn what_a_gone_agent_held_is_over_once_another_has_ended_it() {
    let (mut rig, agent) = held();
    rig.input(Input::AgentGone(agent)).unwrap();
    freeze(&mut rig);
    rig.agent("h0", &[0]);
    assert_eq!(shown(&rig).flow.enforced_bps, None);
}

/// What the status says of agents that are gone: whether each has left, and what may stand of it.
fn former(rig: &Rig) -> Vec<(String, bool, usize)> {
    let status = rig.controller.at(rig.now).status();
    let all = status.former_agents.into_iter();
    all.map(|of| (of.identity, of.left, of.may_stand)).collect()
}

#[test]
fn an_agent_that_leaves_holds_nothing_at_once() {
    let (mut rig, agent) = held();
    rig.input(Input::Reported(agent, &Report::Left {})).unwrap();
    assert_eq!(former(&rig), [("h0".into(), true, 0)]);
    let why = shown(&rig);
    assert_eq!(why.flow.enforced_bps, None);
    assert_eq!(
        why.by,
        "nobody: no agent is connected for h0: agent h0 has left, and holds nothing"
    );
    let problems = rig.controller.at(rig.now).status().problems;
    let unheld = "limits of flows that nobody holds, as no agent is connected for their hosts: 1, such as at h0";
    assert!(problems.iter().any(|said| said == unheld), "{problems:?}");
    assert!(rig.closed.iter().any(|why| why.contains("has left")), "{:?}", rig.closed);
    // It has said its last word.
    assert!(rig.input(Input::Reported(agent, &Report::Left {})).is_err());
    rig.agent("h0", &[0]);
    assert_eq!(former(&rig), []);
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)));
}

#[test]
fn what_an_agent_held_whose_connection_is_lost_is_told_until_its_lease_ends() {
    let (mut rig, agent) = held();
    rig.input(Input::AgentGone(agent)).unwrap();
    assert_eq!(former(&rig), [("h0".into(), false, 1)]);
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)));
    let said = "nobody: no agent is connected for h0: the connection of agent h0 was lost; \
                5 Mbit/s of the last one may stand until its lease ends";
    assert_eq!(shown(&rig).by, said);
    rig.pass(SECOND * 11);
    assert_eq!(former(&rig), [("h0".into(), false, 0)]);
    assert_eq!(shown(&rig).flow.enforced_bps, None);
}

/// Its flows were gone over before, and it is listed.
#[test]
fn an_agent_that_comes_while_the_status_is_made_is_not_missed() {
    let (mut rig, agent) = held();
    rig.input(Input::AgentGone(agent)).unwrap();
    let mut question = Overview::default();
    assert!(question.go_on(&rig.controller.at(rig.now), usize::MAX).is_none());
    rig.agent("h0", &[0]);
    let status = rig.controller.at(rig.now).at_once(question);
    assert_eq!(status.agents.len(), 1);
    let is_missed = |said: &String| said.starts_with("limits of flows that nobody holds");
    assert!(!status.problems.iter().any(is_missed), "{:?}", status.problems);
}

/// An agent speaks for itself: neither what another holds nor what another left behind is over by its word.
#[test]
fn who_leaves_lifts_what_no_other_holds() {
    let (mut rig, agent) = held();
    let other = rig.agent("h1", &[1]);
    rig.input(Input::Reported(other, &Report::Left {})).unwrap();
    assert_eq!(former(&rig), [("h1".into(), true, 0)]);
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)));
    rig.input(Input::AgentGone(agent)).unwrap();
    // It comes back, and leaves before it has confirmed that nothing stands there.
    let peer = rig.peer();
    rig.input(Input::AgentConnected { channel: peer, identity: "h0" }).unwrap();
    let host = Host { name: "h0".into(), addresses: vec![address(0)] };
    let hello = Report::Hello { hosts: vec![host], capabilities: vec![], epoch: 1 };
    let mut out = Vec::new();
    let mut input = |input| rig.controller.step(rig.now, input, &mut out);
    input(Input::Reported(peer, &hello)).unwrap();
    input(Input::Reported(peer, &Report::Left {})).unwrap();
    assert_eq!(shown(&rig).flow.enforced_bps, Some(Rate::from_mbps(5)));
    let again = former(&rig).into_iter().find(|(who, ..)| who == "h0");
    assert_eq!(again, Some(("h0".into(), true, 1)));
}

/// What an agent left in its maps one of another name can't end: it waits for the lease, and nobody says meanwhile that
/// its limits are in force.
#[test]
fn an_agent_of_another_name_waits_for_the_lease_of_the_last() {
    let (mut rig, agent) = held();
    rig.input(Input::AgentGone(agent)).unwrap();
    let hosts = vec![Host { name: "h0".into(), addresses: vec![address(0)] }];
    let comes = |rig: &mut Rig, identity, epoch| {
        let (hosts, capabilities) = (hosts.clone(), Capability::ALL.to_vec());
        let hello = Report::Hello { hosts, capabilities, epoch };
        let channel = rig.peer();
        rig.input(Input::AgentConnected { channel, identity }).unwrap();
        rig.input(Input::Reported(channel, &hello)).map_err(|refusal| refusal.to_string())
    };
    rig.pass(SECOND * 4);
    let said = "hosts: agent h0 was lost, and what it holds at h0 may stand until its lease ends; wait, or start that \
                one again, with its pins";
    // One of its name that has obeyed nobody has other maps.
    let own = "hosts: agent h0 is back without the pins that it had, and what they hold at h0 may stand until its \
               lease ends; wait, or start it with them";
    for (identity, epoch, said) in [("other", 0, said), ("other", 1, said), ("h0", 0, own)] {
        assert_eq!(comes(&mut rig, identity, epoch).unwrap_err(), said);
        assert_eq!(former(&rig), [("h0".into(), false, 1)]);
    }
    let mut back = held().0;
    let agent = *back.agents.keys().next().unwrap();
    back.input(Input::AgentGone(agent)).unwrap();
    assert_eq!(comes(&mut back, "h0", 1), Ok(()), "it goes on");
    rig.pass(SECOND * 7);
    assert_eq!(comes(&mut rig, "other", 0), Ok(()));
    assert_eq!(former(&rig), []);
}

/// One of its name that comes and breaks before it is told anything ends nothing of that, whether it took the place of
/// one that was lost or of one that was there.
#[test]
fn what_breaks_at_once_ends_no_lease() {
    for is_lost in [true, false] {
        let (mut rig, agent) = held();
        if is_lost {
            rig.input(Input::AgentGone(agent)).unwrap();
        }
        let hosts = vec![Host { name: "h0".into(), addresses: vec![address(0)] }];
        let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 1 };
        rig.pass(SECOND);
        let channel = rig.peer();
        for input in [
            Input::AgentConnected { channel, identity: "h0" },
            Input::Reported(channel, &hello),
            Input::AgentGone(channel),
        ] {
            rig.controller.observe(rig.now, input).unwrap();
        }
        let comes = |rig: &mut Rig, identity| {
            let channel = rig.peer();
            rig.input(Input::AgentConnected { channel, identity }).unwrap();
            (channel, rig.input(Input::Reported(channel, &hello)).is_ok())
        };
        assert!(!comes(&mut rig, "other").1, "lost: {is_lost}");
        // Once one of its name has confirmed all that it was told, that stands, and ends with it. A shorter lease counts
        // once it is confirmed.
        let (channel, is_taken) = comes(&mut rig, "h0");
        assert!(is_taken);
        rig.input(Input::Reported(channel, &Report::Applied { epoch: 1, sequence: 1 })).unwrap();
        rig.reload(Change { lease: Some(SECOND * 3), ..Change::default() });
        rig.input(Input::Reported(channel, &Report::Applied { epoch: 1, sequence: 2 })).unwrap();
        rig.input(Input::AgentGone(channel)).unwrap();
        rig.pass(SECOND * 4);
        assert!(comes(&mut rig, "other").1, "lost: {is_lost}");
    }
}

/// An agent that reports as much as it may in a second gets to say that it leaves.
#[test]
fn who_leaves_is_always_heard() {
    let (mut rig, agent) = held();
    let opened = Report::Opened { connection: connection(0, 2, 9) };
    while rig.input(Input::Reported(agent, &opened)).is_ok() {}
    rig.input(Input::Reported(agent, &Report::Left {})).unwrap();
    assert_eq!(former(&rig), [("h0".into(), true, 0)]);
}
