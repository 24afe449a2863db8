package io.watermaster.client;

import static io.watermaster.client.Session.KEEP_ALIVE;
import static io.watermaster.client.SessionTest.LIMITS;
import static io.watermaster.client.SessionTest.request;
import static io.watermaster.client.SessionTest.sample;
import static io.watermaster.client.SessionTest.sized;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Outcome.Refused;
import io.watermaster.client.Session.Limits;
import io.watermaster.client.SessionTest.Fate;
import io.watermaster.client.SessionTest.Held;
import io.watermaster.client.SessionTest.World;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

/** What a controller could take later. */
class LaterTest {
    private static final Declaration START = new JobStart("a");
    private static final Declaration FIRST = request("a", "1", 1);
    private static final Declaration SECOND = request("a", "2", 1);
    private static final Declaration THIRD = request("a", "5", 1);

    /** A session that speaks with a controller with room for so much. */
    private static World world(int room, Limits limits) {
        World world = new World(limits);
        world.settle();
        world.controller.room = room;
        return world;
    }

    /** A job with a flow that the controller has room for, and another that it hasn't. */
    private static World parted() {
        World world = world(2, LIMITS);
        world.declare(START, FIRST, SECOND);
        assertEquals(3, say(world).size());
        assertEquals(1, world.session.waiting());
        assertEquals(Optional.empty(), world.session.poll(world.now));
        return world;
    }

    /** What the session says now, which the controller answers. */
    private static List<Declaration> say(World world) {
        List<Declaration> said = world.sends();
        answer(world, said);
        return said;
    }

    private static void answer(World world, List<Declaration> said) {
        world.session.answered(world.now, world.controller.declare(said, Integer.MAX_VALUE), 0);
    }

    /** Lets time pass until the session wants something: milliseconds. */
    private static long await(World world) {
        long due = Math.max(world.now, world.session.deadline());
        long waits = (due - world.now) / 1_000_000;
        world.now = due;
        return waits;
    }

    /** Taken, refused, for later, dropped. */
    private static List<Long> counts(World world) {
        Account account = world.session.account();
        return List.of(account.taken(), account.refused(), account.later(), account.dropped());
    }

    @Test
    void itIsSaidAgainAfterGrowingWaitsUntilItIsTaken() {
        World world = parted();
        assertEquals(List.of(2L, 0L, 1L, 0L), counts(world));
        assertEquals(Optional.of("the controller refuses flow: because"), world.session.account().fault());
        for (long waits : new long[] {50, 100, 200, 400, 800, 1600, 2500, 2500}) {
            assertFalse(world.session.isSettled());
            assertEquals(waits, await(world));
            assertEquals(List.of(SECOND), say(world));
        }
        assertEquals(List.of(2L, 0L, 1L, 0L), counts(world), "it is counted once");
        world.controller.room = 3;
        assertEquals(2500, await(world));
        assertEquals(List.of(SECOND), say(world));
        assertTrue(world.session.isSettled());
        assertEquals(List.of(3L, 0L, 1L, 0L), counts(world));
        assertEquals(Held.of(world.session), world.controller.held);
        // There was room, so that the next waits as the first did.
        world.declare(THIRD);
        assertEquals(List.of(THIRD), say(world));
        assertEquals(50, await(world));
    }

    @Test
    void whatIsNewIsSaidAtOnceAndBeforeIt() {
        World world = parted();
        world.declare(THIRD);
        assertEquals(List.of(THIRD), say(world), "without what waits");
        assertEquals(50, await(world), "one that is refused doesn't put off the one before");
        Declaration fourth = request("a", "4", 1);
        world.declare(fourth);
        assertEquals(List.of(fourth, SECOND, THIRD), say(world));
        assertEquals(100, await(world));
    }

    @Test
    void itIsSaidInTurnARequestAtATimeAndAtOnceWhereThereIsRoom() {
        World world = world(1, new Limits(1 << 16, 2, 1 << 16));
        world.declare(START);
        assertEquals(List.of(START), say(world));
        world.declare(FIRST, SECOND, THIRD);
        assertEquals(List.of(List.of(FIRST, SECOND), List.of(THIRD)), List.of(say(world), say(world)));
        long waits = 50;
        for (List<Declaration> turn : List.of(List.of(FIRST, SECOND), List.of(THIRD, FIRST), List.of(SECOND, THIRD))) {
            assertEquals(waits, await(world));
            assertEquals(turn, say(world));
            waits *= 2;
        }
        world.controller.room = 4;
        assertEquals(waits, await(world));
        assertEquals(List.of(FIRST, SECOND), say(world));
        assertEquals(0, await(world));
        assertEquals(List.of(THIRD), say(world));
        assertTrue(world.session.isSettled());
    }

