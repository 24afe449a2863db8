//! TRANSMIT and SLOW under random messages, held against the rule stated by brute force.

#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::{BTreeMap, BTreeSet};

use crate::desk::*;
use model::build::leaf_spine;
use model::{FlowId, LEAST_RATE, LinkId, Measured, Network, NodeId, Observation};
use proptest::prelude::*;
use units::{Rate, Time};
use watermaster_policy::{Messages, Parameters, Share, by_name};

const LINK: Rate = Rate::from_mbps(100);

fn desk(policy: &str, network: Network, messages: Messages) -> Desk {
    let parameters = Parameters::default().at_cost(messages);
    Desk::new(network, by_name(policy, &parameters).unwrap())
}

/// What the test itself knows of a flow.
#[derive(Clone, Debug)]
struct Known {
    job: u32,
    src: NodeId,
    dst: NodeId,
    size: u64,
    /// Arrival of the flow.
    order: u64,
}

/// What the test itself knows of a job: arrival, first request, SIZE by map and reduce, hosts of
/// tasks, sum of requests by pair.
#[derive(Clone, Debug, Default)]
struct Job {
    arrival: u64,
    first_request: Option<u64>,
    sizes: BTreeMap<(u32, u32), u64>,
    hosts: BTreeMap<u32, NodeId>,
    requests: BTreeMap<(NodeId, NodeId), u64>,
}

impl Job {
    /// max T_ij, from scratch.
    fn largest(&self) -> u64 {
        let mut announced: BTreeMap<(NodeId, NodeId), u64> = BTreeMap::new();
        for ((map, reduce), size) in &self.sizes {
            if let (Some(src), Some(dst)) = (self.hosts.get(map), self.hosts.get(reduce)) {
                *announced.entry((*src, *dst)).or_default() += size;
            }
        }
        let mut load = self.requests.clone();
        load.extend(announced);
        let between = load.iter().filter(|((src, dst), _)| src != dst);
        between.map(|(_, load)| *load).max().unwrap_or(0)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Start(u32),
    Complete(u32),
    Host(u32, u32, u32),
    Size(u32, u32, Vec<(u32, u64)>),
    Request(u32, u32, u32, u64),
    /// Ends one of the flows in the network.
    End(usize),
    Link(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let job = || 0..6u32;
    prop_oneof![
        3 => job().prop_map(Step::Start),
        1 => job().prop_map(Step::Complete),
        2 => (job(), 0..6u32, 0..8u32).prop_map(|(j, t, h)| Step::Host(j, t, h)),
        5 => (job(), 0..3u32, prop::collection::vec((3..6u32, 0..60u64), 1..4))
            .prop_map(|(j, m, r)| Step::Size(j, m, r)),
        16 => (job(), 0..8u32, 0..8u32, 0..9u64).prop_map(|(j, s, d, n)| Step::Request(j, s, d, n)),
        5 => any::<usize>().prop_map(Step::End),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(l, up)| Step::Link(l, up)),
    ]
}

/// A policy beside the test's own bookkeeping.
struct Bench {
    policy: &'static str,
    messages: Messages,
    desk: Desk,
    jobs: BTreeMap<u32, Job>,
    flows: BTreeMap<u32, Known>,
    count: u64,
}

impl Bench {
    fn new(policy: &'static str, messages: Messages) -> Self {
        let network = leaf_spine(2, 2, 4, &access(LINK), &spec(LINK)).unwrap();
        let mut bench = Self {
            policy,
            messages,
            desk: desk(policy, Network::new(network), messages),
            jobs: BTreeMap::new(),
            flows: BTreeMap::new(),
            count: 0,
        };
        for job in 0..6 {
            bench.apply(&Step::Start(job));
            for task in 0..6 {
                bench.apply(&Step::Host(job, task, (5 * job + task) % 8));
            }
        }
        bench
    }

