#!/usr/bin/env python3
"""Writes docs/fidelity.md: the simulator's transports beside closed forms, other simulators and the
kernel's own TCP. Every figure of ours comes out of a run made now; what explains them is notes.md.

    fidelity/table.py [--watermaster PROGRAM] [--repeats N] [--output FILE]

Ends with 1 when a closed form is off by more than its tolerance, with 2 when a run fails. The other tables, of
the kernel and of other simulators, are shown and judge nothing. Needs
Python 3.11; the kernel is measured anew only as root.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE.parent / "scenarios" / "fidelity"

# Of `watermaster run` and of `kernel.py`; how it is shown.
METRICS = {
    "goodput_bps": ("throughput_bps", "throughput, Mbit/s", lambda bps: f"{bps / 1e6:.2f}"),
    "makespan_s": ("completion_s", "completion, s", lambda seconds: f"{seconds:.3f}"),
    "retransmissions_count": ("retransmissions", "retransmissions", lambda count: f"{count:.0f}"),
    "timeouts_count": ("timeouts", "timeouts", lambda count: f"{count:.1f}"),
}
KERNEL_CASES = ("single", "two", "incast-10", "incast-20", "incast-40")
# Label of the policy in the scenarios; arguments of kernel.py.
KERNEL_VARIANTS = {
    "newreno": ("reno, SACK", []),
    "newreno-no-sack": ("reno, no SACK", ["--no-sack"]),
    "cubic": ("cubic, SACK", ["--congestion-control", "cubic"]),
}
W1_SIZES = (10, 40, 100)
W1_JITTER = "10 us"
# The other simulators in W1, Mbit/s (README.md): by protocol and N.
W1_PEERS = {
    "newreno": {"htsim": (957, 305, 184), "ns-3": (965, 404, 437)},
    "dctcp": {"htsim": (950, 509, 256), "ns-3": (145, 273, 587)},
}
# What one change does to the synchronized W1 with ten senders.
W1_CHANGES = {
    "as it is": [],
    "buffer of 101 packets (the one in transmission not counted)": ['topology.core.buffer="101 packets"'],
    "buffer of 99 packets": ['topology.core.buffer="99 packets"'],
    "receive window 64 kB": ['transport.receive_window="64 kB"'],
    "initial window 2": ["transport.initial_window=2"],
    "delayed acknowledgements, 40 ms": ['transport.delayed_ack="40 ms"'],
    "RTO at least 10 ms": ['transport.min_rto="10 ms"'],
    "1500 octets of payload, 1540 in all": ["transport.mss=1500"],
    "start within 1 ms": ['workload.jitter="1 ms"'],
    "start within 10 ms": ['workload.jitter="10 ms"'],
}


class Simulator:
    def __init__(self, program, repeats):
        self.program = program
        self.repeats = repeats

    def run(self, scenario, *, repeats=1, changes=()):
        """One result a policy, by label."""
        command = [self.program, "run", str(SCENARIOS / f"{scenario}.toml"), "--json", "--repeat", str(repeats)]
        for change in changes:
            command += ["--set", change]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.stderr.write(f"{' '.join(command)}:\n{done.stderr}")
            sys.exit(2)
        return {result["policy"]: result for result in json.loads(done.stdout)["results"]}


def published(scenario):
    with open(SCENARIOS / f"{scenario}.toml", "rb") as file:
        return tomllib.load(file)["published"]


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def mbps(value):
    return f"{value / 1e6:.0f}"


def with_interval(result, metric, show):
    value = show(result["metrics"][metric])
    around = result.get("interval95", {}).get(metric)
    return f"{value} ± {show(around)}" if around is not None else value


def closed_forms(simulator):
    """The table, and what is off."""
    rows, off = [], []
    for path in sorted(SCENARIOS.glob("closed-*.toml")):
        results = simulator.run(path.stem)
        for one in published(path.stem):
            expected, tolerance = one["value"], one["reading"]["error"]
            simulated = results[one["policy"]]["metrics"][one["metric"]]
            holds = abs(simulated - expected) <= tolerance
            if not holds:
                off.append(f"{path.stem}, {one['policy']}, {one['metric']}: {simulated}, not {expected} ± {tolerance}")
            ratio = f"{simulated / expected:.6f}" if expected else "-"
            rows.append([
                f"`{path.stem}`", one["policy"], f"`{one['metric']}` = {one['note']}", f"{expected:g}" if not expected % 1
                else f"{expected:.7g}", f"{simulated:.9g}", ratio, f"{tolerance:g}", "holds" if holds else "**off**",
            ])
    header = ["scenario", "policy", "formula", "expected", "simulated", "ratio", "tolerance", ""]
    return table(header, rows), off


def incast(simulator):
    rows = []
    for column, senders in enumerate(W1_SIZES):
        scenario = f"incast-w1-{senders}"
        together = simulator.run(scenario)
        spread = simulator.run(scenario, repeats=simulator.repeats, changes=[f'workload.jitter="{W1_JITTER}"'])
        for policy in together:
            peers = W1_PEERS[policy.removesuffix("-sack")]
            rows.append([
                str(senders), policy, mbps(together[policy]["metrics"]["goodput_bps"]),
                with_interval(spread[policy], "goodput_bps", mbps),
                f"{together[policy]['metrics']['timeouts_count']:.0f}",
                with_interval(spread[policy], "timeouts_count", lambda count: f"{count:.1f}"),
                str(peers["htsim"][column]), str(peers["ns-3"][column]),
            ])
    return table(["N", "transport", "in step", f"within {W1_JITTER}", "timeouts, in step",
                  f"within {W1_JITTER}", "htsim", "ns-3 3.37"], rows)


def sensitivity(simulator):
    rows = []
    for what, changes in W1_CHANGES.items():
        repeats = simulator.repeats if any("jitter" in change for change in changes) else 1
        results = simulator.run("incast-w1-10", repeats=repeats, changes=changes)
        rows.append([what] + [
            with_interval(results[policy], metric, show)
            for policy in ("newreno", "newreno-sack", "dctcp")
            for metric, show in (("goodput_bps", mbps), ("timeouts_count", lambda count: f"{count:.1f}"))
        ])
    return table(["changed", "newreno", "timeouts", "newreno-sack", "timeouts", "dctcp", "timeouts"], rows)


def measure_kernel():
    """By variant and case, the medians measured now; or why there are none."""
    measured = {}
    for label, (_, arguments) in KERNEL_VARIANTS.items():
        done = subprocess.run([sys.executable, HERE / "kernel.py", *arguments], capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        skipped = [line["skipped"] for line in lines if "skipped" in line]
        if done.returncode != 0 or skipped:
            return {}, skipped[0] if skipped else done.stderr.strip()
        for line in lines:
            measured[label, line["case"]] = line["results"]
    return measured, None


def kernel(simulator):
    measured, skipped = measure_kernel()
    rows = []
    for label, (name, _) in KERNEL_VARIANTS.items():
        for case in KERNEL_CASES:
            scenario = f"kernel-{case}"
            result = simulator.run(scenario, repeats=simulator.repeats)[label]
            before = {one["metric"]: one["value"] for one in published(scenario) if one["policy"] == label}
            row = [name, case]
            for metric, (field, _, show) in METRICS.items():
                now = (measured.get((label, case)) or {}).get(field)
                value = now["median"] if now else before.get(metric)
                ours = result["metrics"][metric]
                row.append("-" if value is None else show(value))
                row.append(with_interval(result, metric, show))
                row.append(f"{ours / value:.2f}" if value else "-")
            rows.append(row)
    header = ["transport", "case"]
    for _, name, _ in METRICS.values():
        header += [f"{name}: kernel", "simulator", "ratio"]
    how = ("The kernel was measured in the same go: medians of 7 repeats." if skipped is None else
           f"The kernel was not measured in this go ({skipped}): its figures are those that the scenarios carry.")
    return how + "\n\n" + table(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watermaster", default=str(HERE.parent / "target/release/watermaster"))
    parser.add_argument("--repeats", type=int, default=10, help="seeds of each run with jitter (default: 10)")
    parser.add_argument("--output", type=Path, default=HERE.parent / "docs" / "fidelity.md")
    chosen = parser.parse_args()
    if chosen.repeats < 2:
        parser.error("--repeats is at least 2, an interval needs as many")
    simulator = Simulator(chosen.watermaster, chosen.repeats)
    closed, off = closed_forms(simulator)
    page = (HERE / "notes.md").read_text().format(
        closed=closed, incast=incast(simulator), sensitivity=sensitivity(simulator), kernel=kernel(simulator),
        repeats=chosen.repeats, jitter=W1_JITTER,
    )
    chosen.output.write_text(page)
    print(chosen.output)
    for line in off:
        print(f"off: {line}", file=sys.stderr)
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
