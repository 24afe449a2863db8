package io.watermaster.client;

import static io.watermaster.client.Session.KEEP_ALIVE;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.JobTerms;
import io.watermaster.client.Declaration.Portion;
import io.watermaster.client.Declaration.Sample;
import io.watermaster.client.Declaration.Size;
import io.watermaster.client.Declaration.Streams;
import io.watermaster.client.Declaration.TaskHost;
import io.watermaster.client.Outcome.Refused;
import io.watermaster.client.Session.Action;
import io.watermaster.client.Session.Limits;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Random;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/**
 * The session against a model of what a controller remembers, through random histories of declarations, lost
 * connections, lost answers, refusals and new epochs.
 */
class SessionTest {
    /** The model refuses it always. */
    private static final String UNWANTED_JOB = "\u0001\"";
    private static final String UNWANTED_FLOW = "3";
    static final Limits LIMITS = Limits.of(1 << 16);

    /** What holds by the meaning of the messages; as an application sees it, or a controller. */
    record Held(Map<String, Map<String, Declaration>> jobs) {
        Held() {
            this(new HashMap<>());
        }

        /** Takes a declaration in; the field at fault where a controller would refuse it. */
        Optional<String> take(Declaration declaration) {
            if (declaration instanceof JobStart start) {
                jobs.computeIfAbsent(start.job(), name -> new HashMap<>());
                return Optional.empty();
            }
            Map<String, Declaration> held = jobs.get(declaration.job());
            if (held == null) {
                return Optional.of("job");
            } else if (declaration instanceof JobComplete) {
                jobs.remove(declaration.job());
            } else if (declaration instanceof JobTerms said) {
                held.put("terms", said);
            } else if (declaration instanceof TaskHost said) {
                held.put("task " + said.task(), said);
            } else if (declaration instanceof Size said) {
                held.put("size " + said.map(), said);
            } else if (declaration instanceof FlowRequest said) {
                Declaration before = held.getOrDefault("flow " + said.flow(), said);
                if (!sized(before, 0).equals(sized(said, 0))) {
                    return Optional.of("flow");
                }
                held.put("flow " + said.flow(), said);
            } else if (declaration instanceof FlowComplete said) {
                return held.remove("flow " + said.flow()) == null ? Optional.of("flow") : Optional.empty();
            } else if (declaration instanceof Streams said) {
                boolean isKnown = said.samples().stream().allMatch(s -> held.containsKey("flow " + s.flow()));
                return isKnown ? Optional.empty() : Optional.of("flow");
            }
            return Optional.empty();
        }

        /** How much it is. */
        int amount() {
            return jobs.values().stream().mapToInt(held -> 1 + held.size()).sum();
        }

        Held copy() {
            Held copy = new Held();
            jobs.forEach((job, held) -> copy.jobs.put(job, new HashMap<>(held)));
            return copy;
        }

        /** What a session says that holds. */
        static Held of(Session session) {
            Held held = new Held();
            for (Declaration said : session.holds()) {
                assertEquals(Optional.empty(), held.take(said), () -> said + " comes before what it refers to");
            }
            return held;
        }

        /** Without what the controller never takes. */
        Held acceptable() {
            Held acceptable = new Held();
            jobs.forEach((job, held) -> {
                if (!job.equals(UNWANTED_JOB)) {
                    Map<String, Declaration> kept = new HashMap<>(held);
                    kept.remove("flow " + UNWANTED_FLOW);
                    acceptable.jobs.put(job, kept);
                }
            });
            return acceptable;
        }
    }

    private static boolean isUnwanted(Declaration said) {
        return said instanceof JobStart start && start.job().equals(UNWANTED_JOB)
                || said instanceof FlowRequest request && request.flow().equals(UNWANTED_FLOW);
    }

    /** A controller. */
    static final class Controller {
        long epoch = 1;
        Held held = new Held();
        /** More than that it takes later. */
        int room = Integer.MAX_VALUE;

        /** Looks at the first {@code budget} declarations at most. */
        Outcome declare(List<Declaration> said, int budget) {
            List<Refused> refused = new ArrayList<>();
            int lookedAt = Math.min(said.size(), budget);
            for (int index = 0; index < lookedAt; index++) {
                Declaration declaration = said.get(index);
                Held after = held.copy();
                Optional<String> fault = isUnwanted(declaration) ? Optional.of("flow") : after.take(declaration);
                boolean later = fault.isEmpty() && after.amount() > Math.max(room, held.amount());
                if (fault.isPresent() || later) {
                    refused.add(new Refused(index, fault.orElse("flow"), "because", later));
                } else {
                    held = after;
                }
            }
            OptionalLong rest = lookedAt < said.size() ? OptionalLong.of(lookedAt) : OptionalLong.empty();
            return new Outcome(lookedAt - refused.size(), epoch, refused, rest);
        }

