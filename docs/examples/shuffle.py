#!/usr/bin/env python3
"""Declares a shuffle: shuffle.py unix:/run/watermaster/controller.sock (or http://127.0.0.1:7443)"""
import http.client, json, socket, sys


class Application:
    """Nothing here raises or waits for long: without a controller the application goes on."""

    def __init__(self, address, name):
        self.address, self.path = address, f"/v1/applications/{name}/declarations"
        self.holds, self.waits, self.batch = [], [], 1000
        self.http = self.epoch = None

    def say(self, kind, job, **more):
        said = {"type": kind, "job": job, **more}
        if is_end(said):
            self.forget(said)
        elif kind != "streams":  # samples are not said again
            self.holds.append(said)
        self.waits.append(said)
        self.tick()

    def tick(self):
        """Says what waits, or else shows that the application is there: at least every 20 s."""
        try:
            if self.http is None:
                self.http, self.epoch = connect(self.address), None
            self.ask("GET", "/v1/health")
            while self.waits:
                said = self.waits[: self.batch]
                status, answer = self.ask("POST", self.path, json.dumps(said))
                if answer is None:
                    continue  # another controller: from the beginning
                if status in (400, 413) and len(said) > 1:
                    self.batch = len(said) // 2  # it can't be read or is too long, and doesn't say where
                    continue
                if status in (400, 413):
                    self.batch, answer = 1000, {"refused": [{"index": 0, **answer}]}
                elif status not in (200, 422, 429):
                    raise ValueError(f"{status}: {answer['reason']}")
                del self.waits[: answer.get("rest", len(said))]
                for refused in answer.get("refused", []):
                    self.leave_out(said[refused["index"]], refused["reason"])
                if "rest" in answer:
                    return  # too fast: the rest waits for the next tick
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            print(f"no controller: {error!r}", file=sys.stderr)
            self.http = None

    def ask(self, method, path, body=None):
        """Status and answer; of another controller than before none, and all is to be said again."""
        self.http.request(method, path, body)
        response = self.http.getresponse()
        answer = json.loads(response.read())
        answer = answer.get("error", answer)
        if answer.get("epoch", self.epoch) != self.epoch:
            self.epoch, answer = answer["epoch"], None
            self.waits = [said for said in self.waits if is_end(said)] + self.holds
        return response.status, answer

    def leave_out(self, refused, reason):
        if not is_end(refused):  # of an end the controller had forgotten the beginning
            print(f"left out: {refused}: {reason}", file=sys.stderr)
            self.forget(refused)

    def forget(self, gone):
        """With a job goes all that is of it, with a flow all that is of the flow."""
        is_job = gone["type"].startswith("job_")

        def goes(said):
            is_flow = "flow" in gone and said.get("flow") == gone["flow"]
            return said["job"] == gone["job"] and (is_job or is_flow or said == gone)

        self.holds = [said for said in self.holds if not goes(said)]
        self.waits = [said for said in self.waits if not goes(said)]


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
    shuffle.say("flow_request", "sort", flow="1", bytes=size, connection=ends)
    for _ in sys.stdin:  # stands for the transfer: a line is a tick, the end of input its end
        shuffle.tick()
    shuffle.say("flow_complete", "sort", flow="1")
    shuffle.say("job_complete", "sort")
