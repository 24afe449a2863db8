"""A scenario over a grid of changes: in this process, or on all machines of a Ray cluster, to be resumed where it stopped."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ._watermaster import Cache, Scenario

if TYPE_CHECKING:
    from .policy import Policy

# Cells that are handed to Ray ahead of those that run, for each processor.
_AHEAD = 4
# A cell whose process or machine dies is run again so often.
_TRIES = 10


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the grid.

    changes: the keys that are varied, with their values here.
    json: the result, as Result.to_json gives it.
    """

    changes: dict[str, Any]
    json: str

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of each policy by name."""
        return {own["policy"]: own["metrics"] for own in json.loads(self.json)["results"]}


def sweep(
    path: str | os.PathLike[str],
    axes: Mapping[str, Sequence[Any]],
    policies: Sequence[str | Callable[[], Policy]] | None = None,
    *,
    repeat: int = 1,
    jobs: int | None = None,
    on: str | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> Iterator[Point]:
    """Runs a scenario at each point of the grid that `axes` span, and gives the points in their order, the last axis
    first. The results are the same to the last byte wherever they are run.

    axes: keys of the scenario, dots between, with the values of each.
    repeat, jobs: as of Scenario.run; on a cluster each cell has one processor.
    on: the address of a Ray cluster, "ray://HOST:10001" or "auto", or "local" for one on this machine; needs `ray`.
        Its machines have this package, and the scenario's files under the same paths.
    out: a directory where each point is kept once it is done; what it has of the same scenario and files, by a package of
        the same sources, isn't run again. Policies in Python count as the same by their names.
    progress: hears how many cells are done, of how many.
    Other options go to Scenario.

    Raises ScenarioError, RunError, what a policy raises; with `out` OSError, and RuntimeError where the scenario, or a file
    that it names, changes while the sweep runs.
    """
    base = dict(options.pop("changes", None) or {})
    points = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    cache = None if out is None else Cache(out)
    cells = []
    for point in points:
        cell = _Cell(str(path), {**base, **point}, options, policies, repeat)
        # Wrong ones are found before hours are spent on others.
        scenario = cell.scenario()
        if cache is not None:
            cell = replace(cell, key=scenario.key(policies, repeat=repeat))
        cells.append(cell)
    waiting = []
    seen = set()
    for at, cell in enumerate(cells):
        if cache is None or (cell.key not in seen and cache.get(cell.key) is None):
            waiting.append(at)
        seen.add(cell.key)
    run = _here(cells, waiting, jobs) if on is None else _on_cluster(cells, waiting, on)
    left = set(waiting)
    with contextlib.closing(run):
        for at, (point, cell) in enumerate(zip(points, cells)):
            said = None
            if at in left:
                ran, said = next(run)
                assert ran == at
                left.remove(at)
                if cache is not None:
                    cache.put(cell.key, said)
            elif cache is not None:
                said = cache.get(cell.key)
            if said is None:  # it was taken away meanwhile
                said = cell.run(jobs)
            if progress is not None:
                progress(len(points) - len(left), len(points))
            yield Point(point, said)


@dataclass(frozen=True, slots=True)
class _Cell:
    path: str
    changes: dict[str, Any]
    options: dict[str, Any]
    policies: Sequence[Any] | None
    repeat: int
    # What its result is kept by; empty where it isn't kept.
    key: str = ""

    def scenario(self) -> Scenario:
        return Scenario(self.path, changes=self.changes, **self.options)

    def run(self, jobs: int | None) -> str:
        scenario = self.scenario()
        # It is read again, maybe on another machine.
        if self.key and scenario.key(self.policies, repeat=self.repeat) != self.key:
            raise RuntimeError(
                f"{self.path}, or a file that it names, has changed since the sweep began, or is another on this "
                "machine; begin it again"
            )
        return scenario.run(self.policies, repeat=self.repeat, jobs=jobs).to_json()


_Ran = Generator[tuple[int, str], None, None]


def _here(cells: list[_Cell], waiting: list[int], jobs: int | None) -> _Ran:
    for at in waiting:
        yield at, cells[at].run(jobs)


def _on_cluster(cells: list[_Cell], waiting: list[int], address: str) -> _Ran:
    import ray

    def alone(cell: _Cell) -> str:
        return cell.run(1)

    began = not ray.is_initialized()
    if began:
        ray.init(address=None if address == "local" else address, log_to_driver=False)
    try:
        # One processor each; deaths of a process or of a machine are no fault of the cell.
        remote: Any = ray.remote(num_cpus=1, max_retries=_TRIES)(alone)
        resources: Any = ray.cluster_resources
        given: dict[int, Any] = {}
        ahead = iter(waiting)
        for at in waiting:
            most = _AHEAD * max(1, int(resources().get("CPU", 1)))
            for more in itertools.islice(ahead, max(0, most - len(given))):
                given[more] = remote.remote(cells[more])
            try:
                said: str = ray.get(given.pop(at))
            except ray.exceptions.RayTaskError as error:
                # What the cell itself raised.
                raise error.cause from None
            yield at, said
    finally:
        if began:
            ray.shutdown()