        void startAnew() {
            epoch++;
            held = new Held();
        }
    }

    /** What becomes of one thing that the session wants. */
    enum Fate {
        ANSWERED,
        /** After some declarations the application was too fast. */
        TOO_FAST,
        /** The controller took it in and the answer was lost. */
        ANSWER_LOST,
        /** It never arrived. */
        LOST,
        /** The controller is ending. */
        ENDING;

        static Fate any(Random random) {
            int draw = random.nextInt(10);
            return draw < 6 ? ANSWERED : values()[draw - 5];
        }
    }

    /** A session, and the controller that there is. */
    static final class World {
        final Limits limits;
        /** Most declarations in a request that the controller reads. */
        final int most;
        final Session session;
        final Controller controller;
        long now;
        /** The controller has forgotten something that the session may not have heard of. */
        boolean hasForgotten;

        World(Limits limits, int most, Controller controller) {
            this.limits = limits;
            this.most = most;
            this.session = new Session(limits);
            this.controller = controller;
        }

        World(Limits limits) {
            this(limits, Integer.MAX_VALUE, new Controller());
        }

        void declare(Declaration... said) {
            Arrays.asList(said).forEach(session::declare);
        }

        void lose() {
            session.lost(now, "cut", 0.4);
        }

        /** Does one thing that the session wants now; whether there was one. */
        boolean poll(Fate fate, int budget) {
            Optional<Action> action = session.poll(now);
            if (action.isEmpty()) {
                return false;
            }
            if (action.get() instanceof Action.Declare declare) {
                assertTrue(!declare.said().isEmpty() && declare.said().size() <= limits.declarations());
                int octets = declare.body().length;
                assertTrue(octets <= limits.octets() || declare.said().size() == 1, octets + " octets");
                declared(declare.said(), fate, budget);
            } else if (fate == Fate.LOST || action.get() instanceof Action.Health && isLossOfHealth(fate)) {
                lose();
            } else if (action.get() instanceof Action.Connect) {
                session.connected(now);
            } else {
                session.healthy(now, controller.epoch);
            }
            return true;
        }

        boolean poll() {
            return poll(Fate.ANSWERED, 0);
        }

        private static boolean isLossOfHealth(Fate fate) {
            return fate == Fate.ANSWER_LOST || fate == Fate.ENDING;
        }

        private void declared(List<Declaration> said, Fate fate, int budget) {
            if (fate == Fate.LOST) {
                lose();
            } else if (fate == Fate.ENDING) {
                session.refused(now, 503, "", 0);
            } else if (said.size() > most) {
                if (fate == Fate.ANSWER_LOST) {
                    lose();
                } else {
                    session.refused(now, 400, "", 0);
                }
            } else {
                Outcome outcome = controller.declare(said, fate == Fate.TOO_FAST ? budget : Integer.MAX_VALUE);
                if (fate == Fate.ANSWER_LOST) {
                    lose();
                } else {
                    session.answered(now, outcome, 0);
                }
            }
        }

        /** Another controller is there. */
        void newController() {
            lose();
            controller.startAnew();
        }

        /** The controller forgets a job, or all, and the connection stands. */
        void forget(boolean all) {
            if (all) {
                controller.held = new Held();
            } else {
                controller.held.jobs().remove("a");
            }
            hasForgotten = true;
        }

        /** Nothing more goes wrong until all has been said to the controller that there is. */
        void settle() {
            controller.room = Integer.MAX_VALUE;
            if (hasForgotten) {
                hasForgotten = false;
                lose();
            }
            now += KEEP_ALIVE;
            poll();
            for (int i = 0; i < 10_000; i++) {
                if (session.isSettled()) {
                    return;
                }
                now = Math.max(now, session.deadline());
                assertTrue(poll() || session.deadline() > now, "a deadline and nothing to do");
            }
            throw new AssertionError("it never settles");
        }

        /** What it sends now. */
        List<Declaration> sends() {
            return assertInstanceOf(Action.Declare.class, session.poll(now).orElseThrow()).said();
        }

        List<Long> counts() {
            Account account = session.account();
            return List.of(account.taken(), account.refused(), account.dropped(), account.connections());
        }
    }

    static Declaration request(String job, String flow, int port) {
        return new FlowRequest(job, flow, new Endpoint("10.0.0.1", port), new Endpoint("10.0.0.2", 80),
                OptionalLong.of(Long.MAX_VALUE));
    }

    /** A request with another size. */
    static Declaration sized(Declaration request, long size) {
        FlowRequest said = (FlowRequest) request;
        return new FlowRequest(said.job(), said.flow(), said.source(), said.destination(), OptionalLong.of(size));
    }

