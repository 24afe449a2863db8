from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from .policy import Policy

__version__: str

class ScenarioError(Exception):
    """A scenario that can't be read or run: the text names file, line, field and remedy."""

class RunError(Exception):
    """A run that the world refused or stopped."""

def policies() -> list[str]:
    """The names of all policies; which fit a scenario depends on its workload and world."""

class Scenario:
    """A scenario file, read and checked.

    seed, world: in the place of the file's.
    trace: a file of jobs, in the place of the one that the scenario names.
    changes: keys of the file, dots between, with their values: {"topology.access.capacity": "1 Gbit/s"}.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        seed: int | None = None,
        world: str | None = None,
        trace: str | PathLike[str] | None = None,
        changes: dict[str, Any] | None = None,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def world(self) -> str:
        """packet, fluid or lab."""
    @property
    def policies(self) -> list[str]:
        """The labels of its policies, in the order of the file."""
    def run(
        self,
        policies: Sequence[str | Callable[[], Policy]] | None = None,
        *,
        repeat: int = 1,
        jobs: int | None = None,
        memory: int | None = None,
        progress: Callable[[float], object] | None = None,
        program: str | PathLike[str] | None = None,
    ) -> Result:
        """Runs it under each of the policies: labels of the scenario, names of others that fit it (with their default
        parameters), or classes of policies in Python. None: all of the scenario. Where the scenario compares with a
        baseline, that runs too.

        repeat: so many times, with seeds that count up.
        jobs: runs at the same time, one a core by default. Policies in Python take turns.
        memory: bytes above which a run in the fluid world stops.
        progress: hears now and then which part is done, from 0 to 1.
        program: the watermaster command whose daemons a lab runs.

        Raises RunError, ScenarioError, or what a policy or `progress` raised.
        """
    def key(
        self, policies: Sequence[str | Callable[[], Policy]] | None = None, *, repeat: int = 1
    ) -> str:
        """What the result of such a run is kept by: the same where the scenario, the files that it names and this package
        are. Policies in Python count as the same by their names.

        Raises ScenarioError, also for a lab; OSError.
        """

class Cache:
    """A folder of results by key, which is made when it doesn't exist. Raises OSError."""

    def __init__(self, folder: str | PathLike[str]) -> None: ...
    def get(self, key: str) -> str | None:
        """None where there is none, or it is damaged."""
    def put(self, key: str, result: str) -> None:
        """Raises OSError."""

class Result:
    """The result of a scenario under some policies; as a text, the table that the command prints."""

    @property
    def scenario(self) -> str: ...
    @property
    def policies(self) -> list[str]: ...
    def __getitem__(self, policy: str) -> dict[str, float]:
        """The metrics of a policy by name, of repeated runs their means. The end of a name is the unit."""
    @property
    def metrics(self) -> Table:
        """policy, metric, value, interval95: half of the 95 % interval of a mean, null of a single run."""
    @property
    def flows(self) -> Table:
        """A row for each flow of each run, with the columns of flows.parquet."""
    @property
    def jobs(self) -> Table:
        """A row for each job of each run, with the columns of jobs.parquet."""
    def to_json(self) -> str:
        """As `watermaster run --json` prints it, without what the runs cost."""
    def write_report(self, path: str | PathLike[str]) -> None:
        """Writes the report, one HTML file. Raises OSError."""

class Table:
    """Columns of whole numbers, real numbers and texts, null where a value is missing. Whatever takes an Arrow stream
    takes it: pyarrow.table(t), polars.DataFrame(t), duckdb."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def column(self, name: str) -> list[Any]:
        """The values of a column. Raises KeyError."""
    def to_arrow(self) -> Any:
        """A pyarrow.Table; needs pyarrow."""
    def to_pandas(self) -> Any:
        """A pandas.DataFrame; needs pandas and pyarrow."""
    def to_polars(self) -> Any:
        """A polars.DataFrame; needs polars."""

class Link:
    """One direction of a cable. capacity: frame bits per second; delay: seconds."""

    @property
    def id(self) -> int: ...
    @property
    def source(self) -> int: ...
    @property
    def destination(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def delay(self) -> float: ...
    @property
    def up(self) -> bool: ...

class Network:
    """Hosts, switches and links at a moment; all are numbers from 0."""

    @property
    def hosts(self) -> list[int]: ...
    @property
    def switches(self) -> list[int]: ...
    @property
    def links(self) -> list[Link]: ...
    def link(self, link: int) -> Link:
        """Raises KeyError."""
    def name(self, node: int) -> str:
        """Raises KeyError."""
    def node(self, name: str) -> int:
        """Raises KeyError."""
    def path(self, src: int, dst: int, flow: int) -> list[int]:
        """The links of a flow in order; empty where there is no path. Raises KeyError."""
