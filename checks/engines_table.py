#!/usr/bin/env python3
"""Tables of what engines measured under two policies, for checks/engines-demo.sh: engines_table.py FOLDER."""

import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])


def simulated(engine):
    """Metrics of each policy, as `watermaster run --json` has them."""
    results = json.loads((folder / f"{engine}.json").read_text())["results"]
    return {result["policy"]: result["metrics"] for result in results}


def storm(policy):
    """The second line of the topology: the first has its start."""
    return json.loads((folder / f"storm-{policy}").read_text().splitlines()[1])


def sort(policy, size):
    """Seconds from the start of a job to its end, as Hadoop's resource manager knows them."""
    return float((folder / f"hadoop-{policy}-{size}").read_text())


def table(title, engine, policy, rows):
    """Prints rows of a name, a unit, the engine's two values, the simulator's two and the text's change."""

    def line(name, columns):
        padded = (f"{column:>{width}}" for column, width in zip(columns, (12, 11, 9, 16, 11, 9, 9)))
        print((f"{name:20}" + "".join(padded)).rstrip())

    print(f"\n{title}")
    line("", (f"{engine}: tcp", policy, "change", "simulator: tcp", policy, "change", "text"))
    for name, unit, *worlds, text in rows:
        columns = []
        for before, after in worlds:
            columns += f"{before:.1f} {unit}", f"{after:.1f} {unit}", f"{100 * (after / before - 1):+.1f} %"
        line(name, (*columns, text))


world = simulated("storm")
tcp, aware = storm("tcp"), storm("app-aware")
table(
    f"Trucking IoT on Storm, from {tcp['time_s'] / 2:.0f} s to {tcp['time_s']:.0f} s (simulator: 60 s in all)",
    "Storm",
    "app-aware",
    [
        (name, unit, (tcp[metric], aware[metric]), (world["tcp"][metric], world["app-aware"][metric]), text)
        for name, unit, metric, text in (
            ("throughput", "1/s", "throughput_tps", "+30.9 %"),
            ("mean latency", "s", "latency_mean_s", "-5.7 %"),
            ("99th percentile", "s", "latency_p99_s", ""),
        )
    ],
)
world = simulated("hadoop")
table(
    "Two sorts on Hadoop, from start to finish (simulator: their shuffles alone)",
    "Hadoop",
    "smsf",
    [
        (
            f"JCT of the {size} one",
            "s",
            (sort("tcp", size), sort("smsf", size)),
            tuple(world[policy][f"jct_mean_{size}_s"] for policy in ("tcp", "smsf")),
            text,
        )
        for size, text in (("small", "-15.0 %"), ("large", "+2.2 %"))
    ],
)
print("\nText: figures 7 and 8 at 10 Mbit/s (docs/app-aware.md); two TeraSorts, section 6.2 (docs/phurti.md).")
