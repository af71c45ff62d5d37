#!/usr/bin/env python3
"""make docs: the site from the Markdown of docs/ and the top folder, in build/site. A warning of Sphinx is an error; so
is a dead link, a missing anchor or picture, and a page that loads anything from the network.

    .venv-docs/bin/python tools/site.py [FOLDER]"""

import html.parser
import pathlib
import re
import shutil
import sys
import urllib.parse

from sphinx.cmd.build import build_main

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(html.parser.HTMLParser):
    """Where a page links to, what it loads, and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.anchors.add(named.get("id") or named.get("name"))
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])
        if named.get(LOADED.get(tag, "")) and named.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(named[LOADED[tag]])


def breaks(site):
    """One line for each link that leads nowhere and each thing that comes from the network."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(site)
        for address in page.links + page.loads:
            parts = urllib.parse.urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loads and parts.scheme != "data":
                    yield f"{where}: loads {address}"
                continue
            target = path
            if parts.path:
                target = pathlib.Path(re.sub(r"/+$", "", str(path.parent / urllib.parse.unquote(parts.path)))).resolve()
            if not target.is_file():
                yield f"{where}: no {address}"
            elif (
                parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors
            ):
                yield f"{where}: no anchor {address}"


def main():
    site = (pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()
    shutil.rmtree(site, ignore_errors=True)
    words = ["-c", ROOT / "docs", "-d", f"{site}.doctrees", "-b", "html", "-E", "-q", "-W", "--keep-going", ROOT, site]
    if status := build_main([str(word) for word in words]):
        return status
    (site / "index.html").write_text('<meta http-equiv="refresh" content="0; url=docs/index.html">\n', encoding="utf-8")
    found = list(breaks(site))
    for line in found:
        print(line, file=sys.stderr)
    pages = len(list(site.rglob("*.html")))
    print(
        f"docs: {len(found)} broken links"
        if found
        else f"docs: {pages} pages, every link leads somewhere: {site}/index.html"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
