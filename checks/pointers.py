#!/usr/bin/env python3
"""Whether the pages of docs point to what is there: of each pair `file.rs` (`name`), (`file.rs`, `name`),
`name` (`file.rs`) and `name` in `file.rs`, the one file whose path ends so defines the name."""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FILE = r"\*?`([\w/.-]+\.rs)`\*?"
NAME = r"\*?`(?:\w+::)*[A-Za-z_]\w*`\*?"
PAIRS = [
    re.compile(rf"{FILE}\s*\(({NAME}(?:[^()`]*{NAME})*)[^()`]*\)"),
    re.compile(rf"\({FILE}((?:,\s*{NAME})+)"),
    re.compile(rf"(?P<names>{NAME})\s+(?:in\s+|\(){FILE}"),
]
# The last is a variant of an enum, or a field.
DEFINES = (
    r"\b(?:fn|struct|enum|trait|type|const|static|union|mod|macro_rules!)\s+(?:mut\s+)?{0}\b"
    r"|^\s+(?:pub(?:\(\w+\))?\s+)?{0}(?:,|:\s| [{{(])"
)


def sources():
    """The text of each Rust file below the repository, by its path."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in ("target", "node_modules") and name[0] != "."]
        for path in (Path(folder, name) for name in files if name.endswith(".rs")):
            yield "/" + str(path.relative_to(ROOT)), path.read_text()


def pairs(text):
    """Each file and name that belong together, and where."""
    for pattern in PAIRS:
        for found in pattern.finditer(text):
            groups = found.groups()
            names, file = groups if "names" in pattern.groupindex else groups[::-1]
            line = text.count("\n", 0, found.start()) + 1
            for name in re.findall(r"`([^`]+)`", names):
                yield line, file, name


def faults():
    files, seen = dict(sources()), 0
    for page in PAGES:
        for line, file, name in sorted(pairs(page.read_text())):
            seen += 1
            where = f"{page.relative_to(ROOT)}:{line}"
            paths = [path for path in files if path.endswith("/" + file)]
            defines = re.compile(DEFINES.format(name.split("::")[-1]), re.M)
            if not paths:
                yield f"{where}: there is no {file}; name the file that has {name}"
            elif len(paths) > 1:
                yield f"{where}: {len(paths)} paths end with {file}; write more of the one that has {name}"
            elif not defines.search(files[paths[0]]):
                yield f"{where}: {file} doesn't define {name}; name the file that does"
    if seen == 0:
        yield "docs: pages point to nothing"


found = list(faults())
print("\n".join(found), file=sys.stderr, end="\n" if found else "")
sys.exit(bool(found))
