package io.watermaster.client;

import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobJoin;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.JobTerms;
import io.watermaster.client.Declaration.Sample;
import io.watermaster.client.Declaration.Size;
import io.watermaster.client.Declaration.Streams;
import io.watermaster.client.Declaration.TaskHost;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;

/**
 * An application's end of the northbound interface, without I/O: what happens goes in, what to ask the controller comes
 * out. Time, in nanoseconds from any beginning, and chance, from 0 up to 1, are arguments. One request is under way at
 * a time. One thread uses it.
 *
 * <ul>
 * <li>What holds (jobs, their terms, tasks and sizes, open flows) is said again, in its order, on every new connection and to
 * every controller with another epoch. Samples are not said again; of those that wait, the last of a job counts.
 * <li>A job that had started and that a refusal says has not ({@code job}) is one that the controller has forgotten, as
 * an operator may have it do: all is said again.
 * <li>All is said again on one connection after a wait, which is longer each time until it wasn't for {@link #QUIET}: a
 * controller that lies, or two behind one address, are asked no more often than one that is gone.
 * <li>What ends before it was said is never said. An end that the controller refuses is one: it had forgotten.
 * <li>What does not fit into {@link Limits#room} is dropped and counted, and so is whatever refers to it. Ends of what
 * holds always fit: each takes the place of what ended. That of a job that is not known here, such as one from a process
 * before, is left out without being counted where there is no room.
 * <li>A refused declaration is left out and counted; a refused job with all of its own.
 * <li>What may be taken later is parked: it holds, and is said again after growing waits, behind what is new and in
 * turn, a request at a time. What belongs to a job that is parked waits until that is taken. What ended or was replaced
 * in the meantime is not said again; a new connection hears all of it at once.
 * <li>What was refused because another process has not started its job is parked as well. After {@link #LATE} of these
 * refusals it holds on, and one thing of the job is said each {@link #SELDOM}, in turn; the rest follows when one is
 * taken.
 * <li>Too fast: what the controller didn't look at waits.
 * <li>A request that is too long or can't be read is halved until it is a single declaration, which is then left out as
 * refused; after it requests grow again.
 * <li>Any other answer counts as a lost connection.
 * </ul>
 */
final class Session {
    /** Something is asked at least so often: a controller closes connections that are silent for longer. */
    static final long KEEP_ALIVE = 20_000_000_000L;
    /** A job that another process has not started so long after the first refusal is late. */
    static final long LATE = 30_000_000_000L;
    /** A job that is late is tried so often. */
    static final long SELDOM = 30_000_000_000L;
    /** Where all wasn't said again on one connection for so long, the wait before the next time is short. */
    private static final long QUIET = 30_000_000_000L;
    /** Later than any time. */
    static final long NEVER = Long.MAX_VALUE;
    /** Earlier than any time. */
    private static final long ANY_TIME = Long.MIN_VALUE;

    /**
     * What bounds a session.
     *
     * @param room         what holds or waits: declarations, and each portion and sample in them
     * @param declarations in a request
     * @param octets       of a request; a single declaration may be longer
     */
    record Limits(int room, int declarations, int octets) {
        /** Requests of what a controller takes unless it is told otherwise, and half of its octets. */
        static Limits of(int room) {
            return new Limits(room, 1000, 512 << 10);
        }
    }

    /** What to do next. */
    sealed interface Action {
        /** Open a connection, in place of the one there may be; then say {@code connected} or {@code lost}. */
        record Connect() implements Action {}

        /** Ask for {@code /v1/health}; then say {@code healthy} or {@code lost}. */
        record Health() implements Action {}

        /**
         * Send declarations; then say {@code answered}, {@code refused} or {@code lost}.
         *
         * @param said the declarations
         * @param body the same as a list in JSON
         */
        record Declare(List<Declaration> said, byte[] body) implements Action {}
    }

    private enum State {
        LOST,
        CONNECTING,
        /** Nothing is under way. */
        IDLE,
        ASKED,
        DECLARED
    }

    private enum Kind { START, TERMS, TASK, SIZE, FLOW, SAMPLE }

    /** A thing of a job that holds: its number or name tells those of a kind apart. */
    private record Thing(Kind kind, Object id) {
        static final Thing START = new Thing(Kind.START, "");
        static final Thing TERMS = new Thing(Kind.TERMS, "");
        static final Thing SAMPLE = new Thing(Kind.SAMPLE, "");
    }

