//! Real TCP of the packet world under the whole controller, while channels lose, stall and are cut,
//! agents die and controllers crash. Each seed is another history; equal seeds give equal histories.
//!
//! What must hold whenever the world asks what to keep, of the limits that it was told to:
//! 1. Each is one that a controller wanted within the last lease and the longest delay of a message. So
//!    the limits on a link add up to at most the sum of the highest that its flows were given in that
//!    time.
//! 2. What a controller wants at one time adds up to no more than each link's capacity; so do limits,
//!    where wishes have not changed for that long.
//! 3. Where there has been no controller for that long, there are none.
//! 4. Where an agent is connected and nothing is on its way, what is wanted stands, and nothing else but
//!    what another controller granted within that time.
//! 5. A flow that is held to a rate has its priority, where its policy gives priorities and no operation fails; where
//!    there has been no controller for that long, none has one.
//! 6. Where operations of kernels fail, the controller says of each flow whose limit isn't what it wants
//!    that it failed, and confirms none that doesn't stand.
//!
//! And every flow and every job ends.
//!
//! `CONTROL_SEED=n` runs one seed and tells of it, `CONTROL_SEEDS=n` that many.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test may panic, and tells of a seed

mod shuffles;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use ::policy::Policy;
use control::{Controller, FlowStatus};
use engine::random::Stream;
use model::{Declared, Directive, Directives, FlowId, LinkId, Network, NodeId, Observation};
use rand::RngExt as _;
use shuffles::{CAPACITY, Case, gives_priorities, policy, sparing};
use units::{Rate, Span, Time};
use watermaster_simulated_controller::{Faults, Often, SimulatedController};

/// What a history was like.
#[derive(Default, PartialEq, Eq, Debug)]
struct Story {
    controllers: u64,
    /// Steps at which limits stood without a controller.
    orphaned: u64,
    /// Steps at which all that was wanted stood.
    settled: u64,
    /// Limits that were set.
    limits: u64,
    /// Limits that were known not to stand as wanted, at each step.
    failed: u64,
    /// Flows that were held to a rate and had their priority, at each step at which all that was wanted stood.
    served: u64,
    /// Of all that was told to the world.
    digest: u64,
}

/// What controllers have wanted.
#[derive(Default)]
struct Wishes {
    /// Of each flow, and until when; [`Time::NEVER`]: it still is.
    all: BTreeMap<FlowId, Vec<(Time, Rate)>>,
    /// When they changed last.
    changed: Time,
    /// Flows whose limit could not be set, as the controller says.
    failed: BTreeSet<FlowId>,
    /// Limits that the controller thinks to stand.
    confirmed: BTreeMap<FlowId, Rate>,
}

impl Wishes {
    /// Notes what is wanted now; what has not been for longer than `patience` is forgotten.
    fn note(&mut self, now: Time, patience: Span, controller: Option<&Controller>) {
        let flows = controller.iter().flat_map(|controller| controller.at(now).flows(usize::MAX));
        let flows: Vec<_> = flows.collect();
        let id = |flow: &FlowStatus| FlowId(flow.flow.parse().unwrap());
        self.failed = flows.iter().filter(|flow| flow.failed.is_some()).map(id).collect();
        let confirmed = flows.iter().filter_map(|flow| Some((id(flow), flow.enforced_bps?)));
        self.confirmed = confirmed.collect();
        let wanted = flows.iter().filter_map(|flow| Some((id(flow), flow.intended_bps?)));
        let wanted: BTreeMap<FlowId, Rate> = wanted.collect();
        for (flow, past) in &mut self.all {
            for (until, rate) in past.iter_mut().filter(|(until, _)| *until == Time::NEVER) {
                if wanted.get(flow) != Some(rate) {
                    (*until, self.changed) = (now, now);
                }
            }
            past.retain(|(until, _)| now.since(*until) <= patience);
        }
        for (flow, rate) in wanted {
            let past = self.all.entry(flow).or_default();
            if !past.contains(&(Time::NEVER, rate)) {
                past.push((Time::NEVER, rate));
                self.changed = now;
            }
        }
    }

    fn now(&self) -> impl Iterator<Item = (FlowId, Rate)> {
        self.all.iter().filter_map(|(flow, past)| {
            past.iter().find(|(until, _)| *until == Time::NEVER).map(|(_, rate)| (*flow, *rate))
        })
    }
}

/// The controller, watched.
struct Watched<'a> {
    inner: SimulatedController<'a>,
    /// The longest that a limit may stand that nobody wants any more.
    patience: Span,
    ends: BTreeMap<FlowId, (NodeId, NodeId)>,
    in_force: BTreeMap<FlowId, Rate>,
    /// Priorities but 0, where every flow begins.
    priorities: BTreeMap<FlowId, u8>,
    /// Whether the policy gives priorities: each flow one but 0, as `arbiter` here.
    prioritizes: bool,
    wishes: Rc<RefCell<Wishes>>,
    /// When the controller was replaced last.
    replaced: Time,
    /// Since when there is no controller.
    alone: Option<Time>,
    /// Whether operations of kernels fail: then limits may stay as they were.
    failing: bool,
    story: Rc<RefCell<Story>>,
    hasher: DefaultHasher,
}

