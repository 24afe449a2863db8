#!/usr/bin/env python3
"""Each figure with an interval, `a ± b`, on a page of docs that links results/TEXT.md stands there, or in ELSEWHERE below.

Units may stand behind either number. A page may round, and leave out a sign that its words tell. Of a section that comes
from elsewhere no figure is compared.
"""

import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
NUMBER = r"\d[\d,]*(?:\.\d+)?"
FIGURE = re.compile(rf"([+-]?{NUMBER})(?:\s*[^\s\d±|]+)?\s*±\s*({NUMBER})")
RESULTS = re.compile(r"\]\(results/([\w-]+\.md)\)")
HEADING = re.compile(r"^(?=#+ )", re.M)

# By page: the headings of sections, or single figures, that the results don't have, and where they come from.
LAB = "engines in the lab, and the simulator beside them: the commands stand there"
STUDY = "scenarios/phurti/study.sh"
# No value of a choice: the text enforces by meters.
PACED = [
    "+41.1 ± 8.8", "-18.9 ± 3.0", "+40.4 ± 5.4", "-36.0 ± 6.6", "+36.2 ± 3.6", "-66.1 ± 1.1", "+37.6 ± 7.5",
    "-5.8 ± 1.8", "+33.4 ± 1.9", "-9.6 ± 1.6", "+33.3 ± 1.2", "-14.5 ± 0.8",
]
ELSEWHERE = {
    "app-aware.md": {
        "A real Storm": LAB,
        "Trending Topics, and what the published rule can't see": LAB,
        "A real Flink": LAB,
        "Beside others' traffic": LAB,
        "The variant": "`reproduce app-aware/shift`, of which nothing is published",
        **dict.fromkeys(PACED, "trending.toml and trucking.toml with control.enforcement=pacing"),
    },
    "phurti.md": {
        "On the trace": STUDY,
        "On the generator": STUDY,
        "Where we differ, and why": STUDY,
    },
    "sdtcp.md": {"7 ± 7": "senders-200.toml with workload.jitter=1 ms: the command stands there"},
    "sicc.md": {
        "At its word": "scenarios/sicc/study.sh",
    },
    "syn-asy.md": {"When the controller is away": "`reproduce syn-asy/control-latency`, of which nothing is published"},
}


def read(path: pathlib.Path) -> str:
    return re.sub("`[^`\n]*`", lambda code: "_" * len(code[0]), path.read_text()).replace("−", "-")


def rounds_to(exact: str, written: str) -> bool:
    digits = len(written.partition(".")[2])
    exact, written = (float(number.replace(",", "")) for number in (exact, written))
    return abs(exact - written) <= 0.5 * 10**-digits + 1e-9


def is_in(results: list[tuple[str, str]], mean: str, half: str) -> bool:
    signed = mean[0] in "+-"
    return any(
        rounds_to(other, half) and rounds_to(exact if signed else exact.lstrip("+-"), mean) for exact, other in results
    )


def check(page: pathlib.Path, results: list[tuple[str, str]]):
    """Yields where something is wrong, and what."""
    elsewhere = ELSEWHERE.get(page.name, {})
    used: set[str] = set()
    text, line = read(page), 1
    for section in HEADING.split(text):
        heading = section.partition("\n")[0].lstrip("# ")
        figures = list(FIGURE.finditer(section))
        ends = {figure.end() for figure in figures}
        for sign in re.finditer(rf"±(?:\s*{NUMBER})?", section):
            if sign.end() not in ends:
                yield line + section[: sign.start()].count("\n"), "no number stands on both sides of ±; write `±` as code"
        missing = [figure for figure in figures if not is_in(results, *figure.groups())]
        for figure in missing:
            names = {heading, " ± ".join(figure.groups())} & elsewhere.keys()
            used |= names
            if not names:
                where = line + section[: figure.start()].count("\n")
                yield where, f"{' '.join(figure[0].split())} isn't in the results that the page links; write what stands there"
        line += section.count("\n")
    for name in elsewhere.keys() - used:
        yield 1, f"ELSEWHERE of checks/cited.py has {name!r}, which isn't there or is in the results; take it out"


def main() -> int:
    failed = False
    for page in sorted(DOCS.glob("*.md")):
        linked = set(RESULTS.findall(page.read_text()))
        if linked and page.name != "results.md":
            results = [figure for name in linked for figure in FIGURE.findall(read(DOCS / "results" / name))]
            for line, what in check(page, results):
                failed = True
                print(f"{page.relative_to(DOCS.parent)}:{line}: {what}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
