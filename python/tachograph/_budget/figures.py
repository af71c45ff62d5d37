"""What a recorded test cost, and whether the machine was quiet enough for its times to say something."""

from __future__ import annotations

import os
import time
from typing import Any

from .._collect.machine_use import core_wait_ns
from .._measure.series import percentile

# As the report: beyond these, times depend on the machine as much as on the program.
BUSY_PCT = 5.0
LEAST_FOREIGN, LEAST_FREE = 0.25, 0.5  # cores: what runs on any machine, and what others leave beside the program


class Load:
    """What other programs did to this machine between begin() and end()."""

    def begin(self) -> None:
        self._wall_ns, self._wait_ns, self._busy_s, self._own_s = _now()

    def end(self) -> None:
        wall_ns, wait_ns, busy_s, own_s = _now()
        spent_ns = max(wall_ns - self._wall_ns, 1)
        known = wait_ns is not None and self._wait_ns is not None
        self.wait_pct = 100 * (wait_ns - self._wait_ns) / spent_ns if known else 0.0  # type: ignore[operator]
        self.cores = os.cpu_count() or 1
        self.own_cores = (own_s - self._own_s) * 1e9 / spent_ns
        self.others_cores: float | None = None
        if busy_s is not None and self._busy_s is not None:
            self.others_cores = max(0.0, (busy_s - self._busy_s) * 1e9 / spent_ns - self.own_cores)

    @property
    def busy(self) -> bool:
        """The thread waited for a core while others used some, or they left less than half a core free. Threads of the
        program itself that wait for each other are its own matter."""
        waited = self.wait_pct > BUSY_PCT
        if self.others_cores is None:
            return waited
        is_full = self.others_cores + self.own_cores > self.cores - LEAST_FREE
        return (waited and self.others_pct > BUSY_PCT) or (is_full and self.others_cores > LEAST_FOREIGN)

    @property
    def others_pct(self) -> float:
        return 100 * (self.others_cores or 0.0) / self.cores

    def words(self) -> str:
        others = "" if self.others_cores is None else f", and other programs used {self.others_pct:.0f} % of all cores"
        return f"the test had no core for {self.wait_pct:.0f} % of its time{others}"


def _now() -> tuple[int, int | None, float | None, float]:
    """Wall time, waiting of this thread for a core, CPU time of the whole machine and of this process."""
    busy_s = None
    try:
        with open("/proc/stat") as file:
            ticks = [int(word) for word in file.readline().split()[1:]]
        busy_s = (sum(ticks[:8]) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # without idle and iowait
    except (OSError, ValueError, IndexError):
        pass
    return time.perf_counter_ns(), core_wait_ns(), busy_s, sum(os.times()[:4])


def figures(trace: Any, wanted: set[str]) -> dict[str, float]:
    """The quantities by name. A recording without steps counts as one."""
    rows = list(trace.ask("steps"))
    steps_ns = [row["total_ns"] for row in rows]
    count = len(steps_ns) or 1
    found: dict[str, float] = {}
    for name, percent in (("step_p50", 50), ("step_p90", 90), ("step_p99", 99), ("step_max", 100)):
        if name in wanted:
            found[name] = percentile(steps_ns, percent)
    if "step_mean" in wanted:
        found["step_mean"] = sum(steps_ns) / count
    if "kernels" in wanted:
        found["kernels"] = sum(row["device_events"] or 0 for row in rows) / count
    if "ops" in wanted:
        found["ops"] = sum(row["calls"] for row in trace.ask("ops")) / count
    if wanted & {"allocs", "alloc_bytes"}:
        devices = list(trace.ask("memory"))
        found["allocs"] = sum(row["allocations"] or 0 for row in devices) / count
        found["alloc_bytes"] = sum(row["alloc_bytes"] or 0 for row in devices) / count
    if "peak_bytes" in wanted:
        found["peak_bytes"] = max((row["peak_net_bytes"] or 0 for row in trace.ask("memory")), default=0)
    return {name: figure for name, figure in found.items() if name in wanted}
