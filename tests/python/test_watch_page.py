"""What `tachograph watch` makes of what a program reports: figures worked out by hand or by brute force, and how they
look at any width; what is hostile in them does no harm."""

import json
import math
import os
import random
import statistics

import pytest
from tachograph._launch import watched
from tachograph._watch import watch_figures, watch_page
from tachograph._watch.watch_figures import Figures, percentile, price
from tachograph._watch.watch_page import one_line, page


def figures(**changes):
    made = {
        "time": "10:00:01", "watched_s": 62.4, "pid": 4711, "command": "python train.py --epochs 2",
        "python": "3.12.1", "torch": "2.13.0", "silent_s": 0,
        "steps": {"source": "optimizer steps", "count": 4971, "last_ms": 12.13, "median_ms": 12.0, "p99_ms": 1500.0,
                  "of": 4900, "per_s": 82.94, "why": ""},
        "parts": {"of": 240, "device_busy_pct": 87.25, "device_wait_ms": 3.1, "rows": [
            {"part": "data", "ms": 1.2, "share_pct": 10.0}, {"part": "optimizer", "ms": 10.8, "share_pct": 90.0}]},
        "lines": {"thread": "MainThread", "looks": 1000, "missed": 20, "no_core_pct": 61.4, "why": "", "rows": [
            {"file": "/home/me/train.py", "line": 21, "function": "step", "share_pct": 41.2}]},
        "memory": {"VmRSS": 1_210_000_000, "VmHWM": 1_300_000_000, "devices": [
            {"index": 0, "allocated": 2_100_000_000, "peak": 3_200_000_000, "reserved": 4_000_000_000}]},
        "price": {"pct": 3.14, "low_pct": 2.04, "high_pct": 4.2, "pairs": 60, "threads_pct": 0.44},
    }  # fmt: skip
    return {**made, **changes}


UNKNOWN = figures(
    torch="", silent_s=7.0,
    steps={"why": "the program has not imported torch"}, parts={"why": ""},
    lines={"thread": "", "looks": 0, "missed": 0, "no_core_pct": None, "rows": [], "why": "this Python is free-threaded"},
    memory={"devices": []}, price={"why": "0 of 6 pairs of steps were compared so far", "threads_pct": None},
)  # fmt: skip


def test_a_page():
    assert page(figures(), 80) == [
        "tachograph watch 4711   Python 3.12.1, torch 2.13.0   for 1:02",
        "python train.py --epochs 2",
        "",
        "step        last 12.1 ms   median 12.0 ms   p99 1.50 s   82.9/s",
        "            4,900 of 4,971 steps, the last minute (optimizer steps)",
        "  data        1.20 ms  10.0 %  ██",
        "  optimizer   10.8 ms  90.0 %  ██████████████████",
        "            mean of 240 recorded steps; other: Python, and waiting",
        "",
        "device      busy in 87.2 % of the recorded steps, which wait 3.10 ms each for it",
        "  GPU 0     2.10 GB allocated by torch, 3.20 GB at the peak, 4.00 GB reserved",
        "memory      1.21 GB resident, 1.30 GB at the peak",
        "",
        "lines       of MainThread, 1,000 looks in 10 s, waiting included",
        "            it had no core for 61 % of the time: others use the machine",
        "   41.2 %  home/me/train.py(21): step",
        "    2.0 %  no stack was to be had",
        "",
        "price       its threads use 0.4 % of a core",
        "            +3.1 % CPU of a recorded step (95 %: +2.0 to +4.2), half are",
        "            recorded",
    ]


def test_recording_makes_no_step_shorter():
    given = figures()
    given["price"] = {"threads_pct": 0.4, "pct": -19.3, "low_pct": -24.5, "high_pct": 48.1}
    text = " ".join(" ".join(page(given, 200)).split())
    assert text.endswith("of recording: less than the noise (95 %: -24.5 to +48.1 % CPU of a recorded step)")


def test_what_is_not_known_has_a_reason():
    text = "\n".join(page(UNKNOWN, 200))
    for reason in ("the program has not imported torch", "this Python is free-threaded", "0 of 6 pairs",
                   "no news for 7 s", "/proc has no status", "not known without torch"):  # fmt: skip
        assert reason in text
    assert one_line(UNKNOWN) == "10:00:01   no steps: the program has not imported torch   no news for 7 s"


