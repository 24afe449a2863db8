"""Tests of the package against the scenarios of the repository."""

import json
import math
import pathlib
import subprocess
import sys

import pytest
import watermaster as wm
from watermaster import events

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = ROOT / "python/tests/two-jobs.toml"
FACEBOOK = ROOT / "scenarios/phurti/facebook-100-jobs.toml"
FEW = {"workload.jobs": 20}


def scenario(**options):
    return wm.Scenario(SMALL, **options)


class Nothing(wm.Policy):
    """Leaves everything to TCP."""


class Shortest(wm.Policy):
    """The smallest flow goes first on each link, the others wait."""

    name = "shortest"

    def __init__(self):
        self.flows = {}
        self.told = {}

    def observe(self, now, network, event):
        match event:
            case events.FlowRequest(flow=flow, src=src, dst=dst, size=size):
                self.flows[flow] = (size, network.path(src, dst, flow))
            case events.FlowComplete(flow=flow):
                del self.flows[flow]
                self.told.pop(flow, None)

    def decide(self, now, network):
        taken = set()
        for flow, (_, path) in sorted(self.flows.items(), key=lambda item: (item[1][0], item[0])):
            goes = taken.isdisjoint(path)
            taken.update(path)
            rate = min(network.link(link).capacity for link in path) if goes else 12_000
            if self.told.get(flow) != rate:
                self.told[flow] = rate
                yield wm.Pace(flow, rate)


def test_a_policy_that_does_nothing_is_tcp():
    result = scenario().run(["tcp", Nothing])
    assert result.policies == ["tcp", "Nothing"]
    ours, plain = result["Nothing"], result["tcp"]
    assert ours["jct_mean_s"] == plain["jct_mean_s"] and ours["jct_mean_s"] > 0


def test_a_policy_in_python_decides():
    """By hand: 1 MB and 3 MB over one link of 8 Mbit/s; the first alone takes 1 s, both 4 s."""
    result = scenario(world="fluid").run(["tcp", Shortest])
    ends = dict(zip(result.jobs.column("job"), result.jobs.column("jct_s")))
    by_policy = [
        (policy, jct)
        for policy, jct in zip(result.jobs.column("policy"), result.jobs.column("jct_s"))
    ]
    tcp = [jct for policy, jct in by_policy if policy == "tcp"]
    ours = [jct for policy, jct in by_policy if policy == "shortest"]
    assert tcp == pytest.approx([2.0, 4.0], rel=0.01)
    assert ours == pytest.approx([1.0, 4.0], rel=0.01)
    assert len(ends) == 2


def test_it_is_the_command():
    """The same numbers as the command prints."""
    ours = json.loads(scenario(seed=3).run(["tcp", "smsf"]).to_json())
    command = pathlib.Path(sys.executable).parent / "watermaster"
    args = [command, "run", SMALL, "--seed", "3", "--policy", "tcp,smsf", "--json"]
    said = json.loads(subprocess.run(args, capture_output=True, check=True, text=True).stdout)
    said.pop("cost")
    assert ours == said


def test_a_policy_that_the_file_does_not_list_runs_where_it_fits():
    result = scenario().run(["tcp", "srb", Nothing], repeat=2)
    assert result.policies == ["tcp", "srb", "Nothing"]
    args = [pathlib.Path(sys.executable).parent / "watermaster", "run", SMALL, "--policy", "tcp,srb", "--json"]
    said = json.loads(subprocess.run([*args, "--repeat", "2"], capture_output=True, check=True, text=True).stdout)
    assert [own["metrics"] for own in said["results"]] == [result["tcp"], result["srb"]]
    with pytest.raises(wm.ScenarioError, match="sdtcp needs switches"):
        scenario().run(["sdtcp"])