    fn apply(&mut self, step: &Step) {
        let now = Time::ZERO;
        self.count += 1;
        let order = self.count;
        match *step {
            Step::Start(job) => {
                self.desk.tell(now, job_start(job));
                self.jobs.entry(job).or_insert_with(|| Job { arrival: order, ..Job::default() });
            }
            Step::Complete(job) => {
                self.jobs.remove(&job);
                self.flows.retain(|_, flow| flow.job != job);
                self.desk.tell(now, job_complete(job));
            }
            Step::Host(job, task, number) => {
                let at = host(&self.desk.network, number);
                self.desk.tell(now, task_host(job, task, at));
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.hosts.insert(task, at);
                }
            }
            Step::Size(job, map, ref reduces) => {
                self.desk.tell(now, size(job, map, reduces));
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.sizes.extend(reduces.iter().map(|(r, bytes)| ((map, *r), *bytes)));
                }
            }
            Step::Request(job, src, dst, size) => {
                let id = u32::try_from(order).unwrap();
                let network = &self.desk.network;
                let (src, dst) = (host(network, src), host(network, dst));
                self.desk.tell(now, request(job, id, src, dst, size));
                if let Some(record) = self.jobs.get_mut(&job) {
                    record.first_request.get_or_insert(order);
                    *record.requests.entry((src, dst)).or_default() += size;
                    let known = Known { job, src, dst, size, order };
                    self.flows.insert(id, known);
                }
            }
            Step::End(nth) => {
                let nth = nth.checked_rem(self.flows.len());
                let Some(&id) = nth.and_then(|nth| self.flows.keys().nth(nth)) else {
                    return;
                };
                let flow = self.flows.remove(&id).unwrap();
                self.desk.tell(now, flow_complete(flow.job, id));
                self.desk.limits.remove(&FlowId(id));
            }
            Step::Link(nth, up) => {
                let links = self.desk.network.topology().links().len();
                let link = LinkId(u32::try_from(nth % links).unwrap());
                self.desk.network.set_up(link, up);
                self.desk.tell(now, Measured::LinkState { link, up });
            }
        }
    }

    /// Rank of a flow, then what makes its group.
    fn rank(&self, flow: &Known) -> (u64, u64) {
        let job = &self.jobs[&flow.job];
        match self.policy {
            "fifo" => (0, job.first_request.unwrap()),
            "sff" => (flow.size, flow.order),
            _ => (job.largest(), job.arrival),
        }
    }

    fn path(&self, id: u32) -> Vec<LinkId> {
        path(&self.desk.network, id, self.flows[&id].src, self.flows[&id].dst)
    }

    /// The rule by brute force: from the best rank down, a flow transmits unless it meets one of
    /// another group that does.
    fn expected_slow(&self) -> BTreeSet<u32> {
        let mut order: Vec<_> = self.flows.iter().map(|(id, f)| (self.rank(f), *id)).collect();
        order.sort_unstable();
        let mut taken: BTreeMap<LinkId, (u64, u64)> = BTreeMap::new();
        let mut slow = BTreeSet::new();
        for (rank, id) in order {
            let path = self.path(id);
            if path.iter().any(|link| taken.get(link).is_some_and(|by| *by != rank)) {
                slow.insert(id);
            } else {
                taken.extend(path.into_iter().map(|link| (link, rank)));
            }
        }
        slow
    }

    fn check(&self) {
        let slow: BTreeSet<u32> = self.desk.limits.keys().map(|flow| flow.0).collect();
        // The invariants, each in its own words.
        for (id, flow) in &self.flows {
            let others = self.flows.iter().filter(|(other, _)| !slow.contains(other));
            let path = self.path(*id);
            let mut rivals = others.filter(|(other, record)| {
                self.rank(record) != self.rank(flow) && model::interfere(&path, &self.path(**other))
            });
            if slow.contains(id) {
                assert!(
                    rivals.any(|(_, rival)| self.rank(rival) < self.rank(flow)),
                    "flow {id} is SLOW and nobody blocks it"
                );
            } else {
                assert!(rivals.next().is_none(), "flow {id} transmits on a taken link");
            }
        }
        // And the assignment that they determine.
        assert_eq!(slow, self.expected_slow());
        self.check_shares();
    }

    /// SLOW flows of one access link divide 1 % of it: evenly, or where messages are to be spared,
    /// beyond eight of them into somewhat more parts.
    fn check_shares(&self) {
        let mut by_access: BTreeMap<LinkId, Vec<Rate>> = BTreeMap::new();
        for (flow, rate) in &self.desk.limits {
            by_access.entry(self.path(flow.0)[0]).or_default().push(*rate);
        }
        for rates in by_access.values() {
            let count = rates.len() as u64;
            let even = LINK.as_bps() / 100 / count;
            let least =
                if self.messages == Messages::Free || count <= 8 { even } else { even * 7 / 10 };
            let each = rates[0];
            assert!(rates.iter().all(|rate| *rate == each));
            assert!(each >= LEAST_RATE.max(Rate::from_bps(least)));
            assert!(each <= LEAST_RATE.max(Rate::from_bps(even)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_rule_holds_after_every_message(
        policy in prop::sample::select(vec!["fifo", "sff", "smsf"]),
        messages in prop::sample::select(vec![Messages::Free, Messages::Costly]),
        turn in 1_usize..10,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut bench = Bench::new(policy, messages);
        bench.desk.together = turn > 1;
        for steps in steps.chunks(turn) {
            for step in steps {
                bench.apply(step);
            }
            bench.desk.decide(Time::ZERO);
            bench.check();
        }
    }
}

/// Preemption frees links too. Host 0 sends to host 1 in job C; A sends from 2 to 3; B from 2 to 1
/// holds both ends until A, which is smaller, takes the sender: then C must not wait for B.
#[test]
fn a_preempted_flow_lets_others_go() {
    let network = big_switch(4, LINK);
    let at = |number| host(&network, number);
    let mut desk = desk("smsf", network.clone(), Messages::Free);
    for job in 0..3 {
        desk.tell(Time::ZERO, job_start(job));
    }
    let (a, b, c) = (0, 1, 2);
    desk.tell(Time::ZERO, request(b, b, at(2), at(1), 2));
    desk.tell(Time::ZERO, request(c, c, at(0), at(1), 3));
    assert!(!desk.is_slow(b) && desk.is_slow(c));
    let changes = desk.tell(Time::ZERO, request(a, a, at(2), at(3), 1));
    assert!(!desk.is_slow(a) && desk.is_slow(b) && !desk.is_slow(c));
    assert_eq!(changes.len(), 2, "A was never limited and needs no word");
}

#[test]
fn a_flow_without_a_path_transmits_and_blocks_nobody() {
    let network = big_switch(3, LINK);
    let at = |number| host(&network, number);
    let mut desk = desk("smsf", network.clone(), Messages::Free);
    let uplink = network.topology().out(at(0))[0];
    desk.network.set_up(uplink, false);
    desk.tell(Time::ZERO, job_start(0));
    desk.tell(Time::ZERO, job_start(1));
    desk.tell(Time::ZERO, request(0, 0, at(0), at(1), 1));
    desk.tell(Time::ZERO, request(1, 1, at(2), at(1), 2));
    assert!(!desk.is_slow(0) && !desk.is_slow(1));

    desk.network.set_up(uplink, true);
    let observation: Observation = Measured::LinkState { link: uplink, up: true }.into();
    desk.tell(Time::ZERO, observation.clone());
    assert!(!desk.is_slow(0) && desk.is_slow(1), "the small job is back");

    desk.network.set_up(uplink, false);
    desk.tell(Time::ZERO, observation);
    assert!(!desk.is_slow(0) && !desk.is_slow(1));
}

/// The numbers of flows and jobs that have ended may come again.
#[test]
fn numbers_are_free_again() {
    for policy in ["fair", "fifo", "sff", "smsf", "sebf", "bssf", "srb", "dclas", "srpt"] {
        let network = big_switch(3, LINK);
        let at = |number| host(&network, number);
        let mut desk = desk(policy, network.clone(), Messages::Free);
        desk.settle(Time::ZERO, job_start(0));
        desk.settle(Time::ZERO, job_start(1));
        desk.settle(Time::ZERO, request(0, 0, at(0), at(1), 1));
        for _ in 0..2 {
            desk.settle(Time::ZERO, request(1, 1, at(0), at(2), 2));
            assert!(desk.is_slow(1), "{policy}");
            desk.settle(Time::ZERO, flow_complete(1, 1));
            desk.limits.remove(&FlowId(1));
        }
        desk.settle(Time::ZERO, request(1, 1, at(0), at(2), 2));
        desk.settle(Time::ZERO, job_complete(1));
        desk.settle(Time::ZERO, request(1, 1, at(0), at(2), 2));
        assert!(!desk.is_slow(1), "{policy}: nobody knows job 1 any more");
        desk.settle(Time::ZERO, job_start(1));
        desk.settle(Time::ZERO, request(1, 1, at(0), at(2), 2));
        assert!(desk.is_slow(1), "{policy}");
    }
}

#[test]
fn a_job_that_completes_leaves_nothing_throttled() {
    for policy in ["fair", "fifo", "sff", "smsf", "sebf", "bssf", "srb", "dclas", "srpt"] {
        let network = big_switch(3, LINK);
        let at = |number| host(&network, number);
        let mut desk = desk(policy, network.clone(), Messages::Free);
        desk.settle(Time::ZERO, job_start(0));
        desk.settle(Time::ZERO, job_start(1));
        desk.settle(Time::ZERO, request(0, 0, at(0), at(1), 1));
        desk.settle(Time::ZERO, request(1, 1, at(0), at(2), 2));
        assert!(desk.is_slow(1));
        desk.settle(Time::ZERO, job_complete(1));
        assert!(!desk.is_slow(1), "{policy}");
    }
}

/// Four hundred flows wait at one host for a small one. They come and go one by one: together they
/// never have more than their share, nor much less, and few of the others are told anything.
#[test]
fn many_that_wait_are_not_told_of_each_that_comes() {
    const MOST: u32 = 400;
    const LINK: Rate = Rate::from_mbps(1_000);
    let network = big_switch(2, LINK);
    let at = |number| host(&network, number);
    let mut desk = desk("sff", network.clone(), Messages::Costly);
    desk.settle(Time::ZERO, job_start(0));
    desk.settle(Time::ZERO, request(0, 0, at(0), at(1), 1));
    let share = LINK.as_bps() / 100;
    let (mut changes, mut told) = (0, 0);
    let mut change = |desk: &mut Desk, flow: u32, comes: bool| {
        let what = if comes {
            request(0, flow, at(0), at(1), 1_000 + u64::from(flow))
        } else {
            desk.limits.remove(&FlowId(flow));
            flow_complete(0, flow)
        };
        changes += 1;
        told += desk.tell(Time::ZERO, what).len();
        let count = desk.limits.len() as u64;
        let sum: u64 = desk.limits.values().map(|rate| rate.as_bps()).sum();
        assert_eq!(count, u64::from(flow) - u64::from(!comes));
        assert!(sum <= share && (count == 0 || sum >= share * 7 / 10), "{count} have {sum}");
    };
    for flow in 1..=MOST {
        change(&mut desk, flow, true);
    }
    // One more at the edge of each step, and back.
    for flow in (1..=MOST).rev() {
        change(&mut desk, flow, false);
        change(&mut desk, flow, true);
        change(&mut desk, flow, false);
    }
    assert!(told <= changes * 8, "{told} directives for {changes} changes");
}

#[test]
fn a_share_is_a_part_of_a_whole() {
    assert!(Share::from_ppm(0).is_err());
    assert!(Share::from_ppm(1_000_001).is_err());
    let shown = |ppm| Share::from_ppm(ppm).unwrap().to_string();
    assert_eq!(
        [1, 10_000, 666_667, 900_000, 1_000_000].map(shown),
        ["0.000001", "0.01", "0.666667", "0.9", "1"]
    );
    let names = by_name("smfs", &Parameters::default()).err().unwrap();
    assert_eq!(
        names.to_string(),
        format!(
            "there is no policy \"smfs\"; choose one of {}",
            watermaster_policy::NAMES.join(", ")
        )
    );
}
