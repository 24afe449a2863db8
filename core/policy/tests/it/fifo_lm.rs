//! `fifo-lm`: who shares with whom, by hand, and against what it becomes at its ends.
#![allow(clippy::unwrap_used)] // a test may panic

use crate::desk::*;
use model::LEAST_RATE;
use proptest::prelude::*;
use units::{Bytes, Rate, Span, Time};
use watermaster_policy::{Parameters, by_name};

const MB: u64 = 1_000_000;

/// Ends of tasks of these sizes, all announced at once in this order, from hosts of their own to one over
/// 100 Mbit/s.
fn ends(sizes: &[u64], heavy: Option<u64>) -> Vec<f64> {
    let parameters = Parameters::default().with("pause", Span::ZERO);
    let parameters = match heavy {
        Some(heavy) => parameters.with("heavy", Bytes::new(heavy)),
        None => parameters,
    };
    let network = big_switch(u32::try_from(sizes.len()).unwrap() + 1, Rate::from_mbps(100));
    let transfers: Vec<Transfer> = (0u32..)
        .zip(sizes)
        .map(|(job, bytes)| {
            let (src, dst) = (host(&network, job + 1), host(&network, 0));
            Transfer { job, src, dst, bytes: *bytes, start: Time::ZERO }
        })
        .collect();
    let mut desk = Desk::new(network, by_name("fifo-lm", &parameters).unwrap());
    run_fluid(&mut desk, &transfers)
}

fn near(ours: &[f64], by_hand: &[f64]) {
    assert_eq!(ours.len(), by_hand.len());
    // Who waits has 12 kbit/s.
    let is_near = |(ours, by_hand): (&f64, &f64)| (ours - by_hand).abs() < 0.002 * by_hand;
    assert!(ours.iter().zip(by_hand).all(is_near), "{ours:?}, by hand {by_hand:?}");
}

#[test]
fn a_heavy_task_lets_the_next_one_in() {
    // 12.5 MB/s. The first alone until it has sent 12.5 MB at 1 s; then half of the link for the second,
    // which has 5 MB by 1.8 s, and for the third by 2.6 s; 2.5 MB are left.
    near(&ends(&[25 * MB, 5 * MB, 5 * MB], Some(12_500_000)), &[2.8, 1.8, 2.6]);
    near(&ends(&[25 * MB, 5 * MB, 5 * MB], None), &[2.0, 2.4, 2.8]);
}

#[test]
fn with_each_heavy_task_one_more_is_in() {
    // At 1 s the first is heavy, at 3 s the second too, 25 and 12.5 MB sent: thirds until the third's 5 MB
    // are through at 4.2 s. 2.5 MB of the second at half the link, and 17.5 of the first at all of it.
    near(&ends(&[50 * MB, 20 * MB, 5 * MB], Some(12_500_000)), &[6.0, 4.6, 4.2]);
}

#[test]
fn a_task_is_heavy_by_all_that_its_flows_have_sent() {
    let network = big_switch(4, Rate::from_mbps(100));
    let h = |number| host(&network, number);
    let transfer =
        |job, src, dst, bytes| Transfer { job, src: h(src), dst: h(dst), bytes, start: Time::ZERO };
    // Two flows to two hosts, 12.5 MB each in 1 s: as one task they are heavy at 0.5 s. From then on the
    // other task has half of h1's link: 3 MB take 0.48 s.
    let transfers =
        [transfer(0, 0, 1, 12_500_000), transfer(0, 3, 2, 12_500_000), transfer(1, 2, 1, 3 * MB)];
    let parameters = Parameters::default().with("pause", Span::ZERO);
    let parameters = parameters.with("heavy", Bytes::new(12_500_000));
    let mut desk = Desk::new(network.clone(), by_name("fifo-lm", &parameters).unwrap());
    near(&run_fluid(&mut desk, &transfers), &[1.24, 1.0, 0.98]);
}

#[test]
fn who_is_next_to_a_heavy_task_is_so_on_each_link() {
    let network = big_switch(7, Rate::from_mbps(100));
    let h = |number| host(&network, number);
    let transfer =
        |job, src, dst, bytes| Transfer { job, src: h(src), dst: h(dst), bytes, start: Time::ZERO };
    // The first sends to two hosts and is heavy at 0.5 s, 6.25 MB to each. To one the second is next, to the
    // other the third, though it came later: both have half a link, and 5 MB take 0.8 s.
    let transfers = [
        transfer(0, 1, 0, 12_500_000),
        transfer(0, 2, 3, 12_500_000),
        transfer(1, 4, 0, 5 * MB),
        transfer(2, 5, 3, 5 * MB),
        transfer(3, 6, 3, 5 * MB),
    ];
    let parameters = Parameters::default().with("pause", Span::ZERO);
    let parameters = parameters.with("heavy", Bytes::new(12_500_000));
    let mut desk = Desk::new(network.clone(), by_name("fifo-lm", &parameters).unwrap());
    // Then the first has 1.25 MB left for each. The fourth shares with it: 0.2 s, and 3.75 MB alone.
    near(&run_fluid(&mut desk, &transfers), &[1.4, 1.5, 1.3, 1.3, 1.8]);
}

proptest! {
    /// Where any task is heavy at once, links are shared as by `fair`, but for what is set aside.
    #[test]
    fn all_heavy_is_fair(
        network in any_network(),
        flows in prop::collection::vec((0u32..64, 1u32..64, 0u32..4, 10u64..100), 1..12),
    ) {
        let hosts: Vec<_> = network.topology().hosts().collect();
        let count = hosts.len();
        prop_assume!(count > 1);
        let transfers: Vec<Transfer> = flows.iter().map(|&(src, step, job, size)| {
            let src = src as usize % count;
            let dst = (src + 1 + step as usize % (count - 1)) % count;
            let (src, dst) = (hosts[src], hosts[dst]);
            Transfer { job, src, dst, bytes: size * MB, start: Time::ZERO }
        }).collect();
        let run = |name, parameters: Parameters| {
            let mut desk = Desk::new(network.clone(), by_name(name, &parameters).unwrap());
            run_fluid(&mut desk, &transfers)
        };
        let heavy = Parameters::default().with("pause", Span::ZERO).with("heavy", Bytes::new(1));
        let (ours, fair) = (run("fifo-lm", heavy), run("fair", Parameters::default()));
        // The least rate is set aside of each link for its flows, in number a power of two: `fair` sets nothing aside.
        let slowest = network.topology().links().iter().map(|link| link.spec.capacity).min();
        let aside = flows.len().next_power_of_two() as f64 * LEAST_RATE.as_bps() as f64;
        let part = aside / slowest.unwrap().as_bps() as f64;
        let most = part / (1.0 - part);
        for (ours, fair) in ours.iter().zip(&fair) {
            prop_assert!((ours - fair).abs() <= most * fair + 0.01, "{ours}, fair {fair}");
        }
    }
}
