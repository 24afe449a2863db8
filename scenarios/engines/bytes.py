#!/usr/bin/env python3
"""What plug-ins say that flows carry, against what the kernel says that their connections did.

    bytes.py LINES      # of watermaster replay --json

Flows with a size, as a shuffle's: the sizes, against all that was acknowledged. Streams: what was counted as delivered
between the first and the last sample, against what was acknowledged between the same times. The unit is the octet.
Fails where sums or pairs are too far apart, where connections to or from the same ports carried what isn't declared, and
where what is declared is on no connection. A plug-in that declares nothing of a whole service isn't noticed.
"""

import bisect
import collections
import json
import sys

# How far the sums may be apart, and how much may be on one side alone; and how far a pair of ends, whose connection may
# have carried something after its last sample.
SUMS = 0.02
PAIRS = 0.2


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


def service(flows):
    """Which end of an application's flows is a service's, and its ports: the end that has fewer of them."""
    ports = [{ends[side][1] for ends, _ in flows} - {None} for side in (0, 1)]
    side = min((side for side in (0, 1) if ports[side]), key=lambda side: len(ports[side]), default=None)
    return side, ports[side] if side is not None else set()


def judge(lines):
    """Of each application a line of a table, and what is wrong."""
    connections = Connections()
    flows = collections.defaultdict(dict)  # of each application by job and flow: ends and size
    streams = collections.defaultdict(list)  # by all three: times and what was delivered
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
            flows[application][what["job"], what["flow"]] = ends, what.get("bytes")
        elif what["type"] == "streams":
            for sample in what["samples"]:
                key = application, what["job"], sample["flow"]
                streams[key].append((record["at_ns"], sample["delivered_bytes"]))

    rows, wrong = [], []
    for application, own in sorted(flows.items()):
        # Flows whose ends are the same share connections.
        groups = collections.defaultdict(lambda: [0, 0, 0])  # flows, plug-in, kernel
        for (job, flow), (ends, size) in own.items():
            group = groups[ends]
            group[0] += 1
            samples = streams[application, job, flow]
            if size is not None:
                group[1] += size
                group[2] = connections.total(ends)
            elif len(samples) > 1:
                (begin, first), (last, delivered) = samples[0], samples[-1]
                group[1] += delivered - first
                group[2] = connections.until(ends, last) - connections.until(ends, begin)
        count, said, seen = (sum(group[place] for group in groups.values()) for place in range(3))
        if not seen:
            wrong.append(f"no flow of {application} was found among the connections")
            continue
        # What the plug-in says and no connection carried.
        invented = sum(group[1] for group in groups.values() if not group[2])
        # What connections of the same service carried between hosts, of which the plug-in says nothing.
        declared = {connection for ends in groups for connection in connections.of(ends)}
        side, ports = service(own.values())
        missed = sum(
            max(delivered)
            for ends, (_, delivered) in connections.samples.items()
            if side is not None and ends[side][1] in ports and ends[0][0] != ends[1][0] and ends not in declared
        )
        # Of pairs with a hundredth of the octets and more.
        ratios = [group[1] / group[2] for group in groups.values() if group[2] >= seen / 100]
        least, most = min(ratios, default=1), max(ratios, default=1)
        rows.append((application, count, said, seen, said / seen, missed, invented, least, most))
        if abs(said / seen - 1) > SUMS:
            wrong.append(f"{application}: the sums differ by more than {SUMS:.0%}")
        if missed > SUMS * seen:
            wrong.append(f"{application}: connections that aren't declared carried {missed / seen:.0%} beside")
        if invented > SUMS * seen:
            wrong.append(f"{application}: of what is said {invented / said:.0%} is on no connection")
        if not all(abs(ratio - 1) <= PAIRS for ratio in ratios):
            wrong.append(f"{application}: a pair differs by more than {PAIRS:.0%}")
    if not rows and not wrong:
        wrong.append("nothing is declared")
    return rows, wrong


def main(lines):
    rows, wrong = judge(lines)
    print(f"{'application':<12} {'flows':>5} {'plug-in':>13} {'kernel':>13} {'ratio':>7} {'missed':>11} {'invented':>11}"
          "  least, most of a pair")
    for application, count, said, seen, ratio, missed, invented, least, most in rows:
        print(f"{application:<12} {count:>5} {said:>13.0f} {seen:>13.0f} {ratio:>7.4f} {missed:>11.0f} {invented:>11.0f}"
              f"  {least:.4f}, {most:.4f}")
    if wrong:
        sys.exit("\n".join(f"bytes.py: {what}" for what in wrong))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1]) as lines:
        main(lines)
