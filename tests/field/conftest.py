"""Real servers, trainers and exporters: asked for with TG_LONG=1, each skipped where its package is not."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))


def pytest_collection_modifyitems(items):
    for item in items:
        if pathlib.Path(__file__).parent in item.path.parents and not os.environ.get("TG_LONG"):
            item.add_marker(pytest.mark.skip(reason="a real server or trainer: asked for with TG_LONG=1"))