    static Declaration sample(String job, String... flows) {
        return new Streams(job, Arrays.stream(flows)
                .map(flow -> new Sample(flow, Long.MAX_VALUE, Long.MAX_VALUE, Long.MAX_VALUE)).toList());
    }

    private static Declaration declaration(Random random, String... jobs) {
        String job = jobs[random.nextInt(jobs.length)];
        String flow = Integer.toString(random.nextInt(5));
        int draw = random.nextInt(20);
        if (draw < 3) {
            return new JobStart(job);
        } else if (draw < 4) {
            return new JobComplete(job);
        } else if (draw < 6) {
            return new TaskHost(job, random.nextInt(3), "h" + random.nextInt(3));
        } else if (draw < 8) {
            return new Size(job, random.nextInt(3),
                    Collections.nCopies(random.nextInt(4), new Portion(1, Long.MAX_VALUE)));
        } else if (draw < 14) {
            return sized(request(job, flow, 1 + random.nextInt(2)), 1 + random.nextInt(3));
        } else if (draw < 18) {
            return new FlowComplete(job, flow);
        } else if (draw < 19) {
            return new JobTerms(job, Optional.of(flow), OptionalLong.of(Long.MAX_VALUE), OptionalInt.empty());
        }
        return sample(job, flow, Integer.toString(random.nextInt(5)));
    }

    /** An open flow, whose size is corrected, and which may end before anybody hears of that. */
    private static List<Declaration> correction(Session session, Random random) {
        List<FlowRequest> open = session.holds().stream()
                .filter(FlowRequest.class::isInstance).map(FlowRequest.class::cast).toList();
        if (open.isEmpty()) {
            return List.of();
        }
        FlowRequest flow = open.get(random.nextInt(open.size()));
        Declaration corrected = sized(flow, 1 + random.nextInt(3));
        return random.nextBoolean()
                ? List.of(corrected) : List.of(corrected, new FlowComplete(flow.job(), flow.flow()));
    }

    /** A history; what the application has at its end. */
    private static Held history(World world, Random random, Runnable check) {
        Held application = new Held();
        for (int steps = random.nextInt(150); steps > 0; steps--) {
            int draw = random.nextInt(27);
            if (draw == 26) {
                world.forget(random.nextBoolean());
            } else if (draw < 8 || draw >= 24) {
                List<Declaration> said = draw < 8
                        ? List.of(declaration(random, "a", "b", UNWANTED_JOB)) : correction(world.session, random);
                said.forEach(application::take);
                said.forEach(world.session::declare);
            } else if (draw < 16) {
                world.poll(Fate.any(random), random.nextInt(3));
            } else if (draw < 20) {
                world.now += MILLISECONDS.toNanos(random.nextInt(6_000));
            } else if (draw < 21) {
                // The connection breaks while nothing is under way, and the same controller may forget.
                world.lose();
                if (random.nextBoolean()) {
                    world.controller.held = new Held();
                }
            } else if (draw < 22) {
                world.newController();
            } else if (draw < 23) {
                // Another controller answers on the same connection.
                world.controller.startAnew();
            } else {
                world.controller.room = random.nextInt(8);
            }
            check.run();
        }
        return application;
    }

    /**
     * Whatever went wrong: once all has been said, the controller has what the application has, without what it
     * refuses.
     */
    @Test
    void inTheEndTheControllerHoldsWhatTheApplicationDoes() {
        for (int seed = 0; seed < 4_000; seed++) {
            Random random = new Random(seed);
            Limits limits = new Limits(1 << 16, 1 + random.nextInt(8), 300 + random.nextInt(3_000));
            World world = new World(limits, 1 + random.nextInt(8), new Controller());
            Held application = history(world, random, () -> {});
            world.settle();
            assertEquals(application.acceptable(), world.controller.held, "seed " + seed);
            assertEquals(Held.of(world.session), world.controller.held, "seed " + seed);
        }
    }

    /** With too little room the session drops what doesn't fit, and what it keeps still agrees. */
    @Test
    void whatHasNoRoomIsDroppedWithAllThatRefersToIt() {
        for (int seed = 0; seed < 4_000; seed++) {
            Random random = new Random(seed);
            int room = random.nextInt(12);
            World world = new World(Limits.of(room));
            history(world, random, () -> {
                assertTrue(world.session.holds().stream().mapToInt(Session::weight).sum() <= room);
                assertTrue(world.session.waiting() <= room);
            });
            world.settle();
            assertEquals(Held.of(world.session), world.controller.held, "seed " + seed);
            // No room was lost on the way.
            long before = world.session.account().dropped();
            int left = room - world.session.holds().stream().mapToInt(Session::weight).sum();
            for (int job = 0; job <= left; job++) {
                assertEquals(before, world.session.account().dropped(), "seed " + seed);
                world.declare(new JobStart("job" + job));
            }
            assertEquals(before + 1, world.session.account().dropped(), "seed " + seed);
        }
    }

