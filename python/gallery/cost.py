"""What a policy in Python costs beside the same in Rust: processor time of the demo's runs, without that of tcp.

    python python/gallery/cost.py
"""

import os
import time

import watermaster as wm


class Nothing(wm.Policy):
    """Hears all and says nothing: what the way into Python costs."""

    calls = 0

    def observe(self, now, network, event):
        Nothing.calls += 1

    def decide(self, now, network):
        Nothing.calls += 1


root = os.environ.get("WATERMASTER_ROOT", ".")
scenario = wm.Scenario(f"{root}/scenarios/phurti/facebook-100-jobs.toml", world="fluid")


def cost(policy):
    """Seconds of processor time, the least of five runs."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        scenario.run([policy], jobs=1)
        times.append(time.process_time() - begin)
    return min(times)


# Each run has tcp beside it, as baseline.
tcp = cost("tcp")
passed = cost(Nothing) - tcp
# One more was made in each run, which nobody called.
calls = Nothing.calls // 5
print(f"Python: {calls} calls, {passed / calls * 1e6:.1f} us each")
print(f"Rust (smsf): {(cost('smsf') - tcp) / calls * 1e6:.1f} us for each of these calls, deciding included")