    private static final class Job {
        /** The entries of what holds. */
        final Map<Thing, Long> things = new HashMap<>();
        /** Another process starts it. */
        final boolean joined;
        /** When something was first refused for want of it. */
        long missing = NEVER;

        Job(boolean joined) {
            this.joined = joined;
        }
    }

    private static final class Entry {
        final Declaration declaration;
        /** The number that what it says began with: what corrects it has a later one. */
        long first;
        /** It is in the account as taken. */
        boolean counted;
        /** It is in the account as what may be taken later. */
        boolean later;

        Entry(Declaration declaration, long first) {
            this.declaration = declaration;
            this.first = first;
        }
    }

    private final Limits limits;
    /** What holds, and ends and samples that wait, by number in the order in which they are said. */
    private final NavigableMap<Long, Entry> entries = new TreeMap<>();
    /** What holds and is not said for now. */
    private final NavigableMap<Long, Entry> parked = new TreeMap<>();
    /** What holds of jobs that the controller doesn't know: their start is parked, or they are late. */
    private final NavigableMap<Long, Entry> behind = new TreeMap<>();
    private final Map<String, Job> jobs = new HashMap<>();
    /** Room that is taken. */
    private long taken;
    /** The number of the next entry. */
    private long next;
    /** Entries below were answered on this connection. */
    private long answered;
    /** Entries below may be known to the controller of {@link #epoch}. */
    private long said;
    /** Null before the first controller. */
    private Long epoch;
    /** A request was never answered: the next controller may be the one that took it. */
    private boolean doubt;
    private State state = State.LOST;
    /** What is under way. */
    private List<Map.Entry<Long, Entry>> underWay = List.of();
    /** Whether the controller has told its epoch on this connection. */
    private boolean greeted;
    /** Most declarations in the next request. */
    private int batch;
    /** Nothing is asked before. */
    private long until;
    /** What is parked is not said again before; {@link #ANY_TIME} where nothing was refused since it was. */
    private long again = ANY_TIME;
    /** Jobs that are late are tried then; {@link #NEVER} where none waits for that. */
    private long trial = NEVER;
    /** The last answer. */
    private long heard;
    private final Backoff backoff = new Backoff();
    private final Backoff parking = new Backoff();
    private final Backoff repeating = new Backoff();
    /** When all was last to be said again on one connection. */
    private long repeated;

    private long countTaken;
    private long countRefused;
    private long countLater;
    private long countDropped;
    private long countConnections;
    private long faults;
    private Optional<String> fault = Optional.empty();

    /** Without a connection, which it wants at once. */
    Session(Limits limits) {
        this.limits = limits;
        this.batch = limits.declarations();
    }

    /** What became of all that was declared. */
    Account account() {
        return new Account(countTaken, countRefused, countLater, countDropped, countConnections, fault);
    }

    /** How often something went wrong. */
    long faults() {
        return faults;
    }

    /** What holds, in the order in which it is said: jobs, their tasks and sizes, open flows. */
    List<Declaration> holds() {
        List<Declaration> held = new ArrayList<>();
        for (NavigableMap<Long, Entry> some : List.of(entries, parked, behind)) {
            for (Entry entry : some.values()) {
                Thing thing = thing(entry.declaration);
                if (thing != null && thing.kind != Kind.SAMPLE) {
                    held.add(entry.declaration);
                }
            }
        }
        return held;
    }

    /** Declarations that wait for a controller's answer, or to be said again. */
    int waiting() {
        return entries.tailMap(answered).size() + parked.size() + behind.size();
    }

    /** Whether the controller has answered all there is to say, and takes nothing later. */
    boolean isSettled() {
        return state == State.IDLE && greeted && !isWaiting() && parked.isEmpty() && behind.isEmpty();
    }

    private boolean isWaiting() {
        return entries.ceilingKey(answered) != null;
    }

    /** When to {@link #poll} although nothing happens; {@link #NEVER}: an answer is due first. */
    long deadline() {
        return switch (state) {
            case LOST -> until;
            case IDLE -> !greeted || isWaiting() ? until
                    : Math.min(heard + KEEP_ALIVE, Math.max(until, Math.min(trial, parked.isEmpty() ? NEVER : again)));
            case CONNECTING, ASKED, DECLARED -> NEVER;
        };
    }

