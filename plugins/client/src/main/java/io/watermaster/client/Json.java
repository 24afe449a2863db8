package io.watermaster.client;

import io.watermaster.client.Declaration.Endpoint;
import io.watermaster.client.Declaration.FlowComplete;
import io.watermaster.client.Declaration.FlowRequest;
import io.watermaster.client.Declaration.JobComplete;
import io.watermaster.client.Declaration.JobStart;
import io.watermaster.client.Declaration.JobTerms;
import io.watermaster.client.Declaration.Portion;
import io.watermaster.client.Declaration.Sample;
import io.watermaster.client.Declaration.Size;
import io.watermaster.client.Declaration.Streams;
import io.watermaster.client.Declaration.TaskHost;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

/** Declarations as JSON, and a reader of JSON that takes nothing but JSON, of bounded length and depth. */
final class Json {
    /** Longest text that is read, in octets. */
    static final int LONGEST = 1 << 20;
    /** How deep values may lie in one another. */
    static final int DEEPEST = 16;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /** A declaration in UTF-8. One that is never said has no form. */
    static byte[] write(Declaration declaration) {
        StringBuilder out = new StringBuilder(256).append("{\"type\":");
        if (declaration instanceof JobStart) {
            quote(out, "job_start");
        } else if (declaration instanceof JobTerms said) {
            quote(out, "job_terms");
            said.objective().ifPresent(name -> text(out, "objective", name));
            said.deadlineMillis().ifPresent(millis -> out.append(",\"deadline_ms\":").append(millis));
            said.weight().ifPresent(weight -> out.append(",\"weight\":").append(weight));
        } else if (declaration instanceof JobComplete) {
            quote(out, "job_complete");
        } else if (declaration instanceof TaskHost said) {
            quote(out, "task_host");
            out.append(",\"task\":").append(said.task());
            text(out, "host", said.host());
        } else if (declaration instanceof Size said) {
            quote(out, "size");
            out.append(",\"map\":").append(said.map()).append(",\"reduces\":[");
            String comma = "";
            for (Portion portion : said.reduces()) {
                out.append(comma).append("{\"task\":").append(portion.task());
                out.append(",\"bytes\":").append(portion.bytes()).append('}');
                comma = ",";
            }
            out.append(']');
        } else if (declaration instanceof FlowRequest said) {
            quote(out, "flow_request");
            text(out, "flow", said.flow());
            out.append(",\"connection\":{\"source\":");
            quote(out, socket(said.source()));
            text(out, "destination", socket(said.destination()));
            out.append('}');
            processes(out, said.source().pid(), said.destination().pid());
            said.bytes().ifPresent(bytes -> out.append(",\"bytes\":").append(bytes));
        } else if (declaration instanceof FlowComplete said) {
            quote(out, "flow_complete");
            text(out, "flow", said.flow());
        } else if (declaration instanceof Streams said) {
            quote(out, "streams");
            out.append(",\"samples\":[");
            String comma = "";
            for (Sample sample : said.samples()) {
                out.append(comma).append("{\"flow\":");
                quote(out, sample.flow());
                out.append(",\"delivered_bytes\":").append(sample.delivered());
                out.append(",\"sender_queue_bytes\":").append(sample.senderQueue());
                out.append(",\"receiver_queue_bytes\":").append(sample.receiverQueue()).append('}');
                comma = ",";
            }
            out.append(']');
        } else {
            throw new IllegalArgumentException(declaration + " is never said");
        }
        text(out, "job", declaration.job());
        return out.append('}').toString().getBytes(StandardCharsets.UTF_8);
    }

    private static void processes(StringBuilder out, OptionalLong source, OptionalLong destination) {
        if (source.isEmpty() && destination.isEmpty()) {
            return;
        }
        out.append(",\"processes\":{");
        source.ifPresent(pid -> out.append("\"source\":{\"pid\":").append(pid).append('}'));
        destination.ifPresent(pid -> out.append(source.isPresent() ? "," : "")
                .append("\"destination\":{\"pid\":").append(pid).append('}'));
        out.append('}');
    }

    private static String socket(Endpoint end) {
        boolean isSix = end.host().indexOf(':') >= 0;
        return isSix ? "[" + end.host() + "]:" + end.port() : end.host() + ":" + end.port();
    }