impl<'a> Watched<'a> {
    fn new(
        inner: SimulatedController<'a>,
        patience: Span,
        failing: bool,
        prioritizes: bool,
        story: Rc<RefCell<Story>>,
    ) -> Self {
        let wishes = Rc::new(RefCell::new(Wishes::default()));
        let told = wishes.clone();
        Self {
            inner: inner.watched(Box::new(move |now, controller| {
                told.borrow_mut().note(now, patience, Some(controller));
            })),
            patience,
            ends: BTreeMap::new(),
            in_force: BTreeMap::new(),
            priorities: BTreeMap::new(),
            prioritizes,
            wishes,
            replaced: Time::ZERO,
            alone: None,
            failing,
            story,
            hasher: DefaultHasher::new(),
        }
    }

    /// Takes in what the world is told, and what is wanted now.
    fn follow(&mut self, now: Time, directives: &[Directive]) {
        for directive in directives {
            format!("{now:?} {directive:?}").hash(&mut self.hasher);
            match directive {
                Directive::Pace { flow, limit, .. } => {
                    match limit {
                        Some(rate) => self.in_force.insert(*flow, *rate),
                        None => self.in_force.remove(flow),
                    };
                    self.story.borrow_mut().limits += 1;
                }
                Directive::Prioritize { flow, priority: 0 } => {
                    self.priorities.remove(flow);
                }
                Directive::Prioritize { flow, priority } => {
                    self.priorities.insert(*flow, *priority);
                }
                _ => {}
            }
        }
        self.wishes.borrow_mut().note(now, self.patience, self.inner.controller());
        self.alone = match self.inner.controller() {
            Some(_) => None,
            None => self.alone.or(Some(now)),
        };
    }

    fn check(&mut self, now: Time, network: &Network) {
        for (flow, rate) in self.in_force.iter().filter(|_| !self.failing) {
            let wishes = self.wishes.borrow();
            let past = wishes.all.get(flow);
            let known = past.is_some_and(|past| past.iter().any(|(_, wanted)| wanted == rate));
            assert!(known, "{flow:?} is held to {rate} at {now:?}; wanted was {past:?}");
        }
        let wishes = self.wishes.borrow();
        self.fits(network, wishes.now(), "wishes");
        if now.since(wishes.changed) > self.patience && !self.failing {
            self.fits(network, self.in_force.iter().map(|(flow, rate)| (*flow, *rate)), "limits");
        }
        if self.inner.deadline().is_none_or(|deadline| deadline > now) {
            let settled = self.inner.settled();
            let of = |(flow, _): &(FlowId, Rate)| {
                self.ends.get(flow).is_some_and(|(src, _)| settled.contains(src))
            };
            let stands = self.in_force.iter().map(|(flow, rate)| (*flow, *rate)).filter(of);
            let mut stands: BTreeMap<_, _> = stands.collect();
            let mut wanted: BTreeMap<_, _> = wishes.now().filter(of).collect();
            for (flow, rate) in wishes.confirmed.iter().filter(|(flow, rate)| of(&(**flow, **rate)))
            {
                assert_eq!(stands.get(flow), Some(rate), "{flow:?} was confirmed, at {now:?}");
            }
            self.story.borrow_mut().failed += wishes.failed.len() as u64;
            stands.retain(|flow, _| !wishes.failed.contains(flow));
            wanted.retain(|flow, _| !wishes.failed.contains(flow));
            if now.since(self.replaced) <= self.patience {
                stands.retain(|flow, _| wanted.contains_key(flow));
            }
            assert_eq!(stands, wanted, "what stands isn't what is wanted, at {now:?}");
            if self.prioritizes && !self.failing {
                let without = stands.keys().find(|flow| !self.priorities.contains_key(*flow));
                assert_eq!(without, None, "held, without its priority, at {now:?}");
                self.story.borrow_mut().served += stands.len() as u64;
            }
            self.story.borrow_mut().settled += u64::from(!stands.is_empty());
        }
        if let Some(alone) = self.alone {
            let forsaken = now.since(alone);
            assert!(
                self.in_force.is_empty() && self.priorities.is_empty() || forsaken <= self.patience,
                "{:?} and {:?} stand after {forsaken} without a controller",
                self.in_force,
                self.priorities
            );
            self.story.borrow_mut().orphaned += u64::from(!self.in_force.is_empty());
        }
        let mut story = self.story.borrow_mut();
        if story.controllers != self.inner.controllers() {
            self.replaced = now;
        }
        story.controllers = self.inner.controllers();
        story.digest = self.hasher.finish();
    }

