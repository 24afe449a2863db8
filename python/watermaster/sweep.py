"""A scenario over a grid of changes: in this process, or on all machines of a Ray cluster, to be resumed where it stopped."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._watermaster import SOURCES, Scenario

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
    out: a directory where each point is kept once it is done; what it has of this same sweep, by a package of the same
        sources, isn't run again. Policies in Python count as the same by their names, and what the scenario refers to,
        such as a trace, by its path.
    progress: hears how many cells are done, of how many.
    Other options go to Scenario.

    Raises ScenarioError, RunError, what a policy raises; ValueError where `out` has another sweep, or one of another program.
    """
    base = dict(options.pop("changes", None) or {})
    points = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    # Wrong ones are found before hours are spent on others.
    for point in points:
        Scenario(path, changes={**base, **point}, **options)
    store = _Store(out, path, (axes, base, policies, repeat, options)) if out is not None else None
    cells = [_Cell(str(path), {**base, **point}, options, policies, repeat) for point in points]
    waiting = [at for at in range(len(points)) if store is None or store.find(at) is None]
    run = _here(cells, waiting, jobs) if on is None else _on_cluster(cells, waiting, on)
    done = len(points) - len(waiting)
    with contextlib.closing(run):
        for at, point in enumerate(points):
            known = store.find(at) if store is not None else None
            if known is None:
                ran, known = next(run)
                assert ran == at
                if store is not None:
                    store.keep(at, known)
                done += 1
            if progress is not None:
                progress(done, len(points))
            yield Point(point, known)


@dataclass(frozen=True, slots=True)
class _Cell:
    path: str
    changes: dict[str, Any]
    options: dict[str, Any]
    policies: Sequence[Any] | None
    repeat: int

    def run(self, jobs: int | None) -> str:
        scenario = Scenario(self.path, changes=self.changes, **self.options)
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


class _Store:
    """What is done of a sweep, a file for each cell."""

    def __init__(
        self, out: str | os.PathLike[str], path: str | os.PathLike[str], what: tuple[Any, ...]
    ) -> None:
        self.folder = pathlib.Path(out)
        axes, base, policies, repeat, options = what
        labels = None
        if policies is not None:
            labels = [own if isinstance(own, str) else _name(own) for own in policies]
        sweep = {
            "sources": SOURCES,
            "scenario": hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest(),
            "axes": {key: list(values) for key, values in axes.items()},
            "changes": base,
            "policies": labels,
            "repeat": repeat,
            "options": {key: str(value) for key, value in options.items() if value is not None},
        }
        said = json.dumps(sweep, indent=2, default=str)
        self.folder.mkdir(parents=True, exist_ok=True)
        index = self.folder / "sweep.json"
        if index.exists() and index.read_text() != said:
            raise ValueError(f"{index} is of another sweep or program; give another directory, or remove it")
        if not index.exists():
            self._write(index, said)

    def find(self, at: int) -> str | None:
        try:
            return self._path(at).read_text()
        except FileNotFoundError:
            return None

    def keep(self, at: int, said: str) -> None:
        self._write(self._path(at), said)

    def _path(self, at: int) -> pathlib.Path:
        return self.folder / f"{at:06}.json"

    @staticmethod
    def _write(path: pathlib.Path, said: str) -> None:
        # Whole or not at all.
        part = path.with_suffix(".part")
        part.write_text(said)
        part.replace(path)


def _name(policy: Any) -> str:
    return str(getattr(policy, "name", None) or policy.__name__)
