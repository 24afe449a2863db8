#!/usr/bin/env python3
"""Declares a shuffle: shuffle.py unix:/run/watermaster/controller.sock (or http://127.0.0.1:7443)"""
import http.client, json, socket, sys


class Application:
    """Nothing here raises or waits for long: without a controller the application goes on."""

    def __init__(self, address, name):
        self.address, self.path = address, f"/v1/applications/{name}/declarations"
        self.holds, self.waits, self.http = [], [], None

    def say(self, kind, job, **more):
        said, is_end = {"type": kind, "job": job, **more}, kind.endswith("_complete")
        if is_end:  # with a flow goes what is of the flow, with a job all that is of it
            gone = lambda other: other["job"] == job and more.items() <= other.items()
            self.holds = [other for other in self.holds if not gone(other)]
            self.waits = [other for other in self.waits if not gone(other)]
        elif kind != "streams":  # samples are not said again
            self.holds.append(said)
        self.waits.append(said)
        self.tick()

    def tick(self):
        """Says what waits, or else shows that the application is there: at least every 20 s."""
        try:
            if self.http is None:  # it may know nothing: all that holds, after the ends
                self.http = connect(self.address)
                ends = [said for said in self.waits if said["type"].endswith("_complete")]
                self.waits = ends + self.holds
            while True:
                said = self.waits[:1]  # one by one: one that is refused hinders no other
                self.http.request("POST", self.path, json.dumps(said))
                response = self.http.getresponse()
                status, answer = response.status, json.load(response)
                if status not in (200, 400, 413, 422):  # 429: too fast; the rest with the next tick
                    raise ConnectionError(f"{status}: {answer}")
                if status != 200 and said[0] in self.holds:  # a refused end says what is so already
                    print(f"left out: {said[0]}: {answer}", file=sys.stderr)
                    self.holds.remove(said[0])
                del self.waits[:1]
                if not self.waits:
                    return
        except (OSError, http.client.HTTPException, ValueError) as error:
            print(f"no controller: {error!r}", file=sys.stderr)
            self.http = None


def connect(address):
    over_unix = address.startswith("unix:")
    host = "unix" if over_unix else address.removeprefix("http://")
    to = http.client.HTTPConnection(host, timeout=5)
    if over_unix:
        to.sock = socket.socket(socket.AF_UNIX)
        to.sock.connect(address.removeprefix("unix:"))
    else:
        to.connect()
    to.auto_open = False  # a new connection is never silent: tick makes it and says all
    return to


if __name__ == "__main__":
    shuffle, size = Application(sys.argv[1], "shuffle"), 8_000_000
    shuffle.say("job_start", "sort")
    for task, host in enumerate(["h0", "h1"]):
        shuffle.say("task_host", "sort", task=task, host=host)
    shuffle.say("size", "sort", map=0, reduces=[{"task": 1, "bytes": size}])
    ends = {"source": "10.0.0.1:40000", "destination": "10.0.0.2:13562"}
    shuffle.say("flow_request", "sort", flow="1", bytes=size, connection=ends)
    for _ in sys.stdin:  # stands for the transfer: a line is a tick, the end of input its end
        shuffle.tick()
    shuffle.say("flow_complete", "sort", flow="1")
    shuffle.say("job_complete", "sort")
