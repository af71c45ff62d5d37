"""Browser tests of the viewer: a server on a trace of our own, and Debian's chromium driven by Playwright.

Where chromium or Playwright is missing, every test here is skipped with that reason. Screenshots of failures and of
every page go to build/screenshots."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
sys.path.insert(0, str(ROOT / "tests" / "golden"))


def pytest_collection_modifyitems(config, items):
    """Every run makes a handful of these; TG_LONG=1, as in make check, makes all."""
    here = pathlib.Path(__file__).parent
    long = [i for i in items if here in i.path.parents and not i.get_closest_marker("brief")]
    if long and not os.environ.get("TG_LONG") and config.args_source.name != "ARGS":
        config.hook.pytest_deselected(items=long)
        items[:] = [i for i in items if i not in set(long)]


def find_browser():
    """The path of a chromium, or why there is none."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return None, "Playwright's Python package is not installed"
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return path, None if path else "no chromium is installed (tools/deps.sh browser)"


@pytest.fixture(scope="module")
def browser():
    """Ends with the module: else Playwright's event loop runs in all later tests of the process, also asyncio's."""
    path, missing = find_browser()
    if missing:
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    """The golden traces, by name."""
    import make_traces

    folder = tmp_path_factory.mktemp("traces")
    subprocess.run([sys.executable, make_traces.__file__, str(folder)], check=True)
    return folder


def until(page, expression, seconds=600):
    """Wait until an expression is true. Playwright's own wait evaluates in the page, which its policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(50)


class Viewer:
    """`tachograph view` on some files, until close()."""

    def __init__(self, tachograph_path, *files):
        self.files = [str(f) for f in files]
        self.process = subprocess.Popen(
            [tachograph_path, "view", "--json", "--no-browser", *self.files], stdout=subprocess.PIPE, text=True
        )
        self.about = json.loads(self.process.stdout.readline())
        self.url = self.about["url"]

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=10)
        self.process.stdout.close()


@pytest.fixture
def view(tachograph_path):
    """view(file, …) → a running Viewer; all are ended with the test."""
    viewers = []

    def start(*files):
        viewers.append(Viewer(tachograph_path, *files))
        return viewers[-1]

    yield start
    for viewer in viewers:
        viewer.close()


@pytest.fixture(scope="module")
def shared_view(tachograph_path, traces):
    """One server of a module on the largest golden trace."""
    viewer = Viewer(tachograph_path, max(traces.glob("*.json"), key=lambda f: f.stat().st_size))
    yield viewer
    viewer.close()


class Page:
    """A page of the viewer with what went wrong in it."""

    def __init__(self, browser, url, width=1280, height=900, theme="light", touch=False):
        self.page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme, has_touch=touch)
        self.page.set_default_timeout(600_000)
        self.errors = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.url = url

    def go(self, hash_):
        self.page.goto(self.url + hash_)
        self.ready()
        return self

    def ready(self):
        self.page.wait_for_selector('body[data-ready="true"]', timeout=600_000)
        return self

    def rest(self, ms=400):
        """Wait in the page: what it has put off for less comes first, however long the machine lets the page wait."""
        self.page.evaluate(
            "(ms) => new Promise((ends) => "
            "setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(ends)), ms))",
            ms,
        )

    def close(self):
        self.page.close()


@pytest.fixture(name="until")
def until_fixture():
    return until


@pytest.fixture
def open_page(browser, request):
    pages = []

    def start(url, **kwargs):
        pages.append(Page(browser, url, **kwargs))
        return pages[-1]

    yield start
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for i, page in enumerate(pages):
        name = "".join(c if c.isalnum() else "-" for c in request.node.name)
        page.page.screenshot(path=SCREENSHOTS / f"{name}-{i}.png")
        page.close()
