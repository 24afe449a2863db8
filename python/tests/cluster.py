"""A sweep of 200 cells in one process, with two runs at a time, and on a Ray cluster of two machines of which one is killed
half way: the same bytes, and what each took. cluster.py [CELLS]"""

import pathlib
import sys
import time

import ray
from ray.cluster_utils import Cluster

import watermaster as wm

SCENARIO = pathlib.Path(__file__).resolve().parents[2] / "scenarios/phurti/facebook-100-jobs.toml"
CELLS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
AXES = {"seed": list(range(1, CELLS // 4 + 1)), "workload.load": [0.5, 0.7, 0.9, 1.5]}


class Nothing(wm.Policy):
    """A class of this file travels to the machines."""


def timed(name, **how):
    begin = time.monotonic()
    points = wm.sweep(SCENARIO, AXES, ["tcp", "srb", Nothing], world="fluid", **how)
    said = [point.json for point in points]
    took = time.monotonic() - begin
    found.append(f"{name}: {len(said)} cells, {took:.1f} s, {took / len(said) * 1e3:.0f} ms a cell")
    return said


def killed(cluster, node):
    """Hears of progress, and kills a machine half way."""

    def hear(done, of):
        if done == of // 2 and node in cluster.list_all_nodes():
            cluster.remove_node(node, allow_graceful=False)
            found.append(f"a machine was killed after {done} cells")

    return hear


found = []
one = timed("one process, one run at a time", jobs=1)
assert timed("one process, two runs at a time", jobs=2) == one
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
second = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)
assert timed("two machines", on=cluster.address) == one
assert timed("two machines, one killed", on=cluster.address, progress=killed(cluster, second)) == one
assert second not in cluster.list_all_nodes(), "no machine was killed"
ray.shutdown()
cluster.shutdown()
# Last, for the machine that was killed had a lot to say.
print("\n".join(found))
print("all results are equal to the last byte")