    private static void text(StringBuilder out, String name, String value) {
        out.append(",\"").append(name).append("\":");
        quote(out, value);
    }

    private static void quote(StringBuilder out, String value) {
        out.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /**
     * Reads one value: a {@link Map}, {@link List}, {@link String}, {@link Boolean}, null, a {@link Long} where the
     * number is one, or else a {@link Double}.
     *
     * @throws IOException it is no JSON, too long or too deep
     */
    static Object read(byte[] octets) throws IOException {
        if (octets.length > LONGEST) {
            throw new IOException("JSON of more than " + LONGEST + " octets");
        }
        // A decoder, unlike a String, refuses what is no UTF-8.
        Json reader = new Json(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(octets)).toString());
        Object value = reader.value();
        reader.space();
        if (reader.at < reader.text.length()) {
            throw reader.wrong();
        }
        return value;
    }

    private IOException wrong() {
        return new IOException("no JSON at character " + at);
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    /** The next character, which isn't taken; 0 at the end. */
    private char peek() {
        return at < text.length() ? text.charAt(at) : 0;
    }

    private boolean take(char wanted) {
        if (peek() != wanted) {
            return false;
        }
        at++;
        return true;
    }

    private void expect(String wanted) throws IOException {
        if (!text.startsWith(wanted, at)) {
            throw wrong();
        }
        at += wanted.length();
    }

    private Object value() throws IOException {
        if (++depth > DEEPEST) {
            throw new IOException("JSON deeper than " + DEEPEST);
        }
        space();
        Object value = switch (peek()) {
            case '{' -> object();
            case '[' -> list();
            case '"' -> string();
            case 't' -> literal("true", true);
            case 'f' -> literal("false", false);
            case 'n' -> literal("null", null);
            default -> number();
        };
        depth--;
        return value;
    }

    private Object literal(String word, Object value) throws IOException {
        expect(word);
        return value;
    }

    private Map<String, Object> object() throws IOException {
        Map<String, Object> members = new HashMap<>();
        at++;
        space();
        if (take('}')) {
            return members;
        }
        do {
            space();
            String name = string();
            space();
            expect(":");
            if (members.containsKey(name)) {
                throw new IOException("JSON with \"" + name + "\" twice");
            }
            members.put(name, value());
            space();
        } while (take(','));
        expect("}");
        return members;
    }

    private List<Object> list() throws IOException {
        List<Object> values = new ArrayList<>();
        at++;
        space();
        if (take(']')) {
            return values;
        }
        do {
            values.add(value());
            space();
        } while (take(','));
        expect("]");
        return values;
    }

    private String string() throws IOException {
        expect("\"");
        StringBuilder out = new StringBuilder();
        while (!take('"')) {
            char c = peek();
            if (c < ' ') {
                throw wrong();
            }
            at++;
            out.append(c == '\\' ? escaped() : c);
        }
        return out.toString();
    }

    private char escaped() throws IOException {
        char c = peek();
        at++;
        return switch (c) {
            case '"', '\\', '/' -> c;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> {
                int code = 0;
                for (int i = 0; i < 4; i++, at++) {
                    // Only the digits of ASCII are digits of JSON.
                    int digit = peek() < 0x80 ? Character.digit(peek(), 16) : -1;
                    if (digit < 0) {
                        throw wrong();
                    }
                    code = 16 * code + digit;
                }
                yield (char) code;
            }
            default -> throw wrong();
        };
    }

    private void digits() throws IOException {
        int from = at;
        while (peek() >= '0' && peek() <= '9') {
            at++;
        }
        if (at == from) {
            throw wrong();
        }
    }

    private Number number() throws IOException {
        int from = at;
        take('-');
        if (!take('0')) {
            digits();
        }
        boolean isWhole = true;
        if (take('.')) {
            isWhole = false;
            digits();
        }
        if (take('e') || take('E')) {
            isWhole = false;
            if (!take('+')) {
                take('-');
            }
            digits();
        }
        String number = text.substring(from, at);
        if (isWhole) {
            try {
                return Long.valueOf(number);
            } catch (NumberFormatException tooLong) {
                // As other readers do where a number has no exact form.
            }
        }
        return Double.valueOf(number);
    }
}