def test_repeats_count_seeds_up_and_have_intervals():
    result = wm.Scenario(FACEBOOK, seed=5, world="fluid", changes=FEW).run(["smsf"], repeat=3)
    assert sorted(set(result.jobs.column("seed"))) == [5, 6, 7]
    rows = zip(*(result.metrics.column(name) for name in ("metric", "value", "interval95")))
    (value, half), = [(v, h) for metric, v, h in rows if metric == "jct_mean_s"]
    assert half > 0 and value == result["smsf"]["jct_mean_s"]


def test_tables_are_arrow():
    import pandas
    import polars
    import pyarrow

    flows = scenario().run().flows
    table = pyarrow.table(flows)
    assert table.column_names == flows.column_names and table.num_rows == len(flows) > 0
    assert table["size_bytes"].to_pylist() == flows.column("size_bytes")
    assert isinstance(flows.to_pandas(), pandas.DataFrame)
    assert polars.DataFrame(flows).equals(flows.to_polars())
    assert flows.to_arrow().equals(table)
    assert pyarrow.table(flows).equals(table), "it can be read again"
    with pytest.raises(KeyError, match="there is no column jct"):
        flows.column("jct")


def test_a_report_is_written(tmp_path):
    scenario().run(["tcp"]).write_report(tmp_path / "report.html")
    assert "<html" in (tmp_path / "report.html").read_text()
    with pytest.raises(OSError):
        scenario().run(["tcp"]).write_report(tmp_path / "none" / "report.html")


class Broken(wm.Policy):
    def decide(self, now, network):
        raise ZeroDivisionError("of its own")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_policy_raises_ends_the_run(jobs, capfd):
    with pytest.raises(ZeroDivisionError, match="of its own"):
        scenario().run(["tcp", Broken, Shortest], jobs=jobs)
    assert capfd.readouterr().err == ""


def test_what_its_constructor_raises_ends_the_run():
    class Unmade(wm.Policy):
        def __init__(self):
            raise LookupError("not made")

    with pytest.raises(LookupError, match="not made"):
        scenario().run([Unmade])


@pytest.mark.parametrize(
    "said, error",
    [
        (lambda: [wm.Pace(0, 3)], "Pace.limit is 3; give 12000 bit/s or more"),
        (lambda: [wm.Pace(0, math.nan)], "Pace.limit is nan"),
        (lambda: [wm.Pace(-1, None)], "Pace.flow is -1"),
        (lambda: [wm.PacePair(0, 99, 1e6)], "PacePair.dst is 99; give the number of a node"),
        (lambda: [wm.Prioritize(0, 256)], "Prioritize.priority is 256"),
        (lambda: [wm.Window(99, None, 1)], "Window.link is 99; give the number of a link"),
        (lambda: ["pace"], "which is no directive"),
        (lambda: 7, "not iterable"),
    ],
)
def test_what_nothing_could_carry_out_is_refused(said, error):
    class Odd(wm.Policy):
        def decide(self, now, network):
            return said()

    with pytest.raises((ValueError, TypeError), match=error):
        scenario().run([Odd])


def test_deadlines_are_kept():
    ticks = []

    class Timer(wm.Policy):
        next = 0.5

        def observe(self, now, network, event):
            if isinstance(event, events.Tick):
                ticks.append(now)
                self.next += 0.5

        def deadline(self):
            return self.next

    scenario(world="fluid").run([Timer])
    assert ticks[:3] == [0.5, 1.0, 1.5]

    class Late(wm.Policy):
        def deadline(self):
            return -1.0

    with pytest.raises(ValueError, match="deadline"):
        scenario().run([Late])


def test_it_sees_what_it_asks_for():
    seen = set()

    class Watching(wm.Policy):
        statistics = 0.1
        ports = 0.1

        def observe(self, now, network, event):
            seen.add(type(event).__name__)

    scenario(changes={"transport.handshake": True}).run([Watching])
    assert {"JobStart", "FlowRequest", "FlowComplete", "JobComplete", "Opened", "Carried", "Ports"} <= seen


