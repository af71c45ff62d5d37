"""A window recorded by our own recorder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .. import _record
from .._say import warn_once
from .backend import Recipe, Recording
from .native import NativeRecording, RecordError

if TYPE_CHECKING:
    from .record_cost import Price

# Without these torch's own collector does it better; the others are left out with a warning where they cannot be had.
_MUST = _record.OPS | _record.SHAPES | _record.CUDA


class NativeWindow(Recording):
    kind = "native"

    def _prepare(self) -> None:
        recipe = self.recipe
        try:
            features = _features(recipe)
            self._native = NativeRecording(
                self.directory,
                features,
                required=features & _MUST,
                memory_bytes=recipe.memory_budget,
                disk_bytes=recipe.disk_budget,
                keep=recipe.keep,
                metadata=_members(recipe, self.trace_id),
                conditions_at_stop=True,
            )
        except RecordError as e:
            if e.code == "BUSY":
                raise RuntimeError(f"this process is being recorded already: {e}") from None
            raise

    def _start(self) -> None:
        self._native.start()
        state = _record.state()
        if state["missing"]:
            warn_once(f"not everything asked for can be recorded here: {state['why']}")

    def _stop(self) -> None:
        stats = self._native.stop()
        self.lost = stats["lost"]
        if stats["why"] and not stats["missing"]:  # the disk
            self.why_lost = stats["why"]
        self.event_count = max(stats["records"] - self._native.tensor_records, 0)

    def count_words(self) -> str:
        return f"{self.event_count:,} events recorded, {self.lost:,} lost"

    def price(self, parts: int) -> Price | None:
        from .record_cost import Price, record_cost_ns

        cost = record_cost_ns(self._native.features) if self.event_count and parts else None
        return Price(self.event_count / parts, *cost) if cost is not None else None

    def _drop(self) -> None:
        self._native.stop()

    def _toggle(self, enable: bool, activities: Any) -> None:
        if any(a.name == "CPU" for a in activities):
            self._native.toggle(_record.OPS, enable)

    def add_metadata(self, key: str, json_text: str) -> None:
        super().add_metadata(key, json_text)
        if self._native.stats is None:
            self._native.add_metadata(key, json_text)
            self._written.add(key)

    def _file(self) -> str:
        return self.directory


def _members(recipe: Recipe, trace_id: str) -> dict[str, str]:
    members = {"trace_id": json.dumps(trace_id)}
    if recipe.experimental.capture_overload_names:
        members["capture_overload_names"] = "1"  # an export then calls operators name.overload, as torch's does
    return members


def _features(recipe: Recipe) -> int:
    wanted = {
        _record.OPS: recipe.records_cpu,
        _record.SHAPES: recipe.record_shapes,
        _record.STACKS: recipe.with_stack or recipe.stack_per_op,
        _record.CALLS: recipe.with_stack,
        _record.MODULES: recipe.with_modules or recipe.with_stack,
        _record.MODULE_SPANS: recipe.with_stack,
        _record.MEMORY: recipe.profile_memory,
        _record.GC: recipe.process or recipe.experimental.record_python_gc_info,
        _record.PROCESS: recipe.process,
        _record.NVTX: recipe.records_cpu,
        _record.CUDA: recipe.use_device == "cuda",
        _record.CUDA_WAITS: recipe.use_device == "cuda" and recipe.experimental.enable_cuda_sync_events,
        _record.CUDA_MEMORY: recipe.use_device == "cuda" and recipe.profile_memory,
    }
    return sum(feature for feature, on in wanted.items() if on)
