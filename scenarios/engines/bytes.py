#!/usr/bin/env python3
"""What plug-ins say that flows carry, against what the kernel says that their connections did.

    bytes.py LINES      # of watermaster replay --json

Flows with a size, as a shuffle's: the sizes, against all that was acknowledged. Streams: what was counted as delivered
between the first and the last sample, against what was acknowledged between the same times. The unit is the octet.
"""

import bisect
import collections
import json
import sys


def end(address):
    """Host and port; None is any port."""
    host, port = address.rsplit(":", 1)
    return host, None if port == "0" else port


class Connections:
    """What was acknowledged of each connection, by time."""

    def __init__(self):
        self.samples = collections.defaultdict(lambda: ([], []))

    def hear(self, at, report):
        ends = end(report["connection"]["source"]), end(report["connection"]["destination"])
        times, delivered = self.samples[ends]
        times.append(at)
        delivered.append(report["delivered_bytes"])

    def of(self, ends):
        """Those that a declaration's ends can mean."""
        fits = lambda said, seen: said[0] == seen[0] and said[1] in (None, seen[1])
        return [own for own in self.samples if all(map(fits, ends, own))]

    def total(self, ends):
        return sum(max(self.samples[own][1]) for own in self.of(ends))

    def until(self, ends, at):
        """What was acknowledged until then, between two samples in proportion."""
        whole = 0
        for own in self.of(ends):
            times, delivered = self.samples[own]
            place = bisect.bisect_right(times, at)
            if place == 0:
                continue
            whole += delivered[place - 1]
            if place < len(times):
                part = (at - times[place - 1]) / (times[place] - times[place - 1])
                whole += part * (delivered[place] - delivered[place - 1])
        return whole


def main(lines):
    connections = Connections()
    flows = {}  # by application, job and flow: ends and size
    streams = collections.defaultdict(list)  # by the same: times and what was delivered
    for line in lines:
        record = json.loads(line)
        what = record.get("what")
        if not isinstance(what, dict):
            continue
        for report in what.get("connections", []) if what.get("type") == "connections" else []:
            connections.hear(record["at_ns"], report)
        if not record.get("from", "").startswith("application "):
            continue
        application = record["from"].removeprefix("application ")
        if what["type"] == "flow_request":
            ends = end(what["connection"]["source"]), end(what["connection"]["destination"])
            flows[application, what["job"], what["flow"]] = ends, what.get("bytes")
        elif what["type"] == "streams":
            for sample in what["samples"]:
                key = application, what["job"], sample["flow"]
                streams[key].append((record["at_ns"], sample["delivered_bytes"]))

    # Flows whose ends are the same share connections.
    groups = collections.defaultdict(lambda: [0, 0, 0])  # flows, plug-in, kernel
    for (application, job, flow), (ends, size) in flows.items():
        group = groups[application, ends]
        group[0] += 1
        samples = streams[application, job, flow]
        if size is not None:
            group[1] += size
            group[2] = connections.total(ends)
        elif len(samples) > 1:
            (begin, first), (last, delivered) = samples[0], samples[-1]
            group[1] += delivered - first
            group[2] = connections.until(ends, last) - connections.until(ends, begin)

    print(f"{'application':<12} {'flows':>5} {'plug-in':>13} {'kernel':>13} {'ratio':>7}  least, most of a pair")
    worst = 0
    for application in sorted({application for application, _ in groups}):
        own = [group for (name, _), group in groups.items() if name == application and group[2] > 0]
        if not own:
            sys.exit(f"bytes.py: no flow of {application} was found among the connections")
        count, said, seen = (sum(group[place] for group in own) for place in range(3))
        # Of pairs with a hundredth of the octets and more.
        ratios = [group[1] / group[2] for group in own if group[2] >= seen / 100]
        print(f"{application:<12} {count:>5} {said:>13.0f} {seen:>13.0f} {said / seen:>7.4f}  "
              f"{min(ratios):.4f}, {max(ratios):.4f}")
        worst = max(worst, abs(said / seen - 1))
    if worst > 0.02:
        sys.exit("bytes.py: they differ by more than 2 %")


if len(sys.argv) != 2:
    sys.exit(__doc__)
with open(sys.argv[1]) as lines:
    main(lines)
