"""What checks/gather.sh runs: gather.py PROGRAM FOLDER TEST, the folder of pymemcache's source and the test of gomemcache."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

import pylibmc
from pymemcache.client.base import Client
from pymemcache.client.rendezvous import RendezvousHash

SERVERS = 6
# It sets a server's memory (cache_memlimit), which is not a front end's to do.
REFUSED = "pymemcache/test/test_integration.py::test_misc"

program, source, go = sys.argv[1:]
LISTED = json.loads(subprocess.run([program, "policies", "--json"], stdout=subprocess.PIPE, check=True).stdout)
POLICIES = [policy["name"] for policy in LISTED if "how requests are gathered" in policy["decides"]]
assert POLICIES, "no policy gathers"
started = []


def free():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def start(command, port):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started.append(process)
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"gather: {' '.join(command)} does not listen at {port}")
            time.sleep(0.01)


def configuration(policy, hashing, servers, port, straight_below):
    lines = [
        f'policy = {{ name = "{policy}" }}',
        f'pool = {{ hashing = "{hashing}" }}',
        f'[front]\nlisten = "127.0.0.1:{port}"\nstraight_below = {straight_below}',
        '[[rack]]\nname = "r0"\n[[rack]]\nname = "r1"',
    ]
    for place, (server, hub) in enumerate(servers):
        lines.append(
            f'[[server]]\nname = "s{place}"\naddress = "127.0.0.1:{server}"\n'
            f'hub = "127.0.0.1:{hub}"\nrack = "r{place % 2}"'
        )
    return "\n".join(lines) + "\n"


def places(front, servers, count):
    """Where the front end puts keys."""
    client = Client(("127.0.0.1", front))
    for number in range(count):
        client.set(f"key:{number}", "x", noreply=False)
    clients = [Client(("127.0.0.1", port)) for port, _ in servers]
    found = [[at for at, one in enumerate(clients) if one.get(f"key:{number}")] for number in range(count)]
    assert all(len(at) == 1 for at in found), found
    return [at[0] for at in found]


def main(folder):
    servers = [(free(), free()) for _ in range(SERVERS)]
    addresses = [f"127.0.0.1:{port}" for port, _ in servers]
    for port, _ in servers:
        start(["memcached", "-u", "nobody", "-m", "32", "-t", "1", "-l", "127.0.0.1", "-p", str(port)], port)

    def serve(name, policy, hashing, straight_below):
        port = free()
        file = os.path.join(folder, f"{name}.toml")
        with open(file, "w") as out:
            out.write(configuration(policy, hashing, servers, port, straight_below))
        subprocess.run([program, "gather", "front", "--config", file, "--check"], check=True)
        front = start([program, "gather", "front", "--config", file], port)
        return file, port, front

    for hashing in ["ketama", "rendezvous"]:
        _, port, front = serve(hashing, "one-all", hashing, 8)
        ours = places(port, servers, 1000)
        if hashing == "ketama":
            other = pylibmc.Client(addresses, behaviors={"ketama_weighted": True})
            assert all(other.get(f"key:{n}") == b"x" for n in range(1000)), "libmemcached looks elsewhere"
        else:
            ring = RendezvousHash(addresses)
            assert ours == [addresses.index(ring.get_node(f"key:{n}")) for n in range(1000)], "pymemcache looks elsewhere"
        Client(("127.0.0.1", port)).flush_all(noreply=False)
        front.terminate()
        print(f"gather: {hashing}: 1000 keys are where other clients look for them")

    file, _, front = serve("hubs", "sicc", "ketama", 1)
    front.terminate()
    for place, (_, hub) in enumerate(servers):
        start([program, "gather", "hub", "--config", file, "--server", f"s{place}"], hub)
    failed = False
    for policy in POLICIES:
        # Even one key goes the policy's way.
        _, port, front = serve(policy, policy, "ketama", 1)
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "integration",
             f"--deselect={REFUSED}", "--server=127.0.0.1", f"--port={port}", "pymemcache/test/test_integration.py"],
            cwd=source, capture_output=True, text=True, check=False,
        )
        summary = ran.stdout.strip().splitlines()[-1:]
        if ran.returncode or not re.search(r"\d+ passed", "".join(summary)):
            print(ran.stdout[-4000:], ran.stderr[-1000:])
            failed = True
        print(f"gather: {policy}: pymemcache's tests: {''.join(summary)}")
        # Of its tests this is the one of a server that runs already.
        ran = subprocess.run(
            [go, "-test.v", "-test.run=^TestLocalhost$"],
            env={**os.environ, "MEMCACHED": f"127.0.0.1:{port}"}, capture_output=True, text=True, check=False,
        )
        summary = re.findall(r"^--- .*", ran.stdout, re.MULTILINE)
        if ran.returncode or not any(line.startswith("--- PASS") for line in summary):
            print(ran.stdout[-4000:], ran.stderr[-1000:])
            failed = True
        print(f"gather: {policy}: gomemcache's tests: {''.join(summary)}")
        front.terminate()
    sys.exit(failed)


with tempfile.TemporaryDirectory() as work:
    try:
        main(work)
    finally:
        for process in started:
            process.kill()
            process.wait()
