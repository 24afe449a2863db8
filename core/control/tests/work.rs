//! What one event costs, counted.
#![allow(clippy::unwrap_used)] // a test may panic

mod in_memory;

use in_memory::connection;
use in_memory::{Shape, address, even};
use policy::{Messages, Parameters};
use protocol::Processes;
use protocol::agent::{Capability, Host, Report};
use protocol::application::{Declaration, Portion};
use testing::allocation::{Counting, grows_no_faster_than_its_input, held};
use units::{Bytes, Time};
use watermaster_control::{ChannelId, Controller, Input};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// An agent that acts for many hosts, none of which is declared.
#[test]
fn a_hello_costs_what_each_of_its_hosts_does() {
    let shape = Shape::racks(2);
    grows_no_faster_than_its_input(500, |count| {
        let config = shape.config("fair", even(), true);
        let mut controller = Controller::new(config, 1, Time::ZERO).unwrap();
        let (channel, mut out) = (ChannelId(1), Vec::new());
        let host =
            |number| Host { name: format!("n{number}"), addresses: vec![address(1_000 + number)] };
        let hosts = (0..count).map(host).collect();
        let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
        let connected = Input::AgentConnected { channel, identity: "agent" };
        for input in [connected, Input::Reported(channel, &hello)] {
            controller.step(Time::ZERO, input, &mut out).unwrap();
        }
        assert_eq!(controller.at(Time::ZERO).status().agents[0].hosts.len(), count as usize);
    });
}

/// An agent of a host comes and goes, also where switches cap windows: nobody looks through flows for that.
#[test]
fn an_agent_that_comes_and_goes_costs_the_same_whatever_is_declared() {
    grows_no_faster_than_its_input(200, |count| {
        let mut controller = controller("sab", u64::MAX);
        for number in 0..10 {
            assert!(declare(&mut controller, "app", &KEPT[0](number)));
        }
        for number in 0..count {
            assert!(declare(&mut controller, "app", &KEPT[3](number)));
        }
        let (identity, mut out) = ("another", Vec::new());
        let hosts = vec![Host { name: "n".into(), addresses: vec![address(1_000)] }];
        let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
        for number in 0..count {
            let channel = ChannelId(2 + u64::from(number));
            for input in [
                Input::AgentConnected { channel, identity },
                Input::Reported(channel, &hello),
                Input::AgentGone(channel),
            ] {
                controller.step(Time::ZERO, input, &mut out).unwrap();
            }
            out.clear();
        }
    });
}

fn declare(controller: &mut Controller, application: &str, declaration: &Declaration) -> bool {
    let input = Input::Declared { application, declaration };
    controller.step(Time::ZERO, input, &mut Vec::new()).is_ok()
}

fn controller(policy: &str, memory: u64) -> Controller {
    let parameters = Parameters::default().at_cost(Messages::Costly);
    let decides = policy::by_name(policy, &parameters).unwrap();
    let mut config = Shape::racks(2).config(policy, decides, true);
    config.limits.declarations_per_second = u32::MAX;
    config.limits.memory = memory;
    let mut controller = Controller::new(config, 1, Time::ZERO).unwrap();
    let (channel, mut out) = (ChannelId(1), Vec::new());
    let host = |number| Host { name: format!("h{number}"), addresses: vec![address(number)] };
    let hosts = (0..4).map(host).collect();
    let hello = Report::Hello { hosts, capabilities: Capability::ALL.to_vec(), epoch: 0 };
    let connected = Input::AgentConnected { channel, identity: "agent" };
    for input in [connected, Input::Reported(channel, &hello)] {
        controller.step(Time::ZERO, input, &mut out).unwrap();
    }
    controller
}

fn job(number: u32) -> String {
    format!("a job with a name of some length, {number}")
}

