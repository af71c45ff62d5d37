"""Under which conditions something was measured, and the baseline that later measurements are held against.

tg.conditions(model, batch=x, loader=loader).save("conditions.json")
tg.baseline(tg.latency(model, x), metric="latency_ms", target=2.0).save("baseline.json")
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

from .device import device_of, tensors_in
from .series import Series, Stats, stats_of, verdict

__all__ = ["conditions", "baseline", "Record"]


class Record(dict):
    """A dictionary that can be saved as JSON and prints one line a key."""

    def save(self, path: str | os.PathLike) -> None:
        pathlib.Path(path).write_text(json.dumps(self, indent=2) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{key:<{width}}  {value}" for key, value in self.items())


# ---- conditions --------------------------------------------------------------------------------------------


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _cpu() -> dict[str, Any]:
    """Model, usable cores, clock of the first core now and at most, and what governs it; None where the system does not
    say."""
    fields: dict[str, str] = {}
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    scaling = "/sys/devices/system/cpu/cpu0/cpufreq/"
    most = _read(scaling + "cpuinfo_max_freq")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": fields.get("model name") or platform.processor() or platform.machine(),
        "cpu_cores": cores,
        "cpu_mhz": float(fields["cpu MHz"]) if "cpu MHz" in fields else None,
        "cpu_mhz_max": int(most) / 1000 if most else None,
        "cpu_governor": (_read(scaling + "scaling_governor") or "").strip() or None,
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def _gpu(torch: Any) -> dict[str, Any]:
    """Name of the first device, driver and clocks (MHz now, at most); all None without one."""
    result: dict[str, Any] = dict.fromkeys(("gpu", "gpu_driver", "gpu_mhz", "gpu_mhz_max", "gpu_memory_mhz"))
    if torch is None or not torch.cuda.is_available():
        return result
    result["gpu"] = torch.cuda.get_device_name()
    try:
        said = subprocess.run(
            [
                "nvidia-smi",
                "--query-gpu=driver_version,clocks.sm,clocks.max.sm,clocks.mem",
                "--format=csv,noheader,nounits",
            ],
            capture_output=True,
            text=True,
            timeout=10,
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return result
    if said:
        driver, now, most, memory = (part.strip() for part in said[0].split(","))
        numbers = [float(text) if text.replace(".", "", 1).isdigit() else None for text in (now, most, memory)]
        result.update(zip(("gpu_driver", "gpu_mhz", "gpu_mhz_max", "gpu_memory_mhz"), (driver, *numbers)))
    return result


def _software(torch: Any) -> dict[str, Any]:
    versions = {
        "python": platform.python_version(),
        "os": platform.platform(),
        "torch": None,
        "cuda": None,
        "cudnn": None,
        "threads": None,
        "interop_threads": None,
    }
    if torch is not None:
        versions.update(
            torch=torch.__version__,
            cuda=torch.version.cuda,
            cudnn=torch.backends.cudnn.version() if torch.cuda.is_available() else None,
            threads=torch.get_num_threads(),
            interop_threads=torch.get_num_interop_threads(),
        )
    from .. import __version__

    return {**versions, "tachograph": __version__}


def _shape_of(batch: Any) -> list[int] | None:
    return next((list(tensor.shape) for tensor in tensors_in(batch)), None)


def _dtype_of(model: Any, batch: Any) -> str | None:
    parts = model.parameters() if hasattr(model, "parameters") else ()
    tensor = next(iter(parts), None)
    tensor = tensor if tensor is not None else next(iter(tensors_in(batch)), None)
    return None if tensor is None else str(tensor.dtype).replace("torch.", "")


def conditions(model: Any = None, *, batch: Any = None, loader: Any = None, **more: Any) -> Record:
    """What decides a measurement. The nine keys of a method sheet (model, batch_size, input_shape, device, dtype, mode,
    num_workers, cudnn_benchmark, gpu), then versions, threads and clocks. A value that is not given or not known is
    None.
    `more` is added as it is."""
    torch = sys.modules.get("torch")
    shape = _shape_of(batch)
    device = device_of(model, batch)
    gpu = _gpu(torch)
    training = getattr(model, "training", None)
    sheet = {
        "model": type(model).__name__ if model is not None else None,
        "batch_size": getattr(loader, "batch_size", None) or (shape[0] if shape else None),
        "input_shape": shape,
        "device": str(device) if device is not None else None,
        "dtype": _dtype_of(model, batch),
        "mode": None if training is None else "train" if training else "eval",
        "num_workers": getattr(loader, "num_workers", None),
        "cudnn_benchmark": torch.backends.cudnn.benchmark if torch is not None else None,
        "gpu": gpu.pop("gpu"),
    }
    return Record({**sheet, **_software(torch), **gpu, **_cpu(), "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **more})


# ---- baseline ----------------------------------------------------------------------------------------------


_RATES = ("per_s", "throughput", "fps", "qps")


def _meets(s: Stats, metric: str, target: float | None) -> bool | None:
    if target is None or not s.n or s.ci95 is None:
        return None
    low, high = s.ci95
    is_rate = any(word in metric for word in _RATES)
    reached, missed = (low >= target, high < target) if is_rate else (high <= target, low > target)
    return True if reached else False if missed else None


def baseline(values: Series | Iterable[float], *, metric: str, target: float | None = None, **more: Any) -> Record:
    """The figures of a series to compare with later: mean, std, median, p95, p99, n, ci95 (of the median), and in
    `verdict` whether the series is stable enough to be compared with. values: a Series, or numbers in the unit that
    `metric` names. `met`: does the median reach the target? It is the least of a rate (a metric with per_s, throughput,
    fps or qps in its name) and the most of anything else. Where the interval of the median holds the target, or there
    is none, it is None: not known."""
    numbers = [float(value) for value in values]
    s, judged = stats_of(numbers), verdict(numbers, " ms" if isinstance(values, Series) else "")
    return Record(
        {
            "metric": metric,
            "mean": s.mean,
            "std": s.std,
            "median": s.median,
            "p95": s.p95,
            "p99": s.p99,
            "n": s.n,
            "target": target,
            "met": _meets(s, metric, target),
            "ci95": list(s.ci95) if s.ci95 else None,
            "stable": judged == "stable",
            "verdict": judged,
            **more,
        }
    )
