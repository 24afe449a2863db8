#!/usr/bin/env python3
"""A table of what a plug-in costs, for scenarios/engines/cost.sh: engines_cost.py RUNS."""

import json
import math
import pathlib
import statistics
import sys

SETUPS = {"without": "without", "idle": "controller that holds nothing", "dead": "no controller there"}


def within(theta, degrees):
    """P(|T| <= sqrt(degrees) tan(theta)) (Abramowitz and Stegun, 26.7.3 for odd and 26.7.4 for even degrees)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    term, total = (1.0, 0.0) if degrees % 2 == 0 else (cosine, 0.0)
    for power in range(degrees % 2, degrees - 1, 2):
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
    return sine * total if degrees % 2 == 0 else 2 / math.pi * (theta + sine * total)


def student_t(degrees):
    """The t with P(|T| <= t) = 0.95, by bisection."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, degrees) < 0.95 else (low, middle)
    return math.tan(low) * math.sqrt(degrees)


def interval(values, unit, scale=1, sign=""):
    """A mean with half of its 95 % interval."""
    mean = f"{scale * statistics.mean(values):{sign}.1f}"
    if len(values) < 2:
        return f"{mean} {unit}"
    half = scale * student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean} ± {half:.1f} {unit}"


def main(runs):
    runs = [json.loads(line) for line in pathlib.Path(runs).read_text().splitlines()]
    print(f"\n{len({run['repeat'] for run in runs})} repeats; change: against the same repeat without the plug-in")
    print(f"{'plug-in':32}{'sort':>16}{'change':>18}{'processors':>18}{'change':>18}")
    of = {setup: {run["repeat"]: run for run in runs if run["setup"] == setup} for setup in SETUPS}
    for setup, title in SETUPS.items():
        row = f"{title:32}"
        for key, width in (("jct_s", 16), ("processor_s", 18)):
            values = [run[key] for run in of[setup].values()]
            changes = [run[key] / of["without"][repeat][key] - 1 for repeat, run in of[setup].items()]
            change = "" if setup == "without" else interval(changes, "%", 100, "+")
            row += f"{interval(values, 's'):>{width}}{change:>18}"
        print(row.rstrip())


if __name__ == "__main__":
    main(*sys.argv[1:])
