"""Where a training step goes: data, forward, backward, optimizer; and where a model's forward goes: module by module.

print(tg.phases(model, loss_fn, optimizer, loader))
print(tg.module_times(model, x))
tg.training_result(model, loss_fn, optimizer, loader)   # one dictionary with the time of each phase
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .device import Clock, resolve, torch_module
from .series import Series, percentile

__all__ = [
    "phases",
    "request_phases",
    "module_times",
    "training_result",
    "Phases",
    "RequestPhases",
    "ModuleTime",
    "ModuleTimes",
]

PHASES = ("data", "forward", "backward", "optimizer")


class Phases(NamedTuple):
    """Median ms of each phase of a step, and of the whole step; the percentages sum to 100."""

    data_ms: float
    forward_ms: float  # with the loss
    backward_ms: float
    optimizer_ms: float  # with zero_grad
    step_ms: Series
    steps: int
    clock: str

    @property
    def ms(self) -> dict[str, float]:
        return dict(zip(PHASES, self[:4]))

    @property
    def percent(self) -> dict[str, float]:
        total = sum(self[:4]) or 1.0
        return {name: 100 * ms / total for name, ms in self.ms.items()}

    def __str__(self) -> str:
        shares = self.percent
        lines = [f"{name:<10} {ms:7.2f} ms ({shares[name]:5.1f}%)" for name, ms in self.ms.items()]
        return "\n".join([*lines, f"{'step':<10} {sum(self[:4]):7.2f} ms (n = {self.steps}, {self.clock})"])


def split_batch(batch: Any, device: Any) -> tuple[Any, Any]:
    """(inputs, target) of a batch, on the device; target is None when the batch is one thing."""

    def move(value: Any) -> Any:
        if hasattr(value, "to"):
            return value.to(device, non_blocking=True)
        if isinstance(value, dict):
            return {key: move(part) for key, part in value.items()}
        return type(value)(map(move, value)) if isinstance(value, (list, tuple)) else value

    if isinstance(batch, (list, tuple)) and len(batch) == 2:
        return move(batch[0]), move(batch[1])
    return move(batch), None


def loss_of(loss_fn: Callable, output: Any, target: Any) -> Any:
    return loss_fn(output) if target is None else loss_fn(output, target)


def _around(batches: Iterable[Any]) -> Iterable[Any]:
    """The batches, over and over: a short loader serves for many steps."""
    while True:
        empty = True
        for batch in batches:
            empty = False
            yield batch
        if empty:
            raise ValueError("there is no batch to measure with")


def phases(
    model: Any,
    loss_fn: Callable,
    optimizer: Any,
    batches: Iterable[Any],
    *,
    steps: int = 20,
    warmup: int = 3,
    device: Any = None,
) -> Phases:
    """Train for `steps` steps and time each phase. A batch is (inputs, target) or one object; its loss is
    loss_fn(output).

    It is real training: the model changes. On a device all marks are events of its stream, so a phase is the time the
    device spent from the first to the last of its work, waiting included; data is the time until the batch lies on the
    device."""
    where = resolve(device, model)
    clock = Clock(where)
    rows: list[tuple[int, ...]] = []
    fetch = iter(_around(batches))
    for number in range(warmup + steps):
        marks = [clock.mark()]
        inputs, target = split_batch(next(fetch), where)
        marks.append(clock.mark())
        loss = loss_of(loss_fn, model(inputs), target)
        marks.append(clock.mark())
        loss.backward()
        marks.append(clock.mark())
        optimizer.step()
        optimizer.zero_grad()
        marks.append(clock.mark())
        if number >= warmup:
            rows.append(tuple(clock.ns_between(a, b) for a, b in zip(marks, marks[1:])))
    medians = [percentile(column, 50) / 1e6 for column in zip(*rows)]
    data, forward, backward, optimizer = medians
    return Phases(data, forward, backward, optimizer, Series(sum(row) for row in rows), len(rows), clock.name)


def _gpu_utilization(device: Any) -> float | None:
    torch = torch_module()
    if getattr(device, "type", "cpu") != "cuda":
        return None
    try:
        return float(torch.cuda.utilization(device))
    except Exception:  # the vendor's library is missing, old or forbidden here: then it is not known
        return None


@contextlib.contextmanager
def _utilization_samples(device: Any, every_s: float = 0.2) -> Iterator[list[float]]:
    """The use of the device while the block runs, in percent. A thread of its own asks for it, at least at the end."""
    samples: list[float] = []
    ended = threading.Event()

    def ask() -> None:
        while True:
            is_last = ended.wait(every_s)
            value = _gpu_utilization(device)
            if value is None:
                return
            samples.append(value)
            if is_last:
                return

    thread = threading.Thread(target=ask, name="tachograph utilisation", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def training_result(
    model: Any,
    loss_fn: Callable,
    optimizer: Any,
    batches: Iterable[Any],
    *,
    steps: int = 20,
    warmup: int = 3,
    device: Any = None,
) -> dict[str, float | None]:
    """The seven figures of a training run: baseline_ms, gpu_utilization (%, the mean of samples, None where there is
    none), data_loading_ms, computation_ms, forward_ms, backward_ms, optimizer_ms."""
    with _utilization_samples(resolve(device, model)) as samples:
        p = phases(model, loss_fn, optimizer, batches, steps=steps, warmup=warmup, device=device)
    return {
        "baseline_ms": p.step_ms.median,
        "gpu_utilization": sum(samples) / len(samples) if samples else None,
        "data_loading_ms": p.data_ms,
        "computation_ms": p.forward_ms + p.backward_ms + p.optimizer_ms,
        "forward_ms": p.forward_ms,
        "backward_ms": p.backward_ms,
        "optimizer_ms": p.optimizer_ms,
    }


# ---- requests ----------------------------------------------------------------------------------------------


class RequestPhases(NamedTuple):
    """Median ms of each phase of a request; request_ms: of each whole request."""

    pre_ms: float
    forward_ms: float
    post_ms: float
    request_ms: Series
    clock: str

    def __str__(self) -> str:
        total = sum(self[:3]) or 1.0
        lines = [
            f"{name:<10} {ms:7.2f} ms ({100 * ms / total:5.1f}%)"
            for name, ms in zip(("pre", "forward", "post"), self[:3])
        ]
        return "\n".join(
            [*lines, f"{'request':<10} {sum(self[:3]):7.2f} ms (n = {len(self.request_ms)}, {self.clock})"]
        )


def request_phases(
    model: Any,
    requests: Iterable[Any],
    *,
    pre: Callable = lambda request: request,
    post: Callable = lambda output: output,
    device: Any = None,
) -> RequestPhases:
    """Serve some representative requests, post(model(pre(request))), without gradients, and time the three phases. Each
    phase also is a label, so that under tachograph.profile or `tachograph run` the operators of each can be separated
    apart."""
    from .._labels.annotate import record_function

    where = resolve(device, model)
    clock = Clock(where)
    rows = []
    with torch_module().no_grad():
        for value in requests:
            marks = [clock.mark()]
            for name, phase in (("pre", pre), ("forward", model), ("post", post)):
                with record_function(name):
                    value = phase(value)
                marks.append(clock.mark())
            rows.append([clock.ns_between(a, b) for a, b in zip(marks, marks[1:])])
    if not rows:
        raise ValueError("there is no request to measure with")
    medians = [percentile(column, 50) / 1e6 for column in zip(*rows)]
    before, forward, after = medians
    return RequestPhases(before, forward, after, Series(sum(row) for row in rows), clock.name)


# ---- module by module --------------------------------------------------------------------------------------


class ModuleTime(NamedTuple):
    name: str  # path from the model; "" is the model itself
    type: str
    calls: float  # a forward of the model
    total_ms: float  # with the modules it calls
    self_ms: float  # without them
    leaf: bool  # calls no other module


class ModuleTimes:
    """Mean times a forward of the model. rows: every module that was called, in the order of their names in the
    model."""

    def __init__(self, rows: list[ModuleTime], model_ms: float, clock: str):
        self.rows, self.model_ms, self.clock = rows, model_ms, clock

    @property
    def leaves(self) -> list[ModuleTime]:
        return [row for row in self.rows if row.leaf]

    def __iter__(self) -> Iterator[ModuleTime]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> ModuleTime:
        return next(row for row in self.rows if row.name == name)

    def __str__(self) -> str:
        width = max([len(row.name) for row in self.rows] + [6])
        lines = [f"{'module':<{width}}  {'type':<20} {'calls':>6} {'self ms':>9} {'total ms':>9} {'self %':>7}"]
        for row in sorted(self.rows, key=lambda row: -row.self_ms):
            share = 100 * row.self_ms / self.model_ms if self.model_ms else 0.0
            lines.append(
                f"{row.name or '(model)':<{width}}  {row.type[:20]:<20} {row.calls:6.4g} {row.self_ms:9.3f} {row.total_ms:9.3f} {share:7.1f}"
            )
        return "\n".join([*lines, f"model: {self.model_ms:.3f} ms a forward [{self.clock}]"])


class _ModuleClock:
    """Hooks on every module; a stack knows which called which."""

    def __init__(self, model: Any, clock: Clock):
        self.clock = clock
        self.open: list[list[Any]] = []  # [module, begin, spans of the modules it called]
        self.done: list[tuple[Any, Any, Any, list]] = []  # (module, begin, end, the same)
        self.handles = [
            handle
            for module in model.modules()
            for handle in (
                module.register_forward_pre_hook(self._begin),
                module.register_forward_hook(self._end, always_call=True),
            )
        ]

    def _begin(self, module: Any, _inputs: Any) -> None:
        self.open.append([module, self.clock.mark(), []])

    def _end(self, module: Any, _inputs: Any, _output: Any) -> None:
        end = self.clock.mark()
        if not self.open or self.open[-1][0] is not module:
            return  # a pre-hook of the program's own threw: this call never began for us
        _, begin, called = self.open.pop()
        if self.open:
            self.open[-1][2].append((begin, end))
        self.done.append((module, begin, end, called))

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def module_times(
    model: Any, *inputs: Any, iterations: int = 10, warmup: int = 3, device: Any = None, **kwargs: Any
) -> ModuleTimes:
    """Time of each module in model(*inputs, **kwargs), in the mode the model is in and without gradients; hooks are
    gone afterwards."""
    if iterations < 1:
        raise ValueError(f"iterations must be at least 1, not {iterations}")
    clock = Clock(resolve(device, model, inputs))
    with torch_module().no_grad():
        for _ in range(warmup):
            model(*inputs, **kwargs)
        watch = _ModuleClock(model, clock)
        try:
            for _ in range(iterations):
                clock.wait()
                model(*inputs, **kwargs)
        finally:
            watch.close()
    return _module_table(model, watch.done, iterations, clock)


def _module_table(model: Any, done: list, iterations: int, clock: Clock) -> ModuleTimes:
    sums: dict[int, list] = {}
    for module, begin, end, called in done:
        row = sums.setdefault(id(module), [0, 0, 0, True])
        total = clock.ns_between(begin, end)
        row[0] += 1
        row[1] += total
        row[2] += total - sum(clock.ns_between(a, b) for a, b in called)
        row[3] = row[3] and not called
    rows = []
    for name, module in model.named_modules():
        if id(module) in sums:
            calls, total, own, leaf = sums[id(module)]
            rows.append(
                ModuleTime(
                    name,
                    type(module).__name__,
                    calls / iterations,
                    total / 1e6 / iterations,
                    own / 1e6 / iterations,
                    leaf,
                )
            )
    return ModuleTimes(rows, rows[0].total_ms if rows else 0.0, clock.name)
