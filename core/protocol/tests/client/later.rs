//! What a controller could take later.

use watermaster_protocol::application::{Declaration, Outcome, RefusedDeclaration};
use watermaster_protocol::client::{Action, KEEP_ALIVE, Limits};

use crate::{Fate, Held, Step, World, complete, end, request, sample, sized, start};

/// A client that speaks with a controller with room for so much.
fn world(room: usize, limits: Limits) -> World {
    let mut world = World::new(limits, usize::MAX);
    world.settle();
    world.controller.room = room;
    world
}

/// A job with a flow that the controller has room for, and another that it hasn't.
fn parted() -> World {
    let mut world = world(2, Limits::default());
    declare(&mut world, &[start("a"), request("a", 1, 1), request("a", 2, 1)]);
    assert_eq!(say(&mut world).len(), 3);
    assert_eq!((world.client.waiting(), world.client.poll(world.now)), (1, None));
    world
}

fn declare(world: &mut World, said: &[Declaration]) {
    said.iter().for_each(|said| world.declare(said.clone()));
}

/// What the client says now, which the controller answers.
fn say(world: &mut World) -> Vec<Declaration> {
    let said = sends(world);
    answer(world, &said);
    said
}

fn sends(world: &mut World) -> Vec<Declaration> {
    let Some(Action::Declare(said)) = world.client.poll(world.now) else { panic!() };
    said.into_iter().cloned().collect()
}

fn answer(world: &mut World, said: &[Declaration]) {
    let outcome = world.controller.declare(said, usize::MAX).unwrap();
    world.client.answered(world.now, &outcome, 0);
}

/// Lets time pass until the client wants something: milliseconds.
fn wait(world: &mut World) -> u64 {
    let due = world.client.deadline().unwrap();
    let waits = due.since(world.now).as_nanos() / 1_000_000;
    world.now = world.now.max(due);
    waits
}

/// Taken, refused, for later, dropped.
fn counts(world: &World) -> [u64; 4] {
    let account = world.client.account();
    [account.taken, account.refused, account.later, account.dropped]
}

#[test]
fn it_is_said_again_after_growing_waits_until_it_is_taken() {
    let mut world = parted();
    assert_eq!(counts(&world), [2, 0, 1, 0]);
    assert_eq!(
        world.client.account().fault.as_deref(),
        Some("the controller refuses flow: because")
    );
    for waits in [50, 100, 200, 400, 800, 1600, 2500, 2500] {
        assert!(!world.client.is_settled());
        assert_eq!(wait(&mut world), waits);
        assert_eq!(say(&mut world), [request("a", 2, 1)]);
    }
    assert_eq!(counts(&world), [2, 0, 1, 0], "it is counted once");
    world.controller.room = 3;
    assert_eq!((wait(&mut world), say(&mut world)), (2500, vec![request("a", 2, 1)]));
    assert!(world.client.is_settled());
    assert_eq!(counts(&world), [3, 0, 1, 0]);
    assert_eq!(world.controller.held, world.application);
    // There was room, so that the next waits as the first did.
    declare(&mut world, &[request("a", 5, 1)]);
    assert_eq!((say(&mut world).len(), wait(&mut world)), (1, 50));
}

#[test]
fn what_is_new_is_said_at_once_and_before_it() {
    let mut world = parted();
    declare(&mut world, &[request("a", 5, 1)]);
    assert_eq!(say(&mut world), [request("a", 5, 1)], "without what waits");
    assert_eq!(wait(&mut world), 50, "one that is refused doesn't put off the one before");
    declare(&mut world, &[request("a", 4, 1)]);
    assert_eq!(say(&mut world), [4, 2, 5].map(|flow| request("a", flow, 1)));
    assert_eq!(wait(&mut world), 100);
}

#[test]
fn it_is_said_in_turn_a_request_at_a_time_and_at_once_where_there_is_room() {
    let mut world = world(1, Limits { declarations: 2, ..Limits::default() });
    let flows = |numbers: &[u64]| numbers.iter().map(|n| request("a", *n, 1)).collect::<Vec<_>>();
    declare(&mut world, &[start("a")]);
    assert_eq!(say(&mut world), [start("a")]);
    declare(&mut world, &flows(&[1, 2, 5]));
    assert_eq!([say(&mut world), say(&mut world)], [flows(&[1, 2]), flows(&[5])]);
    for (waits, turn) in [(50, [1, 2]), (100, [5, 1]), (200, [2, 5])] {
        assert_eq!((wait(&mut world), say(&mut world)), (waits, flows(&turn)));
    }
    world.controller.room = 4;
    assert_eq!((wait(&mut world), say(&mut world)), (400, flows(&[1, 2])));
    assert_eq!((wait(&mut world), say(&mut world)), (0, flows(&[5])));
    assert!(world.client.is_settled());
}

#[test]
fn what_ended_meanwhile_is_not_said() {
    let mut world = parted();
    declare(&mut world, &[end("a", 2)]);
    assert!(world.client.is_settled(), "neither the flow nor its end");
    assert_eq!(world.client.deadline(), Some(world.now + KEEP_ALIVE));
    declare(&mut world, &[start("b"), request("b", 1, 1)]);
    assert_eq!((say(&mut world).len(), world.client.waiting()), (2, 2));
    declare(&mut world, &[complete("b")]);
    assert!(world.client.is_settled());
    // Nothing waits since, so that the next waits as the first did.
    declare(&mut world, &[request("a", 5, 1)]);
    assert_eq!((say(&mut world).len(), wait(&mut world)), (1, 50));
    // It ends while it is under way again, and may be taken.
    for room in [2, 3] {
        let mut world = parted();
        wait(&mut world);
        let said = sends(&mut world);
        declare(&mut world, &[end("a", 2)]);
        world.controller.room = room;
        answer(&mut world, &said);
        assert_eq!(say(&mut world), [end("a", 2)]);
        assert!(world.client.is_settled());
        assert_eq!(world.controller.held, world.application);
        assert_eq!(counts(&world)[1..], [0, 1, 0], "an end that is refused is nothing to report");
    }
}

