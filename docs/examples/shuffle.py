#!/usr/bin/env python3
"""Declares a shuffle: shuffle.py unix:/run/watermaster/controller.sock (or http://127.0.0.1:7443)"""
import http.client, json, socket, sys


class Application:
    """Nothing here raises or waits for long: without a controller the application goes on."""

    def __init__(self, address, name):
        self.address, self.path = address, f"/v1/applications/{name}/declarations"
        self.holds, self.waits, self.http = [], [], None

    def say(self, kind, job, **more):
        said = {"type": kind, "job": job, **more}
        if is_end(said):  # of the whole job, or of one flow
            over = lambda held: held["job"] == job and more.get("flow") in (None, held.get("flow"))
            self.holds = [held for held in self.holds if not over(held)]
        else:
            self.holds.append(said)
        self.waits.append(said)
        self.tick()

    def tick(self):
        """Says what waits, or else shows that the application is there: at least every 20 s."""
        try:
            if self.http is None:  # all that holds is said again; an end before what began since
                self.http = connect(self.address)
                self.waits = [said for said in self.waits if is_end(said)] + self.holds
            self.ask("GET", "/v1/health")
            while self.waits:
                status, answer = self.ask("POST", self.path, json.dumps(self.waits[:1000]))
                error = answer.get("error")
                del self.waits[: answer["taken"] if error is None else error["taken"]]
                if status == 429 and error["field"] == "application":
                    return  # too fast: the rest waits for the next tick
                if error:
                    print(f"left out: {self.waits.pop(0)}: {error['reason']}", file=sys.stderr)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            print(f"no controller: {error!r}", file=sys.stderr)
            self.http = None

    def ask(self, method, path, body=None):
        self.http.request(method, path, body)
        answer = self.http.getresponse()
        return answer.status, json.loads(answer.read())


def is_end(said):
    return said["type"].endswith("_complete")


def connect(address):
    host = address.removeprefix("http://")
    connection = http.client.HTTPConnection("unix" if "unix:" in address else host, timeout=5)
    if "unix:" in address:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(address.removeprefix("unix:"))
    else:
        connection.connect()
    connection.auto_open = False  # a new connection is never silent: tick makes it and says all
    return connection


if __name__ == "__main__":
    shuffle, size = Application(sys.argv[1], "shuffle"), 8_000_000
    shuffle.say("job_start", "sort")
    shuffle.say("task_host", "sort", task=0, host="h0")
    shuffle.say("task_host", "sort", task=1, host="h1")
    shuffle.say("size", "sort", map=0, reduces=[{"task": 1, "bytes": size}])
    ends = {"source": "10.0.0.1:40000", "destination": "10.0.0.2:13562"}
    shuffle.say("flow_request", "sort", flow=1, bytes=size, connection=ends)
    for _ in sys.stdin:  # stands for the transfer: a line is a tick, the end of input its end
        shuffle.tick()
    shuffle.say("flow_complete", "sort", flow=1)
    shuffle.say("job_complete", "sort")
