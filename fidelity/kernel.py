#!/usr/bin/env python3
"""Measures the kernel's own TCP in network namespaces, for the packet simulator to be held against.

A sender namespace per flow, one bridge in a namespace of its own, one receiver. The bridge's port
towards the receiver is the bottleneck: HTB at 100 Mbit/s (counted as the simulator counts, on IP
packets) over a drop-tail queue of 100 packets. Prints one JSON object per case. Needs root and
iproute2, touches nothing outside its namespaces, and says so when it can't run.

    fidelity/kernel.py [--case NAME]... [--repeats N] [--congestion-control reno|cubic]
                       [--no-sack] [--stock]
    fidelity/kernel.py --cleanup     remove what a killed run left behind
"""

import argparse
import contextlib
import ctypes
import json
import os
import platform
import re
import selectors
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time

PREFIX = "wm-fid"
NETNS = "/run/netns"
PORT = 5001

CAPACITY_BPS = 100_000_000  # of IP packets
BUFFER_PACKETS = 100
MTU = 1500
FRAME = MTU + 14  # HTB counts the Ethernet header, the simulator doesn't
# What HTB lets pass at once after a pause. Two frames are the least that keeps the port busy; more
# would add to the buffer, which the simulator's doesn't.
BURST = 2 * FRAME
RTO_MIN_MS = 200
INITIAL_WINDOW = 10
SOCKET_BUFFER = 8 << 20
# A run that takes longer has hung.
DEADLINE_S = 30

# name: (number of senders, octets each)
CASES = {
    "single": (1, 20_000_000),
    "two": (2, 10_000_000),
    "incast-10": (10, 256_000),
    "incast-20": (20, 256_000),
    "incast-40": (40, 256_000),
}

# For every namespace of hosts. No IPv6, so that nothing but the flows crosses the bridge.
ALWAYS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_ecn": "0",
    "net/ipv4/tcp_rmem": f"4096 {SOCKET_BUFFER} {SOCKET_BUFFER}",
    "net/ipv4/tcp_wmem": f"4096 {SOCKET_BUFFER} {SOCKET_BUFFER}",
}
# What the simulator's TCP doesn't have, off as far as it can be (README.md tells the rest): a packet
# is then 1460 octets of payload in 1500.
AS_SIMULATED = {
    "net/ipv4/tcp_timestamps": "0",
    "net/ipv4/tcp_recovery": "0",  # RACK, in kernels that can do without
    "net/ipv4/tcp_early_retrans": "0",  # tail loss probe
    "net/ipv4/tcp_frto": "0",
    "net/ipv4/tcp_dsack": "0",
}


class Skip(Exception):
    """The machine can't do this; the text says why and what helps."""


def check_machine(congestion_control):
    if not sys.platform.startswith("linux"):
        raise Skip("network namespaces need Linux")
    if os.geteuid() != 0:
        raise Skip("namespaces need root; run it with sudo")
    for tool in ("ip", "tc"):
        if not shutil.which(tool):
            raise Skip(f"{tool} is missing; install iproute2")
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as available:
        if congestion_control not in available.read().split():
            raise Skip(f"the kernel has no {congestion_control}; try modprobe tcp_{congestion_control}")