    /** What to do now; empty: nothing. */
    Optional<Action> poll(long now) {
        if (deadline() > now) {
            return Optional.empty();
        }
        if (state == State.LOST) {
            state = State.CONNECTING;
            return Optional.of(new Action.Connect());
        }
        if (greeted && again <= now && !parked.isEmpty()) {
            unpark();
        }
        if (greeted && trial <= now) {
            tryLate();
        }
        if (!greeted || !isWaiting()) {
            state = State.ASKED;
            return Optional.of(new Action.Health());
        }
        List<Map.Entry<Long, Entry>> sent = new ArrayList<>();
        List<Declaration> declarations = new ArrayList<>();
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        for (Map.Entry<Long, Entry> waits : entries.tailMap(answered).entrySet()) {
            Declaration declaration = waits.getValue().declaration;
            byte[] json = Json.write(declaration);
            boolean isFull = sent.size() == batch || body.size() + json.length + 2 > limits.octets();
            if (isFull && !sent.isEmpty()) {
                break;
            }
            body.write(sent.isEmpty() ? '[' : ',');
            body.writeBytes(json);
            sent.add(Map.entry(waits.getKey(), waits.getValue()));
            declarations.add(declaration);
        }
        body.write(']');
        underWay = sent;
        said = Math.max(said, afterSent());
        state = State.DECLARED;
        return Optional.of(new Action.Declare(declarations, body.toByteArray()));
    }

    private long afterSent() {
        return underWay.get(underWay.size() - 1).getKey() + 1;
    }

    /** A connection stands: all that holds is said again. */
    void connected(long now) {
        state = State.IDLE;
        greeted = false;
        sayAllAgain();
        batch = Math.max(limits.declarations(), 1);
        until = now;
        countConnections++;
    }

    /** The connection broke or could not be made, or an answer is missing or can't be understood: {@code why}. */
    void lost(long now, String why, double chance) {
        note(why);
        doubt |= state == State.DECLARED;
        state = State.LOST;
        until = now + backoff.take(chance);
        for (Job job : jobs.values()) {
            Long number = job.things.remove(Thing.SAMPLE);
            if (number != null) {
                remove(number);
            }
        }
    }

    /** The answer to {@link Action.Health}: the controller works, and this is its epoch. */
    void healthy(long now, long itsEpoch) {
        if (state == State.ASKED) {
            state = State.IDLE;
            heard = now;
            greeted = true;
            meet(itsEpoch, 0);
        }
    }

    /**
     * A controller of another epoch knows nothing but what was just said to it, entries below {@code justSaid}, or was
     * said in a request without an answer, or by a process before this one.
     */
    private void meet(long itsEpoch, long justSaid) {
        boolean mayKnow = doubt || epoch == null;
        doubt = false;
        if (epoch != null && epoch == itsEpoch) {
            return;
        }
        epoch = itsEpoch;
        sayAllAgain();
        if (!mayKnow) {
            taken -= entries.size();
            entries.values().removeIf(entry -> isEnd(entry.declaration));
            // An end weighs one.
            taken += entries.size();
            said = justSaid;
        }
    }

    /** The answer to {@link Action.Declare}: what became of each declaration. */
    void answered(long now, Outcome outcome, double chance) {
        if (state != State.DECLARED) {
            return;
        }
        long lookedAt = outcome.rest().orElse(underWay.size());
        Map<Long, Outcome.Refused> refused = new HashMap<>();
        boolean addsUp = lookedAt <= underWay.size();
        for (Outcome.Refused refusal : outcome.refused()) {
            addsUp &= refusal.index() < lookedAt && refused.put(refusal.index(), refusal) == null;
        }
        if (!addsUp || outcome.taken() != lookedAt - refused.size()) {
            lost(now, "the controller's answer doesn't add up", chance);
            return;
        }
        state = State.IDLE;
        heard = now;
        // By one: where the controller takes fewer than the limits say, few requests are too long again.
        batch = Math.min(batch + 1, Math.max(limits.declarations(), 1));
        // Another controller doesn't know what a refused declaration refers to.
        boolean isOther = epoch == null || epoch != outcome.epoch();
        boolean hasForgotten = false;
        for (int index = 0; index < lookedAt; index++) {
            Outcome.Refused refusal = refused.get((long) index);
            long number = underWay.get(index).getKey();
            if (refusal == null) {
                settle(number, underWay.get(index).getValue());
            } else if (!isOther) {
                boolean isForgotten = refusal.field().equals("job") && !refusal.later() && hasStarted(number);
                hasForgotten |= isForgotten;
                // What holds of it is said again with its job.
                if (!isForgotten || !holdsBy(number)) {
                    refuse(now, number, refusal, chance);
                }
            }
        }
        if (again == ANY_TIME) {
            parking.reset();
        }
        if (outcome.rest().isPresent()) {
            until = now + backoff.take(chance);
            outcome.reason().ifPresent(why -> note("the controller looks at no more for now: " + why));
        }
        meet(outcome.epoch(), afterSent());
        if (hasForgotten) {
            sayAllAgain();
        }
        if (isOther || hasForgotten) {
            if (now - repeated > QUIET) {
                repeating.reset();
            }
            repeated = now;
            until = Math.max(until, now + repeating.take(chance));
        }
    }

