"""`tachograph diagnose`: six parts with numbers worked out by hand, and what is wrong with its words."""

import json
import os
import random
import re
import subprocess

import pytest
import tachograph as tg
from tachograph._measure.series import verdict

TACHOGRAPH = os.environ.get("TACHOGRAPH", "tachograph")
PARTS = ["baseline", "kind", "component", "operation", "change", "measure"]
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def diagnose(*words):
    return subprocess.run([TACHOGRAPH, "diagnose", *map(str, words)], capture_output=True, text=True, timeout=600)


def event(name, cat, ts, dur):
    return {"ph": "X", "name": name, "cat": cat, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}


def write(path, lengths, loader_part=0.0):
    """Steps one behind the other; of each a part is the loader, half is one operator. us."""
    events, now = [], 0
    for i, length in enumerate(lengths):
        events.append(event(f"ProfilerStep#{i + 3}", "user_annotation", now, length))
        if loader_part:
            events.append(event(LOADER, "user_annotation", now, length * loader_part))
        events.append(event("aten::mm", "cpu_op", now + length * loader_part, length / 2))
        now += length
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def rows_of(path, part):
    return [row for row in tg.open(path).ask("diagnosis") if row["part"] == part]


def test_the_parts_come_in_order_with_their_numbers(tmp_path):
    """Ten steps of 1, 2, … 10 ms: p50 = 5.5, p90 = 9.1, p99 = 9.91 by linear interpolation; four tenths are the
    loader's."""
    path = write(tmp_path / "a.json", [1000.0 * k for k in range(1, 11)], 0.4)
    table = tg.open(path).ask("diagnosis")
    assert list(dict.fromkeys(table["part"])) == PARTS
    times = {row["item"]: row["value"] for row in rows_of(path, "baseline") if row["level"] == "step"}
    assert times == {"p50": 5.5e6, "p90": 9.1e6, "p99": pytest.approx(9.91e6)}
    kinds = {row["item"]: row for row in rows_of(path, "kind")}
    assert kinds["input"]["share_pct"] == pytest.approx(40) and kinds["input"]["value"] == 2.2e6  # 0.4 of 5.5 ms
    assert kinds["host"]["share_pct"] == pytest.approx(60) and kinds["host"]["level"] == "bottleneck"
    asked = [(row["item"], row["share_pct"]) for row in rows_of(path, "kind") if row["level"] == "question"]
    assert asked == [("utilisation", pytest.approx(50)), ("loader", pytest.approx(40)), ("communication", 0),
                     ("intensity", None), ("memory", None), ("synchronisation", 0)]  # fmt: skip
    operators = [row for row in rows_of(path, "operation") if row["level"] == "operator"]
    assert [(o["item"], o["value"], o["share_pct"]) for o in operators] == [("aten::mm", 27.5e6, 100)]
    assert rows_of(path, "measure")[-1]["next"] == "tachograph diff FILE AFTER"


def test_the_page_has_the_file_in_its_commands(tmp_path):
    path = write(tmp_path / "a b.json", [1000.0] * 10, 0.6)
    page = diagnose(path, "--width", "100")
    assert page.returncode == 0, page.stderr
    heads = [line for line in page.stdout.splitlines() if line[:1].isdigit()]
    assert heads == [
        "1. baseline",
        "2. kind of bottleneck",
        "3. component",
        "4. operation",
        "5. what to change first",
        "6. what to measure next",
    ]
    assert f"tachograph diff '{path}' AFTER" in page.stdout
    assert diagnose(path, "--markdown").stdout.count("\n### ") == 5
    data = json.loads(diagnose(path, "--json").stdout)
    assert [c["name"] for c in data["columns"]][:4] == ["rank", "part", "level", "item"]


def test_fail_on_and_explain(tmp_path):
    path = write(tmp_path / "a.json", [10000.0] * 12, 0.5)
    changes = rows_of(path, "change")
    assert changes[0]["item"] == "loader-in-main-process"
    assert diagnose(path, "--fail-on", "loader-in-main-process").returncode == 1
    assert diagnose(path, "--fail-on", "low").returncode == 1
    assert diagnose(path, "--fail-on", "memory-leak").returncode == 0
    explained = diagnose(path, "--explain", "1").stdout
    finding = next(iter(tg.open(path).ask("findings")))
    assert "loader-in-main-process" in explained and finding["method"] in explained
    for word in ("0", "x", "99"):
        wrong = diagnose(path, "--explain", word)
        assert wrong.returncode == 2 and wrong.stderr.startswith("tachograph: ")


