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
RUN = set(re.findall(r"^run (?:env (?:\w+=\S+ )+)?make ([\w-]+)", (ROOT / ".ci/run").read_text(), re.M))


def is_compiled(path):
    """Whether a crate has the file: as its root, or because a file that it has names it by `mod`."""
    if path.name in ("lib.rs", "main.rs") or path.parent.name == "tests":
        return True
    folder, name = path.parent, path.stem
    if name == "mod":
        folder, name = folder.parent, folder.name
    named = re.compile(rf"((?:^[ \t]*#\[.*\]\n)*)^[ \t]*(?:pub(?:\(.*\))? )?mod {name};", re.M)
    for holder in [folder / "lib.rs", folder / "main.rs", folder / "mod.rs", folder.with_suffix(".rs")]:
        found = named.search(code(holder)) if holder.is_file() and holder != path else None
        if found and not is_left_out(found.group(1)) and is_compiled(holder):
            return True
    return False


def code(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)


def is_left_out(attributes):
    return "#[cfg" in attributes.replace("#[cfg(test)]", "")


def is_test(file, name):
    """Whether `file` has a test `name` that is run: with others, or by `make faults`."""
    text = code(ROOT / file) if (ROOT / file).is_file() and is_compiled(ROOT / file) else ""
    found = re.search(rf"((?:^[ \t]*(?:#\[.*\]|///?.*)\n)+)[ \t]*(?:pub )?(?:async )?fn {name}\b", text, re.M)
    attributes = found.group(1) if found else ""
    is_run = "#[ignore" not in attributes or file.startswith("cli/tests/faults/")
    return re.search(r"^[ \t]*#\[(tokio::)?test\b", attributes, re.M) and is_run and not is_left_out(attributes)


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
