#!/usr/bin/env python3
"""Incast under what SDTCP's text leaves open: docs/incast.md.

    checks/incast.py run RESULTS.jsonl      run what RESULTS.jsonl doesn't hold yet, setting by setting
    checks/incast.py page RESULTS.jsonl     the tables of docs/incast.md, and its pictures in docs/images
    checks/incast.py lab RESULTS.jsonl      the nearest settings at a tenth of the rates, in the lab and the simulator;
                                            needs root; what RESULTS.jsonl holds isn't run again, unless
                                            the machine was too slow
    checks/incast.py lab-page RESULTS.jsonl the tables of that

    --watermaster PATH   the binary (target/release/watermaster)
    --seeds N            seeds of each point, from 1 (1); of the lab, runs
    --only SETTING       this one, such as "3 ms, 100 packets, 100, neither"; repeatable
    --senders A,B        of the lab: so many burst flows (9,19,29,36,49,59,69,99)
    --policy A,B         of the lab: these policies (all that it has)
    --world WORLD        of the lab: packet or lab alone
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
    """What the text says of figures 9, 10, 13 and 14, and what tells whether a setting shows it, where `ours` is SDTCP."""
    goodput = lambda policy, senders: of[policy, "9", senders]["burst_goodput_bps"]
    late = lambda policy, senders, part="9": of[policy, part, senders]["flows_with_timeout_ratio"]
    # Where no flow has ended there is none.
    took = lambda policy, part, x, what: of[policy, part, x].get(f"fct_{what}_s", math.inf)
    others = ("tcp", "dctcp", "sab")
    best = lambda what: all(
        took(ours, "13", n, what) <= TIE * min(took(other, "13", n, what) for other in others) for n in FEW
    )
    yield "9", "TCP collapses above some 10 flows", lambda: (
        goodput("tcp", 9) > HALF >= max(goodput("tcp", n) for n in (19, 36))
    )
    yield "9", "DCTCP collapses at 37 flows, not at 30", lambda: goodput("dctcp", 29) > HALF >= goodput("dctcp", 36)
    yield "9", "SDTCP has some 92 % with 50 and 70 flows", lambda: all(near(goodput(ours, n), 920e6) for n in (49, 69))
    yield "9", "SAB has some 92 % with 50 and 70 flows", lambda: all(near(goodput("sab", n), 920e6) for n in (49, 69))
    yield "9", "SDTCP with 100 flows has at most a tenth less than with 70", lambda: (
        goodput(ours, 99) >= 0.9 * goodput(ours, 69)
    )
    yield "9", "SDTCP is worse with 120 flows than with 100", lambda: goodput(ours, 119) < goodput(ours, 99)
    yield "9", "SDTCP is ahead of TCP and DCTCP with 100 flows", lambda: goodput(ours, 99) > max(
        goodput(other, 99) for other in ("tcp", "dctcp")
    )
    yield "10", "all of TCP's flows have a timeout with 30", lambda: late("tcp", 29) >= 0.95
    yield "10", "all of DCTCP's flows have a timeout with 60", lambda: late("dctcp", 59) >= 0.95
    yield "10", "20 % of SDTCP's have one with 150", lambda: 0.15 <= late(ours, 149) <= 0.25
    yield "10", "no more of SDTCP's have one with fewer", lambda: max(late(ours, n) for n in SENDERS) <= 0.25
    yield "13", "SDTCP's mean is the best", lambda: best("mean")
    yield "13", "SDTCP's 95th percentile is the best", lambda: best("p95")
    yield "13", "SDTCP's 99th percentile is the best", lambda: best("p99")
    yield "13", "TCP has no timeout with 10 flows, TCP and DCTCP have some with 50 and 100", lambda: (
        late("tcp", 10, "13") == 0 and all(late(p, n, "13") > 0 for p in ("tcp", "dctcp") for n in (50, 100))
    )
    for policy, mean, p99 in (("tcp", 0.038, 0.06), ("dctcp", 0.032, 0.055)):
        yield "14", f"30 packets take {policy.upper()} {mean * 1000:.0f} ms, at the 99th percentile {p99 * 1000:.0f}", lambda: (
            near(took(policy, "14", 43800, "mean"), mean) and near(took(policy, "14", 43800, "p99"), p99)
        )
    yield "14", "SDTCP is ahead of SAB", lambda: all(
        took(ours, "14", size, what) <= took("sab", "14", size, what) for size in SIZES for what in ("mean", "p99")
    )
    yield "14", "TCP and DCTCP are behind both from 30 packets on", lambda: all(
        took(slow, "14", size, "mean") > took(fast, "14", size, "mean")
        for slow in ("tcp", "dctcp") for fast in ("sab", ours) for size in SIZES[1:]
    )


def settings():
    """By name, nearest to the standing one first."""
    every = list(itertools.product(*AXES))
    return sorted(every, key=lambda setting: sum(a != b for a, b in zip(setting, STANDING)))


def sweep(options, setting, part):
    """The kept metrics of each policy at each point of a figure."""
    fixed, axis = PARTS[part]
    # A burst that is over after 1 s is over: the endless flow goes on alone. Other runs have all their time.
    done = list(once(options, setting, [*fixed, "until=3 s"], axis, POLICIES))
    for x in sorted({x for x, _, metrics in done if metrics["jobs_completed_ratio"] < 1}):
        late = [policy for at, policy, metrics in done if at == x and metrics["jobs_completed_ratio"] < 1]
        done = [run for run in done if run[0] != x or run[1] not in late]
        done += once(options, setting, fixed, f"{axis.partition('=')[0]}={x}", late)
    for x, policy, metrics in done:
        yield {"policy": policy, "x": int(x.split()[0]), **{name: metrics[name] for name in KEPT if name in metrics}}


def once(options, setting, fixed, axis, policies):
    """All metrics by point and policy."""
    command = [options.watermaster, "sweep", str(SCENARIO), "--json", "--vary", axis, "--policy", ",".join(policies)]
    command += ["--over", f"seed={','.join(map(str, range(1, options.seeds + 1)))}"]
    if options.jobs:
        command += ["--jobs", str(options.jobs)]
    for change in itertools.chain(fixed, *(axis[name] for axis, name in zip(AXES, setting))):
        command += ["--set", change]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    for point in json.loads(ran.stdout)["sweep"]:
        (x,) = point["set"].values()
        for result in point["results"]:
            yield x, result["policy"], result["metrics"]


def run(options):
    results = pathlib.Path(options.results)
    have = {(tuple(row["setting"]), row["seeds"]) for row in load(results)}
    todo = [setting for setting in settings() if (setting, options.seeds) not in have]
    todo = [setting for setting in todo if not options.only or ", ".join(setting) in options.only]
    began = time.monotonic()
    for done, setting in enumerate(todo):
        left = f", some {(time.monotonic() - began) / done * (len(todo) - done) / 60:.0f} min left" if done else ""
        print(f"{done + 1} of {len(todo)}: {', '.join(setting)}{left}", file=sys.stderr, flush=True)
        points = {part: list(sweep(options, setting, part)) for part in PARTS}
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


def judged(points):
    """The claims: figure, words, and whether they are so under each reading."""
    each = [[(part, words, shows()) for part, words, shows in claims(points, ours)] for ours in READINGS]
    return [(part, words, [reading[place][2] for reading in each]) for place, (part, words, _) in enumerate(each[0])]


def met(points):
    """Most claims that are so under one reading."""
    return max(sum(reading) for reading in zip(*(so for _, _, so in judged(points))))


def table(head, rows):
    line = lambda cells: "| " + " | ".join(str(cell) for cell in cells) + " |"
    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)]) + "\n"


def page(options):
    found = by_setting(load(pathlib.Path(options.results)))
    verdicts = {setting: judged(points) for setting, (_, points) in found.items()}
    count = len(found)
    print(f"{count} settings; {sum(n > 1 for n, _ in found.values())} with several seeds\n")

    figures = ("9", "10", "13", "14")
    gives = lambda setting, part, reading: all(so[reading] for f, _, so in verdicts[setting] if f == part)
    rows = []
    for reading, name in enumerate(READINGS):
        row = [f"`{name}`", *(sum(gives(s, f, reading) for s in verdicts) for f in figures)]
        rows.append([*row, sum(all(gives(s, f, reading) for f in figures) for s in verdicts)])
    print(table(["settings that give all of figure", *figures, "all four"], rows))

    head = ["figure", "the text says", "`sdtcp`", "late flows capped", *(" / ".join(axis) for axis in AXES)]
    rows = []
    for place, (part, words, _) in enumerate(verdicts[STANDING]):
        shown = [sum(v[place][2][reading] for v in verdicts.values()) for reading in range(len(READINGS))]
        either = lambda axis, value: sum(any(v[place][2]) for s, v in verdicts.items() if s[axis] == value)
        by = [" / ".join(str(either(axis, value)) for value in AXES[axis]) for axis in range(len(AXES))]
        rows.append([part, words, *shown, *by])
    print(table(head, rows))

    never = set()
    for one, other in itertools.combinations(range(len(rows)), 2):
        pair = lambda v: any(v[one][2][r] and v[other][2][r] for r in range(len(READINGS)))
        alone = lambda place: any(any(v[place][2]) for v in verdicts.values())
        if alone(one) and alone(other) and not any(pair(v) for v in verdicts.values()):
            never.add((rows[one][1], rows[other][1]))
    print("Each of these is so in some settings, both in none:\n")
    print("\n".join(f"* {one}; {other}" for one, other in sorted(never)) + "\n")

    best = sorted(found, key=lambda setting: -met(found[setting][1]))
    rows = []
    for setting in [*best[:6], STANDING]:
        reading = max(range(len(READINGS)), key=lambda r: sum(so[r] for _, _, so in verdicts[setting]))
        lacks = [f"{f}: {words}" for f, words, so in verdicts[setting] if not so[reading]]
        rows.append([", ".join(setting), f"`{READINGS[reading]}`", f"{met(found[setting][1])} of {len(lacks) + met(found[setting][1])}",
                     "; ".join(lacks)])
    print(table(["setting", "reading", "claims", "lacks"], rows))

    for title, setting in (("what stands", STANDING), ("the nearest", best[0])):
        seeds, points = found[setting]
        for metric, scale, unit in (("burst_goodput_bps", 1e-6, "Mbit/s"), ("flows_with_timeout_ratio", 100, "% with a timeout")):
            rows = [[f"`{p}`", *(f"{scale * points[p, '9', n][metric]:.0f}" for n in SENDERS)] for p in POLICIES]
            print(f"{title} ({', '.join(setting)}; {seeds} seeds), {unit} by burst flows\n")
            print(table(["", *SENDERS], rows))

    images = ROOT / "docs/images"
    draw_claims(images / "incast-claims.svg", found)
    for metric, scale, top, unit in (("burst_goodput_bps", 1e-6, 1000, "Mbit/s"), ("flows_with_timeout_ratio", 100, 100, "% of flows with a timeout")):
        name = {"burst_goodput_bps": "goodput", "flows_with_timeout_ratio": "timeouts"}[metric]
        draw_lines(images / f"incast-{name}.svg", found, metric, scale, top, unit)


# At a tenth of the rates. Starts ten times as long; hosts and places as above.
SLOWLY = ROOT / "scenarios/lab/sdtcp-incast.toml"
TENTH = 10
SLOW_STARTS = {"0.1 ms": ["workload.jitter=1 ms"], "1 ms": ["workload.jitter=10 ms"]}
NEAREST = (
    ("0.1 ms", "128 KiB", "100", "neither"),
    ("1 ms", "20 packets", "120", "neither"),
    ("1 ms", "128 KiB", "150", "SACK"),
)
SEEDS = (1, 2, 3, 4, 5)  # of the simulator
LAB_SENDERS = (9, 19, 29, 36, 49, 59, 69, 99)
LAB_POLICIES = tuple(policy for policy in POLICIES if policy != "sab")
# The kernel has a flow queue at its host what it sends in a millisecond at its pace, which these make ten times what
# it sends, and so much at most.
PACES = {"tcp_pacing_ss_ratio": 1000, "tcp_pacing_ca_ratio": 1000}
SMALL = {"128 KiB": 131072}


def slowly(setting, senders, policy):
    """Changes of a run. What congests a port for 10 s has its 20 s before the bursts; others need none of it."""
    start = 20 if policy in READINGS else 3
    changes = [*SLOW_STARTS[setting[0]]]
    changes += itertools.chain(*(axis[name] for axis, name in zip(AXES[1:], setting[1:])))
    changes += [f"topology.left={senders + 1}", f"workload.receiver=h{senders + 1}", f"workload.senders={senders}"]
    return [*changes, f"workload.start={start} s", f"until={start + 6 + 0.06 * senders:.1f} s"]


def told(command):
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def simulated(options, setting, senders, policy, seeds):
    """The means over `seeds`."""
    command = [options.watermaster, "sweep", str(SLOWLY), "--json", "--policy", policy]
    command += ["--over", f"seed={','.join(map(str, seeds))}"]
    command += itertools.chain(*(("--set", change) for change in slowly(setting, senders, policy)))
    (point,) = told(command)["sweep"]
    yield {"metrics": point["results"][0]["metrics"]}


def in_lab(options, setting, senders, policy, seeds):
    """A run for each seed, with the verdict on the machine."""
    for seed in seeds:
        name = f"incast{senders}"
        # The policy is named there too, as the lab's daemons begin with one.
        up = [options.watermaster, "lab", "up", str(SLOWLY), "--name", name, "--policy", policy, "--json"]
        changes = [*slowly(setting, senders, policy), f"seed={seed}"]
        namespaces = told(up + list(itertools.chain(*(("--set", change) for change in changes))))["namespaces"]
        try:
            paces = PACES | {"tcp_limit_output_bytes": SMALL[setting[1]]} if setting[1] in SMALL else PACES
            words = [f"net.ipv4.{key}={value}" for key, value in paces.items()]
            for namespace in namespaces:
                subprocess.run(["ip", "netns", "exec", namespace, "sysctl", "-q", "-w", *words], check=True)
            (result,) = told([options.watermaster, "lab", "run", name, "--policy", policy, "--json"])["results"]
        finally:
            subprocess.run([options.watermaster, "lab", "down", name], stdout=subprocess.DEVNULL, check=True)
        yield {"seed": seed, "metrics": result["metrics"], "notes": result["notes"]}


def lab(options):
    results = pathlib.Path(options.results)
    key = lambda row: (tuple(row["setting"]), row["senders"], row["policy"], row["world"], row.get("seed"))
    have = {key(row) for row in load(results) if kept_up(row)}
    senders = [int(n) for n in options.senders.split(",")] if options.senders else LAB_SENDERS
    policies = options.policy.split(",") if options.policy else LAB_POLICIES
    for setting, n, policy in itertools.product(NEAREST, senders, policies):
        if options.only and ", ".join(setting) not in options.only:
            continue
        for world, ran in (("packet", simulated), ("lab", in_lab)):
            about = {"setting": setting, "senders": n, "policy": policy, "world": world}
            lacks = [seed for seed in range(1, options.seeds + 1) if key(about | {"seed": seed}) not in have]
            if world == "packet":
                lacks = [] if key(about) in have else SEEDS
            if options.world not in (None, world) or not lacks:
                continue
            for row in ran(options, setting, n, policy, lacks):
                with results.open("a") as file:
                    file.write(json.dumps(about | row) + "\n")
                done = row["metrics"]["burst_goodput_bps"] / 1e6
                print(f"{', '.join(setting)}, {n}, {policy}, {world}: {done:.1f} Mbit/s", file=sys.stderr, flush=True)


def kept_up(row):
    return not any(note.startswith("THE MACHINE") for note in row.get("notes", []))


def lab_page(options):
    rows = load(pathlib.Path(options.results))
    slow = [row for row in rows if not kept_up(row)]
    print(f"{sum(row['world'] == 'lab' for row in rows)} runs in the lab, TOO SLOW in {len(slow)}, left out\n")
    means = {}
    for row in filter(kept_up, rows):
        means.setdefault((tuple(row["setting"]), row["world"], row["policy"], row["senders"]), []).append(row["metrics"])
    of = {}
    for (setting, world, policy, n), runs in means.items():
        mean = {name: statistics.fmean(run[name] for run in runs) for name in ("burst_goodput_bps", "flows_with_timeout_ratio")}
        of.setdefault((setting, world), {})[policy, "9", n] = mean

    worlds = ("packet", "lab")
    both = lambda setting, policy, n: [of.get((setting, world), {}).get((policy, "9", n)) for world in worlds]
    ran = [point for point in itertools.product(NEAREST, LAB_POLICIES, LAB_SENDERS) if all(both(*point))]
    columns = [n for n in LAB_SENDERS if any(point[2] == n for point in ran)]
    within = {
        "burst_goodput_bps": lambda simulated, live: near(live, simulated),
        "flows_with_timeout_ratio": lambda simulated, live: abs(live - simulated) <= 0.05,
    }
    for title, metric, scale in (("Mbit/s", "burst_goodput_bps", 1e-6), ("% with a timeout", "flows_with_timeout_ratio", 100)):
        agree = lambda point: within[metric](*(each[metric] for each in both(*point)))
        for policy in LAB_POLICIES:
            own = [point for point in ran if point[1] == policy]
            print(f"{title}, {policy}: {sum(map(agree, own))} of {len(own)} agree")
        lines = []
        for setting, policy in dict.fromkeys(point[:2] for point in ran):
            cells = []
            for n in columns:
                each = both(setting, policy, n)
                cells.append(" / ".join(f"{scale * world[metric]:.0f}" for world in each) if all(each) else "")
            lines.append([", ".join(setting), f"`{policy}`", *cells])
        print(f"\n{title}, simulator / lab\n\n" + table(["setting", "", *columns], lines))

    verdicts = {}
    for (setting, world), points in of.items():
        fast = {key: point | {"burst_goodput_bps": TENTH * point["burst_goodput_bps"]} for key, point in points.items()}
        for ours in READINGS:
            for part, words, shows in claims(fast, ours):
                try:
                    verdicts[part, words, setting, world, ours] = "yes" if shows() else "no"
                except KeyError:
                    pass  # not run
    lines = []
    for part, words in dict.fromkeys(key[:2] for key in verdicts):
        said = [
            " / ".join(verdicts.get((part, words, setting, world, ours), "–") for world in worlds)
            for setting in NEAREST for ours in READINGS
        ]
        lines.append([part, words, *said])
    print(table(["figure", "the text says", *(f"{', '.join(s)}: `{r}`" for s in NEAREST for r in READINGS)], lines))


COLOURS = dict(zip(POLICIES, ("#777777", "#c77700", "#1b7f5c", "#b3123b", "#e5709a", "#2457c5")))


def svg(path, width, height, parts):
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>' + "".join(parts) + "</svg>\n"
    )


def text(x, y, words, anchor="start", more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" {more}>{words}</text>'


def draw_claims(path, found):
    """How many claims each setting shows: starts and recovery across, hosts' queues and places down."""
    columns = list(itertools.product(RECOVERY, STARTS))
    rows = list(itertools.product(HOSTS, PLACES))
    left, top, wide, high = 170, 60, 62, 22
    most, framed = len(judged(found[STANDING][1])), ""
    parts = [text(left + wide * 4 * i + wide * 2, 20, "SACK and limited transmit" if name != "neither" else "neither SACK nor limited transmit", "middle") for i, name in enumerate(RECOVERY)]
    parts += [text(left + wide * i + wide / 2, 45, starts, "middle") for i, (_, starts) in enumerate(columns)]
    for y, (host, places) in enumerate(rows):
        if places == next(iter(PLACES)):
            parts.append(text(8, top + high * y + 15, host))
        parts.append(text(left - 8, top + high * y + 15, f"{places} places", "end"))
        for x, (recovery, starts) in enumerate(columns):
            setting = (starts, host, places, recovery)
            if setting not in found:
                continue
            value = met(found[setting][1])
            # White for two of them, as in no setting, darkest for twelve.
            shade = 255 - 17 * min(10, max(0, value - 2))
            box = f'<rect x="{left + wide * x}" y="{top + high * y}" width="{wide}" height="{high}"'
            parts.append(f'{box} fill="rgb({shade},{(shade + 255) // 2},255)" stroke="#ffffff"/>')
            parts.append(text(left + wide * x + wide / 2, top + high * y + 15, value, "middle"))
            if setting == STANDING:
                framed = f'{box} fill="none" stroke="#000000" stroke-width="2"/>'
    parts.append(framed)
    below = top + high * len(rows) + 22
    parts.append(text(8, below, f"of {most} claims, under the better of the two readings; framed: what stands"))
    svg(path, left + wide * len(columns) + 10, below + 12, parts)