@pytest.mark.parametrize("seed", range(20))
def test_two_modes_are_those_of_timing(tmp_path, seed):
    """The peer is the verdict on a measured series, in Python."""
    draw = random.Random(seed)
    apart = draw.choice([1.0, 1.05, 1.2, 1.5])
    steps = [round(1000 * draw.choice([1, apart]) * draw.uniform(0.98, 1.02), 3) for _ in range(draw.randint(6, 40))]
    path = write(tmp_path / "a.json", steps)
    found = [row for row in rows_of(path, "baseline") if row["item"] == "two modes"]
    assert bool(found) == verdict([s / 1000 for s in steps]).startswith("bimodal")


def test_bad_input_is_one_sentence(tmp_path):
    (tmp_path / "empty.json").write_text('{"traceEvents": []}')
    for words in (["none.json"], ["none.py"], [], [tmp_path / "empty.json"]):
        wrong = diagnose(*words)
        assert wrong.returncode not in (0, 1) and wrong.stdout == ""
        assert wrong.stderr.startswith("tachograph: ") and wrong.stderr.count("tachograph: ") == 1


def test_the_method_in_python(tmp_path, capsys):
    path = write(tmp_path / "a.json", [1000.0] * 10, 0.4)
    found = tg.method(path)
    printed = capsys.readouterr().out
    assert list(found) == PARTS and all(f"{part}\n" in printed for part in PARTS)
    assert found["kind"][0]["item"] == "host" and found["kind"][0]["share_pct"] == pytest.approx(60)
    with pytest.raises(TypeError, match="a function of a batch and a loader"):
        tg.method(print)


def test_the_method_of_a_function_and_a_loader():
    torch = pytest.importorskip("torch")
    weights = torch.randn(64, 64)
    found = tg.method(lambda batch: batch @ weights, [torch.randn(8, 64)] * 9, show=False)
    assert any(row["item"] == "aten::mm" for row in found["operation"])
    with pytest.raises(ValueError, match="the loader has 1 batch"):
        tg.method(lambda batch: batch, [1], show=False)


def test_a_change_has_the_saving_and_the_range_of_its_finding(tmp_path):
    """The loader waits 0.6 of 1 ms: no saving is above that."""
    path = write(tmp_path / "a.json", [1000.0] * 10, 0.6)
    (finding,) = tg.open(path).ask("findings")
    (change,) = rows_of(path, "change")
    assert [change[name] for name in ("item", "value", "low", "high")] == [
        finding[name] for name in ("cause", "saving_ns", "saving_low_ns", "saving_high_ns")
    ]
    assert 0 <= change["low"] <= change["value"] <= change["high"] <= 600e3
    page = diagnose(path, "--width", "100").stdout
    saves = re.search(r"saves ([\d.]+) us a step \(([\d.]+) (us|ns) to ([\d.]+) us\)", page)
    assert float(saves[1]) * 1000 == pytest.approx(change["value"]) and float(saves[4]) * 1000 == change["high"]


def test_html_is_the_page_of_the_report_beside_the_answer(tmp_path):
    path = write(tmp_path / "a.json", [1000.0] * 10, 0.6)
    done = diagnose("--html", tmp_path / "page.html", path)
    assert done.returncode == 0 and done.stdout == diagnose(path).stdout
    report = subprocess.run(
        [TACHOGRAPH, "report", "--format", "html", path], capture_output=True, text=True, timeout=600
    ).stdout
    assert (tmp_path / "page.html").read_text() == report and report.startswith("<!doctype html>")
    done = diagnose("--html", tmp_path / "missing" / "page.html", path)
    assert done.returncode == 4 and "missing/page.html" in done.stderr


def test_checklist_is_the_baseline_with_what_is_missing(tmp_path):
    """Ten steps of 1, 2, … 10 ms."""
    path = write(tmp_path / "a.json", [1000.0 * k for k in range(1, 11)], 0.4)
    done = diagnose("--checklist", "--json", path)
    alone = subprocess.run([TACHOGRAPH, "checklist", "--json", path], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout) and done.returncode == 1
    assert "a step takes: p50 5.50 ms, p90 9.10 ms, p99 9.91 ms" in json.loads(done.stdout)["notes"]
