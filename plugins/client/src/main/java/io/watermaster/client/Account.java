package io.watermaster.client;

import java.util.Optional;

/**
 * What became of what was declared, for logs and metrics. All counts begin with the client and only grow.
 *
 * @param taken       declarations that a controller took; what is said again isn't counted again
 * @param refused     declarations that a controller refused for good
 * @param later       declarations that a controller refused and may take later; one that is refused again isn't counted
 *                    again, and once it is taken it is counted there, too
 * @param dropped     declarations that were never said: for want of room, or because they refer to what isn't declared
 * @param connections connections that were made; more than one says that some broke
 * @param fault       what went wrong last
 */
public record Account(long taken, long refused, long later, long dropped, long connections, Optional<String> fault) {
    static final Account NONE = new Account(0, 0, 0, 0, 0, Optional.empty());
}