@pytest.mark.parametrize("asked", ["statistics", "queues", "ports"])
@pytest.mark.parametrize("error", [AttributeError, KeyError])
def test_what_it_raises_when_asked_what_it_asks_for_ends_the_run(asked, error):
    def period(self):
        raise error("of its own")

    with pytest.raises(error, match="of its own"):
        scenario().run([type("Asking", (wm.Policy,), {asked: property(period)})])


def test_a_class_of_its_own_need_not_say_that_it_asks_for_nothing():
    class Plain:
        def observe(self, now, network, event):
            pass

        def decide(self, now, network):
            return None

        def deadline(self):
            return None

    result = scenario().run(["tcp", Plain])
    assert result["Plain"]["jct_mean_s"] == result["tcp"]["jct_mean_s"]


def test_the_network_is_as_the_file_says():
    class Looking(wm.Policy):
        def observe(self, now, network, event):
            a, b = network.node("h0"), network.node("h1")
            assert [network.name(host) for host in network.hosts] == ["h0", "h1"]
            up, down = network.path(a, b, 1)
            assert network.link(up).source == a and network.link(down).destination == b
            assert network.link(up).capacity == 8_000_000 and network.link(up).up
            assert network.link(up) == network.links[up]
            for wrong in (lambda: network.node("h9"), lambda: network.name(9), lambda: network.link(9)):
                with pytest.raises(KeyError):
                    wrong()
            raise StopIteration

    with pytest.raises(StopIteration):
        scenario().run([Looking])


def test_progress_is_told_and_can_end_it():
    jobs = wm.Scenario(FACEBOOK, changes=FEW)
    parts = []
    jobs.run(["tcp"], progress=parts.append)
    assert parts and all(0 <= part <= 1 for part in parts)

    def enough(part):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.run(["tcp", "smsf"], progress=enough)


def test_what_is_wrong_is_said():
    with pytest.raises(wm.ScenarioError, match="topology.access.capacity"):
        scenario(changes={"topology.access.capacity": "fast"})
    with pytest.raises(wm.ScenarioError, match="no policy other, and none is called so; use one of tcp"):
        scenario().run(["other"])
    with pytest.raises(TypeError, match="give a label or a name, or a class"):
        scenario().run([Nothing()])
    with pytest.raises(wm.ScenarioError, match="there is a policy called"):
        scenario().run([Nothing, Nothing])
    with pytest.raises(ValueError, match="repeat is 1 to"):
        scenario().run(repeat=0)
    with pytest.raises(wm.ScenarioError, match="none.toml"):
        wm.Scenario("none.toml")
    with pytest.raises(KeyError, match="there is no policy x"):
        scenario().run(["tcp"])["x"]


GRID = {"topology.access.capacity": ["8 Mbit/s", "16 Mbit/s"], "seed": [1, 2]}


def test_a_sweep_spans_the_grid():
    points = list(wm.sweep(SMALL, GRID, ["tcp"], world="fluid"))
    assert [tuple(point.changes.values()) for point in points] == [
        ("8 Mbit/s", 1), ("8 Mbit/s", 2), ("16 Mbit/s", 1), ("16 Mbit/s", 2),
    ]
    slow, fast = (points[at].metrics["tcp"]["jct_mean_s"] for at in (0, 2))
    assert slow == pytest.approx(2 * fast, rel=0.01)
    own = scenario(world="fluid", changes=points[2].changes).run(["tcp"])
    assert points[2].json == own.to_json()
    with pytest.raises(wm.ScenarioError, match="fast"):
        next(wm.sweep(SMALL, {"topology.access.capacity": ["8 Mbit/s", "fast"]}))


class Unlucky(wm.Policy):
    """Raises in the third run of those that are counted."""

    runs = 0

    def __init__(self):
        Unlucky.runs += 1

    def decide(self, now, network):
        if Unlucky.runs == 2 * 3:  # each run makes two, one of them to see what it asks for
            raise InterruptedError


