"""trace.view() and what a trace shows in a notebook."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import urllib.request
from types import SimpleNamespace

import pytest
import tachograph as tg

EVENTS = [{"ph": "X", "cat": "cpu_op", "name": "aten::<b>mm", "pid": 1, "tid": 1, "ts": 10, "dur": 20}]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "-a trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    return path


def state_of(page):
    call = urllib.request.Request(f"{page.url}api", json.dumps({"id": 1, "call": "state"}).encode(), method="POST")
    with urllib.request.urlopen(call, timeout=600) as reply:
        return json.load(reply)["result"]


def test_a_page_is_served_until_it_is_closed(file):
    if ["view", "none"] in [row[:2] for row in json.loads(tg_doctor())["rows"]]:
        pytest.skip("a build without libwebsockets")
    with tg.open(file) as trace, trace.view(height=500) as page:
        assert [t["path"] for t in state_of(page)["traces"]] == [str(file)]
        shown = page._repr_html_()
        assert f'<iframe src="{page.url}"' in shown and 'height="500"' in shown
    with pytest.raises(OSError):
        state_of(page)
    assert repr(page) == "<page, closed>" and "closed" in page._repr_html_()


def tg_doctor():
    binary = pathlib.Path(tg.__file__).parent / "bin" / "tachograph"
    return subprocess.run([binary, "doctor", "--json"], capture_output=True, text=True, timeout=600).stdout


def test_a_file_that_went_away_is_said(file):
    with tg.open(file) as trace:
        file.unlink()
        with pytest.raises(RuntimeError, match="there is no such file"):
            trace.view()


def test_a_notebook_shows_the_report_and_no_markup_of_the_trace(file):
    with tg.open(file) as trace:
        shown = trace._repr_html_()
    assert shown.startswith("<pre>") and "aten::&lt;b&gt;mm" in shown and "<b>" not in shown


def test_run_opens_the_page_when_the_program_has_ended(tmp_path):
    pytest.importorskip("torch")
    if ["view", "none"] in [row[:2] for row in json.loads(tg_doctor())["rows"]]:
        pytest.skip("a build without libwebsockets")
    (tmp_path / "program.py").write_text("import torch\nfor _ in range(9):\n    torch.ones(8, 8) @ torch.ones(8, 8)\n")
    command = [sys.executable, "-m", "tachograph", "run", "--view", "-o", "out", "program.py"]
    bare = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}  # no browser opens
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=bare, **pipes) as run:
        try:
            url = run.stdout.readline().strip()
            trace = state_of(SimpleNamespace(url=url))["traces"][0]
            run.send_signal(signal.SIGINT)
            assert run.wait(timeout=600) == 0
        finally:
            run.kill()
    assert trace["name"] == "trace.tacho"
