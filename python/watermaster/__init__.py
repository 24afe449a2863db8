"""Watermaster: run its scenarios, write policies in Python, read results as Arrow tables.

    import watermaster as wm

    result = wm.Scenario("scenarios/phurti/facebook-100-jobs.toml").run(["tcp", "smsf"])
    print(result)
    result.jobs.to_pandas()
"""

from ._watermaster import (
    Link,
    Network,
    Result,
    RunError,
    Scenario,
    ScenarioError,
    Table,
    __version__,
    policies,
)
from .directives import Directive, Pace, PacePair, Prioritize, Window
from .policy import Policy
from .sweep import Point, sweep

__all__ = [
    "Directive",
    "Link",
    "Network",
    "Pace",
    "PacePair",
    "Point",
    "Policy",
    "Prioritize",
    "Result",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Table",
    "Window",
    "__version__",
    "policies",
    "sweep",
]
