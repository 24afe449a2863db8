#!/usr/bin/env python3
"""Incast under what SDTCP's text leaves open: docs/incast.md.

    checks/incast.py run RESULTS.jsonl      run what RESULTS.jsonl doesn't hold yet, setting by setting
    checks/incast.py page RESULTS.jsonl     the tables of docs/incast.md, and its pictures in docs/images

    --watermaster PATH   the binary (target/release/watermaster)
    --seeds N            seeds of each point, from 1 (1)
    --only TEXT          settings whose name holds this; repeatable
    --jobs N             runs at the same time, as for watermaster
"""

import argparse
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "scenarios/sdtcp/incast.toml"

# What the text leaves open, and what we tried. The first of each is the setting of all figures of the text:
# what the text says elsewhere, else what its authors' tools do, else the plainest.
STARTS = {  # "synchronously" (5.2.1): the nearest to it that hosts can do.
    "0.1 ms": ["workload.jitter=100 us"],
    "1 ms": ["workload.jitter=1 ms"],
    "3 ms": ["workload.jitter=3 ms"],
    "10 ms": ["workload.jitter=10 ms"],
}
HOSTS = {  # A link of Mininet has the same queue at both ends, and its delay takes packets from small queues.
    "100 packets": ["topology.access.nic=100 packets"],
    "20 packets": ["topology.access.nic=20 packets"],
    "128 KiB": ["transport.small_queue=128 KiB"],
    "2 packets": ["transport.small_queue=3 kB"],
}
PLACES = {  # "a static buffer size of 100 packets" (5.1).
    places: [f"topology.core.buffer={places} packets"] for places in ("100", "120", "135", "150")
}
RECOVERY = {  # "New Reno [33]" (5.1), RFC 2582.
    "neither": [],
    "SACK": ["transport.sack=true", "transport.limited_transmit=true"],
}
AXES = (STARTS, HOSTS, PLACES, RECOVERY)
STANDING = tuple(next(iter(axis)) for axis in AXES)

# Figures 9 and 10: flows with an end, one less than the text's N. 13 and 14 likewise.
SENDERS = (9, 19, 29, 36, 49, 59, 69, 99, 119, 149)
FEW = (10, 50, 100)
SIZES = (14600, 43800, 146000)
PARTS = {
    "9": ([], f"workload.senders={','.join(map(str, SENDERS))}"),
    "13": (["workload.bytes=100 KB"], f"workload.senders={','.join(map(str, FEW))}"),
    "14": (["workload.senders=50"], f"workload.bytes={','.join(f'{size} B' for size in SIZES)}"),
}
KEPT = ("burst_goodput_bps", "flows_with_timeout_ratio", "fct_mean_s", "fct_p95_s", "fct_p99_s", "drops_count")
POLICIES = ("tcp", "dctcp", "sab", "sdtcp", "sdtcp-capped", "sdtcp-hold")
READINGS = ("sdtcp", "sdtcp-capped")

# The rule, written before the grid was run. A claim with a number is met within a tenth of it, or 5 points of a
# share; "best" allows a tie within 1 %; a collapse, to which the text gives no number, is a loss of half of the link.
HALF, TIE = 500e6, 1.01


def near(value, published, part=0.1):
    return abs(value - published) <= part * published


