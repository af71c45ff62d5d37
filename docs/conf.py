"""The site that `make docs` builds: Sphinx reads the Markdown of docs/ and of the top folder where it lies."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import site_api

project = "Tachograph"
author = "The Tachograph authors"
version = re.search(r'^version = "(.*?)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), flags=re.M).group(1)
html_title = f"Tachograph {version}"

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**"]
exclude_patterns = sorted(f"{path.name}/**" for path in ROOT.iterdir() if path.is_dir() and path.name != "docs")
exclude_patterns += sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "docs")
myst_heading_anchors = 5  # the anchors of a code host: `#reading-from-c`
suppress_warnings = ["misc.highlighting_failure"]  # examples of JSON say … for what they leave out
highlight_language = "none"
html_theme = "furo"
html_search_scorer = str(ROOT / "docs" / "search_scorer.js")
html_copy_source = False
html_show_sphinx = False


def contents(text):
    """The page with the table of contents that its own sections and lists of links are."""
    parts = []
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, flags=re.S | re.M):
        pages = re.findall(r"^- \[[^\]]+\]\(([^)#]+)\.md\)", body, flags=re.M)
        parts.append("\n".join([f"```{{toctree}}\n:hidden:\n:caption: {title}\n", *pages, "```\n"]))
    return text + "\n" + "\n".join(parts)


def on_source_read(app, docname, source):
    if docname == root_doc:
        source[0] = contents(source[0])
    source[0] = re.sub(r"<!-- api: (\w+) -->", lambda m: site_api.PAGES[m.group(1)](), source[0])


def setup(app):
    app.connect("source-read", on_source_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