    /** Whether the controller has taken the start of the job that an entry belongs to, before this entry. */
    private boolean hasStarted(long number) {
        Entry entry = entries.get(number);
        Job job = entry == null ? null : jobs.get(entry.declaration.job());
        Long start = job == null ? null : job.things.get(Thing.START);
        return start != null && start < number && entries.containsKey(start);
    }

    /** Whether something holds by an entry, which is neither an end nor a sample. */
    private boolean holdsBy(long number) {
        Entry entry = entries.get(number);
        Thing thing = entry == null ? null : thing(entry.declaration);
        return thing != null && thing.kind != Kind.SAMPLE;
    }

    /** The answer to {@link Action.Declare}: an HTTP {@code status} that refuses the whole request, and why. */
    void refused(long now, int status, String problem, double chance) {
        if (state != State.DECLARED) {
            return;
        }
        String why = "the controller answers " + status + problem;
        if (status != 400 && status != 413) {
            // It has taken nothing, so there is no doubt.
            state = State.IDLE;
            lost(now, why, chance);
            return;
        }
        state = State.IDLE;
        heard = now;
        if (underWay.size() == 1) {
            leaveOut(underWay.get(0).getKey(), why);
        } else {
            batch = underWay.size() / 2;
        }
    }

    /** An entry was taken. */
    private void settle(long number, Entry entry) {
        answered = number + 1;
        backoff.reset();
        countTaken += entry.counted ? 0 : 1;
        entry.counted = true;
        if (!entries.containsKey(number)) {
            // It ended in the meantime, which is said next.
            return;
        }
        Thing thing = thing(entry.declaration);
        if (thing == null) {
            remove(number);
            return;
        }
        Job job = jobs.get(entry.declaration.job());
        if (thing.kind == Kind.SAMPLE) {
            job.things.remove(thing);
            remove(number);
        }
        job.missing = NEVER;
        follow(job);
    }

    private void refuse(long now, long number, Outcome.Refused refusal, double chance) {
        Entry entry = entries.get(number);
        Thing thing = entry == null ? null : thing(entry.declaration);
        Job job = thing == null ? null : jobs.get(entry.declaration.job());
        boolean isMissing = job != null && job.joined && thing.kind != Kind.START && refusal.field().equals("job");
        if (isMissing) {
            job.missing = Math.min(job.missing, now);
        } else if (job != null && job.missing != NEVER) {
            // It is there, whatever is wrong with this.
            job.missing = NEVER;
            follow(job);
        }
        boolean holds = holdsBy(number);
        String why = "the controller refuses " + refusal.field() + ": " + refusal.reason();
        if (holds && isMissing && now - job.missing < LATE) {
            park(now, number, chance);
        } else if (holds && (isMissing || refusal.later())) {
            note(why);
            countLater += entry.later ? 0 : 1;
            entry.later = true;
            if (isMissing) {
                answered = number + 1;
                backoff.reset();
                behind.put(number, entries.remove(number));
                trial = Math.min(trial, now + SELDOM);
            } else {
                park(now, number, chance);
            }
        } else {
            leaveOut(number, why);
        }
    }

    /** Parks what holds by an entry. */
    private void park(long now, long number, double chance) {
        answered = number + 1;
        backoff.reset();
        Entry entry = entries.remove(number);
        if (thing(entry.declaration).kind == Kind.START) {
            Job job = jobs.get(entry.declaration.job());
            // Samples are of flows that are known.
            Long sample = job.things.remove(Thing.SAMPLE);
            if (sample != null) {
                remove(sample);
            }
            for (long of : job.things.values()) {
                Entry other = entries.containsKey(of) ? entries.remove(of) : parked.remove(of);
                if (other != null) {
                    behind.put(of, other);
                }
            }
        }
        parked.put(number, entry);
        if (again == ANY_TIME) {
            again = now + parking.take(chance);
        }
    }

