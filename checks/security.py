#!/usr/bin/env python3
"""Whether docs/security.md names tests that are there: each `file::test` is a test of that file, and each row of a
table with a column "held by" names one, or a `make target` that .ci/run runs."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/security.md"
NAMED = re.compile(r"`([\w/.-]+\.rs)::(\w+)`")
TARGET = re.compile(r"`make ([\w-]+)`")
RUN = set(re.findall(r"^run (?:env \w+=\S+ )?make ([\w-]+)", (ROOT / ".ci/run").read_text(), re.M))


def is_test(file, name):
    """Whether `file` has a test `name` that is run: with others, or by `make faults`."""
    text = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
    found = re.search(rf"((?:^[ \t]*(?:#\[.*\]|///?.*)\n)+)[ \t]*(?:pub )?(?:async )?fn {name}\b", text, re.M)
    attributes = found.group(1) if found else ""
    is_run = "#[ignore" not in attributes or file.startswith("cli/tests/faults/")
    return re.search(r"#\[(tokio::)?test\b", attributes) and is_run


def faults():
    seen, in_claims = 0, False
    for number, line in enumerate(PAGE.read_text().splitlines(), 1):
        for file, name in NAMED.findall(line):
            seen += 1
            if not is_test(file, name):
                yield f"docs/security.md:{number}: {file} has no test {name}; name the one that holds this, or say that none does"
        if not line.startswith("|"):
            in_claims = False
        elif line.rstrip().endswith("| held by |"):
            in_claims = True
        elif in_claims and not line.startswith("|---") and not NAMED.search(line) and not RUN & {*TARGET.findall(line)}:
            yield f"docs/security.md:{number}: no test holds this claim; name one, or move it to what isn't defended"
    if seen == 0:
        yield "docs/security.md: names no test"


found = list(faults())
print("\n".join(found), file=sys.stderr, end="\n" if found else "")
sys.exit(bool(found))
