//! A second account of the links, kept in builds with debug assertions, as those of tests are: what the rates of
//! flows add up to whenever time passes, and what they have moved by then.

use crate::shares::work;

#[derive(Debug)]
pub(crate) struct Ledger {
    capacities: Vec<u128>,
    /// By the rates of flows and the time that passed, in [`work`].
    moved: Vec<u128>,
    fault: Option<String>,
}

impl Ledger {
    pub(crate) fn new(capacities: impl Iterator<Item = u64>) -> Self {
        let capacities: Vec<u128> = capacities.map(u128::from).collect();
        Self { moved: vec![0; capacities.len()], capacities, fault: None }
    }

    /// For `wait` ns flows had rates that add up to these, by link.
    pub(crate) fn pass(&mut self, wait: u64, rates: &[u128]) {
        for (link, (rate, capacity)) in rates.iter().zip(&self.capacities).enumerate() {
            self.moved[link] += rate * u128::from(wait);
            if rate > capacity && self.fault.is_none() {
                self.fault = Some(format!("the rates on link {link} exceed its capacity"));
            }
        }
    }

    /// What flows say to have delivered over each link, and how many, is what their rates moved. Of each flow an
    /// octet is rounded down, and a nanosecond up.
    pub(crate) fn verdict(&self, carried: &[(u128, u64)]) -> Result<(), String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        for (link, (octets, flows)) in carried.iter().enumerate() {
            let (said, moved) = (octets * work(1), self.moved[link]);
            let rounded = u128::from(*flows) * (work(1) + self.capacities[link]);
            if moved < said || moved > said + rounded {
                let moved = moved / work(1);
                return Err(format!(
                    "flows delivered {octets} octets over link {link}, their rates moved {moved}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may panic
mod tests {
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
}