/// The declarations of each kind that keep something, by number.
const KEPT: [fn(u32) -> Declaration; 4] = [
    |number| Declaration::JobStart { job: job(number) },
    |number| Declaration::TaskHost { job: job(0), task: number, host: format!("h{}", number % 4) },
    |number| {
        let portion = |task| Portion { task, bytes: Bytes::new(1 << 20) };
        let reduces = (0..20).map(portion).collect();
        Declaration::Size { job: job(number % 10), map: number, reduces }
    },
    |number| Declaration::FlowRequest {
        job: job(number % 10),
        flow: format!("a flow with a name of some length, {number}"),
        connection: connection(
            number % 2,
            2 + number / 2 % 2,
            u16::try_from(1024 + number).unwrap(),
        ),
        processes: Processes::default(),
        bytes: Some(Bytes::new(1 << 20)),
    },
];

fn memory_of(controller: &Controller, application: &str) -> u64 {
    let status = controller.at(Time::ZERO).status();
    let known = status.applications.iter().find(|known| known.name == application);
    known.map_or(0, |known| known.memory_bytes)
}

/// What an application is said to take is no less than what is kept of it takes, under every policy that decides in
/// a controller, and is nothing when all has ended. Then the next one finds room where the first had it.
#[test]
fn what_is_kept_of_an_application_is_accounted() {
    let live = policy::NAMES
        .iter()
        .filter(|name| policy::find(name).is_ok_and(|policy| policy.why_not_live().is_none()));
    for policy in live {
        let mut controller = controller(policy, u64::MAX);
        let mut left = None;
        for application in ["a", "b", "c"] {
            for kind in KEPT {
                let (before, said) = (held(), memory_of(&controller, application));
                for number in 0..1_000 {
                    assert!(declare(&mut controller, application, &kind(number)));
                }
                let takes = held() - before;
                let accounted = (memory_of(&controller, application) - said) as i64;
                let kind = kind(0);
                assert!(takes <= accounted, "{policy}: {takes} B, {accounted} accounted: {kind:?}");
            }
            for number in 0..1_000 {
                let complete = Declaration::JobComplete { job: job(number) };
                assert!(declare(&mut controller, application, &complete));
            }
            assert_eq!(memory_of(&controller, application), 0, "{policy}");
            // The first one leaves room behind, each other one no more than its own name and bounds.
            if let Some(left) = left.replace(held()) {
                assert!(held() - left < 1_000, "{policy}: {} B are left", held() - left);
            }
        }
    }
}

/// One application takes all it can get of each kind: another has room still, and what goes makes room.
#[test]
fn an_application_has_as_much_memory_as_is_left_for_all_others() {
    let most = 1 << 20;
    for (at, kind) in KEPT.into_iter().enumerate() {
        let mut controller = controller("smsf", most);
        for number in 0..10 {
            assert!(declare(&mut controller, "greedy", &KEPT[0](number)));
        }
        let taken = (10..30_000).find(|number| !declare(&mut controller, "greedy", &kind(*number)));
        assert!(taken.is_some(), "kind {at} is never refused");
        let greedy = memory_of(&controller, "greedy");
        assert!(greedy <= most / 2 && greedy > most / 3, "{greedy}");
        let declaration = kind(60_000);
        let input = Input::Declared { application: "greedy", declaration: &declaration };
        let refusal = controller.observe(Time::ZERO, input).unwrap_err();
        assert!(
            refusal.busy && refusal.reason.contains("complete jobs and flows first"),
            "{refusal}"
        );
        // What it said before it may say again.
        assert!(declare(&mut controller, "greedy", &KEPT[0](0)));
        for number in 0..10 {
            assert!(declare(&mut controller, "honest", &KEPT[0](number)));
        }
        assert!(declare(&mut controller, "honest", &kind(50_000)), "kind {at}");
        for number in 0..10 {
            assert!(declare(
                &mut controller,
                "greedy",
                &Declaration::JobComplete { job: job(number) }
            ));
        }
        if at > 0 {
            assert_eq!(memory_of(&controller, "greedy"), 0, "kind {at}");
        }
        assert!(declare(&mut controller, "greedy", &KEPT[0](3)), "what has gone makes room");
    }
}
