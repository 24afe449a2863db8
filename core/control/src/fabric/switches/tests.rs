use openflow::switch::{Output as Answers, Switch as Model};

use super::*;
use crate::fixture::config;

const NODE: NodeId = NodeId(0);

fn context() -> Context {
    Context::new(&config(), 4, Time::ZERO)
}

/// Connects a model of a switch and hands messages to and fro until both are silent; what the
/// switch answered.
fn exchange(
    switches: &mut Switches,
    cx: &Context,
    channel: ChannelId,
    model: &mut Model,
    session: &mut Session,
) -> Vec<SwitchEvent> {
    let mut heard = Vec::new();
    loop {
        let mut out = Vec::new();
        switches.write(cx, &mut out);
        for output in out {
            if let Output::Switch(_, bytes) = output {
                session.receive(cx.now, &bytes);
            }
        }
        let mut answers = Answers::default();
        while let Some(event) = session.poll(cx.now) {
            if let Event::Message { xid, message } = event {
                model.handle(cx.now, xid, &message, &mut answers);
            }
        }
        let mut bytes = session.output().to_vec();
        session.sent(bytes.len());
        bytes.extend(answers.messages.concat());
        if bytes.is_empty() {
            return heard;
        }
        switches.receive(cx, channel, &bytes);
        while let Some((_, event)) = switches.poll(cx, channel) {
            if matches!(event, SwitchEvent::Up) {
                let features = switches.features(channel).expect("the session is up");
                switches.up(cx, channel, NODE, &features);
            }
            heard.push(event);
        }
        switches.polled(channel);
    }
}

#[test]
fn what_a_connection_has_at_a_switch_is_given_again_when_it_comes_back() {
    let (cx, mut model) = (context(), Model::new(7, 2));
    let mut switches = Switches::new(&cx, BTreeSet::new());
    let connection =
        Connection { source: ([10, 0, 0, 1], 1).into(), destination: ([10, 0, 0, 2], 2).into() };
    let rate = Some(Rate::from_mbps(10));
    assert!(!switches.hold(&cx, connection, Some(NODE), rate), "no switch yet");
    for number in 1..=2 {
        let channel = ChannelId(number);
        let mut session = Session::new(Config::new(Side::Switch), cx.now);
        switches.connect(&cx, channel, None).expect("there is room");
        exchange(&mut switches, &cx, channel, &mut model, &mut session);
        assert_eq!(switches.channels[&channel].node, Some(NODE));
        assert_eq!(switches.set_ready(&cx, NODE), number == 1, "the first time");
        let added = switches.counters.entries_added;
        assert_eq!(added, if number == 1 { 0 } else { 2 });
        assert!(switches.hold(&cx, connection, Some(NODE), rate));
        assert_eq!(switches.enforced(&connection), None);
        for event in exchange(&mut switches, &cx, channel, &mut model, &mut session) {
            match event {
                SwitchEvent::Error(xid, code) => switches.refused(NODE, xid, code),
                SwitchEvent::Done(xid) => {
                    if let Some(Pending::Changes(changes)) = switches.answered(NODE, xid)
                        && let Some(switch) = switches.get_mut(NODE)
                    {
                        switch.confirm(changes);
                    }
                }
                _ => {}
            }
        }
        let enforced = switches.enforced(&connection).map(|(_, rate)| rate);
        assert_eq!(enforced, rate, "confirmed over channel {number}");
        assert_eq!(switches.counters.switch_errors, 0);
    }
    assert!(!switches.channels.contains_key(&ChannelId(1)), "the newer channel is the switch's");
    assert_eq!(switches.remove(Time::ZERO, ChannelId(1)), None);
    assert_eq!(switches.remove(Time::ZERO, ChannelId(2)), Some(NODE));
    assert!(!switches.is_ready(NODE) && switches.enforced(&connection).is_none());
}

#[test]
fn an_answer_without_end_fills_no_memory() {
    let (cx, mut model) = (context(), Model::new(7, 2));
    let mut switches = Switches::new(&cx, BTreeSet::new());
    let channel = ChannelId(1);
    let mut session = Session::new(Config::new(Side::Switch), cx.now);
    switches.connect(&cx, channel, None).expect("there is room");
    exchange(&mut switches, &cx, channel, &mut model, &mut session);
    switches.set_ready(&cx, NODE);
    let of = |port: u16| Connection {
        source: ([10, 0, 0, 1], port).into(),
        destination: ([10, 0, 0, 2], 2).into(),
    };
    switches.put_own(&cx, NODE, Key::of_count(&of(1)), Does::Count);
    (0..3).for_each(|_| switches.ask_counts(&cx, NODE));
    let pending = switches.switches[&NODE].pending.iter();
    let asked = pending.filter(|(_, what)| matches!(what, Pending::Carried(_)));
    let asked: Vec<u32> = asked.map(|(xid, _)| *xid).collect();
    let [xid] = asked[..] else { panic!("asked again before it has answered: {asked:?}") };
    for port in 1..1000 {
        let entries = [(0, Some(of(port)), Bytes::new(port.into()))];
        assert_eq!(switches.entries_listed(&cx, NODE, xid, &entries, false), None);
    }
    let entries = [(0, Some(of(1)), Bytes::new(7))];
    let sums = switches.entries_listed(&cx, NODE, xid, &entries, true);
    assert_eq!(sums, Some(BTreeMap::from([(of(1), Bytes::new(7))])));
    switches.ask_counts(&cx, NODE);
    let mut pending = switches.switches[&NODE].pending.values();
    assert!(pending.any(|what| matches!(what, Pending::Carried(_))), "asked anew");
}

#[test]
fn channels_beyond_the_limit_and_unknown_ones_are_refused() {
    let mut cx = context();
    cx.limits.switches = 1;
    let mut switches = Switches::new(&cx, BTreeSet::new());
    assert!(switches.connect(&cx, ChannelId(1), None).is_ok());
    assert!(switches.connect(&cx, ChannelId(2), None).is_err_and(|refusal| refusal.busy));
    assert_eq!(switches.receive(&cx, ChannelId(2), &[4]), None);
    assert_eq!(switches.deadline(), None, "no session was written yet");
}
