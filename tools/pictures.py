#!/usr/bin/env python3
"""The pictures of docs/viewer.md, from a recording of the demo's program.

    .venv/bin/python tools/pictures.py demo-out/slow/trace.tacho

Needs chromium and Playwright (make test installs them); writes docs/pictures/*.png."""

import json
import pathlib
import shutil
import subprocess
import sys

from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = {
    "overview": ("#/overview", "light"),
    "timeline": ("#/timeline?step=20", "dark"),
    "stacks": ("#/stacks", "light"),
}


def main():
    tool = shutil.which("tachograph", path=f"{ROOT / 'build'}:{pathlib.Path(sys.executable).parent}")
    command = [tool, "view", "--json", "--no-browser", sys.argv[1]]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = json.loads(server.stdout.readline())["url"]
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name, (page, theme) in PICTURES.items():
                tab = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme=theme)
                tab.goto(url + page)
                tab.wait_for_selector('body[data-ready="true"]')
                tab.wait_for_timeout(1500)
                tab.screenshot(path=ROOT / "docs" / "pictures" / f"{name}.png")
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
