#!/usr/bin/env python3
"""Finds circles among the modules of crates: circles.py [CRATE_FOLDER...], by itself of all in the workspace but ALLOWED.

A module depends on another when its text names something there (crate::, super::, self::, or a module
that it declares); tests within a file don't count. To its neighbours a module is one with all that it
contains, and within it parts may use the whole. Why not cargo-modules: docs/decisions/circles.md.
"""

import collections
import pathlib
import re
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Their modules use each other.
ALLOWED = {"core/openflow", "core/policy"}

PATH = re.compile(r"(?<![\w:])((?:[a-z_]\w*::)+)(\{|\w+|\*)")
# A private use hands on too: to all modules below it.
EXPORT = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);", re.M)
MOD = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod (\w+);", re.M)


def modules(source):
    """The text of each module by its path, such as ("agents",); the root is ()."""
    found = {}
    root = "lib" if (source / "lib.rs").exists() else "main"
    for file in sorted(source.rglob("*.rs")):
        path = file.relative_to(source).with_suffix("").parts
        path = path[:-1] if path[-1] in (root, "mod") else path
        # Modules of tests stand last; a single item may be for tests anywhere.
        text = re.split(r"#\[cfg\(test\)\]\n(?:pub\(crate\) )?mod \w+ \{", file.read_text())[0]
        found[path] = re.sub(r"//.*", "", text)
    return found


def names(text):
    """Each path in a text, with the branches of use trees written out."""
    for match in PATH.finditer(text):
        head = match[1].split("::")[:-1]
        if match[2] != "{":
            yield head + [match[2]]
            continue
        branches, depth, at, branch = [], 1, match.end(), ""
        while depth and at < len(text):
            letter = text[at]
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if depth == 1 and letter == "," or not depth:
                branches.append(branch.split(" as ")[0].strip())
                branch = ""
            else:
                branch += letter
            at += 1
        for branch in branches:
            found = list(names(branch)) if "::" in branch else [[branch]]
            yield from (head + path for path in found)


def target(module, path, known, children):
    """The module that a path leads to from a module, or None when it leaves the crate."""
    first = path[0]
    if first == "crate":
        at, rest = (), path[1:]
    elif first == "self":
        at, rest = module, path[1:]
    elif first == "super":
        at, rest = module, path
        while rest and rest[0] == "super":
            at, rest = at[:-1], rest[1:]
    elif first in children:
        at, rest = module, path
    else:
        return None
    for name in rest:
        if at + (name,) not in known:
            break
        at += (name,)
    return at


def reachable(start, edges):
    seen, waiting = set(), [start]
    while waiting:
        for to in edges[waiting.pop()] - seen:
            seen.add(to)
            waiting.append(to)
    return seen


def find(crate):
    """How many modules a crate has, and why each edge between two that form a circle is there."""
    texts = modules(pathlib.Path(crate) / "src")
    children = {module: set(MOD.findall(text)) for module, text in texts.items()}

    def lead(module, text):
        for path in names(text):
            yield path[-1], target(module, path, texts, children[module])

    exports = {
        module: dict(lead(module, " ".join(EXPORT.findall(text))))
        for module, text in texts.items()
    }

    def uses(module, text):
        words = set(re.findall(r"\w+", text))
        heads = {path[0] for path in names(text)} - children[module]
        for name, to in lead(module, text):
            yield name, to
            if name == "*" and to is not None:  # what it brings in and the text names
                yield from ((other, to) for other in exports[to] if other in words)
                yield from ((other, to + (other,)) for other in children[to] & heads)

    edges, why = collections.defaultdict(set), {}
    for module, text in texts.items():
        for name, to in uses(module, text):
            # What a module only hands on is of the module that it comes from.
            passed = set()  # a module may import from the root what the root has from it
            while to is not None and to not in passed and exports[to].get(name) is not None:
                passed.add(to)
                to = exports[to][name]
            if to is None or module == to[: len(module)] or to == module[: len(to)]:
                continue
            same = next(i for i, (a, b) in enumerate(zip(module, to)) if a != b)
            here, there = module[: same + 1], to[: same + 1]
            edges[here].add(there)
            why[here, there] = f"{'::'.join(module)} uses {'::'.join(to)}::{name}"
    circle = [edge for edge in sorted(why) if edge[0] in reachable(edge[1], edges)]
    return len(texts), {edge: why[edge] for edge in circle}


def check_itself():
    """Each way to close a circle between a and b is found; without it there is none."""
    ways = ["crate::b::B", "crate::B", "crate::*", "super::*", "crate::{B as C}", "crate::{b::*}"]
    whole = ["crate::{*}", "super::{*}"]  # the module by its own name, the root has none of it
    for export in ("pub use", "use"):
        for way in ["crate::A", *ways, *whole]:
            with tempfile.TemporaryDirectory() as folder:
                source = pathlib.Path(folder) / "src"
                source.mkdir()
                (source / "lib.rs").write_text(f"mod a;\nmod b;\n{export} a::A;\n{export} b::B;\n")
                named = "b::C" if way in whole else "B"
                (source / "a.rs").write_text(f"use {way};\npub struct A(Option<{named}>);\n")
                (source / "b.rs").write_text("pub struct B(Box<crate::a::A>);\n")
                found = bool(find(folder)[1])
            if found != (way != "crate::A"):
                sys.exit(f"circles.py is wrong about 'use {way}' where the root has '{export} b::B'")


def main():
    check_itself()
    members = set(tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"])
    if not ALLOWED <= members:
        sys.exit(f"circles.py: {', '.join(sorted(ALLOWED - members))} isn't in the workspace; take it out of ALLOWED")
    failed = False
    for crate in sys.argv[1:] or sorted(members - ALLOWED):
        count, circle = find(ROOT / crate)
        if not count:
            sys.exit(f"circles.py: {crate} has no modules in src; name a crate's folder")
        for reason in circle.values():
            print(f"{crate}: {reason}, which leads back to it")
        print(f"{crate}: {count} modules, {len({here for here, _ in circle})} in circles")
        failed |= bool(circle)
    sys.exit(failed)


if __name__ == "__main__":
    main()
