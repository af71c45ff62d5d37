"""What a watched program is doing, from what it reports once a second (_launch/watched.py), from its ring, and from
what the system knows of it. One object a second: what is drawn, and the line of --json. An unknown figure has a
reason."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

STEP_SECONDS, LINE_SECONDS = 60.0, 10.0  # how far back steps and lines go
NOTHING_SEEN = "no look has found a Python function"
LINES = 8
MOST_BYTES = 4 << 20  # of a report
READ_PART = 10  # reading the ring takes at most one part of so many of the time
LEAST_PAIRS = 6
SILENT_SECONDS = 5.0


def percentile(ordered: list[int], percent: float) -> int:
    """Nearest rank."""
    return ordered[max(math.ceil(percent / 100 * len(ordered)) - 1, 0)]


def price(pairs: Sequence[Sequence[int]]) -> dict[str, Any]:
    """How much longer a step is when it is recorded: the median of the differences of neighbouring blocks, and the
    interval that holds it in 95 of 100 cases. Each pair: CPU time of a step not recorded, and recorded."""
    if len(pairs) < LEAST_PAIRS:
        return {"why": f"{len(pairs)} of {LEAST_PAIRS} pairs of steps were compared so far"}
    differences = sorted(100 * (recorded - bare) / max(bare, 1) for bare, recorded in pairs)
    n = len(differences)
    below, left_out = -1, 0  # of 2 ** n outcomes: so many of the least may be left out on each side
    while 40 * (left_out + math.comb(n, below + 1)) <= 2**n:
        below += 1
        left_out += math.comb(n, below)
    low, high = differences[below], differences[n - 1 - below]
    middle = (differences[(n - 1) // 2] + differences[n // 2]) / 2
    return {"pct": middle, "low_pct": low, "high_pct": high, "pairs": n}


def checked(report: Any) -> dict[str, Any]:
    """What a program reports, each value of the type that it must have. The program may be a hostile one."""
    steps, lines = report["steps"], report["lines"]
    return {
        "number": _number(report["number"]),
        "at_ns": _number(report["at_ns"]),
        "python": str(report["python"]),
        "torch": str(report["torch"]),
        "steps": {
            **{name: str(steps.get(name, "")) for name in ("source", "ring", "why")},
            **{name: bool(steps.get(name)) for name in ("calls", "rests")},
            "count": _number(steps.get("count", 0)),
            "ns": [_number(ns) for ns in steps.get("ns", ())],
            "pairs": [(_number(bare), _number(recorded)) for bare, recorded in steps.get("pairs", ())],
        },
        "lines": {
            **{name: str(lines[name]) for name in ("thread", "why")},
            **{name: _number(lines[name]) for name in ("looks", "missed", "native_id")},
            "places": [(_number(n), str(file), _number(line), str(name)) for n, file, line, name in lines["places"]],
        },
        "devices": [
            {name: _number(device[name]) for name in ("index", "allocated", "peak", "reserved")}
            for device in report["devices"]
        ],
    }


def _number(value: Any) -> int:
    number = int(value)
    if abs(number) >= 1 << 63:
        raise OverflowError("more than a program can count")
    return number


class Process:
    """What the system knows of it, without a word from it."""

    def __init__(self, pid: int):
        self.pid = pid
        self._folder = f"/proc/{pid}"
        self._started = self._stat()[1]
        self._at_ns, self._own_ns = self._own_times()
        with contextlib.suppress(OSError), open(f"{self._folder}/cmdline", "rb") as file:
            words = file.read(4096).decode(errors="replace").split("\0")
            self.command = " ".join(word for word in words if word)

    command = ""

    def _stat(self) -> tuple[str, str]:
        """State and time of the start: a number may be another process's by now."""
        try:
            with open(f"{self._folder}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            return "X", ""
        return words[0].decode(), words[19].decode()

    def lives(self) -> bool:
        state, started = self._stat()
        return state not in "XZ" and started == self._started

    def memory(self) -> dict[str, int]:
        found = {}
        with contextlib.suppress(OSError), open(f"{self._folder}/status") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in ("VmRSS", "VmHWM"):
                    found[name] = int(rest.split()[0]) << 10
        return found

    def own_cpu_pct(self) -> float | None:
        """Of a core, by our threads in it, since the last call."""
        (before_ns, before), (now_ns, now) = (self._at_ns, self._own_ns), self._own_times()
        self._at_ns, self._own_ns = now_ns, now
        return 100 * sum(ns - before.get(task, 0) for task, ns in now.items()) / (now_ns - before_ns) if now else None

    def _own_times(self) -> tuple[int, dict[str, int]]:
        """When, and the CPU time of each of our threads."""
        times = {}
        with contextlib.suppress(OSError):
            for task in os.listdir(f"{self._folder}/task"):
                with contextlib.suppress(OSError, ValueError), open(f"{self._folder}/task/{task}/comm") as file:
                    if file.read().strip() == "tachograph":
                        times[task] = self._schedule(task)[0]
        return time.monotonic_ns(), times

    def _schedule(self, task: str) -> list[int]:
        """Of a thread: ns on a core; ns ready and without one."""
        with open(f"{self._folder}/task/{task}/schedstat") as ns:
            return [int(word) for word in ns.read().split()[:2]]

    def core_wait_ns(self, thread: int) -> int | None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            return self._schedule(str(thread))[1]
        return None


class Figures:
    def __init__(self, folder: str, pid: int):
        self._folder, self.process = folder, Process(pid)
        self._path = os.path.join(folder, "now.json")
        self._report: dict[str, Any] = {"steps": {}, "lines": {}, "devices": []}
        self._number = 0
        self._since_s = self._report_s = time.monotonic()
        self._steps: deque[tuple[float, int]] = deque()  # when it was reported, how long it took
        self._counts: deque[tuple[float, int]] = deque()
        self._lines: deque[tuple[float, int, int, list[Any]]] = deque()
        self._line_thread = ""
        self._waits: deque[tuple[float, int]] = deque()  # when, ns without a core so far
        self._parts: dict[str, Any] = {}
        self._parts_due_s = 0.0

    def look(self) -> bool:
        """Has the program written something new?"""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        with open(file, "rb") as opened:
            try:
                report = checked(json.loads(opened.read(MOST_BYTES)))
            except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
                return False
        if report["number"] == self._number:
            return False
        self._take(report)
        return True

    def is_silent(self) -> bool:
        return time.monotonic() - self._report_s > SILENT_SECONDS

    def _take(self, report: dict[str, Any]) -> None:
        at_s, steps, lines = report["at_ns"] / 1e9, report["steps"], report["lines"]
        if lines["thread"] != self._line_thread:
            self._lines.clear()
            self._waits.clear()
            self._line_thread = lines["thread"]
        if steps.get("source") != self._report["steps"].get("source"):
            self._steps.clear()
            self._counts.clear()
        self._steps.extend((at_s, ns) for ns in steps["ns"])
        self._counts.append((at_s, steps["count"]))
        self._lines.append((at_s, lines["looks"], lines["missed"], lines["places"]))
        waited_ns = self.process.core_wait_ns(lines["native_id"])
        if waited_ns is not None:
            self._waits.append((time.monotonic(), waited_ns))
        for kept, seconds in (
            (self._steps, STEP_SECONDS),
            (self._counts, STEP_SECONDS),
            (self._lines, LINE_SECONDS),
            (self._waits, LINE_SECONDS),
        ):
            while kept and kept[0][0] < at_s - seconds:
                kept.popleft()
        self._report, self._number, self._report_s = report, report["number"], time.monotonic()

    # ---- the object

    def now(self) -> dict[str, Any]:
        report, steps = self._report, self._report["steps"]
        self._read_ring(steps.get("ring", ""))
        return {
            "time": time.strftime("%H:%M:%S"),
            "watched_s": round(time.monotonic() - self._since_s, 1),
            "pid": self.process.pid,
            "command": self.process.command,
            "python": report.get("python", ""),
            "torch": report.get("torch", ""),
            "silent_s": round(time.monotonic() - self._report_s, 1) if self.is_silent() else 0,
            "steps": self._step_figures(steps),
            "parts": self._parts,
            "lines": self._line_figures(report["lines"]),
            "memory": {**self.process.memory(), "devices": report["devices"]},
            "price": self._price(steps),
        }

    def _step_figures(self, steps: dict[str, Any]) -> dict[str, Any]:
        if not self._steps:
            return {"why": steps.get("why") or self._why_no_steps(steps)}
        ordered = sorted(ns for _, ns in self._steps)
        (first_s, first), (last_s, last) = self._counts[0], self._counts[-1]
        return {
            "source": steps.get("source", ""),
            "count": steps.get("count", 0),
            "last_ms": self._steps[-1][1] / 1e6,
            "median_ms": percentile(ordered, 50) / 1e6,
            "p99_ms": percentile(ordered, 99) / 1e6,
            "of": len(ordered),
            "per_s": (last - first) / (last_s - first_s) if last_s > first_s else None,
            "why": steps.get("why", ""),
        }

    def _why_no_steps(self, steps: dict[str, Any]) -> str:
        if not self._report.get("torch"):
            return "the program has not imported torch"
        if not steps.get("source"):
            return "no optimizer, loader or model has been called since the watch began"
        return "no step has ended since the watch began"

    def _line_figures(self, lines: dict[str, Any]) -> dict[str, Any]:
        looks, places = 0, Counter[tuple[str, int, str]]()
        missed = 0
        for _, of, without, seen in self._lines:
            looks, missed = looks + of, missed + without
            for times, *place in seen:
                places[tuple(place)] += times
        rows = [
            {"file": file, "line": line, "function": function, "share_pct": 100 * times / max(looks, 1)}
            for (file, line, function), times in places.most_common(LINES)
        ]
        why = lines.get("why") or ("" if rows else NOTHING_SEEN)
        return {
            "thread": self._line_thread,
            "looks": looks,
            "missed": missed,
            "no_core_pct": self._no_core_pct(),
            "rows": rows,
            "why": why,
        }

    def _no_core_pct(self) -> float | None:
        """How long the thread was ready and had no core, as others used them all."""
        if len(self._waits) < 2:
            return None
        (first_s, first_ns), (last_s, last_ns) = self._waits[0], self._waits[-1]
        return max(0.0, (last_ns - first_ns) / 1e7 / (last_s - first_s)) if last_s > first_s else None

    def _price(self, steps: dict[str, Any]) -> dict[str, Any]:
        if not steps.get("source"):
            found = {"why": "no steps have been found"}
        elif steps["calls"]:
            found = {"why": "calls of the model run at the same time on several threads"}
        elif not steps["rests"]:
            found = {"why": "every step is recorded, as recording of a device cannot be switched off between two"}
        else:
            found = price(steps["pairs"])
        return {**found, "threads_pct": self.process.own_cpu_pct()}

    # ---- the ring

    def _read_ring(self, path: str) -> None:
        path = os.path.join(self._folder, "raw", os.path.basename(path))
        begun_s = time.monotonic()
        if begun_s < self._parts_due_s:
            return
        if not self._steps or os.path.islink(path):
            self._parts = {"why": ""}  # the reason is that of the steps
            return
        self._parts = read_parts(path)
        self._parts_due_s = time.monotonic() + READ_PART * (time.monotonic() - begun_s)


def read_parts(path: str) -> dict[str, Any]:
    """The parts of a step, by the same question as the report's, of the steps that the ring holds whole; and how busy
    devices were in them."""
    from .. import TachographError, open as open_trace

    try:
        with open_trace(path, threads=1) as trace:
            rows = list(trace.ask("phases"))
            steps = list(trace.ask("steps"))
            has_device = any(bool(row["device_events"]) for row in steps)
            waits_ns = sum(row["wait_per_step_ns"] or 0 for row in trace.ask("syncs")) if has_device else 0
    except TachographError as error:
        return {"why": str(error)}
    count = rows[0]["steps"] if rows else 0
    if not count:
        return {"why": f"no whole step is among what the ring holds, the last {os.path.getsize(path) >> 20} MB"}
    total_ns = sum(row["total_ns"] or 0 for row in steps)
    busy_ns = sum(
        sum(ns or 0 for ns in (row["kernel_ns"], row["memcpy_ns"], row["memset_ns"], row["communication_ns"]))
        for row in steps
    )
    return {
        "of": count,
        "rows": [
            {"part": row["phase"], "ms": (row["host_ns"] or 0) / 1e6, "share_pct": row["share_pct"]} for row in rows
        ],
        "device_busy_pct": 100 * busy_ns / total_ns if has_device and total_ns else None,
        "device_wait_ms": waits_ns / 1e6 if has_device else None,
    }
