package io.watermaster.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProcessesTest {
    @Test
    void aProcessOfTheMachineHasANumberAndOneOfAContainerNone(@TempDir Path folder) throws Exception {
        Path machine = Files.createSymbolicLink(folder.resolve("machine"), Path.of("pid:[4026531836]"));
        Path container = Files.createSymbolicLink(folder.resolve("container"), Path.of("pid:[4026532208]"));
        assertEquals(OptionalLong.of(ProcessHandle.current().pid()), Processes.in(machine));
        assertEquals(OptionalLong.empty(), Processes.in(container));
        assertEquals(OptionalLong.empty(), Processes.in(folder.resolve("none")));
    }
}
