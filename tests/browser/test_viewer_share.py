"""A view to send to another person: one file that opens where its sender was; and a command. Neither has the token."""

import json
import re
import subprocess
from urllib.parse import urlsplit

import pytest


def event(cat, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


@pytest.fixture
def trace(tmp_path):
    events = [event("user_annotation", f"ProfilerStep#{n}", 1, 1, 100 * n, 90) for n in range(20)]
    events += [event("python_function", "train.py(7): main", 1, 1, 100 * n + 1, 80) for n in range(20)]
    events += [event("cpu_op", f"aten::op{n}", 1, 1, 100 * n + 10, 40) for n in range(20)]
    path = tmp_path / "own trace.json"
    lines = {"source_lines.7": {"train.py": {"6": "# before", "7": "main()  # <b>here</b>"}}}
    path.write_text(json.dumps({**lines, "traceEvents": events}))
    return path


def chosen(page):
    return page.evaluate(
        """() => ({name: document.querySelector(".details h3")?.innerText,
                   area: document.querySelector("#aggregate-table")?.innerText ?? null, hash: location.hash})"""
    )


@pytest.mark.brief
def test_a_saved_view_opens_where_its_sender_was(view, open_page, until, trace, tmp_path):
    viewer = view(trace)
    served = open_page(viewer.url).go("#/timeline?step=5&theme=dark")
    until(served.page, "document.querySelector('#aggregate-table') !== null")
    served.page.fill("#find", "op7")
    served.page.keyboard.press("Enter")
    until(served.page, "location.hash.includes('at=')")
    served.rest()
    before = chosen(served.page)
    assert before["name"] == "aten::op7" and before["area"]
    served.page.get_by_role("button", name="share", exact=True).click()
    with served.page.expect_download() as download:
        served.page.get_by_role("button", name="save this view as a file").click()
    saved = tmp_path / "saved.html"
    download.value.save_as(saved)
    token = urlsplit(viewer.url).path.strip("/")
    text = saved.read_text()
    assert len(token) == 32 and token not in text and "127.0.0.1" not in before["hash"]
    viewer.process.terminate()  # the file needs no server
    first = open_page(saved.as_uri())
    first.go("")
    until(first.page, "document.querySelector('.details h3') !== null && document.querySelector('#aggregate-table')")
    first.rest()
    after = chosen(first.page)
    assert after["name"] == before["name"] and after["hash"] == before["hash"]
    assert after["area"].split("\n")[0] == before["area"].split("\n")[0]
    assert first.page.evaluate("document.documentElement.dataset.theme") == "dark"
    # source, as it was recorded: text, not markup
    first.page.locator(".details a code", has_text="train.py(7): main").click()
    first.page.wait_for_selector(".source")
    assert "main()  # <b>here</b>" in first.page.inner_text(".source")
    # and the file can be saved once more, elsewhere
    first.page.evaluate("location.hash = '#/operators'")
    first.ready()
    first.page.get_by_role("button", name="share", exact=True).click()
    with first.page.expect_download() as download:
        first.page.get_by_role("button", name="save this view as a file").click()
    again = tmp_path / "again.html"
    download.value.save_as(again)
    second = open_page(again.as_uri())
    second.go("")
    second.page.wait_for_selector("#operators-table")
    assert second.page.evaluate("location.hash").startswith("#/operators")
    assert first.errors == second.errors == []


def test_the_command_for_others_shows_the_view_and_has_no_token(view, open_page, until, trace, tachograph_path):
    viewer = view(trace)
    served = open_page(viewer.url).go("#/timeline?step=5&find=it%27s")
    served.rest()
    served.page.get_by_role("button", name="share", exact=True).click()
    command = served.page.inner_text("dialog.share code")
    assert urlsplit(viewer.url).path.strip("/") not in command and "127.0.0.1" not in command
    words = subprocess.run(
        ["sh", "-c", f'for word in {command}; do echo "$word"; done'], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert words[:3] == ["tachograph", "view", "own trace.json"] and words[3] == "--at"
    assert re.match(r"#/timeline\?.*t0=", words[4])
    started = subprocess.Popen(
        [tachograph_path, "view", "--json", "--no-browser", str(trace), *words[3:]], stdout=subprocess.PIPE, text=True
    )
    url = json.loads(started.stdout.readline())["url"]
    try:
        other = open_page(url)
        other.go("")
        other.page.wait_for_selector(".timeline .rows")
        assert other.page.input_value("#find") == "it's"
        assert other.page.evaluate("location.hash") == words[4]
    finally:
        started.terminate()
        started.wait(10)
        started.stdout.close()
