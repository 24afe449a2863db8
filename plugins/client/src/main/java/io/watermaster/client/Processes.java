package io.watermaster.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;

/** By which number an agent knows this process. */
final class Processes {
    /** The name of the first namespace of processes, PROC_PID_INIT_INO of Linux: that of the machine itself. */
    private static final String MACHINE = "pid:[4026531836]";

    private Processes() {}

    /** Empty in a container that numbers processes itself: what an agent doesn't find, it never holds. */
    static OptionalLong own() {
        return in(Path.of("/proc/self/ns/pid"));
    }

    static OptionalLong in(Path namespace) {
        try {
            boolean isMachine = Files.readSymbolicLink(namespace).toString().equals(MACHINE);
            return isMachine ? OptionalLong.of(ProcessHandle.current().pid()) : OptionalLong.empty();
        } catch (IOException | UnsupportedOperationException | SecurityException none) {
            return OptionalLong.empty();
        }
    }
}
