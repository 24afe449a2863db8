package io.watermaster.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

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
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The JSON form is a promise between programs: it is spelt out here. */
class JsonTest {
    private static final String CHANGES = "{}[]\",:\\u0-.e \u00ff";

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Object read(String text) throws IOException {
        return Json.read(utf8(text));
    }

    @Test
    void declarations() throws IOException {
        Endpoint four = new Endpoint("10.0.0.1", 13562);
        Endpoint six = new Endpoint("::1", 0);
        assertEquals(read("{\"type\":\"job_terms\",\"job\":\"a\",\"objective\":\"b\",\"deadline_ms\":9,\"weight\":3}"),
                Json.read(Json.write(
                        new JobTerms("a", Optional.of("b"), OptionalLong.of(9), OptionalInt.of(3)))));
        assertEquals(read("{\"type\":\"job_terms\",\"job\":\"a\"}"), Json.read(Json.write(
                new JobTerms("a", Optional.empty(), OptionalLong.empty(), OptionalInt.empty()))));
        Map<Declaration, String> forms = Map.of(
                new JobStart("sort-1"), "{'type':'job_start','job':'sort-1'}",
                new TaskHost("sort-1", 4, "h0"), "{'type':'task_host','job':'sort-1','task':4,'host':'h0'}",
                new Size("sort-1", 4, List.of(new Portion(9, 1000), new Portion(10, 0))),
                "{'type':'size','job':'sort-1','map':4,'reduces':[{'task':9,'bytes':1000},{'task':10,'bytes':0}]}",
                new Size("sort-1", 4, List.of()), "{'type':'size','job':'sort-1','map':4,'reduces':[]}",
                new FlowRequest("sort-1", "r<-m", four, new Endpoint("10.0.0.2", 0), OptionalLong.of(1000)),
                "{'type':'flow_request','job':'sort-1','flow':'r<-m','bytes':1000,"
                        + "'connection':{'source':'10.0.0.1:13562','destination':'10.0.0.2:0'}}",
                new FlowRequest("sort-1", "8", four, new Endpoint("10.0.0.2", 0, OptionalLong.of(71)), OptionalLong.empty()),
                "{'type':'flow_request','job':'sort-1','flow':'8','processes':{'destination':{'pid':71}},"
                        + "'connection':{'source':'10.0.0.1:13562','destination':'10.0.0.2:0'}}",
                new FlowRequest("tt", "7", six, six, OptionalLong.empty()),
                "{'type':'flow_request','job':'tt','flow':'7',"
                        + "'connection':{'source':'[::1]:0','destination':'[::1]:0'}}",
                new FlowComplete("sort-1", "7"), "{'type':'flow_complete','job':'sort-1','flow':'7'}",
                new Streams("tt", List.of(new Sample("7", 1, 2, 3))),
                "{'type':'streams','job':'tt','samples':[{'flow':'7','delivered_bytes':1,"
                        + "'sender_queue_bytes':2,'receiver_queue_bytes':3}]}",
                new JobComplete("sort-1"), "{'type':'job_complete','job':'sort-1'}");
        for (Map.Entry<Declaration, String> form : forms.entrySet()) {
            assertEquals(read(form.getValue().replace('\'', '"')), Json.read(Json.write(form.getKey())));
        }
    }

    @Test
    void anyTextComesBackAsItWas() throws IOException {
        Random random = new Random(1);
        for (int i = 0; i < 2_000; i++) {
            StringBuilder text = new StringBuilder();
            for (int length = random.nextInt(20); length > 0; length--) {
                int point = random.nextInt(4) == 0 ? random.nextInt(0x110000) : random.nextInt(0x80);
                text.appendCodePoint(point >= 0xd800 && point < 0xe000 ? '?' : point);
            }
            Map<?, ?> back = (Map<?, ?>) Json.read(Json.write(new JobStart(text.toString())));
            assertEquals(text.toString(), back.get("job"));
        }
        // Half of a pair has no form in UTF-8.
        assertEquals("?", ((Map<?, ?>) Json.read(Json.write(new JobStart("\ud83d")))).get("job"));
    }

    @Test
    void whatIsJsonIsRead() throws IOException {
        assertEquals(
                Arrays.asList(1L, -0L, Long.MAX_VALUE, 1e30, 0.5, -12e-1, true, false, null, "", List.of(), Map.of()),
                read(" [1, -0, 9223372036854775807, 1000000000000000000000000000000, 0.5, -12E-1,"
                        + "true,false,null,\"\",[ ],{ }]\t\r\n"));
        assertEquals(Map.of("a\"\\/\b\f\n\r\t\u00e4", "\ud83d\ude00"),
                read("{\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00E4\" : \"\\ud83d\\uDE00\"}"));
        assertEquals(nested(Json.DEEPEST - 1), read("[".repeat(Json.DEEPEST) + "]".repeat(Json.DEEPEST)));
    }

