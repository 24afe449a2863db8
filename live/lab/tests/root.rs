//! Labs on this machine. Needs root; elsewhere the tests say why they do nothing.
#![allow(clippy::unwrap_used)]

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::{Control, Error, Journal, Lab, Order, Switches, Transport, World};
use model::build::{Access, dumbbell, leaf_spine, star};
use model::{Buffer, LinkSpec, Network, Topology};
use testing::needs::{open_vswitch, root};
use testing::wait::settled;
use units::{Bytes, Span, Time};

fn link(mbps: u64) -> LinkSpec {
    testing::network::link(mbps, 0, Buffer::Packets(50))
}

fn access() -> Access {
    Access { link: link(20), nic: Buffer::Packets(50) }
}

fn transport() -> Transport {
    Transport {
        congestion_control: "reno",
        mss: 1460,
        header: 40,
        initial_window: 10,
        min_rto: Span::from_millis(200),
        delayed_ack: false,
        receive_window: Bytes::new(1 << 20),
        sack: true,
        ecn: false,
        handshake: false,
    }
}

fn order(name: &str, switches: Switches) -> Order {
    Order {
        name: format!("t{name}-{}", std::process::id()),
        switches,
        passing: true,
        ..Order::default()
    }
}

fn ip(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn exists(namespace: &str) -> bool {
    Path::new("/run/netns").join(namespace).exists()
}

/// Whether `from` reaches the last host with one small packet.
fn reaches(lab: &Lab, topology: &Topology, from: &str) {
    let last = topology.hosts().last().unwrap();
    let address = SocketAddr::from((lab.blueprint().address(last), 9));
    let host = kernel::Namespace::named(&format!("wm-{}-{from}", lab.name())).unwrap();
    let connect = || Ok(TcpStream::connect_timeout(&address, testing::wait::PATIENCE));
    let refused = host.visit(connect).unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
}

#[test]
fn hosts_reach_each_other_over_bridges_routes_and_open_vswitch() {
    if !root() {
        return;
    }
    let two_spines = leaf_spine(2, 2, 1, &access(), &link(20)).unwrap();
    let racks = dumbbell(1, 1, &access(), &link(10)).unwrap();
    let mut cases = vec![("br", &racks, Switches::Bridge), ("rt", &two_spines, Switches::Bridge)];
    if open_vswitch() {
        cases.push(("ovs", &racks, Switches::Ovs));
    }
    for (name, topology, switches) in cases {
        let order = order(name, switches);
        let lab = Lab::up(topology, &order).unwrap();
        lab.speak(&transport()).unwrap();
        reaches(&lab, topology, "h0");
        // Spoken to again, it is shaped anew.
        lab.speak(&Transport { header: 52, ..transport() }).unwrap();
        reaches(&lab, topology, "h0");
        let taken = Lab::up(topology, &order).unwrap_err();
        assert!(matches!(taken, Error::Taken(_)), "{taken}");
        let journal = Journal::read(&order.name).unwrap().unwrap();
        drop(lab);
        assert!(Journal::read(&order.name).unwrap().is_none());
        assert!(journal.namespaces.iter().all(|name| !exists(name)), "{name}");
        assert!(!journal.folder.exists());
        assert!(journal.cgroup.is_none_or(|group| !group.exists()));
    }
}

#[test]
fn a_cable_delays_what_it_carries_while_a_run_lasts() {
    if !root() {
        return;
    }
    let far = testing::network::link(20, 20_000, Buffer::Packets(50));
    let topology = dumbbell(1, 1, &access(), &far).unwrap();
    let lab = Arc::new(Lab::up(&topology, &order("far", Switches::Bridge)).unwrap());
    let network = Network::new(topology.clone());
    let (control, until) = (Control::Direct, Time::NEVER);
    let world = World::new(Arc::clone(&lab), &network, transport(), control, until).unwrap();
    // A SYN there and a RST back.
    let round_trip = || {
        let begin = Instant::now();
        reaches(&lab, &topology, "h0");
        begin.elapsed()
    };
    let least = Duration::from_millis(40);
    let took = [(); 3].map(|()| round_trip());
    assert!(took.iter().all(|took| *took >= least), "{took:?}");
    drop(world);
    // The kernel passes it on at once, unless a busy machine takes long.
    let took = settled(round_trip, |took| *took < least);
    assert!(took < least, "{took:?}");
}

#[test]
fn one_scenario_runs_at_a_time() {
    if !root() {
        return;
    }
    let topology = star(2, &access()).unwrap();
    let order = Order { passing: false, ..order("busy", Switches::Bridge) };
    drop(Lab::up(&topology, &order).unwrap());
    let first = Lab::attach(&order.name, &topology);
    let second = Lab::attach(&order.name, &topology);
    let after = first.is_ok().then(|| drop(first)).map(|()| Lab::attach(&order.name, &topology));
    lab::down(&order.name).unwrap();
    assert!(matches!(second, Err(Error::Busy(_))), "{second:?}");
    after.unwrap().unwrap();
}

#[test]
fn only_its_own_namespaces_go() {
    if !root() {
        return;
    }
    let topology = star(2, &access()).unwrap();
    let order = order("own", Switches::Bridge);
    let lab = Lab::up(&topology, &order).unwrap();
    let (own, alike) = (format!("wm-{}-h0", order.name), format!("wm-{}-h0x", order.name));
    // Somebody has made another of the same name, and one of a name much like it.
    ip(&["netns", "delete", &own]);
    ip(&["netns", "add", &own]);
    ip(&["netns", "add", &alike]);
    let removed = lab::down(&order.name).unwrap();
    assert_eq!(removed.left, std::slice::from_ref(&own));
    assert_eq!(removed.namespaces.len(), 2);
    assert!(exists(&own) && exists(&alike));
    drop(lab);
    // While it is there, no lab is built over it.
    let refused = Lab::up(&topology, &order).unwrap_err();
    assert!(matches!(refused, Error::Foreign(_)), "{refused}");
    assert!(exists(&own) && exists(&alike));
    ip(&["netns", "delete", &own]);
    ip(&["netns", "delete", &alike]);
    let none = lab::down(&order.name).unwrap_err();
    assert!(matches!(none, Error::None(_)), "{none}");
}