def claims(of, ours):
    """What the text says of figures 9, 10, 13 and 14 and whether a setting shows it, where `ours` is SDTCP."""
    goodput = lambda policy, senders: of[policy, "9", senders]["burst_goodput_bps"]
    late = lambda policy, senders, part="9": of[policy, part, senders]["flows_with_timeout_ratio"]
    took = lambda policy, part, x, what: of[policy, part, x][f"fct_{what}_s"]
    others = ("tcp", "dctcp", "sab")
    best = lambda what: all(
        took(ours, "13", n, what) <= TIE * min(took(other, "13", n, what) for other in others) for n in FEW
    )
    yield "9", "TCP collapses above some 10 flows", (
        goodput("tcp", 9) > HALF >= max(goodput("tcp", n) for n in (19, 36))
    )
    yield "9", "DCTCP collapses at 37 flows, not at 30", goodput("dctcp", 29) > HALF >= goodput("dctcp", 36)
    yield "9", "SDTCP has some 92 % with 50 and 70 flows", all(near(goodput(ours, n), 920e6) for n in (49, 69))
    yield "9", "SAB has some 92 % with 50 and 70 flows", all(near(goodput("sab", n), 920e6) for n in (49, 69))
    yield "9", "SDTCP with 100 flows is slightly worse than with 70", goodput(ours, 99) >= 0.9 * goodput(ours, 69)
    yield "9", "SDTCP is worse with 120 flows than with 100", goodput(ours, 119) < goodput(ours, 99)
    yield "9", "SDTCP is ahead of TCP and DCTCP with 100 flows", goodput(ours, 99) > max(
        goodput(other, 99) for other in ("tcp", "dctcp")
    )
    yield "10", "all of TCP's flows have a timeout with 30", late("tcp", 29) >= 0.95
    yield "10", "all of DCTCP's flows have a timeout with 60", late("dctcp", 59) >= 0.95
    yield "10", "20 % of SDTCP's have one with 150", 0.15 <= late(ours, 149) <= 0.25
    yield "10", "no more of SDTCP's have one with fewer", max(late(ours, n) for n in SENDERS) <= 0.25
    yield "13", "SDTCP's mean is the best", best("mean")
    yield "13", "SDTCP's 95th percentile is the best", best("p95")
    yield "13", "SDTCP's 99th percentile is the best", best("p99")
    yield "13", "TCP has no timeout with 10 flows, TCP and DCTCP have some with 50 and 100", (
        late("tcp", 10, "13") == 0 and all(late(p, n, "13") > 0 for p in ("tcp", "dctcp") for n in (50, 100))
    )
    for policy, mean, p99 in (("tcp", 0.038, 0.06), ("dctcp", 0.032, 0.055)):
        yield "14", f"30 packets take {policy.upper()} {mean * 1000:.0f} ms, at the 99th percentile {p99 * 1000:.0f}", (
            near(took(policy, "14", 43800, "mean"), mean) and near(took(policy, "14", 43800, "p99"), p99)
        )
    yield "14", "SDTCP is ahead of SAB", all(
        took(ours, "14", size, what) <= took("sab", "14", size, what) for size in SIZES for what in ("mean", "p99")
    )
    yield "14", "TCP and DCTCP are behind both from 30 packets on", all(
        took(slow, "14", size, "mean") > took(fast, "14", size, "mean")
        for slow in ("tcp", "dctcp") for fast in ("sab", ours) for size in SIZES[1:]
    )


def settings():
    """By name, nearest to the standing one first."""
    every = list(itertools.product(*AXES))
    return sorted(every, key=lambda setting: sum(a != b for a, b in zip(setting, STANDING)))


def sweep(binary, setting, part, seeds, jobs):
    """The kept metrics of each policy at each point of a figure."""
    fixed, axis = PARTS[part]
    command = [binary, "sweep", str(SCENARIO), "--json", "--vary", axis]
    command += ["--over", f"seed={','.join(map(str, range(1, seeds + 1)))}"]
    if jobs:
        command += ["--jobs", str(jobs)]
    for change in itertools.chain(fixed, *(axis[name] for axis, name in zip(AXES, setting))):
        command += ["--set", change]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    for point in json.loads(done.stdout)["sweep"]:
        (x,) = point["set"].values()
        for result in point["results"]:
            kept = {name: result["metrics"][name] for name in KEPT if name in result["metrics"]}
            yield {"policy": result["policy"], "x": int(x.split()[0]), **kept}


def run(options):
    results = pathlib.Path(options.results)
    have = {(tuple(row["setting"]), row["seeds"]) for row in load(results)}
    todo = [setting for setting in settings() if (setting, options.seeds) not in have]
    todo = [setting for setting in todo if all(only in ", ".join(setting) for only in options.only)]
    began = time.monotonic()
    for done, setting in enumerate(todo):
        left = f", some {(time.monotonic() - began) / done * (len(todo) - done) / 60:.0f} min left" if done else ""
        print(f"{done + 1} of {len(todo)}: {', '.join(setting)}{left}", file=sys.stderr, flush=True)
        points = {part: list(sweep(options.watermaster, setting, part, options.seeds, options.jobs)) for part in PARTS}
        with results.open("a") as file:
            file.write(json.dumps({"setting": setting, "seeds": options.seeds, "points": points}) + "\n")


def load(results):
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def by_setting(rows):
    """Of each setting the run with the most seeds: metrics by policy, figure and point."""
    found = {}
    for row in sorted(rows, key=lambda row: row["seeds"]):
        points = {
            (point["policy"], part, point["x"]): point for part, points in row["points"].items() for point in points
        }
        found[tuple(row["setting"])] = (row["seeds"], points)
    return found