def test_one_line():
    assert one_line(figures()) == (
        "10:00:01   step 12.1 ms median 12.0 ms p99 1.50 s 82.9/s   data 10 %, optimizer 90 %   device busy 87 %   "
        "1.21 GB   GPU 0 2.10 GB   41 % home/me/train.py(21): step   no core 61 %"
    )


HOSTILE = "\x1b]0;owned\x07" + "é漢" * 60 + "\n\r\x9b31m"


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_no_line_is_too_wide_and_no_control_character_is_shown(width):
    row = {"file": HOSTILE, "line": 1, "function": HOSTILE, "share_pct": 100.0}
    hostile = figures(
        command=HOSTILE, python=HOSTILE, torch=HOSTILE,
        steps={"why": HOSTILE}, parts={"why": HOSTILE},
        lines={"thread": HOSTILE, "looks": 1, "missed": 1, "no_core_pct": 4.9, "rows": [row], "why": HOSTILE},
    )  # fmt: skip
    for made in (hostile, figures(), UNKNOWN):
        lines = page(made, width)
        assert max(map(len, lines)) <= width
        assert all(c.isprintable() for c in "".join(lines) + one_line(made))


@pytest.mark.parametrize(
    "value, text",
    [(0, "0.00 ms"), (0.00123, "0.00123 ms"), (0.0996, "0.0996 ms"), (9.999, "10.00 ms"), (12.34, "12.3 ms"), (999.4, "999 ms"), (1000, "1.00 s"),
     (123456, "123 s")],
)  # fmt: skip
def test_times(value, text):
    assert watch_page.ms(value) == text


def test_percentiles_by_their_definition():
    draw = random.Random(1)
    for n in (1, 2, 3, 99, 100, 101, 500):
        values = sorted(draw.randrange(1000) for _ in range(n))
        for percent in (1, 50, 99, 100):
            found = percentile(values, percent)
            assert sum(value <= found for value in values) >= percent / 100 * n
            assert found == values[0] or sum(value < found for value in values) < percent / 100 * n


def test_the_interval_of_the_price_holds_in_95_of_100_cases():
    """By the binomial distribution: the median is between two of the ordered differences."""
    for n in range(watch_figures.LEAST_PAIRS, 201):
        differences = list(range(n))
        found = price([[100, 100 + d] for d in random.Random(n).sample(differences, n)])
        low, high = round(found["low_pct"]), round(found["high_pct"])
        assert low == n - 1 - high and found["pct"] == pytest.approx(statistics.median(differences))
        wider = 2 * sum(math.comb(n, k) for k in range(low + 2)) / 2**n
        assert wider > 0.05  # and no interval is narrower
        outside = 2 * sum(math.comb(n, k) for k in range(low + 1)) / 2**n
        assert outside <= 0.05, (n, low, high, outside)
    assert price([[100, 101]] * 5)["why"] == "5 of 6 pairs of steps were compared so far"


class Program:
    """A folder with what a program reports."""

    def __init__(self, folder):
        self.folder, self.number = folder, 0
        (folder / "raw").mkdir()
        self.figures = Figures(str(folder), os.getpid())

    def report(self, at_s, steps=(), count=0, places=(), looks=0, thread="MainThread", source="optimizer steps"):
        self.number += 1
        (self.folder / "now.json").write_text(json.dumps({
            "number": self.number, "at_ns": int(at_s * 1e9), "python": "3.12.1", "torch": "2.13.0", "devices": [],
            "steps": {"source": source, "count": count, "ns": list(steps), "ring": "", "why": "", "pairs": [], "rests": True},
            "lines": {"looks": looks, "missed": 0, "native_id": os.getpid(), "thread": thread, "places": list(places), "why": ""},
        }))  # fmt: skip
        assert self.figures.look() and not self.figures.look()
        return self.figures.now()