    /** The bound on a request's octets holds for any text and any number. */
    @Test
    void aRequestKeepsItsOctets() {
        Random random = new Random(1);
        World world = new World(new Limits(1 << 16, 1000, 2_000));
        for (int i = 0; i < 200; i++) {
            StringBuilder job = new StringBuilder();
            for (int length = random.nextInt(100); length >= 0; length--) {
                job.appendCodePoint(new int[] {1, '"', '\\', 'a', 0xe4, 0x1f600}[random.nextInt(6)]);
            }
            world.declare(new JobStart(job.toString()), request(job.toString(), job.toString(), 0xffff),
                    new TaskHost(job.toString(), Integer.MAX_VALUE, job.toString()),
                    new Size(job.toString(), 1,
                            Collections.nCopies(9, new Portion(Integer.MAX_VALUE, Long.MAX_VALUE))));
        }
        world.settle();
        assertEquals(Held.of(world.session).acceptable(), world.controller.held);
    }

    @Test
    void whatIsSaidAgainIsCountedOnceAndWhatEndedUnsaidIsNotSaid() {
        World world = new World(LIMITS);
        world.declare(new JobStart("b"), new JobComplete("b"), new JobStart("a"), request("a", "1", 1));
        assertEquals(2, world.session.waiting(), "nothing of b");
        world.settle();
        world.declare(request("a", "2", 2), new FlowComplete("a", "2"));
        assertTrue(world.session.isSettled(), "nothing of a flow that ended unsaid");
        world.newController();
        world.settle();
        assertEquals(List.of(2L, 0L, 0L, 2L), world.counts());
        // The same controller hears of an end that it missed; another doesn't.
        world.lose();
        world.declare(new FlowComplete("a", "1"));
        world.settle();
        assertEquals(3, world.session.account().taken());
        world.newController();
        world.declare(new JobComplete("a"));
        world.now += KEEP_ALIVE;
        assertTrue(world.poll() && world.poll());
        assertTrue(world.session.isSettled(), "nothing is to be said after the connection and the epoch");
        assertEquals(List.of(), world.session.holds());
        world.declare(new JobStart("a"), request("a", "1", 1));
        world.settle();
        world.newController();
        world.now += KEEP_ALIVE;
        assertTrue(world.poll() && world.poll());
        world.declare(new FlowComplete("a", "1"));
        assertEquals(List.of(new JobStart("a")), world.sends(), "another controller never heard of the flow");
    }

    @Test
    void anEndIsSaidToWhoeverMayHaveTakenTheRequestWithoutAnAnswer() {
        World world = new World(LIMITS);
        world.settle();
        world.controller.startAnew();
        world.declare(new JobStart("a"));
        assertTrue(world.poll(Fate.ANSWER_LOST, 0));
        world.declare(new JobComplete("a"));
        world.settle();
        assertEquals(new Held(), world.controller.held);
    }

    /** Once the controller has heard of a flow it hears of its end, whether or not it heard the last size. */
    @Test
    void aFlowThatEndsBeforeItsCorrectionIsSentIsEnded() {
        Declaration flow = request("a", "1", 1);
        Declaration end = new FlowComplete("a", "1");
        World world = new World(LIMITS);
        world.declare(new JobStart("a"), sized(flow, 1));
        world.settle();
        world.declare(sized(flow, 2), sized(flow, 3), end);
        assertEquals(List.of(end), world.sends(), "no correction of what has ended");
        // What was never said needs no end, however often it was corrected.
        world = new World(LIMITS);
        world.settle();
        world.declare(new JobStart("a"), sized(flow, 1), sized(flow, 2), end);
        assertEquals(List.of(new JobStart("a")), world.sends());
        // Nor what was refused, because its job had not started.
        world = new World(LIMITS);
        world.settle();
        world.declare(new JobJoin("a"), sized(flow, 1));
        assertTrue(world.poll());
        world.declare(sized(flow, 2), end);
        assertEquals(0, world.session.waiting());
        // Nor what was refused for that, and waits to be said again after another.
        World slow = new World(new Limits(1 << 16, 1, 1 << 10));
        slow.settle();
        slow.declare(new JobJoin("a"), request("a", "2", 2), flow);
        assertTrue(slow.poll() && slow.poll());
        slow.now = slow.session.deadline();
        assertTrue(slow.poll());
        slow.declare(end);
        assertEquals(1, slow.session.waiting(), "the first, which is parked again");
        // A process that leaves a job ends its flows there.
        world.controller.declare(List.of(new JobStart("a")), 1);
        world.declare(sized(flow, 1));
        world.settle();
        world.declare(sized(flow, 2), new JobComplete("a"));
        assertEquals(List.of(end), world.sends());
    }

