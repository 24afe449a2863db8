"""Kills what `watermaster gather` consists of while requests run: gather_faults.py PROGRAM [REQUESTS].

Twelve memcached servers in three racks, with their hubs, two copies of each key, and a front end under `sicc`. Four
clients ask for 100 keys at a time. For each fault 1,000 requests, of which every fiftieth first has a process killed (by
its number, SIGKILL) and started again. A request that is refused, or whose connection ends, is said again. Exits 1 if a
value was wrong or an answer was none, if a value was missing that no killed server had, if a request was not answered at
all, if a front end took longer than its deadline and a second to answer, or if not all requests were timed."""

import os
import queue
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SERVERS, CLIENTS, KEYS, ASKED, EVERY = 12, 4, 2000, 100, 50
HANGS = 20
# A front end's deadline, s, and what the machine may add to it.
DEADLINE, SLACK = 1, 1
FAULTS = ["nothing", "hub", "server", "front end", "front end, to another policy"]

program = sys.argv[1]
requests = int(sys.argv[2]) if len(sys.argv) > 2 else 1000


def value(number):
    """20 to 1000 octets that name their key."""
    size = random.Random(number).randint(20, 1000)
    return f"{number}:".ljust(size, "x").encode()


def free():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Process:
    """A process that listens, begun again at the same port after it was killed."""

    def __init__(self, command, port):
        self.command, self.port = command, port
        self.start()

    def start(self):
        end = time.monotonic() + HANGS
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    sys.exit(f"gather-faults: {' '.join(self.command)} does not listen at {self.port}")
                time.sleep(0.01)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Strange(Exception):
    """An answer that is none."""


class Client:
    def __init__(self, port):
        self.port, self.stream, self.longest = port, None, 0

    def say(self, octets, read):
        try:
            if self.stream is None:
                self.stream = socket.create_connection(("127.0.0.1", self.port), HANGS).makefile("rwb")
            began = time.monotonic()
            self.stream.write(octets)
            self.stream.flush()
            said = read(self.stream)
            self.longest = max(self.longest, time.monotonic() - began)
            return said
        except ConnectionError:
            self.stream = None
            return None

    def get(self, numbers):
        """The values; None if it is to be said again."""
        def read(stream):
            found = {}
            while True:
                line = stream.readline()
                if not line.endswith(b"\n"):
                    raise ConnectionError
                words = line.split()
                if words == [b"END"]:
                    return found
                if words[:1] == [b"SERVER_ERROR"]:
                    return None
                if len(words) != 4 or words[0] != b"VALUE" or not re.fullmatch(rb"key:\d+", words[1]) or not words[3].isdigit():
                    raise Strange(words)
                found[int(words[1][4:])] = stream.read(int(words[3]) + 2)[:-2]

        return self.say(b"get " + b" ".join(b"key:%d" % number for number in numbers) + b"\r\n", read)

    def put(self, number):
        octets = value(number)
        said = self.say(b"set key:%d 0 0 %d\r\n%s\r\n" % (number, len(octets), octets), lambda stream: stream.readline())
        if said and said.endswith(b"\n") and said != b"STORED\r\n" and not said.startswith(b"SERVER_ERROR"):
            raise Strange(said)
        return said == b"STORED\r\n"


