"""What a recording marks as waiting for files: functions are replaced while it runs, and are what they were
afterwards."""

import gc
import importlib
import json
import os
import pickle
import queue
import sys

import pytest

pytest.importorskip("torch")
import torch
from tachograph._launch.waits import WAITS, Waits


class Recorded:
    """Stands in for the recorder: keeps the names of ranges that are entered and left."""

    def __init__(self):
        self.events = []
        events = self.events

        class Label:
            def __init__(self, name):
                self.name = name

            def __enter__(self):
                events.append(("begin", self.name))

            def __exit__(self, *error):
                events.append(("end", self.name))

        self.record_function = Label


def test_calls_are_marked_and_do_what_they_did(tmp_path):
    before, record = (os.fsync, torch.save), Recorded()
    waits = Waits(record)
    try:
        with open(tmp_path / "log", "w") as file:
            file.write("x")
            os.fsync(file.fileno())
        with pytest.raises(OSError):
            os.fsync(10**6)
        torch.save({"a": 1}, tmp_path / "weights")
    finally:
        waits.remove()
    assert (os.fsync, torch.save) == before
    assert record.events == [
        (what, name) for name in ("os.fsync", "os.fsync", "torch.save") for what in ("begin", "end")
    ]
    assert torch.load(tmp_path / "weights") == {"a": 1} and len(record.events) == 6


def test_methods_are_marked_too():
    import queue

    before, record, box = queue.Queue.get, Recorded(), queue.Queue()
    waits = Waits(record)
    box.put(3)
    assert box.get() == 3
    with pytest.raises(queue.Empty):
        box.get(block=False)
    waits.remove()
    assert queue.Queue.get is before
    assert record.events == [(what, "queue.Queue.get") for _ in range(2) for what in ("begin", "end")]


def test_what_the_program_put_in_its_place_stays(monkeypatch):
    monkeypatch.setattr(os, "fsync", os.fsync)  # restored at the end
    waits = Waits(Recorded())
    mine = os.fsync = lambda descriptor: None
    waits.remove()
    assert os.fsync is mine


def test_modules_are_not_imported_for_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    Waits(Recorded()).remove()
    assert "numpy" not in sys.modules


def test_files_are_marked_when_they_are_opened_to_be_read(tmp_path):
    import builtins
    import io

    before, record = (builtins.open, io.open), Recorded()
    waits = Waits(record)
    try:
        with open(file=tmp_path / "a", mode="w", encoding="utf-8") as file:
            file.write("one\n")
        with open(tmp_path / "a", "a") as file:
            file.write("two\n")
        assert record.events == []
        with open(tmp_path / "a") as file, open(tmp_path / "a", mode="rb") as same:
            assert file.read() == "one\ntwo\n" and same.read() == b"one\ntwo\n"
        assert (tmp_path / "a").read_text() == "one\ntwo\n"
        with pytest.raises(FileNotFoundError):
            open(tmp_path / "none")
        with pytest.raises(TypeError):
            open()
        assert io.open is open and pickle.loads(pickle.dumps(open)) is open
    finally:
        waits.remove()
    assert (builtins.open, io.open) == before
    opened = 4 if sys.version_info >= (3, 11) else 3  # pathlib of 3.10 keeps the function it found at its import
    assert record.events == [(what, "builtins.open") for _ in range(opened) for what in ("begin", "end")]


def test_what_takes_the_place_of_a_function_can_be_pickled():
    """By its name, so that it is the function itself where nothing is recorded."""

    def functions():
        return [os.fsync, open, torch.save, json.load, pickle.dump, gc.collect, queue.Queue.get]

    waits = Waits(Recorded())
    try:
        replaced = functions()
        texts = [pickle.dumps(function) for function in replaced]
        assert [pickle.loads(text) for text in texts] == replaced
    finally:
        waits.remove()
    assert [pickle.loads(text) for text in texts] == functions()
    assert not set(functions()) & set(replaced)


def test_a_module_that_is_imported_meanwhile_does_not_keep_ours(tmp_path, monkeypatch):
    (tmp_path / "waits_taken.py").write_text(
        "from json import load\nfrom gc import collect as tidy\nfrom os import fsync\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    waits = Waits(Recorded())
    try:
        taken = importlib.import_module("waits_taken")
        taken.fsync = mine = lambda fd: None
        assert taken.load is json.load
    finally:
        waits.remove()
    sys.modules.pop("waits_taken")
    assert taken.load is json.load and taken.tidy is gc.collect and taken.fsync is mine
    assert not hasattr(taken.load, "__wrapped__")


def test_what_is_open_already_is_no_file_to_be_read():
    reading, writing = os.pipe()
    os.write(writing, b"x")
    os.close(writing)
    record = Recorded()
    waits = Waits(record)
    try:
        with open(reading, "rb") as pipe:  # as subprocess does with what a child writes
            assert pipe.read() == b"x"
    finally:
        waits.remove()
    assert record.events == []


def test_waiting_for_a_condition_is_marked():
    import threading

    before, record, done = threading.Condition.wait, Recorded(), threading.Condition()
    waits = Waits(record)
    with done:
        assert not done.wait(0.001)
    with pytest.raises(RuntimeError):
        done.wait(0.001)
    waits.remove()
    assert threading.Condition.wait is before
    assert record.events == [(what, "threading.Condition.wait") for _ in range(2) for what in ("begin", "end")]


@pytest.mark.parametrize("name", sorted({f"{module}.{function}" for module, function in WAITS} - {"io.open"}))
def test_what_comes_again_and_again_is_no_step(opened, name):
    """A program that only waits has no steps, though one label covers it; one of its own would be a step."""
    for label, steps in ((name, ["whole recording"]), ("epoch", ["epoch"] * 4)):
        events = [("user_annotation", label, 10 * n, 9) for n in range(4)] + [("cpu_op", "aten::add", 2, 3)]
        document = [
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}
            for cat, name, ts, dur in events
        ]
        assert [row["name"] for row in opened({"traceEvents": document}).ask("steps")] == steps
