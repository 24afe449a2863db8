//! Worlds that are broken on purpose: the audit refuses them.

use engine::{Notice, Outcome, World as _};
use model::{Buffer, Network, build};
use units::{Bytes, Rate, Time};

use crate::RunError;
use crate::world::World;

/// Two flows share the link to h2, a third has its own path and a limit. The defect is put in when they have
/// their rates.
fn audited(defect: impl FnOnce(&mut World)) -> Result<(), String> {
    let link = testing::network::link(100, 0, Buffer::Unlimited);
    let access = build::Access { link, nic: Buffer::Unlimited };
    let network = Network::new(build::star(4, &access).unwrap());
    let hosts: Vec<_> = network.topology().hosts().collect();
    let mut world = World::new(&network, None);
    for (src, dst) in [(0, 2), (1, 2), (3, 1)] {
        world.start(&network, hosts[src], hosts[dst], Bytes::new(1_000_000)).unwrap();
    }
    world.limit(model::FlowId(2), Some(Rate::from_mbps(20)));
    assert_eq!(world.run(Time::from_nanos(1_000_000)), Notice::Limit);
    defect(&mut world);
    while world.run(Time::NEVER) != Notice::Limit {}
    world.finish(&mut Outcome::default()).map_err(|error| match error {
        RunError::Invariant(what) => what,
        other => panic!("{other}"),
    })
}

#[test]
fn a_run_without_defects_passes() {
    audited(|_| {}).unwrap();
}

#[test]
fn rates_over_capacity_are_refused() {
    let said = audited(|world| world.serve_at(0, 60_000_000)).unwrap_err();
    assert!(said.contains("exceed its capacity"), "{said}");
}

#[test]
fn octets_that_no_rate_moved_are_refused() {
    for more in [1, 1_000_000] {
        let said = audited(|world| world.claim(more)).unwrap_err();
        assert!(said.contains("their rates moved"), "{more}: {said}");
    }
}

#[test]
fn a_flow_that_ends_early_is_refused() {
    let said = audited(|world| world.end_early(0)).unwrap_err();
    assert!(said.contains("their rates moved"), "{said}");
}
