"""Sends over loopback, declares it, and waits until the controller says that the flow has its limit.

deb_flow.py SOCKET COMMAND…: the controller's socket, and the words that start the program.
"""

import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs/examples"))
from shuffle import Application

address, program = sys.argv[1], sys.argv[2:]
LIMIT = 8_000_000
DEADLINE = 60  # seconds after which it has failed


def sink(listener):
    while True:
        connection, _ = listener.accept()
        while connection.recv(1 << 16):
            pass


listener = socket.create_server(("127.0.0.2", 9000))
threading.Thread(target=sink, args=(listener,), daemon=True).start()
sender = socket.create_connection(("127.0.0.2", 9000), source_address=("127.0.0.1", 40001))


def send():
    while True:
        sender.sendall(bytes(1 << 14))


threading.Thread(target=send, daemon=True).start()
end = time.monotonic() + DEADLINE
while not pathlib.Path(address).exists():
    assert time.monotonic() < end, "no controller"
    time.sleep(0.1)
application = Application(f"unix:{address}", "deb")
application.say("job_start", "job")
ends = {"source": "127.0.0.1:40001", "destination": "127.0.0.2:9000"}
application.say("flow_request", "job", flow="1", bytes=1 << 40, connection=ends)
said = ""
while time.monotonic() < end:
    application.tick()
    answer = subprocess.run([*program, "explain", "deb/job/1", "--json"], capture_output=True, text=True)
    said = answer.stdout + answer.stderr
    if answer.returncode == 0:
        flow = json.loads(answer.stdout)["flow"]
        if flow.get("enforced_bps") and flow.get("measured_bps"):
            assert flow["enforced_bps"] <= LIMIT, said
            print(f"deb: a flow is held to {flow['enforced_bps']} bit/s, {flow['measured_bps']} were measured")
            sys.exit(0)
    time.sleep(0.5)
sys.exit(f"deb: the flow was not governed within {DEADLINE} s: {said}")
