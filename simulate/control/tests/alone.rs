//! Without faults, through the whole controller and its agents comes what the policy alone gives.
#![allow(clippy::unwrap_used)] // a test may panic

mod shuffles;

use shuffles::{Case, NONE, policy};
use units::{Span, Time};
use watermaster_simulated_controller::{Faults, SimulatedController};

const LEASE: Span = Span::from_secs(10);

fn ends(case: &Case, policy: Option<Box<dyn ::policy::Policy + '_>>) -> Vec<Time> {
    let outcome = case.run(policy);
    outcome.flows.iter().map(|flow| flow.end.expect("every flow ends")).collect()
}

#[test]
fn without_faults_it_is_the_policy_alone() {
    for (seed, name) in (0..).zip(shuffles::POLICIES.iter().cycle().take(24)) {
        let case = Case::draw(seed, name);
        let alone = ends(&case, Some(policy(name)));
        let whole = SimulatedController::new(Box::new(|| policy(name)), LEASE, NONE, seed);
        assert_eq!(alone, ends(&case, Some(Box::new(whole))), "{name}, seed {seed}");
    }
}

#[test]
fn limits_have_an_effect_and_so_have_faults() {
    let case = Case::draw(1, "smsf");
    let plain = ends(&case, None);
    let with = |faults| {
        let whole = SimulatedController::new(Box::new(|| policy("smsf")), LEASE, faults, 1);
        ends(&case, Some(Box::new(whole)))
    };
    let sound = with(NONE);
    assert_ne!(plain, sound);
    assert_ne!(sound, with(Faults { jitter: Span::from_secs(1), ..NONE }));
    assert_ne!(sound, with(Faults { loss: 0.5, ..NONE }));
}
