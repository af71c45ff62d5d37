"""Every public attribute of a running profiler, of its `profiler` and of an experimental configuration, beside those of
the torch that is installed: value and type at each step of a schedule, and the order of parameters. A row of
docs/tables.md states each intended difference."""

import enum
import inspect
import pathlib
import re
import warnings

import pytest

torch = pytest.importorskip("torch")
import torch.profiler as theirs
from tachograph import profiler as ours

CPU = theirs.ProfilerActivity.CPU
ROWS = (pathlib.Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
PARAMETERS = inspect.signature(theirs.profile).parameters
# Attribute → its row.
ON_PURPOSE = {
    "step_rec_fn": "| `profile.step_rec_fn` |",
    "action_map": "| `profile.action_map` |",
    "profiler.config": "| `profile.profiler.config` |",
    "profiler.experimental_config": "| `profile.profiler.experimental_config` |",
}
# Measured, or a list that test_dropin_attributes.py compares event by event.
MEASURED = {
    "profiler.self_cpu_time_total",
    "profiler.profiling_start_time_ns",
    "profiler.profiling_end_time_ns",
    "profiler.function_events",
    "profiler.kineto_results",
    "profiler.trace_id",  # random
}
MISSING = "missing"
OPTIONS = [
    {},
    {"record_shapes": True, "with_stack": True, "acc_events": True},
    {"with_flops": True, "profile_memory": True, "with_modules": True, "post_processing_timeout_s": 30.0},
]
if "dict" in str(PARAMETERS["activities"].annotation):  # this torch selects types
    OPTIONS.append({"activities": [{CPU: ["CPU_OP"]}]})


def attributes(prof):
    """Name → value, and what `profiler` has beside it under "profiler."."""
    found = {}
    for head, of in (("", prof), ("profiler.", getattr(prof, "profiler", None))):
        for name in [] if of is None else [n for n in dir(of) if not n.startswith("_")]:
            try:
                found[head + name] = getattr(of, name)
            except Exception as error:  # torch too has properties that need a finished window
                found[head + name] = error
    return found


def moments(module, options):
    """The attributes before, at each step of, and after a schedule of two windows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"activities": [CPU]} | {name: value for name, value in options.items() if name in PARAMETERS}
        prof = module.profile(schedule=module.schedule(wait=1, warmup=1, active=2, repeat=2), **options)
        seen = [attributes(prof)]
        with prof:
            seen.append(attributes(prof))
            for _ in range(9):
                torch.ones(2).sin()
                prof.step()
                seen.append(attributes(prof))
        seen.append(attributes(prof))
    return seen


def same(left, right):
    if callable(left) or callable(right):
        return callable(left) and callable(right)
    if isinstance(left, Exception) or isinstance(right, Exception):
        return type(left) is type(right)
    if isinstance(left, enum.Enum):
        return left == right and right == left and (left.name, left.value) == (right.name, right.value)
    if type(left).__module__.startswith("torch.autograd.profiler"):  # a class that we replace
        return type(left).__name__ == type(right).__name__
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(map(same, left.values(), right.values()))
    if type(left).__name__ == "ProfilerActivityConfig":
        return type(right).__name__ == "ProfilerActivityConfig" and vars(left) == vars(right)
    return type(left) is type(right) and left == right


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "+".join(o) or "plain")
def test_attributes(options):
    found = {}
    for number, (left, right) in enumerate(zip(moments(theirs, options), moments(ours, options), strict=True)):
        for name, value in left.items():
            if name in MEASURED:
                assert name in right, name
            elif not same(value, right.get(name, MISSING)):
                found.setdefault(name, (number, value, right.get(name, MISSING)))
    assert set(found) <= set(ON_PURPOSE), {n: v for n, v in found.items() if n not in ON_PURPOSE}
    for name in found:
        assert ON_PURPOSE[name] in ROWS, name


def test_order_of_attributes():
    """As vars() lists them, for code that prints or copies them."""
    lists = []
    for module in (theirs, ours):
        prof = module.profile(activities=[CPU])
        lists.append([n for n in vars(prof) if not n.startswith("_")])
    common = [n for n in lists[1] if n in lists[0]]
    given = [n for n in lists[0] if n in common]
    if given.index("step_rec_fn") == given.index("current_action") + 1:  # torch 2.4
        assert "| `vars(profile)` |" in ROWS
        given.remove("step_rec_fn")
        given.insert(given.index("current_action"), "step_rec_fn")
    assert common == given


def keywords(config):
    """Of torch's class, from the signature in its documentation: name → text of its default."""
    return dict(re.findall(r"(\w+): [^=,]+? = (\[\]|'[^']*'|[\w.]+)", config.__init__.__doc__.split("\n")[0]))


def test_experimental_config():
    config = torch._C._profiler._ExperimentalConfig
    plain, own = config(), ours._ExperimentalConfig()
    given = keywords(config)
    assert "verbose" in given and len(given) >= 5
    for name, default in given.items():
        value = getattr(own, name)
        assert repr(value) == default, name
        other = {bool: True, str: "text", list: ["text"]}[type(value)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of those that have no effect here
            assert getattr(ours._ExperimentalConfig(**{name: other}), name) == other
            assert getattr(config(**{name: other}), name, other) == other
    for name in (n for n in dir(plain) if not n.startswith("_")):
        assert same(getattr(plain, name), getattr(own, name)), name
    if list(inspect.signature(ours._ExperimentalConfig).parameters)[: len(given)] != list(given):
        assert list(given)[:2] == ["profiler_metrics", "profiler_measure_per_kernel"]  # torch before 2.15
        assert "| `_ExperimentalConfig` by position |" in ROWS