def run(*command, feed=None):
    """Runs a command; a failure carries what the command said."""
    # In a session of its own, so that an interrupt from the terminal doesn't cut a removal short.
    done = subprocess.run(command, input=feed, capture_output=True, text=True, start_new_session=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def enter(descriptor):
    if LIBC.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def inside(namespace):
    """The calling thread is in `namespace` meanwhile; sockets made there stay there."""
    with open("/proc/self/ns/net") as home, open(f"{NETNS}/{namespace}") as there:
        enter(there.fileno())
        try:
            yield
        finally:
            enter(home.fileno())


def remove_namespaces(names):
    """Removes those that exist; one that resists doesn't spare the others."""
    there = [f"netns delete {name}\n" for name in names if os.path.exists(f"{NETNS}/{name}")]
    run("ip", "-force", "-batch", "-", feed="".join(there))


def leftovers():
    """Namespaces of runs whose process is gone."""
    found = []
    for name in sorted(os.listdir(NETNS)) if os.path.isdir(NETNS) else []:
        match = re.fullmatch(rf"{PREFIX}-(\d+)-\w+", name)
        if match and not os.path.exists(f"/proc/{match[1]}"):
            found.append(name)
    return found


class Star:
    """`senders` hosts and one receiver around a bridge; leaving it removes all of it.

    Everything lives in the namespaces, so that removing them removes everything.
    """

    def __init__(self, senders, stock, sack):
        own = f"{PREFIX}-{os.getpid()}"
        self.switch = f"{own}-s"
        self.receiver = f"{own}-r"
        self.senders = [f"{own}-h{number}" for number in range(senders)]
        self.hosts = [self.receiver, *self.senders]
        self.stock = stock
        self.settings = {"net/ipv4/tcp_sack": str(int(sack))} | ALWAYS | ({} if stock else AS_SIMULATED)

    def __enter__(self):
        try:
            self.build()
        except (OSError, RuntimeError) as error:
            self.remove()
            raise Skip(f"the network can't be built: {error}") from error
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        # A second signal must not stop the removal halfway.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
        try:
            remove_namespaces([*self.hosts, self.switch])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @staticmethod
    def address(host):
        return f"10.0.0.{host + 1}"

    def build(self):
        run("ip", "-batch", "-", feed="".join(f"netns add {name}\n" for name in [self.switch, *self.hosts]))
        for name in [self.switch, *self.hosts]:
            with inside(name):
                for key, value in self.settings.items():
                    with contextlib.suppress(FileNotFoundError), open(f"/proc/sys/{key}", "w") as setting:
                        setting.write(value)
        bridge = ["link add br0 type bridge stp_state 0 mcast_snooping 0", "link set br0 up"]
        for host, name in enumerate(self.hosts):
            bridge += [
                f"link add p{host} type veth peer name eth0 netns {name}",
                f"link set p{host} master br0",
                f"link set p{host} up",
            ]
        self.ip(self.switch, bridge)
        for host, name in enumerate(self.hosts):
            # The receiver acknowledges every segment at once, senders have the RTO of the case.
            metrics = f"rto_min {RTO_MIN_MS}ms initcwnd {INITIAL_WINDOW}"
            if not self.stock:
                metrics += " quickack 1"
            self.ip(name, [
                f"link set eth0 mtu {MTU} gso_max_segs 1",
                "link set eth0 up",
                f"address add {self.address(host)}/32 dev eth0",
                f"route add 10.0.0.0/24 dev eth0 src {self.address(host)} {metrics}",
            ])
        rate = CAPACITY_BPS * FRAME // MTU
        shape = [
            "qdisc add dev p0 root handle 1: htb default 1",
            f"class add dev p0 parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit"
            f" burst {BURST}b cburst {BURST}b quantum {FRAME}",
            f"qdisc add dev p0 parent 1:1 handle 10: pfifo limit {BUFFER_PACKETS}",
        ]
        run("tc", "-n", self.switch, "-batch", "-", feed="\n".join(shape) + "\n")

    @staticmethod
    def ip(namespace, lines):
        run("ip", "-n", namespace, "-batch", "-", feed="\n".join(lines) + "\n")

    def drops(self):
        """Packets that the bottleneck's buffer had no room for, so far."""
        disciplines = json.loads(run("tc", "-n", self.switch, "-s", "-j", "qdisc", "show", "dev", "p0"))
        return sum(one["drops"] for one in disciplines if one["kind"] == "pfifo")


def info(connection):
    """What the kernel says of a connection (struct tcp_info, linux/tcp.h); old kernels say less."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)

    def field(layout, offset):
        size = struct.calcsize(layout)
        return struct.unpack_from(layout, raw, offset)[0] if len(raw) >= offset + size else None

    options = field("B", 5)
    return {
        "timestamps": bool(options & 1),
        "sack": bool(options & 2),
        "mss": field("I", 16),
        "retransmissions": field("I", 100),
        "min_rtt_us": field("I", 148),
        "timeouts": field("H", 240),
    }


def connect(star, congestion_control):
    """A connection from every sender to the receiver: the sockets at both ends."""
    pairs = []
    with inside(star.receiver):
        listener = socket.create_server((star.address(0), PORT), backlog=len(star.senders))
    with listener:
        listener.settimeout(DEADLINE_S)
        for name in star.senders:
            with inside(name):
                sender = socket.socket()
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
            sender.settimeout(DEADLINE_S)
            sender.connect((star.address(0), PORT))
            receiver, _ = listener.accept()
            pairs.append((sender, receiver))
    for pair in pairs:
        for end in pair:
            end.setblocking(False)
    return pairs


def transfer(pairs, size):
    """Sends `size` octets over every connection.

    Returns the seconds from the first sender's start to the last's, and to each receiver's end.
    """
    payload = memoryview(bytes(1 << 20))
    sink = bytearray(1 << 20)
    sent = [0] * len(pairs)
    received = [0] * len(pairs)
    ends = [None] * len(pairs)
    with selectors.EpollSelector() as selector:

        def push(number):
            sender = pairs[number][0]
            while sent[number] < size:
                try:
                    sent[number] += sender.send(payload[: size - sent[number]])
                except BlockingIOError:
                    return
            with contextlib.suppress(KeyError):
                selector.unregister(sender)

        for number, (sender, receiver) in enumerate(pairs):
            selector.register(sender, selectors.EVENT_WRITE, (push, number))

        def pull(number):
            receiver = pairs[number][1]
            got = receiver.recv_into(sink)
            if got == 0:
                raise RuntimeError("a connection closed before its transfer ended")
            received[number] += got
            if received[number] == size:
                ends[number] = time.monotonic()
                selector.unregister(receiver)

        for number, (_, receiver) in enumerate(pairs):
            selector.register(receiver, selectors.EVENT_READ, (pull, number))

        start = time.monotonic()
        for number in range(len(pairs)):
            last = time.monotonic()
            push(number)
        while None in ends:
            for key, _ in selector.select(timeout=1):
                act, number = key.data
                act(number)
            if time.monotonic() - start > DEADLINE_S:
                raise RuntimeError(f"not complete after {DEADLINE_S} s")
    return last - start, [end - start for end in ends]


def measure(star, size, congestion_control):
    """One repeat on fresh connections."""
    drops = star.drops()
    pairs = connect(star, congestion_control)
    try:
        start_spread, times = transfer(pairs, size)
        said = [info(sender) for sender, _ in pairs]
    finally:
        for sender, receiver in pairs:
            sender.close()
            receiver.close()
    rates = [size * 8 / taken for taken in times]
    timeouts = [one["timeouts"] for one in said]
    return said[0], {
        "throughput_bps": size * len(pairs) * 8 / max(times),
        "completion_s": max(times),
        "completion_mean_s": statistics.fmean(times),
        "retransmissions": sum(one["retransmissions"] for one in said),
        "timeouts": None if None in timeouts else sum(timeouts),
        "drops": star.drops() - drops,
        "start_spread_s": start_spread,
        "min_rtt_us": min(one["min_rtt_us"] for one in said),
        "jain_index": sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates)),
    }


def spread(values):
    if None in values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def case(name, repeats, congestion_control, stock, sack):
    senders, size = CASES[name]
    with Star(senders, stock, sack) as star:
        runs = [measure(star, size, congestion_control) for _ in range(repeats)]
    said = runs[-1][0]
    results = [result for _, result in runs]
    return {
        "case": name,
        "kernel": platform.release(),
        "congestion_control": congestion_control,
        "senders": senders,
        "bytes_each": size,
        "capacity_bps": CAPACITY_BPS,
        "buffer_packets": BUFFER_PACKETS,
        "mss": said["mss"],
        "initial_window": INITIAL_WINDOW,
        "rto_min_ms": RTO_MIN_MS,
        "sack": said["sack"],
        "timestamps": said["timestamps"],
        "delayed_ack": stock,
        "tail_loss_probe": stock,
        "repeats": repeats,
        "results": {key: spread([result[key] for result in results]) for key in results[0]},
    }


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop(number, _):
    sys.exit(128 + number)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; may be repeated")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each case (default: 7)")
    parser.add_argument("--congestion-control", choices=("reno", "cubic"), default="reno")
    parser.add_argument("--no-sack", action="store_true", help="without selective acknowledgements")
    parser.add_argument("--stock", action="store_true",
                        help="leave tail loss probe, delayed ACK and timestamps as the kernel has them")
    parser.add_argument("--cleanup", action="store_true", help="remove what killed runs left behind, and end")
    chosen = parser.parse_args()
    if chosen.repeats < 1:
        parser.error("--repeats is at least 1")
    return chosen


def main():
    chosen = arguments()
    for number in SIGNALS:
        signal.signal(number, stop)
    try:
        check_machine(chosen.congestion_control)
        if chosen.cleanup:
            removed = leftovers()
            remove_namespaces(removed)
            print(json.dumps({"removed": removed}))
            return
        for name in chosen.case or CASES:
            result = case(name, chosen.repeats, chosen.congestion_control, chosen.stock, not chosen.no_sack)
            print(json.dumps(result), flush=True)
    except Skip as reason:
        print(json.dumps({"skipped": str(reason)}))


if __name__ == "__main__":
    main()