def draw_lines(path, found, metric, scale, top, unit):
    """A metric by senders, a panel for each spread of starts; all else as it stands."""
    wide, high, gap = 300, 200, 62
    parts = []
    for place, starts in enumerate(STARTS):
        setting = (starts, *STANDING[1:])
        if setting not in found:
            continue
        x0, y0 = gap + (wide + gap) * (place % 2), 34 + (high + 70) * (place // 2)
        across = lambda n: x0 + wide * n / SENDERS[-1]
        down = lambda value: y0 + high * (1 - min(value, top) / top)
        parts.append(text(x0 + wide / 2, y0 - 12, f"starts over {starts}", "middle"))
        parts.append(f'<rect x="{x0}" y="{y0}" width="{wide}" height="{high}" fill="none" stroke="#bbbbbb"/>')
        parts += [text(x0 - 6, down(tick) + 4, tick, "end") for tick in (0, top // 2, top)]
        parts += [text(across(n), y0 + high + 16, n, "middle") for n in (9, 36, 69, 99, 149)]
        for policy in POLICIES:
            points = found[setting][1]
            line = " ".join(f"{across(n):.1f},{down(scale * points[policy, '9', n][metric]):.1f}" for n in SENDERS)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[policy]}" stroke-width="2"/>')
    bottom = 34 + 2 * (high + 70)
    parts.append(text(8, bottom - 28, unit))
    parts.append(text(gap + wide + gap / 2, bottom - 28, "burst flows", "middle"))
    for place, policy in enumerate(POLICIES):
        x = gap + 112 * place
        parts.append(f'<rect x="{x}" y="{bottom - 12}" width="18" height="4" fill="{COLOURS[policy]}"/>')
        parts.append(text(x + 24, bottom - 6, policy))
    svg(path, 2 * (wide + gap) + 24, bottom + 6, parts)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("run", "page", "lab", "lab-page"))
    options.add_argument("results")
    options.add_argument("--watermaster", default=str(ROOT / "target/release/watermaster"))
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--only", action="append", default=[])
    options.add_argument("--senders")
    options.add_argument("--policy")
    options.add_argument("--world", choices=("packet", "lab"))
    options.add_argument("--jobs", type=int)
    options = options.parse_args()
    {"run": run, "page": page, "lab": lab, "lab-page": lab_page}[options.what](options)


if __name__ == "__main__":
    main()
