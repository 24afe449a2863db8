"""What a typed program says; mypy --strict accepts it."""

from collections.abc import Iterator

import watermaster as wm
from watermaster import events


class Half(wm.Policy):
    """Each flow may have half of its narrowest link."""

    name = "half"

    def __init__(self) -> None:
        self.new: list[events.FlowRequest] = []

    def observe(self, now: float, network: wm.Network, event: events.Event) -> None:
        if isinstance(event, events.FlowRequest):
            self.new.append(event)

    def decide(self, now: float, network: wm.Network) -> Iterator[wm.Directive]:
        for own in self.new:
            path = network.path(own.src, own.dst, own.flow)
            yield wm.Pace(own.flow, min(network.link(link).capacity for link in path) / 2)
        self.new.clear()


def mean(path: str) -> float:
    result: wm.Result = wm.Scenario(path, changes={"workload.jobs": 10}).run(["tcp", Half], jobs=1)
    return result["half"]["jct_mean_s"]