class Campaign:
    def __init__(self, folder):
        self.folder = folder
        self.places = [(free(), free()) for _ in range(SERVERS)]
        self.front_port = free()
        self.processes = []
        self.servers = [
            self.run(["memcached", "-u", "nobody", "-m", "32", "-t", "1", "-l", "127.0.0.1", "-p", str(port)], port)
            for port, _ in self.places
        ]
        self.files = [self.configure(policy) for policy in ["sicc", "sicc-joint"]]
        self.hubs = [
            self.run([program, "gather", "hub", "--config", self.files[0], "--server", f"s{place}"], hub)
            for place, (_, hub) in enumerate(self.places)
        ]
        self.front = self.run([program, "gather", "front", "--config", self.files[0]], self.front_port)

    def run(self, command, port):
        self.processes.append(Process(command, port))
        return self.processes[-1]

    def configure(self, policy):
        lines = [
            f'policy = {{ name = "{policy}" }}',
            'pool = { hashing = "ketama", copies = 2 }',
            f'[front]\nlisten = "127.0.0.1:{self.front_port}"\ndeadline = "{DEADLINE} s"',
            *[f'[[rack]]\nname = "r{rack}"' for rack in range(3)],
        ]
        for place, (server, hub) in enumerate(self.places):
            lines.append(
                f'[[server]]\nname = "s{place}"\naddress = "127.0.0.1:{server}"\n'
                f'hub = "127.0.0.1:{hub}"\nrack = "r{place % 3}"'
            )
        file = os.path.join(self.folder, f"{policy}.toml")
        with open(file, "w") as out:
            out.write("\n".join(lines) + "\n")
        return file

    def strike(self, fault, turn):
        match fault:
            case "nothing":
                return
            case "hub":
                struck = self.hubs[turn % SERVERS]
            case "server":
                struck = self.servers[turn % SERVERS]
            case _:
                struck = self.front
        struck.kill()
        if fault.endswith("policy"):
            struck.command[-1] = self.files[(turn + 1) % 2]
        struck.start()

    def under(self, fault):
        """One row: what came of the requests."""
        filler = Client(self.front_port)
        for number in range(KEYS):
            while not filler.put(number):
                pass
        work = queue.Queue()
        for number in range(requests):
            work.put(number)
        times, lost = [], []
        row = {"wrong": 0, "missing": 0, "hangs": 0, "retried": 0, "kills": 0, "answer": 0}
        lock = threading.Lock()

        def ask():
            client = Client(self.front_port)
            while True:
                try:
                    number = work.get_nowait()
                except queue.Empty:
                    return
                if number % EVERY == 0 and fault != "nothing":
                    with lock:
                        row["kills"] += 1
                    striking = threading.Thread(target=self.strike, args=(fault, number // EVERY))
                    striking.start()
                else:
                    striking = None
                numbers = random.Random(number).sample(range(KEYS), ASKED)
                began, again, found = time.monotonic(), 0, None
                strange, hangs = None, False
                try:
                    while (found := client.get(numbers)) is None:
                        again += 1
                        if time.monotonic() - began > HANGS:
                            raise TimeoutError
                        time.sleep(0.005)
                    took = time.monotonic() - began
                    # As a cache's clients do.
                    for key in set(numbers) - set(found):
                        client.put(key)
                except TimeoutError:
                    hangs, took = True, time.monotonic() - began
                except Exception as error:  # whatever it is: a thread that ends would hide it
                    strange, took = error, time.monotonic() - began
                with lock:
                    times.append(took)
                    row["retried"] += again > 0
                    row["answer"] = max(row["answer"], client.longest)
                    row["hangs"] += hangs
                    if strange is not None:
                        row["wrong"] += 1
                        print(f"gather-faults: {fault}: {strange!r}", file=sys.stderr)
                    if found is not None:
                        row["wrong"] += sum(value(key) != octets for key, octets in found.items())
                        lost.extend(set(numbers) - set(found))
                if hangs or strange is not None:
                    client = Client(self.front_port)
                if striking is not None:
                    striking.join()

        clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        row["missing"], row["timed"] = len(lost), len(times)
        times.sort()
        row["median"] = statistics.median(times) * 1e3
        row["p99"] = times[int(len(times) * 0.99)] * 1e3
        row["longest"] = times[-1] * 1e3
        # Answers may also be wrong afterwards.
        while (found := filler.get(range(KEYS))) is None:
            pass
        row["wrong"] += sum(value(key) != octets for key, octets in found.items())
        return row


def main(folder):
    campaign = Campaign(folder)
    failed = False
    try:
        print("| killed | kills | wrong values | missing values | hangs | requests said again | median, ms | p99, ms | longest, ms |")
        print("|---|---|---|---|---|---|---|---|---|")
        for fault in FAULTS:
            row = campaign.under(fault)
            failed |= row["wrong"] > 0 or row["hangs"] > 0 or (row["missing"] > 0 and fault != "server")
            if row["timed"] != requests or row["answer"] > DEADLINE + SLACK:
                failed = True
                print(f"gather-faults: {fault}: {row['timed']} were timed, and an answer took {row['answer']:.1f} s", file=sys.stderr)
            print(
                f"| {fault} | {row['kills']} | {row['wrong']} | {row['missing']} | {row['hangs']} | {row['retried']} "
                f"| {row['median']:.1f} | {row['p99']:.1f} | {row['longest']:.0f} |", flush=True,
            )
    finally:
        for process in campaign.processes:
            process.kill()
    print(f"load: {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")
    sys.exit(failed)


with tempfile.TemporaryDirectory() as work:
    main(work)
