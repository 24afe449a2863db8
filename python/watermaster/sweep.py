"""A scenario over a grid of changes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from ._watermaster import Scenario

if TYPE_CHECKING:
    from ._watermaster import Result
    from .policy import Policy


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the grid: the changes there, and the result."""

    changes: dict[str, Any]
    result: Result


def sweep(
    path: str | PathLike[str],
    axes: Mapping[str, Sequence[Any]],
    policies: Sequence[str | Callable[[], Policy]] | None = None,
    *,
    repeat: int = 1,
    jobs: int | None = None,
    **options: Any,
) -> Iterator[Point]:
    """Runs the scenario at each point of the grid that `axes` span and gives it when it is done, the last axis first.

    axes: keys of the scenario, dots between, with the values of each. Other options go to Scenario. As
    `watermaster sweep` does with the same keys.
    """
    changes = dict(options.pop("changes", None) or {})
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values))
        scenario = Scenario(path, changes={**changes, **point}, **options)
        yield Point(point, scenario.run(policies, repeat=repeat, jobs=jobs))
