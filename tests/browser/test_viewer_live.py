"""The page of a recording that goes on: it follows the end, keeps what someone looks at, and says when it is over."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch")

PROGRAM = """import pathlib, time, torch
while not pathlib.Path("stop").exists():
    torch.ones(8, 8) @ torch.ones(8, 8)
    time.sleep(0.01)
"""


@pytest.fixture
def recording(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "tachograph", "run", "-o", "out", "program.py"]
    run = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    yield tmp_path, run
    (tmp_path / "stop").touch()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
    run.wait(timeout=20)


GENERATION = "tachograph.shared.traces[0]?.generation"


def grown(p, until, times=1):
    until(p.page, f"{GENERATION} >= {p.page.evaluate(GENERATION) + times}")
    until(p.page, "!tachograph.refreshing")


@pytest.fixture
def live(recording, view, open_page, until):
    folder, run = recording
    for _ in range(200):
        if list(folder.glob("out/raw/*.tacho")):
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(timeout=0.1)
    p = open_page(view(folder / "out").url)
    p.go("#/timeline")
    until(p.page, f"{GENERATION} > 0 && tachograph.shared.traces[0].recording")
    p.ready()
    return p, folder, run


def test_the_whole_stays_the_whole_and_a_window_stays_where_it_is(live, until):
    p, folder, run = live
    address = "new URLSearchParams(location.hash.split('?')[1])"
    assert p.page.inner_text("#recording").startswith("recording · ")
    grown(p, until)
    first = p.page.evaluate("tachograph.info().then((i) => i.end_ns)")
    p.rest()
    assert int(p.page.evaluate(f"{address}.get('t1')")) == first
    # an operation that someone looks at stays chosen, and a window in the middle stays where it is
    p.page.fill("#find", "aten::mm")
    p.page.keyboard.press("Enter")
    p.page.wait_for_selector(".details h2, .details b")
    p.page.locator(".timeline .rows").focus()
    p.page.keyboard.press("f")
    p.rest()
    before = p.page.evaluate(f"[{address}.get('t0'), {address}.get('t1')]")
    details = p.page.inner_text(".details")
    grown(p, until)
    p.rest()
    assert p.page.evaluate(f"[{address}.get('t0'), {address}.get('t1')]") == before
    assert p.page.inner_text(".details") == details
    (folder / "stop").touch()
    assert run.wait(timeout=40) == 0
    until(p.page, "!tachograph.shared.traces[0].recording")
    p.rest(300)
    assert p.page.locator("#recording").count() == 0
    assert p.errors == []


def test_tables_grow_under_a_reader(live, until):
    p, folder, run = live
    p.go("#/operators")
    calls = """[...document.querySelectorAll("#operators-table tbody tr")].map((r) => r.innerText)
      .find((t) => t.includes("aten::mm"))"""
    before = p.page.evaluate(calls)
    p.page.evaluate("document.getElementById('page').scrollTop = 40")
    at = p.page.evaluate("document.getElementById('page').scrollTop")
    grown(p, until)
    until(p.page, f"({calls}) !== {before!r}")
    assert p.page.evaluate("document.getElementById('page').scrollTop") == at
    os.killpg(run.pid, signal.SIGKILL)
    until(p.page, "document.querySelector('.remark')?.innerText.startsWith('the program ended without closing')")
    assert p.errors == []