#[test]
fn what_replaces_it_is_said_in_its_place() {
    let mut world = parted();
    let other = sized(request("a", 2, 1), Some(5));
    world.declare(other.clone());
    assert_eq!((world.client.waiting(), say(&mut world)), (1, vec![other.clone()]));
    wait(&mut world);
    world.controller.room = 3;
    assert_eq!(say(&mut world), [other]);
    assert_eq!(world.controller.held, world.application);
    // While it is under way again.
    let mut world = parted();
    wait(&mut world);
    let said = sends(&mut world);
    let other = sized(request("a", 2, 1), Some(6));
    world.declare(other.clone());
    answer(&mut world, &said);
    assert_eq!(say(&mut world), std::slice::from_ref(&other));
    wait(&mut world);
    assert_eq!(say(&mut world), [other], "what it replaced was refused and is past");
}

#[test]
fn a_new_connection_hears_it_once() {
    let mut world = parted();
    world.step(Step::Break(false));
    wait(&mut world);
    assert!(world.poll(Fate::Answered) && world.poll(Fate::Answered), "the connection, its epoch");
    assert_eq!(say(&mut world), [start("a"), request("a", 1, 1), request("a", 2, 1)]);
    assert_eq!(world.client.poll(world.now), None);
    assert_eq!(wait(&mut world), 100, "the controller is the same");
    assert_eq!(say(&mut world), [request("a", 2, 1)]);
    // One that breaks while it is under way again.
    wait(&mut world);
    assert!(world.poll(Fate::AnswerLost));
    wait(&mut world);
    assert!(world.poll(Fate::Answered) && world.poll(Fate::Answered));
    assert_eq!(say(&mut world), [start("a"), request("a", 1, 1), request("a", 2, 1)]);
    // Another controller has less room, and has it back: what was taken before isn't counted again.
    world.step(Step::NewController);
    world.controller.room = 1;
    wait(&mut world);
    assert!(world.poll(Fate::Answered) && world.poll(Fate::Answered));
    assert_eq!((say(&mut world).len(), world.client.waiting()), (3, 2));
    world.settle();
    assert_eq!(world.controller.held, world.application);
    assert_eq!(counts(&world), [3, 0, 2, 0]);
}

#[test]
fn what_belongs_to_a_job_waits_until_that_is_taken() {
    let mut world = world(0, Limits::default());
    let flows = [1, 2, 3].map(|flow| request("a", flow, 1));
    declare(&mut world, &[start("a"), flows[0].clone(), flows[1].clone()]);
    assert_eq!(say(&mut world).len(), 3);
    assert_eq!(counts(&world), [0, 0, 1, 0], "the flows are not refused for good");
    declare(&mut world, &[flows[2].clone(), sample("a", &[1])]);
    assert_eq!((world.client.waiting(), world.client.poll(world.now)), (4, None));
    assert_eq!((wait(&mut world), say(&mut world)), (50, vec![start("a")]));
    // What is declared while the job is under way again waits with it.
    wait(&mut world);
    let said = sends(&mut world);
    let other = sized(flows[1].clone(), Some(5));
    declare(&mut world, &[request("a", 4, 1), other.clone(), end("a", 3)]);
    answer(&mut world, &said);
    assert_eq!(world.client.poll(world.now), None);
    world.controller.room = 9;
    assert_eq!((wait(&mut world), say(&mut world)), (200, vec![start("a")]));
    assert_eq!(say(&mut world), [flows[0].clone(), request("a", 4, 1), other]);
    assert!(world.client.is_settled());
    assert_eq!(world.controller.held, world.application);
    assert_eq!(world.controller.held, Held::of(&world.client));
    assert_eq!(counts(&world), [4, 0, 1, 0]);
}

#[test]
fn what_waits_takes_its_room() {
    let mut world = world(0, Limits { entries: 3, ..Limits::default() });
    declare(&mut world, &[start("a"), request("a", 1, 1)]);
    assert_eq!(say(&mut world).len(), 2);
    for said in [request("a", 2, 1), request("a", 5, 1), start("b")] {
        world.client.declare(said);
    }
    assert_eq!((world.client.waiting(), counts(&world)[3]), (3, 2));
    for said in [complete("a"), start("b"), request("b", 1, 1), request("b", 2, 1)] {
        world.client.declare(said);
    }
    assert_eq!(counts(&world)[3], 2, "what ended has left its room");
    world.settle();
    assert_eq!(world.controller.held, Held::of(&world.client));
}

/// A controller may lie: samples are over, and ends are of what it had forgotten.
#[test]
fn neither_samples_nor_ends_are_said_again() {
    let mut world = parted();
    declare(&mut world, &[end("a", 2)]);
    declare(&mut world, &[sample("a", &[1]), end("a", 1)]);
    let said = sends(&mut world);
    assert_eq!(said, [sample("a", &[1]), end("a", 1)]);
    let refused = |index| {
        let (field, reason, later) = ("flow".into(), "because".into(), true);
        RefusedDeclaration { index, field, reason, later }
    };
    let refused = vec![refused(0), refused(1)];
    world.client.answered(world.now, &Outcome { epoch: 1, refused, ..Outcome::default() }, 0);
    assert!(world.client.is_settled());
    assert_eq!(counts(&world), [2, 1, 1, 0]);
}
