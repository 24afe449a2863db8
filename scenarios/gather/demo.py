"""What scenarios/gather/demo.sh runs; its head says what it is."""

import argparse
import ctypes
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCENARIO = os.path.join(HERE, "racks.toml")
KEYS = 20_000
SEED = 1
PORT, HUB, PROXY, FRONT = 11211, 11311, 22121, 21000
# Each of them is a front end, with its policy.
POLICIES = {
    "one-all": 'name = "one-all"',
    "sw": 'name = "sw"',
    "sw-ictcp": 'name = "sw-ictcp"',
    "sicc": 'name = "sicc"',
    "unpacked": 'name = "sicc", pack = false',
    "sicc-joint": 'name = "sicc-joint"',
}
METHODS = ["client", "twemproxy", *POLICIES]
# Above the kernel's least retransmission timeout, 200 ms, after which a hub that lost a packet is heard again.
PATIENCE = "500 ms"
DEADLINE = "5 s"


def key(number):
    return f"object:{number}"


def value(number):
    """20 to 1000 octets that name their key."""
    size = random.Random(f"{SEED} {number}").randint(20, 1000)
    return (f"{number}:" + "x" * size)[: max(size, len(f"{number}:"))].encode()


def client(servers):
    """In the front end's namespace: a stock client. Reads what to ask from standard input, a JSON a line, and answers so."""
    import pylibmc

    behaviors = {"ketama_weighted": True, "tcp_nodelay": True}
    ways = {"client": pylibmc.Client(servers, behaviors=behaviors)}
    ways["twemproxy"] = pylibmc.Client([f"127.0.0.1:{PROXY}"], behaviors={"tcp_nodelay": True})
    for place, policy in enumerate(POLICIES):
        ways[policy] = pylibmc.Client([f"127.0.0.1:{FRONT + place}"], behaviors={"tcp_nodelay": True})
    for start in range(0, KEYS, 1000):
        failed = ways["client"].set_multi({key(n): value(n) for n in range(start, start + 1000)})
        assert not failed, f"not stored: {failed[:3]}"
    print("ready", flush=True)
    for line in sys.stdin:
        method, numbers = json.loads(line)
        names = [key(number) for number in numbers]
        begin = time.perf_counter()
        try:
            found = ways[method].get_multi(names)
        except pylibmc.Error as error:
            print(json.dumps({"error": str(error)}), flush=True)
            continue
        took = time.perf_counter() - begin
        wrong = sum(found.get(key(number), value(number)) != value(number) for number in numbers)
        print(json.dumps({"took": took, "missing": len(names) - len(found), "wrong": wrong}), flush=True)


