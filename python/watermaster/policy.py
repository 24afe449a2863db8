"""What a policy in Python derives from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._watermaster import Network
    from .directives import Directive
    from .events import Event


class Policy:
    """A policy: it is told what happens and says what is to change. Each run makes its own.

    Equal inputs must give equal outputs: no clock, no randomness without a seed, no threads. Results name it by its
    attribute `name`, or as its class.

    statistics: seconds between two reports of what flows carried (events.Carried, RoundTrips); None asks for none.
    queues: seconds between two reports of the queues of ports (events.QueueLength).
    ports: seconds between two readings of the counters of ports (events.Ports).
    """

    statistics: float | None = None
    queues: float | None = None
    ports: float | None = None

    def observe(self, now: float, network: Network, event: Event) -> None:
        """Takes in one thing that happened, at `now` seconds."""

    def decide(self, now: float, network: Network) -> Iterable[Directive] | None:
        """What should change after all that was observed since the last decision."""
        return None

    def deadline(self) -> float | None:
        """When it wants to observe a Tick and decide although nothing happened, seconds; None: never."""
        return None
