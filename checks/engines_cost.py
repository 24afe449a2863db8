#!/usr/bin/env python3
"""A table of what a plug-in costs, for scenarios/engines/cost.sh: engines_cost.py RUNS."""

import json
import pathlib
import sys

from engines_sorts import interval

SETUPS = {"without": "without", "idle": "controller that holds nothing", "dead": "no controller there"}


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