    /** All that holds waits, what was parked last. */
    private void sayAllAgain() {
        answered = 0;
        again = ANY_TIME;
        trial = NEVER;
        jobs.values().forEach(job -> job.missing = NEVER);
        // A job before what belongs to it.
        parked.values().forEach(this::sayLast);
        parked.clear();
        behind.values().forEach(this::sayLast);
        behind.clear();
    }

    /** What is parked waits, after all else: as much as the next request has room for. */
    private void unpark() {
        long waiting = entries.tailMap(answered).keySet().stream().limit(batch).count();
        for (; waiting < batch && !parked.isEmpty(); waiting++) {
            again = ANY_TIME;
            sayLast(parked.pollFirstEntry().getValue());
        }
    }

    /** Of each job that is late one thing waits: in turn, for what is said again is the last of its job. */
    private void tryLate() {
        trial = NEVER;
        jobs.forEach((name, job) -> {
            if (job.missing != NEVER && !isParked(name)) {
                Optional<Long> first = job.things.values().stream().filter(behind::containsKey).min(Long::compare);
                first.ifPresent(number -> sayLast(behind.remove(number)));
            }
        });
    }

    /** What belongs to a job waits, for the controller knows it. */
    private void follow(Job job) {
        if (behind.isEmpty()) {
            return;
        }
        for (Long number : job.things.values().stream().sorted().toList()) {
            Entry entry = behind.remove(number);
            if (entry != null) {
                sayLast(entry);
            }
        }
    }

    /** What was parked, or behind what was, waits after all else. It was refused, so that nothing of it is known. */
    private void sayLast(Entry entry) {
        jobs.get(entry.declaration.job()).things.put(thing(entry.declaration), next);
        entry.first = next;
        entries.put(next++, entry);
    }

    /** Whether the start of a job is parked. */
    private boolean isParked(String name) {
        Job job = jobs.get(name);
        Long start = job == null ? null : job.things.get(Thing.START);
        return start != null && parked.containsKey(start);
    }

    /** Leaves out an entry that the controller refused. */
    private void leaveOut(long number, String why) {
        answered = number + 1;
        backoff.reset();
        Declaration declaration = entries.containsKey(number) ? remove(number) : null;
        // It may have ended in the meantime, or waits for its job; or the controller had forgotten what ends.
        Thing thing = declaration == null ? null : thing(declaration);
        if (thing == null) {
            return;
        }
        note(why);
        countRefused++;
        if (thing.kind == Kind.START) {
            Job job = jobs.remove(declaration.job());
            job.things.remove(thing);
            countRefused += forget(job);
        } else {
            jobs.get(declaration.job()).things.remove(thing);
        }
    }

    /** The application declares something. */
    void declare(Declaration declaration) {
        if (declaration instanceof JobComplete end) {
            completeJob(end);
        } else if (declaration instanceof FlowComplete end) {
            Job job = jobs.get(end.job());
            Long number = job == null ? null : job.things.remove(new Thing(Kind.FLOW, end.flow()));
            if (number != null) {
                boolean wasSaid = wasSaid(number);
                remove(number);
                if (wasSaid) {
                    enter(end);
                }
            }
        } else if (declaration instanceof JobJoin join) {
            if (jobs.containsKey(join.job())) {
                return;
            }
            if (fits(weight(join))) {
                taken += weight(join);
                jobs.put(join.job(), new Job(true));
            } else {
                drop("more declarations than the client holds");
            }
        } else if (declaration instanceof Streams streams) {
            // One flow that isn't known would have the controller refuse the samples of all.
            Job job = jobs.get(streams.job());
            List<Sample> known = new ArrayList<>(streams.samples());
            known.removeIf(sample -> {
                Long number = job == null ? null : job.things.get(new Thing(Kind.FLOW, sample.flow()));
                return number == null || !entries.containsKey(number);
            });
            if (!known.isEmpty() && state != State.LOST && state != State.CONNECTING) {
                hold(new Streams(streams.job(), known), Thing.SAMPLE);
            }
        } else {
            hold(declaration, thing(declaration));
        }
    }

