//! The same tests against the switch model and against Open vSwitch.
//!
//! What Open vSwitch answers is what a controller will meet; where the model answers otherwise, the
//! model is wrong. `make conformance` installs what this needs and lets nothing be skipped.
#![allow(clippy::unwrap_used)] // a test may panic

mod cases;
mod controller;
mod frames;
mod ovs;

use controller::Rig;

#[test]
fn switch_model() {
    for (name, case) in cases::ALL {
        println!("{name}");
        case(&mut Rig::new(Box::new(controller::Model::new())));
    }
}

/// One Open vSwitch for all cases, so that each also shows that it leaves nothing behind.
#[test]
fn open_vswitch() {
    let ovs = match ovs::Ovs::start() {
        Ok(ovs) => ovs,
        Err(why) => {
            testing::needs::skipped(&format!("{why}; make conformance installs it"));
            return;
        }
    };
    let mut rig = Rig::new(Box::new(ovs));
    for (name, case) in cases::ALL {
        println!("{name}");
        case(&mut rig);
        rig.reset();
    }
}