def test_a_sweep_goes_on_where_it_stopped(tmp_path):
    heard = []
    again = dict(policies=["tcp", Unlucky], out=tmp_path, world="fluid")
    with pytest.raises(InterruptedError):
        list(wm.sweep(SMALL, GRID, **again))
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(before) == 2
    points = list(wm.sweep(SMALL, GRID, **again, progress=lambda *how: heard.append(how)))
    assert len(points) == 4 and heard == [(2, 4), (2, 4), (3, 4), (4, 4)]
    for name, time in before.items():
        assert (tmp_path / name).stat().st_mtime_ns == time, f"{name} was not run again"
    whole = [point.json for point in wm.sweep(SMALL, GRID, ["tcp", Unlucky], world="fluid")]
    assert [point.json for point in points] == whole
    # Another sweep takes what is the same.
    more = list(wm.sweep(SMALL, {**GRID, "seed": [2, 3]}, **again))
    assert (more[0], more[2]) == (points[1], points[3])
    assert len(list(tmp_path.iterdir())) == 6


SHUFFLE = """
name = "shuffle"
title = "A trace's jobs"
[topology]
kind = "star"
hosts = 3
access = { capacity = "100 Mbit/s", delay = "33 us", buffer = "100 packets" }
[workload]
kind = "shuffle"
jobs = 4
mean_bytes = "100 KB"
load = 0.5
[workload.trace]
file = "trace.tsv"
trace_nodes = 3
[[policy]]
name = "tcp"
[[policy]]
name = "smsf"
"""
TRACE = "".join(
    f"job{at}\t{at}\t{min(at, 1)}\t1000\t{size}\t10\n" for at, size in enumerate([20000, 30000, 20000, 30000])
)


def test_what_a_sweep_keeps_is_known_by_its_content(tmp_path):
    file, trace, kept = (tmp_path / name for name in ("shuffle.toml", "trace.tsv", "kept"))

    def sweep(axes, policies, **how):
        points = list(wm.sweep(file, axes, policies, world="fluid", out=kept, **how))
        return [point.json for point in points], len(list(kept.iterdir()))

    file.write_text(SHUFFLE)
    trace.write_text(TRACE)
    first = sweep({"seed": [1]}, ["tcp"])
    assert first[1] == 1 and first == sweep({"seed": [1]}, ["tcp"])
    # What a policy that isn't run is told is the same, within one sweep too.
    beta = {"policy.smsf.beta": [0.1, 0.2], "seed": [1]}
    assert sweep(beta, ["tcp"]) == (2 * first[0], 1)
    assert sweep(beta, ["smsf"])[1] == 3
    assert sweep({"seed": [1]}, ["tcp"], repeat=2)[1] == 4
    trace.write_text(TRACE.replace("20000", "25000"))
    other = sweep({"seed": [1]}, ["tcp"])
    assert other[1] == 5 and other[0] != first[0]
    trace.write_text(TRACE)
    assert sweep({"seed": [1]}, ["tcp"]) == (first[0], 5)
    file.write_text(SHUFFLE.replace("load = 0.5", "load = 0.6"))
    assert sweep({"seed": [1]}, ["tcp"])[1] == 6
    # Half of a file is none.
    file.write_text(SHUFFLE)
    for path in kept.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert sweep({"seed": [1]}, ["tcp"]) == (first[0], 6)


def test_a_sweep_whose_files_change_ends(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SMALL.read_text())
    points = wm.sweep(file, GRID, ["tcp"], world="fluid", out=tmp_path / "kept")
    next(points)
    file.write_text(SMALL.read_text().replace("3 MB", "4 MB"))
    with pytest.raises(RuntimeError, match="changed since the sweep began"):
        next(points)


def test_what_a_lab_gives_is_not_kept(tmp_path):
    with pytest.raises(wm.ScenarioError, match="isn't kept; leave out"):
        next(wm.sweep(SMALL, GRID, ["tcp"], world="lab", changes={"lab.control": "daemons"}, out=tmp_path))


def test_policies_are_the_catalogue():
    assert {"tcp", "smsf", "srb"} <= set(wm.policies())