def test_the_last_minute_of_steps_and_ten_seconds_of_lines(tmp_path):
    program = Program(tmp_path)
    for second in range(100):
        lines = [[3, "/a.py", 1, "f"], [1, "/b.py", second, "g"]]
        now = program.report(second, [second * 1_000_000, second * 1_000_000 + 1], 2 * second, lines, 5)
    kept = [ms for second in range(39, 100) for ms in (second, second + 1e-6)]
    steps = now["steps"]
    assert steps["of"] == len(kept) and steps["count"] == 198 and steps["per_s"] == 2
    assert steps["median_ms"] == pytest.approx(sorted(kept)[60], abs=1e-5) and steps["last_ms"] == 99.000001
    assert steps["p99_ms"] == pytest.approx(sorted(kept)[math.ceil(0.99 * len(kept)) - 1])
    assert now["lines"]["looks"] == 55 and len(now["lines"]["rows"]) == 8
    assert now["lines"]["rows"][0] == {"file": "/a.py", "line": 1, "function": "f", "share_pct": pytest.approx(60)}
    assert now["lines"]["rows"][1]["share_pct"] == pytest.approx(100 / 55)
    assert program.report(101, (), 200, [[1, "/c.py", 1, "f"]], 1, "Thread-1")["lines"]["looks"] == 1
    assert "why" in program.report(102, (), 0, source="DataLoader iterations")["steps"]


def test_parts_of_steps_with_a_device(tmp_path):
    """Two steps of 100 us with kernels of 30 and 50, a wait of 20 in each; the second holds 10 of an operator only."""

    def event(name, kind, ts, dur, tid=1, **args):
        pid = 0 if tid == 7 else 1
        return {"ph": "X", "cat": kind, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}

    events = [
        event("ProfilerStep#0", "user_annotation", 0, 100), event("ProfilerStep#1", "user_annotation", 100, 100),
        event("aten::mm", "cpu_op", 10, 10, **{"External id": 1}), event("aten::mm", "cpu_op", 110, 10, **{"External id": 2}),
        event("cudaLaunchKernel", "cuda_runtime", 12, 2, correlation=1), event("cudaLaunchKernel", "cuda_runtime", 112, 2, correlation=2),
        event("gemm", "kernel", 20, 30, 7, device=0, stream=7, correlation=1, **{"External id": 1}),
        event("gemm", "kernel", 120, 50, 7, device=0, stream=7, correlation=2, **{"External id": 2}),
        event("cudaStreamSynchronize", "cuda_runtime", 30, 20, correlation=3), event("cudaStreamSynchronize", "cuda_runtime", 150, 20, correlation=4),
    ]  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    parts = watch_figures.read_parts(str(tmp_path / "a.json"))
    assert parts["of"] == 2 and parts["device_busy_pct"] == pytest.approx(40)
    assert parts["device_wait_ms"] == pytest.approx(0.02)
    assert {row["part"]: row["ms"] for row in parts["rows"]} == pytest.approx(
        {"data": 0, "forward": 0.01, "loss": 0, "backward": 0, "optimizer": 0, "other": 0.09}
    )
    assert "why" in watch_figures.read_parts(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"number": 1}', '{"number": 1, "at_ns": "x", "steps": {}, "lines": {}}',
             '{"number": 1, "at_ns": 1, "steps": [], "lines": {"thread": 1}}', "[" * 100000],
)  # fmt: skip
def test_reports_that_are_none(tmp_path, text):
    program = Program(tmp_path)
    (tmp_path / "now.json").write_text(text)
    assert not program.figures.look()
    assert page(program.figures.now(), 80)


def test_a_report_that_is_a_link_or_a_pipe(tmp_path):
    program = Program(tmp_path)
    (tmp_path / "other").write_text('{"number": 1}')
    (tmp_path / "now.json").symlink_to(tmp_path / "other")
    assert not program.figures.look()
    (tmp_path / "now.json").unlink()
    os.mkfifo(tmp_path / "now.json")
    assert not program.figures.look()


def test_which_line_of_a_stack():
    others = watched.libraries()
    own, library = ("/home/me/train.py", 3, "step"), (os.__file__, 5, "walk")
    installed = ("/env/lib/python3.12/site-packages/lightning/loop.py", 7, "run")
    ours = (watched.__file__, 9, "_report")
    for stack, place in [
        ((library, installed, own, installed), own),
        ((None, own), own),
        ((installed, library), installed),
        ((ours, own), ours),  # what watching takes is not hidden
        ((library, ours, own), own),
        ((None, None), None),
        ((), None),
        ((("<string>", 1, "<module>"), installed), ("<string>", 1, "<module>")),
    ]:
        assert watched.place_of(stack, others) == place, stack
