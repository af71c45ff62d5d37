"""`tachograph view` of a recording that goes on: it is read again as it grows, and says how it ended."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
import tachograph as tg

pytest.importorskip("torch")

BINARY = pathlib.Path(tg.__file__).parent / "bin" / "tachograph"
PROGRAM = """import pathlib, time, torch
end = time.monotonic() + 900
while time.monotonic() < end and not pathlib.Path("stop").exists():
    torch.ones(8, 8) @ torch.ones(8, 8)
    time.sleep(0.01)
"""


def doctor():
    return json.loads(subprocess.run([BINARY, "doctor", "--json"], capture_output=True, text=True, timeout=600).stdout)


@pytest.fixture
def recording(tmp_path):
    """A program under `tachograph run -o out`, until a file `stop` is there; has_begun() waits for its first file."""
    if ["view", "none"] in [row[:2] for row in doctor()["rows"]]:
        pytest.skip("a build without libwebsockets")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "tachograph", "run", "-o", "out", "program.py"]
    run = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    until(lambda: list(tmp_path.glob("out/raw/*.tacho")))
    yield tmp_path, run
    (tmp_path / "stop").touch()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
    run.wait(timeout=600)


def until(holds, seconds=600):
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "never true"
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def view(path):
    command = [BINARY, "view", "--json", "--no-browser", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        url = json.loads(server.stdout.readline())["url"]

        def call(**members):
            request = urllib.request.Request(f"{url}api", json.dumps({"id": 1, **members}).encode(), method="POST")
            with urllib.request.urlopen(request, timeout=600) as reply:
                return json.load(reply)["result"]

        try:
            yield call
        finally:
            server.terminate()


def state(call):
    return call(call="state")["traces"][0]


def multiplications(rows, columns):
    name, calls = columns.index("name"), columns.index("calls")
    return sum(row[calls] for row in rows if row[name] == "aten::mm")


def count(answer):
    return multiplications(answer["rows"], [c["name"] for c in answer["columns"]])


def test_it_grows_and_its_end_is_what_ask_says(recording):
    folder, run = recording
    with view(folder / "out") as call:
        first = until(lambda: (s := state(call))["recording"] and s["generation"] and s)
        before = until(lambda: count(call(call="ask", question="ops")))  # torch may not be there at the first reading
        until(lambda: state(call)["generation"] > first["generation"])
        until(lambda: count(call(call="ask", question="ops")) > before)
        (folder / "stop").touch()
        assert run.wait(timeout=600) == 0
        last = until(lambda: not (s := state(call))["recording"] and s)
        assert last["remark"] is None and last["error"] is None
        shown = call(call="ask", question="ops")
        tracks = call(call="tracks")
        assert tracks["generation"] == last["generation"]
    said = subprocess.run([BINARY, "ask", folder / "out", "ops", "--json"], capture_output=True, text=True, check=True)
    assert shown == json.loads(said.stdout)


def test_numbers_of_another_reading_are_refused(recording):
    with view(recording[0] / "out") as call:
        now = until(lambda: (s := state(call))["generation"] and s)
        until(lambda: state(call)["generation"] > now["generation"])
        with pytest.raises(KeyError, match="result"):
            call(call="slice", slice=0, generation=now["generation"])


def test_a_recording_whose_program_was_killed_is_said_to_be_so(recording):
    folder, run = recording
    with view(folder / "out") as call:
        until(lambda: (s := state(call))["recording"] and s["generation"])
        until(lambda: count(call(call="ask", question="ops")))
        os.killpg(run.pid, signal.SIGKILL)  # `run` as well: no process packs the recording
        run.wait(timeout=600)
        last = until(lambda: not (s := state(call))["recording"] and s)
        assert last["remark"].startswith("the program ended without closing its recording")
        assert last["state"] == "ready" and count(call(call="ask", question="ops")) > 0


def test_a_file_that_goes_away_or_shrinks_leaves_what_was_read(recording):
    folder, _ = recording
    (file,) = folder.glob("out/raw/start-*.tacho")
    with view(file) as call:
        until(lambda: (s := state(call))["recording"] and s["generation"])
        before = count(call(call="ask", question="ops"))
        os.rename(file, folder / "elsewhere.tacho")
        last = until(lambda: not (s := state(call))["recording"] and s)
        assert last["remark"].endswith("is not there any more: the page shows what was read of it before")
        assert count(call(call="ask", question="ops")) >= before


def test_a_copy_cut_anywhere_is_read_as_far_as_it_is(recording):
    folder, _ = recording
    (file,) = folder.glob("out/raw/start-*.tacho")
    until(lambda: file.stat().st_size > 100_000)
    time.sleep(1)
    whole = file.read_bytes()
    copy = folder / "copy.tacho"
    for share in (0.3, 0.7, 0.95):
        copy.write_bytes(whole[: int(len(whole) * share)])
        with view(copy) as call:
            last = until(lambda: not (s := state(call))["recording"] and s["state"] in ("ready", "failed") and s)
            assert last["state"] == "ready" or last["error"]["text"]