    private static Object nested(int depth) {
        return depth == 0 ? List.of() : List.of(nested(depth - 1));
    }

    @Test
    void whatIsNoJsonIsRefused() {
        List<byte[]> wrong = new ArrayList<>();
        for (String text : List.of("", " ", "{", "[", "\"", "[1", "[1,", "[1,]", "[,]", "{,}", "{\"a\"}", "{\"a\":}",
                "{\"a\":1,}", "{a:1}", "{'a':1}", "{\"a\":1,\"a\":1}", "1 2", "[]]", "tru", "True", "nul", "NaN",
                "Infinity", "-", "+1", "01", "1.", ".5", "1e", "1e+", "0x1", "--1", "\"\n\"", "\"\\x\"", "\"\\u12\"",
                "\"\\u12g4\"", "\"\\u-123\"", "\"\\u\uff11\uff11\uff11\uff11\"", "\"\\", "\"\\u", "\ufeff1", "\u00a01",
                "// 1", "\u0000",
                "[".repeat(Json.DEEPEST + 1) + "]".repeat(Json.DEEPEST + 1), "[".repeat(1_000_000))) {
            wrong.add(utf8(text));
        }
        wrong.add(new byte[] {'"', (byte) 0xff, '"'});
        wrong.add(new byte[] {'"', (byte) 0xc0, (byte) 0x80, '"'});
        wrong.add(utf8(" ".repeat(Json.LONGEST) + "1"));
        for (byte[] text : wrong) {
            assertThrows(IOException.class, () -> Json.read(text),
                    () -> new String(text, 0, Math.min(text.length, 50), StandardCharsets.UTF_8));
        }
    }

    /** Whatever comes, the reader ends, with a value or an IOException. */
    @Test
    void garbageIsReadToAnEnd() {
        Random random = new Random(2);
        Sample sample = new Sample("7", 1, 2, 3);
        byte[] good = Json.write(new Streams("tt\u00e4\"", List.of(sample, sample)));
        for (int i = 0; i < 20_000; i++) {
            byte[] text = Arrays.copyOf(good, random.nextInt(good.length + 1));
            for (int change = random.nextInt(4); change > 0 && text.length > 0; change--) {
                text[random.nextInt(text.length)] = (byte) CHANGES.charAt(random.nextInt(CHANGES.length()));
            }
            try {
                Json.read(text);
            } catch (IOException expected) {
                // It was no JSON.
            }
        }
    }

    @Test
    void answers() throws IOException {
        Outcome outcome = Outcome.read(utf8("{\"taken\": 3, \"epoch\": 7, \"later\": {}, \"rest\": 5,"
                + "\"refused\": [{\"index\": 1, \"field\": \"host\", \"reason\": \"unknown\"},"
                + "{\"index\": 2, \"field\": \"flow\", \"reason\": \"many\", \"later\": true}]}"));
        List<Outcome.Refused> refused = List.of(
                new Outcome.Refused(1, "host", "unknown", false), new Outcome.Refused(2, "flow", "many", true));
        assertEquals(new Outcome(3, 7, refused, OptionalLong.of(5)), outcome);
        outcome = Outcome.read(utf8("{\"taken\":3,\"epoch\":7}"));
        assertEquals(new Outcome(3, 7, List.of(), OptionalLong.empty()), outcome);
        assertEquals(7, Outcome.epoch(utf8("{\"epoch\":7,\"declared\":120}")));
        byte[] problem = utf8("{\"error\":{\"field\":\"body\",\"reason\":\"it is long\"}}");
        assertEquals(": body: it is long", Outcome.problem(problem));
        assertEquals("", Outcome.problem(utf8("<html>")));
        for (String text : List.of("[]", "{}", "{\"taken\":1}", "{\"taken\":-1,\"epoch\":1}",
                "{\"taken\":1.5,\"epoch\":1}", "{\"taken\":\"1\",\"epoch\":1}",
                "{\"taken\":1,\"epoch\":1,\"refused\":{}}",
                "{\"taken\":1,\"epoch\":99999999999999999999}", "{\"taken\":1,\"epoch\":1,\"refused\":[1]}",
                "{\"taken\":1,\"epoch\":1,\"refused\":[{\"index\":0,\"field\":1,\"reason\":\"\"}]}")) {
            assertThrows(IOException.class, () -> Outcome.read(utf8(text)), text);
        }
    }
}
