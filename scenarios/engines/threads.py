#!/usr/bin/env python3
"""What the plug-ins' own threads take of the processors, while a command runs.

    threads.py COMMAND...

Looks at all processes of labs ten times a second: threads whose name begins with "watermaster" in programs of Java, by
the kernel's count of their time (/proc/PID/task/TID/schedstat, nanoseconds). Prints a line of JSON at the end: programs
that had such threads, what these took together, and their greatest and their mean share of a processor by the time that
each program ran. Fails as the command fails, or where a share is above a hundredth.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

SHORT = 5  # s: of what lived less than this the share isn't told
MOST = 0.01  # of a processor


def read(path):
    try:
        return path.read_text()
    except OSError:
        return ""


def look(programs):
    now = time.monotonic()
    for group in pathlib.Path("/sys/fs/cgroup").glob("**/watermaster-*/traffic/**/cgroup.procs"):
        for pid in read(group).split():
            if read(pathlib.Path(f"/proc/{pid}/comm")).strip() != "java":
                continue
            own = programs.setdefault(pid, {"first": now, "threads": {}})
            own["last"] = now
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
                if read(task / "comm").startswith("watermaster"):
                    taken = read(task / "schedstat").split()
                    if taken:
                        own["threads"][task.name] = int(taken[0]) / 1e9


def main(command):
    programs = {}
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen(command, stdout=output, stderr=output)
        while running.poll() is None:
            look(programs)
            time.sleep(0.1)
        if running.returncode:
            output.seek(0)
            sys.exit(output.read().decode())
    shares, threads = [], 0.0
    for own in programs.values():
        lived = own["last"] - own["first"]
        if own["threads"]:
            threads += sum(own["threads"].values())
            if lived >= SHORT:
                shares.append(sum(own["threads"].values()) / lived)
    told = {"programs": sum(bool(own["threads"]) for own in programs.values()), "threads_s": round(threads, 3)}
    if shares:
        told |= {"greatest_share": round(max(shares), 5), "mean_share": round(sum(shares) / len(shares), 5)}
    print(json.dumps(told))
    sys.exit(max(shares, default=1) > MOST)


if __name__ == "__main__":
    main(sys.argv[1:])