    fn fits(&self, network: &Network, rates: impl Iterator<Item = (FlowId, Rate)>, what: &str) {
        let mut sums: BTreeMap<LinkId, Rate> = BTreeMap::new();
        for (flow, rate) in rates {
            let Some((src, dst)) = self.ends.get(&flow) else {
                continue;
            };
            let mut path = Vec::new();
            assert!(network.path(*src, *dst, 0, &mut path));
            for link in path {
                let sum = sums.entry(link).or_default();
                *sum = *sum + rate;
            }
        }
        for (link, sum) in sums {
            assert!(sum <= CAPACITY, "{what} add up to {sum} on {link:?}");
        }
    }
}

impl Policy for Watched<'_> {
    fn observe(&mut self, now: Time, network: &Network, observation: &Observation) {
        match observation {
            Observation::Declared(Declared::FlowRequest { flow, src, dst, .. }) => {
                self.ends.insert(*flow, (*src, *dst));
            }
            // A flow that has ended is held to nothing.
            Observation::Declared(Declared::FlowComplete { flow, .. }) => {
                self.ends.remove(flow);
                self.in_force.remove(flow);
                self.priorities.remove(flow);
            }
            _ => {}
        }
        self.inner.observe(now, network, observation);
    }

    fn decide(&mut self, now: Time, network: &Network, out: &mut Directives) {
        let from = out.len();
        self.inner.decide(now, network, out);
        self.follow(now, &out[from..]);
        self.check(now, network);
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }
}

fn history(seed: u64) -> (Story, Vec<Time>) {
    let mut chance = Stream::named(seed, "which faults");
    let mut ms = |from: u64, to: u64| Span::from_millis(chance.random_range(from..to));
    let lease = ms(1_000, 4_000);
    let mut faults = Faults { jitter: ms(0, 300), ..Faults::default() };
    let mut often = || Often { every: ms(500, 6_000), most: ms(100, 8_000) };
    let (cut, death, crash) = (often(), often(), often());
    let policies = sparing();
    let name = policies[chance.random_range(0..policies.len())];
    faults.cut = chance.random_bool(0.8).then_some(cut);
    faults.death = chance.random_bool(0.5).then_some(death);
    faults.crash = chance.random_bool(0.8).then_some(crash);
    faults.loss = if chance.random_bool(0.5) { chance.random_range(0.0..0.6) } else { 0.0 };
    // One history of four has kernels that fail.
    faults.failure = if seed % 4 == 3 { chance.random_range(0.0..0.3) } else { 0.0 };
    let case = Case::draw(seed, name);
    let inner = SimulatedController::new(Box::new(|| policy(name)), lease, faults, seed);
    let story = Rc::new(RefCell::new(Story::default()));
    let patience = lease + faults.longest_message();
    let prioritizes = gives_priorities(name);
    let failing = faults.failure > 0.0;
    let watched = Watched::new(inner, patience, failing, prioritizes, story.clone());
    let outcome = case.run(Some(Box::new(watched)));
    let jobs = outcome.jobs.iter();
    assert!(jobs.filter(|job| job.end.is_some()).count() == case.jobs.len(), "a job never ends");
    let ends = outcome.flows.iter().map(|flow| flow.end.expect("every flow ends"));
    let ends = ends.collect();
    (story.take(), ends)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn faults_of_many_seeds_leave_nothing_wrong() {
    if let Some(seed) = number("CONTROL_SEED") {
        let (story, ends) = history(seed);
        eprintln!("seed {seed}: {story:?}, the last flow ended at {:?}", ends.iter().max());
        return;
    }
    let mut all = Story::default();
    for seed in 0..number("CONTROL_SEEDS").unwrap_or(100) {
        let Ok((story, _)) = std::panic::catch_unwind(|| history(seed)) else {
            panic!(
                "seed {seed} failed; run it alone:\n  CONTROL_SEED={seed} cargo test -p \
                 watermaster-simulated-controller --test faults -- --nocapture"
            );
        };
        all.controllers += story.controllers - 1;
        all.orphaned += story.orphaned;
        all.settled += story.settled;
        all.limits += story.limits;
        all.failed += story.failed;
        all.served += story.served;
    }
    eprintln!("{} controllers replaced, {} limits set", all.controllers, all.limits);
    assert!(
        [all.controllers, all.orphaned, all.settled, all.limits, all.failed, all.served]
            .into_iter()
            .all(|count| count > 0),
        "{all:?}"
    );
}

#[test]
fn equal_seeds_give_equal_histories() {
    for seed in 1000..1010 {
        assert_eq!(history(seed), history(seed));
    }
    assert_ne!(history(1000), history(1001));
}
