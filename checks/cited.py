#!/usr/bin/env python3
"""Figures with an interval that a page cites from docs/results stand there.

A paragraph of docs/*.md that links results/TEXT.md cites it: each `a ± b` of the paragraph must be in that page, where a unit
may stand between the two.
"""

import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
FIGURE = re.compile(r"([+-]?\d+(?:\.\d+)?)(?:\s*%)?\s*±\s*(\d+(?:\.\d+)?)")
RESULTS = re.compile(r"\]\(results/([\w-]+\.md)\)")


def figures(text: str) -> set[tuple[float, float]]:
    found = FIGURE.findall(text.replace("−", "-"))
    return {(float(mean), float(half)) for mean, half in found}


def main() -> int:
    failed = False
    for page in sorted(DOCS.glob("*.md")):
        if page.name == "results.md":
            continue
        line = 1
        for paragraph in page.read_text().split("\n\n"):
            cited = RESULTS.findall(paragraph)
            known = set().union(*(figures((DOCS / "results" / name).read_text()) for name in cited))
            if cited:
                for mean, half in sorted(figures(paragraph) - known):
                    failed = True
                    where = ", ".join(f"docs/results/{name}" for name in cited)
                    print(f"{page.relative_to(DOCS.parent)}:{line}: {mean} ± {half} isn't in {where}; "
                          "write what stands there, or cite it in a paragraph of its own", file=sys.stderr)
            line += paragraph.count("\n") + 2
    return failed


if __name__ == "__main__":
    sys.exit(main())
