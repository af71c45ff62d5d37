"""What torch.compile did in this process, as dynamo keeps it for itself: its metrics of each compilation, and why it
broke graphs. It is read from outside, and only while something is recorded; nothing is imported for it.

A row has the names of torch's own fields (torch._dynamo.utils.CompilationMetrics), as a log of TORCH_TRACE has them;
src/analyze/host/compiles.c reads both."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from .._imports import Watch, is_imported, when_imported
from .kernel_lines import KernelLines

UTILS, CALLBACK = "torch._dynamo.utils", "torch._dynamo.callback"
KEPT = 2000  # rows
MEMBER_BYTES = 240 << 10
LINE_BYTES = 4000
TEXT, REASON = 200, 600  # characters
FIELDS = (
    "compile_id",
    "co_name",
    "co_filename",
    "co_firstlineno",
    "start_time",
    "start_time_us",
    "duration_us",
    "entire_frame_compile_time_s",
    "backend_compile_time_s",
    "inductor_compile_time_s",
    "code_gen_time_s",
    "dynamo_time_before_restart_s",
    "inductor_cumulative_compile_time_us",
    "inductor_code_gen_cumulative_compile_time_us",
    "inductor_fx_local_cache_hit_count",
    "inductor_fx_local_cache_miss_count",
    "inductor_fx_remote_cache_hit_count",
    "inductor_fx_remote_cache_miss_count",
    "aotautograd_local_cache_hit_count",
    "aotautograd_local_cache_miss_count",
    "aotautograd_remote_cache_hit_count",
    "aotautograd_remote_cache_miss_count",
    "graph_op_count",
    "is_forward",
    "is_runtime",
    "recompile_reason",
    "fail_type",
    "fail_reason",
    "fail_user_frame_filename",
    "fail_user_frame_lineno",
)
LONG = {"recompile_reason", "fail_reason"}
RESUMED = "torch_dynamo_resume_in_"
ALL_FRAMES = "_compile.compile_inner"  # dynamo's list of the seconds of each frame it compiled, without an end


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)[: REASON if name in LONG else TEXT]


def _function(name: str) -> str:
    """What is resumed behind a break belongs to the function that broke."""
    return name[len(RESUMED) :].rpartition("_at_")[0] if name.startswith(RESUMED) else name


def _behind(newest: Any, items: Any) -> Iterator[Any]:
    """Those behind the newest that was seen; all where it has gone."""
    fresh = []
    for item in reversed(items):
        if item is newest:
            break
        fresh.append(item)
    return reversed(fresh)


class Compiles:
    """look() now and then: dynamo keeps its last 64 compilations. While watched, it is called before each, and so sees
    one more compilation, and what broke it."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.kernel_lines = KernelLines()
        self.frames, self.frame_s = 0, 0.0  # of those that were seen, the ones that dynamo began
        self._written = 0  # rows until the last new_rows()
        self._lock = threading.Lock()
        self._before, self._before_s = 0, 0.0  # frames that the parent of this process compiled
        self._newest: Any = None
        self._newest_break: Any = None
        self._watchers = 0
        self._handler: Any = None
        self._import: Watch | None = None

    def look(self) -> None:
        utils = sys.modules.get(UTILS)
        kept = getattr(utils, "_compilation_metrics", None)
        if not kept or kept[-1] is self._newest:
            return
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._take(list(kept), list(getattr(utils, "graph_break_reasons", ())))
        except Exception:
            pass  # dynamo is not ours: what it keeps may be of another kind tomorrow
        finally:
            self._lock.release()

    def count(self) -> int:
        """Of the frames that were compiled until now."""
        return len(_seconds_of_frames())

    def _take(self, kept: list[Any], reasons: list[Any]) -> None:
        breaks = list(_behind(self._newest_break, reasons))
        for metrics in _behind(self._newest, kept):
            row = {name: _plain(name, getattr(metrics, name, None)) for name in FIELDS}
            row = {name: value for name, value in row.items() if value is not None}
            self._add_break(row, breaks)
            if row.get("is_forward", True) and not row.get("is_runtime"):
                self.frames += 1
                self.frame_s += _seconds(row)
            if len(self.rows) < KEPT:
                self.rows.append(row)
            with contextlib.suppress(Exception):  # its form is torch's
                self.kernel_lines.add(row.get("compile_id"), getattr(metrics, "inductor_provenance", None))
        self._newest = kept[-1]
        self._newest_break = reasons[-1] if reasons else None

    def _add_break(self, row: dict[str, Any], breaks: list[Any]) -> None:
        """A graph ends at its first break, so each compilation has one at most. They come in the same order."""
        for reason in breaks:
            stack = getattr(reason, "user_stack", None)
            if not stack or stack[0].filename != row.get("co_filename"):
                continue
            if _function(stack[0].name) != _function(row.get("co_name", "")):
                continue
            breaks.remove(reason)
            row["break_reason"] = str(reason.reason)[:REASON]
            row["break_filename"], row["break_lineno"] = stack[-1].filename, stack[-1].lineno
            return

    # ---- while something is recorded

    def watch(self, hooks: bool) -> None:
        """Look at each compilation from now on. hooks: dynamo's import may be watched."""
        self._watchers += 1
        if hooks and self._import is None and not is_imported(CALLBACK):
            self._import = when_imported(CALLBACK, self.follow)
        self.follow()

    def follow(self) -> None:
        """Dynamo calls us from now on, where it is imported."""
        handler = getattr(sys.modules.get(CALLBACK), "callback_handler", None)
        starts = getattr(handler, "start_callbacks", None)
        if self._watchers and isinstance(starts, list) and self._called not in starts:
            starts.append(self._called)
            self._handler = handler

    def unwatch(self) -> None:
        self._watchers -= 1
        self.look()
        if self._watchers > 0:
            return
        if self._import is not None:
            self._import.cancel()
            self._import = None
        with contextlib.suppress(ValueError):  # torch._dynamo.reset() forgets all of them
            getattr(self._handler, "start_callbacks", []).remove(self._called)
        self._handler = None

    def _called(self, *_: Any) -> None:
        self.look()

    # ---- what is written

    def member(self) -> dict[str, str]:
        """Members of the document; none where nothing was compiled. Of too many rows the shortest go, and are
        counted."""
        self.look()
        seconds = _seconds_of_frames()
        lost, lost_s = len(seconds) - self._before - self.frames, sum(seconds) - self._before_s - self.frame_s
        if not self.rows and lost <= 0:
            return self.kernel_lines.member()
        texts = [json.dumps(row, ensure_ascii=False) for row in self.rows]
        order = sorted(range(len(texts)), key=lambda i: _seconds(self.rows[i]), reverse=True)
        kept, size = set(), 0
        for i in order:
            size += len(texts[i].encode("utf-8", "replace")) + 1
            if size <= MEMBER_BYTES:
                kept.add(i)
            else:
                lost, lost_s = lost + 1, lost_s + _seconds(self.rows[i])
        rows = ",".join(texts[i] for i in range(len(texts)) if i in kept)
        counted = f'"lost":{max(lost, 0)},"lost_ns":{max(round(lost_s * 1e9), 0) if lost > 0 else 0}'
        return {f"compiles.{os.getpid()}": f'{{{counted},"rows":[{rows}]}}', **self.kernel_lines.member()}

    def new_rows(self) -> list[str]:
        """As JSON, a line each, those that came since this was called."""
        self.look()
        rows, self._written = self.rows[self._written :], len(self.rows)
        return [_line(row) for row in rows]


def _line(row: dict[str, Any]) -> str:
    """The texts are cut where it is too long for a line of the log."""
    text = json.dumps(row, ensure_ascii=False)
    if len(text.encode("utf-8", "replace")) > LINE_BYTES:
        text = json.dumps({key: value[:100] if isinstance(value, str) else value for key, value in row.items()})
    return text


def _seconds(row: dict[str, Any]) -> float:
    return row.get("entire_frame_compile_time_s") or row.get("duration_us", 0) / 1e6


def _seconds_of_frames() -> list[float]:
    return getattr(sys.modules.get(UTILS), "compilation_time_metrics", {}).get(ALL_FRAMES, [])


compiles = Compiles()


def _forked() -> None:
    """What the parent compiled is no work of this process, but its kernels run here, too."""
    compiles._lock = threading.Lock()  # its holder may not exist in this process
    compiles.look()
    seconds = _seconds_of_frames()
    compiles.rows, compiles.frames, compiles.frame_s, compiles._written = [], 0, 0.0, 0
    compiles._before, compiles._before_s = len(seconds), sum(seconds)


os.register_at_fork(after_in_child=_forked)
