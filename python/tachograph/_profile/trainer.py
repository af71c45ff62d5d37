"""A callback for trainers that call one (Hugging Face's Trainer and its likes): where the time between steps goes.

    trainer = Trainer(…, callbacks=[tg.TrainerCallback()])
    trainer.train()                      # prints the answer at its end; .report() returns it

Evaluation, saving and logging come in bursts, every so many steps, and hide in a mean. Under `tachograph run` the
callback also says where steps end."""

from __future__ import annotations

import sys
import time
from typing import Any

from .._launch import step as mark_step
from .._measure.series import percentile

try:  # it is asked for its class where transformers is there
    _Base: Any = sys.modules["transformers"].TrainerCallback
except (KeyError, AttributeError):
    _Base = object


class TrainerCallback(_Base):  # type: ignore[misc]  # its base is known when it is imported
    """Times steps, and what happens between them by the event that ends it: "log", "evaluate" or "save"."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        self.times_ns: dict[str, list[int]] = {"step": [], "log": [], "evaluate": [], "save": [], "between": []}
        self._steps_at: dict[str, list[int]] = {"log": [], "evaluate": [], "save": []}
        self._last_ns = time.perf_counter_ns()

    def _take(self, what: str) -> None:
        now = time.perf_counter_ns()
        self.times_ns[what].append(now - self._last_ns)
        if what in self._steps_at:
            self._steps_at[what].append(len(self.times_ns["step"]))
        self._last_ns = now

    # what a trainer calls
    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._last_ns = time.perf_counter_ns()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._take("between")

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._take("step")
        mark_step()

    def on_log(self, *_: Any, **__: Any) -> None:
        self._take("log")

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        self._take("evaluate")

    def on_save(self, *_: Any, **__: Any) -> None:
        self._take("save")

    def on_train_end(self, *_: Any, **__: Any) -> None:
        if not self.quiet:
            print(self.report(), file=sys.stderr)

    # the answer
    def share(self, what: str) -> float:
        """Percent of all time."""
        return 100 * sum(self.times_ns[what]) / (sum(map(sum, self.times_ns.values())) or 1)

    def every(self, what: str) -> float:
        """Steps from one to the next, in the median; nan when there were not two."""
        at = self._steps_at[what]
        return percentile([b - a for a, b in zip(at, at[1:])], 50)

    def report(self) -> str:
        lines = [f"{'':<10}{'times':>7}{'median ms':>12}{'total s':>10}{'share %':>9}"]
        for what, times in self.times_ns.items():
            if times:
                often = f"  every {self.every(what):g} steps" if len(self._steps_at.get(what, ())) > 1 else ""
                lines.append(
                    f"{what:<10}{len(times):>7}{percentile(times, 50) / 1e6:>12.2f}{sum(times) / 1e9:>10.2f}{self.share(what):>9.1f}{often}"
                )
        return "\n".join(lines)
