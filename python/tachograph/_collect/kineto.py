"""A window recorded by torch's own collector, for what our recorder cannot have; its file is then read by our
engine."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import threading
import time
from dataclasses import asdict
from typing import Any

import torch

from .. import _torch_own
from .._labels.annotate import forward
from .._say import warn
from .backend import Busy, Recipe, Recording
from .config import ExperimentalConfig
from .export import finish_document
from .kineto_log import silent
from .nvtx_ranges import NvtxLabels
from .source_lines import source_folders

_CLOCK_SLACK_NS = 1_000_000  # torch's clock and the system's differ by less


class KinetoWindow(Recording):
    kind = "kineto"

    def _prepare(self) -> None:
        _refuse_second_profiler()
        self._torch = _accepted(_torch_own._KinetoProfile, _keywords(self.recipe, self.trace_id))
        if (
            "custom_trace_id_callback" not in inspect.signature(_torch_own._KinetoProfile).parameters
        ):  # then its file has no id
            self.add_metadata("trace_id", json.dumps(self.trace_id))
        if self.recipe.with_stack:
            self.add_metadata("source_folders", source_folders())
        self._nvtx = NvtxLabels()
        self._path = os.path.join(self.directory, "kineto.json")
        self._thread: int | None = None
        self._begun_ns = 0
        self._taken = False  # its records went to another profiler
        self._torch.prepare_trace()

    def _start(self) -> None:
        _refuse_second_profiler()
        self._thread = threading.get_ident()
        with self._log():
            self._torch.start_trace()
        self._begun_ns = (
            time.time_ns() if torch._C._autograd._profiler_enabled() else 0
        )  # of all threads it does not say so
        forward(_torch_own.record_function)
        self._nvtx.enter()

    def check_stop(self) -> None:
        if self.running and self._thread != threading.get_ident():
            raise RuntimeError(
                "torch's own collector must be stopped by the thread that started it; with backend='native' any thread may"
            )

    def _stop(self) -> None:
        self._nvtx.leave()
        forward(None)
        self._taken = self._begun_ns != 0 and not torch._C._autograd._profiler_enabled()
        try:
            with self._log():
                self._torch.stop_trace()
        except RuntimeError:
            if not self._taken:
                raise
        if self._taken or self._begins_late():
            warn(
                "torch.profiler was started while this window was being recorded by torch's own collector, which does one recording at a time: "
                + ("all of this window is lost" if self._taken else "what came before is lost to this window")
                + "; let one end before the other starts, or use backend='native', beside which torch.profiler can run"
            )

    def _begins_late(self) -> bool:
        """Are the results those of a profiler that was started after this one?"""
        results = self._torch.profiler.kineto_results
        start_ns_of = getattr(results, "trace_start_ns", None)
        begin_ns = start_ns_of() if start_ns_of is not None else results.trace_start_us() * 1000
        return 0 < self._begun_ns < begin_ns - _CLOCK_SLACK_NS

    def _drop(self) -> None:
        with self._log():
            self._torch.start_trace()
            self._torch.stop_trace()

    def _log(self) -> contextlib.AbstractContextManager[None]:
        """Of a device it may say why there is nothing, so then it is heard."""
        return contextlib.nullcontext() if self.recipe.use_device else silent()

    def _toggle(self, enable: bool, activities: Any) -> None:
        if not hasattr(self._torch, "toggle_collection_dynamic"):
            raise RuntimeError(
                f"the collector of torch {torch.__version__} cannot be switched while it records; with backend='native' it can"
            )
        self._torch.toggle_collection_dynamic(enable, activities)

    def _file(self) -> str:
        if self._taken:  # torch would try to write what it does not have
            return self._nothing()
        if not os.path.exists(self._path):
            self._torch.export_chrome_trace(self._path)
            finish_document(self._path, self.metadata, None)
            self._written = set(self.metadata)
        return self._path


def _refuse_second_profiler() -> None:
    if torch._C._autograd._profiler_enabled():
        raise Busy(
            "torch.profiler is recording on this thread, and its collector does one recording at a time: stop it first"
        )


def _keywords(recipe: Recipe, trace_id: str) -> dict[str, Any]:
    activities: list[Any] = []
    types_known = "dict" in str(inspect.signature(_torch_own._KinetoProfile).parameters["activities"].annotation)
    for activity in recipe.activities:
        config = recipe.activity_configs.get(activity)
        types = config.activity_types if config else None
        if types is not None and not types_known:
            warn(f"torch {torch.__version__} cannot select activity types: all of {activity.name} are recorded")
        activities.append({activity: types} if types is not None and types_known else activity)
    return {
        "activities": activities,
        "record_shapes": recipe.record_shapes,
        "profile_memory": recipe.profile_memory,
        # This collector recognises modules of eager models by their Python frames only.
        "with_stack": recipe.with_stack or recipe.with_modules,
        "with_flops": recipe.with_flops,
        "with_modules": recipe.with_modules,
        "experimental_config": _torch_experimental(recipe),
        "custom_trace_id_callback": lambda: trace_id,
        "post_processing_timeout_s": recipe.post_processing_timeout_s,
    }


def _accepted(make: Any, keywords: dict[str, Any]) -> Any:
    """make(**keywords), without those that this torch does not know yet or no longer."""
    known = inspect.signature(make).parameters
    return make(**{name: value for name, value in keywords.items() if name in known})


def _torch_experimental(recipe: Recipe) -> Any:
    """Only what differs from the default is passed on, so that an older torch takes it as well."""
    values, defaults = asdict(recipe.experimental), asdict(ExperimentalConfig())
    values["verbose"] |= recipe.with_stack or recipe.stack_per_op  # else operators have no stack
    values.update(
        {name: defaults[name] for name in ("profiler_metrics", "profiler_measure_per_kernel", "adjust_profiler_step")}
    )
    wanted = {name: value for name, value in values.items() if value != defaults[name]}
    doc = torch._C._profiler._ExperimentalConfig.__init__.__doc__ or ""
    return torch._C._profiler._ExperimentalConfig(
        **{name: value for name, value in wanted.items() if f"{name}:" in doc}
    )
