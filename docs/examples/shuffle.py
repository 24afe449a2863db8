#!/usr/bin/env python3
"""Declares a shuffle: shuffle.py unix:/run/watermaster-controller/controller.sock (or http://127.0.0.1:7443)"""
import http.client, json, socket, sys


class Application:
    """Nothing here raises or waits for long: without a controller the application goes on."""

    def __init__(self, address, name):
        self.address, self.path = address, f"/v1/applications/{name}/declarations"
        self.holds, self.waits, self.http = [], [], None

    def say(self, kind, job, **more):
        if kind.endswith("_complete"):  # with a flow goes what is of the flow, with a job all that is of it
            stays = lambda other: not {"job": job, **more}.items() <= other.items()
            self.holds, self.waits = [*filter(stays, self.holds)], [*filter(stays, self.waits)]
        elif kind != "streams":  # samples are not said again
            self.holds.append({"type": kind, "job": job, **more})
        self.waits.append({"type": kind, "job": job, **more})
        self.tick()

    def tick(self):
        """Says what waits, or else shows that the application is there: at least every 20 s."""
        try:
            if self.http is None:  # it may know nothing: all that holds, after the ends
                self.http = connect(self.address)
                self.waits = [said for said in self.waits if said["type"].endswith("_complete")] + self.holds
            for said in [*self.waits] or [None]:  # one by one: one that is refused hinders no other
                self.http.request("POST", self.path, json.dumps([said] if said else []))
                response = self.http.getresponse()
                answer = json.load(response)
                if response.status not in (200, 400, 413, 422):  # 429: too fast; the rest with the next tick
                    raise ConnectionError(f"{response.status}: {answer}")
                if response.status != 200 and said in self.holds:  # a refused end says what is so already
                    print(f"left out: {said}: {answer}", file=sys.stderr)
                    self.holds.remove(said)
                self.waits = self.waits[1:]
        except (OSError, http.client.HTTPException, ValueError) as error:
            print(f"no controller: {error!r}", file=sys.stderr)
            self.http = None


def connect(address):
    kind, where = address.split(":", 1)
    to = http.client.HTTPConnection(kind if kind == "unix" else where.strip("/"), timeout=5)
    if kind == "unix":
        to.sock = socket.socket(socket.AF_UNIX)
        to.sock.settimeout(to.timeout)
        to.sock.connect(where)
    else:
        to.connect()
    to.auto_open = False  # a new connection is never silent: tick makes it and says all
    return to


if __name__ == "__main__":
    shuffle = Application(sys.argv[1], "shuffle")
    shuffle.say("job_start", "sort")
    shuffle.say("task_host", "sort", task=0, host="h0")
    shuffle.say("task_host", "sort", task=1, host="h1")
    shuffle.say("size", "sort", map=0, reduces=[{"task": 1, "bytes": 8_000_000}])
    ends = {"source": "10.0.0.1:40000", "destination": "10.0.0.2:13562"}
    shuffle.say("flow_request", "sort", flow="1", bytes=8_000_000, connection=ends)
    for _ in sys.stdin:  # stands for the transfer: a line is a tick, the end of input its end
        shuffle.tick()
    shuffle.say("flow_complete", "sort", flow="1")
    shuffle.say("job_complete", "sort")
