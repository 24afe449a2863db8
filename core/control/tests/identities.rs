//! A switch is what its certificate says that it is.
#![allow(clippy::unwrap_used)] // a test may panic

mod in_memory;

use in_memory::{Rig, Shape};

fn connected(rig: &Rig) -> Vec<(String, bool)> {
    let switches = rig.controller.at(rig.now).status().switches;
    switches.into_iter().map(|switch| (switch.name, switch.connected)).collect()
}

fn rig() -> Rig {
    let shape = Shape::racks(1);
    let tcp = policy::by_name("tcp", &policy::Parameters::default()).unwrap();
    Rig::new(&shape, shape.config("tcp", tcp, true), 1)
}

#[test]
fn a_switch_shows_the_certificate_of_its_name() {
    let mut rig = rig();
    let first = rig.plug_as(0, Some("s0"));
    // The second says that it is 0x2, which is s1.
    for other in ["s0", "rogue"] {
        rig.plug_as(1, Some(other));
        let why = rig.closed.pop().unwrap();
        assert!(why.contains("0x2 is s1's") && why.contains(&format!("switch {other};")), "{why}");
    }
    assert_eq!(connected(&rig), [("s0".into(), true), ("s1".into(), false)]);
    rig.plug_as(1, Some("s1"));
    assert_eq!(connected(&rig), [("s0".into(), true), ("s1".into(), true)]);
    // It may come again, and takes its own place.
    let again = rig.plug_as(0, Some("s0"));
    assert_eq!(rig.closed.pop().unwrap(), "the same peer has a newer connection");
    assert!(first != again && connected(&rig)[0].1);
}

/// The place of a switch that is there is not taken, nor is it closed, by another's certificate.
#[test]
fn a_certificate_of_another_takes_no_place() {
    let mut rig = rig();
    rig.plug_as(0, Some("s0"));
    rig.plug_as(1, Some("s1"));
    let true_switch = testing::openflow::switch(2, 254, 2);
    rig.swap_switch(0, true_switch);
    rig.unplug(0);
    // The machine of s0 says now that it is 0x2.
    rig.plug_as(0, Some("s0"));
    assert!(rig.closed.pop().unwrap().contains("0x2 is s1's"));
    assert_eq!(connected(&rig), [("s0".into(), false), ("s1".into(), true)]);
}

/// A switch that nobody declared is called by its number, in certificates too.
#[test]
fn a_switch_that_nobody_declared_is_bound_to_its_number() {
    let mut rig = rig();
    rig.swap_switch(0, testing::openflow::switch(0x1f, 254, 2));
    rig.plug_as(0, Some("s0"));
    let why = rig.closed.pop().unwrap();
    assert!(why.contains("0x1f is s-1f's"), "{why}");
    assert_eq!(connected(&rig).len(), 2, "nothing is learnt from it");
    rig.plug_as(0, Some("s-1f"));
    assert!(connected(&rig).contains(&("s-1f".into(), true)));
}