    /** What a process left behind that crashed. */
    @Test
    void aJobThatAProcessBeforeStartedIsEnded() {
        World world = new World(LIMITS);
        world.controller.declare(List.of(new JobStart("a"), request("a", "1", 1)), 2);
        world.declare(new JobComplete("a"), new JobStart("a"), request("a", "1", 2), new JobComplete("never"));
        world.settle();
        assertEquals(Held.of(world.session), world.controller.held);
        assertEquals(List.of(3L, 0L, 0L, 1L), world.counts(), "an end that is refused is nothing to report");
    }

    /** As one that lies, or two behind one address: the client's thread must not be busy with it. */
    @Test
    void whoAnswersInEverOtherEpochsIsAskedSeldom() {
        World world = new World(LIMITS);
        world.declare(new JobStart("a"));
        world.settle();
        world.declare(new JobStart("b"));
        long begin = world.now;
        for (int requests = 0; world.now - begin < 60_000_000_000L; requests++) {
            assertTrue(requests < 40, "too many requests");
            world.controller.startAnew();
            assertTrue(world.poll());
            world.now = Math.max(world.now, world.session.deadline());
        }
        assertEquals(1, world.session.account().connections());
        world.settle();
        assertEquals(Held.of(world.session), world.controller.held);
        // After a while without one the wait is short again.
        world.now += 31_000_000_000L;
        world.controller.startAnew();
        world.declare(new JobStart("c"));
        assertTrue(world.poll());
        assertEquals(world.now + MILLISECONDS.toNanos(50), world.session.deadline());
    }

    /** Says what it wants to, of which the controller has forgotten the jobs of some; how many it takes. */
    private static int says(World world, long... forgotten) {
        int taken = world.sends().size() - forgotten.length;
        List<Refused> refused = Arrays.stream(forgotten)
                .mapToObj(index -> new Refused(index, "job", "has not started", false)).toList();
        world.session.answered(world.now, new Outcome(taken, 1, refused, OptionalLong.empty()), 0);
        return taken;
    }

    /** Its job was ended by an operator, while the connection stands. */
    @Test
    void whatAControllerHasForgottenIsSaidAgainAndSeldomToOneThatLies() {
        World world = new World(LIMITS);
        world.declare(new JobStart("a"), request("a", "1", 1));
        world.settle();
        world.controller.held = new Held();
        world.declare(sample("a", "1"), request("a", "2", 1));
        says(world, 0, 1);
        assertEquals(world.now + MILLISECONDS.toNanos(50), world.session.deadline());
        world.settle();
        assertEquals(Held.of(world.session), world.controller.held);
        assertEquals(List.of(3L, 1L, 0L, 1L), world.counts(), "the sample is over");

        world.declare(request("a", "4", 1));
        long begin = world.now;
        says(world, 0);
        for (int requests = 1; world.now - begin < 60_000_000_000L; requests++) {
            assertTrue(requests < 40, "too many requests");
            world.now = world.session.deadline();
            assertEquals(3, says(world, 3), "all is said, of which it forgets the last");
        }
        world.settle();
        assertEquals(Held.of(world.session), world.controller.held);
    }

    @Test
    void aRequestThatCantBeReadIsHalvedUntilItIsOneDeclaration() {
        World world = new World(LIMITS);
        world.settle();
        for (int job = 0; job < 8; job++) {
            world.declare(new JobStart("job" + job));
        }
        List<Integer> sizes = new ArrayList<>();
        for (int status : new int[] {413, 400, 413, 400}) {
            sizes.add(world.sends().size());
            world.session.refused(world.now, status, "", 0);
        }
        assertEquals(List.of(8, 4, 2, 1), sizes);
        world.settle();
        assertEquals(List.of(7L, 1L, 0L, 1L), world.counts());
    }

    /** What can't be read is past once it is left out, and another connection doesn't have it. */
    @Test
    void requestsGrowAgainAfterOneThatCantBeRead() {
        World world = new World(new Limits(1 << 16, 8, 1 << 10));
        world.settle();
        IntFunction<Integer> say = status -> {
            int many = world.sends().size();
            if (status == 200) {
                world.session.answered(world.now, new Outcome(many, 1, List.of(), OptionalLong.empty()), 0);
            } else {
                world.session.refused(world.now, status, "", 0);
            }
            return many;
        };
        IntStream.range(0, 40).forEach(job -> world.declare(new JobStart("job" + job)));
        assertEquals(List.of(8, 4, 2, 1), IntStream.of(400, 413, 400, 400).mapToObj(say).toList());
        assertEquals(List.of(1, 2, 3, 4, 5, 6, 7, 8, 3), Collections.nCopies(9, 200).stream().map(say::apply).toList());
        assertTrue(world.session.isSettled());
        // One that ended before it was found leaves the next connection nothing.
        IntStream.range(40, 50).forEach(job -> world.declare(new JobStart("job" + job)));
        assertEquals(List.of(8, 4, 2), IntStream.of(413, 413, 413).mapToObj(say).toList());
        world.lose();
        world.now = world.session.deadline();
        assertTrue(world.poll() && world.poll());
        assertEquals(8, say.apply(200));
    }

