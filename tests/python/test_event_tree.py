"""experimental_event_tree(): the same operators, allocations and frames as torch's own tree of the same program, and
torch's tools walk it."""

import re
import warnings
from collections import Counter

import pytest

torch = pytest.importorskip("torch")
import tachograph as tg
import torch._dynamo
from recording import BACKENDS, CPU

utils = pytest.importorskip("torch.profiler._utils")
WITH_FRAMES = [pytest.param(kind, marks=[pytest.mark.frames] if kind == "native" else []) for kind in BACKENDS]
FLAGS = dict(activities=[CPU], record_shapes=True, profile_memory=True, with_stack=True)


class Program:
    def __init__(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, foreach=False)
        self.run(tg)

    def run(self, package):
        with package.record_function("a label"):
            self.model(torch.ones(2, 8)).sum().backward()
        rows = torch.zeros(12, 3)
        for i in range(12):
            rows[i].add_(1)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)


@pytest.fixture(scope="module")
def torchs():
    program = Program()
    with torch.profiler.profile(**FLAGS) as prof:
        program.run(torch.profiler)
    return prof


@pytest.fixture(scope="module", params=BACKENDS)
def ours(request):
    program = Program()
    with tg.profile(**FLAGS, backend=request.param) as prof:
        program.run(tg)
    return prof


def tree(prof):
    return list(utils.traverse_dfs(prof.profiler.kineto_results.experimental_event_tree()))


def is_operator(event):
    """Labels are left out: with stacks torch's end with the Python call that begins them, ours with their block."""
    return event.tag.name == "TorchOp" and event.extra_fields.scope != torch._C._profiler.RecordScope.USER_SCOPE


def operators(prof):
    """Every operator with the operators around it, outermost first."""
    found = Counter()
    for event in filter(is_operator, tree(prof)):
        path = []
        while event is not None:
            path, event = path + [event.name] * is_operator(event), event.parent
        found["/".join(reversed(path))] += 1
    return found


def test_operators_stand_under_the_same_ones(ours, torchs):
    assert operators(ours) == operators(torchs) and len(operators(ours)) > 20


def test_allocations_stand_under_the_same_ones(ours, torchs):
    """Without frees: which of them fall into an operator depends on when Python lets go of a tensor."""

    def found(prof):
        return Counter(
            (e.parent.name, e.extra_fields.alloc_size)
            for e in tree(prof)
            if e.tag.name == "Allocation"
            and e.parent
            and e.parent.tag.name == "TorchOp"
            and e.extra_fields.alloc_size > 0
        )

    assert found(ours) == found(torchs)


def test_an_operator_tells_its_inputs(ours, torchs):
    def inputs(prof):
        event = next(e for e in tree(prof) if e.name == "aten::addmm")
        assert isinstance(event.extra_fields, torch._C._profiler._ExtraFields_TorchOp) and event.typed[0] == event.tag
        return [(i.sizes, i.strides, i.dtype, i.dim) if hasattr(i, "sizes") else i for i in event.extra_fields.inputs]

    assert (
        inputs(ours)
        == inputs(torchs)
        == [([8], [1], torch.float32, 1), ([2, 8], [8, 1], torch.float32, 2), ([8, 8], [1, 8], torch.float32, 2), 1, 1]
    )


@pytest.mark.parametrize("ours", WITH_FRAMES, indirect=True)
def test_frames_tell_where_they_are(ours):
    events = tree(ours)
    run = next(e for e in events if re.search(r"test_event_tree\.py\(\d+\): run$", e.name))  # xdist has a run, too
    assert run.tag.name == "PyCall" and run.extra_fields.callsite.function_name == "run"
    assert (
        run.extra_fields.callsite.file_name.endswith("test_event_tree.py")
        and f"({run.extra_fields.callsite.line_number})" in run.name
    )
    assert {e.extra_fields.module.cls_name for e in events if e.tag.name == "PyCall" and e.extra_fields.module} == {
        "Sequential",
        "Linear",
        "ReLU",
    }
    label = next(e for e in events if e.name == "a label")
    assert (
        label.extra_fields.scope == torch._C._profiler.RecordScope.USER_SCOPE
        and label.end_time_ns > label.start_time_ns
    )


@pytest.mark.parametrize("ours", WITH_FRAMES, indirect=True)
def test_torchs_rules_find_what_they_find_in_torchs_tree(ours, torchs):
    rules = pytest.importorskip("torch.profiler._pattern_matcher")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rule in (rules.ForLoopIndexingPattern, rules.OptimizerSingleTensorPattern, rules.GradNotSetToNonePattern):
            assert len(rule(ours).matched_events()) == len(rule(torchs).matched_events()) == 1, rule


def test_torchs_evaluation_runs(ours):
    if not hasattr(utils, "BasicEvaluation"):
        pytest.skip("gone from this torch")
    evaluation = utils.BasicEvaluation(ours.profiler)
    own = {key.event.name: metrics.self_time_ns for key, metrics in evaluation.metrics.items()}
    assert own["aten::addmm"] > 0
