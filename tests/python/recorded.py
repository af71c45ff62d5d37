"""Shared by the tests of stacks and of module spans: a function, and the trace of it."""

import decimal
import json
import sys
import threading

import pytest
import tachograph as tg
from tachograph import _record as record


class Recorded:
    """What a function did while it was recorded: the events of the exported trace."""

    def __init__(self, path, features, work):
        record.open(str(path), features=features)
        record.resume()
        try:
            self.result = work()
        finally:
            record.pause()
            self.stats = record.close()
        with tg.open(str(path)) as trace:
            trace.export(str(path) + ".json", to="chrome")
        with open(str(path) + ".json", encoding="utf-8") as file:
            everything = json.load(file, parse_float=decimal.Decimal)["traceEvents"]
        self.events = [e for e in everything if e.get("ph") == "X"]
        self.marks = [e["name"] for e in everything if e.get("ph") == "i"]

    def named(self, name):
        return [e for e in self.events if e["name"] == name]

    def stacks(self, name):
        return [[frame for frame in e["args"]["Call stack"].split(";") if frame] for e in self.named(name)]

    def modules(self):
        return {
            (e["name"].removeprefix("nn.Module: "), e["args"].get("Module path", ""))
            for e in self.events
            if e["name"].startswith("nn.Module: ")
        }


@pytest.fixture
def run(tmp_path):
    def run(features, work):
        return Recorded(tmp_path / "run.tacho", features, work)

    yield run
    check = record.self_check()
    assert check["clean"], check
    assert sys.getprofile() is None and threading.getprofile() is None
