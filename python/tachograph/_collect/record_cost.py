"""What one record costs here, in this process: the price of a recording that has nothing to be compared with is its
records times this. It depends on what runs between two records. The least is found in a tight loop, where the recorder
and the operator stay in the caches of the core; the most among the different operators of a small training step."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .. import _record
from .._measure.series import median_interval

ROUNDS, LEAST_ROUNDS = 60, 15
MOST_CPU_NS = 150_000_000  # a program; where all allocations are recorded, to switch takes some 10 ms
BLOCK_NS = 300_000  # CPU time of a block without recording: short, as the speed of a busy core changes
LEAST_NS = 50  # two readings of the clock, two calls and a store: on a busy machine the measured least can be noise
MARGIN = 1.25  # programs lie so far outside of the two at most: docs/overhead.md


def _two_digits(x: float) -> str:
    """Two digits that matter, without an exponent above 10."""
    return f"{x:.0f}" if x >= 10 else f"{x:.2g}"


class Price(NamedTuple):
    """What recording costs by its records: how many, and the least and the most that one takes."""

    records: float
    least_ns: float
    most_ns: float

    def added_pct(self, bare_ns: float) -> tuple[float, float]:
        """To work that takes so much CPU time without recording."""
        return 100 * self.records * self.least_ns / bare_ns, 100 * self.records * self.most_ns / bare_ns

    def words(self, cpu_ns: float, is_bare: bool, of_what: str) -> str:
        """cpu_ns: what the recorded work takes, or with is_bare the same without recording."""
        low, high = (pct if is_bare else min(pct, 100.0) for pct in self.added_pct(cpu_ns))
        share = f"about {_two_digits(math.sqrt(low * high))} %"
        said = f"recording adds {share} to {of_what}" if is_bare else f"recording is {share} of {of_what}"
        return (
            f"{said} ({_two_digits(low)} to {_two_digits(high)} %: {self.records:,.0f} records of "
            f"{_two_digits(self.least_ns / 1e3)} to {_two_digits(self.most_ns / 1e3)} us)"
        )


@functools.cache
def record_cost_ns(features: int) -> tuple[float, float] | None:
    """The least and the most that a record of these features costs, in CPU time of the thread: the ends of the 95 %
    intervals of the two programs. None where this cannot be recorded. Records for some tenths of a second, once in a
    process, into a file that is removed; nothing may be recorded now."""
    cuda = _record.CUDA | _record.CUDA_WAITS | _record.CUDA_MEMORY
    with tempfile.TemporaryDirectory(prefix="tachograph-") as folder:
        try:
            _record.open(
                os.path.join(folder, "cost.tacho"), features=features & ~cuda, disk_bytes=64 << 20, keep="last"
            )
        except _record.RecordError:
            return None
        try:
            with _plain_torch():
                loop, step = _costs_ns(_tight_loop()), _costs_ns(_small_step())
        finally:
            _record.close()
    least, most = median_interval(loop), median_interval(step)
    assert least is not None and most is not None  # LEAST_ROUNDS is above what an interval needs
    low = max(least[0], LEAST_NS) / MARGIN
    return low, max(most[1] * MARGIN, 2 * low)


def _plain_torch() -> Any:
    """Switches off the program's torch modes: they would see our operators."""
    stack = contextlib.ExitStack()
    disable = getattr(torch.utils._python_dispatch, "_disable_current_modes", None)
    if disable is not None:
        stack.enter_context(disable())
    stack.enter_context(torch.inference_mode(False))
    stack.enter_context(torch.enable_grad())
    stack.enter_context(torch.autocast("cpu", enabled=False))
    return stack


def _costs_ns(program: Callable[[], Any]) -> list[float]:
    """What a recorded block takes more than the bare ones around it, by records, in each round; sorted."""
    for _ in range(3):
        program()
    often = max(1, round(BLOCK_NS / max(min(_cpu_ns(program, 1) for _ in range(3)), 1)))
    _cpu_ns_recorded(program, 1)  # texts are new
    costs: list[float] = []
    until_ns = time.thread_time_ns() + MOST_CPU_NS
    before = _cpu_ns(program, often)
    while len(costs) < ROUNDS and (len(costs) < LEAST_ROUNDS or time.thread_time_ns() < until_ns):
        recorded, records = _cpu_ns_recorded(program, often)
        after = _cpu_ns(program, often)
        costs.append((recorded - (before + after) / 2) / max(records, 1))
        before = after
    return sorted(costs)


def _cpu_ns(program: Callable[[], Any], often: int) -> int:
    program()  # after a switch torch looks for its callbacks again
    began = time.thread_time_ns()
    for _ in range(often):
        program()
    return time.thread_time_ns() - began


def _cpu_ns_recorded(program: Callable[[], Any], often: int) -> tuple[int, int]:
    _record.resume()
    try:
        records = _record.state()["records"]
        took = _cpu_ns(program, often)
        return took, round((_record.state()["records"] - records) * often / (often + 1))
    finally:
        _record.pause()


def _tight_loop() -> Callable[[], Any]:
    a = torch.ones(16, dtype=torch.float32, device="cpu")

    def program() -> None:
        b = a
        for _ in range(50):
            b = (b + a).mul(0.5)

    return program


def _small_step() -> Callable[[], Any]:
    functional = torch.nn.functional
    kind: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
    weights = [torch.full((32, 32), 0.01, **kind).requires_grad_() for _ in range(3)]
    scale = torch.ones(32, **kind).requires_grad_()
    x, target = torch.ones(8, 32, **kind), torch.zeros(8, dtype=torch.int64, device="cpu")

    def program() -> None:
        y = x
        for weight in weights:
            y = functional.gelu(functional.layer_norm(functional.linear(y, weight), (32,), scale))
        loss = functional.cross_entropy(y.view(8, 32).transpose(0, 1).t(), target)
        for gradient, weight in zip(torch.autograd.grad(loss, [*weights, scale]), [*weights, scale]):
            weight.detach().add_(gradient, alpha=-1e-6)

    return program