    @Test
    void whatEndedMeanwhileIsNotSaid() {
        World world = parted();
        Declaration end = new FlowComplete("a", "2");
        world.declare(end);
        assertTrue(world.session.isSettled(), "neither the flow nor its end");
        assertEquals(world.now + KEEP_ALIVE, world.session.deadline());
        world.declare(new JobStart("b"), request("b", "1", 1));
        assertEquals(2, say(world).size());
        assertEquals(2, world.session.waiting());
        world.declare(new JobComplete("b"));
        assertTrue(world.session.isSettled());
        // Nothing waits since, so that the next waits as the first did.
        world.declare(THIRD);
        assertEquals(List.of(THIRD), say(world));
        assertEquals(50, await(world));
        // It ends while it is under way again, and may be taken.
        for (int room : new int[] {2, 3}) {
            world = parted();
            await(world);
            List<Declaration> said = world.sends();
            world.declare(end);
            world.controller.room = room;
            answer(world, said);
            assertEquals(List.of(end), say(world));
            assertTrue(world.session.isSettled());
            assertEquals(Held.of(world.session), world.controller.held);
            assertEquals(List.of(0L, 1L, 0L), counts(world).subList(1, 4), "a refused end is nothing to report");
        }
    }

    @Test
    void whatReplacesItIsSaidInItsPlace() {
        World world = parted();
        Declaration other = sized(SECOND, 5);
        world.declare(other);
        assertEquals(1, world.session.waiting());
        assertEquals(List.of(other), say(world));
        await(world);
        world.controller.room = 3;
        assertEquals(List.of(other), say(world));
        assertEquals(Held.of(world.session), world.controller.held);
        // While it is under way again.
        world = parted();
        await(world);
        List<Declaration> said = world.sends();
        world.declare(other);
        answer(world, said);
        assertEquals(List.of(other), say(world));
        await(world);
        assertEquals(List.of(other), say(world), "what it replaced was refused and is past");
    }

    @Test
    void aNewConnectionHearsItOnce() {
        World world = parted();
        List<Declaration> all = List.of(START, FIRST, SECOND);
        world.lose();
        await(world);
        assertTrue(world.poll() && world.poll(), "the connection, its epoch");
        assertEquals(all, say(world));
        assertEquals(Optional.empty(), world.session.poll(world.now));
        assertEquals(100, await(world), "the controller is the same");
        assertEquals(List.of(SECOND), say(world));
        // One that breaks while it is under way again.
        await(world);
        assertTrue(world.poll(Fate.ANSWER_LOST, 0));
        await(world);
        assertTrue(world.poll() && world.poll());
        assertEquals(all, say(world));
        // Another controller has less room, and has it back: what was taken before isn't counted again.
        world.newController();
        world.controller.room = 1;
        await(world);
        assertTrue(world.poll() && world.poll());
        assertEquals(all, say(world));
        assertEquals(2, world.session.waiting());
        world.settle();
        assertEquals(Held.of(world.session), world.controller.held);
        assertEquals(List.of(3L, 0L, 2L, 0L), counts(world));
    }

    @Test
    void whatBelongsToAJobWaitsUntilThatIsTaken() {
        World world = world(0, LIMITS);
        world.declare(START, FIRST, SECOND);
        assertEquals(3, say(world).size());
        assertEquals(List.of(0L, 0L, 1L, 0L), counts(world), "the flows are not refused for good");
        world.declare(THIRD, sample("a", "1"));
        assertEquals(4, world.session.waiting());
        assertEquals(Optional.empty(), world.session.poll(world.now));
        assertEquals(50, await(world));
        assertEquals(List.of(START), say(world));
        // What is declared while the job is under way again waits with it.
        await(world);
        List<Declaration> said = world.sends();
        Declaration fourth = request("a", "4", 1);
        Declaration other = sized(SECOND, 5);
        world.declare(fourth, other, new FlowComplete("a", "5"));
        answer(world, said);
        assertEquals(Optional.empty(), world.session.poll(world.now));
        world.controller.room = 9;
        assertEquals(200, await(world));
        assertEquals(List.of(START), say(world));
        assertEquals(List.of(FIRST, fourth, other), say(world));
        assertTrue(world.session.isSettled());
        assertEquals(Held.of(world.session), world.controller.held);
        assertEquals(List.of(4L, 0L, 1L, 0L), counts(world));
    }

    @Test
    void whatWaitsTakesItsRoom() {
        World world = world(0, Limits.of(3));
        world.declare(START, FIRST);
        assertEquals(2, say(world).size());
        world.declare(SECOND, THIRD, new JobStart("b"));
        assertEquals(3, world.session.waiting());
        assertEquals(2, world.session.account().dropped());
        world.declare(new JobComplete("a"), new JobStart("b"), request("b", "1", 1), request("b", "2", 1));
        assertEquals(2, world.session.account().dropped(), "what ended has left its room");
        world.settle();
        assertEquals(Held.of(world.session), world.controller.held);
    }

    /** A controller may lie: samples are over, and ends are of what it had forgotten. */
    @Test
    void neitherSamplesNorEndsAreSaidAgain() {
        World world = parted();
        Declaration end = new FlowComplete("a", "1");
        world.declare(new FlowComplete("a", "2"), sample("a", "1"), end);
        assertEquals(List.of(sample("a", "1"), end), world.sends());
        List<Refused> refused = List.of(
                new Refused(0, "flow", "because", true), new Refused(1, "flow", "because", true));
        world.session.answered(world.now, new Outcome(0, 1, refused, OptionalLong.empty()), 0);
        assertTrue(world.session.isSettled());
        assertEquals(List.of(2L, 1L, 1L, 0L), counts(world));
    }
}
