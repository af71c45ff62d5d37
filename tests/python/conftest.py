"""Fixtures of the tests of the Python package."""

import json
import os
import pathlib
import sys

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
from engine import Package, open_engine
from forks import Forks

# No verdict of hypothesis depends on how long something took. In CI the examples are always the same, so that a failure
# belongs to the change; make check, with TG_LONG=1, draws more.
settings.register_profile(
    "ci",
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="CI" in os.environ,
    max_examples=12,
)
settings.register_profile("long", settings.get_profile("ci"), max_examples=100)
settings.load_profile("long" if "TG_LONG" in os.environ else "ci")


@pytest.fixture(scope="session")
def forks():
    """forks.run(program): a process that has imported torch and our profiler. torch's collector loads
    torch._inductor.config at its first start, which takes longer than most programs. test_usage's scripts import their
    shim from the path."""
    usage = pathlib.Path(__file__).with_name("usage")
    with Forks("torch._inductor.config", "tachograph.profiler", path=[usage]) as forks:
        yield forks


@pytest.fixture
def one_torch_thread():
    """With the same random numbers in each test."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def engine():
    """The Python package where it is installed: no process per question."""
    try:
        return Package()
    except ImportError:
        return open_engine(None)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """opened(document): the trace of a dict in Kineto's words."""
    import tachograph as tg

    path = tmp_path_factory.mktemp("opened") / "trace.json"

    def open_document(document):
        path.write_text(json.dumps(document))
        return tg.open(path)

    return open_document