    private void completeJob(JobComplete end) {
        Job job = jobs.remove(end.job());
        if (job == null) {
            // A process before this one may have started it.
            if (fits(weight(end))) {
                enter(end);
            }
            return;
        }
        Long start = job.things.get(Thing.START);
        boolean wasSaid = start != null && wasSaid(start);
        List<Declaration> ends = new ArrayList<>();
        if (wasSaid) {
            ends.add(end);
        } else if (start == null) {
            // The job goes on without what this process has of it.
            job.things.forEach((thing, number) -> {
                if (thing.kind == Kind.FLOW && wasSaid(number)) {
                    ends.add(new FlowComplete(end.job(), (String) thing.id));
                }
            });
        }
        forget(job);
        ends.forEach(this::enter);
    }

    /** Whether the controller may know what holds by an entry, if not with what that says now. */
    private boolean wasSaid(long number) {
        Entry entry = entries.get(number);
        return entry != null && entry.first < said;
    }

    /** Whether a flow is one of before with another size. All else replaces what was said before. */
    private static boolean corrects(Declaration now, Declaration before) {
        return !(now instanceof FlowRequest one) || before instanceof FlowRequest other
                && one.source().equals(other.source()) && one.destination().equals(other.destination());
    }

    /** What holds from now on, in place of what held before. */
    private void hold(Declaration declaration, Thing thing) {
        Job job = jobs.get(declaration.job());
        Long before = job == null ? null : job.things.get(thing);
        Entry replaced = before == null ? null
                : entries.getOrDefault(before, parked.getOrDefault(before, behind.get(before)));
        if (replaced != null && replaced.declaration.equals(declaration)) {
            return;
        }
        if (job == null && thing.kind != Kind.START) {
            drop("its job has not started, or was refused");
        } else if (replaced != null && !corrects(declaration, replaced.declaration)) {
            drop("its flow is open; complete it first");
        } else if (!fits(weight(declaration) - (replaced == null ? 0 : weight(replaced.declaration)))) {
            drop("more declarations than the client holds");
        } else {
            // What is parked was refused, so that nothing of it is known.
            long first = before != null && entries.containsKey(before) ? replaced.first : next;
            if (replaced != null) {
                remove(before);
            }
            jobs.computeIfAbsent(declaration.job(), name -> new Job(false)).things.put(thing, next);
            enter(declaration, first);
        }
    }

    /** Something could not be declared: {@code why}. */
    void drop(String why) {
        countDropped++;
        note("dropped: " + why);
    }

    private void note(String why) {
        faults++;
        fault = Optional.of(why);
    }

    private boolean fits(long weight) {
        return taken + weight <= limits.room();
    }

    private void enter(Declaration declaration) {
        enter(declaration, next);
    }

    private void enter(Declaration declaration, long first) {
        boolean waits = thing(declaration) != null && isParked(declaration.job());
        (waits ? behind : entries).put(next++, new Entry(declaration, first));
        taken += weight(declaration);
    }

    /** Takes an entry out, wherever it is; null where it isn't there any more. */
    private Declaration remove(long number) {
        Entry entry = entries.remove(number);
        if (entry == null) {
            entry = behind.remove(number);
        }
        if (entry == null) {
            entry = parked.remove(number);
            if (entry != null && parked.isEmpty()) {
                again = ANY_TIME;
                parking.reset();
            }
        }
        if (entry == null) {
            return null;
        }
        taken -= weight(entry.declaration);
        return entry.declaration;
    }

    /** Takes out all that a job holds; how much it was. */
    private int forget(Job job) {
        job.things.values().forEach(this::remove);
        taken -= job.joined ? 1 : 0;
        return job.things.size();
    }

    /** The room that a declaration takes. */
    static int weight(Declaration declaration) {
        if (declaration instanceof Size size) {
            return 1 + size.reduces().size();
        }
        return declaration instanceof Streams streams ? 1 + streams.samples().size() : 1;
    }

    /** Whether a declaration ends something. */
    static boolean isEnd(Declaration declaration) {
        return declaration instanceof JobComplete || declaration instanceof FlowComplete;
    }

    /** What of its job a declaration says; null: that something ends. */
    private static Thing thing(Declaration declaration) {
        if (declaration instanceof JobStart) {
            return Thing.START;
        } else if (declaration instanceof JobTerms) {
            return Thing.TERMS;
        } else if (declaration instanceof TaskHost said) {
            return new Thing(Kind.TASK, said.task());
        } else if (declaration instanceof Size said) {
            return new Thing(Kind.SIZE, said.map());
        } else if (declaration instanceof FlowRequest said) {
            return new Thing(Kind.FLOW, said.flow());
        }
        return declaration instanceof Streams ? Thing.SAMPLE : null;
    }
}
