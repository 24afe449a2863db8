//! What one event costs, counted.
#![allow(clippy::unwrap_used)] // a test may panic

mod in_memory;

use in_memory::{Shape, address, even, step};
use protocol::agent::{Capability, Host, Report};
use testing::allocation::{Counting, grows_no_faster_than_its_input};
use units::Time;
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
            step(&mut controller, Time::ZERO, input, &mut out).unwrap();
        }
        assert_eq!(controller.at(Time::ZERO).status().agents[0].hosts.len(), count as usize);
    });
}