class Lab:
    """A lab and what runs in it."""

    def __init__(self, program, racks, hosts):
        self.program, self.started = program, []
        self.name = f"gather{os.getpid()}"
        self.racks, self.hosts = racks, racks * hosts
        self.sizes = [f"topology.racks={racks}", f"topology.racks_per_router={racks}", f"topology.hosts_per_rack={hosts}"]

    def __enter__(self):
        begin = time.monotonic()
        changes = [word for change in self.sizes for word in ("--set", change)]
        command = [self.program, "lab", "up", SCENARIO, "--name", self.name, *changes]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        pairs = (line.split() for line in told.splitlines() if line.startswith("  h"))
        self.address = {pair[0]: pair[1] for pair in pairs}
        self.built = time.monotonic() - begin
        return self

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
            process.wait()
        subprocess.run([self.program, "lab", "down", self.name], check=True, capture_output=True)

    def start(self, host, command, **more):
        more = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more}
        command = ["ip", "netns", "exec", f"wm-{self.name}-{host}", *command]
        process = subprocess.Popen(command, **more)
        self.started.append(process)
        return process

    def inside(self, room, act):
        """What `act` returns in a namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        other = os.open(f"/run/netns/wm-{self.name}-{room}", os.O_RDONLY)
        try:
            if libc.setns(other, 0):
                raise OSError(ctypes.get_errno(), "setns")
            return act()
        finally:
            libc.setns(own, 0)
            os.close(own)
            os.close(other)

    def wait(self, host, address, port):
        """Until somebody listens."""
        end = time.monotonic() + 60

        def connect():
            with socket.socket() as sock:
                sock.settimeout(1)
                return sock.connect_ex((address, port)) == 0

        while not self.inside(host, connect):
            if time.monotonic() > end:
                sys.exit(f"gather-demo: nobody listens at {address}:{port} of {host}")
            time.sleep(0.02)

    def counters(self):
        """Packets that came to the router from racks, segments that hosts sent again, packets that came to h0."""

        def ports():
            rows = open("/proc/net/dev").read().splitlines()[2:]
            counts = {row.split(":")[0].strip(): int(row.split(":")[1].split()[1]) for row in rows}
            return sum(count for name, count in counts.items() if name.startswith("c") and name.endswith("a"))

        def again():
            rows = [row.split() for row in open("/proc/thread-self/net/snmp") if row.startswith("Tcp:")]
            return int(rows[1][rows[0].index("RetransSegs")])

        def came():
            rows = open("/proc/net/dev").read().splitlines()[2:]
            return next(int(row.split(":")[1].split()[1]) for row in rows if row.strip().startswith("eth0"))

        sent_again = sum(self.inside(f"h{host}", again) for host in range(self.hosts))
        return self.inside("agg0", ports), sent_again, self.inside("h0", came)


def configuration(lab, policy, port):
    address = lab.address
    lines = [
        f'policy = {{ {POLICIES[policy]} }}\npool = {{ hashing = "ketama" }}',
        f'[front]\nlisten = "127.0.0.1:{port}"\nrate = "100 Mbit/s"\nserver_rate = "100 Mbit/s"\nbuffer = "100 KB"',
        f'patience = "{PATIENCE}"\ndeadline = "{DEADLINE}"',
        *(f'[[rack]]\nname = "r{rack}"' for rack in range(lab.racks)),
    ]
    for host in range(1, lab.hosts):
        at, rack = address[f"h{host}"], host * lab.racks // lab.hosts
        lines.append(f'[[server]]\nname = "h{host}"\naddress = "{at}:{PORT}"\nhub = "{at}:{HUB}"\nrack = "r{rack}"')
    return "\n".join(lines) + "\n"


def bring_up(lab, folder):
    """Servers, hubs, front ends and the proxy; seconds that it took."""
    begin = time.monotonic()
    servers = range(1, lab.hosts)
    for host in servers:
        at = lab.address[f"h{host}"]
        lab.start(f"h{host}", ["memcached", "-u", "nobody", "-m", "8", "-t", "1", "-l", at, "-p", str(PORT)])
    for place, policy in enumerate(POLICIES):
        with open(os.path.join(folder, f"{policy}.toml"), "w") as out:
            out.write(configuration(lab, policy, FRONT + place))
    hubs = os.path.join(folder, "sicc.toml")
    for host in servers:
        lab.start(f"h{host}", [lab.program, "gather", "hub", "--config", hubs, "--server", f"h{host}"])
    pool = {"listen": f"127.0.0.1:{PROXY}", "hash": "md5", "distribution": "ketama", "timeout": 5000}
    proxy = os.path.join(folder, "nutcracker.yml")
    with open(proxy, "w") as out:
        out.write("pool:\n" + "".join(f"  {name}: {what}\n" for name, what in pool.items()) + "  servers:\n")
        out.writelines(f"   - {lab.address[f'h{host}']}:{PORT}:1\n" for host in servers)
    for host in servers:
        lab.wait(f"h{host}", lab.address[f"h{host}"], PORT)
        lab.wait(f"h{host}", lab.address[f"h{host}"], HUB)
    # A port of its own for its statistics, which nobody else has in this namespace.
    lab.start("h0", ["nutcracker", "-c", proxy])
    lab.wait("h0", "127.0.0.1", PROXY)
    for place, policy in enumerate(POLICIES):
        file = os.path.join(folder, f"{policy}.toml")
        lab.start("h0", [lab.program, "gather", "front", "--config", file])
        lab.wait("h0", "127.0.0.1", FRONT + place)
    return time.monotonic() - begin


def measure(lab, options):
    servers = [f"{lab.address[f'h{host}']}:{PORT}" for host in range(1, lab.hosts)]
    command = [sys.executable, os.path.abspath(__file__), "--client", *servers]
    asker = lab.start("h0", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, text=True)
    if asker.stdout.readline() != "ready\n":
        sys.exit("gather-demo: the client could not store the objects")

    def ask(method, numbers):
        asker.stdin.write(json.dumps([method, numbers]) + "\n")
        asker.stdin.flush()
        return json.loads(asker.stdout.readline())

    draw = random.Random(SEED)
    results = {method: {"took": [], "errors": 0, "missing": 0, "wrong": 0, "counts": [0, 0, 0]} for method in METHODS}
    # The first request of each opens its connections and is not counted.
    for method in METHODS:
        ask(method, draw.sample(range(KEYS), options.objects))
    for turn in range(options.rounds):
        # Requests are the same for all; who begins moves on, so that what else the machine does strikes all.
        asked = [draw.sample(range(KEYS), options.objects) for _ in range(options.requests)]
        for method in METHODS[turn % len(METHODS) :] + METHODS[: turn % len(METHODS)]:
            result, before = results[method], lab.counters()
            for numbers in asked:
                said = ask(method, numbers)
                if "error" in said:
                    result["errors"] += 1
                    continue
                result["took"].append(said["took"])
                result["missing"] += said["missing"]
                result["wrong"] += said["wrong"]
            for place, (old, new) in enumerate(zip(before, lab.counters())):
                result["counts"][place] += new - old
    return results


def main():
    parser = argparse.ArgumentParser(prog="scenarios/gather/demo.sh")
    parser.add_argument("program")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--racks", type=int, default=6)
    parser.add_argument("--hosts", type=int, default=20, help="in each rack")
    parser.add_argument("--objects", type=int, default=1000, help="of a request")
    parser.add_argument("--requests", type=int, default=20, help="of each method in a round")
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    program = os.path.abspath(options.program)
    with tempfile.TemporaryDirectory() as folder, Lab(program, options.racks, options.hosts) as lab:
        os.chmod(folder, 0o755)
        started = bring_up(lab, folder)
        results = measure(lab, options)
        asked = options.requests * options.rounds
        rows = []
        for method, result in results.items():
            took = sorted(result["took"]) or [float("nan")]
            packets, again, came = (count / asked for count in result["counts"])
            rows.append({
                "method": method,
                "mean_ms": statistics.fmean(took) * 1e3,
                "p99_ms": took[min(len(took) - 1, len(took) * 99 // 100)] * 1e3,
                "packets_between_racks": packets,
                "retransmissions": again,
                "objects_per_packet": options.objects / came if came else 0,
                "errors": result["errors"],
                "missing": result["missing"],
                "wrong": result["wrong"],
            })
    packets = {row["method"]: row["packets_between_racks"] for row in rows}
    told = {
        "servers": lab.hosts - 1, "racks": lab.racks, "objects": options.objects, "requests": asked,
        "compression_ratio": packets["unpacked"] / packets["sicc"],
        "lab_up_s": lab.built, "services_up_s": started, "methods": rows,
    }
    if options.json:
        print(json.dumps(told, indent=2))
    else:
        print(f"{told['servers']} servers in {lab.racks} racks, {asked} requests of {options.objects} objects each;")
        print(f"the lab stood after {lab.built:.1f} s, servers and hubs {started:.1f} s later\n")
        heads = ["", "mean ms", "p99 ms", "packets between racks", "retransmissions", "objects a packet", "errors"]
        print("{:<11}{:>9}{:>9}{:>23}{:>17}{:>18}{:>8}".format(*heads))
        for row in rows:
            print("{method:<11}{mean_ms:>9.1f}{p99_ms:>9.1f}{packets_between_racks:>23.0f}{retransmissions:>17.1f}"
                  "{objects_per_packet:>18.2f}{errors:>8}".format(**row))
        print(f"\ncompression ratio (packets between racks of sicc without and with packing): {told['compression_ratio']:.2f}")
    if any(row["wrong"] or row["missing"] or row["errors"] for row in rows):
        # Who refuses has no time: means would be of the others.
        sys.exit("gather-demo: values were wrong or missing, or requests were refused")


if sys.argv[1:2] == ["--client"]:
    client(sys.argv[2:])
else:
    main()
