#!/usr/bin/env python3
"""Runs an application of an engine whose plug-in speaks to the controller, to nobody, or through a liar.

    plug-in.py POLICY COMMAND      # in a scenario's run, where CONTROLLER is the controller's Unix socket

COMMAND, for sh, sees another CONTROLLER where POLICY is "dead-address" (nobody listens there) or "lies". The liar stands
between plug-in and controller and changes what is declared: sizes are 100 times larger or smaller, by turns; of four
transfers one is 100 times larger, one 100 times smaller, one said to be between two other hosts, and one said to have
ended at once. The last object of JSON that COMMAND prints is printed again with lies, how many of these were said, and
with refused, how many of the declarations of both the controller refused.
"""

import json
import os
import socket
import socketserver
import subprocess
import sys
import threading

DEAD = "http://127.0.0.1:9"
FACTORS = 100, 0.01


class Liar:
    def __init__(self):
        self.lies = self.refused = self.flows = self.sizes = 0
        self.hosts = set()  # addresses that were declared

    def change(self, said):
        """Makes a lie of a declaration, and says which ends are to follow that did not happen."""
        if said["type"] == "size":
            self.sizes += 1
            self.lies += 1
            for reduce in said["reduces"]:
                reduce["bytes"] = int(reduce["bytes"] * FACTORS[self.sizes % 2])
        elif said["type"] == "flow_request":
            kind = self.flows % 4
            self.flows += 1
            self.lies += 1
            ends = {what: end.rsplit(":", 1) for what, end in said["connection"].items()}
            self.hosts.update(address for address, _ in ends.values())
            if kind < 2:
                said["bytes"] = int(said["bytes"] * FACTORS[kind])
            elif kind == 2:
                others = sorted(self.hosts - {address for address, _ in ends.values()})[:2]
                for (what, (_, port)), other in zip(sorted(ends.items()), others):
                    said["connection"][what] = f"{other}:{port}"
            else:
                return [{"type": "flow_complete", "job": said["job"], "flow": said["flow"]}]
        return []

    def ask(self, controller, head, body):
        """The controller's answer to a request, head and body."""
        controller.send(head, body)
        return controller.receive()

    def serve(self, plug_in, controller):
        while (request := plug_in.receive()) is not None:
            head, body = request
            ends = []
            if head.startswith(b"POST") and b"/declarations " in head:
                said = json.loads(body)
                said = said if isinstance(said, list) else [said]
                for one in said:
                    ends += self.change(one)
                body = json.dumps(said).encode()
            answer = self.ask(controller, head, body)
            plug_in.send(*answer)
            self.count(answer)
            if ends:
                self.count(self.ask(controller, head, json.dumps(ends).encode()))

    def count(self, answer):
        head, body = answer
        if head.startswith(b"HTTP/1.1 422"):
            self.refused += len(json.loads(body).get("refused", []))


class Wire:
    """One end of a connection that speaks HTTP with lengths."""

    def __init__(self, connection):
        self.connection, self.file = connection, connection.makefile("rb")

    def receive(self):
        lines = []
        while line := self.file.readline():
            if line == b"\r\n":
                names = {name.strip().lower(): value for name, _, value in (own.partition(b":") for own in lines[1:])}
                return b"".join(lines), self.file.read(int(names.get(b"content-length", 0)))
            lines.append(line)
        return None

    def send(self, head, body):
        lines = [line for line in head.splitlines() if not line.lower().startswith(b"content-length")]
        lines.append(b"Content-Length: %d" % len(body))
        self.connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)


def stand_between(path, controller):
    liar = Liar()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.socket(socket.AF_UNIX) as there:
                there.connect(controller.removeprefix("unix:"))
                liar.serve(Wire(self.request), Wire(there))

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    threading.Thread(target=Server(path, Handler).serve_forever, daemon=True).start()
    return liar


def main(policy, command):
    liar = None
    if policy == "dead-address":
        os.environ["CONTROLLER"] = DEAD
    elif policy == "lies":
        path = f"{os.getpid()}.liar"
        liar = stand_between(path, os.environ["CONTROLLER"])
        os.environ["CONTROLLER"] = f"unix:{os.path.abspath(path)}"
    results = None
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            print(line, end="", flush=True)
            if line.startswith("{"):
                results = line
    if liar and results:
        print(json.dumps(json.loads(results) | {"lies": liar.lies, "refused": liar.refused}))
    sys.exit(child.returncode)


if len(sys.argv) != 3:
    sys.exit(__doc__)
main(*sys.argv[1:])
