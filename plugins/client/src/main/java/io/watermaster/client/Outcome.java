package io.watermaster.client;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * A controller's answer to declarations, each of which it looked at by itself, in their order.
 *
 * @param taken   how many were taken
 * @param epoch   the epoch of the controller that answers
 * @param refused those that were refused, in their order
 * @param rest    those from this index on were not looked at
 * @param reason  why they were not
 */
record Outcome(long taken, long epoch, List<Refused> refused, OptionalLong rest, Optional<String> reason) {
    /** Without a reason. */
    Outcome(long taken, long epoch, List<Refused> refused, OptionalLong rest) {
        this(taken, epoch, refused, rest, Optional.empty());
    }

    /**
     * A declaration that was refused.
     *
     * @param index  its place in the request, from 0
     * @param field  the field at fault
     * @param reason what is wrong with it
     * @param later  a limit was reached: once something has ended the same declaration may be taken
     */
    record Refused(long index, String field, String reason, boolean later) {}

    /** Reads an answer; what it has beyond that is left to later versions. */
    static Outcome read(byte[] json) throws IOException {
        Map<?, ?> answer = object(Json.read(json));
        List<Refused> refused = new ArrayList<>();
        Object list = answer.get("refused");
        if (list != null) {
            if (!(list instanceof List<?> entries)) {
                throw new IOException("the controller's answer has no list \"refused\"");
            }
            for (Object entry : entries) {
                Map<?, ?> said = object(entry);
                boolean later = Boolean.TRUE.equals(said.get("later"));
                refused.add(new Refused(number(said, "index"), string(said, "field"), string(said, "reason"), later));
            }
        }
        OptionalLong rest = answer.get("rest") == null ? OptionalLong.empty() : OptionalLong.of(number(answer, "rest"));
        Optional<String> reason =
                answer.get("reason") == null ? Optional.empty() : Optional.of(string(answer, "reason"));
        return new Outcome(number(answer, "taken"), number(answer, "epoch"), refused, rest, reason);
    }

    /** The epoch in an answer about the controller's health. */
    static long epoch(byte[] json) throws IOException {
        return number(object(Json.read(json)), "epoch");
    }

    /** What an answer that refuses a whole request says is wrong; empty where it can't be read. */
    static String problem(byte[] json) {
        try {
            Map<?, ?> error = object(object(Json.read(json)).get("error"));
            return ": " + string(error, "field") + ": " + string(error, "reason");
        } catch (IOException notFromAController) {
            return "";
        }
    }

    private static Map<?, ?> object(Object value) throws IOException {
        if (value instanceof Map<?, ?> members) {
            return members;
        }
        throw new IOException("the controller's answer has something else than an object");
    }

    private static long number(Map<?, ?> members, String name) throws IOException {
        if (members.get(name) instanceof Long value && value >= 0) {
            return value;
        }
        throw new IOException("the controller's answer has no number \"" + name + "\"");
    }

    private static String string(Map<?, ?> members, String name) throws IOException {
        if (members.get(name) instanceof String value) {
            // It may end up in a log.
            return value.length() > 500 ? value.substring(0, 500) : value;
        }
        throw new IOException("the controller's answer has no text \"" + name + "\"");
    }
}
