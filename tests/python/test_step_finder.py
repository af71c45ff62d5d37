"""The hooks with which `tachograph run` finds steps: where torch's compiler is loaded and there is no optimizer, one
that all modules call stays while steps are timed."""

import importlib

import pytest

torch = pytest.importorskip("torch")
from tachograph._launch.steps import StepFinder
from torch.nn.modules import module as modules


class Counted(torch.nn.Linear):
    """How often its parameters are looked for, which takes microseconds."""

    looks = 0

    def parameters(self, recurse=True):
        Counted.looks += 1
        return super().parameters(recurse)


@pytest.fixture
def finder():
    importlib.import_module("torch._dynamo")
    steps = []
    finder = StepFinder(torch, lambda: None, lambda: steps.append(None), lambda: None)
    finder.steps = steps
    yield finder
    finder.remove()


def test_a_step_is_a_call_of_the_outermost_module(finder):
    model, x = torch.nn.Sequential(Counted(2, 2), Counted(2, 2)), torch.ones(1, 2)
    Counted.looks = 0
    for _ in range(5):
        model(x)
    assert len(finder.steps) == 5 and finder.name == "calls of the model"
    assert Counted.looks == 0  # those inside cost one look at a number each


def test_nothing_is_left_behind(finder):
    before = dict(modules._global_forward_pre_hooks)
    assert len(before) == 1
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
    finder.remove()
    assert not modules._global_forward_pre_hooks


def test_a_better_sign_takes_it_off(finder):
    """As the flight recorder does, once an optimizer has stepped."""
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    assert modules._global_forward_pre_hooks  # it finds the steps yet
    optimizer.step()
    finder.drop_module_hook()
    assert not modules._global_forward_pre_hooks