    @Test
    void aRefusedDeclarationIsLeftOutAndThoseAfterItAreTaken() {
        World world = new World(LIMITS);
        world.settle();
        world.declare(new JobStart("a"), request("a", UNWANTED_FLOW, 1), request("a", "1", 1),
                new JobStart(UNWANTED_JOB), new TaskHost(UNWANTED_JOB, 1, "h"));
        assertTrue(world.poll() && world.session.isSettled(), "one request");
        assertEquals(List.of(2L, 3L, 0L, 1L), world.counts());
        assertEquals(Optional.of("the controller refuses flow: because"), world.session.account().fault());
        world.declare(new TaskHost(UNWANTED_JOB, 2, "h"));
        assertEquals(1, world.session.account().dropped(), "its job was refused");
    }

    /** The wait of an answer that names a rest, which is what is said then. */
    @Test
    void whatCameTooFastWaitsAndIsSaidThen() {
        World world = new World(LIMITS);
        world.settle();
        world.declare(new JobStart("a"), request("a", "1", 1), request("a", "2", 1));
        // How many the controller looks at; by chance; how many were said; how long is waited, ms.
        double[][] rounds = {
            {0, 0, 3, 50}, {0, 0, 3, 100}, {0, 0, 3, 200}, {1, 0.9999, 3, 99}, {0, 0, 2, 100}, {1, 0, 2, 50}
        };
        for (double[] round : rounds) {
            List<Declaration> said = world.sends();
            assertEquals(round[2], said.size());
            world.session.answered(world.now, world.controller.declare(said, (int) round[0]), round[1]);
            long due = world.session.deadline();
            assertEquals(round[3], (due - world.now) / 1_000_000, "each longer, until something is taken again");
            assertEquals(Optional.empty(), world.session.poll(due - 1), "it is too soon");
            world.now = due;
        }
        world.settle();
        assertEquals(List.of(3L, 0L, 0L, 1L), world.counts());
    }

    /** What a controller that lies, or is of another kind, may answer: nothing is left out or counted. */
    @Test
    void anAnswerThatDoesNotAddUpIsALostConnection() {
        Refused one = new Refused(1, "f", "r", false);
        Refused two = new Refused(2, "f", "r", false);
        Refused far = new Refused(Long.MAX_VALUE, "f", "r", false);
        OptionalLong none = OptionalLong.empty();
        for (Outcome outcome : List.of(
                new Outcome(0, 1, List.of(), none),
                new Outcome(3, 1, List.of(), none),
                new Outcome(1, 1, List.of(two), none),
                new Outcome(1, 1, List.of(far), none),
                new Outcome(Long.MAX_VALUE, 1, List.of(one), none),
                new Outcome(0, 1, List.of(one, one), none),
                new Outcome(0, 1, List.of(one), OptionalLong.of(1)),
                new Outcome(2, 1, List.of(), OptionalLong.of(1)),
                new Outcome(3, 1, List.of(), OptionalLong.of(3)))) {
            World world = new World(LIMITS);
            world.settle();
            world.declare(new JobStart("a"), new JobStart("b"));
            assertEquals(2, world.sends().size());
            world.session.answered(world.now, outcome, 0);
            assertEquals(List.of(0L, 0L, 0L, 1L), world.counts(), outcome::toString);
            assertTrue(world.session.account().fault().orElseThrow().contains("add up"), outcome::toString);
            world.settle();
            assertEquals(List.of(2L, 0L, 0L, 2L), world.counts(), outcome::toString);
        }
    }

    @Test
    void samplesAreSaidOnceAndTheLastOfThoseThatWait() {
        World world = new World(LIMITS);
        world.declare(new JobStart("a"), request("a", "1", 1));
        // No controller to hear them.
        world.declare(sample("a", "1"));
        world.settle();
        assertEquals(2, world.session.account().taken());
        world.declare(sample("a", "1", "1"), sample("a", "9", "1"));
        assertEquals(List.of(sample("a", "1")), world.sends(), "without the flow that nobody requested");
        world.session.answered(world.now, new Outcome(1, 1, List.of(), OptionalLong.empty()), 0);
        world.lose();
        world.settle();
        assertEquals(3, world.session.account().taken());
    }

    @Test
    void aSessionWithNothingToSayKeepsItsConnection() {
        World world = new World(LIMITS);
        world.settle();
        assertEquals(Optional.empty(), world.session.poll(world.now));
        assertEquals(world.now + KEEP_ALIVE, world.session.deadline());
        world.now += KEEP_ALIVE;
        assertInstanceOf(Action.Health.class, world.session.poll(world.now).orElseThrow());
    }

