#!/usr/bin/env python3
"""Makes the site of the documentation, target/site/book, with mdBook, and checks it.

Pages stay where they are: what SUMMARY.md names, and what that shows or links to in the repository, is laid out in
target/site/src as it is here. Then every link of the site must lead to a file of it, every fragment to an element.

Usage: docs/site/build.py MDBOOK
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SITE = ROOT / "target/site"
LINK = re.compile(r"\]\(([^()\s]+)\)")
WORDS = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^()\s]+)\)")
# They have no page of their own.
WITHOUT = {"docs/site/SUMMARY.md"}


def summary():
    """SUMMARY.md, where each page that the index of decisions names follows it."""
    text = (HERE / "SUMMARY.md").read_text()
    index = "docs/decisions/README.md"
    found = re.findall(r"^- \[(.+)\]\(([\w-]+\.md)\)", (ROOT / index).read_text(), re.M)
    below = "".join(f"  - [{title}](docs/decisions/{page})\n" for title, page in found)
    return text.rstrip() + "\n" + below


def target(page, link):
    """What a link of the page leads to in the repository, if it leads there."""
    parts = urlsplit(link)
    if parts.scheme or not parts.path:
        return None
    return (ROOT / page).parent.joinpath(unquote(parts.path)).resolve()


def laid(page):
    """The page, where links to folders, which are no pages of a site, are words."""
    def word(found):
        to = target(page, found[2])
        return found[1] if to is not None and to.is_dir() else found[0]

    return WORDS.sub(word, (ROOT / page).read_text())


def write(path, octets):
    to = SITE / "src" / path
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(octets)


def lay_out():
    """Lays out all that the site is made of; yields faults."""
    shutil.rmtree(SITE, ignore_errors=True)
    text = summary()
    pages = set(LINK.findall(text))
    everything = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")} - WITHOUT
    for page in sorted(everything - pages):
        yield f"docs/site/SUMMARY.md: {page} is missing; add a line for it"
    for page in sorted(pages):
        if not (ROOT / page).is_file():
            yield f"docs/site/SUMMARY.md: there is no {page}; remove its line"
            continue
        text_of_page = laid(page)
        write(page, text_of_page.encode())
        for to in {target(page, link) for link in LINK.findall(text_of_page)} - {None}:
            path = to.relative_to(ROOT).as_posix()
            if to.suffix == ".md" and path not in pages:
                yield f"{page}: {path} is no page of the site; add it to docs/site/SUMMARY.md"
            elif to.suffix != ".md" and to.is_file():
                write(path, to.read_bytes())
    (SITE / "src/SUMMARY.md").write_text(text)
    shutil.copyfile(HERE / "book.toml", SITE / "book.toml")


class Page(HTMLParser):
    """The links and the elements of a page that have names."""

    def __init__(self, text):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("href", "src") and value and tag != "base":
                self.links.append(value)
            elif key in ("id", "name") and value:
                self.names.add(value)


def broken():
    """Links of the site that lead nowhere in it."""
    book = SITE / "book"
    pages = {path: Page(path.read_text()) for path in sorted(book.rglob("*.html"))}
    checked = 0
    for path, page in pages.items():
        # All pages in one have the links of each, seen from elsewhere; the page of errors is for any address.
        if path.name in ("print.html", "404.html", "toc.html"):
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            checked += 1
            to = path.parent.joinpath(unquote(parts.path)).resolve() if parts.path else path
            at = f"{path.relative_to(book)}: {link}"
            if not to.is_file():
                yield f"{at}: there is no such file"
            elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].names:
                yield f"{at}: nothing there has this name"
    print(f"{len(pages)} pages, {checked} links")
    if checked < 1000:
        yield "the site has hardly any links: they are not found"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = list(lay_out())
    if not found:
        subprocess.run([sys.argv[1], "build", SITE], check=True)
        found = list(broken())
    for fault in found:
        print(fault, file=sys.stderr)
    sys.exit(bool(found))


main()
