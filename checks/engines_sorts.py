#!/usr/bin/env python3
"""A table of what two sorts took under each policy, for scenarios/engines/sorts.sh: engines_sorts.py RUNS SIMULATED."""

import json
import math
import pathlib
import statistics
import sys

BASELINE = "tcp"


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


def main(runs, simulated):
    runs = [json.loads(line) for line in pathlib.Path(runs).read_text().splitlines()]
    results = json.loads(pathlib.Path(simulated).read_text())["results"]
    simulated = {result["policy"]: result["metrics"] for result in results}
    repeats = len({run["repeat"] for run in runs})
    print(f"\n{repeats} repeats; change: against {BASELINE} of the same repeat; simulator: shuffles alone")
    print(f"{'JCT':8}{'policy':8}{'engine':>18}{'change':>20}{'simulator':>12}{'change':>10}")
    for size in ("small", "large"):
        times = {}
        for run in runs:
            times.setdefault(run["policy"], {})[run["repeat"]] = run[f"{size}_s"]
        for policy in (policy for policy in simulated if policy in times):
            of = times[policy]
            changes = [of[repeat] / times[BASELINE][repeat] - 1 for repeat in of]
            alone, before = (simulated[name][f"jct_mean_{size}_s"] for name in (policy, BASELINE))
            change, same = interval(changes, "%", 100, "+"), f"{100 * (alone / before - 1):+.1f} %"
            if policy == BASELINE:
                change = same = ""
            print(f"{size:8}{policy:8}{interval(list(of.values()), 's'):>18}{change:>20}{alone:>10.1f} s{same:>10}".rstrip())


if __name__ == "__main__":
    main(*sys.argv[1:])