    @Test
    void waitsGrowToFiveSecondsAndEndWithAnAnswer() {
        World world = new World(LIMITS);
        world.declare(new JobStart("a"));
        List<Long> waits = new ArrayList<>();
        for (double chance : new double[] {0, 0.9999, 0, 0, 0, 0, 0, 0.9999}) {
            world.session.lost(world.now, "cut", chance);
            waits.add((world.session.deadline() - world.now) / 1_000_000);
        }
        assertEquals(List.of(50L, 199L, 200L, 400L, 800L, 1600L, 2500L, 4999L), waits);
        world.settle();
        world.session.lost(world.now, "cut", 0);
        assertEquals(world.now + MILLISECONDS.toNanos(50), world.session.deadline());
    }

    @Test
    void theAccountSaysWhatWasRefusedAndDroppedAndWhyLast() {
        World world = new World(Limits.of(3));
        world.declare(new JobStart(UNWANTED_JOB), request(UNWANTED_JOB, "1", 1), new JobStart("a"));
        world.settle();
        world.declare(request(UNWANTED_JOB, "2", 1), request("a", "1", 1), request("a", "1", 2));
        assertEquals(List.of(1L, 2L, 2L, 1L), world.counts());
        assertEquals(Optional.of("dropped: its flow is open; complete it first"), world.session.account().fault());
    }

    /** Portions and samples take room as declarations do. */
    @Test
    void aLongDeclarationTakesMoreRoom() {
        World world = new World(Limits.of(10));
        Portion portion = new Portion(1, 1);
        world.declare(new JobStart("a"), new Size("a", 1, Collections.nCopies(9, portion)));
        assertEquals(1, world.session.account().dropped());
        world.declare(new Size("a", 1, Collections.nCopies(8, portion)), new TaskHost("a", 1, "h"));
        assertEquals(2, world.session.account().dropped());
        world.declare(new Size("a", 1, List.of(portion)), new TaskHost("a", 1, "h"));
        assertEquals(2, world.session.account().dropped(), "what is replaced makes room");
    }

    @Test
    void whatBelongsToAJobOfAnotherProcessIsSaidAgainUntilThatStarts() {
        World world = new World(LIMITS);
        world.settle();
        world.declare(new JobJoin("a"), new TaskHost("a", 1, "h"), request("a", "1", 1), request("a", "2", 1),
                sample("a", "1"));
        assertTrue(world.poll());
        world.declare(new FlowComplete("a", "2"), sample("a", "1"));
        assertEquals(Optional.empty(), world.session.poll(world.now), "it waits, and samples aren't for what waits");
        assertEquals(1, world.session.account().refused(), "the sample");
        long first = world.session.deadline() - world.now;
        world.now = world.session.deadline();
        assertTrue(world.poll());
        assertTrue(world.session.deadline() - world.now > first, "waits grow");
        world.controller.declare(List.of(new JobStart("a")), 1);
        world.settle();
        Declaration task = new TaskHost("a", 1, "h");
        assertEquals(Map.of("task 1", task, "flow 1", request("a", "1", 1)), world.controller.held.jobs().get("a"));
        // Of the job only what is this process's ends.
        world.declare(new JobComplete("a"));
        world.settle();
        assertEquals(Map.of("task 1", task), world.controller.held.jobs().get("a"));
        assertEquals(List.of(3L, 1L, 0L, 1L), world.counts());
        assertEquals(List.of(), world.session.holds());
    }

    /** What it says next, when it is due; its connection is kept meanwhile. */
    private static List<Declaration> next(World world) {
        while (true) {
            world.now = Math.max(world.now, world.session.deadline());
            Action action = world.session.poll(world.now).orElseThrow();
            if (action instanceof Action.Declare declare) {
                return declare.said();
            }
            world.session.healthy(world.now, world.controller.epoch);
        }
    }

