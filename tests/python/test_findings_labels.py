"""Labels are structure: a program gives the same first finding with and without them, recorded by our own recorder."""

import contextlib

import pytest
import tachograph as tg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timing  # shares of a step, by the clock


def count(n):
    found = 0
    for i in range(n):
        found += i * i % 7
    return found


def train(label, step, steps):
    model = torch.nn.Linear(16, 16)
    x = torch.randn(8, 16)
    for _ in range(steps):
        with label("batch"):
            with label("metrics"):
                y = x * 2
                n = count(200_000)
                y = y + n % 3
            with label("forward"):
                loss = model(y).sum()
            with label("backward"):
                loss.backward()
        step()


def first(path, label):
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=6, repeat=1)
    with tg.profile(with_stack=True, schedule=schedule) as profile:
        train(label, profile.step, 8)
    profile.export_chrome_trace(str(path))
    with tg.open(path) as trace:
        table = trace.ask("findings")
        severity = "medium" if any("nothing is graded high" in note for note in table.notes) else "high"
        return {**next(iter(table)), "wanted": severity}, next(
            r for r in trace.ask("steps", by="summary") if r["step"] == "p50"
        )


def test_same_finding_with_and_without_labels(tmp_path):
    torch.set_num_threads(1)
    bare, steps = first(tmp_path / "bare.json", lambda name: contextlib.nullcontext())
    labelled, labelled_steps = first(tmp_path / "labelled.json", torch.profiler.record_function)
    assert bare["cause"] == labelled["cause"] == "slow-python-transform"
    for found in bare, labelled:
        assert found["severity"] == found["wanted"]
    assert bare["file"] == labelled["file"] and bare["line"] == labelled["line"]
    assert not steps["label_ns"] and 2 * labelled_steps["label_ns"] > labelled_steps["total_ns"]
