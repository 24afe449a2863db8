#!/usr/bin/env python3
"""A flow that a controller governs: transfer.py take PORT on one host, and on another
transfer.py send ADDRESS:PORT CONTROLLER, which declares it, sends until it is ended, and says each second how fast."""
import socket, sys, time
from shuffle import Application


def take(port):
    listener = socket.create_server(("", int(port)))
    connection, _ = listener.accept()
    while connection.recv(1 << 20):
        pass


def send(to, controller):
    host, port = to.rsplit(":", 1)
    while True:
        try:
            connection = socket.create_connection((host, int(port)))
            break
        except ConnectionRefusedError:  # nobody waits there yet
            time.sleep(0.1)
    source, source_port = connection.getsockname()
    transfer = Application(controller, "transfer")
    transfer.say("job_start", "copy")
    ends = {"source": f"{source}:{source_port}", "destination": to}
    transfer.say("flow_request", "copy", flow="1", bytes=100_000_000_000, connection=ends)
    while True:
        begin, sent = time.monotonic(), 0
        while (passed := time.monotonic() - begin) < 1:
            sent += connection.send(bytes(1 << 16))
        transfer.tick()  # the controller hears that it is there
        print(f"{8 * sent / passed / 1e6:.0f} Mbit/s", flush=True)


{"take": take, "send": send}[sys.argv[1]](*sys.argv[2:])