    /** As where the process that starts jobs comes up a minute after those that work. */
    @Test
    void whatBelongsToAJobThatStartsLateIsTriedSeldomAndFollowsThen() {
        World world = new World(LIMITS);
        world.settle();
        List<Declaration> all = List.of(new TaskHost("a", 1, "h"), request("a", "1", 1), request("a", "2", 2));
        world.declare(new JobJoin("a"));
        all.forEach(world.session::declare);
        long begin = world.now;
        for (int requests = 0; world.session.account().later() < all.size(); requests++) {
            assertTrue(requests < 60, "too many requests");
            world.session.answered(world.now, world.controller.declare(next(world), 9), 0);
        }
        assertTrue(world.now - begin >= Session.LATE && world.now - begin < 2 * Session.LATE);
        for (Declaration one : all) {
            long before = world.now;
            List<Declaration> said = next(world);
            assertEquals(List.of(one), said, "one of them, in turn");
            // The wait began when the first of them was late.
            long waited = world.now - before;
            assertTrue(waited <= Session.SELDOM && waited > Session.SELDOM / 2, "they are tried seldom");
            world.session.answered(world.now, world.controller.declare(said, 9), 0);
        }
        assertEquals(List.of(0L, 0L, 0L, 1L), world.counts(), "nothing was given up");
        assertEquals(all.size(), world.session.account().later(), "each is counted once");
        world.declare(new FlowComplete("a", "1"));
        world.controller.declare(List.of(new JobStart("a")), 1);
        world.session.answered(world.now, world.controller.declare(next(world), 9), 0);
        long before = world.now;
        List<Declaration> rest = next(world);
        assertEquals(List.of(1, before), List.of(rest.size(), world.now), "what is left of it follows at once");
        world.session.answered(world.now, world.controller.declare(rest, 9), 0);
        assertTrue(world.session.isSettled());
        assertEquals(Map.of("task 1", all.get(0), "flow 2", all.get(2)), world.controller.held.jobs().get("a"));
        // Another controller is waited for as the first was.
        world.newController();
        world.now = world.session.deadline();
        assertTrue(world.poll() && world.poll() && world.poll());
        assertTrue(world.session.deadline() - world.now <= MILLISECONDS.toNanos(100), "the first wait is short");
    }

    /** What is wrong with one thing of a job tells that the job is there, too. */
    @Test
    void aJobThatIsLateIsThereWhereOneOfItsThingsIsRefusedForItself() {
        World world = new World(LIMITS);
        world.settle();
        world.declare(new JobJoin("a"), request("a", UNWANTED_FLOW, 1), request("a", "1", 1));
        long begin = world.now;
        while (world.now - begin < Session.LATE) {
            List<Declaration> said = next(world);
            List<Refused> refused = IntStream.range(0, said.size())
                    .mapToObj(index -> new Refused(index, "job", "has not started", false)).toList();
            world.session.answered(world.now, new Outcome(0, 1, refused, OptionalLong.empty()), 0);
        }
        world.controller.declare(List.of(new JobStart("a")), 1);
        world.settle();
        assertEquals(Map.of("flow 1", request("a", "1", 1)), world.controller.held.jobs().get("a"));
        assertEquals(1, world.session.account().refused());
    }

    @Test
    void aJobThatWasJoinedGivesItsRoomBack() {
        World world = new World(Limits.of(3));
        for (int round = 0; round < 3; round++) {
            world.declare(new JobJoin("a"), new JobJoin("a"), request("a", "1", 1), request("a", "2", 1));
            assertEquals(0, world.session.account().dropped());
            world.declare(new JobComplete("a"));
            assertEquals(0, world.session.waiting(), "nothing was said yet");
        }
        world.declare(new JobJoin("a"), new JobJoin("b"), new JobJoin("c"), new JobJoin("d"));
        assertEquals(1, world.session.account().dropped());
    }

    /** Two processes of one application: one starts the jobs that the other speaks of. */
    @Test
    void inTheEndTheControllerHoldsWhatAllProcessesOfTheApplicationDo() {
        for (int seed = 0; seed < 4_000; seed++) {
            Random random = new Random(seed);
            Controller controller = new Controller();
            World owner = new World(LIMITS, Integer.MAX_VALUE, controller);
            World member = new World(LIMITS, Integer.MAX_VALUE, controller);
            List<World> both = List.of(owner, member);
            member.declare(new JobJoin("a"), new JobJoin("b"));
            for (int steps = random.nextInt(150); steps > 0; steps--) {
                int draw = random.nextInt(24);
                World world = both.get(random.nextInt(2));
                if (draw < 2) {
                    owner.declare(new JobStart(random.nextBoolean() ? "a" : "b"));
                } else if (draw < 8) {
                    Declaration said = declaration(random, "a", "b");
                    if (!(said instanceof JobStart || said instanceof JobComplete)) {
                        member.declare(said);
                    }
                } else if (draw < 16) {
                    world.poll(Fate.any(random), random.nextInt(3));
                } else if (draw < 20) {
                    long span = MILLISECONDS.toNanos(random.nextInt(3_000));
                    both.forEach(each -> each.now += span);
                } else if (draw < 21) {
                    world.lose();
                } else if (draw < 22) {
                    owner.lose();
                    member.newController();
                } else {
                    correction(member.session, random).forEach(member.session::declare);
                }
            }
            owner.declare(new JobStart("a"), new JobStart("b"));
            owner.settle();
            member.settle();
            Held all = Held.of(owner.session);
            member.session.holds().forEach(said -> assertEquals(Optional.empty(), all.take(said)));
            assertEquals(all, controller.held, "seed " + seed);
        }
    }
}
