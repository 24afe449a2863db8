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
