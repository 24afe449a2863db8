"""What a policy wants. Each stands until another of the same kind, for the same flow, pair or link, replaces it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Hold a flow to a rate, or let it go.

    flow: its number, as in events.FlowRequest.
    limit: the most that it may send, frame bits per second, at least 12,000; None lifts the limit.
    """

    flow: int
    limit: float | None


@dataclass(frozen=True, slots=True)
class PacePair:
    """Hold all that waits at a host for another to a rate.

    src, dst: numbers of hosts.
    rate: frame bits per second, at least 12,000.
    """

    src: int
    dst: int
    rate: float


@dataclass(frozen=True, slots=True)
class Prioritize:
    """Give a flow its place at ports that serve strict priorities.

    priority: 0 is served first, and is where every flow starts; at most 255.
    """

    flow: int
    priority: int


@dataclass(frozen=True, slots=True)
class Window:
    """Cap the window in acknowledgements that come back over a link.

    link: the link that the data takes.
    flow: a flow, or None for every flow through the link.
    bytes: the most payload in flight; None removes the cap.
    floor_segments: so many full segments always fit.
    """

    link: int
    flow: int | None
    bytes: int | None
    floor_segments: int = 1


Directive = Pace | PacePair | Prioritize | Window
